# SPDX-License-Identifier: Apache-2.0
"""A sale of a thousand units is sold out, and all thousand orders are cancelled while people go on asking three access processes: every unit is sold
again, once; the time from a cancel's commit to the unit's next sale is told, P99 at most a second; nobody hears a final no but SOLD_OUT."""
import asyncio
import collections
import json
import sys
import time

sys.dont_write_bytecode = True

from sale import PATIENCE, Sale, read_answer, right, same, tell, until

UNITS, ASKERS = 1000, 10
LIMIT_MS = 1000 * PATIENCE


async def post(port, target, body, streams):
    reader, writer = streams.get(port) or await asyncio.open_connection("127.0.0.1", port)
    streams[port] = (reader, writer)
    data = json.dumps(body).encode() if body is not None else b""
    writer.write(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (target.encode(), len(data), data))
    return await asyncio.wait_for(read_answer(reader), 30)


class Crowd:
    def __init__(self, ports):
        self.ports, self.codes, self.sold, self.end = ports, collections.Counter(), 0, time.monotonic() + 90 * PATIENCE

    async def asks(self, n, port, who):
        """One after another, each until he has a unit."""
        streams, user, wants = {}, 0, True
        while wants and self.sold < UNITS and time.monotonic() < self.end:
            name = f"p{n}-{who}-{user}"
            answer = await post(port, "/v1/reservations", {"activity_id": "again", "sku_id": "sku_again", "request_id": "r", "user_id": name}, streams)
            self.codes[answer["code"]] += 1
            if answer["code"] == "QUEUED":
                self.sold += 1
                user += 1
            else:
                await asyncio.sleep(0.01)

    async def cancels(self, orders):
        streams = {}
        for user, order in orders:
            answer = await post(self.ports[0], f"/v1/orders/{order}/cancel?user_id={user}", None, streams)
            while answer.status == 503:
                answer = await post(self.ports[0], f"/v1/orders/{order}/cancel?user_id={user}", None, streams)
            same(f"the cancel of {order}", (answer.status, answer["status"]), (200, "CANCELED"))

    async def run(self, orders):
        asking = [asyncio.create_task(self.asks(n, port, who)) for n, port in enumerate(self.ports) for who in range(ASKERS)]
        await asyncio.sleep(1)    # every process knows by itself that all is sold
        began = time.monotonic()
        await asyncio.gather(*(self.cancels(orders[i::16]) for i in range(16)))
        self.cancel_s = time.monotonic() - began
        await asyncio.gather(*asking)


def quantile(sorted_ms, q):
    return sorted_ms[min(len(sorted_ms) - 1, int(len(sorted_ms) * q))]


def resold(sale):
    """A thousand cancelled orders: every unit is sold again, once, within a second of its cancel at P99, on each of three access processes"""
    ports = [sale.port, sale.serve("access")[1], sale.serve("access")[1]]
    sale.activity("again", UNITS)
    for port in ports:
        until("the process knows the activity", 10, lambda: sale.get("/v1/activities/again", port=port).status == 200)
    sale.crowd([{"activity_id": "again", "sku_id": "sku_again", "request_id": "r", "user_id": f"first{i}"} for i in range(UNITS)])
    until("all is ordered", 60, lambda: sale.orders("again") == UNITS)
    sale.sold_out("again", "late")
    sale.drain()
    orders = sale.sql("select user_id, order_id from orders where activity_id = 'again' order by unit")
    crowd = Crowd(ports)
    asyncio.run(crowd.run(orders))
    same("sold again", crowd.sold, UNITS)
    right(f"what people heard: {dict(crowd.codes)}", set(crowd.codes) <= {"QUEUED", "SOLD_OUT", "STOCK_MOVING"})
    until("all is ordered again", 60, lambda: sale.orders("again") == 2 * UNITS)
    same("each unit twice, at two generations, once standing", sale.sql(
        "select count(*), count(distinct unit), count(*) filter (where status = 'CANCELED'), count(distinct unit) filter (where status <> 'CANCELED') "
        "from orders where activity_id = 'again'"), [[str(2 * UNITS), str(UNITS), str(UNITS), str(UNITS)]])
    rows = sale.sql("select split_part(n.user_id, '-', 1), extract(epoch from x.created_at - c.canceled_at) * 1000 from orders c "
                    "join orders n on n.unit = c.unit and n.generation = c.raised join consumer_inbox x on x.reservation_id = n.reservation_id where c.activity_id = 'again'")
    same("units followed from cancel to sale", len(rows), UNITS)
    print(f"    cancels took {crowd.cancel_s:.2f} s; answers {dict(crowd.codes)}")
    for who in ["p0", "p1", "p2", None]:
        ms = sorted(float(t) for p, t in rows if who in (None, p))
        right(f"process {who} sold some", ms)
        print(f"    cancel to next sale, {who or 'all'}: {len(ms)} units, p50 {quantile(ms, .5):.0f} ms, p99 {quantile(ms, .99):.0f} ms, max {ms[-1]:.0f} ms")
        right(f"P99 of {who or 'all'} is at most {LIMIT_MS:.0f} ms: {quantile(ms, .99):.0f}", quantile(ms, .99) <= LIMIT_MS)
    sale.drain()
    sale.sold_out("again", "stranger")
    sale.proved("again", sold=UNITS)


STORIES = [resold]

if __name__ == "__main__":
    sys.exit(tell(Sale(), STORIES))

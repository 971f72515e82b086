# SPDX-License-Identifier: Apache-2.0
"""C-16: a backlog drains within the time that the plan computes. Nobody consumes while a crowd reserves everything; then the order role goes on.
The first backlog measures the rate; the second, larger one is held against `seckill plan` with that rate less its headroom (mission §12.8, §12.10)."""
import json
import subprocess
import sys

sys.dont_write_bytecode = True    # the checkout stays clean

from sale import PATIENCE, SECKILL, Sale, right, same, tell, until, url_port

FIRST, SECOND = 4000, 10000
HEADROOM = 0.5    # mission §12.10: the rate that is planned with is the measured one less about half of the plan's
LINE = "drain_from_rest"

rate = 0.0    # orders a second, measured by the first story


def wait_in_the_broker(sale, activity, units):
    """The crowd comes while the order role stands; gives the crowd's process, which waits for its verdicts."""
    sale.activity(activity, units)
    sale.stall("order")
    crowd = subprocess.Popen([SECKILL, "rush", "--activity", activity, "--sku", f"sku_{activity}", "--users", str(units), "--retries", "0", "--connections", "64",
                              "--patience", "60"], env=sale.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sale.extra.append(crowd)
    until(f"{units} are reserved", 60, lambda: sale.count(sale.key(activity, "pending")) == units)
    same("orders while nobody consumes", sale.orders(activity), 0)
    return crowd


def drained(sale, activity, units):
    """Seconds from the first order to the last, by the database's own clock."""
    sale.wake()
    until(f"{units} orders", 60, lambda: sale.orders(activity) == units)
    return float(sale.value(f"select extract(epoch from max(created_at) - min(created_at)) from orders where activity_id = '{activity}'"))


def end(sale, crowd):
    code = crowd.wait(90)
    sale.extra.remove(crowd)
    same("the crowd's own audit", code, 0)


def planned(sale, units, orders_a_second):
    """What the plan says for this sale and that rate."""
    code, text = sale.do("plan", "-o", "json", "--set", f"sale.stock={units},sale.skus=1,sale.stray=0,capacity.order={orders_a_second:.3f}")
    same("the plan", code, 0)
    return next(line["value"] for line in json.loads(text)["lines"] if line["name"] == LINE)


def measured(sale):
    """A first backlog measures how many orders a second are made"""
    global rate
    crowd = wait_in_the_broker(sale, "first", FIRST)
    seconds = drained(sale, "first", FIRST)
    end(sale, crowd)
    rate = FIRST / max(seconds, 0.001)
    print(f"    {FIRST} messages in {seconds:.2f} s: {rate:.0f} orders a second")


def held(sale):
    """A backlog of ten thousand drains within its computed time"""
    right("the first backlog has told a rate", rate > 0)
    allowed = planned(sale, SECOND, rate / (1 + HEADROOM)) * PATIENCE
    crowd = wait_in_the_broker(sale, "second", SECOND)
    seconds = drained(sale, "second", SECOND)
    print(f"    {SECOND} messages in {seconds:.2f} s; by the plan {planned(sale, SECOND, rate):.2f} s, with headroom {allowed:.2f} s")
    right(f"drained in {seconds:.2f} s, allowed {allowed:.2f} s", seconds <= allowed)
    end(sale, crowd)
    sale.proved("second", sold=SECOND)


def endless(sale):
    """Where as many come as are consumed, the plan says that it never ends"""
    same("the time", planned(sale, SECOND, 0.001) > 1e6, True)
    code, text = sale.do("plan", "-o", "json", "--set", "capacity.order=100,sale.stray=100")
    same("the plan", code, 0)
    line = next(line for line in json.loads(text)["lines"] if line["name"] == "backlog_drain")
    same("never", (line["value"], line["never"]), (None, True))


SMALL = "sale.peak=100,sale.skus=1,sale.stock=100,zone.count=2"


def beside(sale):
    """The plan beside what runs: good where it is enough, 99 and the lines where it is not, 4 where nobody answers"""
    doors = []
    for _ in range(2):
        doors.append(f"127.0.0.1:{sale.free_port()}")
        sale.serve("access,order,relay,janitor", SECKILL_HEALTH_LISTEN=doors[-1])
    for door in doors:
        until(f"{door} answers", 20, lambda: sale.listens(url_port(door)))
    code, text = sale.do("plan", "--check", "-o", "json", "--set", SMALL, "--at", ",".join(doors), "--at", doors[0])
    found = {line["name"]: line for line in json.loads(text)["findings"]}
    same("processes counted, each once", [found[role]["has"] for role in ("access", "order", "relay", "janitor")], [2, 2, 2, 2])
    same("what is below a small plan", [name for name, line in found.items() if line["verdict"] == "below"], [])
    same("its exit code", code, 0)
    code, text = sale.do("plan", "--check", "-o", "json", "--at", ",".join(doors))
    below = {line["name"] for line in json.loads(text)["findings"] if line["verdict"] == "below"}
    right(f"below the mission's plan: {below}", {"access", "zone", "order", "in_flight", "connections"} <= below)
    same("its exit code", code, 99)
    same("nobody there", sale.do("plan", "--check", "--at", f"{doors[0]},127.0.0.1:1")[0], 4)


STORIES = [measured, held, endless, beside]

if __name__ == "__main__":
    sys.exit(tell(Sale(), STORIES))

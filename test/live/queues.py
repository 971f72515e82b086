# SPDX-License-Identifier: Apache-2.0
"""What may befall the broker's queues and those who read them, on the real broker and the real ledger (docs/protocol.md §9 has the table; the same at
every moment of a sale on imagined engines: test/scenario/queues.c). Each time: everybody's reservation ends as one order, nothing is skipped,
nothing is doubled, the audit finds nothing, and an operator is told.

One reader lives from the first story to the last. What the broker has lost unread is announced again by the janitor, 45 s later: that story begins
first and ends last.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import broker
from road_buy import forged
from sale import Sale, right, same, state_of, tell, until


class Reader:
    """A process with the order role alone, whose numbers and log can be asked for."""

    def __init__(self, sale):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.health = s.getsockname()[1]
        self.sale = sale
        self.process, port = sale.serve("order", SECKILL_HEALTH_LISTEN=f"127.0.0.1:{self.health}")
        self.log = sale.dir / f"serve-{port}.log"
        until("the reader answers", 20, lambda: sale.listens(self.health))

    def number(self, metric):
        lines = self.sale.get("/metrics", port=self.health).text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"seckill_{metric}_total"))

    def said(self, event):
        return self.log.read_text(errors="replace").count(f'"event":"{event}"')

    def stop(self):
        os.kill(self.process.pid, signal.SIGSTOP)
        until("it stands", 5, lambda: state_of(self.process.pid) == "T")

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def leave(self):
        self.process.terminate()
        self.process.wait(20)
        self.sale.extra.remove(self.process)


def first(sale):
    """The reader that is always there; where a story failed, its processes were ended, and this one begins anew."""
    if getattr(sale, "reader", None) is None or sale.reader.process.poll() is not None:
        sale.reader = Reader(sale)
    return sale.reader


class Told:
    """What readers have counted and logged since."""

    def __init__(self, *readers):
        self.readers = readers
        self.before = {m: sum(r.number(m) for r in readers) for m in ("queue_lost", "queue_reread", "parked", "consumed")}
        self.logged = {e: sum(r.said(e) for r in readers) for e in ("queue_identity_changed", "queue_moved_by_another", "batch_lost", "message_parked", "leases_lapsed")}

    def number(self, metric):
        return sum(r.number(metric) for r in self.readers) - self.before[metric]

    def said(self, event):
        return sum(r.said(event) for r in self.readers) - self.logged[event]


def bodies(activity, start, count):
    return [{"activity_id": activity, "sku_id": f"sku_{activity}", "request_id": f"r-u{i}", "user_id": f"u{i}"} for i in range(start, start + count)]


def bought(sale, activity, start, count):
    """So many people hold a reservation; gives their ids."""
    held = {}
    first(sale)

    def ask():
        asked = [b for b in bodies(activity, start, count) if b["user_id"] not in held]
        for body, answer in zip(asked, sale.crowd(asked)):
            if answer and answer["code"] in ("QUEUED", "ORDERED"):
                held[body["user_id"]] = answer["reservation_id"]
        return len(held) == count
    until(f"{count} people hold a reservation of {activity}", 30, ask)
    return held


def orders_of(sale):
    return sorted(sale.sql("select order_id, reservation_id, user_id, inventory_token_id, created_at from orders"))


def all_ordered(sale, activity, count, seconds=20):
    until(f"{count} orders of {activity}", seconds, lambda: sale.orders(activity) == count)
    sale.drain()
    sale.proved(activity, sold=count)


def topics_made(sale):
    """As an operator does after a loss: `seckill migrate` makes what is missing."""
    code, _ = sale.do("migrate")
    right(f"migrate: {sale.said}", code == 0)
    sale.broker.queues = 8


def ends(sale):
    return [sale.broker.end(broker.CREATE, q) for q in range(sale.broker.queues)]


# ---- the stories ---------------------------------------------------------------------------------------------------------------------------

def said_to_be_another(told):
    """A queue that now ends before what was read is found by the pull that is answered next: perhaps after all the new messages, which may lie in others."""
    until("a queue is said to be another", 30, lambda: told.number("queue_reread") >= 1 and told.said("queue_identity_changed") >= 1)


def store_wiped(sale):
    """The broker's store is wiped with messages in it that nobody has read: its queues are read from their beginning, and that is said"""
    sale.activity("wiped", 40)
    bought(sale, "wiped", 0, 20)
    all_ordered(sale, "wiped", 20)
    told = Told(first(sale))
    first(sale).stop()
    began = time.monotonic()
    sale.unread = bought(sale, "wiped", 20, 20)
    until("their messages are stored", 10, lambda: sum(ends(sale)) >= 40)
    # Whose message is not known to be stored is announced again within seconds, and would be ordered after all.
    until("and known to be", 20, lambda: all(sale.reservation(u, r)["status"] == "PUBLISHED" for u, r in sale.unread.items()))
    sale.stack("kill", "broker")
    shutil.rmtree(sale.run / "rocketmq/store")
    sale.stack("up", "broker")
    sale.connect()
    topics_made(sale)
    first(sale).go_on()
    said_to_be_another(told)
    orders = sale.orders("wiped")
    right(f"orders: {orders}", orders == 20 or time.monotonic() - began > 45)    # from then on they come back


def queues_added(sale):
    """Queues are added while it sells; a message lies in one of them before anybody knows of it"""
    sale.broker.widen(broker.CREATE, 12)
    sale.broker.send(broker.CREATE, b'{"schema_version":1,"early":true}', "early", 9)
    sale.activity("wide", 100)
    bought(sale, "wide", 0, 20)


def poison(sale):
    """Poison before, between and after good messages, in every queue at once: it is put before a person, and all the good ones are ordered"""
    sale.activity("spoilt", 30)
    model = next(sale.broker.read(broker.CREATE))
    told = Told(first(sale))
    first(sale).stop()
    kinds = {"MESSAGE_UNREADABLE": lambda q, n: b'{"schema_version":1,"spoilt":%d}' % (q * 10 + n), "MESSAGE_TOO_NEW": lambda q, n: b'{"schema_version":2,"n":%d}' % (q * 10 + n)}
    sent = {"MESSAGE_UNREADABLE": 0, "MESSAGE_TOO_NEW": 0}

    def spoil(round_):
        for q in range(8):
            for why, make in kinds.items():
                sale.broker.send(broker.CREATE, make(q, round_), "spoilt", q)
                sent[why] += 1
            wrong = forged(model, q * 10 + round_)    # well-formed, but its message id is another's
            wrong["message_id"] = model.json["message_id"]
            sale.broker.send(broker.CREATE, json.dumps(wrong).encode(), "spoilt", q)
            sent["MESSAGE_UNREADABLE"] += 1
    spoil(0)
    bought(sale, "spoilt", 0, 15)
    spoil(1)
    bought(sale, "spoilt", 15, 15)
    spoil(2)
    first(sale).go_on()
    all_ordered(sale, "spoilt", 30, 60)    # some lie in the queues that were just added: they are found when the route is asked again, within 30 s
    same("put before a person", {w: int(sale.value(f"select count(*) from review where reason = '{w}' and message_key = 'spoilt'")) for w in sent}, sent)
    right("counted and logged", min(told.number("parked"), told.said("message_parked")) >= sum(sent.values()))
    same("dead letters", sum(1 for m in sale.broker.read(broker.DEAD) if m.key == "spoilt"), sum(sent.values()))


def replayed(sale):
    """An operator puts every offset back to 0 in a rush, and later beyond the end: all is read again, not an order changes"""
    sale.activity("again", 100)
    bought(sale, "again", 0, 50)
    all_ordered(sale, "again", 50)
    before, told = orders_of(sale), Told(first(sale))
    sale.sql("update consumer_offset set next = 0, identity = ''")
    bought(sale, "again", 50, 50)
    until("all is read again", 20, lambda: told.number("consumed") >= sum(ends(sale)))
    all_ordered(sale, "again", 100)
    same("the orders that stood", [o for o in orders_of(sale) if o in before], before)
    right("that somebody moved the offsets is said", told.said("queue_moved_by_another") + told.said("batch_lost") >= 1)

    before, told = orders_of(sale), Told(first(sale))
    sale.sql("update consumer_offset set next = next + 1000")
    until("queues that end before we stand are read from their beginning", 20, lambda: told.number("queue_reread") >= 8)
    sale.drain()
    # Those of the store that was wiped are announced again after their 45 s, and may be ordered just now.
    same("the orders that stood then", [o for o in orders_of(sale) if o in before], before)
    until("that is said", 20, lambda: told.said("queue_identity_changed") >= 8)
    sale.proved("again", sold=100)


TEAR = "with gone as (delete from seckill.consumer_member) update seckill.consumer_offset set owner = null, leased_until = null \\watch 0.1\n"


def psql(sale, text):
    """A session that stays, after it has been told this."""
    session = subprocess.Popen(["psql", "-X", "-q", sale.environ["SECKILL_POSTGRES_URL"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    session.stdin.write(text)
    session.stdin.flush()
    return session


def two_readers(sale):
    """Two readers on one queue: somebody takes their leases away ten times a second, and the offset alone decides"""
    sale.activity("torn", 4000)
    told, sold = Told(first(sale), Reader(sale)), 0
    session = psql(sale, TEAR)
    try:
        while sold < 200 or (told.number("queue_lost") < 1 and sold < 4000):
            bought(sale, "torn", sold, 20)
            sold += 20
            until(f"{sold} orders", 30, lambda: sale.orders("torn") == sold)
    finally:
        session.kill()
        session.communicate()
    all_ordered(sale, "torn", sold)
    right("they met, and who came second was refused", told.number("queue_lost") >= 1 and told.said("batch_lost") >= 1)
    told.readers[1].leave()


def zombie(sale):
    """A reader is stopped with messages in its hands, another takes over, and the first goes on: it finds out, and decides nothing"""
    sale.activity("stopped", 100)
    first(sale)
    other = Reader(sale)
    held = f"select count(*) from consumer_offset where owner like '%-{other.process.pid}-%' and leased_until > now()"
    until("it holds its half of the queues", 15, lambda: int(sale.value(held)) >= sale.broker.queues // 2)    # those of a reader that has left are its own for 3 s more
    told = Told(other)
    lock = psql(sale, "begin;\nselect next from seckill.consumer_offset for update;\n\\echo locked\n")
    while "locked" not in lock.stdout.readline():
        pass
    bought(sale, "stopped", 0, 40)    # their batches wait for the lock
    time.sleep(0.3)
    bought(sale, "stopped", 40, 40)   # and these are read behind them
    time.sleep(0.7)
    other.stop()
    lock.communicate("commit;\n")
    until("another has taken over and ordered all", 15, lambda: sale.orders("stopped") == 80)
    until("its leases are over", 15, lambda: sale.value(held) == "0")
    sale.drain()
    before, stand = orders_of(sale), sale.sql("select queue, next from consumer_offset order by queue")
    other.go_on()
    until("it says that it was away", 15, lambda: told.said("leases_lapsed") >= 1)
    time.sleep(1.5)
    sale.drain()
    same("the orders that stood then", [o for o in orders_of(sale) if o in before], before)
    same("offsets", sale.sql("select queue, next from consumer_offset order by queue"), stand)
    until("it has its share again", 15, lambda: int(sale.value("select count(distinct owner) from consumer_offset where leased_until > now()")) == 2)
    bought(sale, "stopped", 80, 20)
    all_ordered(sale, "stopped", 100)
    other.leave()


def added_queues_read(sale):
    """The queues that were added are read by the reader that was there before them, from their first message on"""
    bought(sale, "wide", 20, 80)
    all_ordered(sale, "wide", 100, 30)
    def read():
        return int(sale.value(f"select count(*) from consumer_offset where topic = '{broker.CREATE}' and queue >= 8 and owner is not null and leased_until > now()")) == 4
    until("it holds them all", 40, read)
    right("and the early message was not skipped", sale.value("select count(*) from review where message_key = 'early'") == "1")
    sale.drain()


def topic_made_again(sale):
    """The topic is deleted and made again, before the eyes of a reader and behind one that is stopped: both read it from its beginning"""
    sale.activity("anew", 60)
    bought(sale, "anew", 0, 20)
    all_ordered(sale, "anew", 20)
    told = Told(first(sale))
    sale.broker.delete(broker.CREATE)
    topics_made(sale)
    bought(sale, "anew", 20, 20)
    all_ordered(sale, "anew", 40)
    said_to_be_another(told)

    told, old = Told(first(sale)), ends(sale)
    first(sale).stop()
    time.sleep(3.2)    # longer than a lease
    sale.broker.delete(broker.CREATE)
    topics_made(sale)
    bought(sale, "anew", 40, 20)
    until("their messages are stored", 15, lambda: sum(ends(sale)) >= 20)
    copy = next(sale.broker.read(broker.CREATE))
    for q, end in enumerate(old):    # every queue grows past where it had been read to
        for _ in range(end + 2):
            sale.broker.send(broker.CREATE, copy.body, copy.key, q)
    first(sale).go_on()
    all_ordered(sale, "anew", 60, 15)    # long before the janitor would have announced them again
    said_to_be_another(told)


def older_copy(sale):
    """The broker's store is wiped and restored from a copy made a while ago: other messages under offsets that were read"""
    store = sale.run / "rocketmq/store"
    sale.activity("copy", 90)
    bought(sale, "copy", 0, 30)
    all_ordered(sale, "copy", 30)
    sale.stack("kill", "broker")
    subprocess.run(["cp", "-a", "--sparse=always", store, sale.dir / "copy"], check=True)
    sale.stack("up", "broker")
    sale.connect()
    bought(sale, "copy", 30, 30)
    all_ordered(sale, "copy", 60, 30)
    before, told = orders_of(sale), Told(first(sale))
    sale.stack("kill", "broker")
    shutil.rmtree(store)
    shutil.move(sale.dir / "copy", store)
    sale.stack("up", "broker")
    sale.connect()
    bought(sale, "copy", 60, 30)
    all_ordered(sale, "copy", 90, 30)
    same("the orders that stood", [o for o in orders_of(sale) if o in before], before)
    said_to_be_another(told)


def the_unread_come_back(sale):
    """What was wiped unread has been announced again: those people have their orders, and the whole shop is in order"""
    until("everybody is ordered", 60, lambda: sale.orders("wiped") == 40)
    rows = dict(sale.sql("select user_id, reservation_id from orders where activity_id = 'wiped'"))
    same("by the reservations they held", {u: rows[u] for u in sale.unread}, sale.unread)
    sale.drain()
    sale.proved("wiped", sold=40)
    sale.proved()


STORIES = [store_wiped, queues_added, poison, replayed, two_readers, zombie, added_queues_read, topic_made_again, older_copy, the_unread_come_back]

if __name__ == "__main__":
    wanted = [s for s in STORIES if s.__name__ in sys.argv[1:]] if len(sys.argv) > 1 else STORIES
    sale = Sale("access relay janitor admin")
    first(sale)
    sys.exit(tell(sale, wanted))

# SPDX-License-Identifier: Apache-2.0
"""A Redis that forgets, in the middle of a sale (protocol §2). It is killed and comes back; it loses its last second; it was somebody's replica for a
while; a replica that lagged takes its place. Each time the bucket closes by itself, everything that it must hold is told again, it opens without
hands, the sale goes on to the last unit, nobody has two, nothing is sold twice, and the audit finds nothing. And whoever heals it may die at it.

  rollback.py [--seed N] [STORY...]
"""
import argparse
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True

from sale import OPEN, PATIENCE, ROOT, SECKILL, Redis, Sale, right, same, tell, until
from shoppers import Shoppers

UNITS, FIRST, USERS = 300, 200, 700    # so many people come before it happens
chance = random.Random(1)


def path_of(sale):
    return sale.environ["SECKILL_REDIS_URL"].removeprefix("unix:")


def said(sale, event):
    """The log lines of that event, of every process."""
    lines = []
    for log in [*(sale.run / "log").glob("*.log"), *sale.dir.glob("*.log")]:
        lines += [json.loads(line) for line in log.read_text(errors="replace").splitlines() if f'"event":"{event}"' in line and line.endswith("}")]
    return lines


def keys(sale, name, what):
    return sale.redis("KEYS", f"sk:{{{name}:*}}:1:{what}")


def closed(sale, name):
    """The marks of its buckets that are closed."""
    return [mark for key in keys(sale, name, "meta") if (mark := sale.redis("HGET", key, "closed"))]


def buys(sale, name, user):
    """He asks until he is let in, and has his order."""
    until(f"{user} is let in", 15, lambda: sale.buy(name, user)["code"] in ("QUEUED", "ORDERED"))
    until(f"{user} has an order", 30, lambda: sale.buy(name, user)["code"] == "ORDERED")


def healthy(sale, name):
    """Every bucket is open, and the ledger knows the server that it is in."""
    info = sale.redis("INFO", "server") + sale.redis("INFO", "replication")
    here = "-".join(re.search(rb"%s:(\w{20})" % word, info)[1].decode() for word in (b"run_id", b"master_replid"))
    recorded = [row[0] for row in sale.sql(f"select incarnation from bucket where activity_id = '{name}'")]
    return not closed(sale, name) and recorded and set(recorded) == {here}


class Shop:
    """A sale in two buckets and its crowd; when it is over all must be well."""

    def __init__(self, sale, name):
        self.sale, self.name = sale, f"{name}_{chance.randrange(10**6)}"
        sale.activity(self.name, UNITS, buckets=2)
        self.crowd = Shoppers(sale, chance.random(), workers=16, units=UNITS, users=USERS, patience=60)
        self.crowd.open(self.name, [f"u{i}" for i in range(FIRST)])

    def more(self, users=USERS):
        """The other half comes, once something has happened."""
        self.crowd.open(self.name, [f"u{i}" for i in range(FIRST, users)])

    def until_sold(self, units):
        until(f"{units} units are sold", 30, lambda: self.sale.orders(self.name) >= units)

    def opened(self):
        """For how long its buckets were closed, each time: who has opened one says so a moment later."""
        return [line["closed_ms"] for line in said(self.sale, "bucket_opened") if line["activity_id"] == self.name]

    def ends_well(self, closings=1):
        until(f"two buckets were closed {closings} times, healed, and are open", 30, lambda: healthy(self.sale, self.name) and len(self.opened()) >= 2 * closings)
        times = self.opened()
        self.crowd.finish(60)
        queued, released = self.crowd.end(60)
        self.holds_all()
        print(f"    closed for {min(times)} to {max(times)} ms, {len(times)} times; {queued} heard QUEUED, {released} of them RELEASED; "
              f"{self.crowd.heard.most_common(6)}", flush=True)

    def holds_all(self):
        """Whoever has an order is known to Redis again."""
        users = {u.decode() for key in keys(self.sale, self.name, "users") for u in self.sale.redis("HKEYS", key)}
        rows = [row[0] for row in self.sale.sql(f"select user_id from orders where activity_id = '{self.name}'")]
        same("orders", (len(rows), len(set(rows))), (UNITS, UNITS))
        same("people with an order whom Redis does not know", [u for u in rows if u not in users][:5], [])


def restarted(sale):
    """Redis is killed and comes back with its data: another life, so its buckets close, are healed and open, and the sale goes on"""
    shop = Shop(sale, "restarted")
    shop.until_sold(UNITS // 4)
    sale.stack("kill", "redis")
    shop.more()
    sale.stack("up", "redis")
    sale.redis = Redis(path_of(sale))
    shop.ends_well()


def planned_restart(sale):
    """Redis is stopped in good order, stays away for a while and comes back with all its data: its buckets are open and sell within a second"""
    name = f"planned_{chance.randrange(10**6)}"
    sale.activity(name, 2000, buckets=2)
    for i in range(20):
        sale.queued(name, f"before{i}")
    sale.drain()
    sale.stack("down", "redis")
    time.sleep(3)    # long enough for everybody to look for it as seldom as ever
    sale.stack("up", "redis")
    sale.redis = Redis(path_of(sale))
    back = time.monotonic()
    until("the first buyer is let in", 2, lambda: sale.buy(name, "first")["code"] == "QUEUED")
    print(f"    the first buyer was let in {time.monotonic() - back:.2f} s after Redis answered", flush=True)
    until("both buckets have been opened", 2, lambda: len([1 for line in said(sale, "bucket_opened") if line["activity_id"] == name]) == 2)
    times = [line["closed_ms"] for line in said(sale, "bucket_opened") if line["activity_id"] == name]
    right(f"closed for no more than a second: {times}", max(times) <= 1000 * PATIENCE)
    same("who had ordered before", sale.buy(name, "before3")["code"], "ORDERED")
    sale.drain()
    sale.proved(name, 21)


def key_deleted(sale):
    """A key of a bucket is deleted: the bucket closes, is indexed and told again, and opens by itself; what is undecided stays known, and nobody hears SOLD_OUT"""
    name = f"deleted_{chance.randrange(10**6)}"
    sale.activity(name, 30)
    for i in range(5):
        sale.ordered(name, f"before{i}")
    sale.drain()

    def opened():
        return [line["closed_ms"] for line in said(sale, "bucket_opened") if line["activity_id"] == name]
    sale.stall("order")    # nothing is decided now
    waiting = {f"waits{i}": sale.queued(name, f"waits{i}") for i in range(5)}
    same("pending is deleted", sale.redis("DEL", sale.key(name, "pending")), 1)
    until("the bucket was recovered", 10, lambda: len(opened()) == 1 and not closed(sale, name))
    same("who has something undecided", {u.decode() for u in sale.bucket(name)["pending"][::2]}, set(waiting))
    sale.wake()
    for user, reservation in waiting.items():
        same(f"what became of {user}'s reservation", sale.verdict(user, reservation)["status"], "ORDERED")
    sale.drain()
    same("the free units are deleted", sale.redis("DEL", sale.key(name, f"free:sku_{name}")), 1)

    def let_in():
        answer = sale.buy(name, "after")
        right(f"who buys while the free units are missing: {answer}", answer["code"] in ("QUEUED", "UNCERTAIN", "RESERVATION_PAUSED"))
        return answer["code"] == "QUEUED"
    until("the next buyer is let in", 10, let_in)
    same("how often it was closed", len(opened()), 2)
    why = {line["error_class"]: line["lost_keys"] for line in said(sale, "bucket_closed") if line["activity_id"] == name}
    same("why", why, {"STRUCTURE_LOST": f"free:sku_{name}"})
    for i in range(19):
        buys(sale, name, f"last{i}")
    sale.sold_out(name, "late")
    sale.drain()
    sale.proved(name, 30)


def unsafe_settings(sale):
    """A Redis that may evict, or keeps no file, is named by readiness, by check-config --live and in the log; no sale begins on one that evicts"""
    def ready(line):
        return lambda: line in sale.get("/readyz?verbose", port=sale.admin_port).text
    until("good settings are named", 15, ready("[+] redis settings"))
    code, said_live = sale.do("check-config", "--live", "-o", "json")
    same("check-config --live", (code, [(f["name"], f["result"]) for f in json.loads(said_live)["live"]]),
         (0, [("redis", "good"), ("bus", "good"), ("postgresql", "good"), ("redis settings", "good")]))
    name = f"unsafe_{chance.randrange(10**6)}"
    body = {"activity_id": name, "starts_at": OPEN[0], "ends_at": OPEN[1], "skus": [{"sku_id": f"sku_{name}", "stock": 8, "price": 100, "currency": "CNY"}]}
    same("created", sale.admin("POST", "", body).status, 201)
    sale.redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "appendonly", "no")
    try:
        until("readiness says so", 15, ready("[-] redis settings: maxmemory-policy is allkeys-lru: it may delete keys of a sale; set noeviction; appendonly is no"))
        same("the process is ready all the same", sale.get("/readyz", port=sale.admin_port).status, 200)
        warmed = sale.admin("POST", f"/{name}/warm", "")
        same("warm", (warmed.status, warmed["code"]), (409, "CONFLICT"))
        right(f"why: {warmed}", "maxmemory-policy" in warmed["detail"])
        code, text = sale.do("check-config", "--live")
        right(f"check-config --live: {code} {text[-500:]}", code == 5 and "[-] redis settings: maxmemory-policy is allkeys-lru" in text)
        code, text = sale.do("check-config", "--live", "--redis-allow-eviction")
        same("where it is allowed", code, 0)
        right("the log says so", any("allkeys-lru" in line["detail"] for line in said(sale, "redis_unsafe")))
    finally:
        sale.redis("CONFIG", "SET", "maxmemory-policy", "noeviction", "appendonly", "yes")
    until("readiness knows that it was mended", 15, ready("[+] redis settings"))
    same("warm again", sale.admin("POST", f"/{name}/warm", "").status, 200)
    sale.redis("CONFIG", "SET", "min-replicas-to-write", "1")    # from now on it refuses to write
    try:
        code, text = sale.do("check-config", "--live")
        right(f"check-config --live: {code} {text[-500:]}", code == 4 and "[-] redis: ENGINE_BUSY (NOREPLICAS" in text)
    finally:
        sale.redis("CONFIG", "SET", "min-replicas-to-write", "0")


def last_second(sale):
    """Redis on everysec loses its last second: what the ledger has is told again, what nobody has is for sale again"""
    sale.redis("CONFIG", "SET", "appendfsync", "everysec")
    shop = Shop(sale, "second")
    shop.until_sold(UNITS // 4)
    log = sorted((sale.run / "redis/appendonlydir").glob("*.incr.aof"))[-1]
    kept = log.stat().st_size
    shop.until_sold(UNITS // 2)
    until("there is something to forget", 20, lambda: log.stat().st_size > kept)    # Redis writes nothing while it waits for an fsync, up to 2 s
    sale.stack("kill", "redis")
    os.truncate(log, kept)    # what a power cut would have left
    shop.more()
    sale.stack("up", "redis")
    sale.redis = Redis(path_of(sale))
    shop.ends_well()


class Wire:
    """A way to a TCP port that can be cut."""

    def __init__(self, port):
        self.target, self.ends, self.whole = port, [], True
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while self.whole:
            try:
                one = self.door.accept()[0]
                other = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            self.ends += [one, other]
            for source, sink in ((one, other), (other, one)):
                threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    def carry(self, source, sink):
        try:
            while self.whole and (data := source.recv(65536)):
                if self.whole:
                    sink.sendall(data)
        except OSError:
            pass

    def cut(self):
        self.whole = False
        for end in [self.door, *self.ends]:
            end.close()


class Replica:
    """Another Redis that follows the sale's, over a wire."""

    def __init__(self, sale):
        self.sale, self.dir = sale, pathlib.Path(path_of(sale)).parent
        self.path, self.port, self.master = self.dir / f"replica-{chance.randrange(10**6)}.sock", sale.free_port(), sale.free_port()
        sale.redis("CONFIG", "SET", "port", self.master)
        self.wire = Wire(self.master)
        self.process = subprocess.Popen(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", str(self.path), "--dir", str(sale.dir),
                                         "--dbfilename", f"replica-{self.port}.rdb", "--save", "", "--replicaof", f"127.0.0.1 {self.wire.port}", "--repl-diskless-sync-delay", "0"],
                                        stdin=subprocess.DEVNULL, stdout=open(sale.dir / f"replica-{self.port}.log", "wb"), stderr=subprocess.STDOUT)
        sale.extra.append(self.process)
        self.redis = until("the replica listens", 20, self.reach)
        until("the replica follows", 20, lambda: b"master_link_status:up" in self.redis("INFO", "replication"))

    def reach(self):
        try:
            return Redis(str(self.path))
        except OSError:
            return None

    def lag(self):
        """From now on it hears nothing more; gives a time for it to be behind."""
        self.wire.cut()


def gone_back(sale):
    """The same server, the same connections, older data: it was another's replica for a moment. The first answer closes the bucket and is told to nobody as QUEUED"""
    name = f"back_{chance.randrange(10**6)}"
    replica = Replica(sale)    # the first one gives the master's data a new name: that is another life too
    sale.activity(name, 40)
    for i in range(5):
        buys(sale, name, f"before{i}")    # at first the doors know the server by its old name
    replica.lag()
    for i in range(12):
        buys(sale, name, f"after{i}")
    replica.redis("REPLICAOF", "NO", "ONE")
    sale.stall("janitor")    # nobody else looks: the next buyer is the first to see it
    sale.drain()
    buys(sale, name, "after11")    # so the door has seen all that was counted: what only others saw it cannot know
    run = re.search(rb"run_id:(\w+)", sale.redis("INFO", "server"))[1]
    highest = int(sale.redis("GET", sale.key(name, "seq")))
    sale.redis("REPLICAOF", "127.0.0.1", replica.port)
    until("it has taken over what the other held", 20, lambda: b"master_link_status:up" in sale.redis("INFO", "replication"))
    sale.redis("REPLICAOF", "NO", "ONE")
    same("the server", re.search(rb"run_id:(\w+)", sale.redis("INFO", "server"))[1], run)
    right("it is older now", int(sale.redis("GET", sale.key(name, "seq"))) < highest)
    same("the first buyer afterwards", sale.buy(name, "late0")["code"], "UNCERTAIN")
    until("the bucket is closed", 1, lambda: closed(sale, name))
    right("its sequence jumped to what had been seen", int(sale.redis("GET", sale.key(name, "seq"))) >= highest)
    same("the second buyer", sale.buy(name, "late1")["code"], "UNCERTAIN")
    same("who has an order, though Redis does not know it", (sale.buy(name, "after3")["code"]), "UNCERTAIN")
    same("who has an order, and Redis knows it", sale.buy(name, "before3")["code"], "ORDERED")
    why = [line["error_class"] for line in said(sale, "bucket_closed") if line["activity_id"] == name]
    same("why it was closed", why, ["SEQUENCE_BACK"])
    sale.wake()
    until("the bucket was healed and is open", 20, lambda: healthy(sale, name))
    time.sleep(0.4)    # it rests
    same("who has an order is known again", sale.buy(name, "after3")["code"], "ORDERED")
    until("what became of the first buyer is known", 20, lambda: sale.buy(name, "late0")["code"] in ("ORDERED", "RELEASED"))    # his unit may have been sold already
    for i in range(40 - sale.orders(name)):
        buys(sale, name, f"last{i}")
    sale.drain()
    same("orders", sale.orders(name), 40)
    sale.proved(name, 40)


def replica_takes_over(sale):
    """A replica that lagged takes the master's place: nothing is oversold, nobody has two, what it missed is told to it, the sale goes on"""
    replica = Replica(sale)
    shop = Shop(sale, "promoted")
    shop.until_sold(UNITS // 4)
    replica.lag()
    shop.until_sold(UNITS // 2)
    sale.stack("kill", "redis")
    shop.more()
    replica.redis("REPLICAOF", "NO", "ONE")
    os.rename(replica.path, path_of(sale))    # where clients look for Redis there is another by now
    sale.redis = Redis(path_of(sale))
    shop.ends_well()


POINTS = re.findall(r'^POINT\((\w+),\s+"heals"', (ROOT / "spec/killpoint.def").read_text(), re.M)


def healers_die(sale):
    """Whoever closes, heals and opens dies at every step of it: the next goes on, and it ends well"""
    shop = Shop(sale, "healers")
    shop.until_sold(FIRST)    # nobody is left who asks: else the door sees each sequence first and closes, and whoever waits is never let in between two closings
    sale.stall("janitor")
    for point in POINTS:
        log = sale.dir / f"janitor-{point}.log"
        env = sale.environ | {"SECKILL_TEST_HOOKS": "1", "SECKILL_KILL": point}
        with open(log, "wb") as out:
            process = subprocess.Popen([SECKILL, "serve", "--roles", "janitor"], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        sale.extra.append(process)
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:    # whoever sees the sequence first closes it: this one, or the door
            for key in keys(sale, shop.name, "seq"):
                sale.redis("SET", key, 1)
            time.sleep(0.6)
        right(f"died at {point}: {process.returncode}\n{log.read_text()[-600:]}", process.poll() == -9 and f'"point":"{point}"' in log.read_text())
        sale.extra.remove(process)
    shop.more()
    sale.wake()
    shop.ends_well()


def left_unfinished(sale):
    """Redis is away while a sale is warmed: it cannot open, the janitor finishes the warm by itself, then it opens and sells out"""
    name = f"left_{chance.randrange(10**6)}"
    body = {"activity_id": name, "starts_at": OPEN[0], "ends_at": OPEN[1], "buckets": 2, "skus": [{"sku_id": f"sku_{name}", "stock": 8, "price": 100, "currency": "CNY"}]}
    same("created", sale.admin("POST", "", body).status, 201)
    sale.stack("kill", "redis")
    warmed = sale.admin("POST", f"/{name}/warm", "")
    same("warm without Redis", warmed.status, 503)
    sale.stack("up", "redis")
    sale.redis = Redis(path_of(sale))

    def told():
        """503: the admin process itself is still on its way to Redis, which it looks for every two seconds at last."""
        opened = sale.admin("POST", f"/{name}/open", "")
        right(f"it opens only when all is there: {opened}", opened.status in (200, 503) or "finishes the warm" in (opened["detail"] or ""))
        return opened.status != 503
    until("who opens it is told what it waits for", 20, told)
    until("it opens", 60, lambda: sale.admin("POST", f"/{name}/open", "").status == 200)
    until("all are sold", 60, lambda: [sale.buy(name, f"b{i}") for i in range(60)] and sale.orders(name) == 8)
    sale.drain()
    sale.proved(name, 8)


ALONE = [planned_restart]    # judged by the clock: run by alone.py, or by name
STORIES = [restarted, key_deleted, unsafe_settings, left_unfinished, gone_back, healers_die, last_second, replica_takes_over]    # the last leaves another Redis in the sale's place


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SECKILL_TEST_SEED") or 1))
    parser.add_argument("stories", nargs="*")
    args = parser.parse_args()
    chance.seed(args.seed)
    wanted = [s for s in ALONE + STORIES if s.__name__ in args.stories] or ([] if args.stories else STORIES)
    right(f"known stories among {args.stories}", wanted)
    return tell(Sale(), wanted)


if __name__ == "__main__":
    sys.exit(main())

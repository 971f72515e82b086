# SPDX-License-Identifier: Apache-2.0
"""Every kill point (spec/killpoint.def), several times: a process is started with the point armed, works in sales under load, dies there, and is
seen to have died there. Small sales of 50 units to 200 shoppers go on all the while. In the end nobody is owed anything: who heard QUEUED is
ORDERED or RELEASED with a reason, all is sold, the audit finds nothing.

  kill_points.py [--kills N] [--seed N] [POINT...]      3 kills of each; where points are named, only at those

Beside what dies there always is: one door that stays open, one that has never heard of the broker (so that the janitor has work), a second client
that sends what cannot be read and messages of people who have bought already (so that the consumer parks, and units come back); and shoppers who pay, cancel,
pay too late, pay twice, or do nothing until their time is over (money.py).
"""
import argparse
import http.client
import itertools
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True

import broker
from genuine import genuine
from money import Money
from sale import OPEN, ROOT, SECKILL, Sale, Wrong, right, until
from shoppers import Shoppers

CHAINS = {"access": 1, "order": 6, "relay": 2, "janitor": 3, "admin": 1}    # processes of a role that die beside each other
PASSES = {"access": 5, "order": 2, "relay": 3, "janitor": 2, "admin": 2}    # at most at which pass
FEED = 0.3                                                                  # seconds between two sales, at least: what is sold is audited in the end
FLEETING = 3                                                                # of so many sales one must be paid within a second: the sweeps of four janitors share what nobody paid
ONCE = {"CREATE_ASKED", "CREATE_ANSWERED", "HAND_ASKED", "HAND_ANSWERED"}   # passed once by an activity's way
PERSONS = {"RESOLVE_ASKED", "RESOLVE_ANSWERED"}                              # passed by who decides what waits for a person
EARLY = {"VERDICT_ANSWERED"}                                                # passed while relays die, hardly when one stays
WAIT = 120 * float(os.environ.get("SECKILL_TEST_PATIENCE") or 1)                 # seconds until a point must have been reached


def points():
    """[(name, role)] of the table."""
    text = (ROOT / "spec/killpoint.def").read_text()
    return [(name, role) for name, roles in re.findall(r'^POINT\((\w+),\s+"([^"]*)"', text, re.M) for role in roles.split()]


class Deaths:
    def __init__(self, sale, crowd, seed):
        self.sale, self.crowd, self.seed = sale, crowd, seed
        self.count, self.faults, self.seconds = 0, [], {}
        self.lock, self.chains = threading.Lock(), {}    # chains: those of a role that still work
        self.stop = False
        self.names = (f"k{i}" for i in itertools.count())

    # ---- one process

    def start(self, role, log, kill=None):
        """(process, its public or admin port)"""
        port = self.sale.free_port()
        env = self.sale.environ | {"SECKILL_ADMIN_LISTEN" if role == "admin" else "SECKILL_HTTP_LISTEN": f"127.0.0.1:{port}", "SECKILL_ACCESS_THREADS": "1"}
        if kill:
            env |= {"SECKILL_TEST_HOOKS": "1", "SECKILL_KILL": kill}
        with open(log, "wb") as out:
            process = subprocess.Popen([SECKILL, "serve", "--roles", role], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.sale.extra.append(process)
        if role in ("access", "admin"):
            until(f"{role} listens", 20, lambda: self.sale.listens(port) or process.poll() is not None)
        return process, port

    def die(self, role, point, chance):
        """One death; Wrong where the point was not what killed it."""
        passes = 1 if point in ONCE else chance.randint(1, PASSES[role])
        log = self.sale.dir / f"{role}-{point}-{threading.get_ident()}-{self.count}.log"
        began = time.monotonic()
        process, port = self.start(role, log, f"{point}:{passes}")
        try:
            if role == "access":
                self.crowd.doors.append(port)
            if point in PERSONS:
                self.reviews_until_dead(process, port)
            elif role == "admin":
                self.sales_until_dead(process, port)
            process.wait(max(1, WAIT - (time.monotonic() - began)))
        except subprocess.TimeoutExpired:
            process.kill()
            raise Wrong(f"{role} did not reach {point} (pass {passes}) in {WAIT} s; {self.sale.road()}:\n{log.read_text()[-800:]}")
        finally:
            if role == "access" and port in self.crowd.doors:
                self.crowd.doors.remove(port)
        self.sale.extra.remove(process)
        said = f'"event":"killpoint","point":"{point}"'
        right(f"{role} died at {point}, by SIGKILL: {process.returncode}\n{log.read_text()[-800:]}", process.returncode == -9 and said in log.read_text())
        log.unlink()
        self.count += 1
        self.seconds[point] = self.seconds.get(point, 0) + time.monotonic() - began

    # ---- activities: made by whoever is to die of it, finished by another

    def sales_until_dead(self, process, port):
        for _ in range(5):
            self.make(next(self.names), port=port)
            if process.poll() is not None:
                return

    def reviews_until_dead(self, process, port):
        """What waits for a person is decided by one, at the process that is to die of it; there always is something (trouble)."""
        end = time.monotonic() + WAIT
        while process.poll() is None and time.monotonic() < end:
            for row in self.sale.sql("select review_id from review where status = 'OPEN' and kind = 'MESSAGE' and reservation_id is null limit 5"):
                try:
                    self.sale.ask("POST", f"/admin/v1/reviews/{row[0]}/resolve", {"decision": "DISMISS", "reason": "garbage"}, port=port)
                except (OSError, http.client.HTTPException):
                    return
            time.sleep(0.1)

    def make(self, name, port=None, pay_s=900, crowd=True):
        """create, warm, open; a step whose caller heard nothing is asked of the process that stays. Then the crowd comes."""
        skus = [{"sku_id": f"sku_{name}", "stock": self.crowd.units, "price": 100, "currency": "CNY"}]
        body = {"activity_id": name, "starts_at": OPEN[0], "ends_at": OPEN[1], "buckets": 3, "pay_timeout_s": pay_s, "skus": skus}
        for path, what in [("", body), (f"/{name}/warm", ""), (f"/{name}/open", "")]:
            try:
                answer = self.sale.ask("POST", f"/admin/v1/activities{path}", what, port=port or self.sale.admin_port)
            except (OSError, http.client.HTTPException):
                answer = self.sale.admin("POST", path, what)
                port = None
            right(f"activity {name}{path}: {answer}", answer.status in (200, 201))
        if crowd:
            self.crowd.open(name)

    def feed(self):
        """There always is something to buy; now and then something that must be paid within a second, which hardly anybody does."""
        for n in itertools.count():
            if self.stop:
                return
            if self.crowd.left() < self.crowd.users:
                name = next(self.names)
                if n % FLEETING == 0:
                    self.crowd.fleeting.add(name)
                self.make(name, pay_s=1 if name in self.crowd.fleeting else 900)
            time.sleep(FEED)

    # ---- what makes the rarer points passable

    def trouble(self):
        """Messages that cannot be read; messages of people who have bought, on units that are still there; and somebody who buys and does not pay, three times a
        second, so that whichever janitor looks finds an order overdue: of a sale that sells out at once, one look takes them all. An engine that is busy for a
        moment takes none of this, and must not end it."""
        client, number, template = broker.Broker(self.sale.broker.port, deployment=self.sale.deployment), itertools.count(), None
        self.make("unpaid", pay_s=1, crowd=False)
        while not self.stop:
            try:
                self.sale.buy("unpaid", f"n{next(number)}", timeout=5)
                template = self.spoil(client, number, template)
            except (OSError, http.client.HTTPException, struct.error, AssertionError, subprocess.TimeoutExpired, Wrong):
                pass
            time.sleep(0.3)

    def spoil(self, client, number, template):
        """One round of it. Gives a good message to forge others by."""
        for queue in range(8):    # whichever is held by him who is to die of it
            client.send(broker.CREATE, b'{"schema_version":1,"hello":%d}' % next(number), "garbage", queue)    # the same again would be the same review
        template = template or next((m.json for m in client.read(broker.CREATE) if m.key != "garbage"), None)
        rows = self.sale.sql("""select o.activity_id, o.sku_id, o.user_id, t.inventory_token_id from
            (select * from orders order by created_at desc limit 20) o join lateral
            (select * from inventory_token where activity_id = o.activity_id and status = 'AVAILABLE' limit 1) t on true limit 2""") if template else []
        for activity, sku, user, token in rows:
            n = next(number)
            own = template["reservation_id"][4:16] + f"{n:06d}" + template["reservation_id"][22:]
            body = genuine(self.sale, template | {"reservation_id": "rsv_" + own, "message_id": "msg_" + own, "activity_id": activity, "sku_id": sku, "user_id": user,
                               "request_id": f"forged{n}", "inventory_token_id": token})
            client.send(broker.CREATE, json.dumps(body).encode(), body["reservation_id"], n % 8)
        return template

    # ---- all of them

    def chain(self, role, todo, number):
        """The last chain of a role that has nothing left to do leaves a process that stays: without it the road stands still, and those of the other
        roles who are still to die would have nothing to pass their points with."""
        chance = random.Random(f"{self.seed}/{role}/{number}")
        while True:
            try:
                point = todo.pop()
            except IndexError:
                break
            try:
                self.die(role, point, chance)
            except Exception as e:
                self.faults.append(f"{role} {point}: {e!r}" if not isinstance(e, Wrong) else str(e))
        with self.lock:
            self.chains[role] -= 1
            last = self.chains[role] == 0
        if last and role not in ("access", "admin"):    # of these one stays anyhow
            self.start(role, self.sale.dir / f"{role}-stays.log")

    def run(self, wanted, kills):
        chains = []
        for role, wide in CHAINS.items():
            todo = [name for name, r in wanted if r == role] * kills
            random.Random(f"{self.seed}/{role}").shuffle(todo)
            todo.sort(key=lambda name: name in EARLY)    # taken from the end
            self.chains[role] = wide if todo else 0
            chains += [threading.Thread(target=self.chain, args=(role, todo, i), daemon=True) for i in range(self.chains[role])]
        helpers = [threading.Thread(target=f, daemon=True) for f in (self.feed, self.trouble)]
        for t in helpers + chains:
            t.start()
        for t in chains:
            t.join()
        self.stop = True
        for t in helpers:
            t.join()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SECKILL_TEST_SEED") or 1))
    parser.add_argument("points", nargs="*")
    args = parser.parse_args()
    wanted = [(name, role) for name, role in points() if role in CHAINS and (not args.points or name in args.points)]    # "heals": rollback.py
    right(f"known points among {args.points}", wanted)
    sale = Sale("access admin")
    began = time.monotonic()
    money = Money(sale)
    crowd = Shoppers(sale, args.seed, actions=[money.decide])
    deaths = Deaths(sale, crowd, args.seed)
    mute, port = deaths.sale.serve("access", SECKILL_ROCKETMQ_NAMESRV="127.0.0.1:1")
    crowd.doors.append(port)
    # What stays alive where nothing of the role is to die, so that the road goes on.
    for role in CHAINS:
        if role not in ("access", "admin") and role not in {r for _, r in wanted}:
            deaths.start(role, sale.dir / f"{role}-stays.log")
    deaths.run(wanted, args.kills)
    for fault in deaths.faults:
        print(f"not ok - {fault}", flush=True)
    killed = time.monotonic() - began
    try:
        crowd.finish(90)
        queued, released = crowd.end(90)
        paid = money.was_true()
    except Wrong as e:
        print(f"    {e}\n    {sale.road()}")
        print(f"not ok - after {deaths.count} deaths everything ends well (seed {args.seed})", flush=True)
        return 1
    for name in dict.fromkeys(name for name, _ in wanted):
        if name in deaths.seconds:
            print(f"ok - killed at {name}, {args.kills} times in each of its roles ({deaths.seconds[name]:.1f} s)")
    print(f"ok - after {deaths.count} deaths in {killed:.0f} s, {len(crowd.sales)} sales sold out, {queued} heard QUEUED, {released} of them RELEASED with a reason, "
          f"payments {dict(paid)}, the audit finds nothing ({time.monotonic() - began:.0f} s, seed {args.seed})", flush=True)
    return 1 if deaths.faults else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""A sale whose every link is cut all the time: between its processes and Redis, PostgreSQL, the name server and the broker stands a relay
(test/cut/cut_relay.c) that closes, resets, halves, holds, doubles by a seeded schedule. Then the links are left alone: everybody who heard QUEUED is ORDERED or
RELEASED with a reason, all is sold, the audit finds nothing.

  cut_links.py [--seconds N] [--seed N]
"""
import argparse
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True

from sale import ROOT, SECKILL, Sale, Wrong, right, until
from shoppers import Shoppers

RELAY = SECKILL.parent / "test/cut/cut_relay"
# A doubled answer is nothing that TCP can do; the contract's cuts look at it. Here it would be another server's fault.
CUTS = ["BEFORE", "BEFORE_RESET", "HALF_REQUEST", "AFTER", "AFTER_RESET", "LOST_ANSWER", "HALF_ANSWER", "AFTER_ANSWER", "LATE_ANSWER", "SPLIT",
        "HALF_CLOSE_UP", "HALF_CLOSE_DOWN", "STALL_UP", "STALL_DOWN"]


class Relay:
    """One relay process. `listen` as the program wants it; its port is in `port`. With `every` 0 it cuts only when told."""

    def __init__(self, sale, listen, target, seed, every, rename=None):
        self.cuts, self.sale = 0, sale
        self.start(listen, target, seed, every, rename)

    def start(self, listen, target, seed, every, rename):
        words = [RELAY, *(["-r", rename] if rename else []), listen, target, str(seed), str(every), *CUTS]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.sale.extra.append(self.process)
        self.port = int(self.process.stdout.readline().split()[1])
        self.seed = seed
        threading.Thread(target=self.count, args=(self.process,), daemon=True).start()

    def count(self, process):
        for line in process.stdout:
            self.cuts += line.startswith("cut ")

    def tell(self, what):
        """A command of the program, or a signal: stopped, nothing passes it."""
        if isinstance(what, int):
            self.process.send_signal(what)
        else:
            self.process.stdin.write(what + "\n")
            self.process.stdin.flush()

    def target(self, target, rename=None):
        """Another server from now on, at the same place for whoever comes to us. All connections break."""
        self.sale.end(self.process)
        self.start(f"127.0.0.1:{self.port}", target, self.seed + 100, 0, rename)


class Links:
    """`rare`: of every so many requests one is cut, at the name server, who is asked little, one of five; 0: none but when told."""

    def __init__(self, sale, seed, rare):
        redis, postgres = sale.environ["SECKILL_REDIS_URL"].removeprefix("unix:"), sale.run / "sock/.s.PGSQL.5432"
        broker, names = sale.broker.port, sale.environ["SECKILL_ROCKETMQ_NAMESRV"]
        self.broker, self.names = broker, names
        (sale.dir / "cut").mkdir()
        to_broker = Relay(sale, "127.0.0.1:0", f"127.0.0.1:{broker}", seed + 2, rare)
        self.relays = {
            "redis": Relay(sale, f"unix:{sale.dir}/cut/redis.sock", f"unix:{redis}", seed, rare),
            "postgres": Relay(sale, f"unix:{sale.dir}/cut/.s.PGSQL.5432", f"unix:{postgres.resolve()}", seed + 1, rare),
            "broker": to_broker,
            "namesrv": Relay(sale, "127.0.0.1:0", names, seed + 3, 5 if rare else 0, rename=f"{broker}:{to_broker.port}")}
        self.settings = {"SECKILL_REDIS_URL": f"unix:{sale.dir}/cut/redis.sock",
                         "SECKILL_POSTGRES_URL": f"postgresql://{sale.value('select current_user')}@/seckill?host={sale.dir}/cut",
                         "SECKILL_ROCKETMQ_NAMESRV": f"127.0.0.1:{self.relays['namesrv'].port}"}

    def follow(self, sale):
        """Where name server or broker have come back at another port. The way there breaks."""
        broker, names = (int((sale.run / f"run/{name}.port").read_text()) for name in ("broker", "namesrv"))
        if (broker, f"127.0.0.1:{names}") != (self.broker, self.names):
            self.broker, self.names = broker, f"127.0.0.1:{names}"
            self.relays["broker"].target(f"127.0.0.1:{broker}")
            self.relays["namesrv"].target(self.names, rename=f"{broker}:{self.relays['broker'].port}")

    def cuts(self):
        return {name: relay.cuts for name, relay in self.relays.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SECKILL_TEST_SEED") or 1))
    parser.add_argument("--rare", type=int, default=25)
    args = parser.parse_args()
    sale = Sale("access admin")
    began = time.monotonic()
    links = Links(sale, args.seed, args.rare)
    roles = {}
    for role in ("access", "order", "order", "relay", "janitor"):
        log = open(sale.dir / f"{role}-cut-{len(roles)}.log", "wb")
        port = sale.serve(role, **links.settings) if role == "access" else None
        if port:
            roles[port[0]] = role
            doors = [port[1]]
        else:
            process = subprocess.Popen([SECKILL, "serve", "--roles", role], env=sale.environ | links.settings, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            sale.extra.append(process)
            roles[process] = role
    crowd = Shoppers(sale, args.seed, workers=12, patience=120)
    crowd.doors = doors
    end, n = time.monotonic() + args.seconds, 0
    while time.monotonic() < end:
        if crowd.left() < crowd.users:
            sale.activity(f"cut{n}", crowd.units, buckets=2)
            crowd.open(f"cut{n}")
            n += 1
        for process, role in roles.items():
            right(f"{role} lives: {process.poll()}", process.poll() is None)
        time.sleep(0.05)
    cuts = links.cuts()
    # The links are left alone: what is held goes through, and no more is cut.
    for relay in links.relays.values():
        relay.tell("calm")
    crowd.doors = [sale.port, *doors]
    try:
        crowd.finish(90)
        queued, released = crowd.end(90)
        for process, role in roles.items():
            right(f"{role} lives: {process.poll()}", process.poll() is None)
        right(f"every link was cut: {cuts}", all(cuts.values()))
    except Wrong as e:
        print(f"    {e}\n    cuts: {cuts}; {crowd.known()}")
        print(f"not ok - a sale on links that are cut (seed {args.seed})")
        return 1
    print(f"    cuts in {args.seconds} s: {cuts}; answers: {crowd.heard.most_common(10)}")
    print(f"ok - a sale on links that are cut: {len(crowd.sales)} sales sold out, {queued} heard QUEUED, {released} of them RELEASED with a reason, "
          f"the audit finds nothing ({time.monotonic() - began:.0f} s, seed {args.seed})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Redis, PostgreSQL and the broker die by SIGKILL in the middle of a rush, each with its data, one after the other and all at once. Everything ends
ORDERED or RELEASED with a reason, all 10,000 units are sold, nobody lends a hand, the audit finds nothing. That is Redis as it is meant to be run
(appendfsync always). With everysec a power cut takes its last second: then nothing is sold twice, and nobody has two orders.

  kill_engines.py [--seed N] [--times N] [--units N] [STORY...]
"""
import argparse
import os
import random
import sys
import time

sys.dont_write_bytecode = True

from sale import Redis, Sale, right, same, tell, until
from shoppers import Shoppers

chance = random.Random(1)
PATIENCE = float(os.environ.get("SECKILL_TEST_PATIENCE") or 1)
LONG = 300 * PATIENCE    # seconds for ten thousand people, one after another at sixteen doors


class Size:
    units, users = 10000, 12000


def look_again(sale):
    """The test's own connections died as well."""
    sale.redis = Redis(sale.environ["SECKILL_REDIS_URL"].removeprefix("unix:"))
    sale.broker.socket = None
    sale.broker.port = int((sale.run / "run/broker.port").read_text())    # another, where somebody took the old one


def rush(sale, name):
    sale.activity(name, Size.units, buckets=2)
    crowd = Shoppers(sale, chance.random(), workers=16, units=Size.units, users=Size.users, patience=LONG)
    crowd.open(name)
    middle = chance.randrange(Size.units // 8, Size.units // 2)
    until("the rush is under way", LONG, lambda: len(crowd.told) > middle)
    return crowd


def told(crowd, queued, released):
    print(f"    {queued} heard QUEUED, {released} of them RELEASED; answers: {crowd.heard.most_common(8)}", flush=True)


def dies(sale, *names):
    crowd = rush(sale, f"dies_{'_'.join(names)}_{chance.randrange(10**6)}")
    sale.stack("kill", *names)
    down = time.monotonic()
    time.sleep(chance.uniform(0, 1))
    sale.stack("up", *names)
    print(f"    away for {time.monotonic() - down:.1f} s", flush=True)
    look_again(sale)
    back = time.monotonic()
    crowd.finish(LONG)
    told(crowd, *crowd.end(LONG))
    sold = sale.value(f"select count(*) from orders where activity_id = '{crowd.sales[0]}' and status <> 'CANCELED'")
    same("sold in the end", int(sold), Size.units)
    print(f"    {sold} sold, proved {time.monotonic() - back:.1f} s after the servers were back", flush=True)


def redis_dies(sale):
    """Redis is killed in the rush and comes back with its data: everything ends well"""
    dies(sale, "redis")


def postgres_dies(sale):
    """PostgreSQL is killed in the rush and comes back with its data: everything ends well"""
    dies(sale, "postgres")


def broker_dies(sale):
    """The broker is killed in the rush and comes back with its data: everything ends well"""
    dies(sale, "broker")


def all_die(sale):
    """All three are killed at once in the rush and come back with their data: everything ends well"""
    dies(sale, "redis", "postgres", "broker")


def redis_forgets(sale):
    """Redis on everysec loses its last second in the rush: nothing is sold twice, nobody has two orders"""
    sale.redis("CONFIG", "SET", "appendfsync", "everysec")
    name = f"forgets{chance.randrange(10**6)}"
    sale.activity(name, Size.units, buckets=2)
    (log,) = (sale.run / "redis/appendonlydir").glob("*.incr.aof")
    crowd = Shoppers(sale, chance.random(), workers=16, units=Size.units, users=Size.users, patience=60 * PATIENCE)
    crowd.open(name)
    until("the rush is under way", LONG, lambda: len(crowd.told) > Size.units // 8)
    kept, before = log.stat().st_size, len(crowd.told)
    until("more have been told", LONG, lambda: len(crowd.told) > before + min(Size.units // 8, 300))    # about a second of it
    until("there is something to forget", LONG, lambda: log.stat().st_size > kept)    # Redis writes nothing while it waits for an fsync, up to 2 s
    sale.stack("kill", "redis")
    os.truncate(log, kept)    # what a power cut would have left: a server alone that dies loses nothing that the kernel has
    sale.stack("up", "redis")
    look_again(sale)
    began = time.monotonic()
    until("everybody in the crowd has asked for as long as he likes", LONG + 120, lambda: not crowd.waiting)
    asked = time.monotonic() - began
    until("all is read and told", LONG, sale.drained)
    print(f"    the crowd was done after {asked:.1f} s, all was told after {time.monotonic() - began:.1f} s", flush=True)
    orders, users, units = sale.sql(f"select count(*), count(distinct user_id), count(distinct unit) from orders where activity_id = '{name}'")[0]
    right(f"orders {orders} of {Size.units}", int(orders) <= Size.units)
    same("users and units of them", (users, units), (orders, orders))
    fates = crowd.fates()
    forgotten = sum(1 for code, r in crowd.told.values() if code == "QUEUED" and r not in fates)
    alone = sale.sql("select o.reservation_id from orders o left join consumer_inbox i using (reservation_id) where i.outcome is distinct from 'ORDERED'")
    same("orders without their verdict", alone, [])
    print(f"    {orders} orders; {forgotten} of those who heard QUEUED have no verdict yet; {len(crowd.lost)} gave up; {crowd.heard.most_common(8)}", flush=True)
    crowd.over = True


STORIES = [redis_dies, postgres_dies, broker_dies, all_die, redis_forgets]    # the last leaves a Redis that has forgotten


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SECKILL_TEST_SEED") or 1))
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--units", type=int, default=Size.units)
    parser.add_argument("stories", nargs="*")
    args = parser.parse_args()
    chance.seed(args.seed)
    Size.units, Size.users = args.units, args.units * 6 // 5
    wanted = [s for s in STORIES if not args.stories or s.__name__ in args.stories]
    right(f"known stories among {args.stories}", wanted)
    again = [s for s in wanted if s is not redis_forgets] * args.times + [s for s in wanted if s is redis_forgets]
    return tell(Sale(), again)


if __name__ == "__main__":
    sys.exit(main())

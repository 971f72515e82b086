# SPDX-License-Identifier: Apache-2.0
"""What happens to a sale under chaos, and when: drawn from a seed and a length, and from nothing else, so that the seed is the schedule.

A row of TROUBLES is a kind of trouble; with somebody it happens to it is a card, and the schedule deals a shuffled deck of all cards, so that in five minutes
everything happens to everybody. Nothing is in two troubles at once, and each has ended before the time is up. Servers have some peace
between their troubles: a sale that never moves proves little.
"""
import collections
import random

PROCESSES = ["access", "access-1", "access-2", "admin", "admin-1", "order-1", "order-2", "relay-1", "relay-2", "janitor-1", "janitor-2", "channel"]
ROLES = ["access", "order", "relay", "janitor", "admin"]
SERVERS = ["redis", "postgres", "namesrv", "broker"]
LINKS = [f"link to {name}" for name in SERVERS]
QUEUE = {"namesrv", "broker"}    # one looks for the other as it comes up

Kind = collections.namedtuple("Kind", "verb whom least most back words")
# `least`, `most`: seconds it lasts; `back`: seconds until the same may be troubled again. A process that is killed or ended comes back by its supervisor; a
# server is brought back by us when its time is over. A pause may be longer than a lease (3 s), and than the silence after which a connection is given up.
TROUBLES = [
    Kind("kill",    PROCESSES, 0.0, 0.0,  3,  "dies by SIGKILL"),
    Kind("pause",   PROCESSES, 0.3, 12.0, 2,  "stands still (SIGSTOP)"),
    Kind("restart", PROCESSES, 0.0, 0.0,  4,  "is asked to end (SIGTERM)"),
    Kind("kill",    ROLES,     0.0, 0.0,  4,  "all of this role die by SIGKILL"),
    Kind("kill",    SERVERS,   0.0, 3.0,  6,  "dies by SIGKILL"),
    Kind("pause",   SERVERS,   0.3, 6.0,  4,  "stands still (SIGSTOP)"),
    Kind("restart", SERVERS,   0.0, 1.0,  6,  "is stopped and started"),
    Kind("kill",    ["all"],   0.0, 2.0,  10, "all four servers die by SIGKILL"),
    Kind("cut",     LINKS,     0.1, 4.0,  1,  "the link is cut"),
    Kind("stall",   LINKS,     0.3, 6.0,  1,  "nothing passes the link"),
    Kind("rough",   LINKS,     2.0, 10.0, 1,  "of 25 requests one is cut off, late, halved …"),
]
GAP = 1.4       # seconds between two beginnings, on the average
PEACE = 8.0     # seconds between two troubles of any servers, at least

Trouble = collections.namedtuple("Trouble", "at verb whom targets seconds words")


def title(kind, whom):
    return f"all {whom}" if kind.whom is ROLES else "all servers" if whom == "all" else whom


def schedule(seed, seconds):
    """[Trouble], in order of their beginning."""
    chance = random.Random(f"chaos/{seed}")
    free, peace, deck, rows, at = collections.defaultdict(float), 0.0, [], [], 1.0
    while True:
        at = round(at + max(0.1, chance.expovariate(1 / GAP)), 1)
        if at >= seconds:
            return rows
        kind, whom, who, server = deal(chance, deck, lambda who, server: any(free[t] > at for t in who) or (server and peace > at))
        length = round(chance.uniform(kind.least, kind.most), 1)
        if at + length >= seconds:
            continue
        for t in set(who) | (QUEUE if QUEUE & set(who) else set()):
            free[t] = at + length + kind.back
        if server:
            peace = at + length + PEACE
        rows.append(Trouble(at, kind.verb, title(kind, whom), who, length, kind.words))


def deal(chance, deck, busy):
    """The first card that is possible now is taken from the deck; where there is none, another deck is put behind."""
    while True:
        for i, (kind, whom) in enumerate(deck):
            who = [p for p in PROCESSES if p.split("-")[0] == whom] if kind.whom is ROLES else SERVERS if whom == "all" else [whom]
            server = kind.whom is SERVERS or whom == "all"
            if not busy(who, server):
                del deck[i]
                return kind, whom, who, server
        more = [(kind, whom) for kind in TROUBLES for whom in kind.whom]
        chance.shuffle(more)
        deck += more


def table(rows):
    """As text, a line each."""
    lines = [f"{'at':>7}  {'what':<8} {'whom':<16} {'for':>6}"]
    for t in rows:
        lines.append(f"{t.at:>6.1f}s  {t.verb:<8} {t.whom:<16} {f'{t.seconds:.1f}s' if t.seconds else '':>6}  {t.words}")
    return "\n".join(lines)

# SPDX-License-Identifier: Apache-2.0
"""The schedule of chaos by itself: the seed is the schedule, five minutes leave nobody out, and nothing is in two troubles at once. And what people mean to
do with their orders: each step is one that they can take, and every callback is a step of somebody's."""
import sys

sys.dont_write_bytecode = True

import chaos_schedule as chaos
from chaos import LATE
from money import CALLBACKS, PLANS, Money
from sale import right, same, tell

SEEDS, SECONDS = range(1, 51), 300


def seed_is_schedule(_):
    """The same seed draws the same schedule, another another"""
    tables = [chaos.table(chaos.schedule(seed, SECONDS)) for seed in SEEDS]
    same("the schedules drawn again", [chaos.table(chaos.schedule(seed, SECONDS)) for seed in SEEDS], tables)
    same("schedules of so many seeds", len(set(tables)), len(SEEDS))


def everybody_in_turn(_):
    """In five minutes everything of the table happens to everybody"""
    wanted = {(kind.verb, chaos.title(kind, whom)) for kind in chaos.TROUBLES for whom in kind.whom}
    for seed in SEEDS:
        same(f"seed {seed}: what does not happen", wanted - {(t.verb, t.whom) for t in chaos.schedule(seed, SECONDS)}, set())


def one_at_a_time(_):
    """Nobody is in two troubles at once, servers have their peace, and all is over before the end"""
    for seed in SEEDS:
        until, peace = {}, 0.0
        for t in chaos.schedule(seed, SECONDS):
            server = t.targets[0] in chaos.SERVERS
            right(f"seed {seed}: {t} in peace", not server or t.at >= peace - 0.1)
            for whom in t.targets:
                right(f"seed {seed}: {t} while the last one lasts", t.at >= until.get(whom, 0) - 0.1)
                until[whom] = t.at + t.seconds
            peace = t.at + t.seconds + chaos.PEACE if server else peace
            right(f"seed {seed}: {t} ends in time", t.at + t.seconds < SECONDS)


def plans_can_be_carried_out(_):
    """Every step of a plan is a callback or something that people do, each is somebody's, and some people never pay"""
    steps = {one for _, plan in PLANS + LATE for step in plan.split() for one in step.split("|")}
    same("steps that nobody can take", [s for s in steps if s not in CALLBACKS and not callable(getattr(Money, s, None))], [])
    same("callbacks that nobody causes", set(CALLBACKS) - steps, set())
    same("plans whose both-at-once is not the end", [plan for _, plan in PLANS + LATE if "|" in " ".join(plan.split()[:-1])], [])
    same("plans twice", len({plan for _, plan in PLANS + LATE}), len(PLANS + LATE))
    never = 100 - sum(share for share, _ in PLANS + LATE)
    right(f"{never} of a hundred never pay", 5 <= never <= 50)


if __name__ == "__main__":
    sys.exit(tell(None, [seed_is_schedule, everybody_in_turn, one_at_a_time, plans_can_be_carried_out]))

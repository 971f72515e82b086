# SPDX-License-Identifier: Apache-2.0
"""The schedule of chaos by itself: the seed is the schedule, five minutes leave nobody out, and nothing is in two troubles at once."""
import sys

sys.dont_write_bytecode = True

import chaos_schedule as chaos
from sale import Wrong, right, same

SEEDS, SECONDS = range(1, 51), 300


def seed_is_schedule():
    """The same seed draws the same schedule, another another"""
    tables = [chaos.table(chaos.schedule(seed, SECONDS)) for seed in SEEDS]
    same("the schedules drawn again", [chaos.table(chaos.schedule(seed, SECONDS)) for seed in SEEDS], tables)
    same("schedules of so many seeds", len(set(tables)), len(SEEDS))


def everybody_in_turn():
    """In five minutes everything of the table happens to everybody"""
    wanted = {(kind.verb, chaos.title(kind, whom)) for kind in chaos.TROUBLES for whom in kind.whom}
    for seed in SEEDS:
        same(f"seed {seed}: what does not happen", wanted - {(t.verb, t.whom) for t in chaos.schedule(seed, SECONDS)}, set())


def one_at_a_time():
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


def main():
    bad = 0
    for story in (seed_is_schedule, everybody_in_turn, one_at_a_time):
        try:
            story()
            print(f"ok - {story.__doc__}")
        except Wrong as e:
            print(f"    {e}\nnot ok - {story.__doc__}")
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())

/* SPDX-License-Identifier: Apache-2.0
 * sim_clock.h: the hour of the imagined world. It stands still until somebody steps; then it jumps to the next alarm. So an hour of
 * the sale takes the time of its events, and the same alarms ring in the same order each time: earliest first, and of equal ones
 * whichever was set first. */
#pragma once
#include <stdbool.h>

#include "clock.h"
#include "heap.h"

struct sim_clock {
    struct clock clock;    /* the port */
    struct heap alarms;
    uint64_t mono_us;
    int64_t wall_ms;       /* now_ms = wall_ms + mono_us / 1000 */
    uint64_t rung;         /* alarms rung so far */
};

void sim_clock_init(struct sim_clock *c, int64_t now_ms);
void sim_clock_end(struct sim_clock *c);    /* forgets every alarm */

/* Rings the earliest alarm at its time: true; false when none is set. */
bool sim_clock_step(struct sim_clock *c);
/* Rings everything due up to then, and stands at `mono_us` afterwards (time never goes back: an earlier one changes nothing). */
void sim_clock_run_until(struct sim_clock *c, uint64_t mono_us);
/* Steps until done(arg) holds; false when `budget_us` have passed, or nothing is left to happen. The time then stands at the end of the budget. */
bool sim_clock_run(struct sim_clock *c, bool (*done)(void *arg), void *arg, uint64_t budget_us);
/* A watch: somebody's own wall clock over the same monotonic time. It may be wrong by any amount, and jump. */
struct sim_watch {
    struct clock clock;    /* the port */
    struct sim_clock *of;
    int64_t ahead_ms;
    struct heap alarms;    /* of whoever wears it */
    struct alarm first;    /* in `of`, for the earliest of them */
    bool frozen;           /* its wearer is stopped: nothing rings; what fell due rings when it goes on */
};
void sim_watch_init(struct sim_watch *w, struct sim_clock *of);
void sim_watch_end(struct sim_watch *w);    /* forgets every alarm */
void sim_watch_freeze(struct sim_watch *w, bool frozen);
/* The wall clock jumps, as wall clocks do; monotonic time knows nothing of it. */
void sim_clock_jump(struct sim_clock *c, int64_t by_ms);

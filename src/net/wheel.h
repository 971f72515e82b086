/* SPDX-License-Identifier: Apache-2.0
 * wheel.h: coarse deadlines for very many sleepers. Putting a deadline off costs one store; the wheel finds out when it passes by.
 * Times are ticks; how long a tick lasts is the owner's affair. */
#pragma once
#include <stdint.h>

#include "list.h"

#define WHEEL_SLOTS 256    /* a deadline lies less than that many ticks ahead */

struct deadline {
    struct link link;
    uint32_t due;      /* the tick */
    uint32_t seat;     /* the tick whose slot it sits in */
    bool set;
};
struct wheel {
    struct link slots[WHEEL_SLOTS];
    uint32_t now;
};

void wheel_init(struct wheel *w);
void deadline_init(struct deadline *d);
/* Passes in `ticks` (1 … WHEEL_SLOTS-1) ticks from now at the earliest and one later at most. */
void wheel_set(struct wheel *w, struct deadline *d, uint32_t ticks);
/* Will not pass. Costs nothing; the link may stay in the wheel until it comes by. */
static inline void wheel_unset(struct deadline *d) { d->set = false; }
/* As wheel_unset, and the deadline's memory may go. */
void wheel_forget(struct deadline *d);
/* One tick: calls passed() for each deadline that has passed, which is unset by then. passed() may set, unset or forget any. */
void wheel_tick(struct wheel *w, void (*passed)(struct deadline *));

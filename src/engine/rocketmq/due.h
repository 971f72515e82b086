/* SPDX-License-Identifier: Apache-2.0
 * due.h: what must happen at a time, on one loop. All deadlines of an engine share one timer of the loop; a due lives in what it
 * watches. Zero milliseconds mean: soon, but not before the present call has returned.
 *
 * It also counts what the loop still owes the engine (handles being closed, look-ups under way): an engine may give its memory
 * back when nothing is owed any more. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "heap.h"

struct due {
    void (*ring)(struct due *);
    size_t place;       /* 0: not set */
};
struct due_table {
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_idle_t nudge;
    bool nudged;
    struct heap heap;
    unsigned owed;
    void (*settled)(struct due_table *);    /* called when owed falls to 0 */
};

void due_table_open(struct due_table *t, uv_loop_t *loop, void (*settled)(struct due_table *));
void due_table_close(struct due_table *t);    /* nothing rings any more; its timer is owed until closed */

uint64_t due_now_us(void);
void due_set(struct due_table *t, struct due *d, uint32_t ms);    /* sets it, or moves it */
void due_unset(struct due_table *t, struct due *d);               /* harmless when not set */

/* Whoever has just been woken may be waiting with uv_run(UV_RUN_ONCE), which goes to sleep over what happened before it polled: the loop
 * shall not sleep this time. */
void due_nudge(struct due_table *t);

static inline void due_owe(struct due_table *t) { t->owed++; }
void due_settle(struct due_table *t);

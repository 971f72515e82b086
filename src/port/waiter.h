/* SPDX-License-Identifier: Apache-2.0
 * waiter.h: how a caller and an engine hold on to each other while the world thinks.
 *
 * The engine owns what is in flight: it copies the inputs into a slot of its own before the call returns; the caller keeps
 * only a waiter. Each waiter is woken exactly once, never before the call has returned, with a reason whose fate is known
 * (spec/reason.def). At the deadline the engine wakes the waiter with TIMED_OUT (or a reason of fate RETRY where the
 * question never left) and forgets it; an answer that comes later finds nobody and is dropped. A caller that dies first
 * calls waiter_drop(). Whatever an engine hands over as a result is the engine's, and valid only during the wake. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"
#include "reason.h"

struct slot;

struct waiter {
    void (*wake)(struct waiter *, enum reason, const void *result);
    uint32_t budget_ms;    /* how long the caller will wait; 0: the engine's own default for this call */
    struct slot *slot;     /* where the call is in flight; NULL: nothing is */
};

/* The head of every engine's in-flight record. */
struct slot {
    struct waiter *waiter;    /* NULL: nobody waits any more */
};

static inline bool waiter_busy(const struct waiter *w) { return w->slot != NULL; }

/* Engine: a call begins. */
static inline void slot_arm(struct slot *s, struct waiter *w)
{
    check(w->wake != NULL && w->slot == NULL);
    s->waiter = w;
    w->slot = s;
}

/* Engine: the call has ended so. Harmless when nobody waits. The slot may be used again at once by the woken caller. */
static inline void slot_wake(struct slot *s, enum reason reason, const void *result)
{
    struct waiter *w = s->waiter;
    if (!w)
        return;
    s->waiter = NULL;
    w->slot = NULL;
    w->wake(w, reason, result);
}

/* Caller: stop waiting; wake will not be called. What was asked may still happen. */
static inline void waiter_drop(struct waiter *w)
{
    if (!w->slot)
        return;
    w->slot->waiter = NULL;
    w->slot = NULL;
}

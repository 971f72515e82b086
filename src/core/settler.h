/* SPDX-License-Identifier: Apache-2.0
 * settler.h: tells the store what became of reservations, many at a time. Asks of one short window travel together; those whose
 * fate is RETRY or UNKNOWN are told again a bounded number of times (settle only ever moves forward, so twice is harmless).
 * A hint (PUBLISHED, RECONCILING) that is lost costs nothing but a republished message; a verdict that must be seen first is
 * pushed with settler_push, whose owner hears how it ended. */
#pragma once
#include "arena.h"
#include "clock.h"
#include "list.h"
#include "random.h"
#include "store.h"

struct settler_options {
    uint32_t window_us;      /* how long an ask waits for company; 3000: one alone costs the store three times as much as one of many */
    size_t batch;            /* most asks of one call, ≤ STORE_BATCH_MAX; 128 */
    size_t pending;          /* most asks held; 8192 */
    size_t calls;            /* calls in flight; 4 */
    uint32_t call_ms;        /* budget of one; 500 */
    uint32_t attempts;       /* of one ask; 4 */
    uint32_t back_off_ms;    /* before the second; doubled each time, with jitter; 20 */
};
struct settler_options settler_options_default(void);

/* Woken once, with OK or UNCHANGED (told), or with the last reason it was not; never before settler_push has returned. */
struct settle_wait {
    void (*done)(struct settle_wait *, enum reason);
    struct settle_job *job;
};

struct settler {
    struct store *store;
    struct clock *clock;
    struct random *random;
    struct settler_options options;
    struct settle_job *jobs;
    struct settle_call *calls_memory;
    struct link free, ready, resting, idle_calls;
    size_t held;
    struct alarm window, rest;
};

bool settler_init(struct settler *, struct store *, struct clock *, struct random *, struct settler_options);
void settler_free(struct settler *);
size_t settler_memory(struct settler_options);    /* bytes that settler_init takes */

/* Copies the ask; false: full, and nothing will be told. */
bool settler_ask(struct settler *, const struct settle_ask *);
bool settler_push(struct settler *, const struct settle_ask *, struct settle_wait *) must_check;
void settler_let_go(struct settle_wait *);    /* harmless when not waiting; what was asked goes on */
static inline size_t settler_held(const struct settler *s) { return s->held; }

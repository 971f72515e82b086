/* SPDX-License-Identifier: Apache-2.0
 * counter.h: where what is to be done to orders waits for company: callbacks of payment channels, cancels. What comes within one short window, or
 * while an earlier call is under way, goes to the ledger in one call, in the order in which it came. One counter for pays, one for cancels.
 *
 * Whoever waits, waits a bounded time. An unknown commit is told as it is (fate UNKNOWN): asking again settles it, for the ledger does nothing
 * twice. A batch that the ledger can never take (POISON), or of which another transaction holds a row (LOCK_TIMEOUT), is tried item by item, so that one bad or held
 * one spoils nobody else's. */
#pragma once
#include "clock.h"
#include "ledger.h"
#include "list.h"

enum counter_kind { COUNTER_PAY, COUNTER_CANCEL };

struct counter_options {
    size_t waiting;          /* calls held, those under way included; 1024, then OVERLOADED */
    size_t batch;            /* most of one call to the ledger, ≤ LEDGER_PAY_MAX; 64 */
    uint32_t window_us;      /* how long the first waits for company; 300 */
    uint32_t call_ms;        /* budget of a call to the ledger; 2000 */
    uint32_t wait_ms;        /* who has not left for the ledger by then is told DEPENDENCY_DOWN: nothing happened; 3000 */
};
struct counter_options counter_options_default(void);

/* One call. Lives in its caller; texts of the item must stay until it is done. */
struct counter_call {
    union {
        struct pay_item pay;
        struct cancel_item cancel;
    };
    /* OK: the verdict holds; else why there is none. Never before counter_put has returned. */
    void (*done)(struct counter_call *, enum reason);
    union {
        struct pay_verdict paid;
        struct cancel_verdict canceled;
    };
    /* own */
    struct link link;
    struct counter_batch *batch;    /* under way in it; NULL: waits, or not here at all */
    size_t at;                      /* … at this place */
    struct counter *counter;        /* NULL: not here */
    uint64_t due_us;
};

#define COUNTER_BATCHES 2
struct counter_batch {
    struct counter *counter;
    struct waiter waiter;
    size_t count;                   /* 0: idle */
    struct counter_call *calls[LEDGER_PAY_MAX];    /* NULL: he has gone */
};
struct counter {
    struct ledger *ledger;
    struct clock *clock;
    enum counter_kind kind;
    struct counter_options options;
    struct link ready;
    size_t held, single;            /* single: so many go alone, after a POISON or a LOCK_TIMEOUT */
    struct counter_batch batches[COUNTER_BATCHES];
    struct alarm alarm;             /* the window's end, or the first one's patience */
    uint64_t window_us;
};
void counter_init(struct counter *, enum counter_kind, struct ledger *, struct clock *, struct counter_options);
void counter_stop(struct counter *);               /* timers and calls off; who waits hears no more */

/* false: full (OVERLOADED): nothing will happen. */
bool counter_put(struct counter *, struct counter_call *) must_check;
void counter_let_go(struct counter_call *);        /* harmless when not waiting; what left for the ledger may still happen */
static inline size_t counter_held(const struct counter *c) { return c->held; }

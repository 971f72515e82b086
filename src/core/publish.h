/* SPDX-License-Identifier: Apache-2.0
 * publish.h: announces a reservation. The attempt lives here, not in the caller: whoever waits, waits a bounded time (mission
 * §8.4: 28 ms) and is then let go, while the send goes on behind him. Messages of one short window travel as one batch.
 *
 * A send confirmed moves the reservation to PUBLISHED; one whose outcome is unknown to RECONCILING; one that was surely not stored
 * leaves it RESERVED. All three are the janitor's to repeat with the same ids. Nothing is ever taken back here. */
#pragma once
#include "bus.h"
#include "clock.h"
#include "ident.h"
#include "list.h"
#include "message.h"
#include "settler.h"

struct publisher_options {
    uint32_t wait_ms;        /* how long a caller waits; 28 */
    uint32_t send_ms;        /* budget of the send itself; 3000 */
    uint32_t window_us;      /* how long a message waits for company; 0: until the loop turns. The bus gathers what comes while a send is under way */
    size_t batch;            /* most messages of one send, ≤ BUS_BATCH_MAX; 64 */
    size_t pending;          /* most messages held; 8192 */
    size_t sends;            /* in flight; 256 */
};
struct publisher_options publisher_options_default(void);

#define PUBLISH_TRACE_MAX 128
struct publish_ask {
    struct bucket bucket;
    struct str user;
    const struct entry *entry;    /* with its unit */
    struct str trace;             /* traceparent, or empty; one longer than PUBLISH_TRACE_MAX is left out */
    bool again;                   /* the janitor's: counted as republished */
};
/* Woken once, never before publish_start has returned: OK (the broker has it), TIMED_OUT (still under way behind you), or how it ended. */
struct publish_wait {
    void (*done)(struct publish_wait *, enum reason);
    struct publish_job *job;
    struct alarm patience;
    struct clock *clock;
};

struct publisher {
    struct bus *bus;
    struct clock *clock;
    struct settler *settler;
    const struct ident_keys *keys;
    struct publisher_options options;
    struct publish_job *jobs;
    struct publish_send *sends_memory;
    struct link free, ready, idle_sends;
    size_t held;
    struct alarm window;
};

/* false: no memory. The settler hears how each send ended. */
bool publisher_init(struct publisher *, struct bus *, struct clock *, struct settler *, const struct ident_keys *, struct publisher_options);
void publisher_free(struct publisher *);
size_t publisher_memory(struct publisher_options);    /* bytes that publisher_init takes */

/* false: full; the reservation stays RESERVED and the janitor announces it. `wait` may be NULL. */
bool publish_start(struct publisher *, const struct publish_ask *, struct publish_wait *wait);
void publish_let_go(struct publish_wait *);    /* harmless when not waiting; the send goes on */
static inline size_t publisher_held(const struct publisher *p) { return p->held; }

/* SPDX-License-Identifier: Apache-2.0
 * order.h: the consumer. It leases queues, makes sure they are still the queues it knew, reads them, and puts what it reads before the ledger in
 * batches; the offsets move in the ledger's own transaction, with the orders they pay for (protocol §5, §3). Any number of consumers may
 * run; a lease only saves work. It trusts no one: a message may come twice, late, out of order, broken, or years after. */
#pragma once
#include "bus.h"
#include "clock.h"
#include "ident.h"
#include "ledger.h"
#include "list.h"
#include "random.h"

#define ORDER_QUEUES_MAX 256      /* as many as `bus.queues` allows on one broker; memory is taken for what is read */

struct order_options {
    const struct ident_keys *keys; /* every message is verified with them; stay the caller's */
    struct str topic, group;      /* MESSAGE_TOPIC, MESSAGE_GROUP */
    struct str owner;             /* unique per process and start; stays the caller's */
    size_t queues;                /* most queues looked after, of all brokers; 256 */
    size_t batch;                 /* most messages of one place, ≤ LEDGER_BATCH_MAX; 256 */
    size_t per_queue;             /* most messages of one queue held; 256 */
    size_t batches;               /* places in flight; 2 */
    uint32_t linger_ms;           /* how long a small batch waits for company while another is in flight; 2 */
    uint32_t renew_ms;            /* between two lease calls; 1000 */
    uint32_t pull_wait_ms;        /* how long the broker may hold an empty pull; 500 */
    uint32_t call_ms;             /* budget of a call; 5000 */
    uint32_t look_ms;             /* between two looks at which queues there are; 5000 */
    uint32_t back_off_ms;         /* after ENGINE_BUSY and the like, doubled up to 2 s, with jitter; 20 */
};
struct order_options order_options_default(void);

struct order_desk;    /* one per event loop of an order process */
/* NULL: no memory. Allocates here and never again. */
struct order_desk *order_new(struct bus *, struct ledger *, struct clock *, struct random *, const struct order_options *);
void order_start(struct order_desk *);
void order_drain(struct order_desk *);           /* pulls no more; what is in flight is finished, then its offsets are mirrored */
bool order_idle(const struct order_desk *);      /* drained, nothing in flight */
void order_free(struct order_desk *);            /* drops what is in flight */

/* What an operator may ask. */
struct order_facts {
    size_t queues, held;            /* seen; leased */
    uint64_t consumed, placed, parked, lost, reread;
    int64_t behind;                 /* messages not yet read in the leased queues, as last seen */
};
struct order_facts order_facts(const struct order_desk *);

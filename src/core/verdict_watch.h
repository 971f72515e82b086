/* SPDX-License-Identifier: Apache-2.0
 * verdict_watch.h: clients that wait for the verdicts of known reservations are checked against the ledger together: one read names up to LEDGER_BATCH_MAX
 * reservations. Verdicts usually come through the store; this finds those that the store has not been told, at a cost that does not grow with the clients. */
#pragma once
#include "clock.h"
#include "ledger.h"
#include "list.h"

struct verdict_watch_item {
    struct link link;
    struct ident ident;
    size_t asked_at;         /* place in the read under way, from 1; 0: it is in none */
    void (*decided)(struct verdict_watch_item *);    /* a verdict stands; called from the loop, again with each read until the item is removed */
};
struct verdict_watch {
    struct ledger *ledger;
    struct clock *clock;
    uint32_t every_ms;       /* between two reads */
    uint32_t call_ms;        /* budget of one */
    struct link items;
    struct verdict_watch_item *asked[LEDGER_BATCH_MAX];
    struct waiter reader;
    struct alarm tick;
};

void verdict_watch_init(struct verdict_watch *, struct ledger *, struct clock *, uint32_t every_ms, uint32_t call_ms);
/* Harmless when it is watched already. The item's link must have been initialised (list_init); its owner removes it before it dies. */
void verdict_watch_add(struct verdict_watch *, struct verdict_watch_item *);
void verdict_watch_remove(struct verdict_watch *, struct verdict_watch_item *);    /* harmless when it is not watched */
static inline bool verdict_watched(const struct verdict_watch_item *i) { return !list_empty(&i->link); }
void verdict_watch_stop(struct verdict_watch *);    /* timers off, the read dropped */

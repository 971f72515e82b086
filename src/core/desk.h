/* SPDX-License-Identifier: Apache-2.0
 * desk.h: what an access process holds on one event loop: the ports, the keys, and the objects that every reservation and every query
 * passes through. All memory is taken here, at the start. */
#pragma once
#include "allowance.h"
#include "catalog.h"
#include "counter.h"
#include "doubt.h"
#include "ident.h"
#include "incarnation.h"
#include "publish.h"
#include "query.h"
#include "settler.h"
#include "soldout.h"
#include "verdict.h"
#include "verdict_watch.h"

struct desk_options {
    struct catalog_options catalog;
    struct settler_options settler;
    struct publisher_options publisher;
    struct incarnation_options incarnation;
    struct soldout_options soldout;
    struct query_options query;
    struct counter_options pays, cancels;
    size_t takes;                 /* in flight at once; 8192, then OVERLOADED */
    uint32_t reserve_ms;          /* budget of one reserve; 1000 */
    uint32_t ledger_ms;           /* budget of one look at the ledger; 500 */
    uint32_t refresh_ms;          /* how long a take waits for the catalog after STALE_EPOCH; 300 */
    uint32_t poll_after_ms;       /* told with QUEUED; 500 (mission §12.11) */
    /* Ledger reads a second. Their sum, and a quarter more, fits the ledger's lane of reads (lane.def), so that no class of readers fills it for the others. */
    uint32_t take_looks;          /* for replays, and for requests whose tombstones are full; 500: above that QUEUED is said as RECONCILING, or OVERLOADED */
    uint32_t answer_looks;        /* for queries that answer now; 750: above that RECONCILING, or OVERLOADED */
    uint32_t waiting_looks;       /* for queries that go on waiting; 100: above that the query waits for Redis, the watch, and its own end */
    uint32_t watch_ms;            /* between two reads of the watch, each of LEDGER_BATCH_MAX reservations; 500 */
};
struct desk_options desk_options_default(void);

/* One per event loop of an access process. */
struct desk {
    struct store *store;
    struct bus *bus;
    struct ledger *ledger;
    struct clock *clock;
    struct random *random;
    const struct ident_keys *keys;
    struct desk_options options;
    struct catalog catalog;
    struct settler settler;
    struct publisher publisher;
    struct incarnation_guard guard;    /* whether the store still holds all it has said */
    struct soldout soldout;
    struct verdict_office office;
    struct counter pays, cancels;
    size_t takes, queries;        /* in flight */
    struct allowance dressed, given_up, take_looks, answer_looks, waiting_looks;
    struct verdict_watch watch;   /* queries that wait for the verdict of a reservation that the store holds */
    struct doubt_table doubts;    /* the buckets whose undecided answers are not believed alone (protocol §6) */
    bool draining;                /* takes nothing new: replays only */
};
/* false: no memory. The ports and the keys must outlive it. */
bool desk_init(struct desk *, struct store *, struct bus *, struct ledger *, struct clock *, struct random *, const struct ident_keys *, struct desk_options);
void desk_start(struct desk *);
void desk_drain(struct desk *);               /* from now on only replays */
bool desk_idle(const struct desk *);          /* nothing in flight: takes, queries, sends, settles */
void desk_stop(struct desk *);                /* timers off; only when idle, or at the process's end */
void desk_free(struct desk *);

/* The bucket holds less than a client was shown, or has lost data: for a minute its undecided answers are confirmed with the ledger. `activity`: its number. */
void desk_doubt(struct desk *, uint16_t activity, uint8_t bucket);
bool desk_in_doubt(const struct desk *, uint16_t activity, uint8_t bucket);
/* Takes one of an allowance whose burst is a quarter of a second's share. */
static inline bool desk_may(struct desk *d, struct allowance *a, uint32_t per_second) { return allowance_take(a, per_second, per_second / 4, clock_mono_us(d->clock)); }

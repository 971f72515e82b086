/* SPDX-License-Identifier: Apache-2.0
 * reservation.h: the whole of POST /v1/reservations after admission: find what the user has, or take one unit and announce it.
 * Reservations never exceed the units, one per user and SKU; asking again gives the same reservation; where an engine does not answer
 * the answer is *unknown* or a refusal that took nothing, never a guess (fail closed). */
#pragma once
#include "catalog.h"
#include "ident.h"
#include "publish.h"
#include "query.h"
#include "settler.h"
#include "soldout.h"

struct desk_options {
    struct catalog_options catalog;
    struct settler_options settler;
    struct publisher_options publisher;
    struct soldout_options soldout;
    struct query_options query;
    size_t takes;                 /* in flight at once; 4096, then OVERLOADED */
    uint32_t reserve_ms;          /* budget of one reserve; 80 */
    uint32_t ledger_ms;           /* budget of one look at the ledger; 500 */
    uint32_t refresh_ms;          /* how long a take waits for the catalog after STALE_EPOCH; 300 */
    uint32_t poll_after_ms;       /* told with QUEUED; 500 (mission §12.11) */
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
    struct soldout soldout;
    size_t takes, queries;        /* in flight */
    bool draining;                /* takes nothing new: replays only */
};
/* false: no memory. The ports and the keys must outlive it. */
bool desk_init(struct desk *, struct store *, struct bus *, struct ledger *, struct clock *, struct random *, const struct ident_keys *, struct desk_options);
void desk_start(struct desk *);
void desk_drain(struct desk *);               /* from now on only replays */
bool desk_idle(const struct desk *);          /* nothing in flight: takes, queries, sends, settles */
void desk_stop(struct desk *);                /* timers off; only when idle, or at the process's end */
void desk_free(struct desk *);

/* One POST. Lives in its caller; what the caller filled in must stay until it is done. */
struct take {
    /* in */
    struct str activity, sku, user, request;      /* each str_is_id */
    struct str nonce;                             /* of the qualification token, already verified; empty: none came */
    struct str trace;                             /* traceparent, or empty */
    bool replay_only;                             /* the token is authentic but expired */
    void (*done)(struct take *);

    /* out */
    enum reason reason;                           /* a row of interfaces §1 */
    bool replayed;
    bool has_entry;                               /* QUEUED, ORDERED, RELEASED, ALREADY_PURCHASED */
    struct entry entry;
    uint32_t poll_after_ms;                       /* with QUEUED and UNCERTAIN */
    int64_t starts_ms;                            /* with NOT_STARTED */

    /* own */
    struct desk *desk;
    struct ident ident;
    struct bucket bucket;
    uint64_t hash, began_us;
    int sku_at;
    uint8_t refreshed, asked;                     /* how often: each at most once */
    struct waiter waiter;
    struct alarm alarm;
    struct catalog_wait catalog;
    struct soldout_wait soldout;
    struct publish_wait publish;
    char memory[192];
};
/* true: the answer stands in the take already; done will not be called. false: done will be called once, later. */
bool reservation_take(struct desk *, struct take *) must_check;
/* The caller goes away: done will not be called. Whatever was taken is found by the janitor. Harmless when not under way. */
void reservation_let_go(struct take *);

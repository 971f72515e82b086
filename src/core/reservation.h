/* SPDX-License-Identifier: Apache-2.0
 * reservation.h: the whole of POST /v1/reservations after admission: find what the user has, or take one unit and announce it.
 * Reservations never exceed the units, one per user and SKU; asking again gives the same reservation; where an engine does not answer
 * the answer is *unknown* or a refusal that took nothing, never a guess (fail closed). */
#pragma once
#include "desk.h"
#include "verdict.h"

/* One POST. Lives in its caller; what the caller filled in must stay until it is done. */
struct take {
    /* in */
    struct str activity, sku, user, request;      /* each str_is_id */
    struct str nonce;                             /* of the qualification token, already verified; empty: none came */
    struct str trace;                             /* traceparent, or empty */
    bool replay_only;                             /* the token is expired, or not one of ours: the user's own reservation is found, nothing new is taken */
    void (*done)(struct take *);

    /* out */
    enum reason reason;                           /* a row of interfaces §1 */
    bool replayed;
    bool has_entry;                               /* QUEUED, ORDERED, RELEASED, ALREADY_PURCHASED */
    struct entry entry;
    uint32_t poll_after_ms;                       /* with QUEUED and UNCERTAIN */
    int64_t starts_ms, now_ms;                    /* with NOT_STARTED; now_ms: by the bucket's clock, which judges the start; while there is no bucket yet, by ours */

    /* own */
    struct desk *desk;
    struct bucket bucket;
    uint64_t hash, asked_us;
    int sku_at;
    bool refreshed, unread, asked, old;           /* unread: the activities were to be read again, and could not be */
    bool unqualified;                             /* the activity demands a token and none came: a replay is found, nothing new is taken */
    enum incarnation server;                      /* whom the store was found to be when it was asked, and what it had said */
    struct incarnation_asked seen;
    struct waiter waiter;
    struct alarm alarm;
    struct catalog_wait catalog;
    struct soldout_wait soldout;
    struct publish_wait publish;
    struct verdict_ask verdict;
    char memory[192];
};
/* true: the answer stands in the take already; done will not be called. false: done will be called once, later. */
bool reservation_take(struct desk *, struct take *) must_check;
/* The caller goes away: done will not be called. Whatever was taken is found by the janitor. Harmless when not under way. */
void reservation_let_go(struct take *);

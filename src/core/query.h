/* SPDX-License-Identifier: Apache-2.0
 * query.h: where does it stand? The store first, the ledger where the store cannot be believed: it does not answer, it does not know,
 * or what it says is undecided and older than two seconds, or younger but within a minute of a fall-back (protocol §6). Answers never go
 * to a lower rank: a verdict read from the ledger is pushed to the store before it is shown. "Not found" is only said of
 * names we never made and of other people's; what nobody knows yet is RECONCILING, and where nobody could be asked, DEPENDENCY_DOWN.
 * An id of ours that neither store knows, a minute after it was first asked for, is decided: RELEASED, because LOST; and a request that neither knows, of a sale
 * whose bucket was recovered, is REQUEST_UNDECIDED while a message of it may still be unread (docs/protocol.md, section 14). */
#pragma once
#include "clock.h"
#include "incarnation.h"
#include "ledger.h"
#include "settler.h"
#include "store.h"
#include "terms.h"
#include "verdict.h"
#include "verdict_watch.h"

struct desk;

struct query_options {
    size_t queries;               /* in flight at once, the waiting ones included; 20000, then OVERLOADED */
    uint32_t store_ms;            /* budget of a look at the store; 200 */
    uint32_t ledger_ms;           /* at the ledger; 1000 */
    uint32_t doubt_ms;            /* an undecided answer older than this is confirmed with the ledger; 2000 */
    uint32_t fall_back_ms;        /* so long after a fall-back every undecided answer is; 60000 */
    uint32_t wait_ms;             /* most that `wait` may be; 25000 */
    uint32_t look_first_ms;       /* first look again of a waiting query, growing by half … ; 60 */
    uint32_t look_most_ms;        /* … up to this; 1000 */
    uint32_t expires_ms;          /* expires_at = created + this; 45000 */
    uint32_t dress_most;          /* reservations that the store calls ORDERED, whose order is looked up as well, a second and thread; 100: above that
                                   * they are shown without order_status and pay_deadline */
    uint32_t lost_ms;             /* what neither store nor ledger knows so long after it was first asked for is RELEASED because LOST; 60000 */
    uint32_t lost_most;           /* so decided a second and thread; 100: above that it stays RECONCILING, and the next look decides */
};
struct query_options query_options_default(void);

enum query_by { QUERY_RESERVATION, QUERY_REQUEST, QUERY_ORDER };

/* The members of interfaces §1's reservation body; texts point into the query. */
struct reservation_view {
    struct str reservation, request, activity, sku;
    enum reservation_state status;
    enum reason why;              /* of RELEASED; else OK */
    struct str order;             /* empty: none */
    bool has_order;               /* the ledger was asked: order_state and pay_deadline_ms hold */
    enum order_state order_state;
    int64_t pay_deadline_ms;      /* 0: none */
    struct str superseded_by;
    int64_t expires_ms, updated_ms;
    uint32_t poll_after_ms;       /* 0: terminal */
};

struct query {
    /* in */
    enum query_by by;
    struct str id;                /* as the client wrote it */
    struct str activity;          /* with QUERY_REQUEST */
    struct str user;
    uint32_t wait_ms;             /* 0: at once */
    bool follows;                 /* the caller has shown a state and asks for a change of it only: an undecided state that cannot be confirmed now is UNCHANGED */
    void (*payments)(struct query *, const struct payment_record *, size_t count);    /* NULL, or with QUERY_ORDER called before done: what was paid for it */
    void (*done)(struct query *);

    /* out */
    enum reason reason;           /* OK · NOT_FOUND · DEPENDENCY_DOWN · OVERLOADED · REQUEST_UNDECIDED · with `follows` UNCHANGED */
    struct reservation_view view; /* with OK, QUERY_RESERVATION and QUERY_REQUEST */
    struct order order;           /* with OK, QUERY_ORDER */

    /* own */
    struct desk *desk;
    struct ident ident;
    uint64_t hash, until_us;
    uint32_t pause_ms;
    bool looked, known, store_failed;    /* looked once; the store held it; the store did not answer, or not as one that remembers */
    bool refreshed, unread;       /* the activities were read again for it; that read failed */
    bool given_up;                /* the ledger was asked to decide that no order will come: once in a query */
    struct catalog_wait catalog;
    enum reservation_state seen;
    bool confirm;                 /* the watch has found a verdict: this look asks the ledger whatever the store says */
    struct verdict_watch_item watched;
    struct incarnation_asked heard;    /* of the bucket that was asked, before it was */
    struct entry entry;           /* as the store held it */
    char kept[192];
    struct waiter waiter;
    struct alarm alarm;
    struct verdict_ask verdict;
    char memory[640];
};
/* true: answered already (done will not be called). */
bool query_start(struct desk *, struct query *) must_check;
/* The client has gone, or the process drains: done will not be called. Harmless when not under way. */
void query_let_go(struct query *);

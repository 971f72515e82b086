/* SPDX-License-Identifier: Apache-2.0
 * terms.h: the nouns of the mission as plain structs. Nobody owns anything here: every str points into memory of whoever
 * made the struct. Times: *_ms are Unix milliseconds UTC (0: none). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "reason.h"
#include "str.h"

enum reservation_state {
#define STATE(name, rank, terminal, meaning) RESERVATION_##name,
#include "reservation.def"
#undef STATE
    RESERVATION_STATE_COUNT
};
enum order_state {
#define STATE(name, holds, terminal, meaning) ORDER_##name,
#include "order.def"
#undef STATE
    ORDER_STATE_COUNT
};
enum activity_state {
#define STATE(name, sells, meaning) ACTIVITY_##name,
#include "activity.def"
#undef STATE
    ACTIVITY_STATE_COUNT
};
enum activity_event {
    ACTIVITY_EVENT_WARM, ACTIVITY_EVENT_OPEN, ACTIVITY_EVENT_PAUSE, ACTIVITY_EVENT_RESUME, ACTIVITY_EVENT_CLOSE,
    ACTIVITY_EVENT_COUNT
};

const char *reservation_state_name(enum reservation_state s);
int reservation_state_rank(enum reservation_state s);
bool reservation_state_terminal(enum reservation_state s);
bool reservation_state_parse(struct str name, enum reservation_state *out);
/* Whether spec/reservation.def has a move from one to the other (standing still is none). */
bool reservation_may_move(enum reservation_state from, enum reservation_state to);
const char *order_state_name(enum order_state s);
bool order_state_parse(struct str name, enum order_state *out);
bool order_state_holds_stock(enum order_state s);
bool order_may_move(enum order_state from, enum order_state to);
const char *activity_state_name(enum activity_state s);
bool activity_state_parse(struct str name, enum activity_state *out);
const char *activity_event_name(enum activity_event e);    /* "warm", "open", ... as in the admin routes */
/* Where the event leads from here; false when it may not happen. */
bool activity_move(enum activity_state from, enum activity_event event, enum activity_state *to);

/* 128 bits that name a reservation, its message and its order: rsv_X, msg_X, ord_X (protocol §1). Big endian:
 * time 42 (ms), activity number 12, epoch 5, bucket 5, random 48, keyed check 16. core/ident.h makes and reads them. */
struct ident {
    uint8_t bytes[16];
};
#define IDENT_TEXT 26                /* Crockford base32 of 128 bits */
#define IDENT_ID_TEXT (4 + IDENT_TEXT)  /* with its prefix */

#define UNIT_MOST ((int64_t)1 << 48)    /* units are below it: a store may keep one in six bytes */

/* A unit of stock at one generation; inventory_token_id = token_<unit>-<generation>, <unit> at least six digits. */
struct token {
    int64_t unit;           /* unique in the whole ledger, > 0 */
    uint32_t generation;    /* from 1; raised whenever the unit leaves a reservation */
};

struct sku {
    struct str sku;
    int64_t stock;         /* S0 */
    int64_t unit_first;    /* its units are unit_first … unit_first + stock - 1 */
    int64_t price;         /* minor units */
    struct str currency;   /* ISO 4217 */
};

struct activity {
    struct str activity;
    struct str title;
    uint16_t number;        /* 1 … 4095, the id's short name of it */
    uint8_t epoch;          /* 1 … 31, life of its Redis data */
    uint8_t buckets;        /* 1 … 32, of this epoch */
    enum activity_state state;
    uint64_t version;       /* of state and window; only grows */
    int64_t starts_ms, ends_ms;
    uint32_t pay_timeout_s;
    bool qualification;     /* demands a qualification token */
    bool rebuilding;
    bool retired;           /* CLOSED, and nothing of it is under way any more: it has left the working set for ever */
    const struct sku *skus;
    size_t sku_count;
    const struct str *incarnations;    /* per bucket of this epoch: of the store that holds all it ever said, as the ledger has recorded; empty: none yet. NULL: not told */
};

/* A slice of an activity in Redis: hash tag {activity:number}. */
struct bucket {
    struct str activity;
    uint8_t epoch;
    uint8_t number;
};

/* One reservation as the store holds it. */
struct entry {
    struct ident ident;
    enum reservation_state state;
    enum reason why;           /* of a RELEASED one; REASON_OK elsewhere */
    struct str request;
    struct str sku;
    struct token token;        /* unit 0 where the entry holds none (RELEASED) */
    int64_t created_ms;        /* by the clock of the bucket's Redis */
    int64_t updated_ms;
    struct str superseded_by;  /* reservation_id that has the order instead, or empty */
};

/* The CreateOrderMessage of mission §11.1. Ids are texts, for anything may come over a wire. */
struct create_order {
    int64_t schema_version;
    struct str message, request, reservation, activity, sku, user;
    struct token token;
    int64_t created_ms;
    uint8_t epoch;
    struct str trace;          /* trace_id, or empty */
    uint64_t mark;             /* keyed hash of all of the above (core/message.h); 0: none */
};

/* An order as the ledger holds it. */
struct order {
    struct str order, reservation, request, activity, sku, user;
    struct token token;
    enum order_state state;
    int64_t amount;
    struct str currency;
    int64_t created_ms, paid_ms, pay_deadline_ms, canceled_ms;    /* 0: not so */
};

/* What a payment channel says of a payment, and what became of it. */
enum payment_result { PAYMENT_FAILED, PAYMENT_SUCCESS };
enum refund_status { REFUND_NONE, REFUND_REQUESTED, REFUND_DONE };    /* REQUESTED: in the outbox, once per payment; DONE: carried to where it goes */
const char *payment_result_name(enum payment_result r);              /* "FAILED", "SUCCESS" */
bool payment_result_parse(struct str name, enum payment_result *out);
const char *refund_status_name(enum refund_status s);                /* "NONE", "REQUESTED", "DONE" */
bool refund_status_parse(struct str name, enum refund_status *out);

struct payment {
    struct str payment, order;     /* payment_id, order_id, as the channel gave them */
    enum payment_result result;
    int64_t amount;                /* minor units */
    struct str currency, channel;
    int64_t occurred_ms;           /* by the channel's clock */
};
/* A payment as the ledger holds it: the best that was ever heard of this payment_id (SUCCESS after FAILED; never back). */
struct payment_record {
    struct payment what;
    enum reason disposition;       /* PAYMENT_APPLIED, PAYMENT_EXTRA, ...: the answer to the callback that brought this result */
    enum refund_status refund;
    int64_t received_ms;
};

/* What waits for a person, and what he decided. */
enum review_kind { REVIEW_RESERVATION, REVIEW_MESSAGE, REVIEW_PAYMENT, REVIEW_CALLBACK };    /* CALLBACK: signed, and not understood */
enum review_decision { REVIEW_OPEN, REVIEW_RELEASE, REVIEW_RETRY, REVIEW_DISMISS, REVIEW_APPLY, REVIEW_REFUND };    /* OPEN: none yet; APPLY, REFUND: of a PAYMENT alone */
const char *review_kind_name(enum review_kind k);
bool review_kind_parse(struct str name, enum review_kind *out);
const char *review_decision_name(enum review_decision d);    /* "OPEN", "RELEASE", "RETRY", "DISMISS", "APPLY", "REFUND" */
bool review_decision_parse(struct str name, enum review_decision *out);

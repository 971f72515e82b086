/* SPDX-License-Identifier: Apache-2.0
 * sim_books.h: the ledger's tables as plain C, and what it does with them (protocol §3–4). Each function is one transaction: it
 * looks first, and changes nothing where it refuses. It knows no port and no clock: the hour is given. Rows are never deleted but those of the
 * outbox, so a pointer to a row, and every text in it, lives as long as the books: about 1,500 bytes an order. The structs are open for auditors, and for tests that plant a fault. */
#pragma once
#include "ledger.h"
#include "list.h"
#include "sim_map.h"

#define SIM_LEASE_MS 3000
#define SIM_ID_BYTES_MAX 64

struct sim_unit {
    struct token token;
    const struct activity *activity;
    size_t sku;
    uint8_t home;
    bool consumed;
    struct str reservation;          /* of the last reservation that had it */
};

struct sim_inbox {                   /* the verdict of a reservation */
    struct create_order what;
    enum reason outcome, why;        /* ORDERED or RELEASED */
    struct str superseded_by;
    uint32_t raised;                 /* the generation this verdict raised its unit to; 0: it raised none */
    int64_t decided_ms;
    uint64_t turn;                   /* of the call that decided it */
    struct sim_inbox *earlier;       /* RELEASED of the same (activity, user, request) */
};
struct sim_order {
    struct order order;
    uint32_t raised;                 /* the generation its cancel raised the unit to */
    struct str payment;              /* that made it PAID */
    enum reason cancel_why;
};
struct sim_payment {                 /* the best that was heard of a payment_id */
    struct payment_record record;
    struct str name;                 /* of the record: the payment_id, or where that was taken by other money, one made of the terms */
    uint32_t refund_tries, refund_refused;
    int64_t refund_asked_ms, refunded_ms;
    struct sim_payment *earlier;     /* of the same order */
};
struct sim_webhook {                 /* a callback and its first answer */
    struct str id, key;              /* key: of (channel, webhook-id) */
    uint8_t digest[32];
    struct payment what;
    enum reason outcome, why;
    int64_t heard_ms;
};
struct sim_review {
    struct str id, body, key, group;
    enum review_kind kind;
    enum review_decision decision;
    enum reason why;
    int64_t opened_ms, resolved_ms;
    bool open, readable;
    struct create_order what;
    struct payment payment;          /* of a PAYMENT one */
    struct str record;               /* … the name of the record of its money */
    struct str actor, note;
};

enum sim_change { SIM_CONSUMED, SIM_RETURNED, SIM_FREED, SIM_RAISED };
struct sim_journal {                 /* 库存流水 */
    int64_t unit;
    uint32_t generation;             /* CONSUMED: the one consumed; else the one raised to */
    enum sim_change change;
    struct str reservation;
    enum reason why;
    int64_t at_ms, restocked_ms;     /* restocked: its return was delivered; 0: not yet */
};

struct sim_row {                     /* outbox */
    struct link link;                /* in the order in which they were first written */
    struct str key;
    int64_t row, claimed_until_ms, created_ms;
    uint64_t turn;                   /* of the call that told it last: one call tells a row once */
    int32_t version;
    enum outbox_kind kind;
    bool heals;                      /* a bucket that is being healed waits for it */
    int64_t claimed_ms;              /* when it was claimed */
    const struct activity *activity; /* NULL: of none we know */
    struct str reservation;
    struct token token;
    struct str topic_key, body;
    const struct sim_payment *refund;
};

struct sim_offset {
    struct str group;
    int64_t next, leased_until_ms, caught_up_ms;
    struct str identity, owner;
};
struct sim_member {
    struct str group, owner;
    int64_t seen_until_ms;
};

struct sim_home {                    /* a bucket: what is known of its store, and how far its healing is */
    const struct activity *activity;
    uint8_t epoch, number;
    struct str incarnation, mark;
    size_t inbox_at, unit_at;
    uint64_t told;
    int64_t begun_ms;                /* of the healing; 0: never */
    bool verdicts_told, healed;
};

struct sim_question {                /* a reservation that nobody knows, and when it was first asked for */
    struct str activity, user, reservation;
    int64_t asked_ms;
};

struct sim_books {
    struct activity **activities;
    size_t activity_count, activity_cap;
    int64_t closed_ms[4096];      /* when the activity of this number was closed */
    struct sim_unit *units;          /* unit u at u - 1 */
    size_t unit_count, unit_cap;
    struct sim_inbox **inbox;
    size_t inbox_count, inbox_cap;
    struct sim_order **orders;
    size_t order_count, order_cap;
    struct sim_journal *journal;
    size_t journal_count, journal_cap;
    struct sim_payment **payments;
    size_t payment_count, payment_cap;
    struct sim_webhook **webhooks;
    size_t webhook_count, webhook_cap;
    struct sim_review **reviews;
    size_t review_count, review_cap;
    int64_t now_ms;                  /* of the last call that came through the door */
    struct link outbox, rows_free;
    size_t outbox_count;
    int64_t rows_given;
    uint64_t turn;                   /* writing calls so far */
    struct sim_member *members;
    size_t member_count, member_cap;
    struct sim_offset **offsets;
    size_t offset_count, offset_cap;
    struct sim_home *homes;
    size_t home_count, home_cap;
    struct sim_question *questions;
    size_t question_count, question_cap;

    struct sim_map activity_by_id, inbox_by_reservation, inbox_by_message, released_by_request;
    struct sim_map order_by_id, order_by_reservation, order_by_request, order_by_purchase, order_by_token, order_by_unit;
    struct sim_map row_by_key, row_by_number, offset_by_queue, review_by_id, review_by_reservation, review_by_request;
    struct sim_map held_by_reservation;    /* messages that a place left out because another transaction held their unit */
    struct sim_map payment_by_id, payment_by_order, webhook_by_id;
    struct sim_ground ground;
};
void sim_books_init(struct sim_books *b);
void sim_books_end(struct sim_books *b);

/* ---- tables (sim_books.c) ---- */

struct activity *sim_books_activity(struct sim_books *b, struct str id);
struct sim_unit *sim_books_unit(struct sim_books *b, int64_t unit);
struct sim_inbox *sim_books_inbox(struct sim_books *b, struct str reservation);
struct sim_order *sim_books_order(struct sim_books *b, struct str reservation);
struct sim_row *sim_books_row(struct sim_books *b, enum outbox_kind kind, struct str subject, struct token token);
struct sim_journal *sim_books_journal(struct sim_books *b, const struct sim_unit *u, enum sim_change change, struct str reservation);
/* Room for one more: the array, larger where it must be. */
void *sim_books_room(void *array, size_t count, size_t *cap, size_t size);

/* Tells a row again where it stands (its version grows, its claim ends), else writes it. */
void sim_books_tell_status(struct sim_books *b, const struct activity *a, struct str reservation, int64_t now_ms);
void sim_books_tell_return(struct sim_books *b, const struct sim_unit *u, int64_t now_ms);
void sim_books_tell_event(struct sim_books *b, const char *event, const struct sim_inbox *verdict, const struct sim_order *order, int64_t now_ms);
void sim_books_tell_dead(struct sim_books *b, const struct sim_review *review, int64_t now_ms);
void sim_books_tell_refund(struct sim_books *b, const struct sim_payment *p, int64_t now_ms);

enum reason sim_books_create(struct sim_books *b, const struct activity *terms, const struct activity **out);
enum reason sim_books_move(struct sim_books *b, struct str activity, enum activity_event event, uint64_t version, const struct activity **out);
enum reason sim_books_retire(struct sim_books *b, const struct retire_ask *ask);
/* Claims up to `limit` rows; out[i] is filled for the first `result` of them. */
size_t sim_books_claim(struct sim_books *b, size_t limit, uint32_t hold_ms, int64_t now_ms, struct outbox_row *out, uint64_t *waiting, int64_t *oldest_ms);
void sim_books_finish(struct sim_books *b, const struct finish_item *items, size_t count);

/* ---- healing (sim_heal.c) ---- */

enum reason sim_books_heal(struct sim_books *b, const struct heal_ask *ask, int64_t now_ms, struct heal_answer *answer);
enum reason sim_books_record(struct sim_books *b, const struct record_ask *ask);
void sim_books_repair(struct sim_books *b, const struct repair_ask *ask, int64_t now_ms, enum reason *verdicts);
struct str sim_books_incarnation(struct sim_books *b, const struct bucket *bucket);    /* empty: none recorded */

/* ---- queues (sim_books.c) ---- */

/* Grants; *out has room for ask->count. */
size_t sim_books_lease(struct sim_books *b, const struct lease_ask *ask, int64_t now_ms, struct leased *out);
/* Whether every row stands at `from`. */
bool sim_books_offsets_stand(struct sim_books *b, struct str group, const struct queue_prefix *prefixes, size_t count);
void sim_books_offsets_advance(struct sim_books *b, struct str group, struct str owner, const struct queue_prefix *prefixes, size_t count, int64_t now_ms);

/* ---- verdicts (sim_place.c) ---- */

enum reason sim_books_place(struct sim_books *b, const struct place_ask *ask, int64_t now_ms, struct verdict *verdicts, bool *regressed);
enum reason sim_books_release(struct sim_books *b, const struct release_ask *ask, int64_t now_ms, struct verdict *verdicts, bool *regressed);
enum reason sim_books_park(struct sim_books *b, const struct park_ask *ask, int64_t now_ms);

/* ---- what may be unread, what is lost (sim_lost.c) ---- */

enum reason sim_books_release_lost(struct sim_books *b, const struct release_lost_ask *ask, int64_t now_ms);
struct backlog_answer sim_books_backlog(const struct sim_books *b, const struct backlog_ask *ask, int64_t now_ms);
struct verdict sim_books_verdict(const struct sim_inbox *row, bool fresh);
/* Of the RELEASED rows of one request (the newest is given, or NULL) the one that was first; of one call's, the lowest name. */
const struct sim_inbox *sim_books_first_released(const struct sim_inbox *newest);

bool sim_books_text(struct str s);    /* whether the tables can hold it: UTF-8 without NUL */
/* A review is kept, and found by its id. */
void sim_books_review(struct sim_books *b, struct sim_review *r);

/* ---- money (sim_money.c) ---- */

enum reason sim_books_pay(struct sim_books *b, const struct pay_ask *ask, int64_t now_ms, struct pay_verdict *verdicts);
void sim_books_callback(struct sim_books *b, const struct callback_ask *ask, int64_t now_ms);
void sim_books_defer(struct sim_books *b, const struct defer_ask *ask, int64_t now_ms);
void sim_books_cancel(struct sim_books *b, const struct cancel_ask *ask, int64_t now_ms, struct cancel_verdict *verdicts);
size_t sim_books_overdue(const struct sim_books *b, const struct overdue_ask *ask, int64_t now_ms, struct overdue *out);
/* The payments of an order, oldest first, LOOK_PAYMENTS_MAX at most. */
size_t sim_books_payments(struct sim_books *b, struct str order, struct payment_record *out);
/* No order will come of this reservation: money set aside for it goes back. */
void sim_books_refund_released(struct sim_books *b, struct str reservation, int64_t now_ms);
/* A person says so: judged again, or given back. What it came to; CONFLICT: this cannot end it. */
enum reason sim_books_resolve_payment(struct sim_books *b, const struct sim_review *r, enum review_decision decision, int64_t now_ms);

/* ---- people (sim_people.c) ---- */

size_t sim_books_reviews(const struct sim_books *b, const struct reviews_ask *ask, struct review *out, uint64_t *open);
enum reason sim_books_resolve(struct sim_books *b, const struct resolve_ask *ask, int64_t now_ms, struct resolve_answer *answer);
size_t sim_books_story(const struct sim_books *b, const struct story_ask *ask, struct sim_ground *ground, struct story_event *out);

/* ---- audit (sim_audit.c): from the rows alone, through none of the maps above ---- */

#define SIM_FINDINGS_MAX 1000
/* Findings and their texts lie in `ground`. An empty activity: all of them. */
struct audit_answer sim_books_audit(const struct sim_books *b, struct str activity, struct sim_ground *ground);

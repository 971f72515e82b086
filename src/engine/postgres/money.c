/* SPDX-License-Identifier: Apache-2.0
 * money.c: payments, cancels, and what people ask and decide: asks become parameters, rows become answers. */
#include "inside.h"

#define COLUMN_BYTES(p, count, expression) do { \
        params_array_open((p), PARAMS_BYTEA, (count)); \
        for (size_t i = 0; i < (count); i++) params_item_text((p), (expression)); \
        params_array_close((p)); } while (0)

/* ---- pay ------------------------------------------------------------------------------------------------------------------------------ */

enum { PAID_OUTCOME, PAID_WHY, PAID_FRESH, PAID_REFUND };

static void pay_decode(struct call *c, const PGresult *r)
{
    size_t n = (size_t)PQntuples(r);
    check(n == c->asked);
    struct pay_verdict *verdicts = room(c, n, sizeof *verdicts);
    for (size_t i = 0; i < n; i++) {
        int row = (int)i;
        verdicts[i] = (struct pay_verdict){.outcome = field_reason(r, row, PAID_OUTCOME), .why = field_reason(r, row, PAID_WHY),
                                           .fresh = field_bool(r, row, PAID_FRESH), .refund = field_bool(r, row, PAID_REFUND)};
    }
    wake(c, REASON_OK, &(struct pay_answer){.verdicts = verdicts, .count = n});
}

void money_pay(struct ledger *l, const struct pay_ask *a, struct waiter *w)
{
    check(a->count <= LEDGER_PAY_MAX);
    struct call *c = lane_call(&of(l)->lanes[LANE_MONEY], CALL_pay, w);
    struct params *p = &c->params;
    const struct pay_item *item = a->items;
    c->decode = pay_decode;
    c->asked = a->count;
    COLUMN_TEXT(p, a->count, item[i].webhook);
    COLUMN_BYTES(p, a->count, ((struct str){(const char *)item[i].digest, sizeof item[i].digest}));
    COLUMN_BYTES(p, a->count, item[i].body);
    COLUMN_TEXT(p, a->count, item[i].reservation);
    COLUMN_TEXT(p, a->count, item[i].what.payment);
    COLUMN_TEXT(p, a->count, item[i].what.order);
    COLUMN_TEXT(p, a->count, str_of(payment_result_name(item[i].what.result)));
    COLUMN_I64(p, a->count, item[i].what.amount);
    COLUMN_TEXT(p, a->count, item[i].what.currency);
    COLUMN_TEXT(p, a->count, item[i].what.channel);
    COLUMN_I64(p, a->count, item[i].what.occurred_ms);
    lane_submit(c);
}

static void no_answer_decode(struct call *c, const PGresult *r)
{
    (void)r;
    wake(c, REASON_OK, NULL);
}

void money_callback(struct ledger *l, const struct callback_ask *a, struct waiter *w)
{
    struct call *c = lane_call(&of(l)->lanes[LANE_MONEY], CALL_callback, w);
    c->decode = no_answer_decode;
    params_text(&c->params, a->webhook);
    params_text(&c->params, a->channel);
    params_bytes(&c->params, (struct str){(const char *)a->digest, sizeof a->digest});
    params_bytes(&c->params, a->body);
    lane_submit(c);
}

void money_defer(struct ledger *l, const struct defer_ask *a, struct waiter *w)
{
    check(a->count <= LEDGER_BATCH_MAX);
    struct call *c = lane_call(&of(l)->lanes[LANE_RELAY], CALL_defer, w);
    c->decode = no_answer_decode;
    COLUMN_I64(&c->params, a->count, a->items[i].row);
    COLUMN_I32(&c->params, a->count, a->items[i].version);
    COLUMN_TEXT(&c->params, a->count, str_of(reason_word(a->items[i].why)));
    lane_submit(c);
}

/* ---- cancel ------------------------------------------------------------------------------------------------------------------------------ */

enum { CANCELED_OUTCOME, CANCELED_FRESH, CANCELED_NOW };

static void cancel_decode(struct call *c, const PGresult *r)
{
    size_t n = (size_t)PQntuples(r);
    check(n == c->asked);
    struct cancel_verdict *verdicts = room(c, n, sizeof *verdicts);
    for (size_t i = 0; i < n; i++)
        verdicts[i] = (struct cancel_verdict){.outcome = field_reason(r, (int)i, CANCELED_OUTCOME), .fresh = field_bool(r, (int)i, CANCELED_FRESH)};
    wake(c, REASON_OK, &(struct cancel_answer){.verdicts = verdicts, .count = n, .now_ms = n > 0 ? field_int(r, 0, CANCELED_NOW) : 0});
}

void money_cancel(struct ledger *l, const struct cancel_ask *a, struct waiter *w)
{
    check(a->count <= LEDGER_BATCH_MAX);
    struct call *c = lane_call(&of(l)->lanes[LANE_MONEY], CALL_cancel, w);
    struct params *p = &c->params;
    c->decode = cancel_decode;
    c->asked = a->count;
    COLUMN_TEXT(p, a->count, a->items[i].order);
    COLUMN_TEXT(p, a->count, a->items[i].user);
    params_bool(p, a->due);
    params_text(p, str_of(reason_word(a->why)));
    lane_submit(c);
}

enum { DUE_ORDER, DUE_USER, DUE_ACTIVITY, DUE_AMOUNT, DUE_DEADLINE, DUE_CURRENCY, DUE_NOW, DUE_PLACE };

static void overdue_decode(struct call *c, const PGresult *r)
{
    check(PQntuples(r) > 0);
    size_t n = field_str(r, 0, DUE_ORDER).len > 0 ? (size_t)PQntuples(r) : 0;
    struct overdue *orders = room(c, n, sizeof *orders);
    for (size_t i = 0; i < n; i++) {
        int row = (int)i;
        orders[i] = (struct overdue){
            .order = field_str(r, row, DUE_ORDER), .user = field_str(r, row, DUE_USER), .activity = field_str(r, row, DUE_ACTIVITY),
            .amount = field_int(r, row, DUE_AMOUNT), .pay_deadline_ms = field_int(r, row, DUE_DEADLINE), .currency = field_str(r, row, DUE_CURRENCY),
            .place = field_int(r, row, DUE_PLACE),
        };
    }
    wake(c, REASON_OK, &(struct overdue_answer){.orders = orders, .count = n, .now_ms = field_int(r, 0, DUE_NOW)});
}

void money_overdue(struct ledger *l, const struct overdue_ask *a, struct waiter *w)
{
    check(a->limit > 0 && a->limit <= LEDGER_BATCH_MAX);
    struct call *c = lane_call(&of(l)->lanes[LANE_MONEY], CALL_overdue, w);
    c->decode = overdue_decode;
    params_i32(&c->params, (int32_t)a->limit);
    params_i32(&c->params, a->grace_ms > INT32_MAX ? INT32_MAX : (int32_t)a->grace_ms);
    params_i64(&c->params, a->after_place);
    params_text(&c->params, a->after_order);
    lane_submit(c);
}

/* ---- reviews ------------------------------------------------------------------------------------------------------------------------------ */

enum {
    REVIEW_ID, REVIEW_KIND, REVIEW_WHY, REVIEW_DECISION, REVIEW_GROUP, REVIEW_KEY, REVIEW_OF_MESSAGE, REVIEW_REQUEST, REVIEW_OF_RESERVATION,
    REVIEW_ACTIVITY, REVIEW_SKU, REVIEW_USER, REVIEW_UNIT, REVIEW_GENERATION, REVIEW_CREATED, REVIEW_EPOCH, REVIEW_OF_PAYMENT, REVIEW_ORDER,
    REVIEW_RESULT, REVIEW_AMOUNT, REVIEW_CURRENCY, REVIEW_CHANNEL, REVIEW_OCCURRED, REVIEW_ACTOR, REVIEW_NOTE, REVIEW_OPENED, REVIEW_RESOLVED,
    REVIEW_BODY, REVIEW_OPEN_COUNT
};

static struct review review_row(const PGresult *r, int row)
{
    struct review v = {
        .id = field_str(r, row, REVIEW_ID), .why = field_reason(r, row, REVIEW_WHY), .group = field_str(r, row, REVIEW_GROUP),
        .key = field_str(r, row, REVIEW_KEY),
        .what = {.schema_version = 1, .message = field_str(r, row, REVIEW_OF_MESSAGE), .request = field_str(r, row, REVIEW_REQUEST),
                 .reservation = field_str(r, row, REVIEW_OF_RESERVATION), .activity = field_str(r, row, REVIEW_ACTIVITY),
                 .sku = field_str(r, row, REVIEW_SKU), .user = field_str(r, row, REVIEW_USER),
                 .token = {field_int(r, row, REVIEW_UNIT), (uint32_t)field_int(r, row, REVIEW_GENERATION)},
                 .created_ms = field_int(r, row, REVIEW_CREATED), .epoch = (uint8_t)field_int(r, row, REVIEW_EPOCH)},
        .payment = {.payment = field_str(r, row, REVIEW_OF_PAYMENT), .order = field_str(r, row, REVIEW_ORDER), .amount = field_int(r, row, REVIEW_AMOUNT),
                    .currency = field_str(r, row, REVIEW_CURRENCY), .channel = field_str(r, row, REVIEW_CHANNEL),
                    .occurred_ms = field_int(r, row, REVIEW_OCCURRED)},
        .actor = field_str(r, row, REVIEW_ACTOR), .note = field_str(r, row, REVIEW_NOTE),
        .opened_ms = field_int(r, row, REVIEW_OPENED), .resolved_ms = field_int(r, row, REVIEW_RESOLVED), .body = field_str(r, row, REVIEW_BODY),
    };
    check(review_kind_parse(field_str(r, row, REVIEW_KIND), &v.kind));
    check(review_decision_parse(field_str(r, row, REVIEW_DECISION), &v.decision));
    check(payment_result_parse(field_str(r, row, REVIEW_RESULT), &v.payment.result));
    return v;
}

static void reviews_decode(struct call *c, const PGresult *r)
{
    check(PQntuples(r) > 0);
    size_t n = field_str(r, 0, REVIEW_ID).len > 0 ? (size_t)PQntuples(r) : 0;
    struct review *reviews = room(c, n, sizeof *reviews);
    for (size_t i = 0; i < n; i++)
        reviews[i] = review_row(r, (int)i);
    bool missing = c->asked == 1 && n == 0;
    struct reviews_answer a = {.reviews = reviews, .count = n, .open = (uint64_t)field_int(r, 0, REVIEW_OPEN_COUNT)};
    wake(c, missing ? REASON_NOT_FOUND : REASON_OK, missing ? NULL : &a);
}

void money_reviews(struct ledger *l, const struct reviews_ask *a, struct waiter *w)
{
    check(a->id.len > 0 || (a->limit > 0 && a->limit <= LEDGER_BATCH_MAX));
    struct call *c = lane_call(&of(l)->lanes[LANE_REPORT], CALL_reviews, w);
    c->decode = reviews_decode;
    c->asked = a->id.len > 0;
    params_text(&c->params, a->id);
    params_bool(&c->params, a->all);
    params_i64(&c->params, a->before_ms);
    params_i32(&c->params, (int32_t)a->limit);
    lane_submit(c);
}

enum { RESOLVED_RESULT, RESOLVED_OUTCOME, RESOLVED_WHY };

static void resolve_decode(struct call *c, const PGresult *r)
{
    enum reason reason = field_reason(r, 0, RESOLVED_RESULT);
    struct resolve_answer a = {.outcome = field_reason(r, 0, RESOLVED_OUTCOME), .why = field_reason(r, 0, RESOLVED_WHY)};
    wake(c, reason, reason == REASON_OK ? &a : NULL);
}

void money_resolve(struct ledger *l, const struct resolve_ask *a, struct waiter *w)
{
    check(a->decision != REVIEW_OPEN);
    struct call *c = lane_call(&of(l)->lanes[LANE_ADMIN], CALL_resolve, w);
    struct params *p = &c->params;
    c->decode = resolve_decode;
    params_text(p, a->id);
    params_text(p, str_of(review_decision_name(a->decision)));
    params_text(p, a->actor);
    params_text(p, a->note);
    params_what(p, a->what);
    lane_submit(c);
}

/* ---- story ------------------------------------------------------------------------------------------------------------------------------ */

enum {
    STORY_AT, STORY_KIND, STORY_OF_RESERVATION, STORY_OF_ORDER, STORY_OF_USER, STORY_OF_PAYMENT, STORY_OF_REVIEW, STORY_OF_UNIT, STORY_GENERATION,
    STORY_OUTCOME, STORY_WHY, STORY_RESULT, STORY_REFUND_STATUS, STORY_AMOUNT, STORY_CURRENCY, STORY_DETAIL
};

static enum story_kind story_kind_of(struct str word)
{
    static const char *const words[STORY_KINDS] = {"DECIDED", "CREATED", "PAID", "CANCELED", "CONSUMED", "RETURNED", "FREED", "RAISED", "RESTOCKED",
                                                   "PAYMENT_HEARD", "REFUND", "REVIEW", "RESOLVED"};
    for (unsigned i = 0; i < STORY_KINDS; i++)
        if (str_eq(word, str_of(words[i])))
            return (enum story_kind)i;
    check(!"a kind of event that story.sql does not tell");
    return STORY_DECIDED;
}

static struct story_event story_row(const PGresult *r, int row)
{
    struct story_event e = {
        .at_ms = field_int(r, row, STORY_AT), .kind = story_kind_of(field_str(r, row, STORY_KIND)),
        .reservation = field_str(r, row, STORY_OF_RESERVATION), .order = field_str(r, row, STORY_OF_ORDER), .user = field_str(r, row, STORY_OF_USER),
        .payment = field_str(r, row, STORY_OF_PAYMENT), .review = field_str(r, row, STORY_OF_REVIEW),
        .token = {field_int(r, row, STORY_OF_UNIT), (uint32_t)field_int(r, row, STORY_GENERATION)},
        .outcome = field_reason(r, row, STORY_OUTCOME), .why = field_reason(r, row, STORY_WHY), .amount = field_int(r, row, STORY_AMOUNT),
        .currency = field_str(r, row, STORY_CURRENCY), .detail = field_str(r, row, STORY_DETAIL),
    };
    check(payment_result_parse(field_str(r, row, STORY_RESULT), &e.result));
    check(refund_status_parse(field_str(r, row, STORY_REFUND_STATUS), &e.refund));
    return e;
}

static void story_decode(struct call *c, const PGresult *r)
{
    size_t n = (size_t)PQntuples(r);
    struct story_event *events = room(c, n, sizeof *events);
    for (size_t i = 0; i < n; i++)
        events[i] = story_row(r, (int)i);
    wake(c, REASON_OK, &(struct story_answer){.events = events, .count = n});
}

void money_story(struct ledger *l, const struct story_ask *a, struct waiter *w)
{
    static const char *const by[] = {[STORY_UNIT] = "UNIT", [STORY_RESERVATION] = "RESERVATION", [STORY_ORDER] = "ORDER", [STORY_PAYMENT] = "PAYMENT",
                                     [STORY_USER] = "USER"};
    check(a->limit > 0 && a->limit <= LEDGER_BATCH_MAX);
    struct call *c = lane_call(&of(l)->lanes[LANE_REPORT], CALL_story, w);
    c->decode = story_decode;
    params_text(&c->params, str_of(by[a->by]));
    params_text(&c->params, a->id);
    params_i64(&c->params, a->unit);
    params_text(&c->params, a->activity);
    params_i32(&c->params, (int32_t)a->limit);
    lane_submit(c);
}

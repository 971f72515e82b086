/* SPDX-License-Identifier: Apache-2.0
 * postgres.c: the port's asks become parameters, rows become its answers. How they travel: lane.h. */
#include "postgres.h"

#include "inside.h"

/* ---- lease -------------------------------------------------------------------------------------------------------------------------- */

static void lease_decode(struct call *c, const PGresult *r)
{
    size_t n = (size_t)PQntuples(r);
    struct leased *leased = room(c, n, sizeof *leased);
    int64_t now_ms = n > 0 ? field_int(r, 0, 3) : 0;
    for (size_t i = 0; i < n; i++) {
        int row = (int)i;
        leased[i] = (struct leased){.queue = (size_t)field_int(r, row, 0), .next = field_int(r, row, 1), .identity = field_str(r, row, 2)};
        check(leased[i].queue < c->asked);
    }
    wake(c, REASON_OK, &(struct lease_answer){.leased = leased, .count = n, .now_ms = now_ms});
}

static void lease(struct ledger *l, const struct lease_ask *a, struct waiter *w)
{
    struct call *c = lane_call(&of(l)->lanes[LANE_PLACE], CALL_lease, w);
    struct params *p = &c->params;
    c->decode = lease_decode;
    c->asked = a->count;
    params_text(p, a->group);
    params_text(p, a->owner);
    COLUMN_TEXT(p, a->count, a->queues[i].broker);
    COLUMN_TEXT(p, a->count, a->queues[i].topic);
    COLUMN_I32(p, a->count, a->queues[i].number);
    COLUMN_I64(p, a->count, a->starts[i]);
    COLUMN_I64(p, a->count, a->caught_up_ms ? a->caught_up_ms[i] : 0);
    lane_submit(c);
}

static void decided_decode(struct call *c, const PGresult *r)
{
    size_t n = (size_t)PQntuples(r);
    check(n == c->asked);
    bool *decided = room(c, n, sizeof *decided);
    for (size_t i = 0; i < n; i++)
        decided[i] = field_bool(r, (int)i, 0);
    wake(c, REASON_OK, &(struct decided_answer){.decided = decided, .count = n});
}

static void decided(struct ledger *l, const struct decided_ask *a, struct waiter *w)
{
    check(a->count >= 1 && a->count <= LEDGER_BATCH_MAX);
    struct call *c = lane_call(&of(l)->lanes[LANE_READ], CALL_decided, w);
    c->decode = decided_decode;
    c->asked = a->count;
    COLUMN_TEXT(&c->params, a->count, a->reservations[i]);
    lane_submit(c);
}

static void backlog_decode(struct call *c, const PGresult *r)
{
    check(PQntuples(r) == 1);
    wake(c, REASON_OK, &(struct backlog_answer){.read_ms = field_int(r, 0, 0), .unread = field_bool(r, 0, 1), .numbers_free = (uint32_t)field_int(r, 0, 2)});
}

static void backlog(struct ledger *l, const struct backlog_ask *a, struct waiter *w)
{
    struct call *c = lane_call(&of(l)->lanes[LANE_READ], CALL_backlog, w);
    c->decode = backlog_decode;
    params_text(&c->params, a->group);
    params_text(&c->params, a->activity);
    lane_submit(c);
}

/* ---- place, release, park --------------------------------------------------------------------------------------------------------------- */

enum { VERDICT_OUTCOME, VERDICT_WHY, VERDICT_FRESH, VERDICT_ORDER, VERDICT_SUPERSEDED_BY, VERDICT_REGRESSED };

static void place_decode(struct call *c, const PGresult *r)
{
    size_t n = (size_t)PQntuples(r);
    if (n == 1 && str_eq(field_str(r, 0, VERDICT_OUTCOME), str_lit("QUEUE_LOST"))) {
        wake(c, REASON_QUEUE_LOST, NULL);
        return;
    }
    check(n == c->asked);
    struct verdict *verdicts = room(c, n, sizeof *verdicts);
    struct place_answer answer = {.verdicts = verdicts, .count = n};
    for (size_t i = 0; i < n; i++) {
        int row = (int)i;
        verdicts[i] = (struct verdict){
            .outcome = field_reason(r, row, VERDICT_OUTCOME),
            .why = field_reason(r, row, VERDICT_WHY),
            .fresh = field_bool(r, row, VERDICT_FRESH),
            .order = field_str(r, row, VERDICT_ORDER),
            .superseded_by = field_str(r, row, VERDICT_SUPERSEDED_BY),
        };
        answer.regressed |= field_bool(r, row, VERDICT_REGRESSED);
    }
    wake(c, REASON_OK, &answer);
}

static void place(struct ledger *l, const struct place_ask *a, struct waiter *w)
{
    check(a->count <= LEDGER_BATCH_MAX);
    struct call *c = lane_call(&of(l)->lanes[LANE_PLACE], CALL_place, w);
    struct params *p = &c->params;
    const struct queue_prefix *q = a->prefixes;
    const struct create_order *item = a->items;
    c->decode = place_decode;
    c->asked = a->count;
    params_text(p, a->group);
    params_text(p, a->owner);
    COLUMN_TEXT(p, a->prefix_count, q[i].queue.broker);
    COLUMN_TEXT(p, a->prefix_count, q[i].queue.topic);
    COLUMN_I32(p, a->prefix_count, q[i].queue.number);
    COLUMN_I64(p, a->prefix_count, q[i].from);
    COLUMN_I64(p, a->prefix_count, q[i].to);
    COLUMN_TEXT(p, a->prefix_count, q[i].identity);
    COLUMN_TEXT(p, a->count, item[i].message);
    COLUMN_TEXT(p, a->count, item[i].request);
    COLUMN_TEXT(p, a->count, item[i].reservation);
    COLUMN_TEXT(p, a->count, item[i].activity);
    COLUMN_TEXT(p, a->count, item[i].sku);
    COLUMN_TEXT(p, a->count, item[i].user);
    COLUMN_I64(p, a->count, item[i].token.unit);
    COLUMN_I32(p, a->count, generation_of(item[i].token));
    COLUMN_I16(p, a->count, item[i].epoch);
    COLUMN_I64(p, a->count, item[i].created_ms);
    params_bool(p, a->hurry);
    lane_submit(c);
}

static void release(struct ledger *l, const struct release_ask *a, struct waiter *w)
{
    check(a->count <= LEDGER_BATCH_MAX);
    struct call *c = lane_call(&of(l)->lanes[LANE_PLACE], CALL_release, w);
    struct params *p = &c->params;
    const struct release_item *item = a->items;
    c->decode = place_decode;
    c->asked = a->count;
    COLUMN_TEXT(p, a->count, item[i].what.request);
    COLUMN_TEXT(p, a->count, item[i].what.reservation);
    COLUMN_TEXT(p, a->count, item[i].what.activity);
    COLUMN_TEXT(p, a->count, item[i].what.sku);
    COLUMN_TEXT(p, a->count, item[i].what.user);
    COLUMN_I64(p, a->count, item[i].what.token.unit);
    COLUMN_I32(p, a->count, generation_of(item[i].what.token));
    COLUMN_I16(p, a->count, item[i].what.epoch);
    COLUMN_I64(p, a->count, item[i].what.created_ms);
    COLUMN_TEXT(p, a->count, str_of(reason_word(item[i].why)));
    lane_submit(c);
}

static void release_lost_decode(struct call *c, const PGresult *r) { wake(c, field_reason(r, 0, 0), NULL); }

static void release_lost(struct ledger *l, const struct release_lost_ask *a, struct waiter *w)
{
    struct call *c = lane_call(&of(l)->lanes[LANE_PLACE], CALL_release_lost, w);
    struct params *p = &c->params;
    c->decode = release_lost_decode;
    params_text(p, a->group);
    params_text(p, a->reservation);
    params_text(p, a->activity);
    params_text(p, a->sku);
    params_text(p, a->user);
    params_i16(p, a->epoch);
    params_i64(p, a->created_ms);
    params_i64(p, a->after_ms);
    lane_submit(c);
}

static void park_decode(struct call *c, const PGresult *r) { wake(c, field_reason(r, 0, 0), NULL); }

static void park_prefix(struct params *p, const struct queue_prefix *q)
{
    if (!q) {
        for (int i = 0; i < 6; i++)
            params_null(p);
        return;
    }
    params_text(p, q->queue.broker);
    params_text(p, q->queue.topic);
    params_i32(p, q->queue.number);
    params_i64(p, q->from);
    params_i64(p, q->to);
    params_text(p, q->identity);
}

/* What a message says goes into the columns only where the columns can take it; its bytes are kept in any case. */
static bool park_readable(const struct create_order *what)
{
    return what && str_is_id(what->reservation) && str_is_id(what->message) && str_is_id(what->request) && str_is_id(what->activity)
           && str_is_id(what->sku) && str_is_id(what->user) && what->created_ms >= 0 && what->created_ms < 253402300800000;
}

void params_what(struct params *p, const struct create_order *what)
{
    if (!park_readable(what)) {
        for (int i = 0; i < 10; i++)
            params_null(p);
        return;
    }
    params_text(p, what->message);
    params_text(p, what->request);
    params_text(p, what->reservation);
    params_text(p, what->activity);
    params_text(p, what->sku);
    params_text(p, what->user);
    params_i64(p, what->token.unit);
    params_i32(p, generation_of(what->token));
    params_i16(p, what->epoch);
    params_i64(p, what->created_ms);
}

static void park(struct ledger *l, const struct park_ask *a, struct waiter *w)
{
    struct call *c = lane_call(&of(l)->lanes[LANE_PLACE], CALL_park, w);
    struct params *p = &c->params;
    c->decode = park_decode;
    params_text(p, a->group);
    params_text(p, a->owner);
    park_prefix(p, a->prefix);
    params_text(p, str_is_id(a->key) ? a->key : (struct str){0});
    params_bytes(p, a->body);
    params_text(p, str_of(reason_word(a->why)));
    params_what(p, a->what);
    lane_submit(c);
}

/* ---- look ----------------------------------------------------------------------------------------------------------------------------------- */

enum {
    LOOKED_DECIDED, LOOKED_OUTCOME, LOOKED_WHY, LOOKED_ORDER, LOOKED_SUPERSEDED_BY, LOOKED_MESSAGE, LOOKED_REQUEST, LOOKED_RESERVATION,
    LOOKED_ACTIVITY, LOOKED_SKU, LOOKED_USER, LOOKED_UNIT, LOOKED_GENERATION, LOOKED_CREATED, LOOKED_EPOCH, LOOKED_HAS_ORDER,
    LOOKED_ORDER_GENERATION, LOOKED_ORDER_STATE, LOOKED_AMOUNT, LOOKED_CURRENCY, LOOKED_ORDER_CREATED, LOOKED_PAID, LOOKED_DEADLINE,
    LOOKED_CANCELED, LOOKED_PARKED, LOOKED_DECIDED_AT, LOOKED_PAYMENT, LOOKED_RESULT, LOOKED_PAID_AMOUNT, LOOKED_PAID_CURRENCY, LOOKED_CHANNEL,
    LOOKED_OCCURRED, LOOKED_DISPOSITION, LOOKED_REFUND, LOOKED_RECEIVED
};

static struct order look_order(const PGresult *r, const struct create_order *what)
{
    struct order o = {
        .order = field_str(r, 0, LOOKED_ORDER),
        .reservation = what->reservation, .request = what->request, .activity = what->activity, .sku = what->sku, .user = what->user,
        .token = {what->token.unit, (uint32_t)field_int(r, 0, LOOKED_ORDER_GENERATION)},
        .amount = field_int(r, 0, LOOKED_AMOUNT),
        .currency = field_str(r, 0, LOOKED_CURRENCY),
        .created_ms = field_int(r, 0, LOOKED_ORDER_CREATED),
        .paid_ms = field_int(r, 0, LOOKED_PAID),
        .pay_deadline_ms = field_int(r, 0, LOOKED_DEADLINE),
        .canceled_ms = field_int(r, 0, LOOKED_CANCELED),
    };
    check(order_state_parse(field_str(r, 0, LOOKED_ORDER_STATE), &o.state));
    return o;
}

/* One row for each payment; one row with none where there is none. */
static void look_payments(struct call *c, const PGresult *r, struct ledger_look_answer *a)
{
    size_t n = field_str(r, 0, LOOKED_PAYMENT).len > 0 ? (size_t)PQntuples(r) : 0;
    struct payment_record *payments = room(c, n, sizeof *payments);
    for (size_t i = 0; i < n; i++) {
        int row = (int)i;
        payments[i] = (struct payment_record){
            .what = {.payment = field_str(r, row, LOOKED_PAYMENT), .order = a->order.order, .amount = field_int(r, row, LOOKED_PAID_AMOUNT),
                     .currency = field_str(r, row, LOOKED_PAID_CURRENCY), .channel = field_str(r, row, LOOKED_CHANNEL),
                     .occurred_ms = field_int(r, row, LOOKED_OCCURRED)},
            .disposition = field_reason(r, row, LOOKED_DISPOSITION), .received_ms = field_int(r, row, LOOKED_RECEIVED),
        };
        check(payment_result_parse(field_str(r, row, LOOKED_RESULT), &payments[i].what.result));
        check(refund_status_parse(field_str(r, row, LOOKED_REFUND), &payments[i].refund));
    }
    a->payments = payments;
    a->payment_count = n;
}

static void look_decode(struct call *c, const PGresult *r)
{
    if (PQntuples(r) == 0) {
        wake(c, REASON_NOT_FOUND, NULL);
        return;
    }
    struct ledger_look_answer a = {
        .decided = field_bool(r, 0, LOOKED_DECIDED),
        .what = {
            .schema_version = 1,
            .message = field_str(r, 0, LOOKED_MESSAGE), .request = field_str(r, 0, LOOKED_REQUEST),
            .reservation = field_str(r, 0, LOOKED_RESERVATION), .activity = field_str(r, 0, LOOKED_ACTIVITY),
            .sku = field_str(r, 0, LOOKED_SKU), .user = field_str(r, 0, LOOKED_USER),
            .token = {field_int(r, 0, LOOKED_UNIT), (uint32_t)field_int(r, 0, LOOKED_GENERATION)},
            .created_ms = field_int(r, 0, LOOKED_CREATED),
            .epoch = (uint8_t)field_int(r, 0, LOOKED_EPOCH),
        },
        .has_order = field_bool(r, 0, LOOKED_HAS_ORDER),
        .parked = field_bool(r, 0, LOOKED_PARKED),
        .decided_ms = field_int(r, 0, LOOKED_DECIDED_AT),
    };
    if (a.decided)
        a.verdict = (struct verdict){.outcome = field_reason(r, 0, LOOKED_OUTCOME), .why = field_reason(r, 0, LOOKED_WHY),
                                     .order = field_str(r, 0, LOOKED_ORDER), .superseded_by = field_str(r, 0, LOOKED_SUPERSEDED_BY)};
    if (a.has_order)
        a.order = look_order(r, &a.what);
    look_payments(c, r, &a);
    wake(c, REASON_OK, &a);
}

static void look(struct ledger *l, const struct ledger_look_ask *a, struct waiter *w)
{
    static const char *const by[] = {[LOOK_RESERVATION] = "RESERVATION", [LOOK_REQUEST] = "REQUEST", [LOOK_ORDER] = "ORDER"};
    struct call *c = lane_call(&of(l)->lanes[LANE_READ], CALL_look, w);
    c->decode = look_decode;
    params_text(&c->params, str_of(by[a->by]));
    params_text(&c->params, a->id);
    params_text(&c->params, a->activity);
    params_text(&c->params, a->user);
    lane_submit(c);
}

/* ---- outbox ------------------------------------------------------------------------------------------------------------------------------------ */

enum {
    ROW_ID, ROW_VERSION, ROW_KIND, ROW_ACTIVITY, ROW_NUMBER, ROW_EPOCH, ROW_BUCKETS, ROW_REBUILDING, ROW_USER, ROW_SKU, ROW_REQUEST,
    ROW_RESERVATION, ROW_SUPERSEDED_BY, ROW_SUPERSEDED_REQUEST, ROW_SUPERSEDED_SKU, ROW_STATE, ROW_WHY, ROW_UNIT, ROW_GENERATION, ROW_HOME,
    ROW_STALE, ROW_TOPIC_KEY, ROW_BODY, ROW_WAITING, ROW_AGE, ROW_PAYMENT, ROW_ORDER, ROW_AMOUNT, ROW_CURRENCY, ROW_CHANNEL
};

static enum outbox_kind outbox_kind_of(struct str word)
{
    static const char *const words[OUTBOX_KINDS] = {"STATUS", "RETURN", "EVENT", "DEAD_LETTER", "REFUND"};
    for (unsigned i = 0; i < OUTBOX_KINDS; i++)
        if (str_eq(word, str_of(words[i])))
            return (enum outbox_kind)i;
    if (str_eq(word, str_lit("ORDERS")))
        return OUTBOX_STATUS;    /* and the other half: claim_decode */
    check(!"a kind of outbox row that the table's constraint does not know");
    return OUTBOX_STATUS;
}

static struct outbox_row claim_row(const PGresult *r, int row)
{
    struct outbox_row o = {
        .row = field_int(r, row, ROW_ID), .version = (int32_t)field_int(r, row, ROW_VERSION),
        .kind = outbox_kind_of(field_str(r, row, ROW_KIND)),
        .activity = field_str(r, row, ROW_ACTIVITY), .activity_number = (uint16_t)field_int(r, row, ROW_NUMBER),
        .epoch = (uint8_t)field_int(r, row, ROW_EPOCH), .buckets = (uint8_t)field_int(r, row, ROW_BUCKETS),
        .rebuilding = field_bool(r, row, ROW_REBUILDING),
        .user = field_str(r, row, ROW_USER), .sku = field_str(r, row, ROW_SKU), .request = field_str(r, row, ROW_REQUEST),
        .reservation = field_str(r, row, ROW_RESERVATION),
        .superseded_by = field_str(r, row, ROW_SUPERSEDED_BY), .superseded_request = field_str(r, row, ROW_SUPERSEDED_REQUEST),
        .superseded_sku = field_str(r, row, ROW_SUPERSEDED_SKU),
        .why = field_reason(r, row, ROW_WHY),
        .token = {field_int(r, row, ROW_UNIT), (uint32_t)field_int(r, row, ROW_GENERATION)},
        .home = (uint8_t)field_int(r, row, ROW_HOME), .stale = field_bool(r, row, ROW_STALE),
        .topic_key = field_str(r, row, ROW_TOPIC_KEY), .body = field_str(r, row, ROW_BODY),
        .refund = {.payment = field_str(r, row, ROW_PAYMENT), .order = field_str(r, row, ROW_ORDER), .result = PAYMENT_SUCCESS,
                   .amount = field_int(r, row, ROW_AMOUNT), .currency = field_str(r, row, ROW_CURRENCY), .channel = field_str(r, row, ROW_CHANNEL)},
    };
    check(reservation_state_parse(field_str(r, row, ROW_STATE), &o.state));
    return o;
}

/* An order of many that share a row is told twice: its status and its event. */
static bool two_in_one(const PGresult *r, int row) { return str_eq(field_str(r, row, ROW_KIND), str_lit("ORDERS")); }

static void claim_decode(struct call *c, const PGresult *r)
{
    size_t n = (size_t)PQntuples(r);
    struct outbox_row *rows = room(c, 2 * n, sizeof *rows);
    struct claim_answer a = {.rows = rows};
    for (size_t i = 0; i < n; i++) {
        bool two = two_in_one(r, (int)i);
        struct outbox_row o = claim_row(r, (int)i);
        o.age_ms = field_int(r, (int)i, ROW_AGE);
        a.oldest_ms = o.age_ms > a.oldest_ms ? o.age_ms : a.oldest_ms;
        a.waiting = (uint64_t)field_int(r, (int)i, ROW_WAITING);
        rows[a.count] = o;
        if (two) {
            rows[a.count].topic_key = rows[a.count].body = (struct str){0};
            rows[++a.count] = o;
            rows[a.count].kind = OUTBOX_EVENT;
        }
        a.count++;
    }
    wake(c, REASON_OK, &a);
}

static void claim(struct ledger *l, const struct claim_ask *a, struct waiter *w)
{
    check(a->limit > 0 && a->limit <= LEDGER_BATCH_MAX);
    struct call *c = lane_call(&of(l)->lanes[LANE_RELAY], CALL_claim, w);
    c->decode = claim_decode;
    params_i32(&c->params, (int32_t)a->limit);
    params_i32(&c->params, a->hold_ms > INT32_MAX ? INT32_MAX : (int32_t)a->hold_ms);
    lane_submit(c);
}

static void finish_decode(struct call *c, const PGresult *r)
{
    (void)r;
    wake(c, REASON_OK, NULL);
}

static void finish(struct ledger *l, const struct finish_ask *a, struct waiter *w)
{
    struct call *c = lane_call(&of(l)->lanes[LANE_RELAY], CALL_finish, w);
    c->decode = finish_decode;
    COLUMN_I64(&c->params, a->count, a->items[i].row);
    COLUMN_I32(&c->params, a->count, a->items[i].version);
    lane_submit(c);
}

/* ---- activities --------------------------------------------------------------------------------------------------------------------------------- */

enum {
    ACTED_RESULT, ACTED_ACTIVITY, ACTED_TITLE, ACTED_NUMBER, ACTED_EPOCH, ACTED_BUCKETS, ACTED_STATE, ACTED_VERSION, ACTED_STARTS, ACTED_ENDS,
    ACTED_PAY_TIMEOUT, ACTED_QUALIFICATION, ACTED_REBUILDING, ACTED_SKU, ACTED_STOCK, ACTED_UNIT_FIRST, ACTED_PRICE, ACTED_CURRENCY,
    ACTED_INCARNATIONS, ACTED_RETIRED    /* of activities alone */
};

static struct activity activity_row(const PGresult *r, int row, const struct sku *skus)
{
    struct activity a = {
        .activity = field_str(r, row, ACTED_ACTIVITY), .title = field_str(r, row, ACTED_TITLE),
        .number = (uint16_t)field_int(r, row, ACTED_NUMBER), .epoch = (uint8_t)field_int(r, row, ACTED_EPOCH),
        .buckets = (uint8_t)field_int(r, row, ACTED_BUCKETS), .version = (uint64_t)field_int(r, row, ACTED_VERSION),
        .starts_ms = field_int(r, row, ACTED_STARTS), .ends_ms = field_int(r, row, ACTED_ENDS),
        .pay_timeout_s = (uint32_t)field_int(r, row, ACTED_PAY_TIMEOUT), .qualification = field_bool(r, row, ACTED_QUALIFICATION),
        .rebuilding = field_bool(r, row, ACTED_REBUILDING), .skus = skus,
    };
    check(activity_state_parse(field_str(r, row, ACTED_STATE), &a.state));
    return a;
}

#define BUCKETS_MOST 32

/* "a - c": of each bucket in order, '-' where there is none. */
static const struct str *incarnations_read(struct str joined, size_t buckets, struct str *out)
{
    const char *at = joined.ptr, *end = joined.ptr + joined.len;
    check(buckets <= BUCKETS_MOST);
    for (size_t i = 0; i < buckets; i++) {
        const char *blank = at < end ? memchr(at, ' ', (size_t)(end - at)) : NULL;
        struct str word = str_range(at, blank ? blank : end);
        out[i] = str_eq(word, str_lit("-")) ? (struct str){0} : word;
        at = blank ? blank + 1 : end;
    }
    return out;
}

/* Rows, one per SKU and those of an activity together, into activities; they, their SKUs and incarnations share the call's room. */
static struct activities_answer activities_read(struct call *c, const PGresult *r)
{
    size_t n = (size_t)PQntuples(r);
    struct activity *activities = room(c, n, sizeof(struct activity) + sizeof(struct sku) + BUCKETS_MOST * sizeof(struct str));
    struct sku *skus = (struct sku *)(void *)(activities + n);
    struct str *incarnations = (struct str *)(void *)(skus + n);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        int row = (int)i;
        skus[i] = (struct sku){.sku = field_str(r, row, ACTED_SKU), .stock = field_int(r, row, ACTED_STOCK),
                               .unit_first = field_int(r, row, ACTED_UNIT_FIRST), .price = field_int(r, row, ACTED_PRICE),
                               .currency = field_str(r, row, ACTED_CURRENCY)};
        if (count == 0 || !str_eq(activities[count - 1].activity, field_str(r, row, ACTED_ACTIVITY))) {
            activities[count] = activity_row(r, row, &skus[i]);
            if (PQnfields(r) > ACTED_INCARNATIONS)
                activities[count].incarnations = incarnations_read(field_str(r, row, ACTED_INCARNATIONS), activities[count].buckets, incarnations + count * BUCKETS_MOST);
            activities[count].retired = PQnfields(r) > ACTED_RETIRED && field_bool(r, row, ACTED_RETIRED);
            count++;
        }
        activities[count - 1].sku_count++;
    }
    return (struct activities_answer){.activities = activities, .count = count};
}

static void activity_decode(struct call *c, const PGresult *r)
{
    struct activities_answer a = activities_read(c, r);
    if (a.count == 0)
        wake(c, REASON_UNKNOWN_ACTIVITY, NULL);
    else if (field_reason(r, 0, ACTED_RESULT) != REASON_OK)
        wake(c, field_reason(r, 0, ACTED_RESULT), NULL);
    else
        wake(c, REASON_OK, &a.activities[0]);
}

static void activity_create(struct ledger *l, const struct activity_create *a, struct waiter *w)
{
    struct call *c = lane_call(&of(l)->lanes[LANE_LONG], CALL_activity_create, w);
    struct params *p = &c->params;
    const struct activity *x = &a->activity;
    c->decode = activity_decode;
    params_text(p, x->activity);
    params_text(p, x->title);
    params_i16(p, x->buckets);
    params_i64(p, x->starts_ms);
    params_i64(p, x->ends_ms);
    params_i32(p, x->pay_timeout_s > INT32_MAX ? INT32_MAX : (int32_t)x->pay_timeout_s);
    params_bool(p, x->qualification);
    COLUMN_TEXT(p, x->sku_count, x->skus[i].sku);
    COLUMN_I64(p, x->sku_count, x->skus[i].stock);
    COLUMN_I64(p, x->sku_count, x->skus[i].price);
    COLUMN_TEXT(p, x->sku_count, x->skus[i].currency);
    params_text(p, a->actor);
    params_text(p, a->note);
    lane_submit(c);
}

static void activity_moved(struct ledger *l, const struct activity_move_ask *a, struct waiter *w)
{
    static const char *const events[ACTIVITY_EVENT_COUNT] = {"WARM", "OPEN", "PAUSE", "RESUME", "CLOSE"};
    struct call *c = lane_call(&of(l)->lanes[LANE_ADMIN], CALL_activity_move, w);
    c->decode = activity_decode;
    params_text(&c->params, a->activity);
    params_text(&c->params, str_of(events[a->event]));
    params_i64(&c->params, (int64_t)a->version);
    params_text(&c->params, a->actor);
    params_text(&c->params, a->note);
    lane_submit(c);
}

static void activities_decode(struct call *c, const PGresult *r)
{
    struct activities_answer a = activities_read(c, r);
    wake(c, REASON_OK, &a);
}

static void activities(struct ledger *l, const struct activities_ask *a, struct waiter *w)
{
    struct call *c = lane_call(&of(l)->lanes[LANE_ADMIN], CALL_activities, w);
    struct params *p = &c->params;
    check(a->name_count <= ACTIVITIES_NAMED_MAX && a->number_count <= ACTIVITIES_NAMED_MAX && a->limit <= ACTIVITIES_PAGE_MAX);
    c->decode = activities_decode;
    params_bool(p, a->live);
    COLUMN_TEXT(p, a->name_count, a->names[i]);
    COLUMN_I32(p, a->number_count, a->numbers[i]);
    params_i64(p, a->unit);
    params_i32(p, a->after);
    params_i32(p, a->limit);
    lane_submit(c);
}

static void retire_decode(struct call *c, const PGresult *r) { wake(c, field_reason(r, 0, 0), NULL); }

static void retire(struct ledger *l, const struct retire_ask *a, struct waiter *w)
{
    struct call *c = lane_call(&of(l)->lanes[LANE_ADMIN], CALL_retire, w);
    c->decode = retire_decode;
    params_text(&c->params, a->activity);
    params_bool(&c->params, a->counted);
    params_text(&c->params, a->actor);
    lane_submit(c);
}

/* ---- units, audit ---------------------------------------------------------------------------------------------------------------------------------- */

enum { UNIT_UNIT, UNIT_GENERATION, UNIT_SKU, UNIT_HOME, UNIT_AVAILABLE, UNIT_RESERVATION, UNIT_ORDERED, UNIT_RETURNING };

static void units_decode(struct call *c, const PGresult *r)
{
    size_t n = (size_t)PQntuples(r);
    struct ledger_unit *units = room(c, n, sizeof *units);
    for (size_t i = 0; i < n; i++) {
        int row = (int)i;
        units[i] = (struct ledger_unit){
            .token = {field_int(r, row, UNIT_UNIT), (uint32_t)field_int(r, row, UNIT_GENERATION)},
            .sku = field_str(r, row, UNIT_SKU), .home = (uint8_t)field_int(r, row, UNIT_HOME), .available = field_bool(r, row, UNIT_AVAILABLE),
            .reservation = field_str(r, row, UNIT_RESERVATION), .ordered = field_bool(r, row, UNIT_ORDERED),
            .returning = field_bool(r, row, UNIT_RETURNING),
        };
    }
    wake(c, REASON_OK, &(struct units_answer){.units = units, .count = n});
}

static void units(struct ledger *l, const struct units_ask *a, struct waiter *w)
{
    check(a->limit > 0 && a->limit <= 4096);
    struct call *c = lane_call(&of(l)->lanes[LANE_REPORT], CALL_units, w);
    c->decode = units_decode;
    params_text(&c->params, a->activity);
    params_i64(&c->params, a->after);
    params_i32(&c->params, a->bucket);
    params_bool(&c->params, a->available);
    params_i32(&c->params, (int32_t)a->limit);
    lane_submit(c);
}

enum {
    FOUND_RULE, FOUND_SUBJECT, FOUND_DETAIL, FOUND_STOCK, FOUND_AVAILABLE, FOUND_CONSUMED, FOUND_ORDERS, FOUND_HOLDING, FOUND_RELEASED, FOUND_OUTBOX,
    FOUND_FIRST, FOUND_LAST
};

static void audit_decode(struct call *c, const PGresult *r)
{
    size_t n = (size_t)PQntuples(r);
    check(n > 0);
    bool clean = n == 1 && field_str(r, 0, FOUND_RULE).len == 0;
    struct finding *findings = room(c, n, sizeof *findings);
    for (size_t i = 0; i < n; i++)
        findings[i] = (struct finding){field_str(r, (int)i, FOUND_RULE), field_str(r, (int)i, FOUND_SUBJECT), field_str(r, (int)i, FOUND_DETAIL)};
    wake(c, REASON_OK, &(struct audit_answer){
        .findings = findings, .count = clean ? 0 : n,
        .stock = (uint64_t)field_int(r, 0, FOUND_STOCK), .available = (uint64_t)field_int(r, 0, FOUND_AVAILABLE),
        .consumed = (uint64_t)field_int(r, 0, FOUND_CONSUMED), .orders = (uint64_t)field_int(r, 0, FOUND_ORDERS),
        .holding = (uint64_t)field_int(r, 0, FOUND_HOLDING), .released = (uint64_t)field_int(r, 0, FOUND_RELEASED),
        .outbox = (uint64_t)field_int(r, 0, FOUND_OUTBOX), .first_order_ms = field_int(r, 0, FOUND_FIRST),
        .last_order_ms = field_int(r, 0, FOUND_LAST),
    });
}

static void audit(struct ledger *l, struct str activity, struct waiter *w)
{
    struct call *c = lane_call(&of(l)->lanes[LANE_LONG], CALL_audit, w);
    c->decode = audit_decode;
    params_text(&c->params, activity);
    lane_submit(c);
}

static void prove_decode(struct call *c, const PGresult *r)
{
    (void)r;
    wake(c, REASON_OK, NULL);
}

static void prove(struct ledger *l, unsigned slot, struct waiter *w)
{
    check(slot < LEDGER_PROVE_SLOTS);
    struct call *c = lane_call(&of(l)->lanes[LANE_RELAY], CALL_prove, w);
    c->decode = prove_decode;
    params_i16(&c->params, (int16_t)slot);
    lane_submit(c);
}

static struct str refusal(struct ledger *l) { return str_of(of(l)->lanes[LANE_RELAY].refusal); }

/* ---- life ------------------------------------------------------------------------------------------------------------------------------------------- */

static const struct ledger_ops ops = {
    .name = "postgres", .lease = lease, .place = place, .release = release, .release_lost = release_lost, .backlog = backlog, .decided = decided, .park = park, .look = look, .claim = claim, .finish = finish,
    .activity_create = activity_create, .activity_move = activity_moved, .activities = activities, .retire = retire, .units = units, .audit = audit,
    .heal = heal_heal, .record = heal_record, .repair = heal_repair, .prove = prove, .refusal = refusal,
    .pay = money_pay, .callback = money_callback, .defer = money_defer, .cancel = money_cancel, .overdue = money_overdue, .reviews = money_reviews, .resolve = money_resolve, .story = money_story,
};

struct ledger *postgres_open(const struct postgres_options *options)
{
    struct postgres *pg = calloc(1, sizeof *pg);
    check(pg != NULL && options->loop && options->url);
    pg->ledger.ops = &ops;
    pg->options = *options;
    for (unsigned i = 0; i < LANE_KINDS; i++)
        lane_open(pg->lanes, &pg->options, (enum lane_kind)i, pg->ledger.deployment);
    return &pg->ledger;
}

static void closed(uv_handle_t *timer)
{
    struct lane *lane = timer->data;
    struct postgres *pg = container_of(lane->options, struct postgres, options);
    if (++pg->closing == 2 * LANE_KINDS)
        free(pg);
}

void postgres_close(struct ledger *ledger)
{
    struct postgres *pg = of(ledger);
    for (unsigned i = 0; i < LANE_KINDS; i++)
        lane_shut(&pg->lanes[i]);
    bool more = true;    /* whoever is woken may ask again, and is refused */
    for (unsigned round = 0; more; round++) {
        check(round < 1000);
        more = false;
        for (unsigned i = 0; i < LANE_KINDS; i++)
            more |= lane_refuse(&pg->lanes[i]);
    }
    for (unsigned i = 0; i < LANE_KINDS; i++)
        lane_close(&pg->lanes[i], closed);
}

bool postgres_ready(const struct ledger *ledger)
{
    const struct postgres *pg = (const struct postgres *)(const void *)((const char *)ledger - offsetof(struct postgres, ledger));
    for (unsigned i = 0; i < LANE_KINDS; i++)
        if (pg->lanes[i].state != LANE_READY)
            return false;
    return true;
}

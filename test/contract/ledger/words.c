/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hash.h"

/* One shelf for all texts of the program, so that nobody has to give them back. */
static char shelf[32 << 20];
static size_t shelved;

static struct str keep(struct str s)
{
    check(shelved + s.len <= sizeof shelf);
    char *copy = shelf + shelved;
    if (s.len)
        memcpy(copy, s.ptr, s.len);
    shelved += s.len;
    return (struct str){copy, s.len};
}

struct str words(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    check(n >= 0 && (size_t)n < sizeof text);
    return keep((struct str){text, (size_t)n});
}

/* ---- activities ---- */

static void keep_activity(struct seen *s, const void *result)
{
    struct activity *a = s->into;
    *a = *(const struct activity *)result;
    struct sku *skus = calloc(a->sku_count, sizeof *skus);    /* few, and as long as the program */
    static struct sku *kept[4096];
    static size_t count;
    check(skus != NULL && count < countof(kept));
    kept[count++] = skus;
    for (size_t i = 0; i < a->sku_count; i++) {
        skus[i] = a->skus[i];
        skus[i].sku = keep(skus[i].sku);
        skus[i].currency = keep(skus[i].currency);
    }
    a->skus = skus;
    a->activity = keep(a->activity);
    a->title = keep(a->title);
}

static struct activity created(struct activity_create ask)
{
    struct activity got = {0};
    struct seen seen = SEEN(.keep = keep_activity, .into = &got);
    ledger_activity_create(world->ledger, &ask, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return got;
}

struct activity till(const char *name, int64_t stock, uint32_t pay_timeout_s) { return till_at(name, stock, pay_timeout_s, 100); }

struct activity till_at(const char *name, int64_t stock, uint32_t pay_timeout_s, int64_t price)
{
    struct sku sku = {.sku = str_lit("S"), .stock = stock, .price = price, .currency = str_lit("CNY")};
    return created((struct activity_create){.activity = {.activity = str_of(name), .title = str_lit("a sale"), .buckets = 2, .starts_ms = 1000, .ends_ms = 4000000000000,
                                                         .pay_timeout_s = pay_timeout_s, .skus = &sku, .sku_count = 1}, .actor = str_lit("test")});
}

struct activity shop(const char *name, int64_t stock_s, int64_t stock_t, uint8_t buckets)
{
    struct sku skus[] = {{.sku = str_lit("S"), .stock = stock_s, .price = 100, .currency = str_lit("CNY")},
                         {.sku = str_lit("T"), .stock = stock_t, .price = 250, .currency = str_lit("EUR")}};
    struct activity_create ask = {.activity = {.activity = str_of(name), .title = str_lit("a sale"), .buckets = buckets, .starts_ms = 1000,
                                               .ends_ms = 4000000000000, .pay_timeout_s = 900, .skus = skus, .sku_count = 2},
                                  .actor = str_lit("test"), .note = str_lit("")};
    return created(ask);
}

struct token s_unit(const struct activity *a, int64_t nth, uint32_t generation) { return (struct token){a->skus[0].unit_first + nth, generation}; }

struct create_order item(const struct activity *a, const char *sku, const char *user, const char *request, const char *reservation, struct token token)
{
    return (struct create_order){.schema_version = 1, .message = words("msg_" STR_FMT "_%s", STR_ARG(a->activity), reservation),
                                 .request = str_of(request), .reservation = words("rsv_" STR_FMT "_%s", STR_ARG(a->activity), reservation),
                                 .activity = a->activity, .sku = str_of(sku), .user = str_of(user), .token = token, .created_ms = 1796083200000, .epoch = a->epoch};
}

/* ---- verdicts ---- */

void told_keep(struct seen *s, const void *result)
{
    const struct place_answer *a = result;
    struct told *t = s->into;
    check(a->count <= countof(t->verdicts));
    t->count = a->count;
    t->regressed = a->regressed;
    for (size_t i = 0; i < a->count; i++) {
        t->verdicts[i] = a->verdicts[i];
        t->verdicts[i].order = keep(a->verdicts[i].order);
        t->verdicts[i].superseded_by = keep(a->verdicts[i].superseded_by);
    }
}

struct told place_from(const struct queue_prefix *prefixes, size_t prefix_count, struct str owner, const struct create_order *items, size_t count)
{
    struct told told = {0};
    struct seen seen = SEEN(.keep = told_keep, .into = &told);
    struct place_ask ask = {.group = str_lit("contract"), .owner = owner, .prefixes = prefixes, .prefix_count = prefix_count, .items = items, .count = count};
    ledger_place(world->ledger, &ask, &seen.waiter);
    told.reason = seen_await(world, &seen);
    assert_true(told.reason != REASON_OK || told.count == count);
    return told;
}

struct told place(const struct create_order *items, size_t count) { return place_from(NULL, 0, str_lit("tester"), items, count); }

struct told release(struct create_order what, enum reason why)
{
    struct told told = {0};
    struct seen seen = SEEN(.keep = told_keep, .into = &told);
    struct release_ask ask = {.items = &(struct release_item){.what = what, .why = why}, .count = 1};
    ledger_release(world->ledger, &ask, &seen.waiter);
    told.reason = seen_await(world, &seen);
    assert_true(told.reason != REASON_OK || told.count == 1);
    return told;
}

/* ---- look ---- */

static void keep_look(struct seen *s, const void *result)
{
    struct ledger_look_answer *a = s->into;
    *a = *(const struct ledger_look_answer *)result;
    a->payments = NULL;    /* account_of keeps them */
    struct str *texts[] = {&a->verdict.order, &a->verdict.superseded_by, &a->what.message, &a->what.request, &a->what.reservation, &a->what.activity,
                           &a->what.sku, &a->what.user, &a->order.order, &a->order.reservation, &a->order.request, &a->order.activity, &a->order.sku,
                           &a->order.user, &a->order.currency};
    for (size_t i = 0; i < countof(texts); i++)
        *texts[i] = keep(*texts[i]);
}

struct looked look(enum look_by by, struct str id, struct str activity, struct str user)
{
    struct looked looked = {0};
    struct seen seen = SEEN(.keep = keep_look, .into = &looked.a);
    struct ledger_look_ask ask = {.by = by, .id = id, .activity = activity, .user = user};
    ledger_look(world->ledger, &ask, &seen.waiter);
    looked.reason = seen_await(world, &seen);
    return looked;
}

/* ---- outbox ---- */

static void keep_claim(struct seen *s, const void *result)
{
    const struct claim_answer *a = result;
    struct claimed *c = s->into;
    c->count = a->count;
    c->waiting = a->waiting;
    for (size_t i = 0; i < a->count; i++) {
        struct outbox_row *o = &c->rows[i];
        *o = a->rows[i];
        struct str *texts[] = {&o->activity, &o->user, &o->sku, &o->request, &o->reservation, &o->superseded_by, &o->superseded_request,
                               &o->superseded_sku, &o->topic_key, &o->body, &o->refund.payment, &o->refund.order, &o->refund.currency,
                               &o->refund.channel};
        for (size_t k = 0; k < countof(texts); k++)
            *texts[k] = keep(*texts[k]);
    }
}

struct claimed claim(uint32_t hold_ms) { return claim_of(LEDGER_BATCH_MAX, hold_ms); }

struct claimed claim_of(size_t limit, uint32_t hold_ms)
{
    struct claimed claimed = {0};
    struct seen seen = SEEN(.keep = keep_claim, .into = &claimed);
    ledger_claim(world->ledger, &(struct claim_ask){.limit = limit, .hold_ms = hold_ms}, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return claimed;
}

void finish(const struct finish_item *items, size_t count)
{
    struct seen seen = SEEN(.into = NULL);
    ledger_finish(world->ledger, &(struct finish_ask){.items = items, .count = count}, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
}

void finish_all(void)
{
    for (;;) {
        struct claimed c = claim(1000);
        struct finish_item items[LEDGER_BATCH_MAX];
        if (c.count == 0)
            return;
        for (size_t i = 0; i < c.count; i++)
            items[i] = (struct finish_item){c.rows[i].row, c.rows[i].version};
        finish(items, c.count);
    }
}

const struct outbox_row *row_of(const struct claimed *c, enum outbox_kind kind, struct str reservation, int64_t unit)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->rows[i].kind == kind && (kind == OUTBOX_RETURN ? c->rows[i].token.unit == unit : str_eq(c->rows[i].reservation, reservation)))
            return &c->rows[i];
    return NULL;
}

/* ---- units, audit ---- */

static void keep_units(struct seen *s, const void *result)
{
    const struct units_answer *a = result;
    struct listed *l = s->into;
    check(a->count <= countof(l->units));
    l->count = a->count;
    for (size_t i = 0; i < a->count; i++) {
        l->units[i] = a->units[i];
        l->units[i].sku = keep(a->units[i].sku);
        l->units[i].reservation = keep(a->units[i].reservation);
    }
}

struct listed units(const struct activity *a, int64_t after, int32_t bucket, bool available, size_t limit)
{
    struct listed listed = {0};
    struct seen seen = SEEN(.keep = keep_units, .into = &listed);
    struct units_ask ask = {.activity = a->activity, .after = after, .bucket = bucket, .available = available, .limit = limit};
    ledger_units(world->ledger, &ask, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return listed;
}

struct ledger_unit unit(const struct activity *a, int64_t number)
{
    struct listed l = units(a, number - 1, -1, false, 1);
    assert_int_equal(l.count, 1);
    assert_int_equal(l.units[0].token.unit, number);
    return l.units[0];
}

static void keep_audit(struct seen *s, const void *result)
{
    struct audited *a = s->into;
    a->a = *(const struct audit_answer *)result;
    for (size_t i = 0; i < a->a.count && i < countof(a->findings); i++)
        a->findings[i] = (struct finding){keep(a->a.findings[i].rule), keep(a->a.findings[i].subject), keep(a->a.findings[i].detail)};
    a->a.findings = NULL;    /* the kept ones stand beside */
}

struct audited audit(struct str activity)
{
    struct audited audited = {0};
    struct seen seen = SEEN(.keep = keep_audit, .into = &audited);
    ledger_audit(world->ledger, activity, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return audited;
}

void assert_clean(struct str activity)
{
    struct audited found = audit(activity);
    for (size_t i = 0; i < found.a.count && i < countof(found.findings); i++)
        print_error(STR_FMT " " STR_FMT ": " STR_FMT "\n", STR_ARG(found.findings[i].rule), STR_ARG(found.findings[i].subject), STR_ARG(found.findings[i].detail));
    assert_int_equal(found.a.count, 0);
}

/* ---- money ---- */

struct str order_of(const struct create_order *m) { return words("ord_" STR_FMT, (int)m->reservation.len - 4, m->reservation.ptr + 4); }

struct pay_item callback(struct str order, const char *payment, enum payment_result result, int64_t amount, const char *currency)
{
    static int number;
    number++;
    struct pay_item item = {.webhook = words("wh_%d", number), .what = {.payment = words("%s", payment), .order = order, .result = result, .amount = amount,
                            .currency = words("%s", currency), .channel = str_lit("card"), .occurred_ms = 1796083200000 + number}};
    item.body = words("{\"number\":%d,\"payment_id\":\"%s\",\"order_id\":\"" STR_FMT "\"}", number, payment, STR_ARG(order));
    sha256(item.body, item.digest);
    if (str_starts(order, str_lit("ord_")))
        item.reservation = words("rsv_" STR_FMT, (int)order.len - 4, order.ptr + 4);
    return item;
}

void paid_keep(struct seen *s, const void *result)
{
    const struct pay_answer *a = result;
    struct paid *p = s->into;
    check(a->count <= countof(p->verdicts));
    p->count = a->count;
    memcpy(p->verdicts, a->verdicts, a->count * sizeof *a->verdicts);
}

struct paid pay(const struct pay_item *items, size_t count)
{
    struct paid paid = {0};
    struct seen seen = SEEN(.keep = paid_keep, .into = &paid);
    ledger_pay(world->ledger, &(struct pay_ask){.items = items, .count = count}, &seen.waiter);
    paid.reason = seen_await(world, &seen);
    assert_true(paid.reason != REASON_OK || paid.count == count);
    return paid;
}

struct pay_verdict pay_one(struct pay_item item)
{
    struct paid paid = pay(&item, 1);
    assert_int_equal(paid.reason, REASON_OK);
    return paid.verdicts[0];
}

void canceled_keep(struct seen *s, const void *result)
{
    const struct cancel_answer *a = result;
    struct canceled *c = s->into;
    check(a->count <= countof(c->verdicts));
    c->count = a->count;
    c->now_ms = a->now_ms;
    memcpy(c->verdicts, a->verdicts, a->count * sizeof *a->verdicts);
}

struct canceled cancel(const struct cancel_item *items, size_t count, bool due, enum reason why)
{
    struct canceled canceled = {0};
    struct seen seen = SEEN(.keep = canceled_keep, .into = &canceled);
    ledger_cancel(world->ledger, &(struct cancel_ask){.items = items, .count = count, .due = due, .why = why}, &seen.waiter);
    canceled.reason = seen_await(world, &seen);
    assert_true(canceled.reason != REASON_OK || canceled.count == count);
    return canceled;
}

struct cancel_verdict cancel_one(struct str order, struct str user)
{
    struct canceled c = cancel(&(struct cancel_item){order, user}, 1, false, REASON_CANCELED);
    assert_int_equal(c.reason, REASON_OK);
    return c.verdicts[0];
}

static void keep_overdue(struct seen *s, const void *result)
{
    const struct overdue_answer *a = result;
    struct overdues *o = s->into;
    o->count = a->count;
    o->now_ms = a->now_ms;
    for (size_t i = 0; i < a->count; i++) {
        o->orders[i] = a->orders[i];
        o->orders[i].order = keep(a->orders[i].order);
        o->orders[i].user = keep(a->orders[i].user);
        o->orders[i].activity = keep(a->orders[i].activity);
        o->orders[i].currency = keep(a->orders[i].currency);
    }
}

struct overdues overdue_after(const struct overdue *after, size_t limit)
{
    struct overdues overdues = {0};
    struct seen seen = SEEN(.keep = keep_overdue, .into = &overdues);
    struct overdue_ask ask = {.limit = limit};
    if (after)
        ask.after_place = after->place, ask.after_order = after->order;
    ledger_overdue(world->ledger, &ask, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return overdues;
}

struct overdues overdue(size_t limit, uint32_t grace_ms)
{
    struct overdues overdues = {0};
    struct seen seen = SEEN(.keep = keep_overdue, .into = &overdues);
    ledger_overdue(world->ledger, &(struct overdue_ask){.limit = limit, .grace_ms = grace_ms}, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return overdues;
}

static struct payment keep_payment(struct payment p)
{
    struct str *texts[] = {&p.payment, &p.order, &p.currency, &p.channel};
    for (size_t i = 0; i < countof(texts); i++)
        *texts[i] = keep(*texts[i]);
    return p;
}

static void keep_account(struct seen *s, const void *result)
{
    const struct ledger_look_answer *a = result;
    struct account *c = s->into;
    struct ledger_look_answer copy;
    keep_look(&(struct seen){.into = &copy}, a);
    c->order = copy.order;
    c->count = a->payment_count;
    for (size_t i = 0; i < a->payment_count; i++) {
        c->payments[i] = a->payments[i];
        c->payments[i].what = keep_payment(a->payments[i].what);
    }
}

struct account account_of(struct str order)
{
    struct account account = {0};
    struct seen seen = SEEN(.keep = keep_account, .into = &account);
    ledger_look(world->ledger, &(struct ledger_look_ask){.by = LOOK_ORDER, .id = order}, &seen.waiter);
    account.reason = seen_await(world, &seen);
    return account;
}

const struct payment_record *payment_in(const struct account *a, const char *payment)
{
    for (size_t i = 0; i < a->count; i++)
        if (str_eq(a->payments[i].what.payment, str_of(payment)))
            return &a->payments[i];
    return NULL;
}

/* ---- people ---- */

static void keep_reviews(struct seen *s, const void *result)
{
    const struct reviews_answer *a = result;
    struct reviewed *r = s->into;
    r->count = a->count;
    r->open = a->open;
    for (size_t i = 0; i < a->count; i++) {
        struct review *v = &r->reviews[i];
        *v = a->reviews[i];
        struct str *texts[] = {&v->id, &v->group, &v->key, &v->what.message, &v->what.request, &v->what.reservation, &v->what.activity, &v->what.sku,
                               &v->what.user, &v->actor, &v->note, &v->body};
        for (size_t k = 0; k < countof(texts); k++)
            *texts[k] = keep(*texts[k]);
        v->payment = keep_payment(v->payment);
    }
}

struct reviewed reviews(struct reviews_ask ask)
{
    struct reviewed reviewed = {0};
    struct seen seen = SEEN(.keep = keep_reviews, .into = &reviewed);
    ledger_reviews(world->ledger, &ask, &seen.waiter);
    reviewed.reason = seen_await(world, &seen);
    return reviewed;
}

struct review review_of(const char *payment)
{
    struct reviewed all = reviews((struct reviews_ask){.limit = LEDGER_BATCH_MAX});
    for (size_t i = 0; i < all.count; i++)
        if (str_eq(all.reviews[i].payment.payment, str_of(payment)))
            return all.reviews[i];
    return (struct review){0};
}

static void keep_resolve(struct seen *s, const void *result) { *(struct resolve_answer *)s->into = *(const struct resolve_answer *)result; }

struct resolved resolve(struct str id, enum review_decision decision, const struct create_order *what)
{
    struct resolved resolved = {0};
    struct seen seen = SEEN(.keep = keep_resolve, .into = &resolved.a);
    struct resolve_ask ask = {.id = id, .decision = decision, .what = what, .actor = str_lit("ann"), .note = str_lit("looked at it")};
    ledger_resolve(world->ledger, &ask, &seen.waiter);
    resolved.reason = seen_await(world, &seen);
    return resolved;
}

static void keep_story(struct seen *s, const void *result)
{
    const struct story_answer *a = result;
    struct told_story *t = s->into;
    t->count = a->count;
    for (size_t i = 0; i < a->count; i++) {
        struct story_event *e = &t->events[i];
        *e = a->events[i];
        struct str *texts[] = {&e->reservation, &e->order, &e->user, &e->payment, &e->review, &e->currency, &e->detail};
        for (size_t k = 0; k < countof(texts); k++)
            *texts[k] = keep(*texts[k]);
    }
}

struct told_story story(struct story_ask ask)
{
    struct told_story told = {0};
    struct seen seen = SEEN(.keep = keep_story, .into = &told);
    if (ask.limit == 0)
        ask.limit = LEDGER_BATCH_MAX;
    ledger_story(world->ledger, &ask, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return told;
}

const char *story_word(enum story_kind kind)
{
    static const char *const words[STORY_KINDS] = {"DECIDED", "CREATED", "PAID", "CANCELED", "CONSUMED", "RETURNED", "FREED", "RAISED", "RESTOCKED",
                                                   "PAYMENT_HEARD", "REFUND", "REVIEW", "RESOLVED"};
    return words[kind];
}

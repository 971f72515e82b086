/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct world *world;

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

static bool never(void *arg) { return (void)arg, false; }
void let_pass(uint32_t ms) { world->run(world, never, NULL, ms); }

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

struct activity shop(const char *name, int64_t stock_s, int64_t stock_t, uint8_t buckets)
{
    struct sku skus[] = {{.sku = str_lit("S"), .stock = stock_s, .price = 100, .currency = str_lit("CNY")},
                         {.sku = str_lit("T"), .stock = stock_t, .price = 250, .currency = str_lit("EUR")}};
    struct activity_create ask = {.activity = {.activity = str_of(name), .title = str_lit("a sale"), .buckets = buckets, .starts_ms = 1000,
                                               .ends_ms = 4000000000000, .pay_timeout_s = 900, .skus = skus, .sku_count = 2},
                                  .actor = str_lit("test"), .note = str_lit("")};
    struct activity got = {0};
    struct seen seen = SEEN(.keep = keep_activity, .into = &got);
    ledger_activity_create(world->ledger, &ask, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return got;
}

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
                               &o->superseded_sku, &o->topic_key, &o->body};
        for (size_t k = 0; k < countof(texts); k++)
            *texts[k] = keep(*texts[k]);
    }
}

struct claimed claim(uint32_t hold_ms)
{
    struct claimed claimed = {0};
    struct seen seen = SEEN(.keep = keep_claim, .into = &claimed);
    ledger_claim(world->ledger, &(struct claim_ask){.limit = LEDGER_BATCH_MAX, .hold_ms = hold_ms}, &seen.waiter);
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

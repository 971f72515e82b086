/* SPDX-License-Identifier: Apache-2.0
 * cut_store.c: every call of the store on a real Redis, under every cut (cutting.h). SECKILL_TEST_REDIS says where Redis is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cutting.h"
#include "redis.h"

static struct store *cut, *straight;
static char name[64], user[32], request[32];
static struct sku sku;
static struct activity activity;
static struct ident ident;
static struct token token;

static struct bucket bucket(void) { return (struct bucket){activity.activity, activity.epoch, 0}; }

/* ---- looking, where nobody cuts ---------------------------------------------------------------------------------------------------- */

struct entries {
    unsigned count;
    enum reservation_state state;
};

static void keep_entries(struct seen *s, const void *result)
{
    const struct look_answer *a = result;
    struct entries *e = s->into;
    for (size_t i = 0; i < a->count; i++)
        if (memcmp(&a->entries[i].ident, &ident, sizeof ident) == 0 || str_eq(a->entries[i].request, str_of(request))) {
            e->count++;
            e->state = a->entries[i].state;
        }
}

static struct entries look(void)
{
    struct entries e = {0};
    struct seen s = SEEN(.keep = keep_entries, .into = &e);
    struct look_ask ask = {bucket(), str_of(user)};
    store_look(straight, &ask, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
    return e;
}

struct holds {
    uint64_t version, units, restocks;
};

static void keep_holds(struct seen *s, const void *result)
{
    const struct stock_answer *a = result;
    struct holds *h = s->into;
    *h = (struct holds){a->version, 0, a->restocks};
    for (size_t i = 0; i < a->sku_count; i++)
        h->units += a->skus[i].free + a->skus[i].resting + a->skus[i].moving;
}

static struct holds holds(void)
{
    struct holds h = {0};
    struct seen s = SEEN(.keep = keep_holds, .into = &h);
    struct stock_ask ask = {.bucket = bucket()};
    store_stock(straight, &ask, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
    return h;
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------------- */

static void fresh(uint32_t n)
{
    snprintf(user, sizeof user, "u%u", n);
    snprintf(request, sizeof request, "r%u", n);
    ident = (struct ident){{0x01, 0x93, 0x00, 0xff}};
    memcpy(ident.bytes + 12, &n, sizeof n);
    token = (struct token){.unit = 1000 + n, .generation = 1};
}

static void restock_straight(void)
{
    struct seen s = SEEN();
    struct restock_ask ask = {.bucket = bucket(), .sku = sku.sku, .token = token};
    store_restock(straight, &ask, 1, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
}

static struct reserve_ask reserve_of(void)
{
    return (struct reserve_ask){.bucket = bucket(), .user = str_of(user), .sku = sku.sku, .request = str_of(request), .ident = ident, .user_hash = 0x1234567};
}

static void begin_close(uint32_t n);
static void begin_reserve(uint32_t n)
{
    fresh(n);
    begin_close(n);    /* so that it is open */
    restock_straight();
    let_pass(320);    /* a unit rests before it is sold */
}
static void ask_reserve(struct waiter *w)
{
    struct reserve_ask ask = reserve_of();
    store_reserve(cut, &ask, w);
}
static bool has_entry(void) { return look().count > 0; }
static bool reserve_again(enum reason r) { return r == REASON_QUEUED; }
static void one_entry(void) { assert_int_equal(look().count, 1); }

static void begin_settle(uint32_t n)
{
    begin_reserve(n);
    struct seen s = SEEN();
    struct reserve_ask ask = reserve_of();
    store_reserve(straight, &ask, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_QUEUED);
}
static void ask_settle(struct waiter *w)
{
    struct settle_ask ask = {.bucket = bucket(), .user = str_of(user), .ident = ident, .to = RESERVATION_ORDERED, .why = REASON_OK, .request = str_of(request),
                             .sku = sku.sku, .token = token, .user_hash = 0x1234567};
    store_settle(cut, &ask, 1, w);
}
static bool is_ordered(void) { return look().state == RESERVATION_ORDERED; }

static uint64_t units_before;
static void begin_restock(uint32_t n)
{
    fresh(n);
    units_before = holds().units;
}
static void ask_restock(struct waiter *w)
{
    struct restock_ask ask = {.bucket = bucket(), .sku = sku.sku, .token = token};
    store_restock(cut, &ask, 1, w);
}
static bool has_unit(void) { return holds().units > units_before; }
static void one_unit(void) { assert_int_equal(holds().units, units_before + 1); }

static void begin_install(uint32_t n)
{
    (void)n;
    activity.version++;
}
static void ask_install(struct waiter *w)
{
    struct install_ask ask = {bucket(), &activity, false, true};
    store_install(cut, &ask, w);
}
static bool has_version(void) { return holds().version == activity.version; }

static void ask_look(struct waiter *w)
{
    struct look_ask ask = {bucket(), str_of(user)};
    store_look(cut, &ask, w);
}
static void ask_due(struct waiter *w)
{
    struct due_ask ask = {bucket(), 8};
    store_due(cut, &ask, w);
}
static void ask_stock(struct waiter *w)
{
    struct stock_ask ask = {.bucket = bucket(), .with_filter = true};
    store_stock(cut, &ask, w);
}
static void ask_holdings(struct waiter *w)
{
    struct holdings_ask ask = {.bucket = bucket()};
    store_holdings(cut, &ask, w);
}

/* The mark the bucket is closed under, or none. */
static char mark[MARK_TEXT + 1];
static void keep_mark(struct seen *s, const void *result)
{
    const struct stock_answer *a = result;
    (void)s;
    assert_true(a->mark.len < sizeof mark);
    memset(mark, 0, sizeof mark);
    if (a->mark.len > 0)
        memcpy(mark, a->mark.ptr, a->mark.len);
}
static bool is_closed(void)
{
    struct seen s = SEEN(.keep = keep_mark);
    struct stock_ask ask = {.bucket = bucket()};
    store_stock(straight, &ask, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
    return mark[0] != 0;
}
static bool is_open(void) { return !is_closed(); }
static void begin_close(uint32_t n)
{
    (void)n;
    if (!is_closed())
        return;
    struct seen s = SEEN();
    store_open(straight, &(struct open_ask){bucket(), str_of(mark)}, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
}
static void ask_close(struct waiter *w)
{
    struct close_ask ask = {.bucket = bucket(), .recorded = str_lit("somebody else")};
    store_close(cut, &ask, w);
}
static void begin_open(uint32_t n)
{
    begin_close(n);
    struct seen s = SEEN();
    store_close(straight, &(struct close_ask){.bucket = bucket(), .recorded = str_lit("somebody else")}, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
    assert_true(is_closed());
}
static void ask_open(struct waiter *w)
{
    static char asked[MARK_TEXT + 1];    /* the same closing, asked again */
    if (mark[0])
        memcpy(asked, mark, sizeof asked);
    store_open(cut, &(struct open_ask){bucket(), str_of(asked)}, w);
}

static void ask_reindex(struct waiter *w)    /* nothing is lost there: UNCHANGED */
{
    store_reindex(cut, &(struct reindex_ask){.bucket = bucket(), .mark = str_lit("no such mark")}, w);
}

static enum reason first_verdict(const void *result) { return ((const struct batch_result *)result)->verdicts[0]; }

static void ask_prove(struct waiter *w) { store_prove(cut, w); }

static const struct cut_call calls[] = {
    {"reserve", begin_reserve, ask_reserve, has_entry, reserve_again, one_entry},
    {"settle", begin_settle, ask_settle, is_ordered, NULL, one_entry, first_verdict},
    {"restock", begin_restock, ask_restock, has_unit, NULL, one_unit, first_verdict},
    {"install", begin_install, ask_install, has_version, NULL, NULL},
    {"look", NULL, ask_look, NULL, NULL, NULL},
    {"due", NULL, ask_due, NULL, NULL, NULL},
    {"stock", NULL, ask_stock, NULL, NULL, NULL},
    {"holdings", NULL, ask_holdings, NULL, NULL, NULL},
    {"close", begin_close, ask_close, is_closed, NULL, NULL},
    {"open", begin_open, ask_open, is_open, NULL, NULL},
    {"prove", NULL, ask_prove, NULL, NULL, NULL},
    {"reindex", NULL, ask_reindex, NULL, NULL, NULL},
};

/* ---- */

static bool up(void *store) { return redis_up(store); }

static struct store *redis_at(const char *url)
{
    struct redis_options options = redis_options_default();
    options.loop = cutting_loop();
    options.url = str_of(url);
    options.retry_first_ms = 10;
    options.retry_most_ms = 100;
    options.stall_ms = 1000;
    options.reserve_ms = options.batch_ms = options.read_ms = options.install_ms = 5000;    /* of calls on the straight way; those that are cut name their own */
    struct store *store = redis_open(&options);
    if (!store || !world->run(world, up, store, 5000)) {
        fprintf(stderr, "no Redis at %s: skipped\n", url);
        exit(77);
    }
    return store;
}

static void every_call_under_every_cut(void **state)
{
    (void)state;
    const char *url = getenv("SECKILL_TEST_REDIS");
    char through[128], target[200];
    if (!url || !*url)
        exit(77);
    world = world_open();
    snprintf(target, sizeof target, "%s", strncmp(url, "redis://", 8) == 0 ? url + 8 : url);
    snprintf(through, sizeof through, "unix:/tmp/seckill-cut-%ld.sock", (long)getpid());
    struct cut_relay *relay = cut_open(cutting_loop(), through, target);
    assert_non_null(relay);
    straight = redis_at(url);
    cut = redis_at(through);

    snprintf(name, sizeof name, "cut-%016llx", (unsigned long long)random_next(world->random));
    sku = (struct sku){.sku = str_lit("shoe"), .stock = 100000, .unit_first = 1000, .price = 100, .currency = str_lit("CNY")};
    int64_t now_ms = clock_now_ms(world->clock);
    activity = (struct activity){.activity = str_of(name), .title = str_of(name), .number = 7, .epoch = 3, .buckets = 1, .state = ACTIVITY_OPEN, .version = 9,
                                 .starts_ms = now_ms - 60000, .ends_ms = now_ms + 3600000, .pay_timeout_s = 900, .skus = &sku, .sku_count = 1};
    struct seen s = SEEN();
    struct install_ask install = {bucket(), &activity, true, true};
    store_install(straight, &install, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
    fresh(0);

    struct cutting c = {.relay = relay, .seed = cutting_seed(), .budget_ms = 150, .slack_ms = 500, .recover_ms = 5000};
    cutting_run(&c, calls, countof(calls), cutting_rounds());
    redis_close(cut, NULL, NULL);
    redis_close(straight, NULL, NULL);
    cut_close(relay);
    world->close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_call_under_every_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

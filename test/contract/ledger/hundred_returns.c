/* SPDX-License-Identifier: Apache-2.0
 * hundred_returns.c: a real PostgreSQL and a real Redis (C-08). One unit is sold, its order is cancelled by a hundred callers at once; its one return is told to
 * Redis by a hundred others, again after it was finished, again after the unit was sold once more: Redis gets one unit, and the ledger one
 * compensation. SECKILL_TEST_POSTGRES and SECKILL_TEST_REDIS say where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "postgres.h"
#include "redis.h"
#include "sql.h"
#include "words.h"
#include "world_postgres.h"

enum { CALLERS = 100, UNITS = 4, LEDGERS = 4 };

static struct activity sale;
static struct store *stores[CALLERS];
static struct ledger *ledgers[LEDGERS];
static uint8_t homes[UNITS];

static struct bucket bucket_of(uint8_t number) { return (struct bucket){sale.activity, sale.epoch, number}; }

static bool all_up(void *arg)
{
    (void)arg;
    bool up = true;
    for (int i = 0; i < CALLERS; i++)
        up &= redis_up(stores[i]);
    for (int i = 0; i < LEDGERS; i++)
        up &= postgres_ready(ledgers[i]);
    return up;
}

static int open_world(void **state)
{
    (void)state;
    const char *url = getenv("SECKILL_TEST_REDIS");
    if (!url || !*url)
        exit(77);
    log_level_set(LEVEL_ERROR);
    world = world_open();
    for (int i = 0; i < CALLERS; i++) {
        struct redis_options options = redis_options_default();
        options.loop = postgres_world_loop();
        options.url = str_of(url);
        options.reserve_ms = options.batch_ms = options.read_ms = options.install_ms = options.connect_ms = 8000;    /* the machine may be busy with other tests */
        stores[i] = redis_open(&options);
        assert_non_null(stores[i]);
    }
    for (int i = 0; i < LEDGERS; i++)
        ledgers[i] = postgres_open(&(struct postgres_options){.loop = postgres_world_loop(), .url = postgres_world_url(), .application = "caller"});
    return world->run(world, all_up, NULL, 10000) ? 0 : 1;
}

static int close_world(void **state)
{
    (void)state;
    for (int i = 0; i < CALLERS; i++)
        redis_close(stores[i], NULL, NULL);
    for (int i = 0; i < LEDGERS; i++)
        postgres_close(ledgers[i]);
    world->close(world);
    return 0;
}

/* ---- what Redis is asked -------------------------------------------------------------------------------------------------------- */

struct verdict_of {
    struct seen seen;
    enum reason verdict;
};
static void keep_verdict(struct seen *s, const void *result)
{
    const struct batch_result *r = result;
    assert_int_equal(r->count, 1);
    ((struct verdict_of *)s->into)->verdict = r->verdicts[0];
}

static struct verdict_of told[CALLERS];

/* The same return from a hundred callers, each on its own connection, all at once: how many of them added a unit. */
static int restock_hundredfold(const struct restock_ask *ask)
{
    int added = 0;
    for (int i = 0; i < CALLERS; i++) {
        told[i].seen = SEEN(.keep = keep_verdict, .into = &told[i]);
        store_restock(stores[i], ask, 1, &told[i].seen.waiter);
    }
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(seen_await(world, &told[i].seen), REASON_OK);
        assert_true(told[i].verdict == REASON_OK || told[i].verdict == REASON_UNCHANGED);
        added += told[i].verdict == REASON_OK;
    }
    return added;
}

static void keep_stock(struct seen *s, const void *result)
{
    const struct stock_answer *a = result;
    for (size_t i = 0; i < a->sku_count; i++)
        *(uint64_t *)s->into += a->skus[i].free + a->skus[i].resting + a->skus[i].moving;
}

/* Units for sale in Redis, in all buckets. */
static uint64_t for_sale(void)
{
    uint64_t units = 0;
    for (uint8_t b = 0; b < sale.buckets; b++) {
        struct seen seen = SEEN(.keep = keep_stock, .into = &units);
        store_stock(stores[0], &(struct stock_ask){.bucket = bucket_of(b)}, &seen.waiter);
        assert_int_equal(seen_await(world, &seen), REASON_OK);
    }
    return units;
}

static void keep_token(struct seen *s, const void *result) { *(struct token *)s->into = ((const struct reserve_answer *)result)->entry.token; }

static const uint8_t ident_base[16] = {0x01, 0x93, 0x00, 0xff, 0x0d, 0x0a, 0x00, 0x80};
static struct ident ident_of(uint8_t n)
{
    struct ident id;
    memcpy(id.bytes, ident_base, sizeof id.bytes);
    id.bytes[15] = n;
    return id;
}

/* A user takes a unit of the bucket and it becomes an order, which Redis hears. */
static struct create_order sold_in(uint8_t bucket, uint8_t n)
{
    const char *user = words("buyer%u%c", n, 0).ptr;
    struct token token = {0};
    struct seen seen = SEEN(.keep = keep_token, .into = &token);
    struct reserve_ask ask = {.bucket = bucket_of(bucket), .user = str_of(user), .sku = str_lit("S"), .request = str_lit("q"), .ident = ident_of(n), .user_hash = n};
    store_reserve(stores[1], &ask, &seen.waiter);
    assert_string_equal(reason_word(seen_await(world, &seen)), "QUEUED");
    struct create_order m = item(&sale, "S", user, "q", words("r%u%c", n, 0).ptr, token);
    assert_int_equal(PLACE(m).verdicts[0].outcome, REASON_ORDERED);
    struct verdict_of settled = {.seen = SEEN(.keep = keep_verdict, .into = &settled)};
    struct settle_ask told_ordered = {.bucket = bucket_of(bucket), .user = str_of(user), .ident = ident_of(n), .to = RESERVATION_ORDERED, .request = str_lit("q"),
                                      .sku = str_lit("S"), .token = token, .user_hash = n};
    store_settle(stores[2], &told_ordered, 1, &settled.seen.waiter);
    assert_int_equal(seen_await(world, &settled.seen), REASON_OK);
    return m;
}

static void open_sale(void)
{
    sale = till(words("back%ld%c", (long)getpid(), 0).ptr, UNITS, 900);
    sale.state = ACTIVITY_OPEN;
    sale.version = 2;
    for (uint8_t b = 0; b < sale.buckets; b++) {
        struct seen seen = SEEN(.into = NULL);
        store_install(stores[0], &(struct install_ask){bucket_of(b), &sale, true, true}, &seen.waiter);
        assert_int_equal(seen_await(world, &seen), REASON_OK);
    }
    struct listed l = units(&sale, 0, -1, true, 256);
    for (size_t i = 0; i < l.count; i++) {
        struct restock_ask ask = {bucket_of(l.units[i].home), str_lit("S"), l.units[i].token};
        homes[i] = l.units[i].home;
        assert_int_equal(restock_hundredfold(&ask), 1);
    }
    assert_int_equal(for_sale(), UNITS);
    let_pass(400);    /* a unit that came rests */
    finish_all();
}

/* ---- the ledger's side -------------------------------------------------------------------------------------------------------------- */

/* Cancelled by a hundred callers at once: how many did it. */
static int cancel_hundredfold(struct str order)
{
    static struct seen seen[CALLERS];
    static struct canceled canceled[CALLERS];
    int fresh = 0;
    for (int i = 0; i < CALLERS; i++) {
        seen[i] = SEEN(.keep = canceled_keep, .into = &canceled[i]);
        ledger_cancel(ledgers[i % LEDGERS], &(struct cancel_ask){.items = &(struct cancel_item){.order = order}, .count = 1, .why = REASON_CANCELED}, &seen[i].waiter);
    }
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(seen_await(world, &seen[i]), REASON_OK);
        assert_int_equal(canceled[i].verdicts[0].outcome, REASON_CANCELED);
        fresh += canceled[i].verdicts[0].fresh;
    }
    return fresh;
}

static void a_return_told_a_hundred_times_adds_one_unit(void **state)
{
    (void)state;
    open_sale();
    struct create_order m = sold_in(homes[0], 1);
    assert_int_equal(for_sale(), UNITS - 1);
    finish_all();
    assert_int_equal(cancel_hundredfold(order_of(&m)), 1);
    struct claimed c = claim(60000);
    const struct outbox_row *row = row_of(&c, OUTBOX_RETURN, (struct str){0}, m.token.unit);
    assert_non_null(row);
    struct restock_ask ask = {bucket_of(row->home), row->sku, row->token};
    assert_int_equal(restock_hundredfold(&ask), 1);
    assert_int_equal(for_sale(), UNITS);
    for (int i = 0; i < CALLERS; i++)    /* a hundred relays held the row: each finishes it */
        finish(&(struct finish_item){row->row, row->version}, 1);
    assert_int_equal(restock_hundredfold(&ask), 0);    /* and one that slept tells it once more */
    PLACE(m);                                          /* so does the message, redelivered: its return is queued again */
    c = claim(60000);
    row = row_of(&c, OUTBOX_RETURN, (struct str){0}, m.token.unit);
    assert_non_null(row);
    assert_true(row->token.generation == ask.token.generation);
    assert_int_equal(restock_hundredfold(&ask), 0);
    assert_int_equal(for_sale(), UNITS);

    assert_int_equal(sql_number(words("SELECT count(*) FROM compensation WHERE reservation_id = '" STR_FMT "'%c", STR_ARG(m.reservation), 0).ptr), 1);
    assert_int_equal(sql_number(words("SELECT count(*) FROM compensation WHERE reservation_id = '" STR_FMT "' AND status = 'RELEASED' AND compensation_id ="
                                       " encode(sha256(convert_to(reservation_id || ':CANCEL_ORDER:1', 'UTF8')), 'hex')%c", STR_ARG(m.reservation), 0).ptr), 1);
    assert_int_equal(sql_number(words("SELECT sum(delta) FROM inventory_journal WHERE unit = %lld%c", (long long)m.token.unit, 0).ptr), 0);
    assert_int_equal(unit(&sale, m.token.unit).token.generation, m.token.generation + 1);

    /* sold again at its new generation, to somebody else; the old return still adds nothing */
    let_pass(400);
    for (uint8_t n = 2; for_sale() > 0; n++)
        sold_in(for_sale() > 2 ? homes[0] : homes[1], n);
    assert_int_equal(restock_hundredfold(&ask), 0);
    assert_int_equal(for_sale(), 0);
    assert_clean(sale.activity);
    assert_int_equal(audit(sale.activity).a.holding, UNITS);
    finish_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_return_told_a_hundred_times_adds_one_unit)};
    return cmocka_run_group_tests_name("hundred_returns", tests, open_world, close_world);
}

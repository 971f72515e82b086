/* SPDX-License-Identifier: Apache-2.0
 * redis_bucket.c: what only Redis can be asked: a bucket closed by its flag, data that somebody spoilt, scripts that the server forgot,
 * and what lies in the server afterwards. SECKILL_TEST_REDIS as for the store's contract; 77 without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>

#include "redis_address.h"
#include "world.h"

static redisContext *admin;
static char name[40];
static const struct sku sku = {.sku = str_lit("shoe"), .stock = 20, .unit_first = 300};

static struct bucket bucket(void) { return (struct bucket){str_of(name), 5, 2}; }

static long long told(const char *verb, const char *key, const char *rest)
{
    char full[128], line[256];
    snprintf(full, sizeof full, "sk:{%s:2}:5:%s", name, key);
    snprintf(line, sizeof line, "%s %s %s", verb, full, rest);
    redisReply *reply = redisCommand(admin, line);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    long long n = reply->type == REDIS_REPLY_INTEGER ? reply->integer : reply->type == REDIS_REPLY_NIL ? -1 : 0;
    freeReplyObject(reply);
    return n;
}

struct took {
    enum reason reason;
    struct token token;
    uint64_t sequence;
};

static void keep(struct seen *s, const void *result)
{
    const struct reserve_answer *a = result;
    struct took *t = s->into;
    t->token = a->entry.token;
    t->sequence = a->sequence;
}

static struct took take(const char *user, const char *request, uint8_t id, const char *nonce)
{
    struct took t = {0};
    struct seen s = SEEN(.keep = keep, .into = &t);
    struct reserve_ask a = {.bucket = bucket(), .user = str_of(user), .sku = sku.sku, .request = str_of(request), .ident = {{id}}, .user_hash = id + 1u,
                            .nonce = str_of(nonce)};
    store_reserve(world->store, &a, &s.waiter);
    t.reason = seen_await(world, &s);
    return t;
}

static void keep_verdict(struct seen *s, const void *result) { *(enum reason *)s->into = ((const struct batch_result *)result)->verdicts[0]; }

static enum reason settle(const char *user, const char *request, uint8_t id, enum reservation_state to, struct token token)
{
    enum reason verdict = REASON_OK;
    struct seen s = SEEN(.keep = keep_verdict, .into = &verdict);
    struct settle_ask a = {.bucket = bucket(), .user = str_of(user), .ident = {{id}}, .to = to, .why = to == RESERVATION_RELEASED ? REASON_LOST : REASON_OK,
                           .request = str_of(request), .sku = sku.sku, .token = token, .user_hash = id + 1u};
    store_settle(world->store, &a, 1, &s.waiter);
    enum reason reason = seen_await(world, &s);
    return reason == REASON_OK ? verdict : reason;
}

static enum reason restock(int64_t unit, uint32_t generation)
{
    enum reason verdict = REASON_OK;
    struct seen s = SEEN(.keep = keep_verdict, .into = &verdict);
    struct restock_ask a = {bucket(), sku.sku, {unit, generation}};
    store_restock(world->store, &a, 1, &s.waiter);
    enum reason reason = seen_await(world, &s);
    return reason == REASON_OK ? verdict : reason;
}

static int setup(void **state)
{
    (void)state;
    snprintf(name, sizeof name, "act-%016llx", (unsigned long long)random_next(world->random));
    struct activity a = {.activity = str_of(name), .number = 1, .epoch = 5, .buckets = 4, .state = ACTIVITY_OPEN, .version = 1, .starts_ms = 1,
                         .ends_ms = INT64_C(1) << 42, .skus = &sku, .sku_count = 1};
    struct seen s = SEEN();
    struct install_ask ask = {bucket(), &a, false, true};
    store_install(world->store, &ask, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
    for (int64_t i = 0; i < 3; i++)
        assert_int_equal(restock(300 + i, 1), REASON_OK);
    return 0;
}

static void keep_closed(struct seen *s, const void *result) { *(bool *)s->into = ((const struct stock_answer *)result)->closed; }

static bool closed_is_told(void)
{
    bool closed = false;
    struct seen s = SEEN(.keep = keep_closed, .into = &closed);
    struct stock_ask a = {bucket(), false};
    store_stock(world->store, &a, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
    return closed;
}

static void a_closed_bucket_refuses_only_new_ones(void **state)
{
    (void)state;
    struct took t = take("u1", "r1", 1, "n1");
    assert_int_equal(t.reason, REASON_QUEUED);
    for (uint8_t i = 10; i < 14; i++)    /* a full list of tombstones */
        assert_int_equal(settle("u2", (const char[]){'r', (char)('0' + i % 10), 0}, i, RESERVATION_RELEASED, (struct token){0}), REASON_OK);
    assert_int_equal(told("HSET", "meta", "closed some-incarnation"), 1);
    assert_int_equal(take("u1", "r1", 2, "n1").reason, REASON_QUEUED);              /* his retry */
    assert_int_equal(take("u1", "r2", 2, "n2").reason, REASON_ALREADY_PURCHASED);
    assert_int_equal(take("u3", "r1", 3, "").reason, REASON_BUCKET_CLOSED);
    assert_int_equal(take("u2", "r9", 3, "").reason, REASON_ASK_LEDGER);            /* before that flag is looked at */
    assert_int_equal(take("u2", "r0", 3, "").reason, REASON_RELEASED);
    assert_int_equal(settle("u1", "r1", 1, RESERVATION_ORDERED, t.token), REASON_OK);
    assert_int_equal(take("u1", "r1", 4, "").reason, REASON_ORDERED);
    assert_int_equal(restock(t.token.unit, 2), REASON_OK);
    assert_true(closed_is_told());
    struct bucket b = bucket();
    struct str here = store_incarnation(world->store, &b);
    struct seen known = SEEN();
    struct close_ask close = {.bucket = b, .recorded = here};
    store_close(world->store, &close, &known.waiter);
    assert_int_equal(seen_await(world, &known), REASON_OK);           /* a mark of an earlier life, which nobody could open: closed anew for this one */
    known = SEEN();
    store_close(world->store, &close, &known.waiter);
    assert_int_equal(seen_await(world, &known), REASON_UNCHANGED);
    assert_int_equal(told("HDEL", "meta", "closed"), 1);
    assert_false(closed_is_told());
    assert_int_equal(take("u3", "r1", 3, "").reason, REASON_QUEUED);
}

static void no_meta_means_another_epoch(void **state)
{
    (void)state;
    assert_int_equal(take("u1", "r1", 1, "").reason, REASON_QUEUED);
    assert_int_equal(told("DEL", "meta", ""), 1);
    assert_int_equal(take("u1", "r1", 1, "").reason, REASON_STALE_EPOCH);
    assert_int_equal(take("u2", "r1", 1, "").reason, REASON_STALE_EPOCH);
    assert_int_equal(restock(300, 9), REASON_STALE_EPOCH);
}

static void scripts_that_the_server_forgot(void **state)
{
    (void)state;
    freeReplyObject(redisCommand(admin, "SCRIPT FLUSH SYNC"));
    assert_int_equal(take("u1", "r1", 1, "").reason, REASON_QUEUED);
    freeReplyObject(redisCommand(admin, "SCRIPT FLUSH SYNC"));
    assert_int_equal(settle("u1", "r1", 1, RESERVATION_PUBLISHED, (struct token){0}), REASON_OK);
}

/* A key of the wrong kind is a fault; whatever a script could find out before its first write leaves nothing behind. */
static void spoilt_data_is_a_fault(void **state)
{
    (void)state;
    assert_int_equal(told("SET", "users", "nonsense"), 0);
    assert_int_equal(take("u1", "r1", 1, "").reason, REASON_ENGINE_FAULT);
    assert_int_equal(told("ZCARD", "free:shoe", ""), 4);
    assert_int_equal(told("ZCARD", "pending", ""), 1);
    assert_int_equal(settle("u1", "r1", 1, RESERVATION_PUBLISHED, (struct token){0}), REASON_ENGINE_FAULT);
    assert_int_equal(told("DEL", "users", ""), 1);
    assert_int_equal(told("HSET", "users", "u1 short # x"), 2);    /* no entry */
    assert_int_equal(take("u1", "r1", 1, "").reason, REASON_ENGINE_FAULT);
    assert_int_equal(told("ZCARD", "free:shoe", ""), 4);
    assert_int_equal(take("u2", "r1", 2, "").reason, REASON_QUEUED);
}

static void nothing_is_left_of_a_refusal(void **state)
{
    (void)state;
    for (uint8_t i = 0; i < 3; i++)
        assert_int_equal(take((const char[]){'u', (char)('a' + i), 0}, "r", i, "").reason, REASON_QUEUED);
    for (uint8_t i = 3; i < 13; i++)
        assert_int_equal(take((const char[]){'u', (char)('a' + i), 0}, "r", i, "n").reason, REASON_BUCKET_EMPTY);
    assert_int_equal(told("HLEN", "users", ""), 4);    /* and the guard of each */
    assert_int_equal(told("ZCARD", "pending", ""), 4);
    assert_int_equal(told("ZCARD", "free:shoe", ""), 1);
    assert_int_equal(told("HEXISTS", "meta", "wanted:shoe"), 1);
    assert_int_equal(restock(300, 2), REASON_OK);
    assert_int_equal(told("HEXISTS", "meta", "wanted:shoe"), 0);
}

static void connect_admin(const char *url)
{
    struct redis_address a;
    check(redis_address_parse(str_of(url), &a));
    admin = a.local ? redisConnectUnix(a.host) : redisConnect(a.host, atoi(a.port));
    check(admin != NULL && admin->err == 0);
    if (a.password[0])
        freeReplyObject(redisCommand(admin, "AUTH %s", a.password));
    if (a.db > 0)
        freeReplyObject(redisCommand(admin, "SELECT %u", (unsigned)a.db));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_closed_bucket_refuses_only_new_ones, setup), cmocka_unit_test_setup(no_meta_means_another_epoch, setup),
        cmocka_unit_test_setup(scripts_that_the_server_forgot, setup),        cmocka_unit_test_setup(spoilt_data_is_a_fault, setup),
        cmocka_unit_test_setup(nothing_is_left_of_a_refusal, setup),
    };
    world = world_open();
    log_level_set(LEVEL_FATAL);    /* faults are asked for */
    connect_admin(getenv("SECKILL_TEST_REDIS"));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redisFree(admin);
    world->close(world);
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0
 * twin.c: the same questions are put to Redis and to the imagined store, and every answer, every record and every shelf must be
 * the same. Whatever may come over the wires comes: statuses of reservations nobody knows, verdicts before their reservation, verdicts that
 * contradict, units of any generation, requests of any age. What differs is a bug in one of the two. (Time is not put to the
 * test here, each has its own: the buckets are not seeded, so that nothing rests.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim_clock.h"
#include "sim_random.h"
#include "sim_store.h"
#include "world.h"

#define SALES 12
#define STEPS 400
#define UNITS 12
#define FIRST 100001
#define USERS 40
#define IDENTS 800
#define TEXTS 200000

static struct sim_clock hour;
static struct sim_store_world kept;
static struct sim_store imagined;
static struct world twin, *real;
static struct sim_random seeded;
#define CHANCE(n) random_below(&seeded.random, (n))

static bool twin_run(struct world *w, bool (*done)(void *), void *arg, uint32_t budget_ms)
{
    (void)w;
    return sim_clock_run(&hour, done, arg, 1000 * (uint64_t)budget_ms);
}

static int open_both(void **state)
{
    (void)state;
    real = world_open();
    sim_clock_init(&hour, clock_now_ms(real->clock));
    sim_store_world_init(&kept, 1);
    sim_store_open(&imagined, &kept, &hour.clock);
    twin = (struct world){.name = "twin", .store = &imagined.store, .clock = &hour.clock, .run = twin_run};
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    real->close(real);
    sim_store_close(&imagined);
    sim_store_world_end(&kept);
    sim_clock_end(&hour);
    return 0;
}

/* ---- texts ---- */

static char texts[TEXTS][32];
static size_t text_count;

static struct str text(const char *kind, uint64_t n)
{
    char *at = texts[text_count++ % TEXTS];
    return (struct str){at, (size_t)snprintf(at, sizeof texts[0], "%s%llu", kind, (unsigned long long)n)};
}

static struct ident ident_of(uint64_t n)
{
    struct ident id = {{0x01, 0x93}};
    for (int i = 0; i < 8; i++)
        id.bytes[15 - i] = (uint8_t)(n >> (8 * i));
    return id;
}

/* Of the reservation with this number: rsv_ and five bits a letter. */
static struct str reservation_name(uint64_t n)
{
    static const char letters[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    struct ident id = ident_of(n);
    char *at = texts[text_count++ % TEXTS];
    memcpy(at, "rsv_", 4);
    for (size_t i = 0; i < IDENT_TEXT; i++) {
        unsigned digit = 0;
        for (unsigned bit = 0; bit < 5 && 5 * i + bit < 128; bit++)
            digit |= (unsigned)(id.bytes[15 - (5 * i + bit) / 8] >> (5 * i + bit) % 8 & 1) << bit;
        at[IDENT_ID_TEXT - 1 - i] = letters[digit];
    }
    return (struct str){at, IDENT_ID_TEXT};
}

static const struct str skus[] = {str_lit("S"), str_lit("T"), str_lit("nothing")};
static char sale[32];
static struct bucket where;

/* A reservation is what its number says, whoever speaks of it. */
static struct str user_of(uint64_t n) { return text("u", n % USERS); }
static struct str request_of(uint64_t n) { return text("q", n % 97); }
static struct str sku_of(uint64_t n) { return skus[n / USERS % 2]; }
static uint64_t hash_of(struct str user) { return ((uint64_t)user.ptr[1] << 8 | (uint64_t)user.ptr[user.len - 1]) * 0x9e3779b97f4a7c15u; }
static struct token some_token(void) { return (struct token){FIRST + (int64_t)CHANCE(2 * UNITS), 1 + (uint32_t)(CHANCE(200) ? CHANCE(6) : 250 + CHANCE(20))}; }

/* ---- reserve ---- */

static uint64_t heard[REASON_COUNT];

struct took {
    enum reason reason;
    struct reserve_answer answer;
};

static struct entry entry_kept(struct entry e)
{
    struct str *parts[] = {&e.request, &e.sku, &e.superseded_by};
    for (size_t i = 0; i < countof(parts); i++) {
        char *at = texts[text_count++ % TEXTS];
        assert_true(parts[i]->len <= sizeof texts[0]);
        if (parts[i]->len > 0)
            memcpy(at, parts[i]->ptr, parts[i]->len);
        parts[i]->ptr = at;
    }
    return e;
}

static void keep_took(struct seen *s, const void *result)
{
    struct took *t = s->into;
    t->answer = *(const struct reserve_answer *)result;
    t->answer.entry = entry_kept(t->answer.entry);
}

static struct took take(struct world *w, const struct reserve_ask *ask)
{
    struct took t = {0};
    struct seen s = SEEN(.keep = keep_took, .into = &t);
    store_reserve(w->store, ask, &s.waiter);
    t.reason = seen_await(w, &s);
    return t;
}

static void same_entry(const struct entry *a, const struct entry *b)
{
    assert_memory_equal(&a->ident, &b->ident, sizeof a->ident);
    assert_string_equal(reservation_state_name(a->state), reservation_state_name(b->state));
    assert_string_equal(reason_word(a->why), reason_word(b->why));
    assert_true(str_eq(a->request, b->request) && str_eq(a->sku, b->sku) && str_eq(a->superseded_by, b->superseded_by));
    assert_int_equal(a->token.unit, b->token.unit);
    assert_int_equal(a->token.generation, b->token.generation);
}

static void step_reserve(void)
{
    uint64_t n = CHANCE(IDENTS);
    struct reserve_ask ask = {.bucket = where, .user = user_of(n), .sku = CHANCE(30) ? sku_of(n) : skus[CHANCE(3)], .request = request_of(CHANCE(5) ? n : CHANCE(97)),
                              .ident = ident_of(n), .user_hash = hash_of(user_of(n)), .nonce = CHANCE(3) ? (struct str){0} : text("nonce", CHANCE(8)),
                              .replay_only = CHANCE(15) == 0, .ledger_asked = CHANCE(2) == 0};
    struct took a = take(real, &ask), b = take(&twin, &ask);
    assert_string_equal(reason_word(a.reason), reason_word(b.reason));
    assert_int_equal(a.answer.replayed, b.answer.replayed);
    heard[a.reason]++;
    if (a.reason == REASON_QUEUED || a.reason == REASON_ORDERED || a.reason == REASON_RELEASED || a.reason == REASON_ALREADY_PURCHASED)
        same_entry(&a.answer.entry, &b.answer.entry);
}

/* ---- settle and restock ---- */

struct batch {
    enum reason reason, at[16];
};

static void keep_batch(struct seen *s, const void *result)
{
    const struct batch_result *r = result;
    memcpy(((struct batch *)s->into)->at, r->verdicts, r->count * sizeof *r->verdicts);
}

static void same_batch(const struct batch *a, const struct batch *b, size_t count)
{
    assert_string_equal(reason_word(a->reason), reason_word(b->reason));
    for (size_t i = 0; a->reason == REASON_OK && i < count; i++)
        assert_string_equal(reason_word(a->at[i]), reason_word(b->at[i]));
}

static struct settle_ask some_settle(void)
{
    static const enum reservation_state states[] = {RESERVATION_PUBLISHED, RESERVATION_PROCESSING, RESERVATION_RECONCILING, RESERVATION_MANUAL_REVIEW,
                                                    RESERVATION_RELEASE_PENDING, RESERVATION_ORDERED, RESERVATION_RELEASED, RESERVATION_RELEASED,
                                                    RESERVATION_RELEASED, RESERVATION_RELEASED, RESERVATION_RELEASED, RESERVATION_RELEASED};
    uint64_t n = CHANCE(IDENTS), other = CHANCE(IDENTS / USERS) * USERS + n % USERS;    /* another one of his */
    struct settle_ask ask = {.bucket = where, .user = user_of(n), .ident = ident_of(n), .to = states[CHANCE(countof(states))], .why = REASON_OK};
    if (!reservation_state_terminal(ask.to))
        return ask;
    ask.request = request_of(n);
    ask.sku = CHANCE(40) ? sku_of(n) : skus[2];
    ask.user_hash = hash_of(ask.user);
    if (ask.to == RESERVATION_ORDERED)
        ask.token = some_token();
    else
        ask.why = REASON_OVERDUE;
    if (ask.to == RESERVATION_RELEASED && CHANCE(4) == 0) {
        ask.why = REASON_DUPLICATE_USER;
        ask.superseded_by = reservation_name(other);
        ask.superseded_request = request_of(other);
        ask.superseded_sku = sku_of(other);
    }
    return ask;
}

static void step_settle(void)
{
    struct settle_ask asks[8];
    size_t count = 1 + CHANCE(countof(asks));
    struct batch got[2] = {0};
    for (size_t i = 0; i < count; i++)
        asks[i] = i > 0 && CHANCE(5) == 0 ? asks[i - 1] : some_settle();
    for (int which = 0; which < 2; which++) {
        struct seen s = SEEN(.keep = keep_batch, .into = &got[which]);
        store_settle((which ? &twin : real)->store, asks, count, &s.waiter);
        got[which].reason = seen_await(which ? &twin : real, &s);
    }
    same_batch(&got[0], &got[1], count);
}

static void step_restock(void)
{
    struct restock_ask asks[8];
    size_t count = 1 + CHANCE(countof(asks));
    struct batch got[2] = {0};
    for (size_t i = 0; i < count; i++) {
        struct token t = some_token();
        asks[i] = (struct restock_ask){.bucket = where, .sku = CHANCE(20) ? skus[t.unit >= FIRST + UNITS] : skus[CHANCE(3)], .token = t};
    }
    for (int which = 0; which < 2; which++) {
        struct seen s = SEEN(.keep = keep_batch, .into = &got[which]);
        store_restock((which ? &twin : real)->store, asks, count, &s.waiter);
        got[which].reason = seen_await(which ? &twin : real, &s);
    }
    same_batch(&got[0], &got[1], count);
}

/* ---- what they hold ---- */

struct looked {
    size_t count;
    struct entry at[128];
};

static void keep_look(struct seen *s, const void *result)
{
    const struct look_answer *a = result;
    struct looked *l = s->into;
    assert_true(a->count <= countof(l->at));
    l->count = a->count;
    for (size_t i = 0; i < a->count; i++)
        l->at[i] = entry_kept(a->entries[i]);
}

static void same_user(uint64_t n)
{
    static struct looked got[2];
    for (int which = 0; which < 2; which++) {
        struct seen s = SEEN(.keep = keep_look, .into = &got[which]);
        store_look((which ? &twin : real)->store, &(struct look_ask){.bucket = where, .user = user_of(n)}, &s.waiter);
        assert_int_equal(seen_await(which ? &twin : real, &s), REASON_OK);
    }
    assert_int_equal(got[0].count, got[1].count);
    for (size_t i = 0; i < got[0].count; i++)
        same_entry(&got[0].at[i], &got[1].at[i]);
}

struct shelves {
    struct stock_answer answer;
    struct stock_sku skus[2];
};

static void keep_stock(struct seen *s, const void *result)
{
    struct shelves *k = s->into;
    k->answer = *(const struct stock_answer *)result;
    assert_int_equal(k->answer.sku_count, 2);
    memcpy(k->skus, k->answer.skus, sizeof k->skus);
}

static void same_stock(void)
{
    struct shelves got[2];
    for (int which = 0; which < 2; which++) {
        struct seen s = SEEN(.keep = keep_stock, .into = &got[which]);
        store_stock((which ? &twin : real)->store, &(struct stock_ask){.bucket = where}, &s.waiter);
        assert_int_equal(seen_await(which ? &twin : real, &s), REASON_OK);
    }
    const struct stock_answer *a = &got[0].answer, *b = &got[1].answer;
    assert_true(a->state == b->state && a->version == b->version && a->seeded == b->seeded && a->closed == b->closed);
    assert_int_equal(a->restocks, b->restocks);
    assert_int_equal(a->pending, b->pending);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(got[0].skus[i].free, got[1].skus[i].free);
        assert_int_equal(got[0].skus[i].resting, got[1].skus[i].resting);
        assert_int_equal(got[0].skus[i].wanted, got[1].skus[i].wanted);
    }
}

/* ---- install ---- */

static void step_install(bool first)
{
    static const enum activity_state states[] = {ACTIVITY_OPEN, ACTIVITY_OPEN, ACTIVITY_OPEN, ACTIVITY_OPEN, ACTIVITY_CLOSED, ACTIVITY_WARM};
    static uint64_t version;
    struct sku shelf[] = {{.sku = skus[0], .stock = UNITS, .unit_first = FIRST, .price = 1, .currency = str_lit("CNY")},
                          {.sku = skus[1], .stock = UNITS, .unit_first = FIRST + UNITS, .price = 1, .currency = str_lit("CNY")}};
    struct activity a = {.activity = where.activity, .number = 1, .epoch = 1, .buckets = 1, .state = first ? ACTIVITY_OPEN : states[CHANCE(countof(states))],
                         .version = first ? 1 : version + CHANCE(4) - 1, .starts_ms = 1000, .ends_ms = 4000000000000, .skus = shelf, .sku_count = 2};
    enum reason reasons[2];
    version = first || a.version > version ? a.version : version;
    for (int which = 0; which < 2; which++) {
        struct seen s = SEEN();
        store_install((which ? &twin : real)->store, &(struct install_ask){.bucket = where, .activity = &a, .create = first}, &s.waiter);
        reasons[which] = seen_await(which ? &twin : real, &s);
    }
    assert_string_equal(reason_word(reasons[0]), reason_word(reasons[1]));
}

static void one_sale(void)
{
    snprintf(sale, sizeof sale, "twin-%llx", (unsigned long long)random_next(real->random) >> 16);
    where = (struct bucket){.activity = str_of(sale), .epoch = 1};
    step_install(true);
    for (int i = 0; i < STEPS; i++) {
        uint64_t way = CHANCE(100);
        if (way < 50)
            step_reserve();
        else if (way < 75)
            step_settle();
        else if (way < 94)
            step_restock();
        else
            step_install(false);
        same_user(CHANCE(USERS));
        if (i % 10 == 0)
            same_stock();
    }
}

static void the_two_stores_agree(void **state)
{
    (void)state;
    static const enum reason all[] = {REASON_QUEUED, REASON_ORDERED, REASON_RELEASED, REASON_ALREADY_PURCHASED, REASON_IDEMPOTENCY_CONFLICT, REASON_BUCKET_EMPTY,
                                      REASON_NOT_STARTED, REASON_ENDED, REASON_QUALIFICATION_INVALID, REASON_ASK_LEDGER, REASON_UNKNOWN_ACTIVITY};
    sim_random_init(&seeded, 7);
    for (int i = 0; i < SALES; i++)
        one_sale();
    for (size_t i = 0; i < countof(all); i++) {    /* else the seed was too kind */
        if (heard[all[i]] < 5)
            print_message("%s: heard only %llu times\n", reason_word(all[i]), (unsigned long long)heard[all[i]]);
        assert_true(heard[all[i]] >= 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_two_stores_agree)};
    return cmocka_run_group_tests_name("store_twin", tests, open_both, close_both);
}

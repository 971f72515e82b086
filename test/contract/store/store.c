/* SPDX-License-Identifier: Apache-2.0
 * store.c: what every store promises (port/store.h, protocol §2), whichever world keeps it. Each test opens a sale of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "world.h"

/* ---- a sale ---------------------------------------------------------------------------------------------------------------- */

#define BUCKETS 3
#define UNITS 40    /* of each SKU */
#define FIRST_A 1000
#define FIRST_B 5000

struct sale {
    char name[40];
    struct sku skus[2];
    struct activity activity;
};
static struct sale sale;

static struct bucket bucket(uint8_t number) { return (struct bucket){sale.activity.activity, sale.activity.epoch, number}; }

static void sale_draw(void)
{
    snprintf(sale.name, sizeof sale.name, "act-%016llx", (unsigned long long)random_next(world->random));
    sale.skus[0] = (struct sku){.sku = str_lit("shoe-42"), .stock = UNITS, .unit_first = FIRST_A, .price = 100, .currency = str_lit("CNY")};
    sale.skus[1] = (struct sku){.sku = str_lit("shoe_43"), .stock = UNITS, .unit_first = FIRST_B, .price = 100, .currency = str_lit("CNY")};
    int64_t now_ms = clock_now_ms(world->clock);
    sale.activity = (struct activity){
        .activity = str_of(sale.name), .title = str_of(sale.name), .number = 7, .epoch = 3, .buckets = BUCKETS, .state = ACTIVITY_OPEN, .version = 9,
        .starts_ms = now_ms - 60000, .ends_ms = now_ms + 3600000, .pay_timeout_s = 900, .skus = sale.skus, .sku_count = 2};
}

/* ---- asking and waiting ---------------------------------------------------------------------------------------------------- */

static enum reason install_as(uint8_t number, bool seeded, bool create)
{
    struct seen s = SEEN();
    struct install_ask ask = {bucket(number), &sale.activity, seeded, create};
    store_install(world->store, &ask, &s.waiter);
    assert_false(s.woken);
    return seen_await(world, &s);
}

static enum reason install(uint8_t number, bool seeded) { return install_as(number, seeded, true); }

/* An entry whose texts outlive the answer: the last 8192 of them stay. */
struct known {
    struct entry entry;
};

static struct str kept(struct str s)
{
    static char memories[8192][64];
    static size_t turn;
    char *memory = memories[turn++ % countof(memories)];
    assert_true(s.len <= 64);
    if (s.len > 0)
        memcpy(memory, s.ptr, s.len);
    return (struct str){memory, s.len};
}

static void known_copy(struct known *k, const struct entry *e)
{
    k->entry = *e;
    k->entry.request = kept(e->request);
    k->entry.sku = kept(e->sku);
    k->entry.superseded_by = kept(e->superseded_by);
}

static struct ident ident_of(uint32_t n)
{
    struct ident id = {{0x01, 0x93, 0x00, 0xff, 0x0d, 0x0a, 0x00, 0x80}};
    for (int i = 0; i < 4; i++)
        id.bytes[12 + i] = (uint8_t)(n >> (8 * (3 - i)));
    return id;
}

static bool ident_same(struct ident a, struct ident b) { return memcmp(&a, &b, sizeof a) == 0; }

/* Crockford's base32, 26 letters. */
static struct str ident_text(struct ident id, char memory[IDENT_ID_TEXT])
{
    unsigned __int128 bits = 0;
    for (size_t i = 0; i < sizeof id.bytes; i++)
        bits = bits << 8 | id.bytes[i];
    memcpy(memory, "rsv_", 4);
    for (int i = IDENT_ID_TEXT - 1; i >= 4; i--, bits >>= 5)
        memory[i] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[(unsigned)bits & 31];
    return (struct str){memory, IDENT_ID_TEXT};
}

static uint64_t hash_of(const char *user)
{
    uint64_t h = 14695981039346656037u;
    for (; *user; user++)
        h = (h ^ (uint8_t)*user) * 1099511628211u;
    return h * 0x9e3779b97f4a7c15u;
}

struct took {
    enum reason reason;
    struct reserve_answer answer;
    struct known known;
};

static void keep_took(struct seen *s, const void *result)
{
    struct took *t = s->into;
    t->answer = *(const struct reserve_answer *)result;
    known_copy(&t->known, &t->answer.entry);
}

static struct reserve_ask ask_of(uint8_t number, const char *user, int sku, const char *request, uint32_t id)
{
    return (struct reserve_ask){.bucket = bucket(number), .user = str_of(user), .sku = sale.skus[sku].sku, .request = str_of(request),
                                .ident = ident_of(id), .user_hash = hash_of(user)};
}

static struct took take_ask(const struct reserve_ask *ask)
{
    struct took t = {0};
    struct seen s = SEEN(.keep = keep_took, .into = &t);
    store_reserve(world->store, ask, &s.waiter);
    assert_false(s.woken);
    t.reason = seen_await(world, &s);
    return t;
}

static struct took take(uint8_t number, const char *user, int sku, const char *request, uint32_t id)
{
    struct reserve_ask ask = ask_of(number, user, sku, request, id);
    return take_ask(&ask);
}

struct verdicts {
    enum reason reason, at[STORE_BATCH_MAX];
    size_t count;
};

static void keep_verdicts(struct seen *s, const void *result)
{
    const struct batch_result *r = result;
    struct verdicts *v = s->into;
    v->count = r->count;
    if (r->count > 0)
        memcpy(v->at, r->verdicts, r->count * sizeof *v->at);
}

static struct verdicts verdicts_of(struct seen *s, struct verdicts *v, size_t count)
{
    assert_false(s->woken);
    v->reason = seen_await(world, s);
    if (v->reason == REASON_OK)
        assert_int_equal(v->count, count);
    for (size_t i = 0; v->reason != REASON_OK && i < count; i++)
        v->at[i] = v->reason;    /* holds for every item alike */
    return *v;
}

static struct verdicts settle_all(const struct settle_ask *asks, size_t count)
{
    struct verdicts v = {0};
    struct seen s = SEEN(.keep = keep_verdicts, .into = &v);
    store_settle(world->store, asks, count, &s.waiter);
    return verdicts_of(&s, &v, count);
}

static enum reason settle(const struct settle_ask *ask) { return settle_all(ask, 1).at[0]; }

static struct verdicts restock_all(const struct restock_ask *asks, size_t count)
{
    struct verdicts v = {0};
    struct seen s = SEEN(.keep = keep_verdicts, .into = &v);
    store_restock(world->store, asks, count, &s.waiter);
    return verdicts_of(&s, &v, count);
}

static enum reason restock(uint8_t number, int sku, int64_t unit, uint32_t generation)
{
    struct restock_ask ask = {bucket(number), sale.skus[sku].sku, {unit, generation}};
    return restock_all(&ask, 1).at[0];
}

struct seen_stock {
    struct stock_answer answer;
    struct stock_sku skus[8];
    uint8_t filter[4096];
    char incarnation[256];
    char mark[MARK_TEXT + 1], lost[256];
};

static void keep_stock(struct seen *s, const void *result)
{
    struct seen_stock *k = s->into;
    k->answer = *(const struct stock_answer *)result;
    assert_true(k->answer.sku_count <= countof(k->skus) && k->answer.filter.len <= sizeof k->filter);
    assert_true(k->answer.incarnation.len < sizeof k->incarnation);
    for (size_t i = 0; i < k->answer.sku_count; i++)
        k->skus[i] = k->answer.skus[i];
    assert_true(k->answer.mark.len < sizeof k->mark && k->answer.lost.len < sizeof k->lost);
    if (k->answer.mark.len > 0)
        memcpy(k->mark, k->answer.mark.ptr, k->answer.mark.len);
    if (k->answer.lost.len > 0)
        memcpy(k->lost, k->answer.lost.ptr, k->answer.lost.len);
    if (k->answer.filter.len > 0)
        memcpy(k->filter, k->answer.filter.ptr, k->answer.filter.len);
    memcpy(k->incarnation, k->answer.incarnation.ptr, k->answer.incarnation.len);
}

static enum reason stock_try(uint8_t number, struct seen_stock *k)
{
    memset(k, 0, sizeof *k);
    struct seen s = SEEN(.keep = keep_stock, .into = k);
    struct stock_ask ask = {bucket(number), true};
    store_stock(world->store, &ask, &s.waiter);
    assert_false(s.woken);
    return seen_await(world, &s);
}

static const struct seen_stock *stock(uint8_t number)
{
    static struct seen_stock k;
    assert_int_equal(stock_try(number, &k), REASON_OK);
    return &k;
}

static bool in_filter(const struct seen_stock *k, const char *user)
{
    uint64_t hash = hash_of(user);
    uint32_t h1 = (uint32_t)hash, h2 = (uint32_t)(hash >> 32) | 1;
    for (uint32_t i = 0; i < WINNER_PROBES; i++) {
        uint64_t bit = (h1 + (uint64_t)i * h2) % k->answer.filter_bits;
        if (bit / 8 >= k->answer.filter.len || !(k->filter[bit / 8] & 0x80u >> bit % 8))
            return false;
    }
    return true;
}

struct looked {
    enum reason reason;
    size_t count;
    uint64_t sequence;
    struct known at[16];
};

static void keep_look(struct seen *s, const void *result)
{
    const struct look_answer *a = result;
    struct looked *l = s->into;
    l->count = a->count;
    l->sequence = a->sequence;
    assert_true(a->count <= countof(l->at));
    for (size_t i = 0; i < a->count; i++)
        known_copy(&l->at[i], &a->entries[i]);
}

static struct looked look(uint8_t number, const char *user)
{
    struct looked l = {0};
    struct seen s = SEEN(.keep = keep_look, .into = &l);
    struct look_ask ask = {bucket(number), str_of(user)};
    store_look(world->store, &ask, &s.waiter);
    assert_false(s.woken);
    l.reason = seen_await(world, &s);
    return l;
}

/* The user's entry of that name; NULL: none. */
static const struct entry *entry_of(uint8_t number, const char *user, uint32_t id)
{
    static struct looked l;
    l = look(number, user);
    assert_int_equal(l.reason, REASON_OK);
    for (size_t i = 0; i < l.count; i++)
        if (ident_same(l.at[i].entry.ident, ident_of(id)))
            return &l.at[i].entry;
    return NULL;
}

struct turn {
    size_t count;
    uint64_t waiting;
    struct ident idents[128];
    int64_t now_ms;
};

static void keep_due(struct seen *s, const void *result)
{
    const struct due_answer *a = result;
    struct turn *t = s->into;
    *t = (struct turn){.count = a->count, .waiting = a->waiting, .now_ms = a->now_ms};
    assert_true(a->count <= countof(t->idents));
    for (size_t i = 0; i < a->count; i++) {
        assert_true(a->entries[i].user.len > 0);
        t->idents[i] = a->entries[i].entry.ident;
    }
}

static struct turn due(uint8_t number, size_t limit)
{
    struct turn t = {0};
    struct seen s = SEEN(.keep = keep_due, .into = &t);
    struct due_ask ask = {bucket(number), limit};
    store_due(world->store, &ask, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
    return t;
}

/* ---- arranging a sale ------------------------------------------------------------------------------------------------------ */

/* Units of a SKU into a bucket, at generation 1. */
static void seed(uint8_t number, int sku, int64_t from, size_t count)
{
    struct restock_ask asks[STORE_BATCH_MAX] = {0};
    for (size_t i = 0; i < count; i++)
        asks[i] = (struct restock_ask){bucket(number), sale.skus[sku].sku, {sale.skus[sku].unit_first + from + (int64_t)i, 1}};
    struct verdicts v = restock_all(asks, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(v.at[i], REASON_OK);
}

/* A new sale, open, `count` units of each SKU in bucket 0, seeded. */
static void open_sale(size_t count)
{
    sale_draw();
    assert_int_equal(install(0, false), REASON_OK);
    seed(0, 0, 0, count);
    seed(0, 1, 0, count);
    (void)install(0, true);
}

static void push(enum activity_state state)
{
    sale.activity.state = state;
    sale.activity.version++;
    assert_int_equal(install(0, true), REASON_OK);
}

static struct settle_ask moved(const char *user, uint32_t id, enum reservation_state to)
{
    return (struct settle_ask){.bucket = bucket(0), .user = str_of(user), .ident = ident_of(id), .to = to};
}

static struct settle_ask ordered(const char *user, uint32_t id, const char *request, int sku, struct token token)
{
    struct settle_ask a = moved(user, id, RESERVATION_ORDERED);
    a.request = str_of(request);
    a.sku = sale.skus[sku].sku;
    a.token = token;
    a.user_hash = hash_of(user);
    return a;
}

static struct settle_ask released(const char *user, uint32_t id, const char *request, int sku, enum reason why)
{
    struct settle_ask a = moved(user, id, RESERVATION_RELEASED);
    a.request = str_of(request);
    a.sku = sale.skus[sku].sku;
    a.why = why;
    return a;
}

/* ---- reserve --------------------------------------------------------------------------------------------------------------- */

static void takes_one_unit(void **state)
{
    (void)state;
    open_sale(5);
    struct took t = take(0, "u1", 0, "r1", 1);
    assert_int_equal(t.reason, REASON_QUEUED);
    assert_false(t.answer.replayed);
    struct entry e = t.known.entry;
    assert_true(ident_same(e.ident, ident_of(1)));
    assert_int_equal(e.state, RESERVATION_RESERVED);
    assert_int_equal(e.why, REASON_OK);
    assert_true(str_eq(e.request, str_lit("r1")) && str_eq(e.sku, sale.skus[0].sku) && e.superseded_by.len == 0);
    assert_int_equal(e.token.unit, FIRST_A);    /* the lowest first */
    assert_int_equal(e.token.generation, 1);
    assert_true(e.created_ms == t.answer.now_ms && e.updated_ms == e.created_ms);
    assert_true(t.answer.now_ms > sale.activity.starts_ms && t.answer.now_ms < sale.activity.ends_ms);
    const struct seen_stock *k = stock(0);
    assert_int_equal(k->skus[0].free, 4);
    assert_int_equal(k->skus[1].free, 5);
    assert_int_equal(k->answer.pending, 1);
    assert_true(in_filter(k, "u1"));
}

static void never_more_than_the_units(void **state)
{
    (void)state;
    open_sale(8);
    bool taken[8] = {false};
    for (uint32_t i = 0; i < 20; i++) {
        char user[16];
        snprintf(user, sizeof user, "u%u", i);
        struct took t = take(0, user, 0, "r", i + 1);
        if (i >= 8) {
            assert_int_equal(t.reason, REASON_BUCKET_EMPTY);
            continue;
        }
        assert_int_equal(t.reason, REASON_QUEUED);
        size_t at = (size_t)(t.known.entry.token.unit - FIRST_A);
        assert_true(at < 8 && !taken[at]);
        taken[at] = true;
    }
    const struct seen_stock *k = stock(0);
    assert_true(k->skus[0].free == 0 && k->skus[0].wanted && !k->skus[1].wanted);
    for (uint32_t i = 0; i < 8; i++) {
        char user[16];
        snprintf(user, sizeof user, "u%u", i);
        assert_true(in_filter(k, user));    /* no false "not a winner" */
    }
}

static void many_at_once(void **state)
{
    (void)state;
    open_sale(UNITS);
    static struct seen seen[200];
    static struct took took[200];
    memset(took, 0, sizeof took);
    for (uint32_t i = 0; i < countof(seen); i++) {
        char user[16];    /* copied before the call returns */
        snprintf(user, sizeof user, "many%u", i);
        struct reserve_ask ask = ask_of(0, user, (int)(i & 1), "r", i + 1);
        seen[i] = SEEN(.keep = keep_took, .into = &took[i]);
        store_reserve(world->store, &ask, &seen[i].waiter);
        memset(user, 'x', sizeof user);
    }
    size_t queued = 0;
    for (size_t i = 0; i < countof(seen); i++) {
        enum reason reason = seen_await(world, &seen[i]);
        assert_true(reason == REASON_QUEUED || reason == REASON_BUCKET_EMPTY);
        queued += reason == REASON_QUEUED;
    }
    assert_int_equal(queued, 2 * UNITS);
    assert_int_equal(stock(0)->answer.pending, 2 * UNITS);
}

static void asking_again_gives_the_same(void **state)
{
    (void)state;
    open_sale(5);
    struct took first = take(0, "u1", 0, "r1", 1);
    for (uint32_t i = 0; i < 100; i++) {
        struct took again = take(0, "u1", 0, "r1", 100 + i);    /* whoever asks again makes a new id */
        assert_int_equal(again.reason, REASON_QUEUED);
        assert_true(again.answer.replayed && ident_same(again.known.entry.ident, ident_of(1)));
        assert_int_equal(again.known.entry.token.unit, first.known.entry.token.unit);
    }
    assert_int_equal(stock(0)->skus[0].free, 4);
}

static void one_per_user_and_sku(void **state)
{
    (void)state;
    open_sale(5);
    assert_int_equal(take(0, "u1", 0, "r1", 1).reason, REASON_QUEUED);
    struct took t = take(0, "u1", 0, "r2", 2);
    assert_int_equal(t.reason, REASON_ALREADY_PURCHASED);
    assert_true(!t.answer.replayed && ident_same(t.known.entry.ident, ident_of(1)) && str_eq(t.known.entry.request, str_lit("r1")));
    assert_int_equal(take(0, "u1", 1, "r1", 3).reason, REASON_IDEMPOTENCY_CONFLICT);
    assert_int_equal(take(0, "u1", 1, "r2", 4).reason, REASON_QUEUED);    /* the refusals left nothing behind */
    assert_int_equal(take(0, "u2", 0, "r1", 5).reason, REASON_QUEUED);    /* a request_id belongs to its user */
    struct settle_ask a = ordered("u1", 1, "r1", 0, (struct token){FIRST_A, 1});
    assert_int_equal(settle(&a), REASON_OK);
    t = take(0, "u1", 0, "r9", 6);
    assert_int_equal(t.reason, REASON_ALREADY_PURCHASED);
    assert_int_equal(t.known.entry.state, RESERVATION_ORDERED);
    assert_int_equal(stock(0)->skus[0].free, 3);
}

static void unknown_sku_and_bucket(void **state)
{
    (void)state;
    open_sale(2);
    struct reserve_ask ask = ask_of(0, "u1", 0, "r1", 1);
    ask.sku = str_lit("no-such");
    assert_int_equal(take_ask(&ask).reason, REASON_UNKNOWN_ACTIVITY);
    ask = ask_of(1, "u1", 0, "r1", 1);    /* never installed */
    assert_int_equal(take_ask(&ask).reason, REASON_STALE_EPOCH);
}

static void another_epoch(void **state)
{
    (void)state;
    open_sale(2);
    assert_int_equal(take(0, "u1", 0, "r1", 1).reason, REASON_QUEUED);
    sale.activity.epoch++;
    static struct seen_stock k;
    assert_int_equal(take(0, "u1", 0, "r1", 2).reason, REASON_STALE_EPOCH);
    assert_int_equal(stock_try(0, &k), REASON_STALE_EPOCH);
    assert_int_equal(look(0, "u1").reason, REASON_STALE_EPOCH);
    assert_int_equal(restock(0, 0, FIRST_A, 2), REASON_STALE_EPOCH);
    struct settle_ask a = ordered("u1", 1, "r1", 0, (struct token){FIRST_A, 1});
    assert_int_equal(settle(&a), REASON_STALE_EPOCH);
    sale.activity.epoch--;
    assert_int_equal(take(0, "u1", 0, "r1", 3).reason, REASON_QUEUED);
}

static void states_and_window(void **state)
{
    (void)state;
    open_sale(5);
    assert_int_equal(take(0, "winner", 0, "r1", 1).reason, REASON_QUEUED);
    push(ACTIVITY_PAUSED);
    assert_int_equal(take(0, "u2", 0, "r", 2).reason, REASON_RESERVATION_PAUSED);
    assert_int_equal(take(0, "winner", 0, "r1", 3).reason, REASON_QUEUED);    /* replays work in every state */
    assert_int_equal(take(0, "winner", 0, "r2", 3).reason, REASON_ALREADY_PURCHASED);
    int64_t before_ms = stock(0)->answer.now_ms;
    push(ACTIVITY_OPEN);
    int64_t after_ms = stock(0)->answer.now_ms;
    struct took resumed;    /* a sale that goes on rests as a unit does */
    while ((resumed = take(0, "u2", 0, "r", 2)).reason == REASON_RESERVATION_PAUSED) {
        assert_true(resumed.answer.now_ms < after_ms + 300);
        let_pass(20);
    }
    assert_int_equal(resumed.reason, REASON_QUEUED);
    assert_true(resumed.answer.now_ms >= before_ms + 300);
    push(ACTIVITY_CLOSED);
    assert_int_equal(take(0, "u3", 0, "r", 4).reason, REASON_ENDED);
    assert_int_equal(take(0, "winner", 0, "r1", 5).reason, REASON_QUEUED);

    sale_draw();
    sale.activity.state = ACTIVITY_WARM;
    assert_int_equal(install(0, true), REASON_OK);
    assert_int_equal(take(0, "u1", 0, "r", 1).reason, REASON_NOT_STARTED);
    sale.activity.starts_ms = clock_now_ms(world->clock) + 60000;
    push(ACTIVITY_OPEN);
    struct took t = take(0, "u1", 0, "r", 1);
    assert_int_equal(t.reason, REASON_NOT_STARTED);
    assert_int_equal(t.answer.starts_ms, sale.activity.starts_ms);
    assert_true(t.answer.now_ms < t.answer.starts_ms);
    sale.activity.starts_ms = clock_now_ms(world->clock) - 2000;
    sale.activity.ends_ms = sale.activity.starts_ms + 1000;
    push(ACTIVITY_OPEN);
    assert_int_equal(take(0, "u1", 0, "r", 1).reason, REASON_ENDED);
}

static void windows_move_by_themselves(void **state)
{
    (void)state;
    sale_draw();
    sale.activity.starts_ms = clock_now_ms(world->clock) + 1500;
    sale.activity.ends_ms = sale.activity.starts_ms + 2500;
    assert_int_equal(install(0, false), REASON_OK);
    seed(0, 0, 0, 3);
    assert_int_equal(take(0, "u1", 0, "r", 1).reason, REASON_NOT_STARTED);
    let_pass(1600);
    assert_int_equal(take(0, "u1", 0, "r", 1).reason, REASON_QUEUED);
    let_pass(2600);
    assert_int_equal(take(0, "u2", 0, "r", 2).reason, REASON_ENDED);
    assert_int_equal(take(0, "u1", 0, "r", 3).reason, REASON_QUEUED);
}

static void nonce_of_a_token(void **state)
{
    (void)state;
    open_sale(5);
    struct reserve_ask ask = ask_of(0, "u1", 0, "r1", 1);
    ask.nonce = str_lit("n1");
    assert_int_equal(take_ask(&ask).reason, REASON_QUEUED);
    assert_int_equal(take_ask(&ask).reason, REASON_QUEUED);    /* his own retry */
    ask = ask_of(0, "u1", 1, "r2", 2);
    ask.nonce = str_lit("n1");
    assert_int_equal(take_ask(&ask).reason, REASON_QUALIFICATION_INVALID);
    ask.nonce = str_lit("n2");
    assert_int_equal(take_ask(&ask).reason, REASON_QUEUED);
    struct settle_ask gone = released("u1", 1, "r1", 0, REASON_OVERDUE);
    assert_int_equal(settle(&gone), REASON_OK);
    ask = ask_of(0, "u1", 0, "r3", 3);
    ask.nonce = str_lit("n1");    /* free again */
    assert_int_equal(take_ask(&ask).reason, REASON_QUEUED);
}

static void replay_only_takes_nothing(void **state)
{
    (void)state;
    open_sale(5);
    assert_int_equal(take(0, "u1", 0, "r1", 1).reason, REASON_QUEUED);
    struct reserve_ask ask = ask_of(0, "u1", 0, "r1", 2);
    ask.replay_only = true;
    assert_int_equal(take_ask(&ask).reason, REASON_QUEUED);
    ask = ask_of(0, "u2", 0, "r1", 3);
    ask.replay_only = true;
    assert_int_equal(take_ask(&ask).reason, REASON_QUALIFICATION_INVALID);
    assert_int_equal(stock(0)->skus[0].free, 4);
}

static void odd_ids_come_back(void **state)
{
    (void)state;
    open_sale(20);
    static const char *const ids[] = {"9007199254740993", "18446744073709551615", "0", "-1", "00", "1e5", "0x10", "nan", "inf", "_", "-", "true",
                                      "0000000000000000000000000000000000000000000000000000000000000007"};
    for (uint32_t i = 0; i < countof(ids); i++) {
        struct took t = take(0, ids[i], 0, ids[i], 0xfffffff0u + i);
        assert_int_equal(t.reason, REASON_QUEUED);
        assert_true(str_eq(t.known.entry.request, str_of(ids[i])));
        assert_true(ident_same(t.known.entry.ident, ident_of(0xfffffff0u + i)));
    }
    for (uint32_t i = 0; i < countof(ids); i++) {
        const struct entry *e = entry_of(0, ids[i], 0xfffffff0u + i);
        assert_non_null(e);
        assert_true(str_eq(e->request, str_of(ids[i])) && str_eq(e->sku, sale.skus[0].sku));
    }
    assert_int_equal(stock(0)->skus[0].free, 20 - countof(ids));
}

/* ---- settle ---------------------------------------------------------------------------------------------------------------- */

/* Every state against every state: only the moves of the table happen. */
static void only_the_moves_of_the_table(void **state)
{
    (void)state;
    open_sale(UNITS);
    uint32_t id = 1;
    for (int from = RESERVATION_RESERVED; from < RESERVATION_STATE_COUNT; from++)
        for (int to = RESERVATION_RESERVED; to < RESERVATION_STATE_COUNT; to++, id++) {
            char user[16];
            snprintf(user, sizeof user, "u%u", id);
            struct took t = take(0, user, id % 2 ? 0 : 1, "r", id);
            assert_int_equal(t.reason, REASON_QUEUED);
            struct settle_ask first = ordered(user, id, "r", id % 2 ? 0 : 1, t.known.entry.token);
            struct settle_ask second = first;
            first.to = (enum reservation_state)from;
            second.to = (enum reservation_state)to;
            first.why = from == RESERVATION_RELEASED ? REASON_LOST : REASON_OK;
            second.why = to == RESERVATION_RELEASED ? REASON_LOST : REASON_OK;
            assert_int_equal(settle(&first), from == RESERVATION_RESERVED ? REASON_UNCHANGED : REASON_OK);
            bool may = reservation_may_move((enum reservation_state)from, (enum reservation_state)to);
            assert_int_equal(settle(&second), may ? REASON_OK : REASON_UNCHANGED);
            const struct entry *e = entry_of(0, user, id);
            assert_non_null(e);
            assert_int_equal(e->state, may ? to : from);
            assert_int_equal(e->token.unit, e->state == RESERVATION_RELEASED ? 0 : t.known.entry.token.unit);
            assert_int_equal(e->why, e->state == RESERVATION_RELEASED ? REASON_LOST : REASON_OK);
            assert_true(e->created_ms == t.answer.now_ms && e->updated_ms >= e->created_ms);
        }
}

static void told_a_hundred_times(void **state)
{
    (void)state;
    open_sale(5);
    struct took t = take(0, "u1", 0, "r1", 1);
    struct settle_ask sent = moved("u1", 1, RESERVATION_PUBLISHED), order = ordered("u1", 1, "r1", 0, t.known.entry.token);
    for (int i = 0; i < 100; i++)
        assert_int_equal(settle(&sent), i == 0 ? REASON_OK : REASON_UNCHANGED);
    for (int i = 0; i < 100; i++)
        assert_int_equal(settle(&order), i == 0 ? REASON_OK : REASON_UNCHANGED);
    assert_int_equal(settle(&sent), REASON_UNCHANGED);
    struct looked l = look(0, "u1");
    assert_int_equal(l.count, 1);
    assert_int_equal(l.at[0].entry.state, RESERVATION_ORDERED);
    const struct seen_stock *k = stock(0);
    assert_true(k->skus[0].free == 4 && k->skus[0].resting == 0 && k->answer.pending == 0);
}

static void only_a_verdict_adds(void **state)
{
    (void)state;
    open_sale(5);
    for (int to = RESERVATION_RESERVED; to < RESERVATION_STATE_COUNT; to++) {
        struct settle_ask a = moved("ghost", 1, (enum reservation_state)to);
        if (!reservation_state_terminal(a.to))
            assert_int_equal(settle(&a), REASON_UNCHANGED);
    }
    assert_int_equal(look(0, "ghost").count, 0);
    struct settle_ask order = ordered("ghost", 1, "r1", 0, (struct token){FIRST_A + 2, 1});
    struct settle_ask release = released("other", 2, "r2", 1, REASON_TOKEN_CONFLICT);
    assert_int_equal(settle(&order), REASON_OK);
    assert_int_equal(settle(&release), REASON_OK);
    const struct entry *e = entry_of(0, "ghost", 1);
    assert_non_null(e);
    assert_true(e->state == RESERVATION_ORDERED && e->token.unit == FIRST_A + 2 && str_eq(e->request, str_lit("r1")));
    e = entry_of(0, "other", 2);
    assert_non_null(e);
    assert_true(e->state == RESERVATION_RELEASED && e->why == REASON_TOKEN_CONFLICT && e->token.unit == 0);
    const struct seen_stock *k = stock(0);
    assert_true(k->skus[0].free == 4 && k->answer.pending == 0 && in_filter(k, "ghost"));
    assert_int_equal(take(0, "ghost", 0, "r1", 9).reason, REASON_ORDERED);
    assert_int_equal(take(0, "ghost", 0, "r5", 9).reason, REASON_ALREADY_PURCHASED);
    assert_int_equal(take(0, "other", 1, "r2", 9).reason, REASON_RELEASED);
}

static void an_ordered_unit_is_nobodys(void **state)
{
    (void)state;
    open_sale(1);    /* unit FIRST_A at generation 1 is free */
    struct settle_ask old = ordered("a", 1, "r", 0, (struct token){FIRST_A, 1});
    assert_int_equal(restock(0, 0, FIRST_A, 3), REASON_OK);
    assert_int_equal(settle(&old), REASON_OK);
    const struct seen_stock *k = stock(0);
    assert_int_equal(k->skus[0].free + k->skus[0].resting, 1);    /* the newer copy stays */
    struct settle_ask newer = ordered("b", 2, "r", 0, (struct token){FIRST_A, 5});
    assert_int_equal(settle(&newer), REASON_OK);
    k = stock(0);
    assert_int_equal(k->skus[0].free + k->skus[0].resting, 0);
    assert_int_equal(restock(0, 0, FIRST_A, 5), REASON_UNCHANGED);
    assert_int_equal(settle(&old), REASON_UNCHANGED);             /* a maximum, never an assignment */
    assert_int_equal(restock(0, 0, FIRST_A, 4), REASON_UNCHANGED);
    assert_int_equal(restock(0, 0, FIRST_A, 6), REASON_OK);

    open_sale(2);    /* the ledger names another unit than the entry holds: the ledger's is gone */
    struct took t = take(0, "u1", 0, "r1", 1);
    struct settle_ask other = ordered("u1", 1, "r1", 0, (struct token){t.known.entry.token.unit + 1, 1});
    assert_int_equal(settle(&other), REASON_OK);
    assert_int_equal(stock(0)->skus[0].free, 0);
}

static void told_again_it_still_withdraws(void **state)
{
    (void)state;
    open_sale(1);
    struct took t = take(0, "u1", 0, "r1", 1);
    struct settle_ask order = ordered("u1", 1, "r1", 0, t.known.entry.token);
    assert_int_equal(settle(&order), REASON_OK);
    order.token.generation = 9;    /* what the ledger knows counts, whether the entry moves or not */
    assert_int_equal(settle(&order), REASON_UNCHANGED);
    assert_int_equal(restock(0, 0, FIRST_A, 9), REASON_UNCHANGED);
}

static void tombstones(void **state)
{
    (void)state;
    open_sale(10);
    char request[8];
    for (uint32_t i = 1; i <= 6; i++) {
        snprintf(request, sizeof request, "r%u", i);
        struct reserve_ask ask = ask_of(0, "u1", 0, request, i);
        struct took t = take_ask(&ask);
        if (i > 4) {    /* four are remembered: nobody here knows what was before */
            assert_int_equal(t.reason, REASON_ASK_LEDGER);
            ask.ledger_asked = true;
            t = take_ask(&ask);
        }
        assert_int_equal(t.reason, REASON_QUEUED);
        assert_int_equal(take(0, "u1", 0, request, 99).reason, REASON_QUEUED);
        struct settle_ask gone = released("u1", i, request, 0, REASON_OVERDUE);
        assert_int_equal(settle(&gone), REASON_OK);
        t = take(0, "u1", 0, request, 99);
        assert_int_equal(t.reason, REASON_RELEASED);
        assert_true(t.answer.replayed && t.known.entry.why == REASON_OVERDUE && t.known.entry.token.unit == 0);
    }
    struct looked l = look(0, "u1");
    assert_int_equal(l.count, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(ident_same(l.at[i].entry.ident, ident_of(6 - i)));    /* newest first */
    assert_int_equal(take(0, "u1", 0, "r1", 99).reason, REASON_ASK_LEDGER);
    assert_int_equal(take(0, "u1", 0, "r6", 99).reason, REASON_RELEASED);
}

static void ordered_wins_over_the_others(void **state)
{
    (void)state;
    open_sale(10);
    struct settle_ask gone = released("u1", 1, "r1", 0, REASON_LOST), order = ordered("u1", 2, "r1", 0, (struct token){FIRST_A + 9, 1});
    assert_int_equal(settle(&order), REASON_OK);
    assert_int_equal(settle(&gone), REASON_OK);    /* the newer entry, and yet */
    struct took t = take(0, "u1", 0, "r1", 3);
    assert_int_equal(t.reason, REASON_ORDERED);
    assert_true(ident_same(t.known.entry.ident, ident_of(2)));
    /* a RELEASED request with an order under another request of his: the replay comes first */
    gone = released("u1", 4, "r4", 0, REASON_OVERDUE);
    assert_int_equal(settle(&gone), REASON_OK);
    assert_int_equal(take(0, "u1", 0, "r4", 5).reason, REASON_RELEASED);
    assert_int_equal(take(0, "u1", 0, "r5", 6).reason, REASON_ALREADY_PURCHASED);
    assert_int_equal(take(0, "u1", 1, "r4", 6).reason, REASON_IDEMPOTENCY_CONFLICT);
}

static void superseded_by_an_order(void **state)
{
    (void)state;
    open_sale(5);
    char text[IDENT_ID_TEXT];
    assert_int_equal(take(0, "u1", 0, "r2", 2).reason, REASON_QUEUED);
    struct settle_ask a = released("u1", 2, "r2", 0, REASON_DUPLICATE_USER);
    a.superseded_by = ident_text(ident_of(1), text);
    a.superseded_request = str_lit("r1");
    a.superseded_sku = sale.skus[0].sku;
    a.user_hash = hash_of("u1");
    for (int i = 0; i < 3; i++)
        assert_int_equal(settle(&a), i == 0 ? REASON_OK : REASON_UNCHANGED);
    const struct entry *e = entry_of(0, "u1", 2);
    assert_non_null(e);
    assert_true(e->why == REASON_DUPLICATE_USER && str_eq(e->superseded_by, a.superseded_by));
    e = entry_of(0, "u1", 1);
    assert_non_null(e);
    assert_true(e->state == RESERVATION_ORDERED && str_eq(e->request, str_lit("r1")) && str_eq(e->sku, sale.skus[0].sku));
    assert_int_equal(look(0, "u1").count, 2);
    struct took t = take(0, "u1", 0, "r1", 9);
    assert_int_equal(t.reason, REASON_ORDERED);
    assert_true(ident_same(t.known.entry.ident, ident_of(1)));
    t = take(0, "u1", 0, "r3", 9);
    assert_int_equal(t.reason, REASON_ALREADY_PURCHASED);
    assert_true(ident_same(t.known.entry.ident, ident_of(1)));
    t = take(0, "u1", 0, "r2", 9);
    assert_int_equal(t.reason, REASON_RELEASED);
    assert_true(str_eq(t.known.entry.superseded_by, a.superseded_by));
    assert_int_equal(stock(0)->answer.pending, 0);
}

static void batches_over_buckets(void **state)
{
    (void)state;
    sale_draw();
    for (uint8_t b = 0; b < BUCKETS; b++)
        assert_int_equal(install(b, false), REASON_OK);
    static struct restock_ask asks[STORE_BATCH_MAX];
    for (size_t i = 0; i < STORE_BATCH_MAX; i++) {    /* each unit several times, in buckets that take turns; one bucket is not there */
        size_t unit = i % (2 * UNITS);
        asks[i] = (struct restock_ask){bucket((uint8_t)(unit % (BUCKETS + 1))), sale.skus[unit / UNITS].sku,
                                       {(unit < UNITS ? FIRST_A : FIRST_B - UNITS) + (int64_t)unit, 1}};
    }
    struct verdicts v = restock_all(asks, STORE_BATCH_MAX);
    for (size_t i = 0; i < STORE_BATCH_MAX; i++)
        assert_int_equal(v.at[i], i % (2 * UNITS) % (BUCKETS + 1) == BUCKETS ? REASON_STALE_EPOCH : i < 2 * UNITS ? REASON_OK : REASON_UNCHANGED);
    uint64_t free = 0;
    for (uint8_t b = 0; b < BUCKETS; b++)
        free += stock(b)->skus[0].free + stock(b)->skus[1].free;
    assert_int_equal(free, 2 * UNITS * BUCKETS / (BUCKETS + 1));
    static struct settle_ask told[STORE_BATCH_MAX];
    static char users[STORE_BATCH_MAX][8];
    for (uint32_t i = 0; i < STORE_BATCH_MAX; i++) {
        snprintf(users[i], sizeof users[i], "b%u", i);
        told[i] = released(users[i], i + 1, "r", 0, REASON_LOST);
        told[i].bucket = bucket((uint8_t)(i % BUCKETS));
    }
    v = settle_all(told, STORE_BATCH_MAX);
    for (size_t i = 0; i < STORE_BATCH_MAX; i++)
        assert_int_equal(v.at[i], REASON_OK);
    for (uint32_t i = 0; i < STORE_BATCH_MAX; i += 37)
        assert_non_null(entry_of((uint8_t)(i % BUCKETS), users[i], i + 1));
    assert_int_equal(settle_all(told, 0).reason, REASON_OK);
}

static void one_reservation_twice_in_a_batch(void **state)
{
    (void)state;
    open_sale(2);
    struct took t = take(0, "u1", 0, "r1", 1);
    struct settle_ask told[3] = {moved("u1", 1, RESERVATION_PUBLISHED), ordered("u1", 1, "r1", 0, t.known.entry.token), moved("u1", 1, RESERVATION_PROCESSING)};
    struct verdicts v = settle_all(told, 3);
    assert_true(v.at[0] == REASON_OK && v.at[1] == REASON_OK && v.at[2] == REASON_UNCHANGED);    /* in their order */
}

static void no_item_suffers_for_another(void **state)
{
    (void)state;
    open_sale(2);
    struct took t = take(0, "u1", 0, "r1", 1);
    struct settle_ask told[3] = {ordered("x", 7, "r7", 0, (struct token){INT64_MAX, 1}), ordered("u1", 1, "r1", 0, t.known.entry.token),
                                 released("y", 8, "r8", 0, REASON_TOKEN_FOREIGN)};
    told[2].token = (struct token){INT64_MAX, 1};
    for (int round = 0; round < 2; round++) {
        struct verdicts v = settle_all(told, 3);
        assert_int_equal(v.reason, REASON_OK);
        assert_int_equal(v.at[1], round == 0 ? REASON_OK : REASON_UNCHANGED);
        assert_int_equal(v.at[2], round == 0 ? REASON_OK : REASON_UNCHANGED);    /* a RELEASED entry holds no unit */
    }
}

/* ---- restock --------------------------------------------------------------------------------------------------------------- */

static void a_unit_comes_back_once(void **state)
{
    (void)state;
    open_sale(1);
    assert_int_equal(take(0, "u1", 0, "r1", 1).reason, REASON_QUEUED);
    assert_int_equal(restock(0, 0, FIRST_A, 1), REASON_UNCHANGED);    /* stale */
    for (int i = 0; i < 100; i++)
        assert_int_equal(restock(0, 0, FIRST_A, 2), i == 0 ? REASON_OK : REASON_UNCHANGED);
    const struct seen_stock *k = stock(0);
    assert_int_equal(k->skus[0].free + k->skus[0].resting, 1);
    assert_int_equal(restock(0, 0, FIRST_A, 7), REASON_OK);    /* replaces the older copy */
    k = stock(0);
    assert_int_equal(k->skus[0].free + k->skus[0].resting, 1);
    let_pass(400);
    struct took t = take(0, "u2", 0, "r", 2);
    assert_int_equal(t.reason, REASON_QUEUED);
    assert_true(t.known.entry.token.unit == FIRST_A && t.known.entry.token.generation == 7);
    assert_int_equal(take(0, "u3", 0, "r", 3).reason, REASON_BUCKET_EMPTY);
}

static void high_generations(void **state)
{
    (void)state;
    open_sale(1);
    static const uint32_t generations[] = {2, 253, 254, 255, 256, 257, 65536, 4000000000u};
    for (size_t i = 0; i < countof(generations); i++) {
        assert_int_equal(restock(0, 0, FIRST_A, generations[i]), REASON_OK);
        assert_int_equal(restock(0, 0, FIRST_A, generations[i]), REASON_UNCHANGED);
        assert_int_equal(restock(0, 0, FIRST_A, generations[i] - 1), REASON_UNCHANGED);
    }
    let_pass(400);
    struct took t = take(0, "u1", 0, "r", 1);
    assert_int_equal(t.reason, REASON_QUEUED);
    assert_true(t.known.entry.token.generation == 4000000000u);
    const struct entry *e = entry_of(0, "u1", 1);
    assert_non_null(e);
    assert_true(e->token.generation == 4000000000u && e->token.unit == FIRST_A);
}

static void a_returned_unit_rests(void **state)
{
    (void)state;
    open_sale(1);
    assert_int_equal(take(0, "u1", 0, "r1", 1).reason, REASON_QUEUED);
    assert_int_equal(take(0, "u2", 0, "r", 2).reason, REASON_BUCKET_EMPTY);
    const struct seen_stock *k = stock(0);
    uint64_t restocks = k->answer.restocks;
    int64_t before_ms = k->answer.now_ms, after_ms;    /* by the bucket's clock: this process may be slow */
    assert_int_equal(restock(0, 0, FIRST_A, 2), REASON_OK);
    k = stock(0);
    after_ms = k->answer.now_ms;
    assert_int_equal(k->skus[0].free + k->skus[0].resting, 1);    /* it counts */
    if (after_ms < before_ms + 300)
        assert_int_equal(k->skus[0].resting, 1);
    assert_int_equal(k->answer.restocks, restocks + 1);
    struct took t;
    while ((t = take(0, "u2", 0, "r", 2)).reason == REASON_BUCKET_EMPTY) {
        assert_true(t.answer.now_ms < after_ms + 300);
        let_pass(20);
    }
    assert_int_equal(t.reason, REASON_QUEUED);
    assert_true(t.answer.now_ms >= before_ms + 300);
    assert_int_equal(restock(0, 0, FIRST_A, 2), REASON_UNCHANGED);
    assert_int_equal(restock(0, 0, FIRST_A, 3), REASON_OK);
    let_pass(400);
    k = stock(0);
    assert_true(k->skus[0].free == 1 && k->skus[0].resting == 0 && k->answer.restocks == restocks + 2);
}

static void restock_of_an_unknown_sku(void **state)
{
    (void)state;
    open_sale(1);
    struct restock_ask ask = {bucket(0), str_lit("no-such"), {FIRST_A, 2}};
    assert_int_equal(restock_all(&ask, 1).at[0], REASON_UNKNOWN_ACTIVITY);
}

/* ---- look, stock, install, due, holdings ------------------------------------------------------------------------------------ */

static void look_tells_all_newest_first(void **state)
{
    (void)state;
    open_sale(5);
    assert_int_equal(look(0, "u1").count, 0);
    assert_int_equal(take(0, "u1", 0, "r1", 1).reason, REASON_QUEUED);
    assert_int_equal(take(0, "u1", 1, "r2", 2).reason, REASON_QUEUED);
    struct looked l = look(0, "u1");
    assert_int_equal(l.count, 2);
    assert_true(ident_same(l.at[0].entry.ident, ident_of(2)) && str_eq(l.at[0].entry.sku, sale.skus[1].sku));
    assert_true(ident_same(l.at[1].entry.ident, ident_of(1)) && str_eq(l.at[1].entry.sku, sale.skus[0].sku));
    assert_int_equal(l.at[0].entry.token.unit, FIRST_B);
}

static void the_sequence_grows(void **state)
{
    (void)state;
    open_sale(5);
    uint64_t last = stock(0)->answer.sequence;
    for (uint32_t i = 0; i < 20; i++) {
        char user[16];
        snprintf(user, sizeof user, "u%u", i % 7);
        struct took t = take(0, user, 0, "r", i + 1);
        assert_true(t.answer.sequence > last);
        last = t.answer.sequence;
        struct settle_ask a = moved(user, i + 1, RESERVATION_PUBLISHED);
        (void)settle(&a);
        uint64_t now = stock(0)->answer.sequence;
        assert_true(now > last);
        assert_true(look(0, user).sequence == now);    /* a look counts nothing, and knows */
        last = now;
    }
}

/* Whatever is told to a bucket that is not there, it stays so: an empty one in its place would know nobody. */
static void only_seeding_creates_a_bucket(void **state)
{
    (void)state;
    struct seen_stock k;
    sale_draw();
    struct settle_ask order = ordered("u1", 1, "r1", 0, (struct token){FIRST_A, 1});
    assert_int_equal(install_as(0, false, false), REASON_STALE_EPOCH);
    assert_int_equal(install_as(0, true, false), REASON_STALE_EPOCH);    /* sealing */
    assert_int_equal(settle(&order), REASON_STALE_EPOCH);
    assert_int_equal(restock(0, 0, FIRST_A, 1), REASON_STALE_EPOCH);
    assert_int_equal(take(0, "u1", 0, "r2", 2).reason, REASON_STALE_EPOCH);
    assert_int_equal(stock_try(0, &k), REASON_STALE_EPOCH);
    assert_int_equal(install_as(0, false, true), REASON_OK);
    sale.activity.version++;
    assert_int_equal(install_as(0, false, false), REASON_OK);
    assert_int_equal(stock_try(0, &k), REASON_OK);
}

static void install_pushes_higher_versions_only(void **state)
{
    (void)state;
    sale_draw();
    assert_int_equal(install(0, false), REASON_OK);
    const struct seen_stock *k = stock(0);
    assert_true(!k->answer.seeded && !k->answer.closed && k->answer.version == 9 && k->answer.state == ACTIVITY_OPEN);
    assert_true(k->answer.sku_count == 2 && k->answer.filter_bits > 0 && k->answer.incarnation.len > 0);
    for (size_t i = 0; i < 2; i++)
        assert_true(k->skus[i].free == 0 && k->skus[i].resting == 0 && k->skus[i].moving == 0 && !k->skus[i].wanted);
    assert_int_equal(install(0, false), REASON_UNCHANGED);
    sale.activity.version = 8;
    sale.activity.state = ACTIVITY_CLOSED;
    assert_int_equal(install(0, false), REASON_UNCHANGED);
    assert_int_equal(stock(0)->answer.state, ACTIVITY_OPEN);
    sale.activity.version = 10;
    sale.activity.state = ACTIVITY_PAUSED;
    assert_int_equal(install(0, true), REASON_OK);
    k = stock(0);
    assert_true(k->answer.state == ACTIVITY_PAUSED && k->answer.version == 10 && k->answer.seeded);
    sale.activity.version = 11;
    assert_int_equal(install(0, false), REASON_OK);    /* seeded is only ever set */
    assert_true(stock(0)->answer.seeded);
}

/* The turn after one at that age. */
static int64_t next_age(int64_t age_ms)
{
    static const int64_t ages_ms[] = {1000, 2000, 4000, 8000, 15000};
    for (size_t i = 0; i < countof(ages_ms); i++)
        if (age_ms < ages_ms[i])
            return ages_ms[i];
    return age_ms + 15000;
}

static void turns_come_as_told(void **state)
{
    (void)state;
    open_sale(5);
    struct took took = take(0, "u1", 0, "r1", 1);
    assert_int_equal(take(0, "u2", 0, "r1", 2).reason, REASON_QUEUED);
    struct settle_ask order = ordered("u2", 2, "r1", 0, (struct token){FIRST_A + 1, 1});
    assert_int_equal(settle(&order), REASON_OK);
    int64_t age_ms = 0, due_ms = next_age(0);
    for (int turns = 0; turns < 3;) {    /* 1, 2, 4 s; a turn that this process slept over comes with the next look */
        struct turn t = due(0, 64);
        age_ms = t.now_ms - took.answer.now_ms;
        assert_int_equal(t.waiting, 1);
        if (t.count == 0) {
            assert_true(age_ms < due_ms + 100);    /* 100: jitter */
            let_pass(20);
            continue;
        }
        assert_int_equal(t.count, 1);
        assert_true(ident_same(t.idents[0], ident_of(1)));
        assert_true(age_ms >= due_ms);
        due_ms = next_age(age_ms);
        turns++;
        struct settle_ask sent = moved("u1", 1, RESERVATION_PUBLISHED);
        assert_int_equal(settle(&sent), turns == 1 ? REASON_OK : REASON_UNCHANGED);    /* PUBLISHED has no verdict either */
    }
    struct settle_ask gone = released("u1", 1, "r1", 0, REASON_OVERDUE);
    assert_int_equal(settle(&gone), REASON_OK);
    assert_int_equal(due(0, 64).waiting, 0);
}

/* Another reservation of the same user brings his turn nearer, never farther. */
static void a_turn_is_not_put_off(void **state)
{
    (void)state;
    open_sale(5);
    struct took first = take(0, "u1", 0, "r1", 1);
    let_pass(600);
    assert_int_equal(take(0, "u1", 1, "r2", 2).reason, REASON_QUEUED);
    for (;;) {
        struct turn t = due(0, 64);
        if (t.count > 0) {
            assert_int_equal(t.count, 2);    /* both of them */
            break;
        }
        assert_true(t.now_ms < first.answer.now_ms + 1100);
        let_pass(20);
    }
}

static void turns_are_bounded(void **state)
{
    (void)state;
    open_sale(10);
    for (uint32_t i = 1; i <= 10; i++) {
        char user[8];
        snprintf(user, sizeof user, "u%u", i);
        assert_int_equal(take(0, user, 0, "r", i).reason, REASON_QUEUED);
    }
    let_pass(1200);
    size_t seen = 0;
    for (int i = 0; i < 10 && seen < 10; i++) {
        struct turn t = due(0, 4);
        assert_true(t.count > 0 && t.count <= 4);
        assert_int_equal(t.waiting, 10);
        seen += t.count;
    }
    assert_true(seen >= 10);
}

struct shelf_life {
    int seen[4][2 * UNITS];    /* by holding, by unit */
    size_t count;
    char cursor[256];
    size_t cursor_len;
    bool good;
};

static void keep_holdings(struct seen *s, const void *result)
{
    const struct holdings_answer *a = result;
    struct shelf_life *l = s->into;
    assert_true(a->cursor.len <= sizeof l->cursor);
    l->cursor_len = a->cursor.len;
    if (a->cursor.len > 0)
        memcpy(l->cursor, a->cursor.ptr, a->cursor.len);
    for (size_t i = 0; i < a->count; i++) {
        const struct held *h = &a->held[i];
        bool b = str_eq(h->sku, sale.skus[1].sku);
        assert_true(b || str_eq(h->sku, sale.skus[0].sku));
        int64_t at = h->token.unit - (b ? FIRST_B - UNITS : FIRST_A);
        assert_true(at >= (b ? UNITS : 0) && at < (b ? 2 * UNITS : UNITS));
        l->seen[h->holding][at] = (int)h->token.generation;
        if (h->holding == HOLDING_RESERVED)
            assert_true(h->user.len > 0 && !reservation_state_terminal(h->state) && h->created_ms > 0);
    }
}

static void holdings(struct shelf_life *l)
{
    *l = (struct shelf_life){0};
    int slices = 0;
    do {
        char cursor[256];
        memcpy(cursor, l->cursor, sizeof cursor);
        struct seen s = SEEN(.keep = keep_holdings, .into = l);
        struct holdings_ask ask = {bucket(0), {cursor, l->cursor_len}};
        store_holdings(world->store, &ask, &s.waiter);
        memset(cursor, 'x', sizeof cursor);
        assert_int_equal(seen_await(world, &s), REASON_OK);
        assert_true(++slices < 100);
    } while (l->cursor_len > 0);
}

static void holdings_name_every_unit(void **state)
{
    (void)state;
    open_sale(UNITS);
    struct token tokens[12];
    for (uint32_t i = 0; i < 12; i++) {
        char user[8];
        snprintf(user, sizeof user, "u%u", i);
        struct took t = take(0, user, i % 2 ? 1 : 0, "r", i + 1);
        tokens[i] = t.known.entry.token;
        struct settle_ask order = ordered(user, i + 1, "r", i % 2 ? 1 : 0, tokens[i]), gone = released(user, i + 1, "r", i % 2 ? 1 : 0, REASON_LOST);
        if (i < 3)
            assert_int_equal(settle(&order), REASON_OK);
        if (i >= 9)
            assert_int_equal(settle(&gone), REASON_OK);
    }
    assert_int_equal(restock(0, 1, tokens[9].unit, 2), REASON_OK);
    static struct shelf_life l;
    holdings(&l);
    size_t counts[4] = {0};
    for (int h = 0; h < 4; h++)
        for (size_t i = 0; i < 2 * UNITS; i++)
            counts[h] += l.seen[h][i] > 0;
    assert_int_equal(counts[HOLDING_FREE], 2 * UNITS - 12);
    assert_int_equal(counts[HOLDING_RESTING], 1);
    assert_int_equal(counts[HOLDING_RESERVED], 6);
    assert_int_equal(counts[HOLDING_MOVING], 0);
    assert_int_equal(l.seen[HOLDING_RESTING][tokens[9].unit - (FIRST_B - UNITS)], 2);
    assert_int_equal(l.seen[HOLDING_RESERVED][tokens[4].unit - FIRST_A], 1);
    assert_int_equal(l.seen[HOLDING_RESERVED][tokens[0].unit - FIRST_A], 0);
}

/* ---- close, open ------------------------------------------------------------------------------------------------------------- */

struct closed {
    enum reason reason;
    uint64_t sequence;
    char incarnation[INCARNATION_TEXT + 1], mark[MARK_TEXT + 1];
};

static void keep_closed(struct seen *s, const void *result)
{
    const struct close_answer *a = result;
    struct closed *c = s->into;
    assert_true(a->incarnation.len > 0 && a->incarnation.len < sizeof c->incarnation && a->mark.len < sizeof c->mark);
    c->sequence = a->sequence;
    memcpy(c->incarnation, a->incarnation.ptr, a->incarnation.len);
    if (a->mark.len > 0)
        memcpy(c->mark, a->mark.ptr, a->mark.len);
}

static struct closed close_it(const char *recorded, bool went_back, uint64_t highest)
{
    struct closed c = {0};
    struct seen s = SEEN(.keep = keep_closed, .into = &c);
    struct close_ask ask = {bucket(0), str_of(recorded), went_back, highest};
    store_close(world->store, &ask, &s.waiter);
    assert_false(s.woken);
    c.reason = seen_await(world, &s);
    return c;
}

static void keep_opened(struct seen *s, const void *result) { *(int64_t *)s->into = ((const struct open_answer *)result)->closed_ms; }

static enum reason open_it(const char *mark, int64_t *closed_ms)
{
    struct seen s = SEEN(.keep = keep_opened, .into = closed_ms);
    store_open(world->store, &(struct open_ask){bucket(0), str_of(mark)}, &s.waiter);
    assert_false(s.woken);
    return seen_await(world, &s);
}

static void the_server_says_who_he_is(void **state)
{
    (void)state;
    open_sale(1);
    struct bucket b = bucket(0);
    const struct seen_stock *k = stock(0);
    assert_true(k->answer.incarnation.len <= INCARNATION_TEXT);
    assert_true(str_eq(store_incarnation(world->store, &b), str_of(k->incarnation)));
    assert_true(str_eq(kept(k->answer.mark), str_lit("")) && !k->answer.closed);
}

/* Known by his name nothing is closed; by another it is, once, and opened only by the mark of that closing. */
static void closed_for_a_stranger(void **state)
{
    (void)state;
    int64_t ms = -1;
    open_sale(5);
    assert_int_equal(take(0, "u1", 0, "r1", 1).reason, REASON_QUEUED);
    struct closed none = close_it(stock(0)->incarnation, false, 0);
    assert_int_equal(none.reason, REASON_UNCHANGED);
    assert_string_equal(none.mark, "");
    struct closed first = close_it("somebody else", false, 0), again = close_it("", false, 0);
    assert_int_equal(first.reason, REASON_OK);
    assert_int_equal(again.reason, REASON_UNCHANGED);
    assert_string_equal(first.mark, again.mark);
    assert_memory_equal(first.mark, first.incarnation, strlen(first.incarnation));
    assert_int_equal(close_it(first.incarnation, false, 0).reason, REASON_UNCHANGED);    /* he is known by now; that he has healed is another matter */
    const struct seen_stock *k = stock(0);
    assert_true(k->answer.closed && str_eq(kept(k->answer.mark), str_of(first.mark)));
    struct took t = take(0, "u1", 0, "r1", 2);
    assert_true(t.reason == REASON_QUEUED && t.answer.replayed);
    assert_int_equal(take(0, "u1", 0, "r2", 2).reason, REASON_ALREADY_PURCHASED);
    assert_int_equal(take(0, "u2", 0, "r1", 3).reason, REASON_BUCKET_CLOSED);
    assert_int_equal(restock(0, 0, FIRST_A + 7, 1), REASON_OK);
    let_pass(60);
    assert_int_equal(open_it("another mark", &ms), REASON_UNCHANGED);
    assert_int_equal(take(0, "u2", 0, "r1", 3).reason, REASON_BUCKET_CLOSED);
    assert_int_equal(open_it(first.mark, &ms), REASON_OK);
    assert_true(ms >= 60 && ms < 60000);
    assert_int_equal(open_it(first.mark, &ms), REASON_UNCHANGED);
    assert_int_equal(take(0, "u2", 0, "r1", 3).reason, REASON_RESERVATION_PAUSED);    /* others may still be saying something else of it */
    let_pass(400);
    assert_int_equal(take(0, "u2", 0, "r1", 3).reason, REASON_QUEUED);
}

/* What went back is closed also under a known name, each time anew; its sequence jumps to what had been seen. */
static void closed_for_going_back(void **state)
{
    (void)state;
    int64_t ms = -1;
    open_sale(5);
    struct closed first = close_it(stock(0)->incarnation, true, 1000000);
    assert_int_equal(first.reason, REASON_OK);
    assert_true(first.sequence > 1000000 && stock(0)->answer.sequence > first.sequence);
    struct closed next = close_it(first.incarnation, true, 10);
    assert_int_equal(next.reason, REASON_OK);
    assert_true(next.sequence > first.sequence);
    assert_string_not_equal(next.mark, first.mark);
    assert_int_equal(open_it(first.mark, &ms), REASON_UNCHANGED);
    assert_true(stock(0)->answer.closed);
    assert_int_equal(open_it(next.mark, &ms), REASON_OK);
    assert_false(stock(0)->answer.closed);
}

static void opened_it_is_seeded(void **state)
{
    (void)state;
    int64_t ms;
    sale_draw();
    assert_int_equal(install(0, false), REASON_OK);
    struct closed c = close_it("", false, 0);
    assert_false(stock(0)->answer.seeded);
    assert_int_equal(open_it(c.mark, &ms), REASON_OK);
    assert_true(stock(0)->answer.seeded);
}

struct indexed {
    enum reason reason;
    char cursor[24], mark[MARK_TEXT + 1];
};

static void keep_indexed(struct seen *s, const void *result)
{
    const struct reindex_answer *a = result;
    struct indexed *x = s->into;
    assert_true(a->cursor.len < sizeof x->cursor && a->mark.len < sizeof x->mark);
    memset(x->cursor, 0, sizeof x->cursor);
    memset(x->mark, 0, sizeof x->mark);
    if (a->cursor.len > 0)
        memcpy(x->cursor, a->cursor.ptr, a->cursor.len);
    if (a->mark.len > 0)
        memcpy(x->mark, a->mark.ptr, a->mark.len);
}

static struct indexed reindex(const char *mark)
{
    struct indexed x = {0};
    do {
        char cursor[sizeof x.cursor];
        memcpy(cursor, x.cursor, sizeof cursor);
        struct seen s = SEEN(.keep = keep_indexed, .into = &x);
        store_reindex(world->store, &(struct reindex_ask){bucket(0), str_of(mark), str_of(cursor)}, &s.waiter);
        assert_false(s.woken);
        x.reason = seen_await(world, &s);
    } while (x.reason == REASON_OK && x.cursor[0]);
    return x;
}

static uint64_t units_of(const struct seen_stock *k, size_t sku) { return k->skus[sku].free + k->skus[sku].resting; }

/* u1 holds the first unit, u2 has ordered the second, the third came back at generation 2 and rests, the fourth is free. */
static void sale_before_a_loss(void)
{
    open_sale(4);
    assert_int_equal(take(0, "u1", 0, "r1", 1).reason, REASON_QUEUED);
    assert_int_equal(take(0, "u2", 0, "r2", 2).reason, REASON_QUEUED);
    assert_int_equal(take(0, "u3", 0, "r3", 3).reason, REASON_QUEUED);
    struct settle_ask asks[] = {ordered("u2", 2, "r2", 0, (struct token){FIRST_A + 1, 1}), released("u3", 3, "r3", 0, REASON_OVERDUE)};
    struct verdicts v = settle_all(asks, 2);
    assert_true(v.at[0] == REASON_OK && v.at[1] == REASON_OK);
    assert_int_equal(restock(0, 0, FIRST_A + 2, 2), REASON_OK);
}

/* What the ledger tells of that sale when the bucket is recovered: each verdict, and each unit that is AVAILABLE there, the one that u1 holds included. */
static void told_again(void)
{
    struct settle_ask asks[] = {ordered("u2", 2, "r2", 0, (struct token){FIRST_A + 1, 1}), released("u3", 3, "r3", 0, REASON_OVERDUE)};
    struct verdicts v = settle_all(asks, 2);
    assert_true(reason_fate(v.at[0]) == FATE_DONE && reason_fate(v.at[1]) == FATE_DONE);
    assert_int_equal(restock(0, 0, FIRST_A, 1), REASON_UNCHANGED);
    assert_int_equal(reason_fate(restock(0, 0, FIRST_A + 2, 2)), FATE_DONE);
    assert_int_equal(reason_fate(restock(0, 0, FIRST_A + 3, 1)), FATE_DONE);
    for (int64_t unit = FIRST_B; unit < FIRST_B + 4; unit++)
        assert_int_equal(reason_fate(restock(0, 1, unit, 1)), FATE_DONE);
}

/* Any key of a bucket is deleted: the bucket sells nothing, says nothing from which "sold out" or "unknown" could follow, opens only after it was indexed and
 * told again, and then holds exactly what it held. */
static void a_lost_key_closes_the_bucket_until_it_is_recovered(void **state)
{
    (void)state;
    static const char *const keys[] = {"users", "pending", "win", "free:shoe-42", "rest:shoe-42", "gen:shoe-42"};
    for (size_t i = 0; i < countof(keys); i++) {
        bool users = i == 0, pending = i == 1, units = i >= 3;
        char mark[MARK_TEXT + 1];
        struct seen_stock k;
        int64_t ms;
        sale_before_a_loss();
        world->lose(world, &(struct bucket){sale.activity.activity, sale.activity.epoch, 0}, keys[i]);
        if (users)
            assert_int_equal(look(0, "u1").reason, REASON_STRUCTURE_LOST);
        if (pending) {
            struct seen s = SEEN();
            store_due(world->store, &(struct due_ask){bucket(0), 8}, &s.waiter);
            assert_int_equal(seen_await(world, &s), REASON_STRUCTURE_LOST);
        } else {
            assert_int_equal(stock_try(0, &k), REASON_STRUCTURE_LOST);
        }
        assert_int_equal(stock_try(0, &k), REASON_OK);    /* found once, then it is known */
        assert_true(k.answer.closed && k.mark[0] && k.lost[0]);
        memcpy(mark, k.mark, sizeof mark);
        assert_int_equal(reason_fate(take(0, "u9", 0, "r9", 9).reason), FATE_UNKNOWN);
        if (units)
            assert_int_equal(restock(0, 0, FIRST_A + 3, 1), REASON_STRUCTURE_LOST);    /* to be told later */
        assert_int_equal(open_it(mark, &ms), REASON_UNCHANGED);
        assert_int_equal(reindex("another mark").reason, REASON_UNCHANGED);
        struct indexed x = reindex(mark);
        assert_int_equal(x.reason, REASON_OK);
        assert_string_not_equal(x.mark, mark);
        assert_int_equal(reindex(x.mark).reason, REASON_UNCHANGED);
        assert_int_equal(open_it(mark, &ms), REASON_UNCHANGED);    /* what was told before the index is told again */
        assert_int_equal(stock_try(0, &k), REASON_OK);
        assert_true(k.answer.closed && !k.lost[0] && strcmp(k.mark, x.mark) == 0);
        told_again();
        assert_int_equal(open_it(x.mark, &ms), REASON_OK);
        let_pass(350);
        assert_int_equal(stock_try(0, &k), REASON_OK);
        assert_true(!k.answer.closed && units_of(&k, 0) == 2 && units_of(&k, 1) == 4);
        assert_true(in_filter(&k, "u1") && in_filter(&k, "u2"));
        if (!users) {
            assert_int_equal(k.answer.pending, 1);
            struct took again = take(0, "u1", 0, "r1", 11);
            assert_true(again.reason == REASON_QUEUED && again.answer.replayed && again.known.entry.token.unit == FIRST_A);
        }
        if (pending)
            assert_int_equal(due(0, 8).count, 1);    /* undecided for good it is not */
        assert_int_equal(take(0, "u2", 0, "r2", 12).reason, REASON_ORDERED);
        struct took last[2] = {take(0, "u4", 0, "r", 14), take(0, "u5", 0, "r", 15)};
        assert_true(last[0].reason == REASON_QUEUED && last[1].reason == REASON_QUEUED);
        assert_int_equal(last[0].known.entry.token.unit + last[1].known.entry.token.unit, 2 * FIRST_A + 5);
        assert_int_equal(take(0, "u6", 0, "r", 16).reason, REASON_BUCKET_EMPTY);
    }
}

/* Deletes a key, has the loss found, and indexes the bucket again. */
static struct indexed lose_and_index(const char *key)
{
    struct seen_stock k;
    char mark[MARK_TEXT + 1];
    world->lose(world, &(struct bucket){sale.activity.activity, sale.activity.epoch, 0}, key);
    assert_int_equal(stock_try(0, &k), REASON_STRUCTURE_LOST);
    assert_int_equal(stock_try(0, &k), REASON_OK);
    assert_true(k.answer.closed && k.lost[0]);
    memcpy(mark, k.mark, sizeof mark);
    struct indexed x = reindex(mark);
    assert_int_equal(x.reason, REASON_OK);
    return x;
}

/* A unit was held when the bucket was indexed and came back during the recovery. The key that its copy rests in is lost then: it comes back again. */
static void a_returned_unit_is_not_held(void **state)
{
    (void)state;
    static const char *const first[] = {"free:shoe-42", "pending", "gen:shoe-42"};
    for (size_t i = 0; i < countof(first); i++) {
        int64_t ms;
        sale_before_a_loss();
        lose_and_index(first[i]);
        told_again();
        struct settle_ask verdict = released("u1", 1, "r1", 0, REASON_OVERDUE);
        assert_int_equal(settle_all(&verdict, 1).at[0], REASON_OK);
        assert_int_equal(restock(0, 0, FIRST_A, 2), REASON_OK);
        struct indexed x = lose_and_index("rest:shoe-42");
        assert_int_equal(restock(0, 0, FIRST_A, 2), REASON_OK);
        assert_int_equal(reason_fate(restock(0, 0, FIRST_A + 2, 2)), FATE_DONE);
        assert_int_equal(reason_fate(restock(0, 0, FIRST_A + 3, 1)), FATE_DONE);
        assert_int_equal(open_it(x.mark, &ms), REASON_OK);
        let_pass(350);
        assert_int_equal(units_of(stock(0), 0), 3);
    }
}

/* The same key is lost once more after the index: what the index found out is lost with it, so the bucket is indexed again before it is told or opened. */
static void a_key_lost_again_is_indexed_again(void **state)
{
    (void)state;
    static const char *const keys[] = {"users", "pending", "win", "free:shoe-42", "rest:shoe-42", "gen:shoe-42"};
    for (size_t i = 0; i < countof(keys); i++) {
        int64_t ms;
        sale_before_a_loss();
        struct indexed before = lose_and_index(keys[i]);
        told_again();
        struct indexed after = lose_and_index(keys[i]);
        assert_string_not_equal(after.mark, before.mark);
        assert_int_equal(open_it(before.mark, &ms), REASON_UNCHANGED);
        told_again();    /* the unit that u1 holds is given to nobody else */
        assert_int_equal(open_it(after.mark, &ms), REASON_OK);
        let_pass(350);
        assert_int_equal(units_of(stock(0), 0), 2);
    }
}

/* What is reserved without asking the bucket about all of its keys first is refused all the same. */
static void a_reservation_finds_a_lost_key_by_itself(void **state)
{
    (void)state;
    struct bucket b;
    open_sale(2);
    b = bucket(0);
    world->lose(world, &b, "free:shoe-42");
    assert_int_equal(take(0, "u1", 0, "r1", 1).reason, REASON_STRUCTURE_LOST);    /* not BUCKET_EMPTY */
    open_sale(2);
    b = bucket(0);
    assert_int_equal(take(0, "u1", 0, "r1", 1).reason, REASON_QUEUED);
    world->lose(world, &b, "users");
    assert_int_equal(take(0, "u1", 0, "r2", 2).reason, REASON_STRUCTURE_LOST);    /* not a second reservation */
    open_sale(1);
    b = bucket(0);
    assert_int_equal(take(0, "u1", 0, "r1", 1).reason, REASON_QUEUED);
    world->lose(world, &b, "rest:shoe-42");
    assert_int_equal(take(0, "u2", 0, "r2", 2).reason, REASON_STRUCTURE_LOST);
}

static void sealed_takes_nothing_new(void **state)
{
    (void)state;
    open_sale(5);
    assert_int_equal(take(0, "u1", 0, "r1", 1).reason, REASON_QUEUED);
    struct reserve_ask mine = ask_of(0, "u1", 0, "r1", 2), other = ask_of(0, "u2", 0, "r1", 3);
    mine.sealed = other.sealed = true;
    assert_int_equal(take_ask(&mine).reason, REASON_QUEUED);
    assert_int_equal(take_ask(&other).reason, REASON_BUCKET_CLOSED);
    assert_int_equal(stock(0)->skus[0].free, 4);
    sale.activity.state = ACTIVITY_PAUSED;
    sale.activity.version++;
    assert_int_equal(install(0, false), REASON_OK);
    assert_int_equal(take_ask(&other).reason, REASON_RESERVATION_PAUSED);    /* what may be said without a unit is said */
}

static void no_bucket_is_closed_or_opened(void **state)
{
    (void)state;
    int64_t ms;
    sale_draw();
    struct seen s = SEEN();
    struct close_ask ask = {bucket(0), str_lit(""), true, 7};
    store_close(world->store, &ask, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_STALE_EPOCH);
    assert_int_equal(open_it("mark", &ms), REASON_STALE_EPOCH);
}

/* ---- waiting --------------------------------------------------------------------------------------------------------------- */

/* Whatever a deadline cuts off, asking by the same key tells what became of it, and nothing is taken twice. */
static void deadlines(void **state)
{
    (void)state;
    open_sale(UNITS);
    static struct seen seen[UNITS];
    char user[16];
    for (uint32_t i = 0; i < UNITS; i++) {
        snprintf(user, sizeof user, "u%u", i);
        struct reserve_ask ask = ask_of(0, user, 0, "r", i + 1);
        seen[i] = SEEN();
        seen[i].waiter.budget_ms = 1;
        store_reserve(world->store, &ask, &seen[i].waiter);
    }
    for (uint32_t i = 0; i < UNITS; i++) {
        enum reason reason = seen_await(world, &seen[i]);
        assert_true(reason == REASON_QUEUED || reason == REASON_TIMED_OUT || reason == REASON_DEPENDENCY_DOWN);
        assert_false(waiter_busy(&seen[i].waiter));
    }
    let_pass(50);
    for (uint32_t i = 0; i < UNITS; i++) {
        snprintf(user, sizeof user, "u%u", i);
        struct took t = take(0, user, 0, "r", 1000 + i);
        assert_int_equal(t.reason, REASON_QUEUED);
        if (seen[i].reason == REASON_QUEUED)
            assert_true(t.answer.replayed && ident_same(t.known.entry.ident, ident_of(i + 1)));
    }
    assert_int_equal(stock(0)->answer.pending, UNITS);
}

static void a_caller_may_go(void **state)
{
    (void)state;
    open_sale(5);
    struct seen s = SEEN();
    struct reserve_ask ask = ask_of(0, "u1", 0, "r1", 1);
    store_reserve(world->store, &ask, &s.waiter);
    assert_true(waiter_busy(&s.waiter));
    waiter_drop(&s.waiter);
    assert_false(waiter_busy(&s.waiter));
    let_pass(50);
    assert_false(s.woken);
    assert_int_equal(take(0, "u1", 0, "r1", 2).reason, REASON_QUEUED);
    assert_int_equal(stock(0)->skus[0].free, 4);
}

struct chain {
    struct seen seen;
    int left;
};

static void chain_wake(struct waiter *w, enum reason reason, const void *result)
{
    struct chain *c = container_of(w, struct chain, seen.waiter);
    const struct reserve_answer *a = result;
    assert_true(reason == REASON_QUEUED && a->entry.sku.len > 0);
    if (--c->left == 0) {
        c->seen.woken = true;
        return;
    }
    char user[24];
    snprintf(user, sizeof user, "chain%d", c->left);
    struct reserve_ask ask = ask_of(0, user, 0, "r", (uint32_t)c->left + 100);
    store_reserve(world->store, &ask, w);
    assert_true(str_eq(a->entry.sku, sale.skus[0].sku));    /* valid as long as the wake goes on */
}

static void a_woken_caller_may_ask_again(void **state)
{
    (void)state;
    open_sale(10);
    struct chain c = {.seen = SEEN(), .left = 10};
    c.seen.waiter.wake = chain_wake;
    struct reserve_ask ask = ask_of(0, "chain", 0, "r", 1);
    store_reserve(world->store, &ask, &c.seen.waiter);
    seen_await(world, &c.seen);
    assert_int_equal(stock(0)->skus[0].free, 0);
}

/* A write that is no bucket's: the buckets count nothing on. */
static void prove_writes_beside_every_bucket(void **state)
{
    (void)state;
    open_sale(3);
    uint64_t sequence = stock(0)->answer.sequence;
    for (int i = 0; i < 3; i++) {
        struct seen s = SEEN();
        store_prove(world->store, &s.waiter);
        assert_false(s.woken);
        assert_int_equal(seen_await(world, &s), REASON_OK);
    }
    assert_int_equal(stock(0)->answer.sequence, sequence + 1);    /* the stock call's own */
    struct seen s = SEEN();
    struct stock_ask nowhere = {.bucket = {.activity = str_lit("_"), .epoch = 1}};
    store_stock(world->store, &nowhere, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_STALE_EPOCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prove_writes_beside_every_bucket),
        cmocka_unit_test(takes_one_unit),
        cmocka_unit_test(never_more_than_the_units),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(asking_again_gives_the_same),
        cmocka_unit_test(one_per_user_and_sku),
        cmocka_unit_test(unknown_sku_and_bucket),
        cmocka_unit_test(another_epoch),
        cmocka_unit_test(states_and_window),
        cmocka_unit_test(windows_move_by_themselves),
        cmocka_unit_test(nonce_of_a_token),
        cmocka_unit_test(replay_only_takes_nothing),
        cmocka_unit_test(odd_ids_come_back),
        cmocka_unit_test(only_the_moves_of_the_table),
        cmocka_unit_test(told_a_hundred_times),
        cmocka_unit_test(only_a_verdict_adds),
        cmocka_unit_test(an_ordered_unit_is_nobodys),
        cmocka_unit_test(told_again_it_still_withdraws),
        cmocka_unit_test(tombstones),
        cmocka_unit_test(ordered_wins_over_the_others),
        cmocka_unit_test(superseded_by_an_order),
        cmocka_unit_test(batches_over_buckets),
        cmocka_unit_test(no_item_suffers_for_another),
        cmocka_unit_test(one_reservation_twice_in_a_batch),
        cmocka_unit_test(a_unit_comes_back_once),
        cmocka_unit_test(high_generations),
        cmocka_unit_test(a_returned_unit_rests),
        cmocka_unit_test(restock_of_an_unknown_sku),
        cmocka_unit_test(look_tells_all_newest_first),
        cmocka_unit_test(the_sequence_grows),
        cmocka_unit_test(only_seeding_creates_a_bucket), cmocka_unit_test(install_pushes_higher_versions_only),
        cmocka_unit_test(turns_come_as_told),
        cmocka_unit_test(a_turn_is_not_put_off),
        cmocka_unit_test(turns_are_bounded),
        cmocka_unit_test(holdings_name_every_unit),
        cmocka_unit_test(the_server_says_who_he_is),
        cmocka_unit_test(closed_for_a_stranger),
        cmocka_unit_test(closed_for_going_back),
        cmocka_unit_test(opened_it_is_seeded),
        cmocka_unit_test(a_lost_key_closes_the_bucket_until_it_is_recovered), cmocka_unit_test(a_returned_unit_is_not_held), cmocka_unit_test(a_key_lost_again_is_indexed_again),
        cmocka_unit_test(a_reservation_finds_a_lost_key_by_itself), cmocka_unit_test(sealed_takes_nothing_new),
        cmocka_unit_test(no_bucket_is_closed_or_opened),
        cmocka_unit_test(deadlines),
        cmocka_unit_test(a_caller_may_go),
        cmocka_unit_test(a_woken_caller_may_ask_again),
    };
    return cmocka_run_group_tests(tests, world_begin, world_end);
}

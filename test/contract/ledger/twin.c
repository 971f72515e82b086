/* SPDX-License-Identifier: Apache-2.0
 * twin.c: the same batches are put to PostgreSQL and to the imagined ledger, and every answer, every unit and every outbox row must
 * be the same. The batches are as unkind as a seed can make them: the same reservation twice, requests across SKUs, units of others, generations
 * of the past and of a future that PostgreSQL has forgotten, message ids used again. What differs is a bug in one of the two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim_clock.h"
#include "sim_ledger.h"
#include "sim_random.h"
#include "words.h"

#define STOCK 8
#define BATCH 12
#define ROUNDS 150
#define SEEDS 3

static struct sim_clock hour;
static struct sim_ledger_world books;
static struct sim_ledger imagined;
static struct world twin, *real;

static bool twin_run(struct world *w, bool (*done)(void *), void *arg, uint32_t budget_ms)
{
    (void)w;
    return sim_clock_run(&hour, done, arg, 1000 * (uint64_t)budget_ms);
}

static int open_both(void **state)
{
    (void)state;
    real = world_open();
    sim_clock_init(&hour, 1796083200000);
    sim_ledger_world_init(&books);
    sim_ledger_open(&imagined, &books, &hour.clock);
    twin = (struct world){.name = "twin", .ledger = &imagined.ledger, .clock = &hour.clock, .run = twin_run};
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    real->close(real);
    sim_ledger_close(&imagined);
    sim_ledger_world_end(&books);
    sim_clock_end(&hour);
    return 0;
}

static struct activity shop_in(struct world *w, const char *name)
{
    world = w;
    return shop(name, STOCK, STOCK, 2);
}

/* ---- what is put to them ---- */

#define CHANCE(n) random_below(chance, (n))

static struct create_order draw(struct random *chance, const struct activity *a, uint64_t salt)
{
    size_t sku = CHANCE(2), named = CHANCE(20) ? sku : 1 - sku;
    int64_t unit = a->skus[sku].unit_first + (int64_t)CHANCE(STOCK);
    uint32_t present = sim_books_unit(&books.books, unit)->token.generation, past = present > 1 ? present - 1 : 1;
    uint64_t when = CHANCE(20);
    struct create_order m = item(a, named ? "T" : "S", words("u%d%c", (int)CHANCE(12), 0).ptr, words("q%d%c", (int)CHANCE(40), 0).ptr,
                                 words("%d-%d%c", (int)salt, (int)CHANCE(1000000), 0).ptr,
                                 (struct token){unit, when < 14 ? present : when < 19 ? past : present + (uint32_t)CHANCE(3)});
    if (CHANCE(30) == 0)
        m.message = words("msg_shared%d", (int)CHANCE(5));
    return m;
}

static void same_str(struct str a, struct str b)
{
    if (!str_eq(a, b))
        print_message("postgres: " STR_FMT "\nimagined: " STR_FMT "\n", STR_ARG(a), STR_ARG(b));
    assert_true(str_eq(a, b));
}

static void same_verdicts(const struct told *a, const struct told *b, const struct create_order *items)
{
    assert_string_equal(reason_word(a->reason), reason_word(b->reason));
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct verdict *x = &a->verdicts[i], *y = &b->verdicts[i];
        if (x->outcome != y->outcome || x->why != y->why || x->fresh != y->fresh)
            print_message("item %zu of %zu, " STR_FMT ": %s %s %d, imagined %s %s %d\n", i, a->count, STR_ARG(items[i].reservation), reason_word(x->outcome),
                          reason_word(x->why), x->fresh, reason_word(y->outcome), reason_word(y->why), y->fresh);
        assert_true(x->outcome == y->outcome && x->why == y->why && x->fresh == y->fresh);
        same_str(x->order, y->order);
        same_str(x->superseded_by, y->superseded_by);
    }
    assert_int_equal(a->regressed, b->regressed);
}

/* ---- what they hold ---- */

static void same_units(const struct activity *a)
{
    world = real;
    struct listed x = units(a, 0, -1, false, 256);
    world = &twin;
    struct listed y = units(a, 0, -1, false, 256);
    assert_int_equal(x.count, 2 * STOCK);
    assert_int_equal(y.count, 2 * STOCK);
    for (size_t i = 0; i < x.count; i++) {
        const struct ledger_unit *p = &x.units[i], *q = &y.units[i];
        assert_int_equal(p->token.unit, q->token.unit);
        assert_int_equal(p->token.generation, q->token.generation);
        assert_true(p->home == q->home && p->available == q->available && p->ordered == q->ordered && p->returning == q->returning);
        same_str(p->sku, q->sku);
        same_str(p->reservation, q->reservation);
    }
}

static const struct outbox_row *like(const struct claimed *all, const struct outbox_row *row)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct outbox_row *r = &all->rows[i];
        bool same = r->kind == row->kind && (row->kind == OUTBOX_RETURN ? r->token.unit == row->token.unit && r->token.generation == row->token.generation
                                                                        : str_eq(r->reservation, row->reservation) && str_eq(r->topic_key, row->topic_key));
        if (same)
            return r;
    }
    return NULL;
}

/* Claims all of both, compares row by row, and finishes them. */
static void same_outbox(void)
{
    size_t rows = 0;
    for (;;) {
        world = real;
        struct claimed x = claim(60000);
        world = &twin;
        struct claimed y = claim(60000);
        assert_int_equal(x.count, y.count);
        if (x.count == 0)
            break;
        assert_true(x.count < LEDGER_BATCH_MAX);    /* all at once, or the order of two would have to agree */
        static struct finish_item done[2][LEDGER_BATCH_MAX];
        for (size_t i = 0; i < x.count; i++) {
            const struct outbox_row *p = &x.rows[i], *q = like(&y, p);
            if (!q)
                print_message("kind %d of " STR_FMT ", unit %lld-%u: not in the imagined outbox\n", p->kind, STR_ARG(p->reservation), (long long)p->token.unit,
                              p->token.generation);
            assert_non_null(q);
            assert_int_equal(p->version, q->version);
            same_str(p->activity, q->activity);
            if (p->kind == OUTBOX_RETURN)
                assert_true(p->home == q->home && p->stale == q->stale);
            if (p->kind == OUTBOX_STATUS) {
                assert_true(p->state == q->state && p->why == q->why);
                same_str(p->user, q->user), same_str(p->sku, q->sku), same_str(p->request, q->request);
                same_str(p->superseded_by, q->superseded_by), same_str(p->superseded_request, q->superseded_request);
                same_str(p->superseded_sku, q->superseded_sku);
            }
            done[0][i] = (struct finish_item){.row = p->row, .version = p->version};
            done[1][i] = (struct finish_item){.row = q->row, .version = q->version};
        }
        world = real;
        finish(done[0], x.count);
        world = &twin;
        finish(done[1], x.count);
        rows += x.count;
    }
    assert_true(rows > 0);
}

static struct looked look_in(struct world *w, enum look_by by, struct str id, const struct create_order *m)
{
    world = w;
    return look(by, id, m->activity, m->user);
}

/* What a reservation, its request and its order look like to its user. */
static void same_looks(const struct create_order *m)
{
    for (int by = LOOK_RESERVATION; by <= LOOK_ORDER; by++) {
        struct str id = by == LOOK_RESERVATION ? m->reservation : by == LOOK_REQUEST ? m->request
                        : words("ord_" STR_FMT, (int)m->reservation.len - 4, m->reservation.ptr + 4);
        struct looked x = look_in(real, (enum look_by)by, id, m), y = look_in(&twin, (enum look_by)by, id, m);
        assert_string_equal(reason_word(x.reason), reason_word(y.reason));
        if (x.reason != REASON_OK)
            continue;
        assert_true(x.a.decided == y.a.decided && x.a.has_order == y.a.has_order && x.a.parked == y.a.parked);
        assert_true(x.a.verdict.outcome == y.a.verdict.outcome && x.a.verdict.why == y.a.verdict.why);
        same_str(x.a.verdict.superseded_by, y.a.verdict.superseded_by);
        same_str(x.a.verdict.order, y.a.verdict.order);
        same_str(x.a.what.reservation, y.a.what.reservation);
        same_str(x.a.what.message, y.a.what.message);
        same_str(x.a.what.sku, y.a.what.sku);
        assert_int_equal(x.a.what.token.unit, y.a.what.token.unit);
        assert_int_equal(x.a.what.token.generation, y.a.what.token.generation);
        assert_int_equal(x.a.order.amount, y.a.order.amount);
        same_str(x.a.order.currency, y.a.order.currency);
    }
}

static void agree(uint64_t seed, const char *name)
{
    struct activity a = shop_in(real, name), b = shop_in(&twin, name);
    struct sim_random seeded;
    struct random *chance = &seeded.random;
    static struct create_order past[ROUNDS * BATCH];
    size_t made = 0;
    sim_random_init(&seeded, seed);
    assert_int_equal(a.skus[0].unit_first, b.skus[0].unit_first);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct create_order batch[BATCH];
        size_t n = 1 + CHANCE(BATCH);
        for (size_t i = 0; i < n; i++) {
            bool again = made > 0 && CHANCE(4) == 0;
            batch[i] = again ? past[CHANCE(made)] : draw(chance, &a, round);
            past[made++] = batch[i];
        }
        bool releasing = CHANCE(3) == 0;
        struct told told[2];
        for (int which = 0; which < 2; which++) {
            world = which ? &twin : real;
            told[which] = releasing ? release(batch[0], REASON_OVERDUE) : place(batch, n);
        }
        same_verdicts(&told[0], &told[1], batch);
        same_units(&a);
        same_looks(&batch[0]);
        same_looks(&batch[n - 1]);
        if (round % 5 == 4)
            same_outbox();
    }
    world = real;
    struct audited x = audit(a.activity);
    world = &twin;
    struct audited y = audit(a.activity);
    assert_int_equal(x.a.count, 0);
    assert_int_equal(y.a.count, 0);
    assert_true(x.a.orders == y.a.orders && x.a.released == y.a.released && x.a.holding == y.a.holding && x.a.consumed == y.a.consumed);
    assert_true(x.a.orders > 4 && x.a.released > 200);
}

static void the_two_ledgers_agree(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        agree(seed, words("twins%d%c", (int)seed, 0).ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_two_ledgers_agree)};
    return cmocka_run_group_tests_name("ledger_twin", tests, open_both, close_both);
}

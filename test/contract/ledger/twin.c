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
#define ROUNDS 160
#define SEEDS 3    /* SECKILL_TWIN_SEEDS: FIRST-LAST instead */

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

/* A callback of some payment of some order, mostly as it should be. */
static struct pay_item draw_callback(struct random *chance, const struct create_order *m, const struct pay_item *past, size_t made)
{
    bool other = str_eq(m->sku, str_lit("T"));
    if (made > 0 && CHANCE(6) == 0)
        return past[CHANCE(made)];
    struct pay_item c = callback(CHANCE(15) ? order_of(m) : str_lit("elsewhere"), words("pay%d%c", (int)CHANCE(80), 0).ptr, CHANCE(3) ? PAYMENT_SUCCESS : PAYMENT_FAILED,
                                 (other ? 250 : 100) + (int64_t)(CHANCE(10) == 0), (CHANCE(20) == 0) != other ? "EUR" : "CNY");
    if (c.what.result == PAYMENT_FAILED && CHANCE(3) == 0)
        c.what.amount = 0, c.what.currency = (struct str){0};
    if (CHANCE(8) == 0)
        c.what.channel = str_lit("wallet");
    if (CHANCE(6) == 0)
        c.reservation = (struct str){0};
    if (made > 0 && CHANCE(12) == 0)
        c.webhook = past[CHANCE(made)].webhook;    /* with another body */
    return c;
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

/* One payment_id may stand for several sums, of which each is recorded for itself. */
static bool same_money(const struct payment *a, const struct payment *b)
{
    return str_eq(a->payment, b->payment) && str_eq(a->order, b->order) && a->amount == b->amount && str_eq(a->currency, b->currency);
}

static const struct outbox_row *like(const struct claimed *all, const struct outbox_row *row)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct outbox_row *r = &all->rows[i];
        bool same = r->kind == row->kind && (row->kind == OUTBOX_REFUND ? same_money(&r->refund, &row->refund) : row->kind == OUTBOX_RETURN ? r->token.unit == row->token.unit && r->token.generation == row->token.generation
                                                                        : str_eq(r->reservation, row->reservation) && str_eq(r->topic_key, row->topic_key));
        if (same)
            return r;
    }
    return NULL;
}

/* Claims all of both, compares row by row, and finishes them. */
static size_t same_outbox(void)
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
            if (p->kind == OUTBOX_REFUND) {
                assert_int_equal(p->refund.amount, q->refund.amount);
                same_str(p->refund.order, q->refund.order), same_str(p->refund.currency, q->refund.currency), same_str(p->refund.channel, q->refund.channel);
                same_str(p->topic_key, q->topic_key), same_str(p->reservation, q->reservation);
            }
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
    return rows;
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

/* ---- money and people ---- */

static void same_account(struct str order)
{
    world = real;
    struct account x = account_of(order);
    world = &twin;
    struct account y = account_of(order);
    assert_string_equal(reason_word(x.reason), reason_word(y.reason));
    assert_int_equal(x.count, y.count);
    if (x.reason != REASON_OK)
        return;
    assert_true(x.order.state == y.order.state && (x.order.paid_ms > 0) == (y.order.paid_ms > 0) && (x.order.canceled_ms > 0) == (y.order.canceled_ms > 0));
    for (size_t i = 0; i < x.count; i++) {
        const struct payment_record *p = &x.payments[i], *q = NULL;
        for (size_t k = 0; k < y.count && !q; k++)
            q = same_money(&p->what, &y.payments[k].what) ? &y.payments[k] : NULL;
        assert_non_null(q);
        assert_true(p->what.result == q->what.result && p->what.amount == q->what.amount && p->refund == q->refund && p->what.occurred_ms == q->what.occurred_ms);
        assert_string_equal(reason_word(p->disposition), reason_word(q->disposition));
        same_str(p->what.currency, q->what.currency);
    }
}

static bool same_event(const struct story_event *a, const struct story_event *b)
{
    return a->kind == b->kind && str_eq(a->reservation, b->reservation) && str_eq(a->order, b->order) && str_eq(a->user, b->user) && str_eq(a->payment, b->payment) &&
           str_eq(a->review, b->review) && a->token.unit == b->token.unit && a->token.generation == b->token.generation && a->outcome == b->outcome &&
           a->why == b->why && a->result == b->result && a->refund == b->refund && a->amount == b->amount && str_eq(a->currency, b->currency) && str_eq(a->detail, b->detail);
}

/* The same events; their order may differ where two happened at one time. */
static void same_story(struct story_ask ask)
{
    world = real;
    struct told_story x = story(ask);
    world = &twin;
    struct told_story y = story(ask);
    bool used[LEDGER_BATCH_MAX] = {0};
    assert_int_equal(x.count, y.count);
    for (size_t i = 0; i < x.count && x.count < LEDGER_BATCH_MAX; i++) {
        size_t j = 0;
        while (j < y.count && (used[j] || !same_event(&x.events[i], &y.events[j])))
            j++;
        for (size_t k = 0; j == y.count && k < x.count + y.count; k++) {
            const struct story_event *e = k < x.count ? &x.events[k] : &y.events[k - x.count];
            print_message("%s %s rsv " STR_FMT " ord " STR_FMT " user " STR_FMT " pay " STR_FMT " unit %lld-%u %s %s %d %d %lld " STR_FMT "\n", k < x.count ? "postgres" : "imagined",
                          story_word(e->kind), STR_ARG(e->reservation), STR_ARG(e->order), STR_ARG(e->user), STR_ARG(e->payment), (long long)e->token.unit,
                          e->token.generation, reason_word(e->outcome), reason_word(e->why), e->result, e->refund, (long long)e->amount, STR_ARG(e->detail));
        }
        if (j == y.count)
            fail_msg("the imagined story has no %s of " STR_FMT " " STR_FMT " " STR_FMT, story_word(x.events[i].kind), STR_ARG(x.events[i].reservation),
                     STR_ARG(x.events[i].payment), STR_ARG(x.events[i].detail));
        used[j] = true;
    }
}

static void pay_both(struct random *chance, const struct create_order *orders, size_t made, struct pay_item *past, size_t *heard)
{
    struct pay_item batch[BATCH];
    size_t n = 1 + CHANCE(BATCH), before = *heard;
    for (size_t i = 0; i < n; i++)
        past[(*heard)++] = batch[i] = draw_callback(chance, &orders[CHANCE(made)], past, before);
    world = real;
    struct paid x = pay(batch, n);
    world = &twin;
    struct paid y = pay(batch, n);
    assert_int_equal(x.reason, REASON_OK);
    assert_int_equal(y.reason, REASON_OK);
    for (size_t i = 0; i < n; i++) {
        const struct pay_verdict *p = &x.verdicts[i], *q = &y.verdicts[i];
        if (p->outcome != q->outcome || p->why != q->why || p->fresh != q->fresh || p->refund != q->refund)
            fail_msg("payment %zu of %zu, " STR_FMT " " STR_FMT ": %s %s %d %d, imagined %s %s %d %d", i, n, STR_ARG(batch[i].what.payment), STR_ARG(batch[i].what.order),
                     reason_word(p->outcome), reason_word(p->why), p->fresh, p->refund, reason_word(q->outcome), reason_word(q->why), q->fresh, q->refund);
        same_account(batch[i].what.order);
    }
    same_story((struct story_ask){.by = STORY_PAYMENT, .id = batch[0].what.payment});
    same_story((struct story_ask){.by = STORY_ORDER, .id = batch[n - 1].what.order});
}

static void cancel_both(struct random *chance, const struct create_order *orders, size_t made)
{
    struct cancel_item batch[BATCH];
    size_t n = 1 + CHANCE(4);
    bool due = CHANCE(4) == 0;    /* whose time has not come */
    for (size_t i = 0; i < n; i++) {
        const struct create_order *m = &orders[CHANCE(made)];
        batch[i] = (struct cancel_item){order_of(m), CHANCE(3) ? m->user : CHANCE(2) ? (struct str){0} : str_lit("eve")};
    }
    world = real;
    struct canceled x = cancel(batch, n, due, REASON_CANCELED);
    world = &twin;
    struct canceled y = cancel(batch, n, due, REASON_CANCELED);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(reason_word(x.verdicts[i].outcome), reason_word(y.verdicts[i].outcome));
        assert_int_equal(x.verdicts[i].fresh, y.verdicts[i].fresh);
        same_account(batch[i].order);
    }
}

static enum reason park_in(struct world *w, const struct create_order *m)
{
    world = w;
    struct seen seen = SEEN(.into = NULL);
    struct park_ask ask = {.group = str_lit("contract"), .owner = str_lit("x"), .body = str_lit("{}"), .key = m->reservation, .what = m, .why = REASON_POISON};
    ledger_park(world->ledger, &ask, &seen.waiter);
    return seen_await(world, &seen);
}

static void decide_both(struct random *chance)
{
    world = real;
    struct reviewed x = reviews((struct reviews_ask){.limit = LEDGER_BATCH_MAX});
    world = &twin;
    struct reviewed y = reviews((struct reviews_ask){.limit = LEDGER_BATCH_MAX});
    assert_int_equal(x.open, y.open);
    assert_int_equal(x.count, y.count);
    if (x.count == 0)
        return;
    struct review v = x.reviews[CHANCE(x.count)];
    enum review_decision decision = (enum review_decision)(1 + CHANCE(5));
    world = real;
    struct resolved a = resolve(v.id, decision, NULL);
    world = &twin;
    struct resolved b = resolve(v.id, decision, NULL);
    if (a.reason != b.reason || a.a.outcome != b.a.outcome || a.a.why != b.a.why)
        fail_msg("%s of a review of " STR_FMT STR_FMT ": %s %s %s, imagined %s %s %s", review_decision_name(decision), STR_ARG(v.what.reservation), STR_ARG(v.payment.payment),
                 reason_word(a.reason), reason_word(a.a.outcome), reason_word(a.a.why), reason_word(b.reason), reason_word(b.a.outcome), reason_word(b.a.why));
    if (v.kind == REVIEW_PAYMENT)
        same_account(v.payment.order);
    else
        same_looks(&v.what);
}

static void agree(uint64_t seed, const char *name)
{
    struct activity a = shop_in(real, name), b = shop_in(&twin, name);
    struct sim_random seeded;
    struct random *chance = &seeded.random;
    static struct create_order past[ROUNDS * (BATCH + 1)];
    static struct pay_item callbacks[ROUNDS * BATCH];
    size_t made = 0, heard = 0, told_rows = 0;
    sim_random_init(&seeded, seed);
    assert_int_equal(a.skus[0].unit_first, b.skus[0].unit_first);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t kind = made > 0 ? CHANCE(8) : 0;
        if (kind >= 5) {
            kind == 5 ? pay_both(chance, past, made, callbacks, &heard) : kind == 6 ? cancel_both(chance, past, made) : decide_both(chance);
            same_units(&a);
            if (round % 5 == 4)
                told_rows += same_outbox();
            continue;
        }
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
        if (round % 4 == 0)
            same_story((struct story_ask){.by = STORY_UNIT, .unit = batch[0].token.unit});
        if (round % 4 == 2)
            same_story((struct story_ask){.by = STORY_RESERVATION, .id = batch[n - 1].reservation});
        if (CHANCE(6) == 0) {
            struct create_order odd = draw(chance, &a, round + ROUNDS);
            odd.user = words("odd%d", (int)round);
            assert_int_equal(park_in(real, &odd), REASON_OK);
            assert_int_equal(park_in(&twin, &odd), REASON_OK);
            same_looks(&odd);
            past[made++] = odd;
        }
        if (round % 5 == 4)
            told_rows += same_outbox();
    }
    world = real;
    struct audited x = audit(a.activity);
    world = &twin;
    struct audited y = audit(a.activity);
    assert_int_equal(x.a.count, 0);
    assert_int_equal(y.a.count, 0);
    assert_true(x.a.orders == y.a.orders && x.a.released == y.a.released && x.a.holding == y.a.holding && x.a.consumed == y.a.consumed);
    assert_true(x.a.orders > 4 && x.a.released > 200 && told_rows > 200);
}

static void the_two_ledgers_agree(void **state)
{
    (void)state;
    const char *other = getenv("SECKILL_TWIN_SEEDS");
    unsigned first = 1, last = SEEDS;
    assert_true(!other || sscanf(other, "%u-%u", &first, &last) == 2);
    for (uint64_t seed = first; seed <= last; seed++)
        agree(seed, words("twins%d%c", (int)seed, 0).ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_two_ledgers_agree)};
    return cmocka_run_group_tests_name("ledger_twin", tests, open_both, close_both);
}

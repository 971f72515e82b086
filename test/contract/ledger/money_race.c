/* SPDX-License-Identifier: Apache-2.0
 * money_race.c: ten thousand orders on a real PostgreSQL, all of them overdue; on each a payment and a cancel are fired at the same instant, from two
 * connections, four pairs at once; every fourth order is paid a second time as well, and every second cancel is its user's and not the sweep's. In the
 * end none is paid and cancelled, each payment pays its order or goes back once, and the sums are exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "postgres.h"
#include "sql.h"
#include "words.h"
#include "world_postgres.h"

enum { ORDERS = 10000, GROUP = 16, PAIRS = 4 };

static struct activity sale;
static struct str orders[ORDERS], users[ORDERS];
static uint32_t left_at;                 /* the next group to be fought over */
static size_t paid, canceled, refunds, busy, calls;
static int64_t asked_us, slowest_us;

struct side {
    struct ledger *ledger;
    struct waiter waiter;
    bool flying;
    struct pair *pair;
    uint32_t order[2 * GROUP];           /* in this side's own order */
    size_t count;
    struct pay_item items[2 * GROUP];
    struct cancel_item cancels[GROUP];
    bool due;
};
static struct pair {
    struct side payer, canceler;
    uint32_t from;
    uint64_t since_us;
} pairs[PAIRS];

static uint64_t chance_state = 88172645463325252;
static uint32_t chance(uint32_t below)
{
    chance_state ^= chance_state << 13;
    chance_state ^= chance_state >> 7;
    chance_state ^= chance_state << 17;
    return (uint32_t)(chance_state % below);
}

/* ---- the fight ---- */

static void fight(struct pair *p);
static void pay_again(struct side *s) { ledger_pay(s->ledger, &(struct pay_ask){.items = s->items, .count = s->count}, &s->waiter); }
static void cancel_again(struct side *s)
{
    ledger_cancel(s->ledger, &(struct cancel_ask){.items = s->cancels, .count = s->count, .due = s->due, .why = s->due ? REASON_PAY_TIMEOUT : REASON_CANCELED}, &s->waiter);
}

static void side_done(struct side *s)
{
    s->flying = false;
    if (!s->pair->payer.flying && !s->pair->canceler.flying)
        fight(s->pair);
}

static void payer_told(struct waiter *w, enum reason reason, const void *result)
{
    struct side *s = container_of(w, struct side, waiter);
    const struct pay_answer *a = result;
    calls++;
    assert_true(reason == REASON_OK || reason == REASON_ENGINE_BUSY);
    if (reason != REASON_OK) {
        busy++;
        pay_again(s);
        return;
    }
    for (size_t i = 0; i < a->count; i++) {
        enum reason outcome = a->verdicts[i].outcome;
        assert_true(outcome == REASON_PAYMENT_APPLIED || outcome == REASON_PAYMENT_AFTER_CANCEL || outcome == REASON_PAYMENT_EXTRA);
        paid += outcome == REASON_PAYMENT_APPLIED;
        refunds += outcome != REASON_PAYMENT_APPLIED;
        assert_int_equal(a->verdicts[i].refund, outcome != REASON_PAYMENT_APPLIED);
    }
    side_done(s);
}

static void canceler_told(struct waiter *w, enum reason reason, const void *result)
{
    struct side *s = container_of(w, struct side, waiter);
    const struct cancel_answer *a = result;
    calls++;
    assert_true(reason == REASON_OK || reason == REASON_ENGINE_BUSY);
    busy += reason != REASON_OK;
    size_t held = 0;
    for (size_t i = 0; reason == REASON_OK && i < a->count; i++) {
        enum reason outcome = a->verdicts[i].outcome;
        assert_true(outcome == REASON_CANCELED || outcome == REASON_ORDER_PAID || (s->due && outcome == REASON_ENGINE_BUSY));
        canceled += a->verdicts[i].fresh;
        held += outcome == REASON_ENGINE_BUSY;    /* its payer holds it just now: the sweep comes again */
    }
    if (reason != REASON_OK || held > 0)
        cancel_again(s);
    else
        side_done(s);
}

static void shuffle(uint32_t *of, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        uint32_t j = chance((uint32_t)i), x = of[j];
        of[j] = of[i - 1];
        of[i - 1] = x;
    }
}

static void fight(struct pair *p)
{
    uint64_t now = uv_hrtime() / 1000;
    int64_t took = p->since_us ? (int64_t)(now - p->since_us) : 0;
    slowest_us = took > slowest_us ? took : slowest_us;
    asked_us += took;
    if (left_at >= ORDERS)
        return;
    struct side *payer = &p->payer, *canceler = &p->canceler;
    p->from = left_at;
    left_at += GROUP;
    p->since_us = now;
    payer->count = canceler->count = 0;
    for (uint32_t i = p->from; i < p->from + GROUP && i < ORDERS; i++) {
        payer->order[payer->count++] = canceler->order[canceler->count++] = i;
        if (i % 4 == 0)
            payer->order[payer->count++] = i + ORDERS;    /* a second payment of it */
    }
    shuffle(payer->order, payer->count);
    shuffle(canceler->order, canceler->count);
    canceler->due = p->from / GROUP % 2 == 0;
    for (size_t i = 0; i < payer->count; i++) {
        uint32_t n = payer->order[i];
        payer->items[i] = callback(orders[n % ORDERS], words("race%u%c", n, 0).ptr, PAYMENT_SUCCESS, 100, "CNY");
    }
    for (size_t i = 0; i < canceler->count; i++)
        canceler->cancels[i] = (struct cancel_item){orders[canceler->order[i]], canceler->due ? (struct str){0} : users[canceler->order[i]]};
    payer->flying = canceler->flying = true;
    payer->waiter = (struct waiter){.wake = payer_told};
    canceler->waiter = (struct waiter){.wake = canceler_told};
    if (chance(2)) {
        pay_again(payer);
        cancel_again(canceler);
    } else {
        cancel_again(canceler);
        pay_again(payer);
    }
}

static bool at_rest(void *arg)
{
    (void)arg;
    for (int i = 0; i < PAIRS; i++)
        if (pairs[i].payer.flying || pairs[i].canceler.flying)
            return false;
    return left_at >= ORDERS;
}

/* ---- the story ---- */

static void place_all(void)
{
    sale = till("race", ORDERS, 1);
    for (int from = 0; from < ORDERS; from += LEDGER_BATCH_MAX) {
        static struct create_order batch[LEDGER_BATCH_MAX];
        size_t n = 0;
        for (int i = from; i < from + LEDGER_BATCH_MAX && i < ORDERS; i++) {
            batch[n] = item(&sale, "S", words("u%d%c", i, 0).ptr, "q", words("%d%c", i, 0).ptr, (struct token){sale.skus[0].unit_first + i, 1});
            orders[i] = order_of(&batch[n]);
            users[i] = batch[n++].user;
        }
        assert_int_equal(place(batch, n).reason, REASON_OK);
    }
    let_pass(1100);    /* the last of them is overdue */
}

static struct ledger *another(void) { return postgres_open(&(struct postgres_options){.loop = postgres_world_loop(), .url = postgres_world_url(), .application = "race"}); }

static void payment_and_cancel_at_the_same_instant(void **state)
{
    (void)state;
    uint64_t place_began = uv_hrtime();
    place_all();
    print_message("# placed in %.1f s\n", (double)(uv_hrtime() - place_began) / 1e9);
    int64_t deadlocks = sql_number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    for (int i = 0; i < PAIRS; i++) {
        pairs[i].payer = (struct side){.ledger = another(), .pair = &pairs[i]};
        pairs[i].canceler = (struct side){.ledger = another(), .pair = &pairs[i]};
    }
    for (int i = 0; i < PAIRS; i++)
        while (!postgres_ready(pairs[i].payer.ledger) || !postgres_ready(pairs[i].canceler.ledger))
            let_pass(10);
    uint64_t began = uv_hrtime();
    for (int i = 0; i < PAIRS; i++)
        fight(&pairs[i]);
    assert_true(world->run(world, at_rest, NULL, 60000));
    double took_s = (double)(uv_hrtime() - began) / 1e9;
    for (int i = 0; i < PAIRS; i++) {
        postgres_close(pairs[i].payer.ledger);
        postgres_close(pairs[i].canceler.ledger);
    }
    let_pass(200);
    print_message("# %d orders: %zu paid, %zu cancelled, %zu refunds; %zu calls, %zu busy, in %.1f s; a group took %.1f ms, at most %.1f ms\n", ORDERS, paid, canceled, refunds,
                  calls, busy, took_s, (double)asked_us / 1000 / (ORDERS / GROUP), (double)slowest_us / 1000);

    assert_int_equal(paid + canceled, ORDERS);
    assert_true(paid > ORDERS / 20 && canceled > ORDERS / 20);    /* both sides won often: else this was no race */
    int64_t payments = ORDERS + ORDERS / 4;
    assert_int_equal(sql_number("SELECT count(*) FROM payment_record WHERE result = 'SUCCESS'"), payments);
    assert_int_equal(sql_number("SELECT count(*) FROM orders WHERE status = 'PAID' AND paid_at IS NOT NULL AND canceled_at IS NULL"), (int64_t)paid);
    assert_int_equal(sql_number("SELECT count(*) FROM orders WHERE status = 'CANCELED' AND paid_at IS NULL AND canceled_at IS NOT NULL"), (int64_t)canceled);
    assert_int_equal(refunds, payments - (int64_t)paid);
    assert_int_equal(sql_number("SELECT count(*) FROM outbox WHERE kind = 'REFUND'"), (int64_t)refunds);
    assert_int_equal(sql_number("SELECT count(DISTINCT subject) FROM outbox WHERE kind = 'REFUND'"), (int64_t)refunds);
    assert_int_equal(sql_number("SELECT sum(amount) FROM payment_record WHERE result = 'SUCCESS'")
                         - sql_number("SELECT sum(amount) FROM orders WHERE status = 'PAID'") - sql_number("SELECT sum(amount) FROM payment_record WHERE refund_status <> 'NONE'"), 0);
    assert_int_equal(sql_number("SELECT count(*) FROM inventory_token WHERE status = 'AVAILABLE' AND generation = 2"), (int64_t)canceled);
    assert_int_equal(sql_number("SELECT count(*) FROM inventory_token WHERE status = 'CONSUMED' AND generation = 1"), (int64_t)paid);
    assert_int_equal(sql_number("SELECT count(*) FROM compensation WHERE compensation_type = 'CANCEL_ORDER'"), (int64_t)canceled);
    assert_int_equal(sql_number("SELECT count(*) FROM outbox WHERE kind = 'RETURN'"), (int64_t)canceled);
    uint64_t audit_began = uv_hrtime();
    assert_clean((struct str){0});
    print_message("# audited in %.1f s\n", (double)(uv_hrtime() - audit_began) / 1e9);
    assert_int_equal(sql_number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"), deadlocks);
    assert_int_equal(overdue(1, 0).count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(payment_and_cancel_at_the_same_instant)};
    return cmocka_run_group_tests_name("money_race", tests, world_begin, world_end);
}

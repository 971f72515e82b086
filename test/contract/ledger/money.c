/* SPDX-License-Identifier: Apache-2.0
 * What a ledger promises of money, whichever it is (interfaces §1, mission §9.2, §9.5, §10.1): each payment has exactly one consequence, each order
 * ends paid or cancelled, each unit comes back once, and a person can see why. Each test has an activity of its own; all share one world. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "words.h"

static void assert_paid(struct pay_verdict v, enum reason outcome, enum reason why, bool fresh, bool refund)
{
    assert_string_equal(reason_word(v.outcome), reason_word(outcome));
    assert_string_equal(reason_word(v.why), reason_word(why));
    assert_int_equal(v.fresh, fresh);
    assert_int_equal(v.refund, refund);
}
static void assert_canceled(struct cancel_verdict v, enum reason outcome, bool fresh)
{
    assert_string_equal(reason_word(v.outcome), reason_word(outcome));
    assert_int_equal(v.fresh, fresh);
}

static struct create_order wish(const struct activity *a, int nth, uint32_t generation)
{
    return item(a, "S", words("u%d%c", nth, 0).ptr, "q", words("%d%c", nth, 0).ptr, s_unit(a, nth, generation));
}
/* The nth order of the nth user on the nth unit. */
static struct create_order ordered(const struct activity *a, int nth)
{
    struct create_order m = wish(a, nth, 1);
    assert_int_equal(PLACE(m).verdicts[0].outcome, REASON_ORDERED);
    return m;
}
static struct pay_item success(const struct create_order *m, const char *payment) { return callback(order_of(m), payment, PAYMENT_SUCCESS, 100, "CNY"); }
static struct pay_item failed(const struct create_order *m, const char *payment) { return callback(order_of(m), payment, PAYMENT_FAILED, 100, "CNY"); }

static size_t refunds_of(const struct claimed *c, const char *payment)
{
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++)
        n += c->rows[i].kind == OUTBOX_REFUND && str_eq(c->rows[i].refund.payment, str_of(payment));
    return n;
}
static const struct outbox_row *event_of(const struct claimed *c, const char *event, struct str reservation)
{
    struct str said = words("\"%s\"", event);
    for (size_t i = 0; i < c->count; i++) {
        const struct outbox_row *o = &c->rows[i];
        if (o->kind == OUTBOX_EVENT && str_eq(o->reservation, reservation) && memmem(o->body.ptr, o->body.len, said.ptr, said.len))
            return o;
    }
    return NULL;
}

/* ---- paying ---- */

static void a_success_pays_its_order_once(void **state)
{
    (void)state;
    finish_all();
    struct activity a = till("pay", 4, 900);
    struct create_order m = ordered(&a, 0);
    finish_all();
    struct pay_item first = success(&m, "p1");
    assert_paid(pay_one(first), REASON_PAYMENT_APPLIED, REASON_OK, true, false);
    struct account now = account_of(order_of(&m));
    assert_true(now.reason == REASON_OK && now.order.state == ORDER_PAID && now.order.paid_ms > 0 && now.count == 1);
    assert_true(now.payments[0].what.result == PAYMENT_SUCCESS && now.payments[0].disposition == REASON_PAYMENT_APPLIED && now.payments[0].refund == REFUND_NONE);
    assert_true(now.payments[0].what.amount == 100 && now.payments[0].received_ms > 0 && now.payments[0].what.occurred_ms == first.what.occurred_ms);
    assert_str(now.payments[0].what.channel, str_lit("card"));
    struct claimed c = claim(60000);
    const struct outbox_row *paid = event_of(&c, "PAID", m.reservation);
    assert_true(c.count == 1 && paid != NULL);
    assert_str(paid->topic_key, order_of(&m));
    for (int i = 0; i < 3; i++)
        assert_paid(pay_one(first), REASON_PAYMENT_APPLIED, REASON_OK, false, false);                        /* the same callback: the first answer */
    assert_paid(pay_one(success(&m, "p1")), REASON_PAYMENT_DUPLICATE, REASON_OK, true, false);              /* another callback of the same payment */
    assert_paid(pay_one(failed(&m, "p1")), REASON_PAYMENT_DUPLICATE, REASON_OK, true, false);               /* FAILED after SUCCESS changes nothing */
    assert_int_equal(account_of(order_of(&m)).order.state, ORDER_PAID);
    assert_canceled(cancel_one(order_of(&m), m.user), REASON_ORDER_PAID, false);
    struct ledger_unit u = unit(&a, m.token.unit);
    assert_true(!u.available && u.ordered && u.token.generation == 1);
    assert_clean(a.activity);
    finish_all();
}

static void a_failed_payment_leaves_the_order_open(void **state)
{
    (void)state;
    struct activity a = till("failed", 4, 900);
    struct create_order m = ordered(&a, 0);
    assert_paid(pay_one(failed(&m, "f1")), REASON_PAYMENT_FAILED_RECORDED, REASON_OK, true, false);
    assert_paid(pay_one(failed(&m, "f1")), REASON_PAYMENT_DUPLICATE, REASON_OK, true, false);
    assert_int_equal(account_of(order_of(&m)).order.state, ORDER_CREATED);
    assert_paid(pay_one(success(&m, "f1")), REASON_PAYMENT_APPLIED, REASON_OK, true, false);                 /* SUCCESS after FAILED of the same payment */
    assert_int_equal(account_of(order_of(&m)).count, 1);
    assert_clean(a.activity);
}

static void the_second_payment_goes_back_once(void **state)
{
    (void)state;
    finish_all();
    struct activity a = till("extra", 4, 900);
    struct create_order m = ordered(&a, 0);
    pay_one(success(&m, "e1"));
    finish_all();
    struct pay_item extra = success(&m, "e2");
    assert_paid(pay_one(extra), REASON_PAYMENT_EXTRA, REASON_OK, true, true);
    assert_paid(pay_one(extra), REASON_PAYMENT_EXTRA, REASON_OK, false, true);
    assert_paid(pay_one(success(&m, "e2")), REASON_PAYMENT_DUPLICATE, REASON_OK, true, true);
    struct claimed c = claim(60000);
    assert_int_equal(c.count, 1);
    assert_int_equal(refunds_of(&c, "e2"), 1);
    const struct outbox_row *row = &c.rows[0];
    assert_str(row->topic_key, order_of(&m));
    assert_str(row->refund.order, order_of(&m));
    assert_str(row->refund.currency, str_lit("CNY"));
    assert_str(row->refund.channel, str_lit("card"));
    assert_true(row->refund.amount == 100 && memmem(row->body.ptr, row->body.len, "REFUND_REQUESTED", 16));
    struct account now = account_of(order_of(&m));
    assert_true(now.order.state == ORDER_PAID && now.count == 2 && payment_in(&now, "e2")->refund == REFUND_REQUESTED && payment_in(&now, "e1")->refund == REFUND_NONE);
    assert_clean(a.activity);
    finish(&(struct finish_item){row->row, row->version}, 1);                                                /* carried to whoever moves the money */
    now = account_of(order_of(&m));
    assert_int_equal(payment_in(&now, "e2")->refund, REFUND_DONE);
    assert_paid(pay_one(success(&m, "e2")), REASON_PAYMENT_DUPLICATE, REASON_OK, true, true);
    assert_int_equal(claim(60000).count, 0);                                                                 /* and never asked for again */
    assert_clean(a.activity);
}

static void money_after_a_cancel_goes_back_and_the_order_stays_cancelled(void **state)
{
    (void)state;
    struct activity a = till("after", 4, 900);
    struct create_order m = ordered(&a, 0);
    assert_canceled(cancel_one(order_of(&m), m.user), REASON_CANCELED, true);
    finish_all();
    assert_paid(pay_one(failed(&m, "a0")), REASON_PAYMENT_FAILED_RECORDED, REASON_OK, true, false);
    assert_paid(pay_one(success(&m, "a1")), REASON_PAYMENT_AFTER_CANCEL, REASON_OK, true, true);
    assert_paid(pay_one(success(&m, "a1")), REASON_PAYMENT_DUPLICATE, REASON_OK, true, true);
    struct claimed c = claim(60000);
    assert_int_equal(c.count, 1);
    assert_int_equal(refunds_of(&c, "a1"), 1);
    struct account now = account_of(order_of(&m));
    assert_true(now.order.state == ORDER_CANCELED && now.order.paid_ms == 0 && payment_in(&now, "a1")->disposition == REASON_PAYMENT_AFTER_CANCEL);
    assert_clean(a.activity);
    finish_all();
    assert_clean(a.activity);
}

/* Every order in which SUCCESS, FAILED (of one payment), a second payment, the user's cancel and the sweep's may come. */
enum happening { SUCCESS, FAILED, SECOND, BY_USER, BY_SWEEP, HAPPENINGS };
struct model {
    enum order_state state;
    bool first, second;          /* payments that succeeded */
    int pays;                    /* which of them pays; 0: none */
};
static void succeed(struct model *m, int which, struct pay_verdict v)
{
    enum reason outcome = m->state == ORDER_CREATED ? REASON_PAYMENT_APPLIED : m->state == ORDER_PAID ? REASON_PAYMENT_EXTRA : REASON_PAYMENT_AFTER_CANCEL;
    assert_paid(v, outcome, REASON_OK, true, outcome != REASON_PAYMENT_APPLIED);
    *(which == 1 ? &m->first : &m->second) = true;
    if (outcome == REASON_PAYMENT_APPLIED)
        m->state = ORDER_PAID, m->pays = which;
}
static void call_off(struct model *m, struct cancel_verdict v)
{
    assert_canceled(v, m->state == ORDER_PAID ? REASON_ORDER_PAID : REASON_CANCELED, m->state == ORDER_CREATED);
    m->state = m->state == ORDER_PAID ? ORDER_PAID : ORDER_CANCELED;
}
static void happen(const struct create_order *o, struct model *m, enum happening what, const char *first, const char *second)
{
    switch (what) {
    case SUCCESS:
        succeed(m, 1, pay_one(success(o, first)));
        break;
    case SECOND:
        succeed(m, 2, pay_one(success(o, second)));
        break;
    case FAILED:
        assert_paid(pay_one(failed(o, first)), m->first ? REASON_PAYMENT_DUPLICATE : REASON_PAYMENT_FAILED_RECORDED, REASON_OK, true,
                    m->first && m->pays != 1);
        break;
    case BY_USER:
        call_off(m, cancel_one(order_of(o), o->user));
        break;
    default:
        call_off(m, cancel(&(struct cancel_item){.order = order_of(o)}, 1, true, REASON_PAY_TIMEOUT).verdicts[0]);
    }
}

static void every_permutation_ends_as_it_must(void **state)
{
    (void)state;
    struct activity a = till("perm", 120, 1);
    static struct create_order orders[120];
    finish_all();
    for (int i = 0; i < 120; i++)
        orders[i] = ordered(&a, i);
    finish_all();
    let_pass(1200);    /* every deadline has passed: the sweep may come at any moment, and a payment is not judged by it */
    size_t refunds = 0, rows = 0;
    for (int n = 0; n < 120; n++) {
        enum happening left[HAPPENINGS] = {SUCCESS, FAILED, SECOND, BY_USER, BY_SWEEP};
        struct model m = {.state = ORDER_CREATED};
        const char *first = words("perm_%d_a%c", n, 0).ptr, *second = words("perm_%d_b%c", n, 0).ptr;
        for (int step = 0, code = n; step < HAPPENINGS; step++) {
            int at = code % (HAPPENINGS - step);
            code /= HAPPENINGS - step;
            happen(&orders[n], &m, left[at], first, second);
            for (int k = at; k + 1 < HAPPENINGS - step; k++)
                left[k] = left[k + 1];
        }
        struct account now = account_of(order_of(&orders[n]));
        assert_int_equal(now.order.state, m.state);
        assert_int_equal(now.count, 2);
        assert_int_equal(payment_in(&now, first)->refund == REFUND_REQUESTED, m.pays != 1);
        assert_int_equal(payment_in(&now, second)->refund == REFUND_REQUESTED, m.pays != 2);
        refunds += (size_t)(m.pays != 1) + (size_t)(m.pays != 2);
        struct ledger_unit u = unit(&a, orders[n].token.unit);
        assert_true(u.available == (m.state == ORDER_CANCELED) && u.token.generation == (m.state == ORDER_CANCELED ? 2u : 1u));
    }
    for (struct claimed c = claim(60000); c.count > 0; c = claim(60000))
        for (size_t i = 0; i < c.count; i++)
            rows += c.rows[i].kind == OUTBOX_REFUND;
    assert_int_equal(rows, refunds);
    assert_clean(a.activity);
}

static void a_batch_is_judged_as_if_one_by_one(void **state)
{
    (void)state;
    struct activity a = till("batch_pay", 9, 900);
    struct create_order m = ordered(&a, 0), n = ordered(&a, 1), o = ordered(&a, 2);
    struct pay_item once = success(&n, "b4"), twice = once;
    struct pay_item items[] = {failed(&m, "b1"), success(&m, "b1"), success(&m, "b2"), failed(&m, "b1"), once, twice, success(&o, "b4"), success(&o, "b5")};
    struct paid p = pay(items, countof(items));
    assert_int_equal(p.reason, REASON_OK);
    assert_paid(p.verdicts[0], REASON_PAYMENT_FAILED_RECORDED, REASON_OK, true, false);
    assert_paid(p.verdicts[1], REASON_PAYMENT_APPLIED, REASON_OK, true, false);
    assert_paid(p.verdicts[2], REASON_PAYMENT_EXTRA, REASON_OK, true, true);
    assert_paid(p.verdicts[3], REASON_PAYMENT_DUPLICATE, REASON_OK, true, false);
    assert_paid(p.verdicts[4], REASON_PAYMENT_APPLIED, REASON_OK, true, false);
    assert_paid(p.verdicts[5], REASON_PAYMENT_APPLIED, REASON_OK, false, false);
    assert_paid(p.verdicts[6], REASON_PAYMENT_QUARANTINED, REASON_PAYMENT_ID_REUSED, true, false);
    assert_paid(p.verdicts[7], REASON_PAYMENT_APPLIED, REASON_OK, true, false);
    assert_clean(a.activity);

    static struct pay_item many[LEDGER_PAY_MAX];
    struct activity full = till("batch_full", LEDGER_PAY_MAX, 900);
    for (int i = 0; i < LEDGER_PAY_MAX; i++) {
        struct create_order each = ordered(&full, i);
        many[i] = success(&each, words("full_%d%c", i, 0).ptr);
    }
    p = pay(many, LEDGER_PAY_MAX);
    assert_int_equal(p.reason, REASON_OK);
    for (int i = 0; i < LEDGER_PAY_MAX; i++)
        assert_int_equal(p.verdicts[i].outcome, REASON_PAYMENT_APPLIED);
    assert_clean(full.activity);
}

/* A channel that tries and fails all day: the order stays as it is, and tells the first of them. */
static void an_order_tells_its_first_payments(void **state)
{
    (void)state;
    struct activity a = till("tries", 2, 900);
    struct create_order m = ordered(&a, 0);
    static struct pay_item tries[LEDGER_PAY_MAX];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < LEDGER_PAY_MAX; i++)
            tries[i] = failed(&m, words("try%d_%02d%c", round, i, 0).ptr);
        assert_int_equal(pay(tries, LEDGER_PAY_MAX).reason, REASON_OK);
        let_pass(5);
    }
    struct account now = account_of(order_of(&m));
    assert_true(now.order.state == ORDER_CREATED && now.count == LOOK_PAYMENTS_MAX);
    for (size_t i = 0; i < LEDGER_PAY_MAX; i++)
        assert_true(str_starts(now.payments[i].what.payment, str_lit("try0_")));
    assert_paid(pay_one(success(&m, "at last")), REASON_PAYMENT_APPLIED, REASON_OK, true, false);
    assert_paid(pay_one(success(&m, "and_again")), REASON_PAYMENT_EXTRA, REASON_OK, true, true);
    now = account_of(order_of(&m));
    assert_true(now.count == LOOK_PAYMENTS_MAX && payment_in(&now, "and_again")->refund == REFUND_REQUESTED);    /* a refund is told before what has none */
    assert_clean(a.activity);
}

/* ---- what a person must see ---- */

static void what_does_not_fit_is_set_aside_with_its_money(void **state)
{
    (void)state;
    finish_all();
    struct activity a = till("odd", 9, 900);
    struct create_order m = ordered(&a, 0), n = ordered(&a, 1);
    struct str order = order_of(&m);
    finish_all();
    assert_paid(pay_one(callback(order, "o1", PAYMENT_SUCCESS, 99, "CNY")), REASON_PAYMENT_QUARANTINED, REASON_WRONG_AMOUNT, true, false);
    assert_paid(pay_one(callback(order, "o2", PAYMENT_SUCCESS, 100, "EUR")), REASON_PAYMENT_QUARANTINED, REASON_WRONG_AMOUNT, true, false);
    assert_paid(pay_one(callback(str_lit("not-ours"), "o3", PAYMENT_SUCCESS, 100, "CNY")), REASON_PAYMENT_QUARANTINED, REASON_ORDER_UNKNOWN, true, false);
    assert_int_equal(account_of(order).order.state, ORDER_CREATED);
    struct pay_item good = success(&m, "o4"), forged = good;
    assert_paid(pay_one(good), REASON_PAYMENT_APPLIED, REASON_OK, true, false);
    forged.digest[0] ^= 1;
    forged.what.payment = str_lit("o5");
    assert_paid(pay_one(forged), REASON_PAYMENT_QUARANTINED, REASON_WEBHOOK_ID_REUSED, true, false);
    assert_paid(pay_one(forged), REASON_PAYMENT_QUARANTINED, REASON_WEBHOOK_ID_REUSED, true, false);
    assert_paid(pay_one(good), REASON_PAYMENT_APPLIED, REASON_OK, false, false);
    assert_paid(pay_one(callback(order_of(&n), "o4", PAYMENT_SUCCESS, 100, "CNY")), REASON_PAYMENT_QUARANTINED, REASON_PAYMENT_ID_REUSED, true, false);
    assert_paid(pay_one(callback(order, "o4", PAYMENT_SUCCESS, 101, "CNY")), REASON_PAYMENT_QUARANTINED, REASON_PAYMENT_ID_REUSED, true, false);
    assert_paid(pay_one(callback(order, "o1", PAYMENT_SUCCESS, 99, "CNY")), REASON_PAYMENT_DUPLICATE, REASON_OK, true, false);
    struct account now = account_of(order);
    assert_true(now.order.state == ORDER_PAID && now.count == 5);    /* o1, o2, o4, o5, and o4 once more with its other amount: the money is in the books */
    assert_true(payment_in(&now, "o1")->disposition == REASON_PAYMENT_QUARANTINED && payment_in(&now, "o1")->what.amount == 99 && payment_in(&now, "o5"));
    struct review v = review_of("o1");
    assert_true(v.id.len > 0 && v.kind == REVIEW_PAYMENT && v.why == REASON_WRONG_AMOUNT && v.decision == REVIEW_OPEN && v.payment.amount == 99);
    struct reviewed one = reviews((struct reviews_ask){.id = v.id});
    assert_true(one.count == 1 && one.reviews[0].body.len > 0 && one.open >= 6);
    assert_int_equal(reviews((struct reviews_ask){.id = str_lit("no-such")}).reason, REASON_NOT_FOUND);
    struct claimed c = claim(60000);
    for (size_t i = 0; i < c.count; i++)
        assert_int_not_equal(c.rows[i].kind, OUTBOX_REFUND);          /* a person decides */
    assert_clean(a.activity);
    assert_clean((struct str){0});
    finish_all();
}

static void nothing_is_recorded_while_an_order_may_still_come(void **state)
{
    (void)state;
    struct activity a = till("early", 9, 900);
    struct create_order m = wish(&a, 0, 1);
    struct pay_item early = success(&m, "y1");
    for (int i = 0; i < 2; i++)
        assert_paid(pay_one(early), REASON_PAYMENT_UNDECIDED, REASON_OK, true, false);
    assert_int_equal(review_of("y1").id.len, 0);
    ordered(&a, 0);
    assert_paid(pay_one(early), REASON_PAYMENT_APPLIED, REASON_OK, true, false);    /* the same callback: it had left nothing behind */
    assert_clean(a.activity);
}

static void money_for_a_released_reservation_goes_back_by_itself(void **state)
{
    (void)state;
    finish_all();
    struct activity a = till("gone", 9, 900);
    struct create_order m = wish(&a, 0, 1), later = wish(&a, 1, 1);
    release(m, REASON_OVERDUE);
    finish_all();
    assert_paid(pay_one(failed(&m, "g1")), REASON_PAYMENT_QUARANTINED, REASON_ORDER_UNKNOWN, true, false);
    assert_paid(pay_one(success(&m, "g1")), REASON_PAYMENT_QUARANTINED, REASON_ORDER_UNKNOWN, true, true);
    assert_paid(pay_one(success(&m, "g1")), REASON_PAYMENT_DUPLICATE, REASON_OK, true, true);
    struct claimed c = claim(60000);
    assert_int_equal(refunds_of(&c, "g1"), 1);
    assert_int_equal(c.count, 1);
    assert_int_equal(review_of("g1").id.len, 0);    /* nothing is left for a person */

    /* The channel's order id fails its check under our present keys; then its reservation is released after all. */
    struct pay_item unknown = success(&later, "g2"), double_of = success(&later, "g3");
    unknown.reservation = double_of.reservation = (struct str){0};
    double_of.what.result = PAYMENT_FAILED;
    assert_paid(pay_one(unknown), REASON_PAYMENT_QUARANTINED, REASON_ORDER_UNKNOWN, true, false);
    assert_paid(pay_one(double_of), REASON_PAYMENT_QUARANTINED, REASON_ORDER_UNKNOWN, true, false);
    assert_true(review_of("g2").id.len > 0);
    release(later, REASON_OVERDUE);
    release(later, REASON_OVERDUE);
    c = claim(60000);
    assert_int_equal(refunds_of(&c, "g2"), 1);
    assert_int_equal(refunds_of(&c, "g3"), 0);      /* no money, nothing to give back */
    assert_int_equal(review_of("g2").id.len, 0);
    assert_paid(pay_one(unknown), REASON_PAYMENT_QUARANTINED, REASON_ORDER_UNKNOWN, false, true);
    assert_clean(a.activity);
    assert_clean((struct str){0});
    finish_all();
}

static void a_person_decides_of_a_payment(void **state)
{
    (void)state;
    finish_all();
    struct activity a = till("judge", 9, 900);
    struct create_order m = ordered(&a, 0), n = ordered(&a, 1), o = ordered(&a, 2);
    /* RELEASE: given back, once */
    pay_one(callback(order_of(&m), "j1", PAYMENT_SUCCESS, 1, "CNY"));
    struct str id = review_of("j1").id;
    assert_int_equal(resolve(id, REVIEW_RETRY, NULL).reason, REASON_CONFLICT);          /* the amount is still wrong: it stays open */
    struct resolved r = resolve(id, REVIEW_RELEASE, NULL);
    assert_true(r.reason == REASON_OK && r.a.outcome == REASON_PAYMENT_QUARANTINED);
    assert_int_equal(resolve(id, REVIEW_RELEASE, NULL).reason, REASON_OK);
    assert_int_equal(resolve(id, REVIEW_DISMISS, NULL).reason, REASON_CONFLICT);
    struct reviewed one = reviews((struct reviews_ask){.id = id});
    assert_true(one.reviews[0].decision == REVIEW_RELEASE && one.reviews[0].resolved_ms > 0);
    assert_str(one.reviews[0].actor, str_lit("ann"));
    assert_str(one.reviews[0].note, str_lit("looked at it"));
    /* RETRY: a reused webhook-id had kept a good payment from its order */
    struct pay_item first = failed(&n, "j2"), second = success(&n, "j3");
    pay_one(first);
    second.webhook = first.webhook;
    assert_paid(pay_one(second), REASON_PAYMENT_QUARANTINED, REASON_WEBHOOK_ID_REUSED, true, false);
    assert_int_equal(resolve(review_of("j3").id, REVIEW_RETRY, NULL).a.outcome, REASON_PAYMENT_APPLIED);
    assert_int_equal(account_of(order_of(&n)).order.state, ORDER_PAID);
    /* RETRY of one whose order was cancelled meanwhile */
    struct pay_item third = success(&o, "j4");
    third.webhook = first.webhook;
    pay_one(third);
    cancel_one(order_of(&o), o.user);
    r = resolve(review_of("j4").id, REVIEW_RETRY, NULL);
    assert_true(r.reason == REASON_OK && r.a.outcome == REASON_PAYMENT_AFTER_CANCEL);
    /* money under the payment_id of other money goes back by itself; what pays an order stays where it is */
    pay_one(callback(order_of(&m), "j3", PAYMENT_SUCCESS, 100, "CNY"));
    id = review_of("j3").id;
    assert_int_equal(resolve(id, REVIEW_DISMISS, NULL).reason, REASON_CONFLICT);
    assert_int_equal(resolve(id, REVIEW_REFUND, NULL).reason, REASON_OK);
    assert_int_equal(account_of(order_of(&n)).order.state, ORDER_PAID);
    assert_int_equal(account_of(order_of(&n)).payments[1].refund, REFUND_NONE);
    assert_int_equal(resolve(str_lit("no-such"), REVIEW_DISMISS, NULL).reason, REASON_NOT_FOUND);
    struct claimed c = claim(60000);
    assert_true(refunds_of(&c, "j1") == 1 && refunds_of(&c, "j4") == 1 && refunds_of(&c, "j3") == 1);
    for (size_t i = 0; i < c.count; i++)
        if (c.rows[i].kind == OUTBOX_REFUND && str_eq(c.rows[i].refund.payment, str_lit("j3")))
            assert_str(c.rows[i].refund.order, order_of(&m));
    assert_clean(a.activity);
    finish_all();
    assert_clean(a.activity);
}

/* ---- every decision on every kind of review of money ---- */

enum review_case {
    CASE_WRONG_AMOUNT, CASE_ORDER_UNKNOWN, CASE_TWO_ORDERS, CASE_TWO_ORDERS_PAID, CASE_OTHER_AMOUNT, CASE_WEBHOOK_REUSED, CASE_WEBHOOK_REUSED_PAID, CASE_FAILED_UNKNOWN,
    CASE_FAILED_TWO_ORDERS, CASE_REFUND_FAILED, CASE_CALLBACK, REVIEW_CASES
};
struct case_made {
    struct str review, order;    /* order: whose payment it is */
};

static struct case_made review_newest(struct str order)
{
    struct reviewed all = reviews((struct reviews_ask){.limit = 1});
    assert_int_equal(all.count, 1);
    return (struct case_made){all.reviews[0].id, order};
}

/* One review of this case, with orders and payments of its own. */
static struct case_made make_case(const struct activity *a, enum review_case which, int nth)
{
    struct create_order m = ordered(a, 2 * nth), n = ordered(a, 2 * nth + 1);
    const char *payment = words("case%d_%d%c", (int)which, nth, 0).ptr;
    struct pay_item item = success(&m, payment), other = success(&n, payment);
    let_pass(3);    /* so that its review is the newest */
    switch (which) {
    case CASE_WRONG_AMOUNT:
        item.what.amount = 99;
        break;
    case CASE_ORDER_UNKNOWN:
        item = callback(str_lit("not-ours"), payment, PAYMENT_SUCCESS, 100, "CNY");
        break;
    case CASE_TWO_ORDERS:
    case CASE_TWO_ORDERS_PAID:
        assert_int_equal(pay_one(item).outcome, REASON_PAYMENT_APPLIED);
        if (which == CASE_TWO_ORDERS_PAID)
            assert_int_equal(pay_one(success(&n, words("%s_first%c", payment, 0).ptr)).outcome, REASON_PAYMENT_APPLIED);
        item = other;
        break;
    case CASE_OTHER_AMOUNT:
        assert_int_equal(pay_one(item).outcome, REASON_PAYMENT_APPLIED);
        item = callback(order_of(&m), payment, PAYMENT_SUCCESS, 101, "CNY");
        break;
    case CASE_WEBHOOK_REUSED:
    case CASE_WEBHOOK_REUSED_PAID: {
        struct pay_item first = failed(&n, words("%s_f%c", payment, 0).ptr);
        pay_one(first);
        if (which == CASE_WEBHOOK_REUSED_PAID)
            assert_int_equal(pay_one(item).outcome, REASON_PAYMENT_APPLIED);
        item.webhook = first.webhook;
        break;
    }
    case CASE_FAILED_UNKNOWN:
        item = callback(str_lit("not-ours"), payment, PAYMENT_FAILED, 0, "");
        break;
    case CASE_FAILED_TWO_ORDERS:
        pay_one(other);
        item = failed(&m, payment);
        break;
    case CASE_REFUND_FAILED: {
        pay_one(item);
        pay_one(success(&m, words("%s_second%c", payment, 0).ptr));
        struct claimed c = claim(1);
        for (size_t i = 0; i < c.count; i++)
            if (c.rows[i].kind == OUTBOX_REFUND && str_eq(c.rows[i].refund.payment, words("%s_second", payment))) {
                struct seen seen = SEEN(.into = NULL);
                ledger_defer(world->ledger, &(struct defer_ask){.items = &(struct defer_item){c.rows[i].row, c.rows[i].version, REASON_REFUND_FAILED}, .count = 1}, &seen.waiter);
                assert_int_equal(seen_await(world, &seen), REASON_OK);
            }
        return review_newest(order_of(&m));
    }
    default: {
        struct seen seen = SEEN(.into = NULL);
        struct callback_ask ask = {.webhook = str_of(payment), .channel = str_lit(""), .digest = {(uint8_t)nth}, .body = {"\0{", 2}};
        for (int twice = 0; twice < 2; twice++) {
            seen = SEEN(.into = NULL);
            ledger_callback(world->ledger, &ask, &seen.waiter);
            assert_int_equal(seen_await(world, &seen), REASON_OK);
        }
        return review_newest((struct str){0});
    }
    }
    assert_int_equal(pay_one(item).outcome, REASON_PAYMENT_QUARANTINED);
    struct case_made made = review_newest(which == CASE_ORDER_UNKNOWN || which == CASE_FAILED_UNKNOWN ? (struct str){0}
                                          : which == CASE_TWO_ORDERS || which == CASE_TWO_ORDERS_PAID ? order_of(&n) : order_of(&m));
    return made;
}

#define NO REASON_CONFLICT
static void every_decision_on_every_review_of_money(void **state)
{
    (void)state;
    static const enum review_decision decisions[] = {REVIEW_RELEASE, REVIEW_REFUND, REVIEW_RETRY, REVIEW_APPLY, REVIEW_DISMISS};
    /* What each comes to; NO: it cannot end it, and the review stays open. */
    static const enum reason want[REVIEW_CASES][countof(decisions)] = {
        /*                             RELEASE                       REFUND                        RETRY                         APPLY                    DISMISS */
        [CASE_WRONG_AMOUNT]        = {REASON_PAYMENT_QUARANTINED,   REASON_PAYMENT_QUARANTINED,   NO,                           NO,                      NO},
        [CASE_ORDER_UNKNOWN]       = {REASON_PAYMENT_QUARANTINED,   REASON_PAYMENT_QUARANTINED,   NO,                           NO,                      NO},
        [CASE_TWO_ORDERS]          = {REASON_PAYMENT_QUARANTINED,   REASON_PAYMENT_QUARANTINED,   REASON_PAYMENT_APPLIED,       REASON_PAYMENT_APPLIED,  NO},
        [CASE_TWO_ORDERS_PAID]     = {REASON_PAYMENT_QUARANTINED,   REASON_PAYMENT_QUARANTINED,   REASON_PAYMENT_EXTRA,         NO,                      NO},
        [CASE_OTHER_AMOUNT]        = {REASON_PAYMENT_QUARANTINED,   REASON_PAYMENT_QUARANTINED,   NO,                           NO,                      NO},
        [CASE_WEBHOOK_REUSED]      = {REASON_PAYMENT_QUARANTINED,   REASON_PAYMENT_QUARANTINED,   REASON_PAYMENT_APPLIED,       REASON_PAYMENT_APPLIED,  NO},
        [CASE_WEBHOOK_REUSED_PAID] = {NO,                           NO,                           REASON_PAYMENT_APPLIED,       REASON_PAYMENT_APPLIED,  REASON_OK},
        [CASE_FAILED_UNKNOWN]      = {NO,                           NO,                           NO,                           NO,                      REASON_OK},
        [CASE_FAILED_TWO_ORDERS]   = {NO,                           NO,                           NO,                           NO,                      REASON_OK},
        [CASE_REFUND_FAILED]       = {REASON_PAYMENT_EXTRA,         REASON_PAYMENT_EXTRA,         REASON_PAYMENT_EXTRA,         NO,                      REASON_PAYMENT_EXTRA},
        [CASE_CALLBACK]            = {NO,                           NO,                           NO,                           NO,                      REASON_OK},
    };
    struct activity a = till("decide", 2 * (int64_t)REVIEW_CASES * (int64_t)countof(decisions), 900);
    finish_all();
    for (int which = 0; which < REVIEW_CASES; which++)
        for (size_t d = 0; d < countof(decisions); d++) {
            struct case_made made = make_case(&a, (enum review_case)which, which * (int)countof(decisions) + (int)d);
            struct resolved r = resolve(made.review, decisions[d], NULL);
            enum reason wanted = want[which][d];
            if (r.reason != (wanted == NO ? REASON_CONFLICT : REASON_OK) || (wanted != NO && r.a.outcome != wanted))
                fail_msg("case %d, %s: %s %s, wanted %s", which, review_decision_name(decisions[d]), reason_word(r.reason),
                         reason_word(r.reason == REASON_OK ? r.a.outcome : REASON_OK), reason_word(wanted));
            assert_int_equal(reviews((struct reviews_ask){.id = made.review}).reviews[0].decision == REVIEW_OPEN, wanted == NO);
            assert_clean(a.activity);
            size_t ended = 0;    /* one of the others ends it, where this one could not; and then there is nothing to decide any more */
            for (size_t e = 0; e < countof(decisions) && wanted == NO; e++)
                ended += resolve(made.review, decisions[e], NULL).reason == REASON_OK;
            assert_true(wanted != NO || ended >= 1);
            assert_clean(a.activity);
            finish_all();
            assert_clean(a.activity);
        }
    assert_clean((struct str){0});
}

/* What some channels do: a failed payment of nothing, then the right one under the same id. */
static void a_failed_payment_fixes_no_amount(void **state)
{
    (void)state;
    struct activity a = till("nothing_first", 9, 900);
    static const struct { int64_t amount; const char *currency; } odd[] = {{0, "CNY"}, {0, ""}, {7, "CNY"}, {100, "EUR"}};
    for (int i = 0; i < (int)countof(odd); i++) {
        struct create_order m = ordered(&a, i);
        const char *payment = words("nothing%d%c", i, 0).ptr;
        assert_paid(pay_one(callback(order_of(&m), payment, PAYMENT_FAILED, odd[i].amount, odd[i].currency)), REASON_PAYMENT_FAILED_RECORDED, REASON_OK, true, false);
        assert_paid(pay_one(callback(order_of(&m), payment, PAYMENT_FAILED, 1, "USD")), REASON_PAYMENT_DUPLICATE, REASON_OK, true, false);
        assert_paid(pay_one(success(&m, payment)), REASON_PAYMENT_APPLIED, REASON_OK, true, false);
        assert_paid(pay_one(callback(order_of(&m), payment, PAYMENT_FAILED, 0, "")), REASON_PAYMENT_DUPLICATE, REASON_OK, true, false);
        struct account now = account_of(order_of(&m));
        assert_true(now.order.state == ORDER_PAID && now.count == 1 && now.payments[0].what.amount == 100);
        assert_str(now.payments[0].what.currency, str_lit("CNY"));
    }
    assert_clean(a.activity);
    finish_all();
}

static void two_channels_may_use_one_webhook_id(void **state)
{
    (void)state;
    struct activity a = till("channels", 9, 900);
    struct create_order m = ordered(&a, 0), n = ordered(&a, 1);
    struct pay_item one = success(&m, "chan1"), two = success(&n, "chan2");
    two.webhook = one.webhook;
    two.what.channel = str_lit("wallet");
    assert_paid(pay_one(one), REASON_PAYMENT_APPLIED, REASON_OK, true, false);
    assert_paid(pay_one(two), REASON_PAYMENT_APPLIED, REASON_OK, true, false);
    assert_paid(pay_one(one), REASON_PAYMENT_APPLIED, REASON_OK, false, false);
    assert_paid(pay_one(two), REASON_PAYMENT_APPLIED, REASON_OK, false, false);
    two.digest[0] ^= 1;
    assert_paid(pay_one(two), REASON_PAYMENT_QUARANTINED, REASON_WEBHOOK_ID_REUSED, true, false);
    assert_clean(a.activity);
    finish_all();
}

static void a_free_order_is_paid_at_once(void **state)
{
    (void)state;
    finish_all();
    for (int size = 1; size <= 40; size += 39) {    /* a batch whose orders share outbox rows too */
        struct activity a = till_at(words("free%d%c", size, 0).ptr, 64, 1, 0);
        static struct create_order all[40];
        for (int i = 0; i < size; i++)
            all[i] = wish(&a, i, 1);
        assert_int_equal(place(all, (size_t)size).reason, REASON_OK);
        struct account now = account_of(order_of(&all[0]));
        assert_true(now.order.state == ORDER_PAID && now.order.paid_ms > 0 && now.order.amount == 0 && now.count == 0);
        size_t created = 0, paid = 0;
        for (struct claimed c = claim(60000); c.count > 0; c = claim(60000))
            for (size_t i = 0; i < c.count; i++) {
                created += c.rows[i].body.len > 0 && memmem(c.rows[i].body.ptr, c.rows[i].body.len, "\"ORDER_CREATED\"", 15) != NULL;
                paid += c.rows[i].kind == OUTBOX_EVENT && memmem(c.rows[i].body.ptr, c.rows[i].body.len, "\"PAID\"", 6) != NULL;
            }
        assert_int_equal(created, size);
        assert_int_equal(paid, size);
        assert_int_equal(PLACE(all[0]).verdicts[0].outcome, REASON_ORDERED);
        let_pass(1200);
        assert_int_equal(overdue(LEDGER_BATCH_MAX, 0).count, 0);
        assert_canceled(cancel(&(struct cancel_item){.order = order_of(&all[0])}, 1, true, REASON_PAY_TIMEOUT).verdicts[0], REASON_ORDER_PAID, false);
        assert_canceled(cancel_one(order_of(&all[0]), all[0].user), REASON_ORDER_PAID, false);
        assert_clean(a.activity);
    }
    finish_all();
}

static void defer(const struct outbox_row *row, enum reason why)
{
    struct seen seen = SEEN(.into = NULL);
    ledger_defer(world->ledger, &(struct defer_ask){.items = &(struct defer_item){row->row, row->version, why}, .count = 1}, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
}

/* PENDING is asked again later; a refusal is a review after eight. */
static void a_refund_that_is_not_given_rests_and_then_calls_an_operator(void **state)
{
    (void)state;
    finish_all();
    struct activity a = till("refused", 9, 900);
    struct create_order m = ordered(&a, 0);
    pay_one(success(&m, "rf0"));
    finish_all();
    pay_one(success(&m, "rf1"));
    struct claimed c = claim(1);
    assert_true(c.count == 1 && refunds_of(&c, "rf1") == 1);
    struct outbox_row row = c.rows[0];
    defer(&row, REASON_REFUND_PENDING);
    let_pass(20);
    assert_int_equal(claim(1).count, 0);    /* it rests for ten seconds, though its claim is over */
    if (strcmp(world->name, "memory") == 0) {
        let_pass(10000);
        assert_int_equal(claim(1).count, 1);
    }
    for (int i = 0; i < REFUND_REFUSALS_MAX; i++) {
        assert_int_equal(review_of("rf1").id.len, 0);
        defer(&row, REASON_ENGINE_REFUSED);
    }
    struct review v = review_of("rf1");
    assert_true(v.id.len > 0 && v.why == REASON_REFUND_FAILED && v.payment.amount == 100);
    let_pass(20);
    assert_int_equal(claim(1).count, 0);
    assert_clean(a.activity);
    assert_int_equal(resolve(v.id, REVIEW_RETRY, NULL).reason, REASON_OK);
    c = claim(60000);
    assert_int_equal(refunds_of(&c, "rf1"), 1);    /* asked for again */
    defer(&row, REASON_REFUND_FAILED);              /* an answer from before the decision changes nothing */
    assert_int_equal(review_of("rf1").id.len, 0);
    defer(&c.rows[0], REASON_REFUND_FAILED);
    v = review_of("rf1");
    assert_true(v.id.len > 0);
    assert_int_equal(resolve(v.id, REVIEW_DISMISS, NULL).reason, REASON_OK);
    struct account now = account_of(order_of(&m));
    assert_int_equal(payment_in(&now, "rf1")->refund, REFUND_DONE);
    assert_clean(a.activity);
    finish_all();
}

static struct str parked(const struct create_order *what, struct str body, enum reason why)
{
    struct seen seen = SEEN(.into = NULL);
    struct park_ask ask = {.group = str_lit("contract"), .owner = str_lit("one"), .body = body, .key = str_lit("k"), .what = what, .why = why};
    ledger_park(world->ledger, &ask, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    struct reviewed open = reviews((struct reviews_ask){.limit = LEDGER_BATCH_MAX});
    for (size_t i = 0; i < open.count; i++)
        if (open.reviews[i].why == why && (what ? str_eq(open.reviews[i].what.reservation, what->reservation) : open.reviews[i].kind == REVIEW_MESSAGE))
            return open.reviews[i].id;
    fail();
    return (struct str){0};
}

static void a_person_decides_of_a_message(void **state)
{
    (void)state;
    struct activity a = till("dead", 9, 900);
    struct create_order m = wish(&a, 0, 1), n = wish(&a, 1, 1), o = wish(&a, 2, 1), p = wish(&a, 3, 1);
    struct str id = parked(&m, str_lit("{}"), REASON_POISON);
    assert_int_equal(resolve(id, REVIEW_DISMISS, NULL).reason, REASON_CONFLICT);        /* its unit would be nobody's business for ever */
    assert_int_equal(resolve(id, REVIEW_RETRY, NULL).a.outcome, REASON_ORDERED);        /* the dead letter is played again */
    assert_false(look(LOOK_RESERVATION, m.reservation, a.activity, m.user).a.parked);
    struct resolved r = resolve(parked(&n, str_lit("{}"), REASON_POISON), REVIEW_RELEASE, NULL);
    assert_true(r.reason == REASON_OK && r.a.outcome == REASON_RELEASED && r.a.why == REASON_RELEASED);
    assert_int_equal(unit(&a, n.token.unit).token.generation, 2);
    id = parked(&o, str_lit("{}"), REASON_POISON);
    PLACE(o);
    assert_int_equal(resolve(id, REVIEW_DISMISS, NULL).reason, REASON_OK);              /* it has a verdict now */
    id = parked(NULL, str_lit("[]"), REASON_MESSAGE_TOO_NEW);                           /* unreadable once: the caller can read it now */
    struct reviewed one = reviews((struct reviews_ask){.id = id});
    assert_str(one.reviews[0].body, str_lit("[]"));
    assert_int_equal(resolve(id, REVIEW_RETRY, NULL).reason, REASON_CONFLICT);
    assert_int_equal(resolve(id, REVIEW_RETRY, &p).a.outcome, REASON_ORDERED);
    struct create_order thief = wish(&a, 4, 1);                                         /* a message_id that belongs to another: it stays open */
    thief.message = p.message;
    id = parked(&thief, str_lit("{}"), REASON_MESSAGE_ID_REUSED);
    assert_int_equal(resolve(id, REVIEW_RETRY, NULL).reason, REASON_CONFLICT);
    assert_int_equal(reviews((struct reviews_ask){.id = id}).reviews[0].decision, REVIEW_OPEN);
    assert_int_equal(resolve(id, REVIEW_RELEASE, NULL).a.outcome, REASON_RELEASED);
    struct reviewed all = reviews((struct reviews_ask){.all = true, .limit = 3});
    assert_true(all.count == 3 && all.reviews[0].opened_ms >= all.reviews[1].opened_ms && all.reviews[0].body.len == 0);
    assert_clean(a.activity);
    finish_all();
}

/* ---- cancelling ---- */

static void a_cancel_gives_the_unit_back_at_its_next_generation(void **state)
{
    (void)state;
    finish_all();
    struct activity a = till("cancel", 9, 900);
    struct create_order m = ordered(&a, 0);
    finish_all();
    assert_canceled(cancel_one(order_of(&m), str_lit("eve")), REASON_NOT_FOUND, false);
    assert_canceled(cancel_one(str_lit("ord_no"), m.user), REASON_NOT_FOUND, false);
    assert_canceled(cancel_one(order_of(&m), m.user), REASON_CANCELED, true);
    assert_canceled(cancel_one(order_of(&m), m.user), REASON_CANCELED, false);
    struct account now = account_of(order_of(&m));
    assert_true(now.order.state == ORDER_CANCELED && now.order.canceled_ms > 0 && now.order.paid_ms == 0 && now.count == 0);
    struct ledger_unit u = unit(&a, m.token.unit);
    assert_true(u.available && !u.ordered && u.returning && u.token.generation == 2);
    struct claimed c = claim(60000);
    const struct outbox_row *back = row_of(&c, OUTBOX_RETURN, (struct str){0}, m.token.unit);
    assert_int_equal(c.count, 2);    /* the unit and the event: the entry in Redis stays ORDERED */
    assert_true(back && back->token.generation == 2 && !back->stale && event_of(&c, "CANCELED", m.reservation));
    finish_all();
    for (size_t i = 0; i < c.count; i++)
        finish(&(struct finish_item){c.rows[i].row, c.rows[i].version}, 1);
    assert_false(unit(&a, m.token.unit).returning);

    /* its user may not buy again (mission §10.1); others may, at the new generation only */
    struct create_order again = item(&a, "S", "u0", "q2", "again", s_unit(&a, 1, 1));
    struct told t = PLACE(again);
    assert_true(t.verdicts[0].outcome == REASON_RELEASED && t.verdicts[0].why == REASON_DUPLICATE_USER);
    assert_str(t.verdicts[0].superseded_by, m.reservation);
    assert_int_equal(PLACE(item(&a, "S", "x", "q", "old", s_unit(&a, 0, 1))).verdicts[0].why, REASON_STALE_GENERATION);
    assert_int_equal(PLACE(m).verdicts[0].outcome, REASON_ORDERED);    /* the verdict stands: its reservation did become an order */
    assert_int_equal(unit(&a, m.token.unit).token.generation, 2);
    c = claim(60000);
    assert_non_null(row_of(&c, OUTBOX_RETURN, (struct str){0}, m.token.unit));    /* and the return is told again, with the status */
    assert_int_equal(PLACE(item(&a, "S", "y", "q", "new", s_unit(&a, 0, 2))).verdicts[0].outcome, REASON_ORDERED);
    assert_int_equal(release(m, REASON_OVERDUE).verdicts[0].outcome, REASON_ORDERED);
    assert_clean(a.activity);
    finish_all();
}

static void many_are_cancelled_in_one_call(void **state)
{
    (void)state;
    struct activity a = till("crowd_cancel", LEDGER_BATCH_MAX, 900);
    static struct cancel_item items[LEDGER_BATCH_MAX];
    static struct create_order all[LEDGER_BATCH_MAX];
    for (int i = 0; i < LEDGER_BATCH_MAX; i++)
        all[i] = wish(&a, i, 1);
    assert_int_equal(place(all, LEDGER_BATCH_MAX).reason, REASON_OK);
    pay_one(success(&all[5], "many5"));
    for (size_t i = 0; i < LEDGER_BATCH_MAX; i++)
        items[LEDGER_BATCH_MAX - 1 - i] = (struct cancel_item){.order = order_of(&all[i]), .user = all[i].user};
    items[7] = items[8];    /* twice in one call: cancelled once */
    struct canceled c = cancel(items, LEDGER_BATCH_MAX, false, REASON_CANCELED);
    assert_int_equal(c.reason, REASON_OK);
    assert_true(c.now_ms > 0);
    for (size_t i = 0; i < LEDGER_BATCH_MAX; i++)
        assert_canceled(c.verdicts[i], i == LEDGER_BATCH_MAX - 6 ? REASON_ORDER_PAID : REASON_CANCELED, i != LEDGER_BATCH_MAX - 6 && i != 8);
    assert_int_equal(units(&a, 0, -1, true, 256).count, LEDGER_BATCH_MAX - 2);    /* all but the paid one and the one that was not named */
    assert_clean(a.activity);
    finish_all();
}

static void the_sweep_takes_what_is_overdue_and_nothing_else(void **state)
{
    (void)state;
    struct activity soon = till("soon", 9, 4), late = till("later", 9, 900);
    struct create_order m = ordered(&soon, 0), n = ordered(&soon, 1), paid = ordered(&soon, 2), o = ordered(&late, 0);
    pay_one(success(&paid, "sweep1"));
    struct cancel_item items[] = {{.order = order_of(&m)}, {.order = order_of(&paid)}, {.order = order_of(&o)}, {.order = str_lit("ord_no")}};
    struct canceled c = cancel(items, countof(items), true, REASON_PAY_TIMEOUT);
    assert_canceled(c.verdicts[0], REASON_UNCHANGED, false);
    let_pass(4200);
    struct overdues due = overdue(LEDGER_BATCH_MAX, 0);
    size_t seen = 0;
    for (size_t i = 0; i < due.count; i++) {
        const struct overdue *d = &due.orders[i];
        assert_true(d->pay_deadline_ms <= due.now_ms && (i == 0 || due.orders[i - 1].pay_deadline_ms <= d->pay_deadline_ms));
        assert_false(str_eq(d->order, order_of(&paid)) || str_eq(d->order, order_of(&o)));
        if (str_eq(d->order, order_of(&m))) {
            assert_true(d->amount == 100 && str_eq(d->currency, str_lit("CNY")) && str_eq(d->user, m.user) && str_eq(d->activity, soon.activity));
            seen++;
        }
        seen += str_eq(d->order, order_of(&n));
    }
    assert_int_equal(seen, 2);
    assert_int_equal(overdue(1, 0).count, 1);
    struct overdues page = overdue_after(NULL, 1);    /* one after another, each behind the last: the same ones, and an end */
    for (size_t i = 0; i < due.count; i++) {
        assert_true(page.count == 1 && str_eq(page.orders[0].order, due.orders[i].order));
        page = overdue_after(&page.orders[0], 1);
    }
    assert_int_equal(page.count, 0);
    assert_int_equal(overdue(LEDGER_BATCH_MAX, 600000).count, 0);
    c = cancel(items, countof(items), true, REASON_PAY_TIMEOUT);
    assert_canceled(c.verdicts[0], REASON_CANCELED, true);
    assert_canceled(c.verdicts[1], REASON_ORDER_PAID, false);
    assert_canceled(c.verdicts[2], REASON_UNCHANGED, false);
    assert_canceled(c.verdicts[3], REASON_NOT_FOUND, false);
    assert_paid(pay_one(success(&n, "sweep2")), REASON_PAYMENT_APPLIED, REASON_OK, true, false);    /* overdue, and nobody has cancelled it: it is paid */
    assert_clean(soon.activity);
    assert_clean(late.activity);
    finish_all();
}

/* ---- why ---- */

static size_t told_at(const struct told_story *s, enum story_kind kind, struct str reservation, size_t from)
{
    for (size_t i = from; i < s->count; i++)
        if (s->events[i].kind == kind && (reservation.len == 0 || str_eq(s->events[i].reservation, reservation)))
            return i;
    for (size_t i = 0; i < s->count; i++)
        print_error("%zu: %s " STR_FMT " " STR_FMT "\n", i, story_word(s->events[i].kind), STR_ARG(s->events[i].reservation), STR_ARG(s->events[i].payment));
    fail_msg("no %s after %zu", story_word(kind), from);
    return 0;
}

/* A unit sold, cancelled, resold and paid late: who held it when, why it came back, what was refunded. */
static void the_story_of_a_unit(void **state)
{
    (void)state;
    finish_all();
    struct activity a = till("tale", 2, 1);
    struct create_order m = ordered(&a, 0), n = item(&a, "S", "next", "q", "next", s_unit(&a, 0, 2));
    let_pass(1200);
    assert_canceled(cancel(&(struct cancel_item){.order = order_of(&m)}, 1, true, REASON_PAY_TIMEOUT).verdicts[0], REASON_CANCELED, true);
    finish_all();
    let_pass(5);
    assert_int_equal(PLACE(n).verdicts[0].outcome, REASON_ORDERED);
    let_pass(5);
    pay_one(success(&m, "tale1"));
    let_pass(5);
    pay_one(success(&n, "tale2"));
    let_pass(5);
    finish_all();
    struct told_story s = story((struct story_ask){.by = STORY_UNIT, .unit = m.token.unit});
    size_t at = told_at(&s, STORY_CONSUMED, m.reservation, 0);
    assert_str(s.events[at].user, m.user);
    assert_int_equal(s.events[at].token.generation, 1);
    at = told_at(&s, STORY_CANCELED, m.reservation, at);
    assert_int_equal(s.events[at].why, REASON_PAY_TIMEOUT);
    at = told_at(&s, STORY_FREED, m.reservation, at);
    assert_true(s.events[at].why == REASON_PAY_TIMEOUT && s.events[at].token.generation == 2);
    at = told_at(&s, STORY_RESTOCKED, m.reservation, at);
    at = told_at(&s, STORY_CONSUMED, n.reservation, at);
    assert_int_equal(s.events[at].token.generation, 2);
    at = told_at(&s, STORY_PAYMENT_HEARD, (struct str){0}, at);
    assert_true(s.events[at].outcome == REASON_PAYMENT_AFTER_CANCEL && str_eq(s.events[at].payment, str_lit("tale1")) && s.events[at].amount == 100);
    size_t asked = told_at(&s, STORY_REFUND, (struct str){0}, at), done = told_at(&s, STORY_REFUND, (struct str){0}, asked + 1);
    assert_true(s.events[asked].refund == REFUND_REQUESTED && s.events[done].refund == REFUND_DONE && str_eq(s.events[done].payment, str_lit("tale1")));
    at = told_at(&s, STORY_PAID, n.reservation, at);
    assert_str(s.events[at].payment, str_lit("tale2"));
    for (size_t i = 1; i < s.count; i++)
        assert_true(s.events[i - 1].at_ms <= s.events[i].at_ms);

    struct told_story mine = story((struct story_ask){.by = STORY_RESERVATION, .id = m.reservation});
    told_at(&mine, STORY_DECIDED, m.reservation, 0);
    for (size_t i = 0; i < mine.count; i++)
        assert_false(str_eq(mine.events[i].reservation, n.reservation));    /* another's business */
    struct told_story by_order = story((struct story_ask){.by = STORY_ORDER, .id = order_of(&m)});
    struct told_story by_payment = story((struct story_ask){.by = STORY_PAYMENT, .id = str_lit("tale1")});
    struct told_story by_user = story((struct story_ask){.by = STORY_USER, .id = m.user, .activity = a.activity});
    assert_int_equal(by_order.count, mine.count);
    assert_int_equal(by_payment.count, mine.count);
    assert_int_equal(by_user.count, mine.count);
    struct told_story newest = story((struct story_ask){.by = STORY_UNIT, .unit = m.token.unit, .limit = 3});
    assert_int_equal(newest.count, 3);
    assert_int_equal(newest.events[2].kind, s.events[s.count - 1].kind);
    assert_int_equal(story((struct story_ask){.by = STORY_ORDER, .id = str_lit("ord_no")}).count, 0);
    assert_clean(a.activity);
}

static void the_story_of_money_that_a_person_sent_back(void **state)
{
    (void)state;
    struct activity a = till("tale2", 2, 900);
    struct create_order m = ordered(&a, 0);
    pay_one(callback(order_of(&m), "back1", PAYMENT_SUCCESS, 7, "CNY"));
    resolve(review_of("back1").id, REVIEW_RELEASE, NULL);
    struct told_story s = story((struct story_ask){.by = STORY_ORDER, .id = order_of(&m)});
    size_t at = told_at(&s, STORY_REVIEW, (struct str){0}, 0);
    assert_true(s.events[at].why == REASON_WRONG_AMOUNT && s.events[at].amount == 7);
    at = told_at(&s, STORY_RESOLVED, (struct str){0}, 0);
    assert_str(s.events[at].detail, str_lit("RELEASE by ann: looked at it"));
    at = told_at(&s, STORY_REFUND, (struct str){0}, 0);
    assert_int_equal(s.events[at].why, REASON_PAYMENT_QUARANTINED);
    s = story((struct story_ask){.by = STORY_PAYMENT, .id = str_lit("back1")});
    told_at(&s, STORY_RESOLVED, (struct str){0}, 0);
    finish_all();
}

/* ---- edges ---- */

static void poison_leaves_nothing_of_its_batch(void **state)
{
    (void)state;
    struct activity a = till("bane", 4, 900);
    struct create_order m = ordered(&a, 0);
    struct pay_item good = success(&m, "n1");
    struct pay_item bad[4];
    for (size_t i = 0; i < countof(bad); i++)
        bad[i] = success(&m, "n2");
    bad[0].webhook = (struct str){0};
    bad[1].what.payment = words("%065d", 1);
    bad[2].what.channel = (struct str){"\xff", 1};
    bad[3].webhook = words("%0256d", 1);
    for (size_t i = 0; i < countof(bad); i++)
        assert_int_equal(pay((struct pay_item[]){good, bad[i]}, 2).reason, REASON_POISON);
    assert_int_equal(account_of(order_of(&m)).order.state, ORDER_CREATED);
    assert_paid(pay_one(good), REASON_PAYMENT_APPLIED, REASON_OK, true, false);
    assert_int_equal(pay(NULL, 0).reason, REASON_OK);
    assert_int_equal(cancel(NULL, 0, false, REASON_CANCELED).reason, REASON_OK);
    assert_clean(a.activity);
}

#define CROWD 24
/* Payments and cancels of one order, all in flight at once: one of them has it. */
static void calls_in_flight_collide_safely(void **state)
{
    (void)state;
    struct activity a = till("clash", 4, 900);
    struct create_order m = ordered(&a, 0);
    static struct seen seen[CROWD];
    static struct paid paid[CROWD];
    static struct canceled canceled[CROWD];
    for (int i = 0; i < CROWD; i++) {
        struct pay_item item = success(&m, words("clash%d%c", i / 4, 0).ptr);
        if (i % 3 == 0) {
            seen[i] = SEEN(.keep = canceled_keep, .into = &canceled[i]);
            ledger_cancel(world->ledger, &(struct cancel_ask){.items = &(struct cancel_item){.order = order_of(&m)}, .count = 1, .why = REASON_CANCELED}, &seen[i].waiter);
        } else {
            seen[i] = SEEN(.keep = paid_keep, .into = &paid[i]);
            ledger_pay(world->ledger, &(struct pay_ask){.items = &item, .count = 1}, &seen[i].waiter);
        }
    }
    int won = 0;
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(seen_await(world, &seen[i]), REASON_OK);
        won += i % 3 == 0 ? canceled[i].verdicts[0].fresh : paid[i].verdicts[0].outcome == REASON_PAYMENT_APPLIED;
    }
    assert_int_equal(won, 1);
    assert_clean(a.activity);
    finish_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_success_pays_its_order_once),
        cmocka_unit_test(a_failed_payment_leaves_the_order_open),
        cmocka_unit_test(the_second_payment_goes_back_once),
        cmocka_unit_test(money_after_a_cancel_goes_back_and_the_order_stays_cancelled),
        cmocka_unit_test(every_permutation_ends_as_it_must),
        cmocka_unit_test(a_batch_is_judged_as_if_one_by_one),
        cmocka_unit_test(an_order_tells_its_first_payments),
        cmocka_unit_test(what_does_not_fit_is_set_aside_with_its_money),
        cmocka_unit_test(nothing_is_recorded_while_an_order_may_still_come),
        cmocka_unit_test(money_for_a_released_reservation_goes_back_by_itself),
        cmocka_unit_test(a_person_decides_of_a_payment),
        cmocka_unit_test(every_decision_on_every_review_of_money),
        cmocka_unit_test(a_failed_payment_fixes_no_amount),
        cmocka_unit_test(two_channels_may_use_one_webhook_id),
        cmocka_unit_test(a_free_order_is_paid_at_once),
        cmocka_unit_test(a_refund_that_is_not_given_rests_and_then_calls_an_operator),
        cmocka_unit_test(a_person_decides_of_a_message),
        cmocka_unit_test(a_cancel_gives_the_unit_back_at_its_next_generation),
        cmocka_unit_test(many_are_cancelled_in_one_call),
        cmocka_unit_test(the_sweep_takes_what_is_overdue_and_nothing_else),
        cmocka_unit_test(the_story_of_a_unit),
        cmocka_unit_test(the_story_of_money_that_a_person_sent_back),
        cmocka_unit_test(poison_leaves_nothing_of_its_batch),
        cmocka_unit_test(calls_in_flight_collide_safely),
    };
    cmocka_set_test_filter(getenv("SECKILL_TEST_ONLY"));
    return cmocka_run_group_tests_name("money", tests, world_begin, world_end);
}

/* SPDX-License-Identifier: Apache-2.0
 * Callbacks and cancels on their way to the ledger (counter.h, payment.h), the sweep of unpaid orders (sweep.h), refunds through the relay, timer
 * messages heard (hint.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "fake.h"
#include "hint.h"
#include "json.h"
#include "log.h"
#include "payment.h"
#include "relay.h"
#include "sweep.h"

static struct fake k;
static struct desk d;

static void desk_begin(size_t waiting)
{
    struct desk_options o = desk_options_default();
    fake_init(&k);
    o.pays.waiting = o.cancels.waiting = waiting;
    assert_true(desk_init(&d, &k.store, &k.bus, &k.ledger, &k.clock.clock, &k.random.random, &k.keys, o));
}

static void desk_end(void)
{
    desk_stop(&d);
    desk_free(&d);
    fake_end(&k);
}

static void is_queried(struct query *q) { (void)q; }

/* ---- callbacks --------------------------------------------------------------------------------------------------------------------------- */

struct heard {
    struct payment_callback callback;
    char payment[16], webhook[16], order[IDENT_ID_TEXT];
    bool done;
};
static void is_heard(struct payment_callback *p) { container_of(p, struct heard, callback)->done = true; }

static void callback(struct heard *h, unsigned n)
{
    struct ident ident = fake_entry(&k, str_lit("user"), RESERVATION_ORDERED, 1000).ident;
    ident_write(ident, IDENT_ORDER, h->order);
    snprintf(h->payment, sizeof h->payment, "pay-%u", n);
    snprintf(h->webhook, sizeof h->webhook, "hook-%u", n);
    h->done = false;
    h->callback = (struct payment_callback){.webhook = str_of(h->webhook), .body = str_lit("{}"), .done = is_heard,
        .what = {.payment = str_of(h->payment), .order = {h->order, IDENT_ID_TEXT}, .result = PAYMENT_SUCCESS, .amount = 100, .currency = str_lit("CNY"), .channel = str_lit("c")}};
}

static void callbacks_travel_together(void **state)
{
    (void)state;
    static struct heard all[100];
    desk_begin(1024);
    for (unsigned i = 0; i < countof(all); i++) {
        callback(&all[i], i);
        assert_false(payment_start(&d, &all[i].callback));
    }
    fake_pass(&k, 50);
    for (unsigned i = 0; i < countof(all); i++)
        assert_true(all[i].done && all[i].callback.reason == REASON_PAYMENT_APPLIED);
    assert_int_equal(k.payments, 100);
    assert_int_equal(k.calls[FAKE_PAY], 2);
    assert_string_equal(k.last_paid, "pay-99");    /* in the order in which they came */
    assert_true(desk_idle(&d));
    desk_end();
}

static enum reason one_is_bad(const struct pay_item *i) { return str_eq(i->what.payment, str_lit("pay-7")) ? REASON_POISON : REASON_PAYMENT_APPLIED; }

static void a_bad_one_spoils_nobody_elses(void **state)
{
    (void)state;
    static struct heard all[20];
    desk_begin(1024);
    k.judge_pay = one_is_bad;
    for (unsigned i = 0; i < countof(all); i++) {
        callback(&all[i], i);
        assert_false(payment_start(&d, &all[i].callback));
    }
    fake_pass(&k, 200);
    for (unsigned i = 0; i < countof(all); i++) {
        assert_true(all[i].done);
        assert_int_equal(all[i].callback.reason, i == 7 ? REASON_PAYMENT_QUARANTINED : REASON_PAYMENT_APPLIED);
    }
    assert_int_equal(k.callbacks, 1);    /* an operator reads it */
    desk_end();
}

/* Signed and not understood: it is recorded before it is answered, and nothing is said that is not so. */
static void an_unreadable_callback_is_recorded(void **state)
{
    (void)state;
    struct heard h;
    desk_begin(8);
    callback(&h, 1);
    h.callback.unreadable = true;
    assert_false(payment_start(&d, &h.callback));
    fake_pass(&k, 50);
    assert_true(h.done && h.callback.reason == REASON_PAYMENT_QUARANTINED && k.callbacks == 1 && k.payments == 0);
    k.inject_op = FAKE_CALLBACK;
    k.inject = REASON_TIMED_OUT;
    h.done = false;
    assert_false(payment_start(&d, &h.callback));
    fake_pass(&k, 10000);
    assert_true(h.done && h.callback.reason == REASON_DEPENDENCY_DOWN);
    h.done = false;
    assert_false(payment_start(&d, &h.callback));
    payment_let_go(&h.callback);
    fake_pass(&k, 10000);
    assert_false(h.done);
    desk_end();
}

/* Whatever the ledger's silence means, the channel is told to come again; nobody waits for ever. */
static void silence_is_come_again(void **state)
{
    (void)state;
    static const enum reason reasons[] = {REASON_TIMED_OUT, REASON_LINK_LOST, REASON_UNCERTAIN, REASON_ENGINE_BUSY, REASON_DEPENDENCY_DOWN, REASON_ENGINE_FAULT};
    struct heard h;
    for (size_t i = 0; i < countof(reasons); i++) {
        desk_begin(8);
        k.inject_op = FAKE_PAY;
        k.inject = reasons[i];
        callback(&h, 1);
        assert_false(payment_start(&d, &h.callback));
        fake_pass(&k, 10000);
        assert_true(h.done && h.callback.reason == REASON_DEPENDENCY_DOWN);
        desk_end();
    }
}

static void callbacks_that_wait_have_an_edge(void **state)
{
    (void)state;
    static struct heard all[600];
    desk_begin(512);
    k.inject_op = FAKE_PAY;
    k.inject = REASON_TIMED_OUT;
    k.silent = true;
    for (unsigned i = 0; i < countof(all); i++) {
        callback(&all[i], i);
        bool at_once = payment_start(&d, &all[i].callback);
        assert_int_equal(at_once, i >= 512);
        if (at_once)
            assert_int_equal(all[i].callback.reason, REASON_OVERLOADED);
    }
    fake_pass(&k, 3100);    /* the deadline of the first that left, and the patience of those that have not left */
    size_t done = 0;
    for (unsigned i = 0; i < 512; i++)
        done += all[i].done;
    assert_int_equal(done, 512 - 2 * LEDGER_PAY_MAX);
    fake_pass(&k, 1000);
    for (unsigned i = 0; i < 512; i++)
        assert_true(all[i].done && all[i].callback.reason == REASON_DEPENDENCY_DOWN);
    assert_true(desk_idle(&d));
    desk_end();
}

static void who_has_gone_is_not_told(void **state)
{
    (void)state;
    struct heard stays, goes, leaves;
    desk_begin(8);
    callback(&stays, 1), callback(&goes, 2), callback(&leaves, 3);
    assert_false(payment_start(&d, &stays.callback));
    assert_false(payment_start(&d, &goes.callback));
    assert_false(payment_start(&d, &leaves.callback));
    payment_let_go(&goes.callback);    /* before it has left */
    fake_pass(&k, 1);
    payment_let_go(&leaves.callback);  /* while it is under way */
    fake_pass(&k, 20);
    assert_true(stays.done && !goes.done && !leaves.done);
    assert_int_equal(k.payments, 2);
    assert_true(desk_idle(&d));
    desk_end();
}

/* Bounds: a hundred orders a second are looked up for reservations that the store calls ORDERED; the rest is shown without. */
static void orders_looked_up_a_second(void **state)
{
    (void)state;
    static struct query all[150];
    static char names[150][IDENT_ID_TEXT];
    size_t dressed = 0;
    desk_begin(8);
    desk_start(&d);
    fake_pass(&k, 100);
    size_t before = k.calls[FAKE_LEDGER_LOOK];
    k.entry = fake_entry(&k, str_lit("user"), RESERVATION_ORDERED, 1000);
    k.ledger_look = REASON_OK;
    k.looked = (struct ledger_look_answer){.decided = true, .verdict.outcome = REASON_ORDERED, .has_order = true, .order = {.user = str_lit("user"), .state = ORDER_PAID, .pay_deadline_ms = 5}};
    ident_write(k.entry.ident, IDENT_RESERVATION, names[0]);
    k.looked.what.reservation = (struct str){names[0], IDENT_ID_TEXT};
    for (size_t i = 0; i < countof(all); i++) {
        ident_write(k.entry.ident, IDENT_RESERVATION, names[i]);
        all[i] = (struct query){.by = QUERY_RESERVATION, .id = {names[i], IDENT_ID_TEXT}, .user = str_lit("user"), .done = is_queried};
        assert_false(query_start(&d, &all[i]));
    }
    fake_pass(&k, 100);
    for (size_t i = 0; i < countof(all); i++) {
        assert_int_equal(all[i].reason, REASON_OK);
        assert_int_equal(all[i].view.status, RESERVATION_ORDERED);
        dressed += all[i].view.has_order && all[i].view.order_state == ORDER_PAID;
    }
    assert_int_equal(dressed, 100);
    assert_int_equal(k.calls[FAKE_LEDGER_LOOK] - before, 100);
    desk_end();
}

/* ---- cancels ----------------------------------------------------------------------------------------------------------------------------------- */

static bool canceled;
static void is_canceled(struct payment_cancel *p) { (void)p, canceled = true; }

static void a_cancel_is_its_users(void **state)
{
    (void)state;
    char order[IDENT_ID_TEXT];
    desk_begin(8);
    ident_write(fake_entry(&k, str_lit("user"), RESERVATION_ORDERED, 1000).ident, IDENT_ORDER, order);
    struct payment_cancel mine = {.order = {order, sizeof order}, .user = str_lit("user"), .done = is_canceled}, his = mine, made_up = mine;
    his.user = str_lit("other");
    made_up.order = str_lit("ord_00000000000000000000000000");
    assert_true(payment_cancel_start(&d, &his) && his.reason == REASON_NOT_FOUND);
    assert_true(payment_cancel_start(&d, &made_up) && made_up.reason == REASON_NOT_FOUND);
    assert_int_equal(k.calls[FAKE_CANCEL], 0);
    canceled = false;
    assert_false(payment_cancel_start(&d, &mine));
    fake_pass(&k, 20);
    assert_true(canceled && mine.reason == REASON_CANCELED && !k.due_only);
    k.canceled = REASON_ORDER_PAID;
    canceled = false;
    assert_false(payment_cancel_start(&d, &mine));
    fake_pass(&k, 20);
    assert_true(canceled && mine.reason == REASON_ORDER_PAID);
    k.canceled = REASON_ENGINE_BUSY;    /* another call holds the order at this moment: the user is told to come again */
    canceled = false;
    assert_false(payment_cancel_start(&d, &mine));
    fake_pass(&k, 1000);
    assert_true(canceled && mine.reason == REASON_OVERLOADED);
    desk_end();
}

/* ---- the sweep ---------------------------------------------------------------------------------------------------------------------------------- */

static struct sweep s;

static void sweep_begin(size_t overdue, bool channel)
{
    static char names[8][40];
    struct sweep_options o = sweep_options_default();
    fake_init(&k);
    for (size_t i = 0; i < overdue; i++) {
        snprintf(names[i], sizeof names[i], "ord_%026zu", i);
        k.overdues[i] = (struct overdue){.order = str_of(names[i]), .amount = 100, .currency = str_lit("CNY")};
    }
    k.overdue_count = overdue;
    o.channel = channel ? &k.channel : NULL;
    assert_true(sweep_init(&s, &k.ledger, &k.clock.clock, &k.random.random, o));
    sweep_start(&s);
}

static void sweep_end(void)
{
    sweep_drain(&s);
    fake_pass(&k, 10000);
    assert_true(sweep_idle(&s));
    sweep_free(&s);
    fake_end(&k);
}

static void what_is_overdue_is_cancelled(void **state)
{
    (void)state;
    sweep_begin(5, false);
    fake_pass(&k, 4000);
    assert_int_equal(k.cancels, 5);
    assert_true(k.due_only);    /* and judged once more by the ledger's clock */
    assert_int_equal(s.facts.canceled, 5);
    fake_pass(&k, 60000);
    assert_int_equal(k.cancels, 5);
    assert_true(k.calls[FAKE_OVERDUE] > 15 && k.calls[FAKE_OVERDUE] < 70);
    sweep_end();
}

static void what_the_channel_knows_is_told_first(void **state)
{
    (void)state;
    sweep_begin(3, true);
    k.known[0] = (struct payment){.payment = str_lit("p-lost"), .order = k.overdues[1].order, .result = PAYMENT_SUCCESS, .amount = 100, .currency = str_lit("CNY"), .channel = str_lit("c")};
    k.known[1] = k.known[0];
    k.known[1].payment = str_lit("p-failed"), k.known[1].result = PAYMENT_FAILED;
    k.known_count = 2;
    fake_pass(&k, 4000);
    assert_int_equal(k.calls[FAKE_ASK], 3);
    assert_int_equal(k.payments, 1);
    assert_string_equal(k.last_paid, "p-lost");
    assert_int_equal(k.cancels, 3);    /* the ledger knows which of them is paid */
    assert_int_equal(s.facts.paid, 1);
    sweep_end();
}

/* Its payment could not be told: it is spared, not cancelled. */
static void who_has_paid_is_spared_until_the_ledger_knows(void **state)
{
    (void)state;
    sweep_begin(1, true);
    k.known[0] = (struct payment){.payment = str_lit("p"), .order = k.overdues[0].order, .result = PAYMENT_SUCCESS, .amount = 100, .currency = str_lit("CNY"), .channel = str_lit("c")};
    k.known_count = 1;
    k.inject_op = FAKE_PAY;
    k.inject = REASON_UNCERTAIN;
    fake_pass(&k, 20000);
    assert_true(k.calls[FAKE_PAY] > 2);
    assert_int_equal(k.cancels, 0);
    k.inject = REASON_OK;
    fake_pass(&k, 4000);
    assert_int_equal(k.payments, 1);
    sweep_end();
}

/* Of eight, two a look. */
static void sweep_begin_by_twos(struct channel *channel)
{
    static const char *const names[8] = {"ord_0", "ord_1", "ord_2", "ord_3", "ord_4", "ord_5", "ord_6", "ord_7"};
    struct sweep_options o = sweep_options_default();
    fake_init(&k);
    for (size_t i = 0; i < 8; i++)
        k.overdues[i] = (struct overdue){.order = str_of(names[i]), .place = (int64_t)i + 1, .amount = 100, .currency = str_lit("CNY")};
    k.overdue_count = 8;
    o.batch = 2;
    o.channel = channel;
    assert_true(sweep_init(&s, &k.ledger, &k.clock.clock, &k.random.random, o));
    sweep_start(&s);
}

static enum reason oldest_four_held(const struct cancel_item *i) { return i->order.ptr[4] < '4' ? REASON_ENGINE_BUSY : REASON_CANCELED; }

static void sweep_goes_on_behind_held_orders(void **state)
{
    (void)state;
    sweep_begin_by_twos(NULL);
    k.judge_cancel = oldest_four_held;
    fake_pass(&k, 5000);
    assert_int_equal(s.facts.canceled, 4);
    assert_int_equal(k.overdue_count, 4);
    k.judge_cancel = NULL;    /* and comes back for them */
    fake_pass(&k, 8000);
    assert_int_equal(s.facts.canceled, 8);
    sweep_end();
}

static enum reason fifth_waits(const struct cancel_item *i) { return i->order.ptr[4] == '5' ? REASON_LOCK_TIMEOUT : REASON_CANCELED; }
static enum reason all_wait(const struct cancel_item *i) { return (void)i, REASON_LOCK_TIMEOUT; }

/* Bounds: a look whose parts all wait for somebody ends after so many. */
static void a_held_order_holds_up_no_other(void **state)
{
    (void)state;
    static const char *const names[8] = {"ord_0", "ord_1", "ord_2", "ord_3", "ord_4", "ord_5", "ord_6", "ord_7"};
    sweep_begin(0, false);
    for (size_t i = 0; i < 8; i++)
        k.overdues[i] = (struct overdue){.order = str_of(names[i])};
    k.overdue_count = 8;
    k.judge_cancel = fifth_waits;
    fake_pass(&k, 5000);
    assert_int_equal(s.facts.canceled, 7);
    assert_int_equal(k.overdue_count, 1);
    sweep_end();

    struct sweep_options o = sweep_options_default();
    fake_init(&k);
    for (size_t i = 0; i < 8; i++)
        k.overdues[i] = (struct overdue){.order = str_of(names[i])};
    k.overdue_count = 8;
    k.judge_cancel = all_wait;
    o.every_ms = 600000;
    assert_true(sweep_init(&s, &k.ledger, &k.clock.clock, &k.random.random, o));
    s.options.every_ms = 2000;
    sweep_start(&s);
    s.options.every_ms = 600000;
    fake_pass(&k, 100000);
    assert_int_equal(k.calls[FAKE_OVERDUE], 1);
    assert_int_equal(k.calls[FAKE_CANCEL], 1 + 8);    /* all of them, then each alone */
    sweep_end();
}

static enum reason third_cannot_be_told(const struct pay_item *i) { return str_eq(i->what.order, str_lit("ord_3")) ? REASON_POISON : REASON_PAYMENT_APPLIED; }

/* A payment that can never be told to the ledger spares its own order, and nobody else's. */
static void a_payment_that_cannot_be_told_spares_its_order_alone(void **state)
{
    (void)state;
    sweep_begin(4, true);
    for (size_t i = 0; i < 4; i++) {
        static const char *const names[4] = {"ord_0", "ord_1", "ord_2", "ord_3"}, *const payments[4] = {"pay_0", "pay_1", "pay_2", "pay_3"};
        k.overdues[i].order = str_of(names[i]);
        k.known[i] = (struct payment){.payment = str_of(payments[i]), .order = str_of(names[i]), .result = PAYMENT_SUCCESS, .amount = 100, .currency = str_lit("CNY"), .channel = str_lit("c")};
    }
    k.known_count = 4;
    k.judge_pay = third_cannot_be_told;
    fake_pass(&k, 2800);
    assert_int_equal(s.facts.paid, 3);
    assert_int_equal(k.cancels, 3);                      /* which the ledger knows to be paid */
    assert_string_equal(k.last_canceled, "ord_2");
    sweep_end();
}

static void a_silent_channel_keeps_no_unit(void **state)
{
    (void)state;
    sweep_begin(8, true);
    k.inject_op = FAKE_ASK;
    k.inject = REASON_TIMED_OUT;
    k.silent = true;
    fake_pass(&k, 8000);
    assert_int_equal(k.cancels, 8);
    sweep_end();
}

/* Not silence: the order may be paid. It is spared for 15 minutes behind its deadline; what can be read of the answer is told all the same. */
static void an_answer_that_cannot_be_understood_spares_the_order(void **state)
{
    (void)state;
    static const enum reason reasons[] = {REASON_ENGINE_FAULT, REASON_ENGINE_REFUSED, REASON_OK};
    for (size_t i = 0; i < countof(reasons); i++) {
        sweep_begin(2, true);
        int64_t now = clock_now_ms(&k.clock.clock);
        k.overdues[0].pay_deadline_ms = k.overdues[1].pay_deadline_ms = now - 2000;
        k.unreadable = reasons[i] == REASON_OK;
        k.inject_op = FAKE_ASK;
        k.inject = reasons[i];
        fake_pass(&k, 600000);
        assert_int_equal(k.cancels, 0);
        assert_true(s.facts.not_understood > 100);
        fake_pass(&k, 310000);
        assert_int_equal(k.cancels, 2);    /* bounded */
        sweep_end();
    }
    sweep_begin(1, true);
    k.overdues[0].pay_deadline_ms = clock_now_ms(&k.clock.clock);
    k.known[0] = (struct payment){.payment = str_lit("p"), .order = k.overdues[0].order, .result = PAYMENT_SUCCESS, .amount = 100, .currency = str_lit("CNY"), .channel = str_lit("c")};
    k.known_count = k.unreadable = 1;
    fake_pass(&k, 4000);
    assert_true(k.payments >= 1 && k.cancels == 0);
    sweep_end();
}

/* Bounds: after as many unanswered questions as fit under way the channel is left alone for a while. */
static void questions_to_a_silent_channel(void **state)
{
    (void)state;
    sweep_begin(8, true);
    k.canceled = REASON_ENGINE_BUSY;    /* they stay overdue */
    k.inject_op = FAKE_ASK;
    k.inject = REASON_DEPENDENCY_DOWN;
    fake_pass(&k, 30000);
    assert_true(k.calls[FAKE_OVERDUE] > 8);
    assert_true(k.calls[FAKE_ASK] >= 16 && k.calls[FAKE_ASK] <= 4 * 16);
    sweep_end();
}

static void a_jump_of_the_clock_pauses_the_sweep(void **state)
{
    (void)state;
    sweep_begin(0, false);
    fake_pass(&k, 5000);
    k.ahead_ms = 3600000;
    k.overdue_count = 4;    /* all that are being paid just now seem overdue */
    k.overdues[0].order = k.overdues[1].order = k.overdues[2].order = k.overdues[3].order = str_lit("ord_1");
    fake_pass(&k, 100000);
    assert_int_equal(k.cancels, 0);
    assert_true(s.facts.paused);
    k.ahead_ms = 0;         /* it is put right: believed at once */
    fake_pass(&k, 4000);
    assert_false(s.facts.paused);
    assert_int_equal(k.cancels, 4);
    k.ahead_ms = -7200000;  /* another, which stays: believed after a while */
    k.overdue_count = 1;
    fake_pass(&k, 60000);
    assert_true(s.facts.paused && k.cancels == 4);
    fake_pass(&k, 70000);
    assert_false(s.facts.paused);
    assert_int_equal(k.cancels, 5);
    assert_int_equal(s.facts.jumps, 2);
    sweep_end();
}

/* A clock that only drifts is followed. */
static void a_drift_is_no_jump(void **state)
{
    (void)state;
    sweep_begin(0, false);
    for (int i = 0; i < 120; i++) {
        k.ahead_ms += 100;
        fake_pass(&k, 1000);
    }
    assert_int_equal(s.facts.jumps, 0);
    sweep_end();
}

/* The process stood still while its first answer waited: it does not know where the clock is, and what it sees next is no jump. */
static void a_bad_first_measure_is_no_jump(void **state)
{
    (void)state;
    sweep_begin(0, false);
    k.overdue_way_ms = 12000;
    while (k.calls[FAKE_OVERDUE] == 0)
        fake_pass(&k, 100);
    k.overdue_way_ms = 0;
    k.overdue_count = 1;
    k.overdues[0].order = str_lit("ord_1");
    fake_pass(&k, 16000);
    assert_int_equal(s.facts.jumps, 0);
    assert_int_equal(k.cancels, 1);
    k.ahead_ms = 5000;         /* and from the second on it is known well enough to see a small one */
    fake_pass(&k, 4000);
    assert_int_equal(s.facts.jumps, 1);
    sweep_end();
}

/* So also where a jump is believed in the end: what is measured then is trusted, however long it was under way. */
static void a_jump_believed_by_a_slow_answer(void **state)
{
    (void)state;
    sweep_begin(0, false);
    fake_pass(&k, 5000);
    k.ahead_ms = 60000;
    k.overdue_way_ms = 2500;
    fake_pass(&k, 140000);
    assert_false(s.facts.paused);
    k.overdue_way_ms = 0;
    fake_pass(&k, 10000);
    assert_int_equal(s.facts.jumps, 1);
    sweep_end();
}

static void whatever_fails_the_sweep_goes_on(void **state)
{
    (void)state;
    static const enum fake_op ops[] = {FAKE_OVERDUE, FAKE_ASK, FAKE_PAY, FAKE_CANCEL};
    static const enum reason reasons[] = {REASON_TIMED_OUT, REASON_LINK_LOST, REASON_UNCERTAIN, REASON_ENGINE_BUSY, REASON_DEPENDENCY_DOWN, REASON_OVERLOADED};
    for (size_t o = 0; o < countof(ops); o++)
        for (size_t r = 0; r < countof(reasons); r++) {
            sweep_begin(2, true);
            k.known[0] = (struct payment){.payment = str_lit("p"), .order = k.overdues[0].order, .result = PAYMENT_SUCCESS, .currency = str_lit("CNY"), .channel = str_lit("c")};
            k.known_count = 1;
            k.inject_op = ops[o];
            k.inject = reasons[r];
            k.inject_until = 3;
            fake_pass(&k, 60000);
            assert_true(k.cancels >= 2 && k.overdue_count == 0);
            sweep_end();
        }
}

/* Bounds: as many as one look holds, and the next look at once while there are more. */
static void looks_of_the_sweep(void **state)
{
    (void)state;
    struct sweep_options o = sweep_options_default();
    fake_init(&k);
    for (size_t i = 0; i < 8; i++)
        k.overdues[i].order = str_lit("ord_1");
    k.overdue_count = 8;
    o.batch = 2;
    o.every_ms = 10000;
    assert_true(sweep_init(&s, &k.ledger, &k.clock.clock, &k.random.random, o));
    sweep_start(&s);
    fake_pass(&k, 16000);
    assert_int_equal(k.cancels, 8);
    assert_int_equal(k.calls[FAKE_CANCEL], 4);
    sweep_end();
}

static void a_hint_is_a_look(void **state)
{
    (void)state;
    struct sweep_options o = sweep_options_default();
    fake_init(&k);
    o.every_ms = 600000;
    assert_true(sweep_init(&s, &k.ledger, &k.clock.clock, &k.random.random, o));
    sweep_start(&s);
    sweep_hint(&s);
    sweep_hint(&s);
    fake_pass(&k, 1500);
    assert_int_equal(k.calls[FAKE_OVERDUE], 1);
    sweep_end();
}

/* ---- timer messages --------------------------------------------------------------------------------------------------------------------------------- */

static size_t hints;
static void hint_heard(struct hint *h, size_t messages) { (void)h, hints += messages; }

static void hints_are_heard_from_the_end_on(void **state)
{
    (void)state;
    struct hint h;
    fake_init(&k);
    hints = 0;
    k.messages[0] = (struct pulled){.offset = 0, .unique = str_lit("u"), .body = str_lit("{}")};
    k.message_count = 1;
    hint_init(&h, &k.bus, &k.clock.clock, &k.random.random, hint_options_default(), hint_heard);
    hint_start(&h);
    fake_pass(&k, 3000);
    assert_int_equal(hints, 0);    /* what was there before is the sweep's */
    k.messages[1] = (struct pulled){.offset = 1, .unique = str_lit("v"), .body = str_lit("{}")};
    k.message_count = 2;
    fake_pass(&k, 60000);
    assert_int_equal(hints, 1);
    assert_true(k.calls[FAKE_PULL] < 400);    /* the fake holds no call: it is not asked without a rest */
    k.inject_op = FAKE_PULL;
    k.inject = REASON_LINK_LOST;
    fake_pass(&k, 60000);
    k.inject = REASON_OK;
    k.messages[2] = (struct pulled){.offset = 2, .unique = str_lit("w"), .body = str_lit("{}")};
    k.message_count = 3;
    fake_pass(&k, 60000);
    assert_int_equal(hints, 2);
    hint_stop(&h);
    fake_end(&k);
}

/* ---- refunds ------------------------------------------------------------------------------------------------------------------------------------------ */

static struct relay *relay_begin(void)
{
    struct relay_options o = relay_options_default();
    fake_init(&k);
    o.channel = &k.channel;
    k.rows[0] = (struct outbox_row){.row = 1, .version = 1, .kind = OUTBOX_REFUND, .topic_key = str_lit("ord_1"), .body = str_lit("{\"event\":\"REFUND_REQUESTED\"}"),
        .refund = {.payment = str_lit("pay-1"), .order = str_lit("ord_1"), .result = PAYMENT_SUCCESS, .amount = 100, .currency = str_lit("CNY"), .channel = str_lit("c")}};
    k.row_count = 1;
    struct relay *r = relay_new(&k.store, &k.bus, &k.ledger, &k.clock.clock, &k.random.random, &k.keys, &o);
    assert_non_null(r);
    relay_start(r);
    return r;
}

static void relay_end(struct relay *r)
{
    relay_drain(r);
    fake_pass(&k, 20000);
    assert_true(relay_idle(r));
    relay_free(r);
    fake_end(&k);
}

static void a_refund_is_done_when_the_channel_says_so(void **state)
{
    (void)state;
    struct relay *r = relay_begin();
    fake_pass(&k, 100);
    assert_true(k.row_done[0]);
    assert_int_equal(k.refunds, 1);
    assert_string_equal(k.last_refund, "pay-1");
    assert_int_equal(k.sent, 1);    /* and the rest of the company hears of it */
    relay_end(r);
}

static void a_refund_stays_until_it_is_given(void **state)
{
    (void)state;
    static const struct { enum fake_op op; enum reason reason; } faults[] = {
        {FAKE_REFUND, REASON_TIMED_OUT}, {FAKE_REFUND, REASON_DEPENDENCY_DOWN}, {FAKE_REFUND, REASON_ENGINE_REFUSED}, {FAKE_REFUND, REASON_REFUND_PENDING}, {FAKE_REFUND, REASON_REFUND_FAILED}, {FAKE_SEND, REASON_LINK_LOST}};
    for (size_t i = 0; i < countof(faults); i++) {
        struct relay *r = relay_begin();
        k.inject_op = faults[i].op;
        k.inject = faults[i].reason;
        fake_pass(&k, 3000);
        assert_false(k.row_done[0]);
        bool answered = faults[i].reason == REASON_ENGINE_REFUSED || faults[i].reason == REASON_REFUND_PENDING || faults[i].reason == REASON_REFUND_FAILED;
        assert_int_equal(k.deferred > 0, answered);    /* the ledger knows what the channel said, and how long it rests */
        assert_true(!answered || k.last_deferred == faults[i].reason);
        k.inject = REASON_OK;
        fake_pass(&k, 30000);
        assert_true(k.row_done[0] && k.refunds >= 1);
        relay_end(r);
    }
}

/* Bounds: a claim of orders that end at a dozen different moments sends eight timer messages, each alone and for its second. */
static void timer_messages_of_a_claim(void **state)
{
    (void)state;
    static char bodies[12][160];
    struct relay_options o = relay_options_default();
    fake_init(&k);
    for (size_t i = 0; i < 12; i++) {
        char at[TIME_TEXT + 1] = "";
        time_write(clock_now_ms(&k.clock.clock) + 900000 + 1000 * (int64_t)(i / 2 * 2), at);
        snprintf(bodies[i], sizeof bodies[i], "{\"event\":\"ORDER_CREATED\",\"amount\":1,\"pay_deadline\":\"%s\"}", at);
        k.rows[i] = (struct outbox_row){.row = (int64_t)i + 1, .version = 1, .kind = OUTBOX_EVENT, .topic_key = str_lit("ord_1"), .body = str_of(bodies[i])};
    }
    k.row_count = 12;
    o.lanes = 1;
    struct relay *r = relay_new(&k.store, &k.bus, &k.ledger, &k.clock.clock, &k.random.random, &k.keys, &o);
    relay_start(r);
    fake_pass(&k, 400);
    assert_int_equal(k.sent, 12 + 6);    /* two orders share a second */
    for (size_t i = 0; i < 12; i++) {
        char at[TIME_TEXT + 1] = "";
        time_write(clock_now_ms(&k.clock.clock) + 900000 + 1000 * (int64_t)i, at);
        snprintf(bodies[i], sizeof bodies[i], "{\"event\":\"ORDER_CREATED\",\"amount\":1,\"pay_deadline\":\"%s\"}", at);
        k.rows[i].body = str_of(bodies[i]);
        k.row_done[i] = false;
    }
    k.sent = 0;
    fake_pass(&k, 400);
    assert_int_equal(k.sent, 12 + 8);
    relay_end(r);
}

int main(void)
{
    log_level_set(LEVEL_FATAL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callbacks_travel_together), cmocka_unit_test(a_bad_one_spoils_nobody_elses), cmocka_unit_test(an_unreadable_callback_is_recorded), cmocka_unit_test(silence_is_come_again),
        cmocka_unit_test(callbacks_that_wait_have_an_edge), cmocka_unit_test(who_has_gone_is_not_told), cmocka_unit_test(a_cancel_is_its_users),
        cmocka_unit_test(what_is_overdue_is_cancelled), cmocka_unit_test(what_the_channel_knows_is_told_first),
        cmocka_unit_test(who_has_paid_is_spared_until_the_ledger_knows), cmocka_unit_test(a_silent_channel_keeps_no_unit),
        cmocka_unit_test(an_answer_that_cannot_be_understood_spares_the_order), cmocka_unit_test(questions_to_a_silent_channel), cmocka_unit_test(a_jump_of_the_clock_pauses_the_sweep), cmocka_unit_test(a_drift_is_no_jump),
        cmocka_unit_test(a_bad_first_measure_is_no_jump), cmocka_unit_test(a_jump_believed_by_a_slow_answer),
        cmocka_unit_test(whatever_fails_the_sweep_goes_on), cmocka_unit_test(looks_of_the_sweep), cmocka_unit_test(sweep_goes_on_behind_held_orders),
        cmocka_unit_test(a_held_order_holds_up_no_other), cmocka_unit_test(a_payment_that_cannot_be_told_spares_its_order_alone), cmocka_unit_test(orders_looked_up_a_second), cmocka_unit_test(timer_messages_of_a_claim),
        cmocka_unit_test(a_hint_is_a_look), cmocka_unit_test(hints_are_heard_from_the_end_on),
        cmocka_unit_test(a_refund_is_done_when_the_channel_says_so), cmocka_unit_test(a_refund_stays_until_it_is_given)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

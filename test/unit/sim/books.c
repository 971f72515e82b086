/* SPDX-License-Identifier: Apache-2.0
 * books.c: a checker that cannot fail proves nothing. Each rule of the audit is shown a fault, planted behind the ledger's back, and
 * must name the row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim_books.h"

#define ORDERS 4
static char reservations[ORDERS][16], messages[ORDERS][16], users[ORDERS][8], requests[ORDERS][8];

/* Six units of one SKU; four of them ordered, and one reservation released. */
static struct sim_books *sold(void)
{
    struct sim_books *b = calloc(1, sizeof *b);
    struct sku sku = {.sku = str_lit("S"), .stock = 6, .price = 100, .currency = str_lit("CNY")};
    const struct activity *a;
    struct create_order items[ORDERS];
    struct verdict verdicts[ORDERS];
    bool regressed;
    sim_books_init(b);
    assert_int_equal(sim_books_create(b, &(struct activity){.activity = str_lit("A"), .buckets = 1, .ends_ms = 1, .pay_timeout_s = 1, .skus = &sku, .sku_count = 1}, &a),
                     REASON_OK);
    for (int i = 0; i < ORDERS; i++) {
        snprintf(reservations[i], sizeof reservations[i], "rsv_%d", i);
        snprintf(messages[i], sizeof messages[i], "msg_%d", i);
        snprintf(users[i], sizeof users[i], "u%d", i);
        snprintf(requests[i], sizeof requests[i], "r%d", i);
        items[i] = (struct create_order){.reservation = str_of(reservations[i]), .message = str_of(messages[i]), .user = str_of(users[i]),
                                         .request = str_of(requests[i]), .activity = str_lit("A"), .sku = str_lit("S"), .token = {.unit = i + 1, .generation = 1}};
    }
    assert_int_equal(sim_books_place(b, &(struct place_ask){.group = str_lit("g"), .items = items, .count = ORDERS}, 5, verdicts, &regressed), REASON_OK);
    for (int i = 0; i < ORDERS; i++)
        assert_int_equal(verdicts[i].outcome, REASON_ORDERED);
    struct release_item gone = {.why = REASON_OVERDUE, .what = items[0]};
    gone.what.reservation = str_lit("rsv_gone");
    gone.what.token.unit = 5;
    assert_int_equal(sim_books_release(b, &(struct release_ask){.items = &gone, .count = 1}, 6, verdicts, &regressed), REASON_OK);
    return b;
}

static void two_hold_one_unit(struct sim_books *b) { b->orders[1]->order.token = (struct token){.unit = 1, .generation = 2}, b->units[0].token.generation = 2; }
static void consumed_twice(struct sim_books *b) { b->journal[1] = b->journal[0]; }
static void one_user_twice(struct sim_books *b) { b->orders[1]->order.user = str_lit("u0"); }
static void one_request_twice(struct sim_books *b) { b->orders[1]->order.user = str_lit("u0"), b->orders[1]->order.sku = str_lit("T"), b->orders[1]->order.request = str_lit("r0"); }
static void one_reservation_twice(struct sim_books *b) { b->orders[1]->order.reservation = str_lit("rsv_0"); }
static void one_token_twice(struct sim_books *b) { b->orders[1]->order.token = b->orders[0]->order.token; }
static void a_generation_gone_back(struct sim_books *b) { b->units[4].token.generation = 1; }
static void a_journal_gone_back(struct sim_books *b) { b->journal[b->journal_count - 1].unit = 1, b->journal[b->journal_count - 1].generation = 1; }
static void an_order_lost(struct sim_books *b) { b->order_count--; }
static void a_verdict_turned(struct sim_books *b) { b->inbox[0]->outcome = REASON_RELEASED; }
static void a_verdict_lost(struct sim_books *b) { b->inbox[0] = b->inbox[--b->inbox_count]; }
static void paid_and_cancelled(struct sim_books *b) { b->orders[2]->order.paid_ms = 7, b->orders[2]->order.state = ORDER_CANCELING; }
static void free_and_ordered(struct sim_books *b) { b->units[3].consumed = false; }
static void consumed_by_nobody(struct sim_books *b) { b->units[5].consumed = true; }
static void a_unit_lost(struct sim_books *b) { b->unit_count--; }

/* ---- money ---- */

static struct pay_item callback(const char *webhook, const char *payment, const char *order, int64_t amount)
{
    struct pay_item item = {.webhook = str_of(webhook), .body = str_of(webhook), .what = {.payment = str_of(payment), .order = str_of(order), .result = PAYMENT_SUCCESS,
                            .amount = amount, .currency = str_lit("CNY"), .channel = str_lit("card"), .occurred_ms = 1}};
    memcpy(item.digest, webhook, strlen(webhook));
    return item;
}

/* Of the four orders one is paid, one is paid twice, one is cancelled and paid, one has the wrong amount set aside. */
static struct sim_books *paid(void)
{
    struct sim_books *b = sold();
    struct pay_verdict verdicts[8];
    struct cancel_verdict canceled;
    sim_books_cancel(b, &(struct cancel_ask){.items = &(struct cancel_item){.order = str_lit("ord_2")}, .count = 1, .why = REASON_CANCELED}, 7, &canceled);
    struct pay_item items[] = {callback("w0", "p0", "ord_0", 100), callback("w1", "p1", "ord_1", 100), callback("w2", "p2", "ord_1", 100),
                               callback("w3", "p3", "ord_2", 100), callback("w4", "p4", "ord_3", 1), callback("w5", "p5", "ord_gone", 100)};
    static const enum reason want[] = {REASON_PAYMENT_APPLIED, REASON_PAYMENT_APPLIED, REASON_PAYMENT_EXTRA, REASON_PAYMENT_AFTER_CANCEL, REASON_PAYMENT_QUARANTINED,
                                       REASON_PAYMENT_QUARANTINED};
    assert_int_equal(sim_books_pay(b, &(struct pay_ask){.items = items, .count = countof(items)}, 8, verdicts), REASON_OK);
    for (size_t i = 0; i < countof(items); i++)
        assert_int_equal(verdicts[i].outcome, want[i]);
    return b;
}

static void paid_by_nothing(struct sim_books *b) { b->orders[0]->payment = str_lit("ghost"); }
static void paid_too_little(struct sim_books *b) { b->payments[0]->record.what.amount = 99; }
static void paid_and_turned(struct sim_books *b) { b->orders[0]->order.state = ORDER_CREATED; }
static void extra_kept(struct sim_books *b) { b->payments[2]->record.refund = REFUND_NONE; }
static void late_money_kept(struct sim_books *b) { b->payments[3]->record.refund = REFUND_NONE; }
static void the_payer_refunded(struct sim_books *b) { b->payments[0]->record.refund = REFUND_DONE; }
static void a_failure_refunded(struct sim_books *b) { b->payments[3]->record.what.result = PAYMENT_FAILED; }
static void a_refund_lost(struct sim_books *b)
{
    list_each(at, &b->outbox) {
        struct sim_row *row = list_entry(at, struct sim_row, link);
        if (row->refund == b->payments[2])
            row->kind = OUTBOX_EVENT;
    }
}
static void a_refund_twice(struct sim_books *b) { b->payments[2]->record.refund = REFUND_DONE; }
static void released_money_kept(struct sim_books *b) { b->payments[5]->record.refund = REFUND_NONE; }
static void nobody_called(struct sim_books *b) { b->reviews[0]->record = str_lit("other"); }
static void a_wrong_price(struct sim_books *b) { b->orders[3]->order.amount = 5; }
static void sums_apart(struct sim_books *b) { b->payments[4]->record.disposition = REASON_PAYMENT_APPLIED; }
static void cancelled_and_not_raised(struct sim_books *b) { b->units[2].token.generation = 1; }

struct plant {
    void (*put)(struct sim_books *);
    const char *rule, *subject;
};
static void assert_named(const struct audit_answer *a, const struct plant *p)
{
    for (size_t i = 0; i < a->count; i++)
        if (str_eq(a->findings[i].rule, str_of(p->rule)) && str_eq(a->findings[i].subject, str_of(p->subject)))
            return;
    fail_msg("%s %s is not found among %zu findings", p->rule, p->subject, a->count);
}

static void each_rule_of_money_names_the_row(void **state)
{
    (void)state;
    static const struct plant plants[] = {
        {paid_by_nothing, "H8", "ord_0"}, {paid_by_nothing, "H9", "p0"},      {paid_too_little, "H8", "ord_0"},     {paid_and_turned, "H8", "ord_0"},
        {extra_kept, "H9", "p2"},         {late_money_kept, "H9", "p3"},      {the_payer_refunded, "H9", "p0"},     {a_failure_refunded, "H9", "p3"},
        {a_refund_lost, "H9", "p2"},      {a_refund_twice, "H9", "p2"},       {released_money_kept, "H9", "p5"},    {nobody_called, "money", "p4"},
        {a_wrong_price, "money", "ord_3"}, {sums_apart, "money", "CNY"},      {paid_too_little, "money", "CNY"},    {cancelled_and_not_raised, "H6", "token_000003-1"},
    };
    for (size_t i = 0; i < countof(plants); i++) {
        struct sim_books *b = paid();
        struct sim_ground ground = {0};
        assert_int_equal(sim_books_audit(b, (struct str){0}, &ground).count, 0);
        assert_int_equal(sim_books_audit(b, str_lit("A"), &ground).count, 0);
        plants[i].put(b);
        struct audit_answer a = sim_books_audit(b, (struct str){0}, &ground);
        assert_named(&a, &plants[i]);
        sim_ground_free(&ground);
        sim_books_end(b);
        free(b);
    }
}

static void each_rule_names_the_row_that_breaks_it(void **state)
{
    (void)state;
    static const struct plant plants[] = {
        {two_hold_one_unit, "H1", "token_000001-2"},      {consumed_twice, "H1", "token_000001-1"},
        {one_user_twice, "H2", "ord_1"},                  {one_request_twice, "H3", "r0"},
        {one_reservation_twice, "H4", "ord_1"},           {one_token_twice, "H5", "token_000001-1"},
        {a_generation_gone_back, "H6", "token_000005-2"}, {a_journal_gone_back, "H6", "token_000001-1"},
        {an_order_lost, "H7", "rsv_3"},                   {a_verdict_turned, "H7", "rsv_0"},
        {a_verdict_lost, "H7", "ord_0"},                  {paid_and_cancelled, "H8", "ord_2"},
        {free_and_ordered, "H10", "token_000004-1"},      {consumed_by_nobody, "H10", "token_000006-1"},
        {a_unit_lost, "H10", "S"},
    };
    for (size_t i = 0; i < countof(plants); i++) {
        struct sim_books *b = sold();
        struct sim_ground ground = {0};
        struct audit_answer a = sim_books_audit(b, (struct str){0}, &ground);
        assert_int_equal(a.count, 0);
        assert_true(a.orders == 4 && a.holding == 4 && a.consumed == 4 && a.available == 2 && a.stock == 6 && a.released == 1);
        assert_true(a.outbox == 11 && a.first_order_ms == 5 && a.last_order_ms == 5);    /* 4 × 2, and status, return and event of the released */
        plants[i].put(b);
        a = sim_books_audit(b, str_lit("A"), &ground);
        assert_named(&a, &plants[i]);
        assert_int_equal(sim_books_audit(b, str_lit("B"), &ground).count, 0);    /* another activity's troubles are not its own */
        sim_ground_free(&ground);
        sim_books_end(b);
        free(b);
    }
}

static void a_row_told_again_survives_its_finish(void **state)
{
    (void)state;
    struct sim_books *b = sold();
    struct outbox_row rows[32];
    struct finish_item done[32];
    uint64_t waiting;
    int64_t oldest_ms;
    size_t count = sim_books_claim(b, 32, 1000, 10, rows, &waiting, &oldest_ms);
    assert_int_equal(count, 11);
    assert_int_equal(oldest_ms, 5);
    assert_int_equal(sim_books_claim(b, 32, 1000, 11, rows + 16, &waiting, &oldest_ms), 0);
    sim_books_tell_status(b, b->activities[0], b->inbox[0]->what.reservation, 12);
    for (size_t i = 0; i < count; i++)
        done[i] = (struct finish_item){.row = rows[i].row, .version = rows[i].version};
    sim_books_finish(b, done, count);
    assert_int_equal(b->outbox_count, 1);
    assert_int_equal(sim_books_claim(b, 32, 1000, 13, rows, &waiting, &oldest_ms), 1);
    assert_int_equal(rows[0].kind, OUTBOX_STATUS);
    assert_int_equal(rows[0].version, 2);
    sim_books_end(b);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_names_the_row_that_breaks_it),
        cmocka_unit_test(each_rule_of_money_names_the_row),
        cmocka_unit_test(a_row_told_again_survives_its_finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

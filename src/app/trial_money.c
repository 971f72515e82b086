/* SPDX-License-Identifier: Apache-2.0
 * trial_money.c: what the crowd does with its orders, and the payment channel between. Who has an order pays, or does not, pays twice, too late or too
 * little, or cancels, some in the very moment in which they pay. The channel takes the money first and then tells whichever access process it meets,
 * until it is answered; some callbacks it loses for good, and who asks it hears of the payment all the same.
 *
 * The rules: what a client heard stands in the ledger; every payment that was told has one consequence; a refund that the ledger calls for reaches the
 * channel, and no money goes back that the ledger did not send. The ledger's own rules are audited after each of its commits (trial_judge.c). */
#include <stdio.h>
#include <stdlib.h>

#include "trial_parts.h"

#define DEPOSITS 512
#define SOON_MS 30000    /* far more than the last count takes */

enum deed { DEED_PAY, DEED_CANCEL };
struct act {                             /* one payment on its way to be told, or one cancel */
    struct trial *trial;
    enum deed deed;
    char user[12], order[IDENT_ID_TEXT], payment[24], webhook[32], body[64];
    struct payment what;
    bool lost, success_next;             /* its callbacks are lost; a FAILED one that succeeds afterwards */
    unsigned repeats, tries;
    bool done;                           /* heard a final answer (or lost) */
    enum reason answer;
    struct process *at;
    struct alarm alarm;
    union {
        struct payment_callback callback;
        struct payment_cancel cancel;
    };
};
struct trial_money {
    struct sim_random chance;            /* its own: the crowd's dice fall as they did */
    struct act acts[DEPOSITS];
    size_t count;
};

static uint64_t below(struct trial *t, uint64_t n) { return random_below(&t->money->chance.random, n); }

static void again_in(struct act *a, uint64_t us) { clock_set_in(&a->trial->clock.clock, &a->alarm, us); }

/* ---- answers ------------------------------------------------------------------------------------------------------------------------------- */

static const struct sim_order *order_of(struct trial *t, const char *order)
{
    char reservation[IDENT_ID_TEXT];
    memcpy(reservation, order, IDENT_ID_TEXT);
    memcpy(reservation, "rsv", 3);
    return sim_books_order(&t->books.books, (struct str){reservation, IDENT_ID_TEXT});
}

static void judge_payment(struct act *a)
{
    struct trial *t = a->trial;
    const struct sim_order *o = order_of(t, a->order);
    bool first = a->answer == REASON_PAYMENT_APPLIED;
    if (!o)
        trial_broken(t, "H7", "%s is told %s of a payment, and there is no order", a->user, reason_word(a->answer));
    else if (first && (o->order.state != ORDER_PAID || !str_eq(o->payment, a->what.payment)))
        trial_broken(t, "H8", "payment %s of %s is told APPLIED, the order is %s", a->payment, a->user, order_state_name(o->order.state));
    else if (a->answer == REASON_PAYMENT_AFTER_CANCEL && o->order.state != ORDER_CANCELED)
        trial_broken(t, "H8", "payment %s of %s is told AFTER_CANCEL, the order is %s", a->payment, a->user, order_state_name(o->order.state));
    else if (a->answer == REASON_PAYMENT_EXTRA && o->order.state != ORDER_PAID)
        trial_broken(t, "H8", "payment %s of %s is told EXTRA, the order is %s", a->payment, a->user, order_state_name(o->order.state));
}

static void judge_cancel(struct act *a)
{
    const struct sim_order *o = order_of(a->trial, a->order);
    enum order_state stands = o ? o->order.state : ORDER_STATE_COUNT;
    if ((a->answer == REASON_CANCELED && stands != ORDER_CANCELED) || (a->answer == REASON_ORDER_PAID && stands != ORDER_PAID) || a->answer == REASON_NOT_FOUND)
        trial_broken(a->trial, "H8", "%s cancels and is told %s, the order is %s", a->user, reason_word(a->answer), o ? order_state_name(stands) : "not there");
}

static void heard(struct act *a, enum reason reason)
{
    struct trial *t = a->trial;
    a->at = NULL;
    trial_mark(t, (uint64_t)reason << 16 | (uint64_t)(a - t->money->acts));
    trial_line(t, "%-9s hears %s of %s", a->user, reason_word(reason), a->deed == DEED_PAY ? a->payment : "his cancel");
    if (reason_fate(reason) == FATE_RETRY || reason_fate(reason) == FATE_UNKNOWN) {
        again_in(a, 50000 + below(t, (uint64_t)(a->tries < 6 ? 200000u << a->tries : 12800000)));
        return;
    }
    a->answer = reason;
    if (a->deed == DEED_CANCEL)
        judge_cancel(a);
    else
        judge_payment(a);
    if (a->success_next) {    /* it failed, and now it succeeds */
        a->success_next = false;
        a->what.result = PAYMENT_SUCCESS;
        snprintf(a->body, sizeof a->body, "%s SUCCESS", a->payment);
        snprintf(a->webhook, sizeof a->webhook, "h-%s-2", a->payment);
        sim_channel_pay(&t->till, &a->what);
        again_in(a, below(t, 3 * SECOND_US));
    } else if (a->repeats > 0) {
        a->repeats--;
        again_in(a, below(t, 5 * SECOND_US));
    } else {
        a->done = true;
    }
}

static void told(struct payment_callback *p) { heard(container_of(p, struct act, callback), p->reason); }
static void canceled(struct payment_cancel *p) { heard(container_of(p, struct act, cancel), p->reason); }

/* ---- deeds ------------------------------------------------------------------------------------------------------------------------------------ */

static void acts(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct act *a = container_of(container_of(w, struct alarm, waiter), struct act, alarm);
    struct trial *t = a->trial;
    size_t doors = 0;
    while (doors < t->process_count && t->processes[doors].role == TRIAL_ACCESS)
        doors++;
    struct process *at = &t->processes[below(t, doors)];
    a->tries++;
    if (!at->up || at->frozen) {
        again_in(a, 100000 + below(t, SECOND_US));
        return;
    }
    a->at = at;
    trial_line(t, "%-9s %s %s at %s", a->user, a->deed == DEED_PAY ? payment_result_name(a->what.result) : "cancels", a->deed == DEED_PAY ? a->payment : a->order, at->name);
    if (a->deed == DEED_CANCEL) {
        a->cancel = (struct payment_cancel){.order = {a->order, IDENT_ID_TEXT}, .user = str_of(a->user), .done = canceled};
        if (payment_cancel_start(&at->desk, &a->cancel))
            canceled(&a->cancel);
    } else {
        a->callback = (struct payment_callback){.webhook = str_of(a->webhook), .body = str_of(a->body), .what = a->what, .done = told};
        if (payment_start(&at->desk, &a->callback))
            told(&a->callback);
    }
}

static struct act *new_act(struct person *p, enum deed deed)
{
    struct trial *t = p->trial;
    if (t->money->count == DEPOSITS)
        return NULL;
    struct act *a = &t->money->acts[t->money->count++];
    *a = (struct act){.trial = t, .deed = deed, .alarm.waiter.wake = acts, .answer = REASON_OK};
    snprintf(a->user, sizeof a->user, "%s", p->user);
    ident_write(p->now->ending_of, IDENT_ORDER, a->order);
    return a;
}

static void pays(struct person *p, uint64_t in_us)
{
    struct trial *t = p->trial;
    struct act *a = new_act(p, DEED_PAY);
    if (!a)
        return;
    snprintf(a->payment, sizeof a->payment, "pay-%zu", t->money->count);
    snprintf(a->webhook, sizeof a->webhook, "h-%s", a->payment);
    snprintf(a->body, sizeof a->body, "%s", a->payment);
    a->success_next = below(t, 6) == 0;
    a->lost = !a->success_next && below(t, 8) == 0;
    a->repeats = (unsigned)below(t, 3) * (unsigned)below(t, 2);
    a->what = (struct payment){.payment = str_of(a->payment), .order = {a->order, IDENT_ID_TEXT}, .result = a->success_next ? PAYMENT_FAILED : PAYMENT_SUCCESS,
                               .amount = below(t, 16) == 0 ? 1 : 9900, .currency = str_lit("CNY"), .channel = str_lit("memory"), .occurred_ms = clock_now_ms(&t->clock.clock)};
    sim_channel_pay(&t->till, &a->what);
    if (a->lost)
        a->done = true;    /* whoever asks the channel hears of it */
    else
        again_in(a, in_us);
}

static void cancels(struct person *p, uint64_t in_us)
{
    struct act *a = new_act(p, DEED_CANCEL);
    if (!a)
        return;
    a->repeats = (unsigned)below(p->trial, 2);
    again_in(a, in_us);
}

/* He has just learnt that he has an order. Each order is thought about once. */
void trial_money_ordered(struct person *p)
{
    struct trial *t = p->trial;
    struct purchase *q = p->now;
    if (q->thought || t->calm)
        return;
    q->thought = true;
    uint64_t soon = below(t, 4 * SECOND_US), then = below(t, 2) ? soon : soon + below(t, 6 * SECOND_US), what = below(t, 100);
    if (what < 55)
        pays(p, soon);
    if (what < 12 || (what >= 55 && what < 65))
        cancels(p, then);
    if (what >= 20 && what < 28)
        pays(p, then);
    if (what >= 55 && what < 62)
        pays(p, then + below(t, 5 * SECOND_US));
}

/* ---- the trial's -------------------------------------------------------------------------------------------------------------------------------- */

void trial_money_open(struct trial *t)
{
    t->money = calloc(1, sizeof *t->money);
    check(t->money != NULL);
    sim_random_init(&t->money->chance, t->options.seed ^ 0x6d6f6e6579);
    sim_channel_world_init(&t->till);
    t->till.slow = t->options.seed % 3 == 1;
}

void trial_money_close(struct trial *t)
{
    for (size_t i = 0; i < t->money->count; i++)
        clock_unset(&t->clock.clock, &t->money->acts[i].alarm);
    sim_channel_world_end(&t->till);
    free(t->money);
}

/* Their process dies: they hear no more of their calls. */
void trial_money_cut(struct trial *t, struct process *at)
{
    for (size_t i = 0; t->money && i < t->money->count; i++) {
        struct act *a = &t->money->acts[i];
        if (a->at != at)
            continue;
        if (a->deed == DEED_CANCEL)
            payment_cancel_let_go(&a->cancel);
        else
            payment_let_go(&a->callback);
        a->at = NULL;
        again_in(a, 100000 + below(t, SECOND_US));
    }
}

/* Nobody has anything to do with money, and no order's time to pay is about to end: the sweep would cancel it under the eyes of whoever counts. */
bool trial_money_quiet(const struct trial *t)
{
    const struct sim_books *b = &t->books.books;
    for (size_t i = 0; i < t->money->count; i++)
        if (!t->money->acts[i].done)
            return false;
    for (size_t i = 0; i < b->order_count; i++)
        if (b->orders[i]->order.state == ORDER_CREATED && b->orders[i]->order.pay_deadline_ms < b->now_ms + SOON_MS)
            return false;
    return true;
}

uint32_t trial_money_timeout_s(struct trial *t) { return below(t, 3) == 0 ? 2 + (uint32_t)below(t, 18) : 900; }

/* The end: what the channel gave back is what the ledger sent, each once. */
void trial_money_judge(struct trial *t)
{
    for (size_t i = 0; i < t->till.count; i++) {
        const struct sim_deposit *d = &t->till.deposits[i];
        const struct sim_payment *known = NULL;
        for (size_t k = 0; k < t->books.books.payment_count; k++)
            if (str_eq(t->books.books.payments[k]->record.what.payment, d->what.payment))
                known = t->books.books.payments[k];
        bool back = known && known->record.refund == REFUND_DONE;
        if (back != (d->refunds > 0) || (known && known->record.refund == REFUND_REQUESTED))
            trial_broken(t, "H9", STR_FMT ": the ledger says %s, the channel gave back %zu times", STR_ARG(d->what.payment),
                         known ? refund_status_name(known->record.refund) : "nothing", d->refunds);
    }
}

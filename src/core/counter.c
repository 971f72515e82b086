/* SPDX-License-Identifier: Apache-2.0
 * counter.c: ready → (window) → batch → each hears. The alarm rings at the window's end while something may leave, and when the patience of the
 * first is over while nothing may. */
#include "counter.h"

#include "check.h"
#include "killpoint.h"

struct counter_options counter_options_default(void)
{
    return (struct counter_options){.waiting = 1024, .batch = LEDGER_PAY_MAX, .window_us = 300, .call_ms = 2000, .wait_ms = 3000};
}

static void leave(struct counter *);

static void tell(struct counter_call *call, enum reason reason)
{
    call->counter->held--;
    call->counter = NULL;
    call->batch = NULL;
    call->done(call, reason);
}

static struct counter_batch *idle_batch(struct counter *c)
{
    for (size_t i = 0; i < COUNTER_BATCHES; i++)
        if (c->batches[i].count == 0)
            return &c->batches[i];
    return NULL;
}

/* ---- the way back ---------------------------------------------------------------------------------------------------------------- */

/* Back to the front, in their order, to go one by one. */
static void put_back(struct counter *c, struct counter_batch *b)
{
    for (size_t i = b->count; i-- > 0;) {
        struct counter_call *call = b->calls[i];
        if (!call)
            continue;
        call->batch = NULL;
        list_prepend(&c->ready, &call->link);
        c->single++;
    }
    b->count = 0;
}

static void answered(struct waiter *w, enum reason reason, const void *result)
{
    struct counter_batch *b = container_of(w, struct counter_batch, waiter);
    struct counter *c = b->counter;
    size_t count = b->count;
    const struct pay_answer *paid = c->kind == COUNTER_PAY ? result : NULL;
    const struct cancel_answer *canceled = c->kind == COUNTER_CANCEL ? result : NULL;
    if (ledger_splits(reason) && count > 1) {
        put_back(c, b);
        leave(c);
        return;
    }
    check(reason != REASON_OK || (paid ? paid->count : canceled->count) == count);
    struct counter_call *calls[LEDGER_PAY_MAX];
    memcpy(calls, b->calls, count * sizeof *calls);
    for (size_t i = 0; i < count && reason == REASON_OK; i++) {
        if (calls[i] && paid)
            calls[i]->paid = paid->verdicts[i];
        else if (calls[i])
            calls[i]->canceled = canceled->verdicts[i];
    }
    b->count = 0;
    for (size_t i = 0; i < count; i++)
        if (calls[i])
            tell(calls[i], reason);
    leave(c);
}

/* ---- the way there --------------------------------------------------------------------------------------------------------------- */

static void ask(struct counter *c, struct counter_batch *b)
{
    b->waiter = (struct waiter){.wake = answered, .budget_ms = c->options.call_ms};
    if (c->kind == COUNTER_PAY) {
        struct pay_item items[LEDGER_PAY_MAX];
        for (size_t i = 0; i < b->count; i++)
            items[i] = b->calls[i]->pay;
        ledger_pay(c->ledger, &(struct pay_ask){.items = items, .count = b->count}, &b->waiter);
        KILLPOINT(PAY_ASKED);
    } else {
        struct cancel_item items[LEDGER_PAY_MAX];
        for (size_t i = 0; i < b->count; i++)
            items[i] = b->calls[i]->cancel;
        ledger_cancel(c->ledger, &(struct cancel_ask){.items = items, .count = b->count, .why = REASON_CANCELED}, &b->waiter);
        KILLPOINT(CANCEL_ASKED);
    }
}

static void fill(struct counter *c, struct counter_batch *b)
{
    size_t most = c->single > 0 ? 1 : c->options.batch;
    while (b->count < most && !list_empty(&c->ready)) {
        struct counter_call *call = list_entry(list_take(&c->ready), struct counter_call, link);
        call->batch = b;
        call->at = b->count;
        b->calls[b->count++] = call;
    }
    c->single -= c->single > 0;
}

static void set_alarm(struct counter *c)
{
    if (list_empty(&c->ready)) {
        clock_unset(c->clock, &c->alarm);
        c->single = 0;
        return;
    }
    uint64_t first = list_entry(c->ready.next, struct counter_call, link)->due_us;
    clock_set(c->clock, &c->alarm, idle_batch(c) && c->window_us < first ? c->window_us : first);
}

/* Whatever may go, goes; who has waited too long hears so. */
static void leave(struct counter *c)
{
    uint64_t now = clock_mono_us(c->clock);
    struct link late;
    list_init(&late);
    while (!list_empty(&c->ready) && list_entry(c->ready.next, struct counter_call, link)->due_us <= now)
        list_append(&late, list_take(&c->ready));
    for (struct counter_batch *b; !list_empty(&c->ready) && c->window_us <= now && (b = idle_batch(c));) {
        fill(c, b);
        ask(c, b);
    }
    set_alarm(c);
    for (struct link *at; (at = list_take(&late));)
        tell(list_entry(at, struct counter_call, link), REASON_DEPENDENCY_DOWN);
}

static void rang(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    leave(container_of(container_of(w, struct alarm, waiter), struct counter, alarm));
}

/* ---- for everybody ----------------------------------------------------------------------------------------------------------------- */

void counter_init(struct counter *c, enum counter_kind kind, struct ledger *ledger, struct clock *clock, struct counter_options options)
{
    check(options.batch >= 1 && options.batch <= LEDGER_PAY_MAX);
    *c = (struct counter){.ledger = ledger, .clock = clock, .kind = kind, .options = options, .alarm.waiter.wake = rang};
    list_init(&c->ready);
    for (size_t i = 0; i < COUNTER_BATCHES; i++)
        c->batches[i].counter = c;
}

void counter_stop(struct counter *c)
{
    if (!c->clock)
        return;
    clock_unset(c->clock, &c->alarm);
    for (size_t i = 0; i < COUNTER_BATCHES; i++) {
        struct counter_batch *b = &c->batches[i];
        waiter_drop(&b->waiter);
        for (size_t k = 0; k < b->count; k++)
            if (b->calls[k])
                counter_let_go(b->calls[k]);
        b->count = 0;
    }
    while (!list_empty(&c->ready))
        counter_let_go(list_entry(c->ready.next, struct counter_call, link));
}

bool counter_put(struct counter *c, struct counter_call *call)
{
    check(call->done != NULL);
    call->counter = NULL;
    call->batch = NULL;
    if (c->held >= c->options.waiting)
        return false;
    uint64_t now = clock_mono_us(c->clock);
    if (list_empty(&c->ready))
        c->window_us = now + c->options.window_us;
    call->counter = c;
    call->due_us = now + (uint64_t)c->options.wait_ms * 1000;
    c->held++;
    list_append(&c->ready, &call->link);
    set_alarm(c);
    return true;
}

void counter_let_go(struct counter_call *call)
{
    struct counter *c = call->counter;
    if (!c)
        return;
    if (call->batch)
        call->batch->calls[call->at] = NULL;
    else
        list_remove(&call->link);
    c->held--;
    call->counter = NULL;
    call->batch = NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 * sweep.c: look (which are overdue, what time is it there) → ask the channel of each → tell the ledger what it says → cancel the rest, in one call →
 * rest, or go on behind the last of them where there were as many as one look holds. */
#include "sweep.h"

#include "buf.h"
#include "check.h"
#include "hash.h"
#include "killpoint.h"
#include "log.h"
#include "metric.h"
#include "payment.h"

#define TEXTS ((size_t)LEDGER_BATCH_MAX * 96 + (size_t)LEDGER_PAY_MAX * 1024)
#define HINT_JITTER_MS 300

struct sweep_options sweep_options_default(void)
{
    return (struct sweep_options){.every_ms = 2000, .batch = 256, .grace_ms = 1000, .call_ms = 3000, .ask_ms = 500, .silent_ms = 10000, .jump_ms = 2000,
                                  .pause_ms = 120000, .spare_ms = 900000};
}

static void look(struct sweep *);

static void rest(struct sweep *s)
{
    uint64_t us = s->again ? 20000 : (uint64_t)s->options.every_ms * 1000;
    s->step = SWEEP_IDLE;
    if (s->running)
        clock_set_in(s->clock, &s->alarm, us / 2 + random_below(s->random, us + 1));
}

static void rested(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    look(container_of(container_of(w, struct alarm, waiter), struct sweep, alarm));
}

/* Whether a part that ended so goes once more, smaller. What is refused, or held by another transaction, is kept apart from the rest in a few steps. */
static bool cut(struct sweep *s, enum reason reason)
{
    if (!ledger_splits(reason) || ++s->cuts > SWEEP_CUTS)
        return false;
    if (s->limit > 1)
        s->limit = (s->limit + 7) / 8;
    else
        s->from++;    /* this one waits for the next round */
    return true;
}

/* ---- cancel -------------------------------------------------------------------------------------------------------------------------- */

static void cancel_part(struct sweep *);

static void canceled(struct waiter *w, enum reason reason, const void *result)
{
    struct sweep *s = container_of(w, struct sweep, waiter);
    const struct cancel_answer *a = result;
    if (reason == REASON_OK) {
        KILLPOINT(SWEEP_ANSWERED);
        size_t fresh = 0;
        for (size_t i = 0; i < a->count; i++)
            fresh += a->verdicts[i].outcome == REASON_CANCELED && a->verdicts[i].fresh;
        s->facts.canceled += fresh;
        metric_add(METRIC_CANCELED, REASON_PAY_TIMEOUT, fresh);
        s->from += a->count;
    }
    if (reason == REASON_OK || cut(s, reason))
        cancel_part(s);
    else
        rest(s);
}

static void cancel_part(struct sweep *s)
{
    struct cancel_item items[LEDGER_BATCH_MAX];
    struct cancel_ask ask = {.items = items, .due = true, .why = REASON_PAY_TIMEOUT};
    for (size_t i = s->from; i < s->left_count && ask.count < s->limit; i++)
        items[ask.count++] = (struct cancel_item){.order = s->orders[s->left[i]]};
    if (ask.count == 0) {
        rest(s);
        return;
    }
    s->step = SWEEP_CANCELS;
    s->waiter = (struct waiter){.wake = canceled, .budget_ms = s->options.call_ms};
    KILLPOINT(SWEEP_BEFORE);
    ledger_cancel(s->ledger, &ask, &s->waiter);
    KILLPOINT(SWEEP_ASKED);
}

static void cancel(struct sweep *s)
{
    s->left_count = s->from = 0;
    s->cuts = 0;
    for (size_t i = 0; i < s->pay_count; i++)
        s->spared[s->pay_of[i]] |= s->untold[i];    /* paid, and the ledger does not know it: the next round */
    for (size_t i = 0; i < s->count; i++)
        if (!s->spared[i])
            s->left[s->left_count++] = i;
    s->limit = s->left_count;
    cancel_part(s);
}

/* ---- what the channel says -------------------------------------------------------------------------------------------------------------- */

static void tell_part(struct sweep *);

static void told(struct waiter *w, enum reason reason, const void *result)
{
    struct sweep *s = container_of(w, struct sweep, waiter);
    const struct pay_answer *a = result;
    for (size_t i = 0; reason == REASON_OK && i < a->count; i++) {
        s->facts.paid += a->verdicts[i].outcome == REASON_PAYMENT_APPLIED && a->verdicts[i].fresh;
        s->untold[s->from + i] = false;
        metric_add(METRIC_PAYMENTS, a->verdicts[i].outcome, 1);
    }
    if (reason == REASON_OK)
        s->from += a->count;
    if (reason == REASON_OK || cut(s, reason))
        tell_part(s);
    else
        cancel(s);
}

static void tell_part(struct sweep *s)
{
    size_t count = s->pay_count - s->from < s->limit ? s->pay_count - s->from : s->limit;
    if (count == 0) {
        cancel(s);
        return;
    }
    s->step = SWEEP_PAYS;
    s->waiter = (struct waiter){.wake = told, .budget_ms = s->options.call_ms};
    ledger_pay(s->ledger, &(struct pay_ask){.items = s->pays + s->from, .count = count}, &s->waiter);
}

static void tell(struct sweep *s)
{
    s->from = 0;
    s->limit = s->pay_count;
    s->cuts = 0;
    for (size_t i = 0; i < s->pay_count; i++)
        s->untold[i] = true;
    tell_part(s);
}

/* A payment as its callback would have told it. Its webhook-id is made from the payment: asked a hundred times, it is told once. */
static void add_pay(struct sweep *s, size_t order, const struct payment *p)
{
    char memory[768], name[96], rsv[72];
    struct buf body = buf_fixed(memory, sizeof memory), id = buf_fixed(name, sizeof name), reservation = buf_fixed(rsv, sizeof rsv);
    struct str given = s->orders[order];
    if (s->pay_count == LEDGER_PAY_MAX || !str_eq(p->order, given) || given.len < 4) {
        s->spared[order] |= s->pay_count == LEDGER_PAY_MAX;
        return;
    }
    payment_write(&body, p);
    buf_add_fmt(&id, "asked-" STR_FMT "-%s", STR_ARG(p->payment), payment_result_name(p->result));
    buf_add_fmt(&reservation, "rsv" STR_FMT, (int)given.len - 3, given.ptr + 3);    /* the order stands: so did its reservation */
    if (!buf_ok(&body) || !buf_ok(&id) || !buf_ok(&reservation))
        return;
    struct pay_item *item = &s->pays[s->pay_count];
    *item = (struct pay_item){.webhook = arena_str(&s->texts, buf_str(&id)), .body = arena_str(&s->texts, buf_str(&body)),
                              .reservation = arena_str(&s->texts, buf_str(&reservation)), .what = *p};
    item->what.payment = arena_str(&s->texts, p->payment);
    item->what.order = given;
    item->what.currency = arena_str(&s->texts, p->currency);
    item->what.channel = arena_str(&s->texts, p->channel);
    if (item->what.channel.len != p->channel.len || item->body.len == 0) {    /* the texts are full */
        s->spared[order] = true;
        return;
    }
    sha256(item->body, item->digest);
    s->pay_of[s->pay_count++] = order;
}

static void ask_next(struct sweep *, struct sweep_ask *);

/* An answer that does not prove the order unpaid: the order is left alone, for a bounded time; each such answer is counted and seen. */
static void spare_order(struct sweep *s, size_t order, enum reason reason)
{
    bool spared = s->now_ms < s->deadline_ms[order] + (int64_t)s->options.spare_ms;
    s->spared[order] |= spared;
    s->facts.not_understood++;
    metric_add(METRIC_CHANNEL_ODD, 0, 1);
    if (spared && !log_ration_take(&s->odd, clock_mono_us(s->clock), 2))
        return;
    struct log_line l = log_event(LEVEL_ERROR, spared ? "channel_answer_not_understood" : "order_given_up_without_answer");
    log_str(&l, "order_id", s->orders[order]);
    log_text(&l, "error_class", reason_word(reason));
    if (spared)
        log_untold(&l, &s->odd);
    log_end(&l);
}

static void answered(struct waiter *w, enum reason reason, const void *result)
{
    struct sweep_ask *ask = container_of(w, struct sweep_ask, waiter);
    struct sweep *s = ask->sweep;
    const struct channel_answer *a = result;
    metric_add(METRIC_CHANNEL_CALLS, reason, 1);
    bool odd = reason == REASON_ENGINE_FAULT || reason == REASON_ENGINE_REFUSED || (reason == REASON_OK && a->unreadable > 0);
    s->unanswered = reason == REASON_OK || odd ? 0 : s->unanswered + 1;
    if (odd)
        spare_order(s, ask->order, reason);
    for (size_t i = 0; reason == REASON_OK && i < a->count; i++)
        if (a->payments[i].result == PAYMENT_SUCCESS)
            add_pay(s, ask->order, &a->payments[i]);
    if (s->unanswered >= SWEEP_ASKS)
        s->silent_us = clock_mono_us(s->clock) + (uint64_t)s->options.silent_ms * 1000;
    s->under_way--;
    ask_next(s, ask);
    if (s->under_way == 0)
        tell(s);
}

static void ask_next(struct sweep *s, struct sweep_ask *ask)
{
    if (s->next == s->count || clock_mono_us(s->clock) < s->silent_us)
        return;
    ask->order = s->next++;
    s->under_way++;
    ask->waiter = (struct waiter){.wake = answered, .budget_ms = s->options.ask_ms};
    channel_ask(s->options.channel, s->orders[ask->order], &ask->waiter);
}

static void ask(struct sweep *s)
{
    s->step = SWEEP_ASKS_CHANNEL;
    s->pay_count = s->next = s->under_way = 0;
    for (size_t i = 0; s->options.channel && i < SWEEP_ASKS; i++)
        ask_next(s, &s->asks[i]);
    if (s->under_way == 0)
        tell(s);
}

/* ---- what time is it there --------------------------------------------------------------------------------------------------------------- */

static void alarm_jump(const struct sweep *s, const char *event, int64_t by_ms)
{
    struct log_line l = log_event(s->facts.paused ? LEVEL_ERROR : LEVEL_WARN, event);
    log_i64(&l, "jumped_ms", by_ms);
    log_i64(&l, "believed_after_ms", s->options.pause_ms);
    log_end(&l);
}

static bool agree(const struct sweep *s, struct sweep_offset a, struct sweep_offset b)
{
    int64_t most = (int64_t)s->options.jump_ms + a.give_ms + b.give_ms;
    return a.ms - b.ms <= most && b.ms - a.ms <= most;
}

/* Whether the ledger's clock may be believed. A process that was stopped while it asked has measured badly, and knows it. */
static bool clock_holds(struct sweep *s, int64_t ledger_ms)
{
    uint64_t now = clock_mono_us(s->clock), half_us = (now - s->asked_us) / 2;
    struct sweep_offset offset = {.ms = ledger_ms - (int64_t)((now - half_us) / 1000), .give_ms = (int64_t)(half_us / 1000)};
    if (!s->measured) {
        s->measured = true;
        s->trusted = offset;
    }
    bool back = agree(s, offset, s->trusted);
    bool steady = s->strange_us != 0 && agree(s, offset, s->strange);
    if (!back && !steady) {    /* a jump, or another one */
        s->strange_us = now;
        s->strange = offset;
        s->facts.jumps++;
        s->facts.paused = true;
        alarm_jump(s, "sweep_paused_clock_jumped", offset.ms - s->trusted.ms);
    }
    bool believed = back || (steady && now - s->strange_us >= (uint64_t)s->options.pause_ms * 1000);
    if (believed && s->facts.paused) {
        s->facts.paused = false;
        s->strange_us = 0;
        alarm_jump(s, "sweep_goes_on", offset.ms - s->trusted.ms);
    }
    int64_t good = s->options.jump_ms / 2;
    if (believed && (!back || offset.give_ms <= good || offset.give_ms <= s->trusted.give_ms))    /* clocks drift apart slowly, and are followed */
        s->trusted = offset;
    metric_set(METRIC_SWEEP_PAUSED, 0, s->facts.paused);
    return believed;
}

/* ---- look ----------------------------------------------------------------------------------------------------------------------------------- */

/* A full look goes on behind its last order, the next after it with the oldest. */
static void remember_place(struct sweep *s, const struct overdue_answer *a)
{
    const struct overdue *last = a->count == s->options.batch ? &a->orders[a->count - 1] : NULL;
    if (!last || last->order.len > sizeof s->after_order)
        return;
    memcpy(s->after_order, last->order.ptr, last->order.len);
    s->after_len = last->order.len;
    s->after_place = last->place;
    s->again = true;
}

static void looked(struct waiter *w, enum reason reason, const void *result)
{
    struct sweep *s = container_of(w, struct sweep, waiter);
    const struct overdue_answer *a = result;
    s->again = false;
    s->count = 0;
    s->after_place = 0;
    s->after_len = 0;
    if (reason != REASON_OK || !clock_holds(s, a->now_ms)) {
        rest(s);
        return;
    }
    metric_set(METRIC_OVERDUE, 0, (int64_t)a->count);
    s->facts.looks++;
    arena_reset(&s->texts);
    s->now_ms = a->now_ms;
    for (size_t i = 0; i < a->count; i++) {
        s->orders[s->count] = arena_str(&s->texts, a->orders[i].order);
        s->spared[s->count] = false;
        s->deadline_ms[s->count] = a->orders[i].pay_deadline_ms;
        s->count += s->orders[s->count].len > 0;
    }
    remember_place(s, a);
    if (s->count == 0 || !s->running)
        rest(s);
    else
        ask(s);
}

static void look(struct sweep *s)
{
    s->step = SWEEP_LOOKS;
    s->asked_us = clock_mono_us(s->clock);
    s->waiter = (struct waiter){.wake = looked, .budget_ms = s->options.call_ms};
    struct overdue_ask ask = {.limit = s->options.batch, .grace_ms = s->options.grace_ms, .after_place = s->after_place,
                              .after_order = {s->after_order, s->after_len}};
    ledger_overdue(s->ledger, &ask, &s->waiter);
}

/* ---- for everybody ------------------------------------------------------------------------------------------------------------------------------ */

bool sweep_init(struct sweep *s, struct ledger *ledger, struct clock *clock, struct random *random, struct sweep_options options)
{
    check(options.batch >= 1 && options.batch <= LEDGER_BATCH_MAX);
    *s = (struct sweep){.ledger = ledger, .clock = clock, .random = random, .options = options, .alarm.waiter.wake = rested};
    for (size_t i = 0; i < SWEEP_ASKS; i++)
        s->asks[i].sweep = s;
    s->texts = arena_new(TEXTS);
    return s->texts.start != NULL;
}

void sweep_start(struct sweep *s)
{
    if (s->options.every_ms == 0)
        return;
    s->running = true;
    rest(s);
}

void sweep_hint(struct sweep *s)
{
    uint64_t us = (uint64_t)s->options.grace_ms * 1000 + random_below(s->random, HINT_JITTER_MS * 1000);
    if (s->running && s->step == SWEEP_IDLE && clock_mono_us(s->clock) + us < s->alarm.due_us)
        clock_set_in(s->clock, &s->alarm, us);
}

void sweep_drain(struct sweep *s)
{
    s->running = false;
    clock_unset(s->clock, &s->alarm);
}

bool sweep_idle(const struct sweep *s) { return !s->running && s->step == SWEEP_IDLE; }

void sweep_free(struct sweep *s)
{
    if (!s->clock)
        return;
    sweep_drain(s);
    waiter_drop(&s->waiter);
    for (size_t i = 0; i < SWEEP_ASKS; i++)
        waiter_drop(&s->asks[i].waiter);
    arena_free(&s->texts);
}

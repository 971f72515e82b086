/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_channel.h"

#include <stdlib.h>

#define BUDGET_MS 2000

void sim_channel_world_init(struct sim_channel_world *w)
{
    *w = (struct sim_channel_world){.deposits = calloc(SIM_DEPOSITS_MAX, sizeof *w->deposits)};
    check(w->deposits != NULL);
}

void sim_channel_world_end(struct sim_channel_world *w)
{
    free(w->deposits);
    sim_ground_free(&w->ground);
}

static struct sim_deposit *find(struct sim_channel_world *w, struct str payment)
{
    for (size_t i = 0; i < w->count; i++)
        if (str_eq(w->deposits[i].what.payment, payment))
            return &w->deposits[i];
    return NULL;
}

struct sim_deposit *sim_channel_pay(struct sim_channel_world *w, const struct payment *p)
{
    struct sim_deposit *d = find(w, p->payment);
    if (!d) {
        check(w->count < SIM_DEPOSITS_MAX);
        d = &w->deposits[w->count++];
        d->what = *p;
        struct str *texts[] = {&d->what.payment, &d->what.order, &d->what.currency, &d->what.channel};
        for (size_t i = 0; i < countof(texts); i++)
            *texts[i] = sim_text(&w->ground, *texts[i]);
    }
    if (p->result == PAYMENT_SUCCESS)
        d->what.result = PAYMENT_SUCCESS;
    return d;
}

static struct sim_channel *of(struct channel *channel) { return container_of(channel, struct sim_channel, channel); }

static struct sim_channel_world *enter(struct sim_call *c)
{
    struct sim_channel_world *w = ((struct sim_channel *)c->port)->world;
    if (!w->away)
        return w;
    sim_call_answer(c, REASON_DEPENDENCY_DOWN, NULL);
    return NULL;
}

static bool act_ask(struct sim_call *c)
{
    const struct str *order = c->ask;
    struct sim_channel_world *w = enter(c);
    if (!w)
        return true;
    struct payment *payments = sim_array(&c->ground, struct payment, CHANNEL_PAYMENTS_MAX);
    struct channel_answer *answer = sim_new(&c->ground, struct channel_answer);
    *answer = (struct channel_answer){.payments = payments};
    for (size_t i = 0; i < w->count && answer->count < CHANNEL_PAYMENTS_MAX; i++)
        if (str_eq(w->deposits[i].what.order, *order))
            payments[answer->count++] = w->deposits[i].what;
    return sim_call_answer(c, REASON_OK, answer);
}

static void ask(struct channel *channel, struct str order, struct waiter *w)
{
    struct sim_call *c = sim_call_new(&of(channel)->calls, w, of(channel), "ask", act_ask, &order, sizeof order);
    sim_call_text(c, c->ask);
    sim_call_go(c, 0);
}

/* What it never took it does not give. */
static bool act_refund(struct sim_call *c)
{
    const struct payment *p = c->ask;
    struct sim_channel_world *w = enter(c);
    if (!w)
        return true;
    struct sim_deposit *d = find(w, p->payment);
    if (!d || d->what.result != PAYMENT_SUCCESS || d->what.amount != p->amount || !str_eq(d->what.currency, p->currency))
        return sim_call_answer(c, REASON_ENGINE_REFUSED, NULL);
    d->asked++;
    if (w->slow && d->asked == 1)
        return sim_call_answer(c, REASON_REFUND_PENDING, NULL);
    d->refunds = 1;
    return sim_call_answer(c, REASON_OK, NULL);
}

static void refund(struct channel *channel, const struct payment *p, struct waiter *w)
{
    struct sim_call *c = sim_call_new(&of(channel)->calls, w, of(channel), "refund", act_refund, p, sizeof *p);
    struct payment *mine = c->ask;
    struct str *texts[] = {&mine->payment, &mine->order, &mine->currency, &mine->channel};
    for (size_t i = 0; i < countof(texts); i++)
        sim_call_text(c, texts[i]);
    sim_call_go(c, 0);
}

static const struct channel_ops ops = {.name = "memory", .ask = ask, .refund = refund};

void sim_channel_open(struct sim_channel *c, struct sim_channel_world *w, struct clock *clock)
{
    *c = (struct sim_channel){.channel.ops = &ops, .world = w};
    sim_calls_init(&c->calls, clock, BUDGET_MS);
}

void sim_channel_close(struct sim_channel *c) { sim_calls_end(&c->calls); }

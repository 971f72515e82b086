/* SPDX-License-Identifier: Apache-2.0
 * trial_people.c: the crowd. Each has a plan; all are stubborn: what is not known is asked again with the same request_id, at whichever access
 * process, until it is known. Some leave in the middle of a call, some have two devices, some never learn their reservation's name. */
#include <stdio.h>

#include "trial_parts.h"

static void again_in(struct person *p, enum trial_act act, uint64_t us)
{
    p->act = act;
    clock_set_in(&p->trial->clock.clock, &p->alarm, us);
}

static void finished(struct person *p)
{
    if (p->done)
        return;
    p->done = true;
    p->trial->done_count++;
    trial_line(p->trial, "%-9s is done: %s", p->user, reason_word(p->answer));
}

static uint64_t soon(struct person *p) { return 20000 + trial_below(p->trial, 400000); }

/* ---- what comes next --------------------------------------------------------------------------------------------------------------- */

static struct purchase *other_wish(struct person *p)
{
    struct trial *t = p->trial;
    const struct purchase *first = p->now;
    size_t skus = t->sales[first->sale].sku_count;
    int other = (int)((size_t)(first->sku + 1) % skus);
    char request[16];
    snprintf(request, sizeof request, "%.8s-2", first->request);
    if (p->plan == PLAN_OTHER_REQUEST)
        return trial_purchase(t, first->sale, first->sku, p->user, str_of(request));
    if (skus < 2)
        return NULL;
    return trial_purchase(t, first->sale, other, p->user, p->plan == PLAN_OTHER_SKU ? str_of(first->request) : str_of(request));
}

/* Under another name, after his wish was released; or one of the old ones again: it must still be as it was. */
static bool greedy(struct person *p)
{
    struct trial *t = p->trial;
    char request[16];
    if (p->leaving || p->now->ending != RESERVATION_RELEASED || p->wishes >= 8 || trial_below(t, 100) >= t->greed)
        return false;
    p->wishes++;
    snprintf(request, sizeof request, "again-%u", (unsigned)trial_below(t, p->wishes + 1));
    if (t->purchase_count + 8 < TRIAL_PURCHASES)
        p->now = trial_purchase(t, p->now->sale, p->now->sku, p->user, str_of(request));
    again_in(p, ACT_BUY, soon(p));
    return true;
}

/* He knows how his wish ended (or that it never began). */
static void fulfilled(struct person *p)
{
    if (p->now->ending == RESERVATION_ORDERED)
        trial_money_ordered(p);
    if (greedy(p))
        return;
    if (p->asks_left > 0) {
        p->asks_left--;
        again_in(p, (enum trial_act)trial_below(p->trial, 3), p->plan == PLAN_ANXIOUS ? soon(p) / 2 : soon(p) * 3);
        return;
    }
    bool more = p->stage == 0 && !p->leaving && (p->plan == PLAN_OTHER_REQUEST || p->plan == PLAN_OTHER_SKU || p->plan == PLAN_SECOND_SKU);
    struct purchase *next = more ? other_wish(p) : NULL;
    if (!next) {
        finished(p);
        return;
    }
    p->stage = 1;
    p->now = next;
    p->asks_left = 1;
    again_in(p, ACT_BUY, soon(p));
}

static void after_take(struct person *p)
{
    const struct take *t = &p->take;
    if (p->plan == PLAN_VANISH && t->has_entry) {
        finished(p);
    } else if (t->has_entry && t->reason != REASON_ALREADY_PURCHASED) {
        bool over = reservation_state_terminal(t->entry.state);
        if (p->buys_left > 0)
            p->buys_left--, again_in(p, ACT_BUY, soon(p));
        else if (over)
            fulfilled(p);
        else
            again_in(p, p->plan == PLAN_FORGET ? ACT_ASK_REQUEST : ACT_ASK, soon(p));
    } else if (reason_fate(t->reason) == FATE_REFUSED) {
        fulfilled(p);
    } else if (t->reason == REASON_STOCK_MOVING && p->trial->calm && ++p->moving > 4) {
        finished(p);    /* his bucket is empty and others are not */
    } else {
        again_in(p, p->plan == PLAN_FORGET && trial_below(p->trial, 2) ? ACT_ASK_REQUEST : ACT_BUY, soon(p) + 100000);
    }
}

static void after_query(struct person *p)
{
    const struct query *q = &p->query;
    if (q->reason == REASON_OK && reservation_state_terminal(q->view.status))
        fulfilled(p);
    else if (q->reason == REASON_NOT_FOUND)
        again_in(p, ACT_BUY, soon(p));    /* by request: perhaps there never was one */
    else
        again_in(p, trial_below(p->trial, 8) == 0 ? ACT_BUY : p->act, soon(p) * 2);
}

/* ---- calls -------------------------------------------------------------------------------------------------------------------------- */

static void heard(struct person *p, enum reason reason)
{
    p->by = p->at;
    p->at = NULL;
    p->answer = reason;
    clock_unset(&p->trial->clock.clock, &p->patience);
    trial_mark(p->trial, (uint64_t)reason << 32 | (uint64_t)(p - p->trial->people));
}

static void took(struct take *take)
{
    struct person *p = container_of(take, struct person, take);
    heard(p, take->reason);
    trial_judge_take(p);
    after_take(p);
}

static void asked(struct query *q)
{
    struct person *p = container_of(q, struct person, query);
    heard(p, q->reason);
    trial_judge_query(p);
    after_query(p);
}

static void buy(struct person *p)
{
    const struct sale *s = &p->trial->sales[p->now->sale];
    p->take.activity = str_of(s->name);
    p->take.sku = s->skus[p->now->sku].sku;
    p->take.user = str_of(p->user);
    p->take.request = str_of(p->now->request);
    p->take.done = took;
    if (reservation_take(&p->at->desk, &p->take))
        took(&p->take);
}

static void ask(struct person *p)
{
    static const uint32_t waits_ms[] = {0, 0, 0, 400, 2000, 5000};
    bool by_id = p->act == ACT_ASK && p->now->acknowledged;
    ident_write(p->now->ident, IDENT_RESERVATION, p->id);
    p->query.by = by_id ? QUERY_RESERVATION : QUERY_REQUEST;
    p->query.id = by_id ? (struct str){p->id, sizeof p->id} : str_of(p->now->request);
    p->query.activity = str_of(p->trial->sales[p->now->sale].name);
    p->query.user = str_of(p->user);
    p->query.wait_ms = waits_ms[trial_below(p->trial, countof(waits_ms))];
    p->query.done = asked;
    if (query_start(&p->at->desk, &p->query))
        asked(&p->query);
}

static struct process *somewhere(struct trial *t)
{
    size_t n = 0;
    while (n < t->process_count && t->processes[n].role == TRIAL_ACCESS)
        n++;
    return &t->processes[trial_below(t, n)];
}

static void acts(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct person *p = container_of(container_of(w, struct alarm, waiter), struct person, alarm);
    struct process *at = somewhere(p->trial);
    p->tries++;
    if (p->trial->loses && p->tries > 120) {
        finished(p);    /* Redis forgot him, and nothing brings him back yet */
        return;
    }
    if (!at->up || at->frozen) {
        again_in(p, p->act, soon(p));
        return;
    }
    p->at = at;
    p->began_us = p->trial->clock.mono_us;
    p->made_before = p->now->made;
    trial_line(p->trial, "%-9s %s %s %s/%s at %s", p->user, p->act == ACT_BUY ? "buys" : p->act == ACT_ASK ? "asks of" : "asks by request of", p->now->request,
               p->trial->sales[p->now->sale].name, p->trial->sales[p->now->sale].sku_names[p->now->sku], at->name);
    if (!p->trial->calm && trial_below(p->trial, 8) == 0)
        clock_set_in(&p->trial->clock.clock, &p->patience, 200 + trial_below(p->trial, trial_below(p->trial, 2) ? 3000 : 900000));
    if (p->act == ACT_BUY)
        buy(p);
    else
        ask(p);
}

/* He hears no more of his call. */
static void left(struct person *p)
{
    reservation_let_go(&p->take);
    query_let_go(&p->query);
    clock_unset(&p->trial->clock.clock, &p->patience);
    p->at = NULL;
    p->answer = REASON_LINK_LOST;
}

static void leaves(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct person *p = container_of(container_of(w, struct alarm, waiter), struct person, patience);
    if (!p->at)
        return;
    trial_line(p->trial, "%-9s leaves in the middle of his call", p->user);
    left(p);
    if (p->plan == PLAN_VANISH)
        finished(p);
    else
        again_in(p, p->act, soon(p));
}

void trial_people_leave(struct trial *t)
{
    for (size_t i = 0; i < t->person_count; i++) {
        struct person *p = &t->people[i];
        if (!p->done || !p->now->made)
            continue;
        p->plan = PLAN_ONCE;
        p->asks_left = (unsigned)trial_below(t, 2);
        p->done = false, p->leaving = true;
        t->done_count--;
        again_in(p, (enum trial_act)trial_below(t, 2), trial_below(t, 3 * SECOND_US));
    }
}

void trial_people_cut(struct trial *t, struct process *at)
{
    for (size_t i = 0; i < t->person_count; i++) {
        struct person *p = &t->people[i];
        if (p->at != at)
            continue;
        left(p);
        again_in(p, p->act, soon(p));
    }
}

/* ---- coming -------------------------------------------------------------------------------------------------------------------------- */

static enum trial_plan plan_of(struct trial *t)
{
    static const unsigned weights[PLAN_COUNT] = {[PLAN_ONCE] = 28, [PLAN_REPEAT] = 15, [PLAN_OTHER_REQUEST] = 10, [PLAN_OTHER_SKU] = 10,
                                                 [PLAN_SECOND_SKU] = 10, [PLAN_VANISH] = 8, [PLAN_FORGET] = 7,
                                                 [PLAN_ANXIOUS] = 12};
    uint64_t at = trial_below(t, 100);
    for (unsigned i = 0; i < PLAN_COUNT; i++) {
        if (at < weights[i])
            return (enum trial_plan)i;
        at -= weights[i];
    }
    return PLAN_ONCE;
}

static void comes(struct trial *t, struct person *p, const struct person *twin)
{
    uint64_t rush_us = 2 * (uint64_t)SECOND_US + trial_below(t, 4 * SECOND_US);
    *p = (struct person){.trial = t, .plan = twin ? PLAN_ONCE : plan_of(t), .alarm.waiter.wake = acts, .patience.waiter.wake = leaves, .answer = REASON_OK};
    if (twin) {
        memcpy(p->user, twin->user, sizeof p->user);
        p->now = twin->now;
    } else {
        char request[16];
        int sale = (int)trial_below(t, t->sale_count);
        snprintf(p->user, sizeof p->user, "u%02zu", (size_t)(p - t->people));
        snprintf(request, sizeof request, "r%u", (unsigned)trial_below(t, 5));    /* other people's request ids are their own affair */
        p->now = trial_purchase(t, sale, (int)trial_below(t, t->sales[sale].sku_count), p->user, str_of(request));
    }
    p->buys_left = p->plan == PLAN_REPEAT ? 1 + (unsigned)trial_below(t, 4) : 0;
    p->asks_left = p->plan == PLAN_ANXIOUS ? 30 : (unsigned)trial_below(t, 3);
    again_in(p, ACT_BUY, trial_below(t, 5) == 0 ? trial_below(t, 16 * SECOND_US) : rush_us + trial_below(t, SECOND_US));
}

void trial_people_come(struct trial *t)
{
    t->greed = 25 * (unsigned)trial_below(t, 5);
    size_t n = 8 + trial_below(t, TRIAL_PEOPLE - 8 + 1);
    for (size_t i = 0; i < n; i++) {
        bool twin = i > 0 && t->people[i - 1].plan != PLAN_VANISH && trial_below(t, 10) == 0;
        comes(t, &t->people[i], twin ? &t->people[i - 1] : NULL);
        t->person_count++;
    }
    t->result->people = n;
}

/* SPDX-License-Identifier: Apache-2.0
 * order_deferred.c: messages whose unit another transaction held. Their offsets are past, so that the rest of their queues goes on; they are placed again from
 * here, all in one call a second that waits for nobody, until they are decided or given up. What is given up, or finds no room, or dies with this process, is
 * announced again by the janitor: a reservation without a verdict is never forgotten. */
#include <stdlib.h>

#include "check.h"
#include "metric.h"
#include "order_parts.h"

struct order_deferred {
    struct create_order what;    /* texts point into memory */
    unsigned tries;
    char memory[768];
};

static void ring_later(struct order_desk *d)
{
    if (d->deferred_count > 0 && d->running && !d->draining)
        clock_set_in(d->clock, &d->deferred_alarm, (uint64_t)ORDER_DEFERRED_MS * 1000);
}

/* Whether it stays for another try. */
static bool stays(struct order_desk *d, struct order_deferred *m, const struct verdict *v)
{
    metric_add(METRIC_VERDICTS, v->outcome == REASON_RELEASED ? v->why : v->outcome, 1);
    d->facts.placed += v->outcome == REASON_ORDERED && v->fresh;
    return v->outcome == REASON_LOCK_TIMEOUT && ++m->tries < ORDER_DEFERRED_TRIES;
}

static void copy_to(struct order_deferred *to, const struct order_deferred *from)
{
    struct create_order what = from->what;
    struct str *texts[] = {&what.message, &what.request, &what.reservation, &what.activity, &what.sku, &what.user};
    for (size_t i = 0; i < countof(texts); i++)
        texts[i]->ptr = to->memory + (texts[i]->ptr - from->memory);
    memmove(to->memory, from->memory, sizeof to->memory);
    to->tries = from->tries;
    to->what = what;
}

static void placed(struct waiter *w, enum reason reason, const void *result)
{
    struct order_desk *d = container_of(w, struct order_desk, deferrer);
    const struct place_answer *a = result;
    size_t kept = 0, asked = d->deferred_asked;
    if (reason == REASON_POISON)
        d->deferred_count -= asked;    /* one of them can never be taken: announced again, it is found alone and parked */
    for (size_t i = 0; reason == REASON_OK && i < d->deferred_count; i++) {
        if (i < asked && !stays(d, &d->deferred[i], &a->verdicts[i]))
            continue;
        if (kept != i)
            copy_to(&d->deferred[kept], &d->deferred[i]);
        kept++;
    }
    if (reason == REASON_OK)
        d->deferred_count = kept;
    d->deferred_asked = 0;
    ring_later(d);
}

static void rang(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct order_desk *d = container_of(container_of(w, struct alarm, waiter), struct order_desk, deferred_alarm);
    struct create_order items[ORDER_DEFERRED_MAX];
    if (d->draining || waiter_busy(&d->deferrer) || d->deferred_count == 0)
        return;
    for (size_t i = 0; i < d->deferred_count; i++)
        items[i] = d->deferred[i].what;
    d->deferred_asked = d->deferred_count;
    struct place_ask ask = {.group = d->options.group, .owner = d->options.owner, .items = items, .count = d->deferred_count, .hurry = true};
    d->deferrer = (struct waiter){.wake = placed, .budget_ms = d->options.call_ms};
    ledger_place(d->ledger, &ask, &d->deferrer);
}

bool order_defer(struct order_desk *d, const struct create_order *what)
{
    if (d->deferred_count == ORDER_DEFERRED_MAX)
        return false;
    struct order_deferred *m = &d->deferred[d->deferred_count];
    struct arena memory = {.start = m->memory, .cap = sizeof m->memory};
    m->tries = 0;
    m->what = *what;
    m->what.trace = (struct str){0};
    struct str *texts[] = {&m->what.message, &m->what.request, &m->what.reservation, &m->what.activity, &m->what.sku, &m->what.user};
    for (size_t i = 0; i < countof(texts); i++) {
        size_t len = texts[i]->len;
        *texts[i] = arena_str(&memory, *texts[i]);
        if (texts[i]->len != len)
            return false;
    }
    d->deferred_count++;
    if (d->deferred_alarm.place == 0 && !waiter_busy(&d->deferrer))
        ring_later(d);
    return true;
}

bool order_deferred_init(struct order_desk *d)
{
    d->deferred_alarm.waiter.wake = rang;
    d->deferred = calloc(ORDER_DEFERRED_MAX, sizeof *d->deferred);
    return d->deferred != NULL;
}

void order_deferred_stop(struct order_desk *d)
{
    clock_unset(d->clock, &d->deferred_alarm);
    waiter_drop(&d->deferrer);
    free(d->deferred);
    d->deferred = NULL;
}

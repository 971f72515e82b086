/* SPDX-License-Identifier: Apache-2.0
 * hint.c: look which queues there are, now and then → of each new one, where it ends → pull from there, for ever. */
#include "hint.h"

#include "check.h"

#define LIMIT 32    /* messages of one pull */

struct hint_options hint_options_default(void)
{
    return (struct hint_options){.topic = str_lit(HINT_TOPIC), .wait_ms = 5000, .look_ms = 30000, .rest_ms = 500};
}

static void go_on(struct hint_queue *);

static void rest(struct hint_queue *q)
{
    struct hint *h = q->hint;
    uint64_t us = (uint64_t)h->options.rest_ms * 1000 << (q->faults < 6 ? q->faults : 6);
    q->faults++;
    clock_set_in(h->clock, &q->rest, us / 2 + random_below(h->random, us + 1));
}

static void rested(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    go_on(container_of(container_of(w, struct alarm, waiter), struct hint_queue, rest));
}

static void pulled(struct waiter *w, enum reason reason, const void *result)
{
    struct hint_queue *q = container_of(w, struct hint_queue, waiter);
    const struct pulled_answer *a = result;
    if (reason == REASON_OFFSET_MOVED)
        q->placed = false;    /* where it ends now */
    if (reason != REASON_OK) {
        rest(q);
        return;
    }
    q->next = a->next;
    q->faults = 0;
    if (a->count > 0)
        q->hint->heard(q->hint, a->count);
    else if (clock_mono_us(q->hint->clock) - q->asked_us < 20000)
        rest(q);    /* the broker did not hold the call */
    go_on(q);
}

static void ranged(struct waiter *w, enum reason reason, const void *result)
{
    struct hint_queue *q = container_of(w, struct hint_queue, waiter);
    const struct range_answer *a = result;
    if (reason != REASON_OK) {
        rest(q);
        return;
    }
    q->next = a->max;
    q->placed = true;
    go_on(q);
}

static void go_on(struct hint_queue *q)
{
    struct hint *h = q->hint;
    if (!h->running || !q->seen || waiter_busy(&q->waiter) || q->rest.place != 0)
        return;
    if (!q->placed) {
        q->waiter = (struct waiter){.wake = ranged};
        bus_range(h->bus, &q->name, &q->waiter);
        return;
    }
    struct pull_ask ask = {.queue = q->name, .offset = q->next, .limit = LIMIT, .wait_ms = h->options.wait_ms};
    q->asked_us = clock_mono_us(h->clock);
    q->waiter = (struct waiter){.wake = pulled};
    bus_pull(h->bus, &ask, &q->waiter);
}

static void meet(struct hint *h, const struct queue *name)
{
    for (size_t i = 0; i < h->count; i++)
        if (h->queues[i].name.number == name->number && str_eq(h->queues[i].name.broker, name->broker)) {
            h->queues[i].seen = true;
            return;
        }
    if (h->count == HINT_QUEUES || name->broker.len > sizeof h->queues[0].broker)
        return;
    struct hint_queue *q = &h->queues[h->count++];
    *q = (struct hint_queue){.hint = h, .seen = true, .rest.waiter.wake = rested};
    memcpy(q->broker, name->broker.ptr, name->broker.len);
    q->name = (struct queue){{q->broker, name->broker.len}, h->options.topic, name->number};
}

static void looked(struct waiter *w, enum reason reason, const void *result)
{
    struct hint *h = container_of(w, struct hint, looker);
    const struct queues_answer *a = result;
    if (reason == REASON_OK) {
        for (size_t i = 0; i < h->count; i++)
            h->queues[i].seen = false;
        for (size_t i = 0; i < a->count; i++)
            meet(h, &a->queues[i]);
        for (size_t i = 0; i < h->count; i++)
            go_on(&h->queues[i]);
    }
    uint64_t us = (uint64_t)(reason == REASON_OK && a->count > 0 ? h->options.look_ms : h->options.rest_ms * 4) * 1000;
    clock_set_in(h->clock, &h->look, us / 2 + random_below(h->random, us + 1));
}

static void look(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct hint *h = container_of(container_of(w, struct alarm, waiter), struct hint, look);
    h->looker = (struct waiter){.wake = looked};
    bus_queues(h->bus, h->options.topic, &h->looker);
}

void hint_init(struct hint *h, struct bus *bus, struct clock *clock, struct random *random, struct hint_options options,
               void (*heard)(struct hint *, size_t messages))
{
    check(heard != NULL);
    *h = (struct hint){.bus = bus, .clock = clock, .random = random, .options = options, .heard = heard, .look.waiter.wake = look};
}

void hint_start(struct hint *h)
{
    h->running = true;
    clock_set_in(h->clock, &h->look, 1000);
}

void hint_stop(struct hint *h)
{
    if (!h->clock)
        return;
    h->running = false;
    clock_unset(h->clock, &h->look);
    waiter_drop(&h->looker);
    for (size_t i = 0; i < h->count; i++) {
        clock_unset(h->clock, &h->queues[i].rest);
        waiter_drop(&h->queues[i].waiter);
    }
}

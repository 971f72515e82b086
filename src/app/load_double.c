/* SPDX-License-Identifier: Apache-2.0
 * load_double.c: a reader for each queue: where does it end? pull; send the chosen ones again; pull on. */
#include "load_double.h"

#include <stdlib.h>

#include "check.h"
#include "load_schedule.h"
#include "message.h"

#define QUEUES_MAX 64
#define NAME_MAX_BYTES 128
#define PULL_WAIT_MS 200
#define AGAIN_US 200000

struct reader {
    struct load_double *owner;
    char broker[NAME_MAX_BYTES];
    struct queue queue;
    int64_t next;                   /* -1: not known yet */
    struct waiter waiter, sender;
    size_t sending;
    struct alarm rest;
};
struct load_double {
    struct bus *bus;
    struct clock *clock;
    double share;
    uint64_t seed, drawn;
    struct load_double_counts counts;
    struct waiter waiter;
    struct alarm rest;
    struct reader readers[QUEUES_MAX];
};

static void go_on(struct reader *r);

static void rest(struct reader *r) { clock_set_in(r->owner->clock, &r->rest, AGAIN_US); }

static void rested(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    go_on(container_of(w, struct reader, rest.waiter));
}

static void ranged(struct waiter *w, enum reason reason, const void *result)
{
    struct reader *r = container_of(w, struct reader, waiter);
    const struct range_answer *a = result;
    if (reason != REASON_OK) {
        rest(r);
        return;
    }
    r->next = a->max;
    go_on(r);
}

static void sent(struct waiter *w, enum reason reason, const void *result)
{
    struct reader *r = container_of(w, struct reader, sender);
    struct load_double *d = r->owner;
    const struct send_result *a = result;
    for (size_t i = 0; i < r->sending; i++)
        if ((reason == REASON_OK ? a->verdicts[i] : reason) == REASON_OK)
            d->counts.doubled++;
        else
            d->counts.failed++;
    go_on(r);
}

static void pulled(struct waiter *w, enum reason reason, const void *result)
{
    struct reader *r = container_of(w, struct reader, waiter);
    struct load_double *d = r->owner;
    const struct pulled_answer *a = result;
    struct bus_message again[BUS_BATCH_MAX];
    if (reason != REASON_OK) {
        if (reason == REASON_OFFSET_MOVED)
            r->next = -1;
        rest(r);
        return;
    }
    r->sending = 0;
    r->next = a->next;
    for (size_t i = 0; i < a->count; i++) {
        const struct pulled *m = &a->messages[i];
        d->counts.seen++;
        if (load_share(load_chance(d->seed, d->drawn++)) < d->share && r->sending < BUS_BATCH_MAX)
            again[r->sending++] = (struct bus_message){.topic = str_lit(MESSAGE_TOPIC), .key = m->key, .body = m->body, .trace = m->trace, .spread = d->drawn};
    }
    if (r->sending == 0) {
        go_on(r);
        return;
    }
    r->sender = (struct waiter){.wake = sent};
    bus_send(d->bus, again, r->sending, &r->sender);
}

static void go_on(struct reader *r)
{
    if (r->next < 0) {
        r->waiter = (struct waiter){.wake = ranged};
        bus_range(r->owner->bus, &r->queue, &r->waiter);
        return;
    }
    struct pull_ask ask = {.queue = r->queue, .offset = r->next, .limit = BUS_PULL_MAX, .wait_ms = PULL_WAIT_MS};
    r->waiter = (struct waiter){.wake = pulled};
    bus_pull(r->owner->bus, &ask, &r->waiter);
}

static void named(struct waiter *w, enum reason reason, const void *result);

static void ask_names(struct load_double *d)
{
    d->waiter = (struct waiter){.wake = named};
    bus_queues(d->bus, str_lit(MESSAGE_TOPIC), &d->waiter);
}

static void ask_names_again(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    ask_names(container_of(w, struct load_double, rest.waiter));
}

static void named(struct waiter *w, enum reason reason, const void *result)
{
    struct load_double *d = container_of(w, struct load_double, waiter);
    const struct queues_answer *a = result;
    if (reason != REASON_OK || a->count == 0) {
        clock_set_in(d->clock, &d->rest, AGAIN_US);
        return;
    }
    for (size_t i = 0; i < a->count && i < QUEUES_MAX; i++) {
        struct reader *r = &d->readers[i];
        struct str broker = a->queues[i].broker;
        if (broker.len > NAME_MAX_BYTES)
            continue;
        *r = (struct reader){.owner = d, .queue = {{r->broker, broker.len}, str_lit(MESSAGE_TOPIC), a->queues[i].number}, .next = -1, .rest.waiter.wake = rested};
        memcpy(r->broker, broker.ptr, broker.len);
        d->counts.queues++;
        go_on(r);
    }
}

struct load_double *load_double_start(struct bus *bus, struct clock *clock, double percent, uint64_t seed)
{
    struct load_double *d = calloc(1, sizeof *d);
    check(d != NULL);
    *d = (struct load_double){.bus = bus, .clock = clock, .share = percent / 100, .seed = load_chance(seed, 0xd0b1e), .rest.waiter.wake = ask_names_again};
    ask_names(d);
    return d;
}

struct load_double_counts load_double_counts(const struct load_double *d) { return d->counts; }

void load_double_free(struct load_double *d)
{
    if (!d)
        return;
    waiter_drop(&d->waiter);
    clock_unset(d->clock, &d->rest);
    for (unsigned i = 0; i < QUEUES_MAX; i++) {
        struct reader *r = &d->readers[i];
        if (!r->owner)
            continue;
        waiter_drop(&r->waiter), waiter_drop(&r->sender);
        clock_unset(d->clock, &r->rest);
    }
    free(d);
}

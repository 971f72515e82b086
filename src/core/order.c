/* SPDX-License-Identifier: Apache-2.0
 * order.c: batches. A batch takes a prefix of what is pulled of each of its queues; no queue is in two batches. Its items go to the ledger
 * in one call; where the ledger can never take them, half as many are tried, down to the one that is parked, and then on from there. So also where another
 * transaction holds a row: the one that needs it is deferred (order_deferred.c), and its queue goes on. */
#include "order.h"

#include <stdlib.h>

#include "check.h"
#include "killpoint.h"
#include "metric.h"
#include "order_parts.h"

struct order_options order_options_default(void)
{
    return (struct order_options){
        .topic = str_lit(MESSAGE_TOPIC), .group = str_lit(MESSAGE_GROUP),
        .queues = ORDER_QUEUES_MAX, .batch = 256, .per_queue = 256, .batches = 2, .linger_ms = 2,
        .renew_ms = 1000, .pull_wait_ms = 500, .call_ms = 5000, .look_ms = 5000, .back_off_ms = 20};
}

static void go(struct order_batch *);

static void log_item(enum severity level, const char *event, const struct order_batch *b, size_t at, enum reason reason)
{
    const struct pulled_item *i = b->items[at];
    struct log_line l = log_event(level, event);
    log_str(&l, "activity_id", i->what.activity);
    log_str(&l, "sku_id", i->what.sku);
    log_str(&l, "user_id", i->what.user);
    log_str(&l, "request_id", i->what.request);
    log_str(&l, "reservation_id", i->what.reservation);
    log_str(&l, "message_id", i->what.message);
    log_str(&l, "message_key", i->key);
    log_i64(&l, "broker_queue", b->queues[at]->name.number);
    log_i64(&l, "offset", i->offset);
    log_text(&l, "error_class", reason_word(reason));
    log_end(&l);
}

/* ---- the end of a batch -------------------------------------------------------------------------------------------------- */

static bool unfinished(const struct order_batch *b, const struct order_queue *q)
{
    for (size_t i = b->done; i < b->count; i++)
        if (b->queues[i] == q)
            return true;
    return false;
}

/* Lets go of the batch's queues; those with items left over are given up, their pages with them. */
static void leave_queues(struct order_batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        struct order_queue *q = b->queues[i];
        if (!q->in_batch)
            continue;
        q->in_batch = false;
        if (unfinished(b, q) || q->gone)
            order_queue_drop(q);
    }
}

static void end(struct order_batch *b, bool lost)
{
    struct order_desk *d = b->desk;
    leave_queues(b);
    d->in_flight--;
    list_append(&d->idle, &b->link);
    if (lost)
        order_lease_soon(d);
    for (size_t i = 0; i < b->count; i++)
        order_queue_go_on(b->queues[i]);
    order_pump(d);
}

/* The first n items still open are decided: the offsets are behind them now. */
static void advance(struct order_batch *b, size_t n)
{
    for (size_t i = b->done; i < b->done + n; i++) {
        struct order_queue *q = b->queues[i];
        order_queue_advance(q, b->items[i]->offset + 1, b->items[i]->unique);
        order_queue_sure(q, b->began_us);
        q->pages[q->front].taken++;
    }
    b->done += n;
    b->faults = 0;
    if (!b->wary || b->limit > b->count - b->done)
        b->limit = b->count - b->done;
}

static void rested(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    go(container_of(container_of(w, struct alarm, waiter), struct order_batch, rest));
}

/* A call that did not do what it should. Not done: again later. Not known: the offset moved with the orders or not at all, so lease again, read
 * where the ledger stands, and go on from there. */
static void fault(struct order_batch *b, enum reason reason)
{
    enum fate fate = reason_fate(reason);
    if (reason == REASON_QUEUE_LOST || fate == FATE_UNKNOWN) {
        b->desk->facts.lost++;
        metric_one(METRIC_QUEUE_LOST);
        log_item(LEVEL_WARN, "batch_lost", b, b->done < b->count ? b->done : 0, reason);
        end(b, true);
        return;
    }
    if (fate != FATE_RETRY)
        log_item(LEVEL_ERROR, "batch_refused", b, b->done < b->count ? b->done : 0, reason);
    clock_set_in(b->desk->clock, &b->rest, order_back_off(b->desk, b->faults++));
}

/* ---- parking -------------------------------------------------------------------------------------------------------------- */

static void parked(struct waiter *w, enum reason reason, const void *result)
{
    (void)result;
    struct order_batch *b = container_of(w, struct order_batch, waiter);
    if (reason != REASON_OK) {
        if (!b->parking && reason_fate(reason) == FATE_UNKNOWN)
            clock_set_in(b->desk->clock, &b->rest, order_back_off(b->desk, b->faults++));    /* parking twice is parking once */
        else
            fault(b, reason);
        return;
    }
    KILLPOINT(PARK_ANSWERED);
    b->desk->facts.parked++;
    metric_add(METRIC_PARKED, b->why, 1);
    if (b->parking) {
        b->parking = false;
        b->desk->facts.consumed++;
        metric_one(METRIC_CONSUMED);
        advance(b, 1);
    } else {
        b->reused[b->reparking] = false;
    }
    go(b);
}

/* Item `at` goes before a person: with its offset where it stands at the head, without where its batch has moved it already. */
static void park(struct order_batch *b, size_t at, bool with_offset, enum reason why)
{
    struct order_desk *d = b->desk;
    const struct pulled_item *i = b->items[at];
    const struct order_queue *q = b->queues[at];
    struct queue_prefix prefix = {.queue = q->name, .from = q->next, .to = i->offset + 1, .identity = i->unique};
    struct park_ask ask = {.group = d->options.group, .owner = d->options.owner, .prefix = with_offset ? &prefix : NULL, .body = i->body, .key = i->key,
                           .what = i->read == REASON_OK ? &i->what : NULL, .why = why};
    b->parking = with_offset;
    b->reparking = at;
    b->why = why;
    log_item(LEVEL_ERROR, "message_parked", b, at, why);
    b->waiter = (struct waiter){.wake = parked, .budget_ms = d->options.call_ms};
    KILLPOINT(PARK_BEFORE);
    ledger_park(d->ledger, &ask, &b->waiter);
    KILLPOINT(PARK_ASKED);
}

/* ---- placing -------------------------------------------------------------------------------------------------------------- */

/* Another transaction holds what the item needs: the rest does not wait with it. */
static void defer(struct order_batch *b, size_t at)
{
    log_item(LEVEL_WARN, order_defer(b->desk, &b->whats[at]) ? "message_deferred" : "message_left_to_the_janitor", b, at, REASON_LOCK_TIMEOUT);
}

static void count_verdicts(struct order_batch *b, const struct place_answer *a)
{
    struct order_desk *d = b->desk;
    int64_t now = clock_now_ms(d->clock);
    for (size_t i = 0; i < a->count; i++) {
        const struct verdict *v = &a->verdicts[i];
        metric_add(METRIC_VERDICTS, v->outcome == REASON_RELEASED ? v->why : v->outcome, 1);
        b->reused[b->done + i] = v->outcome == REASON_MESSAGE_ID_REUSED;
        if (v->outcome == REASON_LOCK_TIMEOUT)
            defer(b, b->done + i);
        if (v->outcome == REASON_RELEASED && v->fresh && (v->why == REASON_TOKEN_CONFLICT || v->why == REASON_TOKEN_FOREIGN))
            log_item(LEVEL_ERROR, "order_create_failed", b, b->done + i, v->why);
        if (v->outcome == REASON_ORDERED && v->fresh) {
            int64_t took_ms = now - b->whats[b->done + i].created_ms;
            metric_observe(METRIC_ORDERED_SECONDS, took_ms > 0 ? (uint64_t)took_ms * 1000 : 0);
            d->facts.placed++;
        }
    }
    d->facts.consumed += a->count;
    metric_add(METRIC_CONSUMED, 0, a->count);
    if (a->regressed) {
        metric_one(METRIC_REGRESSED);
        log_item(LEVEL_ERROR, "ledger_went_back", b, b->done, REASON_OK);
    }
}

static void placed(struct waiter *w, enum reason reason, const void *result)
{
    struct order_batch *b = container_of(w, struct order_batch, waiter);
    const struct place_answer *a = result;
    metric_observe(METRIC_PLACE_SECONDS, clock_mono_us(b->desk->clock) - b->began_us);
    if (reason == REASON_OK) {
        KILLPOINT(PLACE_ANSWERED);
        check(a->count == (b->skipping ? 0 : b->limit));
        b->wary &= !b->skipping;
        b->skipping = false;
        count_verdicts(b, a);
        advance(b, b->limit);
        go(b);
    } else if (b->skipping || !ledger_splits(reason)) {
        fault(b, reason);
    } else if (b->limit > 1) {
        b->wary |= reason == REASON_LOCK_TIMEOUT;
        b->limit /= 2;    /* the first half is a prefix of its queues too */
        go(b);
    } else if (reason == REASON_LOCK_TIMEOUT) {
        b->skipping = true;
        defer(b, b->done);
        go(b);
    } else {
        park(b, b->done, true, REASON_POISON);
    }
}

/* The items done … done+limit-1 by queue: how far each queue moves with them. */
static size_t prefixes(const struct order_batch *b, struct queue_prefix *out)
{
    size_t count = 0;
    for (size_t i = b->done; i < b->done + b->limit; i++) {
        const struct order_queue *q = b->queues[i];
        if (count == 0 || b->queues[i - 1] != q)
            out[count++] = (struct queue_prefix){.queue = q->name, .from = q->next};
        out[count - 1].to = b->items[i]->offset + 1;
        out[count - 1].identity = b->items[i]->unique;
    }
    return count;
}

static void place(struct order_batch *b)
{
    struct order_desk *d = b->desk;
    struct queue_prefix moved[LEDGER_BATCH_MAX];
    struct place_ask ask = {.group = d->options.group, .owner = d->options.owner, .prefixes = moved, .prefix_count = prefixes(b, moved),
                            .items = b->whats + b->done, .count = b->skipping ? 0 : b->limit};
    b->began_us = clock_mono_us(d->clock);
    b->waiter = (struct waiter){.wake = placed, .budget_ms = d->options.call_ms};
    KILLPOINT(PLACE_BEFORE);
    ledger_place(d->ledger, &ask, &b->waiter);
    KILLPOINT(PLACE_ASKED);
}

/* The next step of a batch: what was found reused is parked, then what is left is placed, then it ends. */
static void go(struct order_batch *b)
{
    if (b->parking)
        return park(b, b->done, true, b->why);
    for (size_t i = 0; i < b->done; i++)
        if (b->reused[i])
            return park(b, i, false, REASON_MESSAGE_ID_REUSED);
    if (b->done == b->count)
        return end(b, false);
    if (b->items[b->done]->read != REASON_OK)
        return park(b, b->done, true, b->items[b->done]->read);
    place(b);
}

/* ---- making batches -------------------------------------------------------------------------------------------------------- */

static bool takeable(const struct order_queue *q) { return q->state == QUEUE_READY && !q->in_batch && !q->gone; }

/* As many items of a queue as there is room for. What cannot be read makes a batch of its own. */
static void gather(struct order_batch *b, struct order_queue *q)
{
    struct pulled_page *p = order_queue_page(q);
    uint64_t now = clock_mono_us(b->desk->clock);
    for (size_t i = p ? p->taken : 0; p && i < p->count && b->count < b->desk->options.batch; i++) {
        struct pulled_item *item = &p->items[i];
        if (item->read != REASON_OK && b->count > 0)
            return;
        b->queues[b->count] = q;
        b->whats[b->count] = item->what;
        b->items[b->count++] = item;
        metric_observe(METRIC_SCHEDULE_SECONDS, now - p->pulled_us);
        q->in_batch = true;
        if (item->read != REASON_OK)
            return;
    }
}

static size_t waiting(struct order_desk *d, int64_t *oldest)
{
    size_t count = 0;
    *oldest = INT64_MAX;
    for (size_t i = 0; i < d->queue_count; i++) {
        struct order_queue *q = &d->queues[i];
        const struct pulled_page *p = takeable(q) ? order_queue_page(q) : NULL;
        if (!p)
            continue;
        count += p->count - p->taken;
        if (p->items[p->taken].stored_ms < *oldest)
            *oldest = p->items[p->taken].stored_ms;
    }
    return count;
}

static void start(struct order_desk *d)
{
    struct order_batch *b = list_entry(list_take(&d->idle), struct order_batch, link);
    b->count = b->done = 0;
    b->faults = 0;
    b->parking = b->skipping = b->wary = false;
    memset(b->reused, 0, sizeof b->reused);
    d->turn++;
    for (size_t i = 0; i < d->queue_count && b->count < d->options.batch; i++) {
        struct order_queue *q = &d->queues[(i + d->turn) % d->queue_count];
        if (takeable(q))
            gather(b, q);
        if (b->count > 0 && b->items[b->count - 1]->read != REASON_OK)
            break;
    }
    check(b->count > 0);
    b->limit = b->count;
    d->in_flight++;
    go(b);
}

void order_pump(struct order_desk *d)
{
    int64_t oldest;
    size_t ready;
    while (d->running && !list_empty(&d->idle) && (ready = waiting(d, &oldest)) > 0) {
        int64_t age = clock_now_ms(d->clock) - oldest;
        metric_set(METRIC_LAG_SECONDS, 0, age > 0 ? age / 1000 : 0);
        if (d->in_flight > 0 && ready < d->options.batch && d->linger.place == 0 && !d->lingered) {
            clock_set_in(d->clock, &d->linger, (uint64_t)d->options.linger_ms * 1000);
            return;
        }
        if (d->in_flight > 0 && ready < d->options.batch && !d->lingered)
            return;
        d->lingered = false;
        clock_unset(d->clock, &d->linger);
        start(d);
        for (size_t i = 0; i < d->queue_count; i++)
            order_queue_go_on(&d->queues[i]);
    }
    if (d->in_flight == 0)
        metric_set(METRIC_LAG_SECONDS, 0, 0);
}

static void lingered(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct order_desk *d = container_of(container_of(w, struct alarm, waiter), struct order_desk, linger);
    d->lingered = true;
    order_pump(d);
    d->lingered = false;
}

/* ---- for everybody --------------------------------------------------------------------------------------------------------- */

static bool pages_new(struct order_desk *d)
{
    for (size_t i = 0; i < d->options.queues; i++)
        for (int k = 0; k < 2; k++) {
            struct pulled_page *p = &d->queues[i].pages[k];
            p->memory = arena_new(d->options.per_queue * 2048 + 2 * ORDER_BODY_KEPT);
            p->items = calloc(d->options.per_queue, sizeof *p->items);
            if (!p->memory.start || !p->items)
                return false;
        }
    return true;
}

struct order_desk *order_new(struct bus *bus, struct ledger *ledger, struct clock *clock, struct random *random, const struct order_options *options)
{
    check(options->queues >= 1 && options->queues <= ORDER_QUEUES_MAX && options->batch >= 1 && options->batch <= LEDGER_BATCH_MAX);
    check(options->per_queue >= 1 && options->per_queue <= BUS_PULL_MAX && options->batches >= 1 && options->owner.len > 0 && options->keys);
    struct order_desk *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->bus = bus, d->ledger = ledger, d->clock = clock, d->random = random, d->options = *options;
    d->queues = calloc(options->queues, sizeof *d->queues);
    d->batches = calloc(options->batches, sizeof *d->batches);
    list_init(&d->idle);
    d->linger.waiter.wake = lingered;
    if (!d->queues || !d->batches || !pages_new(d) || !order_deferred_init(d)) {
        order_free(d);
        return NULL;
    }
    order_queues_init(d);
    for (size_t i = 0; i < options->batches; i++) {
        d->batches[i].desk = d;
        d->batches[i].rest.waiter.wake = rested;
        list_append(&d->idle, &d->batches[i].link);
    }
    return d;
}

void order_start(struct order_desk *d)
{
    d->running = true;
    order_lease_soon(d);
}

/* What is pulled is still placed; nothing more is pulled. */
void order_drain(struct order_desk *d)
{
    d->draining = true;
    for (size_t i = 0; i < d->queue_count; i++)
        if (d->queues[i].state == QUEUE_READY || d->queues[i].state == QUEUE_DOUBT)
            waiter_drop(&d->queues[i].puller);
    order_pump(d);
    order_lease_soon(d);
}

bool order_idle(const struct order_desk *d)
{
    if (!d->draining || d->in_flight > 0 || waiter_busy(&d->deferrer))
        return false;
    for (size_t i = 0; i < d->queue_count; i++) {
        const struct order_queue *q = &d->queues[i];
        bool left = q->state != QUEUE_OUT && q->committed >= 0 && q->mirrored != q->committed;
        bool pulled = q->state == QUEUE_READY && (q->pages[0].taken < q->pages[0].count || q->pages[1].taken < q->pages[1].count);
        if (pulled || left || waiter_busy(&q->mirror))
            return false;
    }
    return true;
}

void order_free(struct order_desk *d)
{
    if (!d)
        return;
    d->running = false;
    clock_unset(d->clock, &d->linger);
    order_deferred_stop(d);
    if (d->queues)
        order_queues_stop(d);
    for (size_t i = 0; d->batches && i < d->options.batches; i++) {
        clock_unset(d->clock, &d->batches[i].rest);
        waiter_drop(&d->batches[i].waiter);
    }
    for (size_t i = 0; d->queues && i < d->options.queues; i++)
        for (int k = 0; k < 2; k++) {
            arena_free(&d->queues[i].pages[k].memory);
            free(d->queues[i].pages[k].items);
        }
    free(d->queues);
    free(d->batches);
    free(d);
}

struct order_facts order_facts(const struct order_desk *d)
{
    struct order_facts f = d->facts;
    f.held = 0;
    f.behind = 0;
    for (size_t i = 0; i < d->queue_count; i++) {
        const struct order_queue *q = &d->queues[i];
        if (q->state == QUEUE_OUT)
            continue;
        f.held++;
        f.behind += q->max > q->next ? q->max - q->next : 0;
    }
    return f;
}

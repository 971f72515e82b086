/* SPDX-License-Identifier: Apache-2.0 */
#include "redis_call.h"

#include <stdlib.h>

#include "metric.h"

static uint64_t mono_us(void) { return uv_hrtime() / 1000; }

static void count_failure(enum reason reason)
{
    switch (reason) {
    case REASON_TIMED_OUT:
    case REASON_LINK_LOST:
    case REASON_ENGINE_FAULT:
    case REASON_ENGINE_BUSY:
    case REASON_ENGINE_REFUSED:
    case REASON_DEPENDENCY_DOWN:
    case REASON_OVERLOADED: metric_add(METRIC_ENGINE_CALLS, reason, 1); break;
    default: break;
    }
}

/* ---- refusals ------------------------------------------------------------------------------------------------------------ */

/* A call that did not begin. */
struct refusal {
    struct slot slot;
    struct link link;
    enum reason reason;
    const void *result;
};

static void on_turn(uv_idle_t *turn)
{
    uv_idle_stop(turn);
    redis_refusals_tell(turn->data);
}

void redis_refuse(struct redis_store *r, struct waiter *w, enum reason reason, const void *result)
{
    struct refusal *refusal = calloc(1, sizeof *refusal);
    check(refusal != NULL);
    refusal->reason = reason;
    refusal->result = result;
    slot_arm(&refusal->slot, w);
    list_append(&r->refusals, &refusal->link);
    if (!r->closing)
        uv_idle_start(&r->turn, on_turn);
}

void redis_refusals_tell(struct redis_store *r)
{
    struct link now;    /* those that come while these are told wait for the next turn */
    list_init(&now);
    for (struct link *at; (at = list_take(&r->refusals));)
        list_append(&now, at);
    for (struct link *at; (at = list_take(&now));) {
        struct refusal *refusal = list_entry(at, struct refusal, link);
        count_failure(refusal->reason);
        slot_wake(&refusal->slot, refusal->reason, refusal->result);
        free(refusal);
    }
}

/* ---- ends ---------------------------------------------------------------------------------------------------------------- */

static void batch_free(struct redis_store *r, struct redis_batch_memory *b)
{
    if (!b)
        return;
    b->next = r->batches;
    r->batches = b;
}

/* The call's memory is free before its waiter hears, who may call again at once: what he hears lies in the reply, the arena, the batch. */
void redis_call_end(struct redis_store *r, struct redis_call *c, enum reason reason, const void *result)
{
    struct slot told = c->slot;
    struct redis_batch_memory *batch = c->batch;
    heap_remove(&r->deadlines, &c->place);
    c->batch = NULL;
    c->slot.waiter = NULL;
    list_append(&r->free, &c->link);
    count_failure(reason);
    if (told.waiter) {
        told.waiter->slot = &told;
        slot_wake(&told, reason, result);
    }
    batch_free(r, batch);
}

void redis_call_part_failed(struct redis_call *c, const struct redis_command *part, enum reason reason)
{
    for (size_t i = 0; i < part->count; i++)
        c->batch->verdicts[c->batch->order[part->from + i]] = reason;
    c->mixed |= c->common != REASON_OK && c->common != reason;
    c->common = reason;
}

void redis_call_batch_end(struct redis_store *r, struct redis_call *c)
{
    struct batch_result result = {c->batch->verdicts, c->count};
    if (c->some_known || c->mixed)
        redis_call_end(r, c, REASON_OK, &result);
    else
        redis_call_end(r, c, c->common, NULL);
}

static void expire(struct redis_store *r, struct redis_call *c)
{
    enum reason reason = REASON_OK;
    while (!list_empty(&c->parts)) {
        struct redis_command *part = list_entry(c->parts.next, struct redis_command, of_owner);
        struct redis_command was = {.from = part->from, .count = part->count};
        reason = redis_link_abandon(redis_node_of(r, NULL)->link, part) ? REASON_TIMED_OUT : REASON_DEPENDENCY_DOWN;
        if (c->batch)
            redis_call_part_failed(c, &was, reason);
    }
    if (c->batch)
        redis_call_batch_end(r, c);
    else
        redis_call_end(r, c, reason, NULL);
}

static void arm(struct redis_store *r);

static void on_timer(uv_timer_t *timer)
{
    struct redis_store *r = timer->data;
    r->armed_us = 0;
    uint64_t now_us = mono_us();
    for (const struct heap_item *first; (first = heap_first(&r->deadlines)) && first->due <= now_us;)
        expire(r, first->what);
    arm(r);
}

static void arm(struct redis_store *r)
{
    const struct heap_item *first = heap_first(&r->deadlines);
    if (!first || (r->armed_us != 0 && r->armed_us <= first->due))
        return;
    uint64_t now_us = mono_us();
    r->armed_us = first->due;
    uv_update_time(r->options.loop);    /* a timer counts from the loop's time, which may be old */
    uv_timer_start(&r->timer, on_timer, first->due > now_us ? (first->due - now_us) / 1000 + 1 : 1, 0);
}

/* ---- beginnings ---------------------------------------------------------------------------------------------------------- */

static struct redis_call *call_new(struct redis_store *r, enum redis_script script)
{
    struct link *at = list_take(&r->free);
    if (!at)
        return NULL;
    struct redis_call *c = list_entry(at, struct redis_call, link);
    c->script = script;
    c->some_known = c->mixed = false;
    c->common = REASON_OK;
    c->batch = NULL;
    return c;
}

struct redis_call *redis_call_begin(struct redis_store *r, enum redis_script script, bool fits, struct waiter *w)
{
    enum reason reason = !fits ? REASON_ENGINE_REFUSED : !redis_link_up(redis_node_of(r, NULL)->link) ? REASON_DEPENDENCY_DOWN : REASON_OK;
    struct redis_call *c = reason == REASON_OK ? call_new(r, script) : NULL;
    if (!c)
        redis_refuse(r, w, reason == REASON_OK ? REASON_OVERLOADED : reason, NULL);
    return c;
}

struct redis_batch_memory *redis_call_batch_memory(struct redis_store *r)
{
    struct redis_batch_memory *b = r->batches ? r->batches : calloc(1, sizeof *b);
    check(b != NULL);
    r->batches = b->next;
    return b;
}

enum reason redis_call_part(struct redis_store *r, struct redis_call *c, const struct bucket *bucket, const struct redis_words *w)
{
    struct redis_command *part = redis_link_take(redis_node_of(r, bucket)->link, c->batch != NULL);
    if (!part)
        return REASON_OVERLOADED;
    part->owner = c;
    part->script = c->script;
    part->from = part->count = 0;
    list_append(&c->parts, &part->of_owner);
    redis_command_write(part, w->at, w->count);
    return buf_ok(&w->text) && buf_ok(&part->bytes) ? REASON_OK : REASON_ENGINE_REFUSED;
}

void redis_call_refuse(struct redis_store *r, struct redis_call *c, struct waiter *w, enum reason reason)
{
    while (!list_empty(&c->parts)) {
        struct redis_command *part = list_entry(c->parts.next, struct redis_command, of_owner);
        redis_link_give_back(redis_node_of(r, NULL)->link, part);
    }
    batch_free(r, c->batch);
    c->batch = NULL;
    list_append(&r->free, &c->link);
    redis_refuse(r, w, reason, NULL);
}

void redis_call_go(struct redis_store *r, struct redis_call *c, struct waiter *w, uint32_t budget_ms)
{
    slot_arm(&c->slot, w);
    heap_put(&r->deadlines, c, &c->place, mono_us() + (uint64_t)(w->budget_ms ? w->budget_ms : budget_ms) * 1000);
    arm(r);
    list_each(at, &c->parts)
        redis_link_send(redis_node_of(r, NULL)->link, list_entry(at, struct redis_command, of_owner));
}

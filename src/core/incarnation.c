/* SPDX-License-Identifier: Apache-2.0
 * incarnation.c: a slot per bucket, found by the activity's number, epoch and bucket; a handful of closings under way. */
#include "incarnation.h"

#include <stdlib.h>

#include "check.h"
#include "killpoint.h"
#include "log.h"
#include "metric.h"

#define PROBES 8

struct incarnation_slot {
    uint32_t key;                    /* 0: free */
    uint32_t turn;                   /* answers to what was asked in an earlier one say nothing */
    uint64_t highest, used;
    bool suspect;                    /* it has gone back, and is not known to be closed */
    bool closed;                     /* it was closed for this server, and nobody is known to have healed it */
    char of[INCARNATION_TEXT];       /* whose sequence it is */
    size_t of_len;
};

struct incarnation_options incarnation_options_default(void) { return (struct incarnation_options){.buckets = 1024, .call_ms = 500}; }

static uint32_t key_of(const struct activity *a, uint8_t bucket) { return (uint32_t)a->number << 16 | (uint32_t)a->epoch << 8 | bucket | 1u << 31; }

static struct incarnation_slot *find(struct incarnation_guard *g, uint32_t key)
{
    size_t mask = g->options.buckets - 1, at = (key * 0x9e3779b1u >> 7) & mask;
    for (size_t i = 0; i < PROBES; i++)
        if (g->slots[(at + i) & mask].key == key)
            return &g->slots[(at + i) & mask];
    return NULL;
}

/* Of the places that may be its own the free one, or the one not used longest. */
static struct incarnation_slot *found_or_made(struct incarnation_guard *g, uint32_t key)
{
    struct incarnation_slot *s = find(g, key);
    if (s)
        return s;
    size_t mask = g->options.buckets - 1, at = (key * 0x9e3779b1u >> 7) & mask;
    s = &g->slots[at];
    for (size_t i = 1; i < PROBES; i++)
        if (g->slots[(at + i) & mask].used < s->used)
            s = &g->slots[(at + i) & mask];
    *s = (struct incarnation_slot){.key = key, .turn = s->turn + 1};
    return s;
}

static struct str recorded_of(const struct activity *a, uint8_t bucket)
{
    return a->incarnations && bucket < a->buckets ? a->incarnations[bucket] : (struct str){0};
}

bool incarnation_recorded(const struct activity *a, uint8_t bucket, struct str incarnation)
{
    struct str recorded = recorded_of(a, bucket);
    return recorded.len > 0 && str_eq(recorded, incarnation);
}

enum incarnation incarnation_of(struct incarnation_guard *g, const struct activity *a, uint8_t bucket)
{
    struct bucket b = {a->activity, a->epoch, bucket};
    struct str recorded = recorded_of(a, bucket), there = store_incarnation(g->store, &b);
    if (recorded.len == 0 || there.len == 0)
        return INCARNATION_UNHEARD;
    struct incarnation_slot *s = find(g, key_of(a, bucket));
    bool known = str_eq(recorded, there) && !(s && s->suspect);
    if (known && s)
        s->closed = false;
    return known ? INCARNATION_KNOWN : INCARNATION_STRANGER;
}

struct incarnation_asked incarnation_ask(struct incarnation_guard *g, const struct activity *a, uint8_t bucket)
{
    struct bucket b = {a->activity, a->epoch, bucket};
    struct incarnation_slot *s = found_or_made(g, key_of(a, bucket));
    struct str there = store_incarnation(g->store, &b);
    s->used = ++g->turns;
    if (there.len > 0 && !str_eq(there, (struct str){s->of, s->of_len})) {    /* another server, another count */
        check(there.len <= sizeof s->of);
        memcpy(s->of, there.ptr, there.len);
        s->of_len = there.len;
        s->highest = 0;
        s->suspect = s->closed = false;
        s->turn++;
    }
    return (struct incarnation_asked){s->highest, s->turn};
}

bool incarnation_answered(struct incarnation_guard *g, const struct activity *a, uint8_t bucket, struct incarnation_asked asked, uint64_t sequence, bool counts)
{
    struct incarnation_slot *s = find(g, key_of(a, bucket));
    if (!s || s->turn != asked.turn)
        return true;
    if (sequence >= asked.highest + (counts ? 1 : 0)) {
        if (sequence > s->highest)
            s->highest = sequence;
        return true;
    }
    s->suspect = true;
    s->turn++;    /* of all that is under way this one speaks */
    incarnation_close(g, a, bucket);
    return false;
}

bool incarnation_closed(struct incarnation_guard *g, const struct activity *a, uint8_t bucket)
{
    const struct incarnation_slot *s = find(g, key_of(a, bucket));
    return s && s->closed;
}

/* ---- closing --------------------------------------------------------------------------------------------------------------- */

static void log_closed(const struct incarnation_closing *c, const struct close_answer *a)
{
    enum reason why = c->went_back ? REASON_SEQUENCE_BACK : REASON_INCARNATION_NEW;
    metric_add(METRIC_CLOSINGS, why, 1);
    struct log_line l = log_event(LEVEL_ERROR, "bucket_closed");
    log_str(&l, "activity_id", c->bucket.activity);
    log_i64(&l, "bucket", c->bucket.number);
    log_text(&l, "error_class", reason_word(why));
    log_str(&l, "incarnation", a->incarnation);
    log_str(&l, "recorded", (struct str){c->recorded, c->recorded_len});
    log_end(&l);
}

static void close_ended(struct waiter *w, enum reason reason, const void *result)
{
    struct incarnation_closing *c = container_of(w, struct incarnation_closing, waiter);
    struct incarnation_guard *g = c->guard;
    struct incarnation_slot *s = find(g, c->key);
    const struct close_answer *a = result;
    if ((reason != REASON_OK && reason != REASON_UNCHANGED) || !a)    /* whoever finds it next tries again */
        return;
    KILLPOINT(CLOSE_ANSWERED);
    if (s) {
        s->suspect = false;
        s->closed = a->mark.len > 0;
        s->turn++;
        s->highest = a->sequence;
    }
    if (reason == REASON_OK)
        log_closed(c, a);
    if (g->closed && a->mark.len > 0)
        g->closed(g, &c->bucket, a->mark);
}

/* One that is free; NULL: none is, or this bucket is being closed already. */
static struct incarnation_closing *closing(struct incarnation_guard *g, uint32_t key)
{
    struct incarnation_closing *free = NULL;
    for (size_t i = 0; i < INCARNATION_CLOSES; i++) {
        struct incarnation_closing *c = &g->closings[i];
        if (!waiter_busy(&c->waiter))
            free = c;
        else if (c->key == key)
            return NULL;
    }
    return free;
}

void incarnation_close(struct incarnation_guard *g, const struct activity *a, uint8_t bucket)
{
    struct incarnation_slot *s = found_or_made(g, key_of(a, bucket));
    struct incarnation_closing *c = closing(g, s->key);
    struct str recorded = recorded_of(a, bucket);
    if (!c || a->activity.len > sizeof c->name || recorded.len > sizeof c->recorded)
        return;
    memcpy(c->name, a->activity.ptr, a->activity.len);
    if (recorded.len > 0)
        memcpy(c->recorded, recorded.ptr, recorded.len);
    c->recorded_len = recorded.len;
    c->guard = g;
    c->key = s->key;
    c->went_back = s->suspect;
    c->bucket = (struct bucket){{c->name, a->activity.len}, a->epoch, bucket};
    struct close_ask ask = {.bucket = c->bucket, .recorded = recorded, .went_back = s->suspect, .highest = s->highest};
    c->waiter = (struct waiter){.wake = close_ended, .budget_ms = g->options.call_ms};
    store_close(g->store, &ask, &c->waiter);
    KILLPOINT(CLOSE_ASKED);
}

/* ---- for everybody ------------------------------------------------------------------------------------------------------------ */

bool incarnation_init(struct incarnation_guard *g, struct store *store, struct incarnation_options options)
{
    check(options.buckets >= PROBES && (options.buckets & (options.buckets - 1)) == 0);
    *g = (struct incarnation_guard){.store = store, .options = options, .slots = calloc(options.buckets, sizeof *g->slots)};
    return g->slots != NULL;
}

void incarnation_free(struct incarnation_guard *g)
{
    for (size_t i = 0; i < INCARNATION_CLOSES; i++)
        waiter_drop(&g->closings[i].waiter);
    free(g->slots);
    g->slots = NULL;
}

bool incarnation_idle(const struct incarnation_guard *g)
{
    for (size_t i = 0; i < INCARNATION_CLOSES; i++)
        if (waiter_busy(&g->closings[i].waiter))
            return false;
    return true;
}

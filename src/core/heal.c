/* SPDX-License-Identifier: Apache-2.0
 * heal.c: a job waits for its turn → asks (a slice) → waits … → rests and asks, until all is delivered → opens → ends. What it asks for is the mark that it knows at that
 * moment: an answer about another one opens nothing. Of the jobs whose rest is over the one of the lightest sale is next, and of these the one not asked longest. */
#include "heal.h"

#include <stdlib.h>

#include "check.h"
#include "killpoint.h"
#include "log.h"
#include "metric.h"

struct healer_job {
    struct healer *healer;
    bool on, opening, calling;
    uint64_t weight;                 /* of its sale: the lightest goes first */
    uint64_t due_us, turn;           /* when it may ask again; when it last did */
    struct bucket bucket;
    char name[64], mark[MARK_TEXT], asked[MARK_TEXT];
    size_t mark_len, asked_len;
    uint32_t look_ms, failures;
    uint64_t told;
    struct waiter call;
};

struct healer_options healer_options_default(void)
{
    return (struct healer_options){.jobs = 64, .calls = 2, .slice = 500, .call_ms = 3000, .look_ms = 10, .look_most_ms = 200, .fault_ms = 200, .attempts = 10};
}

static void pump(struct healer *);

static void end(struct healer_job *job)
{
    job->on = false;
    job->healer->busy--;
}

static void rest(struct healer_job *job, uint32_t ms) { job->due_us = clock_mono_us(job->healer->clock) + (uint64_t)ms * 1000; }

static void rang(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    pump(container_of(container_of(w, struct alarm, waiter), struct healer, alarm));
}

static struct str text_of(const char *text, size_t len) { return (struct str){text, len}; }

/* A mark is the incarnation it was set for, a slash, and more. */
static struct str incarnation_of_mark(struct str mark)
{
    size_t n = 0;
    while (n < mark.len && mark.ptr[n] != '/')
        n++;
    return (struct str){mark.ptr, n};
}

static void failed(struct healer_job *job, enum reason reason)
{
    enum fate fate = reason_fate(reason);
    bool again = (fate == FATE_RETRY || fate == FATE_UNKNOWN) && reason != REASON_STALE_EPOCH;
    if (again && ++job->failures < job->healer->options.attempts)
        rest(job, job->healer->options.fault_ms);
    else
        end(job);
}

static void log_opened(const struct healer_job *job, const struct open_answer *a)
{
    metric_one(METRIC_HEALED);
    struct log_line l = log_event(LEVEL_WARN, "bucket_opened");
    log_str(&l, "activity_id", job->bucket.activity);
    log_i64(&l, "bucket", job->bucket.number);
    log_str(&l, "incarnation", incarnation_of_mark(text_of(job->asked, job->asked_len)));
    log_i64(&l, "closed_ms", a->closed_ms);
    log_i64(&l, "told", (int64_t)job->told);
    log_end(&l);
}

static void opened(struct healer_job *job, enum reason reason, const struct open_answer *a)
{
    if (reason_fate(reason) != FATE_DONE) {
        failed(job, reason);
        return;
    }
    KILLPOINT(OPEN_ANSWERED);
    if (reason == REASON_OK) {
        job->healer->healed++;
        log_opened(job, a);
    }
    end(job);    /* UNCHANGED: opened by another, or closed anew; whoever looks next will see */
}

static void told(struct healer_job *job, enum reason reason, const struct heal_answer *a)
{
    if (reason != REASON_OK) {
        failed(job, reason);
        return;
    }
    KILLPOINT(HEAL_ANSWERED);
    bool same = str_eq(text_of(job->mark, job->mark_len), text_of(job->asked, job->asked_len));
    job->failures = 0;
    job->told = a->told;
    job->opening = a->healed && same;
    if (a->more || a->healed) {
        job->look_ms = job->healer->options.look_ms;
        return;
    }
    rest(job, job->look_ms);
    job->look_ms = job->look_ms * 2 < job->healer->options.look_most_ms ? job->look_ms * 2 : job->healer->options.look_most_ms;
}

static void answered(struct waiter *w, enum reason reason, const void *result)
{
    struct healer_job *job = container_of(w, struct healer_job, call);
    job->calling = false;
    job->healer->calling--;
    if (job->healer->draining)
        end(job);
    else if (job->opening)
        opened(job, reason, result);
    else
        told(job, reason, result);
    pump(job->healer);
}

static void ask(struct healer_job *job)
{
    struct healer *h = job->healer;
    job->calling = true;
    job->turn = ++h->turns;
    h->calling++;
    job->call = (struct waiter){.wake = answered, .budget_ms = h->options.call_ms};
    if (job->opening) {
        struct open_ask open = {.bucket = job->bucket, .mark = text_of(job->asked, job->asked_len)};
        KILLPOINT(OPEN_BEFORE);
        store_open(h->store, &open, &job->call);
        KILLPOINT(OPEN_ASKED);
        return;
    }
    memcpy(job->asked, job->mark, sizeof job->asked);
    job->asked_len = job->mark_len;
    struct str mark = text_of(job->asked, job->asked_len);
    struct heal_ask heal = {.bucket = job->bucket, .mark = mark, .incarnation = incarnation_of_mark(mark), .limit = h->options.slice};
    KILLPOINT(HEAL_BEFORE);
    ledger_heal(h->ledger, &heal, &job->call);
    KILLPOINT(HEAL_ASKED);
}

/* Of the jobs that may ask the one that goes first; NULL: none. `next_us`: when the first of the others may. */
static struct healer_job *next_job(struct healer *h, uint64_t now_us, uint64_t *next_us)
{
    struct healer_job *first = NULL;
    for (size_t i = 0; i < h->options.jobs; i++) {
        struct healer_job *job = &h->jobs[i];
        if (!job->on || job->calling)
            continue;
        if (job->due_us > now_us)
            *next_us = job->due_us < *next_us ? job->due_us : *next_us;
        else if (!first || job->weight < first->weight || (job->weight == first->weight && job->turn < first->turn))
            first = job;
    }
    return first;
}

static void pump(struct healer *h)
{
    uint64_t now_us = clock_mono_us(h->clock), next_us = UINT64_MAX;
    for (struct healer_job *job; h->calling < h->options.calls && (job = next_job(h, now_us, &next_us));)
        ask(job);
    if (next_us != UINT64_MAX && h->calling < h->options.calls)
        clock_set(h->clock, &h->alarm, next_us);
}

/* ---- for everybody --------------------------------------------------------------------------------------------------------------- */

bool healer_init(struct healer *h, struct store *store, struct ledger *ledger, struct clock *clock, struct healer_options options)
{
    check(options.jobs >= 1 && options.calls >= 1 && options.slice >= 1 && options.slice <= HEAL_MAX && options.attempts >= 1);
    *h = (struct healer){.store = store, .ledger = ledger, .clock = clock, .options = options, .jobs = calloc(options.jobs, sizeof *h->jobs),
                         .alarm.waiter.wake = rang};
    for (size_t i = 0; h->jobs && i < options.jobs; i++)
        h->jobs[i].healer = h;
    return h->jobs != NULL;
}

static bool same_bucket(const struct bucket *a, const struct bucket *b)
{
    return a->number == b->number && a->epoch == b->epoch && str_eq(a->activity, b->activity);
}

#define NOT_OPEN ((uint64_t)1 << 61)
#define OVER ((uint64_t)1 << 62)

/* Small sales before large ones, for they are over sooner; before all others those that are open; behind all others those that are over. */
static uint64_t weight_of(const struct activity *a)
{
    uint64_t units = 0;
    for (size_t i = 0; i < a->sku_count; i++)
        units += (uint64_t)a->skus[i].stock;
    return units + (a->state == ACTIVITY_OPEN ? 0 : a->state == ACTIVITY_CLOSED ? OVER : NOT_OPEN);
}

/* A sale that is over is recovered while no other sale is. */
static bool may_begin(const struct healer *h, const struct bucket *bucket, uint64_t weight)
{
    for (size_t i = 0; i < h->options.jobs && weight >= OVER; i++)
        if (h->jobs[i].on && !str_eq(h->jobs[i].bucket.activity, bucket->activity))
            return false;
    return true;
}

/* The bucket's job, or one for it: a free one, or that of the heaviest sale where that is heavier than its own. NULL: none, a later round finds it again. */
static struct healer_job *job_of(struct healer *h, const struct bucket *bucket, uint64_t weight)
{
    struct healer_job *place = NULL;
    for (size_t i = 0; i < h->options.jobs; i++) {
        struct healer_job *job = &h->jobs[i];
        if (job->on && same_bucket(&job->bucket, bucket))
            return job;
        if (!job->on && (!place || place->on))
            place = job;
        if (job->on && !job->calling && job->weight > weight && (!place || (place->on && place->weight < job->weight)))
            place = job;
    }
    if (place && place->on)
        end(place);
    return place;
}

void healer_want(struct healer *h, const struct activity *a, const struct bucket *bucket, struct str mark)
{
    if (h->draining || mark.len == 0 || mark.len > sizeof h->jobs->mark || bucket->activity.len > sizeof h->jobs->name)
        return;
    uint64_t weight = weight_of(a);
    struct healer_job *job = may_begin(h, bucket, weight) ? job_of(h, bucket, weight) : NULL;
    if (!job)
        return;
    memcpy(job->mark, mark.ptr, mark.len);
    job->mark_len = mark.len;
    job->weight = weight;
    if (job->on)
        return;    /* the next it asks is about this mark */
    memcpy(job->name, bucket->activity.ptr, bucket->activity.len);
    job->bucket = (struct bucket){{job->name, bucket->activity.len}, bucket->epoch, bucket->number};
    job->on = true;
    job->opening = false;
    job->look_ms = h->options.look_ms;
    job->due_us = 0;
    job->failures = 0;
    job->told = 0;
    h->busy++;
    pump(h);
}

void healer_drain(struct healer *h)
{
    h->draining = true;
    clock_unset(h->clock, &h->alarm);
    for (size_t i = 0; i < h->options.jobs; i++)
        if (h->jobs[i].on && !h->jobs[i].calling)
            end(&h->jobs[i]);
}

void healer_free(struct healer *h)
{
    if (h->clock)
        clock_unset(h->clock, &h->alarm);
    for (size_t i = 0; h->jobs && i < h->options.jobs; i++)
        waiter_drop(&h->jobs[i].call);
    free(h->jobs);
    h->jobs = NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 * settler.c: a job is one ask, in one of: free, ready (waits for the window), in a call, resting (waits for its next attempt). */
#include "settler.h"

#include <stdlib.h>

#include "check.h"
#include "killpoint.h"
#include "reason.h"

struct settle_job {
    struct link link;
    struct settle_ask ask;            /* texts point into memory */
    struct settle_wait *wait;
    uint32_t attempts;
    uint64_t due_us;
    char memory[512];
};
struct settle_call {
    struct link link;
    struct settler *settler;
    struct waiter waiter;
    size_t count;
    struct settle_job *jobs[STORE_BATCH_MAX];
};

struct settler_options settler_options_default(void)
{
    return (struct settler_options){.window_us = 3000, .batch = 128, .pending = 8192, .calls = 4, .call_ms = 500, .attempts = 4, .back_off_ms = 20};
}

size_t settler_memory(struct settler_options o) { return o.pending * sizeof(struct settle_job) + o.calls * sizeof(struct settle_call); }

static void flush(struct settler *);

static void finish(struct settler *s, struct settle_job *job, enum reason reason)
{
    struct settle_wait *wait = job->wait;
    job->wait = NULL;
    s->held--;
    list_append(&s->free, &job->link);
    if (!wait)
        return;
    wait->job = NULL;
    wait->done(wait, reason);
}

/* Told again later, or given up. STALE_EPOCH is not repeated here: whoever asked knows too little. */
static void again(struct settler *s, struct settle_job *job, enum reason reason)
{
    enum fate fate = reason_fate(reason);
    bool hopeless = reason == REASON_STALE_EPOCH || (fate != FATE_RETRY && fate != FATE_UNKNOWN);
    if (hopeless || ++job->attempts >= s->options.attempts) {
        finish(s, job, reason);
        return;
    }
    uint64_t rest = (uint64_t)s->options.back_off_ms * 1000 << (job->attempts - 1);
    job->due_us = clock_mono_us(s->clock) + rest / 2 + random_below(s->random, rest + 1);
    list_append(&s->resting, &job->link);
    if (s->rest.place == 0 || s->rest.due_us > job->due_us)
        clock_set(s->clock, &s->rest, job->due_us);
}

static void told(struct waiter *w, enum reason reason, const void *result)
{
    struct settle_call *call = container_of(w, struct settle_call, waiter);
    struct settler *s = call->settler;
    const struct batch_result *r = result;
    check(reason != REASON_OK || r->count == call->count);
    if (reason == REASON_OK)
        KILLPOINT(SETTLE_ANSWERED);
    for (size_t i = 0; i < call->count; i++) {
        enum reason verdict = reason == REASON_OK ? r->verdicts[i] : reason;
        if (reason_fate(verdict) == FATE_DONE)
            finish(s, call->jobs[i], verdict);
        else
            again(s, call->jobs[i], verdict);
    }
    list_append(&s->idle_calls, &call->link);
    flush(s);
}

static void flush(struct settler *s)
{
    struct settle_ask asks[STORE_BATCH_MAX];
    while (!list_empty(&s->ready) && !list_empty(&s->idle_calls)) {
        struct settle_call *call = list_entry(list_take(&s->idle_calls), struct settle_call, link);
        call->count = 0;
        while (call->count < s->options.batch && !list_empty(&s->ready)) {
            struct settle_job *job = list_entry(list_take(&s->ready), struct settle_job, link);
            asks[call->count] = job->ask;
            call->jobs[call->count++] = job;
        }
        KILLPOINT(SETTLE_BEFORE);
        store_settle(s->store, asks, call->count, &call->waiter);
        KILLPOINT(SETTLE_ASKED);
    }
}

static void window_over(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    flush(container_of(container_of(w, struct alarm, waiter), struct settler, window));
}

static void ready(struct settler *s, struct settle_job *job)
{
    bool first = list_empty(&s->ready);
    list_append(&s->ready, &job->link);
    if (first)
        clock_set_in(s->clock, &s->window, s->options.window_us);
}

static void rested(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct settler *s = container_of(container_of(w, struct alarm, waiter), struct settler, rest);
    uint64_t now = clock_mono_us(s->clock), next = UINT64_MAX;
    for (struct link *at = s->resting.next, *after; at != &s->resting; at = after) {
        after = at->next;
        struct settle_job *job = list_entry(at, struct settle_job, link);
        if (job->due_us <= now) {
            list_remove(at);
            ready(s, job);
        } else if (job->due_us < next) {
            next = job->due_us;
        }
    }
    if (next != UINT64_MAX)
        clock_set(s->clock, &s->rest, next);
}

bool settler_init(struct settler *s, struct store *store, struct clock *clock, struct random *random, struct settler_options options)
{
    check(options.batch >= 1 && options.batch <= STORE_BATCH_MAX && options.calls >= 1 && options.attempts >= 1 && options.attempts < 16);
    *s = (struct settler){.store = store, .clock = clock, .random = random, .options = options};
    s->jobs = calloc(options.pending, sizeof *s->jobs);
    s->calls_memory = calloc(options.calls, sizeof *s->calls_memory);
    list_init(&s->free), list_init(&s->ready), list_init(&s->resting), list_init(&s->idle_calls);
    s->window.waiter.wake = window_over;
    s->rest.waiter.wake = rested;
    if (!s->jobs || !s->calls_memory) {
        settler_free(s);
        return false;
    }
    for (size_t i = 0; i < options.pending; i++)
        list_append(&s->free, &s->jobs[i].link);
    for (size_t i = 0; i < options.calls; i++) {
        s->calls_memory[i].settler = s;
        s->calls_memory[i].waiter = (struct waiter){.wake = told, .budget_ms = options.call_ms};
        list_append(&s->idle_calls, &s->calls_memory[i].link);
    }
    return true;
}

void settler_free(struct settler *s)
{
    clock_unset(s->clock, &s->window);
    clock_unset(s->clock, &s->rest);
    for (size_t i = 0; s->calls_memory && i < s->options.calls; i++)
        waiter_drop(&s->calls_memory[i].waiter);
    free(s->jobs);
    free(s->calls_memory);
    s->jobs = NULL;
    s->calls_memory = NULL;
}

static struct settle_job *hold(struct settler *s, const struct settle_ask *ask)
{
    struct link *link = list_take(&s->free);
    if (!link)
        return NULL;
    struct settle_job *job = list_entry(link, struct settle_job, link);
    struct arena a = {.start = job->memory, .cap = sizeof job->memory};
    job->ask = *ask;
    job->attempts = 0;
    job->wait = NULL;
    struct str *texts[] = {&job->ask.bucket.activity, &job->ask.user, &job->ask.request, &job->ask.sku,
                           &job->ask.superseded_by, &job->ask.superseded_request, &job->ask.superseded_sku};
    for (size_t i = 0; i < countof(texts); i++) {
        size_t len = texts[i]->len;
        *texts[i] = arena_str(&a, *texts[i]);
        check(texts[i]->len == len);    /* ids are at most 64 long */
    }
    s->held++;
    ready(s, job);
    return job;
}

bool settler_ask(struct settler *s, const struct settle_ask *ask) { return hold(s, ask) != NULL; }

bool settler_push(struct settler *s, const struct settle_ask *ask, struct settle_wait *wait)
{
    struct settle_job *job = hold(s, ask);
    if (!job)
        return false;
    job->wait = wait;
    wait->job = job;
    return true;
}

void settler_let_go(struct settle_wait *wait)
{
    if (!wait->job)
        return;
    wait->job->wait = NULL;
    wait->job = NULL;
}

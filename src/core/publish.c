/* SPDX-License-Identifier: Apache-2.0
 * publish.c: a job is one message, in one of: free, ready (waits for the window), in a send. */
#include "publish.h"

#include <stdlib.h>

#include "check.h"
#include "ident.h"
#include "killpoint.h"
#include "metric.h"

struct publish_job {
    struct link link;
    struct publish_wait *wait;
    struct bus_message message;       /* texts point into memory */
    struct settle_ask settle;
    enum reservation_state was;
    bool again;
    uint64_t began_us;
    char memory[1536];
};
struct publish_send {
    struct link link;
    struct publisher *publisher;
    struct waiter waiter;
    size_t count;
    struct publish_job *jobs[BUS_BATCH_MAX];
};

struct publisher_options publisher_options_default(void)
{
    return (struct publisher_options){.wait_ms = 28, .send_ms = 3000, .window_us = 0, .batch = 64, .pending = 8192, .sends = 256};
}

size_t publisher_memory(struct publisher_options o) { return o.pending * sizeof(struct publish_job) + o.sends * sizeof(struct publish_send); }

static void flush(struct publisher *);

static void leave(struct publish_wait *wait, enum reason reason)
{
    clock_unset(wait->clock, &wait->patience);
    wait->job->wait = NULL;
    wait->job = NULL;
    wait->done(wait, reason);
}

static void out_of_patience(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    leave(container_of(container_of(w, struct alarm, waiter), struct publish_wait, patience), REASON_TIMED_OUT);
}

/* What the store hears. A reservation that is RECONCILING already, and a send that surely was not, change nothing. */
static void tell_store(struct publisher *p, struct publish_job *job, enum reason reason)
{
    enum fate fate = reason_fate(reason);
    if (fate == FATE_DONE)
        job->settle.to = RESERVATION_PUBLISHED;
    else if (fate == FATE_UNKNOWN && job->was != RESERVATION_RECONCILING)
        job->settle.to = RESERVATION_RECONCILING;
    else
        return;
    settler_ask(p->settler, &job->settle);    /* a hint: where it is lost, the janitor sends once more */
}

static void end(struct publisher *p, struct publish_job *job, enum reason reason)
{
    metric_add(job->again ? METRIC_REPUBLISHED : METRIC_PUBLISHED, reason, 1);
    metric_observe(METRIC_PUBLISH_SECONDS, clock_mono_us(p->clock) - job->began_us);
    tell_store(p, job, reason);
    if (job->wait)
        leave(job->wait, reason);
    p->held--;
    list_append(&p->free, &job->link);
}

static void sent(struct waiter *w, enum reason reason, const void *result)
{
    struct publish_send *send = container_of(w, struct publish_send, waiter);
    struct publisher *p = send->publisher;
    const struct send_result *r = result;
    check(reason != REASON_OK || r->count == send->count);
    if (reason == REASON_OK) {
        KILLPOINT(SEND_ANSWERED);
        if (send->jobs[0]->again)
            KILLPOINT(REPUBLISH_ANSWERED);
    }
    for (size_t i = 0; i < send->count; i++)
        end(p, send->jobs[i], reason == REASON_OK ? r->verdicts[i] : reason);
    list_append(&p->idle_sends, &send->link);
    flush(p);
}

/* Any queue will do, so the bus may put everything that waits for the broker into one write. */
static void flush(struct publisher *p)
{
    struct bus_message messages[BUS_BATCH_MAX];
    while (!list_empty(&p->ready) && !list_empty(&p->idle_sends)) {
        struct publish_send *send = list_entry(list_take(&p->idle_sends), struct publish_send, link);
        send->count = 0;
        while (send->count < p->options.batch && !list_empty(&p->ready)) {
            struct publish_job *job = list_entry(list_take(&p->ready), struct publish_job, link);
            messages[send->count] = job->message;
            send->jobs[send->count++] = job;
        }
        KILLPOINT(SEND_BEFORE);
        bus_send(p->bus, messages, send->count, &send->waiter);
        KILLPOINT(SEND_ASKED);
    }
}

static void window_over(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    flush(container_of(container_of(w, struct alarm, waiter), struct publisher, window));
}

bool publisher_init(struct publisher *p, struct bus *bus, struct clock *clock, struct settler *settler, const struct ident_keys *keys,
                    struct publisher_options options)
{
    check(options.batch >= 1 && options.batch <= BUS_BATCH_MAX && options.sends >= 1);
    *p = (struct publisher){.bus = bus, .clock = clock, .settler = settler, .keys = keys, .options = options};
    p->jobs = calloc(options.pending, sizeof *p->jobs);
    p->sends_memory = calloc(options.sends, sizeof *p->sends_memory);
    list_init(&p->free), list_init(&p->ready), list_init(&p->idle_sends);
    p->window.waiter.wake = window_over;
    if (!p->jobs || !p->sends_memory) {
        publisher_free(p);
        return false;
    }
    for (size_t i = 0; i < options.pending; i++)
        list_append(&p->free, &p->jobs[i].link);
    for (size_t i = 0; i < options.sends; i++) {
        p->sends_memory[i].publisher = p;
        p->sends_memory[i].waiter = (struct waiter){.wake = sent, .budget_ms = options.send_ms};
        list_append(&p->idle_sends, &p->sends_memory[i].link);
    }
    return true;
}

void publisher_free(struct publisher *p)
{
    clock_unset(p->clock, &p->window);
    for (size_t i = 0; p->sends_memory && i < p->options.sends; i++)
        waiter_drop(&p->sends_memory[i].waiter);
    free(p->jobs);
    free(p->sends_memory);
    p->jobs = NULL;
    p->sends_memory = NULL;
}

static void fill(struct publisher *p, struct publish_job *job, const struct publish_ask *ask)
{
    struct arena a = {.start = job->memory, .cap = sizeof job->memory};
    struct message_ids ids;
    struct str trace = ask->trace.len <= PUBLISH_TRACE_MAX ? ask->trace : (struct str){0};
    struct create_order what = message_of(ask->bucket, ask->user, ask->entry, trace, &ids);
    char body[1024];
    struct buf b = buf_fixed(body, sizeof body);
    message_seal(p->keys, &what);
    message_write(&b, &what);
    job->message = (struct bus_message){
        .topic = str_lit(MESSAGE_TOPIC), .key = arena_str(&a, what.reservation), .body = arena_str(&a, buf_str(&b)), .trace = arena_str(&a, trace)};
    job->settle = (struct settle_ask){
        .bucket = {arena_str(&a, ask->bucket.activity), ask->bucket.epoch, ask->bucket.number}, .user = arena_str(&a, ask->user),
        .ident = ask->entry->ident, .why = REASON_OK, .token = ask->entry->token, .user_hash = user_hash(p->keys, ask->user)};
    check(buf_ok(&b) && job->settle.user.len == ask->user.len && job->message.trace.len == trace.len);
}

bool publish_start(struct publisher *p, const struct publish_ask *ask, struct publish_wait *wait)
{
    struct link *link = list_take(&p->free);
    if (!link)
        return false;
    struct publish_job *job = list_entry(link, struct publish_job, link);
    *job = (struct publish_job){.wait = wait, .was = ask->entry->state, .again = ask->again, .began_us = clock_mono_us(p->clock)};
    fill(p, job, ask);
    p->held++;
    bool first = list_empty(&p->ready);
    list_append(&p->ready, &job->link);
    if (first)
        clock_set_in(p->clock, &p->window, p->options.window_us);
    if (wait) {
        wait->job = job;
        wait->clock = p->clock;
        wait->patience.waiter.wake = out_of_patience;
        clock_set_in(p->clock, &wait->patience, (uint64_t)p->options.wait_ms * 1000);
    }
    return true;
}

void publish_let_go(struct publish_wait *wait)
{
    if (!wait->job)
        return;
    clock_unset(wait->clock, &wait->patience);
    wait->job->wait = NULL;
    wait->job = NULL;
}

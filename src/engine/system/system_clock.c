/* SPDX-License-Identifier: Apache-2.0
 * system_clock.c: a heap of alarms and one timer that stands at the earliest. */
#include "system_clock.h"

#include <stdlib.h>
#include <time.h>

#include "heap.h"

struct system_clock {
    struct clock base;
    uv_timer_t timer;
    struct heap alarms;
    uint64_t armed_us;    /* what the timer stands at; 0: it rests */
    bool ringing;
};

static struct system_clock *of(struct clock *c) { return container_of(c, struct system_clock, base); }

static int64_t now_ms(struct clock *c)
{
    struct timespec t;
    (void)c;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static uint64_t mono_us(struct clock *c)
{
    struct timespec t;
    (void)c;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void ring(uv_timer_t *timer);

/* Lets the timer stand at the earliest alarm. The loop's own time may be old by now: asked anew, or the timer would be early. */
static void arm(struct system_clock *c)
{
    const struct heap_item *first = heap_first(&c->alarms);
    if (c->ringing || (first ? first->due : 0) == c->armed_us)
        return;
    if (!first) {
        c->armed_us = 0;
        uv_timer_stop(&c->timer);
        return;
    }
    uint64_t now = mono_us(&c->base);
    uv_update_time(c->timer.loop);
    c->armed_us = first->due;
    check(uv_timer_start(&c->timer, ring, first->due > now ? (first->due - now + 999) / 1000 : 0, 0) == 0);
}

/* Rings what is due, each alarm of now at most once: an owner who always asks for the past must not hold the loop. */
static void ring(uv_timer_t *timer)
{
    struct system_clock *c = timer->data;
    uint64_t now = mono_us(&c->base);
    c->armed_us = 0;
    c->ringing = true;
    for (size_t left = c->alarms.count; left > 0; left--) {
        const struct heap_item *first = heap_first(&c->alarms);
        if (!first || first->due > now)
            break;
        struct alarm *a = first->what;
        heap_remove(&c->alarms, &a->place);
        a->waiter.wake(&a->waiter, REASON_OK, NULL);
    }
    c->ringing = false;
    arm(c);
}

static void set(struct clock *clock, struct alarm *a, uint64_t due_us)
{
    struct system_clock *c = of(clock);
    check(a->waiter.wake != NULL);
    a->due_us = due_us ? due_us : 1;
    heap_put(&c->alarms, a, &a->place, a->due_us);
    arm(c);
}

/* The timer may now stand too early: it will find nothing due and move on. That is cheaper than moving it each time. */
static void unset(struct clock *clock, struct alarm *a) { heap_remove(&of(clock)->alarms, &a->place); }

static const struct clock_ops ops = {.name = "system", .now_ms = now_ms, .mono_us = mono_us, .set = set, .unset = unset};

struct clock *system_clock_open(uv_loop_t *loop)
{
    struct system_clock *c = calloc(1, sizeof *c);
    check(c != NULL);
    c->base.ops = &ops;
    check(uv_timer_init(loop, &c->timer) == 0);
    c->timer.data = c;
    return &c->base;
}

static void closed(uv_handle_t *timer) { free(timer->data); }

void system_clock_close(struct clock *clock)
{
    struct system_clock *c = of(clock);
    heap_free(&c->alarms);
    uv_close((uv_handle_t *)&c->timer, closed);
}

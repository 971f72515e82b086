/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_clock.h"

static struct sim_clock *mine(struct clock *c) { return container_of(c, struct sim_clock, clock); }

static uint64_t mono_us(struct clock *c) { return mine(c)->mono_us; }

static int64_t now_ms(struct clock *c) { return mine(c)->wall_ms + (int64_t)(mine(c)->mono_us / 1000); }

static void set(struct clock *c, struct alarm *a, uint64_t due_us)
{
    check(a->waiter.wake != NULL);
    a->due_us = due_us;
    heap_put(&mine(c)->alarms, a, &a->place, due_us);
}

static void unset(struct clock *c, struct alarm *a) { heap_remove(&mine(c)->alarms, &a->place); }

static const struct clock_ops ops = {.name = "memory", .now_ms = now_ms, .mono_us = mono_us, .set = set, .unset = unset};

void sim_clock_init(struct sim_clock *c, int64_t wall_ms) { *c = (struct sim_clock){.clock = {&ops}, .wall_ms = wall_ms}; }

void sim_clock_end(struct sim_clock *c) { heap_free(&c->alarms); }

bool sim_clock_step(struct sim_clock *c)
{
    const struct heap_item *first = heap_first(&c->alarms);
    if (!first)
        return false;
    struct alarm *alarm = first->what;
    if (alarm->due_us > c->mono_us)
        c->mono_us = alarm->due_us;
    heap_remove(&c->alarms, &alarm->place);
    c->rung++;
    alarm->waiter.wake(&alarm->waiter, REASON_OK, NULL);
    return true;
}

static bool due_by(struct sim_clock *c, uint64_t us)
{
    const struct heap_item *first = heap_first(&c->alarms);
    return first && first->due <= us;
}

void sim_clock_run_until(struct sim_clock *c, uint64_t us)
{
    while (due_by(c, us))
        sim_clock_step(c);
    if (us > c->mono_us)
        c->mono_us = us;
}

bool sim_clock_run(struct sim_clock *c, bool (*done)(void *), void *arg, uint64_t budget_us)
{
    uint64_t end = c->mono_us + budget_us;
    while (!done(arg)) {
        if (!due_by(c, end)) {
            c->mono_us = end;
            return done(arg);
        }
        sim_clock_step(c);
    }
    return true;
}

void sim_clock_jump(struct sim_clock *c, int64_t by_ms) { c->wall_ms += by_ms; }

/* ---- a watch ---- */

static struct sim_watch *worn(struct clock *c) { return container_of(c, struct sim_watch, clock); }

static int64_t watch_now_ms(struct clock *c) { return now_ms(&worn(c)->of->clock) + worn(c)->ahead_ms; }
static uint64_t watch_mono_us(struct clock *c) { return worn(c)->of->mono_us; }

static void watch_wind(struct sim_watch *w)
{
    const struct heap_item *first = heap_first(&w->alarms);
    if (first && !w->frozen)
        set(&w->of->clock, &w->first, first->due);
    else
        unset(&w->of->clock, &w->first);
}

/* One at a time: what it does may freeze the watch or move the others. */
static void watch_rings(struct waiter *waiter, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct sim_watch *w = container_of(container_of(waiter, struct alarm, waiter), struct sim_watch, first);
    struct alarm *alarm = heap_first(&w->alarms)->what;
    heap_remove(&w->alarms, &alarm->place);
    watch_wind(w);
    alarm->waiter.wake(&alarm->waiter, REASON_OK, NULL);
}

static void watch_set(struct clock *c, struct alarm *a, uint64_t due_us)
{
    check(a->waiter.wake != NULL);
    a->due_us = due_us;
    heap_put(&worn(c)->alarms, a, &a->place, due_us);
    watch_wind(worn(c));
}

static void watch_unset(struct clock *c, struct alarm *a)
{
    heap_remove(&worn(c)->alarms, &a->place);
    watch_wind(worn(c));
}

static const struct clock_ops watch_ops = {.name = "watch", .now_ms = watch_now_ms, .mono_us = watch_mono_us, .set = watch_set, .unset = watch_unset};

void sim_watch_init(struct sim_watch *w, struct sim_clock *of)
{
    *w = (struct sim_watch){.clock = {&watch_ops}, .of = of, .first.waiter.wake = watch_rings};
}

void sim_watch_end(struct sim_watch *w)
{
    unset(&w->of->clock, &w->first);
    heap_free(&w->alarms);
}

void sim_watch_freeze(struct sim_watch *w, bool frozen)
{
    w->frozen = frozen;
    watch_wind(w);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_call.h"

#include <stdlib.h>

const char *sim_fault_name(enum sim_fault f)
{
    static const char *const names[] = {
#define FAULT(name, text) #name,
#include "fault.def"
#undef FAULT
    };
    check((unsigned)f < SIM_FAULT_COUNT);
    return names[f];
}

void sim_calls_init(struct sim_calls *c, struct clock *clock, uint32_t budget_ms)
{
    *c = (struct sim_calls){.clock = clock, .budget_ms = budget_ms};
    list_init(&c->flying);
    list_init(&c->idle);
}

static void drop_all(struct sim_calls *c, struct link *list)
{
    for (struct link *at; (at = list_take(list)) != NULL;) {
        struct sim_call *call = list_entry(at, struct sim_call, link);
        clock_unset(c->clock, &call->alarm);
        list_remove(&call->held);
        if (call->slot.waiter)
            waiter_drop(call->slot.waiter);
        sim_ground_free(&call->ground);
        free(call);
    }
}

void sim_calls_end(struct sim_calls *c)
{
    drop_all(c, &c->flying);
    drop_all(c, &c->idle);
    c->count = 0;
}

static uint64_t drawn(struct sim_calls *c, uint32_t below_us) { return below_us ? random_below(c->weather.random, below_us) : 0; }

static bool befalls(struct sim_calls *c, enum sim_fault f)
{
    uint16_t permille = c->weather.permille[f];
    bool hit = permille > 0 && random_below(c->weather.random, 1000) < permille;
    c->faults[f] += hit;
    return hit;
}

static uint64_t sooner(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void end(struct sim_call *call)
{
    struct sim_calls *c = call->of;
    clock_unset(c->clock, &call->alarm);
    list_remove(&call->held);
    sim_ground_reset(&call->ground);
    list_remove(&call->link);
    list_append(&c->idle, &call->link);
    c->count--;
}

/* Sets the alarm to whatever comes next of this call; with nothing left to come it is over. */
static void go_on(struct sim_call *call)
{
    uint64_t next = sooner(call->act_us, call->again_us);
    bool waits = call->slot.waiter && sooner(call->answer_us, call->deadline_us) != SIM_NEVER;
    if (waits && !call->of->frozen)
        next = sooner(next, sooner(call->answer_us, call->deadline_us));
    if (next == SIM_NEVER && waits)
        clock_unset(call->of->clock, &call->alarm);
    else if (next == SIM_NEVER)
        end(call);
    else
        clock_set(call->of->clock, &call->alarm, next);
}

static void see(struct sim_call *call, enum sim_moment moment, enum reason reason, const void *result)
{
    struct sim_witness *w = call->of->witness;
    if (w)
        w->see(w, call, moment, reason, result);
}

static void act(struct sim_call *call, uint64_t now_us)
{
    struct sim_calls *c = call->of;
    call->act_us = SIM_NEVER;
    if (!call->act(call))
        return;
    see(call, SIM_DONE, call->reason, call->result);
    if (!call->answer_lost)
        call->answer_us = now_us + c->weather.answer_us + drawn(c, c->weather.jitter_us);
    if (call->link_cut)
        call->reason = REASON_LINK_LOST, call->result = NULL;
}

static void act_again(struct sim_call *call)
{
    enum reason reason = call->reason;
    const void *result = call->result;
    call->again_us = SIM_NEVER;
    if (!list_empty(&call->held))
        return;    /* the first one still waits for something; the second would wait for the same */
    call->hold_us = 0;
    call->act(call);
    see(call, SIM_DONE_AGAIN, call->reason, call->result);
    call->reason = reason;
    call->result = result;
    call->act_us = SIM_NEVER;
}

static void wake(struct sim_call *call, enum reason reason, const void *result)
{
    if (!call->slot.waiter)
        return;
    see(call, SIM_HEARD, reason, result);
    slot_wake(&call->slot, reason, result);
}

static void ring(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct sim_call *call = container_of(w, struct sim_call, alarm.waiter);
    uint64_t now_us = clock_mono_us(call->of->clock);
    if (call->act_us <= now_us)
        act(call, now_us);
    else if (call->again_us <= now_us)
        act_again(call);
    if (call->of->frozen)
        ;
    else if (call->answer_us <= now_us)
        call->answer_us = SIM_NEVER, wake(call, call->reason, call->result);
    else if (call->deadline_us <= now_us)
        call->deadline_us = SIM_NEVER, wake(call, REASON_TIMED_OUT, NULL);
    go_on(call);
}

struct sim_call *sim_call_new(struct sim_calls *c, struct waiter *w, void *port, const char *name, bool (*does)(struct sim_call *), const void *ask, size_t n)
{
    struct link *idle = list_take(&c->idle);
    struct sim_call *call = idle ? list_entry(idle, struct sim_call, link) : calloc(1, sizeof *call);
    check(call != NULL);
    struct sim_ground ground = call->ground;
    *call = (struct sim_call){.of = c, .name = name, .port = port, .act = does, .ground = ground, .alarm.waiter.wake = ring,
                              .act_us = SIM_NEVER, .again_us = SIM_NEVER, .answer_us = SIM_NEVER, .deadline_us = SIM_NEVER};
    list_init(&call->held);
    list_append(&c->flying, &call->link);
    c->count++;
    slot_arm(&call->slot, w);
    call->ask = n ? sim_call_copy(call, ask, n) : NULL;
    return call;
}

void *sim_call_copy(struct sim_call *c, const void *items, size_t bytes)
{
    void *copy = sim_take(&c->ground, bytes);
    if (bytes)
        memcpy(copy, items, bytes);
    return copy;
}

void sim_call_go(struct sim_call *call, uint32_t extra_ms)
{
    struct sim_calls *c = call->of;
    uint32_t budget_ms = call->slot.waiter->budget_ms;
    uint64_t now_us = clock_mono_us(c->clock);
    call->deadline_us = now_us + 1000 * (uint64_t)(budget_ms ? budget_ms : c->budget_ms + extra_ms);
    if (c->count > SIM_CALLS_MAX) {
        sim_call_answer(call, REASON_OVERLOADED, NULL);
        call->answer_us = now_us;
    } else if (befalls(c, SIM_FAULT_REFUSED)) {
        sim_call_answer(call, REASON_ENGINE_BUSY, NULL);
        call->answer_us = now_us + c->weather.ask_us + c->weather.answer_us;
    } else if (!befalls(c, SIM_FAULT_ASK_LOST)) {
        call->act_us = now_us + c->weather.ask_us + drawn(c, c->weather.jitter_us);
        call->act_us += befalls(c, SIM_FAULT_DELAYED) ? drawn(c, c->weather.delay_us) : 0;
        call->again_us = befalls(c, SIM_FAULT_DOUBLED) ? call->act_us + drawn(c, c->weather.delay_us) : SIM_NEVER;
        call->answer_lost = befalls(c, SIM_FAULT_ANSWER_LOST);
        call->link_cut = befalls(c, SIM_FAULT_LINK_CUT);
    }
    see(call, SIM_ASKED, REASON_OK, NULL);
    go_on(call);
}

bool sim_call_answer(struct sim_call *c, enum reason reason, const void *result)
{
    c->reason = reason;
    c->result = result;
    return true;
}

void sim_call_again(struct sim_call *c)
{
    c->act_us = clock_mono_us(c->of->clock);
    go_on(c);
}

void sim_calls_cut(struct sim_calls *c, uint16_t lost_permille)
{
    for (struct link *at = c->flying.next, *next; at != &c->flying; at = next) {
        struct sim_call *call = list_entry(at, struct sim_call, link);
        next = at->next;
        bool held = !list_empty(&call->held), lost = lost_permille > 0 && random_below(c->weather.random, 1000) < lost_permille;
        if (call->act_us == SIM_NEVER || held) {
            call->reason = REASON_LINK_LOST;
            call->result = NULL;
            call->again_us = SIM_NEVER;
            if (held || call->answer_us != SIM_NEVER)
                call->answer_us = clock_mono_us(c->clock);
            list_remove(&call->held);
            call->act_us = SIM_NEVER;
        } else if (lost) {
            call->act_us = call->again_us = SIM_NEVER;
        }
        go_on(call);
    }
}

void sim_calls_freeze(struct sim_calls *c, bool frozen)
{
    c->frozen = frozen;
    for (struct link *at = c->flying.next, *next; at != &c->flying; at = next) {
        next = at->next;
        go_on(list_entry(at, struct sim_call, link));
    }
}

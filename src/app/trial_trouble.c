/* SPDX-License-Identifier: Apache-2.0
 * trial_trouble.c: what goes wrong beside single calls (trouble.def): drawn from the seed, each at its hour and for a while. One trial in eight
 * has none; one in six lets Redis forget. Two in three have a theme: a few kinds that come again and again while the crowd is there, for what breaks a
 * promise is mostly two or three things that meet. */
#include <stdio.h>

#include "trial_parts.h"

static const struct {
    const char *name;
    unsigned weight;
    bool loses;
} kinds[] = {
#define TROUBLE(name, weight, loses, text) {#name, weight, loses},
#include "trouble.def"
#undef TROUBLE
};

static struct process *anybody(struct trouble *u) { return &u->trial->processes[u->chance % u->trial->process_count]; }

/* ---- weather ------------------------------------------------------------------------------------------------------------------------ */

static void storm(struct trouble *u)
{
    static const uint16_t rates[] = {5, 20, 60, 150};
    struct sim_weather w = u->trial->fair;
    w.delay_us = 50000 + (uint32_t)(u->chance % 1500000);
    for (int f = 0; f < SIM_FAULT_COUNT; f++)
        w.permille[f] = u->chance >> 20 >> f & 1 ? rates[u->chance >> 32 & 3] : 0;
    for (size_t i = 0; i < u->trial->process_count; i++)
        trial_weather(&u->trial->processes[i], u->on ? w : u->trial->base);
}

static void link_goes(struct trouble *u)
{
    struct process *p = anybody(u);
    struct sim_calls *calls[] = {&p->store.calls, &p->bus.calls, &p->ledger.calls};
    static const enum sim_fault ways[] = {SIM_FAULT_ASK_LOST, SIM_FAULT_ANSWER_LOST, SIM_FAULT_LINK_CUT, SIM_FAULT_REFUSED};
    u->calls = calls[u->chance >> 16 & 0xff ? (u->chance >> 16) % 3 : 0];
    u->calls->weather = u->trial->base;
    if (u->on)
        u->calls->weather.permille[ways[u->chance >> 32 & 3]] = u->chance >> 40 & 1 ? 1000 : 500;
}

static void clock_jumps(struct trouble *u)
{
    struct trial *t = u->trial;
    struct sim_watch *engines[] = {&t->redis, &t->broker, &t->postgres};
    bool engine = u->chance & 1;
    u->watch = engine ? engines[(u->chance >> 8) % countof(engines)] : &t->processes[(u->chance >> 8) % t->process_count].watch;
    int64_t far = engine ? 8000 : 3600000;    /* an engine's hour is the law's: it is watched better than ours */
    u->watch->ahead_ms = u->on ? (int64_t)(u->chance >> 16 & 0xffffffff) % (2 * far) - far : 0;
}

/* ---- deaths ------------------------------------------------------------------------------------------------------------------------- */

static void death(struct trouble *u)
{
    struct process *p = anybody(u);
    if (p->up && p->dies_at == 0)
        p->dies_at = p->moments + 1 + (u->chance >> 16) % 300;
}

static void freeze(struct trouble *u)
{
    struct process *p = anybody(u);
    if (p->up)
        trial_freeze(p, u->on);
}

static void massacre(struct trouble *u)
{
    for (size_t i = 0; i < u->trial->process_count; i++)
        u->trial->processes[i].dies_at = u->trial->processes[i].moments + 1;
}

/* ---- the broker --------------------------------------------------------------------------------------------------------------------- */

static struct sim_queue *some_queue(struct trouble *u) { return sim_bus_queue(&u->trial->bus, str_lit(MESSAGE_TOPIC), (int32_t)(u->chance % TRIAL_QUEUES)); }

/* Up to twenty messages, from anywhere in the queue. */
static void echo(struct trouble *u)
{
    struct sim_queue *q = some_queue(u);
    uint64_t n = q->count - (uint64_t)q->min;
    for (uint64_t i = 0; i < n && i < 20; i++)
        sim_bus_again(&u->trial->bus, q, q->min + (int64_t)(((u->chance >> 16) + 7 * i) % n));
}

static void all_die(struct trial *t, enum trial_role role, uint64_t back_us)
{
    for (size_t i = 0; i < t->process_count; i++)
        if (t->processes[i].role == role)
            trial_die(&t->processes[i], back_us);
}

static void amnesia(struct trouble *u)
{
    if (u->chance >> 24 & 1)
        all_die(u->trial, TRIAL_ORDER, 1 + (u->chance >> 28) % (4ull * SECOND_US));
    struct sim_queue *q = some_queue(u);
    sim_bus_lose(q, (int64_t)(q->count - (q->count - (size_t)q->min) * (u->chance >> 16 & 7) / 8));
    sim_bus_break(&u->trial->bus);
    for (size_t i = 0; i < u->trial->process_count; i++)
        sim_calls_cut(&u->trial->processes[i].bus.calls, 0);
}

static void retention(struct trouble *u)
{
    struct sim_queue *q = some_queue(u);
    sim_bus_forget(q, q->min + ((int64_t)q->count - q->min) * (int64_t)(u->chance >> 16 & 7) / 8);
}

static void hold(struct trouble *u)
{
    u->trial->bus.hold_permille = u->on ? 400 : 0;
    u->trial->bus.hold_ms = u->chance & 3 ? 1000 + (uint32_t)(u->chance % 30000) : 3600000;
}

/* ---- Redis -------------------------------------------------------------------------------------------------------------------------- */

static void doors_break(struct trial *t)
{
    for (size_t i = 0; i < t->process_count; i++)
        sim_calls_cut(&t->processes[i].store.calls, 500);
}

/* A janitor that has been up for three seconds has read every bucket. */
static void slipped(struct trial *t)
{
    check(t->slip_count < TRIAL_SLIPS && t->process_count <= 64);
    uint64_t now = t->clock.mono_us, knowers = 0;
    for (size_t i = 0; i < t->process_count; i++)
        if (t->processes[i].role == TRIAL_JANITOR && t->processes[i].up && now - t->processes[i].began_us >= 3 * SECOND_US)
            knowers |= (uint64_t)1 << i;
    t->slips[t->slip_count].at_us = now;
    t->slips[t->slip_count++].knowers = knowers;
}

static void forgets(struct trouble *u)
{
    struct trial *t = u->trial;
    size_t buckets = t->stock.count;
    if (u->kind == TROUBLE_SLIP && t->snapshot.buckets) {
        t->lost_us = t->clock.mono_us;
        sim_store_slip(&t->stock, &t->snapshot, u->chance & 1);
        if (!(u->chance & 1))
            slipped(t);
        t->emptied |= t->stock.count < buckets;
        return;
    }
    doors_break(t);
    if (u->kind == TROUBLE_STORE_RESTART || u->kind == TROUBLE_SLIP) {
        sim_store_restart(&t->stock);
        return;
    }
    t->lost_us = t->clock.mono_us;
    if (u->kind == TROUBLE_OBLIVION || !t->snapshot.buckets)
        sim_store_lose(&t->stock);
    else
        sim_store_rollback(&t->stock, &t->snapshot);
    t->emptied |= t->stock.count < buckets;
}

static void key_lost(struct trouble *u)
{
    static const enum sim_redis_key keys[] = {SIM_KEY_PENDING, SIM_KEY_FREE, SIM_KEY_REST, SIM_KEY_GEN, SIM_KEY_WIN, SIM_KEY_USERS};
    struct trial *t = u->trial;
    if (t->stock.count == 0)
        return;
    enum sim_redis_key key = keys[(u->chance >> 8) % (t->loses ? 6 : 5)];
    struct sim_bucket *b = t->stock.all[(u->chance >> 16) % t->stock.count];
    trial_line(t, "---------  key %u of bucket %u of " STR_FMT, (unsigned)key, b->number, STR_ARG(b->activity));
    sim_bucket_lose(b, key);
    if (key == SIM_KEY_USERS) {
        t->lost_us = t->clock.mono_us;
        t->users_lost = true;
    }
}

static void photographs(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct trial *t = container_of(container_of(w, struct alarm, waiter), struct trial, camera);
    if (t->snapshot.buckets)
        sim_snapshot_free(&t->snapshot);
    t->snapshot = sim_store_snapshot(&t->stock);
    if (!t->calm)
        clock_set_in(&t->clock.clock, &t->camera, 500000 + trial_below(t, 3 * SECOND_US));
}

/* ---- each at its hour ----------------------------------------------------------------------------------------------------------------- */

static void befall(struct trouble *u)
{
    struct trial *t = u->trial;
    switch (u->kind) {
    case TROUBLE_STORM: storm(u); return;
    case TROUBLE_LINK: link_goes(u); return;
    case TROUBLE_FLICKER:
    case TROUBLE_STORE_AWAY: t->stock.away = u->on; return;
    case TROUBLE_BUS_AWAY: t->bus.away = u->on; return;
    case TROUBLE_LEDGER_AWAY: t->books.away = u->on; return;
    case TROUBLE_HOLD: hold(u); return;
    case TROUBLE_CLOCK: clock_jumps(u); return;
    case TROUBLE_FREEZE: freeze(u); return;
    default: break;
    }
    if (!u->on)
        return;
    switch (u->kind) {
    case TROUBLE_DEATH: death(u); return;
    case TROUBLE_SILENCE:
        all_die(t, TRIAL_RELAY, 500000 + (u->chance >> 8) % (7ull * SECOND_US));
        if (u->chance & 1)
            all_die(t, TRIAL_JANITOR, 500000 + (u->chance >> 16) % (7ull * SECOND_US));
        return;
    case TROUBLE_MASSACRE: massacre(u); return;
    case TROUBLE_ECHO: echo(u); return;
    case TROUBLE_AMNESIA: amnesia(u); return;
    case TROUBLE_RETENTION: retention(u); return;
    case TROUBLE_RELEASE: trial_releasing(t, 1 + u->chance % 12); return;
    case TROUBLE_KEY_LOST: key_lost(u); return;
    case TROUBLE_RECONNECT: sim_bus_break(&t->bus); return;
    default: forgets(u); return;
    }
}

/* On and off again until its time is up. */
static void flicker(struct trouble *u)
{
    struct trial *t = u->trial;
    uint64_t now = t->clock.mono_us;
    if (u->until_us == 0)
        u->until_us = now + 2 * u->lasts_us, t->result->troubles++;
    u->on = now < u->until_us && !u->on;
    t->stock.away = u->on;
    trial_line(t, "---------  FLICKER: Redis is %s", u->on ? "away" : "there");
    if (now < u->until_us)
        clock_set_in(&t->clock.clock, &u->alarm, 5000 + trial_below(t, u->on ? 800000 : 300000));
}

static void comes(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct trouble *u = container_of(container_of(w, struct alarm, waiter), struct trouble, alarm);
    if (u->kind == TROUBLE_FLICKER) {
        flicker(u);
        return;
    }
    u->on = !u->on;
    trial_mark(u->trial, 0x7000u + (uint64_t)u->kind * 2 + u->on);
    trial_line(u->trial, "---------  %s %s", kinds[u->kind].name, u->on ? "comes" : "goes");
    befall(u);
    u->trial->result->troubles += u->on;
    if (u->on)
        clock_set_in(&u->trial->clock.clock, &u->alarm, u->lasts_us);
}

static enum trial_trouble_kind drawn(struct trial *t)
{
    unsigned sum = 0;
    for (size_t i = 0; i < countof(kinds); i++)
        sum += !kinds[i].loses || t->loses ? kinds[i].weight : 0;
    uint64_t at = trial_below(t, sum);
    for (size_t i = 0; i < countof(kinds); i++) {
        unsigned weight = !kinds[i].loses || t->loses ? kinds[i].weight : 0;
        if (at < weight)
            return (enum trial_trouble_kind)i;
        at -= weight;
    }
    return TROUBLE_STORM;
}

static uint64_t hour_of(struct trial *t, bool themed, uint64_t from_us, uint64_t to_us)
{
    if (themed && trial_below(t, 4) > 0)
        return 2 * (uint64_t)SECOND_US + trial_below(t, 6 * SECOND_US);
    return from_us + trial_below(t, to_us - from_us);
}

void trial_troubles_brew(struct trial *t, uint64_t from_us, uint64_t to_us)
{
    t->camera.waiter.wake = photographs;
    t->loses = trial_below(t, 6) == 0;
    t->trouble_count = trial_below(t, 8) == 0 ? 0 : 1 + trial_below(t, TRIAL_TROUBLES);
    t->loses &= t->trouble_count > 0;
    if (t->loses)
        clock_set_in(&t->clock.clock, &t->camera, SECOND_US);
    enum trial_trouble_kind theme[3] = {drawn(t), drawn(t), drawn(t)};
    bool themed = trial_below(t, 3) > 0;
    for (size_t i = 0; i < t->trouble_count; i++) {
        struct trouble *u = &t->troubles[i];
        *u = (struct trouble){.trial = t, 
                              .kind = t->loses && i == 0 ? (trial_below(t, 5) ? TROUBLE_ROLLBACK : TROUBLE_OBLIVION) : themed ? theme[trial_below(t, 3)] : drawn(t), .alarm.waiter.wake = comes, .chance = random_next(&t->chance.random)};
        u->lasts_us = trial_below(t, 3) ? 20000 + trial_below(t, 2 * SECOND_US) : trial_below(t, 8 * SECOND_US) + 1;
        clock_set(&t->clock.clock, &u->alarm, hour_of(t, themed, from_us, to_us));
    }
}

void trial_troubles_end(struct trial *t)
{
    clock_unset(&t->clock.clock, &t->camera);
    for (size_t i = 0; i < t->trouble_count; i++) {
        struct trouble *u = &t->troubles[i];
        clock_unset(&t->clock.clock, &u->alarm);
        if (!u->on)
            continue;
        u->on = false;
        befall(u);
    }
}

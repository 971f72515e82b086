/* SPDX-License-Identifier: Apache-2.0
 * trial.c: the deployment. A process is a handful of core objects over three doors; it dies by being freed with everything in flight,
 * and another of its name begins with nothing. The day: troubles and crowd for some twenty seconds, then calm until all is quiet, in some
 * trials an hour's pause for what the broker held back, then the reckoning. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conservation.h"
#include "trial_parts.h"

#define DAY_US (20ull * SECOND_US)
#define PATIENCE_US (300ull * SECOND_US)
#define HOUR_US (3700ull * SECOND_US)

/* ---- chance, trace, verdict ---------------------------------------------------------------------------------------------------- */

uint64_t trial_below(struct trial *t, uint64_t n) { return random_below(&t->chance.random, n); }

void trial_mark(struct trial *t, uint64_t what)
{
    uint64_t h = (t->result->hash ^ what) * 0x9e3779b97f4a7c15u;
    t->result->hash = h ^ h >> 29;
}

bool trial_traced(const struct trial *t) { return t->options.lines > 0; }

void trial_line(struct trial *t, const char *format, ...)
{
    if (!trial_traced(t))
        return;
    char line[TRIAL_LINE];
    int n = snprintf(line, sizeof line, "%10.3f ms  ", (double)t->clock.mono_us / 1000);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n, format, args);
    va_end(args);
    if (t->options.about && !strstr(line, t->options.about))
        return;
    memcpy(t->result->lines[t->line_next], line, sizeof line);
    t->line_next = (t->line_next + 1) % t->options.lines;
    t->line_count += t->line_count < t->options.lines;
}

void trial_broken(struct trial *t, const char *rule, const char *format, ...)
{
    struct trial_result *r = t->result;
    if (r->broken)
        return;    /* what comes after the first is its consequence */
    r->broken = true;
    snprintf(r->rule, sizeof r->rule, "%s", rule);
    va_list args;
    va_start(args, format);
    vsnprintf(r->what, sizeof r->what, format, args);
    va_end(args);
    t->options.about = NULL;
    trial_line(t, "BROKEN %s: %s", rule, r->what);
}

/* The ring of lines, turned so that the oldest is first. */
static void lines_turn(struct trial *t)
{
    struct trial_result *r = t->result;
    size_t n = t->line_count, first = n < t->options.lines ? 0 : t->line_next;
    char (*turned)[TRIAL_LINE] = calloc(n + 1, TRIAL_LINE);
    check(turned != NULL);
    for (size_t i = 0; i < n; i++)
        memcpy(turned[i], r->lines[(first + i) % t->options.lines], TRIAL_LINE);
    free(r->lines);
    r->lines = turned;
    r->line_count = n;
}

/* ---- a process ------------------------------------------------------------------------------------------------------------------ */

static const char *const role_names[] = {"access", "order", "relay", "janitor", "admin"};

static void seen(struct sim_witness *w, const struct sim_call *call, enum sim_moment m, enum reason reason, const void *result)
{
    struct eye *eye = container_of(w, struct eye, witness);
    struct process *p = eye->process;
    struct trial *t = p->trial;
    trial_mark(t, t->clock.mono_us);
    trial_mark(t, (uint64_t)p->number << 24 | (uint64_t)(unsigned char)call->name[0] << 16 | (uint64_t)(unsigned char)call->name[1] << 8 | (uint64_t)m);
    trial_mark(t, (uint64_t)reason);
    t->result->calls += m == SIM_ASKED;
    p->moments++;
    if (p->up && p->dies_at != 0 && p->moments >= p->dies_at)
        t->reap_due = true;
    trial_judge_call(p, eye->engine, call, m, reason, result);
}

static struct desk_options desk_small(void)
{
    struct desk_options o = desk_options_default();
    o.catalog.memory = 32768;
    o.settler.pending = 96;
    o.publisher.pending = 64;
    o.publisher.sends = 32;
    o.soldout.filter_bytes = 4096;
    o.soldout.watches = TRIAL_ACTIVITIES - 1;    /* two sales out of three: now and then they take turns */
    o.takes = 64;
    o.query.queries = 64;
    return o;
}

static void begin(struct process *p)
{
    struct trial *t = p->trial;
    struct store *s = &p->store.store;
    struct bus *b = &p->bus.bus;
    struct ledger *l = &p->ledger.ledger;
    struct clock *c = &p->watch.clock;
    struct random *r = &p->random.random;
    struct desk_options small = desk_small();
    bool good = true;
    small.query.lost_ms = 500u << t->options.seed % 8;    /* half a second to a minute: too early is as safe as late */
    if (p->role == TRIAL_ACCESS) {
        good = desk_init(&p->desk, s, b, l, c, r, &t->keys, small);
        desk_start(&p->desk);
    } else if (p->role == TRIAL_ORDER) {
        struct order_options o = order_options_default();
        o.owner = str_of(p->owner);
        o.keys = &t->keys;
        o.queues = 8, o.batch = 1 + (size_t)(t->options.seed % 16), o.per_queue = 16, o.look_ms = 2000, o.call_ms = 2000;
        p->order = order_new(b, l, c, r, &o);
        order_start(p->order);
    } else if (p->role == TRIAL_RELAY) {
        struct relay_options o = relay_options_default();
        o.batch = 1 + (size_t)(t->options.seed / 16 % 24), o.lanes = 2, o.hold_ms = 4000, o.call_ms = 2000, o.channel = &p->channel.channel;
        p->relay = relay_new(s, b, l, c, r, &t->keys, &o);
        relay_start(p->relay);
    } else if (p->role == TRIAL_JANITOR) {
        struct janitor_options o = janitor_options_default();
        o.catalog = small.catalog, o.settler = small.settler, o.publisher = small.publisher, o.jobs = 64, o.overdue_ms = 20000;
        o.sweep.channel = &p->channel.channel, o.sweep.pause_ms = 20000;
        p->janitor = janitor_new(s, b, l, c, r, &t->keys, &o);
        janitor_start(p->janitor);
    } else {
        p->controller = controller_new(s, l, c, TRIAL_ACTIVITIES, control_options_default());
        good = p->controller != NULL;
    }
    check(good);
}

static void end(struct process *p)
{
    if (p->role == TRIAL_ACCESS) {
        trial_people_cut(p->trial, p);
        trial_money_cut(p->trial, p);
        desk_free(&p->desk);
    } else if (p->role == TRIAL_ADMIN) {
        for (size_t i = 0; i < p->trial->sale_count; i++) {
            struct sale *s = &p->trial->sales[i];
            if (s->moving)
                control_let_go(&s->control), s->moving = false, clock_set_in(&p->trial->clock.clock, &s->alarm, SECOND_US);
        }
        controller_free(p->controller);
    }
    order_free(p->order);
    relay_free(p->relay);
    janitor_free(p->janitor);
    p->order = NULL, p->relay = NULL, p->janitor = NULL, p->controller = NULL;
}

void trial_rise(struct process *p)
{
    if (p->up)
        return;
    clock_unset(&p->trial->clock.clock, &p->rise);
    p->up = true;
    p->dies_at = 0;
    p->lives++;
    p->began_us = p->trial->clock.mono_us;
    snprintf(p->owner, sizeof p->owner, "%s.%u", p->name, p->lives);
    trial_line(p->trial, "%-9s begins", p->name);
    begin(p);
}

static void rises(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    trial_rise(container_of(container_of(w, struct alarm, waiter), struct process, rise));
}

void trial_die(struct process *p, uint64_t back_us)
{
    struct trial *t = p->trial;
    struct sim_calls *all[] = {&p->store.calls, &p->bus.calls, &p->ledger.calls, &p->channel.calls};
    if (!p->up)
        return;
    trial_line(t, "%-9s dies", p->name);
    trial_mark(t, 0xdead0000u + p->number);
    trial_freeze(p, false);
    p->up = false;
    p->dies_at = 0;
    t->result->deaths++;
    for (size_t i = 0; i < t->slip_count; i++)
        if (t->clock.mono_us - t->slips[i].at_us < 5 * SECOND_US)
            t->slips[i].knowers &= ~((uint64_t)1 << (p - t->processes));
    end(p);
    for (size_t i = 0; i < countof(all); i++)
        sim_calls_cut(all[i], 300);    /* what had not left the host goes down with it */
    if (back_us > 0)
        clock_set_in(&t->clock.clock, &p->rise, back_us);
}

void trial_freeze(struct process *p, bool frozen)
{
    struct sim_calls *all[] = {&p->store.calls, &p->bus.calls, &p->ledger.calls, &p->channel.calls};
    if (p->frozen == frozen)
        return;
    trial_line(p->trial, "%-9s %s", p->name, frozen ? "is stopped" : "goes on");
    p->frozen = frozen;
    sim_watch_freeze(&p->watch, frozen);
    for (size_t i = 0; i < countof(all); i++)
        sim_calls_freeze(all[i], frozen);
}

void trial_weather(struct process *p, struct sim_weather w) { p->store.calls.weather = p->bus.calls.weather = p->ledger.calls.weather = p->channel.calls.weather = w; }

static void process_make(struct trial *t, enum trial_role role, unsigned number)
{
    check(t->process_count < TRIAL_PROCESSES);
    struct process *p = &t->processes[t->process_count];
    *p = (struct process){.trial = t, .role = role, .number = t->process_count++, .rise.waiter.wake = rises};
    snprintf(p->name, sizeof p->name, "%s-%u", role_names[role], number);
    sim_watch_init(&p->watch, &t->clock);
    sim_random_init(&p->random, t->options.seed * 64 + p->number);
    sim_store_open(&p->store, &t->stock, &t->redis.clock);
    sim_bus_open(&p->bus, &t->bus, &t->broker.clock);
    sim_ledger_open(&p->ledger, &t->books, &t->postgres.clock);
    p->bus.bus.deployment = p->ledger.ledger.deployment;
    sim_channel_open(&p->channel, &t->till, &t->clock.clock);
    struct sim_calls *calls[] = {&p->store.calls, &p->bus.calls, &p->ledger.calls};
    for (size_t i = 0; i < countof(calls); i++) {
        p->eyes[i] = (struct eye){.witness.see = seen, .process = p, .engine = "sbl"[i]};
        calls[i]->witness = &p->eyes[i].witness;
    }
    trial_weather(p, t->base);
}

/* ---- the admin -------------------------------------------------------------------------------------------------------------------- */

static struct process *admin_of(struct trial *t) { return &t->processes[t->process_count - 1]; }

static void moved(struct control *c)
{
    struct sale *s = container_of(c, struct sale, control);
    bool good = c->reason == REASON_OK && c->lagging == 0;
    trial_line(s->trial, "admin-1   %s %s: %s%s", activity_event_name(c->event), s->name, reason_word(c->reason), c->lagging ? ", buckets lag" : "");
    trial_mark(s->trial, (uint64_t)c->reason << 8 | good);
    s->moving = false;
    s->script_at += good;
    if (s->script_at == s->script_count)
        return;
    uint64_t now = s->trial->clock.mono_us, at = s->script[s->script_at].at_us;
    clock_set(&s->trial->clock.clock, &s->alarm, good && at > now ? at : now + 300000);
}

static void move_next(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct sale *s = container_of(container_of(w, struct alarm, waiter), struct sale, alarm);
    struct process *p = admin_of(s->trial);
    s->control = (struct control){.activity = str_of(s->name), .event = s->script[s->script_at].event, .actor = str_lit("admin"), .note = str_lit("trial"), .done = moved};
    s->moving = p->up && control_start(p->controller, &s->control);
    if (!s->moving)
        clock_set_in(&s->trial->clock.clock, &s->alarm, 500000);
}

static void script_add(struct sale *s, enum activity_event event, uint64_t at_us)
{
    check(s->script_count < countof(s->script));
    s->script[s->script_count].event = event;
    s->script[s->script_count++].at_us = at_us;
}

static void script_write(struct trial *t, struct sale *s)
{
    uint64_t opens = SECOND_US + trial_below(t, 4 * SECOND_US);
    script_add(s, ACTIVITY_EVENT_WARM, 200000 + trial_below(t, 500000));
    script_add(s, ACTIVITY_EVENT_OPEN, opens);
    if (trial_below(t, 3) == 0) {
        script_add(s, ACTIVITY_EVENT_PAUSE, opens + SECOND_US + trial_below(t, 4 * SECOND_US));
        script_add(s, ACTIVITY_EVENT_RESUME, opens + 7 * (uint64_t)SECOND_US + trial_below(t, 4 * SECOND_US));
    }
    s->closes = trial_below(t, 6) == 0;
    if (s->closes)
        script_add(s, ACTIVITY_EVENT_CLOSE, opens + 12 * (uint64_t)SECOND_US + trial_below(t, 5 * SECOND_US));
    clock_set(&t->clock.clock, &s->alarm, s->script[0].at_us);
}

struct made {
    struct waiter waiter;
    bool done;
    enum reason reason;
};
static void is_made(struct waiter *w, enum reason reason, const void *result)
{
    (void)result;
    struct made *m = container_of(w, struct made, waiter);
    m->done = true, m->reason = reason;
}
static bool done_is(void *flag) { return *(bool *)flag; }

static void sale_make(struct trial *t, unsigned number)
{
    struct sale *s = &t->sales[t->sale_count++];
    *s = (struct sale){.trial = t, .alarm.waiter.wake = move_next, .buckets = (uint8_t)(1 + trial_below(t, 3)), .sku_count = 1 + trial_below(t, TRIAL_SKUS)};
    snprintf(s->name, sizeof s->name, "act%u", number);
    for (size_t i = 0; i < s->sku_count; i++) {
        snprintf(s->sku_names[i], sizeof s->sku_names[i], "sku%u", (unsigned)i % 1000);
        s->skus[i] = (struct sku){.sku = str_of(s->sku_names[i]), .stock = 1 + (int64_t)trial_below(t, 12), .price = 9900, .currency = str_lit("CNY")};
    }
    struct activity_create ask = {.actor = str_lit("trial"),
        .activity = {.activity = str_of(s->name), .title = str_of(s->name), .buckets = s->buckets, .starts_ms = TRIAL_START_MS - 60000,
                     .ends_ms = TRIAL_START_MS + 24 * 3600000LL, .pay_timeout_s = trial_money_timeout_s(t), .skus = s->skus, .sku_count = s->sku_count}};
    struct made m = {.waiter.wake = is_made};
    ledger_activity_create(&admin_of(t)->ledger.ledger, &ask, &m.waiter);
    bool ended = sim_clock_run(&t->clock, done_is, &m.done, SECOND_US);
    check(ended && m.reason == REASON_OK);
    s->truth = sim_books_activity(&t->books.books, str_of(s->name));
}

static void topics_make(struct trial *t)
{
    static const struct str names[] = {str_lit(MESSAGE_TOPIC), str_lit(RELAY_EVENT_TOPIC), str_lit(RELAY_DEAD_LETTER_TOPIC), str_lit(HINT_TOPIC)};
    struct made m = {.waiter.wake = is_made};
    bus_create(&admin_of(t)->bus.bus, names, countof(names), str_lit(MESSAGE_GROUP), TRIAL_QUEUES, &m.waiter);
    bool ended = sim_clock_run(&t->clock, done_is, &m.done, SECOND_US);
    check(ended && m.reason == REASON_OK);
}

/* ---- the day ------------------------------------------------------------------------------------------------------------------------ */

static void reap(struct trial *t)
{
    t->reap_due = false;
    for (size_t i = 0; i < t->process_count; i++) {
        struct process *p = &t->processes[i];
        if (p->up && p->dies_at != 0 && p->moments >= p->dies_at)
            trial_die(p, 50000 + trial_below(t, 4 * SECOND_US));
    }
}

/* Steps until then, or until `done`; false when a rule broke or the steps are used up. */
static bool live(struct trial *t, uint64_t until_us, bool (*done)(struct trial *))
{
    struct trial_result *r = t->result;
    uint64_t looked_us = t->clock.mono_us;
    while (t->clock.mono_us < until_us && !r->broken) {
        const struct heap_item *first = heap_first(&t->clock.alarms);
        if (!first || first->due > until_us)
            sim_clock_run_until(&t->clock, until_us);
        else
            sim_clock_step(&t->clock);
        if (t->reap_due)
            reap(t);
        if (t->calm && !t->read_judged && t->clock.mono_us - t->calm_us > 6ull * SECOND_US)
            trial_judge_read(t);
        if (t->options.plant != PLANT_NONE && !r->planted)
            r->planted = trial_plant(t);
        if (t->audit_due || t->stock_due || t->clock.rung % 64 == 0)
            trial_judge_look(t);
        if (t->options.steps > 0 && t->clock.rung >= t->options.steps)
            return false;
        if (done && t->clock.mono_us - looked_us >= 250000) {
            looked_us = t->clock.mono_us;
            if (done(t))
                return !r->broken;
        }
    }
    return !r->broken;
}

static bool quiet(struct trial *t) { return t->done_count == t->person_count && trial_money_quiet(t) && trial_judge_quiet(t); }

static void calm(struct trial *t)
{
    trial_troubles_end(t);
    t->calm = true;
    t->calm_us = t->clock.mono_us;
    trial_line(t, "---------  the troubles end");
    for (size_t i = 0; i < t->process_count; i++) {
        trial_weather(&t->processes[i], t->fair);
        trial_freeze(&t->processes[i], false);
        t->processes[i].dies_at = 0;
        trial_rise(&t->processes[i]);
    }
    trial_people_leave(t);
}

static bool settles(struct trial *t)
{
    if (!live(t, t->clock.mono_us + (t->loses ? 90ull * SECOND_US : PATIENCE_US), quiet))
        return false;
    if (!t->loses && !quiet(t))
        for (size_t i = 0; i < t->person_count; i++)
            if (!t->people[i].done)
                trial_broken(t, "H13", "%s never hears how %s ended (last answer: %s)", t->people[i].user, t->people[i].now->request, reason_word(t->people[i].answer));
    if (!t->loses && !quiet(t))
        trial_broken(t, "H13", "a reservation or an outbox row is left over");
    return !t->result->broken;
}

/* Everything goes off, an hour passes, what the broker held comes out, everything begins anew. */
static bool hour(struct trial *t)
{
    for (size_t i = 0; i < t->process_count; i++)
        trial_die(&t->processes[i], 0);
    trial_line(t, "---------  an hour passes");
    if (!live(t, t->clock.mono_us + HOUR_US, NULL))
        return false;
    for (size_t i = 0; i < t->process_count; i++)
        trial_rise(&t->processes[i]);
    return live(t, t->clock.mono_us + 8ull * SECOND_US, NULL) && settles(t);
}

static void worlds_open(struct trial *t)
{
    uint64_t seed = t->options.seed;
    sim_clock_init(&t->clock, TRIAL_START_MS);
    t->clock.mono_us = SECOND_US;
    sim_random_init(&t->chance, seed);
    sim_random_init(&t->weather, seed ^ 0x5eedu << 20);
    sim_watch_init(&t->redis, &t->clock), sim_watch_init(&t->broker, &t->clock), sim_watch_init(&t->postgres, &t->clock);
    sim_store_world_init(&t->stock, seed);
    sim_bus_world_init(&t->bus, &t->broker.clock);
    sim_ledger_world_init(&t->books);
    trial_money_open(t);
    t->bus.chance = &t->weather.random;
    t->keys = ident_keys_from(str_lit("one secret"), str_lit("another"), str_lit("users"));
    t->base = t->fair = (struct sim_weather){.ask_us = 200, .answer_us = 200, .jitter_us = 400, .random = &t->weather.random};
}

/* In every third trial something goes wrong with calls all day long. */
static void climate(struct trial *t)
{
    static const uint16_t rates[] = {1, 4, 15, 40, 120};
    if (trial_below(t, 3) > 0)
        return;
    t->base.delay_us = 20000 + (uint32_t)trial_below(t, 2 * SECOND_US);
    for (int f = 0; f < SIM_FAULT_COUNT; f++)
        t->base.permille[f] = trial_below(t, 2) ? rates[trial_below(t, countof(rates))] : 0;
    for (size_t i = 0; i < t->process_count; i++)
        trial_weather(&t->processes[i], t->base);
}

static void deploy(struct trial *t)
{
    const struct { enum trial_role role; unsigned least, most; } plan[] = {
        {TRIAL_ACCESS, 2, 3}, {TRIAL_ORDER, 1, 3}, {TRIAL_RELAY, 1, 2}, {TRIAL_JANITOR, 1, 2}, {TRIAL_ADMIN, 1, 1}};
    for (size_t i = 0; i < countof(plan); i++) {
        unsigned n = plan[i].least + (unsigned)trial_below(t, plan[i].most - plan[i].least + 1);
        for (unsigned k = 1; k <= n; k++)
            process_make(t, plan[i].role, k);
    }
    topics_make(t);
    size_t sales = 1 + trial_below(t, TRIAL_ACTIVITIES);
    for (unsigned i = 1; i <= sales; i++)
        sale_make(t, i);
    for (size_t i = 0; i < t->sale_count; i++)
        script_write(t, &t->sales[i]);
    climate(t);
    for (size_t i = 0; i < t->process_count; i++)
        trial_rise(&t->processes[i]);
}

static void worlds_close(struct trial *t)
{
    for (size_t i = 0; i < t->person_count; i++) {
        clock_unset(&t->clock.clock, &t->people[i].alarm);
        clock_unset(&t->clock.clock, &t->people[i].patience);
    }
    for (size_t i = 0; i < t->process_count; i++) {
        struct process *p = &t->processes[i];
        clock_unset(&t->clock.clock, &p->rise);
        if (p->up)
            end(p);
        sim_store_close(&p->store), sim_bus_close(&p->bus), sim_ledger_close(&p->ledger), sim_channel_close(&p->channel);
        sim_watch_end(&p->watch);
        for (int f = 0; f < SIM_FAULT_COUNT; f++)
            t->result->faults += p->store.calls.faults[f] + p->bus.calls.faults[f] + p->ledger.calls.faults[f];
    }
    if (t->snapshot.buckets)
        sim_snapshot_free(&t->snapshot);
    sim_store_world_end(&t->stock), sim_bus_world_end(&t->bus), sim_ledger_world_end(&t->books);
    trial_money_close(t);
    sim_watch_end(&t->redis), sim_watch_end(&t->broker), sim_watch_end(&t->postgres);
    sim_clock_end(&t->clock);
    free(t->verdicts);
}

void trial_run(const struct trial_options *options, struct trial_result *result)
{
    struct trial *t = calloc(1, sizeof *t);
    check(t != NULL);
    *result = (struct trial_result){.hash = options->seed};
    t->options = *options;
    t->result = result;
    if (options->lines > 0) {
        result->lines = calloc(options->lines, TRIAL_LINE);
        check(result->lines != NULL);
    }
    worlds_open(t);
    deploy(t);
    trial_people_come(t);
    trial_troubles_brew(t, t->clock.mono_us, DAY_US);
    bool whole = live(t, DAY_US, NULL);
    if (whole) {
        calm(t);
        whole = settles(t) && (t->bus.timers.count == 0 || hour(t));
    }
    if (whole)
        trial_judge_end(t);
    result->ended = whole;
    result->steps = t->clock.rung;
    result->virtual_ms = t->clock.mono_us / 1000;
    result->lost = t->lost_us > 0;
    worlds_close(t);
    if (options->lines > 0)
        lines_turn(t);
    free(t);
}

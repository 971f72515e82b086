/* SPDX-License-Identifier: Apache-2.0
 * control.c: a move is a list of steps, one call at a time; each call is repeated a few times before it counts as not answered.
 *
 *   open:   FIND the activity → SEEDED? every bucket → MOVE → TELL every bucket
 *   warm:   FIND → MOVE → TELL → SLICE of units → HAND them over (→ SLICE …) → COUNT and RECORD every bucket (whose server has it) → SEAL every
 *           bucket (seeded)
 *   others: FIND → MOVE → TELL
 *
 * MOVE names the version that FIND saw: a call that arrives after its time must not undo what somebody did since. Where another was faster, it
 * finds again. */
#include "control.h"

#include <stdlib.h>

#include "arena.h"
#include "check.h"
#include "killpoint.h"
#include "list.h"

#define SLICE_MAX 1024
#define WORK_BYTES ((size_t)1 << 20)

enum step { STEP_FIND, STEP_SEEDED, STEP_MOVE, STEP_TELL, STEP_SLICE, STEP_HAND, STEP_COUNT, STEP_RECORD, STEP_SEAL, STEP_END };

struct unit_home {
    struct token token;
    uint16_t sku;
    uint8_t home;
};
struct control_work {
    struct link link;
    struct controller *controller;
    struct control *owner;             /* NULL: he has gone; the move goes on */
    struct waiter call;
    struct alarm rest;
    uint32_t attempts;
    enum step step;
    enum activity_event event;
    struct arena memory;
    struct str name, actor, note;
    struct activity activity;
    uint8_t bucket;                    /* the one being told or counted */
    uint32_t lagging;
    bool moved;
    uint64_t overtaken;                /* the version at which a MOVE was refused; 0: none was */
    uint32_t finds;
    uint64_t seeded;
    int64_t after;
    struct unit_home units[SLICE_MAX];
    size_t unit_count, unit_at, handed;
    uint32_t *expected;                /* units per bucket and SKU */
    char incarnation[INCARNATION_TEXT];    /* of the server that has counted the bucket */
    size_t incarnation_len;
};
struct controller {
    struct store *store;
    struct ledger *ledger;
    struct clock *clock;
    struct control_options options;
    size_t moves;
    struct control_work *works;
    struct link idle;
};

struct control_options control_options_default(void) { return (struct control_options){.call_ms = 5000, .attempts = 5, .back_off_ms = 100}; }

static void step(struct control_work *);

static void end(struct control_work *w, enum reason reason)
{
    struct control *c = w->owner;
    struct log_line l = log_event(reason == REASON_OK ? LEVEL_INFO : LEVEL_WARN, "activity_moved");
    log_str(&l, "activity_id", w->name);
    log_text(&l, "move", activity_event_name(w->event));
    log_text(&l, "error_class", reason_word(reason));
    log_i64(&l, "lagging_buckets", w->lagging);
    log_end(&l);
    w->owner = NULL;
    list_append(&w->controller->idle, &w->link);
    if (!c)
        return;
    c->work = NULL;
    c->reason = reason;
    c->lagging = w->lagging;
    c->moved = w->moved;
    c->state = w->activity.state;
    c->version = w->activity.version;
    c->seeded = w->seeded;
    c->done(c);
}

/* ---- what the ledger gave, kept ----------------------------------------------------------------------------------------------- */

static bool keep(struct control_work *w, const struct activity *from)
{
    struct activity *a = &w->activity;
    struct sku *skus = arena_array(&w->memory, struct sku, from->sku_count + 1);
    *a = *from;
    a->activity = arena_str(&w->memory, from->activity);
    a->title = arena_str(&w->memory, from->title);
    a->skus = skus;
    a->incarnations = NULL;
    for (size_t i = 0; skus && i < from->sku_count; i++) {
        skus[i] = from->skus[i];
        skus[i].sku = arena_str(&w->memory, from->skus[i].sku);
        skus[i].currency = arena_str(&w->memory, from->skus[i].currency);
    }
    w->expected = arena_array(&w->memory, uint32_t, (size_t)32 * (from->sku_count + 1));
    return w->expected != NULL;
}

static int sku_of(const struct control_work *w, struct str sku)
{
    for (size_t i = 0; i < w->activity.sku_count; i++)
        if (str_eq(w->activity.skus[i].sku, sku))
            return (int)i;
    return -1;
}

static struct bucket bucket_of(const struct control_work *w) { return (struct bucket){w->activity.activity, w->activity.epoch, w->bucket}; }

/* ---- steps over every bucket -------------------------------------------------------------------------------------------------- */

static void go_to(struct control_work *w, enum step s)
{
    w->step = s;
    w->bucket = 0;
    w->attempts = 0;
    step(w);
}

static void next_bucket(struct control_work *w, enum step after)
{
    w->attempts = 0;
    if (++w->bucket < w->activity.buckets)
        step(w);
    else
        go_to(w, after);
}

static void lag(struct control_work *w) { w->lagging |= (uint32_t)1 << w->bucket; }

/* Each unit handed over is counted where it was to go: then, and only then, the bucket may be called seeded. */
static bool counted(const struct control_work *w, const struct stock_answer *s)
{
    for (size_t i = 0; i < w->activity.sku_count; i++) {
        uint64_t held = 0, expected = w->expected[(size_t)w->bucket * w->activity.sku_count + i];
        for (size_t k = 0; k < s->sku_count; k++)
            if (str_eq(s->skus[k].sku, w->activity.skus[i].sku))
                held = s->skus[k].free + s->skus[k].resting + s->skus[k].moving;
        if (held != expected)
            return false;
    }
    return true;
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------ */

static void found(struct control_work *w, const struct activities_answer *a)
{
    for (size_t i = 0; i < a->count; i++) {
        if (!str_eq(a->activities[i].activity, w->name))
            continue;
        if (!keep(w, &a->activities[i]))
            end(w, REASON_OVERLOADED);
        else if (w->overtaken == w->activity.version || ++w->finds > w->controller->options.attempts)
            end(w, REASON_CONFLICT);    /* nobody was faster: there is no such move */
        else
            go_to(w, w->event == ACTIVITY_EVENT_OPEN && w->activity.state == ACTIVITY_WARM ? STEP_SEEDED : STEP_MOVE);
        return;
    }
    end(w, REASON_UNKNOWN_ACTIVITY);
}

static void sliced(struct control_work *w, const struct units_answer *a)
{
    w->unit_count = w->unit_at = 0;
    for (size_t i = 0; i < a->count && i < SLICE_MAX; i++) {
        int sku = sku_of(w, a->units[i].sku);
        check(sku >= 0 && a->units[i].home < 32);
        w->units[w->unit_count++] = (struct unit_home){a->units[i].token, (uint16_t)sku, a->units[i].home};
        w->expected[(size_t)a->units[i].home * w->activity.sku_count + (size_t)sku]++;
        w->after = a->units[i].token.unit;
    }
    go_to(w, w->unit_count > 0 ? STEP_HAND : STEP_COUNT);
}

static void handed(struct control_work *w, const struct batch_result *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (reason_fate(r->verdicts[i]) != FATE_DONE) {
            end(w, reason_fate(r->verdicts[i]) == FATE_REFUSED ? REASON_CONFLICT : REASON_DEPENDENCY_DOWN);
            return;
        }
    w->attempts = 0;
    w->seeded += w->handed;
    w->unit_at += w->handed;
    if (w->unit_at < w->unit_count)
        step(w);
    else
        go_to(w, STEP_SLICE);
}

/* A step has been answered: what stands now is durable, and the next has not begun. */
static void pass_answered(enum step s)
{
    if (s == STEP_MOVE)
        KILLPOINT(MOVE_ANSWERED);
    else if (s == STEP_TELL)
        KILLPOINT(TELL_ANSWERED);
    else if (s == STEP_HAND)
        KILLPOINT(HAND_ANSWERED);
    else if (s == STEP_COUNT)
        KILLPOINT(COUNT_ANSWERED);
    else if (s == STEP_RECORD)
        KILLPOINT(RECORD_ANSWERED);
    else if (s == STEP_SEAL)
        KILLPOINT(SEAL_ANSWERED);
}

/* That server held every unit at that moment; should it be another by the time the sale begins, the bucket is closed and healed first. */
static void record(struct control_work *w, struct str incarnation)
{
    check(incarnation.len <= sizeof w->incarnation);
    memcpy(w->incarnation, incarnation.ptr, incarnation.len);
    w->incarnation_len = incarnation.len;
    w->step = STEP_RECORD;
    w->attempts = 0;
    step(w);
}

static void next_count(struct control_work *w)
{
    w->step = STEP_COUNT;
    next_bucket(w, w->lagging == 0 ? STEP_SEAL : STEP_END);
}

static void went_well(struct control_work *w, const void *result)
{
    pass_answered(w->step);
    const struct stock_answer *stock = result;
    switch (w->step) {
    case STEP_FIND:
        found(w, result);
        return;
    case STEP_SEEDED:
        if (stock->seeded)
            next_bucket(w, STEP_MOVE);
        else
            end(w, REASON_CONFLICT);    /* warm has not been finished */
        return;
    case STEP_MOVE:
        w->moved = true;
        if (keep(w, result))
            go_to(w, STEP_TELL);
        else
            end(w, REASON_OVERLOADED);
        return;
    case STEP_TELL:
        next_bucket(w, w->event != ACTIVITY_EVENT_WARM ? STEP_END : w->lagging == 0 ? STEP_SLICE : STEP_END);
        return;
    case STEP_SLICE:
        sliced(w, result);
        return;
    case STEP_HAND:
        handed(w, result);
        return;
    case STEP_COUNT:
        if (counted(w, stock)) {
            record(w, stock->incarnation);
            return;
        }
        lag(w);
        next_count(w);
        return;
    case STEP_RECORD:
        next_count(w);
        return;
    case STEP_SEAL:
        next_bucket(w, STEP_END);
        return;
    case STEP_END:
        break;
    }
    check(false);
}

/* After all attempts: a bucket that does not answer is named and passed by; anything else ends the move. */
static void went_badly(struct control_work *w, enum reason reason)
{
    if (w->step == STEP_TELL || w->step == STEP_COUNT || w->step == STEP_RECORD || w->step == STEP_SEAL) {
        lag(w);
        w->step = w->step == STEP_RECORD ? STEP_COUNT : w->step;
        next_bucket(w, STEP_END);
        return;
    }
    if (w->step == STEP_MOVE && reason == REASON_CONFLICT) {
        w->overtaken = w->activity.version;
        go_to(w, STEP_FIND);
        return;
    }
    bool ledgers = w->step == STEP_MOVE && reason_fate(reason) == FATE_REFUSED;
    end(w, ledgers ? reason : w->step == STEP_SEEDED && reason == REASON_STALE_EPOCH ? REASON_CONFLICT : REASON_DEPENDENCY_DOWN);
}

static void came(struct waiter *waiter, enum reason reason, const void *result)
{
    struct control_work *w = container_of(waiter, struct control_work, call);
    enum fate fate = reason_fate(reason);
    bool told = (w->step == STEP_TELL || w->step == STEP_SEAL) && fate == FATE_DONE;    /* UNCHANGED: an equal or higher version stood */
    told |= w->step == STEP_RECORD && reason == REASON_CONFLICT;                         /* open meanwhile: it was recorded before */
    if (reason == REASON_OK || told) {
        went_well(w, result);
    } else if (reason == REASON_STALE_EPOCH) {    /* the bucket is missing: asked again it is missing still */
        went_badly(w, reason);
    } else if ((fate == FATE_RETRY || fate == FATE_UNKNOWN) && ++w->attempts < w->controller->options.attempts) {
        uint64_t us = (uint64_t)w->controller->options.back_off_ms * 1000 << (w->attempts - 1);
        clock_set_in(w->controller->clock, &w->rest, us < 5000000 ? us : 5000000);
    } else {
        went_badly(w, reason);
    }
}

static void rested(struct waiter *waiter, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    step(container_of(container_of(waiter, struct alarm, waiter), struct control_work, rest));
}

/* ---- asking ------------------------------------------------------------------------------------------------------------------- */

static void hand_over(struct control_work *w)
{
    struct restock_ask asks[STORE_BATCH_MAX];
    w->handed = 0;
    for (size_t i = w->unit_at; i < w->unit_count && w->handed < STORE_BATCH_MAX; i++) {
        const struct unit_home *u = &w->units[i];
        asks[w->handed++] = (struct restock_ask){
            .bucket = {w->activity.activity, w->activity.epoch, u->home}, .sku = w->activity.skus[u->sku].sku, .token = u->token};
    }
    store_restock(w->controller->store, asks, w->handed, &w->call);
    KILLPOINT(HAND_ASKED);
}

static void step(struct control_work *w)
{
    struct controller *c = w->controller;
    w->call = (struct waiter){.wake = came, .budget_ms = c->options.call_ms};
    switch (w->step) {
    case STEP_FIND:
        ledger_activity(c->ledger, w->name, &w->call);
        return;
    case STEP_MOVE: {
        struct activity_move_ask ask = {.activity = w->name, .event = w->event, .version = w->activity.version, .actor = w->actor, .note = w->note};
        ledger_activity_move(c->ledger, &ask, &w->call);
        KILLPOINT(MOVE_ASKED);
        return;
    }
    case STEP_SLICE: {
        struct units_ask ask = {.activity = w->name, .after = w->after, .bucket = -1, .available = true, .limit = SLICE_MAX};
        ledger_units(c->ledger, &ask, &w->call);
        return;
    }
    case STEP_HAND:
        hand_over(w);
        return;
    case STEP_SEEDED:
    case STEP_COUNT: {
        struct stock_ask ask = {.bucket = bucket_of(w)};
        store_stock(c->store, &ask, &w->call);
        return;
    }
    case STEP_RECORD: {
        struct record_ask ask = {bucket_of(w), {w->incarnation, w->incarnation_len}};
        ledger_record(c->ledger, &ask, &w->call);
        KILLPOINT(RECORD_ASKED);
        return;
    }
    case STEP_TELL:
    case STEP_SEAL: {
        struct install_ask ask = {.bucket = bucket_of(w), .activity = &w->activity, .seeded = w->step == STEP_SEAL,
                                  .create = w->step == STEP_TELL && w->event == ACTIVITY_EVENT_WARM};
        store_install(c->store, &ask, &w->call);
        return;
    }
    case STEP_END:
        end(w, w->lagging == 0 ? REASON_OK : REASON_DEPENDENCY_DOWN);
        return;
    }
}

/* ---- for everybody -------------------------------------------------------------------------------------------------------------- */

struct controller *controller_new(struct store *store, struct ledger *ledger, struct clock *clock, size_t moves, struct control_options options)
{
    check(moves >= 1 && options.attempts >= 1 && options.attempts <= 16);
    struct controller *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    *c = (struct controller){.store = store, .ledger = ledger, .clock = clock, .options = options, .moves = moves};
    list_init(&c->idle);
    c->works = calloc(moves, sizeof *c->works);
    for (size_t i = 0; c->works && i < moves; i++) {
        c->works[i].controller = c;
        c->works[i].rest.waiter.wake = rested;
        c->works[i].memory = arena_new(WORK_BYTES);
        list_append(&c->idle, &c->works[i].link);
    }
    if (!c->works || !c->works[moves - 1].memory.start) {
        controller_free(c);
        return NULL;
    }
    return c;
}

void controller_free(struct controller *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->works && i < c->moves; i++) {
        clock_unset(c->clock, &c->works[i].rest);
        waiter_drop(&c->works[i].call);
        arena_free(&c->works[i].memory);
    }
    free(c->works);
    free(c);
}

bool control_start(struct controller *controller, struct control *c)
{
    struct link *link = list_take(&controller->idle);
    c->work = NULL;
    if (!link) {
        c->reason = REASON_OVERLOADED;
        return false;
    }
    struct control_work *w = list_entry(link, struct control_work, link);
    arena_reset(&w->memory);
    w->owner = c;
    w->event = c->event;
    w->name = arena_str(&w->memory, c->activity);
    w->actor = arena_str(&w->memory, c->actor);
    w->note = arena_str(&w->memory, c->note);
    w->activity = (struct activity){0};
    w->lagging = 0;
    w->moved = false;
    w->overtaken = 0;
    w->finds = 0;
    w->seeded = 0;
    w->after = 0;
    c->work = w;
    go_to(w, STEP_FIND);
    return true;
}

void control_let_go(struct control *c)
{
    if (!c->work)
        return;
    c->work->owner = NULL;
    c->work = NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 * explain.c: a list of questions, each asked when the one before is answered, each answer leaving facts (explain_facts.h) and perhaps further questions:
 *
 *     activities -> [unit] -> ledger: verdict, order -> ledger: the story -> [of a payment of this name] -> store: the user's entries -> [store: all holdings, where nobody named the user]
 */
#include "explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "check.h"
#include "explain_facts.h"
#include "json.h"
#include "verb.h"

#define CALL_MS 3000
#define SLICES_MAX 4096      /* of holdings: some hundred units each */

static void next(struct explain_work *w);

/* ---- the walk --------------------------------------------------------------------------------------------------------------------- */

static struct bucket bucket_of(const struct explain_work *w)
{
    uint8_t number = w->user.len > 0 ? user_bucket(user_hash(&w->explain->keys, w->user), w->buckets) : w->home;
    return (struct bucket){.activity = w->activity, .epoch = w->epoch, .number = number};
}

/* The answer to what was asked in this step; what comes next is decided by next(). */
static void took(struct explain_work *w, enum reason reason, const void *result)
{
    switch (w->step) {
    case EXPLAIN_ACTIVITIES:
        reason == REASON_OK ? explain_got_activities(w, result) : explain_unknown(w, "postgresql", "activities", reason);
        break;
    case EXPLAIN_UNIT:
        reason == REASON_OK ? explain_got_unit(w, result) : explain_unknown(w, "postgresql", "the unit", reason);
        break;
    case EXPLAIN_LEDGER:
    case EXPLAIN_ENTRIES:
        if (reason == REASON_OK)
            explain_got_ledger(w, result);
        else if (reason == REASON_NOT_FOUND)
            explain_fact(w, 0, "postgresql", "nothing", "PostgreSQL holds no verdict and no order of it");
        else
            explain_unknown(w, "postgresql", "verdict and order", reason);
        break;
    case EXPLAIN_STORY:
    case EXPLAIN_PAYMENT:
        reason == REASON_OK ? explain_got_story(w, result) : explain_unknown(w, "postgresql", "the story", reason);
        break;
    case EXPLAIN_LOOK:
        if (reason == REASON_OK)
            explain_got_look(w, result);
        else
            explain_unknown(w, "redis", reason == REASON_STALE_EPOCH ? "the bucket is not there in this epoch" : "the user's entries", reason);
        break;
    case EXPLAIN_HOLDINGS:
        if (reason == REASON_OK) {
            explain_got_holdings(w, result);
        } else {
            w->cursor = (struct str){0};
            explain_unknown(w, "redis", "what the bucket holds", reason);
        }
        break;
    case EXPLAIN_END:
        break;
    }
}

static void woken(struct waiter *waiter, enum reason reason, const void *result)
{
    struct explain_work *w = container_of(waiter, struct explain_work, waiter);
    took(w, reason, result);
    if (w->step == EXPLAIN_HOLDINGS && w->cursor.len > 0 && ++w->slices < SLICES_MAX && w->memory.used < w->memory.cap - 65536)
        w->step--;    /* the next slice */
    if (w->step == EXPLAIN_ENTRIES)
        w->step--;    /* the next of them, if any */
    next(w);
}

static bool ask_ledger(struct explain_work *w)
{
    struct ledger_look_ask ask = {.user = (struct str){0}};
    if (w->reservation.len > 0)
        ask.by = LOOK_RESERVATION, ask.id = w->reservation;
    else if (w->order.len > 0)
        ask.by = LOOK_ORDER, ask.id = w->order;
    else if (w->request.len > 0 && w->activity.len > 0)
        ask.by = LOOK_REQUEST, ask.id = w->request, ask.activity = w->activity, ask.user = w->user;
    else
        return false;
    ledger_look(w->explain->ports->ledger, &ask, &w->waiter);
    return true;
}

/* The widest story that the id has: of a unit all who ever had it, of a user all he did, else of what it names. */
static bool ask_story(struct explain_work *w)
{
    struct story_ask ask = {.limit = EXPLAIN_STORY_MOST, .activity = w->activity};
    const char *kind = w->explain->kind;
    if (!kind)
        return false;
    if (strcmp(kind, "unit") == 0)
        ask.by = STORY_UNIT, ask.unit = w->token.unit;
    else if (strcmp(kind, "user") == 0)
        ask.by = STORY_USER, ask.id = w->user;
    else if (w->order.len > 0)
        ask.by = STORY_ORDER, ask.id = w->order;
    else if (w->reservation.len > 0)
        ask.by = STORY_RESERVATION, ask.id = w->reservation;
    else
        return false;
    ledger_story(w->explain->ports->ledger, &ask, &w->waiter);
    return true;
}

static bool ask(struct explain_work *w)
{
    struct ports *p = w->explain->ports;
    switch (w->step) {
    case EXPLAIN_ACTIVITIES:
        ledger_activities(p->ledger,
                          &(struct activities_ask){.names = &w->activity, .name_count = w->activity.len > 0, .numbers = &w->number,
                                                   .number_count = w->activity.len == 0 && w->number != 0,
                                                   .unit = w->activity.len == 0 && w->number == 0 ? w->token.unit : 0},
                          &w->waiter);
        return true;
    case EXPLAIN_UNIT:
        if (!w->activity_known || w->token.unit == 0 || w->reservation.len > 0)
            return false;
        ledger_units(p->ledger, &(struct units_ask){.activity = w->activity, .after = w->token.unit - 1, .bucket = -1, .limit = 1}, &w->waiter);
        return true;
    case EXPLAIN_LEDGER:
        return ask_ledger(w);
    case EXPLAIN_STORY:
        return ask_story(w);
    case EXPLAIN_PAYMENT:    /* a name that says nothing by itself, and is no user's who has anything */
        if (!w->explain->kind || strcmp(w->explain->kind, "user") != 0 || w->explain->known)
            return false;
        ledger_story(p->ledger, &(struct story_ask){.by = STORY_PAYMENT, .id = w->user, .limit = EXPLAIN_STORY_MOST}, &w->waiter);
        return true;
    case EXPLAIN_LOOK:
        if (!w->activity_known || w->user.len == 0 || (w->explain->kind && strcmp(w->explain->kind, "payment") == 0))
            return false;
        store_look(p->store, &(struct look_ask){.bucket = bucket_of(w), .user = w->user}, &w->waiter);
        return true;
    case EXPLAIN_ENTRIES:
        if (w->entry_at == w->entry_count)
            return false;
        ledger_look(p->ledger, &(struct ledger_look_ask){.by = LOOK_RESERVATION, .id = w->entries[w->entry_at++]}, &w->waiter);
        return true;
    case EXPLAIN_HOLDINGS:
        if (!w->activity_known || (w->seen_in_store && w->token.unit == 0) || (w->reservation.len == 0 && w->token.unit == 0))
            return false;
        store_holdings(p->store, &(struct holdings_ask){.bucket = bucket_of(w), .cursor = w->cursor}, &w->waiter);
        return true;
    case EXPLAIN_END:
        return false;
    }
    return false;
}

static int by_time(const void *a, const void *b)
{
    const struct explain_fact *x = a, *y = b;
    return x->at_ms < y->at_ms ? -1 : x->at_ms > y->at_ms;
}

static void end(struct explain_work *w)
{
    struct explain *e = w->explain;
    if (e->kind && !w->seen_in_store && w->activity_known && e->complete && e->known)
        explain_fact(w, 0, "redis", "nothing", "Redis holds nothing of it now");
    if (!e->known)
        explain_fact(w, 0, "postgresql", "unknown", e->complete ? "no store knows anything of it; what was never written down cannot be told" : "not every part answered");
    /* a stable order of equal times: facts were added in the order they were asked for */
    for (size_t i = 1; i < e->fact_count; i++)
        for (size_t j = i; j > 0 && by_time(&w->facts[j - 1], &w->facts[j]) > 0; j--) {
            struct explain_fact f = w->facts[j];
            w->facts[j] = w->facts[j - 1];
            w->facts[j - 1] = f;
        }
    e->facts = w->facts;
    e->done(e);
}

static void next(struct explain_work *w)
{
    while (w->step < EXPLAIN_END) {
        w->step++;
        w->waiter.budget_ms = CALL_MS;
        if (ask(w))
            return;
    }
    end(w);
}

void explain_start(struct explain *e, struct ports *p, struct ident_keys keys)
{
    struct explain_work *w = calloc(1, sizeof *w);
    check(w != NULL && p->ledger && p->store);
    w->memory = arena_new(1024 * 1024);
    check(w->memory.start != NULL);
    w->explain = e;
    w->waiter.wake = woken;
    w->buckets = 1;
    e->ports = p;
    e->keys = keys;
    e->work = w;
    e->complete = true;
    explain_classify(w);
    w->step = EXPLAIN_ACTIVITIES;
    w->waiter.budget_ms = CALL_MS;
    check(ask(w));
}

void explain_free(struct explain *e)
{
    if (!e->work)
        return;
    waiter_drop(&e->work->waiter);
    arena_free(&e->work->memory);
    free(e->work);
    e->work = NULL;
}

void explain_write_json(const struct explain *e, struct buf *out)
{
    json_open(out);
    json_member_str(out, "id", e->id);
    json_member_text(out, "kind", e->kind ? e->kind : "unknown");
    json_member_bool(out, "known", e->known);
    json_member_bool(out, "complete", e->complete);
    json_key(out, "timeline");
    json_open_array(out);
    for (size_t i = 0; i < e->fact_count; i++) {
        json_open(out);
        json_maybe_time(out, "at", e->facts[i].at_ms);
        json_member_text(out, "source", e->facts[i].source);
        json_member_str(out, "what", e->facts[i].what);
        json_maybe_str(out, "detail", e->facts[i].detail);
        json_close(out);
    }
    json_close_array(out);
    json_close(out);
}

/* ---- the verb ----------------------------------------------------------------------------------------------------------------------- */

struct telling {
    struct explain explain;
    bool done;
};
static void told(struct explain *e) { container_of(e, struct telling, explain)->done = true; }

static void print_table(const struct explain *e)
{
    printf("%s " STR_FMT "\n", e->kind ? e->kind : "what this names cannot be told:", STR_ARG(e->id));
    for (size_t i = 0; i < e->fact_count; i++) {
        const struct explain_fact *f = &e->facts[i];
        char at[TIME_TEXT + 1] = "now";
        if (f->at_ms != 0)
            time_write(f->at_ms, at);
        printf("  %-24.24s  %-10s  %-15.*s " STR_FMT "\n", at, f->source, STR_ARG(f->what), STR_ARG(f->detail));
    }
}

static int print(const struct explain *e, bool json)
{
    if (json) {
        struct buf out = buf_growing(EXPLAIN_JSON_MAX);
        explain_write_json(e, &out);
        check(buf_ok(&out));
        printf(STR_FMT "\n", STR_ARG(buf_str(&out)));
        buf_free(&out);
    } else {
        print_table(e);
    }
    return e->known ? LEAVE_DONE : e->complete ? LEAVE_FAILED : LEAVE_UNREACHABLE;
}

int verb_explain(const struct call *c)
{
    uv_loop_t loop;
    struct ports ports;
    char memory[1024];
    struct buf complaint = buf_fixed(memory, sizeof memory);
    if (c->argument_count != 1)
        return call_misused(c, "which id?");
    if (!str_is_id(str_of(c->arguments[0])))
        return call_misused(c, "\"%s\" is no id: 1 to 64 of A-Z a-z 0-9 _ -", c->arguments[0]);
    uv_loop_init(&loop);
    if (!ports_open(&ports, &loop, c->config, PORTS_STORE | PORTS_LEDGER, &complaint)) {
        ports_loop_end(&loop);
        return call_failed(c, LEAVE_CONFIG, STR_FMT, STR_ARG(buf_str(&complaint)));
    }
    bool ready = ports_ready(&ports, 3000);    /* where a part does not answer, what the other knows is told all the same */
    if (!ready)
        call_failed(c, LEAVE_UNREACHABLE, "a part does not answer; what it knows is unknown");
    struct telling t = {.explain = {.id = str_of(c->arguments[0]), .activity = str_of(call_text(c, "activity")), .user = str_of(call_text(c, "user")), .done = told}};
    explain_start(&t.explain, &ports, ports_ident_keys(c->config));
    await_flag(&loop, &t.done, 0);
    int leave = print(&t.explain, c->json);
    explain_free(&t.explain);
    ports_close(&ports);
    ports_loop_end(&loop);
    return leave;
}

/* SPDX-License-Identifier: Apache-2.0
 * explain.c: a list of questions, each asked when the one before is answered, each answer leaving facts and perhaps further questions:
 *
 *     activities -> [unit] -> ledger: verdict, order -> ledger: the story -> [of a payment of this name] -> store: the user's entries -> [store: all holdings, where nobody named the user]
 */
#include "explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "check.h"
#include "json.h"
#include "verb.h"

#define CALL_MS 3000
#define ENTRIES_MAX 16       /* reservations of one user that are followed */
#define STORY_MOST 192       /* events of a story; the newest */
#define SLICES_MAX 4096      /* of holdings: some hundred units each */

enum step { STEP_ACTIVITIES, STEP_UNIT, STEP_LEDGER, STEP_STORY, STEP_PAYMENT, STEP_LOOK, STEP_ENTRIES, STEP_HOLDINGS, STEP_END };

struct explain_work {
    struct explain *explain;
    struct waiter waiter;
    struct arena memory;
    struct explain_fact facts[EXPLAIN_FACTS_MAX];
    struct str entries[ENTRIES_MAX];    /* reservations of a user, still to be asked of the ledger */
    size_t entry_count, entry_at;
    enum step step;
    uv_timer_t *later;                  /* for ends that come before anything was asked */
    /* what is known so far */
    struct str activity, user, reservation, order, request, sku;
    struct token token;                 /* unit 0: none */
    uint16_t number;                    /* of the activity, from an ident; 0: not known */
    uint8_t epoch, buckets, home;
    bool activity_known, seen_in_store;
    struct str cursor;
    uint32_t slices;
};

static void next(struct explain_work *w);

/* ---- facts ------------------------------------------------------------------------------------------------------------------ */

static void fact(struct explain_work *w, int64_t at_ms, const char *source, const char *what, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void fact(struct explain_work *w, int64_t at_ms, const char *source, const char *what, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    struct explain *e = w->explain;
    if (e->fact_count == EXPLAIN_FACTS_MAX) {
        e->complete = false;
        return;
    }
    w->facts[e->fact_count++] = (struct explain_fact){at_ms, source, arena_str(&w->memory, str_of(what)), arena_str(&w->memory, (struct str){text, len})};
}

static void unknown(struct explain_work *w, const char *source, const char *what, enum reason why)
{
    w->explain->complete = false;
    fact(w, 0, source, "unknown", "%s: %s", what, reason_word(why));
}

static void learn(struct explain_work *w, struct str *into, struct str value)
{
    if (into->len == 0)
        *into = arena_str(&w->memory, value);
}

static const char *token_text(struct token t, char out[TOKEN_TEXT + 1])
{
    if (t.unit <= 0)
        return "no unit";
    out[token_write(t, out)] = 0;
    return out;
}

/* ---- what the id says by itself ------------------------------------------------------------------------------------------------- */

static void learn_ident(struct explain_work *w, struct ident ident)
{
    char text[IDENT_ID_TEXT];
    struct ident_fields f = ident_read(ident);
    ident_write(ident, IDENT_RESERVATION, text);
    learn(w, &w->reservation, (struct str){text, sizeof text});
    if (!ident_ours(&w->explain->keys, ident)) {
        fact(w, 0, "id", "not ours", "the check of this id fails under our keys: it was made up, or made under other keys");
        return;
    }
    w->number = f.activity;
    w->epoch = f.epoch;
    w->home = f.bucket;
    fact(w, f.made_ms, "id", "made", "for activity number %u, epoch %u, bucket %u", f.activity, f.epoch, f.bucket);
}

static void classify(struct explain_work *w)
{
    struct explain *e = w->explain;
    struct ident ident;
    int64_t number;
    w->activity = arena_str(&w->memory, e->activity);
    w->user = arena_str(&w->memory, e->user);
    if (ident_parse(e->id, IDENT_RESERVATION, &ident) || ident_parse(e->id, IDENT_MESSAGE, &ident)) {
        e->kind = "reservation";
        learn_ident(w, ident);
    } else if (ident_parse(e->id, IDENT_ORDER, &ident)) {
        e->kind = "order";
        w->order = arena_str(&w->memory, e->id);
        learn_ident(w, ident);
    } else if (token_parse(e->id, &w->token)) {
        e->kind = "unit";
    } else if (str_to_i64(e->id, &number) && number > 0 && e->user.len == 0) {
        e->kind = "unit";
        w->token.unit = number;
    } else if (str_is_id(e->id) && e->user.len > 0) {
        e->kind = "request";
        w->request = arena_str(&w->memory, e->id);
    } else if (str_is_id(e->id)) {
        e->kind = "user";
        w->user = arena_str(&w->memory, e->id);
    }
}

/* ---- activities --------------------------------------------------------------------------------------------------------------- */

static bool holds_unit(const struct activity *a, int64_t unit)
{
    for (size_t i = 0; i < a->sku_count; i++)
        if (unit >= a->skus[i].unit_first && unit < a->skus[i].unit_first + a->skus[i].stock)
            return true;
    return false;
}

static void got_activities(struct explain_work *w, const struct activities_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++) {
        const struct activity *a = &answer->activities[i];
        bool named = w->activity.len > 0 ? str_eq(a->activity, w->activity) : w->number != 0 ? a->number == w->number : holds_unit(a, w->token.unit);
        if (!named)
            continue;
        learn(w, &w->activity, a->activity);
        w->activity_known = true;
        if (w->epoch != 0 && w->epoch != a->epoch)
            fact(w, 0, "postgresql", "epoch", "the activity is in epoch %u now, the id is of epoch %u: Redis was rebuilt since", a->epoch, w->epoch);
        w->epoch = a->epoch;
        w->buckets = a->buckets;
        fact(w, 0, "postgresql", "activity", STR_FMT " (number %u) is %s", STR_ARG(a->activity), a->number, activity_state_name(a->state));
        return;
    }
    if (w->activity.len > 0)
        fact(w, 0, "postgresql", "unknown", "there is no activity " STR_FMT, STR_ARG(w->activity));
    else if (w->number != 0 || w->token.unit > 0)
        fact(w, 0, "postgresql", "unknown", "no activity has this id's number or unit");
    else if (w->reservation.len == 0)
        fact(w, 0, "id", "unknown", "this says nothing of its activity: name it");
}

/* ---- the ledger ----------------------------------------------------------------------------------------------------------------- */

static void got_unit(struct explain_work *w, const struct units_answer *answer)
{
    char text[TOKEN_TEXT + 1];
    for (size_t i = 0; i < answer->count; i++) {
        const struct ledger_unit *u = &answer->units[i];
        if (u->token.unit != w->token.unit)
            continue;
        w->explain->known = true;
        w->home = u->home;
        fact(w, 0, "postgresql", "unit", "%s of " STR_FMT ", home bucket %u, %s%s" STR_FMT "%s", token_text(u->token, text), STR_ARG(u->sku), u->home,
             u->available ? "AVAILABLE" : "CONSUMED", u->reservation.len > 0 ? " by " : "", STR_ARG(u->reservation),
             u->returning ? ", news of it is still on its way to Redis" : "");
        if (w->token.generation != 0 && w->token.generation != u->token.generation)
            fact(w, 0, "postgresql", "generation", "the id names generation %u, the unit is at %u: it left that reservation", w->token.generation,
                 u->token.generation);
        w->token.generation = u->token.generation;
        if (!u->available)
            learn(w, &w->reservation, u->reservation);
        return;
    }
    fact(w, 0, "postgresql", "unknown", "there is no such unit");
}

/* How it stands; how it came about is the story's. */
static void order_facts(struct explain_work *w, const struct order *o)
{
    if (o->state == ORDER_CREATED && o->pay_deadline_ms != 0)
        fact(w, o->pay_deadline_ms, "postgresql", "pay deadline", "until then it may be paid");
    fact(w, 0, "postgresql", "order", STR_FMT " is %s", STR_ARG(o->order), order_state_name(o->state));
}

static const char *because(enum reason why, char out[64])
{
    snprintf(out, 64, "%s%s", why != REASON_OK ? ", because " : "", why != REASON_OK ? reason_word(why) : "");
    return out;
}

static void story_fact(struct explain_work *w, const struct story_event *e)
{
    char token[TOKEN_TEXT + 1], why[64];
    const char *unit = token_text(e->token, token), *cause = because(e->why, why);
    switch (e->kind) {
    case STORY_DECIDED:
        fact(w, e->at_ms, "postgresql", "verdict", STR_FMT " of " STR_FMT " is %s%s, %s", STR_ARG(e->reservation), STR_ARG(e->user), reason_word(e->outcome), cause, unit);
        break;
    case STORY_CREATED:
        fact(w, e->at_ms, "postgresql", "order created", STR_FMT " for " STR_FMT ", unit %s, %lld " STR_FMT, STR_ARG(e->order), STR_ARG(e->user), unit, (long long)e->amount, STR_ARG(e->currency));
        break;
    case STORY_PAID:
        fact(w, e->at_ms, "postgresql", "order paid", STR_FMT " by payment " STR_FMT, STR_ARG(e->order), STR_ARG(e->payment));
        break;
    case STORY_CANCELED:
        fact(w, e->at_ms, "postgresql", "order canceled", STR_FMT "%s", STR_ARG(e->order), cause);
        break;
    case STORY_CONSUMED:
        fact(w, e->at_ms, "postgresql", "unit taken", "%s by " STR_FMT, unit, STR_ARG(e->reservation));
        break;
    case STORY_RETURNED:
    case STORY_FREED:
        fact(w, e->at_ms, "postgresql", "unit back", "as %s, %s " STR_FMT "%s", unit, e->kind == STORY_FREED ? "from the order of" : "unsold by", STR_ARG(e->reservation), cause);
        break;
    case STORY_RAISED:
        fact(w, e->at_ms, "postgresql", "unit raised", "to %s%s", unit, cause);
        break;
    case STORY_RESTOCKED:
        fact(w, e->at_ms, "postgresql", "on sale again", "%s was given back to Redis", unit);
        break;
    case STORY_PAYMENT_HEARD:
        fact(w, e->at_ms, "postgresql", "payment", STR_FMT " of " STR_FMT ": %s, %lld " STR_FMT "%s" STR_FMT ": %s%s", STR_ARG(e->payment), STR_ARG(e->order), payment_result_name(e->result),
             (long long)e->amount, STR_ARG(e->currency), e->detail.len > 0 ? " by " : "", STR_ARG(e->detail), reason_word(e->outcome), cause);
        break;
    case STORY_REFUND:
        fact(w, e->at_ms, "postgresql", "refund", "of " STR_FMT ", %lld " STR_FMT ": %s%s", STR_ARG(e->payment), (long long)e->amount, STR_ARG(e->currency),
             e->refund == REFUND_DONE ? "DONE, given back" : "REQUESTED", e->refund == REFUND_DONE ? "" : cause);
        break;
    case STORY_REVIEW:
        fact(w, e->at_ms, "postgresql", "review", STR_FMT " was opened%s", STR_ARG(e->review), cause);
        break;
    case STORY_RESOLVED:
        fact(w, e->at_ms, "postgresql", "review decided", STR_FMT ": %s%s; " STR_FMT, STR_ARG(e->review), reason_word(e->outcome), cause, STR_ARG(e->detail));
        break;
    case STORY_KINDS:
        break;
    }
}

static void got_story(struct explain_work *w, const struct story_answer *a)
{
    if (a->count == 0)
        return;
    w->explain->known = true;
    if (w->step == STEP_PAYMENT)
        w->explain->kind = "payment";
    for (size_t i = 0; i < a->count; i++)
        story_fact(w, &a->events[i]);
    if (a->count == STORY_MOST) {
        w->explain->complete = false;
        fact(w, a->events[0].at_ms, "postgresql", "more", "what happened before this is not told here");
    }
}

static void got_ledger(struct explain_work *w, const struct ledger_look_answer *a)
{
    char text[64];
    w->explain->known = true;
    if (a->decided || a->has_order) {
        learn(w, &w->user, a->has_order ? a->order.user : a->what.user);
        learn(w, &w->sku, a->what.sku);
        learn(w, &w->request, a->what.request);
        learn(w, &w->reservation, a->what.reservation);
        if (w->token.unit == 0)
            w->token = a->has_order ? a->order.token : a->what.token;
    }
    if (a->decided && a->verdict.superseded_by.len > 0)
        fact(w, a->decided_ms, "postgresql", "superseded", STR_FMT ": " STR_FMT " has the order instead", STR_ARG(a->what.reservation), STR_ARG(a->verdict.superseded_by));
    if (a->decided)
        fact(w, 0, "postgresql", "request", STR_FMT " of " STR_FMT " is reservation " STR_FMT ": %s%s", STR_ARG(a->what.request), STR_ARG(a->what.user), STR_ARG(a->what.reservation),
             reason_word(a->verdict.outcome), because(a->verdict.why, text));
    if (a->has_order)
        order_facts(w, &a->order);
    if (a->parked)
        fact(w, 0, "postgresql", "in review", "a person decides");
}

/* ---- the store -------------------------------------------------------------------------------------------------------------------- */

static bool wanted_entry(const struct explain_work *w, const struct entry *e)
{
    char text[IDENT_ID_TEXT];
    ident_write(e->ident, IDENT_RESERVATION, text);
    if (w->reservation.len > 0)
        return str_eq(w->reservation, (struct str){text, sizeof text});
    return w->request.len > 0 ? str_eq(w->request, e->request) : true;
}

static void entry_facts(struct explain_work *w, const struct entry *e)
{
    char text[TOKEN_TEXT + 1], id[IDENT_ID_TEXT];
    ident_write(e->ident, IDENT_RESERVATION, id);
    w->seen_in_store = w->explain->known = true;
    if (e->created_ms != 0)
        fact(w, e->created_ms, "redis", "reserved", STR_FMT " of request " STR_FMT, STR_ARG(((struct str){id, sizeof id})), STR_ARG(e->request));
    fact(w, e->updated_ms, "redis", "entry", STR_FMT " is %s%s%s, %s%s" STR_FMT, STR_ARG(((struct str){id, sizeof id})), reservation_state_name(e->state),
         e->why != REASON_OK ? " because " : "", e->why != REASON_OK ? reason_word(e->why) : "", token_text(e->token, text),
         e->superseded_by.len > 0 ? ", superseded by " : "", STR_ARG(e->superseded_by));
}

static void got_look(struct explain_work *w, const struct look_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++) {
        const struct entry *e = &answer->entries[i];
        char id[IDENT_ID_TEXT];
        if (!wanted_entry(w, e))
            continue;
        entry_facts(w, e);
        ident_write(e->ident, IDENT_RESERVATION, id);
        if (w->entry_count < ENTRIES_MAX && !str_eq(w->reservation, (struct str){id, sizeof id}))
            w->entries[w->entry_count++] = arena_str(&w->memory, (struct str){id, sizeof id});
    }
    if (answer->count == 0)
        fact(w, 0, "redis", "nothing", "Redis knows no reservation of " STR_FMT, STR_ARG(w->user));
    else if (!w->seen_in_store)
        fact(w, 0, "redis", "nothing", "among what Redis knows of " STR_FMT " this is not", STR_ARG(w->user));
}

static void got_holdings(struct explain_work *w, const struct holdings_answer *answer)
{
    static const char *const places[] = {"free", "resting", "moving", "reserved"};
    for (size_t i = 0; i < answer->count; i++) {
        const struct held *h = &answer->held[i];
        char id[IDENT_ID_TEXT], text[TOKEN_TEXT + 1];
        if (h->holding == HOLDING_RESERVED)
            ident_write(h->ident, IDENT_RESERVATION, id);
        bool ours = h->holding == HOLDING_RESERVED && w->reservation.len > 0 && str_eq(w->reservation, (struct str){id, sizeof id});
        if (!ours && !(w->token.unit > 0 && h->token.unit == w->token.unit))
            continue;
        w->seen_in_store = w->explain->known = true;
        if (h->holding == HOLDING_RESERVED)
            fact(w, h->created_ms, "redis", "reserved", "%s by " STR_FMT " of " STR_FMT ", %s", token_text(h->token, text), STR_ARG(((struct str){id, sizeof id})),
                 STR_ARG(h->user), reservation_state_name(h->state));
        else
            fact(w, 0, "redis", "unit", "%s lies %s in bucket %u", token_text(h->token, text), places[h->holding], w->home);
        if (h->holding == HOLDING_RESERVED)
            learn(w, &w->user, h->user);
    }
    w->cursor = arena_str(&w->memory, answer->cursor);
}

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
    case STEP_ACTIVITIES:
        reason == REASON_OK ? got_activities(w, result) : unknown(w, "postgresql", "activities", reason);
        break;
    case STEP_UNIT:
        reason == REASON_OK ? got_unit(w, result) : unknown(w, "postgresql", "the unit", reason);
        break;
    case STEP_LEDGER:
    case STEP_ENTRIES:
        if (reason == REASON_OK)
            got_ledger(w, result);
        else if (reason == REASON_NOT_FOUND)
            fact(w, 0, "postgresql", "nothing", "PostgreSQL holds no verdict and no order of it");
        else
            unknown(w, "postgresql", "verdict and order", reason);
        break;
    case STEP_STORY:
    case STEP_PAYMENT:
        reason == REASON_OK ? got_story(w, result) : unknown(w, "postgresql", "the story", reason);
        break;
    case STEP_LOOK:
        if (reason == REASON_OK)
            got_look(w, result);
        else
            unknown(w, "redis", reason == REASON_STALE_EPOCH ? "the bucket is not there in this epoch" : "the user's entries", reason);
        break;
    case STEP_HOLDINGS:
        if (reason == REASON_OK) {
            got_holdings(w, result);
        } else {
            w->cursor = (struct str){0};
            unknown(w, "redis", "what the bucket holds", reason);
        }
        break;
    case STEP_END:
        break;
    }
}

static void woken(struct waiter *waiter, enum reason reason, const void *result)
{
    struct explain_work *w = container_of(waiter, struct explain_work, waiter);
    took(w, reason, result);
    if (w->step == STEP_HOLDINGS && w->cursor.len > 0 && ++w->slices < SLICES_MAX && w->memory.used < w->memory.cap - 65536)
        w->step--;    /* the next slice */
    if (w->step == STEP_ENTRIES)
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
    struct story_ask ask = {.limit = STORY_MOST, .activity = w->activity};
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
    case STEP_ACTIVITIES:
        ledger_activities(p->ledger, &w->waiter);
        return true;
    case STEP_UNIT:
        if (!w->activity_known || w->token.unit == 0 || w->reservation.len > 0)
            return false;
        ledger_units(p->ledger, &(struct units_ask){.activity = w->activity, .after = w->token.unit - 1, .bucket = -1, .limit = 1}, &w->waiter);
        return true;
    case STEP_LEDGER:
        return ask_ledger(w);
    case STEP_STORY:
        return ask_story(w);
    case STEP_PAYMENT:    /* a name that says nothing by itself, and is no user's who has anything */
        if (!w->explain->kind || strcmp(w->explain->kind, "user") != 0 || w->explain->known)
            return false;
        ledger_story(p->ledger, &(struct story_ask){.by = STORY_PAYMENT, .id = w->user, .limit = STORY_MOST}, &w->waiter);
        return true;
    case STEP_LOOK:
        if (!w->activity_known || w->user.len == 0 || (w->explain->kind && strcmp(w->explain->kind, "payment") == 0))
            return false;
        store_look(p->store, &(struct look_ask){.bucket = bucket_of(w), .user = w->user}, &w->waiter);
        return true;
    case STEP_ENTRIES:
        if (w->entry_at == w->entry_count)
            return false;
        ledger_look(p->ledger, &(struct ledger_look_ask){.by = LOOK_RESERVATION, .id = w->entries[w->entry_at++]}, &w->waiter);
        return true;
    case STEP_HOLDINGS:
        if (!w->activity_known || (w->seen_in_store && w->token.unit == 0) || (w->reservation.len == 0 && w->token.unit == 0))
            return false;
        store_holdings(p->store, &(struct holdings_ask){.bucket = bucket_of(w), .cursor = w->cursor}, &w->waiter);
        return true;
    case STEP_END:
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
        fact(w, 0, "redis", "nothing", "Redis holds nothing of it now");
    if (!e->known)
        fact(w, 0, "postgresql", "unknown", e->complete ? "no store knows anything of it; what was never written down cannot be told" : "not every part answered");
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
    while (w->step < STEP_END) {
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
    classify(w);
    w->step = STEP_ACTIVITIES;
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "explain_facts.h"

#include <stdarg.h>
#include <stdio.h>

#include "check.h"
#include "money_text.h"

/* ---- facts ------------------------------------------------------------------------------------------------------------------ */

void explain_fact(struct explain_work *w, int64_t at_ms, const char *source, const char *what, const char *format, ...)
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

void explain_unknown(struct explain_work *w, const char *source, const char *what, enum reason why)
{
    w->explain->complete = false;
    explain_fact(w, 0, source, "unknown", "%s: %s", what, reason_word(why));
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
        explain_fact(w, 0, "id", "not ours", "the check of this id fails under our keys: it was made up, or made under other keys");
        return;
    }
    w->number = f.activity;
    w->epoch = f.epoch;
    w->home = f.bucket;
    explain_fact(w, f.made_ms, "id", "made", "for activity number %u, epoch %u, bucket %u", f.activity, f.epoch, f.bucket);
}

void explain_classify(struct explain_work *w)
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

void explain_got_activities(struct explain_work *w, const struct activities_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++) {
        const struct activity *a = &answer->activities[i];
        bool named = w->activity.len > 0 ? str_eq(a->activity, w->activity) : w->number != 0 ? a->number == w->number : holds_unit(a, w->token.unit);
        if (!named)
            continue;
        learn(w, &w->activity, a->activity);
        w->activity_known = true;
        if (w->epoch != 0 && w->epoch != a->epoch)
            explain_fact(w, 0, "postgresql", "epoch", "the activity is in epoch %u now, the id is of epoch %u: Redis was rebuilt since", a->epoch, w->epoch);
        w->epoch = a->epoch;
        w->buckets = a->buckets;
        explain_fact(w, 0, "postgresql", "activity", STR_FMT " (number %u) is %s", STR_ARG(a->activity), a->number, activity_state_name(a->state));
        return;
    }
    if (w->activity.len > 0)
        explain_fact(w, 0, "postgresql", "unknown", "there is no activity " STR_FMT, STR_ARG(w->activity));
    else if (w->number != 0 || w->token.unit > 0)
        explain_fact(w, 0, "postgresql", "unknown", "no activity has this id's number or unit");
    else if (w->reservation.len == 0)
        explain_fact(w, 0, "id", "unknown", "this says nothing of its activity: name it");
}

/* ---- the ledger ----------------------------------------------------------------------------------------------------------------- */

void explain_got_unit(struct explain_work *w, const struct units_answer *answer)
{
    char text[TOKEN_TEXT + 1];
    for (size_t i = 0; i < answer->count; i++) {
        const struct ledger_unit *u = &answer->units[i];
        if (u->token.unit != w->token.unit)
            continue;
        w->explain->known = true;
        w->home = u->home;
        explain_fact(w, 0, "postgresql", "unit", "%s of " STR_FMT ", home bucket %u, %s%s" STR_FMT "%s", token_text(u->token, text), STR_ARG(u->sku), u->home,
                     u->available ? "AVAILABLE" : "CONSUMED", u->reservation.len > 0 ? " by " : "", STR_ARG(u->reservation),
                     u->returning ? ", news of it is still on its way to Redis" : "");
        if (w->token.generation != 0 && w->token.generation != u->token.generation)
            explain_fact(w, 0, "postgresql", "generation", "the id names generation %u, the unit is at %u: it left that reservation", w->token.generation,
                         u->token.generation);
        w->token.generation = u->token.generation;
        if (!u->available)
            learn(w, &w->reservation, u->reservation);
        return;
    }
    explain_fact(w, 0, "postgresql", "unknown", "there is no such unit");
}

/* How it stands; how it came about is the story's. */
static void order_facts(struct explain_work *w, const struct order *o)
{
    if (o->state == ORDER_CREATED && o->pay_deadline_ms != 0)
        explain_fact(w, o->pay_deadline_ms, "postgresql", "pay deadline", "until then it may be paid");
    explain_fact(w, 0, "postgresql", "order", STR_FMT " is %s", STR_ARG(o->order), order_state_name(o->state));
}

static const char *because(enum reason why, char out[64])
{
    snprintf(out, 64, "%s%s", why != REASON_OK ? ", because " : "", why != REASON_OK ? reason_word(why) : "");
    return out;
}

static void story_fact(struct explain_work *w, const struct story_event *e)
{
    char token[TOKEN_TEXT + 1], why[64], amount[MONEY_TEXT];
    const char *unit = token_text(e->token, token), *cause = because(e->why, why), *money = money_text(amount, e->amount, e->currency);
    switch (e->kind) {
    case STORY_DECIDED:
        explain_fact(w, e->at_ms, "postgresql", "verdict", STR_FMT " of " STR_FMT " is %s%s, %s", STR_ARG(e->reservation), STR_ARG(e->user), reason_word(e->outcome), cause, unit);
        break;
    case STORY_CREATED:
        explain_fact(w, e->at_ms, "postgresql", "order created", STR_FMT " for " STR_FMT ", unit %s, %s", STR_ARG(e->order), STR_ARG(e->user), unit, money);
        break;
    case STORY_PAID:
        explain_fact(w, e->at_ms, "postgresql", "order paid", STR_FMT " by payment " STR_FMT, STR_ARG(e->order), STR_ARG(e->payment));
        break;
    case STORY_CANCELED:
        explain_fact(w, e->at_ms, "postgresql", "order canceled", STR_FMT "%s", STR_ARG(e->order), cause);
        break;
    case STORY_CONSUMED:
        explain_fact(w, e->at_ms, "postgresql", "unit taken", "%s by " STR_FMT, unit, STR_ARG(e->reservation));
        break;
    case STORY_RETURNED:
    case STORY_FREED:
        explain_fact(w, e->at_ms, "postgresql", "unit back", "as %s, %s " STR_FMT "%s", unit, e->kind == STORY_FREED ? "from the order of" : "unsold by", STR_ARG(e->reservation), cause);
        break;
    case STORY_RAISED:
        explain_fact(w, e->at_ms, "postgresql", "unit raised", "to %s%s", unit, cause);
        break;
    case STORY_RESTOCKED:
        explain_fact(w, e->at_ms, "postgresql", "on sale again", "%s was given back to Redis", unit);
        break;
    case STORY_PAYMENT_HEARD:
        explain_fact(w, e->at_ms, "postgresql", "payment", STR_FMT " of " STR_FMT ": %s, %s%s" STR_FMT ": %s%s", STR_ARG(e->payment), STR_ARG(e->order), payment_result_name(e->result),
                     money, e->detail.len > 0 ? " by " : "", STR_ARG(e->detail), reason_word(e->outcome), cause);
        break;
    case STORY_REFUND:
        explain_fact(w, e->at_ms, "postgresql", "refund", "of " STR_FMT ", %s: %s%s", STR_ARG(e->payment), money,
                     e->refund == REFUND_DONE ? "DONE, given back" : "REQUESTED", e->refund == REFUND_DONE ? "" : cause);
        break;
    case STORY_REVIEW:
        explain_fact(w, e->at_ms, "postgresql", "review", STR_FMT " was opened%s", STR_ARG(e->review), cause);
        break;
    case STORY_RESOLVED:
        explain_fact(w, e->at_ms, "postgresql", "review decided", STR_FMT ": %s%s; " STR_FMT, STR_ARG(e->review), reason_word(e->outcome), cause, STR_ARG(e->detail));
        break;
    case STORY_KINDS:
        break;
    }
}

void explain_got_story(struct explain_work *w, const struct story_answer *a)
{
    if (a->count == 0)
        return;
    w->explain->known = true;
    if (w->step == EXPLAIN_PAYMENT)
        w->explain->kind = "payment";
    for (size_t i = 0; i < a->count; i++)
        story_fact(w, &a->events[i]);
    if (a->count == EXPLAIN_STORY_MOST) {
        w->explain->complete = false;
        explain_fact(w, a->events[0].at_ms, "postgresql", "more", "what happened before this is not told here");
    }
}

void explain_got_ledger(struct explain_work *w, const struct ledger_look_answer *a)
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
        explain_fact(w, a->decided_ms, "postgresql", "superseded", STR_FMT ": " STR_FMT " has the order instead", STR_ARG(a->what.reservation), STR_ARG(a->verdict.superseded_by));
    if (a->decided)
        explain_fact(w, 0, "postgresql", "request", STR_FMT " of " STR_FMT " is reservation " STR_FMT ": %s%s", STR_ARG(a->what.request), STR_ARG(a->what.user), STR_ARG(a->what.reservation),
                     reason_word(a->verdict.outcome), because(a->verdict.why, text));
    if (a->has_order)
        order_facts(w, &a->order);
    if (a->parked)
        explain_fact(w, 0, "postgresql", "in review", "a person decides");
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
        explain_fact(w, e->created_ms, "redis", "reserved", STR_FMT " of request " STR_FMT, STR_ARG(((struct str){id, sizeof id})), STR_ARG(e->request));
    explain_fact(w, e->updated_ms, "redis", "entry", STR_FMT " is %s%s%s, %s%s" STR_FMT, STR_ARG(((struct str){id, sizeof id})), reservation_state_name(e->state),
                 e->why != REASON_OK ? " because " : "", e->why != REASON_OK ? reason_word(e->why) : "", token_text(e->token, text),
                 e->superseded_by.len > 0 ? ", superseded by " : "", STR_ARG(e->superseded_by));
}

void explain_got_look(struct explain_work *w, const struct look_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++) {
        const struct entry *e = &answer->entries[i];
        char id[IDENT_ID_TEXT];
        if (!wanted_entry(w, e))
            continue;
        entry_facts(w, e);
        ident_write(e->ident, IDENT_RESERVATION, id);
        if (w->entry_count < EXPLAIN_ENTRIES_MAX && !str_eq(w->reservation, (struct str){id, sizeof id}))
            w->entries[w->entry_count++] = arena_str(&w->memory, (struct str){id, sizeof id});
    }
    if (answer->count == 0)
        explain_fact(w, 0, "redis", "nothing", "Redis knows no reservation of " STR_FMT, STR_ARG(w->user));
    else if (!w->seen_in_store)
        explain_fact(w, 0, "redis", "nothing", "among what Redis knows of " STR_FMT " this is not", STR_ARG(w->user));
}

void explain_got_holdings(struct explain_work *w, const struct holdings_answer *answer)
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
            explain_fact(w, h->created_ms, "redis", "reserved", "%s by " STR_FMT " of " STR_FMT ", %s", token_text(h->token, text), STR_ARG(((struct str){id, sizeof id})),
                         STR_ARG(h->user), reservation_state_name(h->state));
        else
            explain_fact(w, 0, "redis", "unit", "%s lies %s in bucket %u", token_text(h->token, text), places[h->holding], w->home);
        if (h->holding == HOLDING_RESERVED)
            learn(w, &w->user, h->user);
    }
    w->cursor = arena_str(&w->memory, answer->cursor);
}

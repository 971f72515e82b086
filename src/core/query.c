/* SPDX-License-Identifier: Apache-2.0
 * query.c: look at the store → (the ledger, where the store is not enough) → show, or rest and look again. */
#include "query.h"

#include "check.h"
#include "desk.h"
#include "message.h"

#define DRESS_MS 300    /* what may be shown without is not waited for longer */

struct query_options query_options_default(void)
{
    return (struct query_options){.queries = 20000, .store_ms = 200, .ledger_ms = 1000, .doubt_ms = 2000, .fall_back_ms = 60000, .wait_ms = 25000,
                                  .look_first_ms = 60, .look_most_ms = 1000, .expires_ms = 45000, .dress_most = 100, .lost_ms = 60000, .lost_most = 100};
}

static bool look(struct query *);

static void answer(struct query *q, enum reason reason)
{
    q->reason = reason;
    verdict_watch_remove(&q->desk->watch, &q->watched);
    q->desk->queries--;
    q->desk = NULL;
}

static void finish(struct query *q, enum reason reason)
{
    answer(q, reason);
    q->done(q);
}

/* ---- resting between two looks -------------------------------------------------------------------------------------------- */

static void rested(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct query *q = container_of(container_of(w, struct alarm, waiter), struct query, alarm);
    if (look(q))
        q->done(q);
}

/* Whether the client is willing to wait any longer. */
static bool may_wait(const struct query *q) { return clock_mono_us(q->desk->clock) < q->until_us && !q->desk->draining; }

/* Looks again a little later; false: the client waits no longer. */
static bool look_later(struct query *q)
{
    struct desk *d = q->desk;
    if (!may_wait(q))
        return false;
    uint64_t now = clock_mono_us(d->clock), rest = (uint64_t)q->pause_ms * 1000;
    rest = rest / 2 + random_below(d->random, rest) + 1;
    q->pause_ms = q->pause_ms * 3 / 2 < d->options.query.look_most_ms ? q->pause_ms * 3 / 2 : d->options.query.look_most_ms;
    clock_set(d->clock, &q->alarm, now + rest < q->until_us ? now + rest : q->until_us);
    if (q->known) {
        q->watched.ident = q->entry.ident;
        verdict_watch_add(&d->watch, &q->watched);
    }
    return true;
}

/* The ledger has a verdict that the store has not been told: the next look is now, and asks the ledger. */
static void decided(struct verdict_watch_item *item)
{
    struct query *q = container_of(item, struct query, watched);
    q->confirm = true;
    if (q->alarm.place != 0)
        clock_set(q->desk->clock, &q->alarm, clock_mono_us(q->desk->clock));
}

/* Answers, or, where the client is willing to wait and nothing has changed yet, looks again a little later. What cannot be read now is no reason to end. */
static void conclude(struct query *q, enum reason reason)
{
    bool first = !q->looked, good = reason == REASON_OK;
    bool news = good && (first ? reservation_state_terminal(q->view.status) : q->view.status != q->seen);
    if (first && good)
        q->seen = q->view.status;
    q->looked |= good || reason == REASON_NOT_FOUND;
    if (news || (first && reason == REASON_NOT_FOUND) || !look_later(q))
        finish(q, reason);
}

/* ---- what is shown --------------------------------------------------------------------------------------------------------- */

/* 500 ms, then 1 s, then 2 s (mission §12.11). */
static uint32_t poll_after(int64_t age_ms) { return age_ms < 1000 ? 500 : age_ms < 5000 ? 1000 : 2000; }

static struct str name(char *memory, struct ident ident, enum ident_kind kind)
{
    ident_write(ident, kind, memory);
    return (struct str){memory, IDENT_ID_TEXT};
}

static void show(struct query *q, const struct entry *e, struct str activity)
{
    struct desk *d = q->desk;
    struct arena a = {.start = q->memory, .cap = sizeof q->memory};
    char rsv[IDENT_ID_TEXT], ord[IDENT_ID_TEXT];
    bool ordered = e->state == RESERVATION_ORDERED;
    q->view = (struct reservation_view){
        .reservation = arena_str(&a, name(rsv, e->ident, IDENT_RESERVATION)),
        .request = arena_str(&a, e->request), .activity = arena_str(&a, activity), .sku = arena_str(&a, e->sku), .status = e->state, .why = e->why,
        .order = ordered ? arena_str(&a, name(ord, e->ident, IDENT_ORDER)) : (struct str){0}, .superseded_by = arena_str(&a, e->superseded_by),
        .expires_ms = e->created_ms + d->options.query.expires_ms, .updated_ms = e->updated_ms,
        .poll_after_ms = reservation_state_terminal(e->state) ? 0 : poll_after(clock_now_ms(d->clock) - e->created_ms)};
    check(q->view.request.len == e->request.len && q->view.sku.len == e->sku.len && q->view.superseded_by.len == e->superseded_by.len);
    if (e->why == REASON_LOST)
        q->view.request = q->view.sku = (struct str){0};    /* what it was for, nobody knows: its row names no more than has to be there */
}

static const struct activity *activity_asked(const struct query *q)
{
    const struct catalog *c = &q->desk->catalog;
    return q->by == QUERY_REQUEST ? catalog_find(c, q->activity) : catalog_by_number(c, ident_read(q->ident).activity);
}

static struct str activity_of(const struct query *q)
{
    const struct activity *a = activity_asked(q);
    return q->by == QUERY_REQUEST ? q->activity : a ? a->activity : (struct str){0};
}

/* Where the user's entries are: in the present epoch, or, of an activity that is not known here, where the reservation was made. */
static uint16_t number_of(const struct query *q)
{
    const struct activity *a = activity_asked(q);
    return a ? a->number : ident_read(q->ident).activity;
}

static uint8_t bucket_of(const struct query *q)
{
    const struct activity *a = activity_asked(q);
    return a ? user_bucket(q->hash, a->buckets) : ident_read(q->ident).bucket;
}

/* The store is not to be believed alone for a while. Not because of a sale that is not open: its buckets may not be there yet, or not any more, and those of the
 * others are what they were. */
static void doubt(struct query *q)
{
    const struct activity *a = activity_asked(q);
    if (a ? a->state == ACTIVITY_OPEN || a->state == ACTIVITY_PAUSED || a->state == ACTIVITY_WARM : !catalog_learnt(&q->desk->catalog))
        desk_doubt(q->desk, number_of(q), bucket_of(q));
}

static bool in_doubt(const struct query *q) { return desk_in_doubt(q->desk, number_of(q), bucket_of(q)); }

/* What the store said, as it said it, or as unknown. */
static void show_store(struct query *q, bool unknown)
{
    struct entry e = q->entry;
    if (unknown)
        e.state = RESERVATION_RECONCILING;
    show(q, &e, activity_of(q));
    conclude(q, REASON_OK);
}

/* The id is one of ours and his, and nobody knows of it (yet). */
static void show_nothing(struct query *q)
{
    int64_t made = ident_read(q->ident).made_ms;
    struct entry e = {.ident = q->ident, .state = RESERVATION_RECONCILING, .why = REASON_OK, .created_ms = made, .updated_ms = made};
    show(q, &e, activity_of(q));
    conclude(q, REASON_OK);
}

static void show_verdict(struct query *q)
{
    const struct verdict_ask *v = &q->verdict;
    const struct query_options *o = &q->desk->options.query;
    /* Not told to the store, and so young that another reader would still believe the store: not shown yet. */
    int64_t age = clock_now_ms(q->desk->clock) - v->entry.created_ms;
    bool doubted = in_doubt(q);
    if (!v->told)
        doubt(q);
    if (!v->told && age < (int64_t)o->doubt_ms + 1000) {
        if (q->known && !doubted)
            show_store(q, false);
        else
            conclude(q, REASON_DEPENDENCY_DOWN);    /* no state at all: he may have seen the verdict already */
        return;
    }
    show(q, &v->entry, v->what.activity);
    q->view.has_order = v->has_order;
    q->view.order_state = v->order.state;
    q->view.pay_deadline_ms = v->order.pay_deadline_ms;
    conclude(q, REASON_OK);
}

/* ---- the ledger ------------------------------------------------------------------------------------------------------------ */

static void give_up(struct query *q, const struct activity *a);
static void ask_backlog(struct query *q);

/* Whether it may happen once more within this second. */
static bool once_more(struct query *q, struct allowance *a, uint32_t most) { return allowance_take(a, most, most, clock_mono_us(q->desk->clock)); }

/* Whether the ledger may be read for this look. Queries that go on waiting have little of it: their verdicts come through the store. */
static bool may_look(struct query *q)
{
    struct desk *d = q->desk;
    bool answers = !may_wait(q) && !q->follows;
    if (q->confirm)
        return true;
    if (q->known && may_wait(q) && verdict_watched(&q->watched) && !in_doubt(q))
        return false;
    return answers ? desk_may(d, &d->answer_looks, d->options.answer_looks) : desk_may(d, &d->waiting_looks, d->options.waiting_looks);
}

/* Both have answered, neither knows it, and the store is one that remembers. One that was made for another bucket
 * than his is another's, whose mark is like his (one in 65,536). */
static bool is_lost(struct query *q, const struct activity *a)
{
    struct desk *d = q->desk;
    struct ident_fields f = ident_read(q->ident);
    return q->by == QUERY_RESERVATION && !q->given_up && a && a->sku_count > 0 && f.epoch == a->epoch && f.bucket == user_bucket(q->hash, a->buckets) &&
           incarnation_of(&d->guard, a, f.bucket) == INCARNATION_KNOWN && once_more(q, &d->given_up, d->options.query.lost_most);
}

/* In review and not decided: its message could not be taken, and a person will say what becomes of it. */
static bool show_parked(struct query *q)
{
    const struct create_order *m = &q->verdict.what;
    struct entry e = {.state = RESERVATION_MANUAL_REVIEW, .why = REASON_OK, .request = m->request, .sku = m->sku, .created_ms = m->created_ms, .updated_ms = m->created_ms};
    if (!ident_parse(m->reservation, IDENT_RESERVATION, &e.ident))
        return false;
    show(q, &e, activity_of(q));
    conclude(q, REASON_OK);
    return true;
}

static void ledger_said(struct verdict_ask *v, enum reason reason)
{
    struct query *q = container_of(v, struct query, verdict);
    q->confirm = false;
    const struct activity *a = activity_asked(q);
    bool asked = reason == REASON_OK || reason == REASON_NOT_FOUND;
    /* The store keeps every ORDERED entry (of RELEASED ones the last few): it has forgotten, and may have forgotten more. */
    if (reason == REASON_OK && v->decided && v->entry.state == RESERVATION_ORDERED && !q->known)
        doubt(q);
    if (reason == REASON_OK && v->what.user.len > 0 && !str_eq(v->what.user, q->user))
        finish(q, REASON_NOT_FOUND);
    else if (reason == REASON_OK && v->decided)
        show_verdict(q);
    else if (!asked && look_later(q))
        return;
    else if (q->known && (asked || !in_doubt(q)))
        show_store(q, !asked);
    else if (!asked || q->store_failed)
        conclude(q, REASON_DEPENDENCY_DOWN);
    else if (reason == REASON_OK && show_parked(q))
        return;
    else if (q->by == QUERY_REQUEST)
        ask_backlog(q);
    else if (reason == REASON_NOT_FOUND && is_lost(q, a))
        give_up(q, a);
    else
        show_nothing(q);
}

static void order_said(struct verdict_ask *v, enum reason reason)
{
    struct query *q = container_of(v, struct query, verdict);
    if (reason != REASON_OK && reason != REASON_NOT_FOUND) {
        finish(q, REASON_DEPENDENCY_DOWN);
        return;
    }
    if (reason == REASON_NOT_FOUND || !v->has_order || !str_eq(v->order.user, q->user)) {
        finish(q, REASON_NOT_FOUND);
        return;
    }
    q->order = v->order;    /* its texts stay in q->verdict */
    finish(q, REASON_OK);
}

static void order_seen(struct verdict_ask *v, const struct ledger_look_answer *a)
{
    struct query *q = container_of(v, struct query, verdict);
    if (q->payments && a->has_order && str_eq(a->order.user, q->user))
        q->payments(q, a->payments, a->payment_count);
}

/* The store has said ORDERED; how its order stands is told as well, where the ledger says it. */
static void dressed(struct verdict_ask *v, enum reason reason)
{
    struct query *q = container_of(v, struct query, verdict);
    bool good = reason == REASON_OK && v->has_order && str_eq(v->order.user, q->user);
    struct entry e = q->entry;
    show(q, &e, activity_of(q));
    q->view.has_order = good;
    q->view.order_state = good ? v->order.state : ORDER_CREATED;
    q->view.pay_deadline_ms = good ? v->order.pay_deadline_ms : 0;
    conclude(q, REASON_OK);
}

static void ask_ledger(struct query *q, enum look_by by, struct str id, void (*done)(struct verdict_ask *, enum reason))
{
    q->verdict.by = by;
    q->verdict.id = id;
    q->verdict.activity = by == LOOK_REQUEST ? q->activity : (struct str){0};
    q->verdict.user = by == LOOK_REQUEST ? q->user : (struct str){0};    /* else compared here: "not his" and "not known" are two answers */
    q->verdict.budget_ms = done == dressed ? DRESS_MS : q->desk->options.query.ledger_ms;
    q->verdict.quiet = done != ledger_said;
    q->verdict.see = by == LOOK_ORDER ? order_seen : NULL;
    q->verdict.done = done;
    verdict_start(&q->desk->office, &q->verdict);
}

static void gave_up(struct waiter *w, enum reason reason, const void *result)
{
    (void)result;
    struct query *q = container_of(w, struct query, waiter);
    if (reason == REASON_OK)
        ask_ledger(q, LOOK_RESERVATION, q->id, ledger_said);    /* ours, or what another has decided in between */
    else if (reason == REASON_NOT_FOUND)
        conclude(q, REASON_NOT_FOUND);
    else
        show_nothing(q);
}

/* The ledger decides that no order will come of it, once it has been asked long enough and has no message left that could say otherwise. What was asked for is
 * not known: the row bears the activity's first item, and the reservation's own name as its request. */
static void give_up(struct query *q, const struct activity *a)
{
    struct release_lost_ask ask = {.group = str_lit(MESSAGE_GROUP), .reservation = q->id, .activity = a->activity, .sku = a->skus[0].sku, .user = q->user,
                                   .epoch = ident_read(q->ident).epoch, .created_ms = ident_read(q->ident).made_ms, .after_ms = q->desk->options.query.lost_ms};
    q->given_up = true;
    q->waiter = (struct waiter){.wake = gave_up, .budget_ms = q->desk->options.query.ledger_ms};
    ledger_release_lost(q->desk->office.ledger, &ask, &q->waiter);
}

static void backlog_said(struct waiter *w, enum reason reason, const void *result)
{
    struct query *q = container_of(w, struct query, waiter);
    const struct backlog_answer *a = result;
    conclude(q, reason != REASON_OK ? REASON_DEPENDENCY_DOWN : a->unread ? REASON_REQUEST_UNDECIDED : REASON_NOT_FOUND);
}

/* Neither knows the request. It is "not found" only where no message is left that could make an order of it. */
static void ask_backlog(struct query *q)
{
    q->waiter = (struct waiter){.wake = backlog_said, .budget_ms = q->desk->options.query.ledger_ms};
    ledger_backlog(q->desk->office.ledger, &(struct backlog_ask){.group = str_lit(MESSAGE_GROUP), .activity = q->activity}, &q->waiter);
}

/* That the store does not know a name is no sign of trouble: anybody may ask for what never was. Nor is that it did not answer: a verdict that is shown is told to
 * it first, and where that fails its bucket is doubted (show_verdict). */
static void fall_back(struct query *q)
{
    ask_ledger(q, q->by == QUERY_REQUEST ? LOOK_REQUEST : LOOK_RESERVATION, q->id, ledger_said);
}

/* ---- the store ------------------------------------------------------------------------------------------------------------- */

/* The entry that answers: the one named, or of the entries of one request ORDERED first, then undecided, then RELEASED. */
static const struct entry *choose(const struct query *q, const struct look_answer *a)
{
    const struct entry *best = NULL;
    int best_worth = 0;
    for (size_t i = 0; i < a->count; i++) {
        const struct entry *e = &a->entries[i];
        if (q->by == QUERY_REQUEST ? !str_eq(e->request, q->id) : !ident_eq(e->ident, q->ident))
            continue;
        int worth = e->state == RESERVATION_ORDERED ? 3 : e->state == RESERVATION_RELEASED ? 1 : 2;
        if (worth > best_worth) {
            best = e;
            best_worth = worth;
        }
    }
    return best;
}

/* A store that may have forgotten, or has: what it holds undecided may be decided long since, and that it holds nothing means nothing. True: it is such a one. */
static bool doubt_store(struct query *q, const struct look_answer *said)
{
    struct desk *d = q->desk;
    const struct activity *a = activity_asked(q);
    if (!a)
        return false;
    uint8_t bucket = bucket_of(q);
    bool back = said && !incarnation_answered(&d->guard, a, bucket, q->heard, said->sequence, false);
    bool forgot = back || incarnation_of(&d->guard, a, bucket) == INCARNATION_STRANGER;
    if (forgot)
        desk_doubt(d, a->number, bucket);
    return forgot;
}

/* The ledger may not be read now: the client keeps waiting, or is told so. */
static void show_unconfirmed(struct query *q)
{
    if (!q->looked)
        q->seen = q->entry.state;
    q->looked = true;
    if (look_later(q))
        return;
    if (q->follows)
        finish(q, REASON_UNCHANGED);
    else if (in_doubt(q))
        finish(q, REASON_OVERLOADED);
    else
        show_store(q, true);
}

static void store_said(struct waiter *w, enum reason reason, const void *result)
{
    struct query *q = container_of(w, struct query, waiter);
    const struct look_answer *a = result;
    bool forgot = doubt_store(q, reason == REASON_OK ? a : NULL);
    const struct entry *e = reason == REASON_OK ? choose(q, a) : NULL;
    const struct activity *of = activity_asked(q);
    bool unborn = reason == REASON_STALE_EPOCH && of && of->state == ACTIVITY_DRAFT && q->refreshed && !q->unread;
    q->store_failed = (reason != REASON_OK && !unborn) || forgot;    /* a draft has no bucket: that nobody has anything of it is certain */
    q->known = e != NULL;
    if (!e && !may_look(q)) {
        conclude(q, REASON_OVERLOADED);
        return;
    }
    if (!e) {
        fall_back(q);
        return;
    }
    struct arena keep = {.start = q->kept, .cap = sizeof q->kept};
    q->entry = *e;
    q->entry.request = arena_str(&keep, e->request);
    q->entry.sku = arena_str(&keep, e->sku);
    q->entry.superseded_by = arena_str(&keep, e->superseded_by);
    int64_t now = a->now_ms != 0 ? a->now_ms : clock_now_ms(q->desk->clock);
    bool old = now - e->created_ms >= (int64_t)q->desk->options.query.doubt_ms;
    if (e->state == RESERVATION_ORDERED && once_more(q, &q->desk->dressed, q->desk->options.query.dress_most)) {
        char text[IDENT_ID_TEXT];
        ask_ledger(q, LOOK_RESERVATION, name(text, e->ident, IDENT_RESERVATION), dressed);
    } else if (reservation_state_terminal(e->state) || !(old || q->confirm || in_doubt(q))) {
        show_store(q, false);
    } else if (!may_look(q)) {
        show_unconfirmed(q);
    } else {
        ask_ledger(q, q->by == QUERY_REQUEST ? LOOK_REQUEST : LOOK_RESERVATION, q->id, ledger_said);
    }
}

static void refreshed(struct catalog_wait *w, enum reason reason)
{
    struct query *q = container_of(w, struct query, catalog);
    q->unread = reason != REASON_OK;
    if (look(q))
        q->done(q);
}

/* true: answered without asking. */
static bool look(struct query *q)
{
    struct desk *d = q->desk;
    q->known = q->store_failed = false;
    if (q->by == QUERY_ORDER) {
        ask_ledger(q, LOOK_ORDER, q->id, order_said);
        return false;
    }
    const struct activity *a = activity_asked(q);
    if (!q->refreshed && catalog_may_lag(&d->catalog, a)) {    /* created or opened a moment ago, or settled long ago */
        q->catalog = (struct catalog_wait){.done = refreshed};
        q->refreshed = catalog_look_up(&d->catalog, q->by == QUERY_REQUEST ? q->activity : (struct str){0}, number_of(q), &q->catalog);
        if (q->refreshed || look_later(q))
            return false;
        answer(q, REASON_OVERLOADED);
        return true;
    }
    if (!a && q->by == QUERY_REQUEST) {
        bool unread = !q->refreshed || q->unread || !catalog_learnt(&d->catalog);
        if (unread && look_later(q))
            return false;
        answer(q, unread ? REASON_DEPENDENCY_DOWN : REASON_NOT_FOUND);
        return true;
    }
    if (!a && !may_look(q)) {
        if (look_later(q))
            return false;
        answer(q, REASON_OVERLOADED);
        return true;
    }
    if (!a) {    /* we know too little to ask the store */
        q->store_failed = true;
        fall_back(q);
        return false;
    }
    struct look_ask ask = {.bucket = {a->activity, a->epoch, user_bucket(q->hash, a->buckets)}, .user = q->user};
    q->heard = incarnation_ask(&d->guard, a, ask.bucket.number);
    q->waiter = (struct waiter){.wake = store_said, .budget_ms = d->options.query.store_ms};
    store_look(d->store, &ask, &q->waiter);
    return false;
}

/* Names we never made, and other people's, are refused without a look-up. */
static bool plausible(const struct desk *d, struct query *q)
{
    if (!str_is_id(q->user) || !str_is_id(q->id))
        return false;
    if (q->by == QUERY_REQUEST)
        return str_is_id(q->activity);
    return ident_parse(q->id, q->by == QUERY_ORDER ? IDENT_ORDER : IDENT_RESERVATION, &q->ident) && ident_ours(d->keys, q->ident) &&
           ident_of_user(q->ident, q->hash);
}

bool query_start(struct desk *d, struct query *q)
{
    const struct query_options *o = &d->options.query;
    uint32_t wait = q->wait_ms < o->wait_ms ? q->wait_ms : o->wait_ms;
    q->desk = NULL;
    q->looked = q->refreshed = q->unread = q->given_up = q->known = q->confirm = false;
    q->watched.decided = decided;
    list_init(&q->watched.link);
    q->catalog = (struct catalog_wait){0};
    q->view = (struct reservation_view){.why = REASON_OK};
    q->hash = user_hash(d->keys, q->user);
    q->pause_ms = o->look_first_ms;
    q->until_us = clock_mono_us(d->clock) + (uint64_t)wait * 1000;
    q->alarm = (struct alarm){.waiter.wake = rested};
    q->reason = !plausible(d, q) ? REASON_NOT_FOUND : d->queries >= o->queries ? REASON_OVERLOADED : REASON_OK;
    if (q->reason != REASON_OK)
        return true;
    q->desk = d;
    d->queries++;
    return look(q);
}

void query_let_go(struct query *q)
{
    struct desk *d = q->desk;
    if (!d)
        return;
    waiter_drop(&q->waiter);
    clock_unset(d->clock, &q->alarm);
    verdict_watch_remove(&d->watch, &q->watched);
    catalog_let_go(&q->catalog);
    verdict_let_go(&q->verdict);
    d->queries--;
    q->desk = NULL;
}

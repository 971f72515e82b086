/* SPDX-License-Identifier: Apache-2.0
 * reservation.c: ask_store → (a refresh and once more | the ledger and once more) → answer: announce, hold or say. `desk` is set while a take is
 * under way and cleared before its owner hears. */
#include "reservation.h"

#include "check.h"
#include "killpoint.h"
#include "metric.h"

static bool ask_store(struct take *);
static bool refresh(struct take *);

static bool answer(struct take *t, enum reason reason)
{
    struct desk *d = t->desk;
    t->reason = reason;
    t->has_entry = reason == REASON_QUEUED || reason == REASON_ORDERED || reason == REASON_RELEASED || reason == REASON_ALREADY_PURCHASED;
    t->poll_after_ms = reason == REASON_QUEUED || reason == REASON_UNCERTAIN ? d->options.poll_after_ms : 0;
    d->takes--;
    t->desk = NULL;
    return true;
}

static void finish(struct take *t, enum reason reason)
{
    answer(t, reason);
    t->done(t);
}

/* What a buyer hears of the store's words that need nothing more. What the port does not name is told by its fate: a unit may have been taken,
 * or surely was not. */
static enum reason told(enum reason reason)
{
    switch (reason) {
    case REASON_NOT_STARTED:
    case REASON_IDEMPOTENCY_CONFLICT:
    case REASON_QUALIFICATION_INVALID:
    case REASON_UNKNOWN_ACTIVITY:
    case REASON_OVERLOADED:
        return reason;
    case REASON_STALE_EPOCH:
        return REASON_RESERVATION_PAUSED;
    default:
        return reason_fate(reason) == FATE_UNKNOWN || reason_fate(reason) == FATE_DONE ? REASON_UNCERTAIN : REASON_DEPENDENCY_DOWN;
    }
}

static void keep_entry(struct take *t, const struct entry *e)
{
    struct arena a = {.start = t->memory, .cap = sizeof t->memory};
    t->entry = *e;
    t->entry.request = arena_str(&a, e->request);
    t->entry.sku = arena_str(&a, e->sku);
    t->entry.superseded_by = arena_str(&a, e->superseded_by);
    check(t->entry.request.len == e->request.len && t->entry.sku.len == e->sku.len && t->entry.superseded_by.len == e->superseded_by.len);
}

/* ---- an undecided answer that may be behind the ledger ------------------------------------------------------------------- */

/* The ledger's verdict on this request, as the take's answer. */
static enum reason verdict_reason(struct take *t)
{
    if (!str_eq(t->verdict.entry.sku, t->sku))
        return REASON_IDEMPOTENCY_CONFLICT;
    keep_entry(t, &t->verdict.entry);
    t->replayed = true;
    return t->entry.state == RESERVATION_ORDERED ? REASON_ORDERED : REASON_RELEASED;
}

/* The user's bucket as it was when the store was asked: of another epoch it bears the same number, and one doubt too many costs a read. */
static uint16_t number_of(const struct take *t)
{
    const struct activity *a = catalog_find(&t->desk->catalog, t->activity);
    return a ? a->number : 0;
}
static void add_doubt(struct take *t) { desk_doubt(t->desk, number_of(t), t->bucket.number); }
static bool in_doubt(struct take *t) { return desk_in_doubt(t->desk, number_of(t), t->bucket.number); }
static bool may_look(struct take *t) { return desk_may(t->desk, &t->desk->take_looks, t->desk->options.take_looks); }

/* Shown only once the store holds it, or when it is so old that every other reader asks the ledger too. What cannot be confirmed is said as
 * unknown; where answers have come from the ledger lately, without a state at all, for the buyer may have seen a later one. */
static void confirmed(struct verdict_ask *v, enum reason reason)
{
    struct take *t = container_of(v, struct take, verdict);
    struct desk *d = t->desk;
    bool asked = reason == REASON_OK || reason == REASON_NOT_FOUND, doubt = in_doubt(t), untold = false;
    if (reason == REASON_OK && v->decided) {
        untold = !v->told;
        bool old = clock_now_ms(d->clock) - v->entry.created_ms >= (int64_t)d->options.query.doubt_ms + 1000;
        if (!v->told)
            add_doubt(t);
        if (v->told || old) {
            finish(t, verdict_reason(t));
            return;
        }
    }
    if (!asked)
        t->entry.state = RESERVATION_RECONCILING;
    finish(t, (!asked || untold) && doubt ? REASON_UNCERTAIN : REASON_QUEUED);
}

static void ask_ledger(struct take *t, void (*done)(struct verdict_ask *, enum reason))
{
    t->verdict.by = LOOK_REQUEST;
    t->verdict.id = t->request;
    t->verdict.activity = t->activity;
    t->verdict.user = t->user;
    t->verdict.budget_ms = t->desk->options.ledger_ms;
    t->verdict.quiet = false;
    t->verdict.done = done;
    verdict_start(&t->desk->office, &t->verdict);
}

/* What cannot be confirmed is said as unknown; in doubt without a state at all, for the buyer may have seen a later one. */
static void finish_unconfirmed(struct take *t)
{
    t->entry.state = RESERVATION_RECONCILING;
    finish(t, in_doubt(t) ? REASON_UNCERTAIN : REASON_QUEUED);
}

/* QUEUED, unless the ledger knows better: an old reservation, or any of a bucket in doubt. */
static void queued(struct take *t)
{
    if (!t->old && !in_doubt(t))
        finish(t, REASON_QUEUED);
    else if (may_look(t))
        ask_ledger(t, confirmed);
    else
        finish_unconfirmed(t);
}

/* ---- a new reservation ---------------------------------------------------------------------------------------------------- */

static void announced(struct publish_wait *w, enum reason reason)
{
    struct take *t = container_of(w, struct take, publish);
    if (reason == REASON_OK)
        t->entry.state = RESERVATION_PUBLISHED;
    queued(t);
}

static void announce(struct take *t)
{
    struct publish_ask ask = {.bucket = t->bucket, .user = t->user, .entry = &t->entry, .trace = t->trace};
    t->publish = (struct publish_wait){.done = announced};
    if (!publish_start(&t->desk->publisher, &ask, &t->publish))
        queued(t);
}

/* ---- what the store says --------------------------------------------------------------------------------------------------- */

static void held(struct soldout_wait *w, enum reason reason)
{
    finish(container_of(w, struct take, soldout), reason);
}

/* Somebody saw the end of stock, of the sale, or a pause: the process finds out about all buckets; who found no unit waits for it. */
static void hold(struct take *t, bool wait, enum reason otherwise)
{
    const struct activity *a = catalog_find(&t->desk->catalog, t->activity);
    if (a && wait) {
        t->soldout = (struct soldout_wait){.done = held};
        soldout_hold(&t->desk->soldout, a, t->sku_at, &t->soldout);
        return;
    }
    if (a)
        soldout_hold(&t->desk->soldout, a, t->sku_at, NULL);
    finish(t, otherwise);
}

static void again(struct take *t)
{
    clock_unset(t->desk->clock, &t->alarm);
    if (ask_store(t))
        t->done(t);
}

/* ---- a store that may have forgotten (protocol §2) ------------------------------------------------------------------------- */

/* It takes nothing new. Perhaps it is only we who do not know that it was warmed or healed: nothing is closed before the ledger has answered, for who does not
 * hear the ledger would close what others have healed. Once it is closed the ledger is asked no oftener than five times a second. */
static void closed(struct take *t)
{
    struct desk *d = t->desk;
    const struct activity *a = catalog_find(&d->catalog, t->activity);
    bool old = clock_mono_us(d->clock) - d->catalog.learnt_us > 200000, shut = a && incarnation_closed(&d->guard, a, t->bucket.number);
    if (t->server != INCARNATION_KNOWN && !t->refreshed && (old || !shut) && d->catalog.running && refresh(t))
        return;
    bool unknown = a && t->server == INCARNATION_UNHEARD && old;    /* none was ever learnt, and the ledger does not answer */
    if (a && t->server != INCARNATION_KNOWN && !unknown && !t->unread)
        incarnation_close(&d->guard, a, t->bucket.number);
    add_doubt(t);
    finish(t, unknown ? REASON_DEPENDENCY_DOWN : REASON_UNCERTAIN);
}

/* What a store says that is not to be believed is told where it is the user's own, and confirmed with the ledger. What it says beside that (that a unit was
 * taken, that another reservation stands, that nothing is left, that it is too early or too late for who has nothing here: he may have an order) may be a
 * thing of the past: nobody knows. */
static bool believed(struct take *t, enum reason reason, const struct reserve_answer *r)
{
    struct desk *d = t->desk;
    const struct activity *a = r ? catalog_find(&d->catalog, t->activity) : NULL;
    bool back = a && a->epoch == t->bucket.epoch && reason != REASON_STALE_EPOCH &&
                !incarnation_answered(&d->guard, a, t->bucket.number, t->seen, r->sequence, true);
    if (!back && t->server != INCARNATION_STRANGER)
        return true;
    add_doubt(t);
    bool rumour = (reason == REASON_QUEUED && !r->replayed) || reason == REASON_ALREADY_PURCHASED || reason == REASON_BUCKET_EMPTY ||
                  reason == REASON_ENDED || reason == REASON_RESERVATION_PAUSED || reason == REASON_NOT_STARTED || reason == REASON_QUALIFICATION_INVALID;
    if (!rumour)
        return true;
    finish(t, REASON_UNCERTAIN);
    return false;
}

static void refreshed(struct catalog_wait *w, enum reason reason)
{
    struct take *t = container_of(w, struct take, catalog);
    t->unread = reason != REASON_OK;
    again(t);
}

static void refresh_late(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct take *t = container_of(container_of(w, struct alarm, waiter), struct take, alarm);
    catalog_let_go(&t->catalog);
    t->unread = true;
    again(t);
}

/* Reads the activities again, with this one among them. False: too many others are being looked up. */
static bool refresh(struct take *t)
{
    t->refreshed = true;
    t->catalog = (struct catalog_wait){.done = refreshed};
    if (!catalog_look_up(&t->desk->catalog, t->activity, 0, &t->catalog))
        return false;
    t->alarm = (struct alarm){.waiter.wake = refresh_late};
    clock_set_in(t->desk->clock, &t->alarm, (uint64_t)t->desk->options.refresh_ms * 1000);
    return true;
}

static void ledger_said(struct verdict_ask *v, enum reason reason)
{
    struct take *t = container_of(v, struct take, verdict);
    if (reason == REASON_OK && v->decided)
        finish(t, verdict_reason(t));
    else if (reason == REASON_NOT_FOUND || reason == REASON_OK)
        again(t);
    else
        finish(t, REASON_DEPENDENCY_DOWN);    /* nothing was taken */
}

static void reserved(struct take *t, const struct reserve_answer *r)
{
    KILLPOINT(RESERVE_ANSWERED);
    keep_entry(t, &r->entry);
    t->replayed = r->replayed;
    t->old = r->replayed && r->now_ms - r->entry.created_ms > (int64_t)t->desk->options.query.doubt_ms;
    if (r->replayed)
        queued(t);
    else
        announce(t);
}

static void store_said(struct waiter *w, enum reason reason, const void *result)
{
    struct take *t = container_of(w, struct take, waiter);
    const struct reserve_answer *r = result;
    metric_add(METRIC_RESERVATIONS, reason, 1);
    metric_observe(METRIC_RESERVE_SECONDS, clock_mono_us(t->desk->clock) - t->asked_us);
    if (!believed(t, reason, r))
        return;
    switch (reason) {
    case REASON_QUEUED:
        reserved(t, r);
        return;
    case REASON_ORDERED:
    case REASON_RELEASED:
    case REASON_ALREADY_PURCHASED:
        keep_entry(t, &r->entry);
        t->replayed = r->replayed;
        finish(t, reason);
        return;
    case REASON_BUCKET_EMPTY:
        hold(t, true, REASON_STOCK_MOVING);
        return;
    case REASON_ENDED:
    case REASON_RESERVATION_PAUSED:
        hold(t, false, reason);
        return;
    case REASON_NOT_STARTED:
        t->starts_ms = r ? r->starts_ms : 0;
        t->now_ms = r ? r->now_ms : 0;
        finish(t, reason);
        return;
    case REASON_QUALIFICATION_INVALID:    /* we are going, and the store knew nothing of him: another process takes it */
        finish(t, t->desk->draining && !t->replay_only && !t->unqualified ? REASON_OVERLOADED : reason);
        return;
    case REASON_STALE_EPOCH:
        if (!t->refreshed && t->desk->catalog.running && refresh(t))
            return;
        /* The bucket is missing, and with it what the user had there: a request with an order is answered with it, not as paused. */
        if (!t->asked && may_look(t)) {
            t->asked = true;
            ask_ledger(t, ledger_said);
            return;
        }
        break;
    case REASON_BUCKET_CLOSED:
    case REASON_STRUCTURE_LOST:
        closed(t);
        return;
    case REASON_ASK_LEDGER:
        if (!t->asked && may_look(t)) {
            t->asked = true;
            ask_ledger(t, ledger_said);
            return;
        }
        finish(t, t->asked ? told(reason) : REASON_OVERLOADED);
        return;
    default:
        break;
    }
    finish(t, told(reason));
}

/* true: answered without asking. */
static bool ask_store(struct take *t)
{
    struct desk *d = t->desk;
    const struct activity *a = catalog_find(&d->catalog, t->activity);
    if (catalog_may_lag(&d->catalog, a) && (!t->refreshed || t->unread)) {    /* where it cannot be read, it is not denied: the user may have bought elsewhere */
        if (t->refreshed || !catalog_learnt(&d->catalog))
            return answer(t, REASON_DEPENDENCY_DOWN);
        return refresh(t) ? false : answer(t, REASON_OVERLOADED);
    }
    t->sku_at = a ? activity_sku(a, t->sku) : -1;
    if (t->sku_at < 0)
        return answer(t, catalog_learnt(&d->catalog) ? REASON_UNKNOWN_ACTIVITY : REASON_DEPENDENCY_DOWN);
    if (a->state == ACTIVITY_DRAFT) {
        t->starts_ms = a->starts_ms;
        t->now_ms = clock_now_ms(d->clock);
        return answer(t, REASON_NOT_STARTED);
    }
    t->bucket = (struct bucket){t->activity, a->epoch, user_bucket(t->hash, a->buckets)};
    enum reason known = soldout_says(&d->soldout, a, t->sku_at, t->hash, t->bucket.number);
    if (known != REASON_OK) {
        metric_one(METRIC_LOCAL_SOLD_OUT);
        return answer(t, known);
    }
    t->unqualified = a->qualification && t->nonce.len == 0;    /* the store finds what the user has; that is one call, as any other request costs */
    t->seen = incarnation_ask(&d->guard, a, t->bucket.number);
    t->server = incarnation_of(&d->guard, a, t->bucket.number);
    struct ident_fields fields = {.made_ms = clock_now_ms(d->clock), .activity = a->number, .epoch = a->epoch, .bucket = t->bucket.number};
    struct reserve_ask ask = {
        .bucket = t->bucket, .user = t->user, .sku = t->sku, .request = t->request, .user_hash = t->hash, .nonce = t->nonce,
        .ident = ident_make(d->keys, fields, ident_chance(t->hash, random_next(d->random))), .replay_only = t->replay_only || t->unqualified || d->draining,
        .ledger_asked = t->asked, .sealed = t->server != INCARNATION_KNOWN};
    t->asked_us = clock_mono_us(d->clock);
    t->waiter = (struct waiter){.wake = store_said, .budget_ms = d->options.reserve_ms};
    KILLPOINT(RESERVE_BEFORE);
    store_reserve(d->store, &ask, &t->waiter);
    KILLPOINT(RESERVE_ASKED);
    return false;
}

bool reservation_take(struct desk *d, struct take *t)
{
    t->desk = NULL;
    t->replayed = t->has_entry = t->refreshed = t->asked = t->old = t->unqualified = false;
    t->poll_after_ms = 0;
    t->starts_ms = t->now_ms = 0;
    t->entry = (struct entry){.why = REASON_OK};
    if (d->takes >= d->options.takes) {
        t->reason = REASON_OVERLOADED;
        return true;
    }
    if (!str_is_id(t->activity) || !str_is_id(t->sku) || !str_is_id(t->user) || !str_is_id(t->request)) {
        t->reason = REASON_INVALID_REQUEST;
        return true;
    }
    t->desk = d;
    t->hash = user_hash(d->keys, t->user);
    d->takes++;
    return ask_store(t);
}

void reservation_let_go(struct take *t)
{
    struct desk *d = t->desk;
    if (!d)
        return;
    waiter_drop(&t->waiter);
    if (t->alarm.waiter.wake)
        clock_unset(d->clock, &t->alarm);
    catalog_let_go(&t->catalog);
    soldout_let_go(&t->soldout);
    publish_let_go(&t->publish);
    verdict_let_go(&t->verdict);
    d->takes--;
    t->desk = NULL;
}

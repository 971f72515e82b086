/* SPDX-License-Identifier: Apache-2.0 */
#include "verdict.h"

#include "check.h"

static void keep(struct verdict_ask *v, struct str *s)
{
    size_t len = s->len;
    *s = arena_str(&v->arena, *s);
    check(s->len == len);
}

static void settled(struct settle_wait *w, enum reason reason)
{
    struct verdict_ask *v = container_of(w, struct verdict_ask, settle);
    v->told = reason_fate(reason) == FATE_DONE;
    v->done(v, REASON_OK);
}

/* The bucket that the user has now, whatever he had when the reservation was made. */
static void push(struct verdict_ask *v)
{
    const struct activity *a = catalog_find(v->office->catalog, v->what.activity);
    uint64_t hash = user_hash(v->office->keys, v->what.user);
    if (!a || v->quiet) {
        v->done(v, REASON_OK);
        return;
    }
    struct settle_ask ask = {
        .bucket = {v->what.activity, a->epoch, user_bucket(hash, a->buckets)}, .user = v->what.user, .ident = v->entry.ident, .to = v->entry.state,
        .why = v->entry.why, .request = v->entry.request, .sku = v->entry.sku, .token = v->what.token, .superseded_by = v->entry.superseded_by,
        .superseded_request = v->other_request, .superseded_sku = v->other_sku, .user_hash = hash};
    v->settle.done = settled;
    if (!settler_push(v->office->settler, &ask, &v->settle))
        v->done(v, REASON_OK);
}

/* The order that stands instead: the store needs its request and SKU to hold it. Without them it is not told; the outbox will. */
static void other_looked(struct waiter *w, enum reason reason, const void *result)
{
    struct verdict_ask *v = container_of(w, struct verdict_ask, waiter);
    const struct ledger_look_answer *a = result;
    if (reason != REASON_OK || !a->decided) {
        v->done(v, REASON_OK);
        return;
    }
    v->other_request = a->what.request, v->other_sku = a->what.sku;
    keep(v, &v->other_request);
    keep(v, &v->other_sku);
    push(v);
}

static bool take(struct verdict_ask *v, const struct ledger_look_answer *a)
{
    v->decided = a->decided;
    v->parked = a->parked;
    v->has_order = a->has_order;
    v->decided_ms = a->decided_ms;
    v->what = a->what;
    v->order = a->order;
    struct str *what[] = {&v->what.message, &v->what.request, &v->what.reservation, &v->what.activity, &v->what.sku, &v->what.user};
    struct str *order[] = {&v->order.order, &v->order.reservation, &v->order.request, &v->order.activity, &v->order.sku, &v->order.user, &v->order.currency};
    v->what.trace = (struct str){0};
    for (size_t i = 0; i < countof(what); i++)
        keep(v, what[i]);
    for (size_t i = 0; i < countof(order) && v->has_order; i++)
        keep(v, order[i]);
    if (!a->decided)
        return true;
    bool ordered = a->verdict.outcome == REASON_ORDERED;
    v->entry = (struct entry){
        .state = ordered ? RESERVATION_ORDERED : RESERVATION_RELEASED, .why = ordered ? REASON_OK : a->verdict.why, .request = v->what.request,
        .sku = v->what.sku, .token = ordered ? v->what.token : (struct token){0}, .created_ms = v->what.created_ms, .updated_ms = v->decided_ms,
        .superseded_by = a->verdict.superseded_by};
    keep(v, &v->entry.superseded_by);
    return ident_parse(v->what.reservation, IDENT_RESERVATION, &v->entry.ident);
}

static void looked(struct waiter *w, enum reason reason, const void *result)
{
    struct verdict_ask *v = container_of(w, struct verdict_ask, waiter);
    if (reason != REASON_OK) {
        v->done(v, reason);
        return;
    }
    if (v->see)
        v->see(v, result);
    if (!take(v, result)) {
        v->done(v, REASON_ENGINE_FAULT);    /* a name in the ledger that is none of ours */
        return;
    }
    if (!v->decided) {
        v->done(v, REASON_OK);
    } else if (v->entry.superseded_by.len > 0 && !v->quiet) {
        struct ledger_look_ask ask = {.by = LOOK_RESERVATION, .id = v->entry.superseded_by};
        v->waiter = (struct waiter){.wake = other_looked, .budget_ms = v->budget_ms};
        ledger_look(v->office->ledger, &ask, &v->waiter);
    } else {
        push(v);
    }
}

void verdict_start(const struct verdict_office *office, struct verdict_ask *v)
{
    struct ledger_look_ask ask = {.by = v->by, .id = v->id, .activity = v->activity, .user = v->user};
    v->decided = v->parked = v->has_order = v->told = false;
    v->entry = (struct entry){.why = REASON_OK};
    v->office = office;
    v->arena = (struct arena){.start = v->memory, .cap = sizeof v->memory};
    v->other_request = v->other_sku = (struct str){0};
    v->waiter = (struct waiter){.wake = looked, .budget_ms = v->budget_ms};
    v->settle = (struct settle_wait){0};
    ledger_look(office->ledger, &ask, &v->waiter);
}

void verdict_let_go(struct verdict_ask *v)
{
    waiter_drop(&v->waiter);
    settler_let_go(&v->settle);
}

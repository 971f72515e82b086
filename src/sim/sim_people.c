/* SPDX-License-Identifier: Apache-2.0
 * sim_people.c: what waits for a person, what becomes of it, and the story of a unit, a reservation, an order, a payment or a user, told from the
 * rows themselves. */
#include <stdlib.h>

#include "sim_books.h"

/* ---- reviews ---------------------------------------------------------------------------------------------------------------- */

static struct review shown(const struct sim_review *r, bool with_body)
{
    return (struct review){.id = r->id, .kind = r->kind, .why = r->why, .decision = r->decision, .group = r->group, .key = r->key, .what = r->what,
                           .payment = r->payment, .actor = r->actor, .note = r->note, .opened_ms = r->opened_ms, .resolved_ms = r->resolved_ms,
                           .body = with_body ? r->body : (struct str){0}};
}

static int newest_first(const void *a, const void *b)
{
    const struct review *x = a, *y = b;
    return x->opened_ms != y->opened_ms ? (x->opened_ms > y->opened_ms ? -1 : 1) : str_cmp(x->id, y->id);
}

/* `out` has room for ask->limit, or for one where an id is named. */
size_t sim_books_reviews(const struct sim_books *b, const struct reviews_ask *ask, struct review *out, uint64_t *open)
{
    struct review *all = calloc(b->review_count + 1, sizeof *all);
    size_t count = 0, limit = ask->id.len > 0 ? 1 : ask->limit;
    check(all != NULL);
    *open = 0;
    for (size_t i = 0; i < b->review_count; i++) {
        const struct sim_review *r = b->reviews[i];
        bool wanted = ask->id.len > 0 ? str_eq(r->id, ask->id) : (ask->all || r->open) && (ask->before_ms == 0 || r->opened_ms < ask->before_ms);
        *open += r->open;
        if (wanted)
            all[count++] = shown(r, ask->id.len > 0);
    }
    qsort(all, count, sizeof *all, newest_first);
    count = count < limit ? count : limit;
    memcpy(out, all, count * sizeof *out);
    free(all);
    return count;
}

/* RETRY places the message, RELEASE decides that no order will come. */
static enum reason decide(struct sim_books *b, const struct sim_review *r, enum review_decision decision, const struct create_order *what, int64_t now_ms,
                          struct verdict *verdict)
{
    bool regressed;
    if (decision == REVIEW_RETRY) {
        struct place_ask ask = {.group = r->group, .owner = str_lit("review"), .items = what, .count = 1};
        return sim_books_place(b, &ask, now_ms, verdict, &regressed);
    }
    struct release_item item = {.what = *what, .why = REASON_RELEASED};
    return sim_books_release(b, &(struct release_ask){.items = &item, .count = 1}, now_ms, verdict, &regressed);
}

/* What the decision comes to; CONFLICT: it cannot end this. */
static enum reason act(struct sim_books *b, const struct sim_review *r, const struct resolve_ask *ask, int64_t now_ms, struct resolve_answer *answer)
{
    const struct create_order *what = r->kind == REVIEW_RESERVATION ? &r->what : ask->what;
    struct verdict verdict;
    if (r->kind == REVIEW_PAYMENT) {
        answer->outcome = sim_books_resolve_payment(b, r, ask->decision, now_ms);
        return answer->outcome == REASON_CONFLICT ? REASON_CONFLICT : REASON_OK;
    }
    if (ask->decision == REVIEW_DISMISS)    /* an undecided reservation's unit would be nobody's business for ever */
        return r->kind == REVIEW_RESERVATION && !sim_books_inbox(b, r->what.reservation) ? REASON_CONFLICT : REASON_OK;
    if (!what || r->kind == REVIEW_CALLBACK || ask->decision == REVIEW_APPLY || ask->decision == REVIEW_REFUND)
        return REASON_CONFLICT;
    enum reason reason = decide(b, r, ask->decision, what, now_ms, &verdict);
    if (reason != REASON_OK)
        return reason;
    answer->outcome = verdict.outcome;
    answer->why = verdict.why;
    return verdict.outcome == REASON_MESSAGE_ID_REUSED ? REASON_CONFLICT : REASON_OK;
}

/* Of several reviews of one reservation or request another may still be open: that one is found from now on. */
static void closed(struct sim_books *b, struct sim_review *r)
{
    for (size_t i = 0; i < b->review_count; i++) {
        struct sim_review *other = b->reviews[i];
        struct sim_key k;
        if (!other->open || other->kind != REVIEW_RESERVATION)
            continue;
        if (str_eq(other->what.reservation, r->what.reservation))
            sim_map_put(&b->review_by_reservation, other->what.reservation, other);
        if (str_eq(other->what.activity, r->what.activity) && str_eq(other->what.user, r->what.user) && str_eq(other->what.request, r->what.request) &&
            sim_key_join(&k, (const struct str[]){other->what.activity, other->what.user, other->what.request}, 3))
            sim_map_put(&b->review_by_request, sim_text(&b->ground, k.str), other);
    }
}

static bool is_refund(enum review_decision d) { return d == REVIEW_RELEASE || d == REVIEW_REFUND; }

enum reason sim_books_resolve(struct sim_books *b, const struct resolve_ask *ask, int64_t now_ms, struct resolve_answer *answer)
{
    struct sim_review *r = sim_map_get(&b->review_by_id, ask->id);
    *answer = (struct resolve_answer){.outcome = REASON_OK, .why = REASON_OK};
    if (!r)
        return REASON_NOT_FOUND;
    if (!r->open)
        return r->decision == ask->decision || (is_refund(r->decision) && is_refund(ask->decision)) ? REASON_OK : REASON_CONFLICT;
    b->turn++;
    enum reason reason = act(b, r, ask, now_ms, answer);
    if (reason != REASON_OK)
        return reason;
    r->open = false;
    r->decision = ask->decision;
    r->resolved_ms = now_ms;
    r->actor = sim_text(&b->ground, ask->actor);
    r->note = sim_text(&b->ground, ask->note);
    if (r->kind == REVIEW_RESERVATION)
        closed(b, r);
    return REASON_OK;
}

/* ---- story ------------------------------------------------------------------------------------------------------------------- */

struct tale {
    const struct sim_books *books;
    const struct story_ask *ask;
    struct sim_ground *ground;
    struct sim_map reservations, orders, payments;    /* that belong to it */
    struct story_event *events;
    size_t count, cap;
};

static void put(struct sim_map *m, struct str key)
{
    if (key.len > 0)
        sim_map_put(m, key, m);
}

static struct str order_name(struct tale *t, struct str reservation)
{
    size_t skip = str_starts(reservation, str_lit("rsv_")) ? 4 : 0;
    char *name = sim_take(t->ground, 4 + reservation.len);
    memcpy(name, "ord_", 4);
    memcpy(name + 4, reservation.ptr + skip, reservation.len - skip);
    return (struct str){name, 4 + reservation.len - skip};
}

static void belongs(struct tale *t, struct str reservation)
{
    put(&t->reservations, reservation);
    if (reservation.len > 0)
        put(&t->orders, order_name(t, reservation));
}

static void gather_payments(struct tale *t)
{
    const struct sim_books *b = t->books;
    for (size_t i = 0; i < b->payment_count; i++)
        if (sim_map_get(&t->orders, b->payments[i]->record.what.order)) {
            put(&t->payments, b->payments[i]->record.what.payment);
            put(&t->payments, b->payments[i]->name);
        }
    for (size_t i = 0; i < b->review_count; i++)
        if (b->reviews[i]->kind == REVIEW_PAYMENT && sim_map_get(&t->orders, b->reviews[i]->payment.order))
            put(&t->payments, b->reviews[i]->record);
}

static void gather(struct tale *t)
{
    const struct sim_books *b = t->books;
    struct str id = t->ask->id;
    if (t->ask->by == STORY_PAYMENT) {
        put(&t->payments, id);
        for (size_t i = 0; i < b->payment_count; i++)
            if (str_eq(b->payments[i]->record.what.payment, id)) {
                put(&t->payments, b->payments[i]->name);
                put(&t->orders, b->payments[i]->record.what.order);
            }
        for (size_t i = 0; i < b->review_count; i++)
            if (sim_map_get(&t->payments, b->reviews[i]->record))
                put(&t->orders, b->reviews[i]->payment.order);
    }
    if (t->ask->by == STORY_ORDER)
        put(&t->orders, id);
    if (t->ask->by == STORY_RESERVATION)
        belongs(t, id);
    for (size_t i = 0; i < b->inbox_count; i++)
        if (t->ask->by == STORY_USER && str_eq(b->inbox[i]->what.user, id) && (t->ask->activity.len == 0 || str_eq(b->inbox[i]->what.activity, t->ask->activity)))
            belongs(t, b->inbox[i]->what.reservation);
    for (size_t i = 0; i < b->journal_count; i++)
        if (t->ask->by == STORY_UNIT && b->journal[i].unit == t->ask->unit)
            belongs(t, b->journal[i].reservation);
    for (size_t i = 0; i < b->order_count; i++) {
        const struct order *o = &b->orders[i]->order;
        if ((t->ask->by == STORY_UNIT && o->token.unit == t->ask->unit) || sim_map_get(&t->orders, o->order))
            belongs(t, o->reservation);
    }
    gather_payments(t);
}

static void tell(struct tale *t, struct story_event e)
{
    t->events = sim_books_room(t->events, t->count, &t->cap, sizeof *t->events);
    t->events[t->count++] = e;
}

static bool ours(const struct tale *t, struct str reservation) { return reservation.len > 0 && sim_map_get(&t->reservations, reservation); }

static void tell_verdicts(struct tale *t)
{
    for (size_t i = 0; i < t->books->inbox_count; i++) {
        const struct sim_inbox *x = t->books->inbox[i];
        if (ours(t, x->what.reservation))
            tell(t, (struct story_event){.at_ms = x->decided_ms, .kind = STORY_DECIDED, .reservation = x->what.reservation, .user = x->what.user,
                                         .order = x->outcome == REASON_ORDERED ? order_name(t, x->what.reservation) : (struct str){0},
                                         .token = x->what.token, .outcome = x->outcome, .why = x->why, .detail = x->superseded_by});
    }
}

/* The payment_id as the channel gave it, of the record of this name. */
static struct str given_id(const struct sim_books *b, struct str record)
{
    const struct sim_payment *p = record.len > 0 ? sim_map_get(&b->payment_by_id, record) : NULL;
    return p ? p->record.what.payment : record;
}

static void tell_orders(struct tale *t)
{
    for (size_t i = 0; i < t->books->order_count; i++) {
        const struct sim_order *so = t->books->orders[i];
        const struct order *o = &so->order;
        struct story_event e = {.at_ms = o->created_ms, .kind = STORY_CREATED, .reservation = o->reservation, .order = o->order, .user = o->user,
                                .token = o->token, .amount = o->amount, .currency = o->currency, .outcome = REASON_OK, .why = REASON_OK};
        if (!ours(t, o->reservation))
            continue;
        tell(t, e);
        if (o->paid_ms) {
            struct story_event paid = e;
            paid.at_ms = o->paid_ms, paid.kind = STORY_PAID, paid.payment = given_id(t->books, so->payment);
            tell(t, paid);
        }
        if (o->canceled_ms) {
            e.at_ms = o->canceled_ms, e.kind = STORY_CANCELED, e.why = so->cancel_why;
            tell(t, e);
        }
    }
}

static void tell_journal(struct tale *t)
{
    static const enum story_kind kinds[] = {[SIM_CONSUMED] = STORY_CONSUMED, [SIM_RETURNED] = STORY_RETURNED, [SIM_FREED] = STORY_FREED, [SIM_RAISED] = STORY_RAISED};
    for (size_t i = 0; i < t->books->journal_count; i++) {
        const struct sim_journal *j = &t->books->journal[i];
        if (t->ask->by == STORY_UNIT ? j->unit != t->ask->unit : !ours(t, j->reservation))
            continue;
        struct token token = {j->unit, j->generation};
        const struct sim_inbox *x = sim_map_get(&t->books->inbox_by_reservation, j->reservation);
        tell(t, (struct story_event){.at_ms = j->at_ms, .kind = kinds[j->change], .reservation = j->reservation, .user = x ? x->what.user : (struct str){0},
                                     .token = token, .outcome = REASON_OK, .why = j->why});
        if (j->restocked_ms)
            tell(t, (struct story_event){.at_ms = j->restocked_ms, .kind = STORY_RESTOCKED, .reservation = j->reservation, .token = token,
                                         .outcome = REASON_OK, .why = REASON_OK});
    }
}

static void tell_money(struct tale *t)
{
    for (size_t i = 0; i < t->books->webhook_count; i++) {
        const struct sim_webhook *w = t->books->webhooks[i];
        if (sim_map_get(&t->payments, w->what.payment))
            tell(t, (struct story_event){.at_ms = w->heard_ms, .kind = STORY_PAYMENT_HEARD, .order = w->what.order, .payment = w->what.payment,
                                         .outcome = w->outcome, .why = w->why, .result = w->what.result, .amount = w->what.amount, .currency = w->what.currency});
    }
    for (size_t i = 0; i < t->books->payment_count; i++) {
        const struct sim_payment *p = t->books->payments[i];
        struct story_event e = {.at_ms = p->refund_asked_ms, .kind = STORY_REFUND, .order = p->record.what.order, .payment = p->record.what.payment, .outcome = REASON_OK,
                                .why = p->record.disposition, .refund = REFUND_REQUESTED, .amount = p->record.what.amount, .currency = p->record.what.currency,
                                .detail = p->record.what.channel};
        if (p->record.refund == REFUND_NONE || !sim_map_get(&t->payments, p->name))
            continue;
        tell(t, e);
        if (p->record.refund == REFUND_DONE) {
            e.at_ms = p->refunded_ms, e.refund = REFUND_DONE;
            tell(t, e);
        }
    }
}

static void tell_reviews(struct tale *t)
{
    for (size_t i = 0; i < t->books->review_count; i++) {
        const struct sim_review *r = t->books->reviews[i];
        bool money = r->kind == REVIEW_PAYMENT;
        if (money ? !sim_map_get(&t->payments, r->record) : !ours(t, r->what.reservation))
            continue;
        struct story_event e = {.at_ms = r->opened_ms, .kind = STORY_REVIEW, .reservation = r->what.reservation, .order = r->payment.order, .user = r->what.user,
                                .payment = r->payment.payment, .review = r->id, .token = r->what.token, .outcome = REASON_OK, .why = r->why,
                                .result = r->payment.result, .amount = r->payment.amount, .currency = r->payment.currency};
        tell(t, e);
        if (r->open)
            continue;
        struct buf detail = buf_fixed(sim_take(t->ground, 2048), 2048);
        buf_add_fmt(&detail, "%s by " STR_FMT ": " STR_FMT, review_decision_name(r->decision), STR_ARG(r->actor), STR_ARG(r->note));
        e.at_ms = r->resolved_ms, e.kind = STORY_RESOLVED, e.detail = buf_str(&detail);
        tell(t, e);
    }
}

static int step_of(const struct story_event *e)
{
    static const int steps[STORY_KINDS] = {[STORY_DECIDED] = 1, [STORY_CREATED] = 2, [STORY_CONSUMED] = 3, [STORY_PAYMENT_HEARD] = 4, [STORY_PAID] = 5,
                                           [STORY_CANCELED] = 6, [STORY_RETURNED] = 7, [STORY_FREED] = 7, [STORY_RAISED] = 7, [STORY_RESTOCKED] = 8,
                                           [STORY_REFUND] = 9, [STORY_REVIEW] = 11, [STORY_RESOLVED] = 12};
    return steps[e->kind] + (e->kind == STORY_REFUND && e->refund == REFUND_DONE);
}

static int by_time(const void *a, const void *b)
{
    const struct story_event *x = a, *y = b;
    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    int step = step_of(x) - step_of(y), order = step ? step : str_cmp(x->reservation, y->reservation);
    return order ? order : str_cmp(x->payment, y->payment);
}

/* `out` has room for ask->limit. */
size_t sim_books_story(const struct sim_books *b, const struct story_ask *ask, struct sim_ground *ground, struct story_event *out)
{
    struct tale t = {.books = b, .ask = ask, .ground = ground};
    gather(&t);
    tell_verdicts(&t);
    tell_orders(&t);
    tell_journal(&t);
    tell_money(&t);
    tell_reviews(&t);
    if (t.count > 0)
        qsort(t.events, t.count, sizeof *t.events, by_time);
    size_t count = t.count < ask->limit ? t.count : ask->limit;
    if (count > 0)
        memcpy(out, t.events + (t.count - count), count * sizeof *out);
    free(t.events);
    sim_map_free(&t.reservations);
    sim_map_free(&t.orders);
    sim_map_free(&t.payments);
    return count;
}

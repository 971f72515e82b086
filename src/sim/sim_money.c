/* SPDX-License-Identifier: Apache-2.0
 * sim_money.c: payments, refunds, cancels. A payment is recorded once; each SUCCESS pays its order, or is given back once, or waits for a person. */
#include <stdlib.h>

#include "hash.h"
#include "sim_books.h"

/* ---- the tables ---------------------------------------------------------------------------------------------------------- */

static struct payment kept(struct sim_books *b, const struct payment *p)
{
    struct payment copy = *p;
    copy.payment = sim_text(&b->ground, p->payment);
    copy.order = sim_text(&b->ground, p->order);
    copy.currency = sim_text(&b->ground, p->currency);
    copy.channel = sim_text(&b->ground, p->channel);
    return copy;
}

static bool same_terms(const struct payment *a, const struct payment *b)
{
    return str_eq(a->order, b->order) && a->amount == b->amount && str_eq(a->currency, b->currency);
}

/* The reservation whose order has this name; empty: the name says nothing. */
static struct str reservation_of(struct str order, char memory[SIM_ID_BYTES_MAX + 8])
{
    if (!str_starts(order, str_lit("ord_")) || order.len > SIM_ID_BYTES_MAX)
        return (struct str){0};
    memcpy(memory, "rsv_", 4);
    memcpy(memory + 4, order.ptr + 4, order.len - 4);
    return (struct str){memory, order.len};
}

static struct str order_of(struct str reservation, char memory[SIM_ID_BYTES_MAX + 8])
{
    size_t skip = str_starts(reservation, str_lit("rsv_")) ? 4 : 0;
    check(reservation.len <= SIM_ID_BYTES_MAX);
    memcpy(memory, "ord_", 4);
    memcpy(memory + 4, reservation.ptr + skip, reservation.len - skip);
    return (struct str){memory, 4 + reservation.len - skip};
}

static void refund(struct sim_books *b, struct sim_payment *p, int64_t now_ms)
{
    check(p->record.refund == REFUND_NONE && p->record.what.result == PAYMENT_SUCCESS);
    p->record.refund = REFUND_REQUESTED;
    p->refund_asked_ms = now_ms;
    sim_books_tell_refund(b, p, now_ms);
}

static void order_paid(struct sim_books *b, struct sim_order *o, struct str payment, int64_t now_ms)
{
    check(order_may_move(o->order.state, ORDER_PAID));
    o->order.state = ORDER_PAID;
    o->order.paid_ms = now_ms;
    o->payment = payment;
    sim_books_tell_event(b, "PAID", sim_books_inbox(b, o->order.reservation), o, now_ms);
}

/* ---- pay ------------------------------------------------------------------------------------------------------------------- */

struct judged {
    enum reason outcome, why;
    bool known, writable, released;
};

static enum reason to_order(const struct sim_order *o, const struct payment *p)
{
    return p->result == PAYMENT_FAILED ? REASON_PAYMENT_FAILED_RECORDED : o->order.state == ORDER_CREATED ? REASON_PAYMENT_APPLIED
           : o->order.state == ORDER_PAID ? REASON_PAYMENT_EXTRA : REASON_PAYMENT_AFTER_CANCEL;
}

static struct judged quarantined(struct judged j, enum reason why)
{
    j.outcome = REASON_PAYMENT_QUARANTINED;
    j.why = why;
    return j;
}

static struct judged judge(struct sim_books *b, const struct pay_item *item)
{
    char memory[SIM_ID_BYTES_MAX + 8];
    const struct payment *p = &item->what;
    const struct sim_webhook *w = sim_map_get(&b->webhook_by_id, item->webhook);
    const struct sim_payment *was = sim_map_get(&b->payment_by_id, p->payment);
    const struct sim_order *o = sim_map_get(&b->order_by_id, p->order);
    const struct sim_inbox *x = sim_books_inbox(b, item->reservation.len > 0 ? item->reservation : reservation_of(p->order, memory));
    struct judged j = {.outcome = REASON_OK, .why = REASON_OK, .released = !o && x && x->outcome == REASON_RELEASED};
    if (w && memcmp(w->digest, item->digest, sizeof w->digest) == 0)
        return (struct judged){.outcome = w->outcome, .why = w->why, .known = true};
    bool same = was && same_terms(&was->record.what, p);
    j.writable = !was || (same && was->record.what.result == PAYMENT_FAILED && p->result == PAYMENT_SUCCESS);
    if (!o && !j.released && (x || item->reservation.len > 0))
        j.outcome = REASON_PAYMENT_UNDECIDED;
    else if (w)
        return quarantined(j, REASON_WEBHOOK_ID_REUSED);
    else if (was && !same)
        return quarantined(j, REASON_PAYMENT_ID_REUSED);
    else if (was && !j.writable)
        j.outcome = REASON_PAYMENT_DUPLICATE;
    else if (!o)
        return quarantined(j, REASON_ORDER_UNKNOWN);
    else if (o->order.amount != p->amount || !str_eq(o->order.currency, p->currency))
        return quarantined(j, REASON_WRONG_AMOUNT);
    else
        j.outcome = to_order(o, p);
    return j;
}

static void record(struct sim_books *b, const struct pay_item *item, struct judged j, int64_t now_ms)
{
    struct sim_payment *p = sim_map_get(&b->payment_by_id, item->what.payment);
    if (!p) {
        p = sim_new(&b->ground, struct sim_payment);
        p->record.what = kept(b, &item->what);
        p->earlier = sim_map_get(&b->payment_by_order, item->what.order);
        b->payments = sim_books_room(b->payments, b->payment_count, &b->payment_cap, sizeof *b->payments);
        b->payments[b->payment_count++] = p;
        sim_map_put(&b->payment_by_id, p->record.what.payment, p);
        sim_map_put(&b->payment_by_order, p->record.what.order, p);
    }
    p->record.what.result = item->what.result;
    p->record.what.channel = sim_text(&b->ground, item->what.channel);
    p->record.what.occurred_ms = item->what.occurred_ms;
    p->record.disposition = j.outcome;
    p->record.received_ms = now_ms;
    bool back = j.outcome == REASON_PAYMENT_EXTRA || j.outcome == REASON_PAYMENT_AFTER_CANCEL || (j.outcome == REASON_PAYMENT_QUARANTINED && j.released);
    if (back && item->what.result == PAYMENT_SUCCESS)
        refund(b, p, now_ms);
    if (j.outcome == REASON_PAYMENT_APPLIED)
        order_paid(b, sim_map_get(&b->order_by_id, item->what.order), p->record.what.payment, now_ms);
}

static void hear(struct sim_books *b, const struct pay_item *item, struct judged j, int64_t now_ms)
{
    struct sim_webhook *w = sim_new(&b->ground, struct sim_webhook);
    *w = (struct sim_webhook){.id = sim_text(&b->ground, item->webhook), .what = kept(b, &item->what), .outcome = j.outcome, .why = j.why, .heard_ms = now_ms};
    memcpy(w->digest, item->digest, sizeof w->digest);
    b->webhooks = sim_books_room(b->webhooks, b->webhook_count, &b->webhook_cap, sizeof *b->webhooks);
    b->webhooks[b->webhook_count++] = w;
    sim_map_put(&b->webhook_by_id, w->id, w);
}

static void call_person(struct sim_books *b, const struct pay_item *item, struct judged j, int64_t now_ms)
{
    struct buf text = buf_growing(4096);
    uint8_t digest[32];
    char name[64];
    buf_add_str(&text, str_lit("payment:"));
    buf_add_str(&text, item->what.payment);
    buf_add_char(&text, ':');
    buf_add_str(&text, str_of(reason_word(j.why)));
    buf_add_char(&text, ':');
    buf_add_str(&text, (struct str){(const char *)item->digest, sizeof item->digest});
    check(buf_ok(&text));
    sha256(buf_str(&text), digest);
    buf_free(&text);
    hex_write(digest, 32, name);
    if (sim_map_get(&b->review_by_id, (struct str){name, sizeof name}))
        return;
    struct sim_review *r = sim_new(&b->ground, struct sim_review);
    *r = (struct sim_review){.id = sim_text(&b->ground, (struct str){name, sizeof name}), .kind = REVIEW_PAYMENT, .why = j.why, .opened_ms = now_ms, .open = true,
                             .body = sim_text(&b->ground, item->body), .key = sim_text(&b->ground, item->webhook), .payment = kept(b, &item->what)};
    if (j.released && j.writable) {    /* nothing is left to decide: no order will come */
        r->open = false;
        r->resolved_ms = now_ms;
        r->decision = item->what.result == PAYMENT_SUCCESS ? REVIEW_RELEASE : REVIEW_DISMISS;
        r->actor = str_lit("ledger");
        r->note = str_lit("its reservation is RELEASED");
    }
    sim_books_review(b, r);
}

static bool digestible(const struct pay_item *i)
{
    const struct payment *p = &i->what;
    return i->webhook.len >= 1 && i->webhook.len <= 255 && p->payment.len >= 1 && p->payment.len <= SIM_ID_BYTES_MAX && p->order.len >= 1 &&
           p->order.len <= SIM_ID_BYTES_MAX && sim_books_text(i->webhook) && sim_books_text(p->payment) && sim_books_text(p->order) &&
           sim_books_text(p->currency) && sim_books_text(p->channel) && sim_books_text(i->reservation);
}

enum reason sim_books_pay(struct sim_books *b, const struct pay_ask *ask, int64_t now_ms, struct pay_verdict *verdicts)
{
    for (size_t i = 0; i < ask->count; i++)
        if (!digestible(&ask->items[i]))
            return REASON_POISON;
    b->turn++;
    for (size_t i = 0; i < ask->count; i++) {
        const struct pay_item *item = &ask->items[i];
        struct judged j = judge(b, item);
        verdicts[i] = (struct pay_verdict){.outcome = j.outcome, .why = j.why, .fresh = !j.known};
        if (j.known || j.outcome == REASON_PAYMENT_UNDECIDED)
            continue;
        if (j.writable && j.outcome != REASON_PAYMENT_DUPLICATE)
            record(b, item, j, now_ms);
        if (j.why != REASON_WEBHOOK_ID_REUSED)
            hear(b, item, j, now_ms);
        if (j.outcome == REASON_PAYMENT_QUARANTINED)
            call_person(b, item, j, now_ms);
    }
    for (size_t i = 0; i < ask->count; i++) {
        const struct sim_payment *p = sim_map_get(&b->payment_by_id, ask->items[i].what.payment);
        verdicts[i].refund = p && p->record.refund != REFUND_NONE;
    }
    return REASON_OK;
}

void sim_books_refund_released(struct sim_books *b, struct str reservation, int64_t now_ms)
{
    char memory[SIM_ID_BYTES_MAX + 8];
    for (struct sim_payment *p = sim_map_get(&b->payment_by_order, order_of(reservation, memory)); p; p = p->earlier) {
        if (p->record.disposition != REASON_PAYMENT_QUARANTINED || p->record.what.result != PAYMENT_SUCCESS || p->record.refund != REFUND_NONE)
            continue;
        refund(b, p, now_ms);
        for (size_t i = 0; i < b->review_count; i++) {
            struct sim_review *r = b->reviews[i];
            if (!r->open || r->kind != REVIEW_PAYMENT || !str_eq(r->payment.payment, p->record.what.payment))
                continue;
            r->open = false;
            r->decision = REVIEW_RELEASE;
            r->resolved_ms = now_ms;
            r->actor = str_lit("ledger");
            r->note = str_lit("its reservation is RELEASED");
        }
    }
}

static bool waits(const struct sim_payment *p) { return p->record.disposition == REASON_PAYMENT_QUARANTINED && p->record.refund == REFUND_NONE; }

/* What was set aside is judged once more, now that there may be an order. */
static enum reason pay_again(struct sim_books *b, struct sim_payment *p, int64_t now_ms)
{
    struct sim_order *o = sim_map_get(&b->order_by_id, p->record.what.order);
    if (!waits(p) || !o || o->order.amount != p->record.what.amount || !str_eq(o->order.currency, p->record.what.currency))
        return p->record.disposition;
    p->record.disposition = to_order(o, &p->record.what);
    if (p->record.disposition == REASON_PAYMENT_APPLIED)
        order_paid(b, o, p->record.what.payment, now_ms);
    else if (p->record.disposition != REASON_PAYMENT_FAILED_RECORDED)
        refund(b, p, now_ms);
    return p->record.disposition;
}

enum reason sim_books_resolve_payment(struct sim_books *b, const struct sim_review *r, enum review_decision decision, int64_t now_ms)
{
    struct sim_payment *p = sim_map_get(&b->payment_by_id, r->payment.payment);
    if (!p || !same_terms(&p->record.what, &r->payment))
        return REASON_CONFLICT;    /* this money is not in the books: another payment has its name */
    if (decision == REVIEW_RETRY) {
        enum reason outcome = pay_again(b, p, now_ms);
        return waits(p) ? REASON_CONFLICT : outcome;
    }
    bool pays = p->record.disposition != REASON_PAYMENT_QUARANTINED && p->record.refund == REFUND_NONE;
    if (r->payment.result != PAYMENT_SUCCESS || p->record.what.result != PAYMENT_SUCCESS || pays)
        return REASON_CONFLICT;
    if (p->record.refund == REFUND_NONE)
        refund(b, p, now_ms);
    return p->record.disposition;
}

size_t sim_books_payments(struct sim_books *b, struct str order, struct payment_record *out)
{
    size_t count = 0;
    for (size_t i = 0; i < b->payment_count && count < LOOK_PAYMENTS_MAX; i++)
        if (str_eq(b->payments[i]->record.what.order, order))
            out[count++] = b->payments[i]->record;
    for (size_t i = 1; i < count; i++)    /* oldest first; a payment that was heard of again is as old as that */
        for (size_t j = i; j > 0; j--) {
            struct payment_record *x = &out[j - 1], *y = &out[j], z = *y;
            if (x->received_ms < y->received_ms || (x->received_ms == y->received_ms && str_cmp(x->what.payment, y->what.payment) < 0))
                break;
            *y = *x;
            *x = z;
        }
    return count;
}

/* ---- cancel ------------------------------------------------------------------------------------------------------------------ */

static void cancel(struct sim_books *b, struct sim_order *o, enum reason why, int64_t now_ms)
{
    struct sim_unit *u = sim_books_unit(b, o->order.token.unit);
    check(u && u->consumed && str_eq(u->reservation, o->order.reservation));
    check(order_may_move(o->order.state, ORDER_CANCELING) && order_may_move(ORDER_CANCELING, ORDER_CANCELED));
    u->consumed = false;
    u->token.generation++;
    o->order.state = ORDER_CANCELED;
    o->order.canceled_ms = now_ms;
    o->raised = u->token.generation;
    o->cancel_why = why;
    sim_books_journal(b, u, SIM_FREED, o->order.reservation)->why = why;
    sim_books_tell_event(b, "CANCELED", sim_books_inbox(b, o->order.reservation), o, now_ms);
    sim_books_tell_return(b, u, now_ms);
}

void sim_books_cancel(struct sim_books *b, const struct cancel_ask *ask, int64_t now_ms, struct cancel_verdict *verdicts)
{
    b->turn++;
    for (size_t i = 0; i < ask->count; i++) {
        const struct cancel_item *item = &ask->items[i];
        struct sim_order *o = sim_map_get(&b->order_by_id, item->order);
        verdicts[i] = (struct cancel_verdict){.outcome = REASON_CANCELED};
        if (!o || (item->user.len > 0 && !str_eq(item->user, o->order.user))) {
            verdicts[i].outcome = REASON_NOT_FOUND;
        } else if (o->order.state == ORDER_PAID) {
            verdicts[i].outcome = REASON_ORDER_PAID;
        } else if (o->order.state == ORDER_CREATED && ask->due && o->order.pay_deadline_ms > now_ms) {
            verdicts[i].outcome = REASON_UNCHANGED;
        } else if (o->order.state == ORDER_CREATED) {
            cancel(b, o, ask->why, now_ms);
            verdicts[i].fresh = true;
        }
    }
}

static int by_deadline(const void *a, const void *b)
{
    const struct overdue *x = a, *y = b;
    return x->pay_deadline_ms != y->pay_deadline_ms ? (x->pay_deadline_ms < y->pay_deadline_ms ? -1 : 1) : str_cmp(x->order, y->order);
}

/* `out` has room for ask->limit. */
size_t sim_books_overdue(const struct sim_books *b, const struct overdue_ask *ask, int64_t now_ms, struct overdue *out)
{
    struct overdue *all = calloc(b->order_count + 1, sizeof *all);
    size_t count = 0;
    check(all != NULL);
    for (size_t i = 0; i < b->order_count; i++) {
        const struct order *o = &b->orders[i]->order;
        bool behind = o->pay_deadline_ms > ask->after_place || (o->pay_deadline_ms == ask->after_place && str_cmp(o->order, ask->after_order) > 0);
        if (o->state == ORDER_CREATED && behind && o->pay_deadline_ms + (int64_t)ask->grace_ms <= now_ms)
            all[count++] = (struct overdue){.order = o->order, .user = o->user, .activity = o->activity, .amount = o->amount,
                                            .pay_deadline_ms = o->pay_deadline_ms, .currency = o->currency, .place = o->pay_deadline_ms};
    }
    qsort(all, count, sizeof *all, by_deadline);
    count = count < ask->limit ? count : ask->limit;
    memcpy(out, all, count * sizeof *out);
    free(all);
    return count;
}

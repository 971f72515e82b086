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

/* The key under which a callback is remembered. */
static struct str webhook_key(struct sim_key *k, const struct pay_item *item)
{
    check(sim_key_join(k, (const struct str[]){item->what.channel, item->webhook}, 2));
    return k->str;
}

#define REUSE_NAME 55
/* As payment_reuse_name of pay.sql: the record of money whose payment_id is taken by other money. */
static struct str reuse_name(const struct payment *p, char memory[REUSE_NAME])
{
    char text[512], hex[64];
    uint8_t digest[32];
    struct buf b = buf_fixed(text, sizeof text);
    buf_add_fmt(&b, STR_FMT ":" STR_FMT ":%lld:" STR_FMT, STR_ARG(p->payment), STR_ARG(p->order), (long long)p->amount, STR_ARG(p->currency));
    check(buf_ok(&b));
    sha256(buf_str(&b), digest);
    hex_write(digest, sizeof digest, hex);
    memcpy(memory, "reused_", 7);
    memcpy(memory + 7, hex, 48);
    return (struct str){memory, REUSE_NAME};
}

/* Of the record that a callback is about. A FAILED has no money, and fixes no amount. */
static struct str record_name(struct sim_books *b, const struct payment *p, char memory[REUSE_NAME])
{
    const struct sim_payment *was = sim_map_get(&b->payment_by_id, p->payment);
    bool same = !was || (str_eq(was->record.what.order, p->order) && (was->record.what.result == PAYMENT_FAILED || same_terms(&was->record.what, p)));
    return p->result == PAYMENT_FAILED || same ? p->payment : reuse_name(p, memory);
}

static struct judged judge(struct sim_books *b, const struct pay_item *item, struct str name)
{
    char memory[SIM_ID_BYTES_MAX + 8];
    struct sim_key k;
    const struct payment *p = &item->what;
    const struct sim_webhook *w = sim_map_get(&b->webhook_by_id, webhook_key(&k, item));
    const struct sim_payment *was = sim_map_get(&b->payment_by_id, name);
    const struct sim_order *o = sim_map_get(&b->order_by_id, p->order);
    const struct sim_inbox *x = sim_books_inbox(b, item->reservation.len > 0 ? item->reservation : reservation_of(p->order, memory));
    struct judged j = {.outcome = REASON_OK, .why = REASON_OK, .released = !o && x && x->outcome == REASON_RELEASED};
    if (w && memcmp(w->digest, item->digest, sizeof w->digest) == 0)
        return (struct judged){.outcome = w->outcome, .why = w->why, .known = true};
    bool other = was ? !str_eq(was->record.what.order, p->order) : !str_eq(name, p->payment);
    j.writable = !was || (!other && was->record.what.result == PAYMENT_FAILED && p->result == PAYMENT_SUCCESS);
    if (!o && !j.released && (x || item->reservation.len > 0))
        j.outcome = REASON_PAYMENT_UNDECIDED;
    else if (w)
        return quarantined(j, REASON_WEBHOOK_ID_REUSED);
    else if (other)
        return quarantined(j, REASON_PAYMENT_ID_REUSED);
    else if (was && (was->record.what.result == PAYMENT_SUCCESS || was->record.what.result == p->result))
        j.outcome = REASON_PAYMENT_DUPLICATE;
    else if (!o)
        return quarantined(j, REASON_ORDER_UNKNOWN);
    else if (p->result == PAYMENT_SUCCESS && (o->order.amount != p->amount || !str_eq(o->order.currency, p->currency)))
        return quarantined(j, REASON_WRONG_AMOUNT);
    else
        j.outcome = to_order(o, p);
    return j;
}

static struct sim_payment *record_new(struct sim_books *b, const struct payment *what, struct str name)
{
    struct sim_payment *p = sim_new(&b->ground, struct sim_payment);
    p->record.what = kept(b, what);
    p->name = sim_text(&b->ground, name);
    p->earlier = sim_map_get(&b->payment_by_order, what->order);
    b->payments = sim_books_room(b->payments, b->payment_count, &b->payment_cap, sizeof *b->payments);
    b->payments[b->payment_count++] = p;
    sim_map_put(&b->payment_by_id, p->name, p);
    sim_map_put(&b->payment_by_order, p->record.what.order, p);
    return p;
}

static void record(struct sim_books *b, const struct pay_item *item, struct str name, struct judged j, int64_t now_ms)
{
    struct sim_payment *p = sim_map_get(&b->payment_by_id, name);
    if (!p)
        p = record_new(b, &item->what, name);
    p->record.what.result = item->what.result;
    p->record.what.amount = item->what.amount;
    p->record.what.currency = sim_text(&b->ground, item->what.currency);
    p->record.what.channel = sim_text(&b->ground, item->what.channel);
    p->record.what.occurred_ms = item->what.occurred_ms;
    p->record.disposition = j.outcome;
    p->record.received_ms = now_ms;
    bool back = j.outcome == REASON_PAYMENT_EXTRA || j.outcome == REASON_PAYMENT_AFTER_CANCEL || (j.outcome == REASON_PAYMENT_QUARANTINED && j.released);
    if (back && item->what.result == PAYMENT_SUCCESS)
        refund(b, p, now_ms);
    if (j.outcome == REASON_PAYMENT_APPLIED)
        order_paid(b, sim_map_get(&b->order_by_id, item->what.order), p->name, now_ms);
}

static void hear(struct sim_books *b, const struct pay_item *item, struct judged j, int64_t now_ms)
{
    struct sim_webhook *w = sim_new(&b->ground, struct sim_webhook);
    struct sim_key k;
    *w = (struct sim_webhook){.id = sim_text(&b->ground, item->webhook), .key = sim_text(&b->ground, webhook_key(&k, item)), .what = kept(b, &item->what), .outcome = j.outcome, .why = j.why, .heard_ms = now_ms};
    memcpy(w->digest, item->digest, sizeof w->digest);
    b->webhooks = sim_books_room(b->webhooks, b->webhook_count, &b->webhook_cap, sizeof *b->webhooks);
    b->webhooks[b->webhook_count++] = w;
    sim_map_put(&b->webhook_by_id, w->key, w);
}

static void call_person(struct sim_books *b, const struct pay_item *item, struct str record, struct judged j, int64_t now_ms)
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
                             .body = sim_text(&b->ground, item->body), .key = sim_text(&b->ground, item->webhook), .payment = kept(b, &item->what), .record = sim_text(&b->ground, record)};
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
        char memory[REUSE_NAME];
        struct str name = record_name(b, &item->what, memory);
        struct judged j = judge(b, item, name);
        verdicts[i] = (struct pay_verdict){.outcome = j.outcome, .why = j.why, .fresh = !j.known};
        if (j.known || j.outcome == REASON_PAYMENT_UNDECIDED)
            continue;
        if (j.writable && j.outcome != REASON_PAYMENT_DUPLICATE)
            record(b, item, name, j, now_ms);
        if (j.why != REASON_WEBHOOK_ID_REUSED)
            hear(b, item, j, now_ms);
        if (j.outcome == REASON_PAYMENT_QUARANTINED)
            call_person(b, item, name, j, now_ms);
    }
    for (size_t i = 0; i < ask->count; i++) {
        char memory[REUSE_NAME];
        const struct sim_payment *p = sim_map_get(&b->payment_by_id, record_name(b, &ask->items[i].what, memory));
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
            if (!r->open || r->kind != REVIEW_PAYMENT || !str_eq(r->record, p->name))
                continue;
            r->open = false;
            r->decision = REVIEW_RELEASE;
            r->resolved_ms = now_ms;
            r->actor = str_lit("ledger");
            r->note = str_lit("its reservation is RELEASED");
        }
    }
}

static bool waits(const struct sim_payment *p)
{
    return p->record.what.result == PAYMENT_SUCCESS && p->record.disposition == REASON_PAYMENT_QUARANTINED && p->record.refund == REFUND_NONE;
}

/* What was set aside is judged once more, now that there may be an order. `applies`: only if it then pays its order. */
static enum reason pay_again(struct sim_books *b, struct sim_payment *p, bool applies, int64_t now_ms)
{
    struct sim_order *o = sim_map_get(&b->order_by_id, p->record.what.order);
    bool fits = o && (p->record.what.result == PAYMENT_FAILED || (o->order.amount == p->record.what.amount && str_eq(o->order.currency, p->record.what.currency)));
    if (p->record.disposition != REASON_PAYMENT_QUARANTINED || p->record.refund != REFUND_NONE || !fits || (applies && to_order(o, &p->record.what) != REASON_PAYMENT_APPLIED))
        return p->record.disposition;
    p->record.disposition = to_order(o, &p->record.what);
    if (p->record.disposition == REASON_PAYMENT_APPLIED)
        order_paid(b, o, p->name, now_ms);
    else if (p->record.disposition != REASON_PAYMENT_FAILED_RECORDED)
        refund(b, p, now_ms);
    return p->record.disposition;
}

/* A refund that the channel refused: asked for again, or seen to by an operator. */
static enum reason resolve_refund(struct sim_books *b, struct sim_payment *p, enum review_decision decision, int64_t now_ms)
{
    struct sim_row *row = sim_books_row(b, OUTBOX_REFUND, p->name, (struct token){0});
    if (p->record.refund != REFUND_REQUESTED || !row)
        return p->record.disposition;
    if (decision == REVIEW_APPLY)
        return REASON_CONFLICT;
    if (decision == REVIEW_DISMISS) {
        sim_books_finish(b, &(struct finish_item){row->row, row->version}, 1);
    } else {
        p->refund_tries = p->refund_refused = 0;
        sim_books_tell_refund(b, p, now_ms);
    }
    return p->record.disposition;
}

enum reason sim_books_resolve_payment(struct sim_books *b, const struct sim_review *r, enum review_decision decision, int64_t now_ms)
{
    struct sim_payment *p = sim_map_get(&b->payment_by_id, r->record);
    bool retries = decision == REVIEW_RETRY || decision == REVIEW_APPLY;
    check(p || r->payment.result == PAYMENT_FAILED);    /* whatever has money has a record */
    if (r->why == REASON_REFUND_FAILED)
        return resolve_refund(b, p, decision, now_ms);
    if (r->payment.result == PAYMENT_FAILED) {    /* no money; its payment_id may be that of other money, which is not this review's business */
        bool again = decision == REVIEW_RETRY && p && p->record.what.result == PAYMENT_FAILED && str_eq(p->record.what.order, r->payment.order);
        enum reason outcome = again ? pay_again(b, p, false, now_ms) : decision == REVIEW_DISMISS ? REASON_OK : REASON_CONFLICT;
        return outcome == REASON_PAYMENT_QUARANTINED ? REASON_CONFLICT : outcome;
    }
    if (decision == REVIEW_DISMISS)
        return waits(p) ? REASON_CONFLICT : REASON_OK;    /* money that waits is applied or given back */
    if (retries) {
        enum reason outcome = pay_again(b, p, decision == REVIEW_APPLY, now_ms);
        bool still = outcome == REASON_PAYMENT_QUARANTINED && p->record.refund == REFUND_NONE;
        return still || (decision == REVIEW_APPLY && outcome != REASON_PAYMENT_APPLIED) ? REASON_CONFLICT : outcome;
    }
    if (!waits(p) && p->record.refund == REFUND_NONE)
        return REASON_CONFLICT;    /* it pays its order */
    if (waits(p))
        refund(b, p, now_ms);
    return p->record.disposition;
}

/* ---- callbacks that cannot be understood, refunds that are not given --------------------------------------------------------- */

static struct sim_review *review_named(struct sim_books *b, struct buf *text, int64_t now_ms)
{
    uint8_t digest[32];
    char name[64];
    check(buf_ok(text));
    sha256(buf_str(text), digest);
    buf_free(text);
    hex_write(digest, 32, name);
    if (sim_map_get(&b->review_by_id, (struct str){name, sizeof name}))
        return NULL;
    struct sim_review *r = sim_new(&b->ground, struct sim_review);
    *r = (struct sim_review){.id = sim_text(&b->ground, (struct str){name, sizeof name}), .opened_ms = now_ms, .open = true};
    return r;
}

void sim_books_callback(struct sim_books *b, const struct callback_ask *ask, int64_t now_ms)
{
    struct buf text = buf_growing(4096);
    b->turn++;
    buf_add_fmt(&text, "callback:" STR_FMT ":" STR_FMT ":", STR_ARG(ask->channel), STR_ARG(ask->webhook));
    buf_add_str(&text, (struct str){(const char *)ask->digest, sizeof ask->digest});
    struct sim_review *r = review_named(b, &text, now_ms);
    if (!r)
        return;
    r->kind = REVIEW_CALLBACK;
    r->why = REASON_CALLBACK_UNREADABLE;
    r->body = sim_text(&b->ground, ask->body);
    r->key = sim_text(&b->ground, ask->webhook);
    r->payment.channel = sim_text(&b->ground, ask->channel);
    sim_books_review(b, r);
}

static void call_operator(struct sim_books *b, const struct sim_payment *p, int64_t now_ms)
{
    struct buf text = buf_growing(4096);
    size_t before = 0;
    for (size_t i = 0; i < b->review_count; i++)
        before += str_eq(b->reviews[i]->record, p->name);
    buf_add_fmt(&text, "payment:" STR_FMT ":REFUND_FAILED:%zu", STR_ARG(p->name), before);
    struct sim_review *r = review_named(b, &text, now_ms);
    if (!r)
        return;
    r->kind = REVIEW_PAYMENT;
    r->why = REASON_REFUND_FAILED;
    r->payment = p->record.what;
    r->record = p->name;
    sim_books_review(b, r);
}

void sim_books_defer(struct sim_books *b, const struct defer_ask *ask, int64_t now_ms)
{
    b->turn++;
    for (size_t i = 0; i < ask->count; i++) {
        const struct defer_item *item = &ask->items[i];
        struct sim_row *row = sim_map_get(&b->row_by_number, sim_bytes(&item->row, sizeof item->row));
        struct sim_payment *p = row && row->refund ? sim_map_get(&b->payment_by_id, row->refund->name) : NULL;
        if (!p || row->version != item->version || p->record.refund != REFUND_REQUESTED)
            continue;
        p->refund_tries++;
        p->refund_refused += item->why == REASON_REFUND_PENDING ? 0 : item->why == REASON_REFUND_FAILED ? REFUND_REFUSALS_MAX : 1;
        uint32_t doublings = p->refund_tries - 1 < 10 ? p->refund_tries - 1 : 10;
        int64_t rest_ms = (int64_t)REFUND_REST_FIRST_MS << doublings;
        row->claimed_until_ms = p->refund_refused >= REFUND_REFUSALS_MAX ? INT64_MAX : now_ms + (rest_ms < REFUND_REST_MOST_MS ? rest_ms : REFUND_REST_MOST_MS);
        if (p->refund_refused >= REFUND_REFUSALS_MAX)
            call_operator(b, p, now_ms);
    }
}

/* Whether x comes before y: with a refund before without where `refunds` counts, then the older; one that was heard of again is as old as that. */
static bool comes_before(const struct payment_record *x, const struct payment_record *y, bool refunds)
{
    if (refunds && (x->refund == REFUND_NONE) != (y->refund == REFUND_NONE))
        return y->refund == REFUND_NONE;
    return x->received_ms != y->received_ms ? x->received_ms < y->received_ms : str_cmp(x->what.payment, y->what.payment) < 0;
}

static void put_in_order(struct payment_record *all, size_t count, bool refunds)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && comes_before(&all[j], &all[j - 1], refunds); j--) {
            struct payment_record z = all[j];
            all[j] = all[j - 1];
            all[j - 1] = z;
        }
}

size_t sim_books_payments(struct sim_books *b, struct str order, struct payment_record *out)
{
    size_t count = 0;
    struct payment_record *all = calloc(b->payment_count + 1, sizeof *all);
    check(all != NULL);
    for (size_t i = 0; i < b->payment_count; i++)
        if (str_eq(b->payments[i]->record.what.order, order))
            all[count++] = b->payments[i]->record;
    put_in_order(all, count, true);
    count = count < LOOK_PAYMENTS_MAX ? count : LOOK_PAYMENTS_MAX;
    put_in_order(all, count, false);
    memcpy(out, all, count * sizeof *out);
    free(all);
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

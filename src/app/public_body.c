/* SPDX-License-Identifier: Apache-2.0 */
#include "public_body.h"

#include "json.h"

static void member_ident(struct buf *out, const char *key, struct ident ident, enum ident_kind kind)
{
    char id[IDENT_ID_TEXT];
    ident_write(ident, kind, id);
    json_member_str(out, key, (struct str){id, sizeof id});
}

void public_body_take(struct buf *out, const struct take *t)
{
    json_open(out);
    json_member_text(out, "code", reason_word(t->reason));
    json_member_str(out, "request_id", t->request);
    if (t->has_entry) {
        const struct entry *e = &t->entry;
        member_ident(out, "reservation_id", e->ident, IDENT_RESERVATION);
        json_member_text(out, "status", reservation_state_name(e->state));
        if (e->state == RESERVATION_ORDERED)
            member_ident(out, "order_id", e->ident, IDENT_ORDER);
        if (e->state == RESERVATION_RELEASED && e->why != REASON_OK)
            json_member_text(out, "reason", reason_word(e->why));
        json_maybe_str(out, "superseded_by", e->superseded_by);
    }
    json_member_text(out, "message", reason_row(t->reason)->text);
    if (reason_fate(t->reason) == FATE_UNKNOWN)
        json_member_bool(out, "retryable", true);
    if (t->poll_after_ms > 0)
        json_member_u64(out, "poll_after_ms", t->poll_after_ms);
    json_close(out);
}

void public_body_reservation(struct buf *out, const struct reservation_view *v)
{
    json_open(out);
    json_member_str(out, "reservation_id", v->reservation);
    json_maybe_str(out, "request_id", v->request);    /* what nobody knows yet has neither request nor SKU to show */
    json_maybe_str(out, "activity_id", v->activity);
    json_maybe_str(out, "sku_id", v->sku);
    json_member_text(out, "status", reservation_state_name(v->status));
    if (v->why != REASON_OK)
        json_member_text(out, "reason", reason_word(v->why));
    json_maybe_str(out, "order_id", v->order);
    if (v->has_order)
        json_member_text(out, "order_status", order_state_name(v->order_state));
    json_maybe_time(out, "pay_deadline", v->pay_deadline_ms);
    json_maybe_str(out, "superseded_by", v->superseded_by);
    json_maybe_time(out, "expires_at", v->expires_ms);
    if (v->poll_after_ms > 0)
        json_member_u64(out, "poll_after_ms", v->poll_after_ms);
    json_maybe_time(out, "updated_at", v->updated_ms);
    json_close(out);
}

bool public_body_refunds(struct buf *out, const struct payment_record *payments, size_t count)
{
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        const struct payment_record *p = &payments[i];
        if (p->refund == REFUND_NONE)
            continue;
        if (shown == PUBLIC_REFUNDS_MAX) {
            json_close_array(out);
            return true;
        }
        if (shown++ == 0)
            json_open_array(out);
        json_open(out);
        json_member_str(out, "payment_id", p->what.payment);
        json_member_i64(out, "amount", p->what.amount);
        json_member_str(out, "currency", p->what.currency);
        json_member_text(out, "status", refund_status_name(p->refund));
        json_close(out);
    }
    if (shown > 0)
        json_close_array(out);
    return false;
}

void public_body_order(struct buf *out, const struct order *o, struct str refunds, bool truncated)
{
    char token[TOKEN_TEXT];
    json_open(out);
    json_member_str(out, "order_id", o->order);
    json_member_str(out, "reservation_id", o->reservation);
    json_member_str(out, "request_id", o->request);
    json_member_str(out, "activity_id", o->activity);
    json_member_str(out, "sku_id", o->sku);
    json_member_str(out, "inventory_token_id", (struct str){token, token_write(o->token, token)});
    json_member_text(out, "status", order_state_name(o->state));
    json_member_i64(out, "amount", o->amount);
    json_member_str(out, "currency", o->currency);
    json_member_time(out, "created_at", o->created_ms);
    json_maybe_time(out, "paid_at", o->paid_ms);
    json_maybe_time(out, "pay_deadline", o->pay_deadline_ms);
    json_maybe_time(out, "canceled_at", o->canceled_ms);
    if (refunds.len > 0) {
        json_key(out, "refunds");
        json_raw(out, refunds);
    }
    if (truncated)
        json_member_bool(out, "refunds_truncated", true);
    json_close(out);
}

void public_body_activity(struct buf *out, const struct activity *a, int64_t now_ms, const bool *sold)
{
    json_open(out);
    json_member_str(out, "activity_id", a->activity);
    json_member_str(out, "title", a->title);
    json_member_text(out, "state", activity_state_name(a->state));
    json_member_time(out, "starts_at", a->starts_ms);
    json_member_time(out, "ends_at", a->ends_ms);
    json_member_time(out, "server_time", now_ms);
    json_member_u64(out, "pay_timeout_s", a->pay_timeout_s);
    json_member_bool(out, "qualification", a->qualification);
    json_key(out, "skus");
    json_open_array(out);
    for (size_t i = 0; i < a->sku_count; i++) {
        json_open(out);
        json_member_str(out, "sku_id", a->skus[i].sku);
        json_member_i64(out, "price", a->skus[i].price);
        json_member_str(out, "currency", a->skus[i].currency);
        json_member_bool(out, "sold_out", sold[i]);
        json_close(out);
    }
    json_close_array(out);
    json_close(out);
}

/* SPDX-License-Identifier: Apache-2.0
 * public_money.c: what a buyer cancels, and what the payment channel tells. */
#include "public.h"

#include "json.h"
#include "log.h"
#include "metric.h"
#include "webhook.h"

/* ---- cancels ----------------------------------------------------------------------------------------------------------------------------- */

static void answer_cancel(struct public_call *c)
{
    char memory[PUBLIC_BODY_MAX / 4];
    struct buf body = buf_fixed(memory, sizeof memory);
    enum reason reason = c->cancel.reason;
    if (reason == REASON_DEPENDENCY_DOWN) {
        public_refuse(c, reason, "whether the order is cancelled is not known now: ask again");
        return;
    }
    if (reason != REASON_CANCELED) {
        public_refuse(c, reason, NULL);
        return;
    }
    json_open(&body);
    json_member_str(&body, "order_id", c->cancel.order);
    json_member_text(&body, "status", order_state_name(ORDER_CANCELED));
    json_close(&body);
    public_answer(c, 200, REASON_CANCELED, &body, (struct str){0});
}

static void canceled(struct payment_cancel *p) { answer_cancel(container_of(p, struct public_call, cancel)); }

void public_route_ORDER_CANCEL(struct public_call *c, struct str id)
{
    c->cancel = (struct payment_cancel){.order = id, .done = canceled};
    if (str_trim(c->x->request->body).len > 0) {
        public_refuse(c, REASON_INVALID_REQUEST, "a cancel has no body");
        return;
    }
    if (!public_identify_by_query(c, &c->cancel.user))
        return;
    if (payment_cancel_start(c->api->desk, &c->cancel)) {
        answer_cancel(c);
        return;
    }
    c->canceling = true;
    public_wait(c);
}

/* ---- payments ----------------------------------------------------------------------------------------------------------------------------- */

static void answer_callback(struct public_call *c)
{
    const struct payment_callback *p = &c->callback;
    char memory[PUBLIC_BODY_MAX / 4];
    struct buf body = buf_fixed(memory, sizeof memory);
    if (p->reason == REASON_INVALID_REQUEST || reason_row(p->reason)->http >= 300) {
        public_refuse(c, p->reason, p->reason == REASON_DEPENDENCY_DOWN ? "whether the payment is recorded is not known now: send it again with the same webhook-id" : NULL);
        return;
    }
    json_open(&body);
    json_member_text(&body, "code", reason_word(p->reason));
    json_maybe_str(&body, "payment_id", p->what.payment);
    json_maybe_str(&body, "order_id", p->what.order);
    json_member_bool(&body, "refund", p->refund);
    json_member_text(&body, "message", reason_row(p->reason)->text);
    json_close(&body);
    public_answer(c, 200, p->reason, &body, p->replayed ? str_lit("Idempotency-Replayed: true\r\n") : (struct str){0});
}

static void paid(struct payment_callback *p) { answer_callback(container_of(p, struct public_call, callback)); }

/* The signature over the bytes as they came, before anything in them is looked at. */
static enum webhook_verdict verify_signature(struct public_call *c)
{
    static const struct str names[] = {str_lit("webhook-id"), str_lit("webhook-timestamp"), str_lit("webhook-signature")};
    const struct http_request *r = c->x->request;
    struct webhook hook = {http_header(r, names[0]), http_header(r, names[1]), http_header(r, names[2])};
    bool once = true;
    for (size_t i = 0; i < countof(names); i++)
        once &= public_header_once(r, names[i]);
    c->callback.webhook = hook.id;
    const struct config *k = c->api->options.config;
    return once ? webhook_verify(k->payment_webhook_keys, &hook, r->body, clock_now_ms(c->api->clock) / 1000, k->payment_webhook_tolerance_s) : WEBHOOK_FORGED;
}

#define LOGGED 2    /* lines a second of each kind */

static void log_callback(struct public_call *c, struct log_ration *ration, const char *event)
{
    if (!log_ration_take(ration, clock_mono_us(c->api->clock), LOGGED))
        return;
    struct log_line l = log_event(LEVEL_ERROR, event);
    log_str(&l, "webhook_id", c->callback.webhook);
    log_i64(&l, "bytes", (int64_t)c->callback.body.len);
    log_untold(&l, ration);
    log_end(&l);
}

void public_route_PAYMENT_CALLBACK(struct public_call *c, struct str id)
{
    (void)id;
    c->callback = (struct payment_callback){.body = c->x->request->body, .done = paid};
    enum webhook_verdict verdict = verify_signature(c);
    if (verdict == WEBHOOK_LATE) {
        metric_add(METRIC_CALLBACKS_LATE, 0, 1);
        log_callback(c, &c->api->late, "callback_refused_late");
        public_refuse(c, REASON_SIGNATURE_INVALID, "the signature holds, but webhook-timestamp is too old (payment.webhook_tolerance_s) or more than five minutes ahead");
        return;
    }
    if (verdict == WEBHOOK_FORGED) {
        public_refuse(c, REASON_SIGNATURE_INVALID, "webhook-id, webhook-timestamp and webhook-signature must be there once each, and made with a key of ours");
        return;
    }
    c->callback.unreadable = payment_read(c->callback.body, &c->x->arena, &c->callback.what) != REASON_OK;
    if (c->callback.unreadable) {    /* signed by the channel, and not what it agreed to send: it is recorded for an operator */
        c->callback.what = (struct payment){0};
        log_callback(c, &c->api->unreadable, "callback_unreadable");
    }
    if (payment_start(c->api->desk, &c->callback)) {
        answer_callback(c);
        return;
    }
    c->paying = true;
    public_wait(c);
}

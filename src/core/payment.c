/* SPDX-License-Identifier: Apache-2.0 */
#include "payment.h"

#include "check.h"
#include "json.h"
#include "killpoint.h"
#include "metric.h"
#include "scan.h"

#define CHANNEL_MAX 64

/* ---- the body ----------------------------------------------------------------------------------------------------------------------- */

enum { AMOUNT, PAYMENT, ORDER, RESULT, CURRENCY, CHANNEL, OCCURRED, MEMBERS };
static const struct str names[MEMBERS] = {
    [AMOUNT] = str_lit("amount"), [PAYMENT] = str_lit("payment_id"), [ORDER] = str_lit("order_id"), [RESULT] = str_lit("result"),
    [CURRENCY] = str_lit("currency"), [CHANNEL] = str_lit("channel"), [OCCURRED] = str_lit("occurred_at")};

struct draft {
    unsigned seen;
    int64_t amount;
    struct str text[MEMBERS];
};

static bool member(struct scan *s, struct arena *a, struct draft *d)
{
    char memory[128];
    struct arena small = {.start = memory, .cap = sizeof memory};
    struct str name;
    if (!scan_str(s, &small, sizeof memory, &name))
        return false;
    for (int i = 0; i < MEMBERS; i++) {
        if (!str_eq(name, names[i]))
            continue;
        if (d->seen & 1u << i || !scan_char(s, ':'))
            return false;
        d->seen |= 1u << i;
        return i == AMOUNT ? scan_i64(s, &d->amount) : scan_str(s, a, CHANNEL_MAX, &d->text[i]);
    }
    return scan_char(s, ':') && scan_skip(s);
}

bool currency_good(struct str s)
{
    bool good = s.len == 3;
    for (size_t i = 0; good && i < s.len; i++)
        good = s.ptr[i] >= 'A' && s.ptr[i] <= 'Z';
    return good;
}

static bool plain(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((uint8_t)s.ptr[i] < 0x20 || s.ptr[i] == 0x7f)
            return false;
    return s.len > 0;
}

static bool filled(const struct draft *d, struct payment *out)
{
    if (d->seen != (1u << MEMBERS) - 1 || d->amount < 0)
        return false;
    *out = (struct payment){.payment = d->text[PAYMENT], .order = d->text[ORDER], .amount = d->amount, .currency = d->text[CURRENCY], .channel = d->text[CHANNEL]};
    return str_is_id(out->payment) && str_is_id(out->order) && currency_good(out->currency) && plain(out->channel) &&
           payment_result_parse(d->text[RESULT], &out->result) && time_parse(d->text[OCCURRED], &out->occurred_ms);
}

enum reason payment_read(struct str body, struct arena *a, struct payment *out)
{
    struct scan s = scan_of(body);
    struct draft d = {0};
    *out = (struct payment){0};
    if (body.len > PAYMENT_BODY_MAX)
        return REASON_PAYLOAD_TOO_LARGE;
    if (body.len == 0 || !scan_char(&s, '{'))
        return REASON_INVALID_REQUEST;
    do
        if (!member(&s, a, &d))
            return REASON_INVALID_REQUEST;
    while (scan_peek(&s) == ',' && scan_char(&s, ','));
    return scan_char(&s, '}') && scan_end(&s) && filled(&d, out) ? REASON_OK : REASON_INVALID_REQUEST;
}

void payment_write(struct buf *b, const struct payment *p)
{
    json_open(b);
    json_member_str(b, "payment_id", p->payment);
    json_member_str(b, "order_id", p->order);
    json_member_text(b, "result", payment_result_name(p->result));
    json_member_i64(b, "amount", p->amount);
    json_member_str(b, "currency", p->currency);
    json_member_str(b, "channel", p->channel);
    json_maybe_time(b, "occurred_at", p->occurred_ms);
    json_close(b);
}

/* ---- a callback ----------------------------------------------------------------------------------------------------------------------- */

/* What the ledger's silence is to who asks: nothing was recorded, or nobody knows. Either way he comes again. */
static enum reason unanswered(enum reason reason) { return reason == REASON_OVERLOADED ? reason : REASON_DEPENDENCY_DOWN; }

static bool answer(struct payment_callback *p, enum reason reason)
{
    p->reason = reason;
    metric_add(METRIC_PAYMENTS, reason, 1);
    return true;
}

static void paid(struct counter_call *call, enum reason reason)
{
    struct payment_callback *p = container_of(call, struct payment_callback, call);
    if (reason == REASON_OK) {
        KILLPOINT(PAY_ANSWERED);
        p->replayed = !call->paid.fresh;
        p->refund = call->paid.refund;
    }
    answer(p, reason == REASON_OK ? call->paid.outcome : reason == REASON_POISON ? REASON_INVALID_REQUEST : unanswered(reason));
    p->done(p);
}

bool payment_start(struct desk *d, struct payment_callback *p)
{
    struct ident ident;
    bool ours = ident_parse(p->what.order, IDENT_ORDER, &ident) && ident_ours(d->keys, ident);
    p->replayed = p->refund = false;
    p->call = (struct counter_call){.pay = {.webhook = p->webhook, .body = p->body, .what = p->what}, .done = paid};
    sha256(p->body, p->call.pay.digest);
    if (ours) {
        ident_write(ident, IDENT_RESERVATION, p->reservation);
        p->call.pay.reservation = (struct str){p->reservation, IDENT_ID_TEXT};
    }
    KILLPOINT(PAY_BEFORE);
    return counter_put(&d->pays, &p->call) ? false : answer(p, REASON_OVERLOADED);
}

void payment_let_go(struct payment_callback *p) { counter_let_go(&p->call); }

/* ---- a cancel ------------------------------------------------------------------------------------------------------------------------- */

static void canceled(struct counter_call *call, enum reason reason)
{
    struct payment_cancel *p = container_of(call, struct payment_cancel, call);
    if (reason == REASON_OK) {
        KILLPOINT(CANCEL_ANSWERED);
        if (call->canceled.outcome == REASON_CANCELED && call->canceled.fresh)
            metric_add(METRIC_CANCELED, REASON_CANCELED, 1);
    }
    reason = reason == REASON_OK ? call->canceled.outcome : unanswered(reason);
    p->reason = reason == REASON_ENGINE_BUSY ? REASON_OVERLOADED : reason;    /* somebody holds the order at this moment: nothing happened */
    p->done(p);
}

/* Names we never made, and other people's, are refused without a look-up. */
bool payment_cancel_start(struct desk *d, struct payment_cancel *p)
{
    struct ident ident;
    p->call = (struct counter_call){.cancel = {.order = p->order, .user = p->user}, .done = canceled};
    if (!str_is_id(p->user) || !ident_parse(p->order, IDENT_ORDER, &ident) || !ident_ours(d->keys, ident) || !ident_of_user(ident, user_hash(d->keys, p->user))) {
        p->reason = REASON_NOT_FOUND;
        return true;
    }
    p->reason = REASON_OVERLOADED;
    KILLPOINT(CANCEL_BEFORE);
    return !counter_put(&d->cancels, &p->call);
}

void payment_cancel_let_go(struct payment_cancel *p) { counter_let_go(&p->call); }

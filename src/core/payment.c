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

/* The value of each member as it stands in the body; NULL: it is not there. */
struct draft {
    struct str value[MEMBERS];
};

static bool skip_text(struct scan *s)
{
    for (s->at++; s->at < s->end && *s->at != '"'; s->at++)
        if (*s->at == '\\' && ++s->at == s->end)
            return false;
    return s->at < s->end && s->at++;
}

static bool ends_word(char c) { return c == ',' || c == ':' || c == '}' || c == ']' || c == '{' || c == '[' || c == '"' || c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* Any one value, found by its brackets and quotes alone: how deep it is, what its texts and numbers say, and whether its names repeat is not judged. */
static bool skip_value(struct scan *s, struct str *value)
{
    size_t depth = 0;
    scan_peek(s);
    const char *from = s->at;
    do {
        char c = scan_peek(s);
        if (s->at == s->end)
            return false;
        const char *before = s->at;
        if (c == '"') {
            if (!skip_text(s))
                return false;
        } else if (c == '{' || c == '[') {
            depth++, s->at++;
        } else if (depth > 0 && (c == '}' || c == ']')) {
            depth--, s->at++;
        } else if (depth > 0 && (c == ',' || c == ':')) {
            s->at++;
        } else {
            while (s->at < s->end && !ends_word(*s->at))
                s->at++;
            if (s->at == before)
                return false;
        }
    } while (depth > 0);
    *value = str_range(from, s->at);
    return true;
}

static bool read_text(struct str value, struct arena *a, struct str *out)
{
    struct scan s = scan_of(value);
    return value.ptr && scan_str(&s, a, CHANNEL_MAX, out) && scan_end(&s);
}

/* Which member the name, quotes and all, is; MEMBERS: one that we do not know. */
static int member_named(struct str name)
{
    char memory[64];
    struct arena small = {.start = memory, .cap = sizeof memory};
    struct str text;
    if (name.len > 72 || !read_text(name, &small, &text))
        return MEMBERS;
    int i = 0;
    while (i < MEMBERS && !str_eq(text, names[i]))
        i++;
    return i;
}

static bool read_member(struct scan *s, struct draft *d)
{
    struct str name, value;
    if (scan_peek(s) != '"' || !skip_value(s, &name) || !scan_char(s, ':') || !skip_value(s, &value))
        return false;
    int i = member_named(name);
    if (i < MEMBERS && d->value[i].ptr)
        return false;
    if (i < MEMBERS)
        d->value[i] = value;
    return true;
}

/* "9900" and "9900.00", for channels that write all numbers alike. */
bool amount_read(struct str text, int64_t *out)
{
    const char *dot = text.len > 0 ? memchr(text.ptr, '.', text.len) : NULL;
    size_t whole = dot ? (size_t)(dot - text.ptr) : text.len;
    for (size_t i = whole + 1; i < text.len; i++)
        if (text.ptr[i] != '0')
            return false;
    struct scan s = scan_of((struct str){text.ptr, whole});
    return whole + 1 != text.len && whole > 0 && scan_i64(&s, out) && scan_end(&s) && *out >= 0;
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

/* A FAILED has no money: what it says of amount and currency is taken where it is right, and else not. */
static bool read_money(const struct draft *d, struct arena *a, struct payment *out)
{
    bool amount = d->value[AMOUNT].ptr && amount_read(d->value[AMOUNT], &out->amount);
    bool currency = read_text(d->value[CURRENCY], a, &out->currency) && currency_good(out->currency);
    if (out->result == PAYMENT_SUCCESS)
        return amount && currency;
    out->amount = amount ? out->amount : 0;
    out->currency = currency ? out->currency : (struct str){0};
    return true;
}

static bool filled(const struct draft *d, struct arena *a, struct payment *out)
{
    struct str result, occurred;
    return read_text(d->value[PAYMENT], a, &out->payment) && str_is_id(out->payment) && read_text(d->value[ORDER], a, &out->order) && str_is_id(out->order) &&
           read_text(d->value[CHANNEL], a, &out->channel) && plain(out->channel) && read_text(d->value[RESULT], a, &result) &&
           payment_result_parse(result, &out->result) && read_text(d->value[OCCURRED], a, &occurred) && time_parse(occurred, &out->occurred_ms) &&
           read_money(d, a, out);
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
        if (!read_member(&s, &d))
            return REASON_INVALID_REQUEST;
    while (scan_peek(&s) == ',' && scan_char(&s, ','));
    return scan_char(&s, '}') && scan_end(&s) && filled(&d, a, out) ? REASON_OK : REASON_INVALID_REQUEST;
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

static void on_recorded(struct waiter *w, enum reason reason, const void *result)
{
    (void)result;
    struct payment_callback *p = container_of(w, struct payment_callback, recorder);
    answer(p, reason == REASON_OK ? REASON_PAYMENT_QUARANTINED : unanswered(reason));
    p->done(p);
}

/* Nothing in it can be judged: an operator reads it, as it came. */
static void record_unreadable(struct payment_callback *p)
{
    struct callback_ask ask = {.webhook = p->webhook, .body = p->body};
    sha256(p->body, ask.digest);
    p->recorder = (struct waiter){.wake = on_recorded, .budget_ms = p->desk->options.pays.call_ms};
    ledger_callback(p->desk->ledger, &ask, &p->recorder);
}

static void paid(struct counter_call *call, enum reason reason)
{
    struct payment_callback *p = container_of(call, struct payment_callback, call);
    if (reason == REASON_OK) {
        KILLPOINT(PAY_ANSWERED);
        p->replayed = !call->paid.fresh;
        p->refund = call->paid.refund;
    }
    if (reason == REASON_POISON) {    /* the ledger can never take it as a payment */
        p->what = (struct payment){0};
        record_unreadable(p);
        return;
    }
    answer(p, reason == REASON_OK ? call->paid.outcome : unanswered(reason));
    p->done(p);
}

bool payment_start(struct desk *d, struct payment_callback *p)
{
    struct ident ident;
    bool ours = ident_parse(p->what.order, IDENT_ORDER, &ident) && ident_ours(d->keys, ident);
    p->replayed = p->refund = false;
    p->recorder = (struct waiter){0};
    p->desk = d;
    p->call = (struct counter_call){.pay = {.webhook = p->webhook, .body = p->body, .what = p->what}, .done = paid};
    if (p->unreadable) {
        record_unreadable(p);
        return false;
    }
    sha256(p->body, p->call.pay.digest);
    if (ours) {
        ident_write(ident, IDENT_RESERVATION, p->reservation);
        p->call.pay.reservation = (struct str){p->reservation, IDENT_ID_TEXT};
    }
    KILLPOINT(PAY_BEFORE);
    return counter_put(&d->pays, &p->call) ? false : answer(p, REASON_OVERLOADED);
}

void payment_let_go(struct payment_callback *p)
{
    counter_let_go(&p->call);
    waiter_drop(&p->recorder);
}

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

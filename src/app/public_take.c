/* SPDX-License-Identifier: Apache-2.0
 * public_take.c: POST /v1/reservations: who asks for what, with which token, and what he is told. */
#include "public.h"

#include "json.h"
#include "metric.h"
#include "problem.h"
#include "public_body.h"
#include "qualification.h"

/* traceparent of W3C Trace Context, or empty: what cannot be read is as good as absent. */
static struct str trace_of(const struct http_request *r)
{
    struct str t = http_header(r, str_lit("traceparent"));
    bool good = t.len == 55 && t.ptr[2] == '-' && t.ptr[35] == '-' && t.ptr[52] == '-';
    for (size_t i = 0; good && i < t.len; i++)
        good = (t.ptr[i] >= '0' && t.ptr[i] <= '9') || (t.ptr[i] >= 'a' && t.ptr[i] <= 'f') || i == 2 || i == 35 || i == 52;
    return good ? t : (struct str){0};
}

static void answer_good_take(struct public_call *c)
{
    const struct take *t = &c->take;
    char memory[PUBLIC_BODY_MAX], lines[256], id[IDENT_ID_TEXT];
    struct buf body = buf_fixed(memory, sizeof memory), headers = buf_fixed(lines, sizeof lines);
    public_body_take(&body, t);
    if (t->has_entry) {
        ident_write(t->entry.ident, IDENT_RESERVATION, id);
        buf_add_str(&headers, str_lit("Location: /v1/reservations/"));
        buf_add(&headers, id, sizeof id);
        buf_add_str(&headers, str_lit("\r\n"));
    }
    if (t->replayed)
        buf_add_str(&headers, str_lit("Idempotency-Replayed: true\r\n"));
    if (t->reason == REASON_UNCERTAIN)
        buf_add_str(&headers, str_lit("Retry-After: 1\r\n"));
    check(buf_ok(&headers));
    public_answer(c, reason_row(t->reason)->http, t->reason, &body, buf_str(&headers));
}

/* Seconds until the sale starts, as Retry-After: 1 at least, and an hour at most. Counted by the clock that judges the start: where ours is ahead of it,
 * the client would else come too early, again and again. */
static uint32_t seconds_until_start(const struct take *t)
{
    int64_t left_s = (t->starts_ms - t->now_ms + 999) / 1000;
    return left_s < 1 ? 1 : left_s > 3600 ? 3600 : (uint32_t)left_s;
}

/* Refusals that say more than their word. */
static void refuse_with(struct public_call *c, uint32_t retry_after_s)
{
    const struct take *t = &c->take;
    char memory[256], id[IDENT_ID_TEXT];
    struct buf members = buf_fixed(memory, sizeof memory);
    if (t->reason == REASON_NOT_STARTED) {
        json_member_time(&members, "starts_at", t->starts_ms);
    } else {
        ident_write(t->entry.ident, IDENT_RESERVATION, id);
        json_member_str(&members, "reservation_id", (struct str){id, sizeof id});
    }
    struct problem p = {.code = t->reason, .request_id = t->request, .members = buf_str(&members), .retry_after_s = retry_after_s};
    public_ended(c, t->reason);
    problem_answer(c->x, &p);
}

/* Nothing was taken by this request; that says nothing of an earlier one. */
static const char *detail_of_refusal(const struct public_call *c)
{
    enum reason reason = c->take.reason;
    if (reason == REASON_OVERLOADED || reason == REASON_DEPENDENCY_DOWN)
        return "this request took nothing; an earlier request with the same request_id may hold a unit: send it again with the same request_id";
    if (reason == REASON_QUALIFICATION_INVALID && c->token_refused)
        return "the token was not issued by us, or not for this user, activity and item";
    return NULL;
}

static void answer_take(struct public_call *c)
{
    const struct take *t = &c->take;
    metric_observe(METRIC_TAKE_SECONDS, clock_mono_us(c->api->clock) - c->began_us);
    if (reason_row(t->reason)->http < 300)
        answer_good_take(c);
    else if (t->reason == REASON_NOT_STARTED && t->starts_ms > 0)
        refuse_with(c, seconds_until_start(t));
    else if (t->reason == REASON_ALREADY_PURCHASED && t->has_entry)
        refuse_with(c, 0);
    else if (detail_of_refusal(c))
        public_refuse(c, t->reason, detail_of_refusal(c));
    else
        public_refuse_plainly(c, t->reason);
}

static void took(struct take *t) { answer_take(container_of(t, struct public_call, take)); }

static bool key_fits(const struct http_request *r, struct str request)
{
    struct str key = http_header(r, str_lit("idempotency-key"));
    if (key.len > 2 && key.ptr[0] == '"' && key.ptr[key.len - 1] == '"')    /* a structured field's string */
        key = (struct str){key.ptr + 1, key.len - 2};
    return !key.ptr || (str_eq(key, request) && public_header_once(r, str_lit("idempotency-key")));
}

/* The nonce of the token, if one came. With one that is past its time, or is not ours or not for this purchase, the user still finds what he has: false for
 * the latter. */
static bool qualify(struct public_call *c)
{
    struct str token = http_header(c->x->request, str_lit("seckill-qualification"));
    struct qualification q;
    if (!token.ptr)
        return true;    /* core knows whether the activity demands one */
    if (!public_header_once(c->x->request, str_lit("seckill-qualification")) || !qualification_read(c->api->options.config->qualification_keys, token, &c->x->arena, &q))
        return false;
    if (!str_eq(q.activity, c->take.activity) || !str_eq(q.sku, c->take.sku) || !str_eq(q.user, c->take.user))
        return false;
    c->take.nonce = q.nonce;
    c->take.replay_only = q.expires_s * 1000 < clock_now_ms(c->api->clock);
    return true;
}

void public_route_RESERVE(struct public_call *c, struct str id)
{
    const struct http_request *r = c->x->request;
    const char *why = NULL;
    struct str user = {0};
    (void)id;
    enum reason good = request_read(r->body, &c->body);
    if (good != REASON_OK) {
        c->body.request = (struct str){0};
        public_refuse(c, good, "the body must be one object of activity_id, sku_id, request_id and, where the user is named here, user_id, each an id and none twice");
        return;
    }
    if (!key_fits(r, c->body.request)) {
        public_refuse(c, REASON_INVALID_REQUEST, "Idempotency-Key is not the request_id");
        return;
    }
    good = public_identify(c, c->body.user, &user, &why);
    if (good != REASON_OK) {
        public_refuse(c, good, why);
        return;
    }
    c->take.activity = c->body.activity;
    c->take.sku = c->body.sku;
    c->take.request = c->body.request;
    c->take.user = user;
    c->take.trace = trace_of(r);
    c->take.done = took;
    c->token_refused = !qualify(c);
    c->take.replay_only |= c->token_refused;
    bool answered = reservation_take(c->api->desk, &c->take);
    metric_observe(METRIC_ADMISSION_SECONDS, clock_mono_us(c->api->clock) - c->began_us);
    if (answered) {
        answer_take(c);
        return;
    }
    c->taking = true;
    public_wait(c);
}

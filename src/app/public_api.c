/* SPDX-License-Identifier: Apache-2.0
 * public_api.c: route → who asks → core → words. What a request needs lives in the arena of its exchange (struct call). The words of
 * every plain refusal are made once, at the start, with a gap for the request_id: SOLD_OUT is said a hundred thousand times a second. */
#include "public_api.h"

#include <errno.h>
#include <stdlib.h>

#include "json.h"
#include "jwt.h"
#include "metric.h"
#include "payment.h"
#include "problem.h"
#include "public_body.h"
#include "qualification.h"
#include "request.h"
#include "webhook.h"

extern const unsigned char openapi[];
extern const size_t openapi_size;

#define WAIT_MAX_MS 25000
#define STREAM_WAIT_MS 2000           /* one look of an event stream */
#define STREAM_QUIET_US 10000000u     /* a comment, so that nobody between takes the stream for dead */
#define STREAM_MAX_US 120000000u      /* then it ends, and the client comes again by itself */
#define STREAM_RETRY_US 1000000u      /* after a look that found no answer */
#define BODY_MAX 4096                 /* of an answer made on the stack */
#define REFUNDS_MAX 2560              /* of it, the refunds of an order */

/* A refusal without detail: body before and after the request_id. */
struct refusal {
    struct str before, after, headers;
    int status;
};

struct public_api {
    struct public_options options;
    struct desk *desk;
    struct clock *clock;
    struct http_server *server;
    struct jwt_keys *jwt;             /* NULL: auth.mode = none */
    struct refusal refusals[REASON_COUNT];
    struct buf words;                 /* what they point into */
    struct http_ready openapi;
    struct link out;                  /* calls that core still works on */
    uv_timer_t gauges;
    struct http_server_stats shown;
    bool draining;
};

struct call {
    struct link link;                 /* in `out`; alone while core has nothing of it */
    struct public_api *api;
    struct http_exchange *x;
    uint64_t began_us;
    struct request body;
    union {
        struct take take;
        struct query query;
        struct payment_callback callback;
        struct payment_cancel cancel;
    };
    bool taking, asking, paying, canceling, reading;    /* what is with core: one of the four, or the list of activities */
    struct str refunds;               /* of an order: JSON, or empty */
    struct catalog_wait catalog;
    struct str activity;
    /* an event stream */
    bool streaming;
    enum reservation_state shown;     /* NONE: nothing yet */
    uint64_t last_us;
    uint32_t events;
    struct alarm rest;
};

/* ---- saying ------------------------------------------------------------------------------------------------------------------ */

static void observe(struct public_api *a, enum reason code, uint64_t began_us)
{
    metric_add(METRIC_HTTP_REQUESTS, code, 1);
    metric_observe(METRIC_HTTP_SECONDS, clock_mono_us(a->clock) - began_us);
}

/* The exchange has ended, and the call's memory with it. */
static void ended(struct call *c, enum reason code)
{
    list_remove(&c->link);
    observe(c->api, code, c->began_us);
}

static void refuse(struct call *c, enum reason code, const char *detail)
{
    struct problem p = {.code = code, .detail = str_of(detail), .request_id = c->body.request};
    if (code == REASON_UNAUTHENTICATED)
        p.headers = str_lit("WWW-Authenticate: Bearer\r\n");
    ended(c, code);
    problem_answer(c->x, &p);
}

/* As refuse, where the row's own text says all: the words are there already. */
static void refuse_plainly(struct call *c, enum reason code)
{
    const struct refusal *r = &c->api->refusals[code];
    char memory[BODY_MAX / 4];
    struct buf body = buf_fixed(memory, sizeof memory);
    if (c->body.request.len == 0 || r->status == 0) {
        refuse(c, code, NULL);
        return;
    }
    buf_add_str(&body, r->before);
    buf_add_str(&body, c->body.request);    /* an id: nothing in it needs escaping */
    buf_add_str(&body, r->after);
    check(buf_ok(&body));
    ended(c, code);
    http_answer(c->x, r->status, str_lit(PROBLEM_TYPE), buf_str(&body), r->headers);
}

static void answer_json(struct call *c, int status, enum reason code, const struct buf *body, struct str headers)
{
    check(buf_ok(body));
    ended(c, code);
    http_answer(c->x, status, str_lit("application/json"), buf_str(body), headers);
}

#define MARK "@"
static void make_refusals(struct public_api *a)
{
    size_t at[REASON_COUNT + 1];
    char memory[PROBLEM_MAX];
    a->words = buf_growing(1 << 20);
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        struct buf one = buf_fixed(memory, sizeof memory);
        at[i] = a->words.len;
        if (reason_row(i)->http >= 400)
            problem_write(&one, &(struct problem){.code = (enum reason)i, .request_id = str_lit(MARK)});
        check(buf_ok(&one));
        buf_add_str(&a->words, buf_str(&one));
    }
    at[REASON_COUNT] = a->words.len;
    check(buf_ok(&a->words));
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        struct str all = {a->words.ptr + at[i], at[i + 1] - at[i]};
        const char *gap = all.len ? memmem(all.ptr, all.len, "\"" MARK "\"", 3) : NULL;
        if (!gap)
            continue;
        bool again = reason_fate((enum reason)i) == FATE_RETRY;
        a->refusals[i] = (struct refusal){.status = problem_status((enum reason)i), .before = str_range(all.ptr, gap + 1),
                                          .after = str_range(gap + 2, all.ptr + all.len), .headers = again ? str_lit("Retry-After: 1\r\n") : (struct str){0}};
    }
}

/* ---- who asks ----------------------------------------------------------------------------------------------------------------- */

/* OK and *user; `named`: the user_id that the request gives, or empty. */
static enum reason identify(struct call *c, struct str named, struct str *user, const char **why)
{
    if (named.len > 0 && !str_is_id(named)) {
        *why = "user_id is no id";
        return REASON_INVALID_REQUEST;
    }
    if (!c->api->jwt) {
        *user = named;
        *why = "name the user in user_id";
        return named.len > 0 ? REASON_OK : REASON_INVALID_REQUEST;
    }
    struct str said = http_header(c->x->request, str_lit("authorization"));
    *why = "send Authorization: Bearer and a token";
    if (said.len < 8 || !str_eq_nocase((struct str){said.ptr, 7}, str_lit("bearer ")))
        return REASON_UNAUTHENTICATED;
    *why = jwt_verify(c->api->jwt, str_trim((struct str){said.ptr + 7, said.len - 7}), clock_now_ms(c->api->clock) / 1000, &c->x->arena, user);
    if (*why)
        return REASON_UNAUTHENTICATED;
    *why = "user_id is not who the token says";
    return named.len == 0 || str_eq(named, *user) ? REASON_OK : REASON_FORBIDDEN;
}

/* A header that must not be there twice: which of the two would be meant? */
static bool header_once(const struct http_request *r, struct str name)
{
    size_t seen = 0;
    for (size_t i = 0; i < r->header_count; i++)
        seen += r->headers[i].name.len == name.len && str_eq_nocase(r->headers[i].name, name);
    return seen <= 1;
}

/* traceparent of W3C Trace Context, or empty: what cannot be read is as good as absent. */
static struct str trace_of(const struct http_request *r)
{
    struct str t = http_header(r, str_lit("traceparent"));
    bool good = t.len == 55 && t.ptr[2] == '-' && t.ptr[35] == '-' && t.ptr[52] == '-';
    for (size_t i = 0; good && i < t.len; i++)
        good = (t.ptr[i] >= '0' && t.ptr[i] <= '9') || (t.ptr[i] >= 'a' && t.ptr[i] <= 'f') || i == 2 || i == 35 || i == 52;
    return good ? t : (struct str){0};
}

/* ---- POST /v1/reservations ------------------------------------------------------------------------------------------------------ */

static void answer_good_take(struct call *c)
{
    const struct take *t = &c->take;
    char memory[BODY_MAX], lines[256], id[IDENT_ID_TEXT];
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
    answer_json(c, reason_row(t->reason)->http, t->reason, &body, buf_str(&headers));
}

/* Seconds until the sale starts, as Retry-After: 1 at least, and an hour at most. */
static uint32_t seconds_until(struct call *c, int64_t starts_ms)
{
    int64_t left_s = (starts_ms - clock_now_ms(c->api->clock) + 999) / 1000;
    return left_s < 1 ? 1 : left_s > 3600 ? 3600 : (uint32_t)left_s;
}

/* Refusals that say more than their word. */
static void refuse_with(struct call *c, uint32_t retry_after_s)
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
    ended(c, t->reason);
    problem_answer(c->x, &p);
}

static void answer_take(struct call *c)
{
    const struct take *t = &c->take;
    metric_observe(METRIC_TAKE_SECONDS, clock_mono_us(c->api->clock) - c->began_us);
    if (reason_row(t->reason)->http < 300)
        answer_good_take(c);
    else if (t->reason == REASON_NOT_STARTED && t->starts_ms > 0)
        refuse_with(c, seconds_until(c, t->starts_ms));
    else if (t->reason == REASON_ALREADY_PURCHASED && t->has_entry)
        refuse_with(c, 0);
    else
        refuse_plainly(c, t->reason);
}

static void took(struct take *t) { answer_take(container_of(t, struct call, take)); }

static bool key_fits(const struct http_request *r, struct str request)
{
    struct str key = http_header(r, str_lit("idempotency-key"));
    if (key.len > 2 && key.ptr[0] == '"' && key.ptr[key.len - 1] == '"')    /* a structured field's string */
        key = (struct str){key.ptr + 1, key.len - 2};
    return !key.ptr || (str_eq(key, request) && header_once(r, str_lit("idempotency-key")));
}

/* The nonce of the token, if one came; one that we issued but is past its time may still find what its user has. */
static bool qualify(struct call *c)
{
    struct str token = http_header(c->x->request, str_lit("seckill-qualification"));
    struct qualification q;
    if (!token.ptr)
        return true;    /* core knows whether the activity demands one */
    if (!header_once(c->x->request, str_lit("seckill-qualification")) || !qualification_read(c->api->options.config->qualification_keys, token, &c->x->arena, &q))
        return false;
    if (!str_eq(q.activity, c->take.activity) || !str_eq(q.sku, c->take.sku) || !str_eq(q.user, c->take.user))
        return false;
    c->take.nonce = q.nonce;
    c->take.replay_only = q.expires_s * 1000 < clock_now_ms(c->api->clock);
    return true;
}

static void route_RESERVE(struct call *c, struct str id)
{
    const struct http_request *r = c->x->request;
    const char *why = NULL;
    struct str user = {0};
    (void)id;
    enum reason good = request_read(r->body, &c->body);
    if (good != REASON_OK) {
        c->body.request = (struct str){0};
        refuse(c, good, "the body must be one object of activity_id, sku_id, request_id and, where the user is named here, user_id, each an id and none twice");
        return;
    }
    if (!key_fits(r, c->body.request)) {
        refuse(c, REASON_INVALID_REQUEST, "Idempotency-Key is not the request_id");
        return;
    }
    good = identify(c, c->body.user, &user, &why);
    if (good != REASON_OK) {
        refuse(c, good, why);
        return;
    }
    c->take.activity = c->body.activity;
    c->take.sku = c->body.sku;
    c->take.request = c->body.request;
    c->take.user = user;
    c->take.trace = trace_of(r);
    c->take.done = took;
    if (!qualify(c)) {
        refuse(c, REASON_QUALIFICATION_INVALID, "the token was not issued by us, or not for this user, activity and item");
        return;
    }
    bool answered = reservation_take(c->api->desk, &c->take);
    metric_observe(METRIC_ADMISSION_SECONDS, clock_mono_us(c->api->clock) - c->began_us);
    if (answered) {
        answer_take(c);
        return;
    }
    c->taking = true;
    list_append(&c->api->out, &c->link);
}

/* ---- queries ---------------------------------------------------------------------------------------------------------------------- */

/* "2s", "1500ms", "2": true and milliseconds. Absent: 0. */
static bool read_wait(struct call *c, uint32_t *ms)
{
    bool twice = false;
    struct str text = http_query(c->x->request, str_lit("wait"), &twice);
    uint64_t n = 0, unit = 1000;
    *ms = 0;
    if (!text.ptr)
        return true;
    if (text.len > 2 && str_eq((struct str){text.ptr + text.len - 2, 2}, str_lit("ms")))
        unit = 1, text.len -= 2;
    else if (text.len > 1 && text.ptr[text.len - 1] == 's')
        text.len--;
    if (twice || text.len > 6 || !str_to_u64(text, &n) || n * unit > WAIT_MAX_MS)
        return false;
    *ms = (uint32_t)(n * unit);
    return true;
}

static void let_go(struct call *c)
{
    if (c->taking)
        reservation_let_go(&c->take);
    if (c->asking)
        query_let_go(&c->query);
    if (c->paying)
        payment_let_go(&c->callback);
    if (c->canceling)
        payment_cancel_let_go(&c->cancel);
    if (c->reading)
        catalog_let_go(&c->catalog);
    clock_unset(c->api->clock, &c->rest);
    list_remove(&c->link);
}

/* The client has left a call that waited: nobody needs the answer. */
static void on_gone(struct http_exchange *x)
{
    struct call *c = x->state;
    let_go(c);
    observe(c->api, REASON_CANCELLED, c->began_us);
}

static void answer_query(struct call *c)
{
    char memory[BODY_MAX];
    struct buf body = buf_fixed(memory, sizeof memory);
    const struct query *q = &c->query;
    if (q->reason != REASON_OK) {
        refuse_plainly(c, q->reason);
        return;
    }
    if (q->by == QUERY_ORDER)
        public_body_order(&body, &q->order, c->refunds);
    else
        public_body_reservation(&body, &q->view);
    answer_json(c, 200, REASON_OK, &body, str_lit("Cache-Control: no-store\r\n"));
}

static void queried(struct query *q) { answer_query(container_of(q, struct call, query)); }

/* What every query needs of the request; false: refused. */
static bool prepare(struct call *c, enum query_by by, struct str id, void (*done)(struct query *))
{
    bool twice = false;
    const char *why = NULL;
    struct query *q = &c->query;
    struct str named = http_query(c->x->request, str_lit("user_id"), &twice);
    *q = (struct query){.by = by, .id = id, .done = done};
    if (!read_wait(c, &q->wait_ms)) {
        refuse(c, REASON_INVALID_REQUEST, "wait is up to 25s, as in ?wait=2s");
        return false;
    }
    enum reason good = twice ? REASON_INVALID_REQUEST : identify(c, named, &q->user, &why);
    if (good != REASON_OK)
        refuse(c, good, why ? why : "user_id is there twice");
    return good == REASON_OK;
}

static void ask(struct call *c)
{
    if (query_start(c->api->desk, &c->query)) {
        c->query.done(&c->query);
        return;
    }
    c->asking = true;
    list_remove(&c->link);
    list_append(&c->api->out, &c->link);
    if (c->query.wait_ms > 0 || c->streaming)
        c->x->gone = on_gone;
}

static void route_RESERVATION(struct call *c, struct str id)
{
    if (prepare(c, QUERY_RESERVATION, id, queried))
        ask(c);
}

static void route_REQUEST(struct call *c, struct str id)
{
    if (!prepare(c, QUERY_REQUEST, id, queried))
        return;
    bool twice = false;
    c->query.activity = http_query(c->x->request, str_lit("activity_id"), &twice);
    c->body.request = id;
    if (twice || !str_is_id(c->query.activity))
        refuse(c, REASON_INVALID_REQUEST, "name the activity in activity_id");
    else
        ask(c);
}

/* Texts of what was paid live only now; the refunds among it are put into words at once. */
static void order_paid(struct query *q, const struct payment_record *payments, size_t count)
{
    struct call *c = container_of(q, struct call, query);
    char *memory = arena_take(&c->x->arena, REFUNDS_MAX);
    check(memory != NULL);    /* the arena was made for it */
    struct buf out = buf_fixed(memory, REFUNDS_MAX);
    public_body_refunds(&out, payments, count);
    c->refunds = buf_str(&out);
}

static void route_ORDER(struct call *c, struct str id)
{
    if (!prepare(c, QUERY_ORDER, id, queried))
        return;
    c->query.wait_ms = 0;
    c->query.payments = order_paid;
    ask(c);
}

/* ---- cancels ----------------------------------------------------------------------------------------------------------------------------- */

static void answer_cancel(struct call *c)
{
    char memory[BODY_MAX / 4];
    struct buf body = buf_fixed(memory, sizeof memory);
    enum reason reason = c->cancel.reason;
    if (reason == REASON_DEPENDENCY_DOWN) {
        refuse(c, reason, "whether the order is cancelled is not known now: ask again");
        return;
    }
    if (reason != REASON_CANCELED) {
        refuse(c, reason, NULL);
        return;
    }
    json_open(&body);
    json_member_str(&body, "order_id", c->cancel.order);
    json_member_text(&body, "status", order_state_name(ORDER_CANCELED));
    json_close(&body);
    answer_json(c, 200, REASON_CANCELED, &body, (struct str){0});
}

static void canceled(struct payment_cancel *p) { answer_cancel(container_of(p, struct call, cancel)); }

static void route_ORDER_CANCEL(struct call *c, struct str id)
{
    bool twice = false;
    const char *why = NULL;
    struct str named = http_query(c->x->request, str_lit("user_id"), &twice);
    c->cancel = (struct payment_cancel){.order = id, .done = canceled};
    if (str_trim(c->x->request->body).len > 0) {
        refuse(c, REASON_INVALID_REQUEST, "a cancel has no body");
        return;
    }
    enum reason good = twice ? REASON_INVALID_REQUEST : identify(c, named, &c->cancel.user, &why);
    if (good != REASON_OK) {
        refuse(c, good, why ? why : "user_id is there twice");
        return;
    }
    if (payment_cancel_start(c->api->desk, &c->cancel)) {
        answer_cancel(c);
        return;
    }
    c->canceling = true;
    list_append(&c->api->out, &c->link);
}

/* ---- payments ----------------------------------------------------------------------------------------------------------------------------- */

static void answer_callback(struct call *c)
{
    const struct payment_callback *p = &c->callback;
    char memory[BODY_MAX / 4];
    struct buf body = buf_fixed(memory, sizeof memory);
    if (p->reason == REASON_INVALID_REQUEST || reason_row(p->reason)->http >= 300) {
        refuse(c, p->reason, p->reason == REASON_DEPENDENCY_DOWN ? "whether the payment is recorded is not known now: send it again with the same webhook-id" : NULL);
        return;
    }
    json_open(&body);
    json_member_text(&body, "code", reason_word(p->reason));
    json_member_str(&body, "payment_id", p->what.payment);
    json_member_str(&body, "order_id", p->what.order);
    json_member_bool(&body, "refund", p->refund);
    json_member_text(&body, "message", reason_row(p->reason)->text);
    json_close(&body);
    answer_json(c, 200, p->reason, &body, p->replayed ? str_lit("Idempotency-Replayed: true\r\n") : (struct str){0});
}

static void paid(struct payment_callback *p) { answer_callback(container_of(p, struct call, callback)); }

/* The signature over the bytes as they came, before anything in them is looked at. */
static bool signature_holds(struct call *c)
{
    static const struct str names[] = {str_lit("webhook-id"), str_lit("webhook-timestamp"), str_lit("webhook-signature")};
    const struct http_request *r = c->x->request;
    struct webhook hook = {http_header(r, names[0]), http_header(r, names[1]), http_header(r, names[2])};
    bool once = true;
    for (size_t i = 0; i < countof(names); i++)
        once &= header_once(r, names[i]);
    c->callback.webhook = hook.id;
    return once && webhook_verify(c->api->options.config->payment_webhook_keys, &hook, r->body, clock_now_ms(c->api->clock) / 1000);
}

static void route_PAYMENT_CALLBACK(struct call *c, struct str id)
{
    (void)id;
    c->callback = (struct payment_callback){.body = c->x->request->body, .done = paid};
    if (!signature_holds(c)) {
        refuse(c, REASON_SIGNATURE_INVALID, "webhook-id, webhook-timestamp and webhook-signature must be there once each, no more than five minutes old, and made with a key of ours");
        return;
    }
    enum reason good = payment_read(c->callback.body, &c->x->arena, &c->callback.what);
    if (good != REASON_OK) {    /* signed by the channel, and not what it agreed to send: somebody should know */
        struct log_line l = log_event(LEVEL_ERROR, "payment_unreadable");
        log_str(&l, "webhook_id", c->callback.webhook);
        log_end(&l);
        refuse(c, good, "payment_id, order_id, result (SUCCESS or FAILED), amount, currency, channel and occurred_at, each once; others are passed over");
        return;
    }
    if (payment_start(c->api->desk, &c->callback)) {
        answer_callback(c);
        return;
    }
    c->paying = true;
    list_append(&c->api->out, &c->link);
}

/* ---- event streams ------------------------------------------------------------------------------------------------------------------ */

static void stream_end(struct call *c)
{
    list_remove(&c->link);
    clock_unset(c->api->clock, &c->rest);
    ended(c, REASON_OK);
    http_stream_end(c->x);
}

static bool stream_state(struct call *c)
{
    char memory[BODY_MAX];
    struct buf out = buf_fixed(memory, sizeof memory);
    c->shown = c->query.view.status;
    buf_add_fmt(&out, "id: %u\nevent: status\ndata: ", ++c->events);
    size_t at = out.len;
    struct buf body = buf_fixed(memory + at, sizeof memory - at);
    public_body_reservation(&body, &c->query.view);
    out.len += body.len;
    buf_add_str(&out, str_lit("\n\n"));
    check(buf_ok(&body) && buf_ok(&out));
    return http_stream_send(c->x, buf_str(&out));
}

static void streamed(struct query *q);

static void look_again(struct call *c)
{
    c->query.wait_ms = STREAM_WAIT_MS;
    c->query.done = streamed;
    ask(c);
}

static void rested(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    look_again(container_of(container_of(w, struct alarm, waiter), struct call, rest));
}

/* One look has ended. */
static void streamed(struct query *q)
{
    struct call *c = container_of(q, struct call, query);
    uint64_t now = clock_mono_us(c->api->clock);
    bool good = q->reason == REASON_OK, alive = true;
    c->asking = false;
    if (!c->streaming) {
        if (!good) {
            refuse_plainly(c, q->reason);
            return;
        }
        c->streaming = true;
        http_stream_begin(c->x, 200, str_lit("text/event-stream"), str_lit("Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n"));
        alive = http_stream_send(c->x, str_lit("retry: 2000\n\n"));
    }
    if (good && alive && c->query.view.status != c->shown) {
        alive = stream_state(c);
        c->last_us = now;
    } else if (alive && now - c->last_us > STREAM_QUIET_US) {
        alive = http_stream_send(c->x, str_lit(":\n\n"));
        c->last_us = now;
    }
    if (!alive || reservation_state_terminal(c->shown) || c->api->draining || now - c->began_us > STREAM_MAX_US) {
        stream_end(c);
        return;
    }
    if (good) {
        look_again(c);
        return;
    }
    list_remove(&c->link);
    list_append(&c->api->out, &c->link);
    c->rest.waiter.wake = rested;
    clock_set_in(c->api->clock, &c->rest, STREAM_RETRY_US);
}

static void route_RESERVATION_EVENTS(struct call *c, struct str id)
{
    if (c->x->request->method == HTTP_HEAD) {
        route_RESERVATION(c, id);
        return;
    }
    if (!prepare(c, QUERY_RESERVATION, id, streamed))
        return;
    c->query.wait_ms = 0;
    c->last_us = c->began_us;
    ask(c);
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------------------- */

static void answer_activity(struct call *c, enum reason read)
{
    struct desk *d = c->api->desk;
    const struct activity *a = catalog_find(&d->catalog, c->activity);
    if (!a) {
        refuse(c, read == REASON_OK && catalog_learnt(&d->catalog) ? REASON_UNKNOWN_ACTIVITY : REASON_DEPENDENCY_DOWN, NULL);
        return;
    }
    bool *sold = calloc(a->sku_count + 1, sizeof *sold);
    struct buf body = buf_growing(2 << 20);
    check(sold != NULL);
    for (size_t i = 0; i < a->sku_count; i++)
        sold[i] = soldout_known(&d->soldout, a, (int)i);
    public_body_activity(&body, a, clock_now_ms(c->api->clock), sold);
    answer_json(c, 200, REASON_OK, &body, str_lit("Cache-Control: no-store\r\n"));
    buf_free(&body);
    free(sold);
}

static void activity_read(struct catalog_wait *w, enum reason reason)
{
    struct call *c = container_of(w, struct call, catalog);
    c->reading = false;
    answer_activity(c, reason);
}

static void route_ACTIVITY(struct call *c, struct str id)
{
    struct catalog *known = &c->api->desk->catalog;
    c->activity = id;
    if (!catalog_may_lag(known, catalog_find(known, id))) {
        answer_activity(c, REASON_OK);
        return;
    }
    c->reading = true;
    c->catalog = (struct catalog_wait){.done = activity_read};
    list_remove(&c->link);
    list_append(&c->api->out, &c->link);
    c->x->gone = on_gone;
    catalog_refresh(known, &c->catalog);
}

static void route_OPENAPI(struct call *c, struct str id)
{
    (void)id;
    ended(c, REASON_OK);
    http_answer_ready(c->x, &c->api->openapi);
}

static const struct {
    enum http_method method;
    struct str path;
    void (*answer)(struct call *, struct str id);
} routes[] = {
#define ROUTE(symbol, method, path, text) {HTTP_##method, {path, sizeof path - 1}, route_##symbol},
#include "route.def"
#undef ROUTE
};

static bool path_fits(struct str pattern, struct str path, struct str *id)
{
    const char *open = memchr(pattern.ptr, '{', pattern.len), *shut = open ? memchr(open, '}', pattern.len - (size_t)(open - pattern.ptr)) : NULL;
    if (!shut)
        return str_eq(path, pattern);
    struct str before = str_range(pattern.ptr, open), after = str_range(shut + 1, pattern.ptr + pattern.len);
    if (path.len <= before.len + after.len || !str_starts(path, before))
        return false;
    *id = (struct str){path.ptr + before.len, path.len - before.len - after.len};
    return str_eq((struct str){id->ptr + id->len, after.len}, after) && !memchr(id->ptr, '/', id->len);
}

static struct call *call_new(struct http_exchange *x)
{
    struct public_api *a = x->owner;
    struct call *c = arena_take(&x->arena, sizeof *c);
    check(c != NULL);    /* the arena was made for it */
    list_init(&c->link);
    c->api = a;
    c->x = x;
    c->began_us = clock_mono_us(a->clock);
    x->state = c;
    return c;
}

static void handle(struct http_exchange *x)
{
    struct call *c = call_new(x);
    enum http_method method = x->request->method == HTTP_HEAD ? HTTP_GET : x->request->method;
    const char *allow = NULL;
    for (size_t i = 0; i < countof(routes); i++) {
        struct str id = {0};
        if (!path_fits(routes[i].path, x->request->path, &id))
            continue;
        if (routes[i].method != method) {
            allow = routes[i].method == HTTP_GET ? "Allow: GET, HEAD\r\n" : "Allow: POST\r\n";
            continue;
        }
        if (id.ptr && !str_is_id(id))
            refuse(c, REASON_NOT_FOUND, NULL);    /* no id of ours looks like this */
        else
            routes[i].answer(c, id);
        return;
    }
    enum reason code = allow ? REASON_METHOD_NOT_ALLOWED : REASON_NOT_FOUND;
    ended(c, code);
    problem_answer(x, &(struct problem){.code = code, .detail = allow ? (struct str){0} : str_lit("there is no such path"), .headers = str_of(allow)});
}

/* What the server refuses by itself, in our words. */
static void server_refuses(struct buf *body, int status, const char *why, void *owner)
{
    struct public_api *a = owner;
    enum reason code = status == 503 ? REASON_OVERLOADED : status == 413 || status == 414 || status == 431 ? REASON_PAYLOAD_TOO_LARGE : REASON_INVALID_REQUEST;
    json_open(body);
    json_member_text(body, "type", "about:blank");
    json_key(body, "title"), json_str(body, http_phrase(status));
    json_member_i64(body, "status", status);
    json_member_text(body, "detail", why);
    json_member_text(body, "code", reason_word(code));
    json_member_bool(body, "retryable", reason_fate(code) == FATE_RETRY);
    json_close(body);
    observe(a, code, clock_mono_us(a->clock));
}

/* ---- birth and death ------------------------------------------------------------------------------------------------------------------ */

static void show_gauges(struct public_api *a, struct http_server_stats now)
{
    metric_shift(METRIC_HTTP_CONNECTIONS, 0, (int64_t)(now.connections - a->shown.connections));
    metric_shift(METRIC_HTTP_IN_FLIGHT, 0, (int64_t)(now.in_flight - a->shown.in_flight));
    a->shown = now;
}

static void on_gauges(uv_timer_t *t)
{
    struct public_api *a = t->data;
    show_gauges(a, http_server_stats(a->server));
}

static bool may_listen(struct public_api *a, int *error)
{
    const struct config *k = a->options.config;
    if (k->auth_mode == AUTH_JWT)
        a->jwt = jwt_keys_open(str_of(k->auth_jwt_keys));
    *error = -EINVAL;
    if (!webhook_keys_good(k->payment_webhook_keys))
        return false;
    *error = k->auth_mode == AUTH_JWT ? -EINVAL : -EPERM;
    return k->auth_mode == AUTH_JWT ? a->jwt != NULL : address_is_loopback(&a->options.listen);
}

static void free_api(struct public_api *a)
{
    jwt_keys_close(a->jwt);
    http_ready_free(&a->openapi);
    buf_free(&a->words);
    free(a);
}

static void on_gauges_closed(uv_handle_t *t) { free_api(t->data); }

static struct http_server_config server_config(const struct config *c)
{
    return (struct http_server_config){.handle = handle, .refuse = server_refuses, .connections_max = (size_t)c->http_connections,
        .limits = {.body = (size_t)c->http_body_bytes}, .idle_ms = (uint32_t)c->http_idle_ms, .arena = sizeof(struct call) + 4096 + 64};
}

size_t public_api_memory(const struct config *config)
{
    struct http_server_config k = server_config(config);
    return http_server_memory(&k);
}

struct public_api *public_api_open(uv_loop_t *loop, const struct public_options *options, int *error)
{
    struct public_api *a = calloc(1, sizeof *a);
    check(a != NULL);
    a->options = *options;
    a->desk = options->desk;
    a->clock = options->desk->clock;
    list_init(&a->out);
    make_refusals(a);
    a->openapi = http_ready_make(200, str_lit("application/json"), (struct str){(const char *)openapi, openapi_size}, (struct str){0});
    struct http_server_config config = server_config(options->config);
    config.listen = options->listen;
    config.reuse_port = options->reuse_port;
    config.owner = a;
    a->server = may_listen(a, error) ? http_server_open(loop, &config, error) : NULL;
    if (!a->server) {
        free_api(a);
        return NULL;
    }
    check(uv_timer_init(loop, &a->gauges) == 0);
    a->gauges.data = a;
    check(uv_timer_start(&a->gauges, on_gauges, 500, 500) == 0);
    return a;
}

int public_api_port(const struct public_api *a) { return http_server_port(a->server); }

void public_api_drain(struct public_api *a, uint32_t ms, void (*done)(void *), void *arg)
{
    a->draining = true;
    http_server_drain(a->server, ms, done, arg);
}

void public_api_close(struct public_api *a)
{
    if (!a)
        return;
    show_gauges(a, (struct http_server_stats){0});
    for (struct link *at = a->out.next; at != &a->out; at = a->out.next) {
        struct call *c = list_entry(at, struct call, link);
        c->x->gone = NULL;    /* it ends here, with the server */
        let_go(c);
    }
    http_server_close(a->server);
    uv_close((uv_handle_t *)&a->gauges, on_gauges_closed);
}

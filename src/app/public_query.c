/* SPDX-License-Identifier: Apache-2.0
 * public_query.c: how it stands: asked for once, waited for, or followed as a stream of events. */
#include "public.h"

#include "public_body.h"

#define WAIT_MAX_MS 25000
#define STREAM_WAIT_MS 2000           /* one look of an event stream */
#define STREAM_QUIET_US 10000000u     /* a comment, so that nobody between takes the stream for dead */
#define STREAM_MAX_US 120000000u      /* then it ends, and the client comes again by itself */
#define STREAM_RETRY_US 1000000u      /* after a look that found no answer */

/* "2s", "1500ms", "2": true and milliseconds. Absent: 0. */
static bool read_wait(struct public_call *c, uint32_t *ms)
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

/* "Could not be read" never reads as "you have nothing". */
static void refuse_query(struct public_call *c, const struct query *q)
{
    bool unread = q->reason == REASON_OVERLOADED || q->reason == REASON_DEPENDENCY_DOWN;
    if (unread)
        public_refuse(c, q->reason, q->by == QUERY_ORDER ? "the order could not be read now: ask again"
                                                         : "the state could not be read now, and a unit may be reserved: ask again, or send the reservation again with the same request_id");
    else
        public_refuse_plainly(c, q->reason);
}

static void answer_query(struct public_call *c)
{
    char memory[PUBLIC_BODY_MAX + PUBLIC_REFUNDS_BYTES];
    struct buf body = buf_fixed(memory, sizeof memory);
    const struct query *q = &c->query;
    if (q->reason != REASON_OK) {
        refuse_query(c, q);
        return;
    }
    if (q->by == QUERY_ORDER)
        public_body_order(&body, &q->order, c->refunds, c->refunds_truncated);
    else
        public_body_reservation(&body, &q->view);
    public_answer(c, 200, REASON_OK, &body, str_lit("Cache-Control: no-store\r\n"));
}

static void queried(struct query *q) { answer_query(container_of(q, struct public_call, query)); }

/* What every query needs of the request; false: refused. */
static bool prepare(struct public_call *c, enum query_by by, struct str id, void (*done)(struct query *))
{
    struct query *q = &c->query;
    *q = (struct query){.by = by, .id = id, .done = done};
    if (!read_wait(c, &q->wait_ms)) {
        public_refuse(c, REASON_INVALID_REQUEST, "wait is up to 25s, as in ?wait=2s");
        return false;
    }
    return public_identify_by_query(c, &q->user);
}

static void ask(struct public_call *c)
{
    if (query_start(c->api->desk, &c->query)) {
        c->query.done(&c->query);
        return;
    }
    c->asking = true;
    public_wait(c);
    if (c->query.wait_ms > 0 || c->streaming)
        c->x->gone = public_on_gone;
}

void public_route_RESERVATION(struct public_call *c, struct str id)
{
    if (prepare(c, QUERY_RESERVATION, id, queried))
        ask(c);
}

void public_route_REQUEST(struct public_call *c, struct str id)
{
    if (!prepare(c, QUERY_REQUEST, id, queried))
        return;
    bool twice = false;
    c->query.activity = http_query(c->x->request, str_lit("activity_id"), &twice);
    c->body.request = id;
    if (twice || !str_is_id(c->query.activity))
        public_refuse(c, REASON_INVALID_REQUEST, "name the activity in activity_id");
    else
        ask(c);
}

/* Texts of what was paid live only now; the refunds among it are put into words at once. */
static void order_paid(struct query *q, const struct payment_record *payments, size_t count)
{
    struct public_call *c = container_of(q, struct public_call, query);
    char *memory = arena_take(&c->x->arena, PUBLIC_REFUNDS_BYTES);
    check(memory != NULL);    /* the arena was made for it */
    struct buf out = buf_fixed(memory, PUBLIC_REFUNDS_BYTES);
    c->refunds_truncated = public_body_refunds(&out, payments, count);
    check(buf_ok(&out));
    c->refunds = buf_str(&out);
}

void public_route_ORDER(struct public_call *c, struct str id)
{
    if (!prepare(c, QUERY_ORDER, id, queried))
        return;
    c->query.wait_ms = 0;
    c->query.payments = order_paid;
    ask(c);
}

/* ---- event streams ------------------------------------------------------------------------------------------------------------------ */

static void stream_end(struct public_call *c)
{
    list_remove(&c->link);
    clock_unset(c->api->clock, &c->rest);
    public_ended(c, REASON_OK);
    http_stream_end(c->x);
}

static bool stream_state(struct public_call *c)
{
    char memory[PUBLIC_BODY_MAX];
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

static void look_again(struct public_call *c)
{
    c->query.wait_ms = STREAM_WAIT_MS;
    c->query.follows = true;
    c->query.done = streamed;
    ask(c);
}

static void rested(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    look_again(container_of(container_of(w, struct alarm, waiter), struct public_call, rest));
}

/* One look has ended. */
static void streamed(struct query *q)
{
    struct public_call *c = container_of(q, struct public_call, query);
    uint64_t now = clock_mono_us(c->api->clock);
    bool good = q->reason == REASON_OK, same = q->reason == REASON_UNCHANGED, alive = true;
    c->asking = false;
    if (!c->streaming) {
        if (!good) {
            refuse_query(c, q);
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
    if (good || same) {
        look_again(c);
        return;
    }
    public_wait(c);
    c->rest.waiter.wake = rested;
    clock_set_in(c->api->clock, &c->rest, STREAM_RETRY_US);
}

void public_route_RESERVATION_EVENTS(struct public_call *c, struct str id)
{
    if (c->x->request->method == HTTP_HEAD) {
        public_route_RESERVATION(c, id);
        return;
    }
    if (!prepare(c, QUERY_RESERVATION, id, streamed))
        return;
    c->query.wait_ms = 0;
    c->last_us = c->began_us;
    ask(c);
}

/* SPDX-License-Identifier: Apache-2.0
 * channel_http.c: a call is a slot, a request and an answer to be read. The client belongs to this engine; closing it ends what is under way, and
 * the engine's memory goes with the last of it. */
#include "channel_http.h"

#include <jansson.h>
#include <stdlib.h>

#include "arena.h"
#include "http_client.h"
#include "json.h"

#define CONNECTIONS 8
#define IN_FLIGHT 256
#define BUDGET_MS 2000
#define TEXTS 4096

struct channel_http {
    struct channel channel;
    struct http_client *client;
    char host[128];
    struct link calls;
    size_t in_flight;
    uv_timer_t later;                /* wakes those that could not be asked at all, after their call has returned */
    bool closing;
};
struct channel_call {
    struct slot slot;
    struct link link;
    struct channel_http *of;
    struct http_call call;
    struct buf request;
    bool asks, refused;              /* asks: payments are to be read; refused: it never left */
    struct payment payments[CHANNEL_PAYMENTS_MAX];
    char memory[TEXTS];
};

static void end(struct channel_call *c, enum reason reason, const void *result)
{
    list_remove(&c->link);
    c->of->in_flight--;
    slot_wake(&c->slot, reason, result);
    buf_free(&c->request);
    free(c);
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------------- */

static bool read_text(struct arena *a, const json_t *object, const char *key, struct str *out)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_string(v))
        return false;
    *out = arena_str(a, (struct str){json_string_value(v), json_string_length(v)});
    return out->len == json_string_length(v);
}

static bool read_payment(struct arena *a, const json_t *v, struct payment *p)
{
    struct str result, occurred;
    *p = (struct payment){0};
    if (!read_text(a, v, "payment_id", &p->payment) || !read_text(a, v, "order_id", &p->order) || !read_text(a, v, "currency", &p->currency) ||
        !read_text(a, v, "channel", &p->channel) || !read_text(a, v, "result", &result) || !read_text(a, v, "occurred_at", &occurred))
        return false;
    p->amount = json_integer_value(json_object_get(v, "amount"));
    return json_is_integer(json_object_get(v, "amount")) && p->amount >= 0 && str_is_id(p->payment) && str_is_id(p->order) && p->currency.len == 3 &&
           p->channel.len > 0 && p->channel.len <= 64 && payment_result_parse(result, &p->result) && time_parse(occurred, &p->occurred_ms);
}

/* What cannot be read is no answer: the channel may know of payments that we do not understand. */
static enum reason read_payments(struct channel_call *c, struct str body, struct channel_answer *out)
{
    struct arena a = {.start = c->memory, .cap = sizeof c->memory};
    json_t *root = json_loadb(body.ptr ? body.ptr : "", body.len, 0, NULL), *list = json_object_get(root, "payments");
    bool good = json_is_array(list) && json_array_size(list) <= CHANNEL_PAYMENTS_MAX;
    for (size_t i = 0; good && i < json_array_size(list); i++)
        good = read_payment(&a, json_array_get(list, i), &c->payments[i]);
    *out = (struct channel_answer){.payments = c->payments, .count = good ? json_array_size(list) : 0};
    json_decref(root);
    return good ? REASON_OK : REASON_ENGINE_FAULT;
}

static void answered(struct http_call *call, enum http_outcome outcome, const struct http_reply *reply)
{
    struct channel_call *c = container_of(call, struct channel_call, call);
    struct channel_answer answer;
    if (outcome != HTTP_REPLIED) {
        end(c, outcome == HTTP_NOT_SENT ? REASON_DEPENDENCY_DOWN : REASON_LINK_LOST, NULL);
        return;
    }
    enum reason reason = reply->status == 200 ? REASON_OK : reply->status == 429 || reply->status >= 500 ? REASON_ENGINE_BUSY : REASON_ENGINE_REFUSED;
    if (reason == REASON_OK && c->asks)
        reason = read_payments(c, reply->body, &answer);
    end(c, reason, reason == REASON_OK && c->asks ? &answer : NULL);
}

/* ---- questions ------------------------------------------------------------------------------------------------------------------------- */

static void woken_later(uv_timer_t *timer)
{
    struct channel_http *h = timer->data;
    for (struct link *at = h->calls.next, *next; at != &h->calls; at = next) {
        struct channel_call *c = list_entry(at, struct channel_call, link);
        next = at->next;
        if (c->refused)
            end(c, REASON_OVERLOADED, NULL);
    }
}

static struct channel_call *call_new(struct channel_http *h, struct waiter *w)
{
    struct channel_call *c = calloc(1, sizeof *c);
    check(c != NULL);
    *c = (struct channel_call){.of = h, .request = buf_growing(16384), .call = {.done = answered, .timeout_ms = w->budget_ms ? w->budget_ms : BUDGET_MS}};
    slot_arm(&c->slot, w);
    list_append(&h->calls, &c->link);
    h->in_flight++;
    return c;
}

static void go(struct channel_call *c)
{
    check(buf_ok(&c->request));
    c->call.request = buf_str(&c->request);
    c->refused = c->of->in_flight > IN_FLIGHT || !http_client_send(c->of->client, &c->call);
    if (c->refused)
        uv_timer_start(&c->of->later, woken_later, 0, 0);
}

static void ask(struct channel *channel, struct str order, struct waiter *w)
{
    struct channel_http *h = container_of(channel, struct channel_http, channel);
    struct channel_call *c = call_new(h, w);
    char target[160];
    struct buf t = buf_fixed(target, sizeof target);
    check(str_is_id(order));
    buf_add_fmt(&t, "/v1/payments?order_id=" STR_FMT, STR_ARG(order));
    c->asks = true;
    http_request_write(&c->request, str_lit("GET"), buf_str(&t), str_of(h->host), (struct str){0}, (struct str){0}, (struct str){0});
    go(c);
}

static void refund(struct channel *channel, const struct payment *p, struct waiter *w)
{
    struct channel_http *h = container_of(channel, struct channel_http, channel);
    struct channel_call *c = call_new(h, w);
    char memory[512];
    struct buf body = buf_fixed(memory, sizeof memory);
    json_open(&body);
    json_member_str(&body, "payment_id", p->payment);
    json_member_str(&body, "order_id", p->order);
    json_member_i64(&body, "amount", p->amount);
    json_member_str(&body, "currency", p->currency);
    json_close(&body);
    http_request_write(&c->request, str_lit("POST"), str_lit("/v1/refunds"), str_of(h->host), (struct str){0}, str_lit("application/json"), buf_str(&body));
    go(c);
}

static const struct channel_ops ops = {.name = "http", .ask = ask, .refund = refund};

/* ---- birth and death --------------------------------------------------------------------------------------------------------------------- */

bool channel_http_address(struct str url, struct str *address)
{
    struct str scheme = str_lit("http://");
    struct address parsed;
    if (!str_starts(url, scheme))
        return false;
    *address = (struct str){url.ptr + scheme.len, url.len - scheme.len};
    if (address->len > 0 && address->ptr[address->len - 1] == '/')
        address->len--;
    return address->len < 100 && address_parse(*address, &parsed);
}

struct channel *channel_http_open(uv_loop_t *loop, struct str url)
{
    struct http_client_config config = {.connections_max = CONNECTIONS, .queue_max = IN_FLIGHT, .answer_max = 32768};
    struct str address;
    if (!channel_http_address(url, &address) || !address_parse(address, &config.address))
        return NULL;
    struct channel_http *h = calloc(1, sizeof *h);
    check(h != NULL);
    h->channel.ops = &ops;
    list_init(&h->calls);
    memcpy(h->host, address.ptr, address.len);
    h->client = http_client_open(loop, &config);
    uv_timer_init(loop, &h->later);
    h->later.data = h;
    return &h->channel;
}

static void gone(uv_handle_t *handle) { free(handle->data); }

void channel_http_close(struct channel *channel)
{
    struct channel_http *h = container_of(channel, struct channel_http, channel);
    list_each(at, &h->calls) {
        struct channel_call *c = list_entry(at, struct channel_call, link);
        if (c->slot.waiter)
            waiter_drop(c->slot.waiter);
    }
    http_client_close(h->client);    /* what is out ends here */
    woken_later(&h->later);
    check(list_empty(&h->calls));
    uv_close((uv_handle_t *)&h->later, gone);
}

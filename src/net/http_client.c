/* SPDX-License-Identifier: Apache-2.0
 * http_client.c: calls wait in one queue; a free connection takes the first. One coarse timer looks after deadlines. */
#include "http_client.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

#define TICK_MS 100

struct line {                      /* one connection */
    uv_poll_t poll;
    struct http_client *client;
    struct link link;              /* in resting (connected, free) or working; alone: no socket */
    int fd, events;
    bool open, connected, used;    /* handle alive; TCP is up; has answered before */
    bool closing;
    struct http_call *call;
    size_t sent;
    size_t in_len;
    char *in;
};

struct http_client {
    struct http_client_config config;
    uv_loop_t *loop;
    uv_timer_t tick;
    uv_idle_t later;               /* calls to be ended, which must not be before http_client_send returns */
    struct link queue, resting, working, closed;
    size_t queued, connected;
    struct line *lines;
    int handles;
    bool closing, several;         /* several: calls have timeouts of their own, so the queue is not in their order */
};

static void pump(struct http_client *c);
static void on_poll(uv_poll_t *poll, int status, int events);

static void handle_gone(struct http_client *c)
{
    if (--c->handles > 0)
        return;
    for (size_t i = 0; i < c->config.connections_max; i++)
        free(c->lines[i].in);
    free(c->lines);
    free(c);
}

static void on_line_closed(uv_handle_t *handle)
{
    struct line *l = handle->data;
    struct http_client *c = l->client;
    l->closing = false;
    list_remove(&l->link);
    list_append(&c->closed, &l->link);
    if (!c->closing)
        pump(c);
    handle_gone(c);
}

static void hang_up(struct line *l)
{
    check(l->open && !l->closing);
    l->client->connected -= l->connected;
    l->open = l->connected = l->used = false;
    l->closing = true;
    l->events = 0;
    list_remove(&l->link);
    uv_close((uv_handle_t *)&l->poll, on_line_closed);
    close(l->fd);
}

static void end_call(struct http_call *call, enum http_outcome outcome, const struct http_reply *reply)
{
    list_remove(&call->link);
    call->done(call, outcome, reply);
}

/* The connection broke. A GET that met a connection the server was just closing is asked once more. */
static void fail(struct line *l)
{
    struct http_client *c = l->client;
    struct http_call *call = l->call;
    bool sent = l->connected && l->sent > 0, again = call && l->used && l->in_len == 0 && call->tries == 1 && str_starts(call->request, str_lit("GET "));
    l->call = NULL;
    hang_up(l);
    if (again) {
        list_append(&c->queue, &call->link);
        c->queued++;
    } else if (call) {
        end_call(call, sent ? HTTP_LOST : HTTP_NOT_SENT, NULL);
    }
}

static void watch(struct line *l, int events)
{
    if (l->events == events)
        return;
    l->events = events;
    check(uv_poll_start(&l->poll, events, on_poll) == 0);
}

/* ---- reading the answer ---- */

struct answer {
    struct http_reply reply;
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t total;       /* bytes of all of it */
    bool keep;
};

static bool read_reply_line(struct str line, struct answer *a)
{
    struct http_header *h = &a->headers[a->reply.header_count];
    const char *colon = line.len ? memchr(line.ptr, ':', line.len) : NULL;
    if (!colon || a->reply.header_count == HTTP_HEADERS_MAX)
        return false;
    h->name = str_range(line.ptr, colon);
    h->value = str_trim(str_range(colon + 1, line.ptr + line.len));
    a->reply.header_count++;
    return true;
}

/* 1: whole; 0: more is needed; -1: not to be understood. */
static int read_reply(struct str in, struct answer *a)
{
    const char *end = memmem(in.ptr, in.len, "\r\n\r\n", 4);
    uint64_t status, length = 0;
    if (!end)
        return 0;
    struct str head = str_range(in.ptr, end);
    if (head.len < 12 || !str_starts(head, str_lit("HTTP/1.")) || !str_to_u64((struct str){head.ptr + 9, 3}, &status))
        return -1;
    *a = (struct answer){.reply = {.status = (int)status, .headers = a->headers}};
    for (const char *at = memmem(head.ptr, head.len, "\r\n", 2); at && at < end;) {
        const char *next = memmem(at + 2, (size_t)(end + 2 - at - 2), "\r\n", 2);
        if (!read_reply_line(str_range(at + 2, next), a))
            return -1;
        at = next;
    }
    struct str said = http_reply_header(&a->reply, str_lit("content-length"));
    bool bodiless = status == 204 || status == 304;
    if (!bodiless && !str_to_u64(said, &length))
        return -1;
    a->keep = head.ptr[7] == '1' && !str_eq_nocase(http_reply_header(&a->reply, str_lit("connection")), str_lit("close"));
    a->reply.body = (struct str){end + 4, bodiless ? 0 : (size_t)length};
    a->total = head.len + 4 + a->reply.body.len;
    return in.len >= a->total ? 1 : 0;
}

struct str http_reply_header(const struct http_reply *r, struct str name)
{
    for (size_t i = 0; i < r->header_count; i++)
        if (str_eq_nocase(r->headers[i].name, name))
            return r->headers[i].value;
    return (struct str){0};
}

static void on_readable(struct line *l)
{
    struct http_client *c = l->client;
    struct answer a;
    ssize_t n = recv(l->fd, l->in + l->in_len, c->config.answer_max - l->in_len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || !l->call) {    /* the end, or an answer nobody asked for */
        fail(l);
        return;
    }
    l->in_len += (size_t)n;
    int whole = read_reply((struct str){l->in, l->in_len}, &a);
    if (whole == 0 && l->in_len < c->config.answer_max)
        return;
    if (whole <= 0 || a.total != l->in_len) {
        fail(l);
        return;
    }
    if (a.reply.status == 100) {
        l->in_len = 0;
        return;
    }
    struct http_call *call = l->call;
    l->call = NULL;
    l->used = true;
    if (a.keep) {
        list_remove(&l->link);
        list_append(&c->resting, &l->link);
    }
    end_call(call, HTTP_REPLIED, &a.reply);    /* `in` stays as it is: a new call on this line does not read before the loop turns */
    l->in_len = 0;
    if (!a.keep && l->open)
        hang_up(l);
}

/* ---- writing the question ---- */

static void on_ready_to_write(struct line *l)
{
    struct http_call *call = l->call;
    if (!l->connected && !call)
        list_append(&l->client->resting, &l->link);    /* made ahead of its first call */
    l->client->connected += !l->connected;
    l->connected = true;
    while (call && l->sent < call->request.len) {
        ssize_t n = send(l->fd, call->request.ptr + l->sent, call->request.len - l->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            watch(l, UV_READABLE | UV_WRITABLE);
            return;
        }
        if (n < 0) {
            fail(l);
            return;
        }
        l->sent += (size_t)n;
    }
    watch(l, UV_READABLE);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct line *l = poll->data;
    struct http_client *c = l->client;
    int error = 0;
    socklen_t size = sizeof error;
    if (!l->connected && (status < 0 || getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0))
        fail(l);
    else if (status < 0)
        fail(l);
    else if (events & UV_READABLE)
        on_readable(l);
    else if (events & UV_WRITABLE)
        on_ready_to_write(l);
    pump(c);
}

/* ---- calls and lines ---- */

static void give(struct line *l, struct http_call *call)
{
    struct http_client *c = l->client;
    list_remove(&l->link);
    list_append(&c->working, &l->link);
    l->call = call;
    l->sent = 0;
    l->in_len = 0;
    call->given_us = uv_hrtime() / 1000;
    call->tries++;
}

static bool connect_line(struct line *l)
{
    struct http_client *c = l->client;
    if (!l->in)
        l->in = malloc(c->config.answer_max);
    l->fd = l->in ? address_connect_from(&c->config.address, c->config.source) : -ENOMEM;
    if (l->fd < 0)
        return false;
    check(uv_poll_init(c->loop, &l->poll, l->fd) == 0);
    l->poll.data = l;
    c->handles++;
    l->open = true;
    return true;
}

/* Calls meet lines. */
static void pump(struct http_client *c)
{
    while (!list_empty(&c->queue) && !c->closing) {
        bool rested = !list_empty(&c->resting);
        struct link *at = list_take(rested ? &c->resting : &c->closed);
        if (!at)
            return;
        struct line *l = list_entry(at, struct line, link);
        struct http_call *call = list_entry(list_take(&c->queue), struct http_call, link);
        c->queued--;
        if (rested) {
            give(l, call);
            on_ready_to_write(l);
        } else if (connect_line(l)) {
            give(l, call);
            watch(l, UV_WRITABLE);
        } else {
            list_append(&c->closed, &l->link);
            end_call(call, HTTP_NOT_SENT, NULL);
        }
    }
}

static void on_later(uv_idle_t *later)
{
    uv_idle_stop(later);
    pump(later->data);
}

static void expire(struct http_client *c, uint64_t now)
{
    struct link late, *at;
    list_init(&late);
    for (struct link *next, *l = c->queue.next; l != &c->queue; l = next) {
        next = l->next;
        if (list_entry(l, struct http_call, link)->due_ms <= now) {
            list_remove(l);
            list_append(&late, l);
            c->queued--;
        } else if (!c->several) {
            break;    /* those behind it came later: a long queue is not walked ten times a second */
        }
    }
    while ((at = list_take(&late)))
        end_call(list_entry(at, struct http_call, link), HTTP_NOT_SENT, NULL);
    for (size_t i = 0; i < c->config.connections_max; i++) {
        struct line *l = &c->lines[i];
        if (l->open && l->call && l->call->due_ms <= now) {
            l->used = false;
            fail(l);
        }
    }
}

static void on_tick(uv_timer_t *tick)
{
    struct http_client *c = tick->data;
    expire(c, uv_now(c->loop));
    pump(c);
}

bool http_client_send(struct http_client *c, struct http_call *call)
{
    check(call->done != NULL && call->request.len > 0 && !c->closing);
    if (c->queued >= c->config.queue_max)
        return false;
    list_init(&call->link);
    call->tries = 0;
    call->given_us = 0;
    c->several |= call->timeout_ms != 0 && call->timeout_ms != c->config.timeout_ms;
    call->due_ms = uv_now(c->loop) + (call->timeout_ms ? call->timeout_ms : c->config.timeout_ms);
    list_append(&c->queue, &call->link);
    c->queued++;
    uv_idle_start(&c->later, on_later);
    return true;
}

void http_client_connect(struct http_client *c)
{
    struct link *at;
    while ((at = list_take(&c->closed))) {
        struct line *l = list_entry(at, struct line, link);
        if (!connect_line(l)) {
            list_append(&c->closed, &l->link);
            return;
        }
        watch(l, UV_WRITABLE);
    }
}

size_t http_client_connected(const struct http_client *c) { return c->connected; }

struct http_client *http_client_open(uv_loop_t *loop, const struct http_client_config *config)
{
    struct http_client *c = calloc(1, sizeof *c);
    check(c != NULL);
    c->config = *config;
    c->loop = loop;
    c->config.connections_max = config->connections_max ? config->connections_max : 16;
    c->config.queue_max = config->queue_max ? config->queue_max : 65536;
    c->config.answer_max = config->answer_max ? config->answer_max : 65536;
    c->config.timeout_ms = config->timeout_ms ? config->timeout_ms : 10000;
    list_init(&c->queue), list_init(&c->resting), list_init(&c->working), list_init(&c->closed);
    c->lines = calloc(c->config.connections_max, sizeof *c->lines);
    check(c->lines != NULL);
    for (size_t i = 0; i < c->config.connections_max; i++) {
        c->lines[i].client = c;
        list_init(&c->lines[i].link);
        list_append(&c->closed, &c->lines[i].link);
    }
    check(uv_timer_init(loop, &c->tick) == 0 && uv_idle_init(loop, &c->later) == 0);
    c->tick.data = c->later.data = c;
    c->handles = 2;
    check(uv_timer_start(&c->tick, on_tick, TICK_MS, TICK_MS) == 0);
    return c;
}

static void on_own_closed(uv_handle_t *handle) { handle_gone(handle->data); }

void http_client_close(struct http_client *c)
{
    struct link *at;
    c->closing = true;
    while ((at = list_take(&c->queue)))
        end_call(list_entry(at, struct http_call, link), HTTP_NOT_SENT, NULL);
    for (size_t i = 0; i < c->config.connections_max; i++) {
        c->lines[i].used = false;
        if (c->lines[i].open)
            fail(&c->lines[i]);
    }
    uv_close((uv_handle_t *)&c->tick, on_own_closed);
    uv_close((uv_handle_t *)&c->later, on_own_closed);
}

void http_request_write(struct buf *out, struct str method, struct str target, struct str host, struct str extra, struct str type, struct str body)
{
    buf_add_str(out, method), buf_add_char(out, ' '), buf_add_str(out, target);
    buf_add_str(out, str_lit(" HTTP/1.1\r\nHost: ")), buf_add_str(out, host);
    if (body.len > 0) {
        buf_add_str(out, str_lit("\r\nContent-Type: ")), buf_add_str(out, type);
        buf_add_str(out, str_lit("\r\nContent-Length: ")), buf_add_u64(out, body.len);
    }
    buf_add_str(out, str_lit("\r\n")), buf_add_str(out, extra), buf_add_str(out, str_lit("\r\n")), buf_add_str(out, body);
}

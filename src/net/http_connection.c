/* SPDX-License-Identifier: Apache-2.0 */
#include "http_connection.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "json.h"

#define LINGER_MS 1000           /* after a refusal: time for the client to read why before the socket is reset */
#define LINGER_BYTES (256 * 1024)
#define TURN_REQUESTS 64         /* pipelined requests of one connection before others get their turn */

static void on_poll(uv_poll_t *poll, int status, int events);

static struct http_desk *desk_of(struct http_exchange *x) { return container_of(x, struct http_desk, exchange); }
static size_t pending(const struct http_connection *c) { return c->desk ? c->desk->out_len + c->spill.len - c->desk->sent : 0; }

/* ---- pools and ends ---- */

/* The next one that nobody has ever used: its pages are touched here for the first time. */
static struct http_desk *new_desk(struct http_server *s)
{
    check(s->desks_made < s->config.connections_max);    /* as many as connections */
    struct http_desk *d = (struct http_desk *)(void *)(s->memory + s->desks_made++ * s->desk_size);
    d->arena = (char *)d + HTTP_DESK_HEAD;
    d->out = d->arena + s->config.arena;
    d->in = d->out + HTTP_OUT_CAP;
    return d;
}

static void take_desk(struct http_connection *c)
{
    struct http_server *s = c->server;
    if (c->desk)
        return;
    http_idle_remove(&s->idle_ones, &c->idle);
    struct http_desk *d = s->desks ? s->desks : new_desk(s);
    s->desks = d->next;
    d->connection = c;
    d->begin = d->in_len = d->out_len = d->sent = 0;
    http_parser_start(&d->parser, s->config.limits);
    c->desk = d;
}

static void give_desk(struct http_connection *c)
{
    struct http_desk *d = c->desk;
    if (!d)
        return;
    d->next = c->server->desks;
    c->server->desks = d;
    c->desk = NULL;
    if (!c->dead)
        http_idle_add(&c->server->idle_ones, &c->idle, &c->client);
}

/* The slot is free again once the socket's handle is gone and nobody holds the exchange. */
static void maybe_free(struct http_connection *c)
{
    if (!c->closed || c->busy)
        return;
    give_desk(c);
    list_remove(&c->link);
    list_append(&c->server->free, &c->link);
}

static void on_closed(uv_handle_t *handle)
{
    struct http_connection *c = handle->data;
    c->closed = true;
    maybe_free(c);
    http_server_handle_gone(c->server);
}

static void bury(struct http_connection *c)
{
    check(!c->dead);
    c->dead = true;
    http_idle_remove(&c->server->idle_ones, &c->idle);
    wheel_forget(&c->deadline);
    list_remove(&c->ready);
    buf_free(&c->spill);
    c->server->stats.connections--;
    uv_close((uv_handle_t *)&c->poll, on_closed);
    close(c->fd);
}

/* The exchange's owner has let go of it. */
static void release(struct http_connection *c)
{
    check(c->busy);
    c->busy = c->streaming = false;
    c->server->stats.in_flight--;
}

void http_connection_lose(struct http_connection *c)
{
    bury(c);
    if (c->busy && c->desk->exchange.gone && !c->in_send) {
        c->desk->exchange.gone(&c->desk->exchange);
        release(c);
    }
    maybe_free(c);
}

/* ---- output ---- */

static void put(struct http_connection *c, struct str bytes)
{
    struct http_desk *d = c->desk;
    if (bytes.len == 0)
        return;
    if (c->spill.len == 0 && bytes.len <= HTTP_OUT_CAP - d->out_len) {
        memcpy(d->out + d->out_len, bytes.ptr, bytes.len);
        d->out_len += bytes.len;
    } else {
        buf_add_str(&c->spill, bytes);
    }
}

/* Sends what the socket takes. False: the connection is lost (and may be gone: look no further). */
static bool flush(struct http_connection *c)
{
    struct http_desk *d = c->desk;
    while (pending(c) > 0) {
        bool in_out = d->sent < d->out_len;
        struct iovec parts[2] = {{in_out ? d->out + d->sent : c->spill.ptr + (d->sent - d->out_len), in_out ? d->out_len - d->sent : pending(c)},
                                 {c->spill.ptr, in_out ? c->spill.len : 0}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = parts[1].iov_len ? 2 : 1};
        ssize_t n = parts[1].iov_len ? sendmsg(c->fd, &message, MSG_NOSIGNAL) : send(c->fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && buf_ok(&c->spill))
            return true;
        if (n < 0) {
            c->server->stats.cut += errno == EAGAIN;
            http_connection_lose(c);
            return false;
        }
        d->sent += (size_t)n;
    }
    if (!buf_ok(&c->spill)) {    /* the answer was never whole */
        c->server->stats.cut++;
        http_connection_lose(c);
        return false;
    }
    d->sent = d->out_len = 0;
    if (c->spill.ptr)
        buf_free(&c->spill);
    return true;
}

static void put_head(struct http_connection *c, int status, struct str type, int64_t length, struct str extra)
{
    struct http_server *s = c->server;
    const struct http_request *r = &c->desk->parser.request;
    c->last |= s->draining || s->leaving;
    enum http_ending ending = c->last ? HTTP_ENDING_CLOSE : r->minor == 0 ? HTTP_ENDING_KEEP : HTTP_ENDING_NONE;
    struct http_desk *d = c->desk;
    struct http_head head = {.status = status, .date = {s->date, sizeof s->date}, .type = type, .length = length, .ending = ending, .extra = extra};
    struct buf b = buf_fixed(d->out + d->out_len, HTTP_OUT_CAP - d->out_len);
    if (c->spill.len == 0)
        http_head_write(&b, &head);
    if (c->spill.len == 0 && buf_ok(&b))
        d->out_len += b.len;
    else
        http_head_write(&c->spill, &head);
}

static void put_answer(struct http_connection *c, int status, struct str type, struct str body, struct str extra)
{
    put_head(c, status, type, (int64_t)body.len, extra);
    if (c->desk->parser.request.method != HTTP_HEAD && status != 204 && status != 304)
        put(c, body);
}

static void plain_problem(struct buf *body, int status, const char *why)
{
    json_open(body);
    json_key(body, "title"), json_str(body, http_phrase(status));
    json_member_i64(body, "status", status);
    json_member_text(body, "detail", why);
    json_close(body);
}

struct str http_connection_problem(struct http_server *s, struct buf *body, int status, const char *why)
{
    if (s->config.refuse)
        s->config.refuse(body, status, why, s->config.owner);
    else
        plain_problem(body, status, why);
    return buf_ok(body) ? buf_str(body) : (struct str){0};
}

void http_connection_refuse(struct http_connection *c, int status, const char *why)
{
    char memory[1024];
    struct buf body = buf_fixed(memory, sizeof memory);
    c->last = true;
    c->phase = HTTP_LINGERING;
    c->server->stats.refused++;
    c->desk->begin = c->desk->in_len = 0;
    c->desk->parser.request.method = HTTP_GET;    /* it may not be known; a body is always said */
    put_answer(c, status, str_lit("application/problem+json"), http_connection_problem(c->server, &body, status, why), (struct str){0});
}

/* ---- exchanges ---- */

static void hand_over(struct http_connection *c)
{
    struct http_server *s = c->server;
    struct http_desk *d = c->desk;
    c->busy = true;
    c->phase = HTTP_OUT;
    c->last |= !d->parser.request.keep_alive || s->draining || s->leaving;
    s->stats.in_flight++;
    s->stats.requests++;
    d->exchange = (struct http_exchange){.request = &d->parser.request, .owner = s->config.owner, .arena = {.start = d->arena, .cap = s->config.arena}};
    s->config.handle(&d->exchange);
}

static int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; }

/* The character of an escape at `at`; -1: there is none. */
static int escaped_char(const char *at, size_t left)
{
    int high = left > 2 && at[0] == '%' ? hex_digit(at[1]) : -1, low = high >= 0 ? hex_digit(at[2]) : -1;
    return low < 0 ? -1 : high << 4 | low;
}

static bool is_unreserved(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

/* Decodes, in place and once, the escapes that mean the same decoded (RFC 3986 section 6.2.2.2): letters, digits, "-", ".", "_", "~". What comes out is
 * not read again, so that "%255F" stays "%5F". The text lies in the input of the connection, which is ours to write. */
static struct str decode_unreserved(struct str s)
{
    if (s.len == 0 || !memchr(s.ptr, '%', s.len))
        return s;
    char *text = (char *)(uintptr_t)s.ptr;
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++, n++) {
        int c = escaped_char(s.ptr + i, s.len - i);
        text[n] = is_unreserved(c) ? (char)c : s.ptr[i];
        i += is_unreserved(c) ? 2 : 0;
    }
    return (struct str){text, n};
}

bool http_exchange_normalize(struct http_exchange *x)
{
    struct http_request *r = &desk_of(x)->parser.request;
    r->path = decode_unreserved(r->path);
    r->query = decode_unreserved(r->query);
    for (size_t i = 0; i < r->path.len; i++) {
        int c = escaped_char(r->path.ptr + i, r->path.len - i);
        if (c == '/' || c == 0)
            return false;
    }
    return true;
}

/* Its next request waits until the loop comes round. */
static void queue_turn(struct http_connection *c)
{
    list_remove(&c->ready);
    list_append(&c->server->ready, &c->ready);
}

/* The answer stands in the output. */
static void finish(struct http_connection *c)
{
    struct http_desk *d = c->desk;
    release(c);
    if (c->dead) {
        maybe_free(c);
        return;
    }
    c->phase = HTTP_IDLE;
    d->begin += d->parser.at;
    if (d->begin == d->in_len)
        d->begin = d->in_len = 0;
    http_parser_start(&d->parser, c->server->config.limits);
    if (c->in_turn)
        return;
    if (d->in_len > d->begin && !c->last)
        queue_turn(c);    /* not now: the caller is in the middle of something */
    http_connection_rest(c);
}

void http_answer(struct http_exchange *x, int status, struct str type, struct str body, struct str extra)
{
    struct http_connection *c = desk_of(x)->connection;
    check(c->busy && !c->streaming);
    if (!c->dead)
        put_answer(c, status, type, body, extra);
    finish(c);
}

void http_answer_ready(struct http_exchange *x, const struct http_ready *r)
{
    struct http_desk *d = desk_of(x);
    struct http_connection *c = d->connection;
    check(c->busy && !c->streaming);
    c->last |= c->server->draining || c->server->leaving;
    bool plain = !c->last && d->parser.request.minor == 1 && d->parser.request.method != HTTP_HEAD;
    if (!c->dead && plain && c->spill.len == 0 && r->len <= HTTP_OUT_CAP - d->out_len) {
        char *at = d->out + d->out_len;
        memcpy(at, r->bytes, r->len);
        memcpy(at + r->date_at, c->server->date, HTTP_DATE_TEXT);
        d->out_len += r->len;
    } else if (!c->dead) {
        put(c, (struct str){r->bytes, r->date_at});
        put(c, (struct str){c->server->date, HTTP_DATE_TEXT});
        put(c, (struct str){r->bytes + r->date_at + HTTP_DATE_TEXT, r->head_len - r->date_at - HTTP_DATE_TEXT});
        if (c->last || d->parser.request.minor == 0)
            put(c, c->last ? str_lit("Connection: close\r\n") : str_lit("Connection: keep-alive\r\n"));
        put(c, (struct str){r->bytes + r->head_len, d->parser.request.method == HTTP_HEAD ? 2 : r->len - r->head_len});
    }
    finish(c);
}

void http_stream_begin(struct http_exchange *x, int status, struct str type, struct str extra)
{
    struct http_connection *c = desk_of(x)->connection;
    check(c->busy && !c->streaming);
    c->streaming = true;
    c->chunked = x->request->minor == 1;
    c->last |= !c->chunked;
    if (c->dead)
        return;
    put_head(c, status, type, c->chunked ? HTTP_LENGTH_CHUNKED : HTTP_LENGTH_UNTIL_END, extra);
    c->in_send = true;
    if (!c->in_turn)
        http_connection_rest(c);
    c->in_send = false;
}

bool http_stream_send(struct http_exchange *x, struct str bytes)
{
    struct http_connection *c = desk_of(x)->connection;
    check(c->busy && c->streaming);
    if (c->dead || bytes.len == 0 || x->request->method == HTTP_HEAD)
        return !c->dead;
    char size[20];
    struct buf b = buf_fixed(size, sizeof size);
    if (c->chunked) {
        buf_add_fmt(&b, "%zx\r\n", bytes.len);
        put(c, buf_str(&b));
    }
    put(c, bytes);
    if (c->chunked)
        put(c, str_lit("\r\n"));
    c->in_send = true;
    if (!c->in_turn)
        http_connection_rest(c);
    c->in_send = false;
    return !c->dead;
}

void http_stream_end(struct http_exchange *x)
{
    struct http_connection *c = desk_of(x)->connection;
    check(c->busy && c->streaming);
    if (!c->dead && c->chunked && x->request->method != HTTP_HEAD)
        put(c, str_lit("0\r\n\r\n"));
    finish(c);
}

/* ---- the road ---- */

void http_connection_watch(struct http_connection *c, int events)
{
    if (c->events == events)
        return;
    c->events = events;
    check(uv_poll_start(&c->poll, events, on_poll) == 0);
}

void http_connection_phase(struct http_connection *c, enum http_phase phase, uint32_t ms)
{
    c->phase = phase;
    wheel_set(&c->server->wheel, &c->deadline, http_ticks(ms));
}

/* Brings the request to the front of the input where it began too far back to have room for the whole of itself. */
static void make_room(struct http_desk *d)
{
    if (d->begin <= HTTP_SLACK)
        return;
    memmove(d->in, d->in + d->begin, d->in_len - d->begin);
    d->in_len -= d->begin;
    d->begin = 0;
}

/* Parses and hands over what has come in, until something must be waited for. */
static void turn(struct http_connection *c)
{
    struct http_desk *d = c->desk;
    c->in_turn = true;
    for (int left = TURN_REQUESTS; !c->busy && !c->last && d->in_len > d->begin; left--) {
        if (left == 0 || c->spill.len > 0) {
            queue_turn(c);
            break;
        }
        if (d->parser.at == 0)
            make_room(d);
        size_t len = d->in_len - d->begin;
        enum http_progress progress = http_parse(&d->parser, d->in + d->begin, &len);
        d->in_len = d->begin + len;
        if (progress == HTTP_COMPLETE) {
            hand_over(c);
        } else if (progress == HTTP_REFUSED) {
            http_connection_refuse(c, d->parser.status, d->parser.why);
        } else {
            if (d->parser.request.expects_continue && http_parser_in_body(&d->parser)) {
                d->parser.request.expects_continue = false;
                put(c, str_lit("HTTP/1.1 100 Continue\r\n\r\n"));
            }
            if (d->in_len == c->server->in_cap)
                http_connection_refuse(c, 413, "the request is too large");
            break;
        }
    }
    c->in_turn = false;
}

/* Nothing more will be asked or said. After a refusal the client may still be sending: a close now would reset the connection
 * and take the answer away before it is read. */
static void part(struct http_connection *c)
{
    if (c->phase != HTTP_LINGERING || c->eof || shutdown(c->fd, SHUT_WR) != 0) {
        http_connection_lose(c);
        return;
    }
    http_connection_phase(c, HTTP_LINGERING, LINGER_MS);
    give_desk(c);
    http_connection_watch(c, UV_READABLE);
}

/* Waiting for the client to send: nothing yet, the rest of a head, or the rest of a body. */
static void await_input(struct http_connection *c)
{
    const struct http_server_config *k = &c->server->config;
    struct http_desk *d = c->desk;
    if (d->in_len == d->begin) {
        if (c->server->draining) {
            http_connection_lose(c);
            return;
        }
        give_desk(c);
        http_connection_phase(c, HTTP_IDLE, k->idle_ms);
    } else if (http_parser_in_body(&d->parser)) {
        if (c->phase != HTTP_IN_BODY)
            http_connection_phase(c, HTTP_IN_BODY, k->body_ms);
    } else if (c->phase != HTTP_IN_HEAD) {
        http_connection_phase(c, HTTP_IN_HEAD, k->head_ms);
    }
    http_connection_watch(c, UV_READABLE);
}

void http_connection_rest(struct http_connection *c)
{
    if (!c->desk)
        take_desk(c);
    if (!flush(c))
        return;
    if (pending(c) > 0) {    /* a slow reader: nothing more is read from him meanwhile */
        if (c->phase != HTTP_LINGERING && !c->busy)
            c->phase = HTTP_WRITING;
        wheel_set(&c->server->wheel, &c->deadline, http_ticks(c->server->config.write_ms));
        http_connection_watch(c, UV_WRITABLE);
    } else if (c->busy) {
        wheel_unset(&c->deadline);
        bool room = c->desk->in_len < c->server->in_cap && !c->eof;
        http_connection_watch(c, room ? UV_READABLE : c->eof ? UV_PRIORITIZED : UV_DISCONNECT);    /* PRIORITIZED: nothing but a reset */
    } else if (c->last || (c->eof && list_empty(&c->ready))) {
        part(c);
    } else if (!list_empty(&c->ready)) {
        wheel_unset(&c->deadline);
        uv_idle_start(&c->server->idle, http_connection_turns);
        http_connection_watch(c, 0);
    } else {
        await_input(c);
    }
}

/* The client sends no more, but may still read: what it asked completely is answered, also later. A stream ends, for it would never know that
 * the client has left. */
static bool ends_with_client(const struct http_connection *c) { return c->busy && c->streaming && c->desk->exchange.gone; }

static void ended(struct http_connection *c)
{
    c->eof = true;
    if (ends_with_client(c))
        http_connection_lose(c);
    else
        http_connection_rest(c);
}

static void linger(struct http_connection *c)
{
    char waste[4096];
    ssize_t n = recv(c->fd, waste, sizeof waste, 0);
    if (n > 0 && (c->lingered += (uint32_t)n) < LINGER_BYTES)
        return;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    http_connection_lose(c);
}

void http_connection_receive(struct http_connection *c)
{
    if (c->phase == HTTP_LINGERING && !c->busy) {
        linger(c);
        return;
    }
    take_desk(c);
    struct http_desk *d = c->desk;
    check(d->in_len < c->server->in_cap);
    ssize_t n = recv(c->fd, d->in + d->in_len, c->server->in_cap - d->in_len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (d->in_len == 0 && !c->busy)
            give_desk(c);
        return;
    }
    if (n < 0)
        http_connection_lose(c);
    else if (n == 0)
        ended(c);
    else {
        d->in_len += (size_t)n;
        if (!c->busy)
            turn(c);
        http_connection_rest(c);
    }
}

/* The socket takes more: when all is out, the requests that waited behind it get their turn. */
static void on_writable(struct http_connection *c)
{
    if (!flush(c))
        return;
    if (pending(c) == 0 && !c->busy && !c->last) {
        list_remove(&c->ready);
        turn(c);
    }
    if (c->phase == HTTP_WRITING && pending(c) == 0)
        c->phase = HTTP_IDLE;
    http_connection_rest(c);
}

/* The socket has reported an error where nothing else was waited for. */
static void on_reset(struct http_connection *c)
{
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0)
        http_connection_lose(c);
    else
        http_connection_watch(c, 0);    /* never wakes for the same thing again */
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct http_connection *c = poll->data;
    if (status < 0)
        http_connection_lose(c);
    else if (events & UV_WRITABLE)
        on_writable(c);
    else if (events & UV_READABLE)
        http_connection_receive(c);
    else if (events & UV_PRIORITIZED)
        on_reset(c);
    else if ((events & UV_DISCONNECT) && ends_with_client(c))
        http_connection_lose(c);
    else
        http_connection_watch(c, UV_PRIORITIZED);    /* he has closed his side, perhaps with requests still unread: http_connection_receive() will see */
}

void http_connection_turns(uv_idle_t *idle)
{
    struct http_server *s = container_of(idle, struct http_server, idle);
    struct link now, *at;
    list_init(&now);
    while ((at = list_take(&s->ready)))
        list_append(&now, at);
    while ((at = list_take(&now))) {
        struct http_connection *c = list_entry(at, struct http_connection, ready);
        if (!c->busy && pending(c) > 0) {    /* he may have read by now: then what he asked behind that has its turn, else on_writable gives it */
            on_writable(c);
            continue;
        }
        if (!c->busy)
            turn(c);
        http_connection_rest(c);
    }
    if (list_empty(&s->ready))
        uv_idle_stop(idle);
}

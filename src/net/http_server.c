/* SPDX-License-Identifier: Apache-2.0
 * http_server.c: uv_poll over our own sockets, so that a request on the usual road costs epoll_wait, recv and send, and nothing else.
 *
 *   connection   fixed pool; small; open while the socket is, and while its exchange is out
 *   desk         what a connection needs while it has something to do: parser, input, output, arena. As many as connections, but
 *                taken last in, first out: few are ever touched when requests are short, and those stay warm in the cache
 *
 * The road: on_poll → receive → turn (parse, handle, parse, ...) → rest (flush; then wait for the right thing under the right deadline).
 * A later answer comes in through finish → rest. Only rest() decides what the connection waits for. */
#include "http_server.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "wheel.h"

#define TICK_MS 100
#define SLACK 4096               /* how far a request may begin from the front of the input before it is moved there */
#define OUT_CAP 8192             /* answers gathered before a send; what is larger goes through `spill` */
#define LINGER_MS 1000           /* after a refusal: time for the client to read why before the socket is reset */
#define LINGER_BYTES (256 * 1024)
#define ACCEPT_BURST 64
#define TURN_REQUESTS 64         /* pipelined requests of one connection before others get their turn */

enum phase { IDLE, IN_HEAD, IN_BODY, OUT, WRITING, LINGERING };    /* what its deadline is about */

struct desk {
    struct desk *next;                 /* in the pool */
    struct connection *connection;
    struct http_exchange exchange;
    size_t begin, in_len;              /* in[begin … in_len): the request being read and what follows it */
    size_t out_len, sent;              /* of out, then spill */
    char *in, *out, *arena;
    struct http_parser parser;
};

#define DESK_HEAD ((sizeof(struct desk) + 63) & ~(size_t)63)

struct connection {
    uv_poll_t poll;
    struct link link;                  /* live, or free */
    struct link ready;                 /* has requests that wait for their turn */
    struct deadline deadline;
    struct http_server *server;
    struct desk *desk;                 /* NULL while it rests */
    struct buf spill;
    int fd, events;
    uint32_t lingered;
    enum phase phase;
    bool busy;                         /* its exchange is out */
    bool streaming, chunked;
    bool in_turn, in_send;             /* who calls: turn(), http_stream_send() */
    bool eof, last, dead, closed;      /* client sends no more; no request after this; socket gone; handle gone too */
};

struct http_server {
    struct http_server_config config;
    uv_poll_t listener;
    uv_timer_t tick;
    uv_idle_t idle;
    struct wheel wheel;
    struct link live, free, ready;
    struct connection *connections;
    struct desk *desks;                /* used before, free now */
    char *memory;
    size_t memory_size, in_cap, desk_size, desks_made;
    struct http_server_stats stats;
    int fd, port, handles;
    bool listening, accept_rests, draining, closing;
    uint32_t drain_ticks;
    void (*drained)(void *);
    void *drained_arg;
    char date[HTTP_DATE_TEXT];
};

static void rest(struct connection *c);
static void on_poll(uv_poll_t *poll, int status, int events);
static void on_idle(uv_idle_t *idle);

static struct desk *desk_of(struct http_exchange *x) { return container_of(x, struct desk, exchange); }
static uint32_t ticks(uint32_t ms) { return (ms + TICK_MS - 1) / TICK_MS; }
static size_t pending(const struct connection *c) { return c->desk ? c->desk->out_len + c->spill.len - c->desk->sent : 0; }

/* ---- pools and ends ---- */

/* The next one that nobody has ever used: its pages are touched here for the first time. */
static struct desk *new_desk(struct http_server *s)
{
    check(s->desks_made < s->config.connections_max);    /* as many as connections */
    struct desk *d = (struct desk *)(void *)(s->memory + s->desks_made++ * s->desk_size);
    d->arena = (char *)d + DESK_HEAD;
    d->out = d->arena + s->config.arena;
    d->in = d->out + OUT_CAP;
    return d;
}

static void take_desk(struct connection *c)
{
    struct http_server *s = c->server;
    if (c->desk)
        return;
    struct desk *d = s->desks ? s->desks : new_desk(s);
    s->desks = d->next;
    d->connection = c;
    d->begin = d->in_len = d->out_len = d->sent = 0;
    http_parser_start(&d->parser, s->config.limits);
    c->desk = d;
}

static void give_desk(struct connection *c)
{
    struct desk *d = c->desk;
    if (!d)
        return;
    d->next = c->server->desks;
    c->server->desks = d;
    c->desk = NULL;
}

static void free_server(struct http_server *s)
{
    munmap(s->memory, s->memory_size);
    free(s->connections);
    free(s);
}

static void handle_gone(struct http_server *s)
{
    if (--s->handles == 0)
        free_server(s);
}

/* The slot is free again once the socket's handle is gone and nobody holds the exchange. */
static void maybe_free(struct connection *c)
{
    if (!c->closed || c->busy)
        return;
    give_desk(c);
    list_remove(&c->link);
    list_append(&c->server->free, &c->link);
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    c->closed = true;
    maybe_free(c);
    handle_gone(c->server);
}

static void bury(struct connection *c)
{
    check(!c->dead);
    c->dead = true;
    wheel_forget(&c->deadline);
    list_remove(&c->ready);
    buf_free(&c->spill);
    c->server->stats.connections--;
    uv_close((uv_handle_t *)&c->poll, on_closed);
    close(c->fd);
}

/* The exchange's owner has let go of it. */
static void release(struct connection *c)
{
    check(c->busy);
    c->busy = c->streaming = false;
    c->server->stats.in_flight--;
}

/* The socket is of no use any more. Whoever waits to answer hears of it, unless it is he who is calling. */
static void lose(struct connection *c)
{
    bury(c);
    if (c->busy && c->desk->exchange.gone && !c->in_send) {
        c->desk->exchange.gone(&c->desk->exchange);
        release(c);
    }
    maybe_free(c);
}

/* ---- output ---- */

static void put(struct connection *c, struct str bytes)
{
    struct desk *d = c->desk;
    if (bytes.len == 0)
        return;
    if (c->spill.len == 0 && bytes.len <= OUT_CAP - d->out_len) {
        memcpy(d->out + d->out_len, bytes.ptr, bytes.len);
        d->out_len += bytes.len;
    } else {
        buf_add_str(&c->spill, bytes);
    }
}

/* Sends what the socket takes. False: the connection is lost (and may be gone: look no further). */
static bool flush(struct connection *c)
{
    struct desk *d = c->desk;
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
            lose(c);
            return false;
        }
        d->sent += (size_t)n;
    }
    if (!buf_ok(&c->spill)) {    /* the answer was never whole */
        c->server->stats.cut++;
        lose(c);
        return false;
    }
    d->sent = d->out_len = 0;
    if (c->spill.ptr)
        buf_free(&c->spill);
    return true;
}

static void put_head(struct connection *c, int status, struct str type, int64_t length, struct str extra)
{
    struct http_server *s = c->server;
    const struct http_request *r = &c->desk->parser.request;
    c->last |= s->draining;
    enum http_ending ending = c->last ? HTTP_ENDING_CLOSE : r->minor == 0 ? HTTP_ENDING_KEEP : HTTP_ENDING_NONE;
    struct desk *d = c->desk;
    struct http_head head = {.status = status, .date = {s->date, sizeof s->date}, .type = type, .length = length, .ending = ending, .extra = extra};
    struct buf b = buf_fixed(d->out + d->out_len, OUT_CAP - d->out_len);
    if (c->spill.len == 0)
        http_head_write(&b, &head);
    if (c->spill.len == 0 && buf_ok(&b))
        d->out_len += b.len;
    else
        http_head_write(&c->spill, &head);
}

static void put_answer(struct connection *c, int status, struct str type, struct str body, struct str extra)
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

static struct str problem(struct http_server *s, struct buf *body, int status, const char *why)
{
    if (s->config.refuse)
        s->config.refuse(body, status, why, s->config.owner);
    else
        plain_problem(body, status, why);
    return buf_ok(body) ? buf_str(body) : (struct str){0};
}

/* The server's own no. What follows on this connection cannot be trusted. */
static void refuse(struct connection *c, int status, const char *why)
{
    char memory[1024];
    struct buf body = buf_fixed(memory, sizeof memory);
    c->last = true;
    c->phase = LINGERING;
    c->server->stats.refused++;
    c->desk->begin = c->desk->in_len = 0;
    c->desk->parser.request.method = HTTP_GET;    /* it may not be known; a body is always said */
    put_answer(c, status, str_lit("application/problem+json"), problem(c->server, &body, status, why), (struct str){0});
}

/* ---- exchanges ---- */

static void hand_over(struct connection *c)
{
    struct http_server *s = c->server;
    struct desk *d = c->desk;
    c->busy = true;
    c->phase = OUT;
    c->last |= !d->parser.request.keep_alive || s->draining;
    s->stats.in_flight++;
    s->stats.requests++;
    d->exchange = (struct http_exchange){.request = &d->parser.request, .owner = s->config.owner, .arena = {.start = d->arena, .cap = s->config.arena}};
    s->config.handle(&d->exchange);
}

/* Its next request waits until the loop comes round. */
static void queue_turn(struct connection *c)
{
    list_remove(&c->ready);
    list_append(&c->server->ready, &c->ready);
}

/* The answer stands in the output. */
static void finish(struct connection *c)
{
    struct desk *d = c->desk;
    release(c);
    if (c->dead) {
        maybe_free(c);
        return;
    }
    c->phase = IDLE;
    d->begin += d->parser.at;
    if (d->begin == d->in_len)
        d->begin = d->in_len = 0;
    http_parser_start(&d->parser, c->server->config.limits);
    if (c->in_turn)
        return;
    if (d->in_len > d->begin && !c->last)
        queue_turn(c);    /* not now: the caller is in the middle of something */
    rest(c);
}

void http_answer(struct http_exchange *x, int status, struct str type, struct str body, struct str extra)
{
    struct connection *c = desk_of(x)->connection;
    check(c->busy && !c->streaming);
    if (!c->dead)
        put_answer(c, status, type, body, extra);
    finish(c);
}

void http_answer_ready(struct http_exchange *x, const struct http_ready *r)
{
    struct desk *d = desk_of(x);
    struct connection *c = d->connection;
    check(c->busy && !c->streaming);
    c->last |= c->server->draining;
    bool plain = !c->last && d->parser.request.minor == 1 && d->parser.request.method != HTTP_HEAD;
    if (!c->dead && plain && c->spill.len == 0 && r->len <= OUT_CAP - d->out_len) {
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
    struct connection *c = desk_of(x)->connection;
    check(c->busy && !c->streaming);
    c->streaming = true;
    c->chunked = x->request->minor == 1;
    c->last |= !c->chunked;
    if (c->dead)
        return;
    put_head(c, status, type, c->chunked ? HTTP_LENGTH_CHUNKED : HTTP_LENGTH_UNTIL_END, extra);
    c->in_send = true;
    if (!c->in_turn)
        rest(c);
    c->in_send = false;
}

bool http_stream_send(struct http_exchange *x, struct str bytes)
{
    struct connection *c = desk_of(x)->connection;
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
        rest(c);
    c->in_send = false;
    return !c->dead;
}

void http_stream_end(struct http_exchange *x)
{
    struct connection *c = desk_of(x)->connection;
    check(c->busy && c->streaming);
    if (!c->dead && c->chunked && x->request->method != HTTP_HEAD)
        put(c, str_lit("0\r\n\r\n"));
    finish(c);
}

/* ---- the road ---- */

static void watch(struct connection *c, int events)
{
    if (c->events == events)
        return;
    c->events = events;
    check(uv_poll_start(&c->poll, events, on_poll) == 0);
}

static void set_phase(struct connection *c, enum phase phase, uint32_t ms)
{
    c->phase = phase;
    wheel_set(&c->server->wheel, &c->deadline, ticks(ms));
}

/* Brings the request to the front of the input where it began too far back to have room for the whole of itself. */
static void make_room(struct desk *d)
{
    if (d->begin <= SLACK)
        return;
    memmove(d->in, d->in + d->begin, d->in_len - d->begin);
    d->in_len -= d->begin;
    d->begin = 0;
}

/* Parses and hands over what has come in, until something must be waited for. */
static void turn(struct connection *c)
{
    struct desk *d = c->desk;
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
            refuse(c, d->parser.status, d->parser.why);
        } else {
            if (d->parser.request.expects_continue && http_parser_in_body(&d->parser)) {
                d->parser.request.expects_continue = false;
                put(c, str_lit("HTTP/1.1 100 Continue\r\n\r\n"));
            }
            if (d->in_len == c->server->in_cap)
                refuse(c, 413, "the request is too large");
            break;
        }
    }
    c->in_turn = false;
}

/* Nothing more will be asked or said. After a refusal the client may still be sending: a close now would reset the connection
 * and take the answer away before it is read. */
static void part(struct connection *c)
{
    if (c->phase != LINGERING || c->eof || shutdown(c->fd, SHUT_WR) != 0) {
        lose(c);
        return;
    }
    set_phase(c, LINGERING, LINGER_MS);
    give_desk(c);
    watch(c, UV_READABLE);
}

/* Waiting for the client to send: nothing yet, the rest of a head, or the rest of a body. */
static void await_input(struct connection *c)
{
    const struct http_server_config *k = &c->server->config;
    struct desk *d = c->desk;
    if (d->in_len == d->begin) {
        if (c->server->draining) {
            lose(c);
            return;
        }
        give_desk(c);
        set_phase(c, IDLE, k->idle_ms);
    } else if (http_parser_in_body(&d->parser)) {
        if (c->phase != IN_BODY)
            set_phase(c, IN_BODY, k->body_ms);
    } else if (c->phase != IN_HEAD) {
        set_phase(c, IN_HEAD, k->head_ms);
    }
    watch(c, UV_READABLE);
}

/* Sends what stands there to be sent, then waits for whatever this connection now has to wait for. */
static void rest(struct connection *c)
{
    if (!c->desk)
        take_desk(c);
    if (!flush(c))
        return;
    if (pending(c) > 0) {    /* a slow reader: nothing more is read from him meanwhile */
        if (c->phase != LINGERING && !c->busy)
            c->phase = WRITING;
        wheel_set(&c->server->wheel, &c->deadline, ticks(c->server->config.write_ms));
        watch(c, UV_WRITABLE);
    } else if (c->busy) {
        wheel_unset(&c->deadline);
        bool room = c->desk->in_len < c->server->in_cap && !c->eof;
        watch(c, room ? UV_READABLE : c->eof ? 0 : UV_DISCONNECT);
    } else if (c->last || (c->eof && list_empty(&c->ready))) {
        part(c);
    } else if (!list_empty(&c->ready)) {
        wheel_unset(&c->deadline);
        uv_idle_start(&c->server->idle, on_idle);
        watch(c, 0);
    } else {
        await_input(c);
    }
}

/* No more will come. Who waits may be told; what was asked completely is still answered. */
static void ended(struct connection *c)
{
    c->eof = true;
    if (c->busy && c->desk->exchange.gone)
        lose(c);
    else
        rest(c);
}

static void linger(struct connection *c)
{
    char waste[4096];
    ssize_t n = recv(c->fd, waste, sizeof waste, 0);
    if (n > 0 && (c->lingered += (uint32_t)n) < LINGER_BYTES)
        return;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    lose(c);
}

static void receive(struct connection *c)
{
    if (c->phase == LINGERING && !c->busy) {
        linger(c);
        return;
    }
    take_desk(c);
    struct desk *d = c->desk;
    check(d->in_len < c->server->in_cap);
    ssize_t n = recv(c->fd, d->in + d->in_len, c->server->in_cap - d->in_len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (d->in_len == 0 && !c->busy)
            give_desk(c);
        return;
    }
    if (n < 0)
        lose(c);
    else if (n == 0)
        ended(c);
    else {
        d->in_len += (size_t)n;
        if (!c->busy)
            turn(c);
        rest(c);
    }
}

/* The socket takes more: when all is out, the requests that waited behind it get their turn. */
static void on_writable(struct connection *c)
{
    if (!flush(c))
        return;
    if (pending(c) == 0 && !c->busy && !c->last) {
        list_remove(&c->ready);
        turn(c);
    }
    if (c->phase == WRITING && pending(c) == 0)
        c->phase = IDLE;
    rest(c);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct connection *c = poll->data;
    if (status < 0)
        lose(c);
    else if (events & UV_WRITABLE)
        on_writable(c);
    else if (events & UV_READABLE)
        receive(c);
    else if ((events & UV_DISCONNECT) && c->busy && c->desk->exchange.gone)
        lose(c);
    else
        watch(c, 0);    /* he has closed his side, perhaps with requests still unread: receive() will see */
}

static void on_idle(uv_idle_t *idle)
{
    struct http_server *s = container_of(idle, struct http_server, idle);
    struct link now, *at;
    list_init(&now);
    while ((at = list_take(&s->ready)))
        list_append(&now, at);
    while ((at = list_take(&now))) {
        struct connection *c = list_entry(at, struct connection, ready);
        if (!c->busy && pending(c) == 0)    /* else on_writable will */
            turn(c);
        rest(c);
    }
    if (list_empty(&s->ready))
        uv_idle_stop(idle);
}

/* ---- deadlines ---- */

static void passed(struct deadline *d)
{
    struct connection *c = list_entry(&d->link, struct connection, deadline.link);
    if (c->phase == IN_HEAD || c->phase == IN_BODY) {
        refuse(c, 408, c->phase == IN_HEAD ? "the head of the request did not come in time" : "the body of the request did not come in time");
        rest(c);
        return;
    }
    c->server->stats.cut += c->phase == WRITING || c->phase == OUT;
    lose(c);
}

static void set_date(struct http_server *s)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    http_date_write(now.tv_sec, s->date);
}

/* Of all who are connected; any of them may be lost meanwhile. */
static void each_live(struct http_server *s, void (*visit)(struct connection *))
{
    struct link all, *at;
    list_init(&all);
    while ((at = list_take(&s->live)))
        list_append(&all, at);
    while ((at = list_take(&all))) {
        struct connection *c = list_entry(at, struct connection, link);
        list_append(&s->live, at);
        if (!c->dead)
            visit(c);
    }
}

/* Who asks nothing at the drain is let go. */
static void lose_idle(struct connection *c)
{
    if (c->busy || c->desk || c->phase != IDLE)
        return;
    receive(c);    /* perhaps a request is there that we have not seen */
    if (!c->dead && !c->desk)
        lose(c);
}

static void on_accept(uv_poll_t *poll, int status, int events);

static void on_tick(uv_timer_t *timer)
{
    struct http_server *s = timer->data;
    set_date(s);
    wheel_tick(&s->wheel, passed);
    if (s->accept_rests && s->listening) {
        s->accept_rests = false;
        check(uv_poll_start(&s->listener, UV_READABLE, on_accept) == 0);
    }
    if (!s->draining || !s->drained)
        return;
    if (s->drain_ticks > 0 && --s->drain_ticks == 0)
        each_live(s, lose);
    if (list_empty(&s->live)) {
        void (*drained)(void *) = s->drained;
        s->drained = NULL;
        drained(s->drained_arg);
    }
}

/* ---- accepting ---- */

static void turn_away(struct http_server *s, int fd)
{
    char memory[2048], text[1024];
    struct buf out = buf_fixed(memory, sizeof memory), body = buf_fixed(text, sizeof text);
    struct str why = problem(s, &body, 503, "all connections are taken");
    http_head_write(&out, &(struct http_head){.status = 503, .date = {s->date, sizeof s->date}, .type = str_lit("application/problem+json"),
                                              .length = (int64_t)why.len, .ending = HTTP_ENDING_CLOSE, .extra = str_lit("Retry-After: 1\r\n")});
    buf_add_str(&out, why);
    if (buf_ok(&out))
        (void)!send(fd, out.ptr, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
    close(fd);
    s->stats.turned_away++;
}

static void welcome(struct http_server *s, int fd)
{
    struct link *at = list_take(&s->free);
    if (!at) {
        turn_away(s, fd);
        return;
    }
    struct connection *c = list_entry(at, struct connection, link);
    *c = (struct connection){.server = s, .fd = fd, .spill = buf_growing(s->config.answer_max)};
    list_init(&c->ready);
    deadline_init(&c->deadline);
    list_append(&s->live, at);
    check(uv_poll_init(s->listener.loop, &c->poll, fd) == 0);
    c->poll.data = c;
    s->handles++;
    s->stats.connections++;
    s->stats.accepted++;
    set_phase(c, IDLE, s->config.idle_ms);
    watch(c, UV_READABLE);
}

static void accept_some(struct http_server *s, int most)
{
    for (; most > 0; most--) {
        int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            welcome(s, fd);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            s->accept_rests = true;    /* the queue would wake us without end; look again with the next tick */
            uv_poll_stop(&s->listener);
            return;
        }
    }
}

static void on_accept(uv_poll_t *poll, int status, int events)
{
    (void)events;
    if (status >= 0)
        accept_some(poll->data, ACCEPT_BURST);
}

/* ---- birth and death ---- */

static void on_own_closed(uv_handle_t *handle) { handle_gone(handle->data); }

static struct http_server_config with_defaults(struct http_server_config k)
{
#define OR(field, value) k.field = k.field ? k.field : (value)
    OR(connections_max, 4096);
    OR(limits.line, 4096);
    OR(limits.head, 8192);
    OR(limits.body, 16384);
    OR(arena, 8192);
    OR(answer_max, 4 << 20);
    OR(head_ms, 5000);
    OR(body_ms, 5000);
    OR(idle_ms, 15000);
    OR(write_ms, 10000);
#undef OR
    check(k.handle != NULL && k.head_ms < 25000 && k.body_ms < 25000 && k.idle_ms < 25000 && k.write_ms < 25000);
    return k;
}

static size_t in_cap_of(const struct http_server_config *k) { return SLACK + 2 * k->limits.head + k->limits.body + 64; }
static size_t desk_size_of(const struct http_server_config *k) { return (DESK_HEAD + in_cap_of(k) + OUT_CAP + k->arena + 4095) & ~(size_t)4095; }

size_t http_server_memory(const struct http_server_config *config)
{
    struct http_server_config k = with_defaults(*config);
    return k.connections_max * (desk_size_of(&k) + sizeof(struct connection));
}

/* One piece of address space for all desks; pages are touched only when a desk is used. */
static bool make_pools(struct http_server *s)
{
    size_t count = s->config.connections_max;
    s->in_cap = in_cap_of(&s->config);
    s->desk_size = desk_size_of(&s->config);
    s->memory_size = s->desk_size * count;
    s->memory = mmap(NULL, s->memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    s->connections = calloc(count, sizeof *s->connections);
    if (s->memory == MAP_FAILED || !s->connections)
        return false;
    for (size_t i = 0; i < count; i++) {
        list_init(&s->connections[i].link);
        list_append(&s->free, &s->connections[i].link);
    }
    return true;
}

struct http_server *http_server_open(uv_loop_t *loop, const struct http_server_config *config, int *error)
{
    struct http_server *s = calloc(1, sizeof *s);
    check(s != NULL);
    s->config = with_defaults(*config);
    list_init(&s->live), list_init(&s->free), list_init(&s->ready);
    wheel_init(&s->wheel);
    check(make_pools(s));
    s->fd = address_listen(&s->config.listen, s->config.reuse_port, 4096);
    if (s->fd < 0) {
        *error = s->fd;
        free_server(s);
        return NULL;
    }
    s->port = address_port(s->fd);
    check(uv_poll_init(loop, &s->listener, s->fd) == 0 && uv_timer_init(loop, &s->tick) == 0 && uv_idle_init(loop, &s->idle) == 0);
    s->listener.data = s->tick.data = s->idle.data = s;
    s->handles = 3;
    s->listening = true;
    set_date(s);
    check(uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS) == 0 && uv_poll_start(&s->listener, UV_READABLE, on_accept) == 0);
    return s;
}

int http_server_port(const struct http_server *s) { return s->port; }
struct http_server_stats http_server_stats(const struct http_server *s) { return s->stats; }

static void stop_listening(struct http_server *s)
{
    if (!s->listening)
        return;
    s->listening = false;
    uv_close((uv_handle_t *)&s->listener, on_own_closed);
    close(s->fd);
    if (s->config.listen.sock.any.sa_family == AF_UNIX)
        unlink(s->config.listen.sock.path.sun_path);
}

void http_server_drain(struct http_server *s, uint32_t ms, void (*done)(void *arg), void *arg)
{
    check(!s->draining);
    accept_some(s, 4096);    /* who is in the queue already would be reset by the close: he gets his answer */
    stop_listening(s);
    s->draining = true;
    s->drain_ticks = ticks(ms) + 1;
    s->drained = done;
    s->drained_arg = arg;
    each_live(s, lose_idle);
}

void http_server_close(struct http_server *s)
{
    check(!s->closing);
    s->closing = true;
    stop_listening(s);
    each_live(s, lose);
    list_each(at, &s->live) {
        struct connection *c = list_entry(at, struct connection, link);
        c->busy = false;
    }
    uv_close((uv_handle_t *)&s->tick, on_own_closed);
    uv_close((uv_handle_t *)&s->idle, on_own_closed);
}

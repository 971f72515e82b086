/* SPDX-License-Identifier: Apache-2.0
 * http_server.c: uv_poll over our own sockets, so that a request on the usual road costs epoll_wait, recv and send, and nothing else. Here
 * connections are let in, their deadlines pass, and the server is born and dies; what one of them does meanwhile: http_connection.h. */
#include "http_server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "http_connection.h"

#define ACCEPT_BURST 64

/* ---- deadlines ---- */

static void passed(struct deadline *d)
{
    struct http_connection *c = list_entry(&d->link, struct http_connection, deadline.link);
    if (c->phase == HTTP_IN_HEAD || c->phase == HTTP_IN_BODY) {
        http_connection_refuse(c, 408, c->phase == HTTP_IN_HEAD ? "the head of the request did not come in time" : "the body of the request did not come in time");
        http_connection_rest(c);
        return;
    }
    c->server->stats.cut += c->phase == HTTP_WRITING || c->phase == HTTP_OUT;
    http_connection_lose(c);
}

static void set_date(struct http_server *s)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    http_date_write(now.tv_sec, s->date);
}

/* Of all who are connected; any of them may be lost meanwhile. */
static void each_live(struct http_server *s, void (*visit)(struct http_connection *))
{
    struct link all, *at;
    list_init(&all);
    while ((at = list_take(&s->live)))
        list_append(&all, at);
    while ((at = list_take(&all))) {
        struct http_connection *c = list_entry(at, struct http_connection, link);
        list_append(&s->live, at);
        if (!c->dead)
            visit(c);
    }
}

/* Who asks nothing at the drain is let go. */
static void lose_idle(struct http_connection *c)
{
    if (c->busy || c->desk || c->phase != HTTP_IDLE)
        return;
    http_connection_receive(c);    /* perhaps a request is there that we have not seen */
    if (!c->dead && !c->desk)
        http_connection_lose(c);
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
        each_live(s, http_connection_lose);
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
    struct str why = http_connection_problem(s, &body, 503, "all connections are taken");
    http_head_write(&out, &(struct http_head){.status = 503, .date = {s->date, sizeof s->date}, .type = str_lit("application/problem+json"),
                                              .length = (int64_t)why.len, .ending = HTTP_ENDING_CLOSE, .extra = str_lit("Retry-After: 1\r\n")});
    buf_add_str(&out, why);
    if (buf_ok(&out))
        (void)!send(fd, out.ptr, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
    close(fd);
    s->stats.turned_away++;
}

static void welcome(struct http_server *s, int fd, const struct address *from)
{
    struct link *at = list_take(&s->free);
    if (!at) {
        turn_away(s, fd);
        return;
    }
    struct http_connection *c = list_entry(at, struct http_connection, link);
    *c = (struct http_connection){.server = s, .fd = fd, .client = http_idle_key_of(&from->sock.any), .spill = buf_growing(s->config.answer_max)};
    http_idle_add(&s->idle_ones, &c->idle, &c->client);
    list_init(&c->ready);
    deadline_init(&c->deadline);
    list_append(&s->live, at);
    check(uv_poll_init(s->listener.loop, &c->poll, fd) == 0);
    c->poll.data = c;
    s->handles++;
    s->stats.connections++;
    s->stats.accepted++;
    http_connection_phase(c, HTTP_IDLE, s->config.idle_ms);
    http_connection_watch(c, UV_READABLE);
}

static bool one_waits(const struct http_server *s)
{
    struct pollfd listener = {.fd = s->fd, .events = POLLIN};
    return poll(&listener, 1, 0) == 1;
}

#define DISPLACE_TRIES 8
/* Closes an idle connection, so that its place is free when the loop comes round. False: none is idle. */
static bool displace_idle(struct http_server *s)
{
    struct http_idle_entry *e;
    for (int tries = DISPLACE_TRIES; tries > 0 && (e = http_idle_choose(&s->idle_ones)); tries--) {
        struct http_connection *c = container_of(e, struct http_connection, idle);
        if (c->phase == HTTP_IDLE)
            http_connection_receive(c);    /* perhaps a request is there that we have not seen */
        if (c->dead || c->desk)
            continue;
        s->stats.displaced++;
        http_connection_lose(c);
        return true;
    }
    return false;
}

static void accept_some(struct http_server *s, int most)
{
    for (; most > 0; most--) {
        if (list_empty(&s->free) && most <= ACCEPT_BURST && one_waits(s) && displace_idle(s))
            return;    /* the listener wakes us again, and then there is a place */
        struct address from = {.len = sizeof from.sock.storage};
        int fd = accept4(s->fd, &from.sock.any, &from.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            welcome(s, fd, &from);
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

static void free_server(struct http_server *s)
{
    if (s->memory && s->memory != MAP_FAILED)
        munmap(s->memory, s->memory_size);
    free(s->connections);
    http_idle_free(&s->idle_ones);
    free(s);
}

void http_server_handle_gone(struct http_server *s)
{
    if (--s->handles == 0)
        free_server(s);
}

static void on_own_closed(uv_handle_t *handle) { http_server_handle_gone(handle->data); }

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

static size_t in_cap_of(const struct http_server_config *k)
{
    size_t body = k->limits.wide_body > k->limits.body ? k->limits.wide_body : k->limits.body;
    return HTTP_SLACK + 2 * k->limits.head + body + 64;
}
static size_t desk_size_of(const struct http_server_config *k) { return (HTTP_DESK_HEAD + in_cap_of(k) + HTTP_OUT_CAP + k->arena + 4095) & ~(size_t)4095; }

size_t http_server_memory(const struct http_server_config *config)
{
    struct http_server_config k = with_defaults(*config);
    return k.connections_max * (desk_size_of(&k) + sizeof(struct http_connection)) + http_idle_memory(k.connections_max);
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
    if (s->memory == MAP_FAILED || !s->connections || !http_idle_init(&s->idle_ones, count))
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
    s->fd = make_pools(s) ? address_listen(&s->config.listen, s->config.reuse_port, 4096) : -ENOMEM;
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
    check(uv_timer_start(&s->tick, on_tick, HTTP_TICK_MS, HTTP_TICK_MS) == 0 && uv_poll_start(&s->listener, UV_READABLE, on_accept) == 0);
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

void http_server_leave(struct http_server *s) { s->leaving = true; }

void http_server_drain(struct http_server *s, uint32_t ms, void (*done)(void *arg), void *arg)
{
    check(!s->draining);
    accept_some(s, 4096);    /* who is in the queue already would be reset by the close: he gets his answer */
    stop_listening(s);
    s->draining = true;
    s->drain_ticks = http_ticks(ms) + 1;
    s->drained = done;
    s->drained_arg = arg;
    each_live(s, lose_idle);
}

void http_server_close(struct http_server *s)
{
    check(!s->closing);
    s->closing = true;
    stop_listening(s);
    each_live(s, http_connection_lose);
    list_each(at, &s->live) {
        struct http_connection *c = list_entry(at, struct http_connection, link);
        c->busy = false;
    }
    uv_close((uv_handle_t *)&s->tick, on_own_closed);
    uv_close((uv_handle_t *)&s->idle, on_own_closed);
}

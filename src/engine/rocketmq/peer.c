/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "metric.h"

#define ADDRESSES_MAX 4
#define CONNECT_MS 3000
#define REST_MS_MIN 50u
#define REST_MS_MAX 1000u
#define READ_SIZE (256u << 10)
#define READS_IN_A_TURN 4
#define IN_KEEP (1u << 20)      /* an empty read buffer above this is given back */

enum state { IDLE, RESOLVING, CONNECTING, UP, RESTING };

/* What the loop holds: it outlives the peer by the time the loop needs to let go. */
struct wire {
    uv_poll_t poll;
    struct peer *peer;
    int fd;
};
struct lookup {
    uv_getaddrinfo_t request;
    struct due_table *times;
    struct peer *peer;          /* NULL: nobody wants to know any more */
};

struct peer {
    struct due_table *times;
    struct peer_watch *watch;
    char address[280], host[256], port[8];
    enum state state;
    bool keep, broken, ever_up;
    struct due due;             /* connecting: give up; resting: try again; up: broken */
    uint32_t rest_ms;
    uint64_t link, heard_us;
    struct wire *wire;
    struct lookup *lookup;
    struct sockaddr_storage addresses[ADDRESSES_MAX];
    unsigned address_count, address_turn, address_tries;
    int events;
    struct buf in, out;
    size_t out_at;              /* bytes at the front of out that the kernel has */
    uint64_t out_base;          /* where in the stream out begins */
    struct peer_call *calls[PEER_CALLS_MAX];
    uint32_t turn, call_count;
};

static void connect_begin(struct peer *p);
static void connect_failed(struct peer *p);
static void broke(struct peer *p);

/* ---- calls ---- */

static uint64_t handed_over(const struct peer *p) { return p->out_base + p->out_at; }

static bool enter_call(struct peer *p, struct peer_call *call)
{
    if (p->call_count == PEER_CALLS_MAX)
        return false;
    do
        p->turn = (p->turn + 1) & 0x7fffffff;
    while (p->turn == 0 || p->calls[p->turn % PEER_CALLS_MAX]);
    p->calls[p->turn % PEER_CALLS_MAX] = call;
    p->call_count++;
    call->opaque = (int32_t)p->turn;
    return true;
}

static void leave_call(struct peer_call *call)
{
    struct peer *p = call->peer;
    due_unset(p->times, &call->due);
    if (call->opaque == 0)
        return;
    p->calls[(uint32_t)call->opaque % PEER_CALLS_MAX] = NULL;
    p->call_count--;
    call->opaque = 0;
}

static struct peer_call *call_of(struct peer *p, int32_t opaque)
{
    struct peer_call *call = opaque > 0 ? p->calls[(uint32_t)opaque % PEER_CALLS_MAX] : NULL;
    return call && call->opaque == opaque ? call : NULL;
}

static void call_due(struct due *d)
{
    struct peer_call *call = container_of(d, struct peer_call, due);
    struct peer *p = call->peer;
    if (call->opaque == 0) {
        call->done(call, call->failed, NULL);
        return;
    }
    if (call->end > handed_over(p)) {
        broke(p);    /* ends this call too, and truthfully: the rest of its bytes will never be written */
        return;
    }
    bool silent = p->heard_us < call->asked_us;
    leave_call(call);
    call->done(call, REASON_TIMED_OUT, NULL);
    if (silent && p->state == UP && !p->broken) {
        p->broken = true;
        due_set(p->times, &p->due, 0);
    }
}

void peer_forget(struct peer_call *call)
{
    if (call->peer)
        leave_call(call);
}

/* ---- the connection ends ---- */

static void wire_closed(uv_handle_t *handle)
{
    struct wire *w = container_of((uv_poll_t *)handle, struct wire, poll);
    struct due_table *times = handle->data;
    free(w);
    due_settle(times);
}

static void wire_close(struct peer *p)
{
    struct wire *w = p->wire;
    if (!w)
        return;
    p->wire = NULL;
    w->peer = NULL;
    w->poll.data = p->times;
    uv_close((uv_handle_t *)&w->poll, wire_closed);
    close(w->fd);
}

/* Back to nothing; every call ends by where its last byte is. The calls' owners may ask again at once: they hear that we rest. */
static void broke(struct peer *p)
{
    uint64_t sent = handed_over(p);
    bool was_up = p->state == UP;
    wire_close(p);
    if (p->lookup)
        p->lookup->peer = NULL;
    p->lookup = NULL;
    p->state = RESTING;
    p->broken = false;
    p->address_turn++;
    p->in.len = 0;
    buf_reset(&p->out);
    p->out_at = 0;
    p->out_base = 0;
    p->rest_ms = p->rest_ms == 0 ? REST_MS_MIN : p->rest_ms * 2 > REST_MS_MAX ? REST_MS_MAX : p->rest_ms * 2;
    due_set(p->times, &p->due, p->rest_ms / 2 + (uint32_t)(uv_hrtime() / 64 % p->rest_ms));
    for (size_t i = 0; i < PEER_CALLS_MAX && p->call_count > 0; i++) {
        struct peer_call *call = p->calls[i];
        if (!call)
            continue;
        bool left = call->end <= sent;
        leave_call(call);
        call->done(call, left ? REASON_LINK_LOST : REASON_DEPENDENCY_DOWN, NULL);
    }
    if (was_up)
        p->watch->down(p->watch, p);
}

static void broke_later(struct peer *p)
{
    p->broken = true;
    due_set(p->times, &p->due, 0);
}

/* ---- bytes ---- */

static void wire_event(uv_poll_t *poll, int status, int events);

static void listen_for(struct peer *p, int events)
{
    if (p->events == events)
        return;
    p->events = events;
    if (uv_poll_start(&p->wire->poll, events, wire_event) != 0)
        broke_later(p);
}

/* Hands the kernel what it takes. Never breaks the connection by itself: we may be inside anybody's call. */
static void write_out(struct peer *p)
{
    while (p->state == UP && !p->broken && p->out_at < p->out.len) {
        ssize_t n = send(p->wire->fd, p->out.ptr + p->out_at, p->out.len - p->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            p->out_at += (size_t)n;
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            break;
        } else {
            broke_later(p);
            return;
        }
    }
    if (p->out_at == p->out.len || p->out_at > (1u << 20)) {
        buf_drop_front(&p->out, p->out_at);
        p->out_base += p->out_at;
        p->out_at = 0;
    }
    if (p->state == UP && !p->broken)
        listen_for(p, p->out.len > 0 ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

/* The server asks something of us. We can do nothing for it, but where it waits for an answer it shall have one. */
static void answer_server(struct peer *p, const struct frame *f)
{
    if (f->flag & FRAME_FLAG_ONEWAY)
        return;
    struct frame_writer w = frame_begin(&p->out, ANSWER_NOT_SUPPORTED, FRAME_FLAG_ANSWER);
    frame_body(&w);
    frame_end(&w);
    if (!buf_ok(&p->out)) {
        p->out.len = w.start;
        p->out.overflow = false;
        return;
    }
    frame_set_opaque(p->out.ptr + w.start, f->opaque);
    write_out(p);
}

static void take_frame(struct peer *p, const struct frame *f)
{
    p->rest_ms = 0;    /* it speaks our language: what broke before is forgotten */
    if (!(f->flag & FRAME_FLAG_ANSWER)) {
        answer_server(p, f);
        return;
    }
    struct peer_call *call = call_of(p, f->opaque);
    if (!call) {
        metric_one(METRIC_LATE_ANSWERS);
        return;
    }
    leave_call(call);
    call->done(call, REASON_OK, f);
}

/* All whole frames of the read buffer. False: what came is no frame. */
static bool take_frames(struct peer *p)
{
    size_t at = 0, size = 0;
    while (!p->broken) {
        struct frame f;
        if (!frame_size((struct str){p->in.ptr + at, p->in.len - at}, &size))
            return false;
        if (size == 0 || size > p->in.len - at)
            break;
        if (!frame_decode(p->in.ptr + at, size, &f))
            return false;
        at += size;
        take_frame(p, &f);
    }
    buf_drop_front(&p->in, at);
    if (p->in.len == 0 && p->in.cap > IN_KEEP)
        buf_free(&p->in);
    return true;
}

static void read_in(struct peer *p)
{
    for (int i = 0; i < READS_IN_A_TURN && p->state == UP && !p->broken; i++) {
        char *room = buf_room(&p->in, READ_SIZE);
        ssize_t n = room ? recv(p->wire->fd, room, READ_SIZE, MSG_DONTWAIT) : -1;
        if (n < 0 && room && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return;
        if (n <= 0) {
            broke(p);
            return;
        }
        p->in.len += (size_t)n;
        p->heard_us = due_now_us();
        if (!take_frames(p)) {
            broke(p);
            return;
        }
        if ((size_t)n < READ_SIZE)
            return;
    }
}

/* ---- connecting ---- */

static void connected(struct peer *p)
{
    int error = 0;
    socklen_t n = sizeof error;
    if (getsockopt(p->wire->fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0 || error != 0) {
        connect_failed(p);
        return;
    }
    if (p->ever_up)
        metric_one(METRIC_ENGINE_RECONNECTS);
    p->ever_up = true;
    p->state = UP;
    p->link = ++p->watch->links;
    p->heard_us = due_now_us();
    due_unset(p->times, &p->due);
    p->watch->up(p->watch, p);
    write_out(p);
}

static void wire_event(uv_poll_t *poll, int status, int events)
{
    struct peer *p = container_of(poll, struct wire, poll)->peer;
    if (!p)
        return;
    if (p->state == CONNECTING) {
        if (status < 0)
            connect_failed(p);
        else
            connected(p);
        return;
    }
    if (status < 0) {
        broke(p);
        return;
    }
    if (events & UV_WRITABLE)
        write_out(p);
    if (events & UV_READABLE)
        read_in(p);
}

static void set_socket(int fd)
{
    int on = 1, idle = 30, between = 10, times = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

static void connect_to(struct peer *p, const struct sockaddr_storage *address)
{
    socklen_t n = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        broke_later(p);
        return;
    }
    set_socket(fd);
    struct wire *w = calloc(1, sizeof *w);
    bool going = w && (connect(fd, (const struct sockaddr *)address, n) == 0 || errno == EINPROGRESS);
    if (!going || uv_poll_init(p->times->loop, &w->poll, fd) != 0) {
        free(w);
        close(fd);
        broke_later(p);
        return;
    }
    w->fd = fd;
    w->peer = p;
    due_owe(p->times);
    p->wire = w;
    p->events = 0;
    listen_for(p, UV_WRITABLE);
    if (!p->broken)
        due_set(p->times, &p->due, CONNECT_MS);
}

static void keep_addresses(struct peer *p, const struct addrinfo *found)
{
    p->address_count = p->address_tries = 0;
    for (const struct addrinfo *a = found; a && p->address_count < ADDRESSES_MAX; a = a->ai_next)
        if ((a->ai_family == AF_INET || a->ai_family == AF_INET6) && a->ai_addrlen <= sizeof p->addresses[0])
            memcpy(&p->addresses[p->address_count++], a->ai_addr, a->ai_addrlen);
}

static void connect_next(struct peer *p)
{
    p->state = CONNECTING;
    p->broken = false;
    if (p->address_count == 0)
        broke_later(p);
    else
        connect_to(p, &p->addresses[p->address_turn % p->address_count]);
}

/* A name may have several addresses (localhost has two): the call has failed when none of them answers. */
static void connect_failed(struct peer *p)
{
    if (++p->address_tries >= p->address_count) {
        broke(p);
        return;
    }
    wire_close(p);
    p->address_turn++;
    connect_next(p);
}

static void looked_up(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct lookup *l = container_of(request, struct lookup, request);
    struct due_table *times = l->times;
    struct peer *p = l->peer;
    if (p) {
        p->lookup = NULL;
        keep_addresses(p, status == 0 ? found : NULL);
        connect_next(p);
    }
    uv_freeaddrinfo(found);
    free(l);
    due_settle(times);
}

static void resolve(struct peer *p)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct lookup *l = calloc(1, sizeof *l);
    p->state = RESOLVING;
    due_set(p->times, &p->due, CONNECT_MS);
    if (!l || uv_getaddrinfo(p->times->loop, &l->request, looked_up, p->host, p->port, &hints) != 0) {
        free(l);
        broke_later(p);
        return;
    }
    l->times = p->times;
    l->peer = p;
    p->lookup = l;
    due_owe(p->times);
}

static void connect_begin(struct peer *p)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found = NULL;
    if (getaddrinfo(p->host, p->port, &hints, &found) == 0) {    /* numbers only: asks nobody */
        keep_addresses(p, found);
        freeaddrinfo(found);
        connect_next(p);
        return;
    }
    resolve(p);
}

static void peer_due(struct due *d)
{
    struct peer *p = container_of(d, struct peer, due);
    if (p->state == CONNECTING) {    /* too slow, or impossible */
        connect_failed(p);
        return;
    }
    if (p->state != RESTING) {
        broke(p);
        return;
    }
    p->state = IDLE;
    if (p->keep)
        connect_begin(p);
}

/* ---- doors ---- */

static bool split_address(struct peer *p, struct str address)
{
    const char *colon = memrchr(address.ptr, ':', address.len);
    if (!colon || address.len >= sizeof p->address)
        return false;
    struct str host = str_range(address.ptr, colon), port = str_range(colon + 1, address.ptr + address.len);
    if (host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
        host = (struct str){host.ptr + 1, host.len - 2};
    uint64_t number;
    if (host.len == 0 || host.len >= sizeof p->host || !str_to_u64(port, &number) || number == 0 || number > 65535 || port.len >= sizeof p->port)
        return false;
    memcpy(p->address, address.ptr, address.len);
    memcpy(p->host, host.ptr, host.len);
    memcpy(p->port, port.ptr, port.len);
    return true;
}

struct peer *peer_new(struct due_table *times, struct peer_watch *watch, struct str address)
{
    struct peer *p = calloc(1, sizeof *p);
    if (!p || address.len == 0 || !split_address(p, address)) {
        free(p);
        return NULL;
    }
    p->times = times;
    p->watch = watch;
    p->due.ring = peer_due;
    p->in = buf_growing(FRAME_MAX + READ_SIZE);
    p->out = buf_growing(PEER_OUT_MAX);
    return p;
}

void peer_free(struct peer *p)
{
    if (p->state != RESTING && p->state != IDLE)
        broke(p);
    due_unset(p->times, &p->due);
    check(p->call_count == 0);
    buf_free(&p->in);
    buf_free(&p->out);
    free(p);
}

struct str peer_address(const struct peer *p) { return str_of(p->address); }
bool peer_up(const struct peer *p) { return p->state == UP && !p->broken; }
bool peer_resting(const struct peer *p) { return p->state == RESTING || p->broken; }
bool peer_unused(const struct peer *p) { return (p->state == IDLE || p->state == RESTING) && !p->keep && p->call_count == 0; }
uint64_t peer_link(const struct peer *p) { return p->link; }

void peer_keep(struct peer *p, bool keep)
{
    p->keep = keep;
    if (keep && p->state == IDLE)
        connect_begin(p);
}

struct frame_writer peer_begin(struct peer *p, int code) { return frame_begin(&p->out, code, 0); }

static void fail_later(struct peer *p, struct peer_call *call, struct frame_writer *w, enum reason reason)
{
    p->out.len = w->start;    /* the request is taken back whole: none of it has been written */
    p->out.overflow = false;
    call->failed = reason;
    due_set(p->times, &call->due, 0);
}

void peer_ask(struct peer *p, struct peer_call *call, struct frame_writer *w, uint32_t deadline_ms)
{
    call->peer = p;
    call->due.ring = call_due;
    call->opaque = 0;
    frame_end(w);
    if (peer_resting(p)) {
        fail_later(p, call, w, REASON_DEPENDENCY_DOWN);
        return;
    }
    if (!buf_ok(&p->out) || p->out.len - w->start > FRAME_MAX || !enter_call(p, call)) {
        fail_later(p, call, w, REASON_ENGINE_BUSY);
        return;
    }
    frame_set_opaque(p->out.ptr + w->start, call->opaque);
    call->end = p->out_base + p->out.len;
    call->asked_us = due_now_us();
    due_set(p->times, &call->due, deadline_ms);
    if (p->state == IDLE)
        connect_begin(p);
    else
        write_out(p);
}

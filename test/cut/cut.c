/* SPDX-License-Identifier: Apache-2.0
 * cut.c: a connection is a pair of sides. A piece that comes in at one goes out at the other, at once or when it is let through; a pair that is to be
 * closed stops reading, writes what it has, and goes. */
#include "cut.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "list.h"

#define PIECE_MAX 65536
#define SPLIT_BYTES 7     /* of the first piece */
#define SPLIT_MS 3

struct pair;
struct side {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } u;
    struct pair *pair;
    struct side *other;
    bool is_tcp, open, hold, drop, split;    /* of what goes out here: held; thrown away; in two pieces */
    struct link held;
};
struct pair {
    struct link link;
    struct cut_relay *relay;
    struct side client, server;
    bool closing, resets, leaving;    /* leaving: closed once all is written */
    size_t writes;
    unsigned open_handles;
    enum cut cut;             /* under way on this pair; CUT_COUNT: none */
    uv_timer_t late;
};
struct piece {
    struct link link;
    uv_write_t write;
    struct side *to;
    size_t size;
    char bytes[];
};
struct cut_relay {
    uv_loop_t *loop;
    struct side listener;
    struct sockaddr_in target;
    char target_path[108];
    char path[108];
    struct link pairs;
    enum cut armed;
    uint32_t late_ms;
    bool fell, down, closing;
    uint64_t requests;
    int port;
    void (*hook)(void *arg, char *bytes, size_t size);
    void *hook_arg;
};

static const char *const names[] = {
#define CUT(name, text) #name,
#include "cut.def"
#undef CUT
};
const char *cut_name(enum cut cut) { return cut < CUT_COUNT ? names[cut] : "NONE"; }
bool cut_parse(const char *name, enum cut *out)
{
    for (unsigned i = 0; i < CUT_COUNT; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum cut)i;
            return true;
        }
    return false;
}

/* ---- the end of a pair ---------------------------------------------------------------------------------------------------------- */

static void drop_held(struct side *s)
{
    struct link *l;
    while ((l = list_take(&s->held)))
        free(list_entry(l, struct piece, link));
}

static void handle_gone(uv_handle_t *handle)
{
    struct pair *p = handle->data;
    if (--p->open_handles > 0)
        return;
    struct cut_relay *r = p->relay;
    list_remove(&p->link);
    free(p);
    if (r->closing && list_empty(&r->pairs))
        free(r);
}

static void side_close(struct side *s, bool reset)
{
    drop_held(s);
    if (!s->open)
        return;
    s->open = false;
    if (!(reset && s->is_tcp && uv_tcp_close_reset(&s->u.tcp, handle_gone) == 0))
        uv_close(&s->u.handle, handle_gone);
}

static void pair_close(struct pair *p)
{
    if (p->closing)
        return;
    p->closing = true;
    uv_close((uv_handle_t *)&p->late, handle_gone);
    side_close(&p->client, p->resets);
    side_close(&p->server, p->resets);
}

/* ---- passing on ----------------------------------------------------------------------------------------------------------------- */

static void ended(uv_shutdown_t *q, int status)
{
    (void)status;
    free(q);
}

static void side_end(struct side *s)
{
    uv_shutdown_t *q = malloc(sizeof *q);
    check(q != NULL);
    if (uv_shutdown(q, &s->u.stream, ended) != 0)
        free(q);
}

static void written(uv_write_t *w, int status)
{
    struct piece *piece = container_of(w, struct piece, write);
    struct side *to = piece->to;
    struct pair *p = to->pair;
    free(piece);
    p->writes--;
    if (status != 0 || (p->writes == 0 && p->leaving))
        pair_close(p);
}

static void put(struct side *to, const char *bytes, size_t size)
{
    struct piece *piece = malloc(sizeof *piece + size);
    check(piece != NULL);
    piece->to = to;
    piece->size = size;
    memcpy(piece->bytes, bytes, size);
    if (to->hold) {
        list_append(&to->held, &piece->link);
        return;
    }
    uv_buf_t b = uv_buf_init(piece->bytes, (unsigned)size);
    to->pair->writes++;
    if (uv_write(&piece->write, &to->u.stream, &b, 1, written) != 0) {
        to->pair->writes--;
        free(piece);
    }
}

static void too_late(uv_timer_t *timer);

static void pass(struct side *to, const char *bytes, size_t size)
{
    if (!to->open || to->drop)
        return;
    if (to->split && !to->hold && size > SPLIT_BYTES) {
        put(to, bytes, SPLIT_BYTES);
        bytes += SPLIT_BYTES, size -= SPLIT_BYTES;
        to->hold = true;
        uv_timer_start(&to->pair->late, too_late, SPLIT_MS, 0);
    }
    put(to, bytes, size);
}

static void let_through(struct side *s)
{
    struct link *l;
    s->hold = false;
    while ((l = list_take(&s->held))) {
        struct piece *piece = list_entry(l, struct piece, link);
        if (s->open && !s->drop)
            put(s, piece->bytes, piece->size);
        free(piece);
    }
}

/* Goes when what has been given to the kernel is with it. */
static void close_after_writes(struct pair *p, bool reset)
{
    uv_read_stop(&p->client.u.stream);
    uv_read_stop(&p->server.u.stream);
    p->resets = reset;
    p->leaving = true;
    if (p->writes == 0)
        pair_close(p);
}

static void too_late(uv_timer_t *timer)
{
    struct pair *p = timer->data;
    let_through(&p->client);
    let_through(&p->server);
}

/* ---- cutting -------------------------------------------------------------------------------------------------------------------- */

static void cut_request(struct pair *p, const char *bytes, size_t size)
{
    switch (p->cut) {
    case CUT_BEFORE:
    case CUT_BEFORE_RESET:
        p->resets = p->cut == CUT_BEFORE_RESET;
        pair_close(p);
        return;
    case CUT_HALF_REQUEST:
        pass(&p->server, bytes, size / 2);
        close_after_writes(p, false);
        return;
    case CUT_AFTER:
    case CUT_AFTER_RESET:
        pass(&p->server, bytes, size);
        close_after_writes(p, p->cut == CUT_AFTER_RESET);
        return;
    case CUT_HALF_CLOSE_UP:
        pass(&p->server, bytes, size);
        side_end(&p->server);
        return;
    case CUT_HALF_CLOSE_DOWN:
        pass(&p->server, bytes, size);
        side_end(&p->client);
        p->client.drop = true;
        return;
    case CUT_STALL_UP:
        p->server.hold = true;
        break;
    case CUT_STALL_DOWN:
        p->client.hold = true;
        break;
    case CUT_LATE_ANSWER:
        p->client.hold = true;
        uv_timer_start(&p->late, too_late, p->relay->late_ms, 0);
        break;
    case CUT_SPLIT:
        p->client.split = p->server.split = true;
        break;
    default:
        break;
    }
    pass(&p->server, bytes, size);
}

/* false: the answer is passed on as it is. */
static bool cut_answer(struct pair *p, const char *bytes, size_t size)
{
    enum cut cut = p->cut;
    if (cut != CUT_LOST_ANSWER && cut != CUT_HALF_ANSWER && cut != CUT_AFTER_ANSWER && cut != CUT_TWICE_ANSWER)
        return false;
    p->cut = CUT_COUNT;
    if (cut != CUT_LOST_ANSWER)
        pass(&p->client, bytes, cut == CUT_HALF_ANSWER ? size / 2 : size);
    if (cut == CUT_TWICE_ANSWER)
        pass(&p->client, bytes, size);
    else
        close_after_writes(p, false);
    return true;
}

/* ---- reading -------------------------------------------------------------------------------------------------------------------- */

static void room(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    static char memory[PIECE_MAX];    /* one thread; read and passed on before the next */
    (void)handle, (void)wanted;
    *out = uv_buf_init(memory, sizeof memory);
}

static void came(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct side *from = container_of(stream, struct side, u.stream);
    struct pair *p = from->pair;
    struct cut_relay *r = p->relay;
    if (n == 0)
        return;
    if (n < 0) {
        if (p->cut == CUT_HALF_CLOSE_UP && from == &p->client)
            return;
        pair_close(p);
        return;
    }
    if (from == &p->server) {
        if (r->hook)
            r->hook(r->hook_arg, b->base, (size_t)n);
        if (!cut_answer(p, b->base, (size_t)n))
            pass(&p->client, b->base, (size_t)n);
        return;
    }
    r->requests++;
    if (r->armed == CUT_COUNT) {
        pass(&p->server, b->base, (size_t)n);
        return;
    }
    p->cut = r->armed;
    r->armed = CUT_COUNT;
    r->fell = true;
    cut_request(p, b->base, (size_t)n);
}

/* ---- connecting ----------------------------------------------------------------------------------------------------------------- */

static void connected(uv_connect_t *q, int status)
{
    struct pair *p = q->data;
    free(q);
    if (p->closing)
        return;
    if (status != 0) {
        pair_close(p);
        return;
    }
    uv_read_start(&p->client.u.stream, room, came);
    uv_read_start(&p->server.u.stream, room, came);
}

static void side_init(struct cut_relay *r, struct side *s, bool tcp, void *data)
{
    s->is_tcp = tcp;
    s->open = true;
    list_init(&s->held);
    int failed = tcp ? uv_tcp_init(r->loop, &s->u.tcp) : uv_pipe_init(r->loop, &s->u.pipe, 0);
    check(failed == 0);
    s->u.handle.data = data;
}

static void knocked(uv_stream_t *listener, int status)
{
    struct cut_relay *r = listener->data;
    struct pair *p = calloc(1, sizeof *p);
    uv_connect_t *q = malloc(sizeof *q);
    check(status == 0 && p != NULL && q != NULL);
    p->relay = r;
    p->cut = CUT_COUNT;
    p->open_handles = 3;
    list_append(&r->pairs, &p->link);
    p->client.pair = p->server.pair = p;
    side_init(r, &p->client, r->listener.is_tcp, p);
    side_init(r, &p->server, r->target_path[0] == 0, p);
    check(uv_timer_init(r->loop, &p->late) == 0);
    p->late.data = p;
    q->data = p;
    check(uv_accept(listener, &p->client.u.stream) == 0);
    if (r->down) {
        free(q);
        pair_close(p);
    } else if (p->server.is_tcp) {
        uv_tcp_nodelay(&p->server.u.tcp, 1);
        check(uv_tcp_connect(q, &p->server.u.tcp, (const struct sockaddr *)&r->target, connected) == 0);
    } else {
        uv_pipe_connect(q, &p->server.u.pipe, r->target_path, connected);
    }
    if (p->client.is_tcp && p->client.open)
        uv_tcp_nodelay(&p->client.u.tcp, 1);
}

static bool address(const char *text, struct sockaddr_in *out, char path[108])
{
    char host[64];
    const char *colon = strrchr(text, ':');
    path[0] = 0;
    if (strncmp(text, "unix:", 5) == 0) {
        if (strlen(text + 5) >= 108)
            return false;
        memcpy(path, text + 5, strlen(text + 5) + 1);
        return true;
    }
    if (!colon || (size_t)(colon - text) >= sizeof host)
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = 0;
    return uv_ip4_addr(host, atoi(colon + 1), out) == 0;
}

static void listener_gone(uv_handle_t *handle)
{
    struct cut_relay *r = handle->data;
    r->closing = true;
    if (list_empty(&r->pairs))
        free(r);
}

struct cut_relay *cut_open(uv_loop_t *loop, const char *listen, const char *target)
{
    struct cut_relay *r = calloc(1, sizeof *r);
    struct sockaddr_in at;
    int size = sizeof at;
    check(r != NULL);
    r->loop = loop;
    r->armed = CUT_COUNT;
    list_init(&r->pairs);
    if (!address(listen, &at, r->path) || !address(target, &r->target, r->target_path)) {
        free(r);
        return NULL;
    }
    side_init(r, &r->listener, r->path[0] == 0, r);
    int failed = r->path[0] ? uv_pipe_bind(&r->listener.u.pipe, r->path) : uv_tcp_bind(&r->listener.u.tcp, (const struct sockaddr *)&at, 0);
    if (failed != 0 || uv_listen(&r->listener.u.stream, 128, knocked) != 0) {
        uv_close(&r->listener.u.handle, listener_gone);
        return NULL;
    }
    if (!r->path[0] && uv_tcp_getsockname(&r->listener.u.tcp, (struct sockaddr *)&at, &size) == 0)
        r->port = ntohs(at.sin_port);
    return r;
}

/* ---- for everybody ---------------------------------------------------------------------------------------------------------------- */

void cut_hook(struct cut_relay *r, void (*hook)(void *, char *, size_t), void *arg)
{
    r->hook = hook;
    r->hook_arg = arg;
}

int cut_port(const struct cut_relay *r) { return r->port; }
bool cut_fell(const struct cut_relay *r) { return r->fell; }
uint64_t cut_requests(const struct cut_relay *r) { return r->requests; }

void cut_arm(struct cut_relay *r, enum cut cut, uint32_t late_ms)
{
    r->armed = cut;
    r->late_ms = late_ms;
    r->fell = false;
}

void cut_heal(struct cut_relay *r)
{
    r->armed = CUT_COUNT;
    for (struct link *l = r->pairs.next; l != &r->pairs; l = l->next) {
        struct pair *p = list_entry(l, struct pair, link);
        if (p->closing)
            continue;
        p->cut = CUT_COUNT;
        p->client.split = p->server.split = false;
        let_through(&p->client);
        let_through(&p->server);
    }
}

void cut_down(struct cut_relay *r, bool down)
{
    r->down = down;
    for (struct link *l = r->pairs.next; down && l != &r->pairs; l = l->next)
        pair_close(list_entry(l, struct pair, link));
}

void cut_close(struct cut_relay *r)
{
    cut_down(r, true);
    uv_close(&r->listener.u.handle, listener_gone);
}

/* SPDX-License-Identifier: Apache-2.0
 * redis_link.c: the sockets of redis_link.h. One thread. The state says which of the members live:
 *
 *   DOWN ──retry──► RESOLVING ──► CONNECTING ──► GREETING ──► UP
 *     ▲                 │              │             │         │
 *     └─────────────────┴── broken ────┴─────────────┴─────────┘          CLOSED: going away
 */
#include "redis_link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"
#include "metric.h"
#include "redis_reader.h"
#include "redis_reply.h"

#define DEPLOYMENT_KEY "seckill:deployment"           /* whose server it is: set by the first who comes, never changed */
#define OWN_COMMANDS (5 + 2 * REDIS_SCRIPT_COUNT)    /* greeting, and scripts that are loaded again */
#define REPEATS_MOST 3
#define REPLY_BYTES_MOST ((size_t)64 << 20)           /* of one word that is not whole yet */
#define REPLY_MEMORY_MOST ((size_t)256 << 20)         /* of one reply, all its elements */
#define WRITE_PIECES 64

enum state { DOWN, RESOLVING, CONNECTING, GREETING, UP, CLOSED };

struct redis_link {
    uv_loop_t *loop;
    struct redis_address address;
    struct redis_link_options options;
    void (*ended)(void *, struct redis_command *, enum reason, const redisReply *);
    void *context;
    void (*closed)(void *);

    enum state state;
    int fd;
    int events;                      /* what poll waits for */
    uv_poll_t *poll;                 /* one for each connection; frees itself */
    uv_getaddrinfo_t resolving;
    uv_timer_t timer;                /* DOWN: the next try; until UP: gives up; UP: looks for a stall */
    uv_idle_t turn;                  /* runs once in the next turn of the loop while there is something to write */
    unsigned handles;                /* not yet closed */
    struct redis_reader replies;
    uint64_t heard_us;
    struct log_ration refusals;      /* error replies that are logged */
    char refusal[256];               /* the last of them, or why the connection last broke */
    uint32_t retry_ms;
    uint64_t dice;
    bool was_up;

    struct redis_commands commands;
    struct link unsent, sent;
    bool loading[REDIS_SCRIPT_COUNT];
    char incarnation[INCARNATION_TEXT];    /* of the server that was greeted */
    size_t incarnation_len;
    struct redis_command *identifying;     /* the command in flight that asks whose server it is; NULL: none */
    char deployment[64];                   /* as the server says; empty: it has none yet */
};

static uint64_t mono_us(void) { return uv_hrtime() / 1000; }
static struct redis_command *command_at(struct link *l) { return list_entry(l, struct redis_command, link); }

static uint32_t jittered(struct redis_link *l, uint32_t ms)
{
    l->dice = l->dice * 6364136223846793005u + 1442695040888963407u;
    return ms / 2 + (uint32_t)((l->dice >> 33) % (ms / 2 + 1)) + 1;
}

static void log_link(const struct redis_link *l, enum severity level, const char *event, const char *why)
{
    struct log_line line = log_event(level, event);
    log_text(&line, "address", l->address.host);
    if (!l->address.local)
        log_text(&line, "port", l->address.port);
    if (why)
        log_text(&line, "why", why);
    log_end(&line);
}

/* ---- commands ------------------------------------------------------------------------------------------------------------ */

struct redis_command *redis_link_take(struct redis_link *l, bool large)
{
    return l->commands.free_count > OWN_COMMANDS ? redis_commands_take(&l->commands, large) : NULL;
}

void redis_link_give_back(struct redis_link *l, struct redis_command *c) { redis_commands_give_back(&l->commands, c); }

/* Gives it back, and tells its owner if he still waits. The command is his to read until he returns. */
static void end(struct redis_link *l, struct redis_command *c, enum reason reason, const redisReply *reply)
{
    list_remove(&c->link);
    if (c->owner)
        l->ended(l->context, c, reason, reply);
    redis_link_give_back(l, c);
}

/* ---- writing ------------------------------------------------------------------------------------------------------------- */

static void broken(struct redis_link *l, const char *why);
static void on_poll(uv_poll_t *poll, int status, int events);

static void poll_for(struct redis_link *l, int events)
{
    if (l->events == events)
        return;
    l->events = events;
    uv_poll_start(l->poll, events, on_poll);
}

/* What the kernel took, from the front of unsent. */
static void wrote(struct redis_link *l, size_t n)
{
    uint64_t now_us = mono_us();
    while (n > 0) {
        struct redis_command *c = command_at(l->unsent.next);
        size_t part = c->bytes.len - c->written < n ? c->bytes.len - c->written : n;
        c->written += part;
        n -= part;
        if (c->written == c->bytes.len) {
            c->sent_us = now_us;
            list_remove(&c->link);
            list_append(&l->sent, &c->link);
        }
    }
}

static void flush(struct redis_link *l)
{
    while (!list_empty(&l->unsent)) {
        struct iovec pieces[WRITE_PIECES];
        size_t count = 0;
        list_each(at, &l->unsent)
        {
            struct redis_command *c = command_at(at);
            if (count == WRITE_PIECES)
                break;
            pieces[count++] = (struct iovec){c->bytes.ptr + c->written, c->bytes.len - c->written};
        }
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
        ssize_t n = sendmsg(l->fd, &message, MSG_NOSIGNAL);
        if (n >= 0) {
            wrote(l, (size_t)n);
        } else if (errno == EAGAIN) {
            poll_for(l, UV_READABLE | UV_WRITABLE);
            return;
        } else if (errno != EINTR) {
            broken(l, strerror(errno));
            return;
        }
    }
    poll_for(l, UV_READABLE);
}

static void on_turn(uv_idle_t *turn)
{
    struct redis_link *l = turn->data;
    uv_idle_stop(turn);
    if ((l->state == UP || l->state == GREETING) && !(l->events & UV_WRITABLE))
        flush(l);
}

static bool waits(const struct redis_link *l) { return !list_empty(&l->sent) || !list_empty(&l->unsent); }

static void queue(struct redis_link *l, struct redis_command *c)
{
    if (!waits(l))
        l->heard_us = mono_us();    /* the wait for a word begins now */
    list_append(&l->unsent, &c->link);
    uv_idle_start(&l->turn, on_turn);
}

void redis_link_send(struct redis_link *l, struct redis_command *c)
{
    check(l->state == UP && buf_ok(&c->bytes) && c->bytes.len > 0);
    queue(l, c);
}

bool redis_link_abandon(struct redis_link *l, struct redis_command *c)
{
    list_remove(&c->of_owner);
    c->owner = NULL;
    if (c->written > 0)
        return true;
    redis_link_give_back(l, c);
    return false;
}

static struct redis_command *own(struct redis_link *l, enum redis_script script, size_t count, const struct str *words)
{
    struct redis_command *c = redis_commands_take(&l->commands, false);
    c->loads = true;
    c->script = script;
    redis_command_write(c, words, count);
    check(buf_ok(&c->bytes));
    queue(l, c);
    return c;
}

static void load(struct redis_link *l, enum redis_script script)
{
    own(l, script, 3, (struct str[]){str_lit("SCRIPT"), str_lit("LOAD"), redis_script_source(script)});
    l->loading[script] = true;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------- */

static bool repeat(struct redis_link *l, struct redis_command *c)
{
    if (!c->owner || c->repeats == REPEATS_MOST || (!l->loading[c->script] && l->commands.free_count == 0))
        return false;
    if (!l->loading[c->script])
        load(l, c->script);    /* in front of the command that needs it */
    c->repeats++;
    c->written = 0;
    list_remove(&c->link);
    queue(l, c);
    return true;
}

static void take_incarnation(struct redis_link *l, const redisReply *info)
{
    char said[INCARNATION_TEXT];
    struct str incarnation = redis_reply_incarnation((struct str){info->str, (size_t)info->len}, said);
    if (incarnation.len > 0)    /* else it was no answer to INFO */
        redis_link_incarnation_heard(l, incarnation);
}

/* ---- whose server it is -------------------------------------------------------------------------------------------------- */

static void ask_deployment(struct redis_link *l) { l->identifying = own(l, 0, 2, (struct str[]){str_lit("GET"), str_lit(DEPLOYMENT_KEY)}); }

/* A server that is nobody's yet becomes ours, unless another is faster: then the answer is his name. */
static void name_server(struct redis_link *l)
{
    const char *ours = l->options.deployment;
    if (ours && ours[0] && !l->deployment[0] && !l->identifying && l->commands.free_count > 0)
        l->identifying = own(l, 0, 5, (struct str[]){str_lit("SET"), str_lit(DEPLOYMENT_KEY), str_of(ours), str_lit("NX"), str_lit("GET")});
}

static bool foreign(const struct redis_link *l)
{
    const char *ours = l->options.deployment;
    return ours && ours[0] && l->deployment[0] && strcmp(ours, l->deployment) != 0;
}

static void note_deployment(struct redis_link *l, const redisReply *reply)
{
    l->identifying = NULL;
    if (reply->type == REDIS_REPLY_STRING)
        snprintf(l->deployment, sizeof l->deployment, "%.*s", (int)(reply->len < 63 ? reply->len : 63), reply->str);
}

static void break_foreign(struct redis_link *l)
{
    char why[200];
    snprintf(why, sizeof why, "this is the Redis of deployment %s; this process works for %s", l->deployment, l->options.deployment);
    metric_one(METRIC_FOREIGN_STORES);
    log_link(l, LEVEL_ERROR, "redis_of_another_deployment", why);
    broken(l, why);
}

/* The link's own command was answered. False: it may not go on. */
static bool own_answered(struct redis_link *l, struct redis_command *c, const redisReply *reply)
{
    bool good = reply->type != REDIS_REPLY_ERROR;
    if (c->bytes.len > 0 && l->state == GREETING && !good)
        log_link(l, LEVEL_WARN, "redis_greeting_refused", reply->str);
    if (c == l->identifying)
        note_deployment(l, reply);
    else if (l->state == GREETING && reply->type == REDIS_REPLY_STRING)
        take_incarnation(l, reply);
    l->loading[c->script] = false;
    end(l, c, REASON_OK, NULL);
    if (l->state != GREETING)
        return true;    /* a script that did not load shows itself when it is asked for */
    if (good && list_empty(&l->sent) && list_empty(&l->unsent)) {
        if (l->incarnation_len == 0)
            return false;    /* who does not say who he is is nobody's memory */
        l->state = UP;
        l->retry_ms = l->options.retry_first_ms;
        log_link(l, LEVEL_INFO, "redis_connected", NULL);
        if (l->was_up)
            metric_one(METRIC_ENGINE_RECONNECTS);
        l->was_up = true;
    }
    return good;
}

/* One line a second: a server that refuses refuses everything. All are counted by whoever asked. */
static void note_refusal(struct redis_link *l, struct str message)
{
    size_t n = message.len < sizeof l->refusal - 1 ? message.len : sizeof l->refusal - 1;
    memcpy(l->refusal, message.ptr, n);
    l->refusal[n] = 0;
}

static void log_refusal(struct redis_link *l, const struct redis_command *c, enum reason reason, struct str message)
{
    if (!log_ration_take(&l->refusals, l->heard_us, 1))
        return;
    struct log_line line = log_event(reason == REASON_ENGINE_FAULT ? LEVEL_ERROR : LEVEL_WARN, "redis_refused");
    log_text(&line, "script", redis_script_name(c->script));
    log_str(&line, "error", message);
    log_untold(&line, &l->refusals);
    log_end(&line);
}

/* False: the link is no more. */
static bool answered(struct redis_link *l, const redisReply *reply)
{
    if (list_empty(&l->sent)) {
        broken(l, "a reply that nobody asked for");
        return false;
    }
    struct redis_command *c = command_at(l->sent.next);
    if (c->loads) {
        if (!own_answered(l, c, reply))
            broken(l, "greeting refused");
        else if (foreign(l))
            break_foreign(l);
        else if (l->state == UP)
            name_server(l);
        return l->state == UP || l->state == GREETING;
    }
    enum reason reason = REASON_OK;
    if (reply->type == REDIS_REPLY_ERROR) {
        bool noscript;
        struct str message = {reply->str, (size_t)reply->len};
        reason = redis_reply_error(message, &noscript);
        if (noscript && repeat(l, c))
            return true;
        if (!noscript) {
            note_refusal(l, message);
            log_refusal(l, c, reason, message);
        }
    }
    if (!c->owner)
        metric_one(METRIC_LATE_ANSWERS);
    end(l, c, reason, reason == REASON_OK ? reply : NULL);
    return l->state == UP || l->state == GREETING;
}

static void read_replies(struct redis_link *l)
{
    char bytes[65536];
    ssize_t n = recv(l->fd, bytes, sizeof bytes, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        broken(l, n == 0 ? "closed by the server" : strerror(errno));
        return;
    }
    l->heard_us = mono_us();
    redisReader *reader = l->replies.reader;
    if (redisReaderFeed(reader, bytes, (size_t)n) != REDIS_OK || reader->len - reader->pos > REPLY_BYTES_MOST) {
        broken(l, "a reply too large");
        return;
    }
    for (;;) {
        void *reply = NULL;
        if (redis_reader_next(&l->replies, &reply) != REDIS_OK) {
            broken(l, "not the Redis protocol");
            return;
        }
        if (!reply)
            return;
        if (!answered(l, reply))
            return;
    }
}

/* ---- connecting ---------------------------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);
static void connect_to(struct redis_link *l, int family, int protocol, const struct sockaddr *address, socklen_t length);

static void poll_gone(uv_handle_t *h) { free(h); }

static void disconnect(struct redis_link *l)
{
    if (l->poll) {
        uv_poll_stop(l->poll);
        uv_close((uv_handle_t *)l->poll, poll_gone);
        l->poll = NULL;
    }
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    l->events = 0;
    if (l->state == RESOLVING)
        uv_cancel((uv_req_t *)&l->resolving);
}

/* Every command ends as its bytes say. Owners may send again meanwhile: the link is down already, so nothing new is queued. */
static void end_all(struct redis_link *l)
{
    memset(l->loading, 0, sizeof l->loading);
    for (struct link *at; (at = list_take(&l->sent));)
        end(l, command_at(at), REASON_LINK_LOST, NULL);
    for (struct link *at; (at = list_take(&l->unsent));)
        end(l, command_at(at), command_at(at)->written > 0 ? REASON_LINK_LOST : REASON_DEPENDENCY_DOWN, NULL);
}

static void broken(struct redis_link *l, const char *why)
{
    log_link(l, l->state == UP ? LEVEL_ERROR : LEVEL_WARN, l->state == UP ? "redis_lost" : "redis_not_reached", why);
    note_refusal(l, str_of(why));
    disconnect(l);
    l->state = DOWN;
    uv_timer_start(&l->timer, on_timer, jittered(l, l->retry_ms), 0);
    l->retry_ms = l->retry_ms * 2 < l->options.retry_most_ms ? l->retry_ms * 2 : l->options.retry_most_ms;
    end_all(l);
}

/* Everything it must say before it may be used, at once. */
static void greet(struct redis_link *l)
{
    const struct redis_address *a = &l->address;
    l->state = GREETING;
    l->incarnation_len = 0;
    l->identifying = NULL;
    l->deployment[0] = 0;
    l->heard_us = mono_us();
    redis_reader_open(&l->replies, REPLY_MEMORY_MOST);
    if (a->user[0])
        own(l, 0, 3, (struct str[]){str_lit("AUTH"), str_of(a->user), str_of(a->password)});
    else if (a->password[0])
        own(l, 0, 2, (struct str[]){str_lit("AUTH"), str_of(a->password)});
    if (a->db > 0) {
        char digits[12];
        struct buf b = buf_fixed(digits, sizeof digits);
        buf_add_u64(&b, a->db);
        own(l, 0, 2, (struct str[]){str_lit("SELECT"), buf_str(&b)});
    }
    if (l->options.deployment)
        ask_deployment(l);
    own(l, 0, 3, (struct str[]){str_lit("INFO"), str_lit("server"), str_lit("replication")});
    for (int i = 0; i < REDIS_SCRIPT_COUNT; i++)
        load(l, (enum redis_script)i);
}

static void connected(struct redis_link *l)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
        broken(l, strerror(error ? error : errno));
        return;
    }
    greet(l);
    flush(l);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct redis_link *l = poll->data;
    if (l->poll != poll)
        return;
    if (l->state == CONNECTING) {
        connected(l);
        return;
    }
    if (status < 0) {
        broken(l, uv_strerror(status));
        return;
    }
    if (events & UV_READABLE)
        read_replies(l);
    if (l->poll == poll && (events & UV_WRITABLE))
        flush(l);
}

static void connect_to(struct redis_link *l, int family, int protocol, const struct sockaddr *address, socklen_t length)
{
    l->state = CONNECTING;
    l->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
    if (l->fd < 0) {
        broken(l, strerror(errno));
        return;
    }
    int on = 1;
    if (family != AF_UNIX)
        (void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(l->fd, address, length) != 0 && errno != EINPROGRESS) {
        broken(l, strerror(errno));
        return;
    }
    l->poll = calloc(1, sizeof *l->poll);
    check(l->poll != NULL && uv_poll_init(l->loop, l->poll, l->fd) == 0);
    l->poll->data = l;
    poll_for(l, UV_WRITABLE);
}

static void freed(struct redis_link *l)
{
    if (l->handles > 0)
        return;
    void (*closed)(void *) = l->closed;
    void *context = l->context;
    redis_reader_close(&l->replies);
    redis_commands_close(&l->commands);
    free(l);
    if (closed)
        closed(context);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct redis_link *l = request->data;
    l->handles--;
    if (l->state == RESOLVING && status == 0 && found)
        connect_to(l, found->ai_family, found->ai_protocol, found->ai_addr, found->ai_addrlen);
    else if (l->state == RESOLVING)
        broken(l, status == 0 ? "no address" : uv_strerror(status));
    if (found)
        uv_freeaddrinfo(found);
    if (l->state == CLOSED)
        freed(l);
}

static void begin(struct redis_link *l)
{
    uv_timer_start(&l->timer, on_timer, l->options.connect_ms, 0);
    if (l->address.local) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        memcpy(a.sun_path, l->address.host, strlen(l->address.host) + 1);
        connect_to(l, AF_UNIX, 0, (const struct sockaddr *)&a, sizeof a);
        return;
    }
    if (l->handles > 2) {    /* the last look-up has not ended yet */
        broken(l, "the name is still being looked up");
        return;
    }
    l->state = RESOLVING;
    l->handles++;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    int error = uv_getaddrinfo(l->loop, &l->resolving, on_resolved, l->address.host, l->address.port, &hints);
    if (error != 0) {
        l->handles--;
        broken(l, uv_strerror(error));
    }
}

static bool stalled(const struct redis_link *l) { return waits(l) && mono_us() - l->heard_us > (uint64_t)l->options.stall_ms * 1000; }

static void on_timer(uv_timer_t *timer)
{
    struct redis_link *l = timer->data;
    if (l->state == DOWN) {
        begin(l);
    } else if (l->state != UP) {
        broken(l, "no greeting in time");
    } else if (stalled(l)) {
        read_replies(l);    /* perhaps it was this loop that did not listen */
        if (l->state == UP && stalled(l))
            broken(l, "no word for too long");
    }
    if (l->state == UP && foreign(l))
        break_foreign(l);
    if (l->state == UP)
        name_server(l);    /* our own identity may have become known since the greeting */
    if (l->state == UP)
        uv_timer_start(&l->timer, on_timer, l->options.stall_ms / 4 + 1, 0);
}

/* ---- birth and death ------------------------------------------------------------------------------------------------------ */

struct redis_link *redis_link_open(uv_loop_t *loop, const struct redis_address *address, struct redis_link_options options,
                                   void (*ended)(void *, struct redis_command *, enum reason, const redisReply *), void *context)
{
    struct redis_link *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    *l = (struct redis_link){.loop = loop, .address = *address, .options = options, .ended = ended, .context = context, .fd = -1,
                             .retry_ms = options.retry_first_ms, .dice = uv_hrtime() ^ (uint64_t)(uintptr_t)l};
    if (!redis_commands_open(&l->commands, options.in_flight + OWN_COMMANDS)) {
        free(l);
        return NULL;
    }
    list_init(&l->unsent);
    list_init(&l->sent);
    l->resolving.data = l;
    check(uv_timer_init(loop, &l->timer) == 0 && uv_idle_init(loop, &l->turn) == 0);
    l->timer.data = l->turn.data = l;
    l->handles = 2;
    begin(l);
    return l;
}

static void handle_gone(uv_handle_t *h)
{
    struct redis_link *l = h->data;
    l->handles--;
    freed(l);
}

void redis_link_close(struct redis_link *l, void (*closed)(void *))
{
    check(l->state != CLOSED);
    disconnect(l);
    l->state = CLOSED;
    l->closed = closed;
    end_all(l);
    uv_close((uv_handle_t *)&l->timer, handle_gone);
    uv_close((uv_handle_t *)&l->turn, handle_gone);
}

size_t redis_link_memory(size_t in_flight) { return redis_commands_memory(in_flight + OWN_COMMANDS); }

struct str redis_link_refusal(const struct redis_link *l) { return str_of(l->refusal); }
bool redis_link_up(const struct redis_link *l) { return l->state == UP && !foreign(l); }

struct str redis_link_incarnation(const struct redis_link *l)
{
    return (struct str){l->incarnation, l->state == UP ? l->incarnation_len : 0};
}

void redis_link_incarnation_heard(struct redis_link *l, struct str incarnation)
{
    check(incarnation.len > 0 && incarnation.len <= sizeof l->incarnation);
    memcpy(l->incarnation, incarnation.ptr, incarnation.len);
    l->incarnation_len = incarnation.len;
}

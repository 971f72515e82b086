/* SPDX-License-Identifier: Apache-2.0 */
#include "route.h"

#include <stdlib.h>

#include "check.h"
#include "log.h"
#include "tolerant.h"

#define ASK_MS 3000
#define REFRESH_MS 30000
#define REFRESH_MISSING_MS 3000    /* while a broker that was there is not */
#define AGAIN_MS 500      /* doubts do not ask more often */
#define PERM_READ 4
#define PERM_WRITE 2

static void not_used(const char *event, const char *of, int64_t most)
{
    struct log_line l = log_event(LEVEL_ERROR, event);
    log_text(&l, "topic", of);
    log_i64(&l, "most", most);
    log_end(&l);
}

/* ---- reading a route ---- */

struct told_broker {
    struct str name, master;
    int64_t perm, readable, writable;
};
struct told {
    struct told_broker brokers[BROKERS_MAX], nobody;
    size_t count;
    bool left_out;    /* there are more than we can use */
};

/* Where there are too many, the first by name are kept, so that every process keeps the same. */
static struct told_broker *told_of(struct told *t, struct str name)
{
    size_t last = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (str_eq(t->brokers[i].name, name))
            return &t->brokers[i];
        last = str_cmp(t->brokers[i].name, t->brokers[last].name) > 0 ? i : last;
    }
    if (t->count < BROKERS_MAX)
        last = t->count++;
    else
        t->left_out = true;
    if (t->left_out && str_cmp(name, t->brokers[last].name) > 0)
        return &t->nobody;
    t->brokers[last] = (struct told_broker){.name = name};
    return &t->brokers[last];
}

static bool read_addresses(struct tolerant *t, struct str *master)
{
    struct str id, address;
    if (tolerant_enter(t, '{'))
        while (tolerant_member(t, &id)) {
            if (!tolerant_text(t, &address))
                return false;
            if (str_eq(id, str_lit("0")))
                *master = address;
        }
    return !t->bad;
}

/* One of brokerDatas or of queueDatas: between them they never use one key for two things. */
static bool read_broker(struct tolerant *t, struct told *told)
{
    struct told_broker seen = {0};
    struct str key;
    bool queues = false;
    if (!tolerant_enter(t, '{'))
        return false;
    while (tolerant_member(t, &key)) {
        if (str_eq(key, str_lit("brokerName")))
            tolerant_text(t, &seen.name);
        else if (str_eq(key, str_lit("brokerAddrs")))
            read_addresses(t, &seen.master);
        else if (str_eq(key, str_lit("perm")))
            queues = tolerant_number(t, &seen.perm);
        else if (str_eq(key, str_lit("readQueueNums")))
            tolerant_number(t, &seen.readable);
        else if (str_eq(key, str_lit("writeQueueNums")))
            tolerant_number(t, &seen.writable);
        else
            tolerant_skip(t);
    }
    if (t->bad || seen.name.len == 0 || seen.name.len > TOPIC_MAX)
        return false;
    struct told_broker *b = told_of(told, seen.name);
    if (queues) {
        b->perm = seen.perm;
        b->readable = seen.readable;
        b->writable = seen.writable;
    } else {
        b->master = seen.master;
    }
    return true;
}

static bool read_told(char *body, size_t n, struct told *told)
{
    struct tolerant t = tolerant_over(body, n);
    struct str key;
    if (!tolerant_enter(&t, '{'))
        return false;
    while (tolerant_member(&t, &key)) {
        bool wanted = str_eq(key, str_lit("brokerDatas")) || str_eq(key, str_lit("queueDatas"));
        if (!wanted)
            tolerant_skip(&t);
        else if (tolerant_enter(&t, '['))
            while (tolerant_item(&t))
                if (!read_broker(&t, told))
                    return false;
    }
    return tolerant_ended(&t);
}

struct route_broker *route_broker(struct route *r, struct str name)
{
    for (size_t i = 0; i < r->broker_count; i++)
        if (str_eq(str_of(r->brokers[i].name), name))
            return &r->brokers[i];
    return NULL;
}

/* In order of name, so that queue numbers 0 … n-1 over all brokers mean the same to every process. */
static struct route_broker *insert_broker(struct route *r, struct str name)
{
    size_t at = 0;
    if (r->broker_count == BROKERS_MAX)
        return NULL;
    while (at < r->broker_count && str_cmp(str_of(r->brokers[at].name), name) < 0)
        at++;
    memmove(&r->brokers[at + 1], &r->brokers[at], (r->broker_count - at) * sizeof r->brokers[0]);
    r->broker_count++;
    r->brokers[at] = (struct route_broker){0};
    memcpy(r->brokers[at].name, name.ptr, name.len);
    return &r->brokers[at];
}

static int32_t queues_where(int64_t perm, int bit, int64_t n) { return (perm & bit) && n > 0 ? (int32_t)(n > 65536 ? 65536 : n) : 0; }

bool route_read(struct route *r, char *body, size_t n)
{
    struct told told = {0};
    if (!read_told(body, n, &told))
        return false;
    if (told.left_out)
        not_used("brokers_not_used", r->topic, BROKERS_MAX);
    for (size_t i = 0; i < r->broker_count; i++)
        r->brokers[i].writable = 0;    /* until said again */
    for (size_t i = 0; i < told.count; i++) {
        struct told_broker *b = &told.brokers[i];
        struct route_broker *mine = route_broker(r, b->name);
        if (!mine && b->perm != 0)
            mine = insert_broker(r, b->name);
        if (!mine)
            continue;
        if (b->master.len > 0)
            mine->at = broker_at(r->routes, b->master);
        mine->writable = b->master.len > 0 ? queues_where(b->perm, PERM_WRITE, b->writable) : 0;
        int32_t readable = queues_where(b->perm, PERM_READ, b->readable);
        mine->readable = readable > 0 ? readable : mine->readable;
    }
    return r->known = true;
}

uint32_t route_writable(const struct route *r)
{
    uint32_t n = 0;
    for (size_t i = 0; i < r->broker_count; i++)
        n += (uint32_t)r->brokers[i].writable;
    return n;
}

/* ---- brokers ---- */

static bool led_to(const struct routes *r, const struct broker *b)
{
    for (size_t t = 0; t < r->topic_count; t++)
        for (size_t i = 0; i < r->topics[t]->broker_count; i++)
            if (r->topics[t]->brokers[i].at == b)
                return true;
    return false;
}

/* A place for one more address: brokers move house, and an address that no route leads to any more and nobody is talking to is forgotten. */
static struct broker *room_for_broker(struct routes *r)
{
    if (r->broker_count < BROKERS_MAX)
        return &r->brokers[r->broker_count++];
    for (size_t i = 0; i < r->broker_count; i++) {
        struct broker *b = &r->brokers[i];
        if (b->batches + b->singles > 0 || led_to(r, b) || !peer_unused(b->peer))
            continue;
        peer_free(b->peer);
        return b;
    }
    not_used("brokers_not_used", "", BROKERS_MAX);
    return NULL;
}

struct broker *broker_at(struct routes *r, struct str address)
{
    for (size_t i = 0; i < r->broker_count; i++)
        if (str_eq(peer_address(r->brokers[i].peer), address))
            return &r->brokers[i];
    struct peer *p = peer_new(r->times, r->watch, address);
    struct broker *b = p ? room_for_broker(r) : NULL;
    if (b)
        *b = (struct broker){.peer = p};
    else if (p)
        peer_free(p);
    return b;
}

struct broker *broker_of(struct routes *r, const struct peer *p)
{
    for (size_t i = 0; i < r->broker_count; i++)
        if (r->brokers[i].peer == p)
            return &r->brokers[i];
    return NULL;
}

/* A connection is kept to every broker that some route can be written at now. */
static void keep_wanted(struct routes *r)
{
    for (size_t i = 0; i < r->broker_count; i++)
        r->brokers[i].wanted = false;
    for (size_t t = 0; t < r->topic_count; t++)
        for (size_t i = 0; i < r->topics[t]->broker_count; i++) {
            struct route_broker *b = &r->topics[t]->brokers[i];
            if (b->at && b->writable > 0)
                b->at->wanted = true;
        }
    for (size_t i = 0; i < r->broker_count; i++)
        peer_keep(r->brokers[i].peer, r->brokers[i].wanted);
}

/* ---- asking ---- */

static void ask_next(struct route *r);

static bool missing(const struct route *r)
{
    for (size_t i = 0; i < r->broker_count; i++)
        if (r->brokers[i].writable == 0)
            return true;
    return false;
}

static void end_asking(struct route *r, bool heard)
{
    struct link told;
    r->tries = 0;
    due_set(r->routes->times, &r->due, !heard ? AGAIN_MS * 2 : missing(r) ? REFRESH_MISSING_MS : REFRESH_MS);
    list_init(&told);
    while (!list_empty(&r->waiting))    /* whoever waits anew while being told waits for the next time */
        list_append(&told, list_take(&r->waiting));
    for (struct link *l; (l = list_take(&told)) != NULL;) {
        struct route_wait *w = list_entry(l, struct route_wait, link);
        w->told(w);
    }
}

static void answered(struct peer_call *call, enum reason reason, const struct frame *f)
{
    struct route *r = container_of(call, struct route, call);
    bool good = reason == REASON_OK && f->code == ANSWER_SUCCESS && route_read(r, (char *)f->body.ptr, f->body.len);
    bool unknown = reason == REASON_OK && f->code == ANSWER_TOPIC_NOT_EXIST;
    if (good)
        keep_wanted(r->routes);
    if (good || unknown) {
        end_asking(r, good);
        return;
    }
    r->routes->server_turn++;    /* another one, then */
    if (r->tries < r->routes->server_count)
        ask_next(r);
    else
        end_asking(r, false);
}

static void ask_next(struct route *r)
{
    struct routes *all = r->routes;
    struct peer *p = all->servers[all->server_turn % all->server_count];
    struct frame_writer w = peer_begin(p, CODE_ROUTE);
    frame_add(&w, "topic", str_of(r->topic));
    frame_add(&w, "acceptStandardJsonOnly", str_lit("true"));
    frame_body(&w);
    r->tries++;
    r->asked_us = due_now_us();
    r->call.done = answered;
    peer_ask(p, &r->call, &w, ASK_MS);
}

static void ask(struct route *r)
{
    if (r->tries == 0)
        ask_next(r);
}

static void route_due(struct due *d) { ask(container_of(d, struct route, due)); }

bool route_topic_valid(struct str topic)
{
    if (topic.len == 0 || topic.len > TOPIC_MAX)
        return false;
    for (size_t i = 0; i < topic.len; i++) {
        char c = topic.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '%' || c == '|'))
            return false;
    }
    return true;
}

struct route *route_of(struct routes *all, struct str topic)
{
    for (size_t i = 0; i < all->topic_count; i++)
        if (str_eq(str_of(all->topics[i]->topic), topic))
            return all->topics[i];
    struct route *r = all->topic_count < TOPICS_MAX && route_topic_valid(topic) ? calloc(1, sizeof *r) : NULL;
    if (!r)
        return NULL;
    r->routes = all;
    memcpy(r->topic, topic.ptr, topic.len);
    r->due.ring = route_due;
    list_init(&r->waiting);
    all->topics[all->topic_count++] = r;
    ask(r);
    return r;
}

void route_await(struct route *r, struct route_wait *w)
{
    list_append(&r->waiting, &w->link);
    ask(r);
}

void route_doubt(struct route *r)
{
    uint64_t age_ms = (due_now_us() - r->asked_us) / 1000;
    if (r->tries == 0)
        due_set(r->routes->times, &r->due, age_ms >= AGAIN_MS ? 0 : (uint32_t)(AGAIN_MS - age_ms));
}

void routes_doubt(struct routes *all, const struct peer *p)
{
    for (size_t t = 0; t < all->topic_count; t++)
        for (size_t i = 0; i < all->topics[t]->broker_count; i++) {
            struct broker *b = all->topics[t]->brokers[i].at;
            if (b && b->peer == p)
                route_doubt(all->topics[t]);
        }
}

bool routes_open(struct routes *r, struct due_table *times, struct peer_watch *watch, struct str list)
{
    *r = (struct routes){.times = times, .watch = watch};
    while (list.len > 0 && r->server_count < NAME_SERVERS_MAX) {
        size_t n = 0;
        while (n < list.len && list.ptr[n] != ';' && list.ptr[n] != ',')
            n++;
        struct peer *p = peer_new(times, watch, str_trim((struct str){list.ptr, n}));
        if (p)
            r->servers[r->server_count++] = p;
        n += n < list.len ? 1 : 0;
        list = (struct str){list.ptr + n, list.len - n};
    }
    if (list.len > 0)
        not_used("name_servers_not_used", "", NAME_SERVERS_MAX);
    r->server_turn = (size_t)(uv_hrtime() / 64 % NAME_SERVERS_MAX);    /* not everybody at the first one */
    return r->server_count > 0;
}

void routes_close(struct routes *r)
{
    for (size_t i = 0; i < r->topic_count; i++) {
        peer_forget(&r->topics[i]->call);
        due_unset(r->times, &r->topics[i]->due);
        check(list_empty(&r->topics[i]->waiting));
    }
    for (size_t i = 0; i < r->broker_count; i++) {
        peer_forget(&r->brokers[i].beat);
        peer_free(r->brokers[i].peer);
    }
    for (size_t i = 0; i < r->server_count; i++)
        peer_free(r->servers[i]);
    for (size_t i = 0; i < r->topic_count; i++)
        free(r->topics[i]);
    *r = (struct routes){0};
}

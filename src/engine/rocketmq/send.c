/* SPDX-License-Identifier: Apache-2.0
 * send.c: messages on their way out. A sending is one call of the port; its messages are written at once as batch items into the
 * lane of their topic, where they wait for the end of the turn and for a broker that may take another batch. A batch then carries
 * items of many sendings.
 *
 * An item is WAITING (never sent), FLYING (in a batch under way) or SETTLED. That is all a verdict needs: who is woken before
 * the answer learns DEPENDENCY_DOWN for what waits, which then never goes, and TIMED_OUT for what flies. */
#include <stdlib.h>

#include "engine.h"
#include "hash.h"
#include "metric.h"

#define BATCH_BYTES_MAX (256u << 10)    /* one commit-log append, one fsync; brokers refuse more than maxMessageSize */
#define ITEM_BYTES_MAX (8u << 20)
#define LANE_BYTES_MAX (64u << 20)
#define SINGLES_MAX 128                 /* messages that cannot be in a batch, under way at one broker */
#define SCAN_MAX 2048                   /* items looked at to fill one batch */
#define WAIT_MARGIN_MS 500

enum item_state { WAITING, FLYING, SETTLED };

struct sending {
    struct slot slot;
    struct due due;
    struct rocketmq *engine;
    size_t count, open, held;    /* open: not settled; held: still named by a lane or a batch */
    bool told;
    struct sending *next;        /* spare */
    uint8_t states[BUS_BATCH_MAX];
    enum reason verdicts[BUS_BATCH_MAX];
};
struct item {
    struct sending *sending;     /* NULL: gone out already */
    uint32_t index, at, len;
    bool alone;
    uint64_t spread;
};
struct lane {
    struct rocketmq *engine;
    struct route *route;
    struct route_wait wait;
    struct buf bytes;
    struct item *items;
    size_t head, count, cap;     /* items[head … count-1] */
    size_t dead;                 /* bytes of items that went */
    uint32_t turn;               /* which queue is next */
    uint64_t since_us;           /* first of them came */
};
struct cargo {
    struct sending *sending;
    uint32_t index, len;
    uint64_t spread;
};
struct batch {
    struct peer_call call;
    struct lane *lane;
    uint32_t *credit;            /* what of the broker it occupies */
    size_t count, bytes, cap;    /* cap: of body */
    char *body;
    struct batch *next;          /* spare */
    struct cargo cargo[BUS_BATCH_MAX];
};

/* ---- verdicts ---- */

static void sending_tell(struct sending *s)
{
    enum reason first = s->verdicts[0];
    bool alike = first != REASON_OK;
    for (size_t i = 1; i < s->count && alike; i++)
        alike = s->verdicts[i] == first;
    s->told = true;
    due_unset(&s->engine->times, &s->due);
    struct send_result result = {s->verdicts, s->count};
    due_nudge(&s->engine->times);    /* it may have been told at the end of a turn, before the loop sleeps */
    slot_wake(&s->slot, alike ? first : REASON_OK, alike ? NULL : &result);
}

static void sending_free(struct sending *s)
{
    if (!s->told || s->held > 0)
        return;
    s->next = s->engine->sendings;
    s->engine->sendings = s;
}

static void settle(struct sending *s, uint32_t index, enum reason verdict)
{
    s->states[index] = SETTLED;
    if (s->told)
        return;
    if (verdict != REASON_OK)
        metric_add(METRIC_ENGINE_CALLS, verdict, 1);
    s->verdicts[index] = verdict;
    if (--s->open == 0)
        sending_tell(s);
}

/* A lane or a batch lets go of an item. */
static void let_go(struct sending *s)
{
    struct rocketmq *e = s->engine;
    s->held--;
    sending_free(s);
    rocketmq_item_ended(e);
}

static void sending_due(struct due *d)
{
    struct sending *s = container_of(d, struct sending, due);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->states[i] != SETTLED) {
            s->verdicts[i] = s->states[i] == FLYING ? REASON_TIMED_OUT : REASON_DEPENDENCY_DOWN;
            metric_add(METRIC_ENGINE_CALLS, s->verdicts[i], 1);
        }
    s->open = 0;
    sending_tell(s);
    sending_free(s);
}

static bool says(const struct frame *f, const char *words)
{
    struct str w = str_of(words);
    return f->remark.len >= w.len && memmem(f->remark.ptr, f->remark.len, w.ptr, w.len) != NULL;
}

/* SYSTEM_ERROR covers everything: only these texts are known to come before the append. */
static enum reason system_error(const struct frame *f)
{
    static const struct { const char *words; enum reason means; } rows[] = {
        {"in-sync replicas not enough", REASON_ENGINE_BUSY}, {"create mapped file failed", REASON_ENGINE_BUSY},
        {"broker unable to service", REASON_ENGINE_BUSY}, {"timer message is under flow control", REASON_ENGINE_BUSY},
        {"accurate timer message is not enabled", REASON_ENGINE_REFUSED}, {"message body size exceeded", REASON_ENGINE_REFUSED}};
    for (size_t i = 0; i < countof(rows); i++)
        if (says(f, rows[i].words))
            return rows[i].means;
    return REASON_ENGINE_FAULT;
}

static enum reason verdict_of(struct route *route, const struct frame *f)
{
    switch (f->code) {
    case ANSWER_SUCCESS:
        return REASON_OK;
    case ANSWER_FLUSH_DISK_TIMEOUT: case ANSWER_FLUSH_SLAVE_TIMEOUT: case ANSWER_SLAVE_NOT_AVAILABLE:
        return REASON_ENGINE_FAULT;    /* appended, but not as durably as promised: unknown */
    case ANSWER_SYSTEM_ERROR:
        return system_error(f);
    case ANSWER_SYSTEM_BUSY: case ANSWER_FLOW_CONTROL:
        return REASON_ENGINE_BUSY;
    case ANSWER_SERVICE_NOT_AVAILABLE: case ANSWER_NO_PERMISSION: case ANSWER_TOPIC_NOT_EXIST: case ANSWER_INVALID_PARAMETER:
    case ANSWER_NOT_LEADER: case ANSWER_GO_AWAY:
        route_doubt(route);
        return REASON_DEPENDENCY_DOWN;
    case ANSWER_MESSAGE_ILLEGAL: case ANSWER_NOT_SUPPORTED: case ANSWER_GROUP_NOT_EXIST:
        return REASON_ENGINE_REFUSED;
    default:
        return REASON_ENGINE_FAULT;
    }
}

/* ---- lanes ---- */

static struct item *lane_push(struct lane *l, struct str bytes, const struct item *what)
{
    if (l->count == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        struct item *items = realloc(l->items, cap * sizeof *items);
        if (!items)
            return NULL;
        l->items = items;
        l->cap = cap;
    }
    size_t at = l->bytes.len;
    buf_add_str(&l->bytes, bytes);
    if (!buf_ok(&l->bytes)) {
        l->bytes.len = at;
        l->bytes.overflow = false;
        return NULL;
    }
    if (l->head == l->count)
        l->since_us = due_now_us();
    struct item *item = &l->items[l->count++];
    *item = *what;
    item->at = (uint32_t)at;
    item->len = (uint32_t)bytes.len;
    return item;
}

static void lane_gone(struct lane *l, struct item *item)
{
    item->sending = NULL;
    l->dead += item->len;
    while (l->head < l->count && !l->items[l->head].sending)
        l->head++;
}

/* Closes the gaps once they are the larger part. */
static void lane_tidy(struct lane *l)
{
    if (l->dead * 2 < l->bytes.len)
        return;
    size_t kept = 0, bytes = 0;
    for (size_t i = l->head; i < l->count; i++) {
        struct item item = l->items[i];
        if (!item.sending)
            continue;
        memmove(l->bytes.ptr + bytes, l->bytes.ptr + item.at, item.len);
        item.at = (uint32_t)bytes;
        bytes += item.len;
        l->items[kept++] = item;
    }
    l->bytes.len = bytes;
    l->head = l->dead = 0;
    l->count = kept;
    if (kept == 0 && l->bytes.cap > (4u << 20))
        buf_free(&l->bytes);
}

static void lane_fail(struct lane *l, enum reason reason)
{
    for (size_t i = l->head, end = l->count; i < end; i++) {    /* whoever is woken may send again: not in this round */
        struct item *item = &l->items[i];
        if (!item->sending)
            continue;
        struct sending *s = item->sending;
        uint32_t index = item->index;
        lane_gone(l, item);
        settle(s, index, reason);
        let_go(s);
    }
    lane_tidy(l);
}

static void lane_told(struct route_wait *w)
{
    struct lane *l = container_of(w, struct lane, wait);
    if (!l->route->known)
        lane_fail(l, REASON_DEPENDENCY_DOWN);    /* what is known goes out at the end of this turn */
}

static struct lane *lane_of(struct rocketmq *e, struct str topic)
{
    for (size_t i = 0; i < e->lane_count; i++)
        if (str_eq(str_of(e->lanes[i]->route->topic), topic))
            return e->lanes[i];
    struct route *route = route_of(&e->routes, topic);
    struct lane *l = route && e->lane_count < TOPICS_MAX ? calloc(1, sizeof *l) : NULL;
    if (!l)
        return NULL;
    l->engine = e;
    l->route = route;
    l->bytes = buf_growing(LANE_BYTES_MAX);
    l->wait.told = lane_told;
    l->turn = (uint32_t)(uv_hrtime() / 64);
    list_init(&l->wait.link);
    return e->lanes[e->lane_count++] = l;
}

/* ---- batches ---- */

static void batch_free(struct batch *b)
{
    struct rocketmq *e = b->lane->engine;
    b->next = e->spare_batches;
    e->spare_batches = b;
}

/* NULL: the machine has no memory for another one. */
static struct batch *batch_new(struct lane *l, size_t bytes)
{
    struct rocketmq *e = l->engine;
    struct batch *b = e->spare_batches ? e->spare_batches : calloc(1, sizeof *b);
    if (!b)
        return NULL;
    e->spare_batches = b->next;
    b->lane = l;
    b->count = b->bytes = 0;
    b->call = (struct peer_call){0};
    if (b->cap < bytes) {
        size_t cap = bytes > BATCH_BYTES_MAX ? bytes : BATCH_BYTES_MAX;
        char *body = realloc(b->body, cap);
        if (!body) {
            batch_free(b);
            return NULL;
        }
        b->body = body;
        b->cap = cap;
    }
    return b;
}

/* The broker will never take them together; each may still be taken alone. */
static void batch_split(struct batch *b)
{
    size_t at = 0;
    for (size_t i = 0; i < b->count; i++) {
        struct cargo *c = &b->cargo[i];
        struct item item = {.sending = c->sending, .index = c->index, .alone = true, .spread = c->spread};
        bool waits = lane_push(b->lane, (struct str){b->body + at, c->len}, &item) != NULL;
        at += c->len;
        c->sending->states[c->index] = WAITING;
        if (!waits) {
            settle(c->sending, c->index, REASON_OVERLOADED);
            let_go(c->sending);
        }
    }
}

static void batch_done(struct peer_call *call, enum reason reason, const struct frame *f)
{
    struct batch *b = container_of(call, struct batch, call);
    enum reason verdict = reason == REASON_OK ? verdict_of(b->lane->route, f) : reason;
    (*b->credit)--;
    if (reason == REASON_OK && verdict != REASON_OK)
        rocketmq_refused(b->lane->engine, b->lane->route->topic, f);
    if (verdict == REASON_ENGINE_REFUSED && b->count > 1) {
        batch_split(b);
        batch_free(b);
        return;
    }
    for (size_t i = 0; i < b->count; i++) {
        settle(b->cargo[i].sending, b->cargo[i].index, verdict);
        let_go(b->cargo[i].sending);
    }
    batch_free(b);
}

struct target {
    struct route_broker *broker;
    int32_t number;
    uint32_t index;    /* among all that can be written to */
};

static struct target target_at(struct route *r, uint32_t index)
{
    uint32_t rest = index;
    for (size_t i = 0; i < r->broker_count; i++) {
        if (rest < (uint32_t)r->brokers[i].writable)
            return (struct target){&r->brokers[i], (int32_t)rest, index};
        rest -= (uint32_t)r->brokers[i].writable;
    }
    return (struct target){0};
}

static bool has_credit(const struct lane *l, const struct target *t, bool alone)
{
    const struct broker *b = t->broker->at;
    return alone ? b->singles < SINGLES_MAX : b->batches < l->engine->batches;
}

/* Where the item goes. False: nowhere now; `hopeless` says that waiting for an answer of a broker would not change it. */
static bool choose(struct lane *l, const struct item *item, struct target *t, bool *hopeless)
{
    uint32_t n = route_writable(l->route);
    *hopeless = true;
    if (item->spread != 0 && n > 0) {
        *t = target_at(l->route, (uint32_t)(item->spread % n));
        *hopeless = !t->broker->at || peer_resting(t->broker->at->peer);
        return !*hopeless && has_credit(l, t, item->alone);
    }
    for (uint32_t i = 0; i < n; i++) {
        *t = target_at(l->route, (l->turn + i) % n);
        if (!t->broker->at || peer_resting(t->broker->at->peer))
            continue;
        *hopeless = false;
        if (has_credit(l, t, item->alone)) {
            l->turn += i + 1;
            return true;
        }
    }
    return false;
}

static void load(struct batch *b, struct item *item)
{
    struct lane *l = b->lane;
    b->cargo[b->count++] = (struct cargo){item->sending, item->index, item->len, item->spread};
    memcpy(b->body + b->bytes, l->bytes.ptr + item->at, item->len);
    b->bytes += item->len;
    item->sending->states[item->index] = FLYING;
    lane_gone(l, item);
}

/* Fills the batch with what may go to that queue, from `from` on. */
static void fill(struct batch *b, size_t from, size_t cap, uint32_t index, uint32_t queues)
{
    struct lane *l = b->lane;
    for (size_t i = from; i < l->count && i - from < SCAN_MAX && b->count < BUS_BATCH_MAX; i++) {
        struct item *item = &l->items[i];
        if (!item->sending || item->sending->told || item->alone || b->bytes + item->len > cap)
            continue;
        if (item->spread == 0 || item->spread % queues == index)
            load(b, item);
    }
}

static void batch_send(struct batch *b, const struct target *t, bool alone)
{
    struct lane *l = b->lane;
    struct rocketmq *e = l->engine;
    struct broker *at = t->broker->at;
    struct str body = {b->body, b->bytes}, properties = {0};
    uv_timeval64_t now;
    uv_gettimeofday(&now);
    if (alone)
        batch_item_parts((struct str){b->body, b->bytes}, &body, &properties);
    struct frame_writer w = peer_begin(at->peer, alone ? CODE_SEND : CODE_SEND_BATCH);
    frame_add(&w, "a", str_of(e->producer));
    frame_add(&w, "b", str_of(l->route->topic));
    frame_add(&w, "c", str_lit("TBW102"));
    frame_add_i64(&w, "d", 4);
    frame_add_i64(&w, "e", t->number);
    frame_add_i64(&w, "f", 0);
    frame_add_i64(&w, "g", now.tv_sec * 1000 + now.tv_usec / 1000);
    frame_add_i64(&w, "h", 0);
    frame_add(&w, "i", properties);      /* empty in a batch: the broker would put it into every item */
    if (!alone)
        frame_add(&w, "m", str_lit("true"));
    frame_body(&w);
    buf_add_str(w.out, body);
    b->call.done = batch_done;
    b->credit = alone ? &at->singles : &at->batches;
    (*b->credit)++;
    peer_ask(at->peer, &b->call, &w, e->send_ms);
}

/* The item's waiter has been told that it was not sent: so be it. */
static void forsake(struct lane *l, struct item *item)
{
    struct sending *s = item->sending;
    lane_gone(l, item);
    let_go(s);
}

/* Sends item i, and with it all that may share its batch. False: it must wait. */
static bool send_from(struct lane *l, size_t i)
{
    struct item *item = &l->items[i];
    struct target t;
    bool hopeless, alone = item->alone;
    if (!choose(l, item, &t, &hopeless)) {
        if (hopeless) {
            struct sending *s = item->sending;
            uint32_t index = item->index;
            lane_gone(l, item);
            route_doubt(l->route);
            settle(s, index, REASON_DEPENDENCY_DOWN);
            let_go(s);
        }
        return hopeless;
    }
    size_t cap = item->len > BATCH_BYTES_MAX ? item->len : BATCH_BYTES_MAX;
    struct batch *b = batch_new(l, alone ? item->len : cap);
    if (!b)
        return false;
    load(b, item);
    if (!alone)
        fill(b, i + 1, cap, t.index, route_writable(l->route));
    batch_send(b, &t, alone);
    return true;
}

static void lane_flush(struct lane *l)
{
    struct rocketmq *e = l->engine;
    if (l->head == l->count)
        return;
    if (!l->route->known) {
        if (list_empty(&l->wait.link))
            route_await(l->route, &l->wait);
        return;
    }
    uint64_t age = due_now_us() - l->since_us;
    if (age < e->batch_window_us && l->count - l->head < BUS_BATCH_MAX)
        return;
    unsigned stuck = 0;
    for (size_t i = l->head, end = l->count; i < end && stuck < SCAN_MAX; i++) {
        struct item *item = &l->items[i];
        if (!item->sending)
            continue;
        if (item->sending->told)
            forsake(l, item);
        else if (!send_from(l, i))
            stuck++;
    }
    lane_tidy(l);
}

void rocketmq_flush(struct rocketmq *e)
{
    for (size_t i = 0; i < e->lane_count; i++)
        lane_flush(e->lanes[i]);
}

void rocketmq_lanes_end(struct rocketmq *e)
{
    for (size_t i = 0; i < e->lane_count; i++) {
        list_remove(&e->lanes[i]->wait.link);
        lane_fail(e->lanes[i], REASON_DEPENDENCY_DOWN);
    }
}

void rocketmq_lanes_free(struct rocketmq *e)
{
    for (size_t i = 0; i < e->lane_count; i++) {
        buf_free(&e->lanes[i]->bytes);
        free(e->lanes[i]->items);
        free(e->lanes[i]);
    }
    e->lane_count = 0;
    for (struct sending *s; (s = e->sendings); free(s))
        e->sendings = s->next;
    for (struct batch *b; (b = e->spare_batches); free(b)) {
        e->spare_batches = b->next;
        free(b->body);
    }
}

/* ---- the door ---- */

static struct str unique_key(struct rocketmq *e, char out[32])
{
    uint64_t turn = __builtin_bswap64(++e->unique_turn);
    memcpy(out, e->unique, 16);
    hex_write((const uint8_t *)&turn, 8, out + 16);
    return (struct str){out, 32};
}

/* The message as a batch item in the engine's scratch. False: no broker would ever take it. */
static bool write_item(struct rocketmq *e, const struct bus_message *m)
{
    char memory[PROPERTIES_MAX], unique[32], digits[20];
    struct buf properties = buf_fixed(memory, sizeof memory), due = buf_fixed(digits, sizeof digits);
    if (m->body.len == 0 || m->body.len > ITEM_BYTES_MAX - PROPERTIES_MAX || !property_fits(m->key) || !property_fits(m->trace) ||
        !property_fits(m->tag))
        return false;
    property_add(&properties, "KEYS", m->key);
    property_add(&properties, "UNIQ_KEY", unique_key(e, unique));
    property_add(&properties, "TAGS", m->tag);
    property_add(&properties, "traceparent", m->trace);
    if (e->bus.deployment)
        property_add(&properties, "deployment", str_of(e->bus.deployment));
    if (m->deliver_ms > 0) {
        buf_add_i64(&due, m->deliver_ms);
        property_add(&properties, "TIMER_DELIVER_MS", buf_str(&due));
    }
    buf_reset(&e->scratch);
    if (buf_ok(&properties))
        batch_item(&e->scratch, m->body, buf_str(&properties));
    return buf_ok(&properties) && buf_ok(&e->scratch);
}

static enum reason take_up(struct rocketmq *e, struct sending *s, uint32_t index, const struct bus_message *m)
{
    struct lane *l = route_topic_valid(m->topic) ? lane_of(e, m->topic) : NULL;
    if (!l || !write_item(e, m))
        return REASON_ENGINE_REFUSED;
    struct item item = {.sending = s, .index = index, .alone = m->deliver_ms > 0, .spread = m->spread};
    if (!lane_push(l, buf_str(&e->scratch), &item))
        return REASON_OVERLOADED;
    s->held++;
    s->open++;
    e->open_items++;
    return REASON_OK;
}

static struct sending *sending_new(struct rocketmq *e, size_t count)
{
    struct sending *s = e->sendings ? e->sendings : calloc(1, sizeof *s);
    check(s != NULL);    /* a waiter cannot be told without one; the machine is out of memory */
    e->sendings = s->next;
    s->engine = e;
    s->slot = (struct slot){0};
    s->due = (struct due){.ring = sending_due};
    s->count = count;
    s->open = s->held = 0;
    s->told = false;
    return s;
}

void rocketmq_send(struct bus *bus, const struct bus_message *messages, size_t count, struct waiter *w)
{
    struct rocketmq *e = rocketmq_of(bus);
    check(count > 0 && count <= BUS_BATCH_MAX);
    struct sending *s = sending_new(e, count);
    bool full = e->closing || e->open_items + count > e->in_flight;
    bool nameless = !e->closing && bus->deployment && bus->deployment[0] == 0;
    slot_arm(&s->slot, w);
    for (uint32_t i = 0; i < count; i++) {
        enum reason refused = nameless ? REASON_DEPENDENCY_DOWN : full ? REASON_OVERLOADED : take_up(e, s, i, &messages[i]);
        s->verdicts[i] = refused;
        s->states[i] = refused == REASON_OK ? WAITING : SETTLED;
    }
    uint32_t budget = w->budget_ms ? w->budget_ms : e->send_ms + WAIT_MARGIN_MS;
    due_set(&e->times, &s->due, s->open == 0 ? 0 : budget);
    if (e->batch_window_us > 0 && s->open > 0 && !e->window.place)
        due_set(&e->times, &e->window, e->batch_window_us / 1000 + 1);
}

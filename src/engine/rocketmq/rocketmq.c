/* SPDX-License-Identifier: Apache-2.0
 * rocketmq.c: opening and closing of a bus, and its heartbeats, which only make it visible to the broker's own tools. */
#include "rocketmq.h"

#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine.h"
#include "hash.h"
#include "json.h"
#include "log.h"
#include "metric.h"

#define BEAT_MS 30000
#define GOODBYE_MS 500

/* ---- heartbeats ---- */

static void write_subscription(struct buf *b, const char *topic, int64_t version)
{
    json_open(b);
    json_member_text(b, "topic", topic);
    json_member_text(b, "subString", "*");
    json_key(b, "tagsSet"), json_open_array(b), json_close_array(b);
    json_key(b, "codeSet"), json_open_array(b), json_close_array(b);
    json_member_i64(b, "subVersion", version);
    json_member_text(b, "expressionType", "TAG");
    json_member_bool(b, "classFilterMode", false);
    json_close(b);
}

static void write_consumer(struct rocketmq *e, struct buf *b, int64_t version)
{
    json_open(b);
    json_member_text(b, "groupName", e->group);
    json_member_text(b, "consumeType", "CONSUME_ACTIVELY");
    json_member_text(b, "messageModel", "CLUSTERING");
    json_member_text(b, "consumeFromWhere", "CONSUME_FROM_FIRST_OFFSET");
    json_member_bool(b, "unitMode", false);
    json_key(b, "subscriptionDataSet");
    json_open_array(b);
    for (size_t i = 0; i < e->subscription_count; i++)
        write_subscription(b, e->subscriptions[i], version);
    json_close_array(b);
    json_close(b);
}

static void write_heartbeat(struct rocketmq *e)
{
    struct buf *b = &e->heartbeat;
    uv_timeval64_t now;
    uv_gettimeofday(&now);
    json_open(b);
    json_member_text(b, "clientID", e->client);
    json_key(b, "producerDataSet");
    json_open_array(b);
    json_open(b);
    json_member_text(b, "groupName", e->producer);
    json_close(b);
    json_close_array(b);
    json_key(b, "consumerDataSet");
    json_open_array(b);
    if (e->group[0])
        write_consumer(e, b, now.tv_sec * 1000);
    json_close_array(b);
    json_member_i64(b, "heartbeatFingerprint", 0);
    json_member_bool(b, "withoutSub", false);
    json_close(b);
}

static void beaten(struct peer_call *call, enum reason reason, const struct frame *f) { (void)call, (void)reason, (void)f; }

static void beat_at(struct rocketmq *e, struct broker *b)
{
    if (b->beat.opaque != 0 || !peer_up(b->peer) || e->closing)
        return;
    struct frame_writer w = peer_begin(b->peer, CODE_HEART_BEAT);
    frame_body(&w);
    buf_add_str(w.out, buf_str(&e->heartbeat));
    b->beat.done = beaten;
    peer_ask(b->peer, &b->beat, &w, e->ask_ms);
}

void rocketmq_beat(struct rocketmq *e)
{
    for (size_t i = 0; i < e->routes.broker_count; i++)
        beat_at(e, &e->routes.brokers[i]);
}

static void beat_due(struct due *d)
{
    struct rocketmq *e = container_of(d, struct rocketmq, beat);
    rocketmq_beat(e);
    due_set(&e->times, &e->beat, BEAT_MS);
}

void rocketmq_refused(struct rocketmq *e, const char *topic, const struct frame *f)
{
    struct buf b = buf_fixed(e->refusal, sizeof e->refusal - 1);
    buf_add_fmt(&b, "code %d", f->code);
    if (topic[0])
        buf_add_fmt(&b, " for topic %s", topic);
    size_t n = 0;
    while (n < f->remark.len && n < 160 && f->remark.ptr[n] != '\n')
        n++;
    if (n > 0)
        buf_add_str(&b, str_lit(": "));
    buf_add(&b, f->remark.ptr, n);
    e->refusal[b.len] = 0;
    if (!log_ration_take(&e->refusals, due_now_us(), 1))
        return;
    struct log_line l = log_event(LEVEL_WARN, "bus_refused");
    log_text(&l, "topic", topic);
    log_i64(&l, "code", f->code);
    log_str(&l, "remark", f->remark);
    log_untold(&l, &e->refusals);
    log_end(&l);
}

static void log_link(enum severity level, const char *event, const struct peer *p)
{
    struct log_line l = log_event(level, event);
    log_str(&l, "address", peer_address(p));
    log_i64(&l, "link", (int64_t)peer_link(p));
    log_end(&l);
}

static void link_up(struct peer_watch *watch, struct peer *p)
{
    struct rocketmq *e = container_of(watch, struct rocketmq, watch);
    struct broker *b = broker_of(&e->routes, p);
    log_link(LEVEL_INFO, "bus_link_up", p);
    if (b)
        beat_at(e, b);
}

static void link_down(struct peer_watch *watch, struct peer *p)
{
    struct rocketmq *e = container_of(watch, struct rocketmq, watch);
    if (e->closing)
        return;
    log_link(LEVEL_WARN, "bus_link_down", p);
    routes_doubt(&e->routes, p);
}

/* ---- closing ---- */

static void settled(struct due_table *times)
{
    struct rocketmq *e = container_of(times, struct rocketmq, times);
    void (*closed)(void *) = e->closed;
    void *arg = e->closed_arg;
    buf_free(&e->heartbeat);
    buf_free(&e->scratch);
    free(e);
    if (closed)
        closed(arg);
}

static void turn_closed(uv_handle_t *handle) { due_settle(&container_of((uv_prepare_t *)handle, struct rocketmq, turn)->times); }

static void let_go_of_all(struct rocketmq *e)
{
    e->gone = true;
    due_unset(&e->times, &e->beat);
    due_unset(&e->times, &e->window);
    rocketmq_lanes_end(e);
    routes_close(&e->routes);       /* what was under way ends as unknown */
    due_set(&e->times, &e->drain, 0);
}

/* What is still due are calls refused a moment ago: they shall be told. */
static void let_go_of_loop(struct rocketmq *e)
{
    if (heap_first(&e->times.heap)) {
        due_set(&e->times, &e->drain, 1);
        return;
    }
    rocketmq_lanes_free(e);
    uv_prepare_stop(&e->turn);
    due_owe(&e->times);
    uv_close((uv_handle_t *)&e->turn, turn_closed);
    due_table_close(&e->times);
}

static void farewell_done(struct peer_call *call, enum reason reason, const struct frame *f)
{
    (void)reason, (void)f;
    struct broker *b = container_of(call, struct broker, beat);
    struct rocketmq *e = b->engine;
    if (--e->farewells == 0)
        due_set(&e->times, &e->drain, 0);
}

static void say_goodbye(struct rocketmq *e)
{
    e->goodbye = true;
    for (size_t i = 0; i < e->routes.broker_count; i++) {
        struct broker *b = &e->routes.brokers[i];
        if (!peer_up(b->peer))
            continue;
        peer_forget(&b->beat);
        struct frame_writer w = peer_begin(b->peer, CODE_UNREGISTER);
        frame_add(&w, "clientID", str_of(e->client));
        frame_add(&w, "producerGroup", str_of(e->producer));
        frame_add(&w, "consumerGroup", str_of(e->group));
        frame_body(&w);
        b->engine = e;
        b->beat.done = farewell_done;
        e->farewells++;
        peer_ask(b->peer, &b->beat, &w, GOODBYE_MS);
    }
    due_set(&e->times, &e->drain, e->farewells > 0 ? GOODBYE_MS * 2 : 0);
}

/* First when no send is open or the time for that is up; then when the goodbyes are said; then until all have been told. */
static void drain_due(struct due *d)
{
    struct rocketmq *e = container_of(d, struct rocketmq, drain);
    if (e->gone)
        let_go_of_loop(e);
    else if (e->goodbye)
        let_go_of_all(e);
    else
        say_goodbye(e);
}

void rocketmq_item_ended(struct rocketmq *e)
{
    check(e->open_items > 0);
    e->open_items--;
    if (e->closing && !e->goodbye && e->open_items == 0)
        due_set(&e->times, &e->drain, 0);
}

void rocketmq_close(struct bus *bus, void (*closed)(void *), void *arg)
{
    struct rocketmq *e = rocketmq_of(bus);
    check(!e->closing);
    e->closing = true;
    e->closed = closed;
    e->closed_arg = arg;
    list_each(l, &e->ops)
        op_end_later(list_entry(l, struct op, link), REASON_DEPENDENCY_DOWN);
    due_set(&e->times, &e->drain, e->open_items > 0 ? e->drain_ms : 0);
}

/* ---- opening ---- */

static void turn_ends(uv_prepare_t *turn)
{
    struct rocketmq *e = container_of(turn, struct rocketmq, turn);
    if (!e->gone)
        rocketmq_flush(e);
}

static void window_due(struct due *d) { rocketmq_flush(container_of(d, struct rocketmq, window)); }

/* host@pid#chance, as the broker's tools show it. */
static void name_ourselves(struct rocketmq *e)
{
    char host[48] = "";
    uint8_t chance[8];
    check(getrandom(chance, sizeof chance, 0) == sizeof chance);
    hex_write(chance, 8, e->unique);
    struct buf b = buf_fixed(e->client, sizeof e->client - 1);
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        memcpy(host, "seckill", 8);
    buf_add_fmt(&b, "%s@%d#%.8s", host, (int)getpid(), e->unique);
    e->client[b.len] = 0;
}

static bool copy_name(char to[TOPIC_MAX + 1], struct str name)
{
    if (name.len > TOPIC_MAX)
        return false;
    if (name.len > 0)
        memcpy(to, name.ptr, name.len);
    to[name.len] = 0;
    return true;
}

static bool take_options(struct rocketmq *e, const struct rocketmq_options *o)
{
    bool good = copy_name(e->group, o->group) && copy_name(e->producer, o->producer_group.len ? o->producer_group : str_lit("seckill")) &&
                o->topic_count <= SUBSCRIPTIONS_MAX;
    for (size_t i = 0; good && i < o->topic_count; i++)
        good = route_topic_valid(o->topics[i]) && copy_name(e->subscriptions[i], o->topics[i]);
    e->subscription_count = o->topic_count;
    e->send_ms = o->send_ms ? o->send_ms : 7000;
    e->ask_ms = o->ask_ms ? o->ask_ms : 3000;
    e->drain_ms = o->drain_ms ? o->drain_ms : 3000;
    e->batch_window_us = o->batch_window_us;
    e->batches = o->batches ? o->batches : 2;
    e->in_flight = o->in_flight ? o->in_flight : 32768;
    return good;
}

static struct str refusal(struct bus *bus) { return str_of(rocketmq_of(bus)->refusal); }

struct bus *rocketmq_open(const struct rocketmq_options *options)
{
    static const struct bus_ops ops = {.name = "rocketmq", .create = rocketmq_create, .send = rocketmq_send, .queues = rocketmq_queues,
                                       .range = rocketmq_range, .pull = rocketmq_pull, .mirror = rocketmq_mirror,
                                       .refusal = refusal};
    struct rocketmq *e = calloc(1, sizeof *e);
    if (!e || !take_options(e, options) || !routes_open(&e->routes, &e->times, &e->watch, options->name_servers)) {
        free(e);
        return NULL;
    }
    due_table_open(&e->times, options->loop, settled);
    check(uv_prepare_init(options->loop, &e->turn) == 0 && uv_prepare_start(&e->turn, turn_ends) == 0);
    e->bus.ops = &ops;
    e->watch.up = link_up;
    e->watch.down = link_down;
    e->beat.ring = beat_due;
    e->drain.ring = drain_due;
    e->window.ring = window_due;
    e->scratch = buf_growing(16u << 20);
    e->heartbeat = buf_growing(64u << 10);
    list_init(&e->ops);
    name_ourselves(e);
    write_heartbeat(e);
    due_set(&e->times, &e->beat, BEAT_MS);
    for (size_t i = 0; i < e->subscription_count; i++)
        route_of(&e->routes, str_of(e->subscriptions[i]));
    return &e->bus;
}

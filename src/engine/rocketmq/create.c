/* SPDX-License-Identifier: Apache-2.0
 * create.c: topics and the consumer group come into being on every broker master, and the call ends when the name server shows the
 * topics as writable. Broker by broker, thing by thing: is it there? if not, create it. What exists is left alone, for a changed number of queues
 * would change what a queue number means. Everything may be repeated at any point. */
#include <stdlib.h>

#include "engine.h"
#include "tolerant.h"

#define CREATE_MS 20000
#define LOOK_AGAIN_MS 100

struct create_op {
    struct op op;
    struct peer_call call;
    struct due again;
    struct route_wait wait;
    char topics[SUBSCRIPTIONS_MAX][TOPIC_MAX + 1];
    size_t topic_count;
    char group[TOPIC_MAX + 1];
    int32_t queues;
    struct broker *brokers[BROKERS_MAX];
    size_t broker_count;
    size_t broker, thing;       /* where we are; thing topic_count is the group */
    size_t seen;                /* topics that the name server shows */
    unsigned server;
};

static void next_thing(struct create_op *c);
static void await_routes(struct create_op *c);

static struct create_op *of(struct op *op) { return container_of(op, struct create_op, op); }

static void create_drop(struct op *op)
{
    struct create_op *c = of(op);
    peer_forget(&c->call);
    due_unset(&op->engine->times, &c->again);
    list_remove(&c->wait.link);
    free(c);
}

/* ---- one thing at one broker ---- */

static bool is_group(const struct create_op *c) { return c->thing == c->topic_count; }

static void step(struct create_op *c)
{
    c->thing++;
    if (c->thing > c->topic_count || (is_group(c) && c->group[0] == 0)) {
        c->thing = 0;
        c->broker++;
    }
    next_thing(c);
}

static void created(struct peer_call *call, enum reason reason, const struct frame *f)
{
    struct create_op *c = container_of(call, struct create_op, call);
    if (reason == REASON_OK && f->code != ANSWER_SUCCESS)
        reason = op_refusal(&c->op, f);
    if (reason == REASON_OK)
        step(c);
    else
        op_end(&c->op, reason, NULL);
}

static struct frame_writer begin(struct create_op *c, int code) { return peer_begin(c->brokers[c->broker]->peer, code); }

static void ask(struct create_op *c, struct frame_writer *w, void (*done)(struct peer_call *, enum reason, const struct frame *))
{
    c->call.done = done;
    peer_ask(c->brokers[c->broker]->peer, &c->call, w, c->op.engine->ask_ms);
}

static void create_topic(struct create_op *c)
{
    struct frame_writer w = begin(c, CODE_CREATE_TOPIC);
    frame_add(&w, "topic", str_of(c->topics[c->thing]));
    frame_add(&w, "defaultTopic", str_lit("TBW102"));
    frame_add_i64(&w, "readQueueNums", c->queues);
    frame_add_i64(&w, "writeQueueNums", c->queues);
    frame_add_i64(&w, "perm", 6);
    frame_add(&w, "topicFilterType", str_lit("SINGLE_TAG"));
    frame_add_i64(&w, "topicSysFlag", 0);
    frame_add(&w, "order", str_lit("false"));
    frame_body(&w);
    ask(c, &w, created);
}

static void create_group(struct create_op *c)
{
    struct frame_writer w = begin(c, CODE_CREATE_GROUP);
    frame_body(&w);
    buf_add_str(w.out, str_lit("{\"groupName\":\""));
    buf_add_str(w.out, str_of(c->group));    /* of a topic's alphabet: nothing to escape */
    buf_add_str(w.out, str_lit("\",\"consumeEnable\":true}"));
    ask(c, &w, created);
}

static void looked(struct peer_call *call, enum reason reason, const struct frame *f)
{
    struct create_op *c = container_of(call, struct create_op, call);
    int absent = is_group(c) ? ANSWER_GROUP_NOT_EXIST : ANSWER_TOPIC_NOT_EXIST;
    if (reason != REASON_OK)
        op_end(&c->op, reason, NULL);
    else if (f->code == ANSWER_SUCCESS)
        step(c);
    else if (f->code != absent)
        op_end(&c->op, op_refusal(&c->op, f), NULL);
    else if (is_group(c))
        create_group(c);
    else
        create_topic(c);
}

static void next_thing(struct create_op *c)
{
    if (c->broker == c->broker_count) {
        rocketmq_beat(c->op.engine);    /* a heartbeat for a group that was not there yet was ignored */
        await_routes(c);
        return;
    }
    struct frame_writer w = begin(c, is_group(c) ? CODE_GROUP_CONFIG : CODE_TOPIC_CONFIG);
    frame_add(&w, is_group(c) ? "group" : "topic", str_of(is_group(c) ? c->group : c->topics[c->thing]));
    frame_body(&w);
    ask(c, &w, looked);
}

/* ---- until the name server shows them ---- */

static bool shown(const struct create_op *c, const struct route *r)
{
    for (size_t i = 0; i < c->broker_count; i++) {
        bool found = false;
        for (size_t k = 0; k < r->broker_count; k++)
            found = found || (r->brokers[k].at == c->brokers[i] && r->brokers[k].writable > 0 && r->brokers[k].readable > 0);
        if (!found)
            return false;
    }
    return r->known;
}

static void routes_told(struct route_wait *w)
{
    struct create_op *c = container_of(w, struct create_op, wait);
    struct route *r = route_of(&c->op.engine->routes, str_of(c->topics[c->seen]));
    if (!r || !shown(c, r)) {
        due_set(&c->op.engine->times, &c->again, LOOK_AGAIN_MS);
        return;
    }
    if (++c->seen == c->topic_count)
        op_end(&c->op, REASON_OK, NULL);
    else
        await_routes(c);
}

static void await_routes(struct create_op *c)
{
    struct route *r = route_of(&c->op.engine->routes, str_of(c->topics[c->seen]));
    if (r)
        route_await(r, &c->wait);
    else
        op_end_later(&c->op, REASON_OVERLOADED);
}

static void again(struct due *d) { await_routes(container_of(d, struct create_op, again)); }

/* ---- which brokers are there ---- */

static bool take_broker(struct create_op *c, struct tolerant *t)
{
    struct str key, id, address;
    if (!tolerant_enter(t, '{'))
        return !t->bad;
    while (tolerant_member(t, &key)) {
        if (!str_eq(key, str_lit("brokerAddrs"))) {
            tolerant_skip(t);
            continue;
        }
        if (!tolerant_enter(t, '{'))
            continue;
        while (tolerant_member(t, &id)) {
            bool master = tolerant_text(t, &address) && str_eq(id, str_lit("0"));
            struct broker *b = master ? broker_at(&c->op.engine->routes, address) : NULL;
            if (b && c->broker_count < BROKERS_MAX)
                c->brokers[c->broker_count++] = b;
        }
    }
    return !t->bad;
}

static bool take_cluster(struct create_op *c, struct str body)
{
    struct tolerant t = tolerant_over((char *)body.ptr, body.len);
    struct str key, name;
    if (!tolerant_enter(&t, '{'))
        return false;
    while (tolerant_member(&t, &key)) {
        if (!str_eq(key, str_lit("brokerAddrTable"))) {
            tolerant_skip(&t);
            continue;
        }
        if (tolerant_enter(&t, '{'))
            while (tolerant_member(&t, &name))
                if (!take_broker(c, &t))
                    return false;
    }
    return tolerant_ended(&t);
}

static void ask_cluster(struct create_op *c);

static void cluster_told(struct peer_call *call, enum reason reason, const struct frame *f)
{
    struct create_op *c = container_of(call, struct create_op, call);
    if (reason != REASON_OK && ++c->server < c->op.engine->routes.server_count)
        ask_cluster(c);
    else if (reason != REASON_OK)
        op_end(&c->op, REASON_DEPENDENCY_DOWN, NULL);    /* nothing was asked of any broker */
    else if (f->code != ANSWER_SUCCESS)
        op_end(&c->op, op_refusal(&c->op, f), NULL);
    else if (!take_cluster(c, f->body))
        op_end(&c->op, REASON_ENGINE_FAULT, NULL);
    else if (c->broker_count == 0)
        op_end(&c->op, REASON_DEPENDENCY_DOWN, NULL);
    else
        next_thing(c);
}

static void ask_cluster(struct create_op *c)
{
    struct routes *r = &c->op.engine->routes;
    struct peer *p = r->servers[(r->server_turn + c->server) % r->server_count];
    struct frame_writer w = peer_begin(p, CODE_CLUSTER);
    frame_body(&w);
    c->call.done = cluster_told;
    peer_ask(p, &c->call, &w, c->op.engine->ask_ms);
}

static void create_go(struct op *op) { ask_cluster(of(op)); }

static bool take_names(struct create_op *c, const struct str *topics, size_t count, struct str group)
{
    bool good = count > 0 && count <= SUBSCRIPTIONS_MAX && (group.len == 0 || route_topic_valid(group));
    for (size_t i = 0; good && i < count; i++) {
        good = route_topic_valid(topics[i]);
        if (good)
            memcpy(c->topics[i], topics[i].ptr, topics[i].len);
    }
    if (good && group.len > 0)
        memcpy(c->group, group.ptr, group.len);
    c->topic_count = count;
    return good;
}

static void refused(struct op *op) { op_end_later(op, REASON_ENGINE_REFUSED); }

void rocketmq_create(struct bus *bus, const struct str *topics, size_t count, struct str group, int32_t queues, struct waiter *w)
{
    struct create_op *c = calloc(1, sizeof *c);
    check(c != NULL && queues > 0);
    c->queues = queues;
    c->again.ring = again;
    c->wait.told = routes_told;
    list_init(&c->wait.link);
    c->op.go = take_names(c, topics, count, group) ? create_go : refused;
    c->op.drop = create_drop;
    op_begin(rocketmq_of(bus), &c->op, w, CREATE_MS, (struct str){0});
}

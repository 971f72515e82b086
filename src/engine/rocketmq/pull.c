/* SPDX-License-Identifier: Apache-2.0
 * pull.c: what is asked of one queue: its messages, its range, the group's mark; and which queues there are.
 *
 * A pull is filled by several requests where the broker gives less than the limit at a time, all on one connection: where that
 * changed in between, what came before stands and the rest waits for the next call. */
#include <stdlib.h>

#include "engine.h"
#include "log.h"
#include "tolerant.h"

#define PARTS_MAX 16            /* requests to fill one pull */
#define WAIT_MARGIN_MS 8000     /* brokers look every 5 s whether a wait is over */
#define SUSPEND 2
#define SUBSCRIBED 4

struct queue_op {
    struct op op;
    char broker[TOPIC_MAX + 1];
    int32_t number;
    struct peer_call calls[3];
    /* pull */
    int64_t offset;
    size_t limit;
    uint32_t wait_ms;
    char *parts[PARTS_MAX];     /* bodies that messages point into */
    size_t part_count;
    struct pulled messages[BUS_PULL_MAX];
    struct pulled_answer pulled;
    /* range */
    struct range_answer range;
    unsigned open;              /* calls without an answer */
    uint64_t link;
};

static struct queue_op *of(struct op *op) { return container_of(op, struct queue_op, op); }

static void drop(struct op *op)
{
    struct queue_op *q = of(op);
    for (size_t i = 0; i < countof(q->calls); i++)
        peer_forget(&q->calls[i]);
    for (size_t i = 0; i < q->part_count; i++)
        free(q->parts[i]);
    free(q);
}

static struct queue_op *queue_op_new(const struct queue *queue, void (*go)(struct op *))
{
    struct queue_op *q = calloc(1, sizeof *q);
    check(q != NULL);
    check(queue->broker.len > 0 && queue->broker.len <= TOPIC_MAX);
    memcpy(q->broker, queue->broker.ptr, queue->broker.len);
    q->number = queue->number;
    q->op.go = go;
    q->op.drop = drop;
    return q;
}

/* The connection to the queue's broker; NULL: none to be had, and the op will end so. */
static struct peer *peer_of(struct queue_op *q)
{
    struct route_broker *b = route_broker(q->op.route, str_of(q->broker));
    if (b && b->at)
        return b->at->peer;
    route_doubt(q->op.route);
    op_end_later(&q->op, REASON_DEPENDENCY_DOWN);
    return NULL;
}

static void add_queue(struct frame_writer *w, struct queue_op *q)
{
    frame_add(w, "topic", str_of(q->op.route->topic));
    frame_add_i64(w, "queueId", q->number);
}

/* ---- pull ---- */

static void pull_done(struct peer_call *call, enum reason reason, const struct frame *f);

static bool pull_ask(struct queue_op *q, bool wait)
{
    struct rocketmq *e = q->op.engine;
    struct peer *p = peer_of(q);
    if (!p)
        return false;
    uint32_t wait_ms = wait ? q->wait_ms : 0;
    struct frame_writer w = peer_begin(p, CODE_PULL);
    frame_add(&w, "consumerGroup", e->group[0] ? str_of(e->group) : str_of(e->producer));
    add_queue(&w, q);
    frame_add_i64(&w, "queueOffset", q->pulled.next);
    frame_add_i64(&w, "maxMsgNums", (int64_t)(q->limit - q->pulled.count));
    frame_add_i64(&w, "sysFlag", wait_ms > 0 ? SUBSCRIBED | SUSPEND : SUBSCRIBED);
    frame_add_i64(&w, "commitOffset", 0);
    frame_add_i64(&w, "suspendTimeoutMillis", wait_ms);
    frame_add(&w, "subscription", str_lit("*"));
    frame_add_i64(&w, "subVersion", 0);
    frame_add(&w, "expressionType", str_lit("TAG"));
    frame_body(&w);
    q->calls[0].done = pull_done;
    peer_ask(p, &q->calls[0], &w, wait_ms > 0 ? wait_ms + WAIT_MARGIN_MS : e->ask_ms);
    return true;
}

static void pull_end(struct queue_op *q, enum reason reason)
{
    q->pulled.messages = q->messages;
    op_end(&q->op, reason, &q->pulled);
}

static void spoiled(struct queue_op *q, const struct stored *m)
{
    struct log_line l = log_event(LEVEL_ERROR, "message_checksum_wrong");
    log_text(&l, "topic", q->op.route->topic);
    log_text(&l, "broker", q->broker);
    log_i64(&l, "queue", q->number);
    log_i64(&l, "offset", m->offset);
    log_end(&l);
}

/* Takes the messages of one answer. False: they are not what was asked for. */
static bool take_messages(struct queue_op *q, struct str body)
{
    struct stored m;
    enum stored_step step;
    while ((step = stored_next(&body, &m)) == STORED_ONE && q->pulled.count < q->limit) {
        bool ours = m.queue == q->number && m.offset >= q->pulled.next && str_eq(m.topic, str_of(q->op.route->topic));
        if (!ours)
            return false;
        if (!m.intact)
            spoiled(q, &m);
        q->messages[q->pulled.count++] = (struct pulled){
            .offset = m.offset, .unique = property_find(m.properties, "UNIQ_KEY"), .key = property_find(m.properties, "KEYS"),
            .body = m.intact ? m.body : (struct str){0}, .trace = property_find(m.properties, "traceparent"),
            .tag = property_find(m.properties, "TAGS"), .deployment = property_find(m.properties, "deployment"), .stored_ms = m.stored_ms};
        q->pulled.next = m.offset + 1;
    }
    return step != STORED_BAD;
}

static void moved(struct str *s, ptrdiff_t by)
{
    if (s->len > 0)
        s->ptr += by;
}

/* The answer's bytes are the connection's: what is to outlive this call gets its own. */
static bool keep_part(struct queue_op *q, struct str body, size_t from)
{
    char *copy = q->part_count < PARTS_MAX ? malloc(body.len) : NULL;
    if (!copy)
        return false;
    memcpy(copy, body.ptr, body.len);
    q->parts[q->part_count++] = copy;
    for (size_t i = from; i < q->pulled.count; i++) {
        struct pulled *m = &q->messages[i];
        ptrdiff_t by = copy - body.ptr;
        moved(&m->unique, by), moved(&m->key, by), moved(&m->body, by), moved(&m->trace, by), moved(&m->tag, by);
        moved(&m->deployment, by);
    }
    return true;
}

static void pull_found(struct queue_op *q, const struct frame *f)
{
    size_t before = q->pulled.count;
    if (!take_messages(q, f->body)) {
        op_end(&q->op, REASON_ENGINE_FAULT, NULL);
        return;
    }
    bool more = q->pulled.count > before && q->pulled.count < q->limit && q->pulled.next < q->pulled.max;
    if (!more || !keep_part(q, f->body, before))
        pull_end(q, REASON_OK);
    else
        pull_ask(q, false);    /* where that cannot be asked the op ends later, as a failure: nothing is lost by it */
}

/* Broker's words about the queue's edges, kept where they are there. */
static void take_edges(struct queue_op *q, const struct frame *f)
{
    frame_field_i64(f, "minOffset", &q->pulled.min);
    frame_field_i64(f, "maxOffset", &q->pulled.max);
}

static void pull_done(struct peer_call *call, enum reason reason, const struct frame *f)
{
    struct queue_op *q = container_of(call, struct queue_op, calls[0]);
    bool partly = q->pulled.count > 0;
    int64_t next = q->pulled.next;
    if (partly && (reason != REASON_OK || peer_link(call->peer) != q->pulled.link || f->code != ANSWER_SUCCESS)) {
        pull_end(q, REASON_OK);    /* what we have is good; the trouble shows itself next time */
        return;
    }
    if (reason != REASON_OK) {
        op_end(&q->op, reason, NULL);
        return;
    }
    q->pulled.link = peer_link(call->peer);
    take_edges(q, f);
    switch (f->code) {
    case ANSWER_SUCCESS:
        pull_found(q, f);
        break;
    case ANSWER_PULL_NOT_FOUND:
        pull_end(q, REASON_OK);
        break;
    case ANSWER_PULL_RETRY: case ANSWER_PULL_OFFSET_MOVED:    /* with a subscription to all, "no match" means gone */
        frame_field_i64(f, "nextBeginOffset", &q->pulled.next);
        pull_end(q, f->code == ANSWER_PULL_RETRY && q->pulled.next == next ? REASON_OK : REASON_OFFSET_MOVED);
        break;
    default:
        op_end(&q->op, op_refusal(&q->op, f), NULL);
    }
}

static void pull_go(struct op *op) { pull_ask(of(op), true); }

void rocketmq_pull(struct bus *bus, const struct pull_ask *ask, struct waiter *w)
{
    struct rocketmq *e = rocketmq_of(bus);
    struct queue_op *q = queue_op_new(&ask->queue, pull_go);
    check(ask->limit > 0);
    q->offset = ask->offset;
    q->pulled.next = ask->offset;
    q->limit = ask->limit < BUS_PULL_MAX ? ask->limit : BUS_PULL_MAX;
    q->wait_ms = ask->wait_ms;
    op_begin(e, &q->op, w, ask->wait_ms + WAIT_MARGIN_MS + e->ask_ms, ask->queue.topic);
}

/* ---- range: brokers answer 0 and 0 for topics they do not have, so the topic itself is asked for as well ---- */

enum { RANGE_MIN, RANGE_MAX, RANGE_TOPIC };

/* The topic's settings: has it this queue? */
static enum reason check_queue(struct queue_op *q, struct str body)
{
    struct tolerant t = tolerant_over((char *)body.ptr, body.len);
    struct str key;
    int64_t queues = 0;
    if (tolerant_enter(&t, '{'))
        while (tolerant_member(&t, &key)) {
            if (str_eq(key, str_lit("readQueueNums")))
                tolerant_number(&t, &queues);
            else
                tolerant_skip(&t);
        }
    if (t.bad)
        return REASON_ENGINE_FAULT;
    return q->number >= 0 && q->number < queues ? REASON_OK : REASON_DEPENDENCY_DOWN;
}

static enum reason range_read(struct queue_op *q, unsigned which, const struct frame *f)
{
    if (f->code != ANSWER_SUCCESS)
        return op_refusal(&q->op, f);
    if (which == RANGE_TOPIC)
        return check_queue(q, f->body);
    bool read = frame_field_i64(f, "offset", which == RANGE_MIN ? &q->range.min : &q->range.max);
    return read ? REASON_OK : REASON_ENGINE_FAULT;
}

static void range_take(struct queue_op *q, unsigned which, enum reason reason, const struct frame *f)
{
    uint64_t link = peer_link(q->calls[which].peer);
    if (reason == REASON_OK)
        reason = range_read(q, which, f);
    if (reason == REASON_OK && q->link != 0 && q->link != link)
        reason = REASON_DEPENDENCY_DOWN;    /* two connections: half of it is of before */
    if (reason != REASON_OK) {
        op_end(&q->op, reason, NULL);
        return;
    }
    q->link = q->range.link = link;
    if (--q->open == 0)
        op_end(&q->op, q->range.min <= q->range.max ? REASON_OK : REASON_ENGINE_FAULT, &q->range);
}

static void min_done(struct peer_call *c, enum reason r, const struct frame *f)
{
    range_take(container_of(c, struct queue_op, calls[RANGE_MIN]), RANGE_MIN, r, f);
}

static void max_done(struct peer_call *c, enum reason r, const struct frame *f)
{
    range_take(container_of(c, struct queue_op, calls[RANGE_MAX]), RANGE_MAX, r, f);
}

static void topic_done(struct peer_call *c, enum reason r, const struct frame *f)
{
    range_take(container_of(c, struct queue_op, calls[RANGE_TOPIC]), RANGE_TOPIC, r, f);
}

static void range_ask(struct queue_op *q, struct peer *p, unsigned which)
{
    static const struct { int code; void (*done)(struct peer_call *, enum reason, const struct frame *); } rows[] = {
        [RANGE_MIN] = {CODE_MIN_OFFSET, min_done}, [RANGE_MAX] = {CODE_MAX_OFFSET, max_done}, [RANGE_TOPIC] = {CODE_TOPIC_CONFIG, topic_done}};
    struct frame_writer w = peer_begin(p, rows[which].code);
    add_queue(&w, q);
    frame_body(&w);
    q->calls[which].done = rows[which].done;
    q->open++;
    peer_ask(p, &q->calls[which], &w, q->op.engine->ask_ms);
}

static void range_go(struct op *op)
{
    struct queue_op *q = of(op);
    struct peer *p = peer_of(q);
    if (!p)
        return;
    range_ask(q, p, RANGE_MIN);
    range_ask(q, p, RANGE_MAX);
    range_ask(q, p, RANGE_TOPIC);
}

void rocketmq_range(struct bus *bus, const struct queue *queue, struct waiter *w)
{
    struct rocketmq *e = rocketmq_of(bus);
    struct queue_op *q = queue_op_new(queue, range_go);
    op_begin(e, &q->op, w, e->ask_ms * 2, queue->topic);
}

/* ---- mirror: the group's offset, for people who look with the broker's tools ---- */

static void mirror_done(struct peer_call *call, enum reason reason, const struct frame *f)
{
    struct queue_op *q = container_of(call, struct queue_op, calls[0]);
    if (reason == REASON_OK && f->code != ANSWER_SUCCESS)
        reason = op_refusal(&q->op, f);
    op_end(&q->op, reason, NULL);
}

static void mirror_go(struct op *op)
{
    struct queue_op *q = of(op);
    struct peer *p = peer_of(q);
    if (!p)
        return;
    struct frame_writer w = peer_begin(p, CODE_UPDATE_OFFSET);
    frame_add(&w, "consumerGroup", str_of(op->engine->group));
    add_queue(&w, q);
    frame_add_i64(&w, "commitOffset", q->offset);
    frame_body(&w);
    q->calls[0].done = mirror_done;
    peer_ask(p, &q->calls[0], &w, op->engine->ask_ms);
}

void rocketmq_mirror(struct bus *bus, const struct queue *queue, int64_t next, struct waiter *w)
{
    struct rocketmq *e = rocketmq_of(bus);
    struct queue_op *q = queue_op_new(queue, mirror_go);
    check(e->group[0] != 0);    /* only a bus with a consumer group has marks to set */
    q->offset = next;
    op_begin(e, &q->op, w, e->ask_ms * 2, queue->topic);
}

/* ---- queues ---- */

struct queues_op {
    struct op op;
    struct queue *queues;
};

static void queues_drop(struct op *op)
{
    struct queues_op *q = container_of(op, struct queues_op, op);
    free(q->queues);
    free(q);
}

static void queues_tell(struct op *op)
{
    struct queues_op *q = container_of(op, struct queues_op, op);
    struct route *r = op->route;
    size_t total = 0, n = 0;
    for (size_t i = 0; i < r->broker_count; i++)
        total += (size_t)r->brokers[i].readable;
    q->queues = calloc(total + 1, sizeof *q->queues);
    check(q->queues != NULL);
    for (size_t i = 0; i < r->broker_count; i++)
        for (int32_t number = 0; number < r->brokers[i].readable; number++)
            q->queues[n++] = (struct queue){.broker = str_of(r->brokers[i].name), .topic = str_of(r->topic), .number = number};
    struct queues_answer answer = {q->queues, total};
    op_end(op, REASON_OK, &answer);
}

static void queues_due(struct due *d) { queues_tell(container_of(d, struct op, due)); }

/* The route may be at hand at once, but nobody is woken inside his own call. */
static void queues_go(struct op *op)
{
    op->due.ring = queues_due;
    due_set(&op->engine->times, &op->due, 0);
}

void rocketmq_queues(struct bus *bus, struct str topic, struct waiter *w)
{
    struct rocketmq *e = rocketmq_of(bus);
    struct queues_op *q = calloc(1, sizeof *q);
    check(q != NULL);
    q->op.go = queues_go;
    q->op.drop = queues_drop;
    op_begin(e, &q->op, w, e->ask_ms * 2, topic.len > 0 ? topic : str_lit(" "));    /* no topic is refused as a wrong one */
}

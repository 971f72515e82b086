/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"
#include "metric.h"

static void op_due(struct due *d)
{
    struct op *op = container_of(d, struct op, due);
    op_end(op, op->ending == REASON_COUNT ? REASON_TIMED_OUT : op->ending, NULL);
}

static void told(struct route_wait *w)
{
    struct op *op = container_of(w, struct op, wait);
    if (op->route->known)
        op->go(op);
    else
        op_end(op, REASON_DEPENDENCY_DOWN, NULL);
}

void op_begin(struct rocketmq *e, struct op *op, struct waiter *w, uint32_t budget_ms, struct str topic)
{
    check(op->go && op->drop);
    slot_arm(&op->slot, w);
    op->engine = e;
    op->due.ring = op_due;
    op->ending = REASON_COUNT;
    op->wait.told = told;
    list_init(&op->wait.link);
    list_append(&e->ops, &op->link);
    due_set(&e->times, &op->due, w->budget_ms ? w->budget_ms : budget_ms);
    if (e->closing) {
        op_end_later(op, REASON_OVERLOADED);
        return;
    }
    if (topic.len == 0) {
        op->go(op);
        return;
    }
    op->route = route_of(&e->routes, topic);
    if (!op->route)
        op_end_later(op, REASON_ENGINE_REFUSED);
    else if (op->route->known)
        op->go(op);
    else
        route_await(op->route, &op->wait);
}

void op_end(struct op *op, enum reason reason, const void *result)
{
    struct rocketmq *e = op->engine;
    if (reason != REASON_OK)
        metric_add(METRIC_ENGINE_CALLS, reason, 1);
    due_unset(&e->times, &op->due);
    list_remove(&op->link);
    list_remove(&op->wait.link);
    slot_wake(&op->slot, reason, result);
    op->drop(op);
}

void op_end_later(struct op *op, enum reason reason)
{
    op->ending = reason;
    due_set(&op->engine->times, &op->due, 0);
}

enum reason op_refusal(struct op *op, const struct frame *f)
{
    rocketmq_refused(op->engine, op->route ? op->route->topic : "", f);
    switch (f->code) {
    case ANSWER_SYSTEM_BUSY: case ANSWER_SERVICE_NOT_AVAILABLE: case ANSWER_FLOW_CONTROL:
        return REASON_ENGINE_BUSY;
    case ANSWER_NO_PERMISSION: case ANSWER_TOPIC_NOT_EXIST: case ANSWER_INVALID_PARAMETER: case ANSWER_NOT_LEADER: case ANSWER_GO_AWAY:
        if (op->route)
            route_doubt(op->route);
        return REASON_DEPENDENCY_DOWN;
    case ANSWER_GROUP_NOT_EXIST:
        return REASON_DEPENDENCY_DOWN;
    case ANSWER_NOT_SUPPORTED: case ANSWER_MESSAGE_ILLEGAL:
        return REASON_ENGINE_REFUSED;
    default:
        return REASON_ENGINE_FAULT;
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * engine.h: what the files of this room share: the bus itself, and `op`, a call that is under way and is no send. */
#pragma once
#include "bus.h"
#include "rocketmq.h"
#include "route.h"

#define SUBSCRIPTIONS_MAX 16

struct lane;
struct sending;
struct batch;

struct rocketmq {
    struct bus bus;
    struct due_table times;
    struct peer_watch watch;
    struct routes routes;
    uv_prepare_t turn;              /* the end of a turn: what was gathered goes out */
    struct due beat;                /* the next round of heartbeats */
    struct due drain;               /* closing: no longer than this */
    struct due window;              /* wakes the loop when a batch has waited long enough */
    struct buf heartbeat;
    struct link ops;
    struct lane *lanes[TOPICS_MAX];
    size_t lane_count;
    size_t open_items;              /* messages not yet answered */
    struct sending *sendings;       /* spare ones: what was needed once is kept for the next */
    struct batch *spare_batches;
    struct buf scratch;
    char client[96], group[TOPIC_MAX + 1], producer[TOPIC_MAX + 1];
    char subscriptions[SUBSCRIPTIONS_MAX][TOPIC_MAX + 1];
    size_t subscription_count;
    char unique[16];                /* first half of every UNIQ_KEY of ours */
    uint64_t unique_turn;
    uint32_t send_ms, ask_ms, drain_ms, batch_window_us, batches;
    size_t in_flight;
    struct log_ration refusals;     /* those that are logged */
    char refusal[256];              /* the last one, in the broker's words; empty: none yet */
    bool closing, goodbye, gone;
    unsigned farewells;
    void (*closed)(void *);
    void *closed_arg;
};

static inline struct rocketmq *rocketmq_of(struct bus *b) { return container_of(b, struct rocketmq, bus); }

/* send.c */
void rocketmq_send(struct bus *, const struct bus_message *, size_t count, struct waiter *);
void rocketmq_flush(struct rocketmq *e);         /* sends what may go */
void rocketmq_lanes_end(struct rocketmq *e);     /* what was never sent ends so */
void rocketmq_lanes_free(struct rocketmq *e);

/* pull.c, create.c */
void rocketmq_pull(struct bus *, const struct pull_ask *, struct waiter *);
void rocketmq_range(struct bus *, const struct queue *, struct waiter *);
void rocketmq_mirror(struct bus *, const struct queue *, int64_t next, struct waiter *);
void rocketmq_queues(struct bus *, struct str topic, struct waiter *);
void rocketmq_create(struct bus *, const struct str *topics, size_t count, struct str group, int32_t queues, struct waiter *);

/* rocketmq.c */
void rocketmq_beat(struct rocketmq *e);          /* heartbeats to every broker now */
void rocketmq_item_ended(struct rocketmq *e);    /* one message fewer is open */
/* Logs what a server had to say against a request; one line a second at most. */
void rocketmq_refused(struct rocketmq *e, const char *topic, const struct frame *f);

/* ---- op.c: every call but send -------------------------------------------------------------------------------------------- */

struct op {
    struct slot slot;
    struct link link;               /* in engine->ops */
    struct due due;                 /* its deadline; or its end, decided while still inside the call */
    struct rocketmq *engine;
    struct route *route;
    struct route_wait wait;
    enum reason ending;             /* REASON_COUNT: not decided */
    void (*go)(struct op *);        /* the route is known */
    void (*drop)(struct op *);      /* forget calls, free what hangs on it, and itself */
};

/* Takes a call up: op was made by calloc. Asks for the route of `topic` (empty: needs none) and then goes on with `go`. */
void op_begin(struct rocketmq *e, struct op *op, struct waiter *w, uint32_t budget_ms, struct str topic);
/* Wakes the waiter and drops the op. Not inside the call that began it: there, op_end_later. */
void op_end(struct op *op, enum reason reason, const void *result);
void op_end_later(struct op *op, enum reason reason);
/* What an answer that is no success means where nothing was to be stored; doubts the route where that may help. */
enum reason op_refusal(struct op *op, const struct frame *f);

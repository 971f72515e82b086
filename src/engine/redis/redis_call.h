/* SPDX-License-Identifier: Apache-2.0
 * redis_call.h: a call in flight, from its words to its end.
 *
 * A call has one command, or, where a batch spans buckets, several ("parts"): each bucket is an atom of its own. A call ends when its
 * last part has, or at its deadline; then it lets go of the parts still under way. A call that cannot even begin (no connection, no room)
 * still ends in the next turn of the loop and never inside the call: that is what a refusal is for. */
#pragma once
#include "arena.h"
#include "heap.h"
#include "redis.h"
#include "redis_link.h"
#include "redis_words.h"

#define REDIS_NODES 1                  /* of a cluster; each will own slots. One owns them all for now */

struct redis_call {
    struct slot slot;
    struct link link;                  /* free, or nowhere */
    struct link parts;                 /* redis_command.of_owner */
    size_t place;                      /* in the deadlines */
    enum redis_script script;
    char text[REDIS_ID_MOST];          /* reserve: the SKU; holdings: what is walked */
    size_t text_len;
    size_t which;                      /* holdings: number of the SKU */
    bool some_known;                   /* batch: the server has answered for some items */
    enum reason common;                /* batch: how all parts so far have failed, or OK: none has yet */
    bool mixed;                        /* batch: they failed in different ways */
    size_t count;
    struct redis_batch_memory *batch;  /* NULL: one command, one answer */
};
struct redis_batch_memory {
    enum reason verdicts[STORE_BATCH_MAX];
    uint16_t order[STORE_BATCH_MAX];   /* items in the order of the parts */
    struct redis_batch_memory *next;   /* spare */
};

struct redis_risks {
    bool known, evicts, forgets;
    char text[256];
};
struct redis_node {
    struct redis_store *store;
    struct redis_link *link;
};
struct redis_store {
    struct store store;
    struct redis_options options;
    struct redis_node nodes[REDIS_NODES];
    struct redis_call *calls;
    struct link free, refusals;
    struct redis_batch_memory *batches;    /* spare ones: what was needed once is kept for the next */
    struct heap deadlines;
    uint64_t armed_us;                 /* what the timer stands at; 0: it does not run */
    uv_timer_t timer;
    uv_idle_t turn;
    unsigned open;                     /* links and handles not yet closed */
    bool closing;
    void (*closed)(void *);
    void *closed_arg;
    struct arena arena;                /* of the answer that is being told */
    uint64_t dice;
    struct redis_risks risks;          /* as the last prove told */
};

static inline struct redis_store *redis_of(struct store *s) { return container_of(s, struct redis_store, store); }
/* Where a bucket lives: by the slot of its hash tag once there are several nodes. */
static inline struct redis_node *redis_node_of(struct redis_store *r, const struct bucket *bucket) { return (void)bucket, &r->nodes[0]; }

/* NULL: refused already; `fits`: it can be said. */
struct redis_call *redis_call_begin(struct redis_store *r, enum redis_script script, bool fits, struct waiter *w);
struct redis_batch_memory *redis_call_batch_memory(struct redis_store *r);
/* One command more. OK, OVERLOADED (no command free) or ENGINE_REFUSED (larger than anything we mean to send). */
enum reason redis_call_part(struct redis_store *r, struct redis_call *c, const struct bucket *bucket, const struct redis_words *words);
/* With the parts that it has; or, where it cannot go, not at all. */
void redis_call_go(struct redis_store *r, struct redis_call *c, struct waiter *w, uint32_t budget_ms);
void redis_call_refuse(struct redis_store *r, struct redis_call *c, struct waiter *w, enum reason reason);
/* A part of a batch failed: so did its items. */
void redis_call_part_failed(struct redis_call *c, const struct redis_command *part, enum reason reason);
void redis_call_batch_end(struct redis_store *r, struct redis_call *c);
void redis_call_end(struct redis_store *r, struct redis_call *c, enum reason reason, const void *result);

/* Wakes a waiter in the next turn; `result` stays until then. */
void redis_refuse(struct redis_store *r, struct waiter *w, enum reason reason, const void *result);
void redis_refusals_tell(struct redis_store *r);

/* redis_batch.c */
void redis_settle(struct store *store, const struct settle_ask *asks, size_t count, struct waiter *w);
void redis_restock(struct store *store, const struct restock_ask *asks, size_t count, struct waiter *w);
void redis_batch_part_ended(struct redis_store *r, struct redis_call *c, const struct redis_command *part, enum reason reason, const redisReply *reply);

/* SPDX-License-Identifier: Apache-2.0
 * order_parts.h: what order.c (batches) and order_queue.c (leases, identity, pulls) share; nobody else includes it. */
#pragma once
#include "arena.h"
#include "ident.h"
#include "message.h"
#include "order.h"

#define ORDER_TEXT 128             /* longest broker or topic name */
#define ORDER_IDENTITY 64          /* what is kept of a UNIQ_KEY */
#define ORDER_LEASE_US 3000000     /* as the ledger grants it */
#define ORDER_BODY_KEPT 16384      /* what is kept of a body that cannot be read */
#define ORDER_DEFERRED_MAX 64      /* messages whose unit another transaction held */
#define ORDER_DEFERRED_MS 1000     /* between two tries to place them … */
#define ORDER_DEFERRED_TRIES 60    /* … of which there are so many */

struct pulled_item {
    int64_t offset, stored_ms;
    struct str unique, key, body;  /* body only of what could not be read */
    enum reason read;              /* OK, MESSAGE_UNREADABLE, MESSAGE_TOO_NEW, MESSAGE_FORGED, MESSAGE_FOREIGN */
    struct create_order what;      /* with OK */
};
/* Messages of one pull. Two take turns: one is being placed, the other filled. */
struct pulled_page {
    struct arena memory;
    struct pulled_item *items;
    size_t count, taken;
    uint64_t pulled_us;            /* when they came */
};

/* OUT: not ours. DOUBT: ours, but whether it is still the queue we knew must be found out. */
enum order_queue_state { QUEUE_OUT, QUEUE_DOUBT, QUEUE_VERIFYING, QUEUE_REREADING, QUEUE_READY };

struct order_queue {
    struct order_desk *desk;
    char broker[ORDER_TEXT], topic[ORDER_TEXT];
    struct queue name;
    bool seen, started;            /* still among the topic's queues; `start` is known */
    int64_t start;                 /* the broker's minimum when first seen */

    enum order_queue_state state;
    bool in_batch, gone;           /* gone: the lease was lost while a batch is under way */
    bool foreign;                  /* the broker is another deployment's: not read */
    bool unsure;                   /* a pull has failed since it was last verified: what comes next is not believed */
    uint64_t sure_us;              /* when it was last known to be ours and itself; kept up by leases, places and pulls that follow each other closely */
    int64_t next, at, max;         /* first not decided; next to pull; the broker's, as last seen */
    uint64_t link;
    char identity[ORDER_IDENTITY];
    size_t identity_len;           /* of the message at next - 1; 0: none known */
    uint64_t moves, asked_moves;   /* commits of ours; and how many when the lease call left */
    bool asked_in_batch;
    int64_t committed, sent_next, mirrored;    /* see order_mirror */

    struct pulled_page pages[2];
    int front;
    int64_t min;                   /* … while it is looked at before it is read again */
    struct waiter puller, mover, ranger, mirror;
    struct alarm rest;
    uint32_t faults;
    uint64_t pulled_us;            /* when the broker was last asked about it */
    int64_t pulled_ms;             /* the same by the ledger's clock, never later than it was; 0: not known */
    int64_t goal, goal_ms;         /* the broker's end as of goal_ms by the ledger's clock: once all before it is decided, the queue was caught up then; 0: none */
    int64_t caught_up_ms;          /* told with the next lease; 0: nothing new */
};

struct order_batch {
    struct link link;
    struct order_desk *desk;
    struct waiter waiter;
    struct alarm rest;
    uint32_t faults;
    uint64_t began_us;
    size_t count, done, limit;     /* items; finished; how many the call in flight holds */
    bool parking;                  /* the call in flight parks item `done` */
    enum reason why;               /* … for this */
    bool skipping;                 /* the call in flight moves the offset past item `done`, which waits elsewhere */
    bool wary;                     /* somebody holds a row: parts stay small until it is found */
    size_t reparking;              /* after a place: the next of its items to be parked without an offset */
    bool reused[LEDGER_BATCH_MAX];
    struct order_queue *queues[LEDGER_BATCH_MAX];
    struct pulled_item *items[LEDGER_BATCH_MAX];
    struct create_order whats[LEDGER_BATCH_MAX];
};

struct order_desk {
    struct bus *bus;
    struct ledger *ledger;
    struct clock *clock;
    struct random *random;
    struct order_options options;
    struct order_queue *queues;
    size_t queue_count;
    struct order_batch *batches;
    struct link idle;
    size_t in_flight, ranging, turn;
    bool running, draining, lease_soon, lingered;
    uint64_t looked_us;            /* at which queues there are */
    uint64_t asked_us, leased_us;  /* when the lease call left; and the last one that was granted */
    bool looked;
    int64_t ledger_ms;             /* the ledger's clock in the last lease's answer, which came at ledger_us; 0: none yet */
    uint64_t ledger_us;
    struct waiter looker, leaser, deferrer;
    struct order_deferred *deferred;
    size_t deferred_count, deferred_asked;      /* and how many of them the call in flight is of */
    struct alarm deferred_alarm;
    struct alarm renew, linger;
    size_t asked[ORDER_QUEUES_MAX];             /* which queue each of the lease call's is */
    size_t asked_count;
    struct order_facts facts;
};

/* order_queue.c */
void order_lease_soon(struct order_desk *);                  /* as soon as no lease call is in flight */
void order_queue_advance(struct order_queue *, int64_t next, struct str identity);
void order_queue_sure(struct order_queue *, uint64_t asked_us);    /* a call that left then has shown it in its place */
void order_queue_drop(struct order_queue *);                 /* gives it up, and what was pulled of it */
void order_queue_go_on(struct order_queue *);                /* verify, pull, or rest, whatever is next */
struct pulled_page *order_queue_page(struct order_queue *);  /* the page to be placed, NULL: nothing */
uint64_t order_back_off(struct order_desk *, uint32_t faults);    /* microseconds, with jitter */
void order_queues_init(struct order_desk *);
void order_queues_stop(struct order_desk *);
/* order_deferred.c */
bool order_deferred_init(struct order_desk *);               /* false: no memory */
bool order_defer(struct order_desk *, const struct create_order *);    /* copied; false: there is no room */
void order_deferred_stop(struct order_desk *);
/* order.c */
void order_pump(struct order_desk *);                        /* makes batches of what is there */

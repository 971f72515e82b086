/* SPDX-License-Identifier: Apache-2.0
 * bus.h: whoever carries messages. At least once, in any order; it decides nothing (protocol §5).
 *
 * Manners: waiter.h. Reasons any call may end with: TIMED_OUT, LINK_LOST, ENGINE_FAULT (unknown); ENGINE_BUSY,
 * DEPENDENCY_DOWN, OVERLOADED (not done); ENGINE_REFUSED (never will be). */
#pragma once
#include "terms.h"
#include "waiter.h"

struct queue {
    struct str broker, topic;
    int32_t number;
};

/* ---- send ------------------------------------------------------------------------------------------------------------- */

struct bus_message {
    struct str topic;
    struct str key;            /* business key(s): KEYS */
    struct str body;           /* never empty */
    struct str trace;          /* traceparent property; may be empty */
    struct str tag;            /* TAGS, by which consumers filter; may be empty */
    uint64_t spread;           /* which queue, modulo: equal numbers meet in one queue while the queues stay the same; 0: whichever costs least */
    int64_t deliver_ms;        /* > 0: a timer message; a hint, never a proof */
};
struct send_result {           /* with REASON_OK; any other reason holds for every item alike */
    const enum reason *verdicts;    /* OK: stored as durably as the broker is set to; fate UNKNOWN: may be stored; else not stored */
    size_t count;
};
#define BUS_BATCH_MAX 256

/* ---- queues ------------------------------------------------------------------------------------------------------------ */

struct queues_answer {         /* readable queues of a topic, in (broker, number) order; what is not reachable now is named all the same */
    const struct queue *queues;
    size_t count;
};
struct range_answer {
    int64_t min, max;          /* the broker holds min … max-1 */
    uint64_t link;             /* see pulled_answer */
};

/* ---- pull -------------------------------------------------------------------------------------------------------------- */

struct pull_ask {
    struct queue queue;
    int64_t offset;
    size_t limit;              /* ≤ BUS_PULL_MAX; the engine may ask the broker several times to fill it */
    uint32_t wait_ms;          /* 0: answer at once; else hold the call until something comes */
};
#define BUS_PULL_MAX 256
struct pulled {
    int64_t offset;
    struct str unique;         /* UNIQ_KEY: the identity of this copy, fresh per send */
    struct str key, body, trace, tag;
    struct str deployment;     /* the property `deployment`: whose message it is; empty: it does not say */
    int64_t stored_ms;
};
/* OK, perhaps with no message · OFFSET_MOVED: the offset is outside [min, max]; nothing is skipped silently. */
struct pulled_answer {
    const struct pulled *messages;    /* offsets ascending; may have holes */
    size_t count;
    int64_t next;                     /* where to go on */
    int64_t min, max;
    uint64_t link;                    /* grows with every new connection to the queue's broker: a changed link means: check the queue's identity before believing */
};

struct bus;
struct bus_ops {
    const char *name;
    void (*create)(struct bus *, const struct str *topics, size_t count, struct str group, int32_t queues, struct waiter *); /* → NULL; idempotent; ends when the topics can be sent to */
    void (*send)(struct bus *, const struct bus_message *, size_t count, struct waiter *);    /* → struct send_result   */
    void (*queues)(struct bus *, struct str topic, struct waiter *);                          /* → struct queues_answer */
    void (*range)(struct bus *, const struct queue *, struct waiter *);                       /* → struct range_answer  */
    void (*pull)(struct bus *, const struct pull_ask *, struct waiter *);                     /* → struct pulled_answer */
    void (*mirror)(struct bus *, const struct queue *, int64_t next, struct waiter *);        /* → NULL: the group's offset for the broker's own tools */
    struct str (*refusal)(struct bus *);                                                      /* at once; NULL: it has no words of its own */
};
/* `deployment`: the identity that every message sent carries (port/ledger.h); it belongs to the ledger. Empty: not known yet, and nothing can be sent
 * (DEPENDENCY_DOWN). NULL: messages carry none; for tools and tests that have no ledger. */
struct bus {
    const struct bus_ops *ops;
    const char *deployment;
};

static inline void bus_create(struct bus *b, const struct str *t, size_t n, struct str g, int32_t q, struct waiter *w) { b->ops->create(b, t, n, g, q, w); }
static inline void bus_send(struct bus *b, const struct bus_message *m, size_t n, struct waiter *w) { b->ops->send(b, m, n, w); }
static inline void bus_queues(struct bus *b, struct str topic, struct waiter *w) { b->ops->queues(b, topic, w); }
static inline void bus_range(struct bus *b, const struct queue *q, struct waiter *w) { b->ops->range(b, q, w); }
static inline void bus_pull(struct bus *b, const struct pull_ask *a, struct waiter *w) { b->ops->pull(b, a, w); }
/* What a broker said when it last refused something, in its own words; empty: nothing yet. Valid until the caller returns to the loop. */
static inline struct str bus_refusal(struct bus *b) { return b->ops->refusal ? b->ops->refusal(b) : (struct str){0}; }
static inline void bus_mirror(struct bus *b, const struct queue *q, int64_t next, struct waiter *w) { b->ops->mirror(b, q, next, w); }

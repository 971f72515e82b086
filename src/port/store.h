/* SPDX-License-Identifier: Apache-2.0
 * store.h: whoever says who may try now. Redis in life, a struct and a seed in the simulator (protocol §2).
 *
 * Manners: waiter.h. Every call may be repeated with the same key. A reason of fate UNKNOWN means that the script may have
 * run. One call is one atom per bucket; a batch is one atom per item at least. Reasons that any call may end with, beside its
 * own: TIMED_OUT, LINK_LOST, ENGINE_FAULT (unknown); ENGINE_BUSY, DEPENDENCY_DOWN, OVERLOADED (not done: the engine is
 * loading, read-only, full, not connected, or our own queue is full); STALE_EPOCH (the bucket lives in another epoch, or not at all); STRUCTURE_LOST (a part of
 * the bucket is missing: it is closed, see reindex). */
#pragma once
#include "terms.h"
#include "waiter.h"

/* ---- reserve: take one unit for a user, or find what he has (the order of checks is protocol §2's) ---------------------- */

struct reserve_ask {
    struct bucket bucket;
    struct str user, sku, request;
    struct ident ident;        /* the id it gets if it is a new one */
    uint64_t user_hash;        /* keyed; for the winners' filter */
    struct str nonce;          /* of the qualification token; empty where none is demanded */
    bool replay_only;          /* the token is authentic but expired, or the process is draining: answer what is known, take nothing new (→ QUALIFICATION_INVALID) */
    bool ledger_asked;         /* after ASK_LEDGER: the ledger was asked and knows no verdict on this request_id; it may reserve */
    bool sealed;               /* the server is not known to hold all it has said: answer what is known; where a unit would be taken, BUCKET_CLOSED */
};
/* QUEUED (new, or a replay while undecided), ORDERED, RELEASED (replays) and ALREADY_PURCHASED come with `entry`.
 * IDEMPOTENCY_CONFLICT · BUCKET_EMPTY · BUCKET_CLOSED · NOT_STARTED · ENDED · RESERVATION_PAUSED · QUALIFICATION_INVALID (the
 * nonce is used) · ASK_LEDGER (the list of tombstones is full and this request_id is not in it) · UNKNOWN_ACTIVITY (no such SKU). */
struct reserve_answer {
    bool replayed;
    struct entry entry;
    uint64_t sequence;         /* of the bucket, grows with every script */
    int64_t now_ms;            /* the bucket's clock */
    int64_t starts_ms;         /* with NOT_STARTED */
};

/* ---- settle: tell the store what became of a reservation ------------------------------------------------------------- */

struct settle_ask {
    struct bucket bucket;
    struct str user;
    struct ident ident;
    enum reservation_state to;
    enum reason why;             /* with RELEASED */
    struct str request, sku;     /* with a verdict (ORDERED, RELEASED): a missing entry is added; else they may be empty */
    struct token token;          /* with ORDERED: copies of the unit at this generation or an older one go, highest seen rises */
    struct str superseded_by;    /* reservation_id of the order that stands instead (DUPLICATE_USER, REQUEST_REPLAY), or empty */
    struct str superseded_request, superseded_sku;
    uint64_t user_hash;          /* for the winners' filter, with ORDERED */
};
/* Verdict per item: OK (it moved) · UNCHANGED (stood there or further on, or an unknown entry without a verdict) · the common ones. */

/* ---- restock: a unit comes back, or comes for the first time ----------------------------------------------------------- */

struct restock_ask {
    struct bucket bucket;        /* the unit's home */
    struct str sku;
    struct token token;
};
/* Verdict per item: OK · UNCHANGED (generation not above the highest seen) · UNKNOWN_ACTIVITY (SKU not in the bucket) · the common ones. */

struct batch_result {            /* of settle and restock, with REASON_OK; any other reason holds for every item alike */
    const enum reason *verdicts;
    size_t count;
};

/* ---- look: what do you know of this user? ------------------------------------------------------------------------------ */

struct look_ask {
    struct bucket bucket;
    struct str user;
};
struct look_answer {
    const struct entry *entries;    /* newest first */
    size_t count;
    int64_t now_ms;                 /* 0 where the engine did not ask for it */
    uint64_t sequence;              /* of the last script that counted; a look counts none */
};

/* ---- due: reservations without a verdict whose time has come to be looked at ------------------------------------------- */

/* Takes up to `limit` (≤ 64) users whose turn it is and puts their next turn forward: after 1, 2, 4, 8, 15 s of age, then every 15 s, with
 * jitter. That is the short lease of mission §8.5. */
struct due_ask {
    struct bucket bucket;
    size_t limit;
};
struct due_entry {
    struct str user;
    struct entry entry;
};
struct due_answer {
    const struct due_entry *entries;
    size_t count;                   /* undecided entries of those users */
    uint64_t waiting;               /* how many users have an undecided reservation in this bucket */
    int64_t now_ms;
    uint64_t sequence;
};

/* ---- stock: what does the bucket hold? --------------------------------------------------------------------------------- */

struct stock_ask {
    struct bucket bucket;
    bool with_filter;
};
struct stock_sku {
    struct str sku;
    uint64_t free, resting, moving;
    bool wanted;
};
struct stock_answer {
    enum activity_state state;
    uint64_t version;
    bool seeded, closed;
    uint64_t sequence, restocks, pending;
    struct str incarnation;         /* of the Redis server that answered */
    struct str mark;                /* with closed: which closing it is */
    struct str lost;                /* with closed: names of its keys that were lost, where it must be indexed again (reindex) before it is recovered; else empty */
    const struct stock_sku *skus;
    size_t sku_count;
    uint32_t filter_bits;           /* probe i (0 … WINNER_PROBES-1) is bit (h1 + i·(h2|1)) mod filter_bits; h1, h2: low and high half of user_hash */
    struct str filter;              /* bytes, most significant bit first (Redis SETBIT order); may be shorter than filter_bits: the rest is 0 */
    int64_t now_ms;
};
#define WINNER_PROBES 4

/* ---- install: a bucket learns of its activity -------------------------------------------------------------------------- */

/* Pushes state, window and version where the version is higher. `seeded` is only ever set. Only with `create` is a missing bucket made, empty: that is for
 * seeding alone, of a sale that has never been open. A bucket of any other sale that is not there has been lost with all it held: STALE_EPOCH.
 * Verdict: OK · UNCHANGED (an equal or higher version stood). */
struct install_ask {
    struct bucket bucket;
    const struct activity *activity;    /* its skus and stock too */
    bool seeded;                        /* every unit of this bucket has been restocked and counted */
    bool create;
};

/* ---- close, open: a bucket that may have forgotten takes nothing new until it is healed ---------------------------------- */

/* The incarnation names a server and the life of its data: another after each restart and each promotion. */
#define INCARNATION_TEXT 48
#define MARK_TEXT 80
struct close_ask {
    struct bucket bucket;
    struct str recorded;            /* the incarnation that the ledger holds for it; empty: none */
    bool went_back;                 /* an answer was older than what had been seen before it was asked for */
    uint64_t highest;               /* the highest sequence seen: the bucket's is raised to it, for whoever has seen as much */
};
/* OK: closed by this call, under a new mark · UNCHANGED: the server is of the recorded incarnation and nothing went back, or the bucket is closed for
 * this incarnation already. A mark of an earlier incarnation is replaced, for nobody could open it any more. A mark begins with the incarnation it was set for; no two closings have the same. */
struct close_answer {
    uint64_t sequence;
    struct str incarnation;         /* of the server that answered */
    struct str mark;                /* empty: it is open */
};
struct open_ask {
    struct bucket bucket;
    struct str mark;                /* of the closing that was healed */
};
/* OK: opened; it is seeded now, and sells nothing for 300 ms, as after a pause · UNCHANGED: it is not closed under this mark (any more), or the server
 * is of another incarnation than the mark. */
struct open_answer {
    uint64_t sequence;
    int64_t closed_ms;              /* how long it was closed; 0 where UNCHANGED */
};

/* ---- reindex: a bucket that lost one of its keys is made fit to be recovered ----------------------------------------------- */

/* A deleted or evicted key is found by the next call that needs it, at the latest by stock: it ends with STRUCTURE_LOST, and the bucket is closed from then
 * on. Before its recovery counts, what follows from the entries of its users is derived from them anew, slice by slice. */
struct reindex_ask {
    struct bucket bucket;
    struct str mark;                /* that it is closed under */
    struct str cursor;              /* empty: from the beginning */
};
/* OK: one slice is done · UNCHANGED: it is not closed under this mark, or has lost nothing that was not indexed since. */
struct reindex_answer {
    uint64_t sequence;
    struct str cursor;              /* empty: that was the last slice … */
    struct str mark;                /* … and it is closed under this new mark now */
};

/* ---- holdings: name every unit the bucket holds, slice by slice (conservation, audit) ------------------------------------ */

enum holding { HOLDING_FREE, HOLDING_RESTING, HOLDING_MOVING, HOLDING_RESERVED };
struct holdings_ask {
    struct bucket bucket;
    struct str cursor;              /* empty: from the beginning */
};
struct held {
    enum holding holding;
    struct str sku;
    struct token token;
    struct str user;                /* RESERVED: whose; and the undecided reservation */
    struct ident ident;
    enum reservation_state state;
    int64_t created_ms;
};
struct holdings_answer {
    const struct held *held;
    size_t count;
    struct str cursor;              /* empty: that was the last slice. A unit may be seen twice, and one that moves may be missed: look again */
};

/* ---- prove: does the store take a write? (readiness) -------------------------------------------------------------------- */

/* OK: a small write was done, in no bucket of any activity. What refuses it would refuse a reservation. */

/* ---- risks: what the server's own settings may do to the data ------------------------------------------------------------ */

struct store_risks {
    bool known;              /* false: prove has not been answered yet, or the server does not tell its settings */
    bool evicts;             /* where memory is short it may delete keys of a sale */
    bool forgets;            /* what is written is not appended to a file */
    struct str text;         /* what is wrong, with the server's names of the settings; empty: nothing is, or not known */
};

struct store;
struct store_ops {
    const char *name;
    void (*reserve)(struct store *, const struct reserve_ask *, struct waiter *);                  /* → struct reserve_answer  */
    void (*settle)(struct store *, const struct settle_ask *, size_t count, struct waiter *);      /* → struct batch_result    */
    void (*restock)(struct store *, const struct restock_ask *, size_t count, struct waiter *);    /* → struct batch_result    */
    void (*look)(struct store *, const struct look_ask *, struct waiter *);                        /* → struct look_answer     */
    void (*due)(struct store *, const struct due_ask *, struct waiter *);                          /* → struct due_answer      */
    void (*stock)(struct store *, const struct stock_ask *, struct waiter *);                      /* → struct stock_answer    */
    void (*install)(struct store *, const struct install_ask *, struct waiter *);                  /* → NULL                   */
    void (*holdings)(struct store *, const struct holdings_ask *, struct waiter *);                /* → struct holdings_answer */
    void (*close)(struct store *, const struct close_ask *, struct waiter *);                      /* → struct close_answer    */
    void (*open)(struct store *, const struct open_ask *, struct waiter *);                        /* → struct open_answer     */
    void (*reindex)(struct store *, const struct reindex_ask *, struct waiter *);                  /* → struct reindex_answer  */
    struct str (*incarnation)(struct store *, const struct bucket *);                              /* at once; see below       */
    void (*prove)(struct store *, struct waiter *);                                                /* → NULL                   */
    struct store_risks (*risks)(struct store *);                                                   /* at once; NULL: there are none */
    struct str (*refusal)(struct store *);                                                         /* at once; NULL: it has no words of its own */
};
struct store {
    const struct store_ops *ops;
};
#define STORE_BATCH_MAX 256    /* items of one settle or restock */

static inline void store_reserve(struct store *s, const struct reserve_ask *a, struct waiter *w) { s->ops->reserve(s, a, w); }
static inline void store_settle(struct store *s, const struct settle_ask *a, size_t n, struct waiter *w) { s->ops->settle(s, a, n, w); }
static inline void store_restock(struct store *s, const struct restock_ask *a, size_t n, struct waiter *w) { s->ops->restock(s, a, n, w); }
static inline void store_look(struct store *s, const struct look_ask *a, struct waiter *w) { s->ops->look(s, a, w); }
static inline void store_due(struct store *s, const struct due_ask *a, struct waiter *w) { s->ops->due(s, a, w); }
static inline void store_stock(struct store *s, const struct stock_ask *a, struct waiter *w) { s->ops->stock(s, a, w); }
static inline void store_install(struct store *s, const struct install_ask *a, struct waiter *w) { s->ops->install(s, a, w); }
static inline void store_holdings(struct store *s, const struct holdings_ask *a, struct waiter *w) { s->ops->holdings(s, a, w); }
static inline void store_close(struct store *s, const struct close_ask *a, struct waiter *w) { s->ops->close(s, a, w); }
static inline void store_open(struct store *s, const struct open_ask *a, struct waiter *w) { s->ops->open(s, a, w); }
static inline void store_reindex(struct store *s, const struct reindex_ask *a, struct waiter *w) { s->ops->reindex(s, a, w); }
static inline void store_prove(struct store *s, struct waiter *w) { s->ops->prove(s, w); }
/* What the server said when it last refused something, in its own words; empty: nothing yet. Valid until the caller returns to the loop. */
static inline struct str store_refusal(struct store *s) { return s->ops->refusal ? s->ops->refusal(s) : (struct str){0}; }
/* As of the last answer to prove. Valid until the caller returns to the loop. */
static inline struct store_risks store_risks(struct store *s) { return s->ops->risks ? s->ops->risks(s) : (struct store_risks){.text = str_lit("")}; }
/* The incarnation of the server at the other end, as it was last heard: at the greeting, or in a later answer. Whatever is asked in the same turn
 * goes to that server or is not done. Empty: not connected. Valid until the caller returns to the loop. */
static inline struct str store_incarnation(struct store *s, const struct bucket *b) { return s->ops->incarnation(s, b); }

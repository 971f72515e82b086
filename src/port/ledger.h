/* SPDX-License-Identifier: Apache-2.0
 * ledger.h: whoever decides. PostgreSQL in life (protocol §3). The inbox row is the verdict: whoever inserts it first has decided.
 *
 * Manners: waiter.h. Every call is one transaction, set-based, with a verdict per item, and may be repeated with the same
 * keys. Reasons that any call may end with, beside its own: TIMED_OUT, LINK_LOST, UNCERTAIN (unknown: the commit was sent, or its
 * acknowledgement was qualified); ENGINE_BUSY (40001, 40P01, 53xxx, 57P0x before the commit: nothing happened, again later), DEPENDENCY_DOWN,
 * OVERLOADED (lane full), POISON (22xxx, 23xxx: the batch can never be taken as it is), ENGINE_FAULT. */
#pragma once
#include "bus.h"
#include "terms.h"
#include "waiter.h"

/* ---- queues: how far each is read, and by whom -------------------------------------------------------------------------- */

/* A consumer says which queues it sees; the ledger grants what is free or already its own, up to its fair share among the live consumers, for 3 s
 * from now by the ledger's clock. Renewed by each place as well. A queue first seen starts at `start`. */
struct lease_ask {
    struct str group;
    struct str owner;                  /* unique per process and start */
    const struct queue *queues;
    const int64_t *starts;             /* the broker's minimum of each */
    size_t count;
};
struct leased {
    size_t queue;                      /* index into the ask */
    int64_t next;                      /* first offset not yet decided */
    struct str identity;               /* UNIQ_KEY of the message at next-1; empty: none known */
};
struct lease_answer {
    const struct leased *leased;       /* all that this owner holds now among those asked */
    size_t count;
};

/* ---- place: create orders ----------------------------------------------------------------------------------------------- */

struct queue_prefix {                  /* what of a queue this batch takes */
    struct queue queue;
    int64_t from, to;                  /* offset row: CAS next = from → to */
    struct str identity;               /* UNIQ_KEY of the message at to-1 */
};
struct place_ask {
    struct str group, owner;
    const struct queue_prefix *prefixes;    /* may be empty (tests, replays by hand) */
    size_t prefix_count;
    const struct create_order *items;
    size_t count;                      /* ≤ LEDGER_BATCH_MAX */
};
#define LEDGER_BATCH_MAX 256
struct verdict {
    enum reason outcome;               /* ORDERED · RELEASED · MESSAGE_ID_REUSED (to be parked; nothing decided) */
    enum reason why;                   /* of RELEASED; else OK */
    bool fresh;                        /* decided by this call; false: it stood already */
    struct str order;                  /* order_id, with ORDERED */
    struct str superseded_by;          /* reservation_id of the order that stands instead, or empty */
};
/* OK · QUEUE_LOST (an offset row was not at `from`: nothing of the batch happened) · POISON · the common ones. */
struct place_answer {
    const struct verdict *verdicts;    /* one per item, in order */
    size_t count;
    bool regressed;                    /* a message's generation was above the unit's: PostgreSQL went back in time; alarm */
};

/* ---- release: decide that no order will come ---------------------------------------------------------------------------- */

struct release_item {
    struct create_order what;          /* the reservation, with its token (unit 0: none known, as for LOST) */
    enum reason why;                   /* OVERDUE, LOST, REBUILT, or an operator's RELEASED */
};
struct release_ask {
    const struct release_item *items;
    size_t count;
};
/* → struct place_answer: RELEASED fresh, or the verdict that stood, which is told to the store again. */

/* ---- park: what can never be taken goes to a person --------------------------------------------------------------------- */

struct park_ask {
    struct str group, owner;
    const struct queue_prefix *prefix;      /* of exactly this message; NULL: none */
    struct str body;                        /* the message as it came */
    struct str key;
    const struct create_order *what;        /* NULL: it could not be read */
    enum reason why;
};

/* ---- look --------------------------------------------------------------------------------------------------------------- */

enum look_by { LOOK_RESERVATION, LOOK_REQUEST, LOOK_ORDER };
struct ledger_look_ask {
    enum look_by by;
    struct str id;                          /* reservation_id, request_id or order_id */
    struct str activity, user;              /* with LOOK_REQUEST both; else user may be given to be compared, or empty */
};
/* OK · NOT_FOUND (the ledger holds nothing of it, or it is another user's). */
struct ledger_look_answer {
    bool decided;                           /* an inbox row stands */
    struct verdict verdict;
    struct create_order what;               /* as the inbox row holds it */
    bool has_order;
    struct order order;
    bool parked;                            /* an open review holds the reservation */
    int64_t decided_ms;
};

/* ---- outbox (protocol §4) ------------------------------------------------------------------------------------------------ */

enum outbox_kind { OUTBOX_STATUS, OUTBOX_RETURN, OUTBOX_EVENT, OUTBOX_DEAD_LETTER };
#define OUTBOX_KINDS 4
struct outbox_row {
    int64_t row;                            /* with version: what finish names */
    int32_t version;
    enum outbox_kind kind;
    struct str activity;
    uint16_t activity_number;
    uint8_t epoch, buckets;                 /* the activity's present ones */
    bool rebuilding;                        /* a RETURN must wait */
    /* STATUS */
    struct str user, sku, request, reservation, superseded_by, superseded_request, superseded_sku;
    enum reservation_state state;
    enum reason why;
    /* STATUS, RETURN */
    struct token token;
    uint8_t home;                           /* RETURN: the unit's bucket in the present epoch */
    bool stale;                             /* RETURN: not the unit's present generation any more: drop it */
    /* EVENT, DEAD_LETTER */
    struct str topic_key, body;
};
struct claim_ask {
    size_t limit;                           /* ≤ LEDGER_BATCH_MAX */
    uint32_t hold_ms;                       /* nobody else gets them meanwhile */
};
struct claim_answer {
    const struct outbox_row *rows;
    size_t count;
    uint64_t waiting;                       /* rows nobody has claimed, counted up to a bound */
    int64_t oldest_ms;                      /* age of the oldest of the rows claimed */
};
struct finish_item {
    int64_t row;
    int32_t version;                        /* a row renewed meanwhile stays */
};
struct finish_ask {
    const struct finish_item *items;
    size_t count;
};

/* ---- activities ----------------------------------------------------------------------------------------------------------- */

struct activity_create {
    struct activity activity;               /* number, epoch, version, unit_first are the ledger's to give */
    struct str actor, note;
};
/* OK with struct activity · CONFLICT (exists with other terms; the same terms again: OK). */
struct activity_move_ask {
    struct str activity;
    enum activity_event event;
    uint64_t version;                       /* it moves only from this version, so that a call that comes late undoes nothing; 0: from whichever */
    struct str actor, note;
};
/* OK with the struct activity as it now is · UNKNOWN_ACTIVITY · CONFLICT (spec/activity.def has no such move, or it has moved on from that version;
 * standing there already: OK). */
struct activities_answer {
    const struct activity *activities;
    size_t count;
};

/* ---- units: name each, slice by slice (warm-up, conservation, audit) --------------------------------------------------- */

struct units_ask {
    struct str activity;
    int64_t after;                          /* unit of the last one seen; 0: from the beginning */
    int32_t bucket;                         /* only those at home there; -1: all */
    bool available;                         /* only AVAILABLE ones */
    size_t limit;                           /* ≤ 4096 */
};
struct ledger_unit {
    struct token token;
    struct str sku;
    uint8_t home;
    bool available;
    struct str reservation;                 /* of a CONSUMED one */
    bool ordered;                           /* an order in a state that holds stock has it */
    bool returning;                         /* an outbox row of it, or of its last reservation, is not yet delivered */
};
struct units_answer {
    const struct ledger_unit *units;
    size_t count;
};

/* ---- audit: the rules of mission §17.7 and H1–H14 that the ledger can judge alone ---------------------------------------- */

struct finding {
    struct str rule;                        /* "H1", "§17.7 one order per user", ... */
    struct str subject;                     /* the row: a unit, an order, a reservation */
    struct str detail;
};
struct audit_answer {
    const struct finding *findings;         /* none: all hold */
    size_t count;                           /* at most 1000 are named */
    uint64_t stock, available, consumed, orders, holding, released, outbox;    /* of the activity, or of all */
    int64_t first_order_ms, last_order_ms;
};

struct ledger;
struct ledger_ops {
    const char *name;
    void (*lease)(struct ledger *, const struct lease_ask *, struct waiter *);                  /* → struct lease_answer      */
    void (*place)(struct ledger *, const struct place_ask *, struct waiter *);                  /* → struct place_answer      */
    void (*release)(struct ledger *, const struct release_ask *, struct waiter *);              /* → struct place_answer      */
    void (*park)(struct ledger *, const struct park_ask *, struct waiter *);                    /* → NULL                     */
    void (*look)(struct ledger *, const struct ledger_look_ask *, struct waiter *);             /* → struct ledger_look_answer*/
    void (*claim)(struct ledger *, const struct claim_ask *, struct waiter *);                  /* → struct claim_answer      */
    void (*finish)(struct ledger *, const struct finish_ask *, struct waiter *);                /* → NULL                     */
    void (*activity_create)(struct ledger *, const struct activity_create *, struct waiter *);  /* → struct activity          */
    void (*activity_move)(struct ledger *, const struct activity_move_ask *, struct waiter *);  /* → struct activity          */
    void (*activities)(struct ledger *, struct waiter *);                                       /* → struct activities_answer */
    void (*units)(struct ledger *, const struct units_ask *, struct waiter *);                  /* → struct units_answer      */
    void (*audit)(struct ledger *, struct str activity, struct waiter *);                       /* → struct audit_answer      */
};
struct ledger {
    const struct ledger_ops *ops;
};

static inline void ledger_lease(struct ledger *l, const struct lease_ask *a, struct waiter *w) { l->ops->lease(l, a, w); }
static inline void ledger_place(struct ledger *l, const struct place_ask *a, struct waiter *w) { l->ops->place(l, a, w); }
static inline void ledger_release(struct ledger *l, const struct release_ask *a, struct waiter *w) { l->ops->release(l, a, w); }
static inline void ledger_park(struct ledger *l, const struct park_ask *a, struct waiter *w) { l->ops->park(l, a, w); }
static inline void ledger_look(struct ledger *l, const struct ledger_look_ask *a, struct waiter *w) { l->ops->look(l, a, w); }
static inline void ledger_claim(struct ledger *l, const struct claim_ask *a, struct waiter *w) { l->ops->claim(l, a, w); }
static inline void ledger_finish(struct ledger *l, const struct finish_ask *a, struct waiter *w) { l->ops->finish(l, a, w); }
static inline void ledger_activity_create(struct ledger *l, const struct activity_create *a, struct waiter *w) { l->ops->activity_create(l, a, w); }
static inline void ledger_activity_move(struct ledger *l, const struct activity_move_ask *a, struct waiter *w) { l->ops->activity_move(l, a, w); }
static inline void ledger_activities(struct ledger *l, struct waiter *w) { l->ops->activities(l, w); }
static inline void ledger_units(struct ledger *l, const struct units_ask *a, struct waiter *w) { l->ops->units(l, a, w); }
static inline void ledger_audit(struct ledger *l, struct str activity, struct waiter *w) { l->ops->audit(l, activity, w); }

/* SPDX-License-Identifier: Apache-2.0
 * ledger.h: whoever decides. PostgreSQL in life (protocol §3). The inbox row is the verdict: whoever inserts it first has decided.
 *
 * Manners: waiter.h. Every call is one transaction, set-based, with a verdict per item, and may be repeated with the same
 * keys. Reasons that any call may end with, beside its own: TIMED_OUT, LINK_LOST, UNCERTAIN (unknown: the commit was sent, or its
 * acknowledgement was qualified); ENGINE_BUSY (40001, 40P01, 53xxx, 57P0x before the commit: nothing happened, again later), DEPENDENCY_DOWN,
 * OVERLOADED (lane full), LOCK_TIMEOUT (55P03: another transaction holds a row; nothing happened), POISON (22xxx, 23xxx: the batch can never be taken as it is), ENGINE_FAULT. */
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
    const int64_t *caught_up_ms;       /* by the ledger's clock: all that the broker had stored in the queue by then is decided or parked; 0: not known; NULL: of none */
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
    int64_t now_ms;                    /* the ledger's clock, where it holds any; read after the call was asked and before it was answered */
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
    bool hurry;                        /* units that another transaction holds are not waited for */
};
#define LEDGER_BATCH_MAX 256
struct verdict {
    enum reason outcome;               /* ORDERED · RELEASED · MESSAGE_ID_REUSED (to be parked; nothing decided) · of place: LOCK_TIMEOUT (another transaction holds its unit;
                                          nothing is decided of it, and its offset is past: to be brought again) */
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

/* ---- lost: neither store knows the reservation ---------------------------------------------------------------------------- */

/* RELEASED(LOST), where it has been asked for long enough, no message of it may still be unread, and the user has not had LOST_MOST in the activity. The ledger
 * keeps when it was first asked for, by its own clock. The row must name an item and a request: any item of the activity, and the reservation's own id. */
struct release_lost_ask {
    struct str group;                  /* consumer group of create-order messages */
    struct str reservation, activity, sku, user;
    uint8_t epoch;
    int64_t created_ms;
    uint32_t after_ms;                 /* how long after it was first asked for */
};
#define LOST_MOST 8
/* OK (a verdict stands now) · UNCHANGED (not yet, or not ever: above LOST_MOST) · NOT_FOUND (it was of an archived activity, whose number another has now). */

/* ---- backlog: what may still be unread in the broker ----------------------------------------------------------------------- */

struct backlog_ask {
    struct str group;                  /* consumer group of create-order messages */
    struct str activity;               /* or empty */
};
struct backlog_answer {
    int64_t read_ms;                   /* all messages stored so long ago or longer are decided or parked; -1: not known */
    bool unread;                       /* a bucket of the activity has been recovered, and a message stored before that may still be unread */
    uint32_t numbers_free;             /* where no activity was named: how many activities can still be created */
};
#define BACKLOG_SETTLES_MS 60000       /* after the recovery's begin, each queue must have been caught up: a consumer finds a new queue within 35 s */
#define BACKLOG_MOST_MS 259200000      /* 72 hours: so long the broker keeps a message */

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
    const struct payment_record *payments;  /* of the order, oldest first; told to LOOK_ORDER alone */
    size_t payment_count;                   /* at most LOOK_PAYMENTS_MAX are named, those with a refund before the others */
};
#define LOOK_PAYMENTS_MAX 65    /* one more than is shown to anybody, who can say then that there are more */

/* Whether verdicts stand, of many reservations at once. */
struct decided_ask {
    const struct str *reservations;
    size_t count;                           /* 1 … LEDGER_BATCH_MAX */
};
struct decided_answer {
    const bool *decided;                    /* one per reservation, in order */
    size_t count;
};

/* ---- pay: what a payment channel says (interfaces §1) ------------------------------------------------------------------- */

/* A callback whose signature holds. Ids and currency as str_is_id has them, the webhook at most 255 bytes of text, else POISON for the whole batch. */
struct pay_item {
    struct str webhook;                     /* webhook-id: the same with the same body is told the first answer again */
    uint8_t digest[32];                     /* SHA-256 of the body */
    struct str body;                        /* as it came; kept where a person must look */
    struct str reservation;                 /* rsv_X where the check of order id ord_X holds; empty: no order can ever have this id */
    struct payment what;
};
struct pay_ask {
    const struct pay_item *items;
    size_t count;                           /* ≤ LEDGER_PAY_MAX */
};
#define LEDGER_PAY_MAX 64
/* A FAILED has no money: its amount and currency are not judged (0 and empty where the channel names none) and fix nothing. A SUCCESS under a payment_id that is
 * taken by another order, amount or currency is money of its own: recorded once, under a name of its own, and set aside.
 * As if the items came one after another, in their order:
 *   PAYMENT_APPLIED          the order is PAID by this (also SUCCESS after FAILED of the same payment)
 *   PAYMENT_DUPLICATE        this payment and result are known; or FAILED after SUCCESS, which changes nothing
 *   PAYMENT_FAILED_RECORDED  recorded; the order stays as it is
 *   PAYMENT_AFTER_CANCEL     the order is CANCELED and stays so; one refund is in the outbox
 *   PAYMENT_EXTRA            the order was PAID by another payment; one refund is in the outbox
 *   PAYMENT_QUARANTINED      recorded, and a review of kind PAYMENT says `why`: ORDER_UNKNOWN · WRONG_AMOUNT (or currency) · PAYMENT_ID_REUSED (with
 *                            another order, amount or currency) · WEBHOOK_ID_REUSED (with another body). A SUCCESS for a reservation that is RELEASED, or
 *                            becomes so, is refunded once without a person
 *   PAYMENT_UNDECIDED        the reservation has no verdict yet: nothing is recorded, an order can still appear; the channel must come again */
struct pay_verdict {
    enum reason outcome, why;               /* why: with PAYMENT_QUARANTINED; else OK */
    bool fresh;                             /* false: this webhook was known; the first answer again */
    bool refund;                            /* a refund of this payment has been asked for, now or before */
};
struct pay_answer {
    const struct pay_verdict *verdicts;     /* one per item, in order */
    size_t count;
};

/* ---- callback: one that is correctly signed and cannot be understood becomes a review of kind CALLBACK ------------------------------------ */

struct callback_ask {
    struct str webhook, channel;            /* webhook-id; the channel, or empty where it could not be read. The same with the same body: one review */
    uint8_t digest[32];                     /* SHA-256 of the body */
    struct str body;                        /* as it came, any bytes */
};
/* OK: it is recorded, now or before. */

/* ---- cancel (mission §9.5): CREATED → CANCELING → CANCELED, the unit's next generation, its return queued: all in one call -------------- */

struct cancel_item {
    struct str order;
    struct str user;                        /* whose it must be; empty: anybody's (an operator, the sweep) */
};
struct cancel_ask {
    const struct cancel_item *items;
    size_t count;                           /* ≤ LEDGER_BATCH_MAX */
    bool due;                               /* only those whose pay_deadline has passed by the ledger's clock, and none that another call holds just now */
    enum reason why;                        /* CANCELED (its user's wish) · PAY_TIMEOUT; goes into the journal */
};
/* CANCELED · ORDER_PAID · NOT_FOUND (or another's) · with `due`: UNCHANGED (its time has not come) · ENGINE_BUSY (held by another call: later). */
struct cancel_verdict {
    enum reason outcome;
    bool fresh;                             /* cancelled by this call; false: it stood so already */
};
struct cancel_answer {
    const struct cancel_verdict *verdicts;  /* one per item, in order */
    size_t count;
    int64_t now_ms;                         /* the ledger's clock */
};

/* ---- due: unpaid orders past their deadline, for the sweep: it may ask the channel first, then cancels with `due` ---------------------------- */

struct overdue_ask {
    size_t limit;                           /* ≤ LEDGER_BATCH_MAX */
    uint32_t grace_ms;                      /* past the deadline by at least so much */
    int64_t after_place;                    /* only those behind this place of an earlier answer, and behind its order where they share it; … */
    struct str after_order;                 /* … 0 and empty: from the oldest */
};
struct overdue {
    struct str order, user, activity;
    int64_t amount, pay_deadline_ms;
    struct str currency;
    int64_t place;                          /* in the order of deadlines, for after_place */
};
struct overdue_answer {
    const struct overdue *orders;           /* oldest deadline first */
    size_t count;
    int64_t now_ms;                         /* the ledger's clock: a jump against monotonic time must stop the sweep */
};

/* ---- reviews: what waits for a person ---------------------------------------------------------------------------------------- */

struct review {
    struct str id;
    enum review_kind kind;
    enum reason why;
    enum review_decision decision;
    struct str group, key;                  /* consumer group and key of a message */
    struct create_order what;               /* as far as it could be read */
    struct payment payment;                 /* of a PAYMENT one */
    struct str actor, note;                 /* who decided, and the reason given */
    int64_t opened_ms, resolved_ms;
    struct str body;                        /* as it came; only where one was asked for by its id */
};
struct reviews_ask {
    struct str id;                          /* exactly this one; empty: a list */
    bool all;                               /* the resolved too */
    int64_t before_ms;                      /* only those opened before; 0: from the newest */
    size_t limit;                           /* ≤ LEDGER_BATCH_MAX */
};
/* OK, perhaps with none · NOT_FOUND (an id that is not there). */
struct reviews_answer {
    const struct review *reviews;           /* newest first */
    size_t count;
    uint64_t open;                          /* how many are open in all, up to 10,000 */
};
/* RELEASE: no order will come (RESERVATION, or a MESSAGE with `what`) · as REFUND (PAYMENT).
 * RETRY: the message is placed again, without its queue; `what` is what the caller can read in a MESSAGE now · the payment is judged again; a refund that the
 *        channel refused is asked for again.
 * APPLY: the money pays its order, which must be CREATED at this amount (PAYMENT).
 * REFUND: the money goes back, once (PAYMENT); a refund that the channel refused is asked for again.
 * DISMISS: closed, nothing else happens; a RESERVATION only once it has a verdict; a PAYMENT only where no money waits; a refund that the channel refused is
 *          DONE: an operator has seen to it. A CALLBACK has no other decision. */
struct resolve_ask {
    struct str id;
    enum review_decision decision;
    const struct create_order *what;        /* of a MESSAGE; NULL elsewhere */
    struct str actor, note;
};
/* OK (also the same decision again) · NOT_FOUND · CONFLICT (resolved otherwise; or this decision cannot end it, and it stays open) · POISON (RETRY: it still
 * cannot be taken). */
struct resolve_answer {
    enum reason outcome;                    /* ORDERED, RELEASED, PAYMENT_*, or OK where nothing but the closing happened */
    enum reason why;
};

/* ---- story: what happened to a unit, a reservation, an order, a payment or a user, in time order (seckill explain) ------------------------ */

enum story_by { STORY_UNIT, STORY_RESERVATION, STORY_ORDER, STORY_PAYMENT, STORY_USER };
struct story_ask {
    enum story_by by;
    struct str id;                          /* all but STORY_UNIT */
    int64_t unit;
    struct str activity;                    /* STORY_USER: which; empty: any */
    size_t limit;                           /* ≤ LEDGER_BATCH_MAX; the newest are told */
};
enum story_kind {
    STORY_DECIDED,       /* a verdict: ORDERED, or RELEASED and why */
    STORY_CREATED, STORY_PAID, STORY_CANCELED,                         /* the order */
    STORY_CONSUMED, STORY_RETURNED, STORY_FREED, STORY_RAISED,         /* the unit's journal: taken by an order, back unsold, back from an order, jumped */
    STORY_RESTOCKED,     /* the return reached Redis */
    STORY_PAYMENT_HEARD, /* a payment's callback and what it came to */
    STORY_REFUND,        /* a refund was asked for; why: what the payment was */
    STORY_REVIEW, STORY_RESOLVED,                                      /* a person was called; a person decided */
    STORY_KINDS
};
struct story_event {
    int64_t at_ms;
    enum story_kind kind;
    struct str reservation, order, user, payment, review;    /* those it concerns */
    struct token token;                     /* unit 0: none */
    enum reason outcome, why;               /* DECIDED, PAYMENT_HEARD, RESOLVED: what it came to; why */
    enum payment_result result;             /* PAYMENT_HEARD */
    enum refund_status refund;              /* REFUND */
    int64_t amount;                         /* of order and payment */
    struct str currency, detail;            /* detail: actor and reason of a RESOLVED one, channel of a payment */
};
struct story_answer {
    const struct story_event *events;       /* oldest first */
    size_t count;
};

/* ---- outbox (protocol §4) ------------------------------------------------------------------------------------------------ */

/* A REFUND is the event REFUND_REQUESTED, one per payment; its finish marks the payment's refund DONE. */
enum outbox_kind { OUTBOX_STATUS, OUTBOX_RETURN, OUTBOX_EVENT, OUTBOX_DEAD_LETTER, OUTBOX_REFUND };
#define OUTBOX_KINDS 5
struct outbox_row {
    int64_t row;                            /* with version: what finish names. Several may bear one: then they stand side by side, and it is named
                                               once all of them are delivered */
    int32_t version;
    int64_t age_ms;                         /* since it was committed */
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
    /* EVENT, DEAD_LETTER, REFUND */
    struct str topic_key, body;
    struct payment refund;                  /* REFUND: what is to go back */
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

/* Refunds that the channel has answered without giving the money back: `why` is REFUND_PENDING (asked again after 10 s, then after twice the time, up to an hour),
 * ENGINE_REFUSED or ENGINE_FAULT (the same, eight times, then a review calls an operator) or REFUND_FAILED (the review at once). Until a decision ends the review, the row
 * is not claimed. A row renewed meanwhile stays as it is. → NULL */
struct defer_item {
    int64_t row;
    int32_t version;
    enum reason why;
};
struct defer_ask {
    const struct defer_item *items;
    size_t count;                           /* ≤ LEDGER_BATCH_MAX */
};
#define REFUND_REFUSALS_MAX 8
#define REFUND_REST_FIRST_MS 10000
#define REFUND_REST_MOST_MS 3600000

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
/* Which activities are read: the union of what the members name. The arrays are copied before the call returns. */
struct activities_ask {
    bool live;                              /* every activity that is not retired: the working set */
    const struct str *names;                /* these, where they exist; at most ACTIVITIES_NAMED_MAX */
    size_t name_count;
    const uint16_t *numbers;                /* likewise */
    size_t number_count;
    int64_t unit;                           /* the one that this unit belongs to; 0: none */
    uint16_t after, limit;                  /* the first `limit` (at most ACTIVITIES_PAGE_MAX) with a number above `after`; limit 0: none */
};
#define ACTIVITIES_NAMED_MAX 256
#define ACTIVITIES_PAGE_MAX 256
struct activities_answer {
    const struct activity *activities;      /* by number, each once */
    size_t count;
};

/* ---- retire: an activity that is over leaves the working set --------------------------------------------------------------- */

/* Marks a CLOSED activity as retired, where none of its orders waits for payment and either `counted` (the caller has counted every unit in both stores, and found
 * none reserved, on its way or unexplained) or it was closed so long ago that no message of it can live. An activity that ended a day ago and was not closed is closed. */
struct retire_ask {
    struct str activity;
    bool counted;
    struct str actor;
};
/* OK (retired or closed now, or retired before) · UNCHANGED (not yet) · UNKNOWN_ACTIVITY. */

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

/* ---- heal: a bucket of the store may have forgotten (protocol §2) --------------------------------------------------------- */

/* Each call queues a slice of what the bucket must hold: the status of every verdict on a reservation made there, then the return of every unit
 * AVAILABLE there, at its present generation. Rows that stand are renewed. The ledger keeps how far it is, under the mark that the bucket is closed
 * with: any number may ask, and share the work; another mark begins anew. What somebody claimed more than 1.5 s ago is free to be claimed again. Once all that was queued has been delivered, the incarnation is recorded. */
struct heal_ask {
    struct bucket bucket;
    struct str mark, incarnation;
    size_t limit;                           /* verdicts or units looked at by this call; ≤ HEAL_MAX */
};
#define HEAL_MAX 1000
/* OK · UNKNOWN_ACTIVITY · STALE_EPOCH (the activity lives in another) */
struct heal_answer {
    uint64_t told;                          /* rows queued under this mark so far */
    uint64_t waiting;                       /* of what was queued so for the activity, how much is not yet delivered; of 1000 rows at most */
    bool more;                              /* there is more to queue: ask again at once. False while much is undelivered: ask again after a rest */
    bool healed;                            /* all is delivered and the incarnation recorded: it may be opened */
};
/* The first incarnation of a bucket, whose every unit was just handed over and counted. Only while the activity is WARM: nothing has been said yet. */
struct record_ask {
    struct bucket bucket;
    struct str incarnation;
};
/* OK · CONFLICT (not WARM) · UNKNOWN_ACTIVITY · STALE_EPOCH */

/* ---- audit: the rules of mission §17.7 and H1–H14 that the ledger can judge alone ---------------------------------------- */

/* Of one activity, reading the rows of that activity only. LEDGER_AUDIT_REST: what belongs to no activity, reading everything, with the totals of everything.
 * Empty: every activity and the rest in one statement, for small ledgers. */
#define LEDGER_AUDIT_REST "*"

struct finding {
    struct str rule;                        /* "H1", "§17.7 one order per user", ... */
    struct str subject;                     /* the row: a unit, an order, a reservation */
    struct str detail;
};
struct audit_answer {
    const struct finding *findings;         /* none: all hold */
    size_t count;                           /* at most 1000 are named */
    uint64_t stock, available, consumed, orders, holding, released;    /* of the activity, or of all */
    uint64_t outbox;                        /* rows not yet delivered: of the activity, among the 1000 oldest; or of all */
    int64_t first_order_ms, last_order_ms;
};

/* ---- repair: units that a count could not attribute (protocol §7) --------------------------------------------------------- */

/* By cause, never by copying one store over the other. A unit that nobody claims: where it is still AVAILABLE at the generation that was looked at, the
 * generation is raised and its return queued, so that a message which names the old one does nothing. A copy that should not be: what stands is told
 * again, the return of an AVAILABLE unit at its present generation, or the status of the reservation that holds it, and the store removes the copy. */
struct repair_item {
    struct token token;                     /* as it was looked at */
    bool missing;                           /* nobody claims it; false: a copy of it should not be */
};
struct repair_ask {
    struct str activity;
    const struct repair_item *items;
    size_t count;                           /* ≤ LEDGER_BATCH_MAX */
};
struct repair_answer {
    const enum reason *verdicts;            /* per item: OK (raised, or told again) · UNCHANGED (it has moved on, is being returned, or is no unit of this activity) */
    size_t count;
};

/* Whether a batch that ended so may be taken in parts: it holds something that can never be taken, or that another transaction holds. */
static inline bool ledger_splits(enum reason reason) { return reason == REASON_POISON || reason == REASON_LOCK_TIMEOUT; }

/* ---- prove: does the ledger commit a write? (readiness) ------------------------------------------------------------------- */

/* OK: a small write is committed as durably as an order would be. `slot`, below LEDGER_PROVE_SLOTS: which of a few rows is written, so that processes do not
 * wait for each other; the budget should be long, for a commit that waits for a standby cannot be taken back. */
#define LEDGER_PROVE_SLOTS 64

struct ledger;
struct ledger_ops {
    const char *name;
    void (*lease)(struct ledger *, const struct lease_ask *, struct waiter *);                  /* → struct lease_answer      */
    void (*place)(struct ledger *, const struct place_ask *, struct waiter *);                  /* → struct place_answer      */
    void (*release)(struct ledger *, const struct release_ask *, struct waiter *);              /* → struct place_answer      */
    void (*park)(struct ledger *, const struct park_ask *, struct waiter *);                    /* → NULL                     */
    void (*look)(struct ledger *, const struct ledger_look_ask *, struct waiter *);             /* → struct ledger_look_answer*/
    void (*release_lost)(struct ledger *, const struct release_lost_ask *, struct waiter *);    /* → NULL                     */
    void (*decided)(struct ledger *, const struct decided_ask *, struct waiter *);              /* → struct decided_answer    */
    void (*backlog)(struct ledger *, const struct backlog_ask *, struct waiter *);              /* → struct backlog_answer    */
    void (*claim)(struct ledger *, const struct claim_ask *, struct waiter *);                  /* → struct claim_answer      */
    void (*finish)(struct ledger *, const struct finish_ask *, struct waiter *);                /* → NULL                     */
    void (*activity_create)(struct ledger *, const struct activity_create *, struct waiter *);  /* → struct activity          */
    void (*activity_move)(struct ledger *, const struct activity_move_ask *, struct waiter *);  /* → struct activity          */
    void (*activities)(struct ledger *, const struct activities_ask *, struct waiter *);        /* → struct activities_answer */
    void (*retire)(struct ledger *, const struct retire_ask *, struct waiter *);                /* → NULL                     */
    void (*units)(struct ledger *, const struct units_ask *, struct waiter *);                  /* → struct units_answer      */
    void (*audit)(struct ledger *, struct str activity, struct waiter *);                       /* → struct audit_answer      */
    void (*heal)(struct ledger *, const struct heal_ask *, struct waiter *);                    /* → struct heal_answer       */
    void (*record)(struct ledger *, const struct record_ask *, struct waiter *);                /* → NULL                     */
    void (*pay)(struct ledger *, const struct pay_ask *, struct waiter *);                      /* → struct pay_answer        */
    void (*callback)(struct ledger *, const struct callback_ask *, struct waiter *);            /* → NULL                     */
    void (*defer)(struct ledger *, const struct defer_ask *, struct waiter *);                  /* → NULL                     */
    void (*cancel)(struct ledger *, const struct cancel_ask *, struct waiter *);                /* → struct cancel_answer     */
    void (*overdue)(struct ledger *, const struct overdue_ask *, struct waiter *);              /* → struct overdue_answer    */
    void (*reviews)(struct ledger *, const struct reviews_ask *, struct waiter *);              /* → struct reviews_answer    */
    void (*resolve)(struct ledger *, const struct resolve_ask *, struct waiter *);              /* → struct resolve_answer    */
    void (*story)(struct ledger *, const struct story_ask *, struct waiter *);                  /* → struct story_answer      */
    void (*repair)(struct ledger *, const struct repair_ask *, struct waiter *);                /* → struct repair_answer      */
    void (*prove)(struct ledger *, unsigned slot, struct waiter *);                             /* → NULL                     */
    struct str (*refusal)(struct ledger *);                                                     /* at once; NULL: it has no words of its own */
};
/* `deployment`: the identity of the deployment that the ledger belongs to (docs/protocol.md §15), as text with a zero; empty: not known yet. The engine writes it
 * once; it never changes after. */
#define DEPLOYMENT_TEXT 32
struct ledger {
    const struct ledger_ops *ops;
    char deployment[DEPLOYMENT_TEXT + 1];
};

static inline void ledger_lease(struct ledger *l, const struct lease_ask *a, struct waiter *w) { l->ops->lease(l, a, w); }
static inline void ledger_place(struct ledger *l, const struct place_ask *a, struct waiter *w) { l->ops->place(l, a, w); }
static inline void ledger_release(struct ledger *l, const struct release_ask *a, struct waiter *w) { l->ops->release(l, a, w); }
static inline void ledger_park(struct ledger *l, const struct park_ask *a, struct waiter *w) { l->ops->park(l, a, w); }
static inline void ledger_look(struct ledger *l, const struct ledger_look_ask *a, struct waiter *w) { l->ops->look(l, a, w); }
static inline void ledger_release_lost(struct ledger *l, const struct release_lost_ask *a, struct waiter *w) { l->ops->release_lost(l, a, w); }
static inline void ledger_decided(struct ledger *l, const struct decided_ask *a, struct waiter *w) { l->ops->decided(l, a, w); }
static inline void ledger_backlog(struct ledger *l, const struct backlog_ask *a, struct waiter *w) { l->ops->backlog(l, a, w); }
static inline void ledger_claim(struct ledger *l, const struct claim_ask *a, struct waiter *w) { l->ops->claim(l, a, w); }
static inline void ledger_finish(struct ledger *l, const struct finish_ask *a, struct waiter *w) { l->ops->finish(l, a, w); }
static inline void ledger_activity_create(struct ledger *l, const struct activity_create *a, struct waiter *w) { l->ops->activity_create(l, a, w); }
static inline void ledger_activity_move(struct ledger *l, const struct activity_move_ask *a, struct waiter *w) { l->ops->activity_move(l, a, w); }
static inline void ledger_activities(struct ledger *l, const struct activities_ask *a, struct waiter *w) { l->ops->activities(l, a, w); }
/* One activity by its name: an answer of one or none. */
static inline void ledger_activity(struct ledger *l, struct str name, struct waiter *w)
{
    l->ops->activities(l, &(struct activities_ask){.names = &name, .name_count = 1}, w);
}
static inline void ledger_retire(struct ledger *l, const struct retire_ask *a, struct waiter *w) { l->ops->retire(l, a, w); }
static inline void ledger_units(struct ledger *l, const struct units_ask *a, struct waiter *w) { l->ops->units(l, a, w); }
static inline void ledger_audit(struct ledger *l, struct str activity, struct waiter *w) { l->ops->audit(l, activity, w); }
static inline void ledger_heal(struct ledger *l, const struct heal_ask *a, struct waiter *w) { l->ops->heal(l, a, w); }
static inline void ledger_record(struct ledger *l, const struct record_ask *a, struct waiter *w) { l->ops->record(l, a, w); }
static inline void ledger_pay(struct ledger *l, const struct pay_ask *a, struct waiter *w) { l->ops->pay(l, a, w); }
static inline void ledger_callback(struct ledger *l, const struct callback_ask *a, struct waiter *w) { l->ops->callback(l, a, w); }
static inline void ledger_defer(struct ledger *l, const struct defer_ask *a, struct waiter *w) { l->ops->defer(l, a, w); }
static inline void ledger_cancel(struct ledger *l, const struct cancel_ask *a, struct waiter *w) { l->ops->cancel(l, a, w); }
static inline void ledger_overdue(struct ledger *l, const struct overdue_ask *a, struct waiter *w) { l->ops->overdue(l, a, w); }
static inline void ledger_reviews(struct ledger *l, const struct reviews_ask *a, struct waiter *w) { l->ops->reviews(l, a, w); }
static inline void ledger_resolve(struct ledger *l, const struct resolve_ask *a, struct waiter *w) { l->ops->resolve(l, a, w); }
static inline void ledger_story(struct ledger *l, const struct story_ask *a, struct waiter *w) { l->ops->story(l, a, w); }
static inline void ledger_prove(struct ledger *l, unsigned slot, struct waiter *w) { l->ops->prove(l, slot, w); }
/* What the server said when it last refused such a write, or the connection for it; empty: nothing yet. Valid until the caller returns to the loop. */
static inline struct str ledger_refusal(struct ledger *l) { return l->ops->refusal ? l->ops->refusal(l) : (struct str){0}; }
static inline void ledger_repair(struct ledger *l, const struct repair_ask *a, struct waiter *w) { l->ops->repair(l, a, w); }

/* SPDX-License-Identifier: Apache-2.0
 * fake.h: ports that do nothing but answer as they are told. Every call is answered one millisecond later, by default well; one call of
 * one kind can be told to end otherwise. What was asked is counted, and the last of it kept. */
#pragma once
#include "bus.h"
#include "channel.h"
#include "ident.h"
#include "ledger.h"
#include "sim_clock.h"
#include "sim_random.h"
#include "store.h"

enum fake_op {
    FAKE_RESERVE, FAKE_SETTLE, FAKE_RESTOCK, FAKE_LOOK, FAKE_DUE, FAKE_STOCK, FAKE_INSTALL, FAKE_HOLDINGS, FAKE_CLOSE, FAKE_OPEN, FAKE_REINDEX,
    FAKE_SEND, FAKE_QUEUES, FAKE_RANGE, FAKE_PULL, FAKE_MIRROR,
    FAKE_LEASE, FAKE_PLACE, FAKE_RELEASE, FAKE_RELEASE_LOST, FAKE_BACKLOG, FAKE_DECIDED, FAKE_PARK, FAKE_LEDGER_LOOK, FAKE_CLAIM, FAKE_FINISH, FAKE_MOVE, FAKE_ACTIVITIES, FAKE_UNITS, FAKE_HEAL, FAKE_RECORD, FAKE_AUDIT, FAKE_REPAIR, FAKE_RETIRE,
    FAKE_PAY, FAKE_CANCEL, FAKE_OVERDUE, FAKE_ASK, FAKE_REFUND, FAKE_CALLBACK, FAKE_DEFER,
    FAKE_OPS
};

struct fake {
    struct store store;
    struct bus bus;
    struct ledger ledger;
    struct channel channel;
    struct sim_clock clock;
    struct sim_random random;
    struct ident_keys keys;

    size_t calls[FAKE_OPS];
    enum fake_op inject_op;        /* the call number inject_at (from 1) … inject_until of this kind ends with … */
    size_t inject_at, inject_until;
    enum reason inject;            /* … this; OK: nothing is injected */
    bool silent;                   /* such a call is never answered by the engine: its deadline passes (TIMED_OUT) */

    /* what is answered when all is well; each test sets what it needs */
    struct activity activity;
    const struct activity *activities;    /* what the ledger lists; that one */
    size_t activity_count;
    struct activity listed[8];            /* of them what was asked for */
    bool activity_visited;                /* the last question for activities named one, or a number */
    bool retire_counted;                  /* of the last retire */
    struct str incarnations[2];    /* as recorded: the store's own … */
    const char *incarnation;       /* … and who it is */
    char mark[80];                 /* it is closed under this; empty: it is open */
    const char *lost;              /* the key that it was closed for and that must be indexed again; NULL: none */
    struct close_ask last_close;
    uint64_t sequence;             /* of every answer, from 1 on; counts by itself */
    unsigned heals;                /* how many calls a healing takes: told, then waited for */
    struct str last_heal, last_open;    /* the activity of the last one; texts of who asked */
    struct sku skus[2];
    enum reason reserve;           /* QUEUED with `entry` … */
    struct entry entry;
    bool replayed;
    struct stock_answer stock;
    struct stock_sku stocks[2];
    enum reason release_lost;      /* OK: what release_lost was asked for is RELEASED(LOST) now; UNCHANGED */
    struct backlog_answer backlog;
    bool decided[LEDGER_BATCH_MAX];    /* by place in the ask; reservations: how many were asked of, in all */
    size_t reservations;
    int64_t caught_up_ms;          /* as the last lease told of queue 0 */
    enum reason ledger_look;       /* OK with `looked`, or NOT_FOUND */
    struct ledger_look_answer looked;
    enum reason send_verdict;
    struct pulled messages[256];   /* of queue 0, from offset `first` */
    size_t message_count;
    int64_t first, queue_next;     /* queue_next: the ledger's offset, moved by place and park */
    char identity[64];
    size_t identity_len;
    uint64_t link;
    enum reason (*judge)(const struct place_ask *);    /* NULL: all ORDERED; POISON or OK */
    struct finding finding;        /* of audit; no rule: none */
    struct repair_item last_repair;
    enum reason outcome;           /* of place's verdicts */
    enum reason (*judge_item)(const struct create_order *);    /* NULL: `outcome` */
    size_t placed, parked, settled[RESERVATION_STATE_COUNT], restocked;    /* items, not calls */
    enum reason parked_why[64];
    struct outbox_row rows[16];
    bool row_done[16];
    size_t row_count;
    struct due_entry dues[32];
    size_t due_count;
    struct ledger_unit units[64];
    size_t unit_count;
    struct held held[64];
    size_t held_count;
    bool seeded, installed, created;
    enum reason (*judge_pay)(const struct pay_item *);    /* NULL: PAYMENT_APPLIED; POISON for one of them: for all */
    enum reason canceled;          /* of cancel's verdicts; CANCELED */
    enum reason (*judge_cancel)(const struct cancel_item *);    /* NULL: `canceled`; POISON or LOCK_TIMEOUT for one of them: for all. With it only what is cancelled is no more overdue */
    size_t payments, cancels;      /* how many items were taken */
    char last_paid[64], last_canceled[64];    /* payment_id and order_id of the last one */
    bool due_only;                 /* the last cancel was of those that are due */
    struct overdue overdues[8], overdue_page[8];    /* those with a place are told behind the place that is asked for */
    size_t overdue_count;
    int64_t ahead_ms;              /* how far the ledger's clock is ahead of ours */
    uint32_t overdue_way_ms;       /* how long what is overdue is on its way back; 0: as everything */
    struct payment known[4];       /* what the channel knows */
    size_t known_count, refunds, unreadable;    /* unreadable: of its answers */
    size_t callbacks, deferred;    /* unreadable callbacks recorded; refunds deferred */
    enum reason last_deferred;
    char last_refund[64];
    struct settle_ask last_settle;
    struct reserve_ask last_reserve;
    struct ident last_ident;
    size_t last_sent, sent;
    char tags[16][32];             /* of the first messages of the last send … */
    uint64_t spreads[16];          /* … and the queue that each asked for */
    uint32_t last_hold_ms;         /* of a claim */
    size_t claimed_most, body_bytes_most;    /* rows of one claim; bytes of bodies of one send */
    char user[64];
    size_t flying;                 /* calls not yet answered */
};

void fake_init(struct fake *);     /* one open activity "act" with SKU "sku", one queue, nothing in it */
void fake_end(struct fake *);
void fake_pass(struct fake *, uint32_t ms);
/* An undecided entry made so long ago, under the fake's keys, for this user. */
struct entry fake_entry(struct fake *, struct str user, enum reservation_state, int64_t age_ms);

/* SPDX-License-Identifier: Apache-2.0
 * catalog.h: the activities as this process knows them: read from the ledger about once a second, and when somebody finds that he
 * knows too little. A failed read leaves what was known before. Two memories take turns, so nothing is ever half new. */
#pragma once
#include "arena.h"
#include "clock.h"
#include "ledger.h"
#include "list.h"

struct catalog_options {
    uint32_t refresh_ms;     /* between two reads; 1000 */
    uint32_t read_ms;        /* budget of one; 2000 */
    size_t memory;           /* bytes of each of the two copies; 4 MiB */
};
struct catalog_options catalog_options_default(void);

/* Woken when a read that was begun after the asking has ended: with OK or why not. Lives in its owner, who calls catalog_let_go before dying. */
struct catalog_wait {
    struct link link;
    uint64_t turn;
    void (*done)(struct catalog_wait *, enum reason);
};

struct catalog_page {
    struct arena memory;
    const struct activity *activities;
    size_t count;
    uint16_t by_number[4096];    /* index + 1 */
    uint16_t *by_name;           /* open addressing; index + 1 */
    size_t slots;
};
struct catalog {
    struct ledger *ledger;
    struct clock *clock;
    struct catalog_options options;
    struct catalog_page pages[2];
    int shown;                   /* which page; -1: never learnt anything */
    uint64_t begun, ended;       /* reads */
    uint64_t learnt_us;          /* when the last good read ended, monotonic */
    bool running;
    struct waiter reader;
    struct alarm alarm;
    struct link waits;
};

/* false: no memory. Allocates here and never again. */
bool catalog_init(struct catalog *, struct ledger *, struct clock *, struct catalog_options);
void catalog_start(struct catalog *);    /* reads at once, then steadily */
void catalog_stop(struct catalog *);     /* whoever waits hears CANCELLED */
void catalog_free(struct catalog *);

static inline bool catalog_learnt(const struct catalog *c) { return c->shown >= 0; }
/* The activity, or NULL. Valid until the caller returns to the loop: whoever waits looks again afterwards. */
const struct activity *catalog_find(const struct catalog *, struct str activity);
const struct activity *catalog_by_number(const struct catalog *, uint16_t number);
/* All of them; same validity. */
static inline size_t catalog_count(const struct catalog *c) { return c->shown < 0 ? 0 : c->pages[c->shown].count; }
static inline const struct activity *catalog_at(const struct catalog *c, size_t i) { return &c->pages[c->shown].activities[i]; }
/* Index of the SKU in the activity, or -1. */
int activity_sku(const struct activity *, struct str sku);

/* Whether a read might tell more of this activity (NULL: we do not know it): it is unknown or a draft, and the last read was over 200 ms ago;
 * strangers who ask for what is not there make us read no oftener than that. */
bool catalog_may_lag(const struct catalog *, const struct activity *);
/* Read now (or after the read in flight). */
void catalog_refresh(struct catalog *, struct catalog_wait *);
void catalog_let_go(struct catalog_wait *);    /* harmless when not waiting */

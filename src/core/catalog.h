/* SPDX-License-Identifier: Apache-2.0
 * catalog.h: the activities as this process knows them: the working set (every activity that is not retired) and those outside of it that were asked for
 * lately. Read from the ledger about once a second, and whenever a caller knows too little. A failed read leaves what was known before. Two memories take
 * turns, so a reader never sees half of a new list.
 *
 * What is not in the list is denied only after a read that began after the question: an activity that was opened a moment ago is in the working set of that
 * read, and one that was retired long ago is looked up by its name or number. Such reads are shared by all who wait, and begin at most every gap_ms. */
#pragma once
#include "arena.h"
#include "clock.h"
#include "ledger.h"
#include "list.h"

struct catalog_options {
    uint32_t refresh_ms;     /* between two reads; 1000 */
    uint32_t read_ms;        /* budget of one; 2000 */
    uint32_t gap_ms;         /* between the beginnings of two reads, however many ask; 50 */
    size_t memory;           /* bytes of each of the two copies; 4 MiB */
};
struct catalog_options catalog_options_default(void);

/* Woken when a read that was begun after the asking has ended: with OK or why not. Lives in its owner, who calls catalog_let_go before dying. */
struct catalog_wait {
    struct link link;
    uint64_t turn;
    void (*done)(struct catalog_wait *, enum reason);
};

/* An activity that was asked for and is not in the working set: read with it for a minute. */
struct catalog_visitor {
    char name[64];               /* of name_len bytes; 0: known by its number */
    uint8_t name_len;
    uint16_t number;
    uint64_t wanted_us;          /* when it was asked for last, monotonic; 0: free */
    uint64_t turn;               /* the first read that includes it */
};
#define CATALOG_VISITORS ACTIVITIES_NAMED_MAX

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
    uint64_t begun_us;           /* when the last one began, monotonic */
    struct catalog_visitor *visitors;
    size_t visitor_count;        /* that were ever used */
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

/* Whether a read might tell more of this activity (NULL: it is not in the list): it is unknown or a draft. A caller that has waited for one successful read
 * need not ask again. */
bool catalog_may_lag(const struct catalog *, const struct activity *);
/* Waits for a read that begins after this call. `name`, or where it is empty `number`, is looked up in it if it is not in the working set; both empty: no
 * look-up. False: too many others are being looked up (CATALOG_VISITORS), and nothing is waited for. */
bool catalog_look_up(struct catalog *, struct str name, uint16_t number, struct catalog_wait *);
static inline void catalog_refresh(struct catalog *c, struct catalog_wait *w) { (void)catalog_look_up(c, (struct str){0}, 0, w); }
void catalog_let_go(struct catalog_wait *);    /* harmless when not waiting */

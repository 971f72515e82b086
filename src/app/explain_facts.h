/* SPDX-License-Identifier: Apache-2.0
 * explain_facts.h: what an id says by itself, and what each answer of a store says of it, as facts; what is learnt on the way is what the next question needs. */
#pragma once
#include "explain.h"

#define EXPLAIN_STORY_MOST 192       /* events of a story; the newest */
#define EXPLAIN_ENTRIES_MAX 16       /* reservations of one user that are followed */

enum explain_step { EXPLAIN_ACTIVITIES, EXPLAIN_UNIT, EXPLAIN_LEDGER, EXPLAIN_STORY, EXPLAIN_PAYMENT, EXPLAIN_LOOK, EXPLAIN_ENTRIES, EXPLAIN_HOLDINGS, EXPLAIN_END };

struct explain_work {
    struct explain *explain;
    struct waiter waiter;
    struct arena memory;
    struct explain_fact facts[EXPLAIN_FACTS_MAX];
    struct str entries[EXPLAIN_ENTRIES_MAX];    /* reservations of a user, still to be asked of the ledger */
    size_t entry_count, entry_at;
    enum explain_step step;
    /* what is known so far */
    struct str activity, user, reservation, order, request, sku;
    struct token token;                 /* unit 0: none */
    uint16_t number;                    /* of the activity, from an ident; 0: not known */
    uint8_t epoch, buckets, home;
    bool activity_known, seen_in_store;
    struct str cursor;
    uint32_t slices;
};

/* Texts are copied; what no longer fits is missing, and the explanation not complete. */
void explain_fact(struct explain_work *w, int64_t at_ms, const char *source, const char *what, const char *format, ...) __attribute__((format(printf, 5, 6)));
void explain_unknown(struct explain_work *w, const char *source, const char *what, enum reason why);
/* What kind of id it is. */
void explain_classify(struct explain_work *w);

void explain_got_activities(struct explain_work *w, const struct activities_answer *a);
void explain_got_unit(struct explain_work *w, const struct units_answer *a);
void explain_got_ledger(struct explain_work *w, const struct ledger_look_answer *a);
void explain_got_story(struct explain_work *w, const struct story_answer *a);
void explain_got_look(struct explain_work *w, const struct look_answer *a);
void explain_got_holdings(struct explain_work *w, const struct holdings_answer *a);

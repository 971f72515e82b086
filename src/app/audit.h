/* SPDX-License-Identifier: Apache-2.0
 * audit.h: the proof. Judged from the ledger and the store alone, never from what the service counted of itself: the queries of mission §17.7
 * and the rules H1–H14 that the stores can judge, and conservation, each unit by its name (protocol §7). Which rule is judged where: docs/protocol.md §10. */
#pragma once
#include <stdio.h>

#include "arena.h"
#include "conservation.h"
#include "ports.h"

struct audit_finding {
    struct str rule, subject, detail;
};
struct audit_sku {
    struct str activity;
    struct conservation_sku count;
    size_t place;                 /* of its activity among all */
};
#define AUDIT_FINDINGS_MAX 1000
#define AUDIT_SKUS_MAX 4096
#define AUDIT_ACTIVITIES_MAX 4095    /* as many as there can be: a number of 12 bits */
#define AUDIT_COUNTS_MAX 16          /* activities whose units are counted at once: the two seconds between two looks at a broken one are shared */
struct audit {
    /* in */
    struct str activity;          /* empty: all of them */
    uint32_t patience_ms;         /* how long units on their way may need to arrive before they count as lost, in all activities together */

    /* out */
    enum reason reason;           /* OK: it was judged. Else a part did not answer, and nothing is proved either way */
    const char *unanswered;       /* which part */
    uint64_t stock, available, consumed, orders, holding, released, outbox;
    int64_t first_order_ms, last_order_ms;
    uint64_t oversell;            /* orders that hold stock beyond the stock there is */
    uint64_t duplicates;          /* rows by which somebody or something has two */
    uint64_t drift;               /* units that are claimed by nobody or by two */
    uint64_t undecided;           /* reservations without a verdict, and units coming back: on their way, not lost */
    const struct audit_finding *findings;
    size_t finding_count;
    uint64_t unnamed;             /* findings beyond those */
    const struct audit_sku *skus;
    size_t sku_count;
    uint64_t skus_unnamed;        /* judged like the others, only not in the table */

    /* own */
    struct arena memory;
};
/* Asks the ports (store and ledger are needed) and waits on their loop. Free it whatever came. */
void audit_judge(struct audit *a, struct ports *p);
void audit_free(struct audit *a);
/* Judged, and nothing found. */
bool audit_clean(const struct audit *a);
/* What the process leaves: LEAVE_DONE, LEAVE_BROKEN, or LEAVE_UNREACHABLE. */
int audit_leave(const struct audit *a);

void audit_print_table(const struct audit *a, FILE *out);
void audit_write_json(const struct audit *a, struct buf *out);
#define AUDIT_JSON_MAX (8 * 1024 * 1024)

/* SPDX-License-Identifier: Apache-2.0
 * conservation.h: S0 = A + R + O + C + E, each unit by its name (protocol §7). The ledger is read first: an effective order → O; a
 * return or status row not yet delivered → C; then the store at the unit's present generation: pending → R; free, resting or
 * moving → A. A unit claimed by nobody or by two is a suspect; it is E when it is so at the same generation in two looks at least
 * two seconds apart, and nothing of it has been under way in the outbox since the first. `drift` is the number of those. */
#pragma once
#include "buf.h"
#include "clock.h"
#include "ledger.h"
#include "store.h"

struct conservation_options {
    uint32_t call_ms;             /* budget of one call; 5000 */
    uint32_t apart_ms;            /* between two looks; 2200 */
    uint32_t looks;               /* most looks, while suspects remain; 4 */
    size_t units;                 /* units counted at once, a mark of 20 bytes each; 1048576. An activity with more is counted in several windows */
    size_t findings;              /* most findings named; 1000 */
};
struct conservation_options conservation_options_default(void);

struct conservation_sku {
    struct str sku;
    int64_t s0, a, r, o, c, e, drift;
};
void conservation_sku_write(struct buf *out, const struct conservation_sku *s);    /* its members, in a JSON object that is open */
enum conservation_owner { OWNER_NONE, OWNER_AVAILABLE, OWNER_RESERVED, OWNER_ORDER, OWNER_COMING, OWNER_TWO, OWNER_STALE };
const char *conservation_owner_name(enum conservation_owner);
struct conservation_unit {          /* every unit that is not A or O, or is a suspect */
    struct token token;             /* at the ledger's generation */
    struct str sku;
    enum conservation_owner owner;
    bool finding;                   /* it is E */
    const char *detail;             /* what is wrong with it, a static text; NULL: nothing */
    uint8_t bucket;
};

/* One count. Lives in its caller; zeroed, then filled. */
struct conservation {
    /* in */
    struct str activity;
    void (*done)(struct conservation *);

    /* out; texts and arrays are valid until conservation_close */
    enum reason reason;             /* OK · UNKNOWN_ACTIVITY · DEPENDENCY_DOWN · OVERLOADED (no memory for it) · what a part answered */
    uint8_t epoch;
    const struct conservation_sku *skus;
    size_t sku_count;
    const struct conservation_unit *units;    /* bounded by options.findings */
    size_t unit_count;
    int64_t counted_ms, attributed_ms;
    uint32_t looks;                 /* how many were needed */

    /* own */
    struct conservation_work *work;
};
/* Takes memory for the count (the one place of core that does so after start: a count is an operator's act, not the road's), given back by
 * conservation_close. false: none, or bad options. It looks again while suspects remain. */
bool conservation_start(struct conservation *, struct store *, struct ledger *, struct clock *, const struct conservation_options *) must_check;
void conservation_close(struct conservation *);    /* at any time; done will not be called afterwards */

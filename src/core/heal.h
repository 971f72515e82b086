/* SPDX-License-Identifier: Apache-2.0
 * heal.h: a closed bucket is told again all that it may have forgotten, and opened (protocol §2). A job asks the ledger for slice after slice, then until
 * all that was queued has been delivered; the ledger records the incarnation; then the bucket is opened, under the mark that was healed and no other.
 * How far it is stands in the ledger: a job that dies is taken up by any other, and several at one bucket share its work. Open sales come first, the small
 * before the large, whatever the order in which they were found; a CLOSED one is recovered while no other is. */
#pragma once
#include "clock.h"
#include "ledger.h"
#include "list.h"
#include "store.h"

struct healer_options {
    size_t jobs;             /* buckets in recovery at once; 64. The rest is found again by the next round */
    size_t calls;            /* of these so many ask at once; 2 */
    size_t slice;            /* verdicts or units of one call; 500 */
    uint32_t call_ms;        /* budget of one; 3000 */
    uint32_t look_ms, look_most_ms;    /* between two looks whether all is delivered, growing; 10, 200 */
    uint32_t fault_ms;       /* rest after a call that failed; 200 */
    uint32_t attempts;       /* failures in a row, then it is left to the next round; 10 */
};
struct healer_options healer_options_default(void);

struct healer_job;
struct healer {
    struct store *store;
    struct ledger *ledger;
    struct clock *clock;
    struct healer_options options;
    struct healer_job *jobs;
    size_t busy, calling;    /* jobs; of these with a call under way */
    uint64_t turns;
    struct alarm alarm;      /* when the next rest is over */
    bool draining;
    uint64_t healed;         /* buckets opened */
};
/* false: no memory. */
bool healer_init(struct healer *, struct store *, struct ledger *, struct clock *, struct healer_options);
/* This bucket of the activity is closed under this mark. Harmless where it is in work; another mark than the one in work takes its place. */
void healer_want(struct healer *, const struct activity *, const struct bucket *, struct str mark);
void healer_drain(struct healer *);    /* begins nothing more: what is left another will do */
static inline bool healer_idle(const struct healer *h) { return h->busy == 0; }
void healer_free(struct healer *);

/* SPDX-License-Identifier: Apache-2.0
 * janitor.h: one steady tick beside the road, for what time left behind. It announces again what nobody confirmed, asks the ledger for
 * verdicts that have not come back, pushes an activity's state to buckets that lag, finishes warms that were left, and closes and heals buckets that may
 * have forgotten (protocol §2, §6). Age never proves
 * anything; it only says when to ask. Any number may run: the store hands each due reservation to one of them. */
#pragma once
#include "auditor.h"
#include "catalog.h"
#include "heal.h"
#include "ident.h"
#include "incarnation.h"
#include "publish.h"
#include "reindex.h"
#include "hint.h"
#include "settler.h"
#include "sweep.h"
#include "verdict.h"
#include "warming.h"

struct janitor_options {
    struct catalog_options catalog;
    struct settler_options settler;
    struct publisher_options publisher;
    struct incarnation_options incarnation;
    struct healer_options healer;
    struct warming_options warming;
    struct sweep_options sweep;   /* of unpaid orders */
    struct hint_options hint;
    struct auditor_options auditor;
    uint32_t tick_ms;             /* between two rounds over all buckets; 500. A fifth of it after one in which something did not answer, and before the first */
    uint32_t ask_ms;              /* reservations older than this are asked of the ledger before anything else; 2000 */
    uint32_t overdue_ms;          /* PUBLISHED without a verdict for so long is sent again; 45000 */
    uint32_t call_ms;             /* budget of one call; 1000 */
    size_t jobs;                  /* due reservations handled at once; 256 */
    uint32_t again_permille;      /* republished messages per thousand that this process consumes; 50 */
    size_t again_burst;           /* and this many beyond it … ; 5000 */
    uint32_t again_burst_ms;      /* … every so often; 15000. A RESERVED one, which nobody confirmed, is not counted: it is announced, not repeated */
};
struct janitor_options janitor_options_default(void);

struct janitor;
/* NULL: no memory. */
struct janitor *janitor_new(struct store *, struct bus *, struct ledger *, struct clock *, struct random *, const struct ident_keys *, const struct janitor_options *);
void janitor_start(struct janitor *);
void janitor_drain(struct janitor *);
bool janitor_idle(const struct janitor *);
void janitor_free(struct janitor *);

struct janitor_facts {
    uint64_t looked, asked, settled, republished, held_back;
    uint64_t pending;               /* users with an undecided reservation, all buckets, as last seen */
    uint64_t closed;                /* buckets closed, as last seen */
    uint64_t missing;               /* buckets of open or paused sales that the store does not have, as last seen */
};
struct janitor_facts janitor_facts(const struct janitor *);
struct auditor_facts janitor_audits(const struct janitor *);    /* what its auditor has done and found */

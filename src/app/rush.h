/* SPDX-License-Identifier: Apache-2.0
 * rush.h: what a crowd and the audit after it say together; shared by `rush` and `demo --once`. */
#pragma once
#include "audit.h"
#include "crowd.h"
#include "verb.h"

/* What one rush did: what its users were answered, and the audits around it. Nothing is owned. */
struct rush_outcome {
    const struct crowd_result *crowd;
    const struct audit *audit;    /* after the rush */
    const char *sku;
    uint64_t users;
    uint64_t sold_before;         /* units of the SKU that orders held when the rush began, as an audit counted them */
};

/* Orders of the SKU that were created during the rush and hold a unit: the audits' difference. Where the audit could not be finished: 0. */
uint64_t rush_sold(const struct rush_outcome *o);
/* Units of the SKU that orders hold, as this audit counted them; 0 where it was not finished. */
uint64_t rush_holding(const struct audit *a, const char *sku);
/* Writes {"sold":…,"oversell":…,"duplicates":…,"drift":…,…}: `sold` is rush_sold. */
void rush_write_json(struct buf *out, const struct rush_outcome *o);
/* LEAVE_DONE: every rule holds, and the rush sold what was there to be sold to so many users. LEAVE_BROKEN: one of the two is not so; where no rule is
 * broken, the reason is printed on standard error. LEAVE_UNREACHABLE: nothing is proved. */
int rush_leave(const struct call *c, const struct rush_outcome *o);

/* SPDX-License-Identifier: Apache-2.0
 * rush.h: what a crowd and the audit after it say together; shared by `rush` and `demo --once`. */
#pragma once
#include "audit.h"
#include "crowd.h"
#include "verb.h"

/* {"sold":…,"oversell":…,"duplicates":…,"drift":…,…} */
void rush_write_json(struct buf *out, const struct crowd_result *r, const struct audit *a);
/* LEAVE_DONE where every rule holds and as many of the SKU were sold as could be: the proof is so. LEAVE_BROKEN: it is not; where no rule is broken, why
 * not is said on standard error. LEAVE_UNREACHABLE: nothing is proved. */
int rush_leave(const struct call *c, const struct crowd_result *r, const struct audit *a, const char *sku, uint64_t users);

/* SPDX-License-Identifier: Apache-2.0
 * rush.h: what a crowd and the audit after it say together; shared by `rush` and `demo --once`. */
#pragma once
#include "audit.h"
#include "crowd.h"
#include "verb.h"

/* {"sold":…,"oversell":…,"duplicates":…,"drift":…,…} */
void rush_write_json(struct buf *out, const struct crowd_result *r, const struct audit *a);
/* LEAVE_DONE where every rule holds and as many were sold as could be. LEAVE_BROKEN: a rule that may never break is broken, or one answer contradicted
 * another. LEAVE_FAILED: nothing is broken, and yet not everybody was served; says why on standard error. LEAVE_UNREACHABLE: nothing is proved. */
int rush_leave(const struct call *c, const struct crowd_result *r, const struct audit *a, uint64_t users);

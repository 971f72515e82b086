/* SPDX-License-Identifier: Apache-2.0
 * rush.h: what a crowd and the audit after it say together; shared by `rush` and `demo --once`. */
#pragma once
#include "audit.h"
#include "crowd.h"

/* {"sold":…,"oversell":…,"duplicates":…,"drift":…,…} */
void rush_write_json(struct buf *out, const struct crowd_result *r, const struct audit *a);
/* LEAVE_DONE where every rule holds, no answer contradicted another, and as many were sold as could be; else LEAVE_BROKEN, or LEAVE_UNREACHABLE. */
int rush_leave(const struct crowd_result *r, const struct audit *a, uint64_t users);

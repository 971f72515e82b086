/* SPDX-License-Identifier: Apache-2.0
 * plan_ask.h: the asking half of `seckill plan --check`: GET /settings and /metrics of every --at, then the judgement of plan_check.h. */
#pragma once
#include "plan_report.h"
#include "verb.h"

#define PLAN_PROCESSES_MAX 256

/* Writes the findings; gives LEAVE_DONE, LEAVE_MISSED where a line is below plan, LEAVE_UNREACHABLE where a process does not answer. */
int plan_ask(const struct call *c, const struct plan_view *v, struct buf *out);

/* SPDX-License-Identifier: Apache-2.0
 * plan_check.h: a plan beside a deployment: what its processes say of themselves (SEEN of spec/plan.def) against what the plan demands
 * (DEMAND). Pure: whoever calls has asked the processes. */
#pragma once
#include "expression.h"
#include "plan_report.h"

/* One process: `value` answers for its settings by key, its metrics by name, p99.NAME of a histogram (NaN: none seen yet), and role.NAME (1 or 0). */
struct plan_process {
    expression_value value;
    void *arg;
};
enum plan_verdict { PLAN_GOOD, PLAN_BELOW, PLAN_NOT_SEEN };
struct plan_finding {
    const char *name, *unit, *text, *chinese;
    bool at_most;
    double has, wants;
    enum plan_verdict verdict;
};
enum {
#define DEMAND(name, seen, bound, wanted, unit, text, chinese) +1
    PLAN_DEMANDS = 0
#include "plan.def"
#undef DEMAND
};

/* Fills `out`; gives how many lines are below plan. A name that a process does not know (another version) is not seen there. */
size_t plan_judge(struct plan *p, const struct plan_process *processes, size_t count, struct plan_finding out[PLAN_DEMANDS]);
void plan_findings_table(struct buf *out, const struct plan_view *v, const struct plan_finding findings[PLAN_DEMANDS]);
void plan_findings_json(struct buf *out, const struct plan_view *v, const struct plan_finding findings[PLAN_DEMANDS]);

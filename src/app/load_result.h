/* SPDX-License-Identifier: Apache-2.0
 * load_result.h: what a load came to: the thresholds judged, whether the run can be trusted, and all of it in words, as JSON, and as a page
 * of HTML that needs nothing else. */
#pragma once
#include <stdio.h>

#include "audit.h"
#include "load_double.h"
#include "load_scenario.h"
#include "load_stage.h"
#include "load_stats.h"

struct load_result {
    /* in */
    const struct load_scenario *scenario;
    const char *path, *activity;
    uint64_t seed;
    unsigned processes;
    int64_t began_ms;                 /* Unix time */
    const struct load_stats *stats;   /* of all processes */
    struct load_service service;      /* what happened there meanwhile */
    struct load_double_counts doubled;
    const struct audit *audit;        /* NULL: it was not asked */
    bool interrupted, broken;         /* ended early by a signal; a process of the generator died */

    /* out, of load_result_judge */
    struct histogram requests, closed;    /* reserve and retry: from when due; from when a connection took them */
    double answered_per_s;
    struct { bool known, kept; double value, limit; } thresholds[LOAD_THRESHOLDS];
    unsigned missed;                  /* thresholds that are set and not kept */
    bool trusted;
    char doubt[256];                  /* why not */
};
void load_result_judge(struct load_result *r);
/* LEAVE_DONE; LEAVE_BROKEN; LEAVE_MISSED: a threshold, or the run cannot be trusted; LEAVE_UNREACHABLE: nothing proved; LEAVE_INTERRUPTED. */
int load_result_leave(const struct load_result *r);

void load_result_print(const struct load_result *r, FILE *out);
void load_result_json(const struct load_result *r, struct buf *out);
#define LOAD_JSON_MAX (4 * 1024 * 1024)
void load_report_write(const struct load_result *r, struct buf *out);
#define LOAD_REPORT_MAX (8 * 1024 * 1024)

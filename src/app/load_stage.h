/* SPDX-License-Identifier: Apache-2.0
 * load_stage.h: what the service has measured of itself, read from /metrics of its processes before and after a load: how long each of the
 * mission's stages took (§13.1, §13.2), and how many got how far. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "str.h"

enum load_stage {
#define STAGE(symbol, metric, p50, p95, p99, what, how) LOAD_STAGE_##symbol,
#include "load.def"
#undef STAGE
    LOAD_STAGES
};
struct load_stage_row {
    const char *metric;
    double p50, p95, p99;             /* budget, ms */
    const char *what, *how;
};
const struct load_stage_row *load_stage_row(enum load_stage s);

#define LOAD_EDGES_MAX 64
struct load_stage_counts {
    size_t edge_count;
    double edges[LOAD_EDGES_MAX];     /* seconds; the last one infinite */
    double below[LOAD_EDGES_MAX];     /* observations up to there */
    double sum, count;
};
struct load_service {
    unsigned asked, answered;         /* listeners */
    struct load_stage_counts stages[LOAD_STAGES];
    double requests, reserved, published, consumed, ordered, told, sold_out_locally;
};
/* Adds up what the listeners say, named with commas between. One that does not answer is left out: see `answered`. */
void load_service_read(struct load_service *s, const char *addresses);
/* As above, of one text in Prometheus' format. */
void load_service_parse(struct load_service *s, struct str text);
/* What happened between: after minus before. Where one of the processes was started anew meanwhile, no number is below 0. */
void load_service_since(struct load_service *after, const struct load_service *before);
/* Milliseconds that `share` of the observations do not exceed, straight lines between the edges; 0: there were none. */
double load_stage_quantile(const struct load_stage_counts *c, double share);

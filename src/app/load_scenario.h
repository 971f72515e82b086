/* SPDX-License-Identifier: Apache-2.0
 * load_scenario.h: a scenario file of `seckill load`, read whole and checked whole. The keys are the rows of spec/load.def. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "buf.h"
#include "load_schedule.h"

#define LOAD_KIND_TEXT const char *
#define LOAD_KIND_CHOICE const char *
#define LOAD_KIND_NUMBER int64_t
#define LOAD_KIND_REAL double

enum load_threshold {
#define THRESHOLD(symbol, key, side, unit, text) LOAD_THRESHOLD_##symbol,
#include "load.def"
#undef THRESHOLD
    LOAD_THRESHOLDS
};

struct load_scenario {
#define SCENARIO(field, key, kind, value, min, max, unit, text) LOAD_KIND_##kind field;
#include "load.def"
#undef SCENARIO
    bool set[LOAD_THRESHOLDS];
    double limit[LOAD_THRESHOLDS];
    struct load_shape arrivals;       /* scaled */
    struct arena texts;
};

struct load_threshold_row {
    const char *key;
    bool most;                        /* the value may be at most the limit; else at least */
    const char *unit, *text;
};
const struct load_threshold_row *load_threshold_row(enum load_threshold t);

/* False: lines in complaints, one for each thing that is wrong. `scale`: instead of the file's arrivals.scale; 0: the file's. Free it whatever came. */
bool load_scenario_read(struct load_scenario *s, const char *path, double scale, struct buf *complaints);
/* All keys with the values they have, as a scenario file. */
void load_scenario_write(const struct load_scenario *s, struct buf *out);
void load_scenario_free(struct load_scenario *s);

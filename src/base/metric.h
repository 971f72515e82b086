/* SPDX-License-Identifier: Apache-2.0
 * metric.h: what happened, counted. The rows are spec/metric.def. Any thread may add at any time; nothing is ever locked. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "buf.h"

enum metric {
#define METRIC(symbol, kind, label, owner, name, help) METRIC_##symbol,
#include "metric.def"
#undef METRIC
    METRIC_COUNT
};
#define METRIC_LABELS 96    /* the longest table that labels are taken from must fit; checked when exposed */

void metric_add(enum metric m, unsigned label, uint64_t n);      /* COUNTER; label 0 where the row has none */
void metric_set(enum metric m, unsigned label, int64_t value);   /* GAUGE */
void metric_shift(enum metric m, unsigned label, int64_t by);    /* GAUGE, relative */
void metric_unset(enum metric m);                                /* GAUGE: nothing is known of it, and it is not exposed, until it is set again */
void metric_observe(enum metric m, uint64_t us);                 /* HISTOGRAM */
static inline void metric_one(enum metric m) { metric_add(m, 0, 1); }

uint64_t metric_read(enum metric m, unsigned label);
bool metric_known(enum metric m);                                /* GAUGE: it was set */
/* The value below which `permille` of a HISTOGRAM's observations lie, in microseconds (upper edge of its bucket; within 7 %). 0: none yet. */
uint64_t metric_quantile_us(enum metric m, unsigned permille);

/* The words of the label tables, which base does not know: label_name[LABEL_REASON](i) and so on. NULL ends a table. */
enum metric_label { METRIC_LABEL_NONE, METRIC_LABEL_REASON, METRIC_LABEL_STATE, METRIC_LABEL_ROUTE, METRIC_LABEL_KIND, METRIC_LABEL_RESULT, METRIC_LABEL_TABLES };
typedef const char *(*metric_label_name)(unsigned index);
/* The roles that count a metric: the column `owner` of spec/metric.def. */
enum metric_owner { METRIC_OF_ACCESS = 1, METRIC_OF_ORDER = 2, METRIC_OF_RELAY = 4, METRIC_OF_JANITOR = 8, METRIC_OF_ADMIN = 16, METRIC_OF_ANY = 31 };
/* Prometheus text format 0.0.4: what a process with these roles owns, and of gauges those that are known. */
void metric_expose(struct buf *out, unsigned owners, const metric_label_name names[METRIC_LABEL_TABLES]);

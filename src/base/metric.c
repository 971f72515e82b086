/* SPDX-License-Identifier: Apache-2.0
 * metric.c: plain relaxed atomics. A histogram has 16 steps to each doubling, from 1 us to about 17 minutes. */
#include "metric.h"

#include <stdatomic.h>

#include "check.h"
#include "histogram.h"

enum kind { COUNTER, GAUGE, HISTOGRAM };
enum { ACCESS = METRIC_OF_ACCESS, ORDER = METRIC_OF_ORDER, RELAY = METRIC_OF_RELAY, JANITOR = METRIC_OF_JANITOR, ADMIN = METRIC_OF_ADMIN, ANY = METRIC_OF_ANY };
static const struct {
    enum kind kind;
    enum metric_label label;
    unsigned owner;
    const char *name, *help;
} rows[] = {
#define METRIC(symbol, kind, label, owner, name, help) {kind, METRIC_LABEL_##label, owner, name, help},
#include "metric.def"
#undef METRIC
};

#define STEP_BITS 4
#define BUCKETS ((1 << STEP_BITS) * 31)
static _Atomic uint64_t cells[METRIC_COUNT][METRIC_LABELS];
static _Atomic bool known[METRIC_COUNT];    /* of gauges: set, and not unset since */
static struct {
    _Atomic uint64_t buckets[BUCKETS];
    _Atomic uint64_t count, sum_us;
} histograms[METRIC_COUNT];

static _Atomic uint64_t *cell(enum metric m, unsigned label)
{
    check((unsigned)m < METRIC_COUNT && label < METRIC_LABELS);
    return &cells[m][label];
}

void metric_add(enum metric m, unsigned label, uint64_t n) { atomic_fetch_add_explicit(cell(m, label), n, memory_order_relaxed); }
bool metric_known(enum metric m) { return atomic_load_explicit(&known[m], memory_order_relaxed); }

void metric_set(enum metric m, unsigned label, int64_t value)
{
    atomic_store_explicit(cell(m, label), (uint64_t)value, memory_order_relaxed);
    atomic_store_explicit(&known[m], true, memory_order_relaxed);
}

void metric_shift(enum metric m, unsigned label, int64_t by)
{
    metric_add(m, label, (uint64_t)by);
    atomic_store_explicit(&known[m], true, memory_order_relaxed);
}

void metric_unset(enum metric m)
{
    check((unsigned)m < METRIC_COUNT && rows[m].kind == GAUGE);
    atomic_store_explicit(&known[m], false, memory_order_relaxed);
    atomic_store_explicit(cell(m, 0), 0, memory_order_relaxed);
}

uint64_t metric_read(enum metric m, unsigned label) { return atomic_load_explicit(cell(m, label), memory_order_relaxed); }

static unsigned bucket_of(uint64_t us)
{
    unsigned at = histogram_slot(us, STEP_BITS);
    return at < BUCKETS ? at : BUCKETS - 1;
}

static uint64_t bucket_edge(unsigned at) { return histogram_edge(at, STEP_BITS); }    /* the largest value of the bucket */

void metric_observe(enum metric m, uint64_t us)
{
    check((unsigned)m < METRIC_COUNT && rows[m].kind == HISTOGRAM);
    atomic_fetch_add_explicit(&histograms[m].buckets[bucket_of(us)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histograms[m].count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histograms[m].sum_us, us, memory_order_relaxed);
}

uint64_t metric_quantile_us(enum metric m, unsigned permille)
{
    uint64_t count = atomic_load(&histograms[m].count), seen = 0, wanted = (count * permille + 999) / 1000;
    for (unsigned i = 0; count > 0 && i < BUCKETS; i++) {
        seen += atomic_load_explicit(&histograms[m].buckets[i], memory_order_relaxed);
        if (seen >= wanted)
            return bucket_edge(i);
    }
    return 0;
}

static void expose_histogram(struct buf *out, enum metric m)
{
    static const uint64_t edges_us[] = {    /* close enough to compare each stage with its budget (mission §13) */
        50, 100, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 4000, 5000, 7500, 10000, 15000, 20000, 30000, 40000, 50000, 75000, 100000, 150000, 200000, 300000,
        400000, 500000, 750000, 1000000, 1500000, 2000000, 2500000, 3000000, 4000000, 5000000, 7500000, 10000000, 30000000};
    uint64_t seen = 0;
    unsigned at = 0;
    for (size_t e = 0; e < countof(edges_us); e++) {
        for (; at < BUCKETS && bucket_edge(at) <= edges_us[e]; at++)
            seen += atomic_load_explicit(&histograms[m].buckets[at], memory_order_relaxed);
        buf_add_fmt(out, "%s_bucket{le=\"%g\"} %llu\n", rows[m].name, (double)edges_us[e] / 1e6, (unsigned long long)seen);
    }
    for (; at < BUCKETS; at++)    /* the count is summed from the same reading, so that +Inf is never below a bucket */
        seen += atomic_load_explicit(&histograms[m].buckets[at], memory_order_relaxed);
    buf_add_fmt(out, "%s_bucket{le=\"+Inf\"} %llu\n", rows[m].name, (unsigned long long)seen);
    buf_add_fmt(out, "%s_sum %.6f\n%s_count %llu\n", rows[m].name, (double)atomic_load(&histograms[m].sum_us) / 1e6, rows[m].name, (unsigned long long)seen);
}

static void expose_cells(struct buf *out, enum metric m, metric_label_name name)
{
    static const char *const keys[] = {"", "code", "state", "route", "kind", "result"};
    const char *value;
    for (unsigned i = 0; rows[m].label == METRIC_LABEL_NONE ? i < 1 : (value = name(i)) != NULL; i++) {
        check(i < METRIC_LABELS);
        uint64_t n = metric_read(m, i);
        if (rows[m].label != METRIC_LABEL_NONE && n == 0)
            continue;
        buf_add_str(out, str_of(rows[m].name));
        if (rows[m].label != METRIC_LABEL_NONE)
            buf_add_fmt(out, "{%s=\"%s\"}", keys[rows[m].label], value);
        buf_add_char(out, ' ');
        buf_add_i64(out, (int64_t)n);
        buf_add_char(out, '\n');
    }
}

void metric_expose(struct buf *out, unsigned owners, const metric_label_name names[METRIC_LABEL_TABLES])
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    for (unsigned m = 0; m < METRIC_COUNT; m++) {
        if ((rows[m].owner & owners) == 0 || (rows[m].kind == GAUGE && !metric_known((enum metric)m)))
            continue;
        buf_add_fmt(out, "# HELP %s %s\n# TYPE %s %s\n", rows[m].name, rows[m].help, rows[m].name, kinds[rows[m].kind]);
        if (rows[m].kind == HISTOGRAM)
            expose_histogram(out, (enum metric)m);
        else
            expose_cells(out, (enum metric)m, names[rows[m].label]);
    }
}

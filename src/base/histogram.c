/* SPDX-License-Identifier: Apache-2.0
 * histogram.c: one writer, so a cell is raised by a plain load and a plain store, each of them whole. */
#include "histogram.h"

static uint64_t load(const uint64_t *cell) { return __atomic_load_n(cell, __ATOMIC_RELAXED); }
static void raise(uint64_t *cell, uint64_t by) { __atomic_store_n(cell, load(cell) + by, __ATOMIC_RELAXED); }

void histogram_add(struct histogram *h, uint64_t value)
{
    if (value > HISTOGRAM_MAX)
        value = HISTOGRAM_MAX;
    raise(&h->slots[histogram_slot(value, HISTOGRAM_BITS)], 1);
    raise(&h->count, 1);
    raise(&h->sum, value);
    if (value > load(&h->max))
        __atomic_store_n(&h->max, value, __ATOMIC_RELAXED);
}

/* The count is summed from the slots read, so that a histogram that is being written does not end up with more than it holds. */
void histogram_merge(struct histogram *h, const struct histogram *other)
{
    for (unsigned i = 0; i < HISTOGRAM_SLOTS; i++) {
        uint64_t n = load(&other->slots[i]);
        h->slots[i] += n;
        h->count += n;
    }
    h->sum += load(&other->sum);
    if (load(&other->max) > h->max)
        h->max = load(&other->max);
}

uint64_t histogram_quantile(const struct histogram *h, double share)
{
    double exact = share * (double)h->count;
    uint64_t wanted = (uint64_t)exact, seen = 0;
    if ((double)wanted < exact || wanted == 0)
        wanted++;
    if (wanted >= h->count)
        return h->max;
    for (unsigned i = 0; i < HISTOGRAM_SLOTS; i++) {
        seen += h->slots[i];
        if (seen >= wanted) {
            uint64_t edge = histogram_edge(i, HISTOGRAM_BITS);
            return edge < h->max ? edge : h->max;
        }
    }
    return h->max;
}

uint64_t histogram_above(const struct histogram *h, uint64_t value)
{
    uint64_t n = 0;
    for (unsigned i = value > HISTOGRAM_MAX ? HISTOGRAM_SLOTS : histogram_slot(value, HISTOGRAM_BITS) + 1; i < HISTOGRAM_SLOTS; i++)
        n += h->slots[i];
    return n;
}

/* SPDX-License-Identifier: Apache-2.0
 * histogram.h: how long things took, counted so that any quantile can be read later within a known error, whatever the range: the idea of
 * HDR histograms. Small values have a slot each; above, every doubling is cut into 2^bits equal steps.
 *
 * A histogram has one writer. Others, also other processes it is shared with, may read meanwhile: what they see may be a moment old, never torn. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The slot of a value, and the largest value of a slot, where a doubling has 2^bits steps. */
static inline unsigned histogram_slot(uint64_t value, unsigned bits)
{
    if (value >> bits == 0)
        return (unsigned)value;
    unsigned top = 63u - (unsigned)__builtin_clzll(value);
    return ((top - bits + 1) << bits) + (unsigned)((value >> (top - bits)) & ((1u << bits) - 1));
}
static inline uint64_t histogram_edge(unsigned slot, unsigned bits)
{
    if (slot >> bits == 0)
        return slot;
    unsigned shift = (slot >> bits) - 1, step = slot & ((1u << bits) - 1);
    return (((uint64_t)(1u << bits) + step + 1) << shift) - 1;
}

#define HISTOGRAM_BITS 7                                              /* what is read is never below the truth, and less than 1/128 above it */
#define HISTOGRAM_MAX ((1ull << 32) - 1)                              /* larger values count as this: in microseconds more than an hour */
#define HISTOGRAM_SLOTS ((32 - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS)
struct histogram {
    uint64_t count, sum, max;
    uint64_t slots[HISTOGRAM_SLOTS];
};

void histogram_add(struct histogram *h, uint64_t value);
/* Adds what the other holds. */
void histogram_merge(struct histogram *h, const struct histogram *other);
/* The value that `share` (0 … 1) of all do not exceed; 1 gives the largest itself. 0: nothing was counted. */
uint64_t histogram_quantile(const struct histogram *h, double share);
/* How many were above the value, slots taken whole. */
uint64_t histogram_above(const struct histogram *h, uint64_t value);
static inline double histogram_mean(const struct histogram *h) { return h->count ? (double)h->sum / (double)h->count : 0; }

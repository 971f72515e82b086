/* SPDX-License-Identifier: Apache-2.0
 * The histogram against sorted lists: what is read is the truth or less than 1/128 above it, whatever the numbers were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "histogram.h"

static uint64_t seed = 42;
static uint64_t chance(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void slots_are_in_order_and_meet(void **state)
{
    (void)state;
    for (unsigned bits = 1; bits <= 8; bits++)
        for (uint64_t v = 0, last = 0; v < 1ull << 33; v = v < 5000 ? v + 1 : v + v / 1000) {
            unsigned at = histogram_slot(v, bits);
            assert_true(at >= last);
            assert_true(histogram_edge(at, bits) >= v);
            assert_true(at == 0 || histogram_edge(at - 1, bits) < v);
            last = at;
        }
    assert_int_equal(histogram_slot(HISTOGRAM_MAX, HISTOGRAM_BITS), HISTOGRAM_SLOTS - 1);
}

static void quantiles_are_near_the_truth(void **state)
{
    enum { N = 20000 };
    static uint64_t values[N];
    static const double shares[] = {0, 0.0001, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};
    (void)state;
    for (unsigned round = 0; round < 12; round++) {
        struct histogram *h = calloc(1, sizeof *h);
        uint64_t sum = 0;
        for (size_t i = 0; i < N; i++) {
            values[i] = chance() >> (32 + chance() % 32);
            histogram_add(h, values[i]);
            sum += values[i];
        }
        qsort(values, N, sizeof *values, by_size);
        for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
            size_t rank = (size_t)(shares[s] * N + 0.9999999);
            uint64_t truth = values[rank > 0 ? rank - 1 : 0], read = histogram_quantile(h, shares[s]);
            assert_true(read >= truth);
            assert_true(read - truth <= truth / 128);
        }
        assert_int_equal(h->count, N);
        assert_int_equal(h->sum, sum);
        assert_int_equal(histogram_quantile(h, 1), values[N - 1]);
        free(h);
    }
}

static void parts_make_a_whole(void **state)
{
    struct histogram *parts = calloc(3, sizeof *parts), *whole = calloc(1, sizeof *whole), *sum = calloc(1, sizeof *sum);
    (void)state;
    for (unsigned i = 0; i < 30000; i++) {
        uint64_t v = chance() % 1000000;
        histogram_add(&parts[i % 3], v);
        histogram_add(whole, v);
    }
    for (unsigned i = 0; i < 3; i++)
        histogram_merge(sum, &parts[i]);
    assert_memory_equal(sum, whole, sizeof *whole);
    free(parts), free(whole), free(sum);
}

static void nothing_and_too_much(void **state)
{
    struct histogram *h = calloc(1, sizeof *h);
    (void)state;
    assert_int_equal(histogram_quantile(h, 0.99), 0);
    histogram_add(h, UINT64_MAX);
    assert_int_equal(histogram_quantile(h, 0.5), HISTOGRAM_MAX);
    histogram_add(h, 7);
    assert_int_equal(histogram_quantile(h, 0.5), 7);
    assert_int_equal(histogram_above(h, 7), 1);
    assert_int_equal(histogram_above(h, 6), 2);
    assert_int_equal(histogram_above(h, UINT64_MAX), 0);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_in_order_and_meet),
        cmocka_unit_test(quantiles_are_near_the_truth),
        cmocka_unit_test(parts_make_a_whole),
        cmocka_unit_test(nothing_and_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

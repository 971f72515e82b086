/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check.h"
#include "descriptors.h"

static void descriptors_are_kept_for_stores(void **state)
{
    (void)state;
    static const struct { size_t limit, threads, wanted; bool good; size_t reserved, admin, clients; } rows[] = {
        {1048576, 1, 16384, true, 256, 256, 16384},
        {1048576, 64, 1000000, true, 6304, 256, 16281},
        {1024, 1, 16384, true, 256, 96, 672},
        {1024, 4, 16384, true, 512, 64, 112},
        {120, 1, 16384, true, 72, 8, 40},
        {120, 1, 10, true, 72, 8, 10},
        {81, 1, 16384, true, 72, 8, 1},
        {80, 1, 16384, false, 72, 8, 0},
        {0, 1, 16384, false, 72, 8, 0},
        {64, 0, 16384, true, 48, 8, 0},    /* no access role */
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct descriptors d;
        if (descriptors_share(rows[i].limit, rows[i].threads, rows[i].wanted, &d) != rows[i].good || d.reserved != rows[i].reserved || d.admin != rows[i].admin ||
            d.clients != rows[i].clients)
            fail_msg("row %zu: reserved %zu, admin %zu, clients %zu", i, d.reserved, d.admin, d.clients);
        if (rows[i].good)
            assert_true(d.reserved + d.admin + d.clients * rows[i].threads <= rows[i].limit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(descriptors_are_kept_for_stores)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

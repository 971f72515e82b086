/* SPDX-License-Identifier: Apache-2.0
 * allowance.h: a token bucket: how often something may happen in a second. At most `burst` may be saved up, so that any second sees at most the rate and the
 * burst. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct allowance {
    uint64_t filled_us;     /* monotonic; 0: never used, full */
    uint64_t left;          /* millionths */
};

/* Takes one of `per_second`; false: none is left now. A burst of less than one is one. */
static inline bool allowance_take(struct allowance *a, uint32_t per_second, uint32_t burst, uint64_t now_us)
{
    uint64_t most = per_second == 0 ? 0 : (burst ? burst : 1) * (uint64_t)1000000, gained = (now_us - a->filled_us) * per_second;
    a->left = a->filled_us == 0 || now_us - a->filled_us > 1000000 || a->left + gained > most ? most : a->left + gained;
    a->filled_us = now_us ? now_us : 1;
    if (a->left < 1000000)
        return false;
    a->left -= 1000000;
    return true;
}

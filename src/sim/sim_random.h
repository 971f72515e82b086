/* SPDX-License-Identifier: Apache-2.0
 * sim_random.h: chance from a seed. The same seed gives the same numbers on every machine (xoshiro256**, its state filled by
 * splitmix64). Fit for faults, jitter and workloads; never for secrets. */
#pragma once
#include "random.h"

struct sim_random {
    struct random random;    /* the port */
    uint64_t state[4];
};

void sim_random_init(struct sim_random *r, uint64_t seed);

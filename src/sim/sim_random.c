/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_random.h"

#include <stddef.h>

#include "check.h"

static uint64_t turn_left(uint64_t x, int by) { return x << by | x >> (64 - by); }

static uint64_t next(struct random *random)
{
    uint64_t *s = container_of(random, struct sim_random, random)->state;
    uint64_t number = turn_left(s[1] * 5, 7) * 9, shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = turn_left(s[3], 45);
    return number;
}

static const struct random_ops ops = {.name = "memory", .next = next};

void sim_random_init(struct sim_random *r, uint64_t seed)
{
    r->random.ops = &ops;
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        r->state[i] = z ^ z >> 31;
    }
}

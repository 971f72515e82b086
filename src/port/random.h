/* SPDX-License-Identifier: Apache-2.0
 * random.h: chance has one home. In life a generator seeded by the kernel; in the simulator a seed. */
#pragma once
#include <stdint.h>

struct random;
struct random_ops {
    const char *name;
    uint64_t (*next)(struct random *);    /* 64 even bits */
};
struct random {
    const struct random_ops *ops;
};

static inline uint64_t random_next(struct random *r) { return r->ops->next(r); }
/* 0 … bound-1, even enough for jitter and for spreading; bound > 0. */
static inline uint64_t random_below(struct random *r, uint64_t bound) { return random_next(r) % bound; }

/* SPDX-License-Identifier: Apache-2.0
 * system_random.c: xoshiro256** as Blackman and Vigna describe it (2018). */
#include "system_random.h"

#include <stdlib.h>
#include <sys/random.h>

#include "check.h"

struct system_random {
    struct random base;
    uint64_t s[4];
};

static uint64_t rotate(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

static uint64_t next(struct random *random)
{
    uint64_t *s = ((struct system_random *)random)->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

static const struct random_ops ops = {.name = "system", .next = next};

struct random *system_random_open(void)
{
    struct system_random *r = calloc(1, sizeof *r);
    check(r != NULL);
    r->base.ops = &ops;
    while ((r->s[0] | r->s[1] | r->s[2] | r->s[3]) == 0)    /* all zero is the one state it never leaves */
        check(getrandom(r->s, sizeof r->s, 0) == (ssize_t)sizeof r->s);
    return &r->base;
}

void system_random_close(struct random *random) { free(random); }

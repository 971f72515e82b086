/* SPDX-License-Identifier: Apache-2.0 */
#include "descriptors.h"

#define BASE 24            /* standard streams, signals, files that are read for a moment */
#define LOOP_LEAST 24      /* a loop with its connections to one Redis, one PostgreSQL and one broker, and some that are made anew meanwhile */
#define LOOP_MOST 96       /* with many brokers */
#define ADMIN_LEAST 8
#define ADMIN_MOST 256

static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t most(size_t a, size_t b) { return a > b ? a : b; }

bool descriptors_share(size_t limit, size_t threads, size_t wanted, struct descriptors *out)
{
    size_t loops = threads + 1;
    *out = (struct descriptors){.limit = limit};
    out->reserved = least(most(limit / 2, BASE + LOOP_LEAST * loops), 64 + LOOP_MOST * loops);
    size_t rest = limit > out->reserved ? limit - out->reserved : 0;
    out->admin = least(most(rest / 8, ADMIN_LEAST), ADMIN_MOST);
    rest = rest > out->admin ? rest - out->admin : 0;
    out->clients = threads > 0 ? least(rest / threads, wanted) : 0;
    return rest > 0 && (threads == 0 || out->clients > 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

void seen_wake(struct waiter *w, enum reason reason, const void *result)
{
    struct seen *s = container_of(w, struct seen, waiter);
    check(!s->woken);    /* exactly once */
    s->woken = true;
    s->reason = reason;
    if (s->keep && result)
        s->keep(s, result);
}

static bool woken(void *seen) { return ((struct seen *)seen)->woken; }

enum reason seen_await(struct world *world, struct seen *s)
{
    check(world->run(world, woken, s, 10000));
    return s->reason;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

struct world *world;

int world_begin(void **state)
{
    (void)state;
    world = world_open();
    return world ? 0 : 1;
}

int world_end(void **state)
{
    (void)state;
    world->close(world);
    return 0;
}

enum reason seen_await(struct world *w, struct seen *s)
{
    check(w->run(w, seen_woken, s, 10000));
    return s->reason;
}

static bool never(void *arg) { return (void)arg, false; }
void let_pass(uint32_t ms) { world->run(world, never, NULL, ms); }

/* SPDX-License-Identifier: Apache-2.0
 * world_loop.h: the head of every real world: a libuv loop with the system's clock and chance on it. Whoever opens a world puts engines in; whoever
 * closes it has closed them before the end. */
#pragma once
#include <uv.h>

#include "world.h"

struct world_loop {
    struct world world;
    uv_loop_t loop;
    uv_timer_t timer;           /* how long a run may last */
    uv_prepare_t turn;
    bool (*done)(void *);       /* what the run waits for */
    void *arg;
    bool late;
};
void world_loop_begin(struct world_loop *, const char *name);
void world_loop_end(struct world_loop *);    /* nothing of ours is left in the loop, or the test stops */

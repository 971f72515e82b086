/* SPDX-License-Identifier: Apache-2.0 */
#include "world_loop.h"

#include "system_clock.h"
#include "system_random.h"

/* A turn that rings a timer before it polls goes to sleep afterwards, with nothing left that would wake it: whatever ends a wait stops the turn. */
static void too_late(uv_timer_t *timer)
{
    container_of(timer, struct world_loop, timer)->late = true;
    uv_stop(timer->loop);
}

static void look(uv_prepare_t *turn)
{
    struct world_loop *l = container_of(turn, struct world_loop, turn);
    if (l->done && l->done(l->arg))
        uv_stop(&l->loop);
}

static bool run(struct world *w, bool (*done)(void *), void *arg, uint32_t budget_ms)
{
    struct world_loop *l = container_of(w, struct world_loop, world);
    l->late = false;
    l->done = done;
    l->arg = arg;
    uv_update_time(&l->loop);
    uv_timer_start(&l->timer, too_late, budget_ms, 0);
    while (!done(arg) && !l->late)
        uv_run(&l->loop, UV_RUN_ONCE);
    uv_timer_stop(&l->timer);
    l->done = NULL;
    return done(arg);
}

void world_loop_begin(struct world_loop *l, const char *name)
{
    check(uv_loop_init(&l->loop) == 0 && uv_timer_init(&l->loop, &l->timer) == 0);
    check(uv_prepare_init(&l->loop, &l->turn) == 0 && uv_prepare_start(&l->turn, look) == 0);
    l->world = (struct world){.name = name, .clock = system_clock_open(&l->loop), .random = system_random_open(), .run = run};
}

void world_loop_end(struct world_loop *l)
{
    system_clock_close(l->world.clock);
    system_random_close(l->world.random);
    uv_close((uv_handle_t *)&l->timer, NULL);
    uv_close((uv_handle_t *)&l->turn, NULL);
    uv_run(&l->loop, UV_RUN_DEFAULT);
    check(uv_loop_close(&l->loop) == 0);
}

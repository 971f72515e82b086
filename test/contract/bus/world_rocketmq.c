/* SPDX-License-Identifier: Apache-2.0
 * The world with a real broker in it: SECKILL_TEST_NAMESRV names its name servers (host:port;host:port). */
#include <stdlib.h>

#include "rocketmq.h"
#include "system_clock.h"
#include "system_random.h"
#include "world.h"

struct real {
    struct world world;
    uv_loop_t loop;
    uv_timer_t timer;
    uv_prepare_t turn;
    bool (*done)(void *);
    void *arg;
    bool late, closed;
};

static void too_late(uv_timer_t *timer) { container_of(timer, struct real, timer)->late = true; }

/* What was waited for may have happened in a timer: the loop must not go to sleep over it. */
static void look(uv_prepare_t *turn)
{
    struct real *r = container_of(turn, struct real, turn);
    if (r->done && r->done(r->arg))
        uv_stop(&r->loop);
}

static bool run(struct world *w, bool (*done)(void *), void *arg, uint32_t budget_ms)
{
    struct real *r = container_of(w, struct real, world);
    r->late = false;
    r->done = done;
    r->arg = arg;
    uv_update_time(&r->loop);
    uv_timer_start(&r->timer, too_late, budget_ms, 0);
    while (!done(arg) && !r->late)
        uv_run(&r->loop, UV_RUN_ONCE);
    uv_timer_stop(&r->timer);
    r->done = NULL;
    return done(arg);
}

static void bus_closed(void *real) { ((struct real *)real)->closed = true; }

static void close_real(struct world *w)
{
    struct real *r = container_of(w, struct real, world);
    rocketmq_close(w->bus, bus_closed, r);
    while (!r->closed)
        uv_run(&r->loop, UV_RUN_ONCE);
    system_clock_close(w->clock);
    system_random_close(w->random);
    uv_close((uv_handle_t *)&r->timer, NULL);
    uv_close((uv_handle_t *)&r->turn, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    check(uv_loop_close(&r->loop) == 0);    /* nothing of ours is left in it */
    free(r);
}

struct world *world_open(void)
{
    const char *name_servers = getenv("SECKILL_TEST_NAMESRV");
    if (!name_servers || !*name_servers)
        exit(77);
    struct real *r = calloc(1, sizeof *r);
    check(r != NULL && uv_loop_init(&r->loop) == 0 && uv_timer_init(&r->loop, &r->timer) == 0);
    check(uv_prepare_init(&r->loop, &r->turn) == 0 && uv_prepare_start(&r->turn, look) == 0);
    struct rocketmq_options options = {.loop = &r->loop, .name_servers = str_of(name_servers), .group = str_lit("contract-bus")};
    r->world = (struct world){.name = "rocketmq", .bus = rocketmq_open(&options), .clock = system_clock_open(&r->loop),
                              .random = system_random_open(), .run = run, .close = close_real};
    check(r->world.bus != NULL);
    return &r->world;
}

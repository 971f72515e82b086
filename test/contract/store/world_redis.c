/* SPDX-License-Identifier: Apache-2.0
 * world_redis.c: a real Redis behind the store's contract: SECKILL_TEST_REDIS says where (redis://… or unix:/…). */
#include <stdio.h>
#include <stdlib.h>

#include "redis.h"
#include "system_clock.h"
#include "system_random.h"
#include "world.h"

struct real {
    struct world world;
    uv_loop_t loop;
    uv_timer_t budget;
    bool out;
};

static void ran_out(uv_timer_t *timer) { ((struct real *)timer->data)->out = true; }

static bool run(struct world *world, bool (*done)(void *), void *arg, uint32_t budget_ms)
{
    struct real *r = container_of(world, struct real, world);
    r->out = false;
    uv_update_time(&r->loop);
    uv_timer_start(&r->budget, ran_out, budget_ms, 0);
    while (!done(arg) && !r->out)
        uv_run(&r->loop, UV_RUN_ONCE);
    uv_timer_stop(&r->budget);
    return done(arg);
}

static bool up(void *store) { return redis_up(store); }

static void close_real(struct world *world)
{
    struct real *r = container_of(world, struct real, world);
    redis_close(r->world.store, NULL, NULL);
    system_clock_close(r->world.clock);
    system_random_close(r->world.random);
    uv_close((uv_handle_t *)&r->budget, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    check(uv_loop_close(&r->loop) == 0);
    free(r);
}

struct world *world_open(void)
{
    const char *url = getenv("SECKILL_TEST_REDIS");
    if (!url || !*url) {
        fputs("SECKILL_TEST_REDIS is not set: skipped\n", stderr);
        exit(77);
    }
    log_level_set(LEVEL_ERROR);
    struct real *r = calloc(1, sizeof *r);
    check(r != NULL && uv_loop_init(&r->loop) == 0 && uv_timer_init(&r->loop, &r->budget) == 0);
    r->budget.data = r;
    struct redis_options options = redis_options_default();
    options.loop = &r->loop;
    options.url = str_of(url);
    options.reserve_ms = options.batch_ms = options.read_ms = options.install_ms = 5000;    /* the machine may be busy with other tests */
    r->world = (struct world){.name = "redis", .store = redis_open(&options), .clock = system_clock_open(&r->loop), .random = system_random_open(),
                              .run = run, .close = close_real};
    check(r->world.store != NULL);
    if (!run(&r->world, up, r->world.store, 3000)) {
        fprintf(stderr, "no Redis at %s: skipped\n", url);
        exit(77);
    }
    return &r->world;
}

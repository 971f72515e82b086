/* SPDX-License-Identifier: Apache-2.0
 * The world with a real broker in it: SECKILL_TEST_NAMESRV names its name servers (host:port;host:port). */
#include <stdlib.h>

#include "rocketmq.h"
#include "world_loop.h"

static struct world_loop real;

static void bus_closed(void *flag) { *(bool *)flag = true; }

static void close_real(struct world *w)
{
    bool closed = false;
    rocketmq_close(w->bus, bus_closed, &closed);
    while (!closed)
        uv_run(&real.loop, UV_RUN_ONCE);
    world_loop_end(&real);
}

struct world *world_open(void)
{
    const char *name_servers = getenv("SECKILL_TEST_NAMESRV");
    if (!name_servers || !*name_servers)
        exit(77);
    world_loop_begin(&real, "rocketmq");
    struct rocketmq_options options = {.loop = &real.loop, .name_servers = str_of(name_servers), .group = str_lit("contract-bus")};
    real.world.bus = rocketmq_open(&options);
    real.world.close = close_real;
    check(real.world.bus != NULL);
    return &real.world;
}

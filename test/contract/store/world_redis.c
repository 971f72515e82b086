/* SPDX-License-Identifier: Apache-2.0
 * world_redis.c: a real Redis behind the store's contract: SECKILL_TEST_REDIS says where (redis://… or unix:/…). */
#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

#include "redis.h"
#include "redis_address.h"
#include "world_loop.h"

static struct world_loop real;

static bool up(void *store) { return redis_up(store); }

static void close_real(struct world *w)
{
    redis_close(w->store, NULL, NULL);
    world_loop_end(&real);
}

static void lose(struct world *w, const struct bucket *b, const char *key)
{
    struct redis_address a;
    (void)w;
    check(redis_address_parse(str_of(getenv("SECKILL_TEST_REDIS")), &a));
    redisContext *c = a.local ? redisConnectUnix(a.host) : redisConnect(a.host, atoi(a.port));
    check(c != NULL && c->err == 0);
    redisReply *r = redisCommand(c, "DEL sk:{%b:%u}:%u:%s", b->activity.ptr, b->activity.len, (unsigned)b->number, (unsigned)b->epoch, key);
    check(r != NULL && r->type == REDIS_REPLY_INTEGER && r->integer == 1);
    freeReplyObject(r);
    redisFree(c);
}

struct world *world_open(void)
{
    const char *url = getenv("SECKILL_TEST_REDIS");
    if (!url || !*url) {
        fputs("SECKILL_TEST_REDIS is not set: skipped\n", stderr);
        exit(77);
    }
    log_level_set(LEVEL_ERROR);
    world_loop_begin(&real, "redis");
    struct redis_options options = redis_options_default();
    options.loop = &real.loop;
    options.url = str_of(url);
    options.reserve_ms = options.batch_ms = options.read_ms = options.install_ms = 5000;    /* the machine may be busy with other tests */
    real.world.store = redis_open(&options);
    real.world.close = close_real;
    real.world.lose = lose;
    check(real.world.store != NULL);
    if (!real.world.run(&real.world, up, real.world.store, 3000)) {
        fprintf(stderr, "no Redis at %s: skipped\n", url);
        exit(77);
    }
    return &real.world;
}

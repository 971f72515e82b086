/* SPDX-License-Identifier: Apache-2.0
 * world_memory.c: the imagined engines behind the contract tests: all three ports at once, on the virtual clock, with a little
 * latency and jitter each way, so that answers overtake each other as they do on wires. */
#include <stdlib.h>

#include "sim_clock.h"
#include "sim_engines.h"
#include "world.h"

#define START_MS 1796083200000    /* 2026-12-01 */

struct memory {
    struct world world;
    struct sim_clock clock;
    struct sim_random random;
    struct sim_engines engines;
};

static bool run(struct world *w, bool (*done)(void *), void *arg, uint32_t budget_ms)
{
    struct memory *m = container_of(w, struct memory, world);
    return sim_clock_run(&m->clock, done, arg, 1000 * (uint64_t)budget_ms);
}

static void close_memory(struct world *w)
{
    struct memory *m = container_of(w, struct memory, world);
    sim_engines_close(&m->engines);
    sim_clock_end(&m->clock);
    free(m);
}

static void lose(struct world *w, const struct bucket *bucket, const char *key)
{
    static const struct { const char *name; enum sim_redis_key key; } keys[] = {
        {"users", SIM_KEY_USERS}, {"pending", SIM_KEY_PENDING}, {"free:", SIM_KEY_FREE}, {"rest:", SIM_KEY_REST}, {"gen:", SIM_KEY_GEN}, {"win", SIM_KEY_WIN}};
    struct memory *m = container_of(w, struct memory, world);
    struct sim_bucket *b = sim_store_bucket(&m->engines.stock, *bucket);
    check(b != NULL);
    for (size_t i = 0; i < countof(keys); i++)
        if (strncmp(key, keys[i].name, strlen(keys[i].name)) == 0)
            sim_bucket_lose(b, keys[i].key);
}

struct world *world_open(void)
{
    struct memory *m = calloc(1, sizeof *m);
    check(m != NULL);
    sim_clock_init(&m->clock, START_MS);
    sim_random_init(&m->random, 42);
    sim_engines_open(&m->engines, &m->clock.clock, 42);
    sim_engines_weather(&m->engines, (struct sim_weather){.ask_us = 30, .answer_us = 30, .jitter_us = 40, .random = &m->random.random});
    m->world = (struct world){.name = "memory", .store = &m->engines.store.store, .bus = &m->engines.bus.bus, .ledger = &m->engines.ledger.ledger,
                              .clock = &m->clock.clock, .random = &m->random.random, .run = run, .close = close_memory, .lose = lose};
    return &m->world;
}

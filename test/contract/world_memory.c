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

struct world *world_open(void)
{
    struct memory *m = calloc(1, sizeof *m);
    check(m != NULL);
    sim_clock_init(&m->clock, START_MS);
    sim_random_init(&m->random, 42);
    sim_engines_open(&m->engines, &m->clock.clock, 42);
    sim_engines_weather(&m->engines, (struct sim_weather){.ask_us = 30, .answer_us = 30, .jitter_us = 40, .random = &m->random.random});
    m->world = (struct world){.name = "memory", .store = &m->engines.store.store, .bus = &m->engines.bus.bus, .ledger = &m->engines.ledger.ledger,
                              .clock = &m->clock.clock, .random = &m->random.random, .run = run, .close = close_memory};
    return &m->world;
}

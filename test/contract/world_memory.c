/* SPDX-License-Identifier: Apache-2.0
 * world_memory.c: the imagined engines behind the contract tests: all three ports at once, on the virtual clock, with a little
 * latency and jitter each way, so that answers overtake each other as they do on wires. */
#include <stdlib.h>

#include "sim_bus.h"
#include "sim_clock.h"
#include "sim_ledger.h"
#include "sim_store.h"
#include "world.h"

#define START_MS 1796083200000    /* 2026-12-01 */

struct memory {
    struct world world;
    struct sim_clock clock;
    struct sim_random random;
    struct sim_store_world stock;
    struct sim_bus_world broker;
    struct sim_ledger_world books;
    struct sim_store store;
    struct sim_bus bus;
    struct sim_ledger ledger;
};

static bool run(struct world *w, bool (*done)(void *), void *arg, uint32_t budget_ms)
{
    struct memory *m = container_of(w, struct memory, world);
    return sim_clock_run(&m->clock, done, arg, 1000 * (uint64_t)budget_ms);
}

static void close_memory(struct world *w)
{
    struct memory *m = container_of(w, struct memory, world);
    sim_store_close(&m->store);
    sim_bus_close(&m->bus);
    sim_ledger_close(&m->ledger);
    sim_store_world_end(&m->stock);
    sim_bus_world_end(&m->broker);
    sim_ledger_world_end(&m->books);
    sim_clock_end(&m->clock);
    free(m);
}

struct world *world_open(void)
{
    struct memory *m = calloc(1, sizeof *m);
    check(m != NULL);
    sim_clock_init(&m->clock, START_MS);
    sim_random_init(&m->random, 42);
    sim_store_world_init(&m->stock, 42);
    sim_bus_world_init(&m->broker, &m->clock.clock);
    sim_ledger_world_init(&m->books);
    sim_store_open(&m->store, &m->stock, &m->clock.clock);
    sim_bus_open(&m->bus, &m->broker, &m->clock.clock);
    sim_ledger_open(&m->ledger, &m->books, &m->clock.clock);
    struct sim_weather weather = {.ask_us = 30, .answer_us = 30, .jitter_us = 40, .random = &m->random.random};
    m->store.calls.weather = m->bus.calls.weather = m->ledger.calls.weather = weather;
    m->world = (struct world){.name = "memory", .store = &m->store.store, .bus = &m->bus.bus, .ledger = &m->ledger.ledger,
                              .clock = &m->clock.clock, .random = &m->random.random, .run = run, .close = close_memory};
    return &m->world;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_engines.h"

void sim_engines_open(struct sim_engines *e, struct clock *clock, uint64_t seed)
{
    sim_store_world_init(&e->stock, seed);
    sim_bus_world_init(&e->broker, clock);
    sim_ledger_world_init(&e->books);
    sim_store_open(&e->store, &e->stock, clock);
    sim_bus_open(&e->bus, &e->broker, clock);
    sim_ledger_open(&e->ledger, &e->books, clock);
    e->bus.bus.deployment = e->ledger.ledger.deployment;
}

void sim_engines_close(struct sim_engines *e)
{
    sim_store_close(&e->store);
    sim_bus_close(&e->bus);
    sim_ledger_close(&e->ledger);
    sim_store_world_end(&e->stock);
    sim_bus_world_end(&e->broker);
    sim_ledger_world_end(&e->books);
}

void sim_engines_weather(struct sim_engines *e, struct sim_weather w) { e->store.calls.weather = e->bus.calls.weather = e->ledger.calls.weather = w; }

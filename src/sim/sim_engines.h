/* SPDX-License-Identifier: Apache-2.0
 * sim_engines.h: store, bus and ledger together, each with the imagined world behind it, for whoever needs one door to each. */
#pragma once
#include "sim_bus.h"
#include "sim_ledger.h"
#include "sim_store.h"

struct sim_engines {
    struct sim_store_world stock;
    struct sim_bus_world broker;
    struct sim_ledger_world books;
    struct sim_store store;
    struct sim_bus bus;
    struct sim_ledger ledger;
};
void sim_engines_open(struct sim_engines *e, struct clock *clock, uint64_t seed);
void sim_engines_close(struct sim_engines *e);
void sim_engines_weather(struct sim_engines *e, struct sim_weather w);    /* the same at each door */

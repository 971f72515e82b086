/* SPDX-License-Identifier: Apache-2.0
 * imagine.h: the five ports in memory (src/sim), on the real clock of one loop: nothing installed, nothing kept. */
#pragma once
#include "ports.h"
#include "sim_bus.h"
#include "sim_ledger.h"
#include "sim_store.h"

struct imagined {
    struct sim_store_world stores;
    struct sim_bus_world buses;
    struct sim_ledger_world ledgers;
    struct sim_store store;
    struct sim_bus bus;
    struct sim_ledger ledger;
};
/* Its topics are there; `seed` feeds the worlds' own chance. ports->close ends it all. */
void imagine_ports(struct imagined *i, struct ports *p, uv_loop_t *loop, uint64_t seed);

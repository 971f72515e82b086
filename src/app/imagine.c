/* SPDX-License-Identifier: Apache-2.0 */
#include "imagine.h"

#include "await.h"
#include "check.h"
#include "hint.h"
#include "message.h"
#include "relay.h"
#include "system_clock.h"
#include "system_random.h"

static void close_imagined(struct ports *p)
{
    struct imagined *i = container_of(p->store, struct imagined, store.store);
    sim_store_close(&i->store);
    sim_bus_close(&i->bus);
    sim_ledger_close(&i->ledger);
    sim_store_world_end(&i->stores);
    sim_bus_world_end(&i->buses);
    sim_ledger_world_end(&i->ledgers);
    system_clock_close(p->clock);
    system_random_close(p->random);
    *p = (struct ports){0};
}

void imagine_ports(struct imagined *i, struct ports *p, uv_loop_t *loop, uint64_t seed)
{
    const struct str topics[] = {str_lit(MESSAGE_TOPIC), str_lit(RELAY_EVENT_TOPIC), str_lit(RELAY_DEAD_LETTER_TOPIC), str_lit(HINT_TOPIC)};
    struct await created = AWAIT();
    *p = (struct ports){.loop = loop, .clock = system_clock_open(loop), .random = system_random_open(), .close = close_imagined};
    sim_store_world_init(&i->stores, seed);
    sim_bus_world_init(&i->buses, p->clock);
    i->buses.chance = p->random;
    sim_ledger_world_init(&i->ledgers);
    sim_store_open(&i->store, &i->stores, p->clock);
    sim_bus_open(&i->bus, &i->buses, p->clock);
    sim_ledger_open(&i->ledger, &i->ledgers, p->clock);
    p->store = &i->store.store;
    p->bus = &i->bus.bus;
    p->ledger = &i->ledger.ledger;
    bus_create(p->bus, topics, countof(topics), str_lit(MESSAGE_GROUP), 4, &created.waiter);
    enum reason reason = await_run(&created, loop);
    check(reason == REASON_OK);
}

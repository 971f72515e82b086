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
    struct sim_engines *e = container_of(p->store, struct sim_engines, store.store);
    sim_engines_close(e);
    system_clock_close(p->clock);
    system_random_close(p->random);
    *p = (struct ports){0};
}

void imagine_ports(struct sim_engines *e, struct ports *p, uv_loop_t *loop, uint64_t seed)
{
    const struct str topics[] = {str_lit(MESSAGE_TOPIC), str_lit(RELAY_EVENT_TOPIC), str_lit(RELAY_DEAD_LETTER_TOPIC), str_lit(HINT_TOPIC), str_lit(READINESS_TOPIC)};
    struct await created = AWAIT();
    *p = (struct ports){.loop = loop, .clock = system_clock_open(loop), .random = system_random_open(), .close = close_imagined};
    sim_engines_open(e, p->clock, seed);
    e->broker.chance = p->random;
    p->store = &e->store.store;
    p->bus = &e->bus.bus;
    p->ledger = &e->ledger.ledger;
    bus_create(p->bus, topics, countof(topics), str_lit(MESSAGE_GROUP), 4, &created.waiter);
    enum reason reason = await_run(&created, loop);
    check(reason == REASON_OK);
}

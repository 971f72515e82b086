/* SPDX-License-Identifier: Apache-2.0
 * world.h: what a contract test is run against. The same test file is linked once with the imagined engines and once with the
 * real ones; each link brings one world_open(). A world that needs a service that is not there ends the program with 77 (skipped);
 * `make test` always brings the services, by SECKILL_TEST_REDIS, SECKILL_TEST_POSTGRES, SECKILL_TEST_NAMESRV. */
#pragma once
#include "bus.h"
#include "clock.h"
#include "ledger.h"
#include "random.h"
#include "seen.h"
#include "store.h"

struct world {
    const char *name;           /* "memory", "redis", "rocketmq", "postgres" */
    struct store *store;        /* NULL: not part of this world */
    struct bus *bus;
    struct ledger *ledger;
    struct clock *clock;
    struct random *random;
    /* Lets the world go on until done(arg), or until budget_ms of its own time have passed: false. */
    bool (*run)(struct world *, bool (*done)(void *arg), void *arg, uint32_t budget_ms);
    void (*close)(struct world *);
    /* Deletes a key of a bucket: "pending", "free:SKU"; the memory world those of every SKU at once. NULL: this world has no store. */
    void (*lose)(struct world *, const struct bucket *, const char *key);
};

/* A fresh, empty world: an activity name, a topic, a schema that nobody else uses. Text made unique by `salt` where the test needs names. */
struct world *world_open(void);
/* The world of this program, where it has one. The first two are the setup and the end of a cmocka group that shares it. */
extern struct world *world;
int world_begin(void **state);
int world_end(void **state);
void let_pass(uint32_t ms);    /* of its own time */

/* Runs the world until it is woken (10 s at most, else the test fails) and gives the reason. */
enum reason seen_await(struct world *, struct seen *);

/* SPDX-License-Identifier: Apache-2.0
 * ports.h: the five ports on one libuv loop, opened by the settings: Redis, RocketMQ, PostgreSQL and the system in life. Each
 * thread has its own; nothing is shared. */
#pragma once
#include <uv.h>

#include "bus.h"
#include "channel.h"
#include "clock.h"
#include "config.h"
#include "ident.h"
#include "ledger.h"
#include "random.h"
#include "store.h"

enum { PORTS_STORE = 1, PORTS_BUS = 2, PORTS_LEDGER = 4, PORTS_ALL = 7 };

struct ports {
    uv_loop_t *loop;
    struct store *store;      /* NULL where it was not asked for */
    struct bus *bus;
    struct ledger *ledger;
    struct channel *channel;  /* NULL where payment.channel_url names none, or the ledger was not asked for */
    struct clock *clock;
    struct random *random;
    const char *missing;      /* who did not answer ports_ready, and which setting says where it should be; a constant */
    void (*close)(struct ports *);
};

/* Opens clock, random and those of `parts`. Connections are made in the background: whoever asks before one stands hears DEPENDENCY_DOWN.
 * False: a setting cannot be used (a bad URL); why stands in `complaint`; the loop must be run until nothing is left on it (ports_loop_end). */
bool ports_open(struct ports *p, uv_loop_t *loop, const struct config *config, unsigned parts, struct buf *complaint) must_check;
/* Drops what is in flight. Afterwards the loop must be run until nothing is left on it. */
void ports_close(struct ports *p);

/* The keys of ids, from the settings. */
struct ident_keys ports_ident_keys(const struct config *config);
/* Whether a process with these settings may work for the deployment whose ledger it names (engine/postgres/postgres.h); blocking. */
enum reason ports_admit(const struct config *config, char why[512]);
/* Runs the loop until each port asked for answers a harmless question, `ms` at most: true. False: one does not, and stands in `missing`. */
bool ports_ready(struct ports *p, uint32_t ms);
/* Runs the loop until nothing is left on it. */
void ports_run_dry(uv_loop_t *loop);
/* After ports_close: runs the loop dry and closes it. */
void ports_loop_end(uv_loop_t *loop);

/* ---- does it answer? -------------------------------------------------------------------------------------------------------- */

#define PORTS_PARTS 3
const char *ports_part_name(size_t part);    /* 0 … PORTS_PARTS-1: "redis", "bus", "postgresql"; part i is the mask 1 << i */
/* Asks part i, which must be open, something harmless. */
void ports_probe(struct ports *p, size_t part, struct waiter *w);
/* Whether such an answer means that it is there. */
bool ports_answers(enum reason reason);

/* ---- can it be used? -------------------------------------------------------------------------------------------------------- */

#define READINESS_TOPIC "seckill-readiness"    /* what is sent there is read by no program */
/* Asks part i, which must be open, for what the work needs of it: a write, a message stored, a commit. `slot`: see ledger_prove. The answer is read by ports_proved:
 * REASON_OK, or why not. ports_refusal: what the part's server said when it last refused something; valid until the caller returns to the loop. */
void ports_prove(struct ports *p, size_t part, unsigned slot, struct waiter *w);
enum reason ports_proved(size_t part, enum reason reason, const void *result);
struct str ports_refusal(const struct ports *p, size_t part);

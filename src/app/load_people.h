/* SPDX-License-Identifier: Apache-2.0
 * load_people.h: the part of a load that one process sends, on one loop. Whether something is sent, and when, follows from the schedule alone;
 * what is slow to answer is not waited for. Every latency is counted from the moment at which the request should have been sent.
 *
 * People ask for one unit each. Some ask again with the same request_id, answered or not. Who was told a reservation asks for its status on the
 * mission's ladder (§12.11) until it is decided; then some pay, some cancel, some do both at once. Bots send what must be refused. */
#pragma once
#include <uv.h>

#include "address.h"
#include "load_scenario.h"
#include "load_stats.h"

struct load_people_options {
    const struct load_scenario *scenario;
    struct address address;
    const char *host;                 /* as the address was written */
    const char *activity;
    const char *sku;                  /* the item, or the beginning of the items' names, each ending with its number from 1 */
    int64_t price;                    /* of every item, for payments */
    const char *currency;
    const char *webhook_keys;         /* which callbacks are signed with */
    const char *prefix;               /* of user and request ids; at most 24 characters */
    unsigned part, parts;             /* which process of how many */
    uint64_t seed;
    uint32_t source;                  /* see http_client_config */
    const uint32_t *stop;             /* set by another process: no more arrivals, and nobody is waited for */
    struct load_stats *stats;
};

#define LOAD_CONNECTIONS_MOST 18000    /* of one process: descriptors */

struct load_people;
struct load_people *load_people_new(uv_loop_t *loop, const struct load_people_options *options);
/* Runs the loop until the connections stand that are to stand before the start, 15 s at most. */
void load_people_connect(struct load_people *p);
/* Runs the loop from start_us (monotonic) until the last has his verdict or patience has ended. */
void load_people_run(struct load_people *p, uint64_t start_us);
void load_people_free(struct load_people *p);

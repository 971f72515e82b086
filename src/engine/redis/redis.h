/* SPDX-License-Identifier: Apache-2.0
 * redis.h: the store that Redis keeps (port/store.h). One of these for each event loop, used from its thread only; one pipelined
 * connection to each node. What lies in Redis: entry.lua. What a broken answer means: redis_link.h, redis_reply.h. */
#pragma once
#include <uv.h>

#include "store.h"

struct redis_options {
    uv_loop_t *loop;
    struct str url;               /* redis://[user:password@]host[:port][/db] or unix:/path */
    const char *deployment;       /* of the ledger (port/ledger.h): a server that belongs to another is refused. NULL: no server is; must outlive the store */
    size_t in_flight;             /* calls at once, then OVERLOADED; as many commands may be on the wire; 4096 */
    uint32_t reserve_ms;          /* budgets, where the waiter brings none: 80 */
    uint32_t batch_ms;            /* settle, restock: 500 */
    uint32_t read_ms;             /* look, due, stock, holdings: 200 */
    uint32_t install_ms;          /* 2000 */
    uint32_t connect_ms;          /* 1000 */
    uint32_t stall_ms;            /* a connection silent for so long while we wait is broken off; 3000 */
    uint32_t retry_first_ms, retry_most_ms;    /* 50, 500: a server that comes back is found at once */
};
struct redis_options redis_options_default(void);

/* Begins to connect as the loop turns. NULL: the url is none, or no memory. A call while there is no connection ends with
 * DEPENDENCY_DOWN at once. */
struct store *redis_open(const struct redis_options *options);
/* Calls in flight end as if the connection broke. Not from inside a wake. The store goes away as the loop turns; `closed` may be NULL. */
void redis_close(struct store *store, void (*closed)(void *arg), void *arg);
/* Bytes that redis_open takes for calls and commands, and what those grow to when every one is in use once. */
size_t redis_memory(size_t in_flight);
/* Connected and greeted. */
bool redis_up(const struct store *store);

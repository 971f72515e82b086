/* SPDX-License-Identifier: Apache-2.0
 * redis_address.h: where a Redis server is and how to greet it.
 *
 *     redis://host[:port][/db]      redis://[user]:password@host[:port][/db]      unix:/path
 *
 * Port 6379 and database 0 where not said. User and password may hold %XX. An IPv6 host stands in [brackets]. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "str.h"

struct redis_address {
    bool local;             /* a Unix socket: host is its path */
    char host[256];         /* terminated by zero, as what follows */
    char port[6];
    char user[128];         /* "": the default user */
    char password[256];     /* "": none asked for */
    uint32_t db;
};
/* false: it is not such an address, or too long. */
bool redis_address_parse(struct str url, struct redis_address *out);

/* SPDX-License-Identifier: Apache-2.0
 * check_live.h: `seckill check-config --live`: whether the servers that the settings name can be used. */
#pragma once
#include "config.h"
#include "ports.h"
#include "verb.h"

#define CHECK_LIVE_MS 5000    /* how long each server may take until it is reached, and until it has answered */

struct live_finding {
    const char *name;         /* "redis", "bus", "postgresql", "redis settings" */
    bool good;
    bool known;               /* false: the server does not tell; that is no fault */
    char detail[400];
};
#define LIVE_FINDINGS (PORTS_PARTS + 1)
struct live_check {
    struct live_finding findings[LIVE_FINDINGS];
    enum leave leave;         /* DONE; UNREACHABLE: a server cannot be used; REFUSED: Redis evicts and that is not allowed */
};
/* Connects, proves a write to each server (ports_prove) on a loop of its own, and disconnects. */
void check_live(const struct config *, struct live_check *out);

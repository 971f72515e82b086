/* SPDX-License-Identifier: Apache-2.0
 * The world with a real PostgreSQL in it: SECKILL_TEST_POSTGRES is the libpq URL of a database whose role may create others; each run makes
 * and migrates one of its own beside it, and drops it. */
#pragma once
#include <libpq-fe.h>
#include <uv.h>

#include "world.h"

const char *postgres_world_url(void);       /* of this run's own database */
uv_loop_t *postgres_world_loop(void);

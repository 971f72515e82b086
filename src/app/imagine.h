/* SPDX-License-Identifier: Apache-2.0
 * imagine.h: the five ports in memory (src/sim), on the real clock of one loop: nothing installed, nothing kept. */
#pragma once
#include "ports.h"
#include "sim_engines.h"

/* Its topics are there; `seed` feeds the worlds' own chance. ports->close ends it all. */
void imagine_ports(struct sim_engines *e, struct ports *p, uv_loop_t *loop, uint64_t seed);

/* SPDX-License-Identifier: Apache-2.0
 * system_random.h: the random port, seeded by the kernel. One per thread. Good for ids and jitter; it makes no secrets. */
#pragma once
#include "random.h"

/* Never NULL: a machine without entropy stops the process. */
struct random *system_random_open(void);
void system_random_close(struct random *random);

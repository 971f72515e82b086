/* SPDX-License-Identifier: Apache-2.0
 * system_clock.h: the clock port on a libuv loop. One per thread, as the loop is. */
#pragma once
#include <uv.h>

#include "clock.h"

/* Alarms ring on this loop, never early and at most about 1 ms late when the loop is free. Never NULL. */
struct clock *system_clock_open(uv_loop_t *loop);
/* Alarms still set never ring. The memory goes once the loop has closed the timer: run the loop once more before closing it. */
void system_clock_close(struct clock *clock);

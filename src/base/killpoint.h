/* SPDX-License-Identifier: Apache-2.0
 * killpoint.h: the lever that makes a process die at a named place (spec/killpoint.def), as a power cut would: SIGKILL, nothing flushed,
 * nothing said to anybody. Compiled into every build, so that what is tested is what runs; unarmed it is one comparison.
 *
 *     KILLPOINT(PLACE_ANSWERED);
 *
 * Armed by the environment, and only for tests: SECKILL_KILL=NAME[:N] dies at the N-th pass (first where N is missing), after
 * {"event":"killpoint","point":"NAME"} went to standard error. Without SECKILL_TEST_HOOKS=1 beside it the process refuses to start. */
#pragma once
#include "buf.h"

enum killpoint {
#define POINT(name, roles, when, stands, ends) KILLPOINT_##name,
#include "killpoint.def"
#undef POINT
    KILLPOINT_COUNT
};

/* The one that is armed; KILLPOINT_COUNT: none. Written once, before there is a second thread. */
extern enum killpoint killpoint_armed;

#define KILLPOINT(name)                                                    \
    do {                                                                   \
        if (__builtin_expect(killpoint_armed == KILLPOINT_##name, 0))      \
            killpoint_passed();                                            \
    } while (0)

/* The armed point was passed: counts, and from the N-th on does not live long. */
void killpoint_passed(void);

/* Reads what the two variables say (NULL or "": not set). False, with the reason in `complaint`: the process must not go on. */
bool killpoint_arm(const char *kill, const char *hooks, struct buf *complaint);

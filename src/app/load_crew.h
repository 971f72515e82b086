/* SPDX-License-Identifier: Apache-2.0
 * load_crew.h: the processes of a generator: each sends its part of the load, all from one moment on, and counts into memory that is shared
 * with the one who started them. They end with him, whatever way he ends. */
#pragma once
#include <sys/types.h>

#include "load_people.h"

#define LOAD_CREW_MAX 64
struct load_crew {
    unsigned count, running;
    bool broken;                      /* one ended before its work did */
    pid_t pids[LOAD_CREW_MAX];
    struct load_shared *shared;
};

/* How many processes the scenario asks for: one for each processor where it does not say. False, and why: each would have more connections than
 * it may. */
bool load_crew_fits(const struct load_scenario *s, unsigned *count, struct buf *why);
/* Starts `count` processes; `common` holds what is the same for each. To be called before this process has a loop of its own. False: not so;
 * those that were started are gone again. */
bool load_crew_start(struct load_crew *crew, unsigned count, const struct load_people_options *common);
/* All have their connections. */
bool load_crew_ready(const struct load_crew *crew);
/* All begin at that moment (monotonic). */
void load_crew_go(struct load_crew *crew, uint64_t start_us);
/* No more arrivals. They end soon. */
void load_crew_stop(struct load_crew *crew);
/* Notes who has ended; true: all have. */
bool load_crew_over(struct load_crew *crew);
/* What all of them have counted until now. */
void load_crew_sum(const struct load_crew *crew, struct load_stats *into);
/* Ends those that still run, and gives the memory back. */
void load_crew_free(struct load_crew *crew);

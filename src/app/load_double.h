/* SPDX-License-Identifier: Apache-2.0
 * load_double.h: one create-order message in so many is sent to the broker once more, as a copy with the same key and body: the duplicates of
 * mission §17.4, made on purpose. It reads the queues from where they end, beside the service's own consumers, and decides nothing. */
#pragma once
#include "bus.h"
#include "clock.h"

struct load_double;
/* `percent` of the messages that come from now on. The ports must outlive it. */
struct load_double *load_double_start(struct bus *bus, struct clock *clock, double percent, uint64_t seed);
struct load_double_counts {
    uint64_t seen, doubled, failed;    /* copies read; sent once more; sends that the broker did not confirm */
    unsigned queues;                   /* that are read; 0: the broker has not said which there are */
};
struct load_double_counts load_double_counts(const struct load_double *d);
void load_double_free(struct load_double *d);

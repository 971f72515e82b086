/* SPDX-License-Identifier: Apache-2.0
 * warming.h: a warm that its caller began and did not finish, because a process died in it or the store was away, is finished by whoever sees that. A sale
 * that is WARM has never sold anything, so handing its units over once more is harmless, however many do it. One at a time; the others wait their turn. */
#pragma once
#include "control.h"

struct warming_options {
    struct control_options control;
    uint32_t patience_ms;         /* seen unfinished for so long, nobody is at it any more; 10000 */
};
struct warming_options warming_options_default(void);

struct warming {
    struct clock *clock;
    struct warming_options options;
    struct controller *controller;
    struct control control;
    bool busy, stopped;
    uint16_t number;              /* of the activity that is watched; 0: none */
    uint64_t since_us, seen_us;
    char name[64];
};
/* false: no memory. */
bool warming_init(struct warming *, struct store *, struct ledger *, struct clock *, struct warming_options);
/* A bucket of that WARM activity does not hold its units yet. */
void warming_seen(struct warming *, const struct activity *);
void warming_stop(struct warming *);    /* nothing new is begun; what is under way is left, as it was found */
void warming_free(struct warming *);

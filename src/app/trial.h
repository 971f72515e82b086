/* SPDX-License-Identifier: Apache-2.0
 * trial.h: one imagined deployment, from a seed: access processes, consumers, relays, janitors and an admin over one Redis, one broker and one
 * PostgreSQL, none of which exist (src/sim); a crowd with plans; and troubles. Everything but the engines is the real core. The rules are
 * checked while it runs and at its end. The same seed is the same trial, step by step. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRIAL_LINE 240

enum trial_plant { PLANT_NONE, PLANT_VERDICT, PLANT_UNIT, PLANT_ORDER, PLANT_ROWS, PLANT_FORGET, PLANT_ENTRY, PLANT_REFUND, PLANT_COUNT };

struct trial_options {
    uint64_t seed;
    uint64_t steps;              /* stop after so many, wherever it stands; 0: run to the end */
    size_t lines;                /* how many of the last events to keep for trial_result.lines; 0: none (faster) */
    const char *about;           /* only events whose line holds this text; NULL: all */
    enum trial_plant plant;      /* for tests: a fault put into an engine as soon as there is something to spoil (trial_plant.c) */
};
struct trial_result {
    bool broken;                 /* a rule was broken */
    bool ended;                  /* it ran to its end */
    bool planted;                /* the fault asked for was put in */
    char rule[32], what[TRIAL_LINE];
    uint64_t hash;               /* of everything that happened, in order */
    uint64_t steps, calls, faults, deaths, troubles;
    uint64_t virtual_ms;
    bool lost;                   /* Redis forgot something: only the safety rules were judged */
    size_t people, reserved, ordered, released;
    char (*lines)[TRIAL_LINE];   /* oldest first; the caller frees them */
    size_t line_count;
};
void trial_run(const struct trial_options *options, struct trial_result *result);

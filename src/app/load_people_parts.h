/* SPDX-License-Identifier: Apache-2.0
 * load_people_parts.h: what load_people.c (who comes, what comes back, time) and load_say.c (what is said) share; nobody else includes it. */
#pragma once
#include "heap.h"
#include "http_client.h"
#include "ident.h"
#include "list.h"
#include "load_people.h"

#define LOAD_TEXT_MAX 1024
#define LOAD_SKUS_MAX 64

struct visit {
    struct http_call call;
    struct link link;             /* in free */
    struct load_people *people;
    size_t place;                 /* in due */
    enum load_deed deed;
    uint32_t user, step;          /* step: questions for the status so far; callbacks and cancels so far */
    int rank;                     /* of the last status */
    bool knew;                    /* when this was sent, the user had been told a reservation */
    uint64_t intended_us, handed_us;
    char text[LOAD_TEXT_MAX];
};
struct person {
    char reservation[IDENT_ID_TEXT + 1];    /* what he was told; "": nothing */
    bool decided, paid, canceled;           /* as he was told */
};
struct load_people {
    struct load_people_options options;
    const struct load_scenario *scenario;
    struct load_stats *stats;
    uv_loop_t *loop;
    uv_poll_t poll;
    int timer;
    struct http_client *client;
    struct load_schedule schedule;
    uint64_t start_us, next_us, until_us;    /* of the next arrival; when patience ends, 0 while they come */
    int64_t began_ms;                        /* Unix time; what payments say they happened at */
    bool coming, over;                       /* over: nothing is left, or nobody is waited for any more */
    uint64_t number, flooded, bodies;        /* arrivals, requests of the flood, malformed bodies so far */
    uint32_t persons_max, came;
    struct person *persons;
    struct heap due;                         /* visits that wait for their next question */
    struct link free;
    struct visit **chunks;
    size_t chunk_count, chunk_max;
    double shares[LOAD_SKUS_MAX];            /* of the items, summed up */
};

/* Writes what a visit says next, by its deed, into its text. */
void load_say(struct visit *v);

/* SPDX-License-Identifier: Apache-2.0
 * sim_bus.h: the bus port as the imagined world keeps it: one broker, topics with queues, each an array of messages. Everything sent
 * is kept until the world ends (a pull points into it), about 200 bytes and the body each. */
#pragma once
#include "bus.h"
#include "heap.h"
#include "sim_call.h"

#define SIM_QUEUES_MAX 64            /* of a topic */

struct sim_message {
    struct str unique, key, body, trace, tag, deployment;
    int64_t stored_ms;
    bool lost;                       /* a hole */
};
struct sim_queue {
    int32_t number;
    struct sim_message *messages;    /* offset i at i */
    size_t count, cap;
    int64_t min;
    int64_t mirrored;                /* the group's offset, for people; -1: none */
    struct link pullers;             /* calls that wait for the next message */
};
struct sim_topic {
    struct str name;
    struct sim_queue *queues;
    int32_t count;
};
struct sim_bus_world {
    struct clock *clock;
    struct sim_map topics;
    struct sim_topic **all;
    size_t count, cap;
    struct heap timers;              /* timer messages that wait, by the hour */
    struct alarm alarm;
    uint64_t sent, breaks;
    bool away;
    uint16_t hold_permille;          /* of the messages stored: held back for hold_ms before they can be read (needs chance) */
    uint32_t hold_ms;
    struct random *chance;
    struct sim_ground ground;
};
/* The clock is the broker's own; it must live as long as the world. */
void sim_bus_world_init(struct sim_bus_world *w, struct clock *clock);
void sim_bus_world_end(struct sim_bus_world *w);

/* ---- levers ---- */

struct sim_queue *sim_bus_queue(struct sim_bus_world *w, struct str topic, int32_t number);    /* NULL: none such */
void sim_bus_break(struct sim_bus_world *w);                      /* every connection is made anew: links grow */
void sim_bus_forget(struct sim_queue *q, int64_t min);            /* retention: what lies before is gone */
void sim_bus_lose(struct sim_queue *q, int64_t max);              /* the tail is gone, and its offsets will be given again */

void sim_bus_widen(struct sim_bus_world *w, struct str topic, int32_t queues);       /* as an operator gives a topic more queues; SIM_QUEUES_MAX in all */
void sim_bus_again(struct sim_bus_world *w, struct sim_queue *q, int64_t offset);    /* the same message once more, at the end, as a new copy */

struct sim_bus {
    struct bus bus;                  /* the port */
    struct sim_calls calls;
    struct sim_bus_world *world;
};
void sim_bus_open(struct sim_bus *b, struct sim_bus_world *w, struct clock *clock);
void sim_bus_close(struct sim_bus *b);

/* SPDX-License-Identifier: Apache-2.0
 * health.h: which parts answer, asked about once a second. Being alive never depends on them; being ready depends on those without
 * which the roles of this process can do nothing. */
#pragma once
#include "buf.h"
#include "ports.h"

#define HEALTH_EVERY_MS 1000
#define HEALTH_STALE_MS 5000    /* an answer older than that counts for nothing */

struct health_part {
    struct waiter waiter;
    struct health *health;
    size_t part;
    bool open, needed, asked;
    enum reason reason;           /* of the last answer */
    uint64_t answered_us;         /* when it last was there; 0: never */
};
struct health {
    struct ports *ports;
    struct health_part parts[PORTS_PARTS];
    struct alarm alarm;
    bool (*started)(void *arg);   /* the roles have all they need to begin; NULL: at once */
    void *arg;
    bool draining, stopped;
};
/* `needed`: mask of the parts without which it is not ready. */
void health_start(struct health *h, struct ports *p, unsigned needed, bool (*started)(void *arg), void *arg);
void health_stop(struct health *h);

enum health_question { HEALTH_LIVE, HEALTH_READY, HEALTH_STARTED };
/* The answer, and a line for each thing that was looked at. */
bool health_says(const struct health *h, enum health_question q, struct buf *lines);
bool health_part_up(const struct health *h, size_t part);

/* SPDX-License-Identifier: Apache-2.0
 * health.h: whether this process can do its work. Being alive never depends on others. Being ready depends on the dependencies without which the roles of
 * this process can do nothing, and each is asked to do what the work needs of it: Redis a write, RocketMQ a message that is stored, PostgreSQL a commit. One
 * such probe of each is under way at most, every three seconds. */
#pragma once
#include "buf.h"
#include "ports.h"

#define HEALTH_TICK_MS 250
#define HEALTH_EVERY_MS 3000       /* between two probes of a dependency that works */
#define HEALTH_RETRY_MS 500        /* and of one that does not */
#define HEALTH_SLOW_MS 2000        /* a probe without an answer for so long counts as failed; it goes on */
#define HEALTH_STALE_MS 10000      /* an answer older than that counts for nothing */

struct health_part {
    struct waiter waiter;
    struct health *health;
    size_t part;
    bool open, needed, asked;
    enum reason reason;           /* of the last answer */
    uint64_t begun_us;            /* the last probe; the one under way */
    uint64_t answered_us;         /* the last answer; 0: none yet */
    uint64_t next_us;             /* when the next probe is due */
};
struct health {
    struct ports *ports;
    struct health_part parts[PORTS_PARTS];
    struct alarm alarm;
    unsigned slot;                /* of the ledger's rows for probes */
    bool janitor;                 /* this process runs the janitor: what it found is a part of the answer */
    bool (*started)(void *arg);   /* the roles have all they need to begin; NULL: at once */
    void *arg;
    bool draining, stopped;
};
/* `needed`: mask of the parts without which it is not ready. */
void health_start(struct health *h, struct ports *p, unsigned needed, bool janitor, bool (*started)(void *arg), void *arg);
void health_stop(struct health *h);

enum health_question { HEALTH_LIVE, HEALTH_READY, HEALTH_STARTED };
/* The answer, and a line for each thing that was looked at. `exclude`: names of lines that do not count, with commas between them; names that are no line are
 * told in a line of their own. */
bool health_says(const struct health *h, enum health_question q, struct str exclude, struct buf *lines);
bool health_part_up(const struct health *h, size_t part);

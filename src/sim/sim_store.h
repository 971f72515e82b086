/* SPDX-License-Identifier: Apache-2.0
 * sim_store.h: the store port as the imagined world keeps it. The data (a world) is apart from the doors to it (a store each), so
 * that several processes of an imagined deployment can share one. Memory grows with the users and reservations it has seen, some 300 bytes each,
 * and is given back with the world. */
#pragma once
#include "sim_bucket.h"
#include "sim_call.h"
#include "sim_random.h"

struct sim_store_world {
    struct sim_map buckets;          /* (activity, epoch, number) → sim_bucket */
    struct sim_bucket **all;
    size_t count, cap;
    struct sim_bucket *gone;         /* they are no more, and stay: an answer on its way may still speak of what was in them */
    struct sim_random chance;        /* jitter of the janitor's turns */
    char incarnation[24];            /* what the server is by now … */
    char greeted[24];                /* … and what it said when the connections were last made */
    uint32_t lives, closings;
    bool away;                       /* nobody answers the door: DEPENDENCY_DOWN, and nothing is done */
};
void sim_store_world_init(struct sim_store_world *w, uint64_t seed);
void sim_store_world_end(struct sim_store_world *w);
/* NULL: there is no such bucket. For levers and auditors; valid as long as the world. */
struct sim_bucket *sim_store_bucket(struct sim_store_world *w, struct bucket name);
/* The server was restarted: the same data under a new incarnation. Every connection is made anew: what had not arrived never will. */
void sim_store_restart(struct sim_store_world *w);
/* Everything is lost, and it comes up empty. */
void sim_store_lose(struct sim_store_world *w);
/* What a replica that then falls behind would hold; and its promotion: everything since is lost, under a new incarnation. A snapshot may be
 * promoted any number of times. */
struct sim_snapshot {
    struct sim_bucket **buckets;
    size_t count;
};
struct sim_snapshot sim_store_snapshot(const struct sim_store_world *w);
void sim_store_rollback(struct sim_store_world *w, const struct sim_snapshot *s);
/* The same under connections that stand: the server was another's replica for a while (`promoted`: its life has another name now, as its answers say),
 * or its memory was put back (nothing but the sequence tells). */
void sim_store_slip(struct sim_store_world *w, const struct sim_snapshot *s, bool promoted);
void sim_snapshot_free(struct sim_snapshot *s);

struct sim_store {
    struct store store;              /* the port */
    struct sim_calls calls;          /* calls.weather may be set at any time */
    struct sim_store_world *world;
    uint32_t life;                   /* of the connection … */
    char heard[24];                  /* … and what is known of the server there */
};
/* The bucket's own time (Redis TIME) is the clock's now_ms. */
void sim_store_open(struct sim_store *s, struct sim_store_world *w, struct clock *clock);
void sim_store_close(struct sim_store *s);    /* forgets its calls in flight; not from within a wake */

/* SPDX-License-Identifier: Apache-2.0
 * sim_map.h: what the imagined engines keep their tables in. A map from a text (often several, joined by sim_key) to a pointer;
 * and a ground, memory that is only ever given back as a whole, when its world ends. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "str.h"

/* ---- ground ---- */

struct sim_chunk;
struct sim_ground {
    struct sim_chunk *chunks;    /* newest first */
    size_t bytes;                /* taken so far */
};
/* n zeroed bytes, aligned for anything; never NULL (no memory left stops the process). */
void *sim_take(struct sim_ground *g, size_t n);
struct str sim_text(struct sim_ground *g, struct str s);    /* a copy */
void sim_ground_reset(struct sim_ground *g);                /* forgets everything, keeps the oldest chunk for what comes */
void sim_ground_free(struct sim_ground *g);

#define sim_new(ground, type) ((type *)sim_take((ground), sizeof(type)))
#define sim_array(ground, type, count) ((type *)sim_take((ground), sizeof(type) * (count)))

/* ---- map ---- */

struct sim_slot;
struct sim_map {
    struct sim_slot *slots;    /* open addressing, at most three quarters full; doubles */
    size_t count, cap;
};
/* What stands under the key; NULL when nothing does. */
void *sim_map_get(const struct sim_map *m, struct str key);
/* Puts it there, in place of what stood there. The key must live as long as the entry; value is not NULL. */
void sim_map_put(struct sim_map *m, struct str key, void *value);
/* Takes it out: what stood there, or NULL. */
void *sim_map_remove(struct sim_map *m, struct str key);
void sim_map_free(struct sim_map *m);

/* Several texts as one key, each with its length before it, so that ("a","bc") and ("ab","c") stay two. */
struct sim_key {
    struct str str;
    char memory[1024];
};
/* False when the parts do not fit: such a text can be no key of ours. */
bool sim_key_join(struct sim_key *k, const struct str *parts, size_t count);
/* As above; parts known to be short. Gives k->str. */
#define sim_key(k, ...) sim_key_of((k), (const struct str[]){__VA_ARGS__}, sizeof((const struct str[]){__VA_ARGS__}) / sizeof(struct str))
struct str sim_key_of(struct sim_key *k, const struct str *parts, size_t count);
/* A number as a part of a key; it must live as long as the part. */
static inline struct str sim_bytes(const void *number, size_t n) { return (struct str){number, n}; }

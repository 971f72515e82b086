/* SPDX-License-Identifier: Apache-2.0
 * arena.h: memory of one piece of work (a request, a batch). Taken piece by piece, given back all at once. Bounded at birth;
 * a full arena answers NULL, which the caller must turn into a refusal. */
#pragma once
#include <stddef.h>

#include "str.h"

struct arena {
    char *start;
    size_t used, cap;
};

/* Over its own memory. `cap` in bytes; start == NULL when the machine has no memory left. */
struct arena arena_new(size_t cap);
void arena_free(struct arena *a);
static inline void arena_reset(struct arena *a) { a->used = 0; }

/* n zeroed bytes, aligned for anything; NULL when the arena is full. */
void *arena_take(struct arena *a, size_t n);
/* A copy that lives as long as the arena; {NULL, 0} for the empty text, and when the arena is full. */
struct str arena_str(struct arena *a, struct str s);

#define arena_array(a, type, count) ((type *)arena_take((a), sizeof(type) * (size_t)(count)))

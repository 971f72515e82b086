/* SPDX-License-Identifier: Apache-2.0
 * heap.h: the earliest first. Alarms of both clocks live in one of these. Items carry their own place (from 1; 0: outside),
 * so that any of them can be moved or taken out. Grows by doubling. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct heap_item {
    uint64_t due;
    uint64_t turn;     /* breaks ties in order of insertion, for the simulator's sake */
    size_t *place;     /* where the item keeps its place */
    void *what;
};
struct heap {
    struct heap_item *items;
    size_t count, cap;
    uint64_t turn;
};

void heap_free(struct heap *h);
/* Puts `what` in, or moves it when *place says it is in already. */
void heap_put(struct heap *h, void *what, size_t *place, uint64_t due);
void heap_remove(struct heap *h, size_t *place);    /* harmless when *place is 0 */
/* The earliest, left in; NULL when empty. */
const struct heap_item *heap_first(const struct heap *h);

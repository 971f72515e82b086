/* SPDX-License-Identifier: Apache-2.0 */
#include "heap.h"

#include <stdbool.h>
#include <stdlib.h>

#include "check.h"

void heap_free(struct heap *h)
{
    for (size_t i = 0; i < h->count; i++)
        *h->items[i].place = 0;
    free(h->items);
    *h = (struct heap){0};
}

static bool before(const struct heap_item *a, const struct heap_item *b)
{
    return a->due != b->due ? a->due < b->due : a->turn < b->turn;
}

static void sit(struct heap *h, size_t at, struct heap_item item)
{
    h->items[at] = item;
    *item.place = at + 1;
}

static void settle(struct heap *h, size_t at)
{
    struct heap_item item = h->items[at];
    for (; at > 0 && before(&item, &h->items[(at - 1) / 2]); at = (at - 1) / 2)
        sit(h, at, h->items[(at - 1) / 2]);
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= h->count)
            break;
        if (child + 1 < h->count && before(&h->items[child + 1], &h->items[child]))
            child++;
        if (!before(&h->items[child], &item))
            break;
        sit(h, at, h->items[child]);
        at = child;
    }
    sit(h, at, item);
}

void heap_put(struct heap *h, void *what, size_t *place, uint64_t due)
{
    if (*place == 0) {
        if (h->count == h->cap) {
            size_t cap = h->cap ? 2 * h->cap : 64;
            struct heap_item *items = realloc(h->items, cap * sizeof *items);
            check(items != NULL);
            h->items = items;
            h->cap = cap;
        }
        *place = ++h->count;
    }
    size_t at = *place - 1;
    check(at < h->count);
    h->items[at] = (struct heap_item){.due = due, .turn = h->turn++, .place = place, .what = what};
    settle(h, at);
}

void heap_remove(struct heap *h, size_t *place)
{
    if (*place == 0)
        return;
    size_t at = *place - 1;
    check(at < h->count && h->items[at].place == place);
    *place = 0;
    struct heap_item last = h->items[--h->count];
    if (at == h->count)
        return;
    sit(h, at, last);
    settle(h, at);
}

const struct heap_item *heap_first(const struct heap *h) { return h->count ? &h->items[0] : NULL; }

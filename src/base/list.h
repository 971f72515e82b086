/* SPDX-License-Identifier: Apache-2.0
 * list.h: a ring of links that live inside what they link. An empty list, and a link in no list, points at itself. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "check.h"

struct link {
    struct link *prev, *next;
};

static inline void list_init(struct link *list) { list->prev = list->next = list; }
static inline bool list_empty(const struct link *list) { return list->next == list; }

static inline void list_append(struct link *list, struct link *item)
{
    item->prev = list->prev;
    item->next = list;
    list->prev->next = item;
    list->prev = item;
}

static inline void list_prepend(struct link *list, struct link *item) { list_append(list->next, item); }

/* Takes the item out of whatever list it is in; harmless when in none. */
static inline void list_remove(struct link *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    list_init(item);
}

/* The first item, taken out, or NULL. */
static inline struct link *list_take(struct link *list)
{
    struct link *item = list->next;
    if (item == list)
        return NULL;
    list_remove(item);
    return item;
}

#define list_entry(item, type, member) container_of(item, type, member)
#define list_each(at, list) for (struct link *at = (list)->next; at != (list); at = at->next)

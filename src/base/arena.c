/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"

#include <stdlib.h>
#include <string.h>

struct arena arena_new(size_t cap)
{
    struct arena a = {.start = malloc(cap)};
    a.cap = a.start ? cap : 0;
    return a;
}

void arena_free(struct arena *a)
{
    free(a->start);
    *a = (struct arena){0};
}

void *arena_take(struct arena *a, size_t n)
{
    size_t align = _Alignof(max_align_t), at = (a->used + align - 1) & ~(align - 1);
    if (at > a->cap || n > a->cap - at)
        return NULL;
    a->used = at + n;
    return memset(a->start + at, 0, n);
}

struct str arena_str(struct arena *a, struct str s)
{
    char *copy = s.len > 0 ? arena_take(a, s.len) : NULL;
    if (!copy)
        return (struct str){0};
    memcpy(copy, s.ptr, s.len);
    return (struct str){copy, s.len};
}

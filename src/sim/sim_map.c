/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_map.h"

#include <stdlib.h>

#include "check.h"
#include "hash.h"

/* ---- ground ---- */

struct sim_chunk {
    struct sim_chunk *older;
    size_t used, cap;
    _Alignas(max_align_t) char bytes[];
};
#define CHUNK_BYTES ((size_t)1000)
#define CHUNK_BYTES_MAX ((size_t)1 << 20)

static struct sim_chunk *chunk_for(struct sim_ground *g, size_t n)
{
    struct sim_chunk *c = g->chunks;
    if (c && n <= c->cap - c->used)
        return c;
    size_t cap = c && c->cap < CHUNK_BYTES_MAX ? c->cap * 2 : c ? CHUNK_BYTES_MAX : CHUNK_BYTES;
    if (cap < n)
        cap = n;
    c = malloc(sizeof *c + cap);
    check(c != NULL);
    *c = (struct sim_chunk){.older = g->chunks, .cap = cap};
    return g->chunks = c;
}

void *sim_take(struct sim_ground *g, size_t n)
{
    size_t align = _Alignof(max_align_t), whole = (n + align - 1) & ~(align - 1);
    check(whole >= n);
    struct sim_chunk *c = chunk_for(g, whole);
    char *at = c->bytes + c->used;
    c->used += whole;
    g->bytes += whole;
    return memset(at, 0, whole);
}

struct str sim_text(struct sim_ground *g, struct str s)
{
    if (s.len == 0)
        return (struct str){0};
    char *copy = sim_take(g, s.len);
    memcpy(copy, s.ptr, s.len);
    return (struct str){copy, s.len};
}

void sim_ground_reset(struct sim_ground *g)
{
    while (g->chunks && g->chunks->older) {
        struct sim_chunk *c = g->chunks;
        g->chunks = c->older;
        free(c);
    }
    if (g->chunks)
        g->chunks->used = 0;
    g->bytes = 0;
}

void sim_ground_free(struct sim_ground *g)
{
    sim_ground_reset(g);
    free(g->chunks);
    *g = (struct sim_ground){0};
}

/* ---- map ---- */

struct sim_slot {
    struct str key;
    uint64_t hash;
    void *value;    /* NULL: free */
};

/* Keyed with a constant: the same world must come out each time, and people who type ids into a demo cannot choose them to collide
 * without knowing that we read them. */
static uint64_t hash_of(struct str key) { return hash_keyed((struct hash_key){0x736b696c6c, 0x73696d}, key); }

static size_t find(const struct sim_map *m, struct str key, uint64_t hash)
{
    size_t at = hash & (m->cap - 1);
    while (m->slots[at].value && !(m->slots[at].hash == hash && str_eq(m->slots[at].key, key)))
        at = (at + 1) & (m->cap - 1);
    return at;
}

void *sim_map_get(const struct sim_map *m, struct str key)
{
    return m->count ? m->slots[find(m, key, hash_of(key))].value : NULL;
}

static void grow(struct sim_map *m)
{
    struct sim_map wide = {.cap = m->cap ? m->cap * 2 : 16, .count = m->count};
    wide.slots = calloc(wide.cap, sizeof *wide.slots);
    check(wide.slots != NULL);
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].value)
            wide.slots[find(&wide, m->slots[i].key, m->slots[i].hash)] = m->slots[i];
    free(m->slots);
    *m = wide;
}

void sim_map_put(struct sim_map *m, struct str key, void *value)
{
    check(value != NULL);
    if (4 * (m->count + 1) > 3 * m->cap)
        grow(m);
    uint64_t hash = hash_of(key);
    struct sim_slot *slot = &m->slots[find(m, key, hash)];
    m->count += slot->value == NULL;
    *slot = (struct sim_slot){.key = key, .hash = hash, .value = value};
}

void *sim_map_remove(struct sim_map *m, struct str key)
{
    if (m->count == 0)
        return NULL;
    size_t hole = find(m, key, hash_of(key)), mask = m->cap - 1;
    void *value = m->slots[hole].value;
    if (!value)
        return NULL;
    for (size_t at = (hole + 1) & mask; m->slots[at].value; at = (at + 1) & mask) {
        size_t home = m->slots[at].hash & mask;
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;    /* it would come to stand before its home */
        m->slots[hole] = m->slots[at];
        hole = at;
    }
    m->slots[hole] = (struct sim_slot){0};
    m->count--;
    return value;
}

void sim_map_free(struct sim_map *m)
{
    free(m->slots);
    *m = (struct sim_map){0};
}

bool sim_key_join(struct sim_key *k, const struct str *parts, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > sizeof k->memory - at || sizeof k->memory - at - parts[i].len < 2)
            return false;
        k->memory[at++] = (char)(parts[i].len >> 8);
        k->memory[at++] = (char)(parts[i].len & 0xff);
        if (parts[i].len > 0)
            memcpy(k->memory + at, parts[i].ptr, parts[i].len);
        at += parts[i].len;
    }
    k->str = (struct str){k->memory, at};
    return true;
}

struct str sim_key_of(struct sim_key *k, const struct str *parts, size_t count)
{
    check(sim_key_join(k, parts, count));
    return k->str;
}

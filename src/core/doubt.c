/* SPDX-License-Identifier: Apache-2.0
 * doubt.c: open addressing with a bounded number of probes; a slot whose time is over is free. */
#include "doubt.h"

#include <stddef.h>

#define PROBES 16

static uint32_t key_of(uint16_t activity, uint8_t bucket) { return (uint32_t)activity << 8 | bucket | 1u << 31; }

static size_t slot_at(uint32_t key, size_t probe) { return ((key * 0x9e3779b1u >> 8) + probe) & (DOUBT_SLOTS - 1); }

void doubt_add(struct doubt_table *t, uint16_t activity, uint8_t bucket, uint64_t now_us, uint64_t until_us)
{
    uint32_t key = key_of(activity, bucket);
    struct doubt_slot *free = NULL;
    for (size_t i = 0; i < PROBES; i++) {
        struct doubt_slot *s = &t->slots[slot_at(key, i)];
        if (s->key == key) {
            s->until_us = until_us > s->until_us ? until_us : s->until_us;
            return;
        }
        if (!free && (s->key == 0 || now_us >= s->until_us))
            free = s;
    }
    if (free)
        *free = (struct doubt_slot){key, until_us};
    else if (until_us > t->all_until_us)
        t->all_until_us = until_us;
}

bool doubt_holds(const struct doubt_table *t, uint16_t activity, uint8_t bucket, uint64_t now_us)
{
    uint32_t key = key_of(activity, bucket);
    if (now_us < t->all_until_us)
        return true;
    for (size_t i = 0; i < PROBES; i++) {
        const struct doubt_slot *s = &t->slots[slot_at(key, i)];
        if (s->key == key)
            return now_us < s->until_us;
    }
    return false;
}

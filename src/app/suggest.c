/* SPDX-License-Identifier: Apache-2.0
 * suggest.c: the optimal string alignment distance, three rows at a time. */
#include "suggest.h"

#include "check.h"

#define LONGEST 64

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

size_t suggest_distance(struct str a, struct str b)
{
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    if (a.len > LONGEST || b.len > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= b.len; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        now[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t change = last[j - 1] + (a.ptr[i - 1] != b.ptr[j - 1]);
            now[j] = least(least(last[j] + 1, now[j - 1] + 1), change);
            if (i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] && a.ptr[i - 2] == b.ptr[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
        size_t *spare = before;
        before = last, last = now, now = spare;
    }
    return last[b.len];
}

void suggest_offer(struct suggest *s, const char *word)
{
    size_t distance = suggest_distance(s->typed, str_of(word)), allowed = s->typed.len / 3 + 1;
    if (str_starts(str_of(word), s->typed) && s->typed.len >= 3)
        distance = 1;
    if (distance <= allowed && (!s->best || distance < s->distance)) {
        s->best = word;
        s->distance = distance;
    }
}

bool word_among(struct str word, const char *choices)
{
    for (const char *from = choices, *bar; *from; from = *bar ? bar + 1 : bar) {
        bar = from + strcspn(from, "|");
        if (str_eq(word, str_range(from, bar)))
            return true;
    }
    return false;
}

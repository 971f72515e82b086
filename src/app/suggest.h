/* SPDX-License-Identifier: Apache-2.0
 * suggest.h: "did you mean ...?", and which words may be typed at all. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "str.h"

/* How many letters to add, drop, change or swap to make one into the other; capped at 64. Texts beyond 64 letters are far from everything. */
size_t suggest_distance(struct str a, struct str b);

/* Keeps the nearest of the words offered. `best` is NULL while none was near enough to be worth saying. */
struct suggest {
    struct str typed;
    const char *best;
    size_t distance;
};
void suggest_offer(struct suggest *s, const char *word);

/* Whether it is one of the words of `choices`, which has bars between them: "table|json". */
bool word_among(struct str word, const char *choices);

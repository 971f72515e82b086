/* SPDX-License-Identifier: Apache-2.0
 * tolerant.h: reading what a broker takes for JSON. Keys may be bare numbers or whole objects. A cursor walks over the text
 * once, in the order of the text, without a tree; texts are unescaped in place, so the memory must be the reader's own.
 *
 *     for (struct str key; tolerant_member(&at, &key); )      inside an object that tolerant_enter(&at, '{') has opened
 *         if (str_eq(key, str_lit("name"))) tolerant_text(&at, &name);
 *         else tolerant_skip(&at);
 *
 * Anything malformed sets `bad` and ends every loop: ask it once at the end. Nesting is bounded. */
#pragma once
#include <stdbool.h>

#include "str.h"

struct tolerant {
    char *at, *end;
    unsigned depth;
    bool first;      /* the next member or item is the first of its object or array */
    bool bad;
};

static inline struct tolerant tolerant_over(char *text, size_t n) { return (struct tolerant){.at = text, .end = text + n}; }

/* Steps into an object '{' or an array '['; null counts as an empty one, and anything else is bad. False: there is nothing inside. */
bool tolerant_enter(struct tolerant *t, char bracket);
/* The next member of the object entered last: true and its key (empty for a key that is an object); the value must be read or skipped. */
bool tolerant_member(struct tolerant *t, struct str *key);
bool tolerant_item(struct tolerant *t);                         /* the same for an array */
/* The value as text: a string unescaped, or a bare word or number as it stands; null is {NULL, 0}. */
bool tolerant_text(struct tolerant *t, struct str *out);
bool tolerant_number(struct tolerant *t, int64_t *out);         /* a whole number, quoted or not; else bad */
bool tolerant_skip(struct tolerant *t);                         /* any value */
/* Nothing but blanks follows, and nothing was bad. */
bool tolerant_ended(struct tolerant *t);

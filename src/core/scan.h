/* SPDX-License-Identifier: Apache-2.0
 * scan.h: reading JSON of a known shape (RFC 8259, strict UTF-8) without memory of its own: the reader walks, the caller names what it
 * expects next. Used by core/request.c and core/message.c; fuzzed against jansson. The first fault stops it for good (`bad`). */
#pragma once
#include "arena.h"
#include "str.h"

#define SCAN_DEPTH 8    /* of a value that is skipped */

struct scan {
    const char *at, *end;
    bool bad;
};

static inline struct scan scan_of(struct str text) { return (struct scan){text.ptr, text.ptr + text.len, false}; }
/* Blanks, then exactly this character. */
bool scan_char(struct scan *, char c);
/* The next character after blanks, not taken; 0 at the end. */
char scan_peek(struct scan *);
/* A string, unescaped into memory of `to` (at most `most` bytes of it); false: none, malformed, or longer. */
bool scan_str(struct scan *, struct arena *to, size_t most, struct str *out);
/* An integer without fraction and exponent that fits. */
bool scan_i64(struct scan *, int64_t *out);
/* Any one value, thrown away, up to SCAN_DEPTH deep. */
bool scan_skip(struct scan *);
/* Only blanks are left. */
bool scan_end(struct scan *);

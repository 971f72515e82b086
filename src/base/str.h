/* SPDX-License-Identifier: Apache-2.0
 * str.h: text by value, a pointer and a length. A str owns nothing: it lives as long as what it points into. Never
 * terminated by a zero. {NULL, 0} is the empty text, which is what "absent" looks like. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *ptr;
    size_t len;
};

#define str_lit(literal) ((struct str){"" literal "", sizeof(literal) - 1})
#define STR_FMT "%.*s"
#define STR_ARG(s) (int)(s).len, (s).ptr

static inline struct str str_of(const char *z) { return (struct str){z, z ? strlen(z) : 0}; }
static inline struct str str_range(const char *from, const char *to) { return (struct str){from, (size_t)(to - from)}; }
static inline bool str_eq(struct str a, struct str b) { return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0); }

/* As str_eq, but A and a are one letter (ASCII only). */
bool str_eq_nocase(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);
/* Less than, equal, greater than zero, by bytes; a prefix comes first. */
int str_cmp(struct str a, struct str b);
struct str str_trim(struct str s);

/* Whole text is a decimal number that fits: true and the number. No sign but '-', no blanks, no empty text. */
bool str_to_i64(struct str s, int64_t *out);
bool str_to_u64(struct str s, uint64_t *out);
/* The same with a fraction and an exponent, and a sign of either kind; no hexadecimal, no "inf". */
bool str_to_real(struct str s, double *out);

/* An id of the mission as clients may send it: ^[A-Za-z0-9_-]{1,64}$ (interfaces: ids are strings). */
bool str_is_id(struct str s);

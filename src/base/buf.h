/* SPDX-License-Identifier: Apache-2.0
 * buf.h: bytes being written one after another. Two kinds with one set of verbs:
 *   fixed   over memory of the caller; what does not fit is dropped and `overflow` is set, to be asked once at the end;
 *   growing over its own memory, up to a bound given at birth; past the bound as fixed.
 * Adding never fails loudly; whoever sends a buf must ask buf_ok() first. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "str.h"

struct buf {
    char *ptr;
    size_t len;
    size_t cap;
    size_t bound;    /* 0: fixed; else the most it may grow to */
    bool overflow;
};

static inline struct buf buf_fixed(void *memory, size_t cap) { return (struct buf){.ptr = memory, .cap = cap}; }
static inline struct buf buf_growing(size_t bound) { return (struct buf){.bound = bound}; }
void buf_free(struct buf *b);    /* gives a growing one's memory back; harmless on any other */

static inline bool buf_ok(const struct buf *b) { return !b->overflow; }
static inline struct str buf_str(const struct buf *b) { return (struct str){b->ptr, b->len}; }
static inline void buf_reset(struct buf *b) { b->len = 0, b->overflow = false; }

/* Room for n more bytes, to be written at ptr + len by the caller, who then adds to len; NULL and overflow if there is none. */
char *buf_room(struct buf *b, size_t n);
void buf_drop_front(struct buf *b, size_t n);    /* forgets the first n bytes */

void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_add_str(struct buf *b, struct str s);
void buf_add_char(struct buf *b, char c);
void buf_add_u64(struct buf *b, uint64_t n);
void buf_add_i64(struct buf *b, int64_t n);
void buf_add_fmt(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Big-endian integers, as RocketMQ and PostgreSQL like them. */
void buf_add_be16(struct buf *b, uint16_t n);
void buf_add_be32(struct buf *b, uint32_t n);
void buf_add_be64(struct buf *b, uint64_t n);

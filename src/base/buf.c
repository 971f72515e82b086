/* SPDX-License-Identifier: Apache-2.0 */
#include "buf.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"

void buf_free(struct buf *b)
{
    if (b->bound > 0)
        free(b->ptr);
    *b = (struct buf){.bound = b->bound};
}

static bool grow(struct buf *b, size_t wanted)
{
    size_t cap = b->cap ? b->cap : 256;
    while (cap < wanted)
        cap *= 2;
    if (cap > b->bound)
        cap = b->bound;
    if (cap < wanted)
        return false;
    char *ptr = realloc(b->ptr, cap);
    if (!ptr)
        return false;
    b->ptr = ptr;
    b->cap = cap;
    return true;
}

char *buf_room(struct buf *b, size_t n)
{
    size_t wanted;
    if (b->overflow || __builtin_add_overflow(b->len, n, &wanted) || (wanted > b->cap && !(b->bound > 0 && grow(b, wanted)))) {
        b->overflow = true;
        return NULL;
    }
    return b->ptr + b->len;
}

void buf_drop_front(struct buf *b, size_t n)
{
    check(n <= b->len);
    if (n > 0 && n < b->len)
        memmove(b->ptr, b->ptr + n, b->len - n);
    b->len -= n;
}

void buf_add(struct buf *b, const void *bytes, size_t n)
{
    char *room = n > 0 ? buf_room(b, n) : NULL;
    if (room) {
        memcpy(room, bytes, n);
        b->len += n;
    }
}

void buf_add_str(struct buf *b, struct str s) { buf_add(b, s.ptr, s.len); }
void buf_add_char(struct buf *b, char c) { buf_add(b, &c, 1); }

void buf_add_u64(struct buf *b, uint64_t n)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    buf_add(b, digits + at, sizeof digits - at);
}

void buf_add_i64(struct buf *b, int64_t n)
{
    if (n < 0)
        buf_add_char(b, '-');
    buf_add_u64(b, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

void buf_add_fmt(struct buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(NULL, 0, format, args);
    va_end(args);
    check(wanted >= 0);
    char *room = buf_room(b, (size_t)wanted + 1);    /* vsnprintf writes a zero, which the next addition overwrites */
    if (!room)
        return;
    va_start(args, format);
    vsnprintf(room, (size_t)wanted + 1, format, args);
    va_end(args);
    b->len += (size_t)wanted;
}

void buf_add_be16(struct buf *b, uint16_t n)
{
    n = __builtin_bswap16(n);
    buf_add(b, &n, sizeof n);
}

void buf_add_be32(struct buf *b, uint32_t n)
{
    n = __builtin_bswap32(n);
    buf_add(b, &n, sizeof n);
}

void buf_add_be64(struct buf *b, uint64_t n)
{
    n = __builtin_bswap64(n);
    buf_add(b, &n, sizeof n);
}

/* SPDX-License-Identifier: Apache-2.0
 * json.h: writing JSON into a buf, member by member. Commas are put where they belong by looking at what stands before.
 * Reading is jansson's, except where core reads a fixed schema itself (core/request.c, core/message.c). */
#pragma once
#include "buf.h"

void json_open(struct buf *b);                     /* {  as a value */
void json_close(struct buf *b);                    /* }             */
void json_open_array(struct buf *b);               /* [  as a value */
void json_close_array(struct buf *b);              /* ]             */
void json_key(struct buf *b, const char *key);     /* "key":        */

/* A value (after json_key, or inside an array). */
void json_str(struct buf *b, struct str s);        /* escaped; bytes that are not UTF-8 become U+FFFD */
void json_i64(struct buf *b, int64_t n);
void json_u64(struct buf *b, uint64_t n);
void json_bool(struct buf *b, bool yes);
void json_none(struct buf *b);               /* null; not called json_null, which is jansson's */
void json_time(struct buf *b, int64_t unix_ms);    /* "2026-11-30T00:00:00.000Z" */
void json_raw(struct buf *b, struct str json);     /* already JSON */

/* A member in one go. */
void json_member_str(struct buf *b, const char *key, struct str s);
void json_member_text(struct buf *b, const char *key, const char *z);
void json_member_i64(struct buf *b, const char *key, int64_t n);
void json_member_u64(struct buf *b, const char *key, uint64_t n);
void json_member_real(struct buf *b, const char *key, double x);    /* twelve figures; null where it is not a number, or without end */
void json_member_bool(struct buf *b, const char *key, bool yes);
void json_member_time(struct buf *b, const char *key, int64_t unix_ms);
/* As above, but nothing at all where the text is empty or the time 0. */
void json_maybe_str(struct buf *b, const char *key, struct str s);
void json_maybe_time(struct buf *b, const char *key, int64_t unix_ms);

/* 24 characters of RFC 3339 in UTC with milliseconds, no zero. */
#define TIME_TEXT 24
void time_write(int64_t unix_ms, char out[TIME_TEXT]);
/* Reads what time_write writes, and RFC 3339 with any fraction and offset. */
bool time_parse(struct str s, int64_t *unix_ms);

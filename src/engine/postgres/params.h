/* SPDX-License-Identifier: Apache-2.0
 * params.h: the parameters of one call in PostgreSQL's binary formats, written one after another. What is written stays until
 * params_free, so that a call may be sent again. */
#pragma once
#include "buf.h"

#define PARAMS_MAX 24
#define PARAMS_BYTES ((size_t)8 << 20)

struct params {
    struct buf bytes;
    size_t start[PARAMS_MAX];
    int length[PARAMS_MAX];    /* -1: NULL */
    int count;
};

static inline struct params params_new(void) { return (struct params){.bytes = buf_growing(PARAMS_BYTES)}; }
static inline void params_free(struct params *p) { buf_free(&p->bytes); }

void params_null(struct params *p);
void params_text(struct params *p, struct str s);
static inline void params_bytes(struct params *p, struct str s) { params_text(p, s); }
void params_bool(struct params *p, bool yes);
void params_i16(struct params *p, int16_t n);
void params_i32(struct params *p, int32_t n);
void params_i64(struct params *p, int64_t n);

/* An array: open it with its element type and length, add exactly so many items, close it. */
enum params_type { PARAMS_BYTEA = 17, PARAMS_I64 = 20, PARAMS_I16 = 21, PARAMS_I32 = 23, PARAMS_TEXT = 25 };    /* the server's type numbers */
void params_array_open(struct params *p, enum params_type type, size_t count);
void params_item_text(struct params *p, struct str s);
void params_item_i16(struct params *p, int16_t n);
void params_item_i32(struct params *p, int32_t n);
void params_item_i64(struct params *p, int64_t n);
void params_array_close(struct params *p);

/* For PQsendQueryPrepared; `values` gets pointers that hold until the next write. */
void params_values(const struct params *p, const char *values[PARAMS_MAX]);

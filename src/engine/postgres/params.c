/* SPDX-License-Identifier: Apache-2.0 */
#include "params.h"

#include "check.h"

static size_t begin(struct params *p)
{
    check(p->count < PARAMS_MAX);
    p->start[p->count] = p->bytes.len;
    return p->bytes.len;
}

static void end(struct params *p)
{
    p->length[p->count] = (int)(p->bytes.len - p->start[p->count]);
    p->count++;
}

void params_null(struct params *p)
{
    begin(p);
    p->length[p->count++] = -1;
}

void params_text(struct params *p, struct str s)
{
    begin(p);
    buf_add_str(&p->bytes, s);
    end(p);
}

void params_bool(struct params *p, bool yes)
{
    begin(p);
    buf_add_char(&p->bytes, yes);
    end(p);
}

void params_i16(struct params *p, int16_t n)
{
    begin(p);
    buf_add_be16(&p->bytes, (uint16_t)n);
    end(p);
}

void params_i32(struct params *p, int32_t n)
{
    begin(p);
    buf_add_be32(&p->bytes, (uint32_t)n);
    end(p);
}

void params_i64(struct params *p, int64_t n)
{
    begin(p);
    buf_add_be64(&p->bytes, (uint64_t)n);
    end(p);
}

void params_array_open(struct params *p, enum params_type type, size_t count)
{
    begin(p);
    buf_add_be32(&p->bytes, count ? 1 : 0);    /* dimensions */
    buf_add_be32(&p->bytes, 0);                /* no NULLs */
    buf_add_be32(&p->bytes, type);
    if (count) {
        buf_add_be32(&p->bytes, (uint32_t)count);
        buf_add_be32(&p->bytes, 1);            /* counted from 1 */
    }
}

void params_item_text(struct params *p, struct str s)
{
    buf_add_be32(&p->bytes, (uint32_t)s.len);
    buf_add_str(&p->bytes, s);
}

void params_item_i16(struct params *p, int16_t n)
{
    buf_add_be32(&p->bytes, 2);
    buf_add_be16(&p->bytes, (uint16_t)n);
}

void params_item_i32(struct params *p, int32_t n)
{
    buf_add_be32(&p->bytes, 4);
    buf_add_be32(&p->bytes, (uint32_t)n);
}

void params_item_i64(struct params *p, int64_t n)
{
    buf_add_be32(&p->bytes, 8);
    buf_add_be64(&p->bytes, (uint64_t)n);
}

void params_array_close(struct params *p) { end(p); }

void params_values(const struct params *p, const char *values[PARAMS_MAX])
{
    for (int i = 0; i < p->count; i++)    /* an empty text is not NULL: any pointer will do for it */
        values[i] = p->length[i] < 0 ? NULL : p->bytes.ptr ? p->bytes.ptr + p->start[i] : "";
}

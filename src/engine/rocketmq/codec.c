/* SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"

#include "check.h"
#include "tolerant.h"

#define VERSION_OURS 477      /* 5.3.2: name servers quote their keys, a server shutting down says GO_AWAY */
#define LANGUAGE_CPP 1
#define KIND_JSON 0
#define KIND_BINARY 1
#define OPAQUE_AT 13          /* in a binary frame: 4 + 4, code 2, language 1, version 2 */

/* ---- reading integers: a reader that goes bad instead of too far ---- */

struct reader {
    const char *at, *end;
    bool bad;
};

static struct str bytes_of(struct reader *r, uint64_t n)
{
    if (r->bad || n > (uint64_t)(r->end - r->at)) {
        r->bad = true;
        return (struct str){0};
    }
    struct str s = {r->at, (size_t)n};
    r->at += n;
    return s;
}

static uint64_t integer(struct reader *r, unsigned width)
{
    struct str s = bytes_of(r, width);
    uint64_t value = 0;
    for (size_t i = 0; i < s.len; i++)
        value = value << 8 | (uint8_t)s.ptr[i];
    return value;
}

static uint32_t u32(struct reader *r) { return (uint32_t)integer(r, 4); }
static int32_t i32(struct reader *r) { return (int32_t)integer(r, 4); }
static int64_t i64(struct reader *r) { return (int64_t)integer(r, 8); }

/* ---- frames ---- */

bool frame_size(struct str bytes, size_t *size)
{
    *size = 0;
    if (bytes.len < 4)
        return true;
    struct reader r = {bytes.ptr, bytes.ptr + 4, false};
    uint32_t length = u32(&r);
    if (length < 4 || length > FRAME_MAX - 4)
        return false;
    *size = (size_t)length + 4;
    return true;
}

static bool keep_field(struct frame *f, struct str key, struct str value)
{
    if (f->field_count == FRAME_FIELDS_MAX)
        return false;
    f->fields[f->field_count++] = (struct field){key, value};
    return true;
}

static bool decode_binary(struct str header, struct frame *f)
{
    struct reader r = {header.ptr, header.ptr + header.len, false};
    f->code = (int16_t)integer(&r, 2);
    integer(&r, 1);
    f->version = (int16_t)integer(&r, 2);
    f->opaque = i32(&r);
    f->flag = i32(&r);
    f->remark = bytes_of(&r, u32(&r));
    struct str map = bytes_of(&r, u32(&r));
    if (r.bad)
        return false;
    for (struct reader m = {map.ptr, map.ptr + map.len, false}; m.at < m.end;) {
        struct str key = bytes_of(&m, integer(&m, 2));
        struct str value = bytes_of(&m, u32(&m));
        if (m.bad || !keep_field(f, key, value))
            return false;
    }
    return true;
}

static bool decode_fields(struct tolerant *t, struct frame *f)
{
    struct str key, value;
    if (!tolerant_enter(t, '{'))
        return !t->bad;
    while (tolerant_member(t, &key))
        if (!tolerant_text(t, &value) || !keep_field(f, key, value))
            return false;
    return !t->bad;
}

static bool decode_json(char *header, size_t n, struct frame *f)
{
    struct tolerant t = tolerant_over(header, n);
    struct str key;
    if (!tolerant_enter(&t, '{'))
        return false;
    while (tolerant_member(&t, &key)) {
        int64_t number = 0;
        int32_t *into = str_eq(key, str_lit("code")) ? &f->code : str_eq(key, str_lit("opaque")) ? &f->opaque :
                        str_eq(key, str_lit("flag")) ? &f->flag : str_eq(key, str_lit("version")) ? &f->version : NULL;
        if (into) {
            if (!tolerant_number(&t, &number) || number < INT32_MIN || number > INT32_MAX)
                return false;
            *into = (int32_t)number;
        } else if (str_eq(key, str_lit("remark"))) {
            tolerant_text(&t, &f->remark);
        } else if (str_eq(key, str_lit("extFields"))) {
            if (!decode_fields(&t, f))
                return false;
        } else {
            tolerant_skip(&t);
        }
    }
    return tolerant_ended(&t);
}

bool frame_decode(char *bytes, size_t size, struct frame *out)
{
    size_t told;
    *out = (struct frame){0};
    if (!frame_size((struct str){bytes, size}, &told) || told == 0 || told != size || size < 8)
        return false;
    struct reader r = {bytes + 4, bytes + size, false};
    uint32_t mark = u32(&r), kind = mark >> 24, header_length = mark & 0xffffff;
    char *header = bytes + 8;
    if (header_length > size - 8)
        return false;
    out->body = (struct str){header + header_length, size - 8 - header_length};
    if (kind == KIND_BINARY)
        return decode_binary((struct str){header, header_length}, out);
    return kind == KIND_JSON && decode_json(header, header_length, out);
}

struct str frame_field(const struct frame *f, const char *key)
{
    struct str wanted = str_of(key);
    for (size_t i = 0; i < f->field_count; i++)
        if (str_eq(f->fields[i].key, wanted))
            return f->fields[i].value;
    return (struct str){0};
}

bool frame_field_i64(const struct frame *f, const char *key, int64_t *out) { return str_to_i64(frame_field(f, key), out); }

struct frame_writer frame_begin(struct buf *out, int code, int32_t flag)
{
    struct frame_writer w = {.out = out, .start = out->len};
    check(code >= 0 && code <= INT16_MAX);    /* what does not fit 16 bits needs a JSON header */
    buf_add_be32(out, 0);
    buf_add_be32(out, 0);
    buf_add_be16(out, (uint16_t)code);
    buf_add_char(out, LANGUAGE_CPP);
    buf_add_be16(out, VERSION_OURS);
    buf_add_be32(out, 0);
    buf_add_be32(out, (uint32_t)flag);
    buf_add_be32(out, 0);    /* no remark */
    w.fields = out->len;
    buf_add_be32(out, 0);
    return w;
}

void frame_add(struct frame_writer *w, const char *key, struct str value)
{
    struct str name = str_of(key);
    if (value.len == 0)
        return;
    buf_add_be16(w->out, (uint16_t)name.len);
    buf_add_str(w->out, name);
    buf_add_be32(w->out, (uint32_t)value.len);
    buf_add_str(w->out, value);
}

void frame_add_i64(struct frame_writer *w, const char *key, int64_t value)
{
    char memory[20];
    struct buf digits = buf_fixed(memory, sizeof memory);
    buf_add_i64(&digits, value);
    frame_add(w, key, buf_str(&digits));
}

static void put_be32(char *at, size_t value)
{
    uint32_t n = __builtin_bswap32((uint32_t)value);
    memcpy(at, &n, sizeof n);
}

void frame_body(struct frame_writer *w) { w->body = w->out->len; }

void frame_end(struct frame_writer *w)
{
    if (!buf_ok(w->out))
        return;
    check(w->body >= w->fields + 4);
    put_be32(w->out->ptr + w->start, w->out->len - w->start - 4);
    put_be32(w->out->ptr + w->start + 4, (size_t)KIND_BINARY << 24 | (w->body - w->start - 8));
    put_be32(w->out->ptr + w->fields, w->body - w->fields - 4);
}

void frame_set_opaque(char *frame, int32_t opaque) { put_be32(frame + OPAQUE_AT, (uint32_t)opaque); }

/* ---- properties ---- */

bool property_fits(struct str value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.ptr[i] == 1 || value.ptr[i] == 2)
            return false;
    return true;
}

void property_add(struct buf *out, const char *name, struct str value)
{
    if (value.len == 0)
        return;
    buf_add_str(out, str_of(name));
    buf_add_char(out, 1);
    buf_add_str(out, value);
    buf_add_char(out, 2);
}

struct str property_find(struct str properties, const char *name)
{
    struct str wanted = str_of(name), found = {0};
    const char *at = properties.ptr, *end = at + properties.len;
    while (at < end) {
        const char *stop = memchr(at, 2, (size_t)(end - at));
        stop = stop ? stop : end;    /* the last 0x02 may be missing */
        const char *middle = memchr(at, 1, (size_t)(stop - at));
        if (middle && str_eq(str_range(at, middle), wanted) && middle + 1 < stop)
            found = str_range(middle + 1, stop);
        at = stop + 1;
    }
    return found;
}

/* ---- batch items ---- */

void batch_item(struct buf *out, struct str body, struct str properties)
{
    buf_add_be32(out, (uint32_t)(BATCH_ITEM_OVERHEAD + body.len + properties.len));
    buf_add_be32(out, 0);    /* magic */
    buf_add_be32(out, 0);    /* checksum: the broker's work */
    buf_add_be32(out, 0);    /* flag */
    buf_add_be32(out, (uint32_t)body.len);
    buf_add_str(out, body);
    buf_add_be16(out, (uint16_t)properties.len);
    buf_add_str(out, properties);
}

void batch_item_parts(struct str item, struct str *body, struct str *properties)
{
    struct reader r = {item.ptr + 16, item.ptr + item.len, false};
    *body = bytes_of(&r, u32(&r));
    *properties = bytes_of(&r, integer(&r, 2));
    check(!r.bad && r.at == r.end);
}

/* ---- stored messages ---- */

#define MAGIC_SHORT_TOPIC 0xdaa320a7u
#define MAGIC_LONG_TOPIC 0xdaa320abu
#define BORN_HOST_V6 0x10
#define STORE_HOST_V6 0x20

enum stored_step stored_next(struct str *rest, struct stored *out)
{
    *out = (struct stored){0};
    if (rest->len == 0)
        return STORED_END;
    struct reader all = {rest->ptr, rest->ptr + rest->len, false};
    uint32_t total = u32(&all);
    if (all.bad || total < 4)
        return STORED_BAD;
    struct str inner = bytes_of(&all, total - 4);
    struct reader r = {inner.ptr, inner.ptr + inner.len, all.bad};
    uint32_t magic = u32(&r), checksum = u32(&r);
    out->queue = i32(&r);
    out->flag = i32(&r);
    out->offset = i64(&r);
    out->physical = i64(&r);
    out->system_flag = i32(&r);
    out->born_ms = i64(&r);
    bytes_of(&r, out->system_flag & BORN_HOST_V6 ? 20 : 8);
    out->stored_ms = i64(&r);
    bytes_of(&r, out->system_flag & STORE_HOST_V6 ? 20 : 8);
    out->reconsumed = i32(&r);
    i64(&r);    /* offset of a prepared transaction */
    out->body = bytes_of(&r, u32(&r));
    out->topic = bytes_of(&r, integer(&r, magic == MAGIC_LONG_TOPIC ? 2 : 1));
    out->properties = bytes_of(&r, integer(&r, 2));
    if (r.bad || (magic != MAGIC_SHORT_TOPIC && magic != MAGIC_LONG_TOPIC))
        return STORED_BAD;
    out->intact = (crc32_of(out->body) & 0x7fffffff) == checksum;
    *rest = (struct str){all.at, (size_t)(all.end - all.at)};
    return STORED_ONE;
}

/* ---- CRC-32, eight bytes a step ---- */

static uint32_t crc_table[8][256];

__attribute__((constructor)) static void crc_table_fill(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        crc_table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            crc_table[t][i] = crc_table[t - 1][i] >> 8 ^ crc_table[0][crc_table[t - 1][i] & 255];
}

uint32_t crc32_of(struct str bytes)
{
    const uint8_t *p = (const uint8_t *)bytes.ptr;
    size_t n = bytes.len;
    uint32_t c = 0xffffffffu;
    for (; n >= 8; p += 8, n -= 8) {
        c ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        c = crc_table[7][c & 255] ^ crc_table[6][c >> 8 & 255] ^ crc_table[5][c >> 16 & 255] ^ crc_table[4][c >> 24] ^
            crc_table[3][p[4]] ^ crc_table[2][p[5]] ^ crc_table[1][p[6]] ^ crc_table[0][p[7]];
    }
    for (; n > 0; p++, n--)
        c = crc_table[0][(c ^ *p) & 255] ^ c >> 8;
    return ~c;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include "check.h"
#include "hash.h"
#include "ident.h"
#include "json.h"
#include "scan.h"

struct create_order message_of(struct bucket bucket, struct str user, const struct entry *entry, struct str trace, struct message_ids *ids)
{
    check(entry->token.unit > 0);
    ident_write(entry->ident, IDENT_RESERVATION, ids->reservation);
    ident_write(entry->ident, IDENT_MESSAGE, ids->message);
    return (struct create_order){
        .schema_version = MESSAGE_SCHEMA,
        .message = {ids->message, IDENT_ID_TEXT},
        .request = entry->request,
        .reservation = {ids->reservation, IDENT_ID_TEXT},
        .activity = bucket.activity,
        .sku = entry->sku,
        .user = user,
        .token = entry->token,
        .created_ms = entry->created_ms,
        .epoch = bucket.epoch,
        .trace = trace,
    };
}

/* ---- the mark ---- */

#define CONTENT_MAX 1024    /* six texts of 128 bytes at most with their lengths, five numbers */

static void put_text(struct buf *b, struct str s)
{
    char len = (char)s.len;
    check(s.len <= 128);
    buf_add_str(b, (struct str){&len, 1});
    buf_add_str(b, s);
}

static void put_number(struct buf *b, uint64_t n)
{
    char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(n >> (8 * i));
    buf_add_str(b, (struct str){bytes, sizeof bytes});
}

/* Each text with its length before it, so that no two messages have one content. The message's id is the reservation's. */
static uint64_t mark_of(struct hash_key key, const struct create_order *m)
{
    char memory[CONTENT_MAX];
    struct buf b = buf_fixed(memory, sizeof memory);
    put_number(&b, (uint64_t)m->schema_version);
    put_number(&b, (uint64_t)m->token.unit);
    put_number(&b, m->token.generation);
    put_number(&b, (uint64_t)m->created_ms);
    put_number(&b, m->epoch);
    put_text(&b, m->reservation);
    put_text(&b, m->request);
    put_text(&b, m->activity);
    put_text(&b, m->sku);
    put_text(&b, m->user);
    put_text(&b, m->trace);
    check(buf_ok(&b));
    uint64_t mark = hash_keyed(key, buf_str(&b));
    return mark != 0 ? mark : 1;
}

void message_seal(const struct ident_keys *keys, struct create_order *m) { m->mark = mark_of(keys->mark[0], m); }

bool message_genuine(const struct ident_keys *keys, const struct create_order *m)
{
    struct ident ident;
    bool marked = false;
    for (size_t i = 0; i < keys->checks; i++)
        marked |= mark_of(keys->mark[i], m) == m->mark;
    return ident_parse(m->reservation, IDENT_RESERVATION, &ident) && ident_ours(keys, ident) && marked;
}

static void write_mark(uint64_t mark, char out[16])
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(mark >> (56 - 8 * i));
    hex_write(bytes, sizeof bytes, out);
}

/* False: not as write_mark writes it. */
static bool read_mark(struct str text, uint64_t *mark)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return false;
        value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *mark = value;
    return text.len == 16;
}

/* ---- as JSON ---- */

void message_write(struct buf *b, const struct create_order *m)
{
    char token[TOKEN_TEXT];
    size_t len = token_write(m->token, token);
    json_open(b);
    json_member_i64(b, "schema_version", m->schema_version);
    json_member_str(b, "message_id", m->message);
    json_member_str(b, "request_id", m->request);
    json_member_str(b, "reservation_id", m->reservation);
    json_member_str(b, "activity_id", m->activity);
    json_member_str(b, "sku_id", m->sku);
    json_member_str(b, "user_id", m->user);
    json_member_str(b, "inventory_token_id", (struct str){token, len});
    json_member_time(b, "created_at", m->created_ms);
    json_member_i64(b, "epoch", m->epoch);
    json_maybe_str(b, "trace_id", m->trace);
    if (m->mark != 0) {
        char mark[2 * sizeof m->mark];
        write_mark(m->mark, mark);
        json_member_str(b, "mark", (struct str){mark, sizeof mark});
    }
    json_close(b);
}

/* The members we know. A bit each says it has come; trace_id and mark may be missing. */
enum { SCHEMA, EPOCH, MESSAGE, REQUEST, RESERVATION, ACTIVITY, SKU, USER, TOKEN, CREATED, TRACE, MARK, MEMBERS };
static const struct str names[MEMBERS] = {
    [SCHEMA] = str_lit("schema_version"), [EPOCH] = str_lit("epoch"), [MESSAGE] = str_lit("message_id"), [REQUEST] = str_lit("request_id"),
    [RESERVATION] = str_lit("reservation_id"), [ACTIVITY] = str_lit("activity_id"), [SKU] = str_lit("sku_id"), [USER] = str_lit("user_id"),
    [TOKEN] = str_lit("inventory_token_id"), [CREATED] = str_lit("created_at"), [TRACE] = str_lit("trace_id"), [MARK] = str_lit("mark")};

struct draft {
    unsigned seen;
    int64_t number[EPOCH + 1];
    struct str text[MEMBERS];
};

static bool member(struct scan *s, struct arena *a, struct draft *d)
{
    struct str name;
    char memory[256];
    struct arena small = {.start = memory, .cap = sizeof memory};
    if (!scan_str(s, &small, sizeof memory, &name) || !scan_char(s, ':'))
        return false;
    for (int i = 0; i < MEMBERS; i++) {
        if (!str_eq(name, names[i]))
            continue;
        if (d->seen & 1u << i)
            return false;
        d->seen |= 1u << i;
        return i <= EPOCH ? scan_i64(s, &d->number[i]) : scan_str(s, a, 128, &d->text[i]);
    }
    return scan_skip(s);
}

static bool filled(const struct draft *d, struct create_order *out)
{
    const unsigned all = (1u << MEMBERS) - 1, needed = all & ~(1u << TRACE | 1u << MARK);
    struct ident reservation, message;
    if ((d->seen & needed) != needed || d->number[EPOCH] < 1 || d->number[EPOCH] > 31)
        return false;
    for (int i = MESSAGE; i <= USER; i++)
        if (!str_is_id(d->text[i]))
            return false;
    if (!ident_parse(d->text[RESERVATION], IDENT_RESERVATION, &reservation) || !ident_parse(d->text[MESSAGE], IDENT_MESSAGE, &message))
        return false;
    if (!ident_eq(reservation, message))    /* else the good message of that name, in the same batch, might be taken for the false one */
        return false;
    *out = (struct create_order){
        .schema_version = d->number[SCHEMA], .message = d->text[MESSAGE], .request = d->text[REQUEST], .reservation = d->text[RESERVATION],
        .activity = d->text[ACTIVITY], .sku = d->text[SKU], .user = d->text[USER], .epoch = (uint8_t)d->number[EPOCH], .trace = d->text[TRACE]};
    if (d->seen & 1u << MARK && !read_mark(d->text[MARK], &out->mark))
        return false;
    return token_parse(d->text[TOKEN], &out->token) && out->token.unit < UNIT_MOST && out->token.generation <= INT32_MAX &&
           time_parse(d->text[CREATED], &out->created_ms);
}

enum reason message_read(struct str body, struct arena *a, struct create_order *out)
{
    struct scan s = scan_of(body);
    struct draft d = {0};
    *out = (struct create_order){0};
    if (body.len == 0 || body.len > MESSAGE_BODY_MAX || !scan_char(&s, '{'))
        return REASON_MESSAGE_UNREADABLE;
    bool good = true;
    do
        good = member(&s, a, &d);
    while (good && scan_peek(&s) == ',' && scan_char(&s, ','));
    /* A newer writer may have changed what we would choke on: its number is believed before the rest is judged. */
    if (d.seen & 1u << SCHEMA && d.number[SCHEMA] > MESSAGE_SCHEMA)
        return REASON_MESSAGE_TOO_NEW;
    if (!good || !scan_char(&s, '}') || !scan_end(&s) || d.number[SCHEMA] < 1 || !filled(&d, out))
        return REASON_MESSAGE_UNREADABLE;
    return REASON_OK;
}

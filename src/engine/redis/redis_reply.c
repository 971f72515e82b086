/* SPDX-License-Identifier: Apache-2.0
 * redis_reply.c: the other side of entry.lua and of the `gives` lines of the scripts. */
#include "redis_reply.h"

/* ---- errors -------------------------------------------------------------------------------------------------------------- */

/* First words of error replies that say: not executed. Everything else may have left something done. */
static const struct {
    const char *word;
    enum reason reason;
} errors[] = {
    {"LOADING", REASON_ENGINE_BUSY},     {"READONLY", REASON_ENGINE_BUSY},    {"BUSY", REASON_ENGINE_BUSY},
    {"MASTERDOWN", REASON_ENGINE_BUSY},  {"CLUSTERDOWN", REASON_ENGINE_BUSY}, {"TRYAGAIN", REASON_ENGINE_BUSY},
    {"MOVED", REASON_ENGINE_BUSY},       {"ASK", REASON_ENGINE_BUSY},         {"MISCONF", REASON_ENGINE_BUSY},
    {"NOREPLICAS", REASON_ENGINE_BUSY},  {"NOSCRIPT", REASON_ENGINE_BUSY},    {"OOM", REASON_DEPENDENCY_DOWN},
    {"NOAUTH", REASON_DEPENDENCY_DOWN},  {"NOPERM", REASON_DEPENDENCY_DOWN},  {"WRONGPASS", REASON_DEPENDENCY_DOWN},
};

static bool contains(struct str s, struct str what) { return memmem(s.ptr, s.len, what.ptr, what.len) != NULL; }

enum reason redis_reply_error(struct str message, bool *noscript)
{
    *noscript = false;
    /* An error inside a script carries the words of the command that met it, and where: the script was running. */
    if (message.len == 0 || contains(message, str_lit("@user_script")))
        return REASON_ENGINE_FAULT;
    const char *blank = memchr(message.ptr, ' ', message.len);
    struct str word = {message.ptr, blank ? (size_t)(blank - message.ptr) : message.len};
    for (size_t i = 0; i < countof(errors); i++)
        if (str_eq(word, str_of(errors[i].word))) {
            *noscript = str_eq(word, str_lit("NOSCRIPT"));
            return errors[i].reason;
        }
    return REASON_ENGINE_FAULT;
}

/* ---- elements ------------------------------------------------------------------------------------------------------------ */

static const redisReply *element(const redisReply *r, size_t i)
{
    return r && r->type == REDIS_REPLY_ARRAY && i < (size_t)r->elements ? r->element[i] : NULL;
}

static size_t length(const redisReply *r) { return r && r->type == REDIS_REPLY_ARRAY ? (size_t)r->elements : 0; }

/* Missing or no number: 0, and *fault. */
static int64_t integer(const redisReply *r, size_t i, bool *fault)
{
    const redisReply *e = element(r, i);
    if (e && e->type == REDIS_REPLY_INTEGER)
        return e->integer;
    *fault = true;
    return 0;
}

static struct str text(const redisReply *r, size_t i, bool *fault)
{
    const redisReply *e = element(r, i);
    if (e && e->type == REDIS_REPLY_STRING)
        return (struct str){e->str, (size_t)e->len};
    *fault = true;
    return (struct str){0};
}

static int64_t text_number(const redisReply *r, size_t i, bool *fault)
{
    int64_t n = 0;
    if (!str_to_i64(text(r, i, fault), &n))
        *fault = true;
    return n;
}

enum reason redis_reply_reason(const redisReply *reply)
{
    bool fault = false;
    int64_t reason = integer(reply, 0, &fault);
    return fault || reason < 0 || reason >= REASON_COUNT ? REASON_ENGINE_FAULT : (enum reason)reason;
}

/* ---- entries ------------------------------------------------------------------------------------------------------------- */

struct cursor {
    const uint8_t *at, *end;
    bool fault;
};

static const uint8_t *bytes(struct cursor *c, size_t n)
{
    if ((size_t)(c->end - c->at) < n) {
        c->fault = true;
        return NULL;
    }
    c->at += n;
    return c->at - n;
}

static uint64_t number(struct cursor *c, size_t n)
{
    const uint8_t *b = bytes(c, n);
    uint64_t value = 0;
    for (size_t i = 0; b && i < n; i++)
        value = value << 8 | b[i];
    return value;
}

static struct str short_text(struct cursor *c)
{
    size_t n = number(c, 1);
    const uint8_t *b = bytes(c, n);
    return b && n > 0 ? (struct str){(const char *)b, n} : (struct str){0};
}

#define ENTRY_LEAST 32    /* bytes of the shortest entry, a RELEASED one without texts */

struct names {
    const struct str *at;
    size_t count;
};

static bool names_split(struct str joined, struct arena *arena, struct names *out)
{
    size_t count = 1;
    for (size_t i = 0; i < joined.len; i++)
        count += joined.ptr[i] == ' ';
    struct str *at = arena_array(arena, struct str, count);
    if (!at)
        return false;
    const char *from = joined.ptr, *end = joined.ptr + joined.len;
    for (size_t i = 0; i < count; i++) {
        const char *blank = from < end ? memchr(from, ' ', (size_t)(end - from)) : NULL;
        at[i] = str_range(from, blank ? blank : end);
        from = blank ? blank + 1 : end;
    }
    *out = (struct names){at, count};
    return true;
}

static bool entry_read(struct cursor *c, struct entry *out, size_t *sku)
{
    *out = (struct entry){.why = REASON_OK};
    const uint8_t *ident = bytes(c, sizeof out->ident.bytes);
    uint64_t state = number(c, 1);
    *sku = number(c, 2);
    out->created_ms = (int64_t)number(c, 6);
    out->updated_ms = out->created_ms + (int64_t)number(c, 4);
    out->request = short_text(c);
    if (state == RESERVATION_RELEASED) {
        struct str why = short_text(c);
        out->superseded_by = short_text(c);
        if (why.len > 0 && !reason_parse(why, &out->why))
            c->fault = true;
    } else {
        out->token.unit = (int64_t)number(c, 6);
        out->token.generation = (uint32_t)number(c, 4);
        (void)short_text(c);    /* the nonce is the bucket's */
    }
    if (c->fault || state >= RESERVATION_STATE_COUNT)
        return false;
    memcpy(out->ident.bytes, ident, sizeof out->ident.bytes);
    out->state = (enum reservation_state)state;
    return true;
}

/* How many there are, room for them taken from the arena; -1: it is no list of entries, or there is no room. */
static int entries_read(struct str list, struct names names, struct arena *arena, const struct entry **out)
{
    struct cursor c = {(const uint8_t *)list.ptr, (const uint8_t *)list.ptr + list.len, false};
    struct entry *entries = list.len > 0 ? arena_array(arena, struct entry, list.len / ENTRY_LEAST + 1) : NULL;
    size_t count = 0, sku = 0;
    if (list.len > 0 && !entries)
        return -1;
    for (; c.at < c.end; count++) {
        if (!entry_read(&c, &entries[count], &sku) || sku >= names.count)
            return -1;
        entries[count].sku = names.at[sku];
    }
    *out = entries;
    return (int)count;
}

/* ---- each call ----------------------------------------------------------------------------------------------------------- */

static bool with_entry(enum reason reason)
{
    return reason == REASON_QUEUED || reason == REASON_ORDERED || reason == REASON_RELEASED || reason == REASON_ALREADY_PURCHASED;
}

enum reason redis_reply_reserve(const redisReply *reply, struct str sku, struct reserve_answer *out)
{
    enum reason reason = redis_reply_reason(reply);
    *out = (struct reserve_answer){0};
    if (reason == REASON_STALE_EPOCH || reason == REASON_ENGINE_FAULT)
        return reason;
    bool fault = false;
    out->sequence = (uint64_t)integer(reply, 1, &fault);
    out->now_ms = integer(reply, 2, &fault);
    struct str packed = text(reply, 3, &fault);
    out->starts_ms = integer(reply, 4, &fault);
    out->replayed = integer(reply, 5, &fault) != 0;
    if (fault || with_entry(reason) != (packed.len > 0))
        return REASON_ENGINE_FAULT;
    struct cursor c = {(const uint8_t *)packed.ptr, (const uint8_t *)packed.ptr + packed.len, false};
    size_t index;
    if (packed.len > 0 && !entry_read(&c, &out->entry, &index))
        return REASON_ENGINE_FAULT;
    out->entry.sku = packed.len > 0 ? sku : (struct str){0};    /* reserve.lua gives entries of the SKU that was asked for, and no other */
    return reason;
}

enum reason redis_reply_batch(const redisReply *reply, const uint16_t *order, size_t count, enum reason *verdicts)
{
    enum reason reason = redis_reply_reason(reply);
    if (reason != REASON_OK)
        return reason;
    bool fault = length(reply) != 2 + count;
    for (size_t i = 0; i < count; i++) {
        int64_t verdict = integer(reply, 2 + i, &fault);
        fault |= verdict < 0 || verdict >= REASON_COUNT;
        verdicts[order[i]] = fault ? REASON_ENGINE_FAULT : (enum reason)verdict;
    }
    return fault ? REASON_ENGINE_FAULT : REASON_OK;
}

enum reason redis_reply_look(const redisReply *reply, struct arena *arena, struct look_answer *out)
{
    enum reason reason = redis_reply_reason(reply);
    *out = (struct look_answer){0};
    if (reason != REASON_OK)
        return reason;
    bool fault = false;
    struct names names;
    out->now_ms = integer(reply, 1, &fault);
    struct str joined = text(reply, 2, &fault), list = text(reply, 3, &fault);
    out->sequence = (uint64_t)integer(reply, 4, &fault);
    if (fault || !names_split(joined, arena, &names))
        return REASON_ENGINE_FAULT;
    int count = entries_read(list, names, arena, &out->entries);
    out->count = count > 0 ? (size_t)count : 0;
    return count < 0 ? REASON_ENGINE_FAULT : REASON_OK;
}

static size_t undecided_of(const struct entry *entries, size_t count, struct str user, struct due_entry *out)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (!reservation_state_terminal(entries[i].state))
            out[n++] = (struct due_entry){user, entries[i]};
    return n;
}

enum reason redis_reply_due(const redisReply *reply, struct arena *arena, struct due_answer *out)
{
    enum reason reason = redis_reply_reason(reply);
    *out = (struct due_answer){0};
    if (reason != REASON_OK)
        return reason;
    bool fault = false;
    struct names names;
    out->sequence = (uint64_t)integer(reply, 1, &fault);
    out->now_ms = integer(reply, 2, &fault);
    struct str joined = text(reply, 3, &fault);
    out->waiting = (uint64_t)integer(reply, 4, &fault);
    size_t users = length(reply) > 5 ? (length(reply) - 5) / 2 : 0, room = 0;
    if (fault || !names_split(joined, arena, &names))
        return REASON_ENGINE_FAULT;
    const struct entry **lists = users > 0 ? arena_array(arena, const struct entry *, users) : NULL;
    int *counts = users > 0 ? arena_array(arena, int, users) : NULL;
    for (size_t i = 0; i < users && lists && counts; i++) {
        counts[i] = entries_read(text(reply, 6 + 2 * i, &fault), names, arena, &lists[i]);
        if (counts[i] < 0)
            return REASON_ENGINE_FAULT;
        room += (size_t)counts[i];
    }
    struct due_entry *entries = room > 0 ? arena_array(arena, struct due_entry, room) : NULL;
    if (users > 0 && (!lists || !counts || (room > 0 && !entries)))
        return REASON_ENGINE_FAULT;
    for (size_t i = 0; i < users; i++)
        out->count += undecided_of(lists[i], (size_t)counts[i], text(reply, 5 + 2 * i, &fault), entries + out->count);
    out->entries = entries;
    return fault ? REASON_ENGINE_FAULT : REASON_OK;
}

enum reason redis_reply_stock(const redisReply *reply, struct arena *arena, struct stock_answer *out)
{
    enum reason reason = redis_reply_reason(reply);
    *out = (struct stock_answer){0};
    if (reason != REASON_OK)
        return reason;
    bool fault = false;
    int64_t state = integer(reply, 3, &fault), bits = integer(reply, 10, &fault);
    *out = (struct stock_answer){
        .sequence = (uint64_t)integer(reply, 1, &fault), .now_ms = integer(reply, 2, &fault), .version = (uint64_t)integer(reply, 4, &fault),
        .seeded = integer(reply, 5, &fault) != 0, .mark = text(reply, 6, &fault), .restocks = (uint64_t)integer(reply, 7, &fault),
        .pending = (uint64_t)integer(reply, 8, &fault), .incarnation = text(reply, 9, &fault), .filter = text(reply, 11, &fault),
        .lost = text(reply, 12, &fault), .sku_count = length(reply) > 13 ? (length(reply) - 13) / 5 : 0};
    if (fault || state < 0 || state >= ACTIVITY_STATE_COUNT || bits <= 0 || bits > UINT32_MAX)
        return REASON_ENGINE_FAULT;
    out->state = (enum activity_state)state;
    out->closed = out->mark.len > 0;
    out->filter_bits = (uint32_t)bits;
    struct stock_sku *skus = out->sku_count > 0 ? arena_array(arena, struct stock_sku, out->sku_count) : NULL;
    if (out->sku_count > 0 && !skus)
        return REASON_ENGINE_FAULT;
    for (size_t i = 0, at = 13; i < out->sku_count; i++, at += 5)
        skus[i] = (struct stock_sku){
            .sku = text(reply, at, &fault), .free = (uint64_t)integer(reply, at + 1, &fault), .resting = (uint64_t)integer(reply, at + 2, &fault),
            .moving = (uint64_t)integer(reply, at + 3, &fault), .wanted = integer(reply, at + 4, &fault) != 0};
    out->skus = skus;
    return fault ? REASON_ENGINE_FAULT : REASON_OK;
}

enum reason redis_reply_close(const redisReply *reply, struct close_answer *out)
{
    enum reason reason = redis_reply_reason(reply);
    *out = (struct close_answer){0};
    if (reason != REASON_OK && reason != REASON_UNCHANGED)
        return reason;
    bool fault = false;
    out->sequence = (uint64_t)integer(reply, 1, &fault);
    out->incarnation = text(reply, 2, &fault);
    out->mark = text(reply, 3, &fault);
    return fault ? REASON_ENGINE_FAULT : reason;
}

enum reason redis_reply_prove(const redisReply *reply, struct str *policy, struct str *aof)
{
    enum reason reason = redis_reply_reason(reply);
    bool fault = false;
    *policy = text(reply, 1, &fault);
    *aof = text(reply, 2, &fault);
    return reason != REASON_OK ? reason : fault ? REASON_ENGINE_FAULT : REASON_OK;
}

enum reason redis_reply_reindex(const redisReply *reply, struct reindex_answer *out)
{
    enum reason reason = redis_reply_reason(reply);
    *out = (struct reindex_answer){0};
    if (reason != REASON_OK && reason != REASON_UNCHANGED)
        return reason;
    bool fault = false;
    out->sequence = (uint64_t)integer(reply, 1, &fault);
    out->cursor = text(reply, 2, &fault);
    out->mark = text(reply, 3, &fault);
    return fault || out->mark.len > MARK_TEXT ? REASON_ENGINE_FAULT : reason;
}

enum reason redis_reply_open(const redisReply *reply, struct open_answer *out)
{
    enum reason reason = redis_reply_reason(reply);
    *out = (struct open_answer){0};
    if (reason != REASON_OK && reason != REASON_UNCHANGED)
        return reason;
    bool fault = false;
    out->sequence = (uint64_t)integer(reply, 1, &fault);
    out->closed_ms = integer(reply, 2, &fault);
    return fault ? REASON_ENGINE_FAULT : reason;
}

/* The first 20 of the hexadecimal digits after the key; false: there are not so many. */
static bool info_digits(struct str info, struct str key, struct buf *out)
{
    const char *at = memmem(info.ptr, info.len, key.ptr, key.len), *end = info.ptr + info.len;
    size_t n = 0;
    for (at = at ? at + key.len : end; n < 20 && at + n < end && ((at[n] >= '0' && at[n] <= '9') || (at[n] >= 'a' && at[n] <= 'f')); n++)
        buf_add_char(out, at[n]);
    return n == 20;
}

struct str redis_reply_incarnation(struct str info, char out[INCARNATION_TEXT])
{
    struct buf b = buf_fixed(out, INCARNATION_TEXT);
    bool good = info_digits(info, str_lit("\nrun_id:"), &b);
    buf_add_char(&b, '-');
    good = good && info_digits(info, str_lit("\nmaster_replid:"), &b);
    return good && buf_ok(&b) ? buf_str(&b) : (struct str){0};
}

static bool held_units(const redisReply *reply, enum holding holding, struct str sku, struct held *out, size_t *count)
{
    bool fault = false;
    for (size_t i = 5; i + 1 < length(reply); i += 2) {
        int64_t unit = text_number(reply, i, &fault), generation = text_number(reply, i + 1, &fault);
        fault |= generation < 0 || generation > UINT32_MAX;
        out[(*count)++] = (struct held){.holding = holding, .sku = sku, .token = {unit, (uint32_t)generation}};
    }
    return !fault;
}

static bool held_reserved(const redisReply *reply, struct names names, struct arena *arena, struct held *out, size_t *count)
{
    bool fault = false;
    for (size_t i = 5; i + 1 < length(reply); i += 2) {
        const struct entry *entries = NULL;
        int n = entries_read(text(reply, i + 1, &fault), names, arena, &entries);
        fault |= n < 0;
        for (int k = 0; k < n; k++)
            if (!reservation_state_terminal(entries[k].state))
                out[(*count)++] = (struct held){
                    .holding = HOLDING_RESERVED, .sku = entries[k].sku, .token = entries[k].token, .user = text(reply, i, &fault),
                    .ident = entries[k].ident, .state = entries[k].state, .created_ms = entries[k].created_ms};
    }
    return !fault;
}

/* "rest 3 1024": what redis_words.c takes apart again for the next slice. */
static bool next_slice(const redisReply *reply, struct arena *arena, struct str *out)
{
    bool fault = false;
    struct str what = text(reply, 1, &fault), scan = text(reply, 3, &fault);
    int64_t which = integer(reply, 2, &fault);
    *out = (struct str){0};
    if (fault || what.len == 0)
        return !fault;
    char memory[64];
    struct buf b = buf_fixed(memory, sizeof memory);
    buf_add_str(&b, what);
    buf_add_char(&b, ' ');
    buf_add_i64(&b, which);
    buf_add_char(&b, ' ');
    buf_add_str(&b, scan);
    *out = arena_str(arena, buf_str(&b));
    return buf_ok(&b) && out->len > 0;
}

enum reason redis_reply_holdings(const redisReply *reply, struct str walked, size_t which, struct arena *arena, struct holdings_answer *out)
{
    enum reason reason = redis_reply_reason(reply);
    *out = (struct holdings_answer){0};
    if (reason != REASON_OK)
        return reason;
    bool fault = false, users = str_eq(walked, str_lit("users"));
    struct names names;
    struct str joined = text(reply, 4, &fault);
    if (fault || !next_slice(reply, arena, &out->cursor) || !names_split(joined, arena, &names) || (!users && which >= names.count))
        return REASON_ENGINE_FAULT;
    size_t room = 0;
    for (size_t i = 5; i + 1 < length(reply); i += 2)
        room += users ? text(reply, i + 1, &fault).len / ENTRY_LEAST + 1 : 1;
    struct held *held = room > 0 ? arena_array(arena, struct held, room) : NULL;
    if (fault || (room > 0 && !held))
        return REASON_ENGINE_FAULT;
    out->held = held;
    enum holding holding = str_eq(walked, str_lit("rest")) ? HOLDING_RESTING : HOLDING_FREE;
    bool good = users ? held_reserved(reply, names, arena, held, &out->count) : held_units(reply, holding, names.at[which], held, &out->count);
    return good ? REASON_OK : REASON_ENGINE_FAULT;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "redis_words.h"

#define NONCE_MOST 255                     /* what an entry can hold */
#define DUE_MOST 64
#define JITTER_MS 1500
#define STOCK_MOST ((int64_t)400 << 20)    /* a byte for each unit in one string of at most 512 MB */

_Static_assert(REDIS_ITEMS_MOST * 10 + 4 <= REDIS_WORDS_MOST, "a settle of verdicts that are all superseded fits too");
_Static_assert(WINNER_PROBES == 4, "win.lua sets four bits");

static void add(struct redis_words *w, struct str s)
{
    check(w->count < REDIS_WORDS_MOST);
    w->at[w->count++] = s;
}

/* What was put into the text since it stood at `from` is one word. */
static void add_packed(struct redis_words *w, size_t from) { add(w, (struct str){w->text.ptr + from, w->text.len - from}); }

static void add_number(struct redis_words *w, int64_t n)
{
    size_t from = w->text.len;
    buf_add_i64(&w->text, n);
    add_packed(w, from);
}

static void add_bool(struct redis_words *w, bool yes) { add(w, yes ? str_lit("1") : str_lit("0")); }

static void pack_u48(struct buf *b, int64_t n)
{
    buf_add_be16(b, (uint16_t)(n >> 32));
    buf_add_be32(b, (uint32_t)n);
}

/* The two numbers of the filter's probes, the second made odd as they use it; 0 and 0 where there is no hash. */
static void pack_hash(struct buf *b, uint64_t user_hash)
{
    buf_add_be32(b, (uint32_t)user_hash);
    buf_add_be32(b, user_hash ? (uint32_t)(user_hash >> 32) | 1 : 0);
}

static bool id_fits(struct str s) { return s.len <= REDIS_ID_MOST; }
static bool bucket_fits(const struct bucket *b) { return b->activity.len > 0 && id_fits(b->activity); }
static bool token_fits(struct token t) { return t.unit >= 0 && t.unit < UNIT_MOST; }

void redis_words_begin(struct redis_words *w, enum redis_script script, const struct bucket *b)
{
    w->count = 0;
    w->text = buf_fixed(w->memory, sizeof w->memory);
    add(w, str_lit("EVALSHA"));
    add(w, redis_script_sha(script));
    add(w, str_lit("1"));
    buf_add_str(&w->text, str_lit("sk:{"));
    buf_add_str(&w->text, b->activity);
    buf_add_char(&w->text, ':');
    buf_add_u64(&w->text, b->number);
    buf_add_str(&w->text, str_lit("}:"));
    buf_add_u64(&w->text, b->epoch);
    buf_add_str(&w->text, str_lit(":meta"));
    add(w, buf_str(&w->text));
}

/* ---- one ask ---------------------------------------------------------------------------------------------------------------- */

bool redis_words_reserve(struct redis_words *w, const struct reserve_ask *a)
{
    if (!bucket_fits(&a->bucket) || !id_fits(a->user) || !id_fits(a->sku) || !id_fits(a->request) || a->nonce.len > NONCE_MOST)
        return false;
    redis_words_begin(w, REDIS_SCRIPT_reserve, &a->bucket);
    add(w, a->user);
    add(w, a->sku);
    add(w, a->request);
    add(w, a->nonce);
    size_t from = w->text.len;
    buf_add(&w->text, a->ident.bytes, sizeof a->ident.bytes);
    pack_hash(&w->text, a->user_hash);
    buf_add_char(&w->text, (char)(a->replay_only | a->ledger_asked << 1 | a->sealed << 2));
    add_packed(w, from);
    return true;
}

bool redis_words_look(struct redis_words *w, const struct look_ask *a)
{
    if (!bucket_fits(&a->bucket) || !id_fits(a->user))
        return false;
    redis_words_begin(w, REDIS_SCRIPT_look, &a->bucket);
    add(w, a->user);
    return true;
}

bool redis_words_due(struct redis_words *w, const struct due_ask *a, uint32_t chance)
{
    if (!bucket_fits(&a->bucket))
        return false;
    redis_words_begin(w, REDIS_SCRIPT_due, &a->bucket);
    add_number(w, a->limit < DUE_MOST ? (int64_t)a->limit : DUE_MOST);
    add_number(w, chance % JITTER_MS);
    return true;
}

bool redis_words_stock(struct redis_words *w, const struct stock_ask *a)
{
    if (!bucket_fits(&a->bucket))
        return false;
    redis_words_begin(w, REDIS_SCRIPT_stock, &a->bucket);
    add_bool(w, a->with_filter);
    return true;
}

bool redis_words_close(struct redis_words *w, const struct close_ask *a)
{
    if (!bucket_fits(&a->bucket) || a->recorded.len > INCARNATION_TEXT)
        return false;
    redis_words_begin(w, REDIS_SCRIPT_close, &a->bucket);
    add(w, a->recorded);
    add_bool(w, a->went_back);
    add_number(w, (int64_t)a->highest);
    return true;
}

bool redis_words_reindex(struct redis_words *w, const struct reindex_ask *a)
{
    uint64_t scan = 0;
    if (!bucket_fits(&a->bucket) || a->mark.len == 0 || a->mark.len > MARK_TEXT || (a->cursor.len > 0 && !str_to_u64(a->cursor, &scan)))
        return false;
    redis_words_begin(w, REDIS_SCRIPT_reindex, &a->bucket);
    add(w, a->mark);
    add(w, a->cursor.len > 0 ? a->cursor : str_lit("0"));
    return true;
}

bool redis_words_open(struct redis_words *w, const struct open_ask *a)
{
    if (!bucket_fits(&a->bucket) || a->mark.len == 0 || a->mark.len > MARK_TEXT)
        return false;
    redis_words_begin(w, REDIS_SCRIPT_open, &a->bucket);
    add(w, a->mark);
    return true;
}

/* ---- install ---------------------------------------------------------------------------------------------------------------- */

/* About 10 bits for each unit that this bucket may sell, and some for a bucket of few. */
static int64_t filter_bits(const struct activity *a)
{
    int64_t stock = 0, buckets = a->buckets > 0 ? a->buckets : 1;
    for (size_t i = 0; i < a->sku_count; i++)
        stock += a->skus[i].stock;
    int64_t bits = 10 * ((stock + buckets - 1) / buckets) + 640;
    return bits < UINT32_MAX ? bits : UINT32_MAX;
}

static bool install_fits(const struct install_ask *ask)
{
    const struct activity *a = ask->activity;
    bool fits = bucket_fits(&ask->bucket) && a->sku_count <= REDIS_SKUS_MOST;
    for (size_t i = 0; fits && i < a->sku_count; i++)
        fits = a->skus[i].sku.len > 0 && id_fits(a->skus[i].sku) && a->skus[i].stock >= 0 && a->skus[i].stock <= STOCK_MOST &&
               a->skus[i].unit_first >= 0 && a->skus[i].unit_first < UNIT_MOST - STOCK_MOST;
    return fits;
}

static void add_names(struct redis_words *w, const struct activity *a)
{
    size_t from = w->text.len;
    for (size_t i = 0; i < a->sku_count; i++) {
        if (i > 0)
            buf_add_char(&w->text, ' ');
        buf_add_str(&w->text, a->skus[i].sku);
    }
    add_packed(w, from);
}

/* Index, first unit, units: as entry.lua says. */
static void add_shelf(struct redis_words *w, size_t index, const struct sku *sku)
{
    size_t from = w->text.len;
    buf_add_be16(&w->text, (uint16_t)index);
    pack_u48(&w->text, sku->unit_first);
    pack_u48(&w->text, sku->stock);
    add_packed(w, from);
}

bool redis_words_install(struct redis_words *w, const struct install_ask *ask)
{
    const struct activity *a = ask->activity;
    if (!install_fits(ask))
        return false;
    redis_words_begin(w, REDIS_SCRIPT_install, &ask->bucket);
    add_number(w, a->state);
    add_number(w, (int64_t)a->version);
    add_number(w, a->starts_ms);
    add_number(w, a->ends_ms);
    add_number(w, ask->seeded | ask->create << 1);
    add_number(w, filter_bits(a));
    add_names(w, a);
    for (size_t i = 0; i < a->sku_count; i++) {
        add(w, a->skus[i].sku);
        add_shelf(w, i, &a->skus[i]);
        add_number(w, a->skus[i].stock);
    }
    return true;
}

/* ---- holdings --------------------------------------------------------------------------------------------------------------- */

/* "rest 3 1024" → its three words; the empty cursor is the beginning. */
static bool cursor_split(struct str cursor, struct redis_slice *s)
{
    *s = (struct redis_slice){str_lit("free"), str_lit("0"), str_lit("0"), 0};
    if (cursor.len == 0)
        return true;
    const char *first = memchr(cursor.ptr, ' ', cursor.len), *end = cursor.ptr + cursor.len;
    const char *second = first ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;
    if (!second)
        return false;
    s->walked = str_range(cursor.ptr, first);
    s->which = str_range(first + 1, second);
    s->scan = str_range(second + 1, end);
    return true;
}

static bool slice_fits(struct redis_slice *s)
{
    uint64_t which, scan;
    if (!str_to_u64(s->which, &which) || !str_to_u64(s->scan, &scan) || which >= REDIS_SKUS_MOST)
        return false;
    s->number = which;
    return str_eq(s->walked, str_lit("free")) || str_eq(s->walked, str_lit("rest")) || str_eq(s->walked, str_lit("users"));
}

bool redis_words_holdings(struct redis_words *w, const struct holdings_ask *a, struct redis_slice *s)
{
    if (!bucket_fits(&a->bucket) || !cursor_split(a->cursor, s) || !slice_fits(s))
        return false;
    redis_words_begin(w, REDIS_SCRIPT_holdings, &a->bucket);
    add(w, s->walked);
    add(w, s->which);
    add(w, s->scan);
    return true;
}

/* ---- items of a batch ------------------------------------------------------------------------------------------------------- */

static bool is_verdict(enum reservation_state s) { return s == RESERVATION_ORDERED || s == RESERVATION_RELEASED; }

/* The 128 bits of "rsv_…" (Crockford's base32, 26 letters). */
static bool ident_of(struct str id, struct ident *out)
{
    static const char letters[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    if (id.len != IDENT_ID_TEXT)
        return false;
    unsigned __int128 bits = 0;
    for (size_t i = 4; i < id.len; i++) {
        const char *at = memchr(letters, id.ptr[i], sizeof letters - 1);
        if (!at || (i == 4 && at - letters > 7))
            return false;
        bits = bits << 5 | (unsigned)(at - letters);
    }
    for (size_t i = sizeof out->bytes; i-- > 0; bits >>= 8)
        out->bytes[i] = (uint8_t)bits;
    return true;
}

bool redis_words_settle_fits(const void *item)
{
    const struct settle_ask *a = item;
    struct ident other;
    return bucket_fits(&a->bucket) && id_fits(a->user) && id_fits(a->request) && id_fits(a->sku) &&
           (a->to == RESERVATION_RELEASED || token_fits(a->token)) &&    /* a RELEASED entry holds no unit */
           (a->superseded_by.len == 0 || (ident_of(a->superseded_by, &other) && id_fits(a->superseded_request) && id_fits(a->superseded_sku)));
}

void redis_words_settle(struct redis_words *w, const void *item)
{
    const struct settle_ask *a = item;
    add(w, a->user);
    size_t from = w->text.len;
    buf_add(&w->text, a->ident.bytes, sizeof a->ident.bytes);
    buf_add_char(&w->text, (char)a->to);
    add_packed(w, from);
    if (!is_verdict(a->to))
        return;
    bool released = a->to == RESERVATION_RELEASED;
    from = w->text.len;
    pack_u48(&w->text, released ? 0 : a->token.unit);
    buf_add_be32(&w->text, released ? 0 : a->token.generation);
    pack_hash(&w->text, a->user_hash);
    add_packed(w, from);
    add(w, released && a->why != REASON_OK ? str_of(reason_word(a->why)) : (struct str){0});
    add(w, a->request);
    add(w, a->sku);
    add(w, released ? a->superseded_by : (struct str){0});
    if (!released || a->superseded_by.len == 0)
        return;
    struct ident other;
    check(ident_of(a->superseded_by, &other));
    from = w->text.len;
    buf_add(&w->text, other.bytes, sizeof other.bytes);
    add_packed(w, from);
    add(w, a->superseded_request);
    add(w, a->superseded_sku);
}

bool redis_words_restock_fits(const void *item)
{
    const struct restock_ask *a = item;
    return bucket_fits(&a->bucket) && id_fits(a->sku) && token_fits(a->token) && a->token.unit > 0;
}

void redis_words_restock(struct redis_words *w, const void *item)
{
    const struct restock_ask *a = item;
    add(w, a->sku);
    add_number(w, a->token.unit);
    add_number(w, a->token.generation);
}

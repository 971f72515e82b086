/* SPDX-License-Identifier: Apache-2.0
 * redis.c: the calls of the store as commands, and the commands' ends as answers.
 *
 * A call has one command, or, where a batch spans buckets, several ("parts"): each bucket is an atom of its own. A call ends when its
 * last part has, or at its deadline; then it lets go of the parts still under way. A call that cannot even begin (no connection, no room)
 * still ends in the next turn of the loop and never inside the call: that is what a refusal is for. */
#include "redis.h"

#include <stdlib.h>

#include "heap.h"
#include "list.h"
#include "metric.h"
#include "redis_link.h"
#include "redis_reply.h"

#define ID_MOST 64                     /* bytes of an id (str_is_id) */
#define NONCE_MOST 255                 /* what an entry can hold */
#define PART_ITEMS 64                  /* of one command: a script is not to hold the server up */
#define SKUS_MOST 256
#define WORDS_MOST (4 + 7 + 3 * SKUS_MOST)    /* of install, the longest */
_Static_assert(PART_ITEMS * 10 + 4 <= WORDS_MOST, "a settle of verdicts that are all superseded fits too");
#define ANSWER_BYTES (8u << 20)
#define NODES 1                        /* of a cluster; each will own slots. One owns them all for now */

_Static_assert(WINNER_PROBES == 4, "win.lua sets four bits");

enum kind { RESERVE, SETTLE, RESTOCK, LOOK, DUE, STOCK, INSTALL, HOLDINGS, CLOSE, OPEN };

/* A call in flight. */
struct call {
    struct slot slot;
    struct link link;              /* free, or nowhere */
    struct link parts;             /* redis_command.of_owner */
    size_t place;                  /* in the deadlines */
    enum kind kind;
    char text[ID_MOST];            /* RESERVE: the SKU; HOLDINGS: what is walked */
    size_t text_len;
    size_t which;                  /* HOLDINGS: number of the SKU */
    bool some_known;               /* batch: the server has answered for some items */
    enum reason common;            /* batch: how all parts so far have failed, or OK: none has yet */
    bool mixed;                    /* batch: they failed in different ways */
    size_t count;
    struct batch_memory *batch;
};
struct batch_memory {
    enum reason verdicts[STORE_BATCH_MAX];
    uint16_t order[STORE_BATCH_MAX];    /* items in the order of the parts */
    struct batch_memory *next;          /* spare */
};

/* A call that did not begin. */
struct refusal {
    struct slot slot;
    struct link link;
    enum reason reason;
    const void *result;
};

struct node {
    struct redis_store *store;
    struct redis_link *link;
};

struct redis_store {
    struct store store;
    struct redis_options options;
    struct node nodes[NODES];
    struct call *calls;
    struct link free, refusals;
    struct batch_memory *batches;      /* spare ones: what was needed once is kept for the next */
    struct heap deadlines;
    uint64_t armed_us;                 /* what the timer stands at; 0: it does not run */
    uv_timer_t timer;
    uv_idle_t turn;
    unsigned open;                     /* links and handles not yet closed */
    bool closing;
    void (*closed)(void *);
    void *closed_arg;
    struct arena arena;                /* of the answer that is being told */
    uint64_t dice;
};

static struct redis_store *redis_of(struct store *s) { return container_of(s, struct redis_store, store); }
static uint64_t mono_us(void) { return uv_hrtime() / 1000; }

/* Where a bucket lives: by the slot of its hash tag once there are several nodes. */
static struct node *node_of(struct redis_store *r, const struct bucket *bucket)
{
    (void)bucket;
    return &r->nodes[0];
}

static void on_turn(uv_idle_t *turn);
static void on_timer(uv_timer_t *timer);

/* ---- ends ---------------------------------------------------------------------------------------------------------------- */

static void count_failure(enum reason reason)
{
    switch (reason) {
    case REASON_TIMED_OUT:
    case REASON_LINK_LOST:
    case REASON_ENGINE_FAULT:
    case REASON_ENGINE_BUSY:
    case REASON_ENGINE_REFUSED:
    case REASON_DEPENDENCY_DOWN:
    case REASON_OVERLOADED: metric_add(METRIC_ENGINE_CALLS, reason, 1); break;
    default: break;
    }
}

static struct batch_memory *batch_new(struct redis_store *r)
{
    struct batch_memory *b = r->batches ? r->batches : calloc(1, sizeof *b);
    check(b != NULL);
    r->batches = b->next;
    return b;
}

static void batch_free(struct redis_store *r, struct batch_memory *b)
{
    if (!b)
        return;
    b->next = r->batches;
    r->batches = b;
}

/* The call's memory is free before its waiter hears, who may call again at once: what he hears lies in the reply, the arena, the batch. */
static void finish(struct redis_store *r, struct call *c, enum reason reason, const void *result)
{
    struct slot told = c->slot;
    struct batch_memory *batch = c->batch;
    heap_remove(&r->deadlines, &c->place);
    c->batch = NULL;
    c->slot.waiter = NULL;
    list_append(&r->free, &c->link);
    count_failure(reason);
    if (told.waiter) {
        told.waiter->slot = &told;
        slot_wake(&told, reason, result);
    }
    batch_free(r, batch);
}

static void refuse_with(struct redis_store *r, struct waiter *w, enum reason reason, const void *result)
{
    struct refusal *refusal = calloc(1, sizeof *refusal);
    check(refusal != NULL);
    refusal->reason = reason;
    refusal->result = result;
    slot_arm(&refusal->slot, w);
    list_append(&r->refusals, &refusal->link);
    if (!r->closing)
        uv_idle_start(&r->turn, on_turn);
}

static void tell_refusals(struct redis_store *r)
{
    struct link now;    /* those that come while these are told wait for the next turn */
    list_init(&now);
    for (struct link *at; (at = list_take(&r->refusals));)
        list_append(&now, at);
    for (struct link *at; (at = list_take(&now));) {
        struct refusal *refusal = list_entry(at, struct refusal, link);
        count_failure(refusal->reason);
        slot_wake(&refusal->slot, refusal->reason, refusal->result);
        free(refusal);
    }
}

static void on_turn(uv_idle_t *turn)
{
    uv_idle_stop(turn);
    tell_refusals(turn->data);
}

/* ---- beginnings ---------------------------------------------------------------------------------------------------------- */

static struct call *call_new(struct redis_store *r, enum kind kind)
{
    struct link *at = list_take(&r->free);
    if (!at)
        return NULL;
    struct call *c = list_entry(at, struct call, link);
    c->kind = kind;
    c->some_known = c->mixed = false;
    c->common = REASON_OK;
    c->batch = NULL;
    return c;
}

static void call_refuse(struct redis_store *r, struct call *c, struct waiter *w, enum reason reason)
{
    while (!list_empty(&c->parts)) {
        struct redis_command *part = list_entry(c->parts.next, struct redis_command, of_owner);
        redis_link_give_back(node_of(r, NULL)->link, part);
    }
    batch_free(r, c->batch);
    c->batch = NULL;
    list_append(&r->free, &c->link);
    refuse_with(r, w, reason, NULL);
}

static void arm(struct redis_store *r)
{
    const struct heap_item *first = heap_first(&r->deadlines);
    if (!first || (r->armed_us != 0 && r->armed_us <= first->due))
        return;
    uint64_t now_us = mono_us();
    r->armed_us = first->due;
    uv_update_time(r->options.loop);    /* a timer counts from the loop's time, which may be old */
    uv_timer_start(&r->timer, on_timer, first->due > now_us ? (first->due - now_us) / 1000 + 1 : 1, 0);
}

static void call_go(struct redis_store *r, struct call *c, struct waiter *w, uint32_t budget_ms)
{
    slot_arm(&c->slot, w);
    heap_put(&r->deadlines, c, &c->place, mono_us() + (uint64_t)(w->budget_ms ? w->budget_ms : budget_ms) * 1000);
    arm(r);
    list_each(at, &c->parts)
        redis_link_send(node_of(r, NULL)->link, list_entry(at, struct redis_command, of_owner));
}

/* A command being put together: EVALSHA of a script on a bucket, and its arguments. */
struct words {
    struct str at[WORDS_MOST];
    size_t count;
    struct buf text;       /* what is not the caller's: the key, numbers, packed bytes */
    char memory[24 * 1024];
};

static void add(struct words *w, struct str s)
{
    check(w->count < WORDS_MOST);
    w->at[w->count++] = s;
}

/* What was put into the text since it stood at `from` is one word. */
static void add_packed(struct words *w, size_t from) { add(w, (struct str){w->text.ptr + from, w->text.len - from}); }

static void add_number(struct words *w, int64_t n)
{
    size_t from = w->text.len;
    buf_add_i64(&w->text, n);
    add_packed(w, from);
}

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

static void words_begin(struct words *w, enum redis_script script, const struct bucket *b)
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

static void put(struct buf *b, char mark, size_t n)
{
    buf_add_char(b, mark);
    buf_add_u64(b, n);
    buf_add(b, "\r\n", 2);
}

/* OK, OVERLOADED (no command free) or ENGINE_REFUSED (larger than anything we mean to send). */
static enum reason part_add(struct redis_store *r, struct call *c, const struct bucket *bucket, enum redis_script script, const struct words *w)
{
    struct redis_command *part = redis_link_take(node_of(r, bucket)->link, c->batch != NULL);
    if (!part)
        return REASON_OVERLOADED;
    part->owner = c;
    part->script = script;
    part->from = part->count = 0;
    list_append(&c->parts, &part->of_owner);
    put(&part->bytes, '*', w->count);
    for (size_t i = 0; i < w->count; i++) {
        put(&part->bytes, '$', w->at[i].len);
        buf_add_str(&part->bytes, w->at[i]);
        buf_add(&part->bytes, "\r\n", 2);
    }
    return buf_ok(&w->text) && buf_ok(&part->bytes) ? REASON_OK : REASON_ENGINE_REFUSED;
}

static bool id_fits(struct str s) { return s.len <= ID_MOST; }
static bool bucket_fits(const struct bucket *b) { return b->activity.len > 0 && id_fits(b->activity); }

/* NULL: refused already. */
static struct call *call_begin(struct redis_store *r, enum kind kind, bool fits, struct waiter *w)
{
    enum reason reason = !fits ? REASON_ENGINE_REFUSED : !redis_link_up(node_of(r, NULL)->link) ? REASON_DEPENDENCY_DOWN : REASON_OK;
    struct call *c = reason == REASON_OK ? call_new(r, kind) : NULL;
    if (!c)
        refuse_with(r, w, reason == REASON_OK ? REASON_OVERLOADED : reason, NULL);
    return c;
}

static void call_one(struct redis_store *r, struct call *c, const struct bucket *bucket, enum redis_script script, const struct words *words,
                     struct waiter *w, uint32_t budget_ms)
{
    enum reason reason = part_add(r, c, bucket, script, words);
    if (reason == REASON_OK)
        call_go(r, c, w, budget_ms);
    else
        call_refuse(r, c, w, reason);
}

/* ---- the calls ------------------------------------------------------------------------------------------------------------ */

static void redis_reserve(struct store *store, const struct reserve_ask *ask, struct waiter *w)
{
    struct redis_store *r = redis_of(store);
    bool fits = bucket_fits(&ask->bucket) && id_fits(ask->user) && id_fits(ask->sku) && id_fits(ask->request) && ask->nonce.len <= NONCE_MOST;
    struct call *c = call_begin(r, RESERVE, fits, w);
    if (!c)
        return;
    memcpy(c->text, ask->sku.ptr, ask->sku.len);
    c->text_len = ask->sku.len;
    struct words words;
    words_begin(&words, REDIS_SCRIPT_reserve, &ask->bucket);
    add(&words, ask->user);
    add(&words, ask->sku);
    add(&words, ask->request);
    add(&words, ask->nonce);
    size_t from = words.text.len;
    buf_add(&words.text, ask->ident.bytes, sizeof ask->ident.bytes);
    pack_hash(&words.text, ask->user_hash);
    buf_add_char(&words.text, (char)(ask->replay_only | ask->ledger_asked << 1 | ask->sealed << 2));
    add_packed(&words, from);
    call_one(r, c, &ask->bucket, REDIS_SCRIPT_reserve, &words, w, r->options.reserve_ms);
}

static void redis_look(struct store *store, const struct look_ask *ask, struct waiter *w)
{
    struct redis_store *r = redis_of(store);
    struct call *c = call_begin(r, LOOK, bucket_fits(&ask->bucket) && id_fits(ask->user), w);
    if (!c)
        return;
    struct words words;
    words_begin(&words, REDIS_SCRIPT_look, &ask->bucket);
    add(&words, ask->user);
    call_one(r, c, &ask->bucket, REDIS_SCRIPT_look, &words, w, r->options.read_ms);
}

#define DUE_MOST 64
#define JITTER_MS 1500
static void redis_due(struct store *store, const struct due_ask *ask, struct waiter *w)
{
    struct redis_store *r = redis_of(store);
    struct call *c = call_begin(r, DUE, bucket_fits(&ask->bucket), w);
    if (!c)
        return;
    r->dice = r->dice * 6364136223846793005u + 1442695040888963407u;
    struct words words;
    words_begin(&words, REDIS_SCRIPT_due, &ask->bucket);
    add_number(&words, ask->limit < DUE_MOST ? (int64_t)ask->limit : DUE_MOST);
    add_number(&words, (int64_t)((r->dice >> 33) % JITTER_MS));
    call_one(r, c, &ask->bucket, REDIS_SCRIPT_due, &words, w, r->options.read_ms);
}

static void redis_stock(struct store *store, const struct stock_ask *ask, struct waiter *w)
{
    struct redis_store *r = redis_of(store);
    struct call *c = call_begin(r, STOCK, bucket_fits(&ask->bucket), w);
    if (!c)
        return;
    struct words words;
    words_begin(&words, REDIS_SCRIPT_stock, &ask->bucket);
    add(&words, ask->with_filter ? str_lit("1") : str_lit("0"));
    call_one(r, c, &ask->bucket, REDIS_SCRIPT_stock, &words, w, r->options.read_ms);
}

/* About 10 bits for each unit that this bucket may sell, and some for a bucket of few. */
static int64_t filter_bits(const struct activity *a)
{
    int64_t stock = 0, buckets = a->buckets > 0 ? a->buckets : 1;
    for (size_t i = 0; i < a->sku_count; i++)
        stock += a->skus[i].stock;
    int64_t bits = 10 * ((stock + buckets - 1) / buckets) + 640;
    return bits < UINT32_MAX ? bits : UINT32_MAX;
}

#define STOCK_MOST ((int64_t)400 << 20)    /* a byte for each unit in one string of at most 512 MB */
static bool install_fits(const struct install_ask *ask)
{
    const struct activity *a = ask->activity;
    bool fits = bucket_fits(&ask->bucket) && a->sku_count <= SKUS_MOST;
    for (size_t i = 0; fits && i < a->sku_count; i++)
        fits = a->skus[i].sku.len > 0 && id_fits(a->skus[i].sku) && a->skus[i].stock >= 0 && a->skus[i].stock <= STOCK_MOST &&
               a->skus[i].unit_first >= 0 && a->skus[i].unit_first < UNIT_MOST - STOCK_MOST;
    return fits;
}

/* Index, first unit, units: as entry.lua says. */
static void add_shelf(struct words *w, size_t index, const struct sku *sku)
{
    size_t from = w->text.len;
    buf_add_be16(&w->text, (uint16_t)index);
    pack_u48(&w->text, sku->unit_first);
    pack_u48(&w->text, sku->stock);
    add_packed(w, from);
}

static void redis_install(struct store *store, const struct install_ask *ask, struct waiter *w)
{
    struct redis_store *r = redis_of(store);
    const struct activity *a = ask->activity;
    struct call *c = call_begin(r, INSTALL, install_fits(ask), w);
    if (!c)
        return;
    char memory[SKUS_MOST * (ID_MOST + 1)];
    struct buf names = buf_fixed(memory, sizeof memory);
    for (size_t i = 0; i < a->sku_count; i++) {
        if (i > 0)
            buf_add_char(&names, ' ');
        buf_add_str(&names, a->skus[i].sku);
    }
    struct words words;
    words_begin(&words, REDIS_SCRIPT_install, &ask->bucket);
    add_number(&words, a->state);
    add_number(&words, (int64_t)a->version);
    add_number(&words, a->starts_ms);
    add_number(&words, a->ends_ms);
    add(&words, ask->seeded ? str_lit("1") : str_lit("0"));
    add_number(&words, filter_bits(a));
    add(&words, buf_str(&names));
    for (size_t i = 0; i < a->sku_count; i++) {
        add(&words, a->skus[i].sku);
        add_shelf(&words, i, &a->skus[i]);
        add_number(&words, a->skus[i].stock);
    }
    call_one(r, c, &ask->bucket, REDIS_SCRIPT_install, &words, w, r->options.install_ms);
}

/* "rest 3 1024" → its three words; the empty cursor is the beginning. */
static bool cursor_split(struct str cursor, struct str words[3])
{
    words[0] = str_lit("free");
    words[1] = words[2] = str_lit("0");
    if (cursor.len == 0)
        return true;
    const char *first = memchr(cursor.ptr, ' ', cursor.len), *end = cursor.ptr + cursor.len;
    const char *second = first ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;
    if (!second)
        return false;
    words[0] = str_range(cursor.ptr, first);
    words[1] = str_range(first + 1, second);
    words[2] = str_range(second + 1, end);
    return true;
}

static void redis_holdings(struct store *store, const struct holdings_ask *ask, struct waiter *w)
{
    struct redis_store *r = redis_of(store);
    struct str slice[3];
    uint64_t which = 0, scan;
    bool fits = bucket_fits(&ask->bucket) && cursor_split(ask->cursor, slice) && str_to_u64(slice[1], &which) && str_to_u64(slice[2], &scan) &&
                which < SKUS_MOST && (str_eq(slice[0], str_lit("free")) || str_eq(slice[0], str_lit("rest")) || str_eq(slice[0], str_lit("users")));
    struct call *c = call_begin(r, HOLDINGS, fits, w);
    if (!c)
        return;
    memcpy(c->text, slice[0].ptr, slice[0].len);
    c->text_len = slice[0].len;
    c->which = which;
    struct words words;
    words_begin(&words, REDIS_SCRIPT_holdings, &ask->bucket);
    for (size_t i = 0; i < countof(slice); i++)
        add(&words, slice[i]);
    call_one(r, c, &ask->bucket, REDIS_SCRIPT_holdings, &words, w, r->options.read_ms);
}

static void redis_close_bucket(struct store *store, const struct close_ask *ask, struct waiter *w)
{
    struct redis_store *r = redis_of(store);
    struct call *c = call_begin(r, CLOSE, bucket_fits(&ask->bucket) && ask->recorded.len <= INCARNATION_TEXT, w);
    if (!c)
        return;
    struct words words;
    words_begin(&words, REDIS_SCRIPT_close, &ask->bucket);
    add(&words, ask->recorded);
    add(&words, ask->went_back ? str_lit("1") : str_lit("0"));
    add_number(&words, (int64_t)ask->highest);
    call_one(r, c, &ask->bucket, REDIS_SCRIPT_close, &words, w, r->options.read_ms);
}

static void redis_open_bucket(struct store *store, const struct open_ask *ask, struct waiter *w)
{
    struct redis_store *r = redis_of(store);
    struct call *c = call_begin(r, OPEN, bucket_fits(&ask->bucket) && ask->mark.len > 0 && ask->mark.len <= MARK_TEXT, w);
    if (!c)
        return;
    struct words words;
    words_begin(&words, REDIS_SCRIPT_open, &ask->bucket);
    add(&words, ask->mark);
    call_one(r, c, &ask->bucket, REDIS_SCRIPT_open, &words, w, r->options.read_ms);
}

static struct str redis_incarnation(struct store *store, const struct bucket *bucket)
{
    return redis_link_incarnation(node_of(redis_of(store), bucket)->link);
}

/* ---- batches -------------------------------------------------------------------------------------------------------------- */

static bool is_verdict(enum reservation_state s) { return s == RESERVATION_ORDERED || s == RESERVATION_RELEASED; }

static bool token_fits(struct token t) { return t.unit >= 0 && t.unit < UNIT_MOST; }

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

static bool settle_fits(const void *item)
{
    const struct settle_ask *a = item;
    struct ident other;
    return bucket_fits(&a->bucket) && id_fits(a->user) && id_fits(a->request) && id_fits(a->sku) &&
           (a->to == RESERVATION_RELEASED || token_fits(a->token)) &&    /* a RELEASED entry holds no unit */
           (a->superseded_by.len == 0 || (ident_of(a->superseded_by, &other) && id_fits(a->superseded_request) && id_fits(a->superseded_sku)));
}

static void settle_words(struct words *w, const void *item, struct ident *other)
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
    check(ident_of(a->superseded_by, other));
    add(w, (struct str){(const char *)other->bytes, sizeof other->bytes});
    add(w, a->superseded_request);
    add(w, a->superseded_sku);
}

static bool restock_fits(const void *item)
{
    const struct restock_ask *a = item;
    return bucket_fits(&a->bucket) && id_fits(a->sku) && token_fits(a->token) && a->token.unit > 0;
}

static void restock_words(struct words *w, const void *item, struct ident *other)
{
    const struct restock_ask *a = item;
    (void)other;
    add(w, a->sku);
    add_number(w, a->token.unit);
    add_number(w, a->token.generation);
}

/* Both kinds of batch, item by item. */
struct batch {
    enum kind kind;
    enum redis_script script;
    const char *items;
    size_t size, count;
    const struct bucket *(*bucket)(const void *item);
    bool (*fits)(const void *item);
    void (*words)(struct words *, const void *item, struct ident *other);
};

static const struct bucket *settle_bucket(const void *item) { return &((const struct settle_ask *)item)->bucket; }
static const struct bucket *restock_bucket(const void *item) { return &((const struct restock_ask *)item)->bucket; }
static const void *item_at(const struct batch *b, size_t i) { return b->items + i * b->size; }

static bool bucket_eq(const struct bucket *a, const struct bucket *b)
{
    return a->number == b->number && a->epoch == b->epoch && str_eq(a->activity, b->activity);
}

/* One part: up to PART_ITEMS items of the bucket of item `first` that are in none yet, in their order. */
static enum reason batch_part(struct redis_store *r, struct call *c, const struct batch *b, size_t first, bool *placed, size_t *ordered)
{
    const struct bucket *bucket = b->bucket(item_at(b, first));
    struct ident others[PART_ITEMS];
    struct words words;
    size_t from = *ordered;
    words_begin(&words, b->script, bucket);
    for (size_t i = first; i < b->count && *ordered - from < PART_ITEMS; i++) {
        if (placed[i] || !bucket_eq(b->bucket(item_at(b, i)), bucket))
            continue;
        b->words(&words, item_at(b, i), &others[*ordered - from]);
        placed[i] = true;
        c->batch->order[(*ordered)++] = (uint16_t)i;
    }
    enum reason reason = part_add(r, c, bucket, b->script, &words);
    if (reason == REASON_OK) {
        struct redis_command *part = list_entry(c->parts.prev, struct redis_command, of_owner);
        part->from = (uint16_t)from;
        part->count = (uint16_t)(*ordered - from);
    }
    return reason;
}

/* An item that cannot be said is refused by itself: those beside it are innocent, and would be refused with it again and again. */
static void call_batch(struct redis_store *r, const struct batch *b, struct waiter *w)
{
    static const struct batch_result nothing;
    check(b->count <= STORE_BATCH_MAX);
    if (b->count == 0) {
        refuse_with(r, w, REASON_OK, &nothing);
        return;
    }
    bool placed[STORE_BATCH_MAX] = {false};
    size_t unfit = 0;
    for (size_t i = 0; i < b->count; i++)
        unfit += placed[i] = !b->fits(item_at(b, i));
    struct call *c = call_begin(r, b->kind, unfit < b->count, w);
    if (!c)
        return;
    c->some_known = unfit > 0;
    c->count = b->count;
    c->batch = batch_new(r);
    for (size_t i = 0; i < b->count; i++)
        c->batch->verdicts[i] = REASON_ENGINE_REFUSED;
    size_t ordered = 0;
    for (size_t i = 0; i < b->count; i++) {
        if (placed[i])
            continue;
        enum reason reason = batch_part(r, c, b, i, placed, &ordered);
        if (reason != REASON_OK) {
            call_refuse(r, c, w, reason);
            return;
        }
    }
    call_go(r, c, w, r->options.batch_ms);
}

static void redis_settle(struct store *store, const struct settle_ask *asks, size_t count, struct waiter *w)
{
    struct batch b = {SETTLE, REDIS_SCRIPT_settle, (const char *)asks, sizeof *asks, count, settle_bucket, settle_fits, settle_words};
    call_batch(redis_of(store), &b, w);
}

static void redis_restock(struct store *store, const struct restock_ask *asks, size_t count, struct waiter *w)
{
    struct batch b = {RESTOCK, REDIS_SCRIPT_restock, (const char *)asks, sizeof *asks, count, restock_bucket, restock_fits, restock_words};
    call_batch(redis_of(store), &b, w);
}

static void batch_failed(struct call *c, const struct redis_command *part, enum reason reason)
{
    for (size_t i = 0; i < part->count; i++)
        c->batch->verdicts[c->batch->order[part->from + i]] = reason;
    c->mixed |= c->common != REASON_OK && c->common != reason;
    c->common = reason;
}

static void batch_finish(struct redis_store *r, struct call *c)
{
    struct batch_result result = {c->batch->verdicts, c->count};
    if (c->some_known || c->mixed)
        finish(r, c, REASON_OK, &result);
    else
        finish(r, c, c->common, NULL);
}

static void batch_part_ended(struct redis_store *r, struct call *c, const struct redis_command *part, enum reason reason, const redisReply *reply)
{
    if (reason == REASON_OK)
        reason = redis_reply_batch(reply, c->batch->order + part->from, part->count, c->batch->verdicts);
    if (reason == REASON_OK)
        c->some_known = true;
    else
        batch_failed(c, part, reason);
    if (list_empty(&c->parts))
        batch_finish(r, c);
}

/* ---- ends of commands ------------------------------------------------------------------------------------------------------ */

union answer {
    struct reserve_answer reserve;
    struct look_answer look;
    struct due_answer due;
    struct stock_answer stock;
    struct holdings_answer holdings;
    struct close_answer close;
    struct open_answer open;
};

static enum reason read_answer(struct redis_store *r, const struct call *c, const redisReply *reply, union answer *out)
{
    struct arena *arena = &r->arena;
    struct str text = {c->text, c->text_len};
    switch (c->kind) {
    case RESERVE: return redis_reply_reserve(reply, arena_str(arena, text), &out->reserve);
    case LOOK: return redis_reply_look(reply, arena, &out->look);
    case DUE: return redis_reply_due(reply, arena, &out->due);
    case STOCK: return redis_reply_stock(reply, arena, &out->stock);
    case INSTALL: return redis_reply_reason(reply);
    case HOLDINGS: return redis_reply_holdings(reply, text, c->which, arena, &out->holdings);
    case CLOSE: return redis_reply_close(reply, &out->close);
    case OPEN: return redis_reply_open(reply, &out->open);
    case SETTLE:
    case RESTOCK: break;    /* never here: batch_part_ended */
    }
    return REASON_ENGINE_FAULT;
}

static bool brings_result(const struct call *c, enum reason reason)
{
    if (reason == REASON_ENGINE_FAULT || reason == REASON_STALE_EPOCH || c->kind == INSTALL)
        return false;
    return c->kind == RESERVE || c->kind == CLOSE || c->kind == OPEN || reason == REASON_OK;
}

/* Answers that name their server: it may have become another under a connection that stands. */
static void hear_incarnation(struct node *node, const struct call *c, enum reason reason, const union answer *a)
{
    struct str said = c->kind == STOCK && reason == REASON_OK ? a->stock.incarnation
                      : c->kind == CLOSE && (reason == REASON_OK || reason == REASON_UNCHANGED) ? a->close.incarnation : (struct str){0};
    if (said.len > 0 && said.len <= INCARNATION_TEXT)
        redis_link_incarnation_heard(node->link, said);
}

static void part_ended(void *context, struct redis_command *part, enum reason reason, const redisReply *reply)
{
    struct node *node = context;
    struct redis_store *r = node->store;
    struct call *c = part->owner;
    list_remove(&part->of_owner);
    if (!c->slot.waiter && reason == REASON_OK)
        metric_one(METRIC_LATE_ANSWERS);    /* whoever asked has gone */
    if (c->kind == SETTLE || c->kind == RESTOCK) {
        batch_part_ended(r, c, part, reason, reply);
        return;
    }
    union answer answer;
    arena_reset(&r->arena);
    if (reason == REASON_OK)
        reason = read_answer(r, c, reply, &answer);
    else
        reply = NULL;
    if (reply)
        hear_incarnation(node, c, reason, &answer);
    finish(r, c, reason, reply && brings_result(c, reason) ? &answer : NULL);
}

static void expire(struct redis_store *r, struct call *c)
{
    enum reason reason = REASON_OK;
    while (!list_empty(&c->parts)) {
        struct redis_command *part = list_entry(c->parts.next, struct redis_command, of_owner);
        struct redis_command was = {.from = part->from, .count = part->count};
        reason = redis_link_abandon(node_of(r, NULL)->link, part) ? REASON_TIMED_OUT : REASON_DEPENDENCY_DOWN;
        if (c->batch)
            batch_failed(c, &was, reason);
    }
    if (c->batch)
        batch_finish(r, c);
    else
        finish(r, c, reason, NULL);
}

static void on_timer(uv_timer_t *timer)
{
    struct redis_store *r = timer->data;
    r->armed_us = 0;
    uint64_t now_us = mono_us();
    for (const struct heap_item *first; (first = heap_first(&r->deadlines)) && first->due <= now_us;)
        expire(r, first->what);
    arm(r);
}

/* ---- birth and death ------------------------------------------------------------------------------------------------------ */

static const struct store_ops redis_ops = {
    .name = "redis", .reserve = redis_reserve, .settle = redis_settle, .restock = redis_restock, .look = redis_look,
    .due = redis_due, .stock = redis_stock, .install = redis_install, .holdings = redis_holdings,
    .close = redis_close_bucket, .open = redis_open_bucket, .incarnation = redis_incarnation,
};

struct redis_options redis_options_default(void)
{
    return (struct redis_options){.in_flight = 4096, .reserve_ms = 80, .batch_ms = 500, .read_ms = 200, .install_ms = 2000,
                                  .connect_ms = 1000, .stall_ms = 3000, .retry_first_ms = 50, .retry_most_ms = 2000};
}

size_t redis_memory(size_t in_flight) { return in_flight * sizeof(struct call) + redis_link_memory(in_flight) + ANSWER_BYTES; }

static void store_free(struct redis_store *r)
{
    for (struct batch_memory *b; (b = r->batches); free(b))
        r->batches = b->next;
    heap_free(&r->deadlines);
    arena_free(&r->arena);
    free(r->calls);
    free(r);
}

struct store *redis_open(const struct redis_options *options)
{
    struct redis_address address;
    if (!redis_address_parse(options->url, &address))
        return NULL;
    struct redis_store *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct redis_store){.store = {&redis_ops}, .options = *options, .dice = uv_hrtime(), .arena = arena_new(ANSWER_BYTES),
                              .calls = calloc(options->in_flight, sizeof *r->calls)};
    list_init(&r->free);
    list_init(&r->refusals);
    struct redis_link_options of_link = {options->in_flight, options->connect_ms, options->stall_ms, options->retry_first_ms, options->retry_most_ms};
    r->nodes[0].store = r;
    if (r->arena.start && r->calls)
        r->nodes[0].link = redis_link_open(options->loop, &address, of_link, part_ended, &r->nodes[0]);
    if (!r->nodes[0].link) {
        store_free(r);
        return NULL;
    }
    for (size_t i = 0; i < options->in_flight; i++) {
        list_init(&r->calls[i].parts);
        list_append(&r->free, &r->calls[i].link);
    }
    check(uv_timer_init(options->loop, &r->timer) == 0 && uv_idle_init(options->loop, &r->turn) == 0);
    r->timer.data = r->turn.data = r;
    r->open = 2 + NODES;
    return &r->store;
}

static void one_gone(struct redis_store *r)
{
    if (--r->open > 0)
        return;
    void (*closed)(void *) = r->closed;
    void *arg = r->closed_arg;
    store_free(r);
    if (closed)
        closed(arg);
}

static void handle_gone(uv_handle_t *h) { one_gone(h->data); }
static void link_gone(void *node) { one_gone(((struct node *)node)->store); }

void redis_close(struct store *store, void (*closed)(void *), void *arg)
{
    struct redis_store *r = redis_of(store);
    r->closing = true;
    r->closed = closed;
    r->closed_arg = arg;
    for (size_t i = 0; i < NODES; i++)
        redis_link_close(r->nodes[i].link, link_gone);
    while (!list_empty(&r->refusals))
        tell_refusals(r);
    uv_close((uv_handle_t *)&r->timer, handle_gone);
    uv_close((uv_handle_t *)&r->turn, handle_gone);
}

bool redis_up(const struct store *store)
{
    const struct redis_store *r = container_of((struct store *)(uintptr_t)store, struct redis_store, store);
    return redis_link_up(r->nodes[0].link);
}

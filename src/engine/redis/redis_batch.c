/* SPDX-License-Identifier: Apache-2.0
 * redis_batch.c: settle and restock, item by item: put into parts, one bucket each, and their verdicts put back in the order of the items. An item that
 * cannot be said is refused by itself: those beside it are innocent, and would be refused with it again and again. */
#include "redis_call.h"
#include "redis_reply.h"

/* Of either kind. */
struct batch {
    enum redis_script script;
    const char *items;
    size_t size, count;
    const struct bucket *(*bucket)(const void *item);
    bool (*fits)(const void *item);
    void (*words)(struct redis_words *, const void *item);
};

static const struct bucket *settle_bucket(const void *item) { return &((const struct settle_ask *)item)->bucket; }
static const struct bucket *restock_bucket(const void *item) { return &((const struct restock_ask *)item)->bucket; }
static const void *item_at(const struct batch *b, size_t i) { return b->items + i * b->size; }

static bool bucket_eq(const struct bucket *a, const struct bucket *b)
{
    return a->number == b->number && a->epoch == b->epoch && str_eq(a->activity, b->activity);
}

/* One part: up to REDIS_ITEMS_MOST items of the bucket of item `first` that are in none yet, in their order. */
static enum reason add_part(struct redis_store *r, struct redis_call *c, const struct batch *b, size_t first, bool *placed, size_t *ordered)
{
    const struct bucket *bucket = b->bucket(item_at(b, first));
    struct redis_words words;
    size_t from = *ordered;
    redis_words_begin(&words, b->script, bucket);
    for (size_t i = first; i < b->count && *ordered - from < REDIS_ITEMS_MOST; i++) {
        if (placed[i] || !bucket_eq(b->bucket(item_at(b, i)), bucket))
            continue;
        b->words(&words, item_at(b, i));
        placed[i] = true;
        c->batch->order[(*ordered)++] = (uint16_t)i;
    }
    enum reason reason = redis_call_part(r, c, bucket, &words);
    if (reason == REASON_OK) {
        struct redis_command *part = list_entry(c->parts.prev, struct redis_command, of_owner);
        part->from = (uint16_t)from;
        part->count = (uint16_t)(*ordered - from);
    }
    return reason;
}

static void ask(struct redis_store *r, const struct batch *b, struct waiter *w)
{
    static const struct batch_result nothing;
    check(b->count <= STORE_BATCH_MAX);
    if (b->count == 0) {
        redis_refuse(r, w, REASON_OK, &nothing);
        return;
    }
    bool placed[STORE_BATCH_MAX] = {false};
    size_t unfit = 0;
    for (size_t i = 0; i < b->count; i++)
        unfit += placed[i] = !b->fits(item_at(b, i));
    struct redis_call *c = redis_call_begin(r, b->script, unfit < b->count, w);
    if (!c)
        return;
    c->some_known = unfit > 0;
    c->count = b->count;
    c->batch = redis_call_batch_memory(r);
    for (size_t i = 0; i < b->count; i++)
        c->batch->verdicts[i] = REASON_ENGINE_REFUSED;
    size_t ordered = 0;
    for (size_t i = 0; i < b->count; i++) {
        if (placed[i])
            continue;
        enum reason reason = add_part(r, c, b, i, placed, &ordered);
        if (reason != REASON_OK) {
            redis_call_refuse(r, c, w, reason);
            return;
        }
    }
    redis_call_go(r, c, w, r->options.batch_ms);
}

void redis_settle(struct store *store, const struct settle_ask *asks, size_t count, struct waiter *w)
{
    struct batch b = {REDIS_SCRIPT_settle, (const char *)asks, sizeof *asks, count, settle_bucket, redis_words_settle_fits, redis_words_settle};
    ask(redis_of(store), &b, w);
}

void redis_restock(struct store *store, const struct restock_ask *asks, size_t count, struct waiter *w)
{
    struct batch b = {REDIS_SCRIPT_restock, (const char *)asks, sizeof *asks, count, restock_bucket, redis_words_restock_fits, redis_words_restock};
    ask(redis_of(store), &b, w);
}

void redis_batch_part_ended(struct redis_store *r, struct redis_call *c, const struct redis_command *part, enum reason reason, const redisReply *reply)
{
    if (reason == REASON_OK)
        reason = redis_reply_batch(reply, c->batch->order + part->from, part->count, c->batch->verdicts);
    if (reason == REASON_OK)
        c->some_known = true;
    else
        redis_call_part_failed(c, part, reason);
    if (list_empty(&c->parts))
        redis_call_batch_end(r, c);
}

/* SPDX-License-Identifier: Apache-2.0
 * redis_reply.c: whatever a server sends, reading it is safe, and what is given on as good is good: entries have states, SKUs have names.
 * The first byte chooses the call, the rest is what came over the wire. */
#include <stdlib.h>

#include "redis_reader.h"
#include "redis_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void entries_good(const struct entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check((unsigned)entries[i].state < RESERVATION_STATE_COUNT && (unsigned)entries[i].why < REASON_COUNT);
        check(entries[i].updated_ms >= entries[i].created_ms && entries[i].request.len <= 255);
    }
}

static void read_as(int call, const redisReply *reply, struct arena *arena)
{
    static const uint16_t order[4] = {3, 1, 0, 2};
    enum reason verdicts[4];
    struct reserve_answer reserve;
    struct look_answer look;
    struct due_answer due;
    struct stock_answer stock;
    struct holdings_answer holdings;
    struct close_answer close;
    struct open_answer open;
    struct reindex_answer reindex;
    struct str policy, aof;
    char said[INCARNATION_TEXT];
    enum reason reason = REASON_OK;
    switch (call) {
    case 0:
        reason = redis_reply_reserve(reply, str_lit("sku"), &reserve);
        entries_good(&reserve.entry, reason == REASON_QUEUED);
        break;
    case 1: reason = redis_reply_batch(reply, order, 4, verdicts); break;
    case 2:
        reason = redis_reply_look(reply, arena, &look);
        entries_good(look.entries, reason == REASON_OK ? look.count : 0);
        break;
    case 3:
        reason = redis_reply_due(reply, arena, &due);
        for (size_t i = 0; reason == REASON_OK && i < due.count; i++)
            entries_good(&due.entries[i].entry, 1);
        break;
    case 4:
        reason = redis_reply_stock(reply, arena, &stock);
        check(reason != REASON_OK || (stock.filter_bits > 0 && (unsigned)stock.state < ACTIVITY_STATE_COUNT));
        break;
    case 5: reason = redis_reply_holdings(reply, str_lit("users"), 0, arena, &holdings); break;
    case 6: reason = redis_reply_holdings(reply, str_lit("rest"), 1, arena, &holdings); break;
    case 7: reason = redis_reply_close(reply, &close); break;
    case 8: reason = redis_reply_open(reply, &open); break;
    case 9: check(reply->type != REDIS_REPLY_STRING || redis_reply_incarnation((struct str){reply->str, (size_t)reply->len}, said).len < sizeof said); break;
    case 11: reason = redis_reply_prove(reply, &policy, &aof); break;
    case 10: reason = redis_reply_reindex(reply, &reindex); break;
    default: break;
    }
    check((unsigned)reason < REASON_COUNT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 65536)
        return 0;
    static struct arena arena;
    if (!arena.start)
        arena = arena_new(1 << 20);
    struct redis_reader reader = {0};
    redis_reader_open(&reader, 1 << 18);
    (void)redisReaderFeed(reader.reader, (const char *)data + 1, size - 1);
    for (void *reply; redis_reader_next(&reader, &reply) == REDIS_OK && reply;) {
        const redisReply *r = reply;
        arena_reset(&arena);
        if (r->type == REDIS_REPLY_ERROR) {
            bool noscript;
            check((unsigned)redis_reply_error((struct str){r->str, (size_t)r->len}, &noscript) < REASON_COUNT);
        } else {
            read_as(data[0] % 12, reply, &arena);
        }
    }
    redis_reader_close(&reader);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * redis_reply.h: what the scripts answer, as the port's structs. Pure, and safe on any reply whatever its shape: what is not as the
 * script promises it gives REASON_ENGINE_FAULT. Texts point into the reply; arrays are taken from the arena. */
#pragma once
#include <hiredis/hiredis.h>

#include "arena.h"
#include "store.h"

/* The fate that an error reply speaks of, by its first word; NOSCRIPT is told apart (true and nothing else). */
enum reason redis_reply_error(struct str message, bool *noscript);

/* The reason in front of any script's answer; ENGINE_FAULT where there is none. */
enum reason redis_reply_reason(const redisReply *reply);
/* `sku`: the one asked for. */
enum reason redis_reply_reserve(const redisReply *reply, struct str sku, struct reserve_answer *out);
/* Reasons of `count` items, each to verdicts[order[i]]. */
enum reason redis_reply_batch(const redisReply *reply, const uint16_t *order, size_t count, enum reason *verdicts);
enum reason redis_reply_look(const redisReply *reply, struct arena *arena, struct look_answer *out);
enum reason redis_reply_due(const redisReply *reply, struct arena *arena, struct due_answer *out);
enum reason redis_reply_stock(const redisReply *reply, struct arena *arena, struct stock_answer *out);
enum reason redis_reply_close(const redisReply *reply, struct close_answer *out);
/* The texts lie in the reply; empty: the server did not tell. */
enum reason redis_reply_prove(const redisReply *reply, struct str *policy, struct str *aof);
enum reason redis_reply_reindex(const redisReply *reply, struct reindex_answer *out);
enum reason redis_reply_open(const redisReply *reply, struct open_answer *out);
/* What INFO says of who the server is and which life its data has, as life.lua puts it; empty: it does not say. */
struct str redis_reply_incarnation(struct str info, char out[INCARNATION_TEXT]);
/* `walked`, `which`: what this slice was asked of. The cursor is "WHAT WHICH SCAN", the three of holdings.lua. */
enum reason redis_reply_holdings(const redisReply *reply, struct str walked, size_t which, struct arena *arena, struct holdings_answer *out);

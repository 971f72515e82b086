/* SPDX-License-Identifier: Apache-2.0
 * redis_reader.h: hiredis' reader with an edge. By itself it takes memory for as many elements as a reply announces, and "*1444444444" is
 * thirteen bytes: whatever goes past the bound is a broken reply instead. */
#pragma once
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

struct redis_reader {
    redisReader *reader;    /* feed this one */
    size_t most, held;      /* bytes of memory a reply may take; that the one being read has taken, about */
    redisReplyObjectFunctions ours, *theirs;    /* what hiredis makes replies with */
};
/* Fresh, whatever was there before is freed; all zero at birth. Must not move while it is open. */
void redis_reader_open(struct redis_reader *, size_t most);
void redis_reader_close(struct redis_reader *);
/* As redisReaderGetReply: REDIS_OK and a reply, or NULL where more must come; anything else: what was fed is no such reply. */
int redis_reader_next(struct redis_reader *, void **reply);

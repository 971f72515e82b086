/* SPDX-License-Identifier: Apache-2.0
 * redis_reader.h: hiredis' reader with an edge, and with memory of its own. By itself it asks malloc for every word of a reply, and takes
 * memory for as many elements as a reply announces, and "*1444444444" is thirteen bytes. Here the words of one reply lie one after another in memory that
 * is kept; a reply larger than that takes more and gives it back; whatever goes past the bound is a broken reply instead. */
#pragma once
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

struct redis_reader_more;
struct redis_reader {
    redisReader *reader;    /* feed this one */
    size_t most, held;      /* bytes of memory a reply may take; that the one being read has taken */
    char *memory;           /* of every reply, from its beginning; `used` of it by this one */
    size_t used;
    struct redis_reader_more *more;       /* of this one alone */
    redisReplyObjectFunctions ours;       /* what hiredis makes replies with */
    bool given;             /* the last reply was handed out: the next one begins anew */
};
/* Fresh, whatever was there before is freed; all zero at birth. Must not move while it is open. */
void redis_reader_open(struct redis_reader *, size_t most);
void redis_reader_close(struct redis_reader *);
/* As redisReaderGetReply: REDIS_OK and a reply, or NULL where more must come; anything else: what was fed is no such reply.
 * The reply is the reader's own: it lives until the next call, and is never freed by who reads it. */
int redis_reader_next(struct redis_reader *, void **reply);

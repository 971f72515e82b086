/* SPDX-License-Identifier: Apache-2.0
 * redis_reader.c: hiredis asks a table of functions for its memory; ours counts, then asks the one that was there. */
#include "redis_reader.h"

#include "check.h"

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static bool take(struct redis_reader *r, size_t bytes)
{
    if (bytes > r->most - r->held)
        return false;
    r->held += bytes;
    return true;
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
    struct redis_reader *r = task->privdata;
    return take(r, len) ? r->theirs->createString(task, text, len) : NULL;
}

static void *create_array(const redisReadTask *task, element_count elements)
{
    struct redis_reader *r = task->privdata;
    size_t each = sizeof(redisReply *) + sizeof(redisReply);
    return elements >= 0 && (size_t)elements <= r->most / each && take(r, (size_t)elements * each) ? r->theirs->createArray(task, elements) : NULL;
}

void redis_reader_open(struct redis_reader *r, size_t most)
{
    redis_reader_close(r);
    *r = (struct redis_reader){.reader = redisReaderCreate(), .most = most};
    check(r->reader != NULL);
    r->theirs = r->reader->fn;
    r->ours = *r->theirs;
    r->ours.createString = create_string;
    r->ours.createArray = create_array;
    r->reader->fn = &r->ours;
    r->reader->privdata = r;
}

void redis_reader_close(struct redis_reader *r)
{
    if (r->reader)
        redisReaderFree(r->reader);
    r->reader = NULL;
}

int redis_reader_next(struct redis_reader *r, void **reply)
{
    *reply = NULL;
    int result = redisReaderGetReply(r->reader, reply);
    if (*reply)
        r->held = 0;
    return result;
}

/* SPDX-License-Identifier: Apache-2.0
 * redis_reader.c: hiredis asks a table of functions for the objects of a reply; these take them piece by piece from one memory. */
#include "redis_reader.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

#define KEPT ((size_t)64 << 10)

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

struct redis_reader_more {
    struct redis_reader_more *next;
    _Alignas(max_align_t) char memory[];
};

/* n zeroed bytes; NULL: past the bound, or the machine has no more. */
static void *take(struct redis_reader *r, size_t n)
{
    if (n > r->most - r->held)
        return NULL;
    r->held += n;
    size_t rounded = (n + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
    if (rounded <= KEPT - r->used) {
        r->used += rounded;
        return memset(r->memory + r->used - rounded, 0, n);
    }
    struct redis_reader_more *more = calloc(1, sizeof *more + n);
    if (!more)
        return NULL;
    more->next = r->more;
    r->more = more;
    return more->memory;
}

static void begin_anew(struct redis_reader *r)
{
    while (r->more) {
        struct redis_reader_more *next = r->more->next;
        free(r->more);
        r->more = next;
    }
    r->used = r->held = 0;
    r->given = false;
}

/* An object where its parent expects it. */
static redisReply *object(const redisReadTask *task, int type, size_t extra)
{
    redisReply *o = take(task->privdata, sizeof *o + extra);
    if (!o)
        return NULL;
    o->type = type;
    if (task->parent)
        ((redisReply *)task->parent->obj)->element[task->idx] = o;
    return o;
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
    redisReply *o = len < SIZE_MAX / 2 ? object(task, task->type, len + 1) : NULL;
    if (!o)
        return NULL;
    o->str = memcpy(o + 1, text, len);
    o->len = len;
    return o;
}

static void *create_array(const redisReadTask *task, element_count elements)
{
    struct redis_reader *r = task->privdata;
    if (elements < 0 || (size_t)elements > (r->most - r->held) / sizeof(redisReply))
        return NULL;
    r->held += (size_t)elements * sizeof(redisReply);    /* what it announces counts as taken */
    redisReply *o = object(task, task->type, (size_t)elements * sizeof(redisReply *));
    if (!o)
        return NULL;
    o->elements = (size_t)elements;
    o->element = (redisReply **)(void *)(o + 1);
    return o;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    redisReply *o = object(task, REDIS_REPLY_INTEGER, 0);
    if (o)
        o->integer = value;
    return o;
}

static void *create_nil(const redisReadTask *task) { return object(task, REDIS_REPLY_NIL, 0); }
static void free_nothing(void *o) { (void)o; }

#if HIREDIS_MAJOR >= 1    /* of a newer protocol, which nobody has asked for */
static void *create_double(const redisReadTask *task, double value, char *text, size_t len) { return (void)task, (void)value, (void)text, (void)len, NULL; }
static void *create_bool(const redisReadTask *task, int value) { return (void)task, (void)value, NULL; }
#endif

void redis_reader_open(struct redis_reader *r, size_t most)
{
    redis_reader_close(r);
    *r = (struct redis_reader){.most = most, .memory = malloc(KEPT),
                               .ours = {.createString = create_string, .createArray = create_array, .createInteger = create_integer,
#if HIREDIS_MAJOR >= 1
                                        .createDouble = create_double, .createBool = create_bool,
#endif
                                        .createNil = create_nil, .freeObject = free_nothing}};
    r->reader = redisReaderCreateWithFunctions(&r->ours);
    check(r->memory != NULL && r->reader != NULL);
    r->reader->privdata = r;
    r->reader->maxbuf = KEPT;    /* what has been read stays its, for the next */
}

void redis_reader_close(struct redis_reader *r)
{
    if (!r->reader)
        return;
    redisReaderFree(r->reader);
    begin_anew(r);
    free(r->memory);
    r->reader = NULL;
    r->memory = NULL;
}

int redis_reader_next(struct redis_reader *r, void **reply)
{
    *reply = NULL;
    if (r->given)
        begin_anew(r);
    int result = redisReaderGetReply(r->reader, reply);
    r->given = *reply != NULL;
    return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "redis_remove.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "redis_address.h"

#define PATIENCE_S 10
#define SKUS_MAX 64
#define KEY_MAX 256

static const char *const names[] = {
#define KEY(name, type, holds, bytes) name,
#include "redis_key.def"
#undef KEY
};
#define KEYS_MAX (countof(names) * SKUS_MAX)

/* The keys of one bucket lie in one slot: one command. */
struct bucket_keys {
    const char *argv[KEYS_MAX + 1];
    size_t lengths[KEYS_MAX + 1];
    char texts[KEYS_MAX + 1][KEY_MAX];
    int count;
};

static void add_key(struct bucket_keys *k, struct str activity, unsigned bucket, unsigned epoch, const char *name, struct str sku)
{
    int n = k->count++, len = (int)strlen(name);
    if (sku.len > 0)
        len -= 1;    /* the placeholder A */
    k->lengths[n] = (size_t)snprintf(k->texts[n], KEY_MAX, "sk:{" STR_FMT ":%u}:%u:%.*s" STR_FMT, STR_ARG(activity), bucket, epoch, len, name, STR_ARG(sku));
    check(k->lengths[n] < KEY_MAX);
    k->argv[n] = k->texts[n];
}

static bool is_per_sku(const char *name) { return strlen(name) > 2 && strcmp(name + strlen(name) - 2, ":A") == 0; }

static void name_keys(struct bucket_keys *k, struct str activity, unsigned bucket, unsigned epoch, const struct str *skus, size_t sku_count)
{
    k->argv[0] = "UNLINK";
    k->lengths[0] = 6;
    k->count = 1;
    for (size_t i = 0; i < countof(names); i++)
        for (size_t s = 0; s < (is_per_sku(names[i]) ? sku_count : 1); s++)
            add_key(k, activity, bucket, epoch, names[i], is_per_sku(names[i]) ? skus[s] : (struct str){0});
}

static redisReply *command(redisContext *c, int argc, const char **argv, const size_t *lengths) { return redisCommandArgv(c, argc, argv, lengths); }

static bool succeeded(redisReply *r)
{
    bool good = r && r->type != REDIS_REPLY_ERROR;
    freeReplyObject(r);
    return good;
}

static bool greet(redisContext *c, const struct redis_address *a)
{
    char db[12];
    snprintf(db, sizeof db, "%u", a->db);
    const char *auth[] = {"AUTH", a->user[0] ? a->user : a->password, a->password}, *select[] = {"SELECT", db};
    return (a->password[0] == 0 || succeeded(command(c, a->user[0] ? 3 : 2, auth, NULL))) && (a->db == 0 || succeeded(command(c, 2, select, NULL)));
}

static enum reason remove_all(redisContext *c, struct bucket_keys *k, struct str activity, unsigned epochs, unsigned buckets, const struct str *skus, size_t sku_count,
                              uint64_t *removed)
{
    for (unsigned epoch = 1; epoch <= epochs; epoch++)
        for (unsigned bucket = 0; bucket < buckets; bucket++) {
            name_keys(k, activity, bucket, epoch, skus, sku_count);
            redisReply *r = command(c, k->count, k->argv, k->lengths);
            if (!r)
                return REASON_DEPENDENCY_DOWN;
            if (r->type != REDIS_REPLY_INTEGER) {
                freeReplyObject(r);
                return REASON_ENGINE_REFUSED;
            }
            *removed += (uint64_t)r->integer;
            freeReplyObject(r);
        }
    return REASON_OK;
}

enum reason redis_remove(struct str url, struct str activity, unsigned epoch, unsigned buckets, const struct str *skus, size_t sku_count, uint64_t *removed)
{
    struct redis_address a;
    struct timeval patience = {.tv_sec = PATIENCE_S};
    if (!redis_address_parse(url, &a))
        return REASON_INVALID_REQUEST;
    check(sku_count <= SKUS_MAX && epoch <= 31 && buckets <= 32);
    redisContext *c = a.local ? redisConnectUnixWithTimeout(a.host, patience) : redisConnectWithTimeout(a.host, atoi(a.port), patience);
    struct bucket_keys *k = malloc(sizeof *k);
    check(k != NULL);
    enum reason reason = REASON_DEPENDENCY_DOWN;
    if (c && !c->err && redisSetTimeout(c, patience) == REDIS_OK)
        reason = greet(c, &a) ? remove_all(c, k, activity, epoch, buckets, skus, sku_count, removed) : REASON_ENGINE_REFUSED;
    free(k);
    if (c)
        redisFree(c);
    return reason;
}

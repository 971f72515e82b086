/* SPDX-License-Identifier: Apache-2.0 */
#include "http_idle.h"

#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "check.h"

struct http_idle_client {
    struct link bucket;       /* of the hash table, or `unused` */
    struct link by_count;
    struct link entries;
    struct http_idle_key key;
    size_t count;
};

static size_t bucket_count(size_t connections)
{
    size_t n = 1;
    while (n < connections)
        n *= 2;
    return n;
}

bool http_idle_init(struct http_idle *h, size_t connections)
{
    size_t buckets = bucket_count(connections);
    *h = (struct http_idle){.bucket_mask = buckets - 1};
    (void)!getrandom(&h->key, sizeof h->key, GRND_NONBLOCK);
    h->clients = calloc(connections, sizeof *h->clients);
    h->counts = calloc(connections + 1, sizeof *h->counts);
    h->buckets = calloc(buckets, sizeof *h->buckets);
    list_init(&h->unused);
    if (!h->clients || !h->counts || !h->buckets)
        return false;
    for (size_t i = 0; i < buckets; i++)
        list_init(&h->buckets[i]);
    for (size_t i = 0; i <= connections; i++)
        list_init(&h->counts[i]);
    for (size_t i = 0; i < connections; i++) {
        list_init(&h->clients[i].bucket), list_init(&h->clients[i].by_count), list_init(&h->clients[i].entries);
        list_append(&h->unused, &h->clients[i].bucket);
    }
    return true;
}

void http_idle_free(struct http_idle *h)
{
    free(h->clients);
    free(h->counts);
    free(h->buckets);
    *h = (struct http_idle){0};
}

size_t http_idle_memory(size_t connections)
{
    return connections * sizeof(struct http_idle_client) + (connections + 1 + bucket_count(connections)) * sizeof(struct link);
}

struct http_idle_key http_idle_key_of(const struct sockaddr *address)
{
    struct http_idle_key key = {{0}};
    if (address->sa_family == AF_INET)
        memcpy(key.bytes, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    else if (address->sa_family == AF_INET6)
        memcpy(key.bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 8);
    key.bytes[15] = (unsigned char)address->sa_family;
    return key;
}

static struct link *bucket_of(const struct http_idle *h, const struct http_idle_key *key)
{
    return &h->buckets[hash_keyed(h->key, (struct str){(const char *)key->bytes, sizeof key->bytes}) & h->bucket_mask];
}

static struct http_idle_client *find_client(struct http_idle *h, const struct http_idle_key *key)
{
    struct link *bucket = bucket_of(h, key);
    list_each(at, bucket) {
        struct http_idle_client *c = list_entry(at, struct http_idle_client, bucket);
        if (memcmp(c->key.bytes, key->bytes, sizeof key->bytes) == 0)
            return c;
    }
    struct link *fresh = list_take(&h->unused);
    check(fresh != NULL);    /* as many as connections */
    struct http_idle_client *c = list_entry(fresh, struct http_idle_client, bucket);
    c->key = *key;
    c->count = 0;
    list_append(bucket, &c->bucket);
    return c;
}

static void set_count(struct http_idle *h, struct http_idle_client *c, size_t count)
{
    list_remove(&c->by_count);
    c->count = count;
    if (count > 0) {
        list_append(&h->counts[count], &c->by_count);
    } else {
        list_remove(&c->bucket);
        list_append(&h->unused, &c->bucket);
    }
    if (count > h->most)
        h->most = count;
    while (h->most > 0 && list_empty(&h->counts[h->most]))    /* one step at most: the client stands one below */
        h->most--;
}

void http_idle_add(struct http_idle *h, struct http_idle_entry *e, const struct http_idle_key *key)
{
    check(e->client == NULL);
    struct http_idle_client *c = find_client(h, key);
    list_init(&e->link);
    list_append(&c->entries, &e->link);
    e->client = c;
    set_count(h, c, c->count + 1);
}

void http_idle_remove(struct http_idle *h, struct http_idle_entry *e)
{
    if (!e->client)
        return;
    struct http_idle_client *c = e->client;
    list_remove(&e->link);
    e->client = NULL;
    set_count(h, c, c->count - 1);
}

struct http_idle_entry *http_idle_choose(const struct http_idle *h)
{
    if (h->most == 0)
        return NULL;
    struct http_idle_client *c = list_entry(h->counts[h->most].next, struct http_idle_client, by_count);
    return list_entry(c->entries.next, struct http_idle_entry, link);
}

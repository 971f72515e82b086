/* SPDX-License-Identifier: Apache-2.0
 * http_idle.h: which idle connection is closed to let another client in: of the client address that holds most idle connections, the one that has been idle
 * longest. A client that fills the listener thus displaces its own connections, and a gateway keeps all of its own while there is room. Every call is O(1).
 * An IPv4 client is its address, an IPv6 client its /64; all clients of a Unix socket are one. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "hash.h"
#include "list.h"

struct http_idle_client;
struct http_idle_key {
    unsigned char bytes[16];
};
/* Part of a connection; all zero: not idle. */
struct http_idle_entry {
    struct link link;                   /* of its client, the longest idle first */
    struct http_idle_client *client;    /* NULL: not idle */
};
struct http_idle {
    struct http_idle_client *clients;   /* as many as connections; their memory is owned here */
    struct link *counts;                /* counts[n]: the clients with n idle connections */
    struct link *buckets;
    struct link unused;
    struct hash_key key;                /* random: clients choose their addresses */
    size_t bucket_mask, most;           /* most: the largest n that is not empty; 0: no connection is idle */
};

/* False: no memory; http_idle_free may be called all the same. */
bool http_idle_init(struct http_idle *h, size_t connections);
void http_idle_free(struct http_idle *h);
/* Bytes that http_idle_init takes. */
size_t http_idle_memory(size_t connections);
struct http_idle_key http_idle_key_of(const struct sockaddr *address);
/* Becomes the most recently active of its client. It must not be idle yet; no more than `connections` may be idle. */
void http_idle_add(struct http_idle *h, struct http_idle_entry *e, const struct http_idle_key *key);
/* Does nothing where it is not idle. */
void http_idle_remove(struct http_idle *h, struct http_idle_entry *e);
/* NULL: none is idle. It stays idle until it is removed. */
struct http_idle_entry *http_idle_choose(const struct http_idle *h);

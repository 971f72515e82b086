/* SPDX-License-Identifier: Apache-2.0
 * ident.h: one 128-bit name for a reservation, its message and its order (protocol §1), and which bucket a user belongs to.
 * Whoever holds the keys can tell an id that we made from one that somebody made up, without asking a store. */
#pragma once
#include "hash.h"
#include "terms.h"

/* check[0] makes new ids; ids made under check[1] are still known (rotation). `user` maps users to buckets and filters: it must stay the
 * same, and the same in every process, for as long as any activity's Redis data lives. */
struct ident_keys {
    struct hash_key check[2];
    struct hash_key mark[2];    /* of the same secrets: for the content of messages (message.h) */
    size_t checks;              /* 1 or 2 */
    struct hash_key user;
};
/* From secrets of any length (settings ids.keys); previous may be empty. */
struct ident_keys ident_keys_from(struct str current, struct str previous, struct str user);

/* A name of a secret that does not give it away: 32 hexadecimal digits, no zero. Equal for equal secrets. */
#define IDENT_FINGERPRINT 32
void ident_fingerprint(struct str secret, char out[IDENT_FINGERPRINT]);

struct ident_fields {
    int64_t made_ms;            /* Unix time */
    uint16_t activity;          /* number, 1 … 4095 */
    uint8_t epoch;              /* 1 … 31 */
    uint8_t bucket;             /* 0 … 31 */
};
/* A new name; `chance`: 48 of its bits are used. Fields out of their range stop the process. */
struct ident ident_make(const struct ident_keys *, struct ident_fields, uint64_t chance);
struct ident_fields ident_read(struct ident);
/* The chance of an id that belongs to a user: 16 of the 48 bits are his mark, under the users' key. */
uint64_t ident_chance(uint64_t user_hash, uint64_t random);
/* Whether it bears this user's mark: an id of somebody else is refused without a look-up, as a made-up one is. */
bool ident_of_user(struct ident, uint64_t user_hash);
/* Whether we made it, under a key we still hold. */
bool ident_ours(const struct ident_keys *, struct ident);
static inline bool ident_eq(struct ident a, struct ident b) { return memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0; }

enum ident_kind { IDENT_RESERVATION, IDENT_MESSAGE, IDENT_ORDER };    /* rsv_ msg_ ord_ */
/* IDENT_ID_TEXT characters, no zero. */
void ident_write(struct ident, enum ident_kind, char out[IDENT_ID_TEXT]);
/* Exactly what ident_write writes, no other spelling; says nothing of the check. */
bool ident_parse(struct str text, enum ident_kind, struct ident *out);

/* Keyed hash of a user: his bucket, and his bits in the winners' filter. */
uint64_t user_hash(const struct ident_keys *, struct str user);
/* Bucket of a user among `buckets` of his activity's present epoch. */
uint8_t user_bucket(uint64_t user_hash, uint8_t buckets);

/* inventory_token_id: token_000001-3. */
#define TOKEN_TEXT 40
size_t token_write(struct token, char out[TOKEN_TEXT]);               /* how many characters; no zero */
bool token_parse(struct str text, struct token *out);                 /* exactly what token_write writes */

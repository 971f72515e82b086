/* SPDX-License-Identifier: Apache-2.0
 * jwt.h: who is asking, by a signed token (RFC 7519). HS256 only, with the keys of auth.jwt_keys: what the token says of its own algorithm
 * is compared, never followed. A token must name its user (sub) and its end (exp). `kid` chooses the key; without it every key is tried. `typ` is absent,
 * JWT or at+jwt (RFC 9068); `iss` and `aud` are compared where the settings name them. Times are whole seconds (docs/decisions/0018). */
#pragma once
#include "arena.h"
#include "str.h"

#define JWT_SUBJECT_MAX 255    /* bytes (OpenID Connect Core, section 2) */
#define JWT_USER_TEXT 64

struct jwt_keys;
/* kid:secret pairs with commas between; a secret has 16 bytes at least. NULL: not so. */
struct jwt_keys *jwt_keys_open(struct str pairs);
void jwt_keys_close(struct jwt_keys *k);

/* What a token must say of whom it is from and whom it is for; an empty text: not compared. */
struct jwt_expected {
    struct str issuer, audience;
};
/* NULL: good, and *user is the user id of its sub, copied into the arena; else why not, a static text. 30 s of leeway on both sides. */
const char *jwt_verify(const struct jwt_keys *k, const struct jwt_expected *expected, struct str token, int64_t now_s, struct arena *arena, struct str *user);
/* The user id of a subject, by a rule that gives two subjects never the same one: a subject that is an id is its own, unless it looks like what follows; any other
 * is "u_" and the base32 (RFC 4648, lower case, 32 characters) of the first 20 bytes of its SHA-256. False: empty, or longer than JWT_SUBJECT_MAX. */
bool jwt_user_id(struct str subject, char out[JWT_USER_TEXT], size_t *len);

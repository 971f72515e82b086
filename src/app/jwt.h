/* SPDX-License-Identifier: Apache-2.0
 * jwt.h: who is asking, by a signed token (RFC 7519). HS256 only, with the keys of auth.jwt_keys: what the token says of its own algorithm
 * is compared, never followed. A token must name its key (kid), its user (sub) and its end (exp). */
#pragma once
#include "arena.h"
#include "str.h"

struct jwt_keys;
/* kid:secret pairs with commas between; a secret has 16 bytes at least. NULL: not so. */
struct jwt_keys *jwt_keys_open(struct str pairs);
void jwt_keys_close(struct jwt_keys *k);

/* NULL: good, and *user is its sub, copied into the arena; else why not, a static text. 30 s of leeway on both sides. */
const char *jwt_verify(const struct jwt_keys *k, struct str token, int64_t now_s, struct arena *arena, struct str *user);

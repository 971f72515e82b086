/* SPDX-License-Identifier: Apache-2.0
 * qualification.h: tokens that say who may try to buy what, checked without asking anybody (interfaces §1):
 *     base64url(payload) "." base64url(HMAC-SHA256 of the first part),  payload = {"kid","activity_id","sku_id","user_id","nonce","exp"}
 * Their nonce is bound by the reserving script to the first request_id of its user. */
#pragma once
#include "arena.h"
#include "buf.h"
#include "str.h"

struct qualification {
    struct str kid, activity, sku, user, nonce;
    int64_t expires_s;
};
#define QUALIFICATION_MAX 1024    /* bytes of a token */
#define QUALIFICATION_NONCE_MAX 64

/* Keys: kid:secret pairs with commas between, as the settings hold them (already checked). */
/* Signs with the first key; q->kid is filled in. Writes the token. */
void qualification_issue(const char *keys, struct qualification *q, struct buf *token);
/* True: we issued it, whatever it says of time and people; its texts live in the arena (give 1.5 KiB). False: it was made up, is too long, or malformed. */
bool qualification_read(const char *keys, struct str token, struct arena *arena, struct qualification *out);

/* SPDX-License-Identifier: Apache-2.0
 * webhook.h: callbacks signed as Standard Webhooks does: HMAC-SHA256 over "id.timestamp.body", the body byte for byte as it came. Both sides are
 * here: what the API believes, and what our own payment channel sends. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "buf.h"

#define WEBHOOK_ID_MAX 128
#define WEBHOOK_SKEW_S 300           /* how far a timestamp may be ahead of our clock */
#define WEBHOOK_SIGNATURES_MAX 16    /* that are looked at */
#define WEBHOOK_SIGNATURE_TEXT 47    /* "v1," and 44 of base64 */

/* The three headers, as they came. */
struct webhook {
    struct str id;           /* printable ASCII without blank and '.' */
    struct str timestamp;    /* seconds */
    struct str signatures;   /* "v1,<base64> v1,<base64> …"; versions we do not know are passed over */
};
enum webhook_verdict { WEBHOOK_FORGED, WEBHOOK_LATE, WEBHOOK_GOOD };    /* LATE: correctly signed, and its timestamp is too old, or too far ahead */
/* `keys`: payment.webhook_keys: whsec_<base64>, several with commas between (rotation): any of them may have signed. Takes the same time wherever a
 * signature differs. `tolerance_s`: how old a timestamp may be (payment.webhook_tolerance_s). Nothing of the body has been believed, or read, before this says WEBHOOK_GOOD. */
enum webhook_verdict webhook_verify(const char *keys, const struct webhook *hook, struct str body, int64_t now_s, int64_t tolerance_s);

/* Appends "v1,<base64>" made with the first key. False: there is no key that can be used. */
bool webhook_sign(const char *keys, struct str id, int64_t timestamp_s, struct str body, struct buf *signature);

/* Whether each of the keys can be used: whsec_ and the base64 of 24 to 64 bytes, at least one. */
bool webhook_keys_good(const char *keys);

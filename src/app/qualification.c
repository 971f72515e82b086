/* SPDX-License-Identifier: Apache-2.0
 * qualification.c: the signature over the bytes as they came, first; only then is anything inside believed. */
#include "qualification.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "check.h"
#include "config.h"
#include "json.h"
#include "scan.h"

#define MAC_BYTES 32

static void add_base64url(struct buf *out, const uint8_t *bytes, size_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) | (i + 2 < n ? bytes[i + 2] : 0);
        size_t chars = n - i >= 3 ? 4 : n - i + 1;
        for (size_t c = 0; c < chars; c++)
            buf_add_char(out, letters[three >> (18 - 6 * c) & 63]);
    }
}

static int sextet(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52 : c == '-' ? 62 : c == '_' ? 63 : -1;
}

/* Exactly what add_base64url writes: no padding, no second spelling of the last bits. Room for 3/4 of the text. */
static bool read_base64url(struct str text, uint8_t *out, size_t *n)
{
    uint32_t bits = 0, count = 0;
    *n = 0;
    for (size_t i = 0; i < text.len; i++) {
        int six = sextet(text.ptr[i]);
        if (six < 0)
            return false;
        bits = (bits << 6 | (uint32_t)six) & 0xffffff;
        if ((count += 6) >= 8) {
            count -= 8;
            out[(*n)++] = (uint8_t)(bits >> count);
        }
    }
    return text.len % 4 != 1 && (bits & ((1u << count) - 1)) == 0;
}

static bool key_at(const char *keys, size_t i, struct str *kid, struct str *secret)
{
    struct str pair = config_item(keys, i);
    const char *colon = pair.len ? memchr(pair.ptr, ':', pair.len) : NULL;
    if (!colon)
        return false;
    *kid = str_range(pair.ptr, colon);
    *secret = str_range(colon + 1, pair.ptr + pair.len);
    return true;
}

static void sign(struct str secret, struct str text, uint8_t mac[MAC_BYTES])
{
    unsigned n = MAC_BYTES;
    const void *made = HMAC(EVP_sha256(), secret.ptr, (int)secret.len, (const uint8_t *)text.ptr, text.len, mac, &n);
    check(made != NULL && n == MAC_BYTES);
}

void qualification_issue(const char *keys, struct qualification *q, struct buf *token)
{
    char memory[QUALIFICATION_MAX];
    struct buf payload = buf_fixed(memory, sizeof memory);
    struct str secret;
    uint8_t mac[MAC_BYTES];
    bool has_key = key_at(keys, 0, &q->kid, &secret);
    check(has_key);
    json_open(&payload);
    json_member_str(&payload, "kid", q->kid);
    json_member_str(&payload, "activity_id", q->activity);
    json_member_str(&payload, "sku_id", q->sku);
    json_member_str(&payload, "user_id", q->user);
    json_member_str(&payload, "nonce", q->nonce);
    json_member_i64(&payload, "exp", q->expires_s);
    json_close(&payload);
    check(buf_ok(&payload));
    size_t from = token->len;
    add_base64url(token, (const uint8_t *)payload.ptr, payload.len);
    sign(secret, str_range(token->ptr + from, token->ptr + token->len), mac);
    buf_add_char(token, '.');
    add_base64url(token, mac, sizeof mac);
}

/* Some key of ours made this signature. */
static bool signed_by_us(const char *keys, struct str text, struct str signature)
{
    uint8_t theirs[MAC_BYTES + 3], ours[MAC_BYTES];
    struct str kid, secret;
    size_t n;
    bool good = false;
    if (signature.len != 43 || !read_base64url(signature, theirs, &n) || n != MAC_BYTES)
        return false;
    for (size_t i = 0; key_at(keys, i, &kid, &secret); i++) {
        sign(secret, text, ours);
        good |= CRYPTO_memcmp(ours, theirs, MAC_BYTES) == 0;
    }
    return good;
}

static bool read_member(struct scan *s, struct arena *arena, struct qualification *out)
{
    struct { const char *name; struct str *into; } texts[] = {
        {"kid", &out->kid}, {"activity_id", &out->activity}, {"sku_id", &out->sku}, {"user_id", &out->user}, {"nonce", &out->nonce}};
    struct str key;
    if (!scan_str(s, arena, 32, &key) || !scan_char(s, ':'))
        return false;
    for (size_t i = 0; i < countof(texts); i++)
        if (str_eq(key, str_of(texts[i].name)))
            return texts[i].into->len == 0 && scan_str(s, arena, QUALIFICATION_NONCE_MAX, texts[i].into) && texts[i].into->len > 0;
    return str_eq(key, str_lit("exp")) && out->expires_s == 0 && scan_i64(s, &out->expires_s);
}

bool qualification_read(const char *keys, struct str token, struct arena *arena, struct qualification *out)
{
    uint8_t payload[QUALIFICATION_MAX];
    const char *dot = token.len > 0 && token.len <= QUALIFICATION_MAX ? memchr(token.ptr, '.', token.len) : NULL;
    size_t n;
    *out = (struct qualification){0};
    if (!dot || !signed_by_us(keys, str_range(token.ptr, dot), str_range(dot + 1, token.ptr + token.len)) ||
        !read_base64url(str_range(token.ptr, dot), payload, &n))
        return false;
    struct scan s = scan_of((struct str){(const char *)payload, n});
    bool more = scan_char(&s, '{');
    if (!more)
        return false;
    do {
        if (!read_member(&s, arena, out))
            return false;
    } while (scan_peek(&s) == ',' && scan_char(&s, ','));
    return scan_char(&s, '}') && scan_end(&s) && out->kid.len && out->activity.len && out->sku.len && out->user.len && str_is_id(out->nonce) && out->expires_s > 0;
}

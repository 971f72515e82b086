/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "check.h"
#include "config.h"

#define MAC_BYTES 32
#define KEY_MIN 24
#define KEY_MAX 64
#define PREFIX "whsec_"

/* Base64 with its padding, in the one spelling that encoding gives; room for `most` bytes. */
static bool read_base64(struct str text, uint8_t *out, size_t most, size_t *n)
{
    uint8_t bytes[132];
    char again[180];
    if (text.len == 0 || text.len % 4 != 0 || text.len > 128)
        return false;
    int len = EVP_DecodeBlock(bytes, (const uint8_t *)text.ptr, (int)text.len);
    if (len < 3)
        return false;
    *n = (size_t)len - (text.ptr[text.len - 1] == '=') - (text.ptr[text.len - 2] == '=');
    if (*n > most || EVP_EncodeBlock((uint8_t *)again, bytes, (int)*n) != (int)text.len || memcmp(again, text.ptr, text.len) != 0)
        return false;
    memcpy(out, bytes, *n);
    return true;
}

/* The i-th key: false where there is none, or none that can be used. */
static bool key_at(const char *keys, size_t i, uint8_t key[KEY_MAX], size_t *n)
{
    struct str item = config_item(keys, i), prefix = str_lit(PREFIX);
    if (!str_starts(item, prefix))
        return false;
    return read_base64((struct str){item.ptr + prefix.len, item.len - prefix.len}, key, KEY_MAX, n) && *n >= KEY_MIN;
}

static void sign(const uint8_t *key, size_t n, struct str id, struct str timestamp, struct str body, uint8_t mac[MAC_BYTES])
{
    const struct str parts[] = {id, str_lit("."), timestamp, str_lit("."), body};
    size_t len = MAC_BYTES;
    EVP_MAC *kind = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *c = EVP_MAC_CTX_new(kind);
    OSSL_PARAM digest[] = {OSSL_PARAM_construct_utf8_string("digest", (char[]){"SHA256"}, 0), OSSL_PARAM_construct_end()};
    bool good = c && EVP_MAC_init(c, key, n, digest);
    for (size_t i = 0; good && i < countof(parts); i++)
        good = parts[i].len == 0 || EVP_MAC_update(c, (const uint8_t *)parts[i].ptr, parts[i].len);
    good = good && EVP_MAC_final(c, mac, &len, MAC_BYTES);
    EVP_MAC_CTX_free(c);
    EVP_MAC_free(kind);
    check(good && len == MAC_BYTES);
}

/* Plain characters only, and no '.', which would let one text be read as two. */
static bool id_good(struct str id)
{
    bool good = id.len > 0 && id.len <= WEBHOOK_ID_MAX;
    for (size_t i = 0; good && i < id.len; i++)
        good = id.ptr[i] > ' ' && id.ptr[i] < 0x7f && id.ptr[i] != '.';
    return good;
}

static bool time_read(struct str timestamp, int64_t *at_s)
{
    uint64_t at = 0;
    bool good = timestamp.len <= 12 && str_to_u64(timestamp, &at);
    *at_s = (int64_t)at;
    return good;
}

/* The next of the list that is of version 1 and whole; false: no more. */
static bool next_signature(struct str *list, uint8_t mac[MAC_BYTES])
{
    while (list->len > 0) {
        const char *blank = memchr(list->ptr, ' ', list->len);
        struct str one = str_range(list->ptr, blank ? blank : list->ptr + list->len);
        size_t n = 0;
        *list = blank ? str_range(blank + 1, list->ptr + list->len) : (struct str){0};
        if (str_starts(one, str_lit("v1,")) && read_base64((struct str){one.ptr + 3, one.len - 3}, mac, MAC_BYTES, &n) && n == MAC_BYTES)
            return true;
    }
    return false;
}

enum webhook_verdict webhook_verify(const char *keys, const struct webhook *hook, struct str body, int64_t now_s, int64_t tolerance_s)
{
    uint8_t key[KEY_MAX], theirs[MAC_BYTES], ours[MAC_BYTES];
    struct str list = hook->signatures;
    size_t n;
    bool good = false;
    int64_t at_s;
    if (!id_good(hook->id) || !time_read(hook->timestamp, &at_s))
        return WEBHOOK_FORGED;
    for (size_t s = 0; s < WEBHOOK_SIGNATURES_MAX && next_signature(&list, theirs); s++)
        for (size_t k = 0; config_item(keys, k).len > 0; k++) {
            if (!key_at(keys, k, key, &n))
                continue;
            sign(key, n, hook->id, hook->timestamp, body, ours);
            good |= CRYPTO_memcmp(ours, theirs, MAC_BYTES) == 0;
        }
    OPENSSL_cleanse(key, sizeof key);
    return !good ? WEBHOOK_FORGED : at_s < now_s - tolerance_s || at_s > now_s + WEBHOOK_SKEW_S ? WEBHOOK_LATE : WEBHOOK_GOOD;
}

bool webhook_sign(const char *keys, struct str id, int64_t timestamp_s, struct str body, struct buf *signature)
{
    uint8_t key[KEY_MAX], mac[MAC_BYTES];
    char text[48], at[24];
    size_t n;
    struct buf time = buf_fixed(at, sizeof at);
    if (!id_good(id) || !key_at(keys, 0, key, &n))
        return false;
    buf_add_fmt(&time, "%lld", (long long)timestamp_s);
    sign(key, n, id, buf_str(&time), body, mac);
    EVP_EncodeBlock((uint8_t *)text, mac, MAC_BYTES);
    buf_add_fmt(signature, "v1,%s", text);
    OPENSSL_cleanse(key, sizeof key);
    return true;
}

bool webhook_keys_good(const char *keys)
{
    uint8_t key[KEY_MAX];
    size_t i = 0, n;
    for (; config_item(keys, i).len > 0; i++)
        if (!key_at(keys, i, key, &n))
            return false;
    OPENSSL_cleanse(key, sizeof key);
    return i > 0;
}

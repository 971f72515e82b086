/* SPDX-License-Identifier: Apache-2.0
 * token.c: `seckill token issue`: qualification tokens (interfaces §1), base64url(payload) "." base64url(HMAC-SHA256 of the first part). The nonce is
 * bound to the first request_id of its user that reserves with it. */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "check.h"
#include "hash.h"
#include "json.h"
#include "verb.h"

#define NONCE_BYTES 12

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

static void write_payload(struct buf *out, const struct call *c, struct str kid, const char *user, int64_t expires_s)
{
    uint8_t nonce[NONCE_BYTES];
    char hex[NONCE_BYTES * 2];
    int good = RAND_bytes(nonce, sizeof nonce);
    check(good == 1);
    hex_write(nonce, sizeof nonce, hex);
    json_open(out);
    json_member_str(out, "kid", kid);
    json_member_text(out, "activity_id", call_text(c, "activity"));
    json_member_text(out, "sku_id", call_text(c, "sku"));
    json_member_text(out, "user_id", user);
    json_member_str(out, "nonce", (struct str){hex, sizeof hex});
    json_member_i64(out, "exp", expires_s);
    json_close(out);
}

static void issue(const struct call *c, struct str kid, struct str secret, const char *user)
{
    char payload_text[1024], token_text[2048];
    struct buf payload = buf_fixed(payload_text, sizeof payload_text), token = buf_fixed(token_text, sizeof token_text);
    uint8_t mac[EVP_MAX_MD_SIZE];
    unsigned mac_bytes = 0;
    write_payload(&payload, c, kid, user, (int64_t)time(NULL) + call_number(c, "valid"));
    check(buf_ok(&payload));
    add_base64url(&token, (const uint8_t *)payload.ptr, payload.len);
    const void *made = HMAC(EVP_sha256(), secret.ptr, (int)secret.len, (const uint8_t *)token.ptr, token.len, mac, &mac_bytes);
    check(made != NULL);
    buf_add_char(&token, '.');
    add_base64url(&token, mac, mac_bytes);
    check(buf_ok(&token));
    if (c->json)
        printf("{\"user_id\":\"%s\",\"token\":\"" STR_FMT "\"}\n", user, STR_ARG(buf_str(&token)));
    else
        printf(STR_FMT "\n", STR_ARG(buf_str(&token)));
}

int verb_token(const struct call *c)
{
    const char *user = call_text(c, "user");
    int64_t count = call_number(c, "count");
    struct str key = config_item(c->config->qualification_keys, 0);
    const char *colon = memchr(key.ptr, ':', key.len);
    if (c->argument_count != 1 || strcmp(c->arguments[0], "issue") != 0)
        return call_misused(c, "the one thing it does is `seckill token issue`");
    if (!str_is_id(str_of(user)) || !str_is_id(str_of(call_text(c, "activity"))) || !str_is_id(str_of(call_text(c, "sku"))))
        return call_misused(c, "--user, --activity and --sku are ids: 1 to 64 of A-Z a-z 0-9 _ -");
    check(colon != NULL);    /* the settings were checked */
    for (int64_t i = 1; i <= count; i++) {
        char name[96];
        if (count > 1)
            snprintf(name, sizeof name, "%s%lld", user, (long long)i);
        else
            snprintf(name, sizeof name, "%s", user);
        issue(c, str_range(key.ptr, colon), str_range(colon + 1, key.ptr + key.len), name);
    }
    return LEAVE_DONE;
}

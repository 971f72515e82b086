/* SPDX-License-Identifier: Apache-2.0
 * jwt.c: signature first, over bytes as they came; only then is anything inside believed. */
#include "jwt.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stddef.h>
#include <stdlib.h>

#include "check.h"

#define KEYS_MAX 16
#define TOKEN_MAX 4096
#define LEEWAY_S 30

struct jwt_keys {
    char *text;
    size_t count;
    struct {
        struct str kid;
        EVP_MAC_CTX *mac;    /* keyed once; each token takes a copy */
    } keys[KEYS_MAX];
};

static struct str cut(struct str *rest, char at)    /* what stands before `at`, or all; *rest is what stands behind it */
{
    const char *found = rest->len ? memchr(rest->ptr, at, rest->len) : NULL;
    struct str head = found ? str_range(rest->ptr, found) : *rest;
    *rest = found ? str_range(found + 1, rest->ptr + rest->len) : (struct str){0};
    return head;
}

static EVP_MAC_CTX *keyed(struct str secret)
{
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    check(hmac != NULL);
    EVP_MAC_CTX *mac = EVP_MAC_CTX_new(hmac);
    EVP_MAC_free(hmac);
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", digest, 0), OSSL_PARAM_construct_end()};
    check(mac != NULL && EVP_MAC_init(mac, (const unsigned char *)secret.ptr, secret.len, params) == 1);
    return mac;
}

struct jwt_keys *jwt_keys_open(struct str pairs)
{
    struct jwt_keys *k = calloc(1, sizeof *k);
    check(k != NULL && (k->text = malloc(pairs.len + 1)) != NULL);
    if (pairs.len > 0)
        memcpy(k->text, pairs.ptr, pairs.len);
    struct str rest = {k->text, pairs.len};
    while (rest.len > 0) {
        struct str secret = str_trim(cut(&rest, ',')), kid = cut(&secret, ':');
        if (k->count == KEYS_MAX || !str_is_id(kid) || secret.len < 16) {
            jwt_keys_close(k);
            return NULL;
        }
        k->keys[k->count].kid = kid;
        k->keys[k->count++].mac = keyed(secret);
    }
    if (k->count > 0)
        return k;
    jwt_keys_close(k);
    return NULL;
}

void jwt_keys_close(struct jwt_keys *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < k->count; i++)
        EVP_MAC_CTX_free(k->keys[i].mac);
    free(k->text);
    free(k);
}

static int sextet(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52 : c == '-' ? 62 : c == '_' ? 63 : -1;
}

/* base64url without padding, in its one canonical spelling. */
static bool decode(struct str s, struct arena *a, struct str *out)
{
    size_t n = s.len / 4 * 3 + (s.len % 4 ? s.len % 4 - 1 : 0);
    char *to = s.len % 4 == 1 ? NULL : arena_take(a, n + 1);
    uint32_t bits = 0;
    int held = 0;
    if (!to)
        return false;
    *out = (struct str){to, n};
    for (size_t i = 0; i < s.len; i++) {
        int six = sextet(s.ptr[i]);
        if (six < 0)
            return false;
        bits = bits << 6 | (uint32_t)six;
        held += 6;
        if (held >= 8) {
            held -= 8;
            *to++ = (char)(bits >> held);
            bits &= (1u << held) - 1;
        }
    }
    return bits == 0;
}

static bool signed_by(EVP_MAC_CTX *key, struct str text, struct str signature)
{
    unsigned char mac[32];
    size_t n = 0;
    EVP_MAC_CTX *c = EVP_MAC_CTX_dup(key);
    check(c != NULL);
    bool made = EVP_MAC_update(c, (const unsigned char *)text.ptr, text.len) == 1 && EVP_MAC_final(c, mac, &n, sizeof mac) == 1;
    EVP_MAC_CTX_free(c);
    return made && signature.len == n && CRYPTO_memcmp(mac, signature.ptr, n) == 0;
}

static struct str text_of(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_string(v) ? (struct str){json_string_value(v), json_string_length(v)} : (struct str){0};
}

/* The key that the header names; NULL and *why where the header is not one of ours. */
static EVP_MAC_CTX *choose(const struct jwt_keys *k, struct str header, const char **why)
{
    EVP_MAC_CTX *key = NULL;
    json_t *h = json_loadb(header.ptr, header.len, JSON_REJECT_DUPLICATES, NULL);
    *why = "the token's header cannot be read";
    if (json_is_object(h)) {
        struct str kid = text_of(h, "kid");
        bool ours = str_eq(text_of(h, "alg"), str_lit("HS256")) && !json_object_get(h, "crit");
        *why = ours ? "the token names no key of ours" : "the token is not signed with HS256";
        for (size_t i = 0; ours && i < k->count; i++)
            if (str_eq(k->keys[i].kid, kid))
                key = k->keys[i].mac;
    }
    json_decref(h);
    return key;
}

static const char *read_claims(const json_t *c, int64_t now_s, struct arena *arena, struct str *user)
{
    struct str sub = text_of(c, "sub");
    const json_t *end = json_object_get(c, "exp"), *start = json_object_get(c, "nbf");
    if (!str_is_id(sub))
        return "the token's sub is no user id";
    if (!json_is_number(end) || json_number_value(end) + LEEWAY_S <= (double)now_s)
        return "the token has expired";
    if (start && (!json_is_number(start) || json_number_value(start) - LEEWAY_S > (double)now_s))
        return "the token is not valid yet";
    *user = arena_str(arena, sub);
    return user->ptr ? NULL : "the token is too large";
}

const char *jwt_verify(const struct jwt_keys *k, struct str token, int64_t now_s, struct arena *arena, struct str *user)
{
    const char *why;
    _Alignas(max_align_t) char memory[TOKEN_MAX];    /* what is decoded is three quarters of that, and read only here */
    struct arena scratch = {.start = memory, .cap = sizeof memory};
    struct str rest = token, header64 = cut(&rest, '.'), claims64 = cut(&rest, '.'), header, claims, signature;
    struct str text = {token.ptr, header64.len + 1 + claims64.len};
    if (token.len > TOKEN_MAX)
        return "the token is too large";
    if (claims64.len == 0 || !decode(header64, &scratch, &header) || !decode(claims64, &scratch, &claims) || !decode(rest, &scratch, &signature))
        return "the token cannot be read";
    EVP_MAC_CTX *key = choose(k, header, &why);
    if (!key)
        return why;
    if (!signed_by(key, text, signature))
        return "the token's signature is wrong";
    json_t *c = json_loadb(claims.ptr, claims.len, JSON_REJECT_DUPLICATES, NULL);
    why = json_is_object(c) ? read_claims(c, now_s, arena, user) : "the token's claims cannot be read";
    json_decref(c);
    return why;
}

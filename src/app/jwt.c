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
#include "hash.h"

#define KEYS_MAX 16
#define TOKEN_MAX 4096
#define LEEWAY_S 30
#define TIME_MAX 253402300799    /* the last second of the year 9999 */
#define MAPPED_PREFIX "u_"
#define MAPPED_BYTES 20           /* of the digest: 32 characters of base32 */
#define MAPPED_TEXT 34

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

/* ---- subjects ---- */

static bool looks_mapped(struct str s)
{
    if (s.len != MAPPED_TEXT || !str_starts(s, str_lit(MAPPED_PREFIX)))
        return false;
    for (size_t i = sizeof MAPPED_PREFIX - 1; i < s.len; i++)
        if (!((s.ptr[i] >= 'a' && s.ptr[i] <= 'z') || (s.ptr[i] >= '2' && s.ptr[i] <= '7')))
            return false;
    return true;
}

static size_t base32_write(const uint8_t *bytes, size_t n, char *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    size_t written = 0;
    for (size_t i = 0; i < n; i += 5) {    /* n is a multiple of five */
        uint64_t five = 0;
        for (size_t b = 0; b < 5; b++)
            five = five << 8 | bytes[i + b];
        for (int shift = 35; shift >= 0; shift -= 5)
            out[written++] = letters[five >> shift & 31];
    }
    return written;
}

bool jwt_user_id(struct str subject, char out[JWT_USER_TEXT], size_t *len)
{
    uint8_t digest[32];
    if (subject.len == 0 || subject.len > JWT_SUBJECT_MAX)
        return false;
    if (str_is_id(subject) && !looks_mapped(subject)) {
        memcpy(out, subject.ptr, subject.len);
        *len = subject.len;
        return true;
    }
    sha256(subject, digest);
    memcpy(out, MAPPED_PREFIX, sizeof MAPPED_PREFIX - 1);
    *len = sizeof MAPPED_PREFIX - 1 + base32_write(digest, MAPPED_BYTES, out + sizeof MAPPED_PREFIX - 1);
    check(*len == MAPPED_TEXT);
    return true;
}

/* ---- the header ---- */

/* An access token or a plain one; any other kind (a logout token, a DPoP proof) is signed with the same key and means something else. */
static bool type_accepted(const json_t *typ)
{
    static const struct str types[] = {{"jwt", 3}, {"application/jwt", 15}, {"at+jwt", 6}, {"application/at+jwt", 18}};
    struct str said = json_is_string(typ) ? (struct str){json_string_value(typ), json_string_length(typ)} : (struct str){0};
    for (size_t i = 0; i < countof(types); i++)
        if (said.len == types[i].len && str_eq_nocase(said, types[i]))
            return true;
    return typ == NULL;
}

/* Bit i: key i may have signed it. 0 and *why where the header is not one of ours. */
static uint32_t choose(const struct jwt_keys *k, struct str header, const char **why)
{
    uint32_t keys = 0;
    json_t *h = json_loadb(header.ptr, header.len, JSON_REJECT_DUPLICATES, NULL);
    *why = "the token's header cannot be read";
    if (json_is_object(h)) {
        const json_t *kid = json_object_get(h, "kid");
        bool ours = str_eq(text_of(h, "alg"), str_lit("HS256")) && !json_object_get(h, "crit");
        bool type = type_accepted(json_object_get(h, "typ"));
        *why = !ours ? "the token is not signed with HS256" : !type ? "the token's typ is neither JWT nor at+jwt" : "the token names no key of ours";
        for (size_t i = 0; ours && type && i < k->count; i++)
            if (!kid || (json_is_string(kid) && str_eq(k->keys[i].kid, text_of(h, "kid"))))
                keys |= 1u << i;
    }
    json_decref(h);
    return keys;
}

static bool signed_by_any(const struct jwt_keys *k, uint32_t keys, struct str text, struct str signature)
{
    for (size_t i = 0; i < k->count; i++)
        if ((keys >> i & 1) && signed_by(k->keys[i].mac, text, signature))
            return true;
    return false;
}

/* ---- the claims ---- */

/* A time of RFC 7519, of which we take whole seconds alone: a float such as 1e308 is no time. False: there is one, and it is none. */
static bool read_time(const json_t *claims, const char *name, int64_t absent, int64_t *out)
{
    const json_t *v = json_object_get(claims, name);
    *out = absent;
    if (!v)
        return true;
    if (!json_is_integer(v))
        return false;
    *out = json_integer_value(v);
    return *out >= 0 && *out <= TIME_MAX;
}

static bool is_text(const json_t *v, struct str text) { return json_is_string(v) && str_eq((struct str){json_string_value(v), json_string_length(v)}, text); }

static bool is_for(const json_t *aud, struct str audience)
{
    size_t i;
    const json_t *one;
    bool found = is_text(aud, audience);
    if (json_is_array(aud))
        json_array_foreach(aud, i, one) {
            if (!json_is_string(one))
                return false;
            found |= is_text(one, audience);
        }
    return found;
}

static const char *read_claims(const json_t *c, const struct jwt_expected *expected, int64_t now_s, struct arena *arena, struct str *user)
{
    char id[JWT_USER_TEXT];
    size_t len = 0;
    int64_t end, start, issued;
    if (!jwt_user_id(text_of(c, "sub"), id, &len))
        return "the token's sub is empty or too long";
    if (!read_time(c, "exp", -1, &end) || !read_time(c, "nbf", 0, &start) || !read_time(c, "iat", 0, &issued))
        return "the token's times are not whole seconds";
    if (end + LEEWAY_S <= now_s)
        return end < 0 ? "the token has no exp" : "the token has expired";
    if (start - LEEWAY_S > now_s)
        return "the token is not valid yet";
    if (expected->issuer.len > 0 && !is_text(json_object_get(c, "iss"), expected->issuer))
        return "the token's iss is not auth.jwt_issuer";
    if (expected->audience.len > 0 && !is_for(json_object_get(c, "aud"), expected->audience))
        return "the token's aud does not name auth.jwt_audience";
    *user = arena_str(arena, (struct str){id, len});
    return user->ptr ? NULL : "the token is too large";
}

const char *jwt_verify(const struct jwt_keys *k, const struct jwt_expected *expected, struct str token, int64_t now_s, struct arena *arena, struct str *user)
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
    uint32_t keys = choose(k, header, &why);
    if (keys == 0)
        return why;
    if (!signed_by_any(k, keys, text, signature))
        return "the token's signature is wrong";
    json_t *c = json_loadb(claims.ptr, claims.len, JSON_REJECT_DUPLICATES, NULL);
    why = json_is_object(c) ? read_claims(c, expected, now_s, arena, user) : "the token's claims cannot be read";
    json_decref(c);
    return why;
}

/* SPDX-License-Identifier: Apache-2.0
 * Tokens that say who somebody is (jwt.c) and what he may try (qualification.c). The first byte chooses:
 *   0, 1   the rest as it came: it is taken only where its signature is one we could have made
 *   2, 3   the rest as claims, signed with our own key: what is taken, jansson reads the same
 *   4      the rest as the head of a JWT, claims good, signed: taken only with HS256 and the name of our key */
#include <strings.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#include "check.h"
#include "jwt.h"
#include "qualification.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_S 1800000000
#define PART_MAX 700
static const char keys[] = "k1:fuzz-fuzz-fuzz-fuzz,k2:another-secret-of-ours";
static const char secret[] = "fuzz-fuzz-fuzz-fuzz";
static struct jwt_keys *jwt;
static char memory[16384];

static void base64url(struct buf *out, const void *bytes, size_t n)
{
    char text[PART_MAX * 4 / 3 + 8];
    int len = EVP_EncodeBlock((unsigned char *)text, bytes, (int)n);
    for (int i = 0; i < len && text[i] != '='; i++)
        buf_add_char(out, text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
}

static void add_signature(struct buf *token)
{
    unsigned char mac[32];
    unsigned n = sizeof mac;
    const void *made = HMAC(EVP_sha256(), secret, (int)sizeof secret - 1, (const unsigned char *)token->ptr, token->len, mac, &n);
    check(made != NULL && n == sizeof mac);
    buf_add_char(token, '.');
    base64url(token, mac, n);
}

static struct str member(const json_t *root, const char *name)
{
    const json_t *v = json_object_get(root, name);
    return json_is_string(v) ? (struct str){json_string_value(v), json_string_length(v)} : (struct str){0};
}

static void as_jwt(struct str token)
{
    struct arena a = {.start = memory, .cap = sizeof memory};
    struct str user = {0};
    const char *why = jwt_verify(jwt, &(struct jwt_expected){0}, token, NOW_S, &a, &user);
    check(why || (str_is_id(user) && token.len <= 4096));
}

static void as_qualification(struct str token)
{
    struct arena a = {.start = memory, .cap = sizeof memory};
    struct qualification q;
    if (qualification_read(keys, token, &a, &q))
        check(token.len <= QUALIFICATION_MAX && str_is_id(q.nonce) && q.expires_s > 0);
}

static bool is_time(const json_t *v) { return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= 253402300799; }

/* As jwt.c says it, in other words. */
static bool is_type(const json_t *typ)
{
    const char *s = json_string_value(typ);
    if (!typ)
        return true;
    return s && strlen(s) == json_string_length(typ) && (strcasecmp(s, "JWT") == 0 || strcasecmp(s, "at+jwt") == 0 || strcasecmp(s, "application/jwt") == 0 || strcasecmp(s, "application/at+jwt") == 0);
}

static void claims_of_jwt(struct str claims)
{
    char text[PART_MAX * 4];
    struct buf token = buf_fixed(text, sizeof text);
    struct arena a = {.start = memory, .cap = sizeof memory};
    struct str user = {0};
    base64url(&token, "{\"alg\":\"HS256\",\"kid\":\"k1\"}", 26);
    buf_add_char(&token, '.');
    base64url(&token, claims.ptr, claims.len);
    add_signature(&token);
    bool taken = jwt_verify(jwt, &(struct jwt_expected){0}, buf_str(&token), NOW_S, &a, &user) == NULL;
    json_t *root = json_loadb(claims.ptr, claims.len, JSON_REJECT_DUPLICATES, NULL);
    struct str sub = member(root, "sub");
    const json_t *end = json_object_get(root, "exp"), *start = json_object_get(root, "nbf"), *issued = json_object_get(root, "iat");
    bool good = claims.len > 0 && sub.len > 0 && sub.len <= JWT_SUBJECT_MAX && is_time(end) && json_integer_value(end) + 30 > NOW_S &&
                (!start || (is_time(start) && json_integer_value(start) - 30 <= NOW_S)) && (!issued || is_time(issued));
    check(taken == good && (!taken || (str_is_id(user) && (str_eq(user, sub) || str_starts(user, str_lit("u_"))))));
    json_decref(root);
}

static void claims_of_qualification(struct str claims)
{
    char text[PART_MAX * 4], written[QUALIFICATION_MAX];
    struct buf token = buf_fixed(text, sizeof text), again = buf_fixed(written, sizeof written);
    struct arena a = {.start = memory, .cap = sizeof memory};
    struct qualification q, back;
    base64url(&token, claims.ptr, claims.len);
    add_signature(&token);
    if (!qualification_read(keys, buf_str(&token), &a, &q))
        return;
    json_t *root = json_loadb(claims.ptr, claims.len, JSON_REJECT_DUPLICATES, NULL);
    check(json_is_object(root) && json_object_size(root) == 6 && json_integer_value(json_object_get(root, "exp")) == q.expires_s);
    check(str_eq(q.kid, member(root, "kid")) && str_eq(q.activity, member(root, "activity_id")) && str_eq(q.sku, member(root, "sku_id")) &&
          str_eq(q.user, member(root, "user_id")) && str_eq(q.nonce, member(root, "nonce")));
    json_decref(root);
    if (!str_is_id(q.activity) || !str_is_id(q.sku) || !str_is_id(q.user))
        return;
    struct qualification copy = q;
    qualification_issue(keys, &copy, &again);
    check(buf_ok(&again) && qualification_read(keys, buf_str(&again), &a, &back));
    check(str_eq(back.user, q.user) && str_eq(back.nonce, q.nonce) && back.expires_s == q.expires_s);
}

static void head_of_jwt(struct str head)
{
    char text[PART_MAX * 4];
    struct buf token = buf_fixed(text, sizeof text);
    struct arena a = {.start = memory, .cap = sizeof memory};
    struct str user = {0};
    base64url(&token, head.ptr, head.len);
    buf_add_str(&token, str_lit(".eyJzdWIiOiJ1IiwiZXhwIjoxODAwMDAwMDAwfQ"));    /* {"sub":"u","exp":1800000000} */
    add_signature(&token);
    bool taken = jwt_verify(jwt, &(struct jwt_expected){0}, buf_str(&token), NOW_S, &a, &user) == NULL;
    json_t *root = json_loadb(head.ptr, head.len, JSON_REJECT_DUPLICATES, NULL);
    bool good = str_eq(member(root, "alg"), str_lit("HS256")) && (!json_object_get(root, "kid") || str_eq(member(root, "kid"), str_lit("k1"))) &&
                !json_object_get(root, "crit") && is_type(json_object_get(root, "typ"));
    check(taken == good);
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const targets[])(struct str) = {as_jwt, as_qualification, claims_of_jwt, claims_of_qualification, head_of_jwt};
    if (size == 0 || size > PART_MAX)
        return 0;
    if (!jwt)
        jwt = jwt_keys_open(str_lit("k1:fuzz-fuzz-fuzz-fuzz,k2:another-secret-of-ours"));
    check(jwt != NULL);
    char *copy = malloc(size);
    check(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    targets[data[0] % countof(targets)]((struct str){copy, size - 1});
    free(copy);
    return 0;
}

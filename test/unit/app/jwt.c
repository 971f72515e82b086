/* SPDX-License-Identifier: Apache-2.0
 * Tokens as providers make them and as others would forge them: each row is signed (or not) here, with OpenSSL alone, and judged by jwt_verify. */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "check.h"
#include "jwt.h"

#define KEY1 "0123456789abcdef0123456789abcdef"
#define KEY2 "another-key-of-thirty-two-bytes!"
#define NOW 1800000000
#define H "{\"alg\":\"HS256\",\"kid\":\"k1\"}"
#define C "{\"sub\":\"alice\",\"exp\":1800000060,\"iss\":\"https://id.example/\",\"aud\":\"shop\"}"
#define WITH(more) "{\"sub\":\"alice\",\"exp\":1800000060,\"iss\":\"https://id.example/\",\"aud\":\"shop\"," more "}"
#define EXP(value) "{\"sub\":\"alice\",\"iss\":\"https://id.example/\",\"aud\":\"shop\",\"exp\":" value "}"
#define SUB(value) "{\"sub\":" value ",\"exp\":1800000060,\"iss\":\"https://id.example/\",\"aud\":\"shop\"}"
#define ISS(value) "{\"sub\":\"alice\",\"exp\":1800000060,\"aud\":\"shop\",\"iss\":" value "}"
#define AUD(value) "{\"sub\":\"alice\",\"exp\":1800000060,\"iss\":\"https://id.example/\",\"aud\":" value "}"

static size_t base64url(const void *bytes, size_t n, char *out)
{
    size_t len = (size_t)EVP_EncodeBlock((unsigned char *)out, bytes, (int)n);
    while (len > 0 && out[len - 1] == '=')
        len--;
    for (size_t i = 0; i < len; i++)
        out[i] = out[i] == '+' ? '-' : out[i] == '/' ? '_' : out[i];
    return len;
}

static struct str make(const char *header, const char *claims, const char *secret, const EVP_MD *digest)
{
    static char text[8192];
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    size_t at = base64url(header, strlen(header), text);
    text[at++] = '.';
    at += base64url(claims, strlen(claims), text + at);
    assert_non_null(HMAC(digest, secret, (int)strlen(secret), (unsigned char *)text, at, mac, &n));
    text[at++] = '.';
    at += base64url(mac, n, text + at);
    return (struct str){text, at};
}

static struct arena arena;
static struct jwt_keys *keys;
static const struct jwt_expected expected = {.issuer = {"https://id.example/", 19}, .audience = {"shop", 4}};

static const char *judge(struct str token, struct str *user)
{
    arena_reset(&arena);
    *user = (struct str){0};
    return jwt_verify(keys, &expected, token, NOW, &arena, user);
}

static void good_tokens(void **state)
{
    (void)state;
    static const struct { const char *header, *claims, *secret, *user; } rows[] = {
        {H, C, KEY1, "alice"},
        {"{\"alg\":\"HS256\",\"kid\":\"k2\"}", C, KEY2, "alice"},
        {"{\"alg\":\"HS256\"}", C, KEY1, "alice"},
        {"{\"alg\":\"HS256\"}", C, KEY2, "alice"},
        {"{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"k1\"}", C, KEY1, "alice"},
        {"{\"alg\":\"HS256\",\"typ\":\"at+jwt\",\"kid\":\"k1\"}", C, KEY1, "alice"},
        {"{\"alg\":\"HS256\",\"typ\":\"application/AT+JWT\",\"kid\":\"k1\"}", C, KEY1, "alice"},
        {H, AUD("[\"other\",\"shop\"]"), KEY1, "alice"},
        {H, EXP("1799999971"), KEY1, "alice"},
        {H, EXP("253402300799"), KEY1, "alice"},
        {H, WITH("\"nbf\":1800000030"), KEY1, "alice"},
        {H, WITH("\"nbf\":0,\"iat\":1799999999,\"groups\":[1.5,{\"a\":null}]"), KEY1, "alice"},
        {H, SUB("\"auth0|5f7c8ec7c33c6c004bbafe82\""), KEY1, "u_igveq6eh4pcfygnsisfs6a3fklyawldy"},
        {H, SUB("\"alice@example.org\""), KEY1, "u_pjsk34uhg7vja4m4xxyldkd2l3776n2t"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct str user;
        const char *why = judge(make(rows[i].header, rows[i].claims, rows[i].secret, EVP_sha256()), &user);
        if (why || !str_eq(user, str_of(rows[i].user)))
            fail_msg("row %zu, %s %s: %s, user " STR_FMT, i, rows[i].header, rows[i].claims, why ? why : "good", STR_ARG(user));
    }
}

static void forged_and_malformed_tokens(void **state)
{
    (void)state;
    static const struct { const char *header, *claims, *secret; } rows[] = {
        /* keys and algorithms */
        {H, C, KEY2}, {H, C, ""}, {"{\"alg\":\"HS256\"}", C, "a-key-that-nobody-has-configured"}, {"{\"alg\":\"HS256\",\"kid\":\"k2\"}", C, KEY1},
        {"{\"alg\":\"HS256\",\"kid\":\"k3\"}", C, KEY1}, {"{\"alg\":\"HS256\",\"kid\":\"\"}", C, KEY1}, {"{\"alg\":\"HS256\",\"kid\":null}", C, KEY1},
        {"{\"alg\":\"HS256\",\"kid\":1}", C, KEY1}, {"{\"alg\":\"HS256\",\"kid\":[\"k1\"]}", C, KEY1}, {"{\"alg\":\"HS256\",\"kid\":\"../k1\"}", C, KEY1},
        {"{\"alg\":\"none\"}", C, KEY1}, {"{\"alg\":\"None\",\"kid\":\"k1\"}", C, KEY1}, {"{\"alg\":\"hs256\",\"kid\":\"k1\"}", C, KEY1}, {"{\"alg\":\"HS384\",\"kid\":\"k1\"}", C, KEY1},
        {"{\"alg\":\"HS512\",\"kid\":\"k1\"}", C, KEY1}, {"{\"alg\":\"RS256\",\"kid\":\"k1\"}", C, KEY1}, {"{\"alg\":\"ES256\",\"kid\":\"k1\"}", C, KEY1},
        {"{\"alg\":[\"HS256\"],\"kid\":\"k1\"}", C, KEY1}, {"{\"kid\":\"k1\"}", C, KEY1}, {"{\"alg\":\"HS256 \",\"kid\":\"k1\"}", C, KEY1},
        /* headers */
        {"{\"alg\":\"none\",\"alg\":\"HS256\",\"kid\":\"k1\"}", C, KEY1}, {"{\"alg\":\"HS256\",\"kid\":\"k1\",\"crit\":[\"exp\"]}", C, KEY1}, {"{\"alg\":\"HS256\",\"kid\":\"k1\",\"crit\":[]}", C, KEY1},
        {"[]", C, KEY1}, {"", C, KEY1}, {"null", C, KEY1}, {"{\"alg\":\"HS256\",\"kid\":\"k1\"}x", C, KEY1}, {"{\"alg\":\"HS256\",\"kid\":\"k1\"", C, KEY1},
        {"{\"alg\":\"HS256\",\"typ\":\"dpop+jwt\",\"kid\":\"k1\"}", C, KEY1}, {"{\"alg\":\"HS256\",\"typ\":\"logout+jwt\",\"kid\":\"k1\"}", C, KEY1},
        {"{\"alg\":\"HS256\",\"typ\":\"JWE\",\"kid\":\"k1\"}", C, KEY1}, {"{\"alg\":\"HS256\",\"typ\":\"\",\"kid\":\"k1\"}", C, KEY1}, {"{\"alg\":\"HS256\",\"typ\":null,\"kid\":\"k1\"}", C, KEY1},
        {"{\"alg\":\"HS256\",\"typ\":[\"JWT\"],\"kid\":\"k1\"}", C, KEY1}, {"{\"alg\":\"HS256\",\"typ\":\"JWT \",\"kid\":\"k1\"}", C, KEY1},
        /* times */
        {H, EXP("1e308"), KEY1}, {H, EXP("1800000060.0"), KEY1}, {H, EXP("1.80000006e9"), KEY1}, {H, EXP("\"1800000060\""), KEY1}, {H, EXP("null"), KEY1}, {H, EXP("true"), KEY1},
        {H, EXP("[1800000060]"), KEY1}, {H, EXP("-1"), KEY1}, {H, EXP("-9223372036854775808"), KEY1}, {H, EXP("9223372036854775807"), KEY1}, {H, EXP("9223372036854775808"), KEY1},
        {H, EXP("253402300800"), KEY1}, {H, EXP("0"), KEY1}, {H, EXP("1799999970"), KEY1}, {H, EXP("1e400"), KEY1}, {H, EXP("NaN"), KEY1}, {H, EXP("Infinity"), KEY1},
        {H, "{\"sub\":\"alice\",\"iss\":\"https://id.example/\",\"aud\":\"shop\"}", KEY1}, {H, WITH("\"exp\":9999999999"), KEY1},
        {H, WITH("\"nbf\":1800000031"), KEY1}, {H, WITH("\"nbf\":9223372036854775807"), KEY1}, {H, WITH("\"nbf\":-9223372036854775808"), KEY1}, {H, WITH("\"nbf\":1.5"), KEY1},
        {H, WITH("\"nbf\":-1e308"), KEY1}, {H, WITH("\"nbf\":\"0\""), KEY1}, {H, WITH("\"nbf\":null"), KEY1}, {H, WITH("\"iat\":1e308"), KEY1}, {H, WITH("\"iat\":\"now\""), KEY1},
        /* users */
        {H, "{\"exp\":1800000060,\"iss\":\"https://id.example/\",\"aud\":\"shop\"}", KEY1}, {H, SUB("\"\""), KEY1}, {H, SUB("null"), KEY1}, {H, SUB("7"), KEY1}, {H, SUB("[\"alice\"]"), KEY1},
        {H, SUB("{\"sub\":\"alice\"}"), KEY1}, {H, SUB("\"a\\u0000b\""), KEY1}, {H, SUB("\"\\ud800\""), KEY1}, {H, SUB("\"\xff\""), KEY1}, {H, WITH("\"sub\":\"bob\""), KEY1},
        /* from whom and for whom */
        {H, ISS("\"https://id.example\""), KEY1}, {H, ISS("\"https://evil.example/\""), KEY1}, {H, ISS("null"), KEY1}, {H, ISS("[\"https://id.example/\"]"), KEY1}, {H, ISS("\"\""), KEY1},
        {H, "{\"sub\":\"alice\",\"exp\":1800000060,\"aud\":\"shop\"}", KEY1}, {H, "{\"sub\":\"alice\",\"exp\":1800000060,\"iss\":\"https://id.example/\"}", KEY1},
        {H, AUD("\"Shop\""), KEY1}, {H, AUD("\"shop2\""), KEY1}, {H, AUD("\"\""), KEY1}, {H, AUD("[]"), KEY1}, {H, AUD("[\"other\"]"), KEY1}, {H, AUD("[[\"shop\"]]"), KEY1},
        {H, AUD("[\"shop\",1]"), KEY1}, {H, AUD("{\"shop\":true}"), KEY1}, {H, AUD("null"), KEY1}, {H, AUD("\"shop other\""), KEY1},
        /* claims */
        {H, "", KEY1}, {H, "[]", KEY1}, {H, "\"alice\"", KEY1}, {H, "null", KEY1}, {H, "{}", KEY1}, {H, C C, KEY1}, {H, "{\"sub\":\"alice\"", KEY1},
    };
    assert_true(countof(rows) >= 60);
    for (size_t i = 0; i < countof(rows); i++) {
        struct str user;
        const char *why = judge(make(rows[i].header, rows[i].claims, rows[i].secret, EVP_sha256()), &user);
        if (!why || user.len > 0)
            fail_msg("row %zu, %s %s, is accepted", i, rows[i].header, rows[i].claims);
    }
}

/* A good token with one thing of its text changed. */
static void broken_texts(void **state)
{
    (void)state;
    char copy[8192];
    struct str user, token = make(H, C, KEY1, EVP_sha256());
    assert_null(judge(token, &user));
    for (size_t i = 0; i < token.len; i++) {
        memcpy(copy, token.ptr, token.len);
        copy[i] = copy[i] == 'A' ? 'B' : 'A';
        assert_non_null(judge((struct str){copy, token.len}, &user));
        memcpy(copy, token.ptr, token.len);
        copy[i] = '=';
        assert_non_null(judge((struct str){copy, token.len}, &user));
        assert_non_null(judge((struct str){token.ptr, i}, &user));
    }
    static const char *const ends[] = {"=", ".", ".AAAA", " ", "A"};
    for (size_t i = 0; i < countof(ends); i++) {
        size_t n = (size_t)snprintf(copy, sizeof copy, STR_FMT "%s", STR_ARG(token), ends[i]);
        assert_non_null(judge((struct str){copy, n}, &user));
    }
    assert_non_null(judge(make("{\"alg\":\"HS256\",\"kid\":\"k1\"}", C, KEY1, EVP_sha512()), &user));
    assert_non_null(judge(make("{\"alg\":\"HS256\",\"kid\":\"k1\"}", C, KEY1, EVP_sha1()), &user));
}

static void a_subject_has_one_user_id(void **state)
{
    (void)state;
    char id[JWT_USER_TEXT], again[JWT_USER_TEXT], longest[JWT_SUBJECT_MAX + 1];
    size_t n, m;
    assert_true(jwt_user_id(str_lit("user_7-A"), id, &n) && n == 8 && memcmp(id, "user_7-A", 8) == 0);
    assert_true(jwt_user_id(str_lit("u_short"), id, &n) && n == 7);
    assert_true(jwt_user_id(str_lit("google|1"), id, &n));
    assert_int_equal(n, 34);
    assert_true(str_is_id((struct str){id, n}));
    assert_true(jwt_user_id((struct str){id, n}, again, &m));    /* who calls himself what another is mapped to is somebody else */
    assert_int_equal(m, 34);
    assert_memory_not_equal(id, again, 34);
    memset(longest, 'x', sizeof longest);
    assert_true(jwt_user_id((struct str){longest, 64}, id, &n) && n == 64);
    assert_true(jwt_user_id((struct str){longest, 65}, id, &n) && n == 34);
    assert_true(jwt_user_id((struct str){longest, JWT_SUBJECT_MAX}, id, &n) && n == 34);
    assert_false(jwt_user_id((struct str){longest, JWT_SUBJECT_MAX + 1}, id, &n));
    assert_false(jwt_user_id((struct str){0}, id, &n));
}

int main(void)
{
    arena = arena_new(8192);
    keys = jwt_keys_open(str_lit("k1:" KEY1 ", k2:" KEY2));
    check(keys != NULL && arena.start != NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_tokens),
        cmocka_unit_test(forged_and_malformed_tokens),
        cmocka_unit_test(broken_texts),
        cmocka_unit_test(a_subject_has_one_user_id),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    jwt_keys_close(keys);
    arena_free(&arena);
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0
 * Qualification tokens: ours are read, whatever else comes is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check.h"
#include "jwt.h"
#include "qualification.h"

#define KEYS "new:0123456789abcdef,old:fedcba9876543210"

static struct str issue(const char *keys, struct buf *token)
{
    struct qualification q = {.activity = str_lit("a1"), .sku = str_lit("s1"), .user = str_lit("u1"), .nonce = str_lit("n1"), .expires_s = 2000000000};
    buf_reset(token);
    qualification_issue(keys, &q, token);
    assert_true(buf_ok(token));
    return buf_str(token);
}

static bool read_token(const char *keys, struct str token, struct qualification *q)
{
    static char memory[4096];
    struct arena arena = {.start = memory, .cap = sizeof memory};
    return qualification_read(keys, token, &arena, q);
}

static void ours_come_back_as_they_went(void **state)
{
    (void)state;
    char text[QUALIFICATION_MAX];
    struct buf token = buf_fixed(text, sizeof text);
    struct qualification q;
    assert_true(read_token(KEYS, issue(KEYS, &token), &q));
    assert_true(str_eq(q.kid, str_lit("new")) && str_eq(q.activity, str_lit("a1")) && str_eq(q.sku, str_lit("s1")) && str_eq(q.user, str_lit("u1")));
    assert_true(str_eq(q.nonce, str_lit("n1")) && q.expires_s == 2000000000);
    assert_true(read_token(KEYS, issue("old:fedcba9876543210", &token), &q));    /* rotation */
}

static void any_change_of_a_byte_is_seen(void **state)
{
    (void)state;
    char text[QUALIFICATION_MAX], other[QUALIFICATION_MAX];
    struct buf token = buf_fixed(text, sizeof text);
    struct str whole = issue(KEYS, &token);
    struct qualification q;
    for (size_t i = 0; i < whole.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(other, whole.ptr, whole.len);
            other[i] = (char)(other[i] ^ (1 << bit));
            assert_false(read_token(KEYS, (struct str){other, whole.len}, &q));
        }
    for (size_t n = 0; n < whole.len; n++)
        assert_false(read_token(KEYS, (struct str){whole.ptr, n}, &q));
    memcpy(other, whole.ptr, whole.len);
    other[whole.len] = 'A';
    assert_false(read_token(KEYS, (struct str){other, whole.len + 1}, &q));
}

static void strangers_keys_do_not_count(void **state)
{
    (void)state;
    char text[QUALIFICATION_MAX];
    struct buf token = buf_fixed(text, sizeof text);
    struct qualification q;
    assert_false(read_token(KEYS, issue("new:0123456789abcdeX", &token), &q));
    assert_false(read_token(KEYS, str_lit("."), &q));
    assert_false(read_token(KEYS, str_lit(""), &q));
    assert_false(read_token(KEYS, (struct str){0}, &q));
}

/* Longer than it may be: refused before a signature is made; at the edge the signature decides. */
static void tokens_have_an_end(void **state)
{
    (void)state;
    static char text[QUALIFICATION_MAX + 1];
    struct qualification q;
    memset(text, 'A', sizeof text);
    text[QUALIFICATION_MAX - 44] = '.';
    assert_false(read_token(KEYS, (struct str){text, QUALIFICATION_MAX}, &q));
    assert_false(read_token(KEYS, (struct str){text, QUALIFICATION_MAX + 1}, &q));
    static char bearer[4097], memory[16384];
    struct arena a = {.start = memory, .cap = sizeof memory};
    struct jwt_keys *keys = jwt_keys_open(str_lit("k:0123456789abcdef"));
    struct str user;
    assert_non_null(keys);
    memset(bearer, 'A', sizeof bearer);
    bearer[100] = bearer[3000] = '.';
    assert_string_not_equal(jwt_verify(keys, &(struct jwt_expected){0}, (struct str){bearer, 4096}, 0, &a, &user), "the token is too large");
    assert_string_equal(jwt_verify(keys, &(struct jwt_expected){0}, (struct str){bearer, 4097}, 0, &a, &user), "the token is too large");
    jwt_keys_close(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ours_come_back_as_they_went),
        cmocka_unit_test(any_change_of_a_byte_is_seen),
        cmocka_unit_test(strangers_keys_do_not_count),
        cmocka_unit_test(tokens_have_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

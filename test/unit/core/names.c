/* SPDX-License-Identifier: Apache-2.0
 * What things are called: ids, tokens, buckets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "check.h"
#include "ident.h"

static struct ident_keys keys(void) { return ident_keys_from(str_lit("current"), str_lit("previous"), str_lit("users")); }

static void an_id_says_what_it_was_made_of(void **state)
{
    (void)state;
    struct ident_keys k = keys();
    static const struct ident_fields cases[] = {{0, 1, 1, 0}, {1796083200123, 4095, 31, 31}, {((int64_t)1 << 42) - 1, 7, 2, 5}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct ident id = ident_make(&k, cases[i], 0x123456789abc);
        struct ident_fields f = ident_read(id);
        assert_true(f.made_ms == cases[i].made_ms && f.activity == cases[i].activity && f.epoch == cases[i].epoch && f.bucket == cases[i].bucket);
        assert_true(ident_ours(&k, id));
    }
}

/* Written down once and for all: ids outlive every release. */
static void the_text_of_an_id_stays_the_same(void **state)
{
    (void)state;
    struct ident id = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255}}, back;
    char text[IDENT_ID_TEXT];
    ident_write(id, IDENT_RESERVATION, text);
    assert_memory_equal(text, "rsv_00041061050R3GG28A1C60T3QZ", IDENT_ID_TEXT);
    assert_true(ident_parse((struct str){text, IDENT_ID_TEXT}, IDENT_RESERVATION, &back));
    assert_true(ident_eq(id, back));
    assert_false(ident_parse((struct str){text, IDENT_ID_TEXT}, IDENT_ORDER, &back));
}

static void one_id_names_three_things(void **state)
{
    (void)state;
    struct ident_keys k = keys();
    struct ident id = ident_make(&k, (struct ident_fields){1000, 1, 1, 0}, 5);
    char rsv[IDENT_ID_TEXT], msg[IDENT_ID_TEXT], ord[IDENT_ID_TEXT];
    ident_write(id, IDENT_RESERVATION, rsv);
    ident_write(id, IDENT_MESSAGE, msg);
    ident_write(id, IDENT_ORDER, ord);
    assert_memory_equal(rsv + 4, msg + 4, IDENT_TEXT);
    assert_memory_equal(rsv + 4, ord + 4, IDENT_TEXT);
}

static void only_our_own_spelling_is_read(void **state)
{
    (void)state;
    struct ident out;
    static const char *const bad[] = {
        "", "rsv_", "rsv_00041061050R3GG28A1C60T3Q", "rsv_00041061050R3GG28A1C60T3QZZ", "rsv_00041061050r3gg28a1c60t3qz",
        "rsv_O0041061050R3GG28A1C60T3QZ", "rsv_I0041061050R3GG28A1C60T3QZ", "rsv_U0041061050R3GG28A1C60T3QZ", "rsv_80041061050R3GG28A1C60T3QZ",
        "RSV_00041061050R3GG28A1C60T3QZ", "msg_00041061050R3GG28A1C60T3QZ", "rsv_00041061050R3GG28A1C60T3Q-", " rsv_00041061050R3GG28A1C60T3QZ"};
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(ident_parse(str_of(bad[i]), IDENT_RESERVATION, &out));
    assert_true(ident_parse(str_lit("rsv_7ZZZZZZZZZZZZZZZZZZZZZZZZZ"), IDENT_RESERVATION, &out));
}

static void any_flipped_bit_is_noticed(void **state)
{
    (void)state;
    struct ident_keys k = keys();
    struct ident id = ident_make(&k, (struct ident_fields){1796083200123, 12, 3, 4}, 0xfeedbeefcafe);
    size_t missed = 0;
    for (size_t bit = 0; bit < 128; bit++) {
        struct ident other = id;
        other.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        missed += ident_ours(&k, other);
    }
    assert_int_equal(missed, 0);
}

static void keys_rotate(void **state)
{
    (void)state;
    struct ident_keys before = ident_keys_from(str_lit("old"), (struct str){0}, str_lit("users"));
    struct ident_keys now = ident_keys_from(str_lit("new"), str_lit("old"), str_lit("users"));
    struct ident_keys after = ident_keys_from(str_lit("newer"), str_lit("new"), str_lit("users"));
    struct ident id = ident_make(&before, (struct ident_fields){1000, 1, 1, 0}, 5);
    assert_true(ident_ours(&before, id) && ident_ours(&now, id));
    assert_false(ident_ours(&after, id));
    assert_true(user_hash(&before, str_lit("u1")) == user_hash(&after, str_lit("u1")));
}

static void an_id_knows_whose_it_is(void **state)
{
    (void)state;
    struct ident_keys k = keys();
    uint64_t mine = user_hash(&k, str_lit("me"));
    struct ident id = ident_make(&k, (struct ident_fields){1000, 1, 1, 0}, ident_chance(mine, 77));
    size_t mistaken = 0;
    assert_true(ident_of_user(id, mine));
    for (int i = 0; i < 1000; i++) {
        char name[16];
        int len = snprintf(name, sizeof name, "user%d", i);
        mistaken += ident_of_user(id, user_hash(&k, (struct str){name, (size_t)len}));
    }
    assert_true(mistaken <= 1);
}

static void users_spread_over_buckets(void **state)
{
    (void)state;
    struct ident_keys k = keys();
    size_t held[8] = {0};
    for (int i = 0; i < 8000; i++) {
        char name[16];
        int len = snprintf(name, sizeof name, "%d", i);
        uint8_t b = user_bucket(user_hash(&k, (struct str){name, (size_t)len}), 8);
        assert_true(b < 8);
        held[b]++;
    }
    for (int b = 0; b < 8; b++)
        assert_in_range(held[b], 850, 1150);
    assert_int_equal(user_bucket(user_hash(&k, str_lit("x")), 1), 0);
}

static void token_ids_read_one_way_only(void **state)
{
    (void)state;
    static const struct { struct token token; const char *text; } good[] = {
        {{1, 3}, "token_000001-3"}, {{999999, 1}, "token_999999-1"}, {{1000000, 4294967295}, "token_1000000-4294967295"},
        {{INT64_MAX, 1}, "token_9223372036854775807-1"}};
    static const char *const bad[] = {"", "token_", "token_1-3", "token_0000001-3", "token_000001-03", "token_000001-0", "token_000001-", "token_000001",
                                      "token_000000-1", "token_000001-4294967296", "token_9223372036854775808-1", "token_00001a-1", "Token_000001-3",
                                      "token_000001-3 ", "token_+00001-3"};
    struct token out;
    char text[TOKEN_TEXT];
    for (size_t i = 0; i < countof(good); i++) {
        size_t len = token_write(good[i].token, text);
        assert_true(str_eq((struct str){text, len}, str_of(good[i].text)));
        assert_true(token_parse(str_of(good[i].text), &out) && out.unit == good[i].token.unit && out.generation == good[i].token.generation);
    }
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(token_parse(str_of(bad[i]), &out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_says_what_it_was_made_of), cmocka_unit_test(the_text_of_an_id_stays_the_same), cmocka_unit_test(one_id_names_three_things),
        cmocka_unit_test(only_our_own_spelling_is_read), cmocka_unit_test(any_flipped_bit_is_noticed), cmocka_unit_test(keys_rotate),
        cmocka_unit_test(an_id_knows_whose_it_is), cmocka_unit_test(users_spread_over_buckets), cmocka_unit_test(token_ids_read_one_way_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

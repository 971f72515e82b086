/* SPDX-License-Identifier: Apache-2.0
 * What is typed: flags read, refused, and guessed at; every verb has its words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "args.h"
#include "check.h"
#include "money_text.h"
#include "suggest.h"
#include "verb.h"

static char complaints_text[4096];
static bool help;

static bool read_words(struct call *c, enum verb verb, const char *const words[])
{
    struct buf complaints = buf_fixed(complaints_text, sizeof complaints_text - 1);
    char *argv[32];
    int argc = 0;
    for (; words[argc]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc];
    *c = (struct call){.verb = verb};
    bool good = args_read(c, argc, argv, &help, &complaints);
    complaints_text[complaints.len] = 0;
    return good;
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void both_spellings_of_a_flag_are_one(void **state)
{
    (void)state;
    struct call c;
    assert_true(read_words(&c, VERB_rush, WORDS("--users=7", "--sku", "s1", "-o", "json", "--redis-url", "unix:/r", "--config=x.yaml")));
    assert_int_equal(call_number(&c, "users"), 7);
    assert_string_equal(call_text(&c, "sku"), "s1");
    static const struct config config = {.demo_activity = "act_7"};
    c.config = &config;
    assert_string_equal(call_activity(&c), "act_7");
    assert_true(read_words(&c, VERB_rush, WORDS("--activity", "act_8")));
    c.config = &config;
    assert_string_equal(call_activity(&c), "act_8");
    assert_true(read_words(&c, VERB_rush, WORDS("--users=7", "-o", "json", "--redis-url", "unix:/r", "--config=x.yaml")));
    assert_true(c.json);
    assert_int_equal(c.source.flag_count, 1);
    assert_int_equal(c.source.flags[0].setting, SETTING_redis_url);
    assert_string_equal(c.source.file, "x.yaml");
}

static void switches_need_no_value_and_dashes_end_flags(void **state)
{
    (void)state;
    struct call c;
    assert_true(read_words(&c, VERB_demo, WORDS("--once", "--", "--once", "-x")));
    assert_true(call_switch(&c, "once"));
    assert_int_equal(c.argument_count, 2);
    assert_true(read_words(&c, VERB_demo, WORDS("--once=false")));
    assert_false(call_switch(&c, "once"));
    assert_true(read_words(&c, VERB_activity, WORDS("create", "-")));
    assert_int_equal(c.argument_count, 2);
    assert_true(read_words(&c, VERB_demo, WORDS("-h")) && help);
}

static void what_is_unknown_is_refused_with_a_guess(void **state)
{
    (void)state;
    static const struct { const char *word, *expected; } cases[] = {
        {"--usres=1", "did you mean --users?"},      {"--redis-ulr=1", "did you mean --redis-url?"}, {"--zzzzzzzzzzz", "there is no flag --zzzzzzzzzzz\n"},
        {"--users=many", "a whole number from 1"},   {"--users=0", "a whole number from 1"},         {"--users", "needs a value"},
        {"-x", "there is no flag -x"},               {"--output=xml", "expected table or json"},     {"--hlep", "did you mean --help?"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct call c;
        assert_false(read_words(&c, VERB_rush, WORDS(cases[i].word)));
        if (!strstr(complaints_text, cases[i].expected))
            fail_msg("%s: %s", cases[i].word, complaints_text);
    }
    static const struct { enum verb verb; const char *word, *expected; } words[] = {
        {VERB_pay, "--result=MAYBE", "expected one of SUCCESS|FAILED\n"},       {VERB_pay, "--result=", "expected one of SUCCESS|FAILED\n"},
        {VERB_pay, "--currency=yen", "three capital letters, as CNY"},          {VERB_activity, "--currency=EURO", "three capital letters, as CNY"},
        {VERB_activity, "--stock=0", "a whole number from 1 to 1000000\n"},     {VERB_activity, "--stock=1000001", "a whole number from 1 to 1000000\n"},
        {VERB_review, "--decision=MAYBE", "one of RELEASE|RETRY|DISMISS|APPLY|REFUND\n"},    {VERB_plan, "--lang=e", "one of en|zh\n"},
        {VERB_buy, "--pay=yes", "true or false\n"},                             {VERB_rush, "--sku=", "an id: 1 to 64"},
        {VERB_explain, "--user=a b", "an id: 1 to 64"},                         {VERB_rush, "--prefix=012345678901234567890123456789012", "a length from 0 to 32\n"},
    };
    for (size_t i = 0; i < countof(words); i++) {
        struct call c;
        assert_false(read_words(&c, words[i].verb, WORDS(words[i].word)));
        if (!strstr(complaints_text, words[i].expected))
            fail_msg("%s: %s", words[i].word, complaints_text);
    }
    struct call c;
    assert_true(read_words(&c, VERB_pay, WORDS("--result=FAILED", "--currency", "JPY")));
    assert_true(read_words(&c, VERB_buy, WORDS("--user=", "--activity=act_1")));
    assert_false(read_words(&c, VERB_serve, WORDS("--users=1")));    /* another verb's */
}

static void too_much_is_refused(void **state)
{
    (void)state;
    const char *words[32];
    struct call c;
    for (size_t i = 0; i < 31; i++)
        words[i] = "x";
    words[31] = NULL;
    assert_false(read_words(&c, VERB_rush, words));
    assert_int_equal(c.argument_count, CALL_ARGUMENTS_MAX);
}

static void guesses_are_near(void **state)
{
    (void)state;
    assert_int_equal(suggest_distance(str_lit("serve"), str_lit("serve")), 0);
    assert_int_equal(suggest_distance(str_lit("sevre"), str_lit("serve")), 1);
    assert_int_equal(suggest_distance(str_lit(""), str_lit("abc")), 3);
    assert_int_equal(suggest_distance(str_lit("kitten"), str_lit("sitting")), 3);
    struct suggest s = {.typed = str_lit("xyz")};
    suggest_offer(&s, "serve");
    assert_null(s.best);
}

static void every_verb_has_words_and_its_flags_are_its_own(void **state)
{
    (void)state;
    for (unsigned v = 0; v < VERB_COUNT; v++) {
        enum verb found;
        assert_true(verb_find(str_of(verb_row((enum verb)v)->name), &found) && (unsigned)found == v);
        assert_true(strlen(verb_row((enum verb)v)->summary) > 10);
        assert_non_null(strstr("run prepare try ask", verb_row((enum verb)v)->group));
    }
    const struct flag_row *row, *other;
    for (size_t i = 0; (row = flag_row(i)); i++) {
        char setting[SETTING_NAME_MAX];
        assert_true(strlen(row->text) > 5);
        for (size_t j = 0; j < i && (other = flag_row(j)); j++)
            assert_false(other->verb == row->verb && strcmp(other->name, row->name) == 0);
        for (unsigned s = 0; s < SETTING_COUNT; s++) {
            setting_flag((enum setting)s, setting);
            assert_string_not_equal(setting + 2, row->name);    /* else the setting could not be typed */
        }
    }
}

static void money_is_written_with_the_decimals_of_its_currency(void **state)
{
    (void)state;
    static const struct { int64_t amount; const char *currency, *expected; } cases[] = {
        {9900, "CNY", "99.00 CNY"}, {5, "CNY", "0.05 CNY"}, {0, "EUR", "0.00 EUR"}, {-101, "USD", "-1.01 USD"}, {500, "JPY", "500 JPY"}, {-7, "KRW", "-7 KRW"},
        {1234, "KWD", "1.234 KWD"}, {12345, "CLF", "1.2345 CLF"}, {9900, "", "9900"}, {INT64_MAX, "CNY", "92233720368547758.07 CNY"},
        {INT64_MIN, "CNY", "-92233720368547758.08 CNY"}, {100, "ABCDEFGHIJ", "1.00 ABCDEFGH"}};
    for (size_t i = 0; i < countof(cases); i++) {
        char text[MONEY_TEXT];
        assert_string_equal(money_text(text, cases[i].amount, str_of(cases[i].currency)), cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_spellings_of_a_flag_are_one),
        cmocka_unit_test(switches_need_no_value_and_dashes_end_flags),
        cmocka_unit_test(what_is_unknown_is_refused_with_a_guess),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(guesses_are_near),
        cmocka_unit_test(money_is_written_with_the_decimals_of_its_currency),
        cmocka_unit_test(every_verb_has_words_and_its_flags_are_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

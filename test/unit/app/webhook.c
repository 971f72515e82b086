/* SPDX-License-Identifier: Apache-2.0
 * Callbacks signed as Standard Webhooks does (webhook.h), and the body they carry (payment.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "check.h"
#include "payment.h"
#include "webhook.h"

#define KEY_A "whsec_YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzQ="
#define KEY_B "whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="
#define NOW_S 1800000000
#define BODY "{\"a\":1}"

static char text[256];
static struct str sign_as(const char *keys, const char *id, int64_t at_s, const char *body)
{
    struct buf out = buf_fixed(text, sizeof text);
    assert_true(webhook_sign(keys, str_of(id), at_s, str_of(body), &out));
    return buf_str(&out);
}

static bool holds(const char *keys, const char *id, const char *at, struct str signatures, const char *body)
{
    struct webhook hook = {str_of(id), str_of(at), signatures};
    return webhook_verify(keys, &hook, str_of(body), NOW_S, 300) == WEBHOOK_GOOD;
}

/* The example of the standard's own text: key, id, timestamp and body give this signature. */
static void a_known_signature(void **state)
{
    (void)state;
    struct str s = sign_as("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, "{\"test\": 2432232314}");
    assert_true(str_eq(s, str_lit("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")));
}

static void what_was_signed_is_believed(void **state)
{
    (void)state;
    struct str s = sign_as(KEY_A, "hook-1", NOW_S, BODY);
    char several[512];
    assert_true(holds(KEY_A, "hook-1", "1800000000", s, BODY));
    assert_true(holds(KEY_B "," KEY_A, "hook-1", "1800000000", s, BODY));    /* the key before the present one */
    snprintf(several, sizeof several, "v1,AAAA v9,whatever v1a,x " STR_FMT " v1,", STR_ARG(s));
    assert_true(holds(KEY_A, "hook-1", "1800000000", str_of(several), BODY));
}

static void anything_else_is_not(void **state)
{
    (void)state;
    char kept[64];
    struct str s = sign_as(KEY_A, "hook-1", NOW_S, BODY);
    memcpy(kept, s.ptr, s.len);
    struct str good = {kept, s.len};
    assert_false(holds(KEY_B, "hook-1", "1800000000", good, BODY));
    assert_false(holds(KEY_A, "hook-2", "1800000000", good, BODY));
    assert_false(holds(KEY_A, "hook-1", "1800000001", good, BODY));
    assert_false(holds(KEY_A, "hook-1", "1800000000", good, BODY " "));
    assert_false(holds(KEY_A, "hook-1", "1800000000", good, "{\"a\": 1}"));    /* the same JSON, written otherwise */
    assert_false(holds(KEY_A, "", "1800000000", good, BODY));
    assert_false(holds(KEY_A, "hook-1", "", good, BODY));
    assert_false(holds(KEY_A, "hook-1", "1800000000x", good, BODY));
    assert_false(holds(KEY_A, "hook-1", "1800000000", (struct str){0}, BODY));
    assert_false(holds("", "hook-1", "1800000000", good, BODY));
    for (size_t i = 0; i < s.len; i++) {    /* each bit of it counts, and each letter has one spelling */
        char bent[64];
        memcpy(bent, kept, s.len);
        bent[i] = (char)(bent[i] ^ 1);
        assert_false(holds(KEY_A, "hook-1", "1800000000", (struct str){bent, s.len}, BODY));
        assert_false(holds(KEY_A, "hook-1", "1800000000", (struct str){kept, i}, BODY));
    }
    struct str dotted = {text, 0};
    struct buf out = buf_fixed(text, sizeof text);
    assert_false(webhook_sign(KEY_A, str_lit("a.b"), NOW_S, str_lit(BODY), &out));
    (void)dotted;
}

static void a_timestamp_is_good_for_five_minutes(void **state)
{
    (void)state;
    static const struct { int64_t off; bool good; } rows[] = {{0, true}, {-300, true}, {300, true}, {-301, false}, {301, false}, {-86400, false}};
    for (size_t i = 0; i < countof(rows); i++) {
        char at[24];
        snprintf(at, sizeof at, "%lld", (long long)(NOW_S + rows[i].off));
        assert_int_equal(holds(KEY_A, "h", at, sign_as(KEY_A, "h", NOW_S + rows[i].off, BODY), BODY), rows[i].good);
    }
}

/* Bounds: sixteen signatures are looked at, and an id has 128 characters at most. */
static void signatures_have_an_end(void **state)
{
    (void)state;
    char list[2048], id[WEBHOOK_ID_MAX + 2];
    struct buf other = buf_fixed(list, sizeof list);
    struct str s = sign_as(KEY_B, "h", NOW_S, BODY);
    for (int i = 0; i < WEBHOOK_SIGNATURES_MAX - 1; i++)
        buf_add_str(&other, s), buf_add_char(&other, ' ');
    size_t fifteen = other.len;
    s = sign_as(KEY_A, "h", NOW_S, BODY);
    buf_add_str(&other, s);
    assert_true(holds(KEY_A, "h", "1800000000", buf_str(&other), BODY));
    other.len = fifteen;
    s = sign_as(KEY_B, "h", NOW_S, BODY);
    buf_add_str(&other, s), buf_add_char(&other, ' ');
    s = sign_as(KEY_A, "h", NOW_S, BODY);
    buf_add_str(&other, s);
    assert_true(buf_ok(&other));
    assert_false(holds(KEY_A, "h", "1800000000", buf_str(&other), BODY));
    memset(id, 'x', sizeof id);
    struct buf out = buf_fixed(text, sizeof text);
    assert_true(webhook_sign(KEY_A, (struct str){id, WEBHOOK_ID_MAX}, NOW_S, str_lit(BODY), &out));
    assert_false(webhook_sign(KEY_A, (struct str){id, WEBHOOK_ID_MAX + 1}, NOW_S, str_lit(BODY), &out));
}

static void keys(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "whsec_", "whsec_c2hvcnQ=", "YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzQ=", KEY_A ",nothing", "whsec_YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzR=",
                                      "whsec_!!!!ZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzQ="};
    for (size_t i = 0; i < countof(bad); i++)
        if (webhook_keys_good(bad[i]))
            fail_msg("\"%s\" is called a key", bad[i]);
    assert_true(webhook_keys_good(KEY_A));
    assert_true(webhook_keys_good(KEY_A "," KEY_B));
}

/* ---- the body ----------------------------------------------------------------------------------------------------------------------------- */

#define GOOD "\"payment_id\":\"p1\",\"order_id\":\"ord_1\",\"result\":\"SUCCESS\",\"amount\":100,\"currency\":\"CNY\",\"channel\":\"al.pay\",\"occurred_at\":\"2026-12-01T08:00:00+08:00\""

static enum reason reads(const char *body, struct payment *p)
{
    static char memory[1024];
    struct arena a = {.start = memory, .cap = sizeof memory};
    return payment_read(str_of(body), &a, p);
}

static void a_callback_is_read(void **state)
{
    (void)state;
    struct payment p;
    assert_int_equal(reads("{" GOOD "}", &p), REASON_OK);
    assert_true(str_eq(p.payment, str_lit("p1")) && str_eq(p.order, str_lit("ord_1")) && str_eq(p.currency, str_lit("CNY")) && str_eq(p.channel, str_lit("al.pay")));
    assert_int_equal(p.result, PAYMENT_SUCCESS);
    assert_int_equal(p.amount, 100);
    assert_true(p.occurred_ms == 1796083200000);
    assert_int_equal(reads(" { \"fee\" : {\"x\":[1,2,null]}, " GOOD ", \"note\":\"\\u00e9\" } ", &p), REASON_OK);    /* what we do not know is passed over */
    char memory[512];
    struct buf out = buf_fixed(memory, sizeof memory - 1);
    payment_write(&out, &p);
    out.ptr[out.len] = 0;
    struct payment again;
    assert_int_equal(reads(memory, &again), REASON_OK);
    assert_true(str_eq(again.payment, str_lit("p1")) && again.amount == 100);
}

static void anything_else_is_no_callback(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "{}", "[]", "null", "{" GOOD, "{" GOOD "}}", "{" GOOD ",}", "{" GOOD "} x", "{" GOOD ",\"amount\":100}", "{" GOOD ",\"payment_id\":\"p1\"}",
        "{\"order_id\":\"ord_1\",\"result\":\"SUCCESS\",\"amount\":100,\"currency\":\"CNY\",\"channel\":\"c\",\"occurred_at\":\"2026-12-01T08:00:00Z\"}"};
    static const struct { const char *from, *to; } swaps[] = {
        {"\"p1\"", "\"p 1\""}, {"\"p1\"", "1"}, {"\"ord_1\"", "\"\""}, {"\"SUCCESS\"", "\"PAID\""}, {"\"SUCCESS\"", "true"}, {":100", ":-1"}, {":100", ":1.5"}, {":100", ":1."}, {":100", ":.0"}, {":100", ":null"}, {":100", ":1e2"},
        {":100", ":\"100\""}, {":100", ":9223372036854775808"}, {"\"CNY\"", "\"cny\""}, {"\"CNY\"", "\"CNYX\""}, {"\"al.pay\"", "\"\""}, {"\"al.pay\"", "\"a\\nb\""},
        {"2026-12-01T08:00:00+08:00", "yesterday"}};
    struct payment p;
    for (size_t i = 0; i < countof(bad); i++)
        if (reads(bad[i], &p) != REASON_INVALID_REQUEST)
            fail_msg("taken: %s", bad[i]);
    for (size_t i = 0; i < countof(swaps); i++) {
        char body[512], *at;
        snprintf(body, sizeof body, "{%s}", GOOD);
        assert_non_null(at = strstr(body, swaps[i].from));
        char rest[512];
        snprintf(rest, sizeof rest, "%s", at + strlen(swaps[i].from));
        snprintf(at, (size_t)(body + sizeof body - at), "%s%s", swaps[i].to, rest);
        if (reads(body, &p) != REASON_INVALID_REQUEST)
            fail_msg("taken: %s", body);
    }
    static char large[PAYMENT_BODY_MAX + 2];
    memset(large, ' ', sizeof large - 1);
    assert_int_equal(reads(large, &p), REASON_PAYLOAD_TOO_LARGE);
}

/* Members that we do not know are nobody's business here: half a surrogate pair, a zero, depth, a long name, one name twice, what is no JSON at all. */
static void unknown_members_are_not_judged(void **state)
{
    (void)state;
    static const char *const odd[] = {"\"x\":\"\\ud800\"", "\"x\":\"\\u0000\"", "\"x\":[[[[[[[[[[[[{\"y\":[1,{}]}]]]]]]]]]]]]", "\"x\":1,\"x\":2", "\"\\ud800\":1", "\"\\u0000\":1",
                                      "\"x\":1e999", "\"x\":01", "\"x\":\"\xff\"", "\"x\":nul", "\"x\":\"\\q\"", "\"x\":\"a\\\"}b\"", "\"amount \":7"};
    static char body[PAYMENT_BODY_MAX];
    struct payment p;
    for (size_t i = 0; i < countof(odd); i++)
        for (int first = 0; first < 2; first++) {
            snprintf(body, sizeof body, first ? "{%s," GOOD "}" : "{" GOOD ",%s}", odd[i]);
            if (reads(body, &p) != REASON_OK || p.amount != 100)
                fail_msg("refused: %s", body);
        }
    memset(body, 'n', sizeof body);    /* a name, and a text, as long as there is room */
    body[0] = '{', body[1] = '"';
    snprintf(body + 30000, sizeof body - 30000, "\":\"%s\"," GOOD "}", "x");
    assert_int_equal(reads(body, &p), REASON_OK);
    assert_int_equal(reads("{\"\\u0061mount\":7," GOOD "}", &p), REASON_INVALID_REQUEST);    /* amount, twice */
}

static void amounts_and_failed_payments(void **state)
{
    (void)state;
#define REST "\"payment_id\":\"p1\",\"order_id\":\"ord_1\",\"channel\":\"c\",\"occurred_at\":\"2026-12-01T08:00:00Z\""
    struct payment p;
    assert_int_equal(reads("{" REST ",\"result\":\"SUCCESS\",\"amount\":9900.00,\"currency\":\"CNY\"}", &p), REASON_OK);
    assert_int_equal(p.amount, 9900);
    assert_int_equal(reads("{" REST ",\"result\":\"SUCCESS\",\"currency\":\"CNY\"}", &p), REASON_INVALID_REQUEST);
    assert_int_equal(reads("{" REST ",\"result\":\"SUCCESS\",\"amount\":1}", &p), REASON_INVALID_REQUEST);
    static const char *const failed[] = {"", ",\"amount\":0", ",\"amount\":null,\"currency\":null", ",\"amount\":\"7\",\"currency\":\"yuan\"", ",\"amount\":-1,\"currency\":\"\""};
    for (size_t i = 0; i < countof(failed); i++) {
        char body[512];
        snprintf(body, sizeof body, "{" REST ",\"result\":\"FAILED\"%s}", failed[i]);
        if (reads(body, &p) != REASON_OK || p.amount != 0 || p.currency.len != 0 || p.result != PAYMENT_FAILED)
            fail_msg("refused: %s", body);
    }
}

static void a_late_one_is_told_from_a_forged_one(void **state)
{
    (void)state;
    struct str s = sign_as(KEY_A, "h", NOW_S - 3600, BODY);
    struct webhook hook = {str_lit("h"), str_lit("1799996400"), s};
    assert_int_equal(webhook_verify(KEY_A, &hook, str_lit(BODY), NOW_S, 300), WEBHOOK_LATE);
    assert_int_equal(webhook_verify(KEY_A, &hook, str_lit(BODY), NOW_S, 3600), WEBHOOK_GOOD);
    assert_int_equal(webhook_verify(KEY_B, &hook, str_lit(BODY), NOW_S, 300), WEBHOOK_FORGED);
    assert_int_equal(webhook_verify(KEY_A, &hook, str_lit(BODY), NOW_S - 3600 - 301, 3600), WEBHOOK_LATE);    /* too far ahead */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_signature), cmocka_unit_test(what_was_signed_is_believed), cmocka_unit_test(anything_else_is_not),
        cmocka_unit_test(a_timestamp_is_good_for_five_minutes), cmocka_unit_test(signatures_have_an_end), cmocka_unit_test(keys),
        cmocka_unit_test(a_callback_is_read), cmocka_unit_test(anything_else_is_no_callback),
        cmocka_unit_test(unknown_members_are_not_judged), cmocka_unit_test(amounts_and_failed_payments), cmocka_unit_test(a_late_one_is_told_from_a_forged_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

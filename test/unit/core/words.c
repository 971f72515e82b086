/* SPDX-License-Identifier: Apache-2.0
 * What is said: requests, messages, states and reasons (mission §17.1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "check.h"
#include "hash.h"
#include "json.h"
#include "message.h"
#include "request.h"
#include "terms.h"

/* ---- requests ------------------------------------------------------------------------------------------------------------------- */

static void a_request_is_read(void **state)
{
    (void)state;
    struct request r;
    static const char *const bodies[] = {
        "{\"activity_id\":\"a-1\",\"sku_id\":\"9007199254740993\",\"request_id\":\"req_1\",\"user_id\":\"u\"}",
        " {\r\n\t\"request_id\" : \"req_1\" , \"user_id\":\"u\",\"sku_id\":\"9007199254740993\",\"activity_id\":\"a-1\" } \n",
        "{\"activity\\u005fid\":\"\\u0061-1\",\"sku_id\":\"9007199254740993\",\"request_id\":\"req_1\",\"user_id\":\"\\u0075\"}"};
    for (size_t i = 0; i < countof(bodies); i++) {
        assert_int_equal(request_read(str_of(bodies[i]), &r), REASON_OK);
        assert_true(str_eq(r.activity, str_lit("a-1")) && str_eq(r.sku, str_lit("9007199254740993")));
        assert_true(str_eq(r.request, str_lit("req_1")) && str_eq(r.user, str_lit("u")));
    }
    assert_int_equal(request_read(str_lit("{\"activity_id\":\"a\",\"sku_id\":\"s\",\"request_id\":\"r\"}"), &r), REASON_OK);
    assert_int_equal(r.user.len, 0);
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    struct request r;
#define REST "\"sku_id\":\"s\",\"request_id\":\"r\"}"
    static const char *const bad[] = {
        "", "{", "{}", "[]", "null", "{\"activity_id\":\"a\"}", "{\"activity_id\":1," REST, "{\"activity_id\":null," REST, "{\"activity_id\":\"\"," REST,
        "{\"activity_id\":\"a b\"," REST, "{\"activity_id\":\"a\",\"activity_id\":\"a\"," REST, "{\"activity_id\":\"a\",\"other\":1," REST,
        "{\"activity_id\":\"a\"," REST "x", "{\"activity_id\":\"a\"," REST "{}", "{\"activity_id\":\"a\",," REST, "{\"activity_id\":\"a\" " REST,
        "{\"activity_id\":\"\\u0000\"," REST, "{\"activity_id\":\"\\ud800\"," REST, "{\"activity_id\":\"\xff\"," REST, "{\"activity_id\":\"a{b\"," REST,
        "{activity_id:\"a\"," REST, "{'activity_id':'a'," REST, "{\"Activity_id\":\"a\"," REST, "{\"activity_id\":\"\\x61\"," REST,
        "{\"activity_id\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"," REST, "{\"activity_id\":\"a\"," REST ",",
        "{\"activity_id\":\"a\",\"sku_id\":\"s\",\"request_id\":\"r\",}", "{\"activity_id\":\"a\tb\"," REST};
    for (size_t i = 0; i < countof(bad); i++)
        assert_int_equal(request_read(str_of(bad[i]), &r), REASON_INVALID_REQUEST);
    static char large[REQUEST_BODY_MAX + 1];
    memset(large, ' ', sizeof large);
    assert_int_equal(request_read((struct str){large, sizeof large}, &r), REASON_PAYLOAD_TOO_LARGE);
}

/* The digest of "act\nsku\nuser", computed elsewhere; it may never change. */
static void a_fingerprint_stays_the_same(void **state)
{
    (void)state;
    uint8_t one[32], two[32];
    char text[64];
    request_fingerprint(str_lit("act"), str_lit("sku"), str_lit("user"), one);
    hex_write(one, 32, text);
    assert_memory_equal(text, "bd095034d7298a64923eee81777d5d38faaa0ac8a352eab12d98ed89c8340c7b", 64);
    request_fingerprint(str_lit("act"), str_lit("sk"), str_lit("uuser"), two);
    assert_memory_not_equal(one, two, 32);
    request_fingerprint(str_lit("acts"), str_lit("ku"), str_lit("user"), two);
    assert_memory_not_equal(one, two, 32);
}

/* ---- messages -------------------------------------------------------------------------------------------------------------------- */

#define RSV "rsv_00041061050R3GG28A1C60T3QZ"
#define MSG "msg_00041061050R3GG28A1C60T3QZ"
#define KNOWN_OF(token) "\"message_id\":\"" MSG "\",\"request_id\":\"req\",\"reservation_id\":\"" RSV "\",\"activity_id\":\"act\",\"sku_id\":\"9007199254740993\"," \
              "\"user_id\":\"18446744073709551616\",\"inventory_token_id\":\"" token "\",\"created_at\":\"2026-12-01T00:00:00.123Z\",\"epoch\":3"
#define KNOWN KNOWN_OF("token_000042-7")

static enum reason reading(struct str body, struct create_order *out)
{
    static char memory[2048];
    struct arena a = {.start = memory, .cap = sizeof memory};
    return message_read(body, &a, out);
}

static void is_the_message(const struct create_order *m)
{
    assert_true(str_eq(m->message, str_lit(MSG)) && str_eq(m->reservation, str_lit(RSV)) && str_eq(m->request, str_lit("req")));
    assert_true(str_eq(m->activity, str_lit("act")) && str_eq(m->sku, str_lit("9007199254740993")) && str_eq(m->user, str_lit("18446744073709551616")));
    assert_true(m->token.unit == 42 && m->token.generation == 7 && m->epoch == 3 && m->created_ms == 1796083200123 && m->schema_version == 1);
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    struct create_order m, back;
    char text[1024];
    struct buf b = buf_fixed(text, sizeof text);
    assert_int_equal(reading(str_lit("{\"schema_version\":1," KNOWN "}"), &m), REASON_OK);
    is_the_message(&m);
    message_write(&b, &m);
    assert_true(buf_ok(&b));
    assert_true(str_eq(buf_str(&b), str_lit("{\"schema_version\":1," KNOWN "}")));    /* the bytes on the wire, for ever */
    assert_int_equal(reading(buf_str(&b), &back), REASON_OK);
    is_the_message(&back);
}

static void message_mark_covers_every_member(void **state)
{
    (void)state;
    struct ident_keys old = ident_keys_from(str_lit("the first secret"), (struct str){0}, str_lit("users"));
    struct ident_keys both = ident_keys_from(str_lit("the second secret"), str_lit("the first secret"), str_lit("users"));
    struct ident_keys next = ident_keys_from(str_lit("the second secret"), (struct str){0}, str_lit("users"));
    char rsv[IDENT_ID_TEXT], msg[IDENT_ID_TEXT], text[1024];
    struct ident id = ident_make(&old, (struct ident_fields){1796083200000, 4, 1, 3}, 77);
    ident_write(id, IDENT_RESERVATION, rsv);
    ident_write(id, IDENT_MESSAGE, msg);
    struct create_order m = {.schema_version = 1, .message = {msg, sizeof msg}, .reservation = {rsv, sizeof rsv}, .request = str_lit("req"), .activity = str_lit("act"),
                             .sku = str_lit("sku"), .user = str_lit("user"), .token = {42, 7}, .created_ms = 1796083200123, .epoch = 3, .trace = str_lit("t")}, back;
    message_seal(&old, &m);
    struct buf b = buf_fixed(text, sizeof text);
    message_write(&b, &m);
    assert_int_equal(reading(buf_str(&b), &back), REASON_OK);
    assert_true(back.mark == m.mark && message_genuine(&old, &back) && message_genuine(&both, &back) && !message_genuine(&next, &back));
    struct create_order wrong[10];
    for (size_t i = 0; i < countof(wrong); i++)
        wrong[i] = m;
    wrong[0].request = str_lit("reqa"), wrong[0].activity = str_lit("ct");    /* the same letters, another border */
    wrong[1].sku = str_lit("sk2");
    wrong[2].user = str_lit("use");
    wrong[3].token.unit++;
    wrong[4].token.generation++;
    wrong[5].created_ms++;
    wrong[6].epoch++;
    wrong[7].trace = (struct str){0};
    wrong[8].mark++;
    wrong[9].schema_version++;
    for (size_t i = 0; i < countof(wrong); i++)
        assert_false(message_genuine(&both, &wrong[i]));
    static const char *const marks[] = {"", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "0123456789abcdeg"};
    for (size_t i = 0; i < countof(marks); i++) {
        snprintf(text, sizeof text, "{\"schema_version\":1," KNOWN ",\"mark\":\"%s\"}", marks[i]);
        assert_int_equal(reading(str_of(text), &back), REASON_MESSAGE_UNREADABLE);
    }
}

static void a_newer_writer_may_add_members(void **state)
{
    (void)state;
    struct create_order m;
    static const char *const bodies[] = {
        "{\"colour\":{\"deep\":[1,2.5e3,{\"x\":null}]},\"schema_version\":1," KNOWN ",\"more\":[true,false,\"\\ud83d\\ude00\"]}",
        "{" KNOWN ",\"trace_id\":\"\",\"schema_version\":1}"};
    for (size_t i = 0; i < countof(bodies); i++) {
        assert_int_equal(reading(str_of(bodies[i]), &m), REASON_OK);
        is_the_message(&m);
    }
}

static void a_newer_schema_is_kept_for_a_newer_reader(void **state)
{
    (void)state;
    struct create_order m;
    assert_int_equal(reading(str_lit("{\"schema_version\":2," KNOWN "}"), &m), REASON_MESSAGE_TOO_NEW);
    assert_int_equal(reading(str_lit("{\"schema_version\":99,\"message_id\":[]}"), &m), REASON_MESSAGE_TOO_NEW);
}

static void what_cannot_be_read_is_said_so(void **state)
{
    (void)state;
    struct create_order m;
    static const char *const bad[] = {
        "", "{}", "nonsense", "{\"schema_version\":1}", "{\"schema_version\":0," KNOWN "}", "{\"schema_version\":\"1\"," KNOWN "}", "{\"schema_version\":1.0," KNOWN "}",
        "{\"schema_version\":1," KNOWN ",\"epoch\":3}", "{\"schema_version\":1," KNOWN "}}", "{\"schema_version\":1," KNOWN,
        "{\"schema_version\":1," KNOWN ",\"x\":[[[[[[[[[1]]]]]]]]]}", "{\"schema_version\":99999999999999999999," KNOWN "}",
        /* tokens that no ledger gives */
        "{\"schema_version\":1," KNOWN_OF("token_281474976710656-1") "}", "{\"schema_version\":1," KNOWN_OF("token_9223372036854775807-1") "}",
        "{\"schema_version\":1," KNOWN_OF("token_000042-2147483648") "}",
        /* a message id that is another reservation's */
        "{\"schema_version\":1,\"message_id\":\"msg_00041061050R3GG28A1C60T3Q0\",\"request_id\":\"r\",\"reservation_id\":\"" RSV "\",\"activity_id\":\"a\",\"sku_id\":\"s\","
        "\"user_id\":\"u\",\"inventory_token_id\":\"token_000042-7\",\"created_at\":\"2026-12-01T00:00:00.123Z\",\"epoch\":3}"};
    for (size_t i = 0; i < countof(bad); i++)
        assert_int_equal(reading(str_of(bad[i]), &m), REASON_MESSAGE_UNREADABLE);
    assert_int_equal(reading(str_lit("{\"schema_version\":1," KNOWN_OF("token_281474976710655-2147483647") "}"), &m), REASON_OK);
    char small[64];
    struct arena full = {.start = small, .cap = sizeof small};
    assert_int_equal(message_read(str_lit("{\"schema_version\":1," KNOWN "}"), &full, &m), REASON_MESSAGE_UNREADABLE);
}

/* ---- states ------------------------------------------------------------------------------------------------------------------------ */

/* Every legal and every illegal move: what the tables say, and what the mission says about them. */
static void moves_of_reservations(void **state)
{
    (void)state;
    size_t legal = 0, rows = 0;
#define MOVE(from, event, to, who) rows++; assert_true(reservation_may_move(RESERVATION_##from, RESERVATION_##to));
#include "reservation.def"
#undef MOVE
    for (unsigned from = 0; from < RESERVATION_STATE_COUNT; from++)
        for (unsigned to = 0; to < RESERVATION_STATE_COUNT; to++) {
            if (!reservation_may_move(from, to))
                continue;
            legal++;
            assert_false(reservation_state_terminal(from));                                     /* a verdict is final */
            assert_true(reservation_state_rank(to) >= reservation_state_rank(from));            /* never to a lower rank */
            assert_int_not_equal(to, RESERVATION_NONE);
        }
    assert_int_equal(legal, rows);    /* no other move than a row's, and no row twice */
    for (unsigned from = RESERVATION_RESERVED; from < RESERVATION_STATE_COUNT; from++)
        if (!reservation_state_terminal(from)) {                                                /* the ledger has the last word, always */
            assert_true(reservation_may_move(from, RESERVATION_ORDERED));
            assert_true(reservation_may_move(from, RESERVATION_RELEASED));
        }
}

static void moves_of_orders(void **state)
{
    (void)state;
    size_t legal = 0, rows = 0;
#define MOVE(from, event, to, who) rows++; assert_true(order_may_move(ORDER_##from, ORDER_##to));
#include "order.def"
#undef MOVE
    for (unsigned from = 0; from < ORDER_STATE_COUNT; from++)
        for (unsigned to = 0; to < ORDER_STATE_COUNT; to++)
            legal += order_may_move(from, to);
    assert_int_equal(legal, rows);
    assert_false(order_may_move(ORDER_PAID, ORDER_CANCELING) || order_may_move(ORDER_PAID, ORDER_CANCELED));
    assert_false(order_may_move(ORDER_CANCELED, ORDER_CREATED) || order_may_move(ORDER_CANCELED, ORDER_PAID));
}

static void moves_of_activities(void **state)
{
    (void)state;
    size_t legal = 0, rows = 0;
    enum activity_state to;
#define MOVE(from, event, where, who) rows++; assert_true(activity_move(ACTIVITY_##from, ACTIVITY_EVENT_##event, &to) && to == ACTIVITY_##where);
#include "activity.def"
#undef MOVE
    for (unsigned from = 0; from < ACTIVITY_STATE_COUNT; from++)
        for (unsigned event = 0; event < ACTIVITY_EVENT_COUNT; event++)
            legal += activity_move(from, event, &to);
    assert_int_equal(legal, rows);
}

/* ---- reasons --------------------------------------------------------------------------------------------------------------------- */

/* Did it happen? Every reason says so; what may be retried, and what must never be done twice, depends on it. */
static void every_reason_has_a_fate(void **state)
{
    (void)state;
    static const struct { enum reason reason; enum fate fate; } known[] = {
        {REASON_TIMED_OUT, FATE_UNKNOWN}, {REASON_LINK_LOST, FATE_UNKNOWN}, {REASON_ENGINE_FAULT, FATE_UNKNOWN}, {REASON_UNCERTAIN, FATE_UNKNOWN},
        {REASON_CANCELLED, FATE_UNKNOWN}, {REASON_ENGINE_BUSY, FATE_RETRY}, {REASON_DEPENDENCY_DOWN, FATE_RETRY}, {REASON_OVERLOADED, FATE_RETRY},
        {REASON_QUEUE_LOST, FATE_RETRY}, {REASON_ENGINE_REFUSED, FATE_REFUSED}, {REASON_POISON, FATE_REFUSED}, {REASON_OK, FATE_DONE},
        {REASON_UNCHANGED, FATE_DONE}, {REASON_QUEUED, FATE_DONE}, {REASON_SOLD_OUT, FATE_REFUSED}};
    for (size_t i = 0; i < countof(known); i++)
        assert_int_equal(reason_fate(known[i].reason), known[i].fate);
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        enum reason back;
        assert_true(reason_parse(str_of(reason_word(i)), &back) && back == (enum reason)i);
        assert_true(reason_row(i)->fate <= FATE_UNKNOWN);
        if (reason_row(i)->http >= 400 && reason_row(i)->http < 500 && reason_row(i)->http != 429 && reason_row(i)->http != 409)
            assert_int_equal(reason_fate(i), FATE_REFUSED);    /* a client's fault is not cured by asking again */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read), cmocka_unit_test(anything_else_is_refused), cmocka_unit_test(a_fingerprint_stays_the_same),
        cmocka_unit_test(what_is_written_is_read_back), cmocka_unit_test(message_mark_covers_every_member), cmocka_unit_test(a_newer_writer_may_add_members),
        cmocka_unit_test(a_newer_schema_is_kept_for_a_newer_reader), cmocka_unit_test(what_cannot_be_read_is_said_so),
        cmocka_unit_test(moves_of_reservations), cmocka_unit_test(moves_of_orders), cmocka_unit_test(moves_of_activities),
        cmocka_unit_test(every_reason_has_a_fate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

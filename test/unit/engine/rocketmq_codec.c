/* SPDX-License-Identifier: Apache-2.0
 * The bytes of RocketMQ's protocol, against frames that a 5.3.3 broker and our own client really exchanged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "check.h"
#include "codec.h"
#include "tolerant.h"

/* Bytes written as hexadecimal, blanks ignored; freed by the caller. */
static char *bytes_from(const char *hex, size_t *n)
{
    char *out = malloc(strlen(hex) / 2 + 1);
    int half = -1;
    *n = 0;
    for (; *hex; hex++) {
        if (*hex == ' ')
            continue;
        int digit = *hex <= '9' ? *hex - '0' : *hex - 'a' + 10;
        if (half < 0) {
            half = digit;
        } else {
            out[(*n)++] = (char)(half << 4 | digit);
            half = -1;
        }
    }
    return out;
}

static void same_bytes(const struct buf *b, const char *hex)
{
    size_t n;
    char *wanted = bytes_from(hex, &n);
    assert_true(buf_ok(b));
    assert_int_equal(b->len, n);
    assert_memory_equal(b->ptr, wanted, n);
    free(wanted);
}

static const char route_request[] =
    "00000045 01000041 0069 01 01dd 00000007 00000000 00000000 0000002c 0005 746f706963 00000001 54 0016"
    "6163636570745374616e646172644a736f6e4f6e6c79 00000004 74727565";
static const char send_request[] =
    "00000087 01000081 0136 01 01dd 00000008 00000000 00000000 0000006c 000161000000025047000162000000015400016300000006544257313032"
    "0001640000000134000165000000013000016600000001300001670000000d31373030303030303030303030000168000000013000016900000013"
    "4b455953016f3102554e49515f4b4559015502 6869";
static const char stored_message[] =
    "000000af daa320a7 58932aac 00000000 00000000 0000000000000000 0000000001da8d51 00000000 0000018bcfe56800 7f0000010000a996"
    "000001a229634063 7f00000100002a9f 00000000 0000000000000000 00000002 6869 01 54 0051 4d53475f524547494f4e0144656661756c74526567696f6e02"
    "554e49515f4b4559015502 434c55535445520144656661756c74436c757374657202 4b455953016f3102 54524143455f4f4e017472756502";

static void requests_are_written_as_a_broker_took_them(void **state)
{
    (void)state;
    struct buf b = buf_growing(4096), properties = buf_growing(100);
    struct frame_writer w = frame_begin(&b, CODE_ROUTE, 0);
    frame_add(&w, "topic", str_lit("T"));
    frame_add(&w, "absent", (struct str){0});    /* an empty value would reach the broker as null */
    frame_add(&w, "acceptStandardJsonOnly", str_lit("true"));
    frame_body(&w);
    frame_end(&w);
    frame_set_opaque(b.ptr, 7);
    same_bytes(&b, route_request);

    buf_reset(&b);
    property_add(&properties, "KEYS", str_lit("o1"));
    property_add(&properties, "UNIQ_KEY", str_lit("U"));
    w = frame_begin(&b, CODE_SEND, 0);
    frame_add(&w, "a", str_lit("PG"));
    frame_add(&w, "b", str_lit("T"));
    frame_add(&w, "c", str_lit("TBW102"));
    frame_add_i64(&w, "d", 4);
    frame_add_i64(&w, "e", 0);
    frame_add_i64(&w, "f", 0);
    frame_add_i64(&w, "g", 1700000000000);
    frame_add_i64(&w, "h", 0);
    frame_add(&w, "i", buf_str(&properties));
    frame_body(&w);
    buf_add_str(&b, str_lit("hi"));
    frame_end(&w);
    frame_set_opaque(b.ptr, 8);
    same_bytes(&b, send_request);
    buf_free(&b);
    buf_free(&properties);
}

static void a_frame_begins_where_the_last_one_ended(void **state)
{
    (void)state;
    struct buf b = buf_growing(4096);
    buf_add(&b, "before", 6);
    struct frame_writer w = frame_begin(&b, CODE_MAX_OFFSET, 0);
    frame_add(&w, "topic", str_lit("T"));
    frame_body(&w);
    frame_end(&w);
    struct frame f;
    assert_true(frame_decode(b.ptr + 6, b.len - 6, &f));
    assert_int_equal(f.code, CODE_MAX_OFFSET);
    assert_true(str_eq(frame_field(&f, "topic"), str_lit("T")));
    assert_int_equal(f.body.len, 0);
    buf_free(&b);
}

static void binary_headers_are_read(void **state)
{
    (void)state;
    size_t n, size;
    char *bytes = bytes_from(send_request, &n);
    struct frame f;
    assert_true(frame_size((struct str){bytes, n}, &size));
    assert_int_equal(size, n);
    assert_true(frame_decode(bytes, n, &f));
    assert_int_equal(f.code, 310);
    assert_int_equal(f.version, 477);
    assert_int_equal(f.opaque, 8);
    assert_int_equal(f.field_count, 9);
    assert_true(str_eq(frame_field(&f, "c"), str_lit("TBW102")));
    assert_true(str_eq(property_find(frame_field(&f, "i"), "UNIQ_KEY"), str_lit("U")));
    assert_true(str_eq(f.body, str_lit("hi")));
    free(bytes);
}

/* A frame of this JSON header and body; freed by the caller. */
static char *json_frame(const char *header, const char *body, size_t *n)
{
    size_t h = strlen(header), k = strlen(body);
    char *bytes = malloc(8 + h + k);
    struct buf b = buf_fixed(bytes, 8 + h + k);
    buf_add_be32(&b, (uint32_t)(4 + h + k));
    buf_add_be32(&b, (uint32_t)h);
    buf_add(&b, header, h);
    buf_add(&b, body, k);
    *n = b.len;
    return bytes;
}

static void json_headers_are_read(void **state)
{
    (void)state;
    size_t n;
    char *bytes = json_frame(
        "{\"code\":0,\"extFields\":{\"queueId\":\"0\",\"transactionId\":\"U\",\"msgId\":\"7F00000100002A9F0000000001DA8D51\",\"TRACE_ON\":\"true\","
        "\"MSG_REGION\":\"DefaultRegion\",\"queueOffset\":\"0\"},\"flag\":1,\"language\":\"JAVA\",\"opaque\":8,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}", "", &n);
    struct frame f;
    int64_t offset = 7;
    assert_true(frame_decode(bytes, n, &f));
    assert_int_equal(f.code, 0);
    assert_int_equal(f.flag, FRAME_FLAG_ANSWER);
    assert_int_equal(f.opaque, 8);
    assert_true(frame_field_i64(&f, "queueOffset", &offset) && offset == 0);
    assert_false(frame_field_i64(&f, "nothing", &offset));
    free(bytes);

    bytes = json_frame("{ \"remark\" : \"a\\u0001\\\"\\ud83d\\ude00\\ud800x\" , \"unknown\":{\"a\":[1,{\"b\":null}]}, \"extFields\":null,\"code\":-17}", "body", &n);
    assert_true(frame_decode(bytes, n, &f));
    assert_int_equal(f.code, -17);
    assert_true(str_eq(f.remark, str_lit("a\x01\"\xf0\x9f\x98\x80\xef\xbf\xbdx")));
    assert_true(str_eq(f.body, str_lit("body")));
    free(bytes);
}

static void what_is_no_frame_is_refused(void **state)
{
    (void)state;
    static const char *const bad_headers[] = {"", "[]", "{", "{\"code\":}", "{\"code\":\"x\"}", "{\"code\":99999999999}", "{\"code\":1}x",
                                              "{\"remark\":\"\\u12\"}", "{\"remark\":\"open}", "{\"code\":1 \"flag\":1}", "{\"extFields\":[]}"};
    static const char *const bad_frames[] = {
        "00000003 000000", "ffffffff 00000000", "01000001 00000000", "00000004 02000000", "00000004 00000001",
        "00000019 01000015 0069 01 01dd 00000007 00000000 ffffffff 00000000",    /* a remark longer than the frame */
        "00000019 01000015 0069 01 01dd 00000007 00000000 00000000 00000001",    /* a map longer than the frame */
        "0000001b 01000017 0069 01 01dd 00000007 00000000 00000000 00000002 0005"};
    struct frame f;
    size_t n, size;
    for (size_t i = 0; i < countof(bad_headers); i++) {
        char *bytes = json_frame(bad_headers[i], "", &n);
        assert_false(frame_decode(bytes, n, &f));
        free(bytes);
    }
    for (size_t i = 0; i < countof(bad_frames); i++) {
        char *bytes = bytes_from(bad_frames[i], &n);
        assert_false(frame_size((struct str){bytes, n}, &size) && size == n && frame_decode(bytes, n, &f));
        free(bytes);
    }
    assert_true(frame_size(str_lit("\0\0\0"), &size) && size == 0);
}

static void every_cut_of_a_good_frame_is_refused(void **state)
{
    (void)state;
    size_t n;
    char *whole = bytes_from(send_request, &n);
    for (size_t cut = 0; cut < n; cut++) {
        char *bytes = malloc(cut + 1);    /* exactly as long as said, so that sanitizers see a step too far */
        struct frame f;
        memcpy(bytes, whole, cut);
        assert_false(frame_decode(bytes, cut, &f));
        free(bytes);
    }
    free(whole);
}

static void a_stored_message_is_read(void **state)
{
    (void)state;
    size_t n;
    char *bytes = bytes_from(stored_message, &n);
    struct str rest = {bytes, n};
    struct stored m;
    assert_int_equal(stored_next(&rest, &m), STORED_ONE);
    assert_true(m.intact);
    assert_true(str_eq(m.topic, str_lit("T")) && str_eq(m.body, str_lit("hi")));
    assert_true(m.offset == 0 && m.queue == 0 && m.physical == 0x1da8d51 && m.born_ms == 1700000000000 && m.stored_ms == 0x1a229634063);
    assert_true(str_eq(property_find(m.properties, "KEYS"), str_lit("o1")));
    assert_true(str_eq(property_find(m.properties, "UNIQ_KEY"), str_lit("U")));
    assert_int_equal(property_find(m.properties, "traceparent").len, 0);
    assert_int_equal(stored_next(&rest, &m), STORED_END);

    for (size_t cut = 1; cut < n; cut++) {
        rest = (struct str){bytes, cut};
        assert_int_equal(stored_next(&rest, &m), STORED_BAD);
    }
    bytes[84 + 4] ^= 1;    /* a bit of the body */
    rest = (struct str){bytes, n};
    assert_int_equal(stored_next(&rest, &m), STORED_ONE);
    assert_false(m.intact);
    free(bytes);
}

static void a_batch_item_is_written_as_brokers_want_it(void **state)
{
    (void)state;
    struct buf b = buf_growing(200);
    struct str body, properties, wanted = str_lit("KEYS\1o1\2UNIQ_KEY\1U\2");
    batch_item(&b, str_lit("hi"), wanted);
    same_bytes(&b, "0000002b 00000000 00000000 00000000 00000002 6869 0013 4b455953 01 6f31 02 554e49515f4b4559 01 55 02");
    batch_item_parts(buf_str(&b), &body, &properties);
    assert_true(str_eq(body, str_lit("hi")) && str_eq(properties, wanted));
    buf_free(&b);
}

static void properties_follow_the_brokers_rules(void **state)
{
    (void)state;
    struct str p = str_lit("A\1one\2EMPTY\1\2\1nameless\2A\1two\2LAST\1end");
    assert_true(str_eq(property_find(p, "A"), str_lit("two")));
    assert_true(str_eq(property_find(p, "LAST"), str_lit("end")));
    assert_int_equal(property_find(p, "EMPTY").len, 0);
    assert_int_equal(property_find((struct str){0}, "A").len, 0);
    assert_true(property_fits(str_lit("\xe4\xb8\xad \n")));
    assert_false(property_fits(str_lit("a\2b")));
}

static void checksums_are_those_of_zlib(void **state)
{
    (void)state;
    assert_int_equal(crc32_of(str_lit("{\"orderId\":1}")), 0xFA6BCF05);
    assert_int_equal(crc32_of(str_lit("123456789")), 0xCBF43926);
    assert_int_equal(crc32_of((struct str){0}), 0);
}

static void keys_that_are_numbers_or_objects_are_tolerated(void **state)
{
    (void)state;
    char text[] = "{\"t\":{0:\"a:1\", 1 : \"b:2\"},\"o\":{{\"brokerName\":\"b\",\"queueId\":1}:{\"x\":5}},n:-3}";
    struct tolerant t = tolerant_over(text, sizeof text - 1);
    struct str key, value;
    int64_t number = 0;
    assert_true(tolerant_enter(&t, '{') && tolerant_member(&t, &key) && str_eq(key, str_lit("t")));
    assert_true(tolerant_enter(&t, '{') && tolerant_member(&t, &key) && str_eq(key, str_lit("0")));
    assert_true(tolerant_text(&t, &value) && str_eq(value, str_lit("a:1")));
    assert_true(tolerant_member(&t, &key) && tolerant_skip(&t) && !tolerant_member(&t, &key));
    assert_true(tolerant_member(&t, &key) && str_eq(key, str_lit("o")) && tolerant_skip(&t));
    assert_true(tolerant_member(&t, &key) && str_eq(key, str_lit("n")) && tolerant_number(&t, &number) && number == -3);
    assert_false(tolerant_member(&t, &key));
    assert_true(tolerant_ended(&t));

    char deep[100];
    memset(deep, '[', sizeof deep);
    t = tolerant_over(deep, sizeof deep);
    assert_false(tolerant_skip(&t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_written_as_a_broker_took_them),
        cmocka_unit_test(a_frame_begins_where_the_last_one_ended),
        cmocka_unit_test(binary_headers_are_read),
        cmocka_unit_test(json_headers_are_read),
        cmocka_unit_test(what_is_no_frame_is_refused),
        cmocka_unit_test(every_cut_of_a_good_frame_is_refused),
        cmocka_unit_test(a_stored_message_is_read),
        cmocka_unit_test(a_batch_item_is_written_as_brokers_want_it),
        cmocka_unit_test(properties_follow_the_brokers_rules),
        cmocka_unit_test(checksums_are_those_of_zlib),
        cmocka_unit_test(keys_that_are_numbers_or_objects_are_tolerated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

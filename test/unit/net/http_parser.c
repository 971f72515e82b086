/* SPDX-License-Identifier: Apache-2.0
 * Requests, good and bad, each with what must be made of it. Good ones are also cut in two at every byte, and fed byte by byte:
 * the reading must be the same. Bad ones must be refused however they are cut, too. */
#include "http_parser.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "buf.h"
#include "check.h"
#include "http_cases.h"

/* Feeds `in` piece by piece, the first `first` bytes at once, the others `step` at a time; memory ends exactly where data ends, for ASan's sake. */
static enum http_progress feed(struct http_parser *p, struct str in, size_t first, size_t step, char **data, size_t *len)
{
    enum http_progress progress = HTTP_MORE;
    *data = malloc(in.len + 1);
    *len = 0;
    http_parser_start(p, case_limits);
    for (size_t fed = 0; progress == HTTP_MORE && fed < in.len;) {
        size_t n = fed == 0 && first > 0 ? first : step;
        if (n > in.len - fed)
            n = in.len - fed;
        memcpy(*data + *len, in.ptr + fed, n);
        fed += n;
        *len += n;
        progress = http_parse(p, *data, len);
    }
    return progress;
}

static void expect_good(const struct good *g, size_t first, size_t step)
{
    struct http_parser p;
    char *data, text[512];
    size_t len;
    struct buf out = buf_fixed(text, sizeof text);
    enum http_progress progress = feed(&p, g->in, first, step, &data, &len);
    if (progress != HTTP_COMPLETE)
        fail_msg("%s, cut at %zu: %s", g->name, first, p.why ? p.why : "more wanted");
    case_see(&p.request, &out);
    if (!str_eq(buf_str(&out), str_of(g->seen)) || p.at != len)
        fail_msg("%s, cut at %zu: [" STR_FMT "], %zu of %zu read", g->name, first, STR_ARG(buf_str(&out)), p.at, len);
    free(data);
}

static void good_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(goods); i++) {
        expect_good(&goods[i], 0, 1);
        for (size_t cut = 1; cut <= goods[i].in.len; cut++)
            expect_good(&goods[i], cut, goods[i].in.len);
    }
}

static void bad_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(bads); i++)
        for (size_t cut = 0; cut <= bads[i].in.len; cut++) {
            struct http_parser p;
            char *data;
            size_t len;
            enum http_progress progress = feed(&p, bads[i].in, cut, cut ? bads[i].in.len : 1, &data, &len);
            if (progress != HTTP_REFUSED || p.status != bads[i].status || !p.why)
                fail_msg("%s, cut at %zu: %d, status %d (%s)", bads[i].name, cut, progress, p.status, p.why ? p.why : "");
            free(data);
        }
}

/* A good request that is not whole yet is never complete and never refused. */
static void beginnings(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(goods); i++)
        for (size_t end = 1; end < goods[i].in.len; end++) {
            struct http_parser p;
            char *data;
            size_t len;
            if (feed(&p, (struct str){goods[i].in.ptr, end}, 0, end, &data, &len) != HTTP_MORE)
                fail_msg("%s: the first %zu bytes were enough", goods[i].name, end);
            free(data);
        }
}

/* Every good request, each straight after another, ends where the next begins. */
static void pipelines(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(goods); i++) {
        const struct good *pair[] = {&goods[i], &goods[(i + 7) % countof(goods)]};
        char data[2048], text[512];
        size_t len = pair[0]->in.len + pair[1]->in.len, at = 0;
        memcpy(data, pair[0]->in.ptr, pair[0]->in.len);
        memcpy(data + pair[0]->in.len, pair[1]->in.ptr, pair[1]->in.len);
        for (int k = 0; k < 2; k++) {
            struct http_parser p;
            struct buf out = buf_fixed(text, sizeof text);
            size_t left = len - at;
            http_parser_start(&p, case_limits);
            assert_int_equal(http_parse(&p, data + at, &left), HTTP_COMPLETE);
            case_see(&p.request, &out);
            assert_true(str_eq(buf_str(&out), str_of(pair[k]->seen)));
            at += p.at;
        }
        assert_int_equal(at, len);
    }
}

static enum http_progress parse_all(struct http_parser *p, struct buf *b)
{
    size_t len = b->len;
    http_parser_start(p, case_limits);
    return http_parse(p, b->ptr, &len);
}

/* Each limit, met exactly and passed by one. */
static void bounds(void **state)
{
    (void)state;
    for (int over = 0; over <= 1; over++) {
        struct http_parser p;
        struct buf line = buf_growing(4096), head = buf_growing(4096), many = buf_growing(4096), trailers = buf_growing(4096);
        buf_add_fmt(&line, "GET /%0*d HTTP/1.1\r\n" H "\r\n", 256 - 14 + over, 0);
        assert_int_equal(parse_all(&p, &line), over ? HTTP_REFUSED : HTTP_COMPLETE);
        assert_int_equal(p.status, over ? 414 : 0);
        buf_add_fmt(&head, "GET / HTTP/1.1\r\n" H "A: %0*d\r\n\r\n", 1024 - 16 - 9 - 7 + over, 0);
        assert_int_equal(head.len, 1024 + over);
        assert_int_equal(parse_all(&p, &head), over ? HTTP_REFUSED : HTTP_COMPLETE);
        assert_int_equal(p.status, over ? 431 : 0);
        buf_add_fmt(&many, "GET / HTTP/1.1\r\n" H);
        for (int i = 1; i < HTTP_HEADERS_MAX + over; i++)
            buf_add_fmt(&many, "a:%d\r\n", i);
        buf_add_fmt(&many, "\r\n");
        assert_int_equal(parse_all(&p, &many), over ? HTTP_REFUSED : HTTP_COMPLETE);
        assert_int_equal(p.status, over ? 431 : 0);
        buf_add_fmt(&trailers, CH "0\r\nA: %0*d\r\n\r\n", 1024 - 7 + over, 0);
        assert_int_equal(parse_all(&p, &trailers), over ? HTTP_REFUSED : HTTP_COMPLETE);
        assert_int_equal(p.status, over ? 431 : 0);
        buf_free(&line), buf_free(&head), buf_free(&many), buf_free(&trailers);
    }
}

/* What can never become good is refused before its end has come. */
static void endless(void **state)
{
    (void)state;
    struct http_parser p;
    struct buf b = buf_growing(4096);
    buf_add_fmt(&b, "GET /%0*d", 300, 0);
    assert_int_equal(parse_all(&p, &b), HTTP_REFUSED);
    assert_int_equal(p.status, 414);
    buf_reset(&b);
    buf_add_fmt(&b, "GET / HTTP/1.1\r\nA: %0*d", 1100, 0);
    assert_int_equal(parse_all(&p, &b), HTTP_REFUSED);
    assert_int_equal(p.status, 431);
    buf_reset(&b);
    buf_add_fmt(&b, CH "0\r\nA: %0*d", 1100, 0);
    assert_int_equal(parse_all(&p, &b), HTTP_REFUSED);
    assert_int_equal(p.status, 431);
    buf_free(&b);
}

static void lookups(void **state)
{
    (void)state;
    struct http_parser p;
    struct buf b = buf_growing(4096);
    bool twice = false;
    buf_add_fmt(&b, "GET /x?a=1&b=&c&a=2&abc=3 HTTP/1.1\r\n" H "X-Y: 1\r\nx-y: 2\r\nEmpty:\r\n\r\n");
    assert_int_equal(parse_all(&p, &b), HTTP_COMPLETE);
    assert_true(str_eq(http_header(&p.request, str_lit("X-y")), str_lit("1")));
    assert_non_null(http_header(&p.request, str_lit("empty")).ptr);
    assert_null(http_header(&p.request, str_lit("none")).ptr);
    assert_true(str_eq(http_query(&p.request, str_lit("abc"), &twice), str_lit("3")) && !twice);
    assert_true(str_eq(http_query(&p.request, str_lit("a"), &twice), str_lit("1")) && twice);
    assert_non_null(http_query(&p.request, str_lit("b"), NULL).ptr);
    assert_non_null(http_query(&p.request, str_lit("c"), NULL).ptr);
    assert_null(http_query(&p.request, str_lit("ab"), NULL).ptr);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_requests), cmocka_unit_test(bad_requests), cmocka_unit_test(beginnings), cmocka_unit_test(pipelines),
        cmocka_unit_test(bounds), cmocka_unit_test(endless), cmocka_unit_test(lookups),
    };
    return cmocka_run_group_tests_name("http_parser", tests, NULL, NULL);
}

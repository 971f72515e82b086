/* SPDX-License-Identifier: Apache-2.0
 * Beside a reader that others wrote (http-parser): whatever we take, it takes too, and understands the same: method, target, body,
 * where the request ends. (Whether the connection lives on is not compared: empty elements and tabs in Connection are read in two ways, and
 * nothing hangs on it.) The requests are those of http_cases.h and many mutations of them. */
#include "http_parser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "check.h"
#include "http_cases.h"
#include "http_peer.h"

/* http-parser 2.9.4 takes any header for Transfer-Encoding whose name begins so; that is no difference of ours. */
static bool known_difference(const struct http_request *r)
{
    static const struct str name = str_lit("transfer-encoding");
    for (size_t i = 0; i < r->header_count; i++) {
        struct str n = r->headers[i].name;
        if (n.len > name.len && str_eq_nocase((struct str){n.ptr, name.len}, name))
            return true;
    }
    return false;
}

/* True where both understand the same, or we refuse, or want more. */
static bool agrees(struct str in, bool *taken)
{
    struct http_parser p;
    char ours[1600];
    size_t len = in.len;
    memcpy(ours, in.ptr, in.len);
    http_parser_start(&p, case_limits);
    *taken = http_parse(&p, ours, &len) == HTTP_COMPLETE && p.request.method != HTTP_OTHER &&    /* it knows no methods but those listed */
             !known_difference(&p.request);
    if (!*taken)
        return true;
    struct peer_answer h = peer_read(in);
    const struct http_request *r = &p.request;
    struct str tail = {h.url.ptr + (h.url.len < r->query.len ? 0 : h.url.len - r->query.len), r->query.len};
    return h.complete && h.used == p.at && str_eq(h.body, r->body) && h.url.len >= r->query.len && str_eq(tail, r->query) &&
           (h.url.ptr[0] != '/' || str_starts(h.url, r->path)) && str_eq(str_of(h.method), r->method_name);
}

static void cases(void **state)
{
    (void)state;
    size_t both = 0;
    for (size_t i = 0; i < countof(goods); i++) {
        bool taken;
        if (!agrees(goods[i].in, &taken))
            fail_msg("%s", goods[i].name);
        both += taken;
    }
    assert_true(both > 100);
}

static uint64_t seed = 42;
static size_t chance(size_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % below;
}

static const struct str bits[] = {str_lit("\r\n"), str_lit("\n"), str_lit("\r"), str_lit(" "), str_lit("\t"), str_lit(":"), str_lit(","), str_lit("0"), str_lit("\r\n "),
                                  str_lit("Content-Length: 1\r\n"), str_lit("Transfer-Encoding: chunked\r\n"), str_lit("Connection: close\r\n"), str_lit(";x"), str_lit("\0"), str_lit("\x80"),
                                  str_lit("1\r\na\r\n"), str_lit("0\r\n\r\n"), str_lit("%"), str_lit("HTTP/1.0"), str_lit("http://"), str_lit("-"), str_lit("+")};

/* One change: a byte away, a byte other, a piece put in, a piece twice. */
static size_t mutate(char *text, size_t len, size_t cap)
{
    size_t at = chance(len + 1);
    struct str piece = bits[chance(countof(bits))];
    char copy[16];
    switch (chance(4)) {
    case 0:
        if (at == len)
            return len;
        memmove(text + at, text + at + 1, len - at - 1);
        return len - 1;
    case 1:
        if (at < len)
            text[at] = (char)chance(256);
        return len;
    case 2:
        break;
    default:
        piece = (struct str){copy, len - at < sizeof copy ? len - at : 1 + chance(sizeof copy - 1)};
        memcpy(copy, text + at, piece.len);
    }
    if (len + piece.len > cap)
        return len;
    memmove(text + at + piece.len, text + at, len - at);
    memcpy(text + at, piece.ptr, piece.len);
    return len + piece.len;
}

static void mutations(void **state)
{
    (void)state;
    size_t both = 0;
    for (int round = 0; round < 300000; round++) {
        char text[1600];
        size_t which = chance(countof(goods) + countof(bads));
        struct str from = which < countof(goods) ? goods[which].in : bads[which - countof(goods)].in;
        size_t len = from.len;
        memcpy(text, from.ptr, len);
        for (size_t n = 1 + chance(3); n > 0; n--)
            len = mutate(text, len, sizeof text);
        bool taken;
        if (!agrees((struct str){text, len}, &taken)) {
            fprintf(stderr, "round %d, from case %zu:\n", round, which);
            fwrite(text, 1, len, stderr);
            fail();
        }
        both += taken;
    }
    assert_true(both > 20000);    /* else nothing was compared */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(mutations)};
    return cmocka_run_group_tests_name("http_parser_peer", tests, NULL, NULL);
}

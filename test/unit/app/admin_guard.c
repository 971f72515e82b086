/* SPDX-License-Identifier: Apache-2.0
 * What the admin listener answers at all: requests as a browser, a probe, curl and a rebinding page send them, byte by byte through the parser. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "admin_guard.h"
#include "check.h"

#define JSON "Content-Type: application/json\r\n"
#define OWN "Host: 127.0.0.1:8481\r\n"
#define BEARER "Authorization: Bearer 0123456789abcdef\r\n"

static enum reason judge(const char *line, const char *headers, bool open, bool tokens)
{
    char text[2048];
    const char *detail = NULL;
    struct config config = {.admin_hosts = "ops.example.org, Metrics", .admin_tokens = tokens ? "an-older-token-of-ours,0123456789abcdef" : ""};
    struct http_parser parser;
    size_t len = (size_t)snprintf(text, sizeof text, "%s\r\n%s\r\n", line, headers);
    http_parser_start(&parser, (struct http_limits){4096, 8192, 65536});
    assert_int_equal(http_parse(&parser, text, &len), HTTP_COMPLETE);
    enum reason reason = admin_guard_check(&config, &parser.request, open, &detail);
    assert_non_null(detail);
    return reason;
}

static const struct guard_case {
    const char *line, *headers;
    enum reason reason;
} cases[] = {
    /* hosts */
    {"GET /settings HTTP/1.1", OWN, REASON_OK},
    {"GET /settings HTTP/1.1", "Host: localhost:8481\r\n", REASON_OK},
    {"GET /settings HTTP/1.1", "Host: LOCALHOST\r\n", REASON_OK},
    {"GET /settings HTTP/1.1", "Host: [::1]:8481\r\n", REASON_OK},
    {"GET /settings HTTP/1.1", "Host: 10.1.2.3:9000\r\n", REASON_OK},
    {"GET /settings HTTP/1.1", "Host: ops.example.org:8481\r\n", REASON_OK},
    {"GET /settings HTTP/1.1", "Host: metrics\r\n", REASON_OK},
    {"GET /settings HTTP/1.0", "", REASON_OK},
    {"GET /settings HTTP/1.1", "Host: rebound.example.com:8481\r\n", REASON_MISDIRECTED_REQUEST},
    {"GET /settings HTTP/1.1", "Host: 127.0.0.1.example.com\r\n", REASON_MISDIRECTED_REQUEST},
    {"GET /settings HTTP/1.1", "Host: localhost.example.com\r\n", REASON_MISDIRECTED_REQUEST},
    {"GET /settings HTTP/1.1", "Host: notlocalhost\r\n", REASON_MISDIRECTED_REQUEST},
    {"GET /settings HTTP/1.1", "Host: example.org\r\n", REASON_MISDIRECTED_REQUEST},
    {"GET /settings HTTP/1.1", "Host: xops.example.org\r\n", REASON_MISDIRECTED_REQUEST},
    {"GET http://rebound.example.com/settings HTTP/1.1", "Host: rebound.example.com\r\n", REASON_MISDIRECTED_REQUEST},
    /* origins */
    {"GET /settings HTTP/1.1", OWN "Origin: http://127.0.0.1:8481\r\n", REASON_OK},
    {"GET /settings HTTP/1.1", OWN "Origin: https://127.0.0.1:8481\r\nSec-Fetch-Site: same-origin\r\n", REASON_OK},
    {"GET /settings HTTP/1.1", OWN "Sec-Fetch-Site: none\r\n", REASON_OK},
    {"GET /settings HTTP/1.1", OWN "Origin: http://127.0.0.1:3000\r\n", REASON_FORBIDDEN},
    {"GET /settings HTTP/1.1", OWN "Origin: http://localhost:8481\r\n", REASON_FORBIDDEN},
    {"GET /settings HTTP/1.1", OWN "Origin: null\r\n", REASON_FORBIDDEN},
    {"GET /settings HTTP/1.1", OWN "Origin:\r\n", REASON_FORBIDDEN},
    {"GET /settings HTTP/1.1", OWN "Origin: http://127.0.0.1:8481\r\nOrigin: http://evil.example\r\n", REASON_FORBIDDEN},
    {"GET /settings HTTP/1.1", OWN "Sec-Fetch-Site: cross-site\r\n", REASON_FORBIDDEN},
    {"GET /settings HTTP/1.1", OWN "Sec-Fetch-Site: same-site\r\n", REASON_FORBIDDEN},
    {"GET /settings HTTP/1.0", "Origin: http://evil.example\r\n", REASON_FORBIDDEN},
    {"POST /admin/v1/activities/a/close HTTP/1.1", OWN JSON "Origin: http://evil.example\r\n", REASON_FORBIDDEN},
    /* types */
    {"POST /admin/v1/activities/a/warm HTTP/1.1", OWN JSON, REASON_OK},
    {"POST /admin/v1/activities/a/warm HTTP/1.1", OWN "Content-Type: Application/JSON ; charset=utf-8\r\n", REASON_OK},
    {"POST /admin/v1/activities/a/warm HTTP/1.1", OWN, REASON_UNSUPPORTED_MEDIA_TYPE},
    {"POST /admin/v1/activities/a/warm HTTP/1.1", OWN "Content-Type: text/plain\r\n", REASON_UNSUPPORTED_MEDIA_TYPE},
    {"POST /admin/v1/activities/a/warm HTTP/1.1", OWN "Content-Type: text/plain; application/json\r\n", REASON_UNSUPPORTED_MEDIA_TYPE},
    {"POST /admin/v1/activities/a/warm HTTP/1.1", OWN "Content-Type: application/x-www-form-urlencoded\r\n", REASON_UNSUPPORTED_MEDIA_TYPE},
    {"POST /admin/v1/activities/a/warm HTTP/1.1", OWN JSON JSON, REASON_UNSUPPORTED_MEDIA_TYPE},
    {"POST /admin/v1/activities/a/warm HTTP/1.1", OWN "Content-Type: application/json-patch+json\r\n", REASON_UNSUPPORTED_MEDIA_TYPE},
};

static void foreign_hosts_origins_and_types_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        enum reason reason = judge(cases[i].line, cases[i].headers, false, false);
        if (reason != cases[i].reason)
            fail_msg("case %zu, %s, %s: %s", i, cases[i].line, cases[i].headers, reason_word(reason));
        assert_int_equal(judge(cases[i].line, cases[i].headers, true, true), cases[i].reason);    /* a probe is judged as any other, but for the token */
    }
}

static void a_token_is_needed_where_one_is_set(void **state)
{
    (void)state;
    const char *get = "GET /settings HTTP/1.1";
    static const char *const wrong[] = {"", "Authorization: Bearer\r\n", "Authorization: Bearer 0123456789abcdeF\r\n", "Authorization: Bearer 0123456789abcde\r\n",
        "Authorization: Bearer 0123456789abcdef0\r\n", "Authorization: Basic 0123456789abcdef\r\n", "Authorization: 0123456789abcdef\r\n",
        "Authorization: Bearer an-older-token-of-ours,0123456789abcdef\r\n", "Authorization: Bearer ,\r\n"};
    for (size_t i = 0; i < countof(wrong); i++) {
        char headers[256];
        snprintf(headers, sizeof headers, OWN "%s", wrong[i]);
        assert_int_equal(judge(get, headers, false, true), REASON_UNAUTHENTICATED);
        assert_int_equal(judge(get, headers, true, true), REASON_OK);
        assert_int_equal(judge(get, headers, false, false), REASON_OK);
    }
    assert_int_equal(judge(get, OWN BEARER, false, true), REASON_OK);
    assert_int_equal(judge(get, OWN "Authorization: bearer an-older-token-of-ours\r\n", false, true), REASON_OK);
    assert_int_equal(judge("POST /admin/v1/activities HTTP/1.1", OWN JSON, false, true), REASON_UNAUTHENTICATED);
    assert_int_equal(judge("POST /admin/v1/activities HTTP/1.1", OWN JSON BEARER, false, true), REASON_OK);
    assert_int_equal(judge("POST /admin/v1/activities HTTP/1.1", "Host: evil.example\r\n" JSON BEARER, false, true), REASON_MISDIRECTED_REQUEST);
}

static void letters_of_a_token(void **state)
{
    (void)state;
    assert_true(admin_guard_token_good(str_lit("aZ09-._~+/==aZ09")));
    assert_false(admin_guard_token_good(str_lit("aZ09-._~+/==aZ0")));
    assert_false(admin_guard_token_good(str_lit("0123456789 abcdef")));
    assert_false(admin_guard_token_good((struct str){"0123456789abcdef\0", 17}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_hosts_origins_and_types_are_refused),
        cmocka_unit_test(a_token_is_needed_where_one_is_set),
        cmocka_unit_test(letters_of_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * http_cases.h: the requests of http_cases.def as tables, and how what was made of one is written down. */
#pragma once
#include "buf.h"
#include "http_parser.h"

#define H "Host: h\r\n"
#define P "POST / HTTP/1.1\r\n" H
#define CH P "Transfer-Encoding: chunked\r\n\r\n"
#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct http_limits case_limits = {.line = 256, .head = 1024, .body = 64};

struct good {
    const char *name;
    struct str in;
    const char *seen;
};
static const struct good goods[] = {
#define GOOD(name, in, seen) {name, {"" in, sizeof("" in) - 1}, seen},
#define BAD(name, in, status)
#include "http_cases.def"
#undef GOOD
#undef BAD
};

struct bad {
    const char *name;
    struct str in;
    int status;
};
static const struct bad bads[] = {
#define GOOD(name, in, seen)
#define BAD(name, in, status) {name, {"" in, sizeof("" in) - 1}, status},
#include "http_cases.def"
#undef GOOD
#undef BAD
};

/* "METHOD path?query host minor keep|close [continue] number-of-headers 'body'" */
static inline void case_see(const struct http_request *r, struct buf *out)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "OTHER"};
    buf_add_fmt(out, "%s " STR_FMT "?" STR_FMT " " STR_FMT " %d %s%s %zu '", methods[r->method], STR_ARG(r->path), STR_ARG(r->query),
                STR_ARG(r->host), r->minor, r->keep_alive ? "keep" : "close", r->expects_continue ? " continue" : "", r->header_count);
    for (size_t i = 0; i < r->body.len; i++)
        buf_add_char(out, r->body.ptr[i] >= ' ' ? r->body.ptr[i] : '.');
    buf_add_str(out, str_lit("'"));
}

/* SPDX-License-Identifier: Apache-2.0
 * Any bytes as an HTTP request: read whole and in pieces, the verdict, the request and its end must be the same; nothing may be read or
 * written outside. The first byte says how the rest is cut. */
#include <stdlib.h>

#include "check.h"
#include "http_parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http_limits limits = {.line = 512, .head = 1024, .body = 512};

struct run {
    struct http_parser parser;
    char *data;
    size_t len, fed;
    enum http_progress progress;
};

static void run(struct run *r, const uint8_t *bytes, size_t size, size_t step)
{
    http_parser_start(&r->parser, limits);
    r->data = malloc(size + 1);
    check(r->data != NULL);
    r->progress = HTTP_MORE;
    for (r->len = r->fed = 0; r->fed < size && r->progress == HTTP_MORE;) {
        size_t n = step < size - r->fed ? step : size - r->fed;
        memcpy(r->data + r->len, bytes + r->fed, n);
        r->fed += n;
        r->len += n;
        r->progress = http_parse(&r->parser, r->data, &r->len);
        check(r->parser.at <= r->len && r->len <= r->fed);
    }
}

static void same(struct str a, struct str b) { check(str_eq(a, b)); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct run whole, cut;
    run(&whole, data + 1, size - 1, size);
    run(&cut, data + 1, size - 1, (size_t)data[0] % 32 + 1);
    if (whole.progress != cut.progress) {    /* a piece may show that nothing good can follow where the whole shows what did follow: both refuse */
        check(whole.progress != HTTP_COMPLETE && cut.progress != HTTP_COMPLETE);
    } else if (whole.progress == HTTP_COMPLETE) {
        const struct http_request *a = &whole.parser.request, *b = &cut.parser.request;
        same(a->method_name, b->method_name), same(a->path, b->path), same(a->query, b->query), same(a->host, b->host), same(a->body, b->body);
        check(a->header_count == b->header_count && a->keep_alive == b->keep_alive && a->minor == b->minor && a->body.len <= limits.body);
        check(a->minor == 0 || a->host.len > 0);
        for (size_t i = 0; i < a->header_count; i++)
            same(a->headers[i].name, b->headers[i].name), same(a->headers[i].value, b->headers[i].value);
        check(whole.len - whole.parser.at == (size - 1 - cut.fed) + (cut.len - cut.parser.at));
    } else if (whole.progress == HTTP_REFUSED) {
        check(whole.parser.status >= 400 && cut.parser.status >= 400);
    }
    free(whole.data), free(cut.data);
    return 0;
}

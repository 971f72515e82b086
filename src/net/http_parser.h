/* SPDX-License-Identifier: Apache-2.0
 * http_parser.h: reads HTTP/1.x requests (RFC 9112) out of a buffer that fills from the front. Nothing is copied: the
 * request's texts point into the buffer, which must not move until the request is done with. A chunked body is put together in place.
 *
 * Strict: whatever two readers might understand differently is refused, and the connection has to be closed after it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "str.h"

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_PUT, HTTP_DELETE, HTTP_OPTIONS, HTTP_PATCH, HTTP_OTHER };

#define HTTP_HEADERS_MAX 64
struct http_header {
    struct str name, value;
};
struct http_request {
    enum http_method method;
    struct str method_name;
    struct str path;           /* "/a%20b": as sent, valid escapes only; "*" of OPTIONS */
    struct str query;          /* after '?', as sent; empty: none */
    struct str host;           /* with its port, if any, as Host says it (or an absolute target: they must agree); empty only in HTTP/1.0 */
    int minor;                 /* HTTP/1.minor: 0 or 1 */
    bool keep_alive;           /* the client lets the connection live on */
    bool expects_continue;     /* waits for "100 Continue" before it sends its body */
    size_t header_count;
    struct http_header headers[HTTP_HEADERS_MAX];
    struct str body;
};
/* The value of the first header of that name (any case); {NULL, 0} where there is none, a non-NULL ptr where it is empty. */
struct str http_header(const struct http_request *r, struct str name);
/* The value of `key` in the query, undecoded; {NULL, 0} where it is not there. `*twice`, if given, is set where it stands there more than once. */
struct str http_query(const struct http_request *r, struct str key, bool *twice);

struct http_limits {
    size_t line;     /* request line, bytes */
    size_t head;     /* request line and headers; trailers count too */
    size_t body;
    struct str wide_path;    /* requests of exactly this path may have … */
    size_t wide_body;        /* … so large a body instead; 0: none may */
};

enum http_stage {
    HTTP_START, HTTP_FIELDS, HTTP_BODY, HTTP_CHUNK_SIZE, HTTP_CHUNK_DATA, HTTP_CHUNK_END, HTTP_TRAILERS, HTTP_DONE, HTTP_FAILED
};
struct http_parser {
    struct http_limits limits;
    enum http_stage stage;
    size_t at;             /* bytes before this are read */
    size_t scanned;        /* no line feed between at and here */
    size_t trailer_bytes;
    size_t field_lines;    /* headers and trailers */
    uint64_t expected;     /* bytes still to come of the body, or of the chunk */
    bool skipped_blank;    /* one empty line before a request is forgiven */
    bool chunked, has_length, has_host, says_close, says_keep;
    int status;            /* HTTP_FAILED: 400, 413, 414, 417, 431, 501, 505 */
    const char *why;       /* HTTP_FAILED: a static text */
    struct http_request request;
};

void http_parser_start(struct http_parser *p, struct http_limits limits);

enum http_progress { HTTP_MORE, HTTP_COMPLETE, HTTP_REFUSED };
/* Reads on in data[0 … *len), which begins with this request. HTTP_MORE: call again with more behind it (*len may have become
 * less: what framed the chunks is dropped). HTTP_COMPLETE: p->request; the next request begins at p->at. HTTP_REFUSED: p->status, p->why. */
enum http_progress http_parse(struct http_parser *p, char *data, size_t *len);
/* The head is read and only (some of) the body is missing: the moment for "100 Continue". */
static inline bool http_parser_in_body(const struct http_parser *p) { return p->stage > HTTP_FIELDS && p->stage < HTTP_DONE; }

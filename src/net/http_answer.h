/* SPDX-License-Identifier: Apache-2.0
 * http_answer.h: answers as bytes. */
#pragma once
#include <stdint.h>

#include "buf.h"

#define HTTP_DATE_TEXT 29    /* "Mon, 30 Nov 2026 00:00:00 GMT" */
void http_date_write(int64_t unix_s, char out[HTTP_DATE_TEXT]);

/* "Not Found"; "" for a status that http_status.def does not have. */
struct str http_phrase(int status);

enum http_ending { HTTP_ENDING_NONE, HTTP_ENDING_CLOSE, HTTP_ENDING_KEEP };    /* what the Connection header says */
#define HTTP_LENGTH_CHUNKED (-1)    /* Transfer-Encoding: chunked */
#define HTTP_LENGTH_UNTIL_END (-2)  /* neither: the end of the connection ends the body */

struct http_head {
    int status;
    struct str date;      /* HTTP_DATE_TEXT bytes */
    struct str type;      /* Content-Type; empty: none */
    int64_t length;
    enum http_ending ending;
    struct str extra;     /* whole header lines, each with its CR LF; may be empty */
};
/* Status line, headers, empty line. 204 and 304 carry neither type nor length. */
void http_head_write(struct buf *out, const struct http_head *h);

/* An answer made once and given many times: only its date is written anew. */
struct http_ready {
    char *bytes;
    size_t len, date_at, head_len;    /* head_len: up to the empty line, where a Connection header may be put in */
};
struct http_ready http_ready_make(int status, struct str type, struct str body, struct str extra);
void http_ready_free(struct http_ready *r);

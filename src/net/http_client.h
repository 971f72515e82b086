/* SPDX-License-Identifier: Apache-2.0
 * http_client.h: a small HTTP/1.1 client for one address: several keep-alive connections, one request under way on each. For our
 * own tools against our own server: answers carry Content-Length (or no body); anything else ends the connection. */
#pragma once
#include <uv.h>

#include "address.h"
#include "buf.h"
#include "http_parser.h"
#include "list.h"

struct http_reply {
    int status;
    size_t header_count;
    const struct http_header *headers;
    struct str body;
};
struct str http_reply_header(const struct http_reply *r, struct str name);

enum http_outcome {
    HTTP_REPLIED,
    HTTP_NOT_SENT,    /* no connection could be made, or it was full: certainly not executed */
    HTTP_LOST,        /* the connection broke, or no answer came in time: may have been executed */
};

/* Lives in its caller until done. `request` (the whole of it, see http_request_write) must stay where it is until then. */
struct http_call {
    void (*done)(struct http_call *, enum http_outcome, const struct http_reply *);    /* reply: HTTP_REPLIED only, valid during the call */
    struct str request;
    uint32_t timeout_ms;         /* 0: the client's; counted from http_client_send, time in the queue included; coarse: up to 0.1 s late */
    uint64_t given_us;           /* told: when a connection took it, monotonic; 0: none has */
    /* the client's own */
    struct link link;
    uint64_t due_ms;
    uint32_t tries;
};

struct http_client_config {
    struct address address;
    size_t connections_max;      /* 0: 16 */
    size_t queue_max;            /* calls that may wait for a connection; 0: 65536 */
    size_t answer_max;           /* head and body; 0: 64 KiB */
    uint32_t timeout_ms;         /* 0: 10 s */
    uint32_t source;             /* IPv4 address to call from, as a number; 0: the system's choice. More connections than one address has ports */
};
struct http_client;
struct http_client *http_client_open(uv_loop_t *loop, const struct http_client_config *config);
/* Calls that are out end as HTTP_LOST, those that wait as HTTP_NOT_SENT. The memory goes once the loop has closed the handles. */
void http_client_close(struct http_client *c);
/* Makes all its connections now, instead of each when a call needs it. They stay as long as the server lets them. */
void http_client_connect(struct http_client *c);
size_t http_client_connected(const struct http_client *c);    /* how many stand */
/* False: the queue is full; done will not be called. Never calls done before it returns. A request that meets a kept connection which the
 * server is just closing is sent once more on another, where no byte of an answer had come and the method is GET. */
bool http_client_send(struct http_client *c, struct http_call *call);

/* method SP target, Host, Content-Type and -Length where there is a body, extra lines (each with CR LF), empty line, body. */
void http_request_write(struct buf *out, struct str method, struct str target, struct str host, struct str extra, struct str type, struct str body);

/* SPDX-License-Identifier: Apache-2.0
 * http_server.h: HTTP/1.1 on one listener of one libuv loop. Everything is allotted at birth and bounded; a request costs no allocation.
 *
 * A connection has one request under way at a time, so that pipelined ones are answered in their order. The handler may answer
 * at once or later, from any callback of the same loop. An exchange ends exactly once: by http_answer(), http_answer_ready(),
 * http_stream_end(), or, where its owner has set `gone` and the client has left, by that call. A client has left when its connection is reset, or for a
 * stream when it sends no more: one that only closes its sending side still gets its answer. Until then its request, its arena
 * and itself stay valid, even when the socket has long been closed; an answer to nobody is dropped. */
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "address.h"
#include "arena.h"
#include "http_answer.h"
#include "http_parser.h"

struct http_exchange {
    const struct http_request *request;
    struct arena arena;                       /* of this request; emptied when the exchange ends */
    void (*gone)(struct http_exchange *);     /* NULL: nobody cares whether the client waits */
    void *owner;                              /* the config's */
    void *state;                              /* the handler's; NULL at first */
};

struct http_server_config {
    struct address listen;
    bool reuse_port;                /* several threads or processes share the port */
    size_t connections_max;         /* 0: 4096; one more displaces an idle one (http_idle.h), or is told to come back (503) and closed */
    struct http_limits limits;      /* zeros: 4 KiB, 8 KiB, 16 KiB */
    size_t arena;                   /* bytes of an exchange's arena; 0: 8 KiB */
    size_t answer_max;              /* bytes that may wait for a slow reader; 0: 4 MiB; past it the connection is cut */
    uint32_t head_ms, body_ms, idle_ms, write_ms;    /* 0: 5 s, 5 s, 15 s, 10 s; all < 25 s; coarse: up to 0.2 s late */
    void (*handle)(struct http_exchange *);
    /* The body of an answer the server gives by itself (400, 408, 413, 414, 417, 431, 501, 503, 505); NULL: a plain problem. */
    void (*refuse)(struct buf *body, int status, const char *why, void *owner);
    void *owner;
};

struct http_server;
/* NULL and *error = -errno where the address cannot be listened at. */
struct http_server *http_server_open(uv_loop_t *loop, const struct http_server_config *config, int *error);
int http_server_port(const struct http_server *s);
/* Bytes that http_server_open takes for all connections together; pages are touched as they are first needed, and no more is taken later. */
size_t http_server_memory(const struct http_server_config *config);
/* From now on every answer says "Connection: close"; everything else goes on. */
void http_server_leave(struct http_server *s);
/* Stops accepting, closes what is idle, lets what is under way be answered (with "Connection: close"), cuts what remains after
 * `ms`. Calls done(arg) once nothing is left, not before this has returned. An exchange that is still out holds it up. */
void http_server_drain(struct http_server *s, uint32_t ms, void (*done)(void *arg), void *arg);
/* Cuts everything. Exchanges that are out hear `gone`; those without one must not be answered any more. The memory goes once
 * the loop has closed the handles. */
void http_server_close(struct http_server *s);

struct http_server_stats {
    uint64_t connections, in_flight;              /* now */
    uint64_t accepted, turned_away, displaced, requests, refused, cut;    /* since birth; displaced: idle, for another; cut: by a deadline or a bound */
};
struct http_server_stats http_server_stats(const struct http_server *s);

/* For a handler's first line: decodes, in place and once, the escapes of path and query that mean the same decoded (RFC 3986 section 6.2.2.2: letters, digits,
 * "-", ".", "_", "~"), so that %5F is "_" and %255F stays "%5F". False: the path escapes a slash or a zero byte, which two readers understand differently. */
bool http_exchange_normalize(struct http_exchange *x);

/* `extra`: whole header lines, each with its CR LF. Everything is copied before the call returns. */
void http_answer(struct http_exchange *x, int status, struct str type, struct str body, struct str extra);
void http_answer_ready(struct http_exchange *x, const struct http_ready *ready);

/* An answer in pieces. http_stream_send: false when nobody reads any more, or too slowly; end it then. */
void http_stream_begin(struct http_exchange *x, int status, struct str type, struct str extra);
bool http_stream_send(struct http_exchange *x, struct str bytes);
void http_stream_end(struct http_exchange *x);

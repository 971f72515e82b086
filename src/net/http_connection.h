/* SPDX-License-Identifier: Apache-2.0
 * http_connection.h: one connection of the server, from its first byte to its last; only for http_server.c, which lets them in and ends them.
 *
 *   connection   fixed pool; small; open while the socket is, and while its exchange is out
 *   desk         what a connection needs while it has something to do: parser, input, output, arena. As many as connections, but
 *                taken last in, first out: few are ever touched when requests are short, and those stay warm in the cache
 *
 * The road: a byte comes → receive → turn (parse, handle, parse, ...) → rest (flush; then wait for the right thing under the right deadline).
 * A later answer comes in through finish → rest. Only rest decides what the connection waits for. */
#pragma once
#include "http_idle.h"
#include "http_server.h"
#include "list.h"
#include "wheel.h"

#define HTTP_TICK_MS 100
#define HTTP_SLACK 4096          /* how far a request may begin from the front of the input before it is moved there */
#define HTTP_OUT_CAP 8192        /* answers gathered before a send; what is larger goes through `spill` */

enum http_phase { HTTP_IDLE, HTTP_IN_HEAD, HTTP_IN_BODY, HTTP_OUT, HTTP_WRITING, HTTP_LINGERING };    /* what its deadline is about */

struct http_desk {
    struct http_desk *next;            /* in the pool */
    struct http_connection *connection;
    struct http_exchange exchange;
    size_t begin, in_len;              /* in[begin … in_len): the request being read and what follows it */
    size_t out_len, sent;              /* of out, then spill */
    char *in, *out, *arena;
    struct http_parser parser;
};

#define HTTP_DESK_HEAD ((sizeof(struct http_desk) + 63) & ~(size_t)63)

struct http_connection {
    uv_poll_t poll;
    struct link link;                  /* live, or free */
    struct link ready;                 /* has requests that wait for their turn */
    struct deadline deadline;
    struct http_server *server;
    struct http_desk *desk;            /* NULL while it rests */
    struct buf spill;
    struct http_idle_key client;       /* whose connection it is */
    struct http_idle_entry idle;       /* while it has no desk */
    int fd, events;
    uint32_t lingered;
    enum http_phase phase;
    bool busy;                         /* its exchange is out */
    bool streaming, chunked;
    bool in_turn, in_send;             /* who calls: turn(), http_stream_send() */
    bool eof, last, dead, closed;      /* client sends no more; no request after this; socket gone; handle gone too */
};

struct http_server {
    struct http_server_config config;
    uv_poll_t listener;
    uv_timer_t tick;
    uv_idle_t idle;
    struct wheel wheel;
    struct link live, free, ready;
    struct http_idle idle_ones;
    struct http_connection *connections;
    struct http_desk *desks;           /* used before, free now */
    char *memory;
    size_t memory_size, in_cap, desk_size, desks_made;
    struct http_server_stats stats;
    int fd, port, handles;
    bool listening, accept_rests, leaving, draining, closing;
    uint32_t drain_ticks;
    void (*drained)(void *);
    void *drained_arg;
    char date[HTTP_DATE_TEXT];
};

static inline uint32_t http_ticks(uint32_t ms) { return (ms + HTTP_TICK_MS - 1) / HTTP_TICK_MS; }

/* The socket is of no use any more. Whoever waits to answer hears of it, unless it is he who is calling. */
void http_connection_lose(struct http_connection *c);
void http_connection_watch(struct http_connection *c, int events);
void http_connection_phase(struct http_connection *c, enum http_phase phase, uint32_t ms);
/* Reads what is there, and what follows from it. */
void http_connection_receive(struct http_connection *c);
/* Sends what stands there to be sent, then waits for whatever this connection now has to wait for. */
void http_connection_rest(struct http_connection *c);
/* The server's own no. What follows on this connection cannot be trusted. */
void http_connection_refuse(struct http_connection *c, int status, const char *why);
/* The body of such a no, in the words of the server's owner where he has some. */
struct str http_connection_problem(struct http_server *s, struct buf *body, int status, const char *why);
/* Of those whose next request waits until the loop comes round. */
void http_connection_turns(uv_idle_t *idle);

/* http_server.c: one handle less; with the last the server is free. */
void http_server_handle_gone(struct http_server *s);

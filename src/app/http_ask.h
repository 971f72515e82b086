/* SPDX-License-Identifier: Apache-2.0
 * http_ask.h: one question after another to a seckill listener, for verbs. JSON answers are read where they are JSON. */
#pragma once
#include <jansson.h>
#include <uv.h>

#include "http_client.h"

struct http_ask {
    uv_loop_t loop;
    struct http_client *client;
    char host[128];
    struct str token;         /* sent as Authorization: Bearer; set it after http_ask_open; empty: none */
    struct buf request;
    bool keep_text;           /* set: the body of an answer is kept as it came, in `text` */
    struct buf text;
    /* of the last answer */
    int status;               /* 0: there was none */
    json_t *json;             /* NULL: no JSON; ours until the next question */
    bool replayed;            /* Idempotency-Replayed: true */
    const char *fault;        /* where status is 0: why, in words */
};
/* False: the address is none. Every POST says Content-Type: application/json, also without a body. */
bool http_ask_open(struct http_ask *a, const char *address);
void http_ask_close(struct http_ask *a);
/* GET where body is empty and method says so. True: an answer came, whatever its status. */
bool http_ask(struct http_ask *a, const char *method, const char *target, struct str body, uint32_t timeout_ms);
/* The same with header lines of its own, each with CR LF. */
bool http_ask_with(struct http_ask *a, const char *method, const char *target, struct str headers, struct str body, uint32_t timeout_ms);
/* A text member of the last answer; "" where it is not there. */
const char *http_ask_text(const struct http_ask *a, const char *key);

/* SPDX-License-Identifier: Apache-2.0 */
#include "http_ask.h"

#include <stdio.h>

#include "await.h"
#include "check.h"

struct asking {
    struct http_call call;
    struct http_ask *ask;
    bool done;
};

static void answered(struct http_call *call, enum http_outcome outcome, const struct http_reply *reply)
{
    struct asking *q = container_of(call, struct asking, call);
    struct http_ask *a = q->ask;
    q->done = true;
    if (outcome != HTTP_REPLIED) {
        a->fault = outcome == HTTP_NOT_SENT ? "nobody listens there" : "the connection broke, or no answer came in time";
        return;
    }
    a->status = reply->status;
    a->replayed = str_eq(http_reply_header(reply, str_lit("Idempotency-Replayed")), str_lit("true"));
    if (a->keep_text)
        buf_add_str(&a->text, reply->body);
    a->json = json_loadb(reply->body.ptr ? reply->body.ptr : "", reply->body.len, 0, NULL);
}

bool http_ask_open(struct http_ask *a, const char *address)
{
    struct http_client_config config = {.connections_max = 1, .answer_max = 4 * 1024 * 1024};
    *a = (struct http_ask){.request = buf_growing(1024 * 1024), .text = buf_growing(4 * 1024 * 1024)};
    if (!address_parse(str_of(address), &config.address))
        return false;
    snprintf(a->host, sizeof a->host, "%s", address);
    uv_loop_init(&a->loop);
    a->client = http_client_open(&a->loop, &config);
    return true;
}

void http_ask_close(struct http_ask *a)
{
    json_decref(a->json);
    buf_free(&a->request);
    buf_free(&a->text);
    http_client_close(a->client);
    while (uv_run(&a->loop, UV_RUN_DEFAULT) != 0)
        ;
    uv_loop_close(&a->loop);
}

bool http_ask(struct http_ask *a, const char *method, const char *target, struct str body, uint32_t timeout_ms)
{
    return http_ask_with(a, method, target, (struct str){0}, body, timeout_ms);
}

bool http_ask_with(struct http_ask *a, const char *method, const char *target, struct str headers, struct str body, uint32_t timeout_ms)
{
    struct asking q = {.call = {.done = answered, .timeout_ms = timeout_ms}, .ask = a};
    json_decref(a->json);
    a->json = NULL;
    a->status = 0;
    a->replayed = false;
    buf_reset(&a->request);
    buf_reset(&a->text);
    struct buf lines = buf_growing(16 * 1024);
    buf_add_str(&lines, headers);
    if (a->token.len > 0)
        buf_add_fmt(&lines, "Authorization: Bearer " STR_FMT "\r\n", STR_ARG(a->token));
    bool typed = body.len > 0;
    if (!typed && strcmp(method, "POST") == 0)    /* http_request_write gives the type of a body alone */
        buf_add_str(&lines, str_lit("Content-Type: application/json\r\n"));
    http_request_write(&a->request, str_of(method), str_of(target), str_of(a->host), buf_str(&lines), typed ? str_lit("application/json") : (struct str){0}, body);
    check(buf_ok(&a->request) && buf_ok(&lines));
    buf_free(&lines);
    q.call.request = buf_str(&a->request);
    if (!http_client_send(a->client, &q.call)) {
        a->fault = "the client is full";
        return false;
    }
    await_flag(&a->loop, &q.done, 0);
    return a->status != 0;
}

const char *http_ask_text(const struct http_ask *a, const char *key)
{
    const char *text = json_string_value(json_object_get(a->json, key));
    return text ? text : "";
}

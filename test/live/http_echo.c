/* SPDX-License-Identifier: Apache-2.0
 * http_echo: our HTTP server with a handler that only says what it has understood, for http_differential.py. Prints its port, and ends when
 * its standard input does.
 *
 * "Seen" of an answer: method . target . host . body, each in hexadecimal. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "hash.h"
#include "http_server.h"

static void add_hex(struct buf *out, struct str s)
{
    char *room = buf_room(out, s.len * 2);
    check(room != NULL);
    hex_write((const uint8_t *)s.ptr, s.len, room);
    out->len += s.len * 2;
}

static void handle(struct http_exchange *x)
{
    const struct http_request *r = x->request;
    char text[4096];
    struct buf extra = buf_fixed(text, sizeof text);
    buf_add_str(&extra, str_lit("Seen: "));
    add_hex(&extra, r->method_name), buf_add_char(&extra, '.');
    add_hex(&extra, r->path);
    if (r->query.ptr)
        add_hex(&extra, str_lit("?")), add_hex(&extra, r->query);
    buf_add_char(&extra, '.'), add_hex(&extra, r->host);
    buf_add_char(&extra, '.'), add_hex(&extra, r->body);
    buf_add_str(&extra, str_lit("\r\n"));
    http_answer(x, 200, (struct str){0}, (struct str){0}, buf_str(&extra));
}

static void on_input(uv_poll_t *input, int status, int events)
{
    char byte;
    (void)events;
    if (status < 0 || read(STDIN_FILENO, &byte, 1) <= 0)
        uv_stop(input->loop);
}

int main(void)
{
    uv_loop_t *loop = uv_default_loop();
    uv_poll_t input;
    int error = 0;
    struct http_server_config k = {.handle = handle, .limits = {.line = 256, .head = 1024, .body = 64}};
    check(address_parse(str_lit("127.0.0.1:0"), &k.listen));
    struct http_server *server = http_server_open(loop, &k, &error);
    if (!server || uv_poll_init(loop, &input, STDIN_FILENO) != 0 || uv_poll_start(&input, UV_READABLE, on_input) != 0)
        return 1;
    printf("%d\n", http_server_port(server));
    fflush(stdout);
    uv_run(loop, UV_RUN_DEFAULT);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "http_peer.h"

#include <http_parser.h>

struct heard {
    char url[1600], body[1600];
    size_t url_len, body_len;
    bool complete;
};

static int on_url(http_parser *p, const char *at, size_t n)
{
    struct heard *h = p->data;
    memcpy(h->url + h->url_len, at, n);
    h->url_len += n;
    return 0;
}

static int on_body(http_parser *p, const char *at, size_t n)
{
    struct heard *h = p->data;
    memcpy(h->body + h->body_len, at, n);
    h->body_len += n;
    return 0;
}

static int on_end(http_parser *p)
{
    struct heard *h = p->data;
    h->complete = true;
    http_parser_pause(p, 1);
    return 0;
}

struct peer_answer peer_read(struct str in)
{
    static const http_parser_settings settings = {.on_url = on_url, .on_body = on_body, .on_message_complete = on_end};
    static struct heard h;
    http_parser peer;
    h.url_len = h.body_len = 0;
    h.complete = false;
    http_parser_init(&peer, HTTP_REQUEST);
    peer.data = &h;
    size_t used = http_parser_execute(&peer, &settings, in.ptr, in.len);
    return (struct peer_answer){.complete = h.complete, .used = used, .url = {h.url, h.url_len}, .body = {h.body, h.body_len},
                                .method = http_method_str((enum http_method)peer.method)};
}

/* SPDX-License-Identifier: Apache-2.0
 * public_api.c: the public listener: route → who asks → core → words (public.h). Here are the routes, what is the same for everybody, and
 * the listener's birth and death; what a request for one thing does is in public_take.c, public_query.c and public_money.c. */
#include "public_api.h"

#include <errno.h>
#include <stdlib.h>

#include "json.h"
#include "metric.h"
#include "openapi_document.h"
#include "problem.h"
#include "public.h"
#include "public_body.h"
#include "public_body.h"
#include "webhook.h"

/* ---- what is the same for everybody ------------------------------------------------------------------------------------------------------ */

static void answer_activity(struct public_call *c, enum reason read)
{
    struct desk *d = c->api->desk;
    const struct activity *a = catalog_find(&d->catalog, c->activity);
    if (!a) {
        public_refuse(c, read == REASON_OK && catalog_learnt(&d->catalog) ? REASON_UNKNOWN_ACTIVITY : REASON_DEPENDENCY_DOWN, NULL);
        return;
    }
    bool *sold = calloc(a->sku_count + 1, sizeof *sold);
    struct buf body = buf_growing(2 << 20);
    check(sold != NULL);
    for (size_t i = 0; i < a->sku_count; i++)
        sold[i] = soldout_known(&d->soldout, a, (int)i);
    public_body_activity(&body, a, clock_now_ms(c->api->clock), sold);
    public_answer(c, 200, REASON_OK, &body, str_lit("Cache-Control: no-store\r\n"));
    buf_free(&body);
    free(sold);
}

static void activity_read(struct catalog_wait *w, enum reason reason)
{
    struct public_call *c = container_of(w, struct public_call, catalog);
    c->reading = false;
    answer_activity(c, reason);
}

void public_route_ACTIVITY(struct public_call *c, struct str id)
{
    struct catalog *known = &c->api->desk->catalog;
    c->activity = id;
    if (!catalog_may_lag(known, catalog_find(known, id))) {
        answer_activity(c, REASON_OK);
        return;
    }
    c->catalog = (struct catalog_wait){.done = activity_read};
    if (!catalog_look_up(known, id, 0, &c->catalog)) {
        public_refuse(c, REASON_OVERLOADED, NULL);
        return;
    }
    c->reading = true;
    public_wait(c);
    c->x->gone = public_on_gone;
}

void public_route_OPENAPI(struct public_call *c, struct str id)
{
    (void)id;
    public_ended(c, REASON_OK);
    http_answer_ready(c->x, &c->api->openapi);
}

/* ---- from route to answer -------------------------------------------------------------------------------------------------------------- */

static const struct {
    enum http_method method;
    struct str path;
    void (*answer)(struct public_call *, struct str id);
} routes[] = {
#define ROUTE(symbol, method, path, text) {HTTP_##method, {path, sizeof path - 1}, public_route_##symbol},
#include "route.def"
#undef ROUTE
};

static bool path_fits(struct str pattern, struct str path, struct str *id)
{
    const char *open = memchr(pattern.ptr, '{', pattern.len), *shut = open ? memchr(open, '}', pattern.len - (size_t)(open - pattern.ptr)) : NULL;
    if (!shut)
        return str_eq(path, pattern);
    struct str before = str_range(pattern.ptr, open), after = str_range(shut + 1, pattern.ptr + pattern.len);
    if (path.len <= before.len + after.len || !str_starts(path, before))
        return false;
    *id = (struct str){path.ptr + before.len, path.len - before.len - after.len};
    return str_eq((struct str){id->ptr + id->len, after.len}, after) && !memchr(id->ptr, '/', id->len);
}

static struct public_call *call_new(struct http_exchange *x)
{
    struct public_api *a = x->owner;
    struct public_call *c = arena_take(&x->arena, sizeof *c);
    check(c != NULL);    /* the arena was made for it */
    list_init(&c->link);
    c->api = a;
    c->x = x;
    c->began_us = clock_mono_us(a->clock);
    x->state = c;
    return c;
}

static void handle(struct http_exchange *x)
{
    struct public_call *c = call_new(x);
    enum http_method method = x->request->method == HTTP_HEAD ? HTTP_GET : x->request->method;
    const char *allow = NULL;
    if (!http_exchange_normalize(x))
        return public_refuse(c, REASON_INVALID_REQUEST, "the path escapes a slash or a zero byte");
    for (size_t i = 0; i < countof(routes); i++) {
        struct str id = {0};
        if (!path_fits(routes[i].path, x->request->path, &id))
            continue;
        if (routes[i].method != method) {
            allow = routes[i].method == HTTP_GET ? "Allow: GET, HEAD\r\n" : "Allow: POST\r\n";
            continue;
        }
        if (id.ptr && !str_is_id(id))
            public_refuse(c, REASON_NOT_FOUND, NULL);    /* no id of ours looks like this */
        else
            routes[i].answer(c, id);
        return;
    }
    enum reason code = allow ? REASON_METHOD_NOT_ALLOWED : REASON_NOT_FOUND;
    public_ended(c, code);
    problem_answer(x, &(struct problem){.code = code, .detail = allow ? (struct str){0} : str_lit("there is no such path"), .headers = str_of(allow)});
}

/* What the server refuses by itself, in our words. */
static void server_refuses(struct buf *body, int status, const char *why, void *owner)
{
    struct public_api *a = owner;
    problem_of_server(body, status, why, NULL);
    public_observe(a, problem_code_of(status), clock_mono_us(a->clock));
}

/* ---- birth and death ------------------------------------------------------------------------------------------------------------------ */

static void show_gauges(struct public_api *a, struct http_server_stats now)
{
    metric_shift(METRIC_HTTP_CONNECTIONS, 0, (int64_t)(now.connections - a->shown.connections));
    metric_shift(METRIC_HTTP_IN_FLIGHT, 0, (int64_t)(now.in_flight - a->shown.in_flight));
    a->shown = now;
}

static void on_gauges(uv_timer_t *t)
{
    struct public_api *a = t->data;
    show_gauges(a, http_server_stats(a->server));
}

static bool may_listen(struct public_api *a, int *error)
{
    const struct config *k = a->options.config;
    if (k->auth_mode == AUTH_JWT)
        a->jwt = jwt_keys_open(str_of(k->auth_jwt_keys));
    *error = -EINVAL;
    if (!webhook_keys_good(k->payment_webhook_keys))
        return false;
    *error = k->auth_mode == AUTH_JWT ? -EINVAL : -EPERM;
    return k->auth_mode == AUTH_JWT ? a->jwt != NULL : address_is_loopback(&a->options.listen);
}

static void free_api(struct public_api *a)
{
    jwt_keys_close(a->jwt);
    http_ready_free(&a->openapi);
    buf_free(&a->words);
    free(a);
}

static void on_gauges_closed(uv_handle_t *t) { free_api(t->data); }

static struct http_server_config server_config(const struct config *c)
{
    return (struct http_server_config){.handle = handle, .refuse = server_refuses, .connections_max = (size_t)c->http_connections,
        .limits = {.body = (size_t)c->http_body_bytes, .wide_path = str_lit("/v1/payments/callbacks"), .wide_body = PAYMENT_BODY_MAX}, .idle_ms = (uint32_t)c->http_idle_ms, .arena = sizeof(struct public_call) + 4096 + PUBLIC_REFUNDS_BYTES + 64};
}

size_t public_api_memory(const struct config *config)
{
    struct http_server_config k = server_config(config);
    return http_server_memory(&k);
}

struct public_api *public_api_open(uv_loop_t *loop, const struct public_options *options, int *error)
{
    struct public_api *a = calloc(1, sizeof *a);
    check(a != NULL);
    a->options = *options;
    a->desk = options->desk;
    a->clock = options->desk->clock;
    list_init(&a->out);
    public_refusals_make(a);
    struct buf document = buf_growing(256 * 1024);
    openapi_document_write(&document, options->config->auth_mode != AUTH_JWT);
    check(buf_ok(&document));
    a->openapi = http_ready_make(200, str_lit("application/json"), buf_str(&document), (struct str){0});
    buf_free(&document);
    struct http_server_config config = server_config(options->config);
    config.listen = options->listen;
    config.reuse_port = options->reuse_port;
    if (options->connections_max > 0)
        config.connections_max = options->connections_max;
    config.owner = a;
    a->server = may_listen(a, error) ? http_server_open(loop, &config, error) : NULL;
    if (!a->server) {
        free_api(a);
        return NULL;
    }
    check(uv_timer_init(loop, &a->gauges) == 0);
    a->gauges.data = a;
    check(uv_timer_start(&a->gauges, on_gauges, 500, 500) == 0);
    return a;
}

int public_api_port(const struct public_api *a) { return http_server_port(a->server); }

void public_api_leave(struct public_api *a) { http_server_leave(a->server); }

void public_api_drain(struct public_api *a, uint32_t ms, void (*done)(void *), void *arg)
{
    a->draining = true;
    http_server_drain(a->server, ms, done, arg);
}

void public_api_close(struct public_api *a)
{
    if (!a)
        return;
    show_gauges(a, (struct http_server_stats){0});
    for (struct link *at = a->out.next; at != &a->out; at = a->out.next) {
        struct public_call *c = list_entry(at, struct public_call, link);
        c->x->gone = NULL;    /* it ends here, with the server */
        public_let_go(c);
    }
    http_server_close(a->server);
    uv_close((uv_handle_t *)&a->gauges, on_gauges_closed);
}

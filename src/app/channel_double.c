/* SPDX-License-Identifier: Apache-2.0 */
#include "channel_double.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "http_server.h"
#include "problem.h"
#include "str.h"

#define LINE_MAX_BYTES 2048

struct channel_double {
    struct http_server *server;
    json_t *payments, *refunds;      /* by payment_id */
    json_t *of_order;                /* order_id → array of payment_ids */
    FILE *file;
    uv_idle_t last;                  /* closed after the server: its memory goes with it */
};

/* ---- what it knows -------------------------------------------------------------------------------------------------------------------- */

static const char *text(const json_t *v, const char *key)
{
    const char *s = json_string_value(json_object_get(v, key));
    return s ? s : "";
}

static bool same(const json_t *a, const json_t *b, const char *key) { return json_equal(json_object_get(a, key), json_object_get(b, key)); }

static bool same_money(const json_t *a, const json_t *b) { return same(a, b, "order_id") && same(a, b, "amount") && same(a, b, "currency"); }

static bool good_money(const json_t *v)
{
    return str_is_id(str_of(text(v, "payment_id"))) && str_is_id(str_of(text(v, "order_id"))) && json_integer_value(json_object_get(v, "amount")) >= 0 &&
           json_is_integer(json_object_get(v, "amount")) && strlen(text(v, "currency")) == 3;
}

static void index_order(struct channel_double *d, const json_t *v)
{
    json_t *list = json_object_get(d->of_order, text(v, "order_id"));
    size_t i;
    json_t *known;
    if (!list) {
        list = json_array();
        json_object_set_new(d->of_order, text(v, "order_id"), list);
    }
    json_array_foreach(list, i, known)
        if (strcmp(json_string_value(known), text(v, "payment_id")) == 0)
            return;
    json_array_append_new(list, json_string(text(v, "payment_id")));
}

static void keep(struct channel_double *d, json_t *of, const char *kind, json_t *v)
{
    json_object_set(of, text(v, "payment_id"), v);
    index_order(d, v);
    if (!d->file)
        return;
    json_t *line = json_pack("{s:s,s:O}", "kind", kind, "what", v);
    json_dumpf(line, d->file, JSON_COMPACT);
    fputc('\n', d->file);
    fflush(d->file);
    json_decref(line);
}

static bool load(struct channel_double *d, const char *path)
{
    char line[LINE_MAX_BYTES];
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        json_t *v = json_loads(line, 0, NULL), *what = json_object_get(v, "what");
        if (good_money(what)) {    /* a line that a crash has cut is no line */
            json_object_set(strcmp(text(v, "kind"), "refund") == 0 ? d->refunds : d->payments, text(what, "payment_id"), what);
            index_order(d, what);
        }
        json_decref(v);
    }
    if (f)
        fclose(f);
    d->file = fopen(path, "a");
    return d->file != NULL;
}

/* ---- answers ---------------------------------------------------------------------------------------------------------------------------- */

static void refuse(struct http_exchange *x, enum reason code, const char *detail)
{
    problem_answer(x, &(struct problem){.code = code, .detail = str_of(detail)});
}

static void answer(struct http_exchange *x, json_t *v)
{
    char *body = json_dumps(v, JSON_COMPACT);
    check(body != NULL);
    http_answer(x, 200, str_lit("application/json"), str_of(body), (struct str){0});
    free(body);
    json_decref(v);
}

static bool full(const struct channel_double *d) { return json_object_size(d->payments) + json_object_size(d->refunds) >= CHANNEL_DOUBLE_MOST; }

static void take_payment(struct channel_double *d, struct http_exchange *x, json_t *v)
{
    const json_t *known = json_object_get(d->payments, text(v, "payment_id"));
    bool success = strcmp(text(v, "result"), "SUCCESS") == 0;
    if (!success && strcmp(text(v, "result"), "FAILED") != 0)
        refuse(x, REASON_INVALID_REQUEST, "result is SUCCESS or FAILED");
    else if (known && !same_money(known, v))
        refuse(x, REASON_CONFLICT, "this payment is known with another order, amount or currency");
    else if (!known && full(d))
        refuse(x, REASON_OVERLOADED, "it remembers no more");
    else {
        if (!known || (success && strcmp(text(known, "result"), "SUCCESS") != 0))    /* never back from SUCCESS */
            keep(d, d->payments, "payment", v);
        answer(x, json_pack("{s:s,s:s}", "payment_id", text(v, "payment_id"), "result", text(json_object_get(d->payments, text(v, "payment_id")), "result")));
    }
}

/* Whole payments only; one that it never heard of is given back too: `seckill pay` may have told the shop and not the channel. */
static void take_refund(struct channel_double *d, struct http_exchange *x, json_t *v)
{
    const json_t *paid = json_object_get(d->payments, text(v, "payment_id")), *known = json_object_get(d->refunds, text(v, "payment_id"));
    char id[80];
    snprintf(id, sizeof id, "refund-%s", text(v, "payment_id"));
    if ((paid && !same_money(paid, v)) || (known && !same_money(known, v)))
        refuse(x, REASON_CONFLICT, "the payment is of another order, amount or currency");
    else if (!known && full(d))
        refuse(x, REASON_OVERLOADED, "it remembers no more");
    else {
        if (!known)
            keep(d, d->refunds, "refund", v);
        answer(x, json_pack("{s:s,s:s,s:s,s:b}", "refund_id", id, "payment_id", text(v, "payment_id"), "status", "DONE", "given", known == NULL));
    }
}

static void list_of(struct channel_double *d, struct http_exchange *x, const json_t *from, const char *key)
{
    char order[80];
    struct str id = http_query(x->request, str_lit("order_id"), NULL);
    size_t i;
    json_t *payment, *list = json_array();
    if (!str_is_id(id)) {
        json_decref(list);
        refuse(x, REASON_INVALID_REQUEST, "name the order in order_id");
        return;
    }
    snprintf(order, sizeof order, STR_FMT, STR_ARG(id));
    json_array_foreach(json_object_get(d->of_order, order), i, payment) {
        json_t *one = json_object_get(from, json_string_value(payment));
        if (one)
            json_array_append(list, one);
    }
    answer(x, json_pack("{s:o}", key, list));
}

static void handle(struct http_exchange *x)
{
    struct channel_double *d = x->owner;
    struct str path = x->request->path;
    bool payments = str_eq(path, str_lit("/v1/payments")), refunds = str_eq(path, str_lit("/v1/refunds"));
    if (!payments && !refunds) {
        refuse(x, REASON_NOT_FOUND, "there is no such path");
    } else if (x->request->method == HTTP_GET) {
        list_of(d, x, payments ? d->payments : d->refunds, payments ? "payments" : "refunds");
    } else {
        json_t *v = json_loadb(x->request->body.ptr ? x->request->body.ptr : "", x->request->body.len, JSON_REJECT_DUPLICATES, NULL);
        if (!good_money(v))
            refuse(x, REASON_INVALID_REQUEST, "payment_id, order_id, amount and currency");
        else if (payments)
            take_payment(d, x, v);
        else
            take_refund(d, x, v);
        json_decref(v);
    }
}

/* ---- birth and death ------------------------------------------------------------------------------------------------------------------------ */

static void gone(uv_handle_t *handle)
{
    struct channel_double *d = handle->data;
    json_decref(d->payments), json_decref(d->refunds), json_decref(d->of_order);
    if (d->file)
        fclose(d->file);
    free(d);
}

struct channel_double *channel_double_open(uv_loop_t *loop, const struct address *listen, const char *file, int *error)
{
    struct channel_double *d = calloc(1, sizeof *d);
    check(d != NULL);
    d->payments = json_object(), d->refunds = json_object(), d->of_order = json_object();
    uv_idle_init(loop, &d->last);
    d->last.data = d;
    *error = 0;
    if (file && file[0] && !load(d, file))
        *error = -errno;
    struct http_server_config config = {.refuse = problem_of_server, .listen = *listen, .connections_max = 64, .handle = handle, .owner = d};
    if (*error == 0)
        d->server = http_server_open(loop, &config, error);
    if (d->server)
        return d;
    uv_close((uv_handle_t *)&d->last, gone);
    return NULL;
}

int channel_double_port(const struct channel_double *d) { return http_server_port(d->server); }

void channel_double_close(struct channel_double *d)
{
    http_server_close(d->server);
    uv_close((uv_handle_t *)&d->last, gone);
}

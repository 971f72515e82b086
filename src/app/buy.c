/* SPDX-License-Identifier: Apache-2.0
 * buy.c: `seckill buy`: one purchase over the public API, told step by step. A lost answer is asked for again with the same request_id. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "http_ask.h"
#include "json.h"
#include "money_text.h"
#include "pay.h"
#include "system_random.h"
#include "verb.h"

#define TRIES_MAX 20
#define WAITS_MAX 30

struct purchase {
    const struct call *call;
    struct http_ask ask;
    const char *activity, *sku;
    char user[80], request[80], reservation[80];
    struct timespec began;
};

static void tell(const struct purchase *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(const struct purchase *p, const char *format, ...)
{
    struct timespec now;
    va_list args;
    if (p->call->json)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%8.1f ms  ", (double)(now.tv_sec - p->began.tv_sec) * 1e3 + (double)(now.tv_nsec - p->began.tv_nsec) / 1e6);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

static void pause_ms(unsigned ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static int refused(const struct purchase *p)
{
    const struct http_ask *a = &p->ask;
    tell(p, "%-10s %d %s", http_ask_text(a, "code"), a->status, http_ask_text(a, "detail"));
    if (!p->call->json && strcmp(http_ask_text(a, "code"), "SOLD_OUT") == 0)
        fprintf(stderr, "seckill buy: %s of %s is sold out; beside `make run`, `make sale` opens a new demo sale\n", p->sku, p->activity);
    if (p->call->json) {
        json_dumpf(a->json, stdout, JSON_COMPACT);
        putchar('\n');
    }
    return a->status == 503 ? LEAVE_UNREACHABLE : LEAVE_FAILED;
}

/* Asks for a unit until the answer is known. */
static int reserve(struct purchase *p)
{
    char memory[512];
    struct buf body = buf_fixed(memory, sizeof memory);
    json_open(&body);
    json_member_text(&body, "activity_id", p->activity);
    json_member_text(&body, "sku_id", p->sku);
    json_member_text(&body, "request_id", p->request);
    json_member_text(&body, "user_id", p->user);
    json_close(&body);
    check(buf_ok(&body));
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        bool came = http_ask(&p->ask, "POST", "/v1/reservations", buf_str(&body), 10000);
        if (!came && strcmp(p->ask.fault, "nobody listens there") == 0)
            return call_failed(p->call, LEAVE_UNREACHABLE, "the public API at %s: %s", p->call->config->http_listen, p->ask.fault);
        if (!came)
            tell(p, "%-10s %s; asking again with the same request_id", "no answer", p->ask.fault);
        const char *code = http_ask_text(&p->ask, "code");
        if (came && p->ask.status < 300 && strcmp(code, "UNCERTAIN") != 0) {
            snprintf(p->reservation, sizeof p->reservation, "%s", http_ask_text(&p->ask, "reservation_id"));
            tell(p, "%-10s reservation %s, request %s of user %s%s", code, p->reservation, p->request, p->user, p->ask.replayed ? " (replayed)" : "");
            return LEAVE_DONE;
        }
        if (came && p->ask.status >= 400 && !json_is_true(json_object_get(p->ask.json, "retryable")))
            return refused(p);
        if (came)
            tell(p, "%-10s %s; asking again with the same request_id", code, http_ask_text(&p->ask, "message")[0] ? http_ask_text(&p->ask, "message") : http_ask_text(&p->ask, "detail"));
        pause_ms(250);
    }
    return refused(p);
}

static int follow(struct purchase *p)
{
    char target[256], last[32] = "";
    snprintf(target, sizeof target, "/v1/reservations/%s?wait=2s&user_id=%s", p->reservation, p->user);
    for (int waits = 0; waits < WAITS_MAX; waits++) {
        if (!http_ask(&p->ask, "GET", target, (struct str){0}, 10000) || p->ask.status != 200) {
            tell(p, "%-10s %s", "no answer", p->ask.status ? http_ask_text(&p->ask, "code") : p->ask.fault);
            pause_ms(500);
            continue;
        }
        const char *status = http_ask_text(&p->ask, "status");
        if (strcmp(status, last) != 0)
            tell(p, "%-10s at %s", status, http_ask_text(&p->ask, "updated_at"));
        else if (waits % 5 == 4)
            tell(p, "%-10s still; no verdict yet", status);
        snprintf(last, sizeof last, "%s", status);
        if (strcmp(status, "ORDERED") == 0)
            return LEAVE_DONE;
        if (strcmp(status, "RELEASED") == 0) {
            tell(p, "no order will come: %s", http_ask_text(&p->ask, "reason"));
            return LEAVE_FAILED;
        }
    }
    return call_failed(p->call, LEAVE_UNREACHABLE, "%s has no verdict after a minute; ask `seckill explain %s`", p->reservation, p->reservation);
}

static int show_order(struct purchase *p, const char *order)
{
    char target[256];
    snprintf(target, sizeof target, "/v1/orders/%s?user_id=%s", order, p->user);
    if (!http_ask(&p->ask, "GET", target, (struct str){0}, 10000) || p->ask.status != 200)
        return call_failed(p->call, LEAVE_UNREACHABLE, "the order cannot be read: %s", p->ask.status ? http_ask_text(&p->ask, "code") : p->ask.fault);
    bool paid = http_ask_text(&p->ask, "paid_at")[0] != 0;
    char money[MONEY_TEXT];
    money_text(money, json_integer_value(json_object_get(p->ask.json, "amount")), str_of(http_ask_text(&p->ask, "currency")));
    tell(p, "order      %s is %s: %s at %s, %s %s", http_ask_text(&p->ask, "order_id"), http_ask_text(&p->ask, "status"), http_ask_text(&p->ask, "inventory_token_id"), money,
         paid ? "paid at" : "to be paid by", http_ask_text(&p->ask, paid ? "paid_at" : "pay_deadline"));
    if (p->call->json && (paid || !call_switch(p->call, "pay"))) {
        json_dumpf(p->ask.json, stdout, JSON_COMPACT);
        putchar('\n');
    }
    return LEAVE_DONE;
}

static void tell_try(void *arg, unsigned wait_ms)
{
    struct purchase *p = arg;
    tell(p, "%-10s the callback is sent again in %u ms", p->ask.status ? http_ask_text(&p->ask, "code") : "no answer", wait_ms);
}

/* As the payment channel would: it takes the money, then calls back. */
static int pay(struct purchase *p)
{
    char order[80], payment[80], webhook[96], currency[8], money[MONEY_TEXT];
    int64_t amount = json_integer_value(json_object_get(p->ask.json, "amount"));
    snprintf(order, sizeof order, "%s", http_ask_text(&p->ask, "order_id"));
    snprintf(currency, sizeof currency, "%s", http_ask_text(&p->ask, "currency"));
    snprintf(payment, sizeof payment, "pay_%s", order + (strlen(order) > 4 ? 4 : 0));
    snprintf(webhook, sizeof webhook, "hook_%s", payment);
    struct payment what = {.payment = str_of(payment), .order = str_of(order), .result = PAYMENT_SUCCESS, .amount = amount, .currency = str_of(currency),
                           .channel = str_lit("double"), .occurred_ms = (int64_t)time(NULL) * 1000};
    pay_tell_channel(p->call->config, &what);
    tell(p, "paying     %s to the channel, payment %s", money_text(money, amount, str_of(currency)), payment);
    if (!pay_callback(&p->ask, p->call->config->payment_webhook_keys, webhook, &what, tell_try, p) || p->ask.status != 200)
        return refused(p);
    tell(p, "%-10s %s", http_ask_text(&p->ask, "code"), http_ask_text(&p->ask, "message"));
    return show_order(p, order);
}

static void name(char out[80], const char *given, const char *prefix)
{
    struct random *random = system_random_open();
    if (given[0])
        snprintf(out, 80, "%s", given);
    else
        snprintf(out, 80, "%s_%016llx", prefix, (unsigned long long)random_next(random));
    system_random_close(random);
}

int verb_buy(const struct call *c)
{
    struct purchase p = {.call = c, .activity = call_activity(c), .sku = call_text(c, "sku")};
    name(p.user, call_text(c, "user"), "user");
    name(p.request, call_text(c, "request"), "req");
    clock_gettime(CLOCK_MONOTONIC, &p.began);
    if (!http_ask_open(&p.ask, c->config->http_listen))
        return call_failed(c, LEAVE_CONFIG, "http.listen: cannot be called");
    tell(&p, "asking for one %s of %s", p.sku, p.activity);
    int leave = reserve(&p);
    if (leave == LEAVE_DONE)
        leave = follow(&p);
    char order[80];
    snprintf(order, sizeof order, "%s", http_ask_text(&p.ask, "order_id"));
    if (leave == LEAVE_DONE)
        leave = show_order(&p, order);
    if (leave == LEAVE_DONE && call_switch(c, "pay"))
        leave = pay(&p);
    http_ask_close(&p.ask);
    return leave;
}

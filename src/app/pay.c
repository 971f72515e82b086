/* SPDX-License-Identifier: Apache-2.0
 * pay.c: `seckill pay ORDER`: what a payment channel does when somebody pays: it takes the money, then says so until it is heard. And with --serve the
 * channel itself (channel_double.h). */
#include "pay.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "await.h"
#include "channel_double.h"
#include "channel_http.h"
#include "check.h"
#include "json.h"
#include "money_text.h"
#include "payment.h"
#include "ports.h"
#include "system_random.h"
#include "webhook.h"

static void pause_ms(unsigned ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

/* ---- a callback --------------------------------------------------------------------------------------------------------------------------- */

static bool send_once(struct http_ask *ask, const char *keys, const char *webhook, struct str body)
{
    char memory[512];
    struct buf headers = buf_fixed(memory, sizeof memory);
    int64_t now_s = (int64_t)time(NULL);
    buf_add_fmt(&headers, "webhook-id: %s\r\nwebhook-timestamp: %lld\r\nwebhook-signature: ", webhook, (long long)now_s);
    bool signed_ = webhook_sign(keys, str_of(webhook), now_s, body, &headers);
    buf_add_str(&headers, str_lit("\r\n"));
    check(signed_ && buf_ok(&headers));
    return http_ask_with(ask, "POST", "/v1/payments/callbacks", buf_str(&headers), body, 10000);
}

bool pay_callback(struct http_ask *ask, const char *keys, const char *webhook, const struct payment *p, void (*tried)(void *arg, unsigned wait_ms), void *arg)
{
    char memory[1024];
    struct buf body = buf_fixed(memory, sizeof memory);
    payment_write(&body, p);
    check(buf_ok(&body));
    for (unsigned attempt = 0, wait_ms = 250; attempt < PAY_TRIES; attempt++, wait_ms *= 2) {
        if (send_once(ask, keys, webhook, buf_str(&body)) && ask->status < 500 && ask->status != 429)
            return true;
        if (attempt + 1 == PAY_TRIES)
            break;
        if (tried)
            tried(arg, wait_ms);
        pause_ms(wait_ms);
    }
    return false;
}

bool pay_tell_channel(const struct config *config, const struct payment *p)
{
    char memory[1024], host[128];
    struct buf body = buf_fixed(memory, sizeof memory);
    struct http_ask ask;
    struct str address;
    if (!channel_http_address(str_of(config->payment_channel_url), &address))
        return false;
    snprintf(host, sizeof host, STR_FMT, STR_ARG(address));
    if (!http_ask_open(&ask, host))
        return false;
    payment_write(&body, p);
    bool good = http_ask(&ask, "POST", "/v1/payments", buf_str(&body), 3000) && ask.status == 200;
    http_ask_close(&ask);
    return good;
}

/* ---- the verb: one payment ----------------------------------------------------------------------------------------------------------------- */

struct paying {
    const struct call *call;
    struct http_ask ask;
    struct payment what;
    char order[80], payment[80], webhook[96], currency[8];
};

/* What the order costs, as the ledger says. */
struct price {
    bool found;
    int64_t amount;
    char currency[8];
};
static void keep_price(struct await *a, const void *result)
{
    const struct ledger_look_answer *look = result;
    struct price *p = a->into;
    p->found = look->has_order;
    p->amount = look->order.amount;
    snprintf(p->currency, sizeof p->currency, STR_FMT, STR_ARG(look->order.currency));
}

static int look_price(const struct paying *p, struct price *price)
{
    uv_loop_t loop;
    struct ports ports;
    char memory[512];
    struct buf complaint = buf_fixed(memory, sizeof memory);
    uv_loop_init(&loop);
    bool open = ports_open(&ports, &loop, p->call->config, PORTS_LEDGER, &complaint);
    enum reason reason = REASON_DEPENDENCY_DOWN;
    if (open && ports_ready(&ports, 3000)) {
        struct await a = AWAIT(.keep = keep_price, .into = price);
        a.waiter.budget_ms = 3000;
        ledger_look(ports.ledger, &(struct ledger_look_ask){.by = LOOK_ORDER, .id = p->what.order}, &a.waiter);
        reason = await_run(&a, &loop);
    }
    if (open)
        ports_close(&ports);
    ports_loop_end(&loop);
    if (!open)
        return call_failed(p->call, LEAVE_CONFIG, STR_FMT, STR_ARG(buf_str(&complaint)));
    if (reason == REASON_NOT_FOUND || (reason == REASON_OK && !price->found))
        return call_failed(p->call, LEAVE_FAILED, "there is no order %s; name --amount and --currency to pay for it all the same", p->order);
    return reason == REASON_OK ? LEAVE_DONE : call_failed(p->call, LEAVE_UNREACHABLE, "what the order costs cannot be read (%s); name --amount and --currency", reason_word(reason));
}

static void tell_try(void *arg, unsigned wait_ms)
{
    struct paying *p = arg;
    fprintf(stderr, "%s; the callback is sent again in %u ms\n", p->ask.status ? http_ask_text(&p->ask, "code") : p->ask.fault, wait_ms);
}

static int tell_answer(struct paying *p, bool final)
{
    const struct http_ask *a = &p->ask;
    if (p->call->json && a->json) {
        json_dumpf(a->json, stdout, JSON_COMPACT);
        putchar('\n');
    } else if (a->status) {
        printf("%-24s %s%s%s%s\n", http_ask_text(a, "code"), http_ask_text(a, a->status < 300 ? "message" : "detail"),
               json_is_true(json_object_get(a->json, "refund")) ? " It is given back." : "", a->replayed ? " (replayed)" : "", final ? "" : " (given up)");
    }
    fflush(stdout);
    if (!final && !a->status)
        return call_failed(p->call, LEAVE_UNREACHABLE, "the public API at %s: %s", p->call->config->http_listen, a->fault);
    return !final ? LEAVE_UNREACHABLE : a->status < 300 ? LEAVE_DONE : LEAVE_FAILED;
}

static int pay(struct paying *p)
{
    const struct call *c = p->call;
    char money[MONEY_TEXT];
    int leave = LEAVE_DONE;
    bool knows = pay_tell_channel(c->config, &p->what);
    if (!knows && c->config->payment_channel_url[0] != 0)
        fprintf(stderr, "the channel at %s was not told of it\n", c->config->payment_channel_url);
    if (!c->json)
        printf("payment %s of %s: %s, %s\n", p->payment, p->order, payment_result_name(p->what.result), money_text(money, p->what.amount, str_of(p->currency)));
    if (call_switch(c, "lost"))
        return knows ? LEAVE_DONE : call_failed(c, LEAVE_UNREACHABLE, "no channel knows of it, and no callback is sent: nobody will ever hear of this payment");
    if (!http_ask_open(&p->ask, c->config->http_listen))
        return call_failed(c, LEAVE_CONFIG, "http.listen: cannot be called");
    for (int64_t i = 0; i < call_number(c, "repeat"); i++) {
        bool final = pay_callback(&p->ask, c->config->payment_webhook_keys, p->webhook, &p->what, tell_try, p);
        int one = tell_answer(p, final);
        leave = one != LEAVE_DONE ? one : leave;
    }
    http_ask_close(&p->ask);
    return leave;
}

/* ---- the verb: the channel ------------------------------------------------------------------------------------------------------------------- */

static void on_signal(uv_signal_t *s, int number) { (void)number, *(bool *)s->data = true; }

static int serve(const struct call *c)
{
    uv_loop_t loop;
    struct address listen;
    struct str address;
    bool end = false;
    int error = -22;
    if (!channel_http_address(str_of(c->config->payment_channel_url), &address) || !address_parse(address, &listen))
        return call_failed(c, LEAVE_CONFIG, "payment.channel_url says where it listens: http://127.0.0.1:8482");
    if (!address_is_loopback(&listen))
        return call_failed(c, LEAVE_REFUSED, "it asks nobody who he is: a loopback address only");
    uv_loop_init(&loop);
    struct channel_double *d = channel_double_open(&loop, &listen, call_text(c, "state"), &error);
    if (d) {
        uv_signal_t handles[2];
        static const int numbers[] = {SIGTERM, SIGINT};
        for (size_t i = 0; i < countof(numbers); i++) {
            uv_signal_init(&loop, &handles[i]);
            handles[i].data = &end;
            uv_signal_start(&handles[i], on_signal, numbers[i]);
        }
        fprintf(stderr, "a payment channel listens at " STR_FMT "\n", STR_ARG(address));
        await_flag(&loop, &end, 0);
        for (size_t i = 0; i < countof(numbers); i++)
            uv_close((uv_handle_t *)&handles[i], NULL);
        channel_double_close(d);
    }
    ports_loop_end(&loop);
    return d ? LEAVE_DONE : call_failed(c, LEAVE_FAILED, STR_FMT ": %s", STR_ARG(address), strerror(-error));
}

static void name(char *out, size_t size, const char *given, const char *prefix)
{
    struct random *random = system_random_open();
    if (given[0])
        snprintf(out, size, "%s", given);
    else
        snprintf(out, size, "%s_%016llx", prefix, (unsigned long long)random_next(random));
    system_random_close(random);
}

int verb_pay(const struct call *c)
{
    static struct paying p;
    struct price price = {0};
    p = (struct paying){.call = c};
    if (call_switch(c, "serve"))
        return c->argument_count == 0 ? serve(c) : call_misused(c, "--serve takes no order");
    if (c->argument_count != 1 || !str_is_id(str_of(c->arguments[0])))
        return call_misused(c, "which order?");
    name(p.payment, sizeof p.payment, call_text(c, "payment"), "pay");
    name(p.webhook, sizeof p.webhook, call_text(c, "webhook"), "hook");
    snprintf(p.order, sizeof p.order, "%s", c->arguments[0]);
    p.what = (struct payment){.payment = str_of(p.payment), .order = str_of(p.order), .channel = str_of(call_text(c, "channel")),
                              .occurred_ms = (int64_t)time(NULL) * 1000, .amount = call_number(c, "amount")};
    bool known = payment_result_parse(str_of(call_text(c, "result")), &p.what.result);
    check(known);    /* the choices of --result are the names of the results */
    if (p.what.amount == 0 || call_text(c, "currency")[0] == 0) {
        int leave = look_price(&p, &price);
        if (leave != LEAVE_DONE)
            return leave;
    }
    if (p.what.amount == 0)
        p.what.amount = price.amount;
    snprintf(p.currency, sizeof p.currency, "%s", call_text(c, "currency")[0] ? call_text(c, "currency") : price.currency);
    p.what.currency = str_of(p.currency);
    return pay(&p);
}

/* SPDX-License-Identifier: Apache-2.0
 * The payment channel's port over HTTP (channel_http.h) against our own double of a channel (channel_double.h), on one loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "await.h"
#include "channel_double.h"
#include "channel_http.h"
#include "http_ask.h"
#include "payment.h"
#include "ports.h"

static uv_loop_t loop;
static struct channel_double *shop;
static struct channel *channel;
static char file[] = "/tmp/seckill-channel.XXXXXX", url[64];

static void open_shop(const char *listen)
{
    struct address address;
    int error = 0;
    assert_true(address_parse(str_of(listen), &address));
    shop = channel_double_open(&loop, &address, file, &error);
    assert_non_null(shop);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", channel_double_port(shop));
}

static int begin(void **state)
{
    (void)state;
    int f = mkstemp(file);
    assert_true(f >= 0);
    close(f);
    uv_loop_init(&loop);
    open_shop("127.0.0.1:0");
    channel = channel_http_open(&loop, str_of(url));
    assert_non_null(channel);
    return 0;
}

static int end(void **state)
{
    (void)state;
    channel_http_close(channel);
    if (shop)
        channel_double_close(shop);
    ports_loop_end(&loop);
    unlink(file);
    snprintf(file, sizeof file, "/tmp/seckill-channel.XXXXXX");
    return 0;
}

struct known {
    size_t count;
    int64_t amount;
    enum payment_result result;
};
static void keep(struct await *a, const void *result)
{
    const struct channel_answer *answer = result;
    struct known *k = a->into;
    *k = (struct known){.count = answer->count};
    if (answer->count > 0)
        k->amount = answer->payments[0].amount, k->result = answer->payments[0].result;
}

static enum reason ask(const char *order, struct known *into)
{
    struct await a = AWAIT(.keep = keep, .into = into);
    channel_ask(channel, str_of(order), &a.waiter);
    return await_run(&a, &loop);
}

static enum reason refund(const char *payment, int64_t amount)
{
    struct await a = AWAIT();
    channel_refund(channel, &(struct payment){.payment = str_of(payment), .order = str_lit("ord_1"), .amount = amount, .currency = str_lit("CNY")}, &a.waiter);
    return await_run(&a, &loop);
}

/* As `seckill pay` tells it, on a connection of its own. */
struct paid {
    struct http_call call;
    int status;
    bool done;
};
static void on_paid(struct http_call *call, enum http_outcome outcome, const struct http_reply *reply)
{
    struct paid *p = container_of(call, struct paid, call);
    p->status = outcome == HTTP_REPLIED ? reply->status : 0;
    p->done = true;
}
static int pay(const char *payment, int64_t amount, enum payment_result result)
{
    struct http_client_config config = {.connections_max = 1};
    struct buf body = buf_growing(4096), request = buf_growing(4096);
    struct paid p = {.call.done = on_paid};
    payment_write(&body, &(struct payment){.payment = str_of(payment), .order = str_lit("ord_1"), .result = result, .amount = amount, .currency = str_lit("CNY"), .channel = str_lit("double"),
                                           .occurred_ms = 1796083200000});
    http_request_write(&request, str_lit("POST"), str_lit("/v1/payments"), str_lit("h"), (struct str){0}, str_lit("application/json"), buf_str(&body));
    assert_true(address_parse(str_of(url + 7), &config.address));
    struct http_client *client = http_client_open(&loop, &config);
    p.call.request = buf_str(&request);
    assert_true(http_client_send(client, &p.call));
    await_flag(&loop, &p.done, 5000);
    http_client_close(client);
    buf_free(&body), buf_free(&request);
    return p.status;
}

static void it_remembers_and_gives_back_once(void **state)
{
    (void)state;
    struct known k;
    assert_int_equal(ask("ord_1", &k), REASON_OK);
    assert_int_equal(k.count, 0);
    assert_int_equal(pay("p1", 100, PAYMENT_FAILED), 200);
    assert_int_equal(ask("ord_1", &k), REASON_OK);
    assert_true(k.count == 1 && k.amount == 100 && k.result == PAYMENT_FAILED);
    assert_int_equal(pay("p1", 100, PAYMENT_SUCCESS), 200);
    assert_int_equal(pay("p1", 100, PAYMENT_FAILED), 200);    /* never back */
    assert_int_equal(pay("p1", 101, PAYMENT_SUCCESS), 409);
    assert_int_equal(ask("ord_1", &k), REASON_OK);
    assert_true(k.count == 1 && k.result == PAYMENT_SUCCESS);
    assert_int_equal(ask("ord_2", &k), REASON_OK);
    assert_int_equal(k.count, 0);
    assert_int_equal(refund("p1", 100), REASON_OK);
    assert_int_equal(refund("p1", 100), REASON_OK);
    assert_int_equal(refund("p1", 7), REASON_ENGINE_REFUSED);
    assert_int_equal(refund("never-heard-of", 5), REASON_OK);
}

static void a_restart_forgets_nothing(void **state)
{
    (void)state;
    struct known k;
    char listen[64];
    assert_int_equal(pay("p1", 100, PAYMENT_SUCCESS), 200);
    assert_int_equal(refund("p1", 100), REASON_OK);
    snprintf(listen, sizeof listen, "%s", url + 7);
    channel_double_close(shop);
    shop = NULL;
    await_ms(&loop, 20);
    assert_int_equal(reason_fate(ask("ord_1", &k)) == FATE_DONE, false);
    FILE *f = fopen(file, "a");
    fputs("{\"kind\":\"payment\",\"what\":{\"payment_id\":\"cut", f);    /* as a crash leaves it */
    fclose(f);
    open_shop(listen);
    assert_int_equal(ask("ord_1", &k), REASON_OK);
    assert_true(k.count == 1 && k.amount == 100);
    assert_int_equal(refund("p1", 99), REASON_ENGINE_REFUSED);
}

static size_t woken[2];
static void counts(struct waiter *w, enum reason reason, const void *result) { (void)w, (void)result, woken[reason == REASON_OVERLOADED]++; }

static void calls_to_a_channel(void **state)
{
    (void)state;
    static struct waiter waiters[300];
    woken[0] = woken[1] = 0;
    for (size_t i = 0; i < countof(waiters); i++) {
        waiters[i] = (struct waiter){.wake = counts, .budget_ms = 5000};
        channel_ask(channel, str_lit("ord_1"), &waiters[i]);
        assert_int_equal(woken[0] + woken[1], 0);    /* never before the call has returned */
    }
    for (int i = 0; i < 500 && woken[0] + woken[1] < countof(waiters); i++)
        await_ms(&loop, 10);
    assert_int_equal(woken[0], 256);
    assert_int_equal(woken[1], 44);
    static struct waiter last;
    last = (struct waiter){.wake = counts};
    channel_ask(channel, str_lit("ord_1"), &last);    /* under way when it is closed: nobody is woken */
}

static void what_is_no_url(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "http://", "127.0.0.1:80", "https://127.0.0.1:80", "http://localhost.example", "http://127.0.0.1"};
    struct str address;
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(channel_http_address(str_of(bad[i]), &address));
    assert_true(channel_http_address(str_lit("http://127.0.0.1:80/"), &address) && str_eq(address, str_lit("127.0.0.1:80")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_remembers_and_gives_back_once, begin, end), cmocka_unit_test_setup_teardown(a_restart_forgets_nothing, begin, end),
        cmocka_unit_test_setup_teardown(calls_to_a_channel, begin, end), cmocka_unit_test(what_is_no_url)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

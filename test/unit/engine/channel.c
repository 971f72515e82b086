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
    channel = channel_http_open(&loop, str_of(url), (struct str){0});
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

/* ---- answers of every shape, from a server that writes bytes -------------------------------------------------------------------------------- */

enum end_of_answer { STAYS, CLOSES };
struct shape {
    const char *what, *bytes;
    enum end_of_answer end;
    enum reason reason;
    size_t count, unreadable;    /* with OK */
};
static const struct shape *shape;
static uv_tcp_t listener;
static size_t requests;
static char last_request[4096];

struct peer {
    uv_tcp_t tcp;
    uv_write_t write;
    char in[4096];
    size_t len;
};
static void on_peer_gone(uv_handle_t *h) { free(h->data); }
static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *b)
{
    (void)suggested;
    struct peer *p = h->data;
    *b = uv_buf_init(p->in + p->len, (unsigned)(sizeof p->in - 1 - p->len));
}
static void on_written(uv_write_t *w, int status)
{
    struct peer *p = container_of(w, struct peer, write);
    if ((status < 0 || shape->end == CLOSES) && !uv_is_closing((uv_handle_t *)&p->tcp))
        uv_close((uv_handle_t *)&p->tcp, on_peer_gone);
}
static void on_request(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
    (void)b;
    struct peer *p = s->data;
    if (n < 0) {
        if (!uv_is_closing((uv_handle_t *)s))
            uv_close((uv_handle_t *)s, on_peer_gone);
        return;
    }
    p->len += (size_t)n;
    p->in[p->len] = 0;
    if (!strstr(p->in, "\r\n\r\n") || (strncmp(p->in, "POST", 4) == 0 && p->in[p->len - 1] != '}'))
        return;
    requests++;
    memcpy(last_request, p->in, p->len + 1);
    p->len = 0;
    uv_buf_t out = uv_buf_init((char *)(uintptr_t)shape->bytes, (unsigned)strlen(shape->bytes));
    uv_write(&p->write, s, &out, 1, on_written);
}
static void on_peer(uv_stream_t *s, int status)
{
    assert_int_equal(status, 0);
    struct peer *p = calloc(1, sizeof *p);
    uv_tcp_init(&loop, &p->tcp);
    p->tcp.data = p;
    assert_int_equal(uv_accept(s, (uv_stream_t *)&p->tcp), 0);
    uv_read_start((uv_stream_t *)&p->tcp, on_alloc, on_request);
}

static int begin_shapes(void **state)
{
    (void)state;
    struct sockaddr_in at, bound;
    int len = sizeof bound;
    uv_loop_init(&loop);
    uv_tcp_init(&loop, &listener);
    uv_ip4_addr("127.0.0.1", 0, &at);
    uv_tcp_bind(&listener, (struct sockaddr *)&at, 0);
    assert_int_equal(uv_listen((uv_stream_t *)&listener, 16, on_peer), 0);
    uv_tcp_getsockname(&listener, (struct sockaddr *)&bound, &len);
    snprintf(url, sizeof url, "http://localhost:%d/shop/", ntohs(bound.sin_port));    /* a name, and a path */
    channel = channel_http_open(&loop, str_of(url), (struct str){0});
    assert_non_null(channel);
    return 0;
}
static int end_shapes(void **state)
{
    (void)state;
    channel_http_close(channel);
    uv_close((uv_handle_t *)&listener, NULL);
    await_ms(&loop, 20);    /* the peers see that the connections are gone */
    ports_loop_end(&loop);
    return 0;
}

#define P(id, order, result, amount) "{\"payment_id\":" id ",\"order_id\":\"" order "\",\"result\":\"" result "\",\"amount\":" amount ",\"currency\":\"CNY\",\"channel\":\"c\",\"occurred_at\":\"2026-12-01T08:00:00Z\"}"
#define PAID P("\"p1\"", "ord_1", "SUCCESS", "9900")
#define LIST(payments) "{\"payments\":[" payments "]}"
#define BY_EOF "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"

static enum reason ask_shape(struct channel_answer *into, uint32_t budget_ms);
static void keep_answer(struct await *a, const void *result) { *(struct channel_answer *)a->into = *(const struct channel_answer *)result; }
static enum reason ask_shape(struct channel_answer *into, uint32_t budget_ms)
{
    struct await a = AWAIT(.keep = keep_answer, .into = into);
    a.waiter.budget_ms = budget_ms;
    channel_ask(channel, str_lit("ord_1"), &a.waiter);
    return await_run(&a, &loop);
}

static char large[1200000];
static const char *large_answer(size_t padding)
{
    int n = snprintf(large, sizeof large, BY_EOF "{\"note\":\"");
    memset(large + n, 'x', padding);
    snprintf(large + n + padding, sizeof large - (size_t)n - padding, "\",\"payments\":[" PAID "]}");
    return large;
}

static void answers_of_every_shape(void **state)
{
    (void)state;
    const struct shape shapes[] = {
        {"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"pay\r\n9\r\nments\":[]\r\n1\r\n}\r\n0\r\n\r\n", STAYS, REASON_OK, 0, 0},
        {"closed by EOF", BY_EOF LIST(PAID), CLOSES, REASON_OK, 1, 0},
        {"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\n" LIST(PAID), CLOSES, REASON_OK, 1, 0},
        {"103 and 100 before", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" BY_EOF LIST(PAID), CLOSES, REASON_OK, 1, 0},
        {"9900.0", BY_EOF LIST(P("\"p1\"", "ord_1", "SUCCESS", "9900.0")), CLOSES, REASON_OK, 1, 0},
        {"99.5", BY_EOF LIST(P("\"p1\"", "ord_1", "SUCCESS", "99.5")), CLOSES, REASON_OK, 0, 1},
        {"an id that cannot be read hides no other", BY_EOF LIST(P("\"p 0\"", "ord_1", "SUCCESS", "1") "," PAID "," P("7", "ord_1", "SUCCESS", "1")), CLOSES, REASON_OK, 1, 2},
        {"a failed one that cannot be read is no money", BY_EOF LIST(P("\"p 0\"", "ord_1", "FAILED", "null") "," PAID), CLOSES, REASON_OK, 1, 0},
        {"another order's", BY_EOF LIST(P("\"p0\"", "ord_2", "SUCCESS", "1") "," PAID), CLOSES, REASON_OK, 1, 0},
        {"a result of its own", BY_EOF LIST(P("\"p1\"", "ord_1", "SETTLING", "9900")), CLOSES, REASON_OK, 0, 1},
        {"a zero in a member that nobody knows", BY_EOF "{\"x\":\"\\u0000\",\"payments\":[" PAID "]}", CLOSES, REASON_OK, 1, 0},
        {"no JSON", BY_EOF "<html>", CLOSES, REASON_ENGINE_FAULT, 0, 0},
        {"no list", BY_EOF "{\"payments\":null}", CLOSES, REASON_ENGINE_FAULT, 0, 0},
        {"empty", BY_EOF, CLOSES, REASON_ENGINE_FAULT, 0, 0},
        {"cut", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"payments\":[", CLOSES, REASON_ENGINE_FAULT, 0, 0},
        {"bad chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", CLOSES, REASON_ENGINE_FAULT, 0, 0},
        {"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n", CLOSES, REASON_ENGINE_FAULT, 0, 0},
        {"a redirect", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", STAYS, REASON_ENGINE_REFUSED, 0, 0},
        {"404", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", STAYS, REASON_ENGINE_REFUSED, 0, 0},
        {"503", "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", STAYS, REASON_ENGINE_BUSY, 0, 0},
        {"429", "HTTP/1.1 429 Slow Down\r\nContent-Length: 0\r\n\r\n", STAYS, REASON_ENGINE_BUSY, 0, 0},
        {"silence", "", STAYS, REASON_TIMED_OUT, 0, 0},
        {"silence behind the first word", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", STAYS, REASON_ENGINE_FAULT, 0, 0},
        {"nothing at all", "", CLOSES, REASON_LINK_LOST, 0, 0},
        {"100 KiB", large_answer(100 << 10), CLOSES, REASON_OK, 1, 0},
    };
    for (size_t i = 0; i < countof(shapes); i++) {
        struct channel_answer answer = {0};
        shape = &shapes[i];
        enum reason reason = ask_shape(&answer, 400);
        if (reason != shape->reason || answer.count != shape->count || answer.unreadable != shape->unreadable)
            fail_msg("%s: %s, %zu payments, %zu unreadable", shape->what, reason_word(reason), answer.count, answer.unreadable);
    }
    assert_non_null(strstr(last_request, "GET /shop/v1/payments?order_id=ord_1 HTTP/1.1\r\n"));
    struct channel_answer answer;
    struct shape too_large = {"2 MiB", large_answer(sizeof large - 1000), CLOSES, REASON_ENGINE_FAULT, 0, 0};
    shape = &too_large;
    assert_int_equal(ask_shape(&answer, 5000), REASON_ENGINE_FAULT);
}

static void a_refund_is_what_its_answer_says(void **state)
{
    (void)state;
#define STATUS(line, body) "HTTP/1.1 " line "\r\nConnection: close\r\n\r\n" body
    static const struct shape shapes[] = {
        {"DONE", STATUS("200 OK", "{\"status\":\"DONE\"}"), CLOSES, REASON_OK, 0, 0},
        {"201", STATUS("201 Created", "{\"status\":\"DONE\",\"x\":1}"), CLOSES, REASON_OK, 0, 0},
        {"PENDING", STATUS("200 OK", "{\"status\":\"PENDING\"}"), CLOSES, REASON_REFUND_PENDING, 0, 0},
        {"202", STATUS("202 Accepted", "{\"status\":\"PENDING\"}"), CLOSES, REASON_REFUND_PENDING, 0, 0},
        {"FAILED", STATUS("200 OK", "{\"status\":\"FAILED\"}"), CLOSES, REASON_REFUND_FAILED, 0, 0},
        {"something else", STATUS("200 OK", "{\"status\":\"MAYBE\"}"), CLOSES, REASON_ENGINE_FAULT, 0, 0},
        {"no body", STATUS("200 OK", ""), CLOSES, REASON_ENGINE_FAULT, 0, 0},
        {"409", STATUS("409 Conflict", "{}"), CLOSES, REASON_ENGINE_REFUSED, 0, 0},
        {"500", STATUS("500 Oh", "{}"), CLOSES, REASON_ENGINE_BUSY, 0, 0},
    };
    for (size_t i = 0; i < countof(shapes); i++) {
        shape = &shapes[i];
        enum reason reason = refund("p1", 100);
        if (reason != shape->reason)
            fail_msg("%s: %s", shape->what, reason_word(reason));
    }
    assert_non_null(strstr(last_request, "POST /shop/v1/refunds HTTP/1.1\r\n"));
    assert_non_null(strstr(last_request, "{\"payment_id\":\"p1\",\"order_id\":\"ord_1\",\"amount\":100,\"currency\":\"CNY\"}"));
}

static void a_channel_that_is_not_there(void **state)
{
    (void)state;
    struct channel_answer answer;
    channel_http_close(channel);
    channel = channel_http_open(&loop, str_lit("http://127.0.0.1:1"), (struct str){0});
    assert_int_equal(ask_shape(&answer, 2000), REASON_DEPENDENCY_DOWN);
    channel_http_close(channel);
    char secure[80];
    snprintf(secure, sizeof secure, "https%s", url + 4);    /* it speaks no TLS */
    static const struct shape plain = {"plain", "HTTP/1.1 400 Bad Request\r\n\r\n", CLOSES, REASON_OK, 0, 0};
    shape = &plain;
    channel = channel_http_open(&loop, str_of(secure), (struct str){0});
    assert_int_equal(ask_shape(&answer, 300) == REASON_OK, false);
}

static void what_is_no_url(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "http://", "127.0.0.1:80", "https://127.0.0.1:80", "http://localhost.example", "http://127.0.0.1"};
    static const char *const no_channel[] = {"", "http://", "127.0.0.1:80", "ftp://a", "file:///etc/passwd", "http://a/?x=1", "http://a/#x", "http://a b/"};
    static const char *const good[] = {"http://a", "https://user:word@pay.example:8443/v2/", "http://[::1]:80"};
    struct str address;
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(channel_http_address(str_of(bad[i]), &address));
    for (size_t i = 0; i < countof(no_channel); i++)
        if (channel_http_url_good(str_of(no_channel[i])))
            fail_msg("taken: %s", no_channel[i]);
    for (size_t i = 0; i < countof(good); i++)
        assert_true(channel_http_url_good(str_of(good[i])));
    assert_true(channel_http_address(str_lit("http://127.0.0.1:80/"), &address) && str_eq(address, str_lit("127.0.0.1:80")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_remembers_and_gives_back_once, begin, end), cmocka_unit_test_setup_teardown(a_restart_forgets_nothing, begin, end),
        cmocka_unit_test_setup_teardown(calls_to_a_channel, begin, end),
        cmocka_unit_test_setup_teardown(answers_of_every_shape, begin_shapes, end_shapes), cmocka_unit_test_setup_teardown(a_refund_is_what_its_answer_says, begin_shapes, end_shapes),
        cmocka_unit_test_setup_teardown(a_channel_that_is_not_there, begin_shapes, end_shapes), cmocka_unit_test(what_is_no_url)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

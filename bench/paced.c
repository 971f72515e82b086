/* SPDX-License-Identifier: Apache-2.0
 * paced.c: reservations at a set rate whatever the answers do, told second by second: what bench/az_loss needs and no more. (`seckill load` is the
 * tool for people.) A latency is counted from the moment the request was due, so that a server that stands still is seen to.
 *
 *     paced ADDRESS RATE SECONDS CONNECTIONS SOLD_OUT SELLING SHARE PREFIX
 *
 * SHARE of a thousand ask for SELLING (each a new user), the rest for SOLD_OUT. One line of JSON a second, by the second a request was due in:
 * {"second","due","answered","queued","failed","lost","over_50","over_100","p50_ms","p99_ms","max_ms"}; over: later than so many ms; failed: HTTP 500 and above; lost: no answer. A last line says how late the
 * sender itself was at worst: {"late_ms"}. */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "buf.h"
#include "check.h"
#include "histogram.h"
#include "http_client.h"

#define SECONDS_MAX 600
#define PATIENCE_MS 5000

struct second {
    struct histogram us;
    uint64_t due, queued, failed, lost;
};
struct ask {
    struct http_call call;
    uint64_t due_us;
    char memory[512];
};

static struct second *seconds;
static struct {
    const char *host, *sold_out, *selling, *prefix;
    double rate;
    uint64_t length_s, share, began_us, sent, open, late_us;
    struct http_client *client;
    uv_loop_t loop;
    uv_timer_t timer;
} p;

static uint64_t now_us(void) { return uv_hrtime() / 1000; }

static struct second *second_of(const struct ask *a)
{
    uint64_t at = (a->due_us - p.began_us) / 1000000;
    return &seconds[at < p.length_s ? at : p.length_s - 1];
}

static void answered(struct http_call *call, enum http_outcome outcome, const struct http_reply *reply)
{
    struct ask *a = container_of(call, struct ask, call);
    struct second *s = second_of(a);
    histogram_add(&s->us, now_us() - a->due_us);
    if (outcome != HTTP_REPLIED)
        s->lost++;
    else if (reply->status >= 500)
        s->failed++;
    else if (reply->status == 202)
        s->queued++;
    p.open--;
    free(a);
}

static void send_one(uint64_t number, uint64_t due_us)
{
    char body[256];
    bool sells = number * 7919 % 1000 < p.share;
    const char *activity = sells ? p.selling : p.sold_out;
    int n = snprintf(body, sizeof body, "{\"activity_id\":\"%s\",\"sku_id\":\"sku_%s\",\"request_id\":\"%s-%llu\",\"user_id\":\"%s-%llu\"}", activity, activity, p.prefix,
                     (unsigned long long)number, p.prefix, (unsigned long long)number);
    struct ask *a = calloc(1, sizeof *a);
    check(a != NULL && n > 0 && (size_t)n < sizeof body);
    struct buf out = buf_fixed(a->memory, sizeof a->memory);
    http_request_write(&out, str_lit("POST"), str_lit("/v1/reservations"), str_of(p.host), (struct str){0}, str_lit("application/json"), (struct str){body, (size_t)n});
    check(buf_ok(&out));
    a->due_us = due_us;
    a->call = (struct http_call){.done = answered, .request = buf_str(&out), .timeout_ms = PATIENCE_MS};
    second_of(a)->due++;
    p.open++;
    if (!http_client_send(p.client, &a->call))
        answered(&a->call, HTTP_NOT_SENT, NULL);
}

static void tick(uv_timer_t *timer)
{
    uint64_t now = now_us(), all = (uint64_t)(p.rate * (double)p.length_s);
    for (; p.sent < all; p.sent++) {
        uint64_t due = p.began_us + (uint64_t)((double)p.sent * 1e6 / p.rate);
        if (due > now)
            return;
        if (now - due > p.late_us)
            p.late_us = now - due;
        send_one(p.sent, due);
    }
    if (p.open == 0) {
        uv_timer_stop(timer);
        uv_stop(&p.loop);
    }
}

static void report(void)
{
    for (uint64_t i = 0; i < p.length_s; i++) {
        const struct second *s = &seconds[i];
        printf("{\"second\":%llu,\"due\":%llu,\"answered\":%llu,\"queued\":%llu,\"failed\":%llu,\"lost\":%llu,\"over_50\":%llu,\"over_100\":%llu,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f}\n",
               (unsigned long long)i, (unsigned long long)s->due, (unsigned long long)(s->us.count - s->lost), (unsigned long long)s->queued, (unsigned long long)s->failed,
               (unsigned long long)s->lost, (unsigned long long)histogram_above(&s->us, 50000), (unsigned long long)histogram_above(&s->us, 100000), (double)histogram_quantile(&s->us, 0.5) / 1000, (double)histogram_quantile(&s->us, 0.99) / 1000, (double)s->us.max / 1000);
    }
    printf("{\"late_ms\":%.3f}\n", (double)p.late_us / 1000);
}

int main(int argc, char **argv)
{
    struct http_client_config config = {.timeout_ms = PATIENCE_MS, .queue_max = 1000000};
    uint64_t connections;
    if (argc != 9 || !address_parse(str_of(argv[1]), &config.address) || !str_to_u64(str_of(argv[3]), &p.length_s) || !str_to_u64(str_of(argv[4]), &connections) ||
        !str_to_u64(str_of(argv[7]), &p.share) || !(strtod(argv[2], NULL) >= 1) || p.length_s < 1 || p.length_s > SECONDS_MAX || connections < 1) {
        fputs("usage: paced ADDRESS RATE SECONDS CONNECTIONS SOLD_OUT SELLING SHARE PREFIX\n", stderr);
        return 2;
    }
    p.host = argv[1], p.rate = strtod(argv[2], NULL), p.sold_out = argv[5], p.selling = argv[6], p.prefix = argv[8];
    config.connections_max = (size_t)connections;
    seconds = calloc(p.length_s, sizeof *seconds);
    check(seconds != NULL);
    uv_loop_init(&p.loop);
    p.client = http_client_open(&p.loop, &config);
    http_client_connect(p.client);
    for (uint64_t until = now_us() + 1000000; http_client_connected(p.client) < connections && now_us() < until;)
        uv_run(&p.loop, UV_RUN_NOWAIT);
    p.began_us = now_us();
    uv_timer_init(&p.loop, &p.timer);
    uv_timer_start(&p.timer, tick, 1, 1);
    uv_run(&p.loop, UV_RUN_DEFAULT);
    report();
    http_client_close(p.client);
    uv_close((uv_handle_t *)&p.timer, NULL);
    uv_run(&p.loop, UV_RUN_DEFAULT);
    free(seconds);
    return 0;
}

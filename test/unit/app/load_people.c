/* SPDX-License-Identifier: Apache-2.0
 * The people of a load against a server that is made up. The proof that nothing is left out: a server that stands still for a second is seen in
 * the quantiles, which a loop that waits for its answers would have missed. And a server that lies is caught. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "http_server.h"
#include "json.h"
#include "load_people.h"
#include "load_result.h"

/* ---- a server in a process of its own ----------------------------------------------------------------------------------------------------------- */

enum mode { SOLD_OUT, SLOW, STALLING, SELLING, LYING, DENYING, GOING_BACK };
static struct {
    enum mode mode;
    uint32_t port, requests, twins;      /* twins: the same request_id again */
    uint32_t polls;
    uint64_t began_us;
} *shared;

static uint64_t now_us(void) { return uv_hrtime() / 1000; }

/* A reservation_id that belongs to the request: the same each time, unless the server lies. */
static void write_reservation(char out[40], struct str body, uint32_t lie)
{
    uint64_t h = 1469598103934665603u + lie;
    for (size_t i = 0; i < body.len; i++)
        h = (h ^ (uint8_t)body.ptr[i]) * 1099511628211u;
    snprintf(out, 40, "rsv_%026llu", (unsigned long long)h);
}

static void handle(struct http_exchange *x)
{
    char text[256], reservation[40];
    bool asks = x->request->method == HTTP_GET;
    uint32_t n = ++shared->requests;
    shared->polls += asks;
    if (shared->mode == STALLING && shared->began_us == 0)
        shared->began_us = now_us();
    if (shared->mode == STALLING && now_us() - shared->began_us > 1000000 && shared->twins == 0) {
        shared->twins = 1;
        usleep(1000000);
    }
    if (shared->mode == SLOW)
        usleep(4000);
    write_reservation(reservation, x->request->body, shared->mode == LYING ? n : 0);
    if (asks)
        snprintf(text, sizeof text, "{\"status\":\"%s\"}", shared->mode == GOING_BACK ? (shared->polls == 1 ? "RELEASE_PENDING" : "RESERVED") : shared->polls > 60 ? "ORDERED" : "PUBLISHED");
    else if (shared->mode == SOLD_OUT || shared->mode == SLOW || shared->mode == STALLING || (shared->mode == DENYING && n > 100))
        snprintf(text, sizeof text, "{\"code\":\"SOLD_OUT\",\"detail\":\"a quote \\\"code\\\":\\\"QUEUED\\\" in a text\"}");
    else
        snprintf(text, sizeof text, "{\"code\":\"QUEUED\",\"reservation_id\":\"%s\"}", reservation);
    http_answer(x, asks ? 200 : 202, str_lit("application/json"), str_of(text), (struct str){0});
}

static pid_t serve(enum mode mode)
{
    memset(shared, 0, sizeof *shared);
    shared->mode = mode;
    pid_t pid = fork();
    if (pid != 0) {
        for (int i = 0; i < 500 && __atomic_load_n(&shared->port, __ATOMIC_ACQUIRE) == 0; i++)
            usleep(10000);
        assert_true(shared->port != 0);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    uv_loop_t *loop = uv_default_loop();
    int error = 0;
    struct http_server_config k = {.handle = handle};
    check(address_parse(str_lit("127.0.0.1:0"), &k.listen));
    struct http_server *server = http_server_open(loop, &k, &error);
    check(server != NULL);
    __atomic_store_n(&shared->port, (uint32_t)http_server_port(server), __ATOMIC_RELEASE);
    uv_run(loop, UV_RUN_DEFAULT);
    _exit(0);
}

/* A scenario against that server, by one process: this one. */
static struct load_stats *play(enum mode mode, const char *text)
{
    struct load_stats *stats = calloc(1, sizeof *stats);
    struct load_scenario scenario;
    char path[] = "/tmp/test_load.XXXXXX", host[32], words[1024];
    struct buf complaints = buf_fixed(words, sizeof words);
    uint32_t stop = 0;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    if (!load_scenario_read(&scenario, path, 0, &complaints))
        fail_msg(STR_FMT, STR_ARG(buf_str(&complaints)));
    unlink(path);
    pid_t server = serve(mode);
    uv_loop_t loop;
    snprintf(host, sizeof host, "127.0.0.1:%u", shared->port);
    struct load_people_options o = {.scenario = &scenario, .host = host, .activity = "act", .sku = "sku", .prefix = "p", .parts = 1, .seed = 7, .stop = &stop, .stats = stats};
    assert_true(address_parse(str_of(host), &o.address));
    uv_loop_init(&loop);
    struct load_people *people = load_people_new(&loop, &o);
    load_people_connect(people);
    load_people_run(people, now_us() + 20000);
    load_people_free(people);
    assert_int_equal(uv_loop_close(&loop), 0);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    load_scenario_free(&scenario);
    return stats;
}

static double ms_of(const struct histogram *h, double share) { return (double)histogram_quantile(h, share) / 1000; }

/* ---- stories ------------------------------------------------------------------------------------------------------------------------------------- */

/* 200 requests a second for three seconds through one connection, and a server that stands still for the second second. Those due while it stood
 * waited half a second on average: a third of all. One that sends only when it has been answered sees one slow request of some four hundred. */
static void a_server_that_stood_still_is_seen(void **state)
{
    struct load_stats *s = play(STALLING, "arrivals: {rate: 200, seconds: 3, spacing: even}\npeople: {retries: 0}\ngenerator: {connections: 1}");
    struct histogram *due = calloc(1, sizeof *due), *closed = calloc(1, sizeof *closed);
    (void)state;
    load_stats_requests(s, due, closed);
    assert_int_equal(due->count, 600);
    assert_int_equal(load_stats_answered(s), 600);
    assert_true(ms_of(due, 0.75) > 150);                                   /* exactly: 250 and what the machine adds */
    assert_true(ms_of(due, 0.9) > 600 && ms_of(due, 0.99) > 900);          /* 700, 970 */
    assert_true(ms_of(closed, 0.9) < ms_of(due, 0.75) && ms_of(closed, 1) >= 900);
    assert_true(histogram_above(closed, 500000) <= 3);
    assert_true(histogram_above(due, 500000) >= 80);                       /* a hundred */
    free(due), free(closed), free(s);
}

/* Twice what the server can do, for three seconds: who comes in the third second waits behind all that were left over from the first two. */
static void above_capacity_latencies_grow_with_the_backlog(void **state)
{
    struct load_stats *s = play(SLOW, "arrivals: {rate: 500, seconds: 3, spacing: even}\npeople: {retries: 0, timeout_ms: 30000}\ngenerator: {connections: 4}");
    struct histogram *due = calloc(1, sizeof *due), *closed = calloc(1, sizeof *closed);
    (void)state;
    load_stats_requests(s, due, closed);
    assert_int_equal(load_stats_answered(s), 1500);
    uint64_t p50[3];
    for (size_t i = 0; i < 3; i++)
        p50[i] = load_second_quantile(&s->seconds[i], 0.5);
    assert_true(p50[0] > 300000 && p50[1] > p50[0] + 500000 && p50[2] > p50[1] + 500000);    /* at least 0.5, 1.5 and 2.5 s */
    assert_true(ms_of(due, 1) > 2500);
    assert_true(ms_of(closed, 0.5) < ms_of(due, 0.5) / 5);                                    /* each of the four waits for four */
    free(due), free(closed), free(s);
}

static void people_come_as_they_are_told(void **state)
{
    struct load_stats *s = play(SOLD_OUT, "arrivals: {rate: 1000, seconds: 1, spacing: even}\npeople: {retries: 20}\nbots: {flood: 10, malformed: 10, bad_tokens: 10}\ngenerator: {connections: 64}");
    (void)state;
    uint64_t all = 0;
    for (unsigned d = 0; d < LOAD_DEEDS; d++) {
        all += s->deeds[d].sent;
        assert_int_equal(s->deeds[d].lost, 0);
    }
    assert_int_equal(all, 1000);
    assert_true(s->deeds[LOAD_RETRY].sent > 140 && s->deeds[LOAD_RETRY].sent < 260);
    assert_true(s->deeds[LOAD_FLOOD].sent > 60 && s->deeds[LOAD_MALFORMED].sent > 60 && s->deeds[LOAD_BAD_TOKEN].sent > 60);
    assert_int_equal(s->people, s->deeds[LOAD_RESERVE].sent);
    assert_int_equal(s->answers[REASON_SOLD_OUT], s->deeds[LOAD_RESERVE].sent + s->deeds[LOAD_RETRY].sent);
    assert_int_equal(s->contradictions, 0);
    assert_int_equal(s->pending, 0);
    assert_int_equal(s->late.count, 1000);
    uint64_t due = 0;
    for (size_t i = 0; i < LOAD_SECONDS_MAX; i++)
        due += s->seconds[i].due;
    assert_int_equal(due, load_stats_sent(s));
    free(s);
}

static void who_was_queued_asks_until_it_is_decided(void **state)
{
    struct load_stats *s = play(SELLING, "arrivals: {rate: 100, seconds: 0.5, spacing: even}\npeople: {retries: 50, poll_first_ms: 50, patience_s: 10}");
    (void)state;
    assert_int_equal(s->told, s->people);
    assert_int_equal(s->ordered, s->people);
    assert_int_equal(s->undecided, 0);
    assert_int_equal(s->contradictions, 0);
    assert_int_equal(s->accepted.count, s->people);
    assert_true(s->deeds[LOAD_POLL].sent > s->people);
    free(s);
}

static void who_is_never_decided_is_counted(void **state)
{
    struct load_stats *s = play(SELLING, "arrivals: {rate: 10, seconds: 0.5, spacing: even}\npeople: {retries: 0, poll_first_ms: 400, patience_s: 1}");
    (void)state;
    assert_int_equal(s->told, 5);
    assert_int_equal(s->undecided, 5);
    free(s);
}

static void a_server_that_lies_is_caught(void **state)
{
    struct load_stats *s = play(LYING, "arrivals: {rate: 200, seconds: 1}\npeople: {retries: 50, poll_first_ms: 0}");
    (void)state;
    assert_true(s->contradictions > 0);      /* one request, two reservations */
    assert_non_null(strstr(s->strange, "retry: 202"));
    free(s);
    s = play(DENYING, "arrivals: {rate: 200, seconds: 1}\npeople: {retries: 50, poll_first_ms: 0}");
    assert_true(s->contradictions > 0);      /* what was taken is denied */
    free(s);
    s = play(GOING_BACK, "arrivals: {rate: 2, seconds: 0.5, spacing: even}\npeople: {retries: 0, poll_first_ms: 50, patience_s: 1}");
    assert_true(s->contradictions > 0);      /* a status goes back */
    free(s);
    s = play(SELLING, "arrivals: {rate: 100, seconds: 1}\npeople: {retries: 0, poll_first_ms: 0}\nbots: {malformed: 50}");
    assert_int_equal(s->contradictions, s->deeds[LOAD_MALFORMED].sent);    /* nonsense is served */
    free(s);
}

/* Who was given up counts as one who has waited for so long: the worst must not be missing from the quantiles. */
static void who_is_not_answered_in_time_is_lost(void **state)
{
    struct load_stats *s = play(STALLING, "arrivals: {rate: 100, seconds: 2, spacing: even}\npeople: {retries: 0, timeout_ms: 300}\ngenerator: {connections: 200}");
    struct histogram *due = calloc(1, sizeof *due), *closed = calloc(1, sizeof *closed);
    (void)state;
    load_stats_requests(s, due, closed);
    uint64_t lost = load_stats_lost(s);
    assert_true(lost > 30);    /* the server stands for a second: seventy, and what the machine adds */
    assert_int_equal(lost + load_stats_answered(s), 200);
    assert_int_equal(due->count, 200);
    assert_true(histogram_above(due, 290000) >= lost);
    free(due), free(closed), free(s);
}

/* More than there is room for is not sent, and said to be so. */
static void what_has_no_room_is_said_to_be_unsent(void **state)
{
    struct load_stats *s = play(STALLING, "arrivals: {rate: 4000, seconds: 2, spacing: even}\npeople: {retries: 0}\ngenerator: {in_flight: 1000, connections: 4}");
    (void)state;
    assert_true(s->unsent > 0);    /* four thousand wait while the server stands; there is room for one */
    assert_int_equal(load_stats_sent(s) + s->unsent, 8000);
    assert_int_equal(load_stats_answered(s), load_stats_sent(s));
    free(s);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_stood_still_is_seen),
        cmocka_unit_test(above_capacity_latencies_grow_with_the_backlog),
        cmocka_unit_test(people_come_as_they_are_told),
        cmocka_unit_test(who_was_queued_asks_until_it_is_decided),
        cmocka_unit_test(who_is_never_decided_is_counted),
        cmocka_unit_test(a_server_that_lies_is_caught),
        cmocka_unit_test(who_is_not_answered_in_time_is_lost),
        cmocka_unit_test(what_has_no_room_is_said_to_be_unsent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

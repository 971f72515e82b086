/* SPDX-License-Identifier: Apache-2.0
 * The admin listener over the imagined world, asked over HTTP: a server thread of its own, as in life. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "await.h"
#include "check.h"
#include "http_ask.h"
#include "health.h"
#include "imagine.h"
#include "metric.h"
#include "roles.h"

static struct {
    struct config config;
    uv_loop_t loop;
    uv_async_t stop;
    uv_thread_t thread;
    struct sim_engines imagined;
    struct ports ports;
    struct roles *roles;
    bool drained;
} server;
static struct http_ask ask;

static void set_flag(void *flag) { *(bool *)flag = true; }
static void told_to_stop(uv_async_t *stop)
{
    (void)stop;
    roles_drain(server.roles, 2000, set_flag, &server.drained);
}

static void serve(void *arg)
{
    (void)arg;
    await_flag(&server.loop, &server.drained, 0);
    roles_close(server.roles);
    ports_close(&server.ports);
    uv_close((uv_handle_t *)&server.stop, NULL);
    ports_loop_end(&server.loop);
}

/* A gauge of the janitor's is a line of readiness; the process itself is not to blame. */
static void readiness_names_missing_buckets(void **state)
{
    (void)state;
    char memory[512];
    struct buf lines = buf_fixed(memory, sizeof memory);
    struct health h = {.janitor = true};
    metric_set(METRIC_CLOSED_BUCKETS, 0, 0);
    metric_set(METRIC_MISSING_BUCKETS, 0, 3);
    assert_true(health_says(&h, HEALTH_READY, (struct str){0}, &lines));
    buf_add_char(&lines, 0);
    assert_non_null(strstr(memory, "[-] buckets: 3 missing in Redis, 0 closed\n"));
    metric_set(METRIC_MISSING_BUCKETS, 0, 0);
    lines = buf_fixed(memory, sizeof memory);
    assert_true(health_says(&h, HEALTH_READY, (struct str){0}, &lines));
    buf_add_char(&lines, 0);
    assert_non_null(strstr(memory, "[+] buckets\n"));
}

static int begin(void **state)
{
    char memory[1024], address[32];
    struct buf complaint = buf_fixed(memory, sizeof memory);
    const struct config_flag flags[] = {{SETTING_http_listen, "127.0.0.1:0"}, {SETTING_admin_listen, "localhost:0"}, {SETTING_log_level, "fatal"}};
    (void)state;
    assert_int_equal(config_load(&server.config, &(struct config_source){.flags = flags, .flag_count = countof(flags)}, &complaint), CONFIG_GOOD);
    log_level_set(LEVEL_FATAL);
    uv_loop_init(&server.loop);
    uv_async_init(&server.loop, &server.stop, told_to_stop);
    imagine_ports(&server.imagined, &server.ports, &server.loop, 7);
    server.roles = roles_open(&(struct roles_options){.config = &server.config, .ports = &server.ports, .which = ROLES_ALL}, &complaint);
    assert_non_null(server.roles);
    snprintf(address, sizeof address, "127.0.0.1:%d", roles_admin_port(server.roles));
    assert_true(http_ask_open(&ask, address));
    return uv_thread_create(&server.thread, serve, NULL);
}

static int end(void **state)
{
    (void)state;
    http_ask_close(&ask);
    uv_async_send(&server.stop);
    uv_thread_join(&server.thread);
    config_free(&server.config);
    return 0;
}

static int get(const char *target) { return http_ask(&ask, "GET", target, (struct str){0}, 10000) ? ask.status : 0; }
static int post(const char *target, const char *body) { return http_ask(&ask, "POST", target, str_of(body), 10000) ? ask.status : 0; }

#define TERMS "\"starts_at\":\"2026-01-01T00:00:00Z\",\"ends_at\":\"2036-01-01T00:00:00Z\",\"skus\":[{\"sku_id\":\"s1\",\"stock\":5,\"price\":100,\"currency\":\"CNY\"}]"

static void health_is_told_apart(void **state)
{
    (void)state;
    assert_int_equal(get("/livez"), 200);
    for (int i = 0; i < 200 && get("/readyz") != 200; i++)    /* the first round of probes takes its time */
        uv_sleep(10);
    assert_int_equal(get("/readyz"), 200);
    assert_int_equal(get("/startupz?verbose"), 200);
    assert_int_equal(get("/metrics"), 200);
    assert_int_equal(get("/version"), 200);
    assert_true(http_ask_text(&ask, "version")[0] != 0);
    assert_int_equal(get("/"), 200);
}

/* The answer of /readyz?verbose, of the health of a process with all roles over engines of which one is away. */
static bool says(struct health *h, const char *exclude, char memory[4096])
{
    struct buf lines = buf_fixed(memory, 4095);
    bool good = health_says(h, HEALTH_READY, str_of(exclude), &lines);
    memory[lines.len] = 0;
    return good;
}

static void readiness_proves_the_use_of_each_part(void **state)
{
    (void)state;
    struct sim_engines engines;
    struct ports ports;
    struct health h;
    uv_loop_t loop;
    char text[4096];
    uv_loop_init(&loop);
    imagine_ports(&engines, &ports, &loop, 7);
    health_start(&h, &ports, PORTS_ALL, false, NULL, NULL);
    assert_false(says(&h, "", text));    /* nothing is proved yet */
    assert_non_null(strstr(text, "[-] redis: not asked yet\n"));
    for (int i = 0; i < 200 && !says(&h, "", text); i++)
        await_ms(&loop, 10);
    assert_true(says(&h, "", text));
    assert_non_null(strstr(text, "[+] redis: a write was done 0."));
    assert_non_null(strstr(text, "[+] bus: a message was stored 0."));
    assert_non_null(strstr(text, "[+] postgresql: a commit was confirmed 0."));
    assert_null(strstr(text, "buckets"));    /* this process has no janitor: it knows nothing of them */
    assert_null(strstr(text, "audit"));
    engines.stock.away = true;
    for (int i = 0; i < 500 && says(&h, "", text); i++)
        await_ms(&loop, 10);
    assert_false(says(&h, "", text));
    assert_non_null(strstr(text, "[-] redis: DEPENDENCY_DOWN"));
    assert_true(says(&h, "redis", text));
    assert_non_null(strstr(text, "[-] redis excluded: DEPENDENCY_DOWN"));
    assert_false(says(&h, "radish,bus", text));
    assert_non_null(strstr(text, "warn: exclude: there is no check \"radish\"\n"));
    engines.stock.away = false;
    for (int i = 0; i < 500 && !says(&h, "", text); i++)
        await_ms(&loop, 10);
    assert_true(says(&h, "", text));
    health_stop(&h);
    ports_close(&ports);
    ports_loop_end(&loop);
}

/* An audit that judged nothing is not one that found nothing. */
static void readiness_names_what_was_not_judged(void **state)
{
    (void)state;
    struct sim_engines engines;
    struct ports ports;
    uv_loop_t loop;
    char text[4096];
    uv_loop_init(&loop);
    imagine_ports(&engines, &ports, &loop, 7);
    struct health h = {.ports = &ports, .janitor = true};
    metric_unset(METRIC_AUDIT_ROUND);
    metric_unset(METRIC_UNJUDGED);
    says(&h, "", text);
    assert_non_null(strstr(text, "[+] audit: no round has ended yet\n"));
    metric_set(METRIC_AUDIT_ROUND, 0, clock_now_ms(ports.clock) / 1000);
    metric_set(METRIC_UNJUDGED, 0, 2);
    says(&h, "", text);
    assert_non_null(strstr(text, "[-] audit: 2 activities not judged, 0 rules broken, 0 units without one owner, "));
    metric_set(METRIC_UNJUDGED, 0, 0);
    says(&h, "", text);
    assert_non_null(strstr(text, "[+] audit: nothing found "));
    metric_unset(METRIC_AUDIT_ROUND);
    ports_close(&ports);
    ports_loop_end(&loop);
}

static void what_is_not_there_is_not_found(void **state)
{
    (void)state;
    assert_int_equal(get("/admin/v1/nothing"), 404);
    assert_string_equal(http_ask_text(&ask, "code"), "NOT_FOUND");
    assert_int_equal(get("/admin/v1/activities/none"), 404);
    assert_string_equal(http_ask_text(&ask, "code"), "UNKNOWN_ACTIVITY");
    assert_int_equal(post("/livez", ""), 405);
    assert_int_equal(get("/admin/v1/activities/none/warm"), 405);
    assert_int_equal(post("/admin/v1/activities/none/warm", ""), 404);
    assert_int_equal(get("/admin/v1/activities/bad%20id"), 404);
    assert_int_equal(get("/admin/v1/activities/none/conservation"), 404);
    assert_int_equal(get("/v1/reservations/x"), 404);    /* the public API is not here */
}

static void a_bad_activity_is_refused_by_name(void **state)
{
    (void)state;
    static const struct { const char *body, *expected; } cases[] = {
        {"", "not JSON"}, {"[]", "expected an object"}, {"{}", "activity_id"}, {"{\"activity_id\":\"a b\"," TERMS "}", "activity_id"},
        {"{\"activity_id\":\"a\",\"activity_id\":\"a\"," TERMS "}", "not JSON"}, {"{\"activity_id\":\"a\",\"colour\":1," TERMS "}", "no member \"colour\""},
        {"{\"activity_id\":\"a\",\"buckets\":33," TERMS "}", "buckets"}, {"{\"activity_id\":\"a\",\"buckets\":\"1\"," TERMS "}", "buckets"},
        {"{\"activity_id\":\"a\",\"qualification\":1," TERMS "}", "qualification"},
        {"{\"activity_id\":\"a\",\"starts_at\":\"1969-12-31T23:59:59Z\",\"ends_at\":\"2036-01-01T00:00:00Z\",\"skus\":[{\"sku_id\":\"s\",\"stock\":1,\"price\":1,\"currency\":\"CNY\"}]}", "starts_at"},
        {"{\"activity_id\":\"a\",\"starts_at\":\"2026-01-01T00:00:00Z\",\"ends_at\":\"9999-12-31T23:59:59-01:00\",\"skus\":[{\"sku_id\":\"s\",\"stock\":1,\"price\":1,\"currency\":\"CNY\"}]}", "ends_at"},
        {"{\"activity_id\":\"a\",\"starts_at\":\"2026-01-01T00:00:00Z\",\"ends_at\":\"2036-01-01T00:00:00Z\",\"skus\":[{\"sku_id\":\"s\",\"stock\":1,\"price\":1,\"currency\":\"cny\"}]}", "currency"},
        {"{\"activity_id\":\"a\",\"starts_at\":\"2026-01-01T00:00:00Z\",\"ends_at\":\"2036-01-01T00:00:00Z\",\"skus\":[{\"sku_id\":\"s\",\"stock\":1,\"price\":1,\"currency\":\"€\"}]}", "currency"},
        {"{\"activity_id\":\"a\",\"starts_at\":\"tomorrow\",\"ends_at\":\"2036-01-01T00:00:00Z\",\"skus\":[]}", "starts_at"},
        {"{\"activity_id\":\"a\",\"starts_at\":\"2036-01-01T00:00:00Z\",\"ends_at\":\"2026-01-01T00:00:00Z\",\"skus\":[{\"sku_id\":\"s\",\"stock\":1,\"price\":1,\"currency\":\"CNY\"}]}", "ends_at"},
        {"{\"activity_id\":\"a\",\"starts_at\":\"2026-01-01T00:00:00Z\",\"ends_at\":\"2036-01-01T00:00:00Z\",\"skus\":[]}", "skus"},
        {"{\"activity_id\":\"a\",\"starts_at\":\"2026-01-01T00:00:00Z\",\"ends_at\":\"2036-01-01T00:00:00Z\",\"skus\":[{\"sku_id\":\"s\",\"stock\":0,\"price\":1,\"currency\":\"CNY\"}]}", "stock"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        int status = post("/admin/v1/activities", cases[i].body);
        if (status != 400 || !strstr(http_ask_text(&ask, "detail"), cases[i].expected))
            fail_msg("%s: %d %s", cases[i].body, status, http_ask_text(&ask, "detail"));
    }
}

/* What a page of another origin sends through the browser of an operator. */
static void a_foreign_page_changes_and_reads_nothing(void **state)
{
    (void)state;
    static const struct { const char *method, *target, *headers; int status; } attacks[] = {
        {"POST", "/admin/v1/activities/guarded/close", "Origin: http://evil.example\r\n", 403},
        {"POST", "/admin/v1/activities/guarded/close", "Sec-Fetch-Site: cross-site\r\n", 403},
        {"GET", "/settings", "Origin: http://127.0.0.1:1\r\n", 403},
        {"GET", "/admin/v1/activities/guarded", "Sec-Fetch-Site: same-site\r\n", 403},
        {"OPTIONS", "/admin/v1/activities/guarded/close", "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n", 403},
        {"GET", "/readyz", "Origin: http://evil.example\r\n", 403},
    };
    char own[sizeof ask.host + 32];
    assert_int_equal(post("/admin/v1/activities", "{\"activity_id\":\"guarded\"," TERMS "}"), 201);
    for (size_t i = 0; i < countof(attacks); i++) {
        struct str body = str_of(attacks[i].method[0] == 'P' ? "{\"reason\":\"page\"}" : "");
        assert_true(http_ask_with(&ask, attacks[i].method, attacks[i].target, str_of(attacks[i].headers), body, 10000));
        assert_int_equal(ask.status, attacks[i].status);
        assert_string_equal(http_ask_text(&ask, "code"), "FORBIDDEN");
    }
    char host[sizeof ask.host];
    snprintf(own, sizeof own, "Origin: http://%s\r\n", ask.host);
    snprintf(host, sizeof host, "%s", ask.host);
    snprintf(ask.host, sizeof ask.host, "rebound.example:8481");
    assert_int_equal(get("/settings"), 421);
    assert_string_equal(http_ask_text(&ask, "code"), "MISDIRECTED_REQUEST");
    assert_int_equal(post("/admin/v1/activities/guarded/close", "{\"reason\":\"page\"}"), 421);
    snprintf(ask.host, sizeof ask.host, "%s", host);
    assert_int_equal(get("/admin/v1/activities/guarded"), 200);
    assert_string_equal(http_ask_text(&ask, "state"), "DRAFT");
    assert_true(http_ask_with(&ask, "POST", "/admin/v1/activities/guarded/warm", str_of(own), (struct str){0}, 10000));
    assert_int_equal(ask.status, 200);    /* its own page may */
}

static void an_activity_goes_through_its_life(void **state)
{
    (void)state;
    assert_int_equal(post("/admin/v1/activities", "{\"activity_id\":\"life\"," TERMS "}"), 201);
    assert_string_equal(http_ask_text(&ask, "state"), "DRAFT");
    assert_int_equal(post("/admin/v1/activities", "{\"activity_id\":\"life\"," TERMS "}"), 201);    /* the same terms again */
    assert_int_equal(post("/admin/v1/activities", "{\"activity_id\":\"life\",\"pay_timeout_s\":1," TERMS "}"), 409);
    assert_int_equal(post("/admin/v1/activities/life/open", ""), 409);
    assert_int_equal(post("/admin/v1/activities/life/warm", ""), 200);
    assert_int_equal(json_integer_value(json_object_get(ask.json, "seeded")), 5);
    assert_int_equal(post("/admin/v1/activities/life/warm", ""), 200);
    assert_int_equal(post("/admin/v1/activities/life/open", "{\"reason\":\"time\"}"), 200);
    assert_int_equal(post("/admin/v1/activities/life/open", "{\"why\":\"time\"}"), 400);
    assert_int_equal(post("/admin/v1/activities/life/pause", ""), 400);
    assert_int_equal(post("/admin/v1/activities/life/pause", "{\"reason\":\"price\"}"), 200);
    assert_string_equal(http_ask_text(&ask, "state"), "PAUSED");
    assert_int_equal(post("/admin/v1/activities/life/resume", ""), 200);
    assert_int_equal(get("/admin/v1/activities/life"), 200);
    assert_string_equal(http_ask_text(&ask, "state"), "OPEN");
    assert_int_equal(get("/admin/v1/activities"), 200);
    assert_true(json_array_size(json_object_get(ask.json, "activities")) > 0);
}

static void every_unit_is_accounted_for(void **state)
{
    (void)state;
    assert_int_equal(get("/admin/v1/activities/life/conservation"), 200);
    json_t *sku = json_array_get(json_object_get(ask.json, "skus"), 0);
    assert_int_equal(json_integer_value(json_object_get(sku, "s0")), 5);
    assert_int_equal(json_integer_value(json_object_get(sku, "a")), 5);
    assert_int_equal(json_integer_value(json_object_get(sku, "drift")), 0);
    assert_int_equal(get("/admin/v1/activities/life/conservation?units=1"), 200);
    assert_int_equal(json_array_size(json_object_get(ask.json, "units")), 0);
}

static void what_nobody_knows_is_said_to_be_unknown(void **state)
{
    (void)state;
    assert_int_equal(get("/admin/v1/explain/1"), 200);
    assert_string_equal(http_ask_text(&ask, "kind"), "unit");
    assert_true(json_is_true(json_object_get(ask.json, "known")));
    assert_int_equal(get("/admin/v1/explain/somebody?activity_id=life"), 200);
    assert_string_equal(http_ask_text(&ask, "kind"), "user");
    assert_true(json_is_false(json_object_get(ask.json, "known")));
    assert_int_equal(get("/admin/v1/explain/req1?activity_id=life&user_id=u1"), 200);
    assert_string_equal(http_ask_text(&ask, "kind"), "request");
    assert_int_equal(get("/admin/v1/explain/rsv_00000000000000000000000000"), 200);
    assert_true(json_is_false(json_object_get(ask.json, "known")));
}

static void a_part_that_is_away_makes_it_unready_and_alive(void **state)
{
    (void)state;
    server.imagined.stock.away = true;
    for (int i = 0; i < 300 && get("/readyz") != 503; i++)
        uv_sleep(10);
    assert_int_equal(get("/readyz"), 503);
    assert_int_equal(get("/livez"), 200);
    assert_int_equal(get("/admin/v1/explain/somebody?activity_id=life"), 200);
    assert_true(json_is_false(json_object_get(ask.json, "complete")));
    assert_int_equal(get("/admin/v1/activities/life/conservation"), 503);
    server.imagined.stock.away = false;
    server.imagined.books.away = true;
    assert_int_equal(get("/admin/v1/activities"), 503);
    assert_int_equal(post("/admin/v1/activities/life/pause", "{\"reason\":\"x\"}"), 503);
    assert_int_equal(get("/"), 200);
    server.imagined.books.away = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(health_is_told_apart), cmocka_unit_test(readiness_proves_the_use_of_each_part), cmocka_unit_test(readiness_names_what_was_not_judged),
        cmocka_unit_test(readiness_names_missing_buckets),
        cmocka_unit_test(what_is_not_there_is_not_found),
        cmocka_unit_test(a_bad_activity_is_refused_by_name),
        cmocka_unit_test(a_foreign_page_changes_and_reads_nothing),
        cmocka_unit_test(an_activity_goes_through_its_life),
        cmocka_unit_test(every_unit_is_accounted_for),
        cmocka_unit_test(what_nobody_knows_is_said_to_be_unknown),
        cmocka_unit_test(a_part_that_is_away_makes_it_unready_and_alive),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

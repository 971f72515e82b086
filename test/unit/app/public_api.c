/* SPDX-License-Identifier: Apache-2.0
 * The public API over HTTP, in front of the real core and the imagined engines, on one loop. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "await.h"
#include "control.h"
#include "http_client.h"
#include "imagine.h"
#include "metric.h"
#include "openapi_document.h"
#include "public_api.h"
#include "roles.h"
#include "payment.h"
#include "webhook.h"

extern const unsigned char openapi[];
extern const size_t openapi_size;

/* ---- a world with one sale -------------------------------------------------------------------------------------------------------- */

static struct {
    uv_loop_t loop;
    struct config config;
    struct sim_engines imagined;
    struct ports ports;
    struct roles *roles;
    struct http_client *client;
    struct controller *controller;
} w;

struct moving {
    struct control control;
    bool done;
};
static void on_moved(struct control *c) { container_of(c, struct moving, control)->done = true; }

static enum reason move_reason(enum activity_event event)
{
    struct moving m = {.control = {.activity = str_lit("act_t"), .event = event, .actor = str_lit("test"), .done = on_moved}};
    assert_true(control_start(w.controller, &m.control));
    assert_true(await_flag(&w.loop, &m.done, 5000));
    return m.control.reason;
}

static void move(enum activity_event event) { assert_int_equal(move_reason(event), REASON_OK); }

/* The processes' clock, put forward by hand: no test can wait two minutes. */
static struct {
    struct clock clock, *of;
    uint64_t ahead_us;
    int64_t wall_ahead_ms;    /* of the time of day alone */
} hasty;
static int64_t hasty_now_ms(struct clock *c) { return (void)c, clock_now_ms(hasty.of) + hasty.wall_ahead_ms; }
static uint64_t hasty_mono_us(struct clock *c) { return (void)c, clock_mono_us(hasty.of) + hasty.ahead_us; }
static void hasty_set(struct clock *c, struct alarm *a, uint64_t due_us) { (void)c, clock_set(hasty.of, a, due_us > hasty.ahead_us ? due_us - hasty.ahead_us : 0); }
static void hasty_unset(struct clock *c, struct alarm *a) { (void)c, clock_unset(hasty.of, a); }
static const struct clock_ops hasty_ops = {"hasty", hasty_now_ms, hasty_mono_us, hasty_set, hasty_unset};

struct terms {
    int64_t stock, starts_in_ms;
    unsigned roles;
    const char *jwt_keys;    /* NULL: auth.mode = none */
    bool closed;             /* not warm, not open */
    bool hasty;              /* the roles' clock is `hasty` */
};

static void create_as(const struct activity_create *ask)
{
    struct await a = AWAIT();
    ledger_activity_create(w.ports.ledger, ask, &a.waiter);
    assert_int_equal(await_run(&a, &w.loop), REASON_OK);
}

static void create(const struct terms *t)
{
    struct sku skus[] = {{.sku = str_lit("sku_a"), .stock = t->stock, .price = 100, .currency = str_lit("CNY")},
                         {.sku = str_lit("sku_b"), .stock = 1, .price = 200, .currency = str_lit("CNY")}};
    int64_t now = clock_now_ms(w.ports.clock);
    struct activity_create ask = {.actor = str_lit("test"),
        .activity = {.activity = str_lit("act_t"), .title = str_lit("Test"), .buckets = 1, .starts_ms = now + t->starts_in_ms, .ends_ms = now + t->starts_in_ms + 3600000,
                     .pay_timeout_s = 900, .skus = skus, .sku_count = 2}};
    create_as(&ask);
    w.controller = controller_new(w.ports.store, w.ports.ledger, w.ports.clock, 1, control_options_default());
    assert_non_null(w.controller);
    if (t->closed)
        return;
    move(ACTIVITY_EVENT_WARM);
    move(ACTIVITY_EVENT_OPEN);
}

#define WEBHOOK_KEY "whsec_YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzQ="

static void begin(struct terms t)
{
    char complaints[512], address[32];
    struct buf complaint = buf_fixed(complaints, sizeof complaints);
    struct config_flag flags[] = {{SETTING_http_listen, "127.0.0.1:0"}, {SETTING_auth_mode, t.jwt_keys ? "jwt" : "none"}, {SETTING_auth_jwt_keys, t.jwt_keys},
                                   {SETTING_ids_keys, "a-key-of-this-test-alone"}, {SETTING_ids_user_key, "another-of-this-test"}, {SETTING_qualification_keys, "t:a-third-of-this-test"},
                                   {SETTING_payment_webhook_keys, WEBHOOK_KEY}, {SETTING_admin_tokens, "an-admin-token-of-this-test"}};
    struct config_source source = {.flags = flags, .flag_count = t.jwt_keys ? countof(flags) : 2};
    memset(&w, 0, sizeof w);
    assert_int_equal(uv_loop_init(&w.loop), 0);
    if (config_load(&w.config, &source, &complaint) != CONFIG_GOOD)
        fail_msg(STR_FMT, STR_ARG(buf_str(&complaint)));
    imagine_ports(&w.imagined, &w.ports, &w.loop, 1);
    create(&t);
    hasty.of = w.ports.clock, hasty.clock.ops = &hasty_ops, hasty.ahead_us = 0, hasty.wall_ahead_ms = 0;
    if (t.hasty)
        w.ports.clock = &hasty.clock;
    struct roles_options options = {.config = &w.config, .ports = &w.ports, .which = t.roles ? t.roles : (ROLE_ACCESS | ROLE_ORDER | ROLE_RELAY)};
    w.roles = roles_open(&options, &complaint);
    assert_non_null(w.roles);
    snprintf(address, sizeof address, "127.0.0.1:%d", roles_public_port(w.roles));
    struct http_client_config k = {.connections_max = 64, .answer_max = 1 << 20};
    assert_true(address_parse(str_of(address), &k.address));
    w.client = http_client_open(&w.loop, &k);
    await_ms(&w.loop, 30);    /* the catalog is read, queues are leased */
}

static void end(void)
{
    http_client_close(w.client);
    roles_close(w.roles);
    controller_free(w.controller);
    w.ports.clock = hasty.of;
    ports_close(&w.ports);
    config_free(&w.config);
    ports_loop_end(&w.loop);
}

/* ---- asking ------------------------------------------------------------------------------------------------------------------------- */

struct asked {
    struct http_call call;
    struct buf request;
    bool done;
    enum http_outcome outcome;
    int status;
    char head[1024];    /* "name: value\n" each */
    json_t *json;
};

static void on_done(struct http_call *call, enum http_outcome outcome, const struct http_reply *reply)
{
    struct asked *a = container_of(call, struct asked, call);
    a->done = true;
    a->outcome = outcome;
    if (!reply)
        return;
    a->status = reply->status;
    struct buf head = buf_fixed(a->head, sizeof a->head - 1);
    for (size_t i = 0; i < reply->header_count; i++)
        buf_add_fmt(&head, STR_FMT ": " STR_FMT "\n", STR_ARG(reply->headers[i].name), STR_ARG(reply->headers[i].value));
    a->head[head.len] = 0;
    a->json = json_loadb(reply->body.len ? reply->body.ptr : "", reply->body.len, JSON_REJECT_DUPLICATES, NULL);
}

static void ask_begin(struct asked *a, const char *method, const char *target, const char *extra, const char *body)
{
    *a = (struct asked){.request = buf_growing(8192), .call = {.done = on_done, .timeout_ms = 30000}};
    http_request_write(&a->request, str_of(method), str_of(target), str_lit("h"), str_of(extra), str_lit("application/json"), str_of(body));
    a->call.request = buf_str(&a->request);
    assert_true(http_client_send(w.client, &a->call));
}

static void ask_end(struct asked *a)
{
    buf_free(&a->request);
    json_decref(a->json);
    a->json = NULL;
}

static struct asked last;
static const char *text(const char *key)
{
    const char *s = json_string_value(json_object_get(last.json, key));
    return s ? s : "";
}

/* Asks and waits; the answer stands in `last`. Gives the status. */
static int ask(const char *method, const char *target, const char *extra, const char *body)
{
    ask_end(&last);
    ask_begin(&last, method, target, extra, body);
    assert_true(await_flag(&w.loop, &last.done, 29000));
    assert_int_equal(last.outcome, HTTP_REPLIED);
    if (last.status >= 400) {    /* every error has the same shape */
        assert_non_null(strstr(last.head, "Content-Type: application/problem+json\n"));
        assert_int_equal(json_integer_value(json_object_get(last.json, "status")), last.status);
        enum reason code;
        assert_true(reason_parse(str_of(text("code")), &code));
        assert_true(text("title")[0] && text("detail")[0]);
        assert_int_equal(json_is_true(json_object_get(last.json, "retryable")), reason_fate(code) == FATE_RETRY);
        assert_int_equal(strstr(last.head, "Retry-After: ") != NULL, reason_fate(code) == FATE_RETRY);
    }
    return last.status;
}

static int buy(const char *user, const char *request, const char *sku)
{
    char body[256];
    snprintf(body, sizeof body, "{\"activity_id\":\"act_t\",\"sku_id\":\"%s\",\"request_id\":\"%s\",\"user_id\":\"%s\"}", sku, request, user);
    return ask("POST", "/v1/reservations", NULL, body);
}

__attribute__((format(printf, 1, 2))) static int get(const char *format, ...)
{
    char target[256];
    va_list args;
    va_start(args, format);
    vsnprintf(target, sizeof target, format, args);
    va_end(args);
    return ask("GET", target, NULL, NULL);
}

#define expect_code(status, expected_status, expected_code)    \
    do {                                                       \
        assert_int_equal(status, expected_status);             \
        assert_string_equal(text("code"), expected_code);      \
    } while (0)

/* User u asks for one of sku_a, request r; the name of his reservation. */
static void queued(char rsv[80])
{
    expect_code(buy("u", "r", "sku_a"), 202, "QUEUED");
    snprintf(rsv, 80, "%s", text("reservation_id"));
}

/* ---- the document -------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *method, *path;
} routes[] = {
#define ROUTE(symbol, method, path, text) {#method, path},
#include "route.def"
#undef ROUTE
};

static bool same_nocase(const char *a, const char *b) { return str_eq_nocase(str_of(a), str_of(b)); }

static void openapi_is_the_routes(void **state)
{
    (void)state;
    json_error_t error;
    json_t *doc = json_loadb((const char *)openapi, openapi_size, JSON_REJECT_DUPLICATES, &error), *operations;
    const char *path, *method;
    size_t described = 0;
    if (!doc)
        fail_msg("line %d: %s", error.line, error.text);
    assert_string_equal(json_string_value(json_object_get(doc, "openapi")), "3.1.0");
    json_object_foreach(json_object_get(doc, "paths"), path, operations) {
        json_t *operation;
        json_object_foreach(operations, method, operation) {
            bool ours = false;
            for (size_t i = 0; i < countof(routes); i++)
                ours |= same_nocase(routes[i].method, method) && strcmp(routes[i].path, path) == 0;
            if (!ours)
                fail_msg("%s %s is described, but is no route", method, path);
            assert_non_null(json_object_get(json_object_get(operation, "responses"), "200"));
            described++;
        }
    }
    assert_int_equal(described, countof(routes));
    json_decref(doc);
}

static json_t *schema(json_t *doc, const char *name)
{
    return json_object_get(json_object_get(json_object_get(json_object_get(doc, "components"), "schemas"), name), "enum");
}

/* Every member of an example is a property of its schema, and every required one is there. */
static void example_fits(const char *name, json_t *schema, json_t *example)
{
    const char *member;
    json_t *value, *required;
    size_t i;
    json_object_foreach(example, member, value)
        if (!json_object_get(json_object_get(schema, "properties"), member))
            fail_msg("%s: the example has %s, which is no property", name, member);
    json_array_foreach(json_object_get(schema, "required"), i, required)
        if (!json_object_get(example, json_string_value(required)))
            fail_msg("%s: the example lacks %s", name, json_string_value(required));
}

/* Every object that is sent or answered has an example, and user_id is required exactly where auth.mode makes it so. */
static void openapi_has_examples_and_requires_user_id_without_auth(void **state)
{
    (void)state;
    for (int none = 0; none < 2; none++) {
        struct buf text = buf_growing(256 * 1024);
        openapi_document_write(&text, none);
        json_t *doc = json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES, NULL), *one, *components = json_object_get(doc, "components");
        const char *name;
        size_t examples = 0;
        assert_non_null(doc);
        json_object_foreach(json_object_get(components, "schemas"), name, one) {
            if (!json_object_get(one, "properties"))
                continue;
            json_t *example = json_array_get(json_object_get(one, "examples"), 0);
            if (!example)
                fail_msg("%s has no example", name);
            example_fits(name, one, example);
            examples++;
        }
        assert_true(examples >= 8);
        json_t *required = json_object_get(json_object_get(json_object_get(components, "schemas"), "Reserve"), "required");
        assert_int_equal(json_array_size(required), none ? 4 : 3);
        assert_int_equal(json_is_true(json_object_get(json_object_get(json_object_get(components, "parameters"), "user_id"), "required")), none);
        json_decref(doc);
        buf_free(&text);
    }
}

static bool lists(json_t *list, const char *word)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
        if (strcmp(json_string_value(item), word) == 0)
            return true;
    return false;
}

static void openapi_knows_every_word(void **state)
{
    (void)state;
    json_t *doc = json_loadb((const char *)openapi, openapi_size, 0, NULL);
    size_t codes = 0;
    for (unsigned i = 0; i < REASON_COUNT; i++)
        if (reason_row(i)->http != 0) {
            if (!lists(schema(doc, "Code"), reason_word(i)))
                fail_msg("%s is an answer, but openapi.json does not list it", reason_word(i));
            codes++;
        }
    assert_int_equal(json_array_size(schema(doc, "Code")), codes);
    for (unsigned i = RESERVATION_NONE + 1; i < RESERVATION_STATE_COUNT; i++)
        assert_true(lists(schema(doc, "ReservationStatus"), reservation_state_name(i)));
    for (unsigned i = 0; i < ACTIVITY_STATE_COUNT; i++)
        assert_true(lists(schema(doc, "ActivityState"), activity_state_name(i)));
    json_decref(doc);
}

/* ---- refusals -------------------------------------------------------------------------------------------------------------------------- */

#define GOOD "{\"activity_id\":\"act_t\",\"sku_id\":\"sku_a\",\"request_id\":\"r\",\"user_id\":\"u\"}"

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *method, *target, *extra, *body;
        int status;
        const char *code;
    } rows[] = {
        {"GET", "/", NULL, NULL, 404, "NOT_FOUND"},
        {"GET", "/v1", NULL, NULL, 404, "NOT_FOUND"},
        {"GET", "/v1/orders/", NULL, NULL, 404, "NOT_FOUND"},
        {"GET", "/v1/orders/a/b", NULL, NULL, 404, "NOT_FOUND"},
        {"GET", "/v1/reservations", NULL, NULL, 405, "METHOD_NOT_ALLOWED"},
        {"DELETE", "/v1/reservations/rsv_1", NULL, NULL, 405, "METHOD_NOT_ALLOWED"},
        {"BREW", "/openapi.json", NULL, NULL, 405, "METHOD_NOT_ALLOWED"},
        {"POST", "/v1/reservations", NULL, NULL, 400, "INVALID_REQUEST"},
        {"POST", "/v1/reservations", NULL, "{}", 400, "INVALID_REQUEST"},
        {"POST", "/v1/reservations", NULL, "[]", 400, "INVALID_REQUEST"},
        {"POST", "/v1/reservations", NULL, GOOD "x", 400, "INVALID_REQUEST"},
        {"POST", "/v1/reservations", NULL, "{\"activity_id\":\"act_t\",\"sku_id\":\"sku_a\",\"request_id\":\"r\",\"user_id\":\"u\",\"more\":\"1\"}", 400, "INVALID_REQUEST"},
        {"POST", "/v1/reservations", NULL, "{\"activity_id\":\"act_t\",\"sku_id\":\"sku_a\",\"request_id\":\"r\",\"request_id\":\"r\",\"user_id\":\"u\"}", 400, "INVALID_REQUEST"},
        {"POST", "/v1/reservations", NULL, "{\"activity_id\":\"act_t\",\"sku_id\":\"sku_a\",\"request_id\":\"r\"}", 400, "INVALID_REQUEST"},
        {"POST", "/v1/reservations", NULL, "{\"activity_id\":\"act_t\",\"sku_id\":\"sku_a\",\"request_id\":1,\"user_id\":\"u\"}", 400, "INVALID_REQUEST"},
        {"POST", "/v1/reservations", NULL, "{\"activity_id\":\"act t\",\"sku_id\":\"sku_a\",\"request_id\":\"r\",\"user_id\":\"u\"}", 400, "INVALID_REQUEST"},
        {"POST", "/v1/reservations", "Idempotency-Key: other\r\n", GOOD, 400, "INVALID_REQUEST"},
        {"POST", "/v1/reservations", "Idempotency-Key:\r\n", GOOD, 400, "INVALID_REQUEST"},
        {"POST", "/v1/reservations", "Idempotency-Key: r\r\nIdempotency-Key: r\r\n", GOOD, 400, "INVALID_REQUEST"},
        {"POST", "/v1/reservations", NULL, "{\"activity_id\":\"act_no\",\"sku_id\":\"sku_a\",\"request_id\":\"r\",\"user_id\":\"u\"}", 404, "UNKNOWN_ACTIVITY"},
        {"POST", "/v1/reservations", NULL, "{\"activity_id\":\"act_t\",\"sku_id\":\"sku_no\",\"request_id\":\"r\",\"user_id\":\"u\"}", 404, "UNKNOWN_ACTIVITY"},
        {"GET", "/v1/activities/act_no", NULL, NULL, 404, "UNKNOWN_ACTIVITY"},
        {"GET", "/v1/reservations/rsv_1?user_id=u", NULL, NULL, 404, "NOT_FOUND"},
        {"GET", "/v1/reservations/%72sv_1?user_id=u", NULL, NULL, 404, "NOT_FOUND"},
        {"GET", "/v1/reservations/rsv_1", NULL, NULL, 400, "INVALID_REQUEST"},
        {"GET", "/v1/reservations/rsv_1?user_id=u&user_id=u", NULL, NULL, 400, "INVALID_REQUEST"},
        {"GET", "/v1/reservations/rsv_1?user_id=u%20", NULL, NULL, 400, "INVALID_REQUEST"},
        {"GET", "/v1/reservations/rsv_1?user_id=u&wait=26s", NULL, NULL, 400, "INVALID_REQUEST"},
        {"GET", "/v1/reservations/rsv_1?user_id=u&wait=", NULL, NULL, 400, "INVALID_REQUEST"},
        {"GET", "/v1/reservations/rsv_1?user_id=u&wait=-1s", NULL, NULL, 400, "INVALID_REQUEST"},
        {"GET", "/v1/reservations/rsv_1?user_id=u&wait=2m", NULL, NULL, 400, "INVALID_REQUEST"},
        {"GET", "/v1/reservations/rsv_1?user_id=u&wait=1s&wait=2s", NULL, NULL, 400, "INVALID_REQUEST"},
        {"GET", "/v1/reservations/rsv_1/events?user_id=u", NULL, NULL, 404, "NOT_FOUND"},
        {"GET", "/v1/requests/r?user_id=u", NULL, NULL, 400, "INVALID_REQUEST"},
        {"GET", "/v1/requests/r?user_id=u&activity_id=act_no", NULL, NULL, 404, "NOT_FOUND"},
        {"GET", "/v1/requests/r?user_id=u&activity_id=act_t", NULL, NULL, 404, "NOT_FOUND"},
        {"GET", "/v1/orders/ord_1?user_id=u", NULL, NULL, 404, "NOT_FOUND"},
    };
    begin((struct terms){.stock = 1});
    for (size_t i = 0; i < countof(rows); i++) {
        int status = ask(rows[i].method, rows[i].target, rows[i].extra, rows[i].body);
        if (status != rows[i].status || strcmp(text("code"), rows[i].code) != 0)
            fail_msg("row %zu, %s %s: %d %s (%s)", i, rows[i].method, rows[i].target, status, text("code"), text("detail"));
    }
    assert_int_equal(ask("DELETE", "/v1/reservations", NULL, NULL), 405);
    assert_non_null(strstr(last.head, "Allow: POST\n"));
    char large[6000];
    memset(large, ' ', sizeof large - 1);
    large[sizeof large - 1] = 0;
    expect_code(ask("POST", "/v1/reservations", NULL, large), 413, "PAYLOAD_TOO_LARGE");
    large[3000] = 0;
    expect_code(ask("POST", "/v1/reservations", NULL, large), 413, "PAYLOAD_TOO_LARGE");
    expect_code(ask("GET", "/v1/\x7f", NULL, NULL), 400, "INVALID_REQUEST");    /* the server's own no speaks our words */
    end();
}

/* ---- a purchase -------------------------------------------------------------------------------------------------------------------------- */

static void purchase(void **state)
{
    (void)state;
    char rsv[80], ord[80], expected[128];
    begin((struct terms){.stock = 3});
    assert_int_equal(ask("POST", "/v1/reservations", "Idempotency-Key: r\r\n", GOOD), 202);
    assert_string_equal(text("code"), "QUEUED");
    assert_string_equal(text("request_id"), "r");
    assert_true(json_integer_value(json_object_get(last.json, "poll_after_ms")) > 0);
    assert_null(strstr(last.head, "Idempotency-Replayed"));
    snprintf(rsv, sizeof rsv, "%s", text("reservation_id"));
    snprintf(expected, sizeof expected, "Location: /v1/reservations/%s\n", rsv);
    assert_non_null(strstr(last.head, expected));

    assert_int_equal(get("/v1/reservations/%s?user_id=u&wait=%s", rsv, "5s"), 200);
    assert_string_equal(text("status"), "ORDERED");
    assert_string_equal(text("reservation_id"), rsv);
    assert_string_equal(text("sku_id"), "sku_a");
    assert_null(json_object_get(last.json, "poll_after_ms"));
    snprintf(ord, sizeof ord, "%s", text("order_id"));

    assert_int_equal(get("/v1/requests/%s?activity_id=act_t&user_id=%s", "r", "u"), 200);
    assert_string_equal(text("reservation_id"), rsv);
    assert_int_equal(get("/v1/orders/%s?user_id=%s", ord, "u"), 200);
    assert_string_equal(text("order_id"), ord);
    assert_string_equal(text("status"), "CREATED");
    assert_string_equal(text("inventory_token_id"), "token_000001-1");
    assert_int_equal(json_integer_value(json_object_get(last.json, "amount")), 100);
    expect_code(get("/v1/orders/%s?user_id=%s", ord, "other"), 404, "NOT_FOUND");
    expect_code(get("/v1/reservations/%s?user_id=%s", rsv, "other"), 404, "NOT_FOUND");

    expect_code(buy("u", "r", "sku_a"), 200, "ORDERED");    /* a replay */
    assert_non_null(strstr(last.head, "Idempotency-Replayed: true\n"));
    assert_string_equal(text("reservation_id"), rsv);
    assert_string_equal(text("order_id"), ord);
    expect_code(buy("u", "r", "sku_b"), 422, "IDEMPOTENCY_CONFLICT");
    expect_code(buy("u", "r2", "sku_a"), 409, "ALREADY_PURCHASED");
    assert_string_equal(text("reservation_id"), rsv);
    assert_string_equal(text("request_id"), "r2");
    expect_code(buy("other", "r", "sku_a"), 202, "QUEUED");    /* the same request_id of another user is his own */
    end();
}

static void sold_out(void **state)
{
    (void)state;
    begin((struct terms){.stock = 2});
    expect_code(buy("u1", "r1", "sku_a"), 202, "QUEUED");
    expect_code(buy("u2", "r2", "sku_a"), 202, "QUEUED");
    for (int i = 0; i < 200; i++) {
        char user[16];
        snprintf(user, sizeof user, "v%d", i);
        expect_code(buy(user, "r", "sku_a"), 409, "SOLD_OUT");
        assert_string_equal(text("request_id"), "r");
    }
    assert_true(metric_read(METRIC_LOCAL_SOLD_OUT, 0) > 100);    /* most of them without asking the store */
    assert_int_equal(get("/v1/requests/r1?activity_id=act_t&user_id=u1&wait=5s"), 200);
    assert_string_equal(text("status"), "ORDERED");
    expect_code(buy("u1", "r1", "sku_a"), 200, "ORDERED");       /* a winner gets what he has, whatever the process thinks */
    expect_code(buy("u2", "r3", "sku_a"), 409, "ALREADY_PURCHASED");
    assert_int_equal(get("/v1/activities/act_t"), 200);
    json_t *skus = json_object_get(last.json, "skus");
    assert_int_equal(json_array_size(skus), 2);
    assert_true(json_is_true(json_object_get(json_array_get(skus, 0), "sold_out")));
    assert_true(json_is_false(json_object_get(json_array_get(skus, 1), "sold_out")));
    assert_string_equal(text("state"), "OPEN");
    end();
}

static void retry_after_follows_the_clock_of_the_bucket(void **state)
{
    (void)state;
    begin((struct terms){.stock = 2, .starts_in_ms = 60000, .hasty = true});
    hasty.wall_ahead_ms = 45000;    /* ours is ahead of the bucket's */
    expect_code(buy("u", "r", "sku_a"), 409, "NOT_STARTED");
    const char *after = strstr(last.head, "Retry-After: ");
    assert_non_null(after);
    assert_in_range(atoi(after + 13), 58, 60);
    end();
}

/* Redis loses everything; pausing and resuming the sale makes no bucket that would know nobody. */
static void a_lost_bucket_stays_closed_through_pause_and_resume(void **state)
{
    (void)state;
    char path[128];
    begin((struct terms){.stock = 5, .roles = ROLE_ACCESS | ROLE_ORDER | ROLE_RELAY});
    assert_true(buy("u", "r", "sku_a") < 300);
    assert_int_equal(get("/v1/requests/r?activity_id=act_t&user_id=u&wait=5s"), 200);
    assert_string_equal(text("status"), "ORDERED");
    snprintf(path, sizeof path, "/v1/reservations/%s?user_id=u", text("reservation_id"));
    sim_store_lose(&w.imagined.stock);
    assert_int_equal(move_reason(ACTIVITY_EVENT_PAUSE), REASON_DEPENDENCY_DOWN);    /* moved, and its bucket named */
    assert_int_equal(move_reason(ACTIVITY_EVENT_RESUME), REASON_DEPENDENCY_DOWN);
    await_ms(&w.loop, 500);    /* whatever would be pushed has been */
    for (int i = 0; i < 3; i++) {
        expect_code(buy("u", "another", "sku_a"), 503, "RESERVATION_PAUSED");    /* who has an order is not sold another */
        expect_code(buy("v", "r", "sku_a"), 503, "RESERVATION_PAUSED");
        await_ms(&w.loop, 120);
    }
    for (int i = 0; i < 50 && get("%s", path) != 200; i++)    /* a verdict so young that the store cannot be told is not shown */
        await_ms(&w.loop, 100);
    assert_string_equal(text("status"), "ORDERED");
    end();
}

static void windows_and_pauses(void **state)
{
    (void)state;
    begin((struct terms){.stock = 2, .starts_in_ms = 60000});
    expect_code(buy("u", "r", "sku_a"), 409, "NOT_STARTED");
    assert_int_equal(strlen(text("starts_at")), 24);
    const char *after = strstr(last.head, "Retry-After: ");
    assert_in_range(atoi(after + 13), 58, 60);
    end();
    begin((struct terms){.stock = 2, .closed = true});
    expect_code(buy("u", "r", "sku_a"), 409, "NOT_STARTED");
    end();
    begin((struct terms){.stock = 2});
    expect_code(buy("u", "r", "sku_a"), 202, "QUEUED");
    move(ACTIVITY_EVENT_PAUSE);
    expect_code(buy("v", "r", "sku_a"), 503, "RESERVATION_PAUSED");
    assert_true(buy("u", "r", "sku_a") < 300);    /* a replay works in a pause, and after the end */
    move(ACTIVITY_EVENT_CLOSE);
    expect_code(buy("v", "r", "sku_a"), 410, "ENDED");
    assert_true(buy("u", "r", "sku_a") < 300);
    end();
}

/* ---- the world misbehaves ------------------------------------------------------------------------------------------------------------------ */

#define TOOK_NOTHING "this request took nothing; an earlier request with the same request_id may hold a unit: send it again with the same request_id"
#define UNREAD "the state could not be read now, and a unit may be reserved: ask again, or send the reservation again with the same request_id"

#define expect_detail(status, expected_status, expected_code, expected_detail)    \
    do {                                                                          \
        expect_code(status, expected_status, expected_code);                      \
        assert_string_equal(text("detail"), expected_detail);                     \
    } while (0)

/* "Nothing was taken" is said of this request only, and by no call that reads. */
static void refusals_of_a_unit_holder_do_not_deny_the_unit(void **state)
{
    (void)state;
    char rsv[80], ord[80];
    begin((struct terms){.stock = 5, .roles = ROLE_ACCESS});
    queued(rsv);
    snprintf(ord, sizeof ord, "ord%s", rsv + 3);
    w.imagined.stock.away = w.imagined.books.away = true;
    expect_detail(buy("u", "r", "sku_a"), 503, "DEPENDENCY_DOWN", TOOK_NOTHING);
    expect_detail(get("/v1/reservations/%s?user_id=%s", rsv, "u"), 503, "DEPENDENCY_DOWN", UNREAD);
    expect_detail(get("/v1/reservations/%s?user_id=%s&wait=200ms", rsv, "u"), 503, "DEPENDENCY_DOWN", UNREAD);
    expect_detail(get("/v1/reservations/%s/events?user_id=%s", rsv, "u"), 503, "DEPENDENCY_DOWN", UNREAD);
    expect_detail(get("/v1/requests/r?activity_id=act_t&user_id=%s", "u"), 503, "DEPENDENCY_DOWN", UNREAD);
    expect_detail(get("/v1/orders/%s?user_id=%s", ord, "u"), 503, "DEPENDENCY_DOWN", "the order could not be read now: ask again");
    char target[160];
    snprintf(target, sizeof target, "/v1/orders/%s/cancel?user_id=u", ord);
    expect_detail(ask("POST", target, NULL, NULL), 503, "DEPENDENCY_DOWN", "whether the order is cancelled is not known now: ask again");
    w.imagined.stock.away = w.imagined.books.away = false;
    for (unsigned i = 0; i < REASON_COUNT; i++)    /* and no row's own words deny it */
        assert_null(strstr(reason_row(i)->text, "othing was taken"));
    end();
}

/* A token is demanded of new reservations only. */
static void a_replay_needs_no_token(void **state)
{
    (void)state;
    char rsv[80];
    static const char *const tokens[] = {NULL, "Seckill-Qualification: forged\r\n", "Seckill-Qualification: a\r\nSeckill-Qualification: b\r\n"};
    begin((struct terms){.stock = 5, .roles = ROLE_ACCESS});
    queued(rsv);
    w.imagined.books.books.activities[0]->qualification = true;
    await_ms(&w.loop, 1200);    /* the list of activities is read again */
    for (size_t i = 0; i < countof(tokens); i++) {
        expect_code(ask("POST", "/v1/reservations", tokens[i], GOOD), 202, "QUEUED");
        assert_string_equal(text("reservation_id"), rsv);
        assert_non_null(strstr(last.head, "Idempotency-Replayed: true\n"));
        int status = ask("POST", "/v1/reservations", tokens[i], "{\"activity_id\":\"act_t\",\"sku_id\":\"sku_a\",\"request_id\":\"r\",\"user_id\":\"v\"}");
        expect_detail(status, 403, "QUALIFICATION_INVALID",
                      tokens[i] ? "the token was not issued by us, or not for this user, activity and item" : "The qualification token does not allow this purchase.");
    }
    end();
}

static void engines_away(void **state)
{
    (void)state;
    char rsv[80];
    begin((struct terms){.stock = 5, .roles = ROLE_ACCESS});
    queued(rsv);
    w.imagined.stock.away = true;
    expect_code(buy("v", "r", "sku_a"), 503, "DEPENDENCY_DOWN");
    assert_int_equal(get("/v1/reservations/%s?user_id=%s", rsv, "u"), 503);    /* never "not found" */
    w.imagined.books.away = true;
    expect_code(get("/v1/requests/%s?activity_id=act_t&user_id=%s", "r", "u"), 503, "DEPENDENCY_DOWN");
    w.imagined.stock.away = w.imagined.books.away = false;
    w.imagined.broker.away = true;
    expect_code(buy("x", "r", "sku_a"), 202, "QUEUED");    /* the broker may come later */
    w.imagined.broker.away = false;
    w.imagined.store.calls.weather.answer_us = 3000000;    /* the store acts, and its answer comes too late */
    expect_code(buy("y", "r", "sku_a"), 202, "UNCERTAIN");
    assert_true(json_is_true(json_object_get(last.json, "retryable")));
    assert_non_null(strstr(last.head, "Retry-After: 1\n"));
    w.imagined.store.calls.weather.answer_us = 0;
    assert_int_equal(buy("y", "r", "sku_a"), 202);    /* the same request_id finds what was taken */
    assert_string_equal(text("code"), "QUEUED");
    assert_non_null(strstr(last.head, "Idempotency-Replayed: true\n"));
    end();
}

static void set_flag(void *flag) { *(bool *)flag = true; }

/* Reads what comes for `ms`, or until the server ends the connection: true. */
static bool hear(int fd, struct buf *heard, uint32_t ms)
{
    for (uint32_t t = 0; t < ms; t += 5) {
        char piece[4096];
        await_ms(&w.loop, 5);
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        if (n == 0)
            return true;
        if (n > 0)
            buf_add(heard, piece, (size_t)n);
    }
    return false;
}

/* A connection of its own, and a GET sent on it. */
static int send_get(const char *target)
{
    char line[512];
    struct address a;
    int n = snprintf(line, sizeof line, "127.0.0.1:%d", roles_public_port(w.roles));
    assert_true(address_parse((struct str){line, (size_t)n}, &a));
    int fd = address_connect(&a);
    assert_true(fd >= 0);
    await_ms(&w.loop, 5);
    n = snprintf(line, sizeof line, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);
    assert_int_equal(send(fd, line, (size_t)n, MSG_NOSIGNAL), n);
    return fd;
}

static int stream(const char *rsv, const char *user)
{
    char target[256];
    snprintf(target, sizeof target, "/v1/reservations/%s/events?user_id=%s", rsv, user);
    return send_get(target);
}

static void waits_and_leaves(void **state)
{
    (void)state;
    char rsv[80], target[160];
    begin((struct terms){.stock = 5, .roles = ROLE_ACCESS});    /* nobody consumes */
    queued(rsv);
    await_ms(&w.loop, 50);    /* the store hears that it is published */
    uint64_t began = clock_mono_us(w.ports.clock);
    assert_int_equal(get("/v1/reservations/%s?user_id=u&wait=%s", rsv, "400ms"), 200);
    assert_in_range(clock_mono_us(w.ports.clock) - began, 390000, 2000000);
    assert_string_equal(text("status"), "PUBLISHED");
    assert_true(json_integer_value(json_object_get(last.json, "poll_after_ms")) > 0);

    struct asked held;
    uint64_t gone = metric_read(METRIC_HTTP_REQUESTS, REASON_CANCELLED);
    snprintf(target, sizeof target, "/v1/reservations/%s?user_id=u&wait=20s", rsv);
    held = (struct asked){0};
    int left = send_get(target);    /* the client breaks the connection off */
    await_ms(&w.loop, 50);
    struct linger hard = {.l_onoff = 1};
    setsockopt(left, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(left);
    await_ms(&w.loop, 50);
    assert_int_equal(metric_read(METRIC_HTTP_REQUESTS, REASON_CANCELLED), gone + 1);

    char half[160];    /* the client only sends no more: it is told all the same, in its time */
    struct buf told = buf_growing(1 << 16);
    snprintf(half, sizeof half, "/v1/reservations/%s?user_id=u&wait=300ms", rsv);
    int fd = send_get(half);
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 20 && !hear(fd, &told, 100); i++)
        ;
    buf_add_char(&told, 0);
    assert_non_null(strstr(told.ptr, "HTTP/1.1 200 "));
    assert_non_null(strstr(told.ptr, "\"status\":\"PUBLISHED\""));
    assert_int_equal(metric_read(METRIC_HTTP_REQUESTS, REASON_CANCELLED), gone + 1);
    buf_free(&told);
    close(fd);

    char escaped[256];    /* escapes that mean the same decoded */
    snprintf(escaped, sizeof escaped, "/v1/reservations/%.3s%%5F%s?user%%5Fid=%%75", rsv, rsv + 4);
    assert_int_equal(ask("GET", escaped, NULL, NULL), 200);
    snprintf(escaped, sizeof escaped, "/v1/reservations/%.3s%%255F%s?user_id=u", rsv, rsv + 4);
    assert_int_equal(ask("GET", escaped, NULL, NULL), 404);
    snprintf(escaped, sizeof escaped, "/v1/reservations/%s%%2Fevents?user_id=u", rsv);
    expect_code(ask("GET", escaped, NULL, NULL), 400, "INVALID_REQUEST");

    ask_begin(&held, "GET", target, NULL, NULL);    /* and one who is there when everything ends */
    await_ms(&w.loop, 50);
    bool drained = false;
    roles_drain(w.roles, 5000, set_flag, &drained);
    assert_true(await_flag(&w.loop, &held.done, 4000));
    assert_int_equal(held.status, 200);
    assert_non_null(strstr(held.head, "Connection: close\n"));
    ask_end(&held);
    assert_true(await_flag(&w.loop, &drained, 4000));
    end();
}

/* ---- event streams ------------------------------------------------------------------------------------------------------------------------- */

static size_t times(const struct buf *in, const char *what)
{
    size_t n = 0, len = strlen(what);
    for (size_t i = 0; i + len <= in->len; i++)
        n += memcmp(in->ptr + i, what, len) == 0;
    return n;
}

static void streams(void **state)
{
    (void)state;
    char rsv[80];
    struct buf heard = buf_growing(1 << 16);
    begin((struct terms){.stock = 5, .roles = ROLE_ACCESS});
    queued(rsv);
    int fd = stream(rsv, "u");
    assert_false(hear(fd, &heard, 100));
    assert_int_equal(times(&heard, "Content-Type: text/event-stream"), 1);
    assert_int_equal(times(&heard, "id: 1\nevent: status\ndata: {"), 1);
    assert_int_equal(times(&heard, "\"status\":\"PUBLISHED\""), 1);

    struct ports *p = &w.ports;    /* now somebody consumes */
    struct roles_options consumer = {.config = &w.config, .ports = p, .which = ROLE_ORDER | ROLE_RELAY};
    struct buf complaint = {0};
    struct roles *others = roles_open(&consumer, &complaint);
    assert_non_null(others);
    assert_false(hear(fd, &heard, 3000));    /* the connection stays, the stream has ended */
    assert_int_equal(times(&heard, "event: status"), 2);
    assert_int_equal(times(&heard, "\"status\":\"ORDERED\""), 1);
    assert_int_equal(times(&heard, "0\r\n\r\n"), 1);
    roles_close(others);

    buf_reset(&heard);
    int other = stream(rsv, "other");
    hear(other, &heard, 50);
    assert_int_equal(times(&heard, "HTTP/1.1 404 "), 1);
    close(fd), close(other);
    buf_free(&heard);
    end();
}

static void streams_end_with_the_process(void **state)
{
    (void)state;
    char rsv[80];
    struct buf heard = buf_growing(1 << 16);
    begin((struct terms){.stock = 5, .roles = ROLE_ACCESS});
    queued(rsv);
    int gone = stream(rsv, "u"), drained = stream(rsv, "u"), cut;
    assert_false(hear(drained, &heard, 100));
    uint64_t before = metric_read(METRIC_HTTP_REQUESTS, REASON_CANCELLED);
    close(gone);
    await_ms(&w.loop, 20);
    assert_int_equal(metric_read(METRIC_HTTP_REQUESTS, REASON_CANCELLED), before + 1);
    cut = stream(rsv, "u");
    await_ms(&w.loop, 50);
    bool done = false;
    roles_drain(w.roles, 5000, set_flag, &done);
    assert_true(hear(drained, &heard, 4000));
    assert_int_equal(times(&heard, "0\r\n\r\n"), 1);
    close(drained);
    end();    /* and one is cut in the middle */
    close(cut);
    buf_free(&heard);
}

/* Two minutes; then it ends in good order, and whoever comes again is told at once where things stand. */
static void a_stream_has_an_end(void **state)
{
    (void)state;
    char rsv[80];
    struct buf heard = buf_growing(1 << 16);
    begin((struct terms){.stock = 5, .roles = ROLE_ACCESS, .hasty = true});
    queued(rsv);
    int fd = stream(rsv, "u");
    assert_false(hear(fd, &heard, 100));
    hasty.ahead_us = 110000000;
    assert_false(hear(fd, &heard, 2500));
    assert_int_equal(times(&heard, "event: status"), 1);
    assert_true(times(&heard, "\r\n:\n\n") >= 1);    /* a sign of life now and then */
    assert_int_equal(times(&heard, "0\r\n\r\n"), 0);
    hasty.ahead_us = 121000000;
    for (int i = 0; i < 20 && times(&heard, "0\r\n\r\n") == 0; i++)
        hear(fd, &heard, 200);
    assert_int_equal(times(&heard, "0\r\n\r\n"), 1);
    assert_int_equal(times(&heard, "event: status"), 1);
    buf_reset(&heard);
    int again = stream(rsv, "u");
    hear(again, &heard, 200);
    assert_int_equal(times(&heard, "event: status"), 1);
    close(fd), close(again);
    buf_free(&heard);
    end();
}

/* ---- tokens --------------------------------------------------------------------------------------------------------------------------------- */

static void base64(struct buf *out, const void *bytes, size_t n)
{
    unsigned char coded[4096];
    int len = EVP_EncodeBlock(coded, bytes, (int)n);
    for (int i = 0; i < len && coded[i] != '='; i++)
        buf_add_char(out, coded[i] == '+' ? '-' : coded[i] == '/' ? '_' : (char)coded[i]);
}

/* "Authorization: Bearer <token>\r\n", signed with `secret`. */
static const char *bearer(const char *header, const char *claims, const char *secret)
{
    static char line[5120];
    unsigned char mac[32];
    unsigned n = 0;
    struct buf b = buf_fixed(line, sizeof line - 1);
    buf_add_fmt(&b, "Authorization: Bearer ");
    size_t start = b.len;
    base64(&b, header, strlen(header));
    buf_add_char(&b, '.');
    base64(&b, claims, strlen(claims));
    assert_non_null(HMAC(EVP_sha256(), secret, (int)strlen(secret), (unsigned char *)line + start, b.len - start, mac, &n));
    buf_add_char(&b, '.');
    base64(&b, mac, n);
    buf_add_fmt(&b, "\r\n");
    assert_true(buf_ok(&b));
    line[b.len] = 0;
    return line;
}

#define KEY1 "sixteen-bytes-or-more"
#define KEY2 "another-secret-of-ours"
#define HS256 "{\"alg\":\"HS256\",\"kid\":\"k1\"}"

static void tokens(void **state)
{
    (void)state;
    static const struct {
        const char *name, *header, *claims, *secret, *user;
        int status;
    } rows[] = {    /* %d: now + 60 s */
        {"good", HS256, "{\"sub\":\"alice\",\"exp\":%d}", KEY1, NULL, 202},
        {"good, named in the body too", HS256, "{\"sub\":\"bob\",\"exp\":%d}", KEY1, "bob", 202},
        {"second key", "{\"alg\":\"HS256\",\"kid\":\"k2\"}", "{\"sub\":\"carol\",\"exp\":%d}", KEY2, NULL, 202},
        {"somebody else is named", HS256, "{\"sub\":\"alice\",\"exp\":%d}", KEY1, "bob", 403},
        {"wrong key", HS256, "{\"sub\":\"alice\",\"exp\":%d}", KEY2, NULL, 401},
        {"unknown kid", "{\"alg\":\"HS256\",\"kid\":\"k3\"}", "{\"sub\":\"alice\",\"exp\":%d}", KEY1, NULL, 401},
        {"no kid", "{\"alg\":\"HS256\"}", "{\"sub\":\"alice\",\"exp\":%d}", KEY1, NULL, 202},
        {"alg none", "{\"alg\":\"none\",\"kid\":\"k1\"}", "{\"sub\":\"alice\",\"exp\":%d}", KEY1, NULL, 401},
        {"alg RS256", "{\"alg\":\"RS256\",\"kid\":\"k1\"}", "{\"sub\":\"alice\",\"exp\":%d}", KEY1, NULL, 401},
        {"crit", "{\"alg\":\"HS256\",\"kid\":\"k1\",\"crit\":[\"x\"]}", "{\"sub\":\"alice\",\"exp\":%d}", KEY1, NULL, 401},
        {"header twice", "{\"alg\":\"none\",\"alg\":\"HS256\",\"kid\":\"k1\"}", "{\"sub\":\"alice\",\"exp\":%d}", KEY1, NULL, 401},
        {"expired", HS256, "{\"sub\":\"alice\",\"exp\":1000}", KEY1, NULL, 401},
        {"no end", HS256, "{\"sub\":\"alice\"}", KEY1, NULL, 401},
        {"not yet", HS256, "{\"sub\":\"alice\",\"exp\":%d,\"nbf\":9999999999}", KEY1, NULL, 401},
        {"no user", HS256, "{\"exp\":%d}", KEY1, NULL, 401},
        {"user is no id", HS256, "{\"sub\":\"a b\",\"exp\":%d}", KEY1, NULL, 202},
        {"claims are no object", HS256, "[]", KEY1, NULL, 401},
    };
    begin((struct terms){.stock = 50, .jwt_keys = "k1:" KEY1 ", k2:" KEY2});
    for (size_t i = 0; i < countof(rows); i++) {
        char claims[256], body[256];
        const char *mark = strstr(rows[i].claims, "%d");
        snprintf(claims, sizeof claims, "%s", rows[i].claims);
        if (mark)
            snprintf(claims, sizeof claims, "%.*s%lld%s", (int)(mark - rows[i].claims), rows[i].claims, (long long)clock_now_ms(w.ports.clock) / 1000 + 60, mark + 2);
        snprintf(body, sizeof body, "{\"activity_id\":\"act_t\",\"sku_id\":\"sku_a\",\"request_id\":\"r\"%s%s%s}", rows[i].user ? ",\"user_id\":\"" : "",
                 rows[i].user ? rows[i].user : "", rows[i].user ? "\"" : "");
        int status = ask("POST", "/v1/reservations", bearer(rows[i].header, claims, rows[i].secret), body);
        if (status != rows[i].status)
            fail_msg("%s: %d %s (%s)", rows[i].name, status, text("code"), text("detail"));
        assert_int_equal(strstr(last.head, "WWW-Authenticate: Bearer\n") != NULL, status == 401);
    }
    expect_code(ask("POST", "/v1/reservations", NULL, GOOD), 401, "UNAUTHENTICATED");
    expect_code(ask("POST", "/v1/reservations", "Authorization: Basic dTpw\r\n", GOOD), 401, "UNAUTHENTICATED");
    expect_code(ask("POST", "/v1/reservations", "Authorization: Bearer a.b\r\n", GOOD), 401, "UNAUTHENTICATED");
    expect_code(ask("POST", "/v1/reservations", "Authorization: Bearer !.!.!\r\n", GOOD), 401, "UNAUTHENTICATED");
    expect_code(ask("GET", "/v1/orders/ord_1?user_id=u", NULL, NULL), 401, "UNAUTHENTICATED");
    assert_int_equal(ask("GET", "/v1/activities/act_t", NULL, NULL), 200);    /* what everybody may know */
    end();
}

/* A token may be long, for others write their own things into it: it leaves the memory of its request as it was. */
static void a_long_token_and_an_order(void **state)
{
    (void)state;
    char claims[3000], other[2600], order[80], target[128];
    begin((struct terms){.stock = 1, .jwt_keys = "k1:" KEY1});
    memset(other, 'x', sizeof other - 1);
    other[sizeof other - 1] = 0;
    snprintf(claims, sizeof claims, "{\"sub\":\"alice\",\"exp\":%lld,\"groups\":\"%s\"}", (long long)clock_now_ms(w.ports.clock) / 1000 + 60, other);
    const char *long_one = bearer(HS256, claims, KEY1);
    assert_int_equal(ask("POST", "/v1/reservations", long_one, "{\"activity_id\":\"act_t\",\"sku_id\":\"sku_a\",\"request_id\":\"r\"}"), 202);
    snprintf(target, sizeof target, "/v1/reservations/%s?wait=5s", text("reservation_id"));
    assert_int_equal(ask("GET", target, long_one, NULL), 200);
    snprintf(order, sizeof order, "%s", text("order_id"));
    snprintf(target, sizeof target, "/v1/orders/%s", order);
    assert_int_equal(ask("GET", target, long_one, NULL), 200);
    assert_string_equal(text("order_id"), order);
    end();
}

static void strangers_need_tokens(void **state)
{
    (void)state;
    begin((struct terms){.stock = 1});
    struct desk desk = {.clock = w.ports.clock};
    struct public_options options = {.config = &w.config, .desk = &desk};
    int error = 0;
    assert_true(address_parse(str_lit("0.0.0.0:0"), &options.listen));
    assert_null(public_api_open(&w.loop, &options, &error));
    assert_int_equal(error, -EPERM);
    end();
}

static void an_activity_just_made_is_known_to_whoever_asks(void **state)
{
    (void)state;
    begin((struct terms){.stock = 1});
    await_ms(&w.loop, 300);    /* the list was read a while ago, and is not yet due again */
    struct sku sku = {.sku = str_lit("sku_new"), .stock = 1, .price = 100, .currency = str_lit("CNY")};
    int64_t now = clock_now_ms(w.ports.clock);
    create_as(&(struct activity_create){.actor = str_lit("test"), .activity = {.activity = str_lit("act_new"), .title = str_lit("New"), .buckets = 1,
        .starts_ms = now, .ends_ms = now + 3600000, .pay_timeout_s = 900, .skus = &sku, .sku_count = 1}});
    assert_int_equal(get("/v1/activities/act_new"), 200);
    assert_string_equal(text("state"), "DRAFT");
    expect_code(get("/v1/activities/act_never"), 404, "UNKNOWN_ACTIVITY");
    end();
}

/* ---- callbacks of a payment channel ------------------------------------------------------------------------------------------------------- */

static void order_placed(char order[80])
{
    char rsv[80];
    queued(rsv);
    assert_int_equal(get("/v1/reservations/%s?user_id=u&wait=5s", rsv), 200);
    snprintf(order, 80, "%s", text("order_id"));
}

/* A callback signed under our own key, `age_s` seconds ago. */
static int call_back(const char *webhook, int64_t age_s, struct str body)
{
    char headers[512], signature[64];
    struct buf b = buf_fixed(headers, sizeof headers - 1), s = buf_fixed(signature, sizeof signature);
    int64_t at_s = clock_now_ms(w.ports.clock) / 1000 - age_s;
    assert_true(webhook_sign(w.config.payment_webhook_keys, str_of(webhook), at_s, body, &s));
    buf_add_fmt(&b, "webhook-id: %s\r\nwebhook-timestamp: %lld\r\nwebhook-signature: " STR_FMT "\r\n", webhook, (long long)at_s, STR_ARG(buf_str(&s)));
    headers[b.len] = 0;
    ask_end(&last);
    last = (struct asked){.request = buf_growing(1 << 18), .call = {.done = on_done, .timeout_ms = 30000}};
    http_request_write(&last.request, str_lit("POST"), str_lit("/v1/payments/callbacks"), str_lit("h"), str_of(headers), str_lit("application/json"), body);
    last.call.request = buf_str(&last.request);
    assert_true(http_client_send(w.client, &last.call));
    assert_true(await_flag(&w.loop, &last.done, 29000));
    return last.status;
}

static int pays(const char *order, const char *payment, const char *more)
{
    static char body[80000];
    int n = snprintf(body, sizeof body, "{\"payment_id\":\"%s\",\"order_id\":\"%s\",\"result\":\"SUCCESS\",\"amount\":100,\"currency\":\"CNY\",\"channel\":\"c\",\"occurred_at\":\"2026-12-01T08:00:00Z\"%s}",
                     payment, order, more);
    return call_back(payment, 0, (struct str){body, (size_t)n});
}

struct counted {
    size_t count, body;
    enum review_kind kind;
};
static void keep_counted(struct await *a, const void *result)
{
    const struct reviews_answer *r = result;
    *(struct counted *)a->into = (struct counted){r->open, r->count > 0 ? r->reviews[0].body.len : 0, r->count > 0 ? r->reviews[0].kind : REVIEW_MESSAGE};
}
static struct counted open_reviews(void)
{
    struct counted c = {0};
    struct await a = AWAIT(.keep = keep_counted, .into = &c);
    ledger_reviews(w.ports.ledger, &(struct reviews_ask){.limit = 10}, &a.waiter);
    assert_int_equal(await_run(&a, &w.loop), REASON_OK);
    return c;
}

/* Whatever is correctly signed is recorded: as a payment, or for an operator. */
static void callbacks_are_recorded_or_reviewed(void **state)
{
    (void)state;
    static char more[70000];
    char order[80];
    begin((struct terms){.stock = 4});
    order_placed(order);
    memset(more, 'x', sizeof more);
    memcpy(more, ",\"note\":\"", 9);
    snprintf(more + 60000, 100, "\",\"half\":\"\\ud800\",\"zero\":\"\\u0000\",\"deep\":[[[[[[[[[[1]]]]]]]]]]");
    expect_code(pays(order, "p1", more), 200, "PAYMENT_APPLIED");
    assert_int_equal(open_reviews().count, 0);
    static const char *const odd[] = {"not json", "{", "[]", "{\"payment_id\":7}", "\xff\xfe", "{\"payment_id\":\"p\",\"order_id\":\"o\",\"result\":\"SUCCESS\"}"};
    for (size_t i = 0; i < countof(odd); i++)
        for (int again = 0; again < 2; again++) {
            expect_code(call_back("odd", 0, str_of(odd[i])), 200, "PAYMENT_QUARANTINED");
            struct counted c = open_reviews();
            assert_true(c.count == i + 1 && c.kind == REVIEW_CALLBACK);    /* the same again is the same review */
        }
    uint64_t late = metric_read(METRIC_CALLBACKS_LATE, 0);
    expect_code(call_back("late", 299, str_lit("{}")), 200, "PAYMENT_QUARANTINED");
    expect_code(call_back("late", 302, str_lit("{}")), 401, "SIGNATURE_INVALID");
    assert_non_null(strstr(text("detail"), "payment.webhook_tolerance_s"));
    expect_code(call_back("late", -302, str_lit("{}")), 401, "SIGNATURE_INVALID");
    assert_int_equal(metric_read(METRIC_CALLBACKS_LATE, 0) - late, 2);
    assert_int_equal(ask("POST", "/v1/payments/callbacks", NULL, "{}"), 401);
    assert_int_equal(metric_read(METRIC_CALLBACKS_LATE, 0) - late, 2);    /* a forged one is not late */
    w.config.payment_webhook_tolerance_s = 3600;
    expect_code(call_back("late", 3599, str_lit("{}")), 200, "PAYMENT_QUARANTINED");
    assert_int_equal(call_back("large", 0, (struct str){more, PAYMENT_BODY_MAX}), 200);
    static char larger[PAYMENT_BODY_MAX + 1];
    memset(larger, 'x', sizeof larger);
    expect_code(call_back("larger", 0, (struct str){larger, sizeof larger}), 413, "PAYLOAD_TOO_LARGE");
    more[5000] = 0;
    expect_code(ask("POST", "/v1/reservations", NULL, more), 413, "PAYLOAD_TOO_LARGE");    /* the others have the limit that they had */
    end();
}

/* Bounds: 64 refunds of an order are shown, and that there are more is said. */
static void refunds_of_an_order_and_the_mark_of_more(void **state)
{
    (void)state;
    char order[80], payment[72];
    begin((struct terms){.stock = 4});
    order_placed(order);
    expect_code(pays(order, "p", ""), 200, "PAYMENT_APPLIED");
    for (int i = 1; i <= 66; i++) {
        snprintf(payment, sizeof payment, "payment_with_a_long_name_%039d", i);
        expect_code(pays(order, payment, ""), 200, "PAYMENT_EXTRA");
        if (i != 29 && i != 64 && i != 65 && i != 66)
            continue;
        assert_int_equal(get("/v1/orders/%s?user_id=u", order), 200);
        assert_int_equal(json_array_size(json_object_get(last.json, "refunds")), i < 64 ? i : 64);
        assert_int_equal(json_is_true(json_object_get(last.json, "refunds_truncated")), i > 64);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openapi_is_the_routes), cmocka_unit_test(openapi_knows_every_word), cmocka_unit_test(openapi_has_examples_and_requires_user_id_without_auth), cmocka_unit_test(refusals), cmocka_unit_test(purchase),
        cmocka_unit_test(sold_out), cmocka_unit_test(windows_and_pauses), cmocka_unit_test(a_lost_bucket_stays_closed_through_pause_and_resume), cmocka_unit_test(retry_after_follows_the_clock_of_the_bucket), cmocka_unit_test(refusals_of_a_unit_holder_do_not_deny_the_unit), cmocka_unit_test(a_replay_needs_no_token), cmocka_unit_test(engines_away), cmocka_unit_test(waits_and_leaves),
        cmocka_unit_test(streams), cmocka_unit_test(streams_end_with_the_process), cmocka_unit_test(a_stream_has_an_end), cmocka_unit_test(tokens), cmocka_unit_test(a_long_token_and_an_order), cmocka_unit_test(strangers_need_tokens),
        cmocka_unit_test(an_activity_just_made_is_known_to_whoever_asks),
        cmocka_unit_test(callbacks_are_recorded_or_reviewed), cmocka_unit_test(refunds_of_an_order_and_the_mark_of_more),
    };
    return cmocka_run_group_tests_name("public_api", tests, NULL, NULL);
}

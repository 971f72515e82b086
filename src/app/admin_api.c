/* SPDX-License-Identifier: Apache-2.0
 * admin_api.c: a table of routes, one small function each. An exchange that waits for a part keeps what it asks in its own arena; it is answered
 * exactly once, also when nobody listens any more. */
#include "admin_api.h"

#include <stdio.h>
#include <stdlib.h>

#include "activity_json.h"
#include "admin_guard.h"
#include "admin_page.h"
#include "check.h"
#include "killpoint.h"
#include "conservation.h"
#include "control.h"
#include "explain.h"
#include "json.h"
#include "metric_names.h"
#include "problem.h"
#include "review.h"
#include "version.h"

#define JSON_TYPE "application/json"
#define TEXT_TYPE "text/plain; charset=utf-8"
#define BODY_MAX 65536
#define ANSWER_MAX (4 * 1024 * 1024)
#define CALL_MS 5000
#define MOVES_MAX 4
#define DEEP_MAX 2        /* counts and explanations under way at once: each takes memory of its own */

struct admin_api {
    struct admin_options options;
    struct http_server *server;
    struct controller *controller;
    size_t deep;
};

/* What an exchange waits with. */
struct admin_op {
    struct http_exchange *x;
    struct admin_api *api;
    struct waiter waiter;
    struct str id;                /* from the path */
    bool page;
    uint16_t limit;               /* of a list; 0: it has no pages */
    union {
        struct control control;
        struct conservation conservation;
        struct explain explain;
        struct review_resolving resolving;
    };
};

static struct admin_op *op_new(struct http_exchange *x)
{
    struct admin_op *op = arena_take(&x->arena, sizeof *op);
    check(op != NULL);    /* the arena of an exchange is made to hold one */
    op->x = x;
    op->api = x->owner;
    op->waiter.budget_ms = CALL_MS;
    return op;
}

static void refuse(struct http_exchange *x, enum reason code, struct str detail) { problem_answer(x, &(struct problem){.code = code, .detail = detail}); }

/* A part's reason as an answer of HTTP. */
static enum reason as_answer(enum reason reason)
{
    if (reason_row(reason)->http != 0)
        return reason;
    enum fate fate = reason_fate(reason);
    return fate == FATE_RETRY || fate == FATE_UNKNOWN ? REASON_DEPENDENCY_DOWN : REASON_INTERNAL;
}

static void answer_json(struct http_exchange *x, int status, struct buf *body)
{
    if (buf_ok(body))
        http_answer(x, status, str_lit(JSON_TYPE), buf_str(body), (struct str){0});
    else
        refuse(x, REASON_INTERNAL, str_lit("the answer is too long"));
    buf_free(body);
}

/* ---- health, metrics, version --------------------------------------------------------------------------------------------------- */

/* Each exclude=NAME of the query, with commas between them; what does not fit into the buffer is not excluded. */
static void collect_excludes(struct str query, struct buf *out)
{
    const struct str key = str_lit("exclude=");
    for (size_t at = 0; at < query.len;) {
        const char *next = memchr(query.ptr + at, '&', query.len - at);
        size_t end = next ? (size_t)(next - query.ptr) : query.len;
        struct str pair = {query.ptr + at, end - at};
        if (str_starts(pair, key) && out->len + pair.len < out->cap) {
            buf_add_str(out, (struct str){pair.ptr + key.len, pair.len - key.len});
            buf_add_char(out, ',');
        }
        at = end + 1;
    }
}

static void answer_health(struct http_exchange *x, enum health_question q)
{
    struct admin_api *a = x->owner;
    char memory[4096], names[512];
    struct buf lines = buf_fixed(memory, sizeof memory), exclude = buf_fixed(names, sizeof names);
    collect_excludes(x->request->query, &exclude);
    bool good = health_says(a->options.health, q, buf_str(&exclude), &lines);
    struct str verbose = http_query(x->request, str_lit("verbose"), NULL);
    struct str body = verbose.ptr ? buf_str(&lines) : good ? str_lit("ok\n") : str_lit("not ok\n");
    http_answer(x, good ? 200 : 503, str_lit(TEXT_TYPE), body, str_lit("Cache-Control: no-store\r\n"));
}

static void answer_livez(struct http_exchange *x, struct str id) { (void)id, answer_health(x, HEALTH_LIVE); }
static void answer_readyz(struct http_exchange *x, struct str id) { (void)id, answer_health(x, HEALTH_READY); }
static void answer_startupz(struct http_exchange *x, struct str id) { (void)id, answer_health(x, HEALTH_STARTED); }

static void answer_metrics(struct http_exchange *x, struct str id)
{
    struct buf out = buf_growing(ANSWER_MAX);
    (void)id;
    metric_expose(&out, ((struct admin_api *)x->owner)->options.roles, metric_names);
    check(buf_ok(&out));
    http_answer(x, 200, str_lit("text/plain; version=0.0.4; charset=utf-8"), buf_str(&out), (struct str){0});
    buf_free(&out);
}

static void answer_version(struct http_exchange *x, struct str id)
{
    struct buf out = buf_growing(4096);
    (void)id;
    version_json(&out);
    answer_json(x, 200, &out);
}

/* What this process was started with: others may compare it with a plan. Secrets are hidden as in `check-config`. */
static void answer_settings(struct http_exchange *x, struct str id)
{
    struct admin_api *a = x->owner;
    struct buf out = buf_growing(ANSWER_MAX), text = buf_growing(32 * 1024);
    (void)id;
    json_open(&out);
    json_member_text(&out, "version", VERSION_TEXT);
    json_member_text(&out, "roles", a->options.config->roles);
    json_key(&out, "settings");
    json_open(&out);
    for (unsigned s = 0; s < SETTING_COUNT; s++) {
        buf_reset(&text);
        config_show(a->options.config, (enum setting)s, &text);
        json_member_str(&out, setting_row((enum setting)s)->key, buf_str(&text));
    }
    json_close(&out);
    json_close(&out);
    buf_free(&text);
    answer_json(x, 200, &out);
}

/* ---- activities ------------------------------------------------------------------------------------------------------------------- */

static void created(struct waiter *w, enum reason reason, const void *result)
{
    struct admin_op *op = container_of(w, struct admin_op, waiter);
    if (reason != REASON_OK)
        return refuse(op->x, as_answer(reason), reason == REASON_CONFLICT ? str_lit("an activity of this id exists with other terms") : (struct str){0});
    KILLPOINT(CREATE_ANSWERED);
    struct buf out = buf_growing(ANSWER_MAX);
    activity_write(&out, result);
    answer_json(op->x, 201, &out);
}

static void answer_create(struct http_exchange *x, struct str id)
{
    struct admin_op *op = op_new(x);
    struct activity_create ask = {.actor = str_lit("admin api")};
    struct str complaint = {0};
    (void)id;
    if (!activity_read(x->request->body, (uint8_t)op->api->options.config->activity_buckets, &x->arena, &ask.activity, &ask.note, &complaint))
        return refuse(x, REASON_INVALID_REQUEST, complaint);
    op->waiter.wake = created;
    op->waiter.budget_ms = 60000;    /* a row for every unit */
    ledger_activity_create(op->api->options.ports->ledger, &ask, &op->waiter);
    KILLPOINT(CREATE_ASKED);
}

/* `next`, where there may be more: the number to ask for as ?after= . */
static void write_list(struct buf *out, const struct activities_answer *answer, unsigned limit)
{
    json_open(out);
    json_key(out, "activities");
    json_open_array(out);
    for (size_t i = 0; i < answer->count; i++)
        activity_write(out, &answer->activities[i]);
    json_close_array(out);
    if (limit > 0 && answer->count >= limit)
        json_member_u64(out, "next", answer->activities[answer->count - 1].number);
    json_close(out);
}

static void listed(struct waiter *w, enum reason reason, const void *result)
{
    struct admin_op *op = container_of(w, struct admin_op, waiter);
    const struct activities_answer *answer = result;
    struct buf out = buf_growing(ANSWER_MAX);
    if (op->page) {
        admin_page_write(&out, op->api->options.config, op->api->options.health, reason, reason == REASON_OK ? answer : NULL);
        http_answer(op->x, 200, str_lit("text/html; charset=utf-8"), buf_str(&out), str_lit("Cache-Control: no-store\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n"));
        return buf_free(&out);
    }
    if (reason != REASON_OK) {
        buf_free(&out);
        return refuse(op->x, as_answer(reason), (struct str){0});
    }
    if (op->id.len == 0) {
        write_list(&out, answer, op->limit);
        return answer_json(op->x, 200, &out);
    }
    for (size_t i = 0; i < answer->count; i++)
        if (str_eq(answer->activities[i].activity, op->id)) {
            activity_write(&out, &answer->activities[i]);
            return answer_json(op->x, 200, &out);
        }
    buf_free(&out);
    refuse(op->x, REASON_UNKNOWN_ACTIVITY, (struct str){0});
}

static void ask_list(struct admin_op *op, const struct activities_ask *ask)
{
    op->waiter.wake = listed;
    ledger_activities(op->api->options.ports->ledger, ask, &op->waiter);
}

/* GET …/activities?after=NUMBER&limit=N: by number, a page at a time; ?live=1: only those that are not retired. */
static void answer_activities(struct http_exchange *x, struct str id)
{
    int64_t after = 0, limit = ACTIVITIES_PAGE_MAX;
    struct str from = http_query(x->request, str_lit("after"), NULL), most = http_query(x->request, str_lit("limit"), NULL);
    (void)id;
    if ((from.len > 0 && (!str_to_i64(from, &after) || after < 0 || after > UINT16_MAX)) ||
        (most.len > 0 && (!str_to_i64(most, &limit) || limit < 1 || limit > ACTIVITIES_PAGE_MAX)))
        return refuse(x, REASON_INVALID_REQUEST, str_lit("after: a number from 0 to 65535; limit: from 1 to 256"));
    struct admin_op *op = op_new(x);
    bool live = str_eq(http_query(x->request, str_lit("live"), NULL), str_lit("1"));
    op->limit = live ? 0 : (uint16_t)limit;
    ask_list(op, &(struct activities_ask){.live = live, .after = (uint16_t)after, .limit = op->limit});
}

static void answer_activity(struct http_exchange *x, struct str id)
{
    struct admin_op *op = op_new(x);
    op->id = id;
    ask_list(op, &(struct activities_ask){.names = &id, .name_count = 1});
}

static void answer_page(struct http_exchange *x, struct str id)
{
    struct admin_op *op = op_new(x);
    (void)id;
    op->page = true;
    ask_list(op, &(struct activities_ask){.live = true});
}

static void write_move(struct buf *out, const struct control *c)
{
    json_member_str(out, "activity_id", c->activity);
    json_member_bool(out, "moved", c->moved);
    if (c->moved) {
        json_member_text(out, "state", activity_state_name(c->state));
        json_member_u64(out, "version", c->version);
    }
    if (c->event == ACTIVITY_EVENT_WARM)
        json_member_u64(out, "seeded", c->seeded);
    json_key(out, "lagging_buckets");
    json_open_array(out);
    for (unsigned b = 0; b < 32; b++)
        if (c->lagging >> b & 1)
            json_u64(out, b);
    json_close_array(out);
}

static void moved(struct control *c)
{
    struct admin_op *op = container_of(c, struct admin_op, control);
    struct buf out = buf_growing(8192);
    if (c->reason == REASON_OK) {
        json_open(&out);
        write_move(&out, c);
        json_close(&out);
        return answer_json(op->x, 200, &out);
    }
    write_move(&out, c);
    problem_answer(op->x, &(struct problem){.code = as_answer(c->reason), .members = buf_str(&out),
        .detail = c->moved ? str_lit("PostgreSQL holds the new state; not every bucket has confirmed it, and the janitor goes on telling it")
                : c->reason == REASON_CONFLICT && c->event == ACTIVITY_EVENT_OPEN && c->state == ACTIVITY_WARM
                ? str_lit("not every bucket holds its units yet; the janitor finishes the warm, or warm it again") : (struct str){0}});
    buf_free(&out);
}

/* A server that deletes keys where memory is short deletes reservations: no sale begins on it unless the operator wants that. */
static bool may_begin(const struct admin_api *a, enum activity_event event)
{
    bool begins = event == ACTIVITY_EVENT_WARM || event == ACTIVITY_EVENT_OPEN;
    return !begins || a->options.config->redis_allow_eviction || !store_risks(a->options.ports->store).evicts;
}

static void move(struct http_exchange *x, struct str id, enum activity_event event)
{
    struct admin_op *op = op_new(x);
    if (!may_begin(op->api, event))
        return refuse(x, REASON_CONFLICT, str_lit("Redis may delete keys of a sale: set its maxmemory-policy to noeviction, or redis.allow_eviction to true"));
    struct str complaint = {0}, note = {0};
    if (!activity_note_read(x->request->body, &x->arena, &note, &complaint))
        return refuse(x, REASON_INVALID_REQUEST, complaint);
    if (note.len == 0 && (event == ACTIVITY_EVENT_PAUSE || event == ACTIVITY_EVENT_CLOSE))
        return refuse(x, REASON_INVALID_REQUEST, str_lit("say why, in a member \"reason\""));
    op->control = (struct control){.activity = id, .event = event, .actor = str_lit("admin api"), .note = note, .done = moved};
    if (!control_start(op->api->controller, &op->control))
        refuse(x, as_answer(op->control.reason), str_lit("too many moves are under way"));
}

static void answer_warm(struct http_exchange *x, struct str id) { move(x, id, ACTIVITY_EVENT_WARM); }
static void answer_open(struct http_exchange *x, struct str id) { move(x, id, ACTIVITY_EVENT_OPEN); }
static void answer_pause(struct http_exchange *x, struct str id) { move(x, id, ACTIVITY_EVENT_PAUSE); }
static void answer_resume(struct http_exchange *x, struct str id) { move(x, id, ACTIVITY_EVENT_RESUME); }
static void answer_close(struct http_exchange *x, struct str id) { move(x, id, ACTIVITY_EVENT_CLOSE); }

/* ---- conservation ------------------------------------------------------------------------------------------------------------------- */

static void write_counts(struct buf *out, const struct conservation *c)
{
    json_key(out, "skus");
    json_open_array(out);
    for (size_t i = 0; i < c->sku_count; i++) {
        json_open(out);
        conservation_sku_write(out, &c->skus[i]);
        json_maybe_time(out, "counted_at", c->counted_ms);
        json_maybe_time(out, "attributed_at", c->attributed_ms);
        json_close(out);
    }
    json_close_array(out);
}

static void write_units(struct buf *out, const struct conservation *c)
{
    json_key(out, "units");
    json_open_array(out);
    for (size_t i = 0; i < c->unit_count; i++) {
        const struct conservation_unit *u = &c->units[i];
        char token[TOKEN_TEXT];
        json_open(out);
        json_member_str(out, "inventory_token_id", (struct str){token, token_write(u->token, token)});
        json_member_str(out, "sku_id", u->sku);
        json_member_text(out, "owner", conservation_owner_name(u->owner));
        json_member_u64(out, "bucket", u->bucket);
        json_member_bool(out, "finding", u->finding);
        if (u->detail)
            json_member_text(out, "detail", u->detail);
        json_close(out);
    }
    json_close_array(out);
}

static void counted(struct conservation *c)
{
    struct admin_op *op = container_of(c, struct admin_op, conservation);
    struct http_exchange *x = op->x;
    op->api->deep--;
    if (c->reason != REASON_OK) {
        enum reason why = as_answer(c->reason);
        conservation_close(c);
        return refuse(x, why, (struct str){0});
    }
    struct buf out = buf_growing(ANSWER_MAX);
    json_open(&out);
    json_member_str(&out, "activity_id", c->activity);
    json_member_u64(&out, "epoch", c->epoch);
    write_counts(&out, c);
    if (op->page)
        write_units(&out, c);
    json_close(&out);
    conservation_close(c);
    answer_json(x, 200, &out);
}

static void answer_conservation(struct http_exchange *x, struct str id)
{
    struct admin_op *op = op_new(x);
    struct conservation_options options = conservation_options_default();
    op->page = str_eq(http_query(x->request, str_lit("units"), NULL), str_lit("1"));    /* each unit by its name */
    op->conservation = (struct conservation){.activity = id, .done = counted};
    if (op->api->deep == DEEP_MAX)
        return refuse(x, REASON_OVERLOADED, str_lit("others are being counted"));
    struct ports *p = op->api->options.ports;
    if (!conservation_start(&op->conservation, p->store, p->ledger, p->clock, &options))
        return refuse(x, REASON_OVERLOADED, str_lit("no memory is left to count"));
    op->api->deep++;
}

/* ---- explain ------------------------------------------------------------------------------------------------------------------------- */

static void told(struct explain *e)
{
    struct admin_op *op = container_of(e, struct admin_op, explain);
    struct http_exchange *x = op->x;
    struct buf out = buf_growing(EXPLAIN_JSON_MAX);
    op->api->deep--;
    explain_write_json(e, &out);
    explain_free(e);
    answer_json(x, 200, &out);
}

static void answer_explain(struct http_exchange *x, struct str id)
{
    struct admin_op *op = op_new(x);
    if (op->api->deep == DEEP_MAX)
        return refuse(x, REASON_OVERLOADED, str_lit("others are being explained"));
    op->api->deep++;
    op->explain = (struct explain){.id = id, .activity = http_query(x->request, str_lit("activity_id"), NULL),
                                   .user = http_query(x->request, str_lit("user_id"), NULL), .done = told};
    explain_start(&op->explain, op->api->options.ports, op->api->options.keys);
}

/* ---- reviews ------------------------------------------------------------------------------------------------------------------------ */

static void reviewed(struct waiter *w, enum reason reason, const void *result)
{
    struct admin_op *op = container_of(w, struct admin_op, waiter);
    const struct reviews_answer *answer = result;
    if (reason != REASON_OK)
        return refuse(op->x, as_answer(reason), (struct str){0});
    struct buf out = buf_growing(ANSWER_MAX);
    if (op->id.len > 0)
        review_write(&out, &answer->reviews[0]);
    else
        review_list_write(&out, answer);
    answer_json(op->x, 200, &out);
}

static void ask_reviews(struct http_exchange *x, struct str id)
{
    struct admin_op *op = op_new(x);
    uint64_t limit = 100, before = 0;
    struct str most = http_query(x->request, str_lit("limit"), NULL), until = http_query(x->request, str_lit("before_ms"), NULL);
    if ((most.ptr && (!str_to_u64(most, &limit) || limit < 1 || limit > LEDGER_BATCH_MAX)) || (until.ptr && !str_to_u64(until, &before)))
        return refuse(x, REASON_INVALID_REQUEST, str_lit("limit is 1 to 256, before_ms is Unix milliseconds"));
    op->id = id;
    op->waiter.wake = reviewed;
    struct reviews_ask ask = {.id = id, .all = str_eq(http_query(x->request, str_lit("all"), NULL), str_lit("1")), .before_ms = (int64_t)before, .limit = (size_t)limit};
    ledger_reviews(op->api->options.ports->ledger, &ask, &op->waiter);
}

static void answer_reviews(struct http_exchange *x, struct str id) { (void)id, ask_reviews(x, (struct str){0}); }
static void answer_review(struct http_exchange *x, struct str id) { ask_reviews(x, id); }

static void decided(struct review_resolving *r)
{
    struct admin_op *op = container_of(r, struct admin_op, resolving);
    if (r->reason == REASON_MESSAGE_UNREADABLE || r->reason == REASON_MESSAGE_TOO_NEW || r->reason == REASON_MESSAGE_FORGED || r->reason == REASON_POISON)
        return refuse(op->x, REASON_CONFLICT, str_lit("the message still cannot be taken; it can be dismissed"));
    if (r->reason != REASON_OK)
        return refuse(op->x, as_answer(r->reason), r->reason == REASON_CONFLICT ? str_lit("it was decided otherwise, or this decision cannot end it; it stays as it is") : (struct str){0});
    struct buf out = buf_growing(4096);
    json_open(&out);
    json_member_str(&out, "review_id", r->id);
    json_member_text(&out, "decision", review_decision_name(r->decision));
    json_member_text(&out, "outcome", reason_word(r->outcome));
    if (r->why != REASON_OK)
        json_member_text(&out, "why", reason_word(r->why));
    json_close(&out);
    answer_json(op->x, 200, &out);
}

static void answer_resolve(struct http_exchange *x, struct str id)
{
    struct admin_op *op = op_new(x);
    struct str complaint;
    op->resolving = (struct review_resolving){.id = id, .actor = str_lit("admin api"), .done = decided, .keys = &op->api->options.keys};
    if (!review_decision_read(x->request->body, &x->arena, &op->resolving.decision, &op->resolving.note, &complaint))
        return refuse(x, REASON_INVALID_REQUEST, complaint);
    review_resolve(&op->resolving, op->api->options.ports->ledger);
}

/* ---- routes --------------------------------------------------------------------------------------------------------------------------- */

#define WHERE_ANY false
#define WHERE_ADMIN true
#define ACCESS_OPEN true
#define ACCESS_TOKEN false
static const struct {
    enum http_method method;
    const char *path;      /* {} stands for one id */
    bool full;             /* the admin role alone */
    bool open;             /* needs no token */
    void (*answer)(struct http_exchange *x, struct str id);
} routes[] = {
#define ADMIN_ROUTE(symbol, method, path, where, access, text) {HTTP_##method, path, WHERE_##where, ACCESS_##access, answer_##symbol},
#include "admin_route.def"
#undef ADMIN_ROUTE
};

static bool path_fits(const char *pattern, struct str path, struct str *id)
{
    const char *hole = strstr(pattern, "{}");
    if (!hole)
        return str_eq(path, str_of(pattern));
    struct str before = str_range(pattern, hole), after = str_of(hole + 2);
    if (!str_starts(path, before))
        return false;
    struct str rest = {path.ptr + before.len, path.len - before.len};
    size_t n = 0;
    while (n < rest.len && rest.ptr[n] != '/')
        n++;
    *id = (struct str){rest.ptr, n};
    return str_is_id(*id) && str_eq((struct str){rest.ptr + n, rest.len - n}, after);
}

/* True: answered, with a refusal. */
static bool refuse_by_guard(struct http_exchange *x, bool open)
{
    const struct admin_api *a = x->owner;
    const char *detail;
    enum reason code = admin_guard_check(a->options.config, x->request, open, &detail);
    struct str headers = code == REASON_UNAUTHENTICATED ? str_lit("WWW-Authenticate: Bearer\r\n") : (struct str){0};
    if (code != REASON_OK)
        problem_answer(x, &(struct problem){.code = code, .detail = str_of(detail), .headers = headers});
    return code != REASON_OK;
}

static void handle(struct http_exchange *x)
{
    const struct admin_api *a = x->owner;
    char allow[64];
    struct buf methods = buf_fixed(allow, sizeof allow);
    if (!http_exchange_normalize(x))
        return refuse(x, REASON_INVALID_REQUEST, str_lit("the path escapes a slash or a zero byte"));
    for (size_t i = 0; i < countof(routes); i++) {
        struct str id = {0};
        if ((routes[i].full && !a->options.full) || !path_fits(routes[i].path, x->request->path, &id))
            continue;
        bool head = x->request->method == HTTP_HEAD && routes[i].method == HTTP_GET;
        if (x->request->method == routes[i].method || head) {
            if (!refuse_by_guard(x, routes[i].open))
                routes[i].answer(x, id);
            return;
        }
        buf_add_fmt(&methods, "%s%s", methods.len > 0 ? ", " : "Allow: ", routes[i].method == HTTP_GET ? "GET, HEAD" : "POST");
    }
    if (refuse_by_guard(x, false))    /* nothing is told of what is there and what is not */
        return;
    if (methods.len == 0)
        return refuse(x, REASON_NOT_FOUND, str_lit("there is no such path"));
    buf_add(&methods, "\r\n", 2);
    problem_answer(x, &(struct problem){.code = REASON_METHOD_NOT_ALLOWED, .headers = buf_str(&methods)});
}

struct admin_api *admin_api_open(const struct admin_options *options, int *error)
{
    struct admin_api *a = calloc(1, sizeof *a);
    check(a != NULL);
    a->options = *options;
    struct http_server_config config = {.listen = options->listen, .connections_max = options->connections_max > 0 ? options->connections_max : 256, .limits = {.body = BODY_MAX}, .arena = 32 * 1024 + sizeof(struct admin_op),
                                        .handle = handle, .refuse = problem_of_server, .owner = a};
    a->server = http_server_open(options->ports->loop, &config, error);
    if (!a->server) {
        free(a);
        return NULL;
    }
    if (options->full) {
        a->controller = controller_new(options->ports->store, options->ports->ledger, options->ports->clock, MOVES_MAX, control_options_default());
        check(a->controller != NULL);
    }
    return a;
}

int admin_api_port(const struct admin_api *a) { return http_server_port(a->server); }

void admin_api_drain(struct admin_api *a, uint32_t ms, void (*done)(void *), void *arg) { http_server_drain(a->server, ms, done, arg); }

void admin_api_close(struct admin_api *a)
{
    if (!a)
        return;
    if (a->controller)
        controller_free(a->controller);
    http_server_close(a->server);
    free(a);
}

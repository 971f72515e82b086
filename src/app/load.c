/* SPDX-License-Identifier: Apache-2.0
 * load.c: `seckill load`: a scenario played against the service on this machine, at a set rate whatever the answers do, and then the proof.
 * The order of things: read the scenario, put an activity on sale, start the processes that will send, note what the service has counted so
 * far, send, note again, audit, say it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "await.h"
#include "check.h"
#include "http_ask.h"
#include "json.h"
#include "load_crew.h"
#include "load_page.h"
#include "load_result.h"
#include "system_random.h"
#include "verb.h"

#define TICK_MS 50
#define CREATE_MS 120000
#define PRICE 9900
#define START_US 100000       /* from the word to the first arrival */
#define SETTLE_MS 500         /* for the service's last counts */

struct load {
    const struct call *call;
    struct load_scenario scenario;
    struct load_people_options people;
    char activity[65], sku[65], prefix[32], title[160], currency[8];
    bool made;                        /* the activity is ours */
    struct load_crew crew;
    uv_loop_t loop;
    struct ports ports;
    uv_signal_t signals[2];
    unsigned signalled;
    struct load_double *doubling;
    struct load_page page;
    struct load_stats *stats;
    struct load_result result;
    struct audit audit;
    uint64_t start_us;
};

static const char *metrics_of(const struct load *l)
{
    const struct config *c = l->call->config;
    return c->load_metrics[0] ? c->load_metrics : c->admin_listen;
}

/* ---- the activity --------------------------------------------------------------------------------------------------------------------------- */

static void write_activity(const struct load *l, struct buf *out, int64_t now_ms)
{
    const struct load_scenario *s = &l->scenario;
    json_open(out);
    json_member_text(out, "activity_id", l->activity);
    json_member_text(out, "title", "made by seckill load");
    json_member_time(out, "starts_at", now_ms - 60000);
    json_member_time(out, "ends_at", now_ms + 24 * 3600 * 1000LL);
    json_member_i64(out, "buckets", s->buckets);
    json_key(out, "skus");
    json_open_array(out);
    for (int64_t k = 1; k <= s->skus; k++) {
        char name[96];
        snprintf(name, sizeof name, "%s%lld", l->sku, (long long)k);
        json_open(out);
        json_member_text(out, "sku_id", name);
        json_member_i64(out, "stock", s->stock);
        json_member_i64(out, "price", l->people.price);
        json_member_text(out, "currency", l->currency);
        json_close(out);
    }
    json_close_array(out);
    json_close(out);
}

static int told(const struct load *l, const struct http_ask *ask, bool came, const char *what)
{
    if (!came)
        return call_failed(l->call, LEAVE_UNREACHABLE, "%s: %s", what, ask->fault);
    if (ask->status < 300)
        return LEAVE_DONE;
    return call_failed(l->call, ask->status == 503 ? LEAVE_UNREACHABLE : LEAVE_FAILED, "%s: %d %s %s", what, ask->status, http_ask_text(ask, "code"), http_ask_text(ask, "detail"));
}

static int move(const struct load *l, struct http_ask *ask, const char *event)
{
    char target[160];
    snprintf(target, sizeof target, "/admin/v1/activities/%s/%s", l->activity, event);
    return told(l, ask, http_ask(ask, "POST", target, str_lit("{\"reason\":\"seckill load\"}"), CREATE_MS), event);
}

static int make_activity(struct load *l, int64_t now_ms)
{
    struct http_ask ask;
    struct buf body = buf_growing(65536);
    if (!http_ask_open(&ask, l->call->config->admin_listen))
        return call_failed(l->call, LEAVE_CONFIG, "admin.listen: cannot be called");
    ask.token = config_admin_token(l->call->config);
    write_activity(l, &body, now_ms);
    check(buf_ok(&body));
    int leave = told(l, &ask, http_ask(&ask, "POST", "/admin/v1/activities", buf_str(&body), CREATE_MS), "the activity cannot be made");
    if (leave == LEAVE_DONE)
        leave = move(l, &ask, "warm");
    if (leave == LEAVE_DONE)
        leave = move(l, &ask, "open");
    l->made = leave == LEAVE_DONE;
    http_ask_close(&ask);
    buf_free(&body);
    return leave;
}

/* What we have opened is closed, or the service would go on watching it. */
static void close_activity(struct load *l)
{
    struct http_ask ask;
    if (!l->made || !http_ask_open(&ask, l->call->config->admin_listen))
        return;
    ask.token = config_admin_token(l->call->config);
    move(l, &ask, "close");
    http_ask_close(&ask);
}

static bool find_price(struct load *l, const json_t *skus)
{
    size_t i;
    const json_t *sku;
    json_array_foreach(skus, i, sku) {
        const char *name = json_string_value(json_object_get(sku, "sku_id")), *currency = json_string_value(json_object_get(sku, "currency"));
        if (!name || !currency || strcmp(name, l->sku) != 0)
            continue;
        l->people.price = json_integer_value(json_object_get(sku, "price"));
        snprintf(l->currency, sizeof l->currency, "%s", currency);
        return true;
    }
    return false;
}

static int find_activity(struct load *l)
{
    struct http_ask ask;
    char target[128];
    snprintf(target, sizeof target, "/v1/activities/%s", l->activity);
    if (!http_ask_open(&ask, l->call->config->http_listen))
        return call_failed(l->call, LEAVE_CONFIG, "http.listen: cannot be called");
    int leave = told(l, &ask, http_ask(&ask, "GET", target, (struct str){0}, 10000), l->activity);
    if (leave == LEAVE_DONE && !find_price(l, json_object_get(ask.json, "skus")))
        leave = call_failed(l->call, LEAVE_FAILED, "%s has no item %s", l->activity, l->sku);
    http_ask_close(&ask);
    return leave;
}

/* ---- sending -------------------------------------------------------------------------------------------------------------------------------- */

static void on_signal(uv_signal_t *s, int number)
{
    struct load *l = s->data;
    (void)number;
    l->signalled++;
    load_crew_stop(&l->crew);
}

static void watch_signals(struct load *l)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < countof(numbers); i++) {
        check(uv_signal_init(&l->loop, &l->signals[i]) == 0);
        l->signals[i].data = l;
        check(uv_signal_start(&l->signals[i], on_signal, numbers[i]) == 0);
    }
}

static uint64_t elapsed_us(const struct load *l)
{
    uint64_t now = clock_mono_us(l->ports.clock);
    return now > l->start_us ? now - l->start_us : 0;
}

/* Until all have sent what they were to send and seen what they wait for; they have an end of their own, and here is one more. */
static void send_all(struct load *l)
{
    const struct load_scenario *s = &l->scenario;
    uint64_t most_us = (uint64_t)((s->seconds + (double)s->patience_s + (double)s->timeout_ms / 1000 + 20) * 1e6);
    l->start_us = clock_mono_us(l->ports.clock) + START_US;
    l->result.began_ms = clock_now_ms(l->ports.clock);
    load_crew_go(&l->crew, l->start_us);
    for (unsigned tick = 0; !load_crew_over(&l->crew); tick++) {
        await_ms(&l->loop, TICK_MS);
        if (tick % 5 == 0 && l->page.out) {
            load_crew_sum(&l->crew, l->stats);
            load_page_show(&l->page, l->stats, elapsed_us(l));
        }
        if (l->signalled > 1 || elapsed_us(l) > most_us) {
            l->result.broken = l->crew.running > 0;
            break;
        }
    }
    load_crew_sum(&l->crew, l->stats);
    load_page_show(&l->page, l->stats, elapsed_us(l));
    l->result.broken |= l->crew.broken;
    l->result.interrupted = l->signalled > 0;
}

/* The connections stand, and the engines that will be asked for the proof answer. */
static int stand_ready(struct load *l)
{
    if (!ports_ready(&l->ports, 10000))
        return call_failed(l->call, LEAVE_UNREACHABLE, "PostgreSQL, Redis or RocketMQ does not answer: nothing could be proved");
    for (unsigned i = 0; !load_crew_ready(&l->crew) && !load_crew_over(&l->crew) && l->signalled == 0 && i < 400; i++)
        await_ms(&l->loop, TICK_MS);
    if (l->signalled > 0)
        return LEAVE_INTERRUPTED;
    if (!load_crew_ready(&l->crew))
        return call_failed(l->call, LEAVE_FAILED, "the generator's processes do not come up");
    return LEAVE_DONE;
}

static void double_messages(struct load *l)
{
    if (l->scenario.doubled <= 0)
        return;
    l->doubling = load_double_start(l->ports.bus, l->ports.clock, l->scenario.doubled, l->result.seed);
    for (unsigned i = 0; load_double_counts(l->doubling).queues == 0 && i < 100; i++)
        await_ms(&l->loop, TICK_MS);
    await_ms(&l->loop, 300);    /* every reader knows where its queue ends */
}

/* ---- saying --------------------------------------------------------------------------------------------------------------------------------- */

static int write_report(struct load *l)
{
    const char *path = call_text(l->call, "report");
    struct buf page = buf_growing(LOAD_REPORT_MAX);
    if (path[0] == 0)
        return LEAVE_DONE;
    load_report_write(&l->result, &page);
    check(buf_ok(&page));
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(page.ptr, 1, page.len, f) == page.len;
    if (f)
        good = fclose(f) == 0 && good;
    buf_free(&page);
    if (good)
        fprintf(stderr, "report     %s\n", path);
    return good ? LEAVE_DONE : call_failed(l->call, LEAVE_FAILED, "%s cannot be written", path);
}

static int say(struct load *l)
{
    struct buf out = buf_growing(LOAD_JSON_MAX);
    load_result_judge(&l->result);
    if (l->call->json) {
        load_result_json(&l->result, &out);
        check(buf_ok(&out));
        printf(STR_FMT "\n", STR_ARG(buf_str(&out)));
        buf_free(&out);
    } else {
        load_result_print(&l->result, stdout);
    }
    int written = write_report(l), leave = load_result_leave(&l->result);
    return leave != LEAVE_DONE ? leave : written;
}

static int play(struct load *l)
{
    static struct load_service before;
    int leave = stand_ready(l);
    if (leave != LEAVE_DONE)
        return leave;
    double_messages(l);
    load_service_read(&before, metrics_of(l));
    send_all(l);
    await_ms(&l->loop, SETTLE_MS);
    if (l->doubling)
        l->result.doubled = load_double_counts(l->doubling);
    load_double_free(l->doubling);
    l->audit = (struct audit){.activity = str_of(l->activity), .patience_ms = (uint32_t)l->scenario.patience_s * 1000};
    audit_judge(&l->audit, &l->ports);
    load_service_read(&l->result.service, metrics_of(l));    /* after the audit has waited for what was on its way */
    load_service_since(&l->result.service, &before);
    l->result.audit = &l->audit;
    leave = say(l);
    audit_free(&l->audit);
    return leave;
}

/* ---- the verb -------------------------------------------------------------------------------------------------------------------------------- */

static int read_scenario(struct load *l)
{
    static char memory[8192];
    const char *scale = call_text(l->call, "scale");
    char *end;
    struct buf complaints = buf_fixed(memory, sizeof memory);
    double factor = strtod(scale, &end);
    if (l->call->argument_count != 1)
        return call_misused(l->call, "it needs a scenario file, as in `seckill load load/steady.yaml`");
    if (scale[0] && (*end != 0 || !(factor >= 0.000001 && factor <= 1000)))
        return call_misused(l->call, "--scale: \"%s\" is not good: expected a number from 0.000001 to 1000", scale);
    if (!load_scenario_read(&l->scenario, l->call->arguments[0], scale[0] ? factor : 0, &complaints)) {
        fwrite(complaints.ptr, 1, complaints.len, stderr);
        return LEAVE_CONFIG;
    }
    return LEAVE_DONE;
}

/* It is for the service on this machine, and names its users itself. */
static int may_begin(struct load *l)
{
    const struct config *c = l->call->config;
    char memory[256];
    struct buf why = buf_fixed(memory, sizeof memory);
    if (!address_parse(str_of(c->http_listen), &l->people.address))
        return call_failed(l->call, LEAVE_CONFIG, "http.listen: cannot be called");
    if (!address_is_loopback(&l->people.address))
        return call_failed(l->call, LEAVE_REFUSED, "http.listen is %s: a load is sent to loopback addresses only", c->http_listen);
    if (c->auth_mode != AUTH_NONE)
        return call_failed(l->call, LEAVE_REFUSED, "the load names its users itself, which only auth.mode=none allows");
    if (!load_crew_fits(&l->scenario, &l->result.processes, &why))
        return call_failed(l->call, LEAVE_CONFIG, STR_FMT, STR_ARG(buf_str(&why)));
    return LEAVE_DONE;
}

static void name_things(struct load *l)
{
    const struct load_scenario *s = &l->scenario;
    struct random *random = system_random_open();
    uint64_t chance = random_next(random), seed = (uint64_t)call_number(l->call, "seed");
    system_random_close(random);
    l->result.seed = seed ? seed : chance & 0xffffffff;
    snprintf(l->prefix, sizeof l->prefix, "l%08llx", (unsigned long long)(chance >> 32));    /* users are new ones, whatever the seed */
    if (s->activity[0])
        snprintf(l->activity, sizeof l->activity, "%s", s->activity);
    else
        snprintf(l->activity, sizeof l->activity, "load_%08llx", (unsigned long long)(chance >> 32));
    snprintf(l->sku, sizeof l->sku, "%.60s", s->sku[0] ? s->sku : "sku_load_");
    l->people.scenario = s;
    l->people.host = l->call->config->http_listen;
    l->people.activity = l->activity;
    l->people.sku = l->sku;
    l->people.prefix = l->prefix;
    l->people.webhook_keys = l->call->config->payment_webhook_keys;
    l->people.seed = l->result.seed;
    l->people.price = PRICE;
    l->people.currency = l->currency;
    snprintf(l->currency, sizeof l->currency, "CNY");
    snprintf(l->title, sizeof l->title, "%.80s on %s", l->call->arguments[0], l->activity);
}

static int check_only(const struct load *l)
{
    const struct load_scenario *s = &l->scenario;
    printf("%.0f requests in %g s", s->arrivals.total, s->seconds);
    for (size_t i = 0; i < s->arrivals.count; i++)
        printf("%s %.1f/s at %.2f s", i ? "," : ":", s->arrivals.points[i].rate, s->arrivals.points[i].s);
    putchar('\n');
    return LEAVE_DONE;
}

/* From the first process to the last. The processes are started before this one has a loop or a connection. */
static int run(struct load *l)
{
    char memory[1024];
    struct buf complaint = buf_fixed(memory, sizeof memory);
    if (!load_crew_start(&l->crew, l->result.processes, &l->people))
        return call_failed(l->call, LEAVE_FAILED, "the generator's processes cannot be started");
    uv_loop_init(&l->loop);
    unsigned parts = PORTS_STORE | PORTS_LEDGER | (l->scenario.doubled > 0 ? PORTS_BUS : 0);
    int leave;
    if (ports_open(&l->ports, &l->loop, l->call->config, parts, &complaint)) {
        watch_signals(l);
        leave = play(l);
        for (size_t i = 0; i < countof(l->signals); i++)
            uv_close((uv_handle_t *)&l->signals[i], NULL);
        ports_close(&l->ports);
    } else {
        leave = call_failed(l->call, LEAVE_CONFIG, STR_FMT, STR_ARG(buf_str(&complaint)));
    }
    ports_loop_end(&l->loop);
    load_crew_free(&l->crew);
    return leave;
}

int verb_load(const struct call *c)
{
    static struct load l;
    l.call = c;
    int leave = read_scenario(&l);
    if (leave != LEAVE_DONE)
        return leave;
    if (call_switch(c, "check"))
        return check_only(&l);
    leave = may_begin(&l);
    if (leave != LEAVE_DONE)
        return leave;
    name_things(&l);
    l.stats = calloc(1, sizeof *l.stats);
    check(l.stats != NULL);
    l.result.scenario = &l.scenario, l.result.path = c->arguments[0], l.result.activity = l.activity, l.result.stats = l.stats;
    l.page = load_page_new(isatty(STDERR_FILENO) || !c->json ? stderr : NULL, &l.scenario, l.title);
    leave = l.scenario.activity[0] ? find_activity(&l) : make_activity(&l, (int64_t)time(NULL) * 1000);
    if (leave == LEAVE_DONE)
        leave = run(&l);
    close_activity(&l);
    free(l.stats);
    load_scenario_free(&l.scenario);
    return leave;
}

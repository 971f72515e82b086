/* SPDX-License-Identifier: Apache-2.0
 * demo.c: `seckill demo`: the same core objects, the same HTTP servers, over engines that live in memory (src/sim). Nothing is installed, nothing
 * is kept. With --once a crowd comes in over HTTP, the audit judges, and it ends. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "await.h"
#include "check.h"
#include "control.h"
#include "imagine.h"
#include "json.h"
#include "roles.h"
#include "rush.h"
#include "verb.h"

#define DEMO_ACTIVITY "act_demo"
#define DEMO_SKU "sku_demo"
#define DAY_MS (24 * 3600 * 1000LL)
#define CONNECTIONS 128
#define PORT_ATTEMPTS 20

struct demo {
    const struct call *call;
    struct config config;         /* as called, but for the addresses of --once */
    uv_loop_t loop;
    struct sim_engines imagined;
    struct ports ports;
    struct roles *roles;
    uv_signal_t term, interrupt;
    bool draining, drained;
};

/* ---- an open sale -------------------------------------------------------------------------------------------------------------------------- */

static void create(struct demo *d)
{
    struct sku sku = {.sku = str_lit(DEMO_SKU), .stock = call_number(d->call, "stock"), .price = 9900, .currency = str_lit("CNY")};
    int64_t now = clock_now_ms(d->ports.clock);
    struct activity_create ask = {.actor = str_lit("demo"),
        .activity = {.activity = str_lit(DEMO_ACTIVITY), .title = str_lit("The demo sale"), .buckets = (uint8_t)d->config.activity_buckets, .starts_ms = now - 1000,
                     .ends_ms = now + DAY_MS, .pay_timeout_s = 900, .skus = &sku, .sku_count = 1}};
    struct await a = AWAIT();
    ledger_activity_create(d->ports.ledger, &ask, &a.waiter);
    enum reason reason = await_run(&a, &d->loop);
    check(reason == REASON_OK);
}

struct moving {
    struct control control;
    bool done;
};
static void moved(struct control *c) { container_of(c, struct moving, control)->done = true; }

static void move(struct demo *d, struct controller *controller, enum activity_event event)
{
    struct moving m = {.control = {.activity = str_lit(DEMO_ACTIVITY), .event = event, .actor = str_lit("demo"), .done = moved}};
    bool started = control_start(controller, &m.control);
    check(started);
    await_flag(&d->loop, &m.done, 0);
    check(m.control.reason == REASON_OK);
}

static void open_sale(struct demo *d)
{
    struct controller *controller = controller_new(d->ports.store, d->ports.ledger, d->ports.clock, 1, control_options_default());
    check(controller != NULL);
    create(d);
    move(d, controller, ACTIVITY_EVENT_WARM);
    move(d, controller, ACTIVITY_EVENT_OPEN);
    controller_free(controller);
}

/* ---- leaving -------------------------------------------------------------------------------------------------------------------------------- */

static void set_flag(void *flag) { *(bool *)flag = true; }

static void on_end(uv_signal_t *handle, int number)
{
    struct demo *d = handle->data;
    (void)number;
    if (d->draining)
        _exit(LEAVE_INTERRUPTED);
    d->draining = true;
    roles_drain(d->roles, (uint32_t)d->config.drain_timeout_ms, set_flag, &d->drained);
}

static void run_until_drained(struct demo *d)
{
    uv_signal_t *const handles[] = {&d->term, &d->interrupt};
    for (size_t i = 0; i < countof(handles); i++) {
        uv_signal_init(&d->loop, handles[i]);
        handles[i]->data = d;
        uv_signal_start(handles[i], on_end, i == 0 ? SIGTERM : SIGINT);
    }
    await_flag(&d->loop, &d->drained, 0);
    for (size_t i = 0; i < countof(handles); i++)
        uv_close((uv_handle_t *)handles[i], NULL);
}

static void say_banner(const struct demo *d)
{
    fprintf(stderr,
            "\n  seckill demo: everything is in memory and gone when this ends. NOT FOR PRODUCTION.\n\n"
            "  public   http://%s      activity " DEMO_ACTIVITY ", " DEMO_SKU ", %lld units, open\n"
            "  admin    http://%s\n"
            "  try      seckill buy --http-listen %s\n"
            "           curl -d '{\"activity_id\":\"" DEMO_ACTIVITY "\",\"sku_id\":\"" DEMO_SKU "\",\"request_id\":\"r1\",\"user_id\":\"u1\"}' "
            "-H 'Content-Type: application/json' http://%s/v1/reservations\n"
            "  stop     Ctrl-C\n\n",
            d->config.http_listen, (long long)call_number(d->call, "stock"), d->config.admin_listen, d->config.http_listen, d->config.http_listen);
}

/* ---- once ------------------------------------------------------------------------------------------------------------------------------------ */

static int print_once(const struct demo *d, const struct crowd_result *result, const struct audit *audit, uint32_t users)
{
    struct buf out = buf_growing(64 * 1024);
    struct rush_outcome outcome = {.crowd = result, .audit = audit, .sku = DEMO_SKU, .users = users};
    if (!d->call->json) {
        crowd_print(result, stdout);
        audit_print_table(audit, stdout);
    }
    rush_write_json(&out, &outcome);
    check(buf_ok(&out));
    printf(STR_FMT "\n", STR_ARG(buf_str(&out)));
    buf_free(&out);
    return rush_leave(d->call, &outcome);
}

static int sell_once(struct demo *d)
{
    char host[32], prefix[] = "demo";
    bool done = false, drained = false;
    struct crowd_options options = {.host = host, .activity = DEMO_ACTIVITY, .sku = DEMO_SKU, .prefix = prefix, .users = (uint32_t)call_number(d->call, "users"),
                                    .connections = CONNECTIONS, .retry_percent = 20, .patience_ms = 60000, .progress = isatty(STDERR_FILENO) ? stderr : NULL};
    snprintf(host, sizeof host, "127.0.0.1:%d", roles_public_port(d->roles));
    bool parsed = address_parse(str_of(host), &options.address);
    check(parsed);
    struct crowd *crowd = crowd_start(&d->loop, d->ports.clock, &options, set_flag, &done);
    await_flag(&d->loop, &done, 0);
    struct audit audit = {.activity = str_lit(DEMO_ACTIVITY), .patience_ms = 10000};
    audit_judge(&audit, &d->ports);
    int leave = print_once(d, crowd_result(crowd), &audit, options.users);
    audit_free(&audit);
    crowd_free(crowd);
    roles_drain(d->roles, 2000, set_flag, &drained);
    await_flag(&d->loop, &drained, 0);
    return leave;
}

static bool port_free(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    bool yes = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0;
    if (fd >= 0)
        close(fd);
    return yes;
}

/* The first free port of loopback from `first` on; `first` itself where none of a thousand is free: opening it then says why not. */
static unsigned free_port(unsigned first)
{
    for (unsigned port = first; port < first + 1000; port++)
        if (port_free(port))
            return port;
    return first;
}

static bool is_default(const struct demo *d, enum setting setting) { return d->config.from[setting].origin == ORIGIN_DEFAULT; }

/* Addresses that were not chosen move to ports that are free, as those of `make run` do. */
static void choose_ports(struct demo *d)
{
    static char http[32], admin[32];
    unsigned port = free_port(8480);
    snprintf(http, sizeof http, "127.0.0.1:%u", port);
    snprintf(admin, sizeof admin, "127.0.0.1:%u", free_port(port + 1));
    if (is_default(d, SETTING_http_listen))
        d->config.http_listen = http;
    if (is_default(d, SETTING_admin_listen))
        d->config.admin_listen = admin;
}

static struct roles *open_roles(struct demo *d, struct buf *complaint)
{
    return roles_open(&(struct roles_options){.config = &d->config, .ports = &d->ports, .which = ROLES_ALL}, complaint);
}

/* Another process can take a free port between the choice and the bind, if only to see whether it is free: then the choice is made again. */
static struct roles *open_roles_at_free_ports(struct demo *d, struct buf *complaint)
{
    bool may_move = is_default(d, SETTING_http_listen) || is_default(d, SETTING_admin_listen);
    for (int attempt = 1;; attempt++) {
        choose_ports(d);
        buf_reset(complaint);
        struct roles *roles = open_roles(d, complaint);
        if (roles || !may_move || attempt == PORT_ATTEMPTS)
            return roles;
    }
}

/* --once listens at ports that the kernel chooses, and prints little. */
static struct roles *open_roles_once(struct demo *d, struct buf *complaint)
{
    d->config.http_listen = "127.0.0.1:0";
    d->config.admin_listen = "127.0.0.1:0";
    if (is_default(d, SETTING_log_level))
        log_level_set(LEVEL_ERROR);
    return open_roles(d, complaint);
}

int verb_demo(const struct call *c)
{
    static struct demo d;
    char memory[512];
    struct buf complaint = buf_fixed(memory, sizeof memory);
    int leave = LEAVE_DONE;
    signal(SIGPIPE, SIG_IGN);
    d.call = c;
    d.config = *c->config;
    uv_loop_init(&d.loop);
    imagine_ports(&d.imagined, &d.ports, &d.loop, (uint64_t)call_number(c, "seed"));
    open_sale(&d);
    d.roles = call_switch(c, "once") ? open_roles_once(&d, &complaint) : open_roles_at_free_ports(&d, &complaint);
    if (!d.roles) {
        leave = call_failed(c, LEAVE_FAILED, STR_FMT, STR_ARG(buf_str(&complaint)));
    } else if (call_switch(c, "once")) {
        leave = sell_once(&d);
    } else {
        say_banner(&d);
        run_until_drained(&d);
    }
    roles_close(d.roles);
    ports_close(&d.ports);
    ports_loop_end(&d.loop);
    return leave;
}

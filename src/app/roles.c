/* SPDX-License-Identifier: Apache-2.0 */
#include "roles.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin_api.h"
#include "check.h"
#include "desk.h"
#include "janitor.h"
#include "message.h"
#include "metric.h"
#include "order.h"
#include "public_api.h"
#include "relay.h"

#define LOOK_US 5000        /* between two looks at what is still under way */
#define ADMIN_DRAIN_MS 1000

struct roles {
    struct roles_options options;
    struct ident_keys keys;
    struct desk desk;
    bool has_desk;
    struct public_api *public;
    struct order_desk *order;
    struct relay *relay;
    struct janitor *janitor;
    struct admin_api *admin;
    struct health health;
    bool has_health;
    char owner[96];
    /* draining */
    struct alarm look;
    uint64_t until_us;
    bool public_drained, admin_drained, admin_asked;
    void (*done)(void *);
    void *arg;
};

static const struct {
    const char *name;
    unsigned role, parts, needed;
} rows[] = {
    {"access", ROLE_ACCESS, PORTS_ALL, PORTS_STORE},    /* a broker or ledger that is down delays a sale, it does not stop it */
    {"order", ROLE_ORDER, PORTS_BUS | PORTS_LEDGER, PORTS_BUS | PORTS_LEDGER},
    {"relay", ROLE_RELAY, PORTS_ALL, PORTS_ALL},         /* a row is carried to Redis and to the broker, or it waits */
    {"janitor", ROLE_JANITOR, PORTS_ALL, PORTS_STORE | PORTS_LEDGER},
    {"admin", ROLE_ADMIN, PORTS_ALL, PORTS_STORE | PORTS_LEDGER},
};

/* Metrics are owned by the same bits. */
_Static_assert((int)ROLE_ACCESS == METRIC_OF_ACCESS && (int)ROLE_ORDER == METRIC_OF_ORDER && (int)ROLE_RELAY == METRIC_OF_RELAY &&
               (int)ROLE_JANITOR == METRIC_OF_JANITOR && (int)ROLE_ADMIN == METRIC_OF_ADMIN && (int)ROLES_ALL == METRIC_OF_ANY, "");

unsigned roles_of(const struct config *config)
{
    unsigned which = 0;
    for (size_t i = 0; i < countof(rows); i++)
        which |= config_has_role(config, rows[i].name) ? rows[i].role : 0;
    return which;
}

unsigned roles_parts(unsigned which)
{
    unsigned parts = 0;
    for (size_t i = 0; i < countof(rows); i++)
        parts |= which & rows[i].role ? rows[i].parts : 0;
    return parts;
}

static unsigned needed_parts(unsigned which)
{
    unsigned needed = 0;
    for (size_t i = 0; i < countof(rows); i++)
        needed |= which & rows[i].role ? rows[i].needed : 0;
    return needed;
}

/* ---- opening ----------------------------------------------------------------------------------------------------------------------------- */

static void cannot_listen(struct buf *complaint, const char *key, const char *address, int error)
{
    buf_add_fmt(complaint, "%s: cannot listen at %s: %s", key, address, strerror(-error));
}

static bool open_access(struct roles *r, struct buf *complaint)
{
    const struct config *c = r->options.config;
    struct ports *p = r->options.ports;
    struct desk_options o = desk_options_default();
    struct public_options public = {.reuse_port = r->options.shares_port, .connections_max = r->options.clients, .config = c, .desk = &r->desk};
    int error = -EINVAL;
    o.takes = (size_t)c->access_in_flight;
    o.reserve_ms = (uint32_t)c->access_reserve_ms;
    o.publisher.wait_ms = (uint32_t)c->access_publish_ms;
    r->has_desk = desk_init(&r->desk, p->store, p->bus, p->ledger, p->clock, p->random, &r->keys, o);
    if (!r->has_desk) {
        buf_add_fmt(complaint, "access: there is not enough memory; see `seckill check-config`, \"memory of an access thread\"");
        return false;
    }
    desk_start(&r->desk);
    if (address_parse(str_of(c->http_listen), &public.listen))
        r->public = public_api_open(p->loop, &public, &error);
    if (!r->public)
        cannot_listen(complaint, "http.listen", c->http_listen, error);
    return r->public != NULL;
}

static void name_owner(struct roles *r)
{
    char host[48] = "?";
    gethostname(host, sizeof host - 1);
    snprintf(r->owner, sizeof r->owner, "%s-%d-%016llx", host, (int)getpid(), (unsigned long long)random_next(r->options.ports->random));
}

static void open_order(struct roles *r)
{
    struct ports *p = r->options.ports;
    struct order_options o = order_options_default();
    name_owner(r);
    o.group = str_lit(MESSAGE_GROUP);
    o.owner = str_of(r->owner);
    o.keys = &r->keys;
    o.batch = (size_t)r->options.config->order_batch;
    r->order = order_new(p->bus, p->ledger, p->clock, p->random, &o);
    check(r->order != NULL);
    order_start(r->order);
}

static void open_relay(struct roles *r)
{
    struct ports *p = r->options.ports;
    struct relay_options o = relay_options_default();
    o.batch = (size_t)r->options.config->relay_batch;
    o.channel = p->channel;
    r->relay = relay_new(p->store, p->bus, p->ledger, p->clock, p->random, &r->keys, &o);
    check(r->relay != NULL);
    relay_start(r->relay);
}

static void open_janitor(struct roles *r)
{
    struct ports *p = r->options.ports;
    struct janitor_options o = janitor_options_default();
    o.auditor.every_ms = (uint32_t)r->options.config->audit_every_ms;
    o.auditor.share = (uint32_t)r->options.config->audit_share;
    o.auditor.missing_ms = (uint32_t)r->options.config->audit_missing_ms;
    o.sweep.channel = p->channel;
    r->janitor = janitor_new(p->store, p->bus, p->ledger, p->clock, p->random, &r->keys, &o);
    check(r->janitor != NULL);
    janitor_start(r->janitor);
}

static bool has_begun(void *arg)
{
    const struct roles *r = arg;
    return !r->has_desk || catalog_learnt(&r->desk.catalog);
}

/* The admin role's listener, or where health.listen names one, a small one for whoever probes this process. */
static bool open_admin(struct roles *r, struct buf *complaint)
{
    const struct config *c = r->options.config;
    bool full = (r->options.which & ROLE_ADMIN) != 0;
    const char *address = full ? c->admin_listen : c->health_listen;
    struct admin_options o = {.full = full, .connections_max = r->options.admin_clients, .roles = roles_of(c), .config = c, .ports = r->options.ports, .health = &r->health, .keys = r->keys};
    int error = -EINVAL;
    health_start(&r->health, r->options.ports, needed_parts(roles_of(c)), (roles_of(c) & ROLE_JANITOR) != 0, has_begun, r);    /* of the whole process: access may run on other loops */
    r->has_health = true;
    if (address_parse(str_of(address), &o.listen))
        r->admin = admin_api_open(&o, &error);
    if (!r->admin)
        cannot_listen(complaint, full ? "admin.listen" : "health.listen", address, error);
    return r->admin != NULL;
}

struct roles *roles_open(const struct roles_options *options, struct buf *complaint)
{
    struct roles *r = calloc(1, sizeof *r);
    check(r != NULL);
    r->options = *options;
    r->keys = ports_ident_keys(options->config);
    bool good = !(options->which & ROLE_ACCESS) || open_access(r, complaint);
    if (good && options->which & ROLE_ORDER)
        open_order(r);
    if (good && options->which & ROLE_RELAY)
        open_relay(r);
    if (good && options->which & ROLE_JANITOR)
        open_janitor(r);
    bool listens = options->which & ROLE_ADMIN || (options->config->health_listen[0] != 0 && !(options->which & ROLE_ACCESS));
    if (good && listens)
        good = open_admin(r, complaint);
    if (good)
        return r;
    roles_close(r);
    return NULL;
}

/* ---- leaving ------------------------------------------------------------------------------------------------------------------------------- */

static void public_gone(void *arg) { ((struct roles *)arg)->public_drained = true; }
static void admin_gone(void *arg) { ((struct roles *)arg)->admin_drained = true; }

static bool idle(const struct roles *r)
{
    return (!r->public || r->public_drained) && (!r->has_desk || desk_idle(&r->desk)) && (!r->order || order_idle(r->order)) &&
           (!r->relay || relay_idle(r->relay)) && (!r->janitor || janitor_idle(r->janitor));
}

static void look(struct waiter *w, enum reason reason, const void *result)
{
    struct roles *r = container_of(w, struct roles, look.waiter);
    bool over = clock_mono_us(r->options.ports->clock) >= r->until_us;
    (void)reason, (void)result;
    if (!r->admin_asked && (idle(r) || over)) {    /* whoever watches the drain may watch to its end */
        r->admin_asked = true;
        r->admin_drained = !r->admin;
        if (r->admin)
            admin_api_drain(r->admin, ADMIN_DRAIN_MS, admin_gone, r);
    }
    if (r->admin_asked && r->admin_drained && (!r->public || r->public_drained))
        return r->done(r->arg);
    clock_set_in(r->options.ports->clock, &r->look, LOOK_US);
}

void roles_leave(struct roles *r)
{
    r->health.draining = true;
    if (r->public)
        public_api_leave(r->public);
}

void roles_drain(struct roles *r, uint32_t ms, void (*done)(void *), void *arg)
{
    r->done = done;
    r->arg = arg;
    r->health.draining = true;
    r->until_us = clock_mono_us(r->options.ports->clock) + (uint64_t)ms * 1000;
    if (r->public)
        public_api_drain(r->public, ms, public_gone, r);
    if (r->has_desk)
        desk_drain(&r->desk);
    if (r->order)
        order_drain(r->order);
    if (r->relay)
        relay_drain(r->relay);
    if (r->janitor)
        janitor_drain(r->janitor);
    r->look.waiter.wake = look;
    clock_set_in(r->options.ports->clock, &r->look, 0);
}

void roles_close(struct roles *r)
{
    if (!r)
        return;
    clock_unset(r->options.ports->clock, &r->look);
    if (r->admin)
        admin_api_close(r->admin);
    if (r->has_health)
        health_stop(&r->health);
    if (r->public)
        public_api_close(r->public);
    if (r->has_desk) {
        desk_stop(&r->desk);
        desk_free(&r->desk);
    }
    if (r->order)
        order_free(r->order);
    if (r->relay)
        relay_free(r->relay);
    if (r->janitor)
        janitor_free(r->janitor);
    free(r);
}

int roles_public_port(const struct roles *r) { return r->public ? public_api_port(r->public) : 0; }
int roles_admin_port(const struct roles *r) { return r->admin ? admin_api_port(r->admin) : 0; }

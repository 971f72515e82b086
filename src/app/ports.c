/* SPDX-License-Identifier: Apache-2.0 */
#include "ports.h"

#include "await.h"
#include "channel_http.h"
#include "check.h"
#include "hint.h"
#include "message.h"
#include "postgres.h"
#include "redis.h"
#include "relay.h"
#include "rocketmq.h"
#include "system_clock.h"
#include "system_random.h"

static struct store *open_store(uv_loop_t *loop, const struct config *c, const char *deployment)
{
    struct redis_options o = redis_options_default();
    o.loop = loop;
    o.deployment = deployment;
    o.url = str_of(c->redis_url);
    o.in_flight = (size_t)c->redis_in_flight;
    o.reserve_ms = (uint32_t)c->access_reserve_ms;
    return redis_open(&o);
}

static struct bus *open_bus(uv_loop_t *loop, const struct config *c)
{
    const struct str topics[] = {str_lit(MESSAGE_TOPIC), str_lit(RELAY_EVENT_TOPIC), str_lit(RELAY_DEAD_LETTER_TOPIC), str_lit(HINT_TOPIC)};
    return rocketmq_open(&(struct rocketmq_options){
        .loop = loop, .name_servers = str_of(c->rocketmq_namesrv), .group = str_lit(MESSAGE_GROUP), .topics = topics, .topic_count = countof(topics),
        .send_ms = (uint32_t)c->rocketmq_send_ms, .ask_ms = (uint32_t)c->rocketmq_timeout_ms, .drain_ms = (uint32_t)c->drain_timeout_ms + 1,
        .in_flight = (size_t)c->rocketmq_in_flight});
}

static void close_system(struct ports *p)
{
    if (p->channel)
        channel_http_close(p->channel);
    if (p->bus)
        rocketmq_close(p->bus, NULL, NULL);
    if (p->store)
        redis_close(p->store, NULL, NULL);
    if (p->ledger)
        postgres_close(p->ledger);
    system_clock_close(p->clock);
    system_random_close(p->random);
    *p = (struct ports){0};
}

bool ports_open(struct ports *p, uv_loop_t *loop, const struct config *config, unsigned parts, struct buf *complaint)
{
    *p = (struct ports){.loop = loop, .clock = system_clock_open(loop), .random = system_random_open(), .close = close_system};
    if (parts & PORTS_LEDGER)
        p->ledger = postgres_open(&(struct postgres_options){.loop = loop, .url = config->postgres_url});
    if (parts & PORTS_STORE && !(p->store = open_store(loop, config, p->ledger ? p->ledger->deployment : NULL)))
        buf_add_fmt(complaint, "redis.url from %s cannot be used: expected redis://[user:password@]host[:port][/db] or unix:/path", config->from[SETTING_redis_url].where);
    if (parts & PORTS_BUS && !(p->bus = open_bus(loop, config)))
        buf_add_fmt(complaint, "rocketmq.namesrv from %s cannot be used: expected host:port, with ; between several", config->from[SETTING_rocketmq_namesrv].where);
    if (parts & PORTS_LEDGER && config->payment_channel_url[0] != 0 && !(p->channel = channel_http_open(loop, str_of(config->payment_channel_url), str_of(config->payment_channel_ca))))
        buf_add_fmt(complaint, "payment.channel_url from %s cannot be used: expected http[s]://[user:password@]host[:port][/path]", config->from[SETTING_payment_channel_url].where);
    if (p->bus && p->ledger)
        p->bus->deployment = p->ledger->deployment;
    if (complaint->len == 0)
        return true;
    ports_close(p);    /* the loop is the caller's: what else stands on it only he can close */
    return false;
}

void ports_close(struct ports *p)
{
    if (p->close)
        p->close(p);
}

struct ident_keys ports_ident_keys(const struct config *config)
{
    return ident_keys_from(config_item(config->ids_keys, 0), config_item(config->ids_keys, 1), str_of(config->ids_user_key));
}

enum reason ports_admit(const struct config *config, char why[512])
{
    struct postgres_key keys[3] = {{.purpose = "ids"}, {.purpose = "user"}, {.purpose = "ids"}};
    struct str previous = config_item(config->ids_keys, 1);
    ident_fingerprint(config_item(config->ids_keys, 0), keys[0].fingerprint);
    ident_fingerprint(str_of(config->ids_user_key), keys[1].fingerprint);
    ident_fingerprint(previous, keys[2].fingerprint);
    return postgres_admit(config->postgres_url, keys, previous.len > 0 ? 3 : 2, why);
}

/* ---- does it answer? ---------------------------------------------------------------------------------------------------------- */

const char *ports_part_name(size_t part)
{
    static const char *const names[PORTS_PARTS] = {"redis", "bus", "postgresql"};
    check(part < PORTS_PARTS);
    return names[part];
}

void ports_probe(struct ports *p, size_t part, struct waiter *w)
{
    if (part == 0)    /* no activity has this name in this epoch: the answer is STALE_EPOCH */
        store_look(p->store, &(struct look_ask){.bucket = {.activity = str_lit("_"), .epoch = 1}, .user = str_lit("_")}, w);
    else if (part == 1)
        bus_queues(p->bus, str_lit(MESSAGE_TOPIC), w);
    else
        ledger_activity(p->ledger, str_lit("_"), w);    /* none has this name */
}

bool ports_answers(enum reason reason)
{
    return reason == REASON_OK || reason == REASON_STALE_EPOCH || reason == REASON_NOT_FOUND || reason == REASON_UNKNOWN_ACTIVITY;
}

void ports_prove(struct ports *p, size_t part, unsigned slot, struct waiter *w)
{
    static const struct bus_message message = {.topic = str_lit(READINESS_TOPIC), .key = str_lit("readiness"), .body = str_lit("1")};
    if (part == 0)
        store_prove(p->store, w);
    else if (part == 1)
        bus_send(p->bus, &message, 1, w);
    else
        ledger_prove(p->ledger, slot, w);
}

enum reason ports_proved(size_t part, enum reason reason, const void *result)
{
    const struct send_result *sent = result;
    return part == 1 && reason == REASON_OK ? sent->verdicts[0] : reason;
}

struct str ports_refusal(const struct ports *p, size_t part)
{
    return part == 0 ? store_refusal(p->store) : part == 1 ? bus_refusal(p->bus) : ledger_refusal(p->ledger);
}

static bool part_ready(struct ports *p, size_t part, uint64_t until_us)
{
    static const char *const names[] = {"Redis (redis.url)", "RocketMQ (rocketmq.namesrv)", "PostgreSQL (postgres.url)"};
    p->missing = names[part];
    for (;;) {
        struct await a = AWAIT();
        a.waiter.budget_ms = 1000;
        ports_probe(p, part, &a.waiter);
        if (ports_answers(await_run(&a, p->loop)))
            return true;
        if (clock_mono_us(p->clock) >= until_us)
            return false;
        await_ms(p->loop, 20);
    }
}

bool ports_ready(struct ports *p, uint32_t ms)
{
    uint64_t until_us = clock_mono_us(p->clock) + (uint64_t)ms * 1000;
    return (!p->store || part_ready(p, 0, until_us)) && (!p->ledger || part_ready(p, 2, until_us)) && (!p->bus || part_ready(p, 1, until_us));
}

void ports_run_dry(uv_loop_t *loop)
{
    while (uv_run(loop, UV_RUN_DEFAULT) != 0)
        ;
}

void ports_loop_end(uv_loop_t *loop)
{
    ports_run_dry(loop);
    int busy = uv_loop_close(loop);
    check(busy == 0);    /* whoever opened something on this loop has closed it */
}

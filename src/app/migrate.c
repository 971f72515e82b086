/* SPDX-License-Identifier: Apache-2.0
 * migrate.c: `seckill migrate`: the schema first, then the topics. Doing it twice is harmless. */
#include <stdio.h>

#include "await.h"
#include "message.h"
#include "ports.h"
#include "postgres.h"
#include "relay.h"
#include "verb.h"

#define TIMEOUT_TOPIC "seckill-order-timeout"
#define TRIES_MS 30000    /* a broker that has just started takes a while to be seen by its name server */

static void say(void *arg, const char *line)
{
    (void)arg;
    puts(line);
    fflush(stdout);    /* who waits wants to know for whom, now */
}

static int migrate_schema(const struct call *c)
{
    enum reason reason = postgres_migrate(c->config->postgres_url, (uint32_t)call_number(c, "wait") * 1000, say, NULL);
    if (reason == REASON_OK)
        return LEAVE_DONE;
    return call_failed(c, reason == REASON_DEPENDENCY_DOWN || reason == REASON_ENGINE_BUSY ? LEAVE_UNREACHABLE : reason == REASON_CONFLICT ? LEAVE_REFUSED : LEAVE_FAILED, "postgresql: %s",
                       reason_word(reason));
}

static int create_topics(const struct call *c, struct ports *p)
{
    static const char *const names[] = {MESSAGE_TOPIC, TIMEOUT_TOPIC, RELAY_EVENT_TOPIC, RELAY_DEAD_LETTER_TOPIC, READINESS_TOPIC};
    struct str topics[countof(names)];
    uint64_t until_us = clock_mono_us(p->clock) + TRIES_MS * 1000ULL;
    bool told = false;
    for (size_t i = 0; i < countof(names); i++)
        topics[i] = str_of(names[i]);
    for (;;) {
        struct await a = AWAIT();
        bus_create(p->bus, topics, countof(topics), str_lit(MESSAGE_GROUP), (int32_t)c->config->bus_queues, &a.waiter);
        enum reason reason = await_run(&a, p->loop);
        if (reason == REASON_OK)
            break;
        struct str refusal = bus_refusal(p->bus);
        if (reason_fate(reason) == FATE_REFUSED || clock_mono_us(p->clock) > until_us)
            return call_failed(c, LEAVE_UNREACHABLE, "bus: the topics could not be made: %s%s" STR_FMT "%s; rocketmq.namesrv is %s", reason_word(reason),
                               refusal.len > 0 ? " (" : "", STR_ARG(refusal), refusal.len > 0 ? ")" : "", c->config->rocketmq_namesrv);
        if (!told)
            fprintf(stderr, "bus: %s%s" STR_FMT "%s; trying again for %d s\n", reason_word(reason), refusal.len > 0 ? " (" : "", STR_ARG(refusal),
                    refusal.len > 0 ? ")" : "", TRIES_MS / 1000);
        told = true;
        await_ms(p->loop, 200);
    }
    for (size_t i = 0; i < countof(names); i++)
        printf("topic %s is there\n", names[i]);
    printf("group %s is there\n", MESSAGE_GROUP);
    return LEAVE_DONE;
}

int verb_migrate(const struct call *c)
{
    uv_loop_t loop;
    struct ports ports;
    char memory[512];
    struct buf complaint = buf_fixed(memory, sizeof memory);
    int leave = migrate_schema(c);
    if (leave != LEAVE_DONE)
        return leave;
    uv_loop_init(&loop);
    if (!ports_open(&ports, &loop, c->config, PORTS_BUS, &complaint)) {
        ports_loop_end(&loop);
        return call_failed(c, LEAVE_CONFIG, STR_FMT, STR_ARG(buf_str(&complaint)));
    }
    leave = create_topics(c, &ports);
    ports_close(&ports);
    ports_loop_end(&loop);
    return leave;
}

/* SPDX-License-Identifier: Apache-2.0
 * cut_bus.c: every call of the bus on a real RocketMQ, under every cut (cutting.h). SECKILL_TEST_NAMESRV names its name server (host:port). Where
 * the broker is, the name server says: its answer passes through a relay too, which puts the other relay's port in the broker's place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cutting.h"
#include "rocketmq.h"

#define GROUP str_lit("cut-bus")

static struct bus *cut, *straight;
static struct cut_relay *names, *broker;
static char topic[64], made[64], key[32];
static struct queue queue;
static char broker_name[64];
static int64_t from;

/* "brokerAddrs":{0:"127.0.0.1:10911"}: both ports have five digits. */
static void readdress(void *arg, char *bytes, size_t size)
{
    (void)arg;
    static const char mark[] = ":\"127.0.0.1:";
    for (char *at = bytes; (at = memmem(at, size - (size_t)(at - bytes), mark, sizeof mark - 1)); at++) {
        char *port = at + sizeof mark - 1, target[32], number[16];
        if (size - (size_t)(port - bytes) < 6 || port[5] != '"')
            continue;
        if (!broker) {
            snprintf(target, sizeof target, "127.0.0.1:%.5s", port);
            broker = cut_open(cutting_loop(), "127.0.0.1:0", target);
            check(broker != NULL && cut_port(broker) >= 10000);
        }
        snprintf(number, sizeof number, "%05d", cut_port(broker));
        memcpy(port, number, 5);
    }
}

/* ---- looking, where nobody cuts ---------------------------------------------------------------------------------------------------- */

static void keep_range(struct seen *s, const void *result) { *(struct range_answer *)s->into = *(const struct range_answer *)result; }

static int64_t end_of_queue(void)
{
    struct range_answer r = {0};
    struct seen s = SEEN(.keep = keep_range, .into = &r);
    bus_range(straight, &queue, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
    return r.max;
}

static void keep_keys(struct seen *s, const void *result)
{
    const struct pulled_answer *a = result;
    for (size_t i = 0; i < a->count; i++)
        *(unsigned *)s->into += str_eq(a->messages[i].key, str_of(key));
    from = a->next;
}

/* How many messages of our key have come since `begin`. */
static bool has_message(void)
{
    static char counted[sizeof key];
    static unsigned count;
    if (strcmp(counted, key) != 0) {
        memcpy(counted, key, sizeof key);
        count = 0;
    }
    for (int64_t end = end_of_queue(); from < end;) {
        struct seen s = SEEN(.keep = keep_keys, .into = &count);
        struct pull_ask ask = {.queue = queue, .offset = from, .limit = 64, .wait_ms = 500};
        bus_pull(straight, &ask, &s.waiter);
        assert_int_equal(seen_await(world, &s), REASON_OK);
    }
    return count > 0;
}

static void keep_queues(struct seen *s, const void *result)
{
    const struct queues_answer *a = result;
    *(size_t *)s->into = a->count;
    if (a->count > 0 && a->queues[0].broker.len < sizeof broker_name)
        memcpy(broker_name, a->queues[0].broker.ptr, a->queues[0].broker.len);
}

static bool has_topic(void)
{
    size_t count = 0;
    struct seen s = SEEN(.keep = keep_queues, .into = &count);
    bus_queues(straight, str_of(made), &s.waiter);
    return seen_await(world, &s) == REASON_OK && count > 0;
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------------- */

static void begin_send(uint32_t n)
{
    snprintf(key, sizeof key, "key%u", n);
    from = end_of_queue();
}
static void ask_send(struct waiter *w)
{
    struct bus_message m = {.topic = str_of(topic), .key = str_of(key), .body = str_lit("{}")};
    bus_send(cut, &m, 1, w);
}
static enum reason first_verdict(const void *result) { return ((const struct send_result *)result)->verdicts[0]; }

static void ask_range(struct waiter *w) { bus_range(cut, &queue, w); }
static void ask_pull(struct waiter *w)
{
    struct pull_ask ask = {.queue = queue, .offset = 0, .limit = 8};
    bus_pull(cut, &ask, w);
}
static void ask_mirror(struct waiter *w) { bus_mirror(cut, &queue, 0, w); }

static void begin_create(uint32_t n) { snprintf(made, sizeof made, "%.40s-%u", topic, n); }
static void ask_create_by(struct bus *bus, struct waiter *w)
{
    struct str name = str_of(made);
    bus_create(bus, &name, 1, GROUP, 1, w);
}
static void ask_create(struct waiter *w) { ask_create_by(cut, w); }

static const struct cut_call calls[] = {
    {"send", begin_send, ask_send, has_message, NULL, NULL, first_verdict},
    {"range", NULL, ask_range, NULL, NULL, NULL, NULL},
    {"pull", NULL, ask_pull, NULL, NULL, NULL, NULL},
    {"mirror", NULL, ask_mirror, NULL, NULL, NULL, NULL},
    {"create", begin_create, ask_create, has_topic, NULL, NULL, NULL},
};

/* A topic that the engine has not asked for: this question goes to the name server. */
static void begin_queues(uint32_t n)
{
    begin_create(100000 + n);
    struct seen s = SEEN();
    ask_create_by(straight, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
}
static void ask_queues(struct waiter *w) { bus_queues(cut, str_of(made), w); }
static const struct cut_call name_calls[] = {
    {"queues", begin_queues, ask_queues, NULL, NULL, NULL, NULL},
};

/* ---- */

static const char *name_server;

static struct bus *open_bus(const char *at)
{
    struct rocketmq_options options = {.loop = cutting_loop(), .name_servers = str_of(at), .group = GROUP, .drain_ms = 200};
    struct bus *bus = rocketmq_open(&options);
    assert_non_null(bus);
    return bus;
}

static int open_all(void **state)
{
    (void)state;
    char through[32];
    world = world_open();
    names = cut_open(cutting_loop(), "127.0.0.1:0", name_server);
    assert_non_null(names);
    cut_hook(names, readdress, NULL);
    snprintf(through, sizeof through, "127.0.0.1:%d", cut_port(names));
    straight = open_bus(name_server);
    cut = open_bus(through);
    snprintf(topic, sizeof topic, "cut-%016llx", (unsigned long long)random_next(world->random));
    snprintf(made, sizeof made, "%s", topic);
    struct seen s = SEEN();
    ask_create_by(straight, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
    assert_true(has_topic());
    queue = (struct queue){str_of(broker_name), str_of(topic), 0};
    s = (struct seen)SEEN();
    ask_queues(&s.waiter);    /* the engine has heard of the broker, and so has the relay */
    assert_int_equal(seen_await(world, &s), REASON_OK);
    assert_non_null(broker);
    return 0;
}

static bool closed[2];
static void has_closed(void *which) { *(bool *)which = true; }
static bool both_closed(void *arg) { return (void)arg, closed[0] && closed[1]; }

static int close_all(void **state)
{
    (void)state;
    rocketmq_close(cut, has_closed, &closed[0]);
    rocketmq_close(straight, has_closed, &closed[1]);
    assert_true(world->run(world, both_closed, NULL, 5000));
    cut_close(names);
    cut_close(broker);
    world->close(world);
    return 0;
}

static void every_call_under_every_cut(void **state)
{
    (void)state;
    struct cutting c = {.relay = broker, .seed = cutting_seed(), .budget_ms = 300, .slack_ms = 1000, .recover_ms = 10000, .lag_ms = 3000};
    cutting_run(&c, calls, countof(calls), cutting_rounds());
}

static void every_question_to_the_name_server(void **state)
{
    (void)state;
    struct cutting c = {.relay = names, .seed = cutting_seed(), .budget_ms = 300, .slack_ms = 1000, .recover_ms = 10000, .lag_ms = 3000};
    cutting_run(&c, name_calls, countof(name_calls), cutting_rounds());
}

int main(void)
{
    name_server = getenv("SECKILL_TEST_NAMESRV");
    if (!name_server || !*name_server)
        return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_call_under_every_cut), cmocka_unit_test(every_question_to_the_name_server)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}

/* SPDX-License-Identifier: Apache-2.0
 * Reading routes as name servers write them, and remembering what they forget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "buf.h"
#include "log.h"
#include "route.h"

static uv_loop_t loop;
static struct due_table times;
static struct peer_watch watch;
static struct routes routes;
static struct route route;

static void settled(struct due_table *t) { (void)t; }

static int open_all(void **state)
{
    (void)state;
    uv_loop_init(&loop);
    due_table_open(&times, &loop, settled);
    assert_true(routes_open(&routes, &times, &watch, str_lit("127.0.0.1:9")));
    route = (struct route){.routes = &routes};
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    routes_close(&routes);
    due_table_close(&times);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static bool read_text(const char *text)
{
    char *copy = strdup(text);
    bool good = route_read(&route, copy, strlen(copy));
    free(copy);
    return good;
}

/* As a 5.3.3 name server wrote it, but for the second broker. */
static const char both[] =
    "{\"brokerDatas\":[{\"brokerAddrs\":{\"0\":\"127.0.0.1:10921\"},\"brokerName\":\"broker-b\",\"cluster\":\"DefaultCluster\",\"enableActingMaster\":false},"
    "{\"brokerAddrs\":{\"1\":\"127.0.0.1:10931\",\"0\":\"127.0.0.1:10911\"},\"brokerName\":\"broker-a\",\"cluster\":\"DefaultCluster\",\"enableActingMaster\":false}],"
    "\"filterServerTable\":{},\"queueDatas\":[{\"brokerName\":\"broker-a\",\"perm\":6,\"readQueueNums\":4,\"topicSysFlag\":0,\"writeQueueNums\":3},"
    "{\"brokerName\":\"broker-b\",\"perm\":4,\"readQueueNums\":2,\"topicSysFlag\":0,\"writeQueueNums\":2}]}";
static const char only_b[] =
    "{\"brokerDatas\":[{\"brokerAddrs\":{0:\"127.0.0.1:10922\"},\"brokerName\":\"broker-b\",\"cluster\":\"c\"}],"
    "\"queueDatas\":[{\"brokerName\":\"broker-b\",\"perm\":6,\"readQueueNums\":2,\"writeQueueNums\":2}]}";
static const char no_master[] =
    "{\"brokerDatas\":[{\"brokerAddrs\":{1:\"127.0.0.1:10923\"},\"brokerName\":\"broker-b\"}],"
    "\"queueDatas\":[{\"brokerName\":\"broker-b\",\"perm\":6,\"readQueueNums\":2,\"writeQueueNums\":2}]}";

static void brokers_stand_in_order_with_what_they_allow(void **state)
{
    (void)state;
    assert_true(read_text(both) && route.known);
    assert_int_equal(route.broker_count, 2);
    struct route_broker *a = &route.brokers[0], *b = &route.brokers[1];
    assert_string_equal(a->name, "broker-a");
    assert_string_equal(b->name, "broker-b");
    assert_true(a->readable == 4 && a->writable == 3 && b->readable == 2 && b->writable == 0);    /* perm 4: read only */
    assert_true(str_eq(peer_address(a->at->peer), str_lit("127.0.0.1:10911")));    /* the master, not the slave */
    assert_int_equal(route_writable(&route), 3);
}

static void who_is_away_stays_readable_by_name(void **state)
{
    (void)state;
    assert_true(read_text(both) && read_text(only_b));
    assert_int_equal(route.broker_count, 2);
    assert_true(route.brokers[0].readable == 4 && route.brokers[0].writable == 0);
    assert_true(str_eq(peer_address(route.brokers[1].at->peer), str_lit("127.0.0.1:10922")));    /* moved house */
    assert_int_equal(route_writable(&route), 2);
    assert_true(read_text(both));
    assert_int_equal(route_writable(&route), 3);
}

static void a_broker_without_a_master_takes_no_messages(void **state)
{
    (void)state;
    assert_true(read_text(both) && read_text(no_master));
    assert_int_equal(route_writable(&route), 0);
    assert_int_equal(route.brokers[1].readable, 2);
}

static void what_cannot_be_read_changes_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "[]", "{\"brokerDatas\":{}}", "{\"queueDatas\":[{\"brokerName\":\"\",\"perm\":6}]}", "{\"queueDatas\":[{\"perm\":6}]}",
                                      "{\"queueDatas\":[{\"brokerName\":\"b\",\"perm\":\"x\"}]}", "{\"brokerDatas\":[1]}", "{\"brokerDatas\":[{}"};
    assert_true(read_text(both));
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(read_text(bad[i]));
    assert_true(route.broker_count == 2 && route_writable(&route) == 3);
}

static void topics_keep_to_their_alphabet(void **state)
{
    (void)state;
    char name[TOPIC_MAX + 1];
    memset(name, 'a', sizeof name);
    assert_true(route_topic_valid(str_lit("%RETRY%seckill-order_1|x")));
    assert_true(route_topic_valid((struct str){name, TOPIC_MAX}));
    assert_false(route_topic_valid((struct str){name, TOPIC_MAX + 1}));
    assert_false(route_topic_valid((struct str){0}));
    assert_false(route_topic_valid(str_lit("a b")));
}

static void servers_stand_between_semicolons_or_commas(void **state)
{
    (void)state;
    struct routes several;
    assert_true(routes_open(&several, &times, &watch, str_lit("127.0.0.1:9; 127.0.0.1:10,[::1]:11")));
    assert_int_equal(several.server_count, 3);
    routes_close(&several);
    assert_false(routes_open(&several, &times, &watch, str_lit(";,")));
}

/* ---- edges ---- */

/* A route with brokers first … last, in this order, all at one port from `port` on. */
static void read_many(int first, int last, int port)
{
    struct buf b = buf_growing(1 << 20);
    int step = first < last ? 1 : -1;
    buf_add_fmt(&b, "{\"brokerDatas\":[");
    for (int i = first; i != last + step; i += step)
        buf_add_fmt(&b, "%s{\"brokerAddrs\":{\"0\":\"127.0.0.1:%d\"},\"brokerName\":\"b%03d\"}", i == first ? "" : ",", port + i, i);
    buf_add_fmt(&b, "],\"queueDatas\":[");
    for (int i = first; i != last + step; i += step)
        buf_add_fmt(&b, "%s{\"brokerName\":\"b%03d\",\"perm\":6,\"readQueueNums\":2,\"writeQueueNums\":2}", i == first ? "" : ",", i);
    buf_add_fmt(&b, "]}");
    buf_add_char(&b, 0);
    assert_true(buf_ok(&b) && read_text(b.ptr));
    buf_free(&b);
}

/* Of too many brokers the first by name are used, whatever the order they are told in; topics beyond the last are refused, name servers not asked. */
static void routes_have_an_edge(void **state)
{
    (void)state;
    read_many(200, 100, 20000);    /* the last comes first */
    assert_true(route.known && route.broker_count == BROKERS_MAX && routes.broker_count == BROKERS_MAX);
    for (int i = 0; i < BROKERS_MAX; i++) {
        char name[8];
        snprintf(name, sizeof name, "b%03d", 100 + i);
        assert_string_equal(route.brokers[i].name, name);
        assert_true(route.brokers[i].at && route.brokers[i].writable == 2);
    }
    char topic[16];
    for (int i = 0; i < TOPICS_MAX; i++) {
        snprintf(topic, sizeof topic, "topic-%d", i);
        assert_non_null(route_of(&routes, str_of(topic)));
    }
    for (int i = 0; i < 1000; i++)
        assert_null(route_of(&routes, str_lit("one-more")));
    assert_non_null(route_of(&routes, str_lit("topic-7")));
    assert_int_equal(routes.topic_count, TOPICS_MAX);

    struct routes several;
    assert_true(routes_open(&several, &times, &watch, str_lit("a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9,a:10")));
    assert_int_equal(several.server_count, NAME_SERVERS_MAX);
    routes_close(&several);
}

/* A broker that gets another address with each of its lives does not use up the addresses there are. */
static void a_broker_may_move_house_for_ever(void **state)
{
    (void)state;
    struct route *r = route_of(&routes, str_lit("moves"));
    for (int life = 0; life < 5 * BROKERS_MAX; life++) {
        char text[256];
        snprintf(text, sizeof text, "{\"brokerDatas\":[{\"brokerAddrs\":{\"0\":\"127.0.0.1:%d\"},\"brokerName\":\"b\"}],"
                 "\"queueDatas\":[{\"brokerName\":\"b\",\"perm\":6,\"readQueueNums\":2,\"writeQueueNums\":2}]}", 30000 + life);
        assert_true(route_read(r, text, strlen(text)));
        snprintf(text, sizeof text, "127.0.0.1:%d", 30000 + life);
        assert_true(r->brokers[0].at && str_eq(peer_address(r->brokers[0].at->peer), str_of(text)));
    }
    assert_int_equal(routes.broker_count, BROKERS_MAX);
}

int main(void)
{
    log_level_set(LEVEL_FATAL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(brokers_stand_in_order_with_what_they_allow, open_all, close_all),
        cmocka_unit_test_setup_teardown(who_is_away_stays_readable_by_name, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_broker_without_a_master_takes_no_messages, open_all, close_all),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_changes_nothing, open_all, close_all),
        cmocka_unit_test_setup_teardown(servers_stand_between_semicolons_or_commas, open_all, close_all),
        cmocka_unit_test_setup_teardown(routes_have_an_edge, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_broker_may_move_house_for_ever, open_all, close_all),
        cmocka_unit_test(topics_keep_to_their_alphabet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * What is known after things go wrong on the wire. A server of our own, on the same loop, misbehaves; the bus must tell "never sent"
 * from "nobody knows", and never the one for the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus.h"
#include "peer.h"
#include "rocketmq.h"

/* ---- a server that does as it is told ---- */

enum manner { ANSWERS, KEEPS_SILENT, HANGS_UP, TALKS_NONSENSE, ASKS_BACK, NEVER_READS, REFUSES };

struct server {
    int listener, port;
    uv_poll_t poll;
    enum manner manner;
    int answer_code;
    const char *remark;
    unsigned requests, sends;
    int32_t last_code, asked_back_code;
    char route[512];
    struct guest *unread[16];    /* guests nobody listens to */
    size_t unread_count;
    struct guest *latest;
};
struct guest {
    uv_poll_t poll;
    struct server *server;
    int fd;
    char bytes[1 << 16];
    size_t n;
};

static uv_loop_t loop;

static void guest_gone(uv_handle_t *h) { free(container_of((uv_poll_t *)h, struct guest, poll)); }

static void hang_up(struct guest *g)
{
    uv_close((uv_handle_t *)&g->poll, guest_gone);
    close(g->fd);
}

static void reply(struct guest *g, int code, int32_t opaque, int flag, const char *remark, const char *body)
{
    char text[4096];
    struct buf b = buf_fixed(text, sizeof text);
    buf_add(&b, "\0\0\0\0\0\0\0\0", 8);
    buf_add_fmt(&b, "{\"code\":%d,\"flag\":%d,\"opaque\":%d,\"remark\":\"%s\",\"extFields\":{\"offset\":\"0\"}}", code, flag, opaque, remark);
    size_t header = b.len - 8, k = strlen(body);
    buf_add(&b, body, k);
    uint32_t sizes[2] = {htonl((uint32_t)(b.len - 4)), htonl((uint32_t)header)};
    memcpy(text, sizes, 8);
    assert_true(buf_ok(&b) && write(g->fd, text, b.len) == (ssize_t)b.len);
}

static bool serve_frame(struct guest *g, const struct frame *f)
{
    struct server *s = g->server;
    if (f->flag & FRAME_FLAG_ANSWER) {
        s->asked_back_code = f->code;
        return true;
    }
    s->requests++;
    s->last_code = f->code;
    s->sends += f->code == CODE_SEND_BATCH || f->code == CODE_SEND;
    if (f->code == CODE_ROUTE) {
        reply(g, s->route[0] ? 0 : ANSWER_TOPIC_NOT_EXIST, f->opaque, FRAME_FLAG_ANSWER, "", s->route);
        return true;
    }
    if (f->code == CODE_TOPIC_CONFIG) {
        reply(g, 0, f->opaque, FRAME_FLAG_ANSWER, "", "{\"readQueueNums\":2,\"topicName\":\"T\"}");
        return true;
    }
    if (f->code == CODE_HEART_BEAT || f->code == CODE_UNREGISTER || s->manner == ANSWERS) {
        reply(g, f->code == CODE_HEART_BEAT ? 0 : s->answer_code, f->opaque, FRAME_FLAG_ANSWER, s->remark ? s->remark : "", "");
        return true;
    }
    if (s->manner == TALKS_NONSENSE)
        assert_true(write(g->fd, "\xff\xff\xff\xffnonsense", 12) == 12);
    if (s->manner == ASKS_BACK) {
        reply(g, 40, 77, FRAME_FLAG_ONEWAY, "", "");
        reply(g, 307, 78, 0, "", "");
        reply(g, 0, f->opaque + 1000, FRAME_FLAG_ANSWER, "", "");    /* of a question nobody asked */
        reply(g, 0, f->opaque, FRAME_FLAG_ANSWER, "", "");
    }
    if (s->manner == HANGS_UP)
        hang_up(g);
    return s->manner != HANGS_UP;
}

static void guest_event(uv_poll_t *poll, int status, int events)
{
    struct guest *g = container_of(poll, struct guest, poll);
    (void)events;
    ssize_t n = status < 0 ? -1 : read(g->fd, g->bytes + g->n, sizeof g->bytes - g->n);
    if (n <= 0) {
        hang_up(g);
        return;
    }
    g->n += (size_t)n;
    size_t size;
    while (frame_size((struct str){g->bytes, g->n}, &size) && size > 0 && size <= g->n) {
        struct frame f;
        assert_true(frame_decode(g->bytes, size, &f));
        if (!serve_frame(g, &f))
            return;
        memmove(g->bytes, g->bytes + size, g->n - size);
        g->n -= size;
    }
}

static void arrived(uv_poll_t *poll, int status, int events)
{
    struct server *s = container_of(poll, struct server, poll);
    (void)status, (void)events;
    struct guest *g = calloc(1, sizeof *g);
    g->server = s;
    g->fd = accept(s->listener, NULL, NULL);
    s->latest = g;
    uv_poll_init(&loop, &g->poll, g->fd);
    if (s->manner != NEVER_READS)
        uv_poll_start(&g->poll, UV_READABLE, guest_event);
    else if (s->unread_count < countof(s->unread))
        s->unread[s->unread_count++] = g;
}

static void server_open(struct server *s, enum manner manner)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    *s = (struct server){.manner = manner};
    s->listener = socket(AF_INET, SOCK_STREAM, 0);
    int small = 4096;
    setsockopt(s->listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &n), 0);
    s->port = ntohs(a.sin_port);
    if (manner == REFUSES) {    /* a port that nobody listens on */
        close(s->listener);
        return;
    }
    assert_int_equal(listen(s->listener, 16), 0);
    uv_poll_init(&loop, &s->poll, s->listener);
    uv_poll_start(&s->poll, UV_READABLE, arrived);
}

static void server_close(struct server *s)
{
    if (s->manner == REFUSES)
        return;
    for (size_t i = 0; i < s->unread_count; i++)
        hang_up(s->unread[i]);
    uv_close((uv_handle_t *)&s->poll, NULL);
    close(s->listener);
}

/* ---- a bus between a good name server and a bad broker ---- */

static struct server names, broker;
static struct bus *bus;
static uv_timer_t alarm_timer;
static bool closed, rung;

static void ring(uv_timer_t *t) { (void)t, rung = true; }
static void bus_closed(void *arg) { (void)arg, closed = true; }

static void run_until(const bool *flag, unsigned ms)
{
    rung = false;
    uv_timer_start(&alarm_timer, ring, ms, 0);
    uv_timer_set_repeat(&alarm_timer, 0);
    while (!*flag && !rung) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(200);
    }
    uv_timer_stop(&alarm_timer);
}

static const char *name_list;    /* how the name server is written; %d: its port */

static size_t in_flight;    /* 0: as many as usual */

static void set_out(enum manner manner)
{
    char list[128];
    uv_loop_init(&loop);
    uv_timer_init(&loop, &alarm_timer);
    server_open(&names, ANSWERS);
    server_open(&broker, manner);
    snprintf(names.route, sizeof names.route,
             "{\"brokerDatas\":[{\"brokerAddrs\":{0:\"127.0.0.1:%d\"},\"brokerName\":\"b\",\"cluster\":\"c\"}],"
             "\"queueDatas\":[{\"brokerName\":\"b\",\"perm\":6,\"readQueueNums\":2,\"writeQueueNums\":2,\"topicSysFlag\":0}]}", broker.port);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(list, sizeof list, name_list ? name_list : "127.0.0.1:%d", names.port);
#pragma GCC diagnostic pop
    struct rocketmq_options o = {.loop = &loop, .name_servers = str_of(list), .group = str_lit("g"), .send_ms = 400, .ask_ms = 300, .drain_ms = 300, .in_flight = in_flight};
    bus = rocketmq_open(&o);
    assert_non_null(bus);
}

static void go_home(void)
{
    closed = false;
    rocketmq_close(bus, bus_closed, NULL);
    run_until(&closed, 5000);
    assert_true(closed);
    server_close(&names);
    server_close(&broker);
    uv_close((uv_handle_t *)&alarm_timer, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    while (uv_loop_alive(&loop))    /* the guests hear that we have gone */
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(uv_loop_close(&loop), 0);
}

struct told {
    struct waiter waiter;
    bool woken;
    enum reason reason, first;
};

static void told_wake(struct waiter *w, enum reason reason, const void *result)
{
    struct told *t = container_of(w, struct told, waiter);
    const struct send_result *r = result;
    assert_false(t->woken);
    t->woken = true;
    t->reason = t->first = reason;
    if (r && reason == REASON_OK)
        t->first = r->verdicts[0];
}

static void send_one(struct told *t, size_t body_bytes, uint32_t budget_ms)
{
    static char body[4 << 20];
    memset(body, 'x', sizeof body);
    struct bus_message m = {.topic = str_lit("T"), .key = str_lit("k"), .body = {body, body_bytes}};
    *t = (struct told){.waiter = {.wake = told_wake, .budget_ms = budget_ms}};
    bus_send(bus, &m, 1, &t->waiter);
    assert_false(t->woken);
}

static enum reason verdict_when(enum manner manner)
{
    struct told t;
    set_out(manner);
    send_one(&t, 10, 0);
    run_until(&t.woken, 5000);
    assert_true(t.woken);
    go_home();
    return t.first;
}

static void nobody_listens_so_nothing_was_sent(void **state) { (void)state, assert_int_equal(verdict_when(REFUSES), REASON_DEPENDENCY_DOWN); }
static void no_answer_leaves_it_unknown(void **state) { (void)state, assert_int_equal(verdict_when(KEEPS_SILENT), REASON_TIMED_OUT); }
static void a_broken_connection_leaves_it_unknown(void **state) { (void)state, assert_int_equal(verdict_when(HANGS_UP), REASON_LINK_LOST); }
static void nonsense_leaves_it_unknown(void **state) { (void)state, assert_int_equal(verdict_when(TALKS_NONSENSE), REASON_LINK_LOST); }

static void what_the_kernel_did_not_take_was_not_sent(void **state)
{
    (void)state;
    struct told big, small;
    set_out(NEVER_READS);
    send_one(&big, 4 << 20, 0);    /* more than the socket's buffers hold: its last byte never leaves */
    run_until(&big.woken, 5000);
    assert_true(big.woken);
    assert_int_equal(big.first, REASON_DEPENDENCY_DOWN);
    send_one(&small, 10, 0);       /* the connection was given up: the next finds another, or knows that it was not sent */
    run_until(&small.woken, 5000);
    assert_true(small.woken && (small.first == REASON_DEPENDENCY_DOWN || small.first == REASON_TIMED_OUT));
    go_home();
}

static void a_servers_questions_are_answered(void **state)
{
    (void)state;
    struct told t;
    set_out(ASKS_BACK);
    send_one(&t, 10, 0);
    run_until(&t.woken, 2000);
    assert_int_equal(t.first, REASON_OK);
    bool never = false;
    run_until(&never, 50);
    assert_int_equal(broker.asked_back_code, ANSWER_NOT_SUPPORTED);
    go_home();
}

static void every_answer_has_its_fate(void **state)
{
    (void)state;
    static const struct { int code; const char *remark; enum fate fate; } rows[] = {
        {0, "", FATE_DONE}, {10, "", FATE_UNKNOWN}, {11, "", FATE_UNKNOWN}, {12, "", FATE_UNKNOWN}, {2, "[TIMEOUT_CLEAN_QUEUE]", FATE_RETRY},
        {14, "", FATE_RETRY}, {1, "in-sync replicas not enough", FATE_RETRY}, {1, "create mapped file failed, server is busy or broken.", FATE_RETRY},
        {1, "UNKNOWN_ERROR DEFAULT", FATE_UNKNOWN}, {1, "java.lang.NullPointerException", FATE_UNKNOWN}, {13, "", FATE_REFUSED}, {16, "", FATE_RETRY},
        {17, "", FATE_RETRY}, {29, "", FATE_RETRY}, {3, "", FATE_REFUSED}, {215, "", FATE_RETRY}, {501, "", FATE_RETRY}, {1500, "", FATE_RETRY},
        {4711, "", FATE_UNKNOWN}};
    set_out(ANSWERS);
    for (size_t i = 0; i < countof(rows); i++) {
        struct told t;
        broker.answer_code = rows[i].code;
        broker.remark = rows[i].remark;
        send_one(&t, 10, 0);
        run_until(&t.woken, 2000);
        assert_true(t.woken);
        assert_int_equal(reason_fate(t.first), rows[i].fate);
    }
    broker.answer_code = 0;
    go_home();
}

static void a_refused_batch_is_tried_one_by_one(void **state)
{
    (void)state;
    struct told t[3];
    set_out(ANSWERS);
    broker.answer_code = ANSWER_MESSAGE_ILLEGAL;
    for (size_t i = 0; i < countof(t); i++)
        send_one(&t[i], 10, 0);
    run_until(&t[2].woken, 2000);
    for (size_t i = 0; i < countof(t); i++)
        assert_true(t[i].woken && t[i].first == REASON_ENGINE_REFUSED);
    assert_int_equal(broker.sends, 1 + 3);
    broker.answer_code = 0;
    go_home();
}

static void who_gave_up_early_learns_what_is_known_then(void **state)
{
    (void)state;
    struct told t;
    set_out(KEEPS_SILENT);
    names.route[0] = 0;       /* no route: it cannot have been sent */
    send_one(&t, 10, 100);
    run_until(&t.woken, 2000);
    assert_int_equal(t.first, REASON_DEPENDENCY_DOWN);
    assert_int_equal(broker.sends, 0);
    go_home();

    set_out(KEEPS_SILENT);
    send_one(&t, 10, 100);    /* under way: nobody knows */
    run_until(&t.woken, 2000);
    assert_int_equal(t.first, REASON_TIMED_OUT);
    go_home();
}

/* As many as may be under way, one more is not sent, and room comes back with the answers. */
static void messages_have_an_edge(void **state)
{
    (void)state;
    struct told t[4], more, after;
    in_flight = 4;
    set_out(KEEPS_SILENT);
    in_flight = 0;
    for (int i = 0; i < 4; i++)
        send_one(&t[i], 10, 0);
    send_one(&more, 10, 0);
    run_until(&more.woken, 100);
    assert_true(more.woken && !t[0].woken);
    assert_int_equal(more.reason, REASON_OVERLOADED);
    for (int i = 0; i < 4; i++)
        run_until(&t[i].woken, 5000);
    assert_int_equal(t[3].first, REASON_TIMED_OUT);
    send_one(&after, 10, 0);
    run_until(&after.woken, 5000);
    assert_int_equal(after.first, REASON_TIMED_OUT);    /* it was taken */
    go_home();
}

/* ---- one connection's edges: calls under way, and bytes to be written ---- */

static struct due_table own_times;
static bool own_settled;
static void own_closed(struct due_table *t) { (void)t, own_settled = true; }
static void own_link(struct peer_watch *w, struct peer *p) { (void)w, (void)p; }
static size_t ended[REASON_COUNT];
static void own_ended(struct peer_call *c, enum reason reason, const struct frame *f) { (void)c, (void)f, ended[reason]++; }

/* Asks n questions of so many bytes at once; every one ends, once. */
static void fill(enum manner manner, struct peer_call *calls, size_t n, size_t bytes)
{
    static char body[4 << 20];
    struct peer_watch watch = {.up = own_link, .down = own_link};
    char address[32];
    bool never = false;
    memset(ended, 0, sizeof ended);
    uv_loop_init(&loop);
    uv_timer_init(&loop, &alarm_timer);
    server_open(&broker, manner);
    due_table_open(&own_times, &loop, own_closed);
    snprintf(address, sizeof address, "127.0.0.1:%d", broker.port);
    struct peer *p = peer_new(&own_times, &watch, str_of(address));
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) {
        struct frame_writer w = peer_begin(p, CODE_PULL);
        frame_body(&w);
        buf_add(w.out, body, bytes);
        calls[i] = (struct peer_call){.done = own_ended};
        peer_ask(p, &calls[i], &w, 2000);
    }
    run_until(&never, 200);
    size_t refused = ended[REASON_ENGINE_BUSY];
    peer_free(p);
    size_t all = 0;
    for (size_t i = 0; i < REASON_COUNT; i++)
        all += ended[i];
    assert_int_equal(all, n);
    assert_int_equal(ended[REASON_ENGINE_BUSY], refused);
    own_settled = false;
    due_table_close(&own_times);
    server_close(&broker);
    uv_close((uv_handle_t *)&alarm_timer, NULL);
    while (uv_loop_alive(&loop))
        uv_run(&loop, UV_RUN_ONCE);
    assert_true(own_settled);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void a_connection_has_an_edge(void **state)
{
    (void)state;
    static struct peer_call calls[PEER_CALLS_MAX + 500];
    fill(KEEPS_SILENT, calls, countof(calls), 10);
    assert_int_equal(ended[REASON_ENGINE_BUSY], 500);    /* known not to have been sent */
    assert_int_equal(ended[REASON_LINK_LOST] + ended[REASON_DEPENDENCY_DOWN], PEER_CALLS_MAX);
    fill(NEVER_READS, calls, 20, 4 << 20);    /* 80 MiB; none leaves while we are still asking, for the connection is not made yet */
    assert_int_equal(ended[REASON_ENGINE_BUSY], 20 - 7);
}

static void closing_ends_everything_truthfully(void **state)
{
    (void)state;
    struct told t, late;
    bool never = false;
    set_out(KEEPS_SILENT);
    send_one(&t, 10, 30000);
    run_until(&never, 100);
    assert_int_equal(broker.sends, 1);
    closed = false;
    rocketmq_close(bus, bus_closed, NULL);
    send_one(&late, 10, 0);
    run_until(&closed, 5000);
    assert_true(closed && t.woken && late.woken);
    assert_int_equal(reason_fate(t.first), FATE_UNKNOWN);
    assert_int_equal(late.first, REASON_OVERLOADED);
    server_close(&names);
    server_close(&broker);
    uv_close((uv_handle_t *)&alarm_timer, NULL);
    while (uv_loop_alive(&loop))
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void a_route_that_is_gone_is_remembered_for_reading(void **state)
{
    (void)state;
    struct told t;
    set_out(ANSWERS);
    send_one(&t, 10, 0);
    run_until(&t.woken, 2000);
    assert_int_equal(t.first, REASON_OK);
    names.route[0] = 0;
    broker.answer_code = ANSWER_TOPIC_NOT_EXIST;    /* casts doubt: the route is asked for again, and there is none */
    send_one(&t, 10, 0);
    run_until(&t.woken, 2000);
    bool never = false;
    run_until(&never, 1500);
    broker.answer_code = 0;
    send_one(&t, 10, 0);
    run_until(&t.woken, 2000);
    assert_int_equal(t.first, REASON_OK);
    go_home();
}

static void another_name_server_is_asked_when_one_is_away(void **state)
{
    (void)state;
    static const char *const lists[] = {"127.0.0.1:1;127.0.0.1:%d", "nonsense;127.0.0.1:%d;127.0.0.1:1;", "localhost:%d"};
    for (size_t i = 0; i < countof(lists); i++) {
        name_list = lists[i];
        assert_int_equal(verdict_when(ANSWERS), REASON_OK);
    }
    name_list = NULL;
    struct rocketmq_options o = {.loop = &loop, .name_servers = str_lit("no port; :1;host:0;host:99999;host:x")};
    assert_null(rocketmq_open(&o));
}

static uint64_t link_seen;

static void range_wake(struct waiter *w, enum reason reason, const void *result)
{
    struct told *t = container_of(w, struct told, waiter);
    const struct range_answer *r = result;
    t->woken = true;
    t->reason = reason;
    if (reason == REASON_OK)
        link_seen = r->link;
}

static enum reason range_once(void)
{
    struct queue q = {str_lit("b"), str_lit("T"), 0};
    struct told t = {.waiter = {.wake = range_wake}};
    bus_range(bus, &q, &t.waiter);
    run_until(&t.woken, 3000);
    assert_true(t.woken);
    return t.reason;
}

static void a_new_connection_has_a_higher_number(void **state)
{
    (void)state;
    set_out(ANSWERS);
    assert_int_equal(range_once(), REASON_OK);
    uint64_t first = link_seen;
    assert_int_equal(range_once(), REASON_OK);
    assert_true(link_seen == first);
    hang_up(broker.latest);
    enum reason reason = REASON_COUNT;
    for (int tries = 0; tries < 50 && reason != REASON_OK; tries++) {
        bool never = false;
        run_until(&never, 50);
        reason = range_once();
    }
    assert_int_equal(reason, REASON_OK);
    assert_true(link_seen > first);
    go_home();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_listens_so_nothing_was_sent),
        cmocka_unit_test(no_answer_leaves_it_unknown),
        cmocka_unit_test(a_broken_connection_leaves_it_unknown),
        cmocka_unit_test(nonsense_leaves_it_unknown),
        cmocka_unit_test(what_the_kernel_did_not_take_was_not_sent),
        cmocka_unit_test(a_servers_questions_are_answered),
        cmocka_unit_test(every_answer_has_its_fate),
        cmocka_unit_test(a_refused_batch_is_tried_one_by_one),
        cmocka_unit_test(who_gave_up_early_learns_what_is_known_then),
        cmocka_unit_test(messages_have_an_edge),
        cmocka_unit_test(a_connection_has_an_edge),
        cmocka_unit_test(closing_ends_everything_truthfully),
        cmocka_unit_test(a_route_that_is_gone_is_remembered_for_reading),
        cmocka_unit_test(another_name_server_is_asked_when_one_is_away),
        cmocka_unit_test(a_new_connection_has_a_higher_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

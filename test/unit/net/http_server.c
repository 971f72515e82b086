/* SPDX-License-Identifier: Apache-2.0
 * The server on a real loop and real sockets, spoken to byte by byte by plain sockets on the same thread. */
#include "http_server.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "http_client.h"

static uv_loop_t loop;
static struct http_server *server;
static struct http_exchange *later, *streamed;    /* what waits for the test to go on */
static int gone_count, drained_count;
static struct http_ready ready;

static void on_gone(struct http_exchange *x)
{
    gone_count++;
    if (x == later)
        later = NULL;
    if (x == streamed)
        streamed = NULL;
}

static void handle(struct http_exchange *x)
{
    if (!http_exchange_normalize(x)) {
        http_answer(x, 400, (struct str){0}, (struct str){0}, (struct str){0});
        return;
    }
    struct str path = x->request->path;
    if (str_eq(path, str_lit("/now")) || str_eq(path, str_lit("/echo"))) {
        http_answer(x, 200, str_lit("text/plain"), str_eq(path, str_lit("/echo")) ? x->request->body : str_lit("now"), str_lit("X: y\r\n"));
    } else if (str_eq(path, str_lit("/ready"))) {
        http_answer_ready(x, &ready);
    } else if (str_eq(path, str_lit("/large"))) {
        size_t n = 300000;
        char *body = malloc(n);
        memset(body, 'L', n);
        http_answer(x, 200, str_lit("text/plain"), (struct str){body, n}, (struct str){0});
        free(body);
    } else if (str_eq(path, str_lit("/later")) || str_eq(path, str_lit("/later-gone"))) {
        x->gone = path.len > 6 ? on_gone : NULL;
        later = x;
    } else if (str_eq(path, str_lit("/stream"))) {
        x->gone = on_gone;
        streamed = x;
        http_stream_begin(x, 200, str_lit("text/event-stream"), (struct str){0});
        http_stream_send(x, str_lit("one\n"));
    } else if (str_eq(path, str_lit("/none"))) {
        http_answer(x, 204, (struct str){0}, (struct str){0}, (struct str){0});
    } else {
        http_answer(x, 404, (struct str){0}, (struct str){0}, (struct str){0});
    }
}

static void stop(uv_timer_t *t) { uv_stop(t->loop); }

static void run_ms(uint64_t ms)
{
    static uv_timer_t t;
    uv_timer_init(&loop, &t);
    uv_timer_start(&t, stop, ms, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&t, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static struct http_server_config base_config(void)
{
    struct http_server_config k = {.handle = handle, .connections_max = 8, .head_ms = 300, .body_ms = 300, .idle_ms = 600, .write_ms = 500};
    assert_true(address_parse(str_lit("127.0.0.1:0"), &k.listen));
    return k;
}

static void begin_with(struct http_server_config k)
{
    int error = 0;
    later = streamed = NULL;
    gone_count = drained_count = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    server = http_server_open(&loop, &k, &error);
    assert_non_null(server);
}

static void begin(void) { begin_with(base_config()); }

static void end(void)
{
    if (server)
        http_server_close(server);
    server = NULL;
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static int dial(void)
{
    char text[32];
    struct address a;
    int n = snprintf(text, sizeof text, "127.0.0.1:%d", http_server_port(server));
    assert_true(address_parse((struct str){text, (size_t)n}, &a));
    int fd = address_connect(&a);
    assert_true(fd >= 0);
    run_ms(5);
    return fd;
}

static void say(int fd, const char *text) { assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (int)strlen(text)); }

/* What has come within a moment; *closed tells whether the server has ended the connection. */
static struct str hear(int fd, bool *closed)
{
    static char heard[1 << 20];
    size_t len = 0;
    bool end_seen = false;
    for (int quiet = 0; quiet < 3 && !end_seen;) {
        run_ms(4);
        ssize_t n = recv(fd, heard + len, sizeof heard - len - 1, 0);
        if (n > 0)
            len += (size_t)n, quiet = 0;
        else if (n == 0 || errno != EAGAIN)
            end_seen = true;
        else
            quiet++;
    }
    heard[len] = 0;
    if (closed)
        *closed = end_seen;
    return (struct str){heard, len};
}

static size_t count(struct str in, const char *what)
{
    size_t n = 0, len = strlen(what);
    for (size_t i = 0; i + len <= in.len; i++)
        n += memcmp(in.ptr + i, what, len) == 0;
    return n;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"

static void answers_and_stays(void **state)
{
    (void)state;
    begin();
    int fd = dial();
    bool closed;
    for (int i = 0; i < 3; i++) {
        say(fd, GET("/now"));
        struct str in = hear(fd, &closed);
        assert_false(closed);
        assert_true(str_starts(in, str_lit("HTTP/1.1 200 OK\r\nDate: ")));
        assert_int_equal(count(in, "Content-Type: text/plain\r\nContent-Length: 3\r\nX: y\r\n\r\nnow"), 1);
    }
    say(fd, GET("/ready"));
    assert_int_equal(count(hear(fd, NULL), "HTTP/1.1 409 Conflict\r\nDate: "), 1);
    say(fd, "HEAD /ready HTTP/1.1\r\nHost: h\r\n\r\n" GET("/none"));
    struct str in = hear(fd, NULL);
    assert_int_equal(count(in, "Content-Length: 5\r\n\r\nHTTP/1.1 204 No Content\r\n"), 1);
    assert_int_equal(count(in, "hello"), 0);
    assert_int_equal(http_server_stats(server).requests, 6);
    close(fd);
    end();
}

static void pipelined_in_order(void **state)
{
    (void)state;
    begin();
    int fd = dial();
    say(fd, GET("/now") GET("/later") GET("/nowhere") GET("/now"));
    assert_int_equal(count(hear(fd, NULL), "HTTP/1.1 "), 1);    /* the second waits, and those behind it */
    assert_non_null(later);
    http_answer(later, 202, str_lit("text/plain"), str_lit("at last"), (struct str){0});
    struct str in = hear(fd, NULL);
    assert_true(str_starts(in, str_lit("HTTP/1.1 202 ")));
    assert_true(memmem(in.ptr, in.len, "at lastHTTP/1.1 404", 19) != NULL);
    assert_int_equal(count(in, "HTTP/1.1 "), 3);
    for (int i = 0; i < 500; i++)    /* more than one turn takes, more than the input holds at once */
        say(fd, GET("/now"));
    assert_int_equal(count(hear(fd, NULL), "HTTP/1.1 200 "), 500);
    close(fd);
    end();
}

static void body_in_pieces(void **state)
{
    (void)state;
    begin();
    int fd = dial();
    const char text[] = "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    for (size_t i = 0; text[i]; i++) {
        assert_int_equal(send(fd, text + i, 1, MSG_NOSIGNAL), 1);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(count(hear(fd, NULL), "\r\n\r\nabcde"), 1);
    say(fd, "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    struct str in = hear(fd, NULL);
    assert_true(str_eq(in, str_lit("HTTP/1.1 100 Continue\r\n\r\n")));
    say(fd, "ok");
    in = hear(fd, NULL);
    assert_true(str_starts(in, str_lit("HTTP/1.1 200 ")) && count(in, "\r\n\r\nok") == 1);
    close(fd);
    end();
}

static void endings(void **state)
{
    (void)state;
    static const struct {
        const char *in, *in_answer;
        bool closes;
    } rows[] = {
        {"GET /now HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "Connection: close\r\n", true},
        {"GET /ready HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "Connection: close\r\n\r\nhello", true},
        {"GET /now HTTP/1.0\r\n\r\n", "Connection: close\r\n", true},
        {"GET /ready HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "Connection: keep-alive\r\n\r\nhello", false},
        {"GET /now HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "Connection: keep-alive\r\n", false},
        {"GET / HTTP/1.1\r\n\r\n" GET("/now"), "HTTP/1.1 400 ", true},
        {"GET / HTTP/3.0\r\n\r\n", "HTTP/1.1 505 ", true},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999\r\n\r\n", "HTTP/1.1 413 ", true},
    };
    begin();
    for (size_t i = 0; i < countof(rows); i++) {
        int fd = dial();
        bool closed;
        say(fd, rows[i].in);
        struct str in = hear(fd, &closed);
        if (closed != rows[i].closes || count(in, rows[i].in_answer) != 1 || count(in, "HTTP/1.1 ") != 1)
            fail_msg("row %zu: closed %d, " STR_FMT, i, closed, STR_ARG(in));
        close(fd);
    }
    end();
}

/* After a refusal the reason must arrive even while the client still sends. */
static void refusal_is_read(void **state)
{
    (void)state;
    begin();
    int fd = dial();
    say(fd, "BAD\r\n");
    run_ms(5);
    for (int i = 0; i < 50; i++)
        say(fd, "0123456789012345678901234567890123456789");
    assert_int_equal(count(hear(fd, NULL), "HTTP/1.1 400 "), 1);
    close(fd);
    run_ms(20);
    assert_int_equal(http_server_stats(server).connections, 0);
    end();
}

/* Who goes on after a no is heard out for a while, so that he can read it, and not for ever. */
static void refusal_has_an_end(void **state)
{
    (void)state;
    static char flood[64 * 1024];
    begin();
    int fd = dial(), quiet = dial();
    memset(flood, 'x', sizeof flood);
    say(fd, "BAD\r\n");
    say(quiet, "BAD\r\n");
    run_ms(5);
    for (int i = 0; i < 40 && http_server_stats(server).connections == 2; i++) {    /* 2.5 MB are offered */
        (void)!send(fd, flood, sizeof flood, MSG_NOSIGNAL);
        run_ms(5);
    }
    assert_int_equal(http_server_stats(server).connections, 1);
    run_ms(1400);
    assert_int_equal(http_server_stats(server).connections, 0);    /* the other one says nothing more */
    close(fd), close(quiet);
    end();
}

static void reset(int fd)
{
    struct linger hard = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
}

static void a_client_that_closes_its_sending_side_gets_its_answer(void **state)
{
    (void)state;
    begin();
    int fd = dial();
    bool closed;
    say(fd, GET("/later-gone"));
    shutdown(fd, SHUT_WR);
    run_ms(30);
    assert_int_equal(gone_count, 0);
    assert_non_null(later);
    http_answer(later, 200, str_lit("text/plain"), str_lit("late answer"), (struct str){0});
    assert_int_equal(count(hear(fd, &closed), "late answer"), 1);
    assert_true(closed);
    close(fd);

    fd = dial();    /* one that is reset meanwhile is known to have left */
    say(fd, GET("/later-gone"));
    shutdown(fd, SHUT_WR);
    run_ms(10);
    assert_int_equal(gone_count, 0);
    reset(fd);
    run_ms(30);
    assert_int_equal(gone_count, 1);
    assert_int_equal(http_server_stats(server).connections, 0);

    fd = dial();    /* a stream ends: it would never know */
    say(fd, GET("/stream"));
    shutdown(fd, SHUT_WR);
    run_ms(30);
    assert_int_equal(gone_count, 2);
    close(fd);
    end();
}

static int dial_from(uint32_t source)
{
    char text[32];
    struct address a;
    int n = snprintf(text, sizeof text, "127.0.0.1:%d", http_server_port(server));
    assert_true(address_parse((struct str){text, (size_t)n}, &a));
    int fd = address_connect_from(&a, source);
    assert_true(fd >= 0);
    run_ms(5);
    return fd;
}

static bool ended(int fd)
{
    bool closed;
    hear(fd, &closed);
    return closed;
}

/* Eight places: two of one address, the oldest, and six of another. One more client displaces the longest idle of the six, and so on. */
static void the_client_that_holds_most_is_displaced(void **state)
{
    (void)state;
    enum { ONE = 0x7f000001, TWO = 0x7f000002, THREE = 0x7f000003 };
    begin();
    int few[2], many[6];
    for (int i = 0; i < 2; i++)
        few[i] = dial_from(TWO);
    for (int i = 0; i < 6; i++)
        many[i] = dial_from(ONE);
    say(many[0], GET("/now"));    /* the most recently active of its address now */
    assert_int_equal(count(hear(many[0], NULL), "HTTP/1.1 200 "), 1);
    int more = dial_from(THREE);
    say(more, GET("/now"));
    assert_int_equal(count(hear(more, NULL), "HTTP/1.1 200 "), 1);
    assert_true(ended(many[1]));
    assert_int_equal(http_server_stats(server).displaced, 1);
    assert_int_equal(http_server_stats(server).turned_away, 0);
    int again = dial_from(ONE);    /* the one who holds most displaces its own */
    say(again, GET("/now"));
    assert_int_equal(count(hear(again, NULL), "HTTP/1.1 200 "), 1);
    assert_true(ended(many[2]));
    assert_int_equal(http_server_stats(server).displaced, 2);
    for (int i = 0; i < 2; i++) {
        say(few[i], GET("/now"));
        assert_int_equal(count(hear(few[i], NULL), "HTTP/1.1 200 "), 1);
    }
    say(many[3], GET("/later"));    /* a request under way is never displaced, nor is one whose bytes are there unread */
    run_ms(5);
    say(many[4], GET("/now"));
    int last = dial_from(THREE);
    assert_int_equal(count(hear(many[4], NULL), "HTTP/1.1 200 "), 1);
    http_answer(later, 200, str_lit("text/plain"), str_lit("kept"), (struct str){0});
    assert_int_equal(count(hear(many[3], NULL), "kept"), 1);
    for (int i = 0; i < 2; i++)
        close(few[i]);
    for (int i = 0; i < 6; i++)
        close(many[i]);
    close(more), close(again), close(last);
    end();
}

static void escapes_of_a_target_are_decoded_once(void **state)
{
    (void)state;
    static const struct { const char *target; int status; } rows[] = {
        {"/now", 200}, {"/%6eow", 200}, {"/%6Eow", 200}, {"/%6E%6F%77", 200}, {"/no%77?x=%", 400}, {"/%256eow", 404}, {"/now%20", 404}, {"/now%2F", 400}, {"/now%2f", 400},
        {"/%00", 400}, {"/now%00", 400}, {"/a%2Fb", 400}, {"/a%252Fb", 404}, {"/now?a=%2F%00", 200}, {"/%6", 400}, {"/%zz", 400}, {"/no%7", 400},
    };
    begin();
    for (size_t i = 0; i < countof(rows); i++) {
        char request[128], status[32];
        int fd = dial();
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", rows[i].target);
        snprintf(status, sizeof status, "HTTP/1.1 %d ", rows[i].status);
        say(fd, request);
        if (count(hear(fd, NULL), status) != 1)
            fail_msg("%s: not %d", rows[i].target, rows[i].status);
        close(fd);
    }
    end();
}

static void leaving_closes_each_connection_with_its_next_answer(void **state)
{
    (void)state;
    begin();
    int idle = dial(), asked = dial();
    bool closed;
    http_server_leave(server);
    say(asked, GET("/now"));
    struct str in = hear(asked, &closed);
    assert_int_equal(count(in, "HTTP/1.1 200 "), 1);
    assert_int_equal(count(in, "Connection: close\r\n"), 1);
    assert_true(closed);
    int fresh = dial();    /* the port is still open */
    say(fresh, GET("/ready"));
    in = hear(fresh, &closed);
    assert_int_equal(count(in, "Connection: close\r\n"), 1);
    assert_true(closed);
    assert_false(ended(idle));
    close(idle), close(asked), close(fresh);
    end();
}

static void clients_who_leave(void **state)
{
    (void)state;
    begin();
    int fd = dial();
    say(fd, GET("/later-gone"));
    run_ms(5);
    assert_non_null(later);
    reset(fd);
    run_ms(10);
    assert_int_equal(gone_count, 1);
    assert_null(later);
    assert_int_equal(http_server_stats(server).in_flight, 0);

    fd = dial();    /* nobody asked to be told: the exchange lives until it is answered, to nobody */
    say(fd, GET("/later"));
    run_ms(5);
    struct linger hard = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
    run_ms(10);
    assert_non_null(later);
    assert_true(str_eq(later->request->path, str_lit("/later")));
    http_answer(later, 200, str_lit("text/plain"), str_lit("x"), (struct str){0});
    assert_int_equal(http_server_stats(server).in_flight, 0);
    run_ms(5);
    assert_int_equal(http_server_stats(server).connections, 0);

    fd = dial();    /* half closed: he reads on */
    say(fd, GET("/now") GET("/later"));
    shutdown(fd, SHUT_WR);
    run_ms(10);
    http_answer(later, 200, str_lit("text/plain"), str_lit("still there"), (struct str){0});
    bool closed;
    assert_int_equal(count(hear(fd, &closed), "still there"), 1);
    assert_true(closed);
    close(fd);
    end();
}

static void deadlines(void **state)
{
    (void)state;
    begin();
    int idle = dial(), head = dial(), body = dial(), busy = dial();
    bool closed;
    say(head, "GET / HTTP/1.1\r\nHo");
    say(body, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    say(busy, GET("/later"));
    run_ms(150);
    say(head, "s");    /* a byte now and then buys no time */
    run_ms(400);
    assert_int_equal(count(hear(head, &closed), "HTTP/1.1 408 "), 1);
    assert_true(closed);
    assert_int_equal(count(hear(body, &closed), "HTTP/1.1 408 "), 1);
    assert_true(closed);
    run_ms(400);
    assert_int_equal(hear(idle, &closed).len, 0);
    assert_true(closed);
    assert_int_equal(hear(busy, &closed).len, 0);
    assert_false(closed);    /* we are the slow one there */
    http_answer(later, 200, str_lit("text/plain"), str_lit("x"), (struct str){0});
    assert_int_equal(count(hear(busy, NULL), "HTTP/1.1 200 "), 1);
    close(idle), close(head), close(body), close(busy);
    end();
}

static void full_house(void **state)
{
    (void)state;
    begin();
    int fds[8];
    bool closed;
    for (int i = 0; i < 8; i++) {
        fds[i] = dial();
        say(fds[i], "GET /now HT");    /* none is idle */
    }
    int ninth = dial();
    struct str in = hear(ninth, &closed);
    assert_int_equal(count(in, "HTTP/1.1 503 "), 1);
    assert_int_equal(count(in, "Retry-After: 1\r\n"), 1);
    assert_true(closed);
    assert_int_equal(http_server_stats(server).turned_away, 1);
    close(ninth);
    close(fds[0]);
    run_ms(10);
    fds[0] = dial();
    say(fds[0], "GET /now HT");
    for (int i = 0; i < 8; i++) {
        say(fds[i], "TP/1.1\r\nHost: h\r\n\r\n");
        assert_int_equal(count(hear(fds[i], NULL), "HTTP/1.1 200 "), 1);
    }
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    end();
}

static void slow_readers(void **state)
{
    (void)state;
    begin();
    int fd = dial(), small = 4096;
    say(fd, GET("/large") GET("/now"));
    size_t letters = 0, answers = 0;
    for (int i = 0; i < 200 && answers < 2; i++) {
        struct str in = hear(fd, NULL);
        letters += count(in, "LLLLL");
        answers += count(in, "Length: 300000") + count(in, "\r\n\r\nnow");
    }
    assert_int_equal(answers, 2);
    assert_in_range(letters, 250000, 300000);    /* a run that is cut by two hearings loses a few */
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int i = 0; i < 40; i++)    /* 12 MB are wanted and never read: it stops reading, then cuts */
        say(fd, GET("/large"));
    run_ms(1200);
    assert_int_equal(http_server_stats(server).connections, 0);
    assert_int_equal(http_server_stats(server).cut, 1);
    close(fd);
    end();
}

static void streams(void **state)
{
    (void)state;
    begin();
    int fd = dial();
    say(fd, GET("/stream") GET("/now"));
    struct str in = hear(fd, NULL);
    assert_int_equal(count(in, "Transfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"), 1);
    assert_true(http_stream_send(streamed, str_lit("two\n")));
    assert_true(str_eq(hear(fd, NULL), str_lit("4\r\ntwo\n\r\n")));
    http_stream_end(streamed);
    in = hear(fd, NULL);
    assert_true(str_starts(in, str_lit("0\r\n\r\nHTTP/1.1 200 OK\r\n")));
    say(fd, GET("/stream"));
    run_ms(5);
    close(fd);
    run_ms(10);
    assert_int_equal(gone_count, 1);
    assert_null(streamed);

    fd = dial();    /* HTTP/1.0 knows no chunks: the end of the connection is the end */
    say(fd, "GET /stream HTTP/1.0\r\n\r\n");
    run_ms(5);
    http_stream_end(streamed);
    bool closed;
    in = hear(fd, &closed);
    assert_true(closed && count(in, "Connection: close\r\n\r\none\n") == 1);
    close(fd);
    end();
}

static void on_drained(void *arg)
{
    (void)arg;
    drained_count++;
}

static void drains(void **state)
{
    (void)state;
    begin();
    int idle = dial(), busy = dial(), partial = dial();
    bool closed;
    say(busy, GET("/later"));
    say(partial, "GET /now HTTP/1.1\r\n");
    run_ms(10);
    say(idle, GET("/now"));    /* came before the drain, not yet seen */
    http_server_drain(server, 2000, on_drained, NULL);
    struct str in = hear(idle, &closed);
    assert_true(closed && count(in, "HTTP/1.1 200 ") == 1 && count(in, "Connection: close\r\n") == 1);
    say(partial, "Host: h\r\n\r\n");
    in = hear(partial, &closed);
    assert_true(closed && count(in, "HTTP/1.1 200 ") == 1);
    run_ms(250);
    assert_int_equal(drained_count, 0);
    http_answer(later, 200, str_lit("text/plain"), str_lit("x"), (struct str){0});
    in = hear(busy, &closed);
    assert_true(closed && count(in, "Connection: close\r\n") == 1);
    run_ms(250);
    assert_int_equal(drained_count, 1);
    close(idle), close(busy), close(partial);
    end();
}

static void drain_deadline(void **state)
{
    (void)state;
    begin();
    int fd = dial();
    say(fd, GET("/later-gone"));
    run_ms(5);
    http_server_drain(server, 200, on_drained, NULL);
    run_ms(700);
    assert_int_equal(gone_count, 1);
    assert_int_equal(drained_count, 1);
    close(fd);
    end();
}

static void close_with_everything_open(void **state)
{
    (void)state;
    begin();
    int a = dial(), b = dial(), c = dial();
    say(a, GET("/later-gone"));
    say(b, "GET /");
    run_ms(5);
    http_server_close(server);
    server = NULL;
    assert_int_equal(gone_count, 1);
    close(a), close(b), close(c);
    end();
}

static void unix_socket(void **state)
{
    (void)state;
    char path[64], text[80];
    snprintf(path, sizeof path, "/tmp/seckill-http-%d", (int)getpid());
    snprintf(text, sizeof text, "unix:%s", path);
    struct http_server_config k = base_config();
    assert_true(address_parse(str_of(text), &k.listen));
    begin_with(k);
    int fd = address_connect(&k.listen);
    assert_true(fd >= 0);
    say(fd, GET("/now"));
    assert_int_equal(count(hear(fd, NULL), "HTTP/1.1 200 "), 1);
    close(fd);
    end();
    assert_int_equal(access(path, F_OK), -1);
    int stale = address_listen(&k.listen, false, 1);    /* a file left behind by the dead is taken over */
    close(stale);
    assert_int_equal(access(path, F_OK), 0);
    begin_with(k);
    end();
}

static void addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good, loopback;
    } rows[] = {{"127.0.0.1:80", true, true}, {"127.9.9.9:0", true, true}, {"0.0.0.0:8480", true, false}, {"[::1]:1", true, true}, {"[::]:1", true, false},
                {"localhost:8480", true, true}, {"unix:/tmp/x", true, true}, {"unix:", false, false}, {"10.0.0.1:1", true, false}, {"127.0.0.1", false, false},
                {"127.0.0.1:", false, false}, {":80", false, false}, {"::1:80", false, false}, {"127.0.0.1:65536", false, false}, {"example.com:80", false, false}, {"", false, false}};
    for (size_t i = 0; i < countof(rows); i++) {
        struct address a;
        if (address_parse(str_of(rows[i].text), &a) != rows[i].good || (rows[i].good && address_is_loopback(&a) != rows[i].loopback))
            fail_msg("%s", rows[i].text);
    }
}

/* ---- the client, against the server ---- */

struct asked {
    struct http_call call;
    char request[256];
    int status, done;
    enum http_outcome outcome;
    char body[64];
};

static void on_done(struct http_call *call, enum http_outcome outcome, const struct http_reply *reply)
{
    struct asked *a = container_of(call, struct asked, call);
    a->done++;
    a->outcome = outcome;
    if (reply) {
        a->status = reply->status;
        snprintf(a->body, sizeof a->body, STR_FMT, (int)(reply->body.len < 40 ? reply->body.len : 40), reply->body.ptr);
    }
}

static void ask(struct http_client *c, struct asked *a, struct str method, struct str target, struct str body)
{
    struct buf b = buf_fixed(a->request, sizeof a->request);
    http_request_write(&b, method, target, str_lit("h"), (struct str){0}, str_lit("text/plain"), body);
    assert_true(buf_ok(&b));
    a->call = (struct http_call){.done = on_done, .request = buf_str(&b)};
    assert_true(http_client_send(c, &a->call));
    assert_int_equal(a->done, 0);
}

static struct http_client *client_open(size_t connections)
{
    struct http_client_config k = {.connections_max = connections, .timeout_ms = 400};
    char text[32];
    snprintf(text, sizeof text, "127.0.0.1:%d", http_server_port(server));
    assert_true(address_parse(str_of(text), &k.address));
    return http_client_open(&loop, &k);
}

static void client_asks(void **state)
{
    (void)state;
    static struct asked asked[50];
    memset(asked, 0, sizeof asked);
    begin();
    struct http_client *c = client_open(3);
    for (size_t i = 0; i < 50; i++)
        ask(c, &asked[i], i % 2 ? str_lit("POST") : str_lit("GET"), i % 2 ? str_lit("/echo") : i % 4 ? str_lit("/none") : str_lit("/now"), i % 2 ? str_lit("echo") : (struct str){0});
    run_ms(100);
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(asked[i].done, 1);
        assert_int_equal(asked[i].outcome, HTTP_REPLIED);
        assert_int_equal(asked[i].status, i % 2 || i % 4 == 0 ? 200 : 204);
        assert_string_equal(asked[i].body, i % 2 ? "echo" : i % 4 ? "" : "now");
    }
    assert_int_equal(http_server_stats(server).accepted, 3);

    run_ms(1000);    /* the server closes what idles; the next call opens anew */
    memset(asked, 0, sizeof asked);
    ask(c, &asked[0], str_lit("GET"), str_lit("/now"), (struct str){0});
    ask(c, &asked[1], str_lit("GET"), str_lit("/later"), (struct str){0});
    run_ms(50);
    assert_int_equal(asked[0].outcome, HTTP_REPLIED);
    assert_int_equal(asked[1].done, 0);
    run_ms(600);
    assert_int_equal(asked[1].done, 1);
    assert_int_equal(asked[1].outcome, HTTP_LOST);
    http_answer(later, 200, str_lit("text/plain"), str_lit("too late"), (struct str){0});
    http_client_close(c);
    end();
}

static void client_alone(void **state)
{
    (void)state;
    static struct asked asked[3];
    memset(asked, 0, sizeof asked);
    begin();
    struct http_client *c = client_open(1);
    ask(c, &asked[0], str_lit("GET"), str_lit("/later"), (struct str){0});
    run_ms(20);
    ask(c, &asked[1], str_lit("GET"), str_lit("/now"), (struct str){0});
    http_client_close(c);
    assert_int_equal(asked[0].outcome, HTTP_LOST);
    assert_int_equal(asked[1].outcome, HTTP_NOT_SENT);
    http_answer(later, 200, str_lit("text/plain"), str_lit("x"), (struct str){0});
    run_ms(20);
    c = client_open(1);
    http_server_close(server);
    server = NULL;
    run_ms(20);
    ask(c, &asked[2], str_lit("POST"), str_lit("/now"), str_lit("x"));
    run_ms(50);
    assert_int_equal(asked[2].done, 1);
    assert_int_equal(asked[2].outcome, HTTP_NOT_SENT);
    http_client_close(c);
    end();
}

static size_t drained(int fd)
{
    static char bytes[1 << 20];
    size_t sum = 0;
    for (ssize_t n; (n = recv(fd, bytes, sizeof bytes, 0)) > 0;)
        sum += (size_t)n;
    return sum;
}

/* Requests that wait behind a long answer get their turn whoever notices first that the slow reader has read: the socket, or the turn of those who wait. */
static void who_waits_behind_a_long_answer(void **state)
{
    (void)state;
    struct http_server_config k = base_config();
    k.write_ms = 5000;
    begin_with(k);
    enum { ASKED = 500, LARGE = 300000 };
    int slow = dial(), busy = dial();
    static char asks[200 * 40];
    size_t sum = 0;
    for (int i = 0; i < 200; i++)
        strcat(asks, "GET /now HTTP/1.1\r\nHost: a\r\n\r\n");
    for (int i = 0; i < ASKED; i++)
        say(slow, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    for (int i = 1, pause = 1, reads_at = 1; i < 5000 && sum < (size_t)ASKED * LARGE; i++) {
        send(busy, asks, strlen(asks), MSG_NOSIGNAL);    /* more than one turn's worth: so there is another, before the sockets are looked at */
        uv_run(&loop, UV_RUN_NOWAIT);
        drained(busy);
        if (i < reads_at)
            continue;
        sum += drained(slow);    /* after ever longer pauses: after one of them right when his socket has become full */
        reads_at = i + (pause = pause % 60 + 1);
    }
    struct str rest = hear(slow, NULL);
    assert_int_equal(count(rest, "408"), 0);
    assert_true(sum + rest.len >= (size_t)ASKED * LARGE);
    close(slow);
    close(busy);
    run_ms(10);
    end();
}

int main(void)
{
    ready = http_ready_make(409, str_lit("text/plain"), str_lit("hello"), (struct str){0});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses), cmocka_unit_test(answers_and_stays), cmocka_unit_test(pipelined_in_order), cmocka_unit_test(who_waits_behind_a_long_answer), cmocka_unit_test(body_in_pieces),
        cmocka_unit_test(endings), cmocka_unit_test(refusal_is_read), cmocka_unit_test(refusal_has_an_end), cmocka_unit_test(clients_who_leave), cmocka_unit_test(deadlines),
        cmocka_unit_test(full_house), cmocka_unit_test(the_client_that_holds_most_is_displaced),
        cmocka_unit_test(a_client_that_closes_its_sending_side_gets_its_answer), cmocka_unit_test(escapes_of_a_target_are_decoded_once),
        cmocka_unit_test(leaving_closes_each_connection_with_its_next_answer), cmocka_unit_test(slow_readers), cmocka_unit_test(streams), cmocka_unit_test(drains),
        cmocka_unit_test(drain_deadline), cmocka_unit_test(close_with_everything_open), cmocka_unit_test(unix_socket),
        cmocka_unit_test(client_asks), cmocka_unit_test(client_alone),
    };
    int failed = cmocka_run_group_tests_name("http_server", tests, NULL, NULL);
    http_ready_free(&ready);
    return failed;
}

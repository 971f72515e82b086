/* SPDX-License-Identifier: Apache-2.0
 * Every request of http_cases.def against the server itself, over a socket: cut in two at every byte, and with another straight behind it, cut at
 * every byte too. The server's handler says what it has understood. What is refused is told so, and the connection ends. */
#include "http_server.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "check.h"
#include "http_cases.h"

static uv_loop_t loop;
static struct http_server *server;
static struct address place;

static void handle(struct http_exchange *x)
{
    char text[1024];
    struct buf seen = buf_fixed(text, sizeof text);
    case_see(x->request, &seen);
    buf_add_char(&seen, '\n');
    check(buf_ok(&seen));
    /* HEAD has no body to say it in. */
    char line[1100];
    struct buf extra = buf_fixed(line, sizeof line);
    buf_add_fmt(&extra, "Seen: " STR_FMT "\r\n", (int)seen.len - 1, seen.ptr);
    http_answer(x, 200, (struct str){0}, (struct str){0}, buf_str(&extra));
}

static int open_server(void **state)
{
    (void)state;
    char text[64];
    int error = 0, n = snprintf(text, sizeof text, "unix:/tmp/seckill-http-cases.%d", (int)getpid());
    struct http_server_config k = {.handle = handle, .connections_max = 8, .limits = case_limits};
    if (!address_parse((struct str){text, (size_t)n}, &k.listen) || uv_loop_init(&loop) != 0)
        return -1;
    place = k.listen;
    server = http_server_open(&loop, &k, &error);
    return server ? 0 : -1;
}

static int close_server(void **state)
{
    (void)state;
    http_server_close(server);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void send_part(int fd, struct str part)
{
    if (part.len > 0 && send(fd, part.ptr, part.len, MSG_NOSIGNAL) < 0)
        assert_true(errno == EPIPE || errno == ECONNRESET);    /* it had enough already */
    for (int i = 0; i < 2; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
}

/* All the server says to these bytes, cut at `cut`; *ended: it has closed the connection after it. */
static struct str say(struct str in, size_t cut, bool *ended)
{
    static char heard[16384];
    size_t len = 0;
    int fd = address_connect(&place);
    assert_true(fd >= 0);
    *ended = false;
    for (int i = 0; i < 2; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    send_part(fd, (struct str){in.ptr, cut});
    send_part(fd, (struct str){in.ptr + cut, in.len - cut});
    for (int quiet = 0; quiet < 3 && !*ended;) {
        ssize_t n = recv(fd, heard + len, sizeof heard - len - 1, MSG_DONTWAIT);
        len += n > 0 ? (size_t)n : 0;
        *ended = n == 0 || (n < 0 && errno != EAGAIN);
        quiet = n > 0 ? 0 : quiet + 1;
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    close(fd);
    for (int i = 0; i < 2; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    heard[len] = 0;
    return (struct str){heard, len};
}

/* What it has understood, in the order it came: true and the next one; *from moves on. "100 Continue" is passed over. */
static bool next_seen(const char **from, char out[1024])
{
    const char *at = strstr(*from, "\r\nSeen: ");
    if (!at)
        return false;
    at += 8;
    size_t n = strcspn(at, "\r");
    assert_true(n < 1024);
    memcpy(out, at, n);
    out[n] = 0;
    *from = at + n;
    return true;
}

/* The server answers "continue" by itself: its handler may find the wish fulfilled. */
static bool seen_as(const char *seen, const char *wanted)
{
    static const char wish[] = " continue";
    const char *a = strstr(seen, wish), *b = strstr(wanted, wish);
    size_t head = b ? (size_t)(b - wanted) : 0;
    if (a || !b)
        return strcmp(seen, wanted) == 0;
    return strncmp(seen, wanted, head) == 0 && strcmp(seen + head, b + sizeof wish - 1) == 0;
}

static void good_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(goods); i++)
        for (size_t cut = 0; cut <= goods[i].in.len; cut++) {
            bool ended, closes = strstr(goods[i].seen, " close ") != NULL;
            char seen[1024] = "";
            const char *at = say(goods[i].in, cut, &ended).ptr, *all = at;
            if (!next_seen(&at, seen) || !seen_as(seen, goods[i].seen) || ended != closes || strstr(at, "HTTP/1.1 "))
                fail_msg("%s, cut at %zu: [%s]%s, all of it: %s", goods[i].name, cut, seen, ended ? " and closed" : "", all);
        }
}

static void bad_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(bads); i++)
        for (size_t cut = 0; cut <= bads[i].in.len; cut++) {
            bool ended;
            char status[32];
            struct str heard = say(bads[i].in, cut, &ended);
            snprintf(status, sizeof status, "HTTP/1.1 %d ", bads[i].status);
            const char *at = strncmp(heard.ptr, "HTTP/1.1 100 ", 13) == 0 ? heard.ptr + 25 : heard.ptr;
            if (strncmp(at, status, strlen(status)) != 0 || !strstr(at, "Connection: close\r\n") || strstr(at, "\r\nSeen: ") || strstr(at + 1, "HTTP/1.1 "))
                fail_msg("%s, cut at %zu: %s", bads[i].name, cut, heard.ptr);
        }
}

/* Two in a row: the second is answered behind the first, or not at all where the first was the last; behind a bad one comes nothing. */
static void pipelines(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(goods); i++) {
        const struct good *one = &goods[i], *two = &goods[(i * 31 + 7) % countof(goods)];
        char both[2048], seen[1024] = "";
        struct str in = {both, one->in.len + two->in.len};
        memcpy(both, one->in.ptr, one->in.len);
        memcpy(both + one->in.len, two->in.ptr, two->in.len);
        bool ended, alone = strstr(one->seen, " close ") != NULL;
        for (size_t cut = 0; cut <= in.len; cut++) {
            const char *at = say(in, cut, &ended).ptr, *all = at;
            bool first = next_seen(&at, seen) && seen_as(seen, one->seen), second = next_seen(&at, seen);
            if (!first || second == alone || (second && !seen_as(seen, two->seen)) || next_seen(&at, seen))
                fail_msg("%s and %s, cut at %zu: %s", one->name, two->name, cut, all);
        }
    }
    for (size_t i = 0; i < countof(bads); i++) {
        char both[4096];
        bool ended;
        struct str tail = str_lit("GET /behind HTTP/1.1\r\nHost: h\r\n\r\n");
        memcpy(both, bads[i].in.ptr, bads[i].in.len);
        memcpy(both + bads[i].in.len, tail.ptr, tail.len);
        if (strstr(say((struct str){both, bads[i].in.len + tail.len}, bads[i].in.len, &ended).ptr, "\r\nSeen: "))
            fail_msg("behind %s something was heard", bads[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(good_requests), cmocka_unit_test(bad_requests), cmocka_unit_test(pipelines)};
    return cmocka_run_group_tests_name("http_server_cases", tests, open_server, close_server);
}

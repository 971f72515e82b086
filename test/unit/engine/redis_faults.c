/* SPDX-License-Identifier: Apache-2.0
 * redis_faults.c: the Redis engine against a server that lies, sleeps, stammers and hangs up. The server lives on the test's own
 * loop and answers each EVALSHA as the test wrote down; what is asked is the fate that the caller hears. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>

#include "metric.h"
#include "redis.h"

/* ---- the server ------------------------------------------------------------------------------------------------------------ */

#define SILENCE NULL
static const char hang_up[] = "(hang up)", reset[] = "(reset)";    /* compared by address */
#define ANSWER_NOSCRIPT "-NOSCRIPT No matching script. Please use EVAL.\r\n"
#define ANSWER_BUSY "-BUSY Redis is busy running a script.\r\n"
#define ANSWER_EMPTY "*6\r\n:%d\r\n:7\r\n:1000\r\n$0\r\n\r\n:1\r\n:0\r\n"    /* of reserve.lua, without an entry */

struct server {
    uv_tcp_t listener;
    uv_tcp_t *peer;              /* the last one that came */
    redisReader *reader;
    int port;
    const char *const *answers;  /* to each EVALSHA in turn; after the last, the last again */
    size_t answer_count;
    size_t calls, loads, connects;
    const char *info;            /* to INFO */
    const char *greeting;        /* to everything else */
    char auth[128], select[16];
    bool deaf;                   /* reads nothing */
};

#define INFO_SAYS \
    "$117\r\n# Server\r\nrun_id:1111111111222222222233333333334444444444\r\n\r\nmaster_replid:5555555555666666666677777777778888888888\r\n\r\n"
#define INCARNATION "11111111112222222222-55555555556666666666"

static uv_loop_t loop;
static struct server server;
static struct store *store;

static void gone(uv_handle_t *h) { free(h); }

static void drop_peer(void)
{
    if (server.peer)
        uv_close((uv_handle_t *)server.peer, gone);
    server.peer = NULL;
}

static void say(const char *bytes)
{
    if (!server.peer || bytes == SILENCE)
        return;
    if (bytes == reset) {
        uv_tcp_close_reset(server.peer, gone);
        server.peer = NULL;
        return;
    }
    if (bytes == hang_up) {
        drop_peer();
        return;
    }
    uv_buf_t b = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)strlen(bytes));
    assert_int_equal(uv_try_write((uv_stream_t *)server.peer, &b, 1), (int)b.len);
}

static void obey(const redisReply *command)
{
    const char *verb = command->element[0]->str;
    if (strcmp(verb, "EVALSHA") == 0) {
        size_t at = server.calls++;
        if (server.answer_count > 0)
            say(server.answers[at < server.answer_count ? at : server.answer_count - 1]);
        return;
    }
    server.loads += strcmp(verb, "SCRIPT") == 0;
    if (strcmp(verb, "AUTH") == 0)
        snprintf(server.auth, sizeof server.auth, "%s %s", command->element[1]->str, command->elements > 2 ? command->element[2]->str : "");
    if (strcmp(verb, "SELECT") == 0)
        snprintf(server.select, sizeof server.select, "%s", command->element[1]->str);
    say(strcmp(verb, "INFO") == 0 && server.greeting[0] == '+' && server.info ? server.info : server.greeting);
}

static void room(uv_handle_t *h, size_t wanted, uv_buf_t *out)
{
    (void)h;
    *out = uv_buf_init(malloc(wanted), (unsigned)wanted);
}

static void heard(uv_stream_t *peer, ssize_t n, const uv_buf_t *bytes)
{
    if (n > 0 && peer == (uv_stream_t *)server.peer) {
        assert_int_equal(redisReaderFeed(server.reader, bytes->base, (size_t)n), REDIS_OK);
        void *command = NULL;
        while (server.peer && redisReaderGetReply(server.reader, &command) == REDIS_OK && command) {
            obey(command);
            freeReplyObject(command);
        }
    } else if (n < 0 && peer == (uv_stream_t *)server.peer) {
        drop_peer();
    }
    free(bytes->base);
}

static void came(uv_stream_t *listener, int status)
{
    assert_int_equal(status, 0);
    drop_peer();
    server.connects++;
    server.peer = calloc(1, sizeof *server.peer);
    redisReaderFree(server.reader);
    server.reader = redisReaderCreate();
    assert_int_equal(uv_tcp_init(&loop, server.peer), 0);
    assert_int_equal(uv_accept(listener, (uv_stream_t *)server.peer), 0);
    if (!server.deaf)
        uv_read_start((uv_stream_t *)server.peer, room, heard);
}

static void listen_on(int port)
{
    struct sockaddr_in a;
    uv_ip4_addr("127.0.0.1", port, &a);
    assert_int_equal(uv_tcp_init(&loop, &server.listener), 0);
    assert_int_equal(uv_tcp_bind(&server.listener, (const struct sockaddr *)&a, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&server.listener, 8, came), 0);
    int length = sizeof a;
    uv_tcp_getsockname(&server.listener, (struct sockaddr *)&a, &length);
    server.port = ntohs(a.sin_port);
}

/* ---- the caller ------------------------------------------------------------------------------------------------------------ */

struct heard {
    struct waiter waiter;
    int woken;
    enum reason reason;
    enum reason verdicts[STORE_BATCH_MAX];
    size_t count;
    bool batch;
};

static void wake(struct waiter *w, enum reason reason, const void *result)
{
    struct heard *h = container_of(w, struct heard, waiter);
    h->woken++;
    h->reason = reason;
    if (h->batch && result) {
        const struct batch_result *r = result;
        h->count = r->count;
        memcpy(h->verdicts, r->verdicts, r->count * sizeof *h->verdicts);
    }
}

static void ran_out(uv_timer_t *t)
{
    *(bool *)t->data = true;
    uv_stop(t->loop);    /* or this turn goes to sleep, and nothing is left to wake it */
}

/* Until *flag is not 0, or for so long. */
static void turn_until(const int *flag, unsigned ms)
{
    static uv_timer_t timer;
    static bool out;
    out = false;
    timer.data = &out;
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, ran_out, ms, 0);
    while (!out && !(flag && *flag))
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void ask(struct heard *h, uint32_t budget_ms)
{
    *h = (struct heard){.waiter = {.wake = wake, .budget_ms = budget_ms}};
    struct reserve_ask a = {.bucket = {str_lit("act"), 1, 0}, .user = str_lit("u"), .sku = str_lit("s"), .request = str_lit("r"), .user_hash = 1};
    store_reserve(store, &a, &h->waiter);
    assert_int_equal(h->woken, 0);    /* never inside the call */
    assert_true(waiter_busy(&h->waiter));
}

static enum reason await(struct heard *h)
{
    turn_until(&h->woken, 3000);
    assert_int_equal(h->woken, 1);
    return h->reason;
}

static enum reason asked(uint32_t budget_ms)
{
    struct heard h;
    ask(&h, budget_ms);
    return await(&h);
}

static void settle(struct heard *h, uint32_t budget_ms, size_t count, uint8_t buckets)
{
    *h = (struct heard){.waiter = {.wake = wake, .budget_ms = budget_ms}, .batch = true};
    struct settle_ask a[STORE_BATCH_MAX];
    for (size_t i = 0; i < count; i++)
        a[i] = (struct settle_ask){.bucket = {str_lit("act"), 1, (uint8_t)(i % buckets)}, .user = str_lit("u"), .to = RESERVATION_PUBLISHED};
    store_settle(store, a, count, &h->waiter);
    assert_int_equal(h->woken, 0);
}

static struct redis_options options_now(char *url, size_t size)
{
    snprintf(url, size, "redis://:pw%%20d@127.0.0.1:%d/3", server.port);
    struct redis_options o = redis_options_default();
    o.loop = &loop;
    o.url = str_of(url);
    o.retry_first_ms = 10;
    o.retry_most_ms = 40;
    return o;
}

static void come_up(void)
{
    for (int i = 0; i < 300 && !redis_up(store); i++)
        turn_until(NULL, 10);
    assert_true(redis_up(store));
}

static void with(size_t count, const char *const *answers)
{
    server.answers = answers;
    server.answer_count = count;
    server.calls = server.loads = 0;
}
#define ANSWERS(...) with(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

static void open_with(struct redis_options o)
{
    store = redis_open(&o);
    assert_non_null(store);
    come_up();
}

static int setup(void **state)
{
    (void)state;
    log_level_set(LEVEL_FATAL);
    server = (struct server){.greeting = "+OK\r\n", .info = INFO_SAYS};
    assert_int_equal(uv_loop_init(&loop), 0);
    listen_on(0);
    char url[64];
    open_with(options_now(url, sizeof url));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (store)
        redis_close(store, NULL, NULL);
    store = NULL;
    drop_peer();
    if (!uv_is_closing((uv_handle_t *)&server.listener))
        uv_close((uv_handle_t *)&server.listener, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    redisReaderFree(server.reader);
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

static const char *empty_answer(void)
{
    static char text[96];
    snprintf(text, sizeof text, ANSWER_EMPTY, REASON_BUCKET_EMPTY);
    return text;
}

/* ---- what the server says --------------------------------------------------------------------------------------------------- */

static void each_error_has_its_fate(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        enum reason reason;
    } rows[] = {
        {"-LOADING Redis is loading the dataset in memory\r\n", REASON_ENGINE_BUSY},
        {"-READONLY You can't write against a read only replica.\r\n", REASON_ENGINE_BUSY},
        {ANSWER_BUSY, REASON_ENGINE_BUSY},
        {"-MASTERDOWN Link with MASTER is down\r\n", REASON_ENGINE_BUSY},
        {"-CLUSTERDOWN The cluster is down\r\n", REASON_ENGINE_BUSY},
        {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", REASON_ENGINE_BUSY},
        {"-MOVED 3999 127.0.0.1:6381\r\n", REASON_ENGINE_BUSY},
        {"-ASK 3999 127.0.0.1:6381\r\n", REASON_ENGINE_BUSY},
        {"-MISCONF Redis is configured to save RDB snapshots\r\n", REASON_ENGINE_BUSY},
        {"-NOREPLICAS Not enough good replicas to write.\r\n", REASON_ENGINE_BUSY},
        {"-OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'\r\n", REASON_DEPENDENCY_DOWN},
        {"-NOAUTH Authentication required.\r\n", REASON_DEPENDENCY_DOWN},
        {"-NOPERM this user has no permissions to run the 'evalsha' command\r\n", REASON_DEPENDENCY_DOWN},
        {"-WRONGTYPE Operation against a key holding the wrong kind of value script: abc, on @user_script:3.\r\n", REASON_ENGINE_FAULT},
        {"-OOM command not allowed when used memory > 'maxmemory'. script: abc, on @user_script:77.\r\n", REASON_ENGINE_FAULT},
        {"-READONLY You can't write against a read only replica. script: abc, on @user_script:9.\r\n", REASON_ENGINE_FAULT},
        {"-ERR user_script:9: attempt to index a nil value script: abc, on @user_script:9.\r\n", REASON_ENGINE_FAULT},
        {"-ERR wrong number of arguments\r\n", REASON_ENGINE_FAULT},
        {"-LOADINGS is no such word\r\n", REASON_ENGINE_FAULT},
        {"-\r\n", REASON_ENGINE_FAULT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ANSWERS(rows[i].reply);
        assert_int_equal(asked(1000), rows[i].reason);
        struct heard h;
        settle(&h, 1000, 1, 1);
        assert_int_equal(await(&h), rows[i].reason);
        struct str said = store_refusal(store);    /* in the server's own words, without '-' and the end of the line */
        assert_true(str_eq(said, (struct str){rows[i].reply + 1, strlen(rows[i].reply) - 3}));
    }
    assert_int_equal(server.connects, 1);
}

static void answers_of_another_shape(void **state)
{
    (void)state;
    char wrong[96], bare[64];
    snprintf(wrong, sizeof wrong, ANSWER_EMPTY, REASON_QUEUED);    /* and no entry */
    snprintf(bare, sizeof bare, "*1\r\n:%d\r\n", REASON_QUEUED);
    const char *const rows[] = {
        ":5\r\n", "+OK\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "*1\r\n:99999\r\n", "*1\r\n:-1\r\n", "*1\r\n$1\r\nx\r\n", "*2\r\n*0\r\n:1\r\n", wrong, bare};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ANSWERS(rows[i]);
        assert_int_equal(asked(1000), REASON_ENGINE_FAULT);
    }
    ANSWERS(empty_answer());
    assert_int_equal(asked(1000), REASON_BUCKET_EMPTY);
    assert_int_equal(server.connects, 1);
}

static void a_forgotten_script_is_loaded_again(void **state)
{
    (void)state;
    ANSWERS(ANSWER_NOSCRIPT, empty_answer());
    assert_int_equal(asked(1000), REASON_BUCKET_EMPTY);
    assert_int_equal(server.calls, 2);
    assert_int_equal(server.loads, 1);
    ANSWERS(ANSWER_NOSCRIPT);
    assert_int_equal(asked(1000), REASON_ENGINE_BUSY);    /* it has an end */
    assert_int_equal(server.calls, 4);
}

static void many_forgotten_scripts(void **state)
{
    (void)state;
    const char *answers[101];
    for (size_t i = 0; i < 100; i++)
        answers[i] = ANSWER_NOSCRIPT;
    answers[100] = empty_answer();
    with(101, answers);
    static struct heard h[100];
    for (size_t i = 0; i < 100; i++)
        ask(&h[i], 1000);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(await(&h[i]), REASON_BUCKET_EMPTY);
    assert_int_equal(server.loads, 1);    /* loaded once for all of them */
    assert_int_equal(server.calls, 200);
}

/* A server that forgets again and again: the call ends, and the link lives. */
static void a_script_that_stays_forgotten(void **state)
{
    (void)state;
    const char *answers[8];
    for (size_t i = 0; i < 8; i++)
        answers[i] = ANSWER_NOSCRIPT;
    with(8, answers);
    enum reason reason = asked(3000);
    assert_true(reason != REASON_OK && reason_fate(reason) != FATE_DONE);
    assert_int_equal(server.calls, 4);    /* once, and three times more */
    ANSWERS(empty_answer());
    assert_int_equal(asked(1000), REASON_BUCKET_EMPTY);
    assert_int_equal(server.connects, 1);
}

/* ---- silence ---------------------------------------------------------------------------------------------------------------- */

static void a_late_answer_finds_nobody(void **state)
{
    (void)state;
    ANSWERS(SILENCE);
    uint64_t late = metric_read(METRIC_LATE_ANSWERS, 0);
    assert_int_equal(asked(30), REASON_TIMED_OUT);
    struct heard next;
    ask(&next, 1000);
    turn_until(NULL, 20);
    say(ANSWER_BUSY);                       /* to the first */
    turn_until(NULL, 20);
    assert_int_equal(next.woken, 0);
    say(empty_answer());                    /* to the second: each hears his own */
    assert_int_equal(await(&next), REASON_BUCKET_EMPTY);
    assert_int_equal(metric_read(METRIC_LATE_ANSWERS, 0), late + 1);
}

static void a_caller_who_has_gone(void **state)
{
    (void)state;
    ANSWERS(SILENCE);
    uint64_t late = metric_read(METRIC_LATE_ANSWERS, 0);
    struct heard h;
    ask(&h, 1000);
    turn_until(NULL, 20);
    waiter_drop(&h.waiter);
    say(empty_answer());
    turn_until(NULL, 20);
    assert_int_equal(h.woken, 0);
    assert_int_equal(metric_read(METRIC_LATE_ANSWERS, 0), late + 1);
}

static void a_mute_connection_is_broken_off(void **state)
{
    (void)state;
    redis_close(store, NULL, NULL);
    char url[64];
    struct redis_options o = options_now(url, sizeof url);
    o.stall_ms = 100;
    open_with(o);
    size_t before = server.connects;
    ANSWERS(SILENCE);
    assert_int_equal(asked(2500), REASON_LINK_LOST);
    come_up();
    assert_int_equal(server.connects, before + 1);
    ANSWERS(empty_answer());
    assert_int_equal(asked(1000), REASON_BUCKET_EMPTY);
}

/* A loop that was away for longer than that blames nobody else. */
static void a_loop_that_was_away(void **state)
{
    (void)state;
    redis_close(store, NULL, NULL);
    char url[64];
    struct redis_options o = options_now(url, sizeof url);
    o.stall_ms = 100;
    open_with(o);
    size_t before = server.connects;
    ANSWERS(empty_answer());
    uv_sleep(250);
    assert_int_equal(asked(1000), REASON_BUCKET_EMPTY);    /* asked after it */
    struct heard h;
    ANSWERS(SILENCE);
    ask(&h, 1000);
    turn_until(NULL, 20);
    say(empty_answer());
    uv_sleep(250);                                          /* the answer lies in the socket meanwhile */
    assert_int_equal(await(&h), REASON_BUCKET_EMPTY);
    assert_int_equal(server.connects, before);
}

/* A server that reads nothing: what the kernel took may have been done; what it did not take never was. */
static void what_never_left_was_not_done(void **state)
{
    (void)state;
    ANSWERS(SILENCE);
    uv_read_stop((uv_stream_t *)server.peer);
    enum { BATCHES = 200 };
    static struct heard h[BATCHES];
    for (size_t i = 0; i < BATCHES; i++) {
        h[i] = (struct heard){.waiter = {.wake = wake, .budget_ms = 1000}, .batch = true};
        struct settle_ask a[STORE_BATCH_MAX];
        char long_id[64];
        memset(long_id, 'x', sizeof long_id);
        for (size_t k = 0; k < STORE_BATCH_MAX; k++)
            a[k] = (struct settle_ask){.bucket = {str_lit("act"), 1, 0}, .user = {long_id, 64}, .to = RESERVATION_ORDERED,
                                       .request = {long_id, 64}, .sku = {long_id, 64}, .token = {1, 1}};
        store_settle(store, a, STORE_BATCH_MAX, &h[i].waiter);
    }
    size_t sent = 0, kept = 0;
    for (size_t i = 0; i < BATCHES; i++) {
        enum reason reason = await(&h[i]);
        sent += reason == REASON_TIMED_OUT;
        kept += reason == REASON_DEPENDENCY_DOWN;
    }
    assert_true(sent > 0 && kept > 0 && sent + kept >= BATCHES - 1);    /* one may be part of each */
}

/* ---- broken connections ------------------------------------------------------------------------------------------------------ */

static void connections_break(void **state)
{
    (void)state;
    const char *const rows[] = {hang_up, reset, "*6\r\n:1\r\n:7\r", "hello, this is no Redis\r\n", "?\r\n", "*2147483648\r\n:1\r\n"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ANSWERS(rows[i]);
        struct heard first, second;
        ask(&first, 1000);
        ask(&second, 1000);
        turn_until(NULL, 20);
        if (rows[i] != hang_up && rows[i] != reset)
            say(hang_up);
        assert_int_equal(await(&first), REASON_LINK_LOST);
        assert_int_equal(await(&second), REASON_LINK_LOST);
        come_up();
        ANSWERS(empty_answer());
        assert_int_equal(asked(1000), REASON_BUCKET_EMPTY);
    }
}

/* A dozen bytes must not cost gigabytes: hiredis takes the memory that a reply announces. (Found by fuzzing.) */
static void an_answer_that_announces_the_world(void **state)
{
    (void)state;
    const char *const rows[] = {"*1444444444\r\n", "*2000000\r\n:1\r\n*2000000\r\n*2000000\r\n"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ANSWERS(rows[i]);
        assert_int_equal(asked(1000), REASON_LINK_LOST);    /* at once, and nobody waits for the rest */
        come_up();
        ANSWERS(empty_answer());
        assert_int_equal(asked(1000), REASON_BUCKET_EMPTY);
    }
}

static void an_answer_too_many(void **state)
{
    (void)state;
    char twice[200];
    snprintf(twice, sizeof twice, "%s%s", empty_answer(), empty_answer());
    ANSWERS(twice);
    assert_int_equal(asked(1000), REASON_BUCKET_EMPTY);
    turn_until(NULL, 50);
    come_up();
    assert_int_equal(server.connects, 2);    /* who answers what was not asked is not believed any more */
}

static void while_it_is_down_the_answer_is_at_once(void **state)
{
    (void)state;
    uv_close((uv_handle_t *)&server.listener, NULL);
    drop_peer();
    turn_until(NULL, 30);
    assert_false(redis_up(store));
    uint64_t began = uv_hrtime();
    for (int i = 0; i < 100; i++)
        assert_int_equal(asked(0), REASON_DEPENDENCY_DOWN);
    assert_true(uv_hrtime() - began < 2000 * 1000000ull);
    struct heard h;
    settle(&h, 0, 7, 3);
    assert_int_equal(await(&h), REASON_DEPENDENCY_DOWN);
    listen_on(server.port);
    come_up();
    ANSWERS(empty_answer());
    assert_int_equal(asked(1000), REASON_BUCKET_EMPTY);
}

static void a_server_that_is_loading(void **state)
{
    (void)state;
    server.greeting = "-LOADING Redis is loading the dataset in memory\r\n";
    say(hang_up);
    turn_until(NULL, 100);
    assert_false(redis_up(store));
    assert_int_equal(asked(1000), REASON_DEPENDENCY_DOWN);
    server.greeting = "+OK\r\n";
    come_up();
}

static bool is_known_as(const char *name)
{
    return str_eq(store_incarnation(store, &(struct bucket){str_lit("act"), 1, 0}), str_of(name));
}

static void it_asks_the_server_who_he_is(void **state)
{
    (void)state;
    assert_true(is_known_as(INCARNATION));
    server.info = "$20\r\nrun_id:1\r\nmaster_rep\r\n";    /* who does not say is not used */
    say(hang_up);
    turn_until(NULL, 100);
    assert_false(redis_up(store));
    assert_true(is_known_as(""));
    server.info = INFO_SAYS;
    come_up();
    assert_true(is_known_as(INCARNATION));
}

static void it_greets_as_the_address_says(void **state)
{
    (void)state;
    assert_string_equal(server.auth, "pw d ");
    assert_string_equal(server.select, "3");
}

static void closing_ends_what_is_in_flight(void **state)
{
    (void)state;
    ANSWERS(SILENCE);
    struct heard sent, unsent;
    ask(&sent, 1000);
    turn_until(NULL, 20);
    ask(&unsent, 1000);
    redis_close(store, NULL, NULL);
    store = NULL;
    assert_int_equal(sent.woken, 1);
    assert_int_equal(sent.reason, REASON_LINK_LOST);
    assert_int_equal(unsent.woken, 1);
    assert_int_equal(unsent.reason, REASON_DEPENDENCY_DOWN);
}

/* ---- bounds and batches ------------------------------------------------------------------------------------------------------ */

static void full_is_full(void **state)
{
    (void)state;
    redis_close(store, NULL, NULL);
    char url[64];
    struct redis_options o = options_now(url, sizeof url);
    o.in_flight = 4;
    open_with(o);
    ANSWERS(SILENCE);
    struct heard h[6];
    for (size_t i = 0; i < 6; i++)
        ask(&h[i], 50);
    turn_until(NULL, 20);
    assert_true(h[4].woken == 1 && h[5].woken == 1);
    assert_true(h[4].reason == REASON_OVERLOADED && h[5].reason == REASON_OVERLOADED);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(await(&h[i]), REASON_TIMED_OUT);
    assert_int_equal(asked(50), REASON_OVERLOADED);    /* the wire still owes four answers */
    for (size_t i = 0; i < 4; i++)
        say(empty_answer());
    turn_until(NULL, 20);
    ANSWERS(empty_answer());
    assert_int_equal(asked(1000), REASON_BUCKET_EMPTY);
    struct heard wide;
    settle(&wide, 1000, 10, 5);    /* five parts do not fit into four */
    assert_int_equal(await(&wide), REASON_OVERLOADED);
}

static void parts_of_a_batch_end_each_for_itself(void **state)
{
    (void)state;
    char two[64];
    snprintf(two, sizeof two, "*4\r\n:%d\r\n:9\r\n:%d\r\n:%d\r\n", REASON_OK, REASON_OK, REASON_UNCHANGED);
    char stale[32];
    snprintf(stale, sizeof stale, "*1\r\n:%d\r\n", REASON_STALE_EPOCH);
    ANSWERS(two, stale, SILENCE);    /* buckets 0, 1, 2: two items each */
    struct heard h;
    settle(&h, 300, 6, 3);
    assert_int_equal(await(&h), REASON_OK);
    assert_int_equal(h.count, 6);
    static const enum reason wanted[] = {REASON_OK, REASON_STALE_EPOCH, REASON_TIMED_OUT, REASON_UNCHANGED, REASON_STALE_EPOCH, REASON_TIMED_OUT};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(h.verdicts[i], wanted[i]);
    say(two);
    turn_until(NULL, 10);
    ANSWERS(stale);
    settle(&h, 1000, 6, 3);
    assert_int_equal(await(&h), REASON_STALE_EPOCH);    /* of all alike */
    ANSWERS(two);
    settle(&h, 1000, 3, 1);                             /* two verdicts for three items */
    assert_int_equal(await(&h), REASON_ENGINE_FAULT);
}

static void addresses(void **state)
{
    (void)state;
    struct redis_options o = redis_options_default();
    o.loop = &loop;
    static const char *const bad[] = {"", "redis:", "http://x", "redis://", "redis://h:0", "redis://h:65536", "redis://h:x", "redis://h/x", "unix:", "unix:rel", "redis://pw@h",
                                      "redis://:%zz@h", "redis://:%00@h", "redis://[::1", "redis://[::1]x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o.url = str_of(bad[i]);
        assert_null(redis_open(&o));
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(each_error_has_its_fate),
        TEST(answers_of_another_shape),
        TEST(a_forgotten_script_is_loaded_again),
        TEST(many_forgotten_scripts),
        TEST(a_script_that_stays_forgotten),
        TEST(a_late_answer_finds_nobody),
        TEST(a_caller_who_has_gone),
        TEST(a_mute_connection_is_broken_off),
        TEST(a_loop_that_was_away),
        TEST(what_never_left_was_not_done),
        TEST(connections_break),
        TEST(an_answer_that_announces_the_world),
        TEST(an_answer_too_many),
        TEST(while_it_is_down_the_answer_is_at_once),
        TEST(a_server_that_is_loading),
        TEST(it_greets_as_the_address_says), TEST(it_asks_the_server_who_he_is),
        TEST(closing_ends_what_is_in_flight),
        TEST(full_is_full),
        TEST(parts_of_a_batch_end_each_for_itself),
        TEST(addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

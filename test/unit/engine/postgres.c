/* SPDX-License-Identifier: Apache-2.0
 * The parts of the PostgreSQL ledger that need no server: what a SQLSTATE means, and parameters as bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <uv.h>

#include "check.h"
#include "params.h"
#include "postgres.h"
#include "session.h"
#include "resolve.h"
#include "sqlstate.h"

/* failure-semantics in numbers: code, reason before the result, reason after it, manner. Written apart from the table on purpose. */
static const struct {
    const char *code;
    enum reason reason, late;
    enum sqlstate_manner manner;
} known[] = {
    {"40001", REASON_ENGINE_BUSY, REASON_ENGINE_BUSY, SQLSTATE_REPEAT},
    {"40P01", REASON_ENGINE_BUSY, REASON_ENGINE_BUSY, SQLSTATE_REPEAT},
    {"40002", REASON_ENGINE_BUSY, REASON_ENGINE_BUSY, SQLSTATE_STAY},
    {"40003", REASON_UNCERTAIN, REASON_UNCERTAIN, SQLSTATE_LEAVE},
    {"55P03", REASON_LOCK_TIMEOUT, REASON_LOCK_TIMEOUT, SQLSTATE_STAY},
    {"57014", REASON_ENGINE_BUSY, REASON_UNCERTAIN, SQLSTATE_STAY},
    {"57P01", REASON_ENGINE_BUSY, REASON_LINK_LOST, SQLSTATE_LEAVE},
    {"57P02", REASON_ENGINE_BUSY, REASON_LINK_LOST, SQLSTATE_LEAVE},
    {"57P03", REASON_ENGINE_BUSY, REASON_LINK_LOST, SQLSTATE_LEAVE},
    {"53100", REASON_ENGINE_BUSY, REASON_ENGINE_BUSY, SQLSTATE_STAY},
    {"53300", REASON_ENGINE_BUSY, REASON_ENGINE_BUSY, SQLSTATE_STAY},
    {"SK010", REASON_ACTIVITY_ARCHIVED, REASON_ACTIVITY_ARCHIVED, SQLSTATE_STAY},
    {"SK011", REASON_ACTIVITY_NUMBERS_USED, REASON_ACTIVITY_NUMBERS_USED, SQLSTATE_STAY},
    {"22001", REASON_POISON, REASON_POISON, SQLSTATE_STAY},
    {"22021", REASON_POISON, REASON_POISON, SQLSTATE_STAY},
    {"23502", REASON_POISON, REASON_POISON, SQLSTATE_STAY},
    {"23505", REASON_POISON, REASON_POISON, SQLSTATE_STAY},
    {"23514", REASON_POISON, REASON_POISON, SQLSTATE_STAY},
    {"08006", REASON_LINK_LOST, REASON_LINK_LOST, SQLSTATE_LEAVE},
    {"08007", REASON_UNCERTAIN, REASON_UNCERTAIN, SQLSTATE_LEAVE},
    {"25006", REASON_DEPENDENCY_DOWN, REASON_UNCERTAIN, SQLSTATE_LEAVE},
    {"25P02", REASON_ENGINE_BUSY, REASON_UNCERTAIN, SQLSTATE_LEAVE},
    {"25P03", REASON_ENGINE_BUSY, REASON_UNCERTAIN, SQLSTATE_LEAVE},
    {"26000", REASON_DEPENDENCY_DOWN, REASON_UNCERTAIN, SQLSTATE_LEAVE},
    {"0A000", REASON_DEPENDENCY_DOWN, REASON_UNCERTAIN, SQLSTATE_LEAVE},
    {"28P01", REASON_DEPENDENCY_DOWN, REASON_UNCERTAIN, SQLSTATE_LEAVE},
    {"3D000", REASON_DEPENDENCY_DOWN, REASON_UNCERTAIN, SQLSTATE_LEAVE},
    {"SK001", REASON_DEPENDENCY_DOWN, REASON_UNCERTAIN, SQLSTATE_LEAVE},
    {"3F000", REASON_DEPENDENCY_DOWN, REASON_UNCERTAIN, SQLSTATE_LEAVE},
    {"42883", REASON_ENGINE_REFUSED, REASON_UNCERTAIN, SQLSTATE_STAY},
    {"54000", REASON_POISON, REASON_POISON, SQLSTATE_STAY},
    {"XX001", REASON_ENGINE_FAULT, REASON_ENGINE_FAULT, SQLSTATE_STOP},
    {"XX002", REASON_ENGINE_FAULT, REASON_ENGINE_FAULT, SQLSTATE_STOP},
    {"58030", REASON_ENGINE_FAULT, REASON_ENGINE_FAULT, SQLSTATE_STOP},
    {"XX000", REASON_ENGINE_FAULT, REASON_ENGINE_FAULT, SQLSTATE_STAY},
    {"P0004", REASON_ENGINE_FAULT, REASON_ENGINE_FAULT, SQLSTATE_STAY},
    {"", REASON_ENGINE_FAULT, REASON_ENGINE_FAULT, SQLSTATE_STAY},
    {NULL, REASON_ENGINE_FAULT, REASON_ENGINE_FAULT, SQLSTATE_STAY},
};

static void every_sqlstate_has_its_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(known); i++) {
        const struct sqlstate_row *row = sqlstate_row(known[i].code);
        assert_int_equal(row->reason, known[i].reason);
        assert_int_equal(row->late, known[i].late);
        assert_int_equal(row->manner, known[i].manner);
    }
}

/* Each row of the table is met by a code above: none is there for nothing, none is shadowed by one before it. */
static void every_row_is_reached(void **state)
{
    (void)state;
#define SQLSTATE(prefix, reason, late, manner) +1
    enum { ROWS = 0
#include "sqlstate.def"
    };
#undef SQLSTATE
    const struct sqlstate_row *seen[ROWS];
    size_t count = 0;
    for (size_t i = 0; i < countof(known); i++) {
        const struct sqlstate_row *row = sqlstate_row(known[i].code);
        size_t k = 0;
        while (k < count && seen[k] != row)
            k++;
        if (k == count)
            seen[count++] = row;
    }
    assert_int_equal(count, ROWS);
}

/* An error before the commit never reads as "it happened", and what may be repeated has certainly not happened. */
static void no_error_reads_as_done(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(known); i++) {
        const struct sqlstate_row *row = sqlstate_row(known[i].code);
        assert_true(reason_fate(row->reason) != FATE_DONE && reason_fate(row->late) != FATE_DONE);
        if (row->manner == SQLSTATE_REPEAT)
            assert_int_equal(reason_fate(row->reason), FATE_RETRY);
    }
}

static void parameters_are_the_servers_bytes(void **state)
{
    (void)state;
    struct params p = params_new();
    const char *values[PARAMS_MAX];
    params_text(&p, str_lit("ab"));
    params_text(&p, (struct str){0});
    params_null(&p);
    params_bool(&p, true);
    params_i16(&p, -2);
    params_i32(&p, 258);
    params_i64(&p, -1);
    params_array_open(&p, PARAMS_TEXT, 2);
    params_item_text(&p, str_lit("x"));
    params_item_text(&p, str_lit(""));
    params_array_close(&p);
    params_array_open(&p, PARAMS_I64, 0);
    params_array_close(&p);
    params_array_open(&p, PARAMS_I16, 1);
    params_item_i16(&p, 7);
    params_array_close(&p);
    params_values(&p, values);
    assert_int_equal(p.count, 10);
    static const struct {
        int length;
        const char *bytes;
    } want[] = {
        {2, "ab"}, {0, ""}, {-1, NULL}, {1, "\1"}, {2, "\xff\xfe"}, {4, "\0\0\1\2"}, {8, "\xff\xff\xff\xff\xff\xff\xff\xff"},
        {29, "\0\0\0\1" "\0\0\0\0" "\0\0\0\x19" "\0\0\0\2" "\0\0\0\1" "\0\0\0\1x" "\0\0\0\0"},
        {12, "\0\0\0\0" "\0\0\0\0" "\0\0\0\x14"},
        {26, "\0\0\0\1" "\0\0\0\0" "\0\0\0\x15" "\0\0\0\1" "\0\0\0\1" "\0\0\0\2\0\7"},
    };
    for (int i = 0; i < p.count; i++) {
        assert_int_equal(p.length[i], want[i].length);
        if (want[i].length < 0)
            assert_null(values[i]);
        else {
            assert_non_null(values[i]);    /* an empty text is not NULL */
            assert_memory_equal(values[i], want[i].bytes, (size_t)want[i].length);
        }
    }
    assert_true(buf_ok(&p.bytes));
    params_free(&p);
}

static void too_much_is_noticed(void **state)
{
    (void)state;
    static char big[1 << 20];
    struct params p = params_new();
    for (size_t i = 0; i < PARAMS_BYTES / sizeof big + 1; i++)
        params_text(&p, (struct str){big, sizeof big});
    assert_false(buf_ok(&p.bytes));
    params_free(&p);
}

/* What a connection sets once it stands: nothing of it may travel as startup options, which poolers drop. */
static void session_sets_and_verifies_what_it_relies_on(void **state)
{
    static const char *const wanted[] = {"'synchronous_commit', 'on'", "'default_transaction_isolation', 'read committed'", "'client_encoding', 'UTF8'",
                                         "'idle_in_transaction_session_timeout', '5000'", "'lock_timeout', '500'", "'search_path', 'seckill'"};
    static const char *const set_only[] = {"'tcp_keepalives_idle', '10'", "'tcp_keepalives_interval'", "'tcp_keepalives_count'", "'tcp_user_timeout'"};
    static const char *const facts[] = {"'server_encoding', 'UTF8'", "'transaction_isolation', 'read committed'", "'session_replication_role', 'origin'"};
    char set[8192], verify[8192];
    struct buf s = buf_fixed(set, sizeof set - 1), v = buf_fixed(verify, sizeof verify - 1);
    (void)state;
    session_write_set(&s, "lock_timeout=500");
    session_write_verify(&v, "lock_timeout=500");
    assert_true(buf_ok(&s) && buf_ok(&v));
    set[s.len] = verify[v.len] = 0;
    for (size_t i = 0; i < countof(wanted); i++)
        assert_true(strstr(set, wanted[i]) && strstr(verify, wanted[i]));
    for (size_t i = 0; i < countof(set_only); i++)
        assert_non_null(strstr(set, set_only[i]));
    for (size_t i = 0; i < countof(facts); i++)
        assert_non_null(strstr(verify, facts[i]));
}

/* What a connection asks of the server when it begins. The rest is nothing that a server that says nothing could show. */
static void says_what_it_relies_on(const char *host)
{
    static const char *const wanted[] = {"client_encoding UTF8", "user somebody", "database some"};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), conn = -1;
    assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    char url[96], heard[1024];
    snprintf(url, sizeof url, "host=%s port=%d user=somebody dbname=some sslmode=disable gssencmode=disable", host, ntohs(at.sin_port));
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct ledger *l = postgres_open(&(struct postgres_options){.loop = &loop, .url = url});
    ssize_t n = 0;
    for (int i = 0; i < 5000 && n <= 0; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        if (conn < 0)
            conn = accept(listener, NULL, NULL);
        if (conn >= 0)
            n = recv(conn, heard, sizeof heard - 1, MSG_DONTWAIT);
        usleep(1000);
    }
    assert_true(n > 8);
    for (ssize_t i = 0; i < n; i++)    /* names and values end with zeros */
        heard[i] = heard[i] ? heard[i] : ' ';
    heard[n] = 0;
    for (size_t i = 0; i < countof(wanted); i++)
        if (!strstr(heard, wanted[i]))
            fail_msg("%s is not asked for", wanted[i]);
    assert_null(strstr(heard, "options"));
    close(conn);
    close(listener);
    postgres_close(l);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void a_connection_says_what_it_relies_on(void **state)
{
    (void)state;
    says_what_it_relies_on("127.0.0.1");
    says_what_it_relies_on("localhost");    /* a name is looked up beside the loop, and each of its addresses tried */
}

/* ---- the host's name ---- */

struct answer {
    int times;
    char hosts[256], addresses[256], why[128];
};

static void keep_answer(void *arg, const char *hosts, const char *addresses, const char *why)
{
    struct answer *a = arg;
    a->times++;
    snprintf(a->hosts, sizeof a->hosts, "%s", hosts ? hosts : "");
    snprintf(a->addresses, sizeof a->addresses, "%s", addresses ? addresses : "");
    snprintf(a->why, sizeof a->why, "%s", why ? why : "");
}

static size_t commas(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == ',';
    return n;
}

static void only_a_name_is_looked_up(void **state)
{
    (void)state;
    static const char *const as_they_stand[] = {"", "dbname=some", "host=/run/postgresql", "host=127.0.0.1", "host=::1", "host=a.example,b.example", "host=db.example hostaddr=127.0.0.1",
                                                "postgresql://127.0.0.1:5432/some", "postgresql:///some?host=/tmp", "no connection string at all"};
    struct answer a = {0};
    uv_loop_t loop;
    uv_loop_init(&loop);
    for (size_t i = 0; i < countof(as_they_stand); i++)
        assert_null(resolve_start(&loop, as_they_stand[i], keep_answer, &a));
    assert_non_null(resolve_start(&loop, "postgresql://localhost:5432/some", keep_answer, &a));
    assert_int_equal(a.times, 0);    /* never from within */
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(a.times, 1);
    assert_true(strstr(a.addresses, "127.0.0.1") != NULL && strstr(a.hosts, "localhost") == a.hosts && a.why[0] == '\0');
    assert_int_equal(commas(a.hosts), commas(a.addresses));    /* libpq wants as many of one as of the other */
    assert_non_null(resolve_start(&loop, "host=nobody.invalid", keep_answer, &a));
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(a.times == 2 && a.addresses[0] == '\0' && a.why[0] != '\0');
    resolve_forget(resolve_start(&loop, "host=localhost", keep_answer, &a));
    resolve_forget(NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(a.times, 2);
    struct ledger *l = postgres_open(&(struct postgres_options){.loop = &loop, .url = "host=localhost port=1"});    /* closed while it is looked up */
    postgres_close(l);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sqlstate_has_its_reason), cmocka_unit_test(every_row_is_reached), cmocka_unit_test(no_error_reads_as_done),
        cmocka_unit_test(session_sets_and_verifies_what_it_relies_on), cmocka_unit_test(a_connection_says_what_it_relies_on), cmocka_unit_test(only_a_name_is_looked_up),
        cmocka_unit_test(parameters_are_the_servers_bytes), cmocka_unit_test(too_much_is_noticed),
    };
    return cmocka_run_group_tests_name("postgres", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <string.h>

#include "check.h"

/* As pg_settings shows them, so that they can be compared. None holds a quote. */
struct setting {
    const char *name, *value;
};
/* Isolation, durability, and how texts are written and read; a WARNING tells that a commit did not wait for its standby (lane.h), so it must arrive. */
static const struct setting common[] = {
    {"default_transaction_isolation", "read committed"}, {"default_transaction_read_only", "off"}, {"default_transaction_deferrable", "off"},
    {"synchronous_commit", "on"}, {"client_encoding", "UTF8"}, {"client_min_messages", "notice"}, {"search_path", "seckill"},
    {"standard_conforming_strings", "on"}, {"DateStyle", "ISO, MDY"}, {"IntervalStyle", "postgres"}, {"TimeZone", "UTC"}, {"bytea_output", "hex"},
    {"extra_float_digits", "1"}, {"idle_in_transaction_session_timeout", "5000"}, {"jit", "off"}};
/* The server is told to look whether we are still there: half a request of a machine that has died holds its locks until then, two hours by default.
 * Where the connection is no TCP one they cannot be set, and are not needed. */
static const struct setting keepalive[] = {
    {"tcp_keepalives_idle", "10"}, {"tcp_keepalives_interval", "5"}, {"tcp_keepalives_count", "2"}, {"tcp_user_timeout", "10000"}};
/* What cannot be set here, or shows only in the next transaction. */
static const struct setting facts[] = {
    {"transaction_isolation", "read committed"}, {"transaction_read_only", "off"}, {"server_encoding", "UTF8"}, {"session_replication_role", "origin"}};

/* The next name=value word; false: there is none. */
static bool next_word(const char **at, struct str *name, struct str *value)
{
    *at += strspn(*at, " ");
    const char *end = *at + strcspn(*at, " "), *equal = memchr(*at, '=', (size_t)(end - *at));
    if (!equal)
        return false;
    *name = str_range(*at, equal);
    *value = str_range(equal + 1, end);
    *at = end;
    return true;
}

static void write_set(struct buf *sql, struct str name, struct str value)
{
    buf_add_str(sql, str_lit(", set_config('"));
    buf_add_str(sql, name);
    buf_add_str(sql, str_lit("', '"));
    buf_add_str(sql, value);
    buf_add_str(sql, str_lit("', false)"));
}

void session_write_set(struct buf *sql, const char *more)
{
    struct str name, value;
    buf_add_str(sql, str_lit("SELECT pg_backend_pid()"));
    for (size_t i = 0; i < countof(common); i++)
        write_set(sql, str_of(common[i].name), str_of(common[i].value));
    for (size_t i = 0; i < countof(keepalive); i++)
        write_set(sql, str_of(keepalive[i].name), str_of(keepalive[i].value));
    while (next_word(&more, &name, &value))
        write_set(sql, name, value);
}

static void write_row(struct buf *sql, struct str name, struct str value)
{
    buf_add_str(sql, str_lit("('"));
    buf_add_str(sql, name);
    buf_add_str(sql, str_lit("', '"));
    buf_add_str(sql, value);
    buf_add_str(sql, str_lit("'), "));
}

void session_write_verify(struct buf *sql, const char *more)
{
    struct str name, value;
    buf_add_str(sql, str_lit("SELECT pg_backend_pid(), (SELECT string_agg(format('%s is %s and must be %s', w.name, coalesce(s.setting, 'missing'), w.value), '; ') "
                             "FROM (VALUES "));
    for (size_t i = 0; i < countof(common); i++)
        write_row(sql, str_of(common[i].name), str_of(common[i].value));
    while (next_word(&more, &name, &value))
        write_row(sql, name, value);
    for (size_t i = 0; i < countof(facts); i++)
        write_row(sql, str_of(facts[i].name), str_of(facts[i].value));
    sql->len -= 2;    /* the last comma */
    buf_add_str(sql, str_lit(") w(name, value) LEFT JOIN pg_catalog.pg_settings s ON s.name = w.name WHERE s.setting IS DISTINCT FROM w.value) AS wrong"));
}

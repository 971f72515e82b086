/* SPDX-License-Identifier: Apache-2.0
 * admit.c: at the start of a process: is this session as it must be, and are its keys those of the deployment? */
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "postgres.h"
#include "session.h"

#define SESSION_TEXT 8192
#define KEYS_MOST 16

/* OK: the statement of session.h was taken; CONFLICT: the session is not as it must be. */
static enum reason run_session(PGconn *conn, void (*write)(struct buf *, const char *), char why[512])
{
    char memory[SESSION_TEXT];
    struct buf sql = buf_fixed(memory, sizeof memory - 1);
    write(&sql, "lock_timeout=2000 statement_timeout=5000");
    memory[sql.len] = 0;
    PGresult *r = PQexec(conn, memory);
    enum reason reason = PQresultStatus(r) == PGRES_TUPLES_OK ? REASON_OK : REASON_DEPENDENCY_DOWN;
    if (reason == REASON_OK && write == session_write_verify && !PQgetisnull(r, 0, 1)) {
        snprintf(why, 512, "%s", PQgetvalue(r, 0, 1));
        reason = REASON_CONFLICT;
    }
    PQclear(r);
    return reason;
}

static enum reason admit_keys(PGconn *conn, const struct postgres_key *keys, size_t count, char why[512])
{
    char memory[64 * KEYS_MOST * 2];
    struct buf purposes = buf_fixed(memory, sizeof memory / 2 - 1), fingerprints = buf_fixed(memory + sizeof memory / 2, sizeof memory / 2 - 1);
    check(count >= 1 && count <= KEYS_MOST);
    for (size_t i = 0; i < count; i++) {
        buf_add_fmt(&purposes, "%c%s", i ? ',' : '{', keys[i].purpose);
        buf_add_fmt(&fingerprints, "%c%s", i ? ',' : '{', keys[i].fingerprint);
    }
    buf_add_str(&purposes, str_lit("}"));
    buf_add_str(&fingerprints, str_lit("}"));
    check(buf_ok(&purposes) && buf_ok(&fingerprints));
    purposes.ptr[purposes.len] = fingerprints.ptr[fingerprints.len] = 0;
    const char *values[] = {purposes.ptr, fingerprints.ptr};
    PGresult *r = PQexecParams(conn, "SELECT admit_keys($1::text[], $2::text[])", 2, NULL, values, NULL, NULL, 0);
    bool asked = PQresultStatus(r) == PGRES_TUPLES_OK, admitted = asked && strcmp(PQgetvalue(r, 0, 0), "t") == 0;
    PQclear(r);
    if (asked && !admitted)
        snprintf(why, 512, "%s", "ids.keys or ids.user_key are not those that this deployment works with: one of the keys in use must be among them");
    return admitted ? REASON_OK : asked ? REASON_CONFLICT : REASON_DEPENDENCY_DOWN;
}

static void quiet(void *arg, const PGresult *notice) { (void)arg, (void)notice; }

enum reason postgres_admit(const char *url, const struct postgres_key *keys, size_t count, char why[512])
{
    const char *names[] = {"dbname", "client_encoding", "fallback_application_name", "target_session_attrs", "connect_timeout", NULL};
    const char *values[] = {url, "UTF8", "seckill-start", "read-write", "2", NULL};
    PGconn *conn = PQconnectdbParams(names, values, 1);
    why[0] = 0;
    enum reason reason = PQstatus(conn) == CONNECTION_OK ? REASON_OK : REASON_DEPENDENCY_DOWN;
    PQsetNoticeReceiver(conn, quiet, NULL);
    if (reason == REASON_OK)
        reason = run_session(conn, session_write_set, why);
    if (reason == REASON_OK)
        reason = run_session(conn, session_write_verify, why);
    if (reason == REASON_OK)
        reason = admit_keys(conn, keys, count, why);
    PQfinish(conn);
    return reason;
}

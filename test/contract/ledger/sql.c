/* SPDX-License-Identifier: Apache-2.0 */
#include "sql.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "words.h"
#include "world_postgres.h"

static PGconn *beside(void)
{
    static PGconn *conn;
    if (!conn) {
        conn = PQconnectdb(postgres_world_url());
        PQclear(PQexec(conn, "SET search_path = seckill; SET client_min_messages = error"));
        assert_int_equal(PQstatus(conn), CONNECTION_OK);
    }
    return conn;
}

bool sql_in_transaction(void) { return PQtransactionStatus(beside()) == PQTRANS_INTRANS; }

struct str sql(const char *statement)
{
    PGresult *r = PQexec(beside(), statement);
    struct str out;
    if (PQresultStatus(r) == PGRES_TUPLES_OK)
        out = PQntuples(r) ? words("%s", PQgetvalue(r, 0, 0)) : (struct str){0};
    else if (PQresultStatus(r) == PGRES_COMMAND_OK)
        out = str_lit("done");
    else {
        const char *constraint = PQresultErrorField(r, PG_DIAG_CONSTRAINT_NAME);
        out = words("%s %s", PQresultErrorField(r, PG_DIAG_SQLSTATE), constraint ? constraint : "");
    }
    PQclear(r);
    return out;
}

void sql_done(const char *statement)
{
    PGresult *r = PQexec(beside(), statement);
    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", statement, PQresultErrorMessage(r));
    PQclear(r);
}

int64_t sql_number(const char *statement)
{
    PGresult *r = PQexec(beside(), statement);
    if (PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) != 1)
        fail_msg("%s: %s", statement, PQresultErrorMessage(r));
    int64_t n = atoll(PQgetvalue(r, 0, 0));
    PQclear(r);
    return n;
}

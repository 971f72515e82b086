/* SPDX-License-Identifier: Apache-2.0
 * hundred.c: mission §17.2: one message delivered by a hundred real database connections at once makes one order. Plain libpq;
 * each connection has sent its call before any answer is read, so all of them run in the server together. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "postgres.h"
#include "world_postgres.h"

#define CONNECTIONS 100
#define ROUNDS 5

static PGconn *conns[CONNECTIONS];

static PGresult *say(PGconn *conn, const char *statement)
{
    PGresult *r = PQexec(conn, statement);
    if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK) {
        fprintf(stderr, "%s: %s", statement, PQresultErrorMessage(r));
        exit(1);
    }
    return r;
}

static void send_message(PGconn *conn, int round)
{
    char statement[512];
    snprintf(statement, sizeof statement,
             "SELECT v_outcome, v_fresh, v_order FROM place_orders('hundred', 'c', '{}', '{}', '{}', '{}', '{}', '{}', '{msg_%d}', '{req_%d}', '{rsv_%d}',"
             " '{hundred}', '{S}', '{user_%d}', '{%d}', '{1}', '{1}', '{1796083200000}', false)", round, round, round, round, round);
    check(PQsendQuery(conn, statement) == 1);
    while (PQflush(conn) > 0)
        continue;
}

/* One answer: whether it is the fresh one. All must say ORDERED, and the same order. */
static int hear_message(PGconn *conn, int round)
{
    char order[32];
    snprintf(order, sizeof order, "ord_%d", round);
    int fresh = 0;
    for (PGresult *r; (r = PQgetResult(conn)); PQclear(r)) {
        if (PQresultStatus(r) != PGRES_TUPLES_OK) {
            fprintf(stderr, "%s", PQresultErrorMessage(r));
            exit(1);
        }
        check(PQntuples(r) == 1 && strcmp(PQgetvalue(r, 0, 0), "ORDERED") == 0 && strcmp(PQgetvalue(r, 0, 2), order) == 0);
        fresh += PQgetvalue(r, 0, 1)[0] == 't';
    }
    return fresh;
}

int main(void)
{
    world = world_open();
    for (int i = 0; i < CONNECTIONS; i++) {
        conns[i] = PQconnectdb(postgres_world_url());
        if (PQstatus(conns[i]) != CONNECTION_OK) {
            fprintf(stderr, "connection %d: %s", i, PQerrorMessage(conns[i]));
            return 1;
        }
        PQclear(say(conns[i], "SET search_path = seckill"));
    }
    PQclear(say(conns[0], "SELECT activity_create('hundred', 'hundred', 1::smallint, 1000, 4000000000000, 900, false, '{S}', '{50}', '{100}', '{CNY}', 'test', '')"));
    for (int round = 1; round <= ROUNDS; round++) {
        int fresh = 0;
        for (int i = 0; i < CONNECTIONS; i++)
            send_message(conns[i], round);
        for (int i = 0; i < CONNECTIONS; i++)
            fresh += hear_message(conns[i], round);
        PGresult *r = say(conns[0], "SELECT count(*), (SELECT count(*) FROM inventory_token WHERE status = 'CONSUMED'),"
                                    " (SELECT count(*) FROM consumer_inbox), (SELECT count(*) FROM audit('') WHERE f_rule <> '') FROM orders");
        printf("round %d: %d connections, %d decided, orders %s, units %s, verdicts %s, findings %s\n", round, CONNECTIONS, fresh, PQgetvalue(r, 0, 0),
               PQgetvalue(r, 0, 1), PQgetvalue(r, 0, 2), PQgetvalue(r, 0, 3));
        check(fresh == 1);
        for (int column = 0; column < 3; column++)
            check(atoi(PQgetvalue(r, 0, column)) == round);
        check(atoi(PQgetvalue(r, 0, 3)) == 0);
        PQclear(r);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        PQfinish(conns[i]);
    world->close(world);
    return 0;
}

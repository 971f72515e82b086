/* SPDX-License-Identifier: Apache-2.0 */
#include "world_postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "postgres.h"
#include "world_loop.h"

static struct world_loop real;
static char database[64], url[1024];

const char *postgres_world_url(void) { return url; }
uv_loop_t *postgres_world_loop(void) { return &real.loop; }

/* A statement about databases, spoken in the one that was given to us. */
static void speak(const char *verb, const char *how)
{
    char statement[256];
    snprintf(statement, sizeof statement, "%s DATABASE %s %s", verb, database, how);
    PGconn *conn = PQconnectdb(getenv("SECKILL_TEST_POSTGRES"));
    PGresult *r = PQexec(conn, statement);
    if (PQresultStatus(r) != PGRES_COMMAND_OK) {
        fprintf(stderr, "%s: %s\n", statement, PQerrorMessage(conn));
        exit(1);
    }
    PQclear(r);
    PQfinish(conn);
}

/* The given URL with another database name, as key=value pairs. */
static void url_write(const char *given)
{
    char *error = NULL;
    PQconninfoOption *options = PQconninfoParse(given, &error);
    check(options != NULL);
    struct buf b = buf_fixed(url, sizeof url - 1);
    for (PQconninfoOption *o = options; o->keyword; o++)
        if (o->val && strcmp(o->keyword, "dbname") != 0)
            buf_add_fmt(&b, "%s='%s' ", o->keyword, o->val);
    buf_add_fmt(&b, "dbname='%s'", database);
    check(buf_ok(&b));
    PQconninfoFree(options);
}

static void say(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "# %s\n", line);
}

static void close_real(struct world *w)
{
    postgres_close(w->ledger);
    world_loop_end(&real);
    speak("DROP", "WITH (FORCE)");
}

struct world *world_open(void)
{
    const char *given = getenv("SECKILL_TEST_POSTGRES");
    if (!given || !*given)
        exit(77);
    snprintf(database, sizeof database, "seckill_test_%ld_%ld", (long)getpid(), (long)(uv_hrtime() % 1000000));
    url_write(given);
    speak("CREATE", "TEMPLATE template0 ENCODING 'UTF8'");
    check(postgres_migrate(url, 60000, say, NULL) == REASON_OK);
    world_loop_begin(&real, "postgres");
    real.world.ledger = postgres_open(&(struct postgres_options){.loop = &real.loop, .url = url, .application = "contract"});
    real.world.close = close_real;
    return &real.world;
}

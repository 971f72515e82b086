/* SPDX-License-Identifier: Apache-2.0 */
#include "world_postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "postgres.h"

static struct real {
    struct world world;
    uv_loop_t loop;
    uv_timer_t timer;
    bool late;
    char database[64], url[1024];
} real;

const char *postgres_world_url(void) { return real.url; }
uv_loop_t *postgres_world_loop(void) { return &real.loop; }

static void too_late(uv_timer_t *timer)
{
    (void)timer;
    real.late = true;
}

static bool run(struct world *w, bool (*done)(void *), void *arg, uint32_t budget_ms)
{
    (void)w;
    real.late = false;
    uv_update_time(&real.loop);
    uv_timer_start(&real.timer, too_late, budget_ms, 0);
    while (!done(arg) && !real.late)
        uv_run(&real.loop, UV_RUN_ONCE);
    uv_timer_stop(&real.timer);
    return done(arg);
}

/* A statement about databases, spoken in the one that was given to us. */
static void speak(const char *verb, const char *how)
{
    char statement[256];
    snprintf(statement, sizeof statement, "%s DATABASE %s %s", verb, real.database, how);
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
    struct buf b = buf_fixed(real.url, sizeof real.url - 1);
    for (PQconninfoOption *o = options; o->keyword; o++)
        if (o->val && strcmp(o->keyword, "dbname") != 0)
            buf_add_fmt(&b, "%s='%s' ", o->keyword, o->val);
    buf_add_fmt(&b, "dbname='%s'", real.database);
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
    uv_close((uv_handle_t *)&real.timer, NULL);
    uv_run(&real.loop, UV_RUN_DEFAULT);
    check(uv_loop_close(&real.loop) == 0);
    speak("DROP", "WITH (FORCE)");
}

struct world *world_open(void)
{
    const char *given = getenv("SECKILL_TEST_POSTGRES");
    if (!given || !*given)
        exit(77);
    snprintf(real.database, sizeof real.database, "seckill_test_%ld_%ld", (long)getpid(), (long)(uv_hrtime() % 1000000));
    url_write(given);
    speak("CREATE", "TEMPLATE template0 ENCODING 'UTF8'");
    check(postgres_migrate(real.url, say, NULL) == REASON_OK);
    check(uv_loop_init(&real.loop) == 0 && uv_timer_init(&real.loop, &real.timer) == 0);
    real.world = (struct world){.name = "postgres", .run = run, .close = close_real,
                                .ledger = postgres_open(&(struct postgres_options){.loop = &real.loop, .url = real.url, .application = "contract"})};
    return &real.world;
}

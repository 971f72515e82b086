/* SPDX-License-Identifier: Apache-2.0
 * migrate.c: the database is brought to this program's schema. Numbered scripts are applied once and must never change; functions and
 * the rows of spec/ are applied again whenever their text is another. What was applied stands in schema_migration with its checksum. */
#include <libpq-fe.h>
#include <stdio.h>

#include "hash.h"
#include "postgres.h"

#define SCRIPT(kind, name, symbol) extern const unsigned char symbol[]; extern const size_t symbol##_size;
#include "script.def"
#undef SCRIPT

enum script_kind { SCRIPT_NUMBERED, SCRIPT_REPEATABLE };
static const struct script {
    enum script_kind kind;
    const char *name;
    const unsigned char *text;
    const size_t *size;
} scripts[] = {
#define SCRIPT(kind, name, symbol) {SCRIPT_##kind, name, symbol, &symbol##_size},
#include "script.def"
#undef SCRIPT
};

#define CHECKSUM_TEXT 65

struct migration {
    PGconn *conn;
    void (*report)(void *arg, const char *line);
    void *arg;
};

static void say(struct migration *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct migration *m, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t n = strlen(line);
    while (n && line[n - 1] == '\n')
        line[--n] = 0;
    if (m->report)
        m->report(m->arg, line);
}

static bool done(struct migration *m, const char *name, PGresult *r)
{
    bool ok = PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK;
    if (!ok)
        say(m, "%s: %s", name, PQresultErrorMessage(r));
    PQclear(r);
    return ok;
}

static bool run(struct migration *m, const char *name, const char *statement) { return done(m, name, PQexec(m->conn, statement)); }

static const char prologue[] =
    "SET client_min_messages = warning;"
    "SET lock_timeout = 0; SET statement_timeout = 0;"
    "SELECT pg_advisory_lock(hashtextextended('seckill-migrate', 0));"
    "CREATE SCHEMA IF NOT EXISTS seckill;"
    "SET search_path = seckill;"
    "CREATE TABLE IF NOT EXISTS schema_migration (name text COLLATE \"C\" PRIMARY KEY, kind text NOT NULL, checksum text NOT NULL,"
    " applied_at timestamptz NOT NULL DEFAULT now())";

/* What stands of a script: its checksum into `out`, or an empty text. */
static bool standing(struct migration *m, const char *name, char out[CHECKSUM_TEXT])
{
    PGresult *r = PQexecParams(m->conn, "SELECT checksum FROM schema_migration WHERE name = $1", 1, NULL, &name, NULL, NULL, 0);
    out[0] = 0;
    if (PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1)
        snprintf(out, CHECKSUM_TEXT, "%s", PQgetvalue(r, 0, 0));
    return done(m, name, r);
}

static enum reason apply(struct migration *m, const struct script *s)
{
    uint8_t digest[32];
    char sum[CHECKSUM_TEXT] = {0}, stands[CHECKSUM_TEXT];
    sha256((struct str){(const char *)s->text, *s->size}, digest);
    hex_write(digest, sizeof digest, sum);
    if (!standing(m, s->name, stands))
        return REASON_ENGINE_REFUSED;
    if (strcmp(sum, stands) == 0)
        return REASON_OK;
    if (s->kind == SCRIPT_NUMBERED && stands[0]) {
        say(m, "migration %s was applied with checksum %.12s, but this program has %.12s: a migration may never change after it was applied; "
               "write the next one instead", s->name, stands, sum);
        return REASON_CONFLICT;
    }
    const char *values[] = {s->name, s->kind == SCRIPT_NUMBERED ? "NUMBERED" : "REPEATABLE", sum};
    if (!run(m, s->name, "BEGIN") || !run(m, s->name, (const char *)s->text)
        || !done(m, s->name, PQexecParams(m->conn, "INSERT INTO schema_migration (name, kind, checksum) VALUES ($1, $2, $3) "
                                          "ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, applied_at = now()",
                                          3, NULL, values, NULL, NULL, 0))
        || !run(m, s->name, "COMMIT"))
        return REASON_ENGINE_REFUSED;
    say(m, "%s %s (%.12s)", stands[0] ? "applied again" : "applied", s->name, sum);
    return REASON_OK;
}

/* A database ahead of the program: its numbered scripts are not all ours. */
static enum reason known(struct migration *m)
{
    PGresult *r = PQexec(m->conn, "SELECT name FROM schema_migration WHERE kind = 'NUMBERED' ORDER BY name");
    enum reason reason = PQresultStatus(r) == PGRES_TUPLES_OK ? REASON_OK : REASON_ENGINE_REFUSED;
    for (int i = 0; reason == REASON_OK && i < PQntuples(r); i++) {
        bool ours = false;
        for (size_t k = 0; k < countof(scripts); k++)
            ours |= strcmp(scripts[k].name, PQgetvalue(r, i, 0)) == 0;
        if (!ours) {
            say(m, "the database holds migration %s, which this program does not know: use a newer one", PQgetvalue(r, i, 0));
            reason = REASON_CONFLICT;
        }
    }
    PQclear(r);
    return reason;
}

static void quiet(void *arg, const PGresult *notice)
{
    (void)arg;
    (void)notice;
}

enum reason postgres_migrate(const char *url, void (*report)(void *arg, const char *line), void *arg)
{
    const char *keys[] = {"dbname", "fallback_application_name", "target_session_attrs", "connect_timeout", NULL};
    const char *values[] = {url, "seckill-migrate", "read-write", "10", NULL};
    struct migration m = {.conn = PQconnectdbParams(keys, values, 1), .report = report, .arg = arg};
    enum reason reason = REASON_DEPENDENCY_DOWN;
    if (PQstatus(m.conn) != CONNECTION_OK) {
        say(&m, "cannot connect: %s", PQerrorMessage(m.conn));
    } else {
        PQsetNoticeReceiver(m.conn, quiet, NULL);
        reason = run(&m, "schema_migration", prologue) ? known(&m) : REASON_ENGINE_REFUSED;
        for (size_t i = 0; reason == REASON_OK && i < countof(scripts); i++)
            reason = apply(&m, &scripts[i]);
    }
    PQfinish(m.conn);    /* which rolls back and unlocks */
    return reason;
}

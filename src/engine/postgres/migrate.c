/* SPDX-License-Identifier: Apache-2.0
 * migrate.c: the database is brought to this program's schema. Numbered scripts are applied once and must never change; functions and
 * the rows of spec/ are applied again whenever their text is another. What was applied stands in schema_migration with its checksum. */
#include <libpq-fe.h>
#include <stdio.h>
#include <time.h>

#include "hash.h"
#include "postgres.h"
#include "session.h"

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
#define LOOK_MS 200        /* between two tries to get the lock */
#define SAY_FIRST_MS 1000  /* a session that is ending is not worth a line */
#define SAY_MS 10000       /* between two lines that say who is waited for */

struct migration {
    PGconn *conn;
    void (*report)(void *arg, const char *line);
    void *arg;
    uint64_t until_ms;       /* by the monotonic clock: until then locks of others are waited for */
    bool locked_out;         /* the last statement failed because somebody holds a lock */
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
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    m->locked_out = state && strcmp(state, "55P03") == 0;
    if (!ok && !m->locked_out)
        say(m, "%s: %s", name, PQresultErrorMessage(r));
    PQclear(r);
    return ok;
}

static bool run(struct migration *m, const char *name, const char *statement) { return done(m, name, PQexec(m->conn, statement)); }

/* A statement that waits for a table's lock makes everybody behind it wait, too: it gives up soon, and is tried again. */
static const char before_lock[] = "SET client_min_messages = warning; SET lock_timeout = '2s'; SET statement_timeout = 0";
static const char prologue[] =
    "CREATE SCHEMA IF NOT EXISTS seckill;"
    "SET search_path = seckill;"
    "CREATE TABLE IF NOT EXISTS schema_migration (name text COLLATE \"C\" PRIMARY KEY, kind text NOT NULL, checksum text NOT NULL,"
    " applied_at timestamptz NOT NULL DEFAULT now())";

/* ---- locks of others --------------------------------------------------------------------------------------------------------------- */

static uint64_t mono_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void rest(void) { nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL); }

/* Nothing is left to what the role or the database sets. */
static bool set_session(struct migration *m)
{
    char memory[8192];
    struct buf sql = buf_fixed(memory, sizeof memory - 1);
    session_write_set(&sql, "");
    memory[sql.len] = 0;
    if (!run(m, "session", memory))
        return false;
    sql = buf_fixed(memory, sizeof memory - 1);
    session_write_verify(&sql, "");
    memory[sql.len] = 0;
    PGresult *r = PQexec(m->conn, memory);
    bool good = PQresultStatus(r) == PGRES_TUPLES_OK && PQgetisnull(r, 0, 1);
    if (PQresultStatus(r) == PGRES_TUPLES_OK && !good)
        say(m, "this database cannot be used: %s", PQgetvalue(r, 0, 1));
    return done(m, "session", r) && good && run(m, "session", before_lock);
}

/* One line for each session that the query names: pid, name, address, seconds. */
static void say_sessions(struct migration *m, const char *what, const char *query)
{
    PGresult *r = PQexec(m->conn, query);
    for (int i = 0; PQresultStatus(r) == PGRES_TUPLES_OK && i < PQntuples(r); i++)
        say(m, "waiting for %s of pid %s (%s, from %s, since %s s)", what, PQgetvalue(r, i, 0), PQgetvalue(r, i, 1), PQgetvalue(r, i, 2), PQgetvalue(r, i, 3));
    if (PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) == 0)
        say(m, "waiting for %s; who holds it cannot be seen", what);
    PQclear(r);
}

#define SESSION "a.pid, coalesce(nullif(a.application_name, ''), 'no name'), coalesce(host(a.client_addr), 'this machine'), "

static void say_lock_holder(struct migration *m)
{
    say_sessions(m, "the migration lock", "SELECT " SESSION "extract(epoch FROM now() - a.backend_start)::bigint FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
        "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
        "AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('seckill-migrate', 0) LIMIT 8");
}

static void say_transactions(struct migration *m)
{
    say_sessions(m, "a lock, perhaps that of the transaction", "SELECT " SESSION "extract(epoch FROM now() - a.xact_start)::bigint FROM pg_stat_activity a "
        "WHERE a.datname = current_database() AND a.xact_start < now() - interval '1 s' AND a.pid <> pg_backend_pid() ORDER BY a.xact_start LIMIT 8");
}

struct waiting {
    uint64_t began_ms, said_ms;    /* said_ms 0: nothing was said yet */
};

/* Whether there is time to try again; says after a second, and then now and then, who is waited for. */
static bool wait_more(struct migration *m, struct waiting *w, void (*say_who)(struct migration *))
{
    uint64_t now = mono_ms();
    bool over = now >= m->until_ms;
    if (w->said_ms == 0 ? over || now - w->began_ms >= SAY_FIRST_MS : now - w->said_ms >= SAY_MS) {
        say_who(m);
        w->said_ms = now;
    }
    if (over) {
        say(m, "gave up: nothing more was changed; end that session, or run migrate again when it is done");
        return false;
    }
    rest();
    return true;
}

/* One migration at a time. */
static enum reason take_lock(struct migration *m)
{
    for (struct waiting w = {.began_ms = mono_ms()};;) {
        PGresult *r = PQexec(m->conn, "SELECT pg_try_advisory_lock(hashtextextended('seckill-migrate', 0))");
        bool got = PQresultStatus(r) == PGRES_TUPLES_OK && strcmp(PQgetvalue(r, 0, 0), "t") == 0;
        if (!done(m, "the migration lock", r))
            return REASON_ENGINE_REFUSED;
        if (got)
            return REASON_OK;
        if (!wait_more(m, &w, say_lock_holder))
            return REASON_ENGINE_BUSY;
    }
}

/* ---- scripts ------------------------------------------------------------------------------------------------------------------------ */

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
        return m->locked_out ? REASON_ENGINE_BUSY : REASON_ENGINE_REFUSED;
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
        return m->locked_out ? REASON_ENGINE_BUSY : REASON_ENGINE_REFUSED;
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
    done(m, "schema_migration", r);
    return m->locked_out ? REASON_ENGINE_BUSY : reason;
}

static enum reason prepare(struct migration *m, const struct script *none)
{
    (void)none;
    if (!run(m, "schema_migration", prologue))
        return m->locked_out ? REASON_ENGINE_BUSY : REASON_ENGINE_REFUSED;
    return known(m);
}

/* A step that found a lock of somebody else's is taken back and done again, until there is no time left. */
static enum reason do_step(struct migration *m, enum reason (*step)(struct migration *, const struct script *), const struct script *s)
{
    for (struct waiting w = {.began_ms = mono_ms()};;) {
        enum reason reason = step(m, s);
        if (reason != REASON_ENGINE_BUSY)
            return reason;
        PQclear(PQexec(m->conn, "ROLLBACK"));
        if (!wait_more(m, &w, say_transactions))
            return reason;
    }
}

static void quiet(void *arg, const PGresult *notice)
{
    (void)arg;
    (void)notice;
}

enum reason postgres_migrate(const char *url, uint32_t wait_ms, void (*report)(void *arg, const char *line), void *arg)
{
    const char *keys[] = {"dbname", "fallback_application_name", "target_session_attrs", "connect_timeout", NULL};
    const char *values[] = {url, "seckill-migrate", "read-write", "10", NULL};
    struct migration m = {.conn = PQconnectdbParams(keys, values, 1), .report = report, .arg = arg, .until_ms = mono_ms() + wait_ms};
    enum reason reason = REASON_DEPENDENCY_DOWN;
    if (PQstatus(m.conn) != CONNECTION_OK) {
        say(&m, "cannot connect: %s", PQerrorMessage(m.conn));
    } else {
        PQsetNoticeReceiver(m.conn, quiet, NULL);
        reason = set_session(&m) ? take_lock(&m) : REASON_ENGINE_REFUSED;
        if (reason == REASON_OK)
            reason = do_step(&m, prepare, NULL);
        for (size_t i = 0; reason == REASON_OK && i < countof(scripts); i++)
            reason = do_step(&m, apply, &scripts[i]);
    }
    PQfinish(m.conn);    /* which rolls back and unlocks */
    return reason;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "archive.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "check.h"

#define AFTER_MAX 512      /* bytes of the key that the next batch begins behind */
#define WAIT_MS 60000      /* for transactions from before archive_begin */
#define LOOK_MS 200
#define ROUNDS_MAX 4       /* through all steps, while late rows turn up */

struct archive {
    PGconn *conn;
    void (*report)(void *arg, const char *line);
    void *arg;
    PGresult *kept;        /* what archive_activity points into */
};

static void say(struct archive *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct archive *a, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t n = strlen(line);
    while (n && line[n - 1] == '\n')
        line[--n] = 0;
    a->report(a->arg, line);
}

static void ignore_notice(void *arg, const PGresult *notice)
{
    (void)arg;
    (void)notice;
}

/* NULL: it failed, and was reported. */
static PGresult *ask(struct archive *a, const char *statement, int count, const char *const *values)
{
    PGresult *r = PQexecParams(a->conn, statement, count, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(r) == PGRES_TUPLES_OK || PQresultStatus(r) == PGRES_COMMAND_OK)
        return r;
    say(a, "postgresql: %s", PQresultErrorMessage(r));
    PQclear(r);
    return NULL;
}

static bool run(struct archive *a, const char *statement)
{
    PGresult *r = ask(a, statement, 0, NULL);
    PQclear(r);
    return r != NULL;
}

static enum reason failed(struct archive *a) { return PQstatus(a->conn) == CONNECTION_OK ? REASON_ENGINE_REFUSED : REASON_DEPENDENCY_DOWN; }

struct archive *archive_open(const char *url, void (*report)(void *arg, const char *line), void *arg)
{
    const char *keys[] = {"dbname", "fallback_application_name", "target_session_attrs", "connect_timeout", NULL};
    const char *values[] = {url, "seckill-archive", "read-write", "10", NULL};
    struct archive *a = calloc(1, sizeof *a);
    check(a != NULL);
    *a = (struct archive){.conn = PQconnectdbParams(keys, values, 1), .report = report, .arg = arg};
    if (PQstatus(a->conn) != CONNECTION_OK) {
        say(a, "postgresql: cannot connect: %s", PQerrorMessage(a->conn));
        archive_close(a);
        return NULL;
    }
    PQsetNoticeReceiver(a->conn, ignore_notice, NULL);
    if (!run(a, "SET search_path = seckill") || !run(a, "SET client_encoding = 'UTF8'") || !run(a, "SET synchronous_commit = on") ||
        !run(a, "SET default_transaction_isolation = 'read committed'") || !run(a, "SET lock_timeout = '5s'") || !run(a, "SET statement_timeout = '10min'")) {
        archive_close(a);
        return NULL;
    }
    return a;
}

void archive_close(struct archive *a)
{
    PQclear(a->kept);
    PQfinish(a->conn);
    free(a);
}

/* ---- begin ----------------------------------------------------------------------------------------------------------------- */

static void split_skus(struct str names, struct archive_activity *out)
{
    for (size_t i = 0; i <= names.len && out->sku_count < ARCHIVE_SKUS_MAX;) {
        size_t end = i;
        while (end < names.len && names.ptr[end] != ' ')
            end++;
        out->skus[out->sku_count++] = (struct str){names.ptr + i, end - i};
        i = end + 1;
    }
}

enum reason archive_begin(struct archive *a, const char *activity, uint32_t closed_s, const char *actor, struct archive_activity *out)
{
    char closed[16];
    snprintf(closed, sizeof closed, "%u", closed_s);
    const char *values[] = {activity, closed, actor};
    PQclear(a->kept);
    a->kept = ask(a, "SELECT * FROM archive_begin($1,$2,$3)", countof(values), values);
    if (!a->kept)
        return failed(a);
    const char *said = PQgetvalue(a->kept, 0, 0);
    if (strcmp(said, "UNKNOWN_ACTIVITY") == 0)
        return REASON_UNKNOWN_ACTIVITY;
    if (strcmp(said, "OK") != 0 && strcmp(said, "ARCHIVED") != 0) {
        say(a, "%s: %s", activity, said);
        return REASON_CONFLICT;
    }
    *out = (struct archive_activity){.description = str_of(PQgetvalue(a->kept, 0, 1)), .epoch = (uint8_t)atoi(PQgetvalue(a->kept, 0, 2)),
                                     .buckets = (uint8_t)atoi(PQgetvalue(a->kept, 0, 3))};
    split_skus(str_of(PQgetvalue(a->kept, 0, 4)), out);
    return strcmp(said, "OK") == 0 ? REASON_OK : REASON_UNCHANGED;
}

/* ---- rows to the file ------------------------------------------------------------------------------------------------------ */

/* One line for each row: {"table":"orders","row":{...}}. */
static bool write_rows(const struct archive_file *file, const PGresult *r)
{
    struct buf line = buf_growing((size_t)64 << 20);
    bool good = true;
    for (int i = 0; good && i < PQntuples(r); i++) {
        buf_reset(&line);
        buf_add_str(&line, str_lit("{\"table\":\""));
        buf_add_str(&line, str_of(PQgetvalue(r, i, 1)));
        buf_add_str(&line, str_lit("\",\"row\":"));
        buf_add_str(&line, str_of(PQgetvalue(r, i, 2)));
        buf_add_str(&line, str_lit("}"));
        good = buf_ok(&line) && file->write(file->arg, buf_str(&line));
    }
    buf_free(&line);
    return good;
}

/* One batch, one transaction. `rows`: how many it gave; -1: it failed, and nothing of it happened unless the commit's answer was lost. */
static int64_t move_batch(struct archive *a, const char *statement, int count, const char *const *values, const struct archive_file *file, char after[AFTER_MAX])
{
    if (!run(a, "BEGIN"))
        return -1;
    PGresult *r = ask(a, statement, count, values);
    int64_t rows = r ? PQntuples(r) : -1;
    bool good = r && write_rows(file, r) && (rows == 0 || file->flush(file->arg));
    if (good && rows > 0 && after)
        good = snprintf(after, AFTER_MAX, "%s", PQgetvalue(r, (int)rows - 1, 0)) < AFTER_MAX;
    PQclear(r);
    if (good && run(a, "COMMIT"))
        return rows;
    if (r && !good)
        say(a, "the file cannot be written; nothing of this batch was removed");
    run(a, "ROLLBACK");
    return -1;
}

static bool move_step(struct archive *a, const char *step, const char *activity, const char *batch, const struct archive_file *file, uint64_t *rows)
{
    char after[AFTER_MAX] = "{}";
    for (;;) {
        const char *values[] = {step, activity, after, batch};
        int64_t moved = move_batch(a, "SELECT * FROM archive_take($1,$2,$3,$4)", countof(values), values, file, after);
        if (moved <= 0)
            return moved == 0;
        *rows += (uint64_t)moved;
    }
}

/* The word of archive_finish, once nothing has to be waited for; "" where it failed. */
static const char *finish(struct archive *a, const char *activity, const char *actor)
{
    static const char *const words[] = {"OK", "LEFT", "WAIT"};
    const char *values[] = {activity, actor};
    const char *word = "WAIT";
    for (uint32_t waited = 0; strcmp(word, "WAIT") == 0 && waited <= WAIT_MS; waited += LOOK_MS) {
        if (waited > 0)
            nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
        PGresult *r = ask(a, "SELECT archive_finish($1,$2)", countof(values), values);
        word = "";
        for (size_t i = 0; r && i < countof(words); i++)
            if (strcmp(PQgetvalue(r, 0, 0), words[i]) == 0)
                word = words[i];
        PQclear(r);
    }
    return word;
}

enum reason archive_remove(struct archive *a, const char *activity, const char *actor, uint32_t batch, const struct archive_file *file, uint64_t *rows)
{
    static const char *const steps[] = {"VERDICTS", "ORDERS", "UNITS", "REVIEWS"};
    char limit[16];
    snprintf(limit, sizeof limit, "%u", batch);
    for (int round = 0; round < ROUNDS_MAX; round++) {
        for (size_t i = round > 0 ? 1 : 0; i < countof(steps); i++)
            if (!move_step(a, steps[i], activity, limit, file, rows))
                return failed(a);
        const char *word = finish(a, activity, actor);
        if (strcmp(word, "OK") == 0)
            return REASON_OK;
        if (strcmp(word, "WAIT") == 0) {
            say(a, "%s: a transaction that is older than this archiving is still running; run it again when that has ended", activity);
            return REASON_CONFLICT;
        }
        if (word[0] == 0)
            return failed(a);
    }
    say(a, "%s: orders whose refund is on its way are left; run it again later", activity);
    return REASON_CONFLICT;
}

enum reason archive_purge(struct archive *a, uint32_t keep_s, uint32_t log_days, uint32_t batch, const struct archive_file *file, uint64_t *rows)
{
    static const char *const statements[] = {"SELECT * FROM archive_forget($1,$2)", "SELECT * FROM archive_expire_log($1,$2)"};
    char limit[16], ages[2][16];
    snprintf(limit, sizeof limit, "%u", batch);
    snprintf(ages[0], sizeof ages[0], "%u", keep_s);
    snprintf(ages[1], sizeof ages[1], "%u", log_days);
    for (size_t i = 0; i < countof(statements); i++) {
        const char *values[] = {ages[i], limit};
        int64_t moved;
        while ((moved = move_batch(a, statements[i], countof(values), values, file, NULL)) > 0)
            *rows += (uint64_t)moved;
        if (moved < 0)
            return failed(a);
    }
    return REASON_OK;
}

enum reason archive_audit(struct archive *a)
{
    PGresult *r = ask(a, "SELECT f_rule, f_subject, f_detail FROM audit_findings('*') LIMIT 20", 0, NULL);
    if (!r)
        return failed(a);
    int found = PQntuples(r);
    for (int i = 0; i < found; i++)
        say(a, "BROKEN %s %s: %s", PQgetvalue(r, i, 0), PQgetvalue(r, i, 1), PQgetvalue(r, i, 2));
    PQclear(r);
    return found == 0 ? REASON_OK : REASON_CONFLICT;
}

/* SPDX-License-Identifier: Apache-2.0
 * archive.c: `seckill archive`: an activity that is over is written to a file, and removed from PostgreSQL and Redis (docs/retention.md). A run that was cut short is
 * repeated with the same file and goes on; a row that was written twice is the same row, and the last one counts. */
#include "archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit.h"
#include "await.h"
#include "ports.h"
#include "redis_remove.h"
#include "verb.h"

#define PATIENCE_MS 10000

struct archive_run {
    const struct call *call;
    const char *activity, *path;
    struct archive *archive;
    FILE *file;
    uint64_t rows, keys;
};

static void say(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "%s\n", line);
}

/* ---- the file -------------------------------------------------------------------------------------------------------------- */

static bool write_line(void *arg, struct str line)
{
    FILE *f = arg;
    return fwrite(line.ptr, 1, line.len, f) == line.len && fputc('\n', f) != EOF;
}

static bool flush_file(void *arg)
{
    FILE *f = arg;
    return fflush(f) == 0 && fdatasync(fileno(f)) == 0;
}

/* A new file must be in its directory, too, before a row is removed. */
static bool sync_directory(const char *path)
{
    char directory[4096];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

/* Appends: what an earlier run has written stays. Orders name users: nobody else may read it. */
static bool open_file(struct archive_run *r)
{
    int fd = open(r->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    r->file = fd >= 0 ? fdopen(fd, "a") : NULL;
    if (r->file && sync_directory(r->path))
        return true;
    if (fd >= 0 && !r->file)
        close(fd);
    call_failed(r->call, LEAVE_FAILED, "%s cannot be written: %s", r->path, strerror(errno));
    return false;
}

/* ---- judged before --------------------------------------------------------------------------------------------------------- */

/* Both stores agree that nothing of it is under way. LEAVE_DONE: it may go, or is no activity any more: that is for archive_begin to say. */
static int judge(struct archive_run *r)
{
    uv_loop_t loop;
    struct ports ports;
    char memory[1024];
    struct buf complaint = buf_fixed(memory, sizeof memory);
    uv_loop_init(&loop);
    if (!ports_open(&ports, &loop, r->call->config, PORTS_STORE | PORTS_LEDGER, &complaint)) {
        ports_loop_end(&loop);
        return call_failed(r->call, LEAVE_CONFIG, STR_FMT, STR_ARG(buf_str(&complaint)));
    }
    int leave = LEAVE_DONE;
    struct audit a = {.activity = str_of(r->activity), .patience_ms = PATIENCE_MS};
    if (!ports_ready(&ports, PATIENCE_MS)) {
        leave = call_failed(r->call, LEAVE_UNREACHABLE, "%s does not answer; nothing was changed", ports.missing);
    } else {
        audit_judge(&a, &ports);
        int64_t moving = 0;
        for (size_t i = 0; i < a.sku_count; i++)
            moving += a.skus[i].count.r + a.skus[i].count.c + a.skus[i].count.e;
        if (a.reason != REASON_UNKNOWN_ACTIVITY && !audit_clean(&a)) {
            audit_print_table(&a, stderr);
            leave = call_failed(r->call, (enum leave)audit_leave(&a), "the audit of %s is not clean; nothing was changed", r->activity);
        } else if (moving > 0) {
            leave = call_failed(r->call, LEAVE_REFUSED, "%lld units of %s are still reserved or on their way; nothing was changed", (long long)moving, r->activity);
        }
        audit_free(&a);
    }
    ports_close(&ports);
    ports_loop_end(&loop);
    return leave;
}

/* ---- the steps ------------------------------------------------------------------------------------------------------------- */

static int leave_of(enum reason reason)
{
    return reason == REASON_OK ? LEAVE_DONE : reason == REASON_DEPENDENCY_DOWN ? LEAVE_UNREACHABLE : reason == REASON_CONFLICT ? LEAVE_REFUSED : LEAVE_FAILED;
}

static int remove_keys(struct archive_run *r, const struct archive_activity *what)
{
    enum reason reason = redis_remove(str_of(r->call->config->redis_url), str_of(r->activity), what->epoch, what->buckets, what->skus, what->sku_count, &r->keys);
    return reason == REASON_OK ? LEAVE_DONE : call_failed(r->call, LEAVE_UNREACHABLE, "redis: %s; run it again to go on", reason_word(reason));
}

static bool write_description(struct archive_run *r, const struct archive_activity *what)
{
    fprintf(r->file, "{\"archive\":\"%s\",\"description\":" STR_FMT "}\n", r->activity, STR_ARG(what->description));
    return flush_file(r->file);
}

static int archive_one(struct archive_run *r)
{
    char actor[96], host[48] = "?";
    struct archive_activity what;
    int leave = judge(r);
    if (leave != LEAVE_DONE || !open_file(r))
        return leave != LEAVE_DONE ? leave : LEAVE_FAILED;
    gethostname(host, sizeof host - 1);
    snprintf(actor, sizeof actor, "seckill archive, %.32s at %s", getenv("USER") ? getenv("USER") : "unknown user", host);
    enum reason reason = archive_begin(r->archive, r->activity, (uint32_t)call_number(r->call, "closed-hours") * 3600, actor, &what);
    if (reason == REASON_UNKNOWN_ACTIVITY)
        return call_failed(r->call, LEAVE_FAILED, "there is no activity %s", r->activity);
    if (reason != REASON_OK && reason != REASON_UNCHANGED)
        return leave_of(reason);
    if (!write_description(r, &what))
        return call_failed(r->call, LEAVE_FAILED, "%s cannot be written: %s", r->path, strerror(errno));
    leave = remove_keys(r, &what);
    if (leave == LEAVE_DONE && reason == REASON_OK) {
        struct archive_file file = {.write = write_line, .flush = flush_file, .arg = r->file};
        leave = leave_of(archive_remove(r->archive, r->activity, actor, (uint32_t)call_number(r->call, "batch"), &file, &r->rows));
    }
    if (leave != LEAVE_DONE)
        return leave;
    reason = archive_audit(r->archive);
    fprintf(r->file, "{\"archive\":\"%s\",\"complete\":true,\"rows\":%llu}\n", r->activity, (unsigned long long)r->rows);
    if (!flush_file(r->file))
        return call_failed(r->call, LEAVE_FAILED, "%s cannot be written: %s", r->path, strerror(errno));
    return reason == REASON_CONFLICT ? LEAVE_BROKEN : leave_of(reason);
}

static int purge(struct archive_run *r)
{
    struct archive_file file = {.write = write_line, .flush = flush_file};
    if (!open_file(r))
        return LEAVE_FAILED;
    file.arg = r->file;
    return leave_of(archive_purge(r->archive, (uint32_t)call_number(r->call, "verdict-days") * 86400, (uint32_t)call_number(r->call, "log-days"),
                                  (uint32_t)call_number(r->call, "batch"), &file, &r->rows));
}

int verb_archive(const struct call *c)
{
    bool purges = call_switch(c, "purge");
    struct archive_run r = {.call = c, .activity = c->argument_count > 0 ? c->arguments[0] : "", .path = call_text(c, "out")};
    if (purges ? c->argument_count > 0 : !str_is_id(str_of(r.activity)))
        return call_misused(c, purges ? "--purge takes no activity" : "which activity? (1 to 64 of A-Z a-z 0-9 _ -)");
    if (r.path[0] == 0)
        return call_misused(c, "--out names the file that its rows are moved to");
    r.archive = archive_open(c->config->postgres_url, say, NULL);
    if (!r.archive)
        return LEAVE_UNREACHABLE;
    int leave = purges ? purge(&r) : archive_one(&r);
    if (leave == LEAVE_DONE)
        printf(c->json ? "{\"rows\":%llu,\"redis_keys\":%llu,\"file\":\"%s\"}\n" : "%llu rows moved, %llu Redis keys removed; they are in %s\n", (unsigned long long)r.rows,
               (unsigned long long)r.keys, r.path);
    if (r.file)
        fclose(r.file);
    archive_close(r.archive);
    return leave;
}

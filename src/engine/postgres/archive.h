/* SPDX-License-Identifier: Apache-2.0
 * archive.h: an activity that is over leaves the ledger (archive.sql, docs/retention.md). Blocking, on a connection of its own, for the verb `archive`. Every row that
 * is removed was written to the caller's file, and made durable there, before its removal is committed. Each step may be repeated after any failure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "reason.h"
#include "str.h"

/* Where removed rows go. `write`: one line, without its end; `flush`: what was written is durable. False stops the call, whose rows then stay in the ledger. */
struct archive_file {
    bool (*write)(void *arg, struct str line);
    bool (*flush)(void *arg);
    void *arg;
};

struct archive;
/* Connects and migrates nothing. `report` hears the reason of a failure. NULL: no connection. */
struct archive *archive_open(const char *url, void (*report)(void *arg, const char *line), void *arg);
void archive_close(struct archive *);

/* What an activity was. The texts live until the next call. */
#define ARCHIVE_SKUS_MAX 64
struct archive_activity {
    struct str description;               /* JSON */
    uint8_t epoch, buckets;
    struct str skus[ARCHIVE_SKUS_MAX];
    size_t sku_count;
};
/* The activity stops being one, for ever. OK (also where it was begun before) · UNCHANGED (it is archived already) · UNKNOWN_ACTIVITY · CONFLICT (why not was
 * reported; nothing happened) · DEPENDENCY_DOWN, ENGINE_REFUSED. */
enum reason archive_begin(struct archive *, const char *activity, uint32_t closed_s, const char *actor, struct archive_activity *out);

/* Moves every row of it to the file, in batches of `batch` things. OK: nothing but its verdicts is left, and nothing can come · CONFLICT: something of it is still
 * under way (reported); to be repeated later. `rows` counts what was written. */
enum reason archive_remove(struct archive *, const char *activity, const char *actor, uint32_t batch, const struct archive_file *, uint64_t *rows);

/* Moves to the file: verdicts of activities whose archiving began `keep_s` ago or longer, and rows of audit_log older than `log_days` (at least 366). */
enum reason archive_purge(struct archive *, uint32_t keep_s, uint32_t log_days, uint32_t batch, const struct archive_file *, uint64_t *rows);

/* Judges what belongs to no activity (rules of audit.sql): OK · CONFLICT: rows that break a rule were reported. */
enum reason archive_audit(struct archive *);

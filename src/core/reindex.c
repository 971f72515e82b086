/* SPDX-License-Identifier: Apache-2.0
 * reindex.c: ask (a slice) → ask … → done; after a failure rest and ask the same slice again. */
#include "reindex.h"

#include "log.h"
#include "metric.h"

struct reindexer_options reindexer_options_default(void) { return (struct reindexer_options){.call_ms = 2000, .fault_ms = 200, .attempts = 10}; }

static void ask_slice(struct reindexer *r)
{
    struct reindex_ask ask = {.bucket = r->bucket, .mark = {r->mark, r->mark_len}, .cursor = {r->cursor, r->cursor_len}};
    r->call.budget_ms = r->options.call_ms;
    store_reindex(r->store, &ask, &r->call);
}

static void on_rested(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    ask_slice(container_of(container_of(w, struct alarm, waiter), struct reindexer, rest));
}

static void finish_job(struct reindexer *r)
{
    clock_unset(r->clock, &r->rest);
    r->busy = false;
}

static void on_failure(struct reindexer *r, enum reason reason)
{
    enum fate fate = reason_fate(reason);
    bool again = (fate == FATE_RETRY || fate == FATE_UNKNOWN) && reason != REASON_STALE_EPOCH && !r->draining;
    if (again && ++r->failures < r->options.attempts)
        clock_set_in(r->clock, &r->rest, (uint64_t)r->options.fault_ms * 1000);
    else
        finish_job(r);
}

static void on_slice(struct waiter *w, enum reason reason, const void *result)
{
    struct reindexer *r = container_of(w, struct reindexer, call);
    const struct reindex_answer *a = result;
    if (reason == REASON_UNCHANGED || (reason == REASON_OK && (a->cursor.len > sizeof r->cursor || a->mark.len > sizeof r->mark))) {
        finish_job(r);    /* another has done it, or it is closed under another mark by now: the caller's next round sees */
    } else if (reason != REASON_OK) {
        on_failure(r, reason);
    } else if (a->cursor.len > 0 && !r->draining) {
        memcpy(r->cursor, a->cursor.ptr, a->cursor.len);
        r->cursor_len = a->cursor.len;
        r->failures = 0;
        ask_slice(r);
    } else {
        finish_job(r);
        if (a->cursor.len == 0)
            r->done(r, &r->bucket, a->mark);
    }
}

void reindexer_init(struct reindexer *r, struct store *store, struct clock *clock, struct reindexer_options options,
                    void (*done)(struct reindexer *, const struct bucket *, struct str mark))
{
    *r = (struct reindexer){.store = store, .clock = clock, .options = options, .done = done, .call.wake = on_slice, .rest.waiter.wake = on_rested};
}

bool reindexer_want(struct reindexer *r, const struct bucket *bucket, struct str mark, struct str lost)
{
    if (r->busy || r->draining || bucket->activity.len > sizeof r->name || mark.len == 0 || mark.len > sizeof r->mark)
        return false;
    memcpy(r->name, bucket->activity.ptr, bucket->activity.len);
    memcpy(r->mark, mark.ptr, mark.len);
    r->mark_len = mark.len;
    r->cursor_len = 0;
    r->failures = 0;
    r->bucket = (struct bucket){{r->name, bucket->activity.len}, bucket->epoch, bucket->number};
    r->busy = true;
    metric_add(METRIC_CLOSINGS, REASON_STRUCTURE_LOST, 1);
    struct log_line l = log_event(LEVEL_ERROR, "bucket_closed");
    log_str(&l, "activity_id", r->bucket.activity);
    log_i64(&l, "bucket", r->bucket.number);
    log_text(&l, "error_class", reason_word(REASON_STRUCTURE_LOST));
    log_str(&l, "lost_keys", lost);
    log_end(&l);
    ask_slice(r);
    return true;
}

void reindexer_drain(struct reindexer *r)
{
    r->draining = true;
    if (r->busy && !waiter_busy(&r->call))
        finish_job(r);
}

void reindexer_free(struct reindexer *r)
{
    if (!r->store)
        return;
    clock_unset(r->clock, &r->rest);
    waiter_drop(&r->call);
}

/* SPDX-License-Identifier: Apache-2.0
 * sim_lost.c: what may still be unread in the broker, and reservations that neither store knows (port/ledger.h, lost and backlog). */
#include "sim_books.h"

#define KEPT_MS 86400000    /* a question is forgotten after a day */

static bool unread_since(const struct sim_books *b, struct str group, int64_t since_ms, int64_t now_ms)
{
    size_t queues = 0;
    bool behind = false;
    for (size_t i = 0; i < b->offset_count; i++) {
        if (!str_eq(b->offsets[i]->group, group))
            continue;
        queues++;
        behind |= b->offsets[i]->caught_up_ms < since_ms || b->offsets[i]->caught_up_ms == 0;
    }
    return since_ms > now_ms - BACKLOG_MOST_MS && (queues == 0 || behind);
}

struct backlog_answer sim_books_backlog(const struct sim_books *b, const struct backlog_ask *ask, int64_t now_ms)
{
    int64_t least = INT64_MAX, begun_ms = 0;
    for (size_t i = 0; i < b->offset_count; i++)
        if (str_eq(b->offsets[i]->group, ask->group) && b->offsets[i]->caught_up_ms < least)
            least = b->offsets[i]->caught_up_ms;
    for (size_t i = 0; i < b->home_count; i++) {
        const struct sim_home *h = &b->homes[i];
        if (h->activity && str_eq(h->activity->activity, ask->activity) && h->begun_ms > begun_ms)
            begun_ms = h->begun_ms;
    }
    return (struct backlog_answer){.read_ms = least == INT64_MAX || least == 0 ? -1 : now_ms > least ? now_ms - least : 0,
                                   .unread = begun_ms != 0 && unread_since(b, ask->group, begun_ms + BACKLOG_SETTLES_MS, now_ms),
                                   .numbers_free = ask->activity.len == 0 ? 4095 - (uint32_t)b->activity_count : 0};
}

static struct sim_question *question_of(struct sim_books *b, const struct release_lost_ask *ask)
{
    for (size_t i = 0; i < b->question_count; i++) {
        struct sim_question *q = &b->questions[i];
        if (str_eq(q->reservation, ask->reservation) && str_eq(q->user, ask->user) && str_eq(q->activity, ask->activity))
            return q;
    }
    return NULL;
}

/* The user's questions and verdicts LOST in the activity. */
static size_t counted(const struct sim_books *b, const struct release_lost_ask *ask)
{
    size_t count = 0;
    for (size_t i = 0; i < b->question_count; i++)
        count += str_eq(b->questions[i].user, ask->user) && str_eq(b->questions[i].activity, ask->activity);
    for (size_t i = 0; i < b->inbox_count; i++)
        count += b->inbox[i]->why == REASON_LOST && str_eq(b->inbox[i]->what.user, ask->user) && str_eq(b->inbox[i]->what.activity, ask->activity);
    return count;
}

static void forget_question(struct sim_books *b, size_t at) { b->questions[at] = b->questions[--b->question_count]; }

static void keep_question(struct sim_books *b, const struct release_lost_ask *ask, int64_t now_ms)
{
    if (counted(b, ask) < LOST_MOST) {
        b->questions = sim_books_room(b->questions, b->question_count, &b->question_cap, sizeof *b->questions);
        b->questions[b->question_count++] = (struct sim_question){.activity = sim_text(&b->ground, ask->activity), .user = sim_text(&b->ground, ask->user),
                                                                  .reservation = sim_text(&b->ground, ask->reservation), .asked_ms = now_ms};
    }
    for (size_t i = b->question_count; i-- > 0;)
        if (b->questions[i].asked_ms < now_ms - KEPT_MS)
            forget_question(b, i);
}

enum reason sim_books_release_lost(struct sim_books *b, const struct release_lost_ask *ask, int64_t now_ms)
{
    if (sim_books_inbox(b, ask->reservation))
        return REASON_OK;
    struct sim_question *q = question_of(b, ask);
    if (!q) {
        keep_question(b, ask, now_ms);
        return REASON_UNCHANGED;
    }
    if (q->asked_ms > now_ms - (int64_t)ask->after_ms || unread_since(b, ask->group, q->asked_ms, now_ms))
        return REASON_UNCHANGED;
    struct release_item item = {.why = REASON_LOST, .what = {.schema_version = 1, .request = ask->reservation, .reservation = ask->reservation, .activity = ask->activity,
                                                             .sku = ask->sku, .user = ask->user, .created_ms = ask->created_ms, .epoch = ask->epoch}};
    struct verdict verdict;
    bool regressed;
    enum reason reason = sim_books_release(b, &(struct release_ask){.items = &item, .count = 1}, now_ms, &verdict, &regressed);
    if (reason == REASON_OK)
        forget_question(b, (size_t)(q - b->questions));
    return reason;
}

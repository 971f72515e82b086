/* SPDX-License-Identifier: Apache-2.0
 * sim_heal.c: a bucket that may have forgotten is told again all that it must hold (port/ledger.h, heal), slice by slice: the inbox as far as it
 * has grown, then the units. How far each bucket is stands in the books. */
#include <stdlib.h>

#include "sim_books.h"
#include "sim_bucket.h"

#define HEAL_STUCK_MS 1500    /* a claim older than that is not waited for */

static struct sim_home *home_of(struct sim_books *b, const struct bucket *bucket)
{
    for (size_t i = 0; i < b->home_count; i++) {
        struct sim_home *h = &b->homes[i];
        if (h->number == bucket->number && h->epoch == bucket->epoch && str_eq(h->activity->activity, bucket->activity))
            return h;
    }
    if (b->home_count == b->home_cap) {
        b->home_cap = b->home_cap ? 2 * b->home_cap : 16;
        b->homes = realloc(b->homes, b->home_cap * sizeof *b->homes);
        check(b->homes != NULL);
    }
    struct sim_home *h = &b->homes[b->home_count++];
    *h = (struct sim_home){.activity = sim_books_activity(b, bucket->activity), .epoch = bucket->epoch, .number = bucket->number};
    return h;
}

struct str sim_books_incarnation(struct sim_books *b, const struct bucket *bucket) { return home_of(b, bucket)->incarnation; }

static enum reason place_of(struct sim_books *b, const struct bucket *bucket, const struct activity **out)
{
    const struct activity *a = sim_books_activity(b, bucket->activity);
    *out = a;
    return !a ? REASON_UNKNOWN_ACTIVITY : a->epoch != bucket->epoch || bucket->number >= a->buckets ? REASON_STALE_EPOCH : REASON_OK;
}

/* Whether the reservation was made there; where its name does not say, it may have been. */
static bool made_there(struct str reservation, const struct bucket *bucket)
{
    struct ident ident;
    if (!sim_ident(reservation, &ident))
        return true;
    unsigned epoch = (ident.bytes[6] & 3u) << 3 | ident.bytes[7] >> 5, number = ident.bytes[7] & 31u;
    return epoch != bucket->epoch || number == bucket->number;
}

static bool tell_verdicts(struct sim_books *b, struct sim_home *h, const struct heal_ask *ask, int64_t now_ms)
{
    size_t end = b->inbox_count - h->inbox_at < ask->limit ? b->inbox_count : h->inbox_at + ask->limit;
    for (; h->inbox_at < end; h->inbox_at++) {
        const struct sim_inbox *v = b->inbox[h->inbox_at];
        if (!str_eq(v->what.activity, ask->bucket.activity) || !made_there(v->what.reservation, &ask->bucket))
            continue;
        sim_books_tell_status(b, h->activity, v->what.reservation, now_ms);
        sim_books_row(b, OUTBOX_STATUS, v->what.reservation, (struct token){0})->heals = true;
        h->told++;
    }
    return h->inbox_at < b->inbox_count;
}

static bool tell_units(struct sim_books *b, struct sim_home *h, const struct heal_ask *ask, int64_t now_ms)
{
    size_t end = b->unit_count - h->unit_at < ask->limit ? b->unit_count : h->unit_at + ask->limit;
    for (; h->unit_at < end; h->unit_at++) {
        const struct sim_unit *u = &b->units[h->unit_at];
        if (u->activity != h->activity || u->home != ask->bucket.number || u->consumed)
            continue;
        sim_books_tell_return(b, u, now_ms);
        sim_books_row(b, OUTBOX_RETURN, (struct str){0}, u->token)->heals = true;
        h->told++;
    }
    return h->unit_at < b->unit_count;
}

static uint64_t waiting(const struct sim_books *b, const struct activity *a)
{
    uint64_t count = 0;
    list_each(at, &b->outbox) {
        const struct sim_row *row = list_entry(at, struct sim_row, link);
        count += row->heals && row->activity == a && count < 1000;
    }
    return count;
}

/* Whoever claimed it long ago has lost the store too, or is dead. */
static void free_stuck(struct sim_books *b, const struct activity *a, int64_t now_ms)
{
    list_each(at, &b->outbox) {
        struct sim_row *row = list_entry(at, struct sim_row, link);
        if (row->heals && row->activity == a && row->claimed_until_ms > now_ms && now_ms - row->claimed_ms > HEAL_STUCK_MS)
            row->claimed_until_ms = 0;
    }
}

enum reason sim_books_heal(struct sim_books *b, const struct heal_ask *ask, int64_t now_ms, struct heal_answer *answer)
{
    const struct activity *a;
    enum reason reason = place_of(b, &ask->bucket, &a);
    *answer = (struct heal_answer){0};
    if (reason != REASON_OK)
        return reason;
    struct sim_home *h = home_of(b, &ask->bucket);
    b->turn++;
    if (!str_eq(h->mark, ask->mark)) {
        h->mark = sim_text(&b->ground, ask->mark);
        h->inbox_at = h->unit_at = 0;
        h->told = 0;
        h->begun_ms = now_ms;
        h->healed = h->verdicts_told = false;
    }
    if (!h->healed && !h->verdicts_told) {
        h->verdicts_told = !tell_verdicts(b, h, ask, now_ms);
        answer->more = true;
    } else if (!h->healed) {
        answer->more = tell_units(b, h, ask, now_ms);
    }
    answer->told = h->told;
    answer->waiting = h->healed ? 0 : waiting(b, a);
    if (!h->healed && !answer->more && answer->waiting > 0)
        free_stuck(b, a, now_ms);
    if (!h->healed && !answer->more && answer->waiting == 0) {
        h->incarnation = sim_text(&b->ground, ask->incarnation);
        h->healed = true;
    }
    answer->healed = h->healed;
    return REASON_OK;
}

enum reason sim_books_record(struct sim_books *b, const struct record_ask *ask)
{
    const struct activity *a;
    enum reason reason = place_of(b, &ask->bucket, &a);
    if (reason == REASON_OK && a->state != ACTIVITY_WARM)
        reason = REASON_CONFLICT;
    if (reason == REASON_OK)
        home_of(b, &ask->bucket)->incarnation = sim_text(&b->ground, ask->incarnation);
    return reason;
}

/* ---- repair (port/ledger.h) ---- */

static enum reason mend(struct sim_books *b, const struct activity *a, const struct repair_item *item, int64_t now_ms)
{
    struct sim_unit *u = sim_books_unit(b, item->token.unit);
    if (!u || u->activity != a)
        return REASON_UNCHANGED;
    if (item->missing) {
        if (u->consumed || u->token.generation != item->token.generation || u->token.generation == INT32_MAX
            || sim_books_row(b, OUTBOX_RETURN, (struct str){0}, u->token))
            return REASON_UNCHANGED;
        u->token.generation++;
        sim_books_journal(b, u, SIM_RETURNED, (struct str){0})->why = REASON_UNATTRIBUTED;
    }
    if (u->consumed)
        sim_books_tell_status(b, a, u->reservation, now_ms);
    else
        sim_books_tell_return(b, u, now_ms);
    return REASON_OK;
}

void sim_books_repair(struct sim_books *b, const struct repair_ask *ask, int64_t now_ms, enum reason *verdicts)
{
    const struct activity *a = sim_books_activity(b, ask->activity);
    for (size_t i = 0; i < ask->count; i++)
        verdicts[i] = a ? mend(b, a, &ask->items[i], now_ms) : REASON_UNCHANGED;
}

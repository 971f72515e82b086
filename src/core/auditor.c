/* SPDX-License-Identifier: Apache-2.0
 * auditor.c: next activity → the ledger's rules → (broken: pause) → count, unit by unit → what cannot be attributed is mended → rest → next. */
#include "auditor.h"

#include <stdlib.h>

#include "check.h"
#include "log.h"
#include "metric.h"

#define NAMED_MAX 16    /* findings told in the log, of one count */

/* A unit that nobody claimed, at this generation, since then. Seen again in every count, or forgotten. */
struct auditor_missing {
    struct token token;
    uint64_t since_us, round;
    uint16_t number;         /* of its activity */
};

struct auditor_options auditor_options_default(void)
{
    return (struct auditor_options){.every_ms = 30000, .share = 5, .missing_ms = 600000, .call_ms = 60000, .missing = 1024,
                                    .conservation = conservation_options_default()};
}

static struct str name_of(const struct auditor *a) { return (struct str){a->name, a->name_len}; }

/* ---- the walk -------------------------------------------------------------------------------------------------------------------- */

static void judge(struct auditor *);

static void rest(struct auditor *a, uint64_t us)
{
    a->busy = false;
    if (a->running)
        clock_set_in(a->clock, &a->alarm, us + random_below(a->random, us / 4 + 1));
}

static void round_end(struct auditor *a)
{
    a->facts.drift = a->drift;
    a->facts.broken = a->broken;
    metric_set(METRIC_DRIFT, 0, a->drift);
    metric_set(METRIC_BROKEN_RULES, 0, a->broken);
    size_t kept = 0;
    for (size_t i = 0; i < a->missing_count; i++)
        if (a->missing[i].round + 1 >= a->round)
            a->missing[kept++] = a->missing[i];
    a->missing_count = kept;
    a->at = SIZE_MAX;
    rest(a, (uint64_t)a->options.every_ms * 1000);
}

static bool misses_units(const struct auditor *a, uint16_t number)
{
    for (size_t i = 0; i < a->missing_count; i++)
        if (a->missing[i].number == number)
            return true;
    return false;
}

/* One that is over is counted now and then: its orders live on. Where units are missing, in every round, for only what is missing in round after round comes back. */
static bool counts(const struct auditor *a, const struct activity *at)
{
    return at->state != ACTIVITY_DRAFT && !at->rebuilding && at->activity.len <= sizeof a->name
        && (at->state != ACTIVITY_CLOSED || a->round % 16 == at->number % 16 || misses_units(a, at->number));
}

static void next(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct auditor *a = container_of(container_of(w, struct alarm, waiter), struct auditor, alarm);
    if (a->at == SIZE_MAX) {
        a->round++;
        a->drift = a->broken = 0;
    }
    for (a->at++; a->at < catalog_count(a->catalog); a->at++) {
        const struct activity *at = catalog_at(a->catalog, a->at);
        if (!counts(a, at))
            continue;
        memcpy(a->name, at->activity.ptr, at->activity.len);
        a->name_len = at->activity.len;
        a->number = at->number;
        a->version = at->version;
        a->sells = at->state == ACTIVITY_OPEN;
        a->began_us = clock_mono_us(a->clock);
        a->waited_us = 0;
        a->busy = true;
        judge(a);
        return;
    }
    round_end(a);
}

static void activity_end(struct auditor *a, bool good)
{
    a->facts.counts += good;
    a->facts.failed += !good;
    metric_add(METRIC_AUDITS, 0, good);
    uint64_t spent = clock_mono_us(a->clock) - a->began_us;
    rest(a, (spent > a->waited_us ? spent - a->waited_us : 0) * (100 - a->options.share) / a->options.share + 1000);
}

/* ---- mending ------------------------------------------------------------------------------------------------------------------------ */

static void mended(struct waiter *w, enum reason reason, const void *result)
{
    struct auditor *a = container_of(w, struct auditor, call);
    const struct repair_answer *answer = result;
    for (size_t i = 0; reason == REASON_OK && i < answer->count; i++) {
        if (answer->verdicts[i] != REASON_OK)
            continue;
        if (!a->items[i].missing) {
            a->facts.told++;
            continue;
        }
        a->facts.returned++;
        struct log_line l = log_event(LEVEL_WARN, "unit_returned");
        log_str(&l, "activity_id", name_of(a));
        log_i64(&l, "unit", a->items[i].token.unit);
        log_i64(&l, "generation", a->items[i].token.generation);
        log_text(&l, "why", "nobody claimed it");
        log_end(&l);
    }
    activity_end(a, reason == REASON_OK);
}

/* Whether nobody has claimed the unit for so long that every message which may name it has had its time. */
static bool long_missing(struct auditor *a, struct token token)
{
    uint64_t now = clock_mono_us(a->clock);
    for (size_t i = 0; i < a->missing_count; i++) {
        struct auditor_missing *m = &a->missing[i];
        if (m->number != a->number || m->token.unit != token.unit)
            continue;
        if (m->token.generation != token.generation || m->round + 1 < a->round)
            *m = (struct auditor_missing){token, now, a->round, a->number};
        m->round = a->round;
        return now - m->since_us >= (uint64_t)a->options.missing_ms * 1000;
    }
    if (a->missing_count < a->options.missing)
        a->missing[a->missing_count++] = (struct auditor_missing){token, now, a->round, a->number};
    return a->options.missing_ms == 0;
}

static void choose(struct auditor *a, const struct conservation_unit *u)
{
    if (!u->finding || a->item_count == LEDGER_BATCH_MAX)
        return;
    bool missing = u->owner == OWNER_NONE;
    if (!missing || long_missing(a, u->token))
        a->items[a->item_count++] = (struct repair_item){u->token, missing};
}

static void tell(const struct auditor *a, const struct conservation *c)
{
    size_t told = 0;
    for (size_t i = 0; i < c->unit_count && told < NAMED_MAX; i++) {
        const struct conservation_unit *u = &c->units[i];
        if (!u->finding)
            continue;
        told++;
        struct log_line l = log_event(LEVEL_ERROR, "unit_unattributed");
        log_str(&l, "activity_id", name_of(a));
        log_str(&l, "sku_id", u->sku);
        log_i64(&l, "unit", u->token.unit);
        log_i64(&l, "generation", u->token.generation);
        log_text(&l, "owner", conservation_owner_name(u->owner));
        log_text(&l, "why", u->detail ? u->detail : "");
        log_end(&l);
    }
}

static void counted(struct conservation *c)
{
    struct auditor *a = container_of(c, struct auditor, count);
    bool good = c->reason == REASON_OK;
    a->item_count = 0;
    a->waited_us = c->looks > 1 ? (uint64_t)(c->looks - 1) * a->options.conservation.apart_ms * 1000 : 0;
    if (good) {
        for (size_t i = 0; i < c->sku_count; i++)
            a->drift += c->skus[i].drift;
        tell(a, c);
        for (size_t i = 0; i < c->unit_count; i++)
            choose(a, &c->units[i]);
    }
    conservation_close(c);
    if (a->item_count == 0 || !a->running) {
        activity_end(a, good);
        return;
    }
    struct repair_ask ask = {.activity = name_of(a), .items = a->items, .count = a->item_count};
    a->call = (struct waiter){.wake = mended, .budget_ms = a->options.call_ms};
    ledger_repair(a->ledger, &ask, &a->call);
}

/* ---- judging ------------------------------------------------------------------------------------------------------------------------ */

static void count(struct auditor *a)
{
    a->count = (struct conservation){.activity = name_of(a), .done = counted};
    if (!a->running || !conservation_start(&a->count, a->store, a->ledger, a->clock, &a->options.conservation))
        activity_end(a, false);
}

static void paused(struct waiter *w, enum reason reason, const void *result)
{
    (void)result;
    struct auditor *a = container_of(w, struct auditor, call);
    a->facts.paused += reason == REASON_OK;
    struct log_line l = log_event(LEVEL_ERROR, "sale_paused");
    log_str(&l, "activity_id", name_of(a));
    log_text(&l, "why", "a rule of safety is broken");
    log_text(&l, "error_class", reason_word(reason));
    log_end(&l);
    count(a);
}

static void judged(struct waiter *w, enum reason reason, const void *result)
{
    struct auditor *a = container_of(w, struct auditor, call);
    const struct audit_answer *found = result;
    if (reason != REASON_OK || found->count == 0) {
        count(a);
        return;
    }
    a->broken += (int64_t)found->count;
    for (size_t i = 0; i < found->count && i < NAMED_MAX; i++) {
        struct log_line l = log_event(LEVEL_ERROR, "rule_broken");
        log_str(&l, "activity_id", name_of(a));
        log_str(&l, "rule", found->findings[i].rule);
        log_str(&l, "subject", found->findings[i].subject);
        log_str(&l, "why", found->findings[i].detail);
        log_end(&l);
    }
    if (!a->sells) {
        count(a);
        return;
    }
    char note[400];
    const struct finding *first = &found->findings[0];
    struct buf b = buf_fixed(note, sizeof note);
    buf_add_fmt(&b, STR_FMT " is broken: " STR_FMT, STR_ARG(first->rule), STR_ARG(first->subject));
    struct activity_move_ask ask = {.activity = name_of(a), .event = ACTIVITY_EVENT_PAUSE, .version = a->version, .actor = str_lit("janitor"), .note = buf_str(&b)};
    a->call = (struct waiter){.wake = paused, .budget_ms = a->options.call_ms};
    ledger_activity_move(a->ledger, &ask, &a->call);
}

static void judge(struct auditor *a)
{
    a->call = (struct waiter){.wake = judged, .budget_ms = a->options.call_ms};
    ledger_audit(a->ledger, name_of(a), &a->call);
}

/* ---- for everybody ------------------------------------------------------------------------------------------------------------------ */

bool auditor_init(struct auditor *a, struct store *store, struct ledger *ledger, struct clock *clock, struct random *random, const struct catalog *catalog,
                  struct auditor_options options)
{
    check(options.missing > 0 && options.share > 0 && options.share <= 100);
    *a = (struct auditor){.store = store, .ledger = ledger, .clock = clock, .random = random, .catalog = catalog, .options = options, .at = SIZE_MAX};
    a->missing = calloc(options.missing, sizeof *a->missing);
    a->items = calloc(LEDGER_BATCH_MAX, sizeof *a->items);
    a->alarm.waiter.wake = next;
    if (a->missing && a->items)
        return true;
    auditor_free(a);
    return false;
}

void auditor_start(struct auditor *a)
{
    if (a->options.every_ms == 0)
        return;
    a->running = true;
    rest(a, (uint64_t)a->options.every_ms * 1000);
}

void auditor_drain(struct auditor *a)
{
    a->running = a->busy = false;
    clock_unset(a->clock, &a->alarm);
    conservation_close(&a->count);
    waiter_drop(&a->call);
}

void auditor_free(struct auditor *a)
{
    free(a->missing);
    free(a->items);
    a->missing = NULL;
    a->items = NULL;
}

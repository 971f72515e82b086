/* SPDX-License-Identifier: Apache-2.0
 * auditor.c: next activity → the ledger's rules → (broken: pause) → count, unit by unit → what cannot be attributed is mended → rest → next.
 * A few walks share a round, so that the seconds between two looks at one broken activity hold up no other. */
#include "auditor.h"

#include <stdlib.h>

#include "check.h"
#include "log.h"
#include "metric.h"

#define DAY_MS (24 * 3600 * 1000LL)
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

static struct str name_of(const struct audit_walk *w) { return (struct str){w->name, w->name_len}; }

const char *audit_result_name(enum audit_result result)
{
    static const char *const names[AUDIT_RESULTS] = {"clean", "broken", "unjudged"};
    check((unsigned)result < AUDIT_RESULTS);
    return names[result];
}

/* ---- the walk -------------------------------------------------------------------------------------------------------------------- */

static void judge(struct audit_walk *);

static void rest_round(struct auditor *a)
{
    uint64_t us = (uint64_t)a->options.every_ms * 1000;
    if (a->running)
        clock_set_in(a->clock, &a->round_alarm, us + random_below(a->random, us / 4 + 1));
}

/* 0 says that all of it was looked at; where some was not, and nothing was found in the rest, nothing is said. */
static void publish_sum(enum metric m, int64_t sum, uint64_t unknown)
{
    if (sum == 0 && unknown > 0)
        metric_unset(m);
    else
        metric_set(m, 0, sum);
}

static void end_round(struct auditor *a)
{
    a->facts.drift = a->drift;
    a->facts.broken = a->broken;
    a->facts.unjudged = a->unjudged;
    a->facts.rounds++;
    publish_sum(METRIC_DRIFT, a->drift, a->uncounted);
    publish_sum(METRIC_BROKEN_RULES, a->broken, a->unchecked);
    metric_set(METRIC_UNJUDGED, 0, (int64_t)a->unjudged);
    metric_set(METRIC_AUDIT_ROUND, 0, clock_now_ms(a->clock) / 1000);
    size_t kept = 0;
    for (size_t i = 0; i < a->missing_count; i++)
        if (a->missing[i].round + 1 >= a->round)
            a->missing[kept++] = a->missing[i];
    a->missing_count = kept;
    rest_round(a);
}

static bool counts(const struct auditor *a, const struct activity *at)
{
    return at->state != ACTIVITY_DRAFT && !at->rebuilding && !at->retired && at->activity.len <= sizeof a->walks[0].name;
}

/* Takes the next activity of the round; where none is left, the last walk to come here ends the round. */
static void next_activity(struct audit_walk *w)
{
    struct auditor *a = w->auditor;
    while (a->at < catalog_count(a->catalog)) {
        const struct activity *at = catalog_at(a->catalog, a->at++);
        if (!counts(a, at))
            continue;
        memcpy(w->name, at->activity.ptr, at->activity.len);
        w->name_len = at->activity.len;
        w->number = at->number;
        w->version = at->version;
        w->sells = at->state == ACTIVITY_OPEN;
        w->over = at->state == ACTIVITY_CLOSED || at->ends_ms + DAY_MS < clock_now_ms(a->clock);
        w->still = false;
        w->began_us = clock_mono_us(a->clock);
        w->waited_us = 0;
        w->faults = 0;
        w->why = REASON_OK;
        w->busy = true;
        judge(w);
        return;
    }
    if (--a->walking == 0)
        end_round(a);
}

static void on_rested(struct waiter *waiter, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    next_activity(container_of(container_of(waiter, struct alarm, waiter), struct audit_walk, alarm));
}

static void on_round(struct waiter *waiter, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct auditor *a = container_of(container_of(waiter, struct alarm, waiter), struct auditor, round_alarm);
    if (!catalog_learnt(a->catalog)) {    /* no activity is known: nothing can be judged, and nothing is said */
        rest_round(a);
        return;
    }
    a->round++;
    a->drift = a->broken = 0;
    a->unjudged = a->unchecked = a->uncounted = 0;
    a->at = 0;
    a->walking = AUDITOR_WALKS;
    for (size_t i = 0; i < AUDITOR_WALKS; i++)
        next_activity(&a->walks[i]);
}

static void say_unjudged(const struct audit_walk *w)
{
    struct log_line l = log_event(LEVEL_ERROR, "audit_unjudged");
    log_str(&l, "activity_id", name_of(w));
    log_text(&l, "error_class", reason_word(w->why));
    log_end(&l);
}

/* All walks together work the share of the time that they may. */
static void rest_activity(struct audit_walk *w)
{
    struct auditor *a = w->auditor;
    bool judged = w->why == REASON_OK;
    w->busy = false;
    a->facts.counts += judged && w->mended;
    a->facts.failed += !judged || !w->mended;
    a->unjudged += !judged;
    metric_add(METRIC_AUDITS, w->faults > 0 ? AUDIT_BROKEN : judged ? AUDIT_CLEAN : AUDIT_UNJUDGED, 1);
    if (!a->running)
        return;
    if (!judged)
        say_unjudged(w);
    uint64_t spent = clock_mono_us(a->clock) - w->began_us, worked = spent > w->waited_us ? spent - w->waited_us : 0;
    uint64_t us = worked * (100 * a->walking - a->options.share) / a->options.share + 1000;
    clock_set_in(a->clock, &w->alarm, us + random_below(a->random, us / 4 + 1));
}

static void on_retired(struct waiter *waiter, enum reason reason, const void *result)
{
    (void)result;
    struct audit_walk *w = container_of(waiter, struct audit_walk, call);
    w->auditor->facts.retired += reason == REASON_OK;
    rest_activity(w);
}

/* An activity that is over is offered to the ledger to be retired: from then on no process reads it every second. */
static void end_activity(struct audit_walk *w, bool mended)
{
    struct auditor *a = w->auditor;
    w->mended = mended;
    if (!w->over || !a->running) {
        rest_activity(w);
        return;
    }
    struct retire_ask ask = {.activity = name_of(w), .counted = w->still && w->faults == 0 && w->why == REASON_OK, .actor = str_lit("janitor")};
    w->call = (struct waiter){.wake = on_retired, .budget_ms = a->options.call_ms};
    ledger_retire(a->ledger, &ask, &w->call);
}

/* ---- mending ------------------------------------------------------------------------------------------------------------------------ */

static void mended(struct waiter *w, enum reason reason, const void *result)
{
    struct audit_walk *walk = container_of(w, struct audit_walk, call);
    struct auditor *a = walk->auditor;
    const struct repair_answer *answer = result;
    for (size_t i = 0; reason == REASON_OK && i < answer->count; i++) {
        if (answer->verdicts[i] != REASON_OK)
            continue;
        if (!walk->items[i].missing) {
            a->facts.told++;
            continue;
        }
        a->facts.returned++;
        struct log_line l = log_event(LEVEL_WARN, "unit_returned");
        log_str(&l, "activity_id", name_of(walk));
        log_i64(&l, "unit", walk->items[i].token.unit);
        log_i64(&l, "generation", walk->items[i].token.generation);
        log_text(&l, "why", "nobody claimed it");
        log_end(&l);
    }
    end_activity(walk, reason == REASON_OK);
}

/* Whether nobody has claimed the unit for so long that every message which may name it has had its time. */
static bool long_missing(struct audit_walk *w, struct token token)
{
    struct auditor *a = w->auditor;
    uint64_t now = clock_mono_us(a->clock);
    for (size_t i = 0; i < a->missing_count; i++) {
        struct auditor_missing *m = &a->missing[i];
        if (m->number != w->number || m->token.unit != token.unit)
            continue;
        if (m->token.generation != token.generation || m->round + 1 < a->round)
            *m = (struct auditor_missing){token, now, a->round, w->number};
        m->round = a->round;
        return now - m->since_us >= (uint64_t)a->options.missing_ms * 1000;
    }
    if (a->missing_count < a->options.missing)
        a->missing[a->missing_count++] = (struct auditor_missing){token, now, a->round, w->number};
    return a->options.missing_ms == 0;
}

static void choose(struct audit_walk *w, const struct conservation_unit *u)
{
    if (!u->finding || w->item_count == LEDGER_BATCH_MAX)
        return;
    bool missing = u->owner == OWNER_NONE;
    if (!missing || long_missing(w, u->token))
        w->items[w->item_count++] = (struct repair_item){u->token, missing};
}

static void tell(const struct audit_walk *w, const struct conservation *c)
{
    size_t told = 0;
    for (size_t i = 0; i < c->unit_count && told < NAMED_MAX; i++) {
        const struct conservation_unit *u = &c->units[i];
        if (!u->finding)
            continue;
        told++;
        struct log_line l = log_event(LEVEL_ERROR, "unit_unattributed");
        log_str(&l, "activity_id", name_of(w));
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
    struct audit_walk *w = container_of(c, struct audit_walk, count);
    struct auditor *a = w->auditor;
    w->item_count = 0;
    w->waited_us = c->looks > 1 ? (uint64_t)(c->looks - 1) * a->options.conservation.apart_ms * 1000 : 0;
    if (c->reason == REASON_OK) {
        w->still = true;
        for (size_t i = 0; i < c->sku_count; i++) {
            a->drift += c->skus[i].drift;
            w->faults += c->skus[i].drift;
            w->still &= c->skus[i].r == 0 && c->skus[i].c == 0 && c->skus[i].e == 0;
        }
        tell(w, c);
        for (size_t i = 0; i < c->unit_count; i++)
            choose(w, &c->units[i]);
    } else {
        w->why = c->reason;
        a->uncounted++;
    }
    conservation_close(c);
    if (w->item_count == 0 || !a->running) {
        end_activity(w, true);
        return;
    }
    struct repair_ask ask = {.activity = name_of(w), .items = w->items, .count = w->item_count};
    w->call = (struct waiter){.wake = mended, .budget_ms = a->options.call_ms};
    ledger_repair(a->ledger, &ask, &w->call);
}

/* ---- judging ------------------------------------------------------------------------------------------------------------------------ */

static void count(struct audit_walk *w)
{
    struct auditor *a = w->auditor;
    w->count = (struct conservation){.activity = name_of(w), .done = counted};
    if (a->running && conservation_start(&w->count, a->store, a->ledger, a->clock, &a->options.conservation))
        return;
    w->why = REASON_OVERLOADED;    /* no memory for the count */
    a->uncounted++;
    end_activity(w, true);
}

static void paused(struct waiter *waiter, enum reason reason, const void *result)
{
    (void)result;
    struct audit_walk *w = container_of(waiter, struct audit_walk, call);
    w->auditor->facts.paused += reason == REASON_OK;
    struct log_line l = log_event(LEVEL_ERROR, "sale_paused");
    log_str(&l, "activity_id", name_of(w));
    log_text(&l, "why", "a rule of safety is broken");
    log_text(&l, "error_class", reason_word(reason));
    log_end(&l);
    count(w);
}

static void say_broken(const struct audit_walk *w, const struct audit_answer *found)
{
    for (size_t i = 0; i < found->count && i < NAMED_MAX; i++) {
        struct log_line l = log_event(LEVEL_ERROR, "rule_broken");
        log_str(&l, "activity_id", name_of(w));
        log_str(&l, "rule", found->findings[i].rule);
        log_str(&l, "subject", found->findings[i].subject);
        log_str(&l, "why", found->findings[i].detail);
        log_end(&l);
    }
}

static void judged(struct waiter *waiter, enum reason reason, const void *result)
{
    struct audit_walk *w = container_of(waiter, struct audit_walk, call);
    struct auditor *a = w->auditor;
    const struct audit_answer *found = result;
    if (reason != REASON_OK) {
        w->why = reason;
        a->unchecked++;
    }
    if (reason != REASON_OK || found->count == 0) {
        count(w);
        return;
    }
    a->broken += (int64_t)found->count;
    w->faults += (int64_t)found->count;
    say_broken(w, found);
    if (!w->sells) {
        count(w);
        return;
    }
    char note[400];
    const struct finding *first = &found->findings[0];
    struct buf b = buf_fixed(note, sizeof note);
    buf_add_fmt(&b, STR_FMT " is broken: " STR_FMT, STR_ARG(first->rule), STR_ARG(first->subject));
    struct activity_move_ask ask = {.activity = name_of(w), .event = ACTIVITY_EVENT_PAUSE, .version = w->version, .actor = str_lit("janitor"), .note = buf_str(&b)};
    w->call = (struct waiter){.wake = paused, .budget_ms = a->options.call_ms};
    ledger_activity_move(a->ledger, &ask, &w->call);
}

static void judge(struct audit_walk *w)
{
    w->call = (struct waiter){.wake = judged, .budget_ms = w->auditor->options.call_ms};
    ledger_audit(w->auditor->ledger, name_of(w), &w->call);
}

/* ---- for everybody ------------------------------------------------------------------------------------------------------------------ */

bool auditor_init(struct auditor *a, struct store *store, struct ledger *ledger, struct clock *clock, struct random *random, const struct catalog *catalog,
                  struct auditor_options options)
{
    check(options.missing > 0 && options.share > 0 && options.share <= 100);
    *a = (struct auditor){.store = store, .ledger = ledger, .clock = clock, .random = random, .catalog = catalog, .options = options};
    a->missing = calloc(options.missing, sizeof *a->missing);
    a->round_alarm.waiter.wake = on_round;
    bool good = a->missing != NULL;
    for (size_t i = 0; i < AUDITOR_WALKS; i++) {
        struct audit_walk *w = &a->walks[i];
        w->items = calloc(LEDGER_BATCH_MAX, sizeof *w->items);
        w->alarm.waiter.wake = on_rested;
        good &= w->items != NULL;
    }
    if (good)
        return true;
    auditor_free(a);
    return false;
}

void auditor_start(struct auditor *a)
{
    if (a->options.every_ms == 0)
        return;
    for (size_t i = 0; i < AUDITOR_WALKS; i++)
        a->walks[i].auditor = a;    /* it stays where it is from now on */
    a->running = true;
    rest_round(a);
}

void auditor_drain(struct auditor *a)
{
    a->running = false;
    clock_unset(a->clock, &a->round_alarm);
    for (size_t i = 0; i < AUDITOR_WALKS; i++) {
        struct audit_walk *w = &a->walks[i];
        w->busy = false;
        clock_unset(a->clock, &w->alarm);
        conservation_close(&w->count);
        waiter_drop(&w->call);
    }
}

bool auditor_idle(const struct auditor *a)
{
    for (size_t i = 0; i < AUDITOR_WALKS; i++)
        if (a->walks[i].busy)
            return false;
    return true;
}

void auditor_free(struct auditor *a)
{
    free(a->missing);
    a->missing = NULL;
    for (size_t i = 0; i < AUDITOR_WALKS; i++) {
        free(a->walks[i].items);
        a->walks[i].items = NULL;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "health.h"

#include <stdio.h>

#include "check.h"
#include "metric.h"

#define EXCLUDES_MAX 32

/* ---- probes -------------------------------------------------------------------------------------------------------------------- */

static uint64_t now_us(const struct health *h) { return clock_mono_us(h->ports->clock); }

static void on_probed(struct waiter *w, enum reason reason, const void *result)
{
    struct health_part *p = container_of(w, struct health_part, waiter);
    p->reason = ports_proved(p->part, reason, result);
    p->answered_us = now_us(p->health);
    p->next_us = p->answered_us + (uint64_t)(p->reason == REASON_OK ? HEALTH_EVERY_MS : HEALTH_RETRY_MS) * 1000;
}

static void on_tick(struct waiter *w, enum reason reason, const void *result)
{
    struct health *h = container_of(w, struct health, alarm.waiter);
    (void)reason, (void)result;
    for (size_t i = 0; i < PORTS_PARTS; i++) {
        struct health_part *p = &h->parts[i];
        if (!p->open || waiter_busy(&p->waiter) || now_us(h) < p->next_us)
            continue;
        p->asked = true;
        p->begun_us = now_us(h);
        ports_prove(h->ports, i, h->slot, &p->waiter);
    }
    clock_set_in(h->ports->clock, &h->alarm, HEALTH_TICK_MS * 1000);
}

void health_start(struct health *h, struct ports *p, unsigned needed, bool janitor, bool (*started)(void *arg), void *arg)
{
    static const uint32_t budgets_ms[PORTS_PARTS] = {5000, 10000, 30000};    /* a commit that waits for a standby ends with it, or with its connection */
    *h = (struct health){.ports = p, .janitor = janitor, .started = started, .arg = arg};
    h->slot = (unsigned)random_below(p->random, LEDGER_PROVE_SLOTS);
    const bool open[PORTS_PARTS] = {p->store != NULL, p->bus != NULL, p->ledger != NULL};
    for (size_t i = 0; i < PORTS_PARTS; i++)
        h->parts[i] = (struct health_part){.waiter = {.wake = on_probed, .budget_ms = budgets_ms[i]}, .health = h, .part = i, .open = open[i],
                                           .needed = open[i] && (needed >> i & 1)};
    h->alarm.waiter.wake = on_tick;
    clock_set_in(p->clock, &h->alarm, 0);
}

void health_stop(struct health *h)
{
    if (!h->ports || h->stopped)
        return;
    h->stopped = true;
    clock_unset(h->ports->clock, &h->alarm);
    for (size_t i = 0; i < PORTS_PARTS; i++)
        waiter_drop(&h->parts[i].waiter);
}

/* How long the probe under way has had no answer, in microseconds; 0: none is. */
static uint64_t waiting_us(const struct health_part *p) { return waiter_busy(&p->waiter) ? now_us(p->health) - p->begun_us + 1 : 0; }

bool health_part_up(const struct health *h, size_t part)
{
    const struct health_part *p = &h->parts[part];
    return p->open && p->answered_us != 0 && p->reason == REASON_OK && now_us(h) - p->answered_us < HEALTH_STALE_MS * 1000
        && waiting_us(p) < HEALTH_SLOW_MS * 1000;
}

/* ---- the answer ---------------------------------------------------------------------------------------------------------------- */

struct saying {
    struct buf *lines;
    struct str excludes[EXCLUDES_MAX];
    bool met[EXCLUDES_MAX];
    size_t exclude_count;
    bool good;
};

static void split_excludes(struct saying *s, struct str list)
{
    for (size_t at = 0; at < list.len && s->exclude_count < EXCLUDES_MAX;) {
        const char *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma ? (size_t)(comma - list.ptr) : list.len;
        if (end > at)
            s->excludes[s->exclude_count++] = (struct str){list.ptr + at, end - at};
        at = end + 1;
    }
}

static bool is_excluded(struct saying *s, const char *name)
{
    for (size_t i = 0; i < s->exclude_count; i++)
        if (str_eq(s->excludes[i], str_of(name)))
            return s->met[i] = true;
    return false;
}

static void say(struct saying *s, const char *name, bool good, bool counts, const char *detail)
{
    if (is_excluded(s, name)) {
        buf_add_fmt(s->lines, "[%s] %s excluded%s%s\n", good ? "+" : "-", name, detail[0] ? ": " : "", detail);
        return;
    }
    buf_add_fmt(s->lines, "[%s] %s%s%s\n", good ? "+" : "-", name, detail[0] ? ": " : "", detail);
    s->good &= good || !counts;
}

static void say_part(struct saying *s, const struct health *h, size_t part)
{
    static const char *const proved[PORTS_PARTS] = {"a write was done", "a message was stored", "a commit was confirmed"};
    const struct health_part *p = &h->parts[part];
    char detail[384];
    bool up = health_part_up(h, part);
    uint64_t waiting = waiting_us(p), age = p->answered_us ? now_us(h) - p->answered_us : 0;
    struct str refusal = ports_refusal(h->ports, part);
    if (up)
        snprintf(detail, sizeof detail, "%s %.1f s ago", proved[part], (double)age / 1e6);
    else if (!p->asked)
        snprintf(detail, sizeof detail, "not asked yet");
    else if (waiting >= HEALTH_SLOW_MS * 1000 || p->answered_us == 0)
        snprintf(detail, sizeof detail, "no answer for %.1f s", (double)waiting / 1e6);
    else if (p->reason == REASON_OK)
        snprintf(detail, sizeof detail, "its last answer is %.1f s old", (double)age / 1e6);
    else
        snprintf(detail, sizeof detail, "%s%s" STR_FMT "%s %.1f s ago", reason_word(p->reason), refusal.len > 0 ? " (" : "", STR_ARG(refusal),
                 refusal.len > 0 ? ")" : "", (double)age / 1e6);
    say(s, ports_part_name(part), up, p->needed, detail);
}

/* Nothing new is taken in a closed or missing bucket; queries go on. That is no fault of this process: it stays ready. */
static void say_buckets(struct saying *s)
{
    long long closed = (long long)metric_read(METRIC_CLOSED_BUCKETS, 0), missing = (long long)metric_read(METRIC_MISSING_BUCKETS, 0);
    char detail[96] = "";
    if (missing > 0)
        snprintf(detail, sizeof detail, "%lld missing in Redis, %lld closed", missing, closed);
    else if (closed > 0)
        snprintf(detail, sizeof detail, "%lld closed, being healed", closed);
    say(s, "buckets", closed == 0 && missing == 0, false, detail);
}

/* What Redis's own settings may do to a sale. The process can do its work all the same. */
static void say_risks(struct saying *s, const struct health *h)
{
    char detail[300];
    struct store_risks k = store_risks(h->ports->store);
    snprintf(detail, sizeof detail, STR_FMT, STR_ARG(k.text));
    say(s, "redis settings", k.text.len == 0, false, k.known || k.text.len > 0 ? detail : "not known");
}

/* What the last round of audits came to: "not judged" is not "nothing found". It is no fault of this process: it stays ready. */
static void say_audit(struct saying *s, const struct health *h)
{
    long long unjudged = (long long)metric_read(METRIC_UNJUDGED, 0), broken = (long long)metric_read(METRIC_BROKEN_RULES, 0);
    long long drift = (long long)metric_read(METRIC_DRIFT, 0), age = 0;
    char detail[160] = "no round has ended yet";
    if (metric_known(METRIC_AUDIT_ROUND)) {
        age = clock_now_ms(h->ports->clock) / 1000 - (long long)metric_read(METRIC_AUDIT_ROUND, 0);
        if (unjudged == 0 && broken == 0 && drift == 0)
            snprintf(detail, sizeof detail, "nothing found %lld s ago", age);
        else
            snprintf(detail, sizeof detail, "%lld activities not judged, %lld rules broken, %lld units without one owner, %lld s ago", unjudged, broken, drift, age);
    }
    say(s, "audit", unjudged == 0 && broken == 0 && drift == 0, false, detail);
}

static bool end_saying(struct saying *s)
{
    for (size_t i = 0; i < s->exclude_count; i++)
        if (!s->met[i])
            buf_add_fmt(s->lines, "warn: exclude: there is no check \"" STR_FMT "\"\n", STR_ARG(s->excludes[i]));
    return s->good;
}

bool health_says(const struct health *h, enum health_question q, struct str exclude, struct buf *lines)
{
    struct saying s = {.lines = lines, .good = true};
    split_excludes(&s, exclude);
    say(&s, "process", true, true, "");
    if (q == HEALTH_LIVE)
        return end_saying(&s);
    bool started = !h->started || h->started(h->arg);
    say(&s, "started", started, true, started ? "" : "the activities have not been learnt yet");
    if (q == HEALTH_STARTED)
        return end_saying(&s);
    say(&s, "serving", !h->draining, true, h->draining ? "draining" : "");
    for (size_t i = 0; i < PORTS_PARTS; i++)
        if (h->parts[i].open)
            say_part(&s, h, i);
    if (h->parts[0].open)
        say_risks(&s, h);
    if (h->janitor) {
        say_buckets(&s);
        say_audit(&s, h);
    }
    return end_saying(&s);
}

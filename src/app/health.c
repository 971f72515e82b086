/* SPDX-License-Identifier: Apache-2.0 */
#include "health.h"

#include <stdio.h>

#include "check.h"
#include "metric.h"

static void answered(struct waiter *w, enum reason reason, const void *result)
{
    struct health_part *p = container_of(w, struct health_part, waiter);
    (void)result;
    p->reason = reason;
    p->asked = true;
    if (ports_answers(reason))
        p->answered_us = clock_mono_us(p->health->ports->clock);
}

static void rung(struct waiter *w, enum reason reason, const void *result)
{
    struct health *h = container_of(w, struct health, alarm.waiter);
    (void)reason, (void)result;
    for (size_t i = 0; i < PORTS_PARTS; i++)
        if (h->parts[i].open && !waiter_busy(&h->parts[i].waiter))
            ports_probe(h->ports, i, &h->parts[i].waiter);
    clock_set_in(h->ports->clock, &h->alarm, HEALTH_EVERY_MS * 1000);
}

void health_start(struct health *h, struct ports *p, unsigned needed, bool (*started)(void *arg), void *arg)
{
    *h = (struct health){.ports = p, .started = started, .arg = arg};
    const bool open[PORTS_PARTS] = {p->store != NULL, p->bus != NULL, p->ledger != NULL};
    for (size_t i = 0; i < PORTS_PARTS; i++)
        h->parts[i] = (struct health_part){.waiter = {.wake = answered, .budget_ms = 2000}, .health = h, .part = i, .open = open[i], .needed = open[i] && (needed >> i & 1)};
    h->alarm.waiter.wake = rung;
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

bool health_part_up(const struct health *h, size_t part)
{
    const struct health_part *p = &h->parts[part];
    return p->open && p->answered_us != 0 && ports_answers(p->reason) && clock_mono_us(h->ports->clock) - p->answered_us < HEALTH_STALE_MS * 1000;
}

static bool look(struct buf *lines, const char *name, bool good, const char *detail)
{
    buf_add_fmt(lines, "[%s] %s%s%s\n", good ? "+" : "-", name, detail[0] ? ": " : "", detail);
    return good;
}

/* Nothing new is taken in a closed or missing bucket; queries go on. That is no fault of this process: it stays ready. */
static void look_at_buckets(struct buf *lines)
{
    long long closed = (long long)metric_read(METRIC_CLOSED_BUCKETS, 0), missing = (long long)metric_read(METRIC_MISSING_BUCKETS, 0);
    char detail[96] = "";
    if (missing > 0)
        snprintf(detail, sizeof detail, "%lld missing in Redis, %lld closed", missing, closed);
    else if (closed > 0)
        snprintf(detail, sizeof detail, "%lld closed, being healed", closed);
    look(lines, "buckets", closed == 0 && missing == 0, detail);
}

bool health_says(const struct health *h, enum health_question q, struct buf *lines)
{
    bool good = look(lines, "process", true, "");
    if (q == HEALTH_LIVE)
        return good;
    bool started = !h->started || h->started(h->arg);
    good &= look(lines, "started", started, started ? "" : "the activities have not been learnt yet");
    if (q == HEALTH_STARTED)
        return good;
    good &= look(lines, "open for work", !h->draining, h->draining ? "draining" : "");
    for (size_t i = 0; i < PORTS_PARTS; i++) {
        const struct health_part *p = &h->parts[i];
        if (!p->open)
            continue;
        bool up = health_part_up(h, i);
        look(lines, ports_part_name(i), up, up ? "" : !p->asked ? "not asked yet" : ports_answers(p->reason) ? "its last answer is old" : reason_word(p->reason));
        good &= up || !p->needed;
    }
    look_at_buckets(lines);
    return good;
}

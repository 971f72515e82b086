/* SPDX-License-Identifier: Apache-2.0
 * load_result.c: judging, and saying it in words and as JSON. load_report.c draws. */
#include "load_result.h"

#include <math.h>

#include "check.h"
#include "json.h"
#include "verb.h"

static double ms(uint64_t us) { return (double)us / 1000; }
static double percent(uint64_t part, uint64_t all) { return all ? 100.0 * (double)part / (double)all : 0; }

/* ---- judging ------------------------------------------------------------------------------------------------------------------------------ */

static double while_sending(const struct load_result *r)
{
    size_t seconds = (size_t)ceil(r->scenario->seconds);
    uint64_t answered = 0;
    for (size_t i = 0; i < seconds && i < LOAD_SECONDS_MAX; i++)
        answered += r->stats->seconds[i].answered;
    return (double)answered / r->scenario->seconds;
}

static void note_limit(struct load_result *r, enum load_threshold t, bool known, double value, double limit)
{
    r->thresholds[t].known = known;
    r->thresholds[t].value = value;
    r->thresholds[t].limit = limit;
    r->thresholds[t].kept = known && (load_threshold_row(t)->most ? value <= limit : value >= limit);
    r->missed += r->scenario->set[t] && !r->thresholds[t].kept;
}

static void note(struct load_result *r, enum load_threshold t, bool known, double value) { note_limit(r, t, known, value, r->scenario->limit[t]); }

/* Each person buys at most one unit, so a scaled-down run to which fewer people come than the threshold counts is judged by one unit for each. */
static double sold_limit(const struct load_result *r)
{
    double most = (double)r->stats->people;
    return r->scenario->limit[LOAD_THRESHOLD_SOLD] < most ? r->scenario->limit[LOAD_THRESHOLD_SOLD] : most;
}

/* Orders that hold a unit, as the audit counted them last, when all that was on its way had had time to arrive. */
static double sold(const struct audit *a)
{
    double sum = 0;
    for (size_t i = 0; i < a->sku_count; i++)
        sum += (double)a->skus[i].count.o;
    return sum;
}

static void judge_trust(struct load_result *r)
{
    const struct load_stats *s = r->stats;
    double late = ms(histogram_quantile(&s->late, 0.99));
    struct buf why = buf_fixed(r->doubt, sizeof r->doubt - 1);
    if (r->broken)
        buf_add_str(&why, str_lit("a process of the generator died; "));
    if (r->interrupted)
        buf_add_str(&why, str_lit("it was ended early; "));
    if (s->unsent > 0)
        buf_add_fmt(&why, "%llu requests were never sent (generator.in_flight); ", (unsigned long long)s->unsent);
    if (late > r->scenario->late_ms)
        buf_add_fmt(&why, "one send in a hundred was %.1f ms late or more by the generator's own doing (generator.late_ms: %g); ", late, r->scenario->late_ms);
    r->trusted = why.len == 0;
    r->doubt[why.len > 2 ? why.len - 2 : 0] = 0;
}

void load_result_judge(struct load_result *r)
{
    const struct load_stats *s = r->stats;
    const struct load_stage_counts *ordered = &r->service.stages[LOAD_STAGE_ORDERED];
    uint64_t sent = load_stats_sent(s), lost = load_stats_lost(s);
    bool measured = r->service.answered > 0 && ordered->count > 0, any = r->audit && r->audit->reason == REASON_OK;
    load_stats_requests(s, &r->requests, &r->closed);
    r->answered_per_s = while_sending(r);
    r->missed = 0;
    note(r, LOAD_THRESHOLD_P50, r->requests.count > 0, ms(histogram_quantile(&r->requests, 0.5)));
    note(r, LOAD_THRESHOLD_P99, r->requests.count > 0, ms(histogram_quantile(&r->requests, 0.99)));
    note(r, LOAD_THRESHOLD_P999, r->requests.count > 0, ms(histogram_quantile(&r->requests, 0.999)));
    note(r, LOAD_THRESHOLD_ACCEPTED_P99, s->accepted.count > 0, ms(histogram_quantile(&s->accepted, 0.99)));
    note(r, LOAD_THRESHOLD_POLL_P99, s->deeds[LOAD_POLL].latency.count > 0, ms(histogram_quantile(&s->deeds[LOAD_POLL].latency, 0.99)));
    note(r, LOAD_THRESHOLD_ORDERED_P99, measured, load_stage_quantile(ordered, 0.99));
    note(r, LOAD_THRESHOLD_ORDERED_P999, measured, load_stage_quantile(ordered, 0.999));
    note(r, LOAD_THRESHOLD_LOST, sent > 0, percent(lost, sent));
    note(r, LOAD_THRESHOLD_ERRORS, sent > 0, percent(lost + s->errors, sent));
    note(r, LOAD_THRESHOLD_UNDECIDED, true, (double)s->undecided);
    note(r, LOAD_THRESHOLD_ANSWERED, true, r->answered_per_s);
    note_limit(r, LOAD_THRESHOLD_SOLD, any, any ? sold(r->audit) : 0, sold_limit(r));
    judge_trust(r);
}

int load_result_leave(const struct load_result *r)
{
    int audit = r->audit ? audit_leave(r->audit) : LEAVE_UNREACHABLE;
    if (audit == LEAVE_BROKEN || r->stats->contradictions > 0)
        return LEAVE_BROKEN;
    if (r->interrupted)
        return LEAVE_INTERRUPTED;
    if (audit != LEAVE_DONE)
        return audit;
    return r->missed > 0 || !r->trusted ? LEAVE_MISSED : LEAVE_DONE;
}

/* ---- in words ------------------------------------------------------------------------------------------------------------------------------- */

static void print_quantiles(FILE *out, const char *name, const struct histogram *h)
{
    fprintf(out, "%-22s p50 %8.2f  p90 %8.2f  p99 %8.2f  p99.9 %8.2f  max %8.2f ms\n", name, ms(histogram_quantile(h, 0.5)), ms(histogram_quantile(h, 0.9)),
            ms(histogram_quantile(h, 0.99)), ms(histogram_quantile(h, 0.999)), ms(h->max));
}

static void print_answers(FILE *out, const char *who, const uint64_t *answers)
{
    for (unsigned i = 0; i < REASON_COUNT; i++)
        if (answers[i] > 0)
            fprintf(out, "  %-7s %-22s %10llu\n", who, reason_word((enum reason)i), (unsigned long long)answers[i]);
}

static void print_stages(const struct load_result *r, FILE *out)
{
    if (r->service.answered < r->service.asked || r->service.asked == 0)
        fprintf(out, "stages     %u of %u processes told their metrics (setting load.metrics)\n", r->service.answered, r->service.asked);
    if (r->service.answered == 0)
        return;
    fprintf(out, "%-36s %10s %26s %26s\n", "stages, measured by the service", "times", "p50 / p95 / p99 ms", "budget, mission §13");
    for (unsigned i = 0; i < LOAD_STAGES; i++) {
        const struct load_stage_row *row = load_stage_row((enum load_stage)i);
        const struct load_stage_counts *c = &r->service.stages[i];
        fprintf(out, "  %-34s %10.0f %8.2f %8.2f %8.2f   %7g %7g %7g%s\n", row->what, c->count, load_stage_quantile(c, 0.5), load_stage_quantile(c, 0.95),
                load_stage_quantile(c, 0.99), row->p50, row->p95, row->p99, load_stage_quantile(c, 0.99) > row->p99 ? "  over" : "");
    }
}

static void print_thresholds(const struct load_result *r, FILE *out)
{
    for (unsigned i = 0; i < LOAD_THRESHOLDS; i++) {
        const struct load_threshold_row *row = load_threshold_row((enum load_threshold)i);
        if (!r->scenario->set[i])
            continue;
        fprintf(out, "%s %-30s at %s %g %s: ", r->thresholds[i].kept ? "✓" : "✗", row->key, row->most ? "most" : "least", r->thresholds[i].limit, row->unit);
        if (r->thresholds[i].known)
            fprintf(out, "%.2f%s\n", r->thresholds[i].value, r->thresholds[i].limit < r->scenario->limit[i] ? " (the scenario's threshold is higher; only so many people came)" : "");
        else
            fputs("not measured\n", out);
    }
}

static void print_sent(const struct load_result *r, FILE *out)
{
    const struct load_stats *s = r->stats;
    for (unsigned d = 0; d < LOAD_DEEDS; d++)
        if (s->deeds[d].sent > 0)
            fprintf(out, "%-10s %10llu sent, %llu answered, %llu lost\n", load_deed_name((enum load_deed)d), (unsigned long long)s->deeds[d].sent,
                    (unsigned long long)s->deeds[d].answered, (unsigned long long)s->deeds[d].lost);
    if (r->doubled.seen > 0)
        fprintf(out, "messages   %10llu read, %llu of them sent to RocketMQ once more, %llu not confirmed\n", (unsigned long long)r->doubled.seen,
                (unsigned long long)r->doubled.doubled, (unsigned long long)r->doubled.failed);
    print_answers(out, "people", s->answers);
    print_answers(out, "money", s->money);
    print_answers(out, "bots", s->bot_answers);
    fprintf(out, "verdicts   %llu reservations told: ordered %llu, released %llu, not seen decided %llu\n", (unsigned long long)s->told,
            (unsigned long long)s->ordered, (unsigned long long)s->released, (unsigned long long)s->undecided);
    bool counted = r->audit && r->audit->reason == REASON_OK && r->scenario->activity[0] == '\0';
    double beside = counted ? sold(r->audit) - (double)s->ordered : 0;
    if (beside > 0)
        fprintf(out, "           %.0f orders more, whose buyers heard UNCERTAIN or nothing: they have them, and see them when they ask again\n", beside);
}

void load_result_print(const struct load_result *r, FILE *out)
{
    const struct load_stats *s = r->stats;
    fprintf(out, "%s on %s: %.0f requests due in %g s, %llu people, %.0f answered a second while they came\n", r->path, r->activity, r->scenario->arrivals.total,
            r->scenario->seconds, (unsigned long long)s->people, r->answered_per_s);
    print_sent(r, out);
    print_quantiles(out, "latency, from when due", &r->requests);
    print_quantiles(out, "  from when sent", &r->closed);
    print_quantiles(out, "  that took a unit", &s->accepted);
    if (s->deeds[LOAD_POLL].sent > 0)
        print_quantiles(out, "  polls", &s->deeds[LOAD_POLL].latency);
    print_quantiles(out, "own lateness", &s->late);
    print_quantiles(out, "  no connection free", &s->unconnected);
    fprintf(out, "generator  %u processes, %.2f s of processor time\n", r->processes, (double)s->cpu_us / 1e6);
    print_stages(r, out);
    print_thresholds(r, out);
    if (!r->trusted)
        fprintf(out, "NOT TO BE TRUSTED: %s\n", r->doubt);
    if (s->contradictions > 0)
        fprintf(out, "NOT CONSISTENT: %llu answers contradict others, or cannot be understood; the first: %s\n", (unsigned long long)s->contradictions, s->strange);
    if (r->audit)
        audit_print_table(r->audit, out);
}

/* ---- as JSON --------------------------------------------------------------------------------------------------------------------------------- */

static void member_real(struct buf *out, const char *key, double value)
{
    char text[40];
    int n = snprintf(text, sizeof text, "%.3f", isfinite(value) ? value : 0);
    json_key(out, key);
    json_raw(out, (struct str){text, (size_t)n});
}

static void write_quantiles(struct buf *out, const char *key, const struct histogram *h)
{
    json_key(out, key);
    json_open(out);
    json_member_u64(out, "count", h->count);
    json_member_u64(out, "p50_us", histogram_quantile(h, 0.5));
    json_member_u64(out, "p90_us", histogram_quantile(h, 0.9));
    json_member_u64(out, "p99_us", histogram_quantile(h, 0.99));
    json_member_u64(out, "p999_us", histogram_quantile(h, 0.999));
    json_member_u64(out, "max_us", h->max);
    json_close(out);
}

static void write_answers(struct buf *out, const char *key, const uint64_t *answers)
{
    json_key(out, key);
    json_open(out);
    for (unsigned i = 0; i < REASON_COUNT; i++)
        if (answers[i] > 0)
            json_member_u64(out, reason_word((enum reason)i), answers[i]);
    json_close(out);
}

static void write_deeds(const struct load_result *r, struct buf *out)
{
    json_key(out, "sent");
    json_open(out);
    for (unsigned d = 0; d < LOAD_DEEDS; d++) {
        const struct load_deed_stats *s = &r->stats->deeds[d];
        json_key(out, load_deed_name((enum load_deed)d));
        json_open(out);
        json_member_u64(out, "sent", s->sent);
        json_member_u64(out, "answered", s->answered);
        json_member_u64(out, "lost", s->lost);
        write_quantiles(out, "latency", &s->latency);
        json_close(out);
    }
    json_close(out);
}

static void write_stages(const struct load_result *r, struct buf *out)
{
    json_key(out, "stages");
    json_open(out);
    for (unsigned i = 0; i < LOAD_STAGES; i++) {
        const struct load_stage_counts *c = &r->service.stages[i];
        json_key(out, load_stage_row((enum load_stage)i)->metric);
        json_open(out);
        member_real(out, "count", c->count);
        member_real(out, "p50_ms", load_stage_quantile(c, 0.5));
        member_real(out, "p95_ms", load_stage_quantile(c, 0.95));
        member_real(out, "p99_ms", load_stage_quantile(c, 0.99));
        member_real(out, "p999_ms", load_stage_quantile(c, 0.999));
        json_close(out);
    }
    json_close(out);
}

static void write_thresholds(const struct load_result *r, struct buf *out)
{
    json_key(out, "thresholds");
    json_open_array(out);
    for (unsigned i = 0; i < LOAD_THRESHOLDS; i++) {
        if (!r->scenario->set[i])
            continue;
        json_open(out);
        json_member_text(out, "key", load_threshold_row((enum load_threshold)i)->key);
        member_real(out, "limit", r->thresholds[i].limit);
        if (r->thresholds[i].known)
            member_real(out, "value", r->thresholds[i].value);
        json_member_bool(out, "kept", r->thresholds[i].kept);
        json_close(out);
    }
    json_close_array(out);
}

static void write_seconds(const struct load_result *r, struct buf *out)
{
    size_t last = LOAD_SECONDS_MAX;
    while (last > 0 && r->stats->seconds[last - 1].due == 0 && r->stats->seconds[last - 1].answered == 0 && r->stats->seconds[last - 1].ordered == 0)
        last--;
    json_key(out, "seconds");
    json_open_array(out);
    for (size_t i = 0; i < last; i++) {
        const struct load_second *s = &r->stats->seconds[i];
        json_open(out);
        json_member_u64(out, "due", s->due);
        json_member_u64(out, "answered", s->answered);
        json_member_u64(out, "queued", s->queued);
        json_member_u64(out, "ordered", s->ordered);
        json_member_u64(out, "errors", s->errors);
        json_member_u64(out, "p50_us", load_second_quantile(s, 0.5));
        json_member_u64(out, "p99_us", load_second_quantile(s, 0.99));
        json_member_u64(out, "max_us", s->max_us);
        json_close(out);
    }
    json_close_array(out);
}

void load_result_json(const struct load_result *r, struct buf *out)
{
    const struct load_stats *s = r->stats;
    json_open(out);
    json_member_text(out, "scenario", r->path);
    json_member_text(out, "activity_id", r->activity);
    json_member_time(out, "began_at", r->began_ms);
    json_member_u64(out, "seed", r->seed);
    json_member_bool(out, "trusted", r->trusted);
    if (!r->trusted)
        json_member_text(out, "doubt", r->doubt);
    json_member_u64(out, "thresholds_missed", r->missed);
    member_real(out, "due", r->scenario->arrivals.total);
    json_member_u64(out, "people", s->people);
    json_member_u64(out, "unsent", s->unsent);
    member_real(out, "answered_per_s", r->answered_per_s);
    write_quantiles(out, "latency", &r->requests);
    write_quantiles(out, "latency_from_sent", &r->closed);
    write_quantiles(out, "accepted", &s->accepted);
    write_quantiles(out, "own_lateness", &s->late);
    write_quantiles(out, "no_connection_free", &s->unconnected);
    write_answers(out, "answers", s->answers);
    write_answers(out, "answers_to_bots", s->bot_answers);
    write_answers(out, "answers_to_money", s->money);
    json_member_u64(out, "paid", s->paid);
    json_member_u64(out, "canceled", s->canceled);
    write_deeds(r, out);
    json_member_u64(out, "told", s->told);
    json_member_u64(out, "ordered", s->ordered);
    json_member_u64(out, "released", s->released);
    json_member_u64(out, "undecided", s->undecided);
    json_member_u64(out, "contradictions", s->contradictions);
    if (s->strange[0])
        json_member_text(out, "strange", s->strange);
    json_member_u64(out, "messages_seen", r->doubled.seen);
    json_member_u64(out, "messages_doubled", r->doubled.doubled);
    json_member_u64(out, "generator_processes", r->processes);
    json_member_u64(out, "generator_cpu_us", s->cpu_us);
    json_member_u64(out, "listeners_asked", r->service.asked);
    json_member_u64(out, "listeners_answered", r->service.answered);
    write_stages(r, out);
    write_thresholds(r, out);
    write_seconds(r, out);
    if (r->audit) {
        json_key(out, "audit");
        audit_write_json(r->audit, out);
    }
    json_close(out);
}

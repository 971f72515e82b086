/* SPDX-License-Identifier: Apache-2.0
 * load_report.c: the page of a load: one file of HTML with its drawings in it, nothing fetched from anywhere. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "check.h"
#include "html.h"
#include "json.h"
#include "load_result.h"
#include "verb.h"

static double ms(uint64_t us) { return (double)us / 1000; }

/* ---- text ---------------------------------------------------------------------------------------------------------------------------------- */

static void add(struct buf *b, const char *z) { buf_add_str(b, str_of(z)); }

static void cell(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void cell(struct buf *b, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add(b, "<td>");
    html_text(b, (struct str){text, n < (int)sizeof text ? (size_t)n : sizeof text - 1});
    add(b, "</td>");
}

static void table(struct buf *b, const char *title, const char *const heads[], size_t count)
{
    buf_add_fmt(b, "<h2>%s</h2><table><tr>", title);
    for (size_t i = 0; i < count; i++)
        buf_add_fmt(b, "<th>%s</th>", heads[i]);
    add(b, "</tr>");
}
#define TABLE(b, title, ...) table(b, title, (const char *const[]){__VA_ARGS__}, countof(((const char *const[]){__VA_ARGS__})))

/* ---- drawings ------------------------------------------------------------------------------------------------------------------------------- */

#define WIDTH 860.0
#define HEIGHT 240.0
#define LEFT 62.0
#define RIGHT 28.0
#define TOP 24.0
#define BOTTOM 28.0
#define LINES_MAX 6

struct drawn {
    const char *name, *colour;
    const double *y;
};
struct drawing {
    const char *title, *unit;
    size_t count;                     /* points of each line */
    const double *x;
    const char *(*x_word)(double x);  /* NULL: the number */
    bool logarithmic;
    struct drawn lines[LINES_MAX];
    size_t line_count;
};

/* The axis begins at 0, or at the power of ten below the least that is more than nothing. */
static double y_least(const struct drawing *d)
{
    double least = 1;
    for (size_t l = 0; d->logarithmic && l < d->line_count; l++)
        for (size_t i = 0; i < d->count; i++)
            if (d->lines[l].y[i] > 0)
                least = fmin(least, d->lines[l].y[i]);
    return d->logarithmic ? fmax(0.01, pow(10, floor(log10(least)))) : 0;
}

static double y_most(const struct drawing *d, double least)
{
    double most = least;
    for (size_t l = 0; l < d->line_count; l++)
        for (size_t i = 0; i < d->count; i++)
            if (d->lines[l].y[i] > most)
                most = d->lines[l].y[i];
    double step = pow(10, floor(log10(most > 0 ? most : 1)));
    return d->logarithmic ? pow(10, ceil(log10(most * 1.01))) : ceil(most * 1.05 / step * 2) / 2 * step + (most <= 0);
}

static double y_at(const struct drawing *d, double y, double least, double most)
{
    double share = d->logarithmic ? log(fmax(y, least) / least) / log(most / least) : y / most;
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share);
}

static double x_at(const struct drawing *d, double x)
{
    double from = d->x[0], to = d->x[d->count - 1];
    return LEFT + (WIDTH - LEFT - RIGHT) * (to > from ? (x - from) / (to - from) : 0.5);
}

static void draw_y_axis(const struct drawing *d, double least, double most, struct buf *b)
{
    unsigned steps = d->logarithmic ? (unsigned)lround(log10(most / least)) : 5;
    for (unsigned i = 0; i <= steps; i++) {
        double value = d->logarithmic ? least * pow(10, i) : most * i / steps, y = y_at(d, value, least, most);
        buf_add_fmt(b, "<line class=g x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%.0f\" y=\"%.1f\" text-anchor=end>%g</text>", LEFT, WIDTH - RIGHT, y, y,
                    LEFT - 6, y + 4, value);
    }
}

static void draw_x_axis(const struct drawing *d, struct buf *b)
{
    size_t every = d->x_word ? 1 : (d->count + 9) / 10;
    for (size_t i = 0; i < d->count; i += every) {
        char number[32];
        const char *word = d->x_word ? d->x_word(d->x[i]) : number;
        snprintf(number, sizeof number, "%g", d->x[i]);
        if (word)
            buf_add_fmt(b, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=middle>%s</text>", x_at(d, d->x[i]), HEIGHT - 8, word);
    }
}

static void draw(const struct drawing *d, struct buf *b)
{
    if (d->count == 0)
        return;
    double least = y_least(d), most = y_most(d, least);
    buf_add_fmt(b, "<h2>%s <small>%s</small></h2><svg viewBox=\"0 0 %.0f %.0f\" role=img aria-label=\"%s\">", d->title, d->unit, WIDTH, HEIGHT, d->title);
    draw_y_axis(d, least, most, b);
    draw_x_axis(d, b);
    for (size_t l = 0; l < d->line_count; l++) {
        const struct drawn *line = &d->lines[l];
        buf_add_fmt(b, "<polyline fill=none stroke=\"%s\" stroke-width=\"1.8\" points=\"", line->colour);
        for (size_t i = 0; i < d->count; i++)
            buf_add_fmt(b, "%.1f,%.1f ", x_at(d, d->x[i]), y_at(d, line->y[i], least, most));
        buf_add_fmt(b, "\"/><circle cx=\"%.0f\" cy=\"12\" r=\"4\" fill=\"%s\"/><text x=\"%.0f\" y=\"16\">%s</text>", LEFT + 10 + 130 * (double)l, line->colour,
                    LEFT + 18 + 130 * (double)l, line->name);
    }
    add(b, "</svg>");
}

/* ---- over time ------------------------------------------------------------------------------------------------------------------------------- */

static size_t seconds_of(const struct load_stats *s)
{
    size_t n = LOAD_SECONDS_MAX;
    while (n > 0 && s->seconds[n - 1].due == 0 && s->seconds[n - 1].answered == 0 && s->seconds[n - 1].ordered == 0)
        n--;
    return n;
}

static void draw_seconds(const struct load_result *r, struct buf *b)
{
    static double x[LOAD_SECONDS_MAX], y[8][LOAD_SECONDS_MAX];
    size_t n = seconds_of(r->stats), sent = 0;
    for (size_t i = 0; i < n; i++) {
        const struct load_second *s = &r->stats->seconds[i];
        x[i] = (double)i + 1;
        y[0][i] = s->due, y[1][i] = s->answered, y[2][i] = s->queued, y[3][i] = s->ordered, y[4][i] = s->errors;
        y[5][i] = ms(load_second_quantile(s, 0.5)), y[6][i] = ms(load_second_quantile(s, 0.99)), y[7][i] = ms(s->max_us);
        sent = s->due > 0 ? i + 1 : sent;
    }
    draw(&(struct drawing){.title = "Each second", .unit = "requests and reservations a second, over seconds", .count = n, .x = x,
        .lines = {{"due", "#7a7a7a", y[0]}, {"answered", "#1f6fb2", y[1]}, {"queued", "#2e8b57", y[2]}, {"orders seen", "#8a5cc2", y[3]}, {"errors", "#c0392b", y[4]}}, .line_count = 5}, b);
    draw(&(struct drawing){.title = "Latency of each second", .unit = "ms, from when a request was due, by the second in which it was due", .count = sent, .x = x, .logarithmic = true,
        .lines = {{"p50", "#2e8b57", y[5]}, {"p99", "#d08700", y[6]}, {"max", "#c0392b", y[7]}}, .line_count = 3}, b);
}

static const double shares[] = {0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999};

static const char *share_word(double x)
{
    static const char *const words[] = {"0", NULL, "50 %", NULL, "90 %", "95 %", "99 %", NULL, "99.9 %", NULL, "99.99 %", "99.999 %"};
    for (size_t i = 0; i < countof(shares); i++)
        if (fabs(-log10(1 - shares[i]) - x) < 1e-9)
            return words[i];
    return NULL;
}

/* Each decimal of certainty has the same width, so that the tail is seen. */
static void draw_quantiles(const struct load_result *r, struct buf *b)
{
    double x[countof(shares)], y[3][countof(shares)];
    for (size_t i = 0; i < countof(shares); i++) {
        x[i] = -log10(1 - shares[i]);
        y[0][i] = ms(histogram_quantile(&r->requests, shares[i]));
        y[1][i] = ms(histogram_quantile(&r->closed, shares[i]));
        y[2][i] = ms(histogram_quantile(&r->stats->accepted, shares[i]));
    }
    draw(&(struct drawing){.title = "Latency by share", .unit = "ms; what a closed loop would have shown beside it", .count = countof(shares), .x = x, .x_word = share_word, .logarithmic = true,
        .lines = {{"from when due", "#c0392b", y[0]}, {"from when sent", "#7a7a7a", y[1]}, {"that took a unit", "#2e8b57", y[2]}}, .line_count = 3}, b);
}

/* ---- tables ---------------------------------------------------------------------------------------------------------------------------------- */

static void bar(struct buf *b, double share)
{
    buf_add_fmt(b, "<td><svg class=b viewBox=\"0 0 200 10\"><rect width=\"%.1f\" height=\"10\" fill=\"#1f6fb2\"/></svg></td>", 200 * (share > 1 ? 1 : share));
}

static void write_thresholds(const struct load_result *r, struct buf *b)
{
    TABLE(b, "Thresholds", "", "key", "limit", "was", "what");
    for (unsigned i = 0; i < LOAD_THRESHOLDS; i++) {
        const struct load_threshold_row *row = load_threshold_row((enum load_threshold)i);
        if (!r->scenario->set[i])
            continue;
        add(b, r->thresholds[i].kept ? "<tr><td class=ok>✓ kept</td>" : "<tr><td class=no>✗ missed</td>");
        cell(b, "%s", row->key);
        cell(b, "%s %g %s", row->most ? "≤" : "≥", r->thresholds[i].limit, row->unit);
        if (r->thresholds[i].known)
            cell(b, "%.2f", r->thresholds[i].value);
        else
            cell(b, "not measured");
        cell(b, "%s", row->text);
        add(b, "</tr>");
    }
    add(b, "</table>");
}

static void write_funnel(const struct load_result *r, struct buf *b)
{
    const struct load_stats *s = r->stats;
    const struct load_service *v = &r->service;
    const struct { const char *what, *by; double count; } steps[] = {
        {"sent by people", "load", (double)load_stats_sent(s)}, {"answered", "load", (double)load_stats_answered(s)},
        {"answered without asking Redis: sold out", "service", v->sold_out_locally}, {"took a unit, or asked again for it", "service", v->reserved},
        {"told a reservation", "load", (double)s->told}, {"message confirmed by RocketMQ", "service", v->published}, {"messages read", "service", v->consumed},
        {"ordered, told again included", "service", v->ordered}, {"told to Redis", "service", v->told}, {"order seen by its user", "load", (double)s->ordered},
        {"paid", "load", (double)s->paid}, {"cancelled", "load", (double)s->canceled}};
    TABLE(b, "Funnel", "step", "counted by", "", "");
    for (size_t i = 0; i < countof(steps); i++) {
        add(b, "<tr>");
        cell(b, "%s", steps[i].what), cell(b, "%s", steps[i].by), cell(b, "%.0f", steps[i].count);
        bar(b, steps[0].count > 0 ? steps[i].count / steps[0].count : 0);
        add(b, "</tr>");
    }
    add(b, "</table>");
}

static void write_outcomes(const struct load_result *r, struct buf *b)
{
    const struct load_stats *s = r->stats;
    TABLE(b, "Outcomes", "who", "code", "answers", "");
    const struct { const char *who; const uint64_t *answers; } all[] = {{"people", s->answers}, {"money", s->money}, {"bots", s->bot_answers}};
    for (unsigned i = 0; i < countof(all) * REASON_COUNT; i++) {
        uint64_t n = all[i / REASON_COUNT].answers[i % REASON_COUNT];
        if (n == 0)
            continue;
        add(b, "<tr>");
        cell(b, "%s", all[i / REASON_COUNT].who), cell(b, "%s", reason_word((enum reason)(i % REASON_COUNT))), cell(b, "%llu", (unsigned long long)n);
        bar(b, (double)n / (double)(load_stats_answered(s) ? load_stats_answered(s) : 1));
        add(b, "</tr>");
    }
    add(b, "</table>");
}

static void write_row(struct buf *b, const char *name, const struct histogram *h)
{
    add(b, "<tr>");
    cell(b, "%s", name), cell(b, "%llu", (unsigned long long)h->count);
    static const double at[] = {0.5, 0.9, 0.99, 0.999, 0.9999, 1};
    for (size_t i = 0; i < countof(at); i++)
        cell(b, "%.2f", ms(histogram_quantile(h, at[i])));
    add(b, "</tr>");
}

static void write_latencies(const struct load_result *r, struct buf *b)
{
    const struct load_stats *s = r->stats;
    TABLE(b, "Latencies, ms", "what", "times", "p50", "p90", "p99", "p99.9", "p99.99", "max");
    write_row(b, "reserve and retry, from when due", &r->requests);
    write_row(b, "the same, from when sent", &r->closed);
    write_row(b, "those that took a unit", &s->accepted);
    for (unsigned d = LOAD_POLL; d < LOAD_DEEDS; d++)
        if (s->deeds[d].sent > 0)
            write_row(b, load_deed_name((enum load_deed)d), &s->deeds[d].latency);
    write_row(b, "the generator's own lateness", &s->late);
    write_row(b, "waiting for a free connection", &s->unconnected);
    add(b, "</table>");
}

static void write_stages(const struct load_result *r, struct buf *b)
{
    TABLE(b, "Stages, measured by the service itself, ms", "stage", "from – to", "times", "p50", "p95", "p99", "p99.9", "budget p50 / p95 / p99", "");
    for (unsigned i = 0; i < LOAD_STAGES; i++) {
        const struct load_stage_row *row = load_stage_row((enum load_stage)i);
        const struct load_stage_counts *c = &r->service.stages[i];
        bool over = load_stage_quantile(c, 0.5) > row->p50 || load_stage_quantile(c, 0.95) > row->p95 || load_stage_quantile(c, 0.99) > row->p99;
        add(b, "<tr>");
        cell(b, "%s", row->what), cell(b, "%s", row->how), cell(b, "%.0f", c->count);
        cell(b, "%.2f", load_stage_quantile(c, 0.5)), cell(b, "%.2f", load_stage_quantile(c, 0.95));
        cell(b, "%.2f", load_stage_quantile(c, 0.99)), cell(b, "%.2f", load_stage_quantile(c, 0.999));
        cell(b, "%g / %g / %g", row->p50, row->p95, row->p99);
        add(b, c->count <= 0 ? "<td>not measured</td></tr>" : over ? "<td class=no>over</td></tr>" : "<td class=ok>within</td></tr>");
    }
    buf_add_fmt(b, "</table><p>%u of %u processes told their metrics. Quantiles of stages are read from histogram buckets, straight lines between their edges. Budgets: mission §13.</p>",
                r->service.answered, r->service.asked);
}

static void write_audit(const struct load_result *r, struct buf *b)
{
    const struct audit *a = r->audit;
    if (!a)
        return;
    TABLE(b, "Audit, from PostgreSQL and Redis alone", "item", "S0", "A", "R", "O", "C", "E", "drift");
    for (size_t i = 0; i < a->sku_count; i++) {
        const struct conservation_sku *s = &a->skus[i].count;
        add(b, "<tr>");
        cell(b, STR_FMT, STR_ARG(s->sku));
        const int64_t numbers[] = {s->s0, s->a, s->r, s->o, s->c, s->e, s->drift};
        for (size_t k = 0; k < countof(numbers); k++)
            cell(b, "%lld", (long long)numbers[k]);
        add(b, "</tr>");
    }
    buf_add_fmt(b, "</table><p class=%s>%s</p><ul>", audit_clean(a) ? "ok" : "no", audit_clean(a) ? "Every rule holds." : a->reason != REASON_OK ? "Not proved: a store did not answer." : "Rules are broken:");
    for (size_t i = 0; i < a->finding_count && i < 200; i++) {
        add(b, "<li>");
        html_text(b, a->findings[i].rule), add(b, " "), html_text(b, a->findings[i].subject), add(b, ": "), html_text(b, a->findings[i].detail);
        add(b, "</li>");
    }
    add(b, "</ul>");
}

/* ---- the page --------------------------------------------------------------------------------------------------------------------------------- */

static void write_head(const struct load_result *r, struct buf *b)
{
    static const char style[] =
        "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:900px;padding:0 1em;color:#1b1b1b;background:#fff}"
        "h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.1em;margin:1.6em 0 .4em}small{font-weight:normal;color:#666}"
        "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}td,th{padding:.2em .6em .2em 0;text-align:left;border-bottom:1px solid #ddd}"
        "svg{width:100%;height:auto}svg text{font-size:11px;fill:#555}.g{stroke:#ddd}svg.b{width:200px;height:10px}.ok{color:#1d7a46}.no{color:#b3261e;font-weight:600}"
        ".verdict{display:inline-block;padding:.3em .8em;border:2px solid;border-radius:.4em;font-weight:600}pre{background:#f4f4f4;padding:.8em;overflow:auto}"
        "@media(prefers-color-scheme:dark){body{background:#16181c;color:#e4e4e4}td,th{border-color:#333}svg text{fill:#aaa}.g{stroke:#333}pre{background:#22252b}.ok{color:#5fcf90}.no{color:#ff8a80}}"
        "@media print{body{margin:0;max-width:none}}";
    char when[TIME_TEXT];
    int leave = load_result_leave(r);
    const char *verdict = leave == LEAVE_DONE ? "Every rule holds, every threshold is kept" : leave == LEAVE_BROKEN ? "A rule that may never break is broken"
        : leave == LEAVE_INTERRUPTED ? "Ended early" : leave != LEAVE_MISSED ? "Not proved: a store did not answer" : r->missed ? "A threshold was missed" : "The run cannot be trusted";
    time_write(r->began_ms, when);
    add(b, "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>seckill load ");
    html_text(b, str_of(r->path));
    buf_add_fmt(b, "</title><style>%s</style><h1>", style);
    html_text(b, str_of(r->path));
    buf_add_fmt(b, "</h1><p>%s on ", "seckill load");
    html_text(b, str_of(r->activity));
    buf_add_fmt(b, ", begun %.24s, seed %llu: %.0f requests due in %g s, %llu people, %.0f requests answered a second.</p><p class=\"verdict %s\">%s</p>", when,
                (unsigned long long)r->seed, r->scenario->arrivals.total, r->scenario->seconds, (unsigned long long)r->stats->people, r->answered_per_s,
                leave == LEAVE_DONE ? "ok" : "no", verdict);
    if (!r->trusted) {
        add(b, "<p class=no>Not to be trusted: ");
        html_text(b, str_of(r->doubt));
        add(b, ".</p>");
    }
    if (r->stats->contradictions > 0) {
        buf_add_fmt(b, "<p class=no>%llu answers contradict others, or cannot be understood; the first: ", (unsigned long long)r->stats->contradictions);
        html_text(b, str_of(r->stats->strange));
        add(b, "</p>");
    }
}

void load_report_write(const struct load_result *r, struct buf *b)
{
    write_head(r, b);
    write_thresholds(r, b);
    draw_seconds(r, b);
    draw_quantiles(r, b);
    write_latencies(r, b);
    write_stages(r, b);
    write_funnel(r, b);
    write_outcomes(r, b);
    write_audit(r, b);
    buf_add_fmt(b, "<h2>Generator</h2><p>%u processes, %.2f s of processor time, %llu requests not sent. Latency is counted from the moment at which the schedule wanted a request "
                "sent, whether or not an earlier one had been answered; a request that was given up counts with the time it was waited for.</p><h2>Scenario</h2><pre>",
                r->processes, (double)r->stats->cpu_us / 1e6, (unsigned long long)r->stats->unsent);
    struct buf text = buf_growing(65536);
    load_scenario_write(r->scenario, &text);
    check(buf_ok(&text));
    html_text(b, buf_str(&text));
    buf_free(&text);
    add(b, "</pre></html>\n");
}

/* SPDX-License-Identifier: Apache-2.0
 * plan_html.c: the plan as one page that fetches nothing: four charts drawn as SVG, the answers, the table, the inputs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "expression.h"
#include "html.h"
#include "plan_report.h"

#define WIDE 640
#define LEFT 262     /* where bars begin */
#define ROOM 296     /* what the longest bar takes */
#define ROW_HIGH 24

static void open_chart(struct buf *out, const char *title, int high)
{
    buf_add_str(out, str_lit("<figure><figcaption>"));
    html_text(out, str_of(title));
    buf_add_fmt(out, "</figcaption><svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"", WIDE, high, WIDE, high);
    html_text(out, str_of(title));
    buf_add_str(out, str_lit("\">\n"));
}

static void close_chart(struct buf *out) { buf_add_str(out, str_lit("</svg></figure>\n")); }

static void text_at(struct buf *out, double x, double y, const char *end, struct str text)
{
    buf_add_fmt(out, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, end);
    html_text(out, text);
    buf_add_str(out, str_lit("</text>\n"));
}

static void bar(struct buf *out, int row, const char *name, double share, const char *kind, struct str label)
{
    int y = 6 + row * ROW_HIGH;
    double length = isnan(share) ? 0 : fmin(share, 1.0) * ROOM;
    text_at(out, LEFT - 8, y + 13, " class=\"r\"", str_of(name));
    buf_add_fmt(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"17\"/>\n", kind, LEFT, y, length);
    text_at(out, LEFT + length + 6, y + 13, "", label);
}

/* ---- what breaks first ------------------------------------------------------------------------------------------------------ */

static void chart_uses(struct buf *out, const struct plan_view *v)
{
    struct plan_use ranks[PLAN_RESOURCES];
    plan_rank(v->plan, ranks);
    open_chart(out, plan_phrase(v, PHRASE_BREAKS), PLAN_RESOURCES * ROW_HIGH + 10);
    buf_add_fmt(out, "<line class=\"full\" x1=\"%d\" y1=\"0\" x2=\"%d\" y2=\"%d\"/>\n", LEFT + ROOM, LEFT + ROOM, PLAN_RESOURCES * ROW_HIGH + 8);
    for (size_t i = 0; i < PLAN_RESOURCES; i++) {
        char memory[64];
        struct buf label = buf_fixed(memory, sizeof memory);
        double use = ranks[i].use;
        if (isnan(use))
            buf_add_str(&label, str_of(plan_phrase(v, PHRASE_UNKNOWN)));
        else
            plan_write_share(&label, use);
        bar(out, (int)i, plan_resource_text(v, ranks[i].resource), use, use > 1 ? "over" : use > 0.8 ? "near" : "well", buf_str(&label));
    }
    close_chart(out);
}

/* ---- from requests to orders ------------------------------------------------------------------------------------------------ */

static void chart_funnel(struct buf *out, const struct plan_view *v)
{
    static const char *const rows[] = {"entry_target", "sale.peak", "redis_target", "query_high", "produce_rate", "order_target"};
    double most = plan_value(v->plan, plan_row_of(rows[0]));
    open_chart(out, plan_phrase(v, PHRASE_CHART_FUNNEL), (int)countof(rows) * ROW_HIGH + 10);
    for (size_t i = 0; i < countof(rows); i++) {
        char memory[64];
        struct buf label = buf_fixed(memory, sizeof memory);
        size_t row = plan_row_of(rows[i]);
        expression_number(&label, plan_value(v->plan, row));
        bar(out, (int)i, plan_text(v, row), plan_value(v->plan, row) / most, "well", buf_str(&label));
    }
    close_chart(out);
}

/* ---- the backlog: it grows while units are reserved and shrinks afterwards ---------------------------------------------------- */

static void chart_backlog(struct buf *out, const struct plan_view *v)
{
    double backlog = plan_work(v->plan, "backlog"), reserving = plan_work(v->plan, "sale.reserving_time"), drain = plan_work(v->plan, "backlog_drain");
    if (!isfinite(backlog) || backlog <= 0)
        return;
    double end = isfinite(drain) ? reserving + drain : reserving * 4;
    double deadline = plan_work(v->plan, "order.deadline"), span = fmax(end, deadline) * 1.1;
    double x0 = 60, y0 = 180, wide = WIDE - 90, high = 150, left_over = isfinite(drain) ? 0 : backlog;
    char memory[64];
    struct buf label = buf_fixed(memory, sizeof memory);
    open_chart(out, plan_phrase(v, PHRASE_CHART_BACKLOG), 210);
    buf_add_fmt(out, "<line class=\"axis\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x0, y0, x0 + wide, y0);
    buf_add_fmt(out, "<polygon class=\"area\" points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>\n", x0, y0, x0 + reserving / span * wide, y0 - high, x0 + end / span * wide,
                y0 - left_over / backlog * high, x0 + end / span * wide, y0);
    buf_add_fmt(out, "<line class=\"full\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x0 + deadline / span * wide, y0 - high, x0 + deadline / span * wide, y0);
    expression_number(&label, backlog);
    text_at(out, x0 + reserving / span * wide, y0 - high - 6, " class=\"m\"", buf_str(&label));
    const double marks[] = {0, reserving, end, deadline};
    for (size_t i = 0; i < countof(marks); i++) {
        buf_reset(&label);
        expression_number(&label, marks[i]);
        text_at(out, x0 + marks[i] / span * wide, y0 + 18, " class=\"m\"", buf_str(&label));
    }
    close_chart(out);
}

/* ---- latency budgets -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *section, *text, *chinese;
} stages[] = {
#define STAGE(name, p50, p95, p99, section, text, chinese) {name, section, text, chinese},
#include "plan.def"
#undef STAGE
};
_Static_assert(countof(stages) == PLAN_STAGES, "a chart has every stage");

static void chart_latency(struct buf *out, const struct plan_view *v, const char *section, const char *limit, enum plan_phrase title)
{
    static const char *const marks[] = {"p50", "p95", "p99"};
    double most = plan_value(v->plan, plan_row_of(limit));
    int kind = 0;
    open_chart(out, plan_phrase(v, title), 4 * ROW_HIGH + 10 + 16 * (int)countof(stages) / 2);
    for (int m = 0; m < 3; m++) {
        double x = 60;
        kind = 0;
        text_at(out, x - 8, 19 + m * ROW_HIGH, " class=\"r\"", str_of(marks[m]));
        for (size_t i = 0; i < countof(stages); i++) {
            char name[64];
            if (strcmp(stages[i].section, section) != 0)
                continue;
            snprintf(name, sizeof name, "stage.%s.%s", stages[i].name, marks[m]);
            double length = plan_value(v->plan, plan_row_of(name)) / most * (WIDE - 130);
            buf_add_fmt(out, "<rect class=\"s%d\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"17\"/>\n", kind++, x, 6 + m * ROW_HIGH, length);
            x += length;
        }
    }
    buf_add_fmt(out, "<line class=\"full\" x1=\"%d\" y1=\"0\" x2=\"%d\" y2=\"%d\"/>\n", WIDE - 70, WIDE - 70, 3 * ROW_HIGH + 4);
    kind = 0;
    for (size_t i = 0; i < countof(stages); i++) {
        if (strcmp(stages[i].section, section) != 0)
            continue;
        int x = 60 + 290 * (kind % 2), y = 3 * ROW_HIGH + 26 + 18 * (kind / 2);
        buf_add_fmt(out, "<rect class=\"s%d\" x=\"%d\" y=\"%d\" width=\"11\" height=\"11\"/>\n", kind++, x, y - 10);
        text_at(out, x + 17, y, "", str_of(v->chinese ? stages[i].chinese : stages[i].text));
    }
    close_chart(out);
}

/* ---- tables ----------------------------------------------------------------------------------------------------------------- */

static void cell(struct buf *out, const char *kind, struct str text)
{
    buf_add_fmt(out, "<td%s>", kind);
    html_text(out, text);
}

static void write_row(struct buf *out, const struct plan_view *v, size_t row)
{
    const struct plan_row *r = plan_row(row);
    char memory[1024];
    struct buf text = buf_fixed(memory, sizeof memory);
    buf_add_fmt(out, "<tr id=\"%s\">", r->name);
    cell(out, "", str_of(r->section));
    cell(out, "", str_of(plan_text(v, row)));
    plan_write_result(&text, v, row);
    cell(out, " class=n", buf_str(&text));
    cell(out, "", str_of(plan_unit(v, r->unit)));
    buf_reset(&text);
    if (!r->input)
        plan_write_formula(&text, v, r->formula, false);
    cell(out, "", buf_str(&text));
    buf_reset(&text);
    plan_write_assumption(&text, v, r->input ? r->name : r->assumes);
    cell(out, "", buf_str(&text));
    buf_add_char(out, '\n');
}

static void write_rows(struct buf *out, const struct plan_view *v, size_t from, size_t to)
{
    static const enum plan_phrase heads[] = {PHRASE_WHAT, PHRASE_RESULT, PHRASE_COUNT, PHRASE_FORMULA, PHRASE_BINDS};
    buf_add_str(out, str_lit("<table><tr><th>§"));
    for (size_t i = 0; i < countof(heads); i++)
        buf_add_fmt(out, "<th>%s", heads[i] == PHRASE_COUNT ? "" : plan_phrase(v, heads[i]));
    buf_add_char(out, '\n');
    for (size_t row = from; row < to; row++)
        write_row(out, v, row);
    buf_add_str(out, str_lit("</table>\n"));
}

static const char style[] =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;color:#1a1d21;background:#fff}h1{font-size:1.5em}"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:.2em .9em .2em 0;text-align:left;border-bottom:1px solid #d9dde2;vertical-align:top}"
    ".n{text-align:right;white-space:nowrap}figure{display:inline-block;margin:0 1.5em 1.5em 0;vertical-align:top}figcaption{font-weight:600}"
    "svg{max-width:100%;height:auto}text{font:12px system-ui,sans-serif;fill:#1a1d21}.r{text-anchor:end}.m{text-anchor:middle}"
    ".well{fill:#3b7dbd}.near{fill:#d98a1f}.over{fill:#b3261e}.area{fill:#3b7dbd;fill-opacity:.5;stroke:#3b7dbd}.axis{stroke:#6b7280}"
    ".full{stroke:#b3261e;stroke-dasharray:4 3}.s0{fill:#2f5f8f}.s1{fill:#4f93c8}.s2{fill:#8fbfe0}.s3{fill:#d98a1f}.s4{fill:#e8b96a}.s5{fill:#7a8a99}"
    "@media(prefers-color-scheme:dark){body{background:#14171a;color:#e6e8ea}text{fill:#e6e8ea}td,th{border-color:#343a40}}";

void plan_html(struct buf *out, const struct plan_view *v)
{
    buf_add_fmt(out, "<!doctype html><html lang=\"%s\"><meta charset=\"utf-8\"><title>", v->chinese ? "zh" : "en");
    buf_add_fmt(out, "%s</title><style>%s</style>\n<h1>%s</h1><p>", plan_phrase(v, PHRASE_TITLE), style, plan_phrase(v, PHRASE_TITLE));
    html_text(out, str_of(v->source));
    buf_add_fmt(out, "</p>\n<h2>%s</h2><ul>", plan_phrase(v, PHRASE_ANSWERS));
    for (size_t i = 0;; i++) {
        char memory[1024];
        struct buf text = buf_fixed(memory, sizeof memory);
        if (!plan_answer(&text, v, i))
            break;
        buf_add_str(out, str_lit("<li>"));
        html_text(out, buf_str(&text));
    }
    buf_add_str(out, str_lit("</ul>\n"));
    chart_uses(out, v);
    chart_funnel(out, v);
    chart_backlog(out, v);
    chart_latency(out, v, "13.1", "target.accept", PHRASE_CHART_LATENCY);
    chart_latency(out, v, "13.2", "target.order_p99", PHRASE_CHART_ORDER);
    write_rows(out, v, PLAN_INPUTS, PLAN_ROWS);
    buf_add_str(out, str_lit("<p>"));
    write_rows(out, v, 0, PLAN_INPUTS);
    buf_add_str(out, str_lit("</html>\n"));
}

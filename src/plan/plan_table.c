/* SPDX-License-Identifier: Apache-2.0
 * plan_table.c: the plan for a terminal: a heading for each section of the mission, a line for each line, what breaks first, the answers. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "expression.h"
#include "plan_report.h"

#define TEXT_WIDE 54
#define RESULT_WIDE 32
#define EXPLAIN_DEEP 12

/* Columns a terminal needs for it: letters of Chinese, Japanese and Korean and their signs are two wide. */
static size_t width(struct str s)
{
    size_t wide = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if ((c & 0xc0) == 0x80)
            continue;
        bool far_east = (c >= 0xe3 && c <= 0xed) || c == 0xef || c >= 0xf0 || (c == 0xe2 && (unsigned char)s.ptr[i + 1] >= 0xba);
        wide += far_east ? 2 : 1;
    }
    return wide;
}

/* Writes what was added since `from` up to a width. */
static void pad(struct buf *out, size_t from, size_t wide)
{
    if (!buf_ok(out))
        return;
    size_t is = width((struct str){out->ptr + from, out->len - from});
    do
        buf_add_char(out, ' ');
    while (++is < wide);
}

static void write_line(struct buf *out, const struct plan_view *v, size_t row)
{
    const struct plan_row *r = plan_row(row);
    size_t from = out->len;
    buf_add_fmt(out, "  %s", plan_text(v, row));
    pad(out, from, TEXT_WIDE);
    from = out->len;
    plan_write_result(out, v, row);
    buf_add_fmt(out, " %s", plan_unit(v, r->unit));
    pad(out, from, RESULT_WIDE);
    plan_write_formula(out, v, r->formula, false);
    const char *missing = isnan(plan_value(v->plan, row)) ? plan_missing(v, r->formula) : NULL;
    buf_add_fmt(out, "   [%s ← ", r->name);
    plan_write_assumption(out, v, missing ? missing : r->assumes);
    buf_add_str(out, str_lit("]\n"));
}

static void write_use(struct buf *out, const struct plan_view *v, const struct plan_use *u)
{
    const struct plan_resource *r = u->resource;
    size_t from = out->len;
    buf_add_fmt(out, "  %s", plan_resource_text(v, r));
    pad(out, from, TEXT_WIDE);
    from = out->len;
    expression_number(out, u->load);
    buf_add_str(out, str_lit(" / "));
    expression_number(out, u->capacity);
    pad(out, from, RESULT_WIDE);
    from = out->len;
    if (isnan(u->use)) {
        const char *missing = plan_missing(v, isnan(u->load) ? r->load : r->capacity);
        buf_add_fmt(out, "%s; %s %s\n", plan_phrase(v, PHRASE_UNKNOWN), plan_phrase(v, PHRASE_NEEDS), missing ? missing : r->more);
        return;
    }
    plan_write_share(out, u->use);
    pad(out, from, 10);
    from = out->len;
    buf_add_fmt(out, "%s %s × ", plan_phrase(v, PHRASE_FULL_AT), plan_phrase(v, r->grows_with_stock ? PHRASE_STOCK : PHRASE_PEAK));
    expression_number(out, 1 / u->use);
    pad(out, from, 28);
    buf_add_fmt(out, "%s ", plan_phrase(v, PHRASE_MORE));
    plan_write_assumption(out, v, r->more);
    buf_add_char(out, '\n');
}

static void write_ranks(struct buf *out, const struct plan_view *v)
{
    struct plan_use ranks[PLAN_RESOURCES];
    plan_rank(v->plan, ranks);
    buf_add_fmt(out, "\n%s\n", plan_phrase(v, PHRASE_BREAKS));
    for (size_t i = 0; i < PLAN_RESOURCES; i++)
        write_use(out, v, &ranks[i]);
}

void plan_table(struct buf *out, const struct plan_view *v)
{
    const char *section = "";
    for (size_t row = PLAN_INPUTS; row < PLAN_ROWS; row++) {
        const char *here = plan_row(row)->section;
        if (strcmp(here, section) != 0)
            buf_add_fmt(out, "%s%s%s  %s\n", row == PLAN_INPUTS ? "" : "\n", strcmp(here, "ours") == 0 ? "" : "§", strcmp(here, "ours") == 0 ? plan_phrase(v, PHRASE_OURS) : here, plan_section(v, here));
        section = here;
        write_line(out, v, row);
    }
    write_ranks(out, v);
    buf_add_fmt(out, "\n%s\n", plan_phrase(v, PHRASE_ANSWERS));
    for (size_t i = 0;; i++) {
        size_t from = out->len;
        buf_add_str(out, str_lit("  "));
        if (!plan_answer(out, v, i)) {
            out->len = from;
            return;
        }
        buf_add_char(out, '\n');
    }
}

/* ---- one line explained ---------------------------------------------------------------------------------------------------- */

struct explaining {
    struct buf *out;
    const struct plan_view *view;
    unsigned deep;
    bool told[PLAN_ROWS];
    size_t line;
};

static void tell(struct explaining *e, size_t row);

static void tell_name(void *arg, struct str name)
{
    struct explaining *e = arg;
    size_t row = plan_find(name);
    if (row != PLAN_NONE && !e->told[row] && e->deep < EXPLAIN_DEEP)
        tell(e, row);
}

static void write_origin(struct explaining *e, size_t row)
{
    const struct plan_view *v = e->view;
    const struct plan *p = v->plan;
    switch (p->origin[row]) {
    case PLAN_DEFAULT:
        buf_add_fmt(e->out, "%s%s%s", plan_phrase(v, plan_follows(p, row) ? PHRASE_AS_PLANNED : PHRASE_ASSUMED), plan_row(row)->section[0] ? ", §" : "", plan_row(row)->section);
        break;
    case PLAN_FILE: buf_add_fmt(e->out, "%s:%u", v->source, p->file_line[row]); break;
    case PLAN_MEASURED: buf_add_fmt(e->out, "%s, %s", plan_phrase(v, PHRASE_MEASURED), v->measured ? v->measured : ""); break;
    case PLAN_SET: buf_add_str(e->out, str_lit("--set")); break;
    }
    double by = plan_sensitivity(p, e->line, row);
    if (isfinite(by))
        buf_add_fmt(e->out, "; %s: %+.1f %%", plan_phrase(v, PHRASE_A_TENTH), by * 100);
}

static void tell(struct explaining *e, size_t row)
{
    const struct plan_row *r = plan_row(row);
    bool given = row < PLAN_INPUTS && e->view->plan->origin[row] != PLAN_DEFAULT;
    e->told[row] = true;
    buf_add_fmt(e->out, "%*s%s = ", (int)e->deep * 2, "", r->name);
    plan_write_result(e->out, e->view, row);
    buf_add_fmt(e->out, " %s: %s", plan_unit(e->view, r->unit), plan_text(e->view, row));
    if (row < PLAN_INPUTS) {
        buf_add_str(e->out, str_lit(" ("));
        write_origin(e, row);
        buf_add_char(e->out, ')');
    } else {
        buf_add_fmt(e->out, "\n%*s  = ", (int)e->deep * 2, "");
        plan_write_formula(e->out, e->view, r->formula, true);
        buf_add_fmt(e->out, "\n%*s  = ", (int)e->deep * 2, "");
        plan_write_formula(e->out, e->view, r->formula, false);
    }
    buf_add_char(e->out, '\n');
    e->deep++;
    if (!given)
        expression_names(str_of(r->formula), tell_name, e);
    e->deep--;
}

void plan_explain(struct buf *out, const struct plan_view *v, size_t row)
{
    static const enum plan_phrase rules[] = {[PLAN_WHOLE] = PHRASE_ROUND_WHOLE, [PLAN_FIGURES1] = PHRASE_ROUND_ONE, [PLAN_FIGURES2] = PHRASE_ROUND_TWO};
    const struct plan_row *r = plan_row(row);
    struct explaining e = {.out = out, .view = v, .line = row};
    buf_add_fmt(out, "%s%s  %s\n", r->section[0] >= '0' && r->section[0] <= '9' ? "§" : "", r->section, plan_text(v, row));
    if (!r->input && r->shown != PLAN_EXACT)
        buf_add_fmt(out, "%s: %s\n", plan_phrase(v, PHRASE_PLANNED), plan_phrase(v, rules[r->shown]));
    if (!r->input) {
        buf_add_fmt(out, "%s: ", plan_phrase(v, PHRASE_BINDS));
        plan_write_assumption(out, v, r->assumes);
        buf_add_char(out, '\n');
    }
    tell(&e, row);
}

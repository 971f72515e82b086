/* SPDX-License-Identifier: Apache-2.0
 * plan_json.c: the plan for programs. A number that is not known, or without end, is null; `never` tells the latter. */
#include <math.h>

#include "check.h"
#include "json.h"
#include "plan_report.h"

static const char *const origins[] = {[PLAN_DEFAULT] = "default", [PLAN_FILE] = "file", [PLAN_MEASURED] = "measured", [PLAN_SET] = "set"};
static const char *const shown[] = {[PLAN_EXACT] = "exact", [PLAN_WHOLE] = "up to a whole number", [PLAN_FIGURES1] = "up to one figure", [PLAN_FIGURES2] = "up to two figures"};

static const char *origin_of(const struct plan_view *v, size_t input) { return plan_follows(v->plan, input) ? "plan" : origins[v->plan->origin[input]]; }

static void member_written(struct buf *out, const char *key, const struct plan_view *v, const char *formula, bool bare)
{
    char memory[1024];
    struct buf text = buf_fixed(memory, sizeof memory);
    plan_write_formula(&text, v, formula, bare);
    check(buf_ok(&text));
    json_member_str(out, key, buf_str(&text));
}

static void write_input(struct buf *out, const struct plan_view *v, size_t row)
{
    const struct plan_row *r = plan_row(row);
    json_open(out);
    json_member_text(out, "name", r->name);
    json_member_text(out, "text", plan_text(v, row));
    json_member_real(out, "value", plan_value(v->plan, row));
    json_member_text(out, "unit", r->unit);
    json_member_text(out, "origin", origin_of(v, row));
    json_maybe_str(out, "section", str_of(r->section));
    json_close(out);
}

static void write_line(struct buf *out, const struct plan_view *v, size_t row)
{
    const struct plan_row *r = plan_row(row);
    json_open(out);
    json_member_text(out, "name", r->name);
    json_member_text(out, "section", r->section);
    json_member_text(out, "text", plan_text(v, row));
    json_member_real(out, "value", plan_value(v->plan, row));
    json_member_real(out, "planned", plan_planned(v->plan, row));
    if (isinf(plan_value(v->plan, row)))
        json_member_bool(out, "never", true);
    json_member_text(out, "rounded", shown[r->shown]);
    json_member_text(out, "unit", r->unit);
    json_member_text(out, "formula", r->formula);
    member_written(out, "numbers", v, r->formula, false);
    json_member_text(out, "assumes", r->assumes);
    json_member_text(out, "assumption", origin_of(v, plan_row_of(r->assumes)));
    json_close(out);
}

static void write_use(struct buf *out, const struct plan_view *v, const struct plan_use *u)
{
    json_open(out);
    json_member_text(out, "name", u->resource->name);
    json_member_text(out, "text", plan_resource_text(v, u->resource));
    json_member_real(out, "load", u->load);
    json_member_real(out, "capacity", u->capacity);
    json_member_real(out, "used", u->use);
    json_member_text(out, "grows_with", u->resource->grows_with_stock ? "stock" : "peak");
    json_member_real(out, "full_at_times", 1 / u->use);
    json_member_text(out, "more_by", u->resource->more);
    json_close(out);
}

void plan_json(struct buf *out, const struct plan_view *v)
{
    struct plan_use ranks[PLAN_RESOURCES];
    json_open(out);
    json_key(out, "inputs");
    json_open_array(out);
    for (size_t row = 0; row < PLAN_INPUTS; row++)
        write_input(out, v, row);
    json_close_array(out);
    json_key(out, "lines");
    json_open_array(out);
    for (size_t row = PLAN_INPUTS; row < PLAN_ROWS; row++)
        write_line(out, v, row);
    json_close_array(out);
    json_key(out, "breaks_first");
    json_open_array(out);
    plan_rank(v->plan, ranks);
    for (size_t i = 0; i < PLAN_RESOURCES; i++)
        write_use(out, v, &ranks[i]);
    json_close_array(out);
    json_key(out, "answers");
    json_open_array(out);
    for (size_t i = 0;; i++) {
        char memory[1024];
        struct buf text = buf_fixed(memory, sizeof memory);
        if (!plan_answer(&text, v, i))
            break;
        json_str(out, buf_str(&text));
    }
    json_close_array(out);
    json_close(out);
}

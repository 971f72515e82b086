/* SPDX-License-Identifier: Apache-2.0
 * plan_report.h: a plan as a table, as JSON, as an HTML page that needs nothing else, and one line of it explained. All write into the buf
 * given; none of them decides anything. English or Chinese; names, keys and numbers are the same in both. */
#pragma once
#include "plan.h"

#define PLAN_REPORT_MAX (1024 * 1024)    /* bytes of any of them */

struct plan_view {
    struct plan *plan;
    bool chinese;
    const char *source;      /* of the inputs, for people: a file's name */
    const char *measured;    /* file of capacities; NULL: none */
};
void plan_table(struct buf *out, const struct plan_view *v);
void plan_json(struct buf *out, const struct plan_view *v);
void plan_html(struct buf *out, const struct plan_view *v);
/* How a line comes about, down to the inputs. */
void plan_explain(struct buf *out, const struct plan_view *v, size_t row);

/* ---- for the reports themselves (plan_words.c) ---- */
enum plan_phrase {
#define PHRASE(symbol, text, chinese) PHRASE_##symbol,
#include "plan.def"
#undef PHRASE
    PHRASE_COUNT
};
const char *plan_phrase(const struct plan_view *v, enum plan_phrase phrase);
const char *plan_text(const struct plan_view *v, size_t row);
const char *plan_unit(const struct plan_view *v, const char *unit);
const char *plan_section(const struct plan_view *v, const char *number);    /* its title */
const char *plan_resource_text(const struct plan_view *v, const struct plan_resource *r);
/* "capacity.access (assumed)" */
void plan_write_assumption(struct buf *out, const struct plan_view *v, const char *name);
/* The formula with the numbers put in, or as it stands where `bare`. */
void plan_write_formula(struct buf *out, const struct plan_view *v, const char *formula, bool bare);
/* The first input that nobody has said and without which the formula is not known; NULL: none. */
const char *plan_missing(const struct plan_view *v, const char *formula);
/* Result, and what is planned where that is another number: "585,000 → 600,000" */
void plan_write_result(struct buf *out, const struct plan_view *v, size_t row);
void plan_write_share(struct buf *out, double share);    /* "83.3 %" */
/* The sentences at the end, one a call: false past the last. */
bool plan_answer(struct buf *out, const struct plan_view *v, size_t i);

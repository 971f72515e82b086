/* SPDX-License-Identifier: Apache-2.0
 * plan.h: the mission's arithmetic (§12, §13) as a table that is worked out for given inputs. Rows are spec/plan.def: inputs first, lines after
 * them, found by name. Pure: no files, no clock, nothing kept beyond the struct. What is not known (NaN) makes unknown what needs it.
 *
 * How to read on: expression.h (formulas), plan_report.h (how a plan is shown), src/app/plan.c (the verb), docs/plan.md. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

enum plan_shown { PLAN_EXACT, PLAN_WHOLE, PLAN_FIGURES1, PLAN_FIGURES2 };
enum plan_origin {
    PLAN_DEFAULT,     /* nobody has said it: the mission's own assumption, or ours */
    PLAN_FILE,        /* the plan's file */
    PLAN_MEASURED,    /* a file of what was measured (--capacity) */
    PLAN_SET,         /* --set */
};
struct plan_row {
    const char *name, *unit, *formula, *section;
    const char *text, *chinese;
    const char *assumes;         /* of a line: the input that binds it */
    double min, max;             /* of an input */
    enum plan_shown shown;       /* of a line */
    bool input;
};

enum {
#define INPUT(name, unit, value, min, max, section, text, chinese) +1
#define STAGE(name, p50, p95, p99, section, text, chinese) +3
    PLAN_INPUTS = 0
#include "plan.def"
    ,
#undef INPUT
#undef STAGE
#define LINE(name, unit, formula, shown, section, assumes, text, chinese) +1
    PLAN_LINES = 0
#include "plan.def"
    ,
#undef LINE
#define RESOURCE(name, load, capacity, grows, more, text, chinese) +1
    PLAN_RESOURCES = 0
#include "plan.def"
    ,
#undef RESOURCE
#define STAGE(name, p50, p95, p99, section, text, chinese) +1
    PLAN_STAGES = 0
#include "plan.def"
#undef STAGE
};
#define PLAN_ROWS (PLAN_INPUTS + PLAN_LINES)
#define PLAN_NONE PLAN_ROWS    /* no such row */
#define PLAN_DEEP 64           /* lines that stand on lines: the longest chain there may be */

struct plan {
    double given[PLAN_INPUTS];
    enum plan_origin origin[PLAN_INPUTS];
    unsigned file_line[PLAN_INPUTS];
    double value[PLAN_ROWS];            /* worked out when first asked for */
    unsigned char state[PLAN_ROWS];
    unsigned depth;
};

const struct plan_row *plan_row(size_t i);
size_t plan_find(struct str name);    /* PLAN_NONE: there is none */
/* The row of a name that is known to be there. */
size_t plan_row_of(const char *name);

/* Of an input: nobody has said it, and it is what the plan itself comes to (its default is a formula, not a number). */
bool plan_follows(const struct plan *p, size_t input);
void plan_init(struct plan *p);
/* `file_line`: where it stands in its file, for PLAN_FILE; else 0. False: out of the input's range, nothing changed. */
bool plan_set(struct plan *p, size_t input, double value, enum plan_origin origin, unsigned file_line);
/* Unrounded. NaN: not known. */
double plan_value(struct plan *p, size_t row);
/* As it is planned: rounded as the row says. */
double plan_planned(struct plan *p, size_t row);
/* A formula of the caller's own over the rows of this plan. */
double plan_work(struct plan *p, const char *formula);
/* By how much (0.1: a tenth) the line changes where the input is a tenth more. */
double plan_sensitivity(const struct plan *p, size_t line, size_t input);

struct plan_resource {
    const char *name, *load, *capacity, *more, *text, *chinese;
    bool grows_with_stock;
};
const struct plan_resource *plan_resource(size_t i);
struct plan_use {
    const struct plan_resource *resource;
    double load, capacity, use;    /* use: NaN where one of them is not known */
};
/* Every resource, the fullest first, the unknown last. */
void plan_rank(struct plan *p, struct plan_use out[PLAN_RESOURCES]);

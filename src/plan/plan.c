/* SPDX-License-Identifier: Apache-2.0
 * plan.c: a row is worked out when it is first asked for; a row that needs itself is our own fault in the table, and the tests ask every row. */
#include "plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "expression.h"

static const struct plan_row rows[PLAN_ROWS + 1] = {
#define INPUT(name, unit, value, min, max, section, text, chinese) {name, unit, value, section, text, chinese, NULL, min, max, PLAN_EXACT, true},
#define STAGE_INPUT(name, mark, value, section, text, chinese) {"stage." name "." mark, "ms", #value, section, text, chinese, NULL, 0, 1e6, PLAN_EXACT, true},
#define STAGE(name, a, b, c, section, text, chinese) \
    STAGE_INPUT(name, "p50", a, section, text, chinese) STAGE_INPUT(name, "p95", b, section, text, chinese) STAGE_INPUT(name, "p99", c, section, text, chinese)
#include "plan.def"
#undef INPUT
#undef STAGE
#undef STAGE_INPUT
#define LINE(name, unit, formula, shown, section, assumes, text, chinese) {name, unit, formula, section, text, chinese, assumes, 0, 0, PLAN_##shown, false},
#include "plan.def"
#undef LINE
};

#define GROWS_PEAK false
#define GROWS_STOCK true
static const struct plan_resource resources[] = {
#define RESOURCE(name, load, capacity, grows, more, text, chinese) {name, load, capacity, more, text, chinese, GROWS_##grows},
#include "plan.def"
#undef RESOURCE
};

enum { UNASKED, WORKING, DONE };

const struct plan_row *plan_row(size_t i)
{
    check(i < PLAN_ROWS);
    return &rows[i];
}

const struct plan_resource *plan_resource(size_t i)
{
    check(i < PLAN_RESOURCES);
    return &resources[i];
}

size_t plan_find(struct str name)
{
    for (size_t i = 0; i < PLAN_ROWS; i++)
        if (str_eq(name, str_of(rows[i].name)))
            return i;
    return PLAN_NONE;
}

size_t plan_row_of(const char *name)
{
    size_t i = plan_find(str_of(name));
    check(i != PLAN_NONE);
    return i;
}

void plan_init(struct plan *p)
{
    memset(p, 0, sizeof *p);
    for (size_t i = 0; i < PLAN_INPUTS; i++)
        p->given[i] = NAN;
}

bool plan_set(struct plan *p, size_t input, double value, enum plan_origin origin, unsigned file_line)
{
    check(input < PLAN_INPUTS);
    if (!(value >= rows[input].min && value <= rows[input].max))
        return false;
    p->given[input] = value;
    p->origin[input] = origin;
    p->file_line[input] = file_line;
    memset(p->state, UNASKED, sizeof p->state);
    return true;
}

bool plan_follows(const struct plan *p, size_t input)
{
    check(input < PLAN_INPUTS);
    const char *formula = rows[input].formula;
    return p->origin[input] == PLAN_DEFAULT && formula[strcspn(formula, "abcdefghijklmnopqrstuvwxyz")] != 0 && strcmp(formula, "unknown") != 0;
}

static double by_name(void *arg, struct str name, bool *known)
{
    if (str_eq(name, str_lit("unknown")))
        return NAN;
    size_t row = plan_find(name);
    *known = row != PLAN_NONE;
    return *known ? plan_value(arg, row) : NAN;
}

double plan_work(struct plan *p, const char *formula)
{
    double x;
    const char *fault;
    size_t at;
    bool good = expression_work(str_of(formula), by_name, p, &x, &fault, &at);
    check(good);    /* formulas are rows of ours */
    return x;
}

double plan_value(struct plan *p, size_t row)
{
    check(row < PLAN_ROWS && p->state[row] != WORKING && p->depth < PLAN_DEEP);
    if (p->state[row] == DONE)
        return p->value[row];
    p->state[row] = WORKING;
    p->depth++;
    bool given = row < PLAN_INPUTS && p->origin[row] != PLAN_DEFAULT;
    p->value[row] = given ? p->given[row] : plan_work(p, rows[row].formula);
    p->depth--;
    p->state[row] = DONE;
    return p->value[row];
}

double plan_planned(struct plan *p, size_t row)
{
    double x = plan_value(p, row);
    switch (rows[row].shown) {
    case PLAN_WHOLE: return expression_whole(x);
    case PLAN_FIGURES1: return expression_figures(x, 1);
    case PLAN_FIGURES2: return expression_figures(x, 2);
    case PLAN_EXACT: break;
    }
    return x;
}

double plan_sensitivity(const struct plan *p, size_t line, size_t input)
{
    struct plan more = *p;
    double before = plan_value(&more, line), x = plan_value(&more, input);
    more.given[input] = x * 1.1;    /* past its range, if need be: only to see */
    more.origin[input] = PLAN_SET;
    memset(more.state, UNASKED, sizeof more.state);
    double after = plan_value(&more, line);
    return isfinite(before) && isfinite(after) && before != 0 ? after / before - 1 : NAN;
}

static int fuller(const void *a, const void *b)
{
    double x = ((const struct plan_use *)a)->use, y = ((const struct plan_use *)b)->use;
    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return (x < y) - (x > y);
}

void plan_rank(struct plan *p, struct plan_use out[PLAN_RESOURCES])
{
    for (size_t i = 0; i < PLAN_RESOURCES; i++) {
        double load = plan_work(p, resources[i].load), capacity = plan_work(p, resources[i].capacity);
        out[i] = (struct plan_use){&resources[i], load, capacity, load / capacity};
    }
    qsort(out, PLAN_RESOURCES, sizeof out[0], fuller);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_check.h"

#include <math.h>
#include <stdio.h>

#include "check.h"
#include "json.h"

enum fold { FOLD_SUM, FOLD_MOST, FOLD_LEAST };
static const struct {
    const char *name, *role;
    enum fold fold;
    const char *formula;
} sights[] = {
#define SEEN(name, role, fold, formula) {name, role, FOLD_##fold, formula},
#include "plan.def"
#undef SEEN
};

#define BOUND_LEAST false
#define BOUND_MOST true
static const struct {
    const char *name, *seen;
    bool at_most;
    const char *wanted, *unit, *text, *chinese;
} demands[] = {
#define DEMAND(name, seen, bound, wanted, unit, text, chinese) {name, seen, BOUND_##bound, wanted, unit, text, chinese},
#include "plan.def"
#undef DEMAND
};

struct looking {
    struct plan *plan;
    double seen[countof(sights)];
};

static double work(const char *formula, expression_value value, void *arg)
{
    double x;
    const char *fault;
    size_t at;
    return expression_work(str_of(formula), value, arg, &x, &fault, &at) ? x : NAN;
}

static bool has_role(const struct plan_process *p, const char *role)
{
    char name[64];
    bool known = true;
    int n = snprintf(name, sizeof name, "role.%s", role);
    return role[0] == 0 || p->value(p->arg, (struct str){name, (size_t)n}, &known) == 1;
}

/* SUM begins at 0: where nobody has the role, there are none. MOST and LEAST of nobody are not known; one who has nothing to say is left out. */
static double see(size_t i, const struct plan_process *processes, size_t count)
{
    double all = sights[i].fold == FOLD_SUM ? 0 : NAN;
    for (size_t n = 0; n < count; n++) {
        if (!has_role(&processes[n], sights[i].role))
            continue;
        double x = work(sights[i].formula, processes[n].value, processes[n].arg);
        if (sights[i].fold == FOLD_SUM)
            all += x;
        else if (isnan(all) || (!isnan(x) && (sights[i].fold == FOLD_MOST ? x > all : x < all)))
            all = x;
    }
    return all;
}

static double by_name(void *arg, struct str name, bool *known)
{
    struct looking *l = arg;
    for (size_t i = 0; i < countof(sights); i++)
        if (str_eq(name, str_of(sights[i].name)))
            return l->seen[i];
    size_t row = plan_find(name);
    *known = row != PLAN_NONE;
    return *known ? plan_planned(l->plan, row) : NAN;
}

static enum plan_verdict judge(const struct plan_finding *f)
{
    double slack = fabs(f->wants) * 1e-9;
    if (isnan(f->has) || isnan(f->wants))
        return PLAN_NOT_SEEN;
    return (f->at_most ? f->has <= f->wants + slack : f->has >= f->wants - slack) ? PLAN_GOOD : PLAN_BELOW;
}

size_t plan_judge(struct plan *p, const struct plan_process *processes, size_t count, struct plan_finding out[PLAN_DEMANDS])
{
    struct looking l = {.plan = p};
    size_t below = 0;
    for (size_t i = 0; i < countof(sights); i++)
        l.seen[i] = see(i, processes, count);
    for (size_t i = 0; i < PLAN_DEMANDS; i++) {
        out[i] = (struct plan_finding){.name = demands[i].name, .unit = demands[i].unit, .text = demands[i].text, .chinese = demands[i].chinese, .at_most = demands[i].at_most,
                                       .has = work(demands[i].seen, by_name, &l), .wants = work(demands[i].wanted, by_name, &l)};
        out[i].verdict = judge(&out[i]);
        below += out[i].verdict == PLAN_BELOW;
    }
    return below;
}

/* ---- printing -------------------------------------------------------------------------------------------------------------- */

static void write_cell(struct buf *out, double x, const char *before, size_t wide)
{
    char memory[64];
    struct buf text = buf_fixed(memory, sizeof memory);
    buf_add_str(&text, str_of(before));
    expression_number(&text, x);
    for (size_t n = text.len; n < wide; n++)
        buf_add_char(out, ' ');
    buf_add_str(out, buf_str(&text));
}

void plan_findings_table(struct buf *out, const struct plan_view *v, const struct plan_finding findings[PLAN_DEMANDS])
{
    static const enum plan_phrase words[] = {[PLAN_GOOD] = PHRASE_GOOD, [PLAN_BELOW] = PHRASE_BELOW, [PLAN_NOT_SEEN] = PHRASE_NOT_SEEN};
    buf_add_fmt(out, "%s\n", plan_phrase(v, PHRASE_CHECKED));
    for (size_t i = 0; i < PLAN_DEMANDS; i++) {
        const struct plan_finding *f = &findings[i];
        write_cell(out, f->has, "", 12);
        write_cell(out, f->wants, f->at_most ? "<= " : ">= ", 14);
        buf_add_fmt(out, " %-12s %-13s %s\n", plan_unit(v, f->unit), plan_phrase(v, words[f->verdict]), v->chinese ? f->chinese : f->text);
    }
}

void plan_findings_json(struct buf *out, const struct plan_view *v, const struct plan_finding findings[PLAN_DEMANDS])
{
    static const char *const words[] = {[PLAN_GOOD] = "good", [PLAN_BELOW] = "below", [PLAN_NOT_SEEN] = "not_seen"};
    json_open(out);
    json_key(out, "findings");
    json_open_array(out);
    for (size_t i = 0; i < PLAN_DEMANDS; i++) {
        const struct plan_finding *f = &findings[i];
        json_open(out);
        json_member_text(out, "name", f->name);
        json_member_text(out, "text", v->chinese ? f->chinese : f->text);
        json_member_real(out, "has", f->has);
        json_member_text(out, "bound", f->at_most ? "at_most" : "at_least");
        json_member_real(out, "plan", f->wants);
        json_member_text(out, "unit", f->unit);
        json_member_text(out, "verdict", words[f->verdict]);
        json_close(out);
    }
    json_close_array(out);
    json_close(out);
}

/* SPDX-License-Identifier: Apache-2.0
 * plan.c: `seckill plan [FILE]`: the mission's arithmetic for a sale of yours (src/plan), and with --check beside what runs (plan_ask.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "plan_ask.h"
#include "plan_file.h"
#include "plan_report.h"
#include "suggest.h"
#include "verb.h"

#define COMPLAINTS_MAX (64 * 1024)

static int said(const struct buf *complaints, const struct call *c, int leave)
{
    fprintf(stderr, STR_FMT "See `seckill help %s`.\n", STR_ARG(buf_str(complaints)), verb_row(c->verb)->name);
    return leave;
}

/* Everything that is put in, weakest first: the file, what was measured, --set. */
static int fill(const struct call *c, struct plan *p, struct buf *complaints)
{
    const char *measured = call_text(c, "capacity");
    size_t taken;
    plan_init(p);
    if (c->argument_count > 0 && !plan_file_read(p, c->arguments[0], complaints))
        return said(complaints, c, LEAVE_CONFIG);
    if (measured[0] && !plan_file_capacity(p, measured, &taken, complaints))
        return said(complaints, c, LEAVE_CONFIG);
    const char *words;
    for (size_t i = 0; (words = call_again(c, "set", i)); i++)
        if (!plan_file_set(p, words, complaints))
            return said(complaints, c, LEAVE_USAGE);
    return LEAVE_DONE;
}

static int explain(const struct call *c, const struct plan_view *v, struct buf *out)
{
    struct str name = str_of(call_text(c, "explain"));
    struct suggest nearest = {.typed = name};
    size_t row = plan_find(name);
    if (row != PLAN_NONE) {
        plan_explain(out, v, row);
        return LEAVE_DONE;
    }
    for (size_t i = 0; i < PLAN_ROWS; i++)
        suggest_offer(&nearest, plan_row(i)->name);
    return call_misused(c, "there is no line \"" STR_FMT "\"%s%s%s", STR_ARG(name), nearest.best ? "; did you mean " : "", nearest.best ? nearest.best : "",
                        nearest.best ? "?" : "");
}

static int write_page(const struct call *c, const struct buf *page, const char *path)
{
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(page->ptr, 1, page->len, f) == page->len;
    if (f && fclose(f) != 0)
        good = false;
    return good ? LEAVE_DONE : call_failed(c, LEAVE_FAILED, "%s could not be written", path);
}

static int report(const struct call *c, const struct plan_view *v)
{
    const char *page = call_text(c, "html");
    struct buf out = buf_growing(PLAN_REPORT_MAX);
    int leave = LEAVE_DONE;
    if (page[0] && call_text(c, "explain")[0])
        leave = call_misused(c, "--explain prints one line and --html writes all of them: say one of the two");
    else if (call_switch(c, "check"))
        leave = plan_ask(c, v, &out);
    else if (call_text(c, "explain")[0])
        leave = explain(c, v, &out);
    else if (page[0])
        plan_html(&out, v);
    else if (c->json)
        plan_json(&out, v);
    else
        plan_table(&out, v);
    check(buf_ok(&out));
    if (leave == LEAVE_DONE && page[0] && strcmp(page, "-") != 0 && !call_switch(c, "check"))
        leave = write_page(c, &out, page);
    else if (out.len > 0)
        printf(STR_FMT "%s", STR_ARG(buf_str(&out)), out.ptr[out.len - 1] == '\n' ? "" : "\n");
    buf_free(&out);
    return leave;
}

int verb_plan(const struct call *c)
{
    static struct plan plan;
    const char *lang = call_text(c, "lang");
    struct buf complaints = buf_growing(COMPLAINTS_MAX);
    int leave = fill(c, &plan, &complaints);
    struct plan_view v = {.plan = &plan, .chinese = strcmp(lang, "zh") == 0, .source = c->argument_count ? c->arguments[0] : "mission.yaml",
                          .measured = call_text(c, "capacity")};
    if (leave == LEAVE_DONE)
        leave = report(c, &v);
    buf_free(&complaints);
    return leave;
}

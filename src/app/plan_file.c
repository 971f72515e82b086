/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "config_file.h"
#include "suggest.h"

struct reader {
    struct plan *plan;
    const char *path;
    struct buf *complaints;
    enum plan_origin origin;
    unsigned line;
    bool bad;
    bool seen[PLAN_INPUTS];
};

static void begin_complaint(struct reader *r)
{
    r->bad = true;
    if (r->path)
        buf_add_fmt(r->complaints, "%s%s", r->path, r->line ? "" : ": ");
    if (r->line)
        buf_add_fmt(r->complaints, ":%u: ", r->line);
}

/* The name itself, or the part behind its dot where what was typed has none. */
static void no_such_name(struct reader *r, struct str name, bool may_be_short)
{
    struct suggest nearest = {.typed = name};
    const char *best = NULL;
    for (size_t i = 0; i < PLAN_INPUTS; i++) {
        const char *full = plan_row(i)->name, *dot = strchr(full, '.'), *before = nearest.best;
        suggest_offer(&nearest, may_be_short && dot && !memchr(name.ptr, '.', name.len) ? dot + 1 : full);
        if (nearest.best != before)
            best = full;
    }
    begin_complaint(r);
    buf_add_fmt(r->complaints, "there is no input \"" STR_FMT "\"", STR_ARG(name));
    if (best)
        buf_add_fmt(r->complaints, "; did you mean %s?", best);
    buf_add_char(r->complaints, '\n');
}

/* The input of a full name, or of the part behind the dot where one alone has it. PLAN_NONE: complained. */
static size_t input_of(struct reader *r, struct str name, bool may_be_short)
{
    size_t row = plan_find(name), matches = 0, match = PLAN_NONE;
    for (size_t i = 0; row == PLAN_NONE && may_be_short && i < PLAN_INPUTS; i++) {
        const char *dot = strchr(plan_row(i)->name, '.');
        if (dot && str_eq(name, str_of(dot + 1)))
            matches++, match = i;
    }
    if (matches == 1)
        row = match;
    if (row == PLAN_NONE) {
        no_such_name(r, name, may_be_short);
    } else if (row >= PLAN_INPUTS) {
        begin_complaint(r);
        buf_add_fmt(r->complaints, STR_FMT " is worked out, not put in\n", STR_ARG(name));
        row = PLAN_NONE;
    }
    return row;
}

static void set_number(struct reader *r, size_t row, double value)
{
    if (plan_set(r->plan, row, value, r->origin, r->line))
        return;
    begin_complaint(r);
    buf_add_fmt(r->complaints, "%s: %g is out of range: %g to %g\n", plan_row(row)->name, value, plan_row(row)->min, plan_row(row)->max);
}

static bool next_part(struct str *rest, struct str *part)
{
    if (!rest->ptr)
        return false;
    const char *comma = memchr(rest->ptr, ',', rest->len);
    *part = str_trim(comma ? str_range(rest->ptr, comma) : *rest);
    *rest = comma ? str_range(comma + 1, rest->ptr + rest->len) : (struct str){NULL, 0};
    return true;
}

/* The stock of each SKU. */
static void set_stocks(struct reader *r, struct str list)
{
    double hottest = 0, sum = 0, skus = 0, stock;
    for (struct str part; next_part(&list, &part); skus++) {
        if (!str_to_real(part, &stock) || stock < 0) {
            begin_complaint(r);
            buf_add_fmt(r->complaints, "sale.stock: \"" STR_FMT "\" is no number of units\n", STR_ARG(part));
            return;
        }
        hottest = fmax(hottest, stock), sum += stock;
    }
    set_number(r, plan_row_of("sale.stock"), hottest);
    set_number(r, plan_row_of("sale.stock_all"), sum);
    set_number(r, plan_row_of("sale.skus"), skus);
}

static void set_text(struct reader *r, size_t row, struct str value)
{
    double x;
    if (r->seen[row] && r->origin == PLAN_FILE) {
        begin_complaint(r);
        buf_add_fmt(r->complaints, "%s stands there twice\n", plan_row(row)->name);
    } else if (row == plan_row_of("sale.stock") && r->origin == PLAN_FILE && memchr(value.ptr, ',', value.len)) {
        set_stocks(r, value);
    } else if (!str_to_real(value, &x)) {
        begin_complaint(r);
        buf_add_fmt(r->complaints, "%s: \"" STR_FMT "\" is no number\n", plan_row(row)->name, STR_ARG(value));
    } else {
        set_number(r, row, x);
    }
    r->seen[row] = true;
}

static void take(void *arg, struct str key, struct str value, unsigned line)
{
    struct reader *r = arg;
    r->line = line;
    size_t row = input_of(r, key, false);
    if (row != PLAN_NONE)
        set_text(r, row, value);
}

bool plan_file_read(struct plan *p, const char *path, struct buf *complaints)
{
    struct reader r = {.plan = p, .path = path, .complaints = complaints, .origin = PLAN_FILE};
    if (!config_file_read(path, take, &r, complaints))
        return false;
    if (r.line == 0) {
        begin_complaint(&r);
        buf_add_str(complaints, str_lit("says nothing; a plan names at least one input, as in `sale.peak: 300000`\n"));
    }
    return !r.bad;
}

static void take_group(struct reader *r, json_t *all, const char *group, size_t *taken)
{
    json_t *members = json_object_get(all, group), *value;
    const char *key;
    if (members && !json_is_object(members)) {
        begin_complaint(r);
        buf_add_fmt(r->complaints, "\"%s\" is no object of numbers\n", group);
    }
    json_object_foreach(members, key, value) {
        char name[80];
        snprintf(name, sizeof name, "%s.%s", group, key);
        size_t row = plan_find(str_of(name));
        if (row >= PLAN_INPUTS)
            continue;
        if (json_is_number(value)) {
            set_number(r, row, json_number_value(value));
            *taken += 1;
        } else {
            begin_complaint(r);
            buf_add_fmt(r->complaints, "%s is no number\n", name);
        }
    }
}

bool plan_file_capacity(struct plan *p, const char *path, size_t *taken, struct buf *complaints)
{
    struct reader r = {.plan = p, .path = path, .complaints = complaints, .origin = PLAN_MEASURED};
    json_error_t error;
    json_t *all = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    *taken = 0;
    if (!json_is_object(all)) {
        buf_add_fmt(complaints, "%s: %s\n", path, all ? "not a JSON object" : error.text);
        json_decref(all);
        return false;
    }
    take_group(&r, all, "capacity", taken);
    take_group(&r, all, "weight", taken);
    if (*taken == 0 && !r.bad) {
        begin_complaint(&r);
        buf_add_str(complaints, str_lit("nothing in it that the plan knows: {\"capacity\": {\"access\": 15000}} is such a file\n"));
    }
    json_decref(all);
    return !r.bad;
}

bool plan_file_set(struct plan *p, const char *words, struct buf *complaints)
{
    struct reader r = {.plan = p, .path = "--set", .complaints = complaints, .origin = PLAN_SET};
    struct str rest = str_of(words);
    for (struct str part; next_part(&rest, &part);) {
        const char *equals = memchr(part.ptr, '=', part.len);
        if (!equals) {
            begin_complaint(&r);
            buf_add_fmt(complaints, "\"" STR_FMT "\" is no NAME=NUMBER\n", STR_ARG(part));
            continue;
        }
        size_t row = input_of(&r, str_trim(str_range(part.ptr, equals)), true);
        if (row != PLAN_NONE)
            set_text(&r, row, str_trim(str_range(equals + 1, part.ptr + part.len)));
    }
    return !r.bad;
}

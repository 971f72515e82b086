/* SPDX-License-Identifier: Apache-2.0
 * load_scenario.c: the rows of spec/load.def as fields of one struct; each value comes as text and is checked by its row. */
#include "load_scenario.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "config_file.h"
#include "list.h"
#include "suggest.h"

#define TEXTS_BYTES 16384

enum kind { TEXT, NUMBER, REAL, CHOICE };
static const struct row {
    size_t offset;
    const char *key;
    enum kind kind;
    const char *value;
    double min, max;
    const char *unit;
} rows[] = {
#define SCENARIO(field, key, kind, value, min, max, unit, text) {offsetof(struct load_scenario, field), key, kind, value, min, max, unit},
#include "load.def"
#undef SCENARIO
};
static const struct load_threshold_row thresholds[] = {
#define MOST true
#define LEAST false
#define THRESHOLD(symbol, key, side, unit, text) {key, side, unit, text},
#include "load.def"
#undef THRESHOLD
#undef LEAST
#undef MOST
};

const struct load_threshold_row *load_threshold_row(enum load_threshold t)
{
    check((unsigned)t < LOAD_THRESHOLDS);
    return &thresholds[t];
}

/* ---- one value ------------------------------------------------------------------------------------------------------------------------ */

/* True: taken. The numbers that may be are those between min and max. */
static bool take(struct load_scenario *s, const struct row *r, struct str text)
{
    void *field = (char *)s + r->offset;
    double real;
    if (r->kind == TEXT || r->kind == CHOICE) {
        bool good = r->kind == CHOICE ? word_among(text, r->unit) : (double)text.len >= r->min && (double)text.len <= r->max && (text.len == 0 || str_is_id(text));
        char *copy = arena_take(&s->texts, text.len + 1);
        if (!good || !copy)
            return false;
        if (text.len > 0)
            memcpy(copy, text.ptr, text.len);
        copy[text.len] = 0;
        *(const char **)field = copy;
        return true;
    }
    if (r->kind == NUMBER) {
        int64_t number;
        if (!str_to_i64(text, &number) || (double)number < r->min || (double)number > r->max)
            return false;
        *(int64_t *)field = number;
        return true;
    }
    if (!str_to_real(text, &real) || real < r->min || real > r->max)
        return false;
    *(double *)field = real;
    return true;
}

static void say_expected(struct buf *out, const struct row *r)
{
    if (r->kind == CHOICE)
        buf_add_fmt(out, "one of %s", r->unit);
    else if (r->kind == TEXT)
        buf_add_str(out, str_lit("an id: letters, digits, _ and -"));
    else
        buf_add_fmt(out, "%s from %g to %.10g", r->kind == NUMBER ? "a whole number" : "a number", r->min, r->max);
}

/* ---- the file -------------------------------------------------------------------------------------------------------------------------- */

struct reading {
    struct load_scenario *scenario;
    const char *path;
    struct buf *complaints;
    unsigned lines[countof(rows) + LOAD_THRESHOLDS];    /* where each was said; 0: not yet */
    size_t said;
    bool bad;
};

static bool said_twice(struct reading *r, size_t at, struct str key, unsigned line)
{
    if (r->lines[at] != 0) {
        buf_add_fmt(r->complaints, "file %s:%u: %.*s stands in line %u already\n", r->path, line, STR_ARG(key), r->lines[at]);
        return r->bad = true;
    }
    r->lines[at] = line;
    return false;
}

static bool got_threshold(struct reading *r, struct str key, struct str value, unsigned line)
{
    for (size_t i = 0; i < LOAD_THRESHOLDS; i++) {
        if (!str_eq(key, str_of(thresholds[i].key)))
            continue;
        if (said_twice(r, countof(rows) + i, key, line))
            return true;
        r->scenario->set[i] = str_to_real(value, &r->scenario->limit[i]) && r->scenario->limit[i] >= 0;
        if (!r->scenario->set[i]) {
            buf_add_fmt(r->complaints, "file %s:%u: %s: \"" STR_FMT "\" is not good: expected a number from 0\n", r->path, line, thresholds[i].key, STR_ARG(value));
            r->bad = true;
        }
        return true;
    }
    return false;
}

static void unknown(struct reading *r, struct str key, unsigned line)
{
    struct suggest nearest = {.typed = key};
    for (size_t i = 0; i < countof(rows); i++)
        suggest_offer(&nearest, rows[i].key);
    for (size_t i = 0; i < LOAD_THRESHOLDS; i++)
        suggest_offer(&nearest, thresholds[i].key);
    buf_add_fmt(r->complaints, "file %s:%u: there is no key " STR_FMT, r->path, line, STR_ARG(key));
    if (nearest.best)
        buf_add_fmt(r->complaints, "; did you mean %s?", nearest.best);
    buf_add_char(r->complaints, '\n');
    r->bad = true;
}

static void got(void *arg, struct str key, struct str value, unsigned line)
{
    struct reading *r = arg;
    r->said++;
    for (size_t i = 0; i < countof(rows); i++) {
        if (!str_eq(key, str_of(rows[i].key)))
            continue;
        if (!said_twice(r, i, key, line) && !take(r->scenario, &rows[i], value)) {
            buf_add_fmt(r->complaints, "file %s:%u: %s: \"" STR_FMT "\" is not good: expected ", r->path, line, rows[i].key, STR_ARG(value));
            say_expected(r->complaints, &rows[i]);
            buf_add_char(r->complaints, '\n');
            r->bad = true;
        }
        return;
    }
    if (!got_threshold(r, key, value, line))
        unknown(r, key, line);
}

/* ---- what must fit together -------------------------------------------------------------------------------------------------------------- */

static void wrong(struct reading *r, const char *what)
{
    buf_add_fmt(r->complaints, "file %s: %s\n", r->path, what);
    r->bad = true;
}

#define REQUESTS_MOST 20e6

static void fit(struct reading *r)
{
    struct load_scenario *s = r->scenario;
    double rate = s->rate * s->scale, peak = s->peak * s->scale;
    bool steady = strcmp(s->shape, "steady") == 0, ramp = strcmp(s->shape, "ramp") == 0;
    if (!steady && s->peak <= 0)
        return wrong(r, "arrivals.peak: a ramp and a spike need one");
    if (!steady && !ramp && (s->peak < s->rate || s->peak > s->rate * LOAD_SPIKE_MOST))
        return wrong(r, "arrivals.peak: that of a spike lies between arrivals.rate and 4.25 times that");
    s->arrivals = steady ? load_shape_steady(rate, s->seconds) : ramp ? load_shape_ramp(rate, peak, s->seconds) : load_shape_spike(rate, peak, s->seconds);
    if (s->arrivals.total > REQUESTS_MOST)
        wrong(r, "arrivals: more than 20,000,000 requests in all");
    if (s->arrivals.total < 1)
        wrong(r, "arrivals: not one request in all that time");
    if (s->retries + s->bad_tokens + s->malformed + s->flood > 99.5)
        wrong(r, "people.retries and bots.*: together they leave nobody who comes for the first time");
    if (s->skus * s->stock > 1000000)
        wrong(r, "sale.stock: more than 1,000,000 units in all");
    if (s->activity[0] && !s->sku[0])
        wrong(r, "sale.sku: sale.activity needs it");
    if (s->activity[0] && s->skus != 1)
        wrong(r, "sale.skus: of an activity that is there already, one item is bought");
}

bool load_scenario_read(struct load_scenario *s, const char *path, double scale, struct buf *complaints)
{
    struct reading r = {.scenario = s, .path = path, .complaints = complaints};
    *s = (struct load_scenario){.texts = arena_new(TEXTS_BYTES)};
    check(s->texts.start != NULL);
    for (size_t i = 0; i < countof(rows); i++) {
        bool good = take(s, &rows[i], str_of(rows[i].value));
        check(good);
    }
    if (!config_file_read(path, got, &r, complaints))
        return false;
    if (r.said == 0)
        wrong(&r, "says nothing; a scenario names at least one thing, as in `arrivals.rate: 1000`");
    if (scale > 0)
        s->scale = scale;
    if (!r.bad)
        fit(&r);
    return !r.bad;
}

void load_scenario_write(const struct load_scenario *s, struct buf *out)
{
    for (size_t i = 0; i < countof(rows); i++) {
        const void *field = (const char *)s + rows[i].offset;
        buf_add_fmt(out, "%s: ", rows[i].key);
        if (rows[i].kind == NUMBER)
            buf_add_i64(out, *(const int64_t *)field);
        else if (rows[i].kind == REAL)
            buf_add_fmt(out, "%.10g", *(const double *)field);
        else
            buf_add_fmt(out, "\"%s\"", *(const char *const *)field);
        buf_add_char(out, '\n');
    }
    for (size_t i = 0; i < LOAD_THRESHOLDS; i++)
        if (s->set[i])
            buf_add_fmt(out, "%s: %.10g\n", thresholds[i].key, s->limit[i]);
}

void load_scenario_free(struct load_scenario *s) { arena_free(&s->texts); }

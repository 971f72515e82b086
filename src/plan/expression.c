/* SPDX-License-Identifier: Apache-2.0
 * expression.c: a reader of one pass that computes as it reads. */
#include "expression.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

#define DEPTH_MAX 32
#define ALMOST 1e-9    /* of the number: what the last bits of a double may be wrong by is no reason for one more instance */
#define ARGUMENTS_MAX 8

struct reading {
    struct str text;
    size_t at;
    expression_value value;
    void *arg;
    const char *fault;
    unsigned depth;
};

static double read_sum(struct reading *r);

static double fail(struct reading *r, const char *fault)
{
    if (!r->fault)
        r->fault = fault;
    return NAN;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static char peek(struct reading *r)
{
    while (r->at < r->text.len && r->text.ptr[r->at] == ' ')
        r->at++;
    return r->at < r->text.len ? r->text.ptr[r->at] : 0;
}

static bool eat(struct reading *r, char c)
{
    if (peek(r) != c)
        return false;
    r->at++;
    return true;
}

/* How long the word is that begins here; 0: none does. */
static size_t word_length(struct str text, size_t at)
{
    size_t end = at;
    if (end < text.len && is_letter(text.ptr[end]))
        while (end < text.len && (is_letter(text.ptr[end]) || is_digit(text.ptr[end]) || text.ptr[end] == '.'))
            end++;
    return end - at;
}

static size_t number_length(struct str text, size_t at)
{
    size_t end = at;
    if (end < text.len && is_digit(text.ptr[end]))
        while (end < text.len && (is_digit(text.ptr[end]) || text.ptr[end] == '.'))
            end++;
    return end - at;
}

double expression_whole(double x) { return isfinite(x) ? ceil(x - fabs(x) * ALMOST) : x; }

double expression_figures(double x, int figures)
{
    if (!isfinite(x) || x <= 0)
        return x;
    double step = pow(10, floor(log10(x) + ALMOST) - (figures - 1));
    return expression_whole(x / step) * step;
}

/* ---- functions ------------------------------------------------------------------------------------------------------------- */

static double drain(double waiting, double rate)
{
    if (isnan(waiting) || isnan(rate))
        return NAN;
    return waiting <= 0 ? 0 : rate <= 0 ? INFINITY : waiting / rate;
}

static double most(const double *a, size_t n, double sign)
{
    double best = a[0];
    for (size_t i = 1; i < n; i++)
        if (isnan(a[i]) || sign * a[i] > sign * best)
            best = a[i];
    return isnan(a[0]) ? NAN : best;
}

static double call(struct reading *r, struct str name, const double *a, size_t n)
{
    if (str_eq(name, str_lit("max")) && n >= 1)
        return most(a, n, 1);
    if (str_eq(name, str_lit("min")) && n >= 1)
        return most(a, n, -1);
    if (str_eq(name, str_lit("drain")) && n == 2)
        return drain(a[0], a[1]);
    if (n != 1)
        return fail(r, "not so many arguments");
    if (str_eq(name, str_lit("whole")))
        return expression_whole(a[0]);
    if (str_eq(name, str_lit("figures1")))
        return expression_figures(a[0], 1);
    if (str_eq(name, str_lit("figures2")))
        return expression_figures(a[0], 2);
    if (str_eq(name, str_lit("above")))
        return isnan(a[0]) || a[0] > 0 ? a[0] : 0;
    return fail(r, "no such function");
}

static double read_call(struct reading *r, struct str name)
{
    double a[ARGUMENTS_MAX];
    size_t n = 0;
    do {
        if (n == ARGUMENTS_MAX)
            return fail(r, "too many arguments");
        a[n++] = read_sum(r);
    } while (eat(r, ','));
    return eat(r, ')') ? call(r, name, a, n) : fail(r, "a ) is missing");
}

/* ---- reading --------------------------------------------------------------------------------------------------------------- */

static double read_number(struct reading *r, size_t length)
{
    char digits[40], *end;
    if (length >= sizeof digits)
        return fail(r, "a number is too long");
    memcpy(digits, r->text.ptr + r->at, length);
    digits[length] = 0;
    double x = strtod(digits, &end);
    r->at += length;
    return *end ? fail(r, "no number") : x;
}

static double read_word(struct reading *r, size_t length)
{
    struct str name = {r->text.ptr + r->at, length};
    bool known = true;
    r->at += length;
    if (eat(r, '('))
        return read_call(r, name);
    double x = r->value ? r->value(r->arg, name, &known) : NAN;
    return known ? x : fail(r, "no such name");
}

static double read_factor(struct reading *r)
{
    if (r->fault)
        return NAN;
    if (r->depth == DEPTH_MAX)
        return fail(r, "too deep");
    r->depth++;
    double x;
    size_t length;
    if (eat(r, '-')) {
        x = -read_factor(r);
    } else if (eat(r, '(')) {
        x = read_sum(r);
        if (!eat(r, ')'))
            x = fail(r, "a ) is missing");
    } else if ((length = number_length(r->text, r->at)) > 0) {
        x = read_number(r, length);
    } else if ((length = word_length(r->text, r->at)) > 0) {
        x = read_word(r, length);
    } else {
        x = fail(r, "a number or a name is missing");
    }
    r->depth--;
    return x;
}

static double read_term(struct reading *r)
{
    double x = read_factor(r);
    for (;;) {
        if (eat(r, '*'))
            x *= read_factor(r);
        else if (eat(r, '/'))
            x /= read_factor(r);
        else
            return x;
    }
}

static double read_sum(struct reading *r)
{
    double x = read_term(r);
    for (;;) {
        if (eat(r, '+'))
            x += read_term(r);
        else if (eat(r, '-'))
            x -= read_term(r);
        else
            return x;
    }
}

bool expression_work(struct str text, expression_value value, void *arg, double *out, const char **fault, size_t *at)
{
    struct reading r = {.text = text, .value = value, .arg = arg};
    *out = read_sum(&r);
    if (!r.fault && peek(&r) != 0)
        r.fault = "more than a formula";
    *fault = r.fault;
    *at = r.at;
    return !r.fault;
}

/* ---- writing --------------------------------------------------------------------------------------------------------------- */

static bool is_function(struct str text, size_t after) { return after < text.len && text.ptr[after] == '('; }

void expression_write(struct buf *out, struct str text, expression_value value, void *arg)
{
    for (size_t at = 0; at < text.len;) {
        size_t length = word_length(text, at);
        struct str word = {text.ptr + at, length};
        if (length > 0 && value && !is_function(text, at + length)) {
            bool known = true;
            expression_number(out, value(arg, word, &known));
        } else if (length > 0) {
            buf_add_str(out, word);
        } else if ((length = number_length(text, at)) > 0) {
            expression_number(out, strtod(text.ptr + at, NULL));
        } else {
            length = 1;
            if (text.ptr[at] == '*')
                buf_add_str(out, str_lit("×"));
            else
                buf_add_char(out, text.ptr[at]);
        }
        at += length;
    }
}

void expression_names(struct str text, void (*each)(void *arg, struct str name), void *arg)
{
    for (size_t at = 0; at < text.len;) {
        size_t length = word_length(text, at);
        if (length > 0 && !is_function(text, at + length))
            each(arg, (struct str){text.ptr + at, length});
        size_t digits = length ? 0 : number_length(text, at);
        at += length + digits > 0 ? length + digits : 1;
    }
}

/* Digits of a whole number with commas between the thousands. */
static void write_grouped(struct buf *out, const char *digits)
{
    size_t whole = strcspn(digits, ".");
    for (size_t i = 0; digits[i]; i++) {
        if (i > 0 && i < whole && (whole - i) % 3 == 0 && digits[i - 1] != '-')
            buf_add_char(out, ',');
        buf_add_char(out, digits[i]);
    }
}

void expression_number(struct buf *out, double x)
{
    char digits[400];
    double size = fabs(x);
    if (isnan(x))
        return buf_add_char(out, '?');
    if (isinf(x))
        return buf_add_str(out, x > 0 ? str_lit("never") : str_lit("-never"));
    int decimals = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 || size < 1e-9 ? 2 : 3 - (int)floor(log10(size) + ALMOST);
    snprintf(digits, sizeof digits, "%.*f", decimals, x);
    if (strchr(digits, '.')) {
        size_t end = strlen(digits);
        while (digits[end - 1] == '0')
            end--;
        digits[digits[end - 1] == '.' ? end - 1 : end] = 0;
    }
    write_grouped(out, digits);
}

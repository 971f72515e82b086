/* SPDX-License-Identifier: Apache-2.0
 * expression.h: the formulas of spec/plan.def, worked out while the program runs, so that one text is what is computed, what is printed and
 * what is explained.
 *
 *   sum = term {(+|-) term};  term = factor {(*|/) factor};  factor = number | name | function(sum, ...) | (sum) | -factor
 *
 * A name is letters, digits, _ and dots. Not a number (NaN) is the value that nobody has told: whatever needs it is not known either.
 * Functions: whole(x): up to a whole number; figures1(x), figures2(x): up to a number of one or two figures; above(x): x, but never below 0;
 * max(...), min(...); drain(waiting, rate): how long a backlog takes, for ever (infinity) where the rate is not above 0. */
#pragma once
#include "buf.h"

/* The value of a name; *known false: there is no such name. */
typedef double (*expression_value)(void *arg, struct str name, bool *known);

/* False: the text is no formula, or names what there is not; *fault says which (a static word; the place in *at). */
bool expression_work(struct str text, expression_value value, void *arg, double *out, const char **fault, size_t *at);
/* The formula as people write it (× for *), its names replaced by their values where `value` is given. */
void expression_write(struct buf *out, struct str text, expression_value value, void *arg);
/* Calls `each` for every name in it, functions aside. */
void expression_names(struct str text, void (*each)(void *arg, struct str name), void *arg);

/* Up to the next number of so many figures: 585,000 of one is 600,000. What is one already, but for the last bits of a double, stays. */
double expression_figures(double x, int figures);
double expression_whole(double x);
/* A number for people: 390,000; 1.22; 0.05; "never" for infinity, "?" for what is not known. */
void expression_number(struct buf *out, double x);

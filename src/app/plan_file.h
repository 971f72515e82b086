/* SPDX-License-Identifier: Apache-2.0
 * plan_file.h: puts what a person has written into a plan: its file (YAML, closed: an unknown name is a complaint that guesses), a file of
 * measured capacities (JSON), and --set. Each adds a line to `complaints` for what is wrong and is false then; the plan may be half filled. */
#pragma once
#include "buf.h"
#include "plan.h"

/* Keys are the inputs of spec/plan.def, nested or with dots. `sale.stock: [500, 300]` is the stock of each SKU: the hottest, their number, the sum. */
bool plan_file_read(struct plan *p, const char *path, struct buf *complaints);
/* {"capacity": {"NAME": number}, "weight": {…}}, as bench/weights writes it: the inputs capacity.NAME and weight.NAME. Names the plan does not know,
 * and all other members, are nothing to it. `*taken`: how many it took. */
bool plan_file_capacity(struct plan *p, const char *path, size_t *taken, struct buf *complaints);
/* "sale.peak=400000", several with commas between; the part before the dot may be left away where one input alone ends so. */
bool plan_file_set(struct plan *p, const char *words, struct buf *complaints);

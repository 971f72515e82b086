/* SPDX-License-Identifier: Apache-2.0
 * load_page.h: how a load goes, while it goes: a page that is drawn anew on a terminal, a line a second elsewhere. */
#pragma once
#include <stdio.h>

#include "load_scenario.h"
#include "load_stats.h"

struct load_page {
    FILE *out;                        /* NULL: nothing is shown */
    bool terminal;
    const struct load_scenario *scenario;
    const char *title;
    size_t lines;                     /* drawn last time */
    size_t shown;                     /* seconds that have had their line */
};
struct load_page load_page_new(FILE *out, const struct load_scenario *scenario, const char *title);
/* `us` after the start. To be called some times a second. */
void load_page_show(struct load_page *p, const struct load_stats *s, uint64_t us);

/* SPDX-License-Identifier: Apache-2.0 */
#include "reason.h"

#include "check.h"

static const struct reason_row rows[] = {
#define REASON(word, http, fate, level, text) {#word, http, FATE_##fate, LEVEL_##level, text},
#include "reason.def"
#undef REASON
};

const struct reason_row *reason_row(enum reason reason)
{
    check((unsigned)reason < REASON_COUNT);
    return &rows[reason];
}

bool reason_parse(struct str word, enum reason *out)
{
    for (unsigned i = 0; i < REASON_COUNT; i++)
        if (str_eq(str_of(rows[i].word), word)) {
            *out = (enum reason)i;
            return true;
        }
    return false;
}

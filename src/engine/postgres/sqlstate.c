/* SPDX-License-Identifier: Apache-2.0 */
#include "sqlstate.h"

#include <string.h>

static const struct sqlstate_row rows[] = {
#define SQLSTATE(prefix, reason, late, manner) {prefix, REASON_##reason, REASON_##late, SQLSTATE_##manner},
#include "sqlstate.def"
#undef SQLSTATE
};

const struct sqlstate_row *sqlstate_row(const char *sqlstate)
{
    const struct sqlstate_row *row = rows;
    while (strncmp(sqlstate ? sqlstate : "", row->prefix, strlen(row->prefix)) != 0)
        row++;    /* the last prefix is empty and fits everything */
    return row;
}

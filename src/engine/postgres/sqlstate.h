/* SPDX-License-Identifier: Apache-2.0
 * sqlstate.h: what an error of PostgreSQL means to the call it belongs to. The table is sqlstate.def. */
#pragma once
#include <stdbool.h>

#include "reason.h"

enum sqlstate_manner { SQLSTATE_STAY, SQLSTATE_REPEAT, SQLSTATE_LEAVE, SQLSTATE_STOP };

struct sqlstate_row {
    const char *prefix;
    enum reason reason;    /* the error came before the function's result */
    enum reason late;      /* it came after it */
    enum sqlstate_manner manner;
};

/* The row for these five characters (NULL or short: the last one); never NULL. */
const struct sqlstate_row *sqlstate_row(const char *sqlstate);

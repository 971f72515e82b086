/* SPDX-License-Identifier: Apache-2.0
 * sql.h: a person at psql, beside the ledger that is tested. The connection opens with his first statement and stays until the world's database is dropped. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "str.h"

struct str sql(const char *statement);       /* the first field of the last result, as text that stays; "done"; or "SQLSTATE constraint" */
void sql_done(const char *statement);        /* a failure fails the test */
int64_t sql_number(const char *statement);   /* one row, whose first field is a number; anything else fails the test */
bool sql_in_transaction(void);

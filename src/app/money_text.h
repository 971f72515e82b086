/* SPDX-License-Identifier: Apache-2.0
 * money_text.h: an amount as people write it. JSON, SQL and messages hold minor units and never use this. */
#pragma once
#include <stdint.h>

#include "str.h"

#define MONEY_TEXT 40
/* Writes the amount, in minor units of the currency, with its decimals: 9900 and CNY give "99.00 CNY", 500 and JPY give "500 JPY". An empty
 * currency gives the bare number of minor units. The text in `out` is ended by a zero; returns `out`. Decimals: spec/currency.def. */
const char *money_text(char out[MONEY_TEXT], int64_t amount, struct str currency);

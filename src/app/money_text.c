/* SPDX-License-Identifier: Apache-2.0 */
#include "money_text.h"

#include <stdio.h>

#include "check.h"

static unsigned decimals_of(struct str currency)
{
    static const struct { const char *code; unsigned decimals; } exceptions[] = {
#define CURRENCY(code, decimals) {code, decimals},
#include "currency.def"
#undef CURRENCY
    };
    for (size_t i = 0; i < countof(exceptions); i++)
        if (str_eq(currency, str_of(exceptions[i].code)))
            return exceptions[i].decimals;
    return 2;
}

const char *money_text(char out[MONEY_TEXT], int64_t amount, struct str currency)
{
    uint64_t size = amount < 0 ? 0 - (uint64_t)amount : (uint64_t)amount, unit = 1;
    unsigned decimals = decimals_of(currency);
    if (currency.len == 0) {
        snprintf(out, MONEY_TEXT, "%lld", (long long)amount);
        return out;
    }
    for (unsigned i = 0; i < decimals; i++)
        unit *= 10;
    const char *sign = amount < 0 ? "-" : "";
    if (decimals == 0)
        snprintf(out, MONEY_TEXT, "%s%llu %.*s", sign, (unsigned long long)size, currency.len < 8 ? (int)currency.len : 8, currency.ptr);
    else
        snprintf(out, MONEY_TEXT, "%s%llu.%0*llu %.*s", sign, (unsigned long long)(size / unit), (int)decimals, (unsigned long long)(size % unit),
                 currency.len < 8 ? (int)currency.len : 8, currency.ptr);
    return out;
}

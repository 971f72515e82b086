/* SPDX-License-Identifier: Apache-2.0 */
#include "str.h"

#include <math.h>
#include <stdlib.h>

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

bool str_eq_nocase(struct str a, struct str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    return true;
}

bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_eq((struct str){s.ptr, prefix.len}, prefix);
}

int str_cmp(struct str a, struct str b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common ? memcmp(a.ptr, b.ptr, common) : 0;
    if (order != 0)
        return order;
    return (a.len > b.len) - (a.len < b.len);
}

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

struct str str_trim(struct str s)
{
    while (s.len > 0 && blank(s.ptr[0]))
        s.ptr++, s.len--;
    while (s.len > 0 && blank(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

bool str_to_u64(struct str s, uint64_t *out)
{
    uint64_t value = 0;
    if (s.len == 0)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (uint64_t)(s.ptr[i] - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

bool str_to_i64(struct str s, int64_t *out)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    uint64_t value;
    if (!str_to_u64(negative ? (struct str){s.ptr + 1, s.len - 1} : s, &value))
        return false;
    if (value > (uint64_t)INT64_MAX + (negative ? 1u : 0u))
        return false;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool str_to_real(struct str s, double *out)
{
    char z[64], *end;
    if (s.len == 0 || s.len >= sizeof z)
        return false;
    memcpy(z, s.ptr, s.len);
    z[s.len] = 0;
    *out = strtod(z, &end);
    return *end == 0 && isfinite(*out) && strspn(z, "0123456789.eE+-") == s.len;
}

bool str_is_id(struct str s)
{
    if (s.len == 0 || s.len > 64)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
        if (!good)
            return false;
    }
    return true;
}

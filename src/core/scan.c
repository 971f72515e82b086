/* SPDX-License-Identifier: Apache-2.0 */
#include "scan.h"

#include <stdint.h>

static bool fault(struct scan *s)
{
    s->bad = true;
    return false;
}

char scan_peek(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
    return s->at < s->end && !s->bad ? *s->at : 0;
}

bool scan_char(struct scan *s, char c)
{
    if (scan_peek(s) != c || s->at == s->end)
        return fault(s);
    s->at++;
    return true;
}

bool scan_end(struct scan *s)
{
    scan_peek(s);
    return (s->at == s->end && !s->bad) || fault(s);
}

/* Length of the well-formed UTF-8 sequence here (RFC 3629), or 0. */
static size_t sequence(const struct scan *s)
{
    const uint8_t *p = (const uint8_t *)s->at;
    size_t left = (size_t)(s->end - s->at);
    uint8_t low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80, high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (n > left)
        return 0;
    for (size_t i = 1; i < n; i++, low = 0x80, high = 0xbf)
        if (p[i] < low || p[i] > high)
            return 0;
    return n;
}

static bool hex4(struct scan *s, uint32_t *out)
{
    *out = 0;
    if (s->end - s->at < 4)
        return fault(s);
    for (int i = 0; i < 4; i++) {
        char c = *s->at++;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return fault(s);
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

static size_t utf8(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | code);
    return n;
}

/* After a backslash: what it stands for. A zero and half a surrogate pair are no text. */
static size_t escape(struct scan *s, char out[4])
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char c = s->at < s->end ? *s->at++ : 0;
    const char *at = c ? strchr(names, c) : NULL;
    if (at) {
        out[0] = meant[at - names];
        return 1;
    }
    uint32_t code, low;
    if (c != 'u' || !hex4(s, &code))
        return fault(s);
    if (code >= 0xd800 && code < 0xdc00) {
        if (s->end - s->at < 6 || s->at[0] != '\\' || s->at[1] != 'u')
            return fault(s);
        s->at += 2;
        if (!hex4(s, &low) || low < 0xdc00 || low > 0xdfff)
            return fault(s);
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code == 0 || (code >= 0xdc00 && code <= 0xdfff)) {
        return fault(s);
    }
    return utf8(code, out);
}

/* A string, piece by piece; pieces that fit go to out (NULL: nowhere). */
static bool string(struct scan *s, char *out, size_t most, size_t *len)
{
    *len = 0;
    if (!scan_char(s, '"'))
        return false;
    while (s->at < s->end && *s->at != '"') {
        char piece[4];
        const char *from = s->at;
        size_t n;
        if (*s->at == '\\') {
            s->at++;
            n = escape(s, piece);
            from = piece;
        } else {
            n = (uint8_t)*s->at < 0x20 ? 0 : sequence(s);
            s->at += n;
        }
        if (n == 0 || s->bad || (out && n > most - *len))
            return fault(s);
        if (out)
            memcpy(out + *len, from, n);
        *len += n;
    }
    if (s->at == s->end)
        return fault(s);
    s->at++;
    return true;
}

bool scan_str(struct scan *s, struct arena *to, size_t most, struct str *out)
{
    char text[256];
    size_t len;
    *out = (struct str){0};
    if (!string(s, text, most < sizeof text ? most : sizeof text, &len))
        return false;
    *out = arena_str(to, (struct str){text, len});
    return out->len == len || fault(s);
}

static size_t digits(struct scan *s)
{
    const char *from = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    return (size_t)(s->at - from);
}

/* Walks over a number; whether it is an integer. */
static bool number(struct scan *s, bool *whole)
{
    *whole = true;
    if (s->at < s->end && *s->at == '-')
        s->at++;
    bool zero = s->at < s->end && *s->at == '0';
    size_t n = digits(s);
    if (n == 0 || (zero && n > 1))
        return fault(s);
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        *whole = false;
        if (digits(s) == 0)
            return fault(s);
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        s->at++;
        *whole = false;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-'))
            s->at++;
        if (digits(s) == 0)
            return fault(s);
    }
    return true;
}

bool scan_i64(struct scan *s, int64_t *out)
{
    bool whole;
    scan_peek(s);
    const char *from = s->at;
    if (s->bad || !number(s, &whole) || !whole || !str_to_i64(str_range(from, s->at), out))
        return fault(s);
    return true;
}

static bool word(struct scan *s, struct str expected)
{
    if (!str_starts(str_range(s->at, s->end), expected))
        return fault(s);
    s->at += expected.len;
    return true;
}

static bool skip(struct scan *s, int depth);

static bool skip_members(struct scan *s, int depth, bool named, char end)
{
    s->at++;
    if (scan_peek(s) == end)
        return scan_char(s, end);
    for (;;) {
        size_t len;
        if (named && (!string(s, NULL, 0, &len) || !scan_char(s, ':')))
            return fault(s);
        if (!skip(s, depth - 1))
            return false;
        if (scan_peek(s) != ',')
            return scan_char(s, end);
        s->at++;
    }
}

static bool skip(struct scan *s, int depth)
{
    size_t len;
    bool whole;
    char c = scan_peek(s);
    if ((c == '{' || c == '[') && depth == 0)
        return fault(s);
    switch (c) {
    case '{': return skip_members(s, depth, true, '}');
    case '[': return skip_members(s, depth, false, ']');
    case '"': return string(s, NULL, 0, &len);
    case 't': return word(s, str_lit("true"));
    case 'f': return word(s, str_lit("false"));
    case 'n': return word(s, str_lit("null"));
    default: return (c == '-' || (c >= '0' && c <= '9')) ? number(s, &whole) : fault(s);
    }
}

bool scan_skip(struct scan *s) { return skip(s, SCAN_DEPTH); }

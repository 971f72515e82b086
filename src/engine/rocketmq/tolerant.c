/* SPDX-License-Identifier: Apache-2.0 */
#include "tolerant.h"

#include <stdint.h>

#define DEPTH_MAX 32

static bool spoil(struct tolerant *t)
{
    t->bad = true;
    return false;
}

/* The next byte that is not blank, left in place; 0 at the end and after anything bad. */
static char peek(struct tolerant *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\r' || *t->at == '\n'))
        t->at++;
    return t->bad || t->at == t->end ? 0 : *t->at;
}

static bool take(struct tolerant *t, char c)
{
    if (peek(t) != c)
        return spoil(t);
    t->at++;
    return true;
}

static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

static bool code_unit(struct tolerant *t, uint32_t *out)
{
    *out = 0;
    if (t->end - t->at < 4)
        return spoil(t);
    for (int i = 0; i < 4; i++, t->at++) {
        int digit = hex(*t->at);
        if (digit < 0)
            return spoil(t);
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

static char *write_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

/* After "\u": one character, of two units where they are a pair; half a pair becomes U+FFFD. Never longer than what it replaces. */
static char *unescape_unit(struct tolerant *t, char *to)
{
    uint32_t c, low;
    if (!code_unit(t, &c))
        return to;
    bool high = c >= 0xd800 && c < 0xdc00;
    if (high && t->end - t->at >= 6 && t->at[0] == '\\' && t->at[1] == 'u') {
        char *back = t->at;
        t->at += 2;
        if (!code_unit(t, &low))
            return to;
        if (low >= 0xdc00 && low < 0xe000)
            return write_utf8(to, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
        t->at = back;
    }
    return write_utf8(to, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
}

static bool quoted(struct tolerant *t, struct str *out)
{
    static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    t->at++;
    char *from = t->at, *to = t->at;
    while (t->at < t->end && *t->at != '"') {
        char c = *t->at++;
        if (c != '\\') {
            *to++ = c;
            continue;
        }
        if (t->at == t->end)
            return spoil(t);
        c = *t->at++;
        const char *known = c == 0 ? NULL : strchr(letters, c);
        if (known)
            *to++ = bytes[known - letters];
        else if (c == 'u')
            to = unescape_unit(t, to);
        else
            return spoil(t);
        if (t->bad)
            return false;
    }
    if (t->at == t->end)
        return spoil(t);
    t->at++;
    *out = str_range(from, to);
    return true;
}

static bool bare_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.' || c == '_';
}

static bool bare(struct tolerant *t, struct str *out)
{
    char *from = t->at;
    while (t->at < t->end && bare_byte(*t->at))
        t->at++;
    *out = str_range(from, t->at);
    return out->len > 0 || spoil(t);
}

bool tolerant_text(struct tolerant *t, struct str *out)
{
    *out = (struct str){0};
    if (peek(t) == '"')
        return quoted(t, out);
    if (t->bad || !bare(t, out))
        return spoil(t);
    if (str_eq(*out, str_lit("null")))
        *out = (struct str){0};
    return true;
}

bool tolerant_number(struct tolerant *t, int64_t *out)
{
    struct str text;
    *out = 0;
    return tolerant_text(t, &text) && (str_to_i64(text, out) || spoil(t));
}

bool tolerant_enter(struct tolerant *t, char bracket)
{
    struct str word;
    char c = peek(t);
    if (c == 'n')
        return tolerant_text(t, &word) && word.ptr != NULL ? spoil(t) : false;
    if (c != bracket || t->depth == DEPTH_MAX)
        return spoil(t);
    t->at++;
    t->depth++;
    t->first = true;
    return true;
}

/* Whether another member or item follows; at the closing bracket it steps out. */
static bool more(struct tolerant *t, char closing)
{
    bool first = t->first;
    t->first = false;
    if (peek(t) == closing) {
        t->at++;
        t->depth--;
        return false;
    }
    return first ? !t->bad : take(t, ',');
}

bool tolerant_member(struct tolerant *t, struct str *key)
{
    *key = (struct str){0};
    if (!more(t, '}'))
        return false;
    bool read = peek(t) == '{' ? tolerant_skip(t) : tolerant_text(t, key);
    return read && take(t, ':');
}

bool tolerant_item(struct tolerant *t) { return more(t, ']'); }

bool tolerant_skip(struct tolerant *t)
{
    struct str ignored;
    char c = peek(t);
    if (c == '{') {
        if (tolerant_enter(t, '{'))
            while (tolerant_member(t, &ignored) && tolerant_skip(t))
                ;
    } else if (c == '[') {
        if (tolerant_enter(t, '['))
            while (tolerant_item(t) && tolerant_skip(t))
                ;
    } else {
        tolerant_text(t, &ignored);
    }
    return !t->bad;
}

bool tolerant_ended(struct tolerant *t)
{
    peek(t);
    return !t->bad && t->at == t->end && t->depth == 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <math.h>

static void comma(struct buf *b)
{
    char last = b->len > 0 ? b->ptr[b->len - 1] : 0;
    if (last != 0 && last != '{' && last != '[' && last != ':' && last != '\n')
        buf_add_char(b, ',');
}

void json_open(struct buf *b) { comma(b), buf_add_char(b, '{'); }
void json_close(struct buf *b) { buf_add_char(b, '}'); }
void json_open_array(struct buf *b) { comma(b), buf_add_char(b, '['); }
void json_close_array(struct buf *b) { buf_add_char(b, ']'); }

void json_key(struct buf *b, const char *key)
{
    comma(b);
    buf_add_char(b, '"');
    buf_add_str(b, str_of(key));
    buf_add(b, "\":", 2);
}

/* Length of the well-formed UTF-8 sequence at s (RFC 3629), or 0. */
static size_t sequence(struct str s)
{
    const uint8_t *p = (const uint8_t *)s.ptr;
    uint8_t lead = p[0], low = 0x80, high = 0xbf;
    size_t n = lead < 0x80 ? 1 : lead >= 0xc2 && lead <= 0xdf ? 2 : lead >= 0xe0 && lead <= 0xef ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
    if (n == 0 || n > s.len)
        return 0;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    for (size_t i = 1; i < n; i++, low = 0x80, high = 0xbf)
        if (p[i] < low || p[i] > high)
            return 0;
    return n;
}

static void escape(struct buf *b, struct str s)
{
    static const char hex[] = "0123456789abcdef";
    static const char *const shorts = "\b\t\n\f\r", *const letters = "btnfr";
    size_t plain = 0;    /* bytes from here on that need nothing */
    size_t i = 0;
    while (i < s.len) {
        uint8_t c = (uint8_t)s.ptr[i];
        size_t n = sequence((struct str){s.ptr + i, s.len - i});
        if (n > 1 || (n == 1 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)) {
            i += n;
            continue;
        }
        buf_add(b, s.ptr + plain, i - plain);
        const char *known = c != 0 ? strchr(shorts, c) : NULL;
        if (n == 0) {
            buf_add(b, "\xef\xbf\xbd", 3);
        } else if (c == '"' || c == '\\') {
            buf_add_char(b, '\\');
            buf_add_char(b, (char)c);
        } else if (known) {
            buf_add_char(b, '\\');
            buf_add_char(b, letters[known - shorts]);
        } else {
            char code[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
            buf_add(b, code, sizeof code);
        }
        plain = ++i;
    }
    buf_add(b, s.ptr + plain, s.len - plain);
}

void json_str(struct buf *b, struct str s)
{
    comma(b);
    buf_add_char(b, '"');
    escape(b, s);
    buf_add_char(b, '"');
}

void json_i64(struct buf *b, int64_t n) { comma(b), buf_add_i64(b, n); }
void json_u64(struct buf *b, uint64_t n) { comma(b), buf_add_u64(b, n); }
void json_bool(struct buf *b, bool yes) { comma(b), buf_add_str(b, yes ? str_lit("true") : str_lit("false")); }
void json_none(struct buf *b) { comma(b), buf_add_str(b, str_lit("null")); }
void json_raw(struct buf *b, struct str json) { comma(b), buf_add_str(b, json); }

void json_time(struct buf *b, int64_t unix_ms)
{
    char text[TIME_TEXT];
    time_write(unix_ms, text);
    json_str(b, (struct str){text, TIME_TEXT});
}

void json_member_str(struct buf *b, const char *key, struct str s) { json_key(b, key), json_str(b, s); }
void json_member_text(struct buf *b, const char *key, const char *z) { json_key(b, key), json_str(b, str_of(z)); }
void json_member_i64(struct buf *b, const char *key, int64_t n) { json_key(b, key), json_i64(b, n); }
void json_member_u64(struct buf *b, const char *key, uint64_t n) { json_key(b, key), json_u64(b, n); }
void json_member_bool(struct buf *b, const char *key, bool yes) { json_key(b, key), json_bool(b, yes); }
void json_member_time(struct buf *b, const char *key, int64_t ms) { json_key(b, key), json_time(b, ms); }

void json_member_real(struct buf *b, const char *key, double x)
{
    json_key(b, key);
    if (isfinite(x))
        buf_add_fmt(b, "%.12g", x);
    else
        json_none(b);
}

void json_maybe_str(struct buf *b, const char *key, struct str s)
{
    if (s.len > 0)
        json_member_str(b, key, s);
}

void json_maybe_time(struct buf *b, const char *key, int64_t unix_ms)
{
    if (unix_ms != 0)
        json_member_time(b, key, unix_ms);
}

static void digits(char *out, int value, int width)
{
    for (int i = width - 1; i >= 0; i--, value /= 10)
        out[i] = (char)('0' + value % 10);
}

/* Days and civil dates: Howard Hinnant's public-domain algorithms, the era being 400 years. */
static void civil(int64_t days, int64_t *year, int *month, int *day)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097, doe = days - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    *day = (int)(doy - (153 * mp + 2) / 5 + 1);
    *month = (int)(mp < 10 ? mp + 3 : mp - 9);
    *year = yoe + era * 400 + (*month <= 2);
}

static int64_t days_from_civil(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400, yoe = year - era * 400;
    int64_t doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

void time_write(int64_t unix_ms, char out[TIME_TEXT])
{
    int64_t day_ms = ((unix_ms % 86400000) + 86400000) % 86400000, year;
    int month, day, rest = (int)day_ms;
    civil((unix_ms - day_ms) / 86400000, &year, &month, &day);
    memcpy(out, "0000-00-00T00:00:00.000Z", TIME_TEXT);
    digits(out, (int)(year % 10000), 4);
    digits(out + 5, month, 2);
    digits(out + 8, day, 2);
    digits(out + 11, rest / 3600000, 2);
    digits(out + 14, rest / 60000 % 60, 2);
    digits(out + 17, rest / 1000 % 60, 2);
    digits(out + 20, rest % 1000, 3);
}

/* n digits at *s: moves on and true. */
static bool number(struct str *s, size_t n, int *out)
{
    *out = 0;
    if (s->len < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s->ptr[i] < '0' || s->ptr[i] > '9')
            return false;
        *out = *out * 10 + (s->ptr[i] - '0');
    }
    *s = (struct str){s->ptr + n, s->len - n};
    return true;
}

static bool letter(struct str *s, const char *any_of)
{
    if (s->len == 0 || s->ptr[0] == 0 || !strchr(any_of, s->ptr[0]))
        return false;
    *s = (struct str){s->ptr + 1, s->len - 1};
    return true;
}

bool time_parse(struct str s, int64_t *unix_ms)
{
    int year, month, day, hour, minute, second, millis = 0, offset = 0;
    bool date = number(&s, 4, &year) && letter(&s, "-") && number(&s, 2, &month) && letter(&s, "-") && number(&s, 2, &day);
    bool time = date && letter(&s, "Tt ") && number(&s, 2, &hour) && letter(&s, ":") && number(&s, 2, &minute) && letter(&s, ":") &&
                number(&s, 2, &second);
    if (!time || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 59)
        return false;
    if (letter(&s, ".")) {
        int digit, scale = 100, seen = 0;
        for (; number(&s, 1, &digit); scale /= 10, seen++)
            millis += digit * scale;
        if (seen == 0)
            return false;
    }
    if (!letter(&s, "Zz")) {
        int sign = s.len > 0 && s.ptr[0] == '-' ? -1 : 1, hours, minutes;
        if (!letter(&s, "+-") || !number(&s, 2, &hours) || !letter(&s, ":") || !number(&s, 2, &minutes) || hours > 23 || minutes > 59)
            return false;
        offset = sign * (hours * 60 + minutes);
    }
    int64_t days = days_from_civil(year, month, day), back_year;
    int back_month, back_day;
    civil(days, &back_year, &back_month, &back_day);
    if (s.len != 0 || back_month != month || back_day != day)    /* 30 February */
        return false;
    *unix_ms = ((days * 24 + hour) * 60 + minute - offset) * 60000 + second * 1000 + millis;
    return true;
}

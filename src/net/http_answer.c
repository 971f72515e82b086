/* SPDX-License-Identifier: Apache-2.0 */
#include "http_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

void http_date_write(int64_t unix_s, char out[HTTP_DATE_TEXT])
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t t = (time_t)unix_s;
    struct tm tm;
    char text[64];
    check(gmtime_r(&t, &tm) != NULL);
    int n = snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon],
                     tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    check(n == HTTP_DATE_TEXT);
    memcpy(out, text, HTTP_DATE_TEXT);
}

static const struct {
    int status;
    struct str phrase, line;
} statuses[] = {
#define STATUS(number, phrase) {number, {phrase, sizeof phrase - 1}, {"HTTP/1.1 " #number " " phrase "\r\nDate: ", sizeof("HTTP/1.1 " #number " " phrase "\r\nDate: ") - 1}},
#include "http_status.def"
#undef STATUS
};

struct str http_phrase(int status)
{
    for (size_t i = 0; i < countof(statuses); i++)
        if (statuses[i].status == status)
            return statuses[i].phrase;
    return str_lit("");
}

static void write_status(struct buf *out, int status)
{
    for (size_t i = 0; i < countof(statuses); i++)
        if (statuses[i].status == status) {
            buf_add_str(out, statuses[i].line);
            return;
        }
    check(status >= 100 && status <= 599);
    buf_add_fmt(out, "HTTP/1.1 %d \r\nDate: ", status);
}

void http_head_write(struct buf *out, const struct http_head *h)
{
    static const struct str endings[] = {{"", 0}, {"Connection: close\r\n", 19}, {"Connection: keep-alive\r\n", 24}};
    bool bodiless = h->status == 204 || h->status == 304;
    check(h->date.len == HTTP_DATE_TEXT && (h->extra.len == 0 || h->extra.ptr[h->extra.len - 1] == '\n'));
    write_status(out, h->status);
    buf_add_str(out, h->date);
    buf_add_str(out, str_lit("\r\n"));
    if (h->type.len > 0 && !bodiless) {
        buf_add_str(out, str_lit("Content-Type: "));
        buf_add_str(out, h->type);
        buf_add_str(out, str_lit("\r\n"));
    }
    if (h->length >= 0 && !bodiless) {
        buf_add_str(out, str_lit("Content-Length: "));
        buf_add_u64(out, (uint64_t)h->length);
        buf_add_str(out, str_lit("\r\n"));
    } else if (h->length == HTTP_LENGTH_CHUNKED) {
        buf_add_str(out, str_lit("Transfer-Encoding: chunked\r\n"));
    }
    buf_add_str(out, endings[h->ending]);
    buf_add_str(out, h->extra);
    buf_add_str(out, str_lit("\r\n"));
}

struct http_ready http_ready_make(int status, struct str type, struct str body, struct str extra)
{
    char date[HTTP_DATE_TEXT];
    struct buf out = buf_growing(1 << 20);
    http_date_write(0, date);
    write_status(&out, status);
    struct http_ready r = {.date_at = out.len};
    buf_reset(&out);
    http_head_write(&out, &(struct http_head){.status = status, .date = {date, sizeof date}, .type = type, .length = (int64_t)body.len, .extra = extra});
    r.head_len = out.len - 2;
    buf_add_str(&out, body);
    check(buf_ok(&out));
    r.bytes = out.ptr;
    r.len = out.len;
    return r;
}

void http_ready_free(struct http_ready *r)
{
    free(r->bytes);
    *r = (struct http_ready){0};
}

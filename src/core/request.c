/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include "buf.h"
#include "check.h"
#include "hash.h"
#include "scan.h"

enum { ACTIVITY, SKU, REQUEST, USER, MEMBERS };
static const struct str names[MEMBERS] = {str_lit("activity_id"), str_lit("sku_id"), str_lit("request_id"), str_lit("user_id")};

static bool member(struct scan *s, struct arena *a, struct str out[MEMBERS])
{
    struct str name;
    char memory[16];
    struct arena small = {.start = memory, .cap = sizeof memory};
    if (!scan_str(s, &small, sizeof memory, &name) || !scan_char(s, ':'))
        return false;
    for (int i = 0; i < MEMBERS; i++)
        if (str_eq(name, names[i]))
            return out[i].len == 0 && scan_str(s, a, 64, &out[i]) && str_is_id(out[i]);
    return false;
}

enum reason request_read(struct str body, struct request *out)
{
    struct scan s = scan_of(body);
    struct arena a = {.start = out->memory, .cap = sizeof out->memory};
    struct str got[MEMBERS] = {0};
    if (body.len > REQUEST_BODY_MAX)
        return REASON_PAYLOAD_TOO_LARGE;
    if (body.len == 0 || !scan_char(&s, '{'))
        return REASON_INVALID_REQUEST;
    do
        if (!member(&s, &a, got))
            return REASON_INVALID_REQUEST;
    while (scan_peek(&s) == ',' && scan_char(&s, ','));
    if (!scan_char(&s, '}') || !scan_end(&s) || !got[ACTIVITY].len || !got[SKU].len || !got[REQUEST].len)
        return REASON_INVALID_REQUEST;
    out->activity = got[ACTIVITY];
    out->sku = got[SKU];
    out->request = got[REQUEST];
    out->user = got[USER];
    return REASON_OK;
}

/* Ids hold no line feed, so the text reads one way only. */
void request_fingerprint(struct str activity, struct str sku, struct str user, uint8_t out[32])
{
    char memory[256];
    struct buf b = buf_fixed(memory, sizeof memory);
    buf_add_str(&b, activity);
    buf_add_char(&b, '\n');
    buf_add_str(&b, sku);
    buf_add_char(&b, '\n');
    buf_add_str(&b, user);
    check(buf_ok(&b));
    sha256(buf_str(&b), out);
}

/* SPDX-License-Identifier: Apache-2.0
 * What a payment channel sends (app/webhook.c, core/payment.c). The first byte chooses:
 *   0   the rest as a body: what is read is a payment, and written again it is read the same
 *   1   the rest as id, timestamp, signatures and body, with line feeds between: never taken, unless it is what we would have signed
 *   2   the rest as a body that we sign: it holds; with one bit changed anywhere it does not */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "payment.h"
#include "webhook.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_S 1800000000
static const char keys[] = "whsec_YS1rZXktb2YtdGhpcy10ZXN0LWFsb25lLTEyMzQ=,whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=";

static bool same(const struct payment *a, const struct payment *b)
{
    return str_eq(a->payment, b->payment) && str_eq(a->order, b->order) && str_eq(a->currency, b->currency) && str_eq(a->channel, b->channel) &&
           a->amount == b->amount && a->result == b->result;
}

static void as_body(struct str body)
{
    static char memory[2][2048], text[4096];
    struct arena a = {.start = memory[0], .cap = sizeof memory[0]}, b = {.start = memory[1], .cap = sizeof memory[1]};
    struct payment p, again;
    struct buf out = buf_fixed(text, sizeof text);
    enum reason reason = payment_read(body, &a, &p);
    check(reason == REASON_OK || reason == REASON_INVALID_REQUEST || (reason == REASON_PAYLOAD_TOO_LARGE && body.len > PAYMENT_BODY_MAX));
    if (reason != REASON_OK)
        return;
    check(str_is_id(p.payment) && str_is_id(p.order) && p.amount >= 0 && (p.currency.len == 3 || p.result == PAYMENT_FAILED) && p.channel.len > 0 && p.channel.len <= 64);
    payment_write(&out, &p);
    check(buf_ok(&out) && payment_read(buf_str(&out), &b, &again) == REASON_OK && same(&p, &again));
}

static struct str line(struct str *rest)
{
    const char *end = rest->len ? memchr(rest->ptr, '\n', rest->len) : NULL;
    struct str one = end ? str_range(rest->ptr, end) : *rest;
    *rest = end ? str_range(end + 1, rest->ptr + rest->len) : (struct str){0};
    return one;
}

static void as_callback(struct str rest)
{
    struct webhook hook = {.id = line(&rest)};
    hook.timestamp = line(&rest);
    hook.signatures = line(&rest);
    char text[64];
    struct buf mine = buf_fixed(text, sizeof text);
    int64_t at = 0;
    if (webhook_verify(keys, &hook, rest, NOW_S, 300) != WEBHOOK_GOOD)
        return;
    check(str_to_i64(hook.timestamp, &at) && at >= NOW_S - 300 && at <= NOW_S + WEBHOOK_SKEW_S);
    check(webhook_sign(keys, hook.id, at, rest, &mine));    /* whatever it was, it can be made again */
}

static void as_signed(struct str body)
{
    static char bent[8192];
    char text[64];
    struct buf mine = buf_fixed(text, sizeof text);
    struct webhook hook = {str_lit("hook"), str_lit("1800000000"), (struct str){0}};
    check(webhook_sign(keys, hook.id, NOW_S, body, &mine));
    hook.signatures = buf_str(&mine);
    check(webhook_verify(keys, &hook, body, NOW_S, 300) == WEBHOOK_GOOD);
    if (body.len == 0 || body.len > sizeof bent)
        return;
    memcpy(bent, body.ptr, body.len);
    bent[body.len / 2] = (char)(bent[body.len / 2] ^ 1);
    check(webhook_verify(keys, &hook, (struct str){bent, body.len}, NOW_S, 300) == WEBHOOK_FORGED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data + 1, size - 1};
    if (size == 0)
        return 0;
    if (data[0] % 3 == 0)
        as_body(rest);
    else if (data[0] % 3 == 1)
        as_callback(rest);
    else
        as_signed(rest);
    return 0;
}

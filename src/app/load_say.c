/* SPDX-License-Identifier: Apache-2.0
 * load_say.c: the texts that people and bots send. Who somebody is, what he wants and under which request_id follows from his number alone, so that
 * whatever is asked again is the same to the byte. */
#include <stdio.h>
#include <time.h>

#include "check.h"
#include "json.h"
#include "load_people_parts.h"
#include "payment.h"
#include "webhook.h"

#define BODY_MAX 512

static unsigned item_of(const struct load_people *p, uint32_t user)
{
    double share = load_share(load_chance(p->options.seed ^ 0x5151, (uint64_t)p->options.part << 32 | user));
    unsigned k = 0;
    while (k + 1 < p->scenario->skus && share >= p->shares[k])
        k++;
    return k + 1;
}

static void write_ids(struct buf *body, const struct load_people *p, uint32_t user)
{
    const struct load_people_options *o = &p->options;
    char sku[80];
    if (p->scenario->activity[0])
        snprintf(sku, sizeof sku, "%s", o->sku);
    else
        snprintf(sku, sizeof sku, "%s%u", o->sku, item_of(p, user));
    buf_add_fmt(body, "{\"activity_id\":\"%s\",\"sku_id\":\"%s\",", o->activity, sku);
}

/* Each is no request, in its own way. */
static void write_nonsense(struct buf *body, uint64_t which)
{
    static const char *const nonsense[] = {
        "{", "[]", "\"reserve\"", "{}", "{\"activity_id\":1,\"sku_id\":2,\"request_id\":3,\"user_id\":4}", "{\"activity_id\":\"a\",\"sku_id\":\"b\"}",
        "{\"activity_id\":\"a\",\"sku_id\":\"b\",\"request_id\":\"../../etc/passwd\",\"user_id\":\"u\"}", "\xff\xfe{}", "activity_id=a&sku_id=b",
        "{\"activity_id\":\"a\",\"sku_id\":\"b\",\"request_id\":\"r\",\"user_id\":\"u\",\"price\":0}",
        "{\"activity_id\":\"a\",\"activity_id\":\"a\",\"sku_id\":\"b\",\"request_id\":\"r\",\"user_id\":\"u\"}"};
    buf_add_str(body, str_of(nonsense[which % countof(nonsense)]));
}

static void say_request(struct visit *v)
{
    const struct str tokens = str_lit("Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.AAAA\r\nSeckill-Qualification: bm90aGluZw.AAAA\r\n");
    struct load_people *p = v->people;
    const struct load_people_options *o = &p->options;
    char memory[BODY_MAX];
    struct buf body = buf_fixed(memory, sizeof memory), out = buf_fixed(v->text, sizeof v->text);
    if (v->deed == LOAD_MALFORMED) {
        write_nonsense(&body, p->bodies++);
    } else if (v->deed == LOAD_FLOOD) {
        write_ids(&body, p, 0);
        buf_add_fmt(&body, "\"request_id\":\"%s-%u-f%llu\",\"user_id\":\"%s-%u-flood\"}", o->prefix, o->part, (unsigned long long)p->flooded++, o->prefix, o->part);
    } else if (v->deed == LOAD_BAD_TOKEN) {
        write_ids(&body, p, 0);
        buf_add_fmt(&body, "\"request_id\":\"%s-%u-t%llu\",\"user_id\":\"%s-%u-t%llu\"}", o->prefix, o->part, (unsigned long long)p->number, o->prefix, o->part,
                    (unsigned long long)p->number);
    } else {
        write_ids(&body, p, v->user);
        buf_add_fmt(&body, "\"request_id\":\"%s-%u-r%u\",\"user_id\":\"%s-%u-u%u\"}", o->prefix, o->part, v->user, o->prefix, o->part, v->user);
    }
    http_request_write(&out, str_lit("POST"), str_lit("/v1/reservations"), str_of(o->host), v->deed == LOAD_BAD_TOKEN ? tokens : (struct str){0},
                       str_lit("application/json"), buf_str(&body));
    check(buf_ok(&body) && buf_ok(&out));
    v->call.request = buf_str(&out);
}

static void say_question(struct visit *v)
{
    struct load_people *p = v->people;
    char target[256];
    struct buf out = buf_fixed(v->text, sizeof v->text);
    int n = snprintf(target, sizeof target, "/v1/reservations/%s?user_id=%s-%u-u%u", p->persons[v->user].reservation, p->options.prefix, p->options.part, v->user);
    http_request_write(&out, str_lit("GET"), (struct str){target, (size_t)n}, str_of(p->options.host), (struct str){0}, (struct str){0}, (struct str){0});
    check(buf_ok(&out));
    v->call.request = buf_str(&out);
}

/* ---- money ------------------------------------------------------------------------------------------------------------------------------------ */

/* The order of a reservation bears its name. */
static void order_of(const struct person *who, char out[IDENT_ID_TEXT])
{
    memcpy(out, who->reservation, IDENT_ID_TEXT);
    memcpy(out, "ord", 3);
}

static void say_payment(struct visit *v)
{
    struct load_people *p = v->people;
    const struct load_people_options *o = &p->options;
    char memory[BODY_MAX], lines[256], order[IDENT_ID_TEXT], id[64], name[64], sign[WEBHOOK_SIGNATURE_TEXT + 1];
    struct buf body = buf_fixed(memory, sizeof memory), extra = buf_fixed(lines, sizeof lines), signature = buf_fixed(sign, sizeof sign), out = buf_fixed(v->text, sizeof v->text);
    long long now = (long long)time(NULL);
    order_of(&p->persons[v->user], order);
    snprintf(id, sizeof id, "%s-%u-w%u", o->prefix, o->part, v->user);
    snprintf(name, sizeof name, "%s-%u-p%u", o->prefix, o->part, v->user);
    payment_write(&body, &(struct payment){.payment = str_of(name), .order = {order, sizeof order}, .result = PAYMENT_SUCCESS, .amount = o->price,
                                           .currency = str_of(o->currency), .channel = str_lit("load"), .occurred_ms = p->began_ms});
    bool good = webhook_sign(o->webhook_keys, str_of(id), now, buf_str(&body), &signature);
    check(good);    /* the settings were checked */
    buf_add_fmt(&extra, "webhook-id: %s\r\nwebhook-timestamp: %lld\r\nwebhook-signature: " STR_FMT "\r\n", id, now, STR_ARG(buf_str(&signature)));
    http_request_write(&out, str_lit("POST"), str_lit("/v1/payments/callbacks"), str_of(o->host), buf_str(&extra), str_lit("application/json"), buf_str(&body));
    check(buf_ok(&body) && buf_ok(&extra) && buf_ok(&signature) && buf_ok(&out));
    v->call.request = buf_str(&out);
}

static void say_cancel(struct visit *v)
{
    struct load_people *p = v->people;
    char target[256], order[IDENT_ID_TEXT];
    struct buf out = buf_fixed(v->text, sizeof v->text);
    order_of(&p->persons[v->user], order);
    int n = snprintf(target, sizeof target, "/v1/orders/%.*s/cancel?user_id=%s-%u-u%u", IDENT_ID_TEXT, order, p->options.prefix, p->options.part, v->user);
    http_request_write(&out, str_lit("POST"), (struct str){target, (size_t)n}, str_of(p->options.host), (struct str){0}, (struct str){0}, (struct str){0});
    check(buf_ok(&out));
    v->call.request = buf_str(&out);
}

void load_say(struct visit *v)
{
    switch (v->deed) {
    case LOAD_POLL: say_question(v); break;
    case LOAD_PAY: say_payment(v); break;
    case LOAD_CANCEL: say_cancel(v); break;
    default: say_request(v);
    }
}

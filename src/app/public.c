/* SPDX-License-Identifier: Apache-2.0 */
#include "public.h"

#include "metric.h"
#include "problem.h"

/* ---- saying ------------------------------------------------------------------------------------------------------------------ */

void public_observe(struct public_api *a, enum reason code, uint64_t began_us)
{
    metric_add(METRIC_HTTP_REQUESTS, code, 1);
    metric_observe(METRIC_HTTP_SECONDS, clock_mono_us(a->clock) - began_us);
}

void public_ended(struct public_call *c, enum reason code)
{
    list_remove(&c->link);
    public_observe(c->api, code, c->began_us);
}

void public_refuse(struct public_call *c, enum reason code, const char *detail)
{
    struct problem p = {.code = code, .detail = str_of(detail), .request_id = c->body.request};
    if (code == REASON_UNAUTHENTICATED)
        p.headers = str_lit("WWW-Authenticate: Bearer\r\n");
    public_ended(c, code);
    problem_answer(c->x, &p);
}

void public_refuse_plainly(struct public_call *c, enum reason code)
{
    const struct public_refusal *r = &c->api->refusals[code];
    char memory[PUBLIC_BODY_MAX / 4];
    struct buf body = buf_fixed(memory, sizeof memory);
    if (c->body.request.len == 0 || r->status == 0) {
        public_refuse(c, code, NULL);
        return;
    }
    buf_add_str(&body, r->before);
    buf_add_str(&body, c->body.request);    /* an id: nothing in it needs escaping */
    buf_add_str(&body, r->after);
    check(buf_ok(&body));
    public_ended(c, code);
    http_answer(c->x, r->status, str_lit(PROBLEM_TYPE), buf_str(&body), r->headers);
}

void public_answer(struct public_call *c, int status, enum reason code, const struct buf *body, struct str headers)
{
    check(buf_ok(body));
    public_ended(c, code);
    http_answer(c->x, status, str_lit("application/json"), buf_str(body), headers);
}

#define MARK "@"
void public_refusals_make(struct public_api *a)
{
    size_t at[REASON_COUNT + 1];
    char memory[PROBLEM_MAX];
    a->words = buf_growing(1 << 20);
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        struct buf one = buf_fixed(memory, sizeof memory);
        at[i] = a->words.len;
        if (reason_row(i)->http >= 400)
            problem_write(&one, &(struct problem){.code = (enum reason)i, .request_id = str_lit(MARK)});
        check(buf_ok(&one));
        buf_add_str(&a->words, buf_str(&one));
    }
    at[REASON_COUNT] = a->words.len;
    check(buf_ok(&a->words));
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        struct str all = {a->words.ptr + at[i], at[i + 1] - at[i]};
        const char *gap = all.len ? memmem(all.ptr, all.len, "\"" MARK "\"", 3) : NULL;
        if (!gap)
            continue;
        bool again = reason_fate((enum reason)i) == FATE_RETRY;
        a->refusals[i] = (struct public_refusal){.status = problem_status((enum reason)i), .before = str_range(all.ptr, gap + 1),
                                                 .after = str_range(gap + 2, all.ptr + all.len), .headers = again ? str_lit("Retry-After: 1\r\n") : (struct str){0}};
    }
}

/* ---- while core works on it ------------------------------------------------------------------------------------------------------ */

void public_wait(struct public_call *c)
{
    list_remove(&c->link);
    list_append(&c->api->out, &c->link);
}

void public_let_go(struct public_call *c)
{
    if (c->taking)
        reservation_let_go(&c->take);
    if (c->asking)
        query_let_go(&c->query);
    if (c->paying)
        payment_let_go(&c->callback);
    if (c->canceling)
        payment_cancel_let_go(&c->cancel);
    if (c->reading)
        catalog_let_go(&c->catalog);
    clock_unset(c->api->clock, &c->rest);
    list_remove(&c->link);
}

void public_on_gone(struct http_exchange *x)
{
    struct public_call *c = x->state;
    public_let_go(c);
    public_observe(c->api, REASON_CANCELLED, c->began_us);
}

/* ---- who asks ----------------------------------------------------------------------------------------------------------------- */

enum reason public_identify(struct public_call *c, struct str named, struct str *user, const char **why)
{
    if (named.len > 0 && !str_is_id(named)) {
        *why = "user_id is no id";
        return REASON_INVALID_REQUEST;
    }
    if (!c->api->jwt) {
        *user = named;
        *why = "name the user in user_id";
        return named.len > 0 ? REASON_OK : REASON_INVALID_REQUEST;
    }
    struct str said = http_header(c->x->request, str_lit("authorization"));
    *why = "send Authorization: Bearer and a token";
    if (said.len < 8 || !str_eq_nocase((struct str){said.ptr, 7}, str_lit("bearer ")))
        return REASON_UNAUTHENTICATED;
    const struct config *k = c->api->options.config;
    const struct jwt_expected expected = {.issuer = str_of(k->auth_jwt_issuer), .audience = str_of(k->auth_jwt_audience)};
    *why = jwt_verify(c->api->jwt, &expected, str_trim((struct str){said.ptr + 7, said.len - 7}), clock_now_ms(c->api->clock) / 1000, &c->x->arena, user);
    if (*why)
        return REASON_UNAUTHENTICATED;
    *why = "user_id is not who the token says";
    return named.len == 0 || str_eq(named, *user) ? REASON_OK : REASON_FORBIDDEN;
}

bool public_header_once(const struct http_request *r, struct str name)
{
    size_t seen = 0;
    for (size_t i = 0; i < r->header_count; i++)
        seen += r->headers[i].name.len == name.len && str_eq_nocase(r->headers[i].name, name);
    return seen <= 1;
}

bool public_identify_by_query(struct public_call *c, struct str *user)
{
    bool twice = false;
    const char *why = "user_id is there twice";
    struct str named = http_query(c->x->request, str_lit("user_id"), &twice);
    enum reason good = twice ? REASON_INVALID_REQUEST : public_identify(c, named, user, &why);
    if (good != REASON_OK)
        public_refuse(c, good, why);
    return good == REASON_OK;
}

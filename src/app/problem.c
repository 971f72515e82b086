/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include "json.h"

int problem_status(enum reason code)
{
    int status = reason_row(code)->http;
    return status != 0 ? status : reason_row(REASON_INTERNAL)->http;
}

static bool retryable(enum reason code) { return reason_fate(code) == FATE_RETRY; }

static uint32_t retry_after(const struct problem *p) { return p->retry_after_s > 0 ? p->retry_after_s : 1; }

void problem_write(struct buf *body, const struct problem *p)
{
    const struct reason_row *row = reason_row(p->code);
    buf_add_char(body, '{');    /* always a document of its own, whatever stands before it in the buf */
    json_key(body, "type");
    char type[96];
    struct buf urn = buf_fixed(type, sizeof type);
    buf_add_fmt(&urn, "urn:seckill:reason:%s", row->word);
    json_str(body, buf_str(&urn));
    json_member_text(body, "title", row->text);
    json_member_i64(body, "status", problem_status(p->code));
    json_member_str(body, "detail", p->detail.len > 0 ? p->detail : str_of(row->text));
    json_member_text(body, "code", row->word);
    json_maybe_str(body, "request_id", p->request_id);
    json_member_bool(body, "retryable", retryable(p->code));
    if (p->members.len > 0)
        json_raw(body, p->members);
    json_close(body);
}

void problem_answer(struct http_exchange *x, const struct problem *p)
{
    char memory[PROBLEM_MAX * 2], lines[512];
    struct buf body = buf_fixed(memory, sizeof memory), headers = buf_fixed(lines, sizeof lines);
    problem_write(&body, p);
    buf_add_str(&headers, p->headers);
    if (retryable(p->code))
        buf_add_fmt(&headers, "Retry-After: %u\r\n", retry_after(p));
    if (!buf_ok(&body) || !buf_ok(&headers)) {    /* a detail or members beyond all measure: say the plain thing */
        struct problem plain = {.code = p->code};
        buf_reset(&body);
        buf_reset(&headers);
        problem_write(&body, &plain);
    }
    http_answer(x, problem_status(p->code), str_lit(PROBLEM_TYPE), buf_str(&body), buf_str(&headers));
}

/* ---- what a server refuses by itself ---- */

enum reason problem_code_of(int status)
{
    return status == 503 ? REASON_OVERLOADED : status == 413 || status == 414 || status == 431 ? REASON_PAYLOAD_TOO_LARGE : REASON_INVALID_REQUEST;
}

void problem_of_server(struct buf *body, int status, const char *why, void *owner)
{
    enum reason code = problem_code_of(status);
    (void)owner;
    json_open(body);
    json_member_text(body, "type", "about:blank");
    json_key(body, "title"), json_str(body, http_phrase(status));
    json_member_i64(body, "status", status);
    json_member_text(body, "detail", why);
    json_member_text(body, "code", reason_word(code));
    json_member_bool(body, "retryable", retryable(code));
    json_close(body);
}

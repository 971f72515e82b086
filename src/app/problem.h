/* SPDX-License-Identifier: Apache-2.0
 * problem.h: a refusal as application/problem+json (RFC 9457), the same on every listener. */
#pragma once
#include "buf.h"
#include "http_server.h"
#include "reason.h"

struct problem {
    enum reason code;
    struct str detail;            /* of this case; empty: the row's own text says all */
    struct str request_id;        /* where known */
    struct str members;           /* further members as JSON, without braces: "\"starts_at\":\"...\""; or empty */
    struct str headers;           /* further header lines, each with its CR LF; or empty */
    uint32_t retry_after_s;       /* with codes of fate RETRY; 0: 1 */
};
#define PROBLEM_TYPE "application/problem+json"
#define PROBLEM_MAX 2048          /* bytes that a problem without members needs at most, given a detail of 512 */

/* The status on the wire: the row's, or 500 for a reason that is never an answer of its own. */
int problem_status(enum reason code);
void problem_write(struct buf *body, const struct problem *p);
/* What a server refuses by itself, in our words: the body of such an answer (http_server_config.refuse; the owner is not used), and the code in it. */
void problem_of_server(struct buf *body, int status, const char *why, void *owner);
enum reason problem_code_of(int status);
/* Ends the exchange. */
void problem_answer(struct http_exchange *x, const struct problem *p);

/* SPDX-License-Identifier: Apache-2.0
 * crowd.h: many different users asking for the same item over HTTP as fast as they are answered, some of them twice with the same
 * request_id. Each goes on, with the same request_id, until he has an answer that will not change; each QUEUED answer is followed to
 * its verdict. Runs on one loop; the server may live on the same one. */
#pragma once
#include <stdio.h>
#include <uv.h>

#include "address.h"
#include "clock.h"
#include "reason.h"

struct crowd_options {
    struct address address;
    const char *host;             /* as the address was written */
    const char *activity, *sku;
    const char *prefix;           /* of user and request ids */
    uint32_t users;
    uint32_t connections;
    uint32_t retry_percent;       /* of users ask again once they have been answered */
    uint32_t patience_ms;         /* for verdicts, once everybody has been answered; and for a server that does not answer */
    FILE *progress;               /* how it goes: one line rewritten on a terminal, else a line a second; NULL: nothing */
};

struct crowd_result {
    uint64_t requests;            /* POSTs answered */
    uint64_t again;               /* of them: asked again because of what came before (UNCERTAIN, 503, a lost answer, ...) */
    uint64_t lost;                /* POSTs without an answer */
    uint64_t users_by[REASON_COUNT];      /* last word each user heard */
    uint64_t answers_by[REASON_COUNT];    /* every answer */
    uint64_t contradictions;      /* the same request_id was told two different reservations, or a taken unit was denied later */
    uint64_t unanswered;          /* users who never heard a final word */
    uint64_t queued, ordered, released, undecided;    /* reservations told to users, and what became of them */
    uint64_t asking_us;           /* from the first question to the last final word */
    uint64_t deciding_us;         /* from then until the last verdict was seen */
    int64_t first_reserved_ms, last_reserved_ms;      /* by the time bits of the ids; 0: none */
    uint32_t p50_us, p90_us, p99_us, p999_us, max_us; /* of a POST, sent to answered */
    uint32_t queued_p50_us, queued_p99_us, queued_max_us;    /* of those that took a unit */
    char fault[128];              /* an answer that could not be understood, as an example; "": none */
};

struct crowd;
/* `done` is called from the loop. NULL: no memory. Texts must stay. */
struct crowd *crowd_start(uv_loop_t *loop, struct clock *clock, const struct crowd_options *options, void (*done)(void *arg), void *arg);
const struct crowd_result *crowd_result(const struct crowd *c);
/* Its connections close as the loop turns. */
void crowd_free(struct crowd *c);

/* Every answer was understood and none contradicts another; every QUEUED has its verdict. */
bool crowd_consistent(const struct crowd_result *r);
void crowd_print(const struct crowd_result *r, FILE *out);

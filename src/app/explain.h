/* SPDX-License-Identifier: Apache-2.0
 * explain.h: what is known of an id, by whom, in time order. The id may name a reservation, message, order, unit (token_… or a plain
 * number), request, user or payment: who had a unit when, why it came back, what was paid and what was given back. PostgreSQL has the last word, Redis knows what is under way; a part that could not be asked is said to be
 * unknown, and so is what nobody wrote down. */
#pragma once
#include "arena.h"
#include "ident.h"
#include "ports.h"

#define EXPLAIN_FACTS_MAX 256
struct explain_fact {
    int64_t at_ms;            /* 0: nobody knows when */
    const char *source;       /* "id", "postgresql", "redis" */
    struct str what;          /* "order created", "unknown", ... */
    struct str detail;
};

struct explain {
    /* in */
    struct str id;
    struct str activity, user;    /* where the id alone does not say: of a request both, of a user the activity; may be empty */
    void (*done)(struct explain *);

    /* out, valid until explain_free */
    const char *kind;             /* "reservation", "order", "unit", "request", "user", "payment"; NULL: it cannot be told what it names */
    const struct explain_fact *facts;    /* in time order, those without a time first */
    size_t fact_count;
    bool known;                   /* a store knows something of it */
    bool complete;                /* every part that could know was asked and answered */

    /* own */
    struct ports *ports;
    struct ident_keys keys;
    struct explain_work *work;
};
/* Woken through done, never before this has returned. The texts of the ask must stay until then. */
void explain_start(struct explain *e, struct ports *p, struct ident_keys keys);
void explain_free(struct explain *e);    /* at any time; done will not be called afterwards */

void explain_write_json(const struct explain *e, struct buf *out);
#define EXPLAIN_JSON_MAX (256 * 1024)

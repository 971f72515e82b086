/* SPDX-License-Identifier: Apache-2.0
 * public.h: one request of the public listener, from its route to its answer. What it needs lives in the arena of its exchange. The words of
 * every plain refusal are made once, at the start, with a gap for the request_id: SOLD_OUT is said a hundred thousand times a second. */
#pragma once
#include "jwt.h"
#include "log.h"
#include "payment.h"
#include "public_api.h"
#include "query.h"
#include "request.h"
#include "reservation.h"

#define PUBLIC_BODY_MAX 4096          /* of an answer made on the stack */

/* A refusal without detail: body before and after the request_id. */
struct public_refusal {
    struct str before, after, headers;
    int status;
};

struct public_api {
    struct public_options options;
    struct desk *desk;
    struct clock *clock;
    struct http_server *server;
    struct jwt_keys *jwt;             /* NULL: auth.mode = none */
    struct public_refusal refusals[REASON_COUNT];
    struct buf words;                 /* what they point into */
    struct http_ready openapi;
    struct link out;                  /* calls that core still works on */
    uv_timer_t gauges;
    struct http_server_stats shown;
    struct log_ration late, unreadable;    /* of the lines about callbacks */
    bool draining;
};

struct public_call {
    struct link link;                 /* in `out`; alone while core has nothing of it */
    struct public_api *api;
    struct http_exchange *x;
    uint64_t began_us;
    struct request body;
    union {
        struct take take;
        struct query query;
        struct payment_callback callback;
        struct payment_cancel cancel;
    };
    bool token_refused;               /* the qualification token is not one of ours, or another's: only a replay is answered */
    bool taking, asking, paying, canceling, reading;    /* what is with core: one of the four, or the list of activities */
    struct str refunds;               /* of an order: JSON, or empty */
    bool refunds_truncated;           /* … and there are more */
    struct catalog_wait catalog;
    struct str activity;
    /* an event stream */
    bool streaming;
    enum reservation_state shown;     /* NONE: nothing yet */
    uint64_t last_us;
    uint32_t events;
    struct alarm rest;
};

/* ---- ends: each ends the exchange, and the call's memory with it ----------------------------------------------------------------- */

void public_ended(struct public_call *c, enum reason code);    /* the caller says the answer */
/* `detail`: NULL where the row's own text says all. */
void public_refuse(struct public_call *c, enum reason code, const char *detail);
/* As public_refuse without detail: the words are there already. */
void public_refuse_plainly(struct public_call *c, enum reason code);
void public_answer(struct public_call *c, int status, enum reason code, const struct buf *body, struct str headers);
void public_refusals_make(struct public_api *a);
void public_observe(struct public_api *a, enum reason code, uint64_t began_us);

/* ---- while core works on it ------------------------------------------------------------------------------------------------------- */

void public_wait(struct public_call *c);                       /* core has it */
void public_let_go(struct public_call *c);                     /* core has it no more */
void public_on_gone(struct http_exchange *x);                  /* the client has left a call that waited: nobody needs the answer */

/* ---- who asks --------------------------------------------------------------------------------------------------------------------- */

/* OK and *user; `named`: the user_id that the request gives, or empty. */
enum reason public_identify(struct public_call *c, struct str named, struct str *user, const char **why);
/* The same, named in the query. False: refused. */
bool public_identify_by_query(struct public_call *c, struct str *user);
/* A header that must not be there twice: which of the two would be meant? */
bool public_header_once(const struct http_request *r, struct str name);

/* ---- the routes (spec/route.def): public_take.c, public_query.c, public_money.c, public_api.c ------------------------------------------- */

#define ROUTE(symbol, method, path, text) void public_route_##symbol(struct public_call *c, struct str id);
#include "route.def"
#undef ROUTE

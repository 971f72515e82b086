/* SPDX-License-Identifier: Apache-2.0
 * lane.h: one connection to PostgreSQL and the calls upon it.
 *
 * A call goes waiting → flying → (resting → waiting)* → woken. It is copied in when it is submitted and is the lane's from then on; its
 * waiter may leave at any time, what flies is flown to its end. It is done at its own PGRES_PIPELINE_SYNC with no error before
 * it: not at its result, which comes before the commit. A notice of class 01, or any WARNING, while calls that write are flying may
 * qualify the commit of any of them (a cancelled wait for a standby), and makes each of them UNCERTAIN. */
#pragma once
#include <libpq-fe.h>
#include <uv.h>

#include "list.h"
#include "params.h"
#include "postgres.h"
#include "resolve.h"
#include "sqlstate.h"
#include "waiter.h"

enum call_kind {
#define CALL(name, lane, writes, budget, statement) CALL_##name,
#include "call.def"
#undef CALL
    CALL_KINDS
};
enum lane_kind {
#define LANE(name, flying, bound, stall, settings) LANE_##name,
#include "lane.def"
#undef LANE
    LANE_KINDS
};

struct lane;
struct call {
    struct slot slot;
    struct link link;
    struct lane *lane;
    enum call_kind kind;
    size_t asked;                 /* how many items, for those that decode */
    struct params params;
    /* Wakes the slot with what the result says; the result is valid during the wake. */
    void (*decode)(struct call *, const PGresult *);
    void *room;                   /* memory of the answer, freed after the wake */
    /* the lane's own */
    uint64_t due_us, sent_us, again_us;
    unsigned tries;
    enum reason ended;            /* of a call that never flew */
    PGresult *result;
    const struct sqlstate_row *error;
    bool late, doubtful;
};

enum lane_state { LANE_DOWN, LANE_CONNECTING, LANE_PREPARING, LANE_READY };
struct lane {
    const struct postgres_options *options;
    enum lane_kind kind;
    enum lane_state state;
    PGconn *conn;
    struct lane *all;             /* all of this ledger */
    char *deployment;             /* of the ledger; empty: not known yet */
    int backend;                  /* the server process, as it says */
    unsigned syncs;               /* of the two of the greeting */
    struct resolve *resolving;    /* the host's name is being looked up; NULL: it is not */
    uv_poll_t *poll;              /* on its own memory: closing outlives a connection */
    int fd;
    uv_timer_t tick, soon;
    uint64_t again_us;            /* when to connect again */
    uint64_t since_us;            /* when this attempt began */
    unsigned failures;
    char refusal[256];            /* what the server last refused a call with, or why the connection was lost; empty: neither yet */
    struct link waiting, flying, resting, ended;
    size_t calls;
    uint64_t jitter;
    bool closing;
};

/* `all`: the lanes of one ledger, by kind. `deployment`: DEPLOYMENT_TEXT characters and a zero; the first lane that connects writes them, and every later
 * connection is refused where the database has another identity. */
void lane_open(struct lane *all, const struct postgres_options *, enum lane_kind, char *deployment);
/* Hangs up and ends every call; from now on calls are only refused. */
void lane_shut(struct lane *);
/* Ends what was refused; whether there was anything. */
bool lane_refuse(struct lane *);
/* After both: the timers are closed, each with `closed`. */
void lane_close(struct lane *, uv_close_cb closed);

/* A call for the waiter; then its params are written, and lane_submit. */
struct call *lane_call(struct lane *, enum call_kind, struct waiter *);
void lane_submit(struct call *);

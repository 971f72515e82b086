/* SPDX-License-Identifier: Apache-2.0 */
#include "lane.h"

#include <stdio.h>
#include <stdlib.h>

#include "metric.h"
#include "session.h"

#define TICK_MS 10
#define TRIES_MAX 5
#define CONNECT_US 5000000ULL
#define BACKOFF_MIN_US 50000ULL
#define BACKOFF_MAX_US 5000000ULL

static const struct call_row {
    const char *name, *statement;
    enum lane_kind lane;
    bool writes;
    uint32_t budget_ms;
} call_rows[] = {
#define CALL(name, lane, writes, budget, statement) {#name, statement, LANE_##lane, writes, budget},
#include "call.def"
#undef CALL
};
static const struct lane_row {
    const char *name, *settings;
    size_t flying, bound;
    uint64_t stall_ms;
} lane_rows[] = {
#define LANE(name, flying, bound, stall, settings) {#name, settings, flying, bound, stall},
#include "lane.def"
#undef LANE
};

static uint64_t now_us(void) { return uv_hrtime() / 1000; }
static const struct call_row *row_of(const struct call *c) { return &call_rows[c->kind]; }

static void on_poll(uv_poll_t *poll, int status, int events);
static void on_soon(uv_timer_t *timer);
static void on_tick(uv_timer_t *timer);

/* xorshift: chance for back-off only. */
static uint64_t jitter(struct lane *lane, uint64_t below)
{
    lane->jitter ^= lane->jitter << 13;
    lane->jitter ^= lane->jitter >> 7;
    lane->jitter ^= lane->jitter << 17;
    return lane->jitter % below;
}

/* ---- calls ---------------------------------------------------------------------------------------------------------------- */

static void call_free(struct call *c)
{
    list_remove(&c->link);
    c->lane->calls--;
    params_free(&c->params);
    PQclear(c->result);
    free(c->room);
    free(c);
}

static void call_end(struct call *c, enum reason reason)
{
    list_remove(&c->link);
    slot_wake(&c->slot, reason, NULL);
    call_free(c);
}

struct call *lane_call(struct lane *lane, enum call_kind kind, struct waiter *waiter)
{
    check(call_rows[kind].lane == lane->kind);
    struct call *c = calloc(1, sizeof *c);
    check(c != NULL);
    c->lane = lane;
    c->kind = kind;
    c->params = params_new();
    list_init(&c->link);
    lane->calls++;
    uint64_t budget_ms = waiter->budget_ms ? waiter->budget_ms : call_rows[kind].budget_ms;
    c->due_us = now_us() + budget_ms * 1000;
    slot_arm(&c->slot, waiter);
    return c;
}

void lane_submit(struct call *c)
{
    struct lane *lane = c->lane;
    c->ended = lane->calls > lane_rows[lane->kind].bound ? REASON_OVERLOADED
               : !buf_ok(&c->params.bytes)               ? REASON_POISON
               : lane->state == LANE_DOWN                ? REASON_DEPENDENCY_DOWN
                                                         : REASON_OK;
    list_append(c->ended == REASON_OK ? &lane->waiting : &lane->ended, &c->link);
    if (lane->closing)
        return;
    if (!uv_is_active((uv_handle_t *)&lane->soon))
        check(uv_timer_start(&lane->soon, on_soon, 0, 0) == 0);    /* never from within the call itself; and one flush for many */
    if (!uv_is_active((uv_handle_t *)&lane->tick))
        check(uv_timer_start(&lane->tick, on_tick, TICK_MS, TICK_MS) == 0);
}

/* ---- the connection -------------------------------------------------------------------------------------------------------- */

static void free_handle(uv_handle_t *handle) { free(handle); }

static void unwatch(struct lane *lane)
{
    if (!lane->poll)
        return;
    uv_poll_stop(lane->poll);
    uv_close((uv_handle_t *)lane->poll, free_handle);
    lane->poll = NULL;
}

static void watch(struct lane *lane, int events)
{
    int fd = PQsocket(lane->conn);
    if (lane->poll && lane->fd != fd)
        unwatch(lane);
    if (!lane->poll) {
        lane->poll = calloc(1, sizeof *lane->poll);
        check(lane->poll != NULL && uv_poll_init(lane->options->loop, lane->poll, fd) == 0);
        lane->poll->data = lane;
        lane->fd = fd;
    }
    check(uv_poll_start(lane->poll, events, on_poll) == 0);
}

static void hang_up(struct lane *lane)
{
    resolve_forget(lane->resolving);
    lane->resolving = NULL;
    unwatch(lane);    /* before its socket is closed */
    PQfinish(lane->conn);
    lane->conn = NULL;
    lane->state = LANE_DOWN;
}

/* No connection any more. What flew: unknown where it writes, unless its error had come; what waited did not happen. */
static void strand(struct lane *lane)
{
    struct link gone;
    list_init(&gone);
    for (struct link *at; (at = list_take(&lane->flying));)
        list_append(&gone, at);
    size_t flew = 0;
    list_each(at, &gone)
        flew++;
    for (struct link *at; (at = list_take(&lane->waiting)) || (at = list_take(&lane->resting));)
        list_append(&gone, at);
    for (struct link *at; (at = list_take(&gone));) {
        struct call *c = list_entry(at, struct call, link);
        enum reason reason = REASON_DEPENDENCY_DOWN;
        if (flew) {
            flew--;
            if (c->error)
                reason = c->late ? c->error->late : c->error->reason;
            else if (row_of(c)->writes)
                reason = c->doubtful ? REASON_UNCERTAIN : REASON_LINK_LOST;
        }
        call_end(c, reason);
    }
}

/* The first line of it, for readiness. */
static void note_refusal(struct lane *lane, const char *state, const char *message)
{
    struct buf b = buf_fixed(lane->refusal, sizeof lane->refusal - 1);
    size_t n = message ? strcspn(message, "\n") : 0;
    if (n > sizeof lane->refusal - 16)
        n = sizeof lane->refusal - 16;
    if (state)
        buf_add_fmt(&b, "%s ", state);
    buf_add(&b, message, n);
    lane->refusal[b.len] = 0;
}

/* The connection is of no more use: again later. */
static void lost(struct lane *lane, const char *why)
{
    if (lane->state == LANE_DOWN)
        return;
    struct log_line l = log_event(LEVEL_WARN, "postgres_connection_lost");
    log_text(&l, "lane", lane_rows[lane->kind].name);
    log_text(&l, "why", why ? why : lane->conn ? PQerrorMessage(lane->conn) : "");
    note_refusal(lane, NULL, why ? why : lane->conn ? PQerrorMessage(lane->conn) : "");
    log_end(&l);
    hang_up(lane);
    uint64_t wait = BACKOFF_MIN_US << (lane->failures < 7 ? lane->failures : 7);
    lane->failures++;
    lane->again_us = now_us() + (wait < BACKOFF_MAX_US ? wait : BACKOFF_MAX_US) / 2 + jitter(lane, wait / 2 + 1);
    metric_one(METRIC_ENGINE_RECONNECTS);
    if (!uv_is_active((uv_handle_t *)&lane->tick))
        check(uv_timer_start(&lane->tick, on_tick, TICK_MS, TICK_MS) == 0);
    strand(lane);
}

static void on_notice(void *arg, const PGresult *notice)
{
    struct lane *lane = arg;
    const char *state = PQresultErrorField(notice, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (!(state && strncmp(state, "01", 2) == 0) && !(severity && strcmp(severity, "WARNING") == 0))
        return;
    list_each(at, &lane->flying)
        list_entry(at, struct call, link)->doubtful = true;
    struct log_line l = log_event(LEVEL_WARN, "postgres_warning");
    log_text(&l, "lane", lane_rows[lane->kind].name);
    log_text(&l, "sqlstate", state ? state : "");
    log_text(&l, "message", PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY));
    log_end(&l);
}

/* To the addresses that were found, or as the connection string says. */
static void dial_to(struct lane *lane, const char *hosts, const char *addresses)
{
    const char *keys[] = {"dbname", "client_encoding", "application_name", "target_session_attrs", "tcp_user_timeout", "keepalives_idle",
                          addresses ? "host" : NULL, "hostaddr", NULL};
    const char *values[] = {lane->options->url, "UTF8", lane->options->application ? lane->options->application : "seckill", "read-write",
                            "10000", "10", hosts, addresses, NULL};
    lane->conn = PQconnectStartParams(keys, values, 1);
    check(lane->conn != NULL);
    if (PQstatus(lane->conn) == CONNECTION_BAD) {
        lost(lane, NULL);
        return;
    }
    PQsetNoticeReceiver(lane->conn, on_notice, lane);
    watch(lane, UV_WRITABLE);
}

static void found(void *arg, const char *hosts, const char *addresses, const char *why)
{
    struct lane *lane = arg;
    lane->resolving = NULL;
    if (addresses)
        dial_to(lane, hosts, addresses);
    else
        lost(lane, why);
}

static void dial(struct lane *lane)
{
    lane->state = LANE_CONNECTING;
    lane->since_us = now_us();
    lane->resolving = resolve_start(lane->options->loop, lane->options->url, found, lane);
    if (!lane->resolving)
        dial_to(lane, NULL, NULL);
}

#define SESSION_TEXT 8192

/* Connected: the session is set up; in a second transaction it is verified, whose database it is is read, and every statement of this lane is prepared. */
static void prepare(struct lane *lane)
{
    char memory[SESSION_TEXT];
    struct buf set = buf_fixed(memory, sizeof memory - 1);
    const char *more = lane_rows[lane->kind].settings;
    session_write_set(&set, more);
    check(buf_ok(&set));
    memory[set.len] = 0;
    lane->backend = 0;
    lane->syncs = 0;
    bool ok = PQsetnonblocking(lane->conn, 1) == 0 && PQenterPipelineMode(lane->conn) &&
              PQsendQueryParams(lane->conn, memory, 0, NULL, NULL, NULL, NULL, 0) && PQpipelineSync(lane->conn);
    struct buf verify = buf_fixed(memory, sizeof memory - 1);
    session_write_verify(&verify, more);
    check(buf_ok(&verify));
    memory[verify.len] = 0;
    ok = ok && PQsendQueryParams(lane->conn, memory, 0, NULL, NULL, NULL, NULL, 0) &&
         PQsendQueryParams(lane->conn, "SELECT identity AS deployment FROM seckill.deployment", 0, NULL, NULL, NULL, NULL, 0);
    for (size_t i = 0; ok && i < CALL_KINDS; i++)
        if (call_rows[i].lane == lane->kind)
            ok = PQsendPrepare(lane->conn, call_rows[i].name, call_rows[i].statement, 0, NULL);
    if (!ok || !PQpipelineSync(lane->conn)) {
        lost(lane, NULL);
        return;
    }
    lane->state = LANE_PREPARING;
    watch(lane, UV_READABLE | UV_WRITABLE);
}

/* ---- whose session it is -------------------------------------------------------------------------------------------------- */

/* A session that must not be used: the connection is given up, and tried again as after any loss. */
static void refuse_session(struct lane *lane, const char *why)
{
    struct log_line l = log_event(LEVEL_ERROR, "postgres_session_refused");
    log_text(&l, "lane", lane_rows[lane->kind].name);
    log_text(&l, "why", why);
    log_end(&l);
    lost(lane, why);
}

/* One server process serves one connection of ours, all the time. */
static void note_backend(struct lane *lane, const char *pid)
{
    int backend = atoi(pid);
    bool shared = lane->backend != 0 && backend != lane->backend;
    for (unsigned i = 0; i < LANE_KINDS; i++) {
        const struct lane *other = &lane->all[i];
        shared |= other != lane && other->state == LANE_READY && other->backend == backend;
    }
    lane->backend = backend;
    if (shared)
        refuse_session(lane, "a pooler moves this connection between server processes: pool_mode=session is needed");
}

static void note_deployment(struct lane *lane, const PGresult *r)
{
    char *ours = lane->deployment, why[160];
    if (PQntuples(r) != 1 || PQgetlength(r, 0, 0) != DEPLOYMENT_TEXT) {
        refuse_session(lane, "the database has no identity: table deployment must hold one row");
        return;
    }
    const char *theirs = PQgetvalue(r, 0, 0);
    if (ours[0] == 0) {
        memcpy(ours, theirs, DEPLOYMENT_TEXT + 1);
    } else if (strcmp(ours, theirs) != 0) {
        metric_one(METRIC_FOREIGN_STORES);
        snprintf(why, sizeof why, "this is the database of deployment %s; this process works for %s", theirs, ours);
        refuse_session(lane, why);
    }
}

/* The rows of the greeting: the two of session.h, then the identity. */
static void greeted(struct lane *lane, const PGresult *r)
{
    if (strcmp(PQfname(r, 0), "deployment") == 0) {
        note_deployment(lane, r);
        return;
    }
    bool verified = PQnfields(r) == 2 && PQntuples(r) == 1 && strcmp(PQfname(r, 1), "wrong") == 0;
    if (verified && !PQgetisnull(r, 0, 1))
        refuse_session(lane, PQgetvalue(r, 0, 1));
    else
        note_backend(lane, PQgetvalue(r, 0, 0));
}

static void connecting(struct lane *lane)
{
    unwatch(lane);    /* libpq may have closed the socket and opened another under the same number */
    switch (PQconnectPoll(lane->conn)) {
    case PGRES_POLLING_READING: watch(lane, UV_READABLE); break;
    case PGRES_POLLING_WRITING: watch(lane, UV_WRITABLE); break;
    case PGRES_POLLING_OK: prepare(lane); break;
    default: lost(lane, NULL);
    }
}

/* ---- flight ------------------------------------------------------------------------------------------------------------------- */

static bool flush(struct lane *lane)
{
    int left = PQflush(lane->conn);
    if (left < 0) {
        lost(lane, NULL);
        return false;
    }
    watch(lane, left ? UV_READABLE | UV_WRITABLE : UV_READABLE);
    return true;
}

static bool fly(struct lane *lane, struct call *c)
{
    const char *values[PARAMS_MAX];
    int formats[PARAMS_MAX];
    params_values(&c->params, values);
    for (int i = 0; i < c->params.count; i++)
        formats[i] = 1;
    list_remove(&c->link);
    c->sent_us = now_us();
    c->tries++;
    if (!PQsendQueryPrepared(lane->conn, row_of(c)->name, c->params.count, values, c->params.length, formats, 1)) {
        list_append(&lane->waiting, &c->link);    /* without its sync nothing of it can commit */
        return false;
    }
    list_append(&lane->flying, &c->link);
    return PQpipelineSync(lane->conn) == 1;
}

static void pump(struct lane *lane)
{
    if (lane->state != LANE_READY)
        return;
    size_t flying = 0;
    list_each(at, &lane->flying)
        flying++;
    bool more = false;
    while (flying < lane_rows[lane->kind].flying && !list_empty(&lane->waiting)) {
        struct call *c = list_entry(lane->waiting.next, struct call, link);
        if (!c->slot.waiter) {    /* nobody waits, and it has not left */
            call_free(c);
            continue;
        }
        if (!fly(lane, c)) {
            lost(lane, NULL);
            return;
        }
        flying++;
        more = true;
    }
    if (more)
        flush(lane);
}

static void damaged(struct lane *lane, const char *state)
{
    struct log_line l = log_event(LEVEL_FATAL, "postgres_data_damaged");
    log_text(&l, "sqlstate", state);
    log_end(&l);
    if (lane->options->damaged)
        lane->options->damaged(lane->options->arg, state);
    else
        check(!"PostgreSQL reports damaged data");
}

static void failed(struct lane *lane, struct call *c, PGresult *r)
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    if (state) {    /* else libpq speaks of the connection, which shows by itself */
        c->error = sqlstate_row(state);
        c->late = c->result != NULL;
        struct log_line l = log_event(c->error->manner == SQLSTATE_REPEAT ? LEVEL_INFO : LEVEL_WARN, "postgres_call_failed");
        log_text(&l, "call", row_of(c)->name);
        log_text(&l, "sqlstate", state);
        log_text(&l, "message", PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY));
        log_end(&l);
        note_refusal(lane, state, PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY));
        if (c->error->manner == SQLSTATE_STOP)
            damaged(lane, state);
    }
    PQclear(r);
}

/* Its own sync has come. */
static void arrive(struct lane *lane, struct call *c)
{
    list_remove(&c->link);
    const struct sqlstate_row *error = c->error;
    bool leave = error && error->manner == SQLSTATE_LEAVE;
    if (error && error->manner == SQLSTATE_REPEAT && c->tries < TRIES_MAX && c->slot.waiter) {
        PQclear(c->result);
        c->result = NULL;
        c->error = NULL;
        c->doubtful = c->late = false;
        c->again_us = now_us() + 2000 + jitter(lane, (uint64_t)c->tries * 20000);
        list_append(&lane->resting, &c->link);
        return;
    }
    if (error)
        call_end(c, c->late ? error->late : error->reason);
    else if (c->doubtful && row_of(c)->writes)
        call_end(c, REASON_UNCERTAIN);
    else if (!c->result)
        call_end(c, REASON_ENGINE_FAULT);
    else {
        if (c->slot.waiter)
            c->decode(c, c->result);
        else
            metric_one(METRIC_LATE_ANSWERS);
        check(c->slot.waiter == NULL);
        call_free(c);
    }
    if (leave)
        lost(lane, "the server wants it so");
}

static void prepared(struct lane *lane, PGresult *r)
{
    ExecStatusType status = PQresultStatus(r);
    if (status == PGRES_FATAL_ERROR) {
        char why[256];
        snprintf(why, sizeof why, "cannot prepare (is the database migrated?): %s", PQresultErrorMessage(r));
        PQclear(r);
        lost(lane, why);
        return;
    }
    if (status == PGRES_TUPLES_OK)
        greeted(lane, r);
    PQclear(r);
    if (status == PGRES_PIPELINE_SYNC && ++lane->syncs == 2) {
        lane->state = LANE_READY;
        lane->failures = 0;
    }
}

/* Everything the server has said so far. */
static void hear(struct lane *lane)
{
    bool silence = false;
    while ((lane->state == LANE_PREPARING || lane->state == LANE_READY) && !PQisBusy(lane->conn)) {
        PGresult *r = PQgetResult(lane->conn);
        if (!r) {
            if (silence)    /* twice nothing: there is no more */
                return;
            silence = true;
            continue;
        }
        silence = false;
        if (lane->state == LANE_PREPARING) {
            prepared(lane, r);
            continue;
        }
        if (list_empty(&lane->flying)) {    /* a FATAL farewell between calls */
            PQclear(r);
            lost(lane, NULL);
            return;
        }
        struct call *c = list_entry(lane->flying.next, struct call, link);
        switch (PQresultStatus(r)) {
        case PGRES_TUPLES_OK: c->result = r; break;
        case PGRES_FATAL_ERROR: failed(lane, c, r); break;
        case PGRES_PIPELINE_SYNC: PQclear(r); arrive(lane, c); break;
        default: PQclear(r);
        }
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct lane *lane = poll->data;
    if (lane->state == LANE_CONNECTING) {
        connecting(lane);
        return;
    }
    if ((events & UV_READABLE) || status < 0) {
        bool whole = PQconsumeInput(lane->conn) == 1;
        hear(lane);    /* what came before the end still counts */
        if (lane->state == LANE_DOWN)
            return;
        if (!whole || PQstatus(lane->conn) == CONNECTION_BAD) {
            lost(lane, NULL);
            return;
        }
    }
    if ((lane->state == LANE_PREPARING || lane->state == LANE_READY) && flush(lane))
        pump(lane);
}

/* ---- time ------------------------------------------------------------------------------------------------------------------------ */

static void on_soon(uv_timer_t *timer)
{
    struct lane *lane = timer->data;
    lane_refuse(lane);
    pump(lane);
}

/* Ends what has waited too long in a list of calls that have not left. Waking may change the lists: one at a time, from the start. */
static void expire(struct lane *lane, struct link *list, uint64_t now)
{
    for (struct link *at = list->next; at != list;) {
        struct call *c = list_entry(at, struct call, link);
        at = at->next;
        if (now < c->due_us)
            continue;
        call_end(c, c->tries ? REASON_ENGINE_BUSY : lane->state == LANE_READY ? REASON_OVERLOADED : REASON_DEPENDENCY_DOWN);
        at = list->next;
    }
}

#define STALL_LEAST_MS 10000

/* How long the oldest call of a connection may be without an answer: as long as its lane says, and no longer than twice what such a call is given. */
static uint64_t stall_us(const struct call *c)
{
    uint64_t lane_ms = lane_rows[c->lane->kind].stall_ms, call_ms = 2 * (uint64_t)row_of(c)->budget_ms;
    if (call_ms < STALL_LEAST_MS)
        call_ms = STALL_LEAST_MS;
    return (call_ms < lane_ms ? call_ms : lane_ms) * 1000;
}

static void on_tick(uv_timer_t *timer)
{
    struct lane *lane = timer->data;
    uint64_t now = now_us();
    expire(lane, &lane->waiting, now);
    expire(lane, &lane->resting, now);
    for (struct link *at = lane->flying.next; at != &lane->flying; at = at->next) {
        struct call *c = list_entry(at, struct call, link);
        if (now >= c->due_us)
            slot_wake(&c->slot, REASON_TIMED_OUT, NULL);    /* the flight itself goes on */
    }
    for (struct link *at = lane->resting.next; at != &lane->resting;) {
        struct call *c = list_entry(at, struct call, link);
        at = at->next;
        if (now >= c->again_us) {
            list_remove(&c->link);
            list_append(&lane->waiting, &c->link);
        }
    }
    if (lane->state == LANE_DOWN && now >= lane->again_us)
        dial(lane);
    else if ((lane->state == LANE_CONNECTING || lane->state == LANE_PREPARING) && now > lane->since_us + CONNECT_US)
        lost(lane, "no connection in time");
    else if (!list_empty(&lane->flying) && now > list_entry(lane->flying.next, struct call, link)->sent_us + stall_us(list_entry(lane->flying.next, struct call, link)))
        lost(lane, "no answer in time");
    pump(lane);
    if (lane->state == LANE_READY && lane->calls == 0)
        uv_timer_stop(&lane->tick);
}

/* ---- life ------------------------------------------------------------------------------------------------------------------------- */

void lane_open(struct lane *all, const struct postgres_options *options, enum lane_kind kind, char *deployment)
{
    struct lane *lane = &all[kind];
    *lane = (struct lane){.options = options, .kind = kind, .all = all, .deployment = deployment, .jitter = uv_hrtime() | 1};
    list_init(&lane->waiting);
    list_init(&lane->flying);
    list_init(&lane->resting);
    list_init(&lane->ended);
    check(uv_timer_init(options->loop, &lane->tick) == 0 && uv_timer_init(options->loop, &lane->soon) == 0);
    lane->tick.data = lane->soon.data = lane;
    check(uv_timer_start(&lane->tick, on_tick, TICK_MS, TICK_MS) == 0);
    dial(lane);
}

void lane_shut(struct lane *lane)
{
    lane->closing = true;
    hang_up(lane);
    uv_timer_stop(&lane->tick);
    uv_timer_stop(&lane->soon);
    strand(lane);
}

bool lane_refuse(struct lane *lane)
{
    struct link refused;
    list_init(&refused);
    for (struct link *at; (at = list_take(&lane->ended));)
        list_append(&refused, at);
    bool any = !list_empty(&refused);
    for (struct link *at; (at = list_take(&refused));) {
        struct call *c = list_entry(at, struct call, link);
        call_end(c, c->ended);
    }
    return any;
}

void lane_close(struct lane *lane, uv_close_cb closed)
{
    check(lane->closing && lane->calls == 0);
    uv_close((uv_handle_t *)&lane->tick, closed);
    uv_close((uv_handle_t *)&lane->soon, closed);
}

/* SPDX-License-Identifier: Apache-2.0
 * ledger_plans.c: no statement of the ledger turns into a scan, whatever the planner knows or believes.
 *
 * Every call of call.def is made, with the settings of its lane, on an empty database, on a small one and on one with half a million rows; the statistics of the large one
 * are missing, of an empty table, right, or of another sale; and each is made on two connections: one that has planned everything on the empty tables and keeps
 * those plans, and one that plans now. Counted are the buffers that the call touches and the rows that it reads by sequential scans (pg_stat_get_xact_*,
 * exact within the transaction, which is rolled back). The bound of a call is a number for itself and a number for each of its items: it does not depend on the tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lane.h"
#include "buf.h"
#include "world_postgres.h"

#define ROWS "100000"       /* of each large table, in one sale */
#define SCANNED_MOST 300    /* rows read by sequential scans: of the tables of states, reasons and moves, which are so small */

static const char *const statements[] = {
#define CALL(name, lane, writes, budget, statement) [CALL_##name] = statement,
#include "call.def"
#undef CALL
};
static const char *const names[] = {
#define CALL(name, lane, writes, budget, statement) [CALL_##name] = #name,
#include "call.def"
#undef CALL
};
static const enum lane_kind lane_of[] = {
#define CALL(name, lane, writes, budget, statement) [CALL_##name] = LANE_##lane,
#include "call.def"
#undef CALL
};
static const char *const settings[] = {
#define LANE(name, flying, bound, stall, settings) [LANE_##name] = settings,
#include "lane.def"
#undef LANE
};

/* ---- what is asked ------------------------------------------------------------------------------------------------------------------- */

struct probe {
    enum call_kind kind;
    const char *what;
    int64_t most;        /* buffers */
    const char *before;  /* a statement of the same transaction; NULL: none */
    const char *given;   /* a query for the call's parameters, one column each; %A is the sale */
};

#define ITEMS(n, unit, user, request) "SELECT 'plans', 'me', '{}', '{}', '{}', '{}', '{}', '{}', array_agg('msg_" n "' || k), array_agg(" request "), array_agg('rsv_" n "' || k), " \
    "array_agg('%A'::text), array_agg('S'::text), array_agg(" user "), array_agg(" unit "), array_agg(1), array_agg(1), array_agg(1796083200000) FROM generate_series(1, 64) k"
#define PATIENT(items) "SELECT p.*, false FROM (" items ") p"
#define HURRY(items) "SELECT p.*, true FROM (" items ") p"
#define STOOD "SELECT 'plans', 'me', '{}', '{}', '{}', '{}', '{}', '{}', array_agg('msg_%A_' || k), array_agg('q' || k), array_agg('rsv_%A_' || k), array_agg('%A'::text), " \
    "array_agg('S'::text), array_agg('u' || k), array_agg(" FIRST " + k), array_agg(1), array_agg(1), array_agg(1796083200000), false FROM generate_series(90, 5760, 90) k"
#define FIRST "(SELECT unit_first FROM activity_sku WHERE activity_id = '%A' AND sku_id = 'S')"
#define FREE "(SELECT unit_first + stock - 1000 FROM activity_sku WHERE activity_id = '%A' AND sku_id = 'S')"
#define MESSAGE "SELECT 'plans', 'me', NULL, NULL, NULL, NULL, NULL, NULL, 'rsv_p1', 'x', 'POISON', 'msg_p1', 'q_p1', 'rsv_p1', '%A', 'S', 'u_p1', " FIRST ", 1, 1, 1796083200000"
#define RELEASED(id, unit, user) "SELECT array_agg('q_r' || k), array_agg(" id "), array_agg('%A'::text), array_agg('S'::text), array_agg(" user "), array_agg(" unit "), array_agg(1), array_agg(1), " \
    "array_agg(1796083200000), array_agg('OVERDUE'::text) FROM generate_series(1, 64) k"
#define PAID(order, payment) "SELECT array_agg('w' || k), array_agg(sha256(convert_to(k::text, 'UTF8'))), array_agg('x'::bytea), array_agg('rsv_%A_' || k * 1500), array_agg(" payment "), " \
    "array_agg(" order "), array_agg('SUCCESS'::text), array_agg(100), array_agg('CNY'::text), array_agg('card'::text), array_agg(1796083200000) FROM generate_series(1, 64) k"
#define RESOLVE(review, decision) "SELECT " review ", '" decision "', 'me', 'why', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"
#define LOST(after_ms) "SELECT 'plans-lost', 'rsv_lost', '%A', 'S', 'u9000', 1, 1796083200000, " after_ms
#define CALM "UPDATE outbox SET heals = NULL WHERE activity_id = '%A' AND heals;"
#define HEAL "SELECT '%A', 1, 3, 'life/1', 'life', 500"
#define WALK(step, user, unit) "INSERT INTO recovery_walk (activity_id, epoch, lap, step, after_user, after_unit) VALUES ('%A', 1, 7, " step ", '" user "', " unit "); " \
    "UPDATE bucket SET mark = 'life/1', step = 'WALK', from_lap = 7 WHERE activity_id = '%A'"

static const struct probe probes[] = {
    {CALL_place, "64 new", 10000, NULL, PATIENT(ITEMS("new", FREE " + k", "'v' || k", "'q_new' || k"))},
    {CALL_place, "64 that stand", 12000, NULL, STOOD},
    {CALL_place, "64 of users that have theirs", 18000, NULL, PATIENT(ITEMS("again", FREE " + k", "'u' || k * 1500", "'q_again' || k"))},
    {CALL_place, "64 requests that are decided", 16000, NULL, PATIENT(ITEMS("same", FIRST " + k * 1500", "'u' || k * 1500", "'q' || k * 1500"))},
    {CALL_place, "64 in a hurry", 12000, NULL, HURRY(ITEMS("soon", FREE " + k", "'v' || k", "'q_soon' || k"))},
    {CALL_release, "64 new", 10000, NULL, RELEASED("'rsv_rel' || k", FREE " + k", "'v' || k")},
    {CALL_release, "64 that stand", 8000, NULL, RELEASED("'rsv_%A_' || k * 1500", FIRST " + k * 1500", "'u' || k * 1500")},
    {CALL_park, "a message", 200, NULL, MESSAGE},
    {CALL_lease, "16 queues", 600, NULL, "SELECT 'plans', 'me', array_agg('b'::text), array_agg('t'::text), array_agg(k), array_agg(0), array_agg(1796083200000) FROM generate_series(0, 15) k"},
    {CALL_claim, "256", 12000, NULL, "SELECT 256, 10000"},
    {CALL_claim, "256 after many orders", 12000, "INSERT INTO outbox (key, kind, activity_id, generation, reservations) SELECT 'ORDERS:x', 'ORDERS', '%A', 64, "
        "array_agg('rsv_%A_' || k * 1500) FROM generate_series(1, 64) k", "SELECT 256, 10000"},
    {CALL_claim, "256 when all were tried", 16000, "UPDATE outbox SET claimed_until = now() WHERE outbox_id IN (SELECT outbox_id FROM outbox ORDER BY outbox_id LIMIT 256)", "SELECT 256, 10000"},
    {CALL_finish, "256", 12000, NULL, "SELECT coalesce(array_agg(outbox_id), '{1}'), coalesce(array_agg(version), '{1}') FROM (SELECT outbox_id, version FROM outbox WHERE activity_id = '%A' ORDER BY outbox_id LIMIT 256) b"},
    {CALL_look, "an ordered reservation", 60, NULL, "SELECT 'RESERVATION', 'rsv_%A_9000', '', ''"},
    {CALL_look, "an ordered request", 80, NULL, "SELECT 'REQUEST', 'q9000', '%A', 'u9000'"},
    {CALL_look, "a released request", 80, NULL, "SELECT 'REQUEST', 'q_gone9000', '%A', 'u_gone9000'"},
    {CALL_look, "an unknown request", 80, NULL, "SELECT 'REQUEST', 'q_none', '%A', 'u_none'"},
    {CALL_look, "an order", 80, NULL, "SELECT 'ORDER', 'ord_%A_9000', '', 'u9000'"},
    {CALL_decided, "256", 3000, NULL, "SELECT array_agg('rsv_%A_' || k * 300) FROM generate_series(1, 256) k"},
    {CALL_backlog, "of a recovered sale", 200, "UPDATE bucket SET begun_at = now() WHERE activity_id = '%A'", "SELECT 'plans', '%A'"},
    {CALL_release_lost, "asked for first", 200, NULL, LOST("0")},
    {CALL_release_lost, "decided", 600, "INSERT INTO lost_question VALUES ('%A', 'u9000', 'rsv_lost', now() - interval '1 hour'); "
        "INSERT INTO consumer_offset (consumer_group, broker, topic, queue, next, caught_up_at) VALUES ('plans-lost', 'b', 't', 0, 0, now())", LOST("0")},
    {CALL_release_lost, "of a verdict that stands", 100, NULL, "SELECT 'plans-lost', 'rsv_%A_9000', '%A', 'S', 'u9000', 1, 1796083200000, 0"},
    {CALL_prove, "a small write", 100, NULL, "SELECT 3"},
    {CALL_activity_create, "a new one", 2000, NULL, "SELECT 'fresh', 'title', 4, 1000, 4000000000000, 900, false, '{S}', '{100}', '{1}', '{CNY}', 'me', 'why'"},
    {CALL_activity_move, "one step", 200, NULL, "SELECT '%A', 'WARM', 0, 'me', 'why'"},
    {CALL_activities, "the working set, two looked up, a page", 12000, NULL, "SELECT true, '{%A,none}'::text[], '{1,4000}'::integer[], " FIRST " + 3, 0, 256"},
    {CALL_activities, "one", 400, NULL, "SELECT false, '{%A}'::text[], '{}'::integer[], 0, 0, 0"},
    {CALL_retire, "a closed one", 6000, "UPDATE activity SET state = 'CLOSED' WHERE activity_id = '%A'", "SELECT '%A', true, 'me'"},
    {CALL_units, "1000 of all", 20000, NULL, "SELECT '%A', " FIRST " + 1000, -1, false, 1000"},
    {CALL_units, "1000 of a bucket", 20000, NULL, "SELECT '%A', 0, 3, false, 1000"},
    {CALL_units, "1000 available ones", 20000, NULL, "SELECT '%A', 0, 3, true, 1000"},
    {CALL_heal, "orders", 14000, CALM WALK("0", "", "0"), HEAL},
    {CALL_heal, "released ones", 14000, CALM WALK("1", "u_gone3", "0"), HEAL},
    {CALL_heal, "units", 14000, CALM WALK("2", "", FIRST " + 4000"), HEAL},
    {CALL_heal, "what is undelivered", 8000, WALK("2", "", "0"), HEAL},
    {CALL_repair, "64", 6000, NULL, "SELECT '%A', array_agg(" FIRST " + " ROWS " + k), array_agg(1), array_agg(k % 2) FROM generate_series(1, 64) k"},
    {CALL_record, "a bucket", 60, NULL, "SELECT '%A', 1, 3, 'life'"},
    {CALL_pay, "64 orders", 8000, NULL, PAID("'ord_%A_' || k * 1500", "'new' || k")},
    {CALL_pay, "64 paid before", 8000, NULL, PAID("'ord_%A_' || k * 1000", "'pay_%A_' || k * 1000")},
    {CALL_callback, "one", 100, NULL, "SELECT 'hook', '', sha256('x'::bytea), 'x'::bytea"},
    {CALL_defer, "64", 6000, "UPDATE outbox SET kind = 'REFUND', subject = 'pay_%A_1000' WHERE outbox_id = ANY (ARRAY(SELECT outbox_id FROM outbox ORDER BY outbox_id LIMIT 64))",
     "SELECT coalesce(array_agg(outbox_id), '{1}'), coalesce(array_agg(version), '{1}'), coalesce(array_agg('ENGINE_REFUSED'::text), '{REFUND_PENDING}') FROM (SELECT outbox_id, version FROM outbox ORDER BY outbox_id LIMIT 64) b"},
    {CALL_cancel, "64", 12000, NULL, "SELECT array_agg('ord_%A_' || k * 1500), array_agg('u' || k * 1500), false, 'CANCELED' FROM generate_series(1, 64) k"},
    {CALL_cancel, "64 overdue", 12000, NULL, "SELECT array_agg('ord_%A_' || k), array_agg(''::text), true, 'PAY_TIMEOUT' FROM generate_series(101, 6400, 100) k"},
    {CALL_overdue, "256", 3000, NULL, "SELECT 256, 1000, 0, ''"},
    {CALL_overdue, "256 from a place on", 3000, NULL, "SELECT 256, 1000, (extract(epoch FROM now()) * 1000000)::bigint - 7200000000, 'ord_5'"},
    {CALL_reviews, "64 open ones", 1000, NULL, "SELECT '', false, 0, 64"},
    {CALL_reviews, "64 of all", 1000, NULL, "SELECT '', true, 0, 64"},
    {CALL_reviews, "one", 500, NULL, "SELECT 'rev_%A_4000', false, 0, 1"},
    {CALL_resolve, "a reservation, again", 400, NULL, RESOLVE("'rev_%A_3000'", "RETRY")},
    {CALL_resolve, "a reservation, dismissed", 200, NULL, RESOLVE("'rev_%A_3000'", "DISMISS")},
    {CALL_resolve, "money, back", 200, NULL, RESOLVE("'rev_%A_4000'", "RELEASE")},
    {CALL_story, "of a unit", 400, NULL, "SELECT 'UNIT', '', " FIRST " + 9000, '', 256"},
    {CALL_story, "of a reservation", 400, NULL, "SELECT 'RESERVATION', 'rsv_%A_9000', 0, '', 256"},
    {CALL_story, "of an order", 400, NULL, "SELECT 'ORDER', 'ord_%A_9000', 0, '', 256"},
    {CALL_story, "of a payment", 400, NULL, "SELECT 'PAYMENT', 'pay_%A_9000', 0, '', 256"},
    {CALL_story, "of a user in a sale", 600, NULL, "SELECT 'USER', 'u9000', 0, '%A', 256"},
    {CALL_story, "of a user", 40000, NULL, "SELECT 'USER', 'u9000', 0, '', 256"},    /* a few for each SKU there ever was: 2,003 here */
};

/* ---- connections ------------------------------------------------------------------------------------------------------------------------ */

static PGconn *control;    /* a superuser's, who fills the tables and says what is asked */

static PGresult *run(PGconn *conn, const char *statement)
{
    PGresult *r = PQexec(conn, statement);
    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", statement, PQresultErrorMessage(r));
    return r;
}

static PGconn *connect_with(const char *options)
{
    const char *keys[] = {"dbname", "options", NULL}, *values[] = {postgres_world_url(), options, NULL};
    PGconn *conn = PQconnectdbParams(keys, values, 1);
    assert_int_equal(PQstatus(conn), CONNECTION_OK);
    return conn;
}

/* name=value words as options. */
static void write_options(const char *words, char *out, size_t size)
{
    char copy[512];
    snprintf(copy, sizeof copy, "%s", words);
    out[0] = 0;
    for (char *rest, *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        snprintf(out + strlen(out), size - strlen(out), " -c %s", word);
}

/* A connection for each lane, with its settings and all its calls prepared, as lane.c does. */
struct prober {
    const char *name;
    PGconn *conn[LANE_KINDS];
};

static struct prober prober_open(const char *name)
{
    struct prober p = {.name = name};
    for (int k = 0; k < LANE_KINDS; k++) {
        char options[1024], words[512];
        snprintf(words, sizeof words, "search_path=seckill jit=off client_min_messages=error %s statement_timeout=60000", settings[k]);
        write_options(words, options, sizeof options);
        p.conn[k] = connect_with(options);
        for (int c = 0; c < CALL_KINDS; c++)
            if ((int)lane_of[c] == k)
                PQclear(PQprepare(p.conn[k], names[c], statements[c], 0, NULL));
    }
    return p;
}

static void prober_close(struct prober *p)
{
    for (int k = 0; k < LANE_KINDS; k++)
        PQfinish(p->conn[k]);
}

struct cost {
    int64_t buffers, scanned;
};
static struct cost cost_now(PGconn *conn)
{
    PGresult *r = run(conn, "SELECT sum(pg_stat_get_xact_blocks_fetched(c.oid)), sum(CASE c.relkind WHEN 'r' THEN pg_stat_get_xact_tuples_returned(c.oid) ELSE 0 END) "
                            "FROM pg_class c WHERE c.relnamespace = 'seckill'::regnamespace AND c.relkind IN ('r', 'i')");
    struct cost c = {atoll(PQgetvalue(r, 0, 0)), atoll(PQgetvalue(r, 0, 1))};
    PQclear(r);
    return c;
}

/* The text with `word` in the place of each %A. */
static const char *about(const char *text, const char *word)
{
    static char out[8192];
    struct buf b = buf_fixed(out, sizeof out - 1);
    for (const char *at = text; *at; at++) {
        bool here = at[0] == '%' && at[1] == 'A';
        if (here)
            buf_add_str(&b, str_of(word));
        else
            buf_add_char(&b, *at);
        at += here;
    }
    assert_true(buf_ok(&b));
    out[buf_str(&b).len] = 0;
    return out;
}
static void control_do(const char *text, const char *word) { PQclear(run(control, about(text, word))); }

static struct cost cost_of(const struct prober *p, const struct probe *q, const char *sale)
{
    PGconn *conn = p->conn[lane_of[q->kind]];
    PGresult *given = run(control, about(q->given, sale));
    const char *values[PARAMS_MAX];
    int count = PQnfields(given);
    for (int i = 0; i < count; i++)
        values[i] = PQgetisnull(given, 0, i) ? NULL : PQgetvalue(given, 0, i);
    PQclear(run(conn, "BEGIN"));
    if (q->before)
        PQclear(run(conn, about(q->before, sale)));
    struct cost before = cost_now(conn);
    PGresult *r = PQexecPrepared(conn, names[q->kind], count, values, NULL, NULL, 0);
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s %s: %s", names[q->kind], q->what, PQresultErrorMessage(r));
    struct cost after = cost_now(conn);
    PQclear(r);
    PQclear(given);
    PQclear(run(conn, "ROLLBACK"));
    return (struct cost){after.buffers - before.buffers, after.scanned - before.scanned};
}

static int64_t highest[countof(probes)];
static unsigned judge(const struct prober *p, const char *tables, const char *sale)
{
    unsigned broken = 0;
    for (size_t i = 0; i < countof(probes); i++) {
        struct cost c = cost_of(p, &probes[i], sale);
        highest[i] = c.buffers > highest[i] ? c.buffers : highest[i];
        if (c.buffers <= probes[i].most && c.scanned <= SCANNED_MOST)
            continue;
        broken++;
        print_error("%s, %s, tables %s, %s: %lld buffers of %lld, %lld rows scanned of %d\n", names[probes[i].kind], probes[i].what, tables, p->name,
                    (long long)c.buffers, (long long)probes[i].most, (long long)c.scanned, SCANNED_MOST);
    }
    return broken;
}

/* ---- the tables ---------------------------------------------------------------------------------------------------------------------------- */

static const char *const large[] = {"orders", "consumer_inbox", "inventory_token", "inventory_journal", "outbox", "compensation", "payment_record", "payment_webhook", "review", "activity_sku"};
static void each_large(const char *statement)
{
    for (size_t i = 0; i < countof(large); i++)
        control_do(statement, large[i]);
}

/* A sale of `rows` orders, of which each tenth is paid, each hundredth overdue, and of a tenth as many reservations that were released; beside them 2048 units
 * that are AVAILABLE. */
static const char *const sale_tables[] = {
    "INSERT INTO activity (activity_id, number, title, buckets, state, starts_at, ends_at, pay_timeout_s, qualification) "
        "SELECT '%A', coalesce(max(number), 0) + 1, 't', 16, 'DRAFT', now(), now() + interval '1 day', 900, false FROM activity",
    "INSERT INTO activity_sku (activity_id, sku_id, place, stock, unit_first, price, currency) "
        "SELECT '%A', 'S', 1, (SELECT n FROM size) + 2048, coalesce(max(unit_first + stock), 1), 100, 'CNY' FROM activity_sku",
    "INSERT INTO inventory_token (unit, activity_id, sku_id, bucket, status, reservation_id, consumed_at) "
        "SELECT s.unit_first + k, '%A', 'S', k % 16, CASE WHEN k <= n THEN 'CONSUMED' ELSE 'AVAILABLE' END, CASE WHEN k <= n THEN 'rsv_%A_' || k END, now() "
        "FROM size, activity_sku s, generate_series(0, s.stock - 1) k WHERE s.activity_id = '%A'",
    "INSERT INTO orders (order_id, request_id, reservation_id, activity_id, sku_id, user_id, unit, generation, amount, currency, status, payment_id, paid_at, pay_deadline) "
        "SELECT 'ord_%A_' || k, 'q' || k, 'rsv_%A_' || k, '%A', 'S', 'u' || k, s.unit_first + k, 1, 100, 'CNY', CASE WHEN k % 10 = 0 AND k % 1500 > 0 THEN 'PAID' ELSE 'CREATED' END, "
        "CASE WHEN k % 10 = 0 AND k % 1500 > 0 THEN 'pay_%A_' || k END, CASE WHEN k % 10 = 0 AND k % 1500 > 0 THEN now() END, now() + CASE WHEN k % 100 = 1 THEN interval '-1 hour' ELSE interval '1 hour' END "
        "FROM size, activity_sku s, generate_series(0, n) k WHERE s.activity_id = '%A'",
    "INSERT INTO consumer_inbox (reservation_id, consumer_group, message_id, activity_id, sku_id, user_id, request_id, unit, generation, epoch, outcome) "
        "SELECT 'rsv_%A_' || k, 'plans', 'msg_%A_' || k, '%A', 'S', 'u' || k, 'q' || k, s.unit_first + k, 1, 1, 'ORDERED' "
        "FROM size, activity_sku s, generate_series(0, n) k WHERE s.activity_id = '%A'",
    "INSERT INTO consumer_inbox (reservation_id, consumer_group, activity_id, sku_id, user_id, request_id, unit, generation, epoch, outcome, reason, raised) "
        "SELECT 'rsv_%A_gone' || k, 'seckill-decision', '%A', 'S', 'u_gone' || k, 'q_gone' || k, s.unit_first + k, 1, 1, 'RELEASED', 'OVERDUE', 2 "
        "FROM size, activity_sku s, generate_series(0, n, 10) k WHERE s.activity_id = '%A'",
    "INSERT INTO inventory_journal (unit, generation, change, delta, reservation_id) "
        "SELECT s.unit_first + k, 1, 'CONSUMED', -1, 'rsv_%A_' || k FROM size, activity_sku s, generate_series(0, n) k WHERE s.activity_id = '%A'",
    "INSERT INTO compensation (compensation_id, reservation_id, compensation_type, schema_version, unit, generation) "
        "SELECT 'cmp_%A_' || k, 'rsv_%A_gone' || k, 'RETURN_UNIT', 1, s.unit_first + k, 7 FROM size, activity_sku s, generate_series(0, n, 10) k WHERE s.activity_id = '%A'",
    "INSERT INTO outbox (key, kind, activity_id, reservation_id, unit, generation, subject, heals) "
        "SELECT kind || ':%A_' || k, kind, '%A', 'rsv_%A_' || k, s.unit_first + k, 7, CASE kind WHEN 'EVENT' THEN 'ORDER_CREATED' END, CASE WHEN k % 100 = 0 THEN true END "
        "FROM size, activity_sku s, generate_series(0, n) k, LATERAL (SELECT CASE k % 3 WHEN 0 THEN 'STATUS' WHEN 1 THEN 'EVENT' ELSE 'RETURN' END AS kind) o WHERE s.activity_id = '%A'",
    "INSERT INTO payment_record (payment_id, order_id, result, amount, currency, channel, occurred_at, disposition) "
        "SELECT 'pay_%A_' || k, 'ord_%A_' || k, 'SUCCESS', 100, 'CNY', 'card', now(), CASE WHEN k % 1500 > 0 THEN 'PAYMENT_APPLIED' ELSE 'PAYMENT_QUARANTINED' END FROM size, generate_series(0, n, 10) k",
    "INSERT INTO payment_webhook (webhook_id, body_hash, payment_id, order_id, result, amount, currency, verdict) "
        "SELECT 'hook_%A_' || k, sha256('x'), 'pay_%A_' || k, 'ord_%A_' || k, 'SUCCESS', 100, 'CNY', 'PAYMENT_APPLIED' FROM size, generate_series(0, n, 10) k",
    "INSERT INTO review (review_id, kind, reason, status, consumer_group, body, reservation_id, message_id, activity_id, sku_id, user_id, request_id, unit, generation, epoch, "
        "payment_id, order_id, result, amount, currency, channel, decision, resolved_at, actor, note) "
        "SELECT 'rev_%A_' || k, CASE WHEN money THEN 'PAYMENT' ELSE 'RESERVATION' END, 'POISON', CASE WHEN k % 1000 = 0 THEN 'OPEN' ELSE 'RESOLVED' END, 'plans', 'x', "
        "CASE WHEN NOT money THEN 'rsv_%A_' || k END, 'msg_%A_' || k, '%A', 'S', 'u' || k, 'q' || k, s.unit_first + k, 1, 1, CASE WHEN money THEN 'pay_%A_' || k END, "
        "CASE WHEN money THEN 'ord_%A_' || k END, 'SUCCESS', 100, 'CNY', 'card', CASE WHEN k % 1000 > 0 THEN 'DISMISS' END, CASE WHEN k % 1000 > 0 THEN now() END, 'me', 'why' "
        "FROM size, activity_sku s, generate_series(0, n, 20) k, LATERAL (SELECT k % 2000 < 1000 AS money) m WHERE s.activity_id = '%A'",
    "INSERT INTO bucket (activity_id, epoch, bucket) SELECT '%A', 1, k FROM generate_series(0, 15) k",
};

static void fill(const char *sale, const char *rows)
{
    control_do("CREATE OR REPLACE TEMP VIEW size AS SELECT %A AS n", rows);
    for (size_t i = 0; i < countof(sale_tables); i++)
        control_do(sale_tables[i], sale);
}

/* As many past sales of three SKUs as there may be in a year. */
static void past_sales(void)
{
    control_do("INSERT INTO activity (activity_id, number, title, buckets, state, starts_at, ends_at, pay_timeout_s, qualification, retired_at) "
               "SELECT 'past_' || k, k + 1, 't', 16, 'CLOSED', now(), now() + interval '1 day', 900, false, now() FROM generate_series(1, 2000) k", "");
    control_do("INSERT INTO activity_sku (activity_id, sku_id, place, stock, unit_first, price, currency) "
               "SELECT 'past_' || a, 's' || k, k, 1, 10000 + a * 3 + k, 100, 'CNY' FROM generate_series(1, 2000) a, generate_series(1, 3) k", "");
}

static void no_call_ever_scans_a_table(void **state)
{
    (void)state;
    control = connect_with("-c search_path=seckill -c client_min_messages=error -c session_replication_role=replica");
    unsigned broken = 0;
    each_large("ALTER TABLE %A SET (autovacuum_enabled = false)");
    fill("none", "-1");
    struct prober old = prober_open("planned when the tables were empty");
    for (int i = 0; i < 7; i++)    /* so that the plans of every lane are made and kept */
        broken += judge(&old, "empty", "none");
    past_sales();
    fill("few", "6000");
    struct prober small = prober_open("planned when the tables were small");
    for (int i = 0; i < 7; i++)
        broken += judge(&small, "small", "few");
    fill("old", ROWS);
    broken += judge(&old, "large, never analysed", "old") + judge(&small, "large, never analysed", "old");
    struct prober now = prober_open("planned without statistics");
    broken += judge(&now, "large, never analysed", "old");
    prober_close(&now);

    /* What ANALYZE of the empty table leaves, and VACUUM of one that it could not cut. */
    each_large("UPDATE pg_class SET reltuples = 0, relpages = 0 WHERE oid = '%A'::regclass");
    now = prober_open("planned by the statistics of empty tables");
    broken += judge(&now, "large, analysed when empty", "old");
    prober_close(&now);
    each_large("UPDATE pg_class SET reltuples = 0, relpages = 100 WHERE oid = '%A'::regclass");
    now = prober_open("planned by the statistics of emptied tables");
    broken += judge(&now, "large, vacuumed when empty", "old");
    prober_close(&now);

    control_do("ANALYZE", "");
    fill("new", "30000");
    now = prober_open("planned by the statistics of another sale");
    broken += judge(&now, "large, analysed before the sale", "new") + judge(&old, "large, analysed before the sale", "new");
    prober_close(&now);
    control_do("ANALYZE", "");
    now = prober_open("planned by good statistics");
    broken += judge(&now, "large, analysed", "new") + judge(&now, "large, analysed", "old");
    prober_close(&now);

    each_large("DELETE FROM %A");
    each_large("VACUUM %A");
    fill("few_again", "6000");
    now = prober_open("planned by the statistics of full tables");
    broken += judge(&now, "small, analysed when full", "few_again");
    prober_close(&now);
    prober_close(&old);
    prober_close(&small);
    PQfinish(control);
    if (getenv("SECKILL_TEST_VERBOSE"))
        for (size_t i = 0; i < countof(probes); i++)
            print_message("%s, %s: %lld buffers at most\n", names[probes[i].kind], probes[i].what, (long long)highest[i]);
    assert_int_equal(broken, 0);
}

/* Only what reads whole sales by its nature is not held to this. */
static void every_call_has_a_bound(void **state)
{
    (void)state;
    for (int c = 0; c < CALL_KINDS; c++) {
        bool probed = c == CALL_audit;
        for (size_t i = 0; i < countof(probes); i++)
            probed |= (int)probes[i].kind == c;
        if (!probed)
            fail_msg("%s has no bound here", names[c]);
    }
}

int main(void)
{
    world = world_open();
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_call_has_a_bound), cmocka_unit_test(no_call_ever_scans_a_table)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    world->close(world);
    return failed;
}

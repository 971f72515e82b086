/* SPDX-License-Identifier: Apache-2.0
 * What only a real PostgreSQL can show: that the database itself refuses what the functions never do, that the audit finds a planted
 * fault of each rule, and what an answer means that is late, lost, doubtful or wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "postgres.h"
#include "sql.h"
#include "words.h"
#include "world_postgres.h"

#define assert_sql(statement, want) do { \
        struct str got_ = sql(statement); \
        if (!str_eq(got_, str_of(want))) \
            fail_msg("%s\n  gave " STR_FMT ", not %s", (statement), STR_ARG(got_), (want)); } while (0)

/* ---- migrations ---- */

static char said[4096];
static void hear(void *arg, const char *line)
{
    (void)arg;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
}
static enum reason migrate(void)
{
    said[0] = 0;
    return postgres_migrate(postgres_world_url(), 60000, hear, NULL);
}

static void a_migration_is_applied_once_and_may_not_change(void **state)
{
    (void)state;
    assert_int_equal(migrate(), REASON_OK);
    assert_string_equal(said, "");    /* nothing left to do */
    sql_done("UPDATE schema_migration SET checksum = 'old' || substr(checksum, 4) WHERE name = 'place'");
    assert_int_equal(migrate(), REASON_OK);
    assert_non_null(strstr(said, "applied again place"));
    sql_done("UPDATE schema_migration SET checksum = 'old' || substr(checksum, 4) WHERE name = '0001_ledger'");
    assert_int_equal(migrate(), REASON_CONFLICT);
    assert_non_null(strstr(said, "0001_ledger"));
    assert_non_null(strstr(said, "may never change"));
    sql_done("DELETE FROM schema_migration WHERE name = '0001_ledger'");    /* and applied over itself it fails, changing nothing */
    assert_int_equal(migrate(), REASON_ENGINE_REFUSED);
    sql_done("INSERT INTO schema_migration SELECT '9999_future', 'NUMBERED', 'x'");
    assert_int_equal(migrate(), REASON_CONFLICT);
    assert_non_null(strstr(said, "9999_future"));
    assert_int_equal(postgres_migrate("host=127.0.0.1 port=1 connect_timeout=2", 60000, hear, NULL), REASON_DEPENDENCY_DOWN);
    sql_done("DELETE FROM schema_migration WHERE name = '9999_future'");
}

/* It says who holds what it waits for, gives up in time, and has then changed nothing. */
static void a_migration_that_waits_says_for_whom(void **state)
{
    (void)state;
    static const struct {
        const char *take, *give_back, *said;
    } locks[] = {
        {"SELECT pg_advisory_lock(hashtextextended('seckill-migrate', 0))", "SELECT pg_advisory_unlock_all()", "waiting for the migration lock of pid "},
        {"BEGIN; LOCK TABLE schema_migration IN ACCESS EXCLUSIVE MODE", "COMMIT", "waiting for a lock, perhaps that of the transaction of pid "},
    };
    sql_done("SET application_name = 'by hand'");
    const char *pid = sql("SELECT pg_backend_pid()").ptr;
    sql_done("UPDATE schema_migration SET checksum = 'old' || substr(checksum, 4) WHERE name = 'place'");
    for (size_t i = 0; i < countof(locks); i++) {
        said[0] = 0;
        sql_done(locks[i].take);
        assert_int_equal(postgres_migrate(postgres_world_url(), 1500, hear, NULL), REASON_ENGINE_BUSY);
        sql_done(locks[i].give_back);
        char expected[160];
        snprintf(expected, sizeof expected, "%s%s (by hand, from this machine, since ", locks[i].said, pid);
        assert_non_null(strstr(said, expected));
        assert_non_null(strstr(said, "gave up: nothing more was changed"));
        assert_null(strstr(said, "applied"));
    }
    assert_int_equal(migrate(), REASON_OK);
    assert_non_null(strstr(said, "applied again place"));
}

static void the_tables_of_moves_are_the_spec(void **state)
{
    (void)state;
    size_t moves = 0;
    for (unsigned from = 0; from < ORDER_STATE_COUNT; from++)
        for (unsigned to = 0; to < ORDER_STATE_COUNT; to++) {
            bool may = order_may_move((enum order_state)from, (enum order_state)to);
            moves += may;
            struct str statement = words("SELECT count(*) FROM order_transition WHERE from_state = '%s' AND to_state = '%s'%c",
                                         order_state_name((enum order_state)from), order_state_name((enum order_state)to), 0);
            assert_sql(statement.ptr, may ? "1" : "0");
        }
    assert_sql("SELECT count(*) FROM order_transition", words("%zu%c", moves, 0).ptr);
    assert_sql("SELECT count(*) FROM reason", words("%d%c", REASON_COUNT, 0).ptr);
    assert_sql("SELECT string_agg(state, ' ' ORDER BY state) FROM order_state WHERE NOT holds_stock", "CANCELED");    /* as the index uq_orders_unit_held says */
}

/* ---- recovery ---- */

static void keep_heal(struct seen *s, const void *result) { *(struct heal_answer *)s->into = *(const struct heal_answer *)result; }
static struct heal_answer heal(const struct activity *a, uint8_t bucket, const char *mark)
{
    struct heal_answer h = {0};
    struct seen seen = SEEN(.keep = keep_heal, .into = &h);
    struct heal_ask ask = {.bucket = {a->activity, 1, bucket}, .mark = str_of(mark), .incarnation = str_lit("life-2"), .limit = 500};
    ledger_heal(world->ledger, &ask, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return h;
}

/* Sixteen buckets that are closed at one moment: each unit is looked at once, not once for each bucket; nothing more is queued while much is undelivered, so that the
 * outbox stays as small as it was. */
static void a_recovery_looks_at_each_unit_once(void **state)
{
    (void)state;
    enum { BUCKETS = 16, UNITS = 20000 };
    bool healed[BUCKETS] = {false};
    finish_all();
    shop("walked", UNITS, 1, BUCKETS);
    struct activity a = {.activity = str_lit("walked")};
    int64_t most = 0;
    unsigned calls = 0;
    for (unsigned open = BUCKETS; open > 0;) {
        for (uint8_t b = 0; b < BUCKETS; b++) {
            if (healed[b])
                continue;
            healed[b] = heal(&a, b, "life-2/1").healed;
            open -= healed[b];
            assert_true(++calls < 2000);
        }
        int64_t waits = sql_number("SELECT count(*) FROM outbox");
        most = waits > most ? waits : most;
        if (calls > 100)
            finish_all();
    }
    assert_sql("SELECT visited FROM recovery_walk WHERE activity_id = 'walked'", "20001");
    assert_sql("SELECT sum(told) FROM bucket WHERE activity_id = 'walked'", "20001");
    assert_true(most >= 16 && most <= 40);    /* 4096 and one slice more, 128 a row */
    assert_sql("SELECT count(*) FROM bucket WHERE activity_id = 'walked' AND incarnation = 'life-2'", "16");
    /* one that comes while others are under way joins them where they are, and is told what it has missed in the next lap */
    heal(&a, 0, "life-2/2");
    for (int i = 0; i < 6; i++)
        heal(&a, 0, "life-2/2");
    heal(&a, 1, "life-2/2");
    assert_sql("SELECT from_unit > 0 AND from_lap > 0 FROM bucket WHERE activity_id = 'walked' AND bucket = 1", "t");
    for (calls = 0; !heal(&a, 0, "life-2/2").healed || !heal(&a, 1, "life-2/2").healed; finish_all())
        assert_true(++calls < 500);
    assert_sql("SELECT string_agg((told >= 1250)::text, ' ') FROM bucket WHERE activity_id = 'walked' AND bucket < 2", "true true");
    assert_sql("SELECT visited < 20001 + 2 * 20001 FROM recovery_walk WHERE activity_id = 'walked'", "t");
}

/* ---- rows that another transaction holds ---- */

/* Every unit of the first 256 overdue orders is held: the sweep's looks go on behind them, and those that are free are cancelled. */
static void the_sweep_steps_past_held_rows(void **state)
{
    (void)state;
    enum { HELD = 256, FREE = 34 };
    struct activity a = shop("swept", HELD + FREE, 1, 1);
    for (size_t from = 0; from < HELD + FREE; from += 145) {
        struct create_order orders[145];
        for (size_t i = 0; i < 145; i++)
            orders[i] = item(&a, "S", words("u%zu%c", from + i, 0).ptr, "q", words("%zu%c", from + i, 0).ptr, s_unit(&a, (int64_t)(from + i), 1));
        assert_int_equal(place(orders, 145).reason, REASON_OK);
    }
    sql_done("UPDATE orders SET pay_deadline = now() - interval '1 hour' + CASE WHEN unit < (SELECT unit_first + 256 FROM activity_sku WHERE activity_id = 'swept' AND sku_id = 'S') "
             "THEN interval '0' ELSE interval '1 minute' END WHERE activity_id = 'swept'");
    sql_done("BEGIN; SELECT FROM inventory_token WHERE activity_id = 'swept' AND sku_id = 'S' AND unit < (SELECT unit_first + 256 FROM activity_sku WHERE activity_id = 'swept' AND sku_id = 'S') FOR UPDATE");
    size_t fresh = 0, busy = 0, looks = 0;
    struct overdues due = overdue_after(NULL, LEDGER_BATCH_MAX);
    for (; due.count > 0; due = overdue_after(&due.orders[due.count - 1], LEDGER_BATCH_MAX)) {
        struct cancel_item items[LEDGER_BATCH_MAX];
        for (size_t i = 0; i < due.count; i++)
            items[i] = (struct cancel_item){.order = due.orders[i].order};
        struct canceled c = cancel(items, due.count, true, REASON_PAY_TIMEOUT);
        assert_int_equal(c.reason, REASON_OK);
        for (size_t i = 0; i < c.count; i++) {
            bool ours = str_eq(due.orders[i].activity, a.activity);
            fresh += ours && c.verdicts[i].outcome == REASON_CANCELED && c.verdicts[i].fresh;
            busy += ours && c.verdicts[i].outcome == REASON_ENGINE_BUSY;
        }
        looks++;
    }
    sql_done("COMMIT");
    assert_int_equal(fresh, FREE);
    assert_int_equal(busy, HELD);
    assert_true(looks >= 2);
    assert_clean(a.activity);
    finish_all();
}

static struct told place_hurried(const struct create_order *items, size_t count)
{
    struct told told = {0};
    struct seen seen = SEEN(.keep = told_keep, .into = &told);
    ledger_place(world->ledger, &(struct place_ask){.group = str_lit("contract"), .owner = str_lit("x"), .items = items, .count = count, .hurry = true}, &seen.waiter);
    told.reason = seen_await(world, &seen);
    return told;
}

/* One unit is held: nothing is decided of the one message that names it, everything else of its batch is, and the offset is past. */
static void a_held_unit_holds_up_no_other(void **state)
{
    (void)state;
    struct activity a = shop("heldup", 20, 5, 1), other = shop("heldup_not", 5, 5, 1);
    struct queue q = {.broker = str_lit("held"), .topic = str_lit("t"), .number = 0};
    struct lease_ask lease = {.group = str_lit("contract"), .owner = str_lit("tester"), .queues = &q, .starts = (const int64_t[]){0}, .count = 1};
    struct seen leased = SEEN();
    ledger_lease(world->ledger, &lease, &leased.waiter);
    assert_int_equal(seen_await(world, &leased), REASON_OK);
    sql_done("BEGIN; SELECT FROM inventory_token WHERE unit = (SELECT unit_first + 1 FROM activity_sku WHERE activity_id = 'heldup' AND sku_id = 'S') FOR UPDATE");
    struct create_order batch[] = {item(&a, "S", "u0", "q", "0", s_unit(&a, 0, 1)), item(&a, "S", "u1", "q", "1", s_unit(&a, 1, 1)),
                                   item(&a, "S", "u2", "q", "2", s_unit(&a, 2, 1)), item(&other, "S", "u3", "q", "3", s_unit(&other, 0, 1))};
    struct told t = place_from(&(struct queue_prefix){.queue = q, .from = 0, .to = 4, .identity = str_lit("i4")}, 1, str_lit("tester"), batch, 4);
    assert_int_equal(t.reason, REASON_OK);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(t.verdicts[i].outcome, i == 1 ? REASON_LOCK_TIMEOUT : REASON_ORDERED);
    assert_sql("SELECT next FROM consumer_offset WHERE broker = 'held'", "4");
    assert_int_equal(look(LOOK_RESERVATION, batch[1].reservation, a.activity, batch[1].user).reason, REASON_NOT_FOUND);
    /* with others that stand, twice in one batch, and without a wait */
    struct create_order again[] = {batch[0], batch[1], item(&a, "S", "u4", "q", "4", s_unit(&a, 4, 1)), batch[1]};
    t = place(again, 4);
    assert_true(t.reason == REASON_OK && t.verdicts[0].outcome == REASON_ORDERED && !t.verdicts[0].fresh && t.verdicts[2].fresh);
    assert_true(t.verdicts[1].outcome == REASON_LOCK_TIMEOUT && t.verdicts[3].outcome == REASON_LOCK_TIMEOUT);
    uint64_t before = clock_mono_us(world->clock);
    t = place_hurried((struct create_order[]){batch[1], item(&a, "S", "u5", "q", "5", s_unit(&a, 5, 1))}, 2);
    assert_true(clock_mono_us(world->clock) - before < 400000);
    assert_true(t.verdicts[0].outcome == REASON_LOCK_TIMEOUT && t.verdicts[1].outcome == REASON_ORDERED);
    sql_done("COMMIT");
    t = place_hurried(&batch[1], 1);
    assert_true(t.reason == REASON_OK && t.verdicts[0].outcome == REASON_ORDERED && t.verdicts[0].fresh);
    assert_clean(a.activity);
    assert_clean(other.activity);
    finish_all();
}

/* ---- what is counted has an end ---- */

static void a_count_of_reviews_ends(void **state)
{
    (void)state;
    sql_done("INSERT INTO review (review_id, kind, reason, body) SELECT 'many_' || k, 'MESSAGE', 'POISON', '' FROM generate_series(1, 10001) k");
    assert_int_equal(reviews((struct reviews_ask){.limit = 1}).open, 10000);
    sql_done("DELETE FROM review WHERE starts_with(review_id, 'many_')");
}

static void units_of_a_backlog_may_all_be_under_way(void **state)
{
    (void)state;
    struct activity a = shop("backlog", 3, 1, 1);
    finish_all();
    PLACE(item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)));
    finish_all();
    sql_done("INSERT INTO outbox (key, kind, activity_id, generation, reservations) SELECT 'ORDERS:' || k, 'ORDERS', 'backlog', 1, ARRAY['rsv_' || k] FROM generate_series(1, 256) k");
    assert_false(unit(&a, s_unit(&a, 0, 1).unit).returning);
    sql_done("INSERT INTO outbox (key, kind, activity_id, generation, reservations) SELECT 'ORDERS:one more', 'ORDERS', 'backlog', 1, ARRAY['rsv_x']");
    assert_true(unit(&a, s_unit(&a, 0, 1).unit).returning);
    assert_false(unit(&a, s_unit(&a, 1, 1).unit).returning);    /* nobody has it */
    sql_done("DELETE FROM outbox");
}

/* ---- the database refuses by itself ---- */

#define ORDER_COLUMNS "(order_id, request_id, reservation_id, activity_id, sku_id, user_id, unit, generation, amount, currency, pay_deadline"
static void no_statement_breaks_a_promise(void **state)
{
    (void)state;
    struct activity a = shop("guard", 5, 5, 1);
    PLACE(item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), item(&a, "S", "bob", "q2", "2", s_unit(&a, 1, 1)));
    static const char *const refused[][2] = {
        {"UPDATE orders SET status = 'CANCELED', canceled_at = now() WHERE order_id = 'ord_guard_1'", "23514 order_transition"},
        {"UPDATE orders SET status = 'SOLD' WHERE order_id = 'ord_guard_1'", "23514 order_transition"},
        {"UPDATE orders SET user_id = 'eve' WHERE order_id = 'ord_guard_1'", "23514 order_identity"},
        {"UPDATE orders SET amount = 1 WHERE order_id = 'ord_guard_1'", "23514 order_identity"},
        {"INSERT INTO orders " ORDER_COLUMNS ", status, paid_at) VALUES ('o','q','r','guard','S','eve',(SELECT unit_first+3 FROM activity_sku WHERE activity_id='guard' AND sku_id='S'),1,1,'CNY',now(),'PAID',now())", "23514 order_transition"},
        {"INSERT INTO orders " ORDER_COLUMNS ") SELECT 'x', 'q9', 'r9', activity_id, sku_id, user_id, unit + 3, 1, 1, 'CNY', now() FROM orders WHERE order_id = 'ord_guard_1'", "23505 uq_orders_activity_sku_user"},
        {"INSERT INTO orders " ORDER_COLUMNS ") SELECT 'x', request_id, 'r9', activity_id, 'T', user_id, unit + 3, 1, 1, 'CNY', now() FROM orders WHERE order_id = 'ord_guard_1'", "23505 uq_orders_activity_user_request"},
        {"INSERT INTO orders " ORDER_COLUMNS ") SELECT 'x', 'q9', reservation_id, activity_id, sku_id, 'eve', unit + 3, 1, 1, 'CNY', now() FROM orders WHERE order_id = 'ord_guard_1'", "23505 uq_orders_reservation"},
        {"INSERT INTO orders " ORDER_COLUMNS ") SELECT 'x', 'q9', 'r9', activity_id, sku_id, 'eve', unit, generation + 1, 1, 'CNY', now() FROM orders WHERE order_id = 'ord_guard_1'", "23505 uq_orders_unit_held"},
        {"UPDATE consumer_inbox SET outcome = 'RELEASED', reason = 'LOST' WHERE reservation_id = 'rsv_guard_1'", "23514 consumer_inbox_final"},
        {"UPDATE consumer_inbox SET superseded_by = 'x' WHERE reservation_id = 'rsv_guard_1'", "23514 consumer_inbox_final"},
        {"WITH gone AS (DELETE FROM consumer_inbox WHERE reservation_id = 'rsv_guard_2' RETURNING *) INSERT INTO audit_log (actor, action, subject, note) SELECT 'x', 'x', 'x', 'x' FROM gone;"
         "INSERT INTO consumer_inbox (reservation_id, consumer_group, activity_id, sku_id, user_id, request_id, unit, generation, epoch, outcome, reason) VALUES ('rsv_guard_2', 'g', 'guard', 'S', 'bob', 'q2', 0, 0, 1, 'RELEASED', 'LOST')", "23514 consumer_inbox_unordered"},
        {"UPDATE inventory_token SET generation = generation - 1 WHERE activity_id = 'guard'", "23514 inventory_token_forward"},
        {"UPDATE inventory_token SET status = 'AVAILABLE', reservation_id = NULL WHERE reservation_id = 'rsv_guard_1'", "23514 inventory_token_forward"},
        {"UPDATE inventory_token SET reservation_id = 'rsv_guard_9' WHERE reservation_id = 'rsv_guard_1'", "23514 inventory_token_forward"},
        {"UPDATE inventory_token SET status = 'GONE' WHERE activity_id = 'guard'", "23514 inventory_token_status_check"},
        {"UPDATE audit_log SET note = 'never was' WHERE subject = 'guard'", "23514 audit_log_append"},
        {"DELETE FROM audit_log WHERE subject = 'guard'", "23514 audit_log_append"},
        {"TRUNCATE audit_log", "23514 audit_log_append"},
    };
    for (size_t i = 0; i < countof(refused); i++)
        assert_sql(refused[i][0], refused[i][1]);
    /* a paid order stays paid (mission C-09) */
    assert_sql("UPDATE orders SET status = 'PAID', paid_at = now() WHERE order_id = 'ord_guard_2'", "23514 orders_paid_by");
    sql_done("INSERT INTO payment_record (payment_id, order_id, result, amount, currency, channel, occurred_at, disposition) VALUES ('pay_guard', 'ord_guard_2', 'SUCCESS', 100, 'CNY', 'card', now(), 'PAYMENT_APPLIED')");
    sql_done("UPDATE orders SET status = 'PAID', paid_at = now(), payment_id = 'pay_guard' WHERE order_id = 'ord_guard_2'");
    static const char *const money[][2] = {
        {"UPDATE payment_record SET result = 'FAILED' WHERE payment_id = 'pay_guard'", "23514 payment_record_forward"},
        {"UPDATE payment_record SET amount = 99 WHERE payment_id = 'pay_guard'", "23514 payment_record_forward"},
        {"UPDATE payment_record SET order_id = 'ord_guard_1' WHERE payment_id = 'pay_guard'", "23514 payment_record_forward"},
        {"UPDATE payment_record SET refund_status = 'DONE' WHERE payment_id = 'pay_guard'", "23514 payment_record_forward"},
        {"INSERT INTO payment_record (payment_id, order_id, result, amount, currency, channel, occurred_at, disposition, refund_status) VALUES ('pay_no', 'o', 'FAILED', 1, 'CNY', 'card', now(), 'PAYMENT_EXTRA', 'REQUESTED')", "23514 payment_record_refund"},
    };
    for (size_t i = 0; i < countof(money); i++)
        assert_sql(money[i][0], money[i][1]);
    assert_sql("UPDATE orders SET status = 'CANCELING', paid_at = NULL WHERE order_id = 'ord_guard_2'", "23514 order_transition");
    assert_clean(a.activity);
    assert_sql("SELECT total || ' ' || available || ' ' || consumed FROM sku_inventory WHERE activity_id = 'guard' AND sku_id = 'S'", "5 3 2");
    assert_sql("SELECT inventory_token_id FROM inventory_token WHERE reservation_id = 'rsv_guard_1'",
               words("token_%06lld-1%c", (long long)a.skus[0].unit_first, 0).ptr);
}

/* mission §17.7, as printed there. */
static void the_acceptance_queries_return_nothing(void **state)
{
    (void)state;
    static const char *const printed[] = {
        "SELECT activity_id, sku_id, user_id, COUNT(*)\nFROM orders\nGROUP BY activity_id, sku_id, user_id\nHAVING COUNT(*) > 1;",
        "SELECT inventory_token_id, COUNT(DISTINCT reservation_id)\nFROM orders\nGROUP BY inventory_token_id\nHAVING COUNT(DISTINCT reservation_id) > 1;",
        "SELECT reservation_id, COUNT(*)\nFROM orders\nGROUP BY reservation_id\nHAVING COUNT(*) > 1;",
        "SELECT order_id\nFROM orders\nWHERE paid_at IS NOT NULL\n  AND status IN ('CANCELING', 'CANCELED');",
    };
    for (size_t i = 0; i < countof(printed); i++)
        assert_sql(printed[i], "");
    assert_true(!str_eq(sql("SELECT count(*) FROM orders"), str_lit("0")));
}

/* ---- the audit is told lies ---- */

#define LIE_ORDER(order, request, reservation, user, unit, generation) \
    "INSERT INTO orders " ORDER_COLUMNS ") SELECT " order ", " request ", " reservation ", 'lie', 'S', " user ", u0 + " unit ", " generation ", 1, 'CNY', now() FROM base;"
#define LIE_PAYMENT(payment, order, result, amount, disposition, refund) \
    "INSERT INTO payment_record (payment_id, order_id, result, amount, currency, channel, occurred_at, disposition, refund_status) VALUES ('" payment "', '" order "', '" result "', " amount ", 'CNY', 'card', now(), '" disposition "', '" refund "');"
#define LIE_PAID "UPDATE orders SET status = 'PAID', paid_at = now(), payment_id = 'pay' WHERE order_id = 'ord_lie_1';"
#define LIE_CANCELED "UPDATE orders SET status = 'CANCELED', canceled_at = now() WHERE order_id = 'ord_lie_1';"
#define LIE_REFUND "INSERT INTO outbox (key, kind, subject) VALUES ('REFUND:pay', 'REFUND', 'pay');"
static const struct {
    const char *rule, *subject, *lie;
    bool everywhere;    /* of no order, so of no activity */
} lies[] = {
    {"H1", "lie/S", LIE_ORDER("'x1'", "'p1'", "'x1'", "'v1'", "2", "1") LIE_ORDER("'x2'", "'p2'", "'x2'", "'v2'", "90", "1") LIE_ORDER("'x3'", "'p3'", "'x3'", "'v3'", "91", "1")},
    {"H1", "unit ", "INSERT INTO inventory_journal SELECT u0, 2, 'CONSUMED', -1 FROM base"},
    {"H1", "unit ", "DELETE FROM inventory_journal USING base WHERE unit = u0"},
    {"H2", "lie/S/ann", "ALTER TABLE orders DROP CONSTRAINT uq_orders_activity_sku_user;" LIE_ORDER("'x'", "'p1'", "'x1'", "'ann'", "2", "1")},
    {"17.7 one order per user", "lie/S/ann", "ALTER TABLE orders DROP CONSTRAINT uq_orders_activity_sku_user;" LIE_ORDER("'x'", "'p1'", "'x1'", "'ann'", "2", "1")},
    {"H3", "lie/ann/q1", "ALTER TABLE orders DROP CONSTRAINT uq_orders_activity_user_request; ALTER TABLE orders DROP CONSTRAINT uq_orders_activity_sku_user;" LIE_ORDER("'x'", "'q1'", "'x1'", "'ann'", "2", "1")},
    {"H3", "lie/ann/q1", "INSERT INTO consumer_inbox (reservation_id, consumer_group, message_id, activity_id, sku_id, user_id, request_id, unit, generation, epoch, outcome) VALUES ('r9', 'g', 'm9', 'lie', 'S', 'ann', 'q1', 1, 1, 1, 'ORDERED')"},
    {"H4", "rsv_lie_1", "ALTER TABLE orders DROP CONSTRAINT uq_orders_reservation;" LIE_ORDER("'x'", "'p1'", "'rsv_lie_1'", "'v1'", "2", "1")},
    {"17.7 one order per reservation", "rsv_lie_1", "ALTER TABLE orders DROP CONSTRAINT uq_orders_reservation;" LIE_ORDER("'x'", "'p1'", "'rsv_lie_1'", "'v1'", "2", "1")},
    {"H4", "contract/msg_lie_1", "ALTER TABLE consumer_inbox DROP CONSTRAINT consumer_inbox_consumer_group_message_id_key; INSERT INTO consumer_inbox (reservation_id, consumer_group, message_id, activity_id, sku_id, user_id, request_id, unit, generation, epoch, outcome, reason) VALUES ('r9', 'contract', 'msg_lie_1', 'lie', 'S', 'v', 'p', 1, 1, 1, 'RELEASED', 'LOST')"},
    {"H5", "token_", "ALTER TABLE orders DROP CONSTRAINT uq_orders_token; DROP INDEX uq_orders_unit_held;" LIE_ORDER("'x'", "'p1'", "'x1'", "'v1'", "0", "1")},
    {"17.7 one reservation per token", "token_", "ALTER TABLE orders DROP CONSTRAINT uq_orders_token; DROP INDEX uq_orders_unit_held;" LIE_ORDER("'x'", "'p1'", "'x1'", "'v1'", "0", "1")},
    {"H5", "unit ", "DROP INDEX uq_orders_unit_held;" LIE_ORDER("'x'", "'p1'", "'x1'", "'v1'", "0", "2")},
    {"H5", "unit ", "UPDATE inventory_token SET status = 'CONSUMED', reservation_id = 'nobody' FROM base WHERE unit = u0 + 2"},
    {"H5", "ord_lie_1", "UPDATE inventory_token SET status = 'AVAILABLE', reservation_id = NULL, generation = 2 FROM base WHERE unit = u0"},
    {"H6", "unit ", "UPDATE inventory_token SET generation = 1 FROM base WHERE unit = u0 + 1"},
    {"H6", "unit ", "UPDATE orders SET status = 'CANCELED', canceled_at = now() WHERE order_id = 'ord_lie_1'"},
    {"H7", "rsv_lie_1", "DELETE FROM orders WHERE order_id = 'ord_lie_1'"},
    {"H7", "ord_lie_1", "DELETE FROM consumer_inbox WHERE reservation_id = 'rsv_lie_1'"},
    {"H7", "ord_lie_1", "UPDATE consumer_inbox SET outcome = 'RELEASED', reason = 'LOST' WHERE reservation_id = 'rsv_lie_1'"},
    {"H8", "ord_lie_1", "INSERT INTO payment_record VALUES ('pay', 'ord_lie_1', 'SUCCESS', 100, 'CNY', 'card', now(), now(), 'PAYMENT_APPLIED')"},
    {"H9", "pay", "UPDATE orders SET status = 'CANCELED', canceled_at = now() WHERE order_id = 'ord_lie_1'; INSERT INTO payment_record VALUES ('pay', 'ord_lie_1', 'SUCCESS', 100, 'CNY', 'card', now(), now(), 'PAYMENT_AFTER_CANCEL')"},
    {"H8", "ord_lie_1", LIE_PAID},
    {"H8", "ord_lie_1", LIE_PAID LIE_PAYMENT("pay", "ord_lie_1", "FAILED", "100", "PAYMENT_APPLIED", "NONE")},
    {"H8", "ord_lie_1", LIE_PAID LIE_PAYMENT("pay", "ord_lie_1", "SUCCESS", "99", "PAYMENT_APPLIED", "NONE")},
    {"H8", "ord_lie_1", LIE_PAID LIE_PAYMENT("pay", "ord_lie_2", "SUCCESS", "100", "PAYMENT_APPLIED", "NONE")},
    {"H8", "ord_lie_1", "UPDATE orders SET payment_id = 'pay' WHERE order_id = 'ord_lie_1';"},
    {"H9", "two", LIE_PAID LIE_PAYMENT("pay", "ord_lie_1", "SUCCESS", "100", "PAYMENT_APPLIED", "NONE") LIE_PAYMENT("two", "ord_lie_1", "SUCCESS", "100", "PAYMENT_APPLIED", "NONE")},
    {"H9", "two", LIE_PAID LIE_PAYMENT("pay", "ord_lie_1", "SUCCESS", "100", "PAYMENT_APPLIED", "NONE") LIE_PAYMENT("two", "ord_lie_1", "SUCCESS", "100", "PAYMENT_EXTRA", "NONE")},
    {"H9", "pay", LIE_PAID LIE_REFUND LIE_PAYMENT("pay", "ord_lie_1", "SUCCESS", "100", "PAYMENT_APPLIED", "REQUESTED")},
    {"H9", "pay", "ALTER TABLE payment_record DROP CONSTRAINT payment_record_refund;" LIE_REFUND LIE_CANCELED LIE_PAYMENT("pay", "ord_lie_1", "FAILED", "100", "PAYMENT_AFTER_CANCEL", "REQUESTED")},
    {"H9", "pay", LIE_CANCELED LIE_PAYMENT("pay", "ord_lie_1", "SUCCESS", "100", "PAYMENT_AFTER_CANCEL", "REQUESTED")},                 /* and nothing in the outbox */
    {"H9", "pay", LIE_CANCELED LIE_REFUND LIE_PAYMENT("pay", "ord_lie_1", "SUCCESS", "100", "PAYMENT_AFTER_CANCEL", "DONE")},           /* and it goes out again */
    {"H9", "pay", LIE_REFUND, true},
    {"H9", "pay", LIE_PAYMENT("pay", "ord_lie_3", "SUCCESS", "100", "PAYMENT_QUARANTINED", "NONE"), true},
    {"money", "pay", LIE_PAYMENT("pay", "ord_lie_1", "SUCCESS", "99", "PAYMENT_QUARANTINED", "NONE")},
    {"money", "pay", LIE_PAYMENT("pay", "ord_nobody", "SUCCESS", "99", "PAYMENT_QUARANTINED", "NONE"), true},
    {"money", "ord_lie_1", "UPDATE orders SET amount = 1 WHERE order_id = 'ord_lie_1'"},
    {"money", "ord_lie_1", "UPDATE orders SET currency = 'EUR' WHERE order_id = 'ord_lie_1'"},
    {"money", "CNY", LIE_PAID},
    {"money", "CNY", LIE_PAYMENT("pay", "ord_lie_1", "SUCCESS", "100", "PAYMENT_APPLIED", "NONE")},
    {"H10", "lie/S", "DELETE FROM inventory_token USING base WHERE unit = u0 + 2"},
    {"H10", "unit ", "INSERT INTO inventory_token (unit, activity_id, sku_id, bucket) VALUES (123456789, 'lie', 'S', 0)"},
    {"17.7 paid is never cancelled", "ord_lie_1", "ALTER TABLE orders DROP CONSTRAINT orders_check; UPDATE orders SET status = 'CANCELING', paid_at = now() WHERE order_id = 'ord_lie_1'"},
};

/* All 8,000 units of S are sold, by SQL and at once. */
static void sold_out(const char *name)
{
    shop(name, 8000, 1, 1);
    sql_done("SET session_replication_role = replica");
    sql_done(words("UPDATE inventory_token SET status = 'CONSUMED', reservation_id = 'rsv_u' || unit, consumed_at = now() WHERE activity_id = '%s' AND sku_id = 'S'%c", name, 0).ptr);
    sql_done(words("INSERT INTO orders (order_id, request_id, reservation_id, activity_id, sku_id, user_id, unit, generation, amount, currency, pay_deadline)"
                   " SELECT 'ord_u' || unit, 'q' || unit, reservation_id, activity_id, sku_id, 'u' || unit, unit, 1, price, currency, now()"
                   " FROM inventory_token JOIN activity_sku USING (activity_id, sku_id) WHERE activity_id = '%s' AND sku_id = 'S'%c", name, 0).ptr);
    sql_done(words("INSERT INTO consumer_inbox (reservation_id, consumer_group, message_id, activity_id, sku_id, user_id, request_id, unit, generation, epoch, outcome)"
                   " SELECT reservation_id, 'contract', 'msg_' || unit, activity_id, sku_id, user_id, request_id, unit, 1, 1, 'ORDERED' FROM orders WHERE activity_id = '%s'%c", name, 0).ptr);
    sql_done(words("INSERT INTO inventory_journal (unit, generation, change, delta, reservation_id)"
                   " SELECT unit, 1, 'CONSUMED', -1, reservation_id FROM orders WHERE activity_id = '%s'%c", name, 0).ptr);
    sql_done("SET session_replication_role = origin");
}

/* The statistics know other sales only: an audit that joins by nested loops then takes a minute, by hashing under a second. */
static void an_audit_does_not_believe_old_statistics(void **state)
{
    (void)state;
    sold_out("known");
    sql_done("ANALYZE");
    sold_out("unheard");
    sql_done("SET statement_timeout = '15s'");
    assert_string_equal(sql("SELECT count(*) FILTER (WHERE f_rule <> '') || ' ' || max(c_orders) FROM audit('unheard')").ptr, "0 8000");
    sql_done("SET statement_timeout = 0");
}

/* Orders of other activities, each with its unit, verdict and journal, by SQL and at once: `count` of them in one activity. */
static void add_past_orders(const char *name, int count)
{
    sql_done("SET session_replication_role = replica");
    sql_done(words("INSERT INTO activity (activity_id, number, title, buckets, state, starts_at, ends_at, pay_timeout_s, qualification)"
                   " SELECT '%s', max(number) + 1, 'past', 1, 'CLOSED', now() - interval '2 days', now() - interval '1 day', 60, false FROM activity;"
                   "INSERT INTO activity_sku SELECT '%s', 'S', 0, %d, max(unit_first + stock), 100, 'CNY' FROM activity_sku%c", name, name, count, 0).ptr);
    sql_done(words("CREATE TEMP TABLE past AS SELECT unit_first + k AS unit, '%s' AS activity, '%s_' || k AS id FROM activity_sku, generate_series(0, stock - 1) k"
                   " WHERE activity_id = '%s'%c", name, name, name, 0).ptr);
    sql_done("INSERT INTO inventory_token (unit, activity_id, sku_id, bucket, status, reservation_id, consumed_at) SELECT unit, activity, 'S', 0, 'CONSUMED', id, now() FROM past;"
             "INSERT INTO orders (order_id, request_id, reservation_id, activity_id, sku_id, user_id, unit, generation, amount, currency, pay_deadline, status, paid_at, payment_id)"
             " SELECT 'ord_' || id, 'q' || unit, id, activity, 'S', 'u' || unit, unit, 1, 100, 'CNY', now(), 'PAID', now(), 'pay_' || id FROM past;"
             "INSERT INTO payment_record (payment_id, order_id, result, amount, currency, channel, occurred_at, disposition)"
             " SELECT 'pay_' || id, 'ord_' || id, 'SUCCESS', 100, 'CNY', 'card', now(), 'PAYMENT_APPLIED' FROM past;"
             "INSERT INTO consumer_inbox (reservation_id, consumer_group, message_id, activity_id, sku_id, user_id, request_id, unit, generation, epoch, outcome)"
             " SELECT id, 'contract', 'msg_' || id, activity, 'S', 'u' || unit, 'q' || unit, unit, 1, 1, 'ORDERED' FROM past;"
             "INSERT INTO inventory_journal (unit, generation, change, delta, reservation_id) SELECT unit, 1, 'CONSUMED', -1, id FROM past;"
             "DROP TABLE past");
    sql_done("SET session_replication_role = origin");
}

/* Rows that an audit of the activity reads from all tables together. The counters are those that this session has not yet reported. */
static int64_t rows_read_by_audit(const char *name)
{
    sql_done("SELECT pg_stat_force_next_flush()");    /* else what earlier statements read is counted with it */
    static const char read[] = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables";
    sql_done("BEGIN");
    int64_t before = sql_number(read);
    sql_done(words("SELECT * FROM audit('%s')%c", name, 0).ptr);
    int64_t rows = sql_number(read) - before;
    sql_done("COMMIT");
    return rows;
}

/* An activity of four units, two of them sold and one of these paid, among 100,000 past orders: whatever the statistics say, only its own rows are read. */
static void an_audit_reads_rows_of_its_activity_only(void **state)
{
    (void)state;
    struct activity a = shop("four", 4, 1, 1);
    sql_done("DELETE FROM outbox WHERE kind <> 'REFUND'");    /* left by earlier tests: the totals read the 1000 oldest rows */
    sql_done("ANALYZE");               /* statistics from before the past orders: stale for the first audit */
    PLACE(item(&a, "S", "ann", "q1", "four1", s_unit(&a, 0, 1)), item(&a, "S", "bob", "q2", "four2", s_unit(&a, 1, 1)));
    release(item(&a, "S", "cat", "q3", "four3", s_unit(&a, 2, 1)), REASON_OVERDUE);
    add_past_orders("past", 100000);
    static const char *const statistics[] = {"SELECT 1", "ANALYZE",
        "SET allow_system_table_mods = on; DELETE FROM pg_statistic; RESET allow_system_table_mods"};    /* stale, exact, none */
    for (size_t i = 0; i < countof(statistics); i++) {
        sql_done(statistics[i]);
        int64_t rows = rows_read_by_audit("four");
        if (rows < 10 || rows > 150 + 3 * sql_number("SELECT count(*) FROM outbox"))
            fail_msg("%s: an audit of four units reads %lld rows", statistics[i], (long long)rows);
    }
    assert_string_equal(sql("SELECT count(*) FILTER (WHERE f_rule <> '') || ' ' || max(c_orders) || ' ' || max(c_consumed) FROM audit('past')").ptr, "0 100000 100000");
    assert_string_equal(sql("SELECT count(*) FILTER (WHERE f_rule <> '') || ' ' || max(c_orders) || ' ' || max(c_released) FROM audit('four')").ptr, "0 2 1");
}

/* A verdict without an order and a unit beyond every range are found by their own activity; an order of no activity by the audit of the rest. */
static void an_audit_of_the_rest_finds_what_is_of_no_activity(void **state)
{
    (void)state;
    shop("whole", 2, 1, 1);
    sql_done("BEGIN; SET LOCAL session_replication_role = replica");
    sql_done("INSERT INTO orders (order_id, request_id, reservation_id, activity_id, sku_id, user_id, unit, generation, amount, currency, pay_deadline)"
             " VALUES ('ord_lost', 'q', 'rsv_lost', 'gone', 'S', 'u', 987654321, 1, 100, 'CNY', now());"
             "INSERT INTO consumer_inbox (reservation_id, consumer_group, message_id, activity_id, sku_id, user_id, request_id, unit, generation, epoch, outcome)"
             " VALUES ('rsv_lost', 'g', 'm', 'gone', 'S', 'u', 'q', 987654321, 1, 1, 'ORDERED');"
             "INSERT INTO inventory_token (unit, activity_id, sku_id, bucket) VALUES (987654321, 'gone', 'S', 0)");
    assert_string_equal(sql("SELECT string_agg(f_rule || ' ' || f_subject, ', ' ORDER BY f_rule, f_subject) FROM audit('*')").ptr,
                        "H1 ord_lost, H10 unit 987654321, H7 rsv_lost");
    assert_string_equal(sql("SELECT count(*) FROM audit('whole') WHERE f_rule <> ''").ptr, "0");
    sql_done("ROLLBACK");
    sql_done("BEGIN; ALTER TABLE orders DROP CONSTRAINT uq_orders_token");    /* nothing is doubled yet; nothing holds it either */
    assert_string_equal(sql("SELECT string_agg(f_rule || ' ' || f_subject, ', ') FROM audit('whole')").ptr, "H5 uq_orders_token");
    sql_done("ROLLBACK");
}

static void every_rule_finds_its_planted_fault(void **state)
{
    (void)state;
    struct activity a = shop("lie", 3, 1, 1);
    PLACE(item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), item(&a, "T", "bob", "q2", "2", (struct token){a.skus[1].unit_first, 1}));
    release(item(&a, "S", "cat", "q3", "3", s_unit(&a, 1, 1)), REASON_OVERDUE);
    assert_clean(a.activity);
    for (size_t i = 0; i < countof(lies); i++) {
        /* a superuser's hand, in a transaction that is taken back: no trigger, no foreign key */
        struct str plant = words("BEGIN; SET LOCAL session_replication_role = replica; CREATE TEMP TABLE base ON COMMIT DROP AS "
                                 "SELECT unit_first AS u0 FROM activity_sku WHERE activity_id = 'lie' AND sku_id = 'S'%c", 0);
        sql_done(plant.ptr);
        struct str lie = sql(lies[i].lie);
        if (!sql_in_transaction())
            fail_msg("%s: " STR_FMT, lies[i].lie, STR_ARG(lie));
        struct str found = sql(words("SELECT count(*) FROM audit('%s') WHERE f_rule = '%s' AND starts_with(f_subject, '%s') AND f_detail <> ''%c",
                                     lies[i].everywhere ? "" : "lie", lies[i].rule, lies[i].subject, 0).ptr);
        if (str_eq(found, str_lit("0")))
            fail_msg("%s does not find %s", lies[i].rule, lies[i].lie);
        sql_done("ROLLBACK");
    }
    assert_clean(a.activity);
    sql_done("SET session_replication_role = replica");
    sql_done("DELETE FROM consumer_inbox WHERE reservation_id = 'rsv_lie_1'");
    sql_done("SET session_replication_role = origin");
    struct audited found = audit(a.activity);    /* and through the port, by name */
    assert_int_equal(found.a.count, 1);
    assert_true(str_eq(found.findings[0].rule, str_lit("H7")) && str_eq(found.findings[0].subject, str_lit("ord_lie_1")));
    sql_done("INSERT INTO consumer_inbox (reservation_id, consumer_group, message_id, activity_id, sku_id, user_id, request_id, unit, generation, epoch, outcome)"
             " SELECT reservation_id, 'contract', 'msg_lie_1', activity_id, sku_id, user_id, request_id, unit, generation, 1, 'ORDERED' FROM orders WHERE order_id = 'ord_lie_1'");
}

/* ---- answers late, lost, doubtful ---- */

static struct str place_lane(void) { return sql("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'contract' AND query LIKE '%place_orders%' ORDER BY query_start DESC LIMIT 1"); }

/* After a lane was cut it comes back by itself. */
static struct told place_until_back(struct create_order m)
{
    struct told t = {.reason = REASON_DEPENDENCY_DOWN};
    for (int i = 0; i < 200 && t.reason == REASON_DEPENDENCY_DOWN; i++) {
        t = PLACE(m);
        if (t.reason == REASON_DEPENDENCY_DOWN)
            let_pass(20);
    }
    return t;
}

struct flight {
    struct seen seen;
    struct told told;
};
static void take_off_with(struct flight *f, uint32_t budget_ms, const struct create_order *items, size_t count)
{
    f->seen = SEEN(.keep = told_keep, .into = &f->told);
    f->seen.waiter.budget_ms = budget_ms;
    ledger_place(world->ledger, &(struct place_ask){.group = str_lit("contract"), .owner = str_lit("x"), .items = items, .count = count}, &f->seen.waiter);
    assert_false(f->seen.woken);    /* never before the call has returned */
}
static void take_off(struct flight *f, uint32_t budget_ms, const struct create_order *m) { take_off_with(f, budget_ms, m, 1); }

static void a_lock_that_stays_is_a_busy_engine(void **state)
{
    (void)state;
    struct activity a = shop("locked", 5, 5, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    sql_done("BEGIN; LOCK TABLE consumer_inbox IN EXCLUSIVE MODE");
    assert_int_equal(PLACE(m).reason, REASON_LOCK_TIMEOUT);
    struct flight f = {0};
    take_off(&f, 60, &m);
    assert_int_equal(seen_await(world, &f.seen), REASON_TIMED_OUT);    /* it left: nobody knows */
    let_pass(700);                                                     /* its answer comes and finds nobody */
    struct flight dropped = {0};
    take_off(&dropped, 0, &m);
    let_pass(20);
    waiter_drop(&dropped.seen.waiter);
    sql_done("COMMIT");
    let_pass(300);
    assert_false(dropped.seen.woken);
    assert_int_equal(look(LOOK_RESERVATION, m.reservation, a.activity, m.user).reason, REASON_OK);    /* what was asked happened all the same */
    struct told t = PLACE(m);
    assert_true(t.reason == REASON_OK && !t.verdicts[0].fresh);
}

static void a_backend_killed_in_its_work_did_nothing(void **state)
{
    (void)state;
    struct activity a = shop("killed", 5, 5, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    sql_done("BEGIN; LOCK TABLE consumer_inbox IN EXCLUSIVE MODE");
    struct flight f = {0};
    take_off(&f, 0, &m);
    let_pass(100);
    sql(words("SELECT pg_terminate_backend(" STR_FMT ")%c", STR_ARG(place_lane()), 0).ptr);
    assert_int_equal(seen_await(world, &f.seen), REASON_ENGINE_BUSY);
    sql_done("COMMIT");
    assert_int_equal(look(LOOK_RESERVATION, m.reservation, a.activity, m.user).reason, REASON_NOT_FOUND);
    struct told t = place_until_back(m);
    assert_true(t.reason == REASON_OK && t.verdicts[0].fresh);
}

/* A trigger that acts at commit, when the result of the function has long arrived. */
static void at_commit(const char *body)
{
    sql_done("DROP TRIGGER IF EXISTS test_commit ON orders");
    sql_done("DROP SEQUENCE IF EXISTS test_turn");
    sql_done("CREATE SEQUENCE test_turn");
    if (!body)
        return;
    sql_done(words("CREATE OR REPLACE FUNCTION test_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s RETURN NULL; END $$%c", body, 0).ptr);
    sql_done("CREATE CONSTRAINT TRIGGER test_commit AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION test_commit()");
}

static void a_result_is_not_a_commit(void **state)
{
    (void)state;
    struct activity a = shop("commit", 9, 9, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    at_commit("RAISE EXCEPTION 'no' USING ERRCODE = 'check_violation';");
    assert_int_equal(PLACE(m).reason, REASON_POISON);
    assert_int_equal(look(LOOK_RESERVATION, m.reservation, a.activity, m.user).reason, REASON_NOT_FOUND);
    at_commit("PERFORM pg_sleep(30);");
    struct flight f = {0};
    take_off(&f, 0, &m);
    for (int i = 0; i < 500 && sql_number("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'") == 0; i++)
        let_pass(10);
    sql(words("SELECT pg_terminate_backend(" STR_FMT ")%c", STR_ARG(place_lane()), 0).ptr);
    assert_int_equal(reason_fate(seen_await(world, &f.seen)), FATE_UNKNOWN);    /* the commit was under way */
    at_commit(NULL);
    struct told t = place_until_back(m);
    assert_true(t.reason == REASON_OK && t.verdicts[0].fresh);
}

static void a_warning_makes_the_commit_doubtful(void **state)
{
    (void)state;
    struct activity a = shop("warned", 9, 9, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    at_commit("RAISE WARNING 'canceling wait for synchronous replication due to user request';");
    assert_int_equal(PLACE(m).reason, REASON_UNCERTAIN);
    struct looked l = look(LOOK_RESERVATION, m.reservation, a.activity, m.user);    /* the inbox settles it */
    assert_true(l.reason == REASON_OK && l.a.verdict.outcome == REASON_ORDERED);
    at_commit("RAISE NOTICE 'nothing of importance';");
    assert_int_equal(PLACE(item(&a, "S", "bob", "q1", "2", s_unit(&a, 1, 1))).reason, REASON_OK);
    at_commit(NULL);
}

static void a_deadlock_is_repeated_in_here(void **state)
{
    (void)state;
    struct activity a = shop("again", 9, 9, 1);
    at_commit("IF nextval('seckill.test_turn') < 4 THEN RAISE EXCEPTION 'again' USING ERRCODE = 'deadlock_detected'; END IF;");
    struct told t = PLACE(item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)));
    assert_true(t.reason == REASON_OK && t.verdicts[0].fresh);
    at_commit("PERFORM nextval('seckill.test_turn'); RAISE EXCEPTION 'again' USING ERRCODE = 'serialization_failure';");
    assert_int_equal(PLACE(item(&a, "S", "bob", "q1", "2", s_unit(&a, 1, 1))).reason, REASON_ENGINE_BUSY);
    assert_sql("SELECT last_value FROM test_turn", "5");    /* five tries, no more */
    at_commit(NULL);
}

static void a_full_lane_says_so(void **state)
{
    (void)state;
    struct activity a = shop("laden", 200, 1, 1);
    enum { MANY = 100 };
    static struct flight flights[MANY];
    sql_done("BEGIN; LOCK TABLE consumer_inbox IN EXCLUSIVE MODE");
    for (int i = 0; i < MANY; i++) {
        struct create_order m = item(&a, "S", words("u%d%c", i, 0).ptr, "q", words("%d%c", i, 0).ptr, s_unit(&a, i, 1));
        take_off(&flights[i], 9000, &m);
    }
    let_pass(50);
    sql_done("COMMIT");
    int done = 0, full = 0;
    for (int i = 0; i < MANY; i++) {
        enum reason reason = seen_await(world, &flights[i].seen);
        done += reason == REASON_OK;
        if (reason == REASON_OK)
            assert_int_equal(flights[i].told.verdicts[0].outcome, REASON_ORDERED);
        full += reason == REASON_OVERLOADED;
    }
    assert_int_equal(done + full, MANY);
    assert_int_equal(full, MANY - 64);
    assert_int_equal(audit(a.activity).a.orders, done);
}

/* What may take a minute has a lane of its own: it fills without anybody else being held up. */
static void a_full_lane_of_long_ones_says_so(void **state)
{
    (void)state;
    struct activity a = shop("longladen", 3, 1, 1);
    enum { MANY = 20 };
    static struct seen seen[MANY];
    sql_done("BEGIN; LOCK TABLE payment_record IN ACCESS EXCLUSIVE MODE");
    for (int i = 0; i < MANY; i++) {
        seen[i] = SEEN();
        ledger_audit(world->ledger, a.activity, &seen[i].waiter);
    }
    assert_int_equal(PLACE(item(&a, "S", "ann", "q", "1", s_unit(&a, 0, 1))).verdicts[0].outcome, REASON_ORDERED);
    assert_int_equal(unit(&a, s_unit(&a, 1, 1).unit).token.generation, 1);
    sql_done("COMMIT");
    int done = 0, full = 0;
    for (int i = 0; i < MANY; i++) {
        enum reason reason = seen_await(world, &seen[i]);
        done += reason == REASON_OK;
        full += reason == REASON_OVERLOADED;
    }
    assert_int_equal(done, 16);
    assert_int_equal(full, MANY - 16);
}

/* Nor does a report hold up who wants to stop a sale. */
static void a_full_lane_of_reports_says_so(void **state)
{
    (void)state;
    struct activity a = shop("reported", 3, 1, 1);
    enum { MANY = 70 };
    static struct seen seen[MANY];
    struct seen moved = SEEN();
    sql_done("BEGIN; LOCK TABLE review IN ACCESS EXCLUSIVE MODE");
    for (int i = 0; i < MANY; i++) {
        seen[i] = SEEN();
        ledger_reviews(world->ledger, &(struct reviews_ask){.limit = 1}, &seen[i].waiter);
    }
    let_pass(100);
    uint64_t before = clock_mono_us(world->clock);
    struct activity_move_ask move = {.activity = a.activity, .event = ACTIVITY_EVENT_WARM, .actor = str_lit("me"), .note = str_lit("why")};
    ledger_activity_move(world->ledger, &move, &moved.waiter);
    assert_int_equal(seen_await(world, &moved), REASON_OK);
    assert_true(clock_mono_us(world->clock) - before < 1000000);
    sql_done("COMMIT");
    int done = 0, full = 0;
    for (int i = 0; i < MANY; i++) {
        enum reason reason = seen_await(world, &seen[i]);
        done += reason == REASON_OK;
        full += reason == REASON_OVERLOADED;
    }
    assert_int_equal(done, 64);
    assert_int_equal(full, MANY - 64);
}

static void nobody_there_is_said_at_once(void **state)
{
    (void)state;
    struct ledger *ours = world->ledger, *away = postgres_open(&(struct postgres_options){.loop = postgres_world_loop(), .url = "host=127.0.0.1 port=1"});
    let_pass(50);
    assert_false(postgres_ready(away));
    assert_true(postgres_ready(ours));
    world->ledger = away;
    assert_int_equal(look(LOOK_RESERVATION, str_lit("rsv_x"), (struct str){0}, (struct str){0}).reason, REASON_DEPENDENCY_DOWN);
    world->ledger = ours;
    postgres_close(away);
    let_pass(10);
}

/* Two reservations of one request, after Redis has lost the first: one is being released while the other is being placed, in a batch of that many. */
static void one_at_a_time(const char *sale, struct create_order (*other)(const struct activity *, struct create_order second), size_t count)
{
    struct activity a = shop(sale, 9, 9, 1);
    struct create_order batch[2] = {item(&a, "S", "ann", "q1", "2", s_unit(&a, 1, 1))};
    batch[1] = other ? other(&a, batch[0]) : batch[0];
    sql_done("BEGIN");
    sql_done(words("SELECT release_reservations('{q1}', '{rsv_%s_1}', '{%s}', '{S}', '{ann}', '{0}', '{0}', '{1}', '{1796083200000}', '{OVERDUE}')%c", sale, sale, 0).ptr);
    struct flight f = {0};
    take_off_with(&f, 0, batch, count);
    let_pass(100);
    assert_false(f.seen.woken);    /* it waits for the release to end */
    sql_done("COMMIT");
    assert_int_equal(seen_await(world, &f.seen), REASON_OK);
    assert_int_equal(f.told.verdicts[0].why, REASON_REQUEST_REPLAY);
    assert_clean(a.activity);
}

static void one_request_is_decided_by_one_at_a_time(void **state)
{
    (void)state;
    one_at_a_time("turn", NULL, 1);
}

static struct create_order of_one_message(const struct activity *a, struct create_order second)
{
    struct create_order other = item(a, "S", "bob", "q2", "3", s_unit(a, 2, 1));
    other.message = second.message;
    return other;
}

/* A message that names two reservations takes the batch off the usual way before that has locked anything: the careful way must lock by itself. */
static void one_request_is_decided_by_one_at_a_time_in_an_unusual_batch_too(void **state)
{
    (void)state;
    one_at_a_time("turns", of_one_message, 2);
}

/* A callback flies while somebody else's transaction is open: it must wait for its end, and is judged by what that has done. */
static struct pay_verdict paid_behind(const char *open, struct pay_item item)
{
    struct paid paid = {0};
    struct seen seen = SEEN(.keep = paid_keep, .into = &paid);
    sql_done("BEGIN");
    sql_done(open);
    ledger_pay(world->ledger, &(struct pay_ask){.items = &item, .count = 1}, &seen.waiter);
    let_pass(100);
    assert_false(seen.woken);
    sql_done("COMMIT");
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return paid.verdicts[0];
}

/* One payment_id, told of two orders at once: it pays one of them. */
static void one_payment_is_judged_by_one_at_a_time(void **state)
{
    (void)state;
    struct activity a = till("one_payment", 5, 900);
    struct create_order ann = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), bob = item(&a, "S", "bob", "q1", "2", s_unit(&a, 1, 1));
    PLACE(ann, bob);
    struct str first = words("SELECT pay_orders('{wh_beside}', ARRAY[sha256('x')], ARRAY['x'::bytea], '{" STR_FMT "}', '{pay_both}', '{" STR_FMT "}', '{SUCCESS}', '{100}', '{CNY}',"
                             " '{card}', '{1796083200000}')%c", STR_ARG(ann.reservation), STR_ARG(order_of(&ann)), 0);
    struct pay_verdict v = paid_behind(first.ptr, callback(order_of(&bob), "pay_both", PAYMENT_SUCCESS, 100, "CNY"));
    assert_int_equal(v.outcome, REASON_PAYMENT_QUARANTINED);
    assert_int_equal(v.why, REASON_PAYMENT_ID_REUSED);
    assert_clean(a.activity);
}

/* Money for an order that nobody knows, while the reservation of that name is being released: one of the two must see the other, or it goes back by nobody. */
static void money_of_an_unknown_order_waits_for_a_release(void **state)
{
    (void)state;
    struct activity a = till("unknown_order", 5, 900);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    struct pay_item money = callback(order_of(&m), "pay_nobody", PAYMENT_SUCCESS, 100, "CNY");
    money.reservation = (struct str){0};    /* it could not be told from a made-up one */
    struct str release = words("SELECT release_reservations('{q1}', '{" STR_FMT "}', '{unknown_order}', '{S}', '{ann}', '{0}', '{0}', '{1}', '{1796083200000}', '{OVERDUE}')%c",
                               STR_ARG(m.reservation), 0);
    struct pay_verdict v = paid_behind(release.ptr, money);
    assert_int_equal(v.outcome, REASON_PAYMENT_QUARANTINED);
    assert_true(v.refund);
    assert_clean((struct str){0});
}

static void closing_ends_what_flies(void **state)
{
    (void)state;
    struct activity a = shop("closing", 9, 9, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    struct ledger *ours = world->ledger, *other = postgres_open(&(struct postgres_options){.loop = postgres_world_loop(), .url = postgres_world_url()});
    while (!postgres_ready(other))
        let_pass(10);
    sql_done("BEGIN; LOCK TABLE consumer_inbox IN EXCLUSIVE MODE");
    struct flight flying = {0}, waiting = {0};
    world->ledger = other;
    take_off(&flying, 0, &m);
    let_pass(50);
    take_off(&waiting, 0, &m);
    postgres_close(other);
    world->ledger = ours;
    sql_done("ROLLBACK");
    assert_true(flying.seen.woken && waiting.seen.woken);
    assert_int_equal(flying.seen.reason, REASON_LINK_LOST);           /* nobody knows */
    assert_int_equal(waiting.seen.reason, REASON_DEPENDENCY_DOWN);    /* it never left */
    let_pass(50);
    assert_int_equal(PLACE(m).reason, REASON_OK);                     /* the inbox knows */
}

/* ---- the property, on several connections ---- */

enum { WORKERS = 8, UNITS = 100, USERS = 300, NAMES = 6000, PROPERTY_MS = 4000, PROPERTY_MOST_MS = 60000 };
static struct activity bazaar;
static struct create_order names[NAMES];
static struct verdict known[NAMES];
static uint64_t chance_state = 88172645463325252;
static struct worker {
    struct ledger *ledger;
    struct waiter waiter;
    size_t which[24], count;
    bool flying, stop;
} workers[WORKERS];
static struct {
    int batches, busy, paid, canceled, back;
} all;    /* of all of them */
static struct str order_names[NAMES];
static size_t sold[NAMES], sold_count;    /* names known to be orders */

static size_t chance(size_t below)
{
    chance_state ^= chance_state << 13;
    chance_state ^= chance_state >> 7;
    chance_state ^= chance_state << 17;
    return (size_t)(chance_state % below);
}

/* What an order came to, whoever said it: PAID and CANCELED are for ever. */
static enum order_state ends[NAMES];
static void order_is(size_t which, enum order_state state)
{
    assert_true(ends[which] == ORDER_CREATED || ends[which] == state);
    ends[which] = state;
}

static void worker_go(struct worker *w);
static bool worker_heard(struct worker *w, enum reason reason)
{
    w->flying = false;
    all.batches++;
    assert_true(reason == REASON_OK || reason == REASON_ENGINE_BUSY);
    all.busy += reason != REASON_OK;
    return reason == REASON_OK;
}

static void worker_told(struct waiter *waiter, enum reason reason, const void *result)
{
    struct worker *w = container_of(waiter, struct worker, waiter);
    const struct place_answer *a = result;
    for (size_t i = 0; worker_heard(w, reason) && i < a->count; i++) {
        struct verdict *was = &known[w->which[i]];
        const struct verdict *is = &a->verdicts[i];
        assert_true(is->outcome == REASON_ORDERED || is->outcome == REASON_RELEASED);
        assert_true(was->outcome == REASON_QUEUED || (was->outcome == is->outcome && was->why == is->why));    /* no verdict turns */
        if (was->outcome == REASON_QUEUED && is->outcome == REASON_ORDERED)
            sold[sold_count++] = w->which[i];
        *was = (struct verdict){.outcome = is->outcome, .why = is->why};
    }
    if (!w->stop)
        worker_go(w);
}

static void worker_paid(struct waiter *waiter, enum reason reason, const void *result)
{
    struct worker *w = container_of(waiter, struct worker, waiter);
    const struct pay_answer *a = result;
    for (size_t i = 0; worker_heard(w, reason) && i < a->count; i++) {
        enum reason outcome = a->verdicts[i].outcome;
        if (outcome == REASON_PAYMENT_APPLIED || outcome == REASON_PAYMENT_EXTRA)
            order_is(w->which[i], ORDER_PAID);
        if (outcome == REASON_PAYMENT_AFTER_CANCEL)
            order_is(w->which[i], ORDER_CANCELED);
        all.paid += outcome == REASON_PAYMENT_APPLIED && a->verdicts[i].fresh;
        all.back += a->verdicts[i].refund && a->verdicts[i].fresh && outcome != REASON_PAYMENT_DUPLICATE;
    }
    if (!w->stop)
        worker_go(w);
}

static void worker_canceled(struct waiter *waiter, enum reason reason, const void *result)
{
    struct worker *w = container_of(waiter, struct worker, waiter);
    const struct cancel_answer *a = result;
    for (size_t i = 0; worker_heard(w, reason) && i < a->count; i++) {
        enum reason outcome = a->verdicts[i].outcome;
        if (outcome == REASON_CANCELED || outcome == REASON_ORDER_PAID)
            order_is(w->which[i], outcome == REASON_CANCELED ? ORDER_CANCELED : ORDER_PAID);
        all.canceled += a->verdicts[i].fresh;
    }
    if (!w->stop)
        worker_go(w);
}

static void worker_pays(struct worker *w)
{
    struct pay_item items[24];
    for (size_t i = 0; i < w->count; i++) {    /* several payments of an order, each heard several times */
        const struct create_order *m = &names[w->which[i]];
        bool other = str_eq(m->sku, str_lit("T"));
        items[i] = callback(order_names[w->which[i]], words("b%zu_%zu%c", w->which[i], chance(3), 0).ptr, chance(4) ? PAYMENT_SUCCESS : PAYMENT_FAILED,
                            other ? 250 : 100, other ? "EUR" : "CNY");
        items[i].reservation = chance(8) ? m->reservation : (struct str){0};    /* and once in a while nobody can say whose it is */
    }
    w->waiter = (struct waiter){.wake = worker_paid};
    ledger_pay(w->ledger, &(struct pay_ask){.items = items, .count = w->count}, &w->waiter);
}

static void worker_cancels(struct worker *w)
{
    struct cancel_item items[24];
    bool due = chance(2);
    for (size_t i = 0; i < w->count; i++)
        items[i] = (struct cancel_item){order_names[w->which[i]], due ? (struct str){0} : names[w->which[i]].user};
    w->waiter = (struct waiter){.wake = worker_canceled};
    ledger_cancel(w->ledger, &(struct cancel_ask){.items = items, .count = w->count, .due = due, .why = due ? REASON_PAY_TIMEOUT : REASON_CANCELED}, &w->waiter);
}

static void worker_go(struct worker *w)
{
    struct create_order batch[24];
    size_t what = chance(12);
    w->count = 1 + chance(24);
    for (size_t i = 0; i < w->count; i++)
        batch[i] = names[w->which[i] = chance(NAMES)];
    w->flying = true;
    w->waiter = (struct waiter){.wake = worker_told};
    if (what < 8) {
        ledger_place(w->ledger, &(struct place_ask){.group = str_lit("contract"), .owner = str_lit("x"), .items = batch, .count = w->count}, &w->waiter);
        return;
    }
    if (what > 8) {
        for (size_t i = 0; i < w->count && sold_count > 0; i++)
            w->which[i] = chance(4) ? sold[sold_count - 1 - chance(sold_count < 20 ? sold_count : 20)] : w->which[i];    /* mostly the newest orders */
        w->count = what < 11 ? 1 + w->count / 4 : 1 + w->count / 2;
        what < 11 ? worker_cancels(w) : worker_pays(w);
        return;
    }
    struct release_item items[24];
    w->count = 1 + w->count / 6;
    for (size_t i = 0; i < w->count; i++)
        items[i] = (struct release_item){batch[i], REASON_OVERDUE};
    ledger_release(w->ledger, &(struct release_ask){.items = items, .count = w->count}, &w->waiter);
}

static bool workers_rest(void *arg)
{
    (void)arg;
    for (int i = 0; i < WORKERS; i++)
        if (workers[i].flying)
            return false;
    return true;
}

static int ordered(void)
{
    int n = 0;
    for (int i = 0; i < NAMES; i++)
        n += known[i].outcome == REASON_ORDERED;
    return n;
}

/* Whether there was so much of everything that it can have met. */
static bool enough(void) { return all.batches > 20 && ordered() > 10 && all.paid > 5 && all.canceled > 5 && all.back > 5; }

static void colliding_batches_on_many_connections_keep_every_rule(void **state)
{
    (void)state;
    bazaar = shop("bazaar", UNITS, UNITS, 4);
    for (int i = 0; i < NAMES; i++) {
        bool s = chance(2) == 0;
        struct token token = {bazaar.skus[s ? 0 : 1].unit_first + (int64_t)chance(UNITS), 1 + (uint32_t)(chance(3) * chance(3))};
        int user = (int)chance(USERS);
        names[i] = item(&bazaar, s ? "S" : "T", words("u%d%c", user, 0).ptr, words("q%d%c", (int)chance(3), 0).ptr, words("%04d%c", i, 0).ptr, token);
        order_names[i] = order_of(&names[i]);
        known[i] = (struct verdict){.outcome = REASON_QUEUED};
        ends[i] = ORDER_CREATED;
    }
    sql_done("UPDATE activity SET pay_timeout_s = 1 WHERE activity_id = 'bazaar'");    /* so that the sweep has something to take */
    struct str deadlocks = sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    for (int i = 0; i < WORKERS; i++) {
        workers[i].ledger = postgres_open(&(struct postgres_options){.loop = postgres_world_loop(), .url = postgres_world_url(), .application = "worker"});
        worker_go(&workers[i]);
    }
    for (int ms = 0; ms < PROPERTY_MS || (!enough() && ms < PROPERTY_MOST_MS); ms += 100)    /* as long as it takes, on a busy machine too */
        let_pass(100);
    for (int i = 0; i < WORKERS; i++)
        workers[i].stop = true;
    assert_true(world->run(world, workers_rest, NULL, 10000));
    for (int i = 0; i < WORKERS; i++)
        postgres_close(workers[i].ledger);
    let_pass(200);
    assert_clean((struct str){0});    /* of all: money of no order is of no activity */
    struct str after = sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    print_message("# %d batches on %d connections, %d busy, %d orders, %d paid, %d cancelled, %d refunds, deadlocks " STR_FMT " -> " STR_FMT "\n", all.batches, WORKERS,
                  all.busy, ordered(), all.paid, all.canceled, all.back, STR_ARG(deadlocks), STR_ARG(after));
    assert_true(enough());
    assert_true(str_eq(deadlocks, after));
    assert_sql("SELECT (SELECT count(*) FROM outbox WHERE kind = 'REFUND') - (SELECT count(*) FROM payment_record WHERE refund_status = 'REQUESTED')", "0");
    assert_sql("SELECT count(*) FROM compensation WHERE compensation_type = 'CANCEL_ORDER'", words("%d%c", all.canceled, 0).ptr);
}

/* What every process reads each second costs the same beside 3,000 retired activities of three SKUs and sixteen buckets, though no statistics tell of them. */
static void the_working_set_does_not_grow_with_retired_activities(void **state)
{
    (void)state;
    static const char read[] = "BEGIN; SELECT count(*) FROM activity_catalog(true, '{}', '{}', 0, 0, 0); "
        "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables WHERE relname IN ('activity', 'activity_sku', 'bucket')";
    static const char one[] = "BEGIN; SELECT count(*) FROM activity_catalog(false, '{past_7,none}', '{3999,9}', 0, 0, 0); "
        "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables WHERE relname IN ('activity', 'activity_sku', 'bucket')";
    sql_done("ALTER TABLE activity SET (autovacuum_enabled = off)");
    sql_done("ALTER TABLE activity_sku SET (autovacuum_enabled = off)");
    int64_t before = sql_number(read);
    sql_done("ROLLBACK");
    sql_done("INSERT INTO activity (activity_id, number, title, buckets, state, starts_at, ends_at, pay_timeout_s, qualification, retired_at) "
             "SELECT 'past_' || k, 1000 + k, 'past', 16, 'CLOSED', now() - interval '2 days', now() - interval '1 day', 900, false, now() FROM generate_series(1, 3000) k");
    sql_done("INSERT INTO activity_sku (activity_id, sku_id, place, stock, unit_first, price, currency) "
             "SELECT 'past_' || k, 's' || i, i, 1, 100000000 + 3 * k + i, 100, 'CNY' FROM generate_series(1, 3000) k, generate_series(0, 2) i");
    sql_done("INSERT INTO bucket (activity_id, epoch, bucket, incarnation, recorded_at) "
             "SELECT 'past_' || k, 1, b, 'r', now() FROM generate_series(1, 3000) k, generate_series(0, 15) b");
    sql_done("SELECT pg_stat_force_next_flush()");    /* else what earlier statements read is counted with it */
    int64_t after = sql_number(read);
    sql_done("ROLLBACK");
    if (after > before + 20)
        fail_msg("%lld rows read before, %lld beside 3,000 retired activities", (long long)before, (long long)after);
    int64_t looked_up = sql_number(one);
    sql_done("ROLLBACK");
    assert_true(looked_up > 0 && looked_up <= 200);    /* two of them, with 16 buckets and three SKUs each */
    sql_done("DELETE FROM bucket WHERE activity_id LIKE 'past%'");
    sql_done("DELETE FROM activity_sku WHERE activity_id LIKE 'past%'");
    sql_done("DELETE FROM activity WHERE activity_id LIKE 'past%'");
}

/* ---- sessions and deployments ---- */

static void set_default(const char *setting)
{
    sql_done(words("DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I %s', current_database()); END $$%c", setting, 0).ptr);
}

static struct ledger *another_ledger(void)
{
    return postgres_open(&(struct postgres_options){.loop = postgres_world_loop(), .url = postgres_world_url(), .application = "another"});
}

/* Whatever the database, the role or a pooler would have a session be. */
static void session_does_not_rely_on_defaults(void **state)
{
    static const char *const defaults[] = {"default_transaction_isolation = ''repeatable read''", "client_encoding = ''LATIN1''", "synchronous_commit = off",
                                           "lock_timeout = 0", "standard_conforming_strings = off", "bytea_output = ''escape''", "\"DateStyle\" = ''German''",
                                           "client_min_messages = error", "idle_in_transaction_session_timeout = 0", "search_path = public"};
    (void)state;
    struct activity a = shop("defaults", 5, 5, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), n = item(&a, "S", "bob", "q2", "2", s_unit(&a, 1, 1));
    for (size_t i = 0; i < countof(defaults); i++)
        set_default(words("SET %s%c", defaults[i], 0).ptr);
    struct ledger *before = world->ledger;
    world->ledger = another_ledger();
    let_pass(300);
    assert_true(postgres_ready(world->ledger));
    assert_int_equal(PLACE(m).reason, REASON_OK);    /* require_session lets it through */
    assert_int_equal(strlen(world->ledger->deployment), DEPLOYMENT_TEXT);
    sql_done("BEGIN; LOCK TABLE consumer_inbox IN EXCLUSIVE MODE");
    assert_int_equal(PLACE(n).reason, REASON_LOCK_TIMEOUT);
    sql_done("COMMIT");
    assert_int_equal(migrate(), REASON_OK);
    postgres_close(world->ledger);
    let_pass(100);
    world->ledger = before;
    set_default("RESET ALL");
}

static void function_that_writes_requires_its_session(void **state)
{
    static const char *const writers[] = {
#define CALL(name, lane, writes, budget, statement) (writes) ? statement : "",
#include "call.def"
#undef CALL
    };
    (void)state;
    for (size_t i = 0; i < countof(writers); i++)
        if (writers[i][0])
            assert_sql(words("SELECT count(*) FROM pg_proc WHERE pronamespace = 'seckill'::regnamespace AND proname = substring('%s' from '(\\w+)\\(') "
                             "AND prosrc LIKE '%%require_session()%%'%c", writers[i], 0).ptr, "1");
    sql_done("BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_sql("SELECT finish_outbox('{}', '{}')", "SK001 ");
    sql_done("ROLLBACK");
    sql_done("BEGIN; SET LOCAL synchronous_commit = off");
    assert_sql("SELECT finish_outbox('{}', '{}')", "SK001 ");
    sql_done("ROLLBACK");
}

static void database_of_another_encoding_is_refused(void **state)
{
    (void)state;
    char url[1200];
    sql_done("CREATE DATABASE seckill_latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'");
    snprintf(url, sizeof url, "%s dbname='seckill_latin'", postgres_world_url());
    said[0] = 0;
    assert_int_equal(postgres_migrate(url, 1000, hear, NULL), REASON_ENGINE_REFUSED);
    assert_non_null(strstr(said, "server_encoding is LATIN1 and must be UTF8"));
    sql_done("DROP DATABASE seckill_latin");
}

/* Another database at the same address, while the process runs. */
static void database_of_another_deployment_is_refused(void **state)
{
    (void)state;
    struct activity a = shop("foreign", 5, 5, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    struct ledger *before = world->ledger;
    world->ledger = another_ledger();
    let_pass(300);
    char ours[DEPLOYMENT_TEXT + 1];
    memcpy(ours, sql("SELECT identity FROM deployment").ptr, DEPLOYMENT_TEXT);
    ours[DEPLOYMENT_TEXT] = 0;
    assert_string_equal(world->ledger->deployment, ours);
    sql_done("UPDATE deployment SET identity = 'ffffffffffffffffffffffffffffffff'");
    sql_done("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'another'");
    let_pass(1000);
    assert_false(postgres_ready(world->ledger));
    assert_int_equal(PLACE(m).reason, REASON_DEPENDENCY_DOWN);
    assert_sql("SELECT count(*) FROM consumer_inbox WHERE activity_id = 'foreign'", "0");
    assert_sql("INSERT INTO deployment (identity) VALUES ('00000000000000000000000000000000')", "23505 deployment_pkey");
    sql_done(words("UPDATE deployment SET identity = '%s'%c", ours, 0).ptr);
    let_pass(8000);
    assert_int_equal(PLACE(m).reason, REASON_OK);
    postgres_close(world->ledger);
    let_pass(100);
    world->ledger = before;
}

static enum reason admit(const char *ids, const char *before, const char *user)
{
    struct postgres_key keys[3] = {{.purpose = "ids"}, {.purpose = "user"}, {.purpose = "ids"}};
    char why[512];
    snprintf(keys[0].fingerprint, sizeof keys[0].fingerprint, "%032d", atoi(ids));
    snprintf(keys[1].fingerprint, sizeof keys[1].fingerprint, "%032d", atoi(user));
    snprintf(keys[2].fingerprint, sizeof keys[2].fingerprint, "%032d", atoi(before));
    return postgres_admit(postgres_world_url(), keys, before[0] ? 3 : 2, why);
}

static void process_with_other_keys_is_refused(void **state)
{
    (void)state;
    assert_int_equal(admit("1", "", "7"), REASON_OK);
    assert_int_equal(admit("1", "", "7"), REASON_OK);
    assert_int_equal(admit("2", "", "7"), REASON_CONFLICT);
    assert_int_equal(admit("1", "", "8"), REASON_CONFLICT);
    assert_int_equal(admit("2", "1", "7"), REASON_OK);    /* the keys are changed by two at once */
    assert_int_equal(admit("2", "", "7"), REASON_OK);
    assert_int_equal(admit("3", "4", "7"), REASON_CONFLICT);
    assert_sql("SELECT count(*) FROM deployment_key", "3");
    assert_int_equal(postgres_admit("host=127.0.0.1 port=1", &(struct postgres_key){"ids", "0"}, 1, said), REASON_DEPENDENCY_DOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_does_not_rely_on_defaults),
        cmocka_unit_test(function_that_writes_requires_its_session),
        cmocka_unit_test(database_of_another_encoding_is_refused),
        cmocka_unit_test(database_of_another_deployment_is_refused),
        cmocka_unit_test(process_with_other_keys_is_refused),
        cmocka_unit_test(the_tables_of_moves_are_the_spec),
        cmocka_unit_test(no_statement_breaks_a_promise),
        cmocka_unit_test(the_acceptance_queries_return_nothing),
        cmocka_unit_test(an_audit_does_not_believe_old_statistics),
        cmocka_unit_test(every_rule_finds_its_planted_fault),
        cmocka_unit_test(a_lock_that_stays_is_a_busy_engine),
        cmocka_unit_test(a_backend_killed_in_its_work_did_nothing),
        cmocka_unit_test(a_result_is_not_a_commit),
        cmocka_unit_test(a_warning_makes_the_commit_doubtful),
        cmocka_unit_test(a_deadlock_is_repeated_in_here),
        cmocka_unit_test(a_full_lane_says_so),
        cmocka_unit_test(a_full_lane_of_long_ones_says_so),
        cmocka_unit_test(a_full_lane_of_reports_says_so),
        cmocka_unit_test(nobody_there_is_said_at_once),
        cmocka_unit_test(one_request_is_decided_by_one_at_a_time),
        cmocka_unit_test(one_request_is_decided_by_one_at_a_time_in_an_unusual_batch_too),
        cmocka_unit_test(one_payment_is_judged_by_one_at_a_time),
        cmocka_unit_test(money_of_an_unknown_order_waits_for_a_release),
        cmocka_unit_test(closing_ends_what_flies),
        cmocka_unit_test(colliding_batches_on_many_connections_keep_every_rule),
        cmocka_unit_test(the_working_set_does_not_grow_with_retired_activities),
        cmocka_unit_test(an_audit_reads_rows_of_its_activity_only),
        cmocka_unit_test(an_audit_of_the_rest_finds_what_is_of_no_activity),
        cmocka_unit_test(a_recovery_looks_at_each_unit_once),
        cmocka_unit_test(the_sweep_steps_past_held_rows),
        cmocka_unit_test(a_held_unit_holds_up_no_other),
        cmocka_unit_test(a_count_of_reviews_ends),
        cmocka_unit_test(units_of_a_backlog_may_all_be_under_way),
        cmocka_unit_test(a_migration_that_waits_says_for_whom),
        cmocka_unit_test(a_migration_is_applied_once_and_may_not_change),
    };
    cmocka_set_test_filter(getenv("SECKILL_TEST_ONLY"));
    return cmocka_run_group_tests_name("ledger_postgres", tests, world_begin, world_end);
}

/* SPDX-License-Identifier: Apache-2.0
 * Archiving on a real PostgreSQL (archive.h, docs/retention.md): an activity leaves only when nothing of it is under way; no row is removed that is not in the file;
 * a run may be cut short anywhere; what comes late is refused; numbers are used again after a quarantine, names and units never. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "archive.h"
#include "ident.h"
#include "sql.h"
#include "words.h"
#include "world_postgres.h"

/* ---- a file in memory ---- */

static struct {
    char text[1 << 20];
    size_t len, durable;
    size_t fails_after;    /* lines; 0: never */
    size_t lines;
} file;

static bool write_line(void *arg, struct str line)
{
    (void)arg;
    if (file.fails_after > 0 && ++file.lines > file.fails_after)
        return false;
    assert_true(file.len + line.len + 2 < sizeof file.text);
    memcpy(file.text + file.len, line.ptr, line.len);
    file.len += line.len;
    file.text[file.len++] = '\n';
    file.text[file.len] = 0;
    return true;
}
static bool flush_file(void *arg)
{
    (void)arg;
    file.durable = file.len;
    return true;
}
static const struct archive_file out = {.write = write_line, .flush = flush_file};

static size_t lines_with(const char *needle)
{
    size_t n = 0;
    for (const char *at = file.text; (at = strstr(at, needle)); at++)
        n++;
    return n;
}

static char said[4096];
static void hear(void *arg, const char *line)
{
    (void)arg;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
}

static struct archive *opened(void)
{
    said[0] = 0;
    struct archive *a = archive_open(postgres_world_url(), hear, NULL);
    assert_non_null(a);
    return a;
}

static enum reason begin(const char *activity, uint32_t closed_s)
{
    struct archive_activity what;
    struct archive *a = opened();
    enum reason reason = archive_begin(a, activity, closed_s, "tester", &what);
    if (reason == REASON_ENGINE_REFUSED)
        fail_msg("%s", said);
    archive_close(a);
    return reason;
}

static enum reason take_all(const char *activity, uint32_t batch, uint64_t *rows)
{
    struct archive *a = opened();
    enum reason reason = archive_remove(a, activity, "tester", batch, &out, rows);
    if (reason == REASON_ENGINE_REFUSED && file.fails_after == 0)
        fail_msg("%s", said);
    archive_close(a);
    return reason;
}

static void start_file(void) { file.len = file.durable = file.lines = file.fails_after = 0, file.text[0] = 0; }

/* ---- a sale that is over ---- */

static void close_it(const char *name)
{
    sql_done(words("UPDATE activity SET state = 'CLOSED' WHERE activity_id = '%s'%c", name, 0).ptr);
}
static struct create_order buys(const struct activity *a, int nth)
{
    return item(a, "S", words("u%d%c", nth, 0).ptr, words("q%d%c", nth, 0).ptr, words("%d%c", nth, 0).ptr, s_unit(a, nth, 1));
}
static struct pay_item pays(const struct create_order *m, const char *payment) { return callback(order_of(m), payment, PAYMENT_SUCCESS, 100, "CNY"); }

/* Ten units; four orders, three of them paid and one cancelled, one of them paid twice; one reservation released; nothing is under way. */
static struct activity over(const char *name)
{
    finish_all();
    struct activity a = till(name, 10, 900);
    for (int i = 0; i < 4; i++)
        assert_int_equal(PLACE(buys(&a, i)).verdicts[0].outcome, REASON_ORDERED);
    struct create_order m[4] = {buys(&a, 0), buys(&a, 1), buys(&a, 2), buys(&a, 3)}, refused = buys(&a, 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pay_one(pays(&m[i], words("p_%s_%d%c", name, i, 0).ptr)).outcome, REASON_PAYMENT_APPLIED);
    assert_int_equal(pay_one(pays(&m[0], words("p_%s_extra%c", name, 0).ptr)).outcome, REASON_PAYMENT_EXTRA);
    assert_int_equal(release(refused, REASON_OVERDUE).reason, REASON_OK);
    assert_int_equal(cancel_one(order_of(&m[3]), m[3].user).outcome, REASON_CANCELED);
    finish_all();
    close_it(name);
    return a;
}

static void assert_rows(const char *table, const char *where, int64_t want)
{
    int64_t got = sql_number(words("SELECT count(*) FROM %s WHERE %s%c", table, where, 0).ptr);
    if (got != want)
        fail_msg("%s where %s: %lld rows, not %lld", table, where, (long long)got, (long long)want);
}

/* ---- the tests ---- */

static void what_is_under_way_is_not_archived(void **state)
{
    (void)state;
    finish_all();
    struct activity a = till("arc_busy", 4, 900);
    assert_int_equal(begin("arc_busy", 0), REASON_CONFLICT);
    assert_non_null(strstr(said, "it is DRAFT, not CLOSED"));
    close_it("arc_busy");
    sql_done("UPDATE activity SET updated_at = now() WHERE activity_id = 'arc_busy'");
    assert_int_equal(begin("arc_busy", 3600), REASON_CONFLICT);
    assert_non_null(strstr(said, "less than 3600 s ago"));
    struct create_order m = buys(&a, 0);
    assert_int_equal(PLACE(m).verdicts[0].outcome, REASON_ORDERED);
    assert_int_equal(begin("arc_busy", 0), REASON_CONFLICT);
    assert_non_null(strstr(said, "wait for payment"));
    assert_int_equal(pay_one(pays(&m, "p_busy")).outcome, REASON_PAYMENT_APPLIED);
    assert_int_equal(begin("arc_busy", 0), REASON_CONFLICT);
    assert_non_null(strstr(said, "still in the outbox"));
    finish_all();
    sql_done("INSERT INTO review (review_id, kind, reason, body, reservation_id, activity_id) VALUES ('arc', 'RESERVATION', 'POISON', '', 'rsv_x', 'arc_busy')");
    assert_int_equal(begin("arc_busy", 0), REASON_CONFLICT);
    assert_non_null(strstr(said, "review of it is open"));
    assert_rows("activity", "activity_id = 'arc_busy'", 1);
    sql_done("UPDATE review SET status = 'RESOLVED', decision = 'DISMISS', resolved_at = now() WHERE review_id = 'arc'");
    assert_int_equal(begin("arc_busy", 0), REASON_OK);
    assert_int_equal(begin("arc_nowhere", 0), REASON_UNKNOWN_ACTIVITY);
}

static void every_row_is_in_the_file_and_none_is_left(void **state)
{
    (void)state;
    uint64_t rows = 0;
    struct activity a = over("arc_all");
    start_file();
    assert_int_equal(begin("arc_all", 0), REASON_OK);
    assert_rows("activity", "activity_id = 'arc_all'", 0);
    assert_int_equal(take_all("arc_all", 2, &rows), REASON_OK);
    assert_int_equal(file.len, file.durable);
    static const struct {
        const char *table;
        size_t lines;
    } want[] = {{"orders", 4}, {"payment_record", 4}, {"payment_webhook", 4}, {"inventory_token", 10}, {"consumer_inbox", 5}, {"inventory_journal", 6}, {"compensation", 2}};
    size_t all = 0;
    for (size_t i = 0; i < countof(want); i++) {
        size_t lines = lines_with(words("{\"table\":\"%s\"%c", want[i].table, 0).ptr);
        if (lines != want[i].lines)
            fail_msg("%zu lines of %s, not %zu:\n%s", lines, want[i].table, want[i].lines, file.text);
        all += lines;
    }
    assert_int_equal(rows, all);
    assert_rows("orders", "activity_id = 'arc_all'", 0);
    assert_rows("inventory_token", "activity_id = 'arc_all'", 0);
    assert_rows("payment_record", "payment_id LIKE 'p\\_arc\\_all%'", 0);
    assert_rows("consumer_inbox", "activity_id = 'arc_all'", 5);
    assert_int_equal(take_all("arc_all", 2, &rows), REASON_OK);    /* done before: nothing more */
    assert_int_equal(rows, all);
    assert_int_equal(begin("arc_all", 0), REASON_UNCHANGED);
    (void)a;
    assert_clean((struct str){0});
}

static void what_comes_late_is_refused(void **state)
{
    (void)state;
    uint64_t rows = 0;
    struct activity a = over("arc_late");
    start_file();
    assert_int_equal(begin("arc_late", 0), REASON_OK);
    /* Before its units are gone, and after. */
    struct told early = PLACE(buys(&a, 6));
    assert_int_equal(early.verdicts[0].outcome, REASON_RELEASED);
    assert_int_equal(take_all("arc_late", 100, &rows), REASON_OK);
    struct told again = PLACE(buys(&a, 0), buys(&a, 7));
    assert_int_equal(again.reason, REASON_OK);
    assert_int_equal(again.verdicts[0].outcome, REASON_ORDERED);    /* as it was decided */
    assert_false(again.verdicts[0].fresh);
    assert_int_equal(again.verdicts[1].outcome, REASON_RELEASED);
    assert_rows("orders", "activity_id = 'arc_late'", 0);
    finish_all();
    assert_rows("outbox", "true", 0);
    assert_clean((struct str){0});
}

/* The file is full after each of its lines once: what was removed is in it, and the next run goes on. */
static void a_run_that_is_cut_short_goes_on(void **state)
{
    (void)state;
    uint64_t rows = 0;
    over("arc_cut");
    assert_int_equal(begin("arc_cut", 0), REASON_OK);
    start_file();
    for (size_t at = 1; at < 40; at++) {
        file.lines = 0;
        file.fails_after = at;
        if (take_all("arc_cut", 1, &rows) == REASON_OK)
            break;
        assert_non_null(strstr(said, "the file cannot be written"));
        assert_clean((struct str){0});    /* half of it is gone, and that is no fault */
    }
    assert_rows("orders", "activity_id = 'arc_cut'", 0);
    assert_rows("inventory_token", "activity_id = 'arc_cut'", 0);
    for (int i = 0; i < 4; i++)
        assert_true(lines_with(words("\"reservation_id\":\"rsv_arc_cut_%d\"%c", i, 0).ptr) > 0 || lines_with(words("\"reservation_id\": \"rsv_arc_cut_%d\"%c", i, 0).ptr) > 0);
}

static void a_name_and_a_unit_are_used_once(void **state)
{
    (void)state;
    uint64_t rows = 0;
    struct activity a = over("arc_name");
    start_file();
    assert_int_equal(begin("arc_name", 0), REASON_OK);
    assert_int_equal(take_all("arc_name", 100, &rows), REASON_OK);
    struct sku sku = {.sku = str_lit("S"), .stock = 1, .price = 100, .currency = str_lit("CNY")};
    struct activity_create ask = {.activity = {.activity = str_lit("arc_name"), .title = str_lit("again"), .buckets = 1, .starts_ms = 1000, .ends_ms = 4000000000000,
                                               .pay_timeout_s = 900, .skus = &sku, .sku_count = 1}, .actor = str_lit("test")};
    struct seen seen = SEEN();
    ledger_activity_create(world->ledger, &ask, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_ACTIVITY_ARCHIVED);
    struct activity next = till("arc_next", 1, 900);
    assert_true(next.skus[0].unit_first >= a.skus[0].unit_first + 10);
    assert_true(next.number > a.number);
}

/* What the name of a reservation says, in SQL as in C. */
static void an_old_id_is_told_from_a_new_one(void **state)
{
    (void)state;
    struct ident_keys keys = ident_keys_from(str_lit("secret"), (struct str){0}, str_lit("user"));
    for (int i = 0; i < 64; i++) {
        struct ident_fields f = {.made_ms = 1796083200000 + i * 7919, .activity = (uint16_t)(4095 - i * 64), .epoch = (uint8_t)(1 + i % 31), .bucket = (uint8_t)(i % 32)};
        char text[IDENT_ID_TEXT];
        ident_write(ident_make(&keys, f, (uint64_t)i * 0x123456789), IDENT_RESERVATION, text);
        struct str id = {text, sizeof text};
        assert_int_equal(sql_number(words("SELECT reservation_number('" STR_FMT "')%c", STR_ARG(id), 0).ptr), f.activity);
        assert_int_equal(sql_number(words("SELECT (extract(epoch FROM reservation_made('" STR_FMT "')) * 1000)::bigint%c", STR_ARG(id), 0).ptr), f.made_ms);
        sql_done(words("BEGIN; INSERT INTO archived_activity (activity_id, number, unit_first, unit_past, description, begun_at) "
                       "VALUES ('arc_old', %d, 1, 1, '{}', to_timestamp(%lld))%c", f.activity, (long long)f.made_ms / 1000 + 1, 0).ptr);
        assert_int_equal(sql_number(words("SELECT reservation_archived('" STR_FMT "')::integer%c", STR_ARG(id), 0).ptr), 1);
        sql_done(words("UPDATE archived_activity SET begun_at = to_timestamp(%lld) WHERE activity_id = 'arc_old'%c", (long long)f.made_ms / 1000 - 1, 0).ptr);
        assert_int_equal(sql_number(words("SELECT reservation_archived('" STR_FMT "')::integer%c", STR_ARG(id), 0).ptr), 0);
        sql_done("ROLLBACK");
    }
    assert_int_equal(sql_number("SELECT (reservation_number('rsv_no such name') IS NULL)::integer"), 1);
    assert_int_equal(sql_number("SELECT reservation_archived('')::integer"), 0);
}

/* Money for an order of an archived activity is recorded for an operator, and a reservation of one is not found, though its number is another's now. */
static void money_and_questions_of_an_archived_sale(void **state)
{
    (void)state;
    finish_all();
    struct ident_keys keys = ident_keys_from(str_lit("secret"), (struct str){0}, str_lit("user"));
    struct activity a = till("arc_heir", 1, 900);
    char old[IDENT_ID_TEXT], new[IDENT_ID_TEXT];
    ident_write(ident_make(&keys, (struct ident_fields){.made_ms = 1700000000000, .activity = a.number, .epoch = 1}, 1), IDENT_ORDER, old);
    ident_write(ident_make(&keys, (struct ident_fields){.made_ms = 1900000000000, .activity = a.number, .epoch = 1}, 2), IDENT_ORDER, new);
    sql_done(words("INSERT INTO archived_activity (activity_id, number, unit_first, unit_past, description, begun_at, removed_at) "
                   "VALUES ('arc_testator', %d, 1, 1, '{}', to_timestamp(1800000000), now())%c", a.number, 0).ptr);
    struct pay_verdict late = pay_one(callback((struct str){old, sizeof old}, "p_old", PAYMENT_SUCCESS, 100, "CNY"));
    assert_string_equal(reason_word(late.outcome), "PAYMENT_QUARANTINED");
    assert_string_equal(reason_word(late.why), "ORDER_UNKNOWN");
    assert_string_equal(reason_word(pay_one(callback((struct str){new, sizeof new}, "p_new", PAYMENT_SUCCESS, 100, "CNY")).outcome), "PAYMENT_UNDECIDED");
    memcpy(old, "rsv_", 4);
    memcpy(new, "rsv_", 4);
    for (int i = 0; i < 2; i++) {
        struct release_lost_ask ask = {.group = str_lit("contract"), .reservation = {i == 0 ? old : new, IDENT_ID_TEXT}, .activity = a.activity, .sku = str_lit("S"),
                                       .user = str_lit("ann"), .epoch = 1, .created_ms = 1, .after_ms = 60000};
        struct seen seen = SEEN();
        ledger_release_lost(world->ledger, &ask, &seen.waiter);
        assert_int_equal(seen_await(world, &seen), i == 0 ? REASON_NOT_FOUND : REASON_UNCHANGED);
    }
    finish_all();
}

static void verdicts_are_kept_as_long_as_a_message_may_live(void **state)
{
    (void)state;
    uint64_t rows = 0;
    over("arc_keep");
    start_file();
    assert_int_equal(begin("arc_keep", 0), REASON_OK);
    assert_int_equal(take_all("arc_keep", 100, &rows), REASON_OK);
    struct archive *a = opened();
    start_file();
    rows = 0;
    assert_int_equal(archive_purge(a, 3 * 86400, 730, 2, &out, &rows), REASON_OK);
    assert_rows("consumer_inbox", "activity_id = 'arc_keep'", 5);
    sql_done("UPDATE archived_activity SET begun_at = now() - interval '4 days' WHERE activity_id = 'arc_keep'");
    assert_int_equal(archive_purge(a, 3 * 86400, 730, 2, &out, &rows), REASON_OK);
    archive_close(a);
    assert_rows("consumer_inbox", "activity_id = 'arc_keep'", 0);
    assert_rows("archived_activity", "activity_id = 'arc_keep' AND forgotten_at IS NOT NULL", 1);
    assert_int_equal(lines_with("{\"table\":\"consumer_inbox\""), 5);
    assert_int_equal(rows, 6);    /* and the row of the activity */
}

static void the_log_of_a_year_stays(void **state)
{
    (void)state;
    uint64_t rows = 0;
    sql_done("INSERT INTO audit_log (audit_id, happened_at, actor, action, subject, note) OVERRIDING SYSTEM VALUE "
             "SELECT -n, now() - interval '1 day' * (n + 362), 'old', 'test', 's', '' FROM generate_series(1, 6) n");
    assert_true(str_starts(sql("DELETE FROM audit_log WHERE actor = 'old' AND happened_at > now() - interval '364 days'"), str_lit("23514")));
    struct archive *a = opened();
    start_file();
    assert_int_equal(archive_purge(a, 86400 * 365, 1, 2, &out, &rows), REASON_OK);    /* whatever was asked for, 366 days stay */
    archive_close(a);
    assert_int_equal(lines_with("{\"table\":\"audit_log\""), rows);
    assert_rows("audit_log", "actor = 'old'", 6 - (int64_t)rows);
    assert_rows("audit_log", "actor = 'old' AND happened_at < now() - interval '367 days'", 0);
    assert_rows("audit_log", "actor = 'old' AND happened_at > now() - interval '366 days'", 3);
}

/* Last: all numbers are used. */
static void numbers_are_used_again_after_their_quarantine(void **state)
{
    (void)state;
    int64_t before = sql_number("SELECT activity_numbers_free()");
    sql_done("INSERT INTO activity (activity_id, number, title, buckets, starts_at, ends_at, pay_timeout_s, qualification, state) "
             "SELECT 'fill_' || n, n, '', 1, now(), now() + interval '1 day', 900, false, 'CLOSED' FROM generate_series(1, 4095) n "
             "WHERE activity_number_free(n)");
    sql_done("INSERT INTO activity_sku (activity_id, sku_id, place, stock, unit_first, price, currency) "
             "SELECT activity_id, 'S', 1, 1, 1000000 + number, 100, 'CNY' FROM activity WHERE activity_id LIKE 'fill\\_%'");
    assert_true(before > 4000);
    assert_int_equal(sql_number("SELECT activity_numbers_free()"), 0);
    struct sku sku = {.sku = str_lit("S"), .stock = 1, .price = 100, .currency = str_lit("CNY")};
    struct activity_create ask = {.activity = {.activity = str_lit("one_more"), .title = str_lit("x"), .buckets = 1, .starts_ms = 1000, .ends_ms = 4000000000000,
                                               .pay_timeout_s = 900, .skus = &sku, .sku_count = 1}, .actor = str_lit("test")};
    struct seen seen = SEEN();
    ledger_activity_create(world->ledger, &ask, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_ACTIVITY_NUMBERS_USED);
    int64_t number = sql_number("SELECT number FROM archived_activity WHERE activity_id = 'arc_keep'");
    sql_done("UPDATE archived_activity SET removed_at = now(), forgotten_at = now() - interval '29 days' WHERE activity_id = 'arc_keep'");
    assert_int_equal(sql_number("SELECT activity_numbers_free()"), 0);
    sql_done("UPDATE archived_activity SET forgotten_at = now() - interval '31 days' WHERE activity_id = 'arc_keep'");
    assert_int_equal(sql_number("SELECT activity_numbers_free()"), 1);
    assert_int_equal(till("one_more", 1, 900).number, number);
    assert_int_equal(sql_number("SELECT activity_numbers_free()"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_under_way_is_not_archived), cmocka_unit_test(every_row_is_in_the_file_and_none_is_left), cmocka_unit_test(what_comes_late_is_refused),
        cmocka_unit_test(a_run_that_is_cut_short_goes_on), cmocka_unit_test(a_name_and_a_unit_are_used_once), cmocka_unit_test(an_old_id_is_told_from_a_new_one),
        cmocka_unit_test(money_and_questions_of_an_archived_sale),
        cmocka_unit_test(verdicts_are_kept_as_long_as_a_message_may_live), cmocka_unit_test(the_log_of_a_year_stays),
        cmocka_unit_test(numbers_are_used_again_after_their_quarantine),
    };
    return cmocka_run_group_tests_name("archive", tests, world_begin, world_end);
}

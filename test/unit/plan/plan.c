/* SPDX-License-Identifier: Apache-2.0
 * The plan against the mission: every number that its §12 and §13 compute, each with its section, is compared with what our formulas make of the
 * mission's inputs. And the room's own rules: formulas, rounding, what is unknown, what binds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "check.h"
#include "expression.h"
#include "plan_report.h"

static struct plan plan;

/* What the mission's text says. `within`: how far its "about" goes (0: exactly). PLANNED compares the rounded number. */
enum { BARE, PLANNED };
static const struct {
    const char *section, *line;
    int which;
    double said, within;
} mission[] = {
    {"12.1", "mean_rate", BARE, 100000, 0},
    {"12.1", "sale.peak", BARE, 300000, 0},
    {"12.1", "peak_ratio", BARE, 3, 0},
    {"12.1", "entry_target", BARE, 390000, 0},
    {"12.2", "messages", BARE, 10000, 0},
    {"12.2", "order_target", BARE, 5000, 0},
    {"12.3", "in_flight_mean", BARE, 12000, 0},
    {"12.3", "in_flight_p99", BARE, 30000, 0},
    {"12.3", "in_flight_target", BARE, 39000, 0},
    {"12.4", "edge_connections", BARE, 450000, 0},
    {"12.4", "edge_target", BARE, 585000, 0},
    {"12.4", "edge_target", PLANNED, 600000, 0},
    {"12.5", "access_needed", PLANNED, 36, 0},
    {"12.5", "access_total", BARE, 36, 0},
    {"12.5", "access_per_zone", BARE, 12, 0},
    {"12.5", "access_rate", BARE, 8333, 0.5},
    {"12.5", "access_left", BARE, 24, 0},
    {"12.5", "access_rate_left", BARE, 12500, 0},
    {"12.5", "access_needed_slow", PLANNED, 54, 0},
    {"12.6", "redis_target", BARE, 390000, 0},
    {"12.6", "redis_shard_target", BARE, 48750, 0},
    {"12.7", "memory_naive_low", BARE, 0.5, 0},
    {"12.7", "memory_naive_high", BARE, 1, 0},
    {"12.8", "messages", BARE, 10000, 0},
    {"12.8", "messages_target", BARE, 10500, 0},
    {"12.8", "produce_rate", BARE, 12500, 0},
    {"12.8", "order_rate", BARE, 5000, 0},
    {"12.8", "backlog", BARE, 6000, 0},
    {"12.8", "backlog_drain", BARE, 1.22, 0.005},
    {"12.8", "last_order_low", PLANNED, 2.1, 0},
    {"12.8", "last_order_high", PLANNED, 2.4, 0},
    {"12.9", "messages_all", BARE, 200000, 0},
    {"12.9", "drain_all", BARE, 40, 0},
    {"12.10", "order_floor", PLANNED, 3334, 0},
    {"12.10", "order_target", BARE, 5000, 0},
    {"12.10", "order_active", BARE, 40, 0},
    {"12.10", "order_pool_low", BARE, 80, 0},
    {"12.10", "order_pool_high", BARE, 96, 0},
    {"12.11", "query_users", BARE, 10000, 0},
    {"12.11", "query_peak", BARE, 20000, 0},
    {"12.11", "query_low", BARE, 30000, 0},
    {"12.11", "query_high", BARE, 50000, 0},
    {"12.11", "query_often", BARE, 100000, 0},
    {"12.12", "entry_target", PLANNED, 390000, 0},
    {"12.12", "edge_target", PLANNED, 600000, 0},
    {"12.12", "access_total", PLANNED, 36, 0},
    {"12.12", "in_flight_target", PLANNED, 39000, 0},
    {"12.12", "redis_target", PLANNED, 390000, 0},
    {"12.12", "redis_shard_target", PLANNED, 49000, 0},
    {"12.12", "messages", PLANNED, 10000, 0},
    {"12.12", "messages_target", PLANNED, 10500, 0},
    {"12.12", "order_target", PLANNED, 5000, 0},
    {"12.12", "order_pool_low", PLANNED, 80, 0},
    {"12.12", "order_pool_high", PLANNED, 96, 0},
    {"12.12", "query_low", PLANNED, 30000, 0},
    {"12.12", "query_high", PLANNED, 50000, 0},
    {"13.1", "stage.edge.p50", BARE, 4, 0}, {"13.1", "stage.edge.p95", BARE, 9, 0}, {"13.1", "stage.edge.p99", BARE, 15, 0},
    {"13.1", "stage.hop.p50", BARE, 1, 0}, {"13.1", "stage.hop.p95", BARE, 3, 0}, {"13.1", "stage.hop.p99", BARE, 5, 0},
    {"13.1", "stage.check.p50", BARE, 1, 0}, {"13.1", "stage.check.p95", BARE, 2, 0}, {"13.1", "stage.check.p99", BARE, 4, 0},
    {"13.1", "stage.reserve.p50", BARE, 3, 0}, {"13.1", "stage.reserve.p95", BARE, 8, 0}, {"13.1", "stage.reserve.p99", BARE, 18, 0},
    {"13.1", "stage.publish.p50", BARE, 5, 0}, {"13.1", "stage.publish.p95", BARE, 15, 0}, {"13.1", "stage.publish.p99", BARE, 28, 0},
    {"13.1", "stage.answer.p50", BARE, 2, 0}, {"13.1", "stage.answer.p95", BARE, 5, 0}, {"13.1", "stage.answer.p99", BARE, 10, 0},
    {"13.1", "accept_p50", BARE, 16, 0},
    {"13.1", "accept_p95", BARE, 42, 0},
    {"13.1", "accept_p99", BARE, 80, 0},
    {"13.1", "accept_spare", BARE, 20, 0},
    {"13.1", "target.accept", BARE, 100, 0},
    {"13.2", "stage.queue.p50", BARE, 100, 0}, {"13.2", "stage.queue.p95", BARE, 900, 0}, {"13.2", "stage.queue.p99", BARE, 1900, 0},
    {"13.2", "stage.pull.p50", BARE, 10, 0}, {"13.2", "stage.pull.p95", BARE, 40, 0}, {"13.2", "stage.pull.p99", BARE, 100, 0},
    {"13.2", "stage.place.p50", BARE, 8, 0}, {"13.2", "stage.place.p95", BARE, 20, 0}, {"13.2", "stage.place.p99", BARE, 50, 0},
    {"13.2", "stage.tell.p50", BARE, 10, 0}, {"13.2", "stage.tell.p95", BARE, 60, 0}, {"13.2", "stage.tell.p99", BARE, 200, 0},
    {"13.2", "order_p50", BARE, 128, 0},
    {"13.2", "order_p95", BARE, 1020, 0},
    {"13.2", "order_p99", BARE, 2250, 0},
    {"13.2", "target.order_p99", BARE, 2500, 0},
    {"13.2", "order.deadline", BARE, 3, 0},
    {"14.1", "messages", BARE, 10000, 0},
    {"16.3", "target.available", BARE, 0.9995, 0},
    {"16.3", "target.fast", BARE, 0.99, 0},
    {"16.3", "target.timely", BARE, 0.999, 0},
    {"16.3", "target.settled", BARE, 0.9999, 0},
    {"17.4", "mean_rate", BARE, 100000, 0},
    {"17.4", "sale.retries", BARE, 0.20, 0},
    {"17.4", "sale.doubled", BARE, 0.01, 0},
};

static double at(const char *name) { return plan_value(&plan, plan_row_of(name)); }

static void every_number_of_the_mission(void **state)
{
    (void)state;
    int wrong = 0;
    plan_init(&plan);
    for (size_t i = 0; i < countof(mission); i++) {
        size_t row = plan_row_of(mission[i].line);
        double got = mission[i].which == PLANNED ? plan_planned(&plan, row) : plan_value(&plan, row);
        double within = mission[i].within + fabs(mission[i].said) * 1e-9;
        if (!(fabs(got - mission[i].said) <= within)) {
            printf("mission §%s %s: %.10g, the mission says %.10g\n", mission[i].section, mission[i].line, got, mission[i].said);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static bool set(const char *name, double value) { return plan_set(&plan, plan_row_of(name), value, PLAN_SET, 0); }

static void a_slower_instance_takes_54(void **state)
{
    (void)state;
    plan_init(&plan);
    assert_true(set("capacity.access", 10000));
    assert_true(at("access_total") == 54);
    assert_true(at("access_per_zone") == 18);
}

static void every_formula_is_one_and_names_what_is_there(void **state)
{
    (void)state;
    plan_init(&plan);
    struct plan_view views[] = {{.plan = &plan, .source = "x"}, {.plan = &plan, .chinese = true, .source = "x"}};
    for (size_t row = 0; row < PLAN_ROWS; row++) {
        const struct plan_row *r = plan_row(row);
        plan_value(&plan, row);    /* checks names and circles */
        assert_int_equal(plan_find(str_of(r->name)), row);    /* no name twice */
        for (size_t v = 0; v < countof(views); v++) {
            plan_unit(&views[v], r->unit);
            assert_true(plan_text(&views[v], row)[0] != 0);
            if (row >= PLAN_INPUTS)
                plan_section(&views[v], r->section);
        }
        if (row < PLAN_INPUTS && isfinite(plan_value(&plan, row))) {
            assert_true(plan_value(&plan, row) >= r->min && plan_value(&plan, row) <= r->max);
        }
    }
    for (size_t i = 0; i < PLAN_RESOURCES; i++)
        assert_true(plan_row_of(plan_resource(i)->more) < PLAN_INPUTS);
}

/* Where the named assumption changes, the line does: it is one that binds. */
static void what_a_line_assumes_moves_it(void **state)
{
    (void)state;
    plan_init(&plan);
    static const char *const prices[] = {"price.access", "price.order", "price.redis", "price.broker", "price.postgres"};
    for (size_t i = 0; i < countof(prices); i++)
        assert_true(set(prices[i], 1));
    for (size_t row = PLAN_INPUTS; row < PLAN_ROWS; row++) {
        size_t input = plan_row_of(plan_row(row)->assumes);
        assert_true(input < PLAN_INPUTS);
        double by = plan_sensitivity(&plan, row, input);
        if (!(fabs(by) > 1e-6))
            fail_msg("%s does not depend on %s", plan_row(row)->name, plan_row(row)->assumes);
    }
}

static void what_is_not_known_stays_so(void **state)
{
    (void)state;
    plan_init(&plan);
    assert_true(isnan(at("cost_hour")) && isnan(at("cost_order")) && isnan(at("capacity.broker")));
    struct plan_use ranks[PLAN_RESOURCES];
    plan_rank(&plan, ranks);
    for (size_t i = 1; i < PLAN_RESOURCES; i++)
        assert_true(isnan(ranks[i].use) || ranks[i].use <= ranks[i - 1].use);
    assert_true(isnan(ranks[PLAN_RESOURCES - 1].use));
    assert_string_equal(ranks[0].resource->name, "orders");    /* 200,000 in 3 s by one database: twenty times its reach with headroom */
    assert_true(set("sale.skus", 1));
    plan_rank(&plan, ranks);
    assert_string_equal(ranks[0].resource->name, "zone");
    assert_true(fabs(ranks[0].use - 300000.0 / 360000) < 1e-12);
}

static void a_backlog_that_grows_never_ends(void **state)
{
    (void)state;
    plan_init(&plan);
    assert_true(set("capacity.order", 100));
    assert_true(isinf(at("backlog_drain")));    /* mission §12.8: consumed no faster than produced */
    assert_true(set("sale.stray", 99));
    assert_true(fabs(at("backlog_drain") - (12500 - 100) * 0.8) < 1e-6);
    assert_true(set("capacity.order", 20000));
    assert_true(at("backlog") == 0 && at("backlog_drain") == 0);
}

static void shards_for_200000_orders_in_3_s(void **state)
{
    (void)state;
    plan_init(&plan);
    assert_true(plan_planned(&plan, plan_row_of("shards_bare")) == 14);
    assert_true(plan_planned(&plan, plan_row_of("shards_needed")) == 20);
    assert_true(set("postgres.shards", 20));
    assert_true(at("drain_all") == 2);
    assert_true(at("backlog") == 6000);    /* one SKU lies in one database: the hottest gains nothing */
}

static void ranges_are_kept(void **state)
{
    (void)state;
    plan_init(&plan);
    assert_false(set("sale.peak", 0));
    assert_false(set("headroom.entry", -1));
    assert_false(set("sale.peak", NAN));
    assert_true(at("sale.peak") == 300000);
}

/* ---- expressions ----------------------------------------------------------------------------------------------------------- */

static double two(void *arg, struct str name, bool *known)
{
    (void)arg;
    *known = str_eq(name, str_lit("two")) || str_eq(name, str_lit("what.ever"));
    return str_eq(name, str_lit("two")) ? 2 : NAN;
}

static double work(const char *text)
{
    double x;
    const char *fault;
    size_t where;
    assert_true(expression_work(str_of(text), two, NULL, &x, &fault, &where));
    assert_null(fault);
    return x;
}

static void formulas(void **state)
{
    (void)state;
    static const struct { const char *text; double value; } good[] = {
        {"1 + 2 * 3", 7}, {"(1 + 2) * 3", 9}, {"8 / two / 2", 2}, {"8 - 2 - 1", 5}, {"-two * -3", 6}, {"max(1, two, 1.5)", 2}, {"min(3, two)", 2},
        {"whole(35.2)", 36}, {"whole(36.0000000001)", 36}, {"figures1(585000)", 600000}, {"figures1(500000)", 500000}, {"figures2(48750)", 49000},
        {"figures2(2.0524)", 2.1}, {"figures1(0.0123)", 0.02}, {"above(-3)", 0}, {"above(3)", 3}, {"drain(0, -1)", 0}, {"drain(6, 3)", 2}, {"300000*1.2/(15000*2/3)", 36}};
    for (size_t i = 0; i < countof(good); i++)
        if (!(fabs(work(good[i].text) - good[i].value) < 1e-9))
            fail_msg("%s is %g", good[i].text, work(good[i].text));
    assert_true(isinf(work("whole(drain(1, 0))")) && isinf(work("figures1(drain(1, 0))")));
    assert_true(isinf(work("drain(1, 0)")) && isnan(work("what.ever * 2")) && isnan(work("max(1, what.ever)")) && isnan(work("max(what.ever, 1)")));
    assert_true(isnan(work("min(1, what.ever, 3)")) && isnan(work("drain(what.ever, 1)")) && isnan(work("above(what.ever)")));
    static const char *const bad[] = {"", "1 +", "(1", "1)", "three", "max()", "whole(1, 2)", "nofun(1)", "1 2", "*", "1..2", "drain(1)", "max(1,2,3,4,5,6,7,8,9)"};
    for (size_t i = 0; i < countof(bad); i++) {
        double x;
        const char *fault = NULL;
        size_t where;
        assert_false(expression_work(str_of(bad[i]), two, NULL, &x, &fault, &where));
        assert_non_null(fault);
        assert_true(where <= strlen(bad[i]));
    }
    char deep[200];
    memset(deep, '(', 100), memset(deep + 100, 0, 100);
    double x;
    const char *fault;
    size_t where;
    assert_false(expression_work(str_of(deep), two, NULL, &x, &fault, &where));
}

static void numbers_for_people(void **state)
{
    (void)state;
    static const struct { double x; const char *text; } said[] = {{390000, "390,000"}, {8333.33, "8,333"}, {1.2245, "1.22"}, {0.05, "0.05"}, {36, "36"}, {0, "0"},
        {1234567.8, "1,234,568"}, {-12500, "-12,500"}, {-250, "-250"}, {0.0999999, "0.1"}, {999.96, "1,000"}, {0.0001234, "0.0001234"}, {0.9995, "0.9995"}, {INFINITY, "never"}, {NAN, "?"}};
    for (size_t i = 0; i < countof(said); i++) {
        char memory[64];
        struct buf out = buf_fixed(memory, sizeof memory - 1);
        expression_number(&out, said[i].x);
        memory[out.len] = 0;
        assert_string_equal(memory, said[i].text);
    }
}

/* ---- reports --------------------------------------------------------------------------------------------------------------- */

static struct buf report(void (*write)(struct buf *, const struct plan_view *), bool chinese)
{
    struct plan_view v = {.plan = &plan, .chinese = chinese, .source = "a<b>.yaml", .measured = ""};
    struct buf out = buf_growing(PLAN_REPORT_MAX);
    write(&out, &v);
    buf_add_char(&out, 0);
    assert_true(buf_ok(&out));
    return out;
}

static void reports_say_it_in_both_languages(void **state)
{
    (void)state;
    plan_init(&plan);
    for (int chinese = 0; chinese < 2; chinese++) {
        struct buf table = report(plan_table, chinese), page = report(plan_html, chinese), json = report(plan_json, chinese);
        assert_non_null(strstr(table.ptr, "585,000 → 600,000"));
        assert_non_null(strstr(table.ptr, chinese ? "入口设计容量" : "entrance, to be designed for"));
        assert_non_null(strstr(page.ptr, "<svg"));
        assert_null(strstr(page.ptr, "http"));        /* nothing is fetched from anywhere */
        assert_null(strstr(page.ptr, "<script"));
        assert_null(strstr(page.ptr, "a<b>"));
        assert_non_null(strstr(json.ptr, "\"name\":\"cost_hour\",\"section\":\"ours\""));
        assert_non_null(strstr(json.ptr, "\"value\":null"));
        buf_free(&table), buf_free(&page), buf_free(&json);
    }
}

static void a_line_is_explained_to_its_inputs(void **state)
{
    (void)state;
    plan_init(&plan);
    assert_true(plan_set(&plan, plan_row_of("sale.peak"), 300000, PLAN_FILE, 7));
    struct plan_view v = {.plan = &plan, .source = "p.yaml", .measured = ""};
    struct buf out = buf_growing(PLAN_REPORT_MAX);
    plan_explain(&out, &v, plan_row_of("access_needed"));
    buf_add_char(&out, 0);
    static const char *const lines[] = {"§12.5", "up to a whole number", "sale.peak × (1 + headroom.zone) / (capacity.access × (zone.count - 1) / zone.count)",
        "300,000 × (1 + 0.2) / (15,000 × (3 - 1) / 3)", "p.yaml:7", "a tenth more of it: +10.0 %", "assumed, §12.5; a tenth more of it: -9.1 %"};
    for (size_t i = 0; i < countof(lines); i++)
        if (!strstr(out.ptr, lines[i]))
            fail_msg("not said: %s\nin: %s", lines[i], out.ptr);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_the_mission),
        cmocka_unit_test(a_slower_instance_takes_54),
        cmocka_unit_test(every_formula_is_one_and_names_what_is_there),
        cmocka_unit_test(what_a_line_assumes_moves_it),
        cmocka_unit_test(what_is_not_known_stays_so),
        cmocka_unit_test(a_backlog_that_grows_never_ends),
        cmocka_unit_test(shards_for_200000_orders_in_3_s),
        cmocka_unit_test(ranges_are_kept),
        cmocka_unit_test(formulas),
        cmocka_unit_test(numbers_for_people),
        cmocka_unit_test(reports_say_it_in_both_languages),
        cmocka_unit_test(a_line_is_explained_to_its_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * What a load is made of: scenarios that are read whole or refused, arrival times that are exact, stages read from metrics, thresholds judged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "check.h"
#include "load_crew.h"
#include "load_result.h"
#include "load_schedule.h"
#include "metric_names.h"
#include "verb.h"

/* ---- the schedule ----------------------------------------------------------------------------------------------------------------------------- */

static void even_arrivals_are_exact_in_any_number_of_parts(void **state)
{
    struct load_shape shape = load_shape_steady(1000, 10);
    (void)state;
    assert_true(fabs(shape.total - 10000) < 1e-6);
    for (unsigned parts = 1; parts <= 7; parts++) {
        static uint8_t at[10000];
        memset(at, 0, sizeof at);
        for (unsigned part = 0; part < parts; part++) {
            struct load_schedule s = load_schedule_new(&shape, part, parts, false, 1);
            for (uint64_t us, n = part; load_schedule_next(&s, &us); n += parts) {
                assert_true(us >= n * 1000 + 499 && us <= n * 1000 + 501);
                at[n]++;
            }
        }
        for (size_t i = 0; i < 10000; i++)
            assert_int_equal(at[i], 1);
    }
}

/* As many have come by any moment as there is area under the line: counted against the line summed up in small steps. */
static void arrivals_follow_the_line(void **state)
{
    const struct load_shape shapes[] = {load_shape_ramp(100, 3000, 6), load_shape_ramp(2000, 50, 6), load_shape_spike(1000, 3000, 6), load_shape_spike(1000, 4250, 6)};
    (void)state;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const struct load_shape *shape = &shapes[k];
        struct load_schedule s = load_schedule_new(shape, 0, 1, false, 1);
        uint64_t us, last = 0, came = 0;
        double area = 0, t = 0;
        size_t piece = 0;
        while (load_schedule_next(&s, &us)) {
            assert_true(us >= last);
            last = us;
            for (; t * 1e6 < (double)us; t += 1e-5) {
                while (piece + 2 < shape->count && shape->points[piece + 1].s <= t)
                    piece++;
                const struct load_point *p = &shape->points[piece];
                area += (p->rate + (p[1].rate - p->rate) * (t - p->s) / (p[1].s - p->s)) * 1e-5;
            }
            came++;
            assert_true(fabs((double)came - 0.5 - area) < 1.5);
        }
        assert_true(fabs((double)came - shape->total) <= 1);
    }
}

static void the_spike_is_the_missions(void **state)
{
    struct load_shape shape = load_shape_spike(100000, 300000, 10);
    double most = 0;
    (void)state;
    assert_true(fabs(shape.total - 1000000) < 1);
    for (size_t i = 0; i < shape.count; i++)
        most = fmax(most, shape.points[i].rate);
    assert_true(most == 300000);
    assert_true(load_shape_seconds(&shape) == 10);
    assert_true(load_shape_when(&shape, shape.total) <= 10);
}

static void chance_comes_as_independent_people_do(void **state)
{
    struct load_shape shape = load_shape_steady(20000, 10);
    double sum = 0, squares = 0;
    uint64_t n = 0, us, other, first[2] = {0};
    (void)state;
    for (unsigned part = 0; part < 2; part++) {
        struct load_schedule s = load_schedule_new(&shape, part, 2, true, 77), again = load_schedule_new(&shape, part, 2, true, 77);
        for (uint64_t last = 0; load_schedule_next(&s, &us); last = us, n++) {
            assert_true(load_schedule_next(&again, &other));
            assert_int_equal(us, other);    /* the same seed, the same crowd */
            first[part] = first[part] ? first[part] : us + 1;
            double gap = (double)(us - last);
            sum += gap, squares += gap * gap;
        }
    }
    assert_int_not_equal(first[0], first[1]);
    assert_true(fabs((double)n - 200000) < 4 * sqrt(200000));
    double mean = sum / (double)n, deviation = sqrt(squares / (double)n - mean * mean);
    assert_true(fabs(mean - 100) < 2);
    assert_true(fabs(deviation / mean - 1) < 0.03);    /* as wide as it is long: exponential */
}

/* ---- the scenario ------------------------------------------------------------------------------------------------------------------------------ */

static char said[8192];
static bool read_text(const char *text, double scale, struct load_scenario *s)
{
    char path[] = "/tmp/test_load.XXXXXX";
    int fd = mkstemp(path);
    struct buf complaints = buf_fixed(said, sizeof said - 1);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    bool good = load_scenario_read(s, path, scale, &complaints);
    said[complaints.len] = 0;
    unlink(path);
    return good;
}

static void a_scenario_is_read_whole(void **state)
{
    struct load_scenario s, again;
    (void)state;
    assert_true(read_text("sale: {stock: 30, skus: 4, skew: 1.5}\narrivals.shape: spike\narrivals: {rate: 100, peak: 300, seconds: 4, scale: 0.5}\nthresholds: {p99_ms: 12.5, sold: 10}\n", 0, &s));
    assert_int_equal(s.stock, 30);
    assert_int_equal(s.skus, 4);
    assert_string_equal(s.shape, "spike");
    assert_true(s.skew == 1.5 && s.retries == 20 && s.poll_first_ms == 500);
    assert_true(fabs(s.arrivals.total - 200) < 1e-6);
    assert_true(s.set[LOAD_THRESHOLD_P99] && s.limit[LOAD_THRESHOLD_P99] == 12.5 && !s.set[LOAD_THRESHOLD_LOST]);
    struct buf text = buf_growing(65536);
    load_scenario_write(&s, &text);
    buf_add_char(&text, 0);
    assert_true(read_text(text.ptr, 0, &again));
    struct buf twice = buf_growing(65536);
    load_scenario_write(&again, &twice);
    assert_string_equal(text.ptr, (buf_add_char(&twice, 0), twice.ptr));
    buf_free(&text), buf_free(&twice);
    load_scenario_free(&again);
    load_scenario_free(&s);
    assert_true(read_text("arrivals: {rate: 100, seconds: 1, scale: 0.5}", 2, &s));
    assert_true(s.arrivals.total == 200);    /* the scale of the command line instead of the file's */
    load_scenario_free(&s);
}

static void anything_else_is_refused_in_words(void **state)
{
    static const struct { const char *text, *words; } bad[] = {
        {"arrivals: {raet: 5}", "there is no key arrivals.raet; did you mean arrivals.rate?"},
        {"threshold: {p99_ms: 5}", "did you mean thresholds.p99_ms?"},
        {"nonsense: 1", "there is no key nonsense\n"},
        {"arrivals.rate: fast", "arrivals.rate: \"fast\" is not good: expected a number from 0.1 to 10000000"},
        {"arrivals.rate: 0x10", "is not good"},
        {"arrivals.rate: inf", "is not good"},
        {"arrivals.rate: 1e9", "is not good"},
        {"sale.stock: 1.5", "sale.stock: \"1.5\" is not good: expected a whole number from 1 to 1000000"},
        {"arrivals.shape: square", "expected one of steady|ramp|spike"},
        {"arrivals: {rate: 5}\narrivals.rate: 6", ":2: arrivals.rate stands in line 1 already"},
        {"thresholds.p99_ms: -1", "expected a number from 0"},
        {"thresholds.p99_ms: 1\nthresholds.p99_ms: 2", "stands in line 1 already"},
        {"arrivals: {shape: ramp}", "a ramp and a spike need one"},
        {"arrivals: {shape: spike, rate: 100, peak: 500}", "between arrivals.rate and 4.25 times that"},
        {"arrivals: {rate: 1000000, seconds: 600}", "more than 20,000,000 requests"},
        {"arrivals: {rate: 0.1, seconds: 1}", "not one request"},
        {"people.retries: 60\nbots.flood: 40", "they leave nobody"},
        {"sale: {skus: 64, stock: 1000000}", "more than 1,000,000 units"},
        {"sale.activity: act_1", "sale.activity needs it"},
        {"sale.activity: ../x", "an id"},
        {"- a\n- b", "a list is not expected"},
        {"", "says nothing"},
        {"# arrivals.rate: 5\n", "says nothing"},
        {"{}", "says nothing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct load_scenario s;
        if (read_text(bad[i].text, 0, &s) || !strstr(said, bad[i].words))
            fail_msg("%s: %s", bad[i].text, said);
        load_scenario_free(&s);
    }
}

static void a_process_has_only_so_many_connections(void **state)
{
    static const struct { const char *text; bool fits; unsigned count; } all[] = {
        {"generator: {connections: 16000, processes: 1}", true, 1}, {"generator: {connections: 18001, processes: 1}", false, 1},
        {"generator: {connections: 36001, processes: 2}", false, 2}, {"generator: {connections: 640, processes: 64}", true, 64}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct load_scenario s;
        char memory[256];
        struct buf why = buf_fixed(memory, sizeof memory);
        unsigned count = 0;
        assert_true(read_text(all[i].text, 0, &s));
        assert_true(load_crew_fits(&s, &count, &why) == all[i].fits);
        assert_int_equal(count, all[i].count);
        assert_true(all[i].fits == (why.len == 0));
        load_scenario_free(&s);
    }
}

/* ---- stages --------------------------------------------------------------------------------------------------------------------------------------- */

static void stages_are_read_and_subtracted(void **state)
{
    static struct load_service before, after;
    (void)state;
    load_service_parse(&before, str_lit("# HELP x\nseckill_place_seconds_bucket{le=\"0.01\"} 10\nseckill_place_seconds_bucket{le=\"+Inf\"} 10\nseckill_place_seconds_count 10\n"
                                        "seckill_verdicts_total{code=\"ORDERED\"} 5\n"));
    /* two processes of one sale */
    load_service_parse(&after, str_lit("seckill_place_seconds_bucket{le=\"0.01\"} 10\nseckill_place_seconds_bucket{le=\"0.02\"} 110\nseckill_place_seconds_bucket{le=\"+Inf\"} 110\n"
                                       "seckill_place_seconds_sum 3\nseckill_place_seconds_count 110\nseckill_verdicts_total{code=\"ORDERED\"} 7\n"));
    load_service_parse(&after, str_lit("seckill_place_seconds_bucket{le=\"0.01\"} 0\nseckill_place_seconds_bucket{le=\"0.02\"} 100\nseckill_place_seconds_bucket{le=\"+Inf\"} 100\n"
                                       "seckill_place_seconds_count 100\nseckill_verdicts_total{code=\"ORDERED\"} 2\nseckill_verdicts_total{code=\"OVERDUE\"} 9\n"));
    load_service_since(&after, &before);
    const struct load_stage_counts *c = &after.stages[LOAD_STAGE_PLACE];
    assert_true(c->count == 200);
    assert_true(after.ordered == 4);
    assert_true(fabs(load_stage_quantile(c, 0.5) - 15) < 1e-9);      /* all lie between 10 and 20 ms */
    assert_true(fabs(load_stage_quantile(c, 0.99) - 19.9) < 1e-9);
    assert_true(load_stage_quantile(&after.stages[LOAD_STAGE_TELL], 0.5) == 0);
}

/* Every stage's metric is a histogram that the service has: what it exposes is read back. */
static void every_stage_has_its_metric(void **state)
{
    static const enum metric histograms[] = {
#define METRIC(symbol, kind, label, owner, name, help) METRIC_KIND_##kind(symbol)
#define METRIC_KIND_COUNTER(symbol)
#define METRIC_KIND_GAUGE(symbol)
#define METRIC_KIND_HISTOGRAM(symbol) METRIC_##symbol,
#include "metric.def"
#undef METRIC
    };
    static struct load_service s;
    struct buf text = buf_growing(1 << 20);
    (void)state;
    for (size_t i = 0; i < sizeof histograms / sizeof *histograms; i++)
        metric_observe(histograms[i], 70000);
    metric_expose(&text, METRIC_OF_ANY, metric_names);
    load_service_parse(&s, buf_str(&text));
    for (unsigned i = 0; i < LOAD_STAGES; i++) {
        assert_true(s.stages[i].count == 1);
        assert_true(load_stage_quantile(&s.stages[i], 1) >= 70 && load_stage_quantile(&s.stages[i], 1) <= 75);
    }
    buf_free(&text);
}

/* ---- judging -------------------------------------------------------------------------------------------------------------------------------------- */

struct judged {
    struct load_scenario scenario;
    struct load_stats stats;
    struct audit_sku sku;
    struct audit audit;
    struct load_result result;
};

static struct judged *judged_new(const char *scenario)
{
    struct judged *j = calloc(1, sizeof *j);
    assert_true(read_text(scenario, 0, &j->scenario));
    for (unsigned i = 1; i <= 1000; i++) {
        histogram_add(&j->stats.deeds[LOAD_RESERVE].latency, i * 100);    /* 0.1 … 100 ms */
        histogram_add(&j->stats.late, 50);
    }
    j->stats.deeds[LOAD_RESERVE].sent = j->stats.deeds[LOAD_RESERVE].answered = 1000;
    j->stats.seconds[0].answered = 1000;
    j->stats.people = 1000;
    j->sku.count.o = 5;
    j->audit = (struct audit){.reason = REASON_OK, .skus = &j->sku, .sku_count = 1};
    j->result = (struct load_result){.scenario = &j->scenario, .stats = &j->stats, .audit = &j->audit, .path = "here", .activity = "a"};
    return j;
}
static int judge(struct judged *j)
{
    load_result_judge(&j->result);
    return load_result_leave(&j->result);
}
static void judged_free(struct judged *j)
{
    load_scenario_free(&j->scenario);
    free(j);
}

#define ALL_KEPT "arrivals: {rate: 1000, seconds: 1}\nthresholds: {p50_ms: 51, p99_ms: 100, lost: 0, errors: 0, undecided: 0, answered_per_s: 1000, sold: 5}"
static void what_is_kept_leaves_0_and_what_is_missed_99(void **state)
{
    static const char *const missed[] = {"p50_ms: 49", "p99_ms: 98", "p999_ms: 99", "accepted_p99_ms: 100", "poll_p99_ms: 5", "ordered_p99_ms: 9", "answered_per_s: 1001", "sold: 6"};
    struct judged *j = judged_new(ALL_KEPT);
    (void)state;
    assert_int_equal(judge(j), LEAVE_DONE);
    assert_true(j->result.trusted);
    judged_free(j);
    for (size_t i = 0; i < sizeof missed / sizeof *missed; i++) {
        char text[256];
        snprintf(text, sizeof text, "arrivals: {rate: 1000, seconds: 1}\nthresholds: {%s}", missed[i]);
        j = judged_new(text);
        assert_int_equal(judge(j), LEAVE_MISSED);    /* those that nothing was measured for among them */
        assert_int_equal(j->result.missed, 1);
        judged_free(j);
    }
    /* Five people cannot buy more than five units, whatever a scenario of full size expects; with six, one is missing. */
    j = judged_new("arrivals: {rate: 1000, seconds: 1}\nthresholds: {sold: 10000}");
    j->stats.people = 5;
    assert_int_equal(judge(j), LEAVE_DONE);
    j->stats.people = 6;
    assert_int_equal(judge(j), LEAVE_MISSED);
    judged_free(j);
    j = judged_new(ALL_KEPT);
    j->stats.deeds[LOAD_RESERVE].lost = 1;
    assert_int_equal(judge(j), LEAVE_MISSED);
    assert_int_equal(j->result.missed, 2);
    judged_free(j);
}

static void a_generator_that_was_late_is_not_trusted(void **state)
{
    struct judged *j = judged_new(ALL_KEPT);
    (void)state;
    for (unsigned i = 0; i < 15; i++)
        histogram_add(&j->stats.late, 25000);
    assert_int_equal(judge(j), LEAVE_MISSED);
    assert_false(j->result.trusted);
    assert_non_null(strstr(j->result.doubt, "by the generator's own doing"));
    judged_free(j);
    j = judged_new(ALL_KEPT);
    j->stats.unsent = 1;
    assert_int_equal(judge(j), LEAVE_MISSED);
    assert_non_null(strstr(j->result.doubt, "1 requests were never sent"));
    judged_free(j);
}

static void a_broken_rule_outweighs_all(void **state)
{
    struct judged *j = judged_new("thresholds: {p99_ms: 1}");
    (void)state;
    j->audit.drift = 1;
    assert_int_equal(judge(j), LEAVE_BROKEN);
    j->audit.drift = 0;
    j->stats.contradictions = 1;
    assert_int_equal(judge(j), LEAVE_BROKEN);
    j->stats.contradictions = 0;
    j->result.interrupted = true;
    assert_int_equal(judge(j), LEAVE_INTERRUPTED);
    j->result.interrupted = false;
    j->audit.reason = REASON_TIMED_OUT;
    assert_int_equal(judge(j), LEAVE_UNREACHABLE);
    j->result.audit = NULL;
    assert_int_equal(judge(j), LEAVE_UNREACHABLE);
    judged_free(j);
}

/* The page holds what it must, fetches nothing, and text from outside stays text. */
static void the_page_stands_alone(void **state)
{
    struct judged *j = judged_new(ALL_KEPT);
    struct buf page = buf_growing(LOAD_REPORT_MAX), json = buf_growing(LOAD_JSON_MAX);
    (void)state;
    j->result.path = "<script>alert(1)</script>";
    j->stats.seconds[0].due = 1000;
    j->stats.seconds[0].slots[100] = 1000;
    j->stats.seconds[0].max_us = 100000;
    judge(j);
    load_report_write(&j->result, &page);
    assert_true(buf_ok(&page));
    buf_add_char(&page, 0);
    assert_null(strstr(page.ptr, "<script"));
    assert_null(strstr(page.ptr, "http:"));
    assert_null(strstr(page.ptr, "https:"));
    assert_null(strstr(page.ptr, "nan"));
    assert_non_null(strstr(page.ptr, "<polyline"));
    assert_non_null(strstr(page.ptr, "thresholds.p99_ms"));
    assert_non_null(strstr(page.ptr, "arrivals.rate: 1000"));
    load_result_json(&j->result, &json);
    assert_true(buf_ok(&json));
    json_t *read = json_loadb(json.ptr, json.len, 0, NULL);
    assert_non_null(read);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(read, "latency"), "count")), 1000);
    assert_true(json_is_true(json_object_get(read, "trusted")));
    json_decref(read);
    buf_free(&page), buf_free(&json);
    judged_free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_arrivals_are_exact_in_any_number_of_parts),
        cmocka_unit_test(arrivals_follow_the_line),
        cmocka_unit_test(the_spike_is_the_missions),
        cmocka_unit_test(chance_comes_as_independent_people_do),
        cmocka_unit_test(a_scenario_is_read_whole),
        cmocka_unit_test(anything_else_is_refused_in_words),
        cmocka_unit_test(a_process_has_only_so_many_connections),
        cmocka_unit_test(stages_are_read_and_subtracted),
        cmocka_unit_test(every_stage_has_its_metric),
        cmocka_unit_test(what_is_kept_leaves_0_and_what_is_missed_99),
        cmocka_unit_test(a_generator_that_was_late_is_not_trusted),
        cmocka_unit_test(a_broken_rule_outweighs_all),
        cmocka_unit_test(the_page_stands_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * What people write into a plan: its file, measured capacities, --set; and the judgement of `plan --check` over processes that we make up.
 * The first argument is the directory of the plans that come with the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <math.h>

#include "address.h"
#include "args.h"
#include "check.h"
#include "plan_ask.h"
#include "plan_check.h"
#include "plan_file.h"

static struct plan plan;
static char path[] = "/tmp/seckill-plan.XXXXXX";
static char said[8192];
static const char *plans;

static const char *written(const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
    return path;
}

static bool with(bool (*read)(struct plan *, const char *, struct buf *), const char *what)
{
    struct buf complaints = buf_fixed(said, sizeof said - 1);
    bool good = read(&plan, what, &complaints);
    said[complaints.len] = 0;
    assert_true(good == (complaints.len == 0));
    return good;
}

static bool capacity(struct plan *p, const char *file, struct buf *complaints)
{
    size_t taken;
    return plan_file_capacity(p, file, &taken, complaints);
}

static double at(const char *name) { return plan_value(&plan, plan_row_of(name)); }

/* The plan that comes with the program says what the mission's defaults say: not one line is another. */
static void the_missions_plan_is_the_default(void **state)
{
    (void)state;
    char file[512];
    struct plan bare;
    snprintf(file, sizeof file, "%s/mission.yaml", plans);
    plan_init(&bare);
    plan_init(&plan);
    assert_true(with(plan_file_read, file));
    for (size_t row = 0; row < PLAN_ROWS; row++) {
        double a = plan_value(&plan, row), b = plan_value(&bare, row);
        if (!(a == b || (isnan(a) && isnan(b))))
            fail_msg("%s: %g, by default %g", plan_row(row)->name, a, b);
    }
    assert_int_equal(plan.origin[plan_row_of("sale.peak")], PLAN_FILE);
    snprintf(file, sizeof file, "%s/small.yaml", plans);
    plan_init(&plan);
    assert_true(with(plan_file_read, file));
    assert_true(isfinite(at("cost_order")));
}

static void a_list_is_the_stock_of_each_sku(void **state)
{
    (void)state;
    plan_init(&plan);
    assert_true(with(plan_file_read, written("sale: {stock: [300, 1000, 200]}\nsale.peak: 5e4\n")));
    assert_true(at("sale.stock") == 1000 && at("sale.skus") == 3 && at("sale.stock_all") == 1500 && at("sale.peak") == 50000);
    plan_init(&plan);
    assert_true(with(plan_file_read, written("sale.stock: 70\nsale.skus: 2\n")));
    assert_true(at("sale.stock_all") == 140);
    plan_init(&plan);
    assert_false(with(plan_file_read, written("sale.stock: [3, x]\n")));
}

static void what_is_wrong_is_said_with_its_line(void **state)
{
    (void)state;
    static const struct { const char *text, *complaint; } bad[] = {
        {"sale:\n  peek: 3\n", ":2: there is no input \"sale.peek\"; did you mean sale.peak?"},
        {"", "says nothing"},
        {"# nothing\n", "says nothing"},
        {"peak: 3\n", ":1: there is no input \"peak\""},
        {"sale.peak: 3\nsale: {peak: 4}\n", ":2: sale.peak stands there twice"},
        {"sale.peak: many\n", ":1: sale.peak: \"many\" is no number"},
        {"sale.peak: nan\n", "is no number"},
        {"sale.peak: 0x10\n", "is no number"},
        {"sale.peak: -3\n", ":1: sale.peak: -3 is out of range: 1 to 1e+09"},
        {"zone.count: 1\n", "out of range"},
        {"mean_rate: 3\n", ":1: mean_rate is worked out, not put in"},
        {"- 3\n", "not expected here"}};
    for (size_t i = 0; i < countof(bad); i++) {
        plan_init(&plan);
        assert_false(with(plan_file_read, written(bad[i].text)));
        if (!strstr(said, bad[i].complaint))
            fail_msg("%s said %s", bad[i].text, said);
    }
}

static void measured_capacities_take_the_place_of_assumed_ones(void **state)
{
    (void)state;
    plan_init(&plan);
    assert_true(with(capacity, written("{\"when\":\"now\",\"capacity\":{\"access\":20000,\"strange\":7},\"weight\":{\"message\":600.5},\"other\":[1]}")));
    assert_true(at("capacity.access") == 20000 && at("weight.message") == 600.5 && at("capacity.order") == 5000);
    assert_int_equal(plan.origin[plan_row_of("capacity.access")], PLAN_MEASURED);
    assert_true(with(plan_file_set, "capacity.access=10000"));    /* the strongest */
    assert_true(at("access_total") == 54);
    static const char *const bad[] = {"[]", "{", "{\"capacity\":3}", "{\"capacity\":{\"access\":\"x\"}}", "{\"capacity\":{\"access\":0}}", "{}", "{\"capacity\":{\"strange\":1}}"};
    for (size_t i = 0; i < countof(bad); i++) {
        plan_init(&plan);
        if (with(capacity, written(bad[i])))
            fail_msg("%s was taken", bad[i]);
    }
}

static void what_if(void **state)
{
    (void)state;
    plan_init(&plan);
    assert_true(with(plan_file_set, "peak=400000, sale.users = 2000000,zone.count=4"));
    assert_true(at("sale.peak") == 400000 && at("sale.users") == 2e6 && at("zone.count") == 4);
    static const char *const bad[] = {"peak", "peak=", "=3", "peak=x", "access=3", "p99=1,nothing=2", "mean_rate=1", "peak=0"};    /* two inputs end in access */
    for (size_t i = 0; i < countof(bad); i++)
        if (with(plan_file_set, bad[i]))
            fail_msg("%s was taken", bad[i]);
    with(plan_file_set, "peek=3");
    assert_non_null(strstr(said, "did you mean sale.peak?"));
}

/* ---- the plan beside what runs ------------------------------------------------------------------------------------------------ */

struct made_up {
    const char *role;
    double threads, connections, p99, drift;
};

static double told(void *arg, struct str name, bool *known)
{
    const struct made_up *m = arg;
    if (str_starts(name, str_lit("role.")))
        return str_eq((struct str){name.ptr + 5, name.len - 5}, str_of(m->role));
    if (str_eq(name, str_lit("access.threads")))
        return m->threads;
    if (str_eq(name, str_lit("http.connections")) || str_eq(name, str_lit("access.in_flight")))
        return m->connections;
    if (str_eq(name, str_lit("p99.seckill_http_request_seconds")))
        return m->p99;
    if (str_eq(name, str_lit("seckill_conservation_drift")))
        return m->drift;
    *known = false;
    return NAN;
}

static const struct plan_finding *finding(const struct plan_finding *all, const char *name)
{
    for (size_t i = 0; i < PLAN_DEMANDS; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    fail_msg("there is no demand %s", name);
    return NULL;
}

static void what_runs_is_held_against_the_plan(void **state)
{
    (void)state;
    struct made_up crew[] = {{"access", 2, 10000, 0.05, NAN}, {"access", 2, 10000, 0.12, 0}, {"order", 1, 0, NAN, NAN}};
    struct plan_process processes[countof(crew)];
    struct plan_finding found[PLAN_DEMANDS];
    for (size_t i = 0; i < countof(crew); i++)
        processes[i] = (struct plan_process){told, &crew[i]};
    plan_init(&plan);
    assert_true(with(plan_file_set, "peak=1000,capacity.access=5000,zone.count=2,order.instances=1"));
    size_t below = plan_judge(&plan, processes, countof(crew), found);
    assert_int_equal(finding(found, "access")->verdict, PLAN_GOOD);
    assert_true(finding(found, "zone")->has == 5000 && finding(found, "zone")->verdict == PLAN_GOOD);
    assert_true(finding(found, "connections")->has == 40000);
    assert_int_equal(finding(found, "accept_p99")->verdict, PLAN_BELOW);    /* the slower of the two: 120 ms of 100 */
    assert_true(fabs(finding(found, "accept_p99")->has - 120) < 1e-9);
    assert_int_equal(finding(found, "relay")->verdict, PLAN_BELOW);         /* nobody has the role */
    assert_int_equal(finding(found, "janitor")->verdict, PLAN_BELOW);
    assert_int_equal(finding(found, "place_p99")->verdict, PLAN_NOT_SEEN);
    assert_int_equal(finding(found, "drift")->verdict, PLAN_GOOD);          /* one of them has nothing to say */
    assert_int_equal(finding(found, "queues")->verdict, PLAN_NOT_SEEN);
    assert_int_equal(below, 3);
    assert_int_equal(plan_judge(&plan, processes, 0, found), 9);            /* nothing runs: every sum is 0 */
    assert_true(with(plan_file_set, "peak=300000"));
    plan_judge(&plan, processes, countof(crew), found);
    assert_int_equal(finding(found, "zone")->verdict, PLAN_BELOW);
}

/* ---- asking -------------------------------------------------------------------------------------------------------------------- */

static int asked_at(const char *addresses)
{
    struct buf complaints = buf_fixed(said, sizeof said), out = buf_growing(PLAN_REPORT_MAX);
    struct call c = {.verb = VERB_plan};
    char words[2][4096] = {"--at"};
    char *argv[] = {words[0], words[1]};
    bool help;
    snprintf(words[1], sizeof words[1], "%s", addresses);
    assert_true(args_read(&c, 2, argv, &help, &complaints));
    plan_init(&plan);
    struct plan_view v = {.plan = &plan, .source = "x"};
    int leave = plan_ask(&c, &v, &out);
    buf_free(&out);
    return leave;
}

static void processes_asked_have_an_edge(void **state)
{
    (void)state;
    char list[4096] = "";
    struct buf all = buf_fixed(list, sizeof list - 1);
    for (int i = 0; i <= PLAN_PROCESSES_MAX; i++)
        buf_add_fmt(&all, "%s[::1]:%d", i ? "," : "", i + 1);
    assert_true(buf_ok(&all));
    assert_int_equal(asked_at(list), LEAVE_USAGE);    /* nobody was asked */
    assert_int_equal(asked_at("127.0.0.1:1"), LEAVE_UNREACHABLE);
}

static void a_mute_process_is_not_waited_for(void **state)
{
    (void)state;
    struct address a;
    char where[64];
    assert_true(address_parse(str_lit("127.0.0.1:0"), &a));
    int mute = address_listen(&a, false, 4);    /* the kernel takes the call, nobody answers */
    assert_true(mute >= 0);
    snprintf(where, sizeof where, "127.0.0.1:%d", address_port(mute));
    time_t began = time(NULL);
    assert_int_equal(asked_at(where), LEAVE_UNREACHABLE);
    assert_true(time(NULL) - began < 20);
    close(mute);
}

int main(int argc, char **argv)
{
    check(argc == 2);
    plans = argv[1];
    int file = mkstemp(path);
    check(file >= 0 && close(file) == 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_missions_plan_is_the_default),
        cmocka_unit_test(a_list_is_the_stock_of_each_sku),
        cmocka_unit_test(what_is_wrong_is_said_with_its_line),
        cmocka_unit_test(measured_capacities_take_the_place_of_assumed_ones),
        cmocka_unit_test(what_if),
        cmocka_unit_test(what_runs_is_held_against_the_plan),
        cmocka_unit_test(processes_asked_have_an_edge),
        cmocka_unit_test(a_mute_process_is_not_waited_for),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0
 * What the relay says of rows that do not get on: one line a row, a few a second, and how many were not told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"
#include "log.h"
#include "relay.h"

static struct fake k;
static FILE *lines;

static int begin(void **state)
{
    (void)state;
    lines = tmpfile();
    assert_non_null(lines);
    log_level_set(LEVEL_WARN);
    log_to(fileno(lines));
    fake_init(&k);
    return 0;
}

static int end(void **state)
{
    (void)state;
    log_to(STDERR_FILENO);
    fclose(lines);
    fake_end(&k);
    return 0;
}

/* Lines of relay_row_refused; what they say was not told is added to *untold. */
static size_t refused(int64_t *untold)
{
    char line[5000];
    size_t count = 0;
    rewind(lines);
    while (fgets(line, sizeof line, lines)) {
        json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(json);
        const char *event = json_string_value(json_object_get(json, "event"));
        if (event && strcmp(event, "relay_row_refused") == 0) {
            count++;
            *untold += json_integer_value(json_object_get(json, "untold"));
        }
        json_decref(json);
    }
    return count;
}

/* The store refuses everything for `ms`. */
static void run(size_t rows, int64_t row_step, uint32_t ms)
{
    static const struct outbox_row base = {.activity = str_lit("act"), .activity_number = 7, .epoch = 1, .buckets = 2, .user = str_lit("user"), .sku = str_lit("sku"),
                                           .request = str_lit("req"), .reservation = str_lit("rsv_00041061050R3GG28A1C60T3QZ"), .token = {3, 2},
                                           .kind = OUTBOX_STATUS, .state = RESERVATION_ORDERED, .version = 1};
    struct relay_options options = relay_options_default();
    options.lanes = 1;
    k.row_count = rows;
    for (size_t i = 0; i < rows; i++) {
        k.rows[i] = base;
        k.rows[i].row = 1 + (int64_t)i * row_step;
    }
    k.inject_op = FAKE_SETTLE;
    k.inject = REASON_DEPENDENCY_DOWN;
    struct relay *r = relay_new(&k.store, &k.bus, &k.ledger, &k.clock.clock, &k.random.random, &k.keys, &options);
    assert_non_null(r);
    relay_start(r);
    fake_pass(&k, ms);
    relay_drain(r);
    fake_pass(&k, 5000);
    assert_true(relay_idle(r));
    relay_free(r);
}

static void a_row_of_many_orders_is_told_once(void **state)
{
    int64_t untold = 0;
    (void)state;
    run(6, 0, 5);    /* one claim */
    assert_int_equal(refused(&untold), 1);
    assert_int_equal(untold, 0);
}

static void while_a_part_is_down_few_lines_say_how_many_more(void **state)
{
    int64_t untold = 0;
    (void)state;
    run(6, 1, 10000);
    size_t told = refused(&untold);
    assert_true(told >= 10 && told <= 24);    /* two a second */
    assert_true(untold > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_row_of_many_orders_is_told_once, begin, end),
        cmocka_unit_test_setup_teardown(while_a_part_is_down_few_lines_say_how_many_more, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

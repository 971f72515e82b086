/* SPDX-License-Identifier: Apache-2.0
 * The rooms' floor: what everything else stands on. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "arena.h"
#include "buf.h"
#include "hash.h"
#include "heap.h"
#include "html.h"
#include "json.h"
#include "killpoint.h"
#include "list.h"
#include "metric.h"
#include "str.h"

static void numbers_are_read_whole_or_not_at_all(void **state)
{
    (void)state;
    static const struct { const char *text; bool good; int64_t value; } cases[] = {
        {"0", true, 0}, {"-1", true, -1}, {"9223372036854775807", true, INT64_MAX}, {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0}, {"-9223372036854775809", false, 0}, {"", false, 0}, {"-", false, 0}, {"+1", false, 0},
        {" 1", false, 0}, {"1 ", false, 0}, {"1e3", false, 0}, {"18446744073709551616", false, 0}};
    for (size_t i = 0; i < countof(cases); i++) {
        int64_t value = 42;
        assert_int_equal(str_to_i64(str_of(cases[i].text), &value), cases[i].good);
        if (cases[i].good)
            assert_true(value == cases[i].value);
    }
    static const struct { struct str text; bool good; double value; } reals[] = {
        {str_lit("0.25"), true, 0.25}, {str_lit("-1e3"), true, -1000}, {str_lit("+2"), true, 2}, {str_lit(""), false, 0}, {str_lit("1 "), false, 0},
        {str_lit(" 1"), false, 0}, {str_lit("0x10"), false, 0}, {str_lit("inf"), false, 0}, {str_lit("1e999"), false, 0}, {str_lit("1\0"), false, 0},
        {str_lit("1.2.3"), false, 0}, {str_lit("0000000000000000000000000000000000000000000000000000000000000001"), false, 0}};
    for (size_t i = 0; i < countof(reals); i++) {
        double value = 42;
        assert_int_equal(str_to_real(reals[i].text, &value), reals[i].good);
        if (reals[i].good)
            assert_true(value == reals[i].value);
    }
}

static void ids_keep_to_their_alphabet(void **state)
{
    (void)state;
    char long_id[65];
    memset(long_id, 'a', sizeof long_id);
    assert_true(str_is_id(str_lit("req_01-AZ")));
    assert_true(str_is_id((struct str){long_id, 64}));
    assert_false(str_is_id((struct str){long_id, 65}));
    static const char *const bad[] = {"", "a b", "a{b", "a}b", "a:b", "\xc3\xa9", "a\n"};
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(str_is_id(str_of(bad[i])));
}

static void a_full_buffer_says_so_and_keeps_what_it_has(void **state)
{
    (void)state;
    char memory[4];
    struct buf fixed = buf_fixed(memory, sizeof memory), growing = buf_growing(1000);
    buf_add_str(&fixed, str_lit("abcd"));
    assert_true(buf_ok(&fixed));
    buf_add_char(&fixed, 'e');
    assert_false(buf_ok(&fixed));
    assert_int_equal(fixed.len, 4);
    for (int i = 0; i < 1000; i++)
        buf_add_char(&growing, 'x');
    assert_true(buf_ok(&growing));
    buf_add_char(&growing, 'x');
    assert_false(buf_ok(&growing));
    buf_free(&growing);
}

static void json_is_escaped_and_punctuated(void **state)
{
    (void)state;
    char memory[256];
    struct buf b = buf_fixed(memory, sizeof memory);
    json_open(&b);
    json_member_str(&b, "a", str_lit("q\"\\\n\x01 \xff \xe4\xb8\xad"));
    json_key(&b, "l");
    json_open_array(&b);
    json_i64(&b, -1);
    json_bool(&b, true);
    json_open(&b);
    json_close(&b);
    json_close_array(&b);
    json_maybe_str(&b, "absent", (struct str){0});
    json_member_time(&b, "t", 951782400123);
    json_member_real(&b, "r", 0.25);
    json_member_real(&b, "n", INFINITY);
    json_close(&b);
    assert_true(str_eq(buf_str(&b), str_lit("{\"a\":\"q\\\"\\\\\\n\\u0001 \xef\xbf\xbd \xe4\xb8\xad\",\"l\":[-1,true,{}],\"t\":\"2000-02-29T00:00:00.123Z\",\"r\":0.25,\"n\":null}")));
}

static void text_in_a_page_stays_text(void **state)
{
    (void)state;
    char memory[64];
    struct buf b = buf_fixed(memory, sizeof memory);
    html_text(&b, str_lit("a<b>&\"c'"));
    assert_true(str_eq(buf_str(&b), str_lit("a&#60;b&#62;&#38;&#34;c'")));
}

static void times_go_out_and_come_back(void **state)
{
    (void)state;
    char text[TIME_TEXT];
    int64_t back;
    for (int64_t ms = -86400000000; ms < 5000000000000; ms += 86399877777) {
        time_write(ms, text);
        assert_true(time_parse((struct str){text, TIME_TEXT}, &back));
        assert_true(back == ms);
    }
    assert_true(time_parse(str_lit("2026-11-30T08:00:00+08:00"), &back) && back == 1795996800000);
    static const char *const bad[] = {"", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00",
                                      "2026-01-01T00:00:00.Z", "2026-01-01 00:00:00Zx"};
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(time_parse(str_of(bad[i]), &back));
}

static void siphash_matches_its_published_vectors(void **state)
{
    (void)state;
    struct hash_key key = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
    char bytes[15];
    for (int i = 0; i < 15; i++)
        bytes[i] = (char)i;
    assert_true(hash_keyed(key, (struct str){bytes, 0}) == 0x726fdb47dd0e0e31u);
    assert_true(hash_keyed(key, (struct str){bytes, 15}) == 0xa129ca6149be45e5u);
}

static void the_heap_gives_the_earliest_first(void **state)
{
    (void)state;
    struct heap h = {0};
    size_t places[500] = {0};
    uint64_t dues[500], last = 0;
    unsigned seed = 7;
    for (size_t i = 0; i < 500; i++) {
        seed = seed * 1103515245u + 12345u;
        dues[i] = seed % 1000;
        heap_put(&h, &dues[i], &places[i], dues[i]);
    }
    for (size_t i = 0; i < 500; i += 3)
        heap_remove(&h, &places[i]);
    for (size_t i = 1; i < 500; i += 3) {
        dues[i] = 2000 - dues[i];
        heap_put(&h, &dues[i], &places[i], dues[i]);
    }
    size_t seen = 0;
    for (const struct heap_item *first; (first = heap_first(&h)) != NULL; seen++) {
        assert_true(first->due >= last);
        assert_true(*(uint64_t *)first->what == first->due);
        last = first->due;
        heap_remove(&h, first->place);
    }
    assert_int_equal(seen, 500 - 167);
    heap_free(&h);
}

static void an_arena_gives_until_it_is_full(void **state)
{
    (void)state;
    struct arena a = arena_new(100);
    assert_non_null(arena_take(&a, 60));
    assert_null(arena_take(&a, 60));
    arena_reset(&a);
    struct str copy = arena_str(&a, str_lit("hello"));
    assert_true(str_eq(copy, str_lit("hello")));
    arena_free(&a);
}

static void quantiles_are_within_a_step(void **state)
{
    (void)state;
    for (uint64_t us = 1; us <= 10000; us++)
        metric_observe(METRIC_PLACE_SECONDS, us);
    uint64_t median = metric_quantile_us(METRIC_PLACE_SECONDS, 500), top = metric_quantile_us(METRIC_PLACE_SECONDS, 1000);
    assert_in_range(median, 5000, 5350);
    assert_in_range(top, 10000, 10700);
}

static bool armed(const char *kill_at, const char *hooks, char said[256])
{
    struct buf complaint = buf_fixed(said, 255);
    memset(said, 0, 256);
    return killpoint_arm(kill_at, hooks, &complaint);
}

static void the_lever_is_refused_unless_it_is_a_test(void **state)
{
    (void)state;
    char said[256];
    assert_true(armed(NULL, NULL, said));
    assert_true(armed("", "1", said));
    assert_false(armed("PLACE_ANSWERED", NULL, said));
    assert_false(armed("PLACE_ANSWERED", "yes", said));
    assert_non_null(strstr(said, "SECKILL_TEST_HOOKS"));
    for (const char *const *bad = (const char *const[]){"PLACE", "place_answered", "PLACE_ANSWERED:", "PLACE_ANSWERED:0", "PLACE_ANSWERED:-1", "PLACE_ANSWERED:1x", NULL}; *bad; bad++)
        assert_false(armed(*bad, "1", said));
    assert_int_equal(killpoint_armed, KILLPOINT_COUNT);
}

/* In a process of its own: how it ended, and what it had said. */
static int die_at(const char *kill_at, int passes, char said[256])
{
    int pipes[2], status;
    memset(said, 0, 256);
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], STDERR_FILENO);
        if (!armed(kill_at, "1", said))
            _exit(3);
        for (int i = 0; i < passes; i++) {
            KILLPOINT(PLACE_ASKED);
            KILLPOINT(PLACE_ANSWERED);
        }
        usleep(passes > 2 ? 1000000 : 0);
        _exit(0);
    }
    close(pipes[1]);
    ssize_t n = read(pipes[0], said, 255);
    assert_true(n >= 0);
    close(pipes[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void an_armed_point_kills_at_its_pass_and_says_so(void **state)
{
    (void)state;
    char said[256];
    assert_int_equal(die_at("PLACE_ANSWERED", 1, said), -SIGKILL);
    assert_non_null(strstr(said, "\"point\":\"PLACE_ANSWERED\""));
    assert_int_equal(die_at("PLACE_ANSWERED:3", 2, said), 0);
    assert_string_equal(said, "");
    assert_int_equal(die_at("PLACE_ANSWERED:3", 3, said), -SIGKILL);
    assert_int_equal(die_at("PLACE_ASKED:2", 3, said), -SIGKILL);
    assert_non_null(strstr(said, "\"point\":\"PLACE_ASKED\""));
    assert_int_equal(die_at("MIRROR_BEFORE", 3, said), 0);
}

static const char *no_label(unsigned index) { return (void)index, NULL; }

static bool exposes(unsigned owners, const char *line)
{
    static const metric_label_name names[METRIC_LABEL_TABLES] = {no_label, no_label, no_label, no_label, no_label, no_label};
    struct buf text = buf_growing(1 << 20);
    metric_expose(&text, owners, names);
    assert_true(buf_ok(&text));
    bool found = memmem(text.ptr, text.len, line, strlen(line)) != NULL;
    buf_free(&text);
    return found;
}

/* A gauge that nobody has computed is absent, never 0; and only its owner shows it. */
static void a_process_exposes_what_it_owns_and_knows(void **state)
{
    (void)state;
    metric_unset(METRIC_DRIFT);
    assert_false(exposes(METRIC_OF_ANY, "seckill_conservation_drift"));
    metric_set(METRIC_DRIFT, 0, 0);
    assert_true(exposes(METRIC_OF_JANITOR, "\nseckill_conservation_drift 0\n"));
    assert_false(exposes(METRIC_OF_ACCESS | METRIC_OF_ORDER | METRIC_OF_RELAY | METRIC_OF_ADMIN, "seckill_conservation_drift"));
    metric_set(METRIC_DRIFT, 0, 3);
    assert_true(exposes(METRIC_OF_JANITOR | METRIC_OF_ACCESS, "\nseckill_conservation_drift 3\n"));
    metric_unset(METRIC_DRIFT);
    assert_false(exposes(METRIC_OF_JANITOR, "seckill_conservation_drift"));
    assert_true(exposes(METRIC_OF_ADMIN, "seckill_late_answers_total") && exposes(METRIC_OF_ACCESS, "seckill_late_answers_total"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_exposes_what_it_owns_and_knows),
        cmocka_unit_test(numbers_are_read_whole_or_not_at_all),
        cmocka_unit_test(ids_keep_to_their_alphabet),
        cmocka_unit_test(a_full_buffer_says_so_and_keeps_what_it_has),
        cmocka_unit_test(json_is_escaped_and_punctuated),
        cmocka_unit_test(text_in_a_page_stays_text),
        cmocka_unit_test(times_go_out_and_come_back),
        cmocka_unit_test(siphash_matches_its_published_vectors),
        cmocka_unit_test(the_heap_gives_the_earliest_first),
        cmocka_unit_test(an_arena_gives_until_it_is_full),
        cmocka_unit_test(quantiles_are_within_a_step),
        cmocka_unit_test(the_lever_is_refused_unless_it_is_a_test),
        cmocka_unit_test(an_armed_point_kills_at_its_pass_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

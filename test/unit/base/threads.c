/* SPDX-License-Identifier: Apache-2.0
 * What the threads of a process share: metrics and the log. No count is lost and no line is torn, while another thread reads and changes the level.
 * Says most under `make tsan`. And where a line ends. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "log.h"
#include "metric.h"

#define THREADS 4
#define ROUNDS 3000

static void *write_on(void *arg)
{
    for (int64_t i = 0; i < ROUNDS; i++) {
        metric_one(METRIC_LATE_ANSWERS);
        struct log_line l = log_event(LEVEL_WARN, "shared");
        log_i64(&l, "thread", (int64_t)(intptr_t)arg);
        log_i64(&l, "round", i);
        log_end(&l);
    }
    return NULL;
}

static const char *a_name(unsigned index) { return index < METRIC_LABELS ? "name" : NULL; }

static void lines_and_counts_of_many_threads(void **state)
{
    (void)state;
    static const metric_label_name names[METRIC_LABEL_TABLES] = {a_name, a_name, a_name, a_name, a_name, a_name};
    pthread_t threads[THREADS];
    FILE *lines = tmpfile();
    assert_non_null(lines);
    log_to(fileno(lines));
    uint64_t before = metric_read(METRIC_LATE_ANSWERS, 0);
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_on, (void *)i), 0);
    for (int i = 0; i < 50; i++) {
        struct buf text = buf_growing(1 << 20);
        metric_expose(&text, METRIC_OF_ANY, names);
        assert_true(buf_ok(&text) && text.len > 0);
        buf_free(&text);
        log_level_set(i % 2 ? LEVEL_INFO : LEVEL_WARN);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    log_to(STDERR_FILENO);
    assert_int_equal(metric_read(METRIC_LATE_ANSWERS, 0) - before, THREADS * ROUNDS);

    int next[THREADS] = {0}, thread, round;
    char line[256];
    rewind(lines);
    for (int n = 0; n < THREADS * ROUNDS; n++) {
        assert_non_null(fgets(line, sizeof line, lines));
        const char *at = strstr(line, "\"event\":\"shared\"");
        assert_true(line[0] == '{' && at && sscanf(at, "\"event\":\"shared\",\"thread\":%d,\"round\":%d}", &thread, &round) == 2);
        assert_int_equal(round, next[thread]++);
    }
    assert_null(fgets(line, sizeof line, lines));
    fclose(lines);
}

/* What does not fit is left out whole, and the line says so and is still JSON. */
static void a_line_has_an_end(void **state)
{
    (void)state;
    static char big[8192], line[8192];
    FILE *lines = tmpfile();
    assert_non_null(lines);
    memset(big, 'x', sizeof big);
    log_to(fileno(lines));
    for (size_t n = 3900; n < 4200; n++) {
        struct log_line l = log_event(LEVEL_WARN, "long");
        log_str(&l, "text", (struct str){big, n});
        log_i64(&l, "after", 1);
        log_end(&l);
    }
    log_to(STDERR_FILENO);
    rewind(lines);
    size_t whole = 0, cut = 0;
    while (fgets(line, sizeof line, lines)) {
        size_t len = strlen(line);
        assert_true(len <= 4096 && line[len - 2] == '}' && line[len - 1] == '\n');
        bool says = strstr(line, "\"cut\":true") != NULL;
        assert_true(says != (strstr(line, "\"after\":1") != NULL));
        says ? cut++ : whole++;
    }
    assert_true(whole > 0 && cut > 0 && whole + cut == 300);
    fclose(lines);
}

static struct { uint64_t lines, told, torn; } heard;

static void *read_log(void *arg)
{
    char line[4096];
    FILE *in = arg;
    while (heard.lines + heard.told < 40000 && fgets(line, sizeof line, in)) {
        const char *at = strstr(line, "\"lines\":"), *event = strstr(line, "\"event\":");
        heard.torn += line[0] != '{' || !event || strstr(event + 1, "\"event\":") != NULL;
        if (strstr(line, "\"event\":\"log_lines_dropped\"") && at)
            heard.told += strtoull(at + 8, NULL, 10);
        heard.lines += strstr(line, "\"event\":\"nobody_reads\"") != NULL;
    }
    return NULL;
}

static void log_many(int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        struct log_line l = log_event(LEVEL_WARN, "nobody_reads");
        log_i64(&l, "number", i);
        log_text(&l, "filling", "............................................");
        log_end(&l);
    }
}

/* Lines go into a pipe that nobody reads: whoever logs does not wait. Once somebody reads, every line is there or in the number of those that were lost.
 * The end does not wait for a reader either. The last test: afterwards nothing is logged. */
static void a_log_that_nobody_reads_stops_nobody(void **state)
{
    (void)state;
    int ends[2];
    pthread_t reader;
    uint64_t before = metric_read(METRIC_LOG_DROPPED, 0);
    assert_int_equal(pipe(ends), 0);
    FILE *in = fdopen(ends[0], "r");
    assert_non_null(in);
    log_to(ends[1]);
    log_level_set(LEVEL_INFO);
    log_writer_start();
    log_many(40000);    /* some 5 MB */
    uint64_t lost = metric_read(METRIC_LOG_DROPPED, 0) - before;
    assert_true(lost > 0 && lost < 40000);
    assert_int_equal(pthread_create(&reader, NULL, read_log, in), 0);
    pthread_join(reader, NULL);
    assert_int_equal(heard.torn, 0);
    assert_int_equal(heard.told, lost);
    assert_int_equal(heard.lines, 40000 - lost);
    log_many(3000);
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    log_writer_stop(100);
    log_many(1);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    assert_true(ended.tv_sec - began.tv_sec <= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_and_counts_of_many_threads), cmocka_unit_test(a_line_has_an_end),
                                       cmocka_unit_test(a_log_that_nobody_reads_stops_nobody)};
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}

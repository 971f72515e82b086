/* SPDX-License-Identifier: Apache-2.0
 * The system's clock rings in order, never early, hardly late; its random numbers are even enough. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "system_clock.h"
#include "system_random.h"

static uv_loop_t loop;
static struct clock *clk;

struct bell {
    struct alarm alarm;
    uint64_t rung_us;
    int rings, order, again;
};
static int rung;

static void on_ring(struct waiter *w, enum reason reason, const void *result)
{
    struct bell *b = container_of(w, struct bell, alarm.waiter);
    assert_int_equal(reason, REASON_OK);
    assert_null(result);
    assert_int_equal(b->alarm.place, 0);
    b->rung_us = clock_mono_us(clk);
    b->order = rung++;
    b->rings++;
    if (b->again-- > 0)
        clock_set_in(clk, &b->alarm, 2000);
}

static void begin(void)
{
    assert_int_equal(uv_loop_init(&loop), 0);
    clk = system_clock_open(&loop);
    rung = 0;
}

static void end(void)
{
    system_clock_close(clk);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* 200 alarms, each once, in their order, never early; how late on average, in µs. */
static uint64_t ring_all(void)
{
    static struct bell bells[200];
    begin();
    uint64_t start = clock_mono_us(clk);
    for (int i = 0; i < 200; i++) {
        bells[i] = (struct bell){.alarm.waiter.wake = on_ring};
        clock_set(clk, &bells[i].alarm, start + (uint64_t)(i * 7919 % 200) * 250 + 1000);    /* 0 … 50 ms, well shuffled */
    }
    clock_unset(clk, &bells[3].alarm);
    clock_unset(clk, &bells[3].alarm);
    clock_set(clk, &bells[4].alarm, start + 60000);    /* moved to the end */
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(rung, 199);
    assert_int_equal(bells[3].rings, 0);
    assert_int_equal(bells[4].order, 198);
    uint64_t late = 0;
    for (int i = 0; i < 200; i++) {
        if (i == 3)
            continue;
        assert_int_equal(bells[i].rings, 1);
        assert_true(bells[i].rung_us >= bells[i].alarm.due_us);
        late += bells[i].rung_us - bells[i].alarm.due_us;
        for (int k = 0; k < i; k++)
            if (k != 3 && bells[k].alarm.due_us < bells[i].alarm.due_us)
                assert_true(bells[k].order < bells[i].order);
    }
    end();
    return late / 199;
}

static void rings_in_order(void **state)
{
    (void)state;
    bool punctual = false;
    for (int tries = 0; tries < 10 && !punctual; tries++)    /* a machine that was elsewhere for a moment says nothing of the clock */
        punctual = ring_all() < 5000;    /* about 1 ms on a free one */
    assert_true(punctual);
}

static void rings_again(void **state)
{
    (void)state;
    struct bell b = {.alarm.waiter.wake = on_ring, .again = 4}, past = {.alarm.waiter.wake = on_ring};
    begin();
    clock_set(clk, &b.alarm, 0);    /* the past: at once, but not before the call returns */
    clock_set(clk, &past.alarm, 1);
    assert_int_equal(b.rings, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(b.rings, 5);
    assert_int_equal(past.rings, 1);
    end();
}

static void closes_with_alarms_set(void **state)
{
    (void)state;
    struct bell b = {.alarm.waiter.wake = on_ring};
    begin();
    clock_set_in(clk, &b.alarm, 3600u * 1000000u);
    end();
    assert_int_equal(b.rings, 0);
    assert_int_equal(b.alarm.place, 0);
}

static void tells_the_time(void **state)
{
    (void)state;
    begin();
    int64_t now = clock_now_ms(clk);
    assert_true(now > 1700000000000 && now < 4102444800000);
    uint64_t a = clock_mono_us(clk), b = clock_mono_us(clk);
    assert_true(b >= a && b - a < 1000000);
    end();
}

static void random_numbers(void **state)
{
    (void)state;
    struct random *r = system_random_open(), *other = system_random_open();
    int ones[64] = {0}, same = 0;
    for (int i = 0; i < 10000; i++) {
        uint64_t n = random_next(r);
        same += n == random_next(other);
        for (int bit = 0; bit < 64; bit++)
            ones[bit] += (int)(n >> bit & 1);
        assert_true(random_below(r, 10) < 10);
    }
    assert_int_equal(same, 0);
    for (int bit = 0; bit < 64; bit++)
        assert_in_range(ones[bit], 4600, 5400);    /* eight standard deviations */
    system_random_close(r), system_random_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rings_in_order), cmocka_unit_test(rings_again), cmocka_unit_test(closes_with_alarms_set),
                                       cmocka_unit_test(tells_the_time), cmocka_unit_test(random_numbers)};
    return cmocka_run_group_tests_name("system", tests, NULL, NULL);
}

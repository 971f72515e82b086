/* SPDX-License-Identifier: Apache-2.0
 * sim.c: the ground the imagined world stands on: its hour, its chance, its tables, and how a call travels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim_bus.h"
#include "sim_clock.h"
#include "sim_store.h"

/* ---- clock ---- */

struct bell {
    struct alarm alarm;
    struct sim_clock *clock;
    int *order, name;
    uint64_t rang_us, again_us;
};

static void rings(struct waiter *w, enum reason reason, const void *result)
{
    struct bell *b = container_of(w, struct bell, alarm.waiter);
    assert_int_equal(reason, REASON_OK);
    assert_null(result);
    *b->order = *b->order * 10 + b->name;
    b->rang_us = b->clock->mono_us;
    if (b->again_us)
        clock_set_in(&b->clock->clock, &b->alarm, b->again_us), b->again_us = 0;
}

static void alarms_ring_earliest_first_and_equal_ones_in_turn(void **state)
{
    (void)state;
    struct sim_clock c;
    int order = 0;
    struct bell bells[5];
    uint64_t due[] = {30, 10, 20, 10, 0};
    sim_clock_init(&c, 1000);
    for (int i = 0; i < 5; i++) {
        bells[i] = (struct bell){.alarm.waiter.wake = rings, .clock = &c, .order = &order, .name = i + 1};
        clock_set(&c.clock, &bells[i].alarm, due[i]);
    }
    clock_set(&c.clock, &bells[2].alarm, 40);    /* moved */
    clock_unset(&c.clock, &bells[4].alarm);
    clock_unset(&c.clock, &bells[4].alarm);
    assert_true(sim_clock_step(&c));
    assert_int_equal(clock_mono_us(&c.clock), 10);
    sim_clock_run_until(&c, 35);
    assert_int_equal(order, 241);
    assert_int_equal(clock_mono_us(&c.clock), 35);
    sim_clock_run_until(&c, 5);    /* never back */
    assert_int_equal(clock_mono_us(&c.clock), 35);
    bells[2].again_us = 7000;
    sim_clock_run_until(&c, 10000);
    assert_int_equal(order, 24133);
    assert_int_equal(bells[2].rang_us, 7040);
    assert_false(sim_clock_step(&c));
    assert_int_equal(clock_now_ms(&c.clock), 1010);
    sim_clock_jump(&c, -500);
    assert_int_equal(clock_now_ms(&c.clock), 510);
    assert_int_equal(clock_mono_us(&c.clock), 10000);
    sim_clock_end(&c);
}

static bool never(void *arg) { return (void)arg, false; }

static void an_empty_world_lets_the_budget_pass(void **state)
{
    (void)state;
    struct sim_clock c;
    sim_clock_init(&c, 0);
    assert_false(sim_clock_run(&c, never, NULL, 5000000));
    assert_int_equal(clock_now_ms(&c.clock), 5000);
    sim_clock_end(&c);
}

/* ---- chance ---- */

static void one_seed_gives_one_row_of_numbers(void **state)
{
    (void)state;
    struct sim_random a, b, other;
    sim_random_init(&a, 7);
    sim_random_init(&b, 7);
    sim_random_init(&other, 8);
    int equal = 0;
    uint64_t bits[64] = {0};
    for (int i = 0; i < 10000; i++) {
        uint64_t n = random_next(&a.random);
        assert_true(n == random_next(&b.random));
        equal += n == random_next(&other.random);
        for (int bit = 0; bit < 64; bit++)
            bits[bit] += n >> bit & 1;
    }
    assert_int_equal(equal, 0);
    for (int bit = 0; bit < 64; bit++)
        assert_in_range(bits[bit], 4700, 5300);
}

/* ---- tables ---- */

#define NAMES 500
static void a_map_holds_what_a_plain_list_would(void **state)
{
    (void)state;
    struct sim_map map = {0};
    struct sim_random chance;
    char names[NAMES][8];
    int values[NAMES];
    bool in[NAMES] = {false};
    size_t count = 0;
    sim_random_init(&chance, 3);
    for (int i = 0; i < NAMES; i++)
        snprintf(names[i], sizeof names[i], "n%d", i);
    for (int turn = 0; turn < 20000; turn++) {
        size_t at = random_below(&chance.random, NAMES);
        struct str name = str_of(names[at]);
        assert_ptr_equal(sim_map_get(&map, name), in[at] ? &values[at] : NULL);
        if (random_below(&chance.random, 2)) {
            sim_map_put(&map, name, &values[at]);
            count += !in[at];
            in[at] = true;
        } else {
            assert_ptr_equal(sim_map_remove(&map, name), in[at] ? &values[at] : NULL);
            count -= in[at];
            in[at] = false;
        }
        assert_int_equal(map.count, count);
    }
    for (int i = 0; i < NAMES; i++)
        assert_ptr_equal(sim_map_get(&map, str_of(names[i])), in[i] ? &values[i] : NULL);
    sim_map_free(&map);
}

static void a_key_tells_its_parts_apart(void **state)
{
    (void)state;
    struct sim_key a, b;
    char wide[1100] = {0};
    assert_false(str_eq(sim_key(&a, str_lit("a"), str_lit("bc")), sim_key(&b, str_lit("ab"), str_lit("c"))));
    assert_false(str_eq(sim_key(&a, str_lit("a"), str_lit("")), sim_key(&b, str_lit("a"))));
    assert_true(str_eq(sim_key(&a, str_lit("a"), str_lit("b")), sim_key(&b, str_lit("a"), str_lit("b"))));
    assert_false(sim_key_join(&a, &(struct str){wide, sizeof wide}, 1));
}

static void ground_is_zero_and_does_not_overlap(void **state)
{
    (void)state;
    struct sim_ground g = {0};
    unsigned char *pieces[200];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 200; i++) {
            size_t n = (i * 37) % 900 + 1;
            pieces[i] = sim_take(&g, n);
            for (size_t at = 0; at < n; at++)
                assert_int_equal(pieces[i][at], 0);
            memset(pieces[i], (int)i, n);
        }
        for (size_t i = 0; i < 200; i++)
            assert_int_equal(pieces[i][(i * 37) % 900], i & 0xff);
        assert_int_equal(((uintptr_t)pieces[199]) % _Alignof(max_align_t), 0);
        sim_ground_reset(&g);
    }
    assert_non_null(sim_take(&g, 3 << 20));
    sim_ground_free(&g);
}

/* ---- calls ---- */

struct heard {
    struct waiter waiter;
    int times;
    enum reason reason;
    uint64_t sequence;
};

static void hears(struct waiter *w, enum reason reason, const void *result)
{
    struct heard *h = container_of(w, struct heard, waiter);
    h->times++;
    h->reason = reason;
    h->sequence = reason == REASON_OK && result ? ((const struct stock_answer *)result)->sequence : 0;
}

struct shop {
    struct sim_clock clock;
    struct sim_random chance;
    struct sim_store_world world;
    struct sim_store store;
};

static struct sku one_sku = {.sku = str_lit("S"), .stock = 4, .unit_first = 1, .price = 1, .currency = str_lit("CNY")};
static struct activity one_activity = {.activity = str_lit("A"), .number = 1, .epoch = 1, .buckets = 1, .state = ACTIVITY_OPEN, .version = 1,
                                       .ends_ms = INT64_MAX, .skus = &one_sku, .sku_count = 1};
static struct bucket one_bucket = {.activity = str_lit("A"), .epoch = 1};

static struct shop *shop_open(void)
{
    struct shop *s = calloc(1, sizeof *s);
    struct heard h = {.waiter.wake = hears};
    sim_clock_init(&s->clock, 1000000);
    sim_random_init(&s->chance, 1);
    sim_store_world_init(&s->world, 1);
    sim_store_open(&s->store, &s->world, &s->clock.clock);
    store_install(&s->store.store, &(struct install_ask){.bucket = one_bucket, .activity = &one_activity, .create = true}, &h.waiter);
    assert_int_equal(h.times, 0);    /* never before the call has returned */
    sim_clock_run_until(&s->clock, 0);
    assert_int_equal(h.times, 1);
    assert_int_equal(h.reason, REASON_OK);
    s->store.calls.weather.random = &s->chance.random;
    return s;
}

static void shop_close(struct shop *s)
{
    sim_store_close(&s->store);
    sim_store_world_end(&s->world);
    sim_clock_end(&s->clock);
    free(s);
}

static void ask(struct shop *s, struct heard *h, uint32_t budget_ms)
{
    *h = (struct heard){.waiter = {.wake = hears, .budget_ms = budget_ms}};
    store_stock(&s->store.store, &(struct stock_ask){.bucket = one_bucket}, &h->waiter);
}

static uint64_t sequence(struct shop *s) { return sim_store_bucket(&s->world, one_bucket)->sequence; }

static void what_is_late_is_unknown_and_happens_all_the_same(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct heard h;
    s->store.calls.weather = (struct sim_weather){.ask_us = 20000, .answer_us = 5000};
    ask(s, &h, 10);
    sim_clock_run_until(&s->clock, 9999);
    assert_int_equal(h.times, 0);
    sim_clock_run_until(&s->clock, 10000);
    assert_int_equal(h.times, 1);
    assert_int_equal(h.reason, REASON_TIMED_OUT);
    assert_int_equal(sequence(s), 1);
    sim_clock_run_until(&s->clock, 100000);
    assert_int_equal(sequence(s), 2);
    assert_int_equal(h.times, 1);
    assert_int_equal(s->store.calls.count, 0);

    ask(s, &h, 0);
    sim_clock_run_until(&s->clock, 124999);
    assert_int_equal(h.times, 0);
    sim_clock_run_until(&s->clock, 125000);
    assert_int_equal(h.reason, REASON_OK);
    assert_int_equal(h.sequence, 3);
    shop_close(s);
}

static void who_has_gone_hears_nothing(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct heard h;
    ask(s, &h, 0);
    assert_true(waiter_busy(&h.waiter));
    waiter_drop(&h.waiter);
    assert_false(waiter_busy(&h.waiter));
    sim_clock_run_until(&s->clock, 5000000);
    assert_int_equal(h.times, 0);
    assert_int_equal(sequence(s), 2);
    ask(s, &h, 0);
    sim_store_close(&s->store);    /* a door that closes forgets who stands before it */
    assert_false(waiter_busy(&h.waiter));
    assert_int_equal(h.times, 0);
    shop_close(s);
}

static void each_fault_does_what_its_row_says(void **state)
{
    (void)state;
    static const struct {
        enum sim_fault fault;
        enum reason reason;
        uint64_t happened;
    } rows[] = {
        {SIM_FAULT_ASK_LOST, REASON_TIMED_OUT, 0}, {SIM_FAULT_ANSWER_LOST, REASON_TIMED_OUT, 1}, {SIM_FAULT_LINK_CUT, REASON_LINK_LOST, 1},
        {SIM_FAULT_REFUSED, REASON_ENGINE_BUSY, 0}, {SIM_FAULT_DELAYED, REASON_OK, 1},           {SIM_FAULT_DOUBLED, REASON_OK, 2},
    };
    assert_int_equal(countof(rows), SIM_FAULT_COUNT);
    for (size_t i = 0; i < countof(rows); i++) {
        struct shop *s = shop_open();
        struct heard h;
        s->store.calls.weather = (struct sim_weather){.ask_us = 10, .answer_us = 10, .delay_us = 1000, .random = &s->chance.random};
        s->store.calls.weather.permille[rows[i].fault] = 1000;
        ask(s, &h, 50);
        sim_clock_run_until(&s->clock, 1000000);
        assert_int_equal(h.times, 1);
        assert_int_equal(h.reason, rows[i].reason);
        assert_int_equal(sequence(s) - 1, rows[i].happened);
        assert_int_equal(s->store.calls.faults[rows[i].fault], 1);
        assert_int_equal(s->store.calls.count, 0);
        shop_close(s);
    }
}

static void a_full_door_says_so_and_does_nothing(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct heard *all = calloc(SIM_CALLS_MAX + 3, sizeof *all);
    int overloaded = 0;
    for (size_t i = 0; i < SIM_CALLS_MAX + 3; i++)
        ask(s, &all[i], 0);
    sim_clock_run_until(&s->clock, 0);
    for (size_t i = 0; i < SIM_CALLS_MAX + 3; i++) {
        assert_int_equal(all[i].times, 1);
        overloaded += all[i].reason == REASON_OVERLOADED;
    }
    assert_int_equal(overloaded, 3);
    assert_int_equal(sequence(s), 1 + SIM_CALLS_MAX);
    free(all);
    shop_close(s);
}

static void a_snapshot_is_what_redis_goes_back_to(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct sim_bucket *b = sim_store_bucket(&s->world, one_bucket);
    struct reserve_answer answer;
    char incarnation[24];
    for (int64_t unit = 1; unit <= 3; unit++)
        assert_int_equal(sim_bucket_restock(b, &(struct restock_ask){.sku = str_lit("S"), .token = {unit, 1}}, 0), REASON_OK);
    assert_int_equal(sim_bucket_install(b, &one_activity, true, 0), REASON_OK);
    assert_int_equal(sim_bucket_restock(b, &(struct restock_ask){.sku = str_lit("S"), .token = {4, 7}}, 1000), REASON_OK);
    struct reserve_ask asks[2] = {{.user = str_lit("u"), .sku = str_lit("S"), .request = str_lit("r"), .ident = {{1}}, .user_hash = 5},
                                  {.user = str_lit("v"), .sku = str_lit("S"), .request = str_lit("r"), .ident = {{2}}, .user_hash = 6}};
    assert_int_equal(sim_bucket_reserve(b, &asks[0], 1000, &answer), REASON_QUEUED);
    struct sim_snapshot snapshot = sim_store_snapshot(&s->world);
    uint64_t then = b->sequence;
    assert_int_equal(sim_bucket_reserve(b, &asks[1], 1000, &answer), REASON_QUEUED);
    assert_int_equal(answer.entry.token.unit, 2);
    memcpy(incarnation, s->world.incarnation, sizeof incarnation);

    for (int times = 0; times < 2; times++) {
        sim_store_rollback(&s->world, &snapshot);
        b = sim_store_bucket(&s->world, one_bucket);
        assert_int_equal(b->sequence, then);
        assert_string_not_equal(s->world.incarnation, incarnation);
        assert_null(sim_bucket_user(b, str_lit("v")));
        assert_int_equal(sim_bucket_reserve(b, &asks[0], 1000, &answer), REASON_QUEUED);
        assert_true(answer.replayed && answer.entry.token.unit == 1);
        assert_int_equal(b->turns.count, 1);
        sim_bucket_ripen(b, 1299);    /* unit 4 rests as long as it had to */
        assert_int_equal(b->shelves[0].free.count, 2);
        sim_bucket_ripen(b, 1300);
        assert_int_equal(b->shelves[0].free.count, 3);
        assert_int_equal(sim_bucket_restock(b, &(struct restock_ask){.sku = str_lit("S"), .token = {4, 7}}, 1000), REASON_UNCHANGED);
        assert_int_equal(sim_bucket_reserve(b, &asks[1], 1300, &answer), REASON_QUEUED);
        assert_int_equal(answer.entry.token.unit, 2);    /* handed out a second time: the ledger will have to say no to one */
    }
    sim_snapshot_free(&snapshot);
    shop_close(s);
}

static void hears_of_s(struct waiter *w, enum reason reason, const void *result)
{
    const struct stock_answer *a = result;
    hears(w, reason, result);
    assert_int_equal(reason, REASON_OK);
    assert_true(a->sku_count == 1 && str_eq(a->skus[0].sku, str_lit("S")));
}

static void an_answer_on_its_way_outlives_what_it_speaks_of(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct sim_snapshot snapshot = sim_store_snapshot(&s->world);
    struct heard h = {.waiter.wake = hears_of_s};
    s->store.calls.weather = (struct sim_weather){.ask_us = 10, .answer_us = 1000};
    store_stock(&s->store.store, &(struct stock_ask){.bucket = one_bucket}, &h.waiter);
    sim_clock_run_until(&s->clock, 500);
    assert_int_equal(sequence(s), 2);
    sim_store_slip(&s->world, &snapshot, true);
    sim_store_slip(&s->world, &snapshot, false);
    sim_clock_run_until(&s->clock, 5000);
    assert_int_equal(h.times, 1);
    sim_snapshot_free(&snapshot);
    shop_close(s);
}

/* ---- bus: what the contract leaves to each world ---- */

static void pulled_count(struct waiter *w, enum reason reason, const void *result)
{
    struct heard *h = container_of(w, struct heard, waiter);
    h->times++;
    h->reason = reason;
    h->sequence = reason == REASON_OK ? ((const struct pulled_answer *)result)->count : 0;
}

static void a_held_pull_ends_with_the_message_or_the_wait(void **state)
{
    (void)state;
    struct sim_clock clock;
    struct sim_bus_world world;
    struct sim_bus bus;
    struct heard h = {.waiter.wake = pulled_count}, sent = {.waiter.wake = hears};
    sim_clock_init(&clock, 1000000);
    sim_bus_world_init(&world, &clock.clock);
    sim_bus_open(&bus, &world, &clock.clock);
    bus_create(&bus.bus, &str_lit("t"), 1, str_lit("g"), 1, &sent.waiter);
    sim_clock_run_until(&clock, 0);
    struct pull_ask pull = {.queue = {.broker = str_lit("memory"), .topic = str_lit("t")}, .limit = 5, .wait_ms = 100};
    bus_pull(&bus.bus, &pull, &h.waiter);
    sim_clock_run_until(&clock, 99999);
    assert_int_equal(h.times, 0);
    sim_clock_run_until(&clock, 100000);
    assert_int_equal(h.reason, REASON_OK);
    assert_int_equal(h.sequence, 0);
    bus_pull(&bus.bus, &pull, &h.waiter);
    sim_clock_run_until(&clock, 150000);
    struct bus_message timer = {.topic = str_lit("t"), .body = str_lit("later"), .deliver_ms = 1003000}, now = {.topic = str_lit("t"), .body = str_lit("now")};
    bus_send(&bus.bus, &timer, 1, &sent.waiter);
    sim_clock_run_until(&clock, 160000);
    assert_int_equal(h.times, 1);
    bus_send(&bus.bus, &now, 1, &sent.waiter);
    sim_clock_run_until(&clock, 160000);
    assert_int_equal(h.times, 2);
    assert_int_equal(h.sequence, 1);
    sim_clock_run_until(&clock, 2999999);
    assert_int_equal(sim_bus_queue(&world, str_lit("t"), 0)->count, 1);
    sim_clock_run_until(&clock, 3000000);
    assert_int_equal(sim_bus_queue(&world, str_lit("t"), 0)->count, 2);
    sim_bus_close(&bus);
    sim_bus_world_end(&world);
    sim_clock_end(&clock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alarms_ring_earliest_first_and_equal_ones_in_turn),
        cmocka_unit_test(an_empty_world_lets_the_budget_pass),
        cmocka_unit_test(one_seed_gives_one_row_of_numbers),
        cmocka_unit_test(a_map_holds_what_a_plain_list_would),
        cmocka_unit_test(a_key_tells_its_parts_apart),
        cmocka_unit_test(ground_is_zero_and_does_not_overlap),
        cmocka_unit_test(what_is_late_is_unknown_and_happens_all_the_same),
        cmocka_unit_test(who_has_gone_hears_nothing),
        cmocka_unit_test(each_fault_does_what_its_row_says),
        cmocka_unit_test(a_full_door_says_so_and_does_nothing),
        cmocka_unit_test(a_snapshot_is_what_redis_goes_back_to),
        cmocka_unit_test(an_answer_on_its_way_outlives_what_it_speaks_of),
        cmocka_unit_test(a_held_pull_ends_with_the_message_or_the_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

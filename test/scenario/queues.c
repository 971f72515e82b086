/* SPDX-License-Identifier: Apache-2.0
 * What may befall the queues of the broker and those who read them, on the imagined engines, at every moment of a small sale (docs/protocol.md §9 has
 * the table). Whatever it is: each reservation ends with one order, nothing is skipped, nothing is doubled, the books agree, and where a queue has
 * become another one, it is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ident.h"
#include "log.h"
#include "message.h"
#include "metric.h"
#include "order.h"
#include "seen.h"
#include "sim_bus.h"
#include "sim_clock.h"
#include "sim_ledger.h"
#include "sim_random.h"

#define START_MS 1796083200000    /* 2026-12-01 */
#define SOLD 96                   /* reservations, one unit each */
#define QUEUES 4
#define READERS 2
#define ACTIVITY "queues"

/* One consumer process: its own clock and doors, so that it can be stopped. */
struct reader {
    char name[16];
    struct sim_watch watch;
    struct sim_bus bus;
    struct sim_ledger ledger;
    struct order_desk *desk;
};
static struct sim_clock time_;
static struct sim_random chance;
static struct sim_bus_world broker;
static struct sim_ledger_world books;
static struct sim_bus bus;           /* whoever sends */
static struct sim_ledger ledger;
static struct reader readers[READERS];
static struct ident_keys keys;
static struct ident reservations[SOLD];
static uint64_t rereads;             /* of the metric, before */

/* ---- words of these stories -------------------------------------------------------------------------------------------------------- */

static enum reason awaited(struct seen *s)
{
    assert_true(sim_clock_run(&time_, seen_woken, s, 60000000));
    return s->reason;
}

static void pass(uint32_t ms) { sim_clock_run_until(&time_, time_.mono_us + (uint64_t)ms * 1000); }

static struct sim_queue *queue_at(int32_t number) { return sim_bus_queue(&broker, str_lit(MESSAGE_TOPIC), number); }
static struct sim_offset *offset_at(size_t i) { return books.books.offsets[i]; }

/* The message of reservation `ident` on unit i + 1. */
static struct str message_text(struct ident ident, size_t i, struct str user, struct str message, char memory[800])
{
    struct entry e = {.ident = ident, .state = RESERVATION_RESERVED, .request = str_lit("r"), .sku = str_lit("sku"),
                      .token = {(int64_t)i + 1, 1}, .created_ms = START_MS};
    struct message_ids ids;
    struct create_order m = message_of((struct bucket){str_lit(ACTIVITY), 1, 0}, user, &e, (struct str){0}, &ids);
    if (message.len > 0)
        m.message = message;
    message_seal(&keys, &m);
    struct buf b = buf_fixed(memory, 800);
    message_write(&b, &m);
    return buf_str(&b);
}

static void send(struct str body, uint64_t spread)
{
    struct bus_message m = {.topic = str_lit(MESSAGE_TOPIC), .key = str_lit("k"), .body = body, .spread = spread};
    struct seen a = SEEN();
    bus_send(&bus.bus, &m, 1, &a.waiter);
    assert_int_equal(awaited(&a), REASON_OK);
}

/* Announces reservation i, in whichever queue. */
static void announce(size_t i, uint64_t spread)
{
    char user[16], memory[800];
    snprintf(user, sizeof user, "u%zu", i);
    send(message_text(reservations[i], i, str_of(user), (struct str){0}, memory), spread);
}

static struct str reservation_text(size_t i, char text[IDENT_ID_TEXT])
{
    ident_write(reservations[i], IDENT_RESERVATION, text);
    return (struct str){text, IDENT_ID_TEXT};
}

static bool decided(size_t i)
{
    char text[IDENT_ID_TEXT];
    return sim_books_inbox(&books.books, reservation_text(i, text)) != NULL;
}

/* As the janitor does with what has no verdict. */
static void announce_undecided(void)
{
    for (size_t i = 0; i < SOLD; i++)
        if (!decided(i))
            announce(i, 1 + i);
}

static void reader_open_for(struct reader *r, size_t i, size_t queues)
{
    struct order_options o = order_options_default();
    snprintf(r->name, sizeof r->name, "reader-%zu", i);
    o.owner = str_of(r->name);
    o.keys = &keys;
    o.queues = queues, o.batch = 16, o.per_queue = 8, o.look_ms = 300;    /* small, so that more goes on at once */
    sim_watch_init(&r->watch, &time_);
    sim_bus_open(&r->bus, &broker, &r->watch.clock);
    sim_ledger_open(&r->ledger, &books, &r->watch.clock);
    r->bus.bus.deployment = r->ledger.ledger.deployment;
    r->bus.calls.weather = r->ledger.calls.weather = (struct sim_weather){.ask_us = 300, .answer_us = 300, .jitter_us = 900, .random = &chance.random};
    r->desk = order_new(&r->bus.bus, &r->ledger.ledger, &r->watch.clock, &chance.random, &o);
    assert_non_null(r->desk);
    order_start(r->desk);
}

static void reader_open(struct reader *r, size_t i) { reader_open_for(r, i, 4 * QUEUES); }

static void reader_close(struct reader *r)
{
    order_free(r->desk);
    sim_bus_close(&r->bus);
    sim_ledger_close(&r->ledger);
    sim_watch_end(&r->watch);
}

static void reader_freeze(struct reader *r, bool frozen)
{
    sim_watch_freeze(&r->watch, frozen);
    sim_calls_freeze(&r->bus.calls, frozen);
    sim_calls_freeze(&r->ledger.calls, frozen);
}

static void activity_new(void)
{
    struct sku sku = {.sku = str_lit("sku"), .stock = SOLD, .price = 100, .currency = str_lit("CNY")};
    struct activity_create ask = {.activity = {.activity = str_lit(ACTIVITY), .title = str_lit("Queues"), .buckets = 1, .starts_ms = START_MS - 1000,
                                               .ends_ms = START_MS + 3600000, .pay_timeout_s = 900, .skus = &sku, .sku_count = 1},
                                  .actor = str_lit("test")};
    static const struct str topics[] = {str_lit(MESSAGE_TOPIC)};
    struct seen made = SEEN(), there = SEEN();
    ledger_activity_create(&ledger.ledger, &ask, &made.waiter);
    bus_create(&bus.bus, topics, 1, str_lit(MESSAGE_GROUP), QUEUES, &there.waiter);
    assert_int_equal(awaited(&made), REASON_OK);
    assert_int_equal(awaited(&there), REASON_OK);
}

static void open_sale(uint64_t seed, size_t reading)
{
    sim_clock_init(&time_, START_MS);
    sim_random_init(&chance, seed);
    sim_bus_world_init(&broker, &time_.clock);
    sim_ledger_world_init(&books);
    sim_bus_open(&bus, &broker, &time_.clock);
    sim_ledger_open(&ledger, &books, &time_.clock);
    bus.bus.deployment = ledger.ledger.deployment;
    keys = ident_keys_from(str_lit("one"), str_lit("two"), str_lit("users"));
    for (size_t i = 0; i < SOLD; i++)
        reservations[i] = ident_make(&keys, (struct ident_fields){START_MS, 1, 1, 0}, ident_chance(i, random_next(&chance.random)));
    rereads = metric_read(METRIC_QUEUE_REREAD, 0);
    activity_new();
    for (size_t i = 0; i < READERS; i++)
        readers[i].desk = NULL;
    for (size_t i = 0; i < reading; i++)
        reader_open(&readers[i], i);
}

/* Half of it before the trouble, half after. */
static void first_half(void)
{
    for (size_t i = 0; i < SOLD / 2; i++)
        announce(i, 1 + i);
}
static void second_half(void)
{
    for (size_t i = SOLD / 2; i < SOLD; i++)
        announce(i, 1 + i);
}

static void no_findings(struct seen *s, const void *result)
{
    (void)s;
    const struct audit_answer *a = result;
    for (size_t i = 0; i < a->count; i++)
        print_message("%.*s: %.*s\n", STR_ARG(a->findings[i].rule), STR_ARG(a->findings[i].subject));
    assert_int_equal(a->count, 0);
    assert_int_equal(a->orders, SOLD);
}

static bool all_read(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < books.books.offset_count; i++)
        if (offset_at(i)->next != (int64_t)queue_at((int32_t)i)->count)
            return false;
    for (size_t i = 0; i < SOLD; i++)
        if (!decided(i))
            return false;
    return true;
}

/* Everything is decided in `seconds`, by one order each; what nobody decided by then was lost with the broker, and is announced again. */
static void ends_well(bool lost)
{
    if (!sim_clock_run(&time_, all_read, NULL, 20000000)) {
        assert_true(lost);
        announce_undecided();
        assert_true(sim_clock_run(&time_, all_read, NULL, 20000000));
    }
    pass(3000);
    assert_true(all_read(NULL));
    assert_int_equal(books.books.order_count, SOLD);
    struct seen a = SEEN(.keep = no_findings);
    ledger_audit(&ledger.ledger, str_lit(ACTIVITY), &a.waiter);
    assert_int_equal(awaited(&a), REASON_OK);
}

static void close_sale(void)
{
    for (size_t i = 0; i < READERS; i++)
        if (readers[i].desk)
            reader_close(&readers[i]);
    sim_bus_close(&bus);
    sim_ledger_close(&ledger);
    sim_bus_world_end(&broker);
    sim_ledger_world_end(&books);
    sim_clock_end(&time_);
}

static uint64_t reread(void) { return metric_read(METRIC_QUEUE_REREAD, 0) - rereads; }
static uint64_t lost_batches(void)
{
    uint64_t n = 0;
    for (size_t i = 0; i < READERS; i++)
        n += readers[i].desk ? order_facts(readers[i].desk).lost : 0;
    return n;
}

/* ---- the stories --------------------------------------------------------------------------------------------------------------------- */

/* Every few milliseconds somebody takes all leases away: both read and place the same queues, and the offset alone decides. */
static void two_readers_on_one_queue(void **state)
{
    (void)state;
    uint64_t lost = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        open_sale(seed, 2);
        pass(1200);
        for (size_t i = 0; i < SOLD; i++) {
            announce(i, 1 + i);
            for (size_t q = 0; q < books.books.offset_count; q++)
                offset_at(q)->leased_until_ms = 0;
            books.books.member_count = 0;
            pass((uint32_t)random_below(&chance.random, 60));
        }
        ends_well(false);
        lost += lost_batches();
        close_sale();
    }
    assert_true(lost > 0);    /* they did meet */
}

/* A reader is stopped with messages in its hands, another takes over when the lease is up, and the first goes on as if nothing had happened. */
static void a_zombie_decides_nothing(void **state)
{
    (void)state;
    uint64_t lost = 0;
    for (uint32_t ms = 0; ms < 40; ms++) {
        open_sale(100 + ms, 1);
        pass(400);
        for (size_t i = 0; i < SOLD; i++) {
            announce(i, 1 + i);
            if (i == ms * 2)
                reader_freeze(&readers[0], true);
        }
        reader_open(&readers[1], 1);
        assert_true(sim_clock_run(&time_, all_read, NULL, 20000000));
        int64_t read[QUEUES];
        for (size_t q = 0; q < QUEUES; q++)
            read[q] = offset_at(q)->next;
        reader_freeze(&readers[0], false);
        pass(10000);
        for (size_t q = 0; q < QUEUES; q++)
            assert_int_equal(offset_at(q)->next, read[q]);
        lost += lost_batches();
        ends_well(false);
        assert_int_equal(reread(), 0);
        close_sale();
    }
    assert_true(lost > 0);
}

/* An operator puts the offsets back to 0: everything is read once more and nothing happens. Or beyond the end: the queue is read from its beginning. */
static void an_offset_moved_by_hand(void **state)
{
    (void)state;
    for (int beyond = 0; beyond <= 1; beyond++)
        for (uint32_t ms = 0; ms < 40; ms += 2) {
            open_sale(200 + ms, 2);
            pass(400);
            first_half();
            pass(ms);
            uint64_t before = metric_read(METRIC_CONSUMED, 0);
            int64_t again = 0;
            for (size_t q = 0; q < books.books.offset_count; q++) {
                again += offset_at(q)->next;
                offset_at(q)->next = beyond ? 1000 : 0;
                offset_at(q)->identity = (struct str){0};
            }
            second_half();
            ends_well(false);
            assert_true(metric_read(METRIC_CONSUMED, 0) - before >= (uint64_t)again);
            assert_true(!beyond || reread() >= QUEUES);
            close_sale();
        }
}

/* All the broker held is gone, read or not, and its offsets begin anew; connections break with it. */
static void a_broker_store_wiped(void **state)
{
    (void)state;
    for (uint32_t ms = 0; ms < 40; ms++) {
        open_sale(300 + ms, 2);
        pass(400);
        first_half();
        pass(ms);
        bool known = books.books.offset_count == QUEUES;
        for (size_t q = 0; known && q < QUEUES; q++)
            known = offset_at(q)->next > 0;
        sim_bus_break(&broker);
        for (int32_t q = 0; q < QUEUES; q++)
            sim_bus_lose(queue_at(q), 0);
        second_half();
        ends_well(true);
        assert_true(!known || reread() == QUEUES);    /* each is said to be another */
        close_sale();
    }
}

/* It comes back with what it had a while ago: the same messages, and then others under offsets that were read before. */
static void a_broker_store_restored_from_an_older_copy(void **state)
{
    (void)state;
    for (uint32_t ms = 0; ms < 40; ms++)
        for (int refilled = 0; refilled <= 1; refilled++) {
            open_sale(400 + ms, 2);
            pass(400);
            first_half();
            pass(ms);
            broker.away = refilled;    /* nobody reads until it holds more than before */
            sim_bus_break(&broker);
            for (int32_t q = 0; q < QUEUES; q++)
                sim_bus_lose(queue_at(q), (int64_t)queue_at(q)->count / 3);
            broker.away = false;
            for (int32_t q = 0; refilled && q < QUEUES; q++)
                for (int n = 0; n < 40; n++)
                    sim_bus_again(&broker, queue_at(q), 0);
            second_half();
            ends_well(true);
            close_sale();
        }
}

/* The topic is deleted and made again while the connections live, and by the time its readers look it holds more than they had read. */
static void made_again(int n)
{
    for (int32_t q = 0; q < QUEUES; q++)
        sim_bus_lose(queue_at(q), 0);
    second_half();
    for (int32_t q = 0; q < QUEUES; q++)
        for (int i = 0; i < n; i++)
            sim_bus_again(&broker, queue_at(q), 0);
}

static void a_topic_made_again_behind_a_stopped_reader(void **state)
{
    (void)state;
    for (int anonymous = 0; anonymous <= 1; anonymous++)
        for (uint32_t ms = 0; ms < 40; ms += 4) {
            open_sale(500 + ms, 1);
            pass(400);
            first_half();
            for (int32_t q = 0; anonymous && q < QUEUES; q++)    /* a sender that gives no UNIQ_KEY */
                for (size_t i = 0; i < queue_at(q)->count; i++)
                    queue_at(q)->messages[i].unique = (struct str){0};
            pass(200 + ms);
            reader_freeze(&readers[0], true);
            pass(3500);
            made_again(20);
            reader_freeze(&readers[0], false);
            ends_well(false);    /* the new ones are read from the first on, without anybody's help */
            assert_int_equal(reread(), QUEUES);
            close_sale();
        }
}

/* The same before the eyes of a reader whose pulls fail meanwhile, for less than a lease. */
static void a_topic_made_again_while_pulls_fail(void **state)
{
    (void)state;
    for (uint32_t ms = 0; ms < 40; ms += 4) {
        open_sale(540 + ms, 1);
        pass(400);
        first_half();
        pass(200 + ms);
        broker.away = true;
        pass(1000);
        broker.away = false;
        made_again(20);
        ends_well(false);
        assert_int_equal(reread(), QUEUES);
        close_sale();
    }
}

/* A queue of which nothing has been read yet, because all that was there had gone with time, is known by nothing but its minimum. */
static void a_queue_known_by_its_minimum_alone(void **state)
{
    (void)state;
    open_sale(580, 0);
    first_half();
    for (int32_t q = 0; q < QUEUES; q++)
        sim_bus_forget(queue_at(q), (int64_t)queue_at(q)->count);
    reader_open(&readers[0], 0);
    pass(2000);
    for (size_t q = 0; q < QUEUES; q++)
        assert_true(offset_at(q)->next == SOLD / 2 / QUEUES && offset_at(q)->identity.len == 0);
    reader_freeze(&readers[0], true);
    pass(3500);
    made_again(20);
    reader_freeze(&readers[0], false);
    ends_well(true);
    for (size_t i = SOLD / 2; i < SOLD; i++)
        assert_true(decided(i));
    assert_int_equal(reread(), QUEUES);
    close_sale();
}

/* Queues are added under way; their messages are older than the readers' knowledge of them. */
static void queues_added_while_selling(void **state)
{
    (void)state;
    for (uint32_t ms = 0; ms < 40; ms++) {
        open_sale(600 + ms, 2);
        pass(400);
        first_half();
        pass(ms);
        sim_bus_widen(&broker, str_lit(MESSAGE_TOPIC), 3 * QUEUES);
        second_half();
        ends_well(false);
        assert_int_equal(books.books.offset_count, 3 * QUEUES);
        for (size_t q = QUEUES; q < 3 * QUEUES; q++)
            assert_true(offset_at(q)->next > 0);
        assert_int_equal(reread(), 0);
        close_sale();
    }
}

/* A reader takes no more queues than it has room for, however often it looks; one that has room reads them all. */
static void queues_looked_after(void **state)
{
    (void)state;
    open_sale(680, 0);
    sim_bus_widen(&broker, str_lit(MESSAGE_TOPIC), 16 * QUEUES);
    first_half(), second_half();
    reader_open_for(&readers[0], 0, QUEUES);
    pass(20000);
    struct order_facts facts = order_facts(readers[0].desk);
    assert_true(facts.queues == 16 * QUEUES && facts.held == QUEUES);
    assert_int_equal(books.books.offset_count, QUEUES);
    assert_int_equal(facts.consumed, queue_at(0)->count + queue_at(1)->count + queue_at(2)->count + queue_at(3)->count);
    reader_close(&readers[0]);
    readers[0].desk = NULL;
    reader_open_for(&readers[1], 1, ORDER_QUEUES_MAX);
    ends_well(false);
    close_sale();
}

/* What cannot be read, what is of a later time, and what bears another message's name: before, between and after good ones, in several queues of one
 * batch. Each is put before a person, and the rest is ordered. (What the ledger cannot take: test/unit/core/workers.c.) */
static void poison_anywhere_in_a_batch(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        char memory[800], text[IDENT_ID_TEXT];
        size_t poison = 0;
        uint64_t last = 0;
        open_sale(700 + seed, 0);
        for (size_t i = 0; i < SOLD;) {
            uint64_t kind = random_below(&chance.random, 8), spread = 1 + random_below(&chance.random, QUEUES);
            if (kind > 2 || (kind == 2 && i == 0)) {
                announce(i++, last = spread);
                continue;
            }
            poison++;
            if (kind == 0) {
                send(str_lit("{\"schema_version\":1}"), spread);
            } else if (kind == 1) {
                send(str_lit("{\"schema_version\":2}"), spread);
            } else {
                struct ident_fields fields = {START_MS, 1, 1, 0};
                ident_write(reservations[i - 1], IDENT_MESSAGE, text);
                struct ident forged = ident_make(&keys, fields, ident_chance(poison, random_next(&chance.random)));
                send(message_text(forged, i - 1, str_lit("forger"), (struct str){text, sizeof text}, memory), last);
            }
        }
        reader_open(&readers[0], 0);
        ends_well(false);
        assert_int_equal(order_facts(readers[0].desk).parked, poison);
        assert_int_equal(order_facts(readers[0].desk).consumed, poison + SOLD);
        close_sale();
    }
}

int main(void)
{
    log_level_set(LEVEL_FATAL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_readers_on_one_queue), cmocka_unit_test(a_zombie_decides_nothing), cmocka_unit_test(an_offset_moved_by_hand),
        cmocka_unit_test(a_broker_store_wiped), cmocka_unit_test(a_broker_store_restored_from_an_older_copy),
        cmocka_unit_test(a_topic_made_again_behind_a_stopped_reader), cmocka_unit_test(a_topic_made_again_while_pulls_fail),
        cmocka_unit_test(a_queue_known_by_its_minimum_alone), cmocka_unit_test(queues_added_while_selling), cmocka_unit_test(queues_looked_after),
        cmocka_unit_test(poison_anywhere_in_a_batch)};
    cmocka_set_test_filter(getenv("SECKILL_TEST_ONLY"));
    return cmocka_run_group_tests_name("queues", tests, NULL, NULL);
}

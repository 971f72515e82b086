/* SPDX-License-Identifier: Apache-2.0
 * Those who work behind the buyer: consumer, relay, janitor, control, conservation. At each await every reason is tried. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "conservation.h"
#include "control.h"
#include "fake.h"
#include "janitor.h"
#include "metric.h"
#include "message.h"
#include "metric.h"
#include "order.h"
#include "relay.h"

static struct fake k;

/* ---- messages of the fake queue ---------------------------------------------------------------------------------------------------- */

static char bodies[256][600];
static char uniques[256][24];

static void message(size_t i, struct str body)
{
    snprintf(uniques[i], sizeof uniques[i], "U%04zu", i);
    k.messages[i] = (struct pulled){.offset = k.first + (int64_t)i, .unique = str_of(uniques[i]), .key = str_lit("key"), .body = body,
                                    .stored_ms = clock_now_ms(&k.clock.clock)};
}

static void good_message(size_t i)
{
    struct entry e = fake_entry(&k, str_lit("user"), RESERVATION_RESERVED, 0);
    struct message_ids ids;
    struct create_order m = message_of((struct bucket){str_lit("act"), 1, 0}, str_lit("user"), &e, (struct str){0}, &ids);
    struct buf b = buf_fixed(bodies[i], sizeof bodies[i]);
    message_seal(&k.keys, &m);
    message_write(&b, &m);
    message(i, buf_str(&b));
}

static void messages(size_t n, int64_t first)
{
    k.first = first;
    k.message_count = n;
    for (size_t i = 0; i < n; i++)
        good_message(i);
}

static struct order_desk *consumer(void)
{
    struct order_options options = order_options_default();
    options.owner = str_lit("me");
    options.keys = &k.keys;
    options.queues = 2;
    struct order_desk *d = order_new(&k.bus, &k.ledger, &k.clock.clock, &k.random.random, &options);
    assert_non_null(d);
    order_start(d);
    return d;
}

static void stop(struct order_desk *d)
{
    k.inject = REASON_OK;
    order_drain(d);
    fake_pass(&k, 20000);
    assert_true(order_idle(d));
    order_free(d);
    fake_end(&k);
}

static void all_is_placed_and_the_offset_is_behind_it(void **state)
{
    (void)state;
    fake_init(&k);
    messages(200, 10);
    struct order_desk *d = consumer();
    fake_pass(&k, 100);
    assert_int_equal(k.placed, 200);
    assert_int_equal(k.queue_next, 210);
    assert_true(str_eq((struct str){k.identity, k.identity_len}, str_lit("U0199")));
    assert_int_equal(k.calls[FAKE_MIRROR], 0);    /* only after a later commit */
    fake_pass(&k, 2100);
    assert_true(k.calls[FAKE_MIRROR] >= 1);
    assert_int_equal(order_facts(d).placed, 200);
    stop(d);
}

/* The ledger learns up to when the queue was read, by its own clock, which is not this process's. What is stored and not placed is never reported as read. */
static void consumer_reports_when_its_queue_was_read(void **state)
{
    (void)state;
    fake_init(&k);
    k.ahead_ms = 500000;
    messages(100, 10);
    struct order_desk *d = consumer();
    fake_pass(&k, 4000);
    int64_t now_ms = clock_now_ms(&k.clock.clock) + k.ahead_ms;
    assert_in_range(k.caught_up_ms, now_ms - 3000, now_ms);
    k.inject_op = FAKE_PLACE;
    k.inject = REASON_DEPENDENCY_DOWN;
    for (size_t i = 100; i < 200; i++)
        good_message(i);
    k.message_count = 200;
    fake_pass(&k, 8000);
    assert_true(k.caught_up_ms == 0 || k.caught_up_ms <= now_ms + 500);    /* no pull asked for since has been decided to its end */
    k.inject = REASON_OK;
    fake_pass(&k, 6000);
    assert_int_equal(k.queue_next, 210);
    now_ms = clock_now_ms(&k.clock.clock) + k.ahead_ms;
    assert_in_range(k.caught_up_ms, now_ms - 3000, now_ms);
    stop(d);
}

static size_t poison_at;
static enum reason judge_poison(const struct place_ask *a)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->prefixes[0].from + (int64_t)i == (int64_t)poison_at)
            return REASON_POISON;
    return REASON_OK;
}

static void the_one_that_can_never_be_taken_is_parked(void **state)
{
    (void)state;
    for (poison_at = 0; poison_at < 37; poison_at += 9) {
        fake_init(&k);
        k.judge = judge_poison;
        messages(37, 0);
        struct order_desk *d = consumer();
        fake_pass(&k, 1000);
        assert_int_equal(k.placed, 36);
        assert_int_equal(k.parked, 1);
        assert_int_equal(k.parked_why[0], REASON_POISON);
        assert_int_equal(k.queue_next, 37);
        stop(d);
    }
}

/* Anybody who reaches the broker can write a message. One whose id or content was not made with our keys becomes no order. */
static void forged_message_is_parked(void **state)
{
    static char forged[5][600];
    (void)state;
    fake_init(&k);
    messages(8, 0);
    for (size_t i = 0; i < countof(forged); i++) {
        struct ident_keys other = ident_keys_from(str_lit("a secret of somebody else"), (struct str){0}, str_lit("users"));
        struct entry e = fake_entry(&k, str_lit("user"), RESERVATION_RESERVED, 0);
        struct message_ids ids;
        if (i == 0)
            e.ident = ident_make(&other, ident_read(e.ident), 7);
        struct create_order m = message_of((struct bucket){str_lit("act"), 1, 0}, str_lit("user"), &e, (struct str){0}, &ids);
        message_seal(i == 1 ? &other : &k.keys, &m);    /* 0: a made-up id; 1: a mark of other keys */
        if (i == 2)
            m.mark = 0;                                 /* none at all */
        if (i == 3)
            m.user = str_lit("thief");                  /* a mark of another content */
        if (i == 4)
            m.token.unit++;
        struct buf b = buf_fixed(forged[i], sizeof forged[i]);
        message_write(&b, &m);
        message(i + 2, buf_str(&b));
    }
    struct order_desk *d = consumer();
    fake_pass(&k, 1000);
    assert_int_equal(k.placed, 3);
    assert_int_equal(k.parked, countof(forged));
    for (size_t i = 0; i < countof(forged); i++)
        assert_int_equal(k.parked_why[i], REASON_MESSAGE_FORGED);
    assert_int_equal(k.queue_next, 8);
    stop(d);
}

/* ---- what another transaction holds ---- */

static size_t held_count;                     /* the first so many messages name a held unit */
static size_t place_calls_of_held;
static bool is_held(const struct create_order *what)
{
    for (size_t i = 0; i < held_count; i++)
        if (strstr(bodies[i], "rsv_") && memcmp(strstr(bodies[i], "rsv_"), what->reservation.ptr, what->reservation.len) == 0)
            return true;
    return false;
}
static enum reason judge_held(const struct create_order *what)
{
    bool held = is_held(what);
    place_calls_of_held += held;
    return held ? REASON_LOCK_TIMEOUT : REASON_ORDERED;
}

static void consume_with_held_unit_defers_its_message_alone(void **state)
{
    (void)state;
    fake_init(&k);
    messages(37, 0);
    held_count = 3;
    k.judge_item = judge_held;
    struct order_desk *d = consumer();
    fake_pass(&k, 300);
    assert_int_equal(k.queue_next, 37);
    assert_int_equal(order_facts(d).placed, 34);
    fake_pass(&k, 5000);
    assert_int_equal(order_facts(d).placed, 34);
    held_count = 1;    /* two are let go: each is placed with the next try, and what comes after the first moves up */
    fake_pass(&k, 1500);
    assert_int_equal(order_facts(d).placed, 36);
    held_count = 0;
    fake_pass(&k, 1500);
    assert_int_equal(order_facts(d).placed, 37);
    size_t calls = k.calls[FAKE_PLACE];
    fake_pass(&k, 5000);
    assert_int_equal(k.calls[FAKE_PLACE], calls);    /* and that is all */
    assert_int_equal(k.parked, 0);
    stop(d);
}

static enum reason judge_locked(const struct place_ask *a)
{
    for (size_t i = 0; i < a->count && !a->hurry; i++)
        if (is_held(&a->items[i]))
            return REASON_LOCK_TIMEOUT;
    return REASON_OK;
}

/* Where the ledger cannot tell which of them it is, the batch is taken in parts, as for one that can never be taken; but nothing is parked. */
static void consume_with_lock_timeout_splits_and_defers(void **state)
{
    (void)state;
    fake_init(&k);
    messages(37, 0);
    held_count = 1;
    k.judge = judge_locked;
    struct order_desk *d = consumer();
    fake_pass(&k, 900);
    assert_int_equal(k.queue_next, 37);
    assert_int_equal(order_facts(d).placed, 36);
    fake_pass(&k, 1500);
    assert_int_equal(order_facts(d).placed, 37);
    assert_int_equal(k.parked, 0);
    stop(d);
}

/* Bounds: so many are kept, and tried so often; the janitor announces the others. */
static void deferred_messages_have_bounds(void **state)
{
    (void)state;
    fake_init(&k);
    messages(70, 0);
    held_count = 70;
    place_calls_of_held = 0;
    k.judge_item = judge_held;
    struct order_desk *d = consumer();
    fake_pass(&k, 500);
    assert_int_equal(k.queue_next, 70);
    assert_int_equal(place_calls_of_held, 70);
    fake_pass(&k, 120000);
    assert_int_equal(place_calls_of_held, 70 + 64 * 60);
    stop(d);
}

#define OURS   "00000000000000000000000000000aaa"
#define THEIRS "00000000000000000000000000000bbb"

static void messages_of(const char *deployment, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        k.messages[i].deployment = str_of(deployment);
}

/* Our broker is dead, and another deployment's stands at its address: nothing of it is placed, parked or counted, and our offset stays. */
static void broker_of_another_deployment_is_not_read(void **state)
{
    (void)state;
    for (int read_before = 0; read_before <= 1; read_before++) {
        fake_init(&k);
        k.bus.deployment = OURS;
        messages(20, 0);
        messages_of(OURS, 0, 20);
        struct order_desk *d = NULL;
        if (read_before) {
            d = consumer();
            fake_pass(&k, 1000);
            assert_int_equal(k.placed, 20);
        }
        for (size_t i = 0; i < 20; i++)
            good_message(i);
        messages_of(THEIRS, 0, 20);
        for (size_t i = 0; i < 20; i++)
            k.messages[i].unique = str_lit("ANOTHER");
        k.link++;
        if (!d)
            d = consumer();
        fake_pass(&k, 20000);
        assert_int_equal(k.placed, read_before ? 20 : 0);
        assert_int_equal(k.parked, 0);
        assert_int_equal(k.queue_next, read_before ? 20 : 0);
        assert_int_equal((int64_t)metric_read(METRIC_FOREIGN_QUEUES, 0), 1);
        for (size_t i = 0; i < 20; i++)
            good_message(i);    /* ours is back */
        messages_of(OURS, 0, 20);
        fake_pass(&k, 20000);
        assert_true(k.placed >= 20);
        assert_int_equal(k.queue_next, 20);
        assert_int_equal((int64_t)metric_read(METRIC_FOREIGN_QUEUES, 0), 0);
        stop(d);
    }
}

/* Single messages of others in a queue that is ours. */
static void message_of_another_deployment_is_parked(void **state)
{
    (void)state;
    fake_init(&k);
    k.bus.deployment = OURS;
    messages(10, 0);
    messages_of(OURS, 0, 10);
    messages_of(THEIRS, 0, 1);
    messages_of(THEIRS, 4, 6);
    messages_of("", 8, 9);
    struct order_desk *d = consumer();
    fake_pass(&k, 2000);
    assert_int_equal(k.placed, 6);
    assert_int_equal(k.parked, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(k.parked_why[i], REASON_MESSAGE_FOREIGN);
    assert_int_equal(k.queue_next, 10);
    stop(d);
}

static void what_cannot_be_read_is_parked_in_its_turn(void **state)
{
    (void)state;
    fake_init(&k);
    messages(10, 0);
    message(0, str_lit("nonsense"));
    message(4, str_lit("{\"schema_version\":2}"));
    message(9, str_lit("{}"));
    struct order_desk *d = consumer();
    fake_pass(&k, 1000);
    assert_int_equal(k.placed, 7);
    assert_int_equal(k.parked, 3);
    assert_int_equal(k.parked_why[0], REASON_MESSAGE_UNREADABLE);
    assert_int_equal(k.parked_why[1], REASON_MESSAGE_TOO_NEW);
    assert_int_equal(k.queue_next, 10);
    stop(d);
}

static void a_reused_message_id_is_parked_behind_the_offset(void **state)
{
    (void)state;
    fake_init(&k);
    messages(3, 0);
    k.outcome = REASON_MESSAGE_ID_REUSED;
    struct order_desk *d = consumer();
    fake_pass(&k, 1000);
    assert_int_equal(k.placed, 3);
    assert_int_equal(k.parked, 3);
    assert_int_equal(k.parked_why[2], REASON_MESSAGE_ID_REUSED);
    assert_int_equal(k.queue_next, 3);
    stop(d);
}

/* The queue under the same name is another one: it is read from its beginning, and nothing of it is skipped. */
static void another_queue_is_read_from_its_beginning(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        fake_init(&k);
        messages(20, 0);
        k.queue_next = how == 1 ? 500 : 10;    /* behind its end; or inside, with an identity that is not there */
        memcpy(k.identity, "other", 5);
        k.identity_len = 5;
        if (how == 2) {    /* the very same queue, under a new connection */
            memcpy(k.identity, "U0009", 5);
            k.link = 9;
        }
        struct order_desk *d = consumer();
        fake_pass(&k, 1000);
        assert_int_equal(k.placed, how == 2 ? 10 : 20);
        assert_int_equal(k.queue_next, 20);
        assert_int_equal(order_facts(d).reread, how == 2 ? 0 : 1);
        stop(d);
    }
}

static void a_new_link_is_not_believed_before_the_queue_is_known(void **state)
{
    (void)state;
    for (size_t others = 3; others <= 8; others += 5) {
        fake_init(&k);
        messages(5, 0);
        struct order_desk *d = consumer();
        fake_pass(&k, 100);
        assert_int_equal(k.queue_next, 5);
        k.link++;
        messages(others, 0);    /* everything the broker had is gone, and fewer or more other messages stand there */
        for (size_t i = 0; i < others; i++)
            uniques[i][0] = 'V';
        fake_pass(&k, 2000);
        assert_int_equal(k.placed, 5 + others);
        assert_int_equal(k.queue_next, others);
        assert_int_equal(order_facts(d).reread, 1);
        stop(d);
    }
}

static void what_retention_took_is_gone_and_the_rest_is_read(void **state)
{
    (void)state;
    fake_init(&k);
    messages(5, 100);
    k.queue_next = 50;
    memcpy(k.identity, "x", 1);
    k.identity_len = 1;
    struct order_desk *d = consumer();
    fake_pass(&k, 1000);
    assert_int_equal(k.placed, 5);
    assert_int_equal(k.queue_next, 105);
    stop(d);
}

/* Each kind of call fails in each way, once, or for two seconds; in the end everything is placed once by the offset's own account. */
static void whatever_fails_everything_is_placed(void **state)
{
    (void)state;
    static const enum fake_op ops[] = {FAKE_QUEUES, FAKE_RANGE, FAKE_LEASE, FAKE_PULL, FAKE_PLACE, FAKE_PARK, FAKE_MIRROR};
    for (size_t o = 0; o < countof(ops); o++)
        for (unsigned r = 0; r < REASON_COUNT; r++)
            for (int at = 1; at <= 3; at += 2) {
                if (r == REASON_OK || (ops[o] == FAKE_PLACE && r == REASON_POISON && at > 1))
                    continue;
                fake_init(&k);
                messages(30, 5);
                message(7, str_lit("nonsense"));
                k.inject_op = ops[o];
                k.inject = r;
                k.inject_at = (size_t)at;
                k.inject_until = (size_t)at + (r % 2 ? 0 : 1);
                k.silent = r == REASON_TIMED_OUT;
                struct order_desk *d = consumer();
                fake_pass(&k, 30000);
                assert_int_equal(k.queue_next, 35);
                assert_true(k.placed + k.parked >= 30);
                stop(d);
            }
}

static void a_consumer_may_die_at_any_moment(void **state)
{
    (void)state;
    for (uint32_t ms = 0; ms < 40; ms++) {
        fake_init(&k);
        messages(100, 0);
        struct order_desk *d = consumer();
        fake_pass(&k, ms);
        order_free(d);
        d = consumer();
        fake_pass(&k, 1000);
        assert_int_equal(k.queue_next, 100);
        assert_true(k.placed >= 100);
        stop(d);
    }
}

/* ---- relay --------------------------------------------------------------------------------------------------------------------------- */

static void rows(void)
{
    static const struct outbox_row base = {.activity = str_lit("act"), .activity_number = 7, .epoch = 1, .buckets = 2, .user = str_lit("user"), .sku = str_lit("sku"),
                                           .request = str_lit("req"), .reservation = str_lit("rsv_00041061050R3GG28A1C60T3QZ"), .token = {3, 2},
                                           .topic_key = str_lit("ord"), .body = str_lit("{\"a\":1}")};
    static const enum outbox_kind kinds[] = {OUTBOX_STATUS, OUTBOX_STATUS, OUTBOX_RETURN, OUTBOX_RETURN, OUTBOX_EVENT, OUTBOX_DEAD_LETTER};
    k.row_count = countof(kinds);
    for (size_t i = 0; i < k.row_count; i++) {
        k.rows[i] = base;
        k.rows[i].row = (int64_t)i + 1;
        k.rows[i].version = 1;
        k.rows[i].kind = kinds[i];
        k.rows[i].state = i ? RESERVATION_RELEASED : RESERVATION_ORDERED;
        k.rows[i].why = i ? REASON_DUPLICATE_USER : REASON_OK;
    }
}

static struct relay *relay_open(void)
{
    struct relay_options options = relay_options_default();
    struct relay *r = relay_new(&k.store, &k.bus, &k.ledger, &k.clock.clock, &k.random.random, &k.keys, &options);
    assert_non_null(r);
    relay_start(r);
    return r;
}

static void relay_close(struct relay *r)
{
    relay_drain(r);
    fake_pass(&k, 5000);
    assert_true(relay_idle(r));
    relay_free(r);
    fake_end(&k);
}

static void rows_are_carried_where_they_belong(void **state)
{
    (void)state;
    fake_init(&k);
    rows();
    k.rows[3].stale = true;
    struct relay *r = relay_open();
    fake_pass(&k, 100);
    for (size_t i = 0; i < k.row_count; i++)
        assert_true(k.row_done[i]);
    assert_int_equal(k.settled[RESERVATION_ORDERED], 1);
    assert_int_equal(k.settled[RESERVATION_RELEASED], 1);
    assert_int_equal(k.calls[FAKE_RESTOCK], 1);
    assert_int_equal(k.restocked, 1);    /* the other unit has moved on */
    assert_int_equal(k.sent, 2);
    uint64_t hash = user_hash(&k.keys, str_lit("user"));
    assert_int_equal(k.last_settle.bucket.number, user_bucket(hash, 2));
    assert_int_equal(k.last_settle.user_hash, hash);
    relay_close(r);
}

static void event_carries_its_tag_and_follows_its_order(void **state)
{
    static const struct {
        enum outbox_kind kind;
        const char *key, *body, *tag;
    } events[] = {
        {OUTBOX_EVENT, "ord_00041061050R3GG28A1C60T3QZ", "{\"event\":\"ORDER_CREATED\",\"order_id\":\"ord_x\"}", "ORDER_CREATED"},
        {OUTBOX_EVENT, "ord_00041061050R3GG28A1C60T3QZ", "{\"event\":\"PAID\"}", "PAID"},
        {OUTBOX_REFUND, "ord_00041061050R3GG28A1C60T3QZ", "{\"event\":\"REFUND_REQUESTED\"}", "REFUND_REQUESTED"},
        {OUTBOX_EVENT, "rsv_00041061050R3GG28A1C60T3QZ", "{\"event_id\":\"E\",\"event\":\"RESERVATION_RELEASED\"}", "RESERVATION_RELEASED"},
        {OUTBOX_EVENT, "ord_00041061050R3GG28A1C60T3Q0", "{\"event\":\"PAID\"}", "PAID"},
        {OUTBOX_DEAD_LETTER, "msg_00041061050R3GG28A1C60T3QZ", "{\"event\":\"PAID\"}", ""}};
    (void)state;
    fake_init(&k);
    rows();
    k.row_count = countof(events);
    for (size_t i = 0; i < countof(events); i++) {
        k.rows[i].kind = events[i].kind;
        k.rows[i].topic_key = str_of(events[i].key);
        k.rows[i].body = str_of(events[i].body);
    }
    struct relay *r = relay_open();
    fake_pass(&k, 100);
    assert_int_equal(k.sent, countof(events));
    for (size_t i = 0; i < countof(events); i++)
        assert_string_equal(k.tags[i], events[i].tag);
    for (size_t i = 1; i < 4; i++)
        assert_true(k.spreads[i] == k.spreads[0] && k.spreads[i] != 0);    /* all of one order, and of the reservation that it came from */
    assert_true(k.spreads[4] != k.spreads[0] && k.spreads[4] != 0);
    assert_int_equal(k.spreads[5], 0);
    relay_close(r);
}

/* Several effects of one row: it is finished when all of them have happened, and once. */
static void a_row_of_several_effects_ends_with_the_last(void **state)
{
    (void)state;
    fake_init(&k);
    rows();
    for (size_t i = 0; i < k.row_count; i++)
        k.rows[i].row = (int64_t)(i | 1) + 1;    /* two statuses; two returns, one of which waits; an event and a dead letter */
    k.rows[2].rebuilding = true;
    struct relay *r = relay_open();
    fake_pass(&k, 500);
    assert_true(k.row_done[1] && !k.row_done[3] && k.row_done[5]);
    k.rows[2].rebuilding = false;
    fake_pass(&k, 1000);
    assert_true(k.row_done[3]);
    for (size_t i = 0; i < k.row_count; i++)
        k.row_done[i] = true;
    relay_close(r);
}

static void a_return_waits_while_its_activity_is_rebuilt(void **state)
{
    (void)state;
    fake_init(&k);
    rows();
    k.rows[2].rebuilding = k.rows[3].rebuilding = true;
    struct relay *r = relay_open();
    fake_pass(&k, 500);
    assert_true(k.row_done[0] && !k.row_done[2] && !k.row_done[3]);
    k.rows[2].rebuilding = false;
    fake_pass(&k, 1000);
    assert_true(k.row_done[2] && !k.row_done[3]);
    relay_close(r);
}

/* Rows that the store cannot be told are not held back for long after it is there again. */
static void rows_of_a_store_that_is_away_are_held_for_a_moment(void **state)
{
    (void)state;
    fake_init(&k);
    rows();
    struct relay *r = relay_open();
    fake_pass(&k, 500);
    assert_int_equal(k.last_hold_ms, 10000);
    k.incarnation = "";
    fake_pass(&k, 500);
    assert_int_equal(k.last_hold_ms, 1500);
    k.incarnation = "fake-1";
    fake_pass(&k, 500);
    assert_int_equal(k.last_hold_ms, 10000);
    relay_close(r);
}

/* A row is finished only when its effect is known to have happened; and in the end all are. */
static void whatever_fails_rows_stay_until_they_are_carried(void **state)
{
    (void)state;
    static const struct { enum fake_op op; size_t row; } cases[] = {
        {FAKE_SETTLE, 0}, {FAKE_RESTOCK, 2}, {FAKE_SEND, 4}, {FAKE_CLAIM, 0}, {FAKE_FINISH, 0}};
    for (size_t c = 0; c < countof(cases); c++)
        for (unsigned reason = 0; reason < REASON_COUNT; reason++) {
            if (reason == REASON_OK)
                continue;
            fake_init(&k);
            rows();
            k.inject_op = cases[c].op;
            k.inject = reason;
            struct relay *r = relay_open();
            fake_pass(&k, 1000);
            bool effect = reason_fate(reason) == FATE_DONE || (cases[c].op == FAKE_SETTLE && reason == REASON_UNKNOWN_ACTIVITY);
            if (cases[c].op == FAKE_SETTLE || cases[c].op == FAKE_RESTOCK || cases[c].op == FAKE_SEND)
                assert_int_equal(k.row_done[cases[c].row], effect);
            k.inject = REASON_OK;
            fake_pass(&k, 20000);
            for (size_t i = 0; i < k.row_count; i++)
                assert_true(k.row_done[i]);
            relay_close(r);
        }
}

/* ---- janitor -------------------------------------------------------------------------------------------------------------------------- */

static struct janitor *janitor_open(void)
{
    struct janitor_options options = janitor_options_default();
    options.catalog.memory = 1 << 16;
    options.publisher.pending = options.settler.pending = 64;
    struct janitor *j = janitor_new(&k.store, &k.bus, &k.ledger, &k.clock.clock, &k.random.random, &k.keys, &options);
    assert_non_null(j);
    janitor_start(j);
    return j;
}

static void janitor_close(struct janitor *j)
{
    k.inject = REASON_OK;
    janitor_drain(j);
    fake_pass(&k, 10000);
    assert_true(janitor_idle(j));
    janitor_free(j);
    fake_end(&k);
}

static void due_entry(enum reservation_state state, int64_t age_ms)
{
    k.dues[0] = (struct due_entry){str_lit("user"), fake_entry(&k, str_lit("user"), state, age_ms)};
    k.due_count = 1;
}

static void what_is_due_is_announced_or_left(void **state)
{
    (void)state;
    static const struct { enum reservation_state state; int64_t age_ms; bool sent, asked; } cases[] = {
        {RESERVATION_RESERVED, 1100, true, false}, {RESERVATION_RESERVED, 5000, true, true}, {RESERVATION_RECONCILING, 2500, true, true},
        {RESERVATION_PUBLISHED, 1100, false, false}, {RESERVATION_PUBLISHED, 30000, false, true}, {RESERVATION_PUBLISHED, 46000, true, true},
        {RESERVATION_PROCESSING, 46000, true, true}, {RESERVATION_MANUAL_REVIEW, 60000, false, true}, {RESERVATION_RELEASE_PENDING, 60000, false, true}};
    for (size_t i = 0; i < countof(cases); i++) {
        fake_init(&k);
        struct janitor *j = janitor_open();
        due_entry(cases[i].state, cases[i].age_ms);
        fake_pass(&k, 700);
        assert_int_equal(k.sent > 0, cases[i].sent);
        assert_int_equal(k.calls[FAKE_LEDGER_LOOK] > 0, cases[i].asked);
        if (cases[i].state == RESERVATION_PUBLISHED && cases[i].sent)
            assert_true(k.settled[RESERVATION_RECONCILING] > 0);
        janitor_close(j);
    }
}

/* Nobody consumes for ten minutes: what the broker has is announced again a few times, not every 15 s; and with the ledger away, which who consumes needs
 * too, only what was perhaps never sent. */
static void what_stands_in_the_broker_is_not_piled_up(void **state)
{
    (void)state;
    fake_init(&k);
    struct janitor *j = janitor_open();
    unsigned sent = 0;
    for (int64_t age_ms = 15000; age_ms < 600000; age_ms += 16000) {    /* its turns */
        size_t before = k.sent;
        due_entry(RESERVATION_PUBLISHED, age_ms);
        for (int i = 0; i < 50 && k.due_count > 0; i++)
            fake_pass(&k, 50);
        k.due_count = 0;
        fake_pass(&k, 100);
        sent += k.sent > before;
    }
    assert_in_range(sent, 6, 10);    /* at 45, 90, 180 s and then every 120 s, once or twice each */
    static const enum reservation_state states[] = {RESERVATION_RESERVED, RESERVATION_RECONCILING, RESERVATION_PUBLISHED};
    k.ledger_look = REASON_DEPENDENCY_DOWN;
    for (size_t i = 0; i < countof(states); i++) {
        size_t before = k.sent;
        due_entry(states[i], 46000);
        fake_pass(&k, 700);
        assert_int_equal(k.sent > before, states[i] == RESERVATION_RESERVED);
    }
    janitor_close(j);
}

/* The broker has lost the messages, and consumers were away for an hour. Once they have read the queues to their ends the next turn of a reservation announces it,
 * whatever its age; before that the schedule never pauses for more than two minutes. */
static void lost_message_is_announced_once_the_queues_are_read(void **state)
{
    (void)state;
    static const int64_t ages_s[] = {30, 100, 1800, 3600, 3725, 7000};
    for (size_t i = 0; i < countof(ages_s); i++) {
        fake_init(&k);
        struct janitor *j = janitor_open();
        k.backlog.read_ms = ages_s[i] * 1000 + 60000;    /* not read beyond the moment at which the broker had it */
        int64_t made_ms = clock_now_ms(&k.clock.clock) - ages_s[i] * 1000 + 5000;
        due_entry(RESERVATION_PUBLISHED, ages_s[i] * 1000 - 5000);
        fake_pass(&k, 1500);
        size_t before = k.sent;
        k.backlog.read_ms = 1000;                          /* the consumers are back, and have read all but the last second */
        k.dues[0].entry.created_ms = k.dues[0].entry.updated_ms = made_ms;
        fake_pass(&k, 3000);
        assert_true(k.sent > before);
        assert_true(k.settled[RESERVATION_RECONCILING] > 0);
        janitor_close(j);
    }
    fake_init(&k);
    struct janitor *j = janitor_open();
    k.backlog.read_ms = 0;                                 /* read, and a verdict is on its way: a young one is left alone, and so is one published just now */
    due_entry(RESERVATION_PUBLISHED, 1500);
    fake_pass(&k, 400);
    assert_int_equal(k.sent, 0);
    due_entry(RESERVATION_PUBLISHED, 30000);
    for (int ms = 0; ms < 5000; ms += 100) {
        k.dues[0].entry.updated_ms = clock_now_ms(&k.clock.clock) - 500;
        fake_pass(&k, 100);
    }
    assert_int_equal(k.sent, 0);
    janitor_close(j);

    fake_init(&k);                                         /* nothing is known of the queues: never more than 120 s and a turn without an announcement */
    j = janitor_open();
    int64_t last_s = 45;
    for (int64_t age_s = 45; age_s < 7200; age_s += 15) {
        size_t before = k.sent;
        due_entry(RESERVATION_PUBLISHED, age_s * 1000);
        fake_pass(&k, 1000);
        if (k.sent > before)
            last_s = age_s;
        assert_true(age_s - last_s <= 135);
        k.due_count = 0;
        fake_pass(&k, 100);
    }
    janitor_close(j);
}

static void a_verdict_is_told_and_nothing_sent(void **state)
{
    (void)state;
    fake_init(&k);
    struct janitor *j = janitor_open();
    char rsv[IDENT_ID_TEXT];
    due_entry(RESERVATION_RESERVED, 5000);
    ident_write(k.dues[0].entry.ident, IDENT_RESERVATION, rsv);
    k.ledger_look = REASON_OK;
    k.looked = (struct ledger_look_answer){.decided = true, .verdict = {.outcome = REASON_ORDERED, .order = str_lit("o")},
                                           .what = {.reservation = {rsv, sizeof rsv}, .message = str_lit("m"), .request = str_lit("req"), .activity = str_lit("act"),
                                                    .sku = str_lit("sku"), .user = str_lit("user"), .token = {3, 1}}};
    fake_pass(&k, 700);
    assert_int_equal(k.sent, 0);
    assert_true(k.settled[RESERVATION_ORDERED] >= 1);
    k.looked.decided = false;
    k.looked.parked = true;    /* before a person: not announced again */
    fake_pass(&k, 700);
    assert_int_equal(k.sent, 0);
    janitor_close(j);
}

static void a_bucket_that_lags_is_told_but_none_is_made(void **state)
{
    (void)state;
    fake_init(&k);
    struct janitor *j = janitor_open();
    k.activity.version = 9;
    k.activity.state = ACTIVITY_PAUSED;
    k.inject_op = FAKE_STOCK;
    k.inject = REASON_STALE_EPOCH;
    fake_pass(&k, 3000);
    assert_false(k.installed);
    assert_int_equal(janitor_facts(j).missing, k.activity.buckets);    /* and it is said */
    assert_int_equal(metric_read(METRIC_MISSING_BUCKETS, 0), k.activity.buckets);
    k.inject = REASON_OK;
    fake_pass(&k, 3000);
    assert_true(k.installed && k.stock.version == 9 && !k.created);
    assert_int_equal(metric_read(METRIC_MISSING_BUCKETS, 0), 0);
    k.activity.state = ACTIVITY_CLOSED;
    k.inject = REASON_STALE_EPOCH;
    fake_pass(&k, 12000);
    assert_int_equal(janitor_facts(j).missing, 0);    /* what is over may be gone */
    janitor_close(j);
}

/* Another server: closed, told again, recorded, opened; whatever fails on the way, for a while. */
static void a_stranger_is_closed_healed_and_opened(void **state)
{
    (void)state;
    static const enum fake_op ops[] = {FAKE_CLOSE, FAKE_HEAL, FAKE_OPEN, FAKE_ACTIVITIES};
    for (size_t o = 0; o < countof(ops); o++)
        for (unsigned r = 0; r < REASON_COUNT; r++) {
            fake_init(&k);
            struct janitor *j = janitor_open();
            k.activity.buckets = 1;
            fake_pass(&k, 1700);
            k.incarnation = "fake-2";
            k.heals = 4;
            k.inject_op = ops[o];
            k.inject = r;
            fake_pass(&k, 1500);
            k.inject = REASON_OK;
            fake_pass(&k, 6000);
            assert_true(k.calls[FAKE_CLOSE] > 0 && k.calls[FAKE_HEAL] > 3 && k.calls[FAKE_OPEN] > 0);
            assert_true(!k.mark[0] && str_eq(k.incarnations[0], str_lit("fake-2")));
            size_t closes = k.calls[FAKE_CLOSE];
            fake_pass(&k, 3000);
            assert_int_equal(k.calls[FAKE_CLOSE], closes);    /* and it is good */
            assert_int_equal(janitor_facts(j).closed, 0);
            janitor_close(j);
        }
}

/* A bucket that lost a key is indexed again before it is told again and opened; whatever fails on the way, for a while. */
static void a_bucket_that_lost_a_key_is_indexed_healed_and_opened(void **state)
{
    (void)state;
    for (unsigned r = 0; r < REASON_COUNT; r++) {
        fake_init(&k);
        struct janitor *j = janitor_open();
        k.activity.buckets = 1;
        fake_pass(&k, 1700);
        snprintf(k.mark, sizeof k.mark, "fake-1/lost");
        k.lost = "pending";
        k.heals = 4;
        k.inject_op = FAKE_REINDEX;
        k.inject = r;
        fake_pass(&k, 1500);
        if (r != REASON_OK)
            assert_int_equal(k.calls[FAKE_HEAL] + k.calls[FAKE_OPEN], 0);    /* not before it is indexed */
        k.inject = REASON_OK;
        fake_pass(&k, 4000);
        assert_true(k.calls[FAKE_REINDEX] >= 2 && k.calls[FAKE_HEAL] > 3 && k.calls[FAKE_OPEN] > 0 && !k.mark[0] && !k.lost);
        assert_int_equal(janitor_facts(j).closed, 0);
        janitor_close(j);
    }
}

static size_t indexed;
static void on_indexed(struct reindexer *r, const struct bucket *b, struct str mark)
{
    indexed++;
    assert_true(b->number == 0 && mark.len > 0 && reindexer_idle(r));
}

static void one_bucket_is_indexed_at_a_time(void **state)
{
    (void)state;
    fake_init(&k);
    struct reindexer r;
    struct bucket one = {str_lit("act"), 1, 0}, two = {str_lit("act"), 1, 1};
    struct str mark = str_lit("fake-1/lost"), lost = str_lit("pending");
    reindexer_init(&r, &k.store, &k.clock.clock, reindexer_options_default(), on_indexed);
    snprintf(k.mark, sizeof k.mark, "fake-1/lost");
    k.lost = "pending";
    assert_true(reindexer_want(&r, &one, mark, lost));
    assert_false(reindexer_want(&r, &two, mark, lost));
    assert_false(reindexer_want(&r, &one, mark, lost));
    fake_pass(&k, 100);
    assert_true(indexed == 1 && reindexer_idle(&r));
    k.lost = "pending";
    k.inject_op = FAKE_REINDEX;
    k.inject = REASON_TIMED_OUT;    /* for good: it is given up after ten */
    size_t before = k.calls[FAKE_REINDEX];
    assert_true(reindexer_want(&r, &two, str_of(k.mark), lost));
    fake_pass(&k, 60000);
    assert_int_equal(k.calls[FAKE_REINDEX] - before, 10);
    assert_true(indexed == 1 && reindexer_idle(&r));
    k.inject = REASON_OK;
    reindexer_free(&r);
    fake_end(&k);
}

/* A store that was away for a while comes back as another server: its bucket is closed, and recovery begins, within a fifth of a round. */
static void a_restarted_store_is_found_at_once(void **state)
{
    (void)state;
    for (unsigned phase = 0; phase < 12; phase++) {
        fake_init(&k);
        struct janitor *j = janitor_open();
        k.activity.buckets = 1;
        fake_pass(&k, 1700);
        k.inject_op = FAKE_STOCK;
        k.inject = REASON_DEPENDENCY_DOWN;
        fake_pass(&k, 3000 + 41 * phase);
        k.incarnation = "fake-2";
        k.inject = REASON_OK;
        fake_pass(&k, 150);
        assert_true(k.calls[FAKE_CLOSE] > 0);
        fake_pass(&k, 1000);
        assert_true(!k.mark[0] && str_eq(k.incarnations[0], str_lit("fake-2")));
        janitor_close(j);
    }
}

/* Another has healed the bucket, and the janitor cannot hear of it: he closes nothing, then or later. */
static void a_janitor_who_does_not_hear_the_ledger_closes_nothing(void **state)
{
    (void)state;
    fake_init(&k);
    struct janitor *j = janitor_open();
    k.activity.buckets = 1;
    fake_pass(&k, 1700);
    k.inject_op = FAKE_ACTIVITIES;
    k.inject = REASON_DEPENDENCY_DOWN;
    k.incarnation = "fake-2";
    k.incarnations[0] = str_lit("fake-2");
    fake_pass(&k, 5000);
    assert_int_equal(k.calls[FAKE_CLOSE], 0);
    k.inject = REASON_OK;
    fake_pass(&k, 5000);
    assert_int_equal(k.calls[FAKE_CLOSE], 0);
    k.incarnation = "fake-3";    /* one that nobody knows */
    fake_pass(&k, 5000);
    assert_int_equal(k.calls[FAKE_CLOSE], 1);
    janitor_close(j);
}

/* The sequence of a bucket that nobody asks goes back: the janitor sees it. And what warm has not counted yet is left alone. */
static void the_janitor_sees_what_went_back(void **state)
{
    (void)state;
    fake_init(&k);
    struct janitor *j = janitor_open();
    k.activity.buckets = 1;
    k.sequence = 1000;
    fake_pass(&k, 1700);
    assert_int_equal(k.calls[FAKE_CLOSE], 0);
    k.sequence = 10;
    k.heals = 2;
    fake_pass(&k, 3000);
    assert_true(k.calls[FAKE_CLOSE] == 1 && k.last_close.went_back && k.calls[FAKE_OPEN] == 1 && !k.mark[0]);
    k.activity.state = k.stock.state = ACTIVITY_WARM;
    k.incarnations[0] = (struct str){0};
    fake_pass(&k, 3000);
    assert_int_equal(k.calls[FAKE_CLOSE], 1);
    k.activity.state = k.stock.state = ACTIVITY_OPEN;    /* an activity from before there were such records */
    fake_pass(&k, 3000);
    assert_true(k.calls[FAKE_CLOSE] == 2 && !k.last_close.went_back && str_eq(k.incarnations[0], str_lit("fake-1")));
    janitor_close(j);
}

/* Who began a warm has died, or the store was away: seen so for ten seconds, it is finished. A sale that has been open is never filled again. */
static void a_warm_that_was_left_is_finished(void **state)
{
    (void)state;
    fake_init(&k);
    struct janitor *j = janitor_open();
    k.activity.buckets = 1;
    k.activity.state = k.stock.state = ACTIVITY_WARM;
    k.incarnations[0] = (struct str){0};
    k.seeded = false;
    fake_pass(&k, 8000);
    assert_true(!k.seeded && k.calls[FAKE_MOVE] == 0);    /* somebody may be at it */
    fake_pass(&k, 5000);
    assert_true(k.seeded && k.calls[FAKE_MOVE] == 1);
    fake_pass(&k, 30000);
    assert_int_equal(k.calls[FAKE_MOVE], 1);
    k.activity.state = k.stock.state = ACTIVITY_OPEN;
    k.seeded = false;
    fake_pass(&k, 30000);
    assert_true(!k.seeded && k.calls[FAKE_MOVE] == 1);
    janitor_close(j);
}

static struct activity numbered(uint16_t number)
{
    struct activity a = k.activity;
    a.number = number;
    return a;
}

/* Two that were left, both seen all the time: one is finished, then the other. */
static void unfinished_warms_wait_their_turn(void **state)
{
    (void)state;
    fake_init(&k);
    k.activity.state = k.stock.state = ACTIVITY_WARM;
    struct activity one = numbered(7), other = numbered(8);
    struct warming w;
    assert_true(warming_init(&w, &k.store, &k.ledger, &k.clock.clock, warming_options_default()));
    for (int ms = 0; ms < 10000; ms += 500) {
        warming_seen(&w, &one);
        warming_seen(&w, &other);
        fake_pass(&k, 500);
    }
    assert_int_equal(k.calls[FAKE_MOVE], 0);
    for (int ms = 0; ms < 10000; ms += 500) {
        warming_seen(&w, &one);
        warming_seen(&w, &other);
        fake_pass(&k, 500);
        assert_int_equal(k.calls[FAKE_MOVE], 1);
        one = other;    /* the first is finished, and not seen again */
    }
    fake_pass(&k, 500);    /* it was watched half a second later */
    warming_seen(&w, &other);
    fake_pass(&k, 1000);
    assert_int_equal(k.calls[FAKE_MOVE], 2);
    warming_stop(&w);
    warming_free(&w);
    fake_end(&k);
}

/* Eight places: of nine buckets the one not asked longest is forgotten, and its next answer believed, however old. */
static void the_longest_unasked_is_forgotten(void **state)
{
    (void)state;
    fake_init(&k);
    struct incarnation_guard g;
    assert_true(incarnation_init(&g, &k.store, (struct incarnation_options){.buckets = 8, .call_ms = 500}));
    for (uint16_t n = 1; n <= 9; n++) {
        struct activity a = numbered(n);
        assert_true(incarnation_answered(&g, &a, 0, incarnation_ask(&g, &a, 0), 100, true));
    }
    struct activity first = numbered(1), last = numbered(9);
    assert_false(incarnation_answered(&g, &last, 0, incarnation_ask(&g, &last, 0), 100, true));
    assert_true(incarnation_answered(&g, &first, 0, incarnation_ask(&g, &first, 0), 50, true));
    fake_pass(&k, 10);
    incarnation_free(&g);
    fake_end(&k);
}

/* Answers may overtake each other: only what was asked after something had been seen may not be older than that. */
static void answers_may_overtake_each_other(void **state)
{
    (void)state;
    fake_init(&k);
    struct incarnation_guard g;
    struct activity a = numbered(1);
    assert_true(incarnation_init(&g, &k.store, incarnation_options_default()));
    struct incarnation_asked one = incarnation_ask(&g, &a, 0), two = incarnation_ask(&g, &a, 0);
    assert_true(incarnation_answered(&g, &a, 0, two, 8, true) && incarnation_answered(&g, &a, 0, one, 7, true));
    struct incarnation_asked three = incarnation_ask(&g, &a, 0), look = incarnation_ask(&g, &a, 0);
    assert_true(incarnation_answered(&g, &a, 0, look, 8, false));    /* a look counts nothing */
    k.incarnation = "fake-2";                                        /* what was asked of another server says nothing of this one */
    (void)incarnation_ask(&g, &a, 0);
    assert_true(incarnation_answered(&g, &a, 0, three, 1, true));
    assert_int_equal(k.calls[FAKE_CLOSE], 0);
    incarnation_free(&g);
    fake_end(&k);
}

static void recovery_begin(struct healer *h, size_t calls)
{
    struct healer_options o = healer_options_default();
    assert_int_equal(o.calls, 2);
    o.calls = calls;
    fake_init(&k);
    k.incarnation = "fake-2";
    assert_true(healer_init(h, &k.store, &k.ledger, &k.clock.clock, o));
}

static void recovery_end(struct healer *h)
{
    healer_drain(h);
    fake_pass(&k, 1000);
    assert_true(healer_idle(h));
    healer_free(h);
    fake_end(&k);
}

static struct activity sized(const char *name, int64_t stock)
{
    static struct sku skus[16];
    static size_t used;
    struct activity a = k.activity;
    struct sku *sku = &skus[used++ % countof(skus)];
    *sku = k.activity.skus[0];
    sku->stock = stock;
    a.activity = str_of(name);
    a.skus = sku;
    a.sku_count = 1;
    return a;
}

static void closings_and_recoveries_at_once(void **state)
{
    (void)state;
    struct incarnation_guard g;
    struct healer h;
    recovery_begin(&h, 2);
    k.heals = 1000;
    assert_true(incarnation_init(&g, &k.store, incarnation_options_default()));
    for (uint8_t n = 0; n < 9; n++) {
        struct activity a = numbered((uint16_t)(n + 1));
        incarnation_close(&g, &a, 0);
        incarnation_close(&g, &a, 0);    /* it is under way */
    }
    assert_int_equal(k.calls[FAKE_CLOSE], INCARNATION_CLOSES);
    for (uint8_t n = 0; n < 65; n++) {
        struct bucket b = {str_lit("act"), (uint8_t)(1 + n / 32), n % 32};
        healer_want(&h, &k.activity, &b, str_lit("fake-2/1"));
        healer_want(&h, &k.activity, &b, str_lit("fake-2/1"));
    }
    assert_int_equal(h.busy, 64);
    assert_int_equal(k.calls[FAKE_HEAL], 2);
    healer_drain(&h);
    fake_pass(&k, 1000);
    assert_true(healer_idle(&h) && incarnation_idle(&g));
    healer_want(&h, &k.activity, &(struct bucket){str_lit("act"), 1, 0}, str_lit("fake-2/1"));    /* it is going */
    assert_true(healer_idle(&h));
    incarnation_free(&g);
    recovery_end(&h);
}

/* The large sale is found first, and has all places; the small one, and then one that is only paused, come when there is none. */
static void recovery_takes_open_and_small_sales_first(void **state)
{
    (void)state;
    struct healer h;
    recovery_begin(&h, 1);
    k.heals = 100000;
    struct activity large = sized("large", 1000000), small = sized("small", 100), paused = sized("paused", 1), over = sized("over", 1);
    paused.state = ACTIVITY_PAUSED;
    over.state = ACTIVITY_CLOSED;
    for (uint8_t n = 0; n < 64; n++)
        healer_want(&h, &large, &(struct bucket){large.activity, (uint8_t)(1 + n / 32), n % 32}, str_lit("fake-2/1"));
    assert_int_equal(h.busy, 64);
    healer_want(&h, &small, &(struct bucket){small.activity, 1, 0}, str_lit("fake-2/1"));
    healer_want(&h, &paused, &(struct bucket){paused.activity, 1, 0}, str_lit("fake-2/1"));    /* no lighter than any: not now */
    healer_want(&h, &over, &(struct bucket){over.activity, 1, 0}, str_lit("fake-2/1"));        /* while no other is */
    assert_int_equal(h.busy, 64);
    size_t before = k.calls[FAKE_HEAL];
    fake_pass(&k, 500);
    assert_true(k.calls[FAKE_HEAL] > before + 50);
    assert_true(str_eq(k.last_heal, str_lit("small")));    /* as long as there is more of it to tell, it is told */
    k.heals = 0;
    while (k.calls[FAKE_OPEN] == 0)
        fake_pass(&k, 1);
    assert_true(str_eq(k.last_open, str_lit("small")));
    recovery_end(&h);
}

static void recovery_of_a_closed_sale_waits_for_all_others(void **state)
{
    (void)state;
    struct healer h;
    recovery_begin(&h, 1);
    k.heals = 100000;
    struct activity small = sized("small", 100), over = sized("over", 1), older = sized("older", 1);
    over.state = older.state = ACTIVITY_CLOSED;
    healer_want(&h, &over, &(struct bucket){over.activity, 1, 0}, str_lit("fake-2/1"));
    healer_want(&h, &over, &(struct bucket){over.activity, 1, 1}, str_lit("fake-2/1"));
    healer_want(&h, &older, &(struct bucket){older.activity, 1, 0}, str_lit("fake-2/1"));
    assert_int_equal(h.busy, 2);
    fake_pass(&k, 500);
    assert_true(str_eq(k.last_heal, str_lit("over")));
    healer_want(&h, &small, &(struct bucket){small.activity, 1, 0}, str_lit("fake-2/1"));    /* and makes way */
    fake_pass(&k, 500);
    assert_true(str_eq(k.last_heal, str_lit("small")));
    recovery_end(&h);
}

static void whatever_fails_the_janitor_goes_on(void **state)
{
    (void)state;
    static const enum fake_op ops[] = {FAKE_STOCK, FAKE_DUE, FAKE_INSTALL, FAKE_SEND, FAKE_SETTLE, FAKE_LEDGER_LOOK, FAKE_ACTIVITIES};
    for (size_t o = 0; o < countof(ops); o++)
        for (unsigned r = 0; r < REASON_COUNT; r++) {
            if (r == REASON_OK)
                continue;
            fake_init(&k);
            struct janitor *j = janitor_open();
            due_entry(RESERVATION_RESERVED, r % 2 ? 5000 : 1000);
            k.inject_op = ops[o];
            k.inject = r;
            fake_pass(&k, 1500);
            k.activity.version = 9;
            k.inject = REASON_OK;
            fake_pass(&k, 4000);
            assert_true(k.sent > 0 && k.installed);
            janitor_close(j);
        }
}

/* ---- control --------------------------------------------------------------------------------------------------------------------------- */

static size_t controls_done;
static void control_done(struct control *c)
{
    (void)c;
    controls_done++;
}

static enum reason control_now(struct controller *controller, struct control *c, enum activity_event event)
{
    size_t before = controls_done;
    *c = (struct control){.activity = str_lit("act"), .event = event, .actor = str_lit("me"), .done = control_done};
    assert_true(control_start(controller, c));
    fake_pass(&k, 60000);
    assert_int_equal(controls_done, before + 1);
    return c->reason;
}

static struct controller *control_open(enum activity_state state)
{
    fake_init(&k);
    k.activity.state = state;
    k.seeded = false;
    k.activity.buckets = 1;
    k.unit_count = 4;
    for (size_t i = 0; i < 4; i++)
        k.units[i] = (struct ledger_unit){.token = {(int64_t)i + 1, 1}, .sku = str_lit("sku"), .available = true};
    struct controller *c = controller_new(&k.store, &k.ledger, &k.clock.clock, 1, control_options_default());
    assert_non_null(c);
    return c;
}

static void control_close(struct controller *c)
{
    controller_free(c);
    fake_end(&k);
}

static void an_activity_goes_through_its_life(void **state)
{
    (void)state;
    struct controller *controller = control_open(ACTIVITY_DRAFT);
    struct control c;
    assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_OPEN), REASON_CONFLICT);
    assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_WARM), REASON_OK);
    assert_true(k.seeded && c.seeded == 4 && c.moved && c.state == ACTIVITY_WARM);
    assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_WARM), REASON_OK);
    assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_OPEN), REASON_OK);
    assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_PAUSE), REASON_OK);
    assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_RESUME), REASON_OK);
    assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_CLOSE), REASON_OK);
    assert_int_equal(k.stock.state, ACTIVITY_CLOSED);
    assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_OPEN), REASON_CONFLICT);
    control_close(controller);
}

static void a_half_warmed_activity_is_not_opened(void **state)
{
    (void)state;
    struct controller *controller = control_open(ACTIVITY_DRAFT);
    struct control c;
    k.inject_op = FAKE_RESTOCK;
    k.inject = REASON_DEPENDENCY_DOWN;
    assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_WARM), REASON_DEPENDENCY_DOWN);
    assert_true(c.moved && !k.seeded);
    assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_OPEN), REASON_CONFLICT);
    assert_int_equal(k.activity.state, ACTIVITY_WARM);
    k.inject = REASON_OK;
    assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_WARM), REASON_OK);
    assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_OPEN), REASON_OK);
    control_close(controller);
}

static void whatever_fails_a_move_ends_once_and_can_be_repeated(void **state)
{
    (void)state;
    static const enum fake_op ops[] = {FAKE_MOVE, FAKE_INSTALL, FAKE_UNITS, FAKE_RESTOCK, FAKE_STOCK};
    for (size_t o = 0; o < countof(ops); o++)
        for (unsigned r = 0; r < REASON_COUNT; r++) {
            struct controller *controller = control_open(ACTIVITY_DRAFT);
            struct control c;
            if (r == REASON_OK) {
                control_close(controller);
                continue;
            }
            k.inject_op = ops[o];
            k.inject = r;
            enum reason reason = control_now(controller, &c, ACTIVITY_EVENT_WARM);
            assert_int_equal(reason == REASON_OK, reason_fate(r) == FATE_DONE && ops[o] == FAKE_INSTALL);    /* the others owe an answer */
            k.inject = REASON_OK;
            assert_int_equal(control_now(controller, &c, ACTIVITY_EVENT_WARM), REASON_OK);
            control_close(controller);
        }
}

/* ---- conservation ---------------------------------------------------------------------------------------------------------------------- */

static size_t counts_done;
static void count_done(struct conservation *c)
{
    (void)c;
    counts_done++;
}

static struct conservation count_now(void)
{
    static struct conservation_options options;
    size_t before = counts_done;
    static struct conservation c;
    options = conservation_options_default();
    c = (struct conservation){.activity = str_lit("act"), .done = count_done};
    assert_true(conservation_start(&c, &k.store, &k.ledger, &k.clock.clock, &options));
    fake_pass(&k, 60000);
    assert_int_equal(counts_done, before + 1);
    return c;
}

/* Four units: one free, one reserved, one ordered, one coming back. */
static void books(void)
{
    fake_init(&k);
    k.activity.buckets = 1;
    k.unit_count = 4;
    for (size_t i = 0; i < 4; i++)
        k.units[i] = (struct ledger_unit){.token = {(int64_t)i + 1, 2}, .sku = str_lit("sku"), .available = true};
    k.units[2].available = false;
    k.units[2].ordered = true;
    k.units[3].returning = true;
    k.held_count = 2;
    k.held[0] = (struct held){.holding = HOLDING_FREE, .sku = str_lit("sku"), .token = {1, 2}};
    k.held[1] = (struct held){.holding = HOLDING_RESERVED, .sku = str_lit("sku"), .token = {2, 2}, .user = str_lit("user"), .ident = {{1}}};
}

static void each_unit_is_found_by_its_name(void **state)
{
    (void)state;
    books();
    struct conservation c = count_now();
    assert_int_equal(c.reason, REASON_OK);
    const struct conservation_sku *s = &c.skus[0];
    assert_true(s->s0 == 4 && s->a == 1 && s->r == 1 && s->o == 1 && s->c == 1 && s->e == 0 && s->drift == 0);
    assert_int_equal(c.unit_count, 2);
    assert_int_equal(c.looks, 1);
    conservation_close(&c);
    fake_end(&k);
}

static void what_was_planted_is_named(void **state)
{
    (void)state;
    static const struct { const char *what; int64_t unit; enum conservation_owner owner; } plants[] = {
        {"lost", 1, OWNER_NONE}, {"sold and free", 3, OWNER_TWO}, {"twice", 2, OWNER_TWO}, {"stale", 1, OWNER_STALE}, {"stale beside", 3, OWNER_STALE},
        {"consumed by nobody", 3, OWNER_NONE}, {"no row", 4, OWNER_NONE}, {"foreign", 77, OWNER_STALE},
        {"free and resting", 1, OWNER_TWO}};
    for (size_t i = 0; i < countof(plants); i++) {
        books();
        if (i == 0)
            k.held[0] = k.held[1], k.held_count = 1;
        else if (i == 1)
            k.held[k.held_count++] = (struct held){.holding = HOLDING_FREE, .sku = str_lit("sku"), .token = {3, 2}};
        else if (i == 2)
            k.held[k.held_count++] = (struct held){.holding = HOLDING_RESERVED, .sku = str_lit("sku"), .token = {2, 2}, .ident = {{2}}};
        else if (i == 3)
            k.held[0].token.generation = 1;
        else if (i == 4)
            k.held[k.held_count++] = (struct held){.holding = HOLDING_RESTING, .sku = str_lit("sku"), .token = {3, 1}};
        else if (i == 5)
            k.units[2].ordered = false;
        else if (i == 6)
            k.unit_count = 3;
        else if (i == 8)
            k.held[k.held_count++] = (struct held){.holding = HOLDING_RESTING, .sku = str_lit("sku"), .token = {1, 2}};
        else
            k.held[k.held_count++] = (struct held){.holding = HOLDING_FREE, .sku = str_lit("sku"), .token = {77, 1}};
        struct conservation c = count_now();
        assert_int_equal(c.reason, REASON_OK);
        assert_true(c.skus[0].drift == 1);
        assert_true(c.units[0].finding && c.units[0].token.unit == plants[i].unit && c.units[0].owner == plants[i].owner && c.units[0].detail);
        assert_true(c.skus[0].a + c.skus[0].r + c.skus[0].o + c.skus[0].c + c.skus[0].e == 4);
        conservation_close(&c);
        fake_end(&k);
    }
}

static void a_unit_on_its_way_is_no_finding(void **state)
{
    (void)state;
    books();
    static struct conservation_options options;
    options = conservation_options_default();
    struct conservation c = {.activity = str_lit("act"), .done = count_done};
    size_t before = counts_done;
    k.held_count = 0;    /* in the first look nobody has it */
    assert_true(conservation_start(&c, &k.store, &k.ledger, &k.clock.clock, &options));
    fake_pass(&k, 1000);
    k.held_count = 2;
    fake_pass(&k, 10000);
    assert_int_equal(counts_done, before + 1);
    assert_true(c.skus[0].drift == 0 && c.skus[0].a == 1 && c.looks == 2);
    conservation_close(&c);
    fake_end(&k);
}

static void whatever_fails_a_count_ends_once(void **state)
{
    (void)state;
    static const enum fake_op ops[] = {FAKE_ACTIVITIES, FAKE_UNITS, FAKE_HOLDINGS};
    for (size_t o = 0; o < countof(ops); o++)
        for (unsigned r = 0; r < REASON_COUNT; r++) {
            if (r == REASON_OK)
                continue;
            books();
            k.inject_op = ops[o];
            k.inject = r;
            struct conservation c = count_now();
            assert_true(c.reason != REASON_OK || r == REASON_STALE_EPOCH);
            conservation_close(&c);
            k.inject_until = k.calls[ops[o]] + 1;    /* the next one alone: tried again */
            c = count_now();
            assert_int_equal(c.reason, REASON_OK);
            conservation_close(&c);
            fake_end(&k);
        }
}

/* ---- the auditor ---------------------------------------------------------------------------------------------------------------- */

static struct catalog shelf;

static struct auditor audits(uint32_t missing_ms)
{
    struct auditor_options options = auditor_options_default();
    options.every_ms = 1000;
    options.missing_ms = missing_ms;
    struct auditor a;
    assert_true(catalog_init(&shelf, &k.ledger, &k.clock.clock, catalog_options_default()));
    catalog_start(&shelf);
    assert_true(auditor_init(&a, &k.store, &k.ledger, &k.clock.clock, &k.random.random, &shelf, options));
    return a;
}

static void audits_end(struct auditor *a)
{
    auditor_drain(a);
    auditor_free(a);
    catalog_stop(&shelf);
    catalog_free(&shelf);
    fake_end(&k);
}

static void a_broken_rule_pauses_the_sale(void **state)
{
    (void)state;
    books();
    struct auditor a = audits(60000);
    auditor_start(&a);
    fake_pass(&k, 10000);
    assert_true(a.facts.counts >= 3 && a.facts.broken == 0 && k.calls[FAKE_MOVE] == 0 && k.calls[FAKE_REPAIR] == 0);
    k.finding = (struct finding){str_lit("H5"), str_lit("unit 1"), str_lit("held twice")};
    fake_pass(&k, 5000);
    assert_true(k.activity.state == ACTIVITY_PAUSED && a.facts.broken == 1 && k.calls[FAKE_MOVE] == 1 && a.facts.paused == 1);
    fake_pass(&k, 10000);
    assert_int_equal(k.calls[FAKE_MOVE], 1);                    /* it is, already */
    k.activity.state = ACTIVITY_OPEN;                           /* somebody resumes it, and nothing was mended */
    fake_pass(&k, 5000);
    assert_true(k.activity.state == ACTIVITY_PAUSED && k.calls[FAKE_MOVE] == 2);
    k.finding = (struct finding){0};
    k.activity.state = ACTIVITY_OPEN;
    fake_pass(&k, 10000);
    assert_true(k.activity.state == ACTIVITY_OPEN && a.facts.broken == 0);
    audits_end(&a);
}

static void who_is_missing_comes_back_after_its_time_and_not_before(void **state)
{
    (void)state;
    books();
    k.held[0] = k.held[1];    /* unit 1 is in no bucket */
    k.held_count = 1;
    struct auditor a = audits(60000);
    auditor_start(&a);
    fake_pass(&k, 50000);
    assert_true(a.facts.counts >= 5 && a.facts.drift == 1 && k.calls[FAKE_REPAIR] == 0);
    fake_pass(&k, 40000);
    assert_true(k.calls[FAKE_REPAIR] >= 1 && a.facts.returned >= 1 && k.last_repair.missing && k.last_repair.token.unit == 1 && k.last_repair.token.generation == 2);
    k.units[0].returning = true;
    size_t repairs = k.calls[FAKE_REPAIR];
    fake_pass(&k, 10000);
    assert_true(a.facts.drift == 0);
    k.units[0].returning = false;
    k.units[0].token.generation = 3;                            /* back, and gone again: its time begins anew */
    repairs = k.calls[FAKE_REPAIR];
    fake_pass(&k, 40000);
    assert_int_equal(k.calls[FAKE_REPAIR], repairs);
    audits_end(&a);
}

/* A sale that is over is counted once in sixteen rounds, but who is missing there in every one: else each count would be his first. */
static void who_is_missing_comes_back_to_a_sale_that_is_over(void **state)
{
    (void)state;
    books();
    k.activity.state = ACTIVITY_CLOSED;
    k.held[0] = k.held[1];
    k.held_count = 1;
    struct auditor a = audits(60000);
    auditor_start(&a);
    for (int i = 0; i < 600 && k.calls[FAKE_REPAIR] == 0; i++)
        fake_pass(&k, 1000);
    assert_true(k.calls[FAKE_REPAIR] >= 1 && k.last_repair.missing && k.last_repair.token.unit == 1);
    audits_end(&a);
}

/* A closed activity whose units are all for sale or in orders leaves the working set; one with a unit that is missing stays. */
static void a_closed_activity_is_retired_once_all_is_counted(void **state)
{
    (void)state;
    books();
    k.activity.state = ACTIVITY_CLOSED;
    struct auditor a = audits(600000);
    auditor_start(&a);
    fake_pass(&k, 20000);    /* one unit is reserved, another on its way back */
    assert_true(k.calls[FAKE_RETIRE] >= 1 && !k.retire_counted && !k.activity.retired);
    k.held[1] = (struct held){.holding = HOLDING_FREE, .sku = str_lit("sku"), .token = {2, 2}};
    k.held[k.held_count++] = (struct held){.holding = HOLDING_FREE, .sku = str_lit("sku"), .token = {4, 2}};
    k.units[3].returning = false;
    fake_pass(&k, 20000);
    assert_true(k.retire_counted && k.activity.retired && a.facts.retired >= 1);
    size_t asked = k.calls[FAKE_RETIRE], judged = k.calls[FAKE_AUDIT];
    fake_pass(&k, 60000);    /* out of the working set: neither judged nor asked for again */
    assert_true(k.calls[FAKE_RETIRE] <= asked + 1 && k.calls[FAKE_AUDIT] <= judged + 1);
    audits_end(&a);
    books();
    k.activity.state = ACTIVITY_CLOSED;
    k.held_count = 0;
    a = audits(600000);
    auditor_start(&a);
    fake_pass(&k, 20000);
    assert_true(k.calls[FAKE_RETIRE] >= 1 && !k.retire_counted && !k.activity.retired);
    audits_end(&a);
}

static void the_missing_are_remembered_one_by_one_where_there_is_room_for_one(void **state)
{
    (void)state;
    books();
    k.held_count = 0;    /* units 1 and 2 are in no bucket */
    struct auditor a = audits(20000);
    a.options.missing = 1;
    auditor_start(&a);
    fake_pass(&k, 50000);
    assert_true(k.calls[FAKE_REPAIR] >= 1 && k.last_repair.token.unit == 1);
    k.units[0].available = false;    /* the first one is sold */
    k.units[0].ordered = true;
    fake_pass(&k, 80000);
    assert_int_equal(k.last_repair.token.unit, 2);
    audits_end(&a);
}

static void a_copy_too_many_is_told_at_once(void **state)
{
    (void)state;
    books();
    k.held[k.held_count++] = (struct held){.holding = HOLDING_FREE, .sku = str_lit("sku"), .token = {3, 2}};    /* sold, and free */
    struct auditor a = audits(60000);
    auditor_start(&a);
    fake_pass(&k, 10000);
    assert_true(k.calls[FAKE_REPAIR] >= 1 && !k.last_repair.missing && k.last_repair.token.unit == 3 && a.facts.told >= 1 && a.facts.returned == 0);
    audits_end(&a);
}

static void whatever_fails_the_auditor_goes_on(void **state)
{
    (void)state;
    static const enum fake_op ops[] = {FAKE_AUDIT, FAKE_MOVE, FAKE_UNITS, FAKE_HOLDINGS, FAKE_REPAIR};
    for (size_t o = 0; o < countof(ops); o++)
        for (unsigned r = 0; r < REASON_COUNT; r++) {
            if (r == REASON_OK)
                continue;
            books();
            k.held[0] = k.held[1];
            k.held_count = 1;
            k.finding = (struct finding){str_lit("H5"), str_lit("unit 1"), str_lit("held twice")};
            k.inject_op = ops[o];
            k.inject = r;
            struct auditor a = audits(0);
            auditor_start(&a);
            fake_pass(&k, 30000);
            k.inject = REASON_OK;
            fake_pass(&k, 60000);
            assert_true(k.activity.state == ACTIVITY_PAUSED && a.facts.returned >= 1 && a.facts.drift == 1);
            audits_end(&a);
        }
}

/* Neither 0 nor silence: an activity whose rules or units cannot be read is counted as such, and no sum says 0 for it. */
static void an_activity_that_cannot_be_judged_is_told(void **state)
{
    (void)state;
    static const enum fake_op ops[] = {FAKE_AUDIT, FAKE_UNITS};
    static const enum metric silent[] = {METRIC_BROKEN_RULES, METRIC_DRIFT};
    for (size_t o = 0; o < countof(ops); o++) {
        books();
        metric_unset(METRIC_BROKEN_RULES);
        metric_unset(METRIC_DRIFT);
        uint64_t clean = metric_read(METRIC_AUDITS, AUDIT_CLEAN), unjudged = metric_read(METRIC_AUDITS, AUDIT_UNJUDGED);
        k.inject_op = ops[o];
        k.inject = REASON_TIMED_OUT;
        struct auditor a = audits(60000);
        auditor_start(&a);
        fake_pass(&k, 500);
        assert_true(!metric_known(METRIC_BROKEN_RULES) && !metric_known(METRIC_DRIFT));    /* no round has ended */
        fake_pass(&k, 60000);
        assert_true(a.facts.rounds >= 1 && a.facts.unjudged == 1 && a.facts.broken == 0 && a.facts.counts == 0);
        assert_true(!metric_known(silent[o]) && metric_known(silent[1 - o]));
        assert_int_equal(metric_read(METRIC_UNJUDGED, 0), 1);
        assert_true(metric_read(METRIC_AUDITS, AUDIT_UNJUDGED) > unjudged && metric_read(METRIC_AUDITS, AUDIT_CLEAN) == clean);
        k.inject = REASON_OK;
        fake_pass(&k, 60000);
        assert_true(a.facts.unjudged == 0 && metric_known(silent[o]) && metric_read(silent[o], 0) == 0 && metric_read(METRIC_UNJUDGED, 0) == 0);
        assert_true(metric_read(METRIC_AUDITS, AUDIT_CLEAN) > clean);
        k.inject_op = ops[o];
        k.inject = REASON_TIMED_OUT;
        k.finding = (struct finding){str_lit("H5"), str_lit("unit 1"), str_lit("held twice")};
        k.held[0] = k.held[1];    /* unit 1 is in no bucket */
        k.held_count = 1;
        fake_pass(&k, 120000);    /* what is found in the other half is told all the same */
        assert_true(metric_known(silent[1 - o]) && metric_read(silent[1 - o], 0) == 1 && !metric_known(silent[o]));
        audits_end(&a);
    }
}

static void an_auditor_may_go_at_any_moment(void **state)
{
    (void)state;
    for (uint32_t ms = 990; ms < 3800; ms += 1) {
        books();
        k.held[0] = k.held[1];
        k.held_count = 1;
        k.finding = (struct finding){str_lit("H5"), str_lit("unit 1"), str_lit("held twice")};
        struct auditor a = audits(0);
        auditor_start(&a);
        fake_pass(&k, ms);
        auditor_drain(&a);
        assert_true(auditor_idle(&a));
        fake_pass(&k, 10000);
        audits_end(&a);
        if (ms == 1100)
            ms = 3100;
    }
}

int main(void)
{
    log_level_set(LEVEL_FATAL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_placed_and_the_offset_is_behind_it), cmocka_unit_test(consumer_reports_when_its_queue_was_read), cmocka_unit_test(the_one_that_can_never_be_taken_is_parked),
        cmocka_unit_test(consume_with_held_unit_defers_its_message_alone), cmocka_unit_test(consume_with_lock_timeout_splits_and_defers),
        cmocka_unit_test(deferred_messages_have_bounds),
        cmocka_unit_test(forged_message_is_parked), cmocka_unit_test(broker_of_another_deployment_is_not_read), cmocka_unit_test(message_of_another_deployment_is_parked), cmocka_unit_test(event_carries_its_tag_and_follows_its_order), cmocka_unit_test(what_cannot_be_read_is_parked_in_its_turn), cmocka_unit_test(a_reused_message_id_is_parked_behind_the_offset),
        cmocka_unit_test(another_queue_is_read_from_its_beginning), cmocka_unit_test(a_new_link_is_not_believed_before_the_queue_is_known),
        cmocka_unit_test(what_retention_took_is_gone_and_the_rest_is_read), cmocka_unit_test(whatever_fails_everything_is_placed),
        cmocka_unit_test(a_consumer_may_die_at_any_moment), cmocka_unit_test(a_row_of_several_effects_ends_with_the_last), cmocka_unit_test(rows_are_carried_where_they_belong),
        cmocka_unit_test(a_return_waits_while_its_activity_is_rebuilt), cmocka_unit_test(rows_of_a_store_that_is_away_are_held_for_a_moment), cmocka_unit_test(whatever_fails_rows_stay_until_they_are_carried),
        cmocka_unit_test(what_is_due_is_announced_or_left), cmocka_unit_test(what_stands_in_the_broker_is_not_piled_up), cmocka_unit_test(lost_message_is_announced_once_the_queues_are_read), cmocka_unit_test(a_verdict_is_told_and_nothing_sent),
        cmocka_unit_test(a_bucket_that_lags_is_told_but_none_is_made), cmocka_unit_test(a_stranger_is_closed_healed_and_opened), cmocka_unit_test(a_restarted_store_is_found_at_once), cmocka_unit_test(a_bucket_that_lost_a_key_is_indexed_healed_and_opened), cmocka_unit_test(one_bucket_is_indexed_at_a_time), cmocka_unit_test(unfinished_warms_wait_their_turn),
        cmocka_unit_test(a_warm_that_was_left_is_finished),
        cmocka_unit_test(a_janitor_who_does_not_hear_the_ledger_closes_nothing),
        cmocka_unit_test(the_janitor_sees_what_went_back),
        cmocka_unit_test(the_longest_unasked_is_forgotten), cmocka_unit_test(answers_may_overtake_each_other),
        cmocka_unit_test(closings_and_recoveries_at_once), cmocka_unit_test(recovery_takes_open_and_small_sales_first),
        cmocka_unit_test(recovery_of_a_closed_sale_waits_for_all_others),
        cmocka_unit_test(whatever_fails_the_janitor_goes_on),
        cmocka_unit_test(an_activity_goes_through_its_life), cmocka_unit_test(a_half_warmed_activity_is_not_opened),
        cmocka_unit_test(whatever_fails_a_move_ends_once_and_can_be_repeated), cmocka_unit_test(each_unit_is_found_by_its_name),
        cmocka_unit_test(what_was_planted_is_named), cmocka_unit_test(a_unit_on_its_way_is_no_finding), cmocka_unit_test(whatever_fails_a_count_ends_once),
        cmocka_unit_test(a_broken_rule_pauses_the_sale), cmocka_unit_test(who_is_missing_comes_back_after_its_time_and_not_before),
        cmocka_unit_test(who_is_missing_comes_back_to_a_sale_that_is_over),
        cmocka_unit_test(a_closed_activity_is_retired_once_all_is_counted),
        cmocka_unit_test(the_missing_are_remembered_one_by_one_where_there_is_room_for_one),
        cmocka_unit_test(a_copy_too_many_is_told_at_once), cmocka_unit_test(whatever_fails_the_auditor_goes_on),
        cmocka_unit_test(an_activity_that_cannot_be_judged_is_told),
        cmocka_unit_test(an_auditor_may_go_at_any_moment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * The whole road on the imagined engines and the virtual clock: a thousand users come, the units are sold, every one of them hears how it
 * ended, and the books agree. In fair weather, and in foul. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "conservation.h"
#include "control.h"
#include "janitor.h"
#include "metric.h"
#include "order.h"
#include "query.h"
#include "relay.h"
#include "reservation.h"
#include "seen.h"
#include "sim_clock.h"
#include "sim_engines.h"

#define START_MS 1796083200000    /* 2026-12-01 */
#define USERS 1000
#define ACTIVITY "flash"

struct buyer {
    struct road *road;
    char user[16], request[16];
    struct take take;
    struct query query;
    struct alarm arrives;
    unsigned tries;
    bool has_id, told;             /* knows his reservation; knows how it ended */
    char reservation[IDENT_ID_TEXT];
    enum reason answer;            /* the last one of the shop */
    enum reservation_state status;
    char order[IDENT_ID_TEXT];
    int rank;
};
struct road {
    struct sim_clock clock;
    struct sim_random random;
    struct sim_engines sim;
    struct ident_keys keys;
    struct desk desk;
    struct order_desk *order;
    struct relay *relay;
    struct janitor *janitor;
    struct controller *controller;
    struct buyer *buyers;
    size_t told;
    unsigned same_request_again;   /* percent of buyers who ask twice at once */
};

static enum reason awaited(struct road *r, struct seen *s)
{
    assert_true(sim_clock_run(&r->clock, seen_woken, s, 5000000));
    return s->reason;
}

static struct sim_weather fair(struct road *r) { return (struct sim_weather){.ask_us = 200, .answer_us = 200, .jitter_us = 400, .random = &r->random.random}; }

/* ---- opening ------------------------------------------------------------------------------------------------------------------- */

static void control_finished(struct control *c) { c->note = str_lit("done"); }
static bool control_ended(void *c) { return str_eq(((struct control *)c)->note, str_lit("done")); }

static void move(struct road *r, enum activity_event event)
{
    struct control c = {.activity = str_lit(ACTIVITY), .event = event, .actor = str_lit("test"), .done = control_finished};
    assert_true(control_start(r->controller, &c));
    assert_true(sim_clock_run(&r->clock, control_ended, &c, 60000000));
    assert_int_equal(c.reason, REASON_OK);
    assert_int_equal(c.lagging, 0);
}

static void create(struct road *r, int64_t stock, uint8_t buckets)
{
    struct sku sku = {.sku = str_lit("9007199254740993"), .stock = stock, .price = 9900, .currency = str_lit("CNY")};
    struct activity_create ask = {.activity = {.activity = str_lit(ACTIVITY), .title = str_lit("Flash"), .buckets = buckets, .starts_ms = START_MS - 1000,
                                               .ends_ms = START_MS + 3600000, .pay_timeout_s = 900, .skus = &sku, .sku_count = 1},
                                  .actor = str_lit("test")};
    struct seen made = SEEN(), topics = SEEN();
    static const struct str names[] = {str_lit(MESSAGE_TOPIC), str_lit(RELAY_EVENT_TOPIC), str_lit(RELAY_DEAD_LETTER_TOPIC), str_lit(HINT_TOPIC)};
    ledger_activity_create(&r->sim.ledger.ledger, &ask, &made.waiter);
    bus_create(&r->sim.bus.bus, names, countof(names), str_lit(MESSAGE_GROUP), 4, &topics.waiter);
    assert_int_equal(awaited(r, &made), REASON_OK);
    assert_int_equal(awaited(r, &topics), REASON_OK);
}

static struct road *road_open(int64_t stock, uint8_t buckets, uint64_t seed)
{
    struct road *r = calloc(1, sizeof *r);
    check(r != NULL);
    sim_clock_init(&r->clock, START_MS);
    sim_random_init(&r->random, seed);
    sim_engines_open(&r->sim, &r->clock.clock, seed);
    r->sim.broker.chance = &r->random.random;
    sim_engines_weather(&r->sim, fair(r));
    r->keys = ident_keys_from(str_lit("one secret"), str_lit("another"), str_lit("users"));
    struct order_options order = order_options_default();
    struct relay_options relay = relay_options_default();
    struct janitor_options janitor = janitor_options_default();
    order.owner = str_lit("consumer-1");
    order.keys = &r->keys;
    assert_true(desk_init(&r->desk, &r->sim.store.store, &r->sim.bus.bus, &r->sim.ledger.ledger, &r->clock.clock, &r->random.random, &r->keys, desk_options_default()));
    r->order = order_new(&r->sim.bus.bus, &r->sim.ledger.ledger, &r->clock.clock, &r->random.random, &order);
    r->relay = relay_new(&r->sim.store.store, &r->sim.bus.bus, &r->sim.ledger.ledger, &r->clock.clock, &r->random.random, &r->keys, &relay);
    r->janitor = janitor_new(&r->sim.store.store, &r->sim.bus.bus, &r->sim.ledger.ledger, &r->clock.clock, &r->random.random, &r->keys, &janitor);
    r->controller = controller_new(&r->sim.store.store, &r->sim.ledger.ledger, &r->clock.clock, 2, control_options_default());
    assert_true(r->order && r->relay && r->janitor && r->controller);
    create(r, stock, buckets);
    move(r, ACTIVITY_EVENT_WARM);
    move(r, ACTIVITY_EVENT_OPEN);
    desk_start(&r->desk);
    order_start(r->order);
    relay_start(r->relay);
    janitor_start(r->janitor);
    sim_clock_run_until(&r->clock, r->clock.mono_us + 1500000);    /* the catalog learns that it is open; queues are leased */
    return r;
}

static bool all_idle(void *road)
{
    struct road *r = road;
    return desk_idle(&r->desk) && order_idle(r->order) && relay_idle(r->relay) && janitor_idle(r->janitor);
}

static void road_close(struct road *r)
{
    desk_drain(&r->desk);
    order_drain(r->order);
    relay_drain(r->relay);
    janitor_drain(r->janitor);
    assert_true(sim_clock_run(&r->clock, all_idle, r, 30000000));
    desk_stop(&r->desk);
    desk_free(&r->desk);
    order_free(r->order);
    relay_free(r->relay);
    janitor_free(r->janitor);
    controller_free(r->controller);
    sim_engines_close(&r->sim);
    sim_clock_end(&r->clock);
    free(r->buyers);
    free(r);
}

/* ---- a buyer ------------------------------------------------------------------------------------------------------------------- */

static void ask_where(struct buyer *b);
static void buy(struct buyer *b);

static void ended(struct buyer *b, enum reason answer)
{
    assert_false(b->told);
    b->told = true;
    b->answer = answer;
    b->road->told++;
}

static void again_in(struct buyer *b, uint32_t ms) { clock_set_in(&b->road->clock.clock, &b->arrives, (uint64_t)ms * 1000); }

/* What a client sees never goes backwards. */
static void seen(struct buyer *b, enum reservation_state s)
{
    int rank = reservation_state_rank(s);
    assert_true(rank >= b->rank);
    assert_true(b->rank < 3 || s == b->status);
    b->rank = rank;
    b->status = s;
}

static void where_it_stands(struct query *q)
{
    struct buyer *b = container_of(q, struct buyer, query);
    if (q->reason != REASON_OK) {
        assert_int_equal(q->reason, REASON_DEPENDENCY_DOWN);
        again_in(b, 300);
        return;
    }
    assert_true(str_eq(q->view.reservation, (struct str){b->reservation, IDENT_ID_TEXT}));
    seen(b, q->view.status);
    if (!reservation_state_terminal(q->view.status)) {
        again_in(b, q->view.poll_after_ms);
        return;
    }
    if (q->view.status == RESERVATION_ORDERED)
        memcpy(b->order, q->view.order.ptr, IDENT_ID_TEXT);
    ended(b, q->view.status == RESERVATION_ORDERED ? REASON_ORDERED : REASON_RELEASED);
}

static void ask_where(struct buyer *b)
{
    b->query.by = QUERY_RESERVATION;
    b->query.id = (struct str){b->reservation, IDENT_ID_TEXT};
    b->query.user = str_of(b->user);
    b->query.wait_ms = b->user[1] % 2 ? 2000 : 0;
    b->query.done = where_it_stands;
    if (query_start(&b->road->desk, &b->query))
        where_it_stands(&b->query);
}

static void took(struct take *t)
{
    struct buyer *b = container_of(t, struct buyer, take);
    char id[IDENT_ID_TEXT];
    b->answer = t->reason;
    if (t->has_entry) {
        ident_write(t->entry.ident, IDENT_RESERVATION, id);
        assert_true(!b->has_id || memcmp(id, b->reservation, sizeof id) == 0);
        memcpy(b->reservation, id, sizeof id);
        b->has_id = true;
        seen(b, t->entry.state);
        again_in(b, t->poll_after_ms);
        return;
    }
    bool refused = reason_fate(t->reason) == FATE_REFUSED;
    assert_false(refused && b->has_id);    /* who has a reservation never hears that he has none */
    if (refused)
        ended(b, t->reason);
    else
        again_in(b, 200 + (uint32_t)random_below(&b->road->random.random, 200));
}

static void buy(struct buyer *b)
{
    b->tries++;
    b->take.activity = str_lit(ACTIVITY);
    b->take.sku = str_lit("9007199254740993");
    b->take.user = str_of(b->user);
    b->take.request = str_of(b->request);
    b->take.done = took;
    if (reservation_take(&b->road->desk, &b->take))
        took(&b->take);
}

static void arrived(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct buyer *b = container_of(container_of(w, struct alarm, waiter), struct buyer, arrives);
    if (b->has_id && b->tries > 1 + b->road->same_request_again * (unsigned)(b->user[3] % 3))
        ask_where(b);
    else
        buy(b);    /* the first time, and a few times more with the same request */
}

static bool all_told(void *road) { return ((struct road *)road)->told == USERS; }

static void rush(struct road *r, uint32_t over_ms)
{
    r->buyers = calloc(USERS, sizeof *r->buyers);
    for (size_t i = 0; i < USERS; i++) {
        struct buyer *b = &r->buyers[i];
        b->road = r;
        snprintf(b->user, sizeof b->user, "%06zu", i + 1);
        snprintf(b->request, sizeof b->request, "r%06zu", i % 7);    /* other people's request ids are their own affair */
        b->arrives.waiter.wake = arrived;
        again_in(b, (uint32_t)random_below(&r->random.random, over_ms));
    }
}

/* ---- what must hold ------------------------------------------------------------------------------------------------------------- */

static size_t count(const struct road *r, enum reason answer)
{
    size_t n = 0;
    for (size_t i = 0; i < USERS; i++)
        n += r->buyers[i].answer == answer;
    return n;
}

static void counted(struct conservation *c) { c->activity = str_lit("done"); }
static bool count_ended(void *c) { return str_eq(((struct conservation *)c)->activity, str_lit("done")); }

static void no_findings(struct seen *s, const void *result)
{
    (void)s;
    const struct audit_answer *a = result;
    for (size_t i = 0; i < a->count; i++)
        print_message("%.*s: %.*s\n", STR_ARG(a->findings[i].rule), STR_ARG(a->findings[i].subject));
    assert_int_equal(a->count, 0);
}

static void books_agree(struct road *r, int64_t stock, int64_t sold)
{
    struct conservation_options options = conservation_options_default();
    struct conservation c = {.activity = str_lit(ACTIVITY), .done = counted};
    assert_true(conservation_start(&c, &r->sim.store.store, &r->sim.ledger.ledger, &r->clock.clock, &options));
    assert_true(sim_clock_run(&r->clock, count_ended, &c, 60000000));
    assert_int_equal(c.reason, REASON_OK);
    for (size_t i = 0; i < c.unit_count; i++)
        print_message("unit %lld-%u: %s, %s\n", (long long)c.units[i].token.unit, c.units[i].token.generation, conservation_owner_name(c.units[i].owner),
                      c.units[i].detail ? c.units[i].detail : "on its way");
    assert_int_equal(c.sku_count, 1);
    const struct conservation_sku *s = &c.skus[0];
    assert_int_equal(s->s0, stock);
    assert_int_equal(s->a + s->r + s->o + s->c + s->e, stock);
    assert_int_equal(s->drift, 0);
    assert_int_equal(s->r, 0);
    assert_int_equal(s->c, 0);
    assert_int_equal(s->o, sold);
    conservation_close(&c);
    struct seen audit = SEEN(.keep = no_findings);
    ledger_audit(&r->sim.ledger.ledger, str_lit(ACTIVITY), &audit.waiter);
    assert_int_equal(awaited(r, &audit), REASON_OK);
}

static void order_seen(struct query *q) { q->activity = str_lit("done"); }
static bool order_answered(void *q) { return str_eq(((struct query *)q)->activity, str_lit("done")); }

/* The buyer finds his order; his neighbour does not. */
static void order_is_his(struct road *r, struct buyer *b)
{
    struct query mine = {.by = QUERY_ORDER, .id = {b->order, IDENT_ID_TEXT}, .user = str_of(b->user), .done = order_seen}, theirs = mine;
    assert_false(query_start(&r->desk, &mine));
    assert_true(sim_clock_run(&r->clock, order_answered, &mine, 5000000));
    assert_int_equal(mine.reason, REASON_OK);
    assert_true(str_eq(mine.order.sku, str_lit("9007199254740993")));
    assert_int_equal(mine.order.amount, 9900);
    theirs.user = str_lit("somebody-else");
    assert_true(query_start(&r->desk, &theirs));
    assert_int_equal(theirs.reason, REASON_NOT_FOUND);
}

static int64_t messages_of(struct road *r, struct str topic)
{
    int64_t sum = 0;
    struct sim_queue *q;
    for (int32_t i = 0; (q = sim_bus_queue(&r->sim.broker, topic, i)) != NULL; i++)
        sum += (int64_t)q->count;
    return sum;
}

static void sale(int64_t stock, uint8_t buckets, uint32_t over_ms)
{
    struct road *r = road_open(stock, buckets, 7);
    uint64_t began = r->clock.mono_us;
    rush(r, over_ms);
    assert_true(sim_clock_run(&r->clock, all_told, r, 120000000));
    assert_int_equal(count(r, REASON_ORDERED), stock);
    assert_int_equal(count(r, REASON_SOLD_OUT), USERS - stock);
    assert_true(r->clock.mono_us - began < 8000000);
    sim_clock_run_until(&r->clock, r->clock.mono_us + 2000000);
    books_agree(r, stock, (int64_t)count(r, REASON_ORDERED));
    /* At least once is what is promised; where nothing was lost, and nothing late, it is also at most once. */
    assert_int_equal(messages_of(r, str_lit(MESSAGE_TOPIC)), stock);
    assert_int_equal(messages_of(r, str_lit(RELAY_EVENT_TOPIC)), stock);
    for (size_t i = 0, shown = 0; i < USERS && shown < 3; i++)
        if (r->buyers[i].answer == REASON_ORDERED) {
            order_is_his(r, &r->buyers[i]);
            shown++;
        }
    road_close(r);
}

/* ---- fair weather --------------------------------------------------------------------------------------------------------------- */

static void one_unit(void **state) { (void)state, sale(1, 1, 100); }
static void ten_units(void **state) { (void)state, sale(10, 1, 100); }
static void a_hundred_units(void **state) { (void)state, sale(100, 1, 1000); }

static void four_buckets(void **state) { (void)state, sale(100, 4, 1000); }

/* ---- foul weather --------------------------------------------------------------------------------------------------------------- */

/* The sale goes on under `trouble` for 20 s, then the weather clears, everybody hears how it ended, and the books agree. */
static struct road *troubled(uint64_t seed, uint8_t buckets, void (*trouble)(struct road *))
{
    struct road *r = road_open(100, buckets, seed);
    r->same_request_again = 1;
    rush(r, 2000);
    trouble(r);
    sim_engines_weather(&r->sim, fair(r));
    r->sim.stock.away = r->sim.broker.away = r->sim.books.away = false;
    assert_true(sim_clock_run(&r->clock, all_told, r, 240000000));
    sim_clock_run_until(&r->clock, r->clock.mono_us + 60000000);
    books_agree(r, 100, (int64_t)count(r, REASON_ORDERED));
    assert_true(count(r, REASON_ORDERED) >= 90);
    return r;
}

static void pass(struct road *r, uint32_t ms) { sim_clock_run_until(&r->clock, r->clock.mono_us + (uint64_t)ms * 1000); }

/* Calls are late, lost, doubled, refused or cut: one in eight, or one in two. */
static uint16_t storm_permille;
static void storm(struct road *r)
{
    struct sim_weather w = fair(r);
    w.delay_us = 800000;
    for (int f = 0; f < SIM_FAULT_COUNT; f++)
        w.permille[f] = storm_permille;
    sim_engines_weather(&r->sim, w);
    pass(r, 20000);
    assert_true(r->sim.store.calls.faults[0] > 0 && r->sim.bus.calls.faults[0] + r->sim.ledger.calls.faults[0] > 0);
}

static void in_a_storm(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        storm_permille = seed % 4 < 2 ? 20 : 80;
        road_close(troubled(seed, seed % 2 ? 1 : 4, storm));
    }
}

static void store_goes(struct road *r)
{
    pass(r, 400);
    r->sim.stock.away = true;
    pass(r, 5000);
    assert_true(r->told < USERS);
}
static void bus_goes(struct road *r)
{
    pass(r, 400);
    r->sim.broker.away = true;
    pass(r, 20000);
    assert_int_equal(count(r, REASON_ORDERED), r->told - count(r, REASON_SOLD_OUT));
}
static void ledger_goes(struct road *r)
{
    pass(r, 400);
    r->sim.books.away = true;
    pass(r, 20000);
}
static void broker_forgets(struct road *r)
{
    pass(r, 300);
    for (int32_t q = 0; q < 4; q++) {
        struct sim_queue *queue = sim_bus_queue(&r->sim.broker, str_lit(MESSAGE_TOPIC), q);
        if (queue->count > 2)
            sim_bus_lose(queue, (int64_t)queue->count / 2);
    }
    sim_bus_break(&r->sim.broker);
    pass(r, 5000);
    assert_true(order_facts(r->order).reread > 0);
}
static void consumer_dies(struct road *r)
{
    struct order_options options = order_options_default();
    pass(r, 300);
    order_free(r->order);
    options.owner = str_lit("consumer-2");
    options.keys = &r->keys;
    r->order = order_new(&r->sim.bus.bus, &r->sim.ledger.ledger, &r->clock.clock, &r->random.random, &options);
    order_start(r->order);
    pass(r, 10000);
    assert_int_equal(order_facts(r->order).held, 4);
}

static void an_engine_goes_and_comes_back(void **state)
{
    (void)state;
    void (*const troubles[])(struct road *) = {store_goes, bus_goes, ledger_goes, broker_forgets, consumer_dies};
    for (size_t i = 0; i < countof(troubles); i++)
        road_close(troubled(11 + i, 1, troubles[i]));
}

int main(void)
{
    log_level_set(LEVEL_FATAL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_unit), cmocka_unit_test(ten_units), cmocka_unit_test(a_hundred_units),
        cmocka_unit_test(four_buckets), cmocka_unit_test(in_a_storm), cmocka_unit_test(an_engine_goes_and_comes_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

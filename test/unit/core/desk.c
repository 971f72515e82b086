/* SPDX-License-Identifier: Apache-2.0
 * What a buyer sees: a reservation, a query, and what a process may say by itself. At each await every reason is tried. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "fake.h"
#include "query.h"
#include "reservation.h"

struct shop {
    struct fake fake;
    struct desk desk;
    size_t done;
};
static struct shop *shop;    /* of the running test */

static struct shop *shop_open(void)
{
    static struct shop s;
    s.done = 0;
    fake_init(&s.fake);
    struct desk_options options = desk_options_default();
    options.takes = 8;
    options.publisher.pending = options.settler.pending = 16;
    options.catalog.memory = 1 << 16;
    options.soldout.watches = 2;
    options.soldout.filter_bytes = 4096;
    struct fake *k = &s.fake;
    assert_true(desk_init(&s.desk, &k->store, &k->bus, &k->ledger, &k->clock.clock, &k->random.random, &k->keys, options));
    desk_start(&s.desk);
    fake_pass(k, 10);
    shop = &s;
    return &s;
}

/* Everything must come to rest: no call, no timer's work, nothing held. */
static void shop_close(struct shop *s)
{
    s->fake.inject = REASON_OK;
    fake_pass(&s->fake, 40000);
    assert_true(desk_idle(&s->desk));
    desk_stop(&s->desk);
    desk_free(&s->desk);
    fake_end(&s->fake);
}

/* The bucket of "user" in "act". */
static uint8_t users_bucket(struct shop *s) { return user_bucket(user_hash(&s->fake.keys, str_lit("user")), s->fake.activity.buckets); }
static void doubt_user(struct shop *s) { desk_doubt(&s->desk, s->fake.activity.number, users_bucket(s)); }
static bool doubted(struct shop *s) { return desk_in_doubt(&s->desk, s->fake.activity.number, users_bucket(s)); }

static void took(struct take *t)
{
    (void)t;
    shop->done++;
}

static struct take *take_of(struct shop *s, struct take *t)
{
    *t = (struct take){.activity = str_lit("act"), .sku = str_lit("sku"), .user = str_lit("user"), .request = str_lit("req"), .done = took};
    s->fake.entry = fake_entry(&s->fake, str_lit("user"), RESERVATION_RESERVED, 0);
    return t;
}

static enum reason take_now(struct shop *s, struct take *t)
{
    size_t before = s->done;
    if (reservation_take(&s->desk, t))
        return t->reason;
    assert_int_equal(s->done, before);    /* never before it has returned */
    for (int i = 0; i < 100 && s->done == before; i++)
        fake_pass(&s->fake, 50);
    assert_int_equal(s->done, before + 1);
    return t->reason;
}

/* ---- takes ----------------------------------------------------------------------------------------------------------------------- */

static void a_unit_is_taken_and_announced(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_QUEUED);
    assert_true(t.has_entry && !t.replayed && t.poll_after_ms == 500);
    assert_int_equal(t.entry.state, RESERVATION_PUBLISHED);
    assert_true(ident_eq(t.entry.ident, s->fake.last_ident) && ident_ours(&s->fake.keys, t.entry.ident));
    assert_true(ident_of_user(t.entry.ident, user_hash(&s->fake.keys, str_lit("user"))));
    fake_pass(&s->fake, 20);
    assert_int_equal(s->fake.sent, 1);
    assert_int_equal(s->fake.settled[RESERVATION_PUBLISHED], 1);
    shop_close(s);
}

static void a_slow_broker_does_not_hold_the_buyer(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    s->fake.inject_op = FAKE_SEND;
    s->fake.inject = REASON_TIMED_OUT;
    s->fake.silent = true;
    assert_false(reservation_take(&s->desk, take_of(s, &t)));
    fake_pass(&s->fake, 32);
    assert_int_equal(s->done, 1);
    assert_int_equal(t.reason, REASON_QUEUED);
    assert_int_equal(t.entry.state, RESERVATION_RESERVED);
    fake_pass(&s->fake, 4000);
    assert_int_equal(s->fake.settled[RESERVATION_RECONCILING], 1);    /* unknown is never taken for lost */
    assert_int_equal(s->fake.settled[RESERVATION_PUBLISHED], 0);
    shop_close(s);
}

/* What reserve may end with, and what the buyer hears. Whatever is not listed must be told as its fate: unknown or not done. */
static void every_answer_of_the_store_is_told(void **state)
{
    (void)state;
    static const struct { enum reason store, told; } known[] = {
        {REASON_QUEUED, REASON_QUEUED}, {REASON_ORDERED, REASON_ORDERED}, {REASON_RELEASED, REASON_RELEASED},
        {REASON_ALREADY_PURCHASED, REASON_ALREADY_PURCHASED}, {REASON_IDEMPOTENCY_CONFLICT, REASON_IDEMPOTENCY_CONFLICT},
        {REASON_BUCKET_EMPTY, REASON_SOLD_OUT}, {REASON_BUCKET_CLOSED, REASON_UNCERTAIN}, {REASON_NOT_STARTED, REASON_NOT_STARTED},
        {REASON_ENDED, REASON_ENDED}, {REASON_RESERVATION_PAUSED, REASON_RESERVATION_PAUSED}, {REASON_STALE_EPOCH, REASON_RESERVATION_PAUSED},
        {REASON_QUALIFICATION_INVALID, REASON_QUALIFICATION_INVALID}, {REASON_ASK_LEDGER, REASON_QUEUED}, {REASON_UNKNOWN_ACTIVITY, REASON_UNKNOWN_ACTIVITY},
        {REASON_TIMED_OUT, REASON_UNCERTAIN}, {REASON_LINK_LOST, REASON_UNCERTAIN}, {REASON_ENGINE_FAULT, REASON_UNCERTAIN},
        {REASON_ENGINE_BUSY, REASON_DEPENDENCY_DOWN}, {REASON_DEPENDENCY_DOWN, REASON_DEPENDENCY_DOWN}, {REASON_OVERLOADED, REASON_OVERLOADED},
        {REASON_ENGINE_REFUSED, REASON_DEPENDENCY_DOWN}};
    for (unsigned r = 0; r < REASON_COUNT; r++) {
        struct shop *s = shop_open();
        struct take t;
        take_of(s, &t);
        s->fake.reserve = r;
        s->fake.replayed = r == REASON_ORDERED || r == REASON_RELEASED || r == REASON_ALREADY_PURCHASED;
        enum reason told = take_now(s, &t);
        assert_true(reason_row(told)->http != 0);
        for (size_t i = 0; i < countof(known); i++)
            if (known[i].store == (enum reason)r)
                assert_int_equal(told, known[i].told);
        if (reason_fate(r) == FATE_UNKNOWN)
            assert_int_equal(reason_fate(told), FATE_UNKNOWN);
        if (told == REASON_NOT_STARTED)
            assert_int_equal(t.starts_ms, 77);
        shop_close(s);
    }
}

/* ---- a store that may have forgotten ------------------------------------------------------------------------------------------------- */

static struct str another(void) { return str_lit("fake-2"); }

/* The server is another, and the ledger knows him already: only this process does not. */
static void a_stranger_is_asked_about_before_he_is_locked_out(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    s->fake.incarnation = "fake-2";
    s->fake.incarnations[0] = s->fake.incarnations[1] = another();    /* the list of activities was read 10 ms ago */
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_QUEUED);
    assert_int_equal(s->fake.calls[FAKE_CLOSE], 0);
    assert_int_equal(s->fake.calls[FAKE_RESERVE], 2);
    shop_close(s);
}

static void a_stranger_is_locked_out(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    s->fake.incarnation = "fake-2";
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_UNCERTAIN);
    fake_pass(&s->fake, 10);
    assert_true(s->fake.mark[0] && s->fake.calls[FAKE_CLOSE] == 1 && !s->fake.last_close.went_back);
    assert_true(doubted(s));
    size_t read = s->fake.calls[FAKE_ACTIVITIES];
    for (int i = 0; i < 20; i++)
        assert_int_equal(take_now(s, take_of(s, &t)), REASON_UNCERTAIN);
    assert_true(s->fake.calls[FAKE_ACTIVITIES] - read <= 8);    /* some 50 ms each: five times a second, and what it reads anyway */
    s->fake.replayed = true;                                    /* the user's own is still told, once the ledger has been asked */
    size_t looked = s->fake.calls[FAKE_LEDGER_LOOK];
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_QUEUED);
    assert_true(s->fake.calls[FAKE_LEDGER_LOOK] > looked);
    s->fake.replayed = false;
    s->fake.mark[0] = 0;
    s->fake.incarnations[0] = s->fake.incarnations[1] = another();    /* healed */
    fake_pass(&s->fake, 1100);
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_QUEUED);
    shop_close(s);
}

/* The bucket was healed and is open; only we do not hear the ledger, and take its server for a stranger. Nobody else is locked out for that. */
static void who_does_not_hear_the_ledger_closes_nothing(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    fake_pass(&s->fake, 1100);
    s->fake.inject_op = FAKE_ACTIVITIES;
    s->fake.inject = REASON_DEPENDENCY_DOWN;
    fake_pass(&s->fake, 300);
    s->fake.incarnation = "fake-2";
    for (int i = 0; i < 5; i++)
        assert_int_equal(take_now(s, take_of(s, &t)), REASON_UNCERTAIN);
    assert_int_equal(s->fake.calls[FAKE_CLOSE], 0);
    s->fake.inject = REASON_OK;    /* it is heard again, and does not know the server: now it is closed */
    fake_pass(&s->fake, 1100);
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_UNCERTAIN);
    fake_pass(&s->fake, 10);
    assert_int_equal(s->fake.calls[FAKE_CLOSE], 1);
    shop_close(s);
}

/* Nothing was ever learnt of him, and there is no ledger to ask: nothing is taken, and nobody is locked out. */
static void without_a_ledger_nobody_is_trusted(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    s->fake.incarnations[0] = s->fake.incarnations[1] = (struct str){0};
    fake_pass(&s->fake, 1100);
    s->fake.inject_op = FAKE_ACTIVITIES;
    s->fake.inject = REASON_DEPENDENCY_DOWN;
    fake_pass(&s->fake, 300);
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_DEPENDENCY_DOWN);
    assert_int_equal(s->fake.calls[FAKE_CLOSE], 0);
    shop_close(s);
}

/* An answer older than what had been seen: he is not told QUEUED, and the bucket is closed by that request. */
static void what_went_back_is_told_to_nobody(void **state)
{
    (void)state;
    static const struct { enum reason store, told; bool replayed; } cases[] = {
        {REASON_QUEUED, REASON_UNCERTAIN, false}, {REASON_BUCKET_EMPTY, REASON_UNCERTAIN, false}, {REASON_ALREADY_PURCHASED, REASON_UNCERTAIN, false},
        {REASON_QUEUED, REASON_QUEUED, true}, {REASON_ORDERED, REASON_ORDERED, true}, {REASON_ENDED, REASON_UNCERTAIN, false},
        {REASON_NOT_STARTED, REASON_UNCERTAIN, false}, {REASON_RESERVATION_PAUSED, REASON_UNCERTAIN, false}, {REASON_QUALIFICATION_INVALID, REASON_UNCERTAIN, false},
        {REASON_RELEASED, REASON_RELEASED, true}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct shop *s = shop_open();
        struct take t;
        s->fake.sequence = 100;
        assert_int_equal(take_now(s, take_of(s, &t)), REASON_QUEUED);
        assert_int_equal(take_now(s, take_of(s, &t)), REASON_QUEUED);
        s->fake.sequence = 100;    /* what is said next was said before */
        s->fake.reserve = cases[i].store;
        s->fake.replayed = cases[i].replayed;
        assert_int_equal(take_now(s, take_of(s, &t)), cases[i].told);
        fake_pass(&s->fake, 10);
        assert_true(s->fake.calls[FAKE_CLOSE] == 1 && s->fake.last_close.went_back && s->fake.last_close.highest == 102);
        assert_true(s->fake.mark[0] && s->fake.sequence > 102 && doubted(s));
        s->fake.reserve = REASON_QUEUED;
        s->fake.replayed = false;
        s->fake.mark[0] = 0;
        assert_int_equal(take_now(s, take_of(s, &t)), REASON_QUEUED);    /* healed and opened */
        shop_close(s);
    }
}

/* A closing that is not answered is begun again by the next. */
static void a_closing_that_fails_is_repeated(void **state)
{
    (void)state;
    for (unsigned r = 0; r < REASON_COUNT; r++) {
        if (reason_fate(r) == FATE_DONE)
            continue;
        struct shop *s = shop_open();
        struct take t;
        s->fake.incarnation = "fake-2";
        s->fake.inject_op = FAKE_CLOSE;
        s->fake.inject_until = 2;
        s->fake.inject = r;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(take_now(s, take_of(s, &t)), REASON_UNCERTAIN);
            fake_pass(&s->fake, 300);
        }
        assert_int_equal(s->fake.calls[FAKE_CLOSE], 3);
        assert_true(s->fake.mark[0]);
        shop_close(s);
    }
}

/* Each kind of call fails in each way, once or for good, while a buyer is served. He always hears exactly once. */
static void whatever_fails_he_hears_once(void **state)
{
    (void)state;
    static const enum reason flows[] = {REASON_QUEUED, REASON_BUCKET_EMPTY, REASON_STALE_EPOCH, REASON_ASK_LEDGER, REASON_ENDED};
    static const enum fake_op ops[] = {FAKE_RESERVE, FAKE_SETTLE, FAKE_STOCK, FAKE_SEND, FAKE_LEDGER_LOOK, FAKE_ACTIVITIES};
    for (size_t f = 0; f < countof(flows); f++)
        for (size_t o = 0; o < countof(ops); o++)
            for (unsigned r = 0; r < REASON_COUNT * 2; r++) {
                enum reason reason = r % REASON_COUNT;
                bool needs_result = ops[o] == FAKE_RESERVE && (reason == REASON_QUEUED || reason == REASON_ORDERED || reason == REASON_RELEASED ||
                                                               reason == REASON_ALREADY_PURCHASED);
                if (reason == REASON_OK || needs_result)
                    continue;
                struct shop *s = shop_open();
                struct take t;
                take_of(s, &t);
                s->fake.reserve = flows[f];
                s->desk.doubts.all_until_us = r % 3 == 0 ? UINT64_MAX : 0;
                s->fake.inject_op = ops[o];
                s->fake.inject = reason;
                s->fake.inject_at = s->fake.calls[ops[o]] + 1;
                s->fake.inject_until = r < REASON_COUNT ? s->fake.inject_at : SIZE_MAX;
                enum reason told = take_now(s, &t);
                assert_true(reason_row(told)->http != 0);
                if (told == REASON_SOLD_OUT)    /* only ever said when two rounds have shown it */
                    assert_true(s->fake.calls[FAKE_STOCK] >= 4);
                shop_close(s);
            }
}

static void the_ledger_is_asked_before_a_forgotten_request_may_reserve(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    char rsv[IDENT_ID_TEXT];
    take_of(s, &t);
    ident_write(s->fake.entry.ident, IDENT_RESERVATION, rsv);
    s->fake.reserve = REASON_ASK_LEDGER;
    s->fake.ledger_look = REASON_OK;
    s->fake.looked = (struct ledger_look_answer){.decided = true, .verdict = {.outcome = REASON_RELEASED, .why = REASON_OVERDUE},
                                                 .what = {.reservation = {rsv, sizeof rsv}, .message = str_lit("m"), .request = str_lit("req"),
                                                          .activity = str_lit("act"), .sku = str_lit("sku"), .user = str_lit("user"), .token = {3, 1}}};
    assert_int_equal(take_now(s, &t), REASON_RELEASED);
    assert_true(t.replayed && t.entry.why == REASON_OVERDUE);
    assert_int_equal(s->fake.calls[FAKE_RESERVE], 1);
    s->fake.looked.what.sku = str_lit("other");
    take_of(s, &t);
    assert_int_equal(take_now(s, &t), REASON_IDEMPOTENCY_CONFLICT);
    s->fake.ledger_look = REASON_NOT_FOUND;
    take_of(s, &t);
    assert_int_equal(take_now(s, &t), REASON_QUEUED);
    assert_true(s->fake.last_reserve.ledger_asked);
    shop_close(s);
}

/* The bucket is missing in Redis: a request that has an order is answered with it, once the ledger was asked; any other is paused. */
static void replay_of_a_missing_bucket_returns_its_order(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    char rsv[IDENT_ID_TEXT];
    take_of(s, &t);
    ident_write(s->fake.entry.ident, IDENT_RESERVATION, rsv);
    s->fake.reserve = REASON_STALE_EPOCH;
    s->fake.ledger_look = REASON_OK;
    s->fake.looked = (struct ledger_look_answer){.decided = true, .verdict = {.outcome = REASON_ORDERED},
                                                 .what = {.reservation = {rsv, sizeof rsv}, .message = str_lit("m"), .request = str_lit("req"),
                                                          .activity = str_lit("act"), .sku = str_lit("sku"), .user = str_lit("user"), .token = {3, 1}}};
    assert_int_equal(take_now(s, &t), REASON_ORDERED);
    assert_true(t.replayed);
    s->fake.ledger_look = REASON_NOT_FOUND;
    take_of(s, &t);
    assert_int_equal(take_now(s, &t), REASON_RESERVATION_PAUSED);
    s->fake.ledger_look = REASON_TIMED_OUT;
    take_of(s, &t);
    assert_int_equal(take_now(s, &t), REASON_DEPENDENCY_DOWN);
    shop_close(s);
}

/* An old replay is confirmed: the ledger's verdict is shown, and the store hears it first. */
static void an_old_undecided_answer_is_confirmed(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    char rsv[IDENT_ID_TEXT];
    take_of(s, &t);
    s->fake.replayed = true;
    s->fake.entry = fake_entry(&s->fake, str_lit("user"), RESERVATION_PUBLISHED, 2500);
    ident_write(s->fake.entry.ident, IDENT_RESERVATION, rsv);
    s->fake.ledger_look = REASON_OK;
    s->fake.looked = (struct ledger_look_answer){.decided = true, .verdict = {.outcome = REASON_ORDERED, .order = str_lit("o")},
                                                 .what = {.reservation = {rsv, sizeof rsv}, .message = str_lit("m"), .request = str_lit("req"),
                                                          .activity = str_lit("act"), .sku = str_lit("sku"), .user = str_lit("user"), .token = {3, 1}}};
    assert_int_equal(take_now(s, &t), REASON_ORDERED);
    assert_int_equal(s->fake.settled[RESERVATION_ORDERED], 1);
    s->fake.inject_op = FAKE_LEDGER_LOOK;
    s->fake.inject = REASON_TIMED_OUT;
    assert_int_equal(take_now(s, &t), REASON_QUEUED);
    assert_int_equal(t.entry.state, RESERVATION_RECONCILING);    /* said as unknown */
    doubt_user(s);
    assert_int_equal(take_now(s, &t), REASON_UNCERTAIN);         /* and he may have seen a later state */

    s->fake.inject_op = FAKE_SETTLE;                             /* a young verdict that the store cannot be told is not shown … */
    s->fake.inject = REASON_DEPENDENCY_DOWN;
    s->fake.looked.what.created_ms = s->fake.entry.created_ms = clock_now_ms(&s->fake.clock.clock) - 2500;
    s->desk.doubts = (struct doubt_table){0};
    assert_int_equal(take_now(s, &t), REASON_QUEUED);
    assert_int_equal(t.entry.state, RESERVATION_PUBLISHED);
    assert_true(doubted(s));
    s->fake.looked.what.created_ms = s->fake.entry.created_ms = clock_now_ms(&s->fake.clock.clock) - 2500;
    assert_int_equal(take_now(s, &t), REASON_UNCERTAIN);         /* … nor, in doubt, the lower state: he may have seen the verdict */
    shop_close(s);
}

static void takes_have_an_edge(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t[9];
    for (int i = 0; i < 8; i++)
        assert_false(reservation_take(&s->desk, take_of(s, &t[i])));
    assert_true(reservation_take(&s->desk, take_of(s, &t[8])));
    assert_int_equal(t[8].reason, REASON_OVERLOADED);
    reservation_let_go(&t[0]);
    reservation_let_go(&t[8]);
    fake_pass(&s->fake, 100);
    assert_int_equal(s->done, 7);    /* who went away does not hear */
    shop_close(s);
}

static void unknown_things_are_not_asked_about(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    take_of(s, &t)->activity = str_lit("nope");
    assert_int_equal(take_now(s, &t), REASON_UNKNOWN_ACTIVITY);
    take_of(s, &t)->sku = str_lit("nope");
    assert_int_equal(take_now(s, &t), REASON_UNKNOWN_ACTIVITY);
    take_of(s, &t)->user = str_lit("a b");
    assert_int_equal(take_now(s, &t), REASON_INVALID_REQUEST);
    s->fake.activity.qualification = true;
    fake_pass(&s->fake, 1100);
    assert_int_equal(s->fake.calls[FAKE_RESERVE], 0);
    shop_close(s);
}

/* A token is demanded of new reservations only: without one, or with one that is refused, the user's own reservation is found by the one call that any request costs. */
static void replay_without_token_returns_existing_reservation(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    s->fake.activity.qualification = true;
    fake_pass(&s->fake, 1100);
    for (int refused = 0; refused < 2; refused++) {
        s->fake.replayed = false;
        size_t asked = s->fake.calls[FAKE_RESERVE], looked = s->fake.calls[FAKE_LEDGER_LOOK];
        take_of(s, &t)->replay_only = refused;
        assert_int_equal(take_now(s, &t), REASON_QUALIFICATION_INVALID);
        assert_true(s->fake.last_reserve.replay_only);
        s->fake.replayed = true;
        take_of(s, &t)->replay_only = refused;
        assert_int_equal(take_now(s, &t), REASON_QUEUED);
        assert_true(t.replayed && s->fake.last_reserve.replay_only);
        assert_int_equal(s->fake.calls[FAKE_RESERVE] - asked, 2);
        assert_int_equal(s->fake.calls[FAKE_LEDGER_LOOK] - looked, 0);
    }
    s->fake.replayed = false;
    take_of(s, &t)->nonce = str_lit("nonce");
    assert_int_equal(take_now(s, &t), REASON_QUEUED);
    assert_false(s->fake.last_reserve.replay_only);
    shop_close(s);
}

static void an_activity_just_made_is_found(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    s->fake.activity.activity = str_lit("new");
    fake_pass(&s->fake, 300);    /* we know of the old one still */
    take_of(s, &t)->activity = str_lit("new");
    assert_int_equal(take_now(s, &t), REASON_QUEUED);
    size_t reads = s->fake.calls[FAKE_ACTIVITIES];
    uint64_t began = clock_mono_us(&s->fake.clock.clock);
    take_of(s, &t)->activity = str_lit("nope");
    for (int i = 0; i < 8; i++)    /* requests for what is not there are each answered by a later read, of which one begins every 50 ms at most */
        assert_int_equal(take_now(s, &t), REASON_UNKNOWN_ACTIVITY);
    assert_true(s->fake.calls[FAKE_ACTIVITIES] <= reads + (clock_mono_us(&s->fake.clock.clock) - began) / 50000 + 1);
    shop_close(s);
}

/* An activity that was retired is in no working set: its number and its name are looked up, and shown for a minute. */
static void a_retired_activity_is_looked_up(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    s->fake.activity.state = ACTIVITY_CLOSED;
    s->fake.activity.retired = true;
    fake_pass(&s->fake, 1500);
    assert_null(catalog_find(&s->desk.catalog, str_lit("act")));
    s->fake.replayed = true;    /* a buyer repeats the request after the end */
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_QUEUED);
    assert_true(s->fake.activity_visited);
    const struct activity *a = catalog_find(&s->desk.catalog, str_lit("act"));
    assert_true(a && a->retired && catalog_by_number(&s->desk.catalog, a->number) == a);
    fake_pass(&s->fake, 50000);
    assert_non_null(catalog_find(&s->desk.catalog, str_lit("act")));
    fake_pass(&s->fake, 12000);
    assert_null(catalog_find(&s->desk.catalog, str_lit("act")));
    shop_close(s);
}

static void ignore_read(struct catalog_wait *w, enum reason reason) { (void)w, (void)reason; }

/* So many different names may be looked up at once; one more is refused, not denied, and finds a place when a read has answered the others. */
static void activities_looked_up_have_a_bound(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    static struct catalog_wait waits[CATALOG_VISITORS + 2];
    struct take t;
    char name[16];
    fake_pass(&s->fake, 1500);
    for (size_t i = 0; i < CATALOG_VISITORS; i++) {
        snprintf(name, sizeof name, "random_%zu", i);
        waits[i] = (struct catalog_wait){.done = ignore_read};
        assert_true(catalog_look_up(&s->desk.catalog, str_of(name), 0, &waits[i]));
    }
    waits[CATALOG_VISITORS] = (struct catalog_wait){.done = ignore_read};
    assert_true(catalog_look_up(&s->desk.catalog, str_lit("random_7"), 0, &waits[CATALOG_VISITORS]));    /* the same name needs no other place */
    take_of(s, &t)->activity = str_lit("one_more");
    assert_int_equal(take_now(s, &t), REASON_OVERLOADED);
    fake_pass(&s->fake, 200);
    take_of(s, &t)->activity = str_lit("one_more");
    assert_int_equal(take_now(s, &t), REASON_UNKNOWN_ACTIVITY);
    shop_close(s);
}

/* ---- sold out ---------------------------------------------------------------------------------------------------------------------- */

static const struct activity *act(struct shop *s) { return catalog_find(&s->desk.catalog, str_lit("act")); }

static enum reason says(struct shop *s, const char *user)
{
    uint64_t hash = user_hash(&s->fake.keys, str_of(user));
    return soldout_says(&s->desk.soldout, act(s), 0, hash, user_bucket(hash, 2));
}

/* A process that knew the activity as a draft and cannot read any more says nothing of it: it may have opened, and he may have bought elsewhere. */
static void an_old_draft_is_not_believed(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    s->fake.activity.state = ACTIVITY_DRAFT;
    fake_pass(&s->fake, 1500);
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_NOT_STARTED);
    s->fake.inject_op = FAKE_ACTIVITIES;
    s->fake.inject_at = 1, s->fake.inject_until = SIZE_MAX;
    s->fake.inject = REASON_DEPENDENCY_DOWN;
    s->fake.activity.state = ACTIVITY_OPEN;
    fake_pass(&s->fake, 1500);
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_DEPENDENCY_DOWN);
    t.activity = str_lit("another");
    assert_int_equal(take_now(s, &t), REASON_DEPENDENCY_DOWN);
    s->fake.inject = REASON_OK;
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_QUEUED);
    shop_close(s);
}

static void sold_out_is_known_for_a_quarter_of_a_second(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct take t;
    s->fake.reserve = REASON_BUCKET_EMPTY;
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_SOLD_OUT);
    assert_int_equal(s->fake.calls[FAKE_RESERVE], 1);
    assert_int_equal(take_now(s, take_of(s, &t)), REASON_SOLD_OUT);
    assert_int_equal(s->fake.calls[FAKE_RESERVE], 1);    /* said without asking */
    assert_true(soldout_known(&s->desk.soldout, act(s), 0));
    s->fake.inject_op = FAKE_STOCK;
    s->fake.inject = REASON_TIMED_OUT;
    fake_pass(&s->fake, 61 + 2);
    assert_int_equal(says(s, "user"), REASON_OK);        /* a failed read ends it */
    shop_close(s);
}

static void anything_left_anywhere_forbids_the_word(void **state)
{
    (void)state;
    for (int i = 0; i < 7; i++) {
        struct shop *s = shop_open();
        struct take t;
        s->fake.reserve = REASON_BUCKET_EMPTY;
        s->fake.stocks[0].free = i == 0;
        s->fake.stocks[0].resting = i == 1;
        s->fake.stocks[0].moving = i == 2;
        s->fake.stock.closed = i == 3;
        s->fake.seeded = i != 4;
        if (i == 5)
            s->fake.stocks[0].sku = str_lit("another");
        s->fake.inject_op = FAKE_STOCK;
        s->fake.inject = i == 6 ? REASON_STALE_EPOCH : REASON_OK;
        assert_int_equal(take_now(s, take_of(s, &t)), REASON_STOCK_MOVING);
        assert_int_equal(says(s, "user"), REASON_OK);
        shop_close(s);
    }
}

static void a_restock_between_the_rounds_is_noticed(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    soldout_hold(&s->desk.soldout, act(s), 0, NULL);
    fake_pass(&s->fake, 30);
    assert_int_equal(s->fake.calls[FAKE_STOCK], 2);    /* one round of two buckets */
    s->fake.stock.restocks++;
    fake_pass(&s->fake, 60);
    assert_int_equal(s->fake.calls[FAKE_STOCK], 4);
    assert_int_equal(says(s, "user"), REASON_OK);
    fake_pass(&s->fake, 60);
    assert_int_equal(says(s, "user"), REASON_SOLD_OUT);
    s->fake.stocks[0].resting = 1;
    fake_pass(&s->fake, 60);
    assert_int_equal(says(s, "user"), REASON_OK);
    shop_close(s);
}

static struct soldout_wait waits;
static enum reason heard;
static void hears(struct soldout_wait *w, enum reason reason)
{
    (void)w;
    heard = reason;
    shop->done++;
}

/* Who is held hears of rounds that were both begun after he came: at some moment of his waiting nothing was left. */
static void who_is_held_hears_of_his_own_time(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    soldout_hold(&s->desk.soldout, act(s), 0, NULL);
    fake_pass(&s->fake, 100);    /* it is known by now */
    assert_int_equal(says(s, "user"), REASON_SOLD_OUT);
    size_t rounds = s->fake.calls[FAKE_STOCK] / 2;
    waits = (struct soldout_wait){.done = hears};
    soldout_hold(&s->desk.soldout, act(s), 0, &waits);
    for (int i = 0; i < 60 && s->done == 0; i++)
        fake_pass(&s->fake, 1);
    assert_int_equal(heard, REASON_SOLD_OUT);
    assert_int_equal(s->fake.calls[FAKE_STOCK] / 2, rounds + 2);
    s->fake.stocks[0].moving = 1;
    soldout_hold(&s->desk.soldout, act(s), 0, &waits);
    fake_pass(&s->fake, 49);
    assert_int_equal(s->done, 1);
    fake_pass(&s->fake, 3);
    assert_int_equal(heard, REASON_STOCK_MOVING);
    shop_close(s);
}

/* Three sales are sold out, there are two watches, and people go on asking about all three: nobody hears for ever that stock is moving. */
static void more_sales_than_watches_take_turns(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct activity sales[3] = {s->fake.activity, s->fake.activity, s->fake.activity};
    static const char *const names[3] = {"one", "two", "three"};
    unsigned told[3] = {0};
    for (unsigned i = 0; i < 3; i++) {
        sales[i].number = (uint16_t)(100 + i);
        sales[i].activity = str_of(names[i]);
    }
    s->fake.activities = sales;
    s->fake.activity_count = 3;
    fake_pass(&s->fake, 3000);    /* the catalog learns of them */
    for (unsigned turn = 0; turn < 30; turn++) {
        waits = (struct soldout_wait){.done = hears};
        s->done = 0;
        soldout_hold(&s->desk.soldout, catalog_find(&s->desk.catalog, str_of(names[turn % 3])), 0, &waits);
        for (int ms = 0; ms < 60 && s->done == 0; ms++)
            fake_pass(&s->fake, 1);
        told[turn % 3] += heard == REASON_SOLD_OUT;
        soldout_says(&s->desk.soldout, catalog_find(&s->desk.catalog, str_of(names[(turn + 1) % 3])), 0, 1, 0);    /* in use meanwhile, where it is known */
    }
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(told[i], 10);
    shop_close(s);
}

static void pause_and_end_are_known_once_every_bucket_holds_them(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    s->fake.stocks[0].free = 3;
    s->fake.stock.state = ACTIVITY_PAUSED;
    soldout_hold(&s->desk.soldout, act(s), 0, NULL);
    fake_pass(&s->fake, 100);
    assert_int_equal(says(s, "user"), REASON_RESERVATION_PAUSED);
    s->fake.stock.state = ACTIVITY_OPEN;
    fake_pass(&s->fake, 70);
    assert_int_equal(says(s, "user"), REASON_OK);
    s->fake.stock.state = ACTIVITY_CLOSED;
    fake_pass(&s->fake, 70);
    assert_int_equal(says(s, "user"), REASON_ENDED);
    fake_pass(&s->fake, 3000);    /* nobody cares: it stops reading, and the word lapses */
    size_t reads = s->fake.calls[FAKE_STOCK];
    fake_pass(&s->fake, 3000);
    assert_int_equal(s->fake.calls[FAKE_STOCK], reads);
    assert_int_equal(says(s, "user"), REASON_OK);
    shop_close(s);
}

/* ---- queries ------------------------------------------------------------------------------------------------------------------------ */

static void asked(struct query *q)
{
    (void)q;
    shop->done++;
}

static char id_text[IDENT_ID_TEXT];

static struct query *query_of(struct shop *s, struct query *q, enum query_by by)
{
    if (ident_read(s->fake.entry.ident).activity == 0)
        s->fake.entry = fake_entry(&s->fake, str_lit("user"), RESERVATION_PUBLISHED, 100);
    ident_write(s->fake.entry.ident, by == QUERY_ORDER ? IDENT_ORDER : IDENT_RESERVATION, id_text);
    *q = (struct query){.by = by, .id = by == QUERY_REQUEST ? str_lit("req") : (struct str){id_text, IDENT_ID_TEXT}, .activity = str_lit("act"),
                        .user = str_lit("user"), .done = asked};
    return q;
}

static enum reason query_now(struct shop *s, struct query *q)
{
    size_t before = s->done;
    if (query_start(&s->desk, q))
        return q->reason;
    for (int i = 0; i < 800 && s->done == before; i++)
        fake_pass(&s->fake, 50);
    assert_int_equal(s->done, before + 1);
    return q->reason;
}

static void decided(struct shop *s, enum reason outcome)
{
    static char rsv[IDENT_ID_TEXT];
    ident_write(s->fake.entry.ident, IDENT_RESERVATION, rsv);
    s->fake.ledger_look = REASON_OK;
    s->fake.decided[0] = true;
    s->fake.looked = (struct ledger_look_answer){
        .decided = true, .verdict = {.outcome = outcome, .why = outcome == REASON_RELEASED ? REASON_STALE_GENERATION : REASON_OK, .order = str_lit("o")},
        .what = {.reservation = {rsv, sizeof rsv}, .message = str_lit("m"), .request = str_lit("req"), .activity = str_lit("act"), .sku = str_lit("sku"),
                 .user = str_lit("user"), .token = {3, 1}, .created_ms = s->fake.entry.created_ms},
        .has_order = outcome == REASON_ORDERED,
        .order = {.order = str_lit("o"), .user = str_lit("user"), .sku = str_lit("sku"), .currency = str_lit("CNY"), .state = ORDER_CREATED, .pay_deadline_ms = 5},
        .decided_ms = 99};
}

static void a_young_answer_of_the_store_is_believed(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct query q;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_RESERVATION)), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_PUBLISHED);
    assert_true(q.view.poll_after_ms == 500 && str_eq(q.view.activity, str_lit("act")) && str_eq(q.view.request, str_lit("req")));
    assert_int_equal(q.view.expires_ms, s->fake.entry.created_ms + 45000);
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_REQUEST)), REASON_OK);
    assert_true(str_eq(q.view.reservation, (struct str){id_text, 0}) == false && q.view.reservation.len == IDENT_ID_TEXT);
    assert_int_equal(s->fake.calls[FAKE_LEDGER_LOOK], 0);
    shop_close(s);
}

static void an_old_one_is_not_and_the_store_hears_first(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct query q;
    s->fake.entry = fake_entry(&s->fake, str_lit("user"), RESERVATION_PUBLISHED, 2100);
    decided(s, REASON_ORDERED);
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_RESERVATION)), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_ORDERED);
    assert_true(q.view.has_order && q.view.order.len == IDENT_ID_TEXT && q.view.pay_deadline_ms == 5 && q.view.poll_after_ms == 0);
    assert_int_equal(s->fake.settled[RESERVATION_ORDERED], 1);
    s->fake.ledger_look = REASON_NOT_FOUND;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_RESERVATION)), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_PUBLISHED);
    s->fake.ledger_look = REASON_DEPENDENCY_DOWN;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_RESERVATION)), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_RECONCILING);    /* said as unknown */
    doubt_user(s);
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_RESERVATION)), REASON_DEPENDENCY_DOWN);    /* he may have seen a later state */
    shop_close(s);
}

/* The store does not answer: the ledger does. A verdict too young to be safe from other readers is held back until the store holds it. */
static void without_the_store_the_ledger_answers(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct query q;
    s->fake.entry = fake_entry(&s->fake, str_lit("user"), RESERVATION_PUBLISHED, 10000);
    decided(s, REASON_RELEASED);
    s->fake.inject_op = FAKE_LOOK;
    s->fake.inject = REASON_LINK_LOST;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_RESERVATION)), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_RELEASED);
    assert_int_equal(q.view.why, REASON_STALE_GENERATION);
    assert_false(doubted(s));    /* the store has been told */
    s->fake.ledger_look = REASON_NOT_FOUND;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_RESERVATION)), REASON_DEPENDENCY_DOWN);    /* "not found" never reads as "buy again" */
    s->fake.ledger_look = REASON_TIMED_OUT;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_REQUEST)), REASON_DEPENDENCY_DOWN);
    shop_close(s);
    s = shop_open();
    s->fake.entry = fake_entry(&s->fake, str_lit("user"), RESERVATION_PUBLISHED, 500);
    decided(s, REASON_ORDERED);
    s->desk.doubts.all_until_us = UINT64_MAX;
    s->fake.inject_op = FAKE_SETTLE;
    s->fake.inject = REASON_DEPENDENCY_DOWN;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_RESERVATION)), REASON_DEPENDENCY_DOWN);    /* what others still read may be less than he was shown before */
    query_of(s, &q, QUERY_RESERVATION);
    s->fake.entry.state = RESERVATION_NONE;
    assert_int_equal(query_now(s, &q), REASON_DEPENDENCY_DOWN);
    shop_close(s);
}

/* A store of which nobody knows whether it remembers holds nothing of him, nor does the ledger yet: that is no "not found". */
static void a_stranger_who_knows_nothing_of_him_says_nothing(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct query q;
    query_of(s, &q, QUERY_REQUEST);
    s->fake.entry.state = RESERVATION_NONE;
    assert_int_equal(query_now(s, &q), REASON_NOT_FOUND);
    s->fake.incarnation = "fake-2";
    assert_int_equal(query_now(s, &q), REASON_DEPENDENCY_DOWN);
    s->fake.incarnation = "fake-1";
    assert_int_equal(query_now(s, &q), REASON_NOT_FOUND);
    shop_close(s);
}

static void nobody_knows_it_yet(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct query q;
    query_of(s, &q, QUERY_RESERVATION);
    s->fake.entry.state = RESERVATION_NONE;
    s->fake.release_lost = REASON_UNCHANGED;
    assert_int_equal(query_now(s, &q), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_RECONCILING);
    query_of(s, &q, QUERY_REQUEST);
    assert_int_equal(query_now(s, &q), REASON_NOT_FOUND);
    assert_false(doubted(s));    /* anybody may ask for what never was */
    decided(s, REASON_ORDERED);
    assert_int_equal(query_now(s, &q), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_ORDERED);
    assert_true(doubted(s));     /* but an order that the store does not know is one that it has forgotten */
    shop_close(s);
}

/* Whether it is time is the ledger's to say, by its own clock: this process's clock and the time in the id are not compared. */
static void what_nobody_knows_for_a_minute_is_lost(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct query q;
    s->fake.entry = fake_entry(&s->fake, str_lit("user"), RESERVATION_PUBLISHED, 600000);
    s->fake.entry.state = RESERVATION_NONE;
    s->fake.release_lost = REASON_UNCHANGED;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_RESERVATION)), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_RECONCILING);
    assert_int_equal(s->fake.calls[FAKE_RELEASE_LOST], 1);
    s->fake.release_lost = REASON_OK;
    s->fake.incarnation = "fake-2";                       /* a store that may have forgotten does not know what it does not know */
    assert_int_equal(query_now(s, &q), REASON_DEPENDENCY_DOWN);
    s->fake.incarnation = "fake-1";
    s->fake.ledger_look = REASON_DEPENDENCY_DOWN;         /* and nobody decides for a ledger that does not answer */
    assert_int_equal(query_now(s, &q), REASON_DEPENDENCY_DOWN);
    s->fake.ledger_look = REASON_OK;
    s->fake.looked = (struct ledger_look_answer){.parked = true, .what = {.user = str_lit("user"), .request = str_lit("req"), .reservation = {id_text, IDENT_ID_TEXT}}};
    for (unsigned by = QUERY_RESERVATION; by <= QUERY_REQUEST; by++) {
        assert_int_equal(query_now(s, query_of(s, &q, by)), REASON_OK);
        assert_int_equal(q.view.status, RESERVATION_MANUAL_REVIEW);    /* a person decides, however he asks for it */
    }
    s->fake.ledger_look = REASON_NOT_FOUND;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_REQUEST)), REASON_NOT_FOUND);
    assert_int_equal(s->fake.calls[FAKE_RELEASE_LOST], 1);

    query_of(s, &q, QUERY_RESERVATION);
    s->fake.inject_op = FAKE_RELEASE_LOST;
    s->fake.inject = REASON_TIMED_OUT;
    assert_int_equal(query_now(s, &q), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_RECONCILING);    /* decided or not: unknown */
    s->fake.inject = REASON_OK;
    s->desk.options.query.lost_most = 0;
    assert_int_equal(query_now(s, &q), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_RECONCILING);
    s->desk.options.query.lost_most = 1;
    fake_pass(&s->fake, 1000);
    size_t asked_for = s->fake.calls[FAKE_RELEASE_LOST];
    s->fake.release_lost = REASON_UNCHANGED;
    query_of(s, &q, QUERY_RESERVATION)->wait_ms = 5000;           /* a query that waits asks for it once */
    assert_int_equal(query_now(s, &q), REASON_OK);
    assert_int_equal(s->fake.calls[FAKE_RELEASE_LOST], asked_for + 1);
    s->fake.release_lost = REASON_OK;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_RESERVATION)), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_RELEASED);
    assert_int_equal(q.view.why, REASON_LOST);
    assert_int_equal(q.view.request.len + q.view.sku.len, 0);    /* nobody knows what it was for */
    assert_int_equal(s->fake.settled[RESERVATION_RELEASED], 1);
    assert_int_equal(query_now(s, &q), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_RELEASED);
    assert_int_equal(s->fake.calls[FAKE_RELEASE_LOST], asked_for + 2);
    assert_int_equal(s->fake.calls[FAKE_RELEASE], 0);
    shop_close(s);
}

/* Neither store knows the request; a message that was stored before Redis lost data may still make an order of it. */
static void unknown_request_is_undecided_while_messages_are_unread(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct query q;
    query_of(s, &q, QUERY_REQUEST);
    s->fake.entry.state = RESERVATION_NONE;
    s->fake.backlog.unread = true;
    assert_int_equal(query_now(s, &q), REASON_REQUEST_UNDECIDED);
    assert_true(reason_fate(q.reason) == FATE_RETRY && reason_row(q.reason)->http == 503);
    q.wait_ms = 20000;    /* and whoever waits hears of the order */
    assert_false(query_start(&s->desk, &q));
    fake_pass(&s->fake, 3000);
    assert_int_equal(s->done, 1);
    decided(s, REASON_ORDERED);
    fake_pass(&s->fake, 2000);
    assert_int_equal(s->done, 2);
    assert_true(q.reason == REASON_OK && q.view.status == RESERVATION_ORDERED);
    s->fake.ledger_look = REASON_NOT_FOUND;
    s->fake.inject_op = FAKE_BACKLOG;    /* how far the queues are read could not be asked: that is no "not found" either */
    s->fake.inject = REASON_TIMED_OUT;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_REQUEST)), REASON_DEPENDENCY_DOWN);
    s->fake.inject = REASON_OK;
    s->fake.backlog.unread = false;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_REQUEST)), REASON_NOT_FOUND);
    shop_close(s);
}

static void becomes(struct shop *s, enum activity_state state)
{
    s->fake.activity.state = state;
    fake_pass(&s->fake, 1500);    /* the list of activities is read again */
}

/* A sale that is not open has no buckets, or none any more: no reason to believe the store less in what it says of the others. */
static void a_sale_that_is_not_there_casts_no_doubt(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct query q;
    query_of(s, &q, QUERY_REQUEST);
    s->fake.inject_op = FAKE_LOOK;
    s->fake.inject = REASON_STALE_EPOCH;
    becomes(s, ACTIVITY_DRAFT);
    assert_int_equal(query_now(s, &q), REASON_NOT_FOUND);
    becomes(s, ACTIVITY_CLOSED);
    assert_int_equal(query_now(s, &q), REASON_DEPENDENCY_DOWN);
    assert_false(doubted(s));
    becomes(s, ACTIVITY_OPEN);
    assert_int_equal(query_now(s, &q), REASON_DEPENDENCY_DOWN);
    assert_false(doubted(s));    /* nothing was shown that the store does not hold */
    shop_close(s);
}

/* A store that pauses for less than a second, and a lost reservation of one bucket, cost the other buckets no ledger reads. */
static void doubt_of_one_bucket_costs_the_others_nothing(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct query q;
    struct str other = {0};
    static const char *const users[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    for (size_t i = 0; i < countof(users) && other.len == 0; i++)
        if (user_bucket(user_hash(&s->fake.keys, str_of(users[i])), 2) != users_bucket(s))
            other = str_of(users[i]);
    assert_true(other.len > 0);

    query_of(s, &q, QUERY_REQUEST);
    s->fake.inject_op = FAKE_LOOK;    /* the store pauses */
    s->fake.inject = REASON_TIMED_OUT;
    s->fake.silent = true;
    assert_int_equal(query_now(s, &q), REASON_DEPENDENCY_DOWN);
    s->fake.inject = REASON_OK;
    s->fake.silent = false;
    size_t looked = s->fake.calls[FAKE_LEDGER_LOOK];
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_REQUEST)), REASON_OK);
    assert_int_equal(s->fake.calls[FAKE_LEDGER_LOOK] - looked, 0);

    decided(s, REASON_ORDERED);    /* an order that the store has forgotten, and cannot be told of */
    s->fake.looked.what.created_ms = clock_now_ms(&s->fake.clock.clock) - 10000;
    s->fake.entry.state = RESERVATION_NONE;
    s->fake.inject_op = FAKE_SETTLE;
    s->fake.inject = REASON_DEPENDENCY_DOWN;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_RESERVATION)), REASON_OK);
    s->fake.inject = REASON_OK;
    assert_true(doubted(s));
    s->fake.entry = fake_entry(&s->fake, other, RESERVATION_PUBLISHED, 100);
    looked = s->fake.calls[FAKE_LEDGER_LOOK];
    query_of(s, &q, QUERY_RESERVATION)->user = other;
    assert_int_equal(query_now(s, &q), REASON_OK);
    assert_int_equal(q.view.status, RESERVATION_PUBLISHED);
    assert_int_equal(s->fake.calls[FAKE_LEDGER_LOOK] - looked, 0);
    shop_close(s);
}

/* The client asked to wait: neither a ledger nor a store that cannot be read now is an answer. */
static void waiting_query_outlasts_failed_reads(void **state)
{
    (void)state;
    static const enum fake_op ops[] = {FAKE_LEDGER_LOOK, FAKE_LOOK};
    for (size_t i = 0; i < 2 * countof(ops); i++) {
        struct shop *s = shop_open();
        struct query q;
        s->fake.entry = fake_entry(&s->fake, str_lit("user"), RESERVATION_PUBLISHED, 5000);
        query_of(s, &q, QUERY_RESERVATION)->wait_ms = 20000;
        s->fake.inject_op = ops[i % countof(ops)];
        s->fake.inject_at = i < countof(ops) ? 0 : 3;    /* from the first read on, or later */
        s->fake.inject = REASON_DEPENDENCY_DOWN;
        assert_false(query_start(&s->desk, &q));
        fake_pass(&s->fake, 8000);
        assert_int_equal(s->done, 0);
        s->fake.inject = REASON_OK;
        decided(s, REASON_ORDERED);
        fake_pass(&s->fake, 2000);
        assert_int_equal(s->done, 1);
        assert_true(q.reason == REASON_OK && q.view.status == RESERVATION_ORDERED);

        doubt_user(s);
        s->fake.inject_at = 0;
        s->fake.inject = REASON_DEPENDENCY_DOWN;    /* never readable, and he may have seen a later state: said when the time is up */
        s->fake.entry = fake_entry(&s->fake, str_lit("user"), RESERVATION_PUBLISHED, 5000);
        s->fake.ledger_look = REASON_NOT_FOUND;
        query_of(s, &q, QUERY_RESERVATION)->wait_ms = 3000;
        assert_false(query_start(&s->desk, &q));
        fake_pass(&s->fake, 2900);
        assert_int_equal(s->done, 1);
        fake_pass(&s->fake, 1500);
        assert_int_equal(s->done, 2);
        assert_int_equal(q.reason, REASON_DEPENDENCY_DOWN);
        shop_close(s);
    }
}

static void other_peoples_and_made_up_names_are_refused_at_once(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct query q;
    query_of(s, &q, QUERY_RESERVATION)->user = str_lit("somebody");
    assert_true(query_start(&s->desk, &q));
    assert_int_equal(q.reason, REASON_NOT_FOUND);
    query_of(s, &q, QUERY_RESERVATION);
    id_text[10] = id_text[10] == '0' ? '1' : '0';
    assert_true(query_start(&s->desk, &q));
    assert_int_equal(q.reason, REASON_NOT_FOUND);
    assert_int_equal(s->fake.calls[FAKE_LOOK] + s->fake.calls[FAKE_LEDGER_LOOK], 0);
    decided(s, REASON_ORDERED);    /* a row of another user, whatever the mark says */
    s->fake.looked.what.user = s->fake.looked.order.user = str_lit("another");
    s->fake.entry.state = RESERVATION_NONE;
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_RESERVATION)), REASON_NOT_FOUND);
    assert_int_equal(query_now(s, query_of(s, &q, QUERY_ORDER)), REASON_NOT_FOUND);
    shop_close(s);
}

static void a_waiting_query_ends_when_something_happens(void **state)
{
    (void)state;
    struct shop *s = shop_open();
    struct query q;
    query_of(s, &q, QUERY_RESERVATION)->wait_ms = 20000;
    assert_false(query_start(&s->desk, &q));
    fake_pass(&s->fake, 1000);
    assert_int_equal(s->done, 0);
    size_t looks = s->fake.calls[FAKE_LOOK];
    assert_in_range(looks, 3, 12);
    s->fake.entry.state = RESERVATION_ORDERED;
    fake_pass(&s->fake, 1600);
    assert_int_equal(s->done, 1);
    assert_int_equal(q.view.status, RESERVATION_ORDERED);
    s->fake.entry = fake_entry(&s->fake, str_lit("user"), RESERVATION_PUBLISHED, 100);
    query_of(s, &q, QUERY_RESERVATION)->wait_ms = 1500;
    assert_false(query_start(&s->desk, &q));
    fake_pass(&s->fake, 1490);
    assert_int_equal(s->done, 1);
    fake_pass(&s->fake, 30);
    assert_int_equal(s->done, 2);    /* time is up */
    query_of(s, &q, QUERY_RESERVATION)->wait_ms = 1500;
    assert_false(query_start(&s->desk, &q));
    fake_pass(&s->fake, 100);
    query_let_go(&q);
    query_let_go(&q);
    shop_close(s);
    assert_int_equal(s->done, 2);
}

static void whatever_fails_a_query_ends_once(void **state)
{
    (void)state;
    static const enum fake_op ops[] = {FAKE_LOOK, FAKE_LEDGER_LOOK, FAKE_SETTLE};
    for (unsigned by = QUERY_RESERVATION; by <= QUERY_ORDER; by++)
        for (size_t o = 0; o < countof(ops); o++)
            for (unsigned r = 0; r < REASON_COUNT; r++) {
                struct shop *s = shop_open();
                struct query q;
                if (r == REASON_OK)
                    r++;
                s->fake.entry = fake_entry(&s->fake, str_lit("user"), RESERVATION_PUBLISHED, r % 2 ? 5000 : 100);
                decided(s, r % 3 ? REASON_ORDERED : REASON_RELEASED);
                if (r % 3 == 0)
                    s->fake.looked.verdict.superseded_by = str_lit("rsv_00041061050R3GG28A1C60T3QZ");
                s->fake.inject_op = ops[o];
                s->fake.inject = r;
                enum reason told = query_now(s, query_of(s, &q, by));
                assert_true(told == REASON_OK || told == REASON_DEPENDENCY_DOWN || (told == REASON_NOT_FOUND && by != QUERY_RESERVATION));
                shop_close(s);
            }
}

int main(void)
{
    log_level_set(LEVEL_FATAL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit_is_taken_and_announced), cmocka_unit_test(a_slow_broker_does_not_hold_the_buyer),
        cmocka_unit_test(every_answer_of_the_store_is_told), cmocka_unit_test(whatever_fails_he_hears_once),
        cmocka_unit_test(a_stranger_is_asked_about_before_he_is_locked_out), cmocka_unit_test(a_stranger_is_locked_out),
        cmocka_unit_test(without_a_ledger_nobody_is_trusted), cmocka_unit_test(who_does_not_hear_the_ledger_closes_nothing),
        cmocka_unit_test(a_stranger_who_knows_nothing_of_him_says_nothing), cmocka_unit_test(what_went_back_is_told_to_nobody),
        cmocka_unit_test(a_closing_that_fails_is_repeated),
        cmocka_unit_test(the_ledger_is_asked_before_a_forgotten_request_may_reserve), cmocka_unit_test(replay_of_a_missing_bucket_returns_its_order), cmocka_unit_test(an_old_undecided_answer_is_confirmed),
        cmocka_unit_test(takes_have_an_edge), cmocka_unit_test(unknown_things_are_not_asked_about), cmocka_unit_test(replay_without_token_returns_existing_reservation),
        cmocka_unit_test(an_activity_just_made_is_found), cmocka_unit_test(a_retired_activity_is_looked_up), cmocka_unit_test(activities_looked_up_have_a_bound), cmocka_unit_test(an_old_draft_is_not_believed),
        cmocka_unit_test(sold_out_is_known_for_a_quarter_of_a_second), cmocka_unit_test(anything_left_anywhere_forbids_the_word),
        cmocka_unit_test(a_restock_between_the_rounds_is_noticed), cmocka_unit_test(who_is_held_hears_of_his_own_time), cmocka_unit_test(more_sales_than_watches_take_turns),
        cmocka_unit_test(pause_and_end_are_known_once_every_bucket_holds_them),
        cmocka_unit_test(a_young_answer_of_the_store_is_believed), cmocka_unit_test(an_old_one_is_not_and_the_store_hears_first),
        cmocka_unit_test(without_the_store_the_ledger_answers), cmocka_unit_test(nobody_knows_it_yet),
        cmocka_unit_test(what_nobody_knows_for_a_minute_is_lost), cmocka_unit_test(unknown_request_is_undecided_while_messages_are_unread),
        cmocka_unit_test(a_sale_that_is_not_there_casts_no_doubt), cmocka_unit_test(doubt_of_one_bucket_costs_the_others_nothing),
        cmocka_unit_test(waiting_query_outlasts_failed_reads),
        cmocka_unit_test(other_peoples_and_made_up_names_are_refused_at_once), cmocka_unit_test(a_waiting_query_ends_when_something_happens),
        cmocka_unit_test(whatever_fails_a_query_ends_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

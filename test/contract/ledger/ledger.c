/* SPDX-License-Identifier: Apache-2.0
 * What a ledger promises, whichever it is (protocol §3, §4). Each test makes an activity of its own; all share one world. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "words.h"

static void assert_verdict(struct verdict v, enum reason outcome, enum reason why, bool fresh)
{
    assert_string_equal(reason_word(v.outcome), reason_word(outcome));
    assert_string_equal(reason_word(v.why), reason_word(why));
    assert_int_equal(v.fresh, fresh);
}
static struct token t_unit(const struct activity *a, int64_t nth, uint32_t generation) { return (struct token){a->skus[1].unit_first + nth, generation}; }

/* ---- activities ---- */

static void an_activity_is_created_once(void **state)
{
    (void)state;
    struct activity a = shop("create", 7, 5, 3), again = shop("create", 7, 5, 3), other = shop("create2", 1, 1, 1);
    assert_true(a.number >= 1 && a.number == again.number && other.number != a.number);
    assert_int_equal(a.epoch, 1);
    assert_int_equal(a.state, ACTIVITY_DRAFT);
    assert_int_equal(a.sku_count, 2);
    assert_str(a.skus[1].sku, str_lit("T"));
    assert_int_equal(a.skus[1].price, 250);
    assert_int_equal(a.skus[1].unit_first, a.skus[0].unit_first + 7);
    assert_int_equal(again.skus[0].unit_first, a.skus[0].unit_first);
    assert_true(other.skus[0].unit_first >= a.skus[1].unit_first + 5);

    struct listed l = units(&a, 0, -1, false, 256);
    assert_int_equal(l.count, 12);
    for (size_t i = 0; i < l.count; i++) {
        assert_int_equal(l.units[i].token.unit, a.skus[0].unit_first + (int64_t)i);
        assert_int_equal(l.units[i].token.generation, 1);
        assert_true(l.units[i].available && !l.units[i].ordered && !l.units[i].returning && l.units[i].home < 3);
        assert_str(l.units[i].sku, i < 7 ? str_lit("S") : str_lit("T"));
    }
    size_t homes = 0;
    for (int32_t b = 0; b < 3; b++)
        homes += units(&a, 0, b, true, 256).count;
    assert_int_equal(homes, 12);
    assert_in_range(units(&a, 0, 1, true, 256).count, 3, 5);    /* dealt in turn */
    struct listed slice = units(&a, l.units[4].token.unit, -1, false, 4);
    assert_int_equal(slice.count, 4);
    assert_int_equal(slice.units[0].token.unit, l.units[5].token.unit);
    assert_int_equal(units(&other, 0, -1, false, 256).count, 2);
}

static enum reason create_with_stock(const char *name, int64_t stock)
{
    struct sku skus[] = {{.sku = str_lit("S"), .stock = stock, .price = 100, .currency = str_lit("CNY")}};
    struct activity_create ask = {.activity = {.activity = str_of(name), .title = str_lit("t"), .buckets = 1, .starts_ms = 1000, .ends_ms = 4000000000000,
                                               .pay_timeout_s = 900, .skus = skus, .sku_count = 1}, .actor = str_lit("test")};
    struct seen seen = SEEN(.into = NULL);
    ledger_activity_create(world->ledger, &ask, &seen.waiter);
    return seen_await(world, &seen);
}

static void other_terms_conflict(void **state)
{
    (void)state;
    assert_int_equal(create_with_stock("terms", 3), REASON_OK);
    assert_int_equal(create_with_stock("terms", 3), REASON_OK);
    assert_int_equal(create_with_stock("terms", 4), REASON_CONFLICT);
}

struct stand {
    enum activity_state state;
    uint64_t version;
};
static void keep_stand(struct seen *s, const void *result)
{
    const struct activity *a = result;
    *(struct stand *)s->into = (struct stand){a->state, a->version};
}
static enum reason move_from(struct str activity, enum activity_event event, uint64_t version, struct stand *stand)
{
    struct seen seen = SEEN(.keep = keep_stand, .into = stand);
    struct activity_move_ask ask = {.activity = activity, .event = event, .version = version, .actor = str_lit("test"), .note = str_lit("why not")};
    ledger_activity_move(world->ledger, &ask, &seen.waiter);
    return seen_await(world, &seen);
}
static enum reason move(struct str activity, enum activity_event event, struct stand *stand) { return move_from(activity, event, 0, stand); }

/* Every event in every state, against spec/activity.def. */
static void every_move_is_in_the_table(void **state)
{
    (void)state;
    static const enum activity_event road[][3] = {{0}, {ACTIVITY_EVENT_WARM}, {ACTIVITY_EVENT_WARM, ACTIVITY_EVENT_OPEN},
        {ACTIVITY_EVENT_WARM, ACTIVITY_EVENT_OPEN, ACTIVITY_EVENT_PAUSE}, {ACTIVITY_EVENT_WARM, ACTIVITY_EVENT_CLOSE}};
    static const size_t steps[] = {0, 1, 2, 3, 2};
    for (unsigned from = 0; from < ACTIVITY_STATE_COUNT; from++)
        for (unsigned event = 0; event < ACTIVITY_EVENT_COUNT; event++) {
            struct activity a = shop(words("move_%u_%u%c", from, event, 0).ptr, 1, 1, 1);
            struct stand stand = {a.state, a.version}, after;
            for (size_t i = 0; i < steps[from]; i++)
                assert_int_equal(move(a.activity, road[from][i], &stand), REASON_OK);
            assert_int_equal(stand.state, from);
            enum activity_state to;
            bool stands_there = false;
            for (unsigned s = 0; s < ACTIVITY_STATE_COUNT; s++)
                stands_there |= activity_move((enum activity_state)s, (enum activity_event)event, &to) && to == from;
            bool legal = activity_move((enum activity_state)from, (enum activity_event)event, &to);
            enum reason reason = move(a.activity, (enum activity_event)event, &after);
            assert_int_equal(reason, legal || stands_there ? REASON_OK : REASON_CONFLICT);
            if (reason != REASON_OK)
                continue;
            assert_int_equal(after.state, legal ? to : from);
            assert_true(legal && to != from ? after.version > stand.version : after.version >= stand.version);
        }
    struct stand none;
    assert_int_equal(move(str_lit("no-such"), ACTIVITY_EVENT_WARM, &none), REASON_UNKNOWN_ACTIVITY);
}

/* A pause that nobody waits for any more arrives when the sale has long been resumed: it does nothing. */
static void a_late_move_undoes_nothing(void **state)
{
    (void)state;
    struct activity a = shop("late_move", 1, 1, 1);
    struct stand stand, paused, resumed, now;
    assert_int_equal(move(a.activity, ACTIVITY_EVENT_WARM, &stand), REASON_OK);
    assert_int_equal(move(a.activity, ACTIVITY_EVENT_OPEN, &stand), REASON_OK);
    assert_int_equal(move_from(a.activity, ACTIVITY_EVENT_PAUSE, stand.version, &paused), REASON_OK);
    assert_int_equal(move_from(a.activity, ACTIVITY_EVENT_PAUSE, stand.version, &now), REASON_OK);    /* standing there already */
    assert_int_equal(now.version, paused.version);
    assert_int_equal(move_from(a.activity, ACTIVITY_EVENT_RESUME, paused.version, &resumed), REASON_OK);
    assert_int_equal(move_from(a.activity, ACTIVITY_EVENT_PAUSE, stand.version, &now), REASON_CONFLICT);
    assert_int_equal(move_from(a.activity, ACTIVITY_EVENT_RESUME, resumed.version, &now), REASON_OK);
    assert_int_equal(now.state, ACTIVITY_OPEN);
    assert_int_equal(now.version, resumed.version);
}

struct census {
    size_t count;
    bool found;
};
static void keep_census(struct seen *s, const void *result)
{
    const struct activities_answer *all = result;
    struct census *c = s->into;
    c->count = all->count;
    for (size_t i = 0; i < all->count; i++)
        c->found |= str_eq(all->activities[i].activity, str_lit("listed")) && all->activities[i].sku_count == 2 && all->activities[i].skus[1].stock == 4;
}
static void activities_are_listed(void **state)
{
    (void)state;
    shop("listed", 3, 4, 1);
    struct census c = {0};
    struct seen seen = SEEN(.keep = keep_census, .into = &c);
    ledger_activities(world->ledger, &(struct activities_ask){.live = true}, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    assert_true(c.count >= 1 && c.found);
}

static void keep_numbers(struct seen *s, const void *result)
{
    const struct activities_answer *all = result;
    struct census *c = s->into;
    c->count = all->count;
    c->found = all->count > 0 && str_eq(all->activities[0].activity, str_lit("over")) && all->activities[0].retired;
}
static struct census list(struct activities_ask ask)
{
    struct census c = {0};
    struct seen seen = SEEN(.keep = keep_numbers, .into = &c);
    ledger_activities(world->ledger, &ask, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return c;
}
static bool is_live(struct str activity)
{
    struct census c = {0};
    struct seen seen = SEEN(.keep = keep_census, .into = &c);
    ledger_activities(world->ledger, &(struct activities_ask){.live = true, .names = &activity, .name_count = 1}, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return c.count == list((struct activities_ask){.live = true}).count;    /* asking for it by name adds none */
}
static enum reason retire(const char *name, bool counted)
{
    struct seen seen = SEEN(.into = NULL);
    ledger_retire(world->ledger, &(struct retire_ask){.activity = str_of(name), .counted = counted, .actor = str_lit("test")}, &seen.waiter);
    return seen_await(world, &seen);
}

/* A closed activity leaves the working set once its units are counted and none of its orders waits for payment; it is still found by name, number, unit, page. */
static void a_closed_activity_is_retired(void **state)
{
    (void)state;
    struct stand stand;
    struct activity a = shop("over", 3, 4, 2);
    struct str name = a.activity;
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    assert_int_equal(retire("no_such", true), REASON_UNKNOWN_ACTIVITY);
    assert_int_equal(retire("over", true), REASON_UNCHANGED);    /* a draft */
    assert_int_equal(move(name, ACTIVITY_EVENT_WARM, &stand), REASON_OK);
    assert_int_equal(move(name, ACTIVITY_EVENT_OPEN, &stand), REASON_OK);
    assert_verdict(PLACE(m).verdicts[0], REASON_ORDERED, REASON_OK, true);
    assert_int_equal(retire("over", true), REASON_UNCHANGED);    /* open, and its end is far away */
    assert_int_equal(move(name, ACTIVITY_EVENT_CLOSE, &stand), REASON_OK);
    assert_int_equal(retire("over", true), REASON_UNCHANGED);    /* an order waits for payment */
    assert_int_equal(pay_one(callback(order_of(&m), "pay_over", PAYMENT_SUCCESS, a.skus[0].price, "CNY")).outcome, REASON_PAYMENT_APPLIED);
    assert_int_equal(retire("over", false), REASON_UNCHANGED);   /* its units are not counted, and it was closed a moment ago */
    assert_true(is_live(name));
    assert_int_equal(retire("over", true), REASON_OK);
    assert_int_equal(retire("over", false), REASON_OK);          /* again: it stays so */
    assert_false(is_live(name));
    assert_true(list((struct activities_ask){.names = &name, .name_count = 1}).found);
    assert_true(list((struct activities_ask){.numbers = &a.number, .number_count = 1}).found);
    assert_true(list((struct activities_ask){.unit = a.skus[1].unit_first + 3}).found);
    assert_true(list((struct activities_ask){.after = (uint16_t)(a.number - 1), .limit = 1}).found);
    assert_int_equal(list((struct activities_ask){.after = a.number, .limit = 8}).count, 0);
    assert_int_equal(list((struct activities_ask){0}).count, 0);
    assert_int_equal(move(name, ACTIVITY_EVENT_OPEN, &stand), REASON_CONFLICT);
}

/* ---- verdicts ---- */

static void the_first_to_insert_decides_an_order(void **state)
{
    (void)state;
    struct activity a = shop("first", 5, 5, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    struct told t = PLACE(m);
    assert_int_equal(t.reason, REASON_OK);
    assert_false(t.regressed);
    assert_verdict(t.verdicts[0], REASON_ORDERED, REASON_OK, true);
    assert_str(t.verdicts[0].order, str_lit("ord_first_1"));
    for (int i = 0; i < 3; i++) {
        struct told again = PLACE(m);
        assert_verdict(again.verdicts[0], REASON_ORDERED, REASON_OK, false);
        assert_str(again.verdicts[0].order, t.verdicts[0].order);
    }
    struct told released = release(m, REASON_OVERDUE);
    assert_verdict(released.verdicts[0], REASON_ORDERED, REASON_OK, false);
    struct ledger_unit u = unit(&a, m.token.unit);
    assert_true(!u.available && u.ordered && u.token.generation == 1);
    assert_str(u.reservation, m.reservation);
    assert_clean(a.activity);
}

static void a_release_decides_and_the_late_message_does_nothing(void **state)
{
    (void)state;
    struct activity a = shop("late", 5, 5, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    struct told t = release(m, REASON_OVERDUE);
    assert_verdict(t.verdicts[0], REASON_RELEASED, REASON_OVERDUE, true);
    for (int i = 0; i < 3; i++)
        assert_verdict(PLACE(m).verdicts[0], REASON_RELEASED, REASON_OVERDUE, false);
    assert_verdict(release(m, REASON_LOST).verdicts[0], REASON_RELEASED, REASON_OVERDUE, false);
    struct ledger_unit u = unit(&a, m.token.unit);
    assert_true(u.available && u.returning && u.token.generation == 2);    /* raised once, however often it was asked */
    assert_verdict(PLACE(item(&a, "S", "bob", "q2", "2", s_unit(&a, 0, 2))).verdicts[0], REASON_ORDERED, REASON_OK, true);
    assert_clean(a.activity);
}

static void a_lost_reservation_is_released_without_its_unit(void **state)
{
    (void)state;
    struct activity a = shop("lost", 5, 5, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", (struct token){0});
    assert_verdict(release(m, REASON_LOST).verdicts[0], REASON_RELEASED, REASON_LOST, true);
    m.token = s_unit(&a, 0, 1);
    assert_verdict(PLACE(m).verdicts[0], REASON_RELEASED, REASON_LOST, false);
    assert_int_equal(unit(&a, m.token.unit).token.generation, 1);
    assert_clean(a.activity);
}

/* mission §11.4: a conflict is never simply a success. */
static void every_duplicate_has_its_own_reason(void **state)
{
    (void)state;
    struct activity a = shop("dup", 9, 9, 1);
    struct create_order first = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    assert_verdict(PLACE(first).verdicts[0], REASON_ORDERED, REASON_OK, true);
    struct create_order twin = first;
    twin.message = words("msg_dup_twin");
    assert_verdict(PLACE(twin).verdicts[0], REASON_ORDERED, REASON_OK, false);                         /* reservation_id */
    struct told request = PLACE(item(&a, "T", "ann", "q1", "2", t_unit(&a, 0, 1)));                    /* request_id */
    assert_verdict(request.verdicts[0], REASON_RELEASED, REASON_REQUEST_REPLAY, true);
    assert_str(request.verdicts[0].superseded_by, first.reservation);
    struct told user = PLACE(item(&a, "S", "ann", "q2", "3", s_unit(&a, 1, 1)));                       /* activity, SKU, user */
    assert_verdict(user.verdicts[0], REASON_RELEASED, REASON_DUPLICATE_USER, true);
    assert_str(user.verdicts[0].superseded_by, first.reservation);
    struct told token = PLACE(item(&a, "S", "bob", "q3", "4", s_unit(&a, 0, 1)));                      /* inventory_token_id */
    assert_verdict(token.verdicts[0], REASON_RELEASED, REASON_TOKEN_CONFLICT, true);
    assert_int_equal(token.verdicts[0].superseded_by.len, 0);
    assert_int_equal(unit(&a, t_unit(&a, 0, 1).unit).token.generation, 2);    /* refused units come back, once */
    assert_int_equal(unit(&a, s_unit(&a, 1, 1).unit).token.generation, 2);
    assert_int_equal(unit(&a, s_unit(&a, 0, 1).unit).token.generation, 1);    /* the sold one does not move */
    assert_clean(a.activity);
}

static void one_batch_decides_as_if_one_by_one(void **state)
{
    (void)state;
    struct activity a = shop("batch", 9, 9, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), other = m;
    other.message = words("msg_batch_other");
    struct told t = PLACE(m, other,                                            /* one reservation in two messages */
                          item(&a, "S", "bob", "q1", "2", s_unit(&a, 0, 1)),   /* the same unit */
                          item(&a, "T", "ann", "q2", "3", t_unit(&a, 0, 1)),   /* another SKU, same user: fine */
                          item(&a, "S", "ann", "q3", "4", s_unit(&a, 1, 1)),   /* same user and SKU */
                          item(&a, "T", "cat", "q5", "5", t_unit(&a, 1, 1)),
                          item(&a, "S", "cat", "q5", "6", s_unit(&a, 2, 1)),   /* same request, other SKU */
                          item(&a, "S", "dan", "q7", "7", s_unit(&a, 1, 1)));  /* the unit that 4 gave back, at its old generation */
    assert_int_equal(t.reason, REASON_OK);
    assert_verdict(t.verdicts[0], REASON_ORDERED, REASON_OK, true);
    assert_verdict(t.verdicts[1], REASON_ORDERED, REASON_OK, false);
    assert_verdict(t.verdicts[2], REASON_RELEASED, REASON_TOKEN_CONFLICT, true);
    assert_verdict(t.verdicts[3], REASON_ORDERED, REASON_OK, true);
    assert_verdict(t.verdicts[4], REASON_RELEASED, REASON_DUPLICATE_USER, true);
    assert_verdict(t.verdicts[5], REASON_ORDERED, REASON_OK, true);
    assert_verdict(t.verdicts[6], REASON_RELEASED, REASON_REQUEST_REPLAY, true);
    assert_str(t.verdicts[6].superseded_by, words("rsv_batch_5"));
    assert_verdict(t.verdicts[7], REASON_RELEASED, REASON_STALE_GENERATION, true);
    assert_int_equal(unit(&a, s_unit(&a, 1, 1).unit).token.generation, 2);
    struct audited found = audit(a.activity);
    assert_int_equal(found.a.orders, 3);
    assert_int_equal(found.a.holding, 3);
    assert_int_equal(found.a.released, 4);
    assert_int_equal(found.a.consumed, 3);
    assert_int_equal(found.a.available, 15);
    assert_int_equal(found.a.stock, 18);
    assert_true(found.a.first_order_ms > 0 && found.a.last_order_ms >= found.a.first_order_ms);
    assert_clean(a.activity);
}

static void a_request_that_was_released_is_never_ordered_through_another_reservation(void **state)
{
    (void)state;
    struct activity a = shop("replay", 9, 9, 1);
    assert_verdict(release(item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), REASON_OVERDUE).verdicts[0], REASON_RELEASED, REASON_OVERDUE, true);
    struct told t = PLACE(item(&a, "S", "ann", "q1", "2", s_unit(&a, 1, 1)), item(&a, "S", "bob", "q1", "3", s_unit(&a, 2, 1)));
    assert_verdict(t.verdicts[0], REASON_RELEASED, REASON_REQUEST_REPLAY, true);
    assert_verdict(t.verdicts[1], REASON_ORDERED, REASON_OK, true);    /* a request_id belongs to its user */
    assert_int_equal(unit(&a, s_unit(&a, 1, 1).unit).token.generation, 2);
    assert_verdict(PLACE(item(&a, "S", "ann", "q9", "4", s_unit(&a, 3, 1))).verdicts[0], REASON_ORDERED, REASON_OK, true);    /* a new request may */
    struct looked l = look(LOOK_REQUEST, str_lit("q1"), a.activity, str_lit("ann"));
    assert_int_equal(l.reason, REASON_OK);
    assert_str(l.a.what.reservation, words("rsv_replay_1"));
    assert_clean(a.activity);
}

static void what_was_given_up_stays_so_whatever_comes_of_it(void **state)
{
    (void)state;
    struct activity a = shop("givenup", 9, 9, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), nameless = m;
    nameless.message = (struct str){0};
    nameless.request = nameless.reservation;    /* neither what was asked for nor which unit it took is known */
    nameless.token = (struct token){0};
    finish_all();
    assert_verdict(release(nameless, REASON_LOST).verdicts[0], REASON_RELEASED, REASON_LOST, true);
    struct claimed c = claim(200);
    const struct outbox_row *event = row_of(&c, OUTBOX_EVENT, m.reservation, 0);
    assert_true(event && row_of(&c, OUTBOX_STATUS, m.reservation, 0));
    assert_null(memmem(event->body.ptr, event->body.len, "\"S\"", 3));    /* the world is not told what nobody knows */
    assert_null(memmem(event->body.ptr, event->body.len, "q1", 2));
    assert_verdict(release(nameless, REASON_LOST).verdicts[0], REASON_RELEASED, REASON_LOST, false);
    struct told late = PLACE(m, item(&a, "S", "ann", "q1", "2", s_unit(&a, 1, 1)));
    assert_verdict(late.verdicts[0], REASON_RELEASED, REASON_LOST, false);
    assert_verdict(late.verdicts[1], REASON_ORDERED, REASON_OK, true);    /* he was free to ask again */
    assert_int_equal(unit(&a, s_unit(&a, 0, 1).unit).token.generation, 1);
    struct create_order sold = item(&a, "S", "ann", "q1", "2", s_unit(&a, 1, 1));
    assert_verdict(release(sold, REASON_LOST).verdicts[0], REASON_ORDERED, REASON_OK, false);
    assert_clean(a.activity);
}

static void generations_fence(void **state)
{
    (void)state;
    struct activity a = shop("fence", 9, 9, 1);
    release(item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), REASON_OVERDUE);
    struct told stale = PLACE(item(&a, "S", "bob", "q1", "2", s_unit(&a, 0, 1)));
    assert_verdict(stale.verdicts[0], REASON_RELEASED, REASON_STALE_GENERATION, true);
    assert_false(stale.regressed);
    assert_int_equal(unit(&a, s_unit(&a, 0, 1).unit).token.generation, 2);
    struct told future = PLACE(item(&a, "S", "cat", "q1", "3", s_unit(&a, 0, 7)));    /* the ledger must have gone back in time */
    assert_verdict(future.verdicts[0], REASON_RELEASED, REASON_STALE_GENERATION, true);
    assert_true(future.regressed);
    assert_int_equal(unit(&a, s_unit(&a, 0, 1).unit).token.generation, 8);
    struct told again = PLACE(item(&a, "S", "cat", "q1", "3", s_unit(&a, 0, 7)));
    assert_false(again.regressed);
    struct told sold = PLACE(item(&a, "S", "dan", "q1", "4", s_unit(&a, 0, 8)));
    assert_verdict(sold.verdicts[0], REASON_ORDERED, REASON_OK, true);
    struct told beyond = PLACE(item(&a, "S", "eve", "q1", "5", s_unit(&a, 0, 11)));    /* a sold unit jumps too, and stays sold */
    assert_verdict(beyond.verdicts[0], REASON_RELEASED, REASON_STALE_GENERATION, true);
    assert_true(beyond.regressed);
    struct ledger_unit u = unit(&a, s_unit(&a, 0, 1).unit);
    assert_true(!u.available && u.ordered && u.token.generation == 12);
    assert_clean(a.activity);
}

static void a_foreign_unit_is_not_touched(void **state)
{
    (void)state;
    struct activity a = shop("foreign", 5, 5, 1), b = shop("foreign2", 5, 5, 1);
    struct told t = PLACE(item(&a, "S", "ann", "q1", "1", t_unit(&a, 0, 1)), item(&a, "S", "bob", "q1", "2", s_unit(&b, 0, 1)),
                          item(&a, "S", "cat", "q1", "3", (struct token){900000000, 1}), item(&a, "T", "dan", "q1", "4", t_unit(&a, 0, 1)));
    for (int i = 0; i < 3; i++)
        assert_verdict(t.verdicts[i], REASON_RELEASED, REASON_TOKEN_FOREIGN, true);
    assert_verdict(t.verdicts[3], REASON_ORDERED, REASON_OK, true);
    assert_int_equal(unit(&b, s_unit(&b, 0, 1).unit).token.generation, 1);
    assert_clean(a.activity);
    assert_clean(b.activity);
}

static void a_message_id_belongs_to_one_reservation(void **state)
{
    (void)state;
    struct activity a = shop("reuse", 5, 5, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), thief = item(&a, "S", "bob", "q2", "2", s_unit(&a, 1, 1));
    PLACE(m);
    thief.message = m.message;
    struct told t = PLACE(thief, item(&a, "S", "cat", "q3", "3", s_unit(&a, 2, 1)));
    assert_verdict(t.verdicts[0], REASON_MESSAGE_ID_REUSED, REASON_OK, false);
    assert_verdict(t.verdicts[1], REASON_ORDERED, REASON_OK, true);
    assert_int_equal(look(LOOK_RESERVATION, thief.reservation, a.activity, (struct str){0}).reason, REASON_NOT_FOUND);
    assert_int_equal(unit(&a, thief.token.unit).token.generation, 1);
    assert_clean(a.activity);
}

static void poison_leaves_nothing_behind(void **state)
{
    (void)state;
    struct activity a = shop("poison", 5, 5, 1);
    struct create_order good = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), bad = item(&a, "S", "bob", "q2", "2", s_unit(&a, 1, 1));
    bad.user = (struct str){"\xff\xfe", 2};
    assert_int_equal(PLACE(good, bad).reason, REASON_POISON);
    bad.user = words("%0300d", 7);
    assert_int_equal(PLACE(good, bad).reason, REASON_POISON);
    bad.user = (struct str){"a\0b", 3};
    assert_int_equal(PLACE(good, bad).reason, REASON_POISON);
    assert_int_equal(look(LOOK_RESERVATION, good.reservation, a.activity, (struct str){0}).reason, REASON_NOT_FOUND);
    assert_true(unit(&a, good.token.unit).available);
    assert_verdict(PLACE(good).verdicts[0], REASON_ORDERED, REASON_OK, true);
    assert_clean(a.activity);
}

static void a_full_batch_is_taken(void **state)
{
    (void)state;
    struct activity a = shop("full", LEDGER_BATCH_MAX, 1, 1);
    struct create_order items[LEDGER_BATCH_MAX];
    for (int i = 0; i < LEDGER_BATCH_MAX; i++)
        items[i] = item(&a, "S", words("u%d%c", i, 0).ptr, "q", words("%d%c", i, 0).ptr, s_unit(&a, LEDGER_BATCH_MAX - 1 - i, 1));
    for (int turn = 0; turn < 2; turn++) {
        struct told t = place(items, LEDGER_BATCH_MAX);
        assert_int_equal(t.reason, REASON_OK);
        for (int i = 0; i < LEDGER_BATCH_MAX; i++)
            assert_verdict(t.verdicts[i], REASON_ORDERED, REASON_OK, turn == 0);
    }
    assert_clean(a.activity);
}

/* ---- look ---- */

static void a_look_finds_by_each_key_and_never_for_strangers(void **state)
{
    (void)state;
    struct activity a = shop("look", 5, 5, 1);
    struct create_order m = item(&a, "T", "ann", "q1", "1", t_unit(&a, 0, 1));
    struct str order = PLACE(m).verdicts[0].order, none = {0};
    struct looked found[] = {look(LOOK_RESERVATION, m.reservation, none, none), look(LOOK_RESERVATION, m.reservation, a.activity, m.user),
                             look(LOOK_REQUEST, m.request, a.activity, m.user), look(LOOK_ORDER, order, none, m.user), look(LOOK_ORDER, order, none, none)};
    for (size_t i = 0; i < countof(found); i++) {
        const struct ledger_look_answer *l = &found[i].a;
        assert_int_equal(found[i].reason, REASON_OK);
        assert_true(l->decided && l->has_order && !l->parked && l->decided_ms > 0);
        assert_int_equal(l->verdict.outcome, REASON_ORDERED);
        assert_str(l->verdict.order, order);
        assert_str(l->what.reservation, m.reservation);
        assert_str(l->what.message, m.message);
        assert_str(l->order.order, order);
        assert_str(l->order.user, m.user);
        assert_str(l->order.currency, str_lit("EUR"));
        assert_int_equal(l->order.amount, 250);
        assert_int_equal(l->order.state, ORDER_CREATED);
        assert_true(l->order.token.unit == m.token.unit && l->order.token.generation == 1);
        assert_in_range(l->order.pay_deadline_ms - l->order.created_ms, 899000, 901000);
        assert_int_equal(l->what.created_ms, m.created_ms);
    }
    struct str eve = str_lit("eve");
    assert_int_equal(look(LOOK_RESERVATION, m.reservation, a.activity, eve).reason, REASON_NOT_FOUND);
    assert_int_equal(look(LOOK_ORDER, order, none, eve).reason, REASON_NOT_FOUND);
    assert_int_equal(look(LOOK_REQUEST, m.request, a.activity, eve).reason, REASON_NOT_FOUND);
    assert_int_equal(look(LOOK_REQUEST, m.request, str_lit("elsewhere"), m.user).reason, REASON_NOT_FOUND);
    assert_int_equal(look(LOOK_RESERVATION, str_lit("rsv_none"), none, none).reason, REASON_NOT_FOUND);
}

static void keep_decided(struct seen *s, const void *result)
{
    const struct decided_answer *a = result;
    memcpy(s->into, a->decided, a->count * sizeof *a->decided);
}

static void decided_tells_of_each_reservation_in_order(void **state)
{
    (void)state;
    struct activity a = shop("decided", 9, 9, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), gone = item(&a, "S", "bob", "q1", "2", s_unit(&a, 1, 1));
    PLACE(m);
    release(gone, REASON_OVERDUE);
    struct str ids[LEDGER_BATCH_MAX] = {str_lit("rsv_never"), m.reservation, str_lit(""), gone.reservation, m.reservation};
    for (size_t i = 5; i < countof(ids); i++)
        ids[i] = words("rsv_never_%zu", i);
    bool decided[LEDGER_BATCH_MAX];
    memset(decided, 1, sizeof decided);
    struct seen seen = SEEN(.keep = keep_decided, .into = decided);
    ledger_decided(world->ledger, &(struct decided_ask){.reservations = ids, .count = countof(ids)}, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    for (size_t i = 0; i < countof(ids); i++)
        assert_int_equal(decided[i], i == 1 || i == 3 || i == 4);
}

/* ---- queues ---- */

struct grant {
    size_t count;
    int64_t now_ms;
    struct leased leased[16];
};
static void keep_grant(struct seen *s, const void *result)
{
    const struct lease_answer *a = result;
    struct grant *g = s->into;
    g->count = a->count;
    g->now_ms = a->now_ms;
    for (size_t i = 0; i < a->count; i++) {
        g->leased[i] = a->leased[i];
        g->leased[i].identity = words(STR_FMT, STR_ARG(a->leased[i].identity));
    }
}
static const int64_t *caught_up_ms;    /* told with the next leases; NULL: nothing */
static struct grant lease(const char *topic, const char *owner, size_t count)
{
    struct queue queues[16];
    int64_t starts[16];
    for (size_t i = 0; i < count; i++) {
        queues[i] = (struct queue){str_lit("broker"), str_of(topic), (int32_t)i};
        starts[i] = 100 + (int64_t)i;
    }
    struct grant g = {0};
    struct seen seen = SEEN(.keep = keep_grant, .into = &g);
    struct str group = words("group-%s", topic);
    ledger_lease(world->ledger, &(struct lease_ask){.group = group, .owner = str_of(owner), .queues = queues, .starts = starts, .caught_up_ms = caught_up_ms, .count = count}, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return g;
}

static void leases_are_exclusive_and_fair_and_end(void **state)
{
    (void)state;
    struct grant one = lease("fair", "one", 5), two;
    assert_int_equal(one.count, 5);
    assert_int_equal(one.leased[2].next, 102);    /* a queue first seen starts at its start */
    assert_int_equal(one.leased[2].identity.len, 0);
    two = lease("fair", "two", 5);
    assert_int_equal(two.count, 0);               /* all are taken for now */
    one = lease("fair", "one", 5);
    assert_int_equal(one.count, 3);               /* and what is above its share it gives up */
    two = lease("fair", "two", 5);
    assert_int_equal(two.count, 2);
    for (size_t i = 0; i < one.count; i++)
        for (size_t k = 0; k < two.count; k++)
            assert_true(one.leased[i].queue != two.leased[k].queue);
    assert_int_equal(lease("fair", "three", 5).count, 0);
    let_pass(3300);                               /* nobody renews */
    assert_int_equal(lease("fair", "three", 5).count, 5);
}

static struct told place_for(const char *topic, const char *owner, int32_t queue, int64_t from, int64_t to, const char *identity, struct create_order m)
{
    struct queue_prefix prefix = {{str_lit("broker"), str_of(topic), queue}, from, to, str_of(identity)};
    struct told told = {0};
    struct seen seen = SEEN(.keep = told_keep, .into = &told);
    struct place_ask ask = {.group = words("group-%s", topic), .owner = str_of(owner), .prefixes = &prefix, .prefix_count = 1, .items = &m, .count = 1};
    ledger_place(world->ledger, &ask, &seen.waiter);
    told.reason = seen_await(world, &seen);
    return told;
}

static void offsets_move_with_their_verdicts_and_never_skip(void **state)
{
    (void)state;
    struct activity a = shop("offset", 9, 9, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), next = item(&a, "S", "bob", "q1", "2", s_unit(&a, 1, 1));
    assert_int_equal(place_for("offset", "one", 0, 100, 101, "I0", m).reason, REASON_QUEUE_LOST);    /* never leased: not known */
    lease("offset", "one", 2);
    assert_int_equal(place_for("offset", "one", 0, 101, 102, "I1", m).reason, REASON_QUEUE_LOST);
    assert_int_equal(look(LOOK_RESERVATION, m.reservation, a.activity, (struct str){0}).reason, REASON_NOT_FOUND);
    assert_int_equal(place_for("offset", "one", 0, 100, 103, "I2", m).reason, REASON_OK);
    assert_int_equal(place_for("offset", "one", 0, 100, 104, "I3", next).reason, REASON_QUEUE_LOST);
    assert_true(unit(&a, next.token.unit).available);
    struct grant g = lease("offset", "one", 2);
    assert_int_equal(g.leased[0].next, 103);
    assert_str(g.leased[0].identity, str_lit("I2"));
    assert_int_equal(g.leased[1].next, 101);
    /* one queue stands, the other does not: neither moves */
    struct queue_prefix both[] = {{{str_lit("broker"), str_lit("offset"), 1}, 101, 102, str_lit("J")}, {{str_lit("broker"), str_lit("offset"), 0}, 99, 104, str_lit("J")}};
    struct told told = {0};
    struct seen seen = SEEN(.keep = told_keep, .into = &told);
    struct place_ask ask = {.group = str_lit("group-offset"), .owner = str_lit("one"), .prefixes = both, .prefix_count = 2, .items = &next, .count = 1};
    ledger_place(world->ledger, &ask, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_QUEUE_LOST);
    assert_int_equal(lease("offset", "one", 2).leased[1].next, 101);
    both[1].from = 103;
    struct seen more = SEEN(.keep = told_keep, .into = &told);
    ledger_place(world->ledger, &ask, &more.waiter);
    assert_int_equal(seen_await(world, &more), REASON_OK);
    g = lease("offset", "one", 2);
    assert_true(g.leased[0].next == 104 && g.leased[1].next == 102);
}

static void a_batch_renews_its_lease(void **state)
{
    (void)state;
    struct activity a = shop("renew", 9, 9, 1);
    lease("renew", "one", 1);
    let_pass(2000);
    assert_int_equal(place_for("renew", "one", 0, 100, 101, "I", item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1))).reason, REASON_OK);
    let_pass(2000);
    assert_int_equal(lease("renew", "two", 1).count, 0);
    let_pass(1500);
    assert_int_equal(lease("renew", "two", 1).count, 1);
}

/* ---- what may be unread, what is lost ---- */

static void keep_backlog(struct seen *s, const void *result) { *(struct backlog_answer *)s->into = *(const struct backlog_answer *)result; }
static struct backlog_answer backlog(const char *topic, struct str activity)
{
    struct backlog_answer a = {0};
    struct seen seen = SEEN(.keep = keep_backlog, .into = &a);
    ledger_backlog(world->ledger, &(struct backlog_ask){.group = words("group-%s", topic), .activity = activity}, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return a;
}

/* Tells that both queues of the topic were read at these moments, from now on. */
static void tell_caught_up(const char *topic, int64_t first_ms, int64_t second_ms)
{
    caught_up_ms = NULL;
    int64_t now_ms = lease(topic, "one", 2).now_ms, told[2] = {now_ms + first_ms, now_ms + second_ms};
    assert_true(now_ms > 0);
    caught_up_ms = told;
    lease(topic, "one", 2);
    caught_up_ms = NULL;
}

struct healed {
    enum reason reason;
    struct heal_answer a;
};
static struct healed heal(const struct activity *a, uint8_t bucket, const char *mark, size_t limit);

static void messages_are_unread_until_every_queue_was_read_after_the_recovery(void **state)
{
    (void)state;
    struct activity a = shop("unread", 2, 1, 1), other = shop("unread2", 2, 1, 1);
    assert_true(backlog("unread", a.activity).read_ms == -1 && !backlog("unread", a.activity).unread);    /* never recovered */
    assert_int_equal(heal(&a, 0, "life-9/1", 10).reason, REASON_OK);
    assert_true(backlog("unread", a.activity).unread);                 /* of no queue is it known how far it is read */
    lease("unread", "one", 2);
    assert_true(backlog("unread", a.activity).read_ms == -1 && backlog("unread", a.activity).unread);
    tell_caught_up("unread", -5000, -9000);
    assert_in_range(backlog("unread", a.activity).read_ms, 9000, 14000);    /* the one that is furthest behind */
    tell_caught_up("unread", 0, BACKLOG_SETTLES_MS + 5000);
    assert_true(backlog("unread", a.activity).unread);                 /* one queue is behind the recovery */
    tell_caught_up("unread", BACKLOG_SETTLES_MS + 5000, -20000);
    assert_false(backlog("unread", a.activity).unread);                /* an older report takes nothing back */
    assert_int_equal(backlog("unread", a.activity).read_ms, 0);
    assert_false(backlog("unread", other.activity).unread);
    assert_int_equal(heal(&a, 0, "life-9/1", 10).reason, REASON_OK);
    assert_false(backlog("unread", a.activity).unread);                /* the same recovery goes on */
    assert_true(backlog("unread-by-nobody", a.activity).unread);
}

static enum reason release_lost(const char *topic, const struct activity *a, const char *user, struct str reservation, uint32_t after_ms)
{
    struct seen seen = SEEN(.into = NULL);
    struct release_lost_ask ask = {.group = words("group-%s", topic), .reservation = reservation, .activity = a->activity, .sku = a->skus[0].sku, .user = str_of(user),
                                   .epoch = 1, .created_ms = 1700000000000, .after_ms = after_ms};
    ledger_release_lost(world->ledger, &ask, &seen.waiter);
    return seen_await(world, &seen);
}

static void lost_reservation_is_released_by_the_clock_of_the_ledger(void **state)
{
    (void)state;
    struct activity a = shop("lostone", 9, 1, 1);
    struct create_order gone = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), sold = item(&a, "S", "bob", "q1", "2", s_unit(&a, 1, 1));
    lease("lost", "one", 2);
    assert_int_equal(release_lost("lost", &a, "ann", gone.reservation, 0), REASON_UNCHANGED);      /* first asked for now */
    assert_int_equal(release_lost("lost", &a, "ann", gone.reservation, 0), REASON_UNCHANGED);      /* a message of it may be unread */
    tell_caught_up("lost", 3000, -3000);
    assert_int_equal(release_lost("lost", &a, "ann", gone.reservation, 0), REASON_UNCHANGED);      /* in that queue */
    tell_caught_up("lost", 3000, 3000);
    assert_int_equal(release_lost("lost", &a, "ann", gone.reservation, 60000), REASON_UNCHANGED);  /* not long enough, however old its id says it is */
    let_pass(300);
    assert_int_equal(release_lost("lost", &a, "ann", gone.reservation, 200), REASON_OK);
    assert_verdict(PLACE(gone).verdicts[0], REASON_RELEASED, REASON_LOST, false);                  /* its message, however late */
    assert_int_equal(release_lost("lost", &a, "ann", gone.reservation, 200), REASON_OK);
    assert_verdict(PLACE(sold).verdicts[0], REASON_ORDERED, REASON_OK, true);
    assert_int_equal(release_lost("lost", &a, "bob", sold.reservation, 0), REASON_OK);             /* a verdict that stands */
    assert_verdict(PLACE(sold).verdicts[0], REASON_ORDERED, REASON_OK, false);
    assert_clean(a.activity);
}

/* Ids that pass the check by chance: a user has LOST_MOST of them decided in an activity, and no other user less for it. */
static void lost_reservations_of_a_user_are_bounded(void **state)
{
    (void)state;
    struct activity a = shop("lostmany", 9, 1, 1);
    size_t decided = 0;
    lease("lostmany", "one", 2);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 3 * LOST_MOST; i++) {
            decided += release_lost("lostmany", &a, "eve", words("rsv_forged_%d", i), 0) == REASON_OK && round == 1;
            if (round == 0 && i == 3 * LOST_MOST - 1)
                tell_caught_up("lostmany", 60000, 60000);
        }
    assert_int_equal(decided, LOST_MOST);
    for (int i = 0; i < 3 * LOST_MOST; i++)
        assert_int_equal(look(LOOK_RESERVATION, words("rsv_forged_%d", i), (struct str){0}, (struct str){0}).reason, i < LOST_MOST ? REASON_OK : REASON_NOT_FOUND);
    assert_int_equal(release_lost("lostmany", &a, "ann", str_lit("rsv_of_ann"), 0), REASON_UNCHANGED);
    assert_int_equal(release_lost("lostmany", &a, "ann", str_lit("rsv_of_ann"), 0), REASON_OK);
}

/* ---- outbox ---- */

static void an_order_is_told_to_store_and_world(void **state)
{
    (void)state;
    finish_all();
    struct activity a = shop("outbox", 9, 9, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    PLACE(m);
    struct claimed c = claim(2000);
    assert_int_equal(c.count, 2);
    const struct outbox_row *status = row_of(&c, OUTBOX_STATUS, m.reservation, 0), *event = row_of(&c, OUTBOX_EVENT, m.reservation, 0);
    assert_true(status && event);
    assert_int_equal(status->state, RESERVATION_ORDERED);
    assert_str(status->user, m.user);
    assert_str(status->sku, m.sku);
    assert_str(status->request, m.request);
    assert_str(status->activity, a.activity);
    assert_true(status->token.unit == m.token.unit && status->token.generation == 1);
    assert_true(status->activity_number == a.number && status->epoch == 1 && status->buckets == 1 && !status->rebuilding);
    assert_true(event->body.len > 0);
    assert_str(event->topic_key, words("ord_outbox_1"));

    assert_int_equal(claim(2000).count, 0);                                   /* held */
    let_pass(2100);
    struct claimed older = claim(60000);
    assert_int_equal(older.count, 2);                                         /* the hold has ended: again */
    assert_true(status->age_ms >= 0 && older.rows[0].age_ms >= status->age_ms + 500 && older.rows[1].age_ms >= event->age_ms + 500);
    finish(&(struct finish_item){status->row, status->version + 1}, 1);       /* another version: stays */
    PLACE(m);                                                                 /* told again: renewed, and free at once */
    struct claimed renewed = claim(60000);
    assert_int_equal(renewed.count, 1);
    assert_int_equal(renewed.rows[0].row, status->row);
    assert_true(renewed.rows[0].version > status->version);
    finish(&(struct finish_item){status->row, status->version}, 1);           /* the old version does not take away the new telling */
    let_pass(100);
    PLACE(m);
    struct claimed once_more = claim(60000);
    assert_int_equal(once_more.count, 1);
    finish((struct finish_item[]){{once_more.rows[0].row, once_more.rows[0].version}, {event->row, event->version}}, 2);
    assert_true(!unit(&a, m.token.unit).returning);
    struct audited found = audit(a.activity);
    assert_int_equal(found.a.outbox, 0);
}

/* Whether `c` tells of each of these orders once: its status, and its event. */
static bool tells_all(const struct claimed *c, const struct create_order *orders, size_t n)
{
    bool all = c->count == 2 * n;
    for (size_t i = 0; all && i < n; i++) {
        const struct outbox_row *status = row_of(c, OUTBOX_STATUS, orders[i].reservation, 0), *event = row_of(c, OUTBOX_EVENT, orders[i].reservation, 0);
        all = status && event && status->state == RESERVATION_ORDERED && str_eq(status->user, orders[i].user) && str_eq(status->sku, orders[i].sku) &&
              str_eq(status->request, orders[i].request) && status->token.unit == orders[i].token.unit && status->epoch == 1 && event->body.len > 0;
    }
    for (size_t i = 1; all && i < c->count; i++)    /* what shares a row stands side by side */
        for (size_t j = 0; all && j + 1 < i; j++)
            all = c->rows[i].row != c->rows[j].row || c->rows[i].row == c->rows[i - 1].row;
    return all;
}

static void finish_claimed(const struct claimed *c)
{
    struct finish_item items[LEDGER_BATCH_MAX];
    for (size_t i = 0; i < c->count; i++)
        items[i] = (struct finish_item){c->rows[i].row, c->rows[i].version};
    finish(items, c->count);
}

#define MANY 100
static void many_orders_are_told_each(void **state)
{
    (void)state;
    finish_all();
    struct activity a = shop("many", MANY + 40, 9, 1);
    static struct create_order orders[MANY];
    for (size_t i = 0; i < MANY; i++)
        orders[i] = item(&a, "S", words("many%zu%c", i, 0).ptr, "q", words("many%zu%c", i, 0).ptr, s_unit(&a, (int)i, 1));
    place(orders, MANY);
    assert_int_equal(audit(a.activity).a.outbox, 2 * MANY);
    assert_true(unit(&a, orders[0].token.unit).returning && unit(&a, orders[MANY - 1].token.unit).returning);
    struct claimed c = claim(3000);
    assert_true(tells_all(&c, orders, MANY));
    assert_int_equal(claim(3000).count, 0);                                  /* held */
    PLACE(orders[7]);                                                        /* told again beside what stands */
    struct claimed renewed = claim(60000);
    assert_true(renewed.count == 1 && renewed.rows[0].kind == OUTBOX_STATUS);
    finish_claimed(&renewed);
    let_pass(3100);                                                          /* the hold has ended: again, and one by one what is finished is finished */
    size_t told = 0;
    for (struct claimed more; (more = claim(60000)).count > 0; told += more.count)
        finish_claimed(&more);
    assert_true(told >= 2 * MANY - 2 && told <= 2 * MANY);
    assert_int_equal(audit(a.activity).a.outbox, 0);
    assert_false(unit(&a, orders[0].token.unit).returning);
    assert_clean(a.activity);
}

/* Whom the oldest rows are for may be away for long: what was tried in vain does not stand before all that is younger. */
static void what_cannot_be_delivered_holds_up_nobody_else(void **state)
{
    (void)state;
    finish_all();
    struct activity a = shop("heldup", 9, 9, 1);
    for (int i = 0; i < 3; i++)
        release(item(&a, "S", words("u%d", i).ptr, "q", words("%d", i).ptr, s_unit(&a, i, 1)), REASON_OVERDUE);    /* STATUS, RETURN, EVENT each */
    struct claimed first = claim_of(4, 100);
    assert_int_equal(first.count, 4);
    let_pass(150);
    struct claimed second = claim_of(4, 60000);
    assert_int_equal(second.count, 4);
    size_t again = 0;
    for (size_t i = 0; i < second.count; i++)
        for (size_t j = 0; j < first.count; j++)
            again += second.rows[i].row == first.rows[j].row;
    assert_int_equal(again, 2);
    struct claimed third = claim_of(4, 60000), fourth = claim_of(4, 60000);    /* some were tried, some not: the oldest, as ever */
    assert_true(third.count == 4 && fourth.count == 1);
    finish_claimed(&second);
    finish_claimed(&third);
    finish_claimed(&fourth);
    assert_int_equal(audit(a.activity).a.outbox, 0);
}

static void a_return_goes_home_and_a_stale_one_is_known(void **state)
{
    (void)state;
    finish_all();
    struct activity a = shop("return", 9, 9, 4);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 2, 1));
    uint8_t home = unit(&a, m.token.unit).home;
    release(m, REASON_OVERDUE);
    struct claimed c = claim(200);
    const struct outbox_row *back = row_of(&c, OUTBOX_RETURN, (struct str){0}, m.token.unit), *status = row_of(&c, OUTBOX_STATUS, m.reservation, 0);
    assert_true(back && status);
    assert_true(back->token.generation == 2 && !back->stale && back->home == home && back->buckets == 4);
    assert_str(back->sku, str_lit("S"));
    assert_true(status->state == RESERVATION_RELEASED && status->why == REASON_OVERDUE);
    assert_true(unit(&a, m.token.unit).returning);
    release(item(&a, "S", "bob", "q1", "2", s_unit(&a, 2, 2)), REASON_OVERDUE);    /* it leaves again before it was delivered */
    let_pass(300);
    c = claim(60000);
    size_t stale = 0, present = 0;
    for (size_t i = 0; i < c.count; i++)
        if (c.rows[i].kind == OUTBOX_RETURN) {
            stale += c.rows[i].stale && c.rows[i].token.generation == 2;
            present += !c.rows[i].stale && c.rows[i].token.generation == 3;
        }
    assert_true(stale == 1 && present == 1);
    struct finish_item items[LEDGER_BATCH_MAX];
    for (size_t i = 0; i < c.count; i++)
        items[i] = (struct finish_item){c.rows[i].row, c.rows[i].version};
    finish(items, c.count);
    assert_false(unit(&a, m.token.unit).returning);
    release(item(&a, "S", "bob", "q1", "2", s_unit(&a, 2, 2)), REASON_OVERDUE);    /* asked again: told again, unit and all */
    c = claim(60000);
    back = row_of(&c, OUTBOX_RETURN, (struct str){0}, m.token.unit);
    assert_true(back && back->token.generation == 3 && !back->stale);
    release(m, REASON_OVERDUE);                                                    /* its unit has moved on: only the status */
    c = claim(60000);
    assert_true(row_of(&c, OUTBOX_STATUS, m.reservation, 0) && !row_of(&c, OUTBOX_RETURN, (struct str){0}, m.token.unit));
    finish_all();
}

/* ---- healing --------------------------------------------------------------------------------------------------------------- */

/* rsv_X of a reservation made in that epoch and bucket (protocol §1): bits 54 to 63 of its name say so. */
static struct str made_in(uint8_t epoch, uint8_t bucket, uint8_t n)
{
    uint8_t id[16] = {0x01, 0x93, 0, 0, 0, 0, (uint8_t)(epoch >> 3), (uint8_t)(epoch << 5 | bucket)};
    unsigned __int128 bits = 0;
    char text[30];
    id[15] = n;
    for (size_t i = 0; i < sizeof id; i++)
        bits = bits << 8 | id[i];
    memcpy(text, "rsv_", 4);
    for (size_t i = sizeof text; i-- > 4; bits >>= 5)
        text[i] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[(unsigned)bits & 31];
    return words("%.*s", (int)sizeof text, text);
}

static struct create_order item_in(const struct activity *a, uint8_t epoch, uint8_t bucket, const char *user, uint8_t n, struct token token)
{
    struct create_order m = item(a, "S", user, "q1", user, token);
    m.reservation = made_in(epoch, bucket, n);
    return m;
}

static void keep_healed(struct seen *s, const void *result) { ((struct healed *)s->into)->a = *(const struct heal_answer *)result; }
static struct healed heal(const struct activity *a, uint8_t bucket, const char *mark, size_t limit)
{
    struct healed h = {0};
    struct seen seen = SEEN(.keep = keep_healed, .into = &h);
    struct heal_ask ask = {.bucket = {a->activity, a->epoch, bucket}, .mark = str_of(mark), .incarnation = str_lit("life-2"), .limit = limit};
    ledger_heal(world->ledger, &ask, &seen.waiter);
    h.reason = seen_await(world, &seen);
    return h;
}
static struct healed heal_on(const struct activity *a, uint8_t bucket, const char *mark, size_t limit)
{
    struct healed h;
    unsigned calls = 0;
    do {
        h = heal(a, bucket, mark, limit);
        assert_int_equal(h.reason, REASON_OK);
        assert_true(++calls < 10000 && !(h.a.more && h.a.healed));
    } while (h.a.more);
    return h;
}

static enum reason record(const struct activity *a, uint8_t epoch, uint8_t bucket, const char *incarnation)
{
    struct seen seen = SEEN(.into = NULL);
    ledger_record(world->ledger, &(struct record_ask){{a->activity, epoch, bucket}, str_of(incarnation)}, &seen.waiter);
    return seen_await(world, &seen);
}

struct lives {
    struct str activity;
    size_t buckets;
    char of[4][INCARNATION_TEXT + 1];
};
static void keep_lives(struct seen *s, const void *result)
{
    const struct activities_answer *all = result;
    struct lives *l = s->into;
    for (size_t i = 0; i < all->count; i++) {
        const struct activity *a = &all->activities[i];
        if (!str_eq(a->activity, l->activity))
            continue;
        l->buckets = a->buckets;
        assert_non_null(a->incarnations);
        for (uint8_t b = 0; b < a->buckets && b < countof(l->of); b++)
            if (a->incarnations[b].len > 0)
                memcpy(l->of[b], a->incarnations[b].ptr, a->incarnations[b].len);
    }
}
static struct lives lives(const struct activity *a)
{
    struct lives l = {.activity = a->activity};
    struct seen seen = SEEN(.keep = keep_lives, .into = &l);
    ledger_activities(world->ledger, &(struct activities_ask){.live = true}, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return l;
}

static void the_first_life_is_recorded_while_warm(void **state)
{
    (void)state;
    struct stand stand;
    struct activity a = shop("recorded", 2, 2, 3), none = {.activity = str_lit("no-such")};
    assert_string_equal(lives(&a).of[1], "");
    assert_int_equal(record(&a, 1, 1, "life-1"), REASON_CONFLICT);
    assert_int_equal(move(a.activity, ACTIVITY_EVENT_WARM, &stand), REASON_OK);
    assert_int_equal(record(&a, 1, 1, "life-1"), REASON_OK);
    assert_int_equal(record(&a, 2, 1, "life-1"), REASON_STALE_EPOCH);
    assert_int_equal(record(&a, 1, 3, "life-1"), REASON_STALE_EPOCH);
    assert_int_equal(record(&none, 1, 0, "life-1"), REASON_UNKNOWN_ACTIVITY);
    struct lives l = lives(&a);
    assert_true(l.buckets == 3 && l.of[0][0] == 0 && l.of[2][0] == 0);
    assert_string_equal(l.of[1], "life-1");
    assert_int_equal(record(&a, 1, 1, "life-1b"), REASON_OK);    /* warmed again in another life */
    assert_int_equal(move(a.activity, ACTIVITY_EVENT_OPEN, &stand), REASON_OK);
    assert_int_equal(record(&a, 1, 1, "life-9"), REASON_CONFLICT);
    assert_string_equal(lives(&a).of[1], "life-1b");
}

/* All verdicts on what was made there, all units at home there: and nothing of another bucket. */
static void a_bucket_is_told_all_it_must_hold(void **state)
{
    (void)state;
    finish_all();
    struct activity a = shop("heal", 8, 3, 2);
    struct create_order here = item_in(&a, 1, 0, "ann", 1, s_unit(&a, 0, 1)), there = item_in(&a, 1, 1, "bob", 2, s_unit(&a, 1, 1)),
                        old = item_in(&a, 9, 1, "cat", 3, s_unit(&a, 2, 1)), strange = item(&a, "S", "dan", "q1", "4", s_unit(&a, 3, 1)),
                        gone = item_in(&a, 1, 0, "eve", 5, s_unit(&a, 4, 1)), gone_there = item_in(&a, 1, 1, "fay", 6, s_unit(&a, 5, 1));
    PLACE(here, there, old, strange);
    release(gone, REASON_OVERDUE);
    release(gone_there, REASON_OVERDUE);
    finish_all();
    struct healed h = heal_on(&a, 0, "life-2/1", 2);
    struct listed at_home = units(&a, 0, 0, true, 256);
    assert_int_equal(h.a.told, 4 + at_home.count);
    assert_int_equal(h.a.waiting, h.a.told);
    assert_false(h.a.healed);
    struct claimed c = claim(60000);
    assert_int_equal(c.count, h.a.told);
    assert_true(row_of(&c, OUTBOX_STATUS, here.reservation, 0) && row_of(&c, OUTBOX_STATUS, old.reservation, 0) &&
                row_of(&c, OUTBOX_STATUS, strange.reservation, 0) && row_of(&c, OUTBOX_STATUS, gone.reservation, 0));
    assert_true(!row_of(&c, OUTBOX_STATUS, there.reservation, 0) && !row_of(&c, OUTBOX_STATUS, gone_there.reservation, 0));
    for (size_t i = 0; i < at_home.count; i++) {
        const struct outbox_row *r = row_of(&c, OUTBOX_RETURN, (struct str){0}, at_home.units[i].token.unit);
        assert_true(r && !r->stale && r->home == 0 && r->token.generation == at_home.units[i].token.generation);
    }
    assert_false(heal_on(&a, 0, "life-2/1", 100).a.healed);
    assert_string_equal(lives(&a).of[0], "");
    finish_claimed(&c);
    h = heal_on(&a, 0, "life-2/1", 100);
    assert_true(h.a.healed && h.a.waiting == 0);
    struct lives l = lives(&a);
    assert_string_equal(l.of[0], "life-2");
    assert_string_equal(l.of[1], "");
    assert_true(heal(&a, 0, "life-2/1", 100).a.healed);    /* whoever comes too late may open it all the same */
    assert_int_equal(audit(a.activity).a.outbox, 0);
    assert_clean(a.activity);
}

/* What stood there is told anew: whoever carries the old telling does not end it. A claim that nobody ends is not waited for. */
static void a_healing_waits_for_what_it_told(void **state)
{
    (void)state;
    finish_all();
    struct activity a = shop("heal_waits", 2, 1, 1);
    struct create_order m = item_in(&a, 1, 0, "ann", 11, s_unit(&a, 0, 1));
    PLACE(m);
    struct claimed before = claim(60000);
    assert_true(heal_on(&a, 0, "life-2/1", 100).a.waiting > 0);
    finish_claimed(&before);    /* it was told to the store that has forgotten */
    assert_false(heal_on(&a, 0, "life-2/1", 100).a.healed);
    struct claimed again = claim(10000);
    assert_non_null(row_of(&again, OUTBOX_STATUS, m.reservation, 0));
    assert_int_equal(claim(10000).count, 0);
    let_pass(1800);             /* whoever has claimed it is dead */
    assert_false(heal_on(&a, 0, "life-2/1", 100).a.healed);
    struct claimed third = claim(10000);
    assert_int_equal(third.count, again.count);
    finish_claimed(&third);
    assert_true(heal_on(&a, 0, "life-2/1", 100).a.healed);
    assert_clean(a.activity);
}

static void another_closing_is_healed_anew(void **state)
{
    (void)state;
    finish_all();
    struct activity a = shop("heal_anew", 4, 1, 1), none = {.activity = str_lit("no-such"), .epoch = 1}, later = a;
    PLACE(item_in(&a, 1, 0, "ann", 21, s_unit(&a, 0, 1)));
    finish_all();
    assert_int_equal(heal_on(&a, 0, "life-2/1", 100).a.told, 5);
    finish_all();
    struct healed next = heal_on(&a, 0, "life-2/2", 100);    /* before anybody saw that the first was healed */
    assert_true(next.a.told == 5 && !next.a.healed);
    assert_false(heal_on(&a, 0, "life-2/1", 100).a.healed);
    finish_all();
    assert_true(heal_on(&a, 0, "life-2/1", 100).a.healed);
    finish_all();
    later.epoch = 2;
    assert_int_equal(heal(&none, 0, "m/1", 10).reason, REASON_UNKNOWN_ACTIVITY);
    assert_int_equal(heal(&later, 0, "m/1", 10).reason, REASON_STALE_EPOCH);
    assert_int_equal(heal(&a, 1, "m/1", 10).reason, REASON_STALE_EPOCH);
    assert_clean(a.activity);
}

/* Delivers what is told, as far as it is of this activity, and remembers which units and how many statuses that were. */
static size_t deliver(const struct activity *a, bool returned[], size_t *statuses)
{
    size_t delivered = 0;
    for (struct claimed c = claim(60000); c.count > 0; c = claim(60000)) {
        for (size_t i = 0; i < c.count; i++) {
            const struct outbox_row *r = &c.rows[i];
            delivered++;
            *statuses += r->kind == OUTBOX_STATUS;
            if (r->kind == OUTBOX_RETURN) {
                assert_true(!r->stale && r->token.generation == 1);
                returned[r->token.unit - a->skus[0].unit_first] = true;
            }
        }
        finish_claimed(&c);
    }
    return delivered;
}

/* Many things share rows of the outbox, and buckets that recover together share one walk over the sale: each is told all of its own. */
static void buckets_that_recover_together_are_told_everything(void **state)
{
    (void)state;
    enum { UNITS = 700, ORDERS = 40, BUCKETS = 4 };
    static bool returned[UNITS + 1];
    struct create_order orders[ORDERS];
    bool healed[BUCKETS] = {false};
    size_t statuses = 0, delivered = 0, calls = 0;
    finish_all();
    struct activity a = shop("together", UNITS, 1, BUCKETS);
    for (uint8_t i = 0; i < ORDERS; i++)
        orders[i] = item_in(&a, 1, i % BUCKETS, words("u%u%c", i, 0).ptr, (uint8_t)(100 + i), s_unit(&a, i, 1));
    assert_int_equal(place(orders, ORDERS).reason, REASON_OK);
    finish_all();
    for (uint8_t open = BUCKETS; open > 0;)
        for (uint8_t b = 0; b < BUCKETS; b++) {
            if (healed[b])
                continue;
            struct healed h = heal(&a, b, "life-2/1", 50);
            assert_int_equal(h.reason, REASON_OK);
            assert_true(++calls < 500);
            if (!h.a.more && !h.a.healed)
                delivered += deliver(&a, returned, &statuses);
            healed[b] = h.a.healed;
            open = (uint8_t)(open - h.a.healed);
        }
    for (size_t i = 0; i < UNITS; i++)
        if (returned[i] == (i < ORDERS))
            fail_msg("unit %zu %s", i, returned[i] ? "is sold, and came back" : "was never told");
    assert_int_equal(statuses, ORDERS);
    assert_int_equal(delivered, ORDERS + UNITS - ORDERS + 1);    /* each once, and the unit of T */
    assert_clean(a.activity);
}

/* A row of many that its receiver could not take falls apart: what can be delivered is, and who waits for all of it waits for the rest alone. */
static void what_was_told_together_is_delivered_one_by_one_where_it_must(void **state)
{
    (void)state;
    enum { UNITS = 60 };
    static bool returned[UNITS + 1];
    size_t statuses = 0;
    finish_all();
    struct activity a = shop("apart", UNITS, 1, 1);
    heal_on(&a, 0, "life-2/1", 100);
    size_t first = claim(1).count;    /* and its relay dies */
    assert_int_equal(first, UNITS + 1);
    let_pass(50);
    struct claimed again = claim(10000);
    assert_int_equal(again.count, UNITS + 1);
    struct claimed most = again;
    most.count = UNITS;
    finish_claimed(&most);            /* the last of them cannot be delivered */
    assert_false(heal_on(&a, 0, "life-2/1", 100).a.healed);
    let_pass(1800);
    heal_on(&a, 0, "life-2/1", 100);
    assert_int_equal(deliver(&a, returned, &statuses), 1);
    assert_true(heal_on(&a, 0, "life-2/1", 100).a.healed);
    assert_clean(a.activity);
}

static void repaired_keep(struct seen *s, const void *result)
{
    const struct repair_answer *a = result;
    assert_true(a->count <= 8);
    memcpy(s->into, a->verdicts, a->count * sizeof *a->verdicts);
}

static enum reason repair_one(const struct activity *a, struct token token, bool missing)
{
    enum reason verdicts[8] = {0};
    struct seen seen = SEEN(.keep = repaired_keep, .into = verdicts);
    ledger_repair(world->ledger, &(struct repair_ask){.activity = a->activity, .items = &(struct repair_item){token, missing}, .count = 1}, &seen.waiter);
    assert_int_equal(seen_await(world, &seen), REASON_OK);
    return verdicts[0];
}

static void a_unit_that_nobody_claims_comes_back_once(void **state)
{
    (void)state;
    finish_all();
    struct activity a = shop("repair", 9, 9, 1), other = shop("repair_other", 9, 9, 1);
    struct create_order sold = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    PLACE(sold);
    finish_all();
    assert_int_equal(repair_one(&a, s_unit(&a, 1, 1), true), REASON_OK);
    assert_int_equal(unit(&a, s_unit(&a, 1, 1).unit).token.generation, 2);
    assert_true(unit(&a, s_unit(&a, 1, 1).unit).returning);
    assert_int_equal(repair_one(&a, s_unit(&a, 1, 1), true), REASON_UNCHANGED);      /* looked at a generation that is over */
    assert_int_equal(repair_one(&a, s_unit(&a, 1, 2), true), REASON_UNCHANGED);      /* on its way already */
    assert_int_equal(repair_one(&a, sold.token, true), REASON_UNCHANGED);            /* somebody has it */
    assert_int_equal(repair_one(&other, s_unit(&a, 2, 1), true), REASON_UNCHANGED);  /* another activity's */
    assert_int_equal(repair_one(&a, (struct token){INT64_MAX, 1}, true), REASON_UNCHANGED);
    struct claimed c = claim(60000);
    const struct outbox_row *back = row_of(&c, OUTBOX_RETURN, (struct str){0}, s_unit(&a, 1, 1).unit);
    assert_true(c.count == 1 && back && back->token.generation == 2 && !back->stale);
    finish_all();
    struct told late = PLACE(item(&a, "S", "bob", "q2", "2", s_unit(&a, 1, 1)));      /* the message that named it after all */
    assert_true(late.verdicts[0].outcome == REASON_RELEASED && late.verdicts[0].why == REASON_STALE_GENERATION);
    finish_all();
    assert_clean(a.activity);
}

static void a_copy_that_should_not_be_is_told_what_stands(void **state)
{
    (void)state;
    finish_all();
    struct activity a = shop("recopy", 9, 9, 1);
    struct create_order sold = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    PLACE(sold);
    finish_all();
    assert_int_equal(repair_one(&a, sold.token, false), REASON_OK);
    assert_int_equal(repair_one(&a, s_unit(&a, 1, 1), false), REASON_OK);
    assert_int_equal(repair_one(&a, s_unit(&a, 1, 1), false), REASON_OK);
    struct claimed c = claim(60000);
    const struct outbox_row *status = row_of(&c, OUTBOX_STATUS, sold.reservation, 0), *back = row_of(&c, OUTBOX_RETURN, (struct str){0}, s_unit(&a, 1, 1).unit);
    assert_true(c.count == 2 && status && status->state == RESERVATION_ORDERED && status->token.unit == sold.token.unit);
    assert_true(back && back->token.generation == 1 && !back->stale);
    finish_all();
    assert_int_equal(unit(&a, s_unit(&a, 1, 1).unit).token.generation, 1);
    assert_clean(a.activity);
}

static void a_duplicate_is_told_what_stands_instead(void **state)
{
    (void)state;
    struct activity a = shop("instead", 9, 9, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1)), twin = item(&a, "S", "ann", "q2", "2", s_unit(&a, 1, 1));
    PLACE(m);
    finish_all();
    PLACE(twin);
    struct claimed c = claim(60000);
    const struct outbox_row *status = row_of(&c, OUTBOX_STATUS, twin.reservation, 0);
    assert_true(status != NULL);
    assert_true(status->state == RESERVATION_RELEASED && status->why == REASON_DUPLICATE_USER);
    assert_str(status->superseded_by, m.reservation);
    assert_str(status->superseded_request, m.request);
    assert_str(status->superseded_sku, m.sku);
    assert_true(row_of(&c, OUTBOX_RETURN, (struct str){0}, twin.token.unit) != NULL);
    finish_all();
}

/* ---- park ---- */

static enum reason park(const char *topic, const struct queue_prefix *prefix, struct str body, const struct create_order *what, enum reason why)
{
    struct seen seen = SEEN(.into = NULL);
    struct park_ask ask = {.group = words("group-%s", topic), .owner = str_lit("one"), .prefix = prefix, .body = body, .key = str_lit("the-key"), .what = what, .why = why};
    ledger_park(world->ledger, &ask, &seen.waiter);
    return seen_await(world, &seen);
}

static void what_cannot_be_taken_goes_to_a_person(void **state)
{
    (void)state;
    finish_all();
    struct activity a = shop("park", 9, 9, 1);
    struct create_order m = item(&a, "S", "ann", "q1", "1", s_unit(&a, 0, 1));
    lease("park", "one", 1);
    struct queue_prefix at = {{str_lit("broker"), str_lit("park"), 0}, 100, 101, str_lit("P")};
    struct str body = {"\0\xff not json", 11};
    assert_int_equal(park("park", &at, body, NULL, REASON_MESSAGE_UNREADABLE), REASON_OK);
    assert_int_equal(park("park", &at, body, NULL, REASON_MESSAGE_UNREADABLE), REASON_QUEUE_LOST);
    assert_int_equal(lease("park", "one", 1).leased[0].next, 101);
    struct claimed c = claim(60000);
    assert_int_equal(c.count, 1);
    assert_int_equal(c.rows[0].kind, OUTBOX_DEAD_LETTER);
    assert_true(c.rows[0].body.len > 0);

    assert_int_equal(park("park", NULL, str_lit("{}"), &m, REASON_POISON), REASON_OK);
    assert_int_equal(park("park", NULL, str_lit("{}"), &m, REASON_POISON), REASON_OK);    /* twice is once */
    c = claim(60000);
    assert_int_equal(c.count, 2);
    const struct outbox_row *status = row_of(&c, OUTBOX_STATUS, m.reservation, 0);
    assert_true(status && status->state == RESERVATION_MANUAL_REVIEW);
    assert_str(status->user, m.user);
    struct looked l = look(LOOK_RESERVATION, m.reservation, a.activity, m.user);
    assert_int_equal(l.reason, REASON_OK);
    assert_true(l.a.parked && !l.a.decided && !l.a.has_order);
    l = look(LOOK_REQUEST, m.request, a.activity, m.user);
    assert_true(l.reason == REASON_OK && l.a.parked);
    assert_int_equal(look(LOOK_RESERVATION, m.reservation, a.activity, str_lit("eve")).reason, REASON_NOT_FOUND);

    assert_verdict(PLACE(m).verdicts[0], REASON_ORDERED, REASON_OK, true);    /* still decidable */
    c = claim(60000);
    status = row_of(&c, OUTBOX_STATUS, m.reservation, 0);
    assert_true(status && status->state == RESERVATION_ORDERED);
    finish_all();
    assert_clean(a.activity);
}

/* ---- many at once ---- */

#define CROWD 12
/* The same unit, request and reservation wanted by many calls in flight at once: exactly one order. */
static void calls_in_flight_collide_safely(void **state)
{
    (void)state;
    struct activity a = shop("crowd", 4, 4, 1);
    static struct told told[CROWD];
    static struct seen seen[CROWD];
    for (int i = 0; i < CROWD; i++) {
        struct create_order items[] = {item(&a, "S", "ann", "q1", "same", s_unit(&a, 0, 1)),
                                       item(&a, "S", words("u%d%c", i, 0).ptr, "q", words("unit%d%c", i, 0).ptr, s_unit(&a, 1, 1)),
                                       item(&a, "T", "bob", "q", words("user%d%c", i, 0).ptr, t_unit(&a, i % 4, 1))};
        seen[i] = SEEN(.keep = told_keep, .into = &told[i]);
        ledger_place(world->ledger, &(struct place_ask){.group = str_lit("contract"), .owner = str_lit("x"), .items = items, .count = 3}, &seen[i].waiter);
    }
    int fresh_same = 0, ordered_unit = 0, ordered_user = 0;
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(seen_await(world, &seen[i]), REASON_OK);
        assert_int_equal(told[i].verdicts[0].outcome, REASON_ORDERED);
        fresh_same += told[i].verdicts[0].fresh;
        ordered_unit += told[i].verdicts[1].outcome == REASON_ORDERED;
        ordered_user += told[i].verdicts[2].outcome == REASON_ORDERED;
    }
    assert_int_equal(fresh_same, 1);
    assert_int_equal(ordered_unit, 1);
    assert_int_equal(ordered_user, 1);
    assert_clean(a.activity);
}

/* Random batches over few units, users and requests: no verdict ever turns, and the books are clean at the end. */
static void random_batches_keep_every_rule(void **state)
{
    (void)state;
    enum { STOCK = 12, RESERVATIONS = 400, ROUNDS = 250 };
    struct activity a = shop("random", STOCK, STOCK, 2);
    static struct create_order reservations[RESERVATIONS];
    static struct verdict known[RESERVATIONS];
    uint64_t x = 0x9e3779b97f4a7c15;
#define CHANCE(n) (x ^= x << 13, x ^= x >> 7, x ^= x << 17, (int64_t)(x % (uint64_t)(n)))
    for (int i = 0; i < RESERVATIONS; i++) {
        bool s = CHANCE(2);
        int64_t nth = CHANCE(STOCK);
        uint32_t generation = 1 + (uint32_t)CHANCE(4);
        const char *user = words("u%d%c", (int)CHANCE(30), 0).ptr, *request = words("q%d%c", (int)CHANCE(4), 0).ptr;
        reservations[i] = item(&a, s ? "S" : "T", user, request, words("%d%c", i, 0).ptr, s ? s_unit(&a, nth, generation) : t_unit(&a, nth, generation));
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct create_order batch[16];
        size_t which[16], n = 1 + (size_t)CHANCE(16);
        for (size_t i = 0; i < n; i++)
            batch[i] = reservations[which[i] = (size_t)CHANCE(RESERVATIONS)];
        bool releasing = CHANCE(4) == 0;
        struct told t = releasing ? release(batch[0], REASON_OVERDUE) : place(batch, n);
        assert_int_equal(t.reason, REASON_OK);
        for (size_t i = 0; i < (releasing ? 1 : n); i++) {
            struct verdict *was = &known[which[i]], *is = &t.verdicts[i];
            assert_true(is->outcome == REASON_ORDERED || is->outcome == REASON_RELEASED);
            if (was->order.ptr) {
                assert_int_equal(was->outcome, is->outcome);
                assert_int_equal(was->why, is->why);
                assert_false(is->fresh);
            }
            *was = *is;
        }
    }
    assert_clean(a.activity);
    finish_all();
}

static void prove_commits_in_each_slot(void **state)
{
    (void)state;
    for (unsigned slot = 0; slot < LEDGER_PROVE_SLOTS; slot += LEDGER_PROVE_SLOTS - 1)
        for (int i = 0; i < 2; i++) {
            struct seen seen = SEEN();
            ledger_prove(world->ledger, slot, &seen.waiter);
            assert_false(seen.woken);
            assert_int_equal(seen_await(world, &seen), REASON_OK);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_activity_is_created_once),
        cmocka_unit_test(other_terms_conflict),
        cmocka_unit_test(every_move_is_in_the_table), cmocka_unit_test(a_late_move_undoes_nothing),
        cmocka_unit_test(activities_are_listed),
        cmocka_unit_test(the_first_to_insert_decides_an_order),
        cmocka_unit_test(a_release_decides_and_the_late_message_does_nothing),
        cmocka_unit_test(a_lost_reservation_is_released_without_its_unit),
        cmocka_unit_test(every_duplicate_has_its_own_reason),
        cmocka_unit_test(one_batch_decides_as_if_one_by_one),
        cmocka_unit_test(a_request_that_was_released_is_never_ordered_through_another_reservation),
        cmocka_unit_test(what_was_given_up_stays_so_whatever_comes_of_it),
        cmocka_unit_test(generations_fence),
        cmocka_unit_test(a_foreign_unit_is_not_touched),
        cmocka_unit_test(a_message_id_belongs_to_one_reservation),
        cmocka_unit_test(poison_leaves_nothing_behind),
        cmocka_unit_test(a_full_batch_is_taken),
        cmocka_unit_test(a_look_finds_by_each_key_and_never_for_strangers),
        cmocka_unit_test(decided_tells_of_each_reservation_in_order), cmocka_unit_test(messages_are_unread_until_every_queue_was_read_after_the_recovery), cmocka_unit_test(lost_reservation_is_released_by_the_clock_of_the_ledger),
        cmocka_unit_test(lost_reservations_of_a_user_are_bounded),
        cmocka_unit_test(leases_are_exclusive_and_fair_and_end),
        cmocka_unit_test(offsets_move_with_their_verdicts_and_never_skip),
        cmocka_unit_test(a_batch_renews_its_lease),
        cmocka_unit_test(an_order_is_told_to_store_and_world),
        cmocka_unit_test(many_orders_are_told_each),
        cmocka_unit_test(what_cannot_be_delivered_holds_up_nobody_else),
        cmocka_unit_test(a_return_goes_home_and_a_stale_one_is_known),
        cmocka_unit_test(a_closed_activity_is_retired),
        cmocka_unit_test(the_first_life_is_recorded_while_warm), cmocka_unit_test(a_bucket_is_told_all_it_must_hold),
        cmocka_unit_test(a_healing_waits_for_what_it_told), cmocka_unit_test(another_closing_is_healed_anew),
        cmocka_unit_test(buckets_that_recover_together_are_told_everything),
        cmocka_unit_test(what_was_told_together_is_delivered_one_by_one_where_it_must),
        cmocka_unit_test(a_unit_that_nobody_claims_comes_back_once),
        cmocka_unit_test(a_copy_that_should_not_be_is_told_what_stands),
        cmocka_unit_test(a_duplicate_is_told_what_stands_instead),
        cmocka_unit_test(what_cannot_be_taken_goes_to_a_person),
        cmocka_unit_test(calls_in_flight_collide_safely),
        cmocka_unit_test(random_batches_keep_every_rule),
        cmocka_unit_test(prove_commits_in_each_slot),
    };
    cmocka_set_test_filter(getenv("SECKILL_TEST_ONLY"));
    return cmocka_run_group_tests_name("ledger", tests, world_begin, world_end);
}

/* SPDX-License-Identifier: Apache-2.0
 * Rows of spec/bound.def that nothing else fills: each queue and pool of core is filled to the brim, one more is refused as the row says, what is held
 * never grows, and once it empties it takes again. (Which test fills which row: the last column there.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "check.h"
#include "conservation.h"
#include "control.h"
#include "fake.h"
#include "janitor.h"
#include "message.h"
#include "order.h"
#include "query.h"
#include "relay.h"
#include "reservation.h"

static struct fake k;

/* Every call of this kind is left unanswered until its own deadline. */
static void mute(enum fake_op op)
{
    k.inject_op = op;
    k.inject = REASON_TIMED_OUT;
    k.silent = true;
}

static void heal(void)
{
    k.inject = REASON_OK;
    k.silent = false;
}

/* ---- access: messages not yet confirmed, states waiting to be told, attempts --------------------------------------------------------------- */

static struct settler settler;
static struct publisher publisher;

static void open_both(size_t pending)
{
    struct settler_options told = settler_options_default();
    struct publisher_options announced = publisher_options_default();
    told.pending = announced.pending = pending;
    told.batch = announced.batch = 2;
    told.calls = announced.sends = 1;
    fake_init(&k);
    assert_true(settler_init(&settler, &k.store, &k.clock.clock, &k.random.random, told));
    assert_true(publisher_init(&publisher, &k.bus, &k.clock.clock, &settler, &k.keys, announced));
}

static void close_both(void)
{
    heal();
    fake_pass(&k, 20000);
    assert_int_equal(publisher_held(&publisher) + settler_held(&settler), 0);
    publisher_free(&publisher);
    settler_free(&settler);
    fake_end(&k);
}

static void messages_not_yet_confirmed(void **state)
{
    (void)state;
    open_both(8);
    struct entry e = fake_entry(&k, str_lit("user"), RESERVATION_RESERVED, 0);
    struct publish_ask ask = {.bucket = {str_lit("act"), 1, 0}, .user = str_lit("user"), .entry = &e};
    mute(FAKE_SEND);
    for (int i = 0; i < 8; i++)
        assert_true(publish_start(&publisher, &ask, NULL));
    for (int i = 0; i < 1000; i++)
        assert_false(publish_start(&publisher, &ask, NULL));
    fake_pass(&k, 100);
    assert_int_equal(publisher_held(&publisher), 8);
    assert_int_equal(k.calls[FAKE_SEND], 1);    /* sends in flight are bounded, too */
    heal();
    fake_pass(&k, 10000);
    assert_true(publish_start(&publisher, &ask, NULL));
    close_both();
}

static struct settle_ask state_of_one(void)
{
    struct entry e = fake_entry(&k, str_lit("user"), RESERVATION_RESERVED, 0);
    return (struct settle_ask){.bucket = {str_lit("act"), 1, 0}, .user = str_lit("user"), .ident = e.ident, .to = RESERVATION_PUBLISHED};
}

static void states_waiting_to_be_told(void **state)
{
    (void)state;
    open_both(8);
    struct settle_ask ask = state_of_one();
    mute(FAKE_SETTLE);
    for (int i = 0; i < 8; i++)
        assert_true(settler_ask(&settler, &ask));
    for (int i = 0; i < 1000; i++)
        assert_false(settler_ask(&settler, &ask));
    assert_int_equal(settler_held(&settler), 8);
    heal();
    fake_pass(&k, 10000);
    assert_true(settler_ask(&settler, &ask));
    close_both();
}

static enum reason pushed;
static size_t pushes;
static void push_ended(struct settle_wait *w, enum reason reason)
{
    (void)w;
    pushes++;
    pushed = reason;
}

static void attempts_to_tell_a_state(void **state)
{
    (void)state;
    open_both(8);
    struct settle_ask ask = state_of_one();
    struct settle_wait wait = {.done = push_ended};
    pushes = 0;
    mute(FAKE_SETTLE);
    assert_true(settler_push(&settler, &ask, &wait));
    fake_pass(&k, 60000);
    assert_int_equal(k.calls[FAKE_SETTLE], settler_options_default().attempts);
    assert_true(pushes == 1 && pushed == REASON_TIMED_OUT && settler_held(&settler) == 0);
    close_both();
}

/* ---- access: queries, watches ------------------------------------------------------------------------------------------------------------- */

static struct desk desk;
static size_t heard;
static void query_heard(struct query *q) { (void)q, heard++; }
static void take_heard(struct take *t) { (void)t, heard++; }

static void open_desk(struct desk_options options)
{
    fake_init(&k);
    options.catalog.memory = 1 << 16;
    options.publisher.pending = options.settler.pending = 16;
    options.soldout.filter_bytes = 4096;
    heard = 0;
    assert_true(desk_init(&desk, &k.store, &k.bus, &k.ledger, &k.clock.clock, &k.random.random, &k.keys, options));
    desk_start(&desk);
    fake_pass(&k, 10);
}

static void close_desk(void)
{
    heal();
    fake_pass(&k, 60000);
    assert_true(desk_idle(&desk));
    desk_stop(&desk);
    desk_free(&desk);
    fake_end(&k);
}

static void queries_under_way(void **state)
{
    (void)state;
    struct desk_options options = desk_options_default();
    options.query.queries = 4;
    open_desk(options);
    static struct query q[5];
    k.entry = fake_entry(&k, str_lit("user"), RESERVATION_PUBLISHED, 0);
    mute(FAKE_LOOK);
    for (int i = 0; i < 5; i++)
        q[i] = (struct query){.by = QUERY_REQUEST, .id = str_lit("req"), .activity = str_lit("act"), .user = str_lit("user"), .done = query_heard};
    for (int i = 0; i < 4; i++)
        assert_false(query_start(&desk, &q[i]));
    assert_true(query_start(&desk, &q[4]));
    assert_int_equal(q[4].reason, REASON_OVERLOADED);
    fake_pass(&k, 60000);
    assert_int_equal(heard, 4);
    heal();
    assert_false(query_start(&desk, &q[4]));
    close_desk();
}

/* "wait" may say what it likes: an undecided reservation is shown as it stands after the bound, and meanwhile the looks become rare. */
static void a_query_that_waits(void **state)
{
    (void)state;
    struct desk_options options = desk_options_default();
    options.query.doubt_ms = 3600000;
    open_desk(options);
    static struct query q;
    k.entry = fake_entry(&k, str_lit("user"), RESERVATION_PUBLISHED, 0);
    q = (struct query){.by = QUERY_REQUEST, .id = str_lit("req"), .activity = str_lit("act"), .user = str_lit("user"), .wait_ms = UINT32_MAX, .done = query_heard};
    assert_false(query_start(&desk, &q));
    fake_pass(&k, 24500);
    assert_int_equal(heard, 0);
    fake_pass(&k, 2000);
    assert_int_equal(heard, 1);
    assert_int_equal(q.reason, REASON_OK);
    assert_true(k.calls[FAKE_LOOK] < 60);
    close_desk();
}

/* Consumers lag: a thousand clients wait for verdicts that do not come, and the ledger is read at a bounded rate; the verdict, once the store has it, is told to
 * all of them at once. Without the bound each of them reads about once a second. */
static void ledger_reads_of_queries(void **state)
{
    (void)state;
    enum { CLIENTS = 1000 };
    open_desk(desk_options_default());
    static struct query q[CLIENTS];
    k.entry = fake_entry(&k, str_lit("user"), RESERVATION_PUBLISHED, 10000);
    for (int i = 0; i < CLIENTS; i++) {
        q[i] = (struct query){.by = QUERY_REQUEST, .id = str_lit("req"), .activity = str_lit("act"), .user = str_lit("user"), .wait_ms = 20000, .done = query_heard};
        assert_false(query_start(&desk, &q[i]));
    }
    fake_pass(&k, 19000);
    assert_int_equal(heard, 0);
    assert_true(k.calls[FAKE_LOOK] > 10 * CLIENTS);    /* each looks at the store about once a second */
    assert_in_range(k.calls[FAKE_LEDGER_LOOK], 25, 100 + 25 + 1);    /* then they are asked about together */
    assert_in_range(k.calls[FAKE_DECIDED], 30, 2 * 19);
    assert_in_range(k.reservations, (k.calls[FAKE_DECIDED] - 1) * LEDGER_BATCH_MAX, k.calls[FAKE_DECIDED] * LEDGER_BATCH_MAX);
    k.entry.state = RESERVATION_ORDERED;
    fake_pass(&k, 1600);
    assert_int_equal(heard, CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        assert_true(q[i].reason == REASON_OK && q[i].view.status == RESERVATION_ORDERED);

    k.entry = fake_entry(&k, str_lit("user"), RESERVATION_PUBLISHED, 10000);    /* answers at once: above the rate the state is said as unknown */
    size_t before = k.calls[FAKE_LEDGER_LOOK], unknown = 0;
    for (int i = 0; i < CLIENTS; i++) {
        q[i].wait_ms = 0;
        assert_false(query_start(&desk, &q[i]));
    }
    fake_pass(&k, 100);
    assert_int_equal(heard, 2 * CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        unknown += q[i].reason == REASON_OK && q[i].view.status == RESERVATION_RECONCILING;
    assert_in_range(k.calls[FAKE_LEDGER_LOOK] - before, 150, 250);
    assert_int_equal(unknown, CLIENTS - (k.calls[FAKE_LEDGER_LOOK] - before));
    desk_doubt(&desk, k.activity.number, user_bucket(user_hash(&k.keys, str_lit("user")), 2));    /* in doubt not even that is said */
    for (int i = 0; i < CLIENTS; i++)
        assert_false(query_start(&desk, &q[i]));
    fake_pass(&k, 100);
    size_t refused = 0;
    for (int i = 0; i < CLIENTS; i++)
        refused += q[i].reason == REASON_OVERLOADED;
    assert_in_range(refused, CLIENTS - 250, CLIENTS - 1);
    close_desk();
}

/* The ledger has verdicts that the store is never told, for the relay is away: a thousand waiting clients hear of them within seconds all the same. */
static void verdicts_reach_waiting_queries_without_the_store(void **state)
{
    (void)state;
    enum { CLIENTS = 1000 };
    open_desk(desk_options_default());
    static struct query q[CLIENTS];
    char rsv[IDENT_ID_TEXT];
    k.entry = fake_entry(&k, str_lit("user"), RESERVATION_PUBLISHED, 10000);
    ident_write(k.entry.ident, IDENT_RESERVATION, rsv);
    for (int i = 0; i < CLIENTS; i++) {
        q[i] = (struct query){.by = QUERY_REQUEST, .id = str_lit("req"), .activity = str_lit("act"), .user = str_lit("user"), .wait_ms = 20000, .done = query_heard};
        assert_false(query_start(&desk, &q[i]));
    }
    fake_pass(&k, 5000);
    assert_int_equal(heard, 0);
    query_let_go(&q[7]);    /* one leaves while it is asked about */
    k.ledger_look = REASON_OK;
    k.looked = (struct ledger_look_answer){.decided = true, .verdict = {.outcome = REASON_ORDERED, .why = REASON_OK, .order = str_lit("o")}, .decided_ms = 99,
        .what = {.reservation = {rsv, sizeof rsv}, .message = str_lit("m"), .request = str_lit("req"), .activity = str_lit("act"), .sku = str_lit("sku"),
                 .user = str_lit("user"), .token = {3, 1}, .created_ms = k.entry.created_ms}};
    for (size_t i = 0; i < LEDGER_BATCH_MAX; i++)
        k.decided[i] = true;
    fake_pass(&k, 3000);
    assert_int_equal(heard, CLIENTS - 1);
    for (int i = 0; i < CLIENTS; i++)
        if (i != 7)
            assert_true(q[i].reason == REASON_OK && q[i].view.status == RESERVATION_ORDERED);
    size_t reads = k.calls[FAKE_DECIDED];
    fake_pass(&k, 5000);
    assert_int_equal(k.calls[FAKE_DECIDED], reads);    /* nobody waits: nothing is asked */
    close_desk();
}

/* An event stream has shown an undecided state and follows it: where it cannot be confirmed within the rate it is unchanged, and never shown as another. */
static void ledger_reads_of_streams(void **state)
{
    (void)state;
    enum { CLIENTS = 1000 };
    open_desk(desk_options_default());
    static struct query q[CLIENTS];
    k.entry = fake_entry(&k, str_lit("user"), RESERVATION_PUBLISHED, 10000);
    size_t unchanged = 0;
    for (int turn = 1; turn <= 5; turn++) {
        for (int i = 0; i < CLIENTS; i++) {
            q[i] = (struct query){.by = QUERY_REQUEST, .id = str_lit("req"), .activity = str_lit("act"), .user = str_lit("user"), .wait_ms = 2000, .follows = true,
                                  .done = query_heard};
            assert_false(query_start(&desk, &q[i]));
        }
        fake_pass(&k, 2010);
        assert_int_equal(heard, turn * CLIENTS);
        for (int i = 0; i < CLIENTS; i++) {
            assert_true(q[i].reason == REASON_UNCHANGED || (q[i].reason == REASON_OK && q[i].view.status == RESERVATION_PUBLISHED));
            unchanged += q[i].reason == REASON_UNCHANGED;
        }
    }
    assert_true(unchanged > 4 * CLIENTS);
    assert_in_range(k.calls[FAKE_LEDGER_LOOK], 5 * 25, 5 * 201 + 26);
    close_desk();
}

static void ledger_reads_of_replays(void **state)
{
    (void)state;
    enum { CLIENTS = 1000 };
    open_desk(desk_options_default());
    static struct take t[CLIENTS];
    k.entry = fake_entry(&k, str_lit("user"), RESERVATION_PUBLISHED, 10000);
    k.replayed = true;
    for (int i = 0; i < CLIENTS; i++) {
        t[i] = (struct take){.activity = str_lit("act"), .sku = str_lit("sku"), .user = str_lit("user"), .request = str_lit("req"), .done = take_heard};
        assert_false(reservation_take(&desk, &t[i]));
    }
    fake_pass(&k, 100);
    assert_int_equal(heard, CLIENTS);
    assert_in_range(k.calls[FAKE_LEDGER_LOOK], 100, 175);
    size_t unknown = 0;
    for (int i = 0; i < CLIENTS; i++) {
        assert_true(t[i].reason == REASON_QUEUED && t[i].replayed);
        unknown += t[i].entry.state == RESERVATION_RECONCILING;
    }
    assert_int_equal(unknown, CLIENTS - k.calls[FAKE_LEDGER_LOOK]);
    close_desk();
}

/* All classes of readers together, at their rates and bursts (allowance.h) and with each read lasting a second, leave the lane room for the others. */
static void ledger_reads_fit_their_lane(void **state)
{
    (void)state;
    size_t lane = 0;
    struct desk_options o = desk_options_default();
#define LANE(name, flying, bound, stall, settings) lane = strcmp(#name, "READ") == 0 ? (bound) : lane;
#include "../../../src/engine/postgres/lane.def"
#undef LANE
    assert_in_range((o.answer_looks + o.waiting_looks + o.take_looks) * 5 / 4 + 2 * o.query.dress_most, 1, lane - 1);
    struct allowance a = {0};
    size_t taken = 0, first = 0;
    for (uint64_t us = 1; us <= 10000000; us += 100) {
        taken += allowance_take(&a, 400, 100, us);
        first = us <= 1000000 ? taken : first;
    }
    assert_in_range(first, 400, 500);
    assert_in_range(taken, 4000, 4100);
    assert_false(allowance_take(&(struct allowance){0}, 0, 0, 5));
    assert_true(allowance_take(&(struct allowance){0}, 1, 0, 5));
}

/* More buckets are doubted than the table holds: all are, until that time is over. */
static void buckets_in_doubt(void **state)
{
    (void)state;
    static struct doubt_table t;
    uint64_t now = 1000;
    assert_false(doubt_holds(&t, 1, 0, now));
    doubt_add(&t, 1, 0, now, now + 60);
    assert_true(doubt_holds(&t, 1, 0, now) && !doubt_holds(&t, 1, 1, now) && !doubt_holds(&t, 2, 0, now) && !doubt_holds(&t, 1, 0, now + 60));
    doubt_add(&t, 1, 0, now, now + 30);
    assert_true(doubt_holds(&t, 1, 0, now + 59));
    size_t held = 0;
    for (uint16_t a = 2; !doubt_holds(&t, 9999, 31, now); a++, held++)
        doubt_add(&t, a, (uint8_t)(a % 32), now, now + 100);
    assert_in_range(held, DOUBT_SLOTS / 2, DOUBT_SLOTS);
    assert_true(doubt_holds(&t, 9999, 31, now + 99) && !doubt_holds(&t, 9999, 31, now + 100));
    for (uint16_t a = 2; a < 2 + held; a++)
        assert_true(doubt_holds(&t, a, (uint8_t)(a % 32), now + 99));
    for (uint16_t a = 5000; a < 5200; a++)    /* what is over makes room */
        doubt_add(&t, a, 0, now + 100, now + 200);
    assert_true(doubt_holds(&t, 5199, 0, now + 150) && !doubt_holds(&t, 9999, 31, now + 150));
}

static size_t held_until_later;
static void hold_ended(struct soldout_wait *w, enum reason reason) { (void)w, held_until_later += reason == REASON_STOCK_MOVING; }

static void activities_watched(void **state)
{
    (void)state;
    struct desk_options options = desk_options_default();
    options.soldout.watches = 2;
    open_desk(options);
    struct activity others[3] = {k.activity, k.activity, k.activity};
    struct soldout_wait waits[3];
    held_until_later = 0;
    mute(FAKE_STOCK);
    for (uint16_t i = 0; i < 3; i++) {
        others[i].number = (uint16_t)(100 + i);
        waits[i] = (struct soldout_wait){.done = hold_ended};
        soldout_hold(&desk.soldout, &others[i], 0, &waits[i]);
    }
    fake_pass(&k, 1);
    assert_true(k.calls[FAKE_STOCK] <= 2 * others[0].buckets);    /* the third is not read about */
    assert_int_equal(soldout_says(&desk.soldout, &others[2], 0, 1, 0), REASON_OK);    /* nothing is known: ask the store */
    fake_pass(&k, 200);
    assert_int_equal(held_until_later, 3);    /* and nobody is held for ever */
    close_desk();
}

/* Activities that do not fit into the list: it stays as it was, and whoever asks is not told that they are not there. */
static void the_list_of_activities(void **state)
{
    (void)state;
    struct desk_options options = desk_options_default();
    open_desk(options);
    static struct catalog small;
    struct catalog_options narrow = catalog_options_default();
    narrow.memory = 64;
    assert_true(catalog_init(&small, &k.ledger, &k.clock.clock, narrow));
    catalog_start(&small);
    fake_pass(&k, 5000);
    assert_false(catalog_learnt(&small));    /* "nothing is known yet", never "there is no such activity" */
    assert_null(catalog_find(&small, str_lit("act")));
    catalog_stop(&small);
    catalog_free(&small);
    close_desk();
}

/* ---- order ---------------------------------------------------------------------------------------------------------------------------------- */

static char bodies[200][600], uniques[200][24];
static void messages(size_t n)
{
    k.message_count = n;
    for (size_t i = 0; i < n; i++) {
        struct entry e = fake_entry(&k, str_lit("user"), RESERVATION_RESERVED, 0);
        struct message_ids ids;
        struct create_order m = message_of((struct bucket){str_lit("act"), 1, 0}, str_lit("user"), &e, (struct str){0}, &ids);
        struct buf b = buf_fixed(bodies[i], sizeof bodies[i]);
        message_seal(&k.keys, &m);
        message_write(&b, &m);
        snprintf(uniques[i], sizeof uniques[i], "U%04zu", i);
        k.messages[i] = (struct pulled){.offset = (int64_t)i, .unique = str_of(uniques[i]), .key = str_lit("key"), .body = buf_str(&b), .stored_ms = clock_now_ms(&k.clock.clock)};
    }
}

/* Padded with blanks up to the edge it is read, and not a byte further. */
static void a_message_has_an_end(void **state)
{
    (void)state;
    static char text[MESSAGE_BODY_MAX + 1], memory[2048];
    struct create_order m;
    fake_init(&k);
    messages(1);
    memset(text, ' ', sizeof text);
    memcpy(text, bodies[0], k.messages[0].body.len);
    for (int over = 0; over <= 1; over++) {
        struct arena a = {.start = memory, .cap = sizeof memory};
        assert_int_equal(message_read((struct str){text, MESSAGE_BODY_MAX + (size_t)over}, &a, &m), over ? REASON_MESSAGE_UNREADABLE : REASON_OK);
    }
    fake_end(&k);
}

/* However much lies in the broker: a batch is as large as it may be, one of a queue flies at a time, and what is held is a page of that queue. */
static void batches_of_orders(void **state)
{
    (void)state;
    fake_init(&k);
    messages(200);
    struct order_options options = order_options_default();
    options.owner = str_lit("me");
    options.keys = &k.keys;
    options.queues = 2, options.batch = 16, options.per_queue = 32;
    struct order_desk *d = order_new(&k.bus, &k.ledger, &k.clock.clock, &k.random.random, &options);
    assert_non_null(d);
    order_start(d);
    mute(FAKE_PLACE);
    fake_pass(&k, 4000);
    assert_true(k.calls[FAKE_PLACE] >= 1 && k.calls[FAKE_PLACE] <= options.batches);
    assert_true(k.calls[FAKE_PULL] <= 4);    /* it reads no further than it may hold */
    heal();
    fake_pass(&k, 30000);
    assert_int_equal(k.queue_next, 200);
    order_drain(d);
    fake_pass(&k, 20000);
    assert_true(order_idle(d));
    order_free(d);
    fake_end(&k);
}

/* ---- relay ---------------------------------------------------------------------------------------------------------------------------------- */

static void claims_in_flight(void **state)
{
    (void)state;
    fake_init(&k);
    struct relay_options options = relay_options_default();
    struct relay *r = relay_new(&k.store, &k.bus, &k.ledger, &k.clock.clock, &k.random.random, &k.keys, &options);
    assert_non_null(r);
    mute(FAKE_CLAIM);
    relay_start(r);
    fake_pass(&k, 2000);    /* less than the budget of one */
    assert_int_equal(k.calls[FAKE_CLAIM], options.lanes);
    heal();
    relay_drain(r);
    fake_pass(&k, 20000);
    assert_true(relay_idle(r));
    relay_free(r);
    fake_end(&k);
}

static struct relay *relay_over(size_t rows, size_t body_bytes, struct relay_options options)
{
    static char body[200000];
    memset(body, 'x', sizeof body);
    fake_init(&k);
    k.row_count = rows;
    for (size_t i = 0; i < rows; i++)
        k.rows[i] = (struct outbox_row){.row = (int64_t)i + 1, .version = 1, .kind = OUTBOX_DEAD_LETTER, .topic_key = str_lit("key"), .body = {body, body_bytes}};
    struct relay *r = relay_new(&k.store, &k.bus, &k.ledger, &k.clock.clock, &k.random.random, &k.keys, &options);
    assert_non_null(r);
    relay_start(r);
    return r;
}

static void relay_ends(struct relay *r)
{
    for (size_t i = 0; i < k.row_count; i++)
        assert_true(k.row_done[i]);
    relay_drain(r);
    fake_pass(&k, 20000);
    assert_true(relay_idle(r));
    relay_free(r);
    fake_end(&k);
}

/* However many rows wait: no claim asks for more than its share, and in the end all are carried. */
static void rows_of_one_claim(void **state)
{
    (void)state;
    struct relay_options options = relay_options_default();
    options.batch = 5;
    struct relay *r = relay_over(countof(k.rows), 100, options);
    fake_pass(&k, 10000);
    assert_int_equal(k.claimed_most, 5);
    relay_ends(r);
}

/* Sixteen rows of 200,000 bytes come with one claim: as many as there is room for go at once, the rest in another company. */
static void bodies_of_one_claim(void **state)
{
    (void)state;
    struct relay *r = relay_over(countof(k.rows), 200000, relay_options_default());
    fake_pass(&k, 60000);
    assert_int_equal(k.claimed_most, countof(k.rows));
    assert_true(k.body_bytes_most <= RELAY_BODY_MAX && k.body_bytes_most > RELAY_BODY_MAX - 300000);
    relay_ends(r);
}

/* ---- janitor -------------------------------------------------------------------------------------------------------------------------------- */

/* All may be in the broker already, and nothing is consumed: only the fixed burst may go, again in each of its spans. */
static void messages_republished(void **state)
{
    (void)state;
    fake_init(&k);
    struct janitor_options options = janitor_options_default();
    options.catalog.memory = 1 << 16;
    options.publisher.pending = options.settler.pending = 64;
    options.again_burst = 3;
    struct janitor *j = janitor_new(&k.store, &k.bus, &k.ledger, &k.clock.clock, &k.random.random, &k.keys, &options);
    assert_non_null(j);
    janitor_start(j);
    for (size_t i = 0; i < countof(k.dues); i++)
        k.dues[i] = (struct due_entry){str_lit("user"), fake_entry(&k, str_lit("user"), RESERVATION_RECONCILING, 1100)};
    k.due_count = countof(k.dues);
    fake_pass(&k, 10000);
    assert_true(k.sent >= 1 && k.sent <= options.again_burst);
    fake_pass(&k, 30000);
    assert_true(k.sent > options.again_burst && k.sent <= 4 * options.again_burst);
    k.due_count = 0;
    janitor_drain(j);
    fake_pass(&k, 10000);
    assert_true(janitor_idle(j));
    janitor_free(j);
    fake_end(&k);
}

/* The ledger is mute and everything is due, again and again: no more reservations are asked about at once than there are jobs. */
static void reservations_under_way(void **state)
{
    (void)state;
    fake_init(&k);
    struct janitor_options options = janitor_options_default();
    options.catalog.memory = 1 << 16;
    options.publisher.pending = options.settler.pending = 64;
    options.call_ms = 5000;
    struct janitor *j = janitor_new(&k.store, &k.bus, &k.ledger, &k.clock.clock, &k.random.random, &k.keys, &options);
    assert_non_null(j);
    janitor_start(j);
    for (size_t i = 0; i < countof(k.dues); i++)
        k.dues[i] = (struct due_entry){str_lit("user"), fake_entry(&k, str_lit("user"), RESERVATION_RECONCILING, 5000)};
    k.due_count = countof(k.dues);
    mute(FAKE_LEDGER_LOOK);
    fake_pass(&k, 4500);    /* less than the budget of one */
    assert_true(k.calls[FAKE_LEDGER_LOOK] <= options.jobs && k.calls[FAKE_LEDGER_LOOK] > options.jobs - 2 * countof(k.dues));
    assert_int_equal(k.sent, 0);
    heal();
    fake_pass(&k, 20000);
    assert_true(k.sent > 0);
    k.due_count = 0;
    janitor_drain(j);
    fake_pass(&k, 20000);
    assert_true(janitor_idle(j));
    janitor_free(j);
    fake_end(&k);
}

/* ---- admin, audit --------------------------------------------------------------------------------------------------------------------------- */

static size_t moved;
static void move_done(struct control *c) { (void)c, moved++; }

static void moves_under_way(void **state)
{
    (void)state;
    fake_init(&k);
    struct controller *c = controller_new(&k.store, &k.ledger, &k.clock.clock, 4, control_options_default());
    struct control moves[5];
    assert_non_null(c);
    moved = 0;
    mute(FAKE_ACTIVITIES);
    for (int i = 0; i < 5; i++)
        moves[i] = (struct control){.activity = str_lit("act"), .event = ACTIVITY_EVENT_PAUSE, .actor = str_lit("me"), .done = move_done};
    for (int i = 0; i < 4; i++)
        assert_true(control_start(c, &moves[i]));
    assert_false(control_start(c, &moves[4]));
    assert_int_equal(moves[4].reason, REASON_OVERLOADED);
    heal();
    fake_pass(&k, 120000);
    assert_int_equal(moved, 4);
    assert_true(control_start(c, &moves[4]));
    fake_pass(&k, 120000);
    assert_int_equal(moved, 5);
    controller_free(c);
    fake_end(&k);
}

static void count_done(struct conservation *c) { (void)c, heard++; }

static void findings_that_are_named(void **state)
{
    (void)state;
    fake_init(&k);
    k.activity.buckets = 1;
    k.skus[0].stock = 20;
    k.unit_count = 20;
    for (size_t i = 0; i < 20; i++)    /* the ledger has them all, and the store none */
        k.units[i] = (struct ledger_unit){.token = {(int64_t)i + 1, 2}, .sku = str_lit("sku"), .available = true};
    struct conservation_options options = conservation_options_default();
    options.findings = 5;
    heard = 0;
    struct conservation c = {.activity = str_lit("act"), .done = count_done};
    assert_true(conservation_start(&c, &k.store, &k.ledger, &k.clock.clock, &options));
    fake_pass(&k, 60000);
    assert_int_equal(heard, 1);
    assert_int_equal(c.unit_count, 5);
    assert_int_equal(c.skus[0].drift, 20);    /* the rest is counted */
    assert_true(c.looks <= options.looks);
    conservation_close(&c);
    fake_end(&k);
}

/* 20 units, 7 marks: three windows see what one of 20 sees, and findings are named before what is none. */
static void conservation_counts_a_large_activity_in_windows(void **state)
{
    (void)state;
    for (size_t units = 1; units <= 21; units++) {
        fake_init(&k);
        k.activity.buckets = 1;
        k.skus[0].stock = 20;
        k.unit_count = 20;
        k.held_count = 0;
        for (size_t i = 0; i < 20; i++) {
            k.units[i] = (struct ledger_unit){.token = {(int64_t)i + 1, 2}, .sku = str_lit("sku"), .available = i < 15, .ordered = i >= 15};
            if (i < 13)    /* units 14 and 15 are in no bucket; unit 1 is reserved */
                k.held[k.held_count++] = (struct held){.holding = i == 0 ? HOLDING_RESERVED : HOLDING_FREE, .sku = str_lit("sku"), .token = {(int64_t)i + 1, 2}};
        }
        k.held[k.held_count++] = (struct held){.holding = HOLDING_FREE, .sku = str_lit("sku"), .token = {99, 1}};    /* of no item */
        struct conservation_options options = conservation_options_default();
        options.units = units;
        options.findings = 3;
        heard = 0;
        struct conservation c = {.activity = str_lit("act"), .done = count_done};
        assert_true(conservation_start(&c, &k.store, &k.ledger, &k.clock.clock, &options));
        fake_pass(&k, 300000);
        assert_int_equal(heard, 1);
        assert_int_equal(c.reason, REASON_OK);
        char seen[96];
        snprintf(seen, sizeof seen, "%lld = %lld + %lld + %lld + %lld + %lld, drift %lld", (long long)c.skus[0].s0, (long long)c.skus[0].a, (long long)c.skus[0].r,
                 (long long)c.skus[0].o, (long long)c.skus[0].c, (long long)c.skus[0].e, (long long)c.skus[0].drift);
        assert_string_equal(seen, "20 = 12 + 1 + 5 + 0 + 2, drift 3");
        assert_int_equal(c.unit_count, 3);
        int64_t sum = 0;
        for (size_t i = 0; i < 3; i++) {
            assert_true(c.units[i].finding);
            sum += c.units[i].token.unit;
        }
        assert_int_equal(sum, 14 + 15 + 99);
        conservation_close(&c);
        fake_end(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_not_yet_confirmed), cmocka_unit_test(states_waiting_to_be_told), cmocka_unit_test(attempts_to_tell_a_state),
        cmocka_unit_test(queries_under_way), cmocka_unit_test(a_query_that_waits), cmocka_unit_test(ledger_reads_of_queries), cmocka_unit_test(ledger_reads_of_streams), cmocka_unit_test(verdicts_reach_waiting_queries_without_the_store), cmocka_unit_test(ledger_reads_of_replays), cmocka_unit_test(buckets_in_doubt), cmocka_unit_test(ledger_reads_fit_their_lane), cmocka_unit_test(activities_watched), cmocka_unit_test(the_list_of_activities),
        cmocka_unit_test(a_message_has_an_end), cmocka_unit_test(batches_of_orders), cmocka_unit_test(claims_in_flight), cmocka_unit_test(rows_of_one_claim),
        cmocka_unit_test(bodies_of_one_claim), cmocka_unit_test(reservations_under_way), cmocka_unit_test(messages_republished),
        cmocka_unit_test(moves_under_way), cmocka_unit_test(findings_that_are_named), cmocka_unit_test(conservation_counts_a_large_activity_in_windows)};
    return cmocka_run_group_tests_name("core_bounds", tests, NULL, NULL);
}

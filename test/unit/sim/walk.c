/* SPDX-License-Identifier: Apache-2.0
 * walk.c: a drunkard runs the sale. He reserves, sends, sends again, places in any order and any number of times, releases what he
 * likes, carries the outbox as he pleases, now and then loses Redis's answers or all of Redis, and never cleans up. After every step the promises hold:
 *   each unit is in exactly one place, nothing is sold twice, no token is handed out twice, no verdict ever changes.
 * The same seed takes the same walk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim_clock.h"
#include "sim_ledger.h"
#include "sim_store.h"

#define USERS 40
#define SKUS 2
#define STOCK 12
#define BUCKETS 2
#define MADE_MAX 4000
#define BATCH 8
#define GENERATIONS 4096

/* A reservation as the drunkard remembers it, and the message of it that may arrive at any time for ever. */
struct made {
    struct create_order message;
    struct ident ident;
    size_t user;
    char names[2][IDENT_ID_TEXT], request[24];
    enum reason verdict;
};
struct walk {
    struct sim_clock clock;
    struct sim_random chance;
    struct sim_store_world stock;
    struct sim_ledger_world books;
    struct sim_store store;
    struct sim_ledger ledger;
    struct made made[MADE_MAX];
    size_t made_count, orders_most;
    bool handed_out[SKUS * STOCK + 1][GENERATIONS];
    struct sim_snapshot snapshot;
    bool redis_forgets;              /* then a token may be handed out again, and only the ledger's promises are left */
    uint64_t trace;
    struct outbox_row claimed[BATCH];
    size_t claimed_count;
    struct finish_item carried[BATCH];    /* by a relay that may sleep before it says so */
    size_t carried_count;
    enum reason asked_reason;
    bool woken;
};

static uint64_t below(struct walk *w, uint64_t n) { return random_below(&w->chance.random, n); }

static void mark(struct walk *w, uint64_t what) { w->trace = (w->trace ^ what) * 0x100000001b3u + (w->trace >> 29); }

/* ---- asking, one call at a time ---- */

struct asking {
    struct waiter waiter;
    struct walk *walk;
    void (*take)(struct walk *, const void *result, void *arg);
    void *arg;
};

static void answered(struct waiter *waiter, enum reason reason, const void *result)
{
    struct asking *a = container_of(waiter, struct asking, waiter);
    a->walk->asked_reason = reason;
    a->walk->woken = true;
    mark(a->walk, (uint64_t)reason);
    if (result && a->take)
        a->take(a->walk, result, a->arg);
}

static bool is_woken(void *walk) { return ((struct walk *)walk)->woken; }

static enum reason await(struct walk *w)
{
    assert_true(sim_clock_run(&w->clock, is_woken, w, 60000000));
    w->woken = false;
    return w->asked_reason;
}
#define ASKING(walk_, take_, arg_) &(&(struct asking){.waiter.wake = answered, .walk = (walk_), .take = (take_), .arg = (arg_)})->waiter

/* ---- the steps ---- */

static const char *const sku_names[SKUS] = {"sku-a", "sku-b"};
static char user_names[USERS][8];

static struct bucket bucket_of(size_t user) { return (struct bucket){.activity = str_lit("walk"), .epoch = 1, .number = (uint8_t)(user % BUCKETS)}; }

static size_t user_named(struct str user)
{
    uint64_t number = USERS;
    assert_true(str_to_u64((struct str){user.ptr + 1, user.len - 1}, &number) && number < USERS);
    return number;
}

static uint64_t hash_of(size_t user) { return user * 0x9e3779b97f4a7c15u + 1; }

static struct ident read_ident(struct str id)
{
    static const char letters[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    struct ident out = {{0}};
    assert_int_equal(id.len, IDENT_ID_TEXT);
    for (size_t i = 0; i < IDENT_TEXT; i++) {
        size_t digit = (size_t)((const char *)memchr(letters, id.ptr[id.len - 1 - i], 32) - letters);
        for (size_t bit = 0; bit < 5; bit++)
            if (digit >> bit & 1)
                out.bytes[15 - (5 * i + bit) / 8] |= (uint8_t)(1u << (5 * i + bit) % 8);
    }
    return out;
}

static void write_ident(const struct ident *id, const char *prefix, char out[IDENT_ID_TEXT])
{
    static const char letters[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    memcpy(out, prefix, 4);
    for (size_t i = 0; i < IDENT_TEXT; i++) {    /* from the end: five bits each */
        unsigned digit = 0;
        for (unsigned bit = 0; bit < 5; bit++) {
            size_t at = 5 * i + bit;
            if (at < 128 && (id->bytes[15 - at / 8] >> at % 8 & 1))
                digit |= 1u << bit;
        }
        out[IDENT_ID_TEXT - 1 - i] = letters[digit];
    }
}

static void reserved(struct walk *w, const void *result, void *arg)
{
    const struct reserve_answer *answer = result;
    struct made *m = arg;
    mark(w, (uint64_t)answer->entry.token.unit << 32 | answer->entry.token.generation);
    if (w->asked_reason != REASON_QUEUED || answer->replayed)
        return;
    struct token t = answer->entry.token;
    assert_in_range(t.unit, 1, SKUS * STOCK);
    assert_in_range(t.generation, 1, GENERATIONS - 1);
    if (!w->redis_forgets)
        assert_false(w->handed_out[t.unit][t.generation]);    /* no generation is exposed twice */
    w->handed_out[t.unit][t.generation] = true;
    m->message.token = t;
    m->message.created_ms = answer->entry.created_ms;
    w->made_count++;
}

static void step_reserve(struct walk *w)
{
    if (w->made_count == MADE_MAX)
        return;
    struct made *m = &w->made[w->made_count];
    *m = (struct made){.user = below(w, USERS)};
    for (int i = 0; i < 16; i++)
        m->ident.bytes[i] = (uint8_t)random_next(&w->chance.random);
    write_ident(&m->ident, "rsv_", m->names[0]);
    write_ident(&m->ident, "msg_", m->names[1]);
    snprintf(m->request, sizeof m->request, "r%zu-%zu", m->user, (size_t)(w->made_count / 60 + below(w, 3)));    /* often one he has used */
    m->message = (struct create_order){
        .schema_version = 1, .reservation = {m->names[0], IDENT_ID_TEXT}, .message = {m->names[1], IDENT_ID_TEXT}, .epoch = 1,
        .request = str_of(m->request), .activity = str_lit("walk"), .sku = str_of(sku_names[below(w, SKUS)]), .user = str_of(user_names[m->user])};
    struct reserve_ask ask = {.bucket = bucket_of(m->user), .user = m->message.user, .sku = m->message.sku, .request = m->message.request,
                              .ident = m->ident, .user_hash = hash_of(m->user)};
    store_reserve(&w->store.store, &ask, ASKING(w, reserved, m));
    if (await(w) != REASON_ASK_LEDGER)
        return;
    struct ledger_look_ask look = {.by = LOOK_REQUEST, .id = ask.request, .activity = str_lit("walk"), .user = ask.user};
    ledger_look(&w->ledger.ledger, &look, ASKING(w, NULL, NULL));
    if (await(w) != REASON_NOT_FOUND)
        return;
    ask.ledger_asked = true;
    store_reserve(&w->store.store, &ask, ASKING(w, reserved, m));
    await(w);
}

struct placed_of {
    struct made *made[BATCH];
    size_t count;
};

static void decided(struct walk *w, const void *result, void *arg)
{
    const struct place_answer *answer = result;
    struct placed_of *p = arg;
    assert_int_equal(answer->count, p->count);
    for (size_t i = 0; i < p->count; i++) {
        const struct verdict *v = &answer->verdicts[i];
        struct made *m = p->made[i];
        if (v->outcome == REASON_LOCK_TIMEOUT) {    /* its unit is held: never said of what is decided */
            assert_int_equal(m->verdict, 0);
            continue;
        }
        assert_true(v->outcome == REASON_ORDERED || v->outcome == REASON_RELEASED);
        if (m->verdict)
            assert_int_equal(m->verdict, v->outcome);    /* final */
        m->verdict = v->outcome;
        mark(w, (uint64_t)v->outcome << 8 | (uint64_t)v->why);
    }
    assert_false(answer->regressed);
}

static void step_decide(struct walk *w, bool release)
{
    struct placed_of p = {.count = 1 + below(w, BATCH)};
    struct create_order items[BATCH];
    struct release_item releases[BATCH];
    if (w->made_count == 0)
        return;
    for (size_t i = 0; i < p.count; i++) {
        /* the latest ones most of all, any at times; the same one in a batch too */
        size_t back = below(w, below(w, 8) ? 10 : w->made_count);
        p.made[i] = &w->made[w->made_count - 1 - (back < w->made_count ? back : w->made_count - 1)];
        items[i] = p.made[i]->message;
        releases[i] = (struct release_item){.what = items[i], .why = REASON_OVERDUE};
    }
    struct waiter *asking = ASKING(w, decided, &p);    /* not in a branch: each is a block of its own, and what is made there ends there */
    if (release)
        ledger_release(&w->ledger.ledger, &(struct release_ask){.items = releases, .count = p.count}, asking);
    else
        ledger_place(&w->ledger.ledger, &(struct place_ask){.group = str_lit("g"), .owner = str_lit("o"), .items = items, .count = p.count}, asking);
    await(w);
}

static void step_hint(struct walk *w)
{
    static const enum reservation_state hints[] = {RESERVATION_PUBLISHED, RESERVATION_PROCESSING, RESERVATION_RECONCILING};
    if (w->made_count == 0)
        return;
    struct made *m = &w->made[below(w, w->made_count)];
    struct settle_ask ask = {.bucket = bucket_of(m->user), .user = m->message.user, .ident = m->ident, .to = hints[below(w, countof(hints))]};
    store_settle(&w->store.store, &ask, 1, ASKING(w, NULL, NULL));
    await(w);
}

static void claimed(struct walk *w, const void *result, void *arg)
{
    (void)arg;
    const struct claim_answer *answer = result;
    for (size_t i = 0; i < answer->count; i++)
        w->claimed[i] = answer->rows[i];    /* texts are the books' own */
    w->claimed_count = answer->count;
}

static bool carry(struct walk *w, const struct outbox_row *row)
{
    if (row->kind == OUTBOX_RETURN && !row->stale) {
        struct restock_ask ask = {.bucket = {.activity = row->activity, .epoch = row->epoch, .number = row->home}, .sku = row->sku, .token = row->token};
        store_restock(&w->store.store, &ask, 1, ASKING(w, NULL, NULL));
        return await(w) == REASON_OK;
    }
    if (row->kind != OUTBOX_STATUS)
        return true;
    size_t user = user_named(row->user);
    struct settle_ask ask = {.bucket = bucket_of(user), .user = row->user, .ident = read_ident(row->reservation), .to = row->state, .why = row->why,
                             .request = row->request, .sku = row->sku, .token = row->token, .superseded_by = row->superseded_by,
                             .superseded_request = row->superseded_request, .superseded_sku = row->superseded_sku, .user_hash = hash_of(user)};
    store_settle(&w->store.store, &ask, 1, ASKING(w, NULL, NULL));
    return await(w) == REASON_OK;
}

static void relay_finishes(struct walk *w)
{
    ledger_finish(&w->ledger.ledger, &(struct finish_ask){.items = w->carried, .count = w->carried_count}, ASKING(w, NULL, NULL));
    await(w);
    w->carried_count = 0;
}

static void step_relay(struct walk *w, bool sober)
{
    if (w->carried_count > 0)
        relay_finishes(w);    /* wakes, and finishes what may have been told again since */
    w->claimed_count = 0;
    ledger_claim(&w->ledger.ledger, &(struct claim_ask){.limit = BATCH, .hold_ms = 50}, ASKING(w, claimed, NULL));
    await(w);
    for (size_t i = 0; i < w->claimed_count; i++) {
        size_t times = sober ? 1 : below(w, 3);    /* not at all, once, twice */
        bool carried = times > 0;
        for (; times > 0; times--)
            carried &= carry(w, &w->claimed[i]);
        if (carried && (sober || below(w, 4)))
            w->carried[w->carried_count++] = (struct finish_item){.row = w->claimed[i].row, .version = w->claimed[i].version};
    }
    if (sober || below(w, 2))
        relay_finishes(w);
}

static void step_wait(struct walk *w) { sim_clock_run_until(&w->clock, w->clock.mono_us + below(w, 400000)); }

/* ---- the promises ---- */

static struct sim_entry *holder_of(struct sim_bucket *b, struct token t)
{
    for (size_t i = 0; i < b->record_count; i++)
        for (struct sim_entry *e = b->records[i]->newest; e; e = e->older)
            if (!reservation_state_terminal(e->entry.state) && e->entry.token.unit == t.unit && e->entry.token.generation == t.generation)
                return e;
    return NULL;
}

static size_t shelf_copies(struct walk *w, struct token t)
{
    size_t copies = 0;
    for (size_t i = 0; i < w->stock.count; i++) {
        struct sim_copy *c = sim_map_get(&w->stock.all[i]->units, sim_bytes(&t.unit, sizeof t.unit));
        copies += c && c->where != SIM_ABSENT && c->token.generation == t.generation;
    }
    return copies;
}

/* The ledger first: an order has it, or it is on its way; else Redis has it, once. */
static void each_unit_is_in_one_place(struct walk *w)
{
    struct sim_books *b = &w->books.books;
    for (size_t i = 0; i < b->unit_count; i++) {
        struct sim_unit *u = &b->units[i];
        size_t copies = shelf_copies(w, u->token), holders = 0;
        for (size_t n = 0; n < w->stock.count; n++)
            holders += holder_of(w->stock.all[n], u->token) != NULL;
        bool coming = sim_books_row(b, OUTBOX_RETURN, (struct str){0}, u->token) != NULL;
        if (w->redis_forgets)
            continue;
        if (u->consumed)
            assert_int_equal(copies, 0);
        else if (coming)
            assert_true(copies + holders <= 1);    /* told already, and to be told again */
        else
            assert_int_equal(copies + holders, 1);
    }
}

static void the_books_hold(struct walk *w)
{
    struct sim_ground ground = {0};
    struct audit_answer a = sim_books_audit(&w->books.books, (struct str){0}, &ground);
    if (a.count)
        print_message("%.*s %.*s: %.*s\n", STR_ARG(a.findings[0].rule), STR_ARG(a.findings[0].subject), STR_ARG(a.findings[0].detail));
    assert_int_equal(a.count, 0);
    assert_int_equal(a.stock, SKUS * STOCK);
    assert_int_equal(a.available + a.consumed, a.stock);
    assert_int_equal(a.consumed, a.holding);
    assert_true(a.holding <= a.stock);
    if (a.holding > w->orders_most)
        w->orders_most = a.holding;
    sim_ground_free(&ground);
}

/* A request that was told RELEASED is never ORDERED afterwards, whatever Redis has forgotten. */
static void no_answer_turns(struct walk *w)
{
    struct sim_books *b = &w->books.books;
    for (size_t i = 0; i < b->order_count; i++) {
        const struct order *o = &b->orders[i]->order;
        struct sim_key k;
        for (struct sim_inbox *r = sim_map_get(&b->released_by_request, sim_key(&k, o->activity, o->user, o->request)); r; r = r->earlier)
            assert_true(r->decided_ms >= o->created_ms);
    }
}

/* What the store says of a reservation is never against the ledger's verdict. */
static void the_store_follows(struct walk *w)
{
    for (size_t i = 0; i < w->stock.count; i++)
        for (size_t n = 0; n < w->stock.all[i]->record_count; n++)
            for (struct sim_entry *e = w->stock.all[i]->records[n]->newest; e; e = e->older) {
                char name[IDENT_ID_TEXT];
                write_ident(&e->entry.ident, "rsv_", name);
                struct sim_inbox *row = sim_books_inbox(&w->books.books, (struct str){name, sizeof name});
                if (e->entry.state == RESERVATION_ORDERED)
                    assert_true(row && row->outcome == REASON_ORDERED);
                if (e->entry.state == RESERVATION_RELEASED)
                    assert_true(row && row->outcome == REASON_RELEASED);
            }
}

static void promises(struct walk *w)
{
    the_books_hold(w);
    each_unit_is_in_one_place(w);
    the_store_follows(w);
    no_answer_turns(w);
}

/* ---- the walk ---- */

static void seed_bucket_units(struct walk *w)
{
    for (size_t i = 0; i < w->books.books.unit_count; i++) {
        struct sim_unit *u = &w->books.books.units[i];
        struct restock_ask ask = {.bucket = bucket_of(u->home), .sku = u->activity->skus[u->sku].sku, .token = u->token};
        if (u->consumed)
            continue;
        store_restock(&w->store.store, &ask, 1, ASKING(w, NULL, NULL));
        assert_int_equal(await(w), REASON_OK);
    }
}

static void install(struct walk *w, bool seeded)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        store_install(&w->store.store, &(struct install_ask){.bucket = bucket_of(i), .activity = w->books.books.activities[0], .seeded = seeded, .create = true},
                      ASKING(w, NULL, NULL));
        assert_int_equal(await(w), REASON_OK);
    }
}

static void move(struct walk *w, enum activity_event event)
{
    ledger_activity_move(&w->ledger.ledger, &(struct activity_move_ask){.activity = str_lit("walk"), .event = event}, ASKING(w, NULL, NULL));
    assert_int_equal(await(w), REASON_OK);
}

static struct walk *walk_begin(uint64_t seed)
{
    struct walk *w = calloc(1, sizeof *w);
    struct sku skus[SKUS];
    for (size_t i = 0; i < USERS; i++)
        snprintf(user_names[i], sizeof user_names[i], "u%zu", i);
    for (size_t i = 0; i < SKUS; i++)
        skus[i] = (struct sku){.sku = str_of(sku_names[i]), .stock = STOCK, .price = 100, .currency = str_lit("CNY")};
    sim_clock_init(&w->clock, 1796083200000);
    sim_random_init(&w->chance, seed);
    sim_store_world_init(&w->stock, seed);
    sim_ledger_world_init(&w->books);
    sim_store_open(&w->store, &w->stock, &w->clock.clock);
    sim_ledger_open(&w->ledger, &w->books, &w->clock.clock);
    struct activity_create ask = {.activity = {.activity = str_lit("walk"), .title = str_lit("walk"), .buckets = BUCKETS, .starts_ms = 1796083000000,
                                               .ends_ms = 1896083000000, .pay_timeout_s = 900, .skus = skus, .sku_count = SKUS}};
    ledger_activity_create(&w->ledger.ledger, &ask, ASKING(w, NULL, NULL));
    assert_int_equal(await(w), REASON_OK);
    move(w, ACTIVITY_EVENT_WARM);
    install(w, false);
    seed_bucket_units(w);
    install(w, true);
    move(w, ACTIVITY_EVENT_OPEN);
    install(w, false);
    return w;
}

static void walk_end(struct walk *w)
{
    sim_store_close(&w->store);
    sim_ledger_close(&w->ledger);
    sim_snapshot_free(&w->snapshot);
    sim_store_world_end(&w->stock);
    sim_ledger_world_end(&w->books);
    sim_clock_end(&w->clock);
    free(w);
}

/* Redis goes back to where a replica had stayed, or is gone and is filled again in the most careless way: every unit the ledger calls AVAILABLE,
 * whoever may have it. */
static void redis_forgets(struct walk *w)
{
    if (!w->snapshot.buckets) {
        w->snapshot = sim_store_snapshot(&w->stock);
        return;
    }
    if (below(w, 3)) {
        sim_store_rollback(&w->stock, &w->snapshot);
        if (below(w, 2))
            sim_snapshot_free(&w->snapshot);
        return;
    }
    sim_store_lose(&w->stock);
    install(w, false);
    seed_bucket_units(w);
    install(w, true);
}

static void stagger(struct walk *w, size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        uint64_t where = below(w, 100);
        if (where < 40)
            step_reserve(w);
        else if (where < 46)
            step_decide(w, false);
        else if (where < 62)
            step_decide(w, true);
        else if (where < 70)
            step_hint(w);
        else if (where < 92)
            step_relay(w, false);
        else
            step_wait(w);
        if (w->redis_forgets && below(w, 40) == 0)
            redis_forgets(w);
        promises(w);
    }
}

static void overdue(struct walk *w, const void *result, void *arg)
{
    const struct due_answer *answer = result;
    struct release_item *items = arg;
    static char names[64][IDENT_ID_TEXT];
    w->claimed_count = answer->count;
    for (size_t i = 0; i < answer->count; i++) {
        const struct entry *e = &answer->entries[i].entry;
        write_ident(&e->ident, "rsv_", names[i]);
        items[i] = (struct release_item){.why = REASON_OVERDUE, .what = {
            .reservation = {names[i], IDENT_ID_TEXT}, .request = e->request, .activity = str_lit("walk"), .sku = e->sku,
            .user = answer->entries[i].user, .token = e->token, .epoch = 1}};
    }
}

/* The janitor, as far as the walk needs one: whatever has no verdict is put to the ledger. */
static void release_overdue(struct walk *w)
{
    struct release_item items[64];
    sim_clock_run_until(&w->clock, w->clock.mono_us + 20000000);
    for (size_t i = 0; i < BUCKETS; i++) {
        store_due(&w->store.store, &(struct due_ask){.bucket = bucket_of(i), .limit = 32}, ASKING(w, overdue, items));
        assert_int_equal(await(w), REASON_OK);
        ledger_release(&w->ledger.ledger, &(struct release_ask){.items = items, .count = w->claimed_count}, ASKING(w, NULL, NULL));
        assert_int_equal(await(w), REASON_OK);
    }
}

static size_t pending(struct walk *w) { return w->stock.all[0]->turns.count + w->stock.all[1]->turns.count; }

/* Sobriety: every reservation is put to the ledger, everything is told; then nothing is in between any more. */
static void sober_up(struct walk *w)
{
    w->store.calls.weather = w->ledger.calls.weather = (struct sim_weather){0};
    sim_clock_run_until(&w->clock, w->clock.mono_us + 60000000);    /* what was under way arrives */
    for (size_t i = 0; i < w->made_count; i++) {
        struct placed_of p = {.made = {&w->made[i]}, .count = 1};
        struct release_item item = {.what = w->made[i].message, .why = REASON_OVERDUE};
        ledger_release(&w->ledger.ledger, &(struct release_ask){.items = &item, .count = 1}, ASKING(w, decided, &p));
        assert_int_equal(await(w), REASON_OK);
    }
    for (int i = 0; i < 10000 && (w->books.books.outbox_count > 0 || pending(w) > 0); i++) {
        step_relay(w, true);
        if (w->books.books.outbox_count == 0 && pending(w) > 0)
            release_overdue(w);
        sim_clock_run_until(&w->clock, w->clock.mono_us + 10000);
    }
    assert_int_equal(w->books.books.outbox_count, 0);
    assert_int_equal(pending(w), 0);
    promises(w);
    for (size_t i = 0; i < w->books.books.unit_count; i++)
        assert_int_equal(shelf_copies(w, w->books.books.units[i].token), !w->books.books.units[i].consumed);    /* S0 = A + O, by name */
}

struct sort {
    bool forgets;               /* Redis does, now and then */
    uint16_t faults_permille;
};

static uint64_t walk(uint64_t seed, size_t steps, struct sort sort)
{
    struct walk *w = walk_begin(seed);
    struct sim_weather weather = {.ask_us = 200, .answer_us = 200, .jitter_us = 500, .delay_us = 3000000, .random = &w->chance.random};
    for (int f = 0; f < SIM_FAULT_COUNT; f++)
        weather.permille[f] = sort.faults_permille;
    w->redis_forgets = sort.forgets;
    w->store.calls.weather = w->ledger.calls.weather = weather;
    stagger(w, steps);
    sober_up(w);
    assert_true(w->orders_most > 0 && w->made_count > w->orders_most);
    uint64_t trace = w->trace;
    walk_end(w);
    return trace;
}

static void whatever_the_order_of_things_the_promises_hold(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++)
        walk(seed, 800, (struct sort){0});
}

static void and_so_they_do_when_answers_are_missing_late_or_doubled(void **state)
{
    (void)state;
    for (uint64_t seed = 101; seed <= 104; seed++)
        walk(seed, 800, (struct sort){.faults_permille = 40});
}

static void and_the_ledgers_when_redis_goes_back_or_forgets_everything(void **state)
{
    (void)state;
    for (uint64_t seed = 201; seed <= 204; seed++)
        walk(seed, 800, (struct sort){.forgets = true});
}

static void the_same_seed_takes_the_same_walk(void **state)
{
    (void)state;
    uint64_t once = walk(42, 300, (struct sort){.faults_permille = 30});
    assert_true(once == walk(42, 300, (struct sort){.faults_permille = 30}));
    assert_true(once != walk(43, 300, (struct sort){.faults_permille = 30}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_the_order_of_things_the_promises_hold),
        cmocka_unit_test(and_so_they_do_when_answers_are_missing_late_or_doubled),
        cmocka_unit_test(and_the_ledgers_when_redis_goes_back_or_forgets_everything),
        cmocka_unit_test(the_same_seed_takes_the_same_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

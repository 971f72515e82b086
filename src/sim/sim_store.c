/* SPDX-License-Identifier: Apache-2.0
 * sim_store.c: the doors of the imagined store: what is asked is copied, the bucket is found, its rule is run. */
#include "sim_store.h"

#include <stdio.h>
#include <stdlib.h>

#define BUDGET_MS 1000
#define HOLDINGS_SLICE 512
#define DUE_MAX 64

/* ---- the world ----------------------------------------------------------------------------------------------------------- */

void sim_store_world_init(struct sim_store_world *w, uint64_t seed)
{
    *w = (struct sim_store_world){0};
    sim_random_init(&w->chance, seed);
    sim_store_restart(w);
}

static void forget(struct sim_store_world *w)
{
    for (size_t i = 0; i < w->count; i++) {
        w->all[i]->gone_before = w->gone;
        w->gone = w->all[i];
    }
    w->count = 0;
    sim_map_free(&w->buckets);
}

void sim_store_lose(struct sim_store_world *w)
{
    forget(w);
    sim_store_restart(w);
}

void sim_store_world_end(struct sim_store_world *w)
{
    forget(w);
    for (struct sim_bucket *b = w->gone, *before; b; b = before) {
        before = b->gone_before;
        sim_bucket_free(b);
    }
    free(w->all);
    *w = (struct sim_store_world){0};
}

void sim_store_restart(struct sim_store_world *w)
{
    snprintf(w->incarnation, sizeof w->incarnation, "memory-%u", ++w->lives);
    memcpy(w->greeted, w->incarnation, sizeof w->greeted);
}

static struct str key_of(struct sim_key *k, struct bucket name)
{
    uint8_t numbers[2] = {name.epoch, name.number};
    const struct str parts[] = {name.activity, sim_bytes(numbers, sizeof numbers)};
    return sim_key_join(k, parts, countof(parts)) ? k->str : (struct str){0};
}

struct sim_bucket *sim_store_bucket(struct sim_store_world *w, struct bucket name)
{
    struct sim_key k;
    return sim_map_get(&w->buckets, key_of(&k, name));
}

static struct sim_bucket *added(struct sim_store_world *w, struct sim_bucket *b)
{
    struct sim_key k;
    struct bucket name = {.activity = b->activity, .epoch = b->epoch, .number = b->number};
    sim_map_put(&w->buckets, sim_text(&b->ground, key_of(&k, name)), b);
    if (w->count == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 16;
        w->all = realloc(w->all, w->cap * sizeof *w->all);
        check(w->all != NULL);
    }
    return w->all[w->count++] = b;
}

struct sim_snapshot sim_store_snapshot(const struct sim_store_world *w)
{
    struct sim_snapshot s = {.buckets = calloc(w->count + 1, sizeof(struct sim_bucket *)), .count = w->count};
    check(s.buckets != NULL);
    for (size_t i = 0; i < s.count; i++)
        s.buckets[i] = sim_bucket_copy(w->all[i]);
    return s;
}

void sim_store_slip(struct sim_store_world *w, const struct sim_snapshot *s, bool promoted)
{
    forget(w);
    for (size_t i = 0; i < s->count; i++)
        added(w, sim_bucket_copy(s->buckets[i]));
    if (promoted)
        snprintf(w->incarnation, sizeof w->incarnation, "memory-%u-%u", w->lives, ++w->closings);
}

void sim_store_rollback(struct sim_store_world *w, const struct sim_snapshot *s)
{
    sim_store_slip(w, s, false);
    sim_store_restart(w);
}

void sim_snapshot_free(struct sim_snapshot *s)
{
    for (size_t i = 0; i < s->count; i++)
        sim_bucket_free(s->buckets[i]);
    free(s->buckets);
    *s = (struct sim_snapshot){0};
}

/* ---- the doors ----------------------------------------------------------------------------------------------------------- */

static struct sim_store *door(struct sim_call *c) { return c->port; }

/* The connection: to the server as it is now. What it said when it was greeted is all that is known of it, until an answer says more. */
static void connect(struct sim_store *s)
{
    if (s->life == s->world->lives)
        return;
    s->life = s->world->lives;
    memcpy(s->heard, s->world->greeted, sizeof s->heard);
}

static int64_t now_of(struct sim_call *c) { return clock_now_ms(c->of->clock); }

static struct sim_call *call_named(struct store *store, struct waiter *w, const char *name, bool (*act)(struct sim_call *), const void *ask, size_t n)
{
    struct sim_store *s = container_of(store, struct sim_store, store);
    struct sim_call *c = sim_call_new(&s->calls, w, s, name, act, ask, n);
    connect(s);
    c->life = s->life;
    return c;
}
#define call_new(port, waiter, act, ...) call_named((port), (waiter), &#act[sizeof "act_" - 1], (act), __VA_ARGS__)

/* False, and an answer that says why: nobody is there, or the server that was asked is no more. */
static bool arrives(struct sim_call *c)
{
    bool gone = c->life != door(c)->world->lives, away = door(c)->world->away;
    if (gone || away)
        sim_call_answer(c, gone ? REASON_LINK_LOST : REASON_DEPENDENCY_DOWN, NULL);
    return !gone && !away;
}

/* The bucket, which knows what server it is in; NULL: there is none. */
static struct sim_bucket *bucket_here(struct sim_store_world *w, struct bucket name)
{
    struct sim_bucket *b = sim_store_bucket(w, name);
    if (b)
        memcpy(b->here, w->incarnation, sizeof b->here);
    return b;
}

/* The bucket, or an answer that says why not. */
static struct sim_bucket *enter(struct sim_call *c, struct bucket name)
{
    if (!arrives(c))
        return NULL;
    struct sim_bucket *b = bucket_here(door(c)->world, name);
    if (!b)
        sim_call_answer(c, REASON_STALE_EPOCH, NULL);
    return b;
}

static struct str says_who(struct sim_call *c)
{
    memcpy(door(c)->heard, door(c)->world->incarnation, sizeof door(c)->heard);
    return sim_text(&c->ground, str_of(door(c)->world->incarnation));
}

static bool act_reserve(struct sim_call *c)
{
    const struct reserve_ask *ask = c->ask;
    struct sim_bucket *b = enter(c, ask->bucket);
    if (!b)
        return true;
    struct reserve_answer *answer = sim_new(&c->ground, struct reserve_answer);
    return sim_call_answer(c, sim_bucket_reserve(b, ask, now_of(c), answer), answer);
}

static void reserve(struct store *s, const struct reserve_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(s, w, act_reserve, asked, sizeof *asked);
    struct reserve_ask *ask = c->ask;
    sim_call_text(c, &ask->bucket.activity);
    sim_call_text(c, &ask->user);
    sim_call_text(c, &ask->sku);
    sim_call_text(c, &ask->request);
    sim_call_text(c, &ask->nonce);
    sim_call_go(c, 0);
}

/* A batch as it is copied: the items follow. */
struct batch {
    const void *items;
    size_t count;
};

static bool answer_batch(struct sim_call *c, const enum reason *verdicts, size_t count)
{
    struct batch_result *result = sim_new(&c->ground, struct batch_result);
    *result = (struct batch_result){.verdicts = verdicts, .count = count};
    return sim_call_answer(c, REASON_OK, result);
}

static bool act_settle(struct sim_call *c)
{
    const struct batch *batch = c->ask;
    const struct settle_ask *asks = batch->items;
    enum reason *verdicts = sim_array(&c->ground, enum reason, batch->count);
    if (!arrives(c))
        return true;
    for (size_t i = 0; i < batch->count; i++) {
        struct sim_bucket *b = bucket_here(door(c)->world, asks[i].bucket);
        verdicts[i] = b ? sim_bucket_settle(b, &asks[i], now_of(c)) : REASON_STALE_EPOCH;
    }
    return answer_batch(c, verdicts, batch->count);
}

static void settle(struct store *s, const struct settle_ask *asked, size_t count, struct waiter *w)
{
    check(count <= STORE_BATCH_MAX);
    struct sim_call *c = call_new(s, w, act_settle, &(struct batch){.count = count}, sizeof(struct batch));
    struct settle_ask *asks = sim_call_copy(c, asked, count * sizeof *asked);
    for (size_t i = 0; i < count; i++) {
        struct str *texts[] = {&asks[i].bucket.activity, &asks[i].user, &asks[i].request, &asks[i].sku,
                               &asks[i].superseded_by, &asks[i].superseded_request, &asks[i].superseded_sku};
        for (size_t j = 0; j < countof(texts); j++)
            sim_call_text(c, texts[j]);
    }
    ((struct batch *)c->ask)->items = asks;
    sim_call_go(c, 0);
}

static bool act_restock(struct sim_call *c)
{
    const struct batch *batch = c->ask;
    const struct restock_ask *asks = batch->items;
    enum reason *verdicts = sim_array(&c->ground, enum reason, batch->count);
    if (!arrives(c))
        return true;
    for (size_t i = 0; i < batch->count; i++) {
        struct sim_bucket *b = bucket_here(door(c)->world, asks[i].bucket);
        verdicts[i] = b ? sim_bucket_restock(b, &asks[i], now_of(c)) : REASON_STALE_EPOCH;
    }
    return answer_batch(c, verdicts, batch->count);
}

static void restock(struct store *s, const struct restock_ask *asked, size_t count, struct waiter *w)
{
    check(count <= STORE_BATCH_MAX);
    struct sim_call *c = call_new(s, w, act_restock, &(struct batch){.count = count}, sizeof(struct batch));
    struct restock_ask *asks = sim_call_copy(c, asked, count * sizeof *asked);
    for (size_t i = 0; i < count; i++) {
        sim_call_text(c, &asks[i].bucket.activity);
        sim_call_text(c, &asks[i].sku);
    }
    ((struct batch *)c->ask)->items = asks;
    sim_call_go(c, 0);
}

static bool act_look(struct sim_call *c)
{
    const struct look_ask *ask = c->ask;
    struct sim_bucket *b = enter(c, ask->bucket);
    if (!b)
        return true;
    if (b->missing & SIM_KEY_USERS)
        return sim_call_answer(c, REASON_STRUCTURE_LOST, NULL);
    struct sim_record *r = sim_bucket_user(b, ask->user);
    size_t count = 0, at = 0;
    for (struct sim_entry *e = r ? r->newest : NULL; e; e = e->older)
        count++;
    struct entry *entries = sim_array(&c->ground, struct entry, count);
    for (struct sim_entry *e = r ? r->newest : NULL; e; e = e->older)
        entries[at++] = e->entry;
    struct look_answer *answer = sim_new(&c->ground, struct look_answer);
    *answer = (struct look_answer){.entries = entries, .count = count, .now_ms = now_of(c), .sequence = b->sequence};
    return sim_call_answer(c, REASON_OK, answer);
}

static void look(struct store *s, const struct look_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(s, w, act_look, asked, sizeof *asked);
    struct look_ask *ask = c->ask;
    sim_call_text(c, &ask->bucket.activity);
    sim_call_text(c, &ask->user);
    sim_call_go(c, 0);
}

static bool act_due(struct sim_call *c)
{
    const struct due_ask *ask = c->ask;
    struct sim_bucket *b = enter(c, ask->bucket);
    if (!b)
        return true;
    struct sim_record *users[DUE_MAX];
    size_t user_count = 0, entry_count = 0, at = 0;
    if (sim_bucket_finds_lost(b, SIM_KEY_PENDING, now_of(c)))
        return sim_call_answer(c, REASON_STRUCTURE_LOST, NULL);
    b->sequence++;
    while (user_count < ask->limit) {
        struct sim_record *r = sim_bucket_due(b, now_of(c), random_next(&door(c)->world->chance.random));
        if (!r)
            break;
        users[user_count++] = r;
        entry_count += r->undecided;
    }
    struct due_entry *entries = sim_array(&c->ground, struct due_entry, entry_count);
    for (size_t i = 0; i < user_count; i++)
        for (struct sim_entry *e = users[i]->newest; e; e = e->older)
            if (!reservation_state_terminal(e->entry.state))
                entries[at++] = (struct due_entry){.user = users[i]->user, .entry = e->entry};
    check(at == entry_count);
    struct due_answer *answer = sim_new(&c->ground, struct due_answer);
    *answer = (struct due_answer){.entries = entries, .count = at, .waiting = b->turns.count, .now_ms = now_of(c), .sequence = b->sequence};
    return sim_call_answer(c, REASON_OK, answer);
}

static void due(struct store *s, const struct due_ask *asked, struct waiter *w)
{
    check(asked->limit <= DUE_MAX);
    struct sim_call *c = call_new(s, w, act_due, asked, sizeof *asked);
    sim_call_text(c, &((struct due_ask *)c->ask)->bucket.activity);
    sim_call_go(c, 0);
}

static bool act_stock(struct sim_call *c)
{
    const struct stock_ask *ask = c->ask;
    struct sim_bucket *b = enter(c, ask->bucket);
    if (!b)
        return true;
    if (sim_bucket_finds_lost(b, SIM_KEYS_ALL, now_of(c)))
        return sim_call_answer(c, REASON_STRUCTURE_LOST, NULL);
    sim_bucket_ripen(b, now_of(c));
    struct stock_sku *skus = sim_array(&c->ground, struct stock_sku, b->shelf_count);
    for (size_t i = 0; i < b->shelf_count; i++)
        skus[i] = (struct stock_sku){.sku = b->shelves[i].sku, .free = b->shelves[i].free.count,
                                     .resting = b->shelves[i].resting.count, .wanted = b->shelves[i].wanted};
    struct stock_answer *answer = sim_new(&c->ground, struct stock_answer);
    *answer = (struct stock_answer){
        .state = b->state, .version = b->version, .seeded = b->seeded, .closed = b->mark[0] != 0, .mark = sim_text(&c->ground, str_of(b->mark)), .sequence = ++b->sequence,
        .restocks = b->restocks, .pending = b->turns.count, .incarnation = says_who(c),
        .skus = skus, .sku_count = b->shelf_count, .filter_bits = b->filter_bits, .now_ms = now_of(c)};
    if (b->lost && strcmp(b->indexed, b->mark) != 0)
        answer->lost = str_lit("some");
    if (ask->with_filter)
        answer->filter = sim_text(&c->ground, sim_bytes(b->filter, b->filter_bits / 8));
    return sim_call_answer(c, REASON_OK, answer);
}

static void stock(struct store *s, const struct stock_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(s, w, act_stock, asked, sizeof *asked);
    sim_call_text(c, &((struct stock_ask *)c->ask)->bucket.activity);
    sim_call_go(c, 0);
}

static bool act_install(struct sim_call *c)
{
    const struct install_ask *ask = c->ask;
    if (!arrives(c))
        return true;
    struct sim_bucket *b = sim_store_bucket(door(c)->world, ask->bucket);
    if (!b && !ask->create)
        return sim_call_answer(c, REASON_STALE_EPOCH, NULL);
    if (!b)
        b = added(door(c)->world, sim_bucket_new(ask->bucket, ask->activity));
    return sim_call_answer(c, sim_bucket_install(b, ask->activity, ask->seeded, now_of(c)), NULL);
}

static void install(struct store *s, const struct install_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(s, w, act_install, asked, sizeof *asked);
    struct install_ask *ask = c->ask;
    struct activity *activity = sim_call_copy(c, asked->activity, sizeof *activity);
    struct sku *skus = sim_call_copy(c, activity->skus, activity->sku_count * sizeof *skus);
    for (size_t i = 0; i < activity->sku_count; i++)
        sim_call_text(c, &skus[i].sku);
    sim_call_text(c, &ask->bucket.activity);
    activity->skus = skus;
    ask->activity = activity;
    sim_call_go(c, 0);
}

/* ---- holdings: the copies one after another, then the records; the cursor is how many of both were seen ------------------- */

static size_t held_copies(struct sim_bucket *b, uint64_t from, struct held *out)
{
    size_t count = 0;
    for (uint64_t i = from; i < b->copy_count && i < from + HOLDINGS_SLICE; i++) {
        const struct sim_copy *copy = b->copies[i];
        if (copy->where != SIM_ABSENT)
            out[count++] = (struct held){.holding = copy->where == SIM_FREE ? HOLDING_FREE : HOLDING_RESTING,
                                         .sku = b->shelves[copy->sku].sku, .token = copy->token};
    }
    return count;
}

static size_t held_entries(const struct sim_record *r, struct held *out)
{
    size_t count = 0;
    for (const struct sim_entry *e = r->newest; e; e = e->older)
        if (!reservation_state_terminal(e->entry.state))
            out[count++] = (struct held){.holding = HOLDING_RESERVED, .sku = e->entry.sku, .token = e->entry.token, .user = r->user,
                                         .ident = e->entry.ident, .state = e->entry.state, .created_ms = e->entry.created_ms};
    return count;
}

static bool act_holdings(struct sim_call *c)
{
    const struct holdings_ask *ask = c->ask;
    struct sim_bucket *b = enter(c, ask->bucket);
    uint64_t from = 0;
    if (!b)
        return true;
    if (ask->cursor.len > 0 && !str_to_u64(ask->cursor, &from))
        return sim_call_answer(c, REASON_ENGINE_REFUSED, NULL);
    sim_bucket_ripen(b, now_of(c));
    struct holdings_answer *answer = sim_new(&c->ground, struct holdings_answer);
    uint64_t next, end = b->copy_count + b->record_count;
    if (from < b->copy_count) {
        struct held *held = sim_array(&c->ground, struct held, HOLDINGS_SLICE);
        answer->count = held_copies(b, from, held);
        answer->held = held;
        next = from + HOLDINGS_SLICE < b->copy_count ? from + HOLDINGS_SLICE : b->copy_count;
    } else {
        next = from + HOLDINGS_SLICE < end ? from + HOLDINGS_SLICE : end;
        size_t room = 0;
        for (uint64_t i = from; i < next; i++)
            room += b->records[i - b->copy_count]->undecided;
        struct held *held = sim_array(&c->ground, struct held, room);
        for (uint64_t i = from; i < next; i++)
            answer->count += held_entries(b->records[i - b->copy_count], held + answer->count);
        answer->held = held;
    }
    if (next < end) {
        struct buf cursor = buf_fixed(sim_take(&c->ground, 24), 24);
        buf_add_u64(&cursor, next);
        answer->cursor = buf_str(&cursor);
    }
    return sim_call_answer(c, REASON_OK, answer);
}

static void holdings(struct store *s, const struct holdings_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(s, w, act_holdings, asked, sizeof *asked);
    struct holdings_ask *ask = c->ask;
    sim_call_text(c, &ask->bucket.activity);
    sim_call_text(c, &ask->cursor);
    sim_call_go(c, 0);
}

/* ---- close, open --------------------------------------------------------------------------------------------------------- */

static bool act_close(struct sim_call *c)
{
    const struct close_ask *ask = c->ask;
    struct sim_store_world *w = door(c)->world;
    struct sim_bucket *b = enter(c, ask->bucket);
    if (!b)
        return true;
    char mark[MARK_TEXT];
    snprintf(mark, sizeof mark, "%s/%u", w->incarnation, ++w->closings);
    struct close_answer *answer = sim_new(&c->ground, struct close_answer);
    enum reason reason = sim_bucket_close(b, ask, str_of(w->incarnation), str_of(mark), now_of(c));
    *answer = (struct close_answer){.sequence = b->sequence, .incarnation = says_who(c), .mark = sim_text(&c->ground, str_of(b->mark))};
    return sim_call_answer(c, reason, answer);
}

static void close_bucket(struct store *s, const struct close_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(s, w, act_close, asked, sizeof *asked);
    struct close_ask *ask = c->ask;
    sim_call_text(c, &ask->bucket.activity);
    sim_call_text(c, &ask->recorded);
    sim_call_go(c, 0);
}

static bool act_open(struct sim_call *c)
{
    const struct open_ask *ask = c->ask;
    struct sim_bucket *b = enter(c, ask->bucket);
    if (!b)
        return true;
    struct open_answer *answer = sim_new(&c->ground, struct open_answer);
    enum reason reason = sim_bucket_open(b, ask, str_of(door(c)->world->incarnation), now_of(c), &answer->closed_ms);
    answer->sequence = b->sequence;
    return sim_call_answer(c, reason, answer);
}

static void open_bucket(struct store *s, const struct open_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(s, w, act_open, asked, sizeof *asked);
    struct open_ask *ask = c->ask;
    sim_call_text(c, &ask->bucket.activity);
    sim_call_text(c, &ask->mark);
    sim_call_go(c, 0);
}

static bool act_reindex(struct sim_call *c)
{
    const struct reindex_ask *ask = c->ask;
    struct sim_store_world *w = door(c)->world;
    struct sim_bucket *b = enter(c, ask->bucket);
    if (!b)
        return true;
    char mark[MARK_TEXT];
    snprintf(mark, sizeof mark, "%s/%u", w->incarnation, ++w->closings);
    struct reindex_answer *answer = sim_new(&c->ground, struct reindex_answer);
    enum reason reason = sim_bucket_reindex(b, ask, str_of(mark), now_of(c));
    *answer = (struct reindex_answer){.sequence = b->sequence, .mark = sim_text(&c->ground, str_of(b->mark))};
    return sim_call_answer(c, reason, answer);
}

static void reindex(struct store *s, const struct reindex_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(s, w, act_reindex, asked, sizeof *asked);
    struct reindex_ask *ask = c->ask;
    sim_call_text(c, &ask->bucket.activity);
    sim_call_text(c, &ask->mark);
    sim_call_text(c, &ask->cursor);
    sim_call_go(c, 0);
}

static struct str incarnation(struct store *store, const struct bucket *bucket)
{
    struct sim_store *s = container_of(store, struct sim_store, store);
    (void)bucket;
    if (s->world->away)
        return (struct str){0};
    connect(s);
    return str_of(s->heard);
}

static bool act_prove(struct sim_call *c) { return !arrives(c) || sim_call_answer(c, REASON_OK, NULL); }

static void prove(struct store *s, struct waiter *w)
{
    char nothing = 0;
    sim_call_go(call_new(s, w, act_prove, &nothing, sizeof nothing), 0);
}

static const struct store_ops ops = {.name = "memory", .reserve = reserve, .settle = settle, .restock = restock, .look = look,
                                     .due = due, .stock = stock, .install = install, .holdings = holdings, .close = close_bucket,
                                     .open = open_bucket, .reindex = reindex, .incarnation = incarnation, .prove = prove};

void sim_store_open(struct sim_store *s, struct sim_store_world *w, struct clock *clock)
{
    *s = (struct sim_store){.store = {&ops}, .world = w};
    sim_calls_init(&s->calls, clock, BUDGET_MS);
}

void sim_store_close(struct sim_store *s) { sim_calls_end(&s->calls); }

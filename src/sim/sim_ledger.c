/* SPDX-License-Identifier: Apache-2.0
 * sim_ledger.c: the doors of the imagined ledger: what is asked is copied, the books do it, the rows are shown. Texts of answers are
 * the books' own and live as long as they. */
#include "sim_ledger.h"

#include "hash.h"

#define BUDGET_MS 5000
#define UNITS_MAX 4096

void sim_ledger_world_init(struct sim_ledger_world *w)
{
    w->away = false;
    sim_books_init(&w->books);
}

void sim_ledger_world_end(struct sim_ledger_world *w) { sim_books_end(&w->books); }

static struct sim_call *call_named(struct ledger *ledger, struct waiter *w, const char *name, bool (*act)(struct sim_call *), const void *ask, size_t n)
{
    struct sim_ledger *l = container_of(ledger, struct sim_ledger, ledger);
    return sim_call_new(&l->calls, w, l, name, act, ask, n);
}
#define call_new(port, waiter, act, ...) call_named((port), (waiter), &#act[sizeof "act_" - 1], (act), __VA_ARGS__)

/* The books, or an answer that says why not. */
static struct sim_books *enter(struct sim_call *c)
{
    struct sim_ledger_world *w = ((struct sim_ledger *)c->port)->world;
    w->books.now_ms = clock_now_ms(c->of->clock);
    if (!w->away)
        return &w->books;
    sim_call_answer(c, REASON_DEPENDENCY_DOWN, NULL);
    return NULL;
}

static int64_t now_of(struct sim_call *c) { return clock_now_ms(c->of->clock); }

static void copy_message(struct sim_call *c, struct create_order *m)
{
    struct str *texts[] = {&m->message, &m->request, &m->reservation, &m->activity, &m->sku, &m->user, &m->trace};
    for (size_t i = 0; i < countof(texts); i++)
        sim_call_text(c, texts[i]);
}

static void copy_prefix(struct sim_call *c, struct queue_prefix *p)
{
    sim_call_text(c, &p->queue.broker);
    sim_call_text(c, &p->queue.topic);
    sim_call_text(c, &p->identity);
}

/* ---- lease ---- */

static bool act_lease(struct sim_call *c)
{
    const struct lease_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct leased *leased = sim_array(&c->ground, struct leased, ask->count);
    struct lease_answer *answer = sim_new(&c->ground, struct lease_answer);
    *answer = (struct lease_answer){.leased = leased, .count = sim_books_lease(b, ask, now_of(c), leased), .now_ms = now_of(c)};
    return sim_call_answer(c, REASON_OK, answer);
}

static void lease(struct ledger *l, const struct lease_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_lease, asked, sizeof *asked);
    struct lease_ask *ask = c->ask;
    struct queue *queues = sim_call_copy(c, asked->queues, asked->count * sizeof *queues);
    for (size_t i = 0; i < asked->count; i++) {
        sim_call_text(c, &queues[i].broker);
        sim_call_text(c, &queues[i].topic);
    }
    sim_call_text(c, &ask->group);
    sim_call_text(c, &ask->owner);
    ask->queues = queues;
    ask->starts = sim_call_copy(c, asked->starts, asked->count * sizeof *asked->starts);
    if (asked->caught_up_ms)
        ask->caught_up_ms = sim_call_copy(c, asked->caught_up_ms, asked->count * sizeof *asked->caught_up_ms);
    sim_call_go(c, 0);
}

/* ---- place, release, park ---- */

static bool answer_place(struct sim_call *c, enum reason reason, const struct verdict *verdicts, size_t count, bool regressed)
{
    struct place_answer *answer = sim_new(&c->ground, struct place_answer);
    *answer = (struct place_answer){.verdicts = verdicts, .count = count, .regressed = regressed};
    return sim_call_answer(c, reason, reason == REASON_OK ? answer : NULL);
}

/* Whether another transaction holds the unit of this item during this second: as often as calls are refused. It draws nothing: the other faults of a seed stay as they are. */
static bool unit_held(struct sim_call *c, struct sim_books *b, const struct create_order *what)
{
    struct hash_key key = {(uint64_t)(now_of(c) / 1000), (uint64_t)what->token.unit};
    uint16_t permille = c->of->weather.permille[SIM_FAULT_REFUSED];
    return permille > 0 && hash_keyed(key, what->reservation) % 1000 < permille && !sim_books_inbox(b, what->reservation);
}

/* The items whose unit is held are left out, and say so. */
static bool act_place(struct sim_call *c)
{
    const struct place_ask *asked = c->ask;
    struct sim_books *b = enter(c);
    bool regressed;
    if (!b)
        return true;
    struct create_order items[LEDGER_BATCH_MAX];
    struct verdict decided[LEDGER_BATCH_MAX], *verdicts = sim_array(&c->ground, struct verdict, asked->count);
    struct place_ask ask = *asked;
    size_t at[LEDGER_BATCH_MAX];
    ask.items = items;
    ask.count = 0;
    for (size_t i = 0; i < asked->count; i++) {
        verdicts[i] = (struct verdict){.outcome = REASON_LOCK_TIMEOUT, .why = REASON_OK};
        at[ask.count] = i;
        if (!unit_held(c, b, &asked->items[i]))
            items[ask.count++] = asked->items[i];
        else
            sim_map_put(&b->held_by_reservation, sim_text(&b->ground, asked->items[i].reservation), b);
    }
    enum reason reason = sim_books_place(b, &ask, now_of(c), decided, &regressed);
    for (size_t i = 0; i < ask.count; i++)
        verdicts[at[i]] = decided[i];
    return answer_place(c, reason, verdicts, asked->count, regressed);
}

static void place(struct ledger *l, const struct place_ask *asked, struct waiter *w)
{
    check(asked->count <= LEDGER_BATCH_MAX);
    struct sim_call *c = call_new(l, w, act_place, asked, sizeof *asked);
    struct place_ask *ask = c->ask;
    struct queue_prefix *prefixes = sim_call_copy(c, asked->prefixes, asked->prefix_count * sizeof *prefixes);
    struct create_order *items = sim_call_copy(c, asked->items, asked->count * sizeof *items);
    for (size_t i = 0; i < asked->prefix_count; i++)
        copy_prefix(c, &prefixes[i]);
    for (size_t i = 0; i < asked->count; i++)
        copy_message(c, &items[i]);
    sim_call_text(c, &ask->group);
    sim_call_text(c, &ask->owner);
    ask->prefixes = prefixes;
    ask->items = items;
    sim_call_go(c, 0);
}

static bool act_release(struct sim_call *c)
{
    const struct release_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    bool regressed;
    if (!b)
        return true;
    struct verdict *verdicts = sim_array(&c->ground, struct verdict, ask->count);
    enum reason reason = sim_books_release(b, ask, now_of(c), verdicts, &regressed);
    return answer_place(c, reason, verdicts, ask->count, regressed);
}

static void release(struct ledger *l, const struct release_ask *asked, struct waiter *w)
{
    check(asked->count <= LEDGER_BATCH_MAX);
    struct sim_call *c = call_new(l, w, act_release, asked, sizeof *asked);
    struct release_item *items = sim_call_copy(c, asked->items, asked->count * sizeof *items);
    for (size_t i = 0; i < asked->count; i++)
        copy_message(c, &items[i].what);
    ((struct release_ask *)c->ask)->items = items;
    sim_call_go(c, 0);
}

static bool act_release_lost(struct sim_call *c)
{
    struct sim_books *b = enter(c);
    return b ? sim_call_answer(c, sim_books_release_lost(b, c->ask, now_of(c)), NULL) : true;
}

static void release_lost(struct ledger *l, const struct release_lost_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_release_lost, asked, sizeof *asked);
    struct release_lost_ask *ask = c->ask;
    struct str *texts[] = {&ask->group, &ask->reservation, &ask->activity, &ask->sku, &ask->user};
    for (size_t i = 0; i < countof(texts); i++)
        sim_call_text(c, texts[i]);
    sim_call_go(c, 0);
}

static bool act_decided(struct sim_call *c)
{
    const struct decided_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    bool *decided = sim_array(&c->ground, bool, ask->count);
    struct decided_answer *answer = sim_new(&c->ground, struct decided_answer);
    for (size_t i = 0; i < ask->count; i++)
        decided[i] = sim_books_inbox(b, ask->reservations[i]) != NULL;
    *answer = (struct decided_answer){.decided = decided, .count = ask->count};
    return sim_call_answer(c, REASON_OK, answer);
}

static void decided(struct ledger *l, const struct decided_ask *asked, struct waiter *w)
{
    check(asked->count >= 1 && asked->count <= LEDGER_BATCH_MAX);
    struct sim_call *c = call_new(l, w, act_decided, asked, sizeof *asked);
    struct str *reservations = sim_call_copy(c, asked->reservations, asked->count * sizeof *reservations);
    for (size_t i = 0; i < asked->count; i++)
        sim_call_text(c, &reservations[i]);
    ((struct decided_ask *)c->ask)->reservations = reservations;
    sim_call_go(c, 0);
}

static bool act_backlog(struct sim_call *c)
{
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct backlog_answer *answer = sim_new(&c->ground, struct backlog_answer);
    *answer = sim_books_backlog(b, c->ask, now_of(c));
    return sim_call_answer(c, REASON_OK, answer);
}

static void backlog(struct ledger *l, const struct backlog_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_backlog, asked, sizeof *asked);
    sim_call_text(c, &((struct backlog_ask *)c->ask)->group);
    sim_call_text(c, &((struct backlog_ask *)c->ask)->activity);
    sim_call_go(c, 0);
}

static bool act_park(struct sim_call *c)
{
    struct sim_books *b = enter(c);
    return b ? sim_call_answer(c, sim_books_park(b, c->ask, now_of(c)), NULL) : true;
}

static void park(struct ledger *l, const struct park_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_park, asked, sizeof *asked);
    struct park_ask *ask = c->ask;
    if (asked->prefix) {
        struct queue_prefix *prefix = sim_call_copy(c, asked->prefix, sizeof *prefix);
        copy_prefix(c, prefix);
        ask->prefix = prefix;
    }
    if (asked->what) {
        struct create_order *what = sim_call_copy(c, asked->what, sizeof *what);
        copy_message(c, what);
        ask->what = what;
    }
    sim_call_text(c, &ask->group);
    sim_call_text(c, &ask->owner);
    sim_call_text(c, &ask->body);
    sim_call_text(c, &ask->key);
    sim_call_go(c, 0);
}

/* ---- look ---- */

static struct str reservation_named(struct sim_books *b, const struct ledger_look_ask *ask)
{
    struct sim_key k;
    if (ask->by == LOOK_RESERVATION)
        return ask->id;
    if (ask->by == LOOK_ORDER) {
        const struct sim_order *o = sim_map_get(&b->order_by_id, ask->id);
        return o ? o->order.reservation : (struct str){0};
    }
    if (!sim_key_join(&k, (const struct str[]){ask->activity, ask->user, ask->id}, 3))
        return (struct str){0};
    const struct sim_order *o = sim_map_get(&b->order_by_request, k.str);
    const struct sim_inbox *released = sim_books_first_released(sim_map_get(&b->released_by_request, k.str));
    const struct sim_review *review = sim_map_get(&b->review_by_request, k.str);
    return o ? o->order.reservation : released ? released->what.reservation    /* whose superseded_by tells the rest */
           : review && review->open ? review->what.reservation : (struct str){0};
}

static bool act_look(struct sim_call *c)
{
    const struct ledger_look_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct str id = reservation_named(b, ask);
    const struct sim_inbox *row = sim_books_inbox(b, id);
    const struct sim_order *o = sim_books_order(b, id);
    const struct sim_review *review = sim_map_get(&b->review_by_reservation, id);
    bool parked = review && review->open;
    const struct create_order *what = row ? &row->what : parked ? &review->what : NULL;
    if (!what || (ask->user.len > 0 && !str_eq(what->user, ask->user)))
        return sim_call_answer(c, REASON_NOT_FOUND, NULL);
    struct ledger_look_answer *answer = sim_new(&c->ground, struct ledger_look_answer);
    *answer = (struct ledger_look_answer){.decided = row != NULL, .what = *what, .has_order = o != NULL, .parked = parked};
    if (row && parked && row->what.message.len == 0)    /* decided without a message; the one that was parked is known */
        answer->what.message = review->what.message;
    if (row) {
        answer->verdict = sim_books_verdict(row, false);
        answer->decided_ms = row->decided_ms;
    }
    if (o) {
        answer->order = o->order;
        answer->verdict.order = o->order.order;
    }
    if (o && ask->by == LOOK_ORDER) {
        struct payment_record *payments = sim_array(&c->ground, struct payment_record, LOOK_PAYMENTS_MAX);
        answer->payments = payments;
        answer->payment_count = sim_books_payments(b, o->order.order, payments);
    }
    return sim_call_answer(c, REASON_OK, answer);
}

static void look(struct ledger *l, const struct ledger_look_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_look, asked, sizeof *asked);
    struct ledger_look_ask *ask = c->ask;
    sim_call_text(c, &ask->id);
    sim_call_text(c, &ask->activity);
    sim_call_text(c, &ask->user);
    sim_call_go(c, 0);
}

/* ---- outbox ---- */

static bool act_claim(struct sim_call *c)
{
    const struct claim_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct outbox_row *rows = sim_array(&c->ground, struct outbox_row, ask->limit);
    struct claim_answer *answer = sim_new(&c->ground, struct claim_answer);
    answer->rows = rows;
    answer->count = sim_books_claim(b, ask->limit, ask->hold_ms, now_of(c), rows, &answer->waiting, &answer->oldest_ms);
    return sim_call_answer(c, REASON_OK, answer);
}

static void claim(struct ledger *l, const struct claim_ask *asked, struct waiter *w)
{
    check(asked->limit <= LEDGER_BATCH_MAX);
    sim_call_go(call_new(l, w, act_claim, asked, sizeof *asked), 0);
}

static bool act_finish(struct sim_call *c)
{
    const struct finish_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    sim_books_finish(b, ask->items, ask->count);
    return sim_call_answer(c, REASON_OK, NULL);
}

static void finish(struct ledger *l, const struct finish_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_finish, asked, sizeof *asked);
    ((struct finish_ask *)c->ask)->items = sim_call_copy(c, asked->items, asked->count * sizeof *asked->items);
    sim_call_go(c, 0);
}

/* ---- activities ---- */

/* As it stands now: it may be moved while the answer is on its way. */
static const struct activity *shown(struct sim_call *c, const struct activity *a) { return a ? sim_call_copy(c, a, sizeof *a) : NULL; }

static bool act_create(struct sim_call *c)
{
    struct sim_books *b = enter(c);
    const struct activity *a = NULL;
    if (!b)
        return true;
    enum reason reason = sim_books_create(b, c->ask, &a);
    return sim_call_answer(c, reason, shown(c, a));
}

static void activity_create(struct ledger *l, const struct activity_create *asked, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_create, &asked->activity, sizeof asked->activity);
    struct activity *a = c->ask;
    struct sku *skus = sim_call_copy(c, a->skus, a->sku_count * sizeof *skus);
    for (size_t i = 0; i < a->sku_count; i++) {
        sim_call_text(c, &skus[i].sku);
        sim_call_text(c, &skus[i].currency);
    }
    sim_call_text(c, &a->activity);
    sim_call_text(c, &a->title);
    a->skus = skus;
    sim_call_go(c, 0);
}

static bool act_move(struct sim_call *c)
{
    const struct activity_move_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    const struct activity *a = NULL;
    if (!b)
        return true;
    enum reason reason = sim_books_move(b, ask->activity, ask->event, ask->version, &a);
    return sim_call_answer(c, reason, shown(c, a));
}

static void move(struct ledger *l, const struct activity_move_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_move, asked, sizeof *asked);
    sim_call_text(c, &((struct activity_move_ask *)c->ask)->activity);
    sim_call_go(c, 0);
}

static bool has_unit(const struct activity *a, int64_t unit)
{
    const struct sku *last = &a->skus[a->sku_count - 1];
    return unit >= a->skus[0].unit_first && unit < last->unit_first + last->stock;
}

static bool is_asked(const struct activities_ask *ask, const struct activity *a, size_t paged)
{
    bool asked = (ask->live && !a->retired) || (ask->unit > 0 && has_unit(a, ask->unit)) || (a->number > ask->after && paged < ask->limit);
    for (size_t i = 0; !asked && i < ask->name_count; i++)
        asked = str_eq(ask->names[i], a->activity);
    for (size_t i = 0; !asked && i < ask->number_count; i++)
        asked = ask->numbers[i] == a->number;
    return asked;
}

static bool act_activities(struct sim_call *c)
{
    const struct activities_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct activity *all = sim_array(&c->ground, struct activity, b->activity_count + 1);
    size_t count = 0, paged = 0;
    for (size_t i = 0; i < b->activity_count; i++) {
        bool asked = is_asked(ask, b->activities[i], paged);
        paged += b->activities[i]->number > ask->after;
        if (!asked)
            continue;
        struct activity *a = &all[count++];
        *a = *b->activities[i];
        struct str *incarnations = sim_array(&c->ground, struct str, a->buckets);
        for (uint8_t k = 0; k < a->buckets; k++)
            incarnations[k] = sim_books_incarnation(b, &(struct bucket){a->activity, a->epoch, k});
        a->incarnations = incarnations;
    }
    struct activities_answer *answer = sim_new(&c->ground, struct activities_answer);
    *answer = (struct activities_answer){.activities = all, .count = count};
    return sim_call_answer(c, REASON_OK, answer);
}

static void activities(struct ledger *l, const struct activities_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_activities, asked, sizeof *asked);
    struct activities_ask *a = c->ask;
    struct str *names = sim_call_copy(c, asked->names, asked->name_count * sizeof *names);
    for (size_t i = 0; i < asked->name_count; i++)
        sim_call_text(c, &names[i]);
    a->names = names;
    a->numbers = sim_call_copy(c, asked->numbers, asked->number_count * sizeof *a->numbers);
    sim_call_go(c, 0);
}

static bool act_retire(struct sim_call *c)
{
    struct sim_books *b = enter(c);
    return !b || sim_call_answer(c, sim_books_retire(b, c->ask), NULL);
}

static void retire(struct ledger *l, const struct retire_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_retire, asked, sizeof *asked);
    sim_call_text(c, &((struct retire_ask *)c->ask)->activity);
    sim_call_go(c, 0);
}

/* ---- units, audit ---- */

static struct ledger_unit unit_shown(struct sim_books *b, const struct sim_unit *u)
{
    const struct sim_order *o = sim_map_get(&b->order_by_unit, sim_bytes(&u->token.unit, sizeof u->token.unit));
    return (struct ledger_unit){
        .token = u->token, .sku = u->activity->skus[u->sku].sku, .home = u->home, .available = !u->consumed,
        .reservation = u->consumed ? u->reservation : (struct str){0},
        .ordered = o && order_state_holds_stock(o->order.state),
        .returning = sim_books_row(b, OUTBOX_RETURN, (struct str){0}, u->token) ||
                     (u->reservation.len > 0 && sim_books_row(b, OUTBOX_STATUS, u->reservation, (struct token){0}))};
}

static bool act_units(struct sim_call *c)
{
    const struct units_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    const struct activity *a = sim_books_activity(b, ask->activity);
    struct ledger_unit *units = sim_array(&c->ground, struct ledger_unit, ask->limit);
    struct units_answer *answer = sim_new(&c->ground, struct units_answer);
    answer->units = units;
    for (size_t s = 0; a && s < a->sku_count; s++) {
        int64_t end = a->skus[s].unit_first + a->skus[s].stock;
        int64_t from = ask->after >= a->skus[s].unit_first ? ask->after + 1 : a->skus[s].unit_first;
        for (int64_t unit = from; unit < end && answer->count < ask->limit; unit++) {
            const struct sim_unit *u = sim_books_unit(b, unit);
            if ((ask->bucket < 0 || u->home == ask->bucket) && (!ask->available || !u->consumed))
                units[answer->count++] = unit_shown(b, u);
        }
    }
    return sim_call_answer(c, REASON_OK, answer);
}

static void units(struct ledger *l, const struct units_ask *asked, struct waiter *w)
{
    check(asked->limit <= UNITS_MAX);
    struct sim_call *c = call_new(l, w, act_units, asked, sizeof *asked);
    sim_call_text(c, &((struct units_ask *)c->ask)->activity);
    sim_call_go(c, 0);
}

/* ---- healing ---- */

static bool act_heal(struct sim_call *c)
{
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct heal_answer *answer = sim_new(&c->ground, struct heal_answer);
    enum reason reason = sim_books_heal(b, c->ask, now_of(c), answer);
    return sim_call_answer(c, reason, reason == REASON_OK ? answer : NULL);
}

static void heal(struct ledger *l, const struct heal_ask *asked, struct waiter *w)
{
    check(asked->limit > 0 && asked->limit <= HEAL_MAX);
    struct sim_call *c = call_new(l, w, act_heal, asked, sizeof *asked);
    struct heal_ask *ask = c->ask;
    sim_call_text(c, &ask->bucket.activity);
    sim_call_text(c, &ask->mark);
    sim_call_text(c, &ask->incarnation);
    sim_call_go(c, 0);
}

static bool act_record(struct sim_call *c)
{
    struct sim_books *b = enter(c);
    return b ? sim_call_answer(c, sim_books_record(b, c->ask), NULL) : true;
}

static void record(struct ledger *l, const struct record_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_record, asked, sizeof *asked);
    struct record_ask *ask = c->ask;
    sim_call_text(c, &ask->bucket.activity);
    sim_call_text(c, &ask->incarnation);
    sim_call_go(c, 0);
}

static bool act_repair(struct sim_call *c)
{
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    const struct repair_ask *ask = c->ask;
    struct repair_answer *answer = sim_new(&c->ground, struct repair_answer);
    enum reason *verdicts = sim_array(&c->ground, enum reason, ask->count);
    sim_books_repair(b, ask, now_of(c), verdicts);
    *answer = (struct repair_answer){.verdicts = verdicts, .count = ask->count};
    return sim_call_answer(c, REASON_OK, answer);
}

static void repair(struct ledger *l, const struct repair_ask *asked, struct waiter *w)
{
    check(asked->count > 0 && asked->count <= LEDGER_BATCH_MAX);
    struct sim_call *c = call_new(l, w, act_repair, asked, sizeof *asked);
    struct repair_ask *ask = c->ask;
    sim_call_text(c, &ask->activity);
    ask->items = sim_call_copy(c, asked->items, asked->count * sizeof *asked->items);
    sim_call_go(c, 0);
}

static bool act_audit(struct sim_call *c)
{
    const struct str *activity = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct audit_answer *answer = sim_new(&c->ground, struct audit_answer);
    *answer = sim_books_audit(b, *activity, &c->ground);
    return sim_call_answer(c, REASON_OK, answer);
}

static void audit(struct ledger *l, struct str activity, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_audit, &activity, sizeof activity);
    sim_call_text(c, c->ask);
    sim_call_go(c, 0);
}

/* ---- money ---- */

static bool act_pay(struct sim_call *c)
{
    const struct pay_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct pay_verdict *verdicts = sim_array(&c->ground, struct pay_verdict, ask->count);
    struct pay_answer *answer = sim_new(&c->ground, struct pay_answer);
    *answer = (struct pay_answer){.verdicts = verdicts, .count = ask->count};
    enum reason reason = sim_books_pay(b, ask, now_of(c), verdicts);
    return sim_call_answer(c, reason, reason == REASON_OK ? answer : NULL);
}

static void pay(struct ledger *l, const struct pay_ask *asked, struct waiter *w)
{
    check(asked->count <= LEDGER_PAY_MAX);
    struct sim_call *c = call_new(l, w, act_pay, asked, sizeof *asked);
    struct pay_item *items = sim_call_copy(c, asked->items, asked->count * sizeof *items);
    for (size_t i = 0; i < asked->count; i++) {
        struct payment *p = &items[i].what;
        struct str *texts[] = {&items[i].webhook, &items[i].body, &items[i].reservation, &p->payment, &p->order, &p->currency, &p->channel};
        for (size_t k = 0; k < countof(texts); k++)
            sim_call_text(c, texts[k]);
    }
    ((struct pay_ask *)c->ask)->items = items;
    sim_call_go(c, 0);
}

static bool act_callback(struct sim_call *c)
{
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    sim_books_callback(b, c->ask, now_of(c));
    return sim_call_answer(c, REASON_OK, NULL);
}

static void callback(struct ledger *l, const struct callback_ask *asked, struct waiter *w)
{
    struct sim_call *c = call_new(l, w, act_callback, asked, sizeof *asked);
    struct callback_ask *ask = c->ask;
    struct str *texts[] = {&ask->webhook, &ask->channel, &ask->body};
    for (size_t i = 0; i < countof(texts); i++)
        sim_call_text(c, texts[i]);
    sim_call_go(c, 0);
}

static bool act_defer(struct sim_call *c)
{
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    sim_books_defer(b, c->ask, now_of(c));
    return sim_call_answer(c, REASON_OK, NULL);
}

static void defer(struct ledger *l, const struct defer_ask *asked, struct waiter *w)
{
    check(asked->count <= LEDGER_BATCH_MAX);
    struct sim_call *c = call_new(l, w, act_defer, asked, sizeof *asked);
    ((struct defer_ask *)c->ask)->items = sim_call_copy(c, asked->items, asked->count * sizeof *asked->items);
    sim_call_go(c, 0);
}

static bool act_cancel(struct sim_call *c)
{
    const struct cancel_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct cancel_verdict *verdicts = sim_array(&c->ground, struct cancel_verdict, ask->count);
    struct cancel_answer *answer = sim_new(&c->ground, struct cancel_answer);
    *answer = (struct cancel_answer){.verdicts = verdicts, .count = ask->count, .now_ms = now_of(c)};
    sim_books_cancel(b, ask, now_of(c), verdicts);
    return sim_call_answer(c, REASON_OK, answer);
}

static void cancel(struct ledger *l, const struct cancel_ask *asked, struct waiter *w)
{
    check(asked->count <= LEDGER_BATCH_MAX);
    struct sim_call *c = call_new(l, w, act_cancel, asked, sizeof *asked);
    struct cancel_item *items = sim_call_copy(c, asked->items, asked->count * sizeof *items);
    for (size_t i = 0; i < asked->count; i++) {
        sim_call_text(c, &items[i].order);
        sim_call_text(c, &items[i].user);
    }
    ((struct cancel_ask *)c->ask)->items = items;
    sim_call_go(c, 0);
}

static bool act_overdue(struct sim_call *c)
{
    const struct overdue_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct overdue *orders = sim_array(&c->ground, struct overdue, ask->limit);
    struct overdue_answer *answer = sim_new(&c->ground, struct overdue_answer);
    *answer = (struct overdue_answer){.orders = orders, .count = sim_books_overdue(b, ask, now_of(c), orders), .now_ms = now_of(c)};
    return sim_call_answer(c, REASON_OK, answer);
}

static void overdue(struct ledger *l, const struct overdue_ask *asked, struct waiter *w)
{
    check(asked->limit > 0 && asked->limit <= LEDGER_BATCH_MAX);
    struct sim_call *c = call_new(l, w, act_overdue, asked, sizeof *asked);
    sim_call_text(c, &((struct overdue_ask *)c->ask)->after_order);
    sim_call_go(c, 0);
}

/* ---- people ---- */

static bool act_reviews(struct sim_call *c)
{
    const struct reviews_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct review *reviews = sim_array(&c->ground, struct review, ask->id.len > 0 ? 1 : ask->limit);
    struct reviews_answer *answer = sim_new(&c->ground, struct reviews_answer);
    answer->reviews = reviews;
    answer->count = sim_books_reviews(b, ask, reviews, &answer->open);
    bool missing = ask->id.len > 0 && answer->count == 0;
    return sim_call_answer(c, missing ? REASON_NOT_FOUND : REASON_OK, missing ? NULL : answer);
}

static void reviews(struct ledger *l, const struct reviews_ask *asked, struct waiter *w)
{
    check(asked->id.len > 0 || (asked->limit > 0 && asked->limit <= LEDGER_BATCH_MAX));
    struct sim_call *c = call_new(l, w, act_reviews, asked, sizeof *asked);
    sim_call_text(c, &((struct reviews_ask *)c->ask)->id);
    sim_call_go(c, 0);
}

static bool act_resolve(struct sim_call *c)
{
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct resolve_answer *answer = sim_new(&c->ground, struct resolve_answer);
    enum reason reason = sim_books_resolve(b, c->ask, now_of(c), answer);
    return sim_call_answer(c, reason, reason == REASON_OK ? answer : NULL);
}

static void resolve(struct ledger *l, const struct resolve_ask *asked, struct waiter *w)
{
    check(asked->decision != REVIEW_OPEN);
    struct sim_call *c = call_new(l, w, act_resolve, asked, sizeof *asked);
    struct resolve_ask *ask = c->ask;
    if (asked->what) {
        struct create_order *what = sim_call_copy(c, asked->what, sizeof *what);
        copy_message(c, what);
        ask->what = what;
    }
    sim_call_text(c, &ask->id);
    sim_call_text(c, &ask->actor);
    sim_call_text(c, &ask->note);
    sim_call_go(c, 0);
}

static bool act_story(struct sim_call *c)
{
    const struct story_ask *ask = c->ask;
    struct sim_books *b = enter(c);
    if (!b)
        return true;
    struct story_event *events = sim_array(&c->ground, struct story_event, ask->limit);
    struct story_answer *answer = sim_new(&c->ground, struct story_answer);
    answer->events = events;
    answer->count = sim_books_story(b, ask, &c->ground, events);
    return sim_call_answer(c, REASON_OK, answer);
}

static void story(struct ledger *l, const struct story_ask *asked, struct waiter *w)
{
    check(asked->limit > 0 && asked->limit <= LEDGER_BATCH_MAX);
    struct sim_call *c = call_new(l, w, act_story, asked, sizeof *asked);
    sim_call_text(c, &((struct story_ask *)c->ask)->id);
    sim_call_text(c, &((struct story_ask *)c->ask)->activity);
    sim_call_go(c, 0);
}

static bool act_prove(struct sim_call *c) { return !enter(c) || sim_call_answer(c, REASON_OK, NULL); }

static void prove(struct ledger *l, unsigned slot, struct waiter *w)
{
    check(slot < LEDGER_PROVE_SLOTS);
    sim_call_go(call_new(l, w, act_prove, &slot, sizeof slot), 0);
}

static const struct ledger_ops ops = {
    .name = "memory", .lease = lease, .place = place, .release = release, .release_lost = release_lost, .backlog = backlog, .decided = decided, .park = park, .look = look, .claim = claim, .finish = finish,
    .activity_create = activity_create, .activity_move = move, .activities = activities, .retire = retire, .units = units, .audit = audit, .heal = heal, .record = record, .repair = repair,
    .prove = prove,
    .pay = pay, .callback = callback, .defer = defer, .cancel = cancel, .overdue = overdue, .reviews = reviews, .resolve = resolve, .story = story};

void sim_ledger_open(struct sim_ledger *l, struct sim_ledger_world *w, struct clock *clock)
{
    *l = (struct sim_ledger){.ledger = {&ops, SIM_DEPLOYMENT}, .world = w};
    sim_calls_init(&l->calls, clock, BUDGET_MS);
}

void sim_ledger_close(struct sim_ledger *l) { sim_calls_end(&l->calls); }

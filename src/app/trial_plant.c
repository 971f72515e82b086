/* SPDX-License-Identifier: Apache-2.0
 * trial_plant.c: faults put by hand into the imagined engines, to see that the judge finds them: a judge who cannot say no proves nothing. */
#include "trial_parts.h"

static struct sim_inbox *some_verdict(struct trial *t, enum reason outcome)
{
    struct sim_books *b = &t->books.books;
    for (size_t i = 0; i < b->inbox_count && i < t->verdict_count; i++)
        if (b->inbox[i]->outcome == outcome)
            return b->inbox[i];
    return NULL;
}

/* The ledger's verdict on a reservation turns. */
static bool verdict_turns(struct trial *t)
{
    struct sim_inbox *row = some_verdict(t, REASON_ORDERED);
    if (!row)
        return false;
    row->outcome = REASON_RELEASED, row->why = REASON_OVERDUE;
    t->audit_due = true;
    return true;
}

/* A unit that somebody has ordered stands for sale again. */
static bool unit_doubles(struct trial *t)
{
    struct sim_inbox *row = some_verdict(t, REASON_ORDERED);
    for (size_t i = 0; row && i < t->stock.count; i++) {
        struct sim_bucket *b = t->stock.all[i];
        const struct sim_unit *u = sim_books_unit(&t->books.books, row->what.token.unit);
        struct restock_ask ask = {.bucket = {row->what.activity, b->epoch, u->home}, .sku = row->what.sku,
                                  .token = {row->what.token.unit, row->what.token.generation + 1}};
        if (str_eq(b->activity, row->what.activity) && b->number == u->home)
            return sim_bucket_restock(b, &ask, clock_now_ms(&t->redis.clock)) == REASON_OK;
    }
    return false;
}

/* A user has a second order. */
static bool order_doubles(struct trial *t)
{
    struct sim_books *b = &t->books.books;
    if (b->order_count < 2)
        return false;
    b->orders[1]->order.user = b->orders[0]->order.user;
    b->orders[1]->order.activity = b->orders[0]->order.activity;
    b->orders[1]->order.sku = b->orders[0]->order.sku;
    t->audit_due = true;
    return true;
}

/* Returns of units that nobody has told yet are forgotten. */
static bool rows_vanish(struct trial *t)
{
    struct sim_books *b = &t->books.books;
    struct finish_item items[LEDGER_BATCH_MAX];
    size_t n = 0;
    list_each(at, &b->outbox) {
        const struct sim_row *row = list_entry(at, struct sim_row, link);
        if (row->kind == OUTBOX_RETURN && n < countof(items))
            items[n++] = (struct finish_item){row->row, row->version};
    }
    sim_books_finish(b, items, n);
    return n > 0;
}

/* Redis forgets though nobody said that it may. */
static bool redis_forgets(struct trial *t)
{
    if (!some_verdict(t, REASON_ORDERED))
        return false;
    for (size_t i = 0; i < t->process_count; i++)
        sim_calls_cut(&t->processes[i].store.calls, 0);
    struct sim_snapshot s = {0};
    sim_store_rollback(&t->stock, &s);
    return true;
}

/* A reservation whose user was told of it is gone. */
static bool entry_vanishes(struct trial *t)
{
    for (size_t i = 0; i < t->stock.count; i++)
        for (size_t k = 0; k < t->stock.all[i]->record_count; k++) {
            struct sim_record *r = t->stock.all[i]->records[k];
            if (!r->newest || r->newest->entry.state != RESERVATION_ORDERED || r->newest->older)
                continue;
            r->newest = NULL;
            return true;
        }
    return false;
}

/* A refund is called done, and the channel has never heard of it. */
static bool refund_is_only_said(struct trial *t)
{
    struct sim_books *b = &t->books.books;
    list_each(at, &b->outbox) {
        const struct sim_row *row = list_entry(at, struct sim_row, link);
        if (row->kind != OUTBOX_REFUND)
            continue;
        struct finish_item item = {row->row, row->version};
        sim_books_finish(b, &item, 1);
        return true;
    }
    return false;
}

bool trial_plant(struct trial *t)
{
    static bool (*const plants[])(struct trial *) = {
        [PLANT_VERDICT] = verdict_turns, [PLANT_UNIT] = unit_doubles, [PLANT_ORDER] = order_doubles,
        [PLANT_ROWS] = rows_vanish, [PLANT_FORGET] = redis_forgets, [PLANT_ENTRY] = entry_vanishes,
        [PLANT_REFUND] = refund_is_only_said};
    return plants[t->options.plant](t);
}

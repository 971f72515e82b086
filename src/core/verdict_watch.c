/* SPDX-License-Identifier: Apache-2.0
 * verdict_watch.c: a ring of items; each read takes the next ones, and puts them at the end. */
#include "verdict_watch.h"

#include "ident.h"

static void on_tick(struct waiter *w, enum reason reason, const void *result);

static void rest(struct verdict_watch *v)
{
    if (!list_empty(&v->items) && v->tick.place == 0 && !waiter_busy(&v->reader))
        clock_set_in(v->clock, &v->tick, (uint64_t)v->every_ms * 1000);
}

static void on_decided(struct waiter *w, enum reason reason, const void *result)
{
    struct verdict_watch *v = container_of(w, struct verdict_watch, reader);
    const struct decided_answer *a = result;
    for (size_t i = 0; i < LEDGER_BATCH_MAX; i++) {
        struct verdict_watch_item *item = v->asked[i];    /* NULL: none, or removed meanwhile */
        v->asked[i] = NULL;
        if (!item)
            continue;
        item->asked_at = 0;
        if (reason == REASON_OK && a->decided[i])
            item->decided(item);
    }
    rest(v);
}

static void on_tick(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct verdict_watch *v = container_of(container_of(w, struct alarm, waiter), struct verdict_watch, tick);
    char names[LEDGER_BATCH_MAX][IDENT_ID_TEXT];
    struct str reservations[LEDGER_BATCH_MAX];
    size_t count = 0;
    struct link asked;
    list_init(&asked);
    while (count < LEDGER_BATCH_MAX && !list_empty(&v->items)) {
        struct verdict_watch_item *item = list_entry(list_take(&v->items), struct verdict_watch_item, link);
        list_append(&asked, &item->link);
        ident_write(item->ident, IDENT_RESERVATION, names[count]);
        reservations[count] = (struct str){names[count], IDENT_ID_TEXT};
        v->asked[count++] = item;
        item->asked_at = count;
    }
    for (struct link *at; (at = list_take(&asked));)
        list_append(&v->items, at);
    if (count == 0)
        return;
    v->reader = (struct waiter){.wake = on_decided, .budget_ms = v->call_ms};
    ledger_decided(v->ledger, &(struct decided_ask){.reservations = reservations, .count = count}, &v->reader);
}

void verdict_watch_init(struct verdict_watch *v, struct ledger *ledger, struct clock *clock, uint32_t every_ms, uint32_t call_ms)
{
    *v = (struct verdict_watch){.ledger = ledger, .clock = clock, .every_ms = every_ms, .call_ms = call_ms, .tick.waiter.wake = on_tick};
    list_init(&v->items);
}

void verdict_watch_add(struct verdict_watch *v, struct verdict_watch_item *item)
{
    if (verdict_watched(item))
        return;
    item->asked_at = 0;
    list_append(&v->items, &item->link);
    rest(v);
}

void verdict_watch_remove(struct verdict_watch *v, struct verdict_watch_item *item)
{
    if (!verdict_watched(item))
        return;
    if (item->asked_at > 0)
        v->asked[item->asked_at - 1] = NULL;
    item->asked_at = 0;
    list_remove(&item->link);
}

void verdict_watch_stop(struct verdict_watch *v)
{
    clock_unset(v->clock, &v->tick);
    waiter_drop(&v->reader);
}

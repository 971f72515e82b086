/* SPDX-License-Identifier: Apache-2.0 */
#include "wheel.h"

void wheel_init(struct wheel *w)
{
    for (unsigned i = 0; i < WHEEL_SLOTS; i++)
        list_init(&w->slots[i]);
    w->now = 0;
}

void deadline_init(struct deadline *d)
{
    list_init(&d->link);
    d->set = false;
}

static void sit(struct wheel *w, struct deadline *d)
{
    list_remove(&d->link);
    d->seat = d->due;
    list_append(&w->slots[d->seat % WHEEL_SLOTS], &d->link);
}

void wheel_set(struct wheel *w, struct deadline *d, uint32_t ticks)
{
    check(ticks > 0 && ticks < WHEEL_SLOTS);
    d->set = true;
    d->due = w->now + ticks;
    if (list_empty(&d->link) || (int32_t)(d->due - d->seat) < 0)    /* it sits later than it should */
        sit(w, d);
}

void wheel_forget(struct deadline *d)
{
    d->set = false;
    list_remove(&d->link);
}

void wheel_tick(struct wheel *w, void (*passed)(struct deadline *))
{
    struct link now, *slot = &w->slots[++w->now % WHEEL_SLOTS], *at;
    list_init(&now);
    while ((at = list_take(slot)))
        list_append(&now, at);
    while ((at = list_take(&now))) {
        struct deadline *d = list_entry(at, struct deadline, link);
        if (d->set && d->due != w->now)
            sit(w, d);
        else if (d->set) {
            d->set = false;
            passed(d);
        }
    }
}

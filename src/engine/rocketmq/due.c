/* SPDX-License-Identifier: Apache-2.0 */
#include "due.h"

#include "check.h"

#define RINGS_MAX 4096    /* in one go; the rest follows at once, after the sockets had their turn */

uint64_t due_now_us(void) { return uv_hrtime() / 1000; }

static void rung(uv_timer_t *timer);

static void arm(struct due_table *t)
{
    const struct heap_item *first = heap_first(&t->heap);
    if (!first) {
        uv_timer_stop(&t->timer);
        return;
    }
    uint64_t now = due_now_us(), ms = first->due > now ? (first->due - now + 999) / 1000 : 0;
    uv_update_time(t->loop);
    uv_timer_start(&t->timer, rung, ms, 0);
}

static void rung(uv_timer_t *timer)
{
    struct due_table *t = container_of(timer, struct due_table, timer);
    const struct heap_item *first;
    uint64_t now = due_now_us();
    for (int i = 0; i < RINGS_MAX && (first = heap_first(&t->heap)) != NULL && first->due <= now; i++) {
        struct due *d = first->what;
        heap_remove(&t->heap, &d->place);
        d->ring(d);
    }
    if (!uv_is_closing((uv_handle_t *)timer)) {
        due_nudge(t);
        arm(t);
    }
}

void due_table_open(struct due_table *t, uv_loop_t *loop, void (*settled)(struct due_table *))
{
    *t = (struct due_table){.loop = loop, .settled = settled, .owed = 1};    /* the table itself */
    check(uv_timer_init(loop, &t->timer) == 0 && uv_idle_init(loop, &t->nudge) == 0);
}

/* Runs before the loop polls: the first time it lets that happen without sleep, the second time it is no longer needed. */
static void idle(uv_idle_t *nudge)
{
    struct due_table *t = container_of(nudge, struct due_table, nudge);
    if (!t->nudged)
        uv_idle_stop(nudge);
    t->nudged = false;
}

void due_nudge(struct due_table *t)
{
    t->nudged = true;
    uv_idle_start(&t->nudge, idle);
}

static void timer_closed(uv_handle_t *handle)
{
    struct due_table *t = container_of((uv_timer_t *)handle, struct due_table, timer);
    heap_free(&t->heap);
    due_settle(t);
}

static void nudge_closed(uv_handle_t *handle) { due_settle(container_of((uv_idle_t *)handle, struct due_table, nudge)); }

void due_table_close(struct due_table *t)
{
    due_owe(t);
    uv_close((uv_handle_t *)&t->timer, timer_closed);
    uv_close((uv_handle_t *)&t->nudge, nudge_closed);
}

void due_set(struct due_table *t, struct due *d, uint32_t ms)
{
    uint64_t due = due_now_us() + (uint64_t)ms * 1000;
    const struct heap_item *first = heap_first(&t->heap);
    bool earliest = !first || due < first->due;
    check(d->ring != NULL);
    heap_put(&t->heap, d, &d->place, due);
    if (earliest)
        arm(t);
}

void due_unset(struct due_table *t, struct due *d) { heap_remove(&t->heap, &d->place); }

void due_settle(struct due_table *t)
{
    check(t->owed > 0);
    if (--t->owed == 0)
        t->settled(t);
}

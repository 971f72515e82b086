/* SPDX-License-Identifier: Apache-2.0
 * await.c: a turn of the loop that has rung a timer goes on to sleep until something else happens; whoever waited for that timer must not
 * sleep with it. So a wake stops the turn, and a flag is looked at every few milliseconds. */
#include "await.h"

#define LOOK_MS 5

void await_wake(struct waiter *w, enum reason reason, const void *result)
{
    struct await *a = container_of(w, struct await, waiter);
    check(!a->woken);
    a->woken = true;
    a->reason = reason;
    if (a->keep && result)
        a->keep(a, result);
    uv_stop(a->loop);
}

enum reason await_run(struct await *a, uv_loop_t *loop)
{
    a->loop = loop;
    while (!a->woken) {
        int left = uv_run(loop, UV_RUN_ONCE);
        check(left != 0 || a->woken);    /* every call of a port has a deadline, which keeps the loop alive */
    }
    return a->reason;
}

struct looking {
    uv_timer_t timer;
    uint64_t until;    /* 0: no end */
    bool over, gone;
};

static void looked(uv_timer_t *timer)
{
    struct looking *l = timer->data;
    l->over = l->until != 0 && uv_now(timer->loop) >= l->until;
    uv_stop(timer->loop);
}

static void closed(uv_handle_t *timer)
{
    ((struct looking *)timer->data)->gone = true;
    uv_stop(timer->loop);
}

bool await_flag(uv_loop_t *loop, const bool *done, uint32_t ms)
{
    struct looking l = {.over = false};
    uv_timer_init(loop, &l.timer);
    uv_update_time(loop);
    l.timer.data = &l;
    l.until = ms > 0 ? uv_now(loop) + ms : 0;
    uv_timer_start(&l.timer, looked, LOOK_MS, LOOK_MS);
    while (!l.over && !(done && *done))
        uv_run(loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&l.timer, closed);
    while (!l.gone)
        uv_run(loop, UV_RUN_ONCE);
    return done && *done;
}

void await_ms(uv_loop_t *loop, uint32_t ms)
{
    bool never = await_flag(loop, NULL, ms > 0 ? ms : 1);
    (void)never;
}

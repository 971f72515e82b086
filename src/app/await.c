/* SPDX-License-Identifier: Apache-2.0 */
#include "await.h"

void await_wake(struct waiter *w, enum reason reason, const void *result)
{
    struct await *a = container_of(w, struct await, waiter);
    check(!a->woken);
    a->woken = true;
    a->reason = reason;
    if (a->keep && result)
        a->keep(a, result);
}

enum reason await_run(struct await *a, uv_loop_t *loop)
{
    while (!a->woken) {
        int left = uv_run(loop, UV_RUN_ONCE);
        check(left != 0 || a->woken);    /* every call of a port has a deadline, which keeps the loop alive */
    }
    return a->reason;
}

static void passed(uv_timer_t *timer) { *(bool *)timer->data = true; }
static void closed(uv_handle_t *timer) { *(bool *)timer->data = true; }

bool await_flag(uv_loop_t *loop, const bool *done, uint32_t ms)
{
    bool over = false, gone = false;
    uv_timer_t timer;
    uv_timer_init(loop, &timer);
    timer.data = &over;
    uv_timer_start(&timer, passed, ms, 0);
    while (!over && !(done && *done))
        uv_run(loop, UV_RUN_ONCE);
    timer.data = &gone;
    uv_close((uv_handle_t *)&timer, closed);
    while (!gone)
        uv_run(loop, UV_RUN_ONCE);
    return done && *done;
}

void await_ms(uv_loop_t *loop, uint32_t ms)
{
    bool never = await_flag(loop, NULL, ms);
    (void)never;
}

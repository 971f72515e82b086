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

/* A timer may set the flag just before the loop begins to wait for sockets: it must never wait for long. */
#define LOOK_MS 5
static void look(uv_timer_t *timer) { (void)timer; }
static void closed(uv_handle_t *timer) { *(bool *)timer->data = true; }

bool await_flag(uv_loop_t *loop, const bool *done, uint32_t ms)
{
    bool gone = false;
    uv_timer_t timer;
    uv_update_time(loop);
    uint64_t until = uv_now(loop) + ms;
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, look, ms < LOOK_MS ? ms : LOOK_MS, LOOK_MS);
    while (uv_now(loop) < until && !(done && *done))
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

/* SPDX-License-Identifier: Apache-2.0
 * await.h: for verbs that ask one thing after another: the loop is run until the answer is there. Never from within a callback of it. */
#pragma once
#include <uv.h>

#include "waiter.h"

struct await {
    struct waiter waiter;
    bool woken;
    enum reason reason;
    void (*keep)(struct await *, const void *result);    /* copies what is needed while it is valid; may be NULL; not called without a result */
    void *into;
    uv_loop_t *loop;    /* await_run's own */
};
void await_wake(struct waiter *w, enum reason reason, const void *result);
#define AWAIT(...) ((struct await){.waiter = {.wake = await_wake}, ##__VA_ARGS__})
enum reason await_run(struct await *a, uv_loop_t *loop);
/* Runs the loop for so long, whatever happens on it. */
void await_ms(uv_loop_t *loop, uint32_t ms);
/* Runs the loop until *done is set: true; false when `ms` have passed before (0: however long it takes). */
bool await_flag(uv_loop_t *loop, const bool *done, uint32_t ms);

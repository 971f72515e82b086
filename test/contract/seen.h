/* SPDX-License-Identifier: Apache-2.0
 * seen.h: a waiter that remembers how it was woken. `keep`, where set, copies what it needs out of the result while it is valid. */
#pragma once
#include "waiter.h"

struct seen {
    struct waiter waiter;
    bool woken;
    enum reason reason;
    void (*keep)(struct seen *, const void *result);
    void *into;
};
#define SEEN(...) ((struct seen){.waiter = {.wake = seen_wake}, ##__VA_ARGS__})
void seen_wake(struct waiter *, enum reason, const void *result);    /* once only: the second time stops the test */
bool seen_woken(void *seen);

/* SPDX-License-Identifier: Apache-2.0 */
#include "seen.h"

#include "check.h"

void seen_wake(struct waiter *w, enum reason reason, const void *result)
{
    struct seen *s = container_of(w, struct seen, waiter);
    check(!s->woken);
    s->woken = true;
    s->reason = reason;
    if (s->keep && result)
        s->keep(s, result);
}

bool seen_woken(void *seen) { return ((struct seen *)seen)->woken; }

/* SPDX-License-Identifier: Apache-2.0
 * hint.h: hears the timer messages that say "now some order's time to pay is over" (topic seckill-order-timeout). They are hints: they may come
 * twice, a second early, late, or never, and nobody keeps an offset of them. Every listener begins at each queue's end and hears all that comes
 * after; what one missed, the sweep finds by itself (core/sweep.h). */
#pragma once
#include "bus.h"
#include "clock.h"
#include "random.h"

#define HINT_TOPIC "seckill-order-timeout"
#define HINT_QUEUES 16           /* that are listened to; the sweep does not depend on the rest */

struct hint_options {
    struct str topic;            /* HINT_TOPIC */
    uint32_t wait_ms;            /* how long the broker may hold an empty pull; 5000 */
    uint32_t look_ms;            /* between two looks at which queues there are; 30000 */
    uint32_t rest_ms;            /* after a fault, doubled up to 64 times, with jitter; 500 */
};
struct hint_options hint_options_default(void);

struct hint_queue {
    struct hint *hint;
    struct queue name;
    char broker[128];
    bool seen, placed;           /* still there; `next` is known */
    int64_t next;
    uint64_t asked_us;
    uint32_t faults;
    struct waiter waiter;
    struct alarm rest;
};
/* Lives in its owner. */
struct hint {
    struct bus *bus;
    struct clock *clock;
    struct random *random;
    struct hint_options options;
    void (*heard)(struct hint *, size_t messages);
    struct hint_queue queues[HINT_QUEUES];
    size_t count;
    bool running;
    struct waiter looker;
    struct alarm look;
};
void hint_init(struct hint *, struct bus *, struct clock *, struct random *, struct hint_options, void (*heard)(struct hint *, size_t messages));
void hint_start(struct hint *);
void hint_stop(struct hint *);    /* at once; harmless when not started */

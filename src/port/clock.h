/* SPDX-License-Identifier: Apache-2.0
 * clock.h: time has one home. now_ms may jump and is only shown to people and put into ids; every wait and every age is
 * monotonic. What decides a sale's window or a payment's deadline is not here: Redis TIME and PostgreSQL now() (protocol §6). */
#pragma once
#include <stdint.h>

#include "waiter.h"

/* An alarm lives in its owner, who must unset it before dying. It rings once, by waking its waiter with REASON_OK. */
struct alarm {
    struct waiter waiter;
    uint64_t due_us;      /* monotonic */
    size_t place;         /* in the clock's heap, from 1; 0: not set */
};

struct clock;
struct clock_ops {
    const char *name;
    int64_t (*now_ms)(struct clock *);              /* Unix milliseconds, UTC */
    uint64_t (*mono_us)(struct clock *);            /* microseconds since some moment; never goes back */
    void (*set)(struct clock *, struct alarm *, uint64_t due_us);    /* sets it, or moves it when set already */
    void (*unset)(struct clock *, struct alarm *);                   /* harmless when not set */
};
struct clock {
    const struct clock_ops *ops;
};

static inline int64_t clock_now_ms(struct clock *c) { return c->ops->now_ms(c); }
static inline uint64_t clock_mono_us(struct clock *c) { return c->ops->mono_us(c); }
static inline void clock_set(struct clock *c, struct alarm *a, uint64_t due_us) { c->ops->set(c, a, due_us); }
static inline void clock_set_in(struct clock *c, struct alarm *a, uint64_t us) { c->ops->set(c, a, c->ops->mono_us(c) + us); }
static inline void clock_unset(struct clock *c, struct alarm *a) { c->ops->unset(c, a); }

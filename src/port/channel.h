/* SPDX-License-Identifier: Apache-2.0
 * channel.h: whoever takes the money. It tells us of payments by signed callbacks, which may be lost, doubled and late, and which do not come this
 * way (app/webhook.h, core/payment.h); here it is asked what it knows of an order, and told to give money back. It belongs to strangers: nothing
 * waits for it without a bound, and nothing is decided by its silence.
 *
 * Manners: waiter.h. Reasons any call may end with: TIMED_OUT, LINK_LOST (unknown: no answer); ENGINE_FAULT (unknown: an answer that cannot be understood);
 * ENGINE_BUSY, DEPENDENCY_DOWN, OVERLOADED (not done); ENGINE_REFUSED (it refuses the call as it is). A deployment may have none (NULL). */
#pragma once
#include "terms.h"
#include "waiter.h"

struct channel_answer {
    const struct payment *payments;    /* of this order, SUCCESS and FAILED, as the callbacks would say them; none: it knows of no payment */
    size_t count;                      /* ≤ CHANNEL_PAYMENTS_MAX */
    size_t unreadable;                 /* of the order's payments so many could not be understood: the answer does not prove that the order is unpaid */
};
#define CHANNEL_PAYMENTS_MAX 16

struct channel;
struct channel_ops {
    const char *name;
    void (*ask)(struct channel *, struct str order, struct waiter *);                  /* → struct channel_answer */
    /* OK: the whole amount of this payment goes back, or went back before: as often as one likes, once. REFUND_PENDING: the channel has it and has not finished;
     * it is asked again later. REFUND_FAILED: it will not be given. */
    void (*refund)(struct channel *, const struct payment *, struct waiter *);         /* → NULL */
};
struct channel {
    const struct channel_ops *ops;
};

static inline void channel_ask(struct channel *c, struct str order, struct waiter *w) { c->ops->ask(c, order, w); }
static inline void channel_refund(struct channel *c, const struct payment *p, struct waiter *w) { c->ops->refund(c, p, w); }

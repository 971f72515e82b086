/* SPDX-License-Identifier: Apache-2.0
 * payment.h: what is done to an order from outside: a payment channel's callback, and its user's wish to cancel it. The callback's signature has been
 * checked by whoever calls here. The ledger decides; here is only said what its words mean to who asks (interfaces §1):
 *   recorded           200 and what became of it, whether the order was paid by it, or by another, or cancelled, or must be looked at
 *   not recorded, or not known whether    503: the channel comes again with the same webhook-id, and hears what happened
 * A payment's deadline is not judged here: only the order's status is. */
#pragma once
#include "arena.h"
#include "counter.h"
#include "desk.h"

#define PAYMENT_BODY_MAX 65536

/* The members of a callback's body that we know; any order, none twice, each of its type. Members we do not know are skipped without being judged (they stay
 * in the body, which the ledger keeps where an operator must look). A FAILED needs neither amount nor currency: 0 and empty. OK, INVALID_REQUEST,
 * PAYLOAD_TOO_LARGE. Texts of *out live in the arena: give 1 KiB. */
enum reason payment_read(struct str body, struct arena *, struct payment *out);
/* An amount in minor units as a JSON number: an integer, or one with nothing but zeros behind its point. */
bool amount_read(struct str text, int64_t *out);
/* Three capital letters, as ISO 4217 has them. */
bool currency_good(struct str);
/* The same body as a channel writes it. */
void payment_write(struct buf *, const struct payment *);

/* One callback. Lives in its caller; what the caller filled in must stay until it is done. */
struct payment_callback {
    /* in */
    struct str webhook, body;
    struct payment what;
    bool unreadable;                /* signed and not understood: `what` is empty, the body becomes a review (PAYMENT_QUARANTINED) */
    void (*done)(struct payment_callback *);
    /* out */
    enum reason reason;             /* PAYMENT_*, DEPENDENCY_DOWN, OVERLOADED */
    bool replayed;                  /* this webhook-id was known: its first answer again */
    bool refund;                    /* the money goes back */
    /* own */
    struct counter_call call;
    struct waiter recorder;
    struct desk *desk;
    char reservation[IDENT_ID_TEXT];
};
/* true: answered already (done will not be called). */
bool payment_start(struct desk *, struct payment_callback *) must_check;
void payment_let_go(struct payment_callback *);    /* what left for the ledger may still happen. Harmless when not under way */

/* One cancel by its user. */
struct payment_cancel {
    /* in */
    struct str order, user;
    void (*done)(struct payment_cancel *);
    /* out */
    enum reason reason;             /* CANCELED (again and again the same way), ORDER_PAID, NOT_FOUND, DEPENDENCY_DOWN, OVERLOADED */
    /* own */
    struct counter_call call;
};
bool payment_cancel_start(struct desk *, struct payment_cancel *) must_check;
void payment_cancel_let_go(struct payment_cancel *);

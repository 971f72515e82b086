/* SPDX-License-Identifier: Apache-2.0
 * review.h: what waits for a person: reservations that could not be decided, messages that could not be read, payments that fit no order. The same for
 * the admin API and for `seckill review`. */
#pragma once
#include "arena.h"
#include "buf.h"
#include "ledger.h"

/* One as JSON; the body, where it was asked for, as text and, where it is no text, as base64 alone. */
void review_write(struct buf *out, const struct review *r);
void review_list_write(struct buf *out, const struct reviews_answer *a);
#define REVIEW_JSON_MAX (1024 * 1024)

/* The body of POST …/resolve: {"decision", "reason"}, both needed. What is wrong is named in `complaint`; texts live in the arena. */
bool review_decision_read(struct str body, struct arena *a, enum review_decision *decision, struct str *note, struct str *complaint);

/* A person has decided. A message is read once more for it: what cannot be read, or is forged, can only be dismissed. */
struct review_resolving {
    /* in; texts stay until it is done */
    struct str id, actor, note;
    enum review_decision decision;
    void (*done)(struct review_resolving *);
    const struct ident_keys *keys;
    /* out */
    enum reason reason;             /* OK · NOT_FOUND · CONFLICT · POISON · MESSAGE_UNREADABLE · MESSAGE_FORGED · the ledger's */
    enum reason outcome, why;       /* with OK: what it came to */
    /* own */
    struct ledger *ledger;
    struct waiter waiter;
    char memory[1024];
};
void review_resolve(struct review_resolving *, struct ledger *);

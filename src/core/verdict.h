/* SPDX-License-Identifier: Apache-2.0
 * verdict.h: one question to the ledger, whose answer the store hears before anybody else: who shows a verdict read from the ledger
 * pushes the settle first, or another reader still says QUEUED (protocol §6). Used wherever the store's word is not enough. */
#pragma once
#include "catalog.h"
#include "ident.h"
#include "ledger.h"
#include "settler.h"

/* What everybody who asks here shares. */
struct verdict_office {
    struct ledger *ledger;
    struct settler *settler;
    const struct catalog *catalog;
    const struct ident_keys *keys;
};

/* One question. Lives in its caller; texts of the ask are only read during verdict_start. */
struct verdict_ask {
    /* in */
    enum look_by by;
    struct str id, activity, user;    /* as in ledger_look_ask; user empty: whosoever's */
    uint32_t budget_ms;               /* of each look */
    bool quiet;                       /* do not tell the store */
    void (*see)(struct verdict_ask *, const struct ledger_look_answer *);    /* NULL, or called before done, while the whole answer may be read */
    /* OK: the ledger knows something, below · NOT_FOUND: it does not · else: it could not be asked, or not be understood. Never before verdict_start has returned. */
    void (*done)(struct verdict_ask *, enum reason);

    /* out; texts point into `memory` */
    bool decided, parked, has_order;
    bool told;                        /* the store holds the verdict now (with decided) */
    struct entry entry;               /* with decided: what the store would hold */
    struct create_order what;
    struct order order;               /* with has_order */
    int64_t decided_ms;

    /* own */
    const struct verdict_office *office;
    struct arena arena;
    struct str other_request, other_sku;
    struct waiter waiter;
    struct settle_wait settle;
    char memory[1280];
};
void verdict_start(const struct verdict_office *, struct verdict_ask *);
void verdict_let_go(struct verdict_ask *);    /* harmless when not under way */

/* SPDX-License-Identifier: Apache-2.0
 * sim_ledger.h: the ledger port over sim_books.h. Books are apart from the doors to them: several processes of an imagined deployment
 * share one set of books. The ledger's own time (PostgreSQL's now()) is the clock's now_ms. */
#pragma once
#include "sim_books.h"
#include "sim_call.h"

#define SIM_DEPLOYMENT "00000000000000000000000000000001"    /* the identity of every imagined deployment */

struct sim_ledger_world {
    struct sim_books books;
    bool away;                       /* nobody answers the door: DEPENDENCY_DOWN, and nothing is done */
};
void sim_ledger_world_init(struct sim_ledger_world *w);
void sim_ledger_world_end(struct sim_ledger_world *w);

struct sim_ledger {
    struct ledger ledger;            /* the port */
    struct sim_calls calls;          /* calls.weather may be set at any time */
    struct sim_ledger_world *world;
};
void sim_ledger_open(struct sim_ledger *l, struct sim_ledger_world *w, struct clock *clock);
void sim_ledger_close(struct sim_ledger *l);    /* forgets its calls in flight; not from within a wake */

/* SPDX-License-Identifier: Apache-2.0
 * control.h: moving an activity through its life. The ledger moves first, then every bucket is told; the call ends when every bucket holds
 * the new state, or says which does not (the janitor goes on telling it). Warm also seeds: every AVAILABLE unit goes to its home
 * bucket, is counted there, and only then the bucket is called seeded. Repeating any of it is harmless. */
#pragma once
#include "clock.h"
#include "ledger.h"
#include "store.h"

struct control_options {
    uint32_t call_ms;             /* budget of one call; 5000 */
    uint32_t attempts;            /* of each call whose fate is RETRY or UNKNOWN; 5 */
    uint32_t back_off_ms;         /* between them, doubled; 100 */
};
struct control_options control_options_default(void);

/* One move. Lives in its caller; zeroed, then filled. Texts must stay until it is done. */
struct control {
    /* in */
    struct str activity;
    enum activity_event event;
    struct str actor, note;
    void (*done)(struct control *);

    /* out */
    enum reason reason;           /* OK · UNKNOWN_ACTIVITY · CONFLICT · DEPENDENCY_DOWN (a part did not answer; ask again) · the ledger's own */
    uint32_t lagging;             /* bit b: bucket b did not confirm */
    bool moved;                   /* the ledger holds the new state, whatever the buckets say */
    enum activity_state state;
    uint64_t version;
    uint64_t seeded;              /* units handed to buckets by warm */

    /* own */
    struct control_work *work;
};
struct controller;
/* `moves`: how many may run at once (4). NULL: no memory. */
struct controller *controller_new(struct store *, struct ledger *, struct clock *, size_t moves, struct control_options);
void controller_free(struct controller *);
/* false: too many are running (OVERLOADED stands in reason; done will not be called). */
bool control_start(struct controller *, struct control *) must_check;
void control_let_go(struct control *);    /* the move goes on; done will not be called */

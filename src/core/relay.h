/* SPDX-License-Identifier: Apache-2.0
 * relay.h: carries what the ledger has decided to whoever must hear it: status and returned units to the store, events and
 * dead letters to the bus. A row is finished only when its effect is known to have happened, at the version that was claimed;
 * everything else stays for the next claim. At least once, in any order: every effect is monotonic (protocol §4).
 *
 * A refund goes to the payment channel, where there is one, and as an event to whoever else must know. A new order's event sets a timer message for
 * the end of its time to pay: a hint, one for each second of such ends in a claim; a lost one costs nothing (core/sweep.h). */
#pragma once
#include "bus.h"
#include "channel.h"
#include "clock.h"
#include "ident.h"
#include "ledger.h"
#include "random.h"
#include "store.h"

#define RELAY_EVENT_TOPIC "seckill-order-event"
#define RELAY_DEAD_LETTER_TOPIC "seckill-dead-letter"
#define RELAY_BODY_MAX 1048576      /* bytes of bodies of one claim, beside what its ids take; a longer one never goes */

struct relay_options {
    size_t batch;                 /* rows of one claim; 256 */
    size_t lanes;                 /* claims in flight; 3 */
    uint32_t hold_ms;             /* nobody else gets a claimed row meanwhile; 10000 */
    uint32_t apart_ms;            /* the same while there is no connection to the store; 1500 */
    uint32_t call_ms;             /* budget of one call; 3000 */
    uint32_t idle_first_ms, idle_most_ms;    /* between two looks at an empty outbox: 5, growing to 50 */
    uint32_t fault_ms;            /* after a fault, with jitter; 100 */
    struct channel *channel;      /* who gives money back; NULL: the event alone says it */
    uint32_t refund_ms;           /* budget of one refund; 500 */
    uint32_t refunds_ms;          /* all refunds of a claim that have not been asked for by then come again with a later one; 2000 */
};
struct relay_options relay_options_default(void);

struct relay;
/* NULL: no memory. */
struct relay *relay_new(struct store *, struct bus *, struct ledger *, struct clock *, struct random *, const struct ident_keys *, const struct relay_options *);
void relay_start(struct relay *);
void relay_hint(struct relay *);              /* something was written just now: look soon */
void relay_drain(struct relay *);             /* claims no more; what is claimed is carried */
bool relay_idle(const struct relay *);
void relay_free(struct relay *);

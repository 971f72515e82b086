/* SPDX-License-Identifier: Apache-2.0
 * sweep.h: orders that nobody has paid in time are cancelled, and their units go back on sale. The ledger is the authority: it says which are
 * overdue, by its own clock, and judges each once more when it cancels; timer messages only say when to look (core/hint.h). Bounded batches,
 * with jitter, any number of sweeps at once. A look goes on behind the last one, whatever became of its orders: what somebody holds, or what can never be told, keeps nobody
 * else's unit. A batch that is refused for one of them is taken in parts.
 *
 * Where a payment channel can be asked, it is asked first, for a bounded time: what it says is paid is told to the ledger as its callback would. A
 * channel that does not answer keeps no unit from being sold: the sweep goes on, and a payment that comes later is given back. An answer that cannot be
 * understood is not silence: the order may be paid. It is spared for `spare_ms` behind its deadline, and then cancelled with an alarm.
 *
 * The ledger's clock is watched against our monotonic one. Where it jumps, by more than a bound, nothing is cancelled and an alarm is raised, until it has
 * jumped back, or has gone on steadily for a while: a wrong clock must not cancel thousands of orders whose users are just paying. */
#pragma once
#include "arena.h"
#include "channel.h"
#include "clock.h"
#include "ledger.h"
#include "log.h"
#include "random.h"

#define SWEEP_ASKS 16
#define SWEEP_CUTS 16             /* parts of one look that are refused, or met a held row; then the rest waits for the next round */

struct sweep_options {
    uint32_t every_ms;            /* between two looks, with jitter; 2000; 0: it never looks */
    size_t batch;                 /* orders of one look, ≤ LEDGER_BATCH_MAX; 256 */
    uint32_t grace_ms;            /* so long after its deadline an order is left alone, for callbacks on their way; 1000 */
    uint32_t call_ms;             /* budget of a call to the ledger; 3000 */
    uint32_t ask_ms;              /* of a question to the channel; 500 */
    uint32_t silent_ms;           /* after so many unanswered questions in a row as fit under way, it is not asked for so long; 10000 */
    uint32_t jump_ms;             /* how far the ledger's clock may be from where it ought to be; 2000 */
    uint32_t pause_ms;            /* after a jump: how long it must go on steadily before it is believed again; 120000 */
    uint32_t spare_ms;            /* so long after its deadline an order is spared while the channel's answer about it cannot be understood; 900000 */
    struct channel *channel;      /* NULL: there is none to ask */
};
struct sweep_options sweep_options_default(void);

struct sweep_facts {
    uint64_t looks, canceled, paid, jumps;       /* paid: orders whose payment the channel told when asked */
    uint64_t not_understood;      /* answers of the channel that spared their order, or did not any more */
    bool paused;
};

struct sweep_ask {
    struct sweep *sweep;
    size_t order;
    struct waiter waiter;
};
/* The ledger's clock less our monotonic one: an answer is as old as half its way, give or take that half. */
struct sweep_offset {
    int64_t ms, give_ms;
};
enum sweep_step { SWEEP_IDLE, SWEEP_LOOKS, SWEEP_ASKS_CHANNEL, SWEEP_PAYS, SWEEP_CANCELS };
/* Lives in its owner. */
struct sweep {
    struct ledger *ledger;
    struct clock *clock;
    struct random *random;
    struct sweep_options options;
    bool running;
    enum sweep_step step;
    struct alarm alarm;
    struct waiter waiter;
    uint64_t asked_us;            /* when the call under way left */
    struct arena texts;
    size_t count, next, under_way;    /* orders of this look; the next to be asked about; questions under way */
    int64_t after_place;          /* behind which the next look begins; 0: with the oldest */
    char after_order[64];
    size_t after_len;
    struct str orders[LEDGER_BATCH_MAX];
    int64_t deadline_ms[LEDGER_BATCH_MAX], now_ms;    /* by the ledger's clock */
    struct log_ration odd;        /* of the lines about answers that cannot be understood */
    bool spared[LEDGER_BATCH_MAX];    /* its payment could not be told to the ledger: not cancelled in this round */
    struct sweep_ask asks[SWEEP_ASKS];
    size_t unanswered;
    uint64_t silent_us;           /* until then the channel is not asked */
    size_t pay_count;
    struct pay_item pays[LEDGER_PAY_MAX];
    size_t pay_of[LEDGER_PAY_MAX];
    bool untold[LEDGER_PAY_MAX];
    size_t from, limit;           /* of the payments, then of the orders to be cancelled: the part that is under way … */
    unsigned cuts;                /* … and how often such a part was refused and made smaller */
    size_t left_count;            /* orders to be cancelled */
    size_t left[LEDGER_BATCH_MAX];
    bool measured, again;         /* `trusted` holds; there is more behind this look: go on at once */
    struct sweep_offset trusted, strange;    /* as it is believed, and as it is since the jump */
    uint64_t strange_us;          /* since when; 0: no jump */
    struct sweep_facts facts;
};
/* false: no memory. */
bool sweep_init(struct sweep *, struct ledger *, struct clock *, struct random *, struct sweep_options);
void sweep_start(struct sweep *);
void sweep_hint(struct sweep *);               /* some order may be overdue now: look soon */
void sweep_drain(struct sweep *);              /* begins no other look */
bool sweep_idle(const struct sweep *);
void sweep_free(struct sweep *);               /* drops what is in flight */

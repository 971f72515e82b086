/* SPDX-License-Identifier: Apache-2.0
 * sim_call.h: a question on its way through the imagined world, common to its store, bus and ledger. It keeps a copy of what was
 * asked, arrives after `ask_us`, is acted on once (the engine's data change then, all at once), and its answer goes back for
 * `answer_us`. The deadline is the caller's own: it may pass before the answer comes, or before the question arrives. What
 * goes wrong on the way is fault.def, drawn from the weather's seed. No call is woken before it has returned. */
#pragma once
#include "clock.h"
#include "list.h"
#include "random.h"
#include "sim_map.h"

enum sim_fault {
#define FAULT(name, text) SIM_FAULT_##name,
#include "fault.def"
#undef FAULT
    SIM_FAULT_COUNT
};
const char *sim_fault_name(enum sim_fault f);

/* All zero: every call is done in the clock's next step, and nothing ever goes wrong. */
struct sim_weather {
    uint32_t ask_us, answer_us;          /* the way there, the way back */
    uint32_t jitter_us;                  /* up to so much more, each way */
    uint32_t delay_us;                   /* up to so much later, with DELAYED and DOUBLED */
    uint16_t permille[SIM_FAULT_COUNT];
    struct random *random;               /* needed where jitter or any permille is not 0 */
};

/* Whoever wants to see each call pass: a trace, a judge, a killer. It is told after the fact and must not end calls or handles from within. */
struct sim_call;
enum sim_moment { SIM_ASKED, SIM_DONE, SIM_DONE_AGAIN, SIM_HEARD };    /* HEARD comes before its waiter is woken */
struct sim_witness {
    void (*see)(struct sim_witness *, const struct sim_call *, enum sim_moment, enum reason, const void *result);
};

#define SIM_CALLS_MAX 65536    /* in flight on one handle; what comes on top is OVERLOADED and not done */

struct sim_calls {             /* of one handle */
    struct clock *clock;
    struct sim_weather weather;
    uint32_t budget_ms;        /* of calls whose waiter names none */
    struct link flying, idle;
    size_t count;
    uint64_t faults[SIM_FAULT_COUNT];
    struct sim_witness *witness;    /* NULL: nobody looks */
    bool frozen;               /* whoever asks is stopped: what was asked goes on, and nobody hears of it until he goes on */
};
void sim_calls_init(struct sim_calls *c, struct clock *clock, uint32_t budget_ms);
/* Forgets every call: their waiters are not woken. Not from within a wake. */
void sim_calls_end(struct sim_calls *c);
/* Every connection breaks: what was done but has not answered yet answers LINK_LOST; what is still on its way there arrives, or does not
 * (so many of a thousand). Not from within a wake. */
void sim_calls_cut(struct sim_calls *c, uint16_t lost_permille);
void sim_calls_freeze(struct sim_calls *c, bool frozen);

struct sim_call {
    struct slot slot;
    struct alarm alarm;
    struct link link;
    struct sim_calls *of;
    const char *name;            /* what is asked: "reserve", "place", ... */
    void *port;
    /* Does what was asked, at its time, and says so with sim_call_answer: true. False: not yet; it has set act_us to when to try again. */
    bool (*act)(struct sim_call *);
    void *ask;
    uint64_t act_us, again_us, answer_us, deadline_us;    /* SIM_NEVER: not, or not any more */
    bool answer_lost, link_cut;
    enum reason reason;
    const void *result;
    struct sim_ground ground;    /* the copy of what was asked, and the answer */
    uint64_t hold_us;            /* of the engine's own: until when an act may say "not yet" */
    struct link held;            /* of the engine's own: a list of calls that wait for something */
    uint32_t life;               /* of the engine's own: which server it was asked of */
};
#define SIM_NEVER UINT64_MAX

/* A call begins; `ask` is copied flat, and the engine replaces every pointer in it by a copy in call->ground before it lets it go. */
struct sim_call *sim_call_new(struct sim_calls *c, struct waiter *w, void *port, const char *name, bool (*act)(struct sim_call *), const void *ask, size_t n);
void *sim_call_copy(struct sim_call *c, const void *items, size_t bytes);
static inline void sim_call_text(struct sim_call *c, struct str *s) { *s = sim_text(&c->ground, *s); }
void sim_call_go(struct sim_call *c, uint32_t extra_ms);    /* extra_ms: on top of the default budget */
/* Engine, in act: this is the answer; the result lies in call->ground or lives as long as the world. */
bool sim_call_answer(struct sim_call *c, enum reason reason, const void *result);
void sim_call_again(struct sim_call *c);    /* a held call: try now */

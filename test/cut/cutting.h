/* SPDX-License-Identifier: Apache-2.0
 * cutting.h: one call of a port, under every cut of cut.def. What each test of a port says is how to ask, and how to look, on a way that
 * nobody cuts, whether it has happened; the rest is here: exactly one wake, in time; the fate told is the true one, or unknown; and the engine
 * works again by itself, the same call with the same keys ending well. */
#pragma once
#include "cut.h"
#include "world.h"

struct cut_call {
    const char *name;
    void (*begin)(uint32_t n);                      /* fresh keys, number n, and whatever must stand before; may be NULL */
    void (*ask)(struct waiter *);                   /* through the relay */
    bool (*happened)(void);                         /* on the straight way; NULL: it only reads, and nothing can happen */
    bool (*repeated)(enum reason);                  /* is that an answer to the same call once more? NULL: any of fate DONE */
    void (*twice)(void);                            /* looks that it has happened once only; may be NULL */
    enum reason (*verdict)(const void *result);     /* with OK: what the answer says of the one item; NULL: OK says it */
};
struct cutting {
    struct cut_relay *relay;                        /* the engine in `world` goes through it */
    uint64_t seed;
    uint32_t budget_ms, slack_ms;                   /* of a call; and how much later it may be woken on a busy machine */
    uint32_t recover_ms;                            /* until the engine must work again */
    uint32_t lag_ms;                                /* until what was confirmed shows: a broker builds its queues behind its log */
    bool (*ready)(void *);                          /* the engine is connected; NULL: a call that ended well shows it */
    unsigned told[4], waits_ms[CUT_COUNT];          /* by fate; the longest wait of each cut */
    unsigned cases;
};
/* The world of these tests has nothing in it but clock and chance, on this loop. They put engines in, and close them before it closes. */
uv_loop_t *cutting_loop(void);
/* From SECKILL_TEST_SEED and SECKILL_TEST_ROUNDS: 1 where they are not set. */
uint64_t cutting_seed(void);
unsigned cutting_rounds(void);

/* Every call under every cut, `rounds` times, in an order drawn from the seed. Fails the cmocka test where a promise is broken; prints a table. */
void cutting_run(struct cutting *, const struct cut_call *calls, size_t count, unsigned rounds);

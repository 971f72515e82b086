/* SPDX-License-Identifier: Apache-2.0
 * sim_channel.h: the channel port imagined: who paid what, and what was given back. Several processes share one set of books; what goes wrong on the
 * way to it is sim_call's. */
#pragma once
#include "channel.h"
#include "sim_call.h"

#define SIM_DEPOSITS_MAX 1024

struct sim_deposit {                 /* a payment that somebody made; its texts are the world's */
    struct payment what;
    size_t refunds;                  /* how often the money went back: once, however often it was asked for */
    size_t asked;                    /* how often it was asked for */
};
struct sim_channel_world {
    struct sim_deposit *deposits;
    size_t count;
    bool away;                       /* nobody answers: DEPENDENCY_DOWN */
    bool slow;                       /* the first request for a refund is answered REFUND_PENDING */
    struct sim_ground ground;
};
void sim_channel_world_init(struct sim_channel_world *w);
void sim_channel_world_end(struct sim_channel_world *w);
/* Somebody pays, or tries to. The same payment again: a FAILED one may become SUCCESS, nothing else changes. */
struct sim_deposit *sim_channel_pay(struct sim_channel_world *w, const struct payment *p);

struct sim_channel {
    struct channel channel;          /* the port */
    struct sim_calls calls;
    struct sim_channel_world *world;
};
void sim_channel_open(struct sim_channel *c, struct sim_channel_world *w, struct clock *clock);
void sim_channel_close(struct sim_channel *c);    /* forgets its calls in flight; not from within a wake */

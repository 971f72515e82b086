/* SPDX-License-Identifier: Apache-2.0
 * peer.h: one server we talk to, over one connection at a time. Requests are pipelined and matched to their answers by opaque
 * alone. It connects when first asked, and again after a rest that doubles (with jitter) while it fails.
 *
 * What it promises: every call ends exactly once, never before peer_ask has returned, with one of
 *   OK                                an answer, whatever its code
 *   DEPENDENCY_DOWN, ENGINE_BUSY      the last byte of the request was never handed to the kernel: the server cannot have taken it
 *   LINK_LOST, TIMED_OUT              it was handed over, and no answer came: nobody knows
 * For that the socket is written to by us, byte by byte accounted, not by the loop's stream layer. A connection that cannot take a
 * request within its deadline, or on which nothing at all has come since, is broken on purpose. */
#pragma once
#include "codec.h"
#include "due.h"
#include "reason.h"

struct peer;
struct peer_call {                /* lives in its owner until done */
    void (*done)(struct peer_call *, enum reason, const struct frame *answer);    /* answer with OK only, valid during the call */
    struct peer *peer;
    struct due due;
    enum reason failed;           /* how a call ends that never began */
    uint64_t end;                 /* where in the stream its last byte stands */
    uint64_t asked_us;
    int32_t opaque;               /* 0: not under way */
};

struct peer_watch {               /* who wants to know about the connection */
    void (*up)(struct peer_watch *, struct peer *);
    void (*down)(struct peer_watch *, struct peer *);
    uint64_t links;               /* connections made so far, by all peers of this watch: a connection's number */
};

#define PEER_CALLS_MAX 1024       /* under way on one connection */
#define PEER_OUT_MAX (32u << 20)  /* bytes waiting to be written */

/* address: "host:port", host a name or a number, IPv6 in brackets. Copied. NULL: it cannot be read as one. */
struct peer *peer_new(struct due_table *times, struct peer_watch *watch, struct str address);
/* Every call ends; then nothing of it is left but what the loop owes. */
void peer_free(struct peer *p);

struct str peer_address(const struct peer *p);
bool peer_up(const struct peer *p);
bool peer_resting(const struct peer *p);      /* it failed lately: a call now fails at once */
bool peer_unused(const struct peer *p);       /* no connection, nor one wanted, and no call */
uint64_t peer_link(const struct peer *p);     /* number of the present connection; 0: none yet */
void peer_keep(struct peer *p, bool keep);    /* connect now, and again by itself whenever it breaks */

/* A request: begin, add fields and body, ask. Nothing else may be asked of this peer in between. */
struct frame_writer peer_begin(struct peer *p, int code);
void peer_ask(struct peer *p, struct peer_call *call, struct frame_writer *w, uint32_t deadline_ms);
/* Stops caring: done will not be called, the answer is dropped. Harmless on a call not under way. */
void peer_forget(struct peer_call *call);

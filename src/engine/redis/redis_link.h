/* SPDX-License-Identifier: Apache-2.0
 * redis_link.h: one pipelined connection to one server, and the fate of every command given to it.
 *
 * Commands go out in the order in which they were sent, all of one turn of the loop in one write; replies come back in that order.
 * Each command ends exactly once, never inside the call that sent it:
 *   OK               with the reply (never an error reply)
 *   ENGINE_BUSY, DEPENDENCY_DOWN    not executed: refused by the server, or its bytes never left
 *   LINK_LOST        the connection broke after bytes had left
 *   ENGINE_FAULT     the server says that something failed while it ran
 * NOSCRIPT is mended here: the script is loaded and the command repeated, a few times at most.
 * A connection that says nothing for stall_ms while commands wait is broken off. A broken one is made again, waiting 50 ms at first
 * and twice as long each time, with jitter, up to half a second. While there is none, redis_link_up() is false and nothing may be sent. */
#pragma once
#include <hiredis/hiredis.h>
#include <uv.h>

#include "reason.h"
#include "redis_address.h"
#include "redis_command.h"

struct redis_link_options {
    size_t in_flight;              /* commands at once */
    uint32_t connect_ms;           /* until it is connected and greeted */
    uint32_t stall_ms;
    uint32_t retry_first_ms, retry_most_ms;
    const char *deployment;        /* redis.h */
};

struct redis_link;
/* `ended` is told of every command that still has an owner; the reply is valid during the call. `context` is passed on.
 * NULL: no memory. */
struct redis_link *redis_link_open(uv_loop_t *loop, const struct redis_address *address, struct redis_link_options options,
                                   void (*ended)(void *context, struct redis_command *, enum reason, const redisReply *), void *context);
/* Ends every command (as if the connection broke), then goes away as the loop turns; `closed` may be NULL. */
void redis_link_close(struct redis_link *link, void (*closed)(void *context));

/* Connected, greeted, and not the server of another deployment. */
bool redis_link_up(const struct redis_link *link);
/* What the server last refused a command with, or why the connection last broke; empty: neither has been. */
struct str redis_link_refusal(const struct redis_link *link);
size_t redis_link_memory(size_t in_flight);    /* bytes of its commands when each has been used */
/* Of the server at the other end (port/store.h); empty while the link is not up. */
struct str redis_link_incarnation(const struct redis_link *link);
/* The server has said that it is another by now: it was promoted under this connection. */
void redis_link_incarnation_heard(struct redis_link *link, struct str incarnation);

/* A free command with empty bytes; NULL when all are in flight. It must be sent or given back before the loop turns. `large`: it will carry a batch. */
struct redis_command *redis_link_take(struct redis_link *link, bool large) must_check;
void redis_link_give_back(struct redis_link *link, struct redis_command *command);
/* Only while the link is up. */
void redis_link_send(struct redis_link *link, struct redis_command *command);
/* Its owner waits no more; he is not told of it again. True: bytes of it had left. False: it never will leave. */
bool redis_link_abandon(struct redis_link *link, struct redis_command *command);

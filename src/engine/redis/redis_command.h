/* SPDX-License-Identifier: Apache-2.0
 * redis_command.h: a command as it goes over the wire, and the stock of them that a link has: as many as may be in flight, never more. What was used last
 * is used first. Bytes stay with a free command where they are few; of large ones so many are kept as the next batches will want. */
#pragma once
#include "buf.h"
#include "list.h"
#include "redis_script.h"

struct redis_command {
    struct link link;              /* unsent or sent; the stock's while free */
    struct link of_owner;          /* the owner's, who puts it where he likes */
    void *owner;                   /* NULL: nobody waits; the reply is dropped */
    struct buf bytes;              /* as it goes over the wire; kept until the reply, for it may have to be repeated */
    size_t written;
    uint64_t sent_us;
    enum redis_script script;
    uint16_t from, count;          /* the owner's: which of his items it carries */
    uint8_t repeats;
    bool loads;                    /* SCRIPT LOAD, AUTH, SELECT: the link's own */
};
/* Appends it to the bytes; whether it fitted, buf_ok says. */
void redis_command_write(struct redis_command *command, const struct str *words, size_t count);

struct redis_commands {
    struct redis_command *all;
    size_t count, free_count;
    struct link free;
    struct link large;             /* free too, with room for a batch */
    size_t large_count;
};
bool redis_commands_open(struct redis_commands *, size_t count);    /* false: no memory */
void redis_commands_close(struct redis_commands *);
/* Fresh, with empty bytes; one must be free. `large`: it will carry a batch. */
struct redis_command *redis_commands_take(struct redis_commands *, bool large);
void redis_commands_give_back(struct redis_commands *, struct redis_command *);
size_t redis_commands_memory(size_t count);                         /* bytes of so many when each has been used */

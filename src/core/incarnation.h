/* SPDX-License-Identifier: Apache-2.0
 * incarnation.h: does the store still hold all that it has said? (protocol §2) Before anything new is taken, the server at the other end is compared
 * with the one that the ledger has recorded for the bucket; and each answer with what had been seen before it was asked for: a sequence that is not
 * above that comes from a memory that has gone back. Whoever finds either closes the bucket, for all processes; the janitor heals it (heal.h).
 *
 * Any number of answers may be under way, in any order: what counts is not which came last but what had come before each was asked for. */
#pragma once
#include "catalog.h"
#include "list.h"
#include "store.h"

#define INCARNATION_CLOSES 8    /* closings under way; one more is begun by the next who finds it */

struct incarnation_options {
    size_t buckets;          /* whose sequence is remembered, a power of two; 1024. Of more the one not asked longest is forgotten: its next answer is believed */
    uint32_t call_ms;        /* budget of a closing; 500 */
};
struct incarnation_options incarnation_options_default(void);

struct incarnation_slot;
struct incarnation_guard;
struct incarnation_closing {
    struct waiter waiter;
    struct incarnation_guard *guard;
    struct bucket bucket;
    uint32_t key;
    bool went_back;
    char name[64], recorded[INCARNATION_TEXT];
    size_t recorded_len;
};
struct incarnation_guard {
    struct store *store;
    struct incarnation_options options;
    struct incarnation_slot *slots;
    uint64_t turns;
    struct incarnation_closing closings[INCARNATION_CLOSES];
    void (*closed)(struct incarnation_guard *, const struct bucket *, struct str mark);    /* told of each bucket that is closed now; NULL: nobody */
};
/* false: no memory. */
bool incarnation_init(struct incarnation_guard *, struct store *, struct incarnation_options);
void incarnation_free(struct incarnation_guard *);
bool incarnation_idle(const struct incarnation_guard *);

/* KNOWN: the server is the recorded one, and nothing has gone back that is not yet closed · STRANGER: it is another, or it has · UNHEARD: there is no connection, or the ledger has
 * recorded none. Only with KNOWN may anything new be taken. */
enum incarnation { INCARNATION_KNOWN, INCARNATION_STRANGER, INCARNATION_UNHEARD };
enum incarnation incarnation_of(struct incarnation_guard *, const struct activity *, uint8_t bucket);
/* Whether that is the incarnation recorded for the bucket. */
bool incarnation_recorded(const struct activity *, uint8_t bucket, struct str incarnation);

/* What had been seen when something was asked. */
struct incarnation_asked {
    uint64_t highest;
    uint32_t turn;
};
struct incarnation_asked incarnation_ask(struct incarnation_guard *, const struct activity *, uint8_t bucket);
/* An answer to it; `counts`: its script raised the sequence by itself. false: the bucket went back; it is being closed. */
bool incarnation_answered(struct incarnation_guard *, const struct activity *, uint8_t bucket, struct incarnation_asked, uint64_t sequence, bool counts);
/* Whether it has been closed for this server, as far as is known here. */
bool incarnation_closed(struct incarnation_guard *, const struct activity *, uint8_t bucket);
/* Closes it, unless the server finds that it is the recorded one after all. Harmless where that is under way already. */
void incarnation_close(struct incarnation_guard *, const struct activity *, uint8_t bucket);

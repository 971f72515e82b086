/* SPDX-License-Identifier: Apache-2.0
 * redis_words.h: the port's asks as the words of a command, EVALSHA of a script on a bucket; redis_reply.h reads what comes back. Pure. Each is false where
 * the ask cannot be said to Redis, or where what it would leave there could not be held; then the words are nothing to send. */
#pragma once
#include "redis_script.h"
#include "store.h"

#define REDIS_ID_MOST 64               /* bytes of an id (str_is_id) */
#define REDIS_SKUS_MOST 256
#define REDIS_ITEMS_MOST 64            /* of one command: a script is not to hold the server up */
#define REDIS_WORDS_MOST (4 + 7 + 3 * REDIS_SKUS_MOST)    /* of install, the longest */

struct redis_words {
    struct str at[REDIS_WORDS_MOST];   /* the caller's, or in `text` */
    size_t count;
    struct buf text;                   /* what is not the caller's: the key, numbers, packed bytes */
    char memory[24 * 1024];
};

bool redis_words_reserve(struct redis_words *w, const struct reserve_ask *ask);
bool redis_words_look(struct redis_words *w, const struct look_ask *ask);
bool redis_words_due(struct redis_words *w, const struct due_ask *ask, uint32_t chance);    /* of which a jitter is made */
bool redis_words_stock(struct redis_words *w, const struct stock_ask *ask);
bool redis_words_install(struct redis_words *w, const struct install_ask *ask);
bool redis_words_close(struct redis_words *w, const struct close_ask *ask);
bool redis_words_reindex(struct redis_words *w, const struct reindex_ask *ask);
bool redis_words_open(struct redis_words *w, const struct open_ask *ask);

/* What a slice of the holdings is of: the three words of its cursor. */
struct redis_slice {
    struct str walked, which, scan;
    size_t number;                     /* `which` */
};
bool redis_words_holdings(struct redis_words *w, const struct holdings_ask *ask, struct redis_slice *slice);

/* A batch: its beginning, and up to REDIS_ITEMS_MOST items that can be said. */
void redis_words_begin(struct redis_words *w, enum redis_script script, const struct bucket *bucket);
bool redis_words_settle_fits(const void *settle_ask);
void redis_words_settle(struct redis_words *w, const void *settle_ask);
bool redis_words_restock_fits(const void *restock_ask);
void redis_words_restock(struct redis_words *w, const void *restock_ask);

/* SPDX-License-Identifier: Apache-2.0
 * sim_bucket.h: one bucket of one activity in one epoch, as plain C: what the Redis scripts keep and do (protocol §2), each function
 * one atom. It knows no port and no clock: the hour is given. Texts it is given must live as long as the bucket. */
#pragma once
#include "heap.h"
#include "sim_map.h"
#include "store.h"

#define SIM_REST_MS 300          /* a unit that came back is sold again after that long */
#define SIM_TOMBSTONES 4         /* RELEASED entries a user's record keeps */

/* The keys of a bucket that may be lost, as Redis keeps them; of free, rest and gen those of every SKU at once. */
enum sim_redis_key { SIM_KEY_USERS = 1, SIM_KEY_PENDING = 2, SIM_KEY_FREE = 4, SIM_KEY_REST = 8, SIM_KEY_GEN = 16, SIM_KEY_WIN = 32, SIM_KEYS_ALL = 63 };

/* A unit as this bucket knows it: at most one copy that may be sold, and the highest generation ever seen. */
struct sim_copy {
    struct token token;          /* of the copy; generation of the last one where it is ABSENT */
    enum { SIM_ABSENT, SIM_FREE, SIM_RESTING } where;
    uint32_t highest;
    size_t sku;
    size_t place;                /* in the SKU's free or resting heap */
    bool held;                   /* while a key is lost: somebody has it, so no copy of it is missing */
};
struct sim_shelf {               /* one SKU */
    struct str sku;
    int64_t unit_first, units;
    struct heap free;            /* the lowest generation first, and of one generation the lowest unit */
    struct heap resting;         /* by the hour they become free */
    bool wanted;
};
struct sim_entry {
    struct entry entry;
    struct str nonce;
    struct sim_entry *older;
};
struct sim_record {              /* one user */
    struct str user;
    struct sim_entry *newest;
    size_t undecided;
    size_t place;                /* in the pending heap while anything is undecided */
    uint64_t turn_ms;            /* when the janitor looks at it next */
};
struct sim_bucket {
    struct str activity;
    uint8_t epoch, number;
    enum activity_state state;
    uint64_t version;
    int64_t starts_ms, ends_ms;
    int64_t opens_ms;                    /* a sale that goes on after a pause or an end rests as a unit does */
    bool seeded;
    char mark[MARK_TEXT];                /* of its closing; empty: it is open */
    int64_t closed_ms;                   /* since when */
    unsigned missing, lost;              /* of enum sim_redis_key: without its guard; found to be so */
    char indexed[MARK_TEXT];             /* the mark under which the last slice of a reindex closed it */
    char here[INCARNATION_TEXT];         /* who the server is, as of this call */
    unsigned losses;
    uint64_t sequence, restocks;
    struct sim_shelf *shelves;
    size_t shelf_count;
    struct sim_map units, users;         /* unit (8 bytes) → sim_copy, user → sim_record */
    struct sim_copy **copies;            /* the same in order of arrival, for holdings */
    struct sim_record **records;
    size_t copy_count, copy_cap, record_count, record_cap;
    struct heap turns;                   /* records with something undecided, by turn_ms */
    uint8_t *filter;
    uint32_t filter_bits;
    struct sim_ground ground;
    struct sim_bucket *gone_before;      /* a list of those that are no more */
};

/* A bucket without units, as `install` makes it. */
struct sim_bucket *sim_bucket_new(struct bucket name, const struct activity *activity);
void sim_bucket_free(struct sim_bucket *b);
/* The same bucket once more, as a replica or a file would hold it; it shares nothing with the first. */
struct sim_bucket *sim_bucket_copy(const struct sim_bucket *b);

/* The 128 bits of rsv_X; false: it is no such name. */
bool sim_ident(struct str id, struct ident *out);

enum reason sim_bucket_install(struct sim_bucket *b, const struct activity *activity, bool seeded, int64_t now_ms);
enum reason sim_bucket_reserve(struct sim_bucket *b, const struct reserve_ask *ask, int64_t now_ms, struct reserve_answer *answer);
/* `here`: the incarnation of the server; `mark`: what a new closing is called. */
enum reason sim_bucket_close(struct sim_bucket *b, const struct close_ask *ask, struct str here, struct str mark, int64_t now_ms);
enum reason sim_bucket_open(struct sim_bucket *b, const struct open_ask *ask, struct str here, int64_t now_ms, int64_t *closed_ms);
/* The key is deleted with all it holds. */
void sim_bucket_lose(struct sim_bucket *b, enum sim_redis_key key);
/* Whether one of those keys is found missing that was not known to be: the bucket is closed. */
bool sim_bucket_finds_lost(struct sim_bucket *b, unsigned keys, int64_t now_ms);
/* All slices at once; `mark`: what it is closed under afterwards. */
enum reason sim_bucket_reindex(struct sim_bucket *b, const struct reindex_ask *ask, struct str mark, int64_t now_ms);
enum reason sim_bucket_settle(struct sim_bucket *b, const struct settle_ask *ask, int64_t now_ms);
enum reason sim_bucket_restock(struct sim_bucket *b, const struct restock_ask *ask, int64_t now_ms);
struct sim_record *sim_bucket_user(struct sim_bucket *b, struct str user);    /* NULL: nothing known */
/* The next record whose turn it is, its turn put forward (`jitter`: any number); NULL: none is due. */
struct sim_record *sim_bucket_due(struct sim_bucket *b, int64_t now_ms, uint64_t jitter);
void sim_bucket_ripen(struct sim_bucket *b, int64_t now_ms);    /* what has rested long enough is free */

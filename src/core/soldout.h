/* SPDX-License-Identifier: Apache-2.0
 * soldout.h: what one process may say by itself (protocol §2, "SOLD_OUT"). Two rounds over all buckets, the second begun after the first
 * ended, every bucket seeded in one epoch and not closed, of the store that the ledger has recorded, nothing free, resting or moving, the same restock counters both times: then,
 * for 250 ms counted per bucket from the moment its read of the second round was *sent*, users that are not in that bucket's winners'
 * filter may be told SOLD_OUT without asking anybody. Likewise ENDED and RESERVATION_PAUSED once every bucket holds that state.
 * A failed read ends it. One of these reads for everybody on its event loop. */
#pragma once
#include "catalog.h"
#include "clock.h"
#include "incarnation.h"
#include "list.h"
#include "store.h"

#define SOLDOUT_SKUS 64       /* SKUs of an activity that can be known sold out; more are asked of the store each time */
#define SOLDOUT_BUCKETS 32

struct soldout_options {
    uint32_t valid_ms;        /* how long the word holds; 250, less than the 300 a unit rests */
    uint32_t hold_ms;         /* how long somebody is held while it is being found out; 50 */
    uint32_t read_ms;         /* budget of one read; 100 */
    uint32_t every_ms;        /* between two rounds while it is being asked for; 60 */
    uint32_t hurry_ms;        /* the same while somebody is held; 8 */
    uint32_t idle_ms;         /* nobody asked for so long: stop reading; 2000 */
    size_t watches;           /* activities watched at once; 64. More take turns */
    size_t filter_bytes;      /* of all buckets of one activity; 1 MiB (800,000 units) */
};
struct soldout_options soldout_options_default(void);

/* Somebody held. Woken once with SOLD_OUT or STOCK_MOVING; never before soldout_hold has returned. */
struct soldout_wait {
    struct link link;
    void (*done)(struct soldout_wait *, enum reason);
    uint64_t since_us;
    int sku;
};

struct soldout {
    struct store *store;
    struct clock *clock;
    struct catalog *catalog;
    struct incarnation_guard *guard;
    struct soldout_options options;
    struct soldout_watch *watches;
    size_t used;                /* watches that have ever been of an activity: the first so many */
    uint8_t *filters;
    uint8_t by_number[4096];    /* watch of an activity, + 1 */
    struct link lone;           /* held without a watch: each is just finding out for somebody */
    struct alarm tick;
};

bool soldout_init(struct soldout *, struct store *, struct clock *, struct catalog *, struct incarnation_guard *, struct soldout_options);
size_t soldout_memory(struct soldout_options);    /* bytes that soldout_init takes */
void soldout_stop(struct soldout *);    /* whoever is held hears STOCK_MOVING */
void soldout_free(struct soldout *);

/* SOLD_OUT, ENDED or RESERVATION_PAUSED where it is known for this user; else OK: nothing is known, ask the store. A few loads, no memory. */
enum reason soldout_says(struct soldout *, const struct activity *, int sku, uint64_t user_hash, uint8_t bucket);
/* A bucket said that it is empty (or that the sale is over or paused): find out about all of them. `wait` may be NULL: only a hint. */
void soldout_hold(struct soldout *, const struct activity *, int sku, struct soldout_wait *wait);
void soldout_let_go(struct soldout_wait *);    /* harmless when not held */
/* Whether a SKU is known to be sold out now, for whomever (advisory). */
bool soldout_known(struct soldout *, const struct activity *, int sku);

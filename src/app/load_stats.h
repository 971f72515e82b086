/* SPDX-License-Identifier: Apache-2.0
 * load_stats.h: what one process of the generator has seen, in memory it shares with the one that started it. One writer each; whoever
 * reads meanwhile sees whole numbers, perhaps a moment apart. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"
#include "reason.h"
#include "terms.h"

enum load_deed {
#define DEED(symbol, name, text) LOAD_##symbol,
#include "load.def"
#undef DEED
    LOAD_DEEDS
};
const char *load_deed_name(enum load_deed d);
static inline bool load_deed_is_request(enum load_deed d) { return d == LOAD_RESERVE || d == LOAD_RETRY; }
static inline bool load_deed_is_bot(enum load_deed d) { return d == LOAD_BAD_TOKEN || d == LOAD_MALFORMED || d == LOAD_FLOOD; }

struct load_deed_stats {
    uint64_t sent, answered, lost;
    struct histogram latency;     /* us from when it should have been sent; of the lost: until they were given up */
    struct histogram service;     /* us from when a connection took it: what a closed loop would have shown */
};

/* A second of the run, by when requests were due; reserve and retry. Its latencies are kept coarser: 16 steps to a doubling. */
#define LOAD_SECOND_BITS 4
#define LOAD_SECOND_SLOTS ((32 - LOAD_SECOND_BITS + 1) << LOAD_SECOND_BITS)
#define LOAD_SECONDS_MAX 1280     /* the longest run, patience and timeout included */
struct load_second {
    uint32_t due, answered, queued, errors, ordered;    /* the last four by when the answer came */
    uint32_t max_us;
    uint32_t slots[LOAD_SECOND_SLOTS];
};
uint64_t load_second_quantile(const struct load_second *s, double share);

struct load_stats {
    struct load_deed_stats deeds[LOAD_DEEDS];
    struct histogram accepted;    /* latency of the answers that told a user his reservation first, as QUEUED */
    struct histogram late;        /* us between when something should have been sent and when it was handed to a connection or its queue */
    struct histogram unconnected; /* us it then waited because every connection was busy */
    uint64_t answers[REASON_COUNT], bot_answers[REASON_COUNT];    /* people's reserve and retry; bots' */
    uint64_t money[REASON_COUNT]; /* answers to callbacks and cancels; a cancel that was done is CANCELED */
    uint64_t paid, canceled;      /* orders, as people were told first */
    uint64_t people;              /* different ones that have come */
    uint64_t unsent;              /* arrivals for which there was no room (generator.in_flight) */
    uint64_t told, ordered, released, undecided;    /* reservations told to people, and what they saw become of them */
    uint64_t contradictions;      /* one request told two reservations, a taken unit denied, a status that went back, a bot that was served */
    uint64_t errors;              /* answers to people that are the platform's fault */
    uint64_t pending, connected;  /* now: requests and followed reservations; connections */
    uint64_t cpu_us;              /* processor time this process has used */
    uint64_t ended_us;            /* after the start: when the last of it was over */
    char strange[160];            /* an answer that could not be understood, or that contradicts, as an example */
    struct load_second seconds[LOAD_SECONDS_MAX];
};
static inline void load_raise(uint64_t *cell, uint64_t by) { __atomic_store_n(cell, __atomic_load_n(cell, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED); }
static inline void load_raise32(uint32_t *cell, uint32_t by) { __atomic_store_n(cell, __atomic_load_n(cell, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED); }

void load_stats_merge(struct load_stats *into, const struct load_stats *from);
/* Into a histogram of its own: the latencies of reserve and retry. */
void load_stats_requests(const struct load_stats *s, struct histogram *latency, struct histogram *service);
/* Sums over the people's requests. */
uint64_t load_stats_sent(const struct load_stats *s);
uint64_t load_stats_answered(const struct load_stats *s);
uint64_t load_stats_lost(const struct load_stats *s);

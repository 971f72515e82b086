/* SPDX-License-Identifier: Apache-2.0 */
#include "load_stats.h"

#include <string.h>

#include "check.h"

const char *load_deed_name(enum load_deed d)
{
    static const char *const names[] = {
#define DEED(symbol, name, text) name,
#include "load.def"
#undef DEED
    };
    check((unsigned)d < LOAD_DEEDS);
    return names[d];
}

uint64_t load_second_quantile(const struct load_second *s, double share)
{
    uint64_t count = 0, seen = 0;
    for (unsigned i = 0; i < LOAD_SECOND_SLOTS; i++)
        count += s->slots[i];
    double wanted = share * (double)count;
    for (unsigned i = 0; count > 0 && i < LOAD_SECOND_SLOTS; i++) {
        seen += s->slots[i];
        if (seen > 0 && (double)seen >= wanted) {
            uint64_t edge = histogram_edge(i, LOAD_SECOND_BITS);
            return edge < s->max_us ? edge : s->max_us;
        }
    }
    return 0;
}

static uint64_t read(const uint64_t *cell) { return __atomic_load_n(cell, __ATOMIC_RELAXED); }

static void merge_second(struct load_second *into, const struct load_second *from)
{
    into->due += from->due;
    into->answered += from->answered;
    into->queued += from->queued;
    into->errors += from->errors;
    into->ordered += from->ordered;
    if (from->max_us > into->max_us)
        into->max_us = from->max_us;
    if (from->max_us > 0)
        for (unsigned i = 0; i < LOAD_SECOND_SLOTS; i++)
            into->slots[i] += from->slots[i];
}

void load_stats_merge(struct load_stats *into, const struct load_stats *from)
{
    for (unsigned d = 0; d < LOAD_DEEDS; d++) {
        into->deeds[d].sent += read(&from->deeds[d].sent);
        into->deeds[d].answered += read(&from->deeds[d].answered);
        into->deeds[d].lost += read(&from->deeds[d].lost);
        histogram_merge(&into->deeds[d].latency, &from->deeds[d].latency);
        histogram_merge(&into->deeds[d].service, &from->deeds[d].service);
    }
    histogram_merge(&into->accepted, &from->accepted);
    histogram_merge(&into->late, &from->late);
    histogram_merge(&into->unconnected, &from->unconnected);
    for (unsigned r = 0; r < REASON_COUNT; r++) {
        into->answers[r] += read(&from->answers[r]);
        into->bot_answers[r] += read(&from->bot_answers[r]);
        into->money[r] += read(&from->money[r]);
    }
    uint64_t *const sums[] = {&into->people, &into->unsent, &into->told, &into->ordered, &into->released, &into->undecided, &into->contradictions,
                              &into->errors, &into->pending, &into->connected, &into->cpu_us, &into->paid, &into->canceled};
    const uint64_t *const parts[] = {&from->people, &from->unsent, &from->told, &from->ordered, &from->released, &from->undecided, &from->contradictions,
                                     &from->errors, &from->pending, &from->connected, &from->cpu_us, &from->paid, &from->canceled};
    _Static_assert(countof(sums) == countof(parts), "each has its part");
    for (size_t i = 0; i < countof(sums); i++)
        *sums[i] += read(parts[i]);
    if (read(&from->ended_us) > into->ended_us)
        into->ended_us = read(&from->ended_us);
    if (from->strange[0] && !into->strange[0])
        memcpy(into->strange, from->strange, sizeof into->strange);
    for (size_t i = 0; i < LOAD_SECONDS_MAX; i++)
        merge_second(&into->seconds[i], &from->seconds[i]);
}

void load_stats_requests(const struct load_stats *s, struct histogram *latency, struct histogram *service)
{
    *latency = *service = (struct histogram){0};
    for (unsigned d = 0; d < LOAD_DEEDS; d++) {
        if (!load_deed_is_request((enum load_deed)d))
            continue;
        histogram_merge(latency, &s->deeds[d].latency);
        histogram_merge(service, &s->deeds[d].service);
    }
}

uint64_t load_stats_sent(const struct load_stats *s) { return s->deeds[LOAD_RESERVE].sent + s->deeds[LOAD_RETRY].sent; }
uint64_t load_stats_answered(const struct load_stats *s) { return s->deeds[LOAD_RESERVE].answered + s->deeds[LOAD_RETRY].answered; }
uint64_t load_stats_lost(const struct load_stats *s) { return s->deeds[LOAD_RESERVE].lost + s->deeds[LOAD_RETRY].lost; }

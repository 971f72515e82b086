/* SPDX-License-Identifier: Apache-2.0
 * load_schedule.h: when requests come, whatever becomes of the ones before. The rate over time is a line of straight pieces; the n-th arrival is
 * due when the area under that line has reached n. So the times are exact, do not drift, and are known before the first request is sent. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_POINTS_MAX 8
struct load_shape {
    size_t count;
    struct load_point {
        double s, rate;               /* from here on, in a straight line to the next point */
        double before;                /* arrivals before it */
    } points[LOAD_POINTS_MAX];
    double total;                     /* arrivals in all */
};

/* Points in order of time are added; the shape ends at the last. */
void load_shape_point(struct load_shape *shape, double s, double rate);
struct load_shape load_shape_steady(double rate, double seconds);
struct load_shape load_shape_ramp(double from, double to, double seconds);
/* The peak is reached after 2 % of the time, held for 15 %, left over another 15 %; the rest is even and as low as the average asks for.
 * `peak` between `average` and 4.25 times that. */
struct load_shape load_shape_spike(double average, double peak, double seconds);
#define LOAD_SPIKE_MOST 4.25
static inline double load_shape_seconds(const struct load_shape *shape) { return shape->points[shape->count - 1].s; }
/* The second at which n arrivals (0 … total) should have come. */
double load_shape_when(const struct load_shape *shape, double n);

/* Chance that is the same in every run with the same seed: 64 even bits for a number. */
uint64_t load_chance(uint64_t seed, uint64_t number);
/* The same as a share of 1, never 1. */
static inline double load_share(uint64_t chance) { return (double)(chance >> 11) * 0x1p-53; }

/* One process's part of the arrivals: of `parts`, the one numbered `part`. */
struct load_schedule {
    const struct load_shape *shape;
    double n, step;
    bool random;
    uint64_t seed, drawn;
};
struct load_schedule load_schedule_new(const struct load_shape *shape, unsigned part, unsigned parts, bool random, uint64_t seed);
/* The next arrival, in microseconds after the start, never before the last one's. False: there is none. */
bool load_schedule_next(struct load_schedule *s, uint64_t *us);

/* SPDX-License-Identifier: Apache-2.0
 * load_schedule.c: areas under straight lines, and their inverse. */
#include "load_schedule.h"

#include <math.h>

#include "check.h"

void load_shape_point(struct load_shape *shape, double s, double rate)
{
    check(shape->count < LOAD_POINTS_MAX && rate >= 0);
    struct load_point *p = &shape->points[shape->count];
    *p = (struct load_point){.s = s, .rate = rate};
    if (shape->count > 0) {
        check(s >= p[-1].s);
        shape->total += (p[-1].rate + rate) / 2 * (s - p[-1].s);
    }
    p->before = shape->total;
    shape->count++;
}

struct load_shape load_shape_steady(double rate, double seconds) { return load_shape_ramp(rate, rate, seconds); }

struct load_shape load_shape_ramp(double from, double to, double seconds)
{
    struct load_shape shape = {0};
    load_shape_point(&shape, 0, from);
    load_shape_point(&shape, seconds, to);
    return shape;
}

struct load_shape load_shape_spike(double average, double peak, double seconds)
{
    struct load_shape shape = {0};
    double low = (average - 0.235 * peak) / 0.755;    /* 0.01 + 0.15 + 0.075 of the area under the peak, 0.075 + 0.68 under the rest */
    if (low < 0)
        low = 0;    /* a peak of 4.25 times and a rounding */
    load_shape_point(&shape, 0, 0);
    load_shape_point(&shape, 0.02 * seconds, peak);
    load_shape_point(&shape, 0.17 * seconds, peak);
    load_shape_point(&shape, 0.32 * seconds, low);
    load_shape_point(&shape, seconds, low);
    return shape;
}

/* Within a piece: rate r, slope k, and n = r t + k t^2 / 2. The root is written so that nothing cancels where k is small. */
double load_shape_when(const struct load_shape *shape, double n)
{
    check(shape->count >= 2 && n >= 0);
    size_t i = 0;
    while (i + 2 < shape->count && shape->points[i + 1].before < n)
        i++;
    const struct load_point *p = &shape->points[i];
    double length = p[1].s - p->s, more = n - p->before;
    if (length <= 0 || more <= 0)
        return p->s;
    double slope = (p[1].rate - p->rate) / length, under = p->rate * p->rate + 2 * slope * more;
    double t = 2 * more / (p->rate + sqrt(under > 0 ? under : 0));
    return t < length ? p->s + t : p[1].s;
}

uint64_t load_chance(uint64_t seed, uint64_t number)
{
    uint64_t z = seed + (number + 1) * 0x9e3779b97f4a7c15ull;    /* SplitMix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* Distances in arrivals: 1, or with chance those of a Poisson process, whose parts are Poisson processes again. */
static double distance(struct load_schedule *s)
{
    return s->random ? -log1p(-load_share(load_chance(s->seed, s->drawn++))) * s->step : s->step;
}

struct load_schedule load_schedule_new(const struct load_shape *shape, unsigned part, unsigned parts, bool random, uint64_t seed)
{
    check(part < parts);
    struct load_schedule s = {.shape = shape, .step = parts, .random = random, .seed = load_chance(seed, part)};
    s.n = random ? distance(&s) : part + 0.5;
    return s;
}

bool load_schedule_next(struct load_schedule *s, uint64_t *us)
{
    if (s->n >= s->shape->total)
        return false;
    *us = (uint64_t)(load_shape_when(s->shape, s->n) * 1e6);
    s->n += distance(s);
    return true;
}

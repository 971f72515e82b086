/* SPDX-License-Identifier: Apache-2.0
 * soldout.c: a watch per activity reads its buckets round by round, all buckets of a round at once. Each round is the second one for the
 * round before it. What is known is replaced only when a whole round has ended well, and taken back at once by anything seen to the contrary. */
#include "soldout.h"

#include <stdlib.h>

#include "check.h"

struct soldout_read {
    struct waiter waiter;
    struct soldout_watch *watch;
    struct incarnation_asked seen;
};
/* What one round has seen of one bucket. */
struct sight {
    uint64_t sent_us, restocks, version;
    uint64_t empty;             /* bit per SKU */
    enum activity_state state;
    int64_t now_ms;
};
struct soldout_watch {
    struct soldout *owner;
    uint16_t number;            /* of the activity; 0: free */
    uint8_t epoch, buckets;
    int sku_count;
    struct str activity, skus[SOLDOUT_SKUS];
    char memory[(SOLDOUT_SKUS + 1) * 64];
    uint8_t *filter;            /* all buckets' one after another */
    size_t filter_used;
    struct { uint32_t at, bits; } filters[SOLDOUT_BUCKETS];

    uint64_t asked_us;          /* when somebody last cared */
    uint64_t next_us;           /* when the next round begins; 0: none */
    int reading;                /* reads in flight */
    bool failed, filtered;      /* of this round */
    uint64_t begun_us, begun_before_us;
    bool before;                /* the round before this one ended well */
    struct sight now[SOLDOUT_BUCKETS], then[SOLDOUT_BUCKETS];
    struct soldout_read reads[SOLDOUT_BUCKETS];

    uint64_t sold;              /* known: a bit per SKU */
    enum reason word;           /* known: ENDED, RESERVATION_PAUSED; OK: nothing */
    uint64_t sent_us[SOLDOUT_BUCKETS];
    struct link held;
};

struct soldout_options soldout_options_default(void)
{
    return (struct soldout_options){.valid_ms = 250, .hold_ms = 50, .read_ms = 100, .every_ms = 60, .hurry_ms = 8, .idle_ms = 2000, .watches = 64,
                                    .filter_bytes = (size_t)1 << 20};
}

static void forget(struct soldout_watch *w)
{
    w->sold = 0;
    w->word = REASON_OK;
    w->before = false;
}

static void schedule(struct soldout *s)
{
    uint64_t next = UINT64_MAX, hold = (uint64_t)s->options.hold_ms * 1000;
    for (size_t i = 0; i <= s->used; i++) {
        struct soldout_watch *w = i < s->used ? &s->watches[i] : NULL;
        struct link *held = w ? &w->held : &s->lone;
        if (!list_empty(held) && list_entry(held->next, struct soldout_wait, link)->since_us + hold < next)
            next = list_entry(held->next, struct soldout_wait, link)->since_us + hold;
        if (w && w->number && w->reading == 0 && w->next_us != 0 && w->next_us < next)
            next = w->next_us;
    }
    if (next == UINT64_MAX)
        clock_unset(s->clock, &s->tick);
    else if (s->tick.place == 0 || s->tick.due_us != next)
        clock_set(s->clock, &s->tick, next);
}

/* ---- a round ------------------------------------------------------------------------------------------------------------ */

static void round_begin(struct soldout_watch *w)
{
    struct soldout *s = w->owner;
    w->begun_before_us = w->begun_us;
    w->begun_us = clock_mono_us(s->clock);
    w->failed = false;
    w->filtered = w->before;
    w->reading = w->buckets;
    const struct activity *a = catalog_by_number(s->catalog, w->number);
    for (uint8_t b = 0; b < w->buckets; b++) {
        if (a)
            w->reads[b].seen = incarnation_ask(s->guard, a, b);
        struct stock_ask ask = {.bucket = {w->activity, w->epoch, b}, .with_filter = w->filtered};
        w->now[b] = (struct sight){.sent_us = clock_mono_us(s->clock)};
        store_stock(s->store, &ask, &w->reads[b].waiter);
    }
}

static bool take_filter(struct soldout_watch *w, size_t b, const struct stock_answer *a)
{
    size_t bytes = ((size_t)a->filter_bits + 7) / 8;
    if (a->filter_bits == 0 || a->filter.len > bytes || (w->filters[b].bits != 0 && w->filters[b].bits != a->filter_bits))
        return false;
    if (w->filters[b].bits == 0) {
        if (bytes > w->owner->options.filter_bytes - w->filter_used)
            return false;
        w->filters[b].at = (uint32_t)w->filter_used;
        w->filters[b].bits = a->filter_bits;
        w->filter_used += bytes;
    }
    uint8_t *at = w->filter + w->filters[b].at;
    if (a->filter.len > 0)
        memcpy(at, a->filter.ptr, a->filter.len);
    memset(at + a->filter.len, 0, bytes - a->filter.len);
    return true;
}

/* Whether the store that answered is known to hold all it has said: else nothing follows from what it does not hold. */
static bool remembers(struct soldout_watch *w, size_t b, const struct stock_answer *s)
{
    struct soldout *owner = w->owner;
    const struct activity *a = catalog_by_number(owner->catalog, w->number);
    return a && a->epoch == w->epoch && incarnation_recorded(a, (uint8_t)b, s->incarnation) &&
           incarnation_answered(owner->guard, a, (uint8_t)b, w->reads[b].seen, s->sequence, true);
}

static void see(struct soldout_watch *w, size_t b, const struct stock_answer *a)
{
    struct sight *sight = &w->now[b];
    sight->restocks = a->restocks;
    sight->version = a->version;
    sight->state = a->state;
    sight->now_ms = a->now_ms;
    if (!a->seeded || a->closed || !remembers(w, b, a)) {
        w->failed = true;
        return;
    }
    for (size_t i = 0; i < a->sku_count; i++)
        for (int k = 0; k < w->sku_count; k++)
            if (str_eq(a->skus[i].sku, w->skus[k]) && a->skus[i].free == 0 && a->skus[i].resting == 0 && a->skus[i].moving == 0)
                sight->empty |= (uint64_t)1 << k;
    w->sold &= sight->empty;
    if (a->state == ACTIVITY_OPEN && w->word == REASON_RESERVATION_PAUSED)
        w->word = REASON_OK;
    if (w->filtered && !take_filter(w, b, a))
        w->filtered = false;    /* too large to keep: nothing is said by ourselves, but who is held may be told */
}

/* ENDED or RESERVATION_PAUSED where every bucket said so in this round. A window has ended where the bucket's clock is past the end of
 * the same version of the activity that we know. */
static enum reason word_of(struct soldout_watch *w)
{
    const struct activity *a = catalog_by_number(w->owner->catalog, w->number);
    size_t ended = 0, paused = 0;
    for (size_t b = 0; b < w->buckets; b++) {
        bool over = a && a->version == w->now[b].version && a->ends_ms > 0 && w->now[b].now_ms >= a->ends_ms;
        ended += w->now[b].state == ACTIVITY_CLOSED || (w->now[b].state == ACTIVITY_OPEN && over);
        paused += w->now[b].state == ACTIVITY_PAUSED;
    }
    return ended == w->buckets ? REASON_ENDED : paused == w->buckets ? REASON_RESERVATION_PAUSED : REASON_OK;
}

static void release_held(struct soldout_watch *w, uint64_t sold)
{
    struct link told;
    list_init(&told);
    for (struct link *at = w->held.next, *next; at != &w->held; at = next) {
        next = at->next;
        struct soldout_wait *h = list_entry(at, struct soldout_wait, link);
        if (h->sku < 0 || h->sku >= w->sku_count || !(sold >> h->sku & 1) || w->begun_before_us < h->since_us)
            continue;
        list_remove(at);
        list_append(&told, at);
    }
    for (struct link *at; (at = list_take(&told));) {
        struct soldout_wait *h = list_entry(at, struct soldout_wait, link);
        h->done(h, REASON_SOLD_OUT);
    }
}

static void round_end(struct soldout_watch *w)
{
    struct soldout *s = w->owner;
    uint64_t now = clock_mono_us(s->clock), sold = 0;
    if (w->failed) {
        forget(w);
    } else {
        if (w->before) {
            sold = UINT64_MAX;
            for (size_t b = 0; b < w->buckets; b++)
                sold &= w->now[b].restocks == w->then[b].restocks ? w->now[b].empty & w->then[b].empty : 0;
        }
        w->sold = w->before && w->filtered ? sold : 0;
        w->word = w->before && w->filtered ? word_of(w) : REASON_OK;
        for (size_t b = 0; b < w->buckets; b++)
            w->sent_us[b] = w->now[b].sent_us;
        memcpy(w->then, w->now, sizeof w->then);
    }
    bool before = w->before;
    w->before = !w->failed;
    if (!w->failed && before)
        release_held(w, sold);
    bool cared = now - w->asked_us < (uint64_t)s->options.idle_ms * 1000;
    uint64_t gap = !list_empty(&w->held) ? (w->before && !before ? 0 : s->options.hurry_ms) : s->options.every_ms;
    if (!cared && list_empty(&w->held))
        forget(w);
    w->next_us = cared || !list_empty(&w->held) ? w->begun_us + gap * 1000 : 0;
    if (w->next_us != 0 && w->next_us < now)
        w->next_us = now;
    schedule(s);
}

static void read_done(struct waiter *waiter, enum reason reason, const void *result)
{
    struct soldout_read *read = container_of(waiter, struct soldout_read, waiter);
    struct soldout_watch *w = read->watch;
    if (reason == REASON_OK)
        see(w, (size_t)(read - w->reads), result);
    else
        w->failed = true;
    if (w->failed)
        forget(w);
    if (--w->reading == 0)
        round_end(w);
}

/* ---- the tick ----------------------------------------------------------------------------------------------------------- */

static void let_out(struct soldout *s, struct link *held, uint64_t since_most)
{
    while (!list_empty(held) && list_entry(held->next, struct soldout_wait, link)->since_us <= since_most) {
        struct soldout_wait *h = list_entry(list_take(held), struct soldout_wait, link);
        h->done(h, REASON_STOCK_MOVING);
    }
    (void)s;
}

static void ticked(struct waiter *waiter, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct soldout *s = container_of(container_of(waiter, struct alarm, waiter), struct soldout, tick);
    uint64_t now = clock_mono_us(s->clock), hold = (uint64_t)s->options.hold_ms * 1000;
    for (size_t i = 0; i < s->used; i++) {
        struct soldout_watch *w = &s->watches[i];
        if (now >= hold)
            let_out(s, &w->held, now - hold);
        if (w->number && w->reading == 0 && w->next_us != 0 && w->next_us <= now) {
            w->next_us = 0;
            round_begin(w);
        }
    }
    if (now >= hold)
        let_out(s, &s->lone, now - hold);
    schedule(s);
}

/* ---- watches ------------------------------------------------------------------------------------------------------------ */

static void watch_set(struct soldout *s, struct soldout_watch *w, const struct activity *a)
{
    struct arena memory = {.start = w->memory, .cap = sizeof w->memory};
    if (w->number)
        s->by_number[w->number] = 0;
    forget(w);
    w->number = a->number;
    w->epoch = a->epoch;
    w->buckets = a->buckets;
    w->activity = arena_str(&memory, a->activity);
    w->sku_count = a->sku_count < SOLDOUT_SKUS ? (int)a->sku_count : SOLDOUT_SKUS;
    for (int i = 0; i < w->sku_count; i++)
        w->skus[i] = arena_str(&memory, a->skus[i].sku);
    w->filter_used = 0;
    w->next_us = 0;
    w->begun_us = w->begun_before_us = 0;
    memset(w->filters, 0, sizeof w->filters);
    s->by_number[a->number] = (uint8_t)(w - s->watches + 1);
    if (s->used < (size_t)(w - s->watches) + 1)
        s->used = (size_t)(w - s->watches) + 1;
}

static bool watch_is(const struct soldout_watch *w, const struct activity *a)
{
    return w->number == a->number && w->epoch == a->epoch && w->buckets == a->buckets && str_eq(w->activity, a->activity);
}

static bool at_rest(const struct soldout_watch *w) { return w->reading == 0 && list_empty(&w->held); }

/* The one that is missed least: free, or at rest and asked about longest ago. NULL: each is just finding out for somebody. */
static struct soldout_watch *least_asked(struct soldout *s)
{
    struct soldout_watch *least = NULL;
    if (s->used < s->options.watches)
        return &s->watches[s->used];
    for (size_t i = 0; i < s->used; i++) {
        struct soldout_watch *w = &s->watches[i];
        if (at_rest(w) && (!least || w->asked_us < least->asked_us))
            least = w;
    }
    return least;
}

/* The watch of an activity; NULL: none now. Where all are taken, whoever is held gets that of another activity, however lately that was asked about: with
 * more sales sold out than watches each would else hear STOCK_MOVING for as long as the others go on. */
static struct soldout_watch *watch_of(struct soldout *s, const struct activity *a, bool held)
{
    struct soldout_watch *w = s->by_number[a->number] ? &s->watches[s->by_number[a->number] - 1] : NULL;
    if (w && watch_is(w, a))
        return w;
    if (!w)
        w = least_asked(s);
    if (!w || !at_rest(w) || a->buckets == 0 || a->buckets > SOLDOUT_BUCKETS)
        return NULL;
    if (!held && w->number && w->number != a->number && clock_mono_us(s->clock) - w->asked_us <= (uint64_t)s->options.idle_ms * 1000)
        return NULL;
    watch_set(s, w, a);
    return w;
}

size_t soldout_memory(struct soldout_options o) { return o.watches * (sizeof(struct soldout_watch) + o.filter_bytes); }

bool soldout_init(struct soldout *s, struct store *store, struct clock *clock, struct catalog *catalog, struct incarnation_guard *guard,
                  struct soldout_options options)
{
    check(options.watches >= 1 && options.watches < 255 && options.valid_ms < 300 && options.filter_bytes < UINT32_MAX);
    *s = (struct soldout){.store = store, .clock = clock, .catalog = catalog, .guard = guard, .options = options};
    list_init(&s->lone);
    s->tick.waiter.wake = ticked;
    s->watches = calloc(options.watches, sizeof *s->watches);
    s->filters = calloc(options.watches, options.filter_bytes);
    if (!s->watches || !s->filters) {    /* nothing is watched yet: there is nothing to stop */
        free(s->watches);
        free(s->filters);
        s->watches = NULL;
        s->filters = NULL;
        return false;
    }
    for (size_t i = 0; i < options.watches; i++) {
        struct soldout_watch *w = &s->watches[i];
        w->owner = s;
        w->filter = s->filters + i * options.filter_bytes;
        list_init(&w->held);
        for (size_t b = 0; b < SOLDOUT_BUCKETS; b++)
            w->reads[b] = (struct soldout_read){.waiter = {.wake = read_done, .budget_ms = options.read_ms}, .watch = w};
    }
    return true;
}

void soldout_stop(struct soldout *s)
{
    clock_unset(s->clock, &s->tick);
    for (size_t i = 0; s->watches && i < s->options.watches; i++) {
        struct soldout_watch *w = &s->watches[i];
        for (size_t b = 0; b < SOLDOUT_BUCKETS; b++)
            waiter_drop(&w->reads[b].waiter);
        w->reading = 0;
        w->next_us = 0;
        forget(w);
        let_out(s, &w->held, UINT64_MAX);
    }
    let_out(s, &s->lone, UINT64_MAX);
    clock_unset(s->clock, &s->tick);
}

void soldout_free(struct soldout *s)
{
    soldout_stop(s);
    free(s->watches);
    free(s->filters);
    s->watches = NULL;
    s->filters = NULL;
}

/* ---- for everybody ------------------------------------------------------------------------------------------------------ */

static bool in_filter(const struct soldout_watch *w, size_t b, uint64_t hash)
{
    uint64_t h1 = hash & UINT32_MAX, step = hash >> 32 | 1, bits = w->filters[b].bits;
    const uint8_t *bytes = w->filter + w->filters[b].at;
    for (uint64_t i = 0; i < WINNER_PROBES; i++) {
        uint64_t bit = (h1 + i * step) % bits;
        if (!(bytes[bit / 8] >> (7 - bit % 8) & 1))
            return false;
    }
    return true;
}

enum reason soldout_says(struct soldout *s, const struct activity *a, int sku, uint64_t hash, uint8_t bucket)
{
    struct soldout_watch *w = s->by_number[a->number] ? &s->watches[s->by_number[a->number] - 1] : NULL;
    if (!w || (w->sold == 0 && w->word == REASON_OK) || !watch_is(w, a) || bucket >= w->buckets)
        return REASON_OK;
    bool sold = sku >= 0 && sku < w->sku_count && (w->sold >> sku & 1) && str_eq(w->skus[sku], a->skus[sku].sku);
    if (!sold && w->word == REASON_OK)
        return REASON_OK;
    uint64_t now = clock_mono_us(s->clock);
    if (now - w->sent_us[bucket] >= (uint64_t)s->options.valid_ms * 1000)
        return REASON_OK;
    w->asked_us = now;
    if (in_filter(w, bucket, hash))
        return REASON_OK;
    return w->word != REASON_OK ? w->word : REASON_SOLD_OUT;
}

void soldout_hold(struct soldout *s, const struct activity *a, int sku, struct soldout_wait *wait)
{
    struct soldout_watch *w = watch_of(s, a, wait != NULL);
    uint64_t now = clock_mono_us(s->clock);
    if (wait) {
        wait->sku = sku;
        wait->since_us = now;
        list_append(w ? &w->held : &s->lone, &wait->link);
    }
    if (w) {
        w->asked_us = now;
        uint64_t gap = (uint64_t)(wait ? s->options.hurry_ms : s->options.every_ms) * 1000;
        uint64_t due = w->begun_us == 0 || w->begun_us + gap < now ? now : w->begun_us + gap;
        if (w->reading == 0 && (w->next_us == 0 || w->next_us > due))
            w->next_us = due;
    }
    schedule(s);
}

void soldout_let_go(struct soldout_wait *wait)
{
    if (wait->link.next)
        list_remove(&wait->link);
}

bool soldout_known(struct soldout *s, const struct activity *a, int sku)
{
    struct soldout_watch *w = s->by_number[a->number] ? &s->watches[s->by_number[a->number] - 1] : NULL;
    if (!w || !watch_is(w, a) || sku < 0 || sku >= w->sku_count || !(w->sold >> sku & 1))
        return false;
    return clock_mono_us(s->clock) - w->sent_us[0] < (uint64_t)s->options.valid_ms * 1000;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "hash.h"

struct catalog_options catalog_options_default(void)
{
    return (struct catalog_options){.refresh_ms = 1000, .read_ms = 2000, .gap_ms = 50, .memory = (size_t)4 << 20};
}

/* Only we choose these names, so the key needs no secret. */
static size_t slot_of(struct str name, size_t slots)
{
    return (size_t)hash_keyed((struct hash_key){0x7365636b, 0x696c6c21}, name) & (slots - 1);
}

/* ---- a page ------------------------------------------------------------------------------------------------------------ */

static bool copy_skus(struct arena *a, const struct activity *from, struct activity *to)
{
    struct sku *skus = arena_array(a, struct sku, from->sku_count + 1);
    for (size_t i = 0; skus && i < from->sku_count; i++) {
        skus[i] = from->skus[i];
        skus[i].sku = arena_str(a, from->skus[i].sku);
        skus[i].currency = arena_str(a, from->skus[i].currency);
        if (skus[i].sku.len != from->skus[i].sku.len || skus[i].currency.len != from->skus[i].currency.len)
            return false;
    }
    to->skus = skus;
    return skus != NULL;
}

static bool copy_incarnations(struct arena *arena, const struct activity *from, struct activity *to)
{
    struct str *incarnations = arena_array(arena, struct str, (size_t)from->buckets + 1);
    bool good = incarnations != NULL;
    for (uint8_t i = 0; good && from->incarnations && i < from->buckets; i++) {
        incarnations[i] = arena_str(arena, from->incarnations[i]);
        good = incarnations[i].len == from->incarnations[i].len;
    }
    to->incarnations = incarnations;
    return good;
}

static bool copy(struct catalog_page *p, const struct activity *from, struct activity *to, size_t index)
{
    *to = *from;
    to->activity = arena_str(&p->memory, from->activity);
    to->title = arena_str(&p->memory, from->title);
    if (to->activity.len != from->activity.len || to->title.len != from->title.len || !copy_skus(&p->memory, from, to) || !copy_incarnations(&p->memory, from, to))
        return false;
    size_t at = slot_of(to->activity, p->slots);
    while (p->by_name[at] != 0)
        at = (at + 1) & (p->slots - 1);
    p->by_name[at] = (uint16_t)(index + 1);
    if (from->number > 0 && from->number < countof(p->by_number))
        p->by_number[from->number] = (uint16_t)(index + 1);
    return true;
}

static bool page_fill(struct catalog_page *p, const struct activities_answer *answer)
{
    arena_reset(&p->memory);
    memset(p->by_number, 0, sizeof p->by_number);
    p->count = 0;
    for (p->slots = 16; p->slots < answer->count * 2 + 2; p->slots *= 2)
        ;
    p->by_name = arena_array(&p->memory, uint16_t, p->slots);
    struct activity *activities = arena_array(&p->memory, struct activity, answer->count + 1);
    p->activities = activities;
    if (!p->by_name || !activities || answer->count >= UINT16_MAX)
        return false;
    for (size_t i = 0; i < answer->count; i++)
        if (!copy(p, &answer->activities[i], &activities[i], i))
            return false;
    p->count = answer->count;
    return true;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------- */

#define VISIT_US 60000000    /* how long an activity outside the working set is read with it after it was last asked for */

static void read_now(struct catalog *c)
{
    struct str names[CATALOG_VISITORS];
    uint16_t numbers[CATALOG_VISITORS];
    struct activities_ask ask = {.live = true, .names = names, .numbers = numbers};
    c->begun_us = clock_mono_us(c->clock);
    c->begun++;
    for (size_t i = 0; i < c->visitor_count; i++) {
        struct catalog_visitor *v = &c->visitors[i];
        if (v->wanted_us + VISIT_US <= c->begun_us)
            v->wanted_us = 0;
        else if (v->name_len > 0)
            names[ask.name_count++] = (struct str){v->name, v->name_len};
        else
            numbers[ask.number_count++] = v->number;
    }
    ledger_activities(c->ledger, &ask, &c->reader);
}

/* At once, or when the last read began gap_ms ago. */
static void read_soon(struct catalog *c)
{
    uint64_t next = c->begun_us + (uint64_t)c->options.gap_ms * 1000, now = clock_mono_us(c->clock);
    clock_unset(c->clock, &c->alarm);
    if (c->begun == 0 || now >= next)
        read_now(c);
    else
        clock_set_in(c->clock, &c->alarm, next - now);
}

static void tell(struct catalog *c, enum reason reason, uint64_t up_to)
{
    struct link told;
    list_init(&told);
    for (struct link *at = c->waits.next, *next; at != &c->waits; at = next) {
        next = at->next;
        if (list_entry(at, struct catalog_wait, link)->turn > up_to)
            continue;
        list_remove(at);
        list_append(&told, at);
    }
    for (struct link *at; (at = list_take(&told));) {
        struct catalog_wait *w = list_entry(at, struct catalog_wait, link);
        w->done(w, reason);
    }
}

static void learnt(struct waiter *w, enum reason reason, const void *result)
{
    struct catalog *c = container_of(w, struct catalog, reader);
    c->ended = c->begun;
    if (reason == REASON_OK) {
        int other = c->shown == 0 ? 1 : 0;
        if (page_fill(&c->pages[other], result)) {
            c->shown = other;
            c->learnt_us = clock_mono_us(c->clock);
        } else {
            struct log_line l = log_event(LEVEL_ERROR, "catalog_full");
            log_i64(&l, "memory", (int64_t)c->options.memory);
            log_end(&l);
            reason = REASON_OVERLOADED;
        }
    }
    tell(c, reason, c->ended);
    if (!c->running || waiter_busy(&c->reader))
        return;
    if (!list_empty(&c->waits))
        read_soon(c);
    else
        clock_set_in(c->clock, &c->alarm, (uint64_t)c->options.refresh_ms * 1000);
}

static void rung(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct catalog *c = container_of(container_of(w, struct alarm, waiter), struct catalog, alarm);
    if (!waiter_busy(&c->reader))
        read_now(c);
}

/* ---- for everybody ------------------------------------------------------------------------------------------------------ */

bool catalog_init(struct catalog *c, struct ledger *ledger, struct clock *clock, struct catalog_options options)
{
    *c = (struct catalog){.ledger = ledger, .clock = clock, .options = options, .shown = -1};
    c->reader = (struct waiter){.wake = learnt, .budget_ms = options.read_ms};
    c->alarm.waiter.wake = rung;
    list_init(&c->waits);
    c->visitors = calloc(CATALOG_VISITORS, sizeof *c->visitors);
    if (!c->visitors)
        return false;
    for (int i = 0; i < 2; i++) {
        c->pages[i].memory = arena_new(options.memory);
        if (!c->pages[i].memory.start) {
            catalog_free(c);
            return false;
        }
    }
    return true;
}

void catalog_free(struct catalog *c)
{
    catalog_stop(c);
    for (int i = 0; i < 2; i++)
        arena_free(&c->pages[i].memory);
    free(c->visitors);
    c->visitors = NULL;
    c->shown = -1;
}

void catalog_start(struct catalog *c)
{
    c->running = true;
    if (!waiter_busy(&c->reader))
        read_now(c);
}

void catalog_stop(struct catalog *c)
{
    c->running = false;
    clock_unset(c->clock, &c->alarm);
    waiter_drop(&c->reader);
    tell(c, REASON_CANCELLED, UINT64_MAX);
}

const struct activity *catalog_find(const struct catalog *c, struct str activity)
{
    if (c->shown < 0 || activity.len == 0)
        return NULL;
    const struct catalog_page *p = &c->pages[c->shown];
    for (size_t at = slot_of(activity, p->slots); p->by_name[at] != 0; at = (at + 1) & (p->slots - 1))
        if (str_eq(p->activities[p->by_name[at] - 1].activity, activity))
            return &p->activities[p->by_name[at] - 1];
    return NULL;
}

const struct activity *catalog_by_number(const struct catalog *c, uint16_t number)
{
    if (c->shown < 0 || number >= 4096 || c->pages[c->shown].by_number[number] == 0)
        return NULL;
    return &c->pages[c->shown].activities[c->pages[c->shown].by_number[number] - 1];
}

int activity_sku(const struct activity *a, struct str sku)
{
    for (size_t i = 0; i < a->sku_count; i++)
        if (str_eq(a->skus[i].sku, sku))
            return (int)i;
    return -1;
}

bool catalog_may_lag(const struct catalog *c, const struct activity *a)
{
    return (!a || a->state == ACTIVITY_DRAFT) && c->running;
}

/* The visitor of this name or number, or a place for it: a free one, or that of the one asked for longest ago which a read has answered. NULL: none. */
static struct catalog_visitor *visitor_place(struct catalog *c, struct str name, uint16_t number)
{
    struct catalog_visitor *place = NULL;
    for (size_t i = 0; i < c->visitor_count; i++) {
        struct catalog_visitor *v = &c->visitors[i];
        bool same = name.len > 0 ? str_eq(name, (struct str){v->name, v->name_len}) : v->name_len == 0 && v->number == number;
        if (same && v->wanted_us != 0)
            return v;
        if ((v->wanted_us == 0 || v->turn <= c->ended) && (!place || v->wanted_us < place->wanted_us))
            place = v;
    }
    if ((!place || place->wanted_us != 0) && c->visitor_count < CATALOG_VISITORS)
        place = &c->visitors[c->visitor_count++];
    if (place)
        *place = (struct catalog_visitor){.number = name.len > 0 ? 0 : number, .name_len = (uint8_t)name.len, .turn = c->begun + 1};
    if (place && name.len > 0)
        memcpy(place->name, name.ptr, name.len);
    return place;
}

bool catalog_look_up(struct catalog *c, struct str name, uint16_t number, struct catalog_wait *w)
{
    check(c->running && name.len <= sizeof c->visitors->name);
    const struct activity *known = name.len > 0 ? catalog_find(c, name) : catalog_by_number(c, number);
    if ((name.len > 0 || number > 0) && (!known || known->retired)) {
        struct catalog_visitor *v = visitor_place(c, name, number);
        if (!v)
            return false;
        v->wanted_us = clock_mono_us(c->clock) + 1;    /* never 0 */
    }
    w->turn = c->begun + 1;
    list_append(&c->waits, &w->link);
    if (!waiter_busy(&c->reader))
        read_soon(c);
    return true;
}

void catalog_let_go(struct catalog_wait *w)
{
    if (w->link.next)
        list_remove(&w->link);
}

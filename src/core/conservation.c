/* SPDX-License-Identifier: Apache-2.0
 * conservation.c: find the activity → window by window: (the ledger's units, slice by slice → each bucket's holdings, slice by slice → judge → rest)* →
 * report. A mark a unit, as many as `options.units`: an activity with more units is counted in several windows, and each window reads all buckets again.
 * What a look cannot attribute is a suspect; the next look starts afresh and remembers only what was suspect and at which generation. */
#include "conservation.h"

#include <stdlib.h>

#include "arena.h"
#include "check.h"
#include "json.h"

#define SLICE_MAX 4096
#define ATTEMPTS 4
#define EXTRAS_MAX 64

struct conservation_options conservation_options_default(void)
{
    return (struct conservation_options){.call_ms = 5000, .apart_ms = 2200, .looks = 4, .units = (size_t)1 << 20, .findings = 1000};
}

const char *conservation_owner_name(enum conservation_owner owner)
{
    static const char *const names[] = {"NONE", "AVAILABLE", "RESERVED", "ORDER", "COMING", "TWO", "STALE"};
    check((unsigned)owner < countof(names));
    return names[owner];
}

void conservation_sku_write(struct buf *out, const struct conservation_sku *s)
{
    json_member_str(out, "sku_id", s->sku);
    json_member_i64(out, "s0", s->s0);
    json_member_i64(out, "a", s->a);
    json_member_i64(out, "r", s->r);
    json_member_i64(out, "o", s->o);
    json_member_i64(out, "c", s->c);
    json_member_i64(out, "e", s->e);
    json_member_i64(out, "drift", s->drift);
}

enum { IN_LEDGER = 1, IN_STOCK = 2, ORDERED = 4, RETURNING = 8, FREE = 16, PENDING = 32, TWICE = 64, OLD_COPY = 128, RESTING = 256 };
struct mark {
    uint32_t generation, suspect_generation;
    uint32_t holder;           /* whose reservation, folded */
    uint16_t flags;
    uint8_t bucket;            /* where it was seen, else its home */
    uint8_t owner, suspect;    /* enum conservation_owner; suspect: in the look before, 0: it was none */
    bool finding;
};
enum step { STEP_FIND, STEP_UNITS, STEP_HOLDINGS, STEP_REST };

struct conservation_work {
    struct conservation *count;
    struct store *store;
    struct ledger *ledger;
    struct clock *clock;
    struct conservation_options options;
    struct waiter call;
    struct alarm rest;
    uint32_t attempts;
    enum step step;
    struct arena texts;
    struct str name;
    uint8_t epoch, buckets, bucket;
    bool draft;
    struct conservation_sku *skus;
    int64_t *firsts;           /* first unit of each SKU */
    size_t *bases;             /* and its index among all units of the activity, in order of units */
    size_t sku_count, total;
    size_t from, window;       /* the units that are counted now: indices from … from + window - 1 */
    struct mark *marks;        /* of the window */
    int64_t after;
    char cursor[256];
    size_t cursor_len;
    uint32_t looks, most_looks;    /* of this window; of the one that needed most */
    struct conservation_unit *units, extras[EXTRAS_MAX];
    size_t unit_count, extra_count;
};

static void step(struct conservation_work *);

static void end(struct conservation_work *w, enum reason reason)
{
    struct conservation *c = w->count;
    c->reason = reason;
    c->epoch = w->epoch;
    c->looks = w->most_looks;
    if (reason == REASON_OK) {
        c->skus = w->skus;
        c->sku_count = w->sku_count;
        c->units = w->units;
        c->unit_count = w->unit_count;
    }
    c->done(c);
}

/* ---- the activity ------------------------------------------------------------------------------------------------------------ */

static bool skus_keep(struct conservation_work *w, const struct activity *a)
{
    w->skus = arena_array(&w->texts, struct conservation_sku, a->sku_count + 1);
    w->firsts = arena_array(&w->texts, int64_t, a->sku_count + 1);
    w->bases = arena_array(&w->texts, size_t, a->sku_count + 1);
    w->units = arena_array(&w->texts, struct conservation_unit, w->options.findings);
    if (!w->skus || !w->firsts || !w->bases || !w->units)
        return false;
    w->sku_count = a->sku_count;
    w->total = 0;
    for (size_t i = 0; i < a->sku_count; i++) {
        w->skus[i] = (struct conservation_sku){.sku = arena_str(&w->texts, a->skus[i].sku), .s0 = a->skus[i].stock};
        w->firsts[i] = a->skus[i].unit_first;
        w->total += (size_t)a->skus[i].stock;
        if (w->skus[i].sku.len != a->skus[i].sku.len)
            return false;
        w->bases[i] = 0;
        for (size_t k = 0; k < a->sku_count; k++)
            w->bases[i] += a->skus[k].unit_first < a->skus[i].unit_first ? (size_t)a->skus[k].stock : 0;
    }
    w->window = w->total < w->options.units ? w->total : w->options.units;
    w->marks = calloc(w->window + 1, sizeof *w->marks);
    return w->marks != NULL;
}

/* The unit before the first of the window: the ledger's slices begin behind it. */
static int64_t before_window(const struct conservation_work *w)
{
    for (size_t i = 0; w->from > 0 && i < w->sku_count; i++)
        if (w->from >= w->bases[i] && w->from - w->bases[i] < (size_t)w->skus[i].s0)
            return w->firsts[i] + (int64_t)(w->from - w->bases[i]) - 1;
    return 0;
}

static void found(struct conservation_work *w, const struct activities_answer *a)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct activity *at = &a->activities[i];
        if (!str_eq(at->activity, w->name))
            continue;
        w->epoch = at->epoch;
        w->buckets = at->buckets;
        w->draft = at->state == ACTIVITY_DRAFT;
        w->step = STEP_UNITS;
        if (skus_keep(w, at))
            step(w);
        else
            end(w, REASON_OVERLOADED);
        return;
    }
    end(w, REASON_UNKNOWN_ACTIVITY);
}

/* ---- looking ----------------------------------------------------------------------------------------------------------------- */

#define NO_UNIT SIZE_MAX
/* The index of a unit among all of the activity; NO_UNIT: it is none of them. */
static size_t index_of(const struct conservation_work *w, int64_t unit)
{
    for (size_t i = 0; i < w->sku_count; i++)
        if (unit >= w->firsts[i] && unit - w->firsts[i] < w->skus[i].s0)
            return w->bases[i] + (size_t)(unit - w->firsts[i]);
    return NO_UNIT;
}

static bool in_window(const struct conservation_work *w, size_t index) { return index >= w->from && index - w->from < w->window; }

static void extra(struct conservation_work *w, struct token token, struct str sku, uint8_t bucket, const char *detail)
{
    if (w->from > 0)    /* the first window has named them */
        return;
    for (size_t i = 0; i < w->extra_count; i++)
        if (w->extras[i].token.unit == token.unit)
            return;
    if (w->extra_count < EXTRAS_MAX)
        w->extras[w->extra_count++] = (struct conservation_unit){
            .token = token, .sku = arena_str(&w->texts, sku), .owner = OWNER_STALE, .finding = true, .detail = detail, .bucket = bucket};
}

static void units_came(struct conservation_work *w, const struct units_answer *a)
{
    bool beyond = a->count == 0;    /* the units come in order: behind the window nothing more is of it */
    for (size_t i = 0; i < a->count && !beyond; i++) {
        const struct ledger_unit *u = &a->units[i];
        size_t at = index_of(w, u->token.unit);
        w->after = u->token.unit;
        if (at == NO_UNIT) {
            extra(w, u->token, u->sku, u->home, "a unit in the ledger beyond the stock of its item");
            continue;
        }
        beyond = at >= w->from + w->window;
        if (!in_window(w, at))
            continue;
        struct mark *m = &w->marks[at - w->from];
        m->generation = u->token.generation;
        m->bucket = u->home;
        m->flags = (uint16_t)(IN_LEDGER | (u->available ? IN_STOCK : 0) | (u->ordered ? ORDERED : 0) | (u->returning ? RETURNING : 0));
    }
    if (beyond) {
        w->step = STEP_HOLDINGS;
        w->bucket = 0;
        w->cursor_len = 0;
    }
    step(w);
}

static uint32_t fold(const struct ident *id)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < sizeof id->bytes; i++)
        h = (h ^ id->bytes[i]) * 16777619u;
    return h;
}

/* One thing a bucket holds. A slice may show the same thing twice; the same unit at two places is another matter. */
static void see(struct conservation_work *w, const struct held *h)
{
    size_t at = index_of(w, h->token.unit);
    bool reserved = h->holding == HOLDING_RESERVED;
    if (at == NO_UNIT)
        extra(w, h->token, h->sku, w->bucket, "a bucket holds a unit that is none of the activity's");
    if (!in_window(w, at))
        return;
    struct mark *m = &w->marks[at - w->from];
    if (h->token.generation != m->generation) {
        if (!reserved && h->token.generation < m->generation)
            m->flags |= OLD_COPY;
    } else if (reserved) {
        uint32_t holder = fold(&h->ident);
        bool again = (m->flags & PENDING) && m->holder == holder;
        m->flags |= (uint16_t)((m->flags & (FREE | PENDING)) && !again ? PENDING | TWICE : PENDING);
        m->holder = holder;
        m->bucket = w->bucket;
    } else {
        unsigned resting = h->holding == HOLDING_FREE ? 0 : RESTING;
        bool again = (m->flags & FREE) && m->bucket == w->bucket && (m->flags & RESTING) == resting;
        m->flags |= (uint16_t)(FREE | resting | ((m->flags & (FREE | PENDING)) && !again ? TWICE : 0));
        m->bucket = w->bucket;
    }
}

static void judge(struct conservation_work *);

static void next_bucket(struct conservation_work *w)
{
    w->cursor_len = 0;
    w->bucket++;
    step(w);
}

static void holdings_came(struct conservation_work *w, const struct holdings_answer *a)
{
    for (size_t i = 0; i < a->count; i++)
        see(w, &a->held[i]);
    check(a->cursor.len <= sizeof w->cursor);
    if (a->cursor.len == 0) {
        next_bucket(w);
        return;
    }
    memcpy(w->cursor, a->cursor.ptr, a->cursor.len);
    w->cursor_len = a->cursor.len;
    step(w);
}

/* ---- judging ----------------------------------------------------------------------------------------------------------------- */

static enum conservation_owner owner_of(const struct conservation_work *w, const struct mark *m)
{
    unsigned f = m->flags;
    if (!(f & IN_LEDGER))
        return OWNER_NONE;
    if (f & RETURNING)
        return f & ORDERED ? OWNER_ORDER : OWNER_COMING;
    if (f & TWICE || (f & ORDERED && f & (FREE | PENDING)))
        return OWNER_TWO;
    if (f & OLD_COPY)
        return OWNER_STALE;
    if (f & ORDERED)
        return OWNER_ORDER;
    if (!(f & IN_STOCK))
        return OWNER_NONE;
    return w->draft || f & FREE ? OWNER_AVAILABLE : f & PENDING ? OWNER_RESERVED : OWNER_NONE;
}

static const char *detail_of(const struct mark *m)
{
    switch ((enum conservation_owner)m->owner) {
    case OWNER_NONE:
        return !(m->flags & IN_LEDGER) ? "the ledger has no such unit" : m->flags & IN_STOCK ? "available in the ledger, and in no bucket" : "consumed, and no order holds it";
    case OWNER_TWO:
        return m->flags & ORDERED ? "sold, and a bucket holds it still" : "two places hold it at one generation";
    case OWNER_STALE:
        return "a bucket holds it at a generation that is over";
    default:
        return NULL;
    }
}

static bool suspect(enum conservation_owner owner) { return owner == OWNER_NONE || owner == OWNER_TWO || owner == OWNER_STALE; }

static void report(struct conservation_work *);

/* How many suspects wait for another look. */
static size_t compare(struct conservation_work *w)
{
    size_t open = 0;
    for (size_t i = 0; i < w->window; i++) {
        struct mark *m = &w->marks[i];
        m->owner = (uint8_t)owner_of(w, m);
        bool now = suspect(m->owner);
        m->finding = now && m->suspect == m->owner + 1 && m->suspect_generation == m->generation;
        open += now && !m->finding;
        m->suspect = now ? (uint8_t)(m->owner + 1) : 0;
        m->suspect_generation = m->generation;
    }
    return open;
}

static void judge(struct conservation_work *w)
{
    w->looks++;
    if (w->looks > w->most_looks)
        w->most_looks = w->looks;
    w->count->attributed_ms = clock_now_ms(w->clock);
    if (w->looks == 1 && w->from == 0)
        w->count->counted_ms = w->count->attributed_ms;
    size_t open = compare(w);
    if (open == 0 || w->looks >= w->options.looks) {
        report(w);
        return;
    }
    w->step = STEP_REST;
    clock_set_in(w->clock, &w->rest, (uint64_t)w->options.apart_ms * 1000);
}

static void look_again(struct waiter *waiter, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct conservation_work *w = container_of(container_of(waiter, struct alarm, waiter), struct conservation_work, rest);
    if (w->step == STEP_REST) {
        for (size_t i = 0; i < w->window; i++)
            w->marks[i].flags = 0;
        if (w->from == 0)
            w->extra_count = 0;
        w->after = before_window(w);
        w->step = STEP_UNITS;
    }
    step(w);
}

/* ---- the report --------------------------------------------------------------------------------------------------------------- */

static void tally(struct conservation_sku *s, const struct mark *m)
{
    if (m->finding) {
        s->e++;
        s->drift++;
        return;
    }
    switch ((enum conservation_owner)m->owner) {
    case OWNER_AVAILABLE: s->a++; break;
    case OWNER_RESERVED: s->r++; break;
    case OWNER_ORDER: s->o++; break;
    default:    /* on its way while we looked */
        if (m->flags & ORDERED)
            s->o++;
        else
            s->c++;
    }
}

/* Names a unit. Where the list is full, a finding takes the place of a unit that is none. */
static void name_unit(struct conservation_work *w, struct conservation_unit unit)
{
    size_t at = w->unit_count;
    if (at == w->options.findings) {
        while (unit.finding && at > 0 && w->units[at - 1].finding)
            at--;
        if (!unit.finding || at == 0)
            return;
        w->units[at - 1] = unit;
        return;
    }
    w->units[w->unit_count++] = unit;
}

static void name_units(struct conservation_work *w, bool findings)
{
    for (size_t s = 0; s < w->sku_count; s++)
        for (int64_t k = 0; k < w->skus[s].s0; k++) {
            size_t at = w->bases[s] + (size_t)k;
            if (!in_window(w, at))
                continue;
            const struct mark *m = &w->marks[at - w->from];
            if (m->finding != findings || (!findings && (m->owner == OWNER_AVAILABLE || m->owner == OWNER_ORDER)))
                continue;
            name_unit(w, (struct conservation_unit){.token = {w->firsts[s] + k, m->generation}, .sku = w->skus[s].sku, .owner = m->owner,
                                                    .finding = m->finding, .detail = detail_of(m), .bucket = m->bucket});
        }
}

static void tally_window(struct conservation_work *w)
{
    for (size_t s = 0; s < w->sku_count; s++)
        for (int64_t k = 0; k < w->skus[s].s0; k++)
            if (in_window(w, w->bases[s] + (size_t)k))
                tally(&w->skus[s], &w->marks[w->bases[s] + (size_t)k - w->from]);
    name_units(w, true);
    name_units(w, false);
}

static void next_window(struct conservation_work *w)
{
    w->from += w->window;
    if (w->window > w->total - w->from)
        w->window = w->total - w->from;
    memset(w->marks, 0, w->window * sizeof *w->marks);
    w->looks = 0;
    w->after = before_window(w);
    w->step = STEP_UNITS;
    step(w);
}

static void report(struct conservation_work *w)
{
    for (size_t i = 0; w->from == 0 && i < w->extra_count; i++) {
        name_unit(w, w->extras[i]);
        for (size_t s = 0; s < w->sku_count; s++)
            w->skus[s].drift += str_eq(w->skus[s].sku, w->extras[i].sku);
    }
    tally_window(w);
    if (w->from + w->window < w->total)
        next_window(w);
    else
        end(w, REASON_OK);
}

/* ---- asking -------------------------------------------------------------------------------------------------------------------- */

static void came(struct waiter *waiter, enum reason reason, const void *result)
{
    struct conservation_work *w = container_of(waiter, struct conservation_work, call);
    if (reason == REASON_OK) {
        w->attempts = 0;
        if (w->step == STEP_FIND)
            found(w, result);
        else if (w->step == STEP_UNITS)
            units_came(w, result);
        else
            holdings_came(w, result);
    } else if (w->step == STEP_HOLDINGS && reason == REASON_STALE_EPOCH) {
        next_bucket(w);    /* nothing is there: it holds nothing */
    } else if (++w->attempts < ATTEMPTS) {
        clock_set_in(w->clock, &w->rest, (uint64_t)100000 << w->attempts);
    } else {
        end(w, reason_fate(reason) == FATE_REFUSED ? reason : REASON_DEPENDENCY_DOWN);
    }
}

static void step(struct conservation_work *w)
{
    w->call = (struct waiter){.wake = came, .budget_ms = w->options.call_ms};
    if (w->step == STEP_FIND) {
        ledger_activity(w->ledger, w->name, &w->call);
    } else if (w->step == STEP_UNITS) {
        struct units_ask ask = {.activity = w->name, .after = w->after, .bucket = -1, .limit = SLICE_MAX};
        ledger_units(w->ledger, &ask, &w->call);
    } else if (w->draft || w->bucket >= w->buckets) {
        judge(w);
    } else {
        struct holdings_ask ask = {.bucket = {w->name, w->epoch, w->bucket}, .cursor = {w->cursor, w->cursor_len}};
        store_holdings(w->store, &ask, &w->call);
    }
}

bool conservation_start(struct conservation *c, struct store *store, struct ledger *ledger, struct clock *clock,
                        const struct conservation_options *options)
{
    c->work = NULL;
    struct conservation_work *w = calloc(1, sizeof *w);
    if (!w || options->looks < 1)
        return free(w), false;
    *w = (struct conservation_work){.count = c, .store = store, .ledger = ledger, .clock = clock, .options = *options};
    w->texts = arena_new(((size_t)1 << 20) + options->findings * sizeof(struct conservation_unit));
    if (!w->texts.start)
        return free(w), false;
    w->name = arena_str(&w->texts, c->activity);
    w->rest.waiter.wake = look_again;
    c->work = w;
    step(w);
    return true;
}

void conservation_close(struct conservation *c)
{
    struct conservation_work *w = c->work;
    if (!w)
        return;
    waiter_drop(&w->call);
    clock_unset(w->clock, &w->rest);
    arena_free(&w->texts);
    free(w->marks);
    free(w);
    c->work = NULL;
}

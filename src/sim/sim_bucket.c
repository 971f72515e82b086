/* SPDX-License-Identifier: Apache-2.0
 * sim_bucket.c: the rules of a bucket. Each validates first and writes last, as the scripts do. */
#include "sim_bucket.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the shelves --------------------------------------------------------------------------------------------------------- */

static struct str unit_key(const int64_t *unit) { return sim_bytes(unit, sizeof *unit); }

static size_t shelf_of(const struct sim_bucket *b, struct str sku)
{
    size_t i = 0;
    while (i < b->shelf_count && !str_eq(b->shelves[i].sku, sku))
        i++;
    return i;
}

static bool on_shelf(const struct sim_shelf *s, int64_t unit) { return unit >= s->unit_first && unit - s->unit_first < s->units; }

static void *pushed(void *array, size_t count, size_t *cap)
{
    if (count < *cap)
        return array;
    *cap = *cap ? 2 * *cap : 64;
    array = realloc(array, *cap * sizeof(void *));
    check(array != NULL);
    return array;
}

static struct sim_copy *copy_of(struct sim_bucket *b, int64_t unit, size_t sku)
{
    struct sim_copy *c = sim_map_get(&b->units, unit_key(&unit));
    if (c)
        return c;
    c = sim_new(&b->ground, struct sim_copy);
    *c = (struct sim_copy){.token = {.unit = unit}, .sku = sku};
    sim_map_put(&b->units, unit_key(&c->token.unit), c);
    b->copies = pushed(b->copies, b->copy_count, &b->copy_cap);
    b->copies[b->copy_count++] = c;
    return c;
}

static void take_off(struct sim_bucket *b, struct sim_copy *c)
{
    struct sim_shelf *shelf = &b->shelves[c->sku];
    if (c->where != SIM_ABSENT)
        heap_remove(c->where == SIM_FREE ? &shelf->free : &shelf->resting, &c->place);
    c->where = SIM_ABSENT;
}

static void put_free(struct sim_bucket *b, struct sim_copy *c)
{
    take_off(b, c);
    c->where = SIM_FREE;
    heap_put(&b->shelves[c->sku].free, c, &c->place, (uint64_t)c->token.generation << 40 | (uint64_t)c->token.unit);
}

static void put_to_rest(struct sim_bucket *b, struct sim_copy *c, int64_t until_ms)
{
    take_off(b, c);
    c->where = SIM_RESTING;
    heap_put(&b->shelves[c->sku].resting, c, &c->place, (uint64_t)until_ms);
}

static void ripen(struct sim_bucket *b, struct sim_shelf *shelf, int64_t now_ms)
{
    for (const struct heap_item *first; (first = heap_first(&shelf->resting)) && first->due <= (uint64_t)now_ms;)
        put_free(b, first->what);
}

void sim_bucket_ripen(struct sim_bucket *b, int64_t now_ms)
{
    for (size_t i = 0; i < b->shelf_count; i++)
        ripen(b, &b->shelves[i], now_ms);
}

bool sim_bucket_finds_lost(struct sim_bucket *b, unsigned keys, int64_t now_ms)
{
    unsigned known = b->indexed[0] ? 0 : b->lost;    /* a key that is missing after the index was lost once more */
    unsigned found = b->missing & keys & ~known;
    if (!found)
        return false;
    b->lost |= found;
    b->indexed[0] = 0;
    if (!b->mark[0]) {
        snprintf(b->mark, sizeof b->mark, "%s/%lld-%u", b->here, (long long)now_ms, ++b->losses);
        b->closed_ms = now_ms;
    }
    return true;
}

static void filter_add(struct sim_bucket *b, uint64_t user_hash)
{
    uint32_t h1 = (uint32_t)user_hash, h2 = (uint32_t)(user_hash >> 32) | 1;
    for (uint32_t i = 0; i < WINNER_PROBES; i++) {
        uint64_t bit = (h1 + (uint64_t)i * h2) % b->filter_bits;
        b->filter[bit / 8] |= (uint8_t)(0x80u >> bit % 8);
    }
}

/* ---- the records --------------------------------------------------------------------------------------------------------- */

static bool undecided(const struct sim_entry *e) { return !reservation_state_terminal(e->entry.state); }

struct sim_record *sim_bucket_user(struct sim_bucket *b, struct str user) { return sim_map_get(&b->users, user); }

static struct sim_record *record_of(struct sim_bucket *b, struct str user)
{
    struct sim_record *r = sim_bucket_user(b, user);
    if (r)
        return r;
    r = sim_new(&b->ground, struct sim_record);
    r->user = sim_text(&b->ground, user);
    sim_map_put(&b->users, r->user, r);
    b->records = pushed(b->records, b->record_count, &b->record_cap);
    b->records[b->record_count++] = r;
    return r;
}

static struct sim_entry *entry_named(struct sim_record *r, const struct ident *ident)
{
    struct sim_entry *e = r ? r->newest : NULL;
    while (e && memcmp(&e->entry.ident, ident, sizeof *ident) != 0)
        e = e->older;
    return e;
}

static struct sim_entry *entry_add(struct sim_bucket *b, struct sim_record *r, struct entry entry)
{
    struct sim_entry *e = sim_new(&b->ground, struct sim_entry);
    size_t shelf = shelf_of(b, entry.sku);
    e->entry = entry;
    e->entry.request = sim_text(&b->ground, entry.request);
    e->entry.sku = shelf < b->shelf_count ? b->shelves[shelf].sku : sim_text(&b->ground, entry.sku);
    e->entry.superseded_by = sim_text(&b->ground, entry.superseded_by);
    e->older = r->newest;
    r->newest = e;
    return e;
}

static void turn_at(struct sim_bucket *b, struct sim_record *r, int64_t turn_ms)
{
    r->turn_ms = (uint64_t)turn_ms;
    heap_put(&b->turns, r, &r->place, r->turn_ms);
}

static void opened(struct sim_bucket *b, struct sim_record *r, int64_t now_ms)
{
    if (r->undecided++ == 0 || r->place == 0 || r->turn_ms > (uint64_t)now_ms + 1000)
        turn_at(b, r, now_ms + 1000);
}

static void decided(struct sim_bucket *b, struct sim_record *r)
{
    if (--r->undecided == 0)
        heap_remove(&b->turns, &r->place);
}

/* Only the last tombstones stay. */
static void forget_old(struct sim_record *r)
{
    size_t tombstones = 0;
    for (struct sim_entry **at = &r->newest; *at;)
        if ((*at)->entry.state == RESERVATION_RELEASED && ++tombstones > SIM_TOMBSTONES)
            *at = (*at)->older;
        else
            at = &(*at)->older;
}

struct sim_record *sim_bucket_due(struct sim_bucket *b, int64_t now_ms, uint64_t jitter)
{
    static const int64_t turns_ms[] = {1000, 2000, 4000, 8000, 15000};
    const struct heap_item *first = heap_first(&b->turns);
    if (!first || first->due > (uint64_t)now_ms)
        return NULL;
    struct sim_record *r = first->what;
    int64_t youngest_ms = 0, next_ms = now_ms + 15000 + (int64_t)(jitter % 1500);
    for (struct sim_entry *e = r->newest; e; e = e->older)
        if (undecided(e) && e->entry.created_ms > youngest_ms)
            youngest_ms = e->entry.created_ms;
    for (size_t i = countof(turns_ms); i-- > 0;)
        if (youngest_ms + turns_ms[i] > now_ms)
            next_ms = youngest_ms + turns_ms[i] + (int64_t)(jitter % 100);
    turn_at(b, r, next_ms);
    return r;
}

/* ---- install ------------------------------------------------------------------------------------------------------------- */

struct sim_bucket *sim_bucket_new(struct bucket name, const struct activity *activity)
{
    struct sim_bucket *b = calloc(1, sizeof *b);
    check(b != NULL);
    b->activity = sim_text(&b->ground, name.activity);
    b->epoch = name.epoch;
    b->number = name.number;
    b->shelf_count = activity->sku_count;
    b->shelves = sim_array(&b->ground, struct sim_shelf, b->shelf_count);
    uint64_t stock = 0;
    for (size_t i = 0; i < b->shelf_count; i++) {
        b->shelves[i] = (struct sim_shelf){.sku = sim_text(&b->ground, activity->skus[i].sku), .unit_first = activity->skus[i].unit_first,
                                           .units = activity->skus[i].stock};
        stock += (uint64_t)activity->skus[i].stock;
    }
    uint64_t share = stock / (activity->buckets ? activity->buckets : 1) + 1, bits = (10 * share + 1023) / 1024 * 1024;
    b->filter_bits = bits < UINT32_MAX ? (uint32_t)bits : UINT32_MAX - 1023;
    b->filter = sim_take(&b->ground, b->filter_bits / 8);
    return b;
}

static void copy_units(struct sim_bucket *b, const struct sim_bucket *from)
{
    for (size_t i = 0; i < from->copy_count; i++) {
        const struct sim_copy *old = from->copies[i];
        struct sim_copy *c = copy_of(b, old->token.unit, old->sku);
        c->token = old->token;
        c->highest = old->highest;
        c->held = old->held;
        if (old->where == SIM_FREE)
            put_free(b, c);
        else if (old->where == SIM_RESTING)
            put_to_rest(b, c, (int64_t)from->shelves[old->sku].resting.items[old->place - 1].due);
    }
}

/* The oldest first, so that the newest comes to stand in front. */
static void copy_entries(struct sim_bucket *b, struct sim_record *r, const struct sim_entry *e)
{
    if (!e)
        return;
    copy_entries(b, r, e->older);
    entry_add(b, r, e->entry)->nonce = sim_text(&b->ground, e->nonce);
}

struct sim_bucket *sim_bucket_copy(const struct sim_bucket *from)
{
    struct sim_bucket *b = calloc(1, sizeof *b);
    check(b != NULL);
    *b = (struct sim_bucket){.epoch = from->epoch, .number = from->number, .state = from->state, .version = from->version,
                             .starts_ms = from->starts_ms, .ends_ms = from->ends_ms, .opens_ms = from->opens_ms, .seeded = from->seeded,
                             .closed_ms = from->closed_ms, .missing = from->missing, .lost = from->lost, .losses = from->losses, .sequence = from->sequence, .restocks = from->restocks, .shelf_count = from->shelf_count,
                             .filter_bits = from->filter_bits};
    memcpy(b->mark, from->mark, sizeof b->mark);
    memcpy(b->indexed, from->indexed, sizeof b->indexed);
    b->activity = sim_text(&b->ground, from->activity);
    b->shelves = sim_array(&b->ground, struct sim_shelf, b->shelf_count);
    for (size_t i = 0; i < b->shelf_count; i++) {
        const struct sim_shelf *s = &from->shelves[i];
        b->shelves[i] = (struct sim_shelf){.sku = sim_text(&b->ground, s->sku), .unit_first = s->unit_first, .units = s->units, .wanted = s->wanted};
    }
    b->filter = sim_take(&b->ground, b->filter_bits / 8);
    memcpy(b->filter, from->filter, b->filter_bits / 8);
    copy_units(b, from);
    for (size_t i = 0; i < from->record_count; i++) {
        struct sim_record *r = record_of(b, from->records[i]->user);
        copy_entries(b, r, from->records[i]->newest);
        r->undecided = from->records[i]->undecided;
        if (from->records[i]->place != 0)
            turn_at(b, r, (int64_t)from->records[i]->turn_ms);
    }
    return b;
}

void sim_bucket_free(struct sim_bucket *b)
{
    for (size_t i = 0; i < b->shelf_count; i++) {
        heap_free(&b->shelves[i].free);
        heap_free(&b->shelves[i].resting);
    }
    heap_free(&b->turns);
    sim_map_free(&b->units);
    sim_map_free(&b->users);
    free(b->copies);
    free(b->records);
    sim_ground_free(&b->ground);
    free(b);
}

enum reason sim_bucket_install(struct sim_bucket *b, const struct activity *activity, bool seeded, int64_t now_ms)
{
    bool newly_seeded = seeded && !b->seeded;
    b->sequence++;
    b->seeded |= seeded;
    if (b->version >= activity->version)
        return newly_seeded ? REASON_OK : REASON_UNCHANGED;
    bool sold = b->state == ACTIVITY_OPEN && now_ms < b->ends_ms;
    bool stopped = b->version > 0 && (b->state == ACTIVITY_PAUSED || now_ms >= b->ends_ms);
    if (activity->state == ACTIVITY_OPEN && !sold && stopped)
        b->opens_ms = now_ms + SIM_REST_MS;
    b->version = activity->version;
    b->state = activity->state;
    b->starts_ms = activity->starts_ms;
    b->ends_ms = activity->ends_ms;
    return REASON_OK;
}

/* ---- reserve ------------------------------------------------------------------------------------------------------------- */

/* What of the user's own bears on the request, in the order in which it wins. */
struct known {
    struct sim_entry *replay[3];     /* same request_id and SKU: ORDERED, undecided, RELEASED */
    struct sim_entry *other_sku;     /* same request_id, another SKU */
    struct sim_entry *standing;      /* undecided or ORDERED, same SKU */
    bool nonce_used;
    size_t tombstones;
};

static struct known recall(struct sim_record *r, const struct reserve_ask *ask)
{
    struct known k = {0};
    for (struct sim_entry *e = r ? r->newest : NULL; e; e = e->older) {
        enum reservation_state state = e->entry.state;
        int rank = state == RESERVATION_ORDERED ? 0 : state == RESERVATION_RELEASED ? 2 : 1;
        bool same_sku = str_eq(e->entry.sku, ask->sku), same_request = str_eq(e->entry.request, ask->request);
        if (same_request && same_sku && !k.replay[rank])
            k.replay[rank] = e;
        if (same_request && !same_sku && !k.other_sku)
            k.other_sku = e;
        if (same_sku && (rank == 0 || (rank == 1 && !k.standing)))
            k.standing = e;    /* of several orders the first he had */
        k.nonce_used |= rank < 2 && ask->nonce.len > 0 && str_eq(e->nonce, ask->nonce);
        k.tombstones += rank == 2;
    }
    return k;
}

/* The state and window of the activity, by the bucket's clock. */
static enum reason selling(const struct sim_bucket *b, int64_t now_ms)
{
    if (b->state == ACTIVITY_CLOSED)
        return REASON_ENDED;
    if (b->state == ACTIVITY_PAUSED)
        return REASON_RESERVATION_PAUSED;
    if (b->state != ACTIVITY_OPEN || now_ms < b->starts_ms)
        return REASON_NOT_STARTED;
    return now_ms >= b->ends_ms ? REASON_ENDED : now_ms < b->opens_ms ? REASON_RESERVATION_PAUSED : REASON_OK;
}

/* ---- close, open --------------------------------------------------------------------------------------------------------- */

static bool closed_for(const struct sim_bucket *b, struct str incarnation)
{
    return strncmp(b->mark, incarnation.ptr, incarnation.len) == 0 && b->mark[incarnation.len] == '/';
}

enum reason sim_bucket_close(struct sim_bucket *b, const struct close_ask *ask, struct str here, struct str mark, int64_t now_ms)
{
    bool closes = ask->went_back || (!closed_for(b, here) && (!str_eq(here, ask->recorded) || b->mark[0]));    /* a mark of an earlier life nobody could open */
    check(mark.len < sizeof b->mark);
    if (closes) {
        memset(b->mark, 0, sizeof b->mark);
        memcpy(b->mark, mark.ptr, mark.len);
        b->closed_ms = now_ms;
    }
    if (b->sequence < ask->highest)
        b->sequence = ask->highest;
    b->sequence++;
    return closes ? REASON_OK : REASON_UNCHANGED;
}

enum reason sim_bucket_open(struct sim_bucket *b, const struct open_ask *ask, struct str here, int64_t now_ms, int64_t *closed_ms)
{
    bool fit = !b->lost || strcmp(b->indexed, b->mark) == 0;
    bool opens = fit && b->mark[0] && str_eq(str_of(b->mark), ask->mark) && closed_for(b, here);
    b->sequence++;
    *closed_ms = opens && now_ms > b->closed_ms ? now_ms - b->closed_ms : 0;
    if (!opens)
        return REASON_UNCHANGED;
    b->mark[0] = b->indexed[0] = 0;
    b->lost = 0;
    for (size_t i = 0; i < b->copy_count; i++)
        b->copies[i]->held = false;
    b->seeded = true;
    if (b->opens_ms < now_ms + SIM_REST_MS)
        b->opens_ms = now_ms + SIM_REST_MS;
    return REASON_OK;
}

/* ---- a key that is lost ---------------------------------------------------------------------------------------------------- */

void sim_bucket_lose(struct sim_bucket *b, enum sim_redis_key key)
{
    b->missing |= key;
    for (size_t i = 0; i < b->record_count; i++) {
        struct sim_record *r = b->records[i];
        if (key == SIM_KEY_USERS || key == SIM_KEY_PENDING)
            heap_remove(&b->turns, &r->place);
        if (key != SIM_KEY_USERS)
            continue;
        r->newest = NULL;
        r->undecided = 0;
    }
    for (size_t i = 0; i < b->copy_count; i++) {
        struct sim_copy *c = b->copies[i];
        if ((key == SIM_KEY_FREE && c->where == SIM_FREE) || (key == SIM_KEY_REST && c->where == SIM_RESTING))
            take_off(b, c);
        if (key == SIM_KEY_GEN)
            c->highest = 0;
    }
    if (key == SIM_KEY_WIN)
        memset(b->filter, 0, b->filter_bits / 8);
}

static void hold(struct sim_bucket *b, const struct sim_entry *e)
{
    size_t shelf = shelf_of(b, e->entry.sku);
    if (shelf == b->shelf_count || !on_shelf(&b->shelves[shelf], e->entry.token.unit))
        return;
    struct sim_copy *c = copy_of(b, e->entry.token.unit, shelf);
    c->held |= c->highest <= e->entry.token.generation;
    if (c->highest < e->entry.token.generation)
        c->highest = e->entry.token.generation;
}

enum reason sim_bucket_reindex(struct sim_bucket *b, const struct reindex_ask *ask, struct str mark, int64_t now_ms)
{
    b->sequence++;
    if (!b->lost || !b->mark[0] || !str_eq(str_of(b->mark), ask->mark) || strcmp(b->indexed, b->mark) == 0)
        return REASON_UNCHANGED;
    for (size_t i = 0; i < b->record_count; i++) {
        struct sim_record *r = b->records[i];
        for (const struct sim_entry *e = r->newest; e; e = e->older)
            if (undecided(e))
                hold(b, e);
        if (r->undecided > 0 && r->place == 0)
            turn_at(b, r, now_ms);
    }
    if (b->lost & SIM_KEY_WIN)
        memset(b->filter, 0xff, b->filter_bits / 8);
    b->missing = 0;
    check(mark.len < sizeof b->mark);
    memset(b->mark, 0, sizeof b->mark);
    memcpy(b->mark, mark.ptr, mark.len);
    memcpy(b->indexed, b->mark, sizeof b->indexed);
    return REASON_OK;
}

/* ---- reserve, what it may take ------------------------------------------------------------------------------------------- */

static enum reason replayed(const struct known *k, struct reserve_answer *answer)
{
    static const enum reason reasons[] = {REASON_ORDERED, REASON_QUEUED, REASON_RELEASED};
    for (size_t i = 0; i < countof(reasons); i++)
        if (k->replay[i]) {
            answer->entry = k->replay[i]->entry;
            answer->replayed = true;
            return reasons[i];
        }
    return REASON_OK;
}

static enum reason may_take(const struct sim_bucket *b, const struct known *k, const struct reserve_ask *ask, int64_t now_ms)
{
    if (k->tombstones >= SIM_TOMBSTONES && !ask->ledger_asked)
        return REASON_ASK_LEDGER;
    if (b->mark[0])
        return REASON_BUCKET_CLOSED;
    if (ask->replay_only || k->nonce_used)
        return REASON_QUALIFICATION_INVALID;
    enum reason reason = selling(b, now_ms);
    return reason == REASON_OK && ask->sealed ? REASON_BUCKET_CLOSED : reason;
}

static struct entry take_unit(struct sim_bucket *b, const struct reserve_ask *ask, struct sim_copy *copy, int64_t now_ms)
{
    struct sim_record *r = record_of(b, ask->user);
    struct sim_entry *e = entry_add(b, r, (struct entry){
        .ident = ask->ident, .state = RESERVATION_RESERVED, .why = REASON_OK, .request = ask->request, .sku = ask->sku,
        .token = copy->token, .created_ms = now_ms, .updated_ms = now_ms});
    e->nonce = sim_text(&b->ground, ask->nonce);
    take_off(b, copy);
    opened(b, r, now_ms);
    filter_add(b, ask->user_hash);
    return e->entry;
}

enum reason sim_bucket_reserve(struct sim_bucket *b, const struct reserve_ask *ask, int64_t now_ms, struct reserve_answer *answer)
{
    *answer = (struct reserve_answer){.sequence = ++b->sequence, .now_ms = now_ms, .starts_ms = b->starts_ms};
    if (b->missing & SIM_KEY_USERS)
        return REASON_STRUCTURE_LOST;
    struct known k = recall(sim_bucket_user(b, ask->user), ask);
    enum reason reason = replayed(&k, answer);
    if (reason != REASON_OK)
        return reason;
    if (k.other_sku)
        return REASON_IDEMPOTENCY_CONFLICT;
    if (k.standing) {
        answer->entry = k.standing->entry;
        return REASON_ALREADY_PURCHASED;
    }
    size_t at = shelf_of(b, ask->sku);
    if (at == b->shelf_count)
        return REASON_UNKNOWN_ACTIVITY;
    reason = may_take(b, &k, ask, now_ms);
    if (reason != REASON_OK)
        return reason;
    struct sim_shelf *shelf = &b->shelves[at];
    ripen(b, shelf, now_ms);
    const struct heap_item *first = heap_first(&shelf->free);
    if (b->missing & (first ? SIM_KEY_FREE : SIM_KEY_FREE | SIM_KEY_REST | SIM_KEY_GEN))
        return REASON_STRUCTURE_LOST;
    if (!first) {
        shelf->wanted = true;
        return REASON_BUCKET_EMPTY;
    }
    answer->entry = take_unit(b, ask, first->what, now_ms);
    return REASON_QUEUED;
}

/* ---- settle -------------------------------------------------------------------------------------------------------------- */

bool sim_ident(struct str id, struct ident *out)
{
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    if (id.len != IDENT_ID_TEXT)
        return false;
    memset(out, 0, sizeof *out);
    for (size_t i = 4; i < id.len; i++) {
        char c = id.ptr[i] >= 'a' && id.ptr[i] <= 'z' ? (char)(id.ptr[i] - 'a' + 'A') : id.ptr[i];
        const char *at = c ? strchr(digits, c) : NULL;
        if (!at)
            return false;
        unsigned carry = (unsigned)(at - digits);
        for (size_t byte = sizeof out->bytes; byte-- > 0;) {    /* out = out * 32 + digit */
            carry += (unsigned)out->bytes[byte] << 5;
            out->bytes[byte] = (uint8_t)carry;
            carry >>= 8;
        }
    }
    return true;
}

/* The unit of an order is nobody's to sell at that generation or an older one. */
static void withdraw(struct sim_bucket *b, struct token token, size_t shelf)
{
    if (!on_shelf(&b->shelves[shelf], token.unit))
        return;
    struct sim_copy *c = copy_of(b, token.unit, shelf);
    if (c->where != SIM_ABSENT && c->token.generation <= token.generation)
        take_off(b, c);
    c->held |= b->lost && c->highest <= token.generation;
    if (c->highest < token.generation)
        c->highest = token.generation;
}

static void stand(struct sim_bucket *b, struct sim_record *r, struct sim_entry *e, const struct settle_ask *ask, int64_t now_ms)
{
    bool was_undecided = undecided(e);
    e->entry.state = ask->to;
    e->entry.updated_ms = now_ms;
    if (ask->to == RESERVATION_RELEASED) {
        e->entry.why = ask->why;
        e->entry.token = (struct token){0};
        e->entry.superseded_by = sim_text(&b->ground, ask->superseded_by);
        e->nonce = (struct str){0};
    }
    if (was_undecided && !undecided(e))
        decided(b, r);
}

/* The order that stands instead: the user's replays and queries show it, and he may not buy again. */
static void show_instead(struct sim_bucket *b, struct sim_record *r, const struct settle_ask *ask, int64_t now_ms)
{
    struct ident other;
    if (!sim_ident(ask->superseded_by, &other))
        return;
    struct sim_entry *e = entry_named(r, &other);
    if (!e)
        entry_add(b, r, (struct entry){.ident = other, .state = RESERVATION_ORDERED, .why = REASON_OK, .request = ask->superseded_request,
                                       .sku = ask->superseded_sku, .created_ms = now_ms, .updated_ms = now_ms});
    else if (reservation_may_move(e->entry.state, RESERVATION_ORDERED))
        stand(b, r, e, &(struct settle_ask){.to = RESERVATION_ORDERED}, now_ms);
}

static enum reason settle_verdict(struct sim_bucket *b, const struct settle_ask *ask, int64_t now_ms)
{
    bool released = ask->to == RESERVATION_RELEASED;
    size_t shelf = shelf_of(b, ask->sku);
    unsigned lost = b->lost;
    sim_bucket_finds_lost(b, SIM_KEY_GEN, now_ms);
    if (shelf == b->shelf_count || (ask->superseded_by.len > 0 && shelf_of(b, ask->superseded_sku) == b->shelf_count))
        return REASON_UNKNOWN_ACTIVITY;
    struct sim_record *r = record_of(b, ask->user);
    struct sim_entry *e = entry_named(r, &ask->ident);
    enum reason reason = REASON_UNCHANGED;
    if (!e) {
        entry_add(b, r, (struct entry){.ident = ask->ident, .state = ask->to, .why = released ? ask->why : REASON_OK, .request = ask->request,
                                       .sku = ask->sku, .created_ms = now_ms, .updated_ms = now_ms, .superseded_by = ask->superseded_by,
                                       .token = released ? (struct token){0} : ask->token});
        reason = REASON_OK;
    } else if (reservation_may_move(e->entry.state, ask->to)) {
        stand(b, r, e, ask, now_ms);
        reason = REASON_OK;
    }
    if (ask->superseded_by.len > 0)
        show_instead(b, r, ask, now_ms);
    if (ask->user_hash != 0 && (!e || ask->superseded_by.len > 0 || lost))
        filter_add(b, ask->user_hash);
    if (!released)
        withdraw(b, ask->token, shelf);    /* told again it does so again: the bucket may have forgotten in between */
    forget_old(r);
    return reason;
}

enum reason sim_bucket_settle(struct sim_bucket *b, const struct settle_ask *ask, int64_t now_ms)
{
    b->sequence++;
    sim_bucket_finds_lost(b, SIM_KEY_USERS, now_ms);
    if (reservation_state_terminal(ask->to))
        return settle_verdict(b, ask, now_ms);
    struct sim_record *r = sim_bucket_user(b, ask->user);
    struct sim_entry *e = entry_named(r, &ask->ident);
    if (!e || !reservation_may_move(e->entry.state, ask->to))
        return REASON_UNCHANGED;
    stand(b, r, e, ask, now_ms);
    return REASON_OK;
}

/* ---- restock ------------------------------------------------------------------------------------------------------------- */

enum reason sim_bucket_restock(struct sim_bucket *b, const struct restock_ask *ask, int64_t now_ms)
{
    b->sequence++;
    size_t shelf = shelf_of(b, ask->sku);
    if (shelf == b->shelf_count || !on_shelf(&b->shelves[shelf], ask->token.unit))
        return REASON_UNKNOWN_ACTIVITY;
    struct sim_copy *c = copy_of(b, ask->token.unit, shelf);
    sim_bucket_finds_lost(b, SIM_KEY_GEN, now_ms);
    bool lost = b->lost & (SIM_KEY_FREE | SIM_KEY_REST | SIM_KEY_GEN);
    if (lost && strcmp(b->indexed, b->mark) != 0)
        return REASON_STRUCTURE_LOST;
    bool missing = lost && !(b->lost & SIM_KEY_USERS) && !c->held;    /* its copy may have been in what is lost */
    if (ask->token.generation <= c->highest && (ask->token.generation < c->highest || !missing))
        return REASON_UNCHANGED;
    take_off(b, c);
    c->token = ask->token;
    c->highest = ask->token.generation;
    c->held = false;    /* a holder of an older generation holds it no longer */
    c->sku = shelf;
    b->shelves[shelf].wanted = false;
    b->restocks++;
    if (b->seeded)
        put_to_rest(b, c, now_ms + SIM_REST_MS);
    else
        put_free(b, c);    /* not yet counted: nobody can have said SOLD_OUT */
    return REASON_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 * sim_place.c: verdicts. The inbox row is the verdict: whoever writes it first has decided, and it never changes once the call has
 * ended. The steps are numbered as in protocol §3. */
#include <stdlib.h>

#include "hash.h"
#include "sim_books.h"

/* ---- what the ledger can take at all (else POISON, and nothing of the batch happens) --------------------------------------- */

bool sim_books_text(struct str s)
{
    for (size_t i = 0; i < s.len;) {
        unsigned char c = (unsigned char)s.ptr[i++];
        size_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 4;
        if (c == 0 || more > s.len - i)
            return false;
        unsigned char next = more ? (unsigned char)s.ptr[i] : 0x80;
        if ((c == 0xe0 && next < 0xa0) || (c == 0xed && next > 0x9f) || (c == 0xf0 && next < 0x90) || (c == 0xf4 && next > 0x8f))
            return false;
        for (; more > 0; more--)
            if (((unsigned char)s.ptr[i++] & 0xc0) != 0x80)
                return false;
    }
    return true;
}

static bool id_fits(struct str s) { return s.len >= 1 && s.len <= SIM_ID_BYTES_MAX && sim_books_text(s); }

static bool digestible(const struct create_order *m, bool with_message)
{
    return id_fits(m->reservation) && id_fits(m->request) && id_fits(m->activity) && id_fits(m->sku) && id_fits(m->user) &&
           (!with_message || id_fits(m->message)) && m->token.unit >= 0 && m->token.generation <= INT32_MAX;
}

/* ---- an item on its way to a verdict ---------------------------------------------------------------------------------------- */

struct item {
    const struct create_order *what;
    size_t ordinal;
    struct sim_inbox *row;       /* its verdict, once there is one */
    bool fresh, placed, first_of_request;
    struct sim_unit *unit;       /* of its activity and SKU; NULL: foreign */
    uint32_t generation;         /* of the unit, before this call changed it */
    bool available;
};

static struct sim_unit *unit_of(struct sim_books *b, const struct create_order *m)
{
    struct sim_unit *u = sim_books_unit(b, m->token.unit);
    bool own = u && str_eq(u->activity->activity, m->activity) && str_eq(u->activity->skus[u->sku].sku, m->sku);
    return own ? u : NULL;
}

static int by_reservation(const void *a, const void *b)
{
    const struct item *x = *(const struct item *const *)a, *y = *(const struct item *const *)b;
    int order = str_cmp(x->what->reservation, y->what->reservation);
    return order ? order : x->ordinal < y->ordinal ? -1 : 1;
}

static int by_purchase(const void *a, const void *b)
{
    const struct item *x = *(const struct item *const *)a, *y = *(const struct item *const *)b;
    int order = str_cmp(x->what->activity, y->what->activity);
    order = order ? order : str_cmp(x->what->user, y->what->user);
    order = order ? order : str_cmp(x->what->sku, y->what->sku);
    return order ? order : x->ordinal < y->ordinal ? -1 : 1;
}

static struct str message_key(struct sim_key *k, struct str group, struct str message) { return sim_key(k, group, message); }

static struct str request_key(struct sim_key *k, const struct create_order *m) { return sim_key(k, m->activity, m->user, m->request); }

static struct str purchase_key(struct sim_key *k, const struct create_order *m) { return sim_key(k, m->activity, m->sku, m->user); }

static struct str token_key(struct sim_key *k, const struct token *t)
{
    return sim_key(k, sim_bytes(&t->unit, sizeof t->unit), sim_bytes(&t->generation, sizeof t->generation));
}

/* ---- step 2: the inbox ------------------------------------------------------------------------------------------------------- */

static struct sim_inbox *inbox_insert(struct sim_books *b, const struct create_order *m, enum reason outcome, enum reason why, int64_t now_ms)
{
    struct sim_inbox *row = sim_new(&b->ground, struct sim_inbox);
    struct create_order *w = &row->what;
    *row = (struct sim_inbox){.what = *m, .outcome = outcome, .why = why, .decided_ms = now_ms, .turn = b->turn};
    struct str *texts[] = {&w->message, &w->request, &w->reservation, &w->activity, &w->sku, &w->user, &w->trace};
    for (size_t i = 0; i < countof(texts); i++)
        *texts[i] = sim_text(&b->ground, *texts[i]);
    sim_map_put(&b->inbox_by_reservation, w->reservation, row);
    if (b->inbox_count == b->inbox_cap) {
        b->inbox_cap = b->inbox_cap ? 2 * b->inbox_cap : 64;
        b->inbox = realloc(b->inbox, b->inbox_cap * sizeof *b->inbox);
        check(b->inbox != NULL);
    }
    return b->inbox[b->inbox_count++] = row;
}

static void decide(struct sim_books *b, struct str group, struct item **sorted, size_t count, int64_t now_ms)
{
    for (size_t i = 0; i < count; i++) {
        struct item *it = sorted[i];
        struct sim_key k;
        it->row = sim_books_inbox(b, it->what->reservation);
        if (it->row || sim_map_get(&b->inbox_by_message, message_key(&k, group, it->what->message)))
            continue;
        it->row = inbox_insert(b, it->what, REASON_ORDERED, REASON_OK, now_ms);
        sim_map_put(&b->inbox_by_message, sim_text(&b->ground, message_key(&k, group, it->what->message)), it->row);
        it->fresh = true;
    }
}

/* ---- step 3: the units ------------------------------------------------------------------------------------------------------- */

static void hold_units(struct sim_books *b, struct item *items, size_t count, bool *regressed)
{
    for (size_t i = 0; i < count; i++) {
        struct item *it = &items[i];
        it->unit = it->fresh ? unit_of(b, it->what) : NULL;
        if (!it->unit)
            continue;
        it->generation = it->unit->token.generation;
        it->available = !it->unit->consumed;
        *regressed |= it->what->token.generation > it->generation;
    }
}

/* ---- steps 4 and 5: orders, and their units ------------------------------------------------------------------------------------ */

static struct str order_name(struct sim_books *b, struct str reservation)
{
    bool ours = str_starts(reservation, str_lit("rsv_"));
    struct str rest = ours ? (struct str){reservation.ptr + 4, reservation.len - 4} : reservation;
    char *name = sim_take(&b->ground, 4 + rest.len);
    memcpy(name, "ord_", 4);
    memcpy(name + 4, rest.ptr, rest.len);
    return (struct str){name, 4 + rest.len};
}

static struct sim_order *unit_holder(struct sim_books *b, const struct sim_unit *u)
{
    struct sim_order *o = sim_map_get(&b->order_by_unit, sim_bytes(&u->token.unit, sizeof u->token.unit));
    return o && o->order.state != ORDER_CANCELED ? o : NULL;
}

static bool order_fits(struct sim_books *b, const struct item *it)
{
    struct sim_key k;
    const struct create_order *m = it->what;
    return !sim_map_get(&b->order_by_reservation, m->reservation) && !sim_map_get(&b->order_by_request, request_key(&k, m)) &&
           !sim_map_get(&b->order_by_purchase, purchase_key(&k, m)) && !sim_map_get(&b->order_by_token, token_key(&k, &m->token)) &&
           !unit_holder(b, it->unit) && !sim_map_get(&b->released_by_request, request_key(&k, m));
}

static void order_insert(struct sim_books *b, struct item *it, int64_t now_ms)
{
    struct sim_order *o = sim_new(&b->ground, struct sim_order);
    const struct create_order *m = &it->row->what;    /* its texts stay */
    const struct activity *a = it->unit->activity;
    const struct sku *sku = &a->skus[it->unit->sku];
    o->order = (struct order){.order = order_name(b, m->reservation), .reservation = m->reservation, .request = m->request,
                              .activity = a->activity, .sku = sku->sku, .user = m->user, .token = m->token, .state = ORDER_CREATED,
                              .amount = sku->price, .currency = sku->currency, .created_ms = now_ms,
                              .pay_deadline_ms = now_ms + 1000 * (int64_t)a->pay_timeout_s};
    struct sim_key k;
    sim_map_put(&b->order_by_id, o->order.order, o);
    sim_map_put(&b->order_by_reservation, o->order.reservation, o);
    sim_map_put(&b->order_by_request, sim_text(&b->ground, request_key(&k, m)), o);
    sim_map_put(&b->order_by_purchase, sim_text(&b->ground, purchase_key(&k, m)), o);
    sim_map_put(&b->order_by_token, sim_text(&b->ground, token_key(&k, &m->token)), o);
    sim_map_put(&b->order_by_unit, sim_bytes(&o->order.token.unit, sizeof(int64_t)), o);
    if (b->order_count == b->order_cap) {
        b->order_cap = b->order_cap ? 2 * b->order_cap : 64;
        b->orders = realloc(b->orders, b->order_cap * sizeof *b->orders);
        check(b->orders != NULL);
    }
    b->orders[b->order_count++] = o;
    it->placed = true;
    it->unit->consumed = true;
    it->unit->reservation = m->reservation;
    sim_books_journal(b, it->unit, SIM_CONSUMED, m->reservation);
    if (o->order.amount == 0) {    /* nobody would ever send a payment of 0 */
        check(order_may_move(o->order.state, ORDER_PAID));
        o->order.state = ORDER_PAID;
        o->order.paid_ms = now_ms;
    }
}

static bool matches(const struct item *it) { return it->unit && it->available && it->what->token.generation == it->generation; }

/* First by its ordinal among the fresh items with the same name. */
static bool first_named(struct sim_map *seen, struct sim_ground *ground, struct str name)
{
    if (sim_map_get(seen, name))
        return false;
    sim_map_put(seen, sim_text(ground, name), seen);
    return true;
}

static void place_fresh(struct sim_books *b, struct item *items, struct item **sorted, size_t count, int64_t now_ms)
{
    struct sim_map requests = {0}, units = {0};
    struct sim_ground ground = {0};
    size_t candidates = 0;
    for (size_t i = 0; i < count; i++) {
        struct item *it = &items[i];
        struct sim_key k;
        if (!it->fresh)
            continue;
        it->first_of_request = first_named(&requests, &ground, request_key(&k, it->what));
        if (matches(it) && first_named(&units, &ground, sim_bytes(&it->what->token.unit, sizeof(int64_t))) && it->first_of_request)
            sorted[candidates++] = it;
    }
    qsort(sorted, candidates, sizeof *sorted, by_purchase);
    for (size_t i = 0; i < candidates; i++)
        if (order_fits(b, sorted[i]))
            order_insert(b, sorted[i], now_ms);
    sim_map_free(&requests);
    sim_map_free(&units);
    sim_ground_free(&ground);
}

/* ---- step 6: the rest is released ------------------------------------------------------------------------------------------------ */

static enum reason why_not(struct sim_books *b, const struct item *it, struct str *superseded_by)
{
    struct sim_key k;
    if (!it->unit)
        return REASON_TOKEN_FOREIGN;
    struct sim_order *same_request = sim_map_get(&b->order_by_request, request_key(&k, it->what));
    struct sim_order *same_user = sim_map_get(&b->order_by_purchase, purchase_key(&k, it->what));
    const struct sim_inbox *replay = sim_books_first_released(sim_map_get(&b->released_by_request, request_key(&k, it->what)));
    *superseded_by = same_request ? same_request->order.reservation : same_user ? same_user->order.reservation
                     : replay ? replay->superseded_by : (struct str){0};
    if (!it->first_of_request || same_request || replay)
        return REASON_REQUEST_REPLAY;
    if (same_user)
        return REASON_DUPLICATE_USER;
    bool held = !it->available || sim_map_get(&b->order_by_token, token_key(&k, &it->what->token)) || unit_holder(b, it->unit);
    return it->what->token.generation == it->generation && held ? REASON_TOKEN_CONFLICT : REASON_STALE_GENERATION;
}

const struct sim_inbox *sim_books_first_released(const struct sim_inbox *newest)
{
    const struct sim_inbox *first = newest;
    for (const struct sim_inbox *row = newest; row; row = row->earlier)
        if (row->turn < first->turn || (row->turn == first->turn && str_cmp(row->what.reservation, first->what.reservation) < 0))
            first = row;
    return first;
}

/* For the request's later tries: it was decided so. */
static void remember_release(struct sim_books *b, struct sim_inbox *row)
{
    struct sim_key k;
    struct str key = request_key(&k, &row->what);
    row->earlier = sim_map_get(&b->released_by_request, key);
    sim_map_put(&b->released_by_request, sim_text(&b->ground, key), row);
}

/* The units of rows just RELEASED leave them: one still AVAILABLE at the highest generation named gets the next one; one that is below it (the
 * ledger went back in time) jumps past it, whoever holds it. Each unit moves once. */
static void units_return(struct sim_books *b, struct sim_inbox **rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sim_unit *u = unit_of(b, &rows[i]->what);
        uint32_t top = 0;
        for (size_t j = 0; u && j < count; j++)
            if (unit_of(b, &rows[j]->what) == u && rows[j]->what.token.generation > top)
                top = rows[j]->what.token.generation;
        bool raise = u && (u->token.generation < top || (u->token.generation == top && !u->consumed && !unit_holder(b, u)));
        if (!raise || top == INT32_MAX)
            continue;
        u->token.generation = top + 1;
        struct str first = {0};
        for (size_t j = 0; j < count; j++)
            if (unit_of(b, &rows[j]->what) == u && rows[j]->what.token.generation == top) {
                rows[j]->raised = top + 1;
                first = first.len == 0 || str_cmp(rows[j]->what.reservation, first) < 0 ? rows[j]->what.reservation : first;
            }
        if (!u->consumed)
            u->reservation = first;
        sim_books_journal(b, u, u->consumed ? SIM_RAISED : SIM_RETURNED, first)->why = sim_books_inbox(b, first)->why;
    }
}

/* ---- step 7: what others must hear ----------------------------------------------------------------------------------------------- */

static void tell(struct sim_books *b, struct sim_inbox *row, bool fresh, int64_t now_ms)
{
    const struct activity *a = sim_books_activity(b, row->what.activity);
    struct sim_order *o = sim_books_order(b, row->what.reservation);
    struct sim_unit *u = unit_of(b, &row->what);
    uint32_t raised = o && o->raised ? o->raised : row->raised;
    if (fresh && row->outcome == REASON_RELEASED)
        sim_books_refund_released(b, row->what.reservation, now_ms);
    if (a)
        sim_books_tell_status(b, a, row->what.reservation, now_ms);
    if (u && !u->consumed && raised > 0 && u->token.generation == raised)
        sim_books_tell_return(b, u, now_ms);
    if (fresh)
        sim_books_tell_event(b, row->outcome == REASON_ORDERED ? "ORDER_CREATED" : "RESERVATION_RELEASED", row, o, now_ms);
    if (fresh && o && o->order.state == ORDER_PAID)    /* a free one */
        sim_books_tell_event(b, "PAID", row, o, now_ms);
}

static struct str order_of(const struct sim_inbox *row, struct sim_books *b)
{
    struct sim_order *o = row->outcome == REASON_ORDERED ? sim_books_order(b, row->what.reservation) : NULL;
    return o ? o->order.order : (struct str){0};
}

struct verdict sim_books_verdict(const struct sim_inbox *row, bool fresh)
{
    return (struct verdict){.outcome = row->outcome, .why = row->why, .fresh = fresh, .superseded_by = row->superseded_by};
}

static void answer(struct sim_books *b, const struct item *items, size_t count, int64_t now_ms, struct verdict *verdicts)
{
    for (size_t i = 0; i < count; i++) {
        struct sim_inbox *row = items[i].row;
        if (!row) {
            verdicts[i] = (struct verdict){.outcome = REASON_MESSAGE_ID_REUSED, .why = REASON_OK};
            continue;
        }
        tell(b, row, items[i].fresh, now_ms);
        verdicts[i] = sim_books_verdict(row, items[i].fresh);
        verdicts[i].order = order_of(row, b);
    }
}

/* ---- the three ways in -------------------------------------------------------------------------------------------------------------- */

static void release_unplaced(struct sim_books *b, struct item *items, size_t count)
{
    struct sim_inbox *released[LEDGER_BATCH_MAX];
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {    /* all reasons are found before any row is RELEASED: none is another's reason */
        struct item *it = &items[i];
        if (!it->fresh || it->placed)
            continue;
        it->row->why = why_not(b, it, &it->row->superseded_by);
        it->row->outcome = REASON_RELEASED;
        released[n++] = it->row;
    }
    for (size_t i = 0; i < n; i++)
        remember_release(b, released[i]);
    units_return(b, released, n);
}

enum reason sim_books_place(struct sim_books *b, const struct place_ask *ask, int64_t now_ms, struct verdict *verdicts, bool *regressed)
{
    struct item items[LEDGER_BATCH_MAX], *sorted[LEDGER_BATCH_MAX];
    check(ask->count <= LEDGER_BATCH_MAX);
    *regressed = false;
    if (!sim_books_offsets_stand(b, ask->group, ask->prefixes, ask->prefix_count))
        return REASON_QUEUE_LOST;
    for (size_t i = 0; i < ask->count; i++) {
        if (!digestible(&ask->items[i], true))
            return REASON_POISON;
        items[i] = (struct item){.what = &ask->items[i], .ordinal = i};
        sorted[i] = &items[i];
    }
    b->turn++;
    sim_books_offsets_advance(b, ask->group, ask->owner, ask->prefixes, ask->prefix_count, now_ms);
    qsort(sorted, ask->count, sizeof *sorted, by_reservation);
    decide(b, ask->group, sorted, ask->count, now_ms);
    hold_units(b, items, ask->count, regressed);
    place_fresh(b, items, sorted, ask->count, now_ms);
    release_unplaced(b, items, ask->count);
    answer(b, items, ask->count, now_ms, verdicts);
    return REASON_OK;
}

enum reason sim_books_release(struct sim_books *b, const struct release_ask *ask, int64_t now_ms, struct verdict *verdicts, bool *regressed)
{
    struct item items[LEDGER_BATCH_MAX];
    struct sim_inbox *released[LEDGER_BATCH_MAX];
    size_t n = 0;
    check(ask->count <= LEDGER_BATCH_MAX);
    *regressed = false;
    for (size_t i = 0; i < ask->count; i++)
        if (!digestible(&ask->items[i].what, false))
            return REASON_POISON;
    b->turn++;
    for (size_t i = 0; i < ask->count; i++) {
        struct create_order what = ask->items[i].what;
        what.message = (struct str){0};    /* the verdict came without one; any message of it that comes later meets the verdict */
        items[i] = (struct item){.what = &ask->items[i].what, .ordinal = i, .row = sim_books_inbox(b, what.reservation)};
        if (items[i].row)
            continue;
        items[i].fresh = true;
        items[i].row = released[n++] = inbox_insert(b, &what, REASON_RELEASED, ask->items[i].why, now_ms);
        remember_release(b, items[i].row);
    }
    hold_units(b, items, ask->count, regressed);
    units_return(b, released, n);
    answer(b, items, ask->count, now_ms, verdicts);
    return REASON_OK;
}

/* Named after what it is about and why, so that parking twice is parking once. */
static struct str review_name(struct sim_books *b, const struct park_ask *ask)
{
    struct buf text = buf_growing((size_t)8 << 20);
    uint8_t digest[32];
    if (ask->what) {
        buf_add_str(&text, str_lit("reservation:"));
        buf_add_str(&text, ask->what->reservation);
    } else {
        buf_add_str(&text, str_lit("message:"));
        buf_add_str(&text, ask->key);
        buf_add_char(&text, ':');
        buf_add_str(&text, ask->body);
    }
    buf_add_char(&text, ':');
    buf_add_str(&text, str_of(reason_word(ask->why)));
    check(buf_ok(&text));
    sha256(buf_str(&text), digest);
    buf_free(&text);
    char *name = sim_take(&b->ground, 64);
    hex_write(digest, 32, name);
    return (struct str){name, 64};
}

static void review_open(struct sim_books *b, const struct park_ask *ask, struct str name, int64_t now_ms)
{
    struct sim_review *r = sim_new(&b->ground, struct sim_review);
    *r = (struct sim_review){.id = name, .kind = ask->what ? REVIEW_RESERVATION : REVIEW_MESSAGE, .body = sim_text(&b->ground, ask->body), .key = sim_text(&b->ground, ask->key),
                             .group = sim_text(&b->ground, ask->group), .why = ask->why, .opened_ms = now_ms, .open = true};
    sim_books_review(b, r);
    if (ask->what) {
        struct create_order *w = &r->what;
        struct sim_key k;
        *w = *ask->what;
        struct str *texts[] = {&w->message, &w->request, &w->reservation, &w->activity, &w->sku, &w->user, &w->trace};
        for (size_t i = 0; i < countof(texts); i++)
            *texts[i] = sim_text(&b->ground, *texts[i]);
        r->readable = true;
        sim_map_put(&b->review_by_reservation, w->reservation, r);
        if (sim_key_join(&k, (const struct str[]){w->activity, w->user, w->request}, 3))
            sim_map_put(&b->review_by_request, sim_text(&b->ground, k.str), r);
        const struct activity *a = sim_books_activity(b, w->activity);
        if (a && w->reservation.len <= SIM_ID_BYTES_MAX)
            sim_books_tell_status(b, a, w->reservation, now_ms);
    }
    sim_books_tell_dead(b, r, now_ms);
}

enum reason sim_books_park(struct sim_books *b, const struct park_ask *ask, int64_t now_ms)
{
    size_t prefixes = ask->prefix ? 1 : 0;
    if (!sim_books_offsets_stand(b, ask->group, ask->prefix, prefixes))
        return REASON_QUEUE_LOST;
    b->turn++;
    sim_books_offsets_advance(b, ask->group, ask->owner, ask->prefix, prefixes, now_ms);
    struct str name = review_name(b, ask);
    if (!sim_map_get(&b->review_by_id, name))
        review_open(b, ask, name, now_ms);
    return REASON_OK;
}

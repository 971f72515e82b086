/* SPDX-License-Identifier: Apache-2.0
 * sim_books.c: the tables, what others must hear of them, and how far each queue is read. Verdicts are sim_place.c's. */
#include "sim_books.h"

#include <stdlib.h>

#include "json.h"

/* ---- rows and arrays ----------------------------------------------------------------------------------------------------- */

void *sim_books_room(void *array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return array;
    *cap = *cap ? 2 * *cap : 64;
    array = realloc(array, *cap * size);
    check(array != NULL);
    return array;
}

void sim_books_init(struct sim_books *b)
{
    *b = (struct sim_books){0};
    list_init(&b->outbox);
    list_init(&b->rows_free);
}

void sim_books_end(struct sim_books *b)
{
    void *arrays[] = {b->activities, b->units, b->inbox, b->orders, b->journal, b->members, b->offsets, b->homes, b->payments, b->webhooks, b->reviews, b->questions};
    for (size_t i = 0; i < countof(arrays); i++)
        free(arrays[i]);
    struct sim_map *maps[] = {
        &b->activity_by_id, &b->inbox_by_reservation, &b->inbox_by_message, &b->released_by_request, &b->order_by_id, &b->order_by_reservation,
        &b->order_by_request, &b->order_by_purchase, &b->order_by_token, &b->order_by_unit, &b->row_by_key, &b->row_by_number, &b->offset_by_queue, &b->review_by_id,
        &b->review_by_reservation, &b->review_by_request, &b->payment_by_id, &b->payment_by_order, &b->webhook_by_id, &b->held_by_reservation};
    for (size_t i = 0; i < countof(maps); i++)
        sim_map_free(maps[i]);
    sim_ground_free(&b->ground);
}

struct activity *sim_books_activity(struct sim_books *b, struct str id) { return sim_map_get(&b->activity_by_id, id); }

struct sim_unit *sim_books_unit(struct sim_books *b, int64_t unit)
{
    return unit > 0 && (uint64_t)unit <= b->unit_count ? &b->units[unit - 1] : NULL;
}

struct sim_inbox *sim_books_inbox(struct sim_books *b, struct str reservation) { return sim_map_get(&b->inbox_by_reservation, reservation); }

struct sim_order *sim_books_order(struct sim_books *b, struct str reservation) { return sim_map_get(&b->order_by_reservation, reservation); }

struct sim_journal *sim_books_journal(struct sim_books *b, const struct sim_unit *u, enum sim_change change, struct str reservation)
{
    b->journal = sim_books_room(b->journal, b->journal_count, &b->journal_cap, sizeof *b->journal);
    struct sim_journal *j = &b->journal[b->journal_count++];
    *j = (struct sim_journal){.unit = u->token.unit, .generation = u->token.generation, .change = change, .reservation = reservation, .why = REASON_OK,
                             .at_ms = b->now_ms};
    return j;
}

void sim_books_review(struct sim_books *b, struct sim_review *r)
{
    b->reviews = sim_books_room(b->reviews, b->review_count, &b->review_cap, sizeof *b->reviews);
    b->reviews[b->review_count++] = r;
    sim_map_put(&b->review_by_id, r->id, r);
}

/* ---- outbox -------------------------------------------------------------------------------------------------------------- */

static bool row_key(struct sim_key *k, enum outbox_kind kind, struct str subject, struct token token)
{
    uint8_t byte = (uint8_t)kind;
    const struct str parts[] = {sim_bytes(&byte, 1), subject, sim_bytes(&token.unit, sizeof token.unit),
                                sim_bytes(&token.generation, sizeof token.generation)};
    return sim_key_join(k, parts, countof(parts));
}

struct sim_row *sim_books_row(struct sim_books *b, enum outbox_kind kind, struct str subject, struct token token)
{
    struct sim_key k;
    return row_key(&k, kind, subject, token) ? sim_map_get(&b->row_by_key, k.str) : NULL;
}

/* The row of this name: renewed where it stands, else a new one for the caller to fill. */
static struct sim_row *tell(struct sim_books *b, enum outbox_kind kind, struct str subject, struct token token, int64_t now_ms)
{
    struct sim_key k;
    check(row_key(&k, kind, subject, token));
    struct sim_row *row = sim_map_get(&b->row_by_key, k.str);
    if (row) {
        row->version += row->turn != b->turn;
        row->turn = b->turn;
        row->claimed_until_ms = 0;
        return row;
    }
    struct link *idle = list_take(&b->rows_free);
    row = idle ? list_entry(idle, struct sim_row, link) : sim_new(&b->ground, struct sim_row);
    *row = (struct sim_row){.key = sim_text(&b->ground, k.str), .row = ++b->rows_given, .turn = b->turn, .version = 1, .kind = kind, .created_ms = now_ms, .token = token};
    list_append(&b->outbox, &row->link);
    b->outbox_count++;
    sim_map_put(&b->row_by_key, row->key, row);
    sim_map_put(&b->row_by_number, sim_bytes(&row->row, sizeof row->row), row);
    return row;
}

void sim_books_tell_status(struct sim_books *b, const struct activity *a, struct str reservation, int64_t now_ms)
{
    struct sim_row *row = tell(b, OUTBOX_STATUS, reservation, (struct token){0}, now_ms);
    row->activity = a;
    row->reservation = reservation;
}

void sim_books_tell_return(struct sim_books *b, const struct sim_unit *u, int64_t now_ms)
{
    tell(b, OUTBOX_RETURN, (struct str){0}, u->token, now_ms)->activity = u->activity;
}

static struct str kept(struct sim_books *b, struct buf *text)
{
    check(buf_ok(text));
    struct str body = sim_text(&b->ground, buf_str(text));
    buf_free(text);
    return body;
}

static struct str event_body(struct sim_books *b, const char *event, struct str key, const struct sim_inbox *v, const struct sim_order *o, int64_t now_ms)
{
    struct buf text = buf_growing(16384);
    bool lost = v->why == REASON_LOST;    /* then the row names what it must and nobody knows */
    json_open(&text);
    json_member_text(&text, "event", event);
    json_member_str(&text, "event_id", key);
    json_member_str(&text, "reservation_id", v->what.reservation);
    json_member_str(&text, "activity_id", v->what.activity);
    json_maybe_str(&text, "sku_id", lost ? (struct str){0} : v->what.sku);
    json_member_str(&text, "user_id", v->what.user);
    json_maybe_str(&text, "request_id", lost ? (struct str){0} : v->what.request);
    if (o) {
        json_member_str(&text, "order_id", o->order.order);
        json_key(&text, "inventory_token_id");
        buf_add_fmt(&text, "\"token_%06lld-%u\"", (long long)o->order.token.unit, o->order.token.generation);
        json_member_i64(&text, "amount", o->order.amount);
        json_member_str(&text, "currency", o->order.currency);
    } else {
        json_member_text(&text, "reason", reason_word(v->why));
    }
    json_member_time(&text, "occurred_at", now_ms);
    json_close(&text);
    return kept(b, &text);
}

void sim_books_tell_event(struct sim_books *b, const char *event, const struct sim_inbox *v, const struct sim_order *o, int64_t now_ms)
{
    char memory[128];
    struct buf subject = buf_fixed(memory, sizeof memory);
    buf_add_fmt(&subject, "EVENT:%s:" STR_FMT, event, STR_ARG(v->what.reservation));
    struct sim_row *row = tell(b, OUTBOX_EVENT, buf_str(&subject), (struct token){0}, now_ms);
    row->activity = sim_books_activity(b, v->what.activity);
    row->reservation = v->what.reservation;
    row->topic_key = o ? o->order.order : v->what.reservation;
    row->body = event_body(b, event, buf_str(&subject), v, o, now_ms);
}

static void add_base64(struct buf *out, struct str bytes)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.len; i += 3) {
        uint32_t group = 0;
        for (size_t j = 0; j < 3; j++)
            group = group << 8 | (i + j < bytes.len ? (unsigned char)bytes.ptr[i + j] : 0u);
        for (size_t j = 0; j < 4; j++)
            buf_add_char(out, i + j > bytes.len ? '=' : letters[group >> (18 - 6 * j) & 63]);
    }
}

static struct str dead_body(struct sim_books *b, const struct sim_review *review)
{
    struct buf text = buf_growing(4096 + 2 * review->body.len + 6 * review->key.len);
    json_open(&text);
    json_member_str(&text, "review_id", review->id);
    json_member_text(&text, "reason", reason_word(review->why));
    json_member_str(&text, "consumer_group", review->group);
    json_member_str(&text, "key", review->key);
    json_maybe_str(&text, "reservation_id", review->what.reservation);
    json_maybe_str(&text, "message_id", review->what.message);
    json_key(&text, "body_base64");
    buf_add_char(&text, '"');
    add_base64(&text, review->body);
    buf_add_char(&text, '"');
    json_member_time(&text, "parked_at", review->opened_ms);
    json_close(&text);
    return kept(b, &text);
}

void sim_books_tell_dead(struct sim_books *b, const struct sim_review *review, int64_t now_ms)
{
    struct sim_row *row = tell(b, OUTBOX_DEAD_LETTER, review->id, (struct token){0}, now_ms);
    row->activity = review->readable ? sim_books_activity(b, review->what.activity) : NULL;
    row->reservation = review->what.reservation;
    row->topic_key = review->what.message.len > 0 ? review->what.message : review->key;
    row->body = dead_body(b, review);
}

void sim_books_tell_refund(struct sim_books *b, const struct sim_payment *p, int64_t now_ms)
{
    const struct payment *what = &p->record.what;
    const struct sim_order *o = sim_map_get(&b->order_by_id, what->order);
    struct sim_row *row = tell(b, OUTBOX_REFUND, p->name, (struct token){0}, now_ms);
    struct buf text = buf_growing(16384);
    json_open(&text);
    json_member_text(&text, "event", "REFUND_REQUESTED");
    json_member_str(&text, "payment_id", what->payment);
    json_member_str(&text, "order_id", what->order);
    json_member_i64(&text, "amount", what->amount);
    json_member_str(&text, "currency", what->currency);
    json_member_str(&text, "channel", what->channel);
    json_member_text(&text, "reason", reason_word(p->record.disposition));
    json_member_time(&text, "occurred_at", now_ms);
    json_close(&text);
    row->activity = o ? sim_books_activity(b, o->order.activity) : NULL;
    row->reservation = o ? o->order.reservation : (struct str){0};
    row->topic_key = what->order;
    row->body = kept(b, &text);
    row->refund = p;
}

/* What the store must hear of a reservation: its verdict, or that a person has it. */
static void fill_status(struct sim_books *b, const struct sim_row *row, struct outbox_row *out)
{
    const struct sim_inbox *v = sim_books_inbox(b, row->reservation);
    const struct sim_review *review = v ? NULL : sim_map_get(&b->review_by_reservation, row->reservation);
    const struct create_order *what = v ? &v->what : &review->what;
    out->reservation = row->reservation;
    out->user = what->user, out->sku = what->sku, out->request = what->request, out->token = what->token;
    out->state = !v ? RESERVATION_MANUAL_REVIEW : v->outcome == REASON_ORDERED ? RESERVATION_ORDERED : RESERVATION_RELEASED;
    out->why = v ? v->why : review->why;
    const struct sim_order *instead = v && v->superseded_by.len ? sim_books_order(b, v->superseded_by) : NULL;
    if (instead) {
        out->superseded_by = instead->order.reservation;
        out->superseded_request = instead->order.request;
        out->superseded_sku = instead->order.sku;
    }
}

static void fill(struct sim_books *b, const struct sim_row *row, struct outbox_row *out)
{
    *out = (struct outbox_row){.row = row->row, .version = row->version, .kind = row->kind, .topic_key = row->topic_key, .body = row->body,
                               .reservation = row->reservation};
    if (row->activity) {
        out->activity = row->activity->activity;
        out->activity_number = row->activity->number;
        out->epoch = row->activity->epoch;
        out->buckets = row->activity->buckets;
        out->rebuilding = row->activity->rebuilding;
    }
    if (row->refund) {
        out->refund = row->refund->record.what;
        out->refund.occurred_ms = 0;
    }
    if (row->kind == OUTBOX_STATUS)
        fill_status(b, row, out);
    if (row->kind == OUTBOX_RETURN) {
        const struct sim_unit *u = sim_books_unit(b, row->token.unit);
        out->token = row->token;
        out->home = u->home;
        out->sku = u->activity->skus[u->sku].sku;
        out->stale = u->token.generation != row->token.generation || u->consumed;
    }
}

size_t sim_books_claim(struct sim_books *b, size_t limit, uint32_t hold_ms, int64_t now_ms, struct outbox_row *out, uint64_t *waiting, int64_t *oldest_ms)
{
    struct sim_row *rows[LEDGER_BATCH_MAX];
    size_t count = 0, tried = 0, untried = 0;
    check(limit <= countof(rows));
    *waiting = 0;
    *oldest_ms = 0;
    list_each(at, &b->outbox) {
        struct sim_row *row = list_entry(at, struct sim_row, link);
        if (row->claimed_until_ms > now_ms)
            continue;
        if (count < limit) {
            rows[count++] = row, tried += row->claimed_until_ms != 0;
            continue;
        }
        *waiting += *waiting < 1000;
        if (tried == limit && untried < limit / 2 && row->claimed_until_ms == 0)
            rows[limit - 1 - untried++] = row;    /* whom the oldest are for is perhaps away: half goes to what nobody has tried */
    }
    for (size_t i = 0; i < count; i++) {
        int64_t age_ms = now_ms - rows[i]->created_ms;
        rows[i]->claimed_until_ms = now_ms + hold_ms;
        rows[i]->claimed_ms = now_ms;
        *oldest_ms = age_ms > *oldest_ms ? age_ms : *oldest_ms;
        fill(b, rows[i], &out[i]);
        out[i].age_ms = age_ms;
    }
    return count;
}

/* What its delivery means to the tables: a refund is DONE, a unit is back. */
static void delivered(struct sim_books *b, const struct sim_row *row)
{
    struct sim_payment *p = row->refund ? sim_map_get(&b->payment_by_id, row->refund->name) : NULL;
    if (p && p->record.refund == REFUND_REQUESTED) {
        p->record.refund = REFUND_DONE;
        p->refunded_ms = b->now_ms;
    }
    for (size_t i = b->journal_count; row->kind == OUTBOX_RETURN && i > 0; i--) {
        struct sim_journal *j = &b->journal[i - 1];
        if (j->unit == row->token.unit && j->generation == row->token.generation && (j->change == SIM_RETURNED || j->change == SIM_FREED)) {
            j->restocked_ms = j->restocked_ms ? j->restocked_ms : b->now_ms;
            return;
        }
    }
}

void sim_books_finish(struct sim_books *b, const struct finish_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sim_row *row = sim_map_get(&b->row_by_number, sim_bytes(&items[i].row, sizeof items[i].row));
        if (!row || row->version != items[i].version)
            continue;
        delivered(b, row);
        sim_map_remove(&b->row_by_number, sim_bytes(&items[i].row, sizeof items[i].row));
        sim_map_remove(&b->row_by_key, row->key);
        list_remove(&row->link);
        list_append(&b->rows_free, &row->link);
        b->outbox_count--;
    }
}

/* ---- activities ---------------------------------------------------------------------------------------------------------- */

static bool same_terms(const struct activity *a, const struct activity *b)
{
    bool same = str_eq(a->title, b->title) && a->buckets == b->buckets && a->starts_ms == b->starts_ms && a->ends_ms == b->ends_ms &&
                a->pay_timeout_s == b->pay_timeout_s && a->qualification == b->qualification && a->sku_count == b->sku_count;
    for (size_t i = 0; same && i < a->sku_count; i++)
        same = str_eq(a->skus[i].sku, b->skus[i].sku) && a->skus[i].stock == b->skus[i].stock && a->skus[i].price == b->skus[i].price &&
               str_eq(a->skus[i].currency, b->skus[i].currency);
    return same;
}

static bool sound(const struct activity *a)
{
    bool sound = str_is_id(a->activity) && a->buckets >= 1 && a->buckets <= 32 && a->ends_ms > a->starts_ms && a->pay_timeout_s > 0 && a->sku_count > 0;
    for (size_t i = 0; sound && i < a->sku_count; i++) {
        const struct sku *s = &a->skus[i];
        sound = str_is_id(s->sku) && s->stock > 0 && s->price >= 0 && s->currency.len == 3;
        for (size_t j = 0; sound && j < i; j++)
            sound = !str_eq(a->skus[j].sku, s->sku);
    }
    return sound;
}

static void stock_up(struct sim_books *b, const struct activity *a)
{
    for (size_t i = 0; i < a->sku_count; i++)
        for (int64_t n = 0; n < a->skus[i].stock; n++) {
            b->units = sim_books_room(b->units, b->unit_count, &b->unit_cap, sizeof *b->units);
            int64_t unit = (int64_t)++b->unit_count;
            b->units[unit - 1] = (struct sim_unit){.token = {.unit = unit, .generation = 1}, .activity = a, .sku = i, .home = (uint8_t)(n % a->buckets)};
        }
}

enum reason sim_books_create(struct sim_books *b, const struct activity *terms, const struct activity **out)
{
    struct activity *a = sim_books_activity(b, terms->activity);
    *out = a;
    if (a)
        return same_terms(a, terms) ? REASON_OK : REASON_CONFLICT;
    if (!sound(terms))
        return REASON_POISON;
    if (b->activity_count == 4095)
        return REASON_ACTIVITY_NUMBERS_USED;
    a = sim_new(&b->ground, struct activity);
    struct sku *skus = sim_array(&b->ground, struct sku, terms->sku_count);
    *a = *terms;
    a->activity = sim_text(&b->ground, terms->activity);
    a->title = sim_text(&b->ground, terms->title);
    a->number = (uint16_t)(b->activity_count + 1);
    a->epoch = 1;
    a->version = 1;
    a->state = ACTIVITY_DRAFT;
    a->rebuilding = a->retired = false;
    a->incarnations = NULL;
    a->skus = skus;
    int64_t unit_first = (int64_t)b->unit_count + 1;
    for (size_t i = 0; i < terms->sku_count; unit_first += skus[i++].stock) {
        skus[i] = terms->skus[i];
        skus[i].sku = sim_text(&b->ground, terms->skus[i].sku);
        skus[i].currency = sim_text(&b->ground, terms->skus[i].currency);
        skus[i].unit_first = unit_first;
    }
    b->activities = sim_books_room(b->activities, b->activity_count, &b->activity_cap, sizeof *b->activities);
    b->activities[b->activity_count++] = a;
    sim_map_put(&b->activity_by_id, a->activity, a);
    stock_up(b, a);
    *out = a;
    return REASON_OK;
}

/* Whether some state leads there by this event: then it may be asked again without harm. */
static bool leads_to(enum activity_event event, enum activity_state state)
{
    enum activity_state to;
    for (int from = 0; from < ACTIVITY_STATE_COUNT; from++)
        if (activity_move((enum activity_state)from, event, &to) && to == state)
            return true;
    return false;
}

enum reason sim_books_move(struct sim_books *b, struct str id, enum activity_event event, uint64_t version, const struct activity **out)
{
    struct activity *a = sim_books_activity(b, id);
    *out = a;
    if (!a)
        return REASON_UNKNOWN_ACTIVITY;
    if (leads_to(event, a->state))
        return REASON_OK;
    if ((version > 0 && version != a->version) || !activity_move(a->state, event, &a->state))
        return REASON_CONFLICT;
    a->version++;
    if (a->state == ACTIVITY_CLOSED)
        b->closed_ms[a->number] = b->now_ms;
    return REASON_OK;
}

static bool waits_for_payment(const struct sim_books *b, const struct activity *a)
{
    for (size_t i = 0; i < b->order_count; i++)
        if (b->orders[i]->order.state == ORDER_CREATED && str_eq(b->orders[i]->order.activity, a->activity))
            return true;
    return false;
}

/* As activity_retire of activity.sql. */
enum reason sim_books_retire(struct sim_books *b, const struct retire_ask *ask)
{
    struct activity *a = sim_books_activity(b, ask->activity);
    const struct activity *moved;
    if (!a)
        return REASON_UNKNOWN_ACTIVITY;
    if (a->retired)
        return REASON_OK;
    if (a->state != ACTIVITY_DRAFT && a->state != ACTIVITY_CLOSED && a->ends_ms + 24 * 3600 * 1000LL < b->now_ms)
        return sim_books_move(b, ask->activity, ACTIVITY_EVENT_CLOSE, a->version, &moved);
    if (a->state != ACTIVITY_CLOSED || !(ask->counted || b->closed_ms[a->number] + 72 * 3600 * 1000LL < b->now_ms) || waits_for_payment(b, a))
        return REASON_UNCHANGED;
    a->retired = true;
    return REASON_OK;
}

/* ---- queues -------------------------------------------------------------------------------------------------------------- */

static struct sim_offset *offset_of(struct sim_books *b, struct str group, const struct queue *q)
{
    struct sim_key k;
    return sim_map_get(&b->offset_by_queue, sim_key(&k, group, q->broker, q->topic, sim_bytes(&q->number, sizeof q->number)));
}

static struct sim_offset *offset_made(struct sim_books *b, struct str group, const struct queue *q, int64_t start)
{
    struct sim_offset *o = offset_of(b, group, q);
    if (o)
        return o;
    struct sim_key k;
    o = sim_new(&b->ground, struct sim_offset);
    o->group = sim_text(&b->ground, group);
    o->next = start;
    b->offsets = sim_books_room(b->offsets, b->offset_count, &b->offset_cap, sizeof *b->offsets);
    b->offsets[b->offset_count++] = o;
    sim_map_put(&b->offset_by_queue, sim_text(&b->ground, sim_key(&k, group, q->broker, q->topic, sim_bytes(&q->number, sizeof q->number))), o);
    return o;
}

static struct sim_member *member_of(struct sim_books *b, struct str group, struct str owner)
{
    for (size_t i = 0; i < b->member_count; i++)
        if (str_eq(b->members[i].group, group) && str_eq(b->members[i].owner, owner))
            return &b->members[i];
    b->members = sim_books_room(b->members, b->member_count, &b->member_cap, sizeof *b->members);
    struct sim_member *m = &b->members[b->member_count++];
    *m = (struct sim_member){.group = sim_text(&b->ground, group), .owner = sim_text(&b->ground, owner)};
    return m;
}

/* Who has asked lately, and who holds a lease: a place renews it too. */
static size_t live_members(struct sim_books *b, struct str group, struct str owner, int64_t now_ms)
{
    size_t live = 0;
    for (size_t i = 0; i < b->offset_count; i++) {
        struct sim_offset *o = b->offsets[i];
        if (str_eq(o->group, group) && o->owner.len > 0 && o->leased_until_ms > now_ms) {
            struct sim_member *m = member_of(b, group, o->owner);
            m->seen_until_ms = m->seen_until_ms > o->leased_until_ms ? m->seen_until_ms : o->leased_until_ms;
        }
    }
    member_of(b, group, owner)->seen_until_ms = now_ms + SIM_LEASE_MS;
    for (size_t i = 0; i < b->member_count; i++)
        live += str_eq(b->members[i].group, group) && b->members[i].seen_until_ms > now_ms;
    return live;
}

size_t sim_books_lease(struct sim_books *b, const struct lease_ask *ask, int64_t now_ms, struct leased *out)
{
    for (size_t i = 0; ask->caught_up_ms && i < ask->count; i++) {
        struct sim_offset *o = offset_made(b, ask->group, &ask->queues[i], ask->starts[i]);
        if (ask->caught_up_ms[i] > o->caught_up_ms)
            o->caught_up_ms = ask->caught_up_ms[i];
    }
    size_t live = live_members(b, ask->group, ask->owner, now_ms), share = (ask->count + live - 1) / live, count = 0;
    for (int round = 0; round < 2; round++)    /* first what is its own, then what is free */
        for (size_t i = 0; i < ask->count; i++) {
            struct sim_offset *o = offset_made(b, ask->group, &ask->queues[i], ask->starts[i]);
            bool own = str_eq(o->owner, ask->owner), taken = o->owner.len > 0 && o->leased_until_ms > now_ms;
            if (round == 0 ? !own : own || taken)
                continue;
            if (count == share) {
                if (own)
                    o->owner = (struct str){0};    /* above its share: for whoever has come */
                continue;
            }
            if (!own)
                o->owner = sim_text(&b->ground, ask->owner);
            o->leased_until_ms = now_ms + SIM_LEASE_MS;
            out[count++] = (struct leased){.queue = i, .next = o->next, .identity = o->identity};
        }
    return count;
}

bool sim_books_offsets_stand(struct sim_books *b, struct str group, const struct queue_prefix *prefixes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sim_offset *o = offset_of(b, group, &prefixes[i].queue);
        if (!o || o->next != prefixes[i].from)
            return false;
    }
    return true;
}

void sim_books_offsets_advance(struct sim_books *b, struct str group, struct str owner, const struct queue_prefix *prefixes, size_t count, int64_t now_ms)
{
    for (size_t i = 0; i < count; i++) {
        struct sim_offset *o = offset_of(b, group, &prefixes[i].queue);
        o->next = prefixes[i].to;
        o->identity = sim_text(&b->ground, prefixes[i].identity);
        if (str_eq(o->owner, owner))
            o->leased_until_ms = now_ms + SIM_LEASE_MS;
    }
}

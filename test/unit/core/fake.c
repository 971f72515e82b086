/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"

#define NOW_MS 1796083200000    /* 2026-12-01 */

struct flight {
    struct slot slot;
    struct alarm alarm;
    struct fake *fake;
    enum reason reason;
    const void *result;
    union {
        struct reserve_answer reserve;
        struct batch_result batch;
        struct look_answer look;
        struct due_answer due;
        struct stock_answer stock;
        struct holdings_answer holdings;
        struct close_answer close;
        struct open_answer open;
        struct reindex_answer reindex;
        struct heal_answer heal;
        struct send_result send;
        struct queues_answer queues;
        struct range_answer range;
        struct pulled_answer pulled;
        struct lease_answer lease;
        struct backlog_answer backlog;
        struct decided_answer decided;
        struct place_answer place;
        struct ledger_look_answer ledger_look;
        struct claim_answer claim;
        struct activity activity;
        struct activities_answer activities;
        struct units_answer units;
        struct audit_answer audit;
        struct repair_answer repair;
        struct pay_answer pay;
        struct cancel_answer cancel;
        struct overdue_answer overdue;
        struct channel_answer channel;
    } answer;
    struct pay_verdict paid[LEDGER_PAY_MAX];
    struct cancel_verdict canceled[LEDGER_BATCH_MAX];
    struct payment known[4];
    enum reason verdicts[256];
    struct verdict judged[256];
    struct leased leased;
    struct queue queue;
    struct outbox_row rows[16];
};

static void land(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct flight *f = container_of(container_of(w, struct alarm, waiter), struct flight, alarm);
    f->fake->flying--;
    slot_wake(&f->slot, f->reason, f->result);
    free(f);
}

/* A call begins. True: it is answered well, and the caller fills in the result; false: something was injected. */
static bool fly(struct fake *k, enum fake_op op, struct waiter *w, struct flight **out)
{
    struct flight *f = calloc(1, sizeof *f);
    check(f != NULL);
    k->calls[op]++;
    k->flying++;
    f->fake = k;
    f->alarm.waiter.wake = land;
    f->reason = REASON_OK;
    bool injected = k->inject != REASON_OK && op == k->inject_op && k->calls[op] >= k->inject_at && k->calls[op] <= k->inject_until;
    if (injected)
        f->reason = k->silent ? REASON_TIMED_OUT : k->inject;
    slot_arm(&f->slot, w);
    clock_set_in(&k->clock.clock, &f->alarm, injected && k->silent ? (uint64_t)(w->budget_ms ? w->budget_ms : 1000) * 1000 : 1000);
    *out = f;
    return !injected;
}

static struct fake *of_store(struct store *s) { return container_of(s, struct fake, store); }
static struct fake *of_bus(struct bus *b) { return container_of(b, struct fake, bus); }
static struct fake *of_ledger(struct ledger *l) { return container_of(l, struct fake, ledger); }

/* ---- store -------------------------------------------------------------------------------------------------------------------- */

static void reserve(struct store *s, const struct reserve_ask *a, struct waiter *w)
{
    struct fake *k = of_store(s);
    struct flight *f;
    k->last_reserve = *a;
    k->last_ident = a->ident;
    if (!fly(k, FAKE_RESERVE, w, &f))
        return;
    f->reason = k->reserve == REASON_ASK_LEDGER && a->ledger_asked ? REASON_QUEUED : k->reserve;
    if (a->replay_only && f->reason == REASON_QUEUED && !k->replayed)
        f->reason = REASON_QUALIFICATION_INVALID;
    if (a->sealed && f->reason == REASON_QUEUED && !k->replayed)
        f->reason = REASON_BUCKET_CLOSED;
    f->answer.reserve = (struct reserve_answer){.replayed = k->replayed, .entry = k->entry, .now_ms = clock_now_ms(&k->clock.clock), .starts_ms = 77,
                                               .sequence = ++k->sequence};
    if (!k->replayed && f->reason == REASON_QUEUED)
        f->answer.reserve.entry.ident = a->ident;
    f->result = &f->answer.reserve;
}

static void settle(struct store *s, const struct settle_ask *a, size_t n, struct waiter *w)
{
    struct fake *k = of_store(s);
    struct flight *f;
    check(n >= 1 && n <= STORE_BATCH_MAX);
    if (!fly(k, FAKE_SETTLE, w, &f))
        return;
    for (size_t i = 0; i < n; i++)
        k->settled[a[i].to]++;
    k->last_settle = a[n - 1];
    f->answer.batch = (struct batch_result){f->verdicts, n};
    for (size_t i = 0; i < n; i++)
        f->verdicts[i] = REASON_OK;
    f->result = &f->answer.batch;
}

static void restock(struct store *s, const struct restock_ask *a, size_t n, struct waiter *w)
{
    struct fake *k = of_store(s);
    struct flight *f;
    check(n >= 1 && n <= STORE_BATCH_MAX && a[0].token.unit > 0);
    if (!fly(k, FAKE_RESTOCK, w, &f))
        return;
    f->answer.batch = (struct batch_result){f->verdicts, n};
    for (size_t i = 0; i < n; i++)
        f->verdicts[i] = i % 2 ? REASON_OK : REASON_UNCHANGED;
    k->restocked += n;
    k->stocks[0].free = k->unit_count;
    f->result = &f->answer.batch;
}

static void look(struct store *s, const struct look_ask *a, struct waiter *w)
{
    struct fake *k = of_store(s);
    struct flight *f;
    (void)a;
    if (!fly(k, FAKE_LOOK, w, &f))
        return;
    f->answer.look = (struct look_answer){.entries = &k->entry, .count = k->entry.state != RESERVATION_NONE, .now_ms = clock_now_ms(&k->clock.clock),
                                         .sequence = k->sequence};
    f->result = &f->answer.look;
}

static void due(struct store *s, const struct due_ask *a, struct waiter *w)
{
    struct fake *k = of_store(s);
    struct flight *f;
    check(a->limit >= 1 && a->limit <= 64 && k->due_count <= a->limit);
    if (!fly(k, FAKE_DUE, w, &f))
        return;
    f->answer.due = (struct due_answer){.entries = k->dues, .count = k->due_count, .waiting = k->due_count, .now_ms = clock_now_ms(&k->clock.clock), .sequence = ++k->sequence};
    f->result = &f->answer.due;
}

static void stock(struct store *s, const struct stock_ask *a, struct waiter *w)
{
    struct fake *k = of_store(s);
    struct flight *f;
    static const char filter[8] = {0};
    if (!fly(k, FAKE_STOCK, w, &f))
        return;
    f->answer.stock = k->stock;
    f->answer.stock.seeded = k->seeded;
    f->answer.stock.closed |= k->mark[0] != 0;
    f->answer.stock.mark = str_of(k->mark);
    f->answer.stock.lost = k->lost ? str_of(k->lost) : (struct str){0};
    f->answer.stock.incarnation = str_of(k->incarnation);
    f->answer.stock.sequence = ++k->sequence;
    f->answer.stock.now_ms = clock_now_ms(&k->clock.clock);
    f->answer.stock.skus = k->stocks;
    f->answer.stock.sku_count = k->activity.sku_count;
    f->answer.stock.filter_bits = 64;
    f->answer.stock.filter = a->with_filter ? (struct str){filter, sizeof filter} : (struct str){0};
    f->result = &f->answer.stock;
}

static void install(struct store *s, const struct install_ask *a, struct waiter *w)
{
    struct fake *k = of_store(s);
    struct flight *f;
    if (!fly(k, FAKE_INSTALL, w, &f))
        return;
    k->installed = true;
    k->created |= a->create;
    k->seeded |= a->seeded;
    k->stock.version = a->activity->version;
    k->stock.state = a->activity->state;
}

static void holdings(struct store *s, const struct holdings_ask *a, struct waiter *w)
{
    struct fake *k = of_store(s);
    struct flight *f;
    check(a->cursor.len == 0);
    if (!fly(k, FAKE_HOLDINGS, w, &f))
        return;
    f->answer.holdings = (struct holdings_answer){.held = k->held, .count = k->held_count};
    f->result = &f->answer.holdings;
}

static void close_bucket(struct store *s, const struct close_ask *a, struct waiter *w)
{
    struct fake *k = of_store(s);
    struct flight *f;
    k->last_close = *a;
    k->last_close.recorded = str_eq(a->recorded, str_of(k->incarnation)) ? str_of(k->incarnation) : (struct str){0};
    if (!fly(k, FAKE_CLOSE, w, &f))
        return;
    bool closes = a->went_back || (!str_eq(a->recorded, str_of(k->incarnation)) && !k->mark[0]);
    if (closes)
        snprintf(k->mark, sizeof k->mark, "%s/%zu", k->incarnation, k->calls[FAKE_CLOSE]);
    if (k->sequence < a->highest)
        k->sequence = a->highest;
    f->answer.close = (struct close_answer){++k->sequence, str_of(k->incarnation), str_of(k->mark)};
    f->reason = closes ? REASON_OK : REASON_UNCHANGED;
    f->result = &f->answer.close;
}

static void open_bucket(struct store *s, const struct open_ask *a, struct waiter *w)
{
    struct fake *k = of_store(s);
    struct flight *f;
    if (!fly(k, FAKE_OPEN, w, &f))
        return;
    k->last_open = a->bucket.activity;
    bool opens = !k->lost && k->mark[0] && str_eq(a->mark, str_of(k->mark));
    if (opens)
        k->mark[0] = 0;
    f->answer.open = (struct open_answer){++k->sequence, opens ? 77 : 0};
    f->reason = opens ? REASON_OK : REASON_UNCHANGED;
    f->result = &f->answer.open;
}

static void reindex(struct store *s, const struct reindex_ask *a, struct waiter *w)
{
    struct fake *k = of_store(s);
    struct flight *f;
    if (!fly(k, FAKE_REINDEX, w, &f))
        return;
    bool ours = k->lost && k->mark[0] && str_eq(a->mark, str_of(k->mark));
    bool last = ours && a->cursor.len > 0;    /* in two slices */
    if (last) {
        snprintf(k->mark, sizeof k->mark, "%s/indexed-%zu", k->incarnation, k->calls[FAKE_REINDEX]);
        k->lost = NULL;
    }
    f->answer.reindex = (struct reindex_answer){++k->sequence, ours && !last ? str_lit("1") : (struct str){0}, str_of(k->mark)};
    f->reason = ours ? REASON_OK : REASON_UNCHANGED;
    f->result = &f->answer.reindex;
}

static struct str incarnation(struct store *s, const struct bucket *b)
{
    (void)b;
    return str_of(of_store(s)->incarnation);
}

static const struct store_ops store_ops = {"fake", reserve, settle, restock, look, due, stock, install, holdings, close_bucket, open_bucket, reindex, incarnation};

/* ---- bus ---------------------------------------------------------------------------------------------------------------------- */

static void create(struct bus *b, const struct str *t, size_t n, struct str g, int32_t q, struct waiter *w)
{
    (void)b, (void)t, (void)n, (void)g, (void)q, (void)w;
    check(false);    /* core creates no topics */
}

static void send(struct bus *b, const struct bus_message *m, size_t n, struct waiter *w)
{
    struct fake *k = of_bus(b);
    struct flight *f;
    check(n >= 1 && n <= BUS_BATCH_MAX && m[0].body.len > 0);
    k->last_sent = n;
    for (size_t i = 0; i < n && i < countof(k->tags); i++) {
        snprintf(k->tags[i], sizeof k->tags[i], STR_FMT, STR_ARG(m[i].tag));
        k->spreads[i] = m[i].spread;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += m[i].body.len;
    k->body_bytes_most = bytes > k->body_bytes_most ? bytes : k->body_bytes_most;
    if (!fly(k, FAKE_SEND, w, &f))
        return;
    k->sent += n;
    f->answer.send = (struct send_result){f->verdicts, n};
    for (size_t i = 0; i < n; i++)
        f->verdicts[i] = k->send_verdict;
    f->result = &f->answer.send;
}

static void queues(struct bus *b, struct str topic, struct waiter *w)
{
    struct fake *k = of_bus(b);
    struct flight *f;
    (void)topic;
    if (!fly(k, FAKE_QUEUES, w, &f))
        return;
    f->queue = (struct queue){str_lit("broker"), str_lit("seckill-create-order"), 0};
    f->answer.queues = (struct queues_answer){&f->queue, 1};
    f->result = &f->answer.queues;
}

static int64_t queue_max(const struct fake *k) { return k->first + (int64_t)k->message_count; }

static void range(struct bus *b, const struct queue *q, struct waiter *w)
{
    struct fake *k = of_bus(b);
    struct flight *f;
    (void)q;
    if (!fly(k, FAKE_RANGE, w, &f))
        return;
    f->answer.range = (struct range_answer){k->first, queue_max(k), k->link};
    f->result = &f->answer.range;
}

static void pull(struct bus *b, const struct pull_ask *a, struct waiter *w)
{
    struct fake *k = of_bus(b);
    struct flight *f;
    if (!fly(k, FAKE_PULL, w, &f))
        return;
    if (a->offset < k->first || a->offset > queue_max(k)) {
        f->reason = REASON_OFFSET_MOVED;
        return;
    }
    size_t from = (size_t)(a->offset - k->first), n = k->message_count - from < a->limit ? k->message_count - from : a->limit;
    f->answer.pulled = (struct pulled_answer){k->messages + from, n, a->offset + (int64_t)n, k->first, queue_max(k), k->link};
    f->result = &f->answer.pulled;
    if (n == 0 && a->wait_ms > 0)
        clock_set_in(&k->clock.clock, &f->alarm, (uint64_t)a->wait_ms * 1000);
}

static void mirror(struct bus *b, const struct queue *q, int64_t next, struct waiter *w)
{
    struct flight *f;
    (void)q, (void)next;
    fly(of_bus(b), FAKE_MIRROR, w, &f);
}

static const struct bus_ops bus_ops = {"fake", create, send, queues, range, pull, mirror};

/* ---- ledger ------------------------------------------------------------------------------------------------------------------- */

static void lease(struct ledger *l, const struct lease_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    if (!fly(k, FAKE_LEASE, w, &f))
        return;
    if (k->queue_next < 0)
        k->queue_next = a->starts[0];
    f->leased = (struct leased){0, k->queue_next, {k->identity, k->identity_len}};
    f->answer.lease = (struct lease_answer){&f->leased, 1, clock_now_ms(&k->clock.clock) + k->ahead_ms};
    if (a->caught_up_ms)
        k->caught_up_ms = a->caught_up_ms[0];
    f->result = &f->answer.lease;
}

static bool move_offset(struct fake *k, const struct queue_prefix *p)
{
    if (p->from != k->queue_next)
        return false;
    k->queue_next = p->to;
    k->identity_len = p->identity.len;
    check(p->identity.len <= sizeof k->identity);
    if (p->identity.len > 0)
        memcpy(k->identity, p->identity.ptr, p->identity.len);
    return true;
}

static void place(struct ledger *l, const struct place_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    check(a->count <= LEDGER_BATCH_MAX && a->prefix_count <= 1);
    if (!fly(k, FAKE_PLACE, w, &f))
        return;
    f->reason = k->judge ? k->judge(a) : REASON_OK;
    if (f->reason != REASON_OK)
        return;
    if (a->prefix_count == 1 && !move_offset(k, a->prefixes)) {
        f->reason = REASON_QUEUE_LOST;
        return;
    }
    k->placed += a->count;
    for (size_t i = 0; i < a->count; i++)
        f->judged[i] = (struct verdict){.outcome = k->judge_item ? k->judge_item(&a->items[i]) : k->outcome, .why = REASON_OK, .fresh = true, .order = str_lit("ord")};
    f->answer.place = (struct place_answer){f->judged, a->count, false};
    f->result = &f->answer.place;
}

static void release(struct ledger *l, const struct release_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    check(a->count == 1);
    if (!fly(k, FAKE_RELEASE, w, &f) || k->ledger_look != REASON_NOT_FOUND)
        return;
    k->ledger_look = REASON_OK;
    k->looked = (struct ledger_look_answer){.decided = true, .verdict = {.outcome = REASON_RELEASED, .why = a->items[0].why, .fresh = true}, .what = a->items[0].what};
}

static void release_lost(struct ledger *l, const struct release_lost_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    if (!fly(k, FAKE_RELEASE_LOST, w, &f))
        return;
    f->reason = k->release_lost;
    if (f->reason != REASON_OK || k->ledger_look != REASON_NOT_FOUND)
        return;
    k->ledger_look = REASON_OK;
    k->looked = (struct ledger_look_answer){.decided = true, .verdict = {.outcome = REASON_RELEASED, .why = REASON_LOST, .fresh = true}, .what = {
        .request = a->reservation, .reservation = a->reservation, .activity = a->activity, .sku = a->sku, .user = a->user, .created_ms = a->created_ms}};
}

static void decided_of(struct ledger *l, const struct decided_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    check(a->count >= 1 && a->count <= LEDGER_BATCH_MAX && a->reservations[0].len == IDENT_ID_TEXT);
    if (!fly(k, FAKE_DECIDED, w, &f))
        return;
    k->reservations += a->count;
    f->answer.decided = (struct decided_answer){k->decided, a->count};
    f->result = &f->answer.decided;
}

static void backlog(struct ledger *l, const struct backlog_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    check(a->group.len > 0);
    if (!fly(k, FAKE_BACKLOG, w, &f))
        return;
    f->answer.backlog = k->backlog;
    f->result = &f->answer.backlog;
}

static void park(struct ledger *l, const struct park_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    if (!fly(k, FAKE_PARK, w, &f))
        return;
    if (a->prefix && !move_offset(k, a->prefix)) {
        f->reason = REASON_QUEUE_LOST;
        return;
    }
    check(k->parked < countof(k->parked_why));
    k->parked_why[k->parked++] = a->why;
}

static void ledger_look_at(struct ledger *l, const struct ledger_look_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    (void)a;
    if (!fly(k, FAKE_LEDGER_LOOK, w, &f))
        return;
    f->reason = k->ledger_look;
    f->answer.ledger_look = k->looked;
    f->result = f->reason == REASON_OK ? &f->answer.ledger_look : NULL;
}

static void claim(struct ledger *l, const struct claim_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    k->last_hold_ms = a->hold_ms;
    struct flight *f;
    size_t n = 0;
    if (!fly(k, FAKE_CLAIM, w, &f))
        return;
    for (size_t i = 0; i < k->row_count && n < a->limit && k->calls[FAKE_CLAIM] % 4 == 1; i++)    /* what is not finished comes again, a little later */
        if (!k->row_done[i])
            f->rows[n++] = k->rows[i];
    k->claimed_most = n > k->claimed_most ? n : k->claimed_most;
    f->answer.claim = (struct claim_answer){f->rows, n, 0, 0};
    f->result = &f->answer.claim;
}

static void finish(struct ledger *l, const struct finish_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    if (!fly(k, FAKE_FINISH, w, &f))
        return;
    for (size_t i = 0; i < a->count; i++)
        k->row_done[a->items[i].row - 1] = true;
}

static void callback(struct ledger *l, const struct callback_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    (void)a;
    if (fly(k, FAKE_CALLBACK, w, &f))
        k->callbacks++;
}

static void defer(struct ledger *l, const struct defer_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    if (!fly(k, FAKE_DEFER, w, &f))
        return;
    k->deferred += a->count;
    k->last_deferred = a->items[0].why;
}

static void activity_create(struct ledger *l, const struct activity_create *a, struct waiter *w)
{
    (void)l, (void)a, (void)w;
    check(false);
}

static void activity_move_to(struct ledger *l, const struct activity_move_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    if (!fly(k, FAKE_MOVE, w, &f))
        return;
    enum activity_state to = k->activity.state;
    if (!activity_move(k->activity.state, a->event, &to)) {
        f->reason = REASON_CONFLICT;
        return;
    }
    k->activity.state = to;
    k->activity.version++;
    f->answer.activity = k->activity;
    f->result = &f->answer.activity;
}

static bool is_asked(const struct activities_ask *ask, const struct activity *a)
{
    bool asked = ask->live && !a->retired;
    for (size_t i = 0; !asked && i < ask->name_count; i++)
        asked = str_eq(ask->names[i], a->activity);
    for (size_t i = 0; !asked && i < ask->number_count; i++)
        asked = ask->numbers[i] == a->number;
    return asked;
}

static void activities(struct ledger *l, const struct activities_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    size_t count = 0;
    if (!fly(k, FAKE_ACTIVITIES, w, &f))
        return;
    k->activity_visited = a->name_count + a->number_count > 0;
    for (size_t i = 0; i < k->activity_count && k->activity_count <= countof(k->listed); i++)
        if (is_asked(a, &k->activities[i]))
            k->listed[count++] = k->activities[i];
    bool many = k->activity_count > countof(k->listed);    /* then all of them, as they stand */
    f->answer.activities = many ? (struct activities_answer){k->activities, k->activity_count} : (struct activities_answer){k->listed, count};
    f->result = &f->answer.activities;
}

static void retire(struct ledger *l, const struct retire_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    k->retire_counted = a->counted;
    if (!fly(k, FAKE_RETIRE, w, &f))
        return;
    if (k->activity.state == ACTIVITY_CLOSED && a->counted)
        k->activity.retired = true;
    else if (f->reason == REASON_OK)
        f->reason = REASON_UNCHANGED;
}

static void units(struct ledger *l, const struct units_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    if (!fly(k, FAKE_UNITS, w, &f))
        return;
    size_t from = 0;
    while (from < k->unit_count && k->units[from].token.unit <= a->after)
        from++;
    f->answer.units = (struct units_answer){&k->units[from], k->unit_count - from};
    f->result = &f->answer.units;
}

/* Told, waited for, healed: then the incarnation is recorded. */
static void heal(struct ledger *l, const struct heal_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    if (!fly(k, FAKE_HEAL, w, &f))
        return;
    unsigned at = k->heals > 0 ? --k->heals : 0;
    k->last_heal = a->bucket.activity;
    f->answer.heal = (struct heal_answer){.told = 7, .waiting = at, .more = at > 1, .healed = at == 0};
    if (at == 0 && str_eq(a->incarnation, str_of(k->incarnation)))
        k->incarnations[a->bucket.number] = str_of(k->incarnation);
    f->result = &f->answer.heal;
}

static void record(struct ledger *l, const struct record_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    if (!fly(k, FAKE_RECORD, w, &f))
        return;
    if (str_eq(a->incarnation, str_of(k->incarnation)))
        k->incarnations[a->bucket.number] = str_of(k->incarnation);
}

static void audit(struct ledger *l, struct str activity, struct waiter *w)
{
    (void)activity;
    struct fake *k = of_ledger(l);
    struct flight *f;
    if (!fly(k, FAKE_AUDIT, w, &f))
        return;
    f->answer.audit = (struct audit_answer){.findings = &k->finding, .count = k->finding.rule.len > 0};
    f->result = &f->answer.audit;
}

static void repair(struct ledger *l, const struct repair_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    if (!fly(k, FAKE_REPAIR, w, &f))
        return;
    for (size_t i = 0; i < a->count; i++) {
        k->last_repair = a->items[i];
        f->verdicts[i] = REASON_OK;
    }
    f->answer.repair = (struct repair_answer){f->verdicts, a->count};
    f->result = &f->answer.repair;
}

static void keep_name(char out[64], struct str name) { snprintf(out, 64, STR_FMT, STR_ARG(name)); }

static void pay(struct ledger *l, const struct pay_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    check(a->count >= 1 && a->count <= LEDGER_PAY_MAX);
    if (!fly(k, FAKE_PAY, w, &f))
        return;
    for (size_t i = 0; i < a->count; i++) {
        enum reason outcome = k->judge_pay ? k->judge_pay(&a->items[i]) : REASON_PAYMENT_APPLIED;
        if (ledger_splits(outcome)) {
            f->reason = outcome;
            return;
        }
        f->paid[i] = (struct pay_verdict){.outcome = outcome, .why = REASON_OK, .fresh = true};
        keep_name(k->last_paid, a->items[i].what.payment);
    }
    k->payments += a->count;
    f->answer.pay = (struct pay_answer){f->paid, a->count};
    f->result = &f->answer.pay;
}

static void no_more_overdue(struct fake *k, struct str order)
{
    for (size_t i = 0; i < k->overdue_count; i++)
        if (str_eq(k->overdues[i].order, order)) {
            memmove(&k->overdues[i], &k->overdues[i + 1], (--k->overdue_count - i) * sizeof *k->overdues);
            return;
        }
}

static void cancel(struct ledger *l, const struct cancel_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    check(a->count >= 1 && a->count <= LEDGER_BATCH_MAX);
    if (!fly(k, FAKE_CANCEL, w, &f))
        return;
    for (size_t i = 0; i < a->count; i++) {
        enum reason outcome = k->judge_cancel ? k->judge_cancel(&a->items[i]) : k->canceled;
        if (ledger_splits(outcome)) {
            f->reason = outcome;
            return;
        }
        f->canceled[i] = (struct cancel_verdict){.outcome = outcome, .fresh = outcome == REASON_CANCELED};
        keep_name(k->last_canceled, a->items[i].order);
    }
    for (size_t i = 0; k->judge_cancel && i < a->count; i++)
        if (f->canceled[i].fresh)
            no_more_overdue(k, a->items[i].order);
    k->due_only = a->due;
    k->cancels += a->count;
    k->overdue_count -= !k->judge_cancel && a->due && k->canceled == REASON_CANCELED ? a->count < k->overdue_count ? a->count : k->overdue_count : 0;
    f->answer.cancel = (struct cancel_answer){.verdicts = f->canceled, .count = a->count, .now_ms = clock_now_ms(&k->clock.clock) + k->ahead_ms};
    f->result = &f->answer.cancel;
}

static void overdue(struct ledger *l, const struct overdue_ask *a, struct waiter *w)
{
    struct fake *k = of_ledger(l);
    struct flight *f;
    if (!fly(k, FAKE_OVERDUE, w, &f))
        return;
    size_t n = 0;
    for (size_t i = 0; i < k->overdue_count && n < a->limit; i++)
        if (k->overdues[i].place == 0 || k->overdues[i].place > a->after_place)
            k->overdue_page[n++] = k->overdues[i];
    f->answer.overdue = (struct overdue_answer){.orders = k->overdue_page, .count = n, .now_ms = clock_now_ms(&k->clock.clock) + k->ahead_ms};
    f->result = &f->answer.overdue;
    if (k->overdue_way_ms)
        clock_set_in(&k->clock.clock, &f->alarm, (uint64_t)k->overdue_way_ms * 1000);
}

static struct fake *of_channel(struct channel *c) { return container_of(c, struct fake, channel); }

static void channel_asked(struct channel *c, struct str order, struct waiter *w)
{
    struct fake *k = of_channel(c);
    struct flight *f;
    size_t n = 0;
    if (!fly(k, FAKE_ASK, w, &f))
        return;
    for (size_t i = 0; i < k->known_count; i++)
        if (str_eq(k->known[i].order, order))
            f->known[n++] = k->known[i];
    f->answer.channel = (struct channel_answer){f->known, n, k->unreadable};
    f->result = &f->answer.channel;
}

static void channel_refunds(struct channel *c, const struct payment *p, struct waiter *w)
{
    struct fake *k = of_channel(c);
    struct flight *f;
    if (!fly(k, FAKE_REFUND, w, &f))
        return;
    keep_name(k->last_refund, p->payment);
    k->refunds++;
}

static const struct channel_ops channel_ops = {.name = "fake", .ask = channel_asked, .refund = channel_refunds};

static const struct ledger_ops ledger_ops = {
    .name = "fake", .lease = lease, .place = place, .release = release, .release_lost = release_lost, .backlog = backlog, .decided = decided_of, .park = park, .look = ledger_look_at, .claim = claim, .finish = finish,
    .activity_create = activity_create, .activity_move = activity_move_to, .activities = activities, .retire = retire, .units = units, .audit = audit, .repair = repair, .heal = heal, .record = record,
    .pay = pay, .callback = callback, .defer = defer, .cancel = cancel, .overdue = overdue};

/* ---- for the tests -------------------------------------------------------------------------------------------------------------- */

void fake_init(struct fake *k)
{
    *k = (struct fake){.store.ops = &store_ops, .bus.ops = &bus_ops, .ledger.ops = &ledger_ops, .channel.ops = &channel_ops};
    sim_clock_init(&k->clock, NOW_MS);
    sim_clock_run_until(&k->clock, 10000000);
    sim_random_init(&k->random, 1);
    k->keys = ident_keys_from(str_lit("one"), str_lit("two"), str_lit("users"));
    k->skus[0] = (struct sku){.sku = str_lit("sku"), .stock = 4, .unit_first = 1, .price = 100, .currency = str_lit("CNY")};
    k->activity = (struct activity){.activity = str_lit("act"), .title = str_lit("An act"), .number = 7, .epoch = 1, .buckets = 2, .state = ACTIVITY_OPEN,
                                    .version = 3, .starts_ms = NOW_MS - 1000, .ends_ms = NOW_MS + 3600000, .skus = k->skus, .sku_count = 1,
                                    .incarnations = k->incarnations};
    k->activities = &k->activity;
    k->activity_count = 1;
    k->incarnation = "fake-1";
    k->incarnations[0] = k->incarnations[1] = str_of(k->incarnation);
    k->stocks[0].sku = str_lit("sku");
    k->stock = (struct stock_answer){.state = ACTIVITY_OPEN, .version = 3, .restocks = 5};
    k->seeded = true;
    k->reserve = REASON_QUEUED;
    k->ledger_look = REASON_NOT_FOUND;
    k->release_lost = REASON_OK;
    k->backlog = (struct backlog_answer){.read_ms = -1};
    k->send_verdict = REASON_OK;
    k->outcome = REASON_ORDERED;
    k->canceled = REASON_CANCELED;
    k->queue_next = -1;
    k->link = 1;
    k->inject_at = 1;
    k->inject_until = SIZE_MAX;
    k->inject = REASON_OK;    /* which is not 0 */
}

void fake_end(struct fake *k)
{
    while (k->flying > 0)
        check(sim_clock_step(&k->clock));
    sim_clock_end(&k->clock);
}

void fake_pass(struct fake *k, uint32_t ms) { sim_clock_run_until(&k->clock, k->clock.mono_us + (uint64_t)ms * 1000); }

struct entry fake_entry(struct fake *k, struct str user, enum reservation_state state, int64_t age_ms)
{
    int64_t now = clock_now_ms(&k->clock.clock);
    uint64_t hash = user_hash(&k->keys, user);
    struct ident_fields fields = {now - age_ms, 7, 1, user_bucket(hash, 2)};
    return (struct entry){.ident = ident_make(&k->keys, fields, ident_chance(hash, random_next(&k->random.random))), .state = state,
                          .request = str_lit("req"), .sku = str_lit("sku"), .token = {3, 1}, .created_ms = now - age_ms, .updated_ms = now - age_ms};
}

/* SPDX-License-Identifier: Apache-2.0
 * relay.c: a lane is one claim on its way: claim → its rows to store and bus, all at once → finish what is known to have happened. A lane
 * that found nothing sleeps; how long, grows. */
#include "relay.h"

#include <stdlib.h>

#include "arena.h"
#include "check.h"
#include "hint.h"
#include "json.h"
#include "killpoint.h"
#include "log.h"
#include "metric.h"
#include "scan.h"

#define LANE_TEXT ((size_t)LEDGER_BATCH_MAX * 512)
#define REFUNDS 16                           /* asked of the channel at once, by one claim */
#define TOLD 2                               /* lines a second of each kind and reason about rows that do not get on */
#define HINTS 8                              /* timer messages of one claim */
#define HINT_FURTHEST_MS (3 * 86400000LL)    /* brokers keep none for longer */

/* What is said of a row that does not get on. */
enum trouble { ROW_REFUSED, ROW_UNREADABLE, REFUND_NOT_GIVEN, REFUND_NOT_DEFERRED, TROUBLES };
static const char *const trouble_events[] = {"relay_row_refused", "relay_row_unreadable", "refund_not_given", "refund_not_deferred"};

struct lane;
struct relay_refund {
    struct lane *lane;
    struct waiter waiter;
    size_t row;
};

struct lane {
    struct relay *relay;
    struct waiter claimer, settler, restocker, bus, deferrer, finisher;
    struct alarm rest;
    uint32_t sleep_ms;
    size_t under_way;                        /* calls of this claim that have not answered */
    struct arena texts;
    size_t count;
    struct finish_item items[LEDGER_BATCH_MAX];
    enum outbox_kind kinds[LEDGER_BATCH_MAX];
    int64_t ages_ms[LEDGER_BATCH_MAX];       /* when they were claimed */
    uint64_t claimed_us;
    bool done[LEDGER_BATCH_MAX];
    bool refused[LEDGER_BATCH_MAX];          /* said at the first item of its row */
    size_t settles, restocks, messages;      /* how many go where … */
    uint16_t settle_of[LEDGER_BATCH_MAX], restock_of[LEDGER_BATCH_MAX], message_of[LEDGER_BATCH_MAX];    /* … and which row each is */
    struct settle_ask settle[LEDGER_BATCH_MAX];
    struct restock_ask restock[LEDGER_BATCH_MAX];
    struct bus_message message[LEDGER_BATCH_MAX];
    bool owed[LEDGER_BATCH_MAX];             /* the channel has not yet said that the money goes back */
    struct payment refund[LEDGER_BATCH_MAX];
    size_t refunds, refund_next;
    uint64_t carried_us;
    uint16_t refund_of[LEDGER_BATCH_MAX];
    struct defer_item defer[LEDGER_BATCH_MAX];    /* refunds that the channel has answered and not given */
    size_t defers;
    struct relay_refund asks[REFUNDS];
    size_t hints;
    int64_t hint_at_s[HINTS];
    struct bus_message hint[HINTS];
    struct waiter hinter;                    /* nobody waits for it: the claim ends without */
};
struct relay {
    struct store *store;
    struct bus *bus;
    struct ledger *ledger;
    struct clock *clock;
    struct random *random;
    const struct ident_keys *keys;
    struct relay_options options;
    struct lane *lanes;
    bool running, draining;
    size_t unanswered;                       /* refunds in a row that the channel did not answer … */
    uint64_t silent_us;                      /* … so that until then it is not asked */
    struct log_ration rations[TROUBLES][REASON_COUNT];    /* of the lines about them */
};

struct relay_options relay_options_default(void)
{
    return (struct relay_options){.batch = 256, .lanes = 3, .hold_ms = 10000, .apart_ms = 1500, .call_ms = 3000, .idle_first_ms = 5, .idle_most_ms = 50, .fault_ms = 100,
                                  .refund_ms = 500, .refunds_ms = 2000};
}

static void claim(struct lane *);

static void rest(struct lane *l, uint32_t ms)
{
    struct relay *r = l->relay;
    if (r->running && !r->draining)
        clock_set_in(r->clock, &l->rest, (uint64_t)ms * 500 + random_below(r->random, (uint64_t)ms * 1000 + 1));
}

static void rested(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    claim(container_of(container_of(w, struct alarm, waiter), struct lane, rest));
}

static void log_row(const struct lane *, size_t row, enum trouble, enum reason);

/* ---- finish ----------------------------------------------------------------------------------------------------------------- */

static void finished(struct waiter *w, enum reason reason, const void *result)
{
    (void)result;
    struct lane *l = container_of(w, struct lane, finisher);
    if (reason == REASON_OK)
        KILLPOINT(FINISH_ANSWERED);
    if (reason != REASON_OK)
        rest(l, l->relay->options.fault_ms);    /* the rows come again: every effect may be repeated */
    else
        claim(l);
}

static void finish_claim(struct lane *);

/* What could not be deferred comes again when its claim is over. */
static void on_deferred(struct waiter *w, enum reason reason, const void *result)
{
    (void)result;
    struct lane *l = container_of(w, struct lane, deferrer);
    if (reason != REASON_OK)
        log_row(l, l->refund_of[0], REFUND_NOT_DEFERRED, reason);
    finish_claim(l);
}

/* All of the claim's calls have answered: refunds that were not given rest, then what was delivered is finished. */
static void close_claim(struct lane *l)
{
    if (l->defers == 0) {
        finish_claim(l);
        return;
    }
    l->deferrer = (struct waiter){.wake = on_deferred, .budget_ms = l->relay->options.call_ms};
    ledger_defer(l->relay->ledger, &(struct defer_ask){.items = l->defer, .count = l->defers}, &l->deferrer);
}

static void finish_claim(struct lane *l)
{
    struct relay *r = l->relay;
    struct finish_item items[LEDGER_BATCH_MAX];
    size_t count = 0;
    bool whole = false;    /* all so far that this row has to say is delivered */
    for (size_t i = 0; i < l->count; i++) {
        l->done[i] &= !l->owed[i];
        metric_add(l->done[i] ? METRIC_RELAYED : METRIC_RELAY_FAILED, l->kinds[i], 1);
        bool first = i == 0 || l->items[i - 1].row != l->items[i].row;
        whole = l->done[i] && (first || whole);
        bool last = i + 1 == l->count || l->items[i + 1].row != l->items[i].row;
        if (last && whole)
            items[count++] = l->items[i];
    }
    l->sleep_ms = r->options.idle_first_ms;
    if (count == 0) {
        rest(l, r->options.fault_ms);
        return;
    }
    struct finish_ask ask = {.items = items, .count = count};
    l->finisher = (struct waiter){.wake = finished, .budget_ms = r->options.call_ms};
    KILLPOINT(FINISH_BEFORE);
    ledger_finish(r->ledger, &ask, &l->finisher);
    KILLPOINT(FINISH_ASKED);
}

static void one_answered(struct lane *l)
{
    if (--l->under_way == 0)
        close_claim(l);
}

/* ---- carry ------------------------------------------------------------------------------------------------------------------ */

/* While a part is down every row fails, again with every claim. */
static void log_row(const struct lane *l, size_t row, enum trouble trouble, enum reason reason)
{
    struct log_ration *ration = &l->relay->rations[trouble][reason];
    if (!log_ration_take(ration, clock_mono_us(l->relay->clock), TOLD))
        return;
    struct log_line line = log_event(LEVEL_WARN, trouble_events[trouble]);
    log_i64(&line, "row", l->items[row].row);
    log_text(&line, "error_class", reason_word(reason));
    log_untold(&line, ration);
    log_end(&line);
}

/* A row of many effects is refused once in a claim, whichever of them fails. */
static void refuse(struct lane *l, size_t row, enum reason reason)
{
    while (row > 0 && l->items[row - 1].row == l->items[row].row)
        row--;
    if (!l->refused[row])
        log_row(l, row, ROW_REFUSED, reason);
    l->refused[row] = true;
}

/* A status of a SKU that the activity does not have can be told to no bucket: no reservation of it exists there. A unit is never given up. */
static bool over(enum outbox_kind kind, enum reason reason)
{
    return reason_fate(reason) == FATE_DONE || (kind == OUTBOX_STATUS && reason == REASON_UNKNOWN_ACTIVITY);
}

static void take_verdicts(struct lane *l, enum reason reason, const enum reason *verdicts, const uint16_t *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enum reason verdict = reason == REASON_OK ? verdicts[i] : reason;
        l->done[rows[i]] = over(l->kinds[rows[i]], verdict);
        if (l->kinds[rows[i]] == OUTBOX_STATUS && reason_fate(verdict) == FATE_DONE)
            metric_observe(METRIC_TELL_SECONDS, (uint64_t)l->ages_ms[rows[i]] * 1000 + clock_mono_us(l->relay->clock) - l->claimed_us);
        if (reason_fate(verdict) != FATE_DONE)
            refuse(l, rows[i], verdict);
    }
    one_answered(l);
}

static void settled(struct waiter *w, enum reason reason, const void *result)
{
    struct lane *l = container_of(w, struct lane, settler);
    const struct batch_result *r = result;
    check(reason != REASON_OK || r->count == l->settles);
    if (reason == REASON_OK)
        KILLPOINT(CARRY_SETTLED);
    take_verdicts(l, reason, r ? r->verdicts : NULL, l->settle_of, l->settles);
}

static void restocked(struct waiter *w, enum reason reason, const void *result)
{
    struct lane *l = container_of(w, struct lane, restocker);
    const struct batch_result *r = result;
    check(reason != REASON_OK || r->count == l->restocks);
    if (reason == REASON_OK)
        KILLPOINT(CARRY_RESTOCKED);
    take_verdicts(l, reason, r ? r->verdicts : NULL, l->restock_of, l->restocks);
}

static void sent(struct waiter *w, enum reason reason, const void *result)
{
    struct lane *l = container_of(w, struct lane, bus);
    const struct send_result *r = result;
    check(reason != REASON_OK || r->count == l->messages);
    if (reason == REASON_OK)
        KILLPOINT(CARRY_SENT);
    take_verdicts(l, reason, r ? r->verdicts : NULL, l->message_of, l->messages);
}

static void refund_next(struct lane *, struct relay_refund *);

static void refunded(struct waiter *w, enum reason reason, const void *result)
{
    (void)result;
    struct relay_refund *ask = container_of(w, struct relay_refund, waiter);
    struct lane *l = ask->lane;
    struct relay *r = l->relay;
    size_t row = l->refund_of[ask->row];
    metric_add(METRIC_CHANNEL_CALLS, reason, 1);
    if (reason == REASON_OK)
        KILLPOINT(REFUND_ANSWERED);
    bool answered = reason == REASON_REFUND_PENDING || reason == REASON_REFUND_FAILED || reason == REASON_ENGINE_REFUSED || reason == REASON_ENGINE_FAULT;
    if (reason_fate(reason) == FATE_DONE)
        l->owed[row] = false;
    else
        log_row(l, row, REFUND_NOT_GIVEN, reason);
    if (answered)
        l->defer[l->defers++] = (struct defer_item){l->items[row].row, l->items[row].version, reason};
    r->unanswered = reason_fate(reason) == FATE_DONE || answered ? 0 : r->unanswered + 1;
    if (r->unanswered >= REFUNDS)
        r->silent_us = clock_mono_us(r->clock) + (uint64_t)r->options.hold_ms * 1000;
    refund_next(l, ask);
    one_answered(l);
}

static void refund_next(struct lane *l, struct relay_refund *ask)
{
    struct relay *r = l->relay;
    uint64_t now = clock_mono_us(r->clock);
    if (l->refund_next == l->refunds || now < r->silent_us || now - l->carried_us > (uint64_t)r->options.refunds_ms * 1000)
        return;
    ask->lane = l;
    ask->row = l->refund_next++;
    ask->waiter = (struct waiter){.wake = refunded, .budget_ms = r->options.refund_ms};
    l->under_way++;
    KILLPOINT(REFUND_BEFORE);
    channel_refund(r->options.channel, &l->refund[ask->row], &ask->waiter);
    KILLPOINT(REFUND_ASKED);
}

static void hinted(struct waiter *w, enum reason reason, const void *result) { (void)w, (void)reason, (void)result; }

static void send_hints(struct lane *l)
{
    if (l->hints == 0 || waiter_busy(&l->hinter))
        return;
    l->hinter = (struct waiter){.wake = hinted, .budget_ms = l->relay->options.call_ms};
    bus_send(l->relay->bus, l->hint, l->hints, &l->hinter);
}

static void carry(struct lane *l)
{
    struct relay *r = l->relay;
    l->under_way = 1;    /* ours, so that nothing ends before everything has begun */
    l->carried_us = clock_mono_us(r->clock);
    for (size_t i = 0; i < REFUNDS && i < l->refunds; i++)
        refund_next(l, &l->asks[i]);
    send_hints(l);
    if (l->settles > 0) {
        l->under_way++;
        l->settler = (struct waiter){.wake = settled, .budget_ms = r->options.call_ms};
        store_settle(r->store, l->settle, l->settles, &l->settler);
    }
    if (l->restocks > 0) {
        l->under_way++;
        l->restocker = (struct waiter){.wake = restocked, .budget_ms = r->options.call_ms};
        store_restock(r->store, l->restock, l->restocks, &l->restocker);
    }
    if (l->messages > 0) {
        l->under_way++;
        l->bus = (struct waiter){.wake = sent, .budget_ms = r->options.call_ms};
        bus_send(r->bus, l->message, l->messages, &l->bus);
    }
    if (l->under_way > 1)
        KILLPOINT(CARRY_ASKED);
    one_answered(l);
}

/* ---- claim ------------------------------------------------------------------------------------------------------------------ */

static struct str keep(struct lane *l, struct str s) { return arena_str(&l->texts, s); }

/* A status goes to the bucket that the user has in the present epoch. */
static void add_status(struct lane *l, size_t row, const struct outbox_row *o)
{
    struct ident ident;
    if (o->buckets == 0 || o->epoch == 0 || !ident_parse(o->reservation, IDENT_RESERVATION, &ident)) {
        log_row(l, row, ROW_UNREADABLE, REASON_ENGINE_FAULT);
        l->done[row] = true;    /* no bucket holds such a reservation */
        return;
    }
    uint64_t hash = user_hash(l->relay->keys, o->user);
    l->settle_of[l->settles] = (uint16_t)row;
    l->settle[l->settles++] = (struct settle_ask){
        .bucket = {keep(l, o->activity), o->epoch, user_bucket(hash, o->buckets)}, .user = keep(l, o->user), .ident = ident, .to = o->state,
        .why = o->why, .request = keep(l, o->request), .sku = keep(l, o->sku), .token = o->token, .superseded_by = keep(l, o->superseded_by),
        .superseded_request = keep(l, o->superseded_request), .superseded_sku = keep(l, o->superseded_sku), .user_hash = hash};
}

/* A unit goes to its home, unless it has moved on; while its activity is being rebuilt it waits. */
static void add_return(struct lane *l, size_t row, const struct outbox_row *o)
{
    if (o->stale) {
        l->done[row] = true;
        return;
    }
    if (o->rebuilding || o->buckets == 0)
        return;
    l->restock_of[l->restocks] = (uint16_t)row;
    l->restock[l->restocks++] = (struct restock_ask){.bucket = {keep(l, o->activity), o->epoch, o->home}, .sku = keep(l, o->sku), .token = o->token};
}

/* A text member of an event; empty where there is none. The text lives in the arena. */
static struct str event_member(struct str body, struct str wanted, struct arena *text)
{
    struct scan s = scan_of(body);
    bool more = scan_char(&s, '{');
    while (more) {
        char memory[64];
        struct arena a = {.start = memory, .cap = sizeof memory};
        struct str name, value;
        if (!scan_str(&s, &a, 24, &name) || !scan_char(&s, ':'))
            break;
        if (str_eq(name, wanted))
            return scan_peek(&s) == '"' && scan_str(&s, text, 32, &value) ? value : (struct str){0};
        more = scan_skip(&s) && scan_peek(&s) == ',' && scan_char(&s, ',');
    }
    return (struct str){0};
}

/* When a new order's time to pay is over, as its event says; 0: it says nothing of it. */
static int64_t deadline_of(struct str body)
{
    char memory[64];
    struct arena a = {.start = memory, .cap = sizeof memory};
    int64_t at_ms = 0;
    return time_parse(event_member(body, str_lit("pay_deadline"), &a), &at_ms) ? at_ms : 0;
}

/* The events of one order meet in one queue: a reservation and its order have one id, whatever prefix stands before it. The same while the topic's queues are. */
static uint64_t event_queue(struct str key)
{
    static const struct hash_key fixed = {0};    /* known to all: it spreads, it hides nothing */
    struct str id = key.len == IDENT_ID_TEXT ? str_range(key.ptr + 4, key.ptr + key.len) : key;
    uint64_t hash = hash_keyed(fixed, id);
    return hash == 0 ? 1 : hash;
}

static void add_hint(struct lane *l, const struct outbox_row *o, struct str key)
{
    int64_t at_ms = deadline_of(o->body), at_s = at_ms / 1000 + 1, now_ms = clock_now_ms(l->relay->clock);
    if (at_ms <= now_ms || at_ms > now_ms + HINT_FURTHEST_MS || l->hints == HINTS || waiter_busy(&l->hinter))
        return;
    for (size_t i = 0; i < l->hints; i++)
        if (l->hint_at_s[i] == at_s)
            return;
    char memory[128];
    struct buf body = buf_fixed(memory, sizeof memory);
    json_open(&body);
    json_member_str(&body, "order_id", key);
    json_member_time(&body, "pay_deadline", at_ms);
    json_close(&body);
    l->hint_at_s[l->hints] = at_s;
    l->hint[l->hints++] = (struct bus_message){.topic = str_lit(HINT_TOPIC), .key = key, .body = keep(l, buf_str(&body)), .spread = (uint64_t)at_s, .deliver_ms = at_s * 1000};
}

static void add_refund(struct lane *l, size_t row, const struct outbox_row *o)
{
    if (!l->relay->options.channel)
        return;
    struct payment *p = &l->refund[l->refunds];
    *p = o->refund;
    p->payment = keep(l, p->payment);
    p->order = keep(l, p->order);
    p->currency = keep(l, p->currency);
    p->channel = keep(l, p->channel);
    l->owed[row] = true;
    l->refund_of[l->refunds++] = (uint16_t)row;
}

static void add_message(struct lane *l, size_t row, const struct outbox_row *o)
{
    if (l->texts.used + o->body.len + o->topic_key.len + 64 > l->texts.cap - LANE_TEXT)
        return;    /* no room in this claim, for ids must always have theirs; it comes again, in another company */
    struct str body = o->body.len > 0 ? keep(l, o->body) : str_lit("{}"), key = keep(l, o->topic_key);
    bool event = o->kind == OUTBOX_EVENT || o->kind == OUTBOX_REFUND;
    if (o->kind == OUTBOX_REFUND)
        add_refund(l, row, o);
    if (o->kind == OUTBOX_EVENT)
        add_hint(l, o, key);
    l->message_of[l->messages] = (uint16_t)row;
    l->message[l->messages++] = (struct bus_message){
        .topic = event ? str_lit(RELAY_EVENT_TOPIC) : str_lit(RELAY_DEAD_LETTER_TOPIC), .key = key, .body = body,
        .tag = event ? event_member(body, str_lit("event"), &l->texts) : (struct str){0}, .spread = event ? event_queue(key) : 0};
}

static void claimed(struct waiter *w, enum reason reason, const void *result)
{
    struct lane *l = container_of(w, struct lane, claimer);
    struct relay *r = l->relay;
    const struct claim_answer *a = result;
    if (reason != REASON_OK) {
        rest(l, r->options.fault_ms);
        return;
    }
    metric_set(METRIC_OUTBOX_WAITING, 0, (int64_t)a->waiting);
    metric_set(METRIC_OUTBOX_OLDEST, 0, a->count > 0 ? a->oldest_ms / 1000 : 0);
    if (a->count == 0) {
        rest(l, l->sleep_ms);
        l->sleep_ms = l->sleep_ms * 2 < r->options.idle_most_ms ? l->sleep_ms * 2 : r->options.idle_most_ms;
        return;
    }
    KILLPOINT(CLAIM_ANSWERED);
    check(a->count <= LEDGER_BATCH_MAX);
    arena_reset(&l->texts);
    l->count = a->count;
    l->settles = l->restocks = l->messages = l->refunds = l->refund_next = l->hints = l->defers = 0;
    l->claimed_us = clock_mono_us(r->clock);
    for (size_t i = 0; i < a->count; i++) {
        const struct outbox_row *o = &a->rows[i];
        l->items[i] = (struct finish_item){o->row, o->version};
        l->kinds[i] = o->kind;
        l->ages_ms[i] = o->age_ms > 0 ? o->age_ms : 0;
        l->done[i] = l->owed[i] = l->refused[i] = false;
        if (o->kind == OUTBOX_STATUS)
            add_status(l, i, o);
        else if (o->kind == OUTBOX_RETURN)
            add_return(l, i, o);
        else
            add_message(l, i, o);
    }
    carry(l);
}

static void claim(struct lane *l)
{
    struct relay *r = l->relay;
    if (!r->running || r->draining)
        return;
    /* Without a connection to the store its rows are refused at once: they are held only as long as it takes to find it again, else what a restarted Redis
     * must be told first would lie here for ten seconds. */
    bool apart = store_incarnation(r->store, &(struct bucket){0}).len == 0 && r->options.apart_ms < r->options.hold_ms;
    struct claim_ask ask = {.limit = r->options.batch, .hold_ms = apart ? r->options.apart_ms : r->options.hold_ms};
    l->claimer = (struct waiter){.wake = claimed, .budget_ms = r->options.call_ms};
    ledger_claim(r->ledger, &ask, &l->claimer);
    KILLPOINT(CLAIM_ASKED);
}

/* ---- for everybody ------------------------------------------------------------------------------------------------------------ */

struct relay *relay_new(struct store *store, struct bus *bus, struct ledger *ledger, struct clock *clock, struct random *random,
                        const struct ident_keys *keys, const struct relay_options *options)
{
    check(options->batch >= 1 && options->batch <= LEDGER_BATCH_MAX && options->lanes >= 1);
    struct relay *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct relay){.store = store, .bus = bus, .ledger = ledger, .clock = clock, .random = random, .keys = keys, .options = *options};
    r->lanes = calloc(options->lanes, sizeof *r->lanes);
    for (size_t i = 0; r->lanes && i < options->lanes; i++) {
        struct lane *l = &r->lanes[i];
        l->relay = r;
        l->rest.waiter.wake = rested;
        l->sleep_ms = options->idle_first_ms;
        l->texts = arena_new(LANE_TEXT + (size_t)RELAY_BODY_MAX);
        if (!l->texts.start)
            break;
    }
    if (!r->lanes || !r->lanes[options->lanes - 1].texts.start) {
        relay_free(r);
        return NULL;
    }
    return r;
}

void relay_start(struct relay *r)
{
    r->running = true;
    for (size_t i = 0; i < r->options.lanes; i++)
        clock_set_in(r->clock, &r->lanes[i].rest, 1000 * (i + 1));
}

void relay_hint(struct relay *r)
{
    for (size_t i = 0; i < r->options.lanes && r->running && !r->draining; i++)
        if (r->lanes[i].rest.place != 0) {
            r->lanes[i].sleep_ms = r->options.idle_first_ms;
            clock_set_in(r->clock, &r->lanes[i].rest, 0);
            return;
        }
}

void relay_drain(struct relay *r)
{
    r->draining = true;
    for (size_t i = 0; i < r->options.lanes; i++)
        clock_unset(r->clock, &r->lanes[i].rest);
}

bool relay_idle(const struct relay *r)
{
    for (size_t i = 0; i < r->options.lanes; i++) {
        const struct lane *l = &r->lanes[i];
        if (l->under_way > 0 || waiter_busy(&l->claimer) || waiter_busy(&l->deferrer) || waiter_busy(&l->finisher))
            return false;
    }
    return r->draining;
}

void relay_free(struct relay *r)
{
    if (!r)
        return;
    for (size_t i = 0; r->lanes && i < r->options.lanes; i++) {
        struct lane *l = &r->lanes[i];
        clock_unset(r->clock, &l->rest);
        waiter_drop(&l->claimer), waiter_drop(&l->settler), waiter_drop(&l->restocker), waiter_drop(&l->bus), waiter_drop(&l->deferrer), waiter_drop(&l->finisher);
        waiter_drop(&l->hinter);
        for (size_t k = 0; k < REFUNDS; k++)
            waiter_drop(&l->asks[k].waiter);
        arena_free(&l->texts);
    }
    free(r->lanes);
    free(r);
}

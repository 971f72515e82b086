/* SPDX-License-Identifier: Apache-2.0
 * order_queue.c: which queues there are, which are ours, whether they are still the ones we knew, and what stands in them.
 *
 * Identity: the UNIQ_KEY of the message before the first undecided one is kept with the offset in the ledger. It is compared whenever a
 * lease is taken, or may have run out unnoticed (we were stopped), whenever the connection to the broker is a new one, and after a pull that failed
 * (the topic may have been gone). Where it differs, or is not known, or the broker ends before us, the offset goes back to the broker's
 * minimum, through the ledger's own CAS: rereading is harmless, skipping is not. */
#include "check.h"
#include "killpoint.h"
#include "metric.h"
#include "order_parts.h"

#define LOOK_MESSAGES 32            /* of a queue that is about to be read again: whose are they? */
#define FOREIGN_REST_US 2000000ULL  /* between two looks at a broker of another deployment */
#define HELD_MS 3000    /* a broker ends an empty pull up to 5 s after the time it was asked for; call_ms is that, and this is for the way */

static void lease(struct order_desk *);

uint64_t order_back_off(struct order_desk *d, uint32_t faults)
{
    uint64_t us = (uint64_t)d->options.back_off_ms * 1000 << (faults < 7 ? faults : 7);
    us = us < 2000000 ? us : 2000000;
    return us / 2 + random_below(d->random, us);
}

static void log_queue(enum severity level, const char *event, const struct order_queue *q, enum reason reason)
{
    struct log_line l = log_event(level, event);
    log_str(&l, "consumer_group", q->desk->options.group);
    log_str(&l, "broker", q->name.broker);
    log_str(&l, "topic", q->name.topic);
    log_i64(&l, "broker_queue", q->name.number);
    log_i64(&l, "offset", q->next);
    log_text(&l, "error_class", reason_word(reason));
    log_end(&l);
}

static void rest(struct order_queue *q, uint64_t us) { clock_set_in(q->desk->clock, &q->rest, us); }

static void rested(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    order_queue_go_on(container_of(container_of(w, struct alarm, waiter), struct order_queue, rest));
}

/* ---- pages ------------------------------------------------------------------------------------------------------------- */

static void page_clear(struct pulled_page *p)
{
    arena_reset(&p->memory);
    p->count = p->taken = 0;
}

struct pulled_page *order_queue_page(struct order_queue *q)
{
    struct pulled_page *front = &q->pages[q->front], *back = &q->pages[!q->front];
    if (front->taken == front->count && back->count > 0) {
        page_clear(front);
        q->front = !q->front;
        front = back;
    }
    return front->taken < front->count ? front : NULL;
}

/* What names a message in the ledger is text there: anything else is cut, or left out where it is not plain. */
static struct str plain(struct str s, size_t most)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < 0x20 || s.ptr[i] > 0x7e)
            return (struct str){0};
    return (struct str){s.ptr, s.len < most ? s.len : most};
}

/* Whose message it is. One that names nobody was made by no program of ours. */
static bool foreign(const struct order_desk *d, const struct pulled *m)
{
    return d->bus->deployment && !str_eq(m->deployment, str_of(d->bus->deployment));
}

/* OK: a message that the access or janitor role of this deployment has made. Whatever else stands in the topic is never placed. */
static enum reason judge(const struct order_desk *d, const struct pulled *m, struct arena *text, struct create_order *what)
{
    enum reason read = message_read(m->body, text, what);
    if (foreign(d, m))
        return REASON_MESSAGE_FOREIGN;
    return read == REASON_OK && !message_genuine(d->options.keys, what) ? REASON_MESSAGE_FORGED : read;
}

/* False: no room for this one now. What can never be read is kept cut, to be shown to a person. */
static bool page_keep(struct order_desk *d, struct pulled_page *p, const struct pulled *m)
{
    if (p->count == d->options.per_queue)
        return false;
    struct arena before = p->memory;
    struct pulled_item *i = &p->items[p->count];
    struct str body = m->body.len <= ORDER_BODY_KEPT ? m->body : (struct str){m->body.ptr, ORDER_BODY_KEPT};
    struct str unique = plain(m->unique, ORDER_IDENTITY), key = plain(m->key, 256);
    *i = (struct pulled_item){.offset = m->offset, .stored_ms = m->stored_ms, .unique = arena_str(&p->memory, unique),
                              .key = arena_str(&p->memory, key), .body = arena_str(&p->memory, body)};
    if (i->unique.len != unique.len || i->key.len != key.len || i->body.len != body.len || p->memory.cap - p->memory.used < 2048) {
        p->memory = before;
        return false;
    }
    i->read = judge(d, m, &p->memory, &i->what);
    p->count++;
    return true;
}

/* ---- are we sure of it? -------------------------------------------------------------------------------------------------- */

void order_queue_sure(struct order_queue *q, uint64_t asked_us)
{
    if (asked_us > q->sure_us && asked_us - q->sure_us <= ORDER_LEASE_US)
        q->sure_us = asked_us;
}

/* So long unseen that the lease may have been another's meanwhile, and the queue another one. */
static bool lapsed(const struct order_queue *q) { return clock_mono_us(q->desk->clock) - q->sure_us > ORDER_LEASE_US; }

/* How long the broker had them. Its clock may be ahead of ours: that is no time at all. */
static void note_waits(struct order_desk *d, struct pulled_page *p, const struct pulled *messages, size_t count)
{
    int64_t now = clock_now_ms(d->clock);
    p->pulled_us = clock_mono_us(d->clock);
    for (size_t i = 0; i < count; i++)
        metric_observe(METRIC_QUEUE_WAIT_SECONDS, now > messages[i].stored_ms ? (uint64_t)(now - messages[i].stored_ms) * 1000 : 0);
}

/* ---- how far it is read ------------------------------------------------------------------------------------------------------ */

/* The broker's end is what must be decided, as of the moment at which the pull was asked for. */
static void note_goal(struct order_queue *q, int64_t max)
{
    if (q->goal_ms != 0 || q->pulled_ms == 0)
        return;
    q->goal = max;
    q->goal_ms = q->pulled_ms;
}

/* Whether all before the goal is decided: the offset has passed it, or only holes are left before it. */
static void note_caught_up(struct order_queue *q)
{
    bool holes = q->state == QUEUE_READY && q->at >= q->goal && !q->in_batch && !order_queue_page(q);
    if (q->goal_ms == 0 || (q->next < q->goal && !holes))
        return;
    q->caught_up_ms = q->goal_ms;
    q->goal_ms = 0;
}

/* ---- another deployment's broker ------------------------------------------------------------------------------------------ */

static void set_foreign(struct order_queue *q, bool foreign)
{
    size_t count = 0;
    q->foreign = foreign;
    for (size_t i = 0; i < q->desk->queue_count; i++)
        count += q->desk->queues[i].foreign;
    metric_set(METRIC_FOREIGN_QUEUES, 0, (int64_t)count);
}

/* Messages, and every one of them names another deployment: nothing here was ever ours. */
static bool only_foreign(const struct order_desk *d, const struct pulled_answer *a)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->messages[i].deployment.len == 0 || !foreign(d, &a->messages[i]))
            return false;
    return a->count > 0;
}

/* Its broker is another deployment's. Our offset stays where it is, for the day on which ours comes back; until then we look now and then. */
static void leave_foreign(struct order_queue *q, const struct pulled *m)
{
    struct log_line l = log_event(LEVEL_ERROR, "queue_of_another_deployment");
    log_str(&l, "broker", q->name.broker);
    log_str(&l, "topic", q->name.topic);
    log_i64(&l, "broker_queue", q->name.number);
    log_str(&l, "deployment", plain(m->deployment, 64));
    log_end(&l);
    set_foreign(q, true);
    q->state = QUEUE_DOUBT;
    rest(q, FOREIGN_REST_US);
}

/* ---- pulling ------------------------------------------------------------------------------------------------------------ */

static void pulled(struct waiter *w, enum reason reason, const void *result)
{
    struct order_queue *q = container_of(w, struct order_queue, puller);
    struct order_desk *d = q->desk;
    const struct pulled_answer *a = result;
    if (q->state != QUEUE_READY)
        return order_queue_go_on(q);
    if (reason == REASON_OFFSET_MOVED || (reason == REASON_OK && (a->link != q->link || q->unsure || lapsed(q)))) {
        q->state = QUEUE_DOUBT;
        return order_queue_go_on(q);
    }
    if (reason != REASON_OK) {
        q->unsure = true;
        rest(q, order_back_off(d, q->faults++));
        return;
    }
    if (q->identity_len == 0 && only_foreign(d, a))    /* nothing of this queue was ever ours */
        return leave_foreign(q, &a->messages[0]);
    if (a->count > 0)
        KILLPOINT(PULL_ANSWERED);
    order_queue_sure(q, q->pulled_us);
    q->faults = 0;
    q->max = a->max;
    note_goal(q, a->max);
    struct pulled_page *back = &q->pages[!q->front];
    size_t kept = 0;
    page_clear(back);
    for (; kept < a->count && a->messages[kept].offset >= q->at && page_keep(d, back, &a->messages[kept]); kept++)
        q->at = a->messages[kept].offset + 1;
    note_waits(d, back, a->messages, kept);
    if (kept == a->count && a->next > q->at)
        q->at = a->next;    /* holes at the end */
    if (kept > 0)
        order_pump(d);
    else if (a->count > 0 || clock_mono_us(d->clock) - q->pulled_us < 5000)
        return rest(q, 20000);    /* the broker did not hold the call */
    order_queue_go_on(q);
}

static void pull(struct order_queue *q)
{
    struct order_desk *d = q->desk;
    struct pull_ask ask = {.queue = q->name, .offset = q->at, .limit = d->options.per_queue, .wait_ms = d->options.pull_wait_ms};
    q->pulled_us = clock_mono_us(d->clock);
    q->pulled_ms = d->ledger_ms == 0 ? 0 : d->ledger_ms + (int64_t)((q->pulled_us - d->ledger_us) / 1000);
    q->puller = (struct waiter){.wake = pulled, .budget_ms = d->options.pull_wait_ms + d->options.call_ms + HELD_MS};
    bus_pull(d->bus, &ask, &q->puller);
}

/* ---- identity ----------------------------------------------------------------------------------------------------------- */

static void ready(struct order_queue *q, uint64_t link)
{
    q->link = link;
    q->at = q->next;
    q->faults = 0;
    q->unsure = false;
    q->goal_ms = q->caught_up_ms = 0;    /* what was known of another queue, or of another reading */
    q->sure_us = q->pulled_us;    /* when it was asked, not when we heard: we may have been stopped in between */
    q->state = QUEUE_READY;
    if (q->foreign)
        set_foreign(q, false);
    order_queue_go_on(q);
}

static void moved_back(struct waiter *w, enum reason reason, const void *result)
{
    (void)result;
    struct order_queue *q = container_of(w, struct order_queue, mover);
    if (reason == REASON_OK) {
        q->desk->facts.reread++;
        metric_one(METRIC_QUEUE_REREAD);
        order_queue_advance(q, q->start, (struct str){0});
        ready(q, q->link);
    } else if (reason_fate(reason) == FATE_RETRY && reason != REASON_QUEUE_LOST) {
        q->state = QUEUE_DOUBT;
        rest(q, order_back_off(q->desk, q->faults++));
    } else {
        order_queue_drop(q);
        order_lease_soon(q->desk);
    }
}

/* Another queue under the same name, or one that has lost its end: read what it holds from its beginning. Where that is where we stand, all is well. */
static void read_from_start(struct order_queue *q, int64_t min, uint64_t link)
{
    struct order_desk *d = q->desk;
    q->link = link;
    q->start = min;
    if (q->next == min)
        return ready(q, link);
    log_queue(LEVEL_ERROR, "queue_identity_changed", q, REASON_OFFSET_MOVED);
    struct queue_prefix prefix = {.queue = q->name, .from = q->next, .to = min};
    struct place_ask ask = {.group = d->options.group, .owner = d->options.owner, .prefixes = &prefix, .prefix_count = 1};
    q->state = QUEUE_REREADING;
    q->mover = (struct waiter){.wake = moved_back, .budget_ms = d->options.call_ms};
    ledger_place(d->ledger, &ask, &q->mover);
}

static void looked_at_start(struct waiter *w, enum reason reason, const void *result)
{
    struct order_queue *q = container_of(w, struct order_queue, puller);
    const struct pulled_answer *a = result;
    if (q->state != QUEUE_VERIFYING)
        return order_queue_go_on(q);
    if (reason != REASON_OK) {
        q->state = QUEUE_DOUBT;
        return rest(q, order_back_off(q->desk, q->faults++));
    }
    if (only_foreign(q->desk, a))
        return leave_foreign(q, &a->messages[0]);
    read_from_start(q, a->min > q->min ? a->min : q->min, a->link);
}

/* Before the offset moves, the first messages say whose queue it is. */
static void read_again(struct order_queue *q, int64_t min)
{
    struct pull_ask ask = {.queue = q->name, .offset = min, .limit = LOOK_MESSAGES};
    q->min = min;
    q->pulled_us = clock_mono_us(q->desk->clock);
    q->puller = (struct waiter){.wake = looked_at_start, .budget_ms = q->desk->options.call_ms};
    bus_pull(q->desk->bus, &ask, &q->puller);
}

static void ranged_for_identity(struct waiter *w, enum reason reason, const void *result)
{
    struct order_queue *q = container_of(w, struct order_queue, puller);
    const struct range_answer *r = result;
    if (q->state != QUEUE_VERIFYING)
        return order_queue_go_on(q);
    if (reason != REASON_OK) {
        q->state = QUEUE_DOUBT;
        return rest(q, order_back_off(q->desk, q->faults++));
    }
    q->max = r->max;
    read_again(q, r->min);    /* without an identity only the beginning is known ground */
}

static void ask_range(struct order_queue *q)
{
    q->pulled_us = clock_mono_us(q->desk->clock);
    q->puller = (struct waiter){.wake = ranged_for_identity, .budget_ms = q->desk->options.call_ms};
    bus_range(q->desk->bus, &q->name, &q->puller);
}

static void identified(struct waiter *w, enum reason reason, const void *result)
{
    struct order_queue *q = container_of(w, struct order_queue, puller);
    const struct pulled_answer *a = result;
    if (q->state != QUEUE_VERIFYING)
        return order_queue_go_on(q);
    if (reason == REASON_OFFSET_MOVED)
        return ask_range(q);
    if (reason != REASON_OK) {
        q->state = QUEUE_DOUBT;
        return rest(q, order_back_off(q->desk, q->faults++));
    }
    q->max = a->max;
    bool there = a->count > 0 && a->messages[0].offset == q->next - 1;
    struct str unique = there ? plain(a->messages[0].unique, ORDER_IDENTITY) : (struct str){0};
    if (a->max >= q->next && str_eq(unique, (struct str){q->identity, q->identity_len}))
        ready(q, a->link);
    else
        read_again(q, a->min);
}

static void verify(struct order_queue *q)
{
    page_clear(&q->pages[0]);
    page_clear(&q->pages[1]);
    q->state = QUEUE_VERIFYING;
    if (q->identity_len == 0)
        return ask_range(q);
    struct pull_ask ask = {.queue = q->name, .offset = q->next - 1, .limit = 1};
    q->pulled_us = clock_mono_us(q->desk->clock);
    q->puller = (struct waiter){.wake = identified, .budget_ms = q->desk->options.call_ms};
    bus_pull(q->desk->bus, &ask, &q->puller);
}

void order_queue_go_on(struct order_queue *q)
{
    struct order_desk *d = q->desk;
    if (q->state == QUEUE_OUT || !d->running || waiter_busy(&q->puller) || waiter_busy(&q->mover) || q->rest.place != 0)
        return;
    if (q->state == QUEUE_DOUBT && !q->in_batch && !d->draining)
        verify(q);
    else if (q->state == QUEUE_READY && q->pages[!q->front].count == 0 && !d->draining)
        pull(q);
}

void order_queue_advance(struct order_queue *q, int64_t next, struct str identity)
{
    q->next = next;
    q->moves++;
    q->committed = next;
    q->identity_len = identity.len <= ORDER_IDENTITY ? identity.len : ORDER_IDENTITY;
    if (q->identity_len > 0)
        memcpy(q->identity, identity.ptr, q->identity_len);
}

void order_queue_drop(struct order_queue *q)
{
    check(!q->in_batch);
    clock_unset(q->desk->clock, &q->rest);
    page_clear(&q->pages[0]);
    page_clear(&q->pages[1]);
    q->state = QUEUE_OUT;
    q->goal_ms = q->caught_up_ms = 0;
    q->gone = false;
    if (q->foreign)
        set_foreign(q, false);
    q->committed = -1;    /* whoever has it now mirrors it */
}

/* ---- leases -------------------------------------------------------------------------------------------------------------- */

static void mirrored(struct waiter *w, enum reason reason, const void *result)
{
    (void)result;
    struct order_queue *q = container_of(w, struct order_queue, mirror);
    if (reason == REASON_OK)
        KILLPOINT(MIRROR_ANSWERED);
    else
        q->mirrored = -1;    /* for the broker's own tools only: at the next renewal again */
}

/* The lease call was a writing commit that left after these offsets were committed: now they may be seen outside (protocol §3). */
static void mirror(struct order_desk *d)
{
    for (size_t i = 0; i < d->queue_count; i++) {
        struct order_queue *q = &d->queues[i];
        if (q->state == QUEUE_OUT || q->sent_next < 0 || q->sent_next == q->mirrored || waiter_busy(&q->mirror))
            continue;
        q->mirrored = q->sent_next;
        q->mirror = (struct waiter){.wake = mirrored, .budget_ms = d->options.call_ms};
        KILLPOINT(MIRROR_BEFORE);
        bus_mirror(d->bus, &q->name, q->sent_next, &q->mirror);
    }
}

static void take_lease(struct order_queue *q, const struct leased *l)
{
    struct order_desk *d = q->desk;
    bool still = q->moves == q->asked_moves && !q->asked_in_batch && !q->in_batch && q->state != QUEUE_REREADING;
    order_queue_sure(q, d->asked_us);
    if (q->state == QUEUE_READY && lapsed(q))
        q->state = QUEUE_DOUBT;    /* a pull under way comes back to it */
    if (q->state != QUEUE_OUT && (!still || q->next == l->next))
        return order_queue_go_on(q);
    if (q->state != QUEUE_OUT)
        log_queue(LEVEL_WARN, "queue_moved_by_another", q, REASON_QUEUE_LOST);
    order_queue_advance(q, l->next, l->identity);
    q->committed = -1;
    if (!waiter_busy(&q->puller))
        clock_unset(d->clock, &q->rest);
    q->state = QUEUE_DOUBT;
    order_queue_go_on(q);
}

/* We were stopped, or the ledger could not be asked: others may have read our queues meanwhile. */
static void note_lapse(struct order_desk *d)
{
    uint64_t away_us = clock_mono_us(d->clock) - d->leased_us;
    if (d->leased_us != 0 && away_us > ORDER_LEASE_US) {
        struct log_line l = log_event(LEVEL_WARN, "leases_lapsed");
        log_str(&l, "consumer_group", d->options.group);
        log_i64(&l, "away_ms", (int64_t)(away_us / 1000));
        log_end(&l);
    }
    d->leased_us = d->asked_us;
}

static void leased(struct waiter *w, enum reason reason, const void *result)
{
    struct order_desk *d = container_of(w, struct order_desk, leaser);
    const struct lease_answer *a = result;
    bool held[ORDER_QUEUES_MAX] = {0};
    if (reason == REASON_OK) {
        KILLPOINT(LEASE_ANSWERED);
        if (a->now_ms > 0) {
            d->ledger_ms = a->now_ms;
            d->ledger_us = clock_mono_us(d->clock);
        }
        note_lapse(d);
        for (size_t i = 0; i < a->count; i++) {
            check(a->leased[i].queue < d->asked_count);
            held[d->asked[a->leased[i].queue]] = true;
            take_lease(&d->queues[d->asked[a->leased[i].queue]], &a->leased[i]);
        }
        for (size_t i = 0; i < d->asked_count; i++) {
            struct order_queue *q = &d->queues[d->asked[i]];
            if (held[d->asked[i]] || q->state == QUEUE_OUT)
                continue;
            if (q->in_batch)
                q->gone = true;
            else if (q->state != QUEUE_REREADING)
                order_queue_drop(q);
        }
        mirror(d);
    }
    uint64_t renew = (uint64_t)d->options.renew_ms * 1000;
    if (d->running)
        clock_set_in(d->clock, &d->renew, reason != REASON_OK ? order_back_off(d, 4) : d->lease_soon ? 1000 : renew);
    d->lease_soon = false;
}

static void lease(struct order_desk *d)
{
    struct queue queues[ORDER_QUEUES_MAX];
    int64_t starts[ORDER_QUEUES_MAX], caught_up_ms[ORDER_QUEUES_MAX];
    if (waiter_busy(&d->leaser))
        return;
    d->asked_count = 0;
    for (size_t i = 0; i < d->queue_count; i++) {
        struct order_queue *q = &d->queues[i];
        q->asked_moves = q->moves;
        q->asked_in_batch = q->in_batch;
        q->sent_next = q->state == QUEUE_OUT ? -1 : q->committed;
        if (!q->started || !q->seen)
            continue;
        queues[d->asked_count] = q->name;
        starts[d->asked_count] = q->start;
        if (q->state == QUEUE_READY)
            note_caught_up(q);
        caught_up_ms[d->asked_count] = q->caught_up_ms;
        d->asked[d->asked_count++] = i;
    }
    struct lease_ask ask = {.group = d->options.group, .owner = d->options.owner, .queues = queues, .starts = starts,
                            .caught_up_ms = caught_up_ms, .count = d->asked_count};
    d->leaser = (struct waiter){.wake = leased, .budget_ms = d->options.call_ms};
    d->asked_us = clock_mono_us(d->clock);
    if (d->asked_count == 0) {
        clock_set_in(d->clock, &d->renew, 200000);    /* no queue is known yet */
        return;
    }
    ledger_lease(d->ledger, &ask, &d->leaser);
    KILLPOINT(LEASE_ASKED);
}

/* ---- which queues there are ---------------------------------------------------------------------------------------------- */

static void ranged(struct waiter *w, enum reason reason, const void *result)
{
    struct order_queue *q = container_of(w, struct order_queue, ranger);
    if (reason == REASON_OK) {
        q->start = ((const struct range_answer *)result)->min;
        q->started = true;
    }
    if (--q->desk->ranging == 0)
        lease(q->desk);
}

/* A queue never seen before needs the broker's minimum before it can be leased. */
static void range_new(struct order_desk *d)
{
    check(d->ranging == 0);
    for (size_t i = 0; i < d->queue_count; i++) {
        struct order_queue *q = &d->queues[i];
        if (q->started || !q->seen)
            continue;
        d->ranging++;
        q->ranger = (struct waiter){.wake = ranged, .budget_ms = d->options.call_ms};
        bus_range(d->bus, &q->name, &q->ranger);
    }
    if (d->ranging == 0)
        lease(d);
}

static void meet(struct order_desk *d, const struct queue *name)
{
    for (size_t i = 0; i < d->queue_count; i++)
        if (d->queues[i].name.number == name->number && str_eq(d->queues[i].name.broker, name->broker)) {
            d->queues[i].seen = true;
            return;
        }
    if (d->queue_count == d->options.queues || name->broker.len > ORDER_TEXT || name->topic.len > ORDER_TEXT) {
        struct log_line l = log_event(LEVEL_ERROR, "queue_not_taken");
        log_str(&l, "broker", name->broker);
        log_i64(&l, "broker_queue", name->number);
        log_end(&l);
        return;
    }
    struct order_queue *q = &d->queues[d->queue_count++];
    memcpy(q->broker, name->broker.ptr, name->broker.len);
    memcpy(q->topic, name->topic.ptr, name->topic.len);
    q->name = (struct queue){{q->broker, name->broker.len}, {q->topic, name->topic.len}, name->number};
    q->seen = true;
}

static void looked(struct waiter *w, enum reason reason, const void *result)
{
    struct order_desk *d = container_of(w, struct order_desk, looker);
    const struct queues_answer *a = result;
    if (reason == REASON_OK) {
        for (size_t i = 0; i < d->queue_count; i++)
            d->queues[i].seen = false;
        for (size_t i = 0; i < a->count; i++)
            meet(d, &a->queues[i]);
        d->facts.queues = a->count;
        d->looked = true;
        d->looked_us = clock_mono_us(d->clock);
    }
    range_new(d);
}

static void renewal(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct order_desk *d = container_of(container_of(w, struct alarm, waiter), struct order_desk, renew);
    if (waiter_busy(&d->looker) || waiter_busy(&d->leaser) || d->ranging > 0)
        return;
    bool stale = !d->looked || clock_mono_us(d->clock) - d->looked_us >= (uint64_t)d->options.look_ms * 1000;
    if (!stale)
        return range_new(d);
    d->looker = (struct waiter){.wake = looked, .budget_ms = d->options.call_ms};
    bus_queues(d->bus, d->options.topic, &d->looker);
}

void order_lease_soon(struct order_desk *d)
{
    d->lease_soon = true;
    if (!waiter_busy(&d->leaser) && !waiter_busy(&d->looker) && d->ranging == 0 && d->running)
        clock_set_in(d->clock, &d->renew, 1000);
}

void order_queues_init(struct order_desk *d)
{
    d->renew.waiter.wake = renewal;
    for (size_t i = 0; i < d->options.queues; i++) {
        struct order_queue *q = &d->queues[i];
        q->desk = d;
        q->rest.waiter.wake = rested;
        q->committed = q->sent_next = q->mirrored = -1;
    }
}

void order_queues_stop(struct order_desk *d)
{
    clock_unset(d->clock, &d->renew);
    waiter_drop(&d->looker);
    waiter_drop(&d->leaser);
    for (size_t i = 0; i < d->options.queues; i++) {
        struct order_queue *q = &d->queues[i];
        clock_unset(d->clock, &q->rest);
        waiter_drop(&q->puller);
        waiter_drop(&q->mover);
        waiter_drop(&q->ranger);
        waiter_drop(&q->mirror);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * janitor.c: a round walks over every bucket of every activity, one call at a time: what stock and version → (push the state) → what is due
 * → a job for each due reservation, as long as there are jobs. A job asks the ledger, and where that has no verdict, announces again. */
#include "janitor.h"

#include <stdlib.h>

#include "check.h"
#include "killpoint.h"
#include "metric.h"

#define DUE_MAX 32    /* users of one call */
#define NUMBERS_LOW 256      /* activities that can still be created: below that an alarm */
#define NUMBERS_ROUNDS 64    /* how often they are counted, in rounds */
#define MISSING_SAID_US 60000000ull
#define TURN_MS 20000    /* between two turns of an old reservation, at most */
#define STEP_MOST_MS 120000    /* between two announcements of one whose message may still be unread, at most */
#define DRIFT_US 1000000    /* between the clocks of the store and of this process, within the age of a reservation */

struct job {
    struct link link;
    struct janitor *janitor;
    struct bucket bucket;
    struct str user;
    struct entry entry;
    int64_t age_ms;
    bool read;                          /* whatever the broker had of it was read before the ledger was asked about it */
    struct verdict_ask verdict;
    char memory[320];
};
struct missing_bucket {
    char activity[64];
    size_t activity_len;
    uint8_t number;
};
struct janitor {
    struct store *store;
    struct clock *clock;
    struct random *random;
    const struct ident_keys *keys;
    struct janitor_options options;
    struct catalog catalog;
    struct settler settler;
    struct publisher publisher;
    struct sweep sweep;
    struct auditor auditor;
    struct hint hint;
    struct verdict_office office;
    struct job *jobs;
    struct link idle;
    size_t busy;
    bool running, draining, walking;
    bool unsettled;                     /* in this round something did not answer: the next one comes soon */
    uint64_t round, began_us;
    size_t activity;                    /* the walk: index in the catalog, and bucket */
    struct bucket bucket;
    uint8_t buckets;
    char name[64];
    uint64_t pending, closed;
    size_t missing;                     /* buckets of this round that are not there … */
    struct missing_bucket first_missing;    /* … the first of them … */
    uint64_t missing_said_us;           /* … and when an alarm last said so; 0: none are missing */
    struct incarnation_guard guard;
    struct incarnation_asked seen;      /* of the bucket that is visited */
    struct healer healer;
    struct reindexer reindexer;
    struct warming warming;
    struct catalog_wait refresh;
    bool refreshed;                     /* the ledger was asked again, for this bucket's server is a stranger */
    bool visited_again;                 /* it was found to have lost a key */
    struct waiter caller, reader;
    uint64_t reader_us, read_before_us; /* when the ledger was last asked how far the queues are read; what the broker had stored before that moment (monotonic) is decided; 0: not known */
    bool numbers_low;                   /* fewer activities can be created than NUMBERS_LOW */
    struct alarm tick;
    uint64_t tokens_used, burst_us, consumed_before;    /* the budget of repeats */
    struct janitor_facts facts;
};

struct janitor_options janitor_options_default(void)
{
    return (struct janitor_options){
        .catalog = catalog_options_default(), .settler = settler_options_default(), .publisher = publisher_options_default(),
        .incarnation = incarnation_options_default(), .warming = warming_options_default(), .healer = healer_options_default(), .sweep = sweep_options_default(), .auditor = auditor_options_default(), .hint = hint_options_default(), .tick_ms = 500,
        .ask_ms = 2000, .overdue_ms = 45000, .call_ms = 1000, .jobs = 256, .again_permille = 50, .again_burst = 5000, .again_burst_ms = 15000};
}

/* ---- a job ------------------------------------------------------------------------------------------------------------------- */

static void job_end(struct job *job)
{
    job->janitor->busy--;
    list_append(&job->janitor->idle, &job->link);
}

/* Whether one more repeat is within what the broker is to carry (mission §12.8). */
static bool budget(struct janitor *j)
{
    uint64_t now = clock_mono_us(j->clock), consumed = metric_read(METRIC_CONSUMED, 0);
    if (j->burst_us == 0 || now - j->burst_us >= (uint64_t)j->options.again_burst_ms * 1000) {
        j->burst_us = now;
        j->tokens_used = 0;
        j->consumed_before = consumed;
    }
    uint64_t most = j->options.again_burst + (consumed - j->consumed_before) * j->options.again_permille / 1000;
    if (j->tokens_used >= most) {
        j->facts.held_back++;
        return false;
    }
    j->tokens_used++;
    return true;
}

static void settle(struct job *job, enum reservation_state to)
{
    struct settle_ask ask = {.bucket = job->bucket, .user = job->user, .ident = job->entry.ident, .to = to, .why = REASON_OK, .token = job->entry.token,
                             .user_hash = user_hash(job->janitor->keys, job->user)};
    if (settler_ask(&job->janitor->settler, &ask))
        job->janitor->facts.settled++;
}

/* What the broker has confirmed and nobody is known to have read is announced again at 45, 90, 180 s, then every 120 s: where nobody consumes it stands there all
 * the while, and repeats would stand before what is new. A turn comes every 15 s, with jitter. */
static bool overdue_again(const struct janitor *j, int64_t age_ms)
{
    int64_t at = j->options.overdue_ms, step = at;
    while (age_ms >= at + step) {
        at += step;
        step = 2 * step < STEP_MOST_MS ? 2 * step : STEP_MOST_MS;
    }
    return age_ms >= at && age_ms < at + TURN_MS;
}

/* The queues have been read beyond the moment at which the broker had the message: without a verdict now, the message is gone. */
static bool was_read(const struct janitor *j, const struct due_entry *due, int64_t now_ms)
{
    int64_t ago_us = (now_ms - due->entry.updated_ms) * 1000 - DRIFT_US;
    return j->read_before_us != 0 && ago_us > 0 && clock_mono_us(j->clock) - j->read_before_us < (uint64_t)ago_us;
}

/* Nobody has a verdict. What nobody confirmed is announced; what the broker has confirmed is left alone until it is long overdue. */
static void announce(struct job *job)
{
    struct janitor *j = job->janitor;
    struct publish_ask ask = {.bucket = job->bucket, .user = job->user, .entry = &job->entry, .again = true};
    switch (job->entry.state) {
    case RESERVATION_RESERVED:
        break;
    case RESERVATION_RECONCILING:
        if (!budget(j))
            return;
        break;
    case RESERVATION_PUBLISHED:
    case RESERVATION_PROCESSING:
        if ((!job->read && !overdue_again(j, job->age_ms)) || !budget(j))
            return;
        settle(job, RESERVATION_RECONCILING);
        break;
    default:    /* MANUAL_REVIEW is a person's; RELEASE_PENDING waits for the ledger's word; the rest is decided */
        return;
    }
    KILLPOINT(REPUBLISH_BEFORE);
    if (job->entry.token.unit > 0 && publish_start(&j->publisher, &ask, NULL))
        j->facts.republished++;
}

static void asked(struct verdict_ask *v, enum reason reason)
{
    struct job *job = container_of(v, struct job, verdict);
    if (reason == REASON_OK && v->decided) {
        KILLPOINT(VERDICT_ANSWERED);
        job->janitor->facts.settled++;
    } else if (reason == REASON_OK ? !v->parked : reason == REASON_NOT_FOUND || job->entry.state == RESERVATION_RESERVED) {
        announce(job);    /* with the ledger away nobody can consume: only what was perhaps never sent is sent */
    }
    job_end(job);
}

static void job_begin(struct janitor *j, const struct due_entry *due, int64_t now_ms)
{
    struct job *job = list_entry(list_take(&j->idle), struct job, link);
    struct arena a = {.start = job->memory, .cap = sizeof job->memory};
    j->busy++;
    job->bucket = j->bucket;
    job->bucket.activity = arena_str(&a, j->bucket.activity);
    job->user = arena_str(&a, due->user);
    job->entry = due->entry;
    job->entry.request = arena_str(&a, due->entry.request);
    job->entry.sku = arena_str(&a, due->entry.sku);
    job->entry.superseded_by = arena_str(&a, due->entry.superseded_by);
    job->age_ms = now_ms - due->entry.created_ms;
    job->read = job->age_ms >= (int64_t)j->options.ask_ms && was_read(j, due, now_ms);
    j->facts.looked++;
    if (job->age_ms < (int64_t)j->options.ask_ms) {
        announce(job);
        job_end(job);
        return;
    }
    char text[IDENT_ID_TEXT];
    ident_write(job->entry.ident, IDENT_RESERVATION, text);
    j->facts.asked++;
    job->verdict.by = LOOK_RESERVATION;
    job->verdict.id = (struct str){text, sizeof text};
    job->verdict.activity = job->verdict.user = (struct str){0};
    job->verdict.budget_ms = j->options.call_ms;
    job->verdict.done = asked;
    verdict_start(&j->office, &job->verdict);
}

/* ---- the walk ---------------------------------------------------------------------------------------------------------------- */

static void visit(struct janitor *);

static size_t free_jobs(const struct janitor *j) { return j->options.jobs - j->busy; }

/* An alarm when buckets are found missing, and once a minute as long as they are. */
static void report_missing(struct janitor *j)
{
    uint64_t now = clock_mono_us(j->clock);
    if (j->missing == 0)
        j->missing_said_us = 0;
    if (j->missing == 0 || (j->missing_said_us != 0 && now - j->missing_said_us < MISSING_SAID_US))
        return;
    j->missing_said_us = now;
    struct log_line l = log_event(LEVEL_ERROR, "buckets_missing");
    log_i64(&l, "buckets", (int64_t)j->missing);
    log_str(&l, "activity_id", (struct str){j->first_missing.activity, j->first_missing.activity_len});
    log_i64(&l, "bucket", j->first_missing.number);
    log_end(&l);
}

/* A bucket of a sale that has been open holds its winners: where it is not there, Redis has lost it. It is not made anew, for an empty one would know nobody. */
static void count_missing(struct janitor *j, const struct activity *a)
{
    if (a->state != ACTIVITY_OPEN && a->state != ACTIVITY_PAUSED)
        return;
    if (j->missing++ == 0) {
        memcpy(j->first_missing.activity, a->activity.ptr, a->activity.len);
        j->first_missing.activity_len = a->activity.len;
        j->first_missing.number = j->bucket.number;
    }
}

static void round_end(struct janitor *j)
{
    j->walking = false;
    report_missing(j);
    j->facts.missing = j->missing;
    metric_set(METRIC_MISSING_BUCKETS, 0, (int64_t)j->missing);
    j->facts.pending = j->pending;
    metric_set(METRIC_PENDING, 0, (int64_t)j->pending);
    j->facts.closed = j->closed;
    metric_set(METRIC_CLOSED_BUCKETS, 0, (int64_t)j->closed);
    metric_set(METRIC_JANITOR_ROUND, 0, clock_now_ms(j->clock) / 1000);
    if (!j->running || j->draining)
        return;
    uint64_t spent = clock_mono_us(j->clock) - j->began_us, tick = (uint64_t)j->options.tick_ms * (j->unsettled ? 200 : 1000);
    tick = tick * 3 / 4 + random_below(j->random, tick / 2 + 1);
    clock_set_in(j->clock, &j->tick, spent < tick ? tick - spent : 1000);
}

static void next_bucket(struct janitor *j)
{
    j->refreshed = j->visited_again = false;
    if (++j->bucket.number < j->buckets) {
        visit(j);
        return;
    }
    for (j->activity++; j->activity < catalog_count(&j->catalog); j->activity++) {
        const struct activity *a = catalog_at(&j->catalog, j->activity);
        /* One that is over is visited now and then: reservations may still be open. */
        if (a->state == ACTIVITY_DRAFT || a->rebuilding || (a->state == ACTIVITY_CLOSED && j->round % 16 != a->number % 16) || a->activity.len > sizeof j->name)
            continue;
        memcpy(j->name, a->activity.ptr, a->activity.len);
        j->bucket = (struct bucket){{j->name, a->activity.len}, a->epoch, 0};
        j->buckets = a->buckets;
        visit(j);
        return;
    }
    round_end(j);
}

static void due_came(struct waiter *w, enum reason reason, const void *result);

static void take_due(struct janitor *j)
{
    struct due_ask ask = {.bucket = j->bucket, .limit = DUE_MAX};
    j->caller = (struct waiter){.wake = due_came, .budget_ms = j->options.call_ms};
    store_due(j->store, &ask, &j->caller);
    KILLPOINT(DUE_ASKED);
}

static void due_came(struct waiter *w, enum reason reason, const void *result)
{
    struct janitor *j = container_of(w, struct janitor, caller);
    const struct due_answer *a = result;
    bool more = false;
    if (reason == REASON_OK) {
        if (a->count > 0)
            KILLPOINT(DUE_ANSWERED);
        size_t taken = 0;
        for (; taken < a->count && !list_empty(&j->idle); taken++)
            job_begin(j, &a->entries[taken], a->now_ms);
        more = a->count >= DUE_MAX && free_jobs(j) >= 2 * DUE_MAX && j->running && !j->draining;
        if (!more)
            j->pending += a->waiting;
    }
    if (more)
        take_due(j);
    else
        next_bucket(j);
}

static void ask_due(struct janitor *j)
{
    if (j->draining || free_jobs(j) < 2 * DUE_MAX)
        next_bucket(j);
    else
        take_due(j);
}

static void pushed(struct waiter *w, enum reason reason, const void *result)
{
    (void)result;
    struct janitor *j = container_of(w, struct janitor, caller);
    struct log_line l = log_event(reason == REASON_OK ? LEVEL_INFO : LEVEL_WARN, "activity_state_pushed");
    log_str(&l, "activity_id", j->bucket.activity);
    log_i64(&l, "bucket", j->bucket.number);
    log_text(&l, "error_class", reason_word(reason));
    log_end(&l);
    ask_due(j);
}

/* Who does not hear the ledger closes nothing: it may know that server meanwhile. */
static void read_again(struct catalog_wait *w, enum reason reason)
{
    struct janitor *j = container_of(w, struct janitor, refresh);
    if (reason == REASON_OK)
        visit(j);
    else
        next_bucket(j);
}

static void want_recovery(struct janitor *j, const struct bucket *bucket, struct str mark)
{
    const struct activity *a = catalog_find(&j->catalog, bucket->activity);
    if (a)
        healer_want(&j->healer, a, bucket, mark);
}

static void bucket_closed(struct incarnation_guard *guard, const struct bucket *bucket, struct str mark)
{
    want_recovery(container_of(guard, struct janitor, guard), bucket, mark);
}

static void bucket_indexed(struct reindexer *reindexer, const struct bucket *bucket, struct str mark)
{
    want_recovery(container_of(reindexer, struct janitor, reindexer), bucket, mark);
}

/* A closed bucket is healed; one that lost a key is indexed again before. One whose server the ledger does not know is closed; but it is the ledger as it is now that must not know him: true, and it
 * is being read again. Where no incarnation is recorded, warm has not counted the bucket yet, or it is older than such records. */
static bool tend(struct janitor *j, const struct activity *a, const struct stock_answer *s)
{
    uint8_t bucket = j->bucket.number;
    bool sane = incarnation_answered(&j->guard, a, bucket, j->seen, s->sequence, true);
    if (s->closed) {
        j->closed += a->state != ACTIVITY_CLOSED;    /* one that is over is looked at now and then only */
        if (s->mark.len > s->incarnation.len && memcmp(s->mark.ptr, s->incarnation.ptr, s->incarnation.len) == 0 && s->mark.ptr[s->incarnation.len] == '/' && s->lost.len > 0)
            reindexer_want(&j->reindexer, &j->bucket, s->mark, s->lost);
        else if (s->mark.len > s->incarnation.len && memcmp(s->mark.ptr, s->incarnation.ptr, s->incarnation.len) == 0 && s->mark.ptr[s->incarnation.len] == '/')
            healer_want(&j->healer, a, &j->bucket, s->mark);
        else
            incarnation_close(&j->guard, a, bucket);    /* in an earlier life of the server: for this one, anew */
        return false;
    }
    bool warming = a->state == ACTIVITY_WARM && (!a->incarnations || a->incarnations[bucket].len == 0);
    if (!sane || warming || j->draining || incarnation_recorded(a, bucket, s->incarnation))
        return false;
    if (j->refreshed) {
        incarnation_close(&j->guard, a, bucket);
        return false;
    }
    j->refreshed = true;
    j->refresh = (struct catalog_wait){.done = read_again};
    catalog_refresh(&j->catalog, &j->refresh);
    return true;
}

/* A bucket that lags behind the ledger's version is told. One that is not there at all is not made here, for a missing bucket is closed, never empty: unless
 * its sale has never been open (warming.h). */
static void stock_came(struct waiter *w, enum reason reason, const void *result)
{
    struct janitor *j = container_of(w, struct janitor, caller);
    const struct stock_answer *s = result;
    const struct activity *a = catalog_find(&j->catalog, j->bucket.activity);
    if (reason == REASON_OK && a && a->epoch == j->bucket.epoch && tend(j, a, s))
        return;
    if (a && a->state == ACTIVITY_WARM && (reason == REASON_STALE_EPOCH || (reason == REASON_OK && !s->seeded)))
        warming_seen(&j->warming, a);
    if (reason == REASON_STRUCTURE_LOST && !j->visited_again) {    /* closed by this very call: how, the next one says */
        j->visited_again = true;
        visit(j);
        return;
    }
    /* A store that was away may come back as another: until then the rounds are short, so that recovery begins as soon as it answers. */
    j->unsettled |= reason != REASON_OK && reason != REASON_STALE_EPOCH;
    if (reason == REASON_STALE_EPOCH && a && a->epoch == j->bucket.epoch)
        count_missing(j, a);
    if (reason != REASON_OK || !a || a->epoch != j->bucket.epoch || s->version >= a->version) {
        if (reason == REASON_OK)
            ask_due(j);
        else
            next_bucket(j);
        return;
    }
    struct install_ask ask = {.bucket = j->bucket, .activity = a};
    j->caller = (struct waiter){.wake = pushed, .budget_ms = j->options.call_ms};
    store_install(j->store, &ask, &j->caller);
}

/* Says once when it falls below the threshold. */
static void watch_numbers(struct janitor *j, uint32_t numbers_free)
{
    bool low = numbers_free < NUMBERS_LOW;
    metric_set(METRIC_ACTIVITY_NUMBERS_FREE, 0, numbers_free);
    if (low && !j->numbers_low) {
        struct log_line l = log_event(LEVEL_ERROR, "activity_numbers_low");
        log_i64(&l, "free", numbers_free);
        log_end(&l);
    }
    j->numbers_low = low;
}

static void backlog_came(struct waiter *w, enum reason reason, const void *result)
{
    struct janitor *j = container_of(w, struct janitor, reader);
    const struct backlog_answer *a = result;
    uint64_t read_us = reason == REASON_OK && a->read_ms >= 0 ? (uint64_t)a->read_ms * 1000 : UINT64_MAX;
    j->read_before_us = read_us < j->reader_us ? j->reader_us - read_us : 0;
    if (reason == REASON_OK)
        watch_numbers(j, a->numbers_free);
}

/* Where something waits for a verdict; and now and then, for the number of activities that can still be created. */
static void ask_backlog(struct janitor *j)
{
    if ((j->facts.pending == 0 && j->round % NUMBERS_ROUNDS != 1) || waiter_busy(&j->reader))
        return;
    j->reader_us = clock_mono_us(j->clock);
    j->reader = (struct waiter){.wake = backlog_came, .budget_ms = j->options.call_ms};
    ledger_backlog(j->office.ledger, &(struct backlog_ask){.group = str_lit(MESSAGE_GROUP)}, &j->reader);
}

static void visit(struct janitor *j)
{
    const struct activity *a = catalog_find(&j->catalog, j->bucket.activity);
    if (a && a->epoch == j->bucket.epoch)
        j->seen = incarnation_ask(&j->guard, a, j->bucket.number);
    struct stock_ask ask = {.bucket = j->bucket};
    j->caller = (struct waiter){.wake = stock_came, .budget_ms = j->options.call_ms};
    store_stock(j->store, &ask, &j->caller);
}

static void ticked(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct janitor *j = container_of(container_of(w, struct alarm, waiter), struct janitor, tick);
    j->walking = true;
    j->round++;
    j->began_us = clock_mono_us(j->clock);
    j->pending = j->closed = 0;
    j->unsettled = !catalog_learnt(&j->catalog);
    j->missing = 0;
    j->activity = SIZE_MAX;    /* so that the first step is to the first */
    ask_backlog(j);
    j->buckets = 0;
    next_bucket(j);
}

/* ---- for everybody ------------------------------------------------------------------------------------------------------------- */

static void heard(struct hint *h, size_t messages)
{
    (void)messages;
    sweep_hint(&container_of(h, struct janitor, hint)->sweep);
}

static bool parts_init(struct janitor *j, struct ledger *ledger, struct bus *bus)
{
    const struct janitor_options *o = &j->options;
    if (!incarnation_init(&j->guard, j->store, o->incarnation))
        return false;
    j->guard.closed = bucket_closed;
    if (!healer_init(&j->healer, j->store, ledger, j->clock, o->healer))
        return false;
    if (!warming_init(&j->warming, j->store, ledger, j->clock, o->warming))
        return false;
    reindexer_init(&j->reindexer, j->store, j->clock, reindexer_options_default(), bucket_indexed);
    hint_init(&j->hint, bus, j->clock, j->random, o->hint, heard);
    if (!sweep_init(&j->sweep, ledger, j->clock, j->random, o->sweep))
        return false;
    if (!auditor_init(&j->auditor, j->store, ledger, j->clock, j->random, &j->catalog, o->auditor))
        return false;
    if (!catalog_init(&j->catalog, ledger, j->clock, o->catalog))
        return false;
    if (!settler_init(&j->settler, j->store, j->clock, j->random, o->settler)) {
        catalog_free(&j->catalog);
        return false;
    }
    if (!publisher_init(&j->publisher, bus, j->clock, &j->settler, j->keys, o->publisher)) {
        settler_free(&j->settler);
        catalog_free(&j->catalog);
        return false;
    }
    return true;
}

struct janitor *janitor_new(struct store *store, struct bus *bus, struct ledger *ledger, struct clock *clock, struct random *random,
                            const struct ident_keys *keys, const struct janitor_options *options)
{
    check(options->jobs >= 2 * DUE_MAX);
    struct janitor *j = calloc(1, sizeof *j);
    struct job *jobs = calloc(options->jobs, sizeof *jobs);
    if (j)
        *j = (struct janitor){.store = store, .clock = clock, .random = random, .keys = keys, .options = *options, .jobs = jobs};
    if (!j || !jobs || !parts_init(j, ledger, bus)) {
        if (j) {
            incarnation_free(&j->guard);
            healer_free(&j->healer);
            reindexer_free(&j->reindexer);
            warming_free(&j->warming);
            sweep_free(&j->sweep);
            auditor_free(&j->auditor);
        }
        free(jobs);
        free(j);
        return NULL;
    }
    j->office = (struct verdict_office){.ledger = ledger, .settler = &j->settler, .catalog = &j->catalog, .keys = keys};
    j->tick.waiter.wake = ticked;
    list_init(&j->idle);
    for (size_t i = 0; i < options->jobs; i++) {
        jobs[i].janitor = j;
        list_append(&j->idle, &jobs[i].link);
    }
    return j;
}

void janitor_start(struct janitor *j)
{
    j->running = true;
    catalog_start(&j->catalog);
    sweep_start(&j->sweep);
    auditor_start(&j->auditor);
    if (j->options.sweep.every_ms > 0)
        hint_start(&j->hint);
    clock_set_in(j->clock, &j->tick, (uint64_t)j->options.tick_ms * 200);
}

void janitor_drain(struct janitor *j)
{
    j->draining = true;
    clock_unset(j->clock, &j->tick);
    catalog_stop(&j->catalog);
    sweep_drain(&j->sweep);
    healer_drain(&j->healer);
    reindexer_drain(&j->reindexer);
    warming_stop(&j->warming);
    auditor_drain(&j->auditor);
    hint_stop(&j->hint);
}

bool janitor_idle(const struct janitor *j)
{
    return j->draining && !j->walking && j->busy == 0 && sweep_idle(&j->sweep) && healer_idle(&j->healer) && reindexer_idle(&j->reindexer) && incarnation_idle(&j->guard) &&
           publisher_held(&j->publisher) == 0 && settler_held(&j->settler) == 0;
}

void janitor_free(struct janitor *j)
{
    if (!j)
        return;
    clock_unset(j->clock, &j->tick);
    waiter_drop(&j->caller);
    waiter_drop(&j->reader);
    catalog_let_go(&j->refresh);
    incarnation_free(&j->guard);
    healer_free(&j->healer);
    reindexer_free(&j->reindexer);
    warming_free(&j->warming);
    for (size_t i = 0; i < j->options.jobs; i++)
        verdict_let_go(&j->jobs[i].verdict);
    auditor_drain(&j->auditor);
    auditor_free(&j->auditor);
    sweep_free(&j->sweep);
    hint_stop(&j->hint);
    publisher_free(&j->publisher);
    settler_free(&j->settler);
    catalog_free(&j->catalog);
    free(j->jobs);
    free(j);
}

struct janitor_facts janitor_facts(const struct janitor *j) { return j->facts; }
struct auditor_facts janitor_audits(const struct janitor *j) { return j->auditor.facts; }

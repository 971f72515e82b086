/* SPDX-License-Identifier: Apache-2.0
 * load_people.c: a visit is one request under way, or a reservation that is followed from question to question. One timer of the kernel stands at
 * whatever is due first, an arrival or a visit, to the microsecond: the loop's own timers know milliseconds only, and what they are late would
 * be taken for the service's latency. */
#include "load_people.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "await.h"
#include "check.h"
#include "load_people_parts.h"

#define CHUNK 1024              /* visits that are made at a time */
#define RECENT 1000             /* of whom one asks again */
#define TURN_MAX 1024           /* arrivals of one turn of the loop, so that answers are read between them */
#define LOOK_US 50000           /* how often it is looked whether to stop */
#define ANSWER_MAX 4096
#define MONEY_AGAIN_US 500000   /* a callback or a cancel that was not answered well comes again so much later */

static uint64_t now_us(void) { return uv_hrtime() / 1000; }

static struct load_second *second_of(struct load_people *p, uint64_t us)
{
    uint64_t s = us > p->start_us ? (us - p->start_us) / 1000000 : 0;
    return &p->stats->seconds[s < LOAD_SECONDS_MAX ? s : LOAD_SECONDS_MAX - 1];
}

/* ---- visits ---------------------------------------------------------------------------------------------------------------------------- */

static void answered(struct http_call *call, enum http_outcome outcome, const struct http_reply *reply);

static bool more_visits(struct load_people *p)
{
    if (p->chunk_count == p->chunk_max)
        return false;
    struct visit *chunk = calloc(CHUNK, sizeof *chunk);
    if (!chunk)
        return false;
    p->chunks[p->chunk_count++] = chunk;
    for (size_t i = 0; i < CHUNK; i++) {
        chunk[i] = (struct visit){.people = p, .call = {.done = answered}};
        list_append(&p->free, &chunk[i].link);
    }
    return true;
}

static struct visit *visit_new(struct load_people *p, enum load_deed deed, uint64_t intended_us)
{
    if (list_empty(&p->free) && !more_visits(p)) {
        load_raise(&p->stats->unsent, 1);
        return NULL;
    }
    struct visit *v = list_entry(list_take(&p->free), struct visit, link);
    v->deed = deed;
    v->intended_us = intended_us;
    v->step = 0;
    v->rank = 0;
    v->knew = false;
    load_raise(&p->stats->pending, 1);
    return v;
}

static void visit_end(struct visit *v)
{
    load_raise(&v->people->stats->pending, (uint64_t)-1);
    list_append(&v->people->free, &v->link);
}

static void hand(struct visit *v)
{
    struct load_people *p = v->people;
    v->handed_us = now_us();
    histogram_add(&p->stats->late, v->handed_us > v->intended_us ? v->handed_us - v->intended_us : 0);
    if (load_deed_is_request(v->deed))
        load_raise32(&second_of(p, v->intended_us)->due, 1);
    if (!http_client_send(p->client, &v->call)) {
        load_raise(&p->stats->unsent, 1);
        visit_end(v);
        return;
    }
    load_raise(&p->stats->deeds[v->deed].sent, 1);
}

/* ---- who comes -------------------------------------------------------------------------------------------------------------------------- */

static enum load_deed choose(const struct load_people *p, double share)
{
    const struct load_scenario *s = p->scenario;
    const struct { double percent; enum load_deed deed; } kinds[] = {{s->bad_tokens, LOAD_BAD_TOKEN}, {s->malformed, LOAD_MALFORMED}, {s->flood, LOAD_FLOOD}, {s->retries, LOAD_RETRY}};
    double sum = 0;
    for (size_t i = 0; i < countof(kinds); i++)
        if (share * 100 < (sum += kinds[i].percent))
            return kinds[i].deed == LOAD_RETRY && p->came == 0 ? LOAD_RESERVE : kinds[i].deed;
    return LOAD_RESERVE;
}

static void arrive(struct load_people *p, uint64_t intended_us)
{
    uint64_t chance = load_chance(p->options.seed ^ 0xa11, (uint64_t)p->options.part << 40 | p->number++);
    struct visit *v = visit_new(p, choose(p, load_share(chance)), intended_us);
    if (!v)
        return;
    if (v->deed == LOAD_RESERVE && p->came == p->persons_max)
        v->deed = LOAD_RETRY;    /* everybody has come */
    if (v->deed == LOAD_RESERVE) {
        v->user = p->came++;
        load_raise(&p->stats->people, 1);
    } else if (v->deed == LOAD_RETRY) {
        uint32_t recent = p->came < RECENT ? p->came : RECENT;
        v->user = p->came - 1 - (uint32_t)(load_chance(chance, 1) % recent);
    }
    v->knew = load_deed_is_request(v->deed) && p->persons[v->user].reservation[0] != 0;
    load_say(v);
    hand(v);
}

/* ---- what comes back ---------------------------------------------------------------------------------------------------------------------- */

/* The text of a member of an answer of ours, or empty. Inside a JSON text a quote is never bare, so nothing else can look like it. */
static struct str member(struct str body, const char *key)
{
    char wanted[32];
    size_t n = (size_t)snprintf(wanted, sizeof wanted, "\"%s\":\"", key);
    const char *at = body.len ? memmem(body.ptr, body.len, wanted, n) : NULL;
    const char *end = at ? memchr(at + n, '"', body.len - (size_t)(at + n - body.ptr)) : NULL;
    return end ? str_range(at + n, end) : (struct str){0};
}

static void contradiction(struct load_people *p, const struct visit *v, const struct http_reply *reply)
{
    load_raise(&p->stats->contradictions, 1);
    if (p->stats->strange[0] == 0)
        snprintf(p->stats->strange, sizeof p->stats->strange, "%s: %d " STR_FMT, load_deed_name(v->deed), reply->status,
                 (int)(reply->body.len < 120 ? reply->body.len : 120), reply->body.ptr);
}

static bool is_error(enum reason code) { return code == REASON_INTERNAL || code == REASON_OVERLOADED || code == REASON_DEPENDENCY_DOWN; }

static void stand_timer(struct load_people *p);

static void later(struct visit *v, uint64_t us)
{
    v->intended_us = now_us() + us;
    heap_put(&v->people->due, v, &v->place, v->intended_us);
}

/* The rest before question `step` (from 0). */
static uint64_t rest_us(const struct load_people *p, const struct visit *v)
{
    const struct load_scenario *s = p->scenario;
    double ms = (double)s->poll_first_ms * pow(s->poll_growth, v->step);
    if (!(ms < (double)s->poll_most_ms))
        ms = (double)s->poll_most_ms;
    if (v->step >= 3)
        ms *= 1 + s->poll_jitter / 100 * (2 * load_share(load_chance(p->options.seed ^ v->user, v->step)) - 1);
    return (uint64_t)(ms * 1000);
}

static void ask_later(struct visit *v)
{
    v->deed = LOAD_POLL;
    later(v, rest_us(v->people, v));
    v->step++;
}

/* ---- money: what becomes of an order ---- */

static double chosen(const struct visit *v, uint64_t what)
{
    return load_share(load_chance(v->people->options.seed ^ what, (uint64_t)v->people->options.part << 32 | v->user));
}

static void spend_later(struct visit *v, enum load_deed deed)
{
    v->deed = deed;
    v->step = 0;
    later(v, (uint64_t)(chosen(v, deed) * (double)v->people->scenario->decide_ms * 1000));
}

/* A user has seen his order. True: he goes on with this visit. Who pays and cancels does both in the same moments. */
static bool spend(struct visit *v)
{
    struct load_people *p = v->people;
    bool pays = chosen(v, 0xbacc) * 100 < p->scenario->pay, cancels = chosen(v, 0xcace1) * 100 < p->scenario->cancel;
    if (pays && cancels) {
        struct visit *other = visit_new(p, LOAD_CANCEL, now_us());
        if (other) {
            other->user = v->user;
            spend_later(other, LOAD_CANCEL);
        }
    }
    if (pays || cancels)
        spend_later(v, pays ? LOAD_PAY : LOAD_CANCEL);
    return pays || cancels;
}

/* A reservation has its verdict. True: its user goes on with this visit. */
static bool decided(struct visit *v, bool ordered)
{
    struct load_people *p = v->people;
    p->persons[v->user].decided = true;
    load_raise(ordered ? &p->stats->ordered : &p->stats->released, 1);
    load_raise32(&second_of(p, now_us())->ordered, ordered);
    return ordered && spend(v);
}

/* An answer to a callback or a cancel: what may not be is a contradiction. */
static void money_heard(struct visit *v, enum reason code, const struct http_reply *reply)
{
    struct load_people *p = v->people;
    struct person *who = &p->persons[v->user];
    bool good = v->deed == LOAD_PAY ? code == REASON_PAYMENT_APPLIED || code == REASON_PAYMENT_DUPLICATE || code == REASON_PAYMENT_AFTER_CANCEL
                                    : code == REASON_CANCELED || (code == REASON_ORDER_PAID && chosen(v, 0xbacc) * 100 < p->scenario->pay);
    load_raise(&p->stats->money[code], 1);
    if (code == REASON_PAYMENT_APPLIED && !who->paid) {
        who->paid = true;
        load_raise(&p->stats->paid, 1);
    } else if (code == REASON_CANCELED && !who->canceled) {
        who->canceled = true;
        load_raise(&p->stats->canceled, 1);
    }
    if (!good || (who->paid && who->canceled))
        contradiction(p, v, reply);
}

/* True: it comes again, because it was not taken, or because a channel sometimes sends twice. */
static bool money_answered(struct visit *v, const struct http_reply *reply)
{
    struct load_people *p = v->people;
    enum reason code = REASON_INTERNAL;
    bool known = reply && (reason_parse(member(reply->body, "code"), &code) || (v->deed == LOAD_CANCEL && str_eq(member(reply->body, "status"), str_lit("CANCELED"))));
    if (known && v->deed == LOAD_CANCEL && reply->status == 200)
        code = REASON_CANCELED;
    bool again = !reply || reply->status >= 500 || reply->status == 429;
    if (!again && !known)
        contradiction(p, v, reply);
    else if (!again)
        money_heard(v, code, reply);
    else if (known)
        load_raise(&p->stats->money[code], 1);
    if (!again && v->deed == LOAD_PAY && v->step == 0 && chosen(v, 0x2a1d) * 100 < p->scenario->pay_again)
        again = true;
    v->step++;
    if (again)
        later(v, MONEY_AGAIN_US);
    return again;
}

/* A user was told his reservation for the first time: true where he goes on, with this visit. */
static bool told(struct visit *v, enum reason code, struct str reservation, uint64_t latency_us)
{
    struct load_people *p = v->people;
    struct person *who = &p->persons[v->user];
    memcpy(who->reservation, reservation.ptr, IDENT_ID_TEXT);
    load_raise(&p->stats->told, 1);
    if (code != REASON_QUEUED)
        return decided(v, code == REASON_ORDERED);
    histogram_add(&p->stats->accepted, latency_us);
    load_raise32(&second_of(p, now_us())->queued, 1);
    if (p->scenario->poll_first_ms == 0)
        return false;
    v->step = 0;
    ask_later(v);
    return true;
}

/* An answer to reserve or retry. True: the visit goes on. */
static bool heard(struct visit *v, const struct http_reply *reply, uint64_t latency_us)
{
    struct load_people *p = v->people;
    struct str word = member(reply->body, "code"), reservation = member(reply->body, "reservation_id");
    enum reason code;
    if (!reason_parse(word, &code)) {
        contradiction(p, v, reply);
        return false;
    }
    load_raise(&p->stats->answers[code], 1);
    if (is_error(code)) {
        load_raise(&p->stats->errors, 1);
        load_raise32(&second_of(p, now_us())->errors, 1);
    }
    bool holds = code == REASON_QUEUED || code == REASON_ORDERED || code == REASON_RELEASED;
    const char *known = p->persons[v->user].reservation;
    if (holds ? reservation.len != IDENT_ID_TEXT || (known[0] && !str_eq(reservation, str_of(known))) : v->knew && reason_fate(code) == FATE_REFUSED)
        contradiction(p, v, reply);
    else if (holds && known[0] == 0)
        return told(v, code, reservation, latency_us);
    return false;
}

/* A status never goes back, and the own reservation is never unknown. */
static bool looked(struct visit *v, const struct http_reply *reply)
{
    struct load_people *p = v->people;
    enum reservation_state state;
    if (reply->status == 200 && reservation_state_parse(member(reply->body, "status"), &state)) {
        if (reservation_state_rank(state) < v->rank)
            contradiction(p, v, reply);
        v->rank = reservation_state_rank(state);
        if (reservation_state_terminal(state))
            return decided(v, state == RESERVATION_ORDERED);
    } else if (reply->status < 500 && reply->status != 429) {
        contradiction(p, v, reply);
        return false;
    }
    ask_later(v);
    return true;
}

/* What a bot sends is refused; only the flood's first may be served, and only as one user. */
static void bot_heard(struct visit *v, const struct http_reply *reply)
{
    struct load_people *p = v->people;
    enum reason code;
    if (reason_parse(member(reply->body, "code"), &code)) {
        load_raise(&p->stats->bot_answers[code], 1);
        if (v->deed == LOAD_MALFORMED && reason_fate(code) == FATE_DONE)
            contradiction(p, v, reply);
    } else {
        contradiction(p, v, reply);
    }
}

static void count_latency(struct visit *v, uint64_t now, uint64_t latency_us)
{
    struct load_people *p = v->people;
    struct load_deed_stats *d = &p->stats->deeds[v->deed];
    histogram_add(&d->latency, latency_us);
    if (v->call.given_us != 0) {
        histogram_add(&d->service, now - v->call.given_us);
        histogram_add(&p->stats->unconnected, v->call.given_us > v->handed_us ? v->call.given_us - v->handed_us : 0);
    }
    if (!load_deed_is_request(v->deed))
        return;
    struct load_second *s = second_of(p, v->intended_us);
    uint32_t us = latency_us > UINT32_MAX ? UINT32_MAX : (uint32_t)latency_us;
    load_raise32(&s->slots[histogram_slot(us, LOAD_SECOND_BITS)], 1);
    if (us > s->max_us)
        s->max_us = us;
}

static void answered(struct http_call *call, enum http_outcome outcome, const struct http_reply *reply)
{
    struct visit *v = container_of(call, struct visit, call);
    struct load_people *p = v->people;
    uint64_t now = now_us(), latency_us = now > v->intended_us ? now - v->intended_us : 0;
    bool goes_on = false;
    if (p->over)
        return;
    count_latency(v, now, latency_us);
    load_raise(outcome == HTTP_REPLIED ? &p->stats->deeds[v->deed].answered : &p->stats->deeds[v->deed].lost, 1);
    if (load_deed_is_request(v->deed))
        load_raise32(outcome == HTTP_REPLIED ? &second_of(p, now)->answered : &second_of(p, now)->errors, 1);
    if (outcome == HTTP_REPLIED && load_deed_is_request(v->deed)) {
        goes_on = heard(v, reply, latency_us);
    } else if (outcome == HTTP_REPLIED && load_deed_is_bot(v->deed)) {
        bot_heard(v, reply);
    } else if (v->deed == LOAD_PAY || v->deed == LOAD_CANCEL) {
        goes_on = money_answered(v, outcome == HTTP_REPLIED ? reply : NULL);
    } else if (v->deed == LOAD_POLL) {
        goes_on = outcome != HTTP_REPLIED || looked(v, reply);
        if (outcome != HTTP_REPLIED)
            ask_later(v);
    }
    if (!goes_on)
        visit_end(v);
    stand_timer(p);
}

/* ---- time --------------------------------------------------------------------------------------------------------------------------------- */

static void stand_timer(struct load_people *p)
{
    const struct heap_item *first = heap_first(&p->due);
    uint64_t at = now_us() + LOOK_US;
    if (p->coming && p->next_us < at)
        at = p->next_us;
    if (first && first->due < at)
        at = first->due;
    struct itimerspec when = {.it_value = {(time_t)(at / 1000000), (long)(at % 1000000) * 1000 + 1}};
    check(timerfd_settime(p->timer, TFD_TIMER_ABSTIME, &when, NULL) == 0);
}

static void next_arrival(struct load_people *p)
{
    uint64_t us;
    p->coming = load_schedule_next(&p->schedule, &us);
    p->next_us = p->start_us + us;
}

/* Who is still asking when nobody is waited for any more has not seen his verdict. */
static void give_up(struct load_people *p)
{
    const struct heap_item *first;
    p->over = true;
    p->coming = false;
    while ((first = heap_first(&p->due)))
        heap_remove(&p->due, first->place);
    for (uint32_t i = 0; i < p->came && p->scenario->poll_first_ms > 0; i++)
        load_raise(&p->stats->undecided, p->persons[i].reservation[0] != 0 && !p->persons[i].decided);
}

static void look_at_the_time(struct load_people *p, uint64_t now)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    __atomic_store_n(&p->stats->cpu_us, (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec), __ATOMIC_RELAXED);
    __atomic_store_n(&p->stats->connected, http_client_connected(p->client), __ATOMIC_RELAXED);
    if (!p->coming && p->until_us == 0)
        p->until_us = now + (uint64_t)p->scenario->patience_s * 1000000;
    if ((!p->coming && p->stats->pending == 0) || (p->until_us != 0 && now >= p->until_us) || __atomic_load_n(p->options.stop, __ATOMIC_RELAXED) != 0)
        give_up(p);
}

static void on_timer(uv_poll_t *poll, int status, int events)
{
    struct load_people *p = poll->data;
    const struct heap_item *first;
    uint64_t rung, now = now_us();
    (void)status, (void)events;
    if (read(p->timer, &rung, sizeof rung) != sizeof rung)
        return;    /* moved meanwhile */
    for (unsigned i = 0; i < TURN_MAX && p->coming && p->next_us <= now; i++) {
        uint64_t intended = p->next_us;
        next_arrival(p);
        arrive(p, intended);
    }
    for (unsigned i = 0; i < TURN_MAX && (first = heap_first(&p->due)) && first->due <= now; i++) {
        struct visit *v = first->what;
        heap_remove(&p->due, &v->place);
        load_say(v);
        hand(v);
    }
    look_at_the_time(p, now);
    if (!p->over)
        stand_timer(p);
}

/* ---- life --------------------------------------------------------------------------------------------------------------------------------- */

static void share_out(struct load_people *p)
{
    double sum = 0;
    size_t n = (size_t)p->scenario->skus;
    check(n <= LOAD_SKUS_MAX);
    for (size_t k = 0; k < n; k++)
        p->shares[k] = sum += pow((double)(k + 1), -p->scenario->skew);
    for (size_t k = 0; k < n; k++)
        p->shares[k] /= sum;
}

/* This part of something that all processes share, rounded up. */
static size_t part_of(const struct load_people *p, double all) { return (size_t)ceil(all / p->options.parts); }

struct load_people *load_people_new(uv_loop_t *loop, const struct load_people_options *options)
{
    const struct load_scenario *s = options->scenario;
    struct load_people *p = calloc(1, sizeof *p);
    check(p != NULL);
    *p = (struct load_people){.options = *options, .scenario = s, .stats = options->stats, .loop = loop};
    list_init(&p->free);
    share_out(p);
    p->chunk_max = part_of(p, (double)s->in_flight) / CHUNK + 1;
    p->persons_max = (uint32_t)part_of(p, s->users > 0 ? (double)s->users : s->arrivals.total * 1.1 + 1000);    /* chance may bring some more */
    p->chunks = calloc(p->chunk_max, sizeof *p->chunks);
    p->persons = calloc(p->persons_max, sizeof *p->persons);
    check(p->chunks != NULL && p->persons != NULL);
    size_t connections = part_of(p, (double)s->connections);
    check(connections <= LOAD_CONNECTIONS_MOST);
    p->client = http_client_open(loop, &(struct http_client_config){.address = options->address, .source = options->source, .answer_max = ANSWER_MAX,
        .connections_max = connections, .queue_max = p->chunk_max * CHUNK, .timeout_ms = (uint32_t)s->timeout_ms});
    check(p->client != NULL);
    p->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    check(p->timer >= 0 && uv_poll_init(loop, &p->poll, p->timer) == 0);
    p->poll.data = p;
    return p;
}

void load_people_connect(struct load_people *p)
{
    size_t wanted = part_of(p, (double)p->scenario->connections);
    if (strcmp(p->scenario->open_first, "yes") != 0)
        return;
    http_client_connect(p->client);
    for (int i = 0; i < 150 && http_client_connected(p->client) < wanted; i++)
        await_ms(p->loop, 100);
}

void load_people_run(struct load_people *p, uint64_t start_us)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    p->began_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    p->start_us = start_us;
    p->schedule = load_schedule_new(&p->scenario->arrivals, p->options.part, p->options.parts, strcmp(p->scenario->spacing, "random") == 0, p->options.seed);
    next_arrival(p);
    check(uv_poll_start(&p->poll, UV_READABLE, on_timer) == 0);
    stand_timer(p);
    while (!p->over)
        uv_run(p->loop, UV_RUN_ONCE);
    __atomic_store_n(&p->stats->ended_us, now_us() - p->start_us, __ATOMIC_RELAXED);
}

static void poll_closed(uv_handle_t *poll) { (void)poll; }

void load_people_free(struct load_people *p)
{
    p->over = true;
    http_client_close(p->client);
    uv_close((uv_handle_t *)&p->poll, poll_closed);
    while (uv_run(p->loop, UV_RUN_DEFAULT) != 0)
        ;
    close(p->timer);
    heap_free(&p->due);
    for (size_t i = 0; i < p->chunk_count; i++)
        free(p->chunks[i]);
    free(p->chunks);
    free(p->persons);
    free(p);
}

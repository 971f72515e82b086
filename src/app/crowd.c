/* SPDX-License-Identifier: Apache-2.0
 * crowd.c: one seat per connection. A visitor sits down, asks, perhaps waits and asks again, and leaves when he knows; the next user takes
 * the seat. When nobody is left the same seats follow the reservations, newest first. */
#include "crowd.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "http_client.h"
#include "ident.h"

#define TEXT_MAX 512
#define FOLLOWERS_MAX 32      /* seats that follow: each call is held by the server until something changes */
#define ANSWER_MS 15000
#define AGAIN_FIRST_MS 20u
#define AGAIN_MOST_MS 500
#define PROGRESS_MS 250

struct queued {
    uint32_t user;
    char reservation[IDENT_ID_TEXT + 1];
};
struct seat {
    struct http_call call;
    struct alarm alarm;
    struct crowd *crowd;
    uint32_t user;
    bool taken, repeat;           /* repeat: answered already, asks once more on purpose */
    uint32_t tries;
    uint64_t sent_us, since_us;   /* since: this user's first question */
    char reservation[IDENT_ID_TEXT + 1];    /* what he was told */
    size_t following;             /* index into queued + 1 */
    char text[TEXT_MAX * 2];
};
struct crowd {
    struct crowd_options options;
    struct crowd_result result;
    struct clock *clock;
    struct http_client *client;
    struct seat *seats;
    struct queued *queued;
    size_t queued_count, queued_cap, follow_left;
    uint32_t *latencies, *queued_latencies;
    size_t latency_count, latency_cap, queued_latency_count, queued_latency_cap;
    uint32_t next_user, seated;
    uint64_t began_us, answered_us, until_us, heard_us;    /* heard: when somebody last heard a word that will not change */
    bool following, told, terminal;
    struct alarm progress;
    void (*done)(void *);
    void *arg;
};

static void note_latency(uint32_t **all, size_t *count, size_t *cap, uint64_t us)
{
    if (*count == *cap) {
        *cap = *cap ? *cap * 2 : 4096;
        *all = realloc(*all, *cap * sizeof **all);
        check(*all != NULL);
    }
    (*all)[(*count)++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t quantile(const uint32_t *sorted, size_t count, unsigned permille)
{
    return count == 0 ? 0 : sorted[(count * permille + 999) / 1000 - (permille > 0)];
}

/* ---- the end -------------------------------------------------------------------------------------------------------------------------- */

static void sum_up(struct crowd *c)
{
    struct crowd_result *r = &c->result;
    if (c->latency_count > 0)
        qsort(c->latencies, c->latency_count, sizeof *c->latencies, by_size);
    if (c->queued_latency_count > 0)
        qsort(c->queued_latencies, c->queued_latency_count, sizeof *c->queued_latencies, by_size);
    r->p50_us = quantile(c->latencies, c->latency_count, 500);
    r->p90_us = quantile(c->latencies, c->latency_count, 900);
    r->p99_us = quantile(c->latencies, c->latency_count, 990);
    r->p999_us = quantile(c->latencies, c->latency_count, 999);
    r->max_us = quantile(c->latencies, c->latency_count, 1000);
    r->queued_p50_us = quantile(c->queued_latencies, c->queued_latency_count, 500);
    r->queued_p99_us = quantile(c->queued_latencies, c->queued_latency_count, 990);
    r->queued_max_us = quantile(c->queued_latencies, c->queued_latency_count, 1000);
    r->queued = c->queued_count;
    r->undecided = r->queued - r->ordered - r->released;
    r->deciding_us = clock_mono_us(c->clock) - c->answered_us;
}

static void say_progress(struct crowd *c)
{
    const struct crowd_result *r = &c->result;
    if (!c->options.progress)
        return;
    fprintf(c->options.progress, "%s%u of %u users, %llu requests, queued %zu, sold out %llu, ordered %llu, released %llu%s", c->terminal ? "\r" : "", c->next_user,
            c->options.users, (unsigned long long)r->requests, c->queued_count, (unsigned long long)r->users_by[REASON_SOLD_OUT],
            (unsigned long long)r->ordered, (unsigned long long)r->released, c->terminal ? "   " : "\n");
    fflush(c->options.progress);
}

static void ring_progress(struct waiter *w, enum reason reason, const void *result)
{
    struct crowd *c = container_of(w, struct crowd, progress.waiter);
    (void)reason, (void)result;
    say_progress(c);
    clock_set_in(c->clock, &c->progress, c->terminal ? PROGRESS_MS * 1000 : 1000000);
}

static void finish(struct crowd *c)
{
    if (c->told)
        return;
    c->told = true;
    clock_unset(c->clock, &c->progress);
    sum_up(c);
    say_progress(c);
    if (c->terminal)
        fputc('\n', c->options.progress);
    c->done(c->arg);
}

/* ---- following what was promised ---------------------------------------------------------------------------------------------------------- */

static void follow_next(struct seat *s);

static void follow(struct seat *s)
{
    struct crowd *c = s->crowd;
    const struct queued *q = &c->queued[s->following - 1];
    char target[256];
    struct buf out = buf_fixed(s->text, sizeof s->text);
    int n = snprintf(target, sizeof target, "/v1/reservations/%s?wait=2s&user_id=%s-u%u", q->reservation, c->options.prefix, q->user);
    http_request_write(&out, str_lit("GET"), (struct str){target, (size_t)n}, str_of(c->options.host), (struct str){0}, (struct str){0}, (struct str){0});
    check(buf_ok(&out));
    s->call.request = buf_str(&out);
    bool sent = http_client_send(c->client, &s->call);
    check(sent);    /* the queue of the client holds every seat */
}

static void follow_later(struct seat *s) { clock_set_in(s->crowd->clock, &s->alarm, AGAIN_MOST_MS * 1000); }

static void followed(struct http_call *call, enum http_outcome outcome, const struct http_reply *reply)
{
    struct seat *s = container_of(call, struct seat, call);
    struct crowd *c = s->crowd;
    json_t *json = outcome == HTTP_REPLIED && reply->status == 200 && reply->body.len > 0 ? json_loadb(reply->body.ptr, reply->body.len, 0, NULL) : NULL;
    const char *status = json_string_value(json_object_get(json, "status"));
    bool ordered = status && strcmp(status, "ORDERED") == 0, released = status && strcmp(status, "RELEASED") == 0;
    json_decref(json);
    c->result.ordered += ordered;
    c->result.released += released;
    if (ordered || released || clock_mono_us(c->clock) > c->until_us)
        follow_next(s);
    else if (status)
        follow(s);
    else
        follow_later(s);
}

static void follow_next(struct seat *s)
{
    struct crowd *c = s->crowd;
    s->taken = c->follow_left > 0;
    if (s->taken) {
        s->following = c->follow_left--;
        follow(s);
        return;
    }
    if (--c->seated == 0)
        finish(c);
}

static void begin_following(struct crowd *c)
{
    c->following = true;
    c->answered_us = clock_mono_us(c->clock);
    c->result.asking_us = c->answered_us - c->began_us;
    c->until_us = c->answered_us + (uint64_t)c->options.patience_ms * 1000;
    c->follow_left = c->queued_count;
    if (c->queued_count == 0)
        return finish(c);
    c->seated = c->options.connections < FOLLOWERS_MAX ? c->options.connections : FOLLOWERS_MAX;
    for (uint32_t i = 0, seats = c->seated; i < seats; i++) {
        c->seats[i].call.done = followed;
        follow_next(&c->seats[i]);
    }
}

/* ---- asking ------------------------------------------------------------------------------------------------------------------------------ */

static void ask(struct seat *s)
{
    struct crowd *c = s->crowd;
    char body[TEXT_MAX];
    struct buf out = buf_fixed(s->text, sizeof s->text);
    int n = snprintf(body, sizeof body, "{\"activity_id\":\"%s\",\"sku_id\":\"%s\",\"request_id\":\"%s-r%u\",\"user_id\":\"%s-u%u\"}", c->options.activity,
                     c->options.sku, c->options.prefix, s->user, c->options.prefix, s->user);
    http_request_write(&out, str_lit("POST"), str_lit("/v1/reservations"), str_of(c->options.host), (struct str){0}, str_lit("application/json"),
                       (struct str){body, (size_t)n});
    check(buf_ok(&out));
    s->call.request = buf_str(&out);
    s->sent_us = clock_mono_us(c->clock);
    bool sent = http_client_send(c->client, &s->call);
    check(sent);
}

/* Nobody has heard anything final for as long as one would wait: those who have not asked yet need not. */
static void give_up_on_silence(struct crowd *c)
{
    if (clock_mono_us(c->clock) - c->heard_us <= (uint64_t)c->options.patience_ms * 1000)
        return;
    c->result.unanswered += c->options.users - c->next_user;
    c->next_user = c->options.users;
}

static void sit_down(struct seat *s)
{
    struct crowd *c = s->crowd;
    give_up_on_silence(c);
    if (c->next_user == c->options.users) {
        s->taken = false;
        if (--c->seated == 0)
            begin_following(c);
        return;
    }
    s->user = c->next_user++;
    s->taken = true;
    s->repeat = false;
    s->tries = 0;
    s->reservation[0] = 0;
    s->since_us = clock_mono_us(c->clock);
    ask(s);
}

static void remember(struct crowd *c, const struct seat *s)
{
    struct ident ident;
    if (c->queued_count == c->queued_cap) {
        c->queued_cap = c->queued_cap ? c->queued_cap * 2 : 1024;
        c->queued = realloc(c->queued, c->queued_cap * sizeof *c->queued);
        check(c->queued != NULL);
    }
    c->queued[c->queued_count].user = s->user;
    memcpy(c->queued[c->queued_count++].reservation, s->reservation, sizeof s->reservation);
    if (ident_parse(str_of(s->reservation), IDENT_RESERVATION, &ident)) {
        int64_t made_ms = ident_read(ident).made_ms;
        if (c->result.first_reserved_ms == 0 || made_ms < c->result.first_reserved_ms)
            c->result.first_reserved_ms = made_ms;
        if (made_ms > c->result.last_reserved_ms)
            c->result.last_reserved_ms = made_ms;
    }
}

/* The user has heard a word that will not change. Some of them ask once more all the same. */
static void heard(struct seat *s, enum reason code)
{
    struct crowd *c = s->crowd;
    c->heard_us = clock_mono_us(c->clock);
    if (!s->repeat && s->user % 100 < c->options.retry_percent) {
        s->repeat = true;
        s->tries = 0;
        return ask(s);
    }
    c->result.users_by[code]++;
    if (s->reservation[0] != 0)
        remember(c, s);
    sit_down(s);
}

static void ask_again(struct seat *s)
{
    struct crowd *c = s->crowd;
    if (clock_mono_us(c->clock) - s->since_us > (uint64_t)c->options.patience_ms * 1000) {
        c->result.unanswered++;
        if (s->reservation[0] != 0)
            remember(c, s);
        return sit_down(s);
    }
    uint32_t ms = AGAIN_FIRST_MS << (s->tries < 5 ? s->tries : 5);
    s->tries++;
    c->result.again++;
    clock_set_in(c->clock, &s->alarm, (ms < AGAIN_MOST_MS ? ms : AGAIN_MOST_MS) * 1000ULL);
}

static void rung(struct waiter *w, enum reason reason, const void *result)
{
    struct seat *s = container_of(w, struct seat, alarm.waiter);
    (void)reason, (void)result;
    s->crowd->following ? follow(s) : ask(s);
}

static void not_understood(struct seat *s, const struct http_reply *reply)
{
    struct crowd *c = s->crowd;
    snprintf(c->result.fault, sizeof c->result.fault, "%d " STR_FMT, reply->status, (int)(reply->body.len < 100 ? reply->body.len : 100), reply->body.ptr);
    ask_again(s);
}

/* What he holds must not be denied to him, nor become something else. */
static void compare(struct seat *s, enum reason code, const char *reservation)
{
    struct crowd *c = s->crowd;
    bool holds = code == REASON_QUEUED || code == REASON_ORDERED || code == REASON_RELEASED || code == REASON_ALREADY_PURCHASED;
    if (s->reservation[0] != 0 && (!holds || strcmp(s->reservation, reservation) != 0))
        c->result.contradictions++;
    if (s->reservation[0] == 0 && holds && strlen(reservation) == IDENT_ID_TEXT)
        memcpy(s->reservation, reservation, sizeof s->reservation);
}

static void judge(struct seat *s, enum reason code, const char *reservation, uint64_t us)
{
    struct crowd *c = s->crowd;
    c->result.answers_by[code]++;
    if (code == REASON_UNCERTAIN || reason_fate(code) == FATE_RETRY || code == REASON_INTERNAL)
        return ask_again(s);
    if (code == REASON_QUEUED && s->reservation[0] == 0)
        note_latency(&c->queued_latencies, &c->queued_latency_count, &c->queued_latency_cap, us);
    compare(s, code, reservation);
    heard(s, code);
}

static void answered(struct http_call *call, enum http_outcome outcome, const struct http_reply *reply)
{
    struct seat *s = container_of(call, struct seat, call);
    struct crowd *c = s->crowd;
    enum reason code;
    if (outcome != HTTP_REPLIED) {
        c->result.lost++;
        return ask_again(s);
    }
    uint64_t us = clock_mono_us(c->clock) - s->sent_us;
    c->result.requests++;
    note_latency(&c->latencies, &c->latency_count, &c->latency_cap, us);
    json_t *json = json_loadb(reply->body.ptr ? reply->body.ptr : "", reply->body.len, 0, NULL);
    const char *word = json_string_value(json_object_get(json, "code")), *reservation = json_string_value(json_object_get(json, "reservation_id"));
    if (word && reason_parse(str_of(word), &code))
        judge(s, code, reservation ? reservation : "", us);
    else
        not_understood(s, reply);
    json_decref(json);
}

/* ---- life -------------------------------------------------------------------------------------------------------------------------------- */

struct crowd *crowd_start(uv_loop_t *loop, struct clock *clock, const struct crowd_options *options, void (*done)(void *arg), void *arg)
{
    struct crowd *c = calloc(1, sizeof *c);
    struct seat *seats = calloc(options->connections, sizeof *seats);
    check(c != NULL && seats != NULL && options->users > 0 && options->connections > 0);
    struct http_client_config config = {.address = options->address, .connections_max = options->connections, .queue_max = options->connections + 1, .timeout_ms = ANSWER_MS};
    *c = (struct crowd){.options = *options, .clock = clock, .client = http_client_open(loop, &config), .seats = seats, .done = done, .arg = arg,
                        .began_us = clock_mono_us(clock), .progress = {.waiter = {.wake = ring_progress}}};
    check(c->client != NULL);
    c->heard_us = c->began_us;
    c->seated = options->connections;
    c->terminal = options->progress && isatty(fileno(options->progress));
    clock_set_in(clock, &c->progress, PROGRESS_MS * 1000);
    for (uint32_t i = 0; i < options->connections; i++) {
        seats[i] = (struct seat){.crowd = c, .call = {.done = answered}, .alarm = {.waiter = {.wake = rung}}};
        sit_down(&seats[i]);
    }
    return c;
}

const struct crowd_result *crowd_result(const struct crowd *c) { return &c->result; }

static void nobody_listens(struct http_call *call, enum http_outcome outcome, const struct http_reply *reply) { (void)call, (void)outcome, (void)reply; }

void crowd_free(struct crowd *c)
{
    if (!c)
        return;
    clock_unset(c->clock, &c->progress);
    for (uint32_t i = 0; i < c->options.connections; i++) {
        clock_unset(c->clock, &c->seats[i].alarm);
        c->seats[i].call.done = nobody_listens;
    }
    http_client_close(c->client);
    free(c->seats);
    free(c->queued);
    free(c->latencies);
    free(c->queued_latencies);
    free(c);
}

bool crowd_consistent(const struct crowd_result *r)
{
    return r->contradictions == 0 && r->unanswered == 0 && r->undecided == 0 && r->fault[0] == 0 && r->answers_by[REASON_INTERNAL] == 0;
}

void crowd_print(const struct crowd_result *r, FILE *out)
{
    double asking_s = (double)r->asking_us / 1e6;
    fprintf(out, "asked      %llu requests in %.2f s (%.0f/s), %llu of them asked again, %llu without an answer\n", (unsigned long long)r->requests, asking_s,
            asking_s > 0 ? (double)r->requests / asking_s : 0, (unsigned long long)r->again, (unsigned long long)r->lost);
    for (unsigned i = 0; i < REASON_COUNT; i++)
        if (r->users_by[i] > 0 || r->answers_by[i] > 0)
            fprintf(out, "  %-20s %8llu users, %8llu answers\n", reason_word((enum reason)i), (unsigned long long)r->users_by[i], (unsigned long long)r->answers_by[i]);
    fprintf(out, "latency    p50 %.2f ms  p90 %.2f ms  p99 %.2f ms  p99.9 %.2f ms  max %.2f ms\n", r->p50_us / 1e3, r->p90_us / 1e3, r->p99_us / 1e3, r->p999_us / 1e3, r->max_us / 1e3);
    fprintf(out, "  reserving  p50 %.2f ms  p99 %.2f ms  max %.2f ms\n", r->queued_p50_us / 1e3, r->queued_p99_us / 1e3, r->queued_max_us / 1e3);
    fprintf(out, "verdicts   %llu reservations told: ORDERED %llu, RELEASED %llu, undecided %llu; the last was seen %.2f s after the last answer\n",
            (unsigned long long)r->queued, (unsigned long long)r->ordered, (unsigned long long)r->released, (unsigned long long)r->undecided, (double)r->deciding_us / 1e6);
    if (!crowd_consistent(r))
        fprintf(out, "NOT CONSISTENT  contradictions %llu, users without a final answer %llu, undecided %llu%s%s\n", (unsigned long long)r->contradictions,
                (unsigned long long)r->unanswered, (unsigned long long)r->undecided, r->fault[0] ? ", not understood: " : "", r->fault);
}

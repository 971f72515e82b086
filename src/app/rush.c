/* SPDX-License-Identifier: Apache-2.0
 * rush.c: `seckill rush`: a crowd, then the proof, which is read from PostgreSQL and Redis and never from what the service counted. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "audit.h"
#include "await.h"
#include "check.h"
#include "crowd.h"
#include "http_ask.h"
#include "json.h"
#include "rush.h"
#include "verb.h"

static void set_done(void *flag) { *(bool *)flag = true; }

/* Units of the SKU that orders hold, and all of its units; of the whole activity where the audit does not list the SKU. */
static void count_sku(const struct audit *a, const char *sku, uint64_t *holding, uint64_t *stock)
{
    *holding = a->holding;
    *stock = a->stock;
    for (size_t i = 0; i < a->sku_count; i++)
        if (str_eq(a->skus[i].count.sku, str_of(sku))) {
            *holding = (uint64_t)a->skus[i].count.o;
            *stock = (uint64_t)a->skus[i].count.s0;
        }
}

uint64_t rush_holding(const struct audit *a, const char *sku)
{
    uint64_t holding, stock;
    count_sku(a, sku, &holding, &stock);
    return a->reason == REASON_OK ? holding : 0;
}

uint64_t rush_sold(const struct rush_outcome *o)
{
    uint64_t holding = rush_holding(o->audit, o->sku);
    return holding > o->sold_before ? holding - o->sold_before : 0;
}

static void write_crowd(struct buf *out, const struct crowd_result *r)
{
    json_member_u64(out, "requests", r->requests);
    json_member_u64(out, "asked_again", r->again);
    json_member_u64(out, "lost", r->lost);
    json_member_u64(out, "queued", r->queued);
    json_member_u64(out, "ordered", r->ordered);
    json_member_u64(out, "released", r->released);
    json_member_u64(out, "undecided", r->undecided);
    json_member_u64(out, "contradictions", r->contradictions);
    json_member_u64(out, "unanswered", r->unanswered);
    json_member_u64(out, "asking_ms", r->asking_us / 1000);
    json_member_u64(out, "p50_us", r->p50_us);
    json_member_u64(out, "p99_us", r->p99_us);
    json_member_u64(out, "p999_us", r->p999_us);
    json_member_u64(out, "max_us", r->max_us);
}

void rush_write_json(struct buf *out, const struct rush_outcome *o)
{
    const struct crowd_result *r = o->crowd;
    const struct audit *a = o->audit;
    bool ordered = a->last_order_ms != 0 && r->first_reserved_ms != 0 && rush_sold(o) > 0;
    json_open(out);
    json_member_u64(out, "sold", rush_sold(o));
    json_member_u64(out, "oversell", a->oversell);
    json_member_u64(out, "duplicates", a->duplicates);
    json_member_u64(out, "drift", a->drift);
    json_member_u64(out, "sold_before", o->sold_before);
    json_member_u64(out, "sold_in_all", rush_holding(a, o->sku));
    json_member_u64(out, "stock", a->stock);
    json_member_text(out, "judged", reason_word(a->reason));
    json_member_u64(out, "findings", a->finding_count + a->unnamed);
    write_crowd(out, r);
    json_member_i64(out, "first_reservation_to_last_order_ms", ordered ? a->last_order_ms - r->first_reserved_ms : 0);
    json_key(out, "users");
    json_open(out);
    for (unsigned i = 0; i < REASON_COUNT; i++)
        if (r->users_by[i] > 0)
            json_member_u64(out, reason_word((enum reason)i), r->users_by[i]);
    json_close(out);
    json_close(out);
}

/* The answer that most users got who have no unit and were not told SOLD_OUT; REASON_OK: there is none. */
static enum reason most_frequent_refusal(const struct crowd_result *r)
{
    enum reason most = REASON_OK;
    for (unsigned i = 0; i < REASON_COUNT; i++)
        if (i != REASON_OK && i != REASON_QUEUED && i != REASON_SOLD_OUT && r->users_by[i] > (most == REASON_OK ? 0 : r->users_by[most]))
            most = (enum reason)i;
    return most;
}

int rush_leave(const struct call *c, const struct rush_outcome *o)
{
    const struct audit *a = o->audit;
    uint64_t holding, stock;
    count_sku(a, o->sku, &holding, &stock);
    uint64_t left = stock > o->sold_before ? stock - o->sold_before : 0, wanted = o->users < left ? o->users : left;
    if (a->reason != REASON_OK)
        return audit_leave(a) == LEAVE_DONE ? LEAVE_UNREACHABLE : audit_leave(a);
    if (!audit_clean(a) || o->crowd->contradictions > 0)
        return LEAVE_BROKEN;
    if (!crowd_consistent(o->crowd))
        return call_failed(c, LEAVE_BROKEN, "the proof does not hold: not every user has an answer that is understood and final");
    if (rush_sold(o) >= wanted)
        return LEAVE_DONE;
    enum reason most = most_frequent_refusal(o->crowd);
    char answered[96] = "";
    if (most != REASON_OK)
        snprintf(answered, sizeof answered, "; %llu users were answered %s", (unsigned long long)o->crowd->users_by[most], reason_word(most));
    return call_failed(c, LEAVE_BROKEN, "the proof does not hold: this rush sold %llu units where %llu could be sold%s", (unsigned long long)rush_sold(o),
                       (unsigned long long)wanted, answered);
}

struct rush {
    const struct call *call;
    uv_loop_t loop;
    struct ports ports;
    struct crowd *crowd;
    struct audit audit;
};

static void print_proof(const struct rush_outcome *o)
{
    const struct audit *a = o->audit;
    uint64_t sold = rush_sold(o);
    printf("this rush  sold %llu units; %llu were sold before it, %llu are sold now\n", (unsigned long long)sold, (unsigned long long)o->sold_before,
           (unsigned long long)rush_holding(a, o->sku));
    printf("proof: sold=%llu oversell=%llu duplicates=%llu drift=%llu\n", (unsigned long long)sold, (unsigned long long)a->oversell,
           (unsigned long long)a->duplicates, (unsigned long long)a->drift);
}

static void print(const struct rush *r, const struct rush_outcome *o)
{
    const struct crowd_result *result = o->crowd;
    const struct audit *a = o->audit;
    if (r->call->json) {
        struct buf out = buf_growing(64 * 1024);
        rush_write_json(&out, o);
        check(buf_ok(&out));
        printf(STR_FMT "\n", STR_ARG(buf_str(&out)));
        buf_free(&out);
        return;
    }
    crowd_print(result, stdout);
    if (rush_sold(o) > 0 && a->last_order_ms != 0 && result->first_reserved_ms != 0)
        printf("times      first reservation to last committed order %lld ms; last reservation to last committed order %lld ms\n",
               (long long)(a->last_order_ms - result->first_reserved_ms), (long long)(a->last_order_ms - result->last_reserved_ms));
    audit_print_table(a, stdout);
    if (a->reason == REASON_OK)
        print_proof(o);
}

/* What is sold already: an audit of one look. False: it could not be finished, which is printed. */
static bool count_before(struct rush *r, const struct crowd_options *options, uint64_t *sold)
{
    struct audit before = {.activity = str_of(options->activity)};
    uint64_t stock;
    audit_judge(&before, &r->ports);
    count_sku(&before, options->sku, sold, &stock);
    bool judged = before.reason == REASON_OK;
    if (!judged)
        call_failed(r->call, LEAVE_UNREACHABLE, "the units sold before the rush could not be counted: %s (%s)", reason_word(before.reason), before.unanswered);
    else if (*sold >= stock && !r->call->json)
        fprintf(stderr, "seckill rush: all %llu units of %s are sold already: every user will be answered SOLD_OUT; `make sale` opens a new demo sale\n",
                (unsigned long long)stock, options->sku);
    audit_free(&before);
    return judged;
}

static int run(struct rush *r, const struct crowd_options *options)
{
    bool done = false;
    struct rush_outcome outcome = {.audit = &r->audit, .sku = options->sku, .users = options->users};
    if (!count_before(r, options, &outcome.sold_before))
        return LEAVE_UNREACHABLE;
    r->crowd = crowd_start(&r->loop, r->ports.clock, options, set_done, &done);
    check(r->crowd != NULL);
    await_flag(&r->loop, &done, 0);
    r->audit = (struct audit){.activity = str_of(options->activity), .patience_ms = options->patience_ms};
    audit_judge(&r->audit, &r->ports);
    outcome.crowd = crowd_result(r->crowd);
    print(r, &outcome);
    int leave = rush_leave(r->call, &outcome);
    audit_free(&r->audit);
    crowd_free(r->crowd);
    return leave;
}

/* Whether there is somebody to ask, and something to ask for: LEAVE_DONE. */
static int ask_first(const struct call *c)
{
    struct http_ask ask;
    char target[128];
    snprintf(target, sizeof target, "/v1/activities/%s", call_activity(c));
    if (!http_ask_open(&ask, c->config->http_listen))
        return call_failed(c, LEAVE_CONFIG, "http.listen: cannot be called");
    int leave = LEAVE_DONE;
    if (!http_ask(&ask, "GET", target, (struct str){0}, 5000))
        leave = call_failed(c, LEAVE_UNREACHABLE, "the public API at %s: %s", c->config->http_listen, ask.fault);
    else if (ask.status != 200)
        leave = call_failed(c, ask.status == 503 ? LEAVE_UNREACHABLE : LEAVE_FAILED, "%s: %s %s", call_activity(c), http_ask_text(&ask, "code"),
                            http_ask_text(&ask, "detail"));
    http_ask_close(&ask);
    return leave;
}

int verb_rush(const struct call *c)
{
    static struct rush r;
    char prefix[40], memory[512];
    struct buf complaint = buf_fixed(memory, sizeof memory);
    struct crowd_options options = {.host = c->config->http_listen, .activity = call_activity(c), .sku = call_text(c, "sku"), .prefix = prefix,
        .users = (uint32_t)call_number(c, "users"), .connections = (uint32_t)call_number(c, "connections"), .retry_percent = (uint32_t)call_number(c, "retries"),
        .patience_ms = (uint32_t)call_number(c, "patience") * 1000, .progress = isatty(STDERR_FILENO) || !c->json ? stderr : NULL};
    if (call_text(c, "prefix")[0] && !str_is_id(str_of(call_text(c, "prefix"))))
        return call_misused(c, "--prefix begins ids: A-Z a-z 0-9 _ -");
    int leave = ask_first(c);
    if (leave != LEAVE_DONE)
        return leave;
    bool parsed = address_parse(str_of(options.host), &options.address);
    check(parsed);
    r.call = c;
    uv_loop_init(&r.loop);
    if (!ports_open(&r.ports, &r.loop, c->config, PORTS_STORE | PORTS_LEDGER, &complaint)) {
        ports_loop_end(&r.loop);
        return call_failed(c, LEAVE_CONFIG, STR_FMT, STR_ARG(buf_str(&complaint)));
    }
    if (call_text(c, "prefix")[0])
        snprintf(prefix, sizeof prefix, "%s", call_text(c, "prefix"));
    else
        snprintf(prefix, sizeof prefix, "r%08llx", (unsigned long long)random_next(r.ports.random) & 0xffffffff);
    leave = ports_ready(&r.ports, 5000) ? run(&r, &options) : call_failed(c, LEAVE_UNREACHABLE, "%s does not answer: nothing could be proved", r.ports.missing);
    ports_close(&r.ports);
    ports_loop_end(&r.loop);
    return leave;
}

/* SPDX-License-Identifier: Apache-2.0
 * audit.c: asks the ledger for its own judgement, activity by activity, then counts every activity's units in both stores, several activities at once, and
 * again while some units are on their way. */
#include "audit.h"

#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "check.h"
#include "json.h"
#include "verb.h"

#define MEMORY_BYTES (4 * 1024 * 1024)
#define CALL_MS 60000      /* judging a sale of a million units takes a while */
#define COUNT_AGAIN_US 300000

/* One activity that is being counted, or waits to be counted again. */
struct judging;
struct count {
    struct conservation conservation;
    struct judging *judging;
    struct alarm again;
    size_t at;                   /* index of the activity */
    bool begun;                  /* the conservation has taken memory */
};
struct judged_activity {
    struct str activity;
    bool draft;
};
struct judging {
    struct audit *audit;
    struct ports *ports;
    struct audit_finding *findings;
    struct audit_sku *skus;
    struct judged_activity activities[AUDIT_ACTIVITIES_MAX];
    size_t activity_count, page; /* page: activities of the last answer */
    uint16_t last_number;
    /* counting */
    struct count counts[AUDIT_COUNTS_MAX];
    size_t next, busy;
    uint64_t until_us;           /* what is on its way has until then to arrive, in all activities */
    bool done;
};

static void found(struct judging *j, struct str rule, struct str subject, struct str detail)
{
    struct audit *a = j->audit;
    if (a->finding_count == AUDIT_FINDINGS_MAX) {
        a->unnamed++;
        return;
    }
    j->findings[a->finding_count++] =
        (struct audit_finding){arena_str(&a->memory, rule), arena_str(&a->memory, subject), arena_str(&a->memory, detail)};
}

/* ---- what the ledger can judge alone --------------------------------------------------------------------------------------- */

/* One order per user, request, reservation, message and unit. (The queries of mission §17.7 find the same rows once more.) */
static bool is_duplicate(struct str rule)
{
    static const char *const rules[] = {"H2", "H3", "H4", "H5"};
    for (size_t i = 0; i < countof(rules); i++)
        if (str_eq(rule, str_of(rules[i])))
            return true;
    return false;
}

static void keep_totals(struct await *w, const void *result)
{
    struct audit *a = ((struct judging *)w->into)->audit;
    const struct audit_answer *answer = result;
    a->stock = answer->stock, a->available = answer->available, a->consumed = answer->consumed;
    a->orders = answer->orders, a->holding = answer->holding, a->released = answer->released, a->outbox = answer->outbox;
    a->first_order_ms = answer->first_order_ms, a->last_order_ms = answer->last_order_ms;
}

static void keep_findings(struct await *w, const void *result)
{
    struct judging *j = w->into;
    const struct audit_answer *answer = result;
    uint64_t oversold = 0;    /* findings of H1: one SKU may be oversold while the sum still fits */
    for (size_t i = 0; i < answer->count; i++) {
        const struct finding *f = &answer->findings[i];
        found(j, f->rule, f->subject, f->detail);
        oversold += str_eq(f->rule, str_lit("H1"));
        j->audit->duplicates += is_duplicate(f->rule);
    }
    j->audit->oversell += answer->holding > answer->stock + oversold ? answer->holding - answer->stock : oversold;
}

static void keep_both(struct await *w, const void *result)
{
    keep_totals(w, result);
    keep_findings(w, result);
}

static bool judge_ledger(struct judging *j, struct str activity, void (*keep)(struct await *, const void *))
{
    struct await w = AWAIT(.keep = keep, .into = j);
    w.waiter.budget_ms = CALL_MS;
    ledger_audit(j->ports->ledger, activity, &w.waiter);
    j->audit->reason = await_run(&w, j->ports->loop);
    j->audit->unanswered = "ledger";
    return j->audit->reason == REASON_OK;
}

/* One activity: its rules and its totals. All: the rules of each, then what is of none, with the totals of everything. */
static bool judge_rules(struct judging *j)
{
    if (j->audit->activity.len > 0)
        return judge_ledger(j, j->audit->activity, keep_both);
    for (size_t i = 0; i < j->activity_count; i++)
        if (!judge_ledger(j, j->activities[i].activity, keep_findings))
            return false;
    return judge_ledger(j, str_lit(LEDGER_AUDIT_REST), keep_both);
}

/* ---- units in both stores --------------------------------------------------------------------------------------------------- */

static void keep_activities(struct await *w, const void *result)
{
    struct judging *j = w->into;
    const struct activities_answer *answer = result;
    j->page = answer->count;
    for (size_t i = 0; i < answer->count; i++) {
        const struct activity *at = &answer->activities[i];
        j->last_number = at->number;
        check(j->activity_count < AUDIT_ACTIVITIES_MAX);    /* the ledger gives no more numbers */
        if (j->audit->activity.len == 0 || str_eq(at->activity, j->audit->activity))
            j->activities[j->activity_count++] = (struct judged_activity){arena_str(&j->audit->memory, at->activity), at->state == ACTIVITY_DRAFT};
    }
}

/* The named one, or all of them, page by page: the settled ones too. */
static bool list_activities(struct judging *j)
{
    struct activities_ask ask = {.limit = ACTIVITIES_PAGE_MAX};
    j->audit->unanswered = "ledger, asked for its activities";
    do {
        struct await w = AWAIT(.keep = keep_activities, .into = j);
        j->page = 0;
        if (j->audit->activity.len > 0)
            ledger_activity(j->ports->ledger, j->audit->activity, &w.waiter);
        else
            ledger_activities(j->ports->ledger, &ask, &w.waiter);
        j->audit->reason = await_run(&w, j->ports->loop);
        ask.after = j->last_number;
    } while (j->audit->reason == REASON_OK && j->audit->activity.len == 0 && j->page == ACTIVITIES_PAGE_MAX);
    if (j->audit->reason == REASON_OK && j->audit->activity.len > 0 && j->activity_count == 0)
        j->audit->reason = REASON_UNKNOWN_ACTIVITY;
    return j->audit->reason == REASON_OK;
}

static int64_t suspects(const struct conservation *c)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->sku_count; i++)
        n += c->skus[i].drift;
    return n;
}

static void keep_count(struct judging *j, size_t at, const struct conservation *c)
{
    struct audit *a = j->audit;
    for (size_t i = 0; i < c->sku_count; i++) {
        struct conservation_sku s = c->skus[i];
        a->drift += (uint64_t)s.drift;
        a->undecided += (uint64_t)(s.r + s.c);
        if (a->sku_count == AUDIT_SKUS_MAX) {
            a->skus_unnamed++;
            continue;
        }
        s.sku = arena_str(&a->memory, s.sku);
        j->skus[a->sku_count++] = (struct audit_sku){j->activities[at].activity, s, at};
    }
    for (size_t i = 0; i < c->unit_count; i++) {
        const struct conservation_unit *u = &c->units[i];
        char token[TOKEN_TEXT], detail[256];
        if (!u->finding)
            continue;
        int n = snprintf(detail, sizeof detail, "%s, bucket %u: %s", conservation_owner_name(u->owner), u->bucket, u->detail ? u->detail : "");
        found(j, str_lit("conservation"), (struct str){token, token_write(u->token, token)}, (struct str){detail, (size_t)n});
    }
}

static void start_next(struct count *n);

/* The slot is done with its activity, and takes the next. */
static void end_count(struct count *n, enum reason reason)
{
    struct judging *j = n->judging;
    j->busy--;
    if (reason != REASON_OK && j->audit->reason == REASON_OK) {    /* no other is begun: nothing is proved any more */
        j->audit->reason = reason;
        j->audit->unanswered = "store or ledger, while counting units";
    }
    start_next(n);
    j->done = j->busy == 0;
}

static void on_counted(struct conservation *c);

static void start_count(struct count *n)
{
    struct judging *j = n->judging;
    struct conservation_options options = conservation_options_default();
    n->conservation = (struct conservation){.activity = j->activities[n->at].activity, .done = on_counted};
    n->begun = conservation_start(&n->conservation, j->ports->store, j->ports->ledger, j->ports->clock, &options);
    if (!n->begun)
        end_count(n, REASON_OVERLOADED);
}

static void on_count_again(struct waiter *w, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    start_count(container_of(container_of(w, struct alarm, waiter), struct count, again));
}

/* What is under way may look like a loss for a moment: counted again until nothing is amiss or patience ends. */
static void on_counted(struct conservation *c)
{
    struct count *n = container_of(c, struct count, conservation);
    struct judging *j = n->judging;
    enum reason reason = c->reason;
    bool again = (reason != REASON_OK || suspects(c) > 0) && clock_mono_us(j->ports->clock) < j->until_us;
    if (!again && reason == REASON_OK)
        keep_count(j, n->at, c);
    conservation_close(c);
    if (again)
        clock_set_in(j->ports->clock, &n->again, COUNT_AGAIN_US);
    else
        end_count(n, reason);
}

static void start_next(struct count *n)
{
    struct judging *j = n->judging;
    while (j->next < j->activity_count && j->activities[j->next].draft && j->audit->activity.len == 0)
        j->next++;    /* a draft holds nothing yet; by its name it is counted all the same */
    if (j->audit->reason != REASON_OK || j->next == j->activity_count)
        return;
    n->at = j->next++;
    j->busy++;
    start_count(n);
}

static int compare_places(const void *a, const void *b)
{
    const struct audit_sku *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

static void judge_units(struct judging *j)
{
    j->until_us = clock_mono_us(j->ports->clock) + (uint64_t)j->audit->patience_ms * 1000;
    for (size_t i = 0; i < AUDIT_COUNTS_MAX; i++) {
        j->counts[i] = (struct count){.judging = j, .again.waiter.wake = on_count_again};
        start_next(&j->counts[i]);
    }
    if (j->busy > 0)
        await_flag(j->ports->loop, &j->done, 0);
    qsort(j->skus, j->audit->sku_count, sizeof *j->skus, compare_places);    /* several are counted at once, and end in any order */
}

void audit_judge(struct audit *a, struct ports *p)
{
    struct judging *j = calloc(1, sizeof *j);
    a->memory = arena_new(MEMORY_BYTES);
    check(a->memory.start != NULL && j != NULL);
    *j = (struct judging){.audit = a, .ports = p};
    a->findings = j->findings = arena_array(&a->memory, struct audit_finding, AUDIT_FINDINGS_MAX);
    a->skus = j->skus = arena_array(&a->memory, struct audit_sku, AUDIT_SKUS_MAX);
    check(a->findings && a->skus);
    if (list_activities(j) && judge_rules(j))
        judge_units(j);
    free(j);
}

void audit_free(struct audit *a) { arena_free(&a->memory); }

bool audit_clean(const struct audit *a) { return a->reason == REASON_OK && a->finding_count == 0 && a->drift == 0 && a->oversell == 0; }

int audit_leave(const struct audit *a)
{
    if (a->finding_count > 0 || a->drift > 0 || a->oversell > 0)
        return LEAVE_BROKEN;
    return a->reason == REASON_OK ? LEAVE_DONE : a->reason == REASON_UNKNOWN_ACTIVITY ? LEAVE_FAILED : LEAVE_UNREACHABLE;
}

/* ---- printing ------------------------------------------------------------------------------------------------------------- */

void audit_print_table(const struct audit *a, FILE *out)
{
    if (a->reason != REASON_OK)
        fprintf(out, "not proved: %s (%s)\n", reason_word(a->reason), a->unanswered);
    fprintf(out, "orders %llu (holding stock %llu) of %llu units; available %llu, released reservations %llu, outbox rows %llu\n",
            (unsigned long long)a->orders, (unsigned long long)a->holding, (unsigned long long)a->stock, (unsigned long long)a->available,
            (unsigned long long)a->released, (unsigned long long)a->outbox);
    if (a->sku_count > 0)
        fprintf(out, "S0 units in all = A for sale + R reserved + O in orders + C coming back + E unexplained; drift: units that no store or two stores claim\n"
                     "%-20s %-20s %10s = %9s + %7s + %9s + %7s + %7s %7s\n", "activity", "sku", "S0", "A", "R", "O", "C", "E", "drift");
    for (size_t i = 0; i < a->sku_count; i++) {
        const struct conservation_sku *s = &a->skus[i].count;
        fprintf(out, "%-20.*s %-20.*s %10lld = %9lld + %7lld + %9lld + %7lld + %7lld %7lld\n", STR_ARG(a->skus[i].activity), STR_ARG(s->sku), (long long)s->s0,
                (long long)s->a, (long long)s->r, (long long)s->o, (long long)s->c, (long long)s->e, (long long)s->drift);
    }
    for (size_t i = 0; i < a->finding_count; i++)
        fprintf(out, "BROKEN %-14.*s %.*s: %.*s\n", STR_ARG(a->findings[i].rule), STR_ARG(a->findings[i].subject), STR_ARG(a->findings[i].detail));
    if (a->skus_unnamed > 0)
        fprintf(out, "and %llu more SKUs\n", (unsigned long long)a->skus_unnamed);
    if (a->unnamed > 0)
        fprintf(out, "BROKEN and not named here: %llu more\n", (unsigned long long)a->unnamed);
    if (audit_clean(a))
        fputs("every rule holds: no unit is sold twice, no user has two orders for an item, no paid order is canceled, no refund is missing or doubled\n"
              "(rules H1-H11 and H14 of docs/protocol.md, section 10), and each unit is in exactly one column of S0 = A + R + O + C + E\n", out);
}

static void write_skus(const struct audit *a, struct buf *out)
{
    json_key(out, "skus");
    json_open_array(out);
    for (size_t i = 0; i < a->sku_count; i++) {
        json_open(out);
        json_member_str(out, "activity_id", a->skus[i].activity);
        conservation_sku_write(out, &a->skus[i].count);
        json_close(out);
    }
    json_close_array(out);
}

static void write_findings(const struct audit *a, struct buf *out)
{
    json_key(out, "findings");
    json_open_array(out);
    for (size_t i = 0; i < a->finding_count; i++) {
        json_open(out);
        json_member_str(out, "rule", a->findings[i].rule);
        json_member_str(out, "subject", a->findings[i].subject);
        json_member_str(out, "detail", a->findings[i].detail);
        json_close(out);
    }
    json_close_array(out);
    json_member_u64(out, "findings_unnamed", a->unnamed);
}

void audit_write_json(const struct audit *a, struct buf *out)
{
    json_open(out);
    json_member_bool(out, "clean", audit_clean(a));
    json_member_text(out, "judged", reason_word(a->reason));
    if (a->reason != REASON_OK)
        json_member_text(out, "unanswered", a->unanswered);
    json_member_u64(out, "sold", a->holding);
    json_member_u64(out, "oversell", a->oversell);
    json_member_u64(out, "duplicates", a->duplicates);
    json_member_u64(out, "drift", a->drift);
    json_member_u64(out, "stock", a->stock);
    json_member_u64(out, "available", a->available);
    json_member_u64(out, "consumed", a->consumed);
    json_member_u64(out, "orders", a->orders);
    json_member_u64(out, "released", a->released);
    json_member_u64(out, "outbox", a->outbox);
    json_member_u64(out, "undecided", a->undecided);
    json_maybe_time(out, "first_order_at", a->first_order_ms);
    json_maybe_time(out, "last_order_at", a->last_order_ms);
    write_skus(a, out);
    json_member_u64(out, "skus_unnamed", a->skus_unnamed);
    write_findings(a, out);
    json_close(out);
}

/* ---- the verb ------------------------------------------------------------------------------------------------------------- */

static int print(const struct audit *a, bool json)
{
    if (json) {
        struct buf out = buf_growing(AUDIT_JSON_MAX);
        audit_write_json(a, &out);
        check(buf_ok(&out));
        printf(STR_FMT "\n", STR_ARG(buf_str(&out)));
        buf_free(&out);
    } else {
        audit_print_table(a, stdout);
    }
    return audit_leave(a);
}

int verb_audit(const struct call *c)
{
    uv_loop_t loop;
    struct ports ports;
    char memory[1024];
    struct buf complaint = buf_fixed(memory, sizeof memory);
    if (c->argument_count > 0 && !str_is_id(str_of(c->arguments[0])))
        return call_misused(c, "\"%s\" is no id: 1 to 64 of A-Z a-z 0-9 _ -", c->arguments[0]);
    uv_loop_init(&loop);
    if (!ports_open(&ports, &loop, c->config, PORTS_STORE | PORTS_LEDGER, &complaint)) {
        ports_loop_end(&loop);
        return call_failed(c, LEAVE_CONFIG, STR_FMT, STR_ARG(buf_str(&complaint)));
    }
    struct audit a = {.activity = str_of(c->argument_count ? c->arguments[0] : NULL), .patience_ms = (uint32_t)call_number(c, "patience") * 1000};
    int leave = LEAVE_UNREACHABLE;
    if (ports_ready(&ports, 10000)) {
        audit_judge(&a, &ports);
        leave = a.reason == REASON_UNKNOWN_ACTIVITY && !c->json ? call_failed(c, LEAVE_FAILED, "there is no activity %s", c->arguments[0]) : print(&a, c->json);
        audit_free(&a);
    } else {
        call_failed(c, LEAVE_UNREACHABLE, "%s does not answer; nothing is proved either way", ports.missing);
    }
    ports_close(&ports);
    ports_loop_end(&loop);
    return leave;
}

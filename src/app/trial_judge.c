/* SPDX-License-Identifier: Apache-2.0
 * trial_judge.c: the rules (H1–H7, H10–H13), judged from outside: from what each call did when it was done, from what each client was shown,
 * and from the engines' own tables. The ledger is audited after each of its commits. Where Redis has forgotten, what it had promised may
 * be broken; what the ledger promises may not, and in the end every bucket is healed and open, and each unit sold or available. */
#include <stdio.h>
#include <stdlib.h>

#include "auditor.h"
#include "conservation.h"
#include "trial_parts.h"

struct purchase *trial_purchase(struct trial *t, int sale, int sku, const char *user, struct str request)
{
    for (size_t i = 0; i < t->purchase_count; i++) {
        struct purchase *p = &t->purchases[i];
        if (p->sale == sale && p->sku == sku && str_eq(str_of(p->user), str_of(user)) && str_eq(str_of(p->request), request))
            return p;
    }
    check(t->purchase_count < TRIAL_PURCHASES);
    struct purchase *p = &t->purchases[t->purchase_count++];
    *p = (struct purchase){.sale = sale, .sku = sku, .user = user};
    snprintf(p->request, sizeof p->request, STR_FMT, STR_ARG(request));
    return p;
}

static struct purchase *purchase_like(struct trial *t, struct str activity, struct str sku, struct str user, struct str request)
{
    for (size_t i = 0; i < t->purchase_count; i++) {
        struct purchase *p = &t->purchases[i];
        const struct sale *s = &t->sales[p->sale];
        if (str_eq(str_of(p->user), user) && str_eq(str_of(p->request), request) && str_eq(str_of(s->name), activity) && str_eq(s->skus[p->sku].sku, sku))
            return p;
    }
    return NULL;
}

/* ---- each call, when it is done ----------------------------------------------------------------------------------------------------- */

static const struct sim_inbox *verdict_on(struct trial *t, const struct purchase *p)
{
    char id[IDENT_ID_TEXT];
    ident_write(p->ident, IDENT_RESERVATION, id);
    return p->made ? sim_books_inbox(&t->books.books, (struct str){id, sizeof id}) : NULL;
}

static bool released_by_now(struct trial *t, const struct purchase *p)
{
    const struct sim_inbox *row = verdict_on(t, p);
    return row && row->outcome == REASON_RELEASED;
}

static void taken(struct trial *t, const struct reserve_ask *ask, const struct reserve_answer *answer)
{
    struct purchase *p = purchase_like(t, ask->bucket.activity, ask->sku, ask->user, ask->request);
    if (!p) {
        trial_broken(t, "H3", "a unit was taken for a wish nobody has: " STR_FMT " " STR_FMT, STR_ARG(ask->user), STR_ARG(ask->request));
        return;
    }
    if (p->made && !t->lost_us)
        trial_broken(t, "H3", "%s %s got a second reservation", p->user, p->request);
    for (size_t i = 0; i < t->purchase_count && !t->lost_us; i++) {
        const struct purchase *q = &t->purchases[i];
        if (q != p && q->made && q->sale == p->sale && q->sku == p->sku && str_eq(str_of(q->user), str_of(p->user)) && !released_by_now(t, q))
            trial_broken(t, "H2", "%s got a second unit of %s: %s and %s", p->user, t->sales[p->sale].sku_names[p->sku], q->request, p->request);
    }
    const struct sim_inbox *before = verdict_on(t, p);
    if (before && before->why == REASON_LOST)    /* who decided that could not know the request, which is therefore free again */
        memset(p->shown_us, 0, sizeof p->shown_us);
    p->made = true;
    p->times++;
    p->ident = answer->entry.ident;
    p->token = answer->entry.token;
    p->created_ms = answer->entry.created_ms;
    p->epoch = ask->bucket.epoch;
    p->made_us = t->clock.mono_us;
    t->result->reserved++;
}

/* How much of each SKU is left to sell, in all buckets together. */
static void stock_left(struct trial *t, uint64_t left[TRIAL_ACTIVITIES][TRIAL_SKUS])
{
    memset(left, 0, sizeof(uint64_t) * TRIAL_ACTIVITIES * TRIAL_SKUS);
    for (size_t b = 0; b < t->stock.count; b++) {
        const struct sim_bucket *bucket = t->stock.all[b];
        for (size_t s = 0; s < t->sale_count; s++)
            for (size_t k = 0; k < bucket->shelf_count && str_eq(bucket->activity, str_of(t->sales[s].name)); k++)
                left[s][k] += bucket->shelves[k].free.count + bucket->shelves[k].resting.count;
    }
}

static void note_empty(struct trial *t)
{
    uint64_t left[TRIAL_ACTIVITIES][TRIAL_SKUS];
    stock_left(t, left);
    for (size_t s = 0; s < t->sale_count; s++)
        for (size_t k = 0; k < t->sales[s].sku_count; k++) {
            struct sale *sale = &t->sales[s];
            sale->empty_now[k] = left[s][k] == 0 && sale->truth->state != ACTIVITY_DRAFT;
            if (sale->empty_now[k])
                sale->empty_us[k] = t->clock.mono_us;
        }
}

static void tell_call(struct process *p, char engine, const struct sim_call *call, enum sim_moment m, enum reason reason)
{
    static const char *const moments[] = {"asks", "does", "does again", "hears"};
    static const char *const engines[] = {['s'] = "redis", ['b'] = "broker", ['l'] = "postgres"};
    char what[96] = "";
    if (engine == 's' && str_eq(str_of(call->name), str_lit("reserve"))) {
        const struct reserve_ask *a = call->ask;
        snprintf(what, sizeof what, " " STR_FMT " " STR_FMT " " STR_FMT "/" STR_FMT, STR_ARG(a->user), STR_ARG(a->request), STR_ARG(a->bucket.activity), STR_ARG(a->sku));
    } else if (engine == 's' && str_eq(str_of(call->name), str_lit("look"))) {
        const struct look_ask *a = call->ask;
        snprintf(what, sizeof what, " " STR_FMT, STR_ARG(a->user));
    } else if (engine == 's' && str_eq(str_of(call->name), str_lit("settle"))) {
        const struct { const struct settle_ask *items; size_t count; } *a = call->ask;
        for (size_t i = 0, n = 0; i < a->count && n < sizeof what - 32; i++)
            n += (size_t)snprintf(what + n, sizeof what - n, " " STR_FMT "=%s", STR_ARG(a->items[i].user), reservation_state_name(a->items[i].to));
    } else if (engine == 'l' && str_eq(str_of(call->name), str_lit("place"))) {
        const struct place_ask *a = call->ask;
        for (size_t i = 0, n = 0; i < a->count && n < sizeof what - 32; i++)
            n += (size_t)snprintf(what + n, sizeof what - n, " " STR_FMT "/%lld-%u", STR_ARG(a->items[i].user), (long long)a->items[i].token.unit, a->items[i].token.generation);
    } else if (engine == 'l' && str_eq(str_of(call->name), str_lit("look"))) {
        const struct ledger_look_ask *a = call->ask;
        snprintf(what, sizeof what, " " STR_FMT " " STR_FMT, STR_ARG(a->user), STR_ARG(a->id));
    }
    trial_line(p->trial, "%-9s %s %s %s%s%s%s", p->name, m == SIM_ASKED ? "asks" : m == SIM_HEARD ? "hears of" : engines[(unsigned char)engine],
               m == SIM_ASKED || m == SIM_HEARD ? engines[(unsigned char)engine] : moments[m], call->name, what, m == SIM_ASKED ? "" : ": ",
               m == SIM_ASKED ? "" : reason_word(reason));
}

void trial_judge_call(struct process *p, char engine, const struct sim_call *call, enum sim_moment m, enum reason reason, const void *result)
{
    struct trial *t = p->trial;
    if (trial_traced(t))
        tell_call(p, engine, call, m, reason);
    if (m == SIM_HEARD && engine == 'l' && reason != REASON_OK && reason != REASON_NOT_FOUND)
        p->unasked_us = t->clock.mono_us;
    if (m != SIM_DONE && m != SIM_DONE_AGAIN)
        return;
    if (engine == 's') {
        const struct reserve_answer *answer = result;
        if (str_eq(str_of(call->name), str_lit("reserve")) && reason == REASON_QUEUED && !answer->replayed)
            taken(t, call->ask, answer);
        note_empty(t);
        t->stock_due |= (call->name[0] == 'r' || call->name[0] == 's') && t->clock.rung % 8 == 0;
    } else if (engine == 'l') {
        t->audit_due |= call->name[0] == 'p' || (call->name[0] == 'r' && call->name[1] == 'e') || str_eq(str_of(call->name), str_lit("cancel"));    /* place, park, pay, release, resolve */
    }
}

/* ---- the operator ---- */

static void is_released(struct waiter *w, enum reason reason, const void *result)
{
    (void)w, (void)reason, (void)result;    /* whatever it came to, the ledger knows */
}

bool trial_releasing(struct trial *t, size_t most)
{
    struct release_item items[16];
    char names[16][IDENT_ID_TEXT];
    size_t n = 0;
    for (size_t i = 0; i < t->purchase_count && n < most && n < countof(items) && !waiter_busy(&t->operator); i++) {
        struct purchase *q = &t->purchases[(i * 7 + t->clock.rung) % t->purchase_count];
        if (!q->made || verdict_on(t, q) || q->epoch == 0)
            continue;
        ident_write(q->ident, IDENT_RESERVATION, names[n]);
        items[n] = (struct release_item){.why = REASON_OVERDUE, .what = {
            .schema_version = 1, .request = str_of(q->request), .reservation = {names[n], IDENT_ID_TEXT}, .activity = str_of(t->sales[q->sale].name),
            .sku = t->sales[q->sale].skus[q->sku].sku, .user = str_of(q->user), .token = q->token, .created_ms = q->created_ms, .epoch = q->epoch}};
        trial_line(t, "---------  the operator releases %s of %s", q->request, q->user);
        q->released = t->releases = true;
        n++;
    }
    if (n == 0)
        return false;
    struct release_ask ask = {.items = items, .count = n};
    t->operator = (struct waiter){.wake = is_released};
    ledger_release(&t->processes[t->process_count - 1].ledger.ledger, &ask, &t->operator);
    return true;
}

/* ---- the tables --------------------------------------------------------------------------------------------------------------------- */

/* "Not found" is final: what it was said of never becomes an order, also where Redis forgot it and its message was read later. */
static void judge_denied(struct trial *t, struct str reservation)
{
    struct ident ident;
    if (!ident_parse(reservation, IDENT_RESERVATION, &ident))
        return;
    for (size_t i = 0; i < t->purchase_count; i++)
        if (ident_read(t->purchases[i].denied).activity != 0 && ident_eq(t->purchases[i].denied, ident))
            trial_broken(t, "H12", "%s was told NOT_FOUND of %s, and " STR_FMT " is ordered later", t->purchases[i].user, t->purchases[i].request, STR_ARG(reservation));
}

static void look_at_ledger(struct trial *t)
{
    struct sim_books *b = &t->books.books;
    struct sim_ground ground = {0};
    struct audit_answer a = sim_books_audit(b, (struct str){0}, &ground);
    if (a.count > 0)
        trial_broken(t, "audit", STR_FMT ": " STR_FMT ", " STR_FMT, STR_ARG(a.findings[0].rule), STR_ARG(a.findings[0].subject), STR_ARG(a.findings[0].detail));
    sim_ground_free(&ground);
    for (size_t i = 0; i < t->verdict_count; i++)
        if (b->inbox[i]->outcome != t->verdicts[i])
            trial_broken(t, "H7", "the verdict on " STR_FMT " changed", STR_ARG(b->inbox[i]->what.reservation));
    if (b->inbox_count > t->verdict_cap) {
        t->verdict_cap = 2 * b->inbox_count;
        t->verdicts = realloc(t->verdicts, t->verdict_cap * sizeof *t->verdicts);
        check(t->verdicts != NULL);
    }
    for (; t->verdict_count < b->inbox_count; t->verdict_count++) {
        const struct sim_inbox *row = b->inbox[t->verdict_count];
        t->verdicts[t->verdict_count] = row->outcome;
        if (row->outcome == REASON_ORDERED)
            judge_denied(t, row->what.reservation);
        if (row->outcome == REASON_RELEASED && !t->lost_us && row->why != REASON_OVERDUE)
            trial_broken(t, "H7", STR_FMT " of " STR_FMT " was released (%s) though nothing was ever lost", STR_ARG(row->what.reservation),
                         STR_ARG(row->what.user), reason_word(row->why));
    }
}

/* H11 while Redis has lost nothing: what stands to be sold is AVAILABLE in the ledger at that generation, and stands nowhere else. */
static void look_at_stock(struct trial *t)
{
    struct sim_books *b = &t->books.books;
    bool held[TRIAL_ACTIVITIES * TRIAL_SKUS * 16] = {0};
    for (size_t i = 0; i < t->stock.count; i++) {
        const struct sim_bucket *bucket = t->stock.all[i];
        for (size_t k = 0; k < bucket->copy_count; k++) {
            const struct sim_copy *c = bucket->copies[k];
            const struct sim_unit *u = sim_books_unit(b, c->token.unit);
            if (c->where == SIM_ABSENT)
                continue;
            if (!u || u->consumed || u->token.generation != c->token.generation)
                trial_broken(t, "H11", "unit %lld-%u is for sale and not available", (long long)c->token.unit, c->token.generation);
            else if (held[c->token.unit])
                trial_broken(t, "H11", "unit %lld is for sale twice", (long long)c->token.unit);
            held[c->token.unit] = true;
        }
        for (size_t k = 0; k < bucket->record_count; k++)
            for (const struct sim_entry *e = bucket->records[k]->newest; e; e = e->older) {
                const struct sim_unit *u = sim_books_unit(b, e->entry.token.unit);
                if (reservation_state_terminal(e->entry.state) || !u || u->token.generation != e->entry.token.generation)
                    continue;    /* decided, or released and on its way back */
                if (held[e->entry.token.unit])
                    trial_broken(t, "H11", "unit %lld is reserved and elsewhere too", (long long)e->entry.token.unit);
                held[e->entry.token.unit] = true;
            }
    }
}

void trial_judge_look(struct trial *t)
{
    if (t->audit_due)
        look_at_ledger(t);
    if (!t->lost_us)
        look_at_stock(t);
    t->audit_due = t->stock_due = false;
}

/* Whatever lies in a queue before the offset that the ledger holds has been decided, or given to a person: nothing is skipped. A message whose unit was held is
 * placed again by its consumer, or, where the answer that said so was lost, announced again by the janitor: that it is decided in the end is judged elsewhere. */
void trial_judge_read(struct trial *t)
{
    struct str group = str_lit(MESSAGE_GROUP), broker = str_lit("memory"), topic = str_lit(MESSAGE_TOPIC);
    t->read_judged = true;
    for (int32_t n = 0; n < TRIAL_QUEUES; n++) {
        struct sim_key k;
        const struct sim_queue *q = sim_bus_queue(&t->bus, topic, n);
        const struct sim_offset *o = sim_map_get(&t->books.books.offset_by_queue, sim_key(&k, group, broker, topic, sim_bytes(&n, sizeof n)));
        for (int64_t at = q->min; o && at < o->next && at < (int64_t)q->count; at++) {
            char memory[1024];
            struct arena arena = {.start = memory, .cap = sizeof memory};
            struct create_order m;
            if (message_read(q->messages[at].body, &arena, &m) == REASON_OK && !sim_books_inbox(&t->books.books, m.reservation) &&
                !sim_map_get(&t->books.books.held_by_reservation, m.reservation))
                trial_broken(t, "skipped", "message %lld of queue %d is read and not decided: " STR_FMT " of " STR_FMT, (long long)at, n, STR_ARG(m.reservation),
                             STR_ARG(m.user));
        }
    }
}

/* ---- what a client is shown ----------------------------------------------------------------------------------------------------------- */

static struct str text_of(struct ident ident, char memory[IDENT_ID_TEXT])
{
    ident_write(ident, IDENT_RESERVATION, memory);
    return (struct str){memory, IDENT_ID_TEXT};
}

static struct purchase *purchase_of(struct trial *t, struct ident ident)
{
    for (size_t i = 0; i < t->purchase_count; i++)
        if (t->purchases[i].made && ident_eq(t->purchases[i].ident, ident))
            return &t->purchases[i];
    return NULL;
}

/* H12: no answer to a call begun after another had ended shows less than that one had; and a terminal answer is the ledger's. */
static void shown(struct person *p, struct ident ident, enum reservation_state state)
{
    struct trial *t = p->trial;
    struct purchase *q = purchase_of(t, ident);
    int rank = reservation_state_rank(state);
    char id[IDENT_ID_TEXT];
    struct str name = text_of(ident, id);
    const struct sim_inbox *verdict = sim_books_inbox(&t->books.books, name);
    if (reservation_state_terminal(state) && (!verdict || (verdict->outcome == REASON_ORDERED) != (state == RESERVATION_ORDERED)))
        trial_broken(t, "H7", "%s is shown %s, the ledger says %s", p->user, reservation_state_name(state), verdict ? reason_word(verdict->outcome) : "nothing");
    if (!q) {
        if (!t->lost_us)
            trial_broken(t, "H12", "%s is shown a reservation nobody made: " STR_FMT, p->user, STR_ARG(name));
        return;
    }
    if (!str_eq(str_of(q->user), str_of(p->user)))
        trial_broken(t, "H12", "%s is shown the reservation of %s", p->user, q->user);
    bool unknown = state == RESERVATION_RECONCILING && p->by->unasked_us >= p->began_us;    /* H12 allows it: who must ask the ledger could not */
    for (int r = rank + 1; r < TRIAL_RANKS && !unknown; r++)
        if (q->shown_us[r] != 0 && q->shown_us[r] < p->began_us && (t->lost_us == 0 || t->lost_us < q->shown_us[r]))
            trial_broken(t, "H12", "%s is shown %s of %s after a state of rank %d at %.3f ms", p->user, reservation_state_name(state), q->request, r,
                         (double)q->shown_us[r] / 1000);
    if (reservation_state_terminal(state) && q->shown_us[rank] != 0 && ident_eq(q->ending_of, ident) && q->ending != state)
        trial_broken(t, "H12", "%s is shown %s of %s after %s", p->user, reservation_state_name(state), q->request, reservation_state_name(q->ending));
    if (q->shown_us[rank] == 0)
        q->shown_us[rank] = t->clock.mono_us;
    if (reservation_state_terminal(state))
        q->ending = state, q->ending_of = ident;
    q->acknowledged = true;
}

/* Whether the sale is over by any clock that may say so. */
static bool may_have_ended(const struct trial *t, const struct purchase *q) { return t->sales[q->sale].truth->state == ACTIVITY_CLOSED; }

static void refused(struct person *p)
{
    struct trial *t = p->trial;
    const struct purchase *q = p->now;
    const struct sale *s = &t->sales[q->sale];
    enum reason reason = p->take.reason;
    bool unknown = reason_fate(reason) == FATE_UNKNOWN || reason == REASON_DEPENDENCY_DOWN || reason == REASON_OVERLOADED;
    if (p->made_before && !unknown)
        trial_broken(t, "H12", "%s has a reservation of %s and is told %s", p->user, q->request, reason_word(reason));
    if (reason == REASON_SOLD_OUT && !s->empty_now[q->sku] && s->empty_us[q->sku] + 350000 < p->began_us)
        trial_broken(t, "SOLD_OUT", "%s is told so, and %s/%s was last empty at %.3f ms", p->user, s->name, s->sku_names[q->sku], (double)s->empty_us[q->sku] / 1000);
    if (reason == REASON_ENDED && !may_have_ended(t, q))
        trial_broken(t, "ENDED", "%s is told so of %s, which goes on", p->user, s->name);
    if (reason == REASON_UNKNOWN_ACTIVITY || reason == REASON_INVALID_REQUEST)
        trial_broken(t, "answer", "%s is told %s", p->user, reason_word(reason));
    if (reason == REASON_IDEMPOTENCY_CONFLICT) {
        bool other = false;
        for (size_t i = 0; i < t->purchase_count; i++) {
            const struct purchase *o = &t->purchases[i];
            other |= o != q && o->made && o->sale == q->sale && str_eq(str_of(o->user), str_of(q->user)) && str_eq(str_of(o->request), str_of(q->request));
        }
        if (!other)
            trial_broken(t, "answer", "%s is told of a conflict of %s with nothing", p->user, q->request);
    }
}

void trial_judge_take(struct person *p)
{
    struct trial *t = p->trial;
    const struct take *take = &p->take;
    char id[IDENT_ID_TEXT];
    trial_line(t, "%-9s hears %s %s%s", p->user, reason_word(take->reason), take->has_entry ? reservation_state_name(take->entry.state) : "",
               take->replayed ? " (again)" : "");
    if (!take->has_entry) {
        if (!t->lost_us)
            refused(p);
        return;
    }
    bool other = take->reason == REASON_ALREADY_PURCHASED;
    struct purchase *q = purchase_of(t, take->entry.ident);
    if (!str_eq(take->entry.sku, t->sales[p->now->sale].skus[p->now->sku].sku) || (!other && !t->lost_us && q != p->now))
        trial_broken(t, "H3", "%s buys %s and is given " STR_FMT, p->user, p->now->request, STR_ARG(text_of(take->entry.ident, id)));
    if (other && q == p->now)
        trial_broken(t, "answer", "%s is told ALREADY_PURCHASED of %s itself", p->user, p->now->request);
    if (other && p->made_before && !t->lost_us)
        trial_broken(t, "H12", "%s has a reservation of %s and is told of another", p->user, p->now->request);
    if (!other && take->reason != (take->entry.state == RESERVATION_ORDERED ? REASON_ORDERED : take->entry.state == RESERVATION_RELEASED ? REASON_RELEASED : REASON_QUEUED))
        trial_broken(t, "answer", "%s is told %s with %s", p->user, reason_word(take->reason), reservation_state_name(take->entry.state));
    if (!other)    /* with ALREADY_PURCHASED a client is told the name alone */
        shown(p, take->entry.ident, take->entry.state);
    else if (q && !str_eq(str_of(q->user), str_of(p->user)))
        trial_broken(t, "H12", "%s is told of the reservation of %s", p->user, q->user);
}

void trial_judge_query(struct person *p)
{
    struct trial *t = p->trial;
    const struct query *q = &p->query;
    struct ident ident;
    trial_line(t, "%-9s hears %s %s", p->user, reason_word(q->reason), q->reason == REASON_OK ? reservation_state_name(q->view.status) : "");
    if (q->reason == REASON_NOT_FOUND) {
        if (q->by == QUERY_RESERVATION || (p->made_before && !t->lost_us))
            trial_broken(t, "H12", "%s has a reservation of %s and is told NOT_FOUND", p->user, p->now->request);
        if (p->made_before)
            p->now->denied = p->now->ident;
        return;
    }
    if (q->reason != REASON_OK) {
        if (q->reason != REASON_DEPENDENCY_DOWN && q->reason != REASON_OVERLOADED && q->reason != REASON_REQUEST_UNDECIDED)
            trial_broken(t, "answer", "%s asks and is told %s", p->user, reason_word(q->reason));
        return;
    }
    if (!ident_parse(q->view.reservation, IDENT_RESERVATION, &ident)) {
        trial_broken(t, "answer", "%s is shown no reservation", p->user);
        return;
    }
    if (q->by == QUERY_RESERVATION && !str_eq(q->view.reservation, q->id))
        trial_broken(t, "answer", "%s asks of one reservation and is shown another", p->user);
    shown(p, ident, q->view.status);
}

/* ---- the end ----------------------------------------------------------------------------------------------------------------------- */

/* Open, and where it has been counted, in the server that the ledger knows. */
static bool is_whole(struct trial *t, const struct sim_bucket *b)
{
    struct str recorded = sim_books_incarnation(&t->books.books, &(struct bucket){b->activity, b->epoch, b->number});
    return !b->mark[0] && (!b->seeded || str_eq(recorded, str_of(t->stock.incarnation)));
}

bool trial_judge_quiet(struct trial *t)
{
    if (t->books.books.outbox_count > 0)
        return false;
    for (size_t i = 0; i < t->stock.count && !t->emptied; i++)
        if (!is_whole(t, t->stock.all[i]))
            return false;
    for (size_t i = 0; i < t->stock.count; i++)
        if (t->stock.all[i]->turns.count > 0)
            return false;
    return true;
}

static void counted(struct conservation *c) { c->activity = (struct str){0}; }
static bool count_ended(void *c) { return ((struct conservation *)c)->activity.len == 0; }

/* Units come back by the auditor, in its time: nobody who lived could know that Redis had gone back, so that no bucket was closed; or entries were lost, and nobody
 * names the units that they held. */
static bool unseen(const struct trial *t)
{
    if (t->users_lost)
        return true;
    for (size_t i = 0; i < t->slip_count; i++)
        if (t->slips[i].knowers == 0)
            return true;
    return false;
}

/* Each unit is somewhere, once, and nothing is on its way. With `last` it must be so. */
static bool units_add_up(struct trial *t, struct sale *s, struct process *by, bool last)
{
    struct conservation_options options = conservation_options_default();
    struct conservation c = {.activity = str_of(s->name), .done = counted};
    bool started = conservation_start(&c, &by->store.store, &by->ledger.ledger, &t->clock.clock, &options), good = true;
    check(started);
    bool ended = sim_clock_run(&t->clock, count_ended, &c, 120ull * SECOND_US);
    if (!ended || c.reason != REASON_OK)
        trial_broken(t, "conservation", "the count of %s ended with %s", s->name, ended ? reason_word(c.reason) : "nothing");
    for (size_t i = 0; ended && i < c.sku_count; i++) {
        const struct conservation_sku *k = &c.skus[i];
        if (k->s0 == k->a + k->r + k->o + k->c + k->e && k->drift == 0 && k->r == 0 && k->c == 0)
            continue;
        good = false;
        if (last)
            trial_broken(t, "conservation", "%s/" STR_FMT ": S0 %lld A %lld R %lld O %lld C %lld E %lld drift %lld", s->name, STR_ARG(k->sku), (long long)k->s0,
                         (long long)k->a, (long long)k->r, (long long)k->o, (long long)k->c, (long long)k->e, (long long)k->drift);
    }
    conservation_close(&c);
    return good;
}

static void judge_units(struct trial *t, struct sale *s, struct process *by)
{
    const struct auditor_options auditor = auditor_options_default();
    uint64_t until_us = t->clock.mono_us + (unseen(t) ? ((uint64_t)auditor.missing_ms + 10ull * auditor.every_ms) * 1000 : 0);
    while (t->clock.mono_us < until_us && !units_add_up(t, s, by, false))
        sim_clock_run_until(&t->clock, t->clock.mono_us + (uint64_t)auditor.every_ms * 1000);
    units_add_up(t, s, by, true);
}

static bool unit_left(const struct trial *t, const struct purchase *q, uint8_t bucket)
{
    const struct sku *sku = &t->sales[q->sale].truth->skus[q->sku];
    for (int64_t u = sku->unit_first; u < sku->unit_first + sku->stock; u++) {
        const struct sim_unit *unit = &t->books.books.units[u - 1];
        if (!unit->consumed && unit->home == bucket)
            return true;
    }
    return false;
}

/* Whether an order of it was cancelled: then units came back after somebody had gone. */
static bool had_cancels(const struct trial *t, const struct sale *s)
{
    for (size_t i = 0; i < t->books.books.order_count; i++)
        if (t->books.books.orders[i]->order.state == ORDER_CANCELED && str_eq(t->books.books.orders[i]->order.activity, str_of(s->name)))
            return true;
    return false;
}

/* Who went away with empty hands did so because nothing was left in his bucket. */
static void judge_people(struct trial *t)
{
    for (size_t i = 0; i < t->person_count; i++) {
        const struct person *p = &t->people[i];
        const struct sale *s = &t->sales[p->now->sale];
        if ((p->answer != REASON_SOLD_OUT && p->answer != REASON_STOCK_MOVING) || had_cancels(t, s))
            continue;
        uint8_t bucket = user_bucket(user_hash(&t->keys, str_of(p->user)), s->buckets);
        if (unit_left(t, p->now, bucket))
            trial_broken(t, "unsold", "%s got nothing of %s/%s, and his bucket still has some", p->user, s->name, s->sku_names[p->now->sku]);
    }
}

static void judge_purchases(struct trial *t)
{
    for (size_t i = 0; i < t->purchase_count; i++) {
        const struct purchase *q = &t->purchases[i];
        char id[IDENT_ID_TEXT];
        const struct sim_inbox *row = q->made ? sim_books_inbox(&t->books.books, text_of(q->ident, id)) : NULL;
        if (q->made && !row)
            trial_broken(t, "H13", "%s %s (" STR_FMT ") never ended", q->user, q->request, STR_ARG(text_of(q->ident, id)));
    }
    for (size_t i = 0; i < t->books.books.review_count; i++)
        if (t->books.books.reviews[i]->kind != REVIEW_PAYMENT)    /* who pays too little is a person's business */
            trial_broken(t, "H13", "something waits for a person");
}

/* Whatever Redis had forgotten, every bucket has been told again and is open, in the server that the ledger knows. */
static void judge_healed(struct trial *t)
{
    if (t->lost_us && !trial_judge_quiet(t))
        trial_broken(t, "heal", "a reservation or an outbox row is left over");
    for (size_t i = 0; i < t->stock.count; i++) {
        const struct sim_bucket *b = t->stock.all[i];
        struct str recorded = sim_books_incarnation(&t->books.books, &(struct bucket){b->activity, b->epoch, b->number});
        if (!is_whole(t, b))
            trial_broken(t, "heal", STR_FMT "/%u is in %s, closed as '%s', and the ledger knows " STR_FMT, STR_ARG(b->activity), b->number, t->stock.incarnation, b->mark,
                         STR_ARG(recorded));
    }
}

void trial_judge_end(struct trial *t)
{
    t->audit_due = true;
    trial_judge_look(t);
    for (size_t i = 0; i < t->books.books.inbox_count; i++)
        *(t->books.books.inbox[i]->outcome == REASON_ORDERED ? &t->result->ordered : &t->result->released) += 1;
    if (t->emptied)
        return;
    judge_healed(t);
    for (size_t i = 0; i < t->sale_count && t->lost_us && !t->result->broken; i++)    /* sold or available, whatever was forgotten */
        judge_units(t, &t->sales[i], &t->processes[t->process_count - 1]);
    if (t->lost_us)
        return;
    judge_purchases(t);
    trial_money_judge(t);
    if (!t->releases)    /* else units came back after somebody had gone */
        judge_people(t);
    for (size_t i = 0; i < t->sale_count && !t->result->broken; i++)
        judge_units(t, &t->sales[i], &t->processes[t->process_count - 1]);
}

/* SPDX-License-Identifier: Apache-2.0
 * sim_audit.c: the rules that the ledger can judge alone, judged from its rows and from nothing it remembers beside them. Each rule has a test that plants its fault. */
#include "sim_books.h"

struct audit {
    const struct sim_books *books;
    struct str activity;             /* empty: all; LEDGER_AUDIT_REST: what is of none */
    struct sim_ground *ground;
    struct finding *findings;
    struct audit_answer answer;
};

static void found(struct audit *a, const char *rule, struct str subject, const char *detail)
{
    if (a->answer.count < SIM_FINDINGS_MAX)
        a->findings[a->answer.count++] = (struct finding){.rule = str_of(rule), .subject = subject, .detail = str_of(detail)};
}

static struct str unit_name(struct audit *a, struct token t)
{
    struct buf name = buf_fixed(sim_take(a->ground, 48), 48);
    buf_add_fmt(&name, "token_%06lld-%u", (long long)t.unit, t.generation);
    return buf_str(&name);
}

static bool concerns(const struct audit *a, struct str activity) { return a->activity.len == 0 || str_eq(a->activity, activity); }

/* Whether the name was seen before; now it has been. */
static bool seen(struct sim_map *map, struct sim_ground *ground, const struct str *parts, size_t count, const void *value)
{
    struct sim_key k;
    check(sim_key_join(&k, parts, count));
    if (sim_map_get(map, k.str))
        return true;
    sim_map_put(map, sim_text(ground, k.str), (void *)(uintptr_t)value);
    return false;
}
#define SEEN_BEFORE(map, value, ...) \
    seen((map), a->ground, (const struct str[]){__VA_ARGS__}, countof(((const struct str[]){__VA_ARGS__})), (value))

static void judge_order(struct audit *a, struct sim_map maps[4], const struct order *o)
{
    if (SEEN_BEFORE(&maps[0], o, o->activity, o->sku, o->user))
        found(a, "H2", o->order, "a second order of the user for this SKU");
    if (SEEN_BEFORE(&maps[1], o, o->reservation))
        found(a, "H4", o->order, "a second order of the reservation");
    if (SEEN_BEFORE(&maps[2], o, sim_bytes(&o->token.unit, sizeof o->token.unit), sim_bytes(&o->token.generation, sizeof o->token.generation)))
        found(a, "H5", unit_name(a, o->token), "bound to two reservations");
    if (SEEN_BEFORE(&maps[3], o, o->activity, o->user, o->request))
        found(a, "H3", o->request, "two reservations of the request are ORDERED");
    if (o->paid_ms && (o->state == ORDER_CANCELING || o->state == ORDER_CANCELED))
        found(a, "H8", o->order, "paid and cancelled");
}

static void judge_orders(struct audit *a)
{
    struct sim_map maps[4] = {0};
    for (size_t i = 0; i < a->books->order_count; i++) {
        const struct order *o = &a->books->orders[i]->order;
        if (!concerns(a, o->activity))
            continue;
        judge_order(a, maps, o);
        a->answer.orders++;
        a->answer.holding += order_state_holds_stock(o->state);
        if (!a->answer.first_order_ms || o->created_ms < a->answer.first_order_ms)
            a->answer.first_order_ms = o->created_ms;
        if (o->created_ms > a->answer.last_order_ms)
            a->answer.last_order_ms = o->created_ms;
    }
    for (size_t i = 0; i < countof(maps); i++)
        sim_map_free(&maps[i]);
}

/* ORDERED ⇔ an order of the reservation. */
static void judge_verdicts(struct audit *a)
{
    struct sim_map orders = {0}, verdicts = {0};
    for (size_t i = 0; i < a->books->order_count; i++)
        SEEN_BEFORE(&orders, a, a->books->orders[i]->order.reservation);
    for (size_t i = 0; i < a->books->inbox_count; i++) {
        const struct sim_inbox *row = a->books->inbox[i];
        struct sim_key k;
        if (!concerns(a, row->what.activity))
            continue;
        bool ordered = row->outcome == REASON_ORDERED, has_order = sim_map_get(&orders, sim_key(&k, row->what.reservation)) != NULL;
        if (ordered != has_order)
            found(a, "H7", row->what.reservation, ordered ? "ORDERED without an order" : "RELEASED and ordered");
        if (SEEN_BEFORE(&verdicts, row, row->what.reservation))
            found(a, "H7", row->what.reservation, "two verdicts");
        a->answer.released += !ordered;
    }
    for (size_t i = 0; i < a->books->order_count; i++) {
        struct sim_key k;
        const struct order *o = &a->books->orders[i]->order;
        if (concerns(a, o->activity) && !sim_map_get(&verdicts, sim_key(&k, o->reservation)))
            found(a, "H7", o->order, "an order without a verdict");
    }
    sim_map_free(&orders);
    sim_map_free(&verdicts);
}

/* A unit is consumed exactly while one order that holds stock has it, at a generation it has had. */
static void judge_units(struct audit *a)
{
    struct sim_map holders = {0};
    for (size_t i = 0; i < a->books->order_count; i++) {
        const struct order *o = &a->books->orders[i]->order;
        if (order_state_holds_stock(o->state) && SEEN_BEFORE(&holders, o, sim_bytes(&o->token.unit, sizeof o->token.unit)) &&
            concerns(a, o->activity))
            found(a, "H1", unit_name(a, o->token), "held by two orders");
    }
    for (size_t i = 0; i < a->books->unit_count; i++) {
        const struct sim_unit *u = &a->books->units[i];
        struct sim_key k;
        if (!concerns(a, u->activity->activity))
            continue;
        const struct order *o = sim_map_get(&holders, sim_key(&k, sim_bytes(&u->token.unit, sizeof u->token.unit)));
        a->answer.consumed += u->consumed;
        a->answer.available += !u->consumed;
        if (u->consumed != (o != NULL))
            found(a, "H10", unit_name(a, u->token), u->consumed ? "consumed by no order" : "available and held by an order");
        if (o && o->token.generation > u->token.generation)
            found(a, "H6", unit_name(a, u->token), "below the generation of its order");
    }
    for (size_t i = 0; i < a->books->order_count; i++) {
        const struct sim_order *o = a->books->orders[i];
        size_t u = (size_t)o->order.token.unit - 1;
        if (concerns(a, o->order.activity) && o->order.state == ORDER_CANCELED && u < a->books->unit_count &&
            (o->raised <= o->order.token.generation || a->books->units[u].token.generation < o->raised))
            found(a, "H6", unit_name(a, o->order.token), "not raised by the cancel of its order");
    }
    sim_map_free(&holders);
}

static void judge_stock(struct audit *a)
{
    for (size_t i = 0; i < a->books->activity_count; i++) {
        const struct activity *activity = a->books->activities[i];
        if (!concerns(a, activity->activity))
            continue;
        for (size_t s = 0; s < activity->sku_count; s++) {
            const struct sku *sku = &activity->skus[s];
            int64_t own = 0;
            for (int64_t unit = sku->unit_first; unit < sku->unit_first + sku->stock; unit++)
                own += (uint64_t)unit <= a->books->unit_count && a->books->units[unit - 1].activity == activity && a->books->units[unit - 1].sku == s;
            a->answer.stock += (uint64_t)sku->stock;
            if (own != sku->stock)
                found(a, "H10", sku->sku, "AVAILABLE + CONSUMED is not S0");
        }
    }
}

static const struct sim_order *order_named(const struct audit *a, struct str id)
{
    for (size_t i = 0; i < a->books->order_count; i++)
        if (str_eq(a->books->orders[i]->order.order, id))
            return a->books->orders[i];
    return NULL;
}

static bool outbox_asks(const struct audit *a, const struct sim_payment *p)
{
    list_each(at, &a->books->outbox) {
        const struct sim_row *row = list_entry(at, struct sim_row, link);
        if (row->kind == OUTBOX_REFUND && row->refund == p)
            return true;
    }
    return false;
}

static bool person_called(const struct audit *a, struct str record)
{
    for (size_t i = 0; i < a->books->review_count; i++)
        if (a->books->reviews[i]->kind == REVIEW_PAYMENT && str_eq(a->books->reviews[i]->record, record))
            return true;
    return false;
}

/* Whether no order will come under this name. */
static bool released(const struct audit *a, struct str order)
{
    for (size_t i = 0; i < a->books->inbox_count; i++) {
        const struct sim_inbox *x = a->books->inbox[i];
        size_t skip = str_starts(x->what.reservation, str_lit("rsv_")) ? 4 : 0;
        struct str rest = {x->what.reservation.ptr + skip, x->what.reservation.len - skip};
        if (x->outcome == REASON_RELEASED && str_starts(order, str_lit("ord_")) && str_eq(rest, (struct str){order.ptr + 4, order.len - 4}))
            return true;
    }
    return false;
}

static bool pays(const struct sim_order *o, const struct sim_payment *p)
{
    return o && o->order.state == ORDER_PAID && str_eq(o->payment, p->name);
}

/* Each SUCCESS pays its order, or goes back once, or waits for a person. */
static void judge_payment(struct audit *a, const struct sim_order *o, const struct sim_payment *p)
{
    const struct payment_record *r = &p->record;
    bool money = r->what.result == PAYMENT_SUCCESS, aside = r->disposition == REASON_PAYMENT_QUARANTINED, back = r->refund != REFUND_NONE;
    if (money && r->disposition == REASON_PAYMENT_APPLIED && o && o->order.state != ORDER_PAID)
        found(a, "H8", o->order.order, "a payment was applied, the order is not PAID");
    if (money && !back && !aside && !pays(o, p))
        found(a, "H9", r->what.payment, "money, and no refund was asked for");
    if (back && (pays(o, p) || !money))
        found(a, "H9", r->what.payment, "refunded, and it pays its order or never succeeded");
    if ((r->refund == REFUND_REQUESTED) != outbox_asks(a, p))
        found(a, "H9", r->what.payment, "its refund and the outbox disagree");
    if (money && !back && !o && released(a, r->what.order))
        found(a, "H9", r->what.payment, "set aside for a RELEASED reservation, and not given back");
    if (aside && !back && !person_called(a, p->name))
        found(a, "money", r->what.payment, "set aside, and no person was called");
}

static void judge_paid(struct audit *a, const struct sim_order *o)
{
    const struct sku *sku = NULL;
    const struct sim_payment *by = NULL;
    for (size_t i = 0; i < a->books->activity_count; i++)
        for (size_t s = 0; s < a->books->activities[i]->sku_count; s++)
            if (str_eq(a->books->activities[i]->activity, o->order.activity) && str_eq(a->books->activities[i]->skus[s].sku, o->order.sku))
                sku = &a->books->activities[i]->skus[s];
    if (sku && (o->order.amount != sku->price || !str_eq(o->order.currency, sku->currency)))
        found(a, "money", o->order.order, "does not cost what the item does");
    for (size_t i = 0; i < a->books->payment_count && o->payment.len > 0; i++)
        if (str_eq(a->books->payments[i]->name, o->payment))
            by = a->books->payments[i];
    const struct payment_record *r = by ? &by->record : NULL;
    bool good = r && r->what.result == PAYMENT_SUCCESS && r->disposition == REASON_PAYMENT_APPLIED && str_eq(r->what.order, o->order.order) &&
                r->what.amount == o->order.amount && str_eq(r->what.currency, o->order.currency);
    bool free = o->order.amount == 0 && o->payment.len == 0;    /* what costs nothing needs no payment */
    if ((o->order.state == ORDER_PAID && !good && !free) || (o->order.state != ORDER_PAID && o->payment.len > 0))
        found(a, "H8", o->order.order, "PAID, and not by one payment that succeeded");
}

/* Per currency: what came in = paid orders + refunds + what is set aside. */
struct till {
    struct str currency;
    int64_t came, gone;
};
static struct till *till_of(struct till *tills, size_t *count, struct str currency)
{
    for (size_t i = 0; i < *count; i++)
        if (str_eq(tills[i].currency, currency))
            return &tills[i];
    tills[*count].currency = currency;
    return &tills[(*count)++];
}

static void judge_money(struct audit *a)
{
    struct till *tills = sim_array(a->ground, struct till, a->books->order_count + a->books->payment_count + 1);
    size_t count = 0;
    for (size_t i = 0; i < a->books->payment_count; i++) {
        const struct sim_payment *p = a->books->payments[i];
        const struct sim_order *o = order_named(a, p->record.what.order);
        if (a->activity.len > 0 && !(o ? concerns(a, o->order.activity) : str_eq(a->activity, str_lit(LEDGER_AUDIT_REST))))
            continue;
        judge_payment(a, o, p);
        if (p->record.what.result != PAYMENT_SUCCESS)
            continue;
        struct till *t = till_of(tills, &count, p->record.what.currency);
        t->came += p->record.what.amount;
        if (p->record.refund != REFUND_NONE || p->record.disposition == REASON_PAYMENT_QUARANTINED)
            t->gone += p->record.what.amount;
    }
    for (size_t i = 0; i < a->books->order_count; i++) {
        const struct sim_order *o = a->books->orders[i];
        if (!concerns(a, o->order.activity))
            continue;
        judge_paid(a, o);
        if (o->order.state == ORDER_PAID)
            till_of(tills, &count, o->order.currency)->gone += o->order.amount;
    }
    for (size_t i = 0; i < count; i++)
        if (tills[i].came != tills[i].gone)
            found(a, "money", tills[i].currency, "what came in is not paid orders + refunds + set aside");
}

/* At every prefix of the journal: a unit is consumed at most once until it is freed, and its generations only grow. */
static void judge_journal(struct audit *a)
{
    size_t n = a->books->unit_count;
    uint32_t *highest = sim_array(a->ground, uint32_t, n);
    bool *held = sim_array(a->ground, bool, n);
    for (size_t i = 0; i < a->books->journal_count; i++) {
        const struct sim_journal *j = &a->books->journal[i];
        size_t u = (size_t)j->unit - 1;
        if (u >= n || !concerns(a, a->books->units[u].activity->activity))
            continue;
        struct token t = {.unit = j->unit, .generation = j->generation};
        if (j->change == SIM_CONSUMED && held[u])
            found(a, "H1", unit_name(a, t), "consumed twice");
        if (j->change == SIM_CONSUMED ? j->generation < highest[u] : j->generation <= highest[u])
            found(a, "H6", unit_name(a, t), "its generation did not grow");
        if (j->generation > a->books->units[u].token.generation)
            found(a, "H6", unit_name(a, t), "above the unit's present generation");
        held[u] = j->change == SIM_CONSUMED ? true : j->change == SIM_FREED ? false : held[u];
        highest[u] = j->generation > highest[u] ? j->generation : highest[u];
    }
}

struct audit_answer sim_books_audit(const struct sim_books *b, struct str activity, struct sim_ground *ground)
{
    struct audit a = {.books = b, .activity = activity, .ground = ground};
    if (str_eq(activity, str_lit(LEDGER_AUDIT_REST)))    /* the totals of everything, and the money of no order: here nothing else can be of no activity */
        a.answer = sim_books_audit(b, (struct str){0}, ground);
    a.findings = sim_array(ground, struct finding, SIM_FINDINGS_MAX);
    a.answer.findings = a.findings;
    a.answer.count = 0;
    if (str_eq(activity, str_lit(LEDGER_AUDIT_REST))) {
        judge_money(&a);
        return a.answer;
    }
    judge_stock(&a);
    judge_units(&a);
    judge_orders(&a);
    judge_verdicts(&a);
    judge_journal(&a);
    judge_money(&a);
    list_each(at, &b->outbox) {
        const struct sim_row *row = list_entry(at, struct sim_row, link);
        a.answer.outbox += activity.len == 0 || (row->activity && str_eq(row->activity->activity, activity));
    }
    return a.answer;
}

/* SPDX-License-Identifier: Apache-2.0
 * heal.c: the calls by which a bucket that has forgotten is told again, and the life of its server recorded: heal.sql; and
 * units that a count could not attribute are mended: repair.sql. */
#include "inside.h"

enum { HEALED_RESULT, HEALED_TOLD, HEALED_WAITING, HEALED_MORE, HEALED_HEALED };

static void heal_decode(struct call *c, const PGresult *r)
{
    struct heal_answer a = {.told = (uint64_t)field_int(r, 0, HEALED_TOLD), .waiting = (uint64_t)field_int(r, 0, HEALED_WAITING),
                            .more = field_bool(r, 0, HEALED_MORE), .healed = field_bool(r, 0, HEALED_HEALED)};
    enum reason reason = field_reason(r, 0, HEALED_RESULT);
    wake(c, reason, reason == REASON_OK ? &a : NULL);
}

static void add_bucket(struct params *p, const struct bucket *b)
{
    params_text(p, b->activity);
    params_i16(p, b->epoch);
    params_i16(p, b->number);
}

void heal_heal(struct ledger *l, const struct heal_ask *a, struct waiter *w)
{
    check(a->limit > 0 && a->limit <= HEAL_MAX);
    struct call *c = lane_call(&of(l)->lanes[LANE_RELAY], CALL_heal, w);
    c->decode = heal_decode;
    add_bucket(&c->params, &a->bucket);
    params_text(&c->params, a->mark);
    params_text(&c->params, a->incarnation);
    params_i32(&c->params, (int32_t)a->limit);
    lane_submit(c);
}

static void record_decode(struct call *c, const PGresult *r) { wake(c, field_reason(r, 0, 0), NULL); }

void heal_record(struct ledger *l, const struct record_ask *a, struct waiter *w)
{
    struct call *c = lane_call(&of(l)->lanes[LANE_ADMIN], CALL_record, w);
    c->decode = record_decode;
    add_bucket(&c->params, &a->bucket);
    params_text(&c->params, a->incarnation);
    lane_submit(c);
}

static void repair_decode(struct call *c, const PGresult *r)
{
    size_t n = (size_t)PQntuples(r);
    check(n == c->asked);
    enum reason *verdicts = room(c, n, sizeof *verdicts);
    for (size_t i = 0; i < n; i++)
        verdicts[i] = field_reason(r, (int)i, 0);
    wake(c, REASON_OK, &(struct repair_answer){.verdicts = verdicts, .count = n});
}

void heal_repair(struct ledger *l, const struct repair_ask *a, struct waiter *w)
{
    check(a->count > 0 && a->count <= LEDGER_BATCH_MAX);
    struct call *c = lane_call(&of(l)->lanes[LANE_ADMIN], CALL_repair, w);
    struct params *p = &c->params;
    c->decode = repair_decode;
    c->asked = a->count;
    params_text(p, a->activity);
    COLUMN_I64(p, a->count, a->items[i].token.unit);
    COLUMN_I32(p, a->count, generation_of(a->items[i].token));
    COLUMN_I16(p, a->count, a->items[i].missing);
    lane_submit(c);
}

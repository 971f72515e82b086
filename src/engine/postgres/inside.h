/* SPDX-License-Identifier: Apache-2.0
 * inside.h: what the files of this engine that turn asks into parameters and rows into answers have in common: postgres.c and money.c. */
#pragma once
#include <stdlib.h>

#include "lane.h"

struct postgres {
    struct ledger ledger;
    struct postgres_options options;
    struct lane lanes[LANE_KINDS];
    unsigned closing;
};

static inline struct postgres *of(struct ledger *l) { return container_of(l, struct postgres, ledger); }

/* ---- fields of a result, all in binary format --------------------------------------------------------------------------------- */

static inline struct str field_str(const PGresult *r, int row, int column)
{
    return (struct str){PQgetvalue(r, row, column), (size_t)PQgetlength(r, row, column)};
}

static inline int64_t field_int(const PGresult *r, int row, int column)
{
    struct str s = field_str(r, row, column);
    check(s.len == 2 || s.len == 4 || s.len == 8);
    uint64_t n = (unsigned char)s.ptr[0] & 0x80 ? ~0ULL : 0;
    for (size_t i = 0; i < s.len; i++)
        n = n << 8 | (unsigned char)s.ptr[i];
    return (int64_t)n;
}

static inline bool field_bool(const PGresult *r, int row, int column)
{
    struct str s = field_str(r, row, column);
    check(s.len == 1);
    return s.ptr[0] != 0;
}

static inline enum reason field_reason(const PGresult *r, int row, int column)
{
    enum reason reason = REASON_OK;
    struct str word = field_str(r, row, column);
    return word.len == 0 ? REASON_OK : reason_parse(word, &reason) ? reason : REASON_ENGINE_FAULT;
}

static inline void *room(struct call *c, size_t count, size_t size)
{
    c->room = calloc(count ? count : 1, size);
    check(c->room != NULL);
    return c->room;
}

static inline void wake(struct call *c, enum reason reason, const void *result) { slot_wake(&c->slot, reason, result); }

/* ---- columns of items ------------------------------------------------------------------------------------------------------------ */

#define COLUMN_TEXT(p, count, expression) do { \
        params_array_open((p), PARAMS_TEXT, (count)); \
        for (size_t i = 0; i < (count); i++) params_item_text((p), (expression)); \
        params_array_close((p)); } while (0)
#define COLUMN_I64(p, count, expression) do { \
        params_array_open((p), PARAMS_I64, (count)); \
        for (size_t i = 0; i < (count); i++) params_item_i64((p), (expression)); \
        params_array_close((p)); } while (0)
#define COLUMN_I32(p, count, expression) do { \
        params_array_open((p), PARAMS_I32, (count)); \
        for (size_t i = 0; i < (count); i++) params_item_i32((p), (expression)); \
        params_array_close((p)); } while (0)
#define COLUMN_I16(p, count, expression) do { \
        params_array_open((p), PARAMS_I16, (count)); \
        for (size_t i = 0; i < (count); i++) params_item_i16((p), (expression)); \
        params_array_close((p)); } while (0)

/* A generation beyond the column's type overflows in the function, which makes its batch POISON: never another, smaller generation. */
static inline int32_t generation_of(struct token t) { return t.generation > INT32_MAX ? INT32_MAX : (int32_t)t.generation; }

/* What a message says, as ten parameters; ten NULLs where it says nothing that the columns can take. */
void params_what(struct params *, const struct create_order *);

/* ---- heal.c ------------------------------------------------------------------------------------------------------------------------- */

void heal_heal(struct ledger *, const struct heal_ask *, struct waiter *);
void heal_record(struct ledger *, const struct record_ask *, struct waiter *);
void heal_repair(struct ledger *, const struct repair_ask *, struct waiter *);

/* ---- money.c ------------------------------------------------------------------------------------------------------------------------ */

void money_pay(struct ledger *, const struct pay_ask *, struct waiter *);
void money_callback(struct ledger *, const struct callback_ask *, struct waiter *);
void money_defer(struct ledger *, const struct defer_ask *, struct waiter *);
void money_cancel(struct ledger *, const struct cancel_ask *, struct waiter *);
void money_overdue(struct ledger *, const struct overdue_ask *, struct waiter *);
void money_reviews(struct ledger *, const struct reviews_ask *, struct waiter *);
void money_resolve(struct ledger *, const struct resolve_ask *, struct waiter *);
void money_story(struct ledger *, const struct story_ask *, struct waiter *);

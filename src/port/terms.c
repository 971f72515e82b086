/* SPDX-License-Identifier: Apache-2.0
 * terms.c: names and moves of the states, read from the tables of spec/. */
#include "terms.h"

#include "check.h"

struct state_row {
    const char *name;
    int rank;    /* reservations: what a client sees never falls; orders: holds stock; activities: sells */
    bool terminal;
};
static const struct state_row reservation_states[] = {
#define STATE(name, rank, terminal, meaning) {#name, rank, terminal},
#include "reservation.def"
#undef STATE
};
static const struct state_row order_states[] = {
#define STATE(name, holds, terminal, meaning) {#name, holds, terminal},
#include "order.def"
#undef STATE
};
static const struct state_row activity_states[] = {
#define STATE(name, sells, meaning) {#name, sells, false},
#include "activity.def"
#undef STATE
};
static const bool reservation_moves[RESERVATION_STATE_COUNT][RESERVATION_STATE_COUNT] = {
#define MOVE(from, event, to, who) [RESERVATION_##from][RESERVATION_##to] = true,
#include "reservation.def"
#undef MOVE
};
static const bool order_moves[ORDER_STATE_COUNT][ORDER_STATE_COUNT] = {
#define MOVE(from, event, to, who) [ORDER_##from][ORDER_##to] = true,
#include "order.def"
#undef MOVE
};
static const char *const activity_events[] = {"warm", "open", "pause", "resume", "close"};
static const struct {
    bool may;
    enum activity_state to;
} activity_moves[ACTIVITY_STATE_COUNT][ACTIVITY_EVENT_COUNT] = {
#define MOVE(from, event, to, who) [ACTIVITY_##from][ACTIVITY_EVENT_##event] = {true, ACTIVITY_##to},
#include "activity.def"
#undef MOVE
};

static int find(const struct state_row *rows, int count, struct str name)
{
    for (int i = 0; i < count; i++)
        if (str_eq(str_of(rows[i].name), name))
            return i;
    return -1;
}

const char *reservation_state_name(enum reservation_state s)
{
    check((unsigned)s < RESERVATION_STATE_COUNT);
    return reservation_states[s].name;
}

int reservation_state_rank(enum reservation_state s)
{
    check((unsigned)s < RESERVATION_STATE_COUNT);
    return reservation_states[s].rank;
}

bool reservation_state_terminal(enum reservation_state s)
{
    check((unsigned)s < RESERVATION_STATE_COUNT);
    return reservation_states[s].terminal;
}

bool reservation_state_parse(struct str name, enum reservation_state *out)
{
    int at = find(reservation_states, RESERVATION_STATE_COUNT, name);
    if (at >= 0)
        *out = (enum reservation_state)at;
    return at >= 0;
}

bool reservation_may_move(enum reservation_state from, enum reservation_state to)
{
    check((unsigned)from < RESERVATION_STATE_COUNT && (unsigned)to < RESERVATION_STATE_COUNT);
    return reservation_moves[from][to];
}

const char *order_state_name(enum order_state s)
{
    check((unsigned)s < ORDER_STATE_COUNT);
    return order_states[s].name;
}

bool order_state_parse(struct str name, enum order_state *out)
{
    int at = find(order_states, ORDER_STATE_COUNT, name);
    if (at >= 0)
        *out = (enum order_state)at;
    return at >= 0;
}

bool order_state_holds_stock(enum order_state s)
{
    check((unsigned)s < ORDER_STATE_COUNT);
    return order_states[s].rank != 0;
}

bool order_may_move(enum order_state from, enum order_state to)
{
    check((unsigned)from < ORDER_STATE_COUNT && (unsigned)to < ORDER_STATE_COUNT);
    return order_moves[from][to];
}

const char *activity_state_name(enum activity_state s)
{
    check((unsigned)s < ACTIVITY_STATE_COUNT);
    return activity_states[s].name;
}

bool activity_state_parse(struct str name, enum activity_state *out)
{
    int at = find(activity_states, ACTIVITY_STATE_COUNT, name);
    if (at >= 0)
        *out = (enum activity_state)at;
    return at >= 0;
}

const char *activity_event_name(enum activity_event e)
{
    check((unsigned)e < ACTIVITY_EVENT_COUNT);
    return activity_events[e];
}

bool activity_move(enum activity_state from, enum activity_event event, enum activity_state *to)
{
    check((unsigned)from < ACTIVITY_STATE_COUNT && (unsigned)event < ACTIVITY_EVENT_COUNT);
    if (activity_moves[from][event].may)
        *to = activity_moves[from][event].to;
    return activity_moves[from][event].may;
}

/* ---- money and people: a few words each ---- */

static int word_find(const char *const *words, int count, struct str name)
{
    for (int i = 0; i < count; i++)
        if (str_eq(str_of(words[i]), name))
            return i;
    return -1;
}

#define WORDS(type, ...) \
    static const char *const type##_words[] = {__VA_ARGS__}; \
    const char *type##_name(enum type x) \
    { \
        check((size_t)x < countof(type##_words)); \
        return type##_words[x]; \
    } \
    bool type##_parse(struct str name, enum type *out) \
    { \
        int at = word_find(type##_words, (int)countof(type##_words), name); \
        if (at >= 0) \
            *out = (enum type)at; \
        return at >= 0; \
    }
WORDS(payment_result, "FAILED", "SUCCESS")
WORDS(refund_status, "NONE", "REQUESTED", "DONE")
WORDS(review_kind, "RESERVATION", "MESSAGE", "PAYMENT", "CALLBACK")
WORDS(review_decision, "OPEN", "RELEASE", "RETRY", "DISMISS", "APPLY", "REFUND")
#undef WORDS

/* SPDX-License-Identifier: Apache-2.0
 * trial_parts.h: what trial.c (the deployment), trial_people.c (the crowd), trial_trouble.c (what goes wrong) and trial_judge.c (the rules)
 * share; nobody else includes it. */
#pragma once
#include "control.h"
#include "desk.h"
#include "janitor.h"
#include "order.h"
#include "payment.h"
#include "query.h"
#include "relay.h"
#include "reservation.h"
#include "sim_bus.h"
#include "sim_channel.h"
#include "sim_clock.h"
#include "sim_ledger.h"
#include "sim_store.h"
#include "trial.h"

#define TRIAL_START_MS 1796083200000    /* 2026-12-01 */
#define TRIAL_ACTIVITIES 3
#define TRIAL_SLIPS 32
#define TRIAL_SKUS 3
#define TRIAL_PEOPLE 72
#define TRIAL_PURCHASES 256
#define TRIAL_PROCESSES 12
#define TRIAL_TROUBLES 16
#define TRIAL_RANKS 4
#define TRIAL_QUEUES 3
#define SECOND_US 1000000u

struct trial;

/* ---- the deployment ---- */

enum trial_role { TRIAL_ACCESS, TRIAL_ORDER, TRIAL_RELAY, TRIAL_JANITOR, TRIAL_ADMIN };

struct eye {                         /* sees the calls of one process with one engine */
    struct sim_witness witness;
    struct process *process;
    char engine;                     /* 's', 'b', 'l' */
};
struct process {
    struct trial *trial;
    char name[16], owner[24];
    enum trial_role role;
    size_t number;
    bool up, frozen;
    unsigned lives;
    uint64_t began_us;
    struct sim_watch watch;          /* its own wall clock */
    struct sim_random random;
    struct sim_store store;          /* its doors outlive it: what it asked before it died may still arrive */
    struct sim_bus bus;
    struct sim_ledger ledger;
    struct sim_channel channel;
    struct eye eyes[3];
    struct alarm rise;
    uint64_t unasked_us;             /* when a look at the ledger last failed */
    uint64_t dies_at, moments;       /* dies after so many moments of its calls; 0: not yet decided */
    struct desk desk;
    struct order_desk *order;
    struct relay *relay;
    struct janitor *janitor;
    struct controller *controller;
};

/* One activity and what the admin will do to it. */
struct sale {
    char name[8];
    struct sku skus[TRIAL_SKUS];
    char sku_names[TRIAL_SKUS][8];
    size_t sku_count;
    uint8_t buckets;
    const struct activity *truth;    /* the ledger's own row */
    struct { enum activity_event event; uint64_t at_us; } script[6];
    size_t script_count, script_at;
    bool moving, closes;
    struct control control;
    struct alarm alarm;
    struct trial *trial;
    /* what the judge has seen of its stock */
    bool empty_now[TRIAL_SKUS];
    uint64_t empty_us[TRIAL_SKUS];   /* when nothing was last left in any bucket; 0: never */
};

/* ---- the crowd ---- */

/* (activity, user, request_id, SKU): what was made of it, and what was shown of it. */
struct purchase {
    int sale, sku;
    const char *user;
    char request[16];
    bool made;                       /* a bucket took a unit for it */
    size_t times;                    /* how often: more than once only after Redis forgot */
    bool released;                   /* an operator asked for it */
    bool thought;                    /* its user has decided whether he pays */
    struct ident ident;
    struct token token;
    int64_t created_ms;
    uint8_t epoch;
    uint64_t made_us;
    bool acknowledged;               /* a client has heard of it */
    uint64_t shown_us[TRIAL_RANKS];  /* when a client was first shown this rank; 0: never */
    enum reservation_state ending;   /* the terminal state shown */
    struct ident ending_of;
    struct ident denied;             /* a client was told "not found" of the request after this reservation had been made; no activity: none */
};
enum trial_plan {                    /* what he does beside buying once and waiting for the end */
    PLAN_ONCE, PLAN_REPEAT, PLAN_OTHER_REQUEST, PLAN_OTHER_SKU, PLAN_SECOND_SKU, PLAN_VANISH, PLAN_FORGET, PLAN_ANXIOUS, PLAN_COUNT
};
enum trial_act { ACT_BUY, ACT_ASK, ACT_ASK_REQUEST };
struct person {
    struct trial *trial;
    char user[12];
    enum trial_plan plan;
    struct purchase *now;
    unsigned stage;                  /* 0: his first wish; 1: what the plan adds */
    struct alarm alarm, patience;
    enum trial_act act;
    struct process *at, *by;         /* where his call is, NULL: none under way; who answered the last one */
    struct take take;
    struct query query;
    char id[IDENT_ID_TEXT];
    uint64_t began_us;
    bool made_before;
    unsigned buys_left, asks_left, tries, moving, wishes;
    bool done, leaving;              /* leaving: he only looks once more whether all is as it was */
    enum reason answer;
};

/* ---- what goes wrong ---- */

enum trial_trouble_kind {
#define TROUBLE(name, weight, loses, text) TROUBLE_##name,
#include "trouble.def"
#undef TROUBLE
    TROUBLE_COUNT
};
struct trouble {
    struct trial *trial;
    enum trial_trouble_kind kind;
    struct alarm alarm;
    uint64_t lasts_us;
    bool on;
    uint64_t chance;                 /* decides its details */
    uint64_t until_us;               /* FLICKER */
    struct sim_calls *calls;         /* LINK */
    struct sim_watch *watch;         /* CLOCK */
};

struct trial {
    struct trial_options options;
    struct trial_result *result;
    struct sim_clock clock;
    struct sim_random chance, weather;
    struct sim_watch redis, broker, postgres;
    struct sim_store_world stock;
    struct sim_bus_world bus;
    struct sim_ledger_world books;
    struct sim_channel_world till;
    struct trial_money *money;
    struct ident_keys keys;
    struct process processes[TRIAL_PROCESSES];
    size_t process_count;
    struct sale sales[TRIAL_ACTIVITIES];
    size_t sale_count;
    struct person people[TRIAL_PEOPLE];
    size_t person_count, done_count;
    struct purchase purchases[TRIAL_PURCHASES];
    size_t purchase_count;
    struct trouble troubles[TRIAL_TROUBLES];
    size_t trouble_count;
    struct waiter operator;          /* of RELEASE */
    struct sim_weather fair, base;   /* base: what it is while nothing special is going on */
    bool calm;                       /* faults have stopped */
    uint64_t calm_us;                /* since when */
    bool read_judged;
    bool loses;                      /* Redis may forget in this trial */
    bool releases;                   /* an operator released something */
    unsigned greed;                  /* percent of buyers who try again under another name after a release */
    uint64_t lost_us;                /* when it last did; 0: never */
    bool users_lost;                 /* a bucket lost its users: what was undecided there holds units that nobody names */
    bool emptied;                    /* a bucket is gone: that is not healed but rebuilt */
    /* Redis went back under the same name: only who had read it lately can know. Who of the janitors had; those who died before they could see are taken out. */
    struct { uint64_t at_us, knowers; } slips[TRIAL_SLIPS];
    size_t slip_count;
    struct sim_snapshot snapshot;
    struct alarm camera;             /* takes the snapshots */
    bool audit_due, stock_due, reap_due;
    enum reason *verdicts;           /* of the inbox's rows, as first seen */
    size_t verdict_count, verdict_cap;
    size_t line_next, line_count;
};

/* trial.c */
uint64_t trial_below(struct trial *t, uint64_t n);
void trial_mark(struct trial *t, uint64_t what);              /* into the hash */
bool trial_traced(const struct trial *t);
void trial_line(struct trial *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void trial_broken(struct trial *t, const char *rule, const char *format, ...) __attribute__((format(printf, 3, 4)));
void trial_die(struct process *p, uint64_t back_us);          /* not from within a wake; back_us 0: it stays dead */
void trial_rise(struct process *p);
void trial_weather(struct process *p, struct sim_weather w);
void trial_freeze(struct process *p, bool frozen);
bool trial_releasing(struct trial *t, size_t most);           /* an operator releases up to so many; false: there is nothing, or he is busy */

/* trial_people.c */
void trial_people_come(struct trial *t);
void trial_people_leave(struct trial *t);                     /* the troubles are over: whoever has something looks once more */
void trial_people_cut(struct trial *t, struct process *p);    /* whose calls are there hear no more of them */

/* trial_money.c */
void trial_money_open(struct trial *t);
void trial_money_close(struct trial *t);
uint32_t trial_money_timeout_s(struct trial *t);
void trial_money_ordered(struct person *p);                   /* he has just been shown his order */
void trial_money_cut(struct trial *t, struct process *p);
bool trial_money_quiet(const struct trial *t);                /* nobody pays or cancels any more */
void trial_money_judge(struct trial *t);

/* trial_plant.c */
bool trial_plant(struct trial *t);                            /* false: there is nothing to spoil yet */

/* trial_trouble.c */
void trial_troubles_brew(struct trial *t, uint64_t from_us, uint64_t to_us);
void trial_troubles_end(struct trial *t);

/* trial_judge.c */
void trial_judge_call(struct process *p, char engine, const struct sim_call *call, enum sim_moment m, enum reason reason, const void *result);
void trial_judge_look(struct trial *t);                       /* whatever is due */
void trial_judge_take(struct person *p);                      /* his take has just been answered */
void trial_judge_query(struct person *p);
void trial_judge_read(struct trial *t);                       /* some seconds after the troubles: no message was passed over */
bool trial_judge_quiet(struct trial *t);                      /* nothing is under way any more */
void trial_judge_end(struct trial *t);
struct purchase *trial_purchase(struct trial *t, int sale, int sku, const char *user, struct str request);    /* found or made */

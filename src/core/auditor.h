/* SPDX-License-Identifier: Apache-2.0
 * auditor.h: one activity after another is judged by the ledger's own rules and counted unit by unit, without end (mission §10.7, protocol §7).
 *
 * A broken rule of safety has no error budget: the activity is paused, which ends new reservations and nothing else, and it is said aloud. A unit that
 * cannot be attributed is mended by its cause: a copy that should not be is told what stands; a unit that nobody has claimed in look after look, until
 * every message that may name it has had its time, comes back under a new generation. Nothing is ever copied from one store over the other.
 *
 * An activity that could not be judged is told as such (audit_unjudged, seckill_unjudged_activities), and no sum says 0 for it.
 *
 * Any number may run: whatever they do is conditional on what they saw. Each rests so long that it works a twentieth of its time at most. */
#pragma once
#include "catalog.h"
#include "conservation.h"
#include "random.h"

struct auditor_options {
    uint32_t every_ms;               /* between two rounds over all activities; 30000; 0: never */
    uint32_t share;                  /* percent of the time that it may work; 5: after a count it rests nineteen times as long as that took */
    uint32_t missing_ms;             /* nobody has claimed a unit for so long: it comes back; 600000, when a person has every message older (protocol §6) */
    uint32_t call_ms;                /* budget of one call to the ledger; 60000 */
    size_t missing;                  /* units remembered as missing; 1024. More wait for their turn */
    struct conservation_options conservation;
};
struct auditor_options auditor_options_default(void);

/* What became of one activity in one round. UNJUDGED: its rules could not be read, or its units not be counted; nothing is said about it. */
enum audit_result { AUDIT_CLEAN, AUDIT_BROKEN, AUDIT_UNJUDGED, AUDIT_RESULTS };
const char *audit_result_name(enum audit_result);    /* "clean", "broken", "unjudged" */

struct auditor_missing;
struct auditor_facts {
    uint64_t counts, failed;         /* activities judged and counted; those where a part of it failed */
    uint64_t paused;                 /* sales stopped by a broken rule */
    uint64_t returned, told;         /* units that came back; copies told what stands */
    uint64_t retired;                /* activities that left the working set */
    uint64_t rounds;                 /* over all activities, ended */
    int64_t drift, broken;           /* units without an owner, rules broken: all activities that were judged in the last round */
    uint64_t unjudged;               /* activities that could not be judged in the last round */
};

#define AUDITOR_WALKS 4              /* activities judged at once */
struct auditor;
/* One activity that is being judged. */
struct audit_walk {
    struct auditor *auditor;
    bool busy;
    uint64_t began_us, waited_us;    /* waited: between two looks, which costs nothing */
    char name[64];
    size_t name_len;
    uint64_t version;                /* of the activity */
    uint16_t number;
    bool sells;
    bool over;                       /* closed, or a day past its end: it may leave the working set */
    bool still;                      /* every unit was counted, and none is reserved, on its way or unexplained */
    bool mended;
    int64_t faults;                  /* rules broken and units without an owner */
    enum reason why;                 /* OK: judged and counted so far */
    struct waiter call;
    struct alarm alarm;
    struct conservation count;
    struct repair_item *items;       /* of the repair under way */
    size_t item_count;
};
struct auditor {
    struct store *store;
    struct ledger *ledger;
    struct clock *clock;
    struct random *random;
    const struct catalog *catalog;
    struct auditor_options options;
    struct auditor_facts facts;
    struct auditor_missing *missing;
    size_t missing_count;
    bool running;
    struct alarm round_alarm;
    /* this round so far */
    uint64_t round;
    size_t at;                       /* index in the catalog of the next activity */
    unsigned walking;                /* walks that have not come to the end of the round */
    int64_t drift, broken;
    uint64_t unjudged, unchecked, uncounted;    /* activities: either of the two; rules not read; units not counted */
    struct audit_walk walks[AUDITOR_WALKS];
};

/* false: no memory. */
bool auditor_init(struct auditor *, struct store *, struct ledger *, struct clock *, struct random *, const struct catalog *, struct auditor_options);
void auditor_start(struct auditor *);
void auditor_drain(struct auditor *);    /* what is under way is dropped: the next look finds it again */
bool auditor_idle(const struct auditor *a);
void auditor_free(struct auditor *);

/* SPDX-License-Identifier: Apache-2.0
 * verb.h: what a verb gets and what it must come back with. The rows are spec/verb.def; each verb is the function
 * verb_<symbol>() in a file of its own. Data goes to standard output, talk to standard error. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

enum verb {
#define VERB(symbol, name, group, arguments, settings, summary) VERB_##symbol,
#include "verb.def"
#undef VERB
    VERB_COUNT
};

/* What the process leaves behind (conventions: exit codes). */
enum leave {
    LEAVE_DONE = 0,
    LEAVE_FAILED = 1,
    LEAVE_USAGE = 2,
    LEAVE_CONFIG = 3,         /* a setting is bad */
    LEAVE_UNREACHABLE = 4,    /* a part we need does not answer */
    LEAVE_REFUSED = 5,        /* by a safety rule */
    LEAVE_BROKEN = 7,         /* a rule that may never break is broken (oversold, two orders, units unaccounted for), or a proof does not hold */
    LEAVE_MISSED = 99,        /* a threshold of a load was missed */
    LEAVE_INTERRUPTED = 130,
};

#define CALL_FLAGS_MAX 96
#define CALL_ARGUMENTS_MAX 16
struct call {
    enum verb verb;
    bool json;                                   /* -o json */
    const char *program;                         /* as it was started */
    const char *arguments[CALL_ARGUMENTS_MAX];   /* what is left beside flags */
    size_t argument_count;
    const char *flags[CALL_FLAGS_MAX];           /* own flags of the verb as typed, by row number; NULL: not given */
    struct { size_t row; const char *value; } each[CALL_FLAGS_MAX];    /* all of them in the order typed: a flag may stand again */
    size_t each_count;
    struct config_flag settings[CALL_FLAGS_MAX]; /* settings given as flags */
    struct config_source source;                 /* where settings come from; to be read again on SIGHUP */
    const struct config *config;                 /* NULL for verbs whose settings are NONE */
};

/* What the value of a verb's own flag is. */
enum flag_kind {
    FLAG_TEXT,        /* min to max bytes */
    FLAG_NUMBER,      /* a whole number from min to max */
    FLAG_SWITCH,      /* true or false */
    FLAG_CHOICE,      /* one of the words of `argument`, bars between */
    FLAG_ID,          /* 1 to 64 of A-Z a-z 0-9 _ -; empty where the default is */
    FLAG_CURRENCY,    /* as CNY */
};

struct verb_row {
    const char *name, *group, *arguments;
    bool reads_settings;
    const char *summary;
    int (*run)(const struct call *);
};
struct flag_row {
    enum verb verb;
    const char *name;
    enum flag_kind kind;
    const char *value;
    int64_t min, max;
    const char *argument, *text;
};
struct example_row {
    enum verb verb;
    const char *command, *text;
};
const struct verb_row *verb_row(enum verb v);
const struct flag_row *flag_row(size_t i);          /* NULL past the last */
const struct example_row *example_row(size_t i);    /* NULL past the last */
bool verb_find(struct str name, enum verb *out);

/* An own flag of the verb, by its name in the table, its default where it was not given. The value was checked when it was read. */
const char *call_text(const struct call *c, const char *name);
int64_t call_number(const struct call *c, const char *name);
bool call_switch(const struct call *c, const char *name);
/* The value of --activity, or of the setting demo.activity where it was not given. */
const char *call_activity(const struct call *c);
/* The n-th value typed for a flag that may stand several times; NULL past the last, and at 0 where it was not typed. */
const char *call_again(const struct call *c, const char *name, size_t n);

/* Says "seckill VERB: <format>" and where help is, on standard error; gives LEAVE_USAGE. */
int call_misused(const struct call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says "seckill VERB: <format>" on standard error; gives `leave`. */
int call_failed(const struct call *c, enum leave leave, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define VERB(symbol, name, group, arguments, settings, summary) int verb_##symbol(const struct call *c);
#include "verb.def"
#undef VERB

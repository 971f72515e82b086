/* SPDX-License-Identifier: Apache-2.0
 * verb.c: the rows of spec/verb.def, and what verbs ask of their call. */
#include "verb.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "activity_json.h"
#include "check.h"
#include "log.h"

#define READS_READ true
#define READS_NONE false

static const struct verb_row verbs[] = {
#define VERB(symbol, name, group, arguments, settings, summary) {name, group, arguments, READS_##settings, summary, verb_##symbol},
#include "verb.def"
#undef VERB
};
static const struct flag_row flags[] = {
#define FLAG(verb, name, kind, value, min, max, argument, text) {VERB_##verb, name, FLAG_##kind, value, min, max, argument, text},
#include "verb.def"
#undef FLAG
};
static const struct example_row examples[] = {
#define EXAMPLE(verb, command, text) {VERB_##verb, command, text},
#include "verb.def"
#undef EXAMPLE
};
_Static_assert(countof(flags) <= CALL_FLAGS_MAX, "struct call has room for every flag");

const struct verb_row *verb_row(enum verb v)
{
    check((unsigned)v < VERB_COUNT);
    return &verbs[v];
}

const struct flag_row *flag_row(size_t i) { return i < countof(flags) ? &flags[i] : NULL; }
const struct example_row *example_row(size_t i) { return i < countof(examples) ? &examples[i] : NULL; }

bool verb_find(struct str name, enum verb *out)
{
    for (unsigned i = 0; i < VERB_COUNT; i++)
        if (str_eq(name, str_of(verbs[i].name))) {
            *out = (enum verb)i;
            return true;
        }
    return false;
}

const char *call_text(const struct call *c, const char *name)
{
    for (size_t i = 0; i < countof(flags); i++)
        if (flags[i].verb == c->verb && strcmp(flags[i].name, name) == 0)
            return c->flags[i] ? c->flags[i] : flags[i].value;
    check_failed("a verb asks only for flags of its own rows", __FILE__, __LINE__);
}

int64_t call_number(const struct call *c, const char *name)
{
    int64_t value = 0;
    bool number = str_to_i64(str_of(call_text(c, name)), &value);
    check(number);
    return value;
}

const char *call_again(const struct call *c, const char *name, size_t n)
{
    for (size_t i = 0; i < c->each_count; i++)
        if (strcmp(flags[c->each[i].row].name, name) == 0 && n-- == 0)
            return c->each[i].value;
    return NULL;
}

const char *call_activity(const struct call *c)
{
    const char *named = call_text(c, "activity");
    return named[0] ? named : c->config->demo_activity;
}

bool call_switch(const struct call *c, const char *name) { return strcmp(call_text(c, name), "true") == 0; }

static void say(const struct call *c, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static void say(const struct call *c, const char *format, va_list args)
{
    char text[8192];
    int head = snprintf(text, sizeof text, "seckill %s: ", verbs[c->verb].name), n = vsnprintf(text + head, sizeof text - (size_t)head - 1, format, args);
    size_t most = sizeof text - 2, len = (size_t)head + (n > 0 ? (size_t)n : 0);
    len = len < most ? len : most;
    text[len++] = '\n';
    log_write_bounded(STDERR_FILENO, text, len, 1000);    /* a process that ends does not wait for whoever reads its standard error */
}

int call_misused(const struct call *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(c, format, args);
    va_end(args);
    fprintf(stderr, "See `seckill help %s`.\n", verbs[c->verb].name);
    return LEAVE_USAGE;
}

int call_failed(const struct call *c, enum leave leave, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(c, format, args);
    va_end(args);
    return (int)leave;
}

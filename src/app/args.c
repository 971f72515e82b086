/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"

#include <string.h>

#include "check.h"
#include "payment.h"
#include "suggest.h"

struct reading {
    struct call *call;
    int argc, at;
    char **argv;
    struct buf *complaints;
    bool help, bad;
};

static void complain(struct reading *r, const char *what, struct str name)
{
    buf_add_fmt(r->complaints, "--" STR_FMT ": %s\n", STR_ARG(name), what);
    r->bad = true;
}

/* The value after `=`, or the next word; for a switch "true" where no `=` stands. */
static const char *value_of(struct reading *r, struct str name, const char *equals, bool is_switch)
{
    if (equals)
        return equals + 1;
    if (is_switch)
        return "true";
    if (r->at + 1 < r->argc)
        return r->argv[++r->at];
    complain(r, "needs a value", name);
    return NULL;
}

static bool between(const struct flag_row *row, int64_t number) { return number >= row->min && number <= row->max; }

static bool own_flag_good(const struct flag_row *row, const char *value)
{
    int64_t number;
    switch (row->kind) {
    case FLAG_TEXT:
        return between(row, (int64_t)strlen(value));
    case FLAG_NUMBER:
        return str_to_i64(str_of(value), &number) && between(row, number);
    case FLAG_SWITCH:
        return word_among(str_of(value), "true|false");
    case FLAG_CHOICE:
        return word_among(str_of(value), row->argument);
    case FLAG_ID:
        return str_is_id(str_of(value)) || (value[0] == 0 && row->value[0] == 0);
    case FLAG_CURRENCY:
        return currency_good(str_of(value));
    }
    return false;
}

static void say_expected(struct buf *out, const struct flag_row *row)
{
    switch (row->kind) {
    case FLAG_TEXT:
        buf_add_fmt(out, "a length from %lld to %lld", (long long)row->min, (long long)row->max);
        break;
    case FLAG_NUMBER:
        buf_add_fmt(out, "a whole number from %lld to %lld", (long long)row->min, (long long)row->max);
        break;
    case FLAG_SWITCH:
        buf_add_str(out, str_lit("true or false"));
        break;
    case FLAG_CHOICE:
        buf_add_fmt(out, "one of %s", row->argument);
        break;
    case FLAG_ID:
        buf_add_str(out, str_lit("an id: 1 to 64 of A-Z a-z 0-9 _ -"));
        break;
    case FLAG_CURRENCY:
        buf_add_str(out, str_lit("a currency of three capital letters, as CNY"));
        break;
    }
}

static bool take_own(struct reading *r, struct str name, const char *equals)
{
    const struct flag_row *row;
    for (size_t i = 0; (row = flag_row(i)); i++) {
        if (row->verb != r->call->verb || !str_eq(name, str_of(row->name)))
            continue;
        const char *value = value_of(r, name, equals, row->kind == FLAG_SWITCH);
        if (value && r->call->each_count == CALL_FLAGS_MAX) {
            complain(r, "one flag too many", name);
        } else if (value && own_flag_good(row, value)) {
            r->call->flags[i] = value;
            r->call->each[r->call->each_count].row = i;
            r->call->each[r->call->each_count++].value = value;
        } else if (value) {
            r->bad = true;
            buf_add_fmt(r->complaints, "--%s: \"%s\" is not good: expected ", row->name, value);
            say_expected(r->complaints, row);
            buf_add_char(r->complaints, '\n');
        }
        return true;
    }
    return false;
}

static bool take_setting(struct reading *r, struct str name, const char *equals)
{
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        char flag[SETTING_NAME_MAX];
        setting_flag((enum setting)i, flag);
        if (!str_eq(name, str_of(flag + 2)))
            continue;
        const char *value = value_of(r, name, equals, setting_row((enum setting)i)->kind == SETTING_SWITCH);
        if (value && r->call->source.flag_count == CALL_FLAGS_MAX)
            complain(r, "one flag too many", name);
        else if (value)
            r->call->settings[r->call->source.flag_count++] = (struct config_flag){(enum setting)i, value};
        return true;
    }
    return false;
}

static void unknown(struct reading *r, struct str name)
{
    struct suggest nearest = {.typed = name};
    char flags[SETTING_COUNT][SETTING_NAME_MAX];
    const struct flag_row *row;
    for (size_t i = 0; (row = flag_row(i)); i++)
        if (row->verb == r->call->verb)
            suggest_offer(&nearest, row->name);
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        setting_flag((enum setting)i, flags[i]);
        suggest_offer(&nearest, flags[i] + 2);
    }
    static const char *const common[] = {"config", "output", "help"};
    for (size_t i = 0; i < countof(common); i++)
        suggest_offer(&nearest, common[i]);
    buf_add_fmt(r->complaints, "there is no flag --" STR_FMT, STR_ARG(name));
    if (nearest.best)
        buf_add_fmt(r->complaints, "; did you mean --%s?", nearest.best);
    buf_add_char(r->complaints, '\n');
    r->bad = true;
}

static void take_output(struct reading *r, const char *value)
{
    if (value && strcmp(value, "json") != 0 && strcmp(value, "table") != 0) {
        buf_add_fmt(r->complaints, "--output: \"%s\" is not good: expected table or json\n", value);
        r->bad = true;
    }
    r->call->json = value && strcmp(value, "json") == 0;
}

static void take_flag(struct reading *r, const char *word)
{
    const char *equals = strchr(word, '=');
    struct str name = {word, equals ? (size_t)(equals - word) : strlen(word)};
    if (str_eq(name, str_lit("help")))
        r->help = true;
    else if (str_eq(name, str_lit("output")))
        take_output(r, value_of(r, name, equals, false));
    else if (str_eq(name, str_lit("config")))
        r->call->source.file = value_of(r, name, equals, false);
    else if (!take_own(r, name, equals) && !take_setting(r, name, equals))
        unknown(r, name);
}

bool args_read(struct call *c, int argc, char **argv, bool *help, struct buf *complaints)
{
    struct reading r = {.call = c, .argc = argc, .argv = argv, .complaints = complaints};
    bool flags_end = false;
    for (r.at = 0; r.at < argc; r.at++) {
        const char *word = argv[r.at];
        if (!flags_end && strcmp(word, "--") == 0) {
            flags_end = true;
        } else if (!flags_end && strncmp(word, "--", 2) == 0) {
            take_flag(&r, word + 2);
        } else if (!flags_end && strcmp(word, "-h") == 0) {
            r.help = true;
        } else if (!flags_end && strcmp(word, "-o") == 0) {
            take_output(&r, value_of(&r, str_lit("output"), NULL, false));
        } else if (!flags_end && word[0] == '-' && word[1] != 0) {
            buf_add_fmt(complaints, "there is no flag %s\n", word);
            r.bad = true;
        } else if (c->argument_count == CALL_ARGUMENTS_MAX) {
            buf_add_fmt(complaints, "%s: one argument too many\n", word);
            r.bad = true;
        } else {
            c->arguments[c->argument_count++] = word;
        }
    }
    c->source.flags = c->settings;
    *help = r.help;
    return !r.bad;
}

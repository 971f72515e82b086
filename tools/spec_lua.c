/* SPDX-License-Identifier: Apache-2.0
 * spec_lua.c: makes one Lua script for Redis out of a script and the parts it shares with others, at build.
 *
 *     spec_lua SCRIPT [SHARED...] > script.lua
 *
 * The script's first line (`#!lua …`) stays first; then come the shared parts, then the rest. In all of them the words
 * REASON_x, RESERVATION_x and ACTIVITY_x become the numbers that the tables of spec/ give them in C, RESERVATION_MOVES becomes a text with
 * a '1' at from * RESERVATION_COUNT + to for every move of the table, RESERVATION_TERMINAL one with a '1' at every terminal state:
 * constants, which cost a script nothing, and nobody copies a number. A word that no table has ends the build. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

static const struct {
    const char *name;
    int value;
} words[] = {
#define REASON(word, http, fate, level, text) {"REASON_" #word, REASON_##word},
#include "reason.def"
#undef REASON
#define STATE(name, rank, terminal, meaning) {"RESERVATION_" #name, RESERVATION_##name},
#include "reservation.def"
#undef STATE
    {"RESERVATION_COUNT", RESERVATION_STATE_COUNT},
#define STATE(name, sells, meaning) {"ACTIVITY_" #name, ACTIVITY_##name},
#include "activity.def"
#undef STATE
    {"WINNER_PROBES", WINNER_PROBES},
};
static const char moves[RESERVATION_STATE_COUNT * RESERVATION_STATE_COUNT] = {
#define MOVE(from, event, to, who) [RESERVATION_##from * RESERVATION_STATE_COUNT + RESERVATION_##to] = 1,
#include "reservation.def"
#undef MOVE
};
static const char terminal[RESERVATION_STATE_COUNT] = {
#define STATE(name, rank, terminal, meaning) [RESERVATION_##name] = terminal,
#include "reservation.def"
#undef STATE
};

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    exit(1);
}

static void bits(const char *bit, size_t count)
{
    putchar('"');
    for (size_t i = 0; i < count; i++)
        putchar(bit[i] ? '1' : '0');
    putchar('"');
}

static int starts(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

static void word(const char *name, const char *path)
{
    if (strcmp(name, "RESERVATION_MOVES") == 0) {
        bits(moves, sizeof moves);
        return;
    }
    if (strcmp(name, "RESERVATION_TERMINAL") == 0) {
        bits(terminal, sizeof terminal);
        return;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].name, name) == 0) {
            printf("%d", words[i].value);
            return;
        }
    if (starts(name, "REASON_") || starts(name, "RESERVATION_") || starts(name, "ACTIVITY_") || starts(name, "WINNER_"))
        fail("spec_lua: %s: no table has %s\n", path, name);
    fputs(name, stdout);
}

static void body(FILE *f, const char *path)
{
    char name[128];
    size_t length = 0;
    for (int c = 0; c != EOF;) {
        c = getc(f);
        if (c != EOF && (isalnum(c) || c == '_')) {
            if (length + 1 == sizeof name)
                fail("spec_lua: %s: a word is too long\n", path);
            name[length++] = (char)c;
            continue;
        }
        name[length] = 0;
        length = 0;
        word(name, path);
        if (c != EOF)
            putchar(c);
    }
}

static FILE *opened(const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        fail("spec_lua: cannot read %s\n", path);
    return f;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        fail("usage: spec_lua SCRIPT [SHARED...] > script.lua\n");
    FILE *script = opened(argv[1]);
    char first[256];
    if (!fgets(first, sizeof first, script) || !starts(first, "#!lua"))
        fail("spec_lua: %s does not begin with #!lua\n", argv[1]);
    fputs(first, stdout);
    for (int i = 2; i < argc; i++) {
        FILE *shared = opened(argv[i]);
        body(shared, argv[i]);
        fclose(shared);
    }
    body(script, argv[1]);
    fclose(script);
    return fflush(stdout) != 0 || ferror(stdout);
}

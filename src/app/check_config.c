/* SPDX-License-Identifier: Apache-2.0
 * check_config.c: `seckill check-config` and `seckill config print`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "check_live.h"
#include "json.h"
#include "public_api.h"
#include "redis.h"
#include "verb.h"

static void shown(const struct config *c, enum setting s, struct buf *text)
{
    buf_reset(text);
    config_show(c, s, text);
}

static const struct {
    const char *where, *what, *bound, *full;
} bounds[] = {
#define BOUND(where, what, bound, full, test) {where, what, bound, full},
#include "bound.def"
#undef BOUND
};

/* The edge itself, or the value of the setting that moves it. */
static void bound_text(const struct config *c, const char *bound, struct buf *text)
{
    enum setting s;
    buf_reset(text);
    if (!setting_find(str_of(bound), &s)) {
        buf_add_str(text, str_of(bound));
        return;
    }
    config_show(c, s, text);
    buf_add_fmt(text, " %s (%s)", setting_row(s)->unit, bound);
}

static void print_bounds(const struct config *c)
{
    char memory[256];
    struct buf text = buf_fixed(memory, sizeof memory);
    puts("\nbounds");
    for (size_t i = 0; i < countof(bounds); i++) {
        bound_text(c, bounds[i].bound, &text);
        printf("%-9s %-46s %-40.*s %s\n", bounds[i].where, bounds[i].what, STR_ARG(buf_str(&text)), bounds[i].full);
    }
}

static void write_bounds(const struct config *c, struct buf *out)
{
    char memory[256];
    struct buf text = buf_fixed(memory, sizeof memory);
    json_key(out, "bounds");
    json_open_array(out);
    for (size_t i = 0; i < countof(bounds); i++) {
        bound_text(c, bounds[i].bound, &text);
        json_open(out);
        json_member_text(out, "where", bounds[i].where);
        json_member_text(out, "what", bounds[i].what);
        json_member_str(out, "bound", buf_str(&text));
        json_member_text(out, "when_full", bounds[i].full);
        json_close(out);
    }
    json_close_array(out);
}

/* What an access thread takes when it starts, and never more of it (the kernel gives a page when it is first touched). */
struct memory_row {
    const char *what;
    size_t bytes;
};
#define MEMORY_ROWS 6
static void memory_of(const struct config *c, struct memory_row out[MEMORY_ROWS])
{
    struct desk_options o = desk_options_default();
    out[0] = (struct memory_row){"connections (http.connections)", public_api_memory(c)};
    out[1] = (struct memory_row){"calls to Redis (redis.in_flight)", redis_memory((size_t)c->redis_in_flight)};
    out[2] = (struct memory_row){"messages not yet confirmed", publisher_memory(o.publisher)};
    out[3] = (struct memory_row){"states waiting to be told", settler_memory(o.settler)};
    out[4] = (struct memory_row){"sales watched for being sold out", soldout_memory(o.soldout)};
    out[5] = (struct memory_row){"together, for each of access.threads", 0};
    for (size_t i = 0; i < MEMORY_ROWS - 1; i++)
        out[MEMORY_ROWS - 1].bytes += out[i].bytes;
}

static void print_memory(const struct config *c)
{
    struct memory_row rows[MEMORY_ROWS];
    memory_of(c, rows);
    puts("\nmemory of an access thread, fixed at its start");
    for (size_t i = 0; i < MEMORY_ROWS; i++)
        printf("%-46s %10.1f MiB\n", rows[i].what, (double)rows[i].bytes / 1048576);
}

static void write_memory(const struct config *c, struct buf *out)
{
    struct memory_row rows[MEMORY_ROWS];
    memory_of(c, rows);
    json_key(out, "access_memory");
    json_open(out);
    for (size_t i = 0; i < MEMORY_ROWS; i++)
        json_member_u64(out, rows[i].what, rows[i].bytes);
    json_close(out);
}

static void print_live(const struct live_check *live)
{
    puts("\nservers");
    for (size_t i = 0; i < LIVE_FINDINGS; i++) {
        const struct live_finding *f = &live->findings[i];
        printf("[%s] %s%s%s\n", !f->known ? "?" : f->good ? "+" : "-", f->name, f->detail[0] || !f->known ? ": " : "", f->known ? f->detail : "not known");
    }
}

static void write_live(const struct live_check *live, struct buf *out)
{
    json_key(out, "live");
    json_open_array(out);
    for (size_t i = 0; i < LIVE_FINDINGS; i++) {
        const struct live_finding *f = &live->findings[i];
        json_open(out);
        json_member_text(out, "name", f->name);
        json_member_text(out, "result", !f->known ? "unknown" : f->good ? "good" : "bad");
        json_member_text(out, "detail", f->detail);
        json_close(out);
    }
    json_close_array(out);
}

/* `good`: else what follows from the settings together is left out, for it does not follow. `live`: NULL where it was not asked for. */
static void print_table(const struct config *c, bool good, const struct live_check *live)
{
    struct buf text = buf_growing(32 * 1024);
    for (unsigned s = 0; s < SETTING_COUNT; s++) {
        shown(c, (enum setting)s, &text);
        printf("%-24s %-40.*s %s\n", setting_row((enum setting)s)->key, STR_ARG(buf_str(&text)), c->from[s].where);
    }
    buf_free(&text);
    if (good) {
        print_bounds(c);
        print_memory(c);
    }
    if (live)
        print_live(live);
}

static void print_json(const struct config *c, bool good, const struct live_check *live)
{
    struct buf out = buf_growing(1024 * 1024), text = buf_growing(32 * 1024);
    json_open(&out);
    json_key(&out, "settings");
    json_open(&out);
    for (unsigned s = 0; s < SETTING_COUNT; s++) {
        shown(c, (enum setting)s, &text);
        json_key(&out, setting_row((enum setting)s)->key);
        json_open(&out);
        json_member_str(&out, "value", buf_str(&text));
        json_member_text(&out, "origin", c->from[s].where);
        json_close(&out);
    }
    json_close(&out);
    if (good) {
        write_bounds(c, &out);
        write_memory(c, &out);
    }
    if (live)
        write_live(live, &out);
    json_close(&out);
    check(buf_ok(&out));
    printf(STR_FMT "\n", STR_ARG(buf_str(&out)));
    buf_free(&out);
    buf_free(&text);
}

int verb_check_config(const struct call *c)
{
    struct config config;
    struct config_source source = c->source;
    struct buf complaints = buf_growing(64 * 1024);
    source.env = environ;
    enum config_result result = config_load(&config, &source, &complaints);
    fprintf(stderr, STR_FMT, STR_ARG(buf_str(&complaints)));
    struct live_check found, *live = call_switch(c, "live") && result == CONFIG_GOOD ? &found : NULL;
    if (live)
        check_live(&config, live);
    if (c->json)
        print_json(&config, result != CONFIG_BAD, live);
    else
        print_table(&config, result != CONFIG_BAD, live);
    fflush(stdout);    /* else the note may stand in the middle of a line, where both go to one place */
    if (result == CONFIG_GOOD && config_development_keys(&config))
        fputs("note: ids.keys, qualification.keys or payment.webhook_keys are the development ones, which everybody knows\n", stderr);
    if (result == CONFIG_GOOD && config.auth_mode == AUTH_JWT && (config.auth_jwt_issuer[0] == 0 || config.auth_jwt_audience[0] == 0))
        fputs("note: auth.jwt_issuer or auth.jwt_audience is empty: a token that was signed with a key of ours for anything else is accepted\n", stderr);
    buf_free(&complaints);
    config_free(&config);
    return result == CONFIG_GOOD ? live ? (int)live->leave : LEAVE_DONE : result == CONFIG_UNSAFE ? LEAVE_REFUSED : LEAVE_CONFIG;
}

/* The text in comment lines of at most 110 columns. */
static void print_comment(const char *text)
{
    size_t column = 0;
    for (const char *word = text; *word;) {
        size_t n = strcspn(word, " ");
        if (column == 0 || column + n > 108) {
            printf("%s#", column == 0 ? "" : "\n");
            column = 1;
        }
        printf(" %.*s", (int)n, word);
        column += n + 1;
        word += n + strspn(word + n, " ");
    }
    putchar('\n');
}

static void print_sample(void)
{
    puts("# Settings of seckill. A flag beats the environment, which beats this file, which beats the default shown.");
    for (unsigned s = 0; s < SETTING_COUNT; s++) {
        const struct setting_row *row = setting_row((enum setting)s);
        char env[SETTING_NAME_MAX];
        setting_env((enum setting)s, env);
        putchar('\n');
        print_comment(row->text);
        if (row->kind == SETTING_NUMBER)
            printf("# %lld to %lld %s; ", (long long)row->min, (long long)row->max, row->unit);
        else if (row->kind == SETTING_CHOICE)
            printf("# %s; ", row->unit);
        else
            printf("# ");
        printf("%s%s\n#%s: \"%s\"\n", env, row->apply == SETTING_LIVE ? "; read again on SIGHUP" : "", row->key, row->value);
    }
}

int verb_config(const struct call *c)
{
    if (c->argument_count != 1 || strcmp(c->arguments[0], "print") != 0)
        return call_misused(c, "the one thing it does is `seckill config print`");
    print_sample();
    return LEAVE_DONE;
}

/* SPDX-License-Identifier: Apache-2.0
 * config.c: four layers of texts laid over each other, then read once into the typed struct. */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libpq-fe.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "admin_guard.h"
#include "arena.h"
#include "channel_http.h"
#include "check.h"
#include "config_file.h"
#include "jwt.h"
#include "redis_address.h"
#include "suggest.h"
#include "webhook.h"

static const struct setting_row rows[] = {
#define SETTING(field, key, kind, value, min, max, unit, apply, shown, text) \
    {key, SETTING_##kind, value, min, max, unit, SETTING_##apply, SETTING_##shown, text},
#include "config.def"
#undef SETTING
};
static const size_t places[] = {
#define SETTING(field, key, kind, value, min, max, unit, apply, shown, text) offsetof(struct config, field),
#include "config.def"
#undef SETTING
};

struct config_memory {
    struct arena arena;
};
#define MEMORY_BYTES (4 * 1024 * 1024)    /* every layer full to the brim: TEXT_MAX for each flag and setting, and the file */

const struct setting_row *setting_row(enum setting s)
{
    check((unsigned)s < SETTING_COUNT);
    return &rows[s];
}

bool setting_find(struct str key, enum setting *out)
{
    for (unsigned i = 0; i < SETTING_COUNT; i++)
        if (str_eq(key, str_of(rows[i].key))) {
            *out = (enum setting)i;
            return true;
        }
    return false;
}

static void derive(enum setting s, const char *prefix, char joint, bool upper, char out[SETTING_NAME_MAX])
{
    const char *key = setting_row(s)->key;
    size_t at = strlen(prefix);
    check(at + strlen(key) < SETTING_NAME_MAX);
    memcpy(out, prefix, at);
    for (; *key; key++, at++)
        out[at] = *key == '.' || *key == '_' ? joint : upper && *key >= 'a' && *key <= 'z' ? (char)(*key - 32) : *key;
    out[at] = 0;
}

void setting_flag(enum setting s, char out[SETTING_NAME_MAX]) { derive(s, "--", '-', false, out); }
void setting_env(enum setting s, char out[SETTING_NAME_MAX]) { derive(s, "SECKILL_", '_', true, out); }

/* ---- the layers ---------------------------------------------------------------------------------------------------------- */

struct loading {
    struct config *config;
    const struct config_source *source;
    struct buf *complaints;
    bool bad;
};

static const char *keep(struct loading *l, struct str s)
{
    char *copy = arena_take(&l->config->memory->arena, s.len + 1);
    check(copy != NULL);    /* each text is bounded, and the arena holds them all */
    if (s.len > 0)
        memcpy(copy, s.ptr, s.len);
    return copy;
}

static const char *keep_joined(struct loading *l, const char *a, const char *b)
{
    char text[SETTING_NAME_MAX + 32];
    int n = snprintf(text, sizeof text, "%s%s", a, b);
    return keep(l, (struct str){text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1});
}

#define TEXT_MAX 16384    /* the longest value any setting may have */

static void lay(struct loading *l, enum setting s, struct str value, enum setting_origin origin, const char *where)
{
    if (value.len > TEXT_MAX || (value.len > 0 && memchr(value.ptr, 0, value.len))) {
        buf_add_fmt(l->complaints, "%s: the value from %s is too long or holds a zero byte\n", rows[s].key, where);
        l->bad = true;
        return;
    }
    l->config->from[s].origin = origin;
    l->config->from[s].where = where;
    l->config->from[s].text = keep(l, value);
}

static void lay_defaults(struct loading *l)
{
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        l->config->from[i].where = "default";
        l->config->from[i].text = rows[i].value;
    }
}

static void lay_file_value(void *arg, struct str key, struct str value, unsigned line)
{
    struct loading *l = arg;
    enum setting s;
    char where[512];
    snprintf(where, sizeof where, "file %s:%u", l->source->file, line);
    if (!setting_find(key, &s)) {
        struct suggest nearest = {.typed = key};
        for (unsigned i = 0; i < SETTING_COUNT; i++)
            suggest_offer(&nearest, rows[i].key);
        buf_add_fmt(l->complaints, "%s: there is no setting \"" STR_FMT "\"", where, STR_ARG(key));
        buf_add_fmt(l->complaints, nearest.best ? "; did you mean \"%s\"?\n" : "\n", nearest.best);
        l->bad = true;
    } else if (l->config->from[s].origin == ORIGIN_FILE) {
        buf_add_fmt(l->complaints, "%s: %s is set twice, first in %s\n", where, rows[s].key, l->config->from[s].where);
        l->bad = true;
    } else {
        lay(l, s, value, ORIGIN_FILE, keep(l, str_of(where)));
    }
}

/* A secret's file: its whole content without the last line ends. */
static void lay_secret_file(struct loading *l, enum setting s, const char *name, const char *path)
{
    char text[TEXT_MAX + 2];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    bool failed = !f || ferror(f);
    if (failed) {
        buf_add_fmt(l->complaints, "%s: cannot read %s of environment %s: %s\n", rows[s].key, path, name, strerror(errno));
        l->bad = true;
    }
    if (f)
        fclose(f);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    if (!failed)
        lay(l, s, (struct str){text, n}, ORIGIN_ENV, keep_joined(l, "environment ", name));
}

static const char *env_of(const struct loading *l, const char *name)
{
    size_t n = strlen(name);
    for (char *const *e = l->source->env; *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    return NULL;
}

static void lay_env(struct loading *l, enum setting s)
{
    char name[SETTING_NAME_MAX], file_name[SETTING_NAME_MAX + 8];
    setting_env(s, name);
    snprintf(file_name, sizeof file_name, "%s_FILE", name);
    const char *value = env_of(l, name), *file = rows[s].shown != SETTING_PLAIN ? env_of(l, file_name) : NULL;
    if (value && file) {
        buf_add_fmt(l->complaints, "%s: both environment %s and %s are set; say it once\n", rows[s].key, name, file_name);
        l->bad = true;
    } else if (value) {
        lay(l, s, str_of(value), ORIGIN_ENV, keep_joined(l, "environment ", name));
    } else if (file) {
        lay_secret_file(l, s, file_name, file);
    }
}

#define MISSPELT 2    /* letters */

/* A misspelt variable would leave the default in silence. What resembles no setting is somebody else's: Kubernetes alone sets a dozen
 * SECKILL_ variables beside a service of that name. */
static void check_env_name(struct loading *l, struct str name)
{
    char nearest[SETTING_NAME_MAX + 8], other[SETTING_NAME_MAX + 8];
    size_t least = MISSPELT + 1;
    for (unsigned i = 0; i < 2 * SETTING_COUNT && least > 0; i++) {
        enum setting s = (enum setting)(i / 2);
        setting_env(s, other);
        if (i % 2 == 1 && rows[s].shown != SETTING_PLAIN)
            strcat(other, "_FILE");
        size_t distance = suggest_distance(name, str_of(other));
        if (distance < least) {
            least = distance;
            strcpy(nearest, other);
        }
    }
    if (least == 0 || least > MISSPELT)
        return;
    buf_add_fmt(l->complaints, "environment " STR_FMT ": there is no such setting; did you mean %s?\n", STR_ARG(name), nearest);
    l->bad = true;
}

static void lay_environment(struct loading *l)
{
    for (unsigned i = 0; i < SETTING_COUNT; i++)
        lay_env(l, (enum setting)i);
    for (char *const *e = l->source->env; *e; e++)
        if (str_starts(str_of(*e), str_lit("SECKILL_")))
            check_env_name(l, (struct str){*e, strcspn(*e, "=")});
}

static void lay_flags(struct loading *l)
{
    for (size_t i = 0; i < l->source->flag_count; i++) {
        const struct config_flag *f = &l->source->flags[i];
        char name[SETTING_NAME_MAX];
        setting_flag(f->setting, name);
        lay(l, f->setting, str_of(f->value), ORIGIN_FLAG, keep_joined(l, "flag ", name));
    }
}

/* ---- reading each value -------------------------------------------------------------------------------------------------- */

static bool read_choice(const char *choices, struct str value, unsigned *out)
{
    *out = 0;
    for (const char *at = choices;; (*out)++) {
        const char *end = strchr(at, '|');
        struct str choice = {at, end ? (size_t)(end - at) : strlen(at)};
        if (str_eq(choice, value))
            return true;
        if (!end)
            return false;
        at = end + 1;
    }
}

static bool read_switch(struct str value, bool *out)
{
    *out = str_eq(value, str_lit("true")) || str_eq(value, str_lit("yes")) || str_eq(value, str_lit("on")) || str_eq(value, str_lit("1"));
    return *out || str_eq(value, str_lit("false")) || str_eq(value, str_lit("no")) || str_eq(value, str_lit("off")) || str_eq(value, str_lit("0"));
}

static bool read_value(struct loading *l, enum setting s)
{
    const struct setting_row *row = &rows[s];
    struct str value = str_of(l->config->from[s].text);
    void *place = (char *)l->config + places[s];
    int64_t length = (int64_t)value.len;
    switch (row->kind) {
    case SETTING_TEXT:
        *(const char **)place = l->config->from[s].text;
        return length >= row->min && length <= row->max;
    case SETTING_NUMBER:
        return str_to_i64(value, place) && *(int64_t *)place >= row->min && *(int64_t *)place <= row->max;
    case SETTING_SWITCH:
        return read_switch(value, place);
    case SETTING_CHOICE:
        return read_choice(row->unit, value, place);
    }
    return false;
}

static void complain_value(struct loading *l, enum setting s, const char *expected)
{
    const struct setting_row *row = &rows[s];
    buf_add_fmt(l->complaints, "%s: ", row->key);
    if (row->shown == SETTING_PLAIN)
        buf_add_fmt(l->complaints, "\"%s\" ", l->config->from[s].text);
    else
        buf_add_str(l->complaints, str_lit("the value "));
    buf_add_fmt(l->complaints, "from %s is not good: expected %s\n", l->config->from[s].where, expected);
    l->bad = true;
}

static void read_values(struct loading *l)
{
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        const struct setting_row *row = &rows[i];
        char expected[160];
        if (read_value(l, (enum setting)i))
            continue;
        if (row->kind == SETTING_TEXT)
            snprintf(expected, sizeof expected, "%lld to %lld bytes", (long long)row->min, (long long)row->max);
        else if (row->kind == SETTING_NUMBER)
            snprintf(expected, sizeof expected, "a whole number from %lld to %lld (%s)", (long long)row->min, (long long)row->max, row->unit);
        else
            snprintf(expected, sizeof expected, "one of %s", row->kind == SETTING_SWITCH ? "true|false" : row->unit);
        complain_value(l, (enum setting)i, expected);
    }
}

/* ---- what a range cannot say ---------------------------------------------------------------------------------------------- */

static const char *const role_names[] = {"access", "order", "relay", "janitor", "admin"};

static void check_roles(struct loading *l)
{
    unsigned met[countof(role_names)] = {0}, unknown = 0, twice = 0;
    struct str item;
    for (size_t n = 0; (item = config_item(l->config->roles, n)).ptr; n++) {
        size_t i = 0;
        while (i < countof(role_names) && !str_eq(item, str_of(role_names[i])))
            i++;
        unknown += i == countof(role_names);
        twice += i < countof(role_names) && met[i]++ > 0;
    }
    if (unknown + twice > 0)
        complain_value(l, SETTING_roles, "access, order, relay, janitor, admin, each once, with commas between");
}

static void check_address(struct loading *l, enum setting s, const char *text)
{
    char host[64];
    uint16_t port;
    struct address parsed;    /* by the same function as the listener's own */
    if (!config_address(text, host, &port) || !address_parse(str_of(text), &parsed))
        complain_value(l, s, "an address and a port, as 127.0.0.1:8480 or [::1]:8480");
}

#define KEYS_MOST 8    /* of one setting, while they are changed */

static void check_items(struct loading *l, enum setting s, const char *text, size_t most, bool pairs, const char *expected)
{
    size_t n = 0;
    struct str item;
    for (; (item = config_item(text, n)).ptr; n++) {
        const char *colon = memchr(item.ptr, ':', item.len);
        bool good = !pairs ? item.len >= 16 : colon && colon > item.ptr && str_range(colon + 1, item.ptr + item.len).len >= 16;
        if (!good)
            return complain_value(l, s, expected);
    }
    if (n > most || (n == 0 && text[0] != 0))
        complain_value(l, s, expected);
}

static void check_admin(struct loading *l)
{
    const char *tokens = l->config->admin_tokens, *hosts = l->config->admin_hosts;
    struct str item;
    size_t count = 0;
    bool good = true;
    for (; (item = config_item(tokens, count)).ptr; count++)
        good &= admin_guard_token_good(item);
    if (tokens[0] != 0 && (!good || count > KEYS_MOST))
        complain_value(l, SETTING_admin_tokens, "tokens of 16 or more of A-Z a-z 0-9 - . _ ~ + / =, eight at most, with commas between");
    for (size_t i = 0; hosts[0] != 0 && (item = config_item(hosts, i)).ptr; i++)
        if (item.len == 0 || memchr(item.ptr, ':', item.len) || memchr(item.ptr, '/', item.len) || memchr(item.ptr, '*', item.len))
            return complain_value(l, SETTING_admin_hosts, "host names without port, with commas between");
}

static size_t count_items(const char *text)
{
    size_t n = 0;
    while (config_item(text, n).ptr)
        n++;
    return n;
}

/* Whether keys can be used is said by those who will use them: else what is called good here would not start. */
static void check_keys(struct loading *l)
{
    const char *tokens = l->config->auth_jwt_keys, *callbacks = l->config->payment_webhook_keys;
    struct jwt_keys *jwt = tokens[0] && count_items(tokens) <= KEYS_MOST ? jwt_keys_open(str_of(tokens)) : NULL;
    if (tokens[0] && !jwt)
        complain_value(l, SETTING_auth_jwt_keys, "kid:secret pairs, eight at most, with commas between: a kid of letters, digits, _ and -, a secret of 16 bytes or more");
    jwt_keys_close(jwt);
    if (count_items(callbacks) > KEYS_MOST || !webhook_keys_good(callbacks))
        complain_value(l, SETTING_payment_webhook_keys, "whsec_ and the base64 of 24 to 64 bytes; several, eight at most, with commas between");
}

/* "host:port" with ; or , between: every one of them, for a server left out in silence is missed only when the others are gone. */
static bool name_servers(struct str list)
{
    for (size_t servers = 0;;) {
        size_t n = 0;
        while (n < list.len && list.ptr[n] != ';' && list.ptr[n] != ',')
            n++;
        struct str server = str_trim((struct str){list.ptr, n});
        const char *colon = server.len > 0 ? memrchr(server.ptr, ':', server.len) : NULL;
        uint64_t port;
        if (colon && colon > server.ptr && str_to_u64(str_range(colon + 1, server.ptr + server.len), &port) && port > 0 && port <= 65535)
            servers++;
        else if (server.len > 0)
            return false;
        if (n == list.len)
            return servers > 0;
        list = (struct str){list.ptr + n + 1, list.len - n - 1};
    }
}

/* What an engine could not use is refused before anything starts. */
static void check_engines(struct loading *l)
{
    const struct config *c = l->config;
    struct redis_address redis;
    if (!redis_address_parse(str_of(c->redis_url), &redis))
        complain_value(l, SETTING_redis_url, "redis://[user:password@]host[:port][/db], one server and no list, or unix:/path");
    if (!name_servers(str_of(c->rocketmq_namesrv)))
        complain_value(l, SETTING_rocketmq_namesrv, "host:port, with ; or , between several");
    PQconninfoOption *postgres = PQconninfoParse(c->postgres_url, NULL);
    if (!postgres)
        complain_value(l, SETTING_postgres_url, "a connection string of libpq, as postgresql://host/db or host=/path dbname=db");
    PQconninfoFree(postgres);
    if (c->payment_channel_url[0] != 0 && !channel_http_url_good(str_of(c->payment_channel_url)))
        complain_value(l, SETTING_payment_channel_url, "http[s]://[user:password@]host[:port][/path], or nothing");
}

static bool loopback(const char *address)
{
    char host[64];
    uint16_t port;
    return config_address(address, host, &port) && (strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0);
}

static bool unsafe(struct loading *l)
{
    const struct config *c = l->config;
    bool found = false;
    if (c->auth_mode == AUTH_NONE && !loopback(c->http_listen)) {
        buf_add_fmt(l->complaints, "auth.mode: \"none\" from %s lets anybody be anybody: it is refused unless http.listen is a loopback address\n",
                    c->from[SETTING_auth_mode].where);
        found = true;
    }
    if (!loopback(c->admin_listen)) {
        buf_add_fmt(l->complaints, "admin.listen: \"%s\" from %s: whoever reaches the admin API may do everything: it is refused unless it is a loopback address\n",
                    c->admin_listen, c->from[SETTING_admin_listen].where);
        found = true;
    }
    if (c->auth_mode == AUTH_JWT && config_development_keys(c)) {
        buf_add_str(l->complaints, str_lit("ids.keys, ids.user_key, qualification.keys, payment.webhook_keys: the development keys are public; with auth.mode=jwt all must be your own\n"));
        found = true;
    }
    if (c->auth_mode == AUTH_JWT && config_has_role(c, "admin") && c->admin_tokens[0] == 0) {
        buf_add_str(l->complaints, str_lit("admin.tokens: with auth.mode=jwt the admin role needs at least one: every local process, and every page in a browser, could call it\n"));
        found = true;
    }
    if (c->auth_mode == AUTH_JWT && c->auth_jwt_keys[0] == 0) {
        buf_add_str(l->complaints, str_lit("auth.jwt_keys: auth.mode=jwt needs at least one kid:secret\n"));
        found = true;
    }
    return found;
}

static void check_together(struct loading *l)
{
    const struct config *c = l->config;
    check_roles(l);
    check_address(l, SETTING_http_listen, c->http_listen);
    check_address(l, SETTING_admin_listen, c->admin_listen);
    if (c->health_listen[0] != 0)
        check_address(l, SETTING_health_listen, c->health_listen);
    check_items(l, SETTING_ids_keys, c->ids_keys, 2, false, "one or two secrets of 16 bytes or more, with a comma between");
    check_items(l, SETTING_qualification_keys, c->qualification_keys, KEYS_MOST, true, "kid:secret pairs, each secret 16 bytes or more, with commas between");
    check_keys(l);
    check_admin(l);
    if (strcmp(c->http_listen, c->admin_listen) == 0)
        complain_value(l, SETTING_admin_listen, "another address than http.listen");
    if (c->health_listen[0] != 0 && (strcmp(c->health_listen, c->http_listen) == 0 || strcmp(c->health_listen, c->admin_listen) == 0))
        complain_value(l, SETTING_health_listen, "another address than http.listen and admin.listen");
    if (!str_is_id(str_of(c->demo_activity)))
        complain_value(l, SETTING_demo_activity, "an id: 1 to 64 of A-Z a-z 0-9 _ -");
    check_engines(l);
}

enum config_result config_load(struct config *out, const struct config_source *source, struct buf *complaints)
{
    *out = (struct config){0};
    out->memory = calloc(1, sizeof *out->memory);
    check(out->memory != NULL);
    out->memory->arena = arena_new(MEMORY_BYTES);
    check(out->memory->arena.start != NULL);
    struct loading l = {.config = out, .source = source, .complaints = complaints};
    lay_defaults(&l);
    if (source->file && !config_file_read(source->file, lay_file_value, &l, complaints))
        l.bad = true;
    if (source->env)
        lay_environment(&l);
    lay_flags(&l);
    read_values(&l);
    if (!l.bad)
        check_together(&l);
    return l.bad ? CONFIG_BAD : unsafe(&l) ? CONFIG_UNSAFE : CONFIG_GOOD;
}

void config_free(struct config *c)
{
    if (c->memory)
        arena_free(&c->memory->arena);
    free(c->memory);
    c->memory = NULL;
}

/* ---- asked later ----------------------------------------------------------------------------------------------------------- */

/* The value after "password" and "=", of whatever name ends so: quoted as libpq lets one, or up to what ends it. */
static struct str password_value(struct str s, bool url)
{
    const char *end = s.ptr + s.len, *at = s.ptr;
    for (; (at = memmem(at, (size_t)(end - at), "password", 8)); ) {
        at += 8;
        while (at < end && *at == ' ')
            at++;
        if (at == end || *at != '=')
            continue;
        for (at++; at < end && *at == ' '; at++)
            ;
        const char *from = at;
        bool quoted = !url && at < end && *at == '\'';
        for (at += quoted; at < end && (quoted ? *at != '\'' : *at != (url ? '&' : ' ')); at++)
            at += !url && *at == '\\' && at + 1 < end;
        return str_range(from, at + (quoted && at < end));
    }
    return (struct str){0};
}

/* The first secret of scheme://user:password@host or of a libpq string. */
static struct str password_in(struct str s, bool url)
{
    struct str value = password_value(s, url);
    const char *slashes = memmem(s.ptr, s.len, "://", 3);
    if (!slashes)
        return value;
    struct str rest = str_range(slashes + 3, s.ptr + s.len);
    const char *sign = memrchr(rest.ptr, '@', rest.len);
    const char *colon = sign ? memchr(rest.ptr, ':', (size_t)(sign - rest.ptr)) : NULL;
    return colon && (!value.ptr || colon < value.ptr) ? str_range(colon + 1, sign) : value;
}

void config_show(const struct config *c, enum setting s, struct buf *out)
{
    struct str text = str_of(c->from[s].text), hidden;
    if (rows[s].shown == SETTING_SECRET && text.len > 0) {
        buf_add_str(out, str_lit("(hidden)"));
        return;
    }
    bool url = memmem(text.ptr, text.len, "://", 3) != NULL;
    while (rows[s].shown == SETTING_URL && (hidden = password_in(text, url)).len > 0) {
        buf_add_str(out, str_range(text.ptr, hidden.ptr));
        buf_add_str(out, str_lit("***"));
        text = str_range(hidden.ptr + hidden.len, text.ptr + text.len);
    }
    buf_add_str(out, text);
}

bool config_has_role(const struct config *c, const char *role)
{
    struct str item;
    for (size_t n = 0; (item = config_item(c->roles, n)).ptr; n++)
        if (str_eq(item, str_of(role)))
            return true;
    return false;
}

bool config_address(const char *text, char host[64], uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    int64_t number;
    if (!colon || !str_to_i64(str_of(colon + 1), &number) || number < 0 || number > 65535)
        return false;
    struct str name = str_range(text, colon);
    if (name.len > 2 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']')
        name = (struct str){name.ptr + 1, name.len - 2};
    else if (name.len > 0 && memchr(name.ptr, ':', name.len))
        return false;
    if (name.len == 0 || name.len >= 64)
        return false;
    memcpy(host, name.ptr, name.len);
    host[name.len] = 0;
    *port = (uint16_t)number;
    return true;
}

struct str config_item(const char *list, size_t n)
{
    for (const char *at = list;; n--) {
        const char *comma = strchr(at, ',');
        struct str item = str_trim((struct str){at, comma ? (size_t)(comma - at) : strlen(at)});
        if (n == 0)
            return item.len > 0 || comma ? (struct str){item.ptr ? item.ptr : at, item.len} : (struct str){0};
        if (!comma)
            return (struct str){0};
        at = comma + 1;
    }
}

struct str config_admin_token(const struct config *c) { return config_item(c->admin_tokens, 0); }

enum severity config_log_level(const struct config *c)
{
    enum severity level = LEVEL_INFO;
    bool known = log_level_parse(str_of(c->from[SETTING_log_level].text), &level);
    check(known);    /* the choices of log.level are the names of the levels */
    return level;
}

/* What of a key is secret: all of it, or what stands behind the kid. */
static struct str secret_of(struct str key)
{
    const char *colon = key.len > 0 ? memchr(key.ptr, ':', key.len) : NULL;
    return colon ? str_range(colon + 1, key.ptr + key.len) : key;
}

/* Whether one of the keys is one that everybody knows. */
static bool holds_public_key(const char *keys, enum setting s)
{
    struct str key, known;
    for (size_t i = 0; (key = config_item(keys, i)).ptr; i++)
        for (size_t k = 0; (known = config_item(rows[s].value, k)).ptr; k++)
            if (str_eq(secret_of(key), secret_of(known)))
                return true;
    return false;
}

bool config_development_keys(const struct config *c)
{
    return holds_public_key(c->ids_keys, SETTING_ids_keys) || holds_public_key(c->ids_user_key, SETTING_ids_user_key) ||
           holds_public_key(c->qualification_keys, SETTING_qualification_keys) || holds_public_key(c->payment_webhook_keys, SETTING_payment_webhook_keys);
}

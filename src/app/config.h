/* SPDX-License-Identifier: Apache-2.0
 * config.h: the settings as one typed struct, made from spec/config.def. Where a value comes from, strongest first:
 *   a flag (--redis-url), the environment (SECKILL_REDIS_URL; SECKILL_..._FILE for a secret), the file of --config, the default.
 * Every layer is honoured. Whatever is unknown or out of range is an error that names key, value and origin. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "log.h"
#include "str.h"

#define SETTING_TYPE_TEXT const char *
#define SETTING_TYPE_NUMBER int64_t
#define SETTING_TYPE_SWITCH bool
#define SETTING_TYPE_CHOICE unsigned    /* index among the choices; the enums below, in the order of the table */

enum auth_mode { AUTH_NONE, AUTH_JWT };

enum setting {
#define SETTING(field, key, kind, value, min, max, unit, apply, shown, text) SETTING_##field,
#include "config.def"
#undef SETTING
    SETTING_COUNT
};
enum setting_kind { SETTING_TEXT, SETTING_NUMBER, SETTING_SWITCH, SETTING_CHOICE };
enum setting_shown { SETTING_PLAIN, SETTING_URL, SETTING_SECRET };
enum setting_apply { SETTING_RESTART, SETTING_LIVE };
enum setting_origin { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_ENV, ORIGIN_FLAG };

struct setting_row {
    const char *key;
    enum setting_kind kind;
    const char *value;      /* the default, as text */
    int64_t min, max;
    const char *unit;       /* of a CHOICE: the choices */
    enum setting_apply apply;
    enum setting_shown shown;
    const char *text;
};
const struct setting_row *setting_row(enum setting s);
bool setting_find(struct str key, enum setting *out);
/* "--redis-url" and "SECKILL_REDIS_URL", with a zero at the end. */
#define SETTING_NAME_MAX 64
void setting_flag(enum setting s, char out[SETTING_NAME_MAX]);
void setting_env(enum setting s, char out[SETTING_NAME_MAX]);

struct config {
#define SETTING(field, key, kind, value, min, max, unit, apply, shown, text) SETTING_TYPE_##kind field;
#include "config.def"
#undef SETTING
    struct {
        enum setting_origin origin;
        const char *where;    /* "default", "file x.yaml:3", "environment SECKILL_REDIS_URL", "flag --redis-url" */
        const char *text;     /* the value as it was written */
    } from[SETTING_COUNT];
    struct config_memory *memory;
};

struct config_flag {
    enum setting setting;
    const char *value;
};
struct config_source {
    const char *file;                      /* NULL: none */
    const struct config_flag *flags;
    size_t flag_count;
    char *const *env;                      /* "NAME=value", NULL at the end, as environ has it; NULL: no environment */
};
/* CONFIG_BAD: something is unknown, misspelt or out of range. CONFIG_UNSAFE: each value is good, but together they break a safety rule
 * (development keys or no authentication where strangers could come). One line per complaint in `complaints`. The texts of *out
 * live until config_free(); *out may be freed whatever came back. */
enum config_result { CONFIG_GOOD, CONFIG_BAD, CONFIG_UNSAFE };
enum config_result config_load(struct config *out, const struct config_source *source, struct buf *complaints);
void config_free(struct config *c);

/* The value as people may see it: secrets as "(hidden)", passwords in URLs as "***". */
void config_show(const struct config *c, enum setting s, struct buf *out);

/* Whether the process has this role ("access", "order", ...). */
bool config_has_role(const struct config *c, const char *role);
/* Splits "host:port" or "[v6]:port"; false when it is neither. host gets a zero at its end. */
bool config_address(const char *text, char host[64], uint16_t *port);
/* The n-th of a text with commas between, blanks around it trimmed; {NULL, 0} past the end. */
struct str config_item(const char *list, size_t n);
/* The first of admin.tokens, which verbs send; empty: none is set. */
struct str config_admin_token(const struct config *c);
enum severity config_log_level(const struct config *c);
/* Whether a key of this config is the one everybody can read in spec/config.def. */
bool config_development_keys(const struct config *c);

/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "json.h"

static _Atomic enum severity least_level = LEVEL_INFO;    /* changed while threads write */
static const char *role;
static int out = STDERR_FILENO;

static const char *const names[] = {"debug", "info", "warn", "error", "fatal"};

void log_level_set(enum severity least) { atomic_store_explicit(&least_level, least, memory_order_relaxed); }
void log_role_set(const char *name) { role = name; }
void log_to(int fd) { out = fd; }

bool log_level_parse(struct str name, enum severity *level)
{
    for (int i = LEVEL_DEBUG; i <= LEVEL_FATAL; i++)
        if (str_eq(name, str_of(names[i]))) {
            *level = (enum severity)i;
            return true;
        }
    return false;
}

struct log_line log_event(enum severity level, const char *event)
{
    struct log_line l = {.on = level >= atomic_load_explicit(&least_level, memory_order_relaxed)};
    if (!l.on)
        return l;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    l.text = buf_fixed(l.memory, sizeof l.memory - 32);    /* room for the end */
    json_open(&l.text);
    json_member_time(&l.text, "ts", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    json_member_text(&l.text, "level", names[level]);
    if (role)
        json_member_text(&l.text, "role", role);
    json_member_text(&l.text, "event", event);
    return l;
}

/* The struct was copied out of log_event: its text must point at its own memory again. */
static struct buf *text_of(struct log_line *l)
{
    l->text.ptr = l->memory;
    return &l->text;
}

/* A member either fits whole or leaves no trace but the mark at the end. */
#define MEMBER(l, add)                            \
    do {                                          \
        if (!(l)->on || (l)->text.overflow)       \
            return;                               \
        struct buf *b = text_of(l);               \
        size_t before = b->len;                   \
        add;                                      \
        if (b->overflow)                          \
            b->len = before;                      \
    } while (0)

void log_str(struct log_line *l, const char *key, struct str value) { MEMBER(l, json_member_str(b, key, value)); }
void log_text(struct log_line *l, const char *key, const char *value) { MEMBER(l, json_member_text(b, key, value)); }
void log_i64(struct log_line *l, const char *key, int64_t value) { MEMBER(l, json_member_i64(b, key, value)); }
void log_bool(struct log_line *l, const char *key, bool value) { MEMBER(l, json_member_bool(b, key, value)); }

void log_end(struct log_line *l)
{
    if (!l->on)
        return;
    struct buf *b = text_of(l);
    bool cut = b->overflow;
    b->overflow = false;
    b->cap = sizeof l->memory;
    if (cut)
        json_member_bool(b, "cut", true);
    json_close(b);
    buf_add_char(b, '\n');
    ssize_t ignored = write(out, b->ptr, b->len);    /* a log that cannot be written must not stop the sale */
    (void)ignored;
    l->on = false;
}

bool log_ration_take(struct log_ration *r, uint64_t now_us, uint32_t a_second)
{
    if (r->since_us == 0 || now_us - r->since_us >= 1000000) {
        r->since_us = now_us > 0 ? now_us : 1;
        r->told = 0;
    }
    bool may = r->told < a_second;
    r->told += may;
    r->untold += !may;
    return may;
}

void log_untold(struct log_line *l, struct log_ration *r)
{
    if (r->untold > 0)
        log_i64(l, "untold", (int64_t)r->untold);
    r->untold = 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * config_file.c: libyaml's events, and a path of keys that grows and shrinks with the mappings. */
#include "config_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#define DEPTH_MAX 8

struct reader {
    yaml_parser_t parser;
    FILE *file;
    size_t bytes;              /* read of it */
    const char *path;
    struct buf *complaints;
    config_file_value got;
    void *arg;
    char key[256];
    size_t ends[DEPTH_MAX];    /* length of the key before each mapping's own part */
    size_t depth;
    unsigned documents;
    int error;                 /* errno of a read that failed; 0: none did */
    bool wants_value, failed;
};

static void complain(struct reader *r, const yaml_mark_t *at, const char *what)
{
    if (!r->failed)
        buf_add_fmt(r->complaints, "file %s:%zu: %s\n", r->path, at->line + 1, what);
    r->failed = true;
}

static void complain_parser(struct reader *r)
{
    const char *problem = r->bytes > CONFIG_FILE_MAX ? "the file is too long" : r->error ? strerror(r->error) : r->parser.problem;
    complain(r, &r->parser.problem_mark, problem ? problem : "not YAML");
}

static struct str scalar_of(const yaml_event_t *e)
{
    return (struct str){(const char *)e->data.scalar.value, e->data.scalar.length};
}

static void push_key(struct reader *r, const yaml_event_t *e)
{
    struct str part = scalar_of(e);
    size_t base = r->ends[r->depth - 1], dot = base > 0;
    if (part.len == 0 || base + dot + part.len > sizeof r->key)
        return complain(r, &e->start_mark, "a key is empty or too long");
    if (dot)
        r->key[base] = '.';
    memcpy(r->key + base + dot, part.ptr, part.len);
    r->ends[r->depth] = base + dot + part.len;
    r->wants_value = true;
}

static void give(struct reader *r, struct str value, size_t line)
{
    r->got(r->arg, (struct str){r->key, r->ends[r->depth]}, value, (unsigned)line + 1);
    r->wants_value = false;
}

static void open_mapping(struct reader *r, const yaml_event_t *e)
{
    if ((r->depth > 0 && !r->wants_value) || r->depth + 2 > DEPTH_MAX)
        return complain(r, &e->start_mark, "a mapping is not expected here");
    r->depth++;
    if (r->depth == 1)
        r->ends[0] = 0;
    r->wants_value = false;
}

/* What plain YAML does not have: an anchor, or a tag that would say how a text is to be read. */
static bool adorned(const yaml_event_t *e)
{
    return (e->type == YAML_SCALAR_EVENT && (e->data.scalar.anchor || e->data.scalar.tag)) ||
           (e->type == YAML_MAPPING_START_EVENT && (e->data.mapping_start.anchor || e->data.mapping_start.tag)) ||
           (e->type == YAML_SEQUENCE_START_EVENT && (e->data.sequence_start.anchor || e->data.sequence_start.tag));
}

/* The items of a sequence with commas between; anything but scalars in it is refused. */
static void read_sequence(struct reader *r, size_t line)
{
    char joined[1024];
    struct buf all = buf_fixed(joined, sizeof joined);
    for (bool more = true; more && !r->failed;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&r->parser, &e))
            return complain_parser(r);
        if (adorned(&e)) {
            complain(r, &e.start_mark, "anchors and tags are not read");
        } else if (e.type == YAML_SCALAR_EVENT) {
            if (all.len > 0)
                buf_add_char(&all, ',');
            buf_add_str(&all, scalar_of(&e));
        } else if (e.type == YAML_SEQUENCE_END_EVENT) {
            more = false;
        } else {
            complain(r, &e.start_mark, "a list may hold only plain values");
        }
        if (!buf_ok(&all))
            complain(r, &e.start_mark, "a list is too long");
        yaml_event_delete(&e);
    }
    if (!r->failed)
        give(r, buf_str(&all), line);
}

static void take(struct reader *r, const yaml_event_t *e, bool *more)
{
    if (adorned(e))
        return complain(r, &e->start_mark, "anchors and tags are not read");
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (r->documents++ > 0)
            complain(r, &e->start_mark, "one document is enough");
        break;
    case YAML_SCALAR_EVENT:
        if (r->depth == 0 && scalar_of(e).len == 0)
            break;    /* an empty file */
        if (r->depth == 0)
            complain(r, &e->start_mark, "expected settings, as in `redis.url: redis://127.0.0.1:6379`");
        else if (!r->wants_value)
            push_key(r, e);
        else
            give(r, scalar_of(e), e->start_mark.line);
        break;
    case YAML_MAPPING_START_EVENT:
        open_mapping(r, e);
        break;
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        r->wants_value = false;
        break;
    case YAML_SEQUENCE_START_EVENT:
        if (!r->wants_value)
            complain(r, &e->start_mark, "a list is not expected here");
        else
            read_sequence(r, e->start_mark.line);
        break;
    case YAML_ALIAS_EVENT:
        complain(r, &e->start_mark, "aliases are not read");
        break;
    case YAML_STREAM_END_EVENT:
        *more = false;
        break;
    default:
        break;
    }
}

/* libyaml would read one endless value to its end: the bound stands where the bytes come in. */
static int feed(void *arg, unsigned char *into, size_t room, size_t *got)
{
    struct reader *r = arg;
    *got = fread(into, 1, room, r->file);
    r->bytes += *got;
    r->error = ferror(r->file) ? errno : 0;
    return r->bytes <= CONFIG_FILE_MAX && !ferror(r->file);
}

static bool read_events(struct reader *r)
{
    if (!yaml_parser_initialize(&r->parser))
        return false;
    yaml_parser_set_input(&r->parser, feed, r);
    for (bool more = true; more && !r->failed;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&r->parser, &e)) {
            complain_parser(r);
            break;
        }
        take(r, &e, &more);
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&r->parser);
    return !r->failed;
}

bool config_file_read(const char *path, config_file_value got, void *arg, struct buf *complaints)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        buf_add_fmt(complaints, "file %s: %s\n", path, strerror(errno));
        return false;
    }
    struct reader r = {.file = f, .path = path, .complaints = complaints, .got = got, .arg = arg};
    bool good = read_events(&r);
    fclose(f);
    return good;
}

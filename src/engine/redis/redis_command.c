/* SPDX-License-Identifier: Apache-2.0 */
#include "redis_command.h"

#include <stdlib.h>

#define BYTES_MOST (256 * 1024)
#define BYTES_KEPT 2048    /* of a free command; what is larger goes back to the system … */
#define LARGE_KEPT 32      /* … but for so many */

static struct redis_command *command_at(struct link *l) { return list_entry(l, struct redis_command, link); }

static void put(struct buf *b, char mark, size_t n)
{
    buf_add_char(b, mark);
    buf_add_u64(b, n);
    buf_add(b, "\r\n", 2);
}

void redis_command_write(struct redis_command *c, const struct str *words, size_t count)
{
    put(&c->bytes, '*', count);
    for (size_t i = 0; i < count; i++) {
        put(&c->bytes, '$', words[i].len);
        buf_add_str(&c->bytes, words[i]);
        buf_add(&c->bytes, "\r\n", 2);
    }
}

bool redis_commands_open(struct redis_commands *s, size_t count)
{
    *s = (struct redis_commands){.all = calloc(count, sizeof *s->all), .count = count, .free_count = count};
    if (!s->all)
        return false;
    list_init(&s->free);
    list_init(&s->large);
    for (size_t i = 0; i < count; i++) {
        s->all[i].bytes = buf_growing(BYTES_MOST);
        list_init(&s->all[i].of_owner);
        list_append(&s->free, &s->all[i].link);
    }
    return true;
}

void redis_commands_close(struct redis_commands *s)
{
    for (size_t i = 0; i < s->count; i++)
        buf_free(&s->all[i].bytes);
    free(s->all);
}

struct redis_command *redis_commands_take(struct redis_commands *s, bool large)
{
    bool from_large = !list_empty(&s->large) && (large || list_empty(&s->free));
    struct link *at = list_take(from_large ? &s->large : &s->free);
    check(at != NULL);
    s->free_count--;
    s->large_count -= from_large;
    struct redis_command *c = command_at(at);
    buf_reset(&c->bytes);
    c->owner = NULL;
    c->written = 0;
    c->repeats = 0;
    c->loads = false;
    return c;
}

void redis_commands_give_back(struct redis_commands *s, struct redis_command *c)
{
    list_remove(&c->link);
    list_remove(&c->of_owner);
    c->owner = NULL;
    s->free_count++;
    if (c->bytes.cap > BYTES_KEPT && s->large_count == LARGE_KEPT)
        buf_free(&c->bytes);
    if (c->bytes.cap > BYTES_KEPT) {
        s->large_count++;
        list_prepend(&s->large, &c->link);
        return;
    }
    list_prepend(&s->free, &c->link);    /* to the front: the warmest is used first */
}

size_t redis_commands_memory(size_t count) { return count * (sizeof(struct redis_command) + BYTES_KEPT) + (size_t)LARGE_KEPT * BYTES_MOST; }

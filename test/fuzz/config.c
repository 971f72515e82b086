/* SPDX-License-Identifier: Apache-2.0
 * Any bytes as a settings file: read or refused with a complaint that names the file, never half of each; what is read is a known setting
 * or is named; what is loaded is in its range, and secrets do not show. The file has no name in any folder. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "config.h"
#include "config_file.h"
#include "hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    size_t values, known;
    unsigned line;
};

static void on_value(void *arg, struct str key, struct str value, unsigned line)
{
    struct seen *s = arg;
    enum setting setting;
    check(key.len > 0 && key.len <= 256 && line > 0 && (value.len == 0 || value.ptr != NULL));
    s->values++;
    s->known += setting_find(key, &setting);
}

static void ranges_hold(const struct config *c)
{
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        char text[2048];
        struct buf shown = buf_fixed(text, sizeof text);
        const struct setting_row *row = setting_row((enum setting)i);
        config_show(c, (enum setting)i, &shown);
        check(row->kind != SETTING_TEXT || ((int64_t)strlen(c->from[i].text) >= row->min && (int64_t)strlen(c->from[i].text) <= row->max));
        check(row->shown != SETTING_SECRET || c->from[i].text[0] == 0 || str_eq(buf_str(&shown), str_lit("(hidden)")));
    }
    check(c->activity_buckets >= 1 && c->activity_buckets <= 32 && c->order_batch >= 1 && c->order_batch <= 256);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[32], memory[65536];
    if (fd < 0) {
        fd = memfd_create("settings", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    check(fd >= 0 && ftruncate(fd, 0) == 0 && (size == 0 || pwrite(fd, data, size, 0) == (ssize_t)size));
    struct seen seen = {0};
    struct buf complaints = buf_fixed(memory, sizeof memory);
    bool good = config_file_read(path, on_value, &seen, &complaints);
    check(good == (complaints.len == 0) && (good || str_starts(buf_str(&complaints), str_lit("file /proc/"))));
    if (!good || seen.known == 0 || hash_keyed((struct hash_key){1, 2}, (struct str){(const char *)data, size}) % 16 != 0)    /* loading costs 4 MiB */
        return 0;
    struct config c;
    struct config_source source = {.file = path};
    enum config_result result = config_load(&c, &source, &complaints);
    check((result == CONFIG_GOOD) == (complaints.len == 0) && (result == CONFIG_BAD || seen.values == seen.known));
    if (result == CONFIG_GOOD)
        ranges_hold(&c);
    config_free(&c);
    return 0;
}

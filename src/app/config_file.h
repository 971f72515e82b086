/* SPDX-License-Identifier: Apache-2.0
 * config_file.h: reads a YAML file as keys and values. Mappings nest or are written flat: `redis: {url: x}` and `redis.url: x`
 * both say redis.url. A sequence of scalars is its items with commas between. Anchors, tags and several documents are refused. */
#pragma once
#include <stdbool.h>

#include "arena.h"
#include "buf.h"

#define CONFIG_FILE_MAX 65536    /* bytes */

/* Called once per value, in the order of the file. Key and value are only valid during the call. */
typedef void (*config_file_value)(void *arg, struct str key, struct str value, unsigned line);
/* False, and a line in complaints, where the file cannot be opened or is not such YAML. */
bool config_file_read(const char *path, config_file_value got, void *arg, struct buf *complaints);

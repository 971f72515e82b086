/* SPDX-License-Identifier: Apache-2.0
 * redis_script.h: the scripts of this room by number, with the names Redis knows them by. */
#pragma once
#include "str.h"

enum redis_script {
#define SCRIPT(name) REDIS_SCRIPT_##name,
#include "redis_script.def"
#undef SCRIPT
    REDIS_SCRIPT_COUNT
};

const char *redis_script_name(enum redis_script script);
struct str redis_script_source(enum redis_script script);
/* 40 lower-case hexadecimal digits: SHA-1 of the source. */
struct str redis_script_sha(enum redis_script script);

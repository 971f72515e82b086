/* SPDX-License-Identifier: Apache-2.0 */
#include "redis_script.h"

#include <openssl/evp.h>

#include "check.h"
#include "hash.h"

#define SCRIPT(name) extern const unsigned char redis_##name##_lua[]; extern const size_t redis_##name##_lua_size;
#include "redis_script.def"
#undef SCRIPT

static const struct {
    const char *name;
    const unsigned char *source;
    const size_t *size;
} scripts[] = {
#define SCRIPT(name) {#name, redis_##name##_lua, &redis_##name##_lua_size},
#include "redis_script.def"
#undef SCRIPT
};
static _Thread_local char shas[REDIS_SCRIPT_COUNT][40];    /* each thread works them out for itself */

const char *redis_script_name(enum redis_script script)
{
    check((unsigned)script < REDIS_SCRIPT_COUNT);
    return scripts[script].name;
}

struct str redis_script_source(enum redis_script script)
{
    check((unsigned)script < REDIS_SCRIPT_COUNT);
    return (struct str){(const char *)scripts[script].source, *scripts[script].size};
}

struct str redis_script_sha(enum redis_script script)
{
    check((unsigned)script < REDIS_SCRIPT_COUNT);
    if (shas[script][0] == 0) {
        unsigned char digest[20];
        unsigned length = 0;
        check(EVP_Digest(scripts[script].source, *scripts[script].size, digest, &length, EVP_sha1(), NULL) == 1 && length == sizeof digest);
        hex_write(digest, sizeof digest, shas[script]);
    }
    return (struct str){shas[script], sizeof shas[script]};
}

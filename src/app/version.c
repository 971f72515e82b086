/* SPDX-License-Identifier: Apache-2.0
 * version.c: the version and what it was built with; the libraries say for themselves which they are where they can. */
#include "version.h"

#include <hiredis/hiredis.h>
#include <jansson.h>
#include <libpq-fe.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <uv.h>
#include <yaml.h>

#include "check.h"
#include "json.h"
#include "verb.h"

#define LIBRARIES 6
struct library {
    const char *name;
    char version[64];
};

static void libraries(struct library all[LIBRARIES])
{
    int pq = PQlibVersion();
    snprintf(all[0].version, sizeof all[0].version, "%s", uv_version_string());
    snprintf(all[1].version, sizeof all[1].version, "%d.%d.%d", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    snprintf(all[2].version, sizeof all[2].version, "%d.%d", pq / 10000, pq % 10000);
    snprintf(all[3].version, sizeof all[3].version, "%s", OpenSSL_version(OPENSSL_VERSION_STRING));
    snprintf(all[4].version, sizeof all[4].version, "%s", jansson_version_str());
    snprintf(all[5].version, sizeof all[5].version, "%s", yaml_get_version_string());
    static const char *const names[LIBRARIES] = {"libuv", "hiredis", "libpq", "openssl", "jansson", "libyaml"};
    for (size_t i = 0; i < LIBRARIES; i++)
        all[i].name = names[i];
}

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

void version_json(struct buf *out)
{
    struct library all[LIBRARIES];
    libraries(all);
    json_open(out);
    json_member_text(out, "version", SECKILL_VERSION);
    json_member_text(out, "compiler", COMPILER);
    json_member_text(out, "build", SECKILL_BUILD);
    json_key(out, "libraries");
    json_open(out);
    for (size_t i = 0; i < LIBRARIES; i++)
        json_member_text(out, all[i].name, all[i].version);
    json_close(out);
    json_close(out);
}

int verb_version(const struct call *c)
{
    struct library all[LIBRARIES];
    if (c->json) {
        char memory[2048];
        struct buf out = buf_fixed(memory, sizeof memory);
        version_json(&out);
        check(buf_ok(&out));
        printf(STR_FMT "\n", STR_ARG(buf_str(&out)));
        return LEAVE_DONE;
    }
    libraries(all);
    printf("seckill %s\ncompiler %s\nbuild %s\n", SECKILL_VERSION, COMPILER, SECKILL_BUILD);
    for (size_t i = 0; i < LIBRARIES; i++)
        printf("%s %s\n", all[i].name, all[i].version);
    return LEAVE_DONE;
}

/* SPDX-License-Identifier: Apache-2.0
 * token.c: `seckill token issue`. */
#include <openssl/rand.h>
#include <stdio.h>
#include <time.h>

#include "check.h"
#include "hash.h"
#include "qualification.h"
#include "verb.h"

#define NONCE_BYTES 12

static void issue(const struct call *c, const char *user)
{
    char text[QUALIFICATION_MAX], hex[NONCE_BYTES * 2];
    uint8_t nonce[NONCE_BYTES];
    struct buf token = buf_fixed(text, sizeof text);
    int random = RAND_bytes(nonce, sizeof nonce);
    check(random == 1);
    hex_write(nonce, sizeof nonce, hex);
    struct qualification q = {.activity = str_of(call_activity(c)), .sku = str_of(call_text(c, "sku")), .user = str_of(user),
                              .nonce = {hex, sizeof hex}, .expires_s = (int64_t)time(NULL) + call_number(c, "valid")};
    qualification_issue(c->config->qualification_keys, &q, &token);
    check(buf_ok(&token));
    if (c->json)
        printf("{\"user_id\":\"%s\",\"token\":\"" STR_FMT "\"}\n", user, STR_ARG(buf_str(&token)));
    else
        printf(STR_FMT "\n", STR_ARG(buf_str(&token)));
}

int verb_token(const struct call *c)
{
    const char *user = call_text(c, "user");
    int64_t count = call_number(c, "count");
    if (c->argument_count != 1 || strcmp(c->arguments[0], "issue") != 0)
        return call_misused(c, "the one thing it does is `seckill token issue`");
    if (!*user)
        return call_misused(c, "which --user?");
    for (int64_t i = 1; i <= count; i++) {
        char name[96];
        if (count > 1)
            snprintf(name, sizeof name, "%s%lld", user, (long long)i);
        else
            snprintf(name, sizeof name, "%s", user);
        if (!str_is_id(str_of(name)))
            return call_misused(c, "with its number the user %s is longer than an id may be", name);
        issue(c, name);
    }
    return LEAVE_DONE;
}

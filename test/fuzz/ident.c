/* SPDX-License-Identifier: Apache-2.0
 * Any text as an id or a token: what is read is written back as the very same text, so a thing has one spelling; what we make we know again,
 * and every bit that somebody turns in it is seen or falls under the 16-bit check. The first 16 bytes serve as an id, too. */
#include <stdlib.h>

#include "check.h"
#include "ident.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void one_spelling(struct str text)
{
    struct ident id;
    struct token token;
    char again[IDENT_ID_TEXT], written[TOKEN_TEXT];
    size_t kinds = 0;
    for (int kind = IDENT_RESERVATION; kind <= IDENT_ORDER; kind++) {
        if (!ident_parse(text, (enum ident_kind)kind, &id))
            continue;
        ident_write(id, (enum ident_kind)kind, again);
        check(str_eq(text, (struct str){again, sizeof again}) && str_is_id(text));
        kinds++;
    }
    check(kinds <= 1);
    if (token_parse(text, &token)) {
        size_t len = token_write(token, written);
        check(str_eq(text, (struct str){written, len}) && str_is_id(text) && kinds == 0 && token.unit > 0 && token.generation > 0);
    }
}

static void any_bits(const struct ident_keys *keys, struct ident id)
{
    struct ident back;
    char text[IDENT_ID_TEXT];
    struct ident_fields f = ident_read(id);
    ident_write(id, IDENT_ORDER, text);
    check(ident_parse((struct str){text, sizeof text}, IDENT_ORDER, &back) && ident_eq(id, back));
    check(f.made_ms >= 0 && f.activity <= 4095 && f.epoch <= 31 && f.bucket <= 31);
    if (f.activity == 0 || f.epoch == 0) {
        check(!ident_ours(keys, id));
        return;
    }
    uint64_t chance = 0, hash = (uint64_t)f.made_ms * 0x9e3779b97f4a7c15u;
    for (size_t i = 8; i < 14; i++)
        chance = chance << 8 | id.bytes[i];
    struct ident made = ident_make(keys, f, chance);
    check(ident_ours(keys, made) && memcmp(made.bytes, id.bytes, 14) == 0);
    check(ident_ours(keys, id) == ident_eq(made, id));    /* one key: only its own check is taken */
    check(ident_of_user(ident_make(keys, f, ident_chance(hash, chance)), hash) && user_bucket(hash, 32) < 32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ident_keys keys;
    if (keys.checks == 0)
        keys = ident_keys_from(str_lit("current-current-"), str_lit(""), str_lit("users-users-user"));
    char *text = malloc(size ? size : 1);
    check(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    one_spelling((struct str){text, size});
    struct ident id = {{0}};
    memcpy(id.bytes, text, size < sizeof id.bytes ? size : sizeof id.bytes);
    any_bits(&keys, id);
    free(text);
    return 0;
}

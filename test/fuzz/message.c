/* SPDX-License-Identifier: Apache-2.0
 * A create-order message from anybody: what we take, jansson takes and reads the same; what we take and write is read again as the same. What we
 * refuse as unreadable is no JSON, or breaks a rule that the schema states; a newer schema is never called unreadable for what stands behind its number. */
#include <jansson.h>
#include <stdlib.h>

#include "check.h"
#include "ident.h"
#include "json.h"
#include "message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(struct str ours, const json_t *root, const char *name)
{
    const json_t *v = json_object_get(root, name);
    return v ? json_is_string(v) && str_eq(ours, (struct str){json_string_value(v), json_string_length(v)}) : ours.len == 0;
}

static void beside_jansson(struct str text, const struct create_order *m)
{
    struct { const char *name; struct str ours; } texts[] = {
        {"message_id", m->message}, {"request_id", m->request}, {"reservation_id", m->reservation}, {"activity_id", m->activity},
        {"sku_id", m->sku}, {"user_id", m->user}, {"trace_id", m->trace}};
    char token[TOKEN_TEXT];
    json_error_t error;
    json_t *root = json_loadb(text.ptr, text.len, 0, &error);
    if (!root && json_error_code(&error) == json_error_numeric_overflow)    /* 1e999 in a member nobody asked for: good JSON, only too much for jansson */
        return;
    check(json_is_object(root));
    for (size_t i = 0; i < countof(texts); i++)
        check(same(texts[i].ours, root, texts[i].name));
    size_t len = token_write(m->token, token);
    check(same((struct str){token, len}, root, "inventory_token_id"));
    check(json_integer_value(json_object_get(root, "epoch")) == m->epoch && json_integer_value(json_object_get(root, "schema_version")) == m->schema_version);
    json_decref(root);
}

static void again(const struct create_order *m)
{
    char text[MESSAGE_BODY_MAX], memory[2048];
    struct buf b = buf_fixed(text, sizeof text);
    struct arena a = {.start = memory, .cap = sizeof memory};
    struct create_order back;
    if (m->created_ms < 0 || m->created_ms > 253402300799999)    /* an offset may lead out of the four digits that we write */
        return;
    message_write(&b, m);
    check(buf_ok(&b) && message_read(buf_str(&b), &a, &back) == REASON_OK);
    check(str_eq(back.message, m->message) && str_eq(back.request, m->request) && str_eq(back.reservation, m->reservation) && str_eq(back.trace, m->trace));
    check(str_eq(back.activity, m->activity) && str_eq(back.sku, m->sku) && str_eq(back.user, m->user) && back.created_ms == m->created_ms);
    check(back.token.unit == m->token.unit && back.token.generation == m->token.generation && back.epoch == m->epoch && back.mark == m->mark);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char memory[2048];
    struct arena a = {.start = memory, .cap = sizeof memory};
    struct create_order m;
    char *text = malloc(size ? size : 1);    /* exactly as long: a byte too far is seen */
    check(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    enum reason reason = message_read((struct str){text, size}, &a, &m);
    check(reason == REASON_OK || reason == REASON_MESSAGE_TOO_NEW || reason == REASON_MESSAGE_UNREADABLE);
    if (reason == REASON_OK) {
        check(size <= MESSAGE_BODY_MAX && m.schema_version == MESSAGE_SCHEMA && m.epoch >= 1 && m.epoch <= 31 && m.token.unit > 0);
        beside_jansson((struct str){text, size}, &m);
        again(&m);
    }
    free(text);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * Our reader of a reservation's body against jansson: what it accepts, jansson accepts and reads the same; what it refuses is either no JSON
 * to jansson, or breaks one of our own rules. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "request.h"

static const char *const names[] = {"activity_id", "sku_id", "request_id", "user_id"};

static bool is_id(const json_t *v)
{
    return json_is_string(v) && str_is_id((struct str){json_string_value(v), json_string_length(v)});
}

/* Our rules, said with jansson. A repeated member is its own refusal (JSON_REJECT_DUPLICATES). */
static bool acceptable(const json_t *root)
{
    size_t known = 0;
    if (!json_is_object(root))
        return false;
    for (size_t i = 0; i < countof(names); i++) {
        const json_t *v = json_object_get(root, names[i]);
        known += v != NULL;
        if (v ? !is_id(v) : i < 3)
            return false;
    }
    return json_object_size(root) == known;
}

static bool same(struct str ours, const json_t *root, const char *name)
{
    const json_t *v = json_object_get(root, name);
    return v ? str_eq(ours, (struct str){json_string_value(v), json_string_length(v)}) : ours.len == 0;
}

static void requests(const char *text, size_t size)
{
    struct request r;
    json_error_t error;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    bool ours = request_read((struct str){text, size}, &r) == REASON_OK;
    check(ours == (root && acceptable(root)));
    if (ours)
        check(same(r.activity, root, names[0]) && same(r.sku, root, names[1]) && same(r.request, root, names[2]) && same(r.user, root, names[3]));
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > REQUEST_BODY_MAX)
        return 0;
    char *text = malloc(size);    /* exactly as long: a byte too far is seen */
    check(text != NULL);
    memcpy(text, data, size);
    requests(text, size);
    free(text);
    return 0;
}

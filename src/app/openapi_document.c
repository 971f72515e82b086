/* SPDX-License-Identifier: Apache-2.0 */
#include "openapi_document.h"

#include <jansson.h>
#include <stdlib.h>

#include "check.h"

extern const unsigned char openapi[];
extern const size_t openapi_size;

void openapi_document_write(struct buf *out, bool user_required)
{
    if (!user_required) {
        buf_add_str(out, (struct str){(const char *)openapi, openapi_size});
        return;
    }
    json_t *doc = json_loadb((const char *)openapi, openapi_size, 0, NULL);
    json_t *components = json_object_get(doc, "components");
    json_t *body = json_object_get(json_object_get(json_object_get(components, "schemas"), "Reserve"), "required");
    json_t *query = json_object_get(json_object_get(components, "parameters"), "user_id");
    int failed = json_array_append_new(body, json_string("user_id")) | json_object_set_new(query, "required", json_true());
    check(failed == 0);
    char *text = json_dumps(doc, JSON_INDENT(2));
    check(text != NULL);
    buf_add_str(out, str_of(text));
    free(text);
    json_decref(doc);
}

/* SPDX-License-Identifier: Apache-2.0
 * openapi_document.h: the OpenAPI document as this process answers it; its text is openapi.json. */
#pragma once
#include <stdbool.h>

#include "buf.h"

/* Appends the document. `user_required`: auth.mode is none, so the body and the query must carry user_id, and the schemas require it. */
void openapi_document_write(struct buf *out, bool user_required);

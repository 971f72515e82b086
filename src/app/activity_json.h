/* SPDX-License-Identifier: Apache-2.0
 * activity_json.h: an activity as the admin API reads and writes it (interfaces §2). */
#pragma once
#include "arena.h"
#include "buf.h"
#include "terms.h"

#define ACTIVITY_SKUS_MAX 64
#define SKU_STOCK_MAX 1000000          /* units */
#define SKU_PRICE_MAX 1000000000000    /* minor units */
/* The body of POST /admin/v1/activities. Closed: what is unknown, repeated or out of range is named in `complaint`, a text of the arena. */
bool activity_read(struct str body, uint8_t default_buckets, struct arena *a, struct activity *out, struct str *note, struct str *complaint);
/* {"reason": "..."} or nothing at all. */
bool activity_note_read(struct str body, struct arena *a, struct str *note, struct str *complaint);
void activity_write(struct buf *out, const struct activity *activity);

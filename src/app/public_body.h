/* SPDX-License-Identifier: Apache-2.0
 * public_body.h: what the public API says, as JSON (interfaces §1). */
#pragma once
#include "desk.h"
#include "reservation.h"

/* The body of a 2xx answer to POST /v1/reservations: QUEUED, UNCERTAIN, ORDERED, RELEASED. */
void public_body_take(struct buf *out, const struct take *t);
void public_body_reservation(struct buf *out, const struct reservation_view *v);
/* `refunds`: what public_body_refunds wrote, or empty. */
void public_body_order(struct buf *out, const struct order *o, struct str refunds, bool truncated);
#define PUBLIC_REFUNDS_MAX 64    /* shown of one order */
#define PUBLIC_REFUNDS_BYTES (PUBLIC_REFUNDS_MAX * 168 + 8)
/* The refunds among an order's payments, as an array, PUBLIC_REFUNDS_MAX at most; nothing where there is none. Whether there are more. */
bool public_body_refunds(struct buf *out, const struct payment_record *payments, size_t count);
/* `sold`, per SKU: known to be sold out now (advisory). */
void public_body_activity(struct buf *out, const struct activity *a, int64_t now_ms, const bool *sold);

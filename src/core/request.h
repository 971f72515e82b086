/* SPDX-License-Identifier: Apache-2.0
 * request.h: the body of POST /v1/reservations. Closed: an unknown or repeated member, a value that is not an id, a wrong byte
 * anywhere is INVALID_REQUEST, before anything is touched. */
#pragma once
#include "reason.h"
#include "str.h"

#define REQUEST_BODY_MAX 2048

struct request {
    struct str activity, sku, request, user;    /* user is empty where the body does not name one; they point into `memory`: do not copy this struct */
    char memory[320];
};

/* OK, INVALID_REQUEST, or PAYLOAD_TOO_LARGE. */
enum reason request_read(struct str body, struct request *out);

/* request_fingerprint: SHA-256 of the canonical (activity, SKU, user). The same forever (mission §17.1). */
void request_fingerprint(struct str activity, struct str sku, struct str user, uint8_t out[32]);

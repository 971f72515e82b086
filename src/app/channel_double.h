/* SPDX-License-Identifier: Apache-2.0
 * channel_double.h: a payment channel of our own, for development and tests: it remembers who paid what, can be asked, and gives money back once. It
 * signs nothing and calls nobody: callbacks are `seckill pay`'s.
 *
 *   POST /v1/payments  a payment as a callback would tell it      200, also the second time; 409 where it is known otherwise
 *   GET  /v1/payments?order_id=ORDER                              200 {"payments":[…]}
 *   POST /v1/refunds   {payment_id, order_id, amount, currency}   200 {"refund_id","payment_id","status":"DONE","given"}; given false: it was given before
 *   GET  /v1/refunds?order_id=ORDER                               200 {"refunds":[…]}
 *
 * What it knows is in memory and, where a file is named, in that file as well, a line each, so that a restart forgets nothing. */
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "address.h"

#define CHANNEL_DOUBLE_MOST 200000    /* payments and refunds it remembers; more are refused (503) */

struct channel_double;
/* NULL: *error = -errno where the address cannot be listened at, or the file not be read and written. `file`: NULL or "": none. */
struct channel_double *channel_double_open(uv_loop_t *loop, const struct address *listen, const char *file, int *error);
int channel_double_port(const struct channel_double *);
void channel_double_close(struct channel_double *);    /* the memory goes once the loop has closed its handles */

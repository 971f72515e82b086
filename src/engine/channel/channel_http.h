/* SPDX-License-Identifier: Apache-2.0
 * channel_http.h: port/channel.h over plain HTTP, as our own double of a payment channel speaks it (app/channel_double.c); what a real channel
 * wants is another engine behind the same port.
 *
 *   GET  /v1/payments?order_id=ORDER                            200 {"payments":[{payment_id, order_id, result, amount, currency, channel, occurred_at}]}
 *   POST /v1/refunds  {payment_id, order_id, amount, currency}  200, also the second time; 409 where the payment is another */
#pragma once
#include <uv.h>

#include "channel.h"

/* `url`: http://host:port, with a literal address. NULL: it is none. One belongs to one loop; it connects when it is first asked. */
struct channel *channel_http_open(uv_loop_t *loop, struct str url);
/* Waiters are dropped. The memory goes once the loop has closed the handles. */
void channel_http_close(struct channel *);
/* Whether such a url can be used; `address`: its host:port, to be listened at. */
bool channel_http_address(struct str url, struct str *address);

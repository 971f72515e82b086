/* SPDX-License-Identifier: Apache-2.0
 * channel_http.h: port/channel.h over HTTP and HTTPS, by libcurl. Our own double of a payment channel speaks it (app/channel_double.c); what a real channel wants
 * beyond it is another engine behind the same port.
 *
 *   GET  /v1/payments?order_id=ORDER                            200 {"payments":[{payment_id, order_id, result, amount, currency, channel, occurred_at}]}
 *   POST /v1/refunds  {payment_id, order_id, amount, currency}  200, 201 or 202 {"status":"DONE"}, or PENDING, or FAILED; the same again at each repeat
 *
 * 429 and 5xx: ENGINE_BUSY; any other status: ENGINE_REFUSED; no redirect is followed. No connection, or a certificate that does not hold: DEPENDENCY_DOWN. Silence
 * until the deadline: TIMED_OUT. An answer that is broken off, longer than 1 MiB, or not as above: ENGINE_FAULT. */
#pragma once
#include <uv.h>

#include "channel.h"

/* `url`: http[s]://[user:password@]host[:port][/path]. `ca`: a file of certificates in PEM that sign the channel's; empty: those of the system. NULL: no such url.
 * One belongs to one loop; it connects when it is first asked. */
struct channel *channel_http_open(uv_loop_t *loop, struct str url, struct str ca);
/* Waiters are dropped. The memory goes once the loop has closed the handles. Not from within a wake. */
void channel_http_close(struct channel *);
/* Whether such a url can be used. */
bool channel_http_url_good(struct str url);
/* Whether our double can listen at it: http://, a literal address and a port, which are `address`. */
bool channel_http_address(struct str url, struct str *address);

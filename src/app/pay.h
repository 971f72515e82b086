/* SPDX-License-Identifier: Apache-2.0
 * pay.h: paying as a payment channel would tell us of it: a signed callback, sent again with back-off until it is answered for good. */
#pragma once
#include "http_ask.h"
#include "terms.h"
#include "verb.h"

#define PAY_TRIES 8

/* Sends one callback of this payment to the public API: true, and the answer stands in `ask`, whatever its status. False: none came that is final;
 * the last of them, if any, stands there. `webhook`: its id, the same at every try. `tried(arg, try, wait_ms)` before each wait; may be NULL. */
bool pay_callback(struct http_ask *ask, const char *keys, const char *webhook, const struct payment *p, void (*tried)(void *arg, unsigned wait_ms), void *arg);
/* Tells the double at payment.channel_url of the payment, so that it knows when it is asked. True: it knows. */
bool pay_tell_channel(const struct config *config, const struct payment *p);

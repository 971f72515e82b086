/* SPDX-License-Identifier: Apache-2.0
 * admin_guard.h: which requests the admin and health listeners answer at all (docs/decisions/0019-the-admin-listener-answers-its-own-callers.md). A pure function of a request and the settings.
 *
 *   Host            an IP address, `localhost`, or a name of admin.hosts: a page that reaches this listener through a DNS name of its own is refused
 *   Origin          that of this listener, as Host names it; Sec-Fetch-Site no other than same-origin or none
 *   Content-Type    application/json for every POST, also without a body: a page of another origin cannot send that without asking first
 *   Authorization   Bearer and one of admin.tokens, where any is set, for every route but those of probes */
#pragma once
#include "config.h"
#include "http_parser.h"
#include "reason.h"

/* REASON_OK: answer it. Else the refusal, and in *detail a static text that says what to change. `open`: the route is for probes and needs no token. */
enum reason admin_guard_check(const struct config *config, const struct http_request *request, bool open, const char **detail);
/* Whether a text may be one of admin.tokens: 16 bytes or more of the letters of RFC 6750 (A-Z a-z 0-9 - . _ ~ + / =). */
bool admin_guard_token_good(struct str token);

/* SPDX-License-Identifier: Apache-2.0
 * cut.h: a relay between us and an engine that cuts where it is told to (cut.def). Bytes go through it unread, in both directions, until a
 * cut is armed; then the next request, on whichever connection it comes, is the one it falls on. One loop, one thread, TCP and unix sockets. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum cut {
#define CUT(name, text) CUT_##name,
#include "cut.def"
#undef CUT
    CUT_COUNT
};
const char *cut_name(enum cut cut);
bool cut_parse(const char *name, enum cut *out);

struct cut_relay;
/* Addresses are HOST:PORT (an IPv4 address; port 0: any) or unix:PATH. NULL: it cannot listen there. */
struct cut_relay *cut_open(uv_loop_t *loop, const char *listen, const char *target);
/* Every answer passes by `hook` first, which may write into it but not change its length: for addresses that an answer names. */
void cut_hook(struct cut_relay *relay, void (*hook)(void *arg, char *bytes, size_t size), void *arg);
int cut_port(const struct cut_relay *relay);                      /* where it listens */
void cut_arm(struct cut_relay *relay, enum cut cut, uint32_t late_ms);    /* late_ms: of LATE_ANSWER */
bool cut_fell(const struct cut_relay *relay);                     /* the last one armed has met its request */
uint64_t cut_requests(const struct cut_relay *relay);             /* pieces that came from clients */
void cut_heal(struct cut_relay *relay);                           /* nothing is armed any more; what is held goes through */
void cut_down(struct cut_relay *relay, bool down);                /* true: every connection is closed, new ones at once too */
void cut_close(struct cut_relay *relay);                          /* its handles close as the loop turns; then it is gone */

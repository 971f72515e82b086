/* SPDX-License-Identifier: Apache-2.0
 * resolve.h: the addresses of the host that a connection string names, found beside the loop. libpq would ask the resolver by itself, and everybody on this
 * thread would wait for a slow one. */
#pragma once
#include <uv.h>

struct resolve;

/* What libpq's `host` and `hostaddr` are to be: the name once for each address, with commas between them. NULL both: not found, `why` says so in a few words.
 * They are valid during the call. */
typedef void resolved(void *arg, const char *hosts, const char *addresses, const char *why);

/* NULL: nothing is to be looked up (a socket's directory, an address, a list of hosts, a hostaddr, or no host at all); connect as it stands. Else `done` is called
 * once, never from within. */
struct resolve *resolve_start(uv_loop_t *, const char *url, resolved *done, void *arg);
/* `done` will not be called; the loop may still have to wait for the resolver. NULL is harmless. */
void resolve_forget(struct resolve *);

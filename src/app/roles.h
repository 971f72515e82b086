/* SPDX-License-Identifier: Apache-2.0
 * roles.h: what one event loop does: any of the five roles over the ports of that loop. Drained, then closed. */
#pragma once
#include "config.h"
#include "ident.h"
#include "ports.h"

enum { ROLE_ACCESS = 1, ROLE_ORDER = 2, ROLE_RELAY = 4, ROLE_JANITOR = 8, ROLE_ADMIN = 16, ROLES_ALL = 31 };
/* The mask of the settings' roles. */
unsigned roles_of(const struct config *config);
/* The parts that these roles need open, as a mask of ports.h. */
unsigned roles_parts(unsigned which);

struct roles;
struct roles_options {
    const struct config *config;      /* it outlives the roles, as the ports */
    struct ports *ports;
    unsigned which;
    size_t clients, admin_clients;    /* connections of the public and the admin listener at most; 0: as set */
    bool shares_port;                 /* access: other loops listen at the same address */
};
/* NULL: an address cannot be listened at; which and why in `complaint`. */
struct roles *roles_open(const struct roles_options *options, struct buf *complaint);
/* Says that it will: /readyz fails, and each answer of the public listener closes its connection. Everything else goes on. */
void roles_leave(struct roles *r);
/* Takes nothing new; done(arg) when nothing is under way, after `ms` at the latest; never before this has returned. */
void roles_drain(struct roles *r, uint32_t ms, void (*done)(void *), void *arg);
/* Not from within a callback of one of them. The ports are still needed; afterwards they may be closed and the loop run dry. */
void roles_close(struct roles *r);

/* What it listens at; 0: nothing. */
int roles_public_port(const struct roles *r);
int roles_admin_port(const struct roles *r);

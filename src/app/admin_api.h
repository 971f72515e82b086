/* SPDX-License-Identifier: Apache-2.0
 * admin_api.h: the listener that never faces the public (interfaces §2): health, metrics, version, a status page; and, where `full`, the
 * activities, conservation and explain. */
#pragma once
#include "address.h"
#include "config.h"
#include "health.h"
#include "http_server.h"
#include "ident.h"
#include "ports.h"

struct admin_options {
    struct address listen;
    bool full;                     /* the admin role; else only health, metrics and version */
    unsigned roles;                /* of the whole process: whose metrics it shows */
    size_t connections_max;        /* 0: 256 */
    const struct config *config;   /* it outlives the API, as the rest */
    struct ports *ports;           /* all of them where full */
    const struct health *health;
    struct ident_keys keys;
};
struct admin_api;
/* NULL: *error = -errno where the address cannot be listened at. */
struct admin_api *admin_api_open(const struct admin_options *options, int *error);
int admin_api_port(const struct admin_api *a);
/* Stops accepting; done(arg) once nothing is under way, or after `ms`. */
void admin_api_drain(struct admin_api *a, uint32_t ms, void (*done)(void *), void *arg);
/* Cuts what is left. The server's own memory goes once the loop has closed its handles. */
void admin_api_close(struct admin_api *a);

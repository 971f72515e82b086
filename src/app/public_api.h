/* SPDX-License-Identifier: Apache-2.0
 * public_api.h: the listener that buyers meet (interfaces §1, spec/route.def), on one event loop. It reads, asks core, and says what core
 * answered; it decides nothing. */
#pragma once
#include <uv.h>

#include "config.h"
#include "desk.h"
#include "http_server.h"

struct public_options {
    size_t connections_max;       /* 0: http.connections */
    struct address listen;
    bool reuse_port;               /* several threads share the port */
    const struct config *config;   /* http.*, auth.*; it outlives the API, as the desk does */
    struct desk *desk;
};
struct public_api;
/* NULL: *error = -errno where the address cannot be listened at; -EPERM: no authentication, and strangers could come; -EINVAL: auth.jwt_keys
 * or payment.webhook_keys cannot be used. */
struct public_api *public_api_open(uv_loop_t *loop, const struct public_options *options, int *error);
int public_api_port(const struct public_api *a);
/* Bytes that the connections of one such listener take, by its settings. */
size_t public_api_memory(const struct config *config);
/* Stops accepting, ends event streams, lets what is under way be answered; done(arg) once nothing is, or after `ms`. Drain the desk too
 * (desk_drain), or held queries wait their time. */
/* From now on each answer closes its connection. */
void public_api_leave(struct public_api *a);
void public_api_drain(struct public_api *a, uint32_t ms, void (*done)(void *), void *arg);
/* Cuts what is left and lets go of what core still holds for it; before desk_stop. The server's memory goes once the loop has closed its handles. */
void public_api_close(struct public_api *a);

/* SPDX-License-Identifier: Apache-2.0
 * address.h: where to listen, whom to call. "127.0.0.1:8480", "[::1]:8480", "localhost:8480", "unix:/run/seckill.sock". Names other than
 * localhost are not resolved: a sale does not wait for DNS. */
#pragma once
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "str.h"

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_storage storage;
        struct sockaddr_un path;
    } sock;
    socklen_t len;
};

/* False: not one of the forms above. */
bool address_parse(struct str text, struct address *out);
/* Reached from this machine only. */
bool address_is_loopback(const struct address *a);
/* A listening non-blocking socket, or -errno. A socket file that nobody answers at is taken over. */
int address_listen(const struct address *a, bool reuse_port, int backlog);
/* 0 where the address can be bound without sharing it with anybody, else -errno. */
int address_bindable(const struct address *a);
/* A non-blocking socket that is connecting or connected, or -errno. */
int address_connect(const struct address *a);
/* The same from an IPv4 address of this machine, as a number; 0, or where the other end is no IPv4 address: the system's choice. */
int address_connect_from(const struct address *a, uint32_t source);
/* The port that a TCP socket is bound to; 0 where it has none. */
int address_port(int fd);

/* SPDX-License-Identifier: Apache-2.0 */
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <unistd.h>

static bool parse_path(struct str path, struct address *out)
{
    struct sockaddr_un *un = &out->sock.path;
    if (path.len == 0 || path.len >= sizeof un->sun_path || memchr(path.ptr, 0, path.len))
        return false;
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path.ptr, path.len);
    out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.len + 1);
    return true;
}

static bool parse_host(struct str host, uint16_t port, struct address *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&out->sock.storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out->sock.storage;
    char text[64];
    if (str_eq(host, str_lit("localhost")))
        host = str_lit("127.0.0.1");
    bool bracketed = host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']';
    if (bracketed)
        host = (struct str){host.ptr + 1, host.len - 2};
    if (host.len == 0 || host.len >= sizeof text)
        return false;
    snprintf(text, sizeof text, STR_FMT, STR_ARG(host));
    if (!bracketed && inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        out->len = sizeof *v4;
        return true;
    }
    if (!bracketed || inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
        return false;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    out->len = sizeof *v6;
    return true;
}

bool address_parse(struct str text, struct address *out)
{
    *out = (struct address){0};
    if (str_starts(text, str_lit("unix:")))
        return parse_path((struct str){text.ptr + 5, text.len - 5}, out);
    size_t colon = text.len;
    while (colon > 0 && text.ptr[colon - 1] != ':')
        colon--;
    uint64_t port;
    if (colon == 0 || !str_to_u64((struct str){text.ptr + colon, text.len - colon}, &port) || port > 65535)
        return false;
    return parse_host((struct str){text.ptr, colon - 1}, (uint16_t)port, out);
}

bool address_is_loopback(const struct address *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a->sock.storage;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a->sock.storage;
    switch (a->sock.any.sa_family) {
    case AF_UNIX:
        return true;
    case AF_INET:
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    default:
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    }
}

static int open_socket(const struct address *a)
{
    int fd = socket(a->sock.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd >= 0 && a->sock.any.sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);    /* a listener's children inherit it */
    return fd < 0 ? -errno : fd;
}

static int close_with(int fd, int error)
{
    close(fd);
    return -error;
}

/* A socket file left behind by a process that died. Where somebody does answer, it stays, and bind will say so. */
static void remove_stale(const struct address *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, &a->sock.any, a->len) != 0 && errno == ECONNREFUSED)
        unlink(a->sock.path.sun_path);
    close(fd);
}

int address_listen(const struct address *a, bool reuse_port, int backlog)
{
    int fd = open_socket(a), on = 1;
    if (fd < 0)
        return fd;
    if (a->sock.any.sa_family == AF_UNIX)
        remove_stale(a);
    else if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
             (reuse_port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0))
        return close_with(fd, errno);
    if (bind(fd, &a->sock.any, a->len) != 0 || listen(fd, backlog) != 0)
        return close_with(fd, errno);
    return fd;
}

int address_bindable(const struct address *a)
{
    int fd = open_socket(a), on = 1;
    if (fd < 0)
        return fd;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);    /* those that listened before may have left connections behind */
    int error = bind(fd, &a->sock.any, a->len) != 0 ? errno : 0;
    close(fd);
    return -error;
}

int address_connect(const struct address *a) { return address_connect_from(a, 0); }

int address_connect_from(const struct address *a, uint32_t source)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(source)};
    int fd = open_socket(a), on = 1;
    if (fd >= 0 && source != 0 && a->sock.any.sa_family == AF_INET) {
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);    /* the port is chosen with the other end known */
        if (bind(fd, (const struct sockaddr *)&from, sizeof from) != 0)
            return close_with(fd, errno);
    }
    if (fd >= 0 && connect(fd, &a->sock.any, a->len) != 0 && errno != EINPROGRESS)
        return close_with(fd, errno);
    return fd;
}

int address_port(int fd)
{
    struct address a = {.len = sizeof a.sock.storage};
    if (getsockname(fd, &a.sock.any, &a.len) != 0)
        return 0;
    if (a.sock.any.sa_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&a.sock.storage)->sin_port);
    return a.sock.any.sa_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&a.sock.storage)->sin6_port) : 0;
}

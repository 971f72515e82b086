/* SPDX-License-Identifier: Apache-2.0 */
#include "listener_lock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/un.h>
#include <unistd.h>

static bool name_of(const struct address *a, struct sockaddr_un *name, socklen_t *len)
{
    char host[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&a->sock.storage;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&a->sock.storage;
    bool six = a->sock.any.sa_family == AF_INET6;
    int port = six ? ntohs(v6->sin6_port) : a->sock.any.sa_family == AF_INET ? ntohs(v4->sin_port) : 0;
    if (port == 0 || !inet_ntop(a->sock.any.sa_family, six ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr, host, sizeof host))
        return false;
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "seckill-listener-%s-%d", host, port);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    return true;
}

int listener_lock(const struct address *address, bool shared, int *fd)
{
    struct sockaddr_un name;
    socklen_t len;
    *fd = -1;
    if (!name_of(address, &name, &len))
        return 0;
    int free = shared ? 0 : address_bindable(address);
    if (free != 0)
        return free;
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return -errno;
    int error = bind(*fd, (const struct sockaddr *)&name, len) == 0 ? 0 : errno;
    if (error != 0 || shared)
        listener_unlock(fd);
    return -error;
}

void listener_unlock(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* SPDX-License-Identifier: Apache-2.0
 * listener_lock.h: one process a public listener. Its threads share the port (SO_REUSEPORT), which would let a second process of the same user share it too. */
#pragma once
#include <stdbool.h>

#include "address.h"

/* A lock on the address that lives as long as the descriptor, whatever becomes of the process: an abstract Unix socket, in the same network namespace as the
 * port. And the port itself must be free. *fd: -1 where there is nothing to lock (port 0, a Unix socket). Returns 0, or -errno: -EADDRINUSE, another process
 * has it. `shared`: other processes that also ask for it shared may listen there too; nothing is kept then, and -EADDRINUSE means that one has it alone. */
int listener_lock(const struct address *address, bool shared, int *fd);
void listener_unlock(int *fd);

/* SPDX-License-Identifier: Apache-2.0
 * descriptors.h: how the file descriptors of a process are shared out, so that clients never take those that stores, the admin listener and health need. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct descriptors {
    size_t limit;          /* RLIMIT_NOFILE */
    size_t reserved;       /* for stores, brokers, listeners and the loops themselves */
    size_t admin;          /* connections of the admin or health listener */
    size_t clients;        /* connections of each access thread */
};
/* `threads` access threads that want `wanted` connections each; the main loop comes on top. Fewer connections than wanted where the limit is low. False: the limit
 * is too low for even one; `reserved` says what is needed besides. */
bool descriptors_share(size_t limit, size_t threads, size_t wanted, struct descriptors *out);

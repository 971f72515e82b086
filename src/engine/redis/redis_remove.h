/* SPDX-License-Identifier: Apache-2.0
 * redis_remove.h: the keys of an archived activity are removed (docs/retention.md). Blocking, on a connection of its own, for the verb `archive`. */
#pragma once
#include "reason.h"
#include "str.h"

/* Removes, by their names (spec/redis_key.def), the keys of every bucket of the epochs 1 to `epoch`; no key is searched for. UNLINK: Redis frees them beside its
 * other work. At most 32 buckets and 31 epochs. Only for an activity that no process can know any more: its name is never used again. `removed` counts keys.
 * OK · DEPENDENCY_DOWN · ENGINE_REFUSED, INVALID_REQUEST (the url is none); may be repeated. */
enum reason redis_remove(struct str url, struct str activity, unsigned epoch, unsigned buckets, const struct str *skus, size_t sku_count, uint64_t *removed);

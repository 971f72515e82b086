/* SPDX-License-Identifier: Apache-2.0
 * version.h: which program this is. */
#pragma once
#include "buf.h"

#define VERSION_TEXT SECKILL_VERSION
/* {"version", "compiler", "build", "libraries": {...}} as JSON. */
void version_json(struct buf *out);

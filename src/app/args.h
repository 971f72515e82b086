/* SPDX-License-Identifier: Apache-2.0
 * args.h: reads what was typed after `seckill VERB`. --name value and --name=value are the same; a switch needs no value; -- ends
 * the flags. Every setting of spec/config.def is a flag of every verb, beside the verb's own. */
#pragma once
#include "buf.h"
#include "verb.h"

/* True, and the call filled in (its source has no environment yet); false with one complaint a line. *help is set by -h or --help. */
bool args_read(struct call *c, int argc, char **argv, bool *help, struct buf *complaints);

/* SPDX-License-Identifier: Apache-2.0
 * help.h: what `seckill help` prints. */
#pragma once
#include <stdio.h>

#include "verb.h"

void help_all(FILE *out);
void help_verb(FILE *out, enum verb v);

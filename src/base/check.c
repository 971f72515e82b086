/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void check_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "{\"level\":\"fatal\",\"event\":\"check_failed\",\"detail\":\"%s\",\"at\":\"%s:%d\"}\n", what, file, line);
    fflush(stderr);
    abort();
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "log.h"

_Noreturn void check_failed(const char *what, const char *file, int line)
{
    char text[1024];
    int n = snprintf(text, sizeof text, "{\"level\":\"fatal\",\"event\":\"check_failed\",\"detail\":\"%s\",\"at\":\"%s:%d\"}\n", what, file, line);
    log_writer_stop(200);    /* a process that must end does not wait for the reader of its log */
    log_write_bounded(STDERR_FILENO, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1, 200);
    abort();
}

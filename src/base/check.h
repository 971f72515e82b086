/* SPDX-License-Identifier: Apache-2.0
 * check.h: our own faults stop the process; the world's faults are values. Always on, in every build. */
#pragma once

/* Says what was expected, where, and aborts. */
_Noreturn void check_failed(const char *what, const char *file, int line);

#define check(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

#define countof(array) (sizeof(array) / sizeof((array)[0]))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))
#define must_check __attribute__((warn_unused_result))

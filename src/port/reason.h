/* SPDX-License-Identifier: Apache-2.0
 * reason.h: the words of spec/reason.def in C. */
#pragma once
#include <stdbool.h>

#include "log.h"
#include "str.h"

enum fate { FATE_DONE, FATE_REFUSED, FATE_RETRY, FATE_UNKNOWN };


enum reason {
#define REASON(word, http, fate, level, text) REASON_##word,
#include "reason.def"
#undef REASON
    REASON_COUNT
};

struct reason_row {
    const char *word;    /* "SOLD_OUT" */
    int http;            /* 0: never an answer of its own */
    enum fate fate;
    enum severity level;
    const char *text;
};

/* The row of a reason; never NULL. */
const struct reason_row *reason_row(enum reason reason);
static inline const char *reason_word(enum reason reason) { return reason_row(reason)->word; }
static inline enum fate reason_fate(enum reason reason) { return reason_row(reason)->fate; }
/* The reason with this word: true and *out; false when there is none. */
bool reason_parse(struct str word, enum reason *out);

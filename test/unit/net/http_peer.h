/* SPDX-License-Identifier: Apache-2.0
 * http_peer.h: what http-parser makes of a request. Apart, for its names are ours too. */
#pragma once
#include "str.h"

struct peer_answer {
    bool complete;          /* a whole request was there */
    size_t used;            /* bytes of it */
    struct str url, body;   /* valid until the next call */
    const char *method;
};
struct peer_answer peer_read(struct str in);    /* at most 1600 bytes */

/* SPDX-License-Identifier: Apache-2.0
 * Fuzzing what a broker may send us: frames of both kinds, routes, and the bodies of pulls. The bytes are copied into memory of exactly their
 * size, so that one step too far is seen. */
#include <stdlib.h>

#include "check.h"
#include "codec.h"
#include "tolerant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void within(struct str part, const char *bytes, size_t n)
{
    check(part.len == 0 || (part.ptr >= bytes && part.len <= n && (size_t)(part.ptr - bytes) <= n - part.len));
}

static void fuzz_stored(char *bytes, size_t n)
{
    struct str rest = {bytes, n};
    struct stored m;
    size_t before = n + 1;
    while (stored_next(&rest, &m) == STORED_ONE) {
        check(rest.len < before);    /* it gets on */
        before = rest.len;
        within(m.body, bytes, n);
        within(m.topic, bytes, n);
        within(property_find(m.properties, "UNIQ_KEY"), bytes, n);
    }
}

static void fuzz_frame(char *bytes, size_t n)
{
    struct frame f;
    size_t size;
    if (!frame_size((struct str){bytes, n}, &size) || !frame_decode(bytes, n, &f))
        return;
    check(size == n && f.field_count <= FRAME_FIELDS_MAX);
    within(f.body, bytes, n);
    within(f.remark, bytes, n);
    for (size_t i = 0; i < f.field_count; i++) {
        within(f.fields[i].key, bytes, n);
        within(f.fields[i].value, bytes, n);
    }
}

static void fuzz_json(char *bytes, size_t n)
{
    struct tolerant t = tolerant_over(bytes, n);
    tolerant_skip(&t);
    check(t.at >= bytes && t.at <= bytes + n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static void (*const targets[])(char *, size_t) = {fuzz_frame, fuzz_stored, fuzz_json};
    for (size_t i = 0; i < countof(targets); i++) {
        char *copy = malloc(n ? n : 1);
        memcpy(copy, data, n);
        targets[i](copy, n);
        free(copy);
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * hash.h: keyed hashing of what strangers send (SipHash-2-4), and SHA-256. */
#pragma once
#include <stdint.h>

#include "str.h"

struct hash_key {
    uint64_t k0, k1;
};

/* SipHash-2-4 of the bytes under the key; the published test vectors hold. */
uint64_t hash_keyed(struct hash_key key, struct str bytes);
/* A key made from a secret of any length (the first 16 bytes of its SHA-256). */
struct hash_key hash_key_from(struct str secret);

void sha256(struct str bytes, uint8_t out[32]);
/* Lower-case hexadecimal of n bytes into out (2n characters, no zero). */
void hex_write(const uint8_t *bytes, size_t n, char *out);

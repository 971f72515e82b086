/* SPDX-License-Identifier: Apache-2.0
 * hash.c: SipHash as its authors describe it (Aumasson and Bernstein, 2012); SHA-256 is OpenSSL's. */
#include "hash.h"

#include <openssl/evp.h>

#include "check.h"

static uint64_t rotate(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

static void mix(uint64_t v[4])
{
    v[0] += v[1], v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v), mix(v);
    v[0] ^= word;
}

uint64_t hash_keyed(struct hash_key key, struct str bytes)
{
    uint64_t v[4] = {key.k0 ^ 0x736f6d6570736575u, key.k1 ^ 0x646f72616e646f6du, key.k0 ^ 0x6c7967656e657261u,
                     key.k1 ^ 0x7465646279746573u};
    size_t whole = bytes.len / 8;
    for (size_t i = 0; i < whole; i++) {
        uint64_t word;
        memcpy(&word, bytes.ptr + 8 * i, 8);
        absorb(v, word);
    }
    uint64_t last = (uint64_t)bytes.len << 56;
    for (size_t i = 8 * whole; i < bytes.len; i++)
        last |= (uint64_t)(uint8_t)bytes.ptr[i] << (8 * (i % 8));
    absorb(v, last);
    v[2] ^= 0xff;
    mix(v), mix(v), mix(v), mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void sha256(struct str bytes, uint8_t out[32])
{
    static EVP_MD *method;    /* fetched once: an implicit fetch per call costs more than the hash */
    if (!method)
        method = EVP_MD_fetch(NULL, "SHA256", NULL);
    check(method != NULL);
    check(EVP_Digest(bytes.ptr, bytes.len, out, NULL, method, NULL) == 1);
}

struct hash_key hash_key_from(struct str secret)
{
    uint8_t digest[32];
    struct hash_key key;
    sha256(secret, digest);
    memcpy(&key.k0, digest, 8);
    memcpy(&key.k1, digest + 8, 8);
    return key;
}

void hex_write(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

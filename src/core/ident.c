/* SPDX-License-Identifier: Apache-2.0 */
#include "ident.h"

#include "check.h"

#define BODY 14    /* bytes under the check */

static const char letters[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
static const struct str prefixes[] = {str_lit("rsv_"), str_lit("msg_"), str_lit("ord_")};

/* One secret serves three purposes; each gets a key of its own. */
static struct hash_key derive(struct str secret, uint64_t purpose)
{
    struct hash_key root = hash_key_from(secret);
    uint8_t label[9];
    for (int i = 0; i < 8; i++)
        label[i] = (uint8_t)(purpose >> (8 * i));
    label[8] = 0;
    uint64_t k0 = hash_keyed(root, (struct str){(const char *)label, sizeof label});
    label[8] = 1;
    return (struct hash_key){k0, hash_keyed(root, (struct str){(const char *)label, sizeof label})};
}

struct ident_keys ident_keys_from(struct str current, struct str previous, struct str user)
{
    return (struct ident_keys){
        .check = {derive(current, 1), derive(previous, 1)},
        .mark = {derive(current, 3), derive(previous, 3)},
        .checks = previous.len > 0 ? 2 : 1,
        .user = derive(user, 2),
    };
}

void ident_fingerprint(struct str secret, char out[IDENT_FINGERPRINT])
{
    struct hash_key key = derive(secret, 4);
    const uint64_t halves[] = {hash_keyed(key, str_lit("first half")), hash_keyed(key, str_lit("second half"))};
    uint8_t bytes[16];
    for (int i = 0; i < 16; i++)
        bytes[i] = (uint8_t)(halves[i / 8] >> (8 * (i % 8)));
    hex_write(bytes, sizeof bytes, out);
}

static uint16_t check_of(struct hash_key key, const struct ident *id)
{
    uint64_t h = hash_keyed(key, (struct str){(const char *)id->bytes, BODY});
    return (uint16_t)(h ^ h >> 16 ^ h >> 32 ^ h >> 48);
}

static uint16_t check_in(const struct ident *id) { return (uint16_t)(id->bytes[BODY] << 8 | id->bytes[BODY + 1]); }

static void put(uint8_t *out, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> (56 - 8 * i));
}

static uint64_t get(const uint8_t *in)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | in[i];
    return value;
}

struct ident ident_make(const struct ident_keys *keys, struct ident_fields f, uint64_t chance)
{
    check(f.made_ms >= 0 && f.made_ms < (int64_t)1 << 42 && f.activity >= 1 && f.activity <= 4095);
    check(f.epoch >= 1 && f.epoch <= 31 && f.bucket <= 31);
    struct ident id;
    put(id.bytes, (uint64_t)f.made_ms << 22 | (uint64_t)f.activity << 10 | (uint64_t)f.epoch << 5 | f.bucket);
    put(id.bytes + 8, chance << 16);
    uint16_t sum = check_of(keys->check[0], &id);
    id.bytes[BODY] = (uint8_t)(sum >> 8);
    id.bytes[BODY + 1] = (uint8_t)sum;
    return id;
}

struct ident_fields ident_read(struct ident id)
{
    uint64_t high = get(id.bytes);
    return (struct ident_fields){
        .made_ms = (int64_t)(high >> 22),
        .activity = (uint16_t)(high >> 10 & 4095),
        .epoch = (uint8_t)(high >> 5 & 31),
        .bucket = (uint8_t)(high & 31),
    };
}

bool ident_ours(const struct ident_keys *keys, struct ident id)
{
    struct ident_fields f = ident_read(id);
    bool ours = false;
    for (size_t i = 0; i < keys->checks; i++)
        ours |= check_of(keys->check[i], &id) == check_in(&id);
    return ours && f.activity != 0 && f.epoch != 0;
}

/* 128 bits as 26 letters of five, the first two bits of which are 0. */
void ident_write(struct ident id, enum ident_kind kind, char out[IDENT_ID_TEXT])
{
    uint64_t high = get(id.bytes), low = get(id.bytes + 8);
    memcpy(out, prefixes[kind].ptr, 4);
    for (int i = IDENT_TEXT - 1; i >= 0; i--) {
        out[4 + i] = letters[low & 31];
        low = low >> 5 | high << 59;
        high >>= 5;
    }
}

bool ident_parse(struct str text, enum ident_kind kind, struct ident *out)
{
    if (text.len != IDENT_ID_TEXT || !str_starts(text, prefixes[kind]))
        return false;
    uint64_t high = 0, low = 0;
    for (int i = 0; i < IDENT_TEXT; i++) {
        const char *at = memchr(letters, text.ptr[4 + i], sizeof letters - 1);
        if (!at || (i == 0 && at - letters > 7))
            return false;
        high = high << 5 | low >> 59;
        low = low << 5 | (uint64_t)(at - letters);
    }
    put(out->bytes, high);
    put(out->bytes + 8, low);
    return true;
}

uint64_t user_hash(const struct ident_keys *keys, struct str user) { return hash_keyed(keys->user, user); }

/* Mixed first: the filter's probes take the plain hash modulo their own size, and must not share its residues. */
uint8_t user_bucket(uint64_t hash, uint8_t buckets)
{
    check(buckets >= 1 && buckets <= 32);
    return (uint8_t)(((hash * 0x9e3779b97f4a7c15u) >> 32) % buckets);
}

static uint64_t mark_of(uint64_t hash) { return (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9u >> 48; }

uint64_t ident_chance(uint64_t hash, uint64_t random) { return mark_of(hash) << 32 | (random & UINT32_MAX); }

bool ident_of_user(struct ident id, uint64_t hash) { return get(id.bytes + 8) >> 48 == mark_of(hash); }

static size_t decimal(uint64_t n, int least, char *out)
{
    char reversed[20];
    size_t count = 0;
    do
        reversed[count++] = (char)('0' + n % 10);
    while (n /= 10);
    while (count < (size_t)least)
        reversed[count++] = '0';
    for (size_t i = 0; i < count; i++)
        out[i] = reversed[count - 1 - i];
    return count;
}

size_t token_write(struct token t, char out[TOKEN_TEXT])
{
    check(t.unit > 0);
    memcpy(out, "token_", 6);
    size_t len = 6 + decimal((uint64_t)t.unit, 6, out + 6);
    out[len++] = '-';
    return len + decimal(t.generation, 1, out + len);
}

bool token_parse(struct str text, struct token *out)
{
    const char *dash = text.len > 6 && str_starts(text, str_lit("token_")) ? memchr(text.ptr, '-', text.len) : NULL;
    uint64_t unit, generation;
    if (!dash || !str_to_u64(str_range(text.ptr + 6, dash), &unit) || !str_to_u64(str_range(dash + 1, text.ptr + text.len), &generation))
        return false;
    if (unit == 0 || unit > INT64_MAX || generation == 0 || generation > UINT32_MAX)
        return false;
    struct token t = {.unit = (int64_t)unit, .generation = (uint32_t)generation};
    char again[TOKEN_TEXT];
    size_t len = token_write(t, again);
    if (!str_eq(text, (struct str){again, len}))    /* no zeros too many or too few */
        return false;
    *out = t;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "activity_json.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>

#include "check.h"
#include "json.h"
#include "payment.h"

#define TIME_MOST_MS 253402300799999    /* the end of 9999; the store packs times into 48 bits, without a sign */

struct reading {
    struct arena *arena;
    struct str *complaint;
    bool bad;
};

static void complain(struct reading *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void complain(struct reading *r, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!r->bad)
        *r->complaint = arena_str(r->arena, (struct str){text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1});
    r->bad = true;
}

static void only(struct reading *r, json_t *object, const char *const known[], size_t count)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        bool found = false;
        for (size_t i = 0; i < count; i++)
            found |= strcmp(key, known[i]) == 0;
        if (!found)
            complain(r, "there is no member \"%.64s\"", key);
    }
}

static struct str text_of(struct reading *r, json_t *object, const char *key, size_t most, bool required)
{
    json_t *value = json_object_get(object, key);
    if (!value && !required)
        return (struct str){0};
    if (!json_is_string(value) || json_string_length(value) == 0 || json_string_length(value) > most) {
        complain(r, "%s: expected a text of 1 to %zu bytes", key, most);
        return (struct str){0};
    }
    return arena_str(r->arena, (struct str){json_string_value(value), json_string_length(value)});
}

static struct str id_of(struct reading *r, json_t *object, const char *key)
{
    struct str id = text_of(r, object, key, 64, true);
    if (!r->bad && !str_is_id(id))
        complain(r, "%s: expected 1 to 64 of A-Z a-z 0-9 _ -", key);
    return id;
}

static int64_t number_of(struct reading *r, json_t *object, const char *key, int64_t min, int64_t max, int64_t otherwise, bool required)
{
    json_t *value = json_object_get(object, key);
    if (!value && !required)
        return otherwise;
    if (!json_is_integer(value) || json_integer_value(value) < min || json_integer_value(value) > max) {
        complain(r, "%s: expected a whole number from %lld to %lld", key, (long long)min, (long long)max);
        return otherwise;
    }
    return json_integer_value(value);
}

static int64_t time_of(struct reading *r, json_t *object, const char *key)
{
    int64_t ms = 0;
    struct str text = text_of(r, object, key, 40, true);
    if (!r->bad && !(time_parse(text, &ms) && ms >= 0 && ms <= TIME_MOST_MS))
        complain(r, "%s: expected a time of RFC 3339 from 1970 to 9999", key);
    return ms;
}

static void read_sku(struct reading *r, json_t *object, struct sku *out)
{
    static const char *const known[] = {"sku_id", "stock", "price", "currency"};
    if (!json_is_object(object))
        return complain(r, "skus: expected objects");
    only(r, object, known, countof(known));
    out->sku = id_of(r, object, "sku_id");
    out->stock = number_of(r, object, "stock", 1, SKU_STOCK_MAX, 0, true);
    out->price = number_of(r, object, "price", 0, SKU_PRICE_MAX, 0, true);
    out->currency = text_of(r, object, "currency", 3, true);
    if (!r->bad && !currency_good(out->currency))
        complain(r, "currency: expected three capital letters, as CNY");
}

static void read_skus(struct reading *r, json_t *list, struct activity *out)
{
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > ACTIVITY_SKUS_MAX)
        return complain(r, "skus: expected a list of 1 to %d", ACTIVITY_SKUS_MAX);
    struct sku *skus = arena_array(r->arena, struct sku, json_array_size(list));
    if (!skus)
        return complain(r, "skus: too many");
    for (size_t i = 0; i < json_array_size(list) && !r->bad; i++) {
        read_sku(r, json_array_get(list, i), &skus[i]);
        for (size_t j = 0; j < i; j++)
            if (str_eq(skus[i].sku, skus[j].sku))
                complain(r, "skus: " STR_FMT " stands there twice", STR_ARG(skus[i].sku));
    }
    out->skus = skus;
    out->sku_count = json_array_size(list);
}

static bool flag_of(struct reading *r, json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (value && !json_is_boolean(value))
        complain(r, "%s: expected true or false", key);
    return json_is_true(value);
}

static void read_object(struct reading *r, json_t *o, uint8_t default_buckets, struct activity *out, struct str *note)
{
    static const char *const known[] = {"activity_id", "title", "starts_at", "ends_at", "pay_timeout_s", "buckets", "qualification", "skus", "reason"};
    only(r, o, known, countof(known));
    out->activity = id_of(r, o, "activity_id");
    out->title = text_of(r, o, "title", 200, false);
    if (out->title.len == 0)
        out->title = out->activity;
    out->starts_ms = time_of(r, o, "starts_at");
    out->ends_ms = time_of(r, o, "ends_at");
    out->pay_timeout_s = (uint32_t)number_of(r, o, "pay_timeout_s", 1, 604800, 900, false);
    out->buckets = (uint8_t)number_of(r, o, "buckets", 1, 32, default_buckets, false);
    out->qualification = flag_of(r, o, "qualification");
    *note = text_of(r, o, "reason", 200, false);
    read_skus(r, json_object_get(o, "skus"), out);
    if (!r->bad && out->ends_ms <= out->starts_ms)
        complain(r, "ends_at: must be after starts_at");
}

static json_t *parse(struct reading *r, struct str body)
{
    json_error_t error;
    json_t *root = json_loadb(body.ptr ? body.ptr : "", body.len, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        complain(r, "not JSON: %.100s", error.text);
    else if (!json_is_object(root))
        complain(r, "expected an object");
    return root;
}

bool activity_read(struct str body, uint8_t default_buckets, struct arena *a, struct activity *out, struct str *note, struct str *complaint)
{
    struct reading r = {.arena = a, .complaint = complaint};
    *out = (struct activity){0};
    json_t *root = parse(&r, body);
    if (!r.bad)
        read_object(&r, root, default_buckets, out, note);
    json_decref(root);
    return !r.bad;
}

bool activity_note_read(struct str body, struct arena *a, struct str *note, struct str *complaint)
{
    static const char *const known[] = {"reason"};
    struct reading r = {.arena = a, .complaint = complaint};
    *note = (struct str){0};
    if (str_trim(body).len == 0)
        return true;
    json_t *root = parse(&r, body);
    if (!r.bad) {
        only(&r, root, known, countof(known));
        *note = text_of(&r, root, "reason", 200, false);
    }
    json_decref(root);
    return !r.bad;
}

void activity_write(struct buf *out, const struct activity *a)
{
    json_open(out);
    json_member_str(out, "activity_id", a->activity);
    json_member_str(out, "title", a->title);
    json_member_u64(out, "number", a->number);
    json_member_text(out, "state", activity_state_name(a->state));
    json_member_u64(out, "version", a->version);
    json_member_u64(out, "epoch", a->epoch);
    json_member_u64(out, "buckets", a->buckets);
    json_member_time(out, "starts_at", a->starts_ms);
    json_member_time(out, "ends_at", a->ends_ms);
    json_member_u64(out, "pay_timeout_s", a->pay_timeout_s);
    json_member_bool(out, "qualification", a->qualification);
    json_member_bool(out, "rebuilding", a->rebuilding);
    json_key(out, "skus");
    json_open_array(out);
    for (size_t i = 0; i < a->sku_count; i++) {
        json_open(out);
        json_member_str(out, "sku_id", a->skus[i].sku);
        json_member_i64(out, "stock", a->skus[i].stock);
        json_member_i64(out, "price", a->skus[i].price);
        json_member_str(out, "currency", a->skus[i].currency);
        json_member_i64(out, "unit_first", a->skus[i].unit_first);
        json_close(out);
    }
    json_close_array(out);
    json_close(out);
}

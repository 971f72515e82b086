/* SPDX-License-Identifier: Apache-2.0
 * bench.c: `seckill bench`: what the parts of this program cost that every request meets, each by itself, in nanoseconds of processor time. A figure is the
 * median of many short runs, its noise three times their median distance from it. With --against, a saved run is put beside it: a ratio says
 * something only where it lies outside both noises. Whole processes on real servers are measured by bench/figures. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "http_parser.h"
#include "ident.h"
#include "json.h"
#include "jwt.h"
#include "message.h"
#include "problem.h"
#include "public_body.h"
#include "qualification.h"
#include "request.h"
#include "verb.h"
#include "version.h"

#define SAMPLES_MOST 201
#define SAMPLE_NS 2000000.0    /* how long one run of a part takes, about */

/* ---- the parts ------------------------------------------------------------------------------------------------------------------ */

static const char body[] = "{\"activity_id\":\"act_618\",\"sku_id\":\"sku_000123\",\"user_id\":\"u_00000100000042\",\"request_id\":\"req_00000100000042\"}";
static char head[512];
static struct ident_keys keys;
static struct ident ident;
static struct entry entry;
static struct take take;
static char message[1024], token[1024];
static size_t message_len, token_len;
static struct arena arena;
static volatile uint64_t sink;

static void part_http(uint64_t turn)
{
    static struct http_parser p;
    size_t len = strlen(head);
    http_parser_start(&p, (struct http_limits){4096, 8192, 4096});
    check(http_parse(&p, head, &len) == HTTP_COMPLETE);
    sink += p.request.body.len + turn;
}

static void part_request(uint64_t turn)
{
    static struct request r;
    check(request_read(str_of(body), &r) == REASON_OK);
    sink += r.user.len + turn;
}

static void part_hash(uint64_t turn)
{
    sink += user_hash(&keys, (struct str){body + turn % 8, 16});
}

static void part_ident(uint64_t turn)
{
    char text[IDENT_ID_TEXT];
    struct ident id = ident_make(&keys, (struct ident_fields){1796083200000, 618, 1, 3}, turn);
    ident_write(id, IDENT_RESERVATION, text);
    sink += (unsigned char)text[20];
}

static void part_message(uint64_t turn)
{
    char memory[1024];
    struct buf b = buf_fixed(memory, sizeof memory);
    struct message_ids ids;
    struct create_order m = message_of((struct bucket){str_lit("act_618"), 1, 3}, str_lit("u_00000100000042"), &entry, (struct str){0}, &ids);
    message_seal(&keys, &m);
    message_write(&b, &m);
    sink += b.len + turn;
}

static void part_message_read(uint64_t turn)
{
    struct create_order m;
    arena_reset(&arena);
    check(message_read((struct str){message, message_len}, &arena, &m) == REASON_OK && message_genuine(&keys, &m));
    sink += m.user.len + turn;
}

static void part_queued(uint64_t turn)
{
    char memory[2048];
    struct buf b = buf_fixed(memory, sizeof memory);
    public_body_take(&b, &take);
    sink += b.len + turn;
}

static void part_refusal(uint64_t turn)
{
    char memory[PROBLEM_MAX];
    struct buf b = buf_fixed(memory, sizeof memory);
    problem_write(&b, &(struct problem){.code = REASON_SOLD_OUT, .request_id = str_lit("req_00000100000042")});
    sink += b.len + turn;
}

static void part_qualification(uint64_t turn)
{
    struct qualification q;
    arena_reset(&arena);
    check(qualification_read("dev:development-only-qualification-key", (struct str){token, token_len}, &arena, &q));
    sink += q.user.len + turn;
}

static const struct part {
    const char *name, *what;
    void (*run)(uint64_t turn);
} parts[] = {
    {"http_parse", "a request of 240 bytes read by the HTTP parser", part_http},
    {"request_read", "its body: activity, SKU, user, request", part_request},
    {"user_hash", "the keyed hash of a user", part_hash},
    {"ident", "an id made and written", part_ident},
    {"message_write", "the create-order message, with its mark", part_message},
    {"message_read", "the same, read and verified by a consumer", part_message_read},
    {"queued_write", "the body of a QUEUED", part_queued},
    {"refusal_write", "the body of a refusal (SOLD_OUT is made once at start)", part_refusal},
    {"qualification", "a qualification token, verified", part_qualification},
};

static void prepare(void)
{
    snprintf(head, sizeof head, "POST /v1/reservations HTTP/1.1\r\nHost: 127.0.0.1:8480\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    keys = ident_keys_from(str_lit("development-only-ids-key"), (struct str){0}, str_lit("development-only-user-key"));
    ident = ident_make(&keys, (struct ident_fields){1796083200000, 618, 1, 3}, 4711);
    entry = (struct entry){.ident = ident, .state = RESERVATION_RESERVED, .request = str_lit("req_00000100000042"), .sku = str_lit("sku_000123"),
                           .token = {42, 1}, .created_ms = 1796083200000, .why = REASON_OK};
    take = (struct take){.activity = str_lit("act_618"), .sku = entry.sku, .user = str_lit("u_00000100000042"), .request = entry.request,
                         .reason = REASON_QUEUED, .has_entry = true, .entry = entry, .poll_after_ms = 500};
    struct message_ids ids;
    struct buf b = buf_fixed(message, sizeof message), t = buf_fixed(token, sizeof token);
    struct create_order m = message_of((struct bucket){str_lit("act_618"), 1, 3}, take.user, &entry, (struct str){0}, &ids);
    message_seal(&keys, &m);
    message_write(&b, &m);
    message_len = b.len;
    struct qualification q = {.activity = take.activity, .sku = take.sku, .user = take.user, .nonce = str_lit("nonce-0123456789"), .expires_s = 1796083200};
    qualification_issue("dev:development-only-qualification-key", &q, &t);
    token_len = t.len;
    arena = arena_new(8192);
    check(arena.start && buf_ok(&b) && buf_ok(&t));
}

/* ---- measuring ------------------------------------------------------------------------------------------------------------------- */

struct figure {
    double ns, noise, least;
};

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double run(const struct part *p, uint64_t times)
{
    double began = cpu_ns();
    for (uint64_t i = 0; i < times; i++)
        p->run(i);
    return (cpu_ns() - began) / (double)times;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *all, size_t n)
{
    qsort(all, n, sizeof *all, by_size);
    return n % 2 ? all[n / 2] : (all[n / 2 - 1] + all[n / 2]) / 2;
}

static void measure(size_t samples, struct figure *out)
{
    static double all[countof(parts)][SAMPLES_MOST];
    uint64_t times[countof(parts)];
    for (size_t i = 0; i < countof(parts); i++) {
        double once = run(&parts[i], 2000);    /* and warms it */
        times[i] = (uint64_t)(SAMPLE_NS / (once > 1 ? once : 1)) + 1;
    }
    for (size_t s = 0; s < samples; s++)    /* in turn, so that what disturbs the machine disturbs all alike */
        for (size_t i = 0; i < countof(parts); i++)
            all[i][s] = run(&parts[i], times[i]);
    for (size_t i = 0; i < countof(parts); i++) {
        out[i].ns = median(all[i], samples);
        out[i].least = all[i][0];
        for (size_t s = 0; s < samples; s++)
            all[i][s] = all[i][s] > out[i].ns ? all[i][s] - out[i].ns : out[i].ns - all[i][s];
        out[i].noise = 3 * median(all[i], samples);
    }
}

/* ---- saying it --------------------------------------------------------------------------------------------------------------------- */

static void write_json(struct buf *out, const struct figure *f, size_t samples)
{
    json_open(out);
    json_key(out, "program");
    version_json(out);
    json_member_u64(out, "samples", samples);
    json_key(out, "parts");
    json_open(out);
    for (size_t i = 0; i < countof(parts); i++) {
        char numbers[128];
        struct buf n = buf_fixed(numbers, sizeof numbers);
        buf_add_fmt(&n, "{\"ns\":%.1f,\"noise\":%.1f,\"least\":%.1f}", f[i].ns, f[i].noise, f[i].least);
        json_key(out, parts[i].name);
        json_raw(out, buf_str(&n));
    }
    json_close(out);
    json_close(out);
    check(buf_ok(out));
}

static bool save(const char *path, struct str text)
{
    FILE *file = fopen(path, "w");
    bool good = file && fwrite(text.ptr, 1, text.len, file) == text.len && fputc('\n', file) != EOF;
    return file && fclose(file) == 0 && good;
}

/* What a saved run says of a part; false: nothing. */
static bool saved(const json_t *all, const char *name, struct figure *out)
{
    const json_t *one = json_object_get(json_object_get(all, "parts"), name);
    out->ns = json_number_value(json_object_get(one, "ns"));
    out->noise = json_number_value(json_object_get(one, "noise"));
    return out->ns > 0;
}

static void print(const struct figure *f, const json_t *before)
{
    for (size_t i = 0; i < countof(parts); i++) {
        struct figure was;
        printf("%-14s %8.1f ns  ± %5.1f", parts[i].name, f[i].ns, f[i].noise);
        if (before && saved(before, parts[i].name, &was)) {
            double apart = f[i].ns > was.ns ? f[i].ns - was.ns : was.ns - f[i].ns;
            printf("   was %8.1f ± %5.1f   ratio %.3f %s", was.ns, was.noise, f[i].ns / was.ns, apart > f[i].noise + was.noise ? (f[i].ns > was.ns ? "slower" : "faster") : "same");
        }
        printf("   %s\n", parts[i].what);
    }
}

int verb_bench(const struct call *c)
{
    struct figure figures[countof(parts)];
    size_t samples = (size_t)call_number(c, "samples");
    const char *against = call_text(c, "against"), *to = call_text(c, "save");
    json_error_t error;
    json_t *before = against[0] ? json_load_file(against, 0, &error) : NULL;
    if (against[0] && !before)
        return call_failed(c, LEAVE_USAGE, "%s: %s", against, error.text);
    prepare();
    measure(samples, figures);
    struct buf out = buf_growing(1 << 16);
    write_json(&out, figures, samples);
    if (c->json)
        printf(STR_FMT "\n", STR_ARG(buf_str(&out)));
    else
        print(figures, before);
    bool kept = !to[0] || save(to, buf_str(&out));
    json_decref(before);
    buf_free(&out);
    arena_free(&arena);
    return kept ? LEAVE_DONE : call_failed(c, LEAVE_FAILED, "%s cannot be written", to);
}

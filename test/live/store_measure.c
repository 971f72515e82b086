/* SPDX-License-Identifier: Apache-2.0
 * store_measure.c: what a reservation costs Redis: processor time of the server and bytes of its memory.
 *
 *     SECKILL_TEST_REDIS=unix:/path store_measure [reservations [buckets [settles per call [in flight [counted]]]]]
 *
 * Runs every reservation through its life (reserve, PUBLISHED, ORDERED) on a server that does nothing else, and prints a table. `counted`: only that many
 * at the end of each are counted, so that the table says what one costs among those before.
 * Ids are as long as in life: users of 12 letters, request_ids of 36. Figures are the server's own (INFO). On a machine with other work
 * they are too high: `least` is the best slice of some thousand, and `SET` a yardstick measured before and after in the same way, a
 * pipelined SET of 100 bytes. Compare ratios. */
#include <stdio.h>
#include <stdlib.h>

#include "redis.h"
#include "redis_address.h"

#include <hiredis/hiredis.h>

#define CALLERS_MOST 1024
#define SLICE 4000

struct caller {
    struct waiter waiter;
    struct run *run;
    size_t first, count;
};

struct run {
    uv_loop_t loop;
    struct store *store;
    size_t total, buckets, batch, callers, counted, until;
    size_t next, done, failed;
    int phase;    /* 0 seed, 1 reserve, 2 PUBLISHED, 3 ORDERED */
    struct sku sku;
    struct activity activity;
    struct token *tokens;
    struct caller at[CALLERS_MOST];
};

static redisContext *admin;

static struct ident ident_of(size_t i)
{
    struct ident id = {{1, 147}};
    uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15u;
    memcpy(id.bytes + 2, &mixed, sizeof mixed);
    memcpy(id.bytes + 10, &i, 6);
    return id;
}

static struct str user_of(size_t i, char memory[16])
{
    return (struct str){memory, (size_t)snprintf(memory, 16, "user-%07zu", i)};
}

static struct str request_of(size_t i, char memory[40])
{
    return (struct str){memory, (size_t)snprintf(memory, 40, "%08zx-7d4e-4c1b-9a55-%012zx", i, i * 77)};
}

static uint64_t hash_of(size_t i) { return (i + 1) * 0xd6e8feb86659fd93u; }

static struct bucket bucket_of(const struct run *r, size_t i)
{
    return (struct bucket){r->activity.activity, r->activity.epoch, (uint8_t)(i % r->buckets)};
}

static void ask(struct caller *c);

static void woken(struct waiter *w, enum reason reason, const void *result)
{
    struct caller *c = container_of(w, struct caller, waiter);
    struct run *r = c->run;
    if (r->phase == 1) {
        r->failed += reason != REASON_QUEUED;
        if (reason == REASON_QUEUED)
            r->tokens[c->first] = ((const struct reserve_answer *)result)->entry.token;
    } else {
        for (size_t i = 0; i < c->count; i++)
            r->failed += reason != REASON_OK || ((const struct batch_result *)result)->verdicts[i] != REASON_OK;
    }
    r->done += c->count;
    ask(c);
}

static void ask_reserve(struct run *r, struct caller *c)
{
    char user[16], request[40];
    struct reserve_ask a = {.bucket = bucket_of(r, c->first), .user = user_of(c->first, user), .sku = r->sku.sku,
                            .request = request_of(c->first, request), .ident = ident_of(c->first), .user_hash = hash_of(c->first)};
    store_reserve(r->store, &a, &c->waiter);
}

static void ask_restock(struct run *r, struct caller *c)
{
    struct restock_ask a[STORE_BATCH_MAX];
    for (size_t i = 0; i < c->count; i++)
        a[i] = (struct restock_ask){bucket_of(r, c->first + i), r->sku.sku, {r->sku.unit_first + (int64_t)(c->first + i), 1}};
    store_restock(r->store, a, c->count, &c->waiter);
}

/* A batch is of one bucket, as relay and settler make them: every buckets-th reservation. */
static size_t member(const struct run *r, const struct caller *c, size_t i)
{
    size_t group = c->first / (r->batch * r->buckets), within = c->first / r->batch % r->buckets;
    return group * r->batch * r->buckets + within + i * r->buckets;
}

static void ask_settle(struct run *r, struct caller *c)
{
    struct settle_ask a[STORE_BATCH_MAX];
    char users[STORE_BATCH_MAX][16], requests[STORE_BATCH_MAX][40];
    for (size_t i = 0; i < c->count; i++) {
        size_t n = member(r, c, i);
        a[i] = (struct settle_ask){.bucket = bucket_of(r, n), .user = user_of(n, users[i]), .ident = ident_of(n),
                                   .to = r->phase == 2 ? RESERVATION_PUBLISHED : RESERVATION_ORDERED, .request = request_of(n, requests[i]),
                                   .sku = r->sku.sku, .token = r->tokens[n], .user_hash = hash_of(n)};
    }
    store_settle(r->store, a, c->count, &c->waiter);
}

static void ask(struct caller *c)
{
    struct run *r = c->run;
    size_t most = r->phase == 0 ? STORE_BATCH_MAX : r->phase == 1 ? 1 : r->batch;
    c->first = r->next;
    c->count = r->until - r->next < most ? r->until - r->next : most;
    r->next += c->count;
    if (c->count == 0)
        return;
    if (r->phase == 0)
        ask_restock(r, c);
    else if (r->phase == 1)
        ask_reserve(r, c);
    else
        ask_settle(r, c);
}

static double info(const char *section, const char *field)
{
    redisReply *reply = redisCommand(admin, "INFO %s", section);
    const char *at = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, field) : NULL;
    double value = at ? strtod(at + strlen(field), NULL) : 0;
    freeReplyObject(reply);
    return value;
}

static double cpu_us(void) { return 1e6 * (info("cpu", "used_cpu_sys:") + info("cpu", "used_cpu_user:")); }
static double memory_bytes(void) { return info("memory", "used_memory:"); }

static void yardstick(size_t total)
{
    double cpu = cpu_us();
    char value[100];
    memset(value, 'x', sizeof value);
    for (size_t i = 0; i < total; i += 250) {
        for (size_t k = 0; k < 250; k++)
            redisAppendCommand(admin, "SET sk:yardstick:%u %b", (unsigned)(i + k), value, sizeof value);
        for (size_t k = 0; k < 250; k++) {
            void *reply = NULL;
            check(redisGetReply(admin, &reply) == REDIS_OK);
            freeReplyObject(reply);
        }
    }
    printf("%-10s %9.2f\n", "SET", (cpu_us() - cpu) / (double)((total + 249) / 250 * 250));
    for (size_t i = 0; i < total + 250; i++)
        redisAppendCommand(admin, "UNLINK sk:yardstick:%u", (unsigned)i);
    for (size_t i = 0; i < total + 250; i++) {
        void *reply = NULL;
        check(redisGetReply(admin, &reply) == REDIS_OK);
        freeReplyObject(reply);
    }
}

/* Goes on until so many are done and nothing is under way; the least cost of a slice. */
static double work(struct run *r, size_t until)
{
    double slice_cpu = cpu_us(), least = 1e9;
    size_t slice = r->done, callers = r->phase == 0 ? 8 : r->callers;    /* a batch of units goes to every bucket at once */
    r->until = until;
    for (size_t i = 0; i < callers; i++)
        ask(&r->at[i]);
    while (r->done < until) {
        uv_run(&r->loop, UV_RUN_ONCE);
        if (r->done - slice < SLICE)
            continue;
        double now = cpu_us(), each = (now - slice_cpu) / (double)(r->done - slice);
        least = each < least ? each : least;
        slice_cpu = now;
        slice = r->done;
    }
    return least;
}

static void phase(struct run *r, int which)
{
    static const char *const names[] = {"seed", "reserve", "PUBLISHED", "ORDERED"};
    size_t before = r->total - r->counted;
    r->phase = which;
    r->next = r->done = r->failed = 0;
    before -= before % (r->batch * r->buckets);
    work(r, before);
    double cpu = cpu_us(), began = (double)uv_hrtime(), least = work(r, r->total);
    double took = (double)uv_hrtime() - began, n = (double)(r->total - before);
    printf("%-10s %9.2f %9.2f %12.0f %10zu\n", names[which], (cpu_us() - cpu) / n, least < 1e9 ? least : 0, n / took * 1e9, r->failed);
}

static void installed(struct waiter *w, enum reason reason, const void *result)
{
    struct caller *c = container_of(w, struct caller, waiter);
    (void)result;
    check(reason == REASON_OK);
    c->run->done++;
}

static void install(struct run *r, bool seeded)
{
    r->done = 0;
    for (size_t i = 0; i < r->buckets; i++) {
        struct install_ask a = {bucket_of(r, i), &r->activity, seeded, true};
        r->at[i] = (struct caller){.waiter = {.wake = installed, .budget_ms = 10000}, .run = r};
        store_install(r->store, &a, &r->at[i].waiter);
    }
    while (r->done < r->buckets)
        uv_run(&r->loop, UV_RUN_ONCE);
}

static void callers_ready(struct run *r)
{
    for (size_t i = 0; i < r->callers; i++)
        r->at[i] = (struct caller){.waiter = {.wake = woken, .budget_ms = 10000}, .run = r};
}

static void connect_admin(const char *url)
{
    struct redis_address a;
    check(redis_address_parse(str_of(url), &a));
    admin = a.local ? redisConnectUnix(a.host) : redisConnect(a.host, atoi(a.port));
    check(admin != NULL && admin->err == 0);
}

static size_t number(int argc, char **argv, int at, size_t otherwise, size_t most)
{
    size_t n = argc > at ? strtoul(argv[at], NULL, 10) : otherwise;
    check(n > 0 && n <= most);
    return n;
}

int main(int argc, char **argv)
{
    const char *url = getenv("SECKILL_TEST_REDIS");
    if (!url)
        return 77;
    static struct run r;
    r.total = number(argc, argv, 1, 100000, 10000000);
    r.buckets = number(argc, argv, 2, 16, 32);
    r.batch = number(argc, argv, 3, 16, STORE_BATCH_MAX);
    r.callers = number(argc, argv, 4, 256, CALLERS_MOST);
    r.counted = number(argc, argv, 5, r.total, r.total);
    r.total -= r.total % (r.batch * r.buckets);    /* whole batches */
    r.counted = r.counted < r.total ? r.counted : r.total;
    check(r.total > 0);
    r.tokens = calloc(r.total, sizeof *r.tokens);
    check(r.tokens != NULL && uv_loop_init(&r.loop) == 0);
    connect_admin(url);
    struct redis_options options = redis_options_default();
    options.loop = &r.loop;
    options.url = str_of(url);
    options.reserve_ms = options.batch_ms = 10000;
    r.store = redis_open(&options);
    check(r.store != NULL);
    while (!redis_up(r.store))
        uv_run(&r.loop, UV_RUN_ONCE);

    char name[32];
    snprintf(name, sizeof name, "measure-%llx", (unsigned long long)uv_hrtime());
    r.sku = (struct sku){.sku = str_lit("sku-000001"), .stock = (int64_t)r.total, .unit_first = 1};
    r.activity = (struct activity){.activity = str_of(name), .number = 1, .epoch = 1, .buckets = (uint8_t)r.buckets, .state = ACTIVITY_OPEN, .version = 1,
                                   .starts_ms = 1, .ends_ms = INT64_C(1) << 42, .skus = &r.sku, .sku_count = 1};
    double empty = memory_bytes();
    install(&r, false);
    callers_ready(&r);
    printf("%zu reservations, %zu buckets, %zu settles a call, %zu in flight\n", r.total, r.buckets, r.batch, r.callers);
    printf("%-10s %9s %9s %12s %10s\n", "", "us each", "least", "per s", "failed");
    yardstick(50000);
    phase(&r, 0);
    double seeded = memory_bytes();
    install(&r, true);
    callers_ready(&r);
    phase(&r, 1);
    double undecided = memory_bytes();
    phase(&r, 2);
    double published = memory_bytes();
    phase(&r, 3);
    double decided = memory_bytes(), n = (double)r.total;
    printf("bytes each: %.0f free, %.0f reserved, %.0f published, %.0f decided\n", (seeded - empty) / n, (undecided - empty) / n, (published - empty) / n,
           (decided - empty) / n);
    yardstick(50000);
    redis_close(r.store, NULL, NULL);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    return 0;
}

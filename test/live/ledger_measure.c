/* SPDX-License-Identifier: Apache-2.0
 * ledger_measure.c: what an order costs PostgreSQL. Not a test: a figure.
 *
 *     SECKILL_TEST_POSTGRES=… ledger_measure [orders [batch [repeats in a hundred]]]
 *
 * Makes a database of its own, places `orders` orders in batches over one connection with two calls in flight, as a consumer with two queues
 * would, and prints orders/s and the CPU time of that backend per order, by /proc. The server must run on this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "postgres.h"
#include "world_postgres.h"

#define FLYING 2

struct lane_of_work {
    struct waiter waiter;
    struct create_order items[LEDGER_BATCH_MAX];
    char texts[LEDGER_BATCH_MAX][4][40];
};

static struct world *world;
static struct lane_of_work works[FLYING];
static struct activity activity;
static int64_t orders_left, next_order, done_orders, batch = 128, repeats;
static unsigned busy;
static enum reason last;

static void made(struct waiter *w, enum reason reason, const void *result)
{
    (void)w;
    check(reason == REASON_OK);
    activity.number = ((const struct activity *)result)->number;
    last = reason;
}

static void fill(struct lane_of_work *work, size_t i, int64_t n)
{
    char (*text)[40] = work->texts[i];
    snprintf(text[0], 40, "msg_01JG8M3K7Q0000000000%08lld", (long long)n);
    snprintf(text[1], 40, "req_%08lld", (long long)n);
    snprintf(text[2], 40, "rsv_01JG8M3K7Q0000000000%08lld", (long long)n);
    snprintf(text[3], 40, "user_%08lld", (long long)(n * 7919 % 100000007));
    work->items[i] = (struct create_order){.schema_version = 1, .message = str_of(text[0]), .request = str_of(text[1]), .reservation = str_of(text[2]),
                                           .activity = activity.activity, .sku = str_lit("sku-1"), .user = str_of(text[3]),
                                           .token = {n + 1, 1}, .created_ms = 1796083200000, .epoch = 1};
}

static void go(struct lane_of_work *work);

static void placed(struct waiter *w, enum reason reason, const void *result)
{
    check(reason == REASON_OK);
    const struct place_answer *a = result;
    for (size_t i = 0; i < a->count; i++)
        done_orders += a->verdicts[i].outcome == REASON_ORDERED && a->verdicts[i].fresh;
    busy--;
    go(container_of(w, struct lane_of_work, waiter));
}

static void go(struct lane_of_work *work)
{
    size_t n = 0;
    for (; n < (size_t)batch && orders_left > 0; n++) {
        bool again = next_order > 1000 && (int64_t)(n * 37 % 100) < repeats;
        fill(work, n, again ? next_order - 900 : next_order);
        if (!again)
            next_order++, orders_left--;
    }
    if (n == 0)
        return;
    busy++;
    struct place_ask ask = {.group = str_lit("measure"), .owner = str_lit("one"), .items = work->items, .count = n};
    work->waiter.wake = placed;
    ledger_place(world->ledger, &ask, &work->waiter);
}

static bool idle(void *arg) { return (void)arg, busy == 0; }
static bool woken(void *arg) { return *(struct waiter **)arg != NULL && (*(struct waiter **)arg)->slot == NULL; }

/* User and system time of our database's backends, in microseconds. */
static double backend_us(void)
{
    PGconn *conn = PQconnectdb(postgres_world_url());
    PGresult *r = PQexec(conn, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'contract'");
    check(PQresultStatus(r) == PGRES_TUPLES_OK);
    double sum = 0;
    for (int i = 0; i < PQntuples(r); i++) {
        char path[64], line[1024];
        snprintf(path, sizeof path, "/proc/%s/stat", PQgetvalue(r, i, 0));
        FILE *f = fopen(path, "r");
        unsigned long user = 0, kernel = 0;
        const char *rest = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
        if (rest && sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) == 2)
            sum += 1e6 * (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
        if (f)
            fclose(f);
    }
    PQclear(r);
    PQfinish(conn);
    return sum;
}

int main(int argc, char **argv)
{
    int64_t orders = argc > 1 ? atoll(argv[1]) : 100000;
    batch = argc > 2 ? atoll(argv[2]) : 128;
    repeats = argc > 3 ? atoll(argv[3]) : 0;
    check(orders > 0 && batch > 0 && batch <= LEDGER_BATCH_MAX && repeats >= 0 && repeats < 100);
    log_level_set(LEVEL_ERROR);
    world = world_open();
    struct sku sku = {.sku = str_lit("sku-1"), .stock = orders, .price = 100, .currency = str_lit("CNY")};
    activity = (struct activity){.activity = str_lit("measure"), .title = str_lit("t"), .buckets = 1, .starts_ms = 1000, .ends_ms = 4000000000000,
                                 .pay_timeout_s = 900, .skus = &sku, .sku_count = 1};
    struct waiter making = {.wake = made}, *at = &making;
    ledger_activity_create(world->ledger, &(struct activity_create){.activity = activity, .actor = str_lit("measure")}, &making);
    check(world->run(world, woken, &at, 120000) && last == REASON_OK);

    double cpu = backend_us();
    uint64_t start = uv_hrtime();
    orders_left = orders;
    for (size_t i = 0; i < FLYING; i++)
        go(&works[i]);
    check(world->run(world, idle, NULL, 600000));
    double seconds = (double)(uv_hrtime() - start) / 1e9;
    cpu = backend_us() - cpu;    /* the other lanes are idle meanwhile */
    check(done_orders == orders);
    printf("orders=%lld batch=%lld repeats=%lld%% seconds=%.2f orders_per_s=%.0f backend_us_per_order=%.1f\n", (long long)orders, (long long)batch,
           (long long)repeats, seconds, (double)orders / seconds, cpu / (double)orders);
    world->close(world);
    return 0;
}

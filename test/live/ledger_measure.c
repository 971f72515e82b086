/* SPDX-License-Identifier: Apache-2.0
 * ledger_measure.c: what an order costs PostgreSQL. Not a test: a figure.
 *
 *     SECKILL_TEST_POSTGRES=… ledger_measure [orders [batch [repeats in a hundred [before]]]]
 *
 * Makes a database of its own, places `before` orders that nobody counts and tells of them; then places `orders` orders in batches over one connection with two calls in flight, as a consumer with two queues
 * would, then claims and finishes all that is to be told of them, as a relay would; prints orders/s, the CPU time of the backends per order, by /proc,
 * the bytes of WAL, and how many of them are images of whole pages. The server must run on this machine. */
#include <stdio.h>
#include <stdlib.h>

#include "postgres.h"
#include "world_postgres.h"

#define FLYING 2

struct lane_of_work {
    struct waiter waiter;
    struct create_order items[LEDGER_BATCH_MAX];
    char texts[LEDGER_BATCH_MAX][4][40];
};

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

static void place_all(int64_t orders)
{
    orders_left = orders;
    for (size_t i = 0; i < FLYING; i++)
        go(&works[i]);
    check(world->run(world, idle, NULL, 600000));
}

/* How long our database's backends have been on a processor, in microseconds. */
static double backend_us(void)
{
    PGconn *conn = PQconnectdb(postgres_world_url());
    PGresult *r = PQexec(conn, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'contract'");
    check(PQresultStatus(r) == PGRES_TUPLES_OK);
    double sum = 0;
    for (int i = 0; i < PQntuples(r); i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%s/schedstat", PQgetvalue(r, i, 0));
        FILE *f = fopen(path, "r");
        unsigned long long ns = 0;
        if (f && fscanf(f, "%llu", &ns) == 1)
            sum += (double)ns / 1e3;
        if (f)
            fclose(f);
    }
    PQclear(r);
    PQfinish(conn);
    return sum;
}

/* ---- the relay's part ---- */

static struct waiter claimer, finisher;
static struct finish_item told_items[LEDGER_BATCH_MAX];
static size_t told_count;
static int64_t told_rows;

static void claimed(struct waiter *w, enum reason reason, const void *result)
{
    (void)w;
    check(reason == REASON_OK);
    const struct claim_answer *a = result;
    told_count = a->count;
    for (size_t i = 0; i < a->count; i++)
        told_items[i] = (struct finish_item){a->rows[i].row, a->rows[i].version};
    told_rows += (int64_t)a->count;
    busy--;
}

static void finished(struct waiter *w, enum reason reason, const void *result)
{
    (void)w, (void)result;
    check(reason == REASON_OK);
    busy--;
}

static void tell_all(void)
{
    do {
        busy = 1;
        claimer = (struct waiter){.wake = claimed};
        ledger_claim(world->ledger, &(struct claim_ask){.limit = LEDGER_BATCH_MAX, .hold_ms = 60000}, &claimer);
        check(world->run(world, idle, NULL, 60000));
        if (told_count == 0)
            return;
        busy = 1;
        finisher = (struct waiter){.wake = finished};
        ledger_finish(world->ledger, &(struct finish_ask){.items = told_items, .count = told_count}, &finisher);
        check(world->run(world, idle, NULL, 60000));
    } while (true);
}

static double number_of(const char *query)
{
    PGconn *conn = PQconnectdb(postgres_world_url());
    PGresult *r = PQexec(conn, query);
    check(PQresultStatus(r) == PGRES_TUPLES_OK);
    double number = strtod(PQgetvalue(r, 0, 0), NULL);
    PQclear(r);
    PQfinish(conn);
    return number;
}

static void run_sql(const char *statement)
{
    PGconn *conn = PQconnectdb(postgres_world_url());
    PGresult *r = PQexec(conn, statement);
    check(PQresultStatus(r) == PGRES_COMMAND_OK);
    PQclear(r);
    PQfinish(conn);
}

static double wal_bytes(void) { return number_of("SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn"); }

/* How many of the bytes written from..to are images of whole pages: those that were touched for the first time after a checkpoint. */
static double image_bytes(double from, double to)
{
    char query[256];
    snprintf(query, sizeof query, "SELECT sum(fpi_size) FROM pg_get_wal_stats('0/0'::pg_lsn + %.0f::numeric, '0/0'::pg_lsn + %.0f::numeric)", from, to);
    return number_of(query);
}

int main(int argc, char **argv)
{
    int64_t orders = argc > 1 ? atoll(argv[1]) : 100000;
    batch = argc > 2 ? atoll(argv[2]) : 128;
    repeats = argc > 3 ? atoll(argv[3]) : 0;
    int64_t before = argc > 4 ? atoll(argv[4]) : 0;
    check(before >= 0 && orders > 0 && batch > 0 && batch <= LEDGER_BATCH_MAX && repeats >= 0 && repeats < 100);
    log_level_set(LEVEL_ERROR);
    world = world_open();
    run_sql("CREATE EXTENSION pg_walinspect");
    struct sku sku = {.sku = str_lit("sku-1"), .stock = before + orders, .price = 100, .currency = str_lit("CNY")};
    activity = (struct activity){.activity = str_lit("measure"), .title = str_lit("t"), .buckets = 1, .starts_ms = 1000, .ends_ms = 4000000000000,
                                 .pay_timeout_s = 900, .skus = &sku, .sku_count = 1};
    struct waiter making = {.wake = made}, *at = &making;
    ledger_activity_create(world->ledger, &(struct activity_create){.activity = activity, .actor = str_lit("measure")}, &making);
    check(world->run(world, woken, &at, 120000) && last == REASON_OK);

    if (before > 0) {
        place_all(before);
        tell_all();
        told_rows = done_orders = 0;
    }
    double cpu = backend_us(), wal = wal_bytes();
    uint64_t start = uv_hrtime();
    place_all(orders);
    double seconds = (double)(uv_hrtime() - start) / 1e9, n = (double)orders, placed_us = backend_us() - cpu, placed_wal = wal_bytes() - wal;
    check(done_orders == orders);    /* the other lanes were idle meanwhile */
    start = uv_hrtime();
    tell_all();
    double told_seconds = (double)(uv_hrtime() - start) / 1e9, told_us = backend_us() - cpu - placed_us, told_wal = wal_bytes() - wal - placed_wal;
    double images = image_bytes(wal, wal + placed_wal + told_wal);
    printf("orders=%lld batch=%lld repeats=%lld%% place: seconds=%.2f per_s=%.0f backend_us=%.1f wal=%.0f  tell: seconds=%.2f backend_us=%.1f wal=%.0f rows=%.2f"
           "  together: backend_us=%.1f wal=%.0f images=%.0f\n", (long long)orders, (long long)batch, (long long)repeats, seconds, n / seconds, placed_us / n, placed_wal / n,
           told_seconds, told_us / n, told_wal / n, (double)told_rows / n, (placed_us + told_us) / n, (placed_wal + told_wal) / n, images / n);
    world->close(world);
    return 0;
}

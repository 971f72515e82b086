/* SPDX-License-Identifier: Apache-2.0
 * bus_bench: how fast our own client is at a real broker, and whether it tells the truth when the broker dies.
 *
 *     bus_bench send  NAMESRV MESSAGES BODY CALL WINDOW    sends MESSAGES of BODY bytes, CALL messages a call, WINDOW messages open
 *     bus_bench pull  NAMESRV TOPIC [SECONDS]              pulls the topic from its beginning, sets the marks of group "bench", and stays a while,
 *                                                          to be looked at with mqadmin consumerProgress and consumerConnection
 *     bus_bench judge NAMESRV SECONDS                      sends at leisure while somebody kills and starts the broker; then pulls everything and
 *                                                          compares: every OK is there, nothing called "not sent" is. Exit 7 when not.
 * `send` prints the topic it made. CPU is this process's own. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "rocketmq.h"

#define OPEN_MAX 4096
#define KEYS_MAX 4000000

static uv_loop_t loop;
static struct bus *bus;
static char topic_text[64];
static char body[65536];

struct shot {                     /* one call of send */
    struct waiter waiter;
    uint32_t first, count;        /* keys */
    uint64_t began_ns;
    bool open;
};
static struct shot shots[OPEN_MAX];
static uint8_t *verdicts;         /* by key: reason + 1 */
static uint64_t latencies_us[100000];
static size_t latency_count;
static uint32_t total, call_size, next_key, ended;
static bool done_flag, created, gone, until_time;
static uint64_t stop_ns;
static uint64_t tally[REASON_COUNT];
static enum reason last_verdict;

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void shoot(struct shot *s);

static void shot_told(struct waiter *w, enum reason reason, const void *result)
{
    struct shot *s = container_of(w, struct shot, waiter);
    const struct send_result *r = reason == REASON_OK ? result : NULL;
    for (uint32_t i = 0; i < s->count; i++) {
        enum reason verdict = r ? r->verdicts[i] : reason;
        verdicts[s->first + i] = (uint8_t)(verdict + 1);
        tally[verdict]++;
        last_verdict = verdict;
    }
    if (latency_count < countof(latencies_us))
        latencies_us[latency_count++] = (uv_hrtime() - s->began_ns) / 1000;
    ended += s->count;
    s->open = false;
    if (!until_time)
        shoot(s);
}

static bool finished(void) { return until_time ? uv_hrtime() >= stop_ns || next_key + 256 > KEYS_MAX : next_key >= total; }

static void shoot(struct shot *s)
{
    struct bus_message m[BUS_BATCH_MAX];
    char keys[BUS_BATCH_MAX][12];
    if (finished())
        return;
    s->first = next_key;
    s->count = total - next_key < call_size ? total - next_key : call_size;
    for (uint32_t i = 0; i < s->count; i++) {
        snprintf(keys[i], sizeof keys[i], "%u", next_key++);
        m[i] = (struct bus_message){.topic = str_of(topic_text), .key = str_of(keys[i]), .body = {body, strlen(body)}};
    }
    s->waiter = (struct waiter){.wake = shot_told};
    s->began_ns = uv_hrtime();
    s->open = true;
    bus_send(bus, m, s->count, &s->waiter);
}

static void flag(struct waiter *w, enum reason reason, const void *result)
{
    (void)w, (void)result;
    created = reason == REASON_OK;
    done_flag = true;
}

static void turn(void) { uv_run(&loop, UV_RUN_NOWAIT); }
static void spin(const bool *until) { while (!*until) turn(); }

static void open_bus(const char *name_servers, struct str topic)
{
    uv_loop_init(&loop);
    struct rocketmq_options o = {.loop = &loop, .name_servers = str_of(name_servers), .group = str_lit("bench"), .topics = &topic,
                                 .topic_count = topic.len > 0};
    bus = rocketmq_open(&o);
    if (!bus)
        exit(2);
}

static void new_topic(void)
{
    snprintf(topic_text, sizeof topic_text, "bench-%llx", (unsigned long long)uv_hrtime());
    struct str t = str_of(topic_text);
    for (created = false; !created; usleep(200000)) {    /* the broker may be on its way */
        struct waiter w = {.wake = flag};
        done_flag = false;
        bus_create(bus, &t, 1, str_lit("bench"), 8, &w);
        spin(&done_flag);
    }
}

static int by_size(const void *a, const void *b) { return (*(const uint64_t *)a > *(const uint64_t *)b) - (*(const uint64_t *)a < *(const uint64_t *)b); }

static void bench_send(uint32_t count, size_t bytes, uint32_t a_call, uint32_t window)
{
    memset(body, 'b', bytes < sizeof body ? bytes : sizeof body - 1);
    total = count;
    call_size = a_call;
    verdicts = calloc(count + BUS_BATCH_MAX, 1);
    double cpu = cpu_s();
    uint64_t began = uv_hrtime();
    for (uint32_t i = 0; i < OPEN_MAX && i < window / a_call; i++)
        shoot(&shots[i]);
    while (ended < total)
        uv_run(&loop, UV_RUN_ONCE);
    double wall = (double)(uv_hrtime() - began) / 1e9;
    cpu = cpu_s() - cpu;
    qsort(latencies_us, latency_count, sizeof latencies_us[0], by_size);
    printf("send: %s  %u messages, %u a call, %u open: %.0f/s, %.2f us CPU each, p50 %llu us, p99 %llu us, OK %llu\n", topic_text, total, a_call, window,
           total / wall, cpu * 1e6 / total, (unsigned long long)latencies_us[latency_count / 2],
           (unsigned long long)latencies_us[latency_count * 99 / 100], (unsigned long long)tally[REASON_OK]);
}

/* ---- pulling everything ---- */

struct puller {
    struct waiter waiter;
    struct queue queue;
    char broker[64];
    int64_t next;
    uint64_t again_ns;            /* failed: when to try again */
    bool done;
};
static struct puller pullers[64];
static size_t puller_count;
static uint64_t pulled_total, pulls, pull_failures;
static uint8_t *seen_keys;        /* how often, by key */

static void pull_on(struct puller *p)
{
    p->again_ns = 0;
    struct pull_ask ask = {.queue = p->queue, .offset = p->next, .limit = BUS_PULL_MAX};
    bus_pull(bus, &ask, &p->waiter);
}

static void pull_told(struct waiter *w, enum reason reason, const void *result)
{
    struct puller *p = container_of(w, struct puller, waiter);
    const struct pulled_answer *a = result;
    if (reason != REASON_OK) {
        p->again_ns = uv_hrtime() + 200000000u;
        p->done = reason == REASON_OFFSET_MOVED;
        if (p->done || pull_failures++ == 0)
            fprintf(stderr, "pull of queue %d at %lld ended as %s\n", p->queue.number, (long long)p->next, reason_word(reason));
        return;
    }
    pulls++;
    for (size_t i = 0; i < a->count; i++) {
        int64_t key = -1;
        pulled_total++;
        if (seen_keys && str_to_i64(a->messages[i].key, &key) && key < KEYS_MAX)
            seen_keys[key]++;
    }
    p->next = a->next;
    p->done = a->next >= a->max;
    if (!p->done)
        pull_on(p);
}

static void keep_queues(struct waiter *w, enum reason reason, const void *result)
{
    const struct queues_answer *a = result;
    (void)w;
    for (size_t i = 0; reason == REASON_OK && i < a->count && i < countof(pullers); i++) {
        struct puller *p = &pullers[puller_count++];
        memcpy(p->broker, a->queues[i].broker.ptr, a->queues[i].broker.len);
        p->queue = (struct queue){str_of(p->broker), str_of(topic_text), a->queues[i].number};
        p->waiter.wake = pull_told;
    }
    done_flag = true;
}

static void pull_everything(void)
{
    struct waiter w = {.wake = keep_queues};
    done_flag = false;
    bus_queues(bus, str_of(topic_text), &w);
    spin(&done_flag);
    double cpu = cpu_s();
    uint64_t began = uv_hrtime();
    for (size_t i = 0; i < puller_count; i++)
        pull_on(&pullers[i]);
    for (bool all = false; !all;) {
        turn();
        all = true;
        for (size_t i = 0; i < puller_count; i++) {
            all = all && pullers[i].done;
            if (pullers[i].again_ns > 0 && uv_hrtime() > pullers[i].again_ns && !pullers[i].done)
                pull_on(&pullers[i]);
        }
    }
    double wall = (double)(uv_hrtime() - began) / 1e9;
    cpu = cpu_s() - cpu;
    printf("pull: %llu messages in %llu calls of up to %d: %.0f/s, %.2f us CPU each\n", (unsigned long long)pulled_total, (unsigned long long)pulls,
           BUS_PULL_MAX, (double)pulled_total / wall, cpu * 1e6 / (double)(pulled_total ? pulled_total : 1));
}

static void mark_and_stay(unsigned seconds)
{
    for (size_t i = 0; i < puller_count; i++) {
        struct waiter w = {.wake = flag};
        done_flag = false;
        bus_mirror(bus, &pullers[i].queue, pullers[i].next, &w);
        spin(&done_flag);
        if (!created)
            fprintf(stderr, "mark of queue %d not set\n", pullers[i].queue.number);
    }
    for (uint64_t until = uv_hrtime() + seconds * 1000000000ull; uv_hrtime() < until; usleep(10000))
        turn();
}

/* ---- the truth ---- */

static int judge(unsigned seconds)
{
    uint64_t missing = 0, risen = 0, unknown_stored = 0, unknown = 0, twice = 0;
    memset(body, 'j', 200);
    total = KEYS_MAX;
    call_size = 4;
    until_time = true;
    verdicts = calloc(KEYS_MAX, 1);
    seen_keys = calloc(KEYS_MAX, 1);
    stop_ns = uv_hrtime() + (uint64_t)seconds * 1000000000u;
    while (!finished()) {
        for (size_t i = 0; i < 128; i++)
            if (!shots[i].open)
                shoot(&shots[i]);
        turn();
        usleep(last_verdict == REASON_OK ? 500 : 50000);    /* a broker that is away refuses as fast as we ask */
    }
    while (ended < next_key)
        turn();
    for (uint64_t until = uv_hrtime() + 2000000000u; uv_hrtime() < until;)    /* what was stored may take a moment to be seen */
        turn();
    pull_everything();
    for (uint32_t k = 0; k < next_key; k++) {
        enum reason verdict = (enum reason)(verdicts[k] - 1);
        enum fate fate = reason_fate(verdict);
        missing += verdict == REASON_OK && seen_keys[k] == 0;
        risen += (fate == FATE_RETRY || fate == FATE_REFUSED) && seen_keys[k] > 0;
        unknown += fate == FATE_UNKNOWN;
        unknown_stored += fate == FATE_UNKNOWN && seen_keys[k] > 0;
        twice += seen_keys[k] > 1;
    }
    for (unsigned r = 0; r < REASON_COUNT; r++)
        if (tally[r])
            printf("%-16s %llu\n", reason_word((enum reason)r), (unsigned long long)tally[r]);
    printf("OK but missing %llu, not sent but there %llu, unknown %llu of which there %llu, twice %llu\n", (unsigned long long)missing,
           (unsigned long long)risen, (unsigned long long)unknown, (unsigned long long)unknown_stored, (unsigned long long)twice);
    return missing || risen || tally[REASON_OK] == 0 ? 7 : 0;
}

static void closed(void *arg) { (void)arg, gone = true; }

int main(int argc, char **argv)
{
    int code = 0;
    if (argc < 4)
        return 2;
    open_bus(argv[2], strcmp(argv[1], "pull") == 0 ? str_of(argv[3]) : (struct str){0});
    if (strcmp(argv[1], "send") == 0 && argc == 7) {
        new_topic();
        bench_send((uint32_t)atoi(argv[3]), (size_t)atoi(argv[4]), (uint32_t)atoi(argv[5]), (uint32_t)atoi(argv[6]));
    } else if (strcmp(argv[1], "pull") == 0) {
        snprintf(topic_text, sizeof topic_text, "%s", argv[3]);
        pull_everything();
        mark_and_stay(argc > 4 ? (unsigned)atoi(argv[4]) : 0);
    } else {
        new_topic();
        code = judge((unsigned)atoi(argv[3]));
    }
    rocketmq_close(bus, closed, NULL);
    spin(&gone);
    uv_loop_close(&loop);
    return code;
}

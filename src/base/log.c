/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "json.h"
#include "metric.h"

static _Atomic enum severity least_level = LEVEL_INFO;    /* changed while threads write */
static const char *role;
static int out = STDERR_FILENO;

static const char *const names[] = {"debug", "info", "warn", "error", "fatal"};

void log_level_set(enum severity least) { atomic_store_explicit(&least_level, least, memory_order_relaxed); }
void log_role_set(const char *name) { role = name; }
void log_to(int fd) { out = fd; }

bool log_level_parse(struct str name, enum severity *level)
{
    for (int i = LEVEL_DEBUG; i <= LEVEL_FATAL; i++)
        if (str_eq(name, str_of(names[i]))) {
            *level = (enum severity)i;
            return true;
        }
    return false;
}

/* ---- the writer: a thread that may wait for the reader of the log, so that no loop has to ---- */

enum { WRITER_NONE, WRITER_RUNS, WRITER_LEFT };    /* left: at the end it still waited for the reader, and nothing is written any more */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    pthread_t thread;
    _Atomic int state;
    char *ring;
    size_t begin, len;        /* of the ring */
    bool writing, stop;
    uint64_t untold;          /* lines dropped that no line of the log has told of yet */
} writer = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

#define CHUNK_BYTES 65536

static size_t count_lines(const char *bytes, size_t n)
{
    size_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += bytes[i] == '\n';
    return lines;
}

/* How many of these bytes are whole lines: what is written between two chunks must not tear a line. All of them where no line ends here. */
static size_t whole_lines(const char *bytes, size_t n)
{
    size_t whole = n;
    while (whole > 0 && bytes[whole - 1] != '\n')
        whole--;
    return whole > 0 ? whole : n;
}

/* May wait without end, for the reader; a descriptor that cannot be written (closed, a full disk) costs the lines. */
static void write_out(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(out, bytes, n);
        if (done > 0) {
            bytes += done, n -= (size_t)done;
        } else if (done < 0 && errno == EAGAIN) {    /* somebody else has made it non-blocking */
            struct pollfd room = {.fd = out, .events = POLLOUT};
            poll(&room, 1, 1000);
        } else if (done == 0 || errno != EINTR) {
            metric_add(METRIC_LOG_DROPPED, 0, count_lines(bytes, n));
            return;
        }
    }
}

static void tell_dropped(uint64_t lines)
{
    char text[160];
    struct buf b = buf_fixed(text, sizeof text);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    json_open(&b);
    json_member_time(&b, "ts", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    json_member_text(&b, "level", "warn");
    json_member_text(&b, "event", "log_lines_dropped");
    json_member_u64(&b, "lines", lines);
    json_close(&b);
    buf_add_char(&b, '\n');
    write_out(b.ptr, b.len);
}

static void *run_writer(void *arg)
{
    static char chunk[CHUNK_BYTES];
    (void)arg;
    pthread_mutex_lock(&writer.lock);
    while (!writer.stop || writer.len > 0) {
        while (writer.len == 0 && !writer.stop)
            pthread_cond_wait(&writer.filled, &writer.lock);
        size_t n = writer.len < CHUNK_BYTES ? writer.len : CHUNK_BYTES, first = LOG_RING_BYTES - writer.begin;
        first = first < n ? first : n;
        memcpy(chunk, writer.ring + writer.begin, first);
        memcpy(chunk + first, writer.ring, n - first);
        n = whole_lines(chunk, n);
        uint64_t dropped = writer.untold;
        writer.begin = (writer.begin + n) % LOG_RING_BYTES;
        writer.len -= n;
        writer.untold = 0;
        writer.writing = true;
        pthread_mutex_unlock(&writer.lock);
        write_out(chunk, n);
        if (dropped > 0)
            tell_dropped(dropped);
        pthread_mutex_lock(&writer.lock);
        writer.writing = false;
    }
    pthread_mutex_unlock(&writer.lock);
    return NULL;
}

void log_writer_start(void)
{
    sigset_t all, before;
    check(writer.state == WRITER_NONE);
    writer.ring = malloc(LOG_RING_BYTES);
    writer.stop = false;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);    /* signals are the main loop's */
    int failed = writer.ring ? pthread_create(&writer.thread, NULL, run_writer, NULL) : ENOMEM;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        free(writer.ring);
    else
        writer.state = WRITER_RUNS;
}

/* Looks again every millisecond: it is called at the end, also of a process that has found its own fault, perhaps with the lock held. */
void log_writer_stop(uint32_t ms)
{
    for (uint32_t waited = 0; writer.state == WRITER_RUNS; waited++) {
        if (pthread_mutex_trylock(&writer.lock) == 0) {
            bool done = writer.len == 0 && !writer.writing;
            writer.stop |= done;
            if (done)
                writer.state = WRITER_NONE;
            pthread_cond_signal(&writer.filled);
            pthread_mutex_unlock(&writer.lock);
            if (done) {
                pthread_join(writer.thread, NULL);
                free(writer.ring);
                return;
            }
        }
        if (waited >= ms) {
            writer.state = WRITER_LEFT;    /* its thread ends with the process */
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* False: no writer takes it. */
static bool into_ring(const char *bytes, size_t n)
{
    pthread_mutex_lock(&writer.lock);
    bool runs = writer.state == WRITER_RUNS;
    if (runs && n <= LOG_RING_BYTES - writer.len) {
        size_t at = (writer.begin + writer.len) % LOG_RING_BYTES, first = LOG_RING_BYTES - at;
        first = first < n ? first : n;
        memcpy(writer.ring + at, bytes, first);
        memcpy(writer.ring, bytes + first, n - first);
        writer.len += n;
        pthread_cond_signal(&writer.filled);
    } else if (runs) {
        writer.untold++;
        metric_one(METRIC_LOG_DROPPED);
    }
    pthread_mutex_unlock(&writer.lock);
    return runs;
}

static void write_line(const char *bytes, size_t n)
{
    if (writer.state == WRITER_LEFT || (writer.state == WRITER_RUNS && into_ring(bytes, n)))
        return;
    ssize_t ignored = write(out, bytes, n);    /* a log that cannot be written must not stop anything */
    (void)ignored;
}

void log_write_bounded(int fd, const char *bytes, size_t n, uint32_t ms)
{
    while (n > 0) {
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        size_t piece = n < PIPE_BUF ? n : PIPE_BUF;    /* a pipe that has room has room for that */
        if (poll(&room, 1, (int)ms) <= 0)
            return;
        ssize_t done = write(fd, bytes, piece);
        if (done <= 0 && errno != EINTR)
            return;
        bytes += done > 0 ? done : 0, n -= done > 0 ? (size_t)done : 0;
    }
}

struct log_line log_event(enum severity level, const char *event)
{
    struct log_line l = {.on = level >= atomic_load_explicit(&least_level, memory_order_relaxed)};
    if (!l.on)
        return l;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    l.text = buf_fixed(l.memory, sizeof l.memory - 32);    /* room for the end */
    json_open(&l.text);
    json_member_time(&l.text, "ts", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    json_member_text(&l.text, "level", names[level]);
    if (role)
        json_member_text(&l.text, "role", role);
    json_member_text(&l.text, "event", event);
    return l;
}

/* The struct was copied out of log_event: its text must point at its own memory again. */
static struct buf *text_of(struct log_line *l)
{
    l->text.ptr = l->memory;
    return &l->text;
}

/* A member either fits whole or leaves no trace but the mark at the end. */
#define MEMBER(l, add)                            \
    do {                                          \
        if (!(l)->on || (l)->text.overflow)       \
            return;                               \
        struct buf *b = text_of(l);               \
        size_t before = b->len;                   \
        add;                                      \
        if (b->overflow)                          \
            b->len = before;                      \
    } while (0)

void log_str(struct log_line *l, const char *key, struct str value) { MEMBER(l, json_member_str(b, key, value)); }
void log_text(struct log_line *l, const char *key, const char *value) { MEMBER(l, json_member_text(b, key, value)); }
void log_i64(struct log_line *l, const char *key, int64_t value) { MEMBER(l, json_member_i64(b, key, value)); }
void log_bool(struct log_line *l, const char *key, bool value) { MEMBER(l, json_member_bool(b, key, value)); }

void log_end(struct log_line *l)
{
    if (!l->on)
        return;
    struct buf *b = text_of(l);
    bool cut = b->overflow;
    b->overflow = false;
    b->cap = sizeof l->memory;
    if (cut)
        json_member_bool(b, "cut", true);
    json_close(b);
    buf_add_char(b, '\n');
    write_line(b->ptr, b->len);
    l->on = false;
}

bool log_ration_take(struct log_ration *r, uint64_t now_us, uint32_t a_second)
{
    if (r->since_us == 0 || now_us - r->since_us >= 1000000) {
        r->since_us = now_us > 0 ? now_us : 1;
        r->told = 0;
    }
    bool may = r->told < a_second;
    r->told += may;
    r->untold += !may;
    return may;
}

void log_untold(struct log_line *l, struct log_ration *r)
{
    if (r->untold > 0)
        log_i64(l, "untold", (int64_t)r->untold);
    r->untold = 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * serve.c: `seckill serve`: the roles of one process until SIGTERM. Access runs on threads of its own, `access.threads` of them sharing
 * the port; every other role runs on the main thread's loop, which also hears the signals:
 *   SIGTERM, SIGINT   leave: /readyz fails for drain.delay_ms, in which everything goes on; then drain: nothing new is taken, what is under way is finished,
 *                     drain.timeout_ms at most. Another one ends the delay; one more ends the process at once
 *   SIGHUP            settings are read again; those marked LIVE take effect; a bad file changes nothing */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "descriptors.h"
#include "json.h"
#include "killpoint.h"
#include "listener_lock.h"
#include "roles.h"
#include "verb.h"
#include "version.h"

#define THREADS_MAX 64
#define LOG_LAST_MS 1000     /* for the last lines of the log, at the end */

/* What the process does; it only ever goes on to the next. */
enum stage { STAGE_SERVING, STAGE_LEAVING, STAGE_DRAINING };

struct access_thread {
    uv_thread_t thread;
    uv_loop_t loop;
    uv_async_t stop;              /* from the main thread: the stage is another */
    bool draining;
    struct ports ports;
    struct roles *roles;
    struct serving *serving;
};
struct serving {
    const struct call *call;
    uv_loop_t loop;
    struct ports ports;
    struct roles *roles;          /* of the main loop; NULL: none there */
    bool ports_open;
    struct access_thread *threads;
    size_t thread_count;
    _Atomic size_t threads_ended;
    uv_async_t ended;             /* from a thread: it has ended */
    uv_signal_t term, interrupt, hangup;
    uv_timer_t delay;             /* of drain.delay_ms */
    _Atomic int stage;            /* enum stage */
    bool drained;                 /* the roles of the main loop */
    struct descriptors files;
    int lock;                     /* of the public listener; -1: none */
};

static uint32_t drain_ms(const struct serving *s) { return (uint32_t)s->call->config->drain_timeout_ms; }

/* ---- access threads ------------------------------------------------------------------------------------------------------------------- */

static void thread_drained(void *arg)
{
    struct access_thread *t = arg;
    uv_close((uv_handle_t *)&t->stop, NULL);
    uv_stop(&t->loop);    /* closing must not happen inside a callback of what is closed */
}

static void on_stage(uv_async_t *stop)
{
    struct access_thread *t = container_of(stop, struct access_thread, stop);
    int stage = t->serving->stage;
    if (stage == STAGE_LEAVING)
        roles_leave(t->roles);
    if (stage != STAGE_DRAINING || t->draining)
        return;
    t->draining = true;
    roles_drain(t->roles, drain_ms(t->serving), thread_drained, t);
}

static void thread_run(void *arg)
{
    struct access_thread *t = arg;
    uv_run(&t->loop, UV_RUN_DEFAULT);
    roles_close(t->roles);
    ports_close(&t->ports);
    ports_loop_end(&t->loop);
    t->serving->threads_ended++;
    uv_async_send(&t->serving->ended);
}

/* False, and why: nothing of the thread is left. */
static bool thread_open(struct serving *s, struct access_thread *t, struct buf *complaint)
{
    const struct config *config = s->call->config;
    t->serving = s;
    uv_loop_init(&t->loop);
    uv_async_init(&t->loop, &t->stop, on_stage);
    bool open = ports_open(&t->ports, &t->loop, config, roles_parts(ROLE_ACCESS), complaint);
    if (open)
        t->roles = roles_open(&(struct roles_options){.config = config, .ports = &t->ports, .which = ROLE_ACCESS, .shares_port = true, .clients = s->files.clients}, complaint);
    if (t->roles)
        return true;
    uv_close((uv_handle_t *)&t->stop, NULL);
    if (open)
        ports_close(&t->ports);
    ports_loop_end(&t->loop);
    return false;
}

static bool open_threads(struct serving *s, struct buf *complaint)
{
    size_t wanted = roles_of(s->call->config) & ROLE_ACCESS ? (size_t)s->call->config->access_threads : 0;
    s->threads = calloc(wanted > 0 ? wanted : 1, sizeof *s->threads);
    check(s->threads != NULL && wanted <= THREADS_MAX);
    for (; s->thread_count < wanted; s->thread_count++)
        if (!thread_open(s, &s->threads[s->thread_count], complaint))
            return false;
    return true;
}

static void run_threads(struct serving *s)
{
    for (size_t i = 0; i < s->thread_count; i++) {
        int failed = uv_thread_create(&s->threads[i].thread, thread_run, &s->threads[i]);
        check(failed == 0);
    }
}

/* ---- the end ----------------------------------------------------------------------------------------------------------------------------- */

static void close_signals(struct serving *s)
{
    uv_close((uv_handle_t *)&s->term, NULL);
    uv_close((uv_handle_t *)&s->interrupt, NULL);
    uv_close((uv_handle_t *)&s->hangup, NULL);
    uv_close((uv_handle_t *)&s->ended, NULL);
    uv_close((uv_handle_t *)&s->delay, NULL);
}

static void end_when_all_have(struct serving *s)
{
    if (s->drained && s->threads_ended == s->thread_count)
        uv_stop(&s->loop);
}

static void main_drained(void *arg)
{
    struct serving *s = arg;
    s->drained = true;
    end_when_all_have(s);
}

static void thread_ended(uv_async_t *ended) { end_when_all_have(container_of(ended, struct serving, ended)); }

static void tell_threads(struct serving *s, enum stage stage)
{
    s->stage = stage;
    for (size_t i = 0; i < s->thread_count; i++)
        uv_async_send(&s->threads[i].stop);
}

static void begin_drain(struct serving *s)
{
    struct log_line l = log_event(LEVEL_INFO, "draining");
    log_i64(&l, "timeout_ms", drain_ms(s));
    log_end(&l);
    uv_timer_stop(&s->delay);
    listener_unlock(&s->lock);    /* the next process may come */
    tell_threads(s, STAGE_DRAINING);
    if (s->roles)
        roles_drain(s->roles, drain_ms(s), main_drained, s);
    else
        main_drained(s);
}

static void on_delay(uv_timer_t *delay) { begin_drain(delay->data); }

static void begin_leaving(struct serving *s, const char *signal_name)
{
    int64_t delay_ms = s->call->config->drain_delay_ms;
    struct log_line l = log_event(LEVEL_INFO, "leaving");
    log_text(&l, "signal", signal_name);
    log_i64(&l, "delay_ms", delay_ms);
    log_end(&l);
    tell_threads(s, STAGE_LEAVING);
    if (s->roles)
        roles_leave(s->roles);
    if (delay_ms > 0)
        uv_timer_start(&s->delay, on_delay, (uint64_t)delay_ms, 0);
    else
        begin_drain(s);
}

static void on_end(uv_signal_t *handle, int number)
{
    struct serving *s = handle->data;
    const char *name = number == SIGTERM ? "SIGTERM" : "SIGINT";
    if (s->stage == STAGE_SERVING)
        return begin_leaving(s, name);
    if (s->stage == STAGE_LEAVING)
        return begin_drain(s);
    struct log_line l = log_event(LEVEL_WARN, "ended_at_once");
    log_text(&l, "signal", name);
    log_end(&l);
    log_writer_stop(LOG_LAST_MS / 5);
    _exit(LEAVE_INTERRUPTED);    /* what was under way is found by the janitor */
}

/* ---- settings read again -------------------------------------------------------------------------------------------------------------------- */

static void tell_change(const struct config *now, const struct config *fresh, enum setting s)
{
    char before[512], after[512];
    struct buf a = buf_fixed(before, sizeof before), b = buf_fixed(after, sizeof after);
    if (strcmp(now->from[s].text, fresh->from[s].text) == 0)
        return;
    config_show(now, s, &a);
    config_show(fresh, s, &b);
    struct log_line l = log_event(LEVEL_INFO, "setting_changed");
    log_text(&l, "key", setting_row(s)->key);
    log_str(&l, "from", buf_str(&a));
    log_str(&l, "to", buf_str(&b));
    log_bool(&l, "needs_restart", setting_row(s)->apply == SETTING_RESTART);
    log_end(&l);
}

static void on_hangup(uv_signal_t *handle, int number)
{
    struct serving *s = handle->data;
    struct config fresh;
    struct config_source source = s->call->source;
    struct buf complaints = buf_growing(16 * 1024);
    (void)number;
    source.env = environ;
    if (config_load(&fresh, &source, &complaints) == CONFIG_GOOD) {
        for (unsigned i = 0; i < SETTING_COUNT; i++)
            tell_change(s->call->config, &fresh, (enum setting)i);
        log_level_set(config_log_level(&fresh));
    } else {
        struct log_line l = log_event(LEVEL_ERROR, "settings_refused");
        log_str(&l, "complaints", buf_str(&complaints));
        log_end(&l);
    }
    config_free(&fresh);
    buf_free(&complaints);
}

/* ---- the beginning ---------------------------------------------------------------------------------------------------------------------------- */

static void open_signals(struct serving *s)
{
    signal(SIGPIPE, SIG_IGN);
    uv_async_init(&s->loop, &s->ended, thread_ended);
    uv_timer_init(&s->loop, &s->delay);
    s->delay.data = s;
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    uv_signal_t *const handles[] = {&s->term, &s->interrupt, &s->hangup};
    for (size_t i = 0; i < countof(numbers); i++) {
        uv_signal_init(&s->loop, handles[i]);
        handles[i]->data = s;
        uv_signal_start(handles[i], numbers[i] == SIGHUP ? on_hangup : on_end, numbers[i]);
    }
}

static size_t raise_file_limit(void)
{
    struct rlimit files = {.rlim_cur = 1024};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0)
            getrlimit(RLIMIT_NOFILE, &files);
    }
    return files.rlim_cur < 1000000000 ? (size_t)files.rlim_cur : 1000000000;
}

static bool share_descriptors(struct serving *s, struct buf *complaint)
{
    const struct config *c = s->call->config;
    size_t threads = roles_of(c) & ROLE_ACCESS ? (size_t)c->access_threads : 0, limit = raise_file_limit();
    if (!descriptors_share(limit, threads, (size_t)c->http_connections, &s->files)) {
        buf_add_fmt(complaint, "%zu file descriptors are too few: %zu are kept for the stores and the admin listener; raise the limit (ulimit -n, LimitNOFILE=)", limit,
                    s->files.reserved + s->files.admin);
        return false;
    }
    if (threads == 0 || s->files.clients >= (size_t)c->http_connections)
        return true;
    struct log_line l = log_event(LEVEL_WARN, "connections_limited");
    log_i64(&l, "http_connections", c->http_connections);
    log_i64(&l, "effective", (int64_t)s->files.clients);
    log_i64(&l, "file_descriptors", (int64_t)limit);
    log_end(&l);
    return true;
}

/* Where threads share a port, another process could share it too, without a word. */
static bool lock_listener(struct serving *s, struct buf *complaint)
{
    const struct config *c = s->call->config;
    struct address address;
    if (!(roles_of(c) & ROLE_ACCESS) || !address_parse(str_of(c->http_listen), &address))
        return true;
    int error = listener_lock(&address, c->http_shared, &s->lock);
    if (error != 0)
        buf_add_fmt(complaint, "http.listen: cannot listen at %s: %s", c->http_listen,
                    error == -EADDRINUSE ? "another process listens there (http.shared lets several share it)" : strerror(-error));
    return error == 0;
}

static void tell_start(const struct serving *s)
{
    const struct config *c = s->call->config;
    struct log_line l = log_event(LEVEL_INFO, "started");
    log_text(&l, "version", VERSION_TEXT);
    log_text(&l, "roles", c->roles);
    log_i64(&l, "pid", getpid());
    if (s->thread_count > 0) {
        log_text(&l, "http_listen", c->http_listen);
        log_i64(&l, "http_port", roles_public_port(s->threads[0].roles));
        log_i64(&l, "access_threads", (int64_t)s->thread_count);
    }
    if (s->roles && roles_admin_port(s->roles) != 0)
        log_i64(&l, "admin_port", roles_admin_port(s->roles));
    log_bool(&l, "development_keys", config_development_keys(c));
    log_end(&l);
}

static bool open_main(struct serving *s, struct buf *complaint)
{
    const struct config *c = s->call->config;
    unsigned which = roles_of(c) & ~(unsigned)ROLE_ACCESS;
    if (which == 0 && c->health_listen[0] == 0)
        return true;
    s->ports_open = ports_open(&s->ports, &s->loop, c, roles_parts(roles_of(c)), complaint);
    if (s->ports_open)
        s->roles = roles_open(&(struct roles_options){.config = c, .ports = &s->ports, .which = which, .admin_clients = s->files.admin}, complaint);
    return s->roles != NULL;
}

static void run_until_drained(struct serving *s)
{
    run_threads(s);
    tell_start(s);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    for (size_t i = 0; i < s->thread_count; i++)
        uv_thread_join(&s->threads[i].thread);
}

static void close_threads_never_run(struct serving *s)
{
    for (size_t i = 0; i < s->thread_count; i++) {
        struct access_thread *t = &s->threads[i];
        uv_close((uv_handle_t *)&t->stop, NULL);
        roles_close(t->roles);
        ports_close(&t->ports);
        ports_loop_end(&t->loop);
    }
}

/* Where PostgreSQL does not answer nothing can be judged, and nothing is refused: a ledger that is down delays a sale, it does not stop it. */
static bool may_start(const struct call *c, struct buf *complaint)
{
    char why[512];
    if (!killpoint_arm(getenv("SECKILL_KILL"), getenv("SECKILL_TEST_HOOKS"), complaint))
        return false;
    if (ports_admit(c->config, why) != REASON_CONFLICT)
        return true;
    buf_add_fmt(complaint, "postgresql (postgres.url): %s", why);
    return false;
}

int verb_serve(const struct call *c)
{
    static struct serving s;
    char memory[1024];
    struct buf complaint = buf_fixed(memory, sizeof memory);
    if (!may_start(c, &complaint))
        return call_failed(c, LEAVE_REFUSED, STR_FMT, STR_ARG(buf_str(&complaint)));
    s.call = c;
    s.lock = -1;
    log_role_set(c->config->roles);
    log_writer_start();
    uv_loop_init(&s.loop);
    open_signals(&s);
    bool good = share_descriptors(&s, &complaint) && lock_listener(&s, &complaint) && open_threads(&s, &complaint) && open_main(&s, &complaint);
    if (good)
        run_until_drained(&s);
    else
        close_threads_never_run(&s);
    if (s.roles)
        roles_close(s.roles);
    if (s.ports_open)
        ports_close(&s.ports);
    close_signals(&s);
    ports_loop_end(&s.loop);
    free(s.threads);
    listener_unlock(&s.lock);
    if (good) {
        struct log_line l = log_event(LEVEL_INFO, "stopped");
        log_end(&l);
    }
    log_writer_stop(LOG_LAST_MS);
    return good ? LEAVE_DONE : call_failed(c, LEAVE_FAILED, STR_FMT, STR_ARG(buf_str(&complaint)));
}

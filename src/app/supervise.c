/* SPDX-License-Identifier: Apache-2.0
 * supervise.c: keeps a handful of processes alive for `make run`, where no systemd does.
 *
 * The file has a process a line: a name, blanks, a command as a shell would read it. What dies is started again after 0.1 s, then
 * 0.2, up to 5 s, and from 0.1 s again once it has lived ten seconds; each death is told with its cause and the end of its log.
 * SIGTERM or SIGINT asks every process to drain (SIGTERM) and waits for --grace; a second one, or the end of the grace, kills.
 * SIGHUP is passed on.
 *
 * No promise rests on this process living: a child whose supervisor vanishes gets SIGTERM from the kernel and drains. Orphans of
 * children come to us (subreaper) and are reaped. It needs no event loop: the only things that happen are signals and time.
 *
 * DIR of --state holds NAME.pid: number, birth (clock ticks since boot, field 22 of /proc/N/stat), and a dash, as tools/lib.sh reads it;
 * DIR of --logs holds NAME.log and supervisor.log. A log that has grown past LOG_BYTES_MAX begins anew. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "buf.h"
#include "check.h"
#include "log.h"
#include "verb.h"

#define CHILDREN_MAX 64
#define NAME_BYTES 32
#define FILE_BYTES_MAX (64 * 1024)
#define BACKOFF_MS_MIN 100
#define BACKOFF_MS_MAX 5000
#define STEADY_MS 10000              /* lived so long: the next death is a new story */
#define LOG_BYTES_MAX (256 * 1024 * 1024)
#define LOG_CHECK_MS 30000
#define TOLD_LINES 5

struct child {
    char name[NAME_BYTES];
    const char *command;             /* into supervisor.text */
    pid_t pid;                       /* 0: not running */
    int64_t started_ms, due_ms;      /* due: when to start it, while it does not run */
    int64_t backoff_ms;
    off_t log_from;                  /* where this life begins in its log */
};

struct supervisor {
    struct child children[CHILDREN_MAX];
    size_t count;
    char text[FILE_BYTES_MAX + 1];
    const char *state, *logs;
    int64_t grace_ms;
    int log_fd;
    bool stopping;
    int64_t kill_ms, log_check_ms;
    sigset_t heard, outer;
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void put(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return;    /* nobody listens any more; the children matter more */
        text += done, n -= (size_t)done;
    }
}

/* To standard error, and with the time of day to supervisor.log. */
static void tell(const struct supervisor *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(const struct supervisor *s, const char *format, ...)
{
    char memory[8192], day[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%SZ ", gmtime_r(&now, &utc));
    va_list args;
    va_start(args, format);
    int n = vsnprintf(memory, sizeof memory - 1, format, args);
    va_end(args);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof memory - 2 ? (size_t)n : sizeof memory - 2;
    memory[length++] = '\n';
    log_write_bounded(STDERR_FILENO, "supervisor: ", 12, 0);    /* it may be a pipe that nobody reads: the children matter more */
    log_write_bounded(STDERR_FILENO, memory, length, 0);
    put(s->log_fd, day, strlen(day));
    put(s->log_fd, memory, length);
}

static int open_in(const char *dir, const char *name, const char *suffix, int flags)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s%s", dir, name, suffix) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, flags | O_CLOEXEC, 0600);
}

/* ---- the file ---- */

/* One line, cut in place; false if it is neither a process nor a comment. */
static bool child_read(struct supervisor *s, char *line)
{
    line += strspn(line, " \t");
    size_t name = strcspn(line, " \t"), gap = strspn(line + name, " \t");
    if (*line == '#' || *line == '\0')
        return true;
    if (!str_is_id((struct str){line, name}) || name >= NAME_BYTES || line[name + gap] == '\0' || s->count == CHILDREN_MAX)
        return false;
    struct child *c = &s->children[s->count];
    *c = (struct child){.command = line + name + gap, .backoff_ms = BACKOFF_MS_MIN};
    memcpy(c->name, line, name);
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->children[i].name, c->name) == 0)
            return false;
    s->count++;
    return true;
}

static int children_read(struct supervisor *s, const struct call *call, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, s->text, FILE_BYTES_MAX);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return call_failed(call, LEAVE_CONFIG, "%s: %s", path, strerror(errno));
    s->text[n] = '\0';
    int number = 1;
    for (char *line = s->text, *next; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (!child_read(s, line))
            return call_failed(call, LEAVE_CONFIG, "%s:%d: expected a name of its own (letters, digits, _ and -, 31 at most) and a command; %d lines at most",
                                           path, number, CHILDREN_MAX);
    }
    return s->count ? LEAVE_DONE : call_failed(call, LEAVE_CONFIG, "%s names no process", path);
}

/* ---- a life ---- */

static unsigned long long birth_of(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    char *field = strrchr(text, ')');    /* the name before it may hold anything; field 3 follows */
    for (int i = 2; field && i < 22; i++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

static void pid_write(const struct supervisor *s, const struct child *c)
{
    char path[PATH_MAX], fresh[PATH_MAX];
    int fd = open_in(s->state, c->name, ".pid.new", O_WRONLY | O_CREAT | O_TRUNC);
    if (fd < 0) {
        tell(s, "%s: no pid file in %s: %s", c->name, s->state, strerror(errno));
        return;
    }
    dprintf(fd, "%d %llu -\n", (int)c->pid, birth_of(c->pid));
    close(fd);
    int a = snprintf(path, sizeof path, "%s/%s.pid", s->state, c->name), b = snprintf(fresh, sizeof fresh, "%s/%s.pid.new", s->state, c->name);
    check(a > 0 && b > 0 && b < PATH_MAX);    /* open_in has measured it */
    if (rename(fresh, path) != 0)
        tell(s, "%s: no pid file in %s: %s", c->name, s->state, strerror(errno));
}

static void pid_drop(const struct supervisor *s, const struct child *c)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s.pid", s->state, c->name) < (int)sizeof path)
        unlink(path);
}

/* In the child: a session of its own, so that a Ctrl-C on the terminal is ours to pass on. */
_Noreturn static void become(const struct supervisor *s, const struct child *c, int log, pid_t parent)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(0);
    int null = open("/dev/null", O_RDONLY);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
        _exit(126);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
    sigprocmask(SIG_SETMASK, &s->outer, NULL);
    char command[FILE_BYTES_MAX + 8];
    snprintf(command, sizeof command, "exec %s", c->command);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static void child_delay(struct child *c, int64_t now)
{
    c->due_ms = now + c->backoff_ms;
    c->backoff_ms = c->backoff_ms * 2 < BACKOFF_MS_MAX ? c->backoff_ms * 2 : BACKOFF_MS_MAX;
}

static void child_start(struct supervisor *s, struct child *c, int64_t now)
{
    int log = open_in(s->logs, c->name, ".log", O_RDWR | O_CREAT | O_APPEND);
    pid_t parent = getpid(), pid = log < 0 ? -1 : fork();
    if (pid == 0)
        become(s, c, log, parent);
    if (pid < 0) {
        child_delay(c, now);
        tell(s, "%s cannot be started: %s; again in %.1f s", c->name, strerror(errno), (double)(c->due_ms - now) / 1000);
    } else {
        c->pid = pid;
        c->started_ms = now;
        c->log_from = lseek(log, 0, SEEK_END);
        pid_write(s, c);
    }
    if (log >= 0)
        close(log);
}

/* ---- a death ---- */

static void describe(struct buf *b, int status)
{
    static const char *const meanings[] = {"by its own will", "failure", "usage", "bad settings", "a part it needs does not answer",
                                           "refused by a safety rule", "", "a rule that may never break is broken"};
    if (WIFSIGNALED(status)) {
        buf_add_fmt(b, "was killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
        return;
    }
    size_t code = (size_t)WEXITSTATUS(status);
    const char *meaning = code < countof(meanings) ? meanings[code] : code == 127 ? "no such program" : "";
    buf_add_fmt(b, "ended with code %zu%s%s%s", code, *meaning ? " (" : "", meaning, *meaning ? ")" : "");
}

/* The last lines that this life wrote, each indented on a line of its own. */
static void log_tail(const struct supervisor *s, const struct child *c, struct buf *b)
{
    char text[4096];
    int fd = open_in(s->logs, c->name, ".log", O_RDONLY);
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END), from = end - (off_t)sizeof text;
    if (from < c->log_from)
        from = c->log_from < end ? c->log_from : end;
    ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof text, from);
    if (fd >= 0)
        close(fd);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    if (n <= 0)
        return;
    ssize_t at = n, lines = 0;
    while (at > 0 && (text[at - 1] != '\n' || ++lines < TOLD_LINES))
        at--;
    buf_add_fmt(b, "; the end of %s/%s.log:", s->logs, c->name);
    for (const char *p = text + at, *stop = text + n; p < stop;) {
        const char *eol = memchr(p, '\n', (size_t)(stop - p));
        eol = eol ? eol : stop;
        buf_add_fmt(b, "\n    %.*s", (int)(eol - p), p);
        p = eol + 1;
    }
}

static void child_died(struct supervisor *s, struct child *c, int status, int64_t now)
{
    char memory[6144], end[5120];
    struct buf b = buf_fixed(memory, sizeof memory - 1), tail = buf_fixed(end, sizeof end - 1);
    describe(&b, status);
    bool calm = s->stopping && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    double lived = (double)(now - c->started_ms) / 1000;
    if (now - c->started_ms >= STEADY_MS)
        c->backoff_ms = BACKOFF_MS_MIN;
    if (!calm)
        log_tail(s, c, &tail);
    int pid = (int)c->pid;
    c->pid = 0;
    pid_drop(s, c);
    if (calm)
        return;
    if (s->stopping) {
        tell(s, "%s (process %d) " STR_FMT " while it was stopped" STR_FMT, c->name, pid, STR_ARG(buf_str(&b)), STR_ARG(buf_str(&tail)));
        return;
    }
    child_delay(c, now);
    tell(s, "%s (process %d) " STR_FMT " after %.1f s; started again in %.1f s" STR_FMT, c->name, pid, STR_ARG(buf_str(&b)), lived,
         (double)(c->due_ms - now) / 1000, STR_ARG(buf_str(&tail)));
}

static void reap(struct supervisor *s, int64_t now)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < s->count; i++)
            if (s->children[i].pid == pid)
                child_died(s, &s->children[i], status, now);
}

/* ---- the day ---- */

static void signal_all(const struct supervisor *s, int signal)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].pid > 0)
            kill(s->children[i].pid, signal);
}

static size_t living(const struct supervisor *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        n += s->children[i].pid > 0;
    return n;
}

static void stop(struct supervisor *s, int64_t now)
{
    if (s->stopping) {
        tell(s, "asked again: killing what still drains");
        s->kill_ms = now;
        return;
    }
    tell(s, "stopping: each process finishes what it has in hand");
    s->stopping = true;
    s->kill_ms = now + s->grace_ms;
    signal_all(s, SIGTERM);
}

static void logs_bound(struct supervisor *s, int64_t now)
{
    if (now < s->log_check_ms)
        return;
    s->log_check_ms = now + LOG_CHECK_MS;
    for (size_t i = 0; i < s->count; i++) {
        struct child *c = &s->children[i];
        int fd = open_in(s->logs, c->name, ".log", O_WRONLY | O_APPEND);
        struct stat st;
        if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > LOG_BYTES_MAX && ftruncate(fd, 0) == 0) {
            c->log_from = 0;
            tell(s, "%s.log was %lld MB and begins anew", c->name, (long long)st.st_size / (1024 * 1024));
        }
        if (fd >= 0)
            close(fd);
    }
}

/* What time asks for; how long nothing will be asked. */
static int64_t work(struct supervisor *s, int64_t now)
{
    logs_bound(s, now);
    int64_t next = s->log_check_ms;
    if (s->stopping) {
        if (now >= s->kill_ms) {
            if (living(s))
                tell(s, "killing what has not drained");
            signal_all(s, SIGKILL);
            s->kill_ms = now + 1000;
        }
        return s->kill_ms < next ? s->kill_ms - now : next - now;
    }
    for (size_t i = 0; i < s->count; i++) {
        struct child *c = &s->children[i];
        if (c->pid == 0 && now >= c->due_ms)
            child_start(s, c, now);
        if (c->pid == 0 && c->due_ms < next)
            next = c->due_ms;
    }
    return next > now ? next - now : 0;
}

static void run(struct supervisor *s)
{
    while (!s->stopping || living(s)) {
        int64_t wait_ms = work(s, now_ms());
        struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};
        int got = sigtimedwait(&s->heard, NULL, &wait);
        if (got == SIGTERM || got == SIGINT)
            stop(s, now_ms());
        else if (got == SIGHUP)
            signal_all(s, SIGHUP);
        reap(s, now_ms());
    }
}

/* Blocked signals are asked for one by one in run(); children get the mask and the manners we were born with. */
static void signals_take(struct supervisor *s)
{
    static const int mine[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
    sigemptyset(&s->heard);
    for (size_t i = 0; i < countof(mine); i++) {
        signal(mine[i], SIG_DFL);    /* a shell's background ignores SIGINT, and we would never hear it */
        sigaddset(&s->heard, mine[i]);
    }
    sigprocmask(SIG_BLOCK, &s->heard, &s->outer);
    for (size_t i = 0; i < countof(mine); i++)
        sigdelset(&s->outer, mine[i]);
    signal(SIGPIPE, SIG_IGN);
}

int verb_supervise(const struct call *call)
{
    static struct supervisor s;    /* one per process, and too large for the stack */
    if (call->argument_count != 1)
        return call_misused(call, "which file?");
    s = (struct supervisor){.state = call_text(call, "state"), .logs = call_text(call, "logs"), .grace_ms = call_number(call, "grace") * 1000};
    int leave = children_read(&s, call, call->arguments[0]);
    if (leave != LEAVE_DONE)
        return leave;
    s.log_fd = open_in(s.logs, "supervisor", ".log", O_WRONLY | O_CREAT | O_APPEND);
    if (s.log_fd < 0)
        return call_failed(call, LEAVE_FAILED, "no log in %s: %s", s.logs, strerror(errno));
    if (access(s.state, W_OK) != 0)
        return call_failed(call, LEAVE_FAILED, "%s: %s", s.state, strerror(errno));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signals_take(&s);
    run(&s);
    tell(&s, "stopped");
    close(s.log_fd);
    return LEAVE_DONE;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "killpoint.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SOON_NS_LEAST 100000
#define SOON_NS_RANGE 1900000

enum when { NOW, SOON };
static const struct {
    const char *name;
    enum when when;
} rows[] = {
#define POINT(name, roles, when, stands, ends) {#name, when},
#include "killpoint.def"
#undef POINT
};

enum killpoint killpoint_armed = KILLPOINT_COUNT;
static _Atomic long passes_left;

static void say(void)
{
    char memory[160];
    struct buf b = buf_fixed(memory, sizeof memory);
    buf_add_fmt(&b, "{\"level\":\"fatal\",\"event\":\"killpoint\",\"point\":\"%s\",\"pid\":%d}\n", rows[killpoint_armed].name, (int)getpid());
    ssize_t done = write(STDERR_FILENO, b.ptr, b.len);
    (void)done;    /* nobody hears it: the test will say so */
}

/* The kernel's own clock kills, wherever the loop is by then; another moment in each process. */
static void die_soon(void)
{
    struct sigevent kills = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long wait_ns = SOON_NS_LEAST + (now.tv_nsec / 1000 * 7919 + getpid()) % SOON_NS_RANGE;
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &kills, &timer) != 0 || timer_settime(timer, 0, &(struct itimerspec){.it_value = {.tv_nsec = wait_ns}}, NULL) != 0)
        kill(getpid(), SIGKILL);
}

void killpoint_passed(void)
{
    if (atomic_fetch_sub(&passes_left, 1) != 1)
        return;
    say();
    if (rows[killpoint_armed].when == SOON) {
        die_soon();
        return;
    }
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

bool killpoint_arm(const char *kill_at, const char *hooks, struct buf *complaint)
{
    if (!kill_at || !*kill_at)
        return true;
    if (!hooks || strcmp(hooks, "1") != 0) {
        buf_add_fmt(complaint, "SECKILL_KILL is for tests only: it is refused without SECKILL_TEST_HOOKS=1");
        return false;
    }
    struct str text = str_of(kill_at), name = text;
    int64_t passes = 1;
    const char *colon = strchr(kill_at, ':');
    if (colon)
        name = str_range(kill_at, colon);
    bool good = !colon || (str_to_i64(str_of(colon + 1), &passes) && passes >= 1 && passes <= 1000000000);
    for (size_t i = 0; good && i < KILLPOINT_COUNT; i++)
        if (str_eq(name, str_of(rows[i].name))) {
            passes_left = (long)passes;
            killpoint_armed = (enum killpoint)i;
            return true;
        }
    buf_add_fmt(complaint, "SECKILL_KILL: \"%s\" is not NAME[:N] with a name of docs/reference/killpoints.md", kill_at);
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "load_crew.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "await.h"
#include "check.h"

#define DESCRIPTORS_OWN 64    /* of a process, beside its connections */
#define ONE_ADDRESS_CONNECTIONS 20000    /* a process beyond that calls from a loopback address of its own: one address has some 28,000 ports */

struct load_shared {
    uint32_t ready, stop;         /* how many are; set: no more */
    uint64_t start_us;            /* 0: not yet */
    struct load_stats stats[];
};
static size_t shared_size(unsigned count) { return sizeof(struct load_shared) + count * sizeof(struct load_stats); }

static void raise_descriptors(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        (void)!setrlimit(RLIMIT_NOFILE, &l);
    }
}

bool load_crew_fits(const struct load_scenario *s, unsigned *count, struct buf *why)
{
    struct rlimit l = {.rlim_max = 1024};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned n = s->processes ? (unsigned)s->processes : cores > 0 ? (unsigned)cores : 1;
    n = n < LOAD_CREW_MAX ? n : LOAD_CREW_MAX;
    size_t each = ((size_t)s->connections + n - 1) / n;
    *count = n;
    getrlimit(RLIMIT_NOFILE, &l);
    if (each > LOAD_CONNECTIONS_MOST)
        buf_add_fmt(why, "generator.connections: %zu for each of %u processes; 18,000 are the most (generator.processes)", each, n);
    else if (each + DESCRIPTORS_OWN > l.rlim_max)
        buf_add_fmt(why, "generator.connections: %zu for each of %u processes; a process may have %zu descriptors here (ulimit -n)", each, n, (size_t)l.rlim_max);
    return why->len == 0;
}

/* What one process does, from the fork to its end. */
static _Noreturn void work(struct load_shared *shared, const struct load_people_options *options)
{
    uv_loop_t loop;
    uint64_t start;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);    /* a Ctrl-C is told by the one who started us */
    signal(SIGTERM, SIG_IGN);
    raise_descriptors();
    uv_loop_init(&loop);
    struct load_people *people = load_people_new(&loop, options);
    load_people_connect(people);
    __atomic_add_fetch(&shared->ready, 1, __ATOMIC_RELEASE);
    while ((start = __atomic_load_n(&shared->start_us, __ATOMIC_ACQUIRE)) == 0 && __atomic_load_n(&shared->stop, __ATOMIC_RELAXED) == 0)
        await_ms(&loop, 5);
    if (start != 0)
        load_people_run(people, start);
    load_people_free(people);
    _exit(0);
}

bool load_crew_start(struct load_crew *crew, unsigned count, const struct load_people_options *common)
{
    check(count >= 1 && count <= LOAD_CREW_MAX);
    *crew = (struct load_crew){0};
    crew->shared = mmap(NULL, shared_size(count), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (crew->shared == MAP_FAILED) {
        crew->shared = NULL;
        return false;
    }
    crew->count = count;
    pid_t self = getpid();
    for (unsigned i = 0; i < count; i++) {
        struct load_people_options o = *common;
        o.part = i;
        o.parts = count;
        o.stats = &crew->shared->stats[i];
        o.stop = &crew->shared->stop;
        o.source = i > 0 && common->scenario->connections > ONE_ADDRESS_CONNECTIONS ? 0x7f000001 + i : 0;
        pid_t pid = fork();
        if (pid == 0) {
            if (getppid() != self)
                _exit(1);
            work(crew->shared, &o);
        }
        if (pid < 0) {
            load_crew_free(crew);
            return false;
        }
        crew->pids[i] = pid;
        crew->running++;
    }
    return true;
}

bool load_crew_ready(const struct load_crew *crew) { return __atomic_load_n(&crew->shared->ready, __ATOMIC_ACQUIRE) == crew->count; }
void load_crew_go(struct load_crew *crew, uint64_t start_us) { __atomic_store_n(&crew->shared->start_us, start_us, __ATOMIC_RELEASE); }
void load_crew_stop(struct load_crew *crew) { __atomic_store_n(&crew->shared->stop, 1, __ATOMIC_RELAXED); }

bool load_crew_over(struct load_crew *crew)
{
    for (unsigned i = 0; i < crew->count; i++) {
        int status = 0;
        if (crew->pids[i] == 0 || waitpid(crew->pids[i], &status, WNOHANG) != crew->pids[i])
            continue;
        crew->pids[i] = 0;
        crew->running--;
        crew->broken |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return crew->running == 0;
}

void load_crew_sum(const struct load_crew *crew, struct load_stats *into)
{
    memset(into, 0, sizeof *into);
    for (unsigned i = 0; i < crew->count; i++)
        load_stats_merge(into, &crew->shared->stats[i]);
}

void load_crew_free(struct load_crew *crew)
{
    for (unsigned i = 0; i < crew->count; i++)
        if (crew->pids[i] > 0) {
            kill(crew->pids[i], SIGKILL);
            waitpid(crew->pids[i], NULL, 0);
        }
    if (crew->shared)
        munmap(crew->shared, shared_size(crew->count));
    *crew = (struct load_crew){0};
}

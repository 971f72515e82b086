/* SPDX-License-Identifier: Apache-2.0
 * sim.c: `seckill sim SEED`: the sale imagined, with everything that may go wrong (trial.h). A seed that breaks a rule is printed with the one
 * command that shows it again. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "json.h"
#include "log.h"
#include "trial.h"
#include "verb.h"

#define FAILURES_SHOWN 20

static volatile uint64_t running;    /* for the last words of a process whose own check failed */

static void last_words(int number)
{
    char text[96];
    int n = snprintf(text, sizeof text, "\nseckill sim: it stopped in seed %llu; again: seckill sim %llu --trace\n", (unsigned long long)running, (unsigned long long)running);
    ssize_t written = write(STDERR_FILENO, text, (size_t)n);
    (void)written;
    signal(number, SIG_DFL);
    raise(number);
}

struct total {
    uint64_t seeds, failed, lost, steps, calls, faults, deaths, troubles, virtual_ms, hash, reserved, ordered, released;
    struct { uint64_t seed; char rule[32], what[TRIAL_LINE]; } failures[FAILURES_SHOWN];
};

static void add(struct total *t, uint64_t seed, const struct trial_result *r)
{
    if (r->broken && t->failed < FAILURES_SHOWN) {
        t->failures[t->failed].seed = seed;
        memcpy(t->failures[t->failed].rule, r->rule, sizeof r->rule);
        memcpy(t->failures[t->failed].what, r->what, sizeof r->what);
    }
    t->seeds++, t->failed += r->broken, t->lost += r->lost;
    t->steps += r->steps, t->calls += r->calls, t->faults += r->faults, t->deaths += r->deaths, t->troubles += r->troubles;
    t->virtual_ms += r->virtual_ms, t->reserved += r->reserved, t->ordered += r->ordered, t->released += r->released;
    t->hash = (t->hash ^ r->hash) * 0x100000001b3u;
}

static void print_table(const struct total *t, double seconds)
{
    printf("seeds       %llu, %llu of them with a Redis that forgot; %llu broke a rule\n", (unsigned long long)t->seeds, (unsigned long long)t->lost,
           (unsigned long long)t->failed);
    printf("happened    %llu calls, %llu faults of calls, %llu troubles, %llu deaths, in %.1f virtual hours and %.1f s\n", (unsigned long long)t->calls,
           (unsigned long long)t->faults, (unsigned long long)t->troubles, (unsigned long long)t->deaths, (double)t->virtual_ms / 3600000, seconds);
    printf("sold        %llu reservations, %llu ordered, %llu released\n", (unsigned long long)t->reserved, (unsigned long long)t->ordered, (unsigned long long)t->released);
    printf("trace hash  %016llx\n", (unsigned long long)t->hash);
}

static void print_json(const struct total *t, double seconds)
{
    const struct { const char *key; uint64_t value; } numbers[] = {
        {"seeds", t->seeds}, {"failed", t->failed}, {"forgetful", t->lost}, {"steps", t->steps}, {"calls", t->calls}, {"faults", t->faults}, {"deaths", t->deaths},
        {"troubles", t->troubles}, {"virtual_ms", t->virtual_ms}, {"reserved", t->reserved}, {"ordered", t->ordered}, {"released", t->released}};
    printf("{");
    for (size_t i = 0; i < countof(numbers); i++)
        printf("\"%s\":%llu,", numbers[i].key, (unsigned long long)numbers[i].value);
    printf("\"seconds\":%.3f,\"hash\":\"%016llx\",\"failures\":[", seconds, (unsigned long long)t->hash);
    for (size_t i = 0; i < t->failed && i < FAILURES_SHOWN; i++)
        printf("%s{\"seed\":%llu,\"rule\":\"%s\",\"what\":\"%s\"}", i ? "," : "", (unsigned long long)t->failures[i].seed, t->failures[i].rule, t->failures[i].what);
    printf("]}\n");
}

static void print_lines(struct trial_result *r)
{
    for (size_t i = 0; i < r->line_count; i++)
        fprintf(stderr, "%s\n", r->lines[i]);
    free(r->lines);
}

/* The same trial once more, this time with its events. */
static void show(const struct call *c, struct trial_options o, const struct trial_result *first)
{
    struct trial_result again;
    const char *about = call_text(c, "about");
    o.lines = (size_t)call_number(c, "last");
    o.about = about[0] ? about : NULL;
    trial_run(&o, &again);
    print_lines(&again);
    check(again.hash == first->hash);    /* the same seed is the same trial */
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int verb_sim(const struct call *c)
{
    uint64_t seed = 1, seeds = (uint64_t)call_number(c, "seeds");
    if (c->argument_count > 1 || (c->argument_count == 1 && !str_to_u64(str_of(c->arguments[0]), &seed)))
        return call_misused(c, "takes one seed, a number");
    log_level_set(LEVEL_FATAL);
    signal(SIGABRT, last_words);
    signal(SIGSEGV, last_words);
    static struct total total;
    double began = now_s(), most = (double)call_number(c, "budget");
    for (uint64_t i = 0; i < seeds; i++) {
        struct trial_options o = {.seed = seed + i, .steps = (uint64_t)call_number(c, "steps")};
        struct trial_result r;
        running = o.seed;
        trial_run(&o, &r);
        add(&total, o.seed, &r);
        if (r.broken)
            fprintf(stderr, "seed %llu broke %s: %s\n  again: %s sim %llu --trace\n", (unsigned long long)o.seed, r.rule, r.what, c->program, (unsigned long long)o.seed);
        if (call_switch(c, "trace"))
            show(c, o, &r);
        if (total.failed >= FAILURES_SHOWN || (most > 0 && now_s() - began > most))
            break;
    }
    if (c->json)
        print_json(&total, now_s() - began);
    else
        print_table(&total, now_s() - began);
    return total.failed ? LEAVE_BROKEN : LEAVE_DONE;
}

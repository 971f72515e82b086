/* SPDX-License-Identifier: Apache-2.0
 * main.c: finds the verb, reads flags and settings, and gives the rest to the verb's own file. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "check.h"
#include "help.h"
#include "suggest.h"
#include "verb.h"

static int no_such_verb(const char *typed)
{
    struct suggest nearest = {.typed = str_of(typed)};
    for (unsigned v = 0; v < VERB_COUNT; v++)
        suggest_offer(&nearest, verb_row((enum verb)v)->name);
    fprintf(stderr, "seckill: there is no verb \"%s\"", typed);
    if (nearest.best)
        fprintf(stderr, "; did you mean \"%s\"?", nearest.best);
    fputs("\nSee `seckill help`.\n", stderr);
    return LEAVE_USAGE;
}

/* Where nothing answered, no address was set, and a sale of `make run` has written its addresses down here: that they were not read is the likely cause. */
static void hint_at_environment(const struct config *config, int leave)
{
    static const enum setting addresses[] = {SETTING_http_listen, SETTING_admin_listen, SETTING_redis_url, SETTING_postgres_url, SETTING_rocketmq_namesrv};
    for (size_t i = 0; i < countof(addresses); i++)
        if (config->from[addresses[i]].origin != ORIGIN_DEFAULT)
            return;
    if (leave == LEAVE_UNREACHABLE && access(".run/env", R_OK) == 0)
        fputs("The addresses of the sale that `make run` started stand in .run/env: `. .run/env`, then this command again.\n", stderr);
}

static int run_with_settings(struct call *c, struct buf *complaints)
{
    struct config config;
    enum config_result result = config_load(&config, &c->source, complaints);
    int leave;
    if (result == CONFIG_GOOD) {
        c->config = &config;
        bool talks = c->verb != VERB_serve && config.from[SETTING_log_level].origin == ORIGIN_DEFAULT;    /* to a person, not to a collector of logs */
        log_level_set(talks ? LEVEL_ERROR : config_log_level(&config));
        leave = verb_row(c->verb)->run(c);
        hint_at_environment(&config, leave);
    } else {
        fprintf(stderr, STR_FMT "See `seckill check-config`.\n", STR_ARG(buf_str(complaints)));
        leave = result == CONFIG_UNSAFE ? LEAVE_REFUSED : LEAVE_CONFIG;
    }
    config_free(&config);
    return leave;
}

/* The column of spec/verb.def: as many words as it has. */
static size_t arguments_most(const struct verb_row *row)
{
    size_t words = row->arguments[0] != 0;
    for (const char *at = row->arguments; *at; at++)
        words += *at == ' ';
    return words;
}

static int run(struct call *c, int argc, char **argv)
{
    struct buf complaints = buf_growing(64 * 1024);
    bool help = false, good = args_read(c, argc, argv, &help, &complaints);
    int leave = LEAVE_DONE;
    if (help) {
        help_verb(stdout, c->verb);
    } else if (!good) {
        fprintf(stderr, STR_FMT "See `seckill help %s`.\n", STR_ARG(buf_str(&complaints)), verb_row(c->verb)->name);
        leave = LEAVE_USAGE;
    } else if (c->argument_count > arguments_most(verb_row(c->verb))) {
        leave = call_misused(c, "takes no argument \"%s\"", c->arguments[arguments_most(verb_row(c->verb))]);
    } else if (verb_row(c->verb)->reads_settings) {
        c->source.env = environ;
        leave = run_with_settings(c, &complaints);
    } else {
        leave = verb_row(c->verb)->run(c);
    }
    buf_free(&complaints);
    return leave;
}

/* Whoever starts us without descriptors 0 to 2 would have the next sockets and files take their numbers, and be written to by whatever writes to
 * standard error. Opened the wrong way round, so that a read or write is an error, and not a success that does nothing. */
static void open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            _exit(LEAVE_FAILED);
}

int main(int argc, char **argv)
{
    open_standard_descriptors();
    signal(SIGUSR1, SIG_IGN);    /* not used; by default they would end the process */
    signal(SIGUSR2, SIG_IGN);
    struct call c = {.program = argv[0]};
    if (argc < 2) {
        help_all(stderr);
        return LEAVE_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        word = "help";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-v") == 0)
        word = "version";
    if (!verb_find(str_of(word), &c.verb))
        return no_such_verb(word);
    int leave = run(&c, argc - 2, argv + 2);
    if (fflush(stdout) != 0 && leave == LEAVE_DONE) {
        fputs("seckill: standard output could not be written\n", stderr);
        leave = LEAVE_FAILED;
    }
    return leave;
}

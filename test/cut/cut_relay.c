/* SPDX-License-Identifier: Apache-2.0
 * cut_relay.c: the cutting relay as a program of its own, between whole processes and an engine.
 *
 *   cut_relay [-r OLD:NEW] LISTEN TARGET [SEED EVERY [CUT...]] < commands
 *
 * LISTEN and TARGET are HOST:PORT or unix:PATH. It prints `listening PORT`. With -r an answer that names
 * 127.0.0.1:OLD names port NEW instead, both of five digits: so a name server sends us to the relay of its broker. With a SEED it cuts by
 * itself: about every EVERY requests (0: only when told `rough`) one of the CUTs named (all, where none is), and heals 20 to 400 ms later;
 * the same seed draws the same cuts at the same requests. Commands come on standard input, one a line, and each is answered by a line;
 * at its end the relay goes:
 *
 *   arm CUT [MS]    the next request meets it            heal    what is held goes through, nothing is armed
 *   down            every connection is closed, new ones too        up      new ones are let through
 *   rough EVERY     from now on it cuts by itself        calm    no more, and heals (so does SIGUSR1)
 *   count           requests and cuts so far */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cut.h"

static struct cut_relay *relay;
static uint64_t chance, every, next_cut, cuts;
static enum cut kinds[CUT_COUNT];
static size_t kind_count;
static uv_timer_t look, healing;
static uv_pipe_t commands;
static uv_signal_t enough;
static char line[256];
static size_t line_len;

static char renamed[2][6];

static void rename_ports(void *arg, char *bytes, size_t size)
{
    (void)arg;
    char mark[32];
    size_t n = (size_t)snprintf(mark, sizeof mark, "127.0.0.1:%s", renamed[0]);
    for (char *at = bytes; (at = memmem(at, size - (size_t)(at - bytes), mark, n)); at += n)
        memcpy(at + n - 5, renamed[1], 5);
}

static uint64_t draw(void)
{
    uint64_t z = chance += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void heal(uv_timer_t *timer)
{
    (void)timer;
    cut_heal(relay);
    next_cut = cut_requests(relay) + 1 + draw() % (2 * every);
}

/* Armed when so many requests have gone by; the one after that meets it. */
static void looks(uv_timer_t *timer)
{
    (void)timer;
    if (uv_is_active((uv_handle_t *)&healing) || cut_requests(relay) < next_cut)
        return;
    enum cut cut = kinds[draw() % kind_count];
    uint32_t late = (uint32_t)(draw() % 200);
    cut_arm(relay, cut, late);
    cuts++;
    printf("cut %s after %llu\n", cut_name(cut), (unsigned long long)cut_requests(relay));
    uv_timer_start(&healing, heal, 20 + draw() % 380, 0);
}

static void calm_down(uv_signal_t *signal, int number)
{
    (void)signal, (void)number;
    uv_timer_stop(&look);
    uv_timer_stop(&healing);
    cut_heal(relay);
}

static void grow_rough(uint64_t requests)
{
    every = requests;
    next_cut = cut_requests(relay) + 1 + draw() % (2 * every);
    check(uv_timer_start(&look, looks, 1, 1) == 0);
}

static void leave(void)
{
    uv_close((uv_handle_t *)&enough, NULL);
    uv_close((uv_handle_t *)&commands, NULL);
    uv_close((uv_handle_t *)&look, NULL);
    uv_close((uv_handle_t *)&healing, NULL);
    cut_close(relay);
}

static void obey(char *text)
{
    char word[32] = "", name[32] = "";
    unsigned ms = 100;
    enum cut cut;
    sscanf(text, "%31s %31s %u", word, name, &ms);
    uint64_t number = strtoull(name, NULL, 10);
    if (strcmp(word, "arm") == 0 && cut_parse(name, &cut)) {
        cut_arm(relay, cut, ms);
        cuts++;
    } else if (strcmp(word, "heal") == 0) {
        cut_heal(relay);
    } else if (strcmp(word, "down") == 0 || strcmp(word, "up") == 0) {
        cut_down(relay, word[0] == 'd');
    } else if (strcmp(word, "rough") == 0 && number > 0) {
        grow_rough(number);
    } else if (strcmp(word, "calm") == 0) {
        calm_down(NULL, 0);
    } else if (strcmp(word, "count") != 0) {
        printf("what is \"%s\"?\n", text);
        return;
    }
    printf("%s requests %llu cuts %llu fell %d\n", word, (unsigned long long)cut_requests(relay), (unsigned long long)cuts, cut_fell(relay));
}

static void room(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    (void)handle, (void)wanted;
    *out = uv_buf_init(line + line_len, (unsigned)(sizeof line - 1 - line_len));
}

static void read_commands(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    char *end;
    (void)stream, (void)b;
    if (n < 0) {
        leave();
        return;
    }
    line_len += (size_t)n;
    line[line_len] = 0;
    while ((end = strchr(line, '\n'))) {
        *end = 0;
        obey(line);
        line_len -= (size_t)(end + 1 - line);
        memmove(line, end + 1, line_len + 1);
    }
    if (line_len == sizeof line - 1)
        line_len = 0;    /* no command is that long */
}

static bool schedule(int argc, char **argv)
{
    chance = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    every = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    for (int i = 5; i < argc; i++)
        if (kind_count == CUT_COUNT || !cut_parse(argv[i], &kinds[kind_count++]))
            return false;
    for (unsigned i = 0; argc <= 5 && i < CUT_COUNT; i++)
        kinds[kind_count++] = (enum cut)i;
    return true;
}

int main(int argc, char **argv)
{
    uv_loop_t *loop = uv_default_loop();
    bool renames = argc > 2 && strcmp(argv[1], "-r") == 0 && sscanf(argv[2], "%5[0-9]:%5[0-9]", renamed[0], renamed[1]) == 2;
    if (renames)
        argc -= 2, argv += 2;
    if (argc < 3 || argc == 4 || !schedule(argc, argv) || !(relay = cut_open(loop, argv[1], argv[2]))) {
        fputs("usage: cut_relay [-r OLD:NEW] LISTEN TARGET [SEED EVERY [CUT...]]\n", stderr);
        return 2;
    }
    if (renames)
        cut_hook(relay, rename_ports, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);    /* one side gone while the other still speaks is its daily bread */
    check(uv_timer_init(loop, &look) == 0 && uv_timer_init(loop, &healing) == 0 && uv_pipe_init(loop, &commands, 0) == 0);
    check(uv_signal_init(loop, &enough) == 0 && uv_signal_start(&enough, calm_down, SIGUSR1) == 0);
    printf("listening %d\n", cut_port(relay));
    if (every > 0)
        grow_rough(every);
    check(uv_pipe_open(&commands, 0) == 0 && uv_read_start((uv_stream_t *)&commands, room, read_commands) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
    return 0;
}

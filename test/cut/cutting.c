/* SPDX-License-Identifier: Apache-2.0 */
#include "cutting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "world_loop.h"

/* ---- the world ------------------------------------------------------------------------------------------------------------------ */

static struct world_loop real;

static void close_real(struct world *w)
{
    (void)w;
    world_loop_end(&real);
}

uv_loop_t *cutting_loop(void) { return &real.loop; }

struct world *world_open(void)
{
    log_level_set(LEVEL_FATAL);    /* engines complain of every cut, rightly */
    world_loop_begin(&real, "cut");
    real.world.close = close_real;
    return &real.world;
}

static uint64_t env_number(const char *name)
{
    int64_t n;
    const char *text = getenv(name);
    return text && str_to_i64(str_of(text), &n) && n > 0 ? (uint64_t)n : 1;
}

uint64_t cutting_seed(void) { return env_number("SECKILL_TEST_SEED"); }
unsigned cutting_rounds(void) { return (unsigned)env_number("SECKILL_TEST_ROUNDS"); }

/* ---- a case ----------------------------------------------------------------------------------------------------------------------- */

struct one {
    struct waiter waiter;
    const struct cut_call *call;
    unsigned wakes;
    enum reason reason;
    uint64_t woken_ns;
};

static void woken(struct waiter *w, enum reason reason, const void *result)
{
    struct one *o = container_of(w, struct one, waiter);
    o->wakes++;
    o->reason = reason == REASON_OK && o->call->verdict ? o->call->verdict(result) : reason;
    o->woken_ns = uv_hrtime();
}

static bool has_woken(void *one) { return ((struct one *)one)->wakes > 0; }

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void complain(const struct cut_call *call, enum cut cut, const struct one *o, const char *what)
{
    fail_msg("%s under %s was told %s (fate %d), and %s", call->name, cut_name(cut), reason_word(o->reason), (int)reason_fate(o->reason), what);
}

/* The call once more until it ends well: whoever retries with the same keys gets there. */
static void recover(struct cutting *c, const struct cut_call *call, enum cut cut)
{
    uint64_t until = uv_hrtime() + (uint64_t)c->recover_ms * 1000000;
    struct one o = {.call = call};
    do {
        o = (struct one){.waiter = {.wake = woken, .budget_ms = 4 * c->budget_ms + 1000}, .call = call};
        call->ask(&o.waiter);
        if (!world->run(world, has_woken, &o, c->recover_ms + 5000))
            complain(call, cut, &o, "asked again it is never told anything");
        bool good = call->repeated ? call->repeated(o.reason) : reason_fate(o.reason) == FATE_DONE;
        if (good && (!call->happened || call->happened()))
            return;
        let_pass(20);
    } while (uv_hrtime() < until);
    complain(call, cut, &o, "it does not recover");
}

/* Asks once, with the cut in its way; how long it took. */
static unsigned ask_once(struct cutting *c, const struct cut_call *call, enum cut cut, struct one *o)
{
    *o = (struct one){.waiter = {.wake = woken, .budget_ms = c->budget_ms}, .call = call};
    cut_arm(c->relay, cut, c->budget_ms / 3);
    uint64_t began = uv_hrtime();
    call->ask(&o->waiter);
    if (o->wakes > 0)
        complain(call, cut, o, "that within the call itself");
    if (!world->run(world, has_woken, o, c->budget_ms + c->slack_ms))
        complain(call, cut, o, "is not woken in time");
    return (unsigned)((o->woken_ns - began) / 1000000);
}

/* Whether it has happened, to whoever looks within lag_ms. */
static bool shows(struct cutting *c, const struct cut_call *call)
{
    uint64_t until = uv_hrtime() + (uint64_t)c->lag_ms * 1000000;
    while (!call->happened()) {
        if (uv_hrtime() >= until)
            return false;
        let_pass(20);
    }
    return true;
}

static void one_case(struct cutting *c, const struct cut_call *call, enum cut cut, uint32_t n)
{
    struct one o;
    unsigned waited;
    if (call->begin)
        call->begin(n);
    if (c->ready && !world->run(world, c->ready, NULL, c->recover_ms))
        fail_msg("not connected again before %s", call->name);
    for (unsigned i = 0; waited = ask_once(c, call, cut, &o), !cut_fell(c->relay); i++) {
        if (reason_fate(o.reason) != FATE_RETRY || i * 50 > c->recover_ms)
            complain(call, cut, &o, "the cut did not meet it");
        let_pass(50);    /* it was not connected, and said so */
    }
    enum fate fate = reason_fate(o.reason);
    if (call->happened && fate == FATE_DONE && !shows(c, call))
        complain(call, cut, &o, "it has not happened");
    cut_heal(c->relay);
    if (call->happened && (fate == FATE_REFUSED || fate == FATE_RETRY)) {
        let_pass(60);    /* what was held arrives now */
        if (call->happened())
            complain(call, cut, &o, "it has happened");
    }
    recover(c, call, cut);
    if (call->twice)
        call->twice();
    let_pass(1);
    if (o.wakes != 1)
        complain(call, cut, &o, "is woken more than once");
    c->told[fate]++;
    c->cases++;
    if (waited > c->waits_ms[cut])
        c->waits_ms[cut] = waited;
}

void cutting_run(struct cutting *c, const struct cut_call *calls, size_t count, unsigned rounds)
{
    size_t cases = count * CUT_COUNT;
    size_t *order = calloc(cases, sizeof *order);
    uint64_t chance = c->seed;
    uint32_t n = 1;
    check(order != NULL);
    for (size_t i = 0; i < count; i++) {    /* once undisturbed: it is connected, and scripts are loaded */
        if (calls[i].begin)
            calls[i].begin(n++);
        recover(c, &calls[i], CUT_COUNT);
    }
    for (unsigned round = 0; round < rounds; round++) {
        for (size_t i = 0; i < cases; i++) {
            size_t k = draw(&chance) % (i + 1);
            order[i] = order[k];
            order[k] = i;
        }
        for (size_t i = 0; i < cases; i++)
            one_case(c, &calls[order[i] / CUT_COUNT], (enum cut)(order[i] % CUT_COUNT), n++);
    }
    free(order);
    printf("# %u cases, seed %llu: told done %u, refused %u, retry %u, unknown %u; longest wait in ms:", c->cases, (unsigned long long)c->seed,
           c->told[FATE_DONE], c->told[FATE_REFUSED], c->told[FATE_RETRY], c->told[FATE_UNKNOWN]);
    for (unsigned i = 0; i < CUT_COUNT; i++)
        printf(" %s %u", cut_name((enum cut)i), c->waits_ms[i]);
    putchar('\n');
}

/* SPDX-License-Identifier: Apache-2.0
 * check_live.c: each server on its own, so that one that is away hides nothing of the others. */
#include "check_live.h"

#include <stdio.h>

#include "await.h"
#include "check.h"

struct proof {
    size_t part;
    enum reason reason;
};

static void keep_proof(struct await *a, const void *result)
{
    struct proof *p = a->into;
    p->reason = ports_proved(p->part, REASON_OK, result);
}

/* Asks until the server is reached and has answered, or the time is up: a connection that is not made yet is DEPENDENCY_DOWN. */
static enum reason prove_part(struct ports *p, size_t part)
{
    uint64_t until_us = clock_mono_us(p->clock) + (uint64_t)CHECK_LIVE_MS * 1000;
    for (;;) {
        struct proof proof = {part, REASON_OK};
        struct await a = AWAIT(.keep = keep_proof, .into = &proof);
        a.waiter.budget_ms = CHECK_LIVE_MS;
        ports_prove(p, part, 0, &a.waiter);
        enum reason reason = await_run(&a, p->loop);
        reason = reason == REASON_OK ? proof.reason : reason;
        if (reason == REASON_OK || clock_mono_us(p->clock) >= until_us)
            return reason;
        await_ms(p->loop, 50);
    }
}

static void find_part(const struct config *config, size_t part, struct live_check *out)
{
    struct live_finding *f = &out->findings[part];
    char memory[512];
    struct buf complaint = buf_fixed(memory, sizeof memory);
    uv_loop_t loop;
    struct ports ports;
    *f = (struct live_finding){.name = ports_part_name(part), .known = true};
    check(uv_loop_init(&loop) == 0);
    if (!ports_open(&ports, &loop, config, 1u << part, &complaint)) {
        snprintf(f->detail, sizeof f->detail, STR_FMT, STR_ARG(buf_str(&complaint)));
        ports_loop_end(&loop);
        return;
    }
    enum reason reason = prove_part(&ports, part);
    struct str refusal = ports_refusal(&ports, part);
    f->good = reason == REASON_OK;
    if (!f->good)
        snprintf(f->detail, sizeof f->detail, "%s%s" STR_FMT "%s", reason_word(reason), refusal.len > 0 ? " (" : "", STR_ARG(refusal), refusal.len > 0 ? ")" : "");
    if (part == 0) {
        struct store_risks k = store_risks(ports.store);
        struct live_finding *settings = &out->findings[PORTS_PARTS];
        *settings = (struct live_finding){.name = "redis settings", .known = k.known || k.text.len > 0, .good = k.text.len == 0};
        snprintf(settings->detail, sizeof settings->detail, STR_FMT, STR_ARG(k.text));
        if (k.evicts && !config->redis_allow_eviction)
            out->leave = LEAVE_REFUSED;
    }
    ports_close(&ports);
    ports_loop_end(&loop);
}

void check_live(const struct config *config, struct live_check *out)
{
    *out = (struct live_check){.leave = LEAVE_DONE};
    for (size_t part = 0; part < PORTS_PARTS; part++)
        find_part(config, part, out);
    for (size_t part = 0; part < PORTS_PARTS; part++)
        if (!out->findings[part].good)
            out->leave = LEAVE_UNREACHABLE;
}

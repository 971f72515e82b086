/* SPDX-License-Identifier: Apache-2.0
 * The audit over a world that has seen many sales: all of them are judged, whatever is shown of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "audit.h"
#include "auditor.h"
#include "await.h"
#include "check.h"
#include "control.h"
#include "imagine.h"
#include "json.h"
#include "rush.h"
#include "verb.h"

static struct sim_engines imagined;
static struct ports ports;
static uv_loop_t loop;

struct moving {
    struct control control;
    bool done;
};
static void moved(struct control *c) { container_of(c, struct moving, control)->done = true; }

static void sale(struct controller *controller, unsigned number, size_t sku_count)
{
    char name[32], names[64][8];
    struct sku skus[64];
    check(sku_count <= countof(skus));
    snprintf(name, sizeof name, "sale_%u", number);
    for (size_t i = 0; i < sku_count; i++) {
        snprintf(names[i], sizeof names[i], "s%zu", i);
        skus[i] = (struct sku){.sku = str_of(names[i]), .stock = 2, .price = 1, .currency = str_lit("CNY")};
    }
    struct activity_create ask = {.actor = str_lit("test"),
        .activity = {.activity = str_of(name), .title = str_lit(""), .buckets = 1, .starts_ms = 1000, .ends_ms = 4000000000000, .pay_timeout_s = 900,
                     .skus = skus, .sku_count = sku_count}};
    struct await a = AWAIT();
    ledger_activity_create(ports.ledger, &ask, &a.waiter);
    assert_int_equal(await_run(&a, &loop), REASON_OK);
    struct moving m = {.control = {.activity = str_of(name), .event = ACTIVITY_EVENT_WARM, .actor = str_lit("test"), .done = moved}};
    assert_true(control_start(controller, &m.control));
    await_flag(&loop, &m.done, 0);
    assert_int_equal(m.control.reason, REASON_OK);
}

#define SALES 300
#define SKUS 15

static void an_audit_of_many_sales(void **state)
{
    (void)state;
    log_level_set(LEVEL_FATAL);
    uv_loop_init(&loop);
    imagine_ports(&imagined, &ports, &loop, 7);
    struct controller *controller = controller_new(ports.store, ports.ledger, ports.clock, 1, control_options_default());
    assert_non_null(controller);
    for (unsigned i = 0; i < SALES; i++)
        sale(controller, i, SKUS);
    controller_free(controller);
    struct audit a = {.patience_ms = 100};
    audit_judge(&a, &ports);
    assert_int_equal(a.reason, REASON_OK);
    assert_true(audit_clean(&a));
    assert_int_equal(audit_leave(&a), LEAVE_DONE);
    assert_int_equal(a.stock, SALES * SKUS * 2);
    assert_int_equal(a.sku_count, AUDIT_SKUS_MAX);
    assert_int_equal(a.sku_count + a.skus_unnamed, SALES * SKUS);
    struct buf out = buf_growing(AUDIT_JSON_MAX);
    audit_write_json(&a, &out);
    assert_true(buf_ok(&out));
    buf_free(&out);
    audit_free(&a);
    ports_close(&ports);
    ports_loop_end(&loop);
}

/* Twenty sales whose buckets are lost: each count looks twice, two seconds apart, and they do so together, 16 at once. */
static void an_audit_counts_broken_sales_together(void **state)
{
    enum { BROKEN = AUDIT_COUNTS_MAX + 4 };
    (void)state;
    log_level_set(LEVEL_FATAL);
    uv_loop_init(&loop);
    imagine_ports(&imagined, &ports, &loop, 7);
    struct controller *controller = controller_new(ports.store, ports.ledger, ports.clock, 1, control_options_default());
    assert_non_null(controller);
    for (unsigned i = 0; i < BROKEN; i++)
        sale(controller, i, 1);
    controller_free(controller);
    sim_store_lose(&imagined.stock);
    struct audit a = {.patience_ms = 100};
    uint64_t began_us = clock_mono_us(ports.clock);
    audit_judge(&a, &ports);
    assert_in_range((clock_mono_us(ports.clock) - began_us) / 1000000, 4, 10);    /* two after the other; one after the other it would be 44 s */
    assert_int_equal(a.reason, REASON_OK);
    assert_int_equal(audit_leave(&a), LEAVE_BROKEN);
    assert_true(a.drift == 2 * BROKEN && a.finding_count == 2 * BROKEN && a.sku_count == BROKEN);
    for (size_t i = 1; i < a.sku_count; i++)
        assert_true(a.skus[i - 1].place < a.skus[i].place);
    audit_free(&a);
    ports_close(&ports);
    ports_loop_end(&loop);
}

/* The janitor's audits of eight broken sales share the two seconds between two looks, too: four at once. */
static void an_auditor_judges_broken_sales_together(void **state)
{
    enum { BROKEN = 2 * AUDITOR_WALKS };
    (void)state;
    log_level_set(LEVEL_FATAL);
    uv_loop_init(&loop);
    imagine_ports(&imagined, &ports, &loop, 7);
    struct controller *controller = controller_new(ports.store, ports.ledger, ports.clock, 1, control_options_default());
    assert_non_null(controller);
    for (unsigned i = 0; i < BROKEN; i++)
        sale(controller, i, 1);
    controller_free(controller);
    sim_store_lose(&imagined.stock);
    struct catalog catalog;
    struct auditor auditor;
    struct auditor_options options = auditor_options_default();
    options.every_ms = 100;
    options.share = 100;
    assert_true(catalog_init(&catalog, ports.ledger, ports.clock, catalog_options_default()));
    assert_true(auditor_init(&auditor, ports.store, ports.ledger, ports.clock, ports.random, &catalog, options));
    catalog_start(&catalog);
    auditor_start(&auditor);
    uint64_t began_us = clock_mono_us(ports.clock);
    while (auditor.facts.rounds == 0 && clock_mono_us(ports.clock) - began_us < 20000000)
        await_ms(&loop, 20);
    assert_in_range((clock_mono_us(ports.clock) - began_us) / 1000000, 4, 10);    /* one after the other it would be 17 s */
    assert_int_equal(auditor.facts.drift, 2 * BROKEN);
    auditor_drain(&auditor);
    auditor_free(&auditor);
    catalog_stop(&catalog);
    catalog_free(&catalog);
    ports_close(&ports);
    ports_loop_end(&loop);
}

/* 0 where the proof is so; 7 where it is not, whether a rule is broken or too few were sold; 4 where there is none. */
static void what_a_rush_leaves(void **state)
{
    static const struct audit_sku two[] = {{.count = {.sku = str_lit("S"), .s0 = 4, .o = 4}}, {.count = {.sku = str_lit("T"), .s0 = 6}}};
    static const struct {
        struct crowd_result crowd;
        struct audit audit;
        uint64_t users;
        int leave;
        uint64_t sold_before, sold;    /* sold: by this rush */
    } cases[] = {
        {{.queued = 10}, {.reason = REASON_OK, .stock = 10, .holding = 10}, 60, LEAVE_DONE},
        {{.queued = 6}, {.reason = REASON_OK, .stock = 10, .holding = 6}, 6, LEAVE_DONE},
        {{.users_by[REASON_UNKNOWN_ACTIVITY] = 60}, {.reason = REASON_OK, .stock = 10}, 60, LEAVE_BROKEN},
        {{.queued = 3, .users_by = {[REASON_ENDED] = 5}}, {.reason = REASON_OK, .stock = 10, .holding = 3}, 60, LEAVE_BROKEN},
        {{.unanswered = 1}, {.reason = REASON_OK, .stock = 10, .holding = 10}, 60, LEAVE_BROKEN},
        {{.undecided = 1}, {.reason = REASON_OK, .stock = 10, .holding = 10}, 60, LEAVE_BROKEN},
        {{.fault = "?"}, {.reason = REASON_OK, .stock = 10, .holding = 10}, 60, LEAVE_BROKEN},
        {{.contradictions = 1}, {.reason = REASON_OK, .stock = 10, .holding = 10}, 60, LEAVE_BROKEN},
        {{.queued = 3}, {.reason = REASON_OK, .stock = 10, .holding = 3, .drift = 1}, 60, LEAVE_BROKEN},
        {{.queued = 11}, {.reason = REASON_OK, .stock = 10, .holding = 11, .oversell = 1}, 60, LEAVE_BROKEN},
        {{.queued = 4}, {.reason = REASON_OK, .stock = 10, .holding = 4, .skus = two, .sku_count = 2}, 60, LEAVE_DONE},    /* of the other nobody wanted any */
        {{.queued = 10}, {.reason = REASON_DEPENDENCY_DOWN, .unanswered = "ledger"}, 60, LEAVE_UNREACHABLE},
        /* A sale of which something was sold before: only what is left can be sold, and only that is told as sold by this rush. */
        {{.queued = 7}, {.reason = REASON_OK, .stock = 10, .holding = 10}, 60, LEAVE_DONE, 3, 7},
        {{.queued = 6}, {.reason = REASON_OK, .stock = 10, .holding = 9}, 60, LEAVE_BROKEN, 3, 6},
        {{.users_by = {[REASON_SOLD_OUT] = 60}}, {.reason = REASON_OK, .stock = 10, .holding = 10}, 60, LEAVE_DONE, 10, 0},
        {{.queued = 0}, {.reason = REASON_OK, .stock = 10, .holding = 8}, 60, LEAVE_DONE, 10, 0},    /* two orders were cancelled meanwhile */
    };
    const struct call call = {.verb = VERB_rush};
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        const struct rush_outcome o = {&cases[i].crowd, &cases[i].audit, "S", cases[i].users, cases[i].sold_before};
        if (rush_leave(&call, &o) != cases[i].leave || (cases[i].sold_before > 0 && rush_sold(&o) != cases[i].sold))
            fail_msg("case %zu: sold %llu", i, (unsigned long long)rush_sold(&o));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_audit_of_many_sales), cmocka_unit_test(an_audit_counts_broken_sales_together),
        cmocka_unit_test(an_auditor_judges_broken_sales_together), cmocka_unit_test(what_a_rush_leaves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

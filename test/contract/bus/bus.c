/* SPDX-License-Identifier: Apache-2.0
 * What a bus promises, whichever it is. Each test makes a topic of its own; all share one world. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "buf.h"
#include "world.h"

#define GROUP str_lit("contract-bus")

/* ---- words of these tests ---- */

struct topic {
    char text[64];
    struct str name;
    struct queue queues[32];
    char brokers[32][64];
    size_t count;
};

static void keep_queues(struct seen *s, const void *result)
{
    const struct queues_answer *a = result;
    struct topic *t = s->into;
    assert_in_range(a->count, 1, countof(t->queues));
    t->count = a->count;
    for (size_t i = 0; i < a->count; i++) {
        assert_in_range(a->queues[i].broker.len, 1, 63);
        memcpy(t->brokers[i], a->queues[i].broker.ptr, a->queues[i].broker.len);
        t->brokers[i][a->queues[i].broker.len] = 0;
        t->queues[i] = (struct queue){str_of(t->brokers[i]), t->name, a->queues[i].number};
        assert_true(str_eq(a->queues[i].topic, t->name));
    }
}

static void create(struct topic *t, int32_t queues)
{
    struct seen s = SEEN();
    bus_create(world->bus, &t->name, 1, GROUP, queues, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_OK);
}

static void list_queues(struct topic *t)
{
    struct seen s = SEEN(.keep = keep_queues, .into = t);
    bus_queues(world->bus, t->name, &s.waiter);
    assert_false(s.woken);    /* never before the call has returned */
    assert_int_equal(seen_await(world, &s), REASON_OK);
}

static void topic_new(struct topic *t, int32_t queues)
{
    snprintf(t->text, sizeof t->text, "contract-%016llx", (unsigned long long)random_next(world->random));
    t->name = str_of(t->text);
    create(t, queues);
    list_queues(t);
}

struct verdicts {
    enum reason of[BUS_BATCH_MAX];
    size_t count;
};

static void keep_verdicts(struct seen *s, const void *result)
{
    const struct send_result *r = result;
    struct verdicts *v = s->into;
    v->count = r->count;
    memcpy(v->of, r->verdicts, r->count * sizeof v->of[0]);
}

static void send_good(const struct bus_message *messages, size_t count)
{
    struct verdicts v = {.count = 0};
    struct seen s = SEEN(.keep = keep_verdicts, .into = &v);
    bus_send(world->bus, messages, count, &s.waiter);
    assert_false(s.woken);
    assert_int_equal(seen_await(world, &s), REASON_OK);
    assert_int_equal(v.count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(v.of[i], REASON_OK);
}

static void send_text(const struct topic *t, const char *key, const char *body)
{
    struct bus_message m = {.topic = t->name, .key = str_of(key), .body = str_of(body)};
    send_good(&m, 1);
}

struct copy {
    int64_t offset, stored_ms;
    char unique[80], key[80], trace[80], tag[80], deployment[80], body[1024];
    size_t body_len;
};
struct catch {
    struct copy messages[BUS_PULL_MAX];
    size_t count;
    int64_t next, min, max;
    uint64_t link;
};

static void copy_text(char *to, size_t cap, struct str from)
{
    assert_true(from.len < cap);
    if (from.len > 0)
        memcpy(to, from.ptr, from.len);
    to[from.len] = 0;
}

/* Adds to what was caught before. */
static void keep_pulled(struct seen *s, const void *result)
{
    const struct pulled_answer *a = result;
    struct catch *c = s->into;
    for (size_t i = 0; i < a->count; i++) {
        const struct pulled *m = &a->messages[i];
        struct copy *to = &c->messages[c->count++];
        assert_true(c->count <= BUS_PULL_MAX);
        to->offset = m->offset;
        to->stored_ms = m->stored_ms;
        copy_text(to->unique, sizeof to->unique, m->unique);
        copy_text(to->key, sizeof to->key, m->key);
        copy_text(to->trace, sizeof to->trace, m->trace);
        copy_text(to->tag, sizeof to->tag, m->tag);
        copy_text(to->deployment, sizeof to->deployment, m->deployment);
        copy_text(to->body, sizeof to->body, m->body);
        to->body_len = m->body.len;
    }
    c->next = a->next;
    c->min = a->min;
    c->max = a->max;
    c->link = a->link;
}

static enum reason pull(struct catch *c, const struct queue *q, int64_t offset, size_t limit, uint32_t wait_ms)
{
    struct seen s = SEEN(.keep = keep_pulled, .into = c);
    struct pull_ask ask = {.queue = *q, .offset = offset, .limit = limit, .wait_ms = wait_ms};
    bus_pull(world->bus, &ask, &s.waiter);
    assert_false(s.woken);
    return seen_await(world, &s);
}

/* Pulls on from an offset until so many are there. What has been stored may take a moment to be seen. */
static void pull_all(struct catch *c, const struct queue *q, int64_t offset, size_t count)
{
    *c = (struct catch){.next = offset};
    for (int i = 0; i < 50 && c->count < count; i++)
        assert_int_equal(pull(c, q, c->next, BUS_PULL_MAX - c->count, 1000), REASON_OK);
    assert_int_equal(c->count, count);
}

static void keep_range(struct seen *s, const void *result) { *(struct range_answer *)s->into = *(const struct range_answer *)result; }

static enum reason range(const struct queue *q, struct range_answer *r)
{
    struct seen s = SEEN(.keep = keep_range, .into = r);
    bus_range(world->bus, q, &s.waiter);
    assert_false(s.woken);
    return seen_await(world, &s);
}

/* ---- the promises ---- */

static void creating_may_be_repeated(void **state)
{
    (void)state;
    struct topic t = {0};
    topic_new(&t, 3);
    size_t first = t.count;
    assert_true(first >= 3 && first % 3 == 0);    /* three at each broker */
    create(&t, 3);
    list_queues(&t);
    assert_int_equal(t.count, first);
    for (size_t i = 1; i < t.count; i++) {
        int order = str_cmp(t.queues[i - 1].broker, t.queues[i].broker);
        assert_true(order < 0 || (order == 0 && t.queues[i - 1].number < t.queues[i].number));
    }
    send_text(&t, "k", "a created topic can be sent to at once");
}

static void what_is_sent_can_be_pulled(void **state)
{
    (void)state;
    struct topic t = {0};
    struct catch c = {0};
    static const char binary[] = "zero \0 one \1 two \2 high \xff\xfe\x80 \xe4\xb8\xad\xe6\x96\x87 end";
    struct str trace = str_lit("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    topic_new(&t, 1);
    struct bus_message m = {.topic = t.name, .key = str_lit("rsv_1"), .body = {binary, sizeof binary - 1}, .trace = trace, .tag = str_lit("PAID")};
    send_good(&m, 1);
    pull_all(&c, &t.queues[0], 0, 1);
    assert_int_equal(c.messages[0].offset, 0);
    assert_string_equal(c.messages[0].key, "rsv_1");
    assert_int_equal(c.messages[0].body_len, sizeof binary - 1);
    assert_memory_equal(c.messages[0].body, binary, sizeof binary - 1);
    assert_true(str_eq(str_of(c.messages[0].trace), trace));
    assert_string_equal(c.messages[0].tag, "PAID");
    assert_true(c.messages[0].unique[0] != 0);
    assert_true(c.messages[0].stored_ms > 0);
    assert_int_equal(c.next, 1);
    assert_true(c.min == 0 && c.max == 1 && c.link > 0);
}

/* A message carries the identity of the deployment that sent it; before that is known nothing is sent. */
static void message_carries_its_deployment(void **state)
{
    (void)state;
    char identity[33] = "";
    struct topic t = {0};
    struct catch c = {.count = 0};
    topic_new(&t, 1);
    const char *before = world->bus->deployment;
    world->bus->deployment = identity;
    struct bus_message m = {.topic = t.name, .key = str_lit("k"), .body = str_lit("b")};
    struct seen s = SEEN();
    bus_send(world->bus, &m, 1, &s.waiter);
    assert_int_equal(seen_await(world, &s), REASON_DEPENDENCY_DOWN);
    strcpy(identity, "0123456789abcdef0123456789abcdef");
    send_text(&t, "k", "b");
    world->bus->deployment = before;
    assert_int_equal(pull(&c, &t.queues[0], 0, 10, 2000), REASON_OK);
    assert_int_equal(c.count, 1);
    assert_string_equal(c.messages[0].deployment, identity);
}

static void the_same_message_twice_is_two_messages(void **state)
{
    (void)state;
    struct topic t = {0};
    struct catch c;
    topic_new(&t, 1);
    struct bus_message same = {.topic = t.name, .key = str_lit("k"), .body = str_lit("b")}, both[] = {same, same};
    send_good(&same, 1);
    send_good(both, 2);
    pull_all(&c, &t.queues[0], 0, 3);
    assert_string_not_equal(c.messages[0].unique, c.messages[1].unique);
    assert_string_not_equal(c.messages[1].unique, c.messages[2].unique);
    assert_string_not_equal(c.messages[0].unique, c.messages[2].unique);
}

static void a_full_batch_arrives_whole(void **state)
{
    (void)state;
    static struct bus_message messages[BUS_BATCH_MAX];
    static char keys[BUS_BATCH_MAX][16], body[600];
    static struct catch c;
    bool seen[BUS_BATCH_MAX] = {false};
    struct topic t = {0};
    topic_new(&t, 1);
    memset(body, 'x', sizeof body);
    for (size_t i = 0; i < BUS_BATCH_MAX; i++) {
        snprintf(keys[i], sizeof keys[i], "%zu", i);
        messages[i] = (struct bus_message){.topic = t.name, .key = str_of(keys[i]), .body = {body, 1 + i * 2}};
    }
    send_good(messages, BUS_BATCH_MAX);
    pull_all(&c, &t.queues[0], 0, BUS_BATCH_MAX);
    for (size_t i = 0; i < BUS_BATCH_MAX; i++) {
        size_t at = (size_t)atoi(c.messages[i].key);
        assert_false(seen[at]);
        seen[at] = true;
        assert_int_equal(c.messages[i].body_len, 1 + at * 2);
        assert_true(i == 0 || c.messages[i].offset > c.messages[i - 1].offset);
    }
    assert_int_equal(c.next, BUS_BATCH_MAX);
    c = (struct catch){0};
    assert_int_equal(pull(&c, &t.queues[0], 250, 4, 0), REASON_OK);
    assert_true(c.count >= 1 && c.count <= 4);    /* no more than the limit */
    assert_int_equal(c.messages[0].offset, 250);
    assert_int_equal(c.next, c.messages[c.count - 1].offset + 1);
}

static void an_empty_queue_answers_at_once_that_it_is_empty(void **state)
{
    (void)state;
    struct topic t = {0};
    struct catch c = {.next = -1};
    topic_new(&t, 1);
    assert_int_equal(pull(&c, &t.queues[0], 0, 10, 0), REASON_OK);
    assert_int_equal(c.count, 0);
    assert_int_equal(c.next, 0);
}

static void a_waiting_pull_wakes_when_something_comes(void **state)
{
    (void)state;
    struct topic t = {0};
    struct catch c = {0};
    topic_new(&t, 1);
    struct seen s = SEEN(.keep = keep_pulled, .into = &c);
    struct pull_ask ask = {.queue = t.queues[0], .offset = 0, .limit = 10, .wait_ms = 20000};
    bus_pull(world->bus, &ask, &s.waiter);
    let_pass(300);
    assert_false(s.woken);
    send_text(&t, "k", "b");
    assert_true(world->run(world, seen_woken, &s, 2000));
    assert_int_equal(s.reason, REASON_OK);
    assert_int_equal(c.count, 1);
}

static void outside_of_what_the_broker_holds_nothing_is_skipped(void **state)
{
    (void)state;
    struct topic t = {0};
    struct catch c = {0};
    topic_new(&t, 1);
    send_text(&t, "k", "b");
    pull_all(&c, &t.queues[0], 0, 1);
    c = (struct catch){0};
    assert_int_equal(pull(&c, &t.queues[0], 1, 10, 0), REASON_OK);            /* exactly the end: nothing yet */
    assert_int_equal(pull(&c, &t.queues[0], 2, 10, 0), REASON_OFFSET_MOVED);
    assert_int_equal(pull(&c, &t.queues[0], 2, 10, 5000), REASON_OFFSET_MOVED);
    assert_int_equal(pull(&c, &t.queues[0], -1, 10, 0), REASON_OFFSET_MOVED);
    assert_int_equal(c.count, 0);
}

static void a_queue_tells_its_range(void **state)
{
    (void)state;
    struct topic t = {0};
    struct catch c;
    struct range_answer r = {-1, -1, 0};
    topic_new(&t, 2);
    assert_int_equal(range(&t.queues[1], &r), REASON_OK);
    assert_true(r.min == 0 && r.max == 0 && r.link > 0);
    struct bus_message m[8];
    for (size_t i = 0; i < countof(m); i++)
        m[i] = (struct bus_message){.topic = t.name, .key = str_lit("k"), .body = str_lit("b"), .spread = 7};
    send_good(m, countof(m));
    struct range_answer both[2];
    for (int tries = 0; tries < 50; tries++, let_pass(20)) {
        assert_int_equal(range(&t.queues[0], &both[0]), REASON_OK);
        assert_int_equal(range(&t.queues[1], &both[1]), REASON_OK);
        if (both[0].max + both[1].max == 8)
            break;
    }
    const struct queue *full = both[0].max == 8 ? &t.queues[0] : &t.queues[1];
    assert_true(both[0].max + both[1].max == 8 && both[0].max * both[1].max == 0);
    pull_all(&c, full, 0, 8);
    assert_int_equal(c.max, 8);
    assert_int_equal(c.link, both[0].max == 8 ? both[0].link : both[1].link);    /* one connection all the time */
}

static void what_does_not_exist_has_no_range(void **state)
{
    (void)state;
    struct topic t = {0};
    struct range_answer r;
    topic_new(&t, 1);
    struct queue none = {t.queues[0].broker, str_lit("contract-there-is-no-such-topic"), 0}, high = {t.queues[0].broker, t.name, 7};
    assert_int_not_equal(range(&none, &r), REASON_OK);
    assert_int_not_equal(range(&high, &r), REASON_OK);
}

static void to_a_topic_that_does_not_exist_nothing_is_sent(void **state)
{
    (void)state;
    struct bus_message m = {.topic = str_lit("contract-there-is-no-such-topic"), .key = str_lit("k"), .body = str_lit("b")};
    struct seen s = SEEN();
    bus_send(world->bus, &m, 1, &s.waiter);
    enum fate fate = reason_fate(seen_await(world, &s));
    assert_true(fate == FATE_RETRY || fate == FATE_REFUSED);    /* known not to be stored */
}

static void the_groups_mark_can_be_set(void **state)
{
    (void)state;
    struct topic t = {0};
    topic_new(&t, 1);
    send_text(&t, "k", "b");
    for (int64_t next = 0; next < 2; next++) {
        struct seen s = SEEN();
        bus_mirror(world->bus, &t.queues[0], next, &s.waiter);
        assert_int_equal(seen_await(world, &s), REASON_OK);
    }
}

static void a_timer_message_comes_later_and_not_before(void **state)
{
    (void)state;
    struct topic t = {0};
    struct catch c = {0};
    topic_new(&t, 1);
    int64_t due = clock_now_ms(world->clock) + 3000;
    struct bus_message m[] = {{.topic = t.name, .key = str_lit("later"), .body = str_lit("hint"), .deliver_ms = due},
                              {.topic = t.name, .key = str_lit("now"), .body = str_lit("plain")}};
    send_good(m, 2);
    pull_all(&c, &t.queues[0], 0, 1);
    assert_string_equal(c.messages[0].key, "now");
    pull_all(&c, &t.queues[0], 1, 1);
    assert_string_equal(c.messages[0].key, "later");
    assert_true(clock_now_ms(world->clock) >= due - 1000);    /* brokers think in whole seconds */
}

static void a_deadline_wakes_once_and_for_all(void **state)
{
    (void)state;
    struct topic t = {0};
    topic_new(&t, 1);
    struct seen s = SEEN();
    s.waiter.budget_ms = 100;
    struct pull_ask ask = {.queue = t.queues[0], .offset = 0, .limit = 1, .wait_ms = 5000};
    bus_pull(world->bus, &ask, &s.waiter);
    assert_true(world->run(world, seen_woken, &s, 1000));
    assert_int_equal(s.reason, REASON_TIMED_OUT);
    assert_false(waiter_busy(&s.waiter));
    send_text(&t, "k", "the late answer finds nobody");
    let_pass(300);    /* seen_wake checks that it is not called again */
}

static void who_leaves_is_not_woken(void **state)
{
    (void)state;
    struct topic t = {0};
    struct catch c;
    topic_new(&t, 1);
    struct seen waits = SEEN(), sends = SEEN();
    struct pull_ask ask = {.queue = t.queues[0], .offset = 0, .limit = 1, .wait_ms = 2000};
    struct bus_message m = {.topic = t.name, .key = str_lit("k"), .body = str_lit("sent all the same")};
    bus_pull(world->bus, &ask, &waits.waiter);
    bus_send(world->bus, &m, 1, &sends.waiter);
    waiter_drop(&waits.waiter);
    waiter_drop(&sends.waiter);
    pull_all(&c, &t.queues[0], 0, 1);
    assert_false(waits.woken || sends.woken);
}

static void equal_numbers_meet_in_one_queue(void **state)
{
    (void)state;
    static struct catch c;
    struct topic t = {0};
    struct bus_message m[64];
    char keys[64][8];
    unsigned filled = 0, found = 0;
    int home[16];
    memset(home, -1, sizeof home);
    topic_new(&t, 4);
    for (uint64_t i = 0; i < 64; i++) {
        snprintf(keys[i], sizeof keys[i], "%u", (unsigned)(i % 16));
        m[i] = (struct bus_message){.topic = t.name, .key = str_of(keys[i]), .body = str_lit("b"), .spread = 1 + i % 16};
    }
    send_good(m, 32);
    send_good(m + 32, 32);
    for (int tries = 0; tries < 50 && found < 64; tries++, let_pass(20)) {
        found = filled = 0;
        for (size_t q = 0; q < t.count; q++) {
            c = (struct catch){0};
            assert_int_equal(pull(&c, &t.queues[q], 0, BUS_PULL_MAX, 0), REASON_OK);
            found += (unsigned)c.count;
            filled += c.count > 0;
            for (size_t i = 0; i < c.count; i++) {
                int *at = &home[atoi(c.messages[i].key)];
                assert_true(*at == -1 || *at == (int)q);
                *at = (int)q;
            }
        }
    }
    assert_int_equal(found, 64);
    assert_int_equal(filled, t.count < 16 ? t.count : 16);
}

static void many_calls_in_one_turn_are_all_answered(void **state)
{
    (void)state;
    static struct seen seen[500];
    static struct verdicts verdicts[500];
    struct topic t = {0};
    int64_t stored = 0;
    topic_new(&t, 2);
    for (size_t i = 0; i < countof(seen); i++) {
        struct bus_message m = {.topic = t.name, .key = str_lit("k"), .body = str_lit("b"), .spread = i % 3};
        seen[i] = SEEN(.keep = keep_verdicts, .into = &verdicts[i]);
        bus_send(world->bus, &m, 1, &seen[i].waiter);
    }
    for (size_t i = 0; i < countof(seen); i++) {
        if (!seen[i].woken)
            seen_await(world, &seen[i]);
        assert_int_equal(seen[i].reason, REASON_OK);
        assert_true(verdicts[i].count == 1 && verdicts[i].of[0] == REASON_OK);
    }
    for (int tries = 0; tries < 50 && stored < 500; tries++, let_pass(20)) {
        stored = 0;
        for (size_t q = 0; q < t.count; q++) {
            struct range_answer r;
            assert_int_equal(range(&t.queues[q], &r), REASON_OK);
            stored += r.max;
        }
    }
    assert_int_equal(stored, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creating_may_be_repeated),
        cmocka_unit_test(what_is_sent_can_be_pulled),
        cmocka_unit_test(message_carries_its_deployment),
        cmocka_unit_test(the_same_message_twice_is_two_messages),
        cmocka_unit_test(a_full_batch_arrives_whole),
        cmocka_unit_test(an_empty_queue_answers_at_once_that_it_is_empty),
        cmocka_unit_test(a_waiting_pull_wakes_when_something_comes),
        cmocka_unit_test(outside_of_what_the_broker_holds_nothing_is_skipped),
        cmocka_unit_test(a_queue_tells_its_range),
        cmocka_unit_test(what_does_not_exist_has_no_range),
        cmocka_unit_test(to_a_topic_that_does_not_exist_nothing_is_sent),
        cmocka_unit_test(the_groups_mark_can_be_set),
        cmocka_unit_test(a_timer_message_comes_later_and_not_before),
        cmocka_unit_test(a_deadline_wakes_once_and_for_all),
        cmocka_unit_test(who_leaves_is_not_woken),
        cmocka_unit_test(equal_numbers_meet_in_one_queue),
        cmocka_unit_test(many_calls_in_one_turn_are_all_answered),
    };
    return cmocka_run_group_tests(tests, world_begin, world_end);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_bus.h"

#include <stdlib.h>

#define BUDGET_MS 3000
#define UNIQUE_TEXT 32
#define BODY_BYTES_MAX ((size_t)4 << 20)    /* RocketMQ's own default */
static const struct str broker = str_lit("memory");

/* ---- the world ----------------------------------------------------------------------------------------------------------- */

struct timer {
    struct sim_queue *queue;
    struct sim_message message;
    size_t place;
};

static void store(struct sim_queue *q, struct sim_message m)
{
    if (q->count == q->cap) {
        q->cap = q->cap ? 2 * q->cap : 64;
        q->messages = realloc(q->messages, q->cap * sizeof *q->messages);
        check(q->messages != NULL);
    }
    q->messages[q->count++] = m;
    for (struct link *at; (at = list_take(&q->pullers)) != NULL;)
        sim_call_again(list_entry(at, struct sim_call, held));
}

static void set_alarm(struct sim_bus_world *w)
{
    const struct heap_item *first = heap_first(&w->timers);
    if (!first)
        return;
    int64_t in_ms = (int64_t)first->due - clock_now_ms(w->clock);
    clock_set_in(w->clock, &w->alarm, in_ms > 0 ? 1000 * (uint64_t)in_ms : 0);
}

static void timers_due(struct waiter *waiter, enum reason reason, const void *result)
{
    (void)reason, (void)result;
    struct sim_bus_world *w = container_of(waiter, struct sim_bus_world, alarm.waiter);
    int64_t now_ms = clock_now_ms(w->clock);
    for (const struct heap_item *first; (first = heap_first(&w->timers)) && (int64_t)first->due <= now_ms;) {
        struct timer *t = first->what;
        heap_remove(&w->timers, &t->place);
        t->message.stored_ms = now_ms;
        store(t->queue, t->message);
    }
    set_alarm(w);
}

void sim_bus_world_init(struct sim_bus_world *w, struct clock *clock)
{
    *w = (struct sim_bus_world){.clock = clock, .alarm.waiter.wake = timers_due};
}

void sim_bus_world_end(struct sim_bus_world *w)
{
    clock_unset(w->clock, &w->alarm);
    heap_free(&w->timers);
    for (size_t i = 0; i < w->count; i++)
        for (int32_t j = 0; j < w->all[i]->count; j++)
            free(w->all[i]->queues[j].messages);
    sim_map_free(&w->topics);
    free(w->all);
    sim_ground_free(&w->ground);
}

struct sim_queue *sim_bus_queue(struct sim_bus_world *w, struct str topic, int32_t number)
{
    struct sim_topic *t = sim_map_get(&w->topics, topic);
    return t && number >= 0 && number < t->count ? &t->queues[number] : NULL;
}

void sim_bus_break(struct sim_bus_world *w) { w->breaks++; }

void sim_bus_forget(struct sim_queue *q, int64_t min)
{
    check(min >= q->min && min <= (int64_t)q->count);
    q->min = min;
}

void sim_bus_lose(struct sim_queue *q, int64_t max)
{
    check(max >= 0 && max <= (int64_t)q->count);
    q->count = (size_t)max;
    if (q->min > max)
        q->min = max;
}

void sim_bus_widen(struct sim_bus_world *w, struct str topic, int32_t queues)
{
    struct sim_topic *t = sim_map_get(&w->topics, topic);
    check(t && queues >= t->count && queues <= SIM_QUEUES_MAX);
    t->count = queues;
}

/* ---- the doors ----------------------------------------------------------------------------------------------------------- */

static struct sim_bus_world *world_of(struct sim_call *c) { return ((struct sim_bus *)c->port)->world; }

static struct sim_call *call_named(struct bus *bus, struct waiter *w, const char *name, bool (*act)(struct sim_call *), const void *ask, size_t n)
{
    struct sim_bus *b = container_of(bus, struct sim_bus, bus);
    return sim_call_new(&b->calls, w, b, name, act, ask, n);
}
#define call_new(port, waiter, act, ...) call_named((port), (waiter), &#act[sizeof "act_" - 1], (act), __VA_ARGS__)

static bool away(struct sim_call *c) { return world_of(c)->away && sim_call_answer(c, REASON_DEPENDENCY_DOWN, NULL); }

struct create_copy {
    const struct str *topics;
    size_t count;
    int32_t queues;
};

static void topic_make(struct sim_bus_world *w, struct str name, int32_t queues)
{
    if (sim_map_get(&w->topics, name))
        return;
    struct sim_topic *t = sim_new(&w->ground, struct sim_topic);
    *t = (struct sim_topic){.name = sim_text(&w->ground, name), .count = queues};
    t->queues = sim_array(&w->ground, struct sim_queue, SIM_QUEUES_MAX);    /* they stay where they are when there are more */
    for (int32_t i = 0; i < SIM_QUEUES_MAX; i++) {
        t->queues[i] = (struct sim_queue){.number = i, .mirrored = -1};
        list_init(&t->queues[i].pullers);
    }
    sim_map_put(&w->topics, t->name, t);
    if (w->count == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 8;
        w->all = realloc(w->all, w->cap * sizeof(struct sim_topic *));
        check(w->all != NULL);
    }
    w->all[w->count++] = t;
}

static bool act_create(struct sim_call *c)
{
    const struct create_copy *ask = c->ask;
    if (away(c))
        return true;
    for (size_t i = 0; i < ask->count; i++)
        topic_make(world_of(c), ask->topics[i], ask->queues);
    return sim_call_answer(c, REASON_OK, NULL);
}

static void create(struct bus *b, const struct str *topics, size_t count, struct str group, int32_t queues, struct waiter *w)
{
    (void)group;    /* one group per queue is all our sale knows */
    check(queues > 0 && queues <= SIM_QUEUES_MAX);
    struct sim_call *c = call_new(b, w, act_create, &(struct create_copy){.count = count, .queues = queues}, sizeof(struct create_copy));
    struct str *names = sim_call_copy(c, topics, count * sizeof *topics);
    for (size_t i = 0; i < count; i++)
        sim_call_text(c, &names[i]);
    ((struct create_copy *)c->ask)->topics = names;
    sim_call_go(c, 0);
}

/* ---- send ---- */

struct send_copy {
    const struct bus *bus;
    const struct bus_message *messages;
    size_t count;
};

/* Unlike any before, whatever was lost meanwhile. */
static struct str fresh_unique(struct sim_bus_world *w)
{
    struct buf text = buf_fixed(sim_take(&w->ground, UNIQUE_TEXT + 1), UNIQUE_TEXT + 1);
    buf_add_fmt(&text, "%032llX", (unsigned long long)++w->sent);
    return buf_str(&text);
}

/* Where a message goes that may go anywhere: by chance, or, where nothing is left to it, in turn. */
static uint64_t any_queue(struct sim_bus_world *w) { return w->chance ? random_next(w->chance) >> 32 : w->sent; }

static enum reason send_one(struct sim_bus_world *w, const struct bus_message *m, struct str deployment)
{
    struct sim_topic *t = sim_map_get(&w->topics, m->topic);
    int64_t now_ms = clock_now_ms(w->clock);
    if (!t || m->body.len > BODY_BYTES_MAX)
        return REASON_ENGINE_REFUSED;
    struct sim_queue *q = &t->queues[(m->spread > 0 ? m->spread : any_queue(w)) % (uint64_t)t->count];
    struct sim_message kept = {.unique = fresh_unique(w), .key = sim_text(&w->ground, m->key), .body = sim_text(&w->ground, m->body),
                               .trace = sim_text(&w->ground, m->trace), .tag = sim_text(&w->ground, m->tag),
                               .deployment = sim_text(&w->ground, deployment), .stored_ms = now_ms};
    bool held = w->hold_permille > 0 && random_below(w->chance, 1000) < w->hold_permille;
    int64_t second_ms = held ? now_ms + w->hold_ms : m->deliver_ms / 1000 * 1000;    /* as RocketMQ: a timer may ring up to a second early */
    if (second_ms <= now_ms) {
        store(q, kept);
        return REASON_OK;
    }
    struct timer *timer = sim_new(&w->ground, struct timer);
    *timer = (struct timer){.queue = q, .message = kept};
    heap_put(&w->timers, timer, &timer->place, (uint64_t)second_ms);
    set_alarm(w);
    return REASON_OK;
}

void sim_bus_again(struct sim_bus_world *w, struct sim_queue *q, int64_t offset)
{
    check(offset >= q->min && offset < (int64_t)q->count);
    struct sim_message copy = q->messages[offset];
    copy.unique = fresh_unique(w);
    copy.stored_ms = clock_now_ms(w->clock);
    store(q, copy);
}

static bool act_send(struct sim_call *c)
{
    const struct send_copy *ask = c->ask;
    if (away(c))
        return true;
    const char *deployment = ask->bus->deployment;
    if (deployment && deployment[0] == 0)
        return sim_call_answer(c, REASON_DEPENDENCY_DOWN, NULL);
    enum reason *verdicts = sim_array(&c->ground, enum reason, ask->count);
    size_t refused = 0;
    for (size_t i = 0; i < ask->count; i++) {
        verdicts[i] = send_one(world_of(c), &ask->messages[i], deployment ? str_of(deployment) : (struct str){0});
        refused += verdicts[i] == REASON_ENGINE_REFUSED;
    }
    if (refused == ask->count && refused > 0)
        return sim_call_answer(c, REASON_ENGINE_REFUSED, NULL);
    struct send_result *result = sim_new(&c->ground, struct send_result);
    *result = (struct send_result){.verdicts = verdicts, .count = ask->count};
    return sim_call_answer(c, REASON_OK, result);
}

static void send(struct bus *b, const struct bus_message *asked, size_t count, struct waiter *w)
{
    check(count <= BUS_BATCH_MAX);
    struct sim_call *c = call_new(b, w, act_send, &(struct send_copy){.bus = b, .count = count}, sizeof(struct send_copy));
    struct bus_message *messages = sim_call_copy(c, asked, count * sizeof *asked);
    for (size_t i = 0; i < count; i++) {
        check(messages[i].body.len > 0);
        sim_call_text(c, &messages[i].topic);
        sim_call_text(c, &messages[i].key);
        sim_call_text(c, &messages[i].body);
        sim_call_text(c, &messages[i].trace);
        sim_call_text(c, &messages[i].tag);
    }
    ((struct send_copy *)c->ask)->messages = messages;
    sim_call_go(c, 0);
}

/* ---- queues, range, mirror ---- */

static bool act_queues(struct sim_call *c)
{
    const struct str *topic = c->ask;
    if (away(c))
        return true;
    struct sim_topic *t = sim_map_get(&world_of(c)->topics, *topic);
    if (!t)
        return sim_call_answer(c, REASON_ENGINE_REFUSED, NULL);
    struct queue *queues = sim_array(&c->ground, struct queue, (size_t)t->count);
    for (int32_t i = 0; i < t->count; i++)
        queues[i] = (struct queue){.broker = broker, .topic = t->name, .number = i};
    struct queues_answer *answer = sim_new(&c->ground, struct queues_answer);
    *answer = (struct queues_answer){.queues = queues, .count = (size_t)t->count};
    return sim_call_answer(c, REASON_OK, answer);
}

static void queues(struct bus *b, struct str topic, struct waiter *w)
{
    struct sim_call *c = call_new(b, w, act_queues, &topic, sizeof topic);
    sim_call_text(c, c->ask);
    sim_call_go(c, 0);
}

static struct sim_queue *found(struct sim_call *c, const struct queue *q)
{
    struct sim_queue *queue = str_eq(q->broker, broker) ? sim_bus_queue(world_of(c), q->topic, q->number) : NULL;
    if (!queue)
        sim_call_answer(c, REASON_ENGINE_REFUSED, NULL);
    return queue;
}

static uint64_t link_of(struct sim_call *c) { return 1 + world_of(c)->breaks; }

static void queue_copy(struct sim_call *c, struct queue *q)
{
    sim_call_text(c, &q->broker);
    sim_call_text(c, &q->topic);
}

static bool act_range(struct sim_call *c)
{
    if (away(c))
        return true;
    struct sim_queue *q = found(c, c->ask);
    if (!q)
        return true;
    struct range_answer *answer = sim_new(&c->ground, struct range_answer);
    *answer = (struct range_answer){.min = q->min, .max = (int64_t)q->count, .link = link_of(c)};
    return sim_call_answer(c, REASON_OK, answer);
}

static void range(struct bus *b, const struct queue *asked, struct waiter *w)
{
    struct sim_call *c = call_new(b, w, act_range, asked, sizeof *asked);
    queue_copy(c, c->ask);
    sim_call_go(c, 0);
}

struct mirror_copy {
    struct queue queue;
    int64_t next;
};

static bool act_mirror(struct sim_call *c)
{
    const struct mirror_copy *ask = c->ask;
    if (away(c))
        return true;
    struct sim_queue *q = found(c, &ask->queue);
    if (!q)
        return true;
    q->mirrored = ask->next;
    return sim_call_answer(c, REASON_OK, NULL);
}

static void mirror(struct bus *b, const struct queue *asked, int64_t next, struct waiter *w)
{
    struct sim_call *c = call_new(b, w, act_mirror, &(struct mirror_copy){*asked, next}, sizeof(struct mirror_copy));
    queue_copy(c, &((struct mirror_copy *)c->ask)->queue);
    sim_call_go(c, 0);
}

/* ---- pull ---- */

static bool answer_pull(struct sim_call *c, struct sim_queue *q)
{
    const struct pull_ask *ask = c->ask;
    int64_t max = (int64_t)q->count, next = ask->offset;
    struct pulled *messages = sim_array(&c->ground, struct pulled, ask->limit);
    size_t count = 0;
    for (; next < max && count < ask->limit; next++) {
        const struct sim_message *m = &q->messages[next];
        if (!m->lost)
            messages[count++] = (struct pulled){.offset = next, .unique = m->unique, .key = m->key, .body = m->body, .trace = m->trace,
                                                .tag = m->tag, .deployment = m->deployment, .stored_ms = m->stored_ms};
    }
    struct pulled_answer *answer = sim_new(&c->ground, struct pulled_answer);
    *answer = (struct pulled_answer){.messages = messages, .count = count, .next = next, .min = q->min, .max = max, .link = link_of(c)};
    return sim_call_answer(c, REASON_OK, answer);
}

static bool act_pull(struct sim_call *c)
{
    const struct pull_ask *ask = c->ask;
    list_remove(&c->held);
    if (away(c))
        return true;
    struct sim_queue *q = found(c, &ask->queue);
    if (!q)
        return true;
    int64_t max = (int64_t)q->count;
    if (ask->offset < q->min || ask->offset > max) {
        struct pulled_answer *answer = sim_new(&c->ground, struct pulled_answer);
        *answer = (struct pulled_answer){.next = ask->offset, .min = q->min, .max = max, .link = link_of(c)};
        return sim_call_answer(c, REASON_OFFSET_MOVED, answer);
    }
    if (ask->offset == max && clock_mono_us(c->of->clock) < c->hold_us) {
        list_append(&q->pullers, &c->held);
        c->act_us = c->hold_us;
        return false;
    }
    return answer_pull(c, q);
}

static void pull(struct bus *b, const struct pull_ask *asked, struct waiter *w)
{
    check(asked->limit > 0 && asked->limit <= BUS_PULL_MAX);
    struct sim_call *c = call_new(b, w, act_pull, asked, sizeof *asked);
    queue_copy(c, &((struct pull_ask *)c->ask)->queue);
    c->hold_us = asked->wait_ms ? clock_mono_us(c->of->clock) + 1000 * (uint64_t)asked->wait_ms : 0;
    sim_call_go(c, asked->wait_ms);
}

static const struct bus_ops ops = {.name = "memory", .create = create, .send = send, .queues = queues, .range = range, .pull = pull,
                                   .mirror = mirror};

void sim_bus_open(struct sim_bus *b, struct sim_bus_world *w, struct clock *clock)
{
    *b = (struct sim_bus){.bus = {&ops}, .world = w};
    sim_calls_init(&b->calls, clock, BUDGET_MS);
}

void sim_bus_close(struct sim_bus *b) { sim_calls_end(&b->calls); }

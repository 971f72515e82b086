/* SPDX-License-Identifier: Apache-2.0
 * redis.c: the store that Redis keeps: each call of the port said in words (redis_words.h), sent (redis_call.h), and what came back told (redis_reply.h).
 * Calls of many items are redis_batch.c's. */
#include "redis.h"

#include <stdlib.h>

#include "metric.h"
#include "redis_call.h"
#include "redis_reply.h"

#define ANSWER_BYTES (8u << 20)

/* ---- the calls ------------------------------------------------------------------------------------------------------------ */

/* A call of one command, whose words these are where they fit. NULL: it did not go. */
static struct redis_call *ask(struct store *store, enum redis_script script, const struct bucket *bucket, bool fits, const struct redis_words *words, struct waiter *w)
{
    struct redis_store *r = redis_of(store);
    const struct redis_options *o = &r->options;
    struct redis_call *c = redis_call_begin(r, script, fits, w);
    if (!c)
        return NULL;
    enum reason reason = redis_call_part(r, c, bucket, words);
    if (reason != REASON_OK) {
        redis_call_refuse(r, c, w, reason);
        return NULL;
    }
    redis_call_go(r, c, w, script == REDIS_SCRIPT_reserve ? o->reserve_ms : script == REDIS_SCRIPT_install ? o->install_ms : o->read_ms);
    return c;
}

/* What the answer will not say of itself. */
static void remember(struct redis_call *c, struct str text, size_t which)
{
    if (!c)
        return;
    memcpy(c->text, text.ptr, text.len);
    c->text_len = text.len;
    c->which = which;
}

static void redis_reserve(struct store *store, const struct reserve_ask *a, struct waiter *w)
{
    struct redis_words words;
    bool fits = redis_words_reserve(&words, a);
    remember(ask(store, REDIS_SCRIPT_reserve, &a->bucket, fits, &words, w), a->sku, 0);
}

static void redis_holdings(struct store *store, const struct holdings_ask *a, struct waiter *w)
{
    struct redis_words words;
    struct redis_slice slice = {0};
    bool fits = redis_words_holdings(&words, a, &slice);
    remember(ask(store, REDIS_SCRIPT_holdings, &a->bucket, fits, &words, w), slice.walked, slice.number);
}

static void redis_due(struct store *store, const struct due_ask *a, struct waiter *w)
{
    struct redis_store *r = redis_of(store);
    struct redis_words words;
    r->dice = r->dice * 6364136223846793005u + 1442695040888963407u;
    bool fits = redis_words_due(&words, a, (uint32_t)(r->dice >> 33));
    ask(store, REDIS_SCRIPT_due, &a->bucket, fits, &words, w);
}

#define PLAIN(call, script) \
    static void call(struct store *store, const struct script##_ask *a, struct waiter *w) \
    { \
        struct redis_words words; \
        bool fits = redis_words_##script(&words, a); \
        ask(store, REDIS_SCRIPT_##script, &a->bucket, fits, &words, w); \
    }
PLAIN(redis_look, look)
PLAIN(redis_stock, stock)
PLAIN(redis_install, install)
PLAIN(redis_close_bucket, close)
PLAIN(redis_open_bucket, open)
PLAIN(redis_reindex, reindex)
#undef PLAIN

static void redis_prove(struct store *store, struct waiter *w)
{
    const struct bucket nowhere = {.activity = str_lit("_"), .epoch = 1};    /* its other keys are never made: no activity has a bucket before it is warm */
    struct redis_words words;
    redis_words_begin(&words, REDIS_SCRIPT_prove, &nowhere);
    ask(store, REDIS_SCRIPT_prove, &nowhere, true, &words, w);
}

static struct str redis_refusal(struct store *store) { return redis_link_refusal(redis_of(store)->nodes[0].link); }

static struct str redis_incarnation(struct store *store, const struct bucket *bucket)
{
    return redis_link_incarnation(redis_node_of(redis_of(store), bucket)->link);
}

/* ---- answers --------------------------------------------------------------------------------------------------------------- */

union answer {
    struct reserve_answer reserve;
    struct look_answer look;
    struct due_answer due;
    struct stock_answer stock;
    struct holdings_answer holdings;
    struct close_answer close;
    struct open_answer open;
    struct reindex_answer reindex;
};

static void log_risks(const struct redis_risks *risks)
{
    struct log_line l = log_event(risks->text[0] ? LEVEL_ERROR : LEVEL_INFO, risks->text[0] ? "redis_unsafe" : "redis_safe_again");
    if (risks->text[0])
        log_text(&l, "detail", risks->text);
    log_end(&l);
}

/* The server's settings come with each proof; a change of what they threaten is said once. */
static enum reason read_proof(struct redis_store *r, const redisReply *reply)
{
    struct str policy, aof;
    enum reason reason = redis_reply_prove(reply, &policy, &aof);
    struct redis_risks risks = {.known = policy.len > 0 && aof.len > 0};
    struct buf text = buf_fixed(risks.text, sizeof risks.text - 1);
    if (reason != REASON_OK)
        return reason;
    risks.evicts = policy.len > 0 && !str_eq(policy, str_lit("noeviction"));
    risks.forgets = str_eq(aof, str_lit("0"));
    if (risks.evicts)
        buf_add_fmt(&text, "maxmemory-policy is " STR_FMT ": it may delete keys of a sale; set noeviction", STR_ARG(policy));
    if (risks.forgets)
        buf_add_fmt(&text, "%sappendonly is no: a crash loses all since the last snapshot; set yes", risks.evicts ? "; " : "");
    if (strcmp(risks.text, r->risks.text) != 0)
        log_risks(&risks);
    r->risks = risks;
    return REASON_OK;
}

static struct store_risks redis_risks(struct store *store)
{
    const struct redis_risks *k = &redis_of(store)->risks;
    return (struct store_risks){k->known, k->evicts, k->forgets, str_of(k->text)};
}

static enum reason read_answer(struct redis_store *r, const struct redis_call *c, const redisReply *reply, union answer *out)
{
    struct arena *arena = &r->arena;
    struct str text = {c->text, c->text_len};
    switch (c->script) {
    case REDIS_SCRIPT_reserve: return redis_reply_reserve(reply, arena_str(arena, text), &out->reserve);
    case REDIS_SCRIPT_look: return redis_reply_look(reply, arena, &out->look);
    case REDIS_SCRIPT_due: return redis_reply_due(reply, arena, &out->due);
    case REDIS_SCRIPT_stock: return redis_reply_stock(reply, arena, &out->stock);
    case REDIS_SCRIPT_install: return redis_reply_reason(reply);
    case REDIS_SCRIPT_prove: return read_proof(r, reply);
    case REDIS_SCRIPT_holdings: return redis_reply_holdings(reply, text, c->which, arena, &out->holdings);
    case REDIS_SCRIPT_close: return redis_reply_close(reply, &out->close);
    case REDIS_SCRIPT_open: return redis_reply_open(reply, &out->open);
    case REDIS_SCRIPT_reindex: return redis_reply_reindex(reply, &out->reindex);
    case REDIS_SCRIPT_settle:
    case REDIS_SCRIPT_restock:    /* never here: redis_batch_part_ended */
    case REDIS_SCRIPT_COUNT: break;
    }
    return REASON_ENGINE_FAULT;
}

static bool brings_result(const struct redis_call *c, enum reason reason)
{
    if (reason == REASON_ENGINE_FAULT || reason == REASON_STALE_EPOCH || c->script == REDIS_SCRIPT_install || c->script == REDIS_SCRIPT_prove)
        return false;
    return c->script == REDIS_SCRIPT_reserve || c->script == REDIS_SCRIPT_close || c->script == REDIS_SCRIPT_open || c->script == REDIS_SCRIPT_reindex || reason == REASON_OK;
}

/* Answers that name their server: it may have become another under a connection that stands. */
static void hear_incarnation(struct redis_node *node, const struct redis_call *c, enum reason reason, const union answer *a)
{
    struct str said = c->script == REDIS_SCRIPT_stock && reason == REASON_OK ? a->stock.incarnation
                      : c->script == REDIS_SCRIPT_close && (reason == REASON_OK || reason == REASON_UNCHANGED) ? a->close.incarnation : (struct str){0};
    if (said.len > 0 && said.len <= INCARNATION_TEXT)
        redis_link_incarnation_heard(node->link, said);
}

static void part_ended(void *context, struct redis_command *part, enum reason reason, const redisReply *reply)
{
    struct redis_node *node = context;
    struct redis_store *r = node->store;
    struct redis_call *c = part->owner;
    list_remove(&part->of_owner);
    if (!c->slot.waiter && reason == REASON_OK)
        metric_one(METRIC_LATE_ANSWERS);    /* whoever asked has gone */
    if (c->script == REDIS_SCRIPT_settle || c->script == REDIS_SCRIPT_restock) {
        redis_batch_part_ended(r, c, part, reason, reply);
        return;
    }
    union answer answer;
    arena_reset(&r->arena);
    if (reason == REASON_OK)
        reason = read_answer(r, c, reply, &answer);
    else
        reply = NULL;
    if (reply)
        hear_incarnation(node, c, reason, &answer);
    redis_call_end(r, c, reason, reply && brings_result(c, reason) ? &answer : NULL);
}

/* ---- birth and death ------------------------------------------------------------------------------------------------------ */

static const struct store_ops redis_ops = {
    .name = "redis", .reserve = redis_reserve, .settle = redis_settle, .restock = redis_restock, .look = redis_look,
    .due = redis_due, .stock = redis_stock, .install = redis_install, .holdings = redis_holdings,
    .close = redis_close_bucket, .open = redis_open_bucket, .reindex = redis_reindex, .incarnation = redis_incarnation, .prove = redis_prove,
    .risks = redis_risks, .refusal = redis_refusal,
};

struct redis_options redis_options_default(void)
{
    return (struct redis_options){.in_flight = 4096, .reserve_ms = 80, .batch_ms = 500, .read_ms = 200, .install_ms = 2000,
                                  .connect_ms = 1000, .stall_ms = 3000, .retry_first_ms = 50, .retry_most_ms = 500};
}

size_t redis_memory(size_t in_flight) { return in_flight * sizeof(struct redis_call) + redis_link_memory(in_flight) + ANSWER_BYTES; }

static void store_free(struct redis_store *r)
{
    for (struct redis_batch_memory *b; (b = r->batches); free(b))
        r->batches = b->next;
    heap_free(&r->deadlines);
    arena_free(&r->arena);
    free(r->calls);
    free(r);
}

struct store *redis_open(const struct redis_options *options)
{
    struct redis_address address;
    if (!redis_address_parse(options->url, &address))
        return NULL;
    struct redis_store *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct redis_store){.store = {&redis_ops}, .options = *options, .dice = uv_hrtime(), .arena = arena_new(ANSWER_BYTES),
                              .calls = calloc(options->in_flight, sizeof *r->calls)};
    list_init(&r->free);
    list_init(&r->refusals);
    struct redis_link_options of_link = {options->in_flight, options->connect_ms, options->stall_ms, options->retry_first_ms, options->retry_most_ms, options->deployment};
    r->nodes[0].store = r;
    if (r->arena.start && r->calls)
        r->nodes[0].link = redis_link_open(options->loop, &address, of_link, part_ended, &r->nodes[0]);
    if (!r->nodes[0].link) {
        store_free(r);
        return NULL;
    }
    for (size_t i = 0; i < options->in_flight; i++) {
        list_init(&r->calls[i].parts);
        list_append(&r->free, &r->calls[i].link);
    }
    check(uv_timer_init(options->loop, &r->timer) == 0 && uv_idle_init(options->loop, &r->turn) == 0);
    r->timer.data = r->turn.data = r;
    r->open = 2 + REDIS_NODES;
    return &r->store;
}

static void one_gone(struct redis_store *r)
{
    if (--r->open > 0)
        return;
    void (*closed)(void *) = r->closed;
    void *arg = r->closed_arg;
    store_free(r);
    if (closed)
        closed(arg);
}

static void handle_gone(uv_handle_t *h) { one_gone(h->data); }
static void link_gone(void *node) { one_gone(((struct redis_node *)node)->store); }

void redis_close(struct store *store, void (*closed)(void *), void *arg)
{
    struct redis_store *r = redis_of(store);
    r->closing = true;
    r->closed = closed;
    r->closed_arg = arg;
    for (size_t i = 0; i < REDIS_NODES; i++)
        redis_link_close(r->nodes[i].link, link_gone);
    while (!list_empty(&r->refusals))
        redis_refusals_tell(r);
    uv_close((uv_handle_t *)&r->timer, handle_gone);
    uv_close((uv_handle_t *)&r->turn, handle_gone);
}

bool redis_up(const struct store *store)
{
    const struct redis_store *r = container_of((struct store *)(uintptr_t)store, struct redis_store, store);
    return redis_link_up(r->nodes[0].link);
}

/* SPDX-License-Identifier: Apache-2.0
 * review.c: `seckill review list|show|resolve`, and what the admin API needs of it. A dead letter is a review of kind MESSAGE: show reads it, RETRY
 * replays it. */
#include "review.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "await.h"
#include "check.h"
#include "ident.h"
#include "json.h"
#include "killpoint.h"
#include "message.h"
#include "payment.h"
#include "ports.h"
#include "scan.h"
#include "verb.h"

#define CALL_MS 5000
#define BODY_SHOWN 65536

/* ---- as JSON ----------------------------------------------------------------------------------------------------------------------------- */

static bool is_text(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] < 0x20 || (unsigned char)s.ptr[i] > 0x7e)
            return false;
    return true;
}

static void write_body(struct buf *out, struct str body)
{
    static unsigned char text[BODY_SHOWN * 4 / 3 + 8];
    size_t n = body.len < BODY_SHOWN ? body.len : BODY_SHOWN;
    if (is_text(body)) {
        json_member_str(out, "body", (struct str){body.ptr, n});
    } else {
        int len = EVP_EncodeBlock(text, (const unsigned char *)body.ptr, (int)n);
        json_member_str(out, "body_base64", (struct str){(const char *)text, (size_t)len});
    }
}

void review_write(struct buf *out, const struct review *r)
{
    char token[TOKEN_TEXT];
    json_open(out);
    json_member_str(out, "review_id", r->id);
    json_member_text(out, "kind", review_kind_name(r->kind));
    json_member_text(out, "reason", reason_word(r->why));
    json_member_text(out, "decision", review_decision_name(r->decision));
    json_maybe_time(out, "opened_at", r->opened_ms);
    json_maybe_str(out, "consumer_group", r->group);
    json_maybe_str(out, "message_key", r->key);
    json_maybe_str(out, "message_id", r->what.message);
    json_maybe_str(out, "reservation_id", r->what.reservation);
    json_maybe_str(out, "request_id", r->what.request);
    json_maybe_str(out, "activity_id", r->what.activity);
    json_maybe_str(out, "sku_id", r->what.sku);
    json_maybe_str(out, "user_id", r->what.user);
    if (r->what.token.unit > 0)
        json_member_str(out, "inventory_token_id", (struct str){token, token_write(r->what.token, token)});
    if (r->kind == REVIEW_CALLBACK)
        json_maybe_str(out, "channel", r->payment.channel);
    if (r->kind == REVIEW_PAYMENT) {
        json_key(out, "payment");
        payment_write(out, &r->payment);
    }
    json_maybe_time(out, "resolved_at", r->resolved_ms);
    json_maybe_str(out, "actor", r->actor);
    json_maybe_str(out, "note", r->note);
    if (r->body.len > 0)
        write_body(out, r->body);
    json_close(out);
}

void review_list_write(struct buf *out, const struct reviews_answer *a)
{
    json_open(out);
    json_member_u64(out, "open", a->open);
    json_key(out, "reviews");
    json_open_array(out);
    for (size_t i = 0; i < a->count; i++)
        review_write(out, &a->reviews[i]);
    json_close_array(out);
    json_close(out);
}

bool review_decision_read(struct str body, struct arena *a, enum review_decision *decision, struct str *note, struct str *complaint)
{
    struct scan s = scan_of(body);
    struct str word = {0}, name;
    bool good = scan_char(&s, '{');
    *note = (struct str){0};
    *complaint = str_lit("the body is {\"decision\": \"RELEASE\", \"RETRY\", \"DISMISS\", \"APPLY\" or \"REFUND\", \"reason\": why}");
    while (good) {
        char memory[16];
        struct arena small = {.start = memory, .cap = sizeof memory};
        good = scan_str(&s, &small, 12, &name) && scan_char(&s, ':');
        struct str *into = !good ? NULL : str_eq(name, str_lit("decision")) ? &word : str_eq(name, str_lit("reason")) ? note : NULL;
        good = into && into->len == 0 && scan_str(&s, a, 200, into) && into->len > 0;
        if (!good || scan_peek(&s) != ',')
            break;
        good = scan_char(&s, ',');
    }
    return good && scan_char(&s, '}') && scan_end(&s) && word.len > 0 && note->len > 0 && review_decision_parse(word, decision);
}

/* ---- resolve ------------------------------------------------------------------------------------------------------------------------------- */

static void end(struct review_resolving *r, enum reason reason)
{
    r->reason = reason;
    r->done(r);
}

static void resolved(struct waiter *w, enum reason reason, const void *result)
{
    struct review_resolving *r = container_of(w, struct review_resolving, waiter);
    const struct resolve_answer *a = result;
    if (reason == REASON_OK) {
        KILLPOINT(RESOLVE_ANSWERED);
        r->outcome = a->outcome;
        r->why = a->why;
    }
    end(r, reason);
}

static void found(struct waiter *w, enum reason reason, const void *result)
{
    struct review_resolving *r = container_of(w, struct review_resolving, waiter);
    const struct reviews_answer *a = result;
    struct arena arena = {.start = r->memory, .cap = sizeof r->memory};
    struct create_order what;
    if (reason != REASON_OK) {
        end(r, reason);
        return;
    }
    bool reads = a->reviews[0].kind == REVIEW_MESSAGE && r->decision != REVIEW_DISMISS;
    enum reason read = reads ? message_read(a->reviews[0].body, &arena, &what) : REASON_OK;
    if (reads && read == REASON_OK && !message_genuine(r->keys, &what))
        read = REASON_MESSAGE_FORGED;
    if (read != REASON_OK) {
        end(r, read);
        return;
    }
    struct resolve_ask ask = {.id = r->id, .decision = r->decision, .what = reads ? &what : NULL, .actor = r->actor, .note = r->note};
    r->waiter = (struct waiter){.wake = resolved, .budget_ms = CALL_MS};
    ledger_resolve(r->ledger, &ask, &r->waiter);
    KILLPOINT(RESOLVE_ASKED);
}

void review_resolve(struct review_resolving *r, struct ledger *ledger)
{
    r->ledger = ledger;
    r->outcome = r->why = REASON_OK;
    r->waiter = (struct waiter){.wake = found, .budget_ms = CALL_MS};
    ledger_reviews(ledger, &(struct reviews_ask){.id = r->id, .limit = 1}, &r->waiter);
}

/* ---- the verb -------------------------------------------------------------------------------------------------------------------------------- */

struct reviewing {
    const struct call *call;
    bool one;
    size_t count;
};

static void print_row(const struct review *r)
{
    char at[TIME_TEXT + 1] = "";
    time_write(r->opened_ms, at);
    struct str about = r->kind == REVIEW_PAYMENT ? r->payment.payment : r->what.reservation.len > 0 ? r->what.reservation : r->key;
    printf("%-24.24s  %-11s  %-19s  %-8s  " STR_FMT "  " STR_FMT "\n", at, review_kind_name(r->kind), reason_word(r->why), review_decision_name(r->decision), STR_ARG(r->id), STR_ARG(about));
}

static void keep_reviews(struct await *a, const void *result)
{
    struct reviewing *v = a->into;
    const struct reviews_answer *answer = result;
    struct buf out = buf_growing(REVIEW_JSON_MAX);
    v->count = answer->count;
    if (v->one)
        review_write(&out, &answer->reviews[0]);
    else if (v->call->json)
        review_list_write(&out, answer);
    for (size_t i = 0; i < answer->count && out.len == 0; i++)
        print_row(&answer->reviews[i]);
    if (out.len > 0)
        printf(STR_FMT "\n", STR_ARG(buf_str(&out)));
    else
        fprintf(stderr, "%llu open\n", (unsigned long long)answer->open);
    buf_free(&out);
}

static int show(const struct call *c, struct ports *p, uv_loop_t *loop, struct str id)
{
    struct reviewing v = {.call = c, .one = id.len > 0};
    struct await a = AWAIT(.keep = keep_reviews, .into = &v);
    a.waiter.budget_ms = CALL_MS;
    ledger_reviews(p->ledger, &(struct reviews_ask){.id = id, .all = call_switch(c, "all"), .limit = (size_t)call_number(c, "limit")}, &a.waiter);
    enum reason reason = await_run(&a, loop);
    if (reason == REASON_NOT_FOUND)
        return call_failed(c, LEAVE_FAILED, "there is no such review");
    return reason == REASON_OK ? LEAVE_DONE : call_failed(c, LEAVE_UNREACHABLE, "postgresql: %s", reason_word(reason));
}

struct telling {
    struct review_resolving resolving;
    bool done;
};
static void told(struct review_resolving *r) { container_of(r, struct telling, resolving)->done = true; }

static int resolve(const struct call *c, struct ports *p, uv_loop_t *loop, struct str id)
{
    char actor[96], host[48] = "?";
    enum review_decision decision;
    struct str note = str_of(call_text(c, "reason"));
    if (!review_decision_parse(str_of(call_text(c, "decision")), &decision))
        return call_misused(c, "--decision is RELEASE, RETRY, DISMISS, APPLY or REFUND");
    if (note.len == 0)
        return call_misused(c, "say why, in --reason: it is written down for ever");
    gethostname(host, sizeof host - 1);
    snprintf(actor, sizeof actor, "seckill review, %s at %s", getenv("USER") ? getenv("USER") : "somebody", host);
    struct telling t = {.resolving = {.id = id, .actor = str_of(actor), .note = note, .decision = decision, .done = told}};
    struct ident_keys keys = ports_ident_keys(c->config);
    t.resolving.keys = &keys;
    review_resolve(&t.resolving, p->ledger);
    await_flag(loop, &t.done, 0);
    enum reason reason = t.resolving.reason;
    if (reason == REASON_OK) {
        printf("%s: %s%s%s\n", review_decision_name(decision), reason_word(t.resolving.outcome), t.resolving.why != REASON_OK ? ", " : "",
               t.resolving.why != REASON_OK ? reason_word(t.resolving.why) : "");
        return LEAVE_DONE;
    }
    return call_failed(c, reason_fate(reason) == FATE_REFUSED ? LEAVE_FAILED : LEAVE_UNREACHABLE, "%s: %s", reason_word(reason),
                       reason == REASON_CONFLICT ? "it was decided otherwise, or this decision cannot end it; it stays as it is" : reason_row(reason)->text);
}

int verb_review(const struct call *c)
{
    uv_loop_t loop;
    struct ports ports;
    char memory[512];
    struct buf complaint = buf_fixed(memory, sizeof memory);
    const char *what = c->argument_count > 0 ? c->arguments[0] : "list";
    bool lists = strcmp(what, "list") == 0, shows = strcmp(what, "show") == 0, resolves = strcmp(what, "resolve") == 0;
    if (!lists && !shows && !resolves)
        return call_misused(c, "what it does is list, show or resolve");
    if (c->argument_count != (lists ? (c->argument_count > 0 ? 1u : 0u) : 2u))
        return call_misused(c, lists ? "list takes no id" : "which review?");
    if (!lists && !str_is_id(str_of(c->arguments[1])))
        return call_misused(c, "\"%s\" is no review_id", c->arguments[1]);
    uv_loop_init(&loop);
    bool open = ports_open(&ports, &loop, c->config, PORTS_LEDGER, &complaint), ready = open && ports_ready(&ports, 5000);
    int leave = !open ? call_failed(c, LEAVE_CONFIG, STR_FMT, STR_ARG(buf_str(&complaint))) : !ready ? call_failed(c, LEAVE_UNREACHABLE, "postgresql does not answer")
                : resolves ? resolve(c, &ports, &loop, str_of(c->arguments[1])) : show(c, &ports, &loop, shows ? str_of(c->arguments[1]) : (struct str){0});
    if (open)
        ports_close(&ports);
    ports_loop_end(&loop);
    return leave;
}

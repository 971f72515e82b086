/* SPDX-License-Identifier: Apache-2.0
 * activity.c: `seckill activity ...`: the admin API's calls as words. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "activity_json.h"
#include "check.h"
#include "http_ask.h"
#include "json.h"
#include "money_text.h"
#include "suggest.h"
#include "verb.h"

#define DAY_MS (24 * 3600 * 1000LL)
#define DEMO_SKU "sku_demo"
#define DEMO_STOCK 10000
#define DEMO_STOCK_TEXT "10,000"
#define CREATE_MS 120000
#define MOVE_MS 120000
#define BODY_MAX 65536

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- printing --------------------------------------------------------------------------------------------------------------------- */

static const char *text_in(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static void print_activity(const json_t *a)
{
    size_t i;
    json_t *sku;
    char money[MONEY_TEXT];
    printf("%-20s %-7s from %s until %s\n", text_in(a, "activity_id"), text_in(a, "state"), text_in(a, "starts_at"), text_in(a, "ends_at"));
    json_array_foreach(json_object_get(a, "skus"), i, sku)
        printf("  %-18s stock %lld at %s\n", text_in(sku, "sku_id"), (long long)json_integer_value(json_object_get(sku, "stock")),
               money_text(money, json_integer_value(json_object_get(sku, "price")), str_of(text_in(sku, "currency"))));
}

static void print_answer(const struct call *c, const struct http_ask *ask)
{
    size_t i;
    json_t *one, *list = json_object_get(ask->json, "activities");
    if (c->json) {
        json_dumpf(ask->json, stdout, JSON_COMPACT);
        putchar('\n');
    } else if (list) {
        json_array_foreach(list, i, one)
            print_activity(one);
    } else if (json_object_get(ask->json, "skus")) {
        print_activity(ask->json);
    } else {
        printf("%s is %s\n", http_ask_text(ask, "activity_id"), http_ask_text(ask, "state"));
    }
}

/* LEAVE_DONE where the answer is good; else says what is not. */
static int judge(const struct call *c, const struct http_ask *ask, bool came)
{
    if (!came)
        return call_failed(c, LEAVE_UNREACHABLE, "the admin API at %s: %s", c->config->admin_listen, ask->fault);
    if (ask->status < 300)
        return LEAVE_DONE;
    call_failed(c, LEAVE_FAILED, "%d %s: %s", ask->status, http_ask_text(ask, "code"), http_ask_text(ask, "detail"));
    return ask->status == 503 ? LEAVE_UNREACHABLE : LEAVE_FAILED;
}

/* ---- create ------------------------------------------------------------------------------------------------------------------------ */

static void write_body(struct buf *out, struct str id, struct str title, struct str sku, int64_t stock, int64_t price, struct str currency, struct str starts,
                       struct str ends)
{
    json_open(out);
    json_member_str(out, "activity_id", id);
    json_maybe_str(out, "title", title);
    json_member_str(out, "starts_at", starts);
    json_member_str(out, "ends_at", ends);
    json_key(out, "skus");
    json_open_array(out);
    json_open(out);
    json_member_str(out, "sku_id", sku);
    json_member_i64(out, "stock", stock);
    json_member_i64(out, "price", price);
    json_member_str(out, "currency", currency);
    json_close(out);
    json_close_array(out);
    json_close(out);
}

/* NULL: read; else why not. */
static const char *body_of_file(const char *path, struct buf *out)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!f)
        return strerror(errno);
    char *room = buf_room(out, BODY_MAX);
    check(room != NULL);
    out->len += fread(room, 1, BODY_MAX, f);
    const char *why = ferror(f) ? strerror(errno) : feof(f) ? NULL : "it is too long";
    if (f != stdin)
        fclose(f);
    return why;
}

static bool times_of_flags(const struct call *c, char starts[TIME_TEXT], char ends[TIME_TEXT])
{
    int64_t from = now_ms(), until;
    if (call_text(c, "starts-at")[0] && !time_parse(str_of(call_text(c, "starts-at")), &from))
        return false;
    until = from + DAY_MS;
    if (call_text(c, "ends-at")[0] && !time_parse(str_of(call_text(c, "ends-at")), &until))
        return false;
    time_write(from, starts);
    time_write(until, ends);
    return true;
}

/* The body to post; an exit code where the flags do not make one. */
static int create_body(const struct call *c, struct buf *out)
{
    char starts[TIME_TEXT], ends[TIME_TEXT];
    if (call_text(c, "file")[0]) {
        const char *why = body_of_file(call_text(c, "file"), out);
        return why ? call_failed(c, LEAVE_FAILED, "cannot read %s: %s", call_text(c, "file"), why) : LEAVE_DONE;
    }
    if (c->argument_count != 2 || call_text(c, "sku")[0] == 0 || call_text(c, "stock")[0] == 0)
        return call_misused(c, "create needs an ID, --sku and --stock; or --file; or --demo");
    if (!times_of_flags(c, starts, ends))
        return call_misused(c, "--starts-at and --ends-at are times of RFC 3339");
    write_body(out, str_of(c->arguments[1]), str_of(call_text(c, "title")), str_of(call_text(c, "sku")), call_number(c, "stock"), call_number(c, "price"),
               str_of(call_text(c, "currency")), (struct str){starts, TIME_TEXT}, (struct str){ends, TIME_TEXT});
    return LEAVE_DONE;
}

static int create(const struct call *c, struct http_ask *ask)
{
    struct buf body = buf_growing(BODY_MAX + 1024);
    int leave = create_body(c, &body);
    if (leave == LEAVE_DONE)
        leave = judge(c, ask, http_ask(ask, "POST", "/admin/v1/activities", buf_str(&body), CREATE_MS));
    if (leave == LEAVE_DONE)
        print_answer(c, ask);
    buf_free(&body);
    return leave;
}

/* ---- moves -------------------------------------------------------------------------------------------------------------------------- */

static int move(const struct call *c, struct http_ask *ask, const char *id, const char *event)
{
    char target[256], memory[512];
    struct buf body = buf_fixed(memory, sizeof memory);
    if (call_text(c, "reason")[0]) {
        json_open(&body);
        json_member_text(&body, "reason", call_text(c, "reason"));
        json_close(&body);
    }
    snprintf(target, sizeof target, "/admin/v1/activities/%s/%s", id, event);
    return judge(c, ask, http_ask(ask, "POST", target, buf_str(&body), MOVE_MS));
}

/* One activity, or all of them: a list comes in pages, and each is printed as it comes. */
static int show(const struct call *c, struct http_ask *ask, const char *id)
{
    char target[256];
    long long after = 0;
    int leave;
    do {
        if (id)
            snprintf(target, sizeof target, "/admin/v1/activities/%s", id);
        else
            snprintf(target, sizeof target, "/admin/v1/activities?after=%lld", after);
        leave = judge(c, ask, http_ask(ask, "GET", target, (struct str){0}, 10000));
        if (leave != LEAVE_DONE)
            return leave;
        print_answer(c, ask);
        after = json_integer_value(json_object_get(ask->json, "next"));
    } while (!id && after > 0);
    return leave;
}

/* The number of units that are for sale now, as the conservation check counts them; -1 where it could not be finished. */
static int64_t count_left(struct http_ask *ask, const char *id)
{
    char target[160];
    snprintf(target, sizeof target, "/admin/v1/activities/%s/conservation", id);
    if (!http_ask(ask, "GET", target, (struct str){0}, 10000) || ask->status != 200)
        return -1;
    const json_t *left = json_object_get(json_array_get(json_object_get(ask->json, "skus"), 0), "a");
    return json_is_integer(left) ? json_integer_value(left) : -1;
}

/* One line that `make run` shows as it stands: what is on sale, and how much of it is left. */
static void print_demo(struct http_ask *ask, const char *id)
{
    char left[64] = "";
    const char *state = http_ask_text(ask, "state");
    bool open = strcmp(state, "OPEN") == 0;
    int64_t count = count_left(ask, id);
    if (count == 0)
        snprintf(left, sizeof left, ", all of them sold: make sale opens a new sale");
    else if (count > 0 && count < DEMO_STOCK)
        snprintf(left, sizeof left, ", %lld of them left", (long long)count);
    printf("%s: " DEMO_SKU ", " DEMO_STOCK_TEXT " units%s%s\n", id, open ? ", open" : "", left);
}

/* Creates the demo activity where there is none, and moves it to OPEN from any state but CLOSED. */
static int create_demo(const struct call *c, struct http_ask *ask)
{
    const char *id = c->config->demo_activity;
    char memory[1024], target[160], starts[TIME_TEXT], ends[TIME_TEXT];
    struct buf body = buf_fixed(memory, sizeof memory);
    snprintf(target, sizeof target, "/admin/v1/activities/%s", id);
    bool there = http_ask(ask, "GET", target, (struct str){0}, 10000);
    int leave = LEAVE_DONE;
    if (there && ask->status == 404) {
        time_write(now_ms() - 1000, starts);
        time_write(now_ms() + DAY_MS, ends);
        write_body(&body, str_of(id), str_lit("The demo sale"), str_lit(DEMO_SKU), DEMO_STOCK, 9900, str_lit("CNY"), (struct str){starts, TIME_TEXT},
                   (struct str){ends, TIME_TEXT});
        there = http_ask(ask, "POST", "/admin/v1/activities", buf_str(&body), CREATE_MS);
    }
    leave = judge(c, ask, there);
    static const struct { const char *state, *event; } steps[] = {{"DRAFT", "warm"}, {"WARM", "open"}, {"PAUSED", "resume"}};
    for (size_t i = 0; leave == LEAVE_DONE && i < countof(steps); i++) {
        if (strcmp(http_ask_text(ask, "state"), steps[i].state) == 0)
            leave = move(c, ask, id, steps[i].event);
    }
    if (leave == LEAVE_DONE && strcmp(http_ask_text(ask, "state"), "OPEN") != 0)
        return call_failed(c, LEAVE_FAILED, "%s is %s, and cannot be opened again; `make sale` opens a new demo sale", id, http_ask_text(ask, "state"));
    if (leave == LEAVE_DONE && c->json)
        return show(c, ask, id);
    if (leave == LEAVE_DONE)
        print_demo(ask, id);
    return leave;
}

static int unknown_word(const struct call *c, const char *word)
{
    static const char *const words[] = {"create", "list", "show", "warm", "open", "pause", "resume", "close"};
    struct suggest nearest = {.typed = str_of(word)};
    for (size_t i = 0; i < countof(words); i++)
        suggest_offer(&nearest, words[i]);
    return nearest.best ? call_misused(c, "cannot \"%s\"; did you mean \"%s\"?", word, nearest.best) : call_misused(c, "cannot \"%s\"", word);
}

static int act(const struct call *c, struct http_ask *ask)
{
    const char *word = c->arguments[0], *id = c->argument_count > 1 ? c->arguments[1] : NULL;
    if (strcmp(word, "create") == 0)
        return call_switch(c, "demo") ? create_demo(c, ask) : create(c, ask);
    if (strcmp(word, "list") == 0)
        return show(c, ask, NULL);
    if (id && !str_is_id(str_of(id)))
        return call_misused(c, "\"%s\" is no id", id);
    if (strcmp(word, "show") == 0)
        return id ? show(c, ask, id) : call_misused(c, "show which?");
    for (int e = 0; e < ACTIVITY_EVENT_COUNT; e++)
        if (strcmp(word, activity_event_name((enum activity_event)e)) == 0) {
            int leave = id ? move(c, ask, id, word) : call_misused(c, "%s which?", word);
            if (leave == LEAVE_DONE)
                print_answer(c, ask);
            return leave;
        }
    return unknown_word(c, word);
}

int verb_activity(const struct call *c)
{
    struct http_ask ask;
    if (c->argument_count == 0)
        return call_misused(c, "do what?");
    if (!http_ask_open(&ask, c->config->admin_listen))
        return call_failed(c, LEAVE_CONFIG, "admin.listen: cannot be called");
    ask.token = config_admin_token(c->config);
    int leave = act(c, &ask);
    http_ask_close(&ask);
    return leave;
}

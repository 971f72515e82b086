/* SPDX-License-Identifier: Apache-2.0
 * channel_http.c: a call is a slot, a transfer of libcurl and an answer to be read. libcurl's multi interface runs on the loop: it says which sockets it waits for
 * (on_socket_wanted) and when it wants to be called (on_timer_wanted); what has ended is taken out behind each of its steps, never from within one. */
#include "channel_http.h"

#include <curl/curl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "address.h"
#include "arena.h"
#include "check.h"
#include "json.h"
#include "list.h"

#define CONNECTIONS 8
#define IN_FLIGHT 256
#define BUDGET_MS 2000
#define ANSWER_MAX (1 << 20)
#define TEXTS 4096
#define URL_MAX 512

struct channel_http {
    struct channel channel;
    uv_loop_t *loop;
    CURLM *multi;
    struct curl_slist *headers;
    char base[URL_MAX], ca[URL_MAX];
    struct link calls;
    size_t in_flight;
    uv_timer_t timer;                /* libcurl's */
    uv_timer_t later;                /* wakes those that could not be asked at all, after their call has returned */
    unsigned handles;                /* of the loop, still open */
};
struct channel_call {
    struct slot slot;
    struct link link;
    struct channel_http *of;
    CURL *easy;
    struct buf body, answer;
    char order[72];                  /* of which payments are asked for; empty: a refund */
    bool refused, too_large;         /* refused: it never left */
    struct payment payments[CHANNEL_PAYMENTS_MAX];
    char memory[TEXTS];
};

static void end_call(struct channel_call *c, enum reason reason, const void *result)
{
    list_remove(&c->link);
    c->of->in_flight--;
    slot_wake(&c->slot, reason, result);
    curl_easy_cleanup(c->easy);
    buf_free(&c->body);
    buf_free(&c->answer);
    free(c);
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------------- */

static bool read_text(struct arena *a, const json_t *object, const char *key, struct str *out)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_string(v))
        return false;
    *out = arena_str(a, (struct str){json_string_value(v), json_string_length(v)});
    return out->len == json_string_length(v);
}

/* 9900 and 9900.0: some channels write all numbers alike. */
static bool read_amount(const json_t *v, int64_t *out)
{
    double real = json_real_value(v);
    *out = json_is_integer(v) ? json_integer_value(v) : fabs(real) < 9e15 ? (int64_t)real : -1;
    return *out >= 0 && (json_is_integer(v) || (json_is_real(v) && (double)*out == real));
}

static bool read_payment(struct arena *a, const json_t *v, struct payment *p)
{
    struct str occurred;
    return read_text(a, v, "payment_id", &p->payment) && str_is_id(p->payment) && read_text(a, v, "order_id", &p->order) && str_is_id(p->order) &&
           read_text(a, v, "currency", &p->currency) && p->currency.len == 3 && read_text(a, v, "channel", &p->channel) && p->channel.len > 0 && p->channel.len <= 64 &&
           read_text(a, v, "occurred_at", &occurred) && time_parse(occurred, &p->occurred_ms) && read_amount(json_object_get(v, "amount"), &p->amount);
}

static bool says(const json_t *v, const char *key, const char *word)
{
    const char *text = json_string_value(json_object_get(v, key));
    return text && strcmp(text, word) == 0;
}

/* What succeeded comes first, for there is an end. One payment that cannot be read hides no other; unless it is another order's or failed, it is counted. */
static void read_list(struct channel_call *c, const json_t *list, struct channel_answer *out)
{
    struct arena a = {.start = c->memory, .cap = sizeof c->memory};
    size_t i;
    json_t *v;
    *out = (struct channel_answer){.payments = c->payments};
    for (int failed = 0; failed < 2; failed++)
        json_array_foreach((json_t *)list, i, v) {
            const char *order = json_string_value(json_object_get(v, "order_id"));
            bool other = order && strcmp(order, c->order) != 0;
            if (other || says(v, "result", "FAILED") != (failed == 1))
                continue;
            struct payment p = {.result = failed ? PAYMENT_FAILED : PAYMENT_SUCCESS};
            bool good = out->count < CHANNEL_PAYMENTS_MAX && (failed || says(v, "result", "SUCCESS")) && read_payment(&a, v, &p);
            if (good)
                c->payments[out->count++] = p;
            out->unreadable += !good && !failed;
        }
}

static void take_payments(struct channel_call *c, const json_t *root)
{
    const json_t *list = json_object_get(root, "payments");
    struct channel_answer answer;
    if (!json_is_array(list)) {
        end_call(c, REASON_ENGINE_FAULT, NULL);
        return;
    }
    read_list(c, list, &answer);
    end_call(c, REASON_OK, &answer);
}

static void take_refund(struct channel_call *c, const json_t *root)
{
    enum reason reason = says(root, "status", "DONE") ? REASON_OK : says(root, "status", "PENDING") ? REASON_REFUND_PENDING : says(root, "status", "FAILED") ? REASON_REFUND_FAILED
                         : REASON_ENGINE_FAULT;
    end_call(c, reason, NULL);
}

/* What could not be sent did not happen. What broke off before a word was said is silence; behind the first word it is an answer that cannot be understood. */
static enum reason reason_of(const struct channel_call *c, CURLcode code, long status)
{
    if (c->too_large || code == CURLE_WEIRD_SERVER_REPLY || code == CURLE_UNSUPPORTED_PROTOCOL)
        return REASON_ENGINE_FAULT;
    if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT || code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CONNECT_ERROR ||
        code == CURLE_SSL_CACERT_BADFILE)
        return REASON_DEPENDENCY_DOWN;
    return status > 0 ? REASON_ENGINE_FAULT : code == CURLE_OPERATION_TIMEDOUT ? REASON_TIMED_OUT : REASON_LINK_LOST;
}

static void on_transfer_end(struct channel_call *c, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK) {
        end_call(c, reason_of(c, code, status), NULL);
        return;
    }
    if (status != 200 && !(c->order[0] == 0 && (status == 201 || status == 202))) {
        end_call(c, status == 429 || status >= 500 ? REASON_ENGINE_BUSY : REASON_ENGINE_REFUSED, NULL);
        return;
    }
    json_t *root = json_loadb(c->answer.len > 0 ? c->answer.ptr : "", c->answer.len, JSON_ALLOW_NUL, NULL);
    if (c->order[0] != 0)
        take_payments(c, root);
    else
        take_refund(c, root);
    json_decref(root);
}

static void take_ended(struct channel_http *h)
{
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(h->multi, &left))) {
        struct channel_call *c = NULL;
        CURL *easy = m->easy_handle;
        CURLcode code = m->data.result;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&c);
        curl_multi_remove_handle(h->multi, easy);
        on_transfer_end(c, code);
    }
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct channel_call *c = arg;
    c->too_large = c->too_large || c->answer.len + size * count > ANSWER_MAX;
    if (!c->too_large)
        buf_add_str(&c->answer, (struct str){data, size * count});
    return c->too_large ? CURL_WRITEFUNC_ERROR : size * count;
}

/* ---- libcurl on the loop ---------------------------------------------------------------------------------------------------------------- */

struct channel_socket {
    uv_poll_t poll;
    struct channel_http *of;
    curl_socket_t fd;
};

static void step(struct channel_http *h, curl_socket_t fd, int events)
{
    int running;
    curl_multi_socket_action(h->multi, fd, events, &running);
    take_ended(h);
}

static void on_socket_ready(uv_poll_t *poll, int status, int events)
{
    struct channel_socket *s = poll->data;
    int flags = status < 0 ? CURL_CSELECT_ERR : (events & UV_READABLE ? CURL_CSELECT_IN : 0) | (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);
    step(s->of, s->fd, flags);
}

static void on_socket_closed(uv_handle_t *handle) { free(handle->data); }

static struct channel_socket *socket_new(struct channel_http *h, curl_socket_t fd)
{
    struct channel_socket *s = calloc(1, sizeof *s);
    check(s != NULL);
    *s = (struct channel_socket){.of = h, .fd = fd};
    check(uv_poll_init_socket(h->loop, &s->poll, fd) == 0);
    s->poll.data = s;
    curl_multi_assign(h->multi, fd, s);
    return s;
}

static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *arg, void *assigned)
{
    (void)easy;
    struct channel_http *h = arg;
    struct channel_socket *s = assigned;
    if (what == CURL_POLL_REMOVE) {
        if (s) {
            curl_multi_assign(h->multi, fd, NULL);
            uv_poll_stop(&s->poll);
            uv_close((uv_handle_t *)&s->poll, on_socket_closed);
        }
        return 0;
    }
    s = s ? s : socket_new(h, fd);
    uv_poll_start(&s->poll, (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0), on_socket_ready);
    return 0;
}

static void on_timer(uv_timer_t *timer) { step(timer->data, CURL_SOCKET_TIMEOUT, 0); }

static int on_timer_wanted(CURLM *multi, long ms, void *arg)
{
    (void)multi;
    struct channel_http *h = arg;
    if (ms < 0)
        uv_timer_stop(&h->timer);
    else
        uv_timer_start(&h->timer, on_timer, (uint64_t)ms, 0);
    return 0;
}

/* ---- questions ------------------------------------------------------------------------------------------------------------------------- */

static void on_later(uv_timer_t *timer)
{
    struct channel_http *h = timer->data;
    for (struct link *at = h->calls.next, *next; at != &h->calls; at = next) {
        struct channel_call *c = list_entry(at, struct channel_call, link);
        next = at->next;
        if (c->refused)
            end_call(c, REASON_OVERLOADED, NULL);
    }
}

static struct channel_call *call_new(struct channel_http *h, struct waiter *w)
{
    struct channel_call *c = calloc(1, sizeof *c);
    check(c != NULL);
    *c = (struct channel_call){.of = h, .body = buf_growing(1024), .answer = buf_growing(ANSWER_MAX), .easy = curl_easy_init()};
    check(c->easy != NULL);
    slot_arm(&c->slot, w);
    list_append(&h->calls, &c->link);
    h->in_flight++;
    return c;
}

static void send_call(struct channel_call *c, const char *path, uint32_t budget_ms)
{
    struct channel_http *h = c->of;
    char url[URL_MAX + 128];
    struct buf b = buf_fixed(url, sizeof url - 1);
    buf_add_fmt(&b, "%s%s%s", h->base, path, c->order);
    check(buf_ok(&b) && buf_ok(&c->body));
    url[b.len] = 0;
    const struct { CURLoption option; const void *value; } texts[] = {
        {CURLOPT_URL, url}, {CURLOPT_PROTOCOLS_STR, "http,https"}, {CURLOPT_PROXY, ""}, {CURLOPT_USERAGENT, "seckill"}, {CURLOPT_HTTPHEADER, h->headers},
        {CURLOPT_PRIVATE, c}, {CURLOPT_WRITEDATA, c}, {CURLOPT_CAINFO, h->ca[0] ? h->ca : NULL}, {CURLOPT_POSTFIELDS, c->body.len > 0 ? c->body.ptr : NULL}};
    const struct { CURLoption option; long value; } numbers[] = {
        {CURLOPT_NOSIGNAL, 1}, {CURLOPT_FOLLOWLOCATION, 0}, {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1}, {CURLOPT_TIMEOUT_MS, budget_ms ? budget_ms : BUDGET_MS},
        {CURLOPT_POSTFIELDSIZE, (long)c->body.len}, {c->body.len > 0 ? CURLOPT_POST : CURLOPT_HTTPGET, 1}};
    bool good = true;
    for (size_t i = 0; i < countof(numbers); i++)
        good &= curl_easy_setopt(c->easy, numbers[i].option, numbers[i].value) == CURLE_OK;
    for (size_t i = 0; i < countof(texts); i++)
        if (texts[i].value)
            good &= curl_easy_setopt(c->easy, texts[i].option, texts[i].value) == CURLE_OK;
    good &= curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK;
    check(good);
    c->refused = h->in_flight > IN_FLIGHT || curl_multi_add_handle(h->multi, c->easy) != CURLM_OK;
    if (c->refused)
        uv_timer_start(&h->later, on_later, 0, 0);
}

static void ask_payments(struct channel *channel, struct str order, struct waiter *w)
{
    struct channel_http *h = container_of(channel, struct channel_http, channel);
    uint32_t budget_ms = w->budget_ms;
    struct channel_call *c = call_new(h, w);
    check(str_is_id(order) && order.len < sizeof c->order);
    memcpy(c->order, order.ptr, order.len);
    send_call(c, "/v1/payments?order_id=", budget_ms);
}

static void give_back(struct channel *channel, const struct payment *p, struct waiter *w)
{
    struct channel_http *h = container_of(channel, struct channel_http, channel);
    uint32_t budget_ms = w->budget_ms;
    struct channel_call *c = call_new(h, w);
    json_open(&c->body);
    json_member_str(&c->body, "payment_id", p->payment);
    json_member_str(&c->body, "order_id", p->order);
    json_member_i64(&c->body, "amount", p->amount);
    json_member_str(&c->body, "currency", p->currency);
    json_close(&c->body);
    send_call(c, "/v1/refunds", budget_ms);
}

static const struct channel_ops ops = {.name = "http", .ask = ask_payments, .refund = give_back};

/* ---- open and close ------------------------------------------------------------------------------------------------------------------------ */

bool channel_http_address(struct str url, struct str *address)
{
    struct str scheme = str_lit("http://");
    struct address parsed;
    if (!str_starts(url, scheme))
        return false;
    *address = (struct str){url.ptr + scheme.len, url.len - scheme.len};
    if (address->len > 0 && address->ptr[address->len - 1] == '/')
        address->len--;
    return address->len < 100 && address_parse(*address, &parsed);
}

bool channel_http_url_good(struct str url)
{
    char text[URL_MAX];
    char *scheme = NULL, *query = NULL, *fragment = NULL;
    if (url.len == 0 || url.len >= sizeof text)
        return false;
    memcpy(text, url.ptr, url.len);
    text[url.len] = 0;
    CURLU *u = curl_url();
    bool good = u && curl_url_set(u, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK && curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0) && curl_url_get(u, CURLUPART_QUERY, &query, 0) == CURLUE_NO_QUERY &&
                curl_url_get(u, CURLUPART_FRAGMENT, &fragment, 0) == CURLUE_NO_FRAGMENT;
    curl_free(scheme), curl_free(query), curl_free(fragment);
    curl_url_cleanup(u);
    return good;
}

static void init_curl(void) { check(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); }

static bool open_multi(struct channel_http *h)
{
    h->multi = curl_multi_init();
    h->headers = curl_slist_append(curl_slist_append(curl_slist_append(NULL, "Accept: application/json"), "Content-Type: application/json"), "Expect:");
    return h->multi && h->headers && curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted) == CURLM_OK &&
           curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h) == CURLM_OK && curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted) == CURLM_OK &&
           curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h) == CURLM_OK && curl_multi_setopt(h->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CONNECTIONS) == CURLM_OK &&
           curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS) == CURLM_OK;
}

struct channel *channel_http_open(uv_loop_t *loop, struct str url, struct str ca)
{
    static uv_once_t once = UV_ONCE_INIT;
    uv_once(&once, init_curl);
    if (!channel_http_url_good(url) || ca.len >= URL_MAX)
        return NULL;
    struct channel_http *h = calloc(1, sizeof *h);
    check(h != NULL);
    h->channel.ops = &ops;
    h->loop = loop;
    list_init(&h->calls);
    memcpy(h->base, url.ptr, url.len - (url.ptr[url.len - 1] == '/'));
    memcpy(h->ca, ca.ptr ? ca.ptr : "", ca.len);
    uv_timer_init(loop, &h->timer);
    uv_timer_init(loop, &h->later);
    h->timer.data = h->later.data = h;
    h->handles = 2;
    check(open_multi(h));
    return &h->channel;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct channel_http *h = handle->data;
    if (--h->handles == 0)
        free(h);
}

void channel_http_close(struct channel *channel)
{
    struct channel_http *h = container_of(channel, struct channel_http, channel);
    while (!list_empty(&h->calls)) {
        struct channel_call *c = list_entry(h->calls.next, struct channel_call, link);
        if (c->slot.waiter)
            waiter_drop(c->slot.waiter);
        if (!c->refused)
            curl_multi_remove_handle(h->multi, c->easy);
        end_call(c, REASON_CANCELLED, NULL);
    }
    curl_multi_cleanup(h->multi);    /* its sockets are closed through on_socket_wanted */
    curl_slist_free_all(h->headers);
    uv_close((uv_handle_t *)&h->timer, on_handle_closed);
    uv_close((uv_handle_t *)&h->later, on_handle_closed);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_ask.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "config.h"
#include "http_ask.h"
#include "plan_check.h"

#define ASK_MS 3000

/* What one process says of itself. */
struct process {
    char where[128];
    json_t *said;      /* of /settings */
    char *metrics;     /* of /metrics, the text */
    size_t metrics_size;
};

static bool next_line(struct str *rest, struct str *line)
{
    if (rest->len == 0)
        return false;
    const char *end = memchr(rest->ptr, '\n', rest->len);
    *line = end ? str_range(rest->ptr, end) : *rest;
    *rest = end ? str_range(end + 1, rest->ptr + rest->len) : (struct str){NULL, 0};
    return true;
}

/* `text` begins with `name` and then `mark`: the number at its end. */
static bool line_value(struct str text, struct str name, struct str mark, double *out)
{
    char number[64];
    if (!str_starts(text, name) || !str_starts((struct str){text.ptr + name.len, text.len - name.len}, mark))
        return false;
    const char *blank = memrchr(text.ptr, ' ', text.len);
    size_t length = blank ? (size_t)(text.ptr + text.len - blank - 1) : 0;
    if (length == 0 || length >= sizeof number)
        return false;
    memcpy(number, blank + 1, length);
    number[length] = 0;
    *out = strtod(number, NULL);
    return true;
}

static double metric_value(const struct process *p, struct str name)
{
    struct str rest = {p->metrics, p->metrics_size};
    double x;
    for (struct str line; next_line(&rest, &line);)
        if (line_value(line, name, str_lit(" "), &x))
            return x;
    return NAN;
}

/* The upper edge of the bucket that 99 of a hundred lie in or below, in seconds; NaN where nothing was observed. */
static double metric_p99(const struct process *p, struct str name)
{
    struct str rest = {p->metrics, p->metrics_size};
    double all = NAN, seen;
    for (struct str line; next_line(&rest, &line);)
        line_value(line, name, str_lit("_count "), &all);
    if (!(all > 0))
        return NAN;
    rest = (struct str){p->metrics, p->metrics_size};
    for (struct str line; next_line(&rest, &line);)
        if (line_value(line, name, str_lit("_bucket{le=\""), &seen) && seen >= all * 0.99)
            return strtod(line.ptr + name.len + sizeof "_bucket{le=\"" - 1, NULL);    /* "+Inf" too */
    return NAN;
}

static bool has_role(const struct process *p, struct str role)
{
    const char *roles = json_string_value(json_object_get(p->said, "roles"));
    struct str item;
    for (size_t i = 0; roles && (item = config_item(roles, i)).ptr; i++)
        if (str_eq(item, role))
            return true;
    return false;
}

static double setting_value(const struct process *p, struct str name, bool *known)
{
    json_t *value = json_object_getn(json_object_get(p->said, "settings"), name.ptr, name.len);
    *known = json_is_string(value);
    return *known ? strtod(json_string_value(value), NULL) : NAN;
}

static double told(void *arg, struct str name, bool *known)
{
    const struct process *p = arg;
    if (str_starts(name, str_lit("role.")))
        return has_role(p, (struct str){name.ptr + 5, name.len - 5});
    if (str_starts(name, str_lit("p99.")))
        return metric_p99(p, (struct str){name.ptr + 4, name.len - 4});
    if (str_starts(name, str_lit("seckill_")))
        return metric_value(p, name);
    return setting_value(p, name, known);
}

/* ---- asking ---------------------------------------------------------------------------------------------------------------- */

static bool ask_process(struct process *p, struct str token, const char **fault)
{
    struct http_ask a;
    *fault = "no address";
    if (!http_ask_open(&a, p->where))
        return false;
    a.keep_text = true;
    a.token = token;
    bool good = http_ask(&a, "GET", "/settings", (struct str){0}, ASK_MS) && a.status == 200 && json_is_object(a.json);
    if (good)
        p->said = json_incref(a.json);
    good = good && http_ask(&a, "GET", "/metrics", (struct str){0}, ASK_MS) && a.status == 200;
    if (good) {
        p->metrics_size = a.text.len;
        p->metrics = strndup(a.text.ptr ? a.text.ptr : "", a.text.len);
        check(p->metrics != NULL);
    }
    *fault = a.status == 0 ? a.fault : a.status == 401 ? "it wants one of its admin.tokens" : "it does not tell its settings and metrics";
    http_ask_close(&a);
    return good;
}

static bool take_address(struct process *processes, size_t *count, struct str address)
{
    for (size_t i = 0; i < *count; i++)
        if (str_eq(str_of(processes[i].where), address))
            return true;    /* said twice is one process */
    if (*count == PLAN_PROCESSES_MAX || address.len == 0 || address.len >= sizeof processes[0].where)
        return false;
    memcpy(processes[*count].where, address.ptr, address.len);
    *count += 1;
    return true;
}

static bool take_addresses(const struct call *c, struct process *processes, size_t *count)
{
    const char *list = call_again(c, "at", 0);
    for (size_t again = 0; list || again == 0; list = call_again(c, "at", again)) {
        struct str item, all = str_of(list ? list : call_text(c, "at"));
        for (size_t n = 0; (item = config_item(all.ptr, n)).ptr; n++)
            if (!take_address(processes, count, item))
                return false;
        again++;
        if (!list)
            break;
    }
    return true;
}

static int judge(const struct call *c, const struct plan_view *v, struct buf *out, struct process *processes, size_t count)
{
    struct plan_process views[PLAN_PROCESSES_MAX];
    struct plan_finding findings[PLAN_DEMANDS];
    for (size_t i = 0; i < count; i++)
        views[i] = (struct plan_process){told, &processes[i]};
    size_t below = plan_judge(v->plan, views, count, findings);
    if (c->json)
        plan_findings_json(out, v, findings);
    else
        plan_findings_table(out, v, findings);
    if (below > 0)
        return call_failed(c, LEAVE_MISSED, "%zu of %d lines below plan", below, (int)PLAN_DEMANDS);
    return LEAVE_DONE;
}

/* Planning needs no settings; asking what runs needs one of them, the admin token. False: the settings cannot be read, and `complaints` says why. */
static bool load_settings(const struct call *c, struct config *config, struct buf *complaints)
{
    struct config_source source = c->source;
    source.env = environ;
    return config_load(config, &source, complaints) != CONFIG_BAD;
}

static int ask_all(const struct call *c, struct process *processes, size_t count)
{
    struct config config;
    struct buf complaints = buf_growing(64 * 1024);
    int leave = LEAVE_DONE;
    if (!load_settings(c, &config, &complaints))
        leave = call_failed(c, LEAVE_CONFIG, STR_FMT, STR_ARG(buf_str(&complaints)));
    for (size_t i = 0; i < count && leave == LEAVE_DONE; i++) {
        const char *fault;
        if (!ask_process(&processes[i], config_admin_token(&config), &fault))
            leave = call_failed(c, LEAVE_UNREACHABLE, "%s: %s", processes[i].where, fault);
    }
    config_free(&config);
    buf_free(&complaints);
    return leave;
}

int plan_ask(const struct call *c, const struct plan_view *v, struct buf *out)
{
    static struct process processes[PLAN_PROCESSES_MAX];
    size_t count = 0;
    if (!take_addresses(c, processes, &count))
        return call_misused(c, "--at: addresses with commas between, %d at most", PLAN_PROCESSES_MAX);
    int leave = ask_all(c, processes, count);
    if (leave == LEAVE_DONE)
        leave = judge(c, v, out, processes, count);
    for (size_t i = 0; i < count; i++) {
        json_decref(processes[i].said);
        free(processes[i].metrics);
    }
    return leave;
}

/* SPDX-License-Identifier: Apache-2.0
 * plan_words.c: the words of the reports in both languages, and the sentences that answer what is asked most. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "expression.h"
#include "plan_report.h"

struct words {
    const char *name, *text, *chinese;
};
static const struct words units[] = {
#define UNIT(name, chinese) {name, name, chinese},
#include "plan.def"
#undef UNIT
};
static const struct words sections[] = {
#define SECTION(number, text, chinese) {number, text, chinese},
#include "plan.def"
#undef SECTION
};
static const struct words phrases[] = {
#define PHRASE(symbol, text, chinese) {#symbol, text, chinese},
#include "plan.def"
#undef PHRASE
};

static const char *word_of(const struct plan_view *v, const struct words *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return v->chinese ? table[i].chinese : table[i].text;
    check_failed("a row's unit and section stand in spec/plan.def", __FILE__, __LINE__);
}

const char *plan_unit(const struct plan_view *v, const char *unit) { return word_of(v, units, countof(units), unit); }
const char *plan_section(const struct plan_view *v, const char *number) { return word_of(v, sections, countof(sections), number); }

const char *plan_phrase(const struct plan_view *v, enum plan_phrase phrase)
{
    check((unsigned)phrase < PHRASE_COUNT);
    return v->chinese ? phrases[phrase].chinese : phrases[phrase].text;
}

const char *plan_text(const struct plan_view *v, size_t row) { return v->chinese ? plan_row(row)->chinese : plan_row(row)->text; }
const char *plan_resource_text(const struct plan_view *v, const struct plan_resource *r) { return v->chinese ? r->chinese : r->text; }

void plan_write_assumption(struct buf *out, const struct plan_view *v, const char *name)
{
    static const enum plan_phrase said[] = {[PLAN_DEFAULT] = PHRASE_ASSUMED, [PLAN_FILE] = PHRASE_IN_FILE, [PLAN_MEASURED] = PHRASE_MEASURED, [PLAN_SET] = PHRASE_IS_SET};
    size_t row = plan_row_of(name);
    enum plan_phrase phrase = said[v->plan->origin[row]];
    if (isnan(plan_value(v->plan, row)))
        phrase = PHRASE_UNKNOWN;
    else if (plan_follows(v->plan, row))
        phrase = PHRASE_AS_PLANNED;
    buf_add_fmt(out, "%s (%s)", name, plan_phrase(v, phrase));
}

static double value_by_name(void *arg, struct str name, bool *known)
{
    size_t row = plan_find(name);
    *known = row != PLAN_NONE;
    return *known ? plan_value(arg, row) : NAN;
}

void plan_write_formula(struct buf *out, const struct plan_view *v, const char *formula, bool bare)
{
    expression_write(out, str_of(formula), bare ? NULL : value_by_name, v->plan);
}

void plan_write_result(struct buf *out, const struct plan_view *v, size_t row)
{
    char a[64], b[64];
    struct buf plain = buf_fixed(a, sizeof a), planned = buf_fixed(b, sizeof b);
    expression_number(&plain, plan_value(v->plan, row));
    expression_number(&planned, plan_planned(v->plan, row));
    buf_add_str(out, buf_str(&plain));
    if (!str_eq(buf_str(&plain), buf_str(&planned)))
        buf_add_fmt(out, " → " STR_FMT, STR_ARG(buf_str(&planned)));
}

void plan_write_share(struct buf *out, double share)
{
    if (isnan(share))
        buf_add_char(out, '?');
    else
        buf_add_fmt(out, "%.1f %%", share * 100);
}

struct missing {
    const struct plan_view *view;
    const char *name;
};

static void look_for_missing(void *arg, struct str name)
{
    struct missing *m = arg;
    size_t row = plan_find(name);
    if (row == PLAN_NONE || m->name || !isnan(plan_value(m->view->plan, row)))
        return;
    if (strcmp(plan_row(row)->formula, "unknown") == 0)
        m->name = plan_row(row)->name;
    else
        expression_names(str_of(plan_row(row)->formula), look_for_missing, m);
}

const char *plan_missing(const struct plan_view *v, const char *formula)
{
    struct missing m = {.view = v};
    expression_names(str_of(formula), look_for_missing, &m);
    return m.name;
}

/* ---- answers: {line} is its planned value, {%line} the same as a share -------------------------------------------------------- */

static const struct words answers[] = {
    {"zone", "With a zone lost, {access_left} access instances are left; each has {access_rate_left} requests/s, {%access_use_left} of what it holds, and all of them "
             "hold {zone_lost_rate} requests/s of the {sale.peak} that come.",
     "失去一个可用区后剩 {access_left} 个接入实例，每个承担 {access_rate_left} 请求/秒（利用率 {%access_use_left}），合计可承载 {zone_lost_rate} 请求/秒，峰值为 {sale.peak}。"},
    {"drain", "{backlog} messages wait when the hottest SKU is reserved away; they are orders {backlog_drain} s later, the last of them {last_order_low} to {last_order_high} s "
              "after the start ({order.deadline} s are promised).",
     "热点 SKU 售罄时积压 {backlog} 条，{backlog_drain} 秒清空，最晚一批在开售后 {last_order_low}～{last_order_high} 秒完成（承诺 {order.deadline} 秒）。"},
    {"shards", "{messages_all} orders in {order.deadline} s take {shards_bare} databases, {shards_needed} with headroom; {postgres.shards} take {drain_all} s.",
     "{messages_all} 笔订单在 {order.deadline} 秒内完成需要 {shards_bare} 个写分片，含余量 {shards_needed} 个；现有 {postgres.shards} 个需 {drain_all} 秒。"},
    {"memory", "Redis keeps {memory_kept} MB at most by our own keys, where every request kept would be {memory_naive_low} to {memory_naive_high} GB: a refusal leaves nothing behind.",
     "按实际键结构 Redis 至多保存 {memory_kept} MB；若保存每个请求则为 {memory_naive_low}～{memory_naive_high} GB：被拒绝的请求不留数据。"},
};

static void write_named(struct buf *out, const struct plan_view *v, struct str name)
{
    bool share = name.len > 0 && name.ptr[0] == '%';
    size_t row = plan_find(share ? (struct str){name.ptr + 1, name.len - 1} : name);
    check(row != PLAN_NONE);
    if (share)
        plan_write_share(out, plan_value(v->plan, row));
    else
        expression_number(out, plan_planned(v->plan, row));
}

static void write_first_to_break(struct buf *out, const struct plan_view *v)
{
    struct plan_use ranks[PLAN_RESOURCES];
    plan_rank(v->plan, ranks);
    const struct plan_use *first = &ranks[0];
    buf_add_fmt(out, "%s: %s, ", plan_phrase(v, PHRASE_BREAKS), plan_resource_text(v, first->resource));
    plan_write_share(out, first->use);
    buf_add_fmt(out, "; %s ", plan_phrase(v, PHRASE_MORE));
    plan_write_assumption(out, v, first->resource->more);
}

bool plan_answer(struct buf *out, const struct plan_view *v, size_t i)
{
    if (i == 0) {
        write_first_to_break(out, v);
        return true;
    }
    if (i > countof(answers))
        return false;
    for (const char *at = v->chinese ? answers[i - 1].chinese : answers[i - 1].text; *at; at++) {
        const char *end = *at == '{' ? strchr(at, '}') : NULL;
        if (!end) {
            buf_add_char(out, *at);
            continue;
        }
        write_named(out, v, str_range(at + 1, end));
        at = end;
    }
    return true;
}

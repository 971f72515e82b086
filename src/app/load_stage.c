/* SPDX-License-Identifier: Apache-2.0 */
#include "load_stage.h"

#include <math.h>
#include <stdlib.h>

#include "buf.h"
#include "check.h"
#include "http_ask.h"

#define ASK_MS 3000

static const struct load_stage_row rows[] = {
#define STAGE(symbol, metric, p50, p95, p99, what, how) {metric, p50, p95, p99, what, how},
#include "load.def"
#undef STAGE
};

const struct load_stage_row *load_stage_row(enum load_stage s)
{
    check((unsigned)s < LOAD_STAGES);
    return &rows[s];
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------------------- */

static void add_edge(struct load_stage_counts *c, double edge, double below)
{
    for (size_t i = 0; i < c->edge_count; i++)
        if (c->edges[i] == edge || (isinf(edge) && isinf(c->edges[i]))) {
            c->below[i] += below;
            return;
        }
    if (c->edge_count == LOAD_EDGES_MAX)
        return;
    c->edges[c->edge_count] = edge;
    c->below[c->edge_count++] = below;
}

static void add_to_stage(struct load_stage_counts *c, struct str rest, double value)
{
    char edge[32];
    struct str from = str_lit("_bucket{le=\"");
    if (str_eq(rest, str_lit("_sum"))) {
        c->sum += value;
    } else if (str_eq(rest, str_lit("_count"))) {
        c->count += value;
    } else if (str_starts(rest, from) && rest.len - from.len < sizeof edge) {
        memcpy(edge, rest.ptr + from.len, rest.len - from.len);
        edge[rest.len - from.len] = 0;
        add_edge(c, strncmp(edge, "+Inf", 4) == 0 ? INFINITY : strtod(edge, NULL), value);
    }
}

static void add_sample(struct load_service *s, struct str name, double value)
{
    const struct { struct str begin; double *sum; } counters[] = {
        {str_lit("seckill_http_requests_total{"), &s->requests}, {str_lit("seckill_reservations_total{code=\"QUEUED\"}"), &s->reserved},
        {str_lit("seckill_published_total{code=\"OK\"}"), &s->published}, {str_lit("seckill_consumed_total"), &s->consumed},
        {str_lit("seckill_verdicts_total{code=\"ORDERED\"}"), &s->ordered}, {str_lit("seckill_relayed_total{kind=\"STATUS\"}"), &s->told},
        {str_lit("seckill_local_sold_out_total"), &s->sold_out_locally}};
    for (size_t i = 0; i < countof(counters); i++)
        if (str_starts(name, counters[i].begin))
            *counters[i].sum += value;
    for (size_t i = 0; i < LOAD_STAGES; i++) {
        struct str metric = str_of(rows[i].metric);
        if (str_starts(name, metric))
            add_to_stage(&s->stages[i], (struct str){name.ptr + metric.len, name.len - metric.len}, value);
    }
}

void load_service_parse(struct load_service *s, struct str text)
{
    for (const char *at = text.ptr, *end = text.ptr + text.len; at && at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct str line = str_range(at, stop ? stop : end);
        const char *blank = line.len ? memrchr(line.ptr, ' ', line.len) : NULL;
        if (blank && line.ptr[0] != '#')
            add_sample(s, str_range(line.ptr, blank), strtod(blank + 1, NULL));    /* a line's end stops it, and the text ends with one */
        at = stop ? stop + 1 : end;
    }
}

void load_service_read(struct load_service *s, const char *addresses)
{
    *s = (struct load_service){0};
    for (const char *from = addresses, *comma; *from; from = *comma ? comma + 1 : comma) {
        struct http_ask ask;
        char address[128];
        comma = strchrnul(from, ',');
        snprintf(address, sizeof address, "%.*s", (int)(comma - from), from);
        if (from == comma || !http_ask_open(&ask, address))
            continue;
        s->asked++;
        ask.keep_text = true;
        if (http_ask(&ask, "GET", "/metrics", (struct str){0}, ASK_MS) && ask.status == 200) {
            s->answered++;
            load_service_parse(s, buf_str(&ask.text));
        }
        http_ask_close(&ask);
    }
}

/* ---- counting ------------------------------------------------------------------------------------------------------------------------------- */

static double less(double after, double before) { return after > before ? after - before : 0; }

/* How many lay below that edge; below the nearest lower one where the text had not that one. */
static double below_edge(const struct load_stage_counts *c, double edge)
{
    double below = 0;
    for (size_t i = 0; i < c->edge_count && c->edges[i] <= edge; i++)
        below = c->below[i];
    return below;
}

void load_service_since(struct load_service *after, const struct load_service *before)
{
    double *const mine[] = {&after->requests, &after->reserved, &after->published, &after->consumed, &after->ordered, &after->told, &after->sold_out_locally};
    const double *const old[] = {&before->requests, &before->reserved, &before->published, &before->consumed, &before->ordered, &before->told, &before->sold_out_locally};
    for (size_t i = 0; i < countof(mine); i++)
        *mine[i] = less(*mine[i], *old[i]);
    for (size_t s = 0; s < LOAD_STAGES; s++) {
        struct load_stage_counts *a = &after->stages[s];
        const struct load_stage_counts *b = &before->stages[s];
        a->sum = less(a->sum, b->sum);
        a->count = less(a->count, b->count);
        for (size_t i = 0; i < a->edge_count; i++)
            a->below[i] = less(a->below[i], below_edge(b, a->edges[i]));
    }
}

double load_stage_quantile(const struct load_stage_counts *c, double share)
{
    double wanted = share * (c->edge_count ? c->below[c->edge_count - 1] : 0), edge = 0, below = 0;
    for (size_t i = 0; wanted > 0 && i < c->edge_count; i++) {
        if (c->below[i] >= wanted) {
            if (isinf(c->edges[i]))
                return edge * 1000;
            double within = c->below[i] > below ? (wanted - below) / (c->below[i] - below) : 1;
            return (edge + (c->edges[i] - edge) * within) * 1000;
        }
        edge = c->edges[i];
        below = c->below[i];
    }
    return 0;
}

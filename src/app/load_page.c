/* SPDX-License-Identifier: Apache-2.0 */
#include "load_page.h"

#include <math.h>
#include <unistd.h>

#include "buf.h"

#define PAGE_BYTES 8192
#define BAR 32

struct load_page load_page_new(FILE *out, const struct load_scenario *scenario, const char *title)
{
    return (struct load_page){.out = out, .terminal = out && isatty(fileno(out)), .scenario = scenario, .title = title};
}

static double ms(uint64_t us) { return (double)us / 1000; }

static const struct load_second *second(const struct load_stats *s, size_t i) { return &s->seconds[i < LOAD_SECONDS_MAX ? i : LOAD_SECONDS_MAX - 1]; }

/* ---- a line a second --------------------------------------------------------------------------------------------------------------------- */

/* Of those that were due in that second. Where some still wait, what is known is too good: that is said. */
static void show_latencies(struct load_page *p, const struct load_second *at)
{
    uint32_t known = 0;
    for (unsigned i = 0; i < LOAD_SECOND_SLOTS; i++)
        known += at->slots[i];
    if (known > 0)
        fprintf(p->out, "  p50 %.1f  p99 %.1f  max %.1f ms", ms(load_second_quantile(at, 0.5)), ms(load_second_quantile(at, 0.99)), ms(at->max_us));
    if (known < at->due)
        fprintf(p->out, "  (%u of these still wait)", at->due - known);
    fputc('\n', p->out);
}

static void show_lines(struct load_page *p, const struct load_stats *s, size_t now)
{
    for (; p->shown < now && p->shown < LOAD_SECONDS_MAX; p->shown++) {
        const struct load_second *at = second(s, p->shown);
        fprintf(p->out, "%4zu s  due %u  answered %u  queued %u  errors %u  ordered %u  open %llu", p->shown + 1, at->due, at->answered, at->queued, at->errors,
                at->ordered, (unsigned long long)s->pending);
        show_latencies(p, at);
    }
    fflush(p->out);
}

/* ---- a page -------------------------------------------------------------------------------------------------------------------------------- */

static void line(struct load_page *p, struct buf *b)
{
    buf_add_str(b, str_lit("\033[K\n"));
    p->lines++;
}

static void add_bar(struct buf *b, double share, unsigned width)
{
    for (unsigned i = 0; i < width; i++)
        buf_add_str(b, (double)i + 0.5 < share * width ? str_lit("█") : str_lit("░"));
}

static void add_outcomes(struct load_page *p, struct buf *b, const struct load_stats *s)
{
    for (unsigned i = 0, n = 0; i < REASON_COUNT; i++)
        if (s->answers[i] > 0 && n++ < 8) {
            buf_add_fmt(b, "  %-22s %10llu  ", reason_word((enum reason)i), (unsigned long long)s->answers[i]);
            add_bar(b, (double)s->answers[i] / (double)load_stats_answered(s), BAR);
            line(p, b);
        }
}

static void add_funnel(struct load_page *p, struct buf *b, const struct load_stats *s)
{
    const struct { const char *name; uint64_t count; } steps[] = {
        {"sent", load_stats_sent(s)}, {"answered", load_stats_answered(s)}, {"told a reservation", s->told}, {"saw the order", s->ordered}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        buf_add_fmt(b, "  %-22s %10llu  ", steps[i].name, (unsigned long long)steps[i].count);
        add_bar(b, steps[0].count ? (double)steps[i].count / (double)steps[0].count : 0, BAR);
        line(p, b);
    }
}

static void show_page(struct load_page *p, const struct load_stats *s, double at)
{
    static char memory[PAGE_BYTES];
    struct buf b = buf_fixed(memory, sizeof memory);
    static struct histogram all, closed;    /* too large for a stack */
    const struct load_second *last = second(s, at >= 1 ? (size_t)at - 1 : 0);
    load_stats_requests(s, &all, &closed);
    if (p->lines > 0)
        buf_add_fmt(&b, "\033[%zuA", p->lines);
    p->lines = 0;
    buf_add_fmt(&b, "%s  %.1f of %g s ", p->title, at < p->scenario->seconds ? at : p->scenario->seconds, p->scenario->seconds);
    add_bar(&b, at / p->scenario->seconds, 20);
    line(p, &b);
    buf_add_fmt(&b, "a second   due %u  answered %u  queued %u  errors %u  ordered %u", last->due, last->answered, last->queued, last->errors, last->ordered);
    line(p, &b);
    buf_add_fmt(&b, "latency    p50 %.2f  p90 %.2f  p99 %.2f  p99.9 %.2f  max %.2f ms, from when due", ms(histogram_quantile(&all, 0.5)),
                ms(histogram_quantile(&all, 0.9)), ms(histogram_quantile(&all, 0.99)), ms(histogram_quantile(&all, 0.999)), ms(all.max));
    line(p, &b);
    buf_add_fmt(&b, "           p99 %.2f ms in the last second; accepted p99 %.2f ms; polls p99 %.2f ms", ms(load_second_quantile(last, 0.99)),
                ms(histogram_quantile(&s->accepted, 0.99)), ms(histogram_quantile(&s->deeds[LOAD_POLL].latency, 0.99)));
    line(p, &b);
    buf_add_fmt(&b, "generator  late p99 %.2f ms; %llu open, %llu connections, %llu not sent", ms(histogram_quantile(&s->late, 0.99)),
                (unsigned long long)s->pending, (unsigned long long)s->connected, (unsigned long long)s->unsent);
    line(p, &b);
    add_outcomes(p, &b, s);
    add_funnel(p, &b, s);
    buf_add_str(&b, str_lit("\033[J"));
    fwrite(b.ptr, 1, b.len, p->out);
    fflush(p->out);
}

void load_page_show(struct load_page *p, const struct load_stats *s, uint64_t us)
{
    if (!p->out)
        return;
    if (p->terminal)
        show_page(p, s, (double)us / 1e6);
    else
        show_lines(p, s, (size_t)(us / 1000000));
}

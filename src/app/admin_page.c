/* SPDX-License-Identifier: Apache-2.0 */
#include "admin_page.h"

#include "html.h"
#include "json.h"
#include "version.h"

static void cell(struct buf *out, struct str text)
{
    buf_add_str(out, str_lit("<td>"));
    html_text(out, text);
}

static void cell_time(struct buf *out, int64_t ms)
{
    char text[TIME_TEXT];
    time_write(ms, text);
    cell(out, (struct str){text, TIME_TEXT});
}

static void write_activities(struct buf *out, const struct activities_answer *answer)
{
    buf_add_str(out, str_lit("<table><tr><th>activity<th>state<th>starts<th>ends<th>SKU<th>stock<th>price\n"));
    for (size_t i = 0; i < answer->count; i++) {
        const struct activity *a = &answer->activities[i];
        for (size_t s = 0; s < a->sku_count; s++) {
            buf_add_str(out, str_lit("<tr>"));
            cell(out, a->activity);
            cell(out, str_of(activity_state_name(a->state)));
            cell_time(out, a->starts_ms);
            cell_time(out, a->ends_ms);
            cell(out, a->skus[s].sku);
            buf_add_fmt(out, "<td>%lld<td>%lld " STR_FMT "\n", (long long)a->skus[s].stock, (long long)a->skus[s].price, STR_ARG(a->skus[s].currency));
        }
    }
    buf_add_str(out, str_lit("</table>\n"));
}

void admin_page_write(struct buf *out, const struct config *config, const struct health *health, enum reason reason, const struct activities_answer *activities)
{
    char memory[4096];
    struct buf lines = buf_fixed(memory, sizeof memory);
    bool ready = health_says(health, HEALTH_READY, (struct str){0}, &lines);
    buf_add_str(out, str_lit("<!doctype html><html lang=en><meta charset=utf-8><title>seckill</title>"
                             "<style>body{font:15px sans-serif;margin:2em}td,th{padding:.2em 1em .2em 0;text-align:left}pre{background:#eee;padding:1em}</style>\n"));
    buf_add_fmt(out, "<h1>seckill %s</h1><p>roles: ", VERSION_TEXT);
    html_text(out, str_of(config->roles));
    buf_add_fmt(out, "; %s</p>\n<pre>", ready ? "ready" : "not ready");
    html_text(out, buf_str(&lines));
    buf_add_str(out, str_lit("</pre>\n<h2>Activities</h2>\n"));
    if (activities)
        write_activities(out, activities);
    else
        buf_add_fmt(out, "<p>PostgreSQL could not be asked: %s</p>\n", reason_word(reason));
    buf_add_str(out, str_lit("<p><a href=/metrics>metrics</a> <a href=\"/readyz?verbose\">health</a> <a href=/version>version</a> "
                             "<a href=/admin/v1/activities>activities</a></p></html>\n"));
}

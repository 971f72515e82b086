/* SPDX-License-Identifier: Apache-2.0
 * spec_print.c: prints the reference pages from the tables of spec/. `spec_print PAGE` writes one page to standard output;
 * `spec_print` alone names the pages. The pages are committed, so that reviewers see them move; a test compares them. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void head(const char *title, const char *table, const char *text)
{
    printf("<!-- Printed by tools/spec_print from %s; do not edit. `make docs` refreshes it. -->\n# %s\n\n%s\n", table, title, text);
}

/* A cell of a Markdown table: a bar would end it. */
static void cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

static void row(const char *const cells[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fputs(i == 0 ? "| " : " | ", stdout);
        cell(cells[i]);
    }
    puts(" |");
}
#define ROW(...) row((const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__})))

static void header(const char *const cells[], size_t count)
{
    putchar('\n');
    row(cells, count);
    for (size_t i = 0; i < count; i++)
        fputs("|---", stdout);
    puts("|");
}
#define HEADER(...) header((const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__})))

static const char *code(const char *text)    /* in back quotes; good for one use in a row each */
{
    static char memory[8][512];
    static size_t turn;
    char *out = memory[turn++ % COUNT(memory)];
    snprintf(out, sizeof memory[0], text[0] ? "`%s`" : "%s", text);
    return out;
}

static void reasons(void)
{
    head("Reasons", "spec/reason.def",
         "Every way a thing can end: the JSON `code`, the metric label and the log value are all this word. Fate: DONE, it happened; REFUSED, it did not and\n"
         "will not; RETRY, it did not and may; UNKNOWN, nobody knows yet, look by key. HTTP 0: never an answer of its own on the public API.");
    HEADER("code", "HTTP", "fate", "level", "text");
#define REASON(word, http, fate, level, text) ROW(code(#word), #http, #fate, #level, text);
#include "reason.def"
#undef REASON
}

static void states(void)
{
    head("States", "spec/reservation.def, spec/order.def, spec/activity.def", "Three machines. No other move exists; the database refuses it as well.");
    puts("\n## Reservation\n\nWhat a client sees never goes to a lower rank.");
    HEADER("state", "rank", "terminal", "meaning");
#define STATE(name, rank, terminal, meaning) ROW(code(#name), #rank, terminal ? "yes" : "", meaning);
#include "reservation.def"
#undef STATE
    HEADER("from", "event", "to", "who moves it");
#define MOVE(from, event, to, who) ROW(code(#from), #event, code(#to), who);
#include "reservation.def"
#undef MOVE
    puts("\n## Order");
    HEADER("state", "holds stock", "terminal", "meaning");
#define STATE(name, holds, terminal, meaning) ROW(code(#name), holds ? "yes" : "", terminal ? "yes" : "", meaning);
#include "order.def"
#undef STATE
    HEADER("from", "event", "to", "who moves it");
#define MOVE(from, event, to, who) ROW(code(#from), #event, code(#to), who);
#include "order.def"
#undef MOVE
    puts("\n## Activity");
    HEADER("state", "sells", "meaning");
#define STATE(name, sells, meaning) ROW(code(#name), sells ? "yes" : "", meaning);
#include "activity.def"
#undef STATE
    HEADER("from", "event", "to", "who moves it");
#define MOVE(from, event, to, who) ROW(code(#from), #event, code(#to), who);
#include "activity.def"
#undef MOVE
}

/* ---- the machines as pictures: DOT ---------------------------------------------------------------------------------------- */

static void dot_begin(const char *name) { printf("digraph %s {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=monospace];\n", name); }

static void reservation_dot(void)
{
    dot_begin("reservation");
#define STATE(name, rank, terminal, meaning) printf("  %s%s;\n", #name, terminal ? " [peripheries=2]" : "");
#include "reservation.def"
#undef STATE
#define MOVE(from, event, to, who) printf("  %s -> %s [label=\"%s\"];\n", #from, #to, #event);
#include "reservation.def"
#undef MOVE
    puts("}");
}

static void order_dot(void)
{
    dot_begin("orders");
#define STATE(name, holds, terminal, meaning) printf("  %s%s;\n", #name, terminal ? " [peripheries=2]" : "");
#include "order.def"
#undef STATE
#define MOVE(from, event, to, who) printf("  %s -> %s [label=\"%s\"];\n", #from, #to, #event);
#include "order.def"
#undef MOVE
    puts("}");
}

static void activity_dot(void)
{
    dot_begin("activity");
#define STATE(name, sells, meaning) printf("  %s;\n", #name);
#include "activity.def"
#undef STATE
#define MOVE(from, event, to, who) printf("  %s -> %s [label=\"%s\"];\n", #from, #to, #event);
#include "activity.def"
#undef MOVE
    puts("}");
}

/* ---- settings, metrics, routes, verbs, bounds ------------------------------------------------------------------------------ */

static const char *derived(const char *key, const char *prefix, char joint, int upper)
{
    static char memory[2][80];
    static size_t turn;
    char *out = memory[turn++ % COUNT(memory)];
    size_t at = (size_t)snprintf(out, sizeof memory[0], "%s", prefix);
    for (; *key && at + 1 < sizeof memory[0]; key++, at++)
        out[at] = *key == '.' || *key == '_' ? joint : upper && *key >= 'a' && *key <= 'z' ? (char)(*key - 32) : *key;
    out[at] = 0;
    return out;
}

static const char *range(const char *kind, long long min, long long max, const char *unit)
{
    static char out[160];
    if (strcmp(kind, "NUMBER") == 0)
        snprintf(out, sizeof out, "%lld to %lld %s", min, max, unit);
    else if (strcmp(kind, "TEXT") == 0)
        snprintf(out, sizeof out, "text of %lld to %lld bytes", min, max);
    else
        snprintf(out, sizeof out, "%s", strcmp(kind, "SWITCH") == 0 ? "true|false" : unit);
    return out;
}

static void config(void)
{
    head("Settings", "spec/config.def",
         "A flag beats the environment, which beats the file of `--config` (YAML), which beats the default. The environment name is the key in capitals\n"
         "(`redis.url`: `SECKILL_REDIS_URL`), the flag the key with dashes (`--redis-url`). Secrets and URLs may come as a file named by\n"
         "`SECKILL_..._FILE`, and are never shown. What is unknown or out of range is refused with its origin; `seckill check-config` tells without starting.");
    HEADER("key", "environment", "flag", "default", "range", "read again", "what it is");
#define SETTING(field, key, kind, value, min, max, unit, apply, shown, text)                                                              \
    ROW(code(key), code(derived(key, "SECKILL_", '_', 1)), code(derived(key, "--", '-', 0)), code(value), range(#kind, min, max, unit), \
        strcmp(#apply, "LIVE") == 0 ? "on SIGHUP" : "at start", text);
#include "config.def"
#undef SETTING
}

/* "ACCESS|ORDER" as the roles are written elsewhere: "access order"; ANY: "every". */
static const char *owner_words(const char *owner)
{
    static char words[64];
    size_t n = 0;
    if (strcmp(owner, "ANY") == 0)
        return "every";
    for (; owner[n] && n < sizeof words - 1; n++)
        words[n] = owner[n] == '|' ? ' ' : (char)tolower((unsigned char)owner[n]);
    words[n] = 0;
    return words;
}

static void metrics(void)
{
    head("Metrics", "spec/metric.def", "At `/metrics` of the admin listener and of `health.listen`, in Prometheus' text format. No user, request or order ever stands in a label.\n"
         "A process exports what its own roles own, and a gauge once it was first set: a gauge that is absent says that nothing is known, which 0 would not.\n\n"
         "Alarms that every installation needs:\n\n"
         "| alarm | expression |\n|---|---|\n"
         "| no janitor lives | `absent(seckill_janitor_last_round_timestamp_seconds) or time() - max(seckill_janitor_last_round_timestamp_seconds) > 60` |\n"
         "| sales are not audited | `absent(seckill_audit_last_round_timestamp_seconds) or time() - max(seckill_audit_last_round_timestamp_seconds) > 900` |\n"
         "| a sale could not be judged | `max(seckill_unjudged_activities) > 0` |\n"
         "| a rule of safety is broken | `max(seckill_broken_rules) > 0 or max(seckill_conservation_drift) > 0` |\n");
    HEADER("name", "kind", "label", "owner", "what it counts");
#define METRIC(symbol, kind, label, owner, name, help) ROW(code(name), #kind, strcmp(#label, "NONE") == 0 ? "" : #label, owner_words(#owner), help);
#include "metric.def"
#undef METRIC
}

static void routes(void)
{
    head("Routes", "spec/route.def, spec/admin_route.def", "Every path that is answered. Errors are `application/problem+json` with a `code` of the reasons page.");
    puts("\n## Public");
    HEADER("method", "path", "what it does");
#define ROUTE(symbol, method, path, text) ROW(#method, code(path), text);
#include "route.def"
#undef ROUTE
    puts("\n## Admin\n\nOn a listener of its own that never faces the public.");
    HEADER("method", "path", "where", "token", "what it does");
#define ADMIN_ROUTE(symbol, method, path, where, access, text) \
    ROW(#method, code(path), strcmp(#where, "ANY") == 0 ? "admin, health" : "admin", strcmp(#access, "OPEN") == 0 ? "no" : "yes", text);
#include "admin_route.def"
#undef ADMIN_ROUTE
}

static void verbs(void)
{
    head("Verbs", "spec/verb.def",
         "`seckill VERB`. Every setting is a flag of every verb that reads settings; `-o table|json` chooses how data is printed. Data goes to standard output,\n"
         "talk to standard error. Exit codes: 0 done, 1 failed, 2 misused, 3 bad setting, 4 a part we need does not answer, 5 refused by a safety rule,\n"
         "7 a rule that may never break is broken, 99 a threshold was missed, 130 interrupted.");
    HEADER("verb", "arguments", "what it does");
#define VERB(symbol, name, group, arguments, settings, summary) ROW(code("seckill " name), code(arguments), summary);
#include "verb.def"
#undef VERB
    puts("\n## Flags of their own");
    HEADER("verb", "flag", "default", "what it is");
#define FLAG(verb, name, kind, value, min, max, argument, text) ROW(code(#verb), code("--" name), code(value), text);
#include "verb.def"
#undef FLAG
    puts("\n## Examples\n");
#define EXAMPLE(verb, command, text) puts("* `" command "`: " text);
#include "verb.def"
#undef EXAMPLE
}

static void bounds(void)
{
    head("Bounds", "spec/bound.def", "Everything has an edge, and says so when it is reached.");
    HEADER("where", "what", "bound", "when full", "test that fills it");
#define BOUND(where, what, bound, full, test) ROW(where, what, strchr(bound, '.') && !strchr(bound, ' ') ? code(bound) : bound, full, code(test));
#include "bound.def"
#undef BOUND
}

static void redis(void)
{
    head("Redis", "spec/redis_key.def",
         "Everything of an activity's bucket lies under `sk:{ACTIVITY:BUCKET}:EPOCH:` and one of these names; A stands for a SKU. Only the scripts write there. "
         "Beside them stands one key of the server, `seckill:deployment`: the identity of the deployment that it belongs to ([decision 0021](../decisions/0021-a-deployment-has-an-identity.md)).\n\n"
         "`users`, `pending`, `free` and `rest` hold one member more, `#` (score +inf), `gen` one byte and `win` one bit more: "
         "a key without that guard was deleted or evicted, and its bucket closes until it is recovered.");
    HEADER("key", "type", "holds", "bytes, measured");
#define KEY(name, type, holds, bytes) ROW(code(name), type, holds, bytes);
#include "redis_key.def"
#undef KEY
}

static void killpoints(void)
{
    head("Kill points", "spec/killpoint.def",
         "For tests only: a process started with `SECKILL_TEST_HOOKS=1 SECKILL_KILL=NAME:N` dies by SIGKILL when it passes this place for the N-th time, after\n"
         "`{\"event\":\"killpoint\",\"point\":\"NAME\"}` on standard error; without the first variable the second is refused and nothing starts. NOW: on the\n"
         "spot. SOON: within two milliseconds, while the question is on its way. `test/live/kill_points.py` kills at every one of them.");
    HEADER("point", "roles", "when", "what stands durable", "who ends it");
#define POINT(name, roles, when, stands, ends) ROW(code(#name), roles, #when, stands, ends);
#include "killpoint.def"
#undef POINT
}

#define KIND_TEXT "text"
#define KIND_NUMBER "whole number"
#define KIND_REAL "number"
#define KIND_CHOICE "choice"
#define MOST "at most"
#define LEAST "at least"
static void load(void)
{
    head("Scenarios", "spec/load.def", "What a scenario file of `seckill load` may say. Any other key is an error. Mappings nest or are written flat, as in the settings file.");
    HEADER("key", "kind", "default", "from – to", "unit, or the choices", "meaning");
#define SCENARIO(field, key, kind, value, min, max, unit, text) \
    ROW(code(key), KIND_##kind, code(value), #min[0] == '0' && #max[0] == '0' && #max[1] == 0 ? "" : #min " – " #max, unit, text);
#include "load.def"
#undef SCENARIO
    puts("\n## Thresholds\n\nOne that is set and not kept ends the run with exit code 99. Without a value it is not judged.");
    HEADER("key", "the value may be", "unit", "what is measured");
#define THRESHOLD(symbol, key, side, unit, text) ROW(code(key), side, unit, text);
#include "load.def"
#undef THRESHOLD
    puts("\n## Requests");
    HEADER("kind", "what it is");
#define DEED(symbol, name, text) ROW(code(name), text);
#include "load.def"
#undef DEED
    puts("\n## Stages\n\nMeasured by the service itself, read from its `/metrics` before and after the run; the budgets are those of mission §13, in ms.");
    HEADER("stage", "metric", "from – to", "p50", "p95", "p99");
#define STAGE(symbol, metric, p50, p95, p99, what, how) ROW(what, code(metric), how, #p50, #p95, #p99);
#include "load.def"
#undef STAGE
}

/* The tests of one promise or fault, as the cell of a table. */
static const char *proofs(const char *id)
{
    static char text[2048];
    size_t used = 0;
    text[0] = 0;
#define PROOF(of, program, test)                                                                                        \
    if (strcmp(of, id) == 0 && used < sizeof text)                                                                      \
        used += (size_t)snprintf(text + used, sizeof text - used, "%s`%s`%s%s", used ? "; " : "", program, test[0] ? ": " : "", test);
#include "acceptance.def"
#undef PROOF
    return text;
}

static void acceptance(void)
{
    head("Acceptance", "spec/acceptance.def", "What the mission promises (§17.6), what may go wrong (§15), and the tests that prove it. `make acceptance` runs them all.");
    puts("\n## Promises");
    HEADER("id", "promise", "proved by");
#define PROMISE(id, promise) ROW(id, promise, proofs(id));
#include "acceptance.def"
#undef PROMISE
    puts("\n## Faults");
    HEADER("id", "what happens", "shown by", "what mends it", "what is left to a person", "proved by");
#define FAULT(id, what, metric, mends, person) ROW(id, what, code(metric), mends, person, proofs(id));
#include "acceptance.def"
#undef FAULT
}

static const struct {
    const char *name;
    void (*print)(void);
} pages[] = {
    {"reasons.md", reasons}, {"states.md", states}, {"config.md", config}, {"metrics.md", metrics}, {"routes.md", routes}, {"verbs.md", verbs}, {"bounds.md", bounds}, {"redis.md", redis}, {"killpoints.md", killpoints},
    {"acceptance.md", acceptance}, {"scenarios.md", load},
    {"reservation.dot", reservation_dot}, {"order.dot", order_dot}, {"activity.dot", activity_dot},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < COUNT(pages); i++) {
        if (argc < 2)
            puts(pages[i].name);
        else if (strcmp(argv[1], pages[i].name) == 0)
            return pages[i].print(), fflush(stdout) != 0;
    }
    if (argc >= 2)
        fprintf(stderr, "spec_print: there is no page %s\n", argv[1]);
    return argc >= 2;
}

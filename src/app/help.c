/* SPDX-License-Identifier: Apache-2.0
 * help.c: `seckill help [VERB]` and `seckill completion SHELL`, both printed from the tables. */
#include "help.h"

#include <string.h>

#include "check.h"
#include "suggest.h"

static const struct {
    const char *group, *title;
} groups[] = {{"run", "Run"}, {"prepare", "Prepare"}, {"try", "Try"}, {"ask", "Ask"}};

void help_all(FILE *out)
{
    fputs("seckill: a flash sale that cannot oversell\n\nUsage: seckill VERB [flags] [arguments]\n", out);
    for (size_t g = 0; g < countof(groups); g++) {
        fprintf(out, "\n%s\n", groups[g].title);
        for (unsigned v = 0; v < VERB_COUNT; v++)
            if (strcmp(verb_row((enum verb)v)->group, groups[g].group) == 0)
                fprintf(out, "  %-13s %s\n", verb_row((enum verb)v)->name, verb_row((enum verb)v)->summary);
    }
    fputs("\n`seckill help VERB` tells what a verb takes, `seckill help settings` what can be set. Exit codes: 0 done, 1 failed, 2 misused, 3 bad setting, 4 a part we need does not answer,\n"
          "5 refused by a safety rule, 7 a rule that may never break is broken, 99 a threshold was missed, 130 interrupted.\n", out);
}

/* `seckill help settings`: every setting, its flag, its environment variable and its default. */
static void print_setting(FILE *out, enum setting s)
{
    const struct setting_row *row = setting_row(s);
    char flag[SETTING_NAME_MAX], env[SETTING_NAME_MAX];
    setting_flag(s, flag);
    setting_env(s, env);
    fprintf(out, "  %-24s %s\n", flag, row->text);
    fprintf(out, "  %-24s   %s, default %s%s%s\n", "", env, row->value[0] ? row->value : "none", row->kind == SETTING_NUMBER ? " " : "",
            row->kind == SETTING_NUMBER ? row->unit : "");
}

static void print_own_flags(FILE *out, enum verb v)
{
    const struct flag_row *row;
    bool any = false;
    for (size_t i = 0; (row = flag_row(i)); i++) {
        if (row->verb != v)
            continue;
        if (!any)
            fputs("\nFlags\n", out);
        any = true;
        char name[48];
        snprintf(name, sizeof name, "--%s %s", row->name, row->argument);
        fprintf(out, "  %-24s %s", name, row->text);
        if (row->value[0] && row->kind != FLAG_SWITCH)
            fprintf(out, " [default: %s]", row->value);    /* brackets: it may be a point itself */
        fputc('\n', out);
    }
}

void help_verb(FILE *out, enum verb v)
{
    const struct verb_row *row = verb_row(v);
    fprintf(out, "%s\n\nUsage: seckill %s%s%s [flags]\n", row->summary, row->name, row->arguments[0] ? " " : "", row->arguments);
    print_own_flags(out, v);
    fputs("\nEvery verb\n  --config FILE            Settings in YAML.\n  -o, --output table|json  How data is printed.\n  -h, --help               This.\n", out);
    const struct example_row *example;
    bool any = false;
    for (size_t i = 0; (example = example_row(i)); i++) {
        if (example->verb != v)
            continue;
        fputs(any ? "" : "\nExamples\n", out);
        any = true;
        fprintf(out, "  %-54s # %s\n", example->command, example->text);
    }
    if (row->reads_settings || v == VERB_check_config)
        fputs("\nSettings, as --redis-url, are flags of this verb too: `seckill help settings` lists them.\n", out);
}

static void help_settings(FILE *out)
{
    fputs("Settings: a flag, else the environment, else the file (--config), else the default. A secret may come from a file: NAME_FILE in the environment.\n\n", out);
    for (unsigned s = 0; s < SETTING_COUNT; s++)
        print_setting(out, (enum setting)s);
}

int verb_help(const struct call *c)
{
    enum verb v;
    if (c->argument_count == 0) {
        help_all(stdout);
        return LEAVE_DONE;
    }
    if (verb_find(str_of(c->arguments[0]), &v)) {
        help_verb(stdout, v);
        return LEAVE_DONE;
    }
    if (strcmp(c->arguments[0], "settings") == 0) {
        help_settings(stdout);
        return LEAVE_DONE;
    }
    struct suggest nearest = {.typed = str_of(c->arguments[0])};
    for (unsigned i = 0; i < VERB_COUNT; i++)
        suggest_offer(&nearest, verb_row((enum verb)i)->name);
    if (nearest.best)
        return call_misused(c, "there is no verb \"%s\"; did you mean \"%s\"?", c->arguments[0], nearest.best);
    return call_misused(c, "there is no verb \"%s\"", c->arguments[0]);
}

/* ---- completion ---------------------------------------------------------------------------------------------------------- */

static void print_flags_of(enum verb v)
{
    const struct flag_row *row;
    fputs("--config --output --help", stdout);
    for (size_t i = 0; (row = flag_row(i)); i++)
        if (row->verb == v)
            printf(" --%s", row->name);
    for (unsigned s = 0; verb_row(v)->reads_settings && s < SETTING_COUNT; s++) {
        char flag[SETTING_NAME_MAX];
        setting_flag((enum setting)s, flag);
        printf(" %s", flag);
    }
}

static void print_verbs(void)
{
    for (unsigned v = 0; v < VERB_COUNT; v++)
        printf("%s%s", v > 0 ? " " : "", verb_row((enum verb)v)->name);
}

static void complete_bash(void)
{
    fputs("_seckill() {\n  local word=${COMP_WORDS[COMP_CWORD]} words\n  if [ \"$COMP_CWORD\" = 1 ]; then words='", stdout);
    print_verbs();
    fputs("'\n  else case ${COMP_WORDS[1]} in\n", stdout);
    for (unsigned v = 0; v < VERB_COUNT; v++) {
        printf("    %s) words='", verb_row((enum verb)v)->name);
        print_flags_of((enum verb)v);
        fputs("' ;;\n", stdout);
    }
    fputs("  esac; fi\n  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\ncomplete -o default -F _seckill seckill\n", stdout);
}

static void complete_fish(void)
{
    for (unsigned v = 0; v < VERB_COUNT; v++)
        printf("complete -c seckill -n __fish_use_subcommand -f -a %s -d \"%s\"\n", verb_row((enum verb)v)->name, verb_row((enum verb)v)->summary);
    const struct flag_row *row;
    for (size_t i = 0; (row = flag_row(i)); i++)
        printf("complete -c seckill -n '__fish_seen_subcommand_from %s' -l %s -d \"%s\"\n", verb_row(row->verb)->name, row->name, row->text);
    for (unsigned s = 0; s < SETTING_COUNT; s++) {
        char flag[SETTING_NAME_MAX];
        setting_flag((enum setting)s, flag);
        printf("complete -c seckill -l %s -d '%s'\n", flag + 2, setting_row((enum setting)s)->key);
    }
}

int verb_completion(const struct call *c)
{
    const char *shell = c->argument_count == 1 ? c->arguments[0] : "";
    if (strcmp(shell, "bash") == 0) {
        complete_bash();
    } else if (strcmp(shell, "zsh") == 0) {
        fputs("autoload -Uz bashcompinit && bashcompinit\n", stdout);
        complete_bash();
    } else if (strcmp(shell, "fish") == 0) {
        complete_fish();
    } else {
        return call_misused(c, "which shell: bash, zsh or fish?");
    }
    return LEAVE_DONE;
}

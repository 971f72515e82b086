/* SPDX-License-Identifier: Apache-2.0
 * spec_sql.c: the states, moves and reasons of the tables in spec/ as SQL for the ledger's tables of the same names, at build.
 * Printed rows replace those that stand, so the database follows the tables and nobody copies a list. */
#include <stdio.h>

static void quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'')
            putchar('\'');
        putchar(*text);
    }
    putchar('\'');
}

static void row(const char *table, const char *key, const char *fields, const char *meaning)
{
    printf("INSERT INTO %s VALUES (%s, %s, ", table, key, fields);
    quoted(meaning);
    puts(");");
}

int main(void)
{
    puts("-- printed by tools/spec_sql.c from the tables in spec/");
    puts("DELETE FROM activity_transition; DELETE FROM activity_state; DELETE FROM order_transition; DELETE FROM order_state;");
    puts("DELETE FROM reservation_transition; DELETE FROM reservation_state; DELETE FROM reason;");
#define FLAG(n) ((n) ? "true" : "false")
#define STATE(name, sells, meaning) row("activity_state", "'" #name "'", FLAG(sells), meaning);
#include "activity.def"
#undef STATE
#define MOVE(from, event, to, mover) row("activity_transition", "'" #from "'", "'" #event "', '" #to "'", mover);
#include "activity.def"
#undef MOVE
#define STATE(name, holds, terminal, meaning) row("order_state", "'" #name "'", (holds) ? ((terminal) ? "true, true" : "true, false") : ((terminal) ? "false, true" : "false, false"), meaning);
#include "order.def"
#undef STATE
#define MOVE(from, event, to, mover) row("order_transition", "'" #from "'", "'" #event "', '" #to "'", mover);
#include "order.def"
#undef MOVE
#define STATE(name, rank, terminal, meaning) row("reservation_state", "'" #name "'", (terminal) ? #rank ", true" : #rank ", false", meaning);
#include "reservation.def"
#undef STATE
#define MOVE(from, event, to, mover) row("reservation_transition", "'" #from "'", "'" #event "', '" #to "'", mover);
#include "reservation.def"
#undef MOVE
#define REASON(word, http, fate, level, text) row("reason", "'" #word "'", "'" #fate "'", text);
#include "reason.def"
#undef REASON
    return fflush(stdout) != 0 || ferror(stdout);
}

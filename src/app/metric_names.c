/* SPDX-License-Identifier: Apache-2.0 */
#include "metric_names.h"

#include "auditor.h"
#include "ledger.h"
#include "terms.h"

static const char *reason_name(unsigned i) { return i < REASON_COUNT ? reason_word((enum reason)i) : NULL; }
static const char *state_name(unsigned i) { return i < RESERVATION_STATE_COUNT ? reservation_state_name((enum reservation_state)i) : NULL; }
static const char *no_name(unsigned i) { return (void)i, NULL; }

static const char *kind_name(unsigned i)
{
    static const char *const names[OUTBOX_KINDS] = {"STATUS", "RETURN", "EVENT", "DEAD_LETTER", "REFUND"};
    return i < OUTBOX_KINDS ? names[i] : NULL;
}

static const char *result_name(unsigned i) { return i < AUDIT_RESULTS ? audit_result_name((enum audit_result)i) : NULL; }

const metric_label_name metric_names[METRIC_LABEL_TABLES] = {no_name, reason_name, state_name, no_name, kind_name, result_name};
_Static_assert(REASON_COUNT < METRIC_LABELS, "every reason has a cell");

/* SPDX-License-Identifier: Apache-2.0
 * warming.c: one activity is watched; seen long enough without a pause, it is warmed once more. */
#include "warming.h"

#include "log.h"

#define FORGOTTEN_MS 5000    /* not seen for so long it has been finished, or is nobody's any more */

struct warming_options warming_options_default(void) { return (struct warming_options){.control = control_options_default(), .patience_ms = 10000}; }

bool warming_init(struct warming *w, struct store *store, struct ledger *ledger, struct clock *clock, struct warming_options options)
{
    *w = (struct warming){.clock = clock, .options = options, .controller = controller_new(store, ledger, clock, 1, options.control)};
    return w->controller != NULL;
}

static void ended(struct control *c)
{
    struct warming *w = container_of(c, struct warming, control);
    w->busy = false;
    w->number = 0;
}

void warming_seen(struct warming *w, const struct activity *a)
{
    uint64_t now = clock_mono_us(w->clock);
    if (w->busy || w->stopped || a->activity.len > sizeof w->name)
        return;
    if (w->number != a->number) {
        if (w->number != 0 && now - w->seen_us < (uint64_t)FORGOTTEN_MS * 1000)
            return;    /* another is watched */
        w->number = a->number;
        w->since_us = now;
    }
    w->seen_us = now;
    if (now - w->since_us < (uint64_t)w->options.patience_ms * 1000)
        return;
    memcpy(w->name, a->activity.ptr, a->activity.len);
    w->control = (struct control){.activity = {w->name, a->activity.len}, .event = ACTIVITY_EVENT_WARM, .actor = str_lit("janitor"),
                                  .note = str_lit("it was begun and not finished"), .done = ended};
    w->busy = control_start(w->controller, &w->control);
}

void warming_stop(struct warming *w)
{
    w->stopped = true;
    w->busy = false;
    control_let_go(&w->control);
}

void warming_free(struct warming *w)
{
    controller_free(w->controller);
    w->controller = NULL;
}

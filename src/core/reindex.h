/* SPDX-License-Identifier: Apache-2.0
 * reindex.h: a bucket that lost one of its keys is indexed again (port/store.h), slice by slice, so that its recovery can begin (protocol §12). One bucket at a
 * time: another that is wanted meanwhile is left to the caller's next round. A job that dies leaves nothing behind; the next one begins anew. */
#pragma once
#include "clock.h"
#include "store.h"

struct reindexer_options {
    uint32_t call_ms;        /* budget of one slice; 2000 */
    uint32_t fault_ms;       /* rest after a call that failed; 200 */
    uint32_t attempts;       /* failures in a row, then it is left to the next round; 10 */
};
struct reindexer_options reindexer_options_default(void);

struct reindexer {
    struct store *store;
    struct clock *clock;
    struct reindexer_options options;
    void (*done)(struct reindexer *, const struct bucket *, struct str mark);    /* all slices are done: it is closed under this mark now, and can be recovered */
    bool busy, draining;
    struct bucket bucket;
    char name[64], mark[MARK_TEXT], cursor[24];
    size_t mark_len, cursor_len;
    uint32_t failures;
    struct waiter call;
    struct alarm rest;
};
void reindexer_init(struct reindexer *, struct store *, struct clock *, struct reindexer_options,
                    void (*done)(struct reindexer *, const struct bucket *, struct str mark));
/* This bucket is closed under this mark, because the keys named by `lost` are missing. False: another bucket is in work, or it is in work already. */
bool reindexer_want(struct reindexer *, const struct bucket *, struct str mark, struct str lost);
void reindexer_drain(struct reindexer *);    /* begins nothing more */
static inline bool reindexer_idle(const struct reindexer *r) { return !r->busy; }
void reindexer_free(struct reindexer *);

/* SPDX-License-Identifier: Apache-2.0
 * words.h: the words in which the ledger's tests speak: an item, a batch, what was told. Everything copied, nothing freed: tests are short. */
#pragma once
#include "world.h"

#define assert_str(got, want) assert_true(str_eq((got), (want)))

struct str words(const char *format, ...) __attribute__((format(printf, 1, 2)));    /* a text that stays */

struct activity shop(const char *name, int64_t stock_s, int64_t stock_t, uint8_t buckets);    /* creates it, with SKUs S and T, in `world` */
struct token s_unit(const struct activity *, int64_t nth, uint32_t generation);                 /* of S, from 0 */
struct create_order item(const struct activity *, const char *sku, const char *user, const char *request, const char *reservation, struct token);

struct told {
    enum reason reason;
    size_t count;
    bool regressed;
    struct verdict verdicts[LEDGER_BATCH_MAX];
};
struct told place(const struct create_order *items, size_t count);
struct told place_from(const struct queue_prefix *prefixes, size_t prefix_count, struct str owner, const struct create_order *items, size_t count);
struct told release(struct create_order what, enum reason why);
#define PLACE(...) place((struct create_order[]){__VA_ARGS__}, countof(((struct create_order[]){__VA_ARGS__})))
void told_keep(struct seen *, const void *);

struct looked {
    enum reason reason;
    struct ledger_look_answer a;
};
struct looked look(enum look_by by, struct str id, struct str activity, struct str user);

struct claimed {
    size_t count;
    uint64_t waiting;
    struct outbox_row rows[LEDGER_BATCH_MAX];
};
struct claimed claim(uint32_t hold_ms);
struct claimed claim_of(size_t limit, uint32_t hold_ms);
void finish(const struct finish_item *items, size_t count);
void finish_all(void);                                   /* claims and finishes until nothing is left */
const struct outbox_row *row_of(const struct claimed *, enum outbox_kind, struct str reservation, int64_t unit);

struct listed {
    size_t count;
    struct ledger_unit units[256];
};
struct listed units(const struct activity *, int64_t after, int32_t bucket, bool available, size_t limit);
struct ledger_unit unit(const struct activity *, int64_t unit);

struct audited {
    struct audit_answer a;
    struct finding findings[64];
};
struct audited audit(struct str activity);
void assert_clean(struct str activity);    /* the audit finds nothing in it (empty: in any); what it finds is printed */

/* ---- money and people ---- */

struct activity till(const char *name, int64_t stock, uint32_t pay_timeout_s);    /* an activity with one SKU S at 100 CNY */
struct activity till_at(const char *name, int64_t stock, uint32_t pay_timeout_s, int64_t price);    /* the same at another price */
struct str order_of(const struct create_order *);

/* A callback with a webhook-id of its own and a body that says what it says. Its order is one of ours (it names the reservation) where it begins with "ord_". */
struct pay_item callback(struct str order, const char *payment, enum payment_result, int64_t amount, const char *currency);
struct paid {
    enum reason reason;
    size_t count;
    struct pay_verdict verdicts[LEDGER_PAY_MAX];
};
struct paid pay(const struct pay_item *items, size_t count);
struct pay_verdict pay_one(struct pay_item item);
void paid_keep(struct seen *, const void *);

struct canceled {
    enum reason reason;
    size_t count;
    int64_t now_ms;
    struct cancel_verdict verdicts[LEDGER_BATCH_MAX];
};
struct canceled cancel(const struct cancel_item *items, size_t count, bool due, enum reason why);
struct cancel_verdict cancel_one(struct str order, struct str user);                    /* as its user would */
void canceled_keep(struct seen *, const void *);

struct overdues {
    size_t count;
    int64_t now_ms;
    struct overdue orders[LEDGER_BATCH_MAX];
};
struct overdues overdue(size_t limit, uint32_t grace_ms);
struct overdues overdue_after(const struct overdue *, size_t limit);                  /* those behind this one; NULL: from the oldest */

/* The order and its payments, as the look for an order tells them. */
struct account {
    enum reason reason;
    struct order order;
    size_t count;
    struct payment_record payments[LOOK_PAYMENTS_MAX];
};
struct account account_of(struct str order);
const struct payment_record *payment_in(const struct account *, const char *payment);    /* NULL: none */

struct reviewed {
    enum reason reason;
    size_t count;
    uint64_t open;
    struct review reviews[LEDGER_BATCH_MAX];
};
struct reviewed reviews(struct reviews_ask ask);
struct resolved {
    enum reason reason;
    struct resolve_answer a;
};
struct resolved resolve(struct str id, enum review_decision decision, const struct create_order *what);
struct review review_of(const char *payment);                                            /* the open one of this payment; id empty: none */

struct told_story {
    size_t count;
    struct story_event events[LEDGER_BATCH_MAX];
};
struct told_story story(struct story_ask ask);
const char *story_word(enum story_kind kind);

/* SPDX-License-Identifier: Apache-2.0 */
#include "desk.h"

struct desk_options desk_options_default(void)
{
    return (struct desk_options){
        .catalog = catalog_options_default(), .settler = settler_options_default(), .publisher = publisher_options_default(),
        .incarnation = incarnation_options_default(), .soldout = soldout_options_default(), .query = query_options_default(),
        .pays = counter_options_default(), .cancels = counter_options_default(), .takes = 8192, .reserve_ms = 1000, .ledger_ms = 500,
        .refresh_ms = 300, .poll_after_ms = 500, .take_looks = 500, .answer_looks = 750, .waiting_looks = 100, .watch_ms = 500};
}

bool desk_init(struct desk *d, struct store *store, struct bus *bus, struct ledger *ledger, struct clock *clock, struct random *random,
               const struct ident_keys *keys, struct desk_options options)
{
    *d = (struct desk){.store = store, .bus = bus, .ledger = ledger, .clock = clock, .random = random, .keys = keys, .options = options};
    d->office = (struct verdict_office){.ledger = ledger, .settler = &d->settler, .catalog = &d->catalog, .keys = keys};
    verdict_watch_init(&d->watch, ledger, clock, options.watch_ms, options.ledger_ms);
    counter_init(&d->pays, COUNTER_PAY, ledger, clock, options.pays);
    counter_init(&d->cancels, COUNTER_CANCEL, ledger, clock, options.cancels);
    if (!catalog_init(&d->catalog, ledger, clock, options.catalog))
        return false;
    if (!settler_init(&d->settler, store, clock, random, options.settler)) {
        catalog_free(&d->catalog);
        return false;
    }
    if (!publisher_init(&d->publisher, bus, clock, &d->settler, keys, options.publisher)) {
        settler_free(&d->settler);
        catalog_free(&d->catalog);
        return false;
    }
    bool guarded = incarnation_init(&d->guard, store, options.incarnation);
    if (!guarded || !soldout_init(&d->soldout, store, clock, &d->catalog, &d->guard, options.soldout)) {
        incarnation_free(&d->guard);
        publisher_free(&d->publisher);
        settler_free(&d->settler);
        catalog_free(&d->catalog);
        return false;
    }
    return true;
}

void desk_start(struct desk *d) { catalog_start(&d->catalog); }

void desk_drain(struct desk *d) { d->draining = true; }

bool desk_idle(const struct desk *d)
{
    return d->takes == 0 && d->queries == 0 && counter_held(&d->pays) == 0 && counter_held(&d->cancels) == 0 && publisher_held(&d->publisher) == 0 && settler_held(&d->settler) == 0;
}

void desk_stop(struct desk *d)
{
    catalog_stop(&d->catalog);
    soldout_stop(&d->soldout);
    verdict_watch_stop(&d->watch);
    counter_stop(&d->pays);
    counter_stop(&d->cancels);
}

void desk_free(struct desk *d)
{
    verdict_watch_stop(&d->watch);
    counter_stop(&d->pays);
    counter_stop(&d->cancels);
    soldout_free(&d->soldout);
    incarnation_free(&d->guard);
    publisher_free(&d->publisher);
    settler_free(&d->settler);
    catalog_free(&d->catalog);
}

void desk_doubt(struct desk *d, uint16_t activity, uint8_t bucket)
{
    uint64_t now = clock_mono_us(d->clock);
    doubt_add(&d->doubts, activity, bucket, now, now + (uint64_t)d->options.query.fall_back_ms * 1000);
}

bool desk_in_doubt(const struct desk *d, uint16_t activity, uint8_t bucket) { return doubt_holds(&d->doubts, activity, bucket, clock_mono_us(d->clock)); }

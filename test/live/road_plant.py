# SPDX-License-Identifier: Apache-2.0
"""The auditor, judged: in sales that are quiet, somebody breaks the stores by hand, past every trigger and constraint. Each time the
audit must end with 7 and name the very row; a neighbour in which nothing was broken stays clean."""
import concurrent.futures
import re

from sale import right, same

# What a superuser with no scruples can do: triggers and foreign keys do not fire in such a session.
PAST_TRIGGERS = "set session_replication_role = replica;\n"


class Planted:
    """A sale of five units, one of them sold to alice, and what the audit must say of it."""

    def __init__(self, sale, name):
        self.sale, self.name, self.sku = sale, name, f"sku_{name}"
        self.wanted = []    # (rule, what the line must hold)

    def look(self):
        row = self.sale.sql(f"select order_id, reservation_id, unit, inventory_token_id from orders where activity_id = '{self.name}'")[0]
        self.order, self.reservation, self.unit, self.token = row
        self.free = [(u, f"token_{int(u):06d}-{g}") for u, g in self.sale.sql(
            f"select unit, generation from inventory_token where activity_id = '{self.name}' and status = 'AVAILABLE' order by unit")]

    def key(self, name):
        return self.sale.key(self.name, f"{name}:{self.sku}")

    def past(self, text):
        self.sale.sql(PAST_TRIGGERS + text)

    def order_like(self, **changes):
        """One more row of orders, alice's but for what is named."""
        columns = ["order_id", "request_id", "reservation_id", "activity_id", "sku_id", "user_id", "unit", "generation", "amount", "currency", "pay_deadline"]
        values = [str(changes.get(c, c)) for c in columns]
        self.past(f"insert into orders ({', '.join(columns)}) select {', '.join(values)} from orders where order_id = '{self.order}'")


def lost(p):
    unit, token = p.free[0]
    same("taken out", p.sale.redis("ZREM", p.key("free"), unit), 1)
    return [("conservation", token), ("conservation", "in no bucket")]


def sold_and_free(p):
    p.sale.redis("ZADD", p.key("free"), 1, p.unit)
    return [("conservation", p.token)]


def at_two_places(p):
    unit, token = p.free[1]
    p.sale.redis("ZADD", p.key("rest"), 1, unit)
    return [("conservation", token)]


def stale_generation(p):
    unit, _ = p.free[2]
    p.sale.sql(f"update inventory_token set generation = generation + 1 where unit = {unit}")
    return [("conservation", f"token_{int(unit):06d}-2")]


def unit_of_nobody(p):
    p.sale.redis("ZADD", p.key("free"), 1, 77777777)
    return [("conservation", "token_77777777-1")]


def order_twice_of_a_user(p):
    p.sale.sql("alter table orders drop constraint if exists uq_orders_activity_sku_user")
    p.order_like(order_id="'ord_PLANTED_USER'", reservation_id="'rsv_PLANTED_USER'", request_id="'another'", unit=p.free[0][0])
    return [("H2", "ord_PLANTED_USER"), ("H2", p.order), ("17.7 one order per user", f"{p.name}/{p.sku}/alice"), ("H7", "ord_PLANTED_USER"), ("H5", "ord_PLANTED_USER")]


def order_twice_of_a_request(p):
    p.sale.sql("alter table orders drop constraint if exists uq_orders_activity_user_request")
    p.order_like(order_id="'ord_PLANTED_REQUEST'", reservation_id="'rsv_PLANTED_REQUEST'", sku_id="'another'", unit=p.free[0][0])
    return [("H3", "ord_PLANTED_REQUEST"), ("H3", f"{p.name}/alice/r-alice")]


def order_twice_of_a_reservation(p):
    p.sale.sql("alter table orders drop constraint if exists uq_orders_reservation")
    p.order_like(order_id="'ord_PLANTED_RESERVATION'", user_id="'bob'", request_id="'another'", unit=p.free[0][0])
    return [("H4", p.reservation), ("H4", "ord_PLANTED_RESERVATION"), ("17.7 one order per reservation", p.reservation)]


def order_twice_of_a_unit(p):
    p.sale.sql("alter table orders drop constraint if exists uq_orders_token; drop index if exists uq_orders_unit_held")
    p.order_like(order_id="'ord_PLANTED_UNIT'", reservation_id="'rsv_PLANTED_UNIT'", user_id="'bob'", request_id="'another'")
    return [("H5", p.token), ("H5", f"unit {p.unit}"), ("17.7 one reservation per token", p.token)]


def more_sold_than_there_is(p):
    for i in range(5):
        p.order_like(order_id=f"'ord_PLANTED_OVER{i}'", reservation_id=f"'rsv_PLANTED_OVER{i}'", user_id=f"'over{i}'", request_id="'another'", unit=88888880 + i)
    return [("H1", f"{p.name}/{p.sku}"), ("H5", "ord_PLANTED_OVER0")]


def a_token_less(p):
    unit, token = p.free[0]
    p.past(f"delete from inventory_token where unit = {unit}")
    return [("H10", f"{p.name}/{p.sku}"), ("conservation", f"token_{int(unit):06d}-")]


def a_token_more(p):
    p.past(f"insert into inventory_token (unit, activity_id, sku_id, bucket) values (99999999, '{p.name}', '{p.sku}', 0)")
    return [("H10", "unit 99999999")]


def released_and_ordered(p):
    p.past(f"update consumer_inbox set outcome = 'RELEASED', reason = 'OVERDUE' where reservation_id = '{p.reservation}'")
    return [("H7", p.order)]


def order_gone(p):
    p.past(f"delete from orders where order_id = '{p.order}'")
    return [("H7", p.reservation), ("H5", f"unit {p.unit}")]


def paid_then_cancelled(p):
    p.sale.sql("alter table orders drop constraint if exists orders_check, drop constraint if exists orders_check1, drop constraint if exists orders_paid_by")
    p.past(f"update orders set status = 'PAID', paid_at = now() where order_id = '{p.order}'; update orders set status = 'CANCELED', canceled_at = now() "
           f"where order_id = '{p.order}'")
    return [("17.7 paid is never cancelled", p.order)]


def paid_and_not(p):
    p.sale.sql(f"insert into payment_record (payment_id, order_id, result, amount, currency, channel, occurred_at, disposition) values "
               f"('pay_PLANTED', '{p.order}', 'SUCCESS', 100, 'CNY', 'x', now(), 'PAYMENT_APPLIED')")
    return [("H8", p.order)]


def consumed_for_nobody(p):
    unit, token = p.free[0]
    p.past(f"update inventory_token set status = 'CONSUMED', reservation_id = 'rsv_NOBODY', consumed_at = now() where unit = {unit}")
    return [("H5", f"unit {unit}")]


def generation_went_back(p):
    p.past(f"update orders set generation = 5 where order_id = '{p.order}'")
    return [("H6", f"unit {p.unit}")]


def journal_lost(p):
    p.past(f"delete from inventory_journal where unit = {p.unit}")
    return [("H1", f"unit {p.unit}")]


PLANTS = [lost, sold_and_free, at_two_places, stale_generation, unit_of_nobody, order_twice_of_a_user, order_twice_of_a_request, order_twice_of_a_reservation,
          order_twice_of_a_unit, more_sold_than_there_is, a_token_less, a_token_more, released_and_ordered, order_gone, paid_then_cancelled, paid_and_not,
          consumed_for_nobody, generation_went_back, journal_lost]


def all_clean(sale):
    """Before anything is broken, the audit of every sale finds nothing, and the queries of mission §17.7 give no row"""
    sale.drain()
    sale.proved()
    for text in ("select activity_id, sku_id, user_id, count(*) from orders group by 1, 2, 3 having count(*) > 1",
                 "select inventory_token_id, count(distinct reservation_id) from orders group by inventory_token_id having count(distinct reservation_id) > 1",
                 "select reservation_id, count(*) from orders group by reservation_id having count(*) > 1",
                 "select order_id from orders where status in ('CANCELING', 'CANCELED') and paid_at is not null"):
        same(text, sale.sql(text), [])


UNIQUE_PLANTS = "'ord_PLANTED_USER', 'ord_PLANTED_REQUEST', 'ord_PLANTED_RESERVATION', 'ord_PLANTED_UNIT'"


def unique_of_orders(sale):
    """Statements that bring back what the plants drop: the audit looks for each of these indexes, in every sale."""
    return [f"alter table orders add constraint {name} {definition}" for name, definition in sale.sql(
        "select conname, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'orders'::regclass and contype = 'u'")] + [
        row[0] for row in sale.sql("select pg_get_indexdef('uq_orders_unit_held'::regclass)")]


def restore_unique(sale, kept):
    """The orders that no unique index would take go first."""
    have = {row[0] for row in sale.sql("select relname from pg_class where relkind = 'i'")}
    missing = [text for text in kept if not any(name in text.split() for name in have)]
    sale.sql(PAST_TRIGGERS + f"delete from orders where order_id in ({UNIQUE_PLANTS});\n" + ";\n".join(missing))


def plants(sale):
    """Nineteen ways to break the stores: for each the audit ends with 7 and names the row, and only in the sale it was done to"""
    planted = [Planted(sale, f"plant_{plant.__name__}") for plant in PLANTS]
    for p in planted:
        sale.activity(p.name, 5, rest=0)
    sale.activity("plant_none", 5)
    waiting = [(p.name, sale.queued(p.name, "alice")) for p in planted] + [("plant_none", sale.queued("plant_none", "alice"))]
    for name, reservation in waiting:
        same(name, sale.verdict("alice", reservation)["status"], "ORDERED")
    sale.drain()
    sale.stall("janitor")    # once in half a minute it looks, too, and mends copies that should not be (protocol §10; auditor.py): here only the audit looks
    kept = unique_of_orders(sale)
    try:
        for plant, p in zip(PLANTS, planted):
            p.look()
            p.wanted = plant(p)
        with concurrent.futures.ThreadPoolExecutor(len(PLANTS)) as pool:
            said = list(pool.map(lambda p: sale.audit(p.name, patience=0), planted))
    finally:
        restore_unique(sale, kept)
    sale.wake()
    missed = []
    for p, (code, answer) in zip(planted, said):
        lines = [(f["rule"], f"{f['subject']}: {f['detail']}") for f in answer["findings"]]
        if code != 7 or answer["clean"]:
            missed.append(f"{p.name}: exit {code}")
        for rule, word in p.wanted:
            if not any(r == rule and re.search(rf"(?<![0-9A-Za-z_]){re.escape(word)}", line) for r, line in lines):
                missed.append(f"{p.name}: nothing of {rule} names {word}; it says {lines}")
    right("\n".join(missed), not missed)
    sale.proved("plant_none", sold=1)
    proof = {name: sum(answer[name] for _, answer in said) for name in ("oversell", "duplicates", "drift")}
    right(f"numbers of the proof: {proof}", proof["oversell"] >= 1 and proof["duplicates"] >= 4 and proof["drift"] >= 5)


STORIES = [all_clean, plants]

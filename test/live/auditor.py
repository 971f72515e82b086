# SPDX-License-Identifier: Apache-2.0
"""The janitor's auditor on real servers (mission §10.7): what nobody claims comes back, what is there too often goes, what is under way is left alone,
and a sale whose ledger breaks a rule of safety is stopped."""
import sys

sys.dont_write_bytecode = True    # the checkout stays clean

from sale import Sale, right, same, tell, until

# Not to wait for ten minutes: a count every 300 ms, half of its time, and a unit that nobody claims for 1.5 s comes back.
FAST = {"SECKILL_AUDIT_EVERY_MS": "300", "SECKILL_AUDIT_MISSING_MS": "1500", "SECKILL_AUDIT_SHARE": "50"}
ROUNDS, CROWD = 10, 5000
LONG = 150    # a busy machine makes its work long


def generation(sale, unit):
    return sale.value(f"select generation from inventory_token where unit = {unit}")


def free_unit(sale, activity, place=0):
    return sale.sql(f"select unit from inventory_token where activity_id = '{activity}' and status = 'AVAILABLE' order by unit")[place][0]


def stands(sale, activity, unit):
    """Whether the bucket holds it for sale: it rests a little before it is free again."""
    return any(sale.redis("ZSCORE", sale.key(activity, f"{kind}:sku_{activity}"), unit) is not None for kind in ("free", "rest"))


def audits(sale):
    """Counts that have ended, of the janitor beside the sale's own."""
    text = sale.get("/metrics", port=sale.janitor_port).text
    return sum(int(line.split()[1]) for line in text.splitlines()
               if line.startswith("seckill_audits_total{") and "unjudged" not in line)


def ordered(sale, activity, user):
    """What just came back rests a little: STOCK_MOVING until then."""
    until(f"{user} is let in", 20, lambda: sale.buy(activity, user)["code"] in ("QUEUED", "ORDERED"))
    sale.ordered(activity, user)


def sell_out(sale, activity, users):
    for user in users:
        ordered(sale, activity, user)
    sale.sold_out(activity, "late")
    sale.drain()


def nobody_claims_it(sale):
    """A unit that no store claims comes back under a new generation, once, and is sold"""
    sale.activity("gone", 3)
    unit = free_unit(sale, "gone")
    same("taken out of Redis", sale.redis("ZREM", sale.key("gone", "free:sku_gone"), unit), 1)
    until("it comes back", LONG, lambda: stands(sale, "gone", unit))
    same("its generation", generation(sale, unit), "2")
    same("who is told", sale.sql("select count(*), max(note) from audit_log where action = 'unit.return'"), [["1", "nobody claimed it"]])
    sell_out(sale, "gone", ["ann", "bob", "cat"])
    sale.proved("gone", sold=3)


def a_copy_of_a_sold_one(sale):
    """A copy of a sold unit is taken away; nobody gets it a second time"""
    sale.activity("twice", 2)
    sale.ordered("twice", "ann")
    sale.drain()
    unit = sale.value("select unit from orders where activity_id = 'twice'")
    same("put back by hand", sale.redis("ZADD", sale.key("twice", "free:sku_twice"), 1, unit), 1)
    until("it is gone", LONG, lambda: not stands(sale, "twice", unit))
    ordered(sale, "twice", "bob")
    sale.sold_out("twice", "cat")
    sale.drain()
    sale.proved("twice", sold=2)


def an_old_copy(sale):
    """A copy at a generation that is over is replaced by the present one"""
    sale.activity("old", 2)
    unit = free_unit(sale, "old")
    sale.sql(f"update inventory_token set generation = 3 where unit = {unit}")
    until("the present one is there", LONG, lambda: sale.redis("ZSCORE", sale.key("old", "free:sku_old"), unit) is None and stands(sale, "old", unit))
    sell_out(sale, "old", ["ann", "bob"])
    sale.proved("old", sold=2)


def under_way(sale):
    """Five thousand units under way and nobody who consumes: ten counts change nothing, and all become orders"""
    sale.activity("flying", CROWD)
    sale.stall("order")
    bodies = [{"activity_id": "flying", "sku_id": "sku_flying", "request_id": f"r{i}", "user_id": f"u{i}"} for i in range(CROWD)]

    def all_in():
        sale.crowd(bodies)
        return sale.count(sale.key("flying", "pending")) == CROWD
    until("all are let in", 60, all_in)
    before, units = audits(sale), sale.sql("select unit, generation, status from inventory_token where activity_id = 'flying' order by unit")
    returned = sale.value("select count(*) from audit_log where action = 'unit.return'")
    activities = int(sale.value("select count(*) from activity where state <> 'DRAFT'"))
    until(f"{ROUNDS} rounds", LONG, lambda: audits(sale) >= before + ROUNDS * activities)
    same("the units of the ledger", sale.sql("select unit, generation, status from inventory_token where activity_id = 'flying' order by unit"), units)
    same("units returned", sale.value("select count(*) from audit_log where action = 'unit.return'"), returned)
    same("reserved in Redis", sale.count(sale.key("flying", "pending")), CROWD)
    sale.wake()
    until("all are orders", 60, lambda: sale.orders("flying") == CROWD)
    sale.drain()
    sale.proved("flying", sold=CROWD)


def a_rule_is_broken(sale):
    """A ledger that breaks a rule of safety: the sale is paused, winners are still answered, and it stays so until the cause is gone"""
    sale.activity("broken", 1000)
    strangers = (f"stranger{i}" for i in range(900))
    first = sale.ordered("broken", "ann")
    sale.drain()
    past = "set session_replication_role = replica;\n"
    sale.sql(past + f"create table kept as select * from consumer_inbox where reservation_id = '{first}'; delete from consumer_inbox where reservation_id = '{first}'")

    def paused():
        return sale.admin("GET", "/broken")["state"] == "PAUSED"
    until("the sale is paused", LONG, paused)
    until("new ones are refused", 30, lambda: sale.buy("broken", next(strangers))["code"] == "RESERVATION_PAUSED")
    same("a winner asks again", sale.buy("broken", "ann")["reservation_id"], first)
    right("who did it, and why", sale.value("select note from audit_log where action like '%pause%' and actor = 'janitor'").startswith("H7 is broken"))
    sale.admin("POST", "/broken/resume", "")
    until("it is paused again", LONG, paused)
    sale.sql("insert into consumer_inbox select * from kept; drop table kept")
    sale.admin("POST", "/broken/resume", "")
    seen = audits(sale)
    activities = int(sale.value("select count(*) from activity where state <> 'DRAFT'"))
    until("two rounds more", LONG, lambda: audits(sale) >= seen + 2 * activities)
    same("it sells", sale.admin("GET", "/broken")["state"], "OPEN")
    ordered(sale, "broken", "bob")
    sale.drain()
    sale.proved("broken")


def told_and_forgotten(sale):
    """A ledger that does not wait for its disk breaks H14: the audit names it, sales are paused, and go on once it waits again"""
    sale.activity("forgetful", 10)

    def waits(word):
        sale.sql(f"alter system set full_page_writes = {word}")
        sale.sql("select pg_reload_conf()")
        until(f"full_page_writes is {word}", 20, lambda: sale.value("show full_page_writes") == word)
    waits("off")
    try:
        code, said = sale.audit("forgetful", patience=1)
        same("the audit", (code, [f["rule"] for f in said["findings"]]), (7, ["H14"]))
        until("the sale is paused", LONG, lambda: sale.admin("GET", "/forgetful")["state"] == "PAUSED")
    finally:
        waits("on")
    sale.admin("POST", "/forgetful/resume", "")
    ordered(sale, "forgetful", "ann")
    sale.drain()
    sale.proved("forgetful", sold=1)


if __name__ == "__main__":
    running = Sale(processes="access order relay admin", **FAST)
    running.janitor_port = Sale.free_port()
    running.serve("janitor", SECKILL_HEALTH_LISTEN=f"127.0.0.1:{running.janitor_port}")
    until("the janitor can be asked", 20, lambda: Sale.listens(running.janitor_port))
    only = [s for s in (nobody_claims_it, a_copy_of_a_sold_one, an_old_copy, under_way, a_rule_is_broken, told_and_forgotten) if sys.argv[1:] in ([], [s.__name__])]
    sys.exit(tell(running, only))

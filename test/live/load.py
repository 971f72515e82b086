# SPDX-License-Identifier: Apache-2.0
"""`seckill load` against a whole sale: what it leaves behind when all is well, when a threshold is missed, when somebody has broken the ledger, and
when the service stood still."""
import json
import sys
import threading
import time

sys.dont_write_bytecode = True    # the checkout stays clean

from sale import Sale, right, same, tell, until

# The machine may be busy with other tests: what is judged here is not how fast it is.
CALM = "generator: {late_ms: 2000, connections: 32}\n"


def load(sale, text, *words):
    """(exit code, the JSON it has printed)"""
    path = sale.dir / "scenario.yaml"
    path.write_text(text)
    code, said = sale.do("load", str(path), "-o", "json", *words)
    return code, json.loads(said) if said.startswith("{") else {}


def all_is_well(sale):
    """A sale with retries, bots, payments, cancels and doubled messages leaves 0"""
    page = sale.dir / "page.html"
    code, said = load(sale, "sale: {stock: 60, skus: 2, skew: 1}\narrivals: {rate: 150, seconds: 4}\npeople: {retries: 20, pay: 60, cancel: 30, decide_ms: 300, poll_first_ms: 300}\n"
                            "bots: {bad_tokens: 5, malformed: 5, flood: 5}\nmessages: {doubled: 20}\nthresholds: {lost: 0, errors: 0, undecided: 0}\n" + CALM,
                      "--report", str(page))
    same(f"exit code of {sale.said[-2000:]}", code, 0)
    same("what it found", (said["trusted"], said["contradictions"], said["undecided"], said["audit"]["clean"]), (True, 0, 0, True))
    right(f"people bought: {said['ordered']}", 100 <= said["ordered"] <= 120 + said["canceled"])    # what was cancelled may be sold again
    right("messages were doubled", said["messages_doubled"] > 0)
    right("some paid, some cancelled", said["paid"] > 0 and said["canceled"] > 0)
    right("bots were answered", {"INVALID_REQUEST"} <= set(said["answers_to_bots"]))
    same("every process told its metrics", said["listeners_answered"], 5)
    empty = [name for name, stage in said["stages"].items() if stage["count"] == 0]
    same("stages that nothing was measured of", empty, [])
    text = page.read_text()
    right("the page has its drawings and fetches nothing", text.count("<polyline") >= 8 and "http:" not in text and "https:" not in text and "<script" not in text)
    activity = sale.admin("GET", f"/{said['activity_id']}")
    same("the activity is closed behind it", activity["state"], "CLOSED")


def missed(sale):
    """A threshold that nothing can keep leaves 99, and the reason stands there"""
    code, said = load(sale, "sale: {stock: 5}\narrivals: {rate: 50, seconds: 1}\nthresholds: {p50_ms: 0.001, lost: 0}\n" + CALM)
    same("exit code", code, 99)
    same("kept", [(t["key"], t["kept"]) for t in said["thresholds"]], [("thresholds.p50_ms", False), ("thresholds.lost", True)])
    same("the rules hold", said["audit"]["clean"], True)


def planted(sale):
    """An order that somebody took out of the ledger is found: 7, and its unit is named"""
    sale.activity("planted", 20)
    sale.ordered("planted", "alice")
    token = sale.value("select inventory_token_id from orders where activity_id = 'planted'")
    text = ("sale: {activity: planted, sku: sku_planted}\narrivals: {rate: 20, seconds: 1}\npeople: {patience_s: 5}\nthresholds: {lost: 0}\n" + CALM)
    sale.sql("set session_replication_role = replica;\ndelete from orders where activity_id = 'planted'")
    code, said = load(sale, text)
    same("exit code", code, 7)
    right(f"{token} is named: {said['audit']['findings'][:3]}", any(token in f["subject"] + f["detail"] for f in said["audit"]["findings"]))


def doubled_order(sale):
    """Two orders of one user, past a key that somebody dropped, are found while the load goes on: 7"""
    sale.activity("twice", 20)
    sale.ordered("twice", "alice")
    sale.sql("alter table orders drop constraint if exists uq_orders_activity_sku_user")
    columns = "order_id, request_id, reservation_id, activity_id, sku_id, user_id, unit, generation, amount, currency, pay_deadline"
    free = sale.value("select unit from inventory_token where activity_id = 'twice' and status = 'AVAILABLE' order by unit desc limit 1")
    sale.sql(f"set session_replication_role = replica;\ninsert into orders ({columns}) select 'ord_TWICE', 'another', 'rsv_TWICE', activity_id, sku_id, user_id, {free}, "
             "generation, amount, currency, pay_deadline from orders where activity_id = 'twice'")
    code, said = load(sale, "sale: {activity: twice, sku: sku_twice}\narrivals: {rate: 20, seconds: 1}\npeople: {patience_s: 3}\n" + CALM)
    same("exit code", code, 7)
    right(f"H2 is named: {said['audit']['findings'][:3]}", any(f["rule"] == "H2" for f in said["audit"]["findings"]))


def stood_still(sale):
    """The service stands still for a second: who was due meanwhile is seen to have waited"""
    def stall():
        until("it has begun", 20, lambda: sale.value("select count(*) from activity where title = 'made by seckill load' and state = 'OPEN'") != "0")
        time.sleep(1.7)
        sale.stall("access")
        time.sleep(1.2)
        sale.wake()
    thread = threading.Thread(target=stall)
    thread.start()
    code, said = load(sale, "sale: {stock: 10}\narrivals: {rate: 100, seconds: 4, spacing: even}\npeople: {retries: 0}\ngenerator: {late_ms: 2000, connections: 2}\nthresholds: {lost: 0}\n")
    thread.join()
    same(f"exit code of {sale.said[-1000:]}", code, 0)
    due, sent = said["latency"], said["latency_from_sent"]
    right(f"a quarter waited half a second and more on average: {due}", due["p90_us"] > 400000 and due["max_us"] > 900000)
    right(f"a loop that waits for its answers would have seen next to nothing of it: {sent}", sent["p90_us"] < due["p90_us"] / 2)


if __name__ == "__main__":
    sys.exit(tell(Sale(), [all_is_well, missed, stood_still, planted, doubled_order]))

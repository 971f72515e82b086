# SPDX-License-Identifier: Apache-2.0
"""Archiving on real servers (docs/retention.md): a sale that is over leaves PostgreSQL and Redis for a file; what is under way stays."""
import json
import pathlib

from sale import right, same


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def archived(sale):
    """A closed sale is archived: all rows in a file, no key in Redis, its name used once, its orders not found"""
    file = pathlib.Path(sale.dir) / "bygone.jsonl"
    sale.activity("bygone", 5)
    orders = [sale.ordered("bygone", user) for user in ("ann", "bob")]
    sale.drain()
    code, _ = sale.do("archive", "bygone", "--out", str(file), "--closed-hours", "0")
    right(f"an open sale is refused ({code}): {sale.said}", code == 5 and "it is OPEN, not CLOSED" in sale.said)
    same("nothing happened", sale.value("select count(*) from activity where activity_id = 'bygone'"), "1")
    for order in sale.sql("select order_id, user_id from orders where activity_id = 'bygone'"):
        same(f"cancelling {order}", sale.ask("POST", f"/v1/orders/{order[0]}/cancel?user_id={order[1]}").status, 200)
    sale.admin("POST", "/bygone/close", {"reason": "over"})
    sale.drain()
    keys = sale.redis("KEYS", "sk:{bygone:*")
    right("Redis held it", len(keys) > 3)
    code, _ = sale.do("archive", "bygone", "--out", str(file), "--closed-hours", "0")
    right(f"archived ({code}): {sale.said}", code == 0)
    same("keys in Redis", sale.redis("KEYS", "sk:{bygone:*"), [])
    for table in ("activity", "activity_sku", "orders", "inventory_token", "bucket"):
        same(f"rows in {table}", sale.value(f"select count(*) from {table} where activity_id = 'bygone'"), "0")
    rows = [line for line in lines(file) if "table" in line]
    same("orders in the file", sorted(r["row"]["user_id"] for r in rows if r["table"] == "orders"), ["ann", "bob"])
    same("units in the file", len({r["row"]["unit"] for r in rows if r["table"] == "inventory_token"}), 5)
    same("its end", lines(file)[-1]["complete"], True)
    same("verdicts that stay", sale.value("select count(*) from consumer_inbox where activity_id = 'bygone'"), "2")
    code, _ = sale.do("archive", "bygone", "--out", str(file), "--closed-hours", "0")
    same("once more", code, 0)
    again = sale.admin("POST", "", {"activity_id": "bygone", "starts_at": "2020-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z", "buckets": 1,
                                    "skus": [{"sku_id": "s", "stock": 1, "price": 100, "currency": "CNY"}]})
    right(f"its name is used once: {again}", again.status == 409 and "ACTIVITY_ARCHIVED" in again.text)
    sale.proved()
    code, _ = sale.do("archive", "--purge", "--out", str(file))
    right(f"nothing is old enough ({code}): {sale.said}", code == 0 and sale.said.startswith("0 rows"))


STORIES = [archived]

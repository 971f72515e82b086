# SPDX-License-Identifier: Apache-2.0
"""Money on the road: what a payment channel says, in every order and number; cancels; time that runs out; what goes back, and who had what when."""
import base64
import hashlib
import hmac
import json
import time

import broker
from sale import TAKEN, right, same, until

COUNT = iter(range(10**6))


def order_of(reservation):
    return "ord_" + reservation[4:]


def payment(order, amount=100, result="SUCCESS", currency="CNY", name=None, **more):
    return {"payment_id": name or f"pay_{next(COUNT)}", "order_id": order, "result": result, "amount": amount, "currency": currency, "channel": "test.pay",
            "occurred_at": "2026-11-30T00:00:00.000Z"} | more


def signed(sale, body, hook=None, at=None, key=None):
    key = base64.b64decode((key or sale.environ["SECKILL_PAYMENT_WEBHOOK_KEYS"].split(",")[0])[6:])
    hook, at = hook or f"hook_{next(COUNT)}", str(int(time.time()) if at is None else at)
    mac = hmac.new(key, b".".join([hook.encode(), at.encode(), body]), hashlib.sha256).digest()
    return {"webhook-id": hook, "webhook-timestamp": at, "webhook-signature": "v1," + base64.b64encode(mac).decode()}


def pays(sale, what, hook=None, **more):
    """A callback as a channel sends it, and again where it is told to come again."""
    body = json.dumps(what).encode()
    headers = signed(sale, body, hook, **more)
    answer = sale.ask("POST", "/v1/payments/callbacks", body, headers=headers)
    if answer.status == 503:
        until(f"an answer of it: {answer}", 20, lambda: (answer := sale.ask("POST", "/v1/payments/callbacks", body, headers=headers)).status != 503)
        answer = sale.ask("POST", "/v1/payments/callbacks", body, headers=headers)
    return answer


def cancel(sale, user, order):
    return sale.ask("POST", f"/v1/orders/{order}/cancel?user_id={user}")


def order(sale, user, order_id):
    return sale.get(f"/v1/orders/{order_id}?user_id={user}")


def given_back(sale, user, order_id, count=1):
    """Each refund has gone to the channel, once, and the order's own answer says so."""
    def done():
        refunds = order(sale, user, order_id)["refunds"] or []
        return len(refunds) == count and all(r["status"] == "DONE" for r in refunds)
    until(f"{count} refunds of {order_id} are DONE", 20, done)
    told = [m for m in sale.broker.of(broker.EVENT, order_id) if m.json["event"] == "REFUND_REQUESTED"]
    same("events of it, each payment once or more", len({m.json["payment_id"] for m in told}), count)


def paid(sale):
    """An order is paid once: a callback, the same again, the same with another webhook-id, FAILED before and after it, and no cancel any more"""
    sale.activity("paid", 3)
    name = order_of(sale.ordered("paid", "alice"))
    p = payment(name)
    same("FAILED first", pays(sale, p | {"result": "FAILED"})["code"], "PAYMENT_FAILED_RECORDED")
    same("still", order(sale, "alice", name)["status"], "CREATED")
    first = pays(sale, p, "hook-paid")
    same("the callback", (first.status, first["code"], first["refund"]), (200, "PAYMENT_APPLIED", False))
    for _ in range(3):
        again = pays(sale, p, "hook-paid")
        same("the same again", (again["code"], again.headers.get("idempotency-replayed")), ("PAYMENT_APPLIED", "true"))
    same("with another webhook-id", pays(sale, p)["code"], "PAYMENT_DUPLICATE")
    same("FAILED after SUCCESS", pays(sale, p | {"result": "FAILED"})["code"], "PAYMENT_DUPLICATE")
    seen = order(sale, "alice", name)
    same("the order", (seen["status"], seen["refunds"]), ("PAID", None))
    right("when", seen["paid_at"])
    answer = cancel(sale, "alice", name)
    same("a cancel of it", (answer.status, answer["code"]), (409, "ORDER_PAID"))
    same("the reservation shows it", sale.reservation("alice", "rsv" + name[3:])["order_status"], "PAID")
    sale.drain()
    same("events", sorted({m.json["event"] for m in sale.broker.of(broker.EVENT, name)}), ["ORDER_CREATED", "PAID"])
    sale.proved("paid", sold=1)


def forged(sale):
    """A callback that is not signed as it should be is not even read: no key, another key, an old timestamp, a changed byte, doubled headers"""
    sale.activity("forged", 2)
    name = order_of(sale.ordered("forged", "alice"))
    body = json.dumps(payment(name)).encode()
    good = signed(sale, body)
    other = "whsec_" + base64.b64encode(b"another key of somebody else's").decode()
    bad = [{}, signed(sale, body, key=other), signed(sale, body, at=int(time.time()) - 301), signed(sale, body, at=int(time.time()) + 330),    # not 301: a second later that is 300, and good
           good | {"webhook-id": "other"}, good | {"webhook-timestamp": str(int(good["webhook-timestamp"]) - 1)}, good | {"webhook-signature": "v2," + good["webhook-signature"][3:]}]
    for headers in bad:
        answer = sale.ask("POST", "/v1/payments/callbacks", body, headers=headers)
        same(f"with {headers}", (answer.status, answer["code"]), (401, "SIGNATURE_INVALID"))
    same("a changed byte", sale.ask("POST", "/v1/payments/callbacks", body + b" ", headers=good).status, 401)
    same("no JSON, unsigned", sale.ask("POST", "/v1/payments/callbacks", b"\xff", headers=good).status, 401)
    same("no JSON, signed: recorded for an operator", sale.ask("POST", "/v1/payments/callbacks", b"{", headers=signed(sale, b"{"))["code"], "PAYMENT_QUARANTINED")
    same("nothing was recorded", sale.value(f"select count(*) from payment_record where order_id = '{name}'"), "0")
    several = good | {"webhook-signature": "v1,AAAA " + good["webhook-signature"]}
    same("one good signature among several", sale.ask("POST", "/v1/payments/callbacks", body, headers=several)["code"], "PAYMENT_APPLIED")
    same("unknown members are passed over", pays(sale, json.loads(body) | {"fee": 1, "more": {"a": [1]}})["code"], "PAYMENT_DUPLICATE")
    sale.proved("forged", sold=1)


def late(sale):
    """Cancelled by its user, paid afterwards: the order stays so, the money goes back once; the unit is sold to another meanwhile"""
    sale.activity("pay_late", 1)
    name = order_of(sale.ordered("pay_late", "alice"))
    token = order(sale, "alice", name)["inventory_token_id"]
    same("not his", cancel(sale, "mallory", name)["code"], "NOT_FOUND")
    for _ in range(3):
        answer = cancel(sale, "alice", name)
        same("the cancel", (answer.status, answer["status"]), (200, "CANCELED"))
    bob = until("the unit is sold again", 10, lambda: (lambda a: a if a["code"] in TAKEN else None)(sale.buy("pay_late", "bob")))["reservation_id"]
    same("bob", sale.verdict("bob", bob)["status"], "ORDERED")
    right("the same unit, a new token", order(sale, "bob", order_of(bob))["inventory_token_id"] == token[:-1] + "2")
    same("alice may not buy again", sale.buy("pay_late", "alice", "other")["code"], "ALREADY_PURCHASED")
    p = payment(name)
    answer = pays(sale, p)
    same("the payment", (answer["code"], answer["refund"]), ("PAYMENT_AFTER_CANCEL", True))
    same("again", pays(sale, p)["code"], "PAYMENT_DUPLICATE")
    given_back(sale, "alice", name)
    same("the order", order(sale, "alice", name)["status"], "CANCELED")
    same("bob's", order(sale, "bob", order_of(bob))["status"], "CREATED")
    code, text = sale.do("explain", token)
    for words in (f"by rsv{name[3:]}", f"by {bob}", "CANCELED", "unit back", "on sale again"):
        right(f"explain {token} says {words!r}:\n{text}", code == 0 and words in text)
    code, text = sale.do("explain", p["payment_id"])
    right(f"explain of the payment:\n{text}", code == 0 and "PAYMENT_AFTER_CANCEL" in text and "DONE" in text)
    code, text = sale.do("explain", name)
    right(f"explain of the order:\n{text}", code == 0 and text.index("order canceled") < text.index("refund"))
    sale.proved("pay_late", sold=1)


def twice(sale):
    """A second payment of a paid order goes back, once; a third as well"""
    sale.activity("twice", 2)
    name = order_of(sale.ordered("twice", "alice"))
    same("first", pays(sale, payment(name))["code"], "PAYMENT_APPLIED")
    for _ in range(2):
        answer = pays(sale, payment(name))
        same("more", (answer["code"], answer["refund"]), ("PAYMENT_EXTRA", True))
    given_back(sale, "alice", name, 2)
    same("the order", order(sale, "alice", name)["status"], "PAID")
    sale.proved("twice", sold=1)


def quarantined(sale):
    """Wrong amount, wrong currency, an order nobody made, a webhook-id with another body: the money is recorded, and a person decides"""
    sale.activity("wrong", 2)
    name = order_of(sale.ordered("wrong", "alice"))
    less, euros, nobody = payment(name, 99), payment(name, currency="EUR"), payment("ord_of_nobody")
    same("too little", pays(sale, less, "hook-less")["code"], "PAYMENT_QUARANTINED")
    same("another currency", pays(sale, euros)["code"], "PAYMENT_QUARANTINED")
    same("an order nobody made", pays(sale, nobody)["code"], "PAYMENT_QUARANTINED")
    same("the webhook-id with another body", pays(sale, payment(name), "hook-less")["code"], "PAYMENT_QUARANTINED")
    same("the order", order(sale, "alice", name)["status"], "CREATED")
    listed = sale.ask("GET", "/admin/v1/reviews", port=sale.admin_port)["reviews"]
    mine = {r["payment"]["payment_id"]: r for r in listed if r["kind"] == "PAYMENT"}
    same("why", [mine[p["payment_id"]]["reason"] for p in (less, euros, nobody)], ["WRONG_AMOUNT", "WRONG_AMOUNT", "ORDER_UNKNOWN"])
    code, text = sale.do("review", "list")
    right(f"seckill review list:\n{text}", code == 0 and all(p["payment_id"] in text for p in (less, euros, nobody)))
    review = mine[less["payment_id"]]["review_id"]
    shown = sale.ask("GET", f"/admin/v1/reviews/{review}", port=sale.admin_port)
    same("its evidence", json.loads(shown["body"])["payment_id"], less["payment_id"])
    refused = sale.ask("POST", f"/admin/v1/reviews/{review}/resolve", {"decision": "RELEASE"}, port=sale.admin_port)
    same("without a reason", (refused.status, refused["code"]), (400, "INVALID_REQUEST"))
    answer = sale.ask("POST", f"/admin/v1/reviews/{review}/resolve", {"decision": "RELEASE", "reason": "too little"}, port=sale.admin_port)
    same("it goes back", (answer.status, answer["decision"]), (200, "RELEASE"))
    code, text = sale.do("review", "resolve", mine[euros["payment_id"]]["review_id"], "--decision", "RELEASE", "--reason", "euros")
    same("by hand", code, 0)
    given_back(sale, "alice", name, 2)
    for p in (nobody,):
        code, text = sale.do("review", "resolve", mine[p["payment_id"]]["review_id"], "--decision", "DISMISS", "--reason", "a test")
        right(f"money that waits is not dismissed: {text}", code != 0)
        code, text = sale.do("review", "resolve", mine[p["payment_id"]]["review_id"], "--decision", "REFUND", "--reason", "a test")
        same(f"refunded: {text}", code, 0)
    same("and the right amount", pays(sale, payment(name))["code"], "PAYMENT_APPLIED")
    right("who decided is written down", int(sale.value("select count(*) from audit_log where action like 'review.%'")) >= 3)
    for r in sale.ask("GET", "/admin/v1/reviews", port=sale.admin_port)["reviews"]:    # what is left belongs to this story alone
        if r["kind"] == "PAYMENT":
            sale.do("review", "resolve", r["review_id"], "--decision", "REFUND", "--reason", "the end of the story")
    sale.proved("wrong", sold=1)


def odd_callbacks(sale):
    """What some channels send: 60 KiB with members that no parser likes, a failed payment of nothing before the right one, one payment_id for two orders, no JSON"""
    sale.activity("odd_callbacks", 3)
    names = [order_of(sale.ordered("odd_callbacks", user)) for user in ("alice", "bob")]
    p = payment(names[0])
    failed = {k: v for k, v in p.items() if k not in ("amount", "currency")} | {"result": "FAILED"}
    same("a failed payment of nothing", pays(sale, failed)["code"], "PAYMENT_FAILED_RECORDED")
    body = json.dumps(p)[:-1].encode() + b',"half":"\\ud800","zero":"\\u0000","deep":' + b"[" * 40 + b"]" * 40 + b',"x":1,"x":2,"note":"' + b"n" * 60000 + b'"}'
    answer = sale.ask("POST", "/v1/payments/callbacks", body, headers=signed(sale, body))
    same("60 KiB", (answer.status, answer["code"]), (200, "PAYMENT_APPLIED"))
    second = p | {"order_id": names[1]}
    same("the same payment_id for another order", pays(sale, second)["code"], "PAYMENT_QUARANTINED")
    for _ in range(2):
        same("no JSON", sale.ask("POST", "/v1/payments/callbacks", b"paid!", headers=signed(sale, b"paid!", "hook-odd"))["code"], "PAYMENT_QUARANTINED")
    listed = sale.ask("GET", "/admin/v1/reviews", port=sale.admin_port)["reviews"]
    money = [r for r in listed if r["kind"] == "PAYMENT" and r["payment"]["order_id"] == names[1]]
    odd = [r for r in listed if r["kind"] == "CALLBACK" and r["message_key"] == "hook-odd"]
    same("reviews", (len(money), len(odd)), (1, 1))
    same("the channel's own payment_id", money[0]["payment"]["payment_id"], p["payment_id"])
    same("its body", sale.ask("GET", f"/admin/v1/reviews/{odd[0]['review_id']}", port=sale.admin_port)["body"], "paid!")
    answer = sale.ask("POST", f"/admin/v1/reviews/{money[0]['review_id']}/resolve", {"decision": "APPLY", "reason": "two orders, two sums"}, port=sale.admin_port)
    same("it pays bob's order", (answer.status, answer["decision"]), (200, "APPLY"))
    for user, name in zip(("alice", "bob"), names):
        same(f"{user}'s order", order(sale, user, name)["status"], "PAID")
    for r in sale.ask("GET", "/admin/v1/reviews", port=sale.admin_port)["reviews"]:    # also those of other stories
        if r["kind"] == "CALLBACK":
            code, text = sale.do("review", "resolve", r["review_id"], "--decision", "DISMISS", "--reason", "read")
            same(f"dismissed: {text}", code, 0)
    sale.proved("odd_callbacks", sold=2)


def undecided(sale):
    """A payment of a reservation that has no verdict yet is not recorded: the channel comes again, and is heard"""
    sale.activity("pay_early", 2)
    sale.stall("order")
    name = order_of(sale.queued("pay_early", "alice"))
    body = json.dumps(payment(name)).encode()
    answer = sale.ask("POST", "/v1/payments/callbacks", body, headers=signed(sale, body, "hook-early"))
    same("too early", (answer.status, answer["code"], answer["retryable"]), (503, "PAYMENT_UNDECIDED", True))
    same("recorded", sale.value(f"select count(*) from payment_record where order_id = '{name}'"), "0")
    sale.wake()
    same("later", pays(sale, json.loads(body), "hook-early")["code"], "PAYMENT_APPLIED")
    sale.proved("pay_early", sold=1)


def timeout(sale):
    """Nobody pays in time: the order is cancelled by PostgreSQL's clock and the unit sold again; who paid where the callback was lost keeps his order"""
    sale.activity("pay_slow", 2, pay_timeout_s=6)    # time for bob to pay, and for carol, however slow the machine
    name, kept = order_of(sale.ordered("pay_slow", "alice")), order_of(sale.ordered("pay_slow", "bob"))
    code, text = sale.do("pay", kept, "--lost")
    same(f"the channel takes bob's money: {text}", code, 0)
    deadline = order(sale, "alice", name)["pay_deadline"]
    until("alice's order is cancelled", 30, lambda: order(sale, "alice", name)["status"] == "CANCELED")
    right("not before its time", order(sale, "alice", name)["canceled_at"] >= deadline)
    until("bob's is paid, for the channel was asked", 10, lambda: order(sale, "bob", kept)["status"] == "PAID")
    again = until("the unit is sold again", 10, lambda: (lambda a: a if a["code"] in TAKEN else None)(sale.buy("pay_slow", "carol")))
    carol = order_of(again["reservation_id"])
    same("carol", sale.verdict("carol", again["reservation_id"])["status"], "ORDERED")
    same("in time", pays(sale, payment(carol))["code"], "PAYMENT_APPLIED")
    until("timer messages came", 20, lambda: {name, kept} & {m.json["order_id"] for m in sale.broker.read("seckill-order-timeout")})
    sale.drain()
    same("why", [m.json["reason"] for m in sale.broker.of(broker.EVENT, name) if m.json["event"] == "CANCELED"][:1], ["PAY_TIMEOUT"])
    sale.proved("pay_slow", sold=2)


def dead_letter(sale):
    """A message that cannot be read waits for a person, who can read it and close it"""
    sale.activity("pay_dead", 1)
    sale.broker.send(broker.CREATE, b'{"schema_version":1,"who":"knows"}', "nobody", 1)
    until("it is parked", 20, lambda: int(sale.value("select count(*) from review where kind = 'MESSAGE' and message_key = 'nobody'")) == 1)
    review = sale.value("select review_id from review where message_key = 'nobody'")
    code, text = sale.do("review", "show", review)
    right(f"its body is shown: {text}", code == 0 and json.loads(text)["body"] == '{"schema_version":1,"who":"knows"}')
    answer = sale.ask("POST", f"/admin/v1/reviews/{review}/resolve", {"decision": "RETRY", "reason": "perhaps now"}, port=sale.admin_port)
    same("it still cannot be read", (answer.status, answer["code"]), (409, "CONFLICT"))
    code, _ = sale.do("review", "resolve", review, "--decision", "DISMISS", "--reason", "nobody's")
    same("closed", code, 0)
    same("once more the same", sale.do("review", "resolve", review, "--decision", "DISMISS", "--reason", "nobody's")[0], 0)
    same("another decision", sale.do("review", "resolve", review, "--decision", "RELEASE", "--reason", "no")[0], 1)
    sale.proved("pay_dead", sold=0)


STORIES = [paid, forged, late, twice, quarantined, odd_callbacks, undecided, timeout, dead_letter]

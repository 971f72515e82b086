# SPDX-License-Identifier: Apache-2.0
"""What shoppers do with their orders: some pay, some cancel, some pay too late, or twice. As actions for a crowd (shoppers.py), and what must hold in the end.

The callbacks are signed by a second, independent hand; a callback that heard nothing is sent again under the same webhook-id, as a payment channel does. Whoever
was told that an order is paid, or cancelled, holds us to that.
"""
import base64
import collections
import hashlib
import hmac
import http.client
import json
import threading
import time
import urllib.parse

from sale import right, same, until

PAY, CANCEL, LATE, TWICE = 0.3, 0.15, 0.05, 0.05    # how many of those who bought do so; the rest neither pay nor cancel
KEY = "whsec_ZGV2ZWxvcG1lbnQtb25seS13ZWJob29rLWtleQ=="    # where the settings name none
TRIES = 25


class Money:
    """`told`: order → {"PAID", "CANCELED"}, whatever a shopper or the channel was told of it; `given`: payments that were recorded, by what became of them."""

    def __init__(self, sale):
        self.sale, self.lock = sale, threading.Lock()
        self.told, self.given = collections.defaultdict(set), {}
        key = sale.environ.get("SECKILL_PAYMENT_WEBHOOK_KEYS", KEY).split(",")[0]
        self.key = base64.b64decode(key.removeprefix("whsec_"))
        self.channel = urllib.parse.urlparse(sale.environ.get("SECKILL_PAYMENT_CHANNEL_URL", "")).port

    # ---- actions

    def decide(self, crowd, chance, activity, user, answer):
        """The action: what he is going to do with what he bought."""
        draw, order = chance.random(), "ord_" + (answer["reservation_id"] or "")[4:]
        if answer["code"] != "QUEUED":
            return
        for share, plan in [(PAY, ["pay"]), (CANCEL, ["cancel"]), (LATE, ["cancel", "pay"]), (TWICE, ["pay", "pay"])]:
            if draw < share:
                crowd.again(0.3 + chance.random(), self.go_on, activity, user, (order, plan, 0, 0))
                return
            draw -= share

    def go_on(self, crowd, chance, activity, user, about):
        """The next step of a plan, again until somebody has answered it."""
        order, plan, step, tries = about
        over = False
        try:
            over = getattr(self, plan[step])(crowd, chance.choice(crowd.doors), user, order, f"{order}-{step}")
        finally:
            if over and step + 1 < len(plan):
                crowd.again(0.2, self.go_on, activity, user, (order, plan, step + 1, 0))
            elif not over and tries < TRIES:
                crowd.again(0.5 + tries * 0.1, self.go_on, activity, user, (order, plan, step, tries + 1))

    def pay(self, crowd, door, user, order, name):
        """True: the payment is recorded."""
        payment = {"payment_id": "pay_" + name[4:], "order_id": order, "result": "SUCCESS", "amount": 100, "currency": "CNY", "channel": "test",
                   "occurred_at": "2026-12-01T00:00:00Z"}
        body = json.dumps(payment)
        if self.channel:    # it has the money before it says so
            self.sale.ask("POST", "/v1/payments", body, port=self.channel, timeout=5)
        answer = self.sale.ask("POST", "/v1/payments/callbacks", body, port=door, timeout=5, headers=self.signed(name, body))
        right(f"a callback is never refused: {answer}", answer.status in (200, 503, 429))
        if answer.status != 200:
            return False
        with self.lock:
            before = self.given.setdefault(payment["payment_id"], answer["code"])
            if answer["code"] in ("PAYMENT_APPLIED", "PAYMENT_DUPLICATE") and "PAYMENT_APPLIED" in (answer["code"], before):
                self.told[order].add("PAID")
        right(f"{name} again: {answer}, before {before}", answer["code"] in (before, "PAYMENT_DUPLICATE") or before == "PAYMENT_DUPLICATE")
        return True

    def cancel(self, crowd, door, user, order, name):
        """True: it is cancelled, or paid."""
        answer = self.sale.ask("POST", f"/v1/orders/{order}/cancel?user_id={user}", port=door, timeout=5)
        right(f"a cancel: {answer}", answer.status in (200, 404, 409, 429, 503))    # 404: no order yet
        with self.lock:
            if answer.status == 200:
                self.told[order].add("CANCELED")
            elif answer.status == 409 and answer["code"] == "ORDER_PAID":
                self.told[order].add("PAID")
        return answer.status in (200, 409)

    def signed(self, name, body):
        at = str(int(time.time()))
        mac = hmac.new(self.key, f"{name}.{at}.{body}".encode(), hashlib.sha256).digest()
        return {"webhook-id": name, "webhook-timestamp": at, "webhook-signature": "v1," + base64.b64encode(mac).decode()}

    # ---- what must hold

    def was_true(self, seconds=60):
        """Nobody was told two things of one order, what was told is what the ledger says, and money that was not applied goes back once."""
        same("orders told to be paid and cancelled", [o for o, w in self.told.items() if len(w) > 1][:5], [])
        states = dict(self.sale.sql("select order_id, status from orders"))
        wrong = [(o, w, states.get(o)) for o, w in self.told.items() if states.get(o) not in w]
        same("orders that are not what was told", wrong[:5], [])
        records = {p: (order, disposition) for p, order, disposition in self.sale.sql("select payment_id, order_id, disposition from payment_record")}
        same("payments that were answered and are not recorded", [p for p in self.given if p not in records][:5], [])
        if self.channel:
            self.goes_back(records, seconds)
        return collections.Counter(self.given.values())

    def goes_back(self, records, seconds):
        due = {p: order for p, (order, what) in records.items() if what in ("PAYMENT_AFTER_CANCEL", "PAYMENT_EXTRA")}
        until("every refund is done", seconds, lambda: self.sale.value("select count(*) from payment_record where refund_status = 'REQUESTED'") == "0")
        for payment, order in list(due.items())[:50]:
            said = json.loads(self.sale.ask("GET", f"/v1/refunds?order_id={order}", port=self.channel).text)["refunds"]
            same(f"refunds of {payment} at the channel", [r["payment_id"] for r in said].count(payment), 1)

# SPDX-License-Identifier: Apache-2.0
"""What shoppers do with their orders: they pay, cancel, do both at once, pay twice, too late, too little, or never. Actions for a crowd (shoppers.py), and
what must hold in the end.

The callbacks are signed by a second, independent hand; one that heard nothing is sent again, as the same event, until it is answered, as a payment
channel does. The channel (`seckill pay --serve`, beside the roles of tools/run) has the money before a callback says so, and keeps a book of what it took
and gave back. Whoever was told that an order is paid, or cancelled, holds us to that.
"""
import base64
import collections
import datetime
import hashlib
import hmac
import http.client
import json
import math
import random
import threading
import time
import urllib.parse

import broker
from sale import right, same, until

PRICE, LESS = 100, 99
# What who has bought does with his order: of so many in a hundred, these steps, each when the one before has been answered; "a|b": both at the same
# moment. A step is a row of CALLBACKS or a method of Money. All others never pay.
PLANS = [
    (18, "follow pay look"),
    (5, "follow pay pay"),               # the channel says the same again
    (5, "follow pay pay-anew"),          # … and as another event
    (5, "pay"),                          # before anybody knows whether there will be an order
    (4, "follow fail pay look"),
    (4, "follow pay fail look"),
    (3, "follow fail"),
    (4, "follow pay pay-more"),
    (3, "follow pay|pay-more"),
    (3, "follow pay-less"),
    (8, "follow cancel look"),
    (4, "follow cancel cancel pay look"),
    (8, "follow pay|cancel"),
]
# Which payment of the order it is about, its result, its amount, and which event of this payment it is.
CALLBACKS = {
    "pay":      ("",      "SUCCESS", PRICE, "1"),
    "pay-anew": ("",      "SUCCESS", PRICE, "2"),
    "fail":     ("",      "FAILED",  PRICE, "failed"),
    "pay-more": ("-more", "SUCCESS", PRICE, "1"),
    "pay-less": ("-less", "SUCCESS", LESS,  "1"),
}
TELLS = {"PAYMENT_APPLIED": "PAID", "PAYMENT_EXTRA": "PAID", "PAYMENT_AFTER_CANCEL": "CANCELED"}    # what an answer says of the order
STEP, NEVER = 0.2, math.inf    # seconds until the next step, mostly; there is none
TRIES = 60                     # of a step: some 200 s


def order_of(reservation):
    return "ord_" + reservation[4:]


class Money:
    """`told`: order → what was said of it, PAID or CANCELED, to whomever; `sent`: payment → (order, amount), every SUCCESS that left; `heard`: event → the answer;
    `cancels`: orders that their users wanted cancelled; `ended`: plan → how many have come to its end; `unheard`: steps that were never answered."""

    def __init__(self, sale, plans=tuple(PLANS)):
        self.sale, self.plans, self.lock = sale, plans, threading.Lock()
        self.told, self.sent, self.heard, self.cancels = collections.defaultdict(set), {}, {}, set()
        self.ended, self.unheard = collections.Counter(), []
        self.key = base64.b64decode(sale.environ["SECKILL_PAYMENT_WEBHOOK_KEYS"].split(",")[0].removeprefix("whsec_"))
        self.channel = urllib.parse.urlparse(sale.environ["SECKILL_PAYMENT_CHANNEL_URL"]).port

    # ---- the action, and what drives a plan

    def decide(self, crowd, chance, activity, user, answer):
        """What he is going to do with what he bought: drawn from the crowd's seed and his name alone."""
        if answer["code"] not in ("QUEUED", "ORDERED"):
            return
        draw = random.Random(f"{crowd.seed}/{activity}/{user}").random() * 100
        for share, plan in self.plans:
            if draw < share:
                crowd.again(0.3 + chance.random(), self.go_on, activity, user, (order_of(answer["reservation_id"]), plan, plan.split(), 0))
                return
            draw -= share

    def go_on(self, crowd, chance, activity, user, about):
        """The next step of a plan, again until somebody has answered it."""
        order, plan, steps, tries = about
        if "|" in steps[0]:
            for one in steps[0].split("|"):
                crowd.again(STEP, self.go_on, activity, user, (order, plan, [one], 0))
            return
        try:
            pause = self.take(steps[0], crowd, chance, user, order)
        except (OSError, http.client.HTTPException):
            pause = None
        if pause is None and tries == TRIES:
            self.unheard.append(f"{steps[0]} of {order}")
        elif pause is None:
            crowd.again(min(STEP * (tries + 1), 4) * (0.5 + chance.random()), self.go_on, activity, user, (order, plan, steps, tries + 1))
        elif steps[1:] and pause < NEVER:
            crowd.again(pause, self.go_on, activity, user, (order, plan, steps[1:], 0))
        elif not steps[1:]:
            with self.lock:
                self.ended[plan] += 1

    def take(self, step, *about):
        """One step: seconds until the next; None: it has not been answered, and must be taken again."""
        return self.callback(step, *about) if step in CALLBACKS else getattr(self, step)(*about)

    # ---- the steps

    def follow(self, crowd, chance, user, order):
        """Until there is an order. Where there will be none, the plan is over."""
        answer = self.sale.reservation(user, "rsv_" + order[4:], port=chance.choice(crowd.doors), timeout=5)
        if answer.status != 200 or answer["status"] not in ("ORDERED", "RELEASED"):
            return None
        if answer["status"] == "RELEASED":
            return NEVER
        same(f"the order of {user}'s reservation", answer["order_id"], order)
        return STEP

    def look(self, crowd, chance, user, order):
        """What he sees of his order is what it is, to the end."""
        return STEP if self.see(crowd, chance, user, order) else None

    def see(self, crowd, chance, user, order):
        answer = self.sale.get(f"/v1/orders/{order}?user_id={user}", port=chance.choice(crowd.doors), timeout=5)
        right(f"{order}, of which {user} knows: {answer}", answer.status in (200, 429, 503))
        if answer.status == 200:
            self.hear(order, answer["status"])
        return answer if answer.status == 200 else None

    def linger(self, crowd, chance, user, order):
        """To the end of the time to pay, and a little less or more: the sweep is coming."""
        seen = self.see(crowd, chance, user, order)
        if not seen:
            return None
        deadline = datetime.datetime.fromisoformat(seen["pay_deadline"].replace("Z", "+00:00")).timestamp()
        return max(0, deadline - time.time() + chance.uniform(-0.5, 3.5))

    def cancel(self, crowd, chance, user, order):
        with self.lock:
            self.cancels.add(order)
        answer = self.sale.ask("POST", f"/v1/orders/{order}/cancel?user_id={user}", port=chance.choice(crowd.doors), timeout=5)
        right(f"a cancel of {order}: {answer}", (answer.status, answer["code"]) == (409, "ORDER_PAID") or answer.status in (200, 429, 503))
        if answer.status not in (200, 409):
            return None
        self.hear(order, "CANCELED" if answer.status == 200 else "PAID")
        return STEP

    def callback(self, step, crowd, chance, user, order):
        which, result, amount, event = CALLBACKS[step]
        payment, hook = f"pay_{order[4:]}{which}", f"{order[4:]}{which}-{event}"
        body = json.dumps({"payment_id": payment, "order_id": order, "result": result, "amount": amount, "currency": "CNY", "channel": "test",
                           "occurred_at": "2026-12-01T00:00:00Z"})
        if result == "SUCCESS":
            with self.lock:
                self.sent[payment] = (order, amount)
        taken = self.sale.ask("POST", "/v1/payments", body, port=self.channel, timeout=2)    # it has the money before it says so
        right(f"the channel takes {payment}: {taken}", taken.status in (200, 503))
        if taken.status != 200:
            return None
        answer = self.sale.ask("POST", "/v1/payments/callbacks", body, port=chance.choice(crowd.doors), timeout=5, headers=self.signed(hook, body))
        right(f"a callback is never refused: {answer}", answer.status in (200, 503, 429))
        if answer.status != 200:
            return None
        with self.lock:
            first = self.heard.setdefault(hook, answer["code"])
        same(f"the answer to {hook}, told again", answer["code"], first)
        self.hear(order, TELLS.get(answer["code"]))
        return STEP

    def hear(self, order, status):
        if status in ("PAID", "CANCELED"):
            with self.lock:
                self.told[order].add(status)

    def signed(self, name, body):
        at = str(int(time.time()))
        mac = hmac.new(self.key, f"{name}.{at}.{body}".encode(), hashlib.sha256).digest()
        return {"webhook-id": name, "webhook-timestamp": at, "webhook-signature": "v1," + base64.b64encode(mac).decode()}

    # ---- what must hold

    def was_true(self, seconds=60):
        """Everything was answered, nobody was told two things of one order, and what was told is what the ledger says. Gives what became of the payments."""
        same(f"steps that were never answered, {len(self.unheard)} in all", self.unheard[:5], [])
        same("orders told to be paid and cancelled", [o for o, w in self.told.items() if len(w) > 1][:5], [])
        states = dict(self.sale.sql("select order_id, status from orders"))
        same("orders that are not what was told", [(o, w, states.get(o)) for o, w in self.told.items() if states.get(o) not in w][:5], [])
        verdicts = dict(self.sale.sql("select webhook_id, verdict from payment_webhook"))
        same("answers that are not what is written", [(h, c, verdicts.get(h)) for h, c in self.heard.items() if verdicts.get(h) != c][:5], [])
        until("every refund is done", seconds, lambda: self.sale.value("select count(*) from payment_record where refund_status = 'REQUESTED'") == "0")
        return self.each_once()

    def each_once(self):
        """Each SUCCESS that was sent pays its order, or goes back once, or waits for a person: one of these. The sums of the channel and of the ledger agree."""
        taken, given = self.book()
        events = collections.defaultdict(set)
        for m in self.sale.broker.read(broker.EVENT):
            if m.json["event"] == "REFUND_REQUESTED":
                events[m.json["payment_id"]].add((m.json["event_id"], m.json["order_id"], m.json["amount"]))
        rows = self.sale.sql("""select p.payment_id, p.order_id, p.amount, p.disposition, p.refund_status, coalesce(o.status, ''), coalesce(o.payment_id, ''),
            (select count(*) from review v where v.payment_id = p.payment_id and v.status = 'OPEN')
            from payment_record p left join orders o using (order_id) where p.result = 'SUCCESS'""")
        same("payments sent and payments recorded", {r[0]: (r[1], int(r[2])) for r in rows}, self.sent)
        same("payments sent and payments that the channel took", taken, {p: amount for p, (_, amount) in self.sent.items()})
        fates, sums = {}, collections.Counter()
        for payment, order, amount, what, refund, status, payer, reviews in rows:
            pays, back = status == "PAID" and payer == payment, refund == "DONE"
            aside = what == "PAYMENT_QUARANTINED" and refund == "NONE"
            right(f"{payment} has one consequence: {what}, its refund {refund}, {order} {status} by {payer}", pays + back + aside == 1)
            right(f"why {payment} pays or not: {what}, {order} {status}", what in {
                "PAID": ("PAYMENT_APPLIED",) if pays else ("PAYMENT_EXTRA", "PAYMENT_QUARANTINED"), "CANCELED": ("PAYMENT_AFTER_CANCEL", "PAYMENT_QUARANTINED"),
                "CREATED": ("PAYMENT_QUARANTINED",), "": ("PAYMENT_QUARANTINED",)}[status])
            same(f"{payment} is of {amount} for {order} {status}: whether it is set aside, for one person", (aside, int(reviews)), (int(amount) == LESS, int(aside)))
            same(f"refunds of {payment} at the channel", given[payment], [int(amount)] if back else [])
            same(f"events of the refund of {payment}", events[payment], {(f"REFUND:{payment}", order, int(amount))} if back else set())
            fates[payment] = "applied" if pays else "refunded" if back else "set aside"
            sums[fates[payment]] += int(amount)
        same("refunds of something else", [p for p in [*given, *events] if (given[p] or events[p]) and p not in fates][:5], [])
        paid = int(self.sale.value("select coalesce(sum(amount), 0) from orders where status = 'PAID'"))
        same("the sum of what was applied, and of the orders PAID", sums["applied"], paid)
        same("the sum of what the channel took, and of paid + given back + set aside", sum(taken.values()), paid + sum(map(sum, given.values())) + sums["set aside"])
        return collections.Counter(fates.values())

    def book(self):
        """What the channel has written down: payment → amount of every SUCCESS, and payment → [amount] of every refund."""
        taken, given = {}, collections.defaultdict(list)
        for line in (self.sale.run / "run/channel.jsonl").read_text().splitlines():
            entry = json.loads(line)
            what = entry["what"]
            if entry["kind"] == "refund":
                given[what["payment_id"]].append(what["amount"])
            elif what["result"] == "SUCCESS":
                taken[what["payment_id"]] = what["amount"]
        return taken, given

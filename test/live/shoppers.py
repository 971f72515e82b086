# SPDX-License-Identifier: Apache-2.0
"""A crowd that does not give up: every shopper repeats the same request at another door until he is told something final, whatever dies
meanwhile. It remembers what each was told, and asks the stores in the end whether that was the truth."""
import collections
import heapq
import http.client
import itertools
import json
import random
import threading
import time

import broker
from sale import Wrong, right, same, until

NEW = 0.25    # how often somebody new comes first
ASKS = 12     # so often at least everybody asks, however long the line was: meanwhile strangers buy what lies in buckets that are not his
FINAL = {"QUEUED", "ORDERED", "RELEASED", "ALREADY_PURCHASED", "SOLD_OUT"}


class Shoppers:
    """`doors`: the ports one may knock at; they may come and go. Sales are added while it runs; the crowd goes through them in turn.

    `actions`: what else a shopper does once he has been told something final. Each is called as action(crowd, chance, activity, user, answer) by one of the
    workers, may ask the sale whatever it likes, and raises Wrong where an answer breaks a promise: that is kept in `wrongs`. A connection that breaks is
    no fault; it may then be called again later, through `again`."""

    def __init__(self, sale, seed, workers=12, units=50, users=200, patience=60, actions=()):
        self.sale, self.units, self.users, self.patience, self.actions = sale, units, users, patience, actions
        self.seed, self.wrongs, self.later, self.fleeting, self.gone = seed, [], [], set(), []
        self.busy = 0    # workers who are just doing something that may leave more to do
        self.doors, self.sales, self.told, self.lost = [sale.port], [], {}, []
        self.lock, self.over = threading.Lock(), False
        self.waiting, self.heard = collections.deque(), collections.Counter()
        self.threads = [threading.Thread(target=self.work, args=(random.Random(f"{seed}/{i}"),), daemon=True) for i in range(workers)]
        for t in self.threads:
            t.start()

    def open(self, activity, users=None):
        """A sale has begun; or more users come to it."""
        with self.lock:
            if activity not in self.sales:
                self.sales.append(activity)
            self.waiting.extend((activity, u) for u in users or (f"u{i}" for i in range(self.users)))

    def left(self):
        return len(self.waiting)

    def work(self, chance):
        """Mostly, who has begun something goes on with it before somebody new is let in: else a crowd that is slow leaves ever more behind. But now and then
        somebody new is, or nobody would come while all the others wait for their orders."""
        while True:
            with self.lock:
                new = self.waiting and chance.random() < NEW
                due = heapq.heappop(self.later) if self.later and not new and self.later[0][0] <= time.monotonic() else None
                who = self.waiting.popleft() if self.waiting and not due else None
                if not who and not due and self.over:
                    return
                self.busy += bool(who or due)
            if due:
                self.act(chance, *due[2:])
            final = who and self.shop(chance, *who)
            with self.lock:
                self.busy -= bool(who or due)
            if not final and not due:
                time.sleep(0.01)

    def again(self, seconds, action, activity, user, answer):
        """To be done in so many seconds, by whoever has time then; not any more once everybody has gone home."""
        with self.lock:
            heapq.heappush(self.later, (time.monotonic() + seconds, next(self.late), action, activity, user, answer))

    def act(self, chance, action, *about):
        try:
            action(self, chance, *about)
        except (OSError, http.client.HTTPException):
            pass
        except Wrong as e:
            self.wrongs.append(str(e))

    def shop(self, chance, activity, user, patience=None, asks=1):
        """Asks once. Not final: to the end of the line, for where one bucket is empty and another is not, somebody else must buy first: now and then
        a stranger does, since everybody else of that sale may have gone home before a unit came back. Where nobody pays in time units come back for ever, and
        whoever is of another bucket may be told STOCK_MOVING for ever: that is the truth, and he goes home."""
        patience = patience or time.monotonic() + self.patience
        try:
            answer = self.sale.buy(activity, user, port=chance.choice(self.doors), timeout=5)
            code = answer["code"]
        except (OSError, http.client.HTTPException) as e:
            answer, code = None, type(e).__name__
        with self.lock:
            self.heard[code] += 1
            if code in FINAL:
                self.told[activity, user] = (code, answer["reservation_id"])
            elif time.monotonic() < patience or asks < ASKS:
                self.waiting.append((activity, user, patience, asks + 1))
            elif code == "STOCK_MOVING" and activity in self.fleeting:
                self.gone.append((activity, user))
            else:
                self.lost.append((activity, user, code))
        if code == "STOCK_MOVING":
            # Somebody who waits long waits for a unit in a bucket that is not his: enough strangers that one of them meets it.
            for _ in range(6 if patience - time.monotonic() < self.patience / 2 else chance.random() < 0.25):
                self.stranger(activity)
        for action in self.actions if code in FINAL else ():
            self.act(chance, action, activity, user, answer)
        return code in FINAL

    def finish(self, seconds):
        """Everybody has heard something final."""
        try:
            until("everybody in the crowd is answered", seconds, self.idle)
        except Wrong as e:
            raise Wrong(f"{e}: {self.known()}") from None
        self.over = True
        for t in self.threads:
            t.join(self.patience)
        same("shoppers who were never told anything final", self.lost[:5], [])

    def idle(self):
        with self.lock:
            return not self.waiting and not self.later and self.busy == 0

    def known(self):
        return f"{len(self.waiting)} wait, {len(self.later)} have something left to do; {len(self.sales)} sales; heard lately: {self.heard.most_common(12)}"

    def fates(self):
        """reservation_id → (outcome, reason) of every verdict."""
        return {r: (o, why) for r, o, why in self.sale.sql("select reservation_id, outcome, coalesce(reason, '') from consumer_inbox")}

    def settled(self):
        """Who heard QUEUED has a verdict."""
        fates = self.fates()
        return all(r in fates for code, r in self.told.values() if code == "QUEUED")

    def end(self, seconds):
        """All is decided, every unit is sold, what was told was true, and the audit finds nothing."""
        queued = [r for code, r in self.told.values() if code == "QUEUED"]
        until("everybody who heard QUEUED has a verdict", seconds, self.settled)
        until("every unit is sold", seconds, self.sweep)
        until("all is read and told", seconds, self.sale.drained)
        fates = self.was_true()
        same("activities that did not sell all", self.unsold(), [])
        standing = self.standing()
        for activity, user in self.gone:    # where all is sold and paid after all, he hears so
            if standing.get(activity) == self.units:
                self.sale.sold_out(activity, user)
        self.heard_by_all()
        self.sale.proved()
        return len(queued), sum(1 for r in queued if fates[r][0] == "RELEASED")

    def was_true(self):
        """What each was told, and why he was refused; gives the fates."""
        fates = self.fates()
        for (activity, user), (code, reservation) in self.told.items():
            if reservation and code in ("QUEUED", "ORDERED", "RELEASED"):
                outcome, why = fates[reservation]
                right(f"{user} of {activity} was told {code}, and it is {outcome}", code in ("QUEUED", outcome))
                right(f"a reason for {reservation}", outcome == "ORDERED" or why)
        same("what was told them afterwards", self.wrongs[:5], [])
        return fates

    def heard_by_all(self, seconds=60):
        """Every order, what became of it, and every release are told to the rest of the company, once at least, and nothing that is not so."""
        so, told = self.events_due(), set()
        try:
            until("all that is so is told", seconds, lambda: so <= told or told.update((m.json["event"], m.key) for m in self.sale.broker.read(broker.EVENT)))
        except Wrong:
            same(f"events that nobody was told, {len(so - told)} of {len(so)}", sorted(so - told)[:5], [])
        same("events of what is not so", sorted(told - self.events_due())[:5], [])

    def events_due(self):
        """(event, key) of what is so for ever."""
        return {tuple(row) for row in self.sale.sql("""select 'ORDER_CREATED', order_id from orders union all
            select status, order_id from orders where status in ('PAID', 'CANCELED') union all
            select 'REFUND_REQUESTED', order_id from payment_record where refund_status <> 'NONE' union all
            select 'RESERVATION_RELEASED', reservation_id from consumer_inbox where outcome = 'RELEASED'""")}

    def unsold(self):
        """Sales that have not sold all. Of a fleeting one that is not asked: nobody pays there in time, and what was sold comes back."""
        standing = self.standing()
        return [a for a in self.sales if standing.get(a) != self.units and a not in self.fleeting]

    def standing(self):
        """activity_id → orders that stand."""
        return {a: int(n) for a, n in self.sale.sql("select activity_id, count(*) from orders where status <> 'CANCELED' group by 1")}

    late = itertools.count()

    def sweep(self):
        """Those who come late get what was given back. True: nothing is left."""
        left = self.unsold()
        for activity in left:
            for _ in range(5):
                self.stranger(activity)
        return not left

    def stranger(self, activity):
        """Somebody of whom nothing is remembered tries his luck."""
        try:
            self.sale.buy(activity, f"late{next(self.late)}", timeout=5)
        except (OSError, http.client.HTTPException):
            pass

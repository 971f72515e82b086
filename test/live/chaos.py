# SPDX-License-Identifier: Apache-2.0
"""Chaos: a sale goes on while everything it stands on is killed, stopped, stalled and cut, by a schedule that the seed has drawn (chaos_schedule.py). Then
it is left alone, and owes nobody anything: within 60 s every reservation is ORDERED or RELEASED with a reason; every order is PAID or CANCELED once its time is
over; whatever was paid pays one order, went back once or waits for a person; the audit finds nothing, and of every item what was paid for and what is
for sale again are its stock, unit by unit.

  chaos.py [--seed N] [--seconds N] [--dry-run]        (make chaos SEED=N PART=schedule; tools/chaos --dry-run --seed N prints the schedule)

The sale is that of tools/run (one door and one admin process on straight links, and the payment channel, which dies and stands still too); beside it a
supervisor of our own keeps two processes of every role, whose every link goes through a relay that cuts (test/cut). People come to one long sale, to a
scarce one, where soon only what comes back is sold, and to a short one every few seconds, and have little time to pay. What they do once they are told
something is the list ACTIONS, what they do with their orders the list PLANS (money.py), what must hold in the end the list PROOFS.
"""
import argparse
import collections
import http.client
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True

import chaos_schedule
from cut_links import Links
from money import PLANS, Money
from sale import OPEN, ROOT, SECKILL, Sale, Wrong, right, same, state_of, until
from shoppers import Shoppers

PATIENCE = float(os.environ.get("SECKILL_TEST_PATIENCE") or 1)
CAST = {"access": 2, "order": 2, "relay": 2, "janitor": 2, "admin": 1}    # the processes on links that are cut
LONG, SHORT_UNITS, SHORT_USERS = "chaos_long", 50, 150
SCARCE, SCARCE_UNITS = "chaos_scarce", 30
LONG_PAYS, SHORT_PAYS = 20, 8    # seconds in which an order must be paid
SWEPT = 30           # seconds after its time within which an order is cancelled, or paid
PEOPLE = 400         # who wait in line at most
ARRIVALS = 50        # users a second who come to the long sale; of the scarce one, a tenth
NEXT_ORDER = 100 * PATIENCE    # seconds within which the sale moves on, whatever else happens meanwhile
SHORT_EVERY = 8      # seconds between two short sales
ROUGH = 25           # of so many requests one is cut
TERMINAL = 60 * PATIENCE       # seconds after which nobody is owed anything any more
BACK = 60 * PATIENCE           # seconds within which whatever was troubled must be there again

# ---- what shoppers do when they have been told something: action(crowd, chance, activity, user, answer). What they do with their orders: money.py.

FORWARD = {"RESERVED": 0, "PUBLISHED": 1, "PROCESSING": 2, "RECONCILING": 2, "RELEASE_PENDING": 3, "MANUAL_REVIEW": 3, "ORDERED": 4, "RELEASED": 4}


def ask_again(crowd, chance, activity, user, answer):
    """One in five repeats his request: it is the same purchase."""
    if answer["code"] != "QUEUED" or chance.random() > 0.2:
        return
    repeated = crowd.sale.buy(activity, user, port=chance.choice(crowd.doors), timeout=5)
    if repeated["code"] in ("QUEUED", "ORDERED", "RELEASED"):
        same(f"{user}'s reservation in {activity}, asked again", repeated["reservation_id"], answer["reservation_id"])
    right(f"{user} of {activity} holds {answer['reservation_id']} and asked again: {repeated}", repeated["code"] not in ("SOLD_OUT", "ALREADY_PURCHASED"))


def follow(crowd, chance, activity, user, answer):
    """One in five looks what became of it, again and again: what is decided stays decided."""
    if answer["code"] == "QUEUED" and chance.random() < 0.2:
        crowd.again(1, look, activity, user, (answer["reservation_id"], None, 0))


def look(crowd, chance, activity, user, about):
    reservation, before, times = about
    try:
        answer = crowd.sale.reservation(user, reservation, port=chance.choice(crowd.doors), timeout=5)
        status = answer["status"] if answer.status == 200 else None
        right(f"{reservation} of {user} is known to somebody: {answer}", answer.status != 404)
        if status and before in ("ORDERED", "RELEASED"):
            same(f"{reservation} of {user}, which was {before}", status, before)
        before = status or before
    finally:
        if times < 8 and before not in ("ORDERED", "RELEASED"):
            crowd.again(2, look, activity, user, (reservation, before, times + 1))


ACTIONS = [ask_again, follow]
LATE = [(8, "follow linger pay look"), (3, "follow linger cancel look"), (3, "follow linger pay|cancel")]    # plans that want a short time to pay

# ---- what must hold in the end: proof(sale, crowd, money) raises Wrong

WARMED = "select activity_id from activity where state <> 'DRAFT'"    # of the others no bucket knows


def all_is_terminal(sale, crowd, money):
    """Whoever heard QUEUED has a verdict, no bucket holds an undecided reservation, nothing is unread, nothing untold"""
    until("everybody who heard QUEUED has a verdict", TERMINAL, crowd.settled)
    until("no bucket holds an undecided reservation", TERMINAL, lambda: not undecided(sale))
    until("all is read and told", TERMINAL, sale.drained)


def every_order_ends(sale, crowd, money):
    """Every order is PAID or CANCELED: by its user, who wanted it, or by the sweep, when its time was over; and each cancel has given its unit back"""
    until("every order is PAID or CANCELED", LONG_PAYS + SWEPT, lambda: sale.value("select count(*) from orders where status not in ('PAID', 'CANCELED')") == "0")
    until("all is read and told", TERMINAL, sale.drained)
    rows = sale.sql("""select o.order_id, coalesce(j.reason, ''), o.canceled_at >= o.pay_deadline, coalesce(c.status, '')
        from orders o left join inventory_journal j on (j.unit, j.generation, j.change) = (o.unit, o.raised, 'FREED')
        left join compensation c on (c.reservation_id, c.unit, c.generation, c.compensation_type) = (o.reservation_id, o.unit, o.raised, 'CANCEL_ORDER')
        where o.status = 'CANCELED'""")
    good = {"CANCELED": lambda order, late: order in money.cancels, "PAY_TIMEOUT": lambda order, late: late == "t"}
    same("cancelled by nobody's will, or before its time", [r for r in rows if r[1] not in good or not good[r[1]](r[0], r[2])][:5], [])
    same("cancels that have not given the unit back", [r for r in rows if r[3] != "RELEASED"][:5], [])
    why = collections.Counter(r[1] for r in rows)
    print(f"cancelled by their users {why['CANCELED']}, by the sweep {why['PAY_TIMEOUT']}")
    right(f"some were cancelled by their users, some by the sweep: {why}", len(why) == 2)


def what_was_told_was_true(sale, crowd, money):
    """Everything that anybody was told is what became of it"""
    crowd.was_true()
    crowd.heard_by_all()


def each_payment_once(sale, crowd, money):
    """Each payment pays one order, went back once, or waits for a person; what the channel took is what was paid, given back and set aside"""
    fates = money.was_true()
    print(f"payments: {', '.join(f'{what} {n}' for what, n in sorted(fates.items()))}; {len(money.heard)} events answered")
    same("what payments never came to", {"applied", "refunded", "set aside"} - set(fates), set())
    same("plans that nobody has carried out", {plan for _, plan in money.plans} - set(money.ended), set())


def units_are_for_sale_or_paid(sale, crowd, money):
    """Each unit is of one order that is PAID, or for sale in one bucket at the ledger's generation; what a cancelled order had was sold again, or is for sale"""
    for_sale = collections.Counter(on_sale(sale))
    available = {(int(u), int(g)) for u, g in sale.sql(f"select unit, generation from inventory_token where status = 'AVAILABLE' and activity_id in ({WARMED})")}
    same("units in more than one bucket", [t for t, n in for_sale.items() if n > 1][:5], [])
    same("units in a bucket that are not available, or not at this generation", sorted(set(for_sale) - available)[:5], [])
    same("units available and in no bucket", sorted(available - set(for_sale))[:5], [])
    consumed, paid = ({r[0] for r in sale.sql(f"select unit from {of}")} for of in ("inventory_token where status = 'CONSUMED'", "orders where status = 'PAID'"))
    same("units consumed, or of an order PAID, and not both", sorted(consumed ^ paid)[:5], [])
    lost = sale.sql("""select order_id from orders o where status = 'CANCELED' and not exists (select from inventory_token t where t.unit = o.unit and t.generation >= o.raised
        and (t.status = 'AVAILABLE' or exists (select from orders n where n.unit = o.unit and n.generation >= o.raised)))""")
    same("cancelled orders whose unit is neither sold again nor for sale", lost[:5], [])
    again = int(sale.value("select count(*) from orders o where status = 'CANCELED' and exists (select from orders n where n.unit = o.unit and n.generation >= o.raised)"))
    print(f"units of cancelled orders that were sold again: {again}")
    right("some were", again)


def books_balance(sale, crowd, money):
    """The audit finds nothing, and PAID + available = stock for every item, unit by unit"""
    code, said = sale.audit(patience=30)
    same(f"the audit: {said['findings'][:5]}", (code, said["clean"]), (0, True))
    paid = {(a, s): int(n) for a, s, n in sale.sql("select activity_id, sku_id, count(*) from orders where status = 'PAID' group by 1, 2")}
    for sku in said["skus"]:
        same(f"{sku['sku_id']}: reserved, returning, lost, drift", [sku[k] for k in ("r", "c", "e", "drift")], [0, 0, 0, 0])
        same(f"{sku['sku_id']}: orders that hold a unit", sku["o"], paid.get((sku["activity_id"], sku["sku_id"]), 0))
        same(f"{sku['sku_id']}: available {sku['a']} + PAID {sku['o']}", sku["a"] + sku["o"], sku["s0"])
    same("reservations undecided", said["undecided"], 0)


PROOFS = [all_is_terminal, every_order_ends, what_was_told_was_true, each_payment_once, units_are_for_sale_or_paid, books_balance]


def on_sale(sale):
    """(unit, generation) of everything that a bucket would sell. What rests has the generation seen last (spec/redis_key.def)."""
    rows = sale.sql(f"select activity_id, epoch, buckets, sku_id, unit_first from activity join activity_sku using (activity_id) where activity_id in ({WARMED})")
    for activity, epoch, buckets, sku, first in rows:
        for key in (f"sk:{{{activity}:{bucket}}}:{epoch}:" for bucket in range(int(buckets))):
            seen, high = sale.redis("GET", f"{key}gen:{sku}") or b"", pairs(sale.redis("HGETALL", f"{key}high:{sku}"))
            yield from pairs(sale.redis("ZRANGEBYSCORE", f"{key}free:{sku}", "-inf", "(+inf", "WITHSCORES")).items()
            yield from ((u, high.get(u) or seen[u - int(first)]) for u in map(int, sale.redis("ZRANGEBYSCORE", f"{key}rest:{sku}", "-inf", "(+inf")))


def pairs(flat):
    return {int(a): int(b) for a, b in zip(flat[::2], flat[1::2])}


def undecided(sale):
    return sum(sale.count(key) for key in sale.redis("KEYS", "sk:*:pending"))


# ---- the stage


class Cast:
    """The processes whose links are cut, under a supervisor of their own; and those of tools/run. A process is found by its pid file."""

    def __init__(self, sale, links):
        self.sale, self.dir = sale, sale.dir / "cast"
        self.dir.mkdir()
        settings = links.settings | {"SECKILL_ACCESS_THREADS": "1"}
        self.doors, self.admins = [sale.port], [sale.admin_port]
        lines = []
        for role, count in CAST.items():
            for i in range(1, count + 1):
                words = ["env"]
                if role in ("access", "admin"):
                    port = sale.free_port()
                    (self.doors if role == "access" else self.admins).append(port)
                    words += [f"SECKILL_{'HTTP' if role == 'access' else 'ADMIN'}_LISTEN=127.0.0.1:{port}"]
                lines.append(f"{role}-{i} {shlex.join([*words, str(SECKILL), 'serve', '--roles', role])}\n")
        (self.dir / "processes").write_text("".join(lines))
        log = open(sale.dir / "cast.out", "wb")
        self.process = subprocess.Popen([SECKILL, "supervise", "--state", self.dir, "--logs", sale.run / "log", self.dir / "processes"],
                                        env=sale.environ | settings, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        sale.extra.append(self.process)
        for port in self.doors + self.admins:
            until(f"port {port} answers", 60, lambda: sale.listens(port))

    def pid(self, name):
        """None: it does not run."""
        for place in (self.dir, self.sale.run / "supervisor", self.sale.run / "run"):
            try:
                pid, birth = map(int, (place / f"{name}.pid").read_text().split()[:2])
                stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                return pid if int(stat[19]) == birth and stat[0] != "Z" else None
            except (OSError, ValueError, IndexError):
                continue
        return None


class Stage:
    """Carries a schedule out. Every trouble has a thread: it begins, lasts, ends; then it is watched until all is back."""

    def __init__(self, sale, links, cast, crowd):
        self.sale, self.links, self.cast, self.crowd = sale, links, cast, crowd
        self.began = time.monotonic()
        self.lock, self.done, self.faults = threading.Lock(), [], []
        self.coming, self.stood = 0, 0.0    # servers that are being started; seconds for which the clock of the schedule has stood still
        self.orders, self.pulse = 0, []    # (when, orders since)
        self.ends = "0", "0"    # how many of them are PAID, CANCELED
        self.over = False

    def say(self, text):
        waiting = self.crowd.left()
        print(f"{time.monotonic() - self.began:>7.1f}s  {text:<72} orders {self.orders:>6}, paid {self.ends[0]:>5}, cancelled {self.ends[1]:>5}, in line {waiting:>4}",
              flush=True)

    # ---- the troubles themselves

    def signal(self, names, number):
        for name in names:
            pid = self.cast.pid(name)
            if pid:
                self.sale.kill(pid, number)

    def server_away(self, t):
        """While a server comes back the clock of the schedule stands: how long that takes is the machine's affair, and the next trouble is meant for
        servers that are there."""
        self.sale.stack("kill" if t.verb == "kill" else "down", *t.targets)
        time.sleep(t.seconds)
        with self.lock:
            self.coming += 1
        try:
            self.sale.stack("up", *t.targets)
            self.links.follow(self.sale)
        finally:
            with self.lock:
                self.coming -= 1

    def clock(self, at):
        """Waits until it is `at` by the schedule."""
        while True:
            time.sleep(max(0, self.began + self.stood + at - time.monotonic()))
            began = time.monotonic()
            while self.coming:
                time.sleep(0.05)
            late = time.monotonic() - began
            if late < 0.01:
                return
            self.stood += late

    def carry_out(self, t):
        """Begins, lasts, ends."""
        server, link = t.targets[0] in chaos_schedule.SERVERS, t.targets[0].startswith("link")
        if link:
            relay = self.links.relays[t.targets[0].split()[-1]]
            begin, end = {"cut": ("down", "up"), "rough": (f"rough {ROUGH}", "calm"), "stall": (signal.SIGSTOP, signal.SIGCONT)}[t.verb]
            relay.tell(begin)
            time.sleep(t.seconds)
            relay.tell(end)
        elif t.verb == "pause":
            for name in t.targets:
                stopped = self.stop(name)
                time.sleep(t.seconds)
                for pid in stopped:
                    self.sale.kill(pid, signal.SIGCONT)
        elif server:
            self.server_away(t)
        else:
            self.signal(t.targets, signal.SIGKILL if t.verb == "kill" else signal.SIGTERM)

    def stop(self, name):
        """It and, of PostgreSQL, its children; gives the pids."""
        pid = self.cast.pid(name)
        pids = []
        for pid in [pid, *(self.children(pid) if name == "postgres" else [])] if pid else []:
            pids.append(pid)
            self.sale.kill(pid, signal.SIGSTOP)
            until(f"{name} stands", 5, lambda: state_of(pid) in ("T", "Z", None))
        return pids

    @staticmethod
    def children(pid):
        try:
            return map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        except OSError:
            return []

    # ---- and what comes after

    def trouble(self, t):
        self.say(f"{t.whom}: {t.words}{f', for {t.seconds:.1f} s' if t.seconds else ''}")
        before = {name: self.cast.pid(name) for name in t.targets}
        try:
            self.carry_out(t)
            ended = time.monotonic()
            if t.verb in ("kill", "restart"):    # somebody else by now
                until(f"{t.whom} is back", BACK, lambda: all(self.cast.pid(n) not in (None, before[n]) for n in t.targets))
            back = time.monotonic() - ended
            moved = until("the next order", NEXT_ORDER, lambda: self.over or next((at for at, n in self.pulse if at > ended and n > 0), None))
            with self.lock:
                self.done.append((t, back, moved - ended if moved is not True else None))
        except Exception as e:
            self.faults.append(f"{t.verb} {t.whom} at {t.at} s: {str(e)[:600]}")
            self.say(f"FAULT {self.faults[-1][:100]}")

    def watch(self):
        """Counts the orders about twice a second: the pulse of the sale."""
        while not self.over:
            try:
                now = time.monotonic()
                n, *self.ends = self.sale.sql("select count(*), count(*) filter (where status = 'PAID'), count(*) filter (where status = 'CANCELED') from orders")[0]
                self.pulse.append((now, int(n) - self.orders))
                self.orders = int(n)
            except (Wrong, subprocess.TimeoutExpired):
                pass
            time.sleep(0.4)

    # ---- people

    def make(self, name, stock, pay_s):
        """create, warm, open, at whichever admin process answers: every step may be repeated."""
        skus = [{"sku_id": f"sku_{name}", "stock": stock, "price": 100, "currency": "CNY"}]
        body = {"activity_id": name, "starts_at": OPEN[0], "ends_at": OPEN[1], "buckets": 3, "pay_timeout_s": pay_s, "skus": skus}
        for path, what in [("", body), (f"/{name}/warm", ""), (f"/{name}/open", "")]:
            until(f"activity {name}{path}", 150, lambda: self.over or self.admin(path, what))

    def admin(self, path, what):
        for port in self.cast.admins:
            try:
                if self.sale.ask("POST", f"/admin/v1/activities{path}", what, port=port, timeout=5).status in (200, 201):
                    return True
            except (OSError, http.client.HTTPException):
                pass
        return False

    def feed(self):
        """There always is somebody in line for the long sale, now and then somebody comes to the scarce one, and a short one begins."""
        users, short, due = 0, 0, time.monotonic()
        while not self.over:
            if self.crowd.left() < PEOPLE:
                self.crowd.open(LONG, [f"p{users + i}" for i in range(ARRIVALS // 10)])
                if users % ARRIVALS == 0:
                    self.crowd.open(SCARCE, [f"w{users + i}" for i in range(ARRIVALS // 10)])
                users += ARRIVALS // 10
            if time.monotonic() > due and not self.short_under_way:
                due = time.monotonic() + SHORT_EVERY
                threading.Thread(target=self.short_sale, args=(f"chaos_short_{short}",), daemon=True).start()
                short += 1
            time.sleep(0.1)

    short_under_way = False

    def short_sale(self, name):
        self.short_under_way = True
        try:
            self.make(name, SHORT_UNITS, SHORT_PAYS)
            if not self.over:
                self.crowd.open(name, [f"s{i}" for i in range(SHORT_USERS)])
        except Wrong as e:
            self.faults.append(str(e))
        finally:
            self.short_under_way = False

    # ---- all of it

    def play(self, rows, seconds):
        threads = [threading.Thread(target=f, daemon=True) for f in (self.watch, self.feed)]
        for t in threads:
            t.start()
        self.began = time.monotonic()
        running = []
        for row in rows:
            self.clock(row.at)
            running.append(threading.Thread(target=self.trouble, args=(row,), daemon=True))
            running[-1].start()
        self.clock(seconds)
        self.say(f"everything is left alone (the clock of the schedule stood for {self.stood:.1f} s in all, while servers came back)")
        for t in running:
            t.join(200)
        self.heal()
        self.over = True
        for t in threads:
            t.join(200)

    def heal(self):
        """What a trouble that failed may have left behind."""
        for name, relay in self.links.relays.items():
            right(f"the relay to {name} lives: {relay.process.poll()}", relay.process.poll() is None)
            relay.tell(signal.SIGCONT)
            relay.tell("up")
            relay.tell("calm")
        self.sale.stack("up")
        for name in chaos_schedule.PROCESSES:
            until(f"{name} runs", BACK, lambda: self.cast.pid(name))
        self.sale.connect()


def sums(stage, crowd):
    """The table at the end."""
    rows = collections.defaultdict(list)
    for t, back, moved in stage.done:
        kind = "link" if t.whom.startswith("link") else "server" if t.targets[0] in chaos_schedule.SERVERS else "process"
        rows[t.verb, kind].append((back, moved, t))
    print(f"\n{'what':<10}{'whom':<10}{'times':>6}{'back after, at most':>22}{'next order after, at most':>28}")
    for (verb, kind), all_of_it in sorted(rows.items(), key=lambda r: (r[0][1], r[0][0])):
        back = max(b for b, _, _ in all_of_it)
        moved = max((m or 0 for _, m, _ in all_of_it))
        print(f"{verb:<10}{kind:<10}{len(all_of_it):>6}{f'{back:.1f} s' if verb in ('kill', 'restart') else '':>22}{f'{moved:.1f} s':>28}")
    slowest = max((d for d in stage.done if d[2] is not None), default=None, key=lambda d: d[2])
    if slowest:
        t, _, moved = slowest
        print(f"slowest recovery: {moved:.1f} s from the end of \"{t.verb} {t.whom}\" at {t.at} s to the next order")
    answers = ", ".join(f"{code} {n}" for code, n in crowd.heard.most_common(12))
    print(f"answers: {answers}")


def prove(sale, crowd, money):
    for proof in PROOFS:
        began = time.monotonic()
        proof(sale, crowd, money)
        print(f"ok - {proof.__doc__} ({time.monotonic() - began:.1f} s)", flush=True)
    rows = sale.sql("select outcome, coalesce(reason, ''), count(*) from consumer_inbox group by 1, 2 order by 1, 3 desc")
    verdicts = ", ".join(f"{o} {why} {n}" if why else f"{o} {n}" for o, why, n in rows)
    print(f"verdicts: {verdicts}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SECKILL_TEST_SEED") or 1))
    parser.add_argument("--dry-run", action="store_true", help="print the schedule, and do nothing")
    args = parser.parse_args()
    rows = chaos_schedule.schedule(args.seed, args.seconds)
    replay = f"make chaos SEED={args.seed} SECONDS={args.seconds} PART=schedule"
    print(f"chaos, seed {args.seed}, {args.seconds} s, {len(rows)} troubles:\n{chaos_schedule.table(rows)}\n", flush=True)
    if args.dry_run:
        return 0
    sale = Sale("access admin")
    links = Links(sale, args.seed, 0)
    cast = Cast(sale, links)
    print(f"on stage: {', '.join(chaos_schedule.PROCESSES)}; {', '.join(chaos_schedule.SERVERS)}", flush=True)
    money = Money(sale, PLANS + LATE)
    crowd = Shoppers(sale, args.seed, workers=24, patience=args.seconds + 120, actions=[*ACTIONS, money.decide])
    crowd.doors = cast.doors
    stage = Stage(sale, links, cast, crowd)
    stage.make(LONG, ARRIVALS * (args.seconds + 200), LONG_PAYS)    # never sold out: somebody can always buy, so that a sale that stands still shows
    stage.make(SCARCE, SCARCE_UNITS, SHORT_PAYS)
    try:
        stage.play(rows, args.seconds)
        healed = time.monotonic()
        crowd.finish(TERMINAL + LONG_PAYS)
        prove(sale, crowd, money)
        same("faults", stage.faults, [])
        right(f"there was a sale at all: {stage.orders} orders", stage.orders > args.seconds)
    except Wrong as e:
        sums(stage, crowd)
        print(f"    {e}\n    {crowd.known()}\nnot ok - chaos (once more: {replay})")
        return 1
    sums(stage, crowd)
    print(f"ok - chaos: {len(stage.done)} troubles in {args.seconds} s, {stage.orders} orders, {len(crowd.sales)} sales, all decided and proved "
          f"{time.monotonic() - healed:.0f} s after the end (once more: {replay})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

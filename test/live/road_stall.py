# SPDX-License-Identifier: Apache-2.0
"""Parts that do not die but stand still, which is worse: nobody's connection breaks. Every answer still comes in bounded time, nothing is
denied that may have happened, and in the end everybody is told one thing."""
import socket
import time

from sale import right, same, until

UNDECIDED = ("RESERVED", "PUBLISHED", "PROCESSING", "RECONCILING")


def users(activity, n, prefix="u"):
    return [{"activity_id": activity, "sku_id": f"sku_{activity}", "request_id": f"r-{prefix}{i}", "user_id": f"{prefix}{i}"} for i in range(n)]


def everybody_ordered(sale, activity, bodies, seconds=90):
    """The same requests again until each holds one reservation; then all verdicts are ORDERED, one order each."""
    held = {}

    def ask():
        for body, answer in zip(bodies, sale.crowd(bodies)):
            if answer and answer["reservation_id"] and answer["code"] in ("QUEUED", "ORDERED"):
                same(f"{body['user_id']}'s reservation", held.setdefault(body["user_id"], answer["reservation_id"]), answer["reservation_id"])
        return len(held) == len(bodies)
    until("everybody holds a reservation", seconds, ask)
    until("everybody has an order", seconds, lambda: sale.orders(activity) == len(bodies))
    rows = dict(sale.sql(f"select user_id, reservation_id from orders where activity_id = '{activity}'"))
    same("orders", rows, held)
    sale.drain()
    sale.proved(activity, sold=len(bodies))


def redis_stalls(sale):
    """Redis stands still: every answer comes in bounded time and denies nothing; afterwards each request is one reservation"""
    sale.activity("still", 40)
    first = sale.ordered("still", "alice")
    sale.stall("redis")
    began = time.monotonic()
    bodies = users("still", 20)
    answers = sale.crowd(bodies)
    right(f"all are answered in bounded time: {time.monotonic() - began:.1f} s", None not in answers and time.monotonic() - began < 15)
    right(f"nobody is told yes or no: {[a['code'] for a in answers]}", all(a["code"] in ("UNCERTAIN", "DEPENDENCY_DOWN", "OVERLOADED") for a in answers))
    right("each may ask again", all(a["retryable"] for a in answers))
    seen = sale.reservation("alice", first)
    right(f"an order is still found: {seen}", (seen.status, seen["status"]) == (200, "ORDERED") or seen.status == 503)
    sale.wake()
    until("alice sees hers", 20, lambda: sale.reservation("alice", first)["status"] == "ORDERED")
    everybody_ordered(sale, "still", bodies + [{"activity_id": "still", "sku_id": "sku_still", "request_id": "r-alice", "user_id": "alice"}])


def redis_dies(sale):
    """Redis is gone: 503 at once and nothing taken; with Redis back the same requests are taken"""
    sale.activity("dead", 10)
    first = sale.ordered("dead", "alice")
    sale.drain()
    sale.stack("kill", "redis")
    time.sleep(0.3)
    answers = [sale.buy("dead", f"u{i}") for i in range(8)]
    same("the answers", [(a.status, a["code"], a["retryable"]) for a in answers], [(503, "DEPENDENCY_DOWN", True)] * 8)
    right(f"at once: {[round(a.seconds, 3) for a in answers]}", min(a.seconds for a in answers) < 0.2 and max(a.seconds for a in answers) < 5)
    # A verdict so young that Redis may not have heard it is held back a moment, lest another reader contradict it.
    until("alice's order is found", 8, lambda: sale.reservation("alice", first)["order_id"] == "ord_" + first[4:])
    sale.stack("up", "redis")
    sale.connect()
    same("nothing was taken", sorted(sale.bucket("dead")["users"]), [b"alice"])
    everybody_ordered(sale, "dead", users("dead", 8) + [{"activity_id": "dead", "sku_id": "sku_dead", "request_id": "r-alice", "user_id": "alice"}])


def postgres_stalls(sale):
    """PostgreSQL stands still: QUEUED goes on, nobody hears a verdict; afterwards all are ordered"""
    sale.activity("slow", 30)
    sale.ordered("slow", "alice")
    process, port = sale.free_of_doubt("slow")
    sale.stall("postgres")
    bodies = users("slow", 20)
    began = time.monotonic()
    answers = sale.crowd(bodies, port=port)
    right(f"in bounded time: {time.monotonic() - began:.1f} s", time.monotonic() - began < 15)
    same("the answers", {a and a["code"] for a in answers}, {"QUEUED"})
    time.sleep(2.5)    # so old that a reader would like to ask the ledger
    seen = sale.reservation("u0", answers[0]["reservation_id"], port=port)
    right(f"no verdict, and never 'not found': {seen}", seen.status == 503 or (seen.status == 200 and seen["status"] in UNDECIDED))
    right("that, too, in bounded time", seen.seconds < 10)
    sale.end(process)
    sale.wake()
    everybody_ordered(sale, "slow", bodies + [{"activity_id": "slow", "sku_id": "sku_slow", "request_id": "r-alice", "user_id": "alice"}])


def broker_stalls(sale):
    """The broker stands still: QUEUED all the same, in bounded time; afterwards all are ordered"""
    sale.activity("quiet", 30)
    sale.stall("broker")
    bodies = users("quiet", 20)
    began = time.monotonic()
    answers = sale.crowd(bodies)
    same("the answers", {a and a["code"] for a in answers}, {"QUEUED"})
    right(f"in bounded time: {time.monotonic() - began:.1f} s", time.monotonic() - began < 10)
    same("the same request", sale.buy("quiet", "u3")["reservation_id"], answers[3]["reservation_id"])
    right("a client sees it", sale.reservation("u3", answers[3]["reservation_id"])["status"] in UNDECIDED)
    sale.wake()
    everybody_ordered(sale, "quiet", bodies)


def messages_lost(sale):
    """An access process that cannot reach the broker answers QUEUED and is killed: the janitor brings each message, and all are ordered"""
    sale.activity("unsent", 30)
    with socket.socket() as nobody:    # bound, and nobody listens
        nobody.bind(("127.0.0.1", 0))
        process, port = sale.serve("access", SECKILL_ROCKETMQ_NAMESRV=f"127.0.0.1:{nobody.getsockname()[1]}")
        until("it knows the activity", 10, lambda: sale.get("/v1/activities/unsent", port=port).status == 200)
        bodies = users("unsent", 20)
        began = time.monotonic()
        answers = sale.crowd(bodies, port=port)
        same("the answers", {a and a["code"] for a in answers}, {"QUEUED"})
        right(f"in bounded time: {time.monotonic() - began:.1f} s", time.monotonic() - began < 10)
        sale.end(process)
    until("all are ordered, though nobody asks again", 60, lambda: sale.orders("unsent") == 20)
    everybody_ordered(sale, "unsent", bodies)


def found_or_away(answer):
    """An answer, or nothing where a store could not be asked. It must never say that there is no such thing."""
    right(f"found, or 503: {answer}", answer.status in (200, 503))
    return answer if answer.status == 200 else None


def redis_emptied(sale):
    """FLUSHALL: orders are found by reservation and by request, what is undecided is never 'not found', nothing is sold twice"""
    sale.activity("flush", 10)
    won = sale.ordered("flush", "alice")
    sale.drain()
    sale.stall("order")
    open_ = sale.queued("flush", "bob")
    until("its message", 10, lambda: sale.reservation("bob", open_)["status"] == "PUBLISHED")
    sale.redis("FLUSHALL")
    for what, target in (("by reservation", f"/v1/reservations/{won}?user_id=alice"), ("by request", "/v1/requests/r-alice?activity_id=flush&user_id=alice")):
        answer = until(f"alice's is found {what}", 8, lambda: found_or_away(sale.get(target)))
        same(f"alice, {what}", (answer["status"], answer["order_id"]), ("ORDERED", "ord_" + won[4:]))
    same("her order", sale.get(f"/v1/orders/ord_{won[4:]}?user_id=alice")["status"], "CREATED")
    for what, target in (("by reservation", f"/v1/reservations/{open_}?user_id=bob"), ("by request", "/v1/requests/r-bob?activity_id=flush&user_id=bob")):
        answer = sale.get(target)
        right(f"bob, {what}: {answer}", answer.status == 503 or (answer.status == 200 and answer["status"] in UNDECIDED))
    for user in ("alice", "bob", "carol"):
        answer = sale.buy("flush", user)
        right(f"{user} is sold nothing new: {answer}", answer.status == 503 or (answer["code"] in ("QUEUED", "ORDERED", "UNCERTAIN") and answer["reservation_id"] in (won, open_, None)))
    sale.wake()
    same("bob's verdict", sale.verdict("bob", open_)["status"], "ORDERED")
    same("by request", sale.get("/v1/requests/r-bob?activity_id=flush&user_id=bob")["status"], "ORDERED")
    for i in range(5):
        right("nothing is sold from an empty Redis", sale.buy("flush", f"late{i}").status == 503)
    same("orders", sale.orders("flush"), 2)
    same("the ledger alone is in order", [f for f in sale.audit("flush", patience=0)[1]["findings"] if f["rule"] != "conservation"], [])


def readiness(sale, exclude=""):
    """Status of /readyz, and its lines by name."""
    answer = sale.get(f"/readyz?verbose{exclude}", port=sale.admin_port)
    return answer.status, {line.partition("] ")[2].partition(":")[0]: line for line in answer.text.splitlines()}


def readiness_proves_use(sale):
    """/readyz is 503 and says why where Redis takes no write and PostgreSQL commits nothing, and names a broker that stores nothing"""
    ready = lambda: readiness(sale)[0] == 200
    until("ready", 20, ready)
    lines = readiness(sale)[1]
    right(f"each says what was proved: {lines}", "a write was done" in lines["redis"] and "a message was stored" in lines["bus"] and "a commit was confirmed" in lines["postgresql"])

    sale.redis("CONFIG", "SET", "min-replicas-to-write", "1")    # a primary without its replica
    try:
        until("Redis takes no write", 20, lambda: readiness(sale)[0] == 503 and "NOREPLICAS" in readiness(sale)[1]["redis"])
        right("the rest is ready", readiness(sale, "&exclude=redis")[0] == 200)
        right("a check that is none", "no check" in "".join(readiness(sale, "&exclude=radish")[1].values()) and readiness(sale, "&exclude=radish")[0] == 503)
    finally:
        sale.redis("CONFIG", "SET", "min-replicas-to-write", "0")
    until("ready again", 30, ready)

    def postgres(setting):
        sale.sql(f"set default_transaction_read_only = off;\nalter system {setting};\nselect pg_reload_conf()")
    # A default of other people's does not stop the sale: each session sets what it relies on.
    sale.activity("defaults", 2)
    postgres("set default_transaction_read_only = on")
    try:
        sale.ordered("defaults", "ann")
        right("still ready", readiness(sale)[0] == 200)
    finally:
        postgres("reset all")
    postgres("set synchronous_standby_names = 'nobody'")
    try:
        until("PostgreSQL commits nothing: its standby is absent", 30, lambda: readiness(sale)[0] == 503 and "no answer for" in readiness(sale)[1]["postgresql"])
    finally:
        postgres("reset all")
    until("ready again", 60, ready)

    permit = lambda perm: right("mqadmin", "success" in sale.mqadmin("updateTopicPerm", "-c", "DefaultCluster", "-t", "seckill-readiness", "-p", perm))
    permit("4")    # may be read, not written
    try:
        until("the broker stores nothing", 60, lambda: readiness(sale)[1]["bus"].startswith("[-]"))
        right("admin does not need it", readiness(sale)[0] == 200)
    finally:
        permit("6")
    until("the broker stores again", 60, lambda: readiness(sale)[1]["bus"].startswith("[+]"))


# PostgreSQL before Redis: for a minute after Redis was away, access confirms what it says with the ledger, and without one says UNCERTAIN.
STORIES = [readiness_proves_use, broker_stalls, messages_lost, postgres_stalls, redis_stalls, redis_dies]
LAST = [redis_emptied]

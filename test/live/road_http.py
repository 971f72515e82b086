# SPDX-License-Identifier: Apache-2.0
"""The public contract, word by word: what is refused and how, who may see what, how long a wait holds, how a process leaves."""
import datetime
import json
import signal
import socket
import threading
import time

from sale import TAKEN, right, same, until

PROBLEM = "application/problem+json"


def refused(what, answer, status, code, retryable=False):
    """A refusal in full: RFC 9457's members, ours, and Retry-After exactly where it is worth asking again."""
    same(what, (answer.status, answer["code"]), (status, code))
    same(f"{what}: its type", answer.headers.get("content-type"), PROBLEM)
    right(f"{what}: title, detail, type in {answer}", all(isinstance(answer[k], str) and answer[k] for k in ("type", "title", "detail")))
    same(f"{what}: status, retryable", (answer["status"], answer["retryable"]), (status, retryable))
    same(f"{what}: Retry-After", "retry-after" in answer.headers, retryable)
    if retryable:
        right(f"{what}: Retry-After in seconds", int(answer.headers["retry-after"]) >= 1)


def bad_requests(sale):
    """What is not exactly the four members, each an id and none twice, is INVALID_REQUEST and takes nothing"""
    sale.activity("strict", 5)
    good = {"activity_id": "strict", "sku_id": "sku_strict", "request_id": "r", "user_id": "u"}
    bodies = {"a member more": json.dumps(good | {"qty": 1}), "an array": json.dumps([good]), "a text": '"hello"', "nothing": "", "half": json.dumps(good)[:-1],
              "something behind it": json.dumps(good) + "x", "two objects": json.dumps(good) * 2, "a member twice": json.dumps(good)[:-1] + ', "sku_id": "sku_strict"}',
              "the same member twice by escape": json.dumps(good)[:-1] + ', "sku\\u005fid": "other"}', "not UTF-8": json.dumps(good).encode().replace(b"strict", b"\xff\xfe"),
              "a zero byte": json.dumps(good | {"user_id": "u\0x"}), "comments": "/* */" + json.dumps(good), "single quotes": str(good)}
    for name in good:
        bodies[f"{name} is not there"] = json.dumps({k: v for k, v in good.items() if k != name})
        for value in (None, 1, 9007199254740993, True, [], {}, "", "a b", "é", "a/b", "..", "x" * 65, "'; drop table orders --"):
            bodies[f"{name} is {value!r}"] = json.dumps(good | {name: value})
    for what, body in bodies.items():
        refused(what, sale.ask("POST", "/v1/reservations", body, headers={"Content-Type": "application/json"}), 400, "INVALID_REQUEST")
    right("ids of 64 are ids", sale.ask("POST", "/v1/reservations", good | {"user_id": "x" * 64, "request_id": "y" * 64})["code"] in TAKEN)
    same("a body too long", sale.ask("POST", "/v1/reservations", json.dumps(good) + " " * 70000).status, 413)

    right("a key that is another", sale.ask("POST", "/v1/reservations", good, headers={"Idempotency-Key": "other"})["code"] == "INVALID_REQUEST")
    for number, key in enumerate(("k", '"k"')):
        answer = sale.ask("POST", "/v1/reservations", good | {"request_id": "k", "user_id": f"key{number}"}, headers={"Idempotency-Key": key})
        right(f"the key {key}: {answer}", answer["code"] in TAKEN)
    until("three orders", 20, lambda: sale.orders("strict") == 3)
    sale.proved("strict", sold=3)


def unknown_names(sale):
    """An activity or item that is not there is UNKNOWN_ACTIVITY; a draft is not on sale"""
    sale.activity("known", 2)
    refused("no such activity", sale.buy("unheard-of", "u"), 404, "UNKNOWN_ACTIVITY")
    answer = sale.buy("known", "u", "req-1", sku="unheard-of")
    refused("no such item", answer, 404, "UNKNOWN_ACTIVITY")
    same("it speaks of the request", answer["request_id"], "req-1")
    refused("GET of no such activity", sale.get("/v1/activities/unheard-of"), 404, "UNKNOWN_ACTIVITY")
    right("the same request for an item that is there", sale.buy("known", "u", "req-1")["code"] in TAKEN)


def windows(sale):
    """NOT_STARTED says when; ENDED; a pause refuses new ones and replays old ones; a close is an end; a refusal leaves nothing behind"""
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp = lambda seconds: (now + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    sale.activity("early", 3, window=(stamp(600), stamp(900)))
    answer = sale.buy("early", "u")
    refused("before the start", answer, 409, "NOT_STARTED", retryable=True)
    same("starts_at", answer["starts_at"], stamp(600))
    sale.activity("late", 3, window=(stamp(-900), stamp(-600)))
    refused("after the end", sale.buy("late", "u"), 410, "ENDED")
    sale.activity("warm", 3, state="WARM")
    refused("warm, not open", sale.buy("warm", "u"), 409, "NOT_STARTED", retryable=True)

    sale.activity("stop", 3)
    first = sale.ordered("stop", "alice")
    same("pause needs a reason", sale.admin("POST", "/stop/pause", {}).status, 400)
    same("pause", sale.admin("POST", "/stop/pause", {"reason": "looking"}).status, 200)
    refused("during the pause", sale.buy("stop", "bob"), 503, "RESERVATION_PAUSED", retryable=True)
    same("her replay during the pause", (sale.buy("stop", "alice")["reservation_id"], sale.buy("stop", "alice")["code"]), (first, "ORDERED"))
    same("resume", sale.admin("POST", "/stop/resume", "").status, 200)
    # The same request, refused before, is taken now.
    until("bob is let in", 5, lambda: sale.buy("stop", "bob")["code"] in ("QUEUED", "ORDERED"))
    same("close", sale.admin("POST", "/stop/close", {"reason": "over"}).status, 200)
    refused("after the close", sale.buy("stop", "carol"), 410, "ENDED")
    same("her replay after the close", (sale.buy("stop", "alice")["reservation_id"], sale.buy("stop", "alice")["code"]), (first, "ORDERED"))
    until("two orders", 20, lambda: sale.orders("stop") == 2)
    for name, sold in (("early", 0), ("late", 0), ("warm", 0), ("stop", 2)):
        sale.proved(name, sold=sold)


def not_yours(sale):
    """Other people's reservations, requests and orders are not found, and neither are ids that were never given out"""
    sale.activity("mine", 3)
    reservation = sale.ordered("mine", "alice")
    order = "ord_" + reservation[4:]
    changed = reservation[:-1] + ("0" if reservation[-1] != "0" else "1")
    for what, target in {"his reservation": f"/v1/reservations/{reservation}?user_id=bob", "his order": f"/v1/orders/{order}?user_id=bob",
                         "waiting for it": f"/v1/reservations/{reservation}?user_id=bob&wait=5s", "its events": f"/v1/reservations/{reservation}/events?user_id=bob",
                         "a forged id": f"/v1/reservations/{changed}?user_id=alice", "a forged order": f"/v1/orders/ord_{changed[4:]}?user_id=alice",
                         "no id at all": "/v1/reservations/hello?user_id=alice", "an order's id": f"/v1/reservations/{order}?user_id=alice",
                         "a message's id": f"/v1/reservations/msg_{reservation[4:]}?user_id=alice", "what has no id's letters": "/v1/reservations/a%20b?user_id=alice",
                         "somebody's request": f"/v1/requests/r-alice?activity_id=mine&user_id=bob"}.items():
        answer = sale.get(target)
        refused(what, answer, 404, "NOT_FOUND")
        right(f"{what}: at once", answer.seconds < 3)
    for what, target in {"no user": f"/v1/reservations/{reservation}", "a user who is none": f"/v1/reservations/{reservation}?user_id=a%20b",
                         "two users": f"/v1/reservations/{reservation}?user_id=alice&user_id=bob", "a wait too long": f"/v1/reservations/{reservation}?user_id=alice&wait=26s",
                         "a wait that is none": f"/v1/reservations/{reservation}?user_id=alice&wait=soon", "a request of no activity": "/v1/requests/r-alice?user_id=alice"}.items():
        refused(what, sale.get(target), 400, "INVALID_REQUEST")
    same("and alice sees hers", sale.reservation("alice", reservation)["status"], "ORDERED")


def methods(sale):
    """Routes that are not there, methods they do not take, HEAD as GET without a body, openapi.json"""
    refused("no such path", sale.get("/v1/nothing"), 404, "NOT_FOUND")
    refused("the admin's path", sale.ask("POST", "/admin/v1/activities/act_demo/close", {"reason": "x"}), 404, "NOT_FOUND")
    refused("metrics", sale.get("/metrics"), 404, "NOT_FOUND")
    for method, target, allow in (("GET", "/v1/reservations", "POST"), ("DELETE", "/v1/orders/ord_1", "GET, HEAD"), ("PUT", "/v1/reservations", "POST"),
                                  ("OPTIONS", "/v1/reservations", "POST"), ("POST", "/openapi.json", "GET, HEAD")):
        answer = sale.ask(method, target)
        refused(f"{method} {target}", answer, 405, "METHOD_NOT_ALLOWED")
        same(f"{method} {target}: Allow", answer.headers.get("allow"), allow)
    for target in ("/openapi.json", "/v1/activities/act_demo", "/v1/nothing"):
        full, head = sale.get(target), sale.ask("HEAD", target)
        same(f"HEAD {target}", (head.status, head.text, head.headers.get("content-type")), (full.status, "", full.headers["content-type"]))
    openapi = sale.get("/openapi.json").json
    right("OpenAPI 3.1", openapi["openapi"].startswith("3.1"))
    shown = sale.get("/v1/activities/act_demo")
    same("the activity", [shown[k] for k in ("activity_id", "state")] + [sorted(s) for s in shown["skus"]], ["act_demo", "OPEN", ["currency", "price", "sku_id", "sold_out"]])
    right("server_time", shown["server_time"].endswith("Z"))


def waits(sale):
    """?wait holds until the status changes, and no longer than asked; the event stream ends with the verdict"""
    sale.activity("hold", 2)
    sale.stall("order")
    reservation = sale.queued("hold", "alice")
    until("it is published", 10, lambda: sale.reservation("alice", reservation)["status"] == "PUBLISHED")
    answer = sale.reservation("alice", reservation, "1500ms")
    same("after its time", (answer.status, answer["status"]), (200, "PUBLISHED"))
    right(f"it was held: {answer.seconds:.2f} s", 1.3 < answer.seconds < 10)
    waited, streamed = [], []
    threads = [threading.Thread(target=lambda: waited.append(sale.reservation("alice", reservation, "25s", timeout=60))),
               threading.Thread(target=lambda: waited.append(sale.get("/v1/requests/r-alice?activity_id=hold&user_id=alice&wait=25s", timeout=60))),
               threading.Thread(target=events, args=(sale.port, f"/v1/reservations/{reservation}/events?user_id=alice", streamed))]
    for t in threads:
        t.start()
    until("the stream has begun", 10, lambda: streamed)    # else it might see the verdict alone
    time.sleep(0.5)
    right("nobody has an answer yet", not waited and len(streamed) == 1)
    began = time.monotonic()
    sale.wake()
    for t in threads:
        t.join(40)
    same("both waits", [a["status"] for a in waited], ["ORDERED"] * 2)
    right(f"they ended with the change: {time.monotonic() - began:.1f} s", time.monotonic() - began < 15)
    same("the stream", [json.loads(e)["status"] for e in streamed], ["PUBLISHED", "ORDERED"])


def events(port, target, heard):
    """The data of every event goes into `heard` as it comes, until the server ends the stream."""
    with socket.create_connection(("127.0.0.1", port), 60) as s, s.makefile("rb") as lines:
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        for line in lines:
            if line.startswith(b"data: "):
                heard.append(line[6:].decode())


class Caller(threading.Thread):
    """One connection that buys as fast as it is answered, until the server closes it between two answers."""

    def __init__(self, port, number):
        super().__init__()
        self.port, self.number, self.answers, self.cut, self.unanswered, self.sent_at = port, number, [], None, None, 0.0

    def run(self):
        s = socket.create_connection(("127.0.0.1", self.port), 30)
        file = s.makefile("rb")
        try:
            for i in range(100000):
                body = json.dumps({"activity_id": "leave", "sku_id": "sku_leave", "request_id": "r", "user_id": f"u{self.number}-{i}"}).encode()
                self.sent_at = time.monotonic()
                s.sendall(b"POST /v1/reservations HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                head = b""
                while (line := file.readline()) not in (b"\r\n", b""):
                    head += line
                if line == b"":
                    self.cut, self.unanswered = bool(head), f"u{self.number}-{i}"
                    return
                length = int([l.split(b":")[1] for l in head.lower().splitlines() if l.startswith(b"content-length")][0])
                text = file.read(length)
                if len(text) < length:
                    self.cut = True
                    return
                self.answers.append((f"u{self.number}-{i}", json.loads(text)))
                if b"connection: close" in head.lower():
                    return
        except OSError:
            self.unanswered = f"u{self.number}-{i}"
        finally:
            s.close()


def drains(sale):
    """SIGTERM under load: whoever was under way is answered in full, waits end, and what was promised is kept"""
    sale.activity("leave", 4000)
    process, port = sale.serve("access")
    until("it knows the activity", 10, lambda: sale.get("/v1/activities/leave", port=port).status == 200)
    sale.activity("held", 1)
    sale.stall("order")
    reservation = sale.queued("held", "alice")
    until("published", 10, lambda: sale.reservation("alice", reservation)["status"] == "PUBLISHED")
    until("the other process knows of it", 10, lambda: sale.reservation("alice", reservation, port=port).status == 200)
    waited = []
    waiter = threading.Thread(target=lambda: waited.append(sale.reservation("alice", reservation, "25s", port=port, timeout=60)))
    callers = [Caller(port, n) for n in range(40)]
    for t in [waiter, *callers]:
        t.start()
    until("the load is on", 20, lambda: sum(len(c.answers) for c in callers) > 500)
    time.sleep(0.3)
    told = time.monotonic()
    process.send_signal(signal.SIGTERM)
    same("it ends in good order", process.wait(25), 0)
    sale.extra.remove(process)
    for t in [waiter, *callers]:
        t.join(30)
    sale.wake()
    same("answers cut in the middle", [c.number for c in callers if c.cut], [])
    same("sent before the signal and not answered", [c.unanswered for c in callers if c.unanswered and c.sent_at < told - 0.05], [])
    right(f"the wait was answered: {waited}", len(waited) == 1 and waited[0].status == 200 and waited[0]["status"] in ("PUBLISHED", "PROCESSING"))
    right("it does not listen any more", not sale.listens(port))

    queued = {user: a["reservation_id"] for c in callers for user, a in c.answers if a["code"] == "QUEUED"}
    right("some were queued", len(queued) > 100)
    # Who heard nothing asks again elsewhere, and is told one thing.
    for c in callers:
        if c.unanswered:
            right(f"{c.unanswered} asks again", sale.buy("leave", c.unanswered, "r")["code"] in ("QUEUED", "ORDERED", "SOLD_OUT"))
    sale.drain()
    got = {user: reservation for user, reservation in sale.sql("select user_id, reservation_id from orders where activity_id = 'leave'")}
    same("queued, and no order", [u for u, r in queued.items() if got.get(u) != r][:5], [])
    sale.proved("leave")


STORIES = [bad_requests, unknown_names, windows, not_yours, methods, waits, drains]

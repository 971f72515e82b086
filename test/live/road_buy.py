# SPDX-License-Identifier: Apache-2.0
"""The road of one purchase, and what must not happen on it when everything comes twice, comes late, or looks like something else."""
import json
import signal
import threading

import broker
from genuine import genuine
from sale import TAKEN, right, same, until


def names(reservation):
    """One id gives all the names."""
    return reservation, "msg_" + reservation[4:], "ord_" + reservation[4:]


def road(sale):
    """A purchase from QUEUED to ORDERED: the same ids over HTTP, in Redis, in the message, in PostgreSQL and in the event"""
    sale.activity("road", 3)
    answer = sale.buy("road", "alice", "first")
    same("the answer", (answer.status, answer["code"], answer["request_id"]), (202, "QUEUED", "first"))
    reservation, message_id, order_id = names(answer["reservation_id"])
    same("Location", answer.headers.get("location"), f"/v1/reservations/{reservation}")
    right(f"poll_after_ms in {answer}", answer["poll_after_ms"] > 0)
    seen = sale.verdict("alice", reservation)
    same("the reservation", [seen[k] for k in ("status", "reservation_id", "request_id", "activity_id", "sku_id", "order_id")],
         ["ORDERED", reservation, "first", "road", "sku_road", order_id])
    same("by its request", sale.get("/v1/requests/first?activity_id=road&user_id=alice")["reservation_id"], reservation)

    order = sale.get(f"/v1/orders/{order_id}?user_id=alice")
    same("the order", [order[k] for k in ("order_id", "reservation_id", "request_id", "activity_id", "sku_id", "status", "amount", "currency")],
         [order_id, reservation, "first", "road", "sku_road", "CREATED", 100, "CNY"])
    token = order["inventory_token_id"]
    row = sale.sql(f"select order_id, reservation_id, request_id, user_id, activity_id, sku_id, inventory_token_id, status, unit from orders where activity_id = 'road'")
    same("rows of orders", [r[:-1] for r in row], [[order_id, reservation, "first", "alice", "road", "sku_road", token, "CREATED"]])
    same("its unit", sale.sql(f"select status, reservation_id, inventory_token_id from inventory_token where unit = {row[0][-1]}"), [["CONSUMED", reservation, token]])
    same("the inbox", sale.sql("select reservation_id, message_id, consumer_group, outcome from consumer_inbox where activity_id = 'road'"),
         [[reservation, message_id, "seckill-order", "ORDERED"]])

    told = sale.broker.of(broker.CREATE, reservation)
    # Once at least: what Redis has not heard to be published a second after it was made, the janitor announces as well, in the same words.
    same("messages of it that differ", len({m.body for m in told}), 1)
    body = told[0].json
    same("the message", [body[k] for k in ("message_id", "reservation_id", "request_id", "activity_id", "sku_id", "user_id", "inventory_token_id", "schema_version", "epoch")],
         [message_id, reservation, "first", "road", "sku_road", "alice", token, 1, 1])
    right("UNIQ_KEY is not our message_id", told[0].unique and told[0].unique != message_id)

    sale.drain()
    held = sale.bucket("road")
    right("Redis holds alice's entry of that request", b"first" in held["users"][b"alice"])
    right("nothing is pending there", not held.get("pending"))
    same("free units there", len(held["free:sku_road"]) // 2, 2)
    right("her unit is not among them", row[0][-1].encode() not in held["free:sku_road"][::2])
    event = sale.broker.of(broker.EVENT, order_id)
    same("the event", [(e.json["event"], e.json["order_id"], e.json["reservation_id"], e.json["user_id"]) for e in event], [("ORDER_CREATED", order_id, reservation, "alice")])

    again = sale.buy("road", "alice", "first")
    same("the same request again", (again.status, again["code"], again["reservation_id"], again["order_id"], again.headers.get("idempotency-replayed")),
         (200, "ORDERED", reservation, order_id, "true"))
    other = sale.buy("road", "alice", "second")
    same("another request of hers", (other.status, other["code"], other["reservation_id"]), (409, "ALREADY_PURCHASED", reservation))
    sale.proved("road", sold=1)


def numbers(sale):
    """Ids that look like 64-bit numbers come back unchanged from everywhere"""
    above = ["9007199254740993", "18446744073709551615", "000123", "-0", "1e5", "0x1F", "null"]
    activity = "9007199254740993"
    sale.activity(activity, 50, [(sku, 5) for sku in above])
    asked = []
    for user, request, sku in zip(above, above[1:] + above[:1], above[2:] + above[:2]):
        answer = sale.buy(activity, user, request, sku)
        right(f"let in: {answer}", answer["code"] in TAKEN and answer["request_id"] == request)
        asked.append((user, request, sku, answer["reservation_id"]))
    for user, request, sku, reservation in asked:
        seen = sale.verdict(user, reservation)
        same("the reservation", [seen[k] for k in ("status", "request_id", "activity_id", "sku_id")], ["ORDERED", request, activity, sku])
        found = sale.get(f"/v1/requests/{request}?activity_id={activity}&user_id={user}")
        same("by request", [found[k] for k in ("reservation_id", "request_id", "activity_id", "sku_id")], [reservation, request, activity, sku])
        order = sale.get(f"/v1/orders/{seen['order_id']}?user_id={user}")
        same("the order", [order[k] for k in ("request_id", "activity_id", "sku_id")], [request, activity, sku])
    rows = sale.sql(f"select user_id, request_id, sku_id, reservation_id from orders where activity_id = '{activity}'")
    same("orders", sorted(map(tuple, rows)), sorted(asked))
    mine = [m.json for m in sale.broker.read(broker.CREATE) if m.json["activity_id"] == activity]
    same("messages", sorted({(m["user_id"], m["request_id"], m["sku_id"], m["reservation_id"]) for m in mine}), sorted(asked))
    sale.drain()
    events = [e.json for e in sale.broker.read(broker.EVENT) if e.json["activity_id"] == activity]
    same("events", sorted({(e["user_id"], e["request_id"], e["sku_id"], e["reservation_id"]) for e in events}), sorted(asked))
    same("users in Redis", sorted(sale.bucket(activity)["users"]), sorted(u.encode() for u in above))
    shown = sale.get(f"/v1/activities/{activity}")
    same("the activity", (shown["activity_id"], [s["sku_id"] for s in shown["skus"]]), (activity, [f"sku_{activity}", *above]))
    same("the activity for the admin", sale.admin("GET", f"/{activity}")["activity_id"], activity)
    code, text = sale.do("explain", asked[0][3])
    right(f"explain speaks of {asked[0][:2]}: {text}", code == 0 and all(word in text for word in asked[0][:2]))
    sale.proved(activity, sold=len(above))


def one_user(sale):
    """One user, 10,000 requests at once: one reservation, and everybody else is told of it"""
    sale.activity("mob", 50)
    process, port = sale.free_of_doubt("mob")
    answers = sale.crowd([{"activity_id": "mob", "sku_id": "sku_mob", "request_id": f"r{i}", "user_id": "alice"} for i in range(10000)], port=port)
    sale.end(process)
    right("all are answered", None not in answers)
    codes = [a["code"] for a in answers]
    same("QUEUED", codes.count("QUEUED"), 1)
    same("ALREADY_PURCHASED", codes.count("ALREADY_PURCHASED"), 9999)
    same("reservations spoken of", len({a["reservation_id"] for a in answers}), 1)
    sale.verdict("alice", answers[0]["reservation_id"])
    sale.drain()
    same("orders", sale.orders("mob"), 1)
    sale.proved("mob", sold=1)


def one_request(sale):
    """One request_id 10,000 times at once, half of them for another item: one reservation, replays, and conflicts"""
    sale.activity("twin", 50, [("other_twin", 50)])
    skus = ("sku_twin", "other_twin")
    process, port = sale.free_of_doubt("twin")
    answers = sale.crowd([{"activity_id": "twin", "sku_id": skus[i % 2], "request_id": "r", "user_id": "bob"} for i in range(10000)], port=port)
    sale.end(process)
    right("all are answered", None not in answers)
    won = {a["reservation_id"] for a in answers if a["reservation_id"]}
    same("reservations", len(won), 1)
    taken = [i % 2 for i, a in enumerate(answers) if a["reservation_id"]]
    same("of both items", len(set(taken)), 1)
    same("conflicts of the other item", [a["code"] for i, a in enumerate(answers) if i % 2 != taken[0]].count("IDEMPOTENCY_CONFLICT"), 5000)
    mine = [a for i, a in enumerate(answers) if i % 2 == taken[0]]
    same("first answers", [a.headers.get("idempotency-replayed") for a in mine].count(None), 1)
    right("replays say QUEUED or ORDERED", all(a["code"] in ("QUEUED", "ORDERED") for a in mine))
    sale.verdict("bob", won.pop())
    sale.drain()
    same("orders", sale.orders("twin"), 1)
    sale.proved("twin", sold=1)


def exactly_sold(sale):
    """Sales of 1, 10 and 100 units to exactly as many users, all at once, sell out exactly"""
    for n in (1, 10, 100):
        name = f"n{n}"
        sale.activity(name, n)
        process, port = sale.free_of_doubt(name)
        answers = sale.crowd([{"activity_id": name, "sku_id": f"sku_{name}", "request_id": "r", "user_id": f"u{i}"} for i in range(n)], port=port)
        sale.end(process)
        same(f"answers of {n}", [a and a["code"] for a in answers], ["QUEUED"] * n)
        until(f"{n} orders", 30, lambda: sale.orders(name) == n)
        sale.sold_out(name, "late")
    sale.drain()
    for n in (1, 10, 100):
        sale.proved(f"n{n}", sold=n)


def winners_retry(sale):
    """All is sold: a winner who asks again at any of three processes is shown his reservation, a stranger SOLD_OUT"""
    sale.activity("three", 3)
    won = {f"w{i}": sale.ordered("three", f"w{i}") for i in range(3)}
    ports = [sale.port, sale.serve("access")[1], sale.serve("access")[1]]
    for port in ports:
        until("this process knows the activity", 10, lambda: sale.get("/v1/activities/three", port=port).status == 200)
        sale.sold_out("three", "late", port=port)
        for _ in range(3):    # the first may ask Redis, the next are of what the process remembers
            for user, reservation in won.items():
                again = sale.buy("three", user, port=port)
                same("a winner again", (again.status, again["code"], again["reservation_id"], again.headers.get("idempotency-replayed")),
                     (200, "ORDERED", reservation, "true"))
                other = sale.buy("three", user, "another", port=port)
                same("with another request", (other["code"], other["reservation_id"]), ("ALREADY_PURCHASED", reservation))
            sale.sold_out("three", "stranger", port=port)
    for process in sale.extra:
        process.send_signal(signal.SIGTERM)
    same("they end in good order", [p.wait(20) for p in sale.extra], [0, 0])
    sale.extra.clear()
    sale.proved("three", sold=3)


def message_again(sale):
    """The same message a second time, and a hundred times more: one order, nothing moves"""
    sale.activity("echo", 5)
    reservation = sale.ordered("echo", "alice")
    sale.drain()
    message, *more = sale.broker.of(broker.CREATE, reservation)
    before, orders = sale.bucket("echo"), sale.sql("select * from orders where activity_id = 'echo'")
    journal = sale.sql("select * from inventory_journal where reservation_id = '%s'" % reservation)
    sale.broker.send(broker.CREATE, message.body, reservation, queue=(message.queue + 1) % 8)
    sale.drain()
    for i in range(100):
        sale.broker.send(broker.CREATE, message.body, reservation, queue=i % 8)
    sale.drain()
    same("messages of it in the broker", len(sale.broker.of(broker.CREATE, reservation)), 102 + len(more))
    same("orders", sale.sql("select * from orders where activity_id = 'echo'"), orders)
    same("journal", sale.sql("select * from inventory_journal where reservation_id = '%s'" % reservation), journal)
    same("Redis", sale.bucket("echo"), before)
    sale.proved("echo", sold=1)


def two_messages_at_once(sale):
    """Two messages of an undecided reservation wait for the reader together: one order"""
    sale.activity("pair", 2)
    sale.stall("order")
    reservation = sale.queued("pair", "alice")
    message = until("its message", 10, lambda: sale.broker.of(broker.CREATE, reservation))[0]
    for i in range(1, 4):
        sale.broker.send(broker.CREATE, message.body, reservation, queue=(message.queue + i) % 8)
    sale.wake()
    same("the verdict", sale.verdict("alice", reservation)["status"], "ORDERED")
    sale.drain()
    same("orders", sale.orders("pair"), 1)
    sale.proved("pair", sold=1)


def outbox_again(sale):
    """What the outbox has told is told again, many times: Redis does not move, nobody's state goes back"""
    sale.activity("tell", 4)
    won = [sale.ordered("tell", f"u{i}") for i in range(4)]
    sale.drain()
    before = sale.bucket("tell")
    ids = ", ".join(f"'{r}'" for r in won)
    for _ in range(5):
        sale.sql(f"select outbox_tell(array[{ids}], '{{}}', '{{}}'); select outbox_tell(array[{ids}], '{{}}', '{{}}')")
        sale.drain()
    same("Redis", sale.bucket("tell"), before)

    # A row renewed while its delivery is under way stays, and is delivered once more.
    sale.activity("renew", 2)
    sale.stall("relay")
    reservation = sale.queued("renew", "alice")
    until("its verdict", 20, lambda: sale.orders("renew") == 1)
    same("what the client sees, though Redis was not told", sale.verdict("alice", reservation)["status"], "ORDERED")
    sale.sql(f"update outbox set version = version + 1, claimed_until = NULL where reservation_id = '{reservation}'")
    sale.wake()
    sale.drain()
    same("status", sale.reservation("alice", reservation)["status"], "ORDERED")
    sale.proved("renew", sold=1)


def forged(message, number, **changes):
    """A message of a reservation that nobody made: its own ids, the rest as given."""
    body = dict(message.json)
    name = body["reservation_id"][4:]
    own = name[:14] + f"{number:04d}" + name[18:]
    body |= {"reservation_id": "rsv_" + own, "message_id": "msg_" + own} | changes
    return body


def returned_unit(sale):
    """A second reservation of one user is RELEASED with the order that stands; its unit returns with a new generation and is sold again"""
    sale.activity("back", 2)
    reservation = sale.ordered("back", "alice")
    message = sale.broker.of(broker.CREATE, reservation)[0]
    unit = sale.value("select unit from inventory_token where activity_id = 'back' and status = 'AVAILABLE'")
    body = genuine(sale, forged(message, 1, request_id="second", inventory_token_id=f"token_{int(unit):06d}-1"))
    sale.broker.send(broker.CREATE, json.dumps(body).encode(), body["reservation_id"])
    sale.drain()
    same("its verdict", sale.sql(f"select outcome, reason, superseded_by from consumer_inbox where reservation_id = '{body['reservation_id']}'"),
         [["RELEASED", "DUPLICATE_USER", reservation]])
    same("the unit", sale.sql(f"select status, generation from inventory_token where unit = {unit}"), [["AVAILABLE", "2"]])
    events = sale.broker.of(broker.EVENT, body["reservation_id"])
    same("the event", [(e.json["event"], e.json["reason"]) for e in events], [("RESERVATION_RELEASED", "DUPLICATE_USER")])
    seen = sale.get("/v1/requests/second?activity_id=back&user_id=alice")
    same("what alice sees of it", (seen["status"], seen["reason"], seen["superseded_by"]), ("RELEASED", "DUPLICATE_USER", reservation))
    same("she may not buy again", sale.buy("back", "alice", "third")["code"], "ALREADY_PURCHASED")
    sale.proved("back", sold=1)

    bob = until("the unit is sold again", 10, lambda: (lambda a: a if a["code"] in TAKEN else None)(sale.buy("back", "bob")))["reservation_id"]
    same("bob's verdict", sale.verdict("bob", bob)["status"], "ORDERED")
    same("bob's unit", sale.value("select inventory_token_id from orders where activity_id = 'back' and user_id = 'bob'"), f"token_{int(unit):06d}-2")
    sale.sold_out("back", "carol")
    sale.drain()
    # The return comes once more, late: the unit is sold at that generation and must not be on sale twice.
    sale.sql(f"insert into outbox (key, kind, activity_id, unit, generation) values ('RETURN:{unit}-2', 'RETURN', 'back', {unit}, 2)")
    sale.drain()
    sale.sold_out("back", "dave")
    sale.proved("back", sold=2)


def two_for_one_unit(sale):
    """Another reservation names the unit that a pending one holds: one of both gets the order, the other hears RELEASED with a reason"""
    sale.activity("clash", 2)
    first = sale.ordered("clash", "alice")
    message = sale.broker.of(broker.CREATE, first)[0]
    sale.stall("order")
    second = sale.queued("clash", "bob")
    pending = until("its message", 10, lambda: sale.broker.of(broker.CREATE, second))[0]
    body = genuine(sale, forged(message, 2, user_id="mallory", request_id="m", inventory_token_id=pending.json["inventory_token_id"]))
    for queue in range(8):    # wherever it is read first
        sale.broker.send(broker.CREATE, json.dumps(body).encode(), body["reservation_id"], queue)
    sale.wake()
    mine = sale.verdict("bob", second)
    theirs = sale.sql(f"select outcome, reason from consumer_inbox where reservation_id = '{body['reservation_id']}'")[0]
    same("one of both", sorted([mine["status"], theirs[0]]), ["ORDERED", "RELEASED"])
    right(f"the other has a reason: {mine} {theirs}", (mine["reason"] or theirs[1]) in ("TOKEN_CONFLICT", "STALE_GENERATION"))
    sale.drain()
    same("orders", sale.orders("clash"), 2)
    sale.proved("clash", sold=2)


def unreadable(sale):
    """What cannot be read is parked with its body and told to the dead-letter topic, and those behind it go on"""
    sale.activity("poison", 3)
    offset = sale.broker.send(broker.CREATE, b'{"schema_version":1,"hello":"world"}', "garbage", 3)
    sale.broker.send(broker.CREATE, b"\xff\xfe not even text", "garbage", 3)
    newer = json.dumps({"schema_version": 99, "message_id": "msg_later"}).encode()
    sale.broker.send(broker.CREATE, newer, "garbage", 3)
    right("it has an offset", offset >= 0)
    won = [sale.ordered("poison", f"u{i}") for i in range(3)]
    sale.drain()
    same("orders", (sale.orders("poison"), len(set(won))), (3, 3))
    rows = sale.sql("select reason, convert_from(body, 'UTF8') from review where body = '{\"schema_version\":1,\"hello\":\"world\"}' or reason = 'MESSAGE_TOO_NEW'")
    same("reviews", sorted(rows), [["MESSAGE_TOO_NEW", newer.decode()], ["MESSAGE_UNREADABLE", '{"schema_version":1,"hello":"world"}']])
    same("in all", sale.value("select count(*) from review where kind = 'MESSAGE'"), "3")
    same("dead letters", sorted(m.json["reason"] for m in sale.broker.read(broker.DEAD)), ["MESSAGE_TOO_NEW", "MESSAGE_UNREADABLE", "MESSAGE_UNREADABLE"])
    forged_can_only_be_dismissed(sale)
    sale.proved("poison", sold=3)


def forged_can_only_be_dismissed(sale):
    forged = next(m for m in sale.broker.read(broker.CREATE) if (m.key or "").startswith("rsv_") and m.json["activity_id"] == "poison").json | {"user_id": "mallory"}
    sale.broker.send(broker.CREATE, json.dumps(forged).encode(), "forged", 3)
    until("it is parked", 20, lambda: sale.value("select count(*) from review where message_key = 'forged' and reason = 'MESSAGE_FORGED'") == "1")
    review = sale.value("select review_id from review where message_key = 'forged'")
    answers = [sale.ask("POST", f"/admin/v1/reviews/{review}/resolve", {"decision": d, "reason": "a test"}, port=sale.admin_port) for d in ("RETRY", "RELEASE", "DISMISS")]
    same("its decisions", [a["code"] or a["decision"] for a in answers], ["CONFLICT", "CONFLICT", "DISMISS"])


def many_workers(sale):
    """Three readers, three relays and three janitors share a rush, and one of each is killed in it: nothing is doubled, nothing is lost"""
    sale.activity("share", 2000)
    extra = [sale.serve("order,relay,janitor")[0] for _ in range(2)]
    rush = threading.Thread(target=lambda: said.append(sale.do("rush", "--activity", "share", "--sku", "sku_share", "--users", "5000", "--connections", "64")))
    said = []
    rush.start()
    until("it is under way", 30, lambda: sale.orders("share") > 200)
    extra[0].kill()
    rush.join(120)
    same("the rush", said[0][0] if said else "did not end", 0)
    same("its proof", said[0][1].splitlines()[-1], "proof: sold=2000 oversell=0 duplicates=0 drift=0")
    members = sale.value("select count(*) from consumer_member where seen_until > now()")
    right(f"readers that live: {members}", int(members) >= 2)
    extra[1].send_signal(signal.SIGTERM)
    same("the other leaves in good order", extra[1].wait(25), 0)
    extra[0].wait()
    sale.extra.clear()
    sale.drain()
    same("orders", sale.orders("share"), 2000)
    sale.proved("share", sold=2000)


STORIES = [road, numbers, one_user, one_request, exactly_sold, winners_retry, message_again, two_messages_at_once, outbox_again, returned_unit,
           two_for_one_unit, unreadable, many_workers]

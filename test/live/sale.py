# SPDX-License-Identifier: Apache-2.0
"""A whole sale for the live tests: started from nothing in a directory of its own, asked over HTTP, and looked into from outside:
PostgreSQL through psql, Redis through its socket, the broker through broker.py. lib.sh is the same for shell scripts.

What it promises: every wait has an end, and when the test leaves, whatever way, nothing of the sale is left.
"""
import asyncio
import atexit
import http.client
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import broker

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECKILL = pathlib.Path(os.environ.get("SECKILL_BUILD") or ROOT / "build") / "seckill"
OPEN = ("2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z")
KEPT = 4 << 20    # bytes of the beginning and of the end of a long log
# A statement that takes a second comes with its plan, those inside functions too.
EXPLAINED = ("shared_preload_libraries=auto_explain auto_explain.log_min_duration=1000 auto_explain.log_nested_statements=on"
             if list(pathlib.Path("/usr/lib/postgresql").glob("*/lib/auto_explain.so")) else "")

PATIENCE = float(os.environ.get("SECKILL_TEST_PATIENCE") or 1)
# Who got a unit hears one of these. For a minute after an answer had to come from the ledger each QUEUED is confirmed there first (protocol §6), and the
# order may exist by then.
TAKEN = ("QUEUED", "ORDERED")


class Wrong(Exception):
    """What a story has found. The text says what was wanted and what came."""


def same(what, got, wanted):
    if got != wanted:
        raise Wrong(f"{what}: got {got!r}, wanted {wanted!r}")


def right(what, good):
    if not good:
        raise Wrong(what)


def until(what, seconds, ask):
    """Asks until the answer is true, and gives it; Wrong when the time is up."""
    end = time.monotonic() + seconds * PATIENCE
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Wrong(f"not in {seconds} s: {what}")
        time.sleep(0.05)


class Answer:
    """An HTTP answer: status, headers (lower case), and the body, read as JSON where it is an object."""

    def __init__(self, status, headers, body, seconds=0.0):
        self.status, self.headers, self.text, self.seconds = status, headers, body, seconds
        try:
            self.json = json.loads(body)
        except ValueError:
            self.json = None

    def __getitem__(self, name):
        return (self.json or {}).get(name)

    def __repr__(self):
        return f"{self.status} {self.text[:300]!r} after {self.seconds:.2f} s"


def state_of(pid):
    """T: it stands. None: it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return None


def url_port(url):
    return int(url.rsplit(":", 1)[1])


class Redis:
    """Just enough of RESP2 to look, and to break things on purpose. Bytes in, bytes out."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return self.read()

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b"-":
            raise Wrong(f"Redis says {rest!r}")
        return int(rest) if kind == b":" else rest


class Sale:
    """The running sale. `processes` as SECKILL_PROCESSES; settings go to the roles as environment."""

    def __init__(self, processes=None, **settings):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seckill-live.", dir="/tmp"))
        self.dir.chmod(0o711)
        self.run = self.dir / "run"
        self.environ = {k: v for k, v in os.environ.items() if not k.startswith("SECKILL_") or k in ("SECKILL_CACHE", "SECKILL_ROCKETMQ_LIB")}
        self.environ |= {"SECKILL_RUN": str(self.run), "SECKILL_BIN": str(SECKILL)} | settings
        # Ports where nobody begins to look: a server that was killed must find its own again, however many test runs there are beside this one.
        self.environ |= {"SECKILL_STACK_POSTGRES": EXPLAINED, "SECKILL_STACK_PORT": str(random.randrange(20000, 29000, 10)),
                         "SECKILL_STACK_PATIENCE": str(math.ceil(float(os.environ.get("SECKILL_TEST_PATIENCE") or 1)))}
        if processes:
            self.environ["SECKILL_PROCESSES"] = processes
        self.process, self.extra, self.stopped = None, [], []
        atexit.register(self.leave)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(143))
        self.start()

    def start(self):
        self.process = subprocess.Popen([ROOT / "tools/run"], env=self.environ, stdin=subprocess.DEVNULL, stdout=open(self.dir / "run.out", "ab"),
                                        stderr=subprocess.STDOUT, start_new_session=True)
        try:
            until("the sale opens", 300, lambda: (self.run / "env").exists() or self.process.poll() is not None)
            words = subprocess.run(["bash", "-c", '. "$1" && env -0', "_", self.run / "env"], check=True, capture_output=True, text=True).stdout.split("\0")
        except (Wrong, subprocess.CalledProcessError):
            print((self.dir / "run.out").read_text(errors="replace"))
            print("not ok - the sale opens")
            sys.exit(1)
        self.environ |= dict(w.split("=", 1) for w in words if w.startswith("SECKILL_"))
        self.port, self.admin_port = url_port(self.environ["SECKILL_HTTP_URL"]), url_port(self.environ["SECKILL_ADMIN_URL"])
        has = self.value("select to_regclass('seckill.deployment') is not null") == "t"    # a release before it has none
        self.deployment = self.value("select identity from deployment") if has else None
        self.connect()

    def connect(self):
        """Anew, where a server was started again; the broker may have another port then."""
        self.redis = Redis(self.environ["SECKILL_REDIS_URL"].removeprefix("unix:"))
        self.broker = broker.Broker(int((self.run / "run/broker.port").read_text()), deployment=self.deployment)

    def leave(self):
        self.wake()
        for process in list(self.extra):
            self.end(process)
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.keep_logs()
        subprocess.run([ROOT / "tools/run", "reset"], env=self.environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.dir, ignore_errors=True)

    def keep_logs(self):
        """What servers and roles have said, where whoever runs the tests wants it (SECKILL_TEST_KEEP): thrown away again where all went well."""
        kept = os.environ.get("SECKILL_TEST_KEEP")
        if not kept:
            return
        for log in [*(self.run / "log").glob("*"), *self.dir.glob("*.log"), *self.dir.glob("*.out")]:
            text = log.read_bytes() if log.is_file() else b""
            pathlib.Path(kept, log.name).write_bytes(text if len(text) < 2 * KEPT else text[:KEPT] + b"\n[...]\n" + text[-KEPT:])

    # ---- processes

    @staticmethod
    def kill(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def pid(self, name):
        """Of a role or of a server; None: it does not run."""
        for place in (self.run / "supervisor", self.run / "run"):
            try:
                return int((place / f"{name}.pid").read_text().split()[0])
            except (FileNotFoundError, IndexError):
                continue
        return None

    def stall(self, name):
        """It and what it has started take no step more until wake; they do not die either."""
        pid = self.pid(name)
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for pid in [pid, *map(int, children)]:
            self.stopped.append(pid)
            self.kill(pid, signal.SIGSTOP)
            until(f"{name} stands", 5, lambda: state_of(pid) in ("T", None))

    def wake(self):
        """All that stand."""
        while self.stopped:
            self.kill(self.stopped.pop(), signal.SIGCONT)

    def stack(self, verb, *names):
        """kill, down or up, those servers; none means all."""
        words = [ROOT / "tools/stack", verb, self.run, *names]
        done = subprocess.run(words, env=self.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300 * PATIENCE)
        right(f"stack {verb} {names}: {done.stderr}", done.returncode == 0)

    def mqadmin(self, *words):
        """What RocketMQ's own tool says."""
        return subprocess.run([ROOT / "tools/stack", "mqadmin", self.run, *words], env=self.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60 * PATIENCE).stdout

    def end(self, process):
        """Kills one of those that were started beside the sale's own."""
        process.kill()
        process.wait()
        self.extra.remove(process)

    def restore(self):
        """As it was before a story that failed: its processes are gone, the servers are there."""
        for process in list(self.extra):
            self.end(process)
        self.wake()
        self.stack("up")
        self.connect()

    def serve(self, roles, **settings):
        """One more process; access listens on a port of its own when this returns: (process, port)."""
        port = self.free_port()
        log = open(self.dir / f"serve-{port}.log", "wb")
        process = subprocess.Popen([SECKILL, "serve", "--roles", roles], env=self.environ | {"SECKILL_HTTP_LISTEN": f"127.0.0.1:{port}"} | settings,
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.extra.append(process)
        until("one more process serves", 20, lambda: roles != "access" or self.listens(port))
        return process, port

    @staticmethod
    def free_port():
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return s.getsockname()[1]

    @staticmethod
    def listens(port):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return False

    def do(self, *words, **more):
        """The binary against it: (exit code, standard output)."""
        done = subprocess.run([SECKILL, *words], env=self.environ, capture_output=True, text=True, timeout=120, **more)
        self.said = done.stdout + done.stderr
        return done.returncode, done.stdout

    # ---- HTTP

    def ask(self, method, target, body=None, port=None, headers=None, timeout=40):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=timeout)
        began = time.monotonic()
        try:
            data = json.dumps(body) if isinstance(body, (dict, list)) else body
            sent = ({"Content-Type": "application/json"} if data is not None else {}) | (headers or {})
            connection.request(method, target, data, sent)
            came = connection.getresponse()
            text = came.read().decode()
            return Answer(came.status, {k.lower(): v for k, v in came.getheaders()}, text, time.monotonic() - began)
        finally:
            connection.close()

    def get(self, target, **more):
        return self.ask("GET", target, **more)

    def buy(self, activity, user, request=None, sku=None, **more):
        body = {"activity_id": activity, "sku_id": sku or f"sku_{activity}", "request_id": request or f"r-{user}", "user_id": user}
        return self.ask("POST", "/v1/reservations", body, **more)

    def sold_out(self, activity, user, **more):
        """Must hear SOLD_OUT. STOCK_MOVING and UNCERTAIN (Redis was silent for a second) say that it is not known yet, and to ask again."""
        def ask():
            answer = self.buy(activity, user, **more)
            right(f"{user} in {activity}, which is sold out: {answer}", answer["code"] in ("SOLD_OUT", "STOCK_MOVING", "UNCERTAIN"))
            return answer["code"] == "SOLD_OUT"
        until(f"SOLD_OUT in {activity}", 10, ask)

    def queued(self, activity, user, request=None, sku=None):
        """Buys, and must be let in; gives the reservation's id. While a process doubts Redis it asks the ledger too, and may say ORDERED at once; or UNCERTAIN,
        where that does not answer in half a second: then the same request is asked again."""
        def ask():
            answer = self.buy(activity, user, request, sku)
            right(f"{user} buys in {activity}: {answer}", (answer.status, answer["code"]) in ((202, "QUEUED"), (200, "ORDERED"), (202, "UNCERTAIN")))
            return answer["reservation_id"]
        return until(f"{user}'s reservation in {activity}", 10, ask)

    def free_of_doubt(self, activity):
        """(process, port) of one more access process. Nobody has asked it how a reservation stands, so it has had no reason to ask the ledger instead of Redis,
        and says QUEUED without it (protocol §6)."""
        process, port = self.serve("access")
        until("it knows the activity", 10, lambda: self.get(f"/v1/activities/{activity}", port=port).status == 200)
        return process, port

    def reservation(self, user, reservation, wait=None, **more):
        return self.get(f"/v1/reservations/{reservation}?user_id={user}" + (f"&wait={wait}" if wait else ""), **more)

    def verdict(self, user, reservation, seconds=30):
        def ask():
            answer = self.reservation(user, reservation, "2s")
            return answer if answer["status"] in ("ORDERED", "RELEASED") else None
        return until(f"a verdict of {reservation}", seconds, ask)

    def ordered(self, activity, user, request=None, sku=None):
        reservation = self.queued(activity, user, request, sku)
        same(f"what became of {user}'s reservation", self.verdict(user, reservation)["status"], "ORDERED")
        return reservation

    def activity(self, name, stock, more_skus=(), window=OPEN, state="OPEN", rest=0.4, **members):
        """An activity with SKU sku_NAME, and a moment, for a process that has just read the list does not read it again for a stranger's word."""
        skus = [{"sku_id": s, "stock": n, "price": 100, "currency": "CNY"} for s, n in [(f"sku_{name}", stock), *more_skus]]
        body = {"activity_id": name, "starts_at": window[0], "ends_at": window[1], "buckets": 1, "skus": skus} | members
        for path, what in [("", body)] + [(f"/{name}/{step}", "") for step in {"DRAFT": [], "WARM": ["warm"], "OPEN": ["warm", "open"]}[state]]:
            answer = self.admin("POST", path, what)
            right(f"activity {name}{path}: {answer}", answer.status in (200, 201))
        if state != "DRAFT":    # a first buyer has the list read again, but waits for it 300 ms at most
            until(f"the public API knows {name} as it is", 15, lambda: self.get(f"/v1/activities/{name}")["state"] == state)
        time.sleep(rest)

    def admin(self, method, path, body=None):
        body = "" if body is None and method == "POST" else body    # a POST says its type, also without a body
        return self.ask(method, f"/admin/v1/activities{path}", body, port=self.admin_port)

    def crowd(self, bodies, connections=200, port=None):
        """All of them at once; gives the answers in the same order (None: the connection ended without one)."""
        return asyncio.run(crowd(port or self.port, bodies, connections))

    # ---- the stores

    def sql(self, text):
        """Rows as lists of texts."""
        done = subprocess.run(["psql", "-X", "-q", "-At", "-F", "\t", "-v", "ON_ERROR_STOP=1", self.environ["SECKILL_POSTGRES_URL"], "-f", "-"],
                              input="set search_path = seckill, public;\n" + text, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise Wrong(f"psql: {done.stderr.strip()}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def value(self, text):
        rows = self.sql(text)
        return rows[0][0] if rows else None

    def key(self, activity, name):
        return f"sk:{{{activity}:0}}:1:{name}"

    def count(self, key):
        """Members of a sorted set of a bucket, without its guard."""
        return self.redis("ZCOUNT", key, "-inf", "(+inf")

    def bucket(self, activity):
        """All that the bucket holds, but for what only counts calls."""
        held = {}
        for key in sorted(self.redis("KEYS", f"sk:{{{activity}:0}}:*")):
            kind = self.redis("TYPE", key)
            name = key.decode().rsplit(":1:", 1)[1]
            if kind == b"zset":
                held[name] = self.redis("ZRANGEBYSCORE", key, "-inf", "(+inf", "WITHSCORES")    # without its guard (guard.lua)
            elif kind == b"hash":
                flat = self.redis("HGETALL", key)
                held[name] = {k: v for k, v in zip(flat[::2], flat[1::2]) if k not in (b"restocks", b"#")}
            elif name != "seq":
                held[name] = self.redis("GET", key)
        return held

    def orders(self, activity):
        return int(self.value(f"select count(*) from orders where activity_id = '{activity}'"))

    def drained(self):
        """Nothing is unread and nothing untold."""
        ends = {q: self.broker.end(broker.CREATE, q) for q in range(self.broker.queues)}
        read = {int(q): int(n) for q, n in self.sql(f"select queue, next from consumer_offset where topic = '{broker.CREATE}'")}
        return all(read.get(q, 0) >= n for q, n in ends.items()) and self.value("select count(*) from outbox") == "0"

    def road(self):
        """Where work stands, in words: for whoever waits in vain."""
        try:
            ends = sum(self.broker.end(broker.CREATE, q) for q in range(self.broker.queues))
            said = self.sql("select (select coalesce(sum(next), 0) from consumer_offset), (select count(*) from outbox), "
                            "(select count(*) from outbox where claimed_until > now()), (select count(*) from orders), (select count(*) from activity)")[0]
            return f"read {said[0]} of {ends} messages; outbox {said[1]} rows, {said[2]} of them claimed; {said[3]} orders, {said[4]} activities"
        except (Wrong, OSError, AssertionError, subprocess.TimeoutExpired) as e:
            return f"the servers do not say: {e}"

    def drain(self, seconds=60):
        until("all is read and told", seconds, self.drained)

    def audit(self, activity=None, patience=20):
        """(exit code, what it says as JSON)"""
        code, text = self.do("audit", *([activity] if activity else []), "-o", "json", "--patience", str(patience))
        return code, json.loads(text)

    def proved(self, activity=None, sold=None):
        code, said = self.audit(activity)
        judged = said["judged"] + (f" ({said['unanswered']})" if "unanswered" in said else "")
        same(f"the audit of {activity or 'all'}, judged {judged}: {said['findings'][:5]}", (code, said["clean"]), (0, True))
        if sold is not None:
            same(f"sold in {activity}", said["sold"], sold)


async def crowd(port, bodies, connections):
    answers, left = [None] * len(bodies), iter(range(len(bodies)))

    async def one():
        reader = writer = None
        for i in left:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            data = json.dumps(bodies[i]).encode()
            writer.write(b"POST /v1/reservations HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))
            try:
                answers[i] = await asyncio.wait_for(read_answer(reader), 60)
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                writer = None
        if writer:
            writer.close()

    await asyncio.gather(*(one() for _ in range(min(connections, len(bodies)))))
    return answers


async def read_answer(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    headers = {k.lower(): v for k, v in re.findall(r"^([^:\r\n]+): *(.*?)\r$", head, re.M)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Answer(int(head.split()[1]), headers, body.decode())


def tell(sale, stories):
    """Each story is a function of the sale (None: they need none) with a name in words in its first line of documentation. Exit code 1 where one failed."""
    bad = 0
    for story in stories:
        name, began = story.__doc__.strip().splitlines()[0].rstrip("."), time.monotonic()
        try:
            story(sale)
            print(f"ok - {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as e:  # a story must not take the others with it
            bad += 1
            for line in (str(e) if isinstance(e, Wrong) else traceback.format_exc()).splitlines():
                print(f"    {line}")
            print(f"not ok - {name}", flush=True)
            if sale:
                sale.restore()
    return 1 if bad else 0

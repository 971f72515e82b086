# SPDX-License-Identifier: Apache-2.0
"""How strict our HTTP server is beside nginx and HAProxy: each request of test/unit/net/http_cases.def is sent to all three, the two standing as
reverse proxies in front of a back end that writes down what reaches it. Then both proxies are put in front of our own server.

The rule: what both refuse, we refuse; what one of them refuses and we take stands in LAXER with the reason; where a proxy and we take the same bytes,
we understand the same requests; behind a proxy, we never see more requests than the proxy has sent.

  http_differential.py            the test
  http_differential.py --table    docs/http-strictness.md on standard output
"""
import ast
import os
import pathlib
import re
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = ROOT / "test/unit/net/http_cases.def"
BUILD = pathlib.Path(os.environ.get("SECKILL_BUILD") or ROOT / "build-test")
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"
PATIENCE = float(os.environ.get("SECKILL_TEST_PATIENCE", "1"))
LAXER = {
    "options of everything": ("nginx", "RFC 9110 §9.3.7 has OPTIONS *; ours answers it as any path it does not have"),
    "options with a body": ("nginx", "RFC 9110 §9.3.7 has OPTIONS *, with content if one likes"),
    "methods know their case": ("nginx", "RFC 9110 §9.1: a method is any token; ours says 405 to those it does not have"),
    "absolute form, only a query": ("HAProxy", "RFC 3986 §3.3: a path may be empty; RFC 9110 §4.2.3: then it means /"),
    "slash in the query of an absolute form": ("HAProxy", "as above: the authority ends at the question mark for both who take it"),
    "an upgrade is not taken up": ("HAProxy", "it looks into WebSocket handshakes; RFC 9110 §7.8 lets a server ignore Upgrade, and ours always does"),
    "dots above the root are not walked": ("nginx", "it maps paths to files; ours compares them byte by byte with the routes it has"),
    "an escaped zero is not unescaped": ("nginx", "it unescapes paths; ours never does, so the zero is three letters"),
}

WORDS = {"H": b"Host: h\r\n", "A64": b"a" * 64}
WORDS["P"] = b"POST / HTTP/1.1\r\n" + WORDS["H"]
WORDS["CH"] = WORDS["P"] + b"Transfer-Encoding: chunked\r\n\r\n"
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|\d+|[(),]|\s+|/\*.*?\*/', re.S)


def c_bytes(literal):
    """What a C string literal stands for. Octal, hexadecimal and letters; a NUL is written \\0 there and never before a digit."""
    return ast.literal_eval("b" + literal)


def cases():
    """(name, bytes, wanted): wanted is a text for a good one, a number for a bad one."""
    tokens = [t for t in TOKEN.findall(CASES.read_text()) if not t.isspace() and not t.startswith("/*")]
    at = 0
    while at < len(tokens):
        assert tokens[at] in ("GOOD", "BAD") and tokens[at + 1] == "(", tokens[at:at + 3]
        end = tokens.index(")", at)
        parts, part = [], []
        for t in tokens[at + 2:end] + [","]:
            if t == ",":
                parts.append(part)
                part = []
            else:
                part.append(WORDS[t] if t in WORDS else c_bytes(t) if t.startswith('"') else int(t))
        name, sent, wanted = parts
        yield name[0].decode(), b"".join(sent), wanted[0] if tokens[at] == "BAD" else b"".join(wanted).decode("latin-1")
        at = end + 1


class Backend(socketserver.ThreadingTCPServer):
    """Reads requests as a proxy writes them, and writes down what they are. Whatever it cannot read is a finding of its own."""
    allow_reuse_address = daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Recorder)
        self.seen = []

    def handle_error(self, request, client_address):
        """Where a proxy hangs up, that is all. What it sends and nobody could read is one request more than anybody expects."""
        if not isinstance(sys.exc_info()[1], (OSError, EOFError)):
            self.seen.append(("unreadable", str(sys.exc_info()[1]), "", b""))


class Recorder(socketserver.StreamRequestHandler):
    timeout = 10

    def line(self):
        line = self.rfile.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError    # a proxy passes a body on before it has seen all of it: what it then breaks off was never a request
        return line[:-2].decode("latin-1")

    def bytes(self, n):
        got = self.rfile.read(n)
        if len(got) < n:
            raise EOFError
        return got

    def body(self, headers):
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return self.bytes(int(headers.get("content-length", "0")))
        whole = b""
        while size := int(self.line().split(";")[0], 16):
            whole += self.bytes(size)
            self.line()
        while self.line():
            pass
        return whole

    def handle(self):
        while True:
            method, target, _ = self.line().split(" ", 2)
            headers = {}
            while text := self.line():
                name, _, value = text.partition(":")
                headers[name.lower()] = value.strip()
            seen = (method, normal(target), host(headers.get("host", "")), self.body(headers))
            self.server.seen.append(seen)
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            self.wfile.flush()


def normal(target):
    """A target without scheme and authority: one proxy keeps them, one does not."""
    match = re.match(r"(?i)https?://[^/?]*(.*)", target)
    target = match[1] if match else target
    return target if target[:1] in ("/", "*") else "/" + target


def host(text):
    return re.sub(r":\d*$", "", text.lower()).rstrip(".")    # nginx takes the dot away


def answers(port, sent):
    """The statuses of all answers to these bytes, with their heads. Our half is closed after the last byte: no more will come."""
    with socket.create_connection(("127.0.0.1", port), timeout=10 * PATIENCE) as s:
        heard = b""
        try:
            s.sendall(sent)
            s.shutdown(socket.SHUT_WR)
            while piece := s.recv(65536):
                heard += piece
        except OSError:
            pass
    heads = re.findall(rb"HTTP/1\.[01] (\d{3})[^\r\n]*\r\n(.*?)\r\n\r\n", heard + b"\r\n\r\n", re.S)
    return [(int(status), head) for status, head in heads if status != b"100"]


class World:
    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seckill-http-"))
        self.processes = []
        self.backend = Backend()
        threading.Thread(target=self.backend.serve_forever, daemon=True).start()

    def run(self, name, *command):
        log = open(self.dir / f"{name}.log", "wb")
        self.processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.dir))

    def start(self):
        echo = subprocess.Popen([BUILD / "test/live/http_echo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.processes.append(echo)
        self.ours = int(echo.stdout.readline())
        behind = self.backend.server_address[1]
        self.nginx, self.nginx_ours, self.haproxy, self.haproxy_ours = (free_port() for _ in range(4))
        (self.dir / "nginx.conf").write_text(NGINX_CONF.format(dir=self.dir, servers="".join(
            NGINX_SERVER.format(port=port, behind=to) for port, to in ((self.nginx, behind), (self.nginx_ours, self.ours)))))
        (self.dir / "haproxy.cfg").write_text(HAPROXY_CONF + "".join(
            HAPROXY_LISTEN.format(port=port, behind=to) for port, to in ((self.haproxy, behind), (self.haproxy_ours, self.ours))))
        self.run("nginx", NGINX, "-p", str(self.dir), "-e", str(self.dir / "error.log"), "-c", str(self.dir / "nginx.conf"))
        self.run("haproxy", HAPROXY, "-db", "-f", str(self.dir / "haproxy.cfg"))
        for port in (self.nginx, self.nginx_ours, self.haproxy, self.haproxy_ours):
            await_port(port)

    def stop(self):
        for p in self.processes:
            if p.poll() is None:
                p.send_signal(signal.SIGTERM)
        for p in self.processes:
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.backend.shutdown()
        shutil.rmtree(self.dir, ignore_errors=True)

    def ask_us(self, sent, port=None):
        """What we have understood, and the first status that was a refusal, or 0."""
        got = answers(port or self.ours, sent)
        seen = []
        for status, head in got:
            if match := re.search(rb"(?im)^Seen: ([0-9a-f.]*)", head):
                method, target, name, body = (bytes.fromhex(part.decode()) for part in match[1].split(b"."))
                seen.append((method.decode("latin-1"), normal(target.decode("latin-1")), host(name.decode("latin-1")), body))
        return seen, next((status for status, _ in got if status >= 400), 0)

    def ask_proxy(self, sent, port):
        self.backend.seen = []
        got = answers(port, sent)
        return list(self.backend.seen), next((status for status, _ in got if status >= 400), 0)


NGINX_CONF = """daemon off; worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; client_max_body_size 64; client_header_timeout 5s; client_body_timeout 5s;
  client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3; uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
{servers}}}
"""
NGINX_SERVER = """  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{behind}; proxy_ignore_client_abort on; proxy_set_header Host $host; }} }}
"""
HAPROXY_CONF = """global
  maxconn 256
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
  timeout http-request 5s
"""
HAPROXY_LISTEN = """listen at{port}
  bind 127.0.0.1:{port}
  server behind 127.0.0.1:{behind}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def await_port(port):
    end = time.monotonic() + 20 * PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def compare(world):
    """A row a case: name, wanted, ours, and each proxy's understanding and refusal."""
    for name, sent, wanted in cases():
        yield name, sent, wanted, world.ask_us(sent), world.ask_proxy(sent, world.nginx), world.ask_proxy(sent, world.haproxy)


def understood(ours, theirs):
    """The same requests: method, target, body. A name of a host only where both have one."""
    return len(ours) == len(theirs) and all(
        a[:2] == b[:2] and a[3] == b[3] and (not a[2] or not b[2] or a[2] == b[2]) for a, b in zip(ours, theirs))


def judge(rows, world):
    """(what was promised, what is wrong with it)."""
    wrong = {"our own verdicts": [], "what both refuse, we refuse": [], "what one refuses is explained": [], "the same bytes mean the same": [],
             "behind a proxy nothing is added": []}
    unused = set(LAXER)
    for name, sent, wanted, (ours, no), nginx, haproxy in rows:
        good = isinstance(wanted, str)
        if bool(ours) != good or (not good and no != wanted):
            wrong["our own verdicts"].append(f"{name}: {ours} {no}")
        if ours:
            refusing = [who for who, (seen, _) in (("nginx", nginx), ("HAProxy", haproxy)) if len(seen) < len(ours)]
            if len(refusing) == 2:
                wrong["what both refuse, we refuse"].append(f"{name}: nginx {nginx}, HAProxy {haproxy}")
            elif refusing:
                unused.discard(name)
                if LAXER.get(name, ("",))[0] != refusing[0]:
                    wrong["what one refuses is explained"].append(f"{name}: {refusing[0]} refuses ({(nginx if refusing[0] == 'nginx' else haproxy)[1]})")
            for who, (seen, _) in (("nginx", nginx), ("HAProxy", haproxy)):
                if seen and not understood(ours, seen):
                    wrong["the same bytes mean the same"].append(f"{name}: we {ours}, {who} {seen}")
        for who, port, seen in (("nginx", world.nginx_ours, nginx[0]), ("HAProxy", world.haproxy_ours, haproxy[0])):
            through, _ = world.ask_us(sent, port)
            if len(through) > len(seen):
                wrong["behind a proxy nothing is added"].append(f"{name}: {who} sent {seen}, we saw {through}")
    wrong["what one refuses is explained"] += [f"{name}: explained, and nobody refuses it" for name in sorted(unused)]
    return wrong


def print_table(rows):
    print("# How strict the HTTP server is")
    print()
    print(f"Every request of `test/unit/net/http_cases.def` ({len(rows)}) is sent to our server, to nginx and to HAProxy (those of Debian), by")
    print("`test/live/http_differential.py`, which also checks that all who take a request read it alike, and prints this page with `--table`.")
    print("Nothing is taken here that both refuse. *Took n* means that n requests reached the server behind; a number is the status of a refusal.")
    print()
    print("## Where we are laxer than one of them")
    print()
    print("| Request | Who refuses | Why we take it |\n|---|---|---|")
    for name, (who, why) in LAXER.items():
        print(f"| {name} | {who} | {why} |")
    print()
    print("## Where one of them is laxer than we")
    print()
    print("| Request | We | nginx | HAProxy |\n|---|---|---|---|")
    for name, _, _, (ours, no), nginx, haproxy in rows:
        if max(len(nginx[0]), len(haproxy[0])) > len(ours):
            cells = (f"took {len(seen)}" if seen else str(refused or "closed") for seen, refused in ((ours, no), nginx, haproxy))
            print(f"| {name} | {' | '.join(cells)} |")


def main():
    if not (os.access(NGINX, os.X_OK) and os.access(HAPROXY, os.X_OK)):
        print("neither nginx nor haproxy here: tools/setup test brings them")
        return 77
    world = World()
    try:
        world.start()
        rows = list(compare(world))
        if "--table" in sys.argv:
            print_table(rows)
            return 0
        wrong = judge(rows, world)
    finally:
        world.stop()
    assert len(rows) >= 250
    for promise, faults in wrong.items():
        for fault in faults:
            print(f"    {fault}")
        print(f"{'not ok' if faults else 'ok'} - {promise} ({len(rows)} requests)")
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

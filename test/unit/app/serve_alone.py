# SPDX-License-Identifier: Apache-2.0
"""serve_alone.py SECKILL: a process whose stores are all absent, seen from outside: signals, descriptors, its log, its port. Needs no server."""
import contextlib
import fcntl
import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time

SECKILL = sys.argv[1]


class Wrong(Exception):
    pass


def right(what, good):
    if not good:
        raise Wrong(what)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Serve:
    """One process with the access and admin roles; ended at the end of the block."""

    def __init__(self, port=None, wait=True, stderr=subprocess.DEVNULL, preexec=None, config=None, **settings):
        self.port, self.admin, dead = port or free_port(), free_port(), free_port()
        settings = {"HTTP_LISTEN": f"127.0.0.1:{self.port}", "ADMIN_LISTEN": f"127.0.0.1:{self.admin}", "ROLES": "access,admin", "REDIS_URL": f"redis://127.0.0.1:{dead}",
                    "POSTGRES_URL": f"postgresql://127.0.0.1:{dead}/none", "ROCKETMQ_NAMESRV": f"127.0.0.1:{dead}"} | settings
        environ = {k: v for k, v in os.environ.items() if not k.startswith("SECKILL_")} | {f"SECKILL_{k}": v for k, v in settings.items()}
        self.process = subprocess.Popen([SECKILL, "serve", *(["--config", config] if config else [])], env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, preexec_fn=preexec,
                                        close_fds=True)
        if wait:
            self.until("it listens", lambda: self.status("/livez") == 200)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)

    def until(self, what, look, seconds=20):
        end = time.monotonic() + seconds
        while not look():
            right(f"{what}: it has ended with {self.process.poll()}", self.process.poll() is None)
            right(what, time.monotonic() < end)
            time.sleep(0.02)

    def ask(self, path, port=None, connection=None):
        connection = connection or http.client.HTTPConnection("127.0.0.1", port or self.admin, timeout=5)
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        return answer

    def status(self, path, port=None):
        with contextlib.suppress(OSError):
            return self.ask(path, port).status
        return None

    def lives(self, what):
        right(what, self.process.poll() is None and self.status("/livez") == 200)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(20)


def unused_signals():
    """SIGUSR1 and SIGUSR2 end nothing."""
    with Serve() as s:
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            s.process.send_signal(number)
            time.sleep(0.1)
            s.lives(f"after {number!r}")
        right("SIGTERM ends it in order", s.end() == 0)


def one_process_a_listener():
    """A second process on the same listener refuses to start; after the first has left, it may."""
    with Serve() as first:
        with Serve(port=first.port, wait=False, stderr=subprocess.PIPE) as second:
            said = second.process.communicate(timeout=20)[1].decode()
            right(f"exit {second.process.returncode}, {said}", second.process.returncode == 1 and "another process listens there" in said)
        first.lives("the first one")
        right("the first ends in order", first.end() == 0)
        with Serve(port=first.port) as third:
            third.lives("the third one")
    with Serve(HTTP_SHARED="true") as first, Serve(port=first.port, HTTP_SHARED="true") as second:    # both agree
        first.lives("the first that shares")
        second.lives("the second that shares")
        with Serve(port=first.port, wait=False, stderr=subprocess.PIPE) as third:
            right("one that does not share is refused", third.process.wait(20) == 1)
    with Serve() as alone, Serve(port=alone.port, wait=False, stderr=subprocess.PIPE, HTTP_SHARED="true") as second:
        right("one that shares is refused where another does not", second.process.wait(20) == 1)
        alone.lives("the one that does not share")
    with Serve() as killed:
        killed.process.kill()
        killed.process.wait(20)
        with Serve(port=killed.port) as next_one:
            next_one.lives("one after a killed one")


def leaving():
    """After SIGTERM /readyz says that it drains while the port is open, answers close their connections, and then the port shuts."""
    with Serve(DRAIN_DELAY_MS="1500") as s:
        kept = http.client.HTTPConnection("127.0.0.1", s.port, timeout=5)
        first = s.ask("/openapi.json", connection=kept)
        right("kept alive", first.status == 200 and first.headers.get("Connection") is None)
        right("no drain yet", "[+] serving" in s.ask("/readyz?verbose").text)
        began = time.monotonic()
        s.process.send_signal(signal.SIGTERM)
        s.until("/readyz says so", lambda: "[-] serving: draining" in s.ask("/readyz?verbose").text, 1)
        told = s.ask("/openapi.json", connection=kept)
        right("the kept connection is closed with its answer", told.status == 200 and told.headers["Connection"] == "close")
        right("the port is open", s.status("/openapi.json", s.port) == 200)
        while time.monotonic() - began < 1.2:
            right("the port stays open for the delay", s.status("/openapi.json", s.port) == 200)
            time.sleep(0.1)
        code = s.process.wait(20)
        took = time.monotonic() - began
        right(f"it ends in order after the delay: exit {code} after {took:.1f} s", code == 0 and 1.4 < took < 8)
    with Serve(DRAIN_DELAY_MS="60000") as s:
        s.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        s.lives("in its delay")
        began = time.monotonic()
        right("a second signal ends the delay", s.end(signal.SIGINT) == 0 and time.monotonic() - began < 8)


def full_log():
    """A log that nobody reads stops nothing, and the process ends all the same."""
    read, write = os.pipe()
    with tempfile.NamedTemporaryFile("w") as file, Serve(stderr=write, config=file.name) as s:
        os.close(write)
        file.write("".join(f"no_such_setting_{i}: 1\n" for i in range(60)))    # read again, it is refused with a line of 4 KB
        file.flush()
        waiting, after = 0, 0
        for _ in range(2000):    # until it is full, and some time on
            s.process.send_signal(signal.SIGHUP)
            s.lives("while nobody reads its log")
            waiting = int.from_bytes(fcntl.ioctl(read, termios.FIONREAD, b"    "), "little")
            after += waiting > 57000
            if after > 50:
                break
        right(f"the pipe is full: {waiting} bytes", after > 50)
        right("it ends", s.end() == 0)
    os.close(read)
    read, write = os.pipe()
    os.close(read)
    with Serve(stderr=write) as s:    # nobody will ever read
        os.close(write)
        s.lives("with a broken pipe")
        right("it ends", s.end() == 0)
    with open("/dev/full", "w") as full, Serve(stderr=full) as s:
        s.until("lost lines are counted", lambda: "seckill_log_dropped_total 0\n" not in s.ask("/metrics").text, 5)
        right("it ends", s.end() == 0)


def closed_descriptors():
    """Started without descriptors 0 to 2, no socket takes their place, and the process works."""
    def shut():
        for fd in (0, 1, 2):
            os.close(fd)
    with Serve(preexec=shut) as s:
        for fd in (0, 1, 2):
            right(f"descriptor {fd}", os.readlink(f"/proc/{s.process.pid}/fd/{fd}") == "/dev/null")
        right("it ends", s.end() == 0)


def few_descriptors():
    """With 120 descriptors and 150 clients the admin listener answers, and stores are still tried."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))
    with Serve(preexec=limit) as s:
        clients = []
        for _ in range(150):
            c = socket.create_connection(("127.0.0.1", s.port), 5)
            c.sendall(b"GET /open")    # none is idle
            clients.append(c)
        time.sleep(0.3)
        used = len(os.listdir(f"/proc/{s.process.pid}/fd"))
        right(f"{used} descriptors are used", used <= 100)
        for _ in range(20):
            s.lives("with 150 clients")
        right("readiness is told", s.ask("/readyz?verbose").status == 503)
        for c in clients:
            c.close()
        s.until("clients are served again", lambda: s.status("/openapi.json", s.port) == 200)
        right("it ends", s.end() == 0)

    def too_few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    with Serve(preexec=too_few, wait=False, stderr=subprocess.PIPE) as s:
        said = s.process.communicate(timeout=20)[1].decode()
        right(f"exit {s.process.returncode}: {said}", s.process.returncode == 1 and "64 file descriptors are too few" in said)


def little_memory():
    """A start that fails for want of memory says so and leaves nothing half made.
    (libuv and libc end a process by SIGABRT where they cannot start a thread.)"""
    for megabytes in (60, 90, 120, 150, 200, 260, 330, 420):
        def limit(bytes_=megabytes << 20):
            resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))
        with Serve(preexec=limit, wait=False, stderr=subprocess.PIPE) as s:
            try:
                said = s.process.communicate(timeout=2)[1].decode()
            except subprocess.TimeoutExpired:
                continue    # it runs
            right(f"with {megabytes} MB: exit {s.process.returncode}, {said[-500:]}", s.process.returncode in (1, -signal.SIGABRT) and (said or s.process.returncode < 0))


def main():
    bad = 0
    for story in (unused_signals, one_process_a_listener, leaving, full_log, closed_descriptors, few_descriptors, little_memory):
        began = time.monotonic()
        try:
            story()
            print(f"ok - {story.__doc__.splitlines()[0]} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as e:    # a story must not take the others with it
            bad += 1
            print(f"    {type(e).__name__}: {e}\nnot ok - {story.__doc__.splitlines()[0]}", flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())

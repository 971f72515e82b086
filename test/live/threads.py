# SPDX-License-Identifier: Apache-2.0
"""Several access threads in one process: a rush, twice over, while the metrics are read and the level of the log changes.
Says most where the binary was built with -Db_sanitize=thread (`make tsan`)."""
import os
import signal
import socket
import sys
import threading

sys.dont_write_bytecode = True    # the checkout stays clean

from sale import Sale, right, same, tell, until

THREADS = 3
STOCK = 300


def rush(sale):
    """Three access threads sell what there is, once, to whoever asks, twice"""
    sale.activity("threads", STOCK)
    bodies = [{"activity_id": "threads", "sku_id": "sku_threads", "request_id": f"r-{n}", "user_id": f"user{n}"} for n in range(2 * STOCK)]
    done, looks = threading.Event(), []
    until("it tells its metrics", 20, lambda: sale.listens(sale.health_port))

    def look():
        while not done.wait(0.05):
            looks.append(sale.ask("GET", "/metrics", port=sale.health_port).status)
            sale.several.send_signal(signal.SIGHUP)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(2):
            answers = sale.crowd(bodies, port=sale.several_port)
            right("every one is answered", all(answers))
    finally:
        done.set()
        looking.join()
    same("what the metrics said meanwhile", set(looks), {200})
    until("all is ordered", 30, lambda: sale.orders("threads") == STOCK)    # what the broker refused in its hurry the janitor announces a second later
    sale.drain()
    sale.proved("threads", sold=STOCK)


def ending(sale):
    """The process ends by itself, and with nothing to complain of"""
    sale.several.send_signal(signal.SIGTERM)
    code = sale.several.wait(60)
    if code:
        print((sale.dir / f"serve-{sale.several_port}.log").read_text(errors="replace")[-8000:])
    same("its exit code", code, 0)


if __name__ == "__main__":
    os.environ.setdefault("TSAN_OPTIONS", "exitcode=66")
    sale = Sale()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        sale.health_port = s.getsockname()[1]
    sale.several, sale.several_port = sale.serve("access", SECKILL_ACCESS_THREADS=str(THREADS), SECKILL_HEALTH_LISTEN=f"127.0.0.1:{sale.health_port}")
    sys.exit(tell(sale, [rush, ending]))

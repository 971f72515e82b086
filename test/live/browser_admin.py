# SPDX-License-Identifier: Apache-2.0
"""A real browser against the admin listener of a real sale: pages of another origin try to close the sale and to read its settings, directly and by DNS
rebinding. Needs Chromium (`make browser` brings it), and is no part of `make test`: test/unit/app/admin_guard.c has the same requests byte by byte."""
import http.client
import http.server
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

sys.dont_write_bytecode = True    # the checkout stays clean

from sale import Sale, right, same, tell, until

CLOSE = "/admin/v1/activities/act_browser/close"

# Each attempt ends in one of: "status TEXT" (the page has read an answer), "opaque" (sent, the answer hidden), "blocked" (the browser refused it).
PAGE = """<!doctype html><script>
const base = %(base)s;
async function attempt(path, options) {
  try {
    const answer = await fetch(base + path, options);
    return answer.type === "opaque" ? "opaque" : answer.status + " " + (await answer.text()).slice(0, 300);
  } catch (error) { return "blocked"; }
}
(async () => {
  const said = {
    simple_post: await attempt("%(close)s", {method: "POST", mode: "no-cors", body: '{"reason":"page"}'}),
    simple_post_read: await attempt("%(close)s", {method: "POST", body: '{"reason":"page"}'}),
    json_post: await attempt("%(close)s", {method: "POST", headers: {"Content-Type": "application/json"}, body: '{"reason":"page"}'}),
    empty_post: await attempt("/admin/v1/activities/act_browser/pause", {method: "POST", mode: "no-cors"}),
    settings: await attempt("/settings", {}),
    activities: await attempt("/admin/v1/activities", {}),
    metrics: await attempt("/metrics", {}),
  };
  await fetch("/said", {method: "POST", body: JSON.stringify(said)});
})();
</script><form id=f method=post enctype=text/plain target=i action="%(form)s"><input name='{"reason":"page","x":"' value='"}'></form><iframe name=i></iframe>
<script>document.getElementById("f").submit();</script>
"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        target = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).get("base", [""])[0]
        body = (PAGE % {"base": json.dumps(target), "close": CLOSE, "form": target + CLOSE}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.server.said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def browse(url, server, rules=""):
    """What the page of `url` has said of its attempts."""
    profile = tempfile.mkdtemp(prefix="seckill-browser-")
    server.said = None
    browser = subprocess.Popen(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                                f"--user-data-dir={profile}", f"--host-resolver-rules={rules}", "--remote-debugging-port=0", url],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until("the page has tried everything", 60, lambda: server.said)
        return server.said
    finally:
        browser.terminate()
        browser.wait(20)
        shutil.rmtree(profile, ignore_errors=True)


def unchanged(sale):
    same("the state of the sale", sale.admin("GET", "/act_browser")["state"], "OPEN")


def a_page_of_another_origin(sale):
    """A page of another origin in a browser can neither close the sale nor read the settings."""
    sale.activity("act_browser", 5)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for host in ("127.0.0.1", "localhost"):
            base = urllib.parse.quote(f"http://127.0.0.1:{sale.admin_port}")
            said = browse(f"http://{host}:{server.server_port}/?base={base}", server)
            for name in ("simple_post_read", "json_post", "settings", "activities", "metrics"):
                same(f"{name} of a page at {host}", said[name], "blocked")
            unchanged(sale)
    finally:
        server.shutdown()


def a_page_that_rebinds_its_name(sale):
    """A page that rebinds its name to the admin listener is refused.
    It comes from rebound.example; its name then leads to the admin listener. To the browser that is the page's own origin, so it lets the page read
    whatever is answered. A proxy stands for the DNS answer that changes: first the page, then the listener."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Rebound)
    server.admin_port = sale.admin_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        said = browse(f"http://rebound.example:{server.server_port}/?base=", server, "MAP rebound.example 127.0.0.1")
        for name in ("simple_post", "simple_post_read", "json_post", "empty_post", "settings", "activities", "metrics"):
            right(f"{name} after rebinding: {said[name]}", said[name].startswith("421 ") and "MISDIRECTED_REQUEST" in said[name])
        unchanged(sale)
    finally:
        server.shutdown()


class Rebound(Page):
    """Its own page and /said; every other request goes to the admin listener as it came, byte by byte but for Connection."""

    def relay(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.admin_port, timeout=10)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() != "connection":
                connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        text = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        connection.close()

    def do_GET(self):
        self.relay() if not self.path.startswith("/?") else super().do_GET()

    def do_POST(self):
        self.relay() if self.path != "/said" else super().do_POST()


STORIES = [a_page_of_another_origin, a_page_that_rebinds_its_name]

if __name__ == "__main__":
    sys.exit(tell(Sale(), STORIES))

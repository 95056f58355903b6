"""The login proxy of ``docs/serving.md``, with stand-ins for login and pages."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.servers import comes_up, free_ports

ROOT = Path(__file__).parents[2]
TYPED = "Zebras"  # what a visitor typed
KNOWN = {"Cookie": "_oauth2_proxy=known"}


class StandIn(ThreadingHTTPServer):
    """A server that records requests with all headers, and answers with its name."""

    daemon_threads = True

    def __init__(self, name: str) -> None:
        self.name, self.requests = name, list[str]()
        super().__init__(("127.0.0.1", 0), _Answers)


class _Answers(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        self.server.requests.append(f"{self.path}\n{self.headers}")
        requests = self.path.partition("?")[0]
        let_in = requests != "/oauth2/auth" or KNOWN["Cookie"] in self.headers.get("Cookie", "")
        self.send_response(200 if let_in else 401)
        self.end_headers()
        self.wfile.write(self.server.name.encode())

    do_POST = do_GET  # noqa: N815 (the base class calls it)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def stand_in(name: str) -> Iterator[StandIn]:
    with StandIn(name) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    """Status, redirect and body of an answer."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Location", ""), answer.read().decode()


def test_only_known_visitors_pass_the_login_of_the_docs(caddy: str) -> None:
    docs = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"```caddyfile\n(.*?)```", docs, re.DOTALL)
    (port,) = free_ports(1)
    with ExitStack() as stack:
        login, pages = (stack.enter_context(stand_in(name)) for name in ("login", "pages"))
        for name, address in {
            "viz.example.org": f"http://127.0.0.1:{port}",
            "oauth2-proxy:4180": f"127.0.0.1:{login.server_port}",
            "gpt2viz:8501": f"127.0.0.1:{pages.server_port}",
        }.items():
            assert name in written
            written = written.replace(name, address)
        command = [caddy, "run", "--config", "-", "--adapter", "caddyfile"]
        process = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        )
        stack.callback(process.terminate)
        assert process.stdin
        process.stdin.write(b"{\n\tadmin off\n}\n" + written.encode())
        process.stdin.close()
        assert comes_up(f"http://127.0.0.1:{port}", "oauth2/sign_in")

        link = f"/textbook?text={TYPED}&layer=1"
        leads = (302, "/oauth2/sign_in?rd=/textbook", "")
        assert ask(port, link) == leads
        assert ask(port, link, Cookie="_oauth2_proxy=forged") == leads
        for path in ("/", "/_stcore/stream", "/media/a.png", "/healthz", "/oauth2", "/static/a.js"):
            for method in ("GET", "POST"):
                assert ask(port, path, method)[:2] == (302, f"/oauth2/sign_in?rd={path}"), path
        assert not pages.requests
        assert ask(port, link, **KNOWN) == (200, "", "pages")
        assert ask(port, "/oauth2/sign_in") == (200, "", "login")
        assert pages.requests[0].startswith(f"{link}\n")
        assert not [request for request in login.requests if TYPED in request]
        login.shutdown()
        login.server_close()
        assert ask(port, link, **KNOWN)[0] == 502  # without the login nobody passes
        assert len(pages.requests) == 1

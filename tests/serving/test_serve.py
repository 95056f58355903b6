"""``gpt2viz serve`` as a whole, with the real proxy: also when a worker dies or hangs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import psutil
import pytest
from numpy.testing import assert_allclose
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gpt2viz.app.frame import page
from gpt2viz.model.tokenizer import load_tokenizer
from gpt2viz.serving.proxy import COOKIE
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import reference
from tests.servers import free_ports
from tests.soak.visitor import Screen, Visitor

ROOT = Path(__file__).parents[2]
TEXT = "Zebras ate the secret fish"
#: Limits of one address on a worker, and the trusted proxy in front.
FEW = {"GPT2VIZ_MAX_REQUESTS": "3", "GPT2VIZ_MAX_CONNECTIONS": "6", "GPT2VIZ_PROXIES": "127.0.0.2"}


@dataclass
class Server:
    """A server with two workers; ``model`` is the folder of a second model that it shows.

    ``runs`` has the runs of each worker when the server became ready.
    """

    process: subprocess.Popen[bytes]
    port: int
    metrics: int
    model: Path
    log: Path
    runs: Sequence[int] = ()

    def ask(self, path: str, port: int = 0, seconds: float = 10) -> tuple[int, str]:
        """Status and body of a path, on the port of the pages or another."""
        try:
            with urlopen(f"http://127.0.0.1:{port or self.port}{path}", timeout=seconds) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, ""
        except OSError:
            return 0, ""

    def number(self, name: str) -> list[int]:
        """One metric, of each worker that answers."""
        families = text_string_to_metric_families(self.ask("/metrics", self.metrics)[1])
        return [int(s.value) for f in families for s in f.samples if s.name == name]

    def wait(self, expected: str) -> None:
        """Wait until that many workers answer, such as "2 of 2"."""
        for _ in range(3000):
            if self.ask("/readyz") == (200, f"{expected} workers answer\n"):
                return
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def worker_of(self, visitors: int) -> psutil.Process:
        """A worker that has at least so many visitors."""
        for child in psutil.Process(self.process.pid).children():
            ports = [c.laddr.port for c in child.net_connections("tcp") if c.status == "LISTEN"]
            for port in ports:
                status, numbers = self.ask("/metrics.json", port)
                if status == 200 and json.loads(numbers)["gpt2viz_visitors"] >= visitors:
                    return child
        raise AssertionError("no worker has all of them")


@pytest.fixture(scope="module")
def server(caddy: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tmp_path = tmp_path_factory.mktemp("server")
    write_checkpoint(tmp_path / "mine", n_positions=64)
    port, metrics = free_ports(2)
    command = [sys.executable, "-m", "gpt2viz", "serve", "--workers", "2", "--port", str(port)]
    command += ["--model", str(tmp_path / "mine"), "--metrics-port", str(metrics)]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=os.environ | FEW)
    result = Server(process, port, metrics, tmp_path / "mine", tmp_path / "log")
    try:
        result.wait("2 of 2")
        result.runs = result.number("gpt2viz_runs_total")
        yield result
        result.wait("2 of 2")
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) == 4  # two workers, health, the proxy
    finally:
        process.terminate()
        ended = process.wait(60)
    assert ended == 0
    assert not [child for child in family if child.is_running()]
    written = result.log.read_text()
    assert "Traceback" not in written
    assert not [word for word in TEXT.split() if word in written]


def page_of(model: str) -> dict[str, str]:
    return {"text": TEXT, "model": model, "layer": "1", "head": "1"}


def check_page(screen: Screen) -> list[np.ndarray]:
    """Check that a page was drawn without an error; the weights of the head that it shows."""
    assert screen.status == "FINISHED_SUCCESSFULLY"
    assert not screen.exceptions
    return screen.matrices("one_head")


def lost_connection(screen: Screen) -> bool:
    """True if a page has the message that the connection was lost."""
    return any(page.WELCOME_BACK.encode() in part for part in screen.raw)


def headers(
    server: Server, path: str, by: str = "127.0.0.1", **requested: str
) -> tuple[int, Message]:
    """Status and headers of an answer to a client with the address ``by`` of this machine."""
    to, own = ("127.0.0.1", server.port), (by, 0)
    with closing(HTTPConnection(*to, timeout=30, source_address=own)) as connection:
        connection.request(
            "GET", path, headers={k.replace("_", "-"): v for k, v in requested.items()}
        )
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.msg


def half_sent(server: Server) -> socket.socket:
    """A connection that sends only half of a request."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Half: ")
    return connection


def test_headers_cookies_and_missing_paths(server: Server) -> None:
    """As any client sees them."""
    for path in ("/", "/textbook", "/_stcore/health", "/readyz"):
        status, result = headers(server, path)
        assert status == 200, path
        assert result["X-Content-Type-Options"] == "nosniff"
        assert result["Referrer-Policy"] == "same-origin"
        assert "frame-ancestors 'self'" in result["Content-Security-Policy"]
        assert len(result.get_all("Server", [])) <= 1
    for path in (
        "/metrics",
        "/nothing",
        "/wp-login.php",
        "/static/nothing",
        "/static/js/nothing.js",
        "/media/nothing.png",
        "/component/nothing/index.html",
        "/_stcore/nothing",
        "/_stcore/metrics",
        "/a/_stcore/agent/mcp",
    ):
        assert headers(server, path)[0] == 404, path
    for proto, flags in (("http", "SameSite=Lax"), ("https", "Secure; SameSite=Lax")):
        cookies = headers(server, "/", X_Forwarded_Proto=proto)[1].get_all("Set-Cookie", [])
        (own,) = (cookie for cookie in cookies if cookie.startswith(COOKIE))
        assert own.endswith(f"; Path=/; HttpOnly; {flags}")
    assert not list(Path(tempfile.gettempdir()).glob("gpt2viz-*/Caddyfile"))


def test_each_client_address_has_its_own_rate_limit(server: Server) -> None:
    """On one worker, by its cookie. Only trusted proxies can name another client's address."""
    cookie = headers(server, "/")[1]["Set-Cookie"].partition(";")[0]

    def ask(by: str, clients: Iterable[str]) -> list[int]:
        """The number of answers and of refusals."""

        def ask(client: str) -> tuple[int, str | None]:
            requested = {"Cookie": cookie, "X_Forwarded_For": client}
            status, sent = headers(server, "/favicon.png", by, **requested)
            return status, sent["Retry-After"]

        with ThreadPoolExecutor(16) as pool:
            answers = Counter(pool.map(ask, clients))
        assert set(answers) <= {(200, None), (429, "10")}
        return [answers[200, None], answers[429, "10"]]

    proxy, stranger = "127.0.0.2", "127.0.0.3"
    answered, refused = ask(proxy, ["192.0.2.1"] * 350)
    assert answered >= 240
    assert refused > 20
    assert ask(proxy, ["192.0.2.2"]) == [1, 0]
    assert ask(proxy, ["192.0.2.1, 192.0.2.2"]) == [1, 0]  # the proxy adds the last one
    assert ask(stranger, ["192.0.2.1"]) == [1, 0]
    answered, refused = ask(stranger, (f"192.0.2.{n % 250}" for n in range(350)))
    assert answered >= 239
    assert refused > 20

    first = Visitor(server.port)
    visitors = [first, *(Visitor(server.port, cookie=first.cookie) for _ in range(5))]
    with pytest.raises(InvalidStatus, match="429"):
        Visitor(server.port, cookie=first.cookie)
    for visitor in visitors:
        visitor.close()


def test_a_hung_worker_is_restarted_and_half_sent_requests_are_closed(server: Server) -> None:
    assert server.runs == [1, 1]  # ready: each has drawn its first page
    half = [half_sent(server) for _ in range(20)]
    hung = server.worker_of(0)
    hung.send_signal(signal.SIGSTOP)
    until = time.monotonic() + 30
    fresh = [0]
    while hung.is_running() and time.monotonic() < until:
        fresh.append(server.ask("/", seconds=5)[0])
        time.sleep(0.2)
    assert not hung.is_running()
    # One or two requests reach it before it is known to hang; then all are answered.
    assert fresh[-10:] == 10 * [200]
    for connection in half:
        with connection:  # with 408, or closed without an answer
            assert b" 200 " not in connection.recv(100)
    server.wait("2 of 2")


def test_visitors_of_a_killed_worker_get_their_page_back(server: Server) -> None:
    ids = load_tokenizer(server.model).encode(TEXT)
    weights = np.array(reference(server.model, ids, True)["weights"])[1, 1]
    restarts = sum(server.number("gpt2viz_restarts_total"))
    first = Visitor(server.port)
    class_ = [first, *(Visitor(server.port, cookie=first.cookie) for _ in range(3))]
    before = [visitor.open("", page_of("mine")) for visitor in class_]
    assert not any(map(lost_connection, before))
    assert sorted(server.number("gpt2viz_visitors")) == [0, 4]  # the cookie keeps all on one worker
    assert sorted(server.number("gpt2viz_runs_total")) == [1, 2]  # the first pages, and this
    assert server.ask("/_stcore/metrics")[0] == 404
    shutil.copy(ROOT / "LICENSE", server.model / "model.safetensors")  # shorter than it was

    server.worker_of(4).send_signal(signal.SIGKILL)
    with pytest.raises(ConnectionClosed):
        first.open("", page_of("mine"))
    back = Visitor(server.port, cookie=first.cookie, before=first.session)
    after = back.open("", page_of("mine"))
    assert lost_connection(after)
    assert not lost_connection(back.open("", page_of("mine")))
    back.close()
    for screen in (*before, after):
        (result,) = check_page(screen)
        assert_allclose(result, weights, atol=1e-5)
    server.wait("2 of 2")
    assert sum(server.number("gpt2viz_restarts_total")) == restarts + 1
    assert "ended (SIGKILL); it is started again" in server.log.read_text()

"""Health, readiness and metrics, read by Prometheus' own parser; logs without visitors' texts."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpt2viz.errors import ServeError
from gpt2viz.serving import logs, proxy
from gpt2viz.serving.health import EVERY, FAMILIES, Health
from tests.servers import free_ports

#: A worker's metrics in JSON.
ANSWER = '{{"gpt2viz_visitors": {0}, "gpt2viz_runs_total": 1{0}}}'


@contextmanager
def worker(number: int) -> Iterator[int]:
    """The port of a stand-in that answers as a worker does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            requested = self.path == "/metrics.json"
            self.wfile.write((ANSWER.format(number) if requested else "ok").encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def closed() -> int:
    """A port that nobody listens on."""
    return free_ports(1)[0]


def test_metrics_are_labelled_by_worker(closed: int) -> None:
    with worker(3) as first, worker(5) as second:
        status, kind, body = Health([first, closed, second], [1, 4, 2], [0, 0, 0]).answer(
            "/metrics"
        )
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    families = list(text_string_to_metric_families(body))
    result = {
        sample.name: {s.labels["worker"]: s.value for s in family.samples}
        for family in families
        for sample in family.samples
    }
    assert result == {
        "gpt2viz_up": {"1": 1, "2": 0, "3": 1},
        "gpt2viz_restarts_total": {"1": 0, "2": 3, "3": 1},
        "gpt2viz_visitors": {"1": 3, "3": 5},
        "gpt2viz_runs_total": {"1": 13, "3": 15},
    }
    kinds = {family.name: (family.type, family.documentation) for family in families}
    assert kinds["gpt2viz_visitors"] == ("gauge", "Browsers that are connected.")
    assert kinds["gpt2viz_runs"] == ("counter", "Runs of a model that pages asked for.")


def test_a_worker_that_dies_while_answering_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_half() -> None:
            with listening.accept()[0] as requested:
                requested.recv(1000)
                requested.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\no")

        Thread(target=answer_half, daemon=True).start()
        health = Health([listening.getsockname()[1]], [1], [0])
        assert health.answer("/readyz")[::2] == (503, "0 of 1 workers answer\n")


def test_the_server_is_ready_while_one_worker_answers(closed: int) -> None:
    with worker(1) as port:
        assert Health([port, closed], [1, 1], [0, 0]).answer("/readyz")[::2] == (
            200,
            "1 of 2 workers answer\n",
        )
    health = Health([closed], [1], [0])
    assert health.answer("/readyz")[::2] == (503, "0 of 1 workers answer\n")
    assert health.answer("/healthz")[0] == 200
    assert health.answer("/elsewhere")[0] == 404


def test_the_silence_of_a_worker_is_timed_until_it_answers(closed: int) -> None:
    silence = [0.0, 0.0]
    with worker(1) as port:
        health = Health([port, closed], [1, 1], silence)
        for requested in (1, 2, 3):
            health.listen()
            assert silence == [0.0, requested * EVERY]
    with worker(2) as port:
        health.ports = [closed, port]
        health.listen()
        assert silence == [EVERY, 0.0]
        silence[:] = [-45.0, -45.0]  # both have just started
        health.answer("/readyz")
    assert silence == [-45.0, 0.0]


def adapted(program: str, written: str, tmp_path: Path) -> dict[str, object]:
    """The proxy's configuration as Caddy itself parses it."""
    file = tmp_path / "Caddyfile"
    file.write_text(written)
    for check in (["fmt"], ["validate", "--adapter", "caddyfile", "--config"]):
        done = subprocess.run([program, *check, str(file)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert check != ["fmt"] or done.stdout == written
    command = [program, "adapt", "--config", str(file)]
    message = subprocess.run(command, capture_output=True, text=True, check=True)
    results: dict[str, object] = json.loads(message.stdout)
    return results


def handlers(part: object) -> Iterator[dict[str, object]]:
    """Every handler of a configuration, at any depth."""
    if isinstance(part, dict):
        if "handler" in part:
            yield part
        part = list(part.values())
    for inner in part if isinstance(part, list) else []:
        yield from handlers(inner)


def test_the_proxy_keeps_a_visitor_with_one_worker(caddy: str, tmp_path: Path) -> None:
    given = ("127.0.0.1", 8501, [7001, 7002], ("10.0.0.5", 8502), "5ec4e7")
    assert "trusted_proxies" not in proxy.configuration(*given)
    written = proxy.configuration(*given, proxies=["10.0.0.0/8", "192.0.2.1"])
    assert f"lb_policy cookie {proxy.COOKIE} 5ec4e7\n" in written
    message = adapted(caddy, written, tmp_path)
    assert message["admin"] == {"disabled": True}
    proxies = [h for h in handlers(message) if h["handler"] == "reverse_proxy"]
    health, pages = sorted(proxies, key=lambda p: len(p["upstreams"]))  # type: ignore[arg-type]
    assert health["upstreams"] == [{"dial": "10.0.0.5:8502"}]
    assert pages["trusted_proxies"] == ["10.0.0.0/8", "192.0.2.1"]
    assert pages["upstreams"] == [{"dial": "127.0.0.1:7001"}, {"dial": "127.0.0.1:7002"}]
    policy = pages["load_balancing"]["selection_policy"]  # type: ignore[index]
    assert policy == {"policy": "cookie", "name": proxy.COOKIE, "secret": "5ec4e7"}
    closed = [h for h in handlers(message) if h["handler"] == "static_response"]
    assert {h["status_code"] for h in closed} == {404}  # the workers' own metrics, and others


def test_the_proxys_error_log_has_no_urls(caddy: str, tmp_path: Path, closed: int) -> None:
    written = proxy.configuration("127.0.0.1", closed, [closed + 1], ("::1", closed), "5ec4e7")
    (tmp_path / "Caddyfile").write_text(written.replace("duration 10s", "duration 0s"))
    command = [caddy, "run", "--adapter", "caddyfile", "--config", str(tmp_path / "Caddyfile")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(100):
            try:
                urlopen(f"http://127.0.0.1:{closed}/?text=Zebras")
            except HTTPError:  # it found no worker
                break
            except OSError:
                time.sleep(0.05)
        process.terminate()
        _, message = process.communicate(timeout=20)
    assert "no upstreams available" in message or "connection refused" in message
    assert "Zebras" not in message


def test_without_caddy_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ServeError, match="apt-get install caddy"):
        proxy.find()


def test_a_log_has_the_traceback_but_not_the_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = logging.getLogRecordFactory()
    logger = logging.getLogger("some of Streamlit's")
    handler = logging.StreamHandler()
    logger.addHandler(handler)
    try:
        logs.leave_texts_out()
        try:
            int("my secret sentence")
        except ValueError:
            logger.exception("Uncaught app execution")
    finally:
        logging.setLogRecordFactory(before)
        logger.removeHandler(handler)
    written = capsys.readouterr().err
    assert "Uncaught app execution" in written
    assert "test_health.py" in written
    assert "ValueError" in written
    assert written.count("secret") == 1  # our own line of code
    assert "invalid literal" not in written


def test_a_workers_metrics_are_all_declared() -> None:
    from gpt2viz.app import metrics

    with metrics.count_while("waiting"):
        numbers = metrics.snapshot()
    assert set(numbers) == set(FAMILIES)
    assert (numbers["gpt2viz_waiting"], numbers["gpt2viz_visitors"]) == (1, 0)
    assert metrics.snapshot()["gpt2viz_waiting"] == 0
    assert 10**7 < numbers["gpt2viz_memory_bytes"] < 10**11

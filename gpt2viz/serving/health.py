"""The health of a server, for its owner and for balancers.

``/healthz`` says that the server is up, ``/readyz`` that it accepts visitors, ``/metrics``
has the workers' numbers in Prometheus' text format:
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, MutableSequence, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

#: Seconds that a worker has to answer.
PATIENCE = 2.0
#: Seconds between two polls of the workers.
EVERY = 5.0
#: A worker's metrics, by name, as ``app.metrics.snapshot`` gives them: kind and help.
FAMILIES = {
    "gpt2viz_visitors": ("gauge", "Browsers that are connected."),
    "gpt2viz_runs_total": ("counter", "Runs of a model that pages asked for."),
    "gpt2viz_waiting": ("gauge", "Pages that wait for a turn or a run."),
    "gpt2viz_memory_bytes": ("gauge", "Memory of this process alone."),
}
#: The same for a worker as seen from here.
_SEEN = {
    "gpt2viz_up": ("gauge", "Whether the worker answers."),
    "gpt2viz_restarts_total": ("counter", "How often it was started again."),
}
TEXT = "text/plain; version=0.0.4; charset=utf-8"


def exposition(workers: Mapping[int, Mapping[str, int]]) -> str:
    """Format numbers by worker and name in Prometheus' text format, a line per worker."""
    lines = []
    for name, (kind, help) in (_SEEN | FAMILIES).items():
        samples = {n: numbers[name] for n, numbers in workers.items() if name in numbers}
        if samples:
            lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
            lines += [f'{name}{{worker="{n}"}} {value}' for n, value in sorted(samples.items())]
    return "".join(f"{line}\n" for line in lines)


class Health:
    """Polls the workers, which listen on local ``ports``.

    ``starts`` has each one's starts, and ``silence`` the seconds since its last answer.
    """

    def __init__(
        self, ports: Sequence[int], starts: Sequence[int], silence: MutableSequence[float]
    ) -> None:
        self.ports = ports
        self.starts = starts
        self.silence = silence
        self._pool = ThreadPoolExecutor(len(ports))

    def answering(self) -> list[bool]:
        """True for each worker that reports to be healthy; that resets its silence."""
        answering = [answer is not None for answer in self._fetch_all("/_stcore/health")]
        for n in range(len(answering)):
            if answering[n]:
                self.silence[n] = 0.0
        return answering

    def listen(self) -> None:
        """Poll once; no answer adds ``EVERY`` seconds, so that a suspended machine adds none."""
        for n, well in enumerate(self.answering()):
            self.silence[n] += 0 if well else EVERY

    def metrics(self) -> str:
        """All workers' numbers, in the format of ``/metrics``."""
        answers = self._fetch_all("/metrics.json")
        seen = zip(answers, self.starts, strict=True)
        return exposition(
            {
                n: {"gpt2viz_up": int(answer is not None), "gpt2viz_restarts_total": starts - 1}
                | json.loads(answer or "{}")
                for n, (answer, starts) in enumerate(seen, 1)
            }
        )

    def _fetch_all(self, path: str) -> list[str | None]:
        return list(
            self._pool.map(lambda port: _fetch(f"http://127.0.0.1:{port}{path}"), self.ports)
        )

    def answer(self, path: str) -> tuple[int, str, str]:
        """Status, type and body of the answer to a path."""
        if path == "/healthz":
            return 200, TEXT, "ok\n"
        if path == "/readyz":
            well = self.answering()
            return (200 if any(well) else 503), TEXT, f"{sum(well)} of {len(well)} workers answer\n"
        if path == "/metrics":
            return 200, TEXT, self.metrics()
        return 404, TEXT, "/healthz, /readyz and /metrics are here\n"


def _fetch(address: str) -> str | None:
    """Fetch the text at an address; None if it isn't complete or in time."""
    try:
        with urlopen(address, timeout=PATIENCE) as answer:  # noqa: S310 (a worker's own)
            return str(answer.read().decode())
    except (OSError, HTTPException, UnicodeDecodeError):
        return None


def listen_for_ever(health: Health) -> None:
    """Poll the workers forever, in a separate thread."""
    while True:
        time.sleep(EVERY)
        health.listen()


def serve(host: str, port: int, health: Health) -> None:
    """Answer requests forever."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = health.answer(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

    with Server((host, port), Handler) as server:
        server.serve_forever()

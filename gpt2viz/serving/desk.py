"""The desk of a server: who asks how it is, is told here.

``/healthz`` says that the server lives, ``/readyz`` that a visitor would be let in, ``/metrics``
the workers' numbers in Prometheus' text format:
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.request import urlopen

#: Seconds that a worker has to answer.
PATIENCE = 2.0
#: Seconds between two times that the desk asks the workers by itself.
EVERY = 5.0
#: What a worker is asked for, of all that Streamlit's own endpoint could tell.
FAMILIES = (
    "gpt2viz_visitors",
    "gpt2viz_runs",
    "gpt2viz_waiting",
    "gpt2viz_memory_bytes",
)
TEXT = "text/plain; version=0.0.4; charset=utf-8"

_SAMPLE = re.compile(r"^(gpt2viz_\w+) (\S+)$", re.M)


class Family(NamedTuple):
    """Samples of one name: ``values`` by worker."""

    name: str
    kind: str
    says: str
    values: dict[int, str]


def written(families: Iterable[Family]) -> str:
    """Families in Prometheus' text format, a line for each worker."""
    lines = []
    for name, kind, says, values in families:
        lines += [f"# HELP {name} {says}", f"# TYPE {name} {kind}"]
        lines += [f'{name}{{worker="{n}"}} {value}' for n, value in sorted(values.items())]
    return "".join(f"{line}\n" for line in lines)


def read(answers: dict[int, str]) -> list[Family]:
    """What workers said in OpenMetrics' text format, ``answers`` by worker, put together by name.

    A counter's samples end in ``_total`` there; here its name does, too.
    """
    found: dict[str, Family] = {}
    for worker, answer in answers.items():
        told = {part[0]: part[1:] for part in _comments(answer)}
        for name, value in _SAMPLE.findall(answer):
            (kind, says) = told.get(name.removesuffix("_total"), ("untyped", ""))
            found.setdefault(name, Family(name, kind, says, {})).values[worker] = value
    return list(found.values())


def _comments(answer: str) -> Iterator[tuple[str, str, str]]:
    """Name, type and help of each family."""
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", answer, re.M))
    says = dict(re.findall(r"^# HELP (\w+) (.*)$", answer, re.M))
    yield from ((name, kind, says.get(name, "")) for name, kind in kinds.items())


class Desk:
    """Asks the workers, which listen on ``ports`` of this machine; ``starts`` counts theirs."""

    def __init__(self, ports: Sequence[int], starts: Sequence[int]) -> None:
        self.ports = ports
        self.starts = starts
        self._pool = ThreadPoolExecutor(len(ports))

    def answering(self) -> list[bool]:
        """Which workers answer that they are well."""
        return [answer is not None for answer in self._ask("/_stcore/health")]

    def listen(self, silence: MutableSequence[float]) -> None:
        """Ask once: ``silence`` holds for how many seconds each worker has answered nothing.

        Counted in questions, each for ``EVERY`` seconds: where the whole machine stood still,
        nobody could answer.
        """
        for n, well in enumerate(self.answering()):
            silence[n] = 0.0 if well else silence[n] + EVERY

    def metrics(self) -> str:
        """All workers' numbers, as ``/metrics`` has them."""
        asked = "&".join(f"families={name}" for name in FAMILIES)
        answers = dict(enumerate(self._ask(f"/_stcore/metrics?{asked}"), 1))
        up = {n: str(int(answer is not None)) for n, answer in answers.items()}
        again = {n: str(starts - 1) for n, starts in enumerate(self.starts, 1)}
        return written(
            [
                Family("gpt2viz_up", "gauge", "Whether the worker answers.", up),
                Family(
                    "gpt2viz_restarts_total", "counter", "How often it was started again.", again
                ),
                *read({n: answer for n, answer in answers.items() if answer is not None}),
            ]
        )

    def _ask(self, path: str) -> list[str | None]:
        return list(
            self._pool.map(lambda port: _asked(f"http://127.0.0.1:{port}{path}"), self.ports)
        )

    def answer(self, path: str) -> tuple[int, str, str]:
        """Status, type and body of what a path is answered with."""
        if path == "/healthz":
            return 200, TEXT, "ok\n"
        if path == "/readyz":
            well = self.answering()
            return (200 if any(well) else 503), TEXT, f"{sum(well)} of {len(well)} workers answer\n"
        if path == "/metrics":
            return 200, TEXT, self.metrics()
        return 404, TEXT, "/healthz, /readyz and /metrics are here\n"


def _asked(address: str) -> str | None:
    """What is answered there; None where that isn't all, in time, and text."""
    try:
        with urlopen(address, timeout=PATIENCE) as answer:  # noqa: S310 (a worker's own)
            return str(answer.read().decode())
    except (OSError, HTTPException, UnicodeDecodeError):
        return None


def listen_for_ever(desk: Desk, silence: MutableSequence[float]) -> None:
    """Ask the workers again and again, for a thread of its own."""
    while True:
        time.sleep(EVERY)
        desk.listen(silence)


def serve(host: str, port: int, desk: Desk) -> None:
    """Answer whoever asks, for ever."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = desk.answer(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Nobody's requests are logged."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

    with Server((host, port), Handler) as server:
        server.serve_forever()

"""A class on one server: python -m tests.soak --minutes 10 --visitors 30

Visitors over websockets type their own sentences and switch masks, models, layers and pages. Fails
on a number that differs from a serial run, an exception in log or page, another visitor's text, or
memory that grew by more than a tenth after the first minute. With ``--workers 2 --kill 30`` it
tests `gpt2viz serve`, and kills a worker every 30 seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from threading import Lock, Thread
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from websockets.exceptions import ConnectionClosed

import gpt2viz
from gpt2viz.pictures.pooling import THUMBNAIL, pool_by_maximum
from tests.app.pages import SHADE
from tests.checkpoints import write_checkpoint
from tests.servers import comes_up, free_ports
from tests.soak.visitor import Screen, Visitor

ROOT = Path(__file__).parents[2]
WORDS = re.findall(
    r"\w+", "the cat sat on a mat and then dog ate fish near old river bank while John"
)
MASK = "side_by_side?differs=mask"
#: Pages whose pictures are compared, and pages that must just not fail.
COMPARED = ("", "head", MASK)
OTHERS = (
    "predict",
    "side_by_side",
    "shapes",
    "find",
    "what_if",
    "training",
    "predict?predict=generate",
)
TOLERANCE = 2e-6  # float32, summed in another order
#: The start of every sentence of a visitor, which no other visitor types.
MARK = re.compile(rb"Visitor(\d+)z")
#: So small that the cache is full, and evicts, from the first minute on.
CACHE_MB = 32

_turn = Lock()
_models: dict[str, gpt2viz.Model] = {}


class Request(NamedTuple):
    """A page, a text and settings that a visitor chooses."""

    page: str
    text: str
    model: str
    causal: bool
    layer: int
    head: int

    def parameters(self) -> dict[str, Any]:
        """The parameters of the address."""
        return self._asdict() | {"causal": str(self.causal).lower()}


def next_request(visitor: int, rng: Random) -> Request:
    """The next request of a visitor, who has six sentences."""
    page = rng.choice(COMPARED if rng.random() < 0.75 else OTHERS)
    length = rng.randrange(3, 9)
    text = " ".join([f"Visitor{visitor}z", *Random(f"{visitor} {length}").choices(WORDS, k=length)])
    model = rng.choice(list(_models))
    return Request(page, text, model, rng.random() < 0.7, rng.randrange(3), rng.randrange(4))


@lru_cache(maxsize=4000)
def serial_weights(model: str, text: str, causal: bool) -> np.ndarray:
    """The weights (n_layer, nh, T, T) from a run of its own, in this process."""
    with _turn:
        trace = gpt2viz.trace(_models[model], text, causal=causal)
        layers = range(trace.config.n_layer)
        return np.stack([trace.stage("weights", layer)[0] for layer in layers])


def expected(requested: Request) -> dict[str, list[np.ndarray]]:
    """Chart -> its matrices, for a page of ``COMPARED``."""
    layer, head = requested.layer, requested.head
    if requested.page == MASK:
        both = (serial_weights(requested.model, requested.text, causal) for causal in (True, False))
        return {"both_sides": [weights[layer, head] for weights in both]}
    every = serial_weights(requested.model, requested.text, requested.causal)
    if requested.page == "head":
        return {"stage_weights": [every[layer, head]]}
    tiles = [pool_by_maximum(matrix, THUMBNAIL) for heads in every for matrix in heads]
    return {"all_heads": tiles, "one_head": [every[layer, head]]}


def find_fault(screen: Screen, requested: Request, visitor: int) -> str:
    """The fault in a page that the server sent, or an empty text."""
    if screen.exceptions or screen.status != "FINISHED_SUCCESSFULLY":
        return f"{screen.status} {screen.exceptions}"
    seen = {int(n) for part in screen.raw for n in MARK.findall(part)}
    if not seen <= {visitor}:
        return f"saw the text of {seen - {visitor}}"
    for key, pictures in expected(requested).items() if requested.page in COMPARED else ():
        shown, apart = screen.matrices(key), SHADE if key == "all_heads" else TOLERANCE
        if [matrix.shape for matrix in shown] != [matrix.shape for matrix in pictures]:
            return f"{key}: other pictures"
        if max(np.abs(a - b).max() for a, b in zip(shown, pictures, strict=True)) > apart:
            return f"{key}: another picture"
    return ""


@dataclass
class Record:
    """The measurements of all visitors so far."""

    seconds: list[float] = field(default_factory=list)
    checked: int = 0
    killed: int = 0
    moved: int = 0
    faults: list[str] = field(default_factory=list)


def visit(n: int, port: int, record: Record, until: float, pause: float) -> None:
    """One visitor: opens links, and sometimes types a sentence on the open page.

    A visitor who loses the connection reconnects as a browser does, and continues.
    """
    rng, visitor = Random(f"visitor {n}"), Visitor(port)
    time.sleep(rng.random() * pause)
    while time.time() < until:
        requested = next_request(n, rng)
        try:
            started = time.perf_counter()
            screen = visitor.open(requested.page, requested.parameters())
            record.seconds.append(time.perf_counter() - started)
            fault = find_fault(screen, requested, n)
            if not fault and rng.random() < 0.5:
                requested = requested._replace(text=next_request(n, rng).text)
                started = time.perf_counter()
                screen = visitor.type(screen.inputs["Sentence"][0], requested.text)
                record.seconds.append(time.perf_counter() - started)
                fault = find_fault(screen, requested, n)
        except ConnectionClosed as error:
            if not record.killed:
                record.faults.append(f"visitor {n}, {requested}: {error}")
                return
            record.moved += 1
            visitor = Visitor(port, cookie=visitor.cookie, before=visitor.session)
            continue
        except Exception as error:
            record.faults.append(f"visitor {n}, {requested}: {type(error).__name__}: {error}")
            return
        record.checked += 1
        if fault:
            record.faults.append(f"visitor {n}, {requested}: {fault}")
        time.sleep(pause * (0.5 + rng.random()))
    visitor.close()


@contextmanager
def server(environment: dict[str, str], log: Path, workers: int) -> Iterator[tuple[int, int]]:
    """The app in its own process, or in several workers behind a proxy: (port, process id)."""
    port, metrics = free_ports(2)
    command = [sys.executable, "-m", "gpt2viz", "app", "--no-browser"]
    if workers:
        command[3:] = ["serve", "--workers", str(workers), "--metrics-port", str(metrics)]
    command += ["--port", str(port)]
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=file, stderr=file, env=os.environ | environment
        )
        try:
            if not comes_up(f"http://127.0.0.1:{port}", "readyz" if workers else "_stcore/health"):
                raise RuntimeError(log.read_text())
            yield port, process.pid
        finally:
            process.terminate()
            process.wait(60)


def apps(pid: int) -> list[psutil.Process]:
    """The processes of a server that serve pages: its workers, or itself."""
    whole = psutil.Process(pid)
    command = whole.cmdline()
    if "serve" not in command:
        return [whole]
    health_port, workers = int(command[command.index("--metrics-port") + 1]), []
    for child in whole.children():
        with suppress(psutil.Error):  # it was just killed
            listens = {link.laddr[1] for link in child.net_connections()}
            workers += [child] * (child.cmdline() == command and health_port not in listens)
    return workers


def kill(pid: int, until: float, pause: float, record: Record) -> None:
    """Kill a random worker of ``pid`` every ``pause`` seconds."""
    rng = Random("killer")
    while time.time() + pause < until:
        time.sleep(pause)
        record.killed += 1
        rng.choice(apps(pid)).kill()


def watch(pid: int, until: float, minutes: dict[int, list[float]]) -> None:
    """Record the server's own memory in MB every two seconds, by minute."""
    started = time.time()
    while time.time() < until:
        with suppress(psutil.Error):  # a worker has just been killed
            own = sum(app.memory_full_info().uss for app in apps(pid)) / 1e6
            minutes.setdefault(int((time.time() - started) // 60), []).append(own)
        time.sleep(2)


def soak(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run the load test; return the figures."""
    write_checkpoint(folder / "tiny", n_positions=64)
    _models["stories"] = gpt2viz.load_model()
    _models["tiny"] = gpt2viz.load_model(folder / "tiny")
    record, minutes = Record(), dict[int, list[float]]()
    environment = {"GPT2VIZ_MODELS": str(folder / "tiny"), "GPT2VIZ_CACHE_MB": str(CACHE_MB)}
    load = os.getloadavg()[0]
    with server(environment, folder / "log", arguments.workers) as (port, pid):
        until, pause = time.time() + 60 * arguments.minutes, arguments.pause
        threads = [
            Thread(target=visit, args=(n, port, record, until, pause))
            for n in range(arguments.visitors)
        ]
        threads.append(Thread(target=watch, args=(pid, until, minutes)))
        if arguments.kill:
            threads.append(Thread(target=kill, args=(pid, until, arguments.kill, record)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    written = (folder / "log").read_text()
    if "Traceback" in written or "Exception" in written:
        record.faults.append(f"in the log: {written[-2000:]}")
    memory = [round(statistics.median(of_minute)) for of_minute in minutes.values()]
    if len(memory) > 2 and not record.killed and memory[-1] > 1.1 * memory[1]:
        record.faults.append(f"memory grew from {memory[1]} to {memory[-1]} MB")
    return {
        **vars(arguments),
        "killed": record.killed,
        "visitors who moved": record.moved,
        "interactions": len(record.seconds),
        "median s": round(statistics.median(record.seconds), 2),
        "95 % within s": round(float(np.percentile(record.seconds, 95)), 2),
        "slowest s": round(max(record.seconds), 2),
        "pages judged": record.checked,
        "MB each minute": memory,
        "load before and after": [round(load, 1), round(os.getloadavg()[0], 1)],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "faults": record.faults,
    }


def main() -> int:
    """Run the load test and print its figures; return 0 without a fault."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--visitors", type=int, default=30)
    parser.add_argument("--pause", type=float, default=10, help="seconds between two requests")
    parser.add_argument("--workers", type=int, default=0, help="workers of `gpt2viz serve`")
    parser.add_argument("--kill", type=float, default=0, help="seconds between killing workers")
    arguments = parser.parse_args()
    if arguments.kill and not arguments.workers:
        parser.error("--kill needs --workers: nobody would start the app again")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        figures = soak(arguments, Path(folder))
    print(json.dumps(figures, indent=2))
    return 1 if figures["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())

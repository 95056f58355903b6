"""A class at work on one server: python -m tests.soak --minutes 10 --visitors 30 --browsers 2

Visitors over websockets, and real Chromiums, type sentences of their own, switch masks, models,
layers and pages. Fails on a number that a serial run doesn't have, an exception in log or page,
another visitor's text, or memory that grew by more than a tenth after the first minute. With
``--workers 2 --kill 30`` it is `gpt2viz serve`, and a worker is killed every 30 seconds; what its
metrics say in the end must be what was counted here.
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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any
from urllib.request import urlopen

import numpy as np
import psutil
import torch
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import ConnectionClosed

import gpt2viz
from tests.app.pages import SHADE
from tests.browser.conftest import ROOT
from tests.checkpoints import write_checkpoint
from tests.servers import answers, free_ports
from tests.soak.browser import browse
from tests.soak.serial import COMPARED, Serial, Wish, wish
from tests.soak.visitor import Screen, Visitor

TOLERANCE = 2e-6  # float32, summed up by other threads
MARK = re.compile(rb"Visitor(\d+)z")
#: So little is kept that the cache is full, and lets go, from the first minute on.
CACHE_MB = 32


@dataclass
class Record:
    """What happened so far, of all visitors together."""

    seconds: dict[str, list[float]] = field(
        default_factory=lambda: {"websocket": [], "browser": []}
    )
    compared: int = 0
    killed: int = 0
    moved: int = 0
    faults: list[str] = field(default_factory=list)
    visitors: list[Visitor] = field(default_factory=list)  # who are there to the end

    def took(self, kind: str, seconds: float) -> None:
        self.seconds[kind].append(seconds)


def judge(screen: Screen, wanted: Wish, visitor: int, serial: Serial) -> str:
    """What is wrong with a page that was sent, or an empty text."""
    if screen.exceptions or screen.status != "FINISHED_SUCCESSFULLY":
        return f"{screen.status} {screen.exceptions}"
    seen = {int(n) for part in screen.raw for n in MARK.findall(part)}
    if not seen <= {visitor}:
        return f"saw the text of {seen - {visitor}}"
    if wanted.page in COMPARED:
        for key, expected in serial.pictures(wanted).items():
            found = screen.matrices(key)
            if len(found) != len(expected):
                return f"{key}: {len(found)} pictures in place of {len(expected)}"
            apart = SHADE if key == "all_heads" else TOLERANCE
            for a, b in zip(found, expected, strict=True):
                if a.shape != b.shape or np.abs(a - b).max() > apart:
                    return f"{key}: another picture, {a.shape} {b.shape}"
    return ""


def visit(n: int, port: int, serial: Serial, record: Record, until: float, pause: float) -> None:
    """One visitor: links, and now and then a sentence typed on the page that is open.

    Who loses the server comes back as a browser does, and goes on.
    """
    rng = Random(f"visitor {n}")
    models = list(serial.names)
    visitor = Visitor(port)
    time.sleep(rng.random() * pause)
    while time.time() < until:
        wanted = wish(n, rng, models)
        started = time.perf_counter()
        try:
            screen = visitor.open(wanted.page, wanted.parameters())
            record.took("websocket", time.perf_counter() - started)
            fault = judge(screen, wanted, n, serial)
            if not fault and rng.random() < 0.5:
                wanted = wanted._replace(text=wish(n, rng, models).text)
                started = time.perf_counter()
                screen = visitor.type(screen.inputs["Sentence"][0], wanted.text)
                record.took("websocket", time.perf_counter() - started)
                fault = judge(screen, wanted, n, serial)
        except ConnectionClosed as error:
            if not record.killed:
                record.faults.append(f"visitor {n}, {wanted}: {error}")
                return
            record.moved += 1
            visitor = Visitor(port, cookie=visitor.cookie, before=visitor.session)
            continue
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
            record.faults.append(f"visitor {n}, {wanted}: {fault}")
            return
        record.compared += 1
        if fault:
            record.faults.append(f"visitor {n}, {wanted}: {fault}")
        time.sleep(pause * (0.5 + rng.random()))
    record.visitors.append(visitor)


@contextmanager
def server(environment: dict[str, str], log: Path, workers: int = 0) -> Iterator[tuple[int, int]]:
    """The app in a process of its own, or in so many behind a proxy: (port, process id)."""
    port, metrics = free_ports(2)
    command = [sys.executable, "-m", "gpt2viz", "app", "--no-browser"]
    ready = "_stcore/health"
    if workers:
        command[3:] = ["serve", "--workers", str(workers), "--metrics-port", str(metrics)]
        ready = "readyz"
    with log.open("w") as file:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=ROOT,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | environment,
        )
        try:
            if not answers(f"http://127.0.0.1:{port}", ready):
                raise RuntimeError(log.read_text())
            yield port, process.pid
        finally:
            process.terminate()
            process.wait(60)


def resident(pid: int) -> float:
    """MB of memory that are the server's own, all its processes that serve pages together."""
    if psutil.Process(pid) not in (found := apps(pid)):
        return sum(one.memory_full_info().uss for one in found) / 1e6
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024 / 1e6


def kill(pid: int, until: float, pause: float, record: Record) -> None:
    """Now and then one of the workers below ``pid``, without a warning."""
    rng = Random("killer")
    while time.time() + pause < until:
        time.sleep(pause)
        record.killed += 1
        rng.choice(apps(pid)).kill()


def apps(pid: int) -> list[psutil.Process]:
    """The processes of a server that serve pages: its workers, or itself."""
    server = psutil.Process(pid)
    command = server.cmdline()
    if "serve" not in command:
        return [server]
    desk = int(command[command.index("--metrics-port") + 1])

    def serves_pages(one: psutil.Process) -> bool:
        try:
            return one.cmdline() == command and desk not in {
                link.laddr[1] for link in one.net_connections()
            }
        except psutil.Error:  # it has just been killed
            return False

    return [one for one in server.children() if serves_pages(one)]


def watch(pid: int, until: float, samples: list[tuple[float, float]]) -> None:
    """Memory every two seconds."""
    started = time.time()
    while time.time() < until:
        with suppress(psutil.Error):  # a worker has just been killed
            samples.append((time.time() - started, resident(pid)))
        time.sleep(2)


def told_apart(pid: int, record: Record) -> list[str]:
    """What a server's metrics say at rest, and isn't so: of visitors, restarts, work and memory."""
    command = psutil.Process(pid).cmdline()
    port, workers = (command[command.index(name) + 1] for name in ("--metrics-port", "--workers"))

    def ask(path: str) -> str:
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
            return str(answer.read().decode())
        return ""

    for _ in range(600):  # the last one killed may only just begin again
        if ask("readyz").startswith(f"{workers} of "):
            break
        time.sleep(0.1)
    families = text_string_to_metric_families(ask("metrics"))
    told: Counter[str] = Counter()
    for sample in (one for family in families for one in family.samples):
        told[sample.name.removeprefix("gpt2viz_")] += int(sample.value)
    counted = {
        "up": int(workers),
        "visitors": sum(one.connected for one in record.visitors),
        "restarts_total": record.killed,
        "waiting": 0,
    }
    faults = [f"{name}: {told[name]}, not {n}" for name, n in counted.items() if told[name] != n]
    megabytes = told["memory_bytes"] / 1e6
    if abs(megabytes - (own := resident(pid))) > 0.05 * own:
        faults.append(f"memory_bytes: {megabytes:.0f} MB, not {own:.0f}")
    if told["runs_total"] == 0:
        faults.append("runs_total: none")
    return [f"metrics, {fault}" for fault in faults]


def growth(samples: list[tuple[float, float]]) -> tuple[float, float]:
    """MB after the first minute and at the end, each the median of ten seconds or more."""
    first = [mb for at, mb in samples if 60 <= at < 75] or [mb for _, mb in samples[:5]]
    return statistics.median(first), statistics.median(mb for _, mb in samples[-7:])


def each_minute(samples: list[tuple[float, float]]) -> list[int]:
    """The median of every minute: whether it still grows at the end, or has come to rest."""
    minutes: dict[int, list[float]] = {}
    for at, mb in samples:
        minutes.setdefault(int(at // 60), []).append(mb)
    return [round(statistics.median(found)) for _, found in sorted(minutes.items())]


def soak(arguments: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Run it; the figures."""
    write_checkpoint(folder / "tiny", n_positions=64)
    folders = {"stories": gpt2viz.BUNDLED, "tiny": folder / "tiny"}
    serial, record = Serial(folders), Record()
    samples: list[Any] = []
    environment = {
        "GPT2VIZ_MODELS": str(folder / "tiny"),
        "GPT2VIZ_CACHE_MB": str(CACHE_MB),
    }
    log = folder / "log"
    load = os.getloadavg()[0]
    with server(environment, log, arguments.workers) as (port, pid):
        until = time.time() + 60 * arguments.minutes
        visitors: list[Callable[[], None]] = [
            lambda n=n: visit(n, port, serial, record, until, arguments.pause)  # type: ignore[misc]
            for n in range(arguments.visitors)
        ]
        visitors += [
            lambda n=n: browse(1000 + n, port, serial, record, until)  # type: ignore[misc]
            for n in range(arguments.browsers)
        ]
        threads = [Thread(target=target) for target in visitors]
        threads.append(Thread(target=watch, args=(pid, until, samples)))
        if arguments.kill:
            threads.append(Thread(target=kill, args=(pid, until, arguments.kill, record)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if arguments.workers:
            record.faults += told_apart(pid, record)
        for visitor in record.visitors:
            visitor.close()
    written = log.read_text()
    if "Traceback" in written or "Exception" in written:
        record.faults.append(f"in the log: {written[-2000:]}")
    return {
        "visitors": arguments.visitors,
        "browsers": arguments.browsers,
        "minutes": arguments.minutes,
        "pause s": arguments.pause,
        "workers": arguments.workers,
        "killed": record.killed,
        "visitors who moved": record.moved,
        **figures(record, samples, arguments.minutes),
        "load before and after": [round(load, 1), round(os.getloadavg()[0], 1)],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "faults": record.faults,
    }


def figures(
    record: Record, samples: list[tuple[float, float]], minutes: float
) -> dict[str, object]:
    """Seconds by kind and megabytes; memory that grew is noted among the record's faults."""
    first, last = growth(samples)
    if minutes >= 2 and not record.killed and last > 1.1 * first:
        record.faults.append(f"memory grew from {first:.0f} to {last:.0f} MB")
    times = {
        kind: {
            "interactions": len(seconds),
            "median s": round(statistics.median(seconds), 2),
            "95 % within s": round(float(np.percentile(seconds, 95)), 2),
            "slowest s": round(max(seconds), 2),
        }
        for kind, seconds in record.seconds.items()
        if seconds
    }
    return {
        **times,
        "pages judged": record.compared,
        "MB after the first minute": round(first),
        "MB at the end": round(last),
        "MB each minute": each_minute(samples),
    }


def main() -> int:
    """0 where nothing was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--visitors", type=int, default=30)
    parser.add_argument("--browsers", type=int, default=2)
    parser.add_argument("--pause", type=float, default=10, help="seconds between two wishes")
    parser.add_argument("--workers", type=int, default=0, help="so many, by `gpt2viz serve`")
    parser.add_argument("--kill", type=float, default=0, help="seconds between killing workers")
    arguments = parser.parse_args()
    if arguments.kill and not arguments.workers:
        parser.error("--kill needs --workers: nobody would start the app again")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = soak(arguments, Path(folder))
    print(json.dumps(found, indent=2))
    return 1 if found["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())

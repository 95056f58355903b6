"""Pages a second by one worker and by more: python -m tests.soak.throughput --workers 1 2

Visitors over websockets, as many to each worker, who never pause and type a new sentence each time,
so that every page takes a run. Nothing is judged: ``python -m tests.soak`` does that. The visitors
take processors, too: the figure is worth something where there are more of these than workers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from threading import Thread

import psutil

from tests.soak.__main__ import apps, server
from tests.soak.serial import WORDS
from tests.soak.visitor import Visitor, given_cookie

PAGES = ("", "head", "predict", "what_if")


def visit(n: int, port: int, cookie: str, until: float, seconds: list[float]) -> None:
    """One visitor who never rests; how long each page took."""
    rng = Random(n)
    visitor = Visitor(port, cookie=cookie)
    while time.time() < until:
        started = time.perf_counter()
        text = " ".join(rng.choices(WORDS, k=10))
        visitor.open(rng.choice(PAGES), {"text": text, "layer": 1, "head": 1})
        seconds.append(time.perf_counter() - started)
    visitor.close()


def own(pid: int) -> list[int]:
    """MB that would be free if a process ended, of each that serves pages."""
    return [round(one.memory_full_info().uss / 1e6) for one in apps(pid)]


def busy(pid: int) -> float:
    """Seconds that processors worked for a server so far, its proxy included."""
    server = psutil.Process(pid)
    times = [one.cpu_times() for one in (server, *server.children())]
    return sum(one.user + one.system for one in times)


def measure(workers: int, visitors: int, seconds: float, log: Path) -> dict[str, object]:
    """Pages a second by so many workers."""
    with server({}, log, workers) as (port, pid):
        cookies: set[str] = set()
        while len(cookies) < workers:
            cookies.add(given_cookie(port))
        for warm in (False, True):
            took: list[list[float]] = [[] for _ in range(visitors)]
            until = time.time() + (seconds if warm else 10)
            threads = [
                Thread(target=visit, args=(n, port, sorted(cookies)[n % workers], until, took[n]))
                for n in range(visitors)
            ]
            started, worked = time.time(), busy(pid)
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        every = [one for each in took for one in each]
        return {
            "workers": workers,
            "pages a second": round(len(every) / (time.time() - started), 2),
            "median s": round(statistics.median(every), 2),
            "processor s a page": round((busy(pid) - worked) / len(every), 3),
            "MB of its own, each process": own(pid),
        }


def main() -> int:
    """Measure each number of workers, and say how many times the first's pages each made."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.soak.throughput")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--visitors", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        found = [measure(n, arguments.visitors, arguments.seconds, log) for n in arguments.workers]
    print(json.dumps({"load": os.getloadavg(), "found": found}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

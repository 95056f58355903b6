"""The workers: processes that each serve the pages, forked from one that has loaded all they share.

A run is kept by the worker that made it. A visitor stays with one worker, so a page's runs are
where they are asked for; and to hand one to another process takes about as long as to make it again
(``docs/benchmarks.md`` has the numbers).
"""

from __future__ import annotations

import gc
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from threading import Thread
from typing import Any

import torch

from gpt2viz import settings
from gpt2viz.model import ahead
from gpt2viz.model.memory import total_memory
from gpt2viz.serving import health, logs, pages, proxy, supervisor
from gpt2viz.serving.supervisor import Part

#: What an app process imports that a page then finds in memory: Streamlit's server, too.
_SHARED = ("streamlit.web.cli", "streamlit.web.bootstrap", "uvicorn", "pandas", "pyarrow")
_LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class Served:
    """The owner's settings of a server.

    Visitors reach it at ``host`` and ``port`` and may call it by ``names``; ``health`` is
    where its metrics are, ``given`` the app's arguments, such as the models, which are ``folders``
    by name. Pages of ``frames`` may show it within theirs.
    """

    workers: int
    host: str
    port: int
    names: Sequence[str]
    health: tuple[str, int]
    given: Sequence[str]
    folders: Mapping[str, Path]
    frames: Sequence[str] = ()


def serve(served: Served, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. Raises ``ServeError`` where there is no proxy."""
    program = proxy.find()
    threads = max(1, torch.get_num_threads() // served.workers)
    for name in (*pages.HEAVY, *_SHARED):
        import_module(name)
    ahead.load(served.folders, total_memory() // 2)
    # What is there now stays: to look through it for garbage would copy it into each worker.
    gc.collect()
    gc.freeze()
    starts, silence = RawArray("L", served.workers), RawArray("d", served.workers)
    ports = _free_ports(served.workers)
    configured = proxy.configuration(
        served.host,
        served.port,
        ports,
        served.health[1],
        secrets.token_hex(16),
        frames=served.frames,
    )
    parts = [
        *(
            Part(f"worker {n}", partial(_work, served, port, threads), partial(_told, silence, n))
            for n, port in enumerate(ports, 1)
        ),
        Part("health", partial(_attend, *served.health, ports, starts, silence)),
        Part("proxy", partial(proxy.become, program, configured)),
    ]

    def started(part: Part) -> None:
        if (n := parts.index(part)) < served.workers:
            starts[n] = part.starts
            silence[n] = supervisor.PATIENCE - supervisor.FIRST  # it has that much longer to begin

    supervisor.run(parts, tell, started)


def _work(served: Served, port: int, threads: int) -> None:
    """One worker: it has its share of the processors and of what may be kept."""
    torch.set_num_threads(threads)
    logs.leave_texts_out()
    os.environ[settings.WORKERS_VARIABLE] = str(served.workers)
    config = pages.streamlit_settings(_LOCAL, port, pages.answers(served.host, served.names))
    pages.open_app(config, served.given)


def _told(silence: Sequence[float], n: int) -> float:
    """Seconds for which worker ``n``, from 1, has answered nothing to ``health``."""
    return silence[n - 1]


def _attend(
    host: str, port: int, ports: Sequence[int], starts: Sequence[int], silence: Any
) -> None:
    asked = health.Health(ports, starts)
    Thread(target=health.listen_for_ever, args=(asked, silence), daemon=True).start()
    health.serve(host, port, asked)


def _free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((_LOCAL, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()

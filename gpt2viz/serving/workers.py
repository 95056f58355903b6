"""The workers: processes that serve the pages, forked from one that has loaded what they share.

A run is cached by the worker that made it, and a visitor stays with one worker: passing a run to
another process takes about as long as computing it again (see ``docs/benchmarks.md``).
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
from gpt2viz.model import preload
from gpt2viz.model.memory import total_memory
from gpt2viz.serving import health, logs, pages, proxy, supervisor
from gpt2viz.serving.supervisor import Process

#: Modules imported before the fork, for pages and for Streamlit's server.
_SHARED = ("streamlit.web.cli", "streamlit.web.bootstrap", "uvicorn", "pandas", "pyarrow")
_LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class ServerSettings:
    """The owner's settings of a server.

    Visitors reach it at ``host`` and ``port``, under ``names``; ``health`` is the
    address of its metrics, ``given`` the app's arguments, such as the models, which are ``folders``
    by name. Pages of ``frames`` may embed it.
    """

    workers: int
    host: str
    port: int
    names: Sequence[str]
    health: tuple[str, int]
    given: Sequence[str]
    folders: Mapping[str, Path]
    frames: Sequence[str] = ()


def serve(server: ServerSettings, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. Raises ``ServeError`` if there is no proxy."""
    program = proxy.find()
    threads = max(1, torch.get_num_threads() // server.workers)
    for name in (*pages.HEAVY, *_SHARED):
        import_module(name)
    preload.load(server.folders, total_memory() // 2)
    # A garbage collection would copy the shared memory into each worker.
    gc.collect()
    gc.freeze()
    starts, silence = RawArray("L", server.workers), RawArray("d", server.workers)
    ports = _free_ports(server.workers)
    caddyfile = proxy.configuration(
        server.host,
        server.port,
        ports,
        server.health,
        secrets.token_hex(16),
        frames=server.frames,
        proxies=settings.proxies(),
    )
    silences = [partial(silence.__getitem__, n) for n in range(server.workers)]
    processes = [
        *(
            Process(f"worker {n + 1}", partial(_work, server, port, threads), silences[n])
            for n, port in enumerate(ports)
        ),
        Process("health", partial(_run_health, *server.health, ports, starts, silence)),
        Process("proxy", partial(proxy.become, program, caddyfile)),
    ]

    def record_start(process: Process) -> None:
        if (n := processes.index(process)) < server.workers:
            starts[n] = process.starts
            silence[n] = supervisor.PATIENCE - supervisor.FIRST  # extra time to start

    supervisor.run(processes, tell, record_start)


def _work(server: ServerSettings, port: int, threads: int) -> None:
    """Run one worker, with its share of the processors and of the cache limits."""
    torch.set_num_threads(threads)
    logs.leave_texts_out()
    os.environ[settings.WORKERS_VARIABLE] = str(server.workers)
    os.environ["FORWARDED_ALLOW_IPS"] = ",".join((_LOCAL, *settings.proxies()))  # Uvicorn's
    config = pages.streamlit_settings(_LOCAL, port, pages.answers(server.host, server.names))
    pages.open_app(config, server.given)


def _run_health(
    host: str, port: int, ports: Sequence[int], starts: Sequence[int], silence: Any
) -> None:
    monitor = health.Health(ports, starts, silence)
    Thread(target=health.listen_for_ever, args=(monitor,), daemon=True).start()
    health.serve(host, port, monitor)


def _free_ports(count: int) -> list[int]:
    """Free ports of this machine."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((_LOCAL, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()

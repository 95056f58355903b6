"""Numbers of this process for whoever watches the server, at Streamlit's own ``/_stcore/metrics``.

Visitors, runs, pages that wait for one, memory: counts and bytes, and nothing that anybody typed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from streamlit import runtime

from gpt2viz.app import compat

#: Seconds that a server may take to start.
LONGEST = 60.0

_turn = threading.Lock()
_runs = 0
_waiting = 0


def ran() -> None:
    """Count a run of a model."""
    global _runs
    with _turn:
        _runs += 1


@contextmanager
def waiting() -> Iterator[None]:
    """Count a page that waits for a run, for as long as it does."""
    global _waiting
    with _turn:
        _waiting += 1
    try:
        yield
    finally:
        with _turn:
            _waiting -= 1


def read() -> list[compat.Gauge]:
    """The numbers as they are now."""
    here, own = compat.connected(), own_memory()
    return [
        compat.Gauge("gpt2viz_visitors", "gauge", "Browsers that are connected.", here),
        compat.Gauge("gpt2viz_runs", "counter", "Runs of a model that pages asked for.", _runs),
        compat.Gauge("gpt2viz_waiting", "gauge", "Pages that wait for a turn or a run.", _waiting),
        compat.Gauge("gpt2viz_memory_bytes", "gauge", "Memory of this process alone.", own),
    ]


def own_memory() -> int:
    """Bytes that would be free if this process ended: what it shares with others isn't counted."""
    return int(psutil.Process().memory_full_info().uss)


def offer() -> None:
    """Show the numbers as soon as this process serves pages; returns at once."""
    threading.Thread(target=_offer, daemon=True).start()


def _offer() -> None:
    until = time.monotonic() + LONGEST
    while not (runtime.exists() and compat.show_gauges(read)) and time.monotonic() < until:
        time.sleep(0.05)

"""This process's metrics: visitors, runs, waiting pages, memory.

None of them reveals what a user typed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

_lock = threading.Lock()
_counts = {"visitors": 0, "runs": 0, "waiting": 0, "pages": 0}


def count(name: str, by: int = 1) -> None:
    """Add to one of the counts: "visitors", "runs", "waiting" or "pages"."""
    with _lock:
        _counts[name] += by


@contextmanager
def count_while(name: str) -> Iterator[None]:
    """Count something for as long as it lasts."""
    count(name)
    try:
        yield
    finally:
        count(name, -1)


def get_count(name: str) -> int:
    """Return a count."""
    return _counts[name]


def process_memory() -> int:
    """Return the bytes that would be freed if this process ended; shared memory isn't counted."""
    return int(psutil.Process().memory_full_info().uss)


def snapshot() -> dict[str, int]:
    """Return the metrics, by the names that ``serving.health`` publishes."""
    return {
        "gpt2viz_visitors": get_count("visitors"),
        "gpt2viz_runs_total": get_count("runs"),
        "gpt2viz_waiting": get_count("waiting"),
        "gpt2viz_memory_bytes": process_memory(),
    }

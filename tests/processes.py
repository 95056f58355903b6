"""Run part of a test in its own process, which may be killed, stopped or find the disk full."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path


def run_fork(act: Callable[..., object], *arguments: object, log: Path | None = None) -> int | None:
    """Call ``act`` in a fork of this process; the exit code, -9 if it was killed.

    Its output goes to ``log``. A fresh process would take seconds to load PyTorch.
    """

    def run() -> None:
        if log:
            sys.stdout = log.open("w")
        act(*arguments)

    process = get_context("fork").Process(target=run)
    process.start()
    process.join()
    return process.exitcode


def is_running(group: int) -> bool:
    """True while a process of a group still runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def has_ended(group: int, seconds: float = 30) -> bool:
    """Wait until no process of a group runs; False if one still does after so many seconds."""
    until = time.monotonic() + seconds
    while is_running(group) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_running(group)


@contextmanager
def full_disk(free: int = 3000) -> Iterator[None]:
    """No file can grow beyond so many bytes: to a program this looks like a full disk.

    Python writes no bytecode meanwhile: truncated files would break all later processes.
    """
    before, compiled = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = compiled

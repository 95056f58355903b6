"""Run a test's acts in a process of its own: it is killed, is stopped, finds a disk full."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path


def forked(act: Callable[..., object], *arguments: object, log: Path | None = None) -> int | None:
    """The exit code of a copy of this process that does only this: -9 where it was killed.

    What it prints is found in ``log``. A fresh process would take seconds to load PyTorch.
    """

    def run() -> None:
        if log:
            sys.stdout = log.open("w")
        act(*arguments)

    process = get_context("fork").Process(target=run)
    process.start()
    process.join()
    return process.exitcode


def is_there(group: int) -> bool:
    """True while a process of a group still runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def ends(group: int, seconds: float = 30) -> bool:
    """Wait until no process of a group runs; whether that is so within so many seconds."""
    until = time.monotonic() + seconds
    while is_there(group) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_there(group)


@contextmanager
def full_disk(free: int = 3000) -> Iterator[None]:
    """No file can grow beyond so many bytes: to a program the same as a disk without room.

    Python would keep what it compiles meanwhile, cut off, for all later processes: it keeps none.
    """
    before, compiled = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = compiled

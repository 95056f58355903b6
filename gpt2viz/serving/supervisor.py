"""Processes that belong together: one that ends or hangs is started again, and all end together.

Only for Linux: its signals are waited for in one place, and the kernel ends every process whose
supervisor is gone, however it went.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Seconds before a process that ended is started again: the first time, and at most.
SOONEST, LATEST = 0.5, 30.0
#: Seconds for which a process must have lasted for its end to count as the first.
STEADY = 60.0
#: Seconds without an answer after which a process is killed: before its first one, and later.
FIRST, PATIENCE = 60.0, 15.0
#: Seconds that processes have to end by themselves.
GRACE = 10.0

_STOP = (signal.SIGTERM, signal.SIGINT)
_HEARD = (*_STOP, signal.SIGCHLD)
_PR_SET_PDEATHSIG = 1


@dataclass
class Part:
    """A process that does ``work``, which may replace the process by another program.

    ``silent`` tells for how many seconds it has answered nothing, where somebody asks it; one that
    has still to begin is told by less than 0. ``starts`` counts how often it was started; a ``pid``
    of 0 stands for none.
    """

    name: str
    work: Callable[[], object]
    silent: Callable[[], float] = lambda: 0.0
    pid: int = 0
    starts: int = 0
    _began: float = 0.0
    _due: float = 0.0
    _wait: float = 0.0

    def start(self, now: float) -> None:
        """Fork it off, if it isn't there and it is time; ``now`` is in seconds."""
        if not self.pid and now >= self._due:
            self.pid, self._began = _fork(self.work), now
            self.starts += 1

    def hangs(self, now: float) -> bool:
        """Whether it is there and has long been silent; one that has just begun hasn't."""
        return bool(self.pid) and min(now - self._began, self.silent()) >= PATIENCE

    def ended(self, now: float) -> float:
        """Its process is gone: how many seconds to wait for the next."""
        lasted = now - self._began
        self._wait = SOONEST if lasted > STEADY else min(max(2 * self._wait, SOONEST), LATEST)
        self.pid, self._due = 0, now + self._wait
        return self._wait


def run(
    parts: Sequence[Part],
    tell: Callable[[str], None],
    started: Callable[[Part], None] = lambda part: None,
) -> None:
    """Keep every part alive until this process gets SIGTERM or SIGINT; then none is left.

    A part that hangs is killed. ``tell`` gets a line for that and for each end, ``started`` a part
    for each start. The process must have one thread: others wouldn't be there in the parts.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    try:
        while True:
            for part in parts:
                before = part.starts
                part.start(time.monotonic())
                if part.starts > before:
                    started(part)
            heard = signal.sigtimedwait(_HEARD, 0.2)
            if heard and heard.si_signo in _STOP:
                return
            for part, status in _reap(parts):
                wait = part.ended(time.monotonic())
                tell(f"{part.name} ended ({_how(status)}); it is started again in {wait:g} s")
            for part in parts:
                if part.hangs(time.monotonic()):
                    tell(
                        f"{part.name} has answered nothing for {PATIENCE:g} s or more; it is killed"
                    )
                    os.kill(part.pid, signal.SIGKILL)
    finally:
        _stop(parts)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)


def _reap(parts: Sequence[Part]) -> list[tuple[Part, int]]:
    """The parts whose processes ended, with the status of each."""
    gone = []
    for part in parts:
        if part.pid:
            pid, status = os.waitpid(part.pid, os.WNOHANG)
            if pid:
                gone.append((part, status))
    return gone


def _how(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _stop(parts: Sequence[Part]) -> None:
    """End what is there: asked first, and killed after ``GRACE`` seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + GRACE
        for part in parts:
            if part.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(part.pid, number)
        while any(part.pid for part in parts) and time.monotonic() < until:
            for part, _ in _reap(parts):
                part.pid = 0
            time.sleep(0.02)


def _fork(work: Callable[[], object]) -> int:
    """The id of a new process that does ``work``, and nothing else of what this one would do."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _end_with(parent)
        for number in _STOP:  # what the command does then is its own business
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
        work()
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0 if ending.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_with(parent: int) -> None:
    """Have the kernel end this process when its parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it went before that was said
        os._exit(1)

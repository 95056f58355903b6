"""A supervisor of processes: one that ends or hangs is restarted, and all end together.

Only for Linux: signals are awaited in one place, and the kernel ends every process whose
supervisor is gone, for any reason.
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

#: Seconds before a process that ended is restarted: the first time, and at most.
SOONEST, LATEST = 0.5, 30.0
#: Seconds after which a process's end counts as its first.
STEADY = 60.0
#: Seconds without an answer after which a process is killed: before its first one, and later.
FIRST, PATIENCE = 60.0, 15.0
#: Seconds for processes to end by themselves.
GRACE = 10.0

_STOP = (signal.SIGTERM, signal.SIGINT)
_AWAITED = (*_STOP, signal.SIGCHLD)
_PR_SET_PDEATHSIG = 1


@dataclass
class Process:
    """A process that does ``work``, which may replace the process by another program.

    ``silent`` returns the seconds since its last answer, if it is polled; below 0 while it
    is starting. ``starts`` counts its starts; a ``pid`` of 0 means that it isn't running.
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
        """Fork it, if it isn't running and is due; ``now`` is in seconds."""
        if not self.pid and now >= self._due:
            self.pid, self._began = _fork(self.work), now
            self.starts += 1

    def hangs(self, now: float) -> bool:
        """True if it runs and has been silent for too long, and hasn't just been started."""
        return bool(self.pid) and min(now - self._began, self.silent()) >= PATIENCE

    def record_end(self, now: float) -> float:
        """Record its end, and return the seconds until its restart."""
        lasted = now - self._began
        self._wait = SOONEST if lasted > STEADY else min(max(2 * self._wait, SOONEST), LATEST)
        self.pid, self._due = 0, now + self._wait
        return self._wait


def run(
    processes: Sequence[Process],
    tell: Callable[[str], None],
    started: Callable[[Process], None] = lambda process: None,
) -> None:
    """Keep all alive until this process gets SIGTERM or SIGINT; then end them.

    One that hangs is killed. ``tell`` gets a line for that and for each end, ``started`` is called
    at each start. This process must have one thread, as a fork keeps only that.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    try:
        while True:
            for process in processes:
                before = process.starts
                process.start(time.monotonic())
                if process.starts > before:
                    started(process)
            received = signal.sigtimedwait(_AWAITED, 0.2)
            if received and received.si_signo in _STOP:
                return
            for process, status in _reap(processes):
                wait = process.record_end(time.monotonic())
                tell(f"{process.name} ended ({_ending(status)}); it is started again in {wait:g} s")
            for process in processes:
                if process.hangs(time.monotonic()):
                    tell(f"{process.name} hasn't answered for {PATIENCE:g} s or more; it is killed")
                    os.kill(process.pid, signal.SIGKILL)
    finally:
        _stop(processes)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)


def _reap(processes: Sequence[Process]) -> list[tuple[Process, int]]:
    """The processes that ended, with their statuses."""
    gone = []
    for process in processes:
        if process.pid:
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                gone.append((process, status))
    return gone


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _stop(processes: Sequence[Process]) -> None:
    """End all running processes: by SIGTERM, and after ``GRACE`` seconds by SIGKILL."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + GRACE
        for process in processes:
            if process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signum)
        while any(process.pid for process in processes) and time.monotonic() < until:
            for process, _ in _reap(processes):
                process.pid = 0
            time.sleep(0.02)


def _fork(work: Callable[[], object]) -> int:
    """Fork a process that does ``work`` and then exits, and return its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _end_with(parent)
        for number in _STOP:  # the work may set handlers of its own
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
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
    """Make the kernel end this process when its parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it was gone before that call
        os._exit(1)

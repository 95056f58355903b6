"""A process that ends is restarted, and all end with their supervisor, even if it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from select import select

import pytest

from gpt2viz.serving.supervisor import FIRST, LATEST, PATIENCE, SOONEST, STEADY, Process

ROOT = Path(__file__).parents[2]

#: Three stand-ins for workers: one that stays, one that becomes another program, one that ends
#: only when it is killed.
STAND_INS = """
import os, signal, sys, time
from gpt2viz.serving import supervisor
from gpt2viz.serving.supervisor import Process

def stubborn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(100)

supervisor.GRACE = 0.3
parts = [
    Process("stays", lambda: time.sleep(100)),
    Process("becomes", lambda: os.execvp("sleep", ["sleep", "100"])),
    Process("stubborn", stubborn),
]
supervisor.run(
    parts,
    lambda line: print(line, flush=True),
    lambda process: print("started", process.name, process.pid, flush=True),
)
"""


class Group:
    """A supervisor with stand-ins for workers, and its output."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.process = subprocess.Popen(
            [sys.executable, "-c", STAND_INS], cwd=ROOT, stdout=subprocess.PIPE, bufsize=0
        )

    def line(self) -> list[str]:
        assert self.process.stdout
        assert select([self.process.stdout], [], [], 10)[0], "nothing more was said"
        return self.process.stdout.readline().decode().split()

    def started(self) -> dict[str, int]:
        """The process ids of the next three processes that are started, by name."""
        results = [self.line() for _ in range(3)]
        assert {words[0] for words in results} == {"started"}
        self.pids = [int(pid) for *_, pid in results]
        return {name: int(pid) for _, name, pid in results}


def within(seconds: float, expected: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not (result := expected()) and time.monotonic() < until:
        time.sleep(0.02)
    return result


def is_running(pid: int) -> bool:
    """True while a process runs; a zombie doesn't."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture
def group() -> Iterator[Group]:
    if sys.platform != "linux":
        pytest.skip("only Linux has what it waits with")
    result = Group()
    yield result
    result.process.kill()
    result.process.wait()
    for pid in filter(is_running, result.pids):  # left by a failure, and they keep the pipe open
        os.kill(pid, signal.SIGKILL)
    assert result.process.stdout
    result.process.stdout.close()


def test_killed_processes_are_restarted_and_a_stop_ends_all(group: Group) -> None:
    pids = group.started()
    assert all(map(is_running, pids.values()))
    for name in ("stays", "becomes"):
        os.kill(pids[name], signal.SIGKILL)
        assert " ".join(group.line()) == f"{name} ended (SIGKILL); it is started again in 0.5 s"
        _, again, pid = group.line()
        assert again == name
        assert int(pid) != pids[name]
        pids[name] = int(pid)
    os.kill(group.process.pid, signal.SIGTERM)
    assert group.process.wait(10) == 0
    assert not [name for name, pid in pids.items() if is_running(pid)]


def test_a_killed_supervisor_leaves_no_processes(group: Group) -> None:
    pids = group.started()
    os.kill(group.process.pid, signal.SIGKILL)
    for name in ("stays", "becomes"):
        assert within(30, lambda name=name: not is_running(pids[name])), name  # type: ignore[misc]
    with suppress(ProcessLookupError):  # it may not yet ignore SIGTERM
        os.kill(pids["stubborn"], signal.SIGKILL)


def test_restarts_of_a_failing_process_are_delayed_longer() -> None:
    part, now, waits = Process("broken", print), 1000.0, []
    for _ in range(8):
        part._began = now
        waits.append(part.record_end(now + 1))
        now += 1
    assert waits == [SOONEST, 1, 2, 4, 8, 16, LATEST, LATEST]
    part._began = now
    assert part.record_end(now + STEADY + 1) == SOONEST


#: A stand-in that is reported as silent for 9 s at its first start, and as answering at its second.
MUTE = """
import time
from gpt2viz.serving import supervisor
supervisor.PATIENCE = 0.3
part = supervisor.Process("mute", lambda: time.sleep(100), lambda: 9.0 if part.starts == 1 else 0.0)
supervisor.run([part], lambda line: print(line, flush=True))
"""


def test_a_hung_process_is_restarted() -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux has what it waits with")
    command = [sys.executable, "-c", MUTE]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout
        for text in (
            "mute hasn't answered for 0.3 s or more; it is killed",
            "mute ended (SIGKILL); it is started again in 0.5 s",
        ):
            assert select([process.stdout], [], [], 10)[0]
            assert process.stdout.readline().decode().strip() == text
        assert not select([process.stdout], [], [], 1.2)[0]  # it answers, and nothing is printed
        process.terminate()
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("pid", "age", "silent", "hangs"),
    [
        (7, PATIENCE, PATIENCE, True),
        (7, FIRST, PATIENCE - 1, False),
        (7, PATIENCE - 1, 900.0, False),
        (0, 900.0, 900.0, False),
    ],
    ids=["silent for long", "not yet", "just started", "not running"],
)
def test_hangs(pid: int, age: float, silent: float, hangs: bool) -> None:
    assert Process("worker", print, lambda: silent, pid, _began=1000.0).hangs(1000 + age) is hangs

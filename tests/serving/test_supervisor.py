"""A process that ends is started again, and all end with their supervisor, however it goes."""

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

#: Three parts in place of workers: one that stays, one that turns into another program, one that
#: ends only when it is killed.
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
    """A supervisor with stand-ins for workers, and what it has said."""

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
        """The processes of the next three parts that are started, by name."""
        results = [self.line() for _ in range(3)]
        assert {words[0] for words in results} == {"started"}
        self.pids = [int(pid) for *_, pid in results]
        return {name: int(pid) for _, name, pid in results}


def within(seconds: float, expected: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not (result := expected()) and time.monotonic() < until:
        time.sleep(0.02)
    return result


def is_there(pid: int) -> bool:
    """True while a process lives; one that has ended but isn't yet buried doesn't."""
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
    for pid in filter(is_there, result.pids):  # a fault left them, and they hold on to the pipe
        os.kill(pid, signal.SIGKILL)
    assert result.process.stdout
    result.process.stdout.close()


def test_what_dies_is_started_again_and_a_stop_leaves_nothing(group: Group) -> None:
    pids = group.started()
    assert all(map(is_there, pids.values()))
    for name in ("stays", "becomes"):
        os.kill(pids[name], signal.SIGKILL)
        assert " ".join(group.line()) == f"{name} ended (SIGKILL); it is started again in 0.5 s"
        _, again, pid = group.line()
        assert again == name
        assert int(pid) != pids[name]
        pids[name] = int(pid)
    os.kill(group.process.pid, signal.SIGTERM)
    assert group.process.wait(10) == 0
    assert not [name for name, pid in pids.items() if is_there(pid)]


def test_a_supervisor_that_is_killed_leaves_nobody_who_would_listen(group: Group) -> None:
    pids = group.started()
    os.kill(group.process.pid, signal.SIGKILL)
    for name in ("stays", "becomes"):
        assert within(30, lambda name=name: not is_there(pids[name])), name  # type: ignore[misc]
    with suppress(ProcessLookupError):  # it hasn't yet put its fingers in its ears
        os.kill(pids["stubborn"], signal.SIGKILL)


def test_who_keeps_dying_is_waited_for_longer() -> None:
    part, now, waits = Process("broken", print), 1000.0, []
    for _ in range(8):
        part._began = now
        waits.append(part.record_end(now + 1))
        now += 1
    assert waits == [SOONEST, 1, 2, 4, 8, 16, LATEST, LATEST]
    part._began = now
    assert part.record_end(now + STEADY + 1) == SOONEST


#: A stand-in that answers nothing, as the desk would tell; the second time it is well.
MUTE = """
import time
from gpt2viz.serving import supervisor
supervisor.PATIENCE = 0.3
part = supervisor.Process("mute", lambda: time.sleep(100), lambda: 9.0 if part.starts == 1 else 0.0)
supervisor.run([part], lambda line: print(line, flush=True))
"""


def test_who_hangs_is_killed_and_started_again() -> None:
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
        assert not select([process.stdout], [], [], 1.2)[0]  # it is well, and nothing is said
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
    ids=["silent for long", "not yet", "it has just begun", "it isn't there"],
)
def test_who_hangs(pid: int, age: float, silent: float, hangs: bool) -> None:
    assert Process("worker", print, lambda: silent, pid, _began=1000.0).hangs(1000 + age) is hangs

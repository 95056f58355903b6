"""Threads sleep while they wait: that must be settled before torch is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WATCH = """
import importlib.abc, os, sys
class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("OMP_WAIT_POLICY"), flush=True)
            os._exit(0)  # it is settled: torch itself would take seconds
sys.meta_path.insert(0, Watch())
import gpt2viz
gpt2viz.load_model
"""


@pytest.mark.parametrize(("given", "expected"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "A"}, "A")])
def test_how_threads_wait_is_set_before_torch(given: dict[str, str], expected: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"} | given
    command = [sys.executable, "-c", WATCH]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [expected]


OVERLAP = """
from threading import Event, Thread
import torch
from gpt2viz.threads import threads
torch.set_num_threads(3)
first, second = [Event(), Event()], [Event(), Event()]
def hold(inside, leave):
    with threads(1):
        inside.set()
        leave.wait()
one, other = Thread(target=hold, args=first), Thread(target=hold, args=second)
one.start(); first[0].wait()
other.start(); second[0].wait()
first[1].set(); one.join()
second[1].set(); other.join()
seen = []
later = Thread(target=lambda: seen.append(torch.get_num_threads()))
later.start(); later.join()
print(torch.get_num_threads(), *seen)
"""


def test_runs_that_overlap_leave_the_threads_as_they_were() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OVERLAP], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["3", "3"]

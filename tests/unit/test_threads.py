"""What must be settled before torch is loaded: threads sleep while they wait, pages are large."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import pytest
import torch

from gpt2viz.model.threads import ONE_THREAD, threads

ROOT = Path(__file__).parents[2]

WATCH = """
import importlib.abc, os, sys
class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(*map(os.environ.get, ("OMP_WAIT_POLICY", "THP_MEM_ALLOC_ENABLE")), flush=True)
            os._exit(0)  # it is settled: torch itself would take seconds
sys.meta_path.insert(0, Watch())
import gpt2viz
gpt2viz.load_model
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, ["PASSIVE", "1"]), ({"OMP_WAIT_POLICY": "A", "THP_MEM_ALLOC_ENABLE": "0"}, ["A", "0"])],
)
def test_it_is_set_before_torch_unless_the_owner_did(
    given: dict[str, str], expected: list[str]
) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "THP_"))}
    environment = kept | {"PYTHONPATH": str(ROOT)} | given
    command = [sys.executable, "-c", WATCH]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_runs_that_overlap_leave_the_threads_as_they_were() -> None:
    entered, leave = (Event(), Event()), (Event(), Event())

    def hold(n: int) -> None:
        with threads(1):
            entered[n].set()
            leave[n].wait(60)

    runs = [Thread(target=hold, args=(n,)) for n in range(2)]
    for n, run in enumerate(runs):
        run.start()
        assert entered[n].wait(60)
    for n, run in enumerate(runs):
        leave[n].set()
        run.join()
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result() == torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_a_small_run_takes_one_thread_and_a_large_one_all() -> None:
    for multiplications, taken in ((ONE_THREAD, 1), (ONE_THREAD + 1, 3)):
        with threads(multiplications):
            assert torch.get_num_threads() == taken
        assert torch.get_num_threads() == 3

"""Five hundred spoiled checkpoints: each runs or is refused by name, in bounded memory."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.files import bases
from tests.fuzz.spoil import WAYS, spoil

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the memory")
def test_five_hundred_spoiled_checkpoints() -> None:
    """In a process of its own, so that one that takes it down, or all memory, is a failure too."""
    command = [sys.executable, "-m", "tests.fuzz", "--count", "504", "--limit-mb", "500"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    (last,) = run.stdout.splitlines()
    counts = {what: int(n) for n, what in (part.split(" ", 1) for part in last.split(", "))}
    assert sum(counts.values()) == 504
    assert counts["refused"] > 350
    assert counts["loaded"] > 25  # a spoiled file can still be a whole model
    assert not (ROOT / "PICKLE_RAN").exists()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the memory")
def test_files_that_are_read_one_by_one() -> None:
    """Traces, sessions, torch's files and pickles: one sentence each, in time and memory."""
    command = [sys.executable, "-m", "tests.fuzz.one_by_one", "--limit-mb", "500"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stdout + run.stderr
    refused, whole = map(int, run.stdout.removesuffix(" refused\n").split(" of "))
    assert whole - 30 < refused < whole  # what was spoiled can still be whole
    assert not (ROOT / "PICKLE_RAN").exists()


def test_the_same_seed_spoils_alike_and_every_way_is_tried(tmp_path: Path) -> None:
    whole = bases(tmp_path)[0]
    n = random.Random(0).randrange(1000)
    first, again = dict(whole), dict(whole)
    assert spoil(first, "1", n)[0] == spoil(again, "1", n)[0]
    assert first == again
    tried = {spoil(dict(whole), "1", n)[0].split(" + ")[0] for n in range(len(WAYS))}
    assert tried == {way.__name__ for way in WAYS}

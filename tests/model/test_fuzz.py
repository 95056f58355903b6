"""Spoiled files: each runs or is refused by name, in bounded memory. `make fuzz` tries more."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest

from tests.fuzz import one_by_one
from tests.fuzz.__main__ import main as checkpoints
from tests.fuzz.files import bases
from tests.fuzz.spoil import WAYS, spoil
from tests.processes import forked


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the memory")
@pytest.mark.slow
def test_what_is_spoiled_runs_or_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In processes of their own, so that one that takes it down, or all memory, is a failure too.

    Checkpoints, each way on each kind; then traces, sessions, torch's files and pickles.
    """
    monkeypatch.chdir(tmp_path)
    counts = []
    for begin, *given in (
        (checkpoints, "--count", str(9 * len(WAYS)), "--limit-mb", "500"),
        (one_by_one.main, "--limit-mb", "500"),
    ):
        said = tmp_path / "said.txt"
        assert forked(lambda: sys.exit(begin(given)), said=said) == 0, said.read_text()  # noqa: B023
        counts.append([int(n) for n in re.findall(r"\d+", said.read_text().splitlines()[-1])])
    (*loaded, refused), (bad, of) = counts
    assert sum(loaded) + refused == 9 * len(WAYS)
    assert refused > 2 * sum(loaded) > 0  # a spoiled file can still be a whole model
    assert of - 30 < bad < of
    assert not Path("PICKLE_RAN").exists()


def test_the_same_seed_spoils_alike_and_every_way_is_tried(tmp_path: Path) -> None:
    whole = bases(tmp_path)[0]
    n = random.Random(0).randrange(1000)
    first, again = dict(whole), dict(whole)
    assert spoil(first, "1", n)[0] == spoil(again, "1", n)[0]
    assert first == again
    tried = {spoil(dict(whole), "1", n)[0].split(" + ")[0] for n in range(len(WAYS))}
    assert tried == {way.__name__ for way in WAYS}

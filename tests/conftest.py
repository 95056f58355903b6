"""Fixtures that several kinds of test share."""

from __future__ import annotations

import gc
import os
import re
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

import gpt2viz
from gpt2viz.heads import SCORES
from gpt2viz.run.edit_kinds import ADDED_KINDS
from gpt2viz.settings import CACHE_VARIABLE, PACKAGED_VARIABLE
from tests.bundled import bundled_model
from tests.checkpoints import write_checkpoint

# No time limit for an example: a test checks what is right, not how fast this machine is.
settings.register_profile("gpt2viz", deadline=None)
settings.load_profile("gpt2viz")

# On a busy machine two threads wait for each other far longer than the small models compute.
torch.set_num_threads(1)

# Some virtual machines claim to have AMX, and crash on its instructions. oneDNN reads this before
# its first product of bfloat16 numbers, which only training makes.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# Results cached by an earlier run of the tests must not replace what is tested.
os.environ[CACHE_VARIABLE] = ""
# Hide SmolLM2, which only its own tests need.
os.environ[PACKAGED_VARIABLE] = ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the tests that wait for other processes, so that they overlap with computation.

    With the longest files last, one worker would be busy alone at the end.
    """
    files: tuple[dict[Path, int], dict[Path, int]] = ({}, {})
    for item in items:
        waits = item.path.parent.name in ("browser", "serving")
        files[waits].setdefault(item.path, len(files[waits]))
    order = files[0] | files[1]
    items.sort(key=lambda item: (order[item.path], str(item.path)))


def pytest_collection_finish() -> None:
    """Freeze imported objects: collecting them would take a tenth of the time."""
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give one worker all tests of a file, and the files that need transformers, a slow import."""
    from xdist.scheduler import LoadFileScheduling

    def file_of(nodeid: str) -> str:
        file = nodeid.split("::")[0]
        text = (config.rootpath / file).read_text("utf-8")
        return "transformers" if re.search("from transformers|transformers_model", text) else file

    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = file_of
    return scheduler


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seconds of set-up, call and teardown by room."""
    seconds: defaultdict[str, float] = defaultdict(float)
    count: Counter[str] = Counter()
    for report in (r for reports in terminalreporter.stats.values() for r in reports):
        if type(report) is pytest.TestReport:  # a subtest's time is part of its test's
            room = Path(report.nodeid.split("::")[0]).parent.name
            seconds[room] += report.duration
            count[room] += report.when == "call"
    terminalreporter.section("time by room")
    for room, total in sorted(seconds.items(), key=lambda item: -item[1]):
        terminalreporter.line(f"{total:7.1f} s  {count[room]:5}  {room}")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random checkpoint: 3 layers of 4 heads, C = 24, 24 positions."""
    return write_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> gpt2viz.Model:
    return gpt2viz.load_model(tiny_folder)


@pytest.fixture(scope="session")
def model() -> gpt2viz.Model:
    """The bundled model; some files override it."""
    return bundled_model()


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget after the test whatever it registers."""
    monkeypatch.setattr(SCORES, "_known", dict(SCORES))
    monkeypatch.setattr(ADDED_KINDS, "_known", dict(ADDED_KINDS))


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A tiny checkpoint of the test's own, to spoil."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "model"))

"""Another model's run is recognised by its weights' checksum, computed once and only if needed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gpt2viz
from gpt2viz.analysis.attribution import difference_from_run, key_norm, value_weighted
from gpt2viz.model import fingerprint
from tests.checkpoints import write_checkpoint

IDS = [5, 300, 17]
ANALYSES: dict[str, Callable[[gpt2viz.Model, gpt2viz.Trace], Any]] = {
    "contributions": lambda model, trace: gpt2viz.contributions(model, trace, 7),
    "logit lens": gpt2viz.logit_lens,
    "value-weighted": lambda model, trace: value_weighted(model, trace, 1),
    "taken": lambda model, trace: key_norm(model, trace, 1, 2, [0, 1]),
    "proof": lambda model, trace: difference_from_run(model, trace, 1),
    "mean over a reference": lambda model, trace: gpt2viz.trace(
        model, IDS, edits=gpt2viz.parse_edits("mean:1.2"), reference=trace
    ),
}


@pytest.fixture
def twins(tmp_path: Path) -> tuple[gpt2viz.Model, gpt2viz.Model]:
    """Two models of the same folder name and sizes, with different weights."""
    for seed, parent in enumerate("xy"):
        write_checkpoint(tmp_path / parent / "ckpt", seed=seed)
    x, y = (gpt2viz.load_model(tmp_path / parent / "ckpt") for parent in "xy")
    assert (x.name, x.config) == (y.name, y.config)
    return x, y


@pytest.mark.parametrize("analysis", ANALYSES)
def test_run_of_a_namesake_is_refused(
    twins: tuple[gpt2viz.Model, gpt2viz.Model], analysis: str
) -> None:
    x, y = twins
    ANALYSES[analysis](x, gpt2viz.trace(x, IDS))
    with pytest.raises(ValueError, match="made by another ckpt, with other weights"):
        ANALYSES[analysis](x, gpt2viz.trace(y, IDS))


def test_the_same_weights_loaded_twice_are_one_model(
    twins: tuple[gpt2viz.Model, gpt2viz.Model], tmp_path: Path
) -> None:
    x, _ = twins
    again = gpt2viz.load_model(tmp_path / "x" / "ckpt")
    shutil.copytree(tmp_path / "x", tmp_path / "z")
    copy = gpt2viz.load_model(tmp_path / "z" / "ckpt")
    for other in (again, copy):
        gpt2viz.trace(other, IDS).check_made_by(x)
        gpt2viz.trace(x, IDS).check_made_by(other)


def test_checksum_is_computed_once_and_never_for_own_runs(
    twins: tuple[gpt2viz.Model, gpt2viz.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    original = fingerprint.sha256_of

    def count_reads(*files: Path) -> str:
        read.extend(files)
        return original(*files)

    monkeypatch.setattr(fingerprint, "sha256_of", count_reads)
    x, y = twins
    for _ in range(3):
        gpt2viz.contributions(x, gpt2viz.trace(x, IDS), 7)
    assert read == []
    for _ in range(3):
        with pytest.raises(ValueError, match="made by another ckpt"):
            gpt2viz.contributions(x, gpt2viz.trace(y, IDS), 7)
    assert len(read) == 2


def test_overwritten_weights_are_another_model(
    twins: tuple[gpt2viz.Model, gpt2viz.Model], tmp_path: Path
) -> None:
    """A training writes each checkpoint into the same folder."""
    x, _ = twins
    before = gpt2viz.trace(x, IDS)
    folder = tmp_path / "x" / "ckpt"
    (folder / "model.safetensors").unlink()
    later = gpt2viz.load_model(write_checkpoint(folder, seed=2))
    before.check_made_by(x)
    with pytest.raises(ValueError, match="made by another ckpt"):
        before.check_made_by(later)


def test_models_differ_after_their_files_are_deleted(
    twins: tuple[gpt2viz.Model, gpt2viz.Model], tmp_path: Path
) -> None:
    x, y = twins
    again = gpt2viz.load_model(tmp_path / "x" / "ckpt")
    for parent in "xy":
        shutil.rmtree(tmp_path / parent)
    for model in (x, again):
        gpt2viz.trace(x, IDS).check_made_by(model)
        with pytest.raises(ValueError, match="made by another ckpt"):
            gpt2viz.trace(y, IDS).check_made_by(model)


def test_relative_paths_are_resolved_when_loaded(
    twins: tuple[gpt2viz.Model, gpt2viz.Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, _ = twins
    monkeypatch.chdir(tmp_path / "x")
    here = gpt2viz.load_model("ckpt")
    monkeypatch.chdir(tmp_path / "y")
    there = gpt2viz.load_model("ckpt")
    gpt2viz.trace(here, IDS).check_made_by(x)
    with pytest.raises(ValueError, match="made by another ckpt"):
        gpt2viz.trace(here, IDS).check_made_by(there)
    assert here.weight_files is not None
    assert len(here.weight_files.sha256) == 64


@pytest.mark.parametrize("by_hand", [True, False], ids=["made by hand", "files written to"])
def test_models_without_a_usable_checksum_differ(
    twins: tuple[gpt2viz.Model, gpt2viz.Model], tmp_path: Path, by_hand: bool
) -> None:
    x, y = (replace(model, weight_files=None) for model in twins) if by_hand else twins
    for parent in "xy":
        with (tmp_path / parent / "ckpt" / "model.safetensors").open("ab") as file:
            file.write(b" ")
    gpt2viz.trace(x, IDS).check_made_by(x)
    with pytest.raises(ValueError, match="made by another ckpt"):
        gpt2viz.trace(y, IDS).check_made_by(x)

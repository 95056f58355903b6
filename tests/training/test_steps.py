"""The checkpoints of a training that are shipped: their choice, size and measurements."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis.scores import recorded_scores
from gpt2viz.anatomy.training_record import read_record
from gpt2viz.training import steps as command
from gpt2viz.training.steps import keep_steps, pick
from gpt2viz.training.train import measure
from tests.checkpoints import TEXT, write_checkpoint

HELD_OUT = np.random.default_rng(0).integers(0, 400, (2, 24))


def point(step: int, score: float = 0.0) -> dict[str, Any]:
    scores = {s.record: [[score, 0.0]] for s in recorded_scores()}
    return {"step": step, "tokens": 10 * step, "train_loss": 1.0, **scores}


def write_run(folder: Path) -> None:
    """Three checkpoints of a training and its curves, one point of which has no checkpoint."""
    for step in (1, 4, 9):
        write_checkpoint(folder / "steps" / f"step-{step}", seed=step)
    shutil.copytree(folder / "steps" / "step-9", folder, dirs_exist_ok=True)
    curves = {"curves": [point(step) for step in (1, 2, 4, 9)]}
    (folder / "training.json").write_text(json.dumps(curves), encoding="utf-8")


def test_points_are_dense_where_heads_change() -> None:
    """Scores jump between 400 and 600; elsewhere the steps' logarithms decide."""
    jump = {300: 0.0, 400: 0.1, 450: 0.3, 500: 0.5, 550: 0.7, 600: 0.8}
    steps = [1, 10, 100, 200, *jump, 1000, 10_000]
    points = [point(step, jump.get(step, 0.0 if step < 400 else 0.8)) for step in steps]
    assert pick(points, 7) == [1, 100, 400, 450, 500, 550, 10_000]
    flat = [point(step) for step in (1, 2, 4, 8, 16, 32, 64)]
    assert pick(flat, 3) == [1, 8, 64]
    assert pick(flat, 99) == [1, 2, 4, 8, 16, 32, 64]


def test_each_point_is_measured_as_stored(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    shutil.copytree(tmp_path / "run" / "steps" / "step-9", tmp_path / "model")
    assert keep_steps(tmp_path / "run", tmp_path / "model", HELD_OUT, bits=3) == [1, 4, 9]
    shipped = gpt2viz.load_steps(tmp_path / "model")
    assert list(shipped) == [1, 4, 9]
    record = read_record(tmp_path / "model" / "steps", 3, 4)
    assert record is not None
    assert record.tokens.tolist() == [10, 40, 90]
    for n, (step, model) in enumerate(shipped.items()):
        result = measure(model.network, HELD_OUT)
        assert_allclose(record.held_out[n], result["held_out_loss"])
        assert_allclose(record.scores["induction"][n], result["induction"])
        original = gpt2viz.load_model(tmp_path / "run" / "steps" / f"step-{step}")
        before = measure(original.network, HELD_OUT)["held_out_loss"]
        assert (abs(record.held_out[n] - before) > 1e-4) == (step != 9)  # the model isn't rounded


def test_steps_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "run")
    shutil.copytree(tmp_path / "run" / "steps" / "step-9", tmp_path / "model")
    (tmp_path / "books.txt").write_text("\n".join([TEXT] * 60), encoding="utf-8")
    names = ["--corpus", "books.txt", "--run", "run", "--model", "model"]
    paths = [name if name.startswith("-") else str(tmp_path / name) for name in names]
    monkeypatch.setattr(sys, "argv", ["steps", *paths, "--count", "2"])
    command.main()
    printed = capsys.readouterr().out
    assert "steps 1, 9\n" in printed
    assert "step-1.safetensors: " in printed
    assert len(gpt2viz.load_steps(tmp_path / "model")) == 2
    with pytest.raises(SystemExit, match="there are checkpoints already"):
        command.main()


def test_checkpoints_of_another_run_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    shutil.copytree(tmp_path / "run" / "steps" / "step-4", tmp_path / "model")
    with pytest.raises(gpt2viz.CheckpointError, match=r"not the model that .*run ended with"):
        keep_steps(tmp_path / "run", tmp_path / "model", HELD_OUT)
    assert not (tmp_path / "model" / "steps").exists()

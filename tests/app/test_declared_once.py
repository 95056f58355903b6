"""A new page, parameter, stage or head score is declared in one place; all else follows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis.scores import SCORES, Score, WeightOn
from gpt2viz.settings import MODELS_VARIABLE
from gpt2viz.training.evaluate import head_scores
from gpt2viz.training.train import measure
from tests.app.another_page import add_declarations
from tests.app.pages import button_groups, open_page


def test_new_page_parameter_and_stage_need_one_declaration_each(tmp_path: Path) -> None:
    add_declarations(tmp_path)
    command = [sys.executable, "-m", "tests.app.another_page"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    label, script = result["menu"]
    assert label == "**Fair weather**"
    assert script == "fair_weather"
    assert result["chips"] == 4  # the sentence's tokens in the frame
    assert any("at 30 degrees" in text for text in result["read"])
    entries = [entry for entry in result["words"].split("\n\n") if entry.startswith("**")]
    assert [entry.partition("]")[0] for entry in entries] == ["**[Token", "**[Head"]
    assert result["address"] == "10"
    assert result["kept"]
    value, message = result["odd"]
    assert value == 20
    assert "degrees: 7 can't be shown here. It must be 10 or 20 or 30." in message
    assert "| `degrees` | How warm | one of the options | `20` | Fair weather |" in result["table"]


def test_new_head_score_is_recorded_in_training(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For pages, command and surveys, see ``tests/package/test_plugins.py``."""
    on_second = WeightOn(lambda ids: np.tile(np.arange(len(ids)) == 1, (len(ids), 1)))
    added = Score("second token", "mean of w(t, 1)", "It looks at token 1.", on_second)
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "trained"))
    monkeypatch.setenv(MODELS_VARIABLE, str(folder))
    monkeypatch.setitem(SCORES._known, added.name, replace(added, record="second"))
    model = gpt2viz.load_model(folder)
    ids = model.tokenizer.encode("A crane ate fish by the river")
    assert added.name in head_scores(model, "A crane ate fish by the river")
    point = {"tokens": 10, **measure(model.network, np.array([ids, ids[::-1]]))}
    rows = np.mean([every_head(model, text) for text in (ids, ids[::-1])], axis=0)
    assert_allclose(point["second"], rows[:, :, 1:, 1].mean(axis=-1), rtol=1e-4)
    (folder / "training.json").write_text(json.dumps({"curves": [point]}), encoding="utf-8")
    (score,) = [
        g for g in button_groups(open_page("training", model="trained")) if g.key == "score"
    ]
    assert score.options == ["previous token", "first token", "induction", added.name]


def every_head(model: gpt2viz.Model, ids: list[int]) -> np.ndarray:
    """The weights of every head, (n_layer, nh, T, T)."""
    run = gpt2viz.trace(model, ids)
    return np.stack([run.stage("weights", layer)[0] for layer in range(model.config.n_layer)])
